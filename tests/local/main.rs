//! The sinks that need no server: the local index and the bulk-lines file.
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs, reason = "tests")]

#[path = "../support/conformance.rs"]
mod conformance;

#[path = "../support/command.rs"]
mod command;

mod bulk_file;
mod commands;
mod local_index;
mod local_search;
