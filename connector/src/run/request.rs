//! The one retry loop: carries the operations of one batch to the sink until each is settled, is poison, or the budget has run out.
//!
//! Sends only what is still open, each class of trouble at its own pace. Splits what is too large, bisects what the server refuses as a whole.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep_until};

use super::backoff::Waits;
use super::letters::Claim;
use crate::error::{Error, Kind};
use crate::operation::Operation;
use crate::plan::batch::Slot;
use crate::plan::limits;
use crate::plan::outcome::{Class, Failure, Outcome, judge};
use crate::plan::retry::policy;
use crate::record::Fault;
use crate::sink::Sink;

/// What a request tells the line.
#[derive(Debug)]
pub(super) enum Event {
    /// These came to their end.
    Settled(Vec<(Claim, End)>),
    /// These can never succeed.
    Poison(Vec<Poison>),
    /// The request is over; with an error, what it still had is not settled.
    Over(Result<(), Error>),
}

/// How an operation that was carried out or superseded ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Indexed,
    Deleted,
    Stale,
    Absent,
    Compacted,
}

/// An operation that can never succeed.
#[derive(Debug)]
pub(super) struct Poison {
    pub(super) claim: Claim,
    pub(super) operation: Operation,
    pub(super) attempts: u32,
    pub(super) first: Option<Fault>,
    pub(super) error: Fault,
}

/// What all requests of a line share.
pub(super) struct Shared {
    pub(super) sink: Arc<dyn Sink>,
    pub(super) events: UnboundedSender<Event>,
    /// Bytes that one request may have, as learned from refusals.
    pub(super) limit: AtomicUsize,
    /// When something was settled last.
    pub(super) progress: Mutex<Instant>,
    /// Time without progress after which a request gives up.
    pub(super) give_up_after: Option<Duration>,
}

struct Open {
    slot: Slot<Claim>,
    tries: u32,
    first: Option<Fault>,
}

/// Operations that are sent together, not before `ready`.
struct Part {
    open: Vec<Open>,
    ready: Instant,
    waits: Option<(Class, Waits)>,
    last: Option<String>,
}

impl Part {
    fn now(open: Vec<Open>) -> Self {
        Self { open, ready: Instant::now(), waits: None, last: None }
    }

    fn size(&self) -> usize {
        self.open.iter().map(|open| open.slot.operation.size()).sum()
    }

    /// Two halves of this part, or nothing where there is only one operation.
    fn halves(mut self) -> Result<[Self; 2], Open> {
        if self.open.len() == 1 {
            return Err(self.open.remove(0));
        }
        let second = self.open.split_off(self.open.len() / 2);
        Ok([Self::now(self.open), Self::now(second)])
    }
}

/// Carries one batch; tells everything through the shared channel.
pub(super) async fn carry(slots: Vec<Slot<Claim>>, shared: Arc<Shared>) {
    let open = slots.into_iter().map(|slot| Open { slot, tries: 0, first: None }).collect();
    let mut request = Request { started: Instant::now(), parts: vec![Part::now(open)], shared };
    let result = request.run().await;
    request.tell(Event::Over(result));
}

struct Request {
    started: Instant,
    parts: Vec<Part>,
    shared: Arc<Shared>,
}

impl Request {
    async fn run(&mut self) -> Result<(), Error> {
        while let Some(next) = (0..self.parts.len()).min_by_key(|i| self.parts[*i].ready) {
            self.wait(next).await?;
            let part = self.parts.swap_remove(next);
            let limit = self.shared.limit.load(Ordering::Relaxed);
            if part.open.len() > 1 && part.size() > limit {
                if let Ok(halves) = part.halves() {
                    self.parts.extend(halves);
                }
                continue;
            }
            let operations: Arc<[Operation]> = part.open.iter().map(|open| open.slot.operation.clone()).collect();
            let answer = self.shared.sink.write(operations).await;
            self.answered(part, answer)?;
        }
        Ok(())
    }

    /// Waits until a part may be sent, or gives up when nothing has been settled for too long.
    async fn wait(&self, part: usize) -> Result<(), Error> {
        let part = &self.parts[part];
        let Some(give_up_after) = self.shared.give_up_after else {
            sleep_until(part.ready).await;
            return Ok(());
        };
        loop {
            let progress = *self.shared.progress.lock().unwrap_or_else(PoisonError::into_inner);
            let deadline = progress.max(self.started) + give_up_after;
            if part.last.is_some() && Instant::now() >= deadline {
                let last = part.last.as_deref().unwrap_or_default();
                let what = format!("{}: nothing was settled for {}s; last: {last}", self.shared.sink.name(), give_up_after.as_secs_f64());
                return Err(Error::new(Kind::Pending, what).help("nothing is lost: run the same command again once the cause is mended"));
            }
            sleep_until(part.ready.min(deadline)).await;
            if Instant::now() >= part.ready {
                return Ok(());
            }
        }
    }

