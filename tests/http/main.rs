//! What a process that lives on answers over HTTP: to a program, to Prometheus, to a container's health check, and to a person with a browser.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "a test may stop at the first surprise, and shares its support")]

mod browser;
mod client;
#[path = "../support/browser.rs"]
mod headless;
mod metrics;
#[path = "../support/npm.rs"]
mod npm;
mod page;
mod server;
mod states;
