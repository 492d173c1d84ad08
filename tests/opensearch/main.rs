//! The OpenSearch sink: against real servers of both versions, and against a scripted one for what a healthy server never does.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "tests")]

mod access;
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
