//! The guides of `connector/docs`: every command that they show runs, succeeds, and prints what they say, as somebody would see it who types them in.
//!
//! `REVSYNC_BLESS=1` writes what commands print now into the guides.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::Folder;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")
}

/// What a command prints, both on standard output and on standard error. Times are what they are: each is as if it had been short.
fn printed(folder: &Folder, typed: &str) -> String {
    let path = format!("{}:/usr/bin:/bin", Path::new(env!("CARGO_BIN_EXE_revsync")).parent().unwrap().display());
    let output = Command::new("sh")
        .args(["-c", &format!("{typed} 2>&1")])
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", path)
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{typed}: {text}");
    with_short_times(&text)
}

/// `12.3 s` as `0.1 s`.
fn with_short_times(text: &str) -> String {
    let parts: Vec<&str> = text.split(" s)").collect();
    let mut short = String::new();
    for (at, part) in parts.iter().enumerate() {
        let is_last = at + 1 == parts.len();
        let number = part.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        short.push_str(if is_last { part } else { number });
        short.push_str(if is_last { "" } else { "0.1 s)" });
    }
    short
}

/// Runs what a guide shows, and gives the guide with what that prints.
fn run(guide: &str) -> String {
    let folder = Folder::new();
    std::os::unix::fs::symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests"), folder.path().join("tests")).unwrap();
    std::fs::copy(docs().join("archive.toml"), folder.path().join("archive.toml")).unwrap();
    let (mut told, mut rest) = (String::new(), guide);
    while let Some((before, after)) = rest.split_once("```console\n") {
        let (session, after) = after.split_once("```\n").unwrap();
        told.push_str(before);
        told.push_str("```console\n");
        for line in session.lines().filter_map(|line| line.strip_prefix("$ ")) {
            told.push_str(&format!("$ {line}\n{}", printed(&folder, line)));
            if !told.ends_with('\n') {
                told.push('\n');
            }
        }
        told.push_str("```\n");
        rest = after;
    }
    told + rest
}

fn is_as_written(name: &str) {
    let path = docs().join(name);
    let written = std::fs::read_to_string(&path).unwrap();
    let told = run(&written);
    assert!(told.contains("$ revsync"), "it shows something");
    if std::env::var("REVSYNC_BLESS").is_ok_and(|bless| bless == "1") {
        std::fs::write(path, told).unwrap();
    } else {
        assert_eq!(told, written);
    }
}

#[test]
fn an_export_becomes_a_verified_archive_as_its_guide_says() {
    is_as_written("qldb-export.md");
}

#[test]
fn a_capture_becomes_a_verified_archive_as_its_guide_says() {
    is_as_written("qldb-capture.md");
}

#[test]
fn a_ledger_and_its_successor_are_searched_together_as_their_guide_says() {
    is_as_written("successor.md");
}
