//! Rows put together from cells: the index that they are merged into, what is kept there, and what a server may have against the script.

use std::process::Stdio;
use std::time::Duration;

use revsync::codec::Rows;
use revsync::metrics::Swept;
use revsync::operation::Operation;
use revsync::plan::mapping::{Deletes, Mapping, Rule};
use revsync::plan::outcome::{Class, Failure, Outcome};
use revsync::run::sweep::{Request, sweep};
use revsync::sink::Sink;
use revsync::sink::opensearch::OpenSearch;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::command::Folder;
use crate::conforming;
use crate::live::{ask, get, name, put_to, stored};
use crate::merges::{cells, every_order_comes_to_one_document};
use crate::operations::{connect, delete, put, target, write};
use crate::scripted_opensearch::{Fate, Scripted, Step};
use crate::services::{self, Server};

/// A sink for an index that rows are merged into, by a rule as a configuration has it.
async fn merging(url: &str, index: &str) -> OpenSearch {
    let rule = Rule { name: "*".to_owned(), index: Some(index.to_owned()), rows: Rows::Cells, ..Rule::default() };
    connect(url).await.with_deletes(Mapping::new(vec![rule]).unwrap().deletes())
}

fn merge(index: &str, id: &str, columns: &[(&str, u64, &str)]) -> Operation {
    Operation::Merge { target: target(index, id, 0), cells: cells(None, columns).into(), time: 1_000 }
}

fn erase(index: &str, id: &str, version: u64) -> Operation {
    Operation::Merge { target: target(index, id, version), cells: cells(Some(version), &[]).into(), time: 1_000 }
}

