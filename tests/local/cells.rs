//! Rows put together from cells, from a file of row changes to the index and back, by the command.

use std::fmt::Write;

use revsync::sink::local::Local;

use crate::command::{Folder, fixture};

/// Changes of one row in cells, oldest first.
const CHANGES: [&str; 6] = [
    r#"{"op":"Put","table":"shop.item","ts":10,"keyOnly":false,"data":[{"name":"sku","value":"MX"},{"name":"f:name","value":"mug"},{"name":"f:price","value":442.30}]}"#,
    r#"{"op":"Put","table":"shop.item","ts":20,"data":[{"name":"sku","value":"MX"},{"name":"f:stock","ts":25,"value":7}]}"#,
    r#"{"op":"Put","table":"shop.item","ts":21,"keyOnly":true,"data":[{"name":"sku","value":"MX"}]}"#,
    r#"{"op":"DeleteFamily","table":"shop.item","ts":15,"data":[{"name":"sku","value":"MX"}]}"#,
    r#"{"op":"Put","table":"shop.item","ts":30,"data":[{"name":"sku","value":"MX"},{"name":"f:price","value":12.50}]}"#,
    r#"{"op":"Put","table":"shop.item","ts":12,"data":[{"name":"sku","value":"MX"},{"name":"f:note","value":"late"}]}"#,
];

const ROWS: [&str; 4] = ["--key", "shop.item=sku", "--rows", "cells"];

fn stored(folder: &Folder) -> Option<(u64, String)> {
    Local::open_existing(&folder.path().join("revsync.db")).unwrap().get("shop.item", "MX").unwrap()
}

