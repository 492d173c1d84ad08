//! The whole line: a record goes in; it is decoded, planned, batched, sent, judged and settled.
//!
//! Every shell (the command, the Lambda handler, the worker) calls this and nothing else. Holds no more memory than it is given: a record
//! takes its bytes from the budget before it is decoded, and gives them back when all of it is settled. Never moves a position past what is
//! not settled, and never settles a dead letter before it is stored. A call that is dropped half-way leaves its record unsettled and
//! everything else as it was.

mod again;
#[cfg(feature = "local")]
mod mending;
#[cfg(feature = "local")]
pub mod sifting;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use super::account::Account;
use super::intake;
use super::learned::Learned;
use super::letters::Claim;
use super::part::OPERATION;
use super::request::at;
pub use super::settings::Settings;
use super::standing::Standing;
use super::traffic::{News, Traffic};
use crate::codec::{self, Content, Decoder};
use crate::error::{Error, Kind};
use crate::metrics::{Counts, instruments};
use crate::operation::Operation;
#[cfg(feature = "local")]
use crate::plan::fold::Sifted;
use crate::plan::ledger::{Ledger, Ticket};
use crate::plan::mapping::{Mapping, Planned, Plans};
use crate::record::{Fault, Origin, Position, Record};
use crate::sink::Sink;
use crate::store::dead_letters::{Anew, DeadLetters};
#[cfg(feature = "local")]
use crate::store::fold::Fold;

/// Bytes that are worked on before others have their turn: some milliseconds' work.
const BREATH: usize = 256 * 1024;

/// What of a record is passed over.
#[derive(Debug, Clone, Copy, Default)]
struct Passed {
    /// The number of the first unit that is not, in its record.
    number: u32,
    /// Units from the first on.
    units: u32,
    /// Parts of an aggregate up to the one with this sub-sequence number.
    sub: Option<u64>,
}

/// What becomes of a unit in the second of two indices, with a claim of its own.
type Second = Box<(Claim, Planned)>;

