//! Row changes of Lindorm kept in a file, through the commands that read one.

use revsync::sink::local::Local;
use serde_json::{Value, json};

use crate::command::Folder;

/// Messages of table `shop.item`: a put, another one, and a delete of the first.
const CHANGES: &str = r#"{"op":"Put","table":"shop.item","ts":1700000000000,"data":[{"name":"sku","value":"a"},{"name":"f:stock","value":"7"}]}
{"op":"Put","table":"shop.item","ts":1700000000001,"data":[{"name":"sku","value":"b"},{"name":"f:stock","value":"8"},{"name":"seen","value":"1700000000123"}]}
{"op":"DeleteFamily","table":"shop.item","ts":1700000000002,"data":[{"name":"sku","value":"a"}]}
{"op":"Put","table":"shop.item","ts":1700000000003,"keyOnly":true,"data":[{"name":"sku","value":"c"}]}
null
"#;

const TYPES: &str = r#"
[[table]]
name = "shop.item"
index = "item"
key = ["sku"]
metadata_field = "_row"
[table.types]
"f:stock" = "long"
seen = "timestamp-ms"
"#;

#[test]
fn a_file_of_row_changes_becomes_the_rows_that_are_left() {
    let folder = Folder::new();
    folder.write("changes.jsonl", CHANGES);
    folder.write("rules.toml", TYPES);
    let done = folder.revsync(&["--json", "--config", "rules.toml", "sync", "changes.jsonl"]).balanced();
    assert_eq!((done.exit, done.count("received"), done.count("indexed")), (0, 5, 1), "{done:?}");
    assert_eq!(done.json()["skipped"], json!({"no_change": 2}), "{done:?}");
    let index = Local::open_existing(&folder.path().join("revsync.db")).unwrap();
    assert_eq!(index.get("item", "a").unwrap(), None);
    let (version, source) = index.get("item", "b").unwrap().unwrap();
    let metadata = r#""_row":{"table":"shop.item","id":"b","version":1700000000001,"op":"Put","ts":1700000000001}"#;
    let row = format!(r#"{{"sku":"b","f:stock":8,"seen":"2023-11-14T22:13:20.123Z",{metadata}}}"#);
    assert_eq!((version, source), (1_700_000_000_001, row));
}

#[test]
fn a_table_without_its_key_ends_the_run_with_nothing_written_and_the_option_that_names_it() {
    let folder = Folder::new();
    folder.write("changes.jsonl", CHANGES);
    for command in [&["sync", "changes.jsonl"][..], &["explain", "changes.jsonl"], &["mapping", "changes.jsonl"]] {
        let done = folder.revsync(command);
        assert_eq!(done.exit, 2, "{done:?}");
        assert!(done.err.contains("table shop.item: expected its key columns") && done.err.contains("--key shop.item=COLUMN"), "{done:?}");
    }
    assert!(!folder.path().join("revsync-dead-letters.jsonl").exists());
    let done = folder.revsync(&["sync", "--key", "shop.*=sku", "changes.jsonl"]);
    assert_eq!(done.exit, 0, "{done:?}");
}

#[test]
fn a_key_whose_columns_are_named_one_by_one_is_refused_and_not_cut_to_the_first() {
    let folder = Folder::new();
    folder.write("changes.jsonl", CHANGES);
    let done = folder.revsync(&["sync", "changes.jsonl", "--key", "shop.item=sku", "--key", "shop.item=f:stock"]);
    assert_eq!(done.exit, 2, "{done:?}");
    assert!(done.err.contains("found it twice") && done.err.contains("--key shop.item=COLUMN,COLUMN"), "{done:?}");
    assert!(!folder.path().join("revsync.db").exists(), "nothing was opened");
}

#[test]
fn a_key_that_no_table_can_have_is_said_before_anything_is_read() {
    let folder = Folder::new();
    folder.write("changes.jsonl", CHANGES);
    for (key, found) in [("[\"\"]", "found an empty one"), ("[\"sku\", \"sku\"]", "found \"sku\" twice")] {
        folder.write("rules.toml", format!("[[table]]\nname = \"shop.item\"\nkey = {key}\n"));
        let done = folder.revsync(&["--config", "rules.toml", "sync", "changes.jsonl"]);
        assert!(done.exit == 2 && done.err.contains("[[table]] \"shop.item\": key: expected") && done.err.contains(found), "{done:?}");
    }
    let done = folder.revsync(&["sync", "changes.jsonl", "--key", "shop.item=sku,sku"]);
    assert!(done.exit == 2 && done.err.contains("--key shop.item: expected each column once"), "{done:?}");
}

#[test]
fn a_mapping_of_a_source_that_cannot_be_used_says_why() {
    let folder = Folder::new();
    folder.write("changes.jsonl", CHANGES);
    let done = folder.revsync(&["mapping", "changes.jsonl", "--key", "shop.item=code"]);
    assert_eq!(done.exit, 1, "{done:?}");
    assert!(done.err.contains("3 units cannot be used, the first of them because: expected") && done.err.contains("no code;"), "{done:?}");
}

#[test]
fn explain_speaks_of_rows_where_there_are_rows() {
    let folder = Folder::new();
    folder.write("changes.jsonl", CHANGES);
    let explained = folder.revsync(&["explain", "--key", "shop.item=sku", "changes.jsonl"]);
    let reasons: Vec<&str> = explained.out.lines().map(|line| line.split_once(": ").unwrap().1).collect();
    assert_eq!(
        reasons,
        [
            "index shop.item/a at version 1700000000000: the row as it is now, 25 bytes as JSON",
            "index shop.item/b at version 1700000000001: the row as it is now, 48 bytes as JSON",
            "delete shop.item/a at version 1700000000002: the row was deleted, or its key changed",
            "skip: no_change, there is nothing to write",
            "skip: no_change, there is nothing to write",
        ]
    );
}

#[test]
fn a_mapping_fits_the_types_that_the_columns_were_given() {
    let folder = Folder::new();
    folder.write("changes.jsonl", CHANGES);
    folder.write("rules.toml", TYPES);
    let done = folder.revsync(&["--config", "rules.toml", "mapping", "changes.jsonl"]);
    let mapping: Value = serde_json::from_str(&done.out).unwrap();
    let properties = &mapping["mappings"]["properties"];
    assert_eq!((&properties["f:stock"]["type"], &properties["seen"]["type"]), (&json!("long"), &json!("date")), "{done:?}");
}

#[test]
fn a_value_that_is_not_of_its_type_is_a_dead_letter_and_sent_again_when_the_rule_is_right() {
    let folder = Folder::new();
    folder.write("changes.jsonl", CHANGES.replace("\"8\"", "\"eight\""));
    folder.write("rules.toml", TYPES);
    let done = folder.revsync(&["--json", "--config", "rules.toml", "sync", "changes.jsonl"]).balanced();
    assert_eq!((done.exit, done.count("dead_letters")), (1, 1), "{done:?}");
    assert!(!done.err.contains("eight"), "{done:?}");
    folder.write("rules.toml", TYPES.replace("\"f:stock\" = \"long\"\n", ""));
    let done = folder.revsync(&["--json", "--config", "rules.toml", "dead-letters", "replay"]);
    assert_eq!(done.exit, 0, "{done:?}");
    let index = Local::open_existing(&folder.path().join("revsync.db")).unwrap();
    assert!(index.get("item", "b").unwrap().unwrap().1.starts_with(r#"{"sku":"b","f:stock":"eight","#));
}
