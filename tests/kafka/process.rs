//! `revsync run` on Kafka as a process, what is produced for it, and what it leaves in its index.

use revsync::sink::local::Local;
use serde_json::Value;

use crate::command::{Folder, revision};
use crate::kafka::Sent;
pub(crate) use crate::running::{PATIENCE, Worker};

/// A message with a revision of a document: version, and a text.
pub(crate) fn note(partition: i32, id: &str, version: u64, text: &str) -> Sent {
    Sent::to(partition, revision("Note", id, version, Some(&format!("{{text:\"{text}\"}}")))).key(id)
}

/// What an index holds of a document: its version and its text.
pub(crate) fn held(folder: &Folder, id: &str) -> Option<(u64, String)> {
    let index = Local::open_existing(&folder.path().join("index.db")).unwrap();
    let (version, source) = index.get("note", id).unwrap()?;
    let source: Value = serde_json::from_str(&source).unwrap();
    Some((version, source["text"].as_str().unwrap().to_owned()))
}

impl Worker {
    /// Starts a worker in a folder, into the local index there, and waits until it answers.
    pub(crate) fn start(folder: &Folder, source: &str, more: &[&str]) -> Self {
        Self::start_with(folder, source, more, &[])
    }

    /// As `start`, with these environment variables.
    pub(crate) fn start_with(folder: &Folder, source: &str, more: &[&str], environment: &[(&str, &str)]) -> Self {
        let places: &[&str] = if more.contains(&"--to") { &[] } else { &["--to", "local:index.db"] };
        let letters: &[&str] = if more.contains(&"--dead-letters") { &[] } else { &["--dead-letters", "file:letters.jsonl"] };
        let fixed = ["run", source, "--http", "127.0.0.1:0"];
        Self::spawn(folder.command(&[&fixed[..], places, letters, more].concat(), environment))
            .unwrap_or_else(|log| panic!("the worker did not start: {log}"))
    }

    /// Waits until it reads so many partitions, and everything that they have is settled.
    pub(crate) fn wait_until_caught_up(&self, partitions: usize) -> Value {
        self.wait_until("the end of the topics", |status| {
            let shards = status["shards"].as_array().unwrap();
            shards.len() == partitions && shards.iter().all(|shard| shard["unread"] == 0 && shard["unsettled"] == 0)
        })
    }
}