#[test]
fn changes_of_a_row_come_to_one_document_in_either_direction_and_again() {
    for backwards in [false, true] {
        let folder = Folder::new();
        let mut changes = CHANGES.to_vec();
        if backwards {
            changes.reverse();
        }
        folder.write("changes.jsonl", changes.join("\n"));
        let sync = || folder.revsync(&[&["--json", "sync", "changes.jsonl"], &ROWS[..]].concat()).balanced();
        let done = sync();
        assert_eq!((done.exit, done.count("received"), done.json()["skipped"]["no_change"].as_u64()), (0, 6, Some(1)), "{done:?}");
        assert_eq!((done.count("compacted"), done.count("dead_letters")), (0, 0), "{done:?}");
        assert_eq!(stored(&folder), Some((30, r#"{"f:price":12.50,"f:stock":7,"sku":"MX"}"#.to_owned())), "{backwards}");
        let again = sync();
        assert_eq!((again.exit, again.count("stale"), again.count("indexed")), (0, 5, 0), "{again:?}");
    }
}

#[test]
fn a_row_of_which_everything_is_deleted_leaves_a_tombstone_that_a_sweep_removes() {
    let folder = Folder::new();
    let delete = r#"{"op":"DeleteFamily","table":"shop.item","ts":40,"data":[{"name":"sku","value":"MX"}]}"#;
    folder.write("changes.jsonl", [&CHANGES[..], &[delete]].concat().join("\n"));
    let sync = || folder.revsync(&[&["--json", "sync", "changes.jsonl"], &ROWS[..]].concat()).balanced();
    let done = sync();
    assert_eq!((done.exit, done.count("deleted")), (0, 2), "{done:?}");
    let (version, source) = stored(&folder).unwrap();
    assert!(version == 40 && source.starts_with(r#"{"revsync":{"v":1,"deleted":true,"time":"#), "{source}");
    assert_eq!(folder.revsync(&["search", "*"]).exit, 1, "nobody finds it");
    let swept = folder.revsync(&["--json", "sweep", "shop.item", "--to", "local:revsync.db", "--older-than", "0s", "--retention", "0s"]);
    assert_eq!((swept.exit, swept.count("swept")), (0, 1), "{swept:?}");
    assert_eq!((stored(&folder), sync().count("stale"), stored(&folder)), (None, 6, None), "what comes late stays away");
}

#[test]
fn explain_says_what_a_merge_does() {
    let folder = Folder::new();
    folder.write("changes.jsonl", CHANGES.join("\n"));
    let done = folder.revsync(&[&["explain", "changes.jsonl"], &ROWS[..]].concat());
    let mut expected = String::new();
    for (part, reason) in [
        ("merge shop.item/MX at version 10", "3 cells, each by its own version"),
        ("merge shop.item/MX at version 25", "2 cells, each by its own version"),
        ("skip", "no_change, there is nothing to write"),
        ("merge shop.item/MX at version 15", "erases the row's cells up to version 15"),
        ("merge shop.item/MX at version 30", "2 cells, each by its own version"),
        ("merge shop.item/MX at version 12", "2 cells, each by its own version"),
    ] {
        writeln!(expected, "{part}: {reason}").unwrap();
    }
    let lines: String = done.out.lines().map(|line| format!("{}\n", line.split_once(": ").map_or(line, |(_, rest)| rest))).collect();
    assert_eq!(lines, expected, "{done:?}");
}

#[test]
fn a_mapping_has_the_columns_of_rows_that_come_in_cells() {
    let folder = Folder::new();
    folder.write("changes.jsonl", CHANGES.join("\n"));
    let done = folder.revsync(&[&["mapping", "changes.jsonl"], &ROWS[..]].concat());
    let properties = &done.json()["mappings"]["properties"];
    let types: Vec<_> =
        properties.as_object().unwrap().iter().map(|(name, field)| (name.as_str(), field["type"].as_str().unwrap())).collect();
    let expected = [("f:name", "text"), ("f:note", "text"), ("f:price", "double"), ("f:stock", "long"), ("sku", "text")];
    assert_eq!((done.exit, &types[..]), (0, &expected[..]), "{done:?}");
}

#[test]
fn a_rule_that_cannot_hold_for_cells_is_refused_before_anything_is_read() {
    let folder = Folder::new();
    folder.write("changes.jsonl", CHANGES.join("\n"));
    for (more, said) in [
        ("where = \"sku = 'MX'\"", "rows = \"cells\": expected no where, which has to see the whole row"),
        ("metadata_field = \"_row\"", "rows = \"cells\": expected no metadata_field"),
        ("exclude = [\"a.b\"]", "rows = \"cells\": fields and exclude choose among columns"),
    ] {
        folder.write("rules.toml", format!("[[table]]\nname = \"shop.item\"\nkey = [\"sku\"]\nrows = \"cells\"\n{more}\n"));
        let done = folder.revsync(&["--config", "rules.toml", "sync", "changes.jsonl"]);
        assert!(done.exit == 2 && done.err.contains(said), "{done:?}");
        assert!(!folder.path().join("revsync.db").exists(), "nothing was opened");
    }
}

#[test]
fn a_ledger_read_with_rows_in_cells_ends_the_run_and_makes_no_dead_letter_of_every_revision() {
    let folder = Folder::new();
    let stream = fixture("vehicle-registration/stream.10n");
    let done = folder.revsync(&["--json", "sync", &stream, "--rows", "cells"]);
    assert_eq!((done.exit, done.count("dead_letters"), done.count("indexed")), (2, 0, 0), "{done:?}");
    assert!(done.err.contains("expected rows = \"full\" for a table of QLDB, found \"cells\""), "{done:?}");
    folder.write("rules.toml", "[[table]]\nname = \"shop.*\"\nkey = [\"sku\"]\nrows = \"cells\"\n[[table]]\nname = \"*\"\n");
    let done = folder.revsync(&["--json", "--config", "rules.toml", "sync", &stream]).balanced();
    assert_eq!((done.exit, done.count("dead_letters")), (0, 0), "{done:?}");
}

#[test]
fn a_change_that_can_never_be_merged_is_a_dead_letter_that_is_replayed() {
    let folder = Folder::new();
    let bad = r#"{"op":"Put","table":"shop.item","ts":50,"data":[{"name":"sku","value":"MX"},{"name":"revsync","value":1}]}"#;
    folder.write("changes.jsonl", [CHANGES[0], bad].join("\n"));
    let done = folder.revsync(&[&["--json", "sync", "changes.jsonl"], &ROWS[..]].concat()).balanced();
    assert_eq!((done.exit, done.count("indexed"), done.count("dead_letters")), (1, 1, 1), "{done:?}");
    assert!(folder.revsync(&["dead-letters", "list"]).out.contains("unusable_column"), "{done:?}");
    folder.write("rules.toml", "[[table]]\nname = \"shop.item\"\nkey = [\"sku\"]\nrows = \"cells\"\nexclude = [\"revsync\"]\n");
    let replayed = folder.revsync(&["--json", "--config", "rules.toml", "dead-letters", "replay"]).balanced();
    assert_eq!((replayed.exit, replayed.count("indexed")), (0, 1), "{replayed:?}");
    assert_eq!(stored(&folder).unwrap().0, 50);
}
