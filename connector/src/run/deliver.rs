//! The whole line: a record goes in; it is decoded, planned, batched, sent, judged and settled.
//!
//! Every shell (the command, the Lambda handler, the worker) calls this and nothing else. Holds no more memory than it is given: a record
//! takes its bytes from the budget before it is decoded, and gives them back when all of it is settled. Never moves a position past what is
//! not settled, and never settles a dead letter before it is stored.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::letters::Claim;
use super::request::{End, Event, Shared, carry};
use crate::codec::{self, Content, Decoder, Unit};
use crate::error::{Error, Kind};
use crate::metrics::Counts;
use crate::plan::batch::{Batch, Cut};
use crate::plan::ledger::{Ledger, Ticket};
use crate::plan::limits::HARD_LIMIT;
use crate::plan::mapping::{Mapping, Planned};
use crate::record::{Fault, Position, Record};
use crate::sink::Sink;
use crate::store::dead_letters::{DeadLetter, DeadLetters};

/// How operations are sent.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The most bytes of one request before compression, up to 9 MiB.
    pub request_bytes: usize,
    /// The most operations of one request.
    pub request_operations: usize,
    /// The most requests at once.
    pub requests_in_flight: usize,
    /// How long an operation waits for others.
    pub linger: Duration,
    /// Time without progress after which the run gives up; `None` goes on for ever.
    pub give_up_after: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            request_bytes: 5 * 1024 * 1024,
            request_operations: 2_000,
            requests_in_flight: 4,
            linger: Duration::from_millis(200),
            give_up_after: Some(Duration::from_secs(300)),
        }
    }
}

impl Settings {
    /// Bytes of records and operations that may wait to be settled; the bodies under way take as much again as one third of the whole.
    fn budget(&self) -> usize {
        self.request_bytes.saturating_mul(self.requests_in_flight).saturating_mul(2)
    }
}

/// Letters kept back to be stored together, at most.
const LETTERS: usize = 500;
/// Bytes of their payloads, at most.
const LETTER_BYTES: usize = 4 * 1024 * 1024;

/// The line from records to a sink.
pub struct Deliver {
    decoder: Decoder,
    mapping: Mapping,
    dead_letters: Arc<DeadLetters>,
    settings: Settings,
    shared: Arc<Shared>,
    events: UnboundedReceiver<Event>,
    requests: JoinSet<()>,
    in_flight: usize,
    ledger: Ledger,
    counts: Counts,
    batch: Batch<Claim>,
    batch_since: Option<Instant>,
    letters: Vec<(DeadLetter, Ticket)>,
    letter_bytes: usize,
    units: Vec<Unit>,
    failed: Option<Error>,
    /// The ids of the letters that were stored, where somebody wants to know.
    remembered: Option<Vec<String>>,
}

impl Deliver {
    /// A line; nothing is sent before the first record.
    pub fn new(decoder: Decoder, mapping: Mapping, sink: Arc<dyn Sink>, dead_letters: Arc<DeadLetters>, settings: Settings) -> Self {
        let (sender, events) = unbounded_channel();
        let shared = Shared {
            sink,
            events: sender,
            limit: AtomicUsize::new(HARD_LIMIT),
            progress: Mutex::new(Instant::now()),
            give_up_after: settings.give_up_after,
        };
        Self {
            decoder,
            mapping,
            dead_letters,
            settings,
            shared: Arc::new(shared),
            events,
            requests: JoinSet::new(),
            in_flight: 0,
            ledger: Ledger::default(),
            counts: Counts::default(),
            batch: Batch::default(),
            batch_since: None,
            letters: Vec::new(),
            letter_bytes: 0,
            units: Vec::new(),
            failed: None,
            remembered: None,
        }
    }

    /// From now on the ids of stored dead letters are remembered. For runs of which the letters are few.
    pub(super) fn remember_letters(&mut self) {
        self.remembered.get_or_insert_default();
    }

    /// The ids of the letters stored since [`remember_letters`](Self::remember_letters).
    pub(super) fn remembered_letters(&self) -> impl Iterator<Item = &str> {
        self.remembered.iter().flatten().map(String::as_str)
    }

