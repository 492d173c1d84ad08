//! `revsync run` as a process, and what it answers over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long anything may take on a busy machine before it counts as not coming.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A worker that runs. Killed when it is dropped.
pub(crate) struct Worker {
    process: Child,
    /// `HOST:PORT` of what it answers at.
    pub(crate) address: String,
    log: Arc<Mutex<String>>,
}

impl Worker {
    /// Starts one by a command, and waits until it answers; gives what it said where it ended before that.
    pub(crate) fn spawn(mut command: Command) -> Result<Self, String> {
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
        match Self::announced(&address) {
            Some(address) => Ok(Self { process, address, log }),
            None => {
                let _ = process.kill();
                let _ = process.wait();
                Err(log.lock().unwrap().clone())
            }
        }
    }

    fn announced(address: &Receiver<String>) -> Option<String> {
        address.recv_timeout(PATIENCE).ok()
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
        let status = head.split(' ').nth(1)?.parse().ok()?;
        // Not in pieces: its answers have a length.
        Some((status, body.to_owned()))
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
            std::thread::sleep(Duration::from_millis(20));
        }
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

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
