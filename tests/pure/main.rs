//! What crosses modules and needs nothing but itself.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod config;
mod golden;
mod messages;
