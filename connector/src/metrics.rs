//! Every count that revsync keeps, named and explained once. Reports, metrics and tests use these names.
//!
//! A leaf: imports nothing from the crate. The unit counted is each revision, and each record that carries none.

pub mod instruments;

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::Serialize;
use serde::ser::SerializeMap;

/// Why a unit was settled without an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Skip {
    /// A control record of the stream.
    Control,
    /// A block summary: the journal's own bookkeeping.
    BlockSummary,
    /// A delete, or a revision that does not match WHERE, under a rule with `deletes = "keep"`.
    Filtered,
    /// A redacted revision: its content is gone, a newer revision holds the document's state.
    Redacted,
    /// Rules exist, and none of them names this table.
    Unmapped,
    /// Nothing to write: a schema message, a lone tombstone, an aggregate without records, a key-only message.
    NoChange,
}

impl Skip {
    /// Every reason, in the order of reports.
    pub const ALL: [Self; 6] = [Self::Control, Self::BlockSummary, Self::Filtered, Self::Redacted, Self::Unmapped, Self::NoChange];

    /// The reason's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::BlockSummary => "block_summary",
            Self::Filtered => "filtered",
            Self::Redacted => "redacted",
            Self::Unmapped => "unmapped",
            Self::NoChange => "no_change",
        }
    }
}

/// How records were lost before they could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// The source does not keep them any more.
    Trimmed,
    /// Their shard is not there any more, and was not read to its end.
    Vanished,
}

impl Loss {
    /// Every cause.
    pub const ALL: [Self; 2] = [Self::Trimmed, Self::Vanished];

    /// The cause's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trimmed => "trimmed",
            Self::Vanished => "vanished",
        }
    }
}

/// The counts of a run. `received` is always the sum of all the others but `bytes`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Units read.
    pub received: u64,
    /// Documents written.
    pub indexed: u64,
    /// Documents deleted.
    pub deleted: u64,
    /// Writes that the index refused because it holds something at least as new.
    pub stale: u64,
    /// Deletes of documents that the index did not have.
    pub absent: u64,
    /// Revisions that were not sent because a newer one of the same document was in the same batch.
    pub compacted: u64,
    /// Settled without an operation, by reason.
    pub skipped: BTreeMap<Skip, u64>,
    /// Units stored as dead letters.
    pub dead_letters: u64,
    /// Units read and not settled; 0 at a good end.
    pub pending: u64,
    /// Bytes of records read, after decompression.
    pub bytes: u64,
    /// Things worth knowing about units counted above; no part of the sum.
    pub notes: Notes,
}

/// Things worth knowing that are no outcome of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Notes {
    /// Field names that came twice in one struct (the last one was kept).
    pub duplicate_fields: u64,
    /// Annotations dropped.
    pub annotations: u64,
    /// NaN and infinities written as null.
    pub non_finite: u64,
    /// Lone surrogates in JSON input replaced by U+FFFD.
    pub lone_surrogates: u64,
    /// Revision hashes checked and right.
    pub hashes_verified: u64,
    /// Revision hashes that did not match; their revisions are dead letters.
    pub hashes_mismatched: u64,
    /// Revisions whose hash cannot be checked: deletes, and revisions without one.
    pub hashes_unchecked: u64,
}

impl AddAssign<&Notes> for Notes {
    fn add_assign(&mut self, other: &Notes) {
        self.duplicate_fields += other.duplicate_fields;
        self.annotations += other.annotations;
        self.non_finite += other.non_finite;
        self.lone_surrogates += other.lone_surrogates;
        self.hashes_verified += other.hashes_verified;
        self.hashes_mismatched += other.hashes_mismatched;
        self.hashes_unchecked += other.hashes_unchecked;
    }
}

impl Counts {
    /// Counts one unit as skipped.
    pub fn skip(&mut self, reason: Skip) {
        *self.skipped.entry(reason).or_default() += 1;
    }

    /// All that came to a settled end.
    pub fn settled(&self) -> u64 {
        self.indexed + self.deleted + self.stale + self.absent + self.compacted + self.skipped.values().sum::<u64>() + self.dead_letters
    }

    /// Whether every unit is counted under exactly one heading.
    pub fn balanced(&self) -> bool {
        self.received == self.settled() + self.pending
    }
}

/// The JSON form of a report: the counts by name, and the seconds that the run took.
#[derive(Debug)]
pub struct Report<'a> {
    /// The counts.
    pub counts: &'a Counts,
    /// Wall-clock seconds.
    pub seconds: f64,
}

impl Serialize for Report<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counts = self.counts;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("received", &counts.received)?;
        map.serialize_entry("indexed", &counts.indexed)?;
        map.serialize_entry("deleted", &counts.deleted)?;
        map.serialize_entry("stale", &counts.stale)?;
        map.serialize_entry("absent", &counts.absent)?;
        map.serialize_entry("compacted", &counts.compacted)?;
        map.serialize_entry("skipped", &counts.skipped)?;
        map.serialize_entry("dead_letters", &counts.dead_letters)?;
        map.serialize_entry("pending", &counts.pending)?;
        map.serialize_entry("bytes", &counts.bytes)?;
        map.serialize_entry("seconds", &self.seconds)?;
        map.end()
    }
}

/// Why a tombstone that was looked at stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// It is not old enough.
    Younger,
    /// Something newer was written under its id meanwhile.
    Rewritten,
    /// Its form is one that only a newer revsync knows.
    NewerForm,
    /// It says that it is one, and has other things in it: it is somebody's document.
    Foreign,
    /// The index did not take the delete.
    Failed,
}

impl Kept {
    /// Every reason, in the order of reports.
    pub const ALL: [Self; 5] = [Self::Younger, Self::Rewritten, Self::NewerForm, Self::Foreign, Self::Failed];

    /// The reason's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Younger => "younger",
            Self::Rewritten => "rewritten",
            Self::NewerForm => "newer_form",
            Self::Foreign => "foreign",
            Self::Failed => "failed",
        }
    }
}

/// The counts of a sweep, for which the unit is a tombstone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Swept {
    /// Tombstones that are gone; in a dry run, those that would be.
    pub swept: u64,
    /// Tombstones that stay, by reason.
    pub kept: BTreeMap<Kept, u64>,
}

impl Swept {
    /// Counts tombstones that stay.
    pub fn keep(&mut self, reason: Kept, count: u64) {
        if count > 0 {
            *self.kept.entry(reason).or_default() += count;
        }
    }
}
