//! What the local index holds: every document and tombstone at its version, and the deletes that it may forget.
//!
//! Pages by key: a key stays with its document for as long as there is anything of it, so each page is one short look, and no writer waits for the
//! next. Never tells of a delete without a tombstone, of which there is only the version.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};
use serde_json::value::RawValue;

use super::super::{Asked, Contents, Detail, Held, Holding, Pending};
use super::{Local, failure, lock, merge, sweep};
use crate::plan::outcome::{Class, Failure};

/// Documents of one page.
const PAGE: usize = 1_000;

/// Bytes of content after which a page ends: it holds no more than these and one document.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// What is read of a document. Content is the last column, and so is not read where it is not asked for.
const VERSION: &str = "documents.key, id, version, routing, time, NULL, NULL";
const CONTENT: &str = "documents.key, id, version, routing, time, cells.row, source";
/// Where documents and tombstones are.
const ALL: &str = "documents LEFT JOIN tombstones ON tombstones.key = documents.key LEFT JOIN cells ON cells.key = documents.key";
const THERE: &str = "(source IS NOT NULL OR time IS NOT NULL)";

impl Contents for Local {
    fn holding<'a>(&'a self, index: &'a str, with: Detail, after: Option<String>) -> Pending<'a, Result<Option<Holding>, Failure>> {
        let index = index.to_owned();
        self.ask(move |connection| {
            let Some(key) = index_key(connection, &index)? else { return Ok(None) };
            let total = if after.is_none() { Some(count(connection, key)?) } else { None };
            // The mark is the last key, and keys begin at 1.
            let after = after.and_then(|mark| mark.parse().ok()).unwrap_or(0);
            let (found, last) = page(connection, key, with, after)?;
            Ok(Some(Holding { found, next: last.to_string(), total }))
        })
    }

    fn held<'a>(&'a self, index: &'a str, ids: &'a [Asked], with: Detail) -> Pending<'a, Result<Vec<Option<Held>>, Failure>> {
        let (index, ids) = (index.to_owned(), ids.to_vec());
        self.ask(move |connection| {
            let Some(key) = index_key(connection, &index)? else { return Ok(ids.iter().map(|_| None).collect()) };
            let one = format!("SELECT {} FROM {ALL} WHERE index_key = ?1 AND id = ?2 AND {THERE}", columns(with));
            let mut statement = connection.prepare_cached(&one)?;
            ids.iter().map(|asked| statement.query_row(params![key, asked.id], |row| read(row, with)).optional()).collect()
        })
    }

    fn forget_deletes<'a>(&'a self, index: &'a str, ids: &'a [Asked]) -> Pending<'a, Result<(), Failure>> {
        let (connection, index, ids) = (Arc::clone(&self.connection), index.to_owned(), ids.to_vec());
        Box::pin(async move {
            match self.worker.run(move || forget(&mut lock(&connection), &index, &ids)).await {
                Some(forgotten) => forgotten.map_err(|cause| failure(&self.path, &cause)),
                None => {
                    let what = format!("the write into {} did not end", self.path.display());
                    Err(Failure::Retry { class: Class::Unavailable, what, after: None })
                }
            }
        })
    }
}

fn index_key(connection: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    connection.prepare_cached("SELECT key FROM indices WHERE name = ?1")?.query_row([name], |row| row.get(0)).optional()
}

fn count(connection: &Connection, index: i64) -> rusqlite::Result<u64> {
    let count = format!("SELECT count(*) FROM {ALL} WHERE index_key = ?1 AND {THERE}");
    connection.prepare_cached(&count)?.query_row([index], |row| row.get(0))
}

/// The next documents of an index, and the key of the last one.
fn page(connection: &Connection, index: i64, with: Detail, after: i64) -> rusqlite::Result<(Vec<Held>, i64)> {
    // The plus keeps SQLite from going by index and id, and sorting all that is left for each page.
    let page = format!(
        "SELECT {} FROM {ALL} WHERE +index_key = ?1 AND documents.key > ?2 AND {THERE} ORDER BY documents.key LIMIT {PAGE}",
        columns(with)
    );
    let mut statement = connection.prepare_cached(&page)?;
    let mut rows = statement.query([index, after])?;
    let (mut found, mut last, mut bytes) = (Vec::new(), after, 0);
    while let Some(row) = rows.next()? {
        last = row.get(0)?;
        let held = read(row, with)?;
        bytes += held.source.as_ref().map_or(0, |source| source.get().len());
        found.push(held);
        if bytes >= PAGE_BYTES {
            break;
        }
    }
    Ok((found, last))
}

fn columns(with: Detail) -> &'static str {
    match with {
        Detail::Version => VERSION,
        Detail::Content => CONTENT,
    }
}

fn read(row: &Row<'_>, with: Detail) -> rusqlite::Result<Held> {
    let time: Option<u64> = row.get(4)?;
    let text = match (with, time) {
        (Detail::Version, _) => None,
        (Detail::Content, Some(time)) => Some(sweep::source(time)),
        (Detail::Content, None) => {
            let source: String = row.get(6)?;
            let cells: Option<String> = row.get(5)?;
            // A row of cells that a stranger has changed is shown as it is.
            let whole = cells.and_then(|kept| merge::read(&source, &kept)).and_then(|row| row.stored());
            Some(whole.unwrap_or(source))
        }
    };
    let source = text.map(RawValue::from_string).transpose();
    let source = source.map_err(|cause| rusqlite::Error::FromSqlConversionFailure(6, rusqlite::types::Type::Text, cause.into()))?;
    Ok(Held { id: row.get(1)?, version: row.get(2)?, routing: row.get(3)?, is_tombstone: time.is_some(), source })
}

/// Removes the rows of these documents that hold nothing but the version of a delete.
fn forget(connection: &mut Connection, index: &str, ids: &[Asked]) -> rusqlite::Result<()> {
    const FORGET: &str = "DELETE FROM documents WHERE index_key = ?1 AND id = ?2 AND source IS NULL
        AND NOT EXISTS (SELECT 1 FROM tombstones WHERE tombstones.key = documents.key)";
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if let Some(key) = index_key(&transaction, index)? {
        let mut statement = transaction.prepare_cached(FORGET)?;
        for asked in ids {
            statement.execute(params![key, asked.id])?;
        }
    }
    transaction.commit()
}
