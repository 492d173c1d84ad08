//! A headless Chromium, set up when first asked for and gone with the test.
//!
//! Comes with npm (`tests/services/browser`), which holds the browser itself and what drives it; nothing of the machine's own is used. A
//! missing tool fails the test and says what to install.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::npm::Package;

const ADVICE: &str = "The test of the page in a browser needs Node.js 20 or newer with npm (Debian: apt install nodejs npm) on Linux on x86-64; \
                      set REVSYNC_TEST_SERVICES=none to leave it out.";

const PACKAGE: Package = Package { name: "browser", what: "Chromium", advice: ADVICE };

/// A browser with one page.
#[derive(Debug, Clone)]
pub struct Browser(Arc<Mutex<Driver>>);

#[derive(Debug)]
struct Driver {
    process: Child,
    steps: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Browser {
    /// Starts a browser; none where live tests are left out on purpose.
    pub async fn start() -> Option<Self> {
        if std::env::var("REVSYNC_TEST_SERVICES").is_ok_and(|value| value == "none") {
            eprintln!("REVSYNC_TEST_SERVICES=none: the page is not looked at in a browser");
            return None;
        }
        Some(tokio::task::spawn_blocking(launch).await.unwrap())
    }

    /// Goes to a page.
    pub async fn open(&self, url: &str) {
        self.step(json!({ "open": url })).await;
    }

    /// What an expression comes to in the page.
    pub async fn look(&self, expression: &str) -> Value {
        self.step(json!({ "look": expression })).await
    }

    /// Waits until an expression comes to something true in the page.
    pub async fn wait(&self, expression: &str) {
        self.step(json!({ "wait": expression })).await;
    }

    /// Draws the whole page into a file of this name, beside the other files of tests.
    pub async fn picture(&self, name: &str, width: u32, dark: bool) -> PathBuf {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        self.step(json!({ "picture": path, "width": width, "dark": dark })).await;
        path
    }

    /// What the page complained of, and what it asked of anybody but its own server.
    pub async fn problems(&self) -> Vec<String> {
        serde_json::from_value(self.step(json!({ "problems": true })).await).unwrap()
    }

    async fn step(&self, step: Value) -> Value {
        let driver = Arc::clone(&self.0);
        // The server that is looked at runs on this thread.
        tokio::task::spawn_blocking(move || driver.lock().unwrap().step(&step)).await.unwrap()
    }
}

impl Driver {
    fn step(&mut self, step: &Value) -> Value {
        writeln!(self.steps.as_mut().unwrap(), "{step}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|error| panic!("the browser ended at {step}: {error}"));
        assert!(answer.get("error").is_none(), "{step}: {}", answer["error"]);
        answer["value"].clone()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.steps.take());
        let _ = self.process.wait();
    }
}

fn launch() -> Browser {
    let home = installed();
    let mut process = driver(&home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run node: {error}. {ADVICE}"));
    let (steps, answers) = (process.stdin.take(), BufReader::new(process.stdout.take().unwrap()));
    Browser(Arc::new(Mutex::new(Driver { process, steps, answers })))
}

/// What drives the browser that is in this folder.
fn driver(home: &Path) -> Command {
    let mut node = Command::new("node");
    // The browser is unpacked there.
    node.arg(home.join("browse.mjs")).env("TMPDIR", home).current_dir(home);
    node
}

/// The folder with the browser, unpacked, and with what drives it.
fn installed() -> PathBuf {
    let copy_driver = |home: &Path| {
        fs::copy(PACKAGE.recipe().join("browse.mjs"), home.join("browse.mjs")).unwrap();
    };
    let home = PACKAGE.installed(|home| {
        copy_driver(home);
        // Of another version.
        let _ = fs::remove_file(home.join("chromium"));
        let unpacked = driver(home).arg("unpack").status().unwrap_or_else(|error| panic!("cannot run node: {error}. {ADVICE}"));
        assert!(unpacked.success(), "Chromium could not be unpacked. {ADVICE}");
    });
    // It may be newer than the browser.
    copy_driver(&home);
    home
}
