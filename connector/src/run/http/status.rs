//! How a pipeline stands, as it is told: the JSON of `/status`, which the page is written from too.
//!
//! Names and reasons only, never a value of a document.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::metrics::{Loss, Report};
use crate::plan::health::{Headline, Phase, Place, Reach};
use crate::run::standing::{Shard, ShardPhase, State};

/// How a pipeline stands.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    pub(super) version: &'static str,
    pub(super) pipeline: String,
    pub(super) owner: String,
    pub(super) time: String,
    #[serde(serialize_with = "headline")]
    pub(super) headline: Headline,
    pub(super) phase: &'static str,
    pub(super) waits_for: Option<String>,
    pub(super) uptime_seconds: u64,
    pub(super) live: bool,
    /// Why it is not live.
    pub(super) stuck: Option<String>,
    pub(super) ready: bool,
    /// Why it is not ready.
    pub(super) reasons: Vec<String>,
    pub(super) source: Side,
    pub(super) sink: Side,
    pub(super) checkpoints: Side,
    pub(super) dead_letters: Side,
    pub(super) counts: Value,
    pub(super) received_per_second: f64,
    pub(super) settled_per_second: f64,
    pub(super) stale_ratio: Option<f64>,
    pub(super) bytes_in_flight: usize,
    pub(super) paused: bool,
    pub(super) blocked: Vec<BlockedIndex>,
    pub(super) data_loss: BTreeMap<Loss, u64>,
    pub(super) last_dead_letter: Option<Event>,
    pub(super) last_error: Option<Event>,
    /// The worst first.
    pub(super) shards: Vec<ShardStatus>,
}

/// A place that the pipeline needs.
#[derive(Debug, Serialize)]
pub(super) struct Side {
    pub(super) address: String,
    /// `None` where nobody tried yet.
    pub(super) reachable: Option<bool>,
    pub(super) unreachable_seconds: Option<u64>,
    pub(super) why: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct BlockedIndex {
    pub(super) index: String,
    pub(super) seconds: u64,
    pub(super) why: String,
}

/// What happened, and when.
#[derive(Debug, Serialize)]
pub(super) struct Event {
    pub(super) time: String,
    pub(super) seconds_ago: u64,
    pub(super) what: String,
}

/// How a shard stands.
#[derive(Debug, Serialize)]
pub(super) struct ShardStatus {
    pub(super) shard: String,
    pub(super) phase: &'static str,
    pub(super) owner: Option<String>,
    /// The last position up to which everything is settled, since this process reads it.
    pub(super) settled: Option<String>,
    pub(super) lag_milliseconds: Option<u64>,
    pub(super) records: u64,
    pub(super) records_per_second: f64,
    pub(super) unsettled: usize,
    /// Records that it has and that were not taken in yet, where its source counts them.
    pub(super) unread: Option<u64>,
    pub(super) trouble: Option<String>,
    pub(super) checkpoint_age_seconds: Option<u64>,
    /// The lag over the last half hour, in seconds; of the shards that are shown.
    #[serde(skip)]
    pub(super) lags: Vec<Option<f32>>,
}

impl ShardStatus {
    pub(super) fn lag(&self) -> Option<Duration> {
        self.lag_milliseconds.map(Duration::from_millis)
    }

    /// Those that a person should look at come first; then by name.
    fn rank(&self) -> (u8, std::cmp::Reverse<Option<u64>>, &str) {
        let phase = match (self.phase, &self.trouble) {
            ("reading", Some(_)) => 0,
            ("reading", None) => 1,
            ("waiting", _) => 2,
            ("held", _) => 3,
            _ => 4,
        };
        // To the second: what is caught up does not change its place all the time.
        (phase, std::cmp::Reverse(self.lag_milliseconds.map(|lag| lag / 10_000)), &self.shard)
    }
}

/// The name of a phase, one of [`PHASES`](crate::metrics::instruments::PHASES).
pub(super) fn phase_of(shard: &Shard) -> &'static str {
    match shard.phase {
        ShardPhase::Waiting => "waiting",
        ShardPhase::Held { .. } => "held",
        ShardPhase::Reading => "reading",
        ShardPhase::Ended => "ended",
    }
}

