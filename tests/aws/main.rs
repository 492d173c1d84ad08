//! What revsync does with AWS: against an emulator, and against a scripted service for what a healthy one seldom does.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "a test may stop at the first surprise, and shares its support")]

mod archive;
#[path = "../support/aws.rs"]
mod aws;
mod captures;
#[path = "../support/command.rs"]
mod command;
mod commands;
#[path = "../support/dice.rs"]
mod dice;
mod interrupted;
#[path = "../support/ledger.rs"]
mod ledger;
mod letters;
#[path = "../support/line.rs"]
mod line;
mod outages;
#[path = "../support/peak.rs"]
mod peak;
mod places;
mod privacy;
#[path = "../support/qldb_stream.rs"]
mod qldb_stream;
#[path = "../support/scripted_aws.rs"]
mod scripted_aws;
#[path = "../support/scripted_bucket.rs"]
mod scripted_bucket;
#[path = "../support/scripted_opensearch.rs"]
mod scripted_opensearch;
#[path = "../support/scripted_sink.rs"]
mod scripted_sink;
mod secrets;
