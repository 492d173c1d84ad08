//! The whole line: a record goes in; it is decoded, planned, batched, sent, judged and settled.
//!
//! Every shell (the command, the Lambda handler, the worker) calls this and nothing else. Holds no more memory than it is given: a record
//! takes its bytes from the budget before it is decoded, and gives them back when all of it is settled. Never moves a position past what is
//! not settled, and never settles a dead letter before it is stored. A call that is dropped half-way leaves its record unsettled and
//! everything else as it was.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::clock;
use super::learned::Learned;
use super::letters::{Claim, Letters};
use super::part::OPERATION;
use super::request::at;
use super::shared::End;
use super::traffic::{News, Traffic};
use crate::codec::{self, Content, Decoder};
use crate::error::{Error, Kind};
use crate::metrics::{Counts, Notes, instruments};
use crate::plan::breaker::Thresholds;
use crate::plan::ledger::{Ledger, Ticket};
use crate::plan::mapping::{Mapping, Planned};
use crate::record::{Fault, Position, Record};
use crate::sink::Sink;
use crate::store::dead_letters::{Anew, DeadLetter, DeadLetters};

/// How operations are sent.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The most bytes of one request before compression, up to 9 MiB.
    pub request_bytes: usize,
    /// The most operations of one request, at least 1.
    pub request_operations: usize,
    /// The most requests at once, at least 1.
    pub requests_in_flight: usize,
    /// How long an operation waits for others.
    pub linger: Duration,
    /// Time without progress after which the run gives up; `None` goes on for ever.
    pub give_up_after: Option<Duration>,
    /// When an index that refuses documents is stopped before more of them become dead letters; `None` never stops one.
    pub breaker: Option<Thresholds>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            request_bytes: 5 * 1024 * 1024,
            request_operations: 2_000,
            requests_in_flight: 4,
            linger: Duration::from_millis(200),
            give_up_after: Some(Duration::from_secs(300)),
            breaker: Some(Thresholds::default()),
        }
    }
}

/// The line from records to a sink.
pub struct Deliver {
    decoder: Decoder,
    mapping: Mapping,
    settings: Settings,
    traffic: Traffic,
    letters: Letters,
    ledger: Ledger,
    counts: Counts,
    failed: Option<Error>,
    /// What the instruments were told last.
    told: Counts,
    /// Bytes that were read and wait to be pushed.
    ahead: usize,
}

impl Deliver {
    /// A line to a sink of which nothing is known; nothing is sent before the first record.
    pub fn new(decoder: Decoder, mapping: Mapping, sink: Arc<dyn Sink>, dead_letters: Arc<DeadLetters>, settings: Settings) -> Self {
        let learned = Arc::new(Learned::new(&settings));
        Self::continuing(decoder, mapping, sink, learned, dead_letters, settings)
    }

    /// A line that goes by what other lines of the process learned of the sink.
    pub fn continuing(
        decoder: Decoder,
        mapping: Mapping,
        sink: Arc<dyn Sink>,
        learned: Arc<Learned>,
        dead_letters: Arc<DeadLetters>,
        settings: Settings,
    ) -> Self {
        let settings = Settings {
            request_operations: settings.request_operations.max(1),
            requests_in_flight: settings.requests_in_flight.max(1),
            ..settings
        };
        Self {
            decoder,
            mapping,
            settings,
            traffic: Traffic::new(sink, learned, settings),
            letters: Letters::new(dead_letters),
            ledger: Ledger::default(),
            counts: Counts::default(),
            failed: None,
            told: Counts::default(),
            ahead: 0,
        }
    }

    /// The dead letters that were sent again, with [`push_letter`](Self::push_letter), and stored again since this was asked last. Asked when
    /// everything is settled, or nothing more is sent.
    pub(super) fn take_stored_again(&mut self) -> Vec<Anew> {
        self.letters.take_stored()
    }

    /// So many bytes of records were read and wait to be pushed: they take their room from the budget too.
    pub(super) fn read_ahead(&mut self, bytes: usize) {
        self.ahead = bytes;
    }

