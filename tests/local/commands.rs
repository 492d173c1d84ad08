//! The command end to end, into the local index and into bulk lines.

use std::path::Path;

use revsync::sink::local::Local;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::command::{Folder, fixture, revision};

/// Every form in which a captured stream may come, by the end of its file name.
const FORMS: [&str; 6] = ["10n", "ion", "jsonl", "lambda-event.json", "get-records.json", "kpl"];

fn index(folder: &Folder) -> Local {
    Local::open_existing(&folder.path().join("revsync.db")).unwrap()
}

#[test]
fn the_documentations_example_is_one_document_through_every_form_of_input() {
    for form in FORMS {
        for packed in ["", ".gz"] {
            let folder = Folder::new();
            let done = folder.revsync(&["--json", "sync", &fixture(&format!("qldb/documentation.{form}{packed}"))]).balanced();
            assert_eq!((done.exit, done.count("indexed"), done.count("received")), (0, 1, 4), "{form}{packed}: {done:?}");
            let (version, source) = index(&folder).get("vehicle_registration", "QFPyEPhFTCo58PlnvQ6VkS").unwrap().unwrap();
            assert_eq!(version, 0);
            assert!(source.contains("\"PendingPenaltyTicketAmount\":90.25,"), "{source}");
            assert!(source.contains("\"ValidFromDate\":\"2017-08-21\""), "{source}");
        }
    }
}

#[test]
fn the_recorded_stream_comes_to_its_known_state_through_every_form_and_from_standard_input() {
    let expected: Value = serde_json::from_slice(&std::fs::read(fixture("vehicle-registration/expected.json")).unwrap()).unwrap();
    let forms = ["stream.10n", "stream.ion", "stream.jsonl", "lambda-event.json", "get-records.json"];
    for form in forms {
        let path = fixture(&format!("vehicle-registration/{form}"));
        let (from_file, from_stdin) = (Folder::new(), Folder::new());
        let done = from_file.revsync(&["--json", "sync", &path]).balanced();
        assert_eq!((done.exit, &done.json()["received"]), (0, &expected["counts"]["received"]), "{form}: {done:?}");
        let piped = from_stdin.revsync_with(&["--json", "sync", "-"], &[], &std::fs::read(&path).unwrap()).balanced();
        assert_eq!(piped.exit, 0, "{form}: {piped:?}");
        for folder in [&from_file, &from_stdin] {
            let index = index(folder);
            for table in ["person", "vehicle_registration"] {
                let documents = expected[table].as_object().unwrap();
                assert_eq!(index.count(table).unwrap(), documents.len() as u64, "{form}: {table}");
                for (id, document) in documents {
                    let (version, source) = index.get(table, id).unwrap().unwrap_or_else(|| panic!("{form}: {table}/{id} is missing"));
                    assert_eq!(Some(version), document["version"].as_u64(), "{form}: {table}/{id}");
                    assert_eq!(serde_json::from_str::<Value>(&source).unwrap(), document["source"], "{form}: {table}/{id}");
                }
            }
        }
    }
}

