//! `revsync run` as a process, and what it answers over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use revsync::sink::local::Local;
use serde_json::Value;

use crate::command::{Folder, revision};
use crate::kafka::Sent;

/// How long anything may take on a busy machine before it counts as not coming.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

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

/// A worker that runs. Killed when it is dropped.
pub(crate) struct Worker {
    process: Child,
    address: String,
    log: Arc<Mutex<String>>,
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
        let mut command = folder.command(&[&fixed[..], places, letters, more].concat(), environment);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let errors = process.stderr.take().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (found, address) = channel();
        let written = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                if let Some((_, rest)) = line.split_once("answers at http://") {
                    let _ = found.send(rest.split('/').next().unwrap_or_default().to_owned());
                }
                written.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        match address.recv_timeout(PATIENCE) {
            Ok(address) => Self { process, address, log },
            Err(_) => {
                let _ = (process.kill(), process.wait());
                panic!("the worker did not start: {}", log.lock().unwrap())
            }
        }
    }

    /// What it said so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Asks it for a path; its status and what it answered.
    pub(crate) fn get(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }

    /// How it stands.
    pub(crate) fn status(&self) -> Value {
        let (_, body) = self.get("/status").unwrap_or_else(|| panic!("no answer; {}", self.log()));
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    /// Waits until it stands like that.
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let status = self.status();
            if is_so(&status) {
                return status;
            }
            assert!(since.elapsed() < PATIENCE, "{what} did not come: {status:#}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until it reads so many partitions, and everything that they have is settled.
    pub(crate) fn wait_until_caught_up(&self, partitions: usize) -> Value {
        self.wait_until("the end of the topics", |status| {
            let shards = status["shards"].as_array().unwrap();
            shards.len() == partitions && shards.iter().all(|shard| shard["unread"] == 0 && shard["unsettled"] == 0)
        })
    }

    /// Kills it, in the middle of what it is doing.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([&format!("-{name}"), &self.process.id().to_string()]).status().unwrap().success());
    }

    /// Tells it to stop, and waits for its end: its exit code and what it said.
    pub(crate) fn stop(mut self) -> (i32, String) {
        self.signal("TERM");
        self.ended()
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> (i32, String) {
        let since = Instant::now();
        let status = loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                break status;
            }
            assert!(since.elapsed() < PATIENCE, "it does not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        };
        // The last lines may still be on their way.
        std::thread::sleep(Duration::from_millis(50));
        (status.code().unwrap_or(-1), self.log())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
