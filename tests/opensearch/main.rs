//! The OpenSearch sink: against real servers of both versions, and against a scripted one for what a healthy server never does.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "a test may stop at the first surprise, and shares its support")]

mod access;
mod checkpoints;
#[path = "../support/command.rs"]
mod command;
mod commands;
#[path = "../support/conformance.rs"]
mod conformance;
mod conforming;
mod content;
#[path = "../support/contents.rs"]
mod contents;
#[path = "../support/damage.rs"]
mod damage;
mod delivery;
#[path = "../support/dice.rs"]
mod dice;
mod histories;
mod holdings;
mod journal;
mod knobs;
mod live;
#[path = "../support/log.rs"]
mod log;
mod memory;
#[path = "../support/merges.rs"]
mod merges;
mod merging;
mod operations;
mod outages;
#[path = "../support/peak.rs"]
mod peak;
mod privacy;
#[path = "../support/qldb_stream.rs"]
mod qldb_stream;
mod ready;
#[path = "../support/relay.rs"]
mod relay;
mod replies;
#[path = "../support/scripted_opensearch.rs"]
mod scripted_opensearch;
#[path = "../support/services.rs"]
mod services;
#[path = "../support/shelves.rs"]
mod shelves;
mod signatures;
#[path = "../support/stalling_opensearch.rs"]
mod stalling_opensearch;
mod tombstones;
mod verify;
