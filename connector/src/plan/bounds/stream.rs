//! The bound of a stream of Kinesis: which of its shards are read, in which order, and when all of it was read.
//!
//! Shards are chosen as the worker chooses them ([`shards`](crate::plan::shards)): parents before their children, a child of two once and after
//! both. A child whose parent stopped at the bound came later and holds nothing of before it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::shard::{Seen, Shard, Verdict};
use crate::plan::checkpoint::{Begin, Checkpoint, Progress, Start};
use crate::plan::shards::{Listed, plan};
use crate::record::Position;

/// A stream that is read up to a time.
#[derive(Debug, Clone)]
pub struct Stream {
    /// In milliseconds since 1970, by the clock of the stream.
    bound: u64,
    patience: Duration,
    /// The shards that were closed when the bound was taken.
    closed: BTreeSet<String>,
    /// How far each shard was read.
    saved: BTreeMap<String, Checkpoint>,
    /// The shards that were begun under this bound.
    begun: BTreeMap<String, Begun>,
}

#[derive(Debug, Clone)]
struct Begun {
    /// None where it is not read any more.
    shard: Option<Shard>,
    /// Everything of it that arrived before this time was read, about.
    reached: u64,
    is_proven: bool,
}

/// What is to be done now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Shards to read, and from where.
    pub read: Vec<(String, Begin)>,
    /// Shards that were not read to their end and that the stream does not have any more: what was left of them is lost.
    pub vanished: Vec<String>,
}

impl Stream {
    /// A stream that had these shards when the bound was taken: a time in milliseconds since 1970, by the clock of the stream and no earlier
    /// than the moment of the list. A shard that comes no nearer to its end for `patience` is given up.
    pub fn new(listed: &[Listed], bound: u64, patience: Duration) -> Self {
        Self { bound, patience, closed: closed(listed), saved: BTreeMap::new(), begun: BTreeMap::new() }
    }

    /// Begins with the shards that may be read now. To be asked when the scan starts, when its bound was moved, and when a shard came to its end,
    /// with a list that is no older.
    pub fn begin(&mut self, listed: &[Listed]) -> Plan {
        let mut vanished = Vec::new();
        loop {
            let planned = plan(listed, &self.saved, Start::Earliest, self.bound);
            // Of one that is read its reading tells, and one that was read up to the bound has lost nothing of before it.
            let mut gone: Vec<String> = planned.vanished.into_iter().filter(|shard| !self.begun.contains_key(shard)).collect();
            if gone.is_empty() {
                let read: Vec<_> = planned.read.into_iter().filter(|(shard, _)| !self.begun.contains_key(shard)).collect();
                for (shard, begin) in &read {
                    self.begins(shard, begin);
                }
                return Plan { read, vanished };
            }
            gone.iter().for_each(|shard| self.ended(shard));
            vanished.append(&mut gone);
        }
    }

    fn begins(&mut self, shard: &str, begin: &Begin) {
        let bound = (!self.closed.contains(shard)).then_some(self.bound);
        let begun = Begun { shard: Some(Shard::new(bound, self.patience)), reached: 0, is_proven: true };
        self.begun.insert(shard.to_owned(), begun);
        let begins = Checkpoint { progress: Progress::Begins(begin.clone()), covered: None, targets: BTreeMap::new() };
        self.saved.entry(shard.to_owned()).or_insert(begins);
    }

    /// Whether a shard is read.
    pub fn is_read(&self, shard: &str) -> bool {
        self.begun.get(shard).is_some_and(|begun| begun.shard.is_some())
    }

    /// A page of a shard was read up to `last`, which was asked for so long after the bound was taken. What is not [`Verdict::GoesOn`] is read no
    /// more.
    pub fn saw(&mut self, shard: &str, page: Seen, last: Option<&Position>, since: Duration) -> Verdict {
        if let Some((last, saved)) = last.zip(self.saved.get_mut(shard)) {
            saved.progress = Progress::Settled(last.clone());
        }
        let Some(begun) = self.begun.get_mut(shard) else { return Verdict::GoesOn };
        let Some(read) = &mut begun.shard else { return Verdict::GoesOn };
        let verdict = read.saw(page, since);
        // Lossless for the next 500 million years.
        let said = page.behind.map(|behind| (self.bound + since.as_millis() as u64).saturating_sub(behind.as_millis() as u64));
        begun.reached = begun.reached.max(page.newest.or(said).unwrap_or_default().min(self.bound));
        if verdict != Verdict::GoesOn {
            begun.shard = None;
            begun.is_proven = verdict == Verdict::Reached;
        }
        verdict
    }

    /// A shard is closed and was read to its end, or is not there any more: its children may be begun.
    pub fn ended(&mut self, shard: &str) {
        if let Some(saved) = self.saved.get_mut(shard) {
            saved.progress = Progress::Ended;
        }
        if let Some(begun) = self.begun.get_mut(shard) {
            (begun.shard, begun.is_proven) = (None, true);
        }
    }

    /// Whether no shard is read any more; then the scan is at its end.
    pub fn is_over(&self) -> bool {
        self.begun.values().all(|begun| begun.shard.is_none())
    }

    /// The shards of which it is not proven that they were read up to the bound.
    pub fn not_proven(&self) -> impl Iterator<Item = &str> {
        self.begun.iter().filter(|(_, begun)| !begun.is_proven).map(|(shard, _)| shard.as_str())
    }

    /// The time of the bound.
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// Up to which time everything was read, about: in milliseconds since 1970, the bound at the most.
    pub fn reached(&self) -> u64 {
        self.begun.values().filter(|begun| begun.shard.is_some()).map(|begun| begun.reached).min().unwrap_or(self.bound)
    }

    /// Goes on to another bound: every shard from where it stopped.
    pub fn extend(&mut self, listed: &[Listed], bound: u64) {
        (self.bound, self.closed) = (self.bound.max(bound), closed(listed));
        self.begun.clear();
    }
}

fn closed(listed: &[Listed]) -> BTreeSet<String> {
    listed.iter().filter(|shard| shard.closed).map(|shard| shard.id.clone()).collect()
}
