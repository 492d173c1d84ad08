//! A Kafka broker for tests, and a client of it that is none of ours: set up when first asked for, on free loopback ports, and gone with the test
//! process.
//!
//! Never skips silently: a missing tool fails the test and says what to install. Topics and groups are a test's own.
//!
//! | variable | effect |
//! |---|---|
//! | `REVSYNC_TEST_SERVICES=none` | live tests are left out, and that is said |
//! | `REVSYNC_TEST_CACHE` | where downloads are kept; default `target/services` |
#![allow(dead_code, reason = "each test binary uses its part")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::services::java;

/// The version of the broker.
const VERSION: &str = "4.4.0";

/// A broker that runs.
#[derive(Debug)]
pub struct Broker {
    home: PathBuf,
    /// Where a home goes that is not kept.
    kept: Option<TempDir>,
    process: Option<Child>,
    /// `HOST:PORT`, in plain text and without a password.
    pub address: String,
    /// `HOST:PORT`, with SASL: PLAIN and SCRAM-SHA-256, for the user ann with the password hunter2.
    pub sasl: String,
    client: Mutex<Option<Client>>,
}

#[derive(Debug)]
struct Client {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// The broker that tests share; none, when live tests are left out on purpose.
pub fn broker() -> Option<&'static Broker> {
    static BROKER: OnceLock<Option<Broker>> = OnceLock::new();
    let start = || {
        let home = tempfile::Builder::new().prefix("revsync-kafka-").tempdir().expect("a temporary folder").keep();
        let mut broker = Broker::at(home, None);
        broker.launch(&[]);
        broker
    };
    BROKER.get_or_init(|| are_wanted().then(start)).as_ref()
}

/// A broker of one's own, which may be stopped and started again; none, when live tests are left out on purpose.
pub fn own_broker() -> Option<Broker> {
    are_wanted().then(|| {
        let home = tempfile::Builder::new().prefix("revsync-kafka-").tempdir().expect("a temporary folder");
        let mut broker = Broker::at(home.path().to_owned(), Some(home));
        broker.launch(&["keep"]);
        broker
    })
}

fn are_wanted() -> bool {
    let are_wanted = !std::env::var("REVSYNC_TEST_SERVICES").is_ok_and(|value| value == "none");
    if !are_wanted {
        eprintln!("REVSYNC_TEST_SERVICES=none: tests against a real Kafka are left out");
    }
    are_wanted
}

/// A message to be produced.
#[derive(Debug, Clone)]
pub struct Sent {
    pub partition: i32,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// When it is said to have been made, in milliseconds since 1970.
    pub at: Option<u64>,
}

/// A message as it was read, by another client than ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    pub partition: i32,
    pub offset: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Received {
    /// The value of its last header of a name.
    pub fn header(&self, name: &str) -> Option<String> {
        let (_, value) = self.headers.iter().rfind(|(known, _)| known == name)?;
        Some(String::from_utf8(value.clone()?).expect("text"))
    }
}

impl Sent {
    /// A message to a partition, without a key.
    pub fn to(partition: i32, value: impl AsRef<[u8]>) -> Self {
        Self { partition, key: None, value: Some(value.as_ref().to_vec()), headers: Vec::new(), at: None }
    }

    /// With this key.
    pub fn key(self, key: &str) -> Self {
        Self { key: Some(key.as_bytes().to_vec()), ..self }
    }

    /// With a null as its value.
    pub fn null(self) -> Self {
        Self { value: None, ..self }
    }

    fn as_json(&self) -> Value {
        let binary = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|bytes| STANDARD.encode(bytes));
        let headers: Vec<Value> = self.headers.iter().map(|(name, value)| json!([name, binary(value)])).collect();
        match self.at {
            Some(at) => json!([self.partition, binary(&self.key), binary(&self.value), headers, at]),
            None => json!([self.partition, binary(&self.key), binary(&self.value), headers]),
        }
    }
}

