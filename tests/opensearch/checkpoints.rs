//! Checkpoints in an index of OpenSearch, and the indices that they were saved for.

use std::sync::Arc;

use opensearch::http::Method;
use revsync::error::{Error, Kind};
use revsync::plan::checkpoint::{Begin, Progress};
use revsync::plan::lease::Draft;
use revsync::plan::outcome::{Class, Failure, Outcome};
use revsync::plan::stored::Written;
use revsync::run::shelves::{INDEX, InOpenSearch};
use revsync::sink::Sink;
use revsync::store::checkpoints::{Checkpoints, Shelf};
use serde_json::{Value, json};

use crate::command::Folder;
use crate::live::{ask, get, name, put_to};
use crate::operations::{connect, put, write};
use crate::scripted_opensearch::{Fate, Scripted, Step};
use crate::services;
use crate::shelves::{self, Shelves, arn, checkpoints, row, settled};

mod opensearch_2 {
    async fn bench() -> Option<crate::shelves::Shelves> {
        super::bench(0).await
    }
    crate::shelf_suite!(bench);
}

mod opensearch_3 {
    async fn bench() -> Option<crate::shelves::Shelves> {
        super::bench(1).await
    }
    crate::shelf_suite!(bench);
}

async fn shelf(url: &str, index: &str) -> Arc<dyn Shelf> {
    Arc::new(InOpenSearch::new(Arc::new(connect(url).await), index))
}

async fn bench(server: usize) -> Option<Shelves> {
    let url = &services::opensearch().get(server)?.url;
    let index = name("checkpoints");
    Some(Shelves { one: shelf(url, &index).await, other: shelf(url, &index).await, keep: Box::new(()) })
}

fn first() -> Vec<Draft> {
    vec![Draft { shard: "a".to_owned(), expect: None, row: Some(row(1, 1)) }]
}

async fn put_first(checkpoints: &Checkpoints) {
    let written = checkpoints.write(&first()).await.unwrap();
    assert!(matches!(written[..], [Written::Done(_)]), "{written:?}");
}

#[tokio::test]
async fn rows_stand_in_an_index_of_one_shard_that_indexes_only_whose_they_are() {
    for server in services::opensearch() {
        let index = name("checkpoints");
        put_first(&checkpoints(&shelf(&server.url, &index).await, "p")).await;
        let made = &get(server, &index).await[&index];
        let keyword = json!({"type": "keyword"});
        let mappings = json!({"dynamic": "false", "properties": {
            "pipeline": keyword, "stream": keyword, "shard": keyword, "content": {"type": "object", "enabled": false},
        }});
        assert_eq!(made["mappings"], mappings, "{}", server.name);
        assert_eq!(made["settings"]["index"]["number_of_shards"], "1");
        let id = "p arn:aws:kinesis:eu-west-1:000000000000:stream%2Fp a".replace("%2F", "/");
        let (_, found) = ask(server, Method::Post, "_mget", json!({"docs": [{"_index": index, "_id": id}]})).await;
        let source = &found["docs"][0]["_source"];
        assert_eq!((&source["v"], &source["pipeline"], &source["shard"]), (&json!(1), &json!("p"), &json!("a")), "{found}");
        assert_eq!(source["content"]["epoch"], 1);
    }
}

#[tokio::test]
async fn an_index_that_somebody_made_is_used_and_gets_its_mapping() {
    for server in services::opensearch() {
        let index = name("checkpoints");
        put_to(server, &index, json!({"settings": {"index.number_of_replicas": 0}})).await;
        let checkpoints = checkpoints(&shelf(&server.url, &index).await, "p");
        assert_eq!(checkpoints.read().await, Ok(Vec::new()));
        put_first(&checkpoints).await;
        assert_eq!(checkpoints.read().await.unwrap().len(), 1);
        assert_eq!(get(server, &index).await[&index]["mappings"]["properties"]["content"]["enabled"], false);
    }
}

