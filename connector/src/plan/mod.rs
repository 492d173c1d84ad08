//! Every decision, pure: what a revision becomes, how batches are cut, what a reply means, how often to try again, how far a checkpoint may
//! move.
//!
//! Never waits, reads a clock, draws a random number or does I/O; all of that is handed in as values.

pub mod batch;
pub mod bounds;
pub mod breaker;
pub mod cells;
pub mod checkpoint;
pub mod deletes;
pub mod filter;
pub mod fingerprint;
pub mod fold;
pub mod health;
pub mod history;
pub mod inference;
pub mod journal;
pub mod lease;
pub mod ledger;
pub mod limits;
pub mod mapping;
pub mod names;
pub mod outcome;
pub mod pace;
pub mod projection;
pub mod query;
pub mod rate;
pub mod resume;
pub mod resurrection;
pub mod retry;
pub mod same;
pub mod shards;
pub mod sql;
pub mod stored;
pub mod sweep;
pub mod tombstone;
