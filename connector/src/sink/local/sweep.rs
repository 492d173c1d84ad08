//! The tombstones of the local index: how many there are, and which are old.
//!
//! Never removes one: that is a delete, as from any other sink, and it leaves the version.

use std::sync::Arc;

use rusqlite::{Connection, params};
use serde_json::value::RawValue;

use super::super::{Candidate, Page, Pending, Survey, Tombstones};
use super::Local;
use crate::operation::Target;
use crate::plan::names::matches;
use crate::plan::outcome::Failure;
use crate::plan::tombstone;
use crate::revision::VersionType;

/// Tombstones of one page.
const PAGE: u32 = 1_000;

/// The document that a tombstone of this time is, in milliseconds since 1970.
pub(super) fn source(time: u64) -> String {
    String::from_utf8_lossy(tombstone::document(time).as_bytes()).into_owned()
}

impl Tombstones for Local {
    fn survey<'a>(&'a self, name: &'a str, before: u64) -> Pending<'a, Result<Vec<Survey>, Failure>> {
        let name = name.to_owned();
        self.ask(move |connection| survey(connection, &name, before))
    }

    fn page<'a>(&'a self, index: &'a str, before: u64, after: Option<String>) -> Pending<'a, Result<Page, Failure>> {
        let index: Arc<str> = index.into();
        // The mark is the last key, and keys begin at 1.
        let after = after.and_then(|mark| mark.parse().ok()).unwrap_or(0);
        self.ask(move |connection| page(connection, &index, before, after))
    }
}

fn survey(connection: &Connection, pattern: &str, before: u64) -> rusqlite::Result<Vec<Survey>> {
    const SURVEY: &str = "SELECT name, coalesce(old, 0), coalesce(younger, 0) FROM indices LEFT JOIN (
            SELECT index_key, count(*) FILTER (WHERE time < ?1) AS old, count(*) FILTER (WHERE time >= ?1) AS younger
            FROM tombstones JOIN documents USING (key) GROUP BY index_key
        ) ON index_key = indices.key ORDER BY name";
    let mut statement = connection.prepare_cached(SURVEY)?;
    let found = statement
        .query_map([stored(before)], |row| Ok(Survey { index: row.get::<_, String>(0)?.into(), old: row.get(1)?, younger: row.get(2)? }))?;
    found.filter(|survey| survey.as_ref().map_or(true, |survey| matches(pattern, &survey.index))).collect()
}

fn page(connection: &Connection, index: &Arc<str>, before: u64, after: i64) -> rusqlite::Result<Page> {
    const FIND: &str = "SELECT documents.key, id, version, routing, time FROM tombstones JOIN documents USING (key)
        WHERE index_key = (SELECT key FROM indices WHERE name = ?1) AND time < ?2 AND tombstones.key > ?3 ORDER BY tombstones.key LIMIT ?4";
    let mut statement = connection.prepare_cached(FIND)?;
    let mut rows = statement.query(params![&**index, stored(before), after, PAGE])?;
    let (mut found, mut last) = (Vec::new(), after);
    while let Some(row) = rows.next()? {
        last = row.get(0)?;
        let target = Target {
            index: Arc::clone(index),
            id: row.get(1)?,
            version: row.get(2)?,
            version_type: VersionType::ExternalGte,
            routing: row.get(3)?,
        };
        let source = RawValue::from_string(source(row.get(4)?)).unwrap_or_else(|_| RawValue::NULL.to_owned());
        found.push(Candidate { target, source });
    }
    Ok(Page { found, next: last.to_string() })
}

/// A time as SQLite holds it.
fn stored(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}
