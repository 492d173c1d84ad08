//! Merges cells into a row, by the rules of [`plan::cells`](crate::plan::cells).
//!
//! A document that is put together from cells has a row in `cells` beside its own, with the versions of its columns. One that is gone needs none:
//! its version says up to which version it was erased. Never merges into a document that was written as a whole.

use std::collections::BTreeMap;

use bytes::Bytes;
use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::text;
use super::write::{State, Stored, Writing};
use crate::operation::Target;
use crate::plan::cells::{Column, Row};
use crate::plan::outcome::Reply;
use crate::revision::Cells;

/// What is kept of a row beside its document.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// Up to which version it was erased.
    erased: Option<u64>,
    /// The versions of the columns, in the order of their names in bytes, as they stand in the document.
    versions: Vec<u64>,
}

impl Writing<'_> {
    pub(super) fn merge(&mut self, target: &Target, cells: &Cells, time: u64) -> rusqlite::Result<Reply> {
        let index = self.index_key(&target.index)?;
        let stored = self.stored(index, target)?;
        let Some(mut row) = self.row(stored.as_ref())? else {
            return Ok(Reply::error(400, "illegal_argument_exception", "the document is no row of cells"));
        };
        if !row.merge(cells) {
            return Ok(Reply::noop());
        }
        let target = Target { version: row.version(), ..target.clone() };
        let Some(document) = row.document() else { return self.bury(index, &target, stored, time) };
        self.text.clear();
        let source = match text::searchable(&target.id, document.as_bytes(), &mut self.text) {
            Ok(source) => source,
            Err(reason) => return Ok(Reply::error(400, "mapper_parsing_exception", &reason)),
        };
        let (key, reply) = self.place(index, &target, stored, source)?;
        let kept = Kept { erased: row.erased, versions: row.columns.values().map(|column| column.version).collect() };
        let kept = serde_json::to_string(&kept).map_err(|cause| rusqlite::Error::ToSqlConversionFailure(cause.into()))?;
        self.transaction.prepare_cached("INSERT INTO cells (key, row) VALUES (?1, ?2)")?.execute(params![key, kept])?;
        self.has_cells = Some(true);
        Ok(reply)
    }

    /// The row that a document is; `None` where it is none.
    fn row(&self, stored: Option<&Stored>) -> rusqlite::Result<Option<Row>> {
        match stored {
            None => Ok(Some(Row::default())),
            Some(Stored { key, state: State::Document, .. }) => {
                const ROW: &str = "SELECT source, row FROM documents JOIN cells USING (key) WHERE key = ?1";
                let read = |row: &rusqlite::Row<'_>| Ok(read(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?));
                Ok(self.transaction.prepare_cached(ROW)?.query_row([key], read).optional()?.flatten())
            }
            Some(Stored { version, .. }) => Ok(Some(Row { erased: Some(*version), columns: BTreeMap::new() })),
        }
    }
}

/// The row that a document and what is kept of its cells come to.
pub(super) fn read(source: &str, kept: &str) -> Option<Row> {
    let Kept { erased, versions } = serde_json::from_str(kept).ok()?;
    let values: BTreeMap<String, &RawValue> = serde_json::from_str(source).ok()?;
    if values.len() != versions.len() {
        return None;
    }
    let column = |((name, value), version): ((String, &RawValue), u64)| {
        (name, Column { version, value: Bytes::copy_from_slice(value.get().as_bytes()) })
    };
    Some(Row { erased, columns: values.into_iter().zip(versions).map(column).collect() })
}
