//! Topics of Kafka as a source, on a real broker: scans up to their ends, and workers that share a consumer group; and as a place for dead letters.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "a test may stop at the first surprise, and shares its support")]

#[path = "../support/aws.rs"]
mod aws;
#[path = "../support/command.rs"]
mod command;
mod dead_letters;
#[path = "../support/dice.rs"]
mod dice;
mod groups;
#[path = "../support/kafka.rs"]
mod kafka;
mod losses;
mod memory;
#[path = "../support/peak.rs"]
mod peak;
mod process;
mod row_changes;
#[path = "../support/worker.rs"]
mod running;
mod scans;
#[path = "../support/scripted_opensearch.rs"]
mod scripted_opensearch;
#[path = "../support/services.rs"]
mod services;
mod verify;
