//! What is saved of a shard: how far everything of it is settled, and where reading begins when nothing of it is yet.
//!
//! Plain data, whatever keeps it. Never says who reads the shard, and never that a record is settled: that is the
//! [`ledger`](super::ledger).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::resume::Mark;
use crate::record::Position;

/// Where a stream is begun with, in a shard of which nothing is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the oldest record that the stream still has.
    Earliest,
    /// With what is written from now on.
    Latest,
    /// With what arrived at this time or later, in milliseconds since 1970.
    Timestamp(u64),
}

/// Where reading a shard begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Begin {
    /// At the oldest record that it still has.
    Earliest,
    /// With what is written from now on. Saved before anything is read, and then read again from that time: what was written meanwhile
    /// is not passed over.
    Latest {
        /// When it was decided, in milliseconds since 1970.
        since: u64,
    },
    /// With what arrived at this time or later.
    Timestamp {
        /// In milliseconds since 1970.
        millis: u64,
    },
    /// Behind this record; behind this part of it, where it is a part of an aggregate.
    After {
        /// The last that is settled.
        position: Position,
    },
}

/// What is saved of a shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// How far it is settled.
    pub progress: Progress,
    /// Everything that arrived before this time is settled, in milliseconds since 1970; what the stream does not keep for so long may have
    /// been lost before it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covered: Option<u64>,
    /// The indices that were written to, with their UUIDs: another index of the same name does not hold what was written.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub targets: BTreeMap<String, String>,
}

/// How far a shard is settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// Nothing yet: reading begins here.
    Begins(Begin),
    /// Everything up to this position.
    Settled(Position),
    /// All of it, and it is closed: its children may be read.
    Ended,
    /// Everything before this place in the files of a scan.
    Scanned(Mark),
}

impl Progress {
    /// Where reading goes on; `None` where there is nothing left to read.
    pub fn begin(&self) -> Option<Begin> {
        match self {
            // What was written since then is not passed over.
            Self::Begins(Begin::Latest { since }) => Some(Begin::Timestamp { millis: *since }),
            Self::Begins(begin) => Some(begin.clone()),
            Self::Settled(position) => Some(Begin::After { position: position.clone() }),
            // What is scanned is no shard, and is found by its files.
            Self::Ended | Self::Scanned(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::SequenceNumber;

    #[test]
    fn what_began_with_the_latest_goes_on_from_the_time_of_that() {
        assert_eq!(Progress::Begins(Begin::Latest { since: 7 }).begin(), Some(Begin::Timestamp { millis: 7 }));
        assert_eq!(Progress::Ended.begin(), None);
    }

    #[test]
    fn a_checkpoint_reads_back_as_it_was_written() {
        let position = Position::Sequence { number: SequenceNumber("49".into()), sub: Some(2) };
        for progress in [Progress::Begins(Begin::Earliest), Progress::Settled(position), Progress::Ended] {
            let checkpoint = Checkpoint { progress, covered: Some(1), targets: [("person".to_owned(), "u".to_owned())].into() };
            let text = serde_json::to_string(&checkpoint).unwrap();
            assert_eq!(serde_json::from_str::<Checkpoint>(&text).unwrap(), checkpoint, "{text}");
        }
    }
}
