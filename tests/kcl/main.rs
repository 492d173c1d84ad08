//! The command as a child of the MultiLangDaemon: against a scripted daemon, and under the real one.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "a test may stop at the first surprise, and shares its support")]

#[path = "../support/aws.rs"]
mod aws;
mod by_hand;
#[path = "../support/command.rs"]
mod command;
#[path = "../support/dice.rs"]
mod dice;
mod ends;
mod fleet;
#[path = "../support/kcl.rs"]
mod kcl;
mod kills;
#[path = "../support/kinesis.rs"]
mod kinesis;
mod memory;
mod messages;
#[path = "../support/multilang.rs"]
mod multilang;
#[path = "../support/npm.rs"]
mod npm;
#[path = "../support/peak.rs"]
mod peak;
mod progress;
#[path = "../support/qldb_stream.rs"]
mod qldb_stream;
#[path = "../support/scripted_opensearch.rs"]
mod scripted_opensearch;
#[path = "../support/services.rs"]
mod services;
#[path = "../support/stalling_opensearch.rs"]
mod stalling_opensearch;

use std::collections::BTreeMap;
use std::process::Command;

use bytes::Bytes;

use command::Folder;
use kcl::{Child, Handed, Lease};
use qldb_stream::{Does, binary, put, revision};
use scripted_opensearch::Scripted;

/// The shard of all tests with a scripted daemon.
const SHARD: &str = "shardId-000000000003";

/// `revsync kcl` into this sink, with a pipeline's name and a place for dead letters.
fn kcl_command(folder: &Folder, sink: &str, more: &[&str]) -> Command {
    let arguments = ["kcl", "--to", sink, "--name", "ledger", "--dead-letters", "file:letters.jsonl"];
    folder.command(&[&arguments[..], more].concat(), &[("REVSYNC_LINGER", "20ms")])
}

/// A child that was started and has its shard.
fn child(folder: &Folder, sink: &str, more: &[&str], lease: &mut Lease) -> Child {
    let mut child = Child::start(kcl_command(folder, sink, more));
    child.initialize(SHARD, lease);
    child
}

/// A revision of a person as a record.
fn person(id: &str, version: u64, does: &Does) -> Bytes {
    binary(&[revision("Person", id, version, does)])
}

/// Put revisions of as many people, one record each, numbered from 1.
fn people(count: u64) -> Vec<Handed> {
    kcl::plain((1..=count).map(|id| person(&id.to_string(), 0, &put("x"))))
}

/// The documents of the index of people: id to version.
fn versions(server: &Scripted) -> BTreeMap<String, u64> {
    server.documents("person").into_iter().map(|(id, (version, _))| (id, version)).collect()
}
