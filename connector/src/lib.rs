//! revsync keeps a search index equal to a stream of document revisions.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod cli;
pub mod codec;
pub mod config;
pub mod error;
pub mod metrics;
pub mod operation;
pub mod plan;
pub mod record;
pub mod revision;
pub mod run;
pub mod sink;
pub mod source;
pub mod store;
