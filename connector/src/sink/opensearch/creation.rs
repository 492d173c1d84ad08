//! What an index is created with: revsync's own choices, and over them what the user gave.
//!
//! Pure: puts JSON together, and asks no server whether it takes it. The same choices stand in infra/opensearch/index-template.json, for
//! clusters on which revsync may create nothing.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::plan::cells::FIELD as CELLS;
use crate::plan::history::OP;
use crate::plan::tombstone::{DELETED, FIELD};

/// The mapping of tombstones and of what is kept of the cells of a row, as the body of `PUT INDEX/_mapping`. By itself OpenSearch would take the
/// time for text, and make a field of each column's version.
pub(super) fn tombstone_mapping() -> Value {
    json!({ "properties": { FIELD: { "properties": {
        CELLS: { "type": "object", "enabled": false },
        "deleted": { "type": "boolean" },
        "time": { "type": "date" },
        "v": { "type": "integer" },
    } } } })
}

/// The mapping of what every document of a history says of its revision, where it is known beforehand. A time that the server cannot read costs the
/// document nothing.
fn history_mapping() -> Value {
    json!({ "properties": { FIELD: { "properties": {
        OP: { "type": "keyword" },
        "id": { "type": "keyword" },
        "version": { "type": "long" },
        "table": { "type": "keyword" },
        "tableId": { "type": "keyword" },
        "txId": { "type": "keyword" },
        "txTime": { "type": "date", "ignore_malformed": true },
        "blockAddress": { "properties": { "strandId": { "type": "keyword" }, "sequenceNo": { "type": "long" } } },
        "hash": { "type": "keyword" },
    } } } })
}

/// What an index is to hold, by the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// Documents.
    Documents,
    /// Documents, and tombstones.
    Tombstones,
    /// Every revision, as a document of its own.
    History,
}

/// The filter of an alias that hides tombstones from searches and counts. A document that is read by its id is not filtered.
pub(super) fn tombstone_filter() -> Value {
    json!({ "bool": { "must_not": { "term": { DELETED: true } } } })
}

/// The body of `PUT NAME-000001`. `gc_deletes` is the setting of that name, where the server has it; `holds` is what the index
/// is for; `given` is a body with `settings`, `mappings` or `aliases`, or a mapping by itself, and wins over revsync's choices.
pub(super) fn body(name: &str, gc_deletes: Option<&str>, holds: Holds, given: Option<&Value>) -> Value {
    let mut settings = BTreeMap::new();
    if let Some(gc_deletes) = gc_deletes {
        settings.insert("index.gc_deletes".to_owned(), json!(gc_deletes));
    }
    // Dates and numbers inside strings stay strings, so that the type of a field does not hang on the first document that has it, and
    // dynamic decimals are double, which keeps more digits than the server's own choice of float.
    let mut mappings = json!({
        "date_detection": false,
        "numeric_detection": false,
        "dynamic_templates": [{"decimals": {"match_mapping_type": "double", "mapping": {"type": "double"}}}],
    });
    let mut aliases = json!({ name: { "is_write_index": true } });
    if holds == Holds::History {
        lay_over(&mut mappings, Some(&history_mapping()));
    }
    if holds == Holds::Tombstones {
        lay_over(&mut mappings, Some(&tombstone_mapping()));
        // A filter of the user's own stands for itself: two laid over each other make a third that nobody wrote.
        if given.is_none_or(|given| given["aliases"][name]["filter"].is_null()) {
            aliases[name]["filter"] = tombstone_filter();
        }
    }
    match given {
        Some(Value::Object(given)) if ["settings", "mappings", "aliases"].iter().any(|part| given.contains_key(*part)) => {
            if let Some(given) = given.get("settings") {
                flatten("", given, &mut settings);
            }
            lay_over(&mut mappings, given.get("mappings"));
            lay_over(&mut aliases, given.get("aliases"));
        }
        mapping => lay_over(&mut mappings, mapping),
    }
    json!({ "settings": settings, "mappings": mappings, "aliases": aliases })
}

/// Settings by their full names, whichever of the accepted forms they came in.
fn flatten(prefix: &str, value: &Value, out: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&name, value, out);
            }
        }
        value => {
            let name = if prefix.starts_with("index.") { prefix.to_owned() } else { format!("index.{prefix}") };
            out.insert(name, value.clone());
        }
    }
}

