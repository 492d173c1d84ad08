//! What can be watched while a line runs: every instrument by its name, in one list.
//!
//! Goes through the `metrics` facade: without a recorder all of this costs next to nothing, and whoever installs one (the worker's HTTP
//! endpoint, the Lambda function, a test) sees every name of its own from the start. Only run/ and the function turn these; the pure rooms hand
//! counts back instead.

use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use super::{Counts, Loss, Skip};

/// How an instrument counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only ever grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// Who has an instrument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// Every line, wherever it runs.
    Line,
    /// The Lambda function.
    Function,
    /// A process that lives on and answers over HTTP.
    Worker,
}

/// An instrument: its name, its kind, its unit, its label if it has one, and what it tells.
pub type Instrument = (&'static str, Kind, Unit, Option<&'static str>, &'static str);

/// Every instrument, by who has it.
pub const ALL: [(Home, &[Instrument]); 3] = [(Home::Line, &LINE), (Home::Function, &FUNCTION), (Home::Worker, &WORKER)];

/// What every line shows. The first nine are the counts of a report and add up as they do there.
const LINE: [Instrument; 20] = [
    ("revsync_received_total", Kind::Counter, Unit::Count, None, "Units read: each revision, and each record that carries none"),
    ("revsync_indexed_total", Kind::Counter, Unit::Count, None, "Documents written"),
    ("revsync_deleted_total", Kind::Counter, Unit::Count, None, "Documents deleted"),
    ("revsync_stale_total", Kind::Counter, Unit::Count, None, "Writes refused because the index holds something at least as new"),
    ("revsync_absent_total", Kind::Counter, Unit::Count, None, "Deletes of documents that the index did not have"),
    ("revsync_compacted_total", Kind::Counter, Unit::Count, None, "Revisions not sent because a newer one of their document was"),
    ("revsync_skipped_total", Kind::Counter, Unit::Count, Some("reason"), "Units settled without an operation"),
    ("revsync_dead_letters_total", Kind::Counter, Unit::Count, None, "Units stored as dead letters"),
    ("revsync_pending", Kind::Gauge, Unit::Count, None, "Units read and not settled"),
    ("revsync_bytes_total", Kind::Counter, Unit::Bytes, None, "Bytes of records read"),
    ("revsync_requests_total", Kind::Counter, Unit::Count, Some("answer"), "Requests sent to the sink, by what came back"),
    ("revsync_request_seconds", Kind::Histogram, Unit::Seconds, None, "Time from sending a request to its answer"),
    (
        "revsync_request_bytes_total",
        Kind::Counter,
        Unit::Bytes,
        None,
        "Bytes of operations sent, before compression, each time they are sent",
    ),
    (
        "revsync_retries_total",
        Kind::Counter,
        Unit::Count,
        Some("class"),
        "Operations that have to be sent again, by the class of the reason",
    ),
    ("revsync_requests_in_flight", Kind::Gauge, Unit::Count, None, "Requests that are with the sink"),
    ("revsync_lanes_in_use", Kind::Gauge, Unit::Count, None, "Lanes with an operation under way; of a document never more than one is"),
    ("revsync_bytes_in_flight", Kind::Gauge, Unit::Bytes, None, "Bytes of records and operations that are not settled"),
    ("revsync_parked_bytes", Kind::Gauge, Unit::Bytes, None, "Of the bytes in flight, those that wait for an index that cannot be written"),
    ("revsync_index_blocked", Kind::Gauge, Unit::Count, Some("index"), "1 while the index cannot be written and its operations are parked"),
    ("revsync_source_paused", Kind::Gauge, Unit::Count, None, "1 while nothing is read because too much waits for a blocked index"),
];

/// What the Lambda function shows beside that.
const FUNCTION: [Instrument; 2] = [
    ("revsync_iterator_age_seconds", Kind::Gauge, Unit::Seconds, None, "Age of the oldest record of a Lambda event when it came in"),
    ("revsync_invocation_seconds", Kind::Histogram, Unit::Seconds, None, "Time from an event to the Lambda function's answer"),
];

/// What a process that lives on shows beside what its line does. Those of a shard are there as long as it is read.
const WORKER: [Instrument; 9] = [
    (
        "revsync_lag_milliseconds",
        Kind::Gauge,
        Unit::Milliseconds,
        Some("shard"),
        "How far behind the end of its shard the line is, with what was read and is not settled",
    ),
    (
        "revsync_lag_records",
        Kind::Gauge,
        Unit::Count,
        Some("shard"),
        "Records of a shard that are not settled, from the first such on; on Kafka with those that were not read",
    ),
    ("revsync_checkpoint_age_seconds", Kind::Gauge, Unit::Seconds, Some("shard"), "Time since the checkpoint of a shard was saved"),
    ("revsync_shards", Kind::Gauge, Unit::Count, Some("phase"), "Shards, by what is done with them"),
    (
        "revsync_freshness_seconds",
        Kind::Histogram,
        Unit::Seconds,
        None,
        "Time from a revision's commit at its source to the sink's acknowledgement",
    ),
    ("revsync_stale_ratio", Kind::Gauge, Unit::Count, None, "Share of the last 10,000 answers or so that refused a write as stale, 0 to 1"),
    ("revsync_data_loss_total", Kind::Counter, Unit::Count, Some("cause"), "How often records were lost before they could be read"),
    ("revsync_live", Kind::Gauge, Unit::Count, None, "0 while the process is stuck and has to be started anew"),
    ("revsync_ready", Kind::Gauge, Unit::Count, None, "1 while everything can be reached and no index is blocked"),
];

/// What a request came back with, in `revsync_requests_total`.
pub const ANSWERS: [&str; 8] = ["ok", "throttled", "unavailable", "blocked", "unknown", "too_large", "invalid", "refused"];

/// The classes of `revsync_retries_total`.
pub const CLASSES: [&str; 5] = ["throttled", "unavailable", "blocked", "unknown", "refused"];

/// What is done with a shard, in `revsync_shards`.
pub const PHASES: [&str; 4] = ["waiting", "held", "reading", "ended"];

/// Tells the recorder of the instruments that somebody has, so that each is there before it first counts.
pub fn announce(home: Home) {
    let instruments = ALL.into_iter().filter(|(of, _)| *of == home).flat_map(|(_, instruments)| instruments);
    for (name, kind, unit, label, help) in instruments.copied() {
        match kind {
            Kind::Counter => describe_counter!(name, unit, help),
            Kind::Gauge => describe_gauge!(name, unit, help),
            Kind::Histogram => describe_histogram!(name, unit, help),
        }
        match (name, kind, label) {
            (_, Kind::Counter, None) => counter!(name).increment(0),
            (_, Kind::Gauge, None) => gauge!(name).set(0.0),
            ("revsync_skipped_total", ..) => Skip::ALL.iter().for_each(|reason| counter!(name, "reason" => reason.as_str()).increment(0)),
            ("revsync_requests_total", ..) => ANSWERS.iter().for_each(|answer| counter!(name, "answer" => *answer).increment(0)),
            ("revsync_retries_total", ..) => CLASSES.iter().for_each(|class| counter!(name, "class" => *class).increment(0)),
            ("revsync_data_loss_total", ..) => Loss::ALL.iter().for_each(|cause| counter!(name, "cause" => cause.as_str()).increment(0)),
            ("revsync_shards", ..) => PHASES.iter().for_each(|phase| gauge!(name, "phase" => *phase).set(0.0)),
            _ => {}
        }
    }
}

/// Adds what has been counted since `before`.
pub fn counted(before: &Counts, now: &Counts) {
    let pairs = [
        ("revsync_received_total", before.received, now.received),
        ("revsync_indexed_total", before.indexed, now.indexed),
        ("revsync_deleted_total", before.deleted, now.deleted),
        ("revsync_stale_total", before.stale, now.stale),
        ("revsync_absent_total", before.absent, now.absent),
        ("revsync_compacted_total", before.compacted, now.compacted),
        ("revsync_dead_letters_total", before.dead_letters, now.dead_letters),
        ("revsync_bytes_total", before.bytes, now.bytes),
    ];
    for (name, before, now) in pairs {
        if now > before {
            counter!(name).increment(now - before);
        }
    }
    for (reason, count) in &now.skipped {
        let before = before.skipped.get(reason).copied().unwrap_or_default();
        if *count > before {
            counter!("revsync_skipped_total", "reason" => reason.as_str()).increment(count - before);
        }
    }
    gauge!("revsync_pending").set(now.pending as f64);
}

/// A request came back; `answer` is one of [`ANSWERS`].
pub fn request(answer: &'static str, took: Duration, bytes: usize) {
    counter!("revsync_requests_total", "answer" => answer).increment(1);
    histogram!("revsync_request_seconds").record(took.as_secs_f64());
    counter!("revsync_request_bytes_total").increment(bytes as u64);
}

/// Operations have to be sent again; `class` is one of [`CLASSES`].
pub fn retries(class: &'static str, operations: usize) {
    counter!("revsync_retries_total", "class" => class).increment(operations as u64);
}

/// Requests are with the sink.
pub fn requests_in_flight(requests: usize) {
    gauge!("revsync_requests_in_flight").set(requests as f64);
}

/// What is under way.
pub fn under_way(lanes: usize, bytes: usize, parked: usize) {
    gauge!("revsync_lanes_in_use").set(lanes as f64);
    gauge!("revsync_bytes_in_flight").set(bytes as f64);
    gauge!("revsync_parked_bytes").set(parked as f64);
}

/// An index cannot be written, or can be again.
pub fn index_blocked(index: &str, blocked: bool) {
    gauge!("revsync_index_blocked", "index" => index.to_owned()).set(f64::from(u8::from(blocked)));
}

/// Nothing is read for now, or is again.
pub fn source_paused(paused: bool) {
    gauge!("revsync_source_paused").set(f64::from(u8::from(paused)));
}

/// An event came into the Lambda function; without records it has no age.
pub fn event(age: Option<Duration>) {
    gauge!("revsync_iterator_age_seconds").set(age.unwrap_or_default().as_secs_f64());
}

/// The Lambda function answers.
pub fn invocation(took: Duration) {
    histogram!("revsync_invocation_seconds").record(took.as_secs_f64());
}

/// Writes were acknowledged, so many milliseconds after they had been committed.
pub fn freshness(ages: impl Iterator<Item = u64>) {
    let histogram = histogram!("revsync_freshness_seconds");
    ages.for_each(|millis| histogram.record(millis as f64 / 1000.0));
}

/// Records were lost before they could be read.
pub fn lost(cause: Loss) {
    counter!("revsync_data_loss_total", "cause" => cause.as_str()).increment(1);
}

/// How a shard is that is read: how far behind it is, where that is known, in time and in records, and since when its checkpoint is saved.
pub fn shard(name: &str, lag: Option<Duration>, records: u64, saved: Option<Duration>) {
    if let Some(lag) = lag {
        gauge!("revsync_lag_milliseconds", "shard" => name.to_owned()).set(lag.as_secs_f64() * 1000.0);
    }
    gauge!("revsync_lag_records", "shard" => name.to_owned()).set(records as f64);
    if let Some(saved) = saved {
        gauge!("revsync_checkpoint_age_seconds", "shard" => name.to_owned()).set(saved.as_secs_f64());
    }
}

/// How many shards are in a phase, one of [`PHASES`].
pub fn shards(phase: &'static str, number: usize) {
    gauge!("revsync_shards", "phase" => phase).set(number as f64);
}

/// How a process is that lives on.
pub fn health(live: bool, ready: bool, stale: Option<f64>) {
    gauge!("revsync_live").set(f64::from(u8::from(live)));
    gauge!("revsync_ready").set(f64::from(u8::from(ready)));
    gauge!("revsync_stale_ratio").set(stale.unwrap_or_default());
}

/// Says that the gauges of a line are still what they were: a recorder that forgets what nobody speaks of keeps them.
pub fn still_there() {
    for (name, kind, _, label, _) in LINE {
        if kind == Kind::Gauge && label.is_none() {
            gauge!(name).increment(0.0);
        }
    }
}

/// A line is over and was told of: what was not settled comes again, and counts then. Without this a gauge would show it until then.
pub fn over() {
    under_way(0, 0, 0);
    requests_in_flight(0);
    source_paused(false);
    event(None);
    gauge!("revsync_pending").set(0.0);
}
