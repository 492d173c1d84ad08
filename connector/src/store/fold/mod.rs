//! The fold of a stream, on disk where it is larger than the memory it may take: a private database without a name, which is gone with the process.
//!
//! Keeps for each document what [`plan::fold`](crate::plan::fold) makes of its revisions, and, where it will be sent again, the unit that stands. In
//! [`differences`] is what a comparison found. Decides nothing, and survives nothing: it is made anew from the stream.

pub mod differences;
mod rows;
mod sifting;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use serde::{Deserialize, Serialize};

pub use self::sifting::Met;
use super::dead_letters::stored_message;
use super::unnamed;
use crate::error::Error;
use crate::plan::cells::Row as Cells;
use crate::plan::fold::{Folded, Newest, Said, State};
use crate::record::{Message, Origin, Position};
use crate::revision::VersionType;

/// The number of an index in the fold.
pub type Index = i64;

/// What one revision says of which document.
#[derive(Debug)]
pub struct Saying<'a> {
    /// The index.
    pub index: &'a Arc<str>,
    /// The document id.
    pub id: &'a str,
    /// The routing value, where there is one.
    pub routing: Option<&'a str>,
    /// What it says.
    pub said: Said,
    /// The version of which it says so.
    pub version: u64,
    /// How versions are compared.
    pub version_type: VersionType,
    /// The fingerprint of the document, where contents are compared.
    pub content: Option<[u8; 16]>,
}

/// What it takes to send a unit again, as a dead letter has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// The shard that the record was read from.
    pub origin: Arc<Origin>,
    /// The record's place in that shard.
    pub position: Position,
    /// Which unit of the record, from 0.
    pub unit: u32,
    /// Which unit of the payload, from 0.
    pub part: u32,
    /// The user record's bytes.
    pub payload: Bytes,
    /// What it has beside them, where it is a message of Kafka.
    pub message: Option<Arc<Message>>,
}

/// What the fold has of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// What the stream says of it.
    pub folded: Folded,
    /// Its routing value, where it has one.
    pub routing: Option<String>,
    /// The fingerprint of the revision that stands, where contents are compared.
    pub content: Option<[u8; 16]>,
    /// Its cells, where it is a row of them.
    pub row: Option<Cells>,
    /// Whether a redaction leaves no content in its index.
    pub erases: bool,
}

/// What is kept of the revision that stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Nothing beside what it says: the fold is compared with an index.
    Nothing,
    /// Its unit, which will be sent again.
    Units,
    /// Where it is, so that it is known again when the stream is read once more; and nothing of rows of cells.
    Places,
}

/// The fold of a stream.
#[derive(Debug)]
pub struct Fold {
    connection: Connection,
    indices: Vec<Arc<str>>,
    by_name: HashMap<Arc<str>, Index>,
    origins: Vec<Arc<Origin>>,
    by_origin: HashMap<Arc<Origin>, i64>,
    keeps: Keeps,
    /// The indices with rows of cells.
    of_rows: BTreeSet<Index>,
    /// The indices with documents that say that their content was removed.
    of_redactions: BTreeSet<Index>,
    /// The indices in which a redaction leaves no content.
    erasing: BTreeSet<Index>,
}

/// Bytes of rows that are read at once.
const UNSEEN_SIZE: usize = 1024 * 1024;

/// `seen`: the number of the comparison in which the index was found to hold the document. `redacted` and `cells`: whether there is anything of it in
/// that table.
const SCHEMA: &str = "
CREATE TABLE documents (
    idx INTEGER NOT NULL, id TEXT NOT NULL, version INTEGER, state INTEGER NOT NULL, redacted INTEGER NOT NULL, routing TEXT, content BLOB,
    unit INTEGER, cells INTEGER NOT NULL DEFAULT 0, seen INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (idx, id)
) WITHOUT ROWID;
CREATE TABLE redacted (idx INTEGER NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, PRIMARY KEY (idx, id, version)) WITHOUT ROWID;
CREATE TABLE cells (idx INTEGER NOT NULL, id TEXT NOT NULL, row TEXT NOT NULL, PRIMARY KEY (idx, id));
CREATE TABLE units (
    key INTEGER PRIMARY KEY, origin INTEGER NOT NULL, position TEXT NOT NULL, unit INTEGER NOT NULL, part INTEGER NOT NULL, message TEXT,
    payload BLOB NOT NULL
);
";

