//! What a pipeline that lives on has come to: how far each shard is, whether both ends can be reached, what is failing and why.
//!
//! Written by those who do the work, read by those who answer for it: who saves checkpoints, and who answers over HTTP. Decides nothing (that
//! is [`plan::health`](crate::plan::health)) and waits for nothing; a line without anybody beside it keeps none.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::clock;
use super::history::{Lags, Rate, Share};
use super::readiness::Readiness;
#[cfg(any(feature = "kafka", feature = "kinesis"))]
use crate::error::{Error, Kind};
use crate::metrics::{Counts, Loss, instruments};
pub use crate::plan::health::Phase;
use crate::plan::health::{self, CAUGHT_UP, Place, Role, Shards, Summary};
use crate::plan::ledger::Settled;
use crate::record::Origin;

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
    /// Whether shards of several streams are read, which are told apart by their streams too.
    pub has_streams: bool,
    /// Whether nothing is read because too much waits for a blocked index.
    pub paused: bool,
    /// When something was settled last.
    pub progress: Instant,
    /// How often something was lost before it could be read, by its cause.
    pub data_loss: BTreeMap<Loss, u64>,
    /// How many of the last answers said that the index has something at least as new.
    pub stale: Share,
    /// The last dead letter: when, in milliseconds since 1970, and its reason.
    pub last_dead_letter: Option<(u64, String)>,
    /// The last error: when, in milliseconds since 1970, and what it says.
    pub last_error: Option<(u64, String)>,
    /// What was, as often as [`Standing::look`] was called.
    pub past: Past,
}

/// What a pipeline had come to before.
#[derive(Debug, Clone)]
pub struct Past {
    /// By the shard's name.
    pub shards: BTreeMap<String, (Lags, Rate)>,
    /// Units read.
    pub received: Rate,
    /// Units settled.
    pub settled: Rate,
    /// When there was last nothing to do, or something known that kept it from being done.
    pub excused: Instant,
    /// What the log said last of whether it is ready.
    pub readiness: Readiness,
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
    /// Everything that arrived before this time was taken in, in milliseconds since 1970.
    pub taken_in: Option<u64>,
    /// When it was begun with, or answered last.
    pub heard: Instant,
    /// Whether its records are handed over when there are any, and nothing is heard of it while there are none.
    pub is_handed_over: bool,
    /// Records read by this process.
    pub records: u64,
    /// Records that it has and that were not taken in yet, where its source counts them.
    pub unread: Option<u64>,
    /// Records from the first on that is not settled.
    pub unsettled: usize,
    /// When the first record that is not settled arrived, in milliseconds since 1970, where the source says so.
    pub oldest: Option<u64>,
    /// What hinders its reading.
    pub trouble: Option<String>,
    /// When its checkpoint was saved last, or found to be what it should be.
    pub saved: Option<Instant>,
}

impl Shard {
    /// A shard of which nothing was read yet.
    pub fn new(phase: ShardPhase) -> Self {
        Self {
            phase,
            settled: None,
            behind: None,
            taken_in: None,
            heard: Instant::now(),
            is_handed_over: false,
            records: 0,
            unread: None,
            unsettled: 0,
            oldest: None,
            trouble: None,
            saved: None,
        }
    }

    /// How far behind it is, with what was read and is not settled yet; `now` is in milliseconds since 1970.
    pub fn lag(&self, now: u64) -> Option<Duration> {
        let (behind, as_of) = self.behind?;
        // A shard that cannot be read falls further behind all the time.
        let is_left = !self.is_handed_over && (self.trouble.is_some() || !behind.is_zero());
        let unread = if is_left { behind + as_of.elapsed() } else { behind };
        let unsettled = self.oldest.map(|oldest| Duration::from_millis(now.saturating_sub(oldest)));
        Some(unread.max(unsettled.unwrap_or_default()))
    }

    /// The time before which everything that arrived is settled, in milliseconds since 1970, as far as that is known.
    pub fn covered(&self) -> Option<u64> {
        let settled = self.settled.as_ref().and_then(|settled| settled.arrived);
        if self.unsettled == 0 { self.taken_in.max(settled) } else { settled }
    }

