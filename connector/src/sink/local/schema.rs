//! The file of the local index: its tables, its format version, and how it is created, opened and made durable.
//!
//! Never opens a file with SQLite before its first bytes have shown that it is one of ours: SQLite would recover, lock or grow the file of
//! a stranger.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::error;
use crate::error::{Error, Kind};

/// Marks the file as ours in its header (`file` and other tools show it): `rvsy`.
const APPLICATION_ID: i32 = 0x7276_7379;

/// The format that this program writes, SQLite's `user_version`. A newer one is refused; format 1, which had no tombstones, and format 2, which had
/// no rows put together from cells, are read, and become this one when they are opened for writing.
const FORMAT: i32 = 3;
/// The first format with tombstones.
const WITH_TOMBSTONES: i32 = 2;

/// How words are cut and compared; what is indexed, asked and highlighted must agree on it.
///
/// unicode61 cuts at everything that is no letter and no digit, folds case and, with 2, every diacritic. A term such as a date or an e-mail
/// address becomes several words here and, as a phrase, when it is asked.
pub(super) const TOKENIZER: &str = "unicode61 remove_diacritics 2";

/// A row of `documents` without a source is a delete: it stays, because its version must.
///
/// `words` keeps no text of its own (`content=''`), because `source` has it: highlights are made anew for the few documents that a search
/// shows, and words are taken out by giving FTS5 the old text again. FTS5's own way for such tables, `contentless_delete`, keeps a list of
/// deleted rows instead and looks through it in every merge: writing 100,000 documents anew took several times as long. `source` is the
/// last column, so that a look at the others does not read it.
const TABLES: &str = "
CREATE TABLE indices (
    key INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE documents (
    key INTEGER PRIMARY KEY,
    index_key INTEGER NOT NULL REFERENCES indices (key),
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    routing TEXT,
    source TEXT,
    UNIQUE (index_key, id)
) STRICT;
";

/// A delete that left a tombstone has a row here, beside its row without a source in `documents`; `time` is in milliseconds since 1970.
const TOMBSTONES: &str = "tombstones (key INTEGER PRIMARY KEY, time INTEGER NOT NULL) STRICT;";

/// A document that is put together from cells has a row here, beside its row in `documents`; `row` is what is kept of its cells, as JSON.
const CELLS: &str = "cells (key INTEGER PRIMARY KEY, row TEXT NOT NULL) STRICT;";

/// How long a writer waits for another process's write to end before it says that the file is locked.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// What the first bytes of a file say.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Empty,
    Index { format: i32 },
    Foreign,
}

/// Reads the header that SQLite's file format fixes: magic (0..16), user version (60..64) and application id (68..72), both big-endian.
fn inspect(path: &Path) -> Result<Found, Error> {
    let cannot = |cause: std::io::Error| Error::new(Kind::Sink, format!("cannot read the local index {}: {cause}", path.display()));
    let mut header = Vec::with_capacity(100);
    match File::open(path).and_then(|file| file.take(100).read_to_end(&mut header)) {
        Ok(_) => {}
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(cause) => return Err(cannot(cause)),
    }
    if header.is_empty() {
        return Ok(Found::Empty);
    }
    let number = |at: usize| header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_be_bytes);
    match (header.starts_with(b"SQLite format 3\0"), number(68), number(60)) {
        (true, Some(APPLICATION_ID), Some(format)) => Ok(Found::Index { format }),
        _ => Ok(Found::Foreign),
    }
}

fn newer(path: &Path, format: i32) -> Error {
    let what = format!("expected a local index of format {FORMAT} or older, found format {format} in {}", path.display());
    Error::new(Kind::Sink, what).help("it was written by a newer revsync: use that one, or choose another file")
}

fn foreign(path: &Path) -> Error {
    let what = format!("expected a local index of revsync, found another kind of file at {}", path.display());
    Error::usage(what).help("it was not touched: choose another file with local:FILE")
}

