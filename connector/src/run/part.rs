//! What a request carries: operations that are not settled, and why they were not settled so far.
//!
//! Plain data; sends and decides nothing.

use std::time::Duration;

use tokio::time::Instant;

use super::backoff::Waits;
use super::letters::Claim;
use crate::metrics::instruments;
use crate::operation::Operation;
use crate::plan::batch::{FallenBack, Slot};
use crate::plan::outcome::Class;
use crate::plan::retry::{name, policy};
use crate::record::Fault;

/// Bytes that an operation on its way takes beside its document and its ids.
pub(super) const OPERATION: usize = 384;

/// Bytes that an operation and its claim hold.
pub(super) fn weight(operation: &Operation, claim: &Claim) -> usize {
    operation.size() + claim.payload.len() + OPERATION
}

/// An operation that is not settled.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) slot: Slot<Claim>,
    /// How often it was sent.
    pub(super) attempts: u32,
    /// How often the answer was of no known class.
    pub(super) unknown: u32,
    /// What went wrong first.
    pub(super) first: Option<Fault>,
    /// Its index refused it while it was stopped for refusing too much.
    pub(super) refused: bool,
}

impl Open {
    pub(super) fn new(slot: Slot<Claim>) -> Self {
        Self { slot, attempts: 0, unknown: 0, first: None, refused: false }
    }

    /// Bytes in a request.
    pub(super) fn size(&self) -> usize {
        self.slot.operation.size()
    }

    /// Bytes that it holds, with what it stands for.
    pub(super) fn weight(&self) -> usize {
        let superseded = self.slot.superseded.iter().map(|(operation, claim)| weight(operation, claim));
        weight(&self.slot.operation, &self.slot.attached) + superseded.sum::<usize>()
    }

    /// Makes poison of it; the next lower revision that it stood for is sent in its place. `before` is what went wrong with its part before.
    pub(super) fn poison(self, before: Option<&Trouble>, error: Fault) -> (Poison, Option<Self>) {
        let operation = self.slot.operation.clone();
        let FallenBack { attached: claim, covered, next } = self.slot.fall_back();
        let first = self.first.or_else(|| before.map(|before| before.first.clone()));
        (Poison { claim, covered, operation, attempts: self.attempts, first, error, replaced: next.is_some() }, next.map(Self::new))
    }
}

/// Why operations are sent again, and how long they wait.
#[derive(Debug, Clone)]
pub(super) struct Trouble {
    pub(super) class: Class,
    pub(super) waits: Waits,
    pub(super) first: Fault,
    pub(super) last: Fault,
    /// The server asked for this wait.
    pub(super) after: Duration,
}

impl Trouble {
    /// The trouble that comes after `before`: the waits of a class grow as long as that class goes on.
    pub(super) fn after(before: Option<Self>, class: Class, last: Fault, after: Duration) -> Self {
        match before {
            Some(before) if before.class == class => Self { last, after, ..before },
            before => {
                let first = before.map_or_else(|| last.clone(), |before| before.first);
                Self { class, waits: Waits::new(policy(class)), first, last, after }
            }
        }
    }
}

/// An operation that can never succeed.
#[derive(Debug)]
pub(super) struct Poison {
    pub(super) claim: Claim,
    /// Puts whose content it was to remove, and which are not sent any more.
    pub(super) covered: Vec<Claim>,
    pub(super) operation: Operation,
    pub(super) attempts: u32,
    pub(super) first: Option<Fault>,
    pub(super) error: Fault,
    /// A lower revision of the document is sent in its place.
    pub(super) replaced: bool,
}

/// Operations that are sent together, not before `ready`.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) open: Vec<Open>,
    pub(super) ready: Instant,
    pub(super) trouble: Option<Trouble>,
}

impl Part {
    pub(super) fn now(open: Vec<Open>) -> Self {
        Self { open, ready: Instant::now(), trouble: None }
    }

    pub(super) fn size(&self) -> usize {
        self.open.iter().map(Open::size).sum()
    }

    /// Remembers what went wrong first, and counts it.
    pub(super) fn failed(&mut self, class: Class, fault: &Fault) {
        instruments::retries(name(class), self.open.len());
        let first = self.trouble.as_ref().map_or(fault, |trouble| &trouble.first);
        for open in &mut self.open {
            open.first.get_or_insert_with(|| first.clone());
        }
    }

    /// Two halves of this part, or nothing where there is only one operation.
    pub(super) fn halves(mut self) -> Result<[Self; 2], Box<Open>> {
        if self.open.len() == 1 {
            return Err(Box::new(self.open.remove(0)));
        }
        let second = self.open.split_off(self.open.len() / 2);
        Ok([Self::now(self.open), Self::now(second)])
    }
}
