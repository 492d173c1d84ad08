//! The sinks that need no server: the local index and the bulk-lines file.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "a test may stop at the first surprise, and shares its support")]

#[path = "../support/conformance.rs"]
mod conformance;

#[path = "../support/command.rs"]
mod command;

mod archive;
mod audit;
mod bulk_file;
mod cells;
mod checkpoint_commands;
mod checkpoints;
mod commands;
#[path = "../support/contents.rs"]
mod contents;
#[path = "../support/damage.rs"]
mod damage;
mod debezium;
#[path = "../support/dice.rs"]
mod dice;
mod exports;
mod fold;
mod guides;
mod histories;
mod journal;
#[path = "../support/ledger.rs"]
mod ledger;
mod local_index;
mod local_search;
mod memory;
#[path = "../support/merges.rs"]
mod merges;
#[path = "../support/peak.rs"]
mod peak;
#[path = "../support/qldb_stream.rs"]
mod qldb_stream;
mod query;
mod resume;
mod row_changes;
mod rules;
#[path = "../support/shelves.rs"]
mod shelves;
mod sweep;
mod trickle;
mod verify;
mod verify_cells;
mod verify_live;
