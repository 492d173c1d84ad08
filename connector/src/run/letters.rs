//! Where a unit came from, the dead letter that is made of it when it can never succeed, and the letters that wait to be stored together.
//!
//! A letter is kept until the store has said that it has it, so that a store that fails, or a caller that goes away meanwhile, loses none.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::clock;
use crate::error::Error;
use crate::operation::Operation;
use crate::plan::ledger::Ticket;
use crate::record::{Fault, Origin, Position};
use crate::store::dead_letters::{DeadLetter, DeadLetters, FORMAT_VERSION, identify};

/// What is known of a unit from its record on.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) ticket: Ticket,
    pub(super) origin: Arc<Origin>,
    pub(super) position: Position,
    /// The unit's place in its record, from 0.
    pub(super) unit: u32,
    /// The unit's place in `payload`, from 0.
    pub(super) part: u32,
    pub(super) payload: Bytes,
    pub(super) table: Option<Arc<str>>,
}

impl Claim {
    /// The letter of a unit that did not become an operation.
    pub(super) fn letter(&self, error: Fault) -> DeadLetter {
        DeadLetter {
            v: FORMAT_VERSION,
            id: identify(&self.origin, &self.position, self.unit),
            time: clock::now(),
            origin: (*self.origin).clone(),
            position: self.position.clone(),
            unit: self.unit,
            part: self.part,
            format: "qldb".to_owned(),
            table: self.table.as_ref().map(|table| table.to_string()),
            document_id: None,
            version: None,
            index: None,
            action: None,
            attempts: 0,
            error,
            first_error: None,
            connector: env!("CARGO_PKG_VERSION").to_owned(),
            payload: self.payload.clone(),
        }
    }

    /// The letter of an operation that the sink refused.
    pub(super) fn refused(&self, operation: &Operation, attempts: u32, first: Option<Fault>, error: Fault) -> DeadLetter {
        let target = operation.target();
        DeadLetter {
            document_id: Some(target.id.clone()),
            version: Some(target.version),
            index: Some(target.index.to_string()),
            action: Some(operation.action().to_owned()),
            attempts,
            first_error: first.filter(|first| *first != error),
            ..self.letter(error)
        }
    }
}

/// Letters kept back to be stored together, at most.
const LETTERS: usize = 500;
/// Bytes of their payloads, at most.
const LETTER_BYTES: usize = 4 * 1024 * 1024;
/// Letters of a run that are each told in the log; of those that follow, one in a while.
const TOLD: u64 = 20;
/// How long nothing is said of letters then.
const PAUSE: Duration = Duration::from_secs(10);

/// Letters that wait to be stored, and how many were.
pub(super) struct Letters {
    store: Arc<DeadLetters>,
    waiting: Vec<DeadLetter>,
    /// Of each waiting letter its record.
    tickets: Vec<Ticket>,
    bytes: usize,
    since: Option<Instant>,
    made: u64,
    told: Option<Instant>,
    /// The ids of the letters that were stored, where somebody wants to know.
    remembered: Option<Vec<String>>,
}

impl Letters {
    pub(super) fn new(store: Arc<DeadLetters>) -> Self {
        Self { store, waiting: Vec::new(), tickets: Vec::new(), bytes: 0, since: None, made: 0, told: None, remembered: None }
    }

    /// From now on the ids of stored letters are remembered.
    pub(super) fn remember(&mut self) {
        self.remembered.get_or_insert_default();
    }

    /// The ids of the letters stored since [`remember`](Self::remember).
    pub(super) fn remembered(&self) -> impl Iterator<Item = &str> {
        self.remembered.iter().flatten().map(String::as_str)
    }

    /// Takes a letter in.
    pub(super) fn push(&mut self, letter: DeadLetter, ticket: Ticket) {
        self.tell(&letter);
        self.since.get_or_insert_with(Instant::now);
        self.bytes += letter.payload.len();
        self.waiting.push(letter);
        self.tickets.push(ticket);
    }

    fn tell(&mut self, letter: &DeadLetter) {
        self.made += 1;
        let now = Instant::now();
        if self.made > TOLD && self.told.is_some_and(|told| now.duration_since(told) < PAUSE) {
            return;
        }
        self.told = Some(now);
        let DeadLetter { origin, position, error, id, .. } = letter;
        let document_id = letter.document_id.as_deref();
        tracing::warn!(%id, document_id, so_far = self.made, "dead letter: {origin} at {position}: {error}");
    }

    /// Since when the oldest letter waits.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Whether they have to be stored before more come in.
    pub(super) fn are_many(&self) -> bool {
        self.waiting.len() >= LETTERS || self.bytes >= LETTER_BYTES
    }

    /// Stores what waits; gives the records of what was stored, which may be settled now.
    ///
    /// # Errors
    /// Nothing counts as stored, and all of it still waits.
    pub(super) async fn store(&mut self) -> Result<Vec<Ticket>, Error> {
        self.store.append(&self.waiting).await?;
        let letters = self.waiting.drain(..);
        match &mut self.remembered {
            Some(remembered) => remembered.extend(letters.map(|letter| letter.id)),
            None => drop(letters),
        }
        self.bytes = 0;
        self.since = None;
        Ok(std::mem::take(&mut self.tickets))
    }
}
