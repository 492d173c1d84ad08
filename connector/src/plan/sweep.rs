//! Which tombstones may go: those that nothing can come after any more.
//!
//! A tombstone stands against revisions that are older than it and come later. Once the source has dropped them all, which is its retention
//! after the delete, none can come. Never decides by what a search says: the document itself is read.

use std::time::Duration;

use super::tombstone::{Tombstone, read};

/// What a document that was found as an old tombstone turns out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A tombstone from before the time given.
    Old,
    /// A tombstone from that time or later.
    Younger,
    /// A tombstone of a form that only a newer revsync knows.
    NewerForm,
    /// No tombstone of revsync's.
    Foreign,
}

/// Whether tombstones of this age may still be needed by a source that keeps its records for `retention`.
pub fn is_too_young(age: Duration, retention: Duration) -> bool {
    age < retention
}

/// The time, in milliseconds since 1970, before which a tombstone is older than `age`.
pub fn before(now: u64, age: Duration) -> u64 {
    now.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
}

/// Judges a stored document by what it says.
pub fn judge(source: &[u8], before: u64) -> Verdict {
    match read(source) {
        Some(Tombstone::Of(time)) if time < before => Verdict::Old,
        Some(Tombstone::Of(_)) => Verdict::Younger,
        Some(Tombstone::Newer) => Verdict::NewerForm,
        None => Verdict::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tombstone::document;

    #[test]
    fn a_tombstone_may_go_when_its_whole_retention_has_passed() {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        assert!(is_too_young(hours(167), hours(168)));
        assert!(!is_too_young(hours(168), hours(168)));
    }

    #[test]
    fn only_what_says_that_it_is_old_is_old() {
        let before = super::before(1_000_000, Duration::from_secs(600));
        assert_eq!(before, 400_000);
        for (source, expected) in [
            (document(399_999).0, Verdict::Old),
            (document(400_000).0, Verdict::Younger),
            (document(2_000_000).0, Verdict::Younger),
            (r#"{"revsync":{"v":2,"deleted":true}}"#.into(), Verdict::NewerForm),
            (r#"{"name":"Raul"}"#.into(), Verdict::Foreign),
            ("".into(), Verdict::Foreign),
        ] {
            assert_eq!(judge(&source, before), expected, "{source:?}");
        }
    }

    #[test]
    fn an_age_of_more_than_all_time_reaches_no_tombstone() {
        assert_eq!(before(1_000, Duration::MAX), 0);
        assert_eq!(judge(document(0).as_bytes(), 0), Verdict::Younger);
    }
}
