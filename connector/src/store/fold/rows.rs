//! Rows of cells in the fold: each as what its changes come to so far, with the values, because no single record has it whole.

use std::sync::Arc;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, params};

use super::{Fold, Index, Keeps, error, number};
use crate::error::Error;
use crate::plan::cells::Row;
use crate::plan::fold::State;
use crate::revision::Cells;

impl Fold {
    /// Takes in a change of a row.
    ///
    /// # Errors
    /// The fold cannot be written.
    pub fn take_cells(&mut self, index: &Arc<str>, id: &str, routing: Option<&str>, cells: &Cells) -> Result<(), Error> {
        if self.keeps == Keeps::Places {
            return Ok(());
        }
        let index = self.index(index);
        self.of_rows.insert(index);
        self.merge(index, id, routing, cells).map_err(error)
    }

    /// Whether any document of an index is a row of cells.
    pub fn has_rows(&self, index: Index) -> bool {
        self.of_rows.contains(&index)
    }

    fn merge(&self, index: Index, id: &str, routing: Option<&str>, cells: &Cells) -> rusqlite::Result<()> {
        let before = read(&self.connection, index, id)?;
        let is_new = before.is_none();
        let mut row = before.unwrap_or_default();
        if !row.merge(cells) && !is_new {
            return Ok(());
        }
        const KEEP: &str = "INSERT OR REPLACE INTO cells (idx, id, row) VALUES (?1, ?2, ?3)";
        self.connection.prepare_cached(KEEP)?.execute(params![index, id, row.text()])?;
        let state = if row.columns.is_empty() { State::Tombstone } else { State::Document };
        const UPSERT: &str = "INSERT INTO documents (idx, id, version, state, redacted, routing, cells) VALUES (?1, ?2, ?3, ?4, 0, ?5, 1)
            ON CONFLICT DO UPDATE SET version = ?3, state = ?4, cells = 1";
        self.connection.prepare_cached(UPSERT)?.execute(params![index, id, row.version(), number(state), routing]).map(drop)
    }
}

/// What is known of a row.
pub(super) fn read(connection: &Connection, index: Index, id: &str) -> rusqlite::Result<Option<Row>> {
    const ROW: &str = "SELECT row FROM cells WHERE idx = ?1 AND id = ?2";
    let text: Option<String> = connection.prepare_cached(ROW)?.query_row(params![index, id], |row| row.get(0)).optional()?;
    let unreadable = || rusqlite::Error::FromSqlConversionFailure(0, Type::Text, "expected a row of cells".into());
    text.map(|text| Row::read(text.as_bytes(), 0).ok_or_else(unreadable)).transpose()
}
