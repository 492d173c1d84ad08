//! The proof of rows that are put together from cells: each cell has a version of its own.

use revsync::operation::{Operation, Target};
use revsync::revision::{Cell, Cells, VersionType};
use revsync::sink::local::Local;
use revsync::sink::{Asked, Contents};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::command::{Done, Folder};
use crate::damage;

const CHANGES: &str = r#"{"op":"Put","table":"item","ts":10,"data":[{"name":"sku","value":"a"},{"name":"price","value":442.30},{"name":"stock","value":7}]}
{"op":"Put","table":"item","ts":20,"data":[{"name":"sku","value":"a"},{"name":"price","value":12.50}]}
{"op":"DeleteFamily","table":"item","ts":5,"data":[{"name":"sku","value":"a"}]}
{"op":"Put","table":"item","ts":10,"data":[{"name":"sku","value":"gone"},{"name":"price","value":1}]}
{"op":"DeleteFamily","table":"item","ts":30,"data":[{"name":"sku","value":"gone"}]}
{"op":"Put","table":"item","ts":10,"keyOnly":true,"data":[{"name":"sku","value":"bare"}]}
"#;

fn revsync(folder: &Folder, command: &str, more: &[&str]) -> Done {
    folder.revsync(&[&["--json", command, "changes.jsonl", "--key", "item=sku", "--rows", "cells"], more].concat())
}

fn synced() -> Folder {
    let folder = Folder::new();
    folder.write("changes.jsonl", CHANGES);
    assert_eq!(revsync(&folder, "sync", &[]).exit, 0);
    folder
}

fn local(folder: &Folder) -> Local {
    Local::open(&folder.path().join("revsync.db")).unwrap()
}

fn target(id: &str, version: u64) -> Target {
    Target { index: "item".into(), id: id.to_owned(), version, version_type: VersionType::ExternalGte, routing: None }
}

