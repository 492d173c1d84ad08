//! A Kinesis emulator for tests (kinesis-mock): set up when first asked for, on a free loopback port, and gone with the test process. It keeps
//! the parents of what is split and merged, as AWS does.
//!
//! Never skips silently: a missing tool fails the test and says what to install. Streams are made and written to by plain HTTP, without the
//! SDK that is under test.
//!
//! | variable | effect |
//! |---|---|
//! | `REVSYNC_TEST_SERVICES=none` | live tests are left out, and that is said |
//! | `REVSYNC_TEST_CACHE` | where the emulator is installed; default `target/services` |
#![allow(dead_code, reason = "each test binary uses its part")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::aws::{ACCOUNT, Emulator, REGION};
use crate::npm::Package;

/// The emulator; none, when live tests are left out on purpose.
pub(crate) fn kinesis() -> Option<&'static Emulator> {
    static EMULATOR: OnceLock<Option<Emulator>> = OnceLock::new();
    let emulator = EMULATOR.get_or_init(|| {
        if std::env::var("REVSYNC_TEST_SERVICES").is_ok_and(|value| value == "none") {
            eprintln!("REVSYNC_TEST_SERVICES=none: tests against a Kinesis emulator are left out");
            return None;
        }
        Some(start(&PACKAGE.installed(|_| ())))
    });
    emulator.as_ref()
}

/// A data stream of an emulator.
#[derive(Debug)]
pub(crate) struct Stream {
    emulator: &'static Emulator,
    pub(crate) name: String,
}

/// A shard as its stream lists it.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) id: String,
    /// The first and the last of its hash keys.
    pub(crate) keys: (u128, u128),
    pub(crate) is_open: bool,
}

impl Listed {
    /// Whether the other one's keys come right behind its own, so that the two can be merged.
    pub(crate) fn is_left_of(&self, other: &Self) -> bool {
        self.keys.1.checked_add(1) == Some(other.keys.0)
    }
}

impl Stream {
    /// Makes a stream with so many shards.
    pub(crate) fn make(emulator: &'static Emulator, what: &str, shards: usize) -> Self {
        let stream = Self { emulator, name: emulator.name(what) };
        stream.call("CreateStream", json!({ "ShardCount": shards }));
        stream.wait();
        stream
    }

    /// The stream, as revsync takes it.
    pub(crate) fn url(&self) -> String {
        format!("kinesis://{}?region={REGION}&endpoint={}", self.name, self.emulator.url())
    }

    /// The stream by its ARN, as revsync takes it.
    pub(crate) fn url_by_arn(&self) -> String {
        format!("kinesis://{}?endpoint={}", self.arn(), self.emulator.url())
    }

    pub(crate) fn arn(&self) -> String {
        format!("arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{}", self.name)
    }

    /// One call, of this stream.
    pub(crate) fn call(&self, action: &str, mut input: Value) -> Value {
        input["StreamName"] = json!(self.name);
        self.emulator.call(&format!("Kinesis_20131202.{action}"), &input)
    }

    /// All shards, in the order in which they were made.
    pub(crate) fn shards(&self) -> Vec<Listed> {
        let listed = self.call("ListShards", json!({}));
        let key = |shard: &Value, which: &str| shard["HashKeyRange"][which].as_str().and_then(|key| key.parse().ok()).expect("a hash key");
        let mut shards: Vec<Listed> = listed["Shards"]
            .as_array()
            .expect("shards")
            .iter()
            .map(|shard| Listed {
                id: shard["ShardId"].as_str().expect("a name").to_owned(),
                keys: (key(shard, "StartingHashKey"), key(shard, "EndingHashKey")),
                is_open: shard["SequenceNumberRange"]["EndingSequenceNumber"].is_null(),
            })
            .collect();
        shards.sort_by(|a, b| a.id.cmp(&b.id));
        shards
    }

    /// The shards that are written to.
    pub(crate) fn open(&self) -> Vec<Listed> {
        self.shards().into_iter().filter(|shard| shard.is_open).collect()
    }

    /// Puts a record into a shard; gives its sequence number.
    pub(crate) fn put(&self, shard: &Listed, data: &[u8]) -> String {
        let key = shard.keys.0.to_string();
        let put = self.call("PutRecord", json!({ "Data": BASE64.encode(data), "PartitionKey": "k", "ExplicitHashKey": key }));
        assert_eq!(put["ShardId"], shard.id, "the record went into another shard");
        put["SequenceNumber"].as_str().expect("a number").to_owned()
    }

    /// Puts many records into a shard, in their order.
    pub(crate) fn put_all(&self, shard: &Listed, data: &[Vec<u8>]) {
        let key = shard.keys.0.to_string();
        for some in data.chunks(500) {
            let entry = |data: &Vec<u8>| json!({ "Data": BASE64.encode(data), "PartitionKey": "k", "ExplicitHashKey": key });
            let put = self.call("PutRecords", json!({ "Records": some.iter().map(entry).collect::<Vec<_>>() }));
            assert_eq!(put["FailedRecordCount"], 0, "{put}");
        }
    }

    /// Splits a shard in the middle.
    pub(crate) fn split(&self, shard: &Listed) {
        let middle = shard.keys.0 + (shard.keys.1 - shard.keys.0) / 2 + 1;
        self.call("SplitShard", json!({ "ShardToSplit": shard.id, "NewStartingHashKey": middle.to_string() }));
        self.wait();
    }

    /// Merges a shard and the one whose keys come behind its own.
    pub(crate) fn merge(&self, left: &Listed, right: &Listed) {
        self.call("MergeShards", json!({ "ShardToMerge": left.id, "AdjacentShardToMerge": right.id }));
        self.wait();
    }

    /// Deletes the stream.
    pub(crate) fn delete(&self) {
        self.call("DeleteStream", json!({ "EnforceConsumerDeletion": true }));
    }

    /// Waits until what changes the stream is done.
    fn wait(&self) {
        for _ in 0..1_000 {
            let summary = self.call("DescribeStreamSummary", json!({}));
            if summary["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE" {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("the stream {} does not become active", self.name);
    }
}

fn start(installed: &Path) -> Emulator {
    let log = tempfile::Builder::new().prefix("revsync-kinesis-").tempfile().expect("a temporary file").into_temp_path();
    let mut emulator = Command::new("node")
        .arg(PACKAGE.recipe().join("emulator.js"))
        .arg(installed)
        // It ends when this pipe does, so however this process ends, the emulator does too.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(&log).expect("a log file"))
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run node: {error}. {ADVICE}"));
    let mut lines = BufReader::new(emulator.stdout.take().expect("a pipe")).lines();
    let port = lines.by_ref().map_while(Result::ok).find_map(|line| line.strip_prefix("port ")?.parse::<u16>().ok());
    let port = port.unwrap_or_else(|| panic!("the Kinesis emulator did not start: {}", fs::read_to_string(&log).unwrap_or_default()));
    // Written to through the open file from now on, and gone with it.
    drop(log);
    // What it writes later is read, so that it never waits for that.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    // Kept for as long as this process lives: dropping it would close the pipe.
    std::mem::forget(emulator);
    Emulator::at(&format!("http://127.0.0.1:{port}"))
}

const ADVICE: &str = "Tests against a Kinesis emulator need Node.js 20 or newer with npm (Debian: apt install nodejs npm); \
                      set REVSYNC_TEST_SERVICES=none to leave them out.";

const PACKAGE: Package = Package { name: "kinesis", what: "the Kinesis emulator", advice: ADVICE };
