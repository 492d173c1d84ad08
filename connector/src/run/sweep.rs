//! Removes the tombstones that nothing can come after any more, index by index.
//!
//! Never removes a document by what a search says of it, nor one that is newer than what the search saw: what it found is read, and deleted
//! at the very version that was read. May be ended at any time and begun again; what is gone is gone, and the rest is found again.

use std::time::Duration;

use tokio::sync::watch;

use super::clock;
use super::patience::Patience;
use crate::error::Error;
use crate::metrics::{Kept, Swept};
use crate::operation::Operation;
use crate::plan::outcome::{Class, Failure, Outcome, judge};
use crate::plan::sweep::{self, Verdict};
use crate::record::Fault;
use crate::sink::{Candidate, Survey, Tombstones};

/// What is to be swept.
#[derive(Debug, Clone)]
pub struct Request {
    /// Indices, aliases or patterns.
    pub names: Vec<String>,
    /// Whether a name without an index is an error; if not, it is said and passed over.
    pub must_exist: bool,
    /// Tombstones that are older than this go.
    pub age: Duration,
    /// Nothing is removed, and what would be is counted.
    pub dry_run: bool,
    /// Time without progress after which the sweep gives up.
    pub give_up_after: Duration,
}

/// Sweeps. `progress` hears how many old tombstones were looked at, and of how many; `counts` holds what came of it, also after an error.
///
/// # Errors
/// A name without an index, a sink that refuses, a sink that was down for too long, a stop signal. What was removed before is counted.
pub async fn sweep(
    sink: &dyn Tombstones,
    request: &Request,
    stop: watch::Receiver<bool>,
    counts: &mut Swept,
    progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    let before = sweep::before(clock::millis(), request.age);
    let rights = "revsync setup --help lists the rights that a sweep needs";
    let patience = Patience::new(sink.name(), rights, request.give_up_after, stop);
    let mut sweeping = Sweeping { sink, request, patience, before, counts, progress, looked_at: 0, of: 0, furthest: 0 };
    let surveys = sweeping.survey().await?;
    sweeping.of = surveys.iter().map(|survey| survey.old).sum();
    for survey in surveys {
        sweeping.counts.keep(Kept::Younger, survey.younger);
        sweeping.index(&survey).await?;
    }
    Ok(())
}

struct Sweeping<'a, P> {
    sink: &'a dyn Tombstones,
    request: &'a Request,
    patience: Patience,
    before: u64,
    counts: &'a mut Swept,
    progress: P,
    looked_at: u64,
    of: u64,
    /// Pages of the index that were looked at in one go, at most.
    furthest: u64,
}