pub(super) fn create_or_open(path: &Path) -> Result<Connection, Error> {
    match inspect(path)? {
        Found::Foreign => return Err(foreign(path)),
        Found::Index { format } if format > FORMAT => return Err(newer(path, format)),
        Found::Nothing | Found::Empty | Found::Index { .. } => {}
    }
    // No SQLITE_OPEN_URI: a path that begins with `file:` or holds a `?` is a path.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || -> rusqlite::Result<Connection> {
        let mut connection = Connection::open_with_flags(path, flags)?;
        prepare(&connection)?;
        initialise(&mut connection)?;
        // After the tables: the header of the main file then always tells whose it is, whatever is still only in the write-ahead log.
        // The log is moved into the file at 16 MiB: at the usual 4 MiB nearly every request of a load would wait for the disk.
        connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 4000;")?;
        Ok(connection)
    };
    checked(path, open().map_err(|cause| error(path, &cause))?)
}

pub(super) fn open_for_reading(path: &Path) -> Result<Connection, Error> {
    match inspect(path)? {
        Found::Nothing | Found::Empty => {
            let what = format!("expected a local index at {}, found none", path.display());
            return Err(Error::usage(what).help("run revsync sync first, or name the index with --to local:FILE"));
        }
        Found::Foreign => return Err(foreign(path)),
        Found::Index { format } if format > FORMAT => return Err(newer(path, format)),
        Found::Index { .. } => {}
    }
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        prepare(&connection)?;
        let format = pragma(&connection, "user_version")?;
        if format < WITH_TOMBSTONES {
            connection.execute_batch(&format!("CREATE TEMP TABLE {TOMBSTONES}"))?;
        }
        if format < FORMAT {
            connection.execute_batch(&format!("CREATE TEMP TABLE {CELLS}"))?;
        }
        Ok(connection)
    };
    checked(path, open().map_err(|cause| error(path, &cause))?)
}

/// Settings of a connection, none of them stored.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(32);
    // Highlights use a temporary table, which must not become a file; 8 MiB of pages keep the upper part of every B-tree in memory.
    connection.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8192;")
}

/// Creates the tables, unless another process has just done so, and those that an older format lacks.
///
/// Eight segments of `words`, not FTS5's four, are merged at a time: a load writes its words less often, and a search has a few
/// more places to look.
fn initialise(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if pragma(&transaction, "application_id")? != APPLICATION_ID {
        transaction.execute_batch(&format!("{TABLES} CREATE TABLE {TOMBSTONES} CREATE TABLE {CELLS}"))?;
        transaction.execute_batch(&format!(
            "CREATE VIRTUAL TABLE words USING fts5 (text, content = '', tokenize = '{TOKENIZER}');
            INSERT INTO words (words, rank) VALUES ('automerge', 8);
            PRAGMA application_id = {APPLICATION_ID};
            PRAGMA user_version = {FORMAT};"
        ))?;
    } else {
        let format = pragma(&transaction, "user_version")?;
        if format < WITH_TOMBSTONES {
            transaction.execute_batch(&format!("CREATE TABLE {TOMBSTONES}"))?;
        }
        if format < FORMAT {
            transaction.execute_batch(&format!("CREATE TABLE {CELLS} PRAGMA user_version = {FORMAT};"))?;
        }
    }
    transaction.commit()
}

/// Looks again through SQLite, which also sees what is only in the write-ahead log.
fn checked(path: &Path, connection: Connection) -> Result<Connection, Error> {
    let format = pragma(&connection, "user_version").map_err(|cause| error(path, &cause))?;
    if format > FORMAT { Err(newer(path, format)) } else { Ok(connection) }
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

/// Moves everything from the write-ahead log into the file, on disk.
///
/// A commit alone survives the end of the process; this makes it survive the end of the power too. Where a reader holds the log open, the
/// log is synced and stays.
pub(super) fn settle(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE);")
}
