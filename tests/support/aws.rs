//! An AWS emulator for tests: set up when first asked for, on a free loopback port, and gone with the test process.
//!
//! Never skips silently: a missing tool fails the test and says what to install. What a test needs there (queues, buckets) is its own, and is
//! made here by plain HTTP, without the SDK that is under test.
//!
//! | variable | effect |
//! |---|---|
//! | `REVSYNC_TEST_SERVICES=none` | live tests are left out, and that is said |
//! | `REVSYNC_TEST_CACHE` | where the emulator is installed; default `target/services` |
#![allow(dead_code, reason = "each test binary uses its part")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

/// The region of everything in it.
pub(crate) const REGION: &str = "eu-west-1";
/// The account that everything in it belongs to.
pub(crate) const ACCOUNT: &str = "000000000000";
/// Credentials that it takes, as the environment holds them.
pub(crate) const CREDENTIALS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")];

/// A running emulator.
#[derive(Debug)]
pub(crate) struct Emulator {
    /// `HOST:PORT`.
    pub(crate) address: String,
}

/// The emulator; none, when live tests are left out on purpose.
pub(crate) fn emulator() -> Option<&'static Emulator> {
    static EMULATOR: OnceLock<Option<Emulator>> = OnceLock::new();
    let emulator = EMULATOR.get_or_init(|| {
        if std::env::var("REVSYNC_TEST_SERVICES").is_ok_and(|value| value == "none") {
            eprintln!("REVSYNC_TEST_SERVICES=none: tests against an AWS emulator are left out");
            return None;
        }
        Some(start(&python()))
    });
    emulator.as_ref()
}

impl Emulator {
    /// One that was started elsewhere, at `http://HOST:PORT`.
    pub(crate) fn at(url: &str) -> Self {
        Self { address: url.strip_prefix("http://").expect("an address in clear text").to_owned() }
    }

    /// `http://HOST:PORT`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A name that nobody else in it has.
    pub(crate) fn name(&self, what: &str) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        format!("{what}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes a queue with these attributes; gives its name.
    pub(crate) fn queue(&self, name: &str, attributes: Value) -> String {
        self.sqs("CreateQueue", json!({ "QueueName": name, "Attributes": attributes }));
        name.to_owned()
    }

    /// The place of a queue, as revsync takes it.
    pub(crate) fn queue_place(&self, name: &str) -> String {
        format!("sqs://{}/{ACCOUNT}/{name}?region={REGION}&endpoint={}", self.address, self.url())
    }

    /// Puts a message into a queue.
    pub(crate) fn send(&self, queue: &str, body: &str) {
        self.sqs("SendMessage", json!({ "QueueUrl": self.queue_url(queue), "MessageBody": body }));
    }

    /// The bodies of the messages that a queue shows now; they are shown again at once.
    pub(crate) fn messages(&self, queue: &str) -> Vec<String> {
        let (mut bodies, mut receipts) = (Vec::new(), Vec::new());
        let url = self.queue_url(queue);
        loop {
            let received = self.sqs("ReceiveMessage", json!({ "QueueUrl": url, "MaxNumberOfMessages": 10, "VisibilityTimeout": 60 }));
            let Some(messages) = received["Messages"].as_array().filter(|messages| !messages.is_empty()) else { break };
            for message in messages {
                bodies.push(message["Body"].as_str().expect("a body").to_owned());
                receipts.push(message["ReceiptHandle"].clone());
            }
        }
        for receipt in receipts {
            self.sqs("ChangeMessageVisibility", json!({ "QueueUrl": url, "ReceiptHandle": receipt, "VisibilityTimeout": 0 }));
        }
        bodies
    }

    /// Makes a bucket; gives its name.
    pub(crate) fn bucket(&self, name: &str) -> String {
        let place = format!("<CreateBucketConfiguration><LocationConstraint>{REGION}</LocationConstraint></CreateBucketConfiguration>");
        let (status, body) = self.request("PUT", &format!("/{name}"), &[], place.as_bytes());
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        name.to_owned()
    }

    /// The place of a bucket, as revsync takes it.
    pub(crate) fn bucket_place(&self, name: &str) -> String {
        format!("s3://{name}?region={REGION}&endpoint={}", self.url())
    }

    /// Puts an object into a bucket.
    pub(crate) fn put(&self, bucket: &str, key: &str, body: &[u8]) {
        self.put_as(bucket, key, body, &[]);
    }

    /// Puts an object into a bucket, with these headers.
    pub(crate) fn put_as(&self, bucket: &str, key: &str, body: &[u8], headers: &[(&str, String)]) {
        let key = key.split('/').map(escaped).collect::<Vec<_>>().join("/");
        let (status, _) = self.request("PUT", &format!("/{bucket}/{key}"), headers, body);
        assert_eq!(status, 200);
    }

    /// An object of a bucket, where there is one.
    pub(crate) fn get(&self, bucket: &str, key: &str) -> Option<Vec<u8>> {
        let (status, body) = self.request("GET", &format!("/{bucket}/{key}"), &[], b"");
        (status == 200).then_some(body)
    }

    /// The keys of a bucket, in their order.
    pub(crate) fn keys(&self, bucket: &str) -> Vec<String> {
        let (_, listed) = self.request("GET", &format!("/{bucket}?list-type=2"), &[], b"");
        let listed = String::from_utf8(listed).expect("a list in UTF-8");
        assert!(!listed.contains("<IsTruncated>true"), "a test has at most 1,000 objects in a bucket");
        listed.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next()).map(str::to_owned).collect()
    }

