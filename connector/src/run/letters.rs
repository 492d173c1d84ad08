//! Where a unit came from, the dead letter that is made of it when it can never succeed, and the letters that wait to be stored together.
//!
//! A letter is kept until the store has said that it has it, so that a store that fails loses none; and a write goes on by itself, so that a
//! caller that goes away meanwhile loses none and stores none twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::clock;
use super::learned::Learned;
use crate::codec::Format;
use crate::error::{Error, Kind};
use crate::operation::Operation;
use crate::panics::guard;
use crate::plan::ledger::Ticket;
use crate::plan::mapping::Mode;
use crate::record::{Fault, Message, Origin, Position};
use crate::store::dead_letters::{Anew, DeadLetter, DeadLetters, FORMAT_VERSION, identify};

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
    /// What the payload has beside it, where it is a message of Kafka.
    pub(super) message: Option<Arc<Message>>,
    pub(super) format: Format,
    pub(super) table: Option<Arc<str>>,
    /// What the index is of the table's revisions, where it came to that.
    pub(super) mode: Option<Mode>,
    /// When the revision was committed at its source, in milliseconds since 1970, where it says so.
    pub(super) committed: Option<u64>,
}

impl Claim {
    /// The id of the unit's letter, should it become one.
    pub(super) fn id(&self) -> String {
        identify(&self.origin, &self.position, self.unit, self.mode, &self.payload)
    }

    /// The letter of a unit that did not become an operation.
    pub(super) fn letter(&self, error: Fault) -> DeadLetter {
        DeadLetter {
            v: FORMAT_VERSION,
            id: self.id(),
            time: clock::now(),
            first_time: None,
            origin: (*self.origin).clone(),
            position: self.position.clone(),
            unit: self.unit,
            part: self.part,
            format: self.format.as_str().to_owned(),
            table: self.table.as_ref().map(|table| table.to_string()),
            mode: self.mode,
            document_id: None,
            version: None,
            index: None,
            action: None,
            attempts: 0,
            error,
            first_error: None,
            connector: env!("CARGO_PKG_VERSION").to_owned(),
            large: None,
            message: self.message.as_deref().cloned(),
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

/// A letter, and the record that it is about.
type Waiting = (DeadLetter, Ticket);
/// Letters that are being stored, and how it went.
type Writing = JoinHandle<Result<(Vec<Waiting>, Result<(), Error>), Fault>>;

/// Letters that wait to be stored, and how many were.
pub(super) struct Letters {
    store: Arc<DeadLetters>,
    learned: Arc<Learned>,
    waiting: Vec<Waiting>,
    bytes: usize,
    /// Those that are being stored.
    writing: Option<Writing>,
    since: Option<Instant>,
    made: u64,
    told: Option<Instant>,
    /// What is known of letters that are sent again, where any are.
    again: Option<Again>,
}

/// Letters that are sent again, and which of them were stored again.
#[derive(Debug, Default)]
struct Again {
    /// When each first became a dead letter, by its id.
    since: HashMap<String, String>,
    stored: Vec<Anew>,
}

impl Letters {
    pub(super) fn new(store: Arc<DeadLetters>, learned: Arc<Learned>) -> Self {
        Self { store, learned, waiting: Vec::new(), bytes: 0, writing: None, since: None, made: 0, told: None, again: None }
    }

    /// A letter is sent again: should it be refused again, it keeps the time at which it first was, and it is remembered.
    pub(super) fn send_again(&mut self, letter: &DeadLetter) {
        let again = self.again.get_or_insert_default();
        again.since.insert(letter.id.clone(), letter.since().to_owned());
    }

    /// The letters stored since this was asked last, of runs that send letters again. What was sent again until now is forgotten.
    pub(super) fn take_stored(&mut self) -> Vec<Anew> {
        self.again.take().map(|again| again.stored).unwrap_or_default()
    }

    /// Whether another line of the process has stored a letter, of a record that came again because of others: it is told and stored no more.
    pub(super) fn is_stored(&self, letter: &DeadLetter) -> bool {
        self.again.is_none() && self.learned.is_stored(&letter.id)
    }

    /// Takes a letter in.
    pub(super) fn push(&mut self, mut letter: DeadLetter, ticket: Ticket) {
        self.since.get_or_insert_with(Instant::now);
        letter.first_time = self.again.as_ref().and_then(|again| again.since.get(&letter.id).cloned());
        self.tell(&letter);
        self.bytes += letter.payload.len();
        self.waiting.push((letter, ticket));
    }

    fn tell(&mut self, letter: &DeadLetter) {
        self.made += 1;
        let now = Instant::now();
        if self.made > TOLD && self.told.is_some_and(|told| now.duration_since(told) < PAUSE) {
            return;
        }
        self.told = Some(now);
        let DeadLetter { origin, position, error, id, attempts, .. } = letter;
        let document_id = letter.document_id.as_deref();
        let first_error = letter.first_error.as_ref().map(ToString::to_string);
        tracing::warn!(%id, document_id, attempts, first_error, so_far = self.made, "dead letter: {origin} at {position}: {error}");
    }

    /// Since when the oldest letter waits.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Whether they have to be stored before more come in.
    pub(super) fn are_many(&self) -> bool {
        self.waiting.len() >= LETTERS || self.bytes >= LETTER_BYTES
    }

    /// Whether there is any that is not stored.
    pub(super) fn are_any(&self) -> bool {
        self.writing.is_some() || !self.waiting.is_empty()
    }

    /// Stores what waits, or comes back to what is being stored; gives the records of what was stored, which may be settled now. May be dropped
    /// at any time.
    ///
    /// # Errors
    /// Nothing counts as stored, and all of it still waits.
    pub(super) async fn store(&mut self) -> Result<Vec<Ticket>, Error> {
        let writing = self.writing.get_or_insert_with(|| {
            self.bytes = 0;
            tokio::spawn(guard(write(self.store.clone(), std::mem::take(&mut self.waiting))))
        });
        let written = writing.await;
        self.writing = None;
        let unfinished = |how: &str| Error::new(Kind::DeadLetters, format!("dead letters: the work was not finished: {how}"));
        let (letters, result) = written
            .map_err(|_| unfinished("the connector is being shut down"))
            .and_then(|written| written.map_err(|panic| unfinished(&panic.reason)))?;
        if let Err(error) = result {
            self.bytes += letters.iter().map(|(letter, _)| letter.payload.len()).sum::<usize>();
            self.waiting.splice(0..0, letters);
            return Err(error);
        }
        self.since = (!self.waiting.is_empty()).then(Instant::now);
        self.learned.stored(letters.iter().map(|(letter, _)| &*letter.id));
        Ok(letters
            .into_iter()
            .map(|(letter, ticket)| {
                if let Some(again) = &mut self.again {
                    again.stored.push(Anew { moment: letter.moment(), id: letter.id });
                }
                ticket
            })
            .collect())
    }
}

impl Letters {
    /// Gives up what is being stored and comes back when nothing is any more. It may be in the store, and counts as not stored.
    pub(super) async fn abandon(&mut self) {
        if let Some(writing) = self.writing.take() {
            writing.abort();
            let _ = writing.await;
        }
    }
}

impl Drop for Letters {
    fn drop(&mut self) {
        if let Some(writing) = &self.writing {
            writing.abort();
        }
    }
}

async fn write(store: Arc<DeadLetters>, waiting: Vec<Waiting>) -> (Vec<Waiting>, Result<(), Error>) {
    let (letters, tickets): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
    let result = store.append(&letters).await;
    (letters.into_iter().zip(tickets).collect(), result)
}
