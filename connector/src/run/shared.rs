//! What all requests of a line share: the sink, what was learned of it, and the way to tell the line what became of operations.
//!
//! Sends nothing and waits for nothing.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time::Instant;

use super::deliver::Settings;
use super::gate::Gate;
use super::letters::Claim;
use super::notices::Notices;
use super::part::{Open, Poison, Trouble};
use super::verdicts::Verdict;
use crate::plan::batch::Slot;
use crate::plan::breaker::{Breaker, Sample, Thresholds};
use crate::plan::limits::HARD_LIMIT;
use crate::plan::outcome::Class;
use crate::record::Fault;
use crate::sink::Sink;

/// What a request tells the line.
#[derive(Debug)]
pub(super) enum Event {
    /// These came to their end, and what each stood for with it.
    Settled(Vec<(Slot<Claim>, End)>),
    /// These can never succeed.
    Poison(Vec<Poison>),
    /// These have to wait for their index.
    Parked(Arc<str>, Vec<Open>, Box<Trouble>),
}

/// How an operation that was carried out ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Indexed,
    Deleted,
    Stale,
    Absent,
}

/// What all requests of a line share.
pub(super) struct Shared {
    pub(super) sink: Arc<dyn Sink>,
    events: UnboundedSender<Event>,
    pub(super) gate: Gate,
    /// Bytes that one request may have, as learned from refusals.
    pub(super) limit: AtomicUsize,
    /// When something was settled last.
    pub(super) progress: Mutex<Instant>,
    /// Time without progress after which a request gives up.
    pub(super) give_up_after: Option<Duration>,
    /// Nothing more is sent.
    pub(super) stopping: watch::Sender<bool>,
    pub(super) notices: Notices,
    breaker: Option<Thresholds>,
    /// By index; those that never refused anything have none.
    breakers: Mutex<HashMap<Arc<str>, Breaker>>,
}

impl Shared {
    pub(super) fn new(sink: Arc<dyn Sink>, events: UnboundedSender<Event>, settings: &Settings) -> Self {
        Self {
            sink,
            events,
            gate: Gate::new(settings.requests_in_flight, settings.request_bytes.saturating_mul(settings.requests_in_flight)),
            limit: AtomicUsize::new(settings.request_bytes.min(HARD_LIMIT)),
            progress: Mutex::new(Instant::now()),
            give_up_after: settings.give_up_after,
            stopping: watch::Sender::new(false),
            notices: Notices::default(),
            breaker: settings.breaker,
            breakers: Mutex::default(),
        }
    }

    pub(super) fn tell(&self, event: Event) {
        if !matches!(event, Event::Parked(..)) {
            *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
        // The line listens until its last request is over; if it has gone, so has the run.
        let _ = self.events.send(event);
    }

    /// Keeps from becoming dead letters what an index refuses that refuses too much; it waits for its index then. `sampled` is the index of
    /// which this was a sample.
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
