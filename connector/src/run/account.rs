//! What became of every unit that was taken in: the ledger of what is settled, the counts, the letters that wait to be stored, and the first
//! error.
//!
//! Settles nothing before what settles it is done, and counts every unit once. Sends nothing; what it waits for is the store of dead letters.

use std::sync::Arc;

use tokio::time::{Instant, sleep};

use super::backoff::Waits;
use super::clock;
use super::learned::Learned;
use super::letters::{Claim, Letters};
use super::notices::Notices;
use super::parked::ParkedIndices;
use super::shared::End;
use super::standing::{Blocked, Reach, Standing};
use super::traffic::News;
use crate::error::Error;
use crate::metrics::{Counts, Skip, instruments};
use crate::plan::batch::Slot;
use crate::plan::ledger::{Ledger, Ticket};
use crate::plan::outcome::Class;
use crate::plan::retry::policy;
use crate::record::Fault;
use crate::store::dead_letters::{DeadLetter, DeadLetters};

/// What became of every unit.
pub(super) struct Account {
    pub(super) ledger: Ledger,
    pub(super) counts: Counts,
    pub(super) letters: Letters,
    /// What ended the run.
    pub(super) failed: Option<Error>,
    /// Whether a store that fails is waited for.
    waits_for_repair: bool,
    notices: Notices,
    /// Who has to know how things stand, where anybody has.
    pub(super) standing: Option<Arc<Standing>>,
}

impl Account {
    pub(super) fn new(dead_letters: Arc<DeadLetters>, learned: Arc<Learned>, waits_for_repair: bool) -> Self {
        Self {
            ledger: Ledger::default(),
            counts: Counts::default(),
            letters: Letters::new(dead_letters, learned),
            failed: None,
            waits_for_repair,
            notices: Notices::default(),
            standing: None,
        }
    }

    /// The counts so far; what is under way is `pending`.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = self.counts.clone();
        counts.pending = counts.received - counts.settled();
        counts
    }

    /// Whether the run goes on.
    pub(super) fn good(&self) -> Result<(), Error> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// A unit comes in; its record cannot be settled without it.
    pub(super) fn receive(&mut self, claim: &Claim) {
        self.counts.received += 1;
        self.ledger.add_unit(claim.ticket);
    }

    /// There is nothing to be done for a unit.
    pub(super) fn skip(&mut self, claim: &Claim, reason: Skip) {
        self.counts.skip(reason);
        self.ledger.settle(claim.ticket);
    }

    /// Another revision of its document is sent in its place.
    #[cfg(feature = "local")]
    pub(super) fn compact(&mut self, claim: &Claim) {
        self.counts.compacted += 1;
        self.ledger.settle(claim.ticket);
    }

    /// A unit can never become an operation.
    pub(super) fn give_up(&mut self, claim: &Claim, fault: Fault) {
        self.dead_letter(claim.letter(fault), claim.ticket);
    }

    fn dead_letter(&mut self, letter: DeadLetter, ticket: Ticket) {
        if let Some(standing) = &self.standing {
            standing.state().last_dead_letter = Some((clock::millis(), letter.error.to_string()));
        }
        if self.letters.is_stored(&letter) {
            self.counts.dead_letters += 1;
            self.ledger.settle(ticket);
        } else {
            self.letters.push(letter, ticket);
        }
    }

    /// Takes in what requests have told.
    pub(super) fn apply(&mut self, news: News) {
        match news {
            News::Settled(settled) => {
                if self.standing.is_some() {
                    tell_freshness(&settled);
                }
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
                    for claim in p.covered {
                        self.counts.compacted += 1;
                        self.ledger.settle(claim.ticket);
                    }
                    self.dead_letter(p.claim.refused(&p.operation, p.attempts, p.first, p.error), p.claim.ticket);
                }
            }
            News::Failed(error) => {
                self.failed.get_or_insert(error);
            }
            News::Nothing => {}
        }
    }

    /// Stores the letters where there are so many that no more should come in.
    ///
    /// # Errors
    /// As [`store_letters`](Self::store_letters).
    pub(super) async fn store_many_letters(&mut self) -> Result<(), Error> {
        if self.letters.are_many() { self.store_letters().await } else { Ok(()) }
    }

    /// Stores the letters and settles what they are about.
    ///
    /// # Errors
    /// They could not be stored, and the run ends, unless it waits for repair; nothing of them is settled.
    pub(super) async fn store_letters(&mut self) -> Result<(), Error> {
        let mut waits = Waits::new(policy(Class::Refused));
        while self.letters.are_any() {
            let tickets = match self.letters.store().await {
                Ok(tickets) => tickets,
                Err(error) if self.waits_for_repair => {
                    // It fails in other words every time.
                    if self.notices.is_due("dead letters") {
                        tracing::warn!("{error}; trying again, and nothing more is read meanwhile");
                    }
                    self.tell_of_the_store(|reach| reach.is_not(error.to_string()));
                    sleep(waits.next()).await;
                    continue;
                }
                Err(error) => {
                    self.failed.get_or_insert_with(|| error.clone());
                    return Err(error);
                }
            };
            self.tell_of_the_store(Reach::is_there);
            self.counts.dead_letters += tickets.len() as u64;
            tickets.into_iter().for_each(|ticket| self.ledger.settle(ticket));
        }
        Ok(())
    }

    fn tell_of_the_store(&self, tell: impl FnOnce(&mut Reach)) {
        if let Some(standing) = &self.standing {
            tell(&mut standing.state().dead_letters);
        }
    }

    /// Says how things stand, to whom it has to be said.
    pub(super) fn tell_standing(&mut self, paused: bool, parked: &ParkedIndices) {
        let Some(standing) = &self.standing else { return };
        let (counts, mut state) = (self.counts(), standing.state());
        let state = &mut *state;
        if counts.settled() > state.counts.settled() {
            state.progress = Instant::now();
        }
        let answers = |counts: &Counts| counts.indexed + counts.deleted + counts.stale + counts.absent;
        state.stale.add(counts.stale - state.counts.stale, answers(&counts) - answers(&state.counts));
        (state.counts, state.paused, state.bytes_in_flight) = (counts, paused, self.ledger.held());
        let blocked = parked.indices().map(|(index, since, why)| Blocked { index: index.to_string(), since, why: why.to_string() });
        state.blocked = blocked.collect();
        for (origin, settled) in self.ledger.take_moved() {
            if let Some(shard) = state.shard(origin) {
                shard.settled = Some(settled.clone());
            }
        }
        for shard in state.shards.values_mut() {
            (shard.unsettled, shard.oldest) = (0, None);
        }
        for (origin, unsettled, oldest) in self.ledger.open() {
            if let Some(shard) = state.shard(origin) {
                (shard.unsettled, shard.oldest) = (unsettled, oldest);
            }
        }
    }
}

/// How old what the sink took was, by the time at which it was committed.
fn tell_freshness(settled: &[(Slot<Claim>, End)]) {
    let now = clock::millis();
    let written = settled.iter().filter(|(_, end)| matches!(end, End::Indexed | End::Deleted));
    instruments::freshness(written.filter_map(|(slot, _)| Some(now.saturating_sub(slot.attached.committed?))));
}
