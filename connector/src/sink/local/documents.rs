//! Documents that a pipeline keeps for itself beside what it indexes, its checkpoints: in a table of their own, each changed only by who
//! knows its last state.
//!
//! The table is made with the first of them and is no part of the index: nothing of it is searched or counted, and a version of
//! revsync that does not know it leaves it alone.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::{Local, error, lock};
use crate::error::{Error, Kind};
use crate::plan::stored::{Change, Stamp, Stored, Written};

/// A number is never used again, also after its row is gone (SQLite, "AUTOINCREMENT"): a state that was is not mistaken for one that is.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS checkpoints (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, body TEXT NOT NULL) STRICT;";

impl Local {
    /// All documents that are kept.
    ///
    /// # Errors
    /// [`Kind::Pending`] where the file is locked or cannot be read just now, [`Kind::Sink`] where a person has to act.
    pub async fn kept(&self) -> Result<Vec<Stored>, Error> {
        self.on_worker(read).await
    }

    /// Makes changes, all in one transaction; the answers stand in their order.
    ///
    /// # Errors
    /// As [`kept`](Self::kept); nothing was changed.
    pub async fn keep(&self, changes: Vec<Change>) -> Result<Vec<Written>, Error> {
        self.on_worker(move |connection| write(connection, changes)).await
    }

    async fn on_worker<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let connection = Arc::clone(&self.connection);
        match self.worker.run(move || work(&mut lock(&connection))).await {
            Some(done) => done.map_err(|cause| {
                let passes = super::passes(&cause);
                let error = error(&self.path, &cause);
                if passes { Error { kind: Kind::Pending, ..error } } else { error }
            }),
            None => Err(Error::new(Kind::Pending, format!("the work on {} did not end", self.path.display()))),
        }
    }
}

fn read(connection: &mut Connection) -> rusqlite::Result<Vec<Stored>> {
    if !is_there(connection)? {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare_cached("SELECT id, number, body FROM checkpoints ORDER BY id")?;
    let rows = statement.query_map([], |row| Ok(Stored { id: row.get(0)?, stamp: stamp(row.get(1)?), body: row.get(2)? }))?;
    rows.collect()
}

fn is_there(connection: &Connection) -> rusqlite::Result<bool> {
    const FIND: &str = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'checkpoints'";
    Ok(connection.query_row(FIND, [], |_| Ok(())).optional()?.is_some())
}

fn write(connection: &mut Connection, changes: Vec<Change>) -> rusqlite::Result<Vec<Written>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if !is_there(&transaction)? {
        transaction.execute_batch(TABLE)?;
    }
    let written = changes.into_iter().map(|change| make(&transaction, change)).collect::<rusqlite::Result<_>>()?;
    transaction.commit()?;
    Ok(written)
}

fn make(connection: &Connection, Change { id, expect, body }: Change) -> rusqlite::Result<Written> {
    if let Some(expect) = expect {
        let mut remove = connection.prepare_cached("DELETE FROM checkpoints WHERE id = ?1 AND number = ?2")?;
        // Another term: the state comes from somewhere else.
        if expect.term != TERM || remove.execute(params![id, expect.number])? == 0 {
            return Ok(Written::Conflict);
        }
    }
    let Some(body) = body else { return Ok(Written::Done(stamp(0))) };
    let mut insert = connection.prepare_cached("INSERT INTO checkpoints (id, body) VALUES (?1, ?2) ON CONFLICT (id) DO NOTHING")?;
    if insert.execute(params![id, body])? == 0 {
        return Ok(Written::Conflict);
    }
    Ok(Written::Done(stamp(u64::try_from(connection.last_insert_rowid()).unwrap_or_default())))
}

/// The numbers of a file belong to nothing but the file.
const TERM: u64 = 0;

fn stamp(number: u64) -> Stamp {
    Stamp { number, term: TERM }
}
