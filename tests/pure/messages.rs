//! What people read: help, errors and reports, as the command prints them.

use revsync::cli::{Paint, Run, exit_of, human_report};
use revsync::config::SinkUrl;
use revsync::error::Exit;
use revsync::metrics::{Counts, Notes, Skip};
use revsync::operation::{Operation, Target};
use revsync::record::{Fault, Origin, Position};
use revsync::revision::{Document, VersionType};
use revsync::sink::Sink;
use revsync::sink::local::Local;
use revsync::store::dead_letters::{DeadLetter, DeadLetters, FORMAT_VERSION, Place, identify};

use crate::command::{Folder, revision};
use crate::golden::assert_golden;
#[cfg(feature = "local")]
use crate::ledger::{Ledger, Output, sealed};

/// One command as a person sees it: what was typed, what came out where, and the exit code.
fn transcript(folder: &Folder, arguments: &[&str], set: &[(&str, &str)]) -> String {
    let done = folder.revsync_with(arguments, set, b"");
    let mut lines = String::new();
    for (name, value) in set {
        lines.push_str(&format!("{name}={value} "));
    }
    lines.push_str(&format!("$ revsync {}\n{}", arguments.join(" "), done.out));
    for line in done.err.lines() {
        lines.push_str(format!("2> {line}").trim_end());
        lines.push('\n');
    }
    lines.push_str(&format!("=> {}\n\n", done.exit));
    lines
}

#[test]
fn help_is_the_golden_file() {
    let folder = Folder::new();
    let commands: [&[&str]; 25] = [
        &["--help"],
        &["sync", "--help"],
        &["kcl", "--help"],
        &["explain", "--help"],
        &["search", "--help"],
        &["query", "--help"],
        &["verify", "--help"],
        &["journal", "--help"],
        &["verify-journal", "--help"],
        &["mapping", "--help"],
        &["setup", "--help"],
        &["check", "--help"],
        &["sweep", "--help"],
        &["config", "--help"],
        &["config", "example", "--help"],
        &["dead-letters", "--help"],
        &["dead-letters", "list", "--help"],
        &["dead-letters", "show", "--help"],
        &["dead-letters", "replay", "--help"],
        &["checkpoints", "--help"],
        &["checkpoints", "list", "--help"],
        &["checkpoints", "rewind", "--help"],
        &["health", "--help"],
        &["completions", "--help"],
        &["--version"],
    ];
    let help: String = commands.iter().map(|arguments| transcript(&folder, arguments, &[])).collect();
    assert_golden("messages/help.txt", &help);
}

