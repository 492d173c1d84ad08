//! Deletes that stay deleted, on real servers: where a plain delete is forgotten and a tombstone holds, who sees tombstones, and their sweep.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use opensearch::http::Method;
use revsync::error::Error;
use revsync::metrics::{Kept, Swept};
use revsync::operation::{Operation, Target};
use revsync::plan::mapping::{Deletes, Mapping, Rule};
use revsync::plan::outcome::{Failure, Outcome, Reply};
use revsync::run::sweep::{Request, sweep};
use revsync::sink::opensearch::{Advice, Config, OpenSearch};
use revsync::sink::{Page, Pending, Sink, Survey, Tombstones};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::command::{Folder, fixture, revision};
use crate::live::{ask, get, name, put_to, stored};
use crate::operations::{config, connect, delete, put, target, tombstone, write};
use crate::services::{self, Server};

/// A time long past, in milliseconds since 1970.
const OLD: u64 = 1_000;
/// A time that never comes.
const YOUNG: u64 = u64::MAX;

/// A sink for an index that gets tombstones, by a rule as a configuration has it.
async fn keeping(config: &Config, index: &str) -> OpenSearch {
    let rule = Rule { name: "*".to_owned(), index: Some(index.to_owned()), deletes: Deletes::Tombstone, ..Rule::default() };
    OpenSearch::connect(config).await.unwrap().with_deletes(Mapping::new(vec![rule]).unwrap().deletes())
}

