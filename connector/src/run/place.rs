//! Where a unit was read, as a person is told it and finds it again.

use std::fmt;

use serde::Serialize;

use crate::codec::{UserRecord, position};
use crate::record::{Origin, Position, Record};

/// The place of a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The shard: the file of a captured stream, a topic and its partition.
    pub origin: String,
    /// The record's place in it.
    pub position: Position,
    /// The sub-sequence number inside a KPL aggregate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub: Option<u64>,
    /// The unit's place inside its user record.
    pub unit: u32,
}

impl Place {
    /// The place of a unit of a record.
    pub fn new(record: &Record, user_record: &UserRecord, unit: u32) -> Self {
        let sub = user_record.sub;
        Self { origin: named(&record.origin, &record.position), position: position(&record.position, sub), sub, unit }
    }
}

/// A shard as it is told: the file of a captured stream, a topic and its partition.
pub(super) fn named(origin: &Origin, position: &Position) -> String {
    match position {
        Position::Offset { .. } => origin.to_string(),
        _ => shard(origin).to_owned(),
    }
}

/// A shard by itself: the file of a captured stream, the number of a partition.
pub(super) fn shard(origin: &Origin) -> &str {
    if origin.shard.is_empty() { &origin.stream } else { &origin.shard }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            // It names its partition itself.
            Position::Offset { .. } => write!(f, "{}", self.position)?,
            _ => write!(f, "{} {}", self.origin, self.position)?,
        }
        if let Some(sub) = self.sub {
            write!(f, " sub-record {sub}")?;
        }
        if self.unit > 0 {
            write!(f, " value {}", self.unit)?;
        }
        Ok(())
    }
}
