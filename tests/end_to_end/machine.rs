//! What `infra/emulator` has started: one emulator and one OpenSearch for all tests of this program, gone with it.
//!
//! It is started as the README says it, by the first of the two commands there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::aws::Emulator;

/// More than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running emulator with a stack, and the OpenSearch that it writes to.
#[derive(Debug)]
pub(crate) struct Machine {
    home: PathBuf,
    /// What `infra/emulator up` printed.
    pub(crate) said: String,
    /// What `infra/emulator env` tells a shell.
    environment: BTreeMap<String, String>,
    pub(crate) emulator: Emulator,
    /// Plain HTTP, as the emulator is spoken to.
    pub(crate) opensearch: Emulator,
}

/// The machine; none, when live tests are left out on purpose.
pub(crate) fn machine() -> Option<&'static Machine> {
    static MACHINE: OnceLock<Option<Machine>> = OnceLock::new();
    let machine = MACHINE.get_or_init(|| {
        if std::env::var("REVSYNC_TEST_SERVICES").is_ok_and(|value| value == "none") {
            eprintln!("REVSYNC_TEST_SERVICES=none: tests of the deployed stack are left out");
            return None;
        }
        let home = tempfile::Builder::new().prefix("revsync-stack-").tempdir().expect("a temporary folder").keep();
        let up = documented()[0].clone();
        let Done { out: said, .. } = shell(&home, &up).ended_well();
        let told = shell(&home, "infra/emulator env").ended_well();
        let environment: BTreeMap<String, String> = told
            .out
            .lines()
            .filter_map(|line| line.strip_prefix("export ")?.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.trim_matches('\'').to_owned()))
            .collect();
        let emulator = Emulator::at(&environment["AWS_ENDPOINT_URL"]);
        let opensearch = Emulator::at(&environment["REVSYNC_TO"]);
        Some(Machine { home, said, environment, emulator, opensearch })
    });
    machine.as_ref()
}

/// The blocks of commands in a section of the README of infra/, in their order.
pub(crate) fn blocks(title: &str) -> Vec<String> {
    let readme = fs::read_to_string(root().join("infra/README.md")).expect("the README of infra/");
    let heading = format!("{title}\n");
    let section = readme.split("\n## ").find(|section| section.starts_with(&heading)).unwrap_or_else(|| panic!("no section {title}"));
    section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()).map(str::to_owned).collect()
}

/// The commands that the README of infra/ gives for trying it, in their order.
pub(crate) fn documented() -> Vec<String> {
    let lines = blocks("Try it on this machine").concat();
    lines.lines().filter(|line| line.starts_with("infra/emulator ")).map(str::to_owned).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository")
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) exit: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    pub(crate) fn ended_well(self) -> Self {
        assert_eq!(self.exit, 0, "{}{}", self.out, self.err);
        self
    }

    /// Standard output as one JSON document.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("not one JSON document: {error}: {self:?}"))
    }
}

/// Runs a line of the documentation at the root of the repository.
fn shell(home: &Path, line: &str) -> Done {
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(root());
    command.env("REVSYNC_EMULATOR_HOME", home).env("REVSYNC_EMULATOR_ENDS", "with-input").env("REVSYNC_EMULATOR_BINARIES", binaries());
    if std::env::var_os("REVSYNC_TEST_CACHE").is_none() {
        command.env("REVSYNC_TEST_CACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("../services"));
    }
    let mut running = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a shell");
    // What the line starts ends when this pipe does: however this process ends, and no sooner.
    std::mem::forget(running.stdin.take());
    done(running.wait_with_output().expect("a command of ours"))
}

/// Runs a line of the documentation with another home: with servers of its own.
pub(crate) fn elsewhere(home: &Path, line: &str) -> Done {
    shell(home, line)
}

fn done(Output { status, stdout, stderr }: Output) -> Done {
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Done { exit: status.code().unwrap_or(-1), out: text(stdout), err: text(stderr) }
}

/// The folder with the function that was built for these tests, and the command beside it.
fn binaries() -> &'static Path {
    let folder = Path::new(env!("CARGO_BIN_EXE_revsync-lambda")).parent().expect("a folder");
    assert!(folder.join("revsync").exists(), "these tests need the command too: run cargo test at the root, or cargo build -p revsync");
    folder
}

impl Machine {
    /// Runs a line of the documentation, in a shell that uses the emulator.
    pub(crate) fn run(&self, line: &str) -> Done {
        shell(&self.home, line)
    }

