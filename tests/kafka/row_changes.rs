//! Changes of rows on a real topic: from messages of Lindorm Streams and Debezium, with their keys and tombstones, to the documents.

use std::collections::BTreeMap;
use std::fs::read_to_string;

use revsync::sink::local::Local;
use serde_json::{Value, json};

use crate::command::{Done, Folder, fixture};
use crate::dice::Dice;
use crate::kafka::{Sent, broker};

/// The lines of a fixture.
fn lines(name: &str) -> Vec<String> {
    read_to_string(fixture(name)).unwrap().lines().map(str::to_owned).collect()
}

/// Brings the local index of a folder up to date.
fn sync(folder: &Folder, source: &str, options: &[&str]) -> Done {
    folder
        .revsync(&[&["--json", "sync", source, "--to", "local:index.db", "--dead-letters", "file:letters.jsonl"], options].concat())
        .balanced()
}

#[test]
fn the_documented_message_of_lindorm_goes_from_the_topic_to_the_search_hit() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("documented", 1), Folder::new());
    let messages: Vec<Sent> = lines("lindorm/documented.jsonl").iter().map(|line| Sent::to(0, line).key("MX-200")).collect();
    broker.produce(&topic, &messages);
    let done = sync(&folder, &broker.url(&topic), &["--key", "shop.item=sku"]);
    assert_eq!((done.exit, done.count("indexed")), (0, 1), "{}", done.err);
    let found = folder.revsync(&["--json", "search", "MX-200", "--to", "local:index.db"]).json();
    let hit = &found["hits"][0];
    assert_eq!((&hit["id"], &hit["version"]), (&json!("MX-200"), &json!(1_700_000_000_001_u64)), "{found}");
    assert_eq!(hit["source"], json!({"sku": "MX-200", "f:stock": "7", "f:note": null}));
    let unnamed = sync(&folder, &broker.url(&topic), &[]);
    assert_eq!(unnamed.exit, 2);
    assert!(unnamed.err.contains("--key shop.item=COLUMN"), "{}", unnamed.err);
}

/// What a fixture expects to be there in the end, by table and id: the document, or nothing.
fn expected(connector: &str) -> BTreeMap<(String, String), Option<Value>> {
    let mut rows = BTreeMap::new();
    for line in lines(&format!("debezium/{connector}.expected.jsonl")) {
        let unit: Value = serde_json::from_str(&line).unwrap();
        for (does, what) in unit.as_object().unwrap() {
            if does != "skip" {
                let text = |name: &str| what[name].as_str().unwrap().to_owned();
                rows.insert((text("table"), text("id")), what.get("document").cloned());
            }
        }
    }
    rows
}

#[test]
fn a_row_of_every_connector_of_debezium_is_what_its_last_message_says_also_where_all_come_again() {
    let Some(broker) = broker() else { return };
    for connector in ["mysql", "mariadb", "postgresql", "sqlserver", "postgresql-with-schema"] {
        let (topic, folder) = (broker.topic(connector, 1), Folder::new());
        let (values, keys) = (lines(&format!("debezium/{connector}.jsonl")), lines(&format!("debezium/{connector}.keys.jsonl")));
        let messages: Vec<Sent> = values
            .iter()
            .zip(&keys)
            .map(|(value, key)| match value.as_str() {
                "null" => Sent::to(0, "").key(key).null(),
                value => Sent::to(0, value).key(key),
            })
            .collect();
        // From the middle on once more: what comes late changes nothing.
        broker.produce(&topic, &messages);
        broker.produce(&topic, &messages[messages.len() / 2..]);
        let done = sync(&folder, &broker.url(&topic), &[]);
        assert_eq!((done.exit, done.count("dead_letters")), (0, 0), "{connector}: {}", done.err);
        let index = Local::open_existing(&folder.path().join("index.db")).unwrap();
        let rows = expected(connector);
        assert!(rows.len() >= 3, "{connector}: {rows:?}");
        for ((table, id), document) in rows {
            let there = index.get(&table, &id).unwrap().map(|(_, text)| serde_json::from_str::<Value>(&text).unwrap());
            assert_eq!(there, document, "{connector} {id}");
        }
    }
}

#[test]
fn cells_of_a_row_that_come_in_any_order_and_twice_are_one_document() {
    let Some(broker) = broker() else { return };
    let column = |name: &str, ts: u64, value: &str| format!(r#"{{"type":"VARCHAR","name":"{name}","ts":{ts},"value":"{value}"}}"#);
    let message = |op: &str, ts: u64, columns: &[String]| {
        let key = column("sku", ts, "MX-200");
        let data = [&[key], columns].concat().join(",");
        format!(r#"{{"op":"{op}","table":"shop.item","ts":{ts},"keyOnly":false,"data":[{data}]}}"#)
    };
    let history = [
        message("Put", 10, &[column("stock", 10, "7"), column("note", 10, "old")]),
        message("DeleteFamily", 20, &[]),
        message("Put", 21, &[column("stock", 21, "3")]),
        message("Put", 22, &[column("note", 15, "late"), column("colour", 22, "red")]),
        message("Put", 22, &[column("colour", 22, "blue")]),
    ];
    for round in 0..5 {
        let mut dice = Dice::new(round);
        let (topic, folder) = (broker.topic(&format!("cells-{round}"), 3), Folder::new());
        let mut sent: Vec<&String> = history.iter().chain(&history).collect();
        dice.shuffle(&mut sent);
        // Not even in one partition: nothing depends on it.
        let messages: Vec<Sent> = (0..).zip(&sent).map(|(at, value)| Sent::to(at % 3, value).key("MX-200")).collect();
        broker.produce(&topic, &messages);
        let done = sync(&folder, &broker.url(&topic), &["--key", "shop.item=sku", "--rows", "cells"]);
        assert_eq!((done.exit, done.count("received")), (0, 10), "{}", done.err);
        let index = Local::open_existing(&folder.path().join("index.db")).unwrap();
        let (_, document) = index.get("shop.item", "MX-200").unwrap().unwrap();
        let document: Value = serde_json::from_str(&document).unwrap();
        assert_eq!(document, json!({"sku": "MX-200", "stock": "3", "colour": "red"}), "round {round}");
    }
}
