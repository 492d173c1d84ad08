//! The log of the command: how much is heard of which command, in which form, and that one event is one line.

use serde_json::Value;

use crate::command::{Done, Folder, revision};

/// A child of the KCL whose daemon goes away at once: it has told by then where it answers.
const KCL: [&str; 10] =
    ["kcl", "--to", "local:x.db", "--dead-letters", "file:letters", "--name", "ledger", "--http", "127.0.0.1:0", "--no-gzip"];

fn json(done: &Done) -> Vec<Value> {
    done.err.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// A capture with a revision that can only become a dead letter, because no index can have this name.
fn capture(folder: &Folder, table: &str) {
    folder.write("s.ion", revision(table, "a", 0, Some("{secret:\"quokka\"}")));
}

#[test]
fn what_lives_on_tells_what_it_does_and_when_and_what_ends_tells_only_what_is_wrong() {
    let folder = Folder::new();
    let done = folder.revsync(&KCL);
    let line = done.err.lines().find(|line| line.contains("http: answers at http://127.0.0.1:")).unwrap_or_else(|| panic!("{done:?}"));
    assert!(line.starts_with("20") && line.contains(" INFO "), "{line}");
    assert!(!line.contains("127.0.0.1:0/"), "the port that was free is told: {line}");
    assert_eq!(folder.revsync(&[&KCL[..], &["--quiet"]].concat()).err, "");
    capture(&folder, &"x".repeat(300));
    let done = folder.revsync(&["sync", "s.ion"]);
    assert!(done.err.trim_start().starts_with("WARN dead letter") && done.err.lines().count() == 1, "{done:?}");
}

#[test]
fn each_line_is_an_object_where_that_is_asked_for() {
    let folder = Folder::new();
    capture(&folder, &"x".repeat(300));
    folder.write("json.toml", "log_format = \"json\"\n");
    for (arguments, set) in [
        (&["--log-format", "json", "sync", "s.ion"][..], &[][..]),
        (&["sync", "s.ion"], &[("REVSYNC_LOG_FORMAT", "json")]),
        (&["--config", "json.toml", "sync", "s.ion"], &[]),
    ] {
        let lines = json(&folder.revsync_with(arguments, set, b""));
        let [letter] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((&letter["level"], letter["so_far"].as_u64()), (&Value::from("WARN"), Some(1)), "{arguments:?}");
        assert!(
            letter["message"].as_str().unwrap().starts_with("dead letter: ") && letter["timestamp"].as_str().unwrap().starts_with("20")
        );
    }
    let text = folder.revsync(&["--config", "json.toml", "--log-format", "text", "sync", "s.ion"]);
    assert!(text.err.contains("WARN dead letter"), "an option comes before the file: {}", text.err);
    let lines = json(&folder.revsync(&[&KCL[..], &["--log-format", "json"]].concat()));
    assert!(lines.iter().any(|line| line["level"] == "INFO" && line["address"].as_str().is_some()), "{lines:?}");
}

#[test]
fn what_ends_a_command_is_an_object_too_with_what_to_do() {
    let folder = Folder::new();
    let done = folder.revsync(&["--log-format", "json", "sync", "missing.ion"]);
    let lines = json(&done);
    assert_eq!((done.exit, lines.len(), &lines[0]["level"]), (2, 1, &Value::from("ERROR")), "{done:?}");
    assert!(lines[0]["message"].as_str().unwrap().contains("missing.ion"), "{done:?}");
    let done = folder.revsync(&["--log-format", "json", "kcl", "--to", "local:x.db"]);
    assert!(json(&done)[0]["help"].as_str().unwrap().contains("--dead-letters"), "{done:?}");
    let done = folder.revsync(&["--config", "missing.toml", "sync", "s.ion"]);
    assert!(done.exit == 2 && done.err.starts_with("error: "), "{done:?}");
}

#[test]
fn a_name_with_line_breaks_forges_no_line() {
    let folder = Folder::new();
    capture(&folder, &r"\n2026 ERROR a forged line\r\x1b[31m".repeat(20));
    for format in ["text", "json"] {
        let done = folder.revsync(&["--log-format", format, "sync", "s.ion"]);
        let lines: Vec<&str> = done.err.split(['\n', '\r', '\u{1b}']).filter(|line| line.contains("forged")).collect();
        assert!(
            matches!(lines[..], [line] if line.contains("dead letter: ") && line.contains("invalid_index_name")),
            "{format}: {}",
            done.err
        );
        assert!(!done.err.contains("quokka"), "{format}: {}", done.err);
    }
}

#[test]
fn a_form_that_is_none_is_said_with_those_that_are() {
    let folder = Folder::new();
    let done = folder.revsync(&["--log-format", "xml", "check"]);
    assert!(done.exit == 2 && done.err.contains("text, json"), "{done:?}");
    folder.write("xml.toml", "log_format = \"xml\"\n");
    let done = folder.revsync(&["--config", "xml.toml", "check"]);
    assert!(done.exit == 2 && done.err.contains("xml.toml:1:14: log_format: unknown value \"xml\""), "{done:?}");
}

#[test]
fn a_port_in_use_and_an_address_that_is_none_end_it_with_2() {
    let folder = Folder::new();
    let with = |http: &str| {
        let arguments: Vec<&str> = KCL.iter().map(|argument| if *argument == "127.0.0.1:0" { http } else { argument }).collect();
        folder.revsync(&arguments)
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let used = listener.local_addr().unwrap().to_string();
    let done = with(&used);
    assert!(done.exit == 2 && done.err.contains(&format!("error: http: {used} cannot be listened at: Address already in use")), "{done:?}");
    assert!(done.err.contains("help: ") && done.err.contains("--http"), "{done:?}");
    let done = with("localhost:8080");
    assert!(done.exit == 2 && done.err.contains("an IP address with a port"), "{done:?}");
    folder.write("http.toml", "[http]\nlisten = \"8080\"\n");
    let done = folder.revsync(&["--config", "http.toml", "check"]);
    assert!(done.exit == 2 && done.err.contains("http.toml:2:10: http.listen: expected an IP address with a port"), "{done:?}");
}
