//! Whether sending an old dead letter again could bring a document back that was deleted meanwhile.
//!
//! OpenSearch remembers the version of a deleted document for `index.gc_deletes` only (OpenSearch documentation, "Index settings"). A letter
//! that lay longer may be older than a delete that is forgotten. A clock is never read here: the moment is given.

use time::OffsetDateTime;

use super::mapping::{Deletes, Mode};
use super::names::matches;

/// What a place of dead letters must not send again by itself.
#[derive(Debug, Clone)]
pub struct Guard {
    /// What the rules for newest revisions do with deletes, by the pattern of each.
    pub rules: Vec<(String, Deletes)>,
    /// Deletes that are older than this may be forgotten.
    pub forgotten_before: OffsetDateTime,
}

impl Guard {
    /// Whether a letter could bring a document back: its mode and its table, where they are known, and since when its record is not in the index (none
    /// where that cannot be told). One that was a delete is no exception: the rules, and what they make of it, may be others now. In a history
    /// nothing is deleted.
    pub fn stops(&self, mode: Option<Mode>, table: Option<&str>, since: Option<OffsetDateTime>) -> bool {
        mode != Some(Mode::History) && since.is_none_or(|since| since < self.forgotten_before) && self.forgets(table)
    }

    /// Whether the index of a table forgets deletes; of a table that is not known, whether any does.
    fn forgets(&self, table: Option<&str>) -> bool {
        match table {
            Some(table) => self.rules.iter().find(|(name, _)| matches(name, table)).is_some_and(|(_, deletes)| *deletes == Deletes::Delete),
            None => self.rules.iter().any(|(_, deletes)| *deletes == Deletes::Delete),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Option<OffsetDateTime> {
        OffsetDateTime::from_unix_timestamp(second).ok()
    }

    fn guard(rules: &[(&str, Deletes)]) -> Guard {
        let rules = rules.iter().map(|(name, deletes)| ((*name).to_owned(), *deletes)).collect();
        Guard { rules, forgotten_before: at(100).unwrap() }
    }

    #[test]
    fn only_letters_that_lay_longer_than_a_delete_is_remembered_are_stopped() {
        let guard = guard(&[("*", Deletes::Delete)]);
        assert!(guard.stops(None, Some("A"), at(99)));
        assert!(guard.stops(None, None, None), "of a time that cannot be read nothing is known");
        assert!(!guard.stops(None, Some("A"), at(100)));
    }

    #[test]
    fn the_first_rule_that_fits_the_table_says_whether_deletes_are_forgotten() {
        let guard = guard(&[("A", Deletes::Keep), ("T", Deletes::Tombstone), ("shop.*", Deletes::Delete)]);
        let stops = |table: Option<&str>| guard.stops(Some(Mode::Latest), table, at(1));
        assert_eq!(
            [stops(Some("A")), stops(Some("T")), stops(Some("shop.x")), stops(Some("B")), stops(None)],
            [false, false, true, false, true]
        );
    }

    #[test]
    fn a_letter_of_a_history_is_never_stopped_nor_is_any_where_there_are_only_histories() {
        assert!(!guard(&[("*", Deletes::Delete)]).stops(Some(Mode::History), Some("A"), at(1)));
        assert!(!guard(&[]).stops(None, Some("A"), at(1)) && !guard(&[]).stops(None, None, at(1)));
    }
}
