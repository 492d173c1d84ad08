//! The partitions that a member of a consumer group holds at present: which reading of each is the one that counts, and what may be committed of it.
//!
//! Shared by the thread that polls and the line. An offset is given out only for a reading that the line has begun with, and only up to what the
//! line has settled of it: what an earlier reading settled, or left, moves nothing.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, timeout};

use super::clock;
use super::notices::Notices;
use super::polling::News;
use super::standing::{Phase, Shard, ShardPhase, Standing};
use crate::record::{Origin, Position};
use crate::sink::Sink;
use crate::source::kafka::{Begun, Failure, Far, Key, Shell};

/// How long a sink may take to make durable what was settled, while a partition is taken away.
const DURABLE_WITHIN: Duration = Duration::from_secs(3);

/// What may be committed of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) key: Key,
    pub(super) generation: u64,
    /// The offset behind the last message up to which everything is settled.
    pub(super) next: i64,
}

/// What is held.
pub(super) struct Assignment {
    standing: Arc<Standing>,
    sink: Arc<dyn Sink>,
    news: UnboundedSender<News>,
    /// The line and its sink live there; what polls is none of its threads.
    runtime: Handle,
    held: Mutex<HashMap<Key, Held>>,
    /// The readings that count.
    current: Mutex<HashSet<u64>>,
    has_begun: AtomicBool,
    notices: Notices,
}

#[derive(Debug)]
struct Held {
    generation: u64,
    origin: Arc<Origin>,
    /// The line has begun with it, and knows nothing of what was read before.
    is_begun: bool,
    /// The offset behind the last message that the line took in.
    taken: i64,
    /// When that arrived, in milliseconds since 1970.
    arrived: Option<u64>,
    committed: Option<i64>,
}

