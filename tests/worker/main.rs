//! The container worker as a process: `revsync run` on a Kinesis emulator, through reshards, kills, outages and takeovers.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "a test may stop at the first surprise, and shares its support")]

#[path = "../support/aws.rs"]
mod aws;
#[path = "../support/command.rs"]
mod command;
#[path = "../support/dice.rs"]
mod dice;
mod feeder;
#[path = "../support/kinesis.rs"]
mod kinesis;
mod kills;
mod order;
mod process;
#[path = "../support/scripted_opensearch.rs"]
mod scripted_opensearch;
mod takeover;
