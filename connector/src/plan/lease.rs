//! Who reads a shard: what is stored of that, when another may take over, and what each writes.
//!
//! A row is changed only by who knows its last state, so that of two that change it at once one learns that it lost. Whether an owner is
//! silent is judged by the time in which its row was seen not to change; clocks of two machines are never compared. Never waits, stores or reads
//! anything: that is `run::leases`.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::checkpoint::{Checkpoint, Progress};
use super::stored::Stamp;

/// Who reads a shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its name, for people.
    pub name: String,
    /// What no other process has, also not the next one of the same name.
    pub session: String,
    /// After how much silence another may take over, in milliseconds.
    pub takeover_after: u64,
}

/// What is stored of a shard: who reads it, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Who reads it; `None` once it was let go.
    pub owner: Option<Owner>,
    /// Raised with every change of the owner, and by a rewind.
    pub epoch: u64,
    /// When it was written, by the writer's clock, in milliseconds since 1970. For people: no decision of a worker goes by it.
    pub heartbeat: u64,
    /// How far the shard is.
    #[serde(flatten)]
    pub checkpoint: Checkpoint,
}

impl Row {
    /// Whether its owner wrote it so recently, by the clocks of both, that it may be taken to be alive. `now` is in milliseconds since 1970.
    pub fn is_recent(&self, now: u64) -> bool {
        self.owner.as_ref().is_some_and(|owner| self.age(now) < owner.takeover_after)
    }

    /// How long ago it was written, in milliseconds, by the clocks of both; `now` is in milliseconds since 1970.
    pub fn age(&self, now: u64) -> u64 {
        now.saturating_sub(self.heartbeat)
    }

    /// The row from which its shard is read anew: nobody's, so that whoever reads now loses it, and without the indices that were written to.
    pub fn rewound(&self, progress: Progress, now: u64) -> Self {
        let checkpoint = Checkpoint { progress, covered: None, targets: BTreeMap::new() };
        Self { owner: None, epoch: self.epoch + 1, heartbeat: now, checkpoint }
    }
}

/// Whose a shard is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// Ours.
    Mine,
    /// Another one reads it.
    Other {
        /// Who, by the name for people.
        owner: String,
    },
    /// Nobody reads it, or who did is silent.
    Free,
}

/// A row as it is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// The shard.
    pub shard: String,
    /// The state that the row must have now; `None` where there must be none.
    pub expect: Option<Stamp>,
    /// What it will say; `None` removes it.
    pub row: Option<Row>,
}

/// What one worker knows of the rows of its pipeline, and which are its own.
#[derive(Debug)]
pub struct Register {
    me: Owner,
    rows: BTreeMap<String, Known>,
    /// When the rows were read last.
    looked: Option<Duration>,
    /// Shards that were ours, and are not, and of which nobody was told.
    lost: BTreeSet<String>,
}

#[derive(Debug)]
struct Known {
    row: Row,
    stamp: Stamp,
    /// For how long it was seen not to change.
    silence: Duration,
    mine: bool,
}

impl Register {
    /// Of a worker that knows nothing yet.
    pub fn new(me: Owner) -> Self {
        Self { me, rows: BTreeMap::new(), looked: None, lost: BTreeSet::new() }
    }

    /// All rows as they were read. `now` is the time of a clock of our own that never goes back.
    pub fn see(&mut self, found: Vec<(String, Stamp, Row)>, now: Duration) {
        let since = self.looked.map_or(Duration::ZERO, |looked| now.saturating_sub(looked));
        // Who could not write for as long as nobody could read was not silent.
        let watched = since.min(Duration::from_millis(self.me.takeover_after) / 2);
        self.looked = Some(now);
        let mut before = mem::take(&mut self.rows);
        for (shard, stamp, row) in found {
            let known = before.remove(&shard);
            let silence = known.as_ref().filter(|known| known.stamp == stamp).map_or(Duration::ZERO, |known| known.silence + watched);
            let was_mine = known.filter(|known| known.mine);
            // Of a write whose answer was lost we only now learn the stamp.
            let mine = was_mine.as_ref().is_some_and(|known| known.row.epoch == row.epoch && self.is_me(&row));
            if was_mine.is_some() && !mine {
                self.lost.insert(shard.clone());
            }
            self.rows.insert(shard, Known { row, stamp, silence, mine });
        }
        self.lost.extend(before.into_iter().filter(|(_, known)| known.mine).map(|(shard, _)| shard));
    }

