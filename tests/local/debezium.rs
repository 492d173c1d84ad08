//! Change events of Debezium, end to end from a file into the local index: what a person says, and what comes of it.

use std::fs;

use revsync::sink::local::Local;
use serde_json::Value;

use crate::command::{Done, Folder, fixture};

const CONNECTORS: [(&str, &str); 5] = [
    ("mysql", "inventory.customers"),
    ("mariadb", "inventory.customers"),
    ("postgresql", "public.customers"),
    ("sqlserver", "dbo.customers"),
    ("lindorm", "shop.customers"),
];

/// The rows of the local index, by id: what was made of them, and at which version; one that is gone has none.
fn rows(folder: &Folder, table: &str) -> Vec<Option<(u64, Value)>> {
    let index = Local::open_existing(&folder.path().join("revsync.db")).unwrap();
    let row = |id: &str| index.get(table, id).unwrap().map(|(version, document)| (version, serde_json::from_str(&document).unwrap()));
    ["1", "2", "3", "4"].map(row).to_vec()
}

fn sync(folder: &Folder, options: &[&str]) -> Done {
    folder.revsync(&[&["--json", "sync", "events.jsonl"], options].concat())
}

/// A change of one row of a PostgreSQL table.
fn change(op: &str, before: &str, after: &str, lsn: u64) -> String {
    format!(
        "{{\"before\":{before},\"after\":{after},\"source\":{{\"version\":\"3.2.0.Final\",\"connector\":\"postgresql\",\"ts_ms\":1700000000400,\
         \"snapshot\":\"false\",\"db\":\"shop\",\"schema\":\"public\",\"table\":\"item\",\"txId\":801,\"lsn\":{lsn}}},\"op\":\"{op}\",\
         \"ts_ms\":1700000000900,\"transaction\":null}}\n"
    )
}