    /// Makes a secret, or gives it another value; gives its ARN.
    pub(crate) fn secret(&self, name: &str, value: &str) -> String {
        let call = |action: &str, input: Value| {
            let target = ("X-Amz-Target", format!("secretsmanager.{action}"));
            let headers = [target, ("Content-Type", "application/x-amz-json-1.1".to_owned())];
            let (status, body) = self.request("POST", "/", &headers, &serde_json::to_vec(&input).expect("JSON"));
            (status, serde_json::from_slice::<Value>(&body).unwrap_or_default())
        };
        let (created, answer) = call("CreateSecret", json!({ "Name": name, "SecretString": value }));
        let (status, answer) = match created {
            200 => (created, answer),
            _ => call("PutSecretValue", json!({ "SecretId": name, "SecretString": value })),
        };
        assert_eq!(status, 200, "{answer}");
        answer["ARN"].as_str().expect("an ARN").to_owned()
    }

    /// One call of SQS.
    pub(crate) fn sqs(&self, action: &str, input: Value) -> Value {
        self.call(&format!("AmazonSQS.{action}"), &input)
    }

    /// One call of a service that speaks JSON, by its target: `AmazonSQS.SendMessage`, `Kinesis_20131202.PutRecords` …
    pub(crate) fn call(&self, target: &str, input: &Value) -> Value {
        let headers = [("X-Amz-Target", target.to_owned()), ("Content-Type", "application/x-amz-json-1.1".to_owned())];
        let (status, body) = self.request("POST", "/", &headers, &serde_json::to_vec(input).expect("JSON"));
        assert_eq!(status, 200, "{target}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap_or_default()
    }

    fn queue_url(&self, name: &str) -> String {
        format!("{}/{ACCOUNT}/{name}", self.url())
    }

    /// One request; the status and the body of its answer.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &[(&str, String)], body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).expect("the emulator takes connections");
        // The region and the account that a call is for are told by its signature.
        let scope = format!("AWS4-HMAC-SHA256 Credential=test/20240101/{REGION}/sqs/aws4_request, SignedHeaders=host, Signature=0");
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: {scope}\r\nX-Amz-Date: 20240101T000000Z\r\n", self.address);
        if path != "/" {
            head = head.replace("/sqs/", "/s3/");
        }
        if headers.iter().any(|(_, value)| value.starts_with("secretsmanager.")) {
            head = head.replace("/sqs/", "/secretsmanager/");
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\nConnection: close\r\n\r\n", body.len()));
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).expect("a request can be written");
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).expect("an answer");
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no status: {line:?}"));
        let (mut length, mut chunked) = (None, false);
        loop {
            line.clear();
            reader.read_line(&mut line).expect("a header");
            let header = line.trim().to_ascii_lowercase();
            match header.split_once(": ") {
                Some(("content-length", value)) => length = value.parse().ok(),
                Some(("transfer-encoding", "chunked")) => chunked = true,
                _ if header.is_empty() => break,
                _ => {}
            }
        }
        let mut answer = Vec::new();
        match length {
            Some(length) => {
                answer.resize(length, 0);
                reader.read_exact(&mut answer).expect("a whole body");
            }
            None if chunked => read_chunks(&mut reader, &mut answer),
            None => drop(reader.read_to_end(&mut answer).expect("a body")),
        }
        (status, answer)
    }
}