impl Status {
    /// Now, in milliseconds since 1970; the lag of the past is told of the first `with_past` shards.
    pub(super) fn of(state: &State, now: u64, stuck_after: Duration, with_past: usize) -> Self {
        let summary = state.summary(now);
        let (stuck, reasons) = (summary.stuck(stuck_after), summary.not_ready());
        let [source, sink, checkpoints, dead_letters] = ["source", "sink", "place for checkpoints", "place for dead letters"]
            .map(|role| summary.places.iter().find(|place| place.role.as_str() == role).map_or_else(Side::nothing, Side::of));
        let mut shards: Vec<ShardStatus> = state.shards.iter().map(|(name, shard)| shard_status(state, name, shard, now)).collect();
        shards.sort_by(|one, other| one.rank().cmp(&other.rank()));
        for shard in shards.iter_mut().take(with_past) {
            shard.lags = state.past.shards.get(&shard.shard).map(|(lags, _)| lags.points().collect()).unwrap_or_default();
        }
        let event =
            |(at, what): &(u64, String)| Event { time: rfc3339(*at), seconds_ago: now.saturating_sub(*at) / 1000, what: what.clone() };
        let uptime = state.started.elapsed();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            pipeline: state.about.pipeline.clone(),
            owner: state.about.owner.clone(),
            time: rfc3339(now),
            headline: summary.headline(stuck_after),
            phase: state.phase.as_str(),
            waits_for: if let Phase::Waiting { owner } = &state.phase { Some(owner.clone()) } else { None },
            uptime_seconds: uptime.as_secs(),
            live: stuck.is_none(),
            ready: reasons.is_empty(),
            stuck,
            reasons,
            source,
            sink,
            checkpoints,
            dead_letters,
            counts: serde_json::to_value(Report { counts: &state.counts, seconds: uptime.as_secs_f64() }).unwrap_or_default(),
            received_per_second: state.past.received.per_second(),
            settled_per_second: state.past.settled.per_second(),
            stale_ratio: state.stale.ratio(),
            bytes_in_flight: state.bytes_in_flight,
            paused: state.paused,
            blocked: summary
                .blocked
                .iter()
                .map(|blocked| BlockedIndex { index: blocked.index.clone(), seconds: blocked.since.as_secs(), why: blocked.why.clone() })
                .collect(),
            data_loss: Loss::ALL.into_iter().map(|cause| (cause, state.data_loss.get(&cause).copied().unwrap_or_default())).collect(),
            last_dead_letter: state.last_dead_letter.as_ref().map(event),
            last_error: state.last_error.as_ref().map(event),
            shards,
        }
    }
}

impl Side {
    fn nothing() -> Self {
        Self { address: String::new(), reachable: None, unreachable_seconds: None, why: None }
    }

    fn of(place: &Place) -> Self {
        let nothing = Self { address: place.address.clone(), ..Self::nothing() };
        match &place.reach {
            Reach::Untried => nothing,
            Reach::Reached => Self { reachable: Some(true), ..nothing },
            Reach::Unreachable { since, why } => {
                Self { reachable: Some(false), unreachable_seconds: Some(since.as_secs()), why: Some(why.clone()), ..nothing }
            }
        }
    }
}

fn shard_status(state: &State, name: &str, shard: &Shard, now: u64) -> ShardStatus {
    let is_read = shard.phase == ShardPhase::Reading;
    ShardStatus {
        shard: name.to_owned(),
        phase: phase_of(shard),
        owner: if let ShardPhase::Held { owner } = &shard.phase { Some(owner.clone()) } else { None },
        settled: shard.settled.as_ref().map(|settled| settled.position.to_string()),
        lag_milliseconds: shard.lag(now).filter(|_| is_read).map(|lag| u64::try_from(lag.as_millis()).unwrap_or(u64::MAX)),
        records: shard.records,
        records_per_second: state.past.shards.get(name).map_or(0.0, |(_, rate)| rate.per_second()),
        unsettled: shard.unsettled,
        unread: shard.unread.filter(|_| is_read),
        trouble: shard.trouble.clone(),
        checkpoint_age_seconds: shard.saved.filter(|_| is_read).map(|saved| saved.elapsed().as_secs()),
        lags: Vec::new(),
    }
}

fn headline<S: serde::Serializer>(headline: &Headline, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&headline.text)
}

/// A time in milliseconds since 1970, as RFC 3339 in UTC to the second.
fn rfc3339(millis: u64) -> String {
    let time = i64::try_from(millis / 1000).ok().and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}
