//! The command `revsync` as a user starts it: in a folder of its own, without this process's environment.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// What one run of the command came to.
#[derive(Debug)]
pub struct Done {
    pub exit: i32,
    pub out: String,
    pub err: String,
}

impl Done {
    /// Standard output as one JSON document.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("not one JSON document: {e}: {self:?}"))
    }

    /// A count of the report.
    pub fn count(&self, name: &str) -> u64 {
        self.json()[name].as_u64().unwrap_or_else(|| panic!("no count {name}: {self:?}"))
    }

    /// Checks that every unit is counted under exactly one heading, and hands the run on.
    pub fn balanced(self) -> Self {
        let report = self.json();
        let of = |name: &str| report[name].as_u64().unwrap();
        let skipped: u64 = report["skipped"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
        let headings = ["indexed", "deleted", "stale", "absent", "compacted", "dead_letters", "pending"];
        assert_eq!(of("received"), skipped + headings.iter().map(|name| of(name)).sum::<u64>(), "{report}");
        self
    }
}

/// A folder in which the command is run.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path().join(name)).unwrap()
    }

    /// The command, ready to be run here.
    pub fn command(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_revsync"));
        command.args(arguments).current_dir(self.path()).env_clear().envs(environment.iter().copied()).stdin(Stdio::null());
        command
    }

    /// Runs the command.
    pub fn revsync(&self, arguments: &[&str]) -> Done {
        self.revsync_with(arguments, &[], b"")
    }

    /// Runs the command with these environment variables and this standard input.
    pub fn revsync_with(&self, arguments: &[&str], environment: &[(&str, &str)], input: &[u8]) -> Done {
        // A file, because a pipe that nobody reads from would have to be written by a thread of its own.
        let input = std::fs::File::open(self.write(".input", input)).unwrap();
        let Output { status, stdout, stderr } = self.command(arguments, environment).stdin(input).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Done { exit: status.code().unwrap_or(-1), out: text(stdout), err: text(stderr) }
    }
}

/// A committed fixture.
pub fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name).to_str().unwrap().to_owned()
}

/// A QLDB stream record in Ion text, on one line. `data` is Ion text, such as `{A:1}`; without it the revision is a delete.
pub fn revision(table: &str, id: &str, version: u64, data: Option<&str>) -> String {
    let data = data.map(|data| format!("data:{data},")).unwrap_or_default();
    format!(
        "{{qldbStreamArn:\"arn:aws:qldb:eu-west-1:000000000000:stream/tests/0\",recordType:\"REVISION_DETAILS\",payload:{{tableInfo:{{tableName:\"{table}\",\
         tableId:\"t\"}},revision:{{blockAddress:{{strandId:\"s\",sequenceNo:{version}}},{data}metadata:{{id:\"{id}\",version:{version}}}}}}}}}\n"
    )
}
