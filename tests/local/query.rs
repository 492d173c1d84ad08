//! The command `query` end to end, on captured streams: its rows in every form, and how it ends.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::command::{Done, Folder, fixture, revision};
use crate::qldb_stream::{Does, binary, control, put, revision as value};

/// The rows of a query as JSON.
fn rows(folder: &Folder, arguments: &[&str]) -> Vec<Value> {
    let done = folder.revsync(&[&["--json", "query"], arguments].concat());
    assert!(done.exit < 2, "{done:?}");
    lines(&done)
}

fn lines(done: &Done) -> Vec<Value> {
    done.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// How a query ended, without the time that it took.
fn ended(done: &Done) -> String {
    let (said, _) = done.err.split_once(" (").unwrap_or_else(|| panic!("{done:?}"));
    said.to_owned()
}

/// Two people, one of whom is deleted, and a car.
fn capture() -> String {
    [
        revision("Person", "a", 0, Some("{Name:\"Ada\",City:\"Kent\",Fee:442.30}")),
        revision("Person", "b", 0, Some("{Name:\"Bo\"}")),
        revision("Car", "c", 0, Some("{Plate:\"X 1\",Owners:[{Id:\"a\"},{Id:\"b\"}]}")),
        revision("Person", "a", 1, None),
    ]
    .concat()
}

#[test]
fn every_column_of_a_revision_is_as_the_committed_view_has_it() {
    let folder = Folder::new();
    let path = fixture("qldb/documentation.10n");
    let all = rows(&folder, &[&path, "SELECT *, ROWTIME, ROWPARTITION, ROWOFFSET FROM VehicleRegistration"]);
    let [row] = &all[..] else { panic!("{all:?}") };
    assert_eq!((&row["table"], &row["op"]), (&json!("VehicleRegistration"), &json!("index")));
    assert_eq!(row["data"]["VIN"], "0EXAMPLE0VIN00001");
    assert_eq!(
        row["metadata"],
        json!({"id": "QFPyEPhFTCo58PlnvQ6VkS", "version": 0, "txTime": "2024-04-03T02:31:12.493Z", "txId": "TtrCfQtH5MV2pvn2a2UBwZ"})
    );
    assert_eq!(row["blockAddress"], json!({"strandId": "LoXC35zlbXq6mpIjJfFCzD", "sequenceNo": 0}));
    assert_eq!(row["hash"], "OOE25Y/fH8bkG4jsulk6510VK3cT9DKvzmaIt0OeS5Y=");
    assert_eq!((&row["ROWTIME"], &row["ROWPARTITION"]), (&Value::Null, &json!(path)));
    assert!(row["ROWOFFSET"].as_u64().unwrap() > 0, "{row}");
    let names: Vec<&String> = row.as_object().unwrap().keys().collect();
    assert_eq!(names.len(), 9, "{names:?}");
}

#[test]
fn deletes_and_redactions_are_rows_without_data() {
    let folder = Folder::new();
    let path = fixture("vehicle-registration/stream.10n");
    let statement = "SELECT op, metadata.id AS id, metadata.version AS version, data FROM stream WHERE op <> 'index'";
    let mut found = rows(&folder, &[&path, statement]);
    found.sort_by_key(|row| row["id"].to_string());
    assert_eq!(
        found,
        [
            json!({"op": "redacted", "id": "0we4XrdEF0ZpddCkPJuEkI", "version": 1, "data": null}),
            json!({"op": "delete", "id": "Fb1W4QW5KGc9YbMBKJbUZa", "version": 1, "data": null}),
            json!({"op": "delete", "id": "ZH7lksKJoABXrLx0j1JT3a", "version": 3, "data": null}),
        ]
    );
}

#[test]
fn the_rows_are_the_same_through_every_form_of_input() {
    let folder = Folder::new();
    let statement = "SELECT table, op, data, metadata FROM stream";
    let expected = rows(&folder, &[&fixture("vehicle-registration/stream.10n"), statement]);
    assert_eq!(expected.len(), 41);
    for form in
        ["stream.10n.gz", "stream.ion", "stream.ion.gz", "stream.jsonl", "stream.jsonl.gz", "lambda-event.json", "get-records.json.gz"]
    {
        let path = fixture(&format!("vehicle-registration/{form}"));
        assert_eq!(rows(&folder, &[&path, statement]), expected, "{form}");
        let piped = folder.revsync_with(&["--json", "query", "-", statement], &[], &std::fs::read(&path).unwrap());
        assert_eq!(lines(&piped), expected, "{form}");
    }
}

#[test]
fn a_table_is_printed_under_its_headings() {
    let folder = Folder::new();
    folder.write("s.ion", capture());
    let done = folder.revsync(&["query", "s.ion", "SELECT metadata.id AS id, op, Name, Fee, Fee * 2 AS twice FROM Person"]);
    assert_eq!(
        done.out,
        "id  op      Name     Fee   twice\n\
         a   index   Ada   442.30  884.60\n\
         b   index   Bo\n\
         a   delete\n"
    );
    assert_eq!((done.exit, ended(&done).as_str()), (0, "complete: 3 rows of 3 revisions of Person, 4 records scanned"));
}

#[test]
fn csv_is_quoted_where_it_has_to_be() {
    let folder = Folder::new();
    folder.write(
        "s.ion",
        revision("T", "a", 0, Some("{a:\"x, \\\"y\\\"\\r\\nz\",b:[1,2.50],c:null}")) + &revision("T", "b", 0, Some("{c:\"\"}")),
    );
    let done = folder.revsync(&["query", "--csv", "s.ion", "SELECT a, b, c, ROWOFFSET AS \"the offset\" FROM T"]);
    let second = revision("T", "a", 0, Some("{a:\"x, \\\"y\\\"\\r\\nz\",b:[1,2.50],c:null}")).len();
    assert_eq!(done.out, format!("a,b,c,the offset\r\n\"x, \"\"y\"\"\r\nz\",\"[1,2.50]\",,0\r\n,,,{second}\r\n"));
    let both = folder.revsync(&["--json", "query", "--csv", "s.ion", "SELECT a FROM T"]);
    assert!(both.exit == 2 && both.err.contains("found both --csv and --json"), "{both:?}");
}

#[test]
fn json_has_every_column_in_every_row_and_all_digits() {
    let folder = Folder::new();
    folder.write("s.ion", capture());
    let done = folder.revsync(&["--json", "query", "s.ion", "SELECT metadata.id AS id, Fee, City FROM Person"]);
    assert_eq!(
        done.out,
        "{\"id\":\"a\",\"Fee\":442.30,\"City\":\"Kent\"}\n{\"id\":\"b\",\"Fee\":null,\"City\":null}\n{\"id\":\"a\",\"Fee\":null,\"City\":null}\n"
    );
}

#[test]
fn the_heading_comes_also_where_no_row_is_found_and_the_exit_code_is_1() {
    let folder = Folder::new();
    folder.write("s.ion", capture());
    let statement = "SELECT metadata.id AS id, Name FROM Person WHERE Name = 'Cy'";
    for (form, heading) in [(&[][..], "id  Name\n"), (&["--csv"], "id,Name\r\n"), (&["--json"], "")] {
        let done = folder.revsync(&[&["query", "s.ion", statement], form].concat());
        assert_eq!((done.exit, done.out.as_str()), (1, heading), "{done:?}");
        assert_eq!(ended(&done), "complete: 0 rows of 3 revisions of Person, 4 records scanned");
    }
}

#[test]
fn a_limit_stops_the_scan_and_0_does_not_begin_it() {
    let folder = Folder::new();
    folder.write("s.ion", capture() + "{{{ damage");
    let done = folder.revsync(&["query", "s.ion", "SELECT metadata.id AS id FROM Person LIMIT 2"]);
    assert_eq!((done.exit, done.out.as_str()), (0, "id\na\nb\n"), "{done:?}");
    assert_eq!(ended(&done), "limit reached: 2 rows of 2 revisions of Person, 2 records scanned");
    let none = folder.revsync(&["query", "not-there.ion", "SELECT metadata.id AS id FROM Person LIMIT 0"]);
    assert_eq!((none.exit, none.out.as_str()), (1, "id\n"), "{none:?}");
    assert_eq!(ended(&none), "limit reached: 0 rows of 0 revisions of Person, 0 records scanned");
}

#[test]
fn a_limit_ends_a_query_of_a_pipe_that_stays_open() {
    let folder = Folder::new();
    let mut running = query(&folder, &["-", "SELECT metadata.id AS id FROM Person LIMIT 1"]).spawn().unwrap();
    let mut pipe = running.stdin.take().unwrap();
    pipe.write_all(capture().as_bytes()).unwrap();
    let output = output_of(running);
    assert_eq!((output.status.code(), String::from_utf8(output.stdout).unwrap().as_str()), (Some(0), "id\na\n"));
    drop(pipe);
}

#[test]
fn a_table_that_never_occurred_is_told_with_those_that_did() {
    let folder = Folder::new();
    folder.write("s.ion", capture());
    let done = folder.revsync(&["query", "s.ion", "SELECT * FROM person"]);
    assert!(
        done.exit == 1 && done.err.contains("no table of the stream is named person, but Person is: upper and lower case count"),
        "{done:?}"
    );
    let done = folder.revsync(&["query", "s.ion", "SELECT * FROM Owner"]);
    assert!(done.exit == 1 && done.err.contains("no table of the stream is named Owner; there are Car, Person"), "{done:?}");
    let done = folder.revsync(&["query", "s.ion", "SELECT * FROM Person WHERE Name = 'Cy'"]);
    assert!(done.exit == 1 && !done.err.contains("no table"), "{done:?}");
}

#[test]
fn what_cannot_be_decoded_is_told_at_the_end_and_ends_nothing() {
    let folder = Folder::new();
    let broken = |id: &str| revision("T", id, 0, Some("[1]"));
    let parts =
        [revision("T", "a", 0, Some("{n:1}")), broken("b"), "{recordType:\"NEW\"}\n".to_owned(), revision("T", "c", 0, Some("{n:2}"))];
    folder.write("s.ion", parts.concat());
    let done = folder.revsync(&["query", "s.ion", "SELECT n FROM T"]);
    assert_eq!((done.exit, done.out.as_str()), (0, "n\n1\n2\n"), "{done:?}");
    let (first, second) = (parts[0].len(), parts[0].len() + parts[1].len());
    assert_eq!(ended(&done), "complete: 2 rows of 2 revisions of T, 4 records scanned");
    let told = done.err.lines().nth(1).unwrap();
    assert!(
        told.starts_with(&format!("2 records could not be decoded, the first at s.ion byte {first}: unusable_revision: expected ")),
        "{told}"
    );
    assert!(told.ends_with(&format!("; then at s.ion byte {second}; revsync explain SOURCE tells each")), "{told}");
    // Of a table that nobody asks for nothing is looked at.
    let done = folder.revsync(&["query", "s.ion", "SELECT n FROM U"]);
    assert!(done.err.contains("\n1 record could not be decoded"), "{done:?}");
}

#[test]
fn rows_before_damage_are_printed_and_the_exit_code_is_2() {
    let folder = Folder::new();
    folder.write("s.ion", capture() + "{a:]");
    let done = folder.revsync(&["query", "s.ion", "SELECT metadata.id AS id FROM stream"]);
    assert_eq!((done.exit, done.out.as_str()), (2, "id\na\nb\nc\na\n"), "{done:?}");
    assert!(done.err.starts_with("ended early: 4 rows of 4 revisions, 4 records scanned") && done.err.contains("error: s.ion"), "{done:?}");
}

#[test]
fn a_wrong_statement_is_refused_before_the_source_is_opened() {
    let folder = Folder::new();
    for statement in [
        "SELECT",
        "SELECT FROM",
        "SELECT * FROM Person WHERE",
        "SELECT * FROM a, b",
        "DELETE FROM Person",
        "SELECT * FROM t ORDER BY x",
        "",
    ] {
        let done = folder.revsync(&["query", "not-there.ion", statement]);
        assert!(done.exit == 2 && done.out.is_empty() && !done.err.contains("not-there"), "{statement}: {done:?}");
    }
    let followed = folder.revsync(&["query", "not-there.ion", "SELECT * FROM stream EMIT CHANGES"]);
    assert!(followed.exit == 2 && followed.err.contains("revsync run"), "{followed:?}");
}

#[test]
fn a_statement_by_itself_is_about_the_source_that_is_configured() {
    let folder = Folder::new();
    folder.write("s.ion", capture());
    folder.write("revsync.toml", "[source]\nurl = \"s.ion\"\n");
    let statement = "SELECT metadata.id AS id FROM Car";
    let by_file = folder.revsync(&["--config", "revsync.toml", "query", statement]);
    let by_variable = folder.revsync_with(&["query", statement], &[("REVSYNC_SOURCE", "s.ion")], b"");
    for done in [by_file, by_variable] {
        assert_eq!((done.exit, done.out.as_str()), (0, "id\nc\n"), "{done:?}");
    }
    let nowhere = folder.revsync(&["query", statement]);
    assert!(nowhere.exit == 2 && nowhere.err.contains("no source"), "{nowhere:?}");
    let without = folder.revsync(&["query", "s.ion"]);
    assert!(
        without.exit == 2 && without.err.contains("expected a source and a statement that begins with SELECT, found only s.ion"),
        "{without:?}"
    );
    let nothing = folder.revsync(&["query"]);
    assert!(nothing.exit == 2 && nothing.err.contains("expected a source and a statement, found neither"), "{nothing:?}");
}

#[test]
fn a_statement_that_is_typed_wrong_is_told_how_to_type_it() {
    let folder = Folder::new();
    folder.write("s.ion", capture());
    for (typed, said) in [
        (&["s.ion", "SELECT", "Name", "FROM", "Person"][..], "expected the statement as one argument, found several: put it in quotes"),
        (&["SELECT", "Name", "FROM", "Person"], "put it in quotes"),
        (&["SELECT Name FROM Person", "s.ion"], "expected the source and then the statement, found the statement first"),
        (&["s.ion", "SELECT f:stock FROM Person"], "a name with other signs stands in double quotes, such as \"f:stock\""),
        (&["s.ion", "SELECT Name FROM my-shop.item"], "a name of a table with other signs stands in double quotes"),
        (&["s.ion", "SELECT Name FROM `Person`"], "a name with other signs stands in double quotes"),
        (&["s.ion", "SELECT Name FROM Person WHERE Name == 'Bo'"], "values are compared with ="),
        (&["s.ion", "SELECT Name FROM Person WHERE a && b"], "conditions are put together with AND and OR"),
        (&["s.ion", "SELECT Name FROM Person WHERE Name ~ 'B.*'"], "compared with a pattern by LIKE"),
        (&["s.ion", "SELECT UPPERCASE(Name) FROM Person"], "is it UPPER? revsync query --help lists the functions"),
    ] {
        let done = folder.revsync(&[&["query"], typed].concat());
        assert!(done.exit == 2 && done.out.is_empty() && done.err.contains(said), "{typed:?}: {done:?}");
    }
}

#[test]
fn a_text_in_double_quotes_that_finds_nothing_is_told_to_be_a_name() {
    let folder = Folder::new();
    folder.write("s.ion", capture());
    let done = folder.revsync(&["query", "s.ion", "SELECT Name FROM Person WHERE op = \"index\""]);
    assert!(
        done.exit == 1 && done.err.contains("\"index\" in double quotes is the name of a field; a text stands in single quotes"),
        "{done:?}"
    );
    let done = folder.revsync(&["query", "s.ion", "SELECT Name FROM Person WHERE op <> \"Name\""]);
    assert!(done.exit == 0 && !done.err.contains("quotes"), "a field that is there: {done:?}");
}

#[test]
fn an_option_for_a_form_comes_before_the_variable_of_the_other() {
    let folder = Folder::new();
    folder.write("s.ion", capture());
    let query = ["query", "s.ion", "SELECT metadata.id AS id FROM Car"];
    for (option, variable, expected) in [
        ("--csv", ("REVSYNC_JSON", "true"), "id\r\nc\r\n"),
        ("--json", ("REVSYNC_CSV", "1"), "{\"id\":\"c\"}\n"),
        ("--csv", ("REVSYNC_JSON", "no"), "id\r\nc\r\n"),
    ] {
        let done = folder.revsync_with(&[&query[..], &[option]].concat(), &[variable], b"");
        assert_eq!((done.exit, done.out.as_str()), (0, expected), "{option} {variable:?}: {done:?}");
    }
    let both = folder.revsync_with(&query, &[("REVSYNC_CSV", "1"), ("REVSYNC_JSON", "1")], b"");
    assert!(both.exit == 2 && both.err.contains("found both REVSYNC_CSV and REVSYNC_JSON"), "{both:?}");
}

#[test]
fn rules_that_map_tables_have_no_part_in_it_and_those_of_decoding_do() {
    let folder = Folder::new();
    folder.write("s.ion", capture());
    let rule = "[[table]]\nname = \"Person\"\nindex = \"people\"\nfields = [\"Name\"]\nwhere = \"Name = 'Bo'\"\nmetadata_field = \"_m\"\n";
    folder.write("revsync.toml", format!("{rule}decimals = \"string\"\n"));
    let with_rules = ["--config", "revsync.toml", "s.ion"];
    let people = rows(&folder, &[&with_rules[..], &["SELECT data FROM Person WHERE op = 'index'"]].concat());
    assert_eq!(people, [json!({"data": {"Name": "Ada", "City": "Kent", "Fee": "442.30"}}), json!({"data": {"Name": "Bo"}})]);
    assert_eq!(rows(&folder, &[&with_rules[..], &["SELECT Plate FROM Car"]].concat()), [json!({"Plate": "X 1"})], "a table without a rule");
}

#[test]
fn rows_of_lindorm_have_what_their_messages_tell() {
    let folder = Folder::new();
    folder.write(
        "changes.jsonl",
        r#"{"op":"Put","table":"shop.item","ts":5,"data":[{"name":"sku","value":"a"},{"name":"f:stock","ts":7,"value":"8"}]}
{"op":"DeleteFamily","table":"shop.item","ts":9,"data":[{"name":"sku","value":"a"}]}
{"op":"Put","table":"shop.item","ts":10,"keyOnly":true,"data":[{"name":"sku","value":"a"}]}
"#,
    );
    let whole = ["--key", "shop.item=sku", "changes.jsonl", "SELECT op, data, metadata, hash FROM shop.item"];
    let expected = [
        json!({"op": "index", "data": {"sku": "a", "f:stock": "8"}, "metadata": {"id": "a", "version": 7, "op": "Put", "ts": 5}, "hash": null}),
        json!({"op": "delete", "data": null, "metadata": {"id": "a", "version": 9, "op": "DeleteFamily", "ts": 9}, "hash": null}),
    ];
    assert_eq!(rows(&folder, &whole), expected);
    assert_eq!(rows(&folder, &[&["--rows", "cells"], &whole[..]].concat()), expected, "cells");
    let quoted = ["--key", "shop.item=sku", "changes.jsonl", "SELECT data.\"f:stock\" AS stock FROM \"shop.item\" LIMIT 1"];
    assert_eq!(rows(&folder, &quoted), [json!({"stock": "8"})]);
    let keyless = folder.revsync(&["query", "changes.jsonl", "SELECT * FROM shop.item"]);
    assert!(keyless.exit == 2 && keyless.err.contains("--key shop.item=COLUMN"), "{keyless:?}");
    let other = folder.revsync(&["query", "changes.jsonl", "SELECT * FROM shop.order"]);
    assert!(other.exit == 1 && other.err.contains("there are shop.item"), "nothing has to be known of a table that is not read: {other:?}");
}

#[test]
fn rows_of_debezium_have_what_their_events_tell() {
    let folder = Folder::new();
    let statement = "SELECT op, id, name, metadata.op AS change, metadata.source.pos AS pos FROM inventory.customers LIMIT 3";
    let found = rows(&folder, &["--key", "inventory.customers=id", &fixture("debezium/mysql.jsonl"), statement]);
    assert_eq!(
        found,
        [
            json!({"op": "index", "id": 1, "name": "Quill", "change": "r", "pos": 154}),
            json!({"op": "index", "id": 2, "name": "Søren 😀\n", "change": "r", "pos": 154}),
            json!({"op": "index", "id": 1, "name": "Quillon", "change": "u", "pos": 454}),
        ]
    );
}

#[test]
fn rows_of_a_saved_answer_or_event_tell_when_their_records_arrived() {
    let folder = Folder::new();
    for form in ["get-records.json.gz", "lambda-event.json"] {
        let path = fixture(&format!("vehicle-registration/{form}"));
        let all = rows(&folder, &[&path, "SELECT ROWTIME FROM stream"]);
        assert!(
            all.len() == 41 && all.iter().all(|row| row["ROWTIME"].as_str().is_some_and(|time| time.starts_with("2024-04-01T08:3"))),
            "{all:?}"
        );
        let early = rows(&folder, &[&path, "SELECT op FROM stream WHERE ROWTIME < TIMESTAMP '2024-04-01T08:30:10Z'"]);
        assert!(!early.is_empty() && early.len() < all.len(), "{early:?}");
    }
}

#[test]
fn control_records_and_block_summaries_are_no_rows() {
    let folder = Folder::new();
    folder.write("s.ion", [control(), value("T", "a", 0, &put("x")), value("T", "a", 1, &Does::Redact)].join("\n"));
    let found = rows(&folder, &["s.ion", "SELECT op FROM stream"]);
    assert_eq!(found, [json!({"op": "index"}), json!({"op": "redacted"})]);
}

/// What a query came to that has to end by itself.
fn output_of(mut running: Child) -> Output {
    let since = Instant::now();
    while running.try_wait().unwrap().is_none() {
        if since.elapsed() > Duration::from_secs(60) {
            running.kill().unwrap();
            panic!("it did not end: {:?}", running.wait_with_output().unwrap());
        }
        sleep(Duration::from_millis(10));
    }
    running.wait_with_output().unwrap()
}

/// A query with pipes on all sides.
fn query(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = folder.command(&[&["query"], arguments].concat(), &[]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn rows_appear_as_they_are_found_while_more_is_waited_for() {
    for (form, packed) in [("", false), ("--csv", false), ("--json", false), ("--json", true)] {
        let folder = Folder::new();
        let form: &[&str] = if form.is_empty() { &[] } else { &[form] };
        let mut running = query(&folder, &[form, &["-", "SELECT metadata.id AS id FROM T"]].concat()).spawn().unwrap();
        let mut out = BufReader::new(running.stdout.take().unwrap());
        let pipe = running.stdin.take().unwrap();
        let mut pipe: Box<dyn Write> = if packed { Box::new(GzEncoder::new(pipe, Compression::fast())) } else { Box::new(pipe) };
        for id in ["first", "second", "third"] {
            pipe.write_all(&binary(&[value("T", id, 0, &put("x"))])).unwrap();
            pipe.flush().unwrap();
            let mut line = String::new();
            while !line.contains(id) {
                line.clear();
                assert!(out.read_line(&mut line).unwrap() > 0, "{id} was not printed while the pipe was open");
            }
        }
        drop(pipe);
        assert!(running.wait().unwrap().success());
    }
}

#[test]
fn an_interrupted_query_says_what_it_scanned_and_exits_2() {
    let folder = Folder::new();
    let mut running = query(&folder, &["-", "SELECT metadata.id AS id FROM T"]).spawn().unwrap();
    let mut pipe = running.stdin.take().unwrap();
    pipe.write_all(&binary(&[value("T", "first", 0, &put("x"))])).unwrap();
    let mut out = BufReader::new(running.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("first") {
        assert!(out.read_line(&mut line).unwrap() > 0);
    }
    assert!(Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap().success());
    let output = output_of(running);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("interrupted: 1 row of 1 revision of T, 1 record scanned (") && said.contains("error: interrupted"), "{said}");
    drop(pipe);
}

#[test]
fn a_reader_that_goes_away_ends_a_query_quietly_before_the_end_of_the_stream() {
    let folder = Folder::new();
    let mut running = query(&folder, &["-", "SELECT metadata.id AS id FROM T"]).spawn().unwrap();
    drop(running.stdout.take());
    let mut pipe = running.stdin.take().unwrap();
    // The pipe stays open: only what it cannot print ends it.
    pipe.write_all(&binary(&[value("T", "first", 0, &put("x"))])).unwrap();
    let output = output_of(running);
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
    drop(pipe);
}

#[test]
fn quiet_says_nothing_beside_the_rows() {
    let folder = Folder::new();
    folder.write("s.ion", capture());
    let done = folder.revsync(&["--quiet", "query", "s.ion", "SELECT metadata.id AS id FROM Car"]);
    assert_eq!((done.exit, done.out.as_str(), done.err.as_str()), (0, "id\nc\n", ""));
}

#[test]
fn a_document_cannot_drive_a_terminal_through_a_table() {
    let folder = Folder::new();
    folder.write("s.ion", revision("T", "a", 0, Some("{a:\"x\\x1b[2J\\ny\"}")));
    let done = folder.revsync(&["query", "s.ion", "SELECT a FROM T"]);
    assert_eq!(done.out, "a\nx\u{fffd}[2J y\n");
    let json = folder.revsync(&["--json", "query", "s.ion", "SELECT a FROM T"]);
    assert_eq!(json.out, "{\"a\":\"x\\u001b[2J\\ny\"}\n");
}

#[test]
fn on_a_terminal_lines_fit_and_the_heading_is_set_off() {
    let folder = Folder::new();
    folder.write("s.ion", revision("T", "a", 0, Some(&format!("{{a:\"{}\",b:7}}", "東京 ".repeat(100)))));
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let screen = || OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    // Nobody has it open in between: a terminal forgets its size then, and so this one is kept.
    let kept = screen();
    assert!(Command::new("stty").args(["cols", "50", "rows", "20"]).stdin(screen()).status().unwrap().success());
    let mut command = folder.command(&["query", "s.ion", "SELECT a, b, a AS c FROM T"], &[]);
    assert!(command.stdout(screen()).stderr(screen()).status().unwrap().success());
    drop((kept, command));
    let (mut shown, mut screen) = (Vec::new(), File::from(terminal));
    // Its end is an error on Linux.
    let _ = screen.read_to_end(&mut shown);
    let shown = String::from_utf8(shown).unwrap();
    let lines: Vec<&str> = shown.split("\r\n").collect();
    let at = lines.iter().position(|line| line.contains("\u{1b}[1ma  ")).unwrap_or_else(|| panic!("{shown:?}"));
    let row = lines[at + 1];
    assert!(row.width() <= 50 && row.matches('…').count() == 2 && row.contains("  7"), "{shown:?}");
    assert!(lines[at + 2].starts_with("complete: 1 row of 1 revision of T"), "{shown:?}");
}

#[test]
fn the_examples_of_the_readme_run_as_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let (_, section) = readme.split_once("\n## Ask a stream a question\n").unwrap();
    let (_, session) = section.split_once("```console\n").unwrap();
    let (session, _) = session.split_once("```\n").unwrap();
    let path = format!("{}:/usr/bin:/bin", Path::new(env!("CARGO_BIN_EXE_revsync")).parent().unwrap().display());
    let mut commands = 0;
    for example in session.split("$ revsync ").skip(1) {
        // What is typed ends with the quote that ends the statement.
        let (typed, expected) = example.split_once("\"\n").unwrap();
        let output = Command::new("sh")
            .args(["-c", &format!("revsync {typed}\"")])
            .current_dir(&root)
            .env_clear()
            .env("PATH", &path)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().replace('\r', ""), expected, "{typed}");
        assert_eq!(output.status.code(), Some(0), "{typed}");
        commands += 1;
    }
    assert_eq!(commands, 3);
}