impl Assignment {
    pub(super) fn new(standing: Arc<Standing>, sink: Arc<dyn Sink>, news: UnboundedSender<News>) -> Self {
        Self {
            standing,
            sink,
            news,
            runtime: Handle::current(),
            held: Mutex::default(),
            current: Mutex::default(),
            has_begun: AtomicBool::new(false),
            notices: Notices::default(),
        }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<Key, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The line begins with a partition; whether it is still the one that counts.
    pub(super) fn begin(&self, begun: &Begun) -> bool {
        match self.held().get_mut(&begun.key).filter(|held| held.generation == begun.generation) {
            Some(held) => {
                let mut state = self.standing.state();
                let name = state.name(&begun.origin);
                state.shards.insert(name, Shard::new(ShardPhase::Reading));
                held.is_begun = true;
                true
            }
            None => false,
        }
    }

    /// Whether this reading of a partition is the one that counts.
    pub(super) fn is_current(&self, generation: u64) -> bool {
        self.current().contains(&generation)
    }

    fn current(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The line took a message in.
    pub(super) fn took(&self, position: &Position, arrived: Option<u64>, generation: u64) {
        let Position::Offset { topic, partition, offset } = position else { return };
        let mut held = self.held();
        if let Some(held) = held.get_mut(&(topic.clone(), *partition)).filter(|held| held.generation == generation) {
            (held.taken, held.arrived) = (offset + 1, arrived.or(held.arrived));
        }
    }

    /// What is settled and not committed yet. Those of which nothing is left to commit are saved.
    pub(super) fn to_commit(&self) -> Vec<Settled> {
        let held = self.held();
        let mut saved = Vec::new();
        let mut to_commit = Vec::new();
        for (key, held) in held.iter() {
            match self.settled(held) {
                Some(next) if held.committed != Some(next) => {
                    to_commit.push(Settled { key: key.clone(), generation: held.generation, next });
                }
                Some(_) => saved.push(self.standing.state().name(&held.origin)),
                None => {}
            }
        }
        drop(held);
        self.standing.saved(saved.iter().map(String::as_str));
        to_commit
    }

    /// The offset behind the last message up to which everything of this reading is settled.
    fn settled(&self, held: &Held) -> Option<i64> {
        let mut state = self.standing.state();
        let settled = state.shard(&held.origin).filter(|_| held.is_begun)?.settled.as_ref()?;
        if let Position::Offset { offset, .. } = settled.position { Some(offset + 1) } else { None }
    }

    /// Of these, those that are held still.
    pub(super) fn still_held(&self, settled: &[Settled]) -> Vec<(Key, i64)> {
        let held = self.held();
        let is_held = |settled: &&Settled| held.get(&settled.key).is_some_and(|held| held.generation == settled.generation);
        settled.iter().filter(is_held).map(|settled| (settled.key.clone(), settled.next)).collect()
    }

    /// Whether the group gave partitions, or said that there are none for this member.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// How far a partition is at its servers.
    pub(super) fn surveyed(&self, key: &Key, far: Far) {
        let held = self.held();
        let Some(held) = held.get(key).filter(|held| held.generation == far.generation && held.is_begun) else { return };
        // Behind the last message there may be what is none: markers of transactions, or messages that are gone.
        let next = if held.taken >= far.next { held.taken.max(far.at_end.unwrap_or_default()) } else { held.taken };
        let unread = u64::try_from(far.end - next).unwrap_or_default();
        let late = held.arrived.map(|arrived| Duration::from_millis(clock::millis().saturating_sub(arrived)));
        let mut state = self.standing.state();
        if let Some(shard) = state.shard(&held.origin) {
            shard.unread = Some(unread);
            shard.heard = Instant::now();
            shard.trouble = None;
            shard.behind = if unread == 0 { Some((Duration::ZERO, Instant::now())) } else { late.map(|late| (late, Instant::now())) };
        }
    }

    pub(super) fn source_is_there(&self) {
        self.standing.state().source.is_there();
    }

    pub(super) fn source_is_not(&self, why: &str) {
        self.standing.state().source.is_not(why);
    }

    /// Offsets could not be committed.
    pub(super) fn not_committed(&self, why: &str) {
        if self.notices.is_due(why) {
            tracing::warn!("offsets could not be committed: {why}; trying again");
        }
        self.standing.state().checkpoints.is_not(why);
    }

    fn names(&self, keys: impl Iterator<Item = Key>) -> String {
        let mut names: Vec<String> = keys.map(|(topic, number)| format!("{topic}-{number}")).collect();
        names.sort();
        if names.is_empty() { "no partition".to_owned() } else { names.join(", ") }
    }
}

impl Shell for Assignment {
    fn assigned(&self, begun: Vec<Begun>) {
        let mut held = self.held();
        for begun in &begun {
            let (generation, origin) = (begun.generation, Arc::clone(&begun.origin));
            let now = Held { generation, origin, is_begun: false, taken: begun.from, arrived: None, committed: None };
            let mut current = self.current();
            current.insert(generation);
            if let Some(before) = held.insert(begun.key.clone(), now) {
                current.remove(&before.generation);
            }
        }
        tracing::info!("given {}; reads {} in all", self.names(begun.iter().map(|begun| begun.key.clone())), held.len());
        drop(held);
        self.has_begun.store(true, Ordering::Relaxed);
        let mut state = self.standing.state();
        if state.phase == Phase::Starting {
            state.phase = Phase::Running;
        }
        state.checkpoints.is_there();
        drop(state);
        for begun in begun {
            let _ = self.news.send(News::Begun(begun));
        }
    }

    fn revoked(&self, partitions: &[Key], lost: bool) -> Vec<(Key, i64)> {
        let mut settled: Vec<(Key, i64)> = {
            let held = self.held();
            let of = |key: &Key| Some((key.clone(), held.get(key).and_then(|held| self.settled(held))?));
            partitions.iter().filter(|_| !lost).filter_map(of).collect()
        };
        // What an offset says to be settled has to outlive the offset.
        if !settled.is_empty() {
            let finished = self.runtime.block_on(async { timeout(DURABLE_WITHIN, self.sink.finish()).await });
            if !matches!(finished, Ok(Ok(()))) {
                tracing::warn!(
                    "what was settled could not be made durable in time: whoever reads on reads it again, which changes nothing"
                );
                settled.clear();
            }
        }
        let mut held = self.held();
        for key in partitions {
            if let Some(held) = held.remove(key) {
                self.current().remove(&held.generation);
                let _ = self.news.send(News::Left(key.clone()));
            }
        }
        let how = if lost { "lost" } else { "gives up" };
        tracing::info!("{how} {}; reads {} in all", self.names(partitions.iter().cloned()), held.len());
        settled
    }

    fn committed(&self, result: Result<&[(Key, i64)], String>) {
        let committed = match result {
            Ok(committed) => committed,
            Err(why) => return self.not_committed(&why),
        };
        let mut names = Vec::new();
        let mut held = self.held();
        for (key, next) in committed {
            if let Some(held) = held.get_mut(key) {
                held.committed = Some(*next);
                names.push(self.standing.state().name(&held.origin));
            }
        }
        drop(held);
        self.standing.saved(names.iter().map(String::as_str));
        self.standing.state().checkpoints.is_there();
    }

    fn hindered(&self, failure: &Failure) {
        if self.notices.is_due(failure.what()) {
            tracing::warn!("what the group gives cannot be begun with: {}; trying again", failure.what());
        }
        self.source_is_not(failure.what());
    }

    fn now(&self) -> u64 {
        clock::millis()
    }
}
