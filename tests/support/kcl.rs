//! A MultiLangDaemon for tests, which drives the real command over its pipes: it asks for one thing at a time, holds the child to the protocol, and
//! takes checkpoints by the rules of the real one.
//!
//! What is here stands in for amazon-kinesis-client-multilang (`MultiLangProtocol`) and amazon-kinesis-client
//! (`ShardRecordProcessorCheckpointer`, `ProcessTask`); the real ones have tests of their own.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

/// More than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A record of a shard, or a part of an aggregate.
#[derive(Debug, Clone)]
pub(crate) struct Handed {
    pub(crate) number: u64,
    pub(crate) sub: u64,
    pub(crate) data: Bytes,
}

/// Records that are no aggregates, numbered from 1.
pub(crate) fn plain(records: impl IntoIterator<Item = Bytes>) -> Vec<Handed> {
    records.into_iter().zip(1..).map(|(data, number)| Handed { number, sub: 0, data }).collect()
}

/// What the daemon keeps of a shard in DynamoDB. A child that dies takes nothing of it along.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lease {
    /// The last checkpoint: sequence number and sub-sequence number.
    pub(crate) at: Option<(u64, u64)>,
    /// The shard was checkpointed at its end.
    pub(crate) ended: bool,
    /// What the next checkpoints fail with.
    pub(crate) fails: VecDeque<&'static str>,
    /// Every checkpoint that was asked for, also those that failed: as they stood in the message.
    pub(crate) asked: Vec<(Option<u64>, Option<u64>)>,
}

/// A child that was started as the daemon starts it.
#[derive(Debug)]
pub(crate) struct Child {
    process: std::process::Child,
    to: Option<ChildStdin>,
    from: Receiver<String>,
    err: Option<JoinHandle<String>>,
    /// The last record that was handed over.
    largest: Option<(u64, u64)>,
    /// The message of the end of the shard was sent.
    at_end: bool,
}

/// What a child came to.
#[derive(Debug)]
pub(crate) struct Over {
    pub(crate) exit: i32,
    pub(crate) err: String,
    /// What it said after it was last listened to.
    pub(crate) said: Vec<String>,
}

impl Child {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command");
        let (out, mut err) = (process.stdout.take().expect("a pipe"), process.stderr.take().expect("a pipe"));
        let (sender, from) = channel();
        spawn(move || {
            for line in BufReader::new(out).lines() {
                if sender.send(line.expect("lines in UTF-8")).is_err() {
                    return;
                }
            }
        });
        let err = spawn(move || {
            let mut text = String::new();
            err.read_to_string(&mut text).expect("UTF-8");
            text
        });
        Self { to: process.stdin.take(), process, from, err: Some(err), largest: None, at_end: false }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Writes a line as it is.
    pub(crate) fn write(&mut self, line: &str) {
        // A child that has ended does not read.
        let _ = self.to.as_mut().expect("an open pipe").write_all(format!("{line}\n").as_bytes());
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.write(&message.to_string());
    }

    /// Sends `initialize` as the lease has it, and hears that it was done.
    pub(crate) fn initialize(&mut self, shard: &str, lease: &mut Lease) {
        let (number, sub) = lease.at.map_or(("TRIM_HORIZON".to_owned(), 0), |(number, sub)| (number.to_string(), sub));
        let message = json!({ "action": "initialize", "shardId": shard, "sequenceNumber": number, "subSequenceNumber": sub });
        self.ask(&message, lease);
    }

    /// Sends records, those left out that are checkpointed already.
    pub(crate) fn send_records(&mut self, records: &[Handed], behind: u64, lease: &Lease) {
        let new: Vec<&Handed> = records.iter().filter(|record| Some((record.number, record.sub)) > lease.at).collect();
        self.largest = self.largest.max(new.iter().map(|record| (record.number, record.sub)).max());
        let record = |record: &&Handed| {
            json!({
                "action": "record", "data": STANDARD.encode(&record.data), "partitionKey": "k", "sequenceNumber": record.number.to_string(),
                "subSequenceNumber": record.sub, "approximateArrivalTimestamp": 1_700_000_000_000_u64,
            })
        };
        let records: Vec<Value> = new.iter().map(record).collect();
        self.send(&json!({ "action": "processRecords", "records": records, "millisBehindLatest": behind }));
    }

    /// Has records processed.
    pub(crate) fn process(&mut self, records: &[Handed], behind: u64, lease: &mut Lease) {
        self.send_records(records, behind, lease);
        self.answered("processRecords", lease);
    }

