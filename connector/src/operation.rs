//! The third noun: what a sink is asked to do.
//!
//! A version is not optional: there is no way to build a write that could overwrite something newer.

use std::sync::Arc;

use crate::revision::{Cell, Cells, Document, VersionType};

/// Which document of which index, at which version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The index or alias that is written to.
    pub index: Arc<str>,
    /// The document id, 1 to 512 bytes of UTF-8.
    pub id: String,
    /// The external version, 0 to 2^63-1.
    pub version: u64,
    /// How it is compared.
    pub version_type: VersionType,
    /// The routing value, where a rule gives one.
    pub routing: Option<String>,
}

/// One operation on the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Write the whole document.
    Index {
        /// Where.
        target: Target,
        /// What.
        document: Document,
    },
    /// Delete the document.
    Delete {
        /// Which.
        target: Target,
    },
    /// Write a tombstone in the document's place: a document that says that it is deleted, and keeps its version for as long as it is there.
    Tombstone {
        /// Where.
        target: Target,
        /// When the delete was planned, in milliseconds since 1970 (UTC); what [`plan::tombstone`](crate::plan::tombstone) makes of it is
        /// stored.
        time: u64,
    },
    /// Merge cells into the document: of each column the highest version stays, whatever order they come in.
    Merge {
        /// Where. The version is the highest of the cells, for people: what decides is the version of each cell.
        target: Target,
        /// What.
        cells: Arc<Cells>,
        /// When the merge was planned, in milliseconds since 1970 (UTC): the time of the tombstone, should nothing be left of the row.
        time: u64,
    },
}

/// Bytes of a tombstone's document, within a few.
const TOMBSTONE: usize = 72;

/// Bytes of a merge but for its cells, within a few dozen: the script and the names of its parameters.
const MERGE: usize = 1_720;

impl Operation {
    /// The document that the operation is about.
    pub fn target(&self) -> &Target {
        match self {
            Self::Index { target, .. } | Self::Delete { target } | Self::Tombstone { target, .. } | Self::Merge { target, .. } => target,
        }
    }

    /// The operation's name in dead letters and in messages.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Index { .. } => "index",
            Self::Delete { .. } => "delete",
            Self::Tombstone { .. } => "tombstone",
            Self::Merge { .. } => "merge",
        }
    }

    /// Bytes that it takes in a bulk body, within a few dozen: the document and what of the action line varies.
    pub fn size(&self) -> usize {
        const ACTION_LINE: usize = 96;
        let target = self.target();
        let document = match self {
            Self::Index { document, .. } => document.0.len(),
            Self::Delete { .. } => 0,
            Self::Tombstone { .. } => TOMBSTONE,
            Self::Merge { cells, .. } => MERGE + cells.columns.iter().map(Cell::size).sum::<usize>(),
        };
        document + target.index.len() + target.id.len() + target.routing.as_ref().map_or(0, String::len) + ACTION_LINE
    }
}
