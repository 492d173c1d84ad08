//! The OpenSearch sink: against real servers of both versions, and against a scripted one for what a healthy server never does.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "tests")]

mod access;
#[path = "../support/command.rs"]
mod command;
mod commands;
#[path = "../support/conformance.rs"]
mod conformance;
mod conforming;
mod live;
mod operations;
mod replies;
#[path = "../support/scripted_opensearch.rs"]
mod scripted_opensearch;
#[path = "../support/services.rs"]
mod services;
