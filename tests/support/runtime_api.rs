//! The function as Lambda runs it: the real binary, and the Runtime API that it asks for events and answers to, on a loopback port.
//!
//! One process has one [`Function`], as an execution environment has; what Lambda does to one that is late or fails to start is done to it
//! here. Speaks as the AWS Lambda developer guide says under "Using the Lambda runtime API". Never looks into an event or an answer.
#![allow(dead_code, reason = "each test uses its part")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tempfile::TempDir;

/// More than any process of a test takes for anything but what it was given time for.
const PATIENCE: Duration = Duration::from_secs(60);

/// What Lambda comes to know of one invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The body of `/invocation/ID/response`, as it came.
    Response(String),
    /// `/invocation/ID/error`: the function failed, and says with what.
    Error(Failure),
    /// No answer before the deadline; Lambda then ends the process.
    TimedOut,
    /// The process ended instead.
    Exited(ExitStatus),
}

/// An error as the function tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// `errorType` of the body.
    pub(crate) kind: String,
    /// `errorMessage` of the body.
    pub(crate) message: String,
    /// The body as it came.
    pub(crate) body: String,
}

/// A process of the function, ready or still starting. Ends with the test.
#[derive(Debug)]
pub(crate) struct Function {
    process: Child,
    events: Sender<Event>,
    told: Receiver<Told>,
    invocations: u64,
    folder: TempDir,
}

#[derive(Debug)]
struct Event {
    id: String,
    deadline: Duration,
    body: String,
}

/// What the process told the Runtime API.
#[derive(Debug)]
struct Told {
    /// Behind `/2018-06-01/runtime/`.
    path: String,
    body: String,
}

impl Drop for Function {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The binary, with these variables and no others of its own.
pub(crate) fn command(variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_revsync-lambda"));
    let own = std::env::vars().map(|(name, _)| name).filter(|name| name.starts_with("REVSYNC_"));
    for name in own {
        command.env_remove(name);
    }
    for (name, value) in [
        ("FUNCTION_NAME", "revsync"),
        ("FUNCTION_MEMORY_SIZE", "128"),
        ("FUNCTION_VERSION", "1"),
        ("LOG_GROUP_NAME", "g"),
        ("LOG_STREAM_NAME", "s"),
    ] {
        command.env(format!("AWS_LAMBDA_{name}"), value);
    }
    command.envs(variables.iter().copied()).stdin(Stdio::null());
    command
}

impl Function {
    /// Starts a process with these variables.
    pub(crate) fn start(variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (address, events, told) = serve();
        let file = |name: &str| File::create(folder.path().join(name)).expect("a file");
        let mut command = command(variables);
        command.current_dir(folder.path());
        command.env("AWS_LAMBDA_RUNTIME_API", address.to_string()).stdout(file("stdout")).stderr(file("stderr"));
        let process = command.spawn().expect("the function starts");
        Self { process, events, told, invocations: 0, folder }
    }

    /// A folder of its own, that goes with it.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it has said so far on standard error.
    pub(crate) fn errors(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("stderr")).expect("UTF-8")
    }

