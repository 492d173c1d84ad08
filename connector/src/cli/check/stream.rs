//! What is to be said of a stream before it is followed: whether it can be read, and what `run` would do with it.
//!
//! Reads one page of one shard, to know that it may, and takes nothing: leases stay as they are.

use std::collections::BTreeMap;

use indicatif::HumanDuration;

use super::Tried;
use crate::cli::shelf;
use crate::config::{Settings, SinkUrl};
use crate::error::{Error, Kind};
use crate::plan::checkpoint::{Begin, Checkpoint, Start};
use crate::plan::lease::Row;
use crate::plan::shards::{self, Listed};
use crate::run::clock;
use crate::source::kinesis::{Address, Failure, Kinesis};
use crate::store::checkpoints::{Checkpoints, Pipeline, Place, ShelfFile};

/// Tries a stream and the place of its checkpoints, and says what would be done.
pub(super) async fn check(settings: &Settings, address: &Address, tried: &mut Vec<Tried>) {
    let reached = reach(settings, address).await;
    let (stream, listed) = match reached {
        Ok((stream, listed, found)) => {
            tried.push(Tried::new("source", Ok(found)));
            (stream, listed)
        }
        Err(error) => return tried.push(Tried::new("source", Err(error))),
    };
    match saved(settings, &stream).await {
        Ok((place, rows)) => {
            tried.push(Tried::new("checkpoints", Ok(of_rows(&place, &rows, settings))));
            let saved: BTreeMap<String, Checkpoint> = rows.iter().map(|(shard, row)| (shard.clone(), row.checkpoint.clone())).collect();
            tried.push(intent(&stream, &listed, &saved, settings.source.start));
        }
        Err(error) => tried.push(Tried::new("checkpoints", Err(error))),
    }
}

async fn reach(settings: &Settings, address: &Address) -> Result<(Kinesis, Vec<Listed>, String), Error> {
    let stream = Kinesis::connect(address, &settings.source.aws).await?;
    let failed = |failure: Failure| Error::new(Kind::Source, format!("source: {} cannot be read: {failure}", stream.described()));
    let listed = stream.shards().await.map_err(failed)?;
    let open = listed.iter().filter(|shard| !shard.closed).count();
    if let Some(shard) = listed.iter().find(|shard| !shard.closed) {
        stream.reader(&shard.id, Begin::Latest { since: clock::millis() }).next(1).await.map_err(failed)?;
    }
    let found = format!(
        "{} can be read: {open} open and {} closed shards, records are kept for {}",
        stream.described(),
        listed.len() - open,
        HumanDuration(stream.retention())
    );
    Ok((stream, listed, found))
}

/// The place, and what is stored there of this pipeline.
async fn saved(settings: &Settings, stream: &Kinesis) -> Result<(String, Vec<(String, Row)>), Error> {
    // One that is made with the first row.
    if let (SinkUrl::Local(path), Place::Sink) = (&settings.sink.url, &settings.checkpoints.place)
        && !path.exists()
    {
        return Ok((settings.sink.url.to_string(), Vec::new()));
    }
    if let Place::File(path) = &settings.checkpoints.place {
        // Tries to write there, which `existing` does not.
        ShelfFile::open(path)?;
    }
    let shelf = shelf::existing(settings, false).await?;
    let pipeline = Pipeline { name: settings.name.clone(), stream: stream.arn().to_owned() };
    let rows = Checkpoints::new(shelf.clone(), pipeline).read().await?;
    Ok((shelf.name().to_owned(), rows.into_iter().map(|(shard, _, row)| (shard, row)).collect()))
}

fn of_rows(place: &str, rows: &[(String, Row)], settings: &Settings) -> String {
    if rows.is_empty() {
        return format!("{place}: none of {} yet", settings.name);
    }
    let now = clock::millis();
    let owners: std::collections::BTreeSet<&str> = rows
        .iter()
        .filter(|(_, row)| row.is_recent(now))
        .filter_map(|(_, row)| row.owner.as_ref().map(|owner| owner.name.as_str()))
        .collect();
    let who = if owners.is_empty() {
        "no worker runs".to_owned()
    } else {
        format!("read by {}", owners.into_iter().collect::<Vec<_>>().join(", "))
    };
    format!("{place}: {} shards of {}, {who}", rows.len(), settings.name)
}

/// What `run` would do.
fn intent(stream: &Kinesis, listed: &[Listed], saved: &BTreeMap<String, Checkpoint>, start: Start) -> Tried {
    let now = clock::millis();
    let plan = shards::plan(listed, saved, start, now);
    let goes_on = plan.read.iter().filter(|(shard, _)| saved.contains_key(shard)).count();
    let from = match start {
        Start::Earliest => "their oldest record",
        Start::Latest => "what is written from then on",
        Start::Timestamp(_) => "the time of start",
    };
    let mut found = format!("would go on in {goes_on} shards from their checkpoints, begin with {} at {from}", plan.read.len() - goes_on);
    if !plan.waiting.is_empty() {
        found.push_str(&format!(", and read {} after their parents", plan.waiting.len()));
    }
    let aged = saved.values().filter_map(|checkpoint| shards::lost_to_age(checkpoint.covered?, stream.retention(), now)).max();
    let mut tried = Tried::new("run", Ok(found));
    if !plan.vanished.is_empty() || aged.is_some() {
        tried.attention = true;
        let lost = aged.map_or_else(
            || format!("{} shards are gone that were not read to their end", plan.vanished.len()),
            |lost| format!("what was written in up to {} may be gone before it was read", HumanDuration(lost)),
        );
        tried.help = Some(format!("data loss: {lost}; what the stream still has is delivered, or nothing with on_data_loss = \"stop\""));
    }
    tried
}
