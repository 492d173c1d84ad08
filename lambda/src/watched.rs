//! An invocation as it is watched: exactly one line in the log, and its metrics on standard output in the embedded metric format of CloudWatch.
//!
//! Decides nothing about an answer. Never says anything of a document but counts (reference of the format: Amazon CloudWatch user guide,
//! "Specification: Embedded metric format").

use std::io::{self, Write};
use std::time::{Duration, Instant, SystemTime};

use metrics_cloudwatch_embedded::{Builder, Collector};
use revsync::error::{Error, Kind};
use revsync::metrics::instruments::{self, Home};
use revsync::metrics::{Counts, Skip};
use revsync::record::{Position, Record};
use revsync_lambda::{Answer, Batch, error_type};
use tracing::Level;

/// The namespace of the metrics, and their one dimension that is always there.
const NAMESPACE: &str = "revsync";
const DIMENSION: &str = "pipeline";

/// Characters of a dimension's value.
const LONGEST: usize = 1_024;

/// Whether CloudWatch takes this for the value of a dimension (Amazon CloudWatch API reference, "Dimension").
fn can_be_dimension(value: &str) -> bool {
    let is_printable = value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    (1..=LONGEST).contains(&value.len()) && is_printable && !value.trim().is_empty() && !value.starts_with(':')
}

/// What watches one invocation after another.
pub(crate) struct Watch {
    pipeline: String,
    collector: &'static Collector,
}

impl Watch {
    /// Begins to count.
    ///
    /// # Errors
    /// The pipeline's name is none that CloudWatch takes: it would drop every metric of this function without a word, and no alarm would go off.
    pub(crate) fn start(pipeline: &str) -> Result<Self, Error> {
        if !can_be_dimension(pipeline) {
            let what = format!(
                "expected a name of the pipeline that CloudWatch takes for a dimension (1 to {LONGEST} ASCII characters, none of them a control \
                 character, not only spaces, no colon at the beginning), found {pipeline:?}"
            );
            return Err(Error::usage(what).help("set REVSYNC_NAME, or name in the configuration file, to another"));
        }
        let builder = Builder::new().cloudwatch_namespace(NAMESPACE).with_dimension(DIMENSION, pipeline.to_owned());
        let collector = builder.init().map_err(|error| Error::new(Kind::Bug, format!("metrics cannot be counted: {error}")))?;
        instruments::announce(Home::Line);
        instruments::announce(Home::Function);
        Ok(Self { pipeline: pipeline.to_owned(), collector })
    }

    /// An invocation ends: prints its metrics and its line.
    pub(crate) fn end(&self, invocation: &Invocation, counts: &Counts, answer: &Result<Answer, Error>) {
        instruments::invocation(invocation.started.elapsed());
        self.collector.set_property("requestId", invocation.request.clone());
        let mut documents = Vec::new();
        // As a whole: each line is one document.
        let printed = self.collector.flush(&mut documents).and_then(|()| {
            let mut out = io::stdout().lock();
            out.write_all(&documents).and_then(|()| out.flush())
        });
        if let Err(error) = printed {
            tracing::warn!("the metrics of this invocation cannot be printed: {error}");
        }
        invocation.tell(&self.pipeline, counts, answer);
    }
}

/// An invocation under way.
pub(crate) struct Invocation {
    request: String,
    deadline: SystemTime,
    started: Instant,
    cold: bool,
    shard: String,
    first: String,
    last: String,
    records: usize,
    age: Option<Duration>,
}

impl Invocation {
    /// An event came in, with this deadline.
    pub(crate) fn begin(request: &str, deadline: SystemTime, cold: bool) -> Self {
        let (request, started) = (request.to_owned(), Instant::now());
        let nothing = String::new;
        Self { request, deadline, started, cold, shard: nothing(), first: nothing(), last: nothing(), records: 0, age: None }
    }

    /// What is left of its time.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.duration_since(now()).unwrap_or_default()
    }

    /// It is of these records.
    pub(crate) fn read(&mut self, batch: &Batch) {
        if let (Some(first), Some(last)) = (batch.records.first(), batch.records.last()) {
            self.shard = shard(first);
            // Records stand in the order of their positions.
            if shard(last) != self.shard {
                self.shard = format!("{} to {}", self.shard, shard(last));
            }
            (self.first, self.last) = (shown(&first.position), shown(&last.position));
        }
        self.records = batch.records.len();
        let age = |oldest| now().duration_since(SystemTime::UNIX_EPOCH + Duration::from_millis(oldest)).unwrap_or_default();
        self.age = batch.oldest.map(age);
        instruments::event(self.age);
    }

    fn tell(&self, pipeline: &str, counts: &Counts, answer: &Result<Answer, Error>) {
        let (answered, why) = match answer {
            Ok(Answer { first, why }) if first.is_empty() => ("done".to_owned(), why.as_ref()),
            Ok(Answer { first, why }) => (first.iter().map(shown).collect::<Vec<_>>().join(", "), why.as_ref()),
            Err(error) => ("error".to_owned(), Some(error)),
        };
        let skipped = |reason| counts.skipped.get(&reason).copied().unwrap_or_default();
        // A level has to be known where a line is written.
        macro_rules! tell {
            ($level:expr) => {
                tracing::event!(
                    $level,
                    pipeline,
                    answer = answered,
                    error_type = why.map(|why| error_type(why.kind)),
                    reason = why.map(tracing::field::display),
                    shard = self.shard,
                    first = self.first,
                    last = self.last,
                    records = self.records,
                    received = counts.received,
                    indexed = counts.indexed,
                    deleted = counts.deleted,
                    stale = counts.stale,
                    absent = counts.absent,
                    compacted = counts.compacted,
                    skipped_control = skipped(Skip::Control),
                    skipped_block_summary = skipped(Skip::BlockSummary),
                    skipped_filtered = skipped(Skip::Filtered),
                    skipped_redacted = skipped(Skip::Redacted),
                    skipped_unmapped = skipped(Skip::Unmapped),
                    skipped_no_change = skipped(Skip::NoChange),
                    dead_letters = counts.dead_letters,
                    pending = counts.pending,
                    bytes = counts.bytes,
                    iterator_age_seconds = self.age.map(|age| age.as_secs_f64()),
                    seconds = self.started.elapsed().as_secs_f64(),
                    cold_start = self.cold,
                    remaining_seconds = self.left().as_secs_f64(),
                    "invocation"
                )
            };
        }
        match answer {
            Ok(Answer { first, .. }) if first.is_empty() => tell!(Level::INFO),
            Ok(_) => tell!(Level::WARN),
            Err(_) => tell!(Level::ERROR),
        }
    }
}

/// A shard as it is told: with its topic, where it is a partition, of which an event may have several.
fn shard(record: &Record) -> String {
    match &record.position {
        Position::Offset { topic, partition, .. } => format!("{topic}-{partition}"),
        Position::Sequence { .. } | Position::Byte { .. } => record.origin.shard.clone(),
    }
}

/// A position as it is told: a number as the mapping names it, an offset with its partition.
fn shown(position: &Position) -> String {
    match position {
        Position::Sequence { number, .. } => number.0.clone(),
        Position::Offset { .. } | Position::Byte { .. } => position.to_string(),
    }
}

#[expect(clippy::disallowed_methods, reason = "deadlines and the arrival of records are given by the wall clock")]
fn now() -> SystemTime {
    SystemTime::now()
}
