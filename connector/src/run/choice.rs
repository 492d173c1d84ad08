//! Which dead letters are meant: by id, table, reason and time.
//!
//! Plain data; reads neither the clock nor a letter's content.

use std::collections::HashSet;

use time::OffsetDateTime;

use crate::plan::names::matches;
use crate::store::dead_letters::DeadLetter;

/// What a letter has to be to be meant. What is not set does not matter.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// One of these ids.
    pub ids: Option<HashSet<String>>,
    /// Of one of these tables, in which `*` stands for any characters; all where empty.
    pub tables: Vec<String>,
    /// With one of these classes of error; all where empty.
    pub reasons: Vec<String>,
    /// Older than this.
    pub before: Option<OffsetDateTime>,
    /// Younger than this.
    pub after: Option<OffsetDateTime>,
}

impl Choice {
    /// Whether a letter is meant.
    pub fn takes(&self, letter: &DeadLetter) -> bool {
        let table = || letter.table.as_deref().is_some_and(|table| self.tables.iter().any(|pattern| matches(pattern, table)));
        let moment = letter.moment();
        self.ids.as_ref().is_none_or(|ids| ids.contains(&letter.id))
            && (self.tables.is_empty() || table())
            && (self.reasons.is_empty() || self.reasons.contains(&letter.error.kind))
            && self.before.is_none_or(|before| moment.is_some_and(|moment| moment < before))
            && self.after.is_none_or(|after| moment.is_some_and(|moment| moment > after))
    }
}