/// Lays an object over another, member by member; everything but objects is replaced.
fn lay_over(under: &mut Value, over: Option<&Value>) {
    match (under, over) {
        (_, None) => {}
        (Value::Object(under), Some(Value::Object(over))) => {
            for (key, value) in over {
                lay_over(under.entry(key).or_insert_with(|| Value::Object(Map::new())), Some(value));
            }
        }
        (under, Some(over)) => *under = over.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_created_with_what_revsync_needs() {
        assert_eq!(
            body("people", Some("24h"), Holds::Documents, None),
            json!({
                "settings": {"index.gc_deletes": "24h"},
                "mappings": {
                    "date_detection": false,
                    "numeric_detection": false,
                    "dynamic_templates": [{"decimals": {"match_mapping_type": "double", "mapping": {"type": "double"}}}],
                },
                "aliases": {"people": {"is_write_index": true}},
            })
        );
        assert_eq!(body("people", None, Holds::Documents, None)["settings"], json!({}));
    }

    #[test]
    fn an_index_of_tombstones_has_their_fields_and_an_alias_that_hides_them() {
        let created = body("people", Some("24h"), Holds::Tombstones, None);
        let fields = json!({
            "cells": {"type": "object", "enabled": false},
            "deleted": {"type": "boolean"},
            "time": {"type": "date"},
            "v": {"type": "integer"},
        });
        assert_eq!(created["mappings"]["properties"], json!({"revsync": {"properties": fields}}));
        let filter = json!({"bool": {"must_not": {"term": {"revsync.deleted": true}}}});
        assert_eq!(created["aliases"], json!({"people": {"is_write_index": true, "filter": filter}}));

        let given =
            json!({"mappings": {"properties": {"vin": {"type": "keyword"}}}, "aliases": {"people": {"filter": {"term": {"a": 1}}}}});
        let created = body("people", Some("24h"), Holds::Tombstones, Some(&given));
        assert_eq!(created["mappings"]["properties"], json!({"revsync": {"properties": fields}, "vin": {"type": "keyword"}}));
        assert_eq!(created["aliases"], json!({"people": {"is_write_index": true, "filter": {"term": {"a": 1}}}}));
    }

    #[test]
    fn an_index_of_a_history_has_the_fields_of_a_revision_and_an_alias_that_hides_nothing() {
        let created = body("people", Some("24h"), Holds::History, None);
        let fields = &created["mappings"]["properties"]["revsync"]["properties"];
        assert_eq!(
            (&fields["op"]["type"], &fields["version"]["type"], &fields["txTime"]["type"]),
            (&json!("keyword"), &json!("long"), &json!("date"))
        );
        assert!(fields.get("deleted").is_none());
        assert_eq!(created["aliases"], json!({"people": {"is_write_index": true}}));
    }

    #[test]
    fn the_published_index_template_makes_the_same_choices() {
        let template: Value = serde_json::from_str(include_str!("../../../../infra/opensearch/index-template.json")).unwrap();
        let created = body("people", Some("24h"), Holds::Tombstones, None);
        assert_eq!(template["template"]["mappings"], created["mappings"]);
        assert_eq!(template["template"]["settings"], created["settings"]);
    }

    #[test]
    fn what_the_user_gives_wins_in_any_form() {
        for settings in [
            json!({"index": {"gc_deletes": "1h", "number_of_shards": 2}}),
            json!({"index.gc_deletes": "1h", "number_of_shards": 2}),
            json!({"gc_deletes": "1h", "index": {"number_of_shards": 2}}),
        ] {
            let body =
                body("people", Some("24h"), Holds::Documents, Some(&json!({"settings": settings, "mappings": {"date_detection": true}})));
            assert_eq!(body["settings"], json!({"index.gc_deletes": "1h", "index.number_of_shards": 2}));
            assert_eq!(body["mappings"]["date_detection"], json!(true));
            assert_eq!(body["mappings"]["numeric_detection"], json!(false));
        }
    }

    #[test]
    fn a_file_that_is_only_a_mapping_is_one() {
        let body = body("people", Some("24h"), Holds::Documents, Some(&json!({"properties": {"vin": {"type": "keyword"}}})));
        assert_eq!(body["mappings"]["properties"]["vin"]["type"], json!("keyword"));
        assert_eq!(body["mappings"]["date_detection"], json!(false));
    }
}