/// Tries the older revision again until the answer is another one than this.
async fn until_not(sink: &OpenSearch, index: &str, outcome: fn(&Outcome) -> bool) -> Outcome {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let answer = write(sink, vec![put(index, "1", 1, r#"{"name":"Raul"}"#)]).await;
        match answer {
            Ok(outcomes) if !outcome(&outcomes[0]) => return outcomes.into_iter().next().unwrap(),
            Err(failure) if !matches!(failure, Failure::Retry { .. }) => panic!("{failure:?}"),
            _ => assert!(Instant::now() < until, "the answer stayed the same: {answer:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The ids that somebody finds who searches, as many as a count gives.
async fn found(server: &Server, index: &str) -> Vec<String> {
    ask(server, Method::Post, &format!("{index}/_refresh"), Value::Null).await;
    let answer = get(server, &format!("{index}/_search?size=100")).await;
    let mut ids: Vec<String> =
        answer["hits"]["hits"].as_array().unwrap().iter().map(|hit| hit["_id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    assert_eq!(get(server, &format!("{index}/_count")).await["count"].as_u64(), Some(ids.len() as u64));
    ids
}

fn is_tombstone(source: &Value) -> bool {
    source["revsync"]["deleted"] == true
}

#[tokio::test]
async fn past_gc_deletes_an_older_revision_undoes_a_plain_delete_and_not_a_tombstone() {
    for server in services::opensearch() {
        let (plain, kept) = (name("forgotten"), name("kept"));
        let config = Config { gc_deletes: "1s".to_owned(), ..config(&server.url) };
        let (forgetting, keeping) = (OpenSearch::connect(&config).await.unwrap(), keeping(&config, &kept).await);
        write(&forgetting, vec![put(&plain, "1", 1, "{}"), delete(&plain, "1", 2)]).await.unwrap();
        write(&keeping, vec![put(&kept, "1", 1, "{}"), tombstone(&kept, "1", 2, OLD)]).await.unwrap();
        for index in [&plain, &kept] {
            assert_eq!(found(server, index).await, [] as [&str; 0], "{}: deleted", server.name);
            assert_eq!(ask(server, Method::Post, &format!("{index}/_flush"), Value::Null).await.0, 200);
        }

        let outcome = until_not(&forgetting, &plain, |outcome| *outcome == Outcome::Stale).await;
        assert_eq!(outcome, Outcome::Indexed, "{}: the delete is forgotten, which is the limit of plain deletes", server.name);
        assert_eq!(found(server, &plain).await, ["1"], "{}: the deleted document is back", server.name);

        let late = vec![put(&kept, "1", 1, "{}"), put(&kept, "1", 2, "{}"), tombstone(&kept, "1", 1, OLD)];
        assert_eq!(write(&keeping, late).await.unwrap(), [Outcome::Stale, Outcome::Stale, Outcome::Stale], "{}", server.name);
        assert_eq!(found(server, &kept).await, [] as [&str; 0], "{}", server.name);
        let (version, source) = stored(server, &kept, "1").await.unwrap();
        assert!(version == 2 && is_tombstone(&source), "{source}");
        assert_eq!(write(&keeping, vec![put(&kept, "1", 3, "{}")]).await.unwrap(), [Outcome::Indexed]);
        assert_eq!(found(server, &kept).await, ["1"], "a newer revision brings it back");
    }
}

#[tokio::test]
async fn past_a_restart_an_older_revision_undoes_a_plain_delete_and_not_a_tombstone() {
    for mut node in services::nodes() {
        let server = node.start();
        let (forgetting, keeper) = (connect(&server.url).await, keeping(&config(&server.url), "kept").await);
        write(&forgetting, vec![put("plain", "1", 1, "{}"), delete("plain", "1", 2)]).await.unwrap();
        write(&keeper, vec![put("kept", "1", 1, "{}"), tombstone("kept", "1", 2, OLD)]).await.unwrap();
        assert_eq!(get(&server, "plain").await["plain-000001"]["settings"]["index"]["gc_deletes"], "24h");
        for (sink, index) in [(&forgetting, "plain"), (&keeper, "kept")] {
            assert_eq!(write(sink, vec![put(index, "1", 1, "{}")]).await.unwrap(), [Outcome::Stale], "{}", server.name);
        }
        node.stop();

        let server = node.start();
        let (forgetting, keeper) = (connect(&server.url).await, keeping(&config(&server.url), "kept").await);
        // Shards come back one after another.
        let retried = |outcome: &Outcome| matches!(outcome, Outcome::Retry(..));
        assert_eq!(until_not(&forgetting, "plain", retried).await, Outcome::Indexed, "{}: forgotten, well within 24h", server.name);
        assert_eq!(until_not(&keeper, "kept", retried).await, Outcome::Stale, "{}", server.name);
        assert_eq!((found(&server, "plain").await, found(&server, "kept").await), (vec!["1".to_owned()], vec![]), "{}", server.name);
        node.stop();
    }
}

#[tokio::test]
async fn an_index_of_tombstones_is_made_so_that_readers_do_not_see_them() {
    for server in services::opensearch() {
        // A name with a dot, as tables of shops have it.
        let people = format!("{}.people", name("hidden"));
        let sink = keeping(&config(&server.url), &people).await;
        let written =
            vec![put(&people, "1", 1, r#"{"name":"Raul"}"#), put(&people, "2", 1, r#"{"name":"Raul"}"#), tombstone(&people, "1", 2, OLD)];
        assert_eq!(write(&sink, written).await.unwrap(), [Outcome::Indexed, Outcome::Indexed, Outcome::Deleted], "{}", server.name);
        let first = format!("{people}-000001");
        let index = get(server, &people).await[&first].clone();
        let filter = json!({"bool": {"must_not": {"term": {"revsync.deleted": true}}}});
        assert_eq!(index["aliases"][&people], json!({"is_write_index": true, "filter": filter}), "{index}");
        let fields = json!({
            "cells": {"type": "object", "enabled": false},
            "deleted": {"type": "boolean"},
            "time": {"type": "date"},
            "v": {"type": "integer"},
        });
        assert_eq!(index["mappings"]["properties"]["revsync"]["properties"], fields, "{index}");

        assert_eq!(found(server, &people).await, ["2"]);
        assert_eq!(found(server, &first).await, ["1", "2"], "whoever asks the index itself sees them");
        assert!(is_tombstone(&get(server, &format!("{people}/_doc/1")).await["_source"]), "as does whoever reads by id");
        for pattern in [&people, &first] {
            for text in ["raul", "*", "true", "1970-01-01T00:00:01Z"] {
                let hits = sink.search(text, pattern, 10).await.unwrap();
                assert!(hits.iter().all(|hit| hit.id == "2"), "{}: {text} in {pattern}: {hits:?}", server.name);
            }
            assert_eq!(sink.search("raul", pattern, 10).await.unwrap().len(), 1);
        }
    }
}

#[tokio::test]
async fn an_index_that_exists_gets_the_fields_of_tombstones_and_its_readers_are_thought_of() {
    for server in services::opensearch() {
        let (plain, alias, ready, taken) = (name("plain"), name("alias"), name("ready"), name("taken"));
        put_to(server, &plain, json!({})).await;
        put_to(server, &format!("{alias}-1"), json!({"aliases": { &alias: {} }})).await;
        let filter = json!({"bool": {"must_not": [{"term": {"revsync.deleted": true}}]}});
        put_to(server, &format!("{ready}-1"), json!({"aliases": { &ready: {"filter": filter} }})).await;
        let text = json!({"properties": {"revsync": {"properties": {"time": {"type": "text"}}}}});
        put_to(server, &taken, json!({"mappings": text})).await;
        for (index, concrete, advised) in [
            (&plain, plain.clone(), &["is no alias"][..]),
            (&alias, format!("{alias}-1"), &["does not hide tombstones"]),
            (&ready, format!("{ready}-1"), &[]),
            (&taken, taken.clone(), &["the mapping was refused", "is no alias"]),
        ] {
            let told = |advice: &[Advice]| {
                assert_eq!(advice.len(), advised.len(), "{}: {advice:?}", server.name);
                for (advice, part) in advice.iter().zip(advised) {
                    assert!(advice.found.contains(part) && advice.found.contains(index.as_str()), "{}: {advice:?}", server.name);
                }
            };
            let sink = keeping(&config(&server.url), index).await;
            let before = sink.advice(index).await.unwrap();
            assert!(before.iter().any(|advice| advice.found.contains("does not map the fields of tombstones")), "{before:?}");
            // By the first write of any kind, whether setup came before or not.
            assert_eq!(write(&sink, vec![put(index, "1", 1, "{}")]).await.unwrap(), [Outcome::Indexed]);
            let mapping = get(server, index).await[&concrete]["mappings"]["properties"]["revsync"].clone();
            assert_eq!(mapping["properties"]["time"]["type"], if *index == taken { "text" } else { "date" }, "{}", server.name);
            told(&sink.setup(&[index]).await.unwrap().1);
            assert_eq!(write(&sink, vec![tombstone(index, "1", 2, OLD)]).await.unwrap(), [Outcome::Deleted], "used as it is");
        }
        // What the advice says, done.
        for help in [&connect_advice(server, &alias).await, &connect_advice(server, &plain).await] {
            let (_, action) = help.split_once("POST _aliases ").unwrap();
            let (status, answer) = ask(server, Method::Post, "_aliases", serde_json::from_str(action).unwrap()).await;
            assert_eq!(status, 200, "{answer}");
        }
        assert_eq!(connect_advice(server, &alias).await, "");
        assert_eq!(found(server, &format!("{plain}-search")).await, [] as [&str; 0]);
        assert_eq!(found(server, &plain).await, ["1"]);
    }
}

/// What is to be done for the readers of an index, where anything is.
async fn connect_advice(server: &Server, index: &str) -> String {
    let advice = keeping(&config(&server.url), index).await.advice(index).await.unwrap();
    advice.into_iter().next().map(|advice| advice.help).unwrap_or_default()
}

fn request(index: &str) -> Request {
    Request {
        names: vec![index.to_owned()],
        must_exist: true,
        age: Duration::from_secs(3600),
        dry_run: false,
        give_up_after: Duration::from_secs(30),
    }
}

async fn swept(sink: &dyn Tombstones, request: &Request) -> Swept {
    let mut counts = Swept::default();
    let (_stop, stopping) = watch::channel(false);
    sweep(sink, request, stopping, &mut counts, |_, _| {}).await.unwrap();
    counts
}

async fn refresh(server: &Server, index: &str) {
    assert_eq!(ask(server, Method::Post, &format!("{index}/_refresh"), Value::Null).await.0, 200);
}

#[tokio::test]
async fn a_sweep_removes_every_old_tombstone_and_nothing_else() {
    for server in services::opensearch() {
        let people = name("sweep");
        let shards = HashMap::from([(people.clone(), json!({"settings": {"number_of_shards": 3}}))]);
        let sink = keeping(&config(&server.url), &people).await.with_mappings(shards);
        // More than two pages, and some in another shard than that of their id.
        let mut written: Vec<Operation> = (0..2_300).map(|id| tombstone(&people, &id.to_string(), 7, OLD)).collect();
        written.extend((0..20).map(|id| Operation::Tombstone {
            target: Target { routing: Some(format!("to the {id}")), ..target(&people, &format!("routed {id}"), 7) },
            time: OLD,
        }));
        written.extend([
            tombstone(&people, "young", 7, YOUNG),
            tombstone(&people, "back", 7, OLD),
            put(&people, "back", 8, r#"{"name":"Raul"}"#),
            put(&people, "newer form", 7, r#"{"revsync":{"v":2,"deleted":true,"time":"1970-01-01T00:00:00Z"}}"#),
            put(&people, "somebody's", 7, r#"{"revsync":{"v":1,"deleted":true,"time":"1970-01-01T00:00:00Z"},"name":"Raul"}"#),
        ]);
        write(&sink, written).await.unwrap();
        refresh(server, &people).await;

        let sweeper = connect(&server.url).await.for_sweep();
        let dry = swept(&sweeper, &Request { dry_run: true, ..request(&people) }).await;
        let expected = Swept { swept: 2_320, kept: [(Kept::Younger, 1), (Kept::NewerForm, 1), (Kept::Foreign, 1)].into() };
        assert_eq!(dry, expected, "{}", server.name);
        assert!(stored(server, &people, "0").await.is_some());
        assert_eq!(swept(&sweeper, &request(&people)).await, expected, "{}", server.name);
        assert_eq!(found(server, &format!("{people}-000001")).await, ["back", "newer form", "somebody's", "young"], "{}", server.name);
        assert_eq!(swept(&sweeper, &request(&format!("{people}-*"))).await, Swept { swept: 0, ..expected });

        let late = vec![put(&people, "0", 6, "{}"), put(&people, "0", 7, "{}"), put(&people, "0", 8, "{}")];
        assert_eq!(write(&sink, late).await.unwrap(), [Outcome::Stale, Outcome::Stale, Outcome::Indexed], "{}: versions hold", server.name);
    }
}

/// Lets somebody write a document between the look at its tombstone and the delete.
struct Interfering {
    inner: OpenSearch,
    newer: Operation,
}

impl Sink for Interfering {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn write(&self, operations: Arc<[Operation]>) -> Pending<'_, Result<Vec<Reply>, Failure>> {
        Box::pin(async move {
            assert_eq!(write(&self.inner, vec![self.newer.clone()]).await.unwrap(), [Outcome::Indexed]);
            self.inner.write(operations).await
        })
    }

    fn finish(&self) -> Pending<'_, Result<(), Error>> {
        self.inner.finish()
    }
}

impl Tombstones for Interfering {
    fn survey<'a>(&'a self, name: &'a str, before: u64) -> Pending<'a, Result<Vec<Survey>, Failure>> {
        self.inner.survey(name, before)
    }

    fn page<'a>(&'a self, index: &'a str, before: u64, after: Option<String>) -> Pending<'a, Result<Page, Failure>> {
        self.inner.page(index, before, after)
    }
}

#[tokio::test]
async fn a_document_that_is_written_while_its_tombstone_is_swept_stays() {
    for server in services::opensearch() {
        let people = name("meanwhile");
        let sink = keeping(&config(&server.url), &people).await;
        write(&sink, vec![tombstone(&people, "1", 7, OLD), tombstone(&people, "2", 7, OLD)]).await.unwrap();
        refresh(server, &people).await;
        let interfering = Interfering { inner: connect(&server.url).await.for_sweep(), newer: put(&people, "1", 8, r#"{"n":8}"#) };
        let expected = Swept { swept: 1, kept: [(Kept::Rewritten, 1)].into() };
        assert_eq!(swept(&interfering, &request(&people)).await, expected, "{}", server.name);
        assert_eq!(stored(server, &people, "1").await, Some((8, json!({"n": 8}))), "{}", server.name);
        assert_eq!(stored(server, &people, "2").await, None);
    }
}

#[tokio::test]
async fn an_index_that_takes_no_writes_keeps_its_tombstones_and_the_sweep_ends() {
    for server in services::opensearch() {
        let (blocked, open) = (name("blocked"), name("open"));
        for index in [&blocked, &open] {
            write(&keeping(&config(&server.url), index).await, vec![tombstone(index, "1", 7, OLD)]).await.unwrap();
            refresh(server, index).await;
        }
        put_to(server, &format!("{blocked}/_settings"), json!({"index.blocks.write": true})).await;
        let sweeper = connect(&server.url).await.for_sweep();
        let both = Request { names: vec![blocked.clone(), open.clone()], ..request("") };
        assert_eq!(swept(&sweeper, &both).await, Swept { swept: 1, kept: [(Kept::Failed, 1)].into() }, "{}", server.name);
        put_to(server, &format!("{blocked}/_settings"), json!({"index.blocks.write": false})).await;
        assert_eq!(swept(&sweeper, &both).await, Swept { swept: 1, kept: [].into() }, "{}", server.name);
    }
}

#[tokio::test]
async fn the_commands_write_hide_and_sweep_tombstones() {
    for server in services::opensearch() {
        let (folder, prefix) = (Folder::new(), name("commands"));
        let table = |name: &str, index: &str, more: &str| format!("[[table]]\nname = \"{name}\"\nindex = \"{prefix}-{index}\"\n{more}\n");
        let rules = [
            table("Person", "person", "deletes = \"tombstone\""),
            table("Car", "car", ""),
            table("Shop*", "{table}", "deletes = \"tombstone\""),
        ];
        folder.write("rules.toml", rules.concat());
        put_to(server, &format!("{prefix}-car"), json!({"settings": {"index.gc_deletes": "5m"}})).await;
        let stream = [
            revision("Person", "a", 0, Some("{Name:\"Raul\"}")),
            revision("Person", "a", 1, None),
            revision("ShopOrder", "a", 1, None),
            revision("Car", "c", 0, Some("{Make:\"Ford\"}")),
            revision("Car", "c", 1, None),
        ];
        folder.write("s.ion", stream.concat());
        let revsync =
            |arguments: &[&str]| folder.revsync(&[&["--json", "--config", "rules.toml"], arguments, &["--to", &server.url]].concat());

        let done = revsync(&["sync", "s.ion", "--request-operations", "1"]).balanced();
        assert_eq!((done.exit, done.count("deleted"), done.count("absent")), (0, 3, 0), "{done:?}");
        let warnings: Vec<&str> = done.err.lines().collect();
        assert_eq!(warnings.len(), 1, "once, and for the one index that forgets: {done:?}");
        assert!(
            warnings[0].contains(&format!("index {prefix}-car remembers a delete for less than 24h (index.gc_deletes is 5m)")),
            "{done:?}"
        );
        let checked = revsync(&["check", &fixture("vehicle-registration")]);
        assert!(checked.exit == 1 && checked.out.contains("index.gc_deletes is 5m"), "{checked:?}");
        put_to(server, &format!("{prefix}-car/_settings"), json!({"index.gc_deletes": "24h"})).await;
        let checked = revsync(&["check", &fixture("vehicle-registration")]);
        assert!(checked.exit == 0 && !checked.out.contains("gc_deletes"), "{checked:?}");

        assert_eq!(revsync(&["search", "*", "--index", &format!("{prefix}-*")]).exit, 1, "nobody finds a deleted document");
        let sweep = ["sweep", "--older-than", "0s", "--retention", "0s"];
        let swept = revsync(&sweep);
        assert_eq!((swept.exit, swept.count("swept"), &swept.json()["kept"]), (0, 1, &json!({})), "{swept:?}");
        assert!(swept.err.contains("passed over: the rule \"Shop*\""), "{swept:?}");
        let named = revsync(&[&sweep[..], &[&format!("{prefix}-shop*")]].concat());
        assert_eq!((named.exit, named.count("swept")), (0, 1), "{named:?}");
        let plain = revsync(&[&sweep[..], &[&format!("{prefix}-car")]].concat());
        assert!(plain.exit == 2 && plain.err.contains("maps the fields of tombstones, so none can be found"), "{plain:?}");
        let missing = revsync(&[&sweep[..], &[&format!("{prefix}-cra")]].concat());
        assert!(missing.exit == 2 && missing.err.contains("there is no index"), "{missing:?}");
    }
}
