//! The rules for one source file: what it may import, what a pure folder may not touch, how long it may be.
//!
//! Written down once, as tables. A new folder of the library must be added here on purpose.

use std::fmt;

use crate::source::{PathUse, Source};

/// A rule that a file breaks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) rule: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.rule)
    }
}

/// The parts of the library, and what each may import beside itself.
const IMPORTS: [(&str, &[&str]); 19] = [
    ("error", &[]),
    ("aws", &["error"]),
    ("kafka", &["error", "aws", "record", "panics"]),
    ("memory", &[]),
    ("metrics", &[]),
    ("panics", &["error", "record"]),
    ("record", &[]),
    ("revision", &["record"]),
    ("operation", &["record", "revision"]),
    ("codec", &["error", "memory", "metrics", "record", "revision", "operation"]),
    ("plan", &["error", "memory", "metrics", "record", "revision", "operation", "codec"]),
    ("source", BELOW_THE_EDGES),
    ("sink", BELOW_THE_EDGES),
    ("store", BELOW_THE_EDGES),
    ("run", BELOW_THE_CONFIGURATION),
    (
        "config",
        &[
            "error",
            "aws",
            "kafka",
            "memory",
            "metrics",
            "panics",
            "record",
            "revision",
            "operation",
            "codec",
            "plan",
            "source",
            "sink",
            "store",
            "run",
        ],
    ),
    ("cli", EVERYTHING),
    ("main", EVERYTHING),
    ("lib", EVERYTHING),
];

const BELOW_THE_EDGES: &[&str] =
    &["error", "aws", "kafka", "memory", "metrics", "panics", "record", "revision", "operation", "codec", "plan"];
const BELOW_THE_CONFIGURATION: &[&str] = &[
    "error",
    "aws",
    "kafka",
    "memory",
    "metrics",
    "panics",
    "record",
    "revision",
    "operation",
    "codec",
    "plan",
    "source",
    "sink",
    "store",
];
const EVERYTHING: &[&str] = &[
    "error",
    "aws",
    "kafka",
    "memory",
    "metrics",
    "panics",
    "record",
    "revision",
    "operation",
    "codec",
    "plan",
    "source",
    "sink",
    "store",
    "run",
    "config",
    "cli",
];

/// What decides without touching the world.
const PURE: [&str; 5] = ["record", "revision", "operation", "codec", "plan"];

/// What touches the world, the clock or chance; each an own name or the beginning of a path.
const IMPURE: [&str; 41] = [
    "tokio",
    "aws_config",
    "aws_credential_types",
    "aws_types",
    "aws_sdk_kinesis",
    "aws_sdk_s3",
    "aws_sdk_secretsmanager",
    "aws_sdk_sqs",
    "aws_sigv4",
    "aws_lambda_events",
    "lambda_runtime",
    "opensearch",
    "reqwest",
    "hyper",
    "hyper_util",
    "http",
    "rusqlite",
    "rdkafka",
    "rand",
    "fastrand",
    "getrandom",
    "tracing",
    "tracing_subscriber",
    "log",
    "backoff",
    "indicatif",
    "clap",
    "std::fs",
    "std::env",
    "std::net",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::time::UNIX_EPOCH",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
    "std::os",
    "std::hash::RandomState",
    "std::*",
];

/// Functions that read a clock, whatever the type is called here.
const CLOCKS: [&str; 4] = ["now", "now_utc", "now_local", "elapsed"];

/// Macros that print.
const PRINTS: [&str; 5] = ["print!", "println!", "eprint!", "eprintln!", "dbg!"];

/// Crates that one file alone may use, and why.
const KEPT_APART: [(&str, &str); 1] = [("backoff", "connector/src/run/backoff.rs")];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 8] = ["utils", "util", "types", "common", "helpers", "helper", "misc", "core"];

/// Lines outside of tests at which a file has to be split.
const LINES: usize = 500;

/// Judges one source of the library or of the handler. `file` is its path from the repository's root.
pub(crate) fn check(file: &str, text: &str) -> Vec<Violation> {
    let source = Source::read(text);
    let mut found = Vec::new();
    let mut add = |line: usize, rule: String| found.push(Violation { file: file.to_owned(), line, rule });
    if source.lines > LINES {
        add(LINES, format!("{} lines outside of tests: split the file at {LINES}", source.lines));
    }
    if !text.starts_with("//!") {
        add(1, "expected a header (`//!`) that says what the file does and what it never does".to_owned());
    }
    let module = module_of(file);
    if let Some(name) = module.iter().find(|name| EMPTY_NAMES.contains(&name.as_str())) {
        add(1, format!("`{name}` says nothing about what is inside: name the file after its main noun"));
    }
    if file.starts_with("connector/src/") && !IMPORTS.iter().any(|(name, _)| *name == module[0]) {
        add(1, format!("`{}` is no part of the library that this test knows: give it its place in the import order", module[0]));
    }
    for path in source.paths() {
        for (name, home) in KEPT_APART {
            if path.segments[0] == name && file != home {
                add(path.line, format!("`{name}` is used by {home} alone"));
            }
        }
        if file.starts_with("connector/src/") {
            check_layer(&module, &path, &mut add);
        }
    }
    found
}