impl Broker {
    fn at(home: PathBuf, kept: Option<TempDir>) -> Self {
        Self { home, kept, process: None, address: String::new(), sasl: String::new(), client: Mutex::default() }
    }

    fn launch(&mut self, more: &[&str]) {
        let java = java();
        let log = self.home.join("log");
        let mut process = Command::new(&java)
            .args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"])
            .arg(jars().join("*"))
            .arg(recipes().join("Broker.java"))
            .arg(&self.home)
            .args(more)
            // It ends when this pipe does, so however this process ends, the broker does too.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).expect("a log file"))
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {}: {error}", java.display()));
        let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let mut port = |name: &str| lines.find_map(|line| line.strip_prefix(name).map(|port| format!("127.0.0.1:{port}")));
        let (Some(sasl), Some(address)) = (port("sasl "), port("port ")) else {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let _ = process.wait();
            panic!("Kafka {VERSION} did not start. {text}\n{ADVICE}");
        };
        // Read on, so that it never waits for a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        (self.process, self.address, self.sasl) = (Some(process), address, sasl);
    }

    /// Starts it again, on the data that it has.
    pub fn start(&mut self) {
        self.launch(&["keep"]);
    }

    /// Ends it as a power failure does.
    pub fn crash(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("a child of ours");
            process.wait().expect("a child of ours");
        }
    }

    /// A name that nobody else has.
    pub fn name(&self, what: &str) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        format!("{what}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes a topic with these partitions; gives its name.
    pub fn topic(&self, what: &str, partitions: i32) -> String {
        self.topic_with(what, partitions, json!({}))
    }

    /// Makes a topic with these partitions and this configuration; gives its name.
    pub fn topic_with(&self, what: &str, partitions: i32, config: Value) -> String {
        let name = self.name(what);
        self.ask(json!({ "do": "create", "topic": name, "partitions": partitions, "config": config }));
        name
    }

    /// Produces messages.
    pub fn produce(&self, topic: &str, messages: &[Sent]) {
        let messages: Vec<Value> = messages.iter().map(Sent::as_json).collect();
        self.ask(json!({ "do": "produce", "topic": topic, "messages": messages }));
    }

    /// Produces messages in a transaction that ends as `commit` or `abort`, or stays `open`.
    pub fn transaction(&self, topic: &str, messages: &[Sent], end: &str) {
        let messages: Vec<Value> = messages.iter().map(Sent::as_json).collect();
        self.ask(json!({ "do": "produce", "topic": topic, "messages": messages, "transaction": end }));
    }

    /// The first offset of each partition, and the one behind its last message.
    pub fn ends(&self, topic: &str) -> Vec<(i64, i64)> {
        serde_json::from_value(self.ask(json!({ "do": "ends", "topic": topic }))).expect("pairs")
    }

    /// What a group committed, by partition.
    pub fn committed(&self, group: &str, topic: &str) -> Vec<Option<i64>> {
        serde_json::from_value(self.ask(json!({ "do": "committed", "group": group, "topic": topic }))).expect("offsets")
    }

    /// All messages of a topic, partition by partition.
    pub fn read(&self, topic: &str) -> Vec<Received> {
        type Row = (i32, i64, Option<String>, Option<String>, Vec<(String, Option<String>)>);
        let rows: Vec<Row> = serde_json::from_value(self.ask(json!({ "do": "read", "topic": topic }))).expect("messages");
        let binary = |text: Option<String>| text.map(|text| STANDARD.decode(text).expect("Base64"));
        let received = |(partition, offset, key, value, headers): Row| Received {
            partition,
            offset,
            key: binary(key),
            value: binary(value),
            headers: headers.into_iter().map(|(name, value)| (name, binary(value))).collect(),
        };
        rows.into_iter().map(received).collect()
    }

    /// Removes the messages of a partition before this offset, as retention does.
    pub fn trim(&self, topic: &str, partition: i32, before: i64) {
        self.ask(json!({ "do": "trim", "topic": topic, "partition": partition, "before": before }));
    }

    /// Tells the client to do something, and gives what came of it.
    pub fn ask(&self, what: Value) -> Value {
        let mut client = self.client.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Client { to, from, .. } = client.get_or_insert_with(|| Client::start(&self.address));
        writeln!(to, "{what}").expect("the client reads");
        let mut line = String::new();
        from.read_line(&mut line).expect("the client answers");
        let mut answer: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?} to {}", what["do"]));
        assert!(answer.get("error").is_none(), "{}: {}", what["do"], answer["error"]);
        answer["ok"].take()
    }

    /// The URL of a topic, as revsync takes it.
    pub fn url(&self, topic: &str) -> String {
        format!("kafka://{}/{topic}", self.address)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.crash();
    }
}

