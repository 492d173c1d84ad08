//! Where operations go: operations in, one reply per operation out.
//!
//! A sink tries once and says what happened. It never retries, judges a reply or knows where an operation came from.

pub mod bulk_file;
#[cfg(feature = "local")]
pub mod local;
pub mod opensearch;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::error::Error;
use crate::operation::Operation;
use crate::plan::outcome::{Failure, Reply};

/// A future that a sink hands back.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Takes operations. One `write` is one request; several may run at once.
pub trait Sink: Send + Sync {
    /// What it is, for messages: the URL without credentials, or the path.
    fn name(&self) -> &str;

    /// Carries out the operations in their order; the replies stand in the same order and are as many.
    fn write(&self, operations: Arc<[Operation]>) -> Pending<'_, Result<Vec<Reply>, Failure>>;

    /// Makes everything written durable; called once, at the end of a run that came to its end.
    fn finish(&self) -> Pending<'_, Result<(), Error>>;
}

/// One document found by a search.
#[derive(Debug, serde::Serialize)]
pub struct Hit {
    /// The concrete index that holds it, or the name under which it is searched where the sink has no aliases.
    pub index: String,
    /// The document id.
    pub id: String,
    /// The stored external version.
    pub version: u64,
    /// How well it fits; higher is better, comparable inside one answer only.
    pub score: f64,
    /// The document.
    pub source: Box<RawValue>,
    /// Fragments around the matches, each matched word between `\u{1}` and `\u{2}`; not part of the JSON form.
    #[serde(skip)]
    pub highlights: Vec<String>,
}
