//! What a pipeline that lives on has come to: how far each shard is, whether both ends can be reached, what is failing and why.
//!
//! Written by those who do the work, read by those who answer for it: who saves checkpoints, and who answers over HTTP. Decides nothing and
//! waits for nothing; a line without anybody beside it keeps none.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::clock;
use crate::metrics::Counts;
use crate::plan::ledger::Settled;

/// What a pipeline has come to, shared.
#[derive(Debug)]
pub struct Standing(Mutex<State>);

/// What does not change while a pipeline lives.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// The pipeline's name.
    pub pipeline: String,
    /// Where records come from.
    pub source: String,
    /// Where operations go, without credentials.
    pub sink: String,
    /// Where dead letters go.
    pub dead_letters: String,
    /// Where checkpoints are.
    pub checkpoints: String,
    /// Who this process is among those that could do the same.
    pub owner: String,
}

/// What a pipeline does at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// It looks for its two ends.
    Starting,
    /// Another one does the work, and this one takes over when that stops.
    Waiting {
        /// Who does the work.
        owner: String,
    },
    /// It reads and delivers.
    Running,
    /// It was told to stop.
    Stopping,
}

/// What a pipeline has come to.
#[derive(Debug)]
pub struct State {
    /// What it is.
    pub about: About,
    /// What it does.
    pub phase: Phase,
    /// When this process began with it.
    pub started: Instant,
    /// The source.
    pub source: Reach,
    /// The sink.
    pub sink: Reach,
    /// The place for dead letters.
    pub dead_letters: Reach,
    /// The place for checkpoints.
    pub checkpoints: Reach,
    /// By the shard's name.
    pub shards: BTreeMap<String, Shard>,
    /// The counts of this process.
    pub counts: Counts,
    /// The indices that cannot be written.
    pub blocked: Vec<Blocked>,
    /// Bytes of records and operations that are not settled.
    pub bytes_in_flight: usize,
    /// Whether nothing is read because too much waits for a blocked index.
    pub paused: bool,
    /// When something was settled last.
    pub progress: Instant,
    /// How often something was lost before it could be read.
    pub data_loss: u64,
    /// The last dead letter: when, in milliseconds since 1970, and its reason.
    pub last_dead_letter: Option<(u64, String)>,
    /// The last error: when, in milliseconds since 1970, and what it says.
    pub last_error: Option<(u64, String)>,
}

/// Whether one end of the line can be reached.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// When it was reached last.
    pub reached: Option<Instant>,
    /// Since when it cannot be, and why; `None` where it can.
    pub trouble: Option<(Instant, String)>,
}

impl Reach {
    /// It answered.
    pub fn is_there(&mut self) {
        (self.reached, self.trouble) = (Some(Instant::now()), None);
    }

    /// It did not answer, or not as it should.
    pub fn is_not(&mut self, why: impl Into<String>) {
        let since = self.trouble.take().map_or_else(Instant::now, |(since, _)| since);
        self.trouble = Some((since, why.into()));
    }

    /// Whether it can be reached, as far as is known.
    pub fn is_reachable(&self) -> bool {
        self.reached.is_some() && self.trouble.is_none()
    }
}

/// An index that cannot be written.
#[derive(Debug, Clone)]
pub struct Blocked {
    /// Its name.
    pub index: String,
    /// Since when.
    pub since: Instant,
    /// Why.
    pub why: String,
}

/// What is done with a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShardPhase {
    /// Its parents come first.
    Waiting,
    /// Another one reads it.
    Held {
        /// Who.
        owner: String,
    },
    /// It is read.
    Reading,
    /// All of it is settled, and it is closed.
    Ended,
}

/// How far a shard is.
#[derive(Debug, Clone)]
pub struct Shard {
    /// What is done with it.
    pub phase: ShardPhase,
    /// The last record up to which everything is settled, since this process reads it.
    pub settled: Option<Settled>,
    /// How far behind the end of the shard the last read was, and when that was.
    pub behind: Option<(Duration, Instant)>,
    /// Records read by this process.
    pub records: u64,
    /// Records from the first on that is not settled.
    pub unsettled: usize,
    /// When the first record that is not settled arrived, in milliseconds since 1970, where the source says so.
    pub oldest: Option<u64>,
    /// What hinders its reading.
    pub trouble: Option<String>,
}

impl Shard {
    /// A shard of which nothing was read yet.
    pub fn new(phase: ShardPhase) -> Self {
        Self { phase, settled: None, behind: None, records: 0, unsettled: 0, oldest: None, trouble: None }
    }

    /// How far behind it is, with what was read and is not settled yet; `now` is in milliseconds since 1970.
    pub fn lag(&self, now: u64) -> Option<Duration> {
        let (behind, as_of) = self.behind?;
        // A shard that cannot be read falls further behind all the time.
        let unread = if self.trouble.is_some() || !behind.is_zero() { behind + as_of.elapsed() } else { behind };
        let unsettled = self.oldest.map(|oldest| Duration::from_millis(now.saturating_sub(oldest)));
        Some(unread.max(unsettled.unwrap_or_default()))
    }
}

impl Standing {
    /// A pipeline that begins.
    pub fn new(about: About) -> Self {
        let now = Instant::now();
        Self(Mutex::new(State {
            about,
            phase: Phase::Starting,
            started: now,
            source: Reach::default(),
            sink: Reach::default(),
            dead_letters: Reach::default(),
            checkpoints: Reach::default(),
            shards: BTreeMap::new(),
            counts: Counts::default(),
            blocked: Vec::new(),
            bytes_in_flight: 0,
            paused: false,
            progress: now,
            data_loss: 0,
            last_dead_letter: None,
            last_error: None,
        }))
    }

    /// The state, which nobody else changes meanwhile: not to be held across a wait.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something failed that a person should know of.
    pub fn failed(&self, what: &str) {
        self.state().last_error = Some((clock::millis(), what.to_owned()));
    }
}