    fn answered(&mut self, part: Part, answer: Result<Vec<crate::plan::outcome::Reply>, Failure>) -> Result<(), Error> {
        match answer {
            Ok(replies) if replies.len() == part.open.len() => self.judged(part, &replies),
            Ok(replies) => {
                let what = format!("expected {} replies, found {}", part.open.len(), replies.len());
                self.again(part, Class::Unavailable, what, None);
            }
            Err(Failure::Retry { class, what, after }) => self.again(part, class, what, after),
            Err(Failure::TooLarge { what, limit }) => {
                let size = part.size();
                let learned = limits::after_refusal(self.shared.limit.load(Ordering::Relaxed), size, limit);
                self.shared.limit.fetch_min(learned, Ordering::Relaxed);
                tracing::info!(
                    bytes = size,
                    limit = learned,
                    "the request was too large for {}; later ones are cut smaller",
                    self.shared.sink.name()
                );
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

    /// Halves a part that was refused as a whole; a single operation that is refused is poison.
    fn halve(&mut self, part: Part, fault: impl Fn() -> Fault) {
        match part.halves() {
            Ok(halves) => self.parts.extend(halves),
            Err(open) => {
                let mut fallen_back = Vec::new();
                let poison = self.poison(open, fault(), &mut fallen_back);
                self.tell(Event::Poison(vec![poison]));
                self.resume(fallen_back);
            }
        }
    }

    fn judged(&mut self, part: Part, replies: &[crate::plan::outcome::Reply]) {
        let mut settled = Vec::with_capacity(part.open.len());
        let mut poison = Vec::new();
        let mut fallen_back = Vec::new();
        let mut again: Vec<(Class, Part)> = Vec::new();
        for (mut open, reply) in part.open.into_iter().zip(replies) {
            open.tries += 1;
            let end = match judge(&open.slot.operation, reply) {
                Outcome::Indexed => End::Indexed,
                Outcome::Deleted => End::Deleted,
                Outcome::Stale => End::Stale,
                Outcome::Absent => End::Absent,
                Outcome::Rejected(fault) => {
                    poison.push(self.poison(open, fault, &mut fallen_back));
                    continue;
                }
                Outcome::Retry(class, fault) => {
                    if policy(class).tries.is_some_and(|tries| open.tries >= tries) {
                        poison.push(self.poison(open, fault, &mut fallen_back));
                        continue;
                    }
                    let what = fault.to_string();
                    open.first.get_or_insert(fault);
                    match again.iter_mut().find(|(have, _)| *have == class) {
                        Some((_, part)) => part.open.push(open),
                        None => again.push((class, Part { last: Some(what), ..Part::now(vec![open]) })),
                    }
                    continue;
                }
            };
            settled.push((open.slot.attached, end));
            settled.extend(open.slot.superseded.into_iter().map(|(_, claim)| (claim, End::Compacted)));
        }
        if !settled.is_empty() {
            *self.shared.progress.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            self.tell(Event::Settled(settled));
        }
        if !poison.is_empty() {
            self.tell(Event::Poison(poison));
        }
        self.resume(fallen_back);
        let mut waits = part.waits;
        for (class, mut part) in again {
            // The waits of a class grow as long as that class goes on.
            part.waits = waits.take_if(|(have, _)| *have == class);
            let what = part.last.take().unwrap_or_default();
            self.again(part, class, what, None);
        }
    }

    fn resume(&mut self, fallen_back: Vec<Open>) {
        if !fallen_back.is_empty() {
            self.parts.push(Part::now(fallen_back));
        }
    }

    /// Makes poison of an operation; the next lower revision that it stood for is sent in its place.
    fn poison(&self, open: Open, error: Fault, fallen_back: &mut Vec<Open>) -> Poison {
        let operation = open.slot.operation.clone();
        let (claim, next) = open.slot.fall_back();
        if let Some(slot) = next {
            fallen_back.push(Open { slot, tries: 0, first: None });
        }
        Poison { claim, operation, attempts: open.tries.max(1), first: open.first, error }
    }

    fn again(&mut self, mut part: Part, class: Class, what: String, after: Option<Duration>) {
        let mut waits = part.waits.take().filter(|(have, _)| *have == class).unwrap_or_else(|| (class, Waits::new(policy(class))));
        let wait = waits.1.next().max(after.unwrap_or_default());
        if part.last.as_ref() != Some(&what) {
            tracing::warn!(operations = part.open.len(), class = ?class, "{}: {what}; trying again", self.shared.sink.name());
        }
        part.ready = Instant::now() + wait;
        part.waits = Some(waits);
        part.last = Some(what);
        self.parts.push(part);
    }

    fn tell(&self, event: Event) {
        // The line listens until its last request is over; if it has gone, so has the run.
        let _ = self.shared.events.send(event);
    }
}
