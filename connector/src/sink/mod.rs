//! Where operations go: operations in, one reply per operation out.
//!
//! A sink tries once and says what happened. It never retries, judges a reply or knows where an operation came from.

pub mod bulk_file;
#[cfg(feature = "local")]
pub mod local;
pub mod opensearch;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::error::Error;
use crate::operation::{Operation, Target};
use crate::plan::outcome::{Failure, Reply};

/// A future that a sink hands back.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Takes operations. One `write` is one request; several may run at once.
pub trait Sink: Send + Sync {
    /// What it is, for messages: the URL without credentials, or the path.
    fn name(&self) -> &str;

    /// Carries out the operations in their order; the replies stand in the same order and are as many.
    fn write(&self, operations: Arc<[Operation]>) -> Pending<'_, Result<Vec<Reply>, Failure>>;

    /// Whether it can be reached, and lets us in; nothing is written. What is no server always can.
    ///
    /// # Errors
    /// It cannot, and why.
    fn reach(&self) -> Pending<'_, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    /// The indices that are written to, by their names, and the UUID of each: what a checkpoint is worth only with. Empty for what has none.
    fn targets(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Says which indices were written to before this process began, by [`targets`](Self::targets). One that is gone, or another by now, is
    /// blocked and not made anew. Of one that is known already nothing changes. Whoever keeps checkpoints says it also where there are none
    /// yet: what is told to a person about a blocked index depends on that.
    fn expecting(&self, _targets: &BTreeMap<String, String>) {}

    /// Makes everything written durable; called at the end of a run that came to its end, and before a position is saved elsewhere.
    fn finish(&self) -> Pending<'_, Result<(), Error>>;
}

/// Keeps tombstones and can say which. They are removed as any document is, by a delete.
pub trait Tombstones: Sink {
    /// The indices that a name, or a pattern with `*`, means, and how many tombstones each holds; `before` is the time that divides the old
    /// from the younger, in milliseconds since 1970. Empty where there is no such index.
    fn survey<'a>(&'a self, name: &'a str, before: u64) -> Pending<'a, Result<Vec<Survey>, Failure>>;

    /// The next documents of an index that look like tombstones from before a time, as they stood when the first page was asked for: each
    /// comes once, whether it is removed meanwhile or not. `after` is the mark of the previous page; an empty page is the last.
    fn page<'a>(&'a self, index: &'a str, before: u64, after: Option<String>) -> Pending<'a, Result<Page, Failure>>;
}

/// How many tombstones an index holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// The index itself, never an alias.
    pub index: Arc<str>,
    /// Tombstones from before the time given.
    pub old: u64,
    /// Tombstones from that time or later.
    pub younger: u64,
}

/// Some of the tombstones of an index.
#[derive(Debug)]
pub struct Page {
    /// The documents; none on the last page.
    pub found: Vec<Candidate>,
    /// The mark that the next page begins at.
    pub next: String,
}

/// A document that looks like a tombstone.
#[derive(Debug)]
pub struct Candidate {
    /// It, at the version that it has, under `external_gte`: a delete of this removes it, and nothing that is newer.
    pub target: Target,
    /// What it says.
    pub source: Box<RawValue>,
}

/// Can say which documents it holds, and at which versions. Behind an alias that is the index that is written to, without the alias's filter.
pub trait Contents: Sink {
    /// The next documents of an index, in an order of its own. Everything that was written before the first page was asked for is among them; each
    /// document comes once, as it was then or when its page was made. `after` is the mark of the previous page, and a page that did not come can be
    /// asked for again with it; an empty page is the last. `None` where there is no such index.
    ///
    /// # Errors
    /// [`Failure::Invalid`]: the sink no longer knows the place of the mark, so that only a beginning without one leads on. Documents that could not
    /// be looked at are a failure, never fewer documents.
    fn holding<'a>(&'a self, index: &'a str, with: Detail, after: Option<String>) -> Pending<'a, Result<Option<Holding>, Failure>>;

    /// Lets go of what is kept for a mark, where the pages are given up before the last one.
    fn leave(&self, _after: String) -> Pending<'_, ()> {
        Box::pin(async {})
    }

    /// The documents of an index with these ids as they are now, in their order, whatever a search would show yet; `None` for one that is not there,
    /// as where there is no such index.
    fn held<'a>(&'a self, index: &'a str, ids: &'a [Asked], with: Detail) -> Pending<'a, Result<Vec<Option<Held>>, Failure>>;

    /// Forgets the deletes of these documents that the index remembers without a document, so that what was deleted at a higher version than it is to
    /// have can be written again. Documents and tombstones stay as they are. Where single deletes cannot be forgotten, all of the index are.
    /// To be waited for to its end: what it changes for a moment is put back then. After a failure it can be called again.
    fn forget_deletes<'a>(&'a self, index: &'a str, ids: &'a [Asked]) -> Pending<'a, Result<(), Failure>>;
}

/// How much of a document is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Its version, and whether it is a tombstone.
    Version,
    /// Its content too.
    Content,
}

/// A document that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Its id.
    pub id: String,
    /// Its routing value, where it has one.
    pub routing: Option<String>,
}

/// Some of the documents of an index.
#[derive(Debug)]
pub struct Holding {
    /// The documents; none on the last page.
    pub found: Vec<Held>,
    /// The mark that the next page begins at.
    pub next: String,
    /// How many documents the index holds altogether, tombstones too, where that was counted.
    pub total: Option<u64>,
}

/// A document that an index holds.
#[derive(Debug)]
pub struct Held {
    /// Its id.
    pub id: String,
    /// Its version.
    pub version: u64,
    /// Its routing value, where it has one.
    pub routing: Option<String>,
    /// Whether it is a tombstone: a delete that is kept as a document.
    pub is_tombstone: bool,
    /// Its content, where that was asked for and is kept; of a row of cells with its cells beside it, as [`plan::cells`](crate::plan::cells) reads them.
    pub source: Option<Box<RawValue>>,
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