#[test]
fn mistakes_on_the_command_line_are_said_with_a_suggestion_and_exit_2() {
    let folder = Folder::new();
    folder.write("typo.toml", "[sink]\nurll = \"local:x.db\"\n");
    let here = |arguments: &[&str], set: &[(&str, &str)]| transcript(&folder, arguments, set);
    let mut said = String::new();
    said.push_str(&here(&["snyc", "x.ion"], &[]));
    said.push_str(&here(&["sync", "x.ion", "--too", "local:x.db"], &[]));
    said.push_str(&here(&["sync", "x.ion", "--to", "localhost:9200"], &[]));
    said.push_str(&here(&["sync", "x.ion", "--auth", "bsic"], &[]));
    said.push_str(&here(&["sync", "x.ion", "--linger", "5"], &[]));
    said.push_str(&here(&["sync", "x.ion", "--password", "hunter2"], &[]));
    said.push_str(&here(&["sync", "kinesis://ledger?regoin=eu-west-1"], &[]));
    said.push_str(&here(&["sync"], &[]));
    said.push_str(&here(&["sync", "x.ion", "--dead-letters", "letters.jsonl"], &[]));
    said.push_str(&here(&["check", "-", "--dead-letters", "kafka://h:9092/letters,more"], &[]));
    said.push_str(&here(&["check", "-", "--dead-letters", "sqs://sqs.eu-west-1.amazonaws.com/123456789012/letters"], &[]));
    said.push_str(&here(&["dead-letters", "list", "--dead-letters", "s3://Letters"], &[]));
    said.push_str(&here(&["explain", "kafka://h:9092"], &[]));
    said.push_str(&here(&["--config", "typo.toml", "check"], &[]));
    said.push_str(&here(&["--config", "missing.toml", "check"], &[]));
    said.push_str(&here(&["sync", "x.ion"], &[("REVSYNC_TO", "localhost:9200")]));
    said.push_str(&here(&["sync", "x.ion"], &[("REVSYNC_NO_GZIP", "perhaps")]));
    said.push_str(&here(&["search", "Seattle", "--to", "bulk:-"], &[]));
    said.push_str(&here(&["search", "Seattle", "--limit", "0"], &[]));
    said.push_str(&here(&["query"], &[]));
    said.push_str(&here(&["query", "x.ion"], &[]));
    said.push_str(&here(&["query", "SELECT * FROM Person"], &[]));
    said.push_str(&here(&["query", "x.ion", "SELECT Name FROM Person WHERE Name = "], &[]));
    said.push_str(&here(&["query", "x.ion", "SELECT * FROM stream EMIT CHANGES"], &[]));
    said.push_str(&here(&["--json", "query", "--csv", "x.ion", "SELECT * FROM stream"], &[]));
    said.push_str(&here(&["verify", "x.ion", "--to", "bulk:-"], &[]));
    said.push_str(&here(&["verify", "x.ion"], &[]));
    said.push_str(&here(&["dead-letters", "show"], &[]));
    said.push_str(&here(&["setup", "--to", "http://127.0.0.1:9"], &[]));
    folder.write("patterns.toml", "[[table]]\nname = \"shop.*\"\ndeletes = \"tombstone\"\n");
    folder.write("rules.toml", "[source]\nretention = \"30d\"\n[[table]]\nname = \"Person\"\ndeletes = \"tombstone\"\n");
    said.push_str(&here(&["sweep", "person"], &[]));
    said.push_str(&here(&["sweep", "--older-than", "30d"], &[]));
    said.push_str(&here(&["--config", "patterns.toml", "sweep", "--older-than", "30d"], &[]));
    said.push_str(&here(&["sweep", "--older-than", "1d", "person"], &[]));
    said.push_str(&here(&["--config", "rules.toml", "sweep", "--older-than", "29d"], &[]));
    said.push_str(&here(&["--config", "rules.toml", "sweep", "--older-than", "30d"], &[]));
    said.push_str(&here(&["sweep", "--older-than", "30d", "person", "--to", "bulk:-"], &[]));
    folder.write("s.ion", revision("Person", "a", 0, Some("{}")));
    said.push_str(&here(&["sync", "s.ion", "--to", "https://search.example.com", "--auth", "aoss"], &[]));
    assert!(!said.contains("=> 0"));
    assert_golden("messages/mistakes.txt", &said);
}

#[test]
fn values_of_the_environment_are_not_shown_in_help() {
    let folder = Folder::new();
    let set = [("REVSYNC_TO", "https://ann:hunter2@h"), ("REVSYNC_PASSWORD", "hunter2"), ("REVSYNC_PASSWORD_FILE", "hunter2")];
    let done = folder.revsync_with(&["sync", "--help"], &set, b"");
    assert!(done.exit == 0 && !done.out.contains("hunter2"));
}

#[test]
fn an_option_comes_before_its_variable_and_both_before_the_file() {
    let folder = Folder::new();
    folder.write("f.toml", "[sink]\nurl = \"local:file.db\"\n[dead_letters]\nurl = \"file:letters\"\n[source]\nurl = \"-\"\n");
    let sink = |arguments: &[&str], set: &[(&str, &str)]| {
        let arguments = [&["--json", "check"], arguments].concat();
        let checks = folder.revsync_with(&arguments, set, b"").json();
        checks["checks"].as_array().unwrap().iter().find(|one| one["what"] == "sink").unwrap()["found"].as_str().unwrap().to_owned()
    };
    let variables = [("REVSYNC_CONFIG", "f.toml"), ("REVSYNC_TO", "local:variable.db")];
    assert_eq!(sink(&[], &[]), "local:revsync.db will be created");
    assert_eq!(sink(&["--config", "f.toml"], &[]), "local:file.db will be created");
    assert_eq!(sink(&[], &variables), "local:variable.db will be created");
    assert_eq!(sink(&["--to", "local:option.db"], &variables), "local:option.db will be created");
}

