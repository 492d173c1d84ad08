//! What is committed beside an offset: when the group began with the topic, and how many partitions that had.
//!
//! A partition without a committed offset came later, or was there from the start and nobody came to begin with it: the two begin in different
//! places, and nothing else tells them apart.

use std::fmt;
use std::str::FromStr;

/// The beginning of a group, of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// When, in milliseconds since 1970.
    pub(super) begun: u64,
    /// How many partitions the topic had.
    pub(super) partitions: i32,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revsync 1 begun={} partitions={}", self.begun, self.partitions)
    }
}

impl FromStr for Mark {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let rest = text.strip_prefix("revsync 1 begun=").ok_or(())?;
        let (begun, partitions) = rest.split_once(" partitions=").ok_or(())?;
        Ok(Self { begun: begun.parse().map_err(drop)?, partitions: partitions.parse().map_err(drop)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_and_what_others_commit_is_none() {
        let mark = Mark { begun: 1_700_000_000_000, partitions: 8 };
        assert_eq!(mark.to_string().parse(), Ok(mark));
        for text in ["", "NO_METADATA", "revsync 2 begun=1 partitions=8", "revsync 1 begun=x partitions=8"] {
            assert_eq!(text.parse::<Mark>(), Err(()), "{text}");
        }
    }
}