    /// Runs the AWS CLI as `infra/emulator env` gives it; the JSON that it prints.
    pub(crate) fn aws(&self, arguments: &str) -> Value {
        let Done { out, .. } = self.run(&format!("eval \"$(infra/emulator env)\"; aws {arguments} --output json")).ended_well();
        if out.trim().is_empty() { Value::Null } else { serde_json::from_str(&out).expect("JSON") }
    }

    /// Runs a line that begins with `revsync`, as the stack prints it, with nothing in its environment but what `infra/emulator env` says.
    pub(crate) fn revsync(&self, line: &str) -> Done {
        let line = line.strip_prefix("revsync ").unwrap_or_else(|| panic!("no line of revsync: {line}"));
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("\"$0\" {line}")]).arg(binaries().join("revsync"));
        command.current_dir(root()).env_clear().envs(&self.environment).stdin(Stdio::null());
        done(command.output().expect("the command"))
    }

    /// One request to OpenSearch; its status and its answer.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let headers = [("Content-Type", "application/json".to_owned())];
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let (status, answer) = self.opensearch.request(method, path, &headers, &body);
        (status, serde_json::from_slice(&answer).unwrap_or_default())
    }

    /// What a search through the index's name shows: id to version and source.
    pub(crate) fn documents(&self, index: &str) -> BTreeMap<String, (u64, Value)> {
        self.ask("POST", &format!("/{index}/_refresh"), &Value::Null);
        let (status, found) = self.ask("GET", &format!("/{index}/_search?version=true&size=1000"), &Value::Null);
        assert_eq!(status, 200, "{found}");
        let hit = |hit: &Value| {
            let id = hit["_id"].as_str().expect("an id").to_owned();
            (id, (hit["_version"].as_u64().expect("a version"), hit["_source"].clone()))
        };
        found["hits"]["hits"].as_array().expect("hits").iter().map(hit).collect()
    }

    /// Puts records on a stream, all with one partition key, so that they stay in order. Gives the shard and the sequence number of each.
    pub(crate) fn put(&self, stream: &str, records: &[Bytes]) -> Vec<(String, String)> {
        let records: Vec<Value> =
            records.iter().map(|record| json!({ "Data": STANDARD.encode(record), "PartitionKey": "tests" })).collect();
        let answer = self.emulator.call("Kinesis_20131202.PutRecords", &json!({ "StreamName": stream, "Records": records }));
        assert_eq!(answer["FailedRecordCount"], 0, "{answer}");
        let of = |record: &Value, name: &str| record[name].as_str().expect("a text").to_owned();
        let records = answer["Records"].as_array().expect("records");
        records.iter().map(|record| (of(record, "ShardId"), of(record, "SequenceNumber"))).collect()
    }

    /// The lines that the function of a stack has written. Those that the service adds are left out.
    pub(crate) fn log(&self, stack: &Stack) -> Vec<String> {
        let group = stack.output("LogCommand").rsplit('\'').nth(1).expect("a quoted name");
        let events = self.emulator.call("Logs_20140328.FilterLogEvents", &json!({ "logGroupName": group, "limit": 10_000 }));
        let lines = events["events"].as_array().expect("events").iter().map(|event| event["message"].as_str().expect("a message"));
        let of_the_service = |line: &str| ["START ", "END ", "REPORT "].iter().any(|word| line.starts_with(word));
        lines.filter(|line| !of_the_service(line)).map(str::to_owned).collect()
    }
}

/// Looks again until there is something, and gives it.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// A deployed stack.
#[derive(Debug)]
pub(crate) struct Stack {
    outputs: BTreeMap<String, String>,
}

impl Stack {
    /// The stack that is described by what `infra/emulator up` or `status` printed.
    pub(crate) fn of(said: &str) -> Self {
        let output = |line: &str| line.strip_prefix("  ")?.split_once(" = ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self { outputs: said.lines().filter_map(output).collect() }
    }

    /// An output of the template.
    pub(crate) fn output(&self, name: &str) -> &str {
        self.outputs.get(name).unwrap_or_else(|| panic!("no output {name} in {:?}", self.outputs))
    }

    /// The name of the queue of dead letters.
    pub(crate) fn queue(&self) -> &str {
        self.output("DeadLetterQueueUrl").rsplit('/').next().expect("a name")
    }
}
