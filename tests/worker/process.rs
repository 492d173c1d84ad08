//! `revsync run` on Kinesis as a process.

use serde_json::Value;

use crate::aws::CREDENTIALS;
use crate::command::Folder;
use crate::kinesis::Listed;
pub(crate) use crate::running::Worker;

impl Worker {
    /// Starts a worker in a folder, and waits until it answers.
    pub(crate) fn start(folder: &Folder, arguments: &[&str]) -> Self {
        Self::try_start(folder, arguments).unwrap_or_else(|log| panic!("the worker did not start: {log}"))
    }

    /// Starts a worker; gives what it said where it ended before it answered.
    pub(crate) fn try_start(folder: &Folder, arguments: &[&str]) -> Result<Self, String> {
        Self::spawn(folder.command(&[&["run"], arguments, &["--http", "127.0.0.1:0"]].concat(), &CREDENTIALS))
    }

    /// Waits until everything that was in the stream when it was started is settled: the closed shards are ended, and the open ones, of which
    /// these are all, were read to their end.
    pub(crate) fn wait_until_caught_up(&self, open: &[Listed]) -> Value {
        self.wait_until("the end of the stream", |status| {
            let shards = status["shards"].as_array().unwrap();
            let at_its_end = |shard: &Value| shard["phase"] == "reading" && shard["lag_milliseconds"] == 0;
            let is_open = |shard: &Value| open.iter().any(|open| shard["shard"] == open.id.as_str());
            shards.iter().filter(|shard| is_open(shard)).count() == open.len()
                && shards.iter().all(|shard| if is_open(shard) { at_its_end(shard) } else { shard["phase"] == "ended" })
        })
    }
}