impl Fold {
    /// An empty fold that holds at most about so many bytes in memory, and the rest in a file of the system's folder for temporary ones (`SQLITE_TMPDIR`,
    /// else `TMPDIR`), which has no name.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn open(memory: usize, keeps: Keeps) -> Result<Self, Error> {
        let schema = format!("{SCHEMA}{}", differences::SCHEMA);
        Ok(Self {
            connection: unnamed::open(memory, &schema).map_err(error)?,
            indices: Vec::new(),
            by_name: HashMap::new(),
            origins: Vec::new(),
            by_origin: HashMap::new(),
            keeps,
            of_rows: BTreeSet::new(),
            of_redactions: BTreeSet::new(),
            erasing: BTreeSet::new(),
        })
    }

    /// Does some work as one: much faster than each step by itself.
    ///
    /// # Errors
    /// That of the work; nothing of the fold can be used after it.
    pub fn together<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.connection.execute_batch("BEGIN").map_err(error)?;
        let done = work(self)?;
        self.connection.execute_batch("COMMIT").map_err(error)?;
        Ok(done)
    }

    /// The number of an index.
    pub fn index(&mut self, name: &Arc<str>) -> Index {
        let next = Index::try_from(self.indices.len()).unwrap_or(Index::MAX);
        *self.by_name.entry(Arc::clone(name)).or_insert_with(|| {
            self.indices.push(Arc::clone(name));
            next
        })
    }

    /// Every index by its number, in the order in which they came.
    pub fn indices(&self) -> &[Arc<str>] {
        &self.indices
    }

    /// The name of an index.
    pub fn name(&self, index: Index) -> Arc<str> {
        usize::try_from(index).ok().and_then(|index| self.indices.get(index)).cloned().unwrap_or_default()
    }

    /// Takes in what a revision says. `unit` is asked for where it stands and is to be sent again.
    ///
    /// # Errors
    /// The fold cannot be written, as where the disk is full.
    pub fn take(&mut self, saying: &Saying<'_>, unit: impl FnOnce() -> Unit) -> Result<(), Error> {
        self.taken(saying, unit).map_err(error)
    }

    fn taken(&mut self, saying: &Saying<'_>, unit: impl FnOnce() -> Unit) -> rusqlite::Result<()> {
        let index = self.index(saying.index);
        if saying.said == Said::Is(State::Redacted) {
            self.of_redactions.insert(index);
        }
        let before = self.row(index, saying.id)?;
        let mut folded = match &before {
            Some(row) => row.folded_at(&self.connection, index, saying.id, saying.version)?,
            None => Folded::default(),
        };
        let (redacted, newest) = (folded.redacted.len(), folded.newest);
        let stands = folded.take(saying.said, saying.version, saying.version_type);
        if folded.redacted.len() > redacted {
            const INSERT: &str = "INSERT INTO redacted (idx, id, version) VALUES (?1, ?2, ?3)";
            self.connection.prepare_cached(INSERT)?.execute(params![index, saying.id, saying.version])?;
        }
        if before.is_some() && !stands && folded.newest == newest && folded.redacted.len() == redacted {
            return Ok(());
        }
        let has_redacted = !folded.redacted.is_empty() || before.as_ref().is_some_and(|row| row.has_redacted);
        let (mut key, mut content) = before.map_or((None, None), |row| (row.unit, row.content));
        if stands {
            content = saying.content;
            key = match self.keeps {
                Keeps::Nothing => None,
                Keeps::Units => {
                    let unit = unit();
                    let origin = self.origin(&unit.origin);
                    Some(keep(&self.connection, key, origin, &unit)?)
                }
                Keeps::Places => {
                    let unit = unit();
                    Some(sifting::place(&unit.origin, &unit.position, unit.unit))
                }
            };
        }
        let (version, state) = stored(folded.newest);
        const UPSERT: &str = "INSERT INTO documents (idx, id, version, state, redacted, routing, content, unit)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO UPDATE
            SET version = ?3, state = ?4, redacted = ?5, content = ?7, unit = ?8";
        let values = params![index, saying.id, version, state, has_redacted, saying.routing, content, key];
        self.connection.prepare_cached(UPSERT)?.execute(values)?;
        Ok(())
    }

    /// In this index a redaction leaves no content.
    pub fn erases(&mut self, name: &Arc<str>) {
        let index = self.index(name);
        self.erasing.insert(index);
    }

    /// Whether any document of an index is to say that its content was removed.
    pub fn has_redactions(&self, index: Index) -> bool {
        self.of_redactions.contains(&index)
    }

    /// What the fold has of a document; `None` where its id is not known.
    ///
    /// # Errors
    /// The fold cannot be read.
    pub fn known(&self, index: Index, id: &str) -> Result<Option<Known>, Error> {
        let read = || {
            let Some(row) = self.row(index, id)? else { return Ok(None) };
            let known = row.known(&self.connection, index, id)?;
            Ok(Some(Known { erases: self.erasing.contains(&index), ..known }))
        };
        read().map_err(error)
    }

    /// Says that the index was found to hold a document in the comparison of this number.
    ///
    /// # Errors
    /// The fold cannot be written.
    pub fn see(&mut self, index: Index, id: &str, comparison: i64) -> Result<(), Error> {
        const SEE: &str = "UPDATE documents SET seen = ?3 WHERE idx = ?1 AND id = ?2";
        let see = || self.connection.prepare_cached(SEE)?.execute(params![index, id, comparison]);
        see().map(drop).map_err(error)
    }

    /// The next documents that the index was not found to hold in that comparison, in the order of their ids: so many at most, fewer where they are
    /// large rows, and none at the end.
    ///
    /// # Errors
    /// The fold cannot be read.
    pub fn unseen(&self, index: Index, comparison: i64, after: &str, limit: u32) -> Result<Vec<(String, Known)>, Error> {
        const UNSEEN: &str = "SELECT version, state, redacted, routing, content, unit, cells, id FROM documents
            WHERE idx = ?1 AND id > ?2 AND seen <> ?3 ORDER BY id LIMIT ?4";
        let read = || -> rusqlite::Result<Vec<(String, Known)>> {
            let mut select = self.connection.prepare_cached(UNSEEN)?;
            let mut rows = select.query(params![index, after, comparison, limit])?;
            let (mut found, mut size) = (Vec::new(), 0);
            while let Some(row) = rows.next()? {
                if size > UNSEEN_SIZE {
                    break;
                }
                let (id, row): (String, _) = (row.get(7)?, Stored::read(row)?);
                let known = row.known(&self.connection, index, &id)?;
                size += known.row.as_ref().map_or(0, Cells::size);
                found.push((id, known));
            }
            Ok(found)
        };
        read().map_err(error)
    }

    /// How many documents there are to be in the indices.
    ///
    /// # Errors
    /// The fold cannot be read.
    pub fn documents(&self) -> Result<u64, Error> {
        const COUNT: &str = "SELECT count(*) FROM documents WHERE state IN (?1, ?2)";
        self.connection.query_row(COUNT, [number(State::Document), number(State::Redacted)], |row| row.get(0)).map_err(error)
    }

    /// The next documents of an index that are deleted with nothing in their place.
    ///
    /// # Errors
    /// The fold cannot be read.
    pub fn deleted(&self, index: Index, after: &str, limit: u32) -> Result<Vec<String>, Error> {
        const DELETED: &str = "SELECT id FROM documents WHERE idx = ?1 AND id > ?2 AND state = ?3 ORDER BY id LIMIT ?4";
        let read = || {
            let mut select = self.connection.prepare_cached(DELETED)?;
            select.query_map(params![index, after, number(State::Deleted), limit], |row| row.get(0))?.collect::<rusqlite::Result<_>>()
        };
        read().map_err(error)
    }

    /// The unit that stands of a document, where it is kept.
    ///
    /// # Errors
    /// The fold cannot be read.
    pub fn unit(&self, index: Index, id: &str) -> Result<Option<Unit>, Error> {
        const UNIT: &str = "SELECT origin, position, units.unit, part, message, payload
            FROM documents JOIN units ON key = documents.unit WHERE idx = ?1 AND id = ?2";
        let read = |row: &Row<'_>| {
            let (origin, position, message): (usize, String, Option<String>) = (row.get(0)?, row.get(1)?, row.get(4)?);
            let unreadable = |at| move |cause| rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, Box::new(cause));
            let beside: Option<Beside> = message.map(|text| serde_json::from_str(&text)).transpose().map_err(unreadable(4))?;
            Ok(Unit {
                origin: self.origins.get(origin).cloned().ok_or(rusqlite::Error::InvalidQuery)?,
                position: serde_json::from_str(&position).map_err(unreadable(1))?,
                unit: row.get(2)?,
                part: row.get(3)?,
                payload: Bytes::from(row.get::<_, Vec<u8>>(5)?),
                message: beside.and_then(|beside| beside.0).map(Arc::new),
            })
        };
        let get = || self.connection.prepare_cached(UNIT)?.query_row(params![index, id], read).optional();
        get().map_err(error)
    }

    fn row(&self, index: Index, id: &str) -> rusqlite::Result<Option<Stored>> {
        const ROW: &str = "SELECT version, state, redacted, routing, content, unit, cells FROM documents WHERE idx = ?1 AND id = ?2";
        self.connection.prepare_cached(ROW)?.query_row(params![index, id], Stored::read).optional()
    }

    fn origin(&mut self, origin: &Arc<Origin>) -> i64 {
        let next = i64::try_from(self.origins.len()).unwrap_or(i64::MAX);
        *self.by_origin.entry(Arc::clone(origin)).or_insert_with(|| {
            self.origins.push(Arc::clone(origin));
            next
        })
    }
}