/// A part of a key as a path holds it.
fn escaped(part: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    part.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn read_chunks(reader: &mut impl BufRead, body: &mut Vec<u8>) {
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("the length of a chunk");
        let length = usize::from_str_radix(line.trim(), 16).expect("a length in hexadecimal");
        let mut chunk = vec![0; length + 2];
        reader.read_exact(&mut chunk).expect("a whole chunk");
        if length == 0 {
            return;
        }
        body.extend_from_slice(&chunk[..length]);
    }
}

fn recipes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/services/aws")
}

fn start(python: &Path) -> Emulator {
    let home = tempfile::Builder::new().prefix("revsync-aws-").tempdir().expect("a temporary folder").keep();
    let log = home.with_extension("log");
    let mut emulator = Command::new(python)
        .arg(recipes().join("emulator.py"))
        .arg(&home)
        // It ends when this pipe does, so however this process ends, the emulator does too, and removes its home.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(&log).expect("a log file"))
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run {}: {error}", python.display()));
    let lines = BufReader::new(emulator.stdout.take().expect("a pipe")).lines();
    let port = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("port ")?.parse::<u16>().ok());
    let Some(port) = port else {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let _ = emulator.wait();
        let _ = (fs::remove_dir_all(&home), fs::remove_file(&log));
        panic!("the AWS emulator did not start: {text}");
    };
    // Written to through the open file from now on, and gone with it.
    let _ = fs::remove_file(&log);
    // Kept for as long as this process lives: dropping it would close the pipe.
    std::mem::forget(emulator);
    Emulator { address: format!("127.0.0.1:{port}") }
}

const ADVICE: &str = "Tests against an AWS emulator need Python 3.10 or newer with its venv module (Debian: apt install python3-venv); \
                      set REVSYNC_TEST_SERVICES=none to leave them out.";

/// The Python of a virtual environment in which the emulator is installed; made if it is not there yet.
fn python() -> PathBuf {
    let wanted = fs::read_to_string(recipes().join("requirements.txt")).expect("the emulator's requirements");
    let cache = std::env::var_os("REVSYNC_TEST_CACHE")
        .map_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("../services"), PathBuf::from)
        .join("aws");
    fs::create_dir_all(&cache).unwrap_or_else(|error| panic!("cannot make {}: {error}", cache.display()));
    let (venv, complete) = (cache.join("venv"), cache.join("complete"));
    let python = venv.join("bin/python");
    // Several test processes may want it at once; the lock goes when the file is closed.
    let lock = File::create(cache.join("lock")).expect("a lock file");
    lock.lock().expect("a lock on a file of our own");
    if fs::read_to_string(&complete).is_ok_and(|installed| installed == wanted) && run(Command::new(&python).arg("--version")).is_ok() {
        return python;
    }
    eprintln!("installing the AWS emulator into {}", cache.display());
    let made = run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
    made.unwrap_or_else(|what| panic!("cannot make a virtual environment with python3: {what}. {ADVICE}"));
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]).arg(recipes().join("requirements.txt"));
    run(&mut install).unwrap_or_else(|what| panic!("pip could not install the AWS emulator: {what}. {ADVICE}"));
    fs::write(complete, wanted).expect("a marker file");
    python
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let said = || format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(()) } else { Err(said()) }
}
