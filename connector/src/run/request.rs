//! The one retry loop: carries the operations of one request to the sink until each is settled, is poison, has to wait for its index, or the
//! budget has run out.
//!
//! Sends only what is still open, each class of trouble at its own pace. Splits what is too large, bisects what the server refuses as a whole.
//! Never settles anything itself: it tells the line what became of each operation, and what it does not tell is not settled.

use std::collections::HashMap;
use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until};

use super::backoff::Waits;
use super::deliver::interrupted;
use super::letters::Claim;
use super::notices::Notices;
use super::part::{Open, Part, Poison, Trouble};
use crate::error::{Error, Kind};
use crate::operation::Operation;
use crate::plan::batch::Slot;
use crate::plan::limits;
use crate::plan::outcome::{Class, Failure, Outcome, Reply, judge};
use crate::plan::retry::{LONGEST_AFTER, concerns_the_index, name, policy};
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
    pub(super) events: UnboundedSender<Event>,
    /// As many requests may be with the sink at once.
    pub(super) writes: Semaphore,
    /// Bytes that one request may have, as learned from refusals.
    pub(super) limit: AtomicUsize,
    /// When something was settled last.
    pub(super) progress: Mutex<Instant>,
    /// Time without progress after which a request gives up.
    pub(super) give_up_after: Option<Duration>,
    /// Nothing more is sent.
    pub(super) stopping: watch::Sender<bool>,
    pub(super) notices: Notices,
}

/// How a request came to its end.
#[derive(Debug)]
pub(super) struct Over {
    /// The index that it waited for, where it was a request of parked operations.
    pub(super) index: Option<Arc<str>>,
    /// The sink asked for less.
    pub(super) throttled: bool,
    /// With an error, what it still had is not settled.
    pub(super) result: Result<(), Error>,
}

/// Carries operations that were not sent yet.
pub(super) async fn carry(open: Vec<Open>, shared: Arc<Shared>) -> Over {
    Request::new(shared, None).carry(Part::now(open)).await
}

/// Carries operations that wait for one index.
pub(super) async fn carry_parked(index: Arc<str>, open: Vec<Open>, trouble: Trouble, shared: Arc<Shared>) -> Over {
    let mut request = Request::new(shared, Some(index));
    let (class, last, after) = (trouble.class, trouble.last.clone(), trouble.after);
    request.again(Part { trouble: Some(trouble), ..Part::now(open) }, class, last, after);
    request.run_to_the_end().await
}

struct Request {
    started: Instant,
    parts: Vec<Part>,
    shared: Arc<Shared>,
    stopping: watch::Receiver<bool>,
    /// Where it waits for an index, instead of handing over what has to wait.
    index: Option<Arc<str>>,
    throttled: bool,
}

impl Request {
    fn new(shared: Arc<Shared>, index: Option<Arc<str>>) -> Self {
        let stopping = shared.stopping.subscribe();
        Self { started: Instant::now(), parts: Vec::new(), shared, stopping, index, throttled: false }
    }

    async fn carry(mut self, part: Part) -> Over {
        self.parts.push(part);
        self.run_to_the_end().await
    }

    async fn run_to_the_end(mut self) -> Over {
        let result = self.run().await;
        Over { index: self.index, throttled: self.throttled, result }
    }

    async fn run(&mut self) -> Result<(), Error> {
        while let Some(next) = (0..self.parts.len()).min_by_key(|i| self.parts[*i].ready) {
            self.wait(next).await?;
            let mut part = self.parts.swap_remove(next);
            let limit = self.shared.limit.load(Ordering::Relaxed);
            if part.open.len() > 1 && part.size() > limit {
                if let Ok(halves) = part.halves() {
                    self.parts.extend(halves);
                }
                continue;
            }
            let operations: Arc<[Operation]> = part.open.iter().map(|open| open.slot.operation.clone()).collect();
            let answer = self.write(operations, part.trouble.as_ref()).await?;
            part.open.iter_mut().for_each(|open| open.attempts += 1);
            self.answered(part, answer)?;
        }
        Ok(())
    }

    /// When to give up, as far as is known now.
    fn deadline(&self) -> Option<Instant> {
        let progress = *self.shared.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.max(self.started).checked_add(self.shared.give_up_after?)
    }