/// The line from records to a sink.
pub struct Deliver {
    decoder: Decoder,
    mapping: Mapping,
    settings: Settings,
    traffic: Traffic,
    account: Account,
    /// What stands, where only that is sent.
    #[cfg(feature = "local")]
    sieve: Option<Fold>,
    /// What the instruments were told last.
    told: Counts,
    /// Bytes that were read and wait to be pushed.
    ahead: usize,
    /// Bytes that were worked on since others had their turn.
    worked: usize,
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
        let settings = settings.usable();
        Self {
            decoder,
            mapping,
            settings,
            traffic: Traffic::new(sink, Arc::clone(&learned), settings),
            account: Account::new(dead_letters, learned, settings.waits_for_repair),
            #[cfg(feature = "local")]
            sieve: None,
            told: Counts::default(),
            ahead: 0,
            worked: 0,
        }
    }

    /// From now on the line says how things stand, as often as that changes. A line without this keeps nothing of the kind.
    #[must_use]
    pub fn watched_by(mut self, standing: &Arc<Standing>) -> Self {
        self.traffic.watched_by(standing);
        self.account.standing = Some(Arc::clone(standing));
        self
    }

    /// The dead letters that were sent again, with [`push_letter`](Self::push_letter), and stored again since this was asked last. Asked when
    /// everything is settled, or nothing more is sent.
    pub(super) fn take_stored_again(&mut self) -> Vec<Anew> {
        self.account.letters.take_stored()
    }

    /// So many bytes of records were read and wait to be pushed: they take their room from the budget too.
    pub(super) fn read_ahead(&mut self, bytes: usize) {
        self.ahead = bytes;
    }

    /// Bytes of records and operations that may wait to be settled.
    pub(super) fn budget(&self) -> usize {
        self.settings.budget()
    }

    /// What is settled survives the end of the power from now on, where it did not before.
    pub(super) async fn make_durable(&self) -> Result<(), Error> {
        self.traffic.sink().finish().await
    }

    /// Takes a record in; waits for room first, for the record and about as much JSON.
    ///
    /// # Errors
    /// What ends the run: a sink that refuses the pipeline, a budget that ran out, dead letters that cannot be stored, two tables in one index.
    pub async fn push(&mut self, record: &Record) -> Result<(), Error> {
        self.push_after(record, None).await
    }

    /// Takes a record in, but for the parts of an aggregate up to the one with this sub-sequence number, which are settled already.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub async fn push_after(&mut self, record: &Record, sub: Option<u64>) -> Result<(), Error> {
        let ticket = self.enter(&record.origin, &record.position, record.arrived, record.data.len()).await?;
        self.units(record, ticket, Passed { sub, ..Passed::default() }).await?;
        self.account.ledger.close(ticket);
        if self.traffic.is_quiet() {
            self.tell_standing();
        }
        Ok(())
    }

    /// A shard is not read any more: what of it is not settled is with the sink, and moves no position.
    pub fn forget(&mut self, origin: &Origin) {
        self.account.ledger.forget(origin);
        self.tell_standing();
    }

    async fn enter(&mut self, origin: &Arc<Origin>, position: &Position, arrived: Option<u64>, bytes: usize) -> Result<Ticket, Error> {
        self.room_for(2 * bytes).await?;
        self.account.counts.bytes += bytes as u64;
        Ok(self.account.ledger.enter(origin, position.clone(), arrived, bytes))
    }

    /// Takes the units of a record in, from the one behind those that are passed over on.
    async fn units(&mut self, record: &Record, ticket: Ticket, passed: Passed) -> Result<(), Error> {
        let Passed { mut number, units: mut passed, sub } = passed;
        let mut user_records = intake::open(&mut self.decoder, record);
        while let Some(user_record) = intake::next_user_record(&mut self.decoder, &mut user_records, record) {
            if sub.is_some_and(|sub| user_record.sub.is_some_and(|here| here <= sub)) {
                continue;
            }
            let mut units = self.decoder.units(&user_record);
            while let Some((part, content)) = intake::next_unit(&mut self.decoder, &mut units, &mut self.account.counts.notes) {
                if passed > 0 {
                    passed -= 1;
                    continue;
                }
                // What a record expands to beyond its first unit waits for room too.
                if number > 0 && self.account.ledger.held() > self.settings.budget() {
                    self.room_for(0).await?;
                }
                let claim = Claim {
                    ticket,
                    origin: record.origin.clone(),
                    position: codec::position(&record.position, user_record.sub),
                    unit: number,
                    part,
                    payload: user_record.payload.clone(),
                    message: user_record.message.clone(),
                    format: user_record.format,
                    table: None,
                    mode: None,
                    committed: None,
                };
                self.unit(claim, content).await?;
                number += 1;
            }
        }
        Ok(())
    }

    /// Takes in what a unit of a record holds: of a revision each of its plans is a unit of its own. Where the claim is of one mode, only that of this mode.
    async fn unit(&mut self, mut claim: Claim, content: Content) -> Result<(), Error> {
        let (first, second) = self.plans(&mut claim, content)?;
        self.planned(claim, first).await?;
        // It is rare, and is not to make every future larger.
        match second {
            None => Ok(()),
            Some(second) => Box::pin(self.planned(second.0, second.1)).await,
        }
    }

    /// What becomes of a unit; of a revision that goes to two indices the second is told with a claim of its own.
    fn plans(&mut self, claim: &mut Claim, content: Content) -> Result<(Planned, Option<Second>), Error> {
        let refused = |account: &mut Account, claim: &Claim, error| {
            account.receive(claim);
            error
        };
        let first = match content {
            Content::Skip(reason) => Planned::Skip(reason),
            Content::Fault(fault) => Planned::Fault(fault),
            Content::Refused(error) => return Err(refused(&mut self.account, claim, error)),
            Content::Block(block) => {
                claim.committed = block.committed;
                intake::plan_block(&self.mapping, block)
            }
            Content::Revision(revision) => {
                (claim.table, claim.committed) = (Some(revision.table.clone()), revision.committed);
                let plans = intake::plan(&mut self.mapping, revision, claim.mode);
                let Plans { first, second } = plans.map_err(|error| refused(&mut self.account, claim, error))?;
                let second = second.map(|plan| Box::new((Claim { mode: plan.mode, ..claim.clone() }, plan.planned)));
                claim.mode = first.mode;
                return Ok((first.planned, second));
            }
        };
        Ok((first, None))
    }

    async fn planned(&mut self, claim: Claim, planned: Planned) -> Result<(), Error> {
        self.account.receive(&claim);
        self.breathe(OPERATION + claim.payload.len()).await;
        match planned {
            Planned::Skip(reason) => self.account.skip(&claim, reason),
            Planned::Fault(fault) => {
                self.account.give_up(&claim, fault);
                self.flush_many_letters().await?;
            }
            Planned::Operation(operation) => {
                #[cfg(feature = "local")]
                let sifted = self.sift(&operation, &claim)?;
                #[cfg(feature = "local")]
                if sifted != Sifted::Stands {
                    self.sift_out(sifted, &claim);
                    return Ok(());
                }
                self.send_in_company(operation, claim).await?;
            }
        }
        Ok(())
    }

    async fn send_in_company(&mut self, operation: Operation, claim: Claim) -> Result<(), Error> {
        self.account.ledger.grow(claim.ticket, operation.size() + OPERATION);
        if self.traffic.is_full_for(&operation) {
            self.send().await?;
        }
        self.traffic.push(operation, claim);
        Ok(())
    }

    /// Gives others their turn now and then, and with them the clock: a caller's time-out is not noticed while work goes on without a break.
    async fn breathe(&mut self, bytes: usize) {
        self.worked += bytes;
        if self.worked >= BREATH {
            self.worked = 0;
            yield_now().await;
        }
    }

    /// Sends what waits, stores the letters that were kept back, and hears what requests have to tell. Returns without waiting for replies.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.hear()?;
        // First, so that it is on its way where letters cannot be stored.
        self.send().await?;
        self.account.store_letters().await
    }

    /// Does what there is to do while no record comes: sends what has waited for company long enough, stores letters, hears replies. Returns
    /// after each thing done, and waits as long as there is nothing. May be dropped at any time.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub async fn tend(&mut self) -> Result<(), Error> {
        let since = self.traffic.since().into_iter().chain(self.account.letters.since()).min();
        tokio::select! {
            biased;
            () = at(since.map(|since| self.settings.lingered(since))) => self.flush().await,
            heard = self.news(), if !self.traffic.is_quiet() => heard,
        }
    }

    /// The counts so far; what is under way is `pending`.
    pub fn counts(&self) -> Counts {
        self.account.counts()
    }

    /// The indices that cannot be written now, since when and why. What is for them waits.
    pub fn blocked(&self) -> impl Iterator<Item = (&str, Instant, &Fault)> {
        self.traffic.parked().indices().map(|(index, since, why)| (&**index, since, why))
    }

    /// The first position of each shard that is not settled, and how far everything is.
    pub fn ledger(&self) -> &Ledger {
        &self.account.ledger
    }

    /// The first position that is not settled, in a line that reads one shard.
    pub fn first_unsettled(&self) -> Option<Position> {
        self.account.ledger.first_unsettled().next().map(|(_, position)| position.clone())
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
        self.account.store_letters().await?;
        self.tell_instruments();
        self.traffic.sink().finish().await
    }

    /// Lets what is with the sink come to its end within the time, and abandons the rest. Sends nothing more, and leaves nothing under way.
    pub async fn stop(&mut self, grace: Duration) {
        let until = Instant::now() + grace;
        self.traffic.stop();
        let ended = timeout_at(until, async {
            // What waits may have waited for nothing but company, while a sink that hangs takes all the time there is.
            let stored = self.account.store_letters().await;
            while !self.traffic.is_quiet() {
                let news = self.traffic.news().await;
                self.apply(news);
            }
            stored.and(self.account.store_letters().await)
        });
        match ended.await {
            Ok(Ok(())) => {}
            // It has been told already, or will be.
            Ok(Err(error)) if self.account.failed.as_ref() == Some(&error) => {}
            Ok(Err(error)) => tracing::warn!("{error}"),
            Err(_) => tracing::warn!("what was under way did not end in {grace:?} and was abandoned; it counts as pending"),
        }
        // What came to its end while letters were waited for.
        while let Some(news) = self.traffic.old_news() {
            self.apply(news);
        }
        self.abandon().await;
    }

    /// Abandons what is under way, and comes back when nothing is any more.
    pub async fn abandon(&mut self) {
        self.traffic.abandon().await;
        self.account.letters.abandon().await;
        self.tell_instruments();
    }

    /// The line ends, and what is under way is abandoned. Gives the rules back, with the tables that were seen under them.
    pub fn into_mapping(self) -> Mapping {
        self.mapping
    }

    async fn room_for(&mut self, bytes: usize) -> Result<(), Error> {
        self.hear()?;
        self.flush_many_letters().await?;
        let mut told = false;
        loop {
            // A record that is larger than the whole budget goes alone.
            let is_full = self.account.ledger.held() > 0 && self.account.ledger.held() + self.ahead + bytes > self.settings.budget();
            let is_paused = self.is_paused();
            if !is_full && !is_paused {
                return Ok(());
            }
            if is_paused && !std::mem::replace(&mut told, true) {
                self.tell_pause();
            }
            if self.traffic.has_batch() && self.traffic.may_send() {
                self.traffic.send();
            } else if self.account.letters.are_any() {
                self.account.store_letters().await?;
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

    async fn flush_many_letters(&mut self) -> Result<(), Error> {
        if self.account.letters.are_many() { self.flush().await } else { Ok(()) }
    }

    /// Takes in what requests have told already.
    fn hear(&mut self) -> Result<(), Error> {
        while let Some(news) = self.traffic.old_news() {
            self.apply(news);
        }
        self.account.good()
    }

    async fn news(&mut self) -> Result<(), Error> {
        let news = self.traffic.news().await;
        self.apply(news);
        self.account.store_many_letters().await?;
        self.account.good()
    }

    fn apply(&mut self, news: News) {
        self.account.apply(news);
        self.tell_instruments();
    }

    fn tell_instruments(&mut self) {
        let now = self.counts();
        instruments::counted(&self.told, &now);
        instruments::under_way(self.traffic.lanes(), self.account.ledger.held(), self.traffic.parked().bytes());
        instruments::source_paused(self.is_paused());
        self.told = now;
        self.tell_standing();
    }

    /// Says how things stand, to whom it has to be said.
    pub(super) fn tell_standing(&mut self) {
        let paused = self.is_paused();
        self.account.tell_standing(paused, self.traffic.parked());
    }
}

impl std::fmt::Debug for Deliver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deliver").field("settings", &self.settings).field("counts", &self.account.counts).finish_non_exhaustive()
    }
}

/// The error of a run that was stopped by a signal.
pub fn interrupted() -> Error {
    Error::new(Kind::Interrupted, "interrupted").help("nothing is lost: run the same command again")
}
