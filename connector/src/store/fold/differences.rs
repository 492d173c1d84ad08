//! What a comparison of the fold with an index found: on disk too, because everything may be different.

use rusqlite::{OptionalExtension, Row, params};

use super::{Fold, Index, error};
use crate::error::Error;
use crate::plan::fold::{Class, Mend};

pub(super) const SCHEMA: &str = "
CREATE TABLE differences (
    key INTEGER PRIMARY KEY, class INTEGER NOT NULL, idx INTEGER NOT NULL, id TEXT NOT NULL, routing TEXT, held INTEGER, tombstone INTEGER NOT NULL,
    folded INTEGER, other INTEGER NOT NULL, mend INTEGER NOT NULL, version INTEGER, row TEXT
);
";

/// A document that an index does not hold as it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What is wrong.
    pub class: Class,
    /// The index.
    pub index: Index,
    /// The document id.
    pub id: String,
    /// The routing value under which it is held, or should be.
    pub routing: Option<String>,
    /// The version that is held, where anything is.
    pub held: Option<u64>,
    /// Whether that is a tombstone.
    pub is_tombstone: bool,
    /// The version that the stream has, where it knows the id.
    pub folded: Option<u64>,
    /// Whether the version is right, and the content is not.
    pub is_other: bool,
    /// What mends it.
    pub mend: Mend,
    /// What is held, where it is a row of cells and will be judged again by that.
    pub row: Option<String>,
}

impl Fold {
    /// Notes a difference.
    ///
    /// # Errors
    /// The fold cannot be written.
    pub fn note(&mut self, difference: &Difference) -> Result<(), Error> {
        self.write(None, difference)
    }

    fn write(&mut self, key: Option<i64>, difference: &Difference) -> Result<(), Error> {
        const WRITE: &str = "INSERT OR REPLACE INTO differences
            (key, class, idx, id, routing, held, tombstone, folded, other, mend, version, row)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
        let Difference { class, index, id, routing, held, is_tombstone, folded, is_other, mend, row } = difference;
        let (mend, version) = match mend {
            Mend::Nothing => (0, None),
            Mend::Newest => (1, None),
            Mend::Erase(version) => (2, Some(version)),
            Mend::Anew(version) => (3, Some(version)),
        };
        let write = || {
            let values = params![key, place(*class), index, id, routing, held, is_tombstone, folded, is_other, mend, version, row];
            self.connection.prepare_cached(WRITE)?.execute(values)
        };
        write().map(drop).map_err(error)
    }

    /// The next differences of a class, each with its key to go on behind.
    ///
    /// # Errors
    /// The fold cannot be read.
    pub fn differences(&self, class: Class, after: i64, limit: u32) -> Result<Vec<(i64, Difference)>, Error> {
        const NEXT: &str = "SELECT key, class, idx, id, routing, held, tombstone, folded, other, mend, version, row FROM differences
            WHERE key > ?2 AND class = ?1 ORDER BY key LIMIT ?3";
        let read = || {
            let mut select = self.connection.prepare_cached(NEXT)?;
            select.query_map(params![place(class), after, limit], read)?.collect::<rusqlite::Result<_>>()
        };
        read().map_err(error)
    }

    /// The first differences of a class by index and id; all of them without a limit.
    ///
    /// # Errors
    /// The fold cannot be read.
    pub fn sample(&self, class: Class, limit: Option<u32>) -> Result<Vec<Difference>, Error> {
        const SAMPLE: &str = "SELECT key, class, idx, id, routing, held, tombstone, folded, other, mend, version, row FROM differences
            WHERE class = ?1 ORDER BY idx, id, routing LIMIT ?2";
        let read = || {
            let mut select = self.connection.prepare_cached(SAMPLE)?;
            select.query_map(params![place(class), limit.map_or(-1, i64::from)], |row| Ok(read(row)?.1))?.collect::<rusqlite::Result<_>>()
        };
        read().map_err(error)
    }

    /// How many differences there are of a class.
    ///
    /// # Errors
    /// The fold cannot be read.
    pub fn count(&self, class: Class) -> Result<u64, Error> {
        const COUNT: &str = "SELECT count(*) FROM differences WHERE class = ?1";
        self.connection.query_row(COUNT, [place(class)], |row| row.get(0)).map_err(error)
    }

    /// How many differences there are of a class in an index.
    ///
    /// # Errors
    /// The fold cannot be read.
    pub fn count_in(&self, class: Class, index: Index) -> Result<u64, Error> {
        const COUNT: &str = "SELECT count(*) FROM differences WHERE class = ?1 AND idx = ?2";
        self.connection.query_row(COUNT, [place(class), index], |row| row.get(0)).map_err(error)
    }

    /// Notes a difference in the place of another one.
    ///
    /// # Errors
    /// The fold cannot be written.
    pub fn renote(&mut self, key: i64, difference: &Difference) -> Result<(), Error> {
        self.write(Some(key), difference)
    }

    /// Forgets a difference, which is none any more.
    ///
    /// # Errors
    /// The fold cannot be written.
    pub fn drop_difference(&mut self, key: i64) -> Result<(), Error> {
        let forget = || self.connection.prepare_cached("DELETE FROM differences WHERE key = ?1")?.execute([key]);
        forget().map(drop).map_err(error)
    }

    /// Forgets the differences of an index, or of all.
    ///
    /// # Errors
    /// The fold cannot be written.
    pub fn drop_differences(&mut self, index: Option<Index>) -> Result<(), Error> {
        const FORGET: &str = "DELETE FROM differences WHERE ?1 IS NULL OR idx = ?1";
        self.connection.execute(FORGET, [index]).map(drop).map_err(error)
    }

    /// Whether there is any difference of one of these classes.
    ///
    /// # Errors
    /// The fold cannot be read.
    pub fn has_any(&self, classes: &[Class]) -> Result<bool, Error> {
        for class in classes {
            let found = || {
                self.connection
                    .prepare_cached("SELECT 1 FROM differences WHERE class = ?1 LIMIT 1")?
                    .query_row([place(*class)], |_| Ok(()))
                    .optional()
            };
            if found().map_err(error)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn place(class: Class) -> i64 {
    Class::ALL.iter().zip(0..).find(|(other, _)| **other == class).map_or(-1, |(_, place)| place)
}

fn read(row: &Row<'_>) -> rusqlite::Result<(i64, Difference)> {
    let class: usize = row.get(1)?;
    let mend = match (row.get(9)?, row.get(10)?) {
        (1, _) => Mend::Newest,
        (2, Some(version)) => Mend::Erase(version),
        (3, Some(version)) => Mend::Anew(version),
        _ => Mend::Nothing,
    };
    let difference = Difference {
        class: *Class::ALL.get(class).ok_or(rusqlite::Error::InvalidQuery)?,
        index: row.get(2)?,
        id: row.get(3)?,
        routing: row.get(4)?,
        held: row.get(5)?,
        is_tombstone: row.get(6)?,
        folded: row.get(7)?,
        is_other: row.get(8)?,
        mend,
        row: row.get(11)?,
    };
    Ok((row.get(0)?, difference))
}
