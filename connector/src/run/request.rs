//! The one retry loop: carries the operations of one request to the sink until each is settled, is poison, has to wait for its index, or the
//! budget has run out.
//!
//! Sends only what is still open, each class of trouble at its own pace. Splits what is too large, bisects what the server refuses as a whole.
//! Never settles anything itself: it tells the line what became of each operation, and what it does not tell is not settled.

use std::future::pending;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::deliver::interrupted;
use super::pacing::Turn;
use super::part::{Open, Part, Trouble};
use super::shared::{Event, Shared};
use super::verdicts::{Groups, Verdict, by_index, verdicts};
use crate::error::{Error, Kind};
use crate::metrics::instruments;
use crate::operation::Operation;
use crate::plan::limits;
use crate::plan::outcome::{Class, Failure, Reply};
use crate::plan::retry::{LONGEST_AFTER, name};
use crate::record::Fault;

/// How a request came to its end.
#[derive(Debug)]
pub(super) struct Over {
    /// The index that it tried, where it was a sample of parked operations.
    pub(super) index: Option<Arc<str>>,
    /// What of a sample is still not settled, and why.
    pub(super) still: Option<(Vec<Open>, Trouble)>,
    /// With an error, what it still had is not settled.
    pub(super) result: Result<(), Error>,
}

/// Carries operations that were not sent yet.
pub(super) async fn carry(open: Vec<Open>, shared: Arc<Shared>) -> Over {
    let mut request = Request::new(shared, None, Instant::now());
    request.parts.push(Part::now(open));
    request.run_to_the_end().await
}

/// Tries after a while whether an index that was blocked `since` takes a sample of what waits for it.
pub(super) async fn carry_sample(index: Arc<str>, open: Vec<Open>, mut trouble: Trouble, since: Instant, shared: Arc<Shared>) -> Over {
    let mut request = Request::new(shared, Some(index), since);
    let ready = Instant::now() + trouble.waits.next().max(trouble.after.min(LONGEST_AFTER));
    request.parts.push(Part { open, ready, trouble: Some(trouble) });
    request.run_to_the_end().await
}

struct Request {
    started: Instant,
    /// How long it waited for its turns, which is no time without progress.
    waited: Duration,
    parts: Vec<Part>,
    shared: Arc<Shared>,
    stopping: watch::Receiver<bool>,
    /// Where it tries an index: what has to wait is kept for the next sample, and not handed over.
    index: Option<Arc<str>>,
    still: Option<(Vec<Open>, Trouble)>,
}

impl Request {
    fn new(shared: Arc<Shared>, index: Option<Arc<str>>, started: Instant) -> Self {
        let stopping = shared.stopping.subscribe();
        Self { started, waited: Duration::ZERO, parts: Vec::new(), shared, stopping, index, still: None }
    }

    async fn run_to_the_end(mut self) -> Over {
        let result = self.run().await;
        Over { index: self.index, still: self.still, result }
    }

    async fn run(&mut self) -> Result<(), Error> {
        while let Some(next) = (0..self.parts.len()).min_by_key(|i| self.parts[*i].ready) {
            self.wait(next).await?;
            let mut part = self.parts.swap_remove(next);
            let limit = self.shared.learned.limit.load(Ordering::Relaxed);
            if part.open.len() > 1 && part.size() > limit {
                if let Ok(halves) = part.halves() {
                    self.parts.extend(halves);
                }
                continue;
            }
            part.open.iter_mut().for_each(|open| open.attempts += 1);
            self.send(part).await?;
        }
        Ok(())
    }

