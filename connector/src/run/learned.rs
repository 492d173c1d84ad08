//! What was learned of a sink and outlives a line: how large a request may be, how many it keeps up with, which of its indices refuse too much;
//! and which dead letters were stored.
//!
//! Sends nothing and waits for nothing but its turn.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

use super::gate::Gate;
use super::pacing::Pacing;
use super::part::Open;
use super::settings::Settings;
use super::verdicts::Verdict;
use crate::metrics::instruments::{self, Home};
use crate::plan::breaker::{Breaker, Sample, Thresholds};
use crate::plan::limits::HARD_LIMIT;
use crate::plan::outcome::Class;
use crate::record::Fault;

/// What was learned of a sink. One value for all the lines of a process that write to it, such as those of a Lambda function, which has one per
/// event: an index that refuses everything then stays stopped from one event to the next, and a record that comes again and again, because one
/// before it cannot be settled, is one dead letter and not one of each time.
#[derive(Debug)]
pub struct Learned {
    pub(super) gate: Gate,
    /// Where the sink is to be spared.
    pub(super) pacing: Option<Pacing>,
    /// Bytes that one request may have, as learned from refusals.
    pub(super) limit: AtomicUsize,
    breaker: Option<Thresholds>,
    /// By index; those that never refused anything have none.
    breakers: Mutex<HashMap<Arc<str>, Breaker>>,
    /// The ids of letters that were stored.
    letters: Mutex<HashSet<String>>,
}

/// Letters that are remembered, more than most events have; about 1 MB.
const REMEMBERED: usize = 10_000;

impl Learned {
    /// Nothing is known yet; the limits are those of the settings.
    pub fn new(settings: &Settings) -> Self {
        // Once for all lines: it would set back what those before this one show.
        instruments::announce(Home::Line);
        let most = settings.requests_in_flight.max(1);
        Self {
            gate: Gate::new(most, settings.request_bytes.saturating_mul(most)),
            pacing: settings.max_rate.map(Pacing::new),
            limit: AtomicUsize::new(settings.request_bytes.min(HARD_LIMIT)),
            breaker: settings.breaker,
            breakers: Mutex::default(),
            letters: Mutex::default(),
        }
    }

    /// Another line begins, for which nothing waits yet.
    pub(super) fn begin_again(&self) {
        self.breakers.lock().unwrap_or_else(PoisonError::into_inner).values_mut().for_each(Breaker::begin_again);
    }

    /// These letters are in the store.
    pub(super) fn stored<'a>(&self, ids: impl Iterator<Item = &'a str>) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        for id in ids {
            if letters.len() >= REMEMBERED {
                letters.clear();
            }
            letters.insert(id.to_owned());
        }
    }

    /// Whether a letter is in the store, as far as is remembered.
    pub(super) fn is_stored(&self, id: &str) -> bool {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }

    /// Keeps from becoming dead letters what an index refuses that refuses too much; it waits for its index then. `sampled` is the index of
    /// which this was a sample. What is a dead letter already, of a record that came again, is refused again and says nothing new of the index.
    pub(super) fn through_the_breaker(&self, sampled: Option<&Arc<str>>, verdicts: &mut [(Open, Verdict)]) {
        let Some(thresholds) = self.breaker else { return };
        let mut breakers = self.breakers.lock().unwrap_or_else(PoisonError::into_inner);
        if breakers.is_empty() && !verdicts.iter().any(|(_, verdict)| matches!(verdict, Verdict::Refused(_))) {
            return;
        }
        if let Some(index) = sampled
            && let Some(breaker) = breakers.get_mut(index)
            && breaker.is_stopped()
        {
            let (mut again, mut others) = (Sample::default(), Sample::default());
            for (open, verdict) in &*verdicts {
                let sample = if open.refused { &mut again } else { &mut others };
                sample.took += usize::from(matches!(verdict, Verdict::Settled(_)));
                sample.refused += usize::from(matches!(verdict, Verdict::Refused(_)));
            }
            if breaker.tried(again, others) {
                tracing::warn!(%index, "the index takes documents again; what waits for it goes on");
            }
        }
        for (open, verdict) in verdicts {
            let index = &open.slot.operation.target().index;
            match verdict {
                Verdict::Settled(_) => {
                    if let Some(breaker) = breakers.get_mut(index) {
                        breaker.took();
                    }
                }
                Verdict::Refused(_) if self.is_stored(&open.slot.attached.id()) => {}
                Verdict::Refused(fault) => {
                    let breaker = breakers.entry(index.clone()).or_insert_with(|| Breaker::new(thresholds));
                    if !breaker.refused() {
                        open.refused = true;
                        let reason = format!("the index refuses too many documents, this one with {}", fault.kind);
                        *verdict = Verdict::Again(Class::Blocked, Fault::new("too_many_refusals", reason));
                    } else if breaker.is_stopped() {
                        let (in_a_row, of_the_last) = breaker.refusals();
                        tracing::error!(
                            %index,
                            in_a_row,
                            of_the_last,
                            "the index refuses too many documents, the last with {}: it is blocked, and nothing more of it becomes a dead \
                             letter until it takes documents again; mend its mapping or the rule, or set higher breaker_in_a_row and \
                             breaker_percent",
                            fault.kind
                        );
                    }
                }
                Verdict::Again(..) => {}
            }
        }
    }
}
