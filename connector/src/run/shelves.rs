//! Checkpoints in the sink itself: rows as documents that it keeps beside what it indexes.
//!
//! Only tells the one edge what the other asks for. Decides nothing.

use std::sync::Arc;

use crate::error::{Error, Kind};
use crate::plan::stored::{Change, Stored, Written};
use crate::sink::Sink;
#[cfg(feature = "local")]
use crate::sink::local::Local;
use crate::sink::opensearch::{Documents, OpenSearch};
use crate::store::checkpoints::{Pending, Pipeline, Shelf};

/// The index of OpenSearch that holds the rows of all pipelines.
pub const INDEX: &str = "revsync-checkpoints";

/// The members of a row by which it is found; each row has its own.
const FIELDS: &[&str] = &["pipeline", "stream", "shard"];
/// The member that holds everything else.
const CONTENT: &str = "content";

/// Rows in an index of OpenSearch.
#[derive(Debug)]
pub struct InOpenSearch {
    sink: Arc<OpenSearch>,
    documents: Documents,
    name: String,
}

impl InOpenSearch {
    /// In this index, which is made with the first row.
    pub fn new(sink: Arc<OpenSearch>, index: &str) -> Self {
        let name = format!("index {index} of {}", sink.name());
        Self { sink, documents: Documents::new(index, FIELDS, CONTENT), name }
    }

    /// As a worker wants it: what does not let it in is waited for.
    #[must_use]
    pub fn that_outlasts_refusals(self) -> Self {
        Self { documents: self.documents.that_outlast_refusals(), ..self }
    }
}

impl Shelf for InOpenSearch {
    fn name(&self) -> &str {
        &self.name
    }

    fn read<'a>(&'a self, pipeline: Option<&'a Pipeline>) -> Pending<'a, Result<Vec<Stored>, Error>> {
        Box::pin(async move {
            let having = pipeline.map(|pipeline| [("pipeline", pipeline.name.as_str()), ("stream", pipeline.stream.as_str())]);
            self.sink.kept(&self.documents, having.as_ref().map_or(&[], |having| having.as_slice())).await.map_err(of_checkpoints)
        })
    }

    fn write(&self, changes: Vec<Change>) -> Pending<'_, Result<Vec<Written>, Error>> {
        Box::pin(async move { written(self.sink.keep(&self.documents, changes).await) })
    }
}

#[cfg(feature = "local")]
impl Shelf for Local {
    fn name(&self) -> &str {
        Sink::name(self)
    }

    fn read<'a>(&'a self, _: Option<&'a Pipeline>) -> Pending<'a, Result<Vec<Stored>, Error>> {
        // One file is rarely shared by many, and whoever asks for the rows of one pipeline looks whose they are.
        Box::pin(async move { self.kept().await.map_err(of_checkpoints) })
    }

    fn write(&self, changes: Vec<Change>) -> Pending<'_, Result<Vec<Written>, Error>> {
        Box::pin(async move { written(self.keep(changes).await) })
    }
}

fn written(answer: Result<Vec<Written>, Error>) -> Result<Vec<Written>, Error> {
    let one = |written| if let Written::Failed(error) = written { Written::Failed(of_checkpoints(error)) } else { written };
    answer.map(|all| all.into_iter().map(one).collect()).map_err(of_checkpoints)
}

/// What the sink says of its documents is about checkpoints here.
fn of_checkpoints(error: Error) -> Error {
    let kind = if error.kind == Kind::Sink { Kind::Checkpoints } else { error.kind };
    Error { kind, what: format!("checkpoints: {}", error.what), help: error.help }
}