/// The ids that somebody finds who searches.
async fn found(server: &Server, index: &str) -> Vec<String> {
    ask(server, opensearch::http::Method::Post, &format!("{index}/_refresh"), Value::Null).await;
    let answer = get(server, &format!("{index}/_search?size=100")).await;
    let mut ids: Vec<String> =
        answer["hits"]["hits"].as_array().unwrap().iter().map(|hit| hit["_id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn hundreds_of_orders_of_one_history_come_to_one_document_and_one_bookkeeping() {
    let documents = if std::env::var_os("REVSYNC_TEST_LONG").is_some_and(|value| value == "1") { 3_000 } else { 300 };
    for (at, server) in services::opensearch().iter().enumerate() {
        let bench = conforming::bench(at).await.unwrap();
        let fold = every_order_comes_to_one_document(&bench, documents).await;
        let mut kept = Vec::new();
        for document in 0..documents {
            let (_, source) = stored(server, &bench.index, &document.to_string()).await.unwrap();
            kept.push(source["revsync"].to_string());
        }
        kept.sort();
        kept.dedup();
        let [kept] = kept.as_slice() else { panic!("{}: {kept:?}", server.name) };
        let kept: Value = serde_json::from_str(kept).unwrap();
        assert_eq!(
            (kept["cells"]["v"].as_u64(), kept["cells"]["erased"].as_u64(), kept.get("time")),
            (Some(1), fold.erased, None),
            "{}",
            server.name
        );
        for (name, column) in &fold.columns {
            assert_eq!(kept["cells"]["columns"][name][0].as_u64(), Some(column.version), "{}: {name}", server.name);
        }
    }
}

#[tokio::test]
async fn an_index_is_made_so_that_rows_of_cells_make_no_fields_but_their_columns() {
    for server in services::opensearch() {
        let items = name("cells");
        let sink = merging(&server.url, &items).await;
        let merges = vec![merge(&items, "1", &[("f:stock", 5, "7"), ("price", 6, "442.30")]), erase(&items, "2", 5)];
        assert_eq!(write(&sink, merges).await.unwrap(), [Outcome::Indexed, Outcome::Deleted], "{}", server.name);
        let fields = get(server, &items).await[format!("{items}-000001")]["mappings"]["properties"].clone();
        let names: Vec<&String> = fields.as_object().unwrap().keys().collect();
        assert_eq!(names, ["f:stock", "price", "revsync"], "{}", server.name);
        assert_eq!(fields["revsync"]["properties"]["cells"], json!({"type": "object", "enabled": false}), "{}", server.name);
        assert_eq!(found(server, &items).await, ["1"], "{}: the alias hides what is erased", server.name);
        let kept = json!({"v": 1, "deleted": true, "time": "1970-01-01T00:00:01Z", "cells": {"v": 1, "erased": 5}});
        assert_eq!(stored(server, &items, "2").await.unwrap().1, json!({ "revsync": kept }), "{}", server.name);

        let (_stop, stopping) = watch::channel(false);
        let request = Request {
            names: vec![items.clone()],
            must_exist: true,
            age: Duration::from_secs(3600),
            dry_run: false,
            give_up_after: Duration::from_secs(30),
        };
        let mut counts = Swept::default();
        sweep(&connect(&server.url).await.for_sweep(), &request, stopping, &mut counts, |_, _| {}).await.unwrap();
        assert_eq!(counts, Swept { swept: 1, kept: [].into() }, "{}", server.name);
        assert_eq!((stored(server, &items, "2").await, found(server, &items).await), (None, vec!["1".to_owned()]));
        assert_eq!(write(&sink, vec![merge(&items, "2", &[("f:stock", 6, "1")])]).await.unwrap(), [Outcome::Indexed]);
    }
}

#[tokio::test]
async fn two_processes_that_merge_the_same_rows_at_once_come_to_the_same_documents() {
    for server in services::opensearch() {
        let (folder, items) = (Folder::new(), name("two"));
        let change = |row: usize, at: u64| {
            let key = format!(r#"{{"name":"sku","value":"{row}"}}"#);
            match at {
                4 => format!(r#"{{"op":"DeleteFamily","table":"item","ts":3,"data":[{key}]}}"#),
                _ => format!(
                    r#"{{"op":"Put","table":"item","ts":{at},"data":[{key},{{"name":"n","value":{at}.50}},{{"name":"c{at}","value":"{row}"}}]}}"#
                ),
            }
        };
        let changes: Vec<String> = (0..8).flat_map(|at| (0..40).map(move |row| change(row, at))).collect();
        folder.write("forwards.jsonl", changes.join("\n"));
        folder.write("backwards.jsonl", changes.iter().rev().cloned().collect::<Vec<_>>().join("\n"));
        folder.write("rules.toml", format!("[[table]]\nname = \"item\"\nindex = \"{items}\"\nkey = [\"sku\"]\nrows = \"cells\"\n"));
        let start = |file: &str| {
            let letters = format!("file:{file}.letters");
            let arguments = ["--json", "--config", "rules.toml", "sync", file, "--to", &server.url, "--dead-letters", &letters];
            let few = ["--request-operations", "20"];
            folder.command(&[&arguments[..], &few[..]].concat(), &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        // Neither finds out for the other that there is no index yet.
        assert_eq!(folder.revsync(&["--config", "rules.toml", "setup", "--to", &server.url]).exit, 0);
        for process in [start("forwards.jsonl"), start("backwards.jsonl")] {
            let output = process.wait_with_output().unwrap();
            let counts: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert!(output.status.success() && counts["received"] == 320 && counts["dead_letters"] == 0, "{}: {output:?}", server.name);
        }
        let versions = json!({"sku": [7, "\"?\""], "n": [7, "7.50", 1], "c5": [5, "\"?\""], "c6": [6, "\"?\""], "c7": [7, "\"?\""]});
        for row in 0..40 {
            let kept: Value = serde_json::from_str(&versions.to_string().replace('?', &row.to_string())).unwrap();
            let id = row.to_string();
            let kept = json!({"cells": {"v": 1, "erased": 3, "columns": kept}});
            let expected = json!({"sku": id, "n": 7.5, "c5": id, "c6": id, "c7": id, "revsync": kept});
            assert_eq!(stored(server, &items, &id).await.unwrap().1, expected, "{}: {row}", server.name);
        }
    }
}

#[tokio::test]
async fn an_index_that_exists_is_given_a_place_for_cells_before_the_first_merge() {
    for server in services::opensearch() {
        // One whose rule does not say that it gets merges, and whose tombstones were mapped by an earlier version.
        let items = name("older");
        let mapped = json!({"properties": {"revsync": {"properties": {"deleted": {"type": "boolean"}, "time": {"type": "date"}}}}});
        put_to(server, &items, json!({ "mappings": mapped })).await;
        let sink = connect(&server.url).await;
        assert_eq!(write(&sink, vec![merge(&items, "1", &[("a", 5, "7")])]).await.unwrap(), [Outcome::Indexed], "{}", server.name);
        let fields = get(server, &items).await[&items]["mappings"]["properties"]["revsync"]["properties"].clone();
        assert_eq!(fields["cells"], json!({"type": "object", "enabled": false}), "{}", server.name);
    }
}

#[tokio::test]
async fn an_index_that_has_no_place_for_cells_is_blocked_with_the_reason_and_others_go_on() {
    for server in services::opensearch() {
        let (taken, open) = (name("taken"), name("open"));
        let text = json!({"properties": {"revsync": {"properties": {"cells": {"properties": {"x": {"type": "text"}}}}}}});
        put_to(server, &taken, json!({ "mappings": text })).await;
        let sink = merging(&server.url, &taken).await;
        for _ in 0..2 {
            let merges = vec![merge(&taken, "1", &[("a", 5, "7")]), merge(&open, "1", &[("a", 6, "7")])];
            let outcomes = write(&sink, merges).await.unwrap();
            let Outcome::Retry(Class::Blocked, fault) = &outcomes[0] else { panic!("{}: {outcomes:?}", server.name) };
            assert!(fault.reason.contains("does not map what is kept of merged cells"), "{fault}");
            let said = "the mapping was refused: ";
            assert!(fault.reason.contains(said) && fault.reason.contains("[enabled] parameter can't be updated"), "{fault}");
            assert!(fault.reason.ends_with("this takes a new index"), "{fault}");
            assert!(matches!(outcomes[1], Outcome::Indexed | Outcome::Stale), "{}: {outcomes:?}", server.name);
        }
        assert_eq!(stored(server, &taken, "1").await, None, "{}", server.name);
        let (_, advice) = sink.setup(&[&taken]).await.unwrap();
        assert!(advice[0].found.contains("does not map what is kept of merged cells"), "{}: {advice:?}", server.name);
    }
}

#[tokio::test]
async fn a_mapping_that_refuses_a_cell_costs_that_change_and_no_other() {
    for server in services::opensearch() {
        let items = name("typed");
        put_to(server, &items, json!({"mappings": {"properties": {"n": {"type": "long"}}}})).await;
        let sink = merging(&server.url, &items).await;
        let merges = vec![
            merge(&items, "1", &[("n", 5, "7")]),
            merge(&items, "1", &[("n", 9, "\"secret\"")]),
            merge(&items, "1", &[("n", 6, "8"), ("m", 6, "1E+9999999999")]),
            merge(&items, "1", &[("n", 7, "9")]),
        ];
        let outcomes = write(&sink, merges).await.unwrap();
        assert_eq!([&outcomes[0], &outcomes[3]], [&Outcome::Indexed, &Outcome::Indexed], "{}", server.name);
        let [Outcome::Rejected(typed), Outcome::Rejected(beyond)] = &outcomes[1..3] else { panic!("{}: {outcomes:?}", server.name) };
        assert_eq!((typed.kind.as_str(), beyond.kind.as_str()), ("mapper_parsing_exception", "script_exception"));
        assert!(!format!("{outcomes:?}").contains("secret"), "{outcomes:?}");
        assert_eq!(stored(server, &items, "1").await.unwrap().1["n"], 9, "{}", server.name);
    }
}

/// A server with the index `items-000001` behind the alias `items`, which has what merges need.
async fn scripted(steps: impl IntoIterator<Item = Step>) -> (Scripted, OpenSearch) {
    let server = Scripted::start().await;
    server.add_index("items-000001", Some("items"));
    server.fix("PUT", "/items-000001/_mapping", 200, "{}", &[]);
    server.script(steps);
    let sink = connect(&server.url()).await;
    (server, sink)
}

fn answer(items: &[Value]) -> Step {
    let items: Vec<Value> = items.iter().map(|item| json!({ "update": item })).collect();
    Step::without_writing(Fate::Say(json!({"errors": true, "items": items}).to_string()))
}

fn refused(cause: Value) -> Value {
    let error = json!({"type": "illegal_argument_exception", "reason": "failed to execute script", "caused_by": cause});
    json!({"status": 400, "error": error})
}

#[tokio::test]
async fn what_came_of_a_merge_is_told_by_its_result() {
    let steps = [answer(&[
        json!({"status": 201, "result": "created"}),
        json!({"status": 200, "result": "updated"}),
        json!({"status": 200, "result": "noop"}),
        json!({"status": 409, "error": {"type": "version_conflict_engine_exception", "reason": "[1]: version conflict"}}),
    ])];
    let (server, sink) = scripted(steps).await;
    let one = || merge("items", "1", &[("a", 1, "1")]);
    let outcomes = write(&sink, vec![one(), erase("items", "1", 2), one(), one()]).await.unwrap();
    assert_eq!(outcomes[..3], [Outcome::Indexed, Outcome::Deleted, Outcome::Stale]);
    assert!(matches!(outcomes[3], Outcome::Retry(Class::Contended, _)), "another write came in between: {outcomes:?}");
    write(&sink, vec![put("items", "2", 1, "{}"), delete("items", "3", 1)]).await.unwrap();
    let asked: Vec<bool> = server.bulks().iter().map(|bulk| bulk.query.contains("items.update.result")).collect();
    assert_eq!(asked, [true, false], "the result is asked for where there are merges");
}

#[tokio::test]
async fn a_server_that_does_not_run_the_script_is_for_a_person_to_put_right() {
    for (cause, what) in [
        (json!({"type": "illegal_argument_exception", "reason": "cannot execute [inline] scripts"}), "script.allowed_types"),
        (
            json!({"type": "illegal_argument_exception", "reason": "cannot execute scripts using [update] context"}),
            "script.allowed_contexts",
        ),
        (json!({"type": "illegal_argument_exception", "reason": "script_lang not supported [painless]"}), "lang-painless"),
        (json!({"type": "script_exception", "reason": "compile error", "script": "def", "lang": "painless"}), "does not compile"),
    ] {
        let (_server, sink) = scripted([answer(&[refused(cause)])]).await;
        match write(&sink, vec![merge("items", "1", &[("a", 1, "1")])]).await {
            Err(Failure::Misconfigured { what: told }) => assert!(told.contains(what), "{told}"),
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_server_that_compiles_too_much_is_asked_again_and_a_row_that_no_script_can_take_is_rejected() {
    let busy =
        json!({"type": "circuit_breaking_exception", "reason": "[script] Too many dynamic script compilations within, max: [75/5m]"});
    let cause = json!({"type": "number_format_exception", "reason": "secret"});
    let beyond = json!({"type": "script_exception", "reason": "runtime error", "script_stack": ["secret"], "caused_by": cause});
    let (_server, sink) = scripted([answer(&[refused(busy), refused(beyond)])]).await;
    let one = || merge("items", "1", &[("a", 1, "1")]);
    let outcomes = write(&sink, vec![one(), one()]).await.unwrap();
    assert!(matches!(outcomes[0], Outcome::Retry(Class::Throttled, _)), "{outcomes:?}");
    let Outcome::Rejected(fault) = &outcomes[1] else { panic!("{outcomes:?}") };
    assert_eq!(fault.to_string(), "script_exception: runtime error (number_format_exception)");
}

#[tokio::test]
async fn rules_that_merge_say_so_before_any_table_was_seen() {
    let rule = |rows| Rule { name: "Item".to_owned(), rows, deletes: Deletes::Delete, ..Rule::default() };
    let server = Scripted::start().await;
    let sink = connect(&server.url()).await.with_deletes(Mapping::new(vec![rule(Rows::Cells)]).unwrap().deletes());
    sink.setup(&["item"]).await.unwrap();
    let made = server.requests().into_iter().find(|request| request.method == "PUT").unwrap();
    let body: Value = serde_json::from_slice(&made.body).unwrap();
    assert_eq!(body["aliases"]["item"]["filter"], json!({"bool": {"must_not": {"term": {"revsync.deleted": true}}}}), "{body}");
    assert!(sink.targets().is_empty());
}