fn check_layer(module: &[String], path: &PathUse, add: &mut impl FnMut(usize, String)) {
    let part = module[0].as_str();
    let Some((_, allowed)) = IMPORTS.iter().find(|(name, _)| *name == part) else { return };
    if let Some(target) = target(module, path) {
        let known = IMPORTS.iter().any(|(name, _)| *name == target);
        if known && target != part && !allowed.contains(&target.as_str()) {
            let may = if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") };
            add(path.line, format!("`{part}` must not import `{target}`; it may import {may}"));
        }
        if target == "*" {
            add(path.line, "a glob of the whole crate hides what is imported: name the modules".to_owned());
        }
        return;
    }
    if !PURE.contains(&part) {
        return;
    }
    let named = path.segments.join("::").replacen("core::", "std::", 1);
    let touches = |impure: &&&str| {
        let below = named.strip_prefix(**impure).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
        // A glob over the parent brings the name in as well; its siblings are innocent.
        let glob = impure.rsplit_once("::").is_some_and(|(parent, _)| parent != "std" && named == format!("{parent}::*"));
        below || glob
    };
    if let Some(impure) = IMPURE.iter().find(touches) {
        add(
            path.line,
            format!(
                "`{part}` is pure and must not use `{impure}`: take the value as an argument, or move the effect to an edge or to run/"
            ),
        );
    }
    if path.segments.len() > 1 && path.segments.last().is_some_and(|last| CLOCKS.contains(&last.as_str())) {
        add(path.line, format!("`{part}` is pure and must not read the clock (`{named}`): take the time as an argument"));
    }
    if path.segments.last().is_some_and(|last| PRINTS.contains(&last.as_str())) {
        add(path.line, format!("`{part}` is pure and must not print"));
    }
}

/// The part of the library that a path names; `None` for another crate, and for a name that a `use` brought in.
fn target(module: &[String], path: &PathUse) -> Option<String> {
    let first = path.segments[0].as_str();
    match first {
        "crate" | "revsync" => path.segments.get(1).cloned(),
        "self" => Some(module[0].clone()),
        "super" => {
            let up = path.segments.iter().take_while(|segment| *segment == "super").count();
            if up >= module.len() { path.segments.get(up).cloned() } else { Some(module[0].clone()) }
        }
        _ => None,
    }
}

