//! Which shards of a stream may be read now, and from where: parents before their children, nothing twice, nothing passed over.
//!
//! A shard is closed by a split or a merge, and its keys go on in its children; the order of a key holds only if the parents are settled to
//! their end before a child is begun. Never asks the stream: what it lists, and what is saved of each shard, are handed in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::checkpoint::{Begin, Checkpoint, Progress, Start};

/// A shard as the stream lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name, which no other shard of the stream ever has.
    pub id: String,
    /// The shards that it goes on from: none, the one that was split, or the two that were merged. They may be gone already.
    pub parents: Vec<String>,
    /// Whether nothing is written to it any more.
    pub closed: bool,
}

/// What may be done with the shards of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Shards that may be read now, and where reading begins: goes on, where something is saved. In the order in which they are listed.
    pub read: Vec<(String, Begin)>,
    /// Shards that wait for a parent to be settled to its end.
    pub waiting: Vec<String>,
    /// Shards that were begun, not settled to their end, and that the stream does not have any more: what was left of them is lost. They
    /// count as ended.
    pub vanished: Vec<String>,
    /// Shards whose checkpoints nobody needs any more: ended, no longer listed, and their children are begun.
    pub removable: Vec<String>,
}

/// Plans the shards of a stream, from all that it lists and all that is saved; `now` is in milliseconds since 1970.
///
/// Where nothing is saved at all, `start` says where each shard begins. Otherwise a shard of which nothing is saved came of one that was
/// read: it begins at its beginning, whatever `start` says, or at the time that `start` names if everything saved is of that time or later.
/// One that came of none of them is of the first start, of which not everything could be saved: it begins where the others did.
pub fn plan(listed: &[Listed], saved: &BTreeMap<String, Checkpoint>, start: Start, now: u64) -> Plan {
    let stream = Stream::new(listed, saved);
    let mut plan = Plan::default();
    for shard in listed {
        let begin = match saved.get(&shard.id) {
            Some(checkpoint) => checkpoint.progress.begin(),
            None if stream.is_passed_over(shard, start) => None,
            None => Some(stream.begin(shard, start, now)),
        };
        match begin {
            Some(begin) if shard.parents.iter().all(|parent| stream.is_done(parent, start)) => plan.read.push((shard.id.clone(), begin)),
            Some(_) => plan.waiting.push(shard.id.clone()),
            None => {}
        }
    }
    for (id, checkpoint) in saved.iter().filter(|(id, _)| !stream.by_id.contains_key(id.as_str())) {
        if checkpoint.progress != Progress::Ended {
            plan.vanished.push(id.clone());
        } else if stream.children(id).all(|child| stream.is_begun(&child.id)) {
            plan.removable.push(id.clone());
        }
    }
    plan
}

/// The shards that are saved as ended and that the stream lists as open: it was deleted and made again under the same name since, and what is
/// saved is of the other one. Asked with a fresh list, when a pipeline starts; a list that is older than a shard's end says the same.
pub fn made_again(listed: &[Listed], saved: &BTreeMap<String, Checkpoint>) -> Vec<String> {
    let ended = |id: &String| saved.get(id).is_some_and(|checkpoint| checkpoint.progress == Progress::Ended);
    listed.iter().filter(|shard| !shard.closed && ended(&shard.id)).map(|shard| shard.id.clone()).collect()
}

/// Whether the stream may have dropped records before they were read: how long ago the oldest of them may have been dropped.
///
/// `covered` is the time up to which everything is settled, `now` the present, both in milliseconds since 1970; `retention` is how long the
/// stream keeps a record. `None` where nothing can be lost.
pub fn lost_to_age(covered: u64, retention: Duration, now: u64) -> Option<Duration> {
    let age = Duration::from_millis(now.saturating_sub(covered));
    age.checked_sub(retention).filter(|lost| !lost.is_zero())
}