/// A row of `documents`.
struct Stored {
    version: Option<u64>,
    state: i64,
    has_redacted: bool,
    routing: Option<String>,
    content: Option<[u8; 16]>,
    unit: Option<i64>,
    has_cells: bool,
}

impl Stored {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            version: row.get(0)?,
            state: row.get(1)?,
            has_redacted: row.get(2)?,
            routing: row.get(3)?,
            content: row.get(4)?,
            unit: row.get(5)?,
            has_cells: row.get(6)?,
        })
    }

    fn known(self, connection: &Connection, index: Index, id: &str) -> rusqlite::Result<Known> {
        let folded = self.folded(connection, index, id)?;
        let row = if self.has_cells { rows::read(connection, index, id)? } else { None };
        Ok(Known { folded, routing: self.routing, content: self.content, row, erases: false })
    }

    fn folded(&self, connection: &Connection, index: Index, id: &str) -> rusqlite::Result<Folded> {
        const REDACTED: &str = "SELECT version FROM redacted WHERE idx = ?1 AND id = ?2 ORDER BY version";
        self.with_redacted(connection, REDACTED, params![index, id])
    }

    /// All that it takes to take in, or to sift, what is said of one version: of those that were redacted only this one, for there may be very many.
    fn folded_at(&self, connection: &Connection, index: Index, id: &str, version: u64) -> rusqlite::Result<Folded> {
        const REDACTED: &str = "SELECT version FROM redacted WHERE idx = ?1 AND id = ?2 AND version = ?3";
        // No version that is stored is higher.
        let version = i64::try_from(version).unwrap_or(-1);
        self.with_redacted(connection, REDACTED, params![index, id, version])
    }

    fn with_redacted(&self, connection: &Connection, select: &str, of: &[&dyn ToSql]) -> rusqlite::Result<Folded> {
        let state =
            [State::Document, State::Deleted, State::Tombstone, State::Redacted].into_iter().find(|state| number(*state) == self.state);
        let newest = self.version.zip(state).map(|(version, state)| Newest { version, state });
        if !self.has_redacted {
            return Ok(Folded { newest, redacted: Vec::new() });
        }
        let mut select = connection.prepare_cached(select)?;
        let redacted = select.query_map(of, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        Ok(Folded { newest, redacted })
    }
}