impl Client {
    fn start(address: &str) -> Self {
        let mut process = Command::new(python())
            .arg(recipes().join("client.py"))
            .arg(address)
            // It ends when this pipe does.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a Python that was just installed");
        let (to, from) = (process.stdin.take().expect("a pipe"), process.stdout.take().expect("a pipe"));
        Self { process, to, from: BufReader::new(from) }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn recipes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/services/kafka")
}

/// A folder for downloads, and the lock that says that nobody else fills it.
fn cache(name: &str) -> (PathBuf, File) {
    let cache = std::env::var_os("REVSYNC_TEST_CACHE")
        .map_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("../services"), PathBuf::from)
        .join(name);
    fs::create_dir_all(&cache).unwrap_or_else(|error| panic!("cannot make {}: {error}", cache.display()));
    // Several test processes may want it at once; the lock goes when the file is closed.
    let lock = File::create(cache.join("lock")).expect("a lock file");
    lock.lock().expect("a lock on a file of our own");
    (cache, lock)
}

/// The folder with the jars, downloaded with Maven if it is not there yet.
fn jars() -> PathBuf {
    let (cache, _lock) = cache(&format!("kafka-{VERSION}"));
    let (jars, complete) = (cache.join("jars"), cache.join("complete"));
    if !complete.exists() {
        eprintln!("downloading Kafka {VERSION} with Maven into {}", cache.display());
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", "-f"]).arg(recipes().join("pom.xml")).arg(format!("-DoutputDirectory={}", jars.display()));
        run(maven.arg("dependency:copy-dependencies")).unwrap_or_else(|what| panic!("Maven could not download Kafka: {what}. {ADVICE}"));
        File::create(complete).expect("a marker file");
    }
    jars
}

/// The Python of a virtual environment in which the client is installed; made if it is not there yet.
fn python() -> PathBuf {
    let wanted = fs::read_to_string(recipes().join("requirements.txt")).expect("the client's requirements");
    let (cache, _lock) = cache("kafka-client");
    let (venv, complete) = (cache.join("venv"), cache.join("complete"));
    let python = venv.join("bin/python");
    if fs::read_to_string(&complete).is_ok_and(|installed| installed == wanted) && run(Command::new(&python).arg("--version")).is_ok() {
        return python;
    }
    eprintln!("installing a client of Kafka into {}", cache.display());
    let made = run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
    made.unwrap_or_else(|what| panic!("cannot make a virtual environment with python3: {what}. {ADVICE}"));
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]).arg(recipes().join("requirements.txt"));
    run(&mut install).unwrap_or_else(|what| panic!("pip could not install a client of Kafka: {what}. {ADVICE}"));
    fs::write(complete, wanted).expect("a marker file");
    python
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let said = || format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(()) } else { Err(said()) }
}

const ADVICE: &str = "Tests against Kafka need Maven (Debian: apt install maven), a JDK of 21 or newer (for example from adoptium.net) and Python 3.10 \
                      or newer with its venv module (Debian: apt install python3-venv); set REVSYNC_TEST_SERVICES=none to leave them out.";
