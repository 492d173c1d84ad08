//! What crosses modules and needs nothing but itself.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "a test may stop at the first surprise, and shares its support")]

#[path = "../support/command.rs"]
mod command;
mod config;
mod fixtures;
mod golden;
mod messages;