fn stored(newest: Option<Newest>) -> (Option<u64>, i64) {
    (newest.map(|newest| newest.version), newest.map_or(0, |newest| number(newest.state)))
}

fn number(state: State) -> i64 {
    match state {
        State::Document => 1,
        State::Deleted => 2,
        State::Tombstone => 3,
        State::Redacted => 4,
    }
}

/// What a message has beside its payload, as a dead letter stores it.
#[derive(Serialize, Deserialize)]
struct Beside(#[serde(with = "stored_message")] Option<Message>);

/// Keeps a unit, in the place of the one that stood before; gives its key.
fn keep(connection: &Connection, key: Option<i64>, origin: i64, unit: &Unit) -> rusqlite::Result<i64> {
    let text =
        |value: &dyn Fn() -> serde_json::Result<String>| value().map_err(|cause| rusqlite::Error::ToSqlConversionFailure(Box::new(cause)));
    let position = text(&|| serde_json::to_string(&unit.position))?;
    let message = unit.message.as_deref().map(|message| text(&|| serde_json::to_string(&Beside(Some(message.clone()))))).transpose()?;
    let values: &[&dyn ToSql] = &[&key, &origin, &position, &unit.unit, &unit.part, &message, &&unit.payload[..]];
    const KEEP: &str =
        "INSERT OR REPLACE INTO units (key, origin, position, unit, part, message, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    connection.prepare_cached(KEEP)?.execute(values)?;
    Ok(key.unwrap_or_else(|| connection.last_insert_rowid()))
}

fn error(cause: rusqlite::Error) -> Error {
    unnamed::error(&cause, "about as much room as the documents that are known")
}

#[cfg(test)]
mod tests;
