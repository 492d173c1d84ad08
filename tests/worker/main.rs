//! The container worker as a process: `revsync run` on a Kinesis emulator, through reshards, kills, outages and takeovers.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "a test may stop at the first surprise, and shares its support")]

#[path = "../support/aws.rs"]
mod aws;
#[path = "../support/command.rs"]
mod command;
#[path = "../support/dice.rs"]
mod dice;
mod feeder;
mod kills;
#[path = "../support/kinesis.rs"]
mod kinesis;
mod losses;
#[path = "../support/npm.rs"]
mod npm;
mod order;
mod outages;
#[path = "../support/peak.rs"]
mod peak;
mod process;
#[path = "../support/relay.rs"]
mod relay;
#[path = "../support/worker.rs"]
mod running;
#[path = "../support/scripted_opensearch.rs"]
mod scripted_opensearch;
#[path = "../support/services.rs"]
mod services;
mod takeover;