#[test]
fn config_example_is_a_file_that_check_accepts() {
    let folder = Folder::new();
    folder.write("revsync.toml", folder.revsync(&["config", "example"]).out);
    let checked = folder.revsync(&["check", "--config", "revsync.toml", "-"]);
    assert_eq!(checked.exit, 0, "{checked:?}");
    assert!(checked.out.contains("✓ configuration"));
}

#[test]
fn check_names_all_that_is_wrong_at_once() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    let arguments = ["check", "empty", "--to", "local:no/such/x.db", "--dead-letters", "file:no/such/x.jsonl"];
    let checked = transcript(&folder, &arguments, &[]);
    assert_golden("messages/check.txt", &checked);
}

#[test]
fn check_is_content_without_a_source_as_a_function_that_is_handed_its_records_has_none() {
    let folder = Folder::new();
    let checked = folder.revsync(&["check", "--to", "bulk:-", "--dead-letters", "file:letters.jsonl"]);
    assert_eq!(checked.exit, 0, "{checked:?}");
    assert!(checked.out.contains("✓ source         none is named, and none was tried\n"), "{checked:?}");
}

#[test]
fn a_reader_that_goes_away_ends_a_command_quietly() {
    let folder = Folder::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = folder.command(&["config", "schema"], &[]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn a_flag_can_come_from_the_environment_and_be_switched_off_there() {
    let folder = Folder::new();
    let json = |set: &[(&str, &str)]| folder.revsync_with(&["dead-letters", "list"], set, b"").out.starts_with('{');
    assert_eq!([json(&[]), json(&[("REVSYNC_JSON", "true")]), json(&[("REVSYNC_JSON", "false")])], [false, true, false]);
    let noisy = folder.revsync_with(&["dead-letters", "list"], &[("REVSYNC_VERBOSE", "2")], b"");
    assert_eq!((noisy.exit, noisy.err.as_str()), (0, ""));
}

#[test]
fn completions_are_printed_for_every_shell() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let done = folder.revsync(&["completions", shell]);
        assert!(done.exit == 0 && done.out.contains("dead-letters"), "{shell}");
    }
}

#[test]
fn the_report_of_a_run_explains_what_it_counted() {
    let file = Place::File("revsync-dead-letters.jsonl".into());
    let elsewhere = Place::File("letters.jsonl".into());
    let local: SinkUrl = "local:revsync.db".parse().unwrap();
    let server: SinkUrl = "https://ann:hunter2@search.example.com".parse().unwrap();
    let bulk = SinkUrl::BulkFile("lines.ndjson".into());
    let all_well = Counts { received: 25, indexed: 24, skipped: [(Skip::BlockSummary, 1)].into(), bytes: 5_452_595, ..Counts::default() };
    let everything = Counts {
        received: 1_234_599,
        indexed: 1_200_000,
        deleted: 4_321,
        stale: 3,
        absent: 1,
        compacted: 5,
        skipped: Skip::ALL.into_iter().map(|reason| (reason, 5_043)).collect(),
        dead_letters: 10,
        pending: 1,
        bytes: 7_123_456_789,
        notes: Notes {
            duplicate_fields: 2,
            annotations: 3,
            non_finite: 1,
            lone_surrogates: 1,
            hashes_verified: 12_000,
            hashes_mismatched: 1,
            hashes_unchecked: 4_321,
        },
    };
    let letters = Counts { received: 2, indexed: 1, dead_letters: 1, bytes: 900, ..Counts::default() };
    let nothing_new = Counts { received: 2, stale: 2, bytes: 900, ..Counts::default() };
    let run = |counts, sink, dead_letters, seconds, complete| {
        human_report(&Run { counts, seconds, source: "capture/ledger.ion", sink, dead_letters, complete }, Paint(false))
    };
    let reports = [
        run(&all_well, &local, &file, 0.42, true),
        run(&nothing_new, &local, &file, 0.01, true),
        run(&letters, &server, &elsewhere, 12.0, true),
        run(&everything, &server, &file, 3_725.0, false),
        run(&all_well, &bulk, &file, 61.0, true),
        run(&Counts::default(), &local, &file, 0.0, true),
    ];
    assert_eq!([&all_well, &letters, &everything].map(exit_of), [Exit::Done, Exit::Attention, Exit::Failed]);
    assert_golden("messages/report.txt", &reports.join("\n----\n\n"));
}