    /// Takes a record in; waits for room first, for the record and about as much JSON.
    ///
    /// # Errors
    /// What ends the run: a sink that refuses the pipeline, a budget that ran out, dead letters that cannot be stored, two tables in one index.
    pub async fn push(&mut self, record: &Record) -> Result<(), Error> {
        self.room_for(2 * record.data.len()).await?;
        self.counts.bytes += record.data.len() as u64;
        let ticket = self.ledger.enter(&record.origin, record.position.clone(), record.data.len());
        let mut number = 0;
        let mut user_records = self.decoder.open(record);
        while let Some(user_record) = user_records.next(&self.decoder) {
            let mut units = self.decoder.units(&user_record);
            while let Some((part, content)) = units.next(&mut self.decoder, &mut self.counts.notes) {
                // What a record expands to beyond its first unit waits for room too.
                if number > 0 && self.ledger.held() > self.settings.budget() {
                    self.room_for(0).await?;
                }
                let claim = Claim {
                    ticket,
                    origin: record.origin.clone(),
                    position: codec::position(&record.position, user_record.sub),
                    unit: number,
                    part,
                    payload: user_record.payload.clone(),
                    table: None,
                };
                self.unit(claim, content).await?;
                number += 1;
            }
        }
        self.ledger.close(ticket);
        Ok(())
    }

