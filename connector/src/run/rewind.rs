//! A pipeline's checkpoints are set back, or on: what is asked of `checkpoints rewind`.
//!
//! Never reaches a source, and never overwrites what somebody saved in between.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::clock;
use super::resume::SHARD;
use crate::error::{Error, Kind};
use crate::plan::checkpoint::{Begin, Progress};
use crate::plan::lease::Draft;
use crate::plan::stored::Written;
use crate::store::checkpoints::{Checkpoints, Kept, Shelf, survey};

/// Which checkpoints, and where to.
#[derive(Debug, Clone)]
pub struct Request {
    /// The pipeline's name; `None` for the one that there is.
    pub name: Option<String>,
    /// Of several pipelines of one name, that whose stream has this ARN or name.
    pub stream: Option<String>,
    /// One shard; `None` for all.
    pub shard: Option<String>,
    /// What is to be taken for settled.
    pub to: Progress,
    /// Also where a worker reads it: that one loses the shard, and takes it again from there.
    pub force: bool,
}

/// How often what changed in between is looked at anew, where that is forced.
const ROUNDS: usize = 5;

/// Sets checkpoints; gives what they were.
///
/// # Errors
/// There is none that was asked for; a worker reads it; or the place cannot be read or written. What was set before that stays.
pub async fn rewind(shelf: &Arc<dyn Shelf>, request: &Request) -> Result<Vec<Kept>, Error> {
    let mut rows = chosen(shelf, request).await?;
    if !request.force {
        refuse_while_read(shelf, request, &rows).await?;
    }
    let mut done: Vec<Kept> = Vec::new();
    for _ in 0..ROUNDS {
        let Some(first) = rows.first() else { return Ok(done) };
        let checkpoints = Checkpoints::new(Arc::clone(shelf), first.pipeline.clone());
        let draft = |kept: &Kept| Draft {
            shard: kept.shard.clone(),
            expect: Some(kept.stamp),
            row: Some(kept.row.rewound(request.to.clone(), clock::millis())),
        };
        let written = checkpoints.write(&rows.iter().map(draft).collect::<Vec<_>>()).await?;
        for (kept, written) in rows.into_iter().zip(written) {
            match written {
                Written::Done(_) => done.push(kept),
                Written::Conflict => {}
                Written::Failed(error) => return Err(error),
            }
        }
        rows = chosen(shelf, request).await?;
        rows.retain(|row| done.iter().all(|done| done.shard != row.shard));
        if let Some(left) = rows.first().filter(|_| !request.force) {
            let what = format!("checkpoints: that of {} changed meanwhile: a worker reads it", left.shard);
            return Err(Error::new(Kind::Checkpoints, what).help(STOP_IT));
        }
    }
    let what = format!("checkpoints: {}: they keep changing while they are written", shelf.name());
    Err(Error::new(Kind::Checkpoints, what).help("stop the worker that reads the stream"))
}

const STOP_IT: &str = "stop the worker first; or give --force: it then loses the shard, and takes it again from there";

/// The rows that are asked for, of one pipeline.
async fn chosen(shelf: &Arc<dyn Shelf>, request: &Request) -> Result<Vec<Kept>, Error> {
    let (mut rows, unreadable) = survey(&**shelf).await?;
    let place = shelf.name();
    if let Some(unreadable) = unreadable.first() {
        tracing::warn!("checkpoints: {place}: row {:?} is left as it is: {}", unreadable.id, unreadable.reason);
    }
    rows.retain(|kept| {
        let is = |wanted: &String, stream: &str| wanted == stream || stream.rsplit('/').next() == Some(wanted);
        request.name.as_ref().is_none_or(|name| *name == kept.pipeline.name)
            && request.stream.as_ref().is_none_or(|stream| is(stream, &kept.pipeline.stream))
    });
    let none = |what: String| Err(Error::usage(what).help("revsync checkpoints list shows what there is"));
    let Some(pipeline) = rows.first().map(|kept| kept.pipeline.clone()) else {
        let of = request.name.as_ref().map(|name| format!(" of a pipeline {name:?}")).unwrap_or_default();
        return none(format!("checkpoints: {place} holds none{of}"));
    };
    if let Some(other) = rows.iter().find(|kept| kept.pipeline != pipeline) {
        let (a, b) = (&pipeline, &other.pipeline);
        let which = if a.name == b.name {
            format!("{:?} of both {} and {}; say which with --stream", a.name, a.stream, b.stream)
        } else {
            format!("both {:?} and {:?}; say which with --name", a.name, b.name)
        };
        return Err(Error::usage(format!("checkpoints: {place} holds those of several pipelines: {which}")));
    }
    if let Some(shard) = &request.shard {
        rows.retain(|kept| kept.shard == *shard);
        if rows.is_empty() {
            return none(format!("checkpoints: {place} holds none of a shard {shard:?} of pipeline {:?}", pipeline.name));
        }
    }
    if request.to != Progress::Begins(Begin::Earliest) && rows.iter().any(|kept| kept.shard == SHARD) {
        let what = format!("checkpoints: that of {} is a place in files, which can be set back to earliest only", pipeline.stream);
        return Err(Error::usage(what)
            .help("rewind it to earliest, and what is indexed already is passed over; or leave it, and sync --resume goes on"));
    }
    match (&request.to, rows.len()) {
        (Progress::Settled(_), 2..) => {
            Err(Error::usage("a sequence number means something in one shard only").help("name the shard with --shard, or give a time"))
        }
        _ => Ok(rows),
    }
}

/// Refuses while one is read: by its clock its owner was heard of a moment ago, or it is seen to change.
async fn refuse_while_read(shelf: &Arc<dyn Shelf>, request: &Request, rows: &[Kept]) -> Result<(), Error> {
    let now = clock::millis();
    let refused = |kept: &Kept, heard: String| {
        let owner = kept.row.owner.as_ref().map_or("another worker", |owner| owner.name.as_str());
        Err(Error::new(Kind::Checkpoints, format!("checkpoints: {} is read by {owner}, {heard}", kept.shard)).help(STOP_IT))
    };
    if let Some(kept) = rows.iter().find(|kept| kept.row.is_recent(now)) {
        return refused(kept, format!("which was heard of {} s ago", kept.row.age(now) / 1000));
    }
    // Its clock may be wrong: whoever lives writes three times as often as this.
    let silences = rows.iter().filter_map(|kept| kept.row.owner.as_ref().map(|owner| owner.takeover_after));
    let Some(longest) = silences.max() else { return Ok(()) };
    sleep(Duration::from_millis(longest / 2)).await;
    let again = chosen(shelf, request).await?;
    let moved = again.iter().find(|now| rows.iter().any(|before| before.shard == now.shard && before.stamp != now.stamp));
    moved.map_or(Ok(()), |kept| refused(kept, "which was just heard of".to_owned()))
}
