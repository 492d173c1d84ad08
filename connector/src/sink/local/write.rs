//! Carries out operations: OpenSearch's external version rules over the rows of `documents`, in one transaction per request.
//!
//! Never removes a row: the version of a delete, also of a document that was never there, stays.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::text;
use crate::operation::{Operation, Target};
use crate::plan::outcome::Reply;
use crate::revision::{Document, MAX_VERSION, VersionType};

/// The longest id that OpenSearch takes, in bytes of UTF-8.
const MAX_ID: usize = 512;

/// What is stored about a document.
struct Stored {
    key: i64,
    version: u64,
    deleted: bool,
}

/// The index of the previous operation: most requests go to one index.
type Last = Option<(Arc<str>, i64)>;

/// Carries out the operations in their order and answers each; on an error nothing of them is done.
pub(super) fn apply(connection: &mut Connection, operations: &[Operation]) -> rusqlite::Result<Vec<Reply>> {
    // Immediate: a transaction that reads first and then writes would fail, rather than wait, when another process wrote in between.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut replies = Vec::with_capacity(operations.len());
    let mut last = None;
    let mut words = String::new();
    for operation in operations {
        let reply = match (refusal(operation.target()), operation) {
            (Some(reply), _) => reply,
            (None, Operation::Index { target, document }) => put(&transaction, &mut last, &mut words, target, document)?,
            (None, Operation::Delete { target }) => delete(&transaction, &mut last, target)?,
        };
        replies.push(reply);
    }
    transaction.commit()?;
    Ok(replies)
}

/// What OpenSearch refuses with the whole request is refused alone here: there is no request to spoil.
fn refusal(target: &Target) -> Option<Reply> {
    let reason = match (target.id.len(), target.version) {
        (0, _) => "expected an id, found none".to_owned(),
        (length, _) if length > MAX_ID => format!("expected an id of at most {MAX_ID} bytes, found {length}"),
        (_, version) if version > MAX_VERSION => format!("expected a version up to {MAX_VERSION}, found {version}"),
        _ => return None,
    };
    Some(Reply::error(400, "illegal_argument_exception", &reason))
}

fn put(
    transaction: &Transaction<'_>,
    last: &mut Last,
    words: &mut String,
    target: &Target,
    document: &Document,
) -> rusqlite::Result<Reply> {
    words.clear();
    words.push_str(&target.id);
    let source = match text::collect(document.as_bytes(), words) {
        Ok(source) => source,
        Err(reason) => return Ok(Reply::error(400, "mapper_parsing_exception", &reason)),
    };
    let index = index_key(transaction, last, &target.index)?;
    let stored = stored(transaction, index, target)?;
    if let Some(reply) = conflict(target, stored.as_ref()) {
        return Ok(reply);
    }
    match stored {
        None => {
            const INSERT: &str = "INSERT INTO documents (index_key, id, version, routing, source) VALUES (?1, ?2, ?3, ?4, ?5)";
            transaction.prepare_cached(INSERT)?.execute(params![index, target.id, target.version, target.routing, source])?;
            describe(transaction, transaction.last_insert_rowid(), words)?;
            Ok(Reply::ok(201))
        }
        Some(Stored { key, deleted, .. }) => {
            const UPDATE: &str = "UPDATE documents SET version = ?2, routing = ?3, source = ?4 WHERE key = ?1";
            transaction.prepare_cached(UPDATE)?.execute(params![key, target.version, target.routing, source])?;
            describe(transaction, key, words)?;
            Ok(Reply::ok(if deleted { 201 } else { 200 }))
        }
    }
}

fn delete(transaction: &Transaction<'_>, last: &mut Last, target: &Target) -> rusqlite::Result<Reply> {
    let index = index_key(transaction, last, &target.index)?;
    let stored = stored(transaction, index, target)?;
    if let Some(reply) = conflict(target, stored.as_ref()) {
        return Ok(reply);
    }
    match stored {
        None => {
            const INSERT: &str = "INSERT INTO documents (index_key, id, version, routing) VALUES (?1, ?2, ?3, ?4)";
            transaction.prepare_cached(INSERT)?.execute(params![index, target.id, target.version, target.routing])?;
            Ok(Reply::ok(404))
        }
        Some(Stored { key, deleted, .. }) => {
            const EMPTY: &str = "UPDATE documents SET version = ?2, routing = ?3, source = NULL WHERE key = ?1";
            transaction.prepare_cached(EMPTY)?.execute(params![key, target.version, target.routing])?;
            if deleted {
                return Ok(Reply::ok(404));
            }
            transaction.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute([key])?;
            Ok(Reply::ok(200))
        }
    }
}

/// Makes a document searchable by these words and no others.
fn describe(transaction: &Transaction<'_>, key: i64, words: &str) -> rusqlite::Result<()> {
    transaction.prepare_cached("INSERT OR REPLACE INTO words (rowid, text) VALUES (?1, ?2)")?.execute(params![key, words])?;
    Ok(())
}

/// The key of an index, which the first operation on it creates: also a delete does, as in OpenSearch.
fn index_key(transaction: &Transaction<'_>, last: &mut Last, name: &Arc<str>) -> rusqlite::Result<i64> {
    if let Some((_, key)) = last.as_ref().filter(|(previous, _)| previous == name) {
        return Ok(*key);
    }
    let known = transaction.prepare_cached("SELECT key FROM indices WHERE name = ?1")?.query_row([name], |row| row.get(0)).optional()?;
    let key = match known {
        Some(key) => key,
        None => {
            transaction.prepare_cached("INSERT INTO indices (name) VALUES (?1)")?.execute([name])?;
            transaction.last_insert_rowid()
        }
    };
    *last = Some((Arc::clone(name), key));
    Ok(key)
}

fn stored(transaction: &Transaction<'_>, index: i64, target: &Target) -> rusqlite::Result<Option<Stored>> {
    const STORED: &str = "SELECT key, version, source IS NULL FROM documents WHERE index_key = ?1 AND id = ?2";
    let read = |row: &rusqlite::Row<'_>| Ok(Stored { key: row.get(0)?, version: row.get(1)?, deleted: row.get(2)? });
    transaction.prepare_cached(STORED)?.query_row(params![index, target.id], read).optional()
}

fn conflict(target: &Target, stored: Option<&Stored>) -> Option<Reply> {
    let stored = stored?.version;
    let (refused, relation) = match target.version_type {
        VersionType::External => (stored >= target.version, "higher than or equal to"),
        VersionType::ExternalGte => (stored > target.version, "higher than"),
    };
    refused.then(|| {
        let reason = format!("[{}]: the stored version {stored} is {relation} the given {}", target.id, target.version);
        Reply::error(409, "version_conflict_engine_exception", &reason)
    })
}