#[test]
fn decimals_keep_their_digits_in_the_index() {
    let folder = Folder::new();
    folder.write("s.ion", revision("T", "a", 0, Some("{A:442.30,B:100.,C:1d3,D:12345678901234567890.123456789,E:18446744073709551616}")));
    assert_eq!(folder.revsync(&["sync", "s.ion"]).exit, 0);
    let (_, source) = index(&folder).get("t", "a").unwrap().unwrap();
    assert_eq!(source, r#"{"A":442.30,"B":100.0,"C":1e3,"D":12345678901234567890.123456789,"E":18446744073709551616}"#);
}

#[test]
fn running_the_same_sync_twice_changes_nothing() {
    let folder = Folder::new();
    let path = fixture("vehicle-registration/stream.10n");
    let first = folder.revsync(&["--json", "sync", &path]).balanced();
    let second = folder.revsync(&["--json", "sync", &path]).balanced();
    assert!(first.count("indexed") > 0);
    assert_eq!((second.exit, second.count("indexed"), second.count("deleted"), second.count("absent")), (0, 0, 0, 0), "{second:?}");
    assert_eq!(second.count("stale"), first.count("indexed") + first.count("deleted") + first.count("absent"));
}

#[test]
fn running_the_same_sync_twice_writes_the_same_bulk_lines() {
    let folder = Folder::new();
    let path = fixture("vehicle-registration/stream.jsonl.gz");
    folder.revsync(&["sync", &path, "--to", "bulk:first"]);
    let second = folder.revsync(&["sync", &path, "--to", "bulk:second"]);
    let to_stdout = folder.revsync(&["--json", "sync", &path, "--to", "bulk:-"]);
    assert_eq!(second.exit, 0);
    assert_eq!(folder.read("first"), folder.read("second"));
    assert_eq!(folder.read("first"), to_stdout.out.as_bytes());
    assert!(
        serde_json::from_str::<Value>(&to_stdout.err).unwrap()["received"].is_u64(),
        "the counts go to standard error: {}",
        to_stdout.err
    );
    assert!(to_stdout.out.lines().all(|line| serde_json::from_str::<&RawValue>(line).is_ok()));
}

#[test]
fn a_stream_of_records_in_any_order_comes_to_the_same_index() {
    let lines: Vec<String> = (0..6u64)
        .flat_map(|id| (0..4u64).map(move |version| (id, version)))
        .map(|(id, version)| {
            let data = format!("{{N:{version}}}");
            revision("T", &format!("d{id}"), version, if version == 3 && id % 2 == 0 { None } else { Some(&data) })
        })
        .collect();
    let state = |order: &[usize]| {
        let folder = Folder::new();
        folder.write("s.ion", order.iter().map(|i| lines[*i].as_str()).collect::<String>());
        // A request for each operation: what a batch would compact is really written.
        assert_eq!(folder.revsync(&["--json", "sync", "s.ion", "--request-operations", "1"]).balanced().exit, 0);
        let index = index(&folder);
        (0..6).map(|id| index.get("t", &format!("d{id}")).unwrap()).collect::<Vec<_>>()
    };
    let sorted: Vec<usize> = (0..lines.len()).collect();
    let backwards: Vec<usize> = sorted.iter().rev().copied().collect();
    let strided: Vec<usize> = sorted.iter().map(|i| i * 7 % lines.len()).chain(sorted.iter().map(|i| i * 5 % lines.len())).collect();
    let expected = state(&sorted);
    assert_eq!(expected.iter().filter(|document| document.is_some()).count(), 3);
    assert_eq!(state(&backwards), expected);
    assert_eq!(state(&strided), expected);
}

#[test]
fn a_corrupt_record_is_a_dead_letter_with_its_offset_and_the_rest_is_indexed() {
    let folder = Folder::new();
    let lines = [revision("T", "a", 0, Some("{A:1}")), "{\"Data\":\"%%%\"}\n".into(), revision("T", "b", 0, Some("{A:2}"))];
    let good = |line: &str| {
        use base64::Engine;
        format!("{{\"Data\":\"{}\"}}\n", base64::engine::general_purpose::STANDARD.encode(line))
    };
    let bad_at = good(&lines[0]).len();
    folder.write("s.jsonl", [good(&lines[0]), lines[1].clone(), good(&lines[2])].concat());
    let done = folder.revsync(&["--json", "sync", "s.jsonl"]).balanced();
    assert_eq!((done.exit, done.count("indexed"), done.count("dead_letters")), (1, 2, 1), "{done:?}");
    let listed = folder.revsync(&["--json", "dead-letters", "list"]).json();
    let offset = listed["dead_letters"][0]["position"]["byte"]["offset"].as_u64().unwrap() as usize;
    assert!((bad_at..bad_at + lines[1].len()).contains(&offset), "{listed}");
}

#[test]
fn a_damaged_ion_stream_keeps_everything_before_the_damage_and_says_where_it_is() {
    let folder = Folder::new();
    let mut bytes = std::fs::read(fixture("vehicle-registration/stream.10n")).unwrap();
    bytes.truncate(bytes.len() - 10);
    folder.write("s.10n", &bytes);
    let done = folder.revsync(&["--json", "sync", "s.10n"]).balanced();
    assert_eq!(done.exit, 2, "{done:?}");
    assert!(done.count("indexed") > 0);
    assert!(done.err.contains("s.10n") && done.err.contains("byte"), "{}", done.err);
}

#[test]
fn a_dead_letter_that_cannot_be_stored_is_found_before_anything_is_read() {
    let folder = Folder::new();
    let done = folder.revsync(&["sync", &fixture("vehicle-registration/stream.10n"), "--dead-letters", "file:nowhere/letters.jsonl"]);
    assert_eq!(done.exit, 2);
    assert!(!folder.path().join("revsync.db").exists());
}

#[test]
fn two_tables_that_come_to_one_index_stop_the_run() {
    let folder = Folder::new();
    folder.write("s.ion", [revision("ATable", "a", 0, Some("{A:1}")), revision("a_table", "b", 0, Some("{A:2}"))].concat());
    let done = folder.revsync(&["--json", "sync", "s.ion"]).balanced();
    assert_eq!((done.exit, done.count("indexed"), done.count("pending")), (2, 1, 1), "{done:?}");
    assert!(done.err.contains("\"ATable\"") && done.err.contains("\"a_table\""), "{}", done.err);
    assert_eq!(index(&folder).get("a_table", "b").unwrap(), None);
}

#[test]
fn rules_choose_tables_fields_and_names() {
    let folder = Folder::new();
    folder.write(
        "rules.toml",
        "[[table]]\nname = \"Pers*\"\nindex = \"people\"\nfields = [\"Name\"]\nmetadata_field = \"_ledger\"\ndeletes = \"keep\"\n",
    );
    let records = [
        revision("Person", "a", 0, Some("{Name:\"x\",Secret:1}")),
        revision("Person", "a", 1, None),
        revision("Other", "b", 0, Some("{}")),
    ];
    folder.write("s.ion", records.concat());
    let done = folder.revsync(&["--json", "--config", "rules.toml", "sync", "s.ion"]).balanced();
    assert_eq!((done.exit, done.count("indexed")), (0, 1), "{done:?}");
    assert_eq!(done.json()["skipped"], serde_json::json!({"filtered": 1, "unmapped": 1}));
    let (_, source) = index(&folder).get("people", "a").unwrap().unwrap();
    let document: Value = serde_json::from_str(&source).unwrap();
    assert_eq!((&document["Name"], &document["Secret"]), (&"x".into(), &Value::Null));
    assert_eq!((&document["_ledger"]["table"], &document["_ledger"]["version"]), (&"Person".into(), &0.into()));
}

#[test]
fn hashes_are_verified_on_request() {
    let folder = Folder::new();
    let path = fixture("vehicle-registration/stream.10n");
    let right = folder.revsync(&["--json", "sync", &path, "--verify-hashes"]).balanced();
    assert_eq!((right.exit, right.count("dead_letters")), (0, 0), "{right:?}");
    let mut text = std::fs::read_to_string(fixture("vehicle-registration/stream.ion")).unwrap();
    let at = text.find("Quillfeather").unwrap();
    text.replace_range(at..at + 1, "q");
    folder.write("changed.ion", text);
    let changed = folder.revsync(&["--json", "sync", "changed.ion", "--to", "local:changed.db", "--verify-hashes"]).balanced();
    assert_eq!((changed.exit, changed.count("dead_letters")), (1, 1), "{changed:?}");
    let listed = folder.revsync(&["--json", "dead-letters", "list"]).json();
    assert_eq!(listed["dead_letters"][0]["error"]["kind"], "hash_mismatch");
}

#[test]
fn explain_says_one_line_for_every_unit_and_writes_nothing() {
    let folder = Folder::new();
    let done = folder.revsync(&["explain", &fixture("vehicle-registration/lambda-event.json")]);
    assert_eq!((done.exit, done.out.lines().count()), (0, 75));
    assert!(std::fs::read_dir(folder.path()).unwrap().all(|entry| entry.unwrap().file_name() == ".input"));
    let json = folder.revsync(&["--json", "explain", &fixture("vehicle-registration/stream.10n")]);
    assert!(json.out.lines().all(|line| serde_json::from_str::<Value>(line).unwrap()["action"].is_string()));
}

#[test]
fn search_finds_what_was_synced() {
    let folder = Folder::new();
    folder.revsync(&["sync", &fixture("vehicle-registration/stream.10n")]);
    let hits = folder.revsync(&["--json", "search", "Quillfeather"]);
    let hit = &hits.json()["hits"][0];
    assert_eq!((hits.exit, &hit["index"], &hit["id"], &hit["version"]), (0, &"person".into(), &"VEgJSFUq2Mnj7VEIXJdI2Q".into(), &0.into()));
    assert_eq!(hit["source"]["FirstName"], "Maud");
    assert_eq!(folder.revsync(&["search", "nobodyhasthisname"]).exit, 1);
}

#[test]
fn an_inferred_mapping_takes_every_document_of_its_stream() {
    let folder = Folder::new();
    let done = folder.revsync(&["mapping", &fixture("vehicle-registration/stream.10n"), "--table", "VehicleRegistration"]);
    let properties = &done.json()["mappings"]["properties"];
    assert_eq!((done.exit, &properties["ValidFromDate"]["type"]), (0, &"date".into()), "{done:?}");
    assert_eq!(properties["PendingPenaltyTicketAmount"]["type"], "double");
}

#[test]
fn wrong_input_gives_one_clear_message_and_exit_code_2() {
    let folder = Folder::new();
    folder.write("picture.png", b"\x89PNG\r\n\x1a\n0000000000000000000000000000");
    folder.write("typo.toml", "[sink]\nurll = \"x\"\n");
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    let stream = fixture("vehicle-registration/stream.10n");
    let cases: [(&[&str], &str); 7] = [
        (&["sync", "nothing.ion"], "nothing.ion does not exist"),
        (&["sync", "picture.png"], "picture.png is not a captured stream"),
        (&["sync", "empty"], "empty is an empty directory"),
        (&["sync", &stream, "--to", "http://127.0.0.1:9"], "cannot reach 127.0.0.1:9: connection refused"),
        (&["sync", &stream, "--tu", "x"], "unexpected argument '--tu'"),
        (&["--config", "typo.toml", "sync", &stream], "typo.toml:2:1: unknown key \"urll\""),
        (&["sync", &stream, "--to", "localhost:9200"], "did you mean http://localhost:9200?"),
    ];
    for (arguments, message) in cases {
        let done = folder.revsync(arguments);
        assert_eq!((done.exit, done.out.as_str()), (2, ""), "{arguments:?}: {done:?}");
        assert!(done.err.contains(message), "{arguments:?}: {}", done.err);
        assert_eq!(done.err.matches("error:").count(), 1, "{arguments:?}: {}", done.err);
        assert!(!Path::new(&folder.path().join("revsync.db")).exists(), "{arguments:?} left an index behind");
    }
}

#[test]
fn search_shows_the_numbers_of_a_document_to_the_last_digit() {
    let folder = Folder::new();
    folder
        .write("s.ion", revision("T", "a", 0, Some("{City:\"Seattle\",B:442.30,A:12345678901234567890.123456789,C:18446744073709551616}")));
    folder.revsync(&["sync", "s.ion"]);
    let found = folder.revsync(&["--json", "search", "Seattle"]);
    let source = r#"{"City":"Seattle","B":442.30,"A":12345678901234567890.123456789,"C":18446744073709551616}"#;
    assert!(found.out.contains(source), "{found:?}");
}

#[test]
fn one_control_character_does_not_make_a_text_capture_unreadable() {
    let folder = Folder::new();
    let good = |id: &str| revision("T", id, 0, Some("{A:1}"));
    folder.write("s.ion", [good("a"), good("b").replace("A:1", "A:\"\u{1}\""), good("c")].concat());
    let done = folder.revsync(&["--json", "sync", "s.ion"]).balanced();
    assert_eq!((done.exit, done.count("received"), done.count("indexed"), done.count("dead_letters")), (1, 3, 2, 1), "{done:?}");
}

#[test]
fn explain_says_a_line_for_every_unit_before_the_one_that_stops_the_run() {
    let folder = Folder::new();
    folder.write("s.ion", ["A", "A", "a"].map(|table| revision(table, "x", 0, Some("{}"))).concat());
    let done = folder.revsync(&["explain", "s.ion"]);
    assert_eq!((done.exit, done.out.lines().count()), (2, 2), "{done:?}");
}

#[test]
fn bulk_lines_are_not_written_over_the_capture_that_they_come_from() {
    let folder = Folder::new();
    let capture = revision("T", "a", 0, Some("{}"));
    folder.write("s.ion", &capture);
    for arguments in [&["sync", "s.ion", "--to", "bulk:./s.ion"][..], &["sync", "s.ion", "--to", "bulk:x", "--dead-letters", "file:s.ion"]]
    {
        let done = folder.revsync(arguments);
        assert_eq!((done.exit, folder.read("s.ion")), (2, capture.clone().into_bytes()), "{done:?}");
        assert!(done.err.contains("are one file"), "{}", done.err);
    }
}

#[test]
fn a_worker_does_not_write_dead_letters_or_checkpoints_into_its_index() {
    let folder = Folder::new();
    assert_eq!(folder.revsync(&["sync", "-", "--to", "local:index.db"]).exit, 0);
    let index = folder.read("index.db");
    let run = ["run", "kinesis://s?region=eu-west-1&endpoint=http://127.0.0.1:1", "--http", "none", "--to", "local:index.db"];
    for files in [
        &["--dead-letters", "file:./index.db"][..],
        &["--dead-letters", "file:l", "--checkpoints", "file:index.db"],
        &["--dead-letters", "file:both", "--checkpoints", "file:both"],
    ] {
        let done = folder.revsync(&[&run[..], files].concat());
        assert_eq!((done.exit, folder.read("index.db") == index), (2, true), "{done:?}");
        assert!(done.err.contains("are one file"), "{}", done.err);
    }
}

#[test]
fn a_replay_without_an_id_sends_every_letter() {
    let folder = Folder::new();
    let long = "x".repeat(600);
    folder.write("s.ion", [revision("T", &long, 0, Some("{}")), revision("U", &long, 0, Some("{}"))].concat());
    assert_eq!(folder.revsync(&["--json", "sync", "s.ion"]).balanced().count("dead_letters"), 2);
    folder.write("rules.toml", "[[table]]\nname = \"*\"\nlong_ids = \"hash\"\n");
    let done = folder.revsync(&["--json", "--config", "rules.toml", "dead-letters", "replay"]).balanced();
    assert_eq!((done.exit, done.count("indexed")), (0, 2), "{done:?}");
    assert_eq!(folder.revsync(&["dead-letters", "list"]).out, "no dead letters\n");
}

/// Runs a command into a server that never answers and interrupts it; it ends with exit code 2 and the counts of nothing.
fn interrupted(folder: &Folder, arguments: &[&str]) {
    // When the connection has come, the signal is listened for.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("http://{}", silent.local_addr().unwrap());
    let mut command = folder.command(&[arguments, &["--to", &to]].concat(), &[]);
    let running = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let _connection = silent.accept().unwrap();
    let signalled = std::process::Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    let output = running.wait_with_output().unwrap();
    let counts: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &counts["received"]), (Some(2), &0.into()), "{output:?}");
}

