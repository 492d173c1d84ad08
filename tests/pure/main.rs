//! What crosses modules and needs nothing but itself.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "a test may stop at the first surprise, and shares its support")]

mod codec_damage;
mod codec_oracle;
#[path = "../support/command.rs"]
mod command;
mod config;
mod debezium;
mod delivery;
mod delivery_content;
mod delivery_index;
mod delivery_log;
mod delivery_outages;
mod delivery_panics;
mod delivery_rate;
mod delivery_replay;
mod delivery_sync;
#[path = "../support/dice.rs"]
mod dice;
mod filter_oracle;
mod fixtures;
mod golden;
mod health;
mod histories;
mod instruments;
mod journal_audit;
mod lasting;
mod leases;
mod leaving_rows;
#[path = "../support/ledger.rs"]
mod ledger;
#[path = "../support/line.rs"]
mod line;
#[path = "../support/log.rs"]
mod log;
mod log_format;
mod memory;
mod merging_model;
mod messages;
mod model;
#[path = "../support/qldb_stream.rs"]
mod qldb_stream;
#[cfg(feature = "local")]
mod query_oracle;
mod readiness;
#[path = "../support/scripted_sink.rs"]
mod scripted_sink;
mod sweep;