    /// Every shard of which something is stored, and whose it is.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &Checkpoint, Held)> {
        self.rows.iter().map(|(shard, known)| (shard.as_str(), &known.row.checkpoint, self.held(known)))
    }

    /// Whether a shard is ours.
    pub fn is_mine(&self, shard: &str) -> bool {
        self.rows.get(shard).is_some_and(|known| known.mine)
    }

    fn held(&self, known: &Known) -> Held {
        match &known.row.owner {
            _ if known.mine => Held::Mine,
            None => Held::Free,
            // We took it, and the answer to that was lost: nobody reads it.
            Some(owner) if owner.session == self.me.session => Held::Free,
            Some(owner) if known.silence >= Duration::from_millis(self.me.takeover_after.max(owner.takeover_after)) => Held::Free,
            Some(owner) => Held::Other { owner: owner.name.clone() },
        }
    }

    fn is_me(&self, row: &Row) -> bool {
        row.owner.as_ref().is_some_and(|owner| owner.session == self.me.session)
    }

    /// What takes these shards, as far as they can be had. `now` is in milliseconds since 1970, here and below.
    pub fn taking(&self, wanted: &[(String, Checkpoint)], now: u64) -> Vec<Draft> {
        let taking = |(shard, checkpoint): &(String, Checkpoint)| {
            let known = self.rows.get(shard);
            if known.is_some_and(|known| self.held(known) != Held::Free) {
                return None;
            }
            let epoch = known.map_or(0, |known| known.row.epoch) + 1;
            let row = Row { owner: Some(self.me.clone()), epoch, heartbeat: now, checkpoint: checkpoint.clone() };
            Some(Draft { shard: shard.clone(), expect: known.map(|known| known.stamp), row: Some(row) })
        };
        wanted.iter().filter_map(taking).collect()
    }

    /// What saves how far the shards are, and keeps all that are ours, also those that did not move.
    pub fn saving(&self, moved: &[(String, Checkpoint)], now: u64) -> Vec<Draft> {
        let moved: BTreeMap<&str, &Checkpoint> = moved.iter().map(|(shard, checkpoint)| (shard.as_str(), checkpoint)).collect();
        self.ours(|shard, row| {
            let checkpoint = moved.get(shard).map_or_else(|| row.checkpoint.clone(), |checkpoint| (*checkpoint).clone());
            Row { heartbeat: now, checkpoint, ..row.clone() }
        })
    }

    /// What lets all go that are ours.
    pub fn releasing(&self, now: u64) -> Vec<Draft> {
        self.ours(|_, row| Row { owner: None, heartbeat: now, ..row.clone() })
    }

    fn ours(&self, row: impl Fn(&str, &Row) -> Row) -> Vec<Draft> {
        let ours = self.rows.iter().filter(|(_, known)| known.mine);
        ours.map(|(shard, known)| Draft { shard: shard.clone(), expect: Some(known.stamp), row: Some(row(shard, &known.row)) }).collect()
    }

    /// What removes these rows, but for those that another one has.
    pub fn removing(&self, shards: &[String]) -> Vec<Draft> {
        let known = shards.iter().filter_map(|shard| Some((shard, self.rows.get(shard)?)));
        let free = known.filter(|(_, known)| !matches!(self.held(known), Held::Other { .. }));
        free.map(|(shard, known)| Draft { shard: shard.clone(), expect: Some(known.stamp), row: None }).collect()
    }

    /// A draft was written, and this is the state of its row now.
    pub fn wrote(&mut self, draft: Draft, stamp: Stamp) {
        match draft.row {
            Some(row) => {
                let mine = self.is_me(&row);
                self.rows.insert(draft.shard, Known { row, stamp, silence: Duration::ZERO, mine });
            }
            None => drop(self.rows.remove(&draft.shard)),
        }
    }

    /// A draft that takes a shard met another state of its row than was known: where what is there now is what it wanted, it was written before, and
    /// the answer to that was lost.
    pub fn adopt(&mut self, draft: &Draft) {
        let Some(wanted) = &draft.row else { return };
        if let Some(known) = self.rows.get_mut(&draft.shard) {
            known.mine = known.row.epoch == wanted.epoch && known.row.owner == wanted.owner && wanted.owner.is_some();
        }
    }

    /// Those of these shards that are not ours, and those that were ours, are not any more, and were not handed out here yet.
    pub fn take_lost<'a>(&mut self, of: impl Iterator<Item = &'a str>) -> Vec<String> {
        let mut lost = mem::take(&mut self.lost);
        lost.extend(of.filter(|shard| !self.is_mine(shard)).map(str::to_owned));
        lost.into_iter().filter(|shard| !self.is_mine(shard)).collect()
    }
}

#[cfg(test)]
mod tests;