/// The module of a file, from the crate's root: `plan/outcome.rs` is `plan`, `outcome`.
fn module_of(file: &str) -> Vec<String> {
    let inside = file.split_once("/src/").map_or(file, |(_, inside)| inside);
    let bare = inside.strip_suffix(".rs").unwrap_or(inside);
    let bare = bare.strip_suffix("/mod").unwrap_or(bare);
    bare.split('/').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(file: &str, code: &str) -> Vec<String> {
        check(&format!("connector/src/{file}"), &format!("//! A header.\n{code}")).iter().map(ToString::to_string).collect()
    }

    fn refuses(file: &str, code: &str, about: &str) {
        let found = rules(file, code);
        assert_eq!(found.len(), 1, "{file}: {code}: {found:?}");
        assert!(
            found[0].starts_with(&format!("connector/src/{file}:2: ")) && found[0].contains(about),
            "{found:?} should speak of {about}"
        );
    }

    #[test]
    fn imports_point_one_way() {
        for (file, code, about) in [
            ("plan/batch.rs", "use crate::run::deliver;", "`plan` must not import `run`"),
            ("plan/batch.rs", "use crate::sink::Sink;", "`plan` must not import `sink`"),
            ("plan/batch.rs", "use crate::aws::Aws;", "`plan` must not import `aws`"),
            ("codec/qldb.rs", "use crate::plan::limits;", "`codec` must not import `plan`"),
            ("codec/qldb.rs", "fn f() { crate::config::load(); }", "`codec` must not import `config`"),
            ("sink/opensearch/client.rs", "use crate::source::capture;", "`sink` must not import `source`"),
            ("sink/local.rs", "use super::super::store;", "`sink` must not import `store`"),
            ("store/dead_letters/file.rs", "use crate::{error, sink};", "`store` must not import `sink`"),
            ("source/mod.rs", "use super::sink::Sink;", "`source` must not import `sink`"),
            ("run/deliver.rs", "use crate::config::Settings;", "`run` must not import `config`"),
            ("run/deliver.rs", "use crate::cli;", "`run` must not import `cli`"),
            ("config/mod.rs", "use crate::cli::options;", "`config` must not import `cli`"),
            ("record.rs", "use crate::revision::Revision;", "`record` must not import `revision`"),
            ("error.rs", "use crate::record::Fault;", "`error` must not import `record`; it may import nothing"),
            ("metrics.rs", "use crate::error::Error;", "`metrics` must not import `error`"),
            ("main.rs", "use revsync::*;", "glob"),
        ] {
            refuses(file, code, about);
        }
    }

    #[test]
    fn a_new_part_needs_a_place_in_the_order() {
        let found = rules("journal/mod.rs", "use std::fmt; use std::io;");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("`journal` is no part"), "{found:?}");
    }

    #[test]
    fn imports_to_the_left_are_fine() {
        for (file, code) in [
            ("plan/batch.rs", "use crate::operation::Operation; use super::outcome; use crate::codec::kpl; use self::inner::A;"),
            ("sink/opensearch/reply.rs", "use super::client::Client; use crate::plan::outcome::Reply; use super::super::Hit;"),
            ("run/deliver.rs", "use crate::{sink::Sink, source, store::dead_letters};"),
            ("cli/mod.rs", "use crate::config::Settings; use crate::run;"),
            ("main.rs", "use revsync::cli;"),
            ("sink/mod.rs", "//! [`crate::source`] hands records over.\nconst A: &str = \"crate::source\";"),
            ("plan/batch.rs", "#[cfg(test)]\nmod tests { use crate::sink::Sink; use std::fs; }"),
        ] {
            assert_eq!(rules(file, code), [] as [&str; 0], "{file}: {code}");
        }
    }

    #[test]
    fn pure_code_touches_nothing() {
        for file in ["plan/batch.rs", "codec/kpl.rs", "operation.rs"] {
            for (code, about) in [
                ("use tokio::sync::Mutex;", "`tokio`"),
                ("use std::fs;", "`std::fs`"),
                ("use std::{fmt, env};", "`std::env`"),
                ("fn f() { std::net::TcpStream::connect(a); }", "`std::net`"),
                ("use std::time::{Duration, Instant};", "`std::time::Instant`"),
                ("use std::time::*;", "`std::time::Instant`"),
                ("use core::*;", "`std::*`"),
                ("use aws_config::Region;", "`aws_config`"),
                ("use rand::Rng;", "`rand`"),
                ("fn f() { tracing::info!(\"x\"); }", "`tracing`"),
                ("fn f() { println!(\"x\"); }", "must not print"),
                ("fn f() { OffsetDateTime::now_utc(); }", "must not read the clock"),
                ("use hyper::body::Bytes;", "`hyper`"),
            ] {
                refuses(file, code, about);
            }
        }
        for code in ["use std::time::Duration;", "use std::fmt;", "use logos::x;", "use std::io::Read;", "fn f() { x.fs(); env!(\"A\"); }"]
        {
            assert_eq!(rules("plan/batch.rs", code), [] as [&str; 0], "{code}");
        }
        assert_eq!(rules("sink/local.rs", "use tokio::sync::Mutex; use std::fs;"), [] as [&str; 0]);
    }

    #[test]
    fn the_back_off_crate_stays_in_its_file() {
        refuses("run/deliver.rs", "use backoff::ExponentialBackoff;", "`backoff` is used by connector/src/run/backoff.rs alone");
        assert_eq!(rules("run/backoff.rs", "use backoff::ExponentialBackoff;"), [] as [&str; 0]);
        assert_eq!(rules("run/deliver.rs", "use super::backoff::Waits;"), [] as [&str; 0]);
    }

    #[test]
    fn a_file_of_more_than_500_lines_is_split_and_tests_do_not_count() {
        let lines = |count: usize| format!("//! A header.\n{}", "fn a() {}\n".repeat(count - 1));
        assert_eq!(check("lambda/src/handler.rs", &lines(500)), []);
        let found = check("lambda/src/handler.rs", &lines(501));
        assert!(found[0].rule.contains("501 lines"), "{found:?}");
        let tested = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", lines(500), "fn a() {}\n".repeat(300));
        assert_eq!(check("lambda/src/handler.rs", &tested), []);
    }

    #[test]
    fn files_have_a_header_and_a_name_that_says_something() {
        assert!(check("connector/src/plan/a.rs", "use std::fmt;")[0].rule.contains("header"));
        assert!(check("connector/src/plan/utils.rs", "//! A header.")[0].rule.contains("`utils`"));
    }
}