impl<P: FnMut(u64, u64)> Sweeping<'_, P> {
    /// Looks every name up, so that a wrong one is found before anything is removed.
    async fn survey(&mut self) -> Result<Vec<Survey>, Error> {
        let (sink, before) = (self.sink, self.before);
        let mut surveys: Vec<Survey> = Vec::new();
        for name in &self.request.names {
            let found = loop {
                match self.patience.asked(sink.survey(name, before)).await? {
                    Ok(found) => break found,
                    Err(failure) => self.patience.wait(failure).await?,
                }
            };
            if found.is_empty() && self.request.must_exist {
                return Err(Error::usage(format!("{}: there is no index {name}", sink.name())).help("check the name"));
            }
            if found.is_empty() {
                tracing::warn!("{}: there is no index {name} yet", sink.name());
            }
            for survey in found {
                // Two names may mean one index.
                if surveys.iter().all(|other| other.index != survey.index) {
                    surveys.push(survey);
                }
            }
        }
        Ok(surveys)
    }

    /// Sweeps one index; begins anew after an outage.
    async fn index(&mut self, survey: &Survey) -> Result<(), Error> {
        let mut looked_at = self.looked_at;
        self.furthest = 0;
        loop {
            let mut counts = Swept::default();
            let ended = self.pass(&survey.index, &mut counts).await;
            let again = match &ended {
                Ok(Err(_)) => {
                    // What was removed is; what was looked at and stays comes again.
                    counts.kept.clear();
                    looked_at += counts.swept;
                    self.looked_at = looked_at;
                    true
                }
                Ok(Ok(())) | Err(_) => false,
            };
            if !(again && self.request.dry_run) {
                self.counts.swept += counts.swept;
            }
            for (reason, count) in counts.kept {
                self.counts.keep(reason, count);
            }
            match ended? {
                Ok(()) => return Ok(()),
                Err(failure) => self.patience.wait(failure).await?,
            }
        }
    }

    /// Looks at every old tombstone of an index once.
    async fn pass(&mut self, index: &str, counts: &mut Swept) -> Result<Result<(), Failure>, Error> {
        let (sink, before) = (self.sink, self.before);
        let (mut after, mut pages) = (None, 0);
        loop {
            let page = match self.patience.asked(sink.page(index, before, after.take())).await? {
                Ok(page) => page,
                Err(failure) => return Ok(Err(failure)),
            };
            if page.found.is_empty() {
                return Ok(Ok(()));
            }
            after = Some(page.next);
            let looked_at = page.found.len() as u64;
            let old = self.old(page.found, counts);
            if self.request.dry_run {
                counts.swept += old.len() as u64;
            } else if let Err(failure) = self.remove(old, counts).await? {
                return Ok(Err(failure));
            }
            self.looked_at += looked_at;
            pages += 1;
            // To come as far as before is no progress: a server that always loses its place would be asked for ever.
            if pages > self.furthest {
                self.furthest = pages;
                self.patience.progress();
            }
            (self.progress)(self.looked_at, self.of.max(self.looked_at));
        }
    }

    /// The deletes of those that are what they look like.
    fn old(&self, found: Vec<Candidate>, counts: &mut Swept) -> Vec<Operation> {
        let mut deletes = Vec::with_capacity(found.len());
        for Candidate { target, source } in found {
            match sweep::judge(source.get().as_bytes(), self.before) {
                Verdict::Old => deletes.push(Operation::Delete { target }),
                Verdict::Younger => counts.keep(Kept::Younger, 1),
                Verdict::NewerForm => counts.keep(Kept::NewerForm, 1),
                Verdict::Foreign => counts.keep(Kept::Foreign, 1),
            }
        }
        deletes
    }

    async fn remove(&mut self, deletes: Vec<Operation>, counts: &mut Swept) -> Result<Result<(), Failure>, Error> {
        if deletes.is_empty() {
            return Ok(Ok(()));
        }
        let (sink, deletes): (_, std::sync::Arc<[Operation]>) = (self.sink, deletes.into());
        let replies = match self.patience.asked(sink.write(deletes.clone())).await? {
            Ok(replies) if replies.len() == deletes.len() => replies,
            Ok(replies) => {
                let what = format!("expected {} replies, found {}", deletes.len(), replies.len());
                return Ok(Err(Failure::Retry { class: Class::Unavailable, what, after: None }));
            }
            // An index that takes no deletes now holds up no other.
            Err(Failure::Retry { class: Class::Blocked, what, .. }) => {
                tracing::warn!("{}: {what}", sink.name());
                counts.keep(Kept::Failed, deletes.len() as u64);
                return Ok(Ok(()));
            }
            Err(failure) => return Ok(Err(failure)),
        };
        let (mut refused, mut throttled): (Option<Fault>, Option<Fault>) = (None, None);
        let swept_before = counts.swept;
        for (delete, reply) in deletes.iter().zip(&replies) {
            match judge(delete, reply) {
                Outcome::Deleted => counts.swept += 1,
                // It is gone already: a delete of the source, another sweep, or this one before an outage.
                Outcome::Absent => {}
                Outcome::Stale => counts.keep(Kept::Rewritten, 1),
                Outcome::Retry(Class::Throttled, fault) => _ = throttled.get_or_insert(fault),
                Outcome::Retry(_, fault) | Outcome::Rejected(fault) => {
                    counts.keep(Kept::Failed, 1);
                    refused.get_or_insert(fault);
                }
                Outcome::Indexed => counts.keep(Kept::Failed, 1),
            }
        }
        if let Some(fault) = refused {
            tracing::warn!("{}: a tombstone was not removed: {fault}", sink.name());
        }
        if counts.swept > swept_before {
            self.patience.progress();
        }
        let busy = |fault: Fault| Failure::Retry { class: Class::Throttled, what: fault.to_string(), after: None };
        Ok(throttled.map_or(Ok(()), |fault| Err(busy(fault))))
    }
}
