//! The embedded index: one SQLite file that keeps documents under OpenSearch's version rules and makes them searchable with FTS5.
//!
//! It answers in the terms of an OpenSearch bulk reply, takes any JSON object, and keeps the version of a delete for ever, so that a
//! replay however late cannot bring a document back, with a tombstone, without one, or after it was swept. It never judges, retries or reads the text of a document for anything but search,
//! and never has aliases, mappings or mapping conflicts: routing is stored and no part of a document's identity.

mod contents;
mod documents;
mod merge;
mod schema;
mod search;
mod sweep;
mod terms;
mod text;
mod worker;
mod write;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, ErrorCode, OptionalExtension, Row};

use self::worker::Worker;
use super::{Hit, Pending, Sink};
use crate::error::{Error, Kind};
use crate::operation::Operation;
use crate::plan::outcome::{Class, Failure, Reply};

/// An open local index. Several may be open on one file, also in several processes: one of them writes at a time, and reading goes on
/// meanwhile.
#[derive(Debug)]
pub struct Local {
    name: String,
    path: PathBuf,
    connection: Arc<Mutex<Connection>>,
    worker: Worker,
}

impl Local {
    /// Opens the index for writing, and creates it where there is no file or an empty one.
    ///
    /// # Errors
    /// The file cannot be created or opened, is no revsync index (it is left as it is), or was written by a newer revsync.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self::over(path, schema::create_or_open(path)?))
    }

    /// Opens an index that exists, for reading: writes are refused.
    ///
    /// # Errors
    /// As [`open`](Self::open), and when there is no index yet.
    pub fn open_existing(path: &Path) -> Result<Self, Error> {
        Ok(Self::over(path, schema::open_for_reading(path)?))
    }

    fn over(path: &Path, connection: Connection) -> Self {
        Self {
            name: format!("local:{}", path.display()),
            path: path.to_owned(),
            connection: Arc::new(Mutex::new(connection)),
            worker: Worker::default(),
        }
    }

    /// Finds documents by what a person types, best first: words that must all occur, `"phrases"`, `prefix*`, `-without`, `either OR or`; a
    /// lone `*` finds all.
    ///
    /// No text is a syntax error. `index` is a name or a pattern with `*`; without it every index is searched. At most `limit` hits.
    /// Reads the disk and blocks while it does.
    ///
    /// # Errors
    /// The text holds no word at all, or the file cannot be read.
    pub fn search(&self, text: &str, index: Option<&str>, limit: usize) -> Result<Vec<Hit>, Error> {
        let question = terms::parse(text);
        if question == terms::Question::Nothing {
            return Err(
                Error::usage("expected something to search for, found no letter and no digit").help("give a word, or * for every document")
            );
        }
        search::find(&mut lock(&self.connection), &question, index, limit).map_err(|cause| error(&self.path, &cause))
    }

    /// How many documents an index holds; 0 when there is no such index. Blocks.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn count(&self, index: &str) -> Result<u64, Error> {
        const COUNT: &str = "SELECT count(*) FROM documents JOIN indices ON indices.key = index_key WHERE name = ?1 AND source IS NOT NULL";
        let connection = lock(&self.connection);
        connection.query_row(COUNT, [index], |row| row.get(0)).map_err(|cause| error(&self.path, &cause))
    }

    /// The version and the JSON text of a document, byte for byte as it was written; of one that left a tombstone the tombstone; `None` for
    /// one that is deleted without or was never there. Blocks.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn get(&self, index: &str, id: &str) -> Result<Option<(u64, String)>, Error> {
        const GET: &str = "SELECT version, source, time FROM documents JOIN indices ON indices.key = index_key
            LEFT JOIN tombstones ON tombstones.key = documents.key
            WHERE name = ?1 AND id = ?2 AND (source IS NOT NULL OR time IS NOT NULL)";
        let read = |row: &Row<'_>| match row.get(1)? {
            Some(source) => Ok((row.get(0)?, source)),
            None => Ok((row.get(0)?, sweep::source(row.get(2)?))),
        };
        let connection = lock(&self.connection);
        connection.query_row(GET, [index, id], read).optional().map_err(|cause| error(&self.path, &cause))
    }

    /// Every index with the number of its documents, by name. Blocks.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn indices(&self) -> Result<Vec<(String, u64)>, Error> {
        const INDICES: &str =
            "SELECT name, count(source) FROM indices LEFT JOIN documents ON index_key = indices.key GROUP BY name ORDER BY name";
        let read = |connection: &Connection| -> rusqlite::Result<Vec<(String, u64)>> {
            connection.prepare(INDICES)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        read(&lock(&self.connection)).map_err(|cause| error(&self.path, &cause))
    }
}

