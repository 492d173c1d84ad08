//! Small documents that a pipeline keeps for itself: each changed only by who knows its last state.
//!
//! Plain data, whatever keeps them. Never says what a document means.

use crate::error::Error;

/// One state of a document. Another state has another stamp, also where the document was removed and made anew in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Which write it comes from.
    pub number: u64,
    /// What the number belongs to: a term of a shard's primary, a file.
    pub term: u64,
}

/// A document as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its id.
    pub id: String,
    /// Its state.
    pub stamp: Stamp,
    /// What it says, as JSON text.
    pub body: String,
}

/// A document as it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its id.
    pub id: String,
    /// The state that it must have now; `None` where there must be no such document.
    pub expect: Option<Stamp>,
    /// What it will say, as JSON text; `None` removes it.
    pub body: Option<String>,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It was made, and this is the state now.
    Done(Stamp),
    /// The document had another state: nothing was changed.
    Conflict,
    /// It may have been made or not.
    Failed(Error),
}
