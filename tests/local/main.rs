//! The sinks that need no server: the local index and the bulk-lines file.
#![allow(clippy::unwrap_used)]

#[path = "../support/conformance.rs"]
mod conformance;

mod bulk_file;
mod local_index;
mod local_search;
