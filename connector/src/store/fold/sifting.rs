//! A stream that is read once more: which of its revisions stand.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{Fold, error};
use crate::error::Error;
use crate::plan::fold::{Sifted, State};
use crate::record::{Origin, Position};

/// A unit of a stream, as it is met again.
#[derive(Debug)]
pub struct Met<'a> {
    /// The index.
    pub index: &'a Arc<str>,
    /// The document id.
    pub id: &'a str,
    /// What it makes of the document.
    pub state: State,
    /// Its version.
    pub version: u64,
    /// The shard that its record was read from.
    pub origin: &'a Origin,
    /// Its record's place in that shard.
    pub position: &'a Position,
    /// Which unit of the record it is, from 0.
    pub unit: u32,
}

/// A number that two units of one document do not share.
pub(super) fn place(origin: &Origin, position: &Position, unit: u32) -> i64 {
    let mut hash = Sha256::new();
    for part in [origin.stream.as_str(), origin.shard.as_str(), &position.to_string()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let hash = hash.chain_update(unit.to_be_bytes()).finalize();
    hash.iter().take(8).fold(0, |number, byte| number << 8 | i64::from(*byte))
}

impl Fold {
    /// What is done with a unit that is met again. One of a document that the fold does not know stands.
    ///
    /// # Errors
    /// The fold cannot be read.
    pub fn sift(&self, met: &Met<'_>) -> Result<Sifted, Error> {
        let Some(index) = self.by_name.get(met.index) else { return Ok(Sifted::Stands) };
        let read = || -> rusqlite::Result<_> {
            let Some(row) = self.row(*index, met.id)? else { return Ok(None) };
            let stood = row.unit;
            Ok(Some((row.folded_at(&self.connection, *index, met.id, met.version)?, stood)))
        };
        Ok(match read().map_err(error)? {
            None => Sifted::Stands,
            Some((folded, stood)) => {
                // Only where it decides: it is a hash.
                let is_that = || stood == Some(place(met.origin, met.position, met.unit));
                let decides = folded.newest.is_some_and(|newest| newest.version == met.version);
                folded.sift(met.state, met.version, decides && is_that())
            }
        })
    }
}
