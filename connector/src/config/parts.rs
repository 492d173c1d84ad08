//! What the settings come to for each part of the line.
//!
//! Turns one kind of plain data into another; the only files read are the mappings that rules name.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;

use super::file::TableRule;
use super::settings::Settings;
use super::units::Span;
use crate::codec::Rows;
use crate::error::Error;
use crate::plan::deletes::of_rows;
use crate::plan::journal::index;
use crate::plan::mapping::{Deletes, Mode};
use crate::plan::names::default_index;
use crate::sink::opensearch;

impl Settings {
    /// The OpenSearch sink's part.
    ///
    /// # Errors
    /// The sink is another one.
    pub fn opensearch(&self) -> Result<&opensearch::Config, Error> {
        self.sink
            .opensearch
            .as_ref()
            .ok_or_else(|| Error::usage(format!("expected an OpenSearch sink, http(s)://HOST:PORT, found {}", self.sink.url)))
    }

    /// How long an index remembers deletes, where the sink forgets them at all: what is configured for those that are created.
    pub fn forgets_deletes_after(&self) -> Option<Duration> {
        let Span(time) = self.sink.opensearch.as_ref()?.gc_deletes.parse().ok()?;
        Some(time)
    }

    /// The indices that the rules name, where they can be told without having seen the tables, and that of the journal.
    pub fn indices(&self) -> Vec<String> {
        self.tables.iter().filter_map(index).chain(self.journal.index.clone()).collect()
    }

    /// The indices that rules with tombstones name, where they can be told, and the names of the rules whose indices cannot.
    pub fn tombstone_indices(&self) -> (Vec<String>, Vec<&str>) {
        let (mut indices, mut untold) = (Vec::new(), Vec::new());
        for rule in self.latest().filter(|rule| self.deletes(rule) == Deletes::Tombstone) {
            match index(rule) {
                Some(index) if !indices.contains(&index) => indices.push(index),
                Some(_) => {}
                None => untold.push(rule.name.as_str()),
            }
        }
        (indices, untold)
    }

    /// The tables that get plain deletes, as rules name them; `None` where there are no rules, and all do.
    pub fn plainly_deleted(&self) -> Option<Vec<&str>> {
        let plain = |rule: &&TableRule| self.deletes(rule) == Deletes::Delete;
        let some = !self.tables.is_empty() || self.source.rows == Rows::Cells;
        some.then(|| self.latest().filter(plain).map(|rule| rule.name.as_str()).collect())
    }

    /// What deletes are by a rule.
    pub fn deletes(&self, rule: &TableRule) -> Deletes {
        of_rows(rule.deletes, rule.rows.unwrap_or(self.source.rows))
    }

    /// What deletes are by the rules, by the pattern of each; for all tables where there are none.
    pub fn all_deletes(&self) -> Vec<(String, Deletes)> {
        if self.tables.is_empty() {
            return vec![("*".to_owned(), of_rows(Deletes::default(), self.source.rows))];
        }
        self.latest().map(|rule| (rule.name.clone(), self.deletes(rule))).collect()
    }

    /// The rules for newest revisions: nothing of a history is deleted.
    fn latest(&self) -> impl Iterator<Item = &TableRule> {
        self.tables.iter().filter(|rule| rule.mode == Mode::Latest)
    }

    /// What indices are created with, by index: the mappings that the rules name, and what that of the journal needs.
    ///
    /// # Errors
    /// A mapping's file cannot be read, is no JSON object, or belongs to a rule whose index cannot be told.
    pub fn mappings(&self) -> Result<HashMap<String, Value>, Error> {
        let mut mappings: HashMap<_, _> = self.journal.index.iter().map(|index| (index.clone(), index::body())).collect();
        for rule in &self.tables {
            let Some(path) = &rule.mapping else { continue };
            let refuse = |what: String| Error::usage(format!("[[table]] {:?}: mapping {}: {what}", rule.name, path.display()));
            let index = index(rule).ok_or_else(|| {
                refuse("expected a rule with one index, found a pattern".to_owned()).help("give the rule an index without {table}")
            })?;
            let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
            let mapping: Value = serde_json::from_str(&text).map_err(|error| refuse(error.to_string()))?;
            if !mapping.is_object() {
                return Err(refuse("expected a JSON object".to_owned()).help("revsync mapping SOURCE prints one"));
            }
            mappings.insert(index, mapping);
        }
        Ok(mappings)
    }
}

/// The index of a rule, where it is one and the same for every table that the rule could be for.
fn index(rule: &TableRule) -> Option<String> {
    let template = rule.index.as_deref().unwrap_or(rule.mode.default_template());
    if !template.contains("{table}") {
        return Some(template.to_owned());
    }
    let table = if rule.name.contains('*') { None } else { default_index(&rule.name) };
    Some(template.replace("{table}", &table?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_a_rule_is_told_where_it_is_the_same_for_all_its_tables() {
        for (name, template, expected) in [
            ("Person", None, Some("person")),
            ("Person", Some("people"), Some("people")),
            ("Person", Some("ledger-{table}"), Some("ledger-person")),
            ("shop.*", Some("shop"), Some("shop")),
            ("shop.*", Some("shop-{table}"), None),
            ("shop.*", None, None),
        ] {
            let rule = TableRule { name: name.to_owned(), index: template.map(str::to_owned), ..TableRule::default() };
            assert_eq!(index(&rule).as_deref(), expected, "{name} {template:?}");
            let history = TableRule { mode: Mode::History, ..rule };
            let expected = expected.map(|index| if template.is_none() { format!("{index}_history") } else { index.to_owned() });
            assert_eq!(index(&history), expected, "{name} {template:?}");
        }
    }
}
