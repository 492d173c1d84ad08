//! A bounded scan: reads a source from its beginning to its end, delivers everything, and stops.
//!
//! Goes by the stream alone: no checkpoint is read, and none is written but by a run that is to be gone on with, so running it twice is as good as
//! once.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::deliver::{Deliver, interrupted};
use super::pages::{self, PAGE};
use super::request::at;
use super::resume::Resume;
use super::stopped;
use crate::error::{Error, Kind};
use crate::metrics::Counts;
use crate::panics::panicked;
use crate::source::scan::Scan;

/// How long what is under way may take after a stop signal.
const GRACE: Duration = Duration::from_secs(10);

/// Scans the source into the line and waits until all of it is settled; whether the scan is complete: nothing was lost before it could be read. `progress` hears how much of it was read so far, and the counts.
///
/// # Errors
/// What ended the scan early. Everything that could be read before is delivered first, unless the sink itself was the reason.
pub async fn sync(
    source: impl Into<Scan>,
    deliver: &mut Deliver,
    stop: watch::Receiver<bool>,
    progress: impl FnMut(u64, &Counts),
) -> Result<bool, Error> {
    sync_and_save(source, deliver, None, stop, progress).await
}

/// The same, and where `resume` is given it saves how far everything is settled, now and then and at every end but a good one.
///
/// # Errors
/// As [`sync`]; and another run saves in the same place.
pub async fn sync_and_save(
    source: impl Into<Scan>,
    deliver: &mut Deliver,
    mut resume: Option<&mut Resume>,
    mut stop: watch::Receiver<bool>,
    mut progress: impl FnMut(u64, &Counts),
) -> Result<bool, Error> {
    let source = source.into();
    let scanned = tokio::select! {
        biased;
        () = stopped(&mut stop) => Err(interrupted()),
        scanned = scan(source, deliver, resume.as_deref_mut(), &mut progress) => scanned,
    };
    let finished = match &scanned {
        Err(error) if matches!(error.kind, Kind::Interrupted | Kind::Sink | Kind::Pending | Kind::DeadLetters) => Ok(()),
        _ => tokio::select! {
            biased;
            () = stopped(&mut stop) => Err(interrupted()),
            finished = finish(deliver, resume.as_deref_mut()) => finished,
        },
    };
    let mut result = scanned.and_then(|complete| finished.map(|()| complete));
    if result.is_err() {
        deliver.stop(GRACE).await;
    }
    if let Some(resume) = resume {
        let kept = if result.is_ok() { resume.remove().await } else { resume.save(deliver).await };
        let is_incomplete = resume.is_incomplete();
        result = result.and_then(|complete| kept.map(|()| complete && !is_incomplete));
    }
    progress(u64::MAX, &deliver.counts());
    result
}

async fn scan(
    source: Scan,
    deliver: &mut Deliver,
    mut resume: Option<&mut Resume>,
    progress: &mut impl FnMut(u64, &Counts),
) -> Result<bool, Error> {
    // What is missing from the start is found anew by whoever goes on.
    let was_incomplete = resume.is_some() && source.is_incomplete();
    let mut reading = pages::next(source);
    let mut so_far = 0;
    loop {
        let (source, page) = tokio::select! {
            page = &mut reading => page.map_err(|_| panicked())?,
            tended = deliver.tend() => {
                tended?;
                progress(so_far, &deliver.counts());
                continue;
            }
            () = at(resume.as_ref().map(|resume| resume.due())) => {
                save(resume.as_deref_mut(), deliver).await?;
                continue;
            }
        };
        if let Some(resume) = &mut resume {
            resume.broke(source.first_broken());
            if !was_incomplete && source.is_incomplete() {
                resume.is_missing_something();
            }
        }
        let Some(page) = page? else { return spawn_blocking(move || !source.is_incomplete()).await.map_err(|_| panicked()) };
        so_far = page.read;
        let mut waiting = page.records.iter().map(|record| record.data.len()).sum::<usize>();
        // The next page is read while this one is worked on; not where a record alone is larger than pages are.
        let (mut unread, mut next) = (Some(source), 0);
        if let Some(source) = unread.take_if(|_| waiting <= 2 * PAGE) {
            reading = pages::next(source);
            next = PAGE;
        }
        for record in page.records {
            waiting -= record.data.len();
            deliver.read_ahead(waiting + next);
            deliver.push(&record).await?;
            if let Some(resume) = &mut resume {
                resume.pushed(&record);
                if resume.due() <= Instant::now() {
                    resume.save(deliver).await?;
                }
            }
        }
        deliver.read_ahead(0);
        if let Some(source) = unread {
            reading = pages::next(source);
        }
        progress(so_far, &deliver.counts());
    }
}

/// Waits until everything is settled, and saves meanwhile how far it is.
async fn finish(deliver: &mut Deliver, mut resume: Option<&mut Resume>) -> Result<(), Error> {
    loop {
        // What comes after the last is settled is not broken off: it may take its time.
        let due = resume.as_ref().map(|resume| resume.due()).filter(|_| !deliver.ledger().is_settled());
        tokio::select! {
            biased;
            finished = deliver.finish() => return finished,
            () = at(due) => {}
        }
        save(resume.as_deref_mut(), deliver).await?;
    }
}

async fn save(resume: Option<&mut Resume>, deliver: &mut Deliver) -> Result<(), Error> {
    match resume {
        Some(resume) => resume.save(deliver).await,
        None => Ok(()),
    }
}
