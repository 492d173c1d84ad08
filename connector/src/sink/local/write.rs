//! Carries out operations: OpenSearch's external version rules over the rows of `documents`, in one transaction per request.
//!
//! Never removes a document's row: the version of a delete, also of a document that was never there, stays, and so does that of a tombstone
//! when the tombstone is removed. Merges of cells are in [`merge`](super::merge).

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::text;
use crate::operation::{Operation, Target};
use crate::plan::mapping::MAX_ID;
use crate::plan::outcome::Reply;
use crate::revision::{Document, MAX_VERSION, VersionType};

/// What is stored about a document.
pub(super) struct Stored {
    pub(super) key: i64,
    pub(super) version: u64,
    pub(super) state: State,
}

/// What a document's row stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Document,
    Tombstone,
    /// Nothing but the version of a delete.
    Gone,
}

/// One request at work.
pub(super) struct Writing<'a> {
    pub(super) transaction: Transaction<'a>,
    /// The index of the previous operation: most requests go to one index.
    last: Option<(Arc<str>, i64)>,
    /// Room for the searchable text of a document.
    pub(super) text: String,
    /// Whether any document of the file is put together from cells, once that was asked.
    pub(super) has_cells: Option<bool>,
}

/// Carries out the operations in their order and answers each; on an error nothing of them is done.
pub(super) fn apply(connection: &mut Connection, operations: &[Operation]) -> rusqlite::Result<Vec<Reply>> {
    // Immediate: a transaction that reads first and then writes would fail, rather than wait, when another process wrote in between.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut writing = Writing { transaction, last: None, text: String::new(), has_cells: None };
    let mut replies = Vec::with_capacity(operations.len());
    for operation in operations {
        replies.push(match (refusal(operation.target()), operation) {
            (Some(reply), _) => reply,
            (None, Operation::Index { target, document }) => writing.put(target, document)?,
            (None, Operation::Delete { target }) => writing.delete(target)?,
            (None, Operation::Tombstone { target, time }) => writing.tombstone(target, *time)?,
            (None, Operation::Merge { target, cells, time }) => writing.merge(target, cells, *time)?,
        });
    }
    writing.transaction.commit()?;
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

impl Writing<'_> {
    fn put(&mut self, target: &Target, document: &Document) -> rusqlite::Result<Reply> {
        self.text.clear();
        let source = match text::searchable(&target.id, document.as_bytes(), &mut self.text) {
            Ok(source) => source,
            Err(reason) => return Ok(Reply::error(400, "mapper_parsing_exception", &reason)),
        };
        let index = self.index_key(&target.index)?;
        let stored = self.stored(index, target)?;
        if let Some(reply) = conflict(target, stored.as_ref()) {
            return Ok(reply);
        }
        Ok(self.place(index, target, stored, source)?.1)
    }

    /// Puts a document into its place, found by what is in `text`; gives its key.
    pub(super) fn place(&mut self, index: i64, target: &Target, stored: Option<Stored>, source: &str) -> rusqlite::Result<(i64, Reply)> {
        let (key, status) = match stored {
            None => {
                const INSERT: &str = "INSERT INTO documents (index_key, id, version, routing, source) VALUES (?1, ?2, ?3, ?4, ?5)";
                self.transaction.prepare_cached(INSERT)?.execute(params![index, target.id, target.version, target.routing, source])?;
                (self.transaction.last_insert_rowid(), 201)
            }
            Some(Stored { key, state, .. }) => {
                self.clear(key, state, &target.id)?;
                const UPDATE: &str = "UPDATE documents SET version = ?2, routing = ?3, source = ?4 WHERE key = ?1";
                self.transaction.prepare_cached(UPDATE)?.execute(params![key, target.version, target.routing, source])?;
                (key, if state == State::Gone { 201 } else { 200 })
            }
        };
        self.transaction.prepare_cached("INSERT INTO words (rowid, text) VALUES (?1, ?2)")?.execute(params![key, self.text])?;
        Ok((key, Reply::ok(status)))
    }

    fn delete(&mut self, target: &Target) -> rusqlite::Result<Reply> {
        let index = self.index_key(&target.index)?;
        let stored = self.stored(index, target)?;
        if let Some(reply) = conflict(target, stored.as_ref()) {
            return Ok(reply);
        }
        let (_, before) = self.empty(index, target, stored)?;
        Ok(Reply::ok(if before == State::Gone { 404 } else { 200 }))
    }

    fn tombstone(&mut self, target: &Target, time: u64) -> rusqlite::Result<Reply> {
        let index = self.index_key(&target.index)?;
        let stored = self.stored(index, target)?;
        if let Some(reply) = conflict(target, stored.as_ref()) {
            return Ok(reply);
        }
        self.bury(index, target, stored, time)
    }

    /// Leaves a tombstone in a document's place.
    pub(super) fn bury(&mut self, index: i64, target: &Target, stored: Option<Stored>, time: u64) -> rusqlite::Result<Reply> {
        let (key, before) = self.empty(index, target, stored)?;
        let time = i64::try_from(time).unwrap_or(i64::MAX);
        self.transaction.prepare_cached("INSERT INTO tombstones (key, time) VALUES (?1, ?2)")?.execute([key, time])?;
        Ok(Reply::ok(if before == State::Gone { 201 } else { 200 }))
    }

    /// Leaves of a document only the version that the target has; gives its key, and what there was before.
    fn empty(&mut self, index: i64, target: &Target, stored: Option<Stored>) -> rusqlite::Result<(i64, State)> {
        let Some(Stored { key, state, .. }) = stored else {
            const INSERT: &str = "INSERT INTO documents (index_key, id, version, routing) VALUES (?1, ?2, ?3, ?4)";
            self.transaction.prepare_cached(INSERT)?.execute(params![index, target.id, target.version, target.routing])?;
            return Ok((self.transaction.last_insert_rowid(), State::Gone));
        };
        self.clear(key, state, &target.id)?;
        const EMPTY: &str = "UPDATE documents SET version = ?2, routing = ?3, source = NULL WHERE key = ?1";
        self.transaction.prepare_cached(EMPTY)?.execute(params![key, target.version, target.routing])?;
        Ok((key, state))
    }

    /// Takes away what belongs to a document's row, and is not in it.
    fn clear(&mut self, key: i64, state: State, id: &str) -> rusqlite::Result<()> {
        match state {
            State::Document => {
                if self.has_cells()? {
                    self.transaction.prepare_cached("DELETE FROM cells WHERE key = ?1")?.execute([key])?;
                }
                self.forget_words(key, id)
            }
            State::Tombstone => {
                self.transaction.prepare_cached("DELETE FROM tombstones WHERE key = ?1")?.execute([key])?;
                Ok(())
            }
            State::Gone => Ok(()),
        }
    }

    fn has_cells(&mut self) -> rusqlite::Result<bool> {
        if let Some(has) = self.has_cells {
            return Ok(has);
        }
        let has = self.transaction.prepare_cached("SELECT EXISTS (SELECT 1 FROM cells)")?.query_row([], |row| row.get(0))?;
        self.has_cells = Some(has);
        Ok(has)
    }

    /// Takes a document's words out of the index. FTS5 keeps no text here and must be given the very text that it was given before.
    fn forget_words(&self, key: i64, id: &str) -> rusqlite::Result<()> {
        let mut select = self.transaction.prepare_cached("SELECT source FROM documents WHERE key = ?1")?;
        let mut before = String::new();
        let read = |row: &rusqlite::Row<'_>| Ok(text::searchable(id, row.get_ref(0)?.as_bytes()?, &mut before).is_ok());
        // What was stored was an object when it came; a row that a stranger has changed is left to be found by its old words.
        if select.query_row([key], read)? {
            const FORGET: &str = "INSERT INTO words (words, rowid, text) VALUES ('delete', ?1, ?2)";
            self.transaction.prepare_cached(FORGET)?.execute(params![key, before])?;
        }
        Ok(())
    }

    /// The key of an index, which the first operation on it creates: also a delete does, as in OpenSearch.
    pub(super) fn index_key(&mut self, name: &Arc<str>) -> rusqlite::Result<i64> {
        if let Some((_, key)) = self.last.as_ref().filter(|(previous, _)| previous == name) {
            return Ok(*key);
        }
        let mut select = self.transaction.prepare_cached("SELECT key FROM indices WHERE name = ?1")?;
        let key = match select.query_row([name], |row| row.get(0)).optional()? {
            Some(key) => key,
            None => {
                self.transaction.prepare_cached("INSERT INTO indices (name) VALUES (?1)")?.execute([name])?;
                self.transaction.last_insert_rowid()
            }
        };
        self.last = Some((Arc::clone(name), key));
        Ok(key)
    }

    pub(super) fn stored(&self, index: i64, target: &Target) -> rusqlite::Result<Option<Stored>> {
        const STORED: &str = "SELECT key, version, source IS NULL,
            source IS NULL AND EXISTS (SELECT 1 FROM tombstones WHERE tombstones.key = documents.key)
            FROM documents WHERE index_key = ?1 AND id = ?2";
        let read = |row: &rusqlite::Row<'_>| {
            let state = match (row.get(2)?, row.get(3)?) {
                (false, _) => State::Document,
                (true, true) => State::Tombstone,
                (true, false) => State::Gone,
            };
            Ok(Stored { key: row.get(0)?, version: row.get(1)?, state })
        };
        self.transaction.prepare_cached(STORED)?.query_row(params![index, target.id], read).optional()
    }
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