    /// Takes a record in; waits for room first.
    ///
    /// # Errors
    /// What ends the run: a sink that refuses the pipeline, a budget that ran out, dead letters that cannot be stored, two tables in one index.
    pub async fn push(&mut self, record: &Record) -> Result<(), Error> {
        self.room_for(record.data.len()).await?;
        self.counts.bytes += record.data.len() as u64;
        let ticket = self.ledger.enter(&record.origin, record.position.clone(), record.data.len());
        let mut units = std::mem::take(&mut self.units);
        self.decoder.decode(record, &mut units, &mut self.counts.notes);
        for (unit, number) in units.drain(..).zip(0u32..) {
            let claim = Claim {
                ticket,
                origin: record.origin.clone(),
                position: codec::position(&record.position, unit.sub),
                unit: number,
                part: unit.index,
                payload: unit.payload,
                table: None,
            };
            self.unit(claim, unit.content).await?;
        }
        self.units = units;
        self.ledger.close(ticket);
        Ok(())
    }

    /// Takes a dead letter's unit in again, under the letter's own origin, position and unit.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub async fn push_letter(&mut self, letter: &DeadLetter) -> Result<Ticket, Error> {
        self.room_for(letter.payload.len()).await?;
        self.counts.bytes += letter.payload.len() as u64;
        let origin = Arc::new(letter.origin.clone());
        let ticket = self.ledger.enter(&origin, letter.position.clone(), letter.payload.len());
        let mut units = Vec::new();
        self.decoder.user_record(None, &letter.payload, &mut units, &mut self.counts.notes);
        let wanted = units.into_iter().find(|unit| unit.index == letter.part).map(|unit| unit.content);
        let content =
            wanted.unwrap_or_else(|| Content::Fault(Fault::new("undecodable", "expected the letter's unit in its payload, found none")));
        let claim = Claim {
            ticket,
            origin,
            position: letter.position.clone(),
            unit: letter.unit,
            part: letter.part,
            payload: letter.payload.clone(),
            table: letter.table.as_deref().map(Into::into),
        };
        self.unit(claim, content).await?;
        self.ledger.close(ticket);
        Ok(ticket)
    }

    async fn unit(&mut self, mut claim: Claim, content: Content) -> Result<(), Error> {
        self.counts.received += 1;
        self.ledger.add_unit(claim.ticket);
        let planned = match content {
            Content::Skip(reason) => Planned::Skip(reason),
            Content::Fault(fault) => Planned::Fault(fault),
            Content::Revision(revision) => {
                claim.table = Some(revision.table.clone());
                self.mapping.plan(revision)?
            }
        };
        match planned {
            Planned::Skip(reason) => {
                self.counts.skip(reason);
                self.ledger.settle(claim.ticket);
            }
            Planned::Fault(fault) => self.dead_letter(claim.letter(fault), claim.ticket).await?,
            Planned::Operation(operation) => {
                let bytes = self.settings.request_bytes.min(self.shared.limit.load(Ordering::Relaxed));
                let cut = Cut { bytes, operations: self.settings.request_operations };
                if self.batch.is_full_for(&operation, cut) {
                    self.send_batch().await?;
                }
                self.ledger.grow(claim.ticket, operation.size());
                self.batch_since.get_or_insert_with(Instant::now);
                self.batch.push(operation, claim);
            }
        }
        Ok(())
    }

    /// When the operations that wait for company have waited long enough.
    pub fn linger_until(&self) -> Option<Instant> {
        let letters = (!self.letters.is_empty()).then(Instant::now);
        self.batch_since.or(letters).map(|since| since + self.settings.linger)
    }

    /// Sends what waits, stores the letters that were kept back, and hears what requests have to tell. Returns without waiting for replies.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.store_letters().await?;
        self.send_batch().await?;
        self.hear().await
    }

    /// The counts so far; what is under way is `pending`.
    pub fn counts(&self) -> Counts {
        let mut counts = self.counts.clone();
        counts.pending = counts.received - counts.settled();
        counts
    }

    /// The first position of each shard that is not settled, and how far everything is.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The first position that is not settled, in a line that reads one shard.
    pub fn first_unsettled(&self) -> Option<Position> {
        self.ledger.first_unsettled().next().map(|(_, position)| position.clone())
    }

    /// Waits until everything is settled.
    ///
    /// # Errors
    /// As [`push`](Self::push); what is not settled then shows in [`counts`](Self::counts) as pending.
    pub async fn finish(&mut self) -> Result<(), Error> {
        self.flush().await?;
        while self.in_flight > 0 {
            self.next_event().await?;
            self.hear().await?;
        }
        self.store_letters().await?;
        self.shared.sink.finish().await
    }

    /// Lets what is under way end within the time, and abandons the rest. Sends nothing more.
    pub async fn stop(&mut self, grace: Duration) {
        let until = Instant::now() + grace;
        while self.in_flight > 0 {
            match tokio::time::timeout_at(until, self.events.recv()).await {
                Ok(Some(event)) => {
                    if let Err(error) = self.heard(event).await {
                        tracing::warn!("{error}");
                    }
                }
                _ => break,
            }
        }
        if let Err(error) = self.store_letters().await {
            tracing::warn!("{error}");
        }
        self.requests.shutdown().await;
        self.in_flight = 0;
    }

    async fn room_for(&mut self, bytes: usize) -> Result<(), Error> {
        self.hear().await?;
        while self.ledger.held() > 0 && self.ledger.held() + bytes > self.settings.budget() {
            self.store_letters().await?;
            if self.in_flight == 0 {
                if self.batch.is_empty() {
                    break;
                }
                self.send_batch().await?;
            }
            self.next_event().await?;
        }
        Ok(())
    }

    async fn send_batch(&mut self) -> Result<(), Error> {
        if self.batch.is_empty() {
            return Ok(());
        }
        while self.in_flight >= self.settings.requests_in_flight {
            self.next_event().await?;
        }
        self.batch_since = None;
        self.in_flight += 1;
        let slots = self.batch.take();
        self.requests.spawn(carry(slots, self.shared.clone()));
        Ok(())
    }

    /// Takes in what requests have told already.
    async fn hear(&mut self) -> Result<(), Error> {
        while let Ok(event) = self.events.try_recv() {
            self.heard(event).await?;
        }
        self.failed.clone().map_or(Ok(()), Err)
    }

    async fn next_event(&mut self) -> Result<(), Error> {
        if let Some(event) = self.events.recv().await {
            self.heard(event).await?;
        }
        self.failed.clone().map_or(Ok(()), Err)
    }

    async fn heard(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Settled(settled) => {
                for (claim, end) in settled {
                    *match end {
                        End::Indexed => &mut self.counts.indexed,
                        End::Deleted => &mut self.counts.deleted,
                        End::Stale => &mut self.counts.stale,
                        End::Absent => &mut self.counts.absent,
                        End::Compacted => &mut self.counts.compacted,
                    } += 1;
                    self.ledger.settle(claim.ticket);
                }
            }
            Event::Poison(poison) => {
                for p in poison {
                    let letter = p.claim.refused(&p.operation, p.attempts, p.first, p.error);
                    self.dead_letter(letter, p.claim.ticket).await?;
                }
            }
            Event::Over(result) => {
                self.in_flight -= 1;
                // Finished tasks are taken out, so that the set does not grow with the run.
                while self.requests.try_join_next().is_some() {}
                if let Err(error) = result {
                    self.failed.get_or_insert(error);
                }
            }
        }
        Ok(())
    }

    async fn dead_letter(&mut self, letter: DeadLetter, ticket: Ticket) -> Result<(), Error> {
        tracing::warn!(id = %letter.id, document_id = letter.document_id.as_deref(), "dead letter: {} at {}: {}", letter.origin, letter.position, letter.error);
        self.letter_bytes += letter.payload.len();
        self.letters.push((letter, ticket));
        if self.letters.len() >= LETTERS || self.letter_bytes >= LETTER_BYTES {
            self.store_letters().await?;
        }
        Ok(())
    }

    async fn store_letters(&mut self) -> Result<(), Error> {
        if self.letters.is_empty() {
            return Ok(());
        }
        let (letters, tickets): (Vec<_>, Vec<_>) = self.letters.drain(..).unzip();
        self.letter_bytes = 0;
        if let Err(error) = self.dead_letters.append(&letters).await {
            self.failed.get_or_insert(error.clone());
            return Err(error);
        }
        self.counts.dead_letters += tickets.len() as u64;
        if let Some(remembered) = &mut self.remembered {
            remembered.extend(letters.into_iter().map(|letter| letter.id));
        }
        tickets.into_iter().for_each(|ticket| self.ledger.settle(ticket));
        Ok(())
    }
}

impl std::fmt::Debug for Deliver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deliver").field("settings", &self.settings).field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// The error of a run that was stopped by a signal.
pub fn interrupted() -> Error {
    Error::new(Kind::Interrupted, "interrupted").help("nothing is lost: run the same command again")
}
