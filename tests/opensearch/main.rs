//! The OpenSearch sink: against real servers of both versions, and against a scripted one for what a healthy server never does.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "a test may stop at the first surprise, and shares its support")]

mod access;
#[path = "../support/command.rs"]
mod command;
mod commands;
#[path = "../support/conformance.rs"]
mod conformance;
mod conforming;
mod delivery;
mod live;
mod operations;
#[path = "../support/qldb_stream.rs"]
mod qldb_stream;
mod replies;
#[path = "../support/scripted_opensearch.rs"]
mod scripted_opensearch;
#[path = "../support/services.rs"]
mod services;
mod tombstones;