/// What is listed and what is saved, together.
struct Stream<'a> {
    saved: &'a BTreeMap<String, Checkpoint>,
    by_id: BTreeMap<&'a str, &'a Listed>,
    children: BTreeMap<&'a str, Vec<&'a Listed>>,
    /// Shards with a descendant of which something is saved: it would not have been begun before they were settled.
    before_saved: BTreeSet<&'a str>,
}

impl<'a> Stream<'a> {
    fn new(listed: &'a [Listed], saved: &'a BTreeMap<String, Checkpoint>) -> Self {
        let by_id: BTreeMap<&str, &Listed> = listed.iter().map(|shard| (shard.id.as_str(), shard)).collect();
        let mut children: BTreeMap<&str, Vec<&Listed>> = BTreeMap::new();
        for shard in listed {
            for parent in &shard.parents {
                children.entry(parent).or_default().push(shard);
            }
        }
        let mut before_saved = BTreeSet::new();
        let mut walk: Vec<&Listed> = listed.iter().filter(|shard| saved.contains_key(&shard.id)).collect();
        while let Some(shard) = walk.pop() {
            for parent in &shard.parents {
                if before_saved.insert(parent.as_str()) {
                    walk.extend(by_id.get(parent.as_str()));
                }
            }
        }
        Self { saved, by_id, children, before_saved }
    }

    fn children(&self, id: &str) -> impl Iterator<Item = &'a Listed> {
        self.children.get(id).into_iter().flatten().copied()
    }

    fn is_begun(&self, id: &str) -> bool {
        self.saved.contains_key(id) || self.before_saved.contains(id)
    }

    /// Whether nothing of a shard, of which nothing is saved, is to be read.
    fn is_passed_over(&self, shard: &Listed, start: Start) -> bool {
        // With the latest begin the shards at the ends of the stream. One that is closed while its children are not listed yet is such an end.
        let only_the_ends = start == Start::Latest && self.saved.is_empty();
        self.before_saved.contains(shard.id.as_str()) || only_the_ends && self.children(&shard.id).next().is_some()
    }

    /// Whether the children of this shard may be begun.
    fn is_done(&self, id: &str, start: Start) -> bool {
        let listed = self.by_id.get(id);
        match self.saved.get(id) {
            Some(checkpoint) => checkpoint.progress == Progress::Ended || listed.is_none(),
            None => listed.is_none_or(|shard| self.is_passed_over(shard, start)),
        }
    }

    /// Whether a shard came of one of which something is saved.
    fn came_of_saved(&self, shard: &Listed) -> bool {
        let (mut walk, mut seen) = (vec![shard], BTreeSet::new());
        while let Some(shard) = walk.pop() {
            for parent in &shard.parents {
                if self.saved.contains_key(parent) {
                    return true;
                }
                if seen.insert(parent.as_str()) {
                    walk.extend(self.by_id.get(parent.as_str()));
                }
            }
        }
        false
    }

    /// When a pipeline was begun with the latest, as far as that is still saved.
    fn began_with_latest(&self) -> Option<u64> {
        let since = |checkpoint: &Checkpoint| match checkpoint.progress {
            Progress::Begins(Begin::Latest { since }) => Some(since),
            _ => None,
        };
        self.saved.values().filter_map(since).min()
    }

    /// Where a shard begins of which nothing is saved.
    fn begin(&self, shard: &Listed, start: Start, now: u64) -> Begin {
        match start {
            Start::Earliest => Begin::Earliest,
            Start::Latest if self.saved.is_empty() => Begin::Latest { since: now },
            Start::Latest => match self.began_with_latest().filter(|_| !self.came_of_saved(shard)) {
                Some(millis) => Begin::Timestamp { millis },
                None => Begin::Earliest,
            },
            // Something settled from before that time: the pipeline was begun with another start.
            Start::Timestamp(millis) if self.saved.values().any(|saved| saved.covered.is_some_and(|covered| covered < millis)) => {
                Begin::Earliest
            }
            Start::Timestamp(millis) => Begin::Timestamp { millis },
        }
    }
}

#[cfg(test)]
mod tests;
