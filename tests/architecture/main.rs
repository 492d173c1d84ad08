//! The shape of the repository, enforced: which way imports point, that codecs and planning stay pure, what lies where.
//!
//! Reads the tracked sources as text. Each failure names the file, the line and the rule.

mod rules;
mod source;
mod tree;

use std::path::{Path, PathBuf};
use std::process::Command;

use rules::Violation;
use source::Source;
use tree::Tree;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every file that git tracks, or would track.
fn tracked() -> Tree {
    let listed = Command::new("git").current_dir(root()).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).output();
    let listed = listed.unwrap_or_else(|error| panic!("cannot run git ({error}); install it and test inside a clone"));
    assert!(listed.status.success(), "git ls-files failed: {}; test inside a clone", String::from_utf8_lossy(&listed.stderr));
    let files = String::from_utf8(listed.stdout).expect("file names are UTF-8");
    let read = |file: &str| {
        let bytes = std::fs::read(root().join(file)).ok()?;
        Some((file.to_owned(), String::from_utf8(bytes).ok()))
    };
    files.split('\0').filter(|file| !file.is_empty()).filter_map(read).collect()
}

/// The sources of the library and the handler, without the files that hold nothing but tests.
fn sources(tree: &Tree) -> Vec<(&str, &str)> {
    let all = tree.iter().filter(|(file, _)| file.ends_with(".rs") && file.contains("/src/"));
    let all: Vec<(&str, &str)> = all.filter_map(|(file, text)| Some((file.as_str(), text.as_deref()?))).collect();
    let test_only: Vec<String> = all.iter().flat_map(|(file, text)| test_files(file, text)).collect();
    let tests = |file: &str| test_only.iter().any(|test| file == format!("{test}.rs") || file.starts_with(&format!("{test}/")));
    all.into_iter().filter(|(file, _)| !tests(file)).collect()
}

/// Where the files of a source's test modules lie, without their ending.
fn test_files(file: &str, text: &str) -> Vec<String> {
    let bare = file.strip_suffix(".rs").unwrap_or(file);
    let folder = ["/mod", "/lib", "/main"].iter().find_map(|root| bare.strip_suffix(root)).unwrap_or(bare);
    Source::read(text).test_modules.iter().map(|module| format!("{folder}/{module}")).collect()
}

fn assert_none(violations: &[Violation]) {
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} rules are broken:\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn every_source_keeps_to_the_import_order_the_purity_and_the_size() {
    let tree = tracked();
    let sources = sources(&tree);
    assert!(sources.len() > 20, "expected the library's sources, found {} files", sources.len());
    assert_none(&sources.iter().flat_map(|(file, text)| rules::check(file, text)).collect::<Vec<_>>());
}

#[test]
fn the_repository_holds_what_it_should_and_nothing_else() {
    assert_none(&tree::check(&tracked()));
}

#[test]
fn no_test_is_switched_off() {
    let tree = tracked();
    let rust = tree.iter().filter(|(file, _)| file.ends_with(".rs")).filter_map(|(file, text)| Some((file, text.as_deref()?)));
    let switched_off = rust.flat_map(|(file, text)| Source::read(text).ignored_tests.into_iter().map(move |line| (file, line)));
    let rule = || "an ignored test tests nothing: make it run, or remove it".to_owned();
    assert_none(&switched_off.map(|(file, line)| Violation { file: file.clone(), line, rule: rule() }).collect::<Vec<_>>());
}

#[test]
fn test_modules_in_files_of_their_own_are_known() {
    let text = "//! A.\n#[cfg(test)]\nmod tests;";
    assert_eq!(test_files("connector/src/plan/inference.rs", text), ["connector/src/plan/inference/tests"]);
    assert_eq!(test_files("connector/src/plan/mod.rs", text), ["connector/src/plan/tests"]);
    assert_eq!(test_files("connector/src/lib.rs", text), ["connector/src/tests"]);
}
