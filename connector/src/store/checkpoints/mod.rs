//! Checkpoints: how far each shard is settled, who reads it, and since when it was not heard of.
//!
//! A row per shard, changed only by who knows its last state ([`stored`](crate::plan::stored)). `row` is its stored form, a [`Shelf`] where rows
//! are: `file` is one, an OpenSearch index and the local index are others (`run::shelves`). Rows hold no content of documents. Never decides
//! who may take a row: that is [`plan::lease`](crate::plan::lease).

mod file;
mod place;
mod row;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use self::file::ShelfFile;
pub use self::place::Place;
pub use self::row::{FORMAT_VERSION, Pipeline, Unreadable};
use crate::error::{Error, Kind};
use crate::plan::lease::{Draft, Row};
use crate::plan::stored::{Change, Stamp, Stored, Written};

/// A future that a shelf hands back.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where rows are. Tries once and says what happened.
///
/// An error of kind [`Kind::Pending`] may pass by itself; [`Kind::Checkpoints`] is for a person.
pub trait Shelf: Send + Sync {
    /// What it is, for messages.
    fn name(&self) -> &str;

    /// All rows of a pipeline, or of all pipelines, in no order. Complete: what was acknowledged before is in it.
    fn read<'a>(&'a self, pipeline: Option<&'a Pipeline>) -> Pending<'a, Result<Vec<Stored>, Error>>;

    /// Makes changes, each for itself; the answers stand in their order and are as many. After an error any of them may have been made or
    /// not, and may yet be made.
    fn write(&self, changes: Vec<Change>) -> Pending<'_, Result<Vec<Written>, Error>>;
}

/// A row, with whose it is and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The pipeline.
    pub pipeline: Pipeline,
    /// The shard.
    pub shard: String,
    /// The state.
    pub stamp: Stamp,
    /// What it says.
    pub row: Row,
}

/// Everything on a shelf: the rows, those of one pipeline together, and what is no row that can be read.
///
/// # Errors
/// The shelf cannot be read.
pub async fn survey(shelf: &dyn Shelf) -> Result<(Vec<Kept>, Vec<Unreadable>), Error> {
    let (mut rows, mut unreadable) = (Vec::new(), Vec::new());
    for stored in shelf.read(None).await? {
        match row::read(stored) {
            Ok(kept) => rows.push(kept),
            Err(what) => unreadable.push(what),
        }
    }
    rows.sort_by(|a, b| (&a.pipeline, &a.shard).cmp(&(&b.pipeline, &b.shard)));
    unreadable.sort_by(|a, b| a.id.cmp(&b.id));
    Ok((rows, unreadable))
}

/// The checkpoints of one pipeline.
pub struct Checkpoints {
    shelf: Arc<dyn Shelf>,
    pipeline: Pipeline,
}

impl Checkpoints {
    /// Those of a pipeline, which reads one stream: another stream has others, also under the same name.
    pub fn new(shelf: Arc<dyn Shelf>, pipeline: Pipeline) -> Self {
        Self { shelf, pipeline }
    }

    /// Where they are, for messages.
    pub fn place(&self) -> &str {
        self.shelf.name()
    }

    /// Whose they are.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// All rows: the shard, its state, and what is stored.
    ///
    /// # Errors
    /// The shelf cannot be read; or one row cannot: without it, its shard would look like one that was never read.
    pub async fn read(&self) -> Result<Vec<(String, Stamp, Row)>, Error> {
        let (mut rows, ours) = (Vec::new(), self.pipeline.id(""));
        for stored in self.shelf.read(Some(&self.pipeline)).await? {
            // A shelf may hand out the rows of others too: what is wrong with those is not for us.
            if stored.id.starts_with(&ours) {
                let kept = row::read(stored).map_err(|unreadable| unreadable.error(self.shelf.name()))?;
                rows.push((kept.shard, kept.stamp, kept.row));
            }
        }
        Ok(rows)
    }

    /// Writes rows; the answers stand in the order of the drafts and are as many.
    ///
    /// # Errors
    /// As [`Shelf::write`].
    pub async fn write(&self, drafts: &[Draft]) -> Result<Vec<Written>, Error> {
        if drafts.is_empty() {
            return Ok(Vec::new());
        }
        let changes = drafts.iter().map(|draft| {
            let body = draft.row.as_ref().map(|row| row::write(&self.pipeline, &draft.shard, row)).transpose()?;
            Ok(Change { id: self.pipeline.id(&draft.shard), expect: draft.expect, body })
        });
        let written = self.shelf.write(changes.collect::<Result<_, Error>>()?).await?;
        if written.len() == drafts.len() {
            return Ok(written);
        }
        let what = format!("checkpoints: {}: expected {} answers, found {}", self.shelf.name(), drafts.len(), written.len());
        Err(Error::new(Kind::Pending, what))
    }
}

impl std::fmt::Debug for Checkpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoints").field("shelf", &self.shelf.name()).field("pipeline", &self.pipeline).finish()
    }
}