    /// Takes a dead letter's unit in again, under the letter's own origin, position and unit.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub async fn push_letter(&mut self, letter: &DeadLetter) -> Result<Ticket, Error> {
        self.room_for(2 * letter.payload.len()).await?;
        self.counts.bytes += letter.payload.len() as u64;
        let origin = Arc::new(letter.origin.clone());
        let ticket = self.ledger.enter(&origin, letter.position.clone(), letter.payload.len());
        self.letters.send_again(letter);
        let content = read_again(&mut self.decoder, letter, &mut self.counts.notes);
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
                self.mapping.plan(revision, clock::millis())?
            }
        };
        match planned {
            Planned::Skip(reason) => {
                self.counts.skip(reason);
                self.ledger.settle(claim.ticket);
            }
            Planned::Fault(fault) => {
                self.letters.push(claim.letter(fault), claim.ticket);
                self.store_many_letters().await?;
            }
            Planned::Operation(operation) => {
                self.ledger.grow(claim.ticket, operation.size() + OPERATION);
                if self.traffic.is_full_for(&operation) {
                    self.send().await?;
                }
                self.traffic.push(operation, claim);
            }
        }
        Ok(())
    }

    /// Sends what waits, stores the letters that were kept back, and hears what requests have to tell. Returns without waiting for replies.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.hear().await?;
        self.store_letters().await?;
        self.send().await
    }

    /// Does what there is to do while no record comes: sends what has waited for company long enough, stores letters, hears replies. Returns
    /// after each thing done, and waits as long as there is nothing. May be dropped at any time.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub async fn tend(&mut self) -> Result<(), Error> {
        let since = self.traffic.since().into_iter().chain(self.letters.since()).min();
        tokio::select! {
            biased;
            () = at(since.map(|since| self.settings.lingered(since))) => self.flush().await,
            heard = self.news(), if !self.traffic.is_quiet() => heard,
        }
    }

    /// The counts so far; what is under way is `pending`.
    pub fn counts(&self) -> Counts {
        let mut counts = self.counts.clone();
        counts.pending = counts.received - counts.settled();
        counts
    }

    /// The indices that cannot be written now, since when and why. What is for them waits.
    pub fn blocked(&self) -> impl Iterator<Item = (&str, Instant, &Fault)> {
        self.traffic.parked().indices().map(|(index, since, why)| (&**index, since, why))
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
        while !self.traffic.is_quiet() {
            self.tend().await?;
            // What waited for its document comes back into the batch.
            if self.traffic.may_send() {
                self.traffic.send();
            }
        }
        self.store_letters().await?;
        self.tell_instruments();
        self.traffic.sink().finish().await
    }

    /// Lets what is with the sink come to its end within the time, and abandons the rest. Sends nothing more.
    pub async fn stop(&mut self, grace: Duration) {
        let until = Instant::now() + grace;
        self.traffic.stop();
        let ended = timeout_at(until, async {
            // What waits may have waited for nothing but company, while a sink that hangs takes all the time there is.
            let stored = self.store_letters().await;
            while !self.traffic.is_quiet() {
                let news = self.traffic.news().await;
                self.apply(news);
            }
            stored.and(self.store_letters().await)
        });
        match ended.await {
            Ok(Ok(())) => {}
            // It has been told already, or will be.
            Ok(Err(error)) if self.failed.as_ref() == Some(&error) => {}
            Ok(Err(error)) => tracing::warn!("{error}"),
            Err(_) => tracing::warn!("what was under way did not end in {grace:?} and was abandoned; it counts as pending"),
        }
        self.traffic.abandon().await;
        self.tell_instruments();
    }

    async fn room_for(&mut self, bytes: usize) -> Result<(), Error> {
        self.hear().await?;
        let mut told = false;
        loop {
            // A record that is larger than the whole budget goes alone.
            let is_full = self.ledger.held() > 0 && self.ledger.held() + self.ahead + bytes > self.settings.budget();
            let is_paused = self.is_paused();
            if !is_full && !is_paused {
                return Ok(());
            }
            if is_paused && !std::mem::replace(&mut told, true) {
                self.tell_pause();
            }
            if self.letters.are_any() {
                self.store_letters().await?;
            } else if self.traffic.has_batch() && self.traffic.may_send() {
                self.traffic.send();
            } else if self.traffic.is_quiet() {
                return Ok(());
            } else {
                self.news().await?;
            }
        }
    }

    /// Whether nothing more is taken in, because too much waits for indices that cannot be written.
    fn is_paused(&self) -> bool {
        self.traffic.parked().bytes() > self.settings.budget() / 2
    }

    fn tell_pause(&self) {
        if self.traffic.is_due("paused") {
            for (index, _, why) in self.traffic.parked().indices() {
                tracing::warn!(%index, "the source is paused: too much waits for this index, which cannot be written: {why}");
            }
        }
    }

    /// Sends the batch as soon as another request may be sent.
    async fn send(&mut self) -> Result<(), Error> {
        while self.traffic.has_batch() {
            if self.traffic.may_send() {
                self.traffic.send();
                break;
            }
            self.news().await?;
        }
        Ok(())
    }

    /// Takes in what requests have told already.
    async fn hear(&mut self) -> Result<(), Error> {
        while let Some(news) = self.traffic.old_news() {
            self.apply(news);
            self.store_many_letters().await?;
        }
        self.failed.clone().map_or(Ok(()), Err)
    }

    async fn news(&mut self) -> Result<(), Error> {
        let news = self.traffic.news().await;
        self.apply(news);
        self.store_many_letters().await?;
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn apply(&mut self, news: News) {
        match news {
            News::Settled(settled) => {
                for (slot, end) in settled {
                    *match end {
                        End::Indexed => &mut self.counts.indexed,
                        End::Deleted => &mut self.counts.deleted,
                        End::Stale => &mut self.counts.stale,
                        End::Absent => &mut self.counts.absent,
                    } += 1;
                    self.ledger.settle(slot.attached.ticket);
                    for (_, claim) in slot.superseded {
                        self.counts.compacted += 1;
                        self.ledger.settle(claim.ticket);
                    }
                }
            }
            News::Poison(poison) => {
                for p in poison {
                    self.letters.push(p.claim.refused(&p.operation, p.attempts, p.first, p.error), p.claim.ticket);
                }
            }
            News::Failed(error) => {
                self.failed.get_or_insert(error);
            }
            News::Nothing => {}
        }
        self.tell_instruments();
    }

    fn tell_instruments(&mut self) {
        let now = self.counts();
        instruments::counted(&self.told, &now);
        instruments::under_way(self.traffic.lanes(), self.ledger.held(), self.traffic.parked().bytes());
        instruments::source_paused(self.is_paused());
        self.told = now;
    }

    async fn store_many_letters(&mut self) -> Result<(), Error> {
        if self.letters.are_many() { self.store_letters().await } else { Ok(()) }
    }

    async fn store_letters(&mut self) -> Result<(), Error> {
        while self.letters.are_any() {
            let tickets = self.letters.store().await.inspect_err(|error| {
                self.failed.get_or_insert_with(|| error.clone());
            })?;
            self.counts.dead_letters += tickets.len() as u64;
            tickets.into_iter().for_each(|ticket| self.ledger.settle(ticket));
        }
        Ok(())
    }
}

/// The unit of a dead letter, decoded anew.
///
/// What was damaged inside of an aggregate has no format to be decoded by: unless it is a revision after all, it keeps its reason.
pub(super) fn read_again(decoder: &mut Decoder, letter: &DeadLetter, notes: &mut Notes) -> Content {
    let user_record = decoder.open_payload(&letter.payload);
    let mut units = decoder.units(&user_record);
    let content = loop {
        match units.next(decoder, notes) {
            Some((part, content)) if part == letter.part => break Some(content),
            Some(_) => {}
            None => break None,
        }
    };
    match content {
        Some(Content::Revision(revision)) => Content::Revision(revision),
        _ if letter.error.kind == "damaged_aggregate" => Content::Fault(letter.error.clone()),
        Some(content) => content,
        None => Content::Fault(Fault::new("undecodable", "expected the letter's unit in its payload, found none")),
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
