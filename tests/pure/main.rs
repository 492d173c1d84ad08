//! What crosses modules and needs nothing but itself.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod codec_damage;
mod codec_oracle;
mod config;
mod fixtures;
mod golden;
mod messages;