impl Local {
    /// Reads on a thread that may block.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Pending<'_, Result<T, Failure>> {
        let connection = Arc::clone(&self.connection);
        Box::pin(async move {
            match tokio::task::spawn_blocking(move || question(&lock(&connection))).await {
                Ok(answer) => answer.map_err(|cause| failure(&self.path, &cause)),
                Err(cause) => {
                    let what = format!("the look into {} did not end: {cause}", self.path.display());
                    Err(Failure::Retry { class: Class::Unavailable, what, after: None })
                }
            }
        })
    }
}

impl Sink for Local {
    fn name(&self) -> &str {
        &self.name
    }

    fn write(&self, operations: Arc<[Operation]>) -> Pending<'_, Result<Vec<Reply>, Failure>> {
        let connection = Arc::clone(&self.connection);
        Box::pin(async move {
            match self.worker.run(move || write::apply(&mut lock(&connection), &operations)).await {
                Some(written) => written.map_err(|cause| failure(&self.path, &cause)),
                None => {
                    let what = format!("the write into {} did not end", self.path.display());
                    Err(Failure::Retry { class: Class::Unavailable, what, after: None })
                }
            }
        })
    }

    fn finish(&self) -> Pending<'_, Result<(), Error>> {
        let connection = Arc::clone(&self.connection);
        Box::pin(async move {
            match self.worker.run(move || schema::settle(&lock(&connection))).await {
                Some(settled) => settled.map_err(|cause| error(&self.path, &cause)),
                None => Err(Error::new(Kind::Sink, format!("the last write into {} did not end", self.path.display()))),
            }
        })
    }
}

/// A thread that panicked has left no half-done work behind: its transaction was rolled back while it unwound.
fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What SQLite said; its texts name tables and never hold a value of a document.
fn said(cause: &rusqlite::Error) -> String {
    match cause {
        rusqlite::Error::SqliteFailure(code, None) => code.to_string(),
        rusqlite::Error::SqliteFailure(_, Some(text)) => text.clone(),
        other => other.to_string(),
    }
}

/// What a person can do about it.
fn advice(cause: &rusqlite::Error) -> Option<&'static str> {
    match cause.sqlite_error_code()? {
        ErrorCode::DiskFull => Some("make room on the disk"),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Some("another process is writing to it: wait for it or stop it"),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => Some("give this user the right to write the file and its folder"),
        ErrorCode::CannotOpen => Some("check that its folder exists and may be written"),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
            Some("the file is damaged: delete it and run sync again, the source still has everything")
        }
        _ => None,
    }
}

fn error(path: &Path, cause: &rusqlite::Error) -> Error {
    let error = Error::new(Kind::Sink, format!("cannot use the local index {}: {}", path.display(), said(cause)));
    match advice(cause) {
        Some(help) => error.help(help),
        None => error,
    }
}

/// What passes by itself is tried again; what a person has to repair ends the run.
fn failure(path: &Path, cause: &rusqlite::Error) -> Failure {
    let mut what = format!("cannot write to the local index {}: {}", path.display(), said(cause));
    if let Some(help) = advice(cause) {
        what = format!("{what}; {help}");
    }
    match cause.sqlite_error_code() {
        _ if passes(cause) => Failure::Retry { class: Class::Unavailable, what, after: None },
        Some(ErrorCode::TooBig) => Failure::TooLarge { what, limit: None },
        _ => Failure::Misconfigured { what },
    }
}

/// Whether it may pass by itself.
fn passes(cause: &rusqlite::Error) -> bool {
    matches!(
        cause.sqlite_error_code(),
        Some(
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::OutOfMemory
                | ErrorCode::CannotOpen
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::OperationInterrupted,
        )
    )
}