    fn gave_up(&self, trouble: Option<&Trouble>) -> Error {
        let cause = match trouble {
            None => "the sink did not answer".to_owned(),
            Some(trouble) if trouble.first == trouble.last => trouble.last.to_string(),
            Some(trouble) => format!("first {}; last {}", trouble.first, trouble.last),
        };
        let seconds = self.shared.give_up_after.unwrap_or_default().as_secs_f64();
        Error::new(Kind::Pending, format!("{}: nothing was settled for {seconds}s: {cause}", self.shared.sink.name()))
            .help("nothing is lost: run the same command again once the cause is mended")
    }

    /// Waits until a part may be sent, or gives up when nothing has been settled for too long.
    async fn wait(&mut self, part: usize) -> Result<(), Error> {
        loop {
            if *self.stopping.borrow() {
                return Err(interrupted());
            }
            let Part { ready, trouble, .. } = &self.parts[part];
            let (now, deadline) = (Instant::now(), trouble.as_ref().and_then(|_| self.deadline()));
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Err(self.gave_up(trouble.as_ref()));
            }
            if *ready <= now {
                return Ok(());
            }
            let until = deadline.map_or(*ready, |deadline| deadline.min(*ready));
            tokio::select! {
                () = sleep_until(until) => {}
                _ = self.stopping.wait_for(|stopping| *stopping) => {}
            }
        }
    }

    /// Sends once. An answer that does not come ends the wait as a refusal would, though only after as long a time without progress.
    async fn write(&self, operations: Arc<[Operation]>, trouble: Option<&Trouble>) -> Result<Result<Vec<Reply>, Failure>, Error> {
        let mut answer = pin!(async {
            let _permit = self.shared.writes.acquire().await;
            self.shared.sink.write(operations).await
        });
        loop {
            let deadline = self.deadline();
            tokio::select! {
                biased;
                answer = &mut answer => return Ok(answer),
                () = at(deadline) => {
                    if self.deadline().is_some_and(|deadline| deadline <= Instant::now()) {
                        return Err(self.gave_up(trouble));
                    }
                }
            }
        }
    }

    fn answered(&mut self, part: Part, answer: Result<Vec<Reply>, Failure>) -> Result<(), Error> {
        match answer {
            Ok(replies) if replies.len() == part.open.len() => self.judged(part, &replies),
            Ok(replies) => {
                let what = format!("expected {} replies, found {}", part.open.len(), replies.len());
                self.again(part, Class::Unavailable, Fault::new("unmatched_replies", what), Duration::ZERO);
            }
            Err(Failure::Retry { class: Class::Blocked, what, after }) if self.index.is_none() => {
                let after = after.unwrap_or_default();
                let fault = Fault::new(name(Class::Blocked), what);
                let mut of_index: HashMap<Arc<str>, Vec<Open>> = HashMap::new();
                for open in part.open {
                    of_index.entry(open.slot.operation.target().index.clone()).or_default().push(open);
                }
                for (index, open) in of_index {
                    self.park(index, open, part.trouble.as_ref(), Class::Blocked, fault.clone(), after);
                }
            }
            Err(Failure::Retry { class, what, after }) => {
                self.again(part, class, Fault::new(name(class), what), after.unwrap_or_default());
            }
            Err(Failure::TooLarge { what, limit }) => {
                // Of one document that is refused, the rest of the stream learns nothing.
                if part.open.len() > 1 {
                    self.learn(part.size(), limit);
                }
                self.halve(part, || Fault::new("payload_too_large", format!("one document is too large for the server: {what}")));
            }
            Err(Failure::Invalid(fault)) => self.halve(part, || fault.clone()),
            Err(Failure::Unauthorized { what }) => {
                return Err(Error::new(Kind::Sink, what).help("check the credentials and the rights of their user or role on the indices"));
            }
            Err(Failure::Misconfigured { what }) => return Err(Error::new(Kind::Sink, what)),
        }
        Ok(())
    }

    fn learn(&self, size: usize, stated: Option<usize>) {
        let learned = limits::after_refusal(self.shared.limit.load(Ordering::Relaxed), size, stated);
        if learned < self.shared.limit.fetch_min(learned, Ordering::Relaxed) {
            let sink = self.shared.sink.name();
            tracing::info!(bytes = size, limit = learned, "the request was too large for {sink}; later ones are cut smaller");
        }
    }

    /// Halves a part that was refused as a whole; a single operation that is refused is poison.
    fn halve(&mut self, part: Part, fault: impl Fn() -> Fault) {
        match part.halves() {
            Ok(halves) => self.parts.extend(halves),
            Err(open) => {
                let (poison, next) = open.poison(None, fault());
                self.tell(Event::Poison(vec![poison]));
                self.parts.extend(next.map(|next| Part::now(vec![next])));
            }
        }
    }

    fn judged(&mut self, part: Part, replies: &[Reply]) {
        let mut settled = Vec::with_capacity(part.open.len());
        let mut poisoned = Vec::new();
        let mut again: Vec<(Class, Fault, Vec<Open>)> = Vec::new();
        let mut parked: HashMap<Arc<str>, (Class, Fault, Vec<Open>)> = HashMap::new();
        for (mut open, reply) in part.open.into_iter().zip(replies) {
            let end = match judge(&open.slot.operation, reply) {
                Outcome::Indexed => End::Indexed,
                Outcome::Deleted => End::Deleted,
                Outcome::Stale => End::Stale,
                Outcome::Absent => End::Absent,
                Outcome::Rejected(fault) => {
                    poisoned.push(open.poison(part.trouble.as_ref(), fault));
                    continue;
                }
                Outcome::Retry(class, fault) => {
                    open.unknown += u32::from(class == Class::Unknown);
                    if policy(class).tries.is_some_and(|tries| open.unknown >= tries) {
                        poisoned.push(open.poison(part.trouble.as_ref(), fault));
                        continue;
                    }
                    open.first.get_or_insert_with(|| part.trouble.as_ref().map_or(&fault, |trouble| &trouble.first).clone());
                    let (_, _, same) = if concerns_the_index(class) && self.index.is_none() {
                        parked.entry(open.slot.operation.target().index.clone()).or_insert_with(|| (class, fault, Vec::new()))
                    } else if let Some(at) = again.iter().position(|(have, ..)| *have == class) {
                        &mut again[at]
                    } else {
                        again.push((class, fault, Vec::new()));
                        let last = again.len() - 1;
                        &mut again[last]
                    };
                    same.push(open);
                    continue;
                }
            };
            settled.push((open.slot, end));
        }
        if !settled.is_empty() {
            self.tell(Event::Settled(settled));
        }
        if !poisoned.is_empty() {
            let (poisoned, fallen_back): (Vec<_>, Vec<_>) = poisoned.into_iter().unzip();
            self.tell(Event::Poison(poisoned));
            let fallen_back: Vec<Open> = fallen_back.into_iter().flatten().collect();
            self.parts.extend((!fallen_back.is_empty()).then(|| Part::now(fallen_back)));
        }
        for (index, (class, fault, open)) in parked {
            self.park(index, open, part.trouble.as_ref(), class, fault, Duration::ZERO);
        }
        for (class, fault, open) in again {
            self.again(Part { trouble: part.trouble.clone(), ..Part::now(open) }, class, fault, Duration::ZERO);
        }
    }

    fn again(&mut self, mut part: Part, class: Class, fault: Fault, after: Duration) {
        self.throttled |= class == Class::Throttled;
        // The reasons of single operations differ in their details.
        let what = if fault.kind == name(class) { &fault.reason } else { &fault.kind };
        if self.shared.notices.is_due(what) {
            let index = self.index.as_deref();
            tracing::warn!(operations = part.open.len(), index, "{}: {fault}; trying again", self.shared.sink.name());
        }
        let mut trouble = match part.trouble.take() {
            // The waits of a class grow as long as that class goes on.
            Some(trouble) if trouble.class == class => Trouble { last: fault, ..trouble },
            before => {
                let first = before.map_or_else(|| fault.clone(), |before| before.first);
                Trouble { class, waits: Waits::new(policy(class)), first, last: fault, after }
            }
        };
        let wait = trouble.waits.next().max(after.min(LONGEST_AFTER));
        part.ready = Instant::now() + wait;
        part.trouble = Some(trouble);
        self.parts.push(part);
    }

    /// Hands over what has to wait for its index, so that what goes to other indices does not wait behind it.
    fn park(&self, index: Arc<str>, open: Vec<Open>, before: Option<&Trouble>, class: Class, fault: Fault, after: Duration) {
        let first = before.map_or(&fault, |before| &before.first).clone();
        let trouble = Trouble { class, waits: Waits::new(policy(class)), first, last: fault, after };
        self.tell(Event::Parked(index, open, Box::new(trouble)));
    }

    fn tell(&self, event: Event) {
        if !matches!(event, Event::Parked(..)) {
            *self.shared.progress.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
        // The line listens until its last request is over; if it has gone, so has the run.
        let _ = self.shared.events.send(event);
    }
}

/// Waits until then; for ever, where there is no such time.
pub(super) async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