#[test]
fn the_rows_of_every_connector_come_to_the_same_documents_in_either_direction() {
    for (connector, table) in CONNECTORS {
        let events = fs::read_to_string(fixture(&format!("debezium/{connector}-with-schema.jsonl"))).unwrap();
        let key = format!("{table}=id");
        // Without the message keys of Kafka the last delete has no id, as it says nothing of its row.
        let lines: Vec<&str> = events.lines().filter(|line| !line.contains(r#""before":null,"after":null"#)).collect();
        let mut outcomes = Vec::new();
        for reversed in [false, true] {
            let folder = Folder::new();
            let lines: Vec<&str> = if reversed { lines.iter().rev().copied().collect() } else { lines.clone() };
            folder.write("events.jsonl", lines.join("\n"));
            let done = sync(&folder, &["--key", &key, "--request-operations", "1"]).balanced();
            assert_eq!((done.exit, done.count("received"), done.count("dead_letters")), (0, 10, 0), "{connector}: {done:?}");
            let again = sync(&folder, &["--key", &key]).balanced();
            // Equal versions write again: the newest of each row, and nothing else.
            assert_eq!(
                again.count("stale") + again.count("compacted") + again.count("indexed") + again.count("absent"),
                9,
                "{connector}: {again:?}"
            );
            outcomes.push(rows(&folder, table));
        }
        assert_eq!(outcomes[0], outcomes[1], "{connector}");
        let names: Vec<Option<&str>> =
            outcomes[0].iter().map(|row| row.as_ref().map(|(_, row)| row["name"].as_str().unwrap_or("null"))).collect();
        assert_eq!(names, [Some("null"), Some("again"), None, Some("moved")], "{connector}");
        assert_eq!(outcomes[0][3].as_ref().unwrap().1["credit"], 1.28, "{connector}");
    }
}

#[test]
fn a_connector_without_a_sound_version_ends_the_run_with_2_and_nothing_written() {
    let folder = Folder::new();
    folder.write("events.jsonl", change("c", "null", r#"{"id":7}"#, 1).replace("postgresql", "oracle"));
    for command in [&["sync", "events.jsonl", "--key", "public.item=id"][..], &["explain", "events.jsonl"], &["mapping", "events.jsonl"]] {
        let done = folder.revsync(command);
        assert_eq!(done.exit, 2, "{done:?}");
        assert!(done.err.contains("found the connector \"oracle\": an SCN is shared"), "{done:?}");
        assert!(done.err.contains("--versions timestamp takes the time of the change (source.ts_ms), with a weaker guarantee"), "{done:?}");
    }
    assert!(Local::open_existing(&folder.path().join("revsync.db")).unwrap().get("public.item", "7").unwrap().is_none());
    assert!(!folder.path().join("revsync-dead-letters.jsonl").exists(), "a connector is no poison");
    let done = sync(&folder, &["--key", "public.item=id", "--versions", "timestamp"]);
    assert_eq!((done.exit, done.count("indexed")), (0, 1), "{done:?}");
}

#[test]
fn cells_of_a_table_of_debezium_are_refused() {
    let folder = Folder::new();
    folder.write("events.jsonl", change("c", "null", r#"{"id":7}"#, 1));
    let done = sync(&folder, &["--key", "public.item=id", "--rows", "cells"]);
    assert_eq!(done.exit, 2, "{done:?}");
    assert!(done.err.contains("public.item: expected rows = \"full\" for a table of Debezium, found \"cells\""), "{done:?}");
}

#[test]
fn messages_without_a_key_are_dead_letters_that_a_replay_with_one_delivers() {
    let folder = Folder::new();
    folder
        .write("events.jsonl", [change("c", "null", r#"{"id":7,"n":1}"#, 1), change("u", r#"{"id":6}"#, r#"{"id":8,"n":2}"#, 2)].concat());
    let done = sync(&folder, &[]).balanced();
    assert_eq!((done.exit, done.count("dead_letters")), (1, 2), "{done:?}");
    let shown = folder.revsync(&["dead-letters", "list"]);
    assert!(shown.out.contains("key_missing"), "{shown:?}");
    let done = folder.revsync(&["--json", "dead-letters", "replay", "--key", "public.item=id"]).balanced();
    assert_eq!((done.exit, done.count("indexed"), done.count("absent")), (0, 2, 1), "{done:?}");
    let index = Local::open_existing(&folder.path().join("revsync.db")).unwrap();
    assert_eq!(index.get("public.item", "8").unwrap(), Some((2, r#"{"id":8,"n":2}"#.to_owned())));
}

#[test]
fn a_row_of_which_a_value_was_not_sent_leaves_the_stored_one_as_it_is() {
    let folder = Folder::new();
    let unchanged = r#"{"id":7,"note":"__debezium_unavailable_value"}"#;
    folder.write("events.jsonl", [change("c", "null", r#"{"id":7,"note":"long"}"#, 1), change("u", "null", unchanged, 2)].concat());
    let done = sync(&folder, &["--key", "public.item=id"]).balanced();
    assert_eq!((done.exit, done.count("dead_letters")), (1, 1), "{done:?}");
    assert!(done.err.contains("REPLICA IDENTITY FULL") && !done.err.contains("long"), "{done:?}");
    let index = Local::open_existing(&folder.path().join("revsync.db")).unwrap();
    assert_eq!(index.get("public.item", "7").unwrap(), Some((1, r#"{"id":7,"note":"long"}"#.to_owned())));
}

#[test]
fn explain_tells_of_an_update_of_the_key_that_the_old_id_goes_and_the_new_one_comes() {
    let folder = Folder::new();
    folder.write("events.jsonl", change("u", r#"{"id":6,"n":1}"#, r#"{"id":7,"n":1}"#, 9));
    let done = folder.revsync(&["explain", "events.jsonl", "--key", "public.item=id"]);
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!((done.exit, lines.len()), (0, 2), "{done:?}");
    assert!(lines[0].ends_with(": delete public.item/6 at version 9: the row was deleted, or its key changed"), "{lines:?}");
    assert!(lines[1].contains(" value 1: index public.item/7 at version 9: "), "{lines:?}");
}

#[test]
fn a_rule_chooses_how_decimals_are_written_and_where_the_metadata_stands() {
    let folder = Folder::new();
    fs::copy(fixture("debezium/postgresql-with-schema.jsonl"), folder.path().join("events.jsonl")).unwrap();
    let rule = "[[table]]\nname = \"public.customers\"\nindex = \"customers\"\nkey = [\"id\"]\ndecimals = \"string\"\nmetadata_field = \"_source\"\n\
                types = { since = \"timestamp-ms\" }\n";
    folder.write("rules.toml", rule);
    let done = folder.revsync(&["--json", "--config", "rules.toml", "sync", "events.jsonl"]).balanced();
    assert_eq!((done.exit, done.count("dead_letters")), (1, 1), "the delete that says nothing of its row: {done:?}");
    let rows = rows(&folder, "customers");
    let (version, row) = rows[3].as_ref().unwrap();
    assert_eq!((&row["credit"], &row["since"]), (&Value::from("1.28"), &Value::from("2023-07-22T04:26:40.123Z")), "{row}");
    let metadata = &row["_source"];
    assert_eq!(
        (&metadata["table"], &metadata["id"], &metadata["op"]),
        (&Value::from("public.customers"), &Value::from("4"), &Value::from("u"))
    );
    assert_eq!((&metadata["version"], &metadata["source"]["lsn"]), (&Value::from(*version), &Value::from(*version)), "{metadata}");
}

#[test]
fn what_a_replay_would_do_is_said_of_both_rows_of_a_key_that_changed() {
    let folder = Folder::new();
    folder.write("events.jsonl", change("u", r#"{"sku":"MX"}"#, r#"{"sku":"MZ"}"#, 9));
    let done = sync(&folder, &["--key", "*=code"]).balanced();
    assert_eq!((done.exit, done.count("dead_letters")), (1, 1), "{done:?}");
    let replay = |more: &[&str]| folder.revsync(&[&["--json", "dead-letters", "replay", "--key", "*=sku"], more].concat());
    let dry = replay(&["--dry-run"]);
    let lines: Vec<Value> = dry.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> = lines.iter().map(|line| (line["action"].as_str().unwrap(), line["id"].as_str().unwrap())).collect();
    assert_eq!(told, [("delete", "MX"), ("index", "MZ")], "{dry:?}");
    assert_eq!(replay(&[]).balanced().count("received"), 2);
}