    /// When to give up, as far as is known now.
    fn deadline(&self) -> Option<Instant> {
        let progress = *self.shared.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.max(self.started).checked_add(self.shared.give_up_after?)?.checked_add(self.waited)
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

    /// Waits for the next turn, where the sink is to be spared.
    async fn turn<'a>(&mut self, shared: &'a Shared) -> Result<Option<Turn<'a>>, Error> {
        let Some(pacing) = &shared.learned.pacing else { return Ok(None) };
        let asked = Instant::now();
        tokio::select! {
            biased;
            _ = self.stopping.wait_for(|stopping| *stopping) => Err(interrupted()),
            turn = pacing.turn() => {
                self.waited += asked.elapsed();
                Ok(Some(turn))
            }
        }
    }

    /// Sends a part once and does with the answer what is to be done. An answer that does not come ends the wait as a refusal would, though
    /// only after as long a time without progress.
    async fn send(&mut self, part: Part) -> Result<(), Error> {
        let shared = self.shared.clone();
        let turn = self.turn(&shared).await?;
        let (operations, bytes): (Arc<[Operation]>, usize) =
            (part.open.iter().map(|open| open.slot.operation.clone()).collect(), part.size());
        let mut answer = pin!(async {
            let pass = shared.learned.gate.enter(bytes).await;
            if let Some(turn) = turn {
                turn.sent(operations.len());
            }
            let sent = Instant::now();
            let answer = shared.sink.write(operations).await;
            (pass, sent.elapsed(), answer)
        });
        let (pass, took, answer) = loop {
            let deadline = self.deadline();
            tokio::select! {
                biased;
                answered = &mut answer => break answered,
                () = at(deadline) => {
                    if self.deadline().is_some_and(|deadline| deadline <= Instant::now()) {
                        return Err(self.gave_up(part.trouble.as_ref()));
                    }
                }
            }
        };
        instruments::request(answer_name(&answer), took, bytes);
        self.tell_reach(&answer);
        match answer {
            Ok(replies) if replies.len() == part.open.len() => {
                let throttled = self.decide(verdicts(part.open, &replies), part.trouble.as_ref());
                pass.answered(took, bytes, throttled);
            }
            Ok(replies) => {
                let what = format!("expected {} replies, found {}", part.open.len(), replies.len());
                self.again(part, Class::Unavailable, Fault::new("unmatched_replies", what), Duration::ZERO);
            }
            Err(failure) => {
                // A server that is down or overloaded is not asked by several requests at once.
                if let Failure::Retry { class: Class::Throttled | Class::Unavailable | Class::Unknown | Class::Refused, .. }
                | Failure::Unauthorized { .. }
                | Failure::Misconfigured { .. } = failure
                {
                    pass.answered(took, bytes, true);
                }
                self.failed(part, failure)?;
            }
        }
        Ok(())
    }

    /// Says whether the sink can be reached: one that throttles, or has an index that cannot be written, can be.
    fn tell_reach(&self, answer: &Result<Vec<Reply>, Failure>) {
        match answer {
            Err(Failure::Retry { class: Class::Unavailable | Class::Refused, what, .. })
            | Err(Failure::Unauthorized { what } | Failure::Misconfigured { what }) => self.shared.reached(Some(what)),
            _ => self.shared.reached(None),
        }
    }

    fn failed(&mut self, part: Part, failure: Failure) -> Result<(), Error> {
        match failure {
            Failure::Retry { class: Class::Blocked, what, after } if self.index.is_none() => {
                let fault = Fault::new(name(Class::Blocked), what);
                for (index, open) in by_index(part.open) {
                    let part = Part { trouble: part.trouble.clone(), ..Part::now(open) };
                    self.park(index, part, Class::Blocked, fault.clone(), after.unwrap_or_default());
                }
            }
            Failure::Retry { class, what, after } => {
                self.again(part, class, Fault::new(name(class), what), after.unwrap_or_default());
            }
            Failure::TooLarge { what, limit } => {
                // Of one document that is refused, the rest of the stream learns nothing.
                if part.open.len() > 1 {
                    self.learn(part.size(), limit);
                }
                self.halve(part, || Fault::new("payload_too_large", format!("one document is too large for the server: {what}")));
            }
            Failure::Invalid(fault) => self.halve(part, || fault.clone()),
            Failure::Unauthorized { what } | Failure::Misconfigured { what } if self.shared.waits_for_repair => {
                self.again(part, Class::Refused, Fault::new(name(Class::Refused), what), Duration::ZERO);
            }
            Failure::Unauthorized { what } => {
                return Err(Error::new(Kind::Sink, what).help("check the credentials and the rights of their user or role on the indices"));
            }
            Failure::Misconfigured { what } => return Err(Error::new(Kind::Sink, what)),
        }
        Ok(())
    }

    fn learn(&self, size: usize, stated: Option<usize>) {
        let learned = limits::after_refusal(self.shared.learned.limit.load(Ordering::Relaxed), size, stated);
        if learned < self.shared.learned.limit.fetch_min(learned, Ordering::Relaxed) {
            let sink = self.shared.sink.name();
            tracing::info!(bytes = size, limit = learned, "the request was too large for {sink}; later ones are cut smaller");
        }
    }

    /// Halves a part that was refused as a whole; a single operation that is refused is poison.
    fn halve(&mut self, part: Part, fault: impl Fn() -> Fault) {
        let trouble = part.trouble.clone();
        match part.halves() {
            Ok(halves) => self.parts.extend(halves),
            Err(open) => {
                self.decide(vec![(*open, Verdict::Refused(fault()))], trouble.as_ref());
            }
        }
    }

    /// Does with each operation what it is to be done with; says whether the sink asked for less.
    fn decide(&mut self, mut verdicts: Vec<(Open, Verdict)>, trouble: Option<&Trouble>) -> bool {
        self.shared.learned.through_the_breaker(self.index.as_ref(), &mut verdicts);
        let groups = Groups::of(verdicts);
        let throttled = groups.are_throttled();
        if !groups.settled.is_empty() {
            self.shared.tell(Event::Settled(groups.settled));
        }
        if !groups.refused.is_empty() {
            let poisoned = groups.refused.into_iter().map(|(open, fault)| open.poison(trouble, fault));
            let (poisoned, fallen_back): (Vec<_>, Vec<_>) = poisoned.unzip();
            self.shared.tell(Event::Poison(poisoned));
            let fallen_back: Vec<Open> = fallen_back.into_iter().flatten().collect();
            self.parts.extend((!fallen_back.is_empty()).then(|| Part::now(fallen_back)));
        }
        let part = |open| Part { trouble: trouble.cloned(), ..Part::now(open) };
        for (index, (class, fault, open)) in groups.of_index {
            if self.index.is_some() {
                self.again(part(open), class, fault, Duration::ZERO);
            } else {
                self.park(index, part(open), class, fault, Duration::ZERO);
            }
        }
        for (class, fault, open) in groups.again {
            self.again(part(open), class, fault, Duration::ZERO);
        }
        throttled
    }

    /// Sends a part again after a while, or keeps it for the next sample.
    fn again(&mut self, mut part: Part, class: Class, fault: Fault, after: Duration) {
        part.failed(class, &fault);
        // The reasons of single operations differ in their details.
        let what = if fault.kind == name(class) { &fault.reason } else { &fault.kind };
        if self.shared.notices.is_due(what) {
            let index = self.index.as_deref();
            tracing::warn!(operations = part.open.len(), index, "{}: {fault}; trying again", self.shared.sink.name());
        }
        let mut trouble = Trouble::after(part.trouble.take(), class, fault, after);
        if self.index.is_some() {
            let mut open = self.still.take().map(|(open, _)| open).unwrap_or_default();
            open.append(&mut part.open);
            self.still = Some((open, trouble));
            return;
        }
        part.ready = Instant::now() + trouble.waits.next().max(after.min(LONGEST_AFTER));
        part.trouble = Some(trouble);
        self.parts.push(part);
    }

    /// Hands over what has to wait for its index, so that what goes to other indices does not wait behind it.
    fn park(&self, index: Arc<str>, mut part: Part, class: Class, fault: Fault, after: Duration) {
        part.failed(class, &fault);
        self.shared.tell(Event::Parked(index, part.open, Box::new(Trouble::after(part.trouble, class, fault, after))));
    }
}

fn answer_name(answer: &Result<Vec<Reply>, Failure>) -> &'static str {
    match answer {
        Ok(_) => "ok",
        Err(Failure::Retry { class, .. }) => name(*class),
        Err(Failure::TooLarge { .. }) => "too_large",
        Err(Failure::Invalid(_)) => "invalid",
        Err(Failure::Unauthorized { .. } | Failure::Misconfigured { .. }) => "refused",
    }
}

/// Waits until then; for ever, where there is no such time.
pub(super) async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