fn merge(id: &str, erased: Option<u64>, columns: &[(&str, u64, &'static str)]) -> Operation {
    let cell =
        |(name, version, value): &(&str, u64, &'static str)| Cell { name: (*name).to_owned(), version: *version, value: (*value).into() };
    let cells = Cells { erased, columns: columns.iter().map(cell).collect() };
    Operation::Merge { target: target(id, 0), cells: cells.into(), time: 0 }
}

/// Removes a row without a trace, and puts something else there.
async fn replace(folder: &Folder, id: &str, operations: Vec<Operation>) {
    let sink = local(folder);
    damage::write(&sink, vec![Operation::Delete { target: target(id, 1_000) }]).await;
    sink.forget_deletes("item", &[Asked { id: id.to_owned(), routing: None }]).await.unwrap();
    damage::write(&sink, operations).await;
}

/// The differences that a report tells: class, id, version of the index and of the stream, and whether it is the content.
fn told(done: &Done) -> Vec<Value> {
    let report = done.json();
    let differences = report["differences"].as_array().unwrap().iter();
    differences.map(|told| json!([told["class"], told["id"], told["held"], told["stream"], told["content"]])).collect()
}

/// Finds this, mends it, and finds nothing any more.
fn is_mended(folder: &Folder, more: &[&str], expected: &Value) {
    let found = revsync(folder, "verify", more);
    assert_eq!((found.exit, told(&found)), (1, vec![expected.clone()]), "{found:?}");
    let mended = revsync(folder, "verify", &[more, &["--repair"]].concat());
    assert_eq!((mended.exit, told(&mended)), (0, vec![expected.clone()]), "{mended:?}");
    assert_eq!(revsync(folder, "verify", &["--content"]).exit, 0, "{expected}");
    let source = local(folder).get("item", "a").unwrap();
    assert_eq!(source, Some((20, r#"{"price":12.50,"sku":"a","stock":7}"#.to_owned())), "{expected}");
}

#[tokio::test]
async fn an_index_of_rows_is_equal_to_its_stream_after_a_sync() {
    let folder = synced();
    let equal = revsync(&folder, "verify", &["--content"]);
    assert_eq!((equal.exit, &equal.json()["documents"]), (0, &json!(1)), "{equal:?}");
}

#[tokio::test]
async fn whatever_is_wrong_with_a_row_is_named_and_mended() {
    let sku = ("sku", 20, "\"a\"");
    for (id, operations, expected) in [
        ("a", vec![], json!(["missing", "a", null, 20, false])),
        ("gone", vec![], json!(["missing", "gone", null, 30, false])),
        ("a", vec![merge("a", Some(5), &[])], json!(["missing", "a", 5, 20, false])),
        (
            "a",
            vec![merge("a", Some(5), &[("sku", 10, "\"a\""), ("price", 10, "442.30"), ("stock", 10, "7")])],
            json!(["stale", "a", 10, 20, false]),
        ),
        ("a", vec![merge("a", Some(5), &[sku, ("price", 20, "12.50")])], json!(["stale", "a", 20, 20, false])),
        (
            "a",
            vec![merge("a", None, &[sku, ("price", 20, "12.50"), ("stock", 10, "7"), ("old", 5, "1")])],
            json!(["stale", "a", 20, 20, false]),
        ),
        ("gone", vec![merge("gone", None, &[("sku", 10, "\"gone\"")])], json!(["resurrected", "gone", 10, 30, false])),
        ("strange", vec![merge("strange", None, &[("sku", 10, "\"strange\"")])], json!(["foreign", "strange", 10, null, false])),
    ] {
        let folder = synced();
        replace(&folder, id, operations).await;
        is_mended(&folder, &["--force"], &expected);
    }
}

#[tokio::test]
async fn a_value_that_was_changed_under_its_version_is_seen_with_content_and_written_anew() {
    let sku = ("sku", 20, "\"a\"");
    // Greater and less than what it should be: of one version the greater value stays where it is sent again.
    for value in ["9", "1"] {
        let folder = synced();
        replace(&folder, "a", vec![merge("a", Some(5), &[sku, ("price", 20, "12.50"), ("stock", 10, value)])]).await;
        let versions = revsync(&folder, "verify", &[]);
        assert_eq!((versions.exit, told(&versions)), (0, vec![]), "versions alone do not tell");
        is_mended(&folder, &["--content"], &json!(["stale", "a", 20, 20, true]));
    }
    // Past the index, in its file.
    let folder = synced();
    let file = Connection::open(folder.path().join("revsync.db")).unwrap();
    assert_eq!(file.execute("UPDATE documents SET source = replace(source, '12.50', '13.50') WHERE id = 'a'", []).unwrap(), 1);
    drop(file);
    is_mended(&folder, &["--content"], &json!(["stale", "a", 20, 20, true]));
    // A whole document in the place of the row, whatever is compared.
    let folder = synced();
    let document = revsync::revision::Document("{}".into());
    replace(&folder, "a", vec![Operation::Index { target: target("a", 20), document }]).await;
    is_mended(&folder, &[], &json!(["stale", "a", 20, 20, true]));
}

#[tokio::test]
async fn a_cell_that_is_newer_than_the_stream_is_ahead_and_stays() {
    let folder = synced();
    damage::write(&local(&folder), vec![merge("a", None, &[("price", 21, "13.50")])]).await;
    let left = revsync(&folder, "verify", &["--repair", "--content"]);
    assert_eq!((left.exit, told(&left)), (1, vec![json!(["ahead", "a", 21, 20, false])]), "{left:?}");
    // What else is wrong with it is mended all the same.
    replace(&folder, "a", vec![merge("a", None, &[("price", 21, "13.50")])]).await;
    let left = revsync(&folder, "verify", &["--repair", "--content"]);
    assert_eq!((left.exit, told(&left)), (1, vec![json!(["stale", "a", 21, 20, false])]), "{left:?}");
    assert_eq!(left.json()["left"]["differences"][0]["class"], "ahead");
    assert_eq!(local(&folder).get("item", "a").unwrap().unwrap().1, r#"{"price":13.50,"sku":"a","stock":7}"#);
}