fn letter(offset: u64, fault: Fault) -> DeadLetter {
    let origin = Origin { stream: "capture/ledger.ion".into(), shard: "capture/ledger.ion".into() };
    let position = Position::Byte { offset };
    let payload = bytes_of("{\"a\": \"text\"}");
    DeadLetter {
        v: FORMAT_VERSION,
        id: identify(&origin, &position, 0, None, &payload),
        time: "2024-05-06T07:08:09Z".into(),
        first_time: None,
        origin,
        position,
        unit: 0,
        part: 0,
        format: "qldb".into(),
        table: None,
        mode: None,
        document_id: None,
        version: None,
        index: None,
        action: None,
        attempts: 0,
        error: fault,
        first_error: None,
        connector: "0.1.0".into(),
        large: None,
        message: None,
        payload,
    }
}

fn bytes_of(text: &'static str) -> bytes::Bytes {
    bytes::Bytes::from_static(text.as_bytes())
}

#[tokio::test]
async fn dead_letters_are_listed_and_explained() {
    let folder = Folder::new();
    let path = folder.path().join("revsync-dead-letters.jsonl");
    let here = |arguments: &[&str]| transcript(&folder, arguments, &[]);
    let mut said = here(&["dead-letters", "list"]);
    let store = DeadLetters::in_file(&path).unwrap();
    let refused = DeadLetter {
        table: Some("Person".into()),
        mode: None,
        document_id: Some("7PiADsj9ZtNsmvzTVBJ\u{1b}[2J".into()),
        version: Some(3),
        index: Some("person".into()),
        action: Some("index".into()),
        attempts: 2,
        first_error: Some(Fault::new("rejected_execution_exception", "queue full")),
        ..letter(118, Fault::new("mapper_parsing_exception", "failed to parse field [DOB] of type [date]"))
    };
    let undecodable = letter(2_040, Fault::new("undecodable", "expected an Ion value, found bytes that are none"));
    let ids = [refused.id.clone(), undecodable.id.clone()];
    store.append(&[refused, undecodable]).await.unwrap();
    said.push_str(&here(&["dead-letters", "list"]));
    said.push_str(&here(&["--json", "dead-letters", "list"]));
    said.push_str(&here(&["dead-letters", "show", &ids[0][..6]]));
    said.push_str(&here(&["dead-letters", "show", &ids[1], "--payload"]));
    said.push_str(&here(&["--json", "dead-letters", "show", &ids[1], "--payload"]));
    said.push_str(&here(&["dead-letters", "show", "ffff"]));
    said.push_str(&here(&["dead-letters", "list", "--limit", "1"]));
    said.push_str(&here(&["dead-letters", "list", "--reason", "undecodable", "--before", "2024-06-01T00:00:00Z"]));
    said.push_str(&here(&["dead-letters", "list", "--table", "Vehicle*", "--after", "1h"]));
    said.push_str(&here(&["dead-letters", "list", "--after", "yesterday"]));
    said.push_str(&here(&["dead-letters", "replay", "--dry-run"]));
    said.push_str(&here(&["--json", "dead-letters", "replay", "--dry-run", "--table", "Person", "--to", "http://127.0.0.1:9"]));
    said.push_str(&here(&["dead-letters", "replay", "--to", "http://127.0.0.1:9"]));
    said.push_str(&here(&["dead-letters", "replay", "--to", "http://127.0.0.1:9", "--force"]));
    std::fs::write(&path, [std::fs::read(&path).unwrap().as_slice(), b"{\"v\":9}\n{\"v\":1,\"id\":\"to"].concat()).unwrap();
    said.push_str(&here(&["dead-letters", "list"]));
    assert_golden("messages/dead_letters.txt", &said);
}

