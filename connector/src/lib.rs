//! revsync keeps a search index equal to a stream of document revisions.
//!
//! Every revision becomes one index operation under the document's id, with the revision's version as its external version, so that the
//! index itself refuses what is stale or came twice. Nothing else has to happen exactly once: any record may be read, sent and tried again
//! any number of times, in any order, and the index still comes to the newest revision of each document.
//!
//! # The line
//!
//! ```text
//! source ──record──> codec ──revision──> plan::mapping ──operation──> sink ──reply──> plan::outcome ──> plan::ledger
//!                      │                      │                                            │
//!                      └── cannot be read ────┴──────────── can never succeed ─────────────┴──> store::dead_letters
//! ```
//!
//! [`run::deliver`] is that line, and every shell calls it: the command `revsync` ([`cli`]), and the Lambda handler of the package
//! `revsync-lambda`. Data flows one way. A source never hears what became of a record; how far everything is settled is a value
//! ([`plan::ledger`]) that a shell turns into a checkpoint or a reply.
//!
//! [`run::query`] takes the first step alone: a statement ([`plan::query`]) is evaluated on every revision, and nothing is sent.
//! [`run::verify`] folds what comes of the first two steps ([`plan::fold`]), compares an index with it, and sends what mends that down the line.
//!
//! # The nouns
//!
//! - [`record::Record`]: bytes as a source hands them over, with their [`record::Origin`] and [`record::Position`]. Complete in itself:
//!   stored as a dead letter, it can be read again without anything that came before it.
//! - [`revision::Revision`]: one decoded change: table, document id, version, and a put, a delete or a redaction. Its
//!   [`revision::Document`] is JSON text as bytes, whatever the source was; without a rule it is never parsed.
//! - [`operation::Operation`]: what a sink is asked to do. The version is not optional.
//!
//! # Invariants
//!
//! - No position moves past a record that is not settled: indexed, deleted, stale, absent, compacted, skipped for a counted reason, or a
//!   dead letter on stable storage. Running out of a retry budget settles nothing.
//! - Every unit is counted under exactly one heading of [`metrics::Counts`]; every run of the command in a test has its sum checked.
//! - One function judges a reply ([`plan::outcome::judge`], and [`plan::outcome::judge_request`] a whole request), one loop tries an operation
//!   of the line again (`run::request`), one function takes records in ([`run::deliver::Deliver::push`]).
//! - What can never succeed costs only itself: the rest of its record, its batch and its file goes on.
//! - Memory has a bound: a record takes its bytes from a budget before it is decoded, and gives them back when all of it is settled.
//! - No field value and no secret is in a log line or an error; dead letters hold content, and nothing else does.
//!
//! # The modules, in reading order
//!
//! | | |
//! |---|---|
//! | [`record`], [`revision`], [`operation`] | the nouns; plain data |
//! | [`codec`] | pure: bytes to revisions. KPL aggregates, Ion, QLDB stream records and journal blocks, row changes of Lindorm and Debezium |
//! | [`plan`] | pure: every decision. Names, mapping, filters, batches, outcomes, retries, limits, bounds, the ledger, the fold |
//! | [`source`] | edge: the records of a shard, in their order |
//! | [`sink`] | edge: operations in, replies out. OpenSearch, the local index, bulk lines |
//! | [`store`] | edge: what must survive, dead letters and checkpoints; and the fold of a stream, on disk where it is large |
//! | [`run`] | shell: the order of effects, time, shutdown |
//! | [`config`], [`cli`] | what a person says and sees |
//! | [`error`], [`metrics`], [`panics`], [`aws`], [`kafka`] | leaves that everyone may use; the last three not the pure modules |
//!
//! Imports point one way, as in the table from top to bottom; the pure modules know no clock, file, network, randomness or log, and an edge
//! never uses another edge. `tests/architecture` reads the sources and holds all of this.

pub mod aws;
pub mod cli;
pub mod codec;
pub mod config;
pub mod error;
pub mod kafka;
pub mod memory;
pub mod metrics;
pub mod operation;
pub mod panics;
pub mod plan;
pub mod record;
pub mod revision;
pub mod run;
pub mod sink;
pub mod source;
pub mod store;