#[tokio::test]
async fn an_index_that_cannot_hold_rows_is_refused_with_the_mapping_that_it_has_to_have() {
    for server in services::opensearch() {
        let index = name("checkpoints");
        put_to(server, &index, json!({"mappings": {"properties": {"pipeline": {"type": "text"}}}})).await;
        let error = checkpoints(&shelf(&server.url, &index).await, "p").read().await.unwrap_err();
        let said = error.to_string();
        assert!(error.kind == Kind::Checkpoints && said.contains(r#""pipeline":{"type":"keyword"}"#), "{}: {said}", server.name);
    }
}

/// Nobody may take rows that vanished for shards that were never read.
#[tokio::test]
async fn an_index_of_checkpoints_that_vanishes_is_neither_empty_nor_made_anew() {
    for server in services::opensearch() {
        let index = name("checkpoints");
        let checkpoints = checkpoints(&shelf(&server.url, &index).await, "p");
        put_first(&checkpoints).await;
        let stamp = checkpoints.read().await.unwrap()[0].1;
        ask(server, Method::Delete, &index, Value::Null).await;
        let gone = |result: Result<String, Error>, how: &str| {
            let error = result.unwrap_err();
            assert!(error.kind == Kind::Checkpoints && error.what.contains(how), "{}: {error}", server.name);
        };
        let read = async || checkpoints.read().await.map(|rows| format!("{rows:?}"));
        gone(read().await, "was there and is gone");
        // The server makes an index of that name by itself for the next write; it is not the one that was.
        let draft = Draft { shard: "a".to_owned(), expect: Some(stamp), row: Some(row(1, 2)) };
        gone(checkpoints.write(&[draft]).await.map(|written| format!("{written:?}")), "is no longer the one");
        gone(read().await, "is no longer the one");
    }
}

/// A server on which the index of checkpoints is as it has to be.
async fn scripted() -> (Scripted, Checkpoints) {
    let server = Scripted::start().await;
    let keyword = json!({"type": "keyword"});
    let properties = json!({"pipeline": keyword, "stream": keyword, "shard": keyword, "content": {"type": "object", "enabled": false}});
    let described = json!({"c": {"settings": {"index": {"uuid": "u"}}, "mappings": {"properties": properties}}});
    server.fix("GET", "/c", 200, &described.to_string(), &[]);
    server.fix("POST", "/c/_refresh", 200, "{}", &[]);
    let checkpoints = checkpoints(&shelf(&server.url(), "c").await, "p");
    (server, checkpoints)
}

#[tokio::test]
async fn an_answer_that_is_lost_or_makes_no_sense_says_nothing_about_the_rows() {
    let (server, checkpoints) = scripted().await;
    for fate in [
        Fate::Drop,
        Fate::Cut(10),
        Fate::Status(503, String::new()),
        Fate::Status(429, r#"{"error":{"type":"circuit_breaking_exception","reason":"x"}}"#.to_owned()),
        Fate::Say("{}".to_owned()),
        Fate::Say(r#"{"items":[]}"#.to_owned()),
        Fate::Say(r#"{"items":[{}]}"#.to_owned()),
    ] {
        server.script([Step::after_writing(fate.clone())]);
        let error = checkpoints.write(&first()).await.unwrap_err();
        assert_eq!(error.kind, Kind::Pending, "{fate:?}: {error}");
    }
    server.script([Step::after_writing(Fate::Say(r#"{"items":[{"create":{"status":201}}]}"#.to_owned()))]);
    assert!(matches!(checkpoints.write(&first()).await.unwrap()[..], [Written::Failed(_)]));
}

#[tokio::test]
async fn what_is_not_allowed_names_the_index_and_the_right() {
    let refusal = r#"{"error":{"type":"security_exception","reason":"no permissions"},"status":403}"#;
    let refused = |error: Error, right: &str| {
        let said = error.to_string();
        assert!(error.kind == Kind::Checkpoints && said.contains("index c") && said.contains(right), "{said}");
        assert!(said.contains("revsync setup --help"), "{said}");
    };
    let (server, checkpoints) = scripted().await;
    server.script([Step::reject(0, 403, "security_exception", "no permissions")]);
    match checkpoints.write(&first()).await.unwrap().remove(0) {
        Written::Failed(error) => refused(error, "indices:data/write"),
        other => panic!("{other:?}"),
    }
    server.script([Step::status(403, refusal)]);
    refused(checkpoints.write(&first()).await.unwrap_err(), "indices:data/write/bulk");
    for (method, path, right) in [
        ("POST", "/c/_search", "indices:data/read/search"),
        ("POST", "/c/_refresh", "indices:admin/refresh"),
        ("GET", "/c", "indices:admin/get"),
    ] {
        server.fix(method, path, 403, refusal, &[]);
        refused(checkpoints.read().await.unwrap_err(), right);
    }
    let server = Scripted::start().await;
    server.fix("PUT", "/c", 403, refusal, &[]);
    let checkpoints = shelves::checkpoints(&shelf(&server.url(), "c").await, "p");
    assert_eq!(checkpoints.read().await, Ok(Vec::new()), "an index that there never was holds no rows");
    refused(checkpoints.write(&first()).await.unwrap_err(), "indices:admin/create");
}

#[tokio::test]
async fn a_password_that_is_changed_while_a_worker_saves_its_checkpoints_is_waited_for() {
    let (server, checkpoints) = scripted().await;
    let taken = r#"{"items":[{"create":{"status":201,"_seq_no":0,"_primary_term":1}}]}"#;
    server.script([Step::after_writing(Fate::Say(taken.to_owned()))]);
    assert!(matches!(checkpoints.write(&first()).await.unwrap()[..], [Written::Done(_)]));
    for status in [401, 403] {
        let refusal = format!(r#"{{"error":{{"type":"security_exception","reason":"no permissions"}},"status":{status}}}"#);
        server.script([Step::status(status, &refusal)]);
        let error = checkpoints.write(&first()).await.unwrap_err();
        assert_eq!(error.kind, Kind::Pending, "{error}");
    }
    server.script([Step::reject(0, 403, "security_exception", "no permissions")]);
    let written = checkpoints.write(&first()).await.unwrap().remove(0);
    assert!(matches!(&written, Written::Failed(error) if error.kind == Kind::Pending), "{written:?}");
    server.fix("GET", "/c", 401, "Unauthorized", &[]);
    assert_eq!(checkpoints.read().await.unwrap_err().kind, Kind::Pending);
}

#[tokio::test]
async fn a_search_that_left_something_out_is_no_reading() {
    let (server, checkpoints) = scripted().await;
    for (timed_out, failed) in [(true, 0), (false, 1)] {
        let answer = json!({"timed_out": timed_out, "_shards": {"failed": failed}, "hits": {"hits": []}});
        server.fix("POST", "/c/_search", 200, &answer.to_string(), &[]);
        let error = checkpoints.read().await.unwrap_err();
        assert!(error.kind == Kind::Pending && error.what.contains("left something out"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_waited_for() {
    let server = Scripted::start().await;
    let checkpoints = checkpoints(&shelf(&server.url(), "c").await, "p");
    server.stop().await;
    assert_eq!(checkpoints.read().await.unwrap_err().kind, Kind::Pending);
    assert_eq!(checkpoints.write(&first()).await.unwrap_err().kind, Kind::Pending);
}

fn blocked(result: Result<Vec<Outcome>, Failure>) -> String {
    match result {
        Err(Failure::Retry { class: Class::Blocked, what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_index_that_vanished_while_revsync_was_down_is_blocked_and_not_made_anew() {
    for server in services::opensearch() {
        let (before, people) = (connect(&server.url).await, name("people"));
        before.expecting(&[].into());
        write(&before, vec![put(&people, "1", 1, "{}")]).await.unwrap();
        let targets = before.targets();
        assert_eq!(targets.keys().collect::<Vec<_>>(), [&people]);
        let after = connect(&server.url).await;
        after.expecting(&targets);
        assert_eq!(write(&after, vec![put(&people, "2", 1, "{}")]).await.unwrap(), [Outcome::Indexed], "it is the same");
        assert_eq!(after.targets(), targets);

        ask(server, Method::Delete, &format!("{people}-000001"), Value::Null).await;
        let later = connect(&server.url).await;
        later.expecting(&targets);
        let what = blocked(write(&later, vec![put(&people, "3", 1, "{}")]).await);
        assert!(what.contains("gone") && what.contains("revsync checkpoints rewind"), "{what}");
        assert_eq!(ask(server, Method::Get, &people, Value::Null).await.0, 404, "{}", server.name);
        assert_eq!(later.targets(), targets, "what is saved next expects the same");
        // It comes back as another one: that is not what was written to.
        put_to(server, &people, json!({})).await;
        let what = blocked(write(&later, vec![put(&people, "3", 1, "{}")]).await);
        assert!(what.contains("no longer the one") && what.contains("revsync checkpoints rewind"), "{what}");
        // After a rewind nothing is expected of it.
        let rewound = connect(&server.url).await;
        rewound.expecting(&[].into());
        assert_eq!(write(&rewound, vec![put(&people, "3", 1, "{}")]).await.unwrap(), [Outcome::Indexed]);
        assert_ne!(rewound.targets(), targets);
    }
}

#[tokio::test]
async fn an_index_that_is_written_to_already_is_expected_to_stay_that() {
    for server in services::opensearch() {
        let (sink, people) = (connect(&server.url).await, name("people"));
        write(&sink, vec![put(&people, "1", 1, "{}")]).await.unwrap();
        let targets = sink.targets();
        sink.expecting(&[(people.clone(), "another".to_owned())].into());
        assert_eq!(sink.targets(), targets);
        assert_eq!(write(&sink, vec![put(&people, "2", 1, "{}")]).await.unwrap(), [Outcome::Indexed]);
    }
}

#[tokio::test]
async fn the_commands_list_and_rewind_what_is_in_the_index() {
    for server in services::opensearch() {
        let (pipeline, folder) = (name("pipeline"), Folder::new());
        let shelf = shelf(&server.url, INDEX).await;
        put_first(&checkpoints(&shelf, &pipeline)).await;
        let list = |folder: &Folder| folder.revsync(&["--json", "checkpoints", "list", "--to", &server.url, "--name", &pipeline]).json();
        let listed = list(&folder);
        let row = &listed["checkpoints"][0];
        assert_eq!((&row["shard"], &row["stream"], &row["epoch"]), (&json!("a"), &json!(arn(&pipeline)), &json!(1)), "{listed}");
        let rewind = ["checkpoints", "rewind", "earliest", "--force", "--to", &server.url, "--name", &pipeline];
        let done = folder.revsync(&rewind);
        assert_eq!(done.exit, 0, "{done:?}");
        let now = &list(&folder)["checkpoints"][0];
        assert_eq!((&now["progress"], &now["owner"], &now["targets"]), (&json!({"begins": "earliest"}), &Value::Null, &json!({})));
        let rows = checkpoints(&shelf, &pipeline).read().await.unwrap();
        assert_eq!(rows[0].2.checkpoint.progress, Progress::Begins(Begin::Earliest));
        assert_ne!(rows[0].2.checkpoint, settled(1));
    }
}