#[tokio::test]
async fn search_finds_documents_as_grep_finds_lines() {
    let folder = Folder::new();
    let local = Local::open(&folder.path().join("revsync.db")).unwrap();
    let put = |index: &str, id: &str, version, document| {
        let target = Target { index: index.into(), id: id.to_owned(), version, version_type: VersionType::External, routing: None };
        Operation::Index { target, document: Document(bytes_of(document)) }
    };
    let documents = [
        put("person", "7PiADsj9Zt", 3, r#"{"FirstName":"Raul","Address":"1719 University Street, Seattle, WA, 98109"}"#),
        put("vehicle", "Hm3Hu2aVRn", 0, r#"{"Make":"Ford","Model":"F 150","Year":2019}"#),
    ];
    local.write(documents.into()).await.unwrap();
    local.finish().await.unwrap();
    drop(local);
    let here = |arguments: &[&str]| transcript(&folder, arguments, &[]);
    let mut said = here(&["search", "seattle"]);
    let scored = folder.revsync(&["search", "--json", "ford"]).json();
    assert_eq!(scored["hits"][0]["source"]["Model"], "F 150");
    assert_eq!((&scored["hits"][0]["id"], &scored["hits"][0]["version"]), (&"Hm3Hu2aVRn".into(), &0.into()));
    said.push_str(&here(&["search", "--index", "vehicle", "seattle"]));
    said.push_str(&here(&["--json", "search", "nothing", "like", "it"]));
    said.push_str(&here(&["search", "x", "--to", "local:missing.db"]));
    said.push_str(&here(&["search", "?"]));
    said.push_str(&here(&["check", "-"]));
    assert_golden("messages/search.txt", &said);
}

/// What a command says, without the time that it took.
fn timeless(said: &str) -> String {
    let line = |line: &str| match line.strip_suffix(" s)").and_then(|line| line.rsplit_once(", ")) {
        Some((before, _)) => format!("{before}, 0.0 s)"),
        None => line.to_owned(),
    };
    said.lines().map(|text| line(text) + "\n").collect()
}

#[cfg(feature = "local")]
#[test]
fn what_the_audit_of_a_journal_says_is_the_golden_file() {
    let folder = Folder::new();
    let export = |name: &str, ledger: &Ledger, output| {
        for (at, file) in ledger.export(&folder.path().join(".bucket"), output, 10).iter().enumerate() {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
            std::fs::rename(file, folder.path().join(name).join(at.to_string())).unwrap();
        }
    };
    let good = Ledger::new(1, 40);
    export("export", &good, Output::IonText);
    export("json", &good, Output::Json);
    let mut gaps = good.part(3..40);
    gaps.blocks.drain(10..13);
    gaps.blocks.remove(5);
    export("gaps", &gaps, Output::IonBinary);
    let mut changed = Ledger::new(2, 20);
    let value = changed.blocks[7].value.to_string().replace("VIN: \"", "VIN: \"9").replace("Name: \"", "Name: \"9");
    changed.blocks[7].value = ion_rs::Element::read_one(value).unwrap();
    changed.blocks[12].value = sealed(&changed.blocks[12].value, &[7; 32]);
    export("changed", &changed, Output::IonBinary);
    let stream = changed.stream();
    folder.write(
        "stream.10n",
        stream.iter().enumerate().filter(|(at, _)| at % 9 != 5).flat_map(|(_, record)| record.clone()).collect::<Vec<u8>>(),
    );
    let mut said = String::new();
    for arguments in [
        ["journal", "export"],
        ["journal", "gaps"],
        ["journal", "stream.10n"],
        ["verify-journal", "export"],
        ["verify-journal", "json"],
        ["verify-journal", "changed"],
        ["verify-journal", "stream.10n"],
    ] {
        said.push_str(&transcript(&folder, &arguments, &[]));
    }
    assert_golden("messages/journal.txt", &timeless(&said));
}