    /// For how long nothing was heard of it, where something should have been.
    fn silent(&self) -> Duration {
        if self.is_handed_over { Duration::ZERO } else { self.heard.elapsed() }
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
            has_streams: false,
            paused: false,
            progress: now,
            data_loss: BTreeMap::new(),
            stale: Share::default(),
            last_dead_letter: None,
            last_error: None,
            past: Past {
                shards: BTreeMap::new(),
                received: Rate::default(),
                settled: Rate::default(),
                excused: now,
                readiness: Readiness::default(),
            },
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

    /// Records were lost before they could be read.
    pub fn lost(&self, cause: Loss) {
        *self.state().data_loss.entry(cause).or_default() += 1;
        instruments::lost(cause);
    }

    /// Records of a shard were lost before they could be read: counts it and says so.
    ///
    /// # Errors
    /// That `ends` the work.
    #[cfg(any(feature = "kafka", feature = "kinesis"))]
    pub(super) fn lost_in(&self, shard: &str, cause: Loss, what: &str, ends: bool) -> Result<(), Error> {
        self.lost(cause);
        self.failed(&format!("data loss in {shard}: {what}"));
        if !ends {
            return Ok(());
        }
        Err(Error::new(Kind::Source, format!("data loss in {shard}: {what}"))
            .help("on_data_loss = \"continue\" goes on with what there is"))
    }

    /// The checkpoints of these shards are saved, or are what they should be.
    pub fn saved<'a>(&self, shards: impl IntoIterator<Item = &'a str>) {
        let (now, mut state) = (Instant::now(), self.state());
        for name in shards {
            if let Some(shard) = state.shards.get_mut(name) {
                shard.saved = Some(now);
            }
        }
    }

    /// Keeps how things stand now, for whoever wants to know later how they stood, and logs when the pipeline is not ready. To be called every
    /// few seconds.
    pub fn look(&self) {
        let (now, at, mut state) = (clock::millis(), Instant::now(), self.state());
        let State { shards, past, counts, started, .. } = &mut *state;
        let since = at.duration_since(*started);
        past.received.add(since, counts.received);
        past.settled.add(since, counts.settled());
        past.shards.retain(|name, _| shards.contains_key(name));
        for (name, shard) in shards {
            // A closed shard has no lag to look back on.
            if shard.phase == ShardPhase::Ended {
                past.shards.remove(name);
            } else {
                if !past.shards.contains_key(name) {
                    past.shards.insert(name.clone(), Default::default());
                }
                if let Some((lags, rate)) = past.shards.get_mut(name) {
                    lags.add(since, if shard.phase == ShardPhase::Reading { shard.lag(now) } else { None });
                    rate.add(since, shard.records);
                }
            }
        }
        let summary = state.summary(now);
        if !summary.has_work() || summary.is_hindered() {
            state.past.excused = at;
        }
        let change = state.past.readiness.look(&summary, at);
        drop(state);
        if let Some(change) = change {
            change.log();
        }
    }
}

impl State {
    /// What a shard is called here.
    pub fn name(&self, origin: &Origin) -> String {
        if self.has_streams { format!("{}-{}", origin.stream, origin.shard) } else { origin.shard.clone() }
    }

    /// The shard that records come from, where it is known.
    pub fn shard(&mut self, origin: &Origin) -> Option<&mut Shard> {
        if self.has_streams { self.shards.get_mut(&self.name(origin)) } else { self.shards.get_mut(&origin.shard) }
    }

    /// What health goes by; `now` is in milliseconds since 1970.
    pub fn summary(&self, now: u64) -> Summary {
        let reach = |reach: &Reach| match (&reach.trouble, reach.reached) {
            (Some((since, why)), _) => health::Reach::Unreachable { since: since.elapsed(), why: why.clone() },
            (None, Some(_)) => health::Reach::Reached,
            (None, None) => health::Reach::Untried,
        };
        let place = |role, address: &String, there| Place { role, address: address.clone(), reach: reach(there) };
        let About { source, sink, dead_letters, checkpoints, .. } = &self.about;
        let blocked =
            |Blocked { index, since, why }: &Blocked| health::Blocked { index: index.clone(), since: since.elapsed(), why: why.clone() };
        Summary {
            phase: self.phase.clone(),
            places: vec![
                place(Role::Source, source, &self.source),
                place(Role::Sink, sink, &self.sink),
                place(Role::Checkpoints, checkpoints, &self.checkpoints),
                place(Role::DeadLetters, dead_letters, &self.dead_letters),
            ],
            blocked: self.blocked.iter().map(blocked).collect(),
            paused: self.paused,
            shards: self.summary_of_shards(now),
            stalled: self.progress.max(self.past.excused).elapsed(),
            data_loss: self.data_loss.values().sum(),
        }
    }

    fn summary_of_shards(&self, now: u64) -> Shards {
        let mut sum = Shards::default();
        for shard in self.shards.values() {
            match shard.phase {
                ShardPhase::Waiting => sum.waiting += 1,
                ShardPhase::Held { .. } => sum.held += 1,
                ShardPhase::Ended => {}
                ShardPhase::Reading => {
                    let lag = shard.lag(now);
                    sum.read += 1;
                    sum.unknown += usize::from(lag.is_none());
                    sum.behind += usize::from(lag.is_some_and(|lag| lag > CAUGHT_UP));
                    sum.troubled += usize::from(shard.trouble.is_some());
                    sum.unsettled += shard.unsettled;
                    sum.unread += shard.unread.unwrap_or_default();
                    sum.furthest = sum.furthest.max(lag.unwrap_or_default());
                    sum.silent = sum.silent.max(shard.silent());
                }
            }
        }
        sum
    }
}