    /// What it has printed so far on standard output.
    pub(crate) fn output(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("stdout")).expect("UTF-8")
    }

    /// Hands an event out with so much time, and waits for the answer, no longer than that. A process that is late is ended, as Lambda does.
    pub(crate) fn invoke(&mut self, event: &str, left: Duration) -> Answer {
        let answer = self.invoke_by(event, now() + left, left);
        if answer == Answer::TimedOut {
            let _ = self.process.kill();
        }
        answer
    }

    /// Hands an event out whose deadline is this long ago, and waits for whatever is said of it.
    pub(crate) fn invoke_late(&mut self, event: &str, ago: Duration) -> Answer {
        self.invoke_by(event, now() - ago, PATIENCE)
    }

    fn invoke_by(&mut self, event: &str, deadline: Duration, patience: Duration) -> Answer {
        self.invocations += 1;
        let id = format!("invocation-{}", self.invocations);
        let event = Event { id: id.clone(), deadline, body: event.to_owned() };
        self.events.send(event).expect("the Runtime API is there as long as this");
        match self.hear(patience) {
            Ok(Told { path, body }) if path == format!("invocation/{id}/response") => Answer::Response(body),
            Ok(Told { path, body }) if path == format!("invocation/{id}/error") => Answer::Error(failure(body)),
            Ok(Told { path, body }) => panic!("expected an answer to {id}, found {path}: {body}"),
            Err(None) => Answer::TimedOut,
            Err(Some(status)) => Answer::Exited(status),
        }
    }

    /// The error with which the process does not start, as it told it to `/init/error`; nothing where it just ended.
    pub(crate) fn init_error(&mut self) -> (Option<Failure>, ExitStatus) {
        let told = match self.hear(PATIENCE) {
            Ok(Told { path, body }) if path == "init/error" => Some(failure(body)),
            Ok(Told { path, body }) => panic!("expected an error of the start, found {path}: {body}"),
            Err(None) => panic!("the function neither started nor failed in {PATIENCE:?}"),
            Err(Some(status)) => return (None, status),
        };
        (told, self.process.wait().expect("the function ends"))
    }

    /// What it tells next; the exit status where it ends instead, nothing where it does neither in time.
    fn hear(&mut self, patience: Duration) -> Result<Told, Option<ExitStatus>> {
        let until = Instant::now() + patience;
        loop {
            // It may end right after it has told something.
            let ended = self.process.try_wait().expect("a process of ours");
            let slice = until.saturating_duration_since(Instant::now()).min(Duration::from_millis(20));
            match self.told.recv_timeout(slice) {
                Ok(told) => return Ok(told),
                Err(RecvTimeoutError::Disconnected) => panic!("the Runtime API is gone"),
                Err(RecvTimeoutError::Timeout) if ended.is_some() => return Err(ended),
                Err(RecvTimeoutError::Timeout) if Instant::now() >= until => return Err(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "Lambda gives the deadline by the wall clock")]
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970")
}

fn failure(body: String) -> Failure {
    let json: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("expected an error as JSON: {error}: {body}"));
    let text = |name: &str| json[name].as_str().unwrap_or_else(|| panic!("expected {name}: {body}")).to_owned();
    Failure { kind: text("errorType"), message: text("errorMessage"), body }
}

/// The Runtime API of one process: where it is, what hands events to it, and what it was told.
fn serve() -> (SocketAddr, Sender<Event>, Receiver<Told>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (events, waiting) = channel();
    let (tell, told) = channel();
    let waiting = Arc::new(Mutex::new(waiting));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, waiting, tell) = (stream.expect("a connection"), Arc::clone(&waiting), tell.clone());
            thread::spawn(move || converse(stream, &waiting, &tell));
        }
    });
    (address, events, told)
}

/// Answers what comes over one connection, until it is closed.
fn converse(stream: TcpStream, waiting: &Mutex<Receiver<Event>>, tell: &Sender<Told>) {
    let mut stream = BufReader::new(stream);
    while let Some((path, body)) = request(&mut stream) {
        let path = path.strip_prefix("/2018-06-01/runtime/").unwrap_or_else(|| panic!("expected the Runtime API, found {path}"));
        let answer = if path == "invocation/next" {
            // The test is over when nothing hands out events any more.
            let Ok(Event { id, deadline, body }) = waiting.lock().expect("no panic under the lock").recv() else { return };
            let headers = format!(
                "Lambda-Runtime-Aws-Request-Id: {id}\r\nLambda-Runtime-Deadline-Ms: {}\r\nLambda-Runtime-Invoked-Function-Arn: \
                 arn:aws:lambda:eu-west-1:000000000000:function:revsync\r\n",
                deadline.as_millis()
            );
            answer("200 OK", &headers, &body)
        } else {
            let _ = tell.send(Told { path: path.to_owned(), body });
            answer("202 Accepted", "", "")
        };
        if stream.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// One request: its path and its body. None where the connection is closed, as it is when the process ends.
fn request(stream: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut first = String::new();
    stream.read_line(&mut first).ok().filter(|read| *read > 0)?;
    let path = first.split(' ').nth(1).expect("a path").to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).ok().filter(|read| *read > 0)?;
        if header.trim().is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').expect("a name and a value");
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().expect("a length");
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some((path, String::from_utf8(body).expect("UTF-8")))
}