    /// Sends a message of one member, and hears that it was done.
    pub(crate) fn request(&mut self, action: &str, lease: &mut Lease) {
        self.at_end |= action == "shardEnded";
        self.ask(&json!({ "action": action }), lease);
    }

    /// Sends a message and hears that it was done.
    pub(crate) fn ask(&mut self, message: &Value, lease: &mut Lease) {
        self.send(message);
        self.answered(message["action"].as_str().expect("an action"), lease);
    }

    /// Takes checkpoints until the child says that the action is done.
    pub(crate) fn answered(&mut self, action: &str, lease: &mut Lease) {
        let is_answered = self.is_answered_within(PATIENCE, action, lease);
        assert!(is_answered, "no answer to {action}, in {PATIENCE:?} or ever: {}", self.last_words());
    }

    /// Whether the child says in time that the action is done; if not, it is waited for later.
    pub(crate) fn is_answered_within(&mut self, time: Duration, action: &str, lease: &mut Lease) -> bool {
        let until = Instant::now() + time;
        while let Some(said) = self.hear(until.saturating_duration_since(Instant::now())) {
            if said == json!({ "action": "status", "responseFor": action }) {
                return true;
            }
            self.checkpoint(&said, lease);
        }
        false
    }

    /// Answers a checkpoint as the daemon does: takes it where it may be, or says what the script wants.
    fn checkpoint(&mut self, said: &Value, lease: &mut Lease) {
        let members: Vec<&str> = said.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(members, ["action", "sequenceNumber", "subSequenceNumber"], "the daemon cannot read {said}");
        assert_eq!(said["action"], "checkpoint", "{said}");
        let number = said["sequenceNumber"].as_str().map(|number| number.parse::<u64>().expect("a number"));
        let sub = said["subSequenceNumber"].as_u64();
        assert!(number.is_some() || said["sequenceNumber"].is_null(), "{said}");
        lease.asked.push((number, sub));
        let error = lease.fails.pop_front().or_else(|| self.take(number, sub, lease));
        self.send(&json!({
            "action": "checkpoint", "sequenceNumber": said["sequenceNumber"], "subSequenceNumber": said["subSequenceNumber"], "error": error,
        }));
    }

    fn take(&self, number: Option<u64>, sub: Option<u64>, lease: &mut Lease) -> Option<&'static str> {
        let Some(number) = number else {
            lease.ended |= self.at_end;
            lease.at = self.largest.max(lease.at);
            return None;
        };
        let wanted = Some((number, sub.unwrap_or(0)));
        if wanted < lease.at || wanted > self.largest {
            return Some("IllegalArgumentException");
        }
        lease.at = wanted;
        None
    }

    /// The next message of the child, where one comes in time.
    fn hear(&mut self, time: Duration) -> Option<Value> {
        let until = Instant::now() + time;
        loop {
            match self.from.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line.is_empty() => {}
                Ok(line) => return Some(serde_json::from_str(&line).unwrap_or_else(|_| panic!("the daemon passes over {line:?}"))),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Sees that the child says nothing for so long.
    pub(crate) fn is_silent_for(&mut self, time: Duration) {
        if let Some(said) = self.hear(time) {
            panic!("expected nothing, the child said {said}");
        }
    }

    /// The next line that the child says, as it stands there, also an empty one.
    pub(crate) fn line(&mut self) -> String {
        self.from.recv_timeout(PATIENCE).expect("a line")
    }

    /// Closes the child's standard input, as the daemon does at the end, and waits until it has ended.
    pub(crate) fn close(mut self) -> Over {
        drop(self.to.take());
        self.over()
    }

    /// Waits until the child has ended by itself.
    pub(crate) fn over(&mut self) -> Over {
        let status = self.process.wait().expect("a child of ours");
        let err = self.err.take().expect("asked once").join().expect("no panic");
        Over { exit: status.code().unwrap_or(-1), err, said: self.from.iter().collect() }
    }

    /// Ends the child as a lack of memory does: in the middle of what it is doing.
    pub(crate) fn kill(mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Sends the child the signal that ends it in good order.
    pub(crate) fn terminate(&self) {
        let sent = Command::new("kill").args(["-TERM", &self.id().to_string()]).status().expect("kill");
        assert!(sent.success());
    }

    fn last_words(&mut self) -> String {
        let _ = (self.process.kill(), self.process.wait());
        self.err.take().map(|err| err.join().expect("no panic")).unwrap_or_default()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
