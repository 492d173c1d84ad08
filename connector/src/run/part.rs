//! What a request carries: operations that are not settled, and why they were not settled so far.
//!
//! Plain data; sends and decides nothing.

use std::time::Duration;

use tokio::time::Instant;

use super::backoff::Waits;
use super::letters::Claim;
use crate::operation::Operation;
use crate::plan::batch::Slot;
use crate::plan::outcome::Class;
use crate::record::Fault;

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
}

impl Open {
    pub(super) fn new(slot: Slot<Claim>) -> Self {
        Self { slot, attempts: 0, unknown: 0, first: None }
    }

    pub(super) fn size(&self) -> usize {
        self.slot.operation.size()
    }

    /// Makes poison of it; the next lower revision that it stood for is sent in its place. `before` is what went wrong with its part before.
    pub(super) fn poison(self, before: Option<&Trouble>, error: Fault) -> (Poison, Option<Self>) {
        let operation = self.slot.operation.clone();
        let (claim, next) = self.slot.fall_back();
        let first = self.first.or_else(|| before.map(|before| before.first.clone()));
        (Poison { claim, operation, attempts: self.attempts, first, error, replaced: next.is_some() }, next.map(Self::new))
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

/// An operation that can never succeed.
#[derive(Debug)]
pub(super) struct Poison {
    pub(super) claim: Claim,
    pub(super) operation: Operation,
    pub(super) attempts: u32,
    pub(super) first: Option<Fault>,
    pub(super) error: Fault,
    /// A lower revision of the document is sent in its place.
    pub(super) replaced: bool,
}

/// Operations that are sent together, not before `ready`.
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

    /// Two halves of this part, or nothing where there is only one operation.
    pub(super) fn halves(mut self) -> Result<[Self; 2], Box<Open>> {
        if self.open.len() == 1 {
            return Err(Box::new(self.open.remove(0)));
        }
        let second = self.open.split_off(self.open.len() / 2);
        Ok([Self::now(self.open), Self::now(second)])
    }
}
