//! The whole product as a user has it: the stack that `infra/emulator` deploys, with the real function, a real stream and a real OpenSearch.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "a test may stop at the first surprise, and shares its support")]

#[path = "../support/aws.rs"]
mod aws;
mod commands;
mod machine;
mod password;
#[path = "../support/qldb_stream.rs"]
mod qldb_stream;
mod records;
mod runbook;
#[path = "../support/scripted_opensearch.rs"]
mod scripted_opensearch;
mod stack;
