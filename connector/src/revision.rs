//! The second noun: one decoded change of one document.
//!
//! It says what the source says and decides nothing: no index name, no operation.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// JSON text as bytes, whatever the source was. On one line, valid UTF-8, always an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document(pub Bytes);

impl Document {
    /// The JSON text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Cell {
    /// Bytes that it takes in a body, within a few dozen.
    pub fn size(&self) -> usize {
        const AROUND: usize = 40;
        // The beginning of the value comes twice.
        const TWICE: usize = 128;
        self.name.len() + self.value.len() + self.value.len().min(TWICE) + AROUND
    }
}

/// How a version is compared with the stored one (OpenSearch `version_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VersionType {
    /// Only a higher version writes: a source whose versions are unique per document.
    External,
    /// An equal version writes too: a source whose clock can tie.
    ExternalGte,
}

impl VersionType {
    /// The name in the bulk action line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::External => "external",
            Self::ExternalGte => "external_gte",
        }
    }
}

/// What a revision does to its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The document is now this.
    Put(Document),
    /// The document is gone.
    Delete,
    /// The content of this revision was removed afterwards. Says nothing about the document's present state.
    Redaction,
    /// Some columns of the row are now this; the others stay as they are.
    Cells(Cells),
}

/// A change of some columns of a row. Each column is a cell of its own: of two writes of one cell the one with the higher version wins, so that
/// changes may come late, twice and in any order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cells {
    /// Every cell of the row up to this version is gone, also one of this very version.
    pub erased: Option<u64>,
    /// The columns that were written, by name in the order of their bytes, no name twice.
    pub columns: Vec<Cell>,
}

/// One column as it was written once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The column's name as the source writes it, such as `f:name`.
    pub name: String,
    /// The version of this column, 0 to 2^63-1 ([`MAX_VERSION`]).
    pub version: u64,
    /// The value as JSON text on one line; `null` where the column has none.
    pub value: Bytes,
}

/// One decoded change: table, document id, version, and a put, a delete or a redaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// The table as the source names it.
    pub table: Arc<str>,
    /// The document id.
    pub id: String,
    /// The version, 0 to 2^63-1 ([`MAX_VERSION`]).
    pub version: u64,
    /// How versions of this source compare.
    pub version_type: VersionType,
    /// What happened.
    pub change: Change,
    /// The source's own metadata as a JSON object; only where it was asked for.
    pub metadata: Option<Document>,
    /// When it was committed at its source, in milliseconds since 1970; `None` where the source does not say, or not so that it can be used.
    pub committed: Option<u64>,
}

/// One block of a ledger's journal, which is one committed transaction: what happened, beside what the documents are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The strand that it is a block of.
    pub strand: String,
    /// Its sequence number in the strand, 0 to 2^63-1 ([`MAX_VERSION`]).
    pub sequence: u64,
    /// What is known of it, as a JSON object.
    pub summary: Document,
    /// When it was committed, in milliseconds since 1970; `None` where it does not say, or not so that it can be used.
    pub committed: Option<u64>,
}

/// The highest external version that OpenSearch takes.
pub const MAX_VERSION: u64 = i64::MAX as u64;
