//! Real servers for tests: set up when first asked for, on free ports, and gone with the test process.
//!
//! Never skips silently: a missing tool fails the test and says what to install. Never leaves a process or a file behind but the downloaded
//! jars, and ends nothing that it did not start.
//!
//! | variable | effect |
//! |---|---|
//! | `OPENSEARCH_URL` | this server is used in place of started ones |
//! | `REVSYNC_TEST_SERVICES=none` | live tests are left out, and that is said |
//! | `REVSYNC_TEST_CACHE` | where downloads are kept; default `target/services` |
#![allow(dead_code, reason = "each test binary uses its part")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

/// A running server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// What it is, for messages of failed assertions.
    pub name: String,
    /// `http://HOST:PORT`.
    pub url: String,
}

/// The OpenSearch servers to test against: 2.19 and 3.x; the one of `OPENSEARCH_URL`; or none, when live tests are left out on purpose.
pub fn opensearch() -> &'static [Server] {
    static SERVERS: OnceLock<Vec<Server>> = OnceLock::new();
    SERVERS.get_or_init(|| {
        if let Ok(url) = std::env::var("OPENSEARCH_URL") {
            return vec![Server { name: "the server of OPENSEARCH_URL".to_owned(), url }];
        }
        if std::env::var("REVSYNC_TEST_SERVICES").is_ok_and(|value| value == "none") {
            eprintln!("REVSYNC_TEST_SERVICES=none: tests against a real OpenSearch are left out");
            return Vec::new();
        }
        let java = java();
        // Both start at once: most of a start is waiting.
        let starting = RELEASES.map(|release| {
            let java = java.clone();
            std::thread::spawn(move || {
                let (node, server) = start(&java, release, &home().keep(), &[]);
                // Kept for as long as this process lives: dropping it would close the pipe.
                std::mem::forget(node);
                server
            })
        });
        starting.into_iter().map(|node| node.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Nodes that a test may stop and start again, one of each release and not running yet; none where live tests are left out on purpose, or
/// run against a server that is not ours to stop.
pub fn nodes() -> Vec<Node> {
    if std::env::var_os("OPENSEARCH_URL").is_some() || std::env::var("REVSYNC_TEST_SERVICES").is_ok_and(|value| value == "none") {
        eprintln!("tests that stop and start a node of their own are left out: OPENSEARCH_URL or REVSYNC_TEST_SERVICES=none is set");
        return Vec::new();
    }
    RELEASES.map(|release| Node { release, home: home(), running: None }).into()
}

/// A node with data of its own, which outlive a stop. Everything goes when it is dropped.
#[derive(Debug)]
pub struct Node {
    release: Release,
    home: TempDir,
    running: Option<Child>,
}

impl Node {
    /// Starts the node on the data that it has.
    pub fn start(&mut self) -> Server {
        let (node, server) = start(&java(), self.release, self.home.path(), &["keep"]);
        self.running = Some(node);
        server
    }

    /// Ends the node as a power failure does: in the middle of what it is doing.
    pub fn crash(&mut self) {
        if let Some(mut node) = self.running.take() {
            node.kill().expect("a child of ours");
            node.wait().expect("a child of ours");
        }
    }

    /// Stops the node as an operator does, and waits until it has ended.
    pub fn stop(&mut self) {
        if let Some(mut node) = self.running.take() {
            drop(node.stdin.take());
            assert!(node.wait().expect("a child of ours").success(), "{} ended well", self.release.0);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut node) = self.running.take() {
            let _ = node.kill();
            let _ = node.wait();
        }
    }
}

/// A version, and the source that starts a node of it.
type Release = (&'static str, &'static str);

const RELEASES: [Release; 2] = [("2.19.6", "OpenSearch2.java"), ("3.9.0", "OpenSearch3.java")];

fn recipes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/services/opensearch")
}

/// A home for a node.
fn home() -> TempDir {
    let home = tempfile::Builder::new().prefix("revsync-opensearch-").tempdir().expect("a temporary folder");
    fs::create_dir(home.path().join("config")).expect("a folder in the temporary folder");
    home
}

fn start(java: &Path, (version, source): Release, home: &Path, more: &[&str]) -> (Child, Server) {
    let jars = jars(version);
    let log = home.join("log");
    let mut node = Command::new(java)
        .args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--add-modules", "jdk.incubator.vector"])
        .arg(format!("-Dlog4j2.configurationFile={}", recipes().join("log4j2.properties").display()))
        .arg("-cp")
        .arg(jars.join("*"))
        .arg(recipes().join(source))
        .arg(home)
        .args(more)
        // The node ends when this pipe does, so however this process ends, the node does too, and removes its home unless it is told not to.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(&log).expect("a log file"))
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run {}: {error}", java.display()));
    let port = match announced_port(&mut node) {
        Some(port) => port,
        None => {
            let mut text = String::new();
            let _ = File::open(&log).and_then(|mut log| log.read_to_string(&mut text));
            let _ = node.wait();
            let _ = fs::remove_dir_all(home);
            panic!("OpenSearch {version} did not start. {}", last_lines(&text));
        }
    };
    (node, Server { name: format!("OpenSearch {version}"), url: format!("http://127.0.0.1:{port}") })
}

fn announced_port(node: &mut Child) -> Option<u16> {
    let lines = BufReader::new(node.stdout.take()?).lines();
    lines.map_while(Result::ok).find_map(|line| line.strip_prefix("port ")?.parse().ok())
}

/// The folder with the jars of a version, downloaded with Maven if it is not there yet.
fn jars(version: &str) -> PathBuf {
    let cache = std::env::var_os("REVSYNC_TEST_CACHE")
        .map_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("../services"), PathBuf::from)
        .join(format!("opensearch-{version}"));
    fs::create_dir_all(&cache).unwrap_or_else(|error| panic!("cannot make {}: {error}", cache.display()));
    let (jars, complete) = (cache.join("jars"), cache.join("complete"));
    // Several test processes may want them at once; the lock goes when the file is closed.
    let lock = File::create(cache.join("lock")).expect("a lock file");
    lock.lock().expect("a lock on a file of our own");
    if complete.exists() {
        return jars;
    }
    eprintln!("downloading OpenSearch {version} with Maven into {}", cache.display());
    let output = Command::new("mvn")
        .args(["-q", "-B", "-f"])
        .arg(recipes().join("pom.xml"))
        .arg(format!("-Dopensearch.version={version}"))
        .arg(format!("-DoutputDirectory={}", jars.display()))
        .arg("dependency:copy-dependencies")
        .output()
        .unwrap_or_else(|error| panic!("cannot run mvn: {error}. {ADVICE}"));
    assert!(
        output.status.success(),
        "Maven could not download OpenSearch {version}: {}",
        last_lines(&format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
    );
    File::create(complete).expect("a marker file");
    jars
}

const ADVICE: &str = "Live tests need Maven (Debian: apt install maven) and a JDK of 21 or newer (for example from adoptium.net); \
                      set OPENSEARCH_URL to use a server of your own, or REVSYNC_TEST_SERVICES=none to leave these tests out.";

/// A `java` of 21 or newer: that of `JAVA_HOME`, that on the path, or one where Linux and macOS keep them.
pub fn java() -> PathBuf {
    let mut candidates: Vec<PathBuf> = Vec::new();
    candidates.extend(std::env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin/java")));
    candidates.push(PathBuf::from("java"));
    let mut installed: Vec<PathBuf> = [("/usr/lib/jvm", "bin/java"), ("/Library/Java/JavaVirtualMachines", "Contents/Home/bin/java")]
        .into_iter()
        .flat_map(|(folder, java)| fs::read_dir(folder).into_iter().flatten().flatten().map(move |entry| entry.path().join(java)))
        .collect();
    installed.sort();
    candidates.extend(installed);
    let mut seen = Vec::new();
    for candidate in candidates {
        match major_version(&candidate) {
            Some(21..) => return candidate,
            Some(older) => seen.push(format!("{} is {older}", candidate.display())),
            None => {}
        }
    }
    panic!("expected a JDK of 21 or newer, found {}. {ADVICE}", if seen.is_empty() { "none".to_owned() } else { seen.join(", ") });
}

fn major_version(java: &Path) -> Option<u32> {
    let output = Command::new(java).arg("-version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.split('"').nth(1)?.split(['.', '-', '+']).next()?.parse().ok()
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    format!("Its last words:\n{}", lines[lines.len().saturating_sub(20)..].join("\n"))
}