#[test]
fn a_sync_that_is_interrupted_before_it_could_begin_exits_2_with_its_counts() {
    let folder = Folder::new();
    folder.write("s.ion", revision("T", "a", 0, Some("{}")));
    interrupted(&folder, &["--json", "sync", "s.ion"]);
}

#[test]
fn a_replay_that_is_interrupted_exits_2_with_its_counts_and_leaves_its_letters() {
    let folder = Folder::new();
    folder.write("s.ion", revision("T", &"x".repeat(600), 0, Some("{}")));
    assert_eq!(folder.revsync(&["sync", "s.ion"]).exit, 1);
    interrupted(&folder, &["--json", "dead-letters", "replay"]);
    assert_eq!(folder.revsync(&["--json", "dead-letters", "list"]).json()["dead_letters"].as_array().unwrap().len(), 1);
}

#[test]
fn a_run_whose_standard_error_nobody_reads_any_more_ends_as_any_other() {
    let folder = Folder::new();
    folder.write("s.ion", [revision("T", &"x".repeat(600), 0, Some("{}")), revision("T", "a", 0, Some("{}"))].concat());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_revsync"));
    let output = command.args(["--json", "sync", "s.ion"]).current_dir(folder.path()).env_clear().stderr(writer).output().unwrap();
    let counts: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &counts["indexed"], &counts["dead_letters"]), (Some(1), &1.into(), &1.into()), "{output:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn files_whose_names_are_no_text_are_told_apart() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("capture")).unwrap();
    for name in [b"a\xfe.ion", b"a\xff.ion"] {
        std::fs::write(folder.path().join("capture").join(OsStr::from_bytes(name)), "{recordType:\"NO_SUCH\"}").unwrap();
    }
    let done = folder.revsync(&["--json", "sync", "capture"]).balanced();
    assert_eq!((done.exit, done.count("dead_letters")), (1, 2), "{done:?}");
    let letters = folder.revsync(&["--json", "dead-letters", "list"]).json();
    assert_eq!(letters["dead_letters"].as_array().unwrap().len(), 2, "{letters}");
    assert!(done.err.contains("a\\xfe.ion") && done.err.contains("a\\xff.ion"), "{done:?}");
}
