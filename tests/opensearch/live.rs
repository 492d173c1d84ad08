//! Against real servers: what OpenSearch does is not assumed but asked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use opensearch::http::Method;
use opensearch::http::headers::HeaderMap;
use opensearch::http::transport::Transport;
use revsync::operation::Operation;
use revsync::plan::outcome::{Class, Failure, Outcome};
use revsync::record::Fault;
use revsync::revision::VersionType;
use revsync::sink::Sink;
use revsync::sink::opensearch::{Config, OpenSearch};
use serde_json::{Value, json};

use crate::operations::{config, connect, delete, put, target, write};
use crate::services::{self, Server};

/// A name that no other test uses, also not one of another run on the same server.
pub fn name(label: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("t-{label}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Asks the server, past revsync.
pub async fn ask(server: &Server, method: Method, path: &str, body: Value) -> (u16, Value) {
    let transport = Transport::single_node(&server.url).unwrap();
    let body = (!body.is_null()).then(|| Bytes::from(body.to_string()));
    let response = transport.send(method, path, HeaderMap::new(), None::<&()>, body, None).await.unwrap();
    let status = response.status_code().as_u16();
    (status, response.json().await.unwrap())
}

pub async fn get(server: &Server, path: &str) -> Value {
    ask(server, Method::Get, path, Value::Null).await.1
}

pub async fn put_to(server: &Server, path: &str, body: Value) {
    let (status, answer) = ask(server, Method::Put, path, body).await;
    assert_eq!(status, 200, "{answer}");
}

async fn remove(server: &Server, index: &str) {
    let (status, answer) = ask(server, Method::Delete, index, Value::Null).await;
    assert_eq!(status, 200, "{answer}");
}

/// Version and source of a document, as the index holds them.
pub async fn stored(server: &Server, index: &str, id: &str) -> Option<(u64, Value)> {
    let (_, answer) = ask(server, Method::Post, "_mget", json!({"docs": [{"_index": index, "_id": id}]})).await;
    let found = &answer["docs"][0];
    (found["found"] == true).then(|| (found["_version"].as_u64().unwrap(), found["_source"].clone()))
}

async fn exists(server: &Server, name: &str) -> bool {
    ask(server, Method::Get, name, Value::Null).await.0 == 200
}

fn fault(outcome: &Outcome) -> &Fault {
    match outcome {
        Outcome::Retry(_, fault) | Outcome::Rejected(fault) => fault,
        other => panic!("expected a fault, found {other:?}"),
    }
}

fn is_blocked(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Retry(Class::Blocked, _))
}

fn blocked(result: Result<Vec<Outcome>, Failure>) -> String {
    match result {
        Err(Failure::Retry { class: Class::Blocked, what, .. }) => what,
        other => panic!("expected a blocked index, found {other:?}"),
    }
}

#[tokio::test]
async fn only_a_higher_version_writes() {
    for server in services::opensearch() {
        let (sink, people) = (connect(&server.url).await, name("versions"));
        let outcomes = write(
            &sink,
            vec![
                put(&people, "1", 0, r#"{"n":0}"#),
                put(&people, "1", 0, r#"{"n":9}"#),
                put(&people, "1", 5, r#"{"n":5}"#),
                put(&people, "1", 4, r#"{"n":4}"#),
                put(&people, "2", i64::MAX as u64, r#"{"n":1}"#),
                put(&people, "2", i64::MAX as u64 - 1, r#"{"n":2}"#),
            ],
        )
        .await
        .unwrap();
        let expected = [Outcome::Indexed, Outcome::Stale, Outcome::Indexed, Outcome::Stale, Outcome::Indexed, Outcome::Stale];
        assert_eq!(outcomes, expected, "{}", server.name);
        assert_eq!(stored(server, &people, "1").await, Some((5, json!({"n": 5}))), "{}", server.name);
        assert_eq!(stored(server, &people, "2").await, Some((i64::MAX as u64, json!({"n": 1}))), "{}", server.name);
    }
}

#[tokio::test]
async fn an_equal_version_writes_for_a_source_whose_clock_can_tie() {
    for server in services::opensearch() {
        let (sink, people) = (connect(&server.url).await, name("ties"));
        let tie = |document: &str| {
            let Operation::Index { target, document } = put(&people, "1", 5, document) else { unreachable!() };
            Operation::Index { target: revsync::operation::Target { version_type: VersionType::ExternalGte, ..target }, document }
        };
        let outcomes = write(&sink, vec![tie(r#"{"n":1}"#), tie(r#"{"n":2}"#)]).await.unwrap();
        assert_eq!(outcomes, [Outcome::Indexed, Outcome::Indexed], "{}", server.name);
        assert_eq!(stored(server, &people, "1").await, Some((5, json!({"n": 2}))), "{}", server.name);
    }
}

#[tokio::test]
async fn a_delete_of_a_missing_document_is_absent_and_keeps_its_version() {
    for server in services::opensearch() {
        let (sink, people) = (connect(&server.url).await, name("deletes"));
        let outcomes = write(
            &sink,
            vec![
                put(&people, "1", 1, "{}"),
                delete(&people, "1", 2),
                put(&people, "1", 1, "{}"),
                delete(&people, "1", 2),
                delete(&people, "never", 7),
                put(&people, "never", 6, "{}"),
            ],
        )
        .await
        .unwrap();
        let expected = [Outcome::Indexed, Outcome::Deleted, Outcome::Stale, Outcome::Stale, Outcome::Absent, Outcome::Stale];
        assert_eq!(outcomes, expected, "{}", server.name);
        assert_eq!(stored(server, &people, "1").await, None);
    }
}

#[tokio::test]
async fn a_batch_of_only_deletes_is_carried_out() {
    for server in services::opensearch() {
        let (sink, people) = (connect(&server.url).await, name("only-deletes"));
        assert_eq!(write(&sink, vec![delete(&people, "1", 2)]).await.unwrap(), [Outcome::Absent], "{}", server.name);
        assert!(exists(server, &format!("{people}-000001")).await, "created with its settings, not by the delete itself");
    }
}

#[tokio::test]
async fn bodies_arrive_alike_with_and_without_compression() {
    for server in services::opensearch() {
        for gzip in [true, false] {
            let sink = OpenSearch::connect(&Config { gzip, ..config(&server.url) }).await.unwrap();
            let people = name("gzip");
            // More than one portion of compression.
            let filler = "x".repeat(1_000);
            let batch: Vec<Operation> =
                (0..500).map(|n| put(&people, &n.to_string(), 1, &format!(r#"{{"n":{n},"x":"{filler}"}}"#))).collect();
            let outcomes = write(&sink, batch).await.unwrap();
            assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Indexed), "{} gzip {gzip}", server.name);
            assert_eq!(stored(server, &people, "499").await, Some((1, json!({"n": 499, "x": filler}))));
        }
    }
}

#[tokio::test]
async fn a_missing_index_is_created_behind_an_alias() {
    for server in services::opensearch() {
        let (sink, people) = (connect(&server.url).await, name("create"));
        write(&sink, vec![put(&people, "1", 1, r#"{"price":1.5,"day":"2017-08-21","digits":"12"}"#)]).await.unwrap();
        let first = format!("{people}-000001");
        let answer = get(server, &people).await;
        let index = &answer[&first];
        assert_eq!(index["aliases"][&people], json!({"is_write_index": true}), "{answer}");
        assert_eq!(index["settings"]["index"]["gc_deletes"], json!("24h"), "{answer}");
        assert_eq!(index["mappings"]["date_detection"], json!(false), "{answer}");
        assert_eq!(index["mappings"]["numeric_detection"], json!(false), "{answer}");
        let fields = &index["mappings"]["properties"];
        assert_eq!(fields["price"]["type"], json!("double"), "{answer}");
        assert_eq!(fields["day"]["type"], json!("text"), "{answer}");
        assert_eq!(fields["digits"]["type"], json!("text"), "{answer}");
        assert_eq!(sink.mapping(&people).await.unwrap()[&first]["mappings"]["properties"], *fields);
    }
}

#[tokio::test]
async fn an_index_is_created_with_the_mapping_that_the_user_gives() {
    for server in services::opensearch() {
        let people = name("mapping");
        let body = json!({"settings": {"index": {"number_of_shards": 2}}, "mappings": {"properties": {"vin": {"type": "keyword"}}}});
        let config = Config { gc_deletes: "2h".to_owned(), ..config(&server.url) };
        let sink = OpenSearch::connect(&config).await.unwrap().with_mappings(HashMap::from([(people.clone(), body)]));
        write(&sink, vec![put(&people, "1", 1, r#"{"vin":"1N4AL11D75C109151"}"#)]).await.unwrap();
        let answer = get(server, &people).await;
        let index = &answer[format!("{people}-000001")];
        assert_eq!(index["settings"]["index"]["number_of_shards"], json!("2"), "{answer}");
        assert_eq!(index["settings"]["index"]["gc_deletes"], json!("2h"), "{answer}");
        assert_eq!(index["mappings"]["properties"]["vin"]["type"], json!("keyword"), "{answer}");
    }
}

#[tokio::test]
async fn two_workers_that_create_one_index_both_go_on() {
    for server in services::opensearch() {
        let people = name("race");
        let mut workers = Vec::new();
        for id in 0..4 {
            let (sink, people) = (connect(&server.url).await, people.clone());
            workers.push(tokio::spawn(async move { write(&sink, vec![put(&people, &id.to_string(), 1, "{}")]).await }));
        }
        for worker in workers {
            assert_eq!(worker.await.unwrap().unwrap(), [Outcome::Indexed], "{}", server.name);
        }
        let answer = get(server, &people).await;
        assert_eq!(answer.as_object().unwrap().len(), 1, "{answer}");
    }
}

#[tokio::test]
async fn an_index_or_alias_that_exists_is_used_as_it_is() {
    for server in services::opensearch() {
        let (sink, plain, alias) = (connect(&server.url).await, name("plain"), name("alias"));
        put_to(server, &plain, json!({"mappings": {"properties": {"n": {"type": "integer"}}}})).await;
        let behind = format!("{alias}-of-old");
        put_to(server, &behind, json!({"aliases": { &alias: {} }})).await;
        let outcomes =
            write(&sink, vec![put(&plain, "1", 1, r#"{"n":1}"#), put(&alias, "1", 1, r#"{"n":1}"#), delete(&plain, "1", 2)]).await;
        assert_eq!(outcomes.unwrap(), [Outcome::Indexed, Outcome::Indexed, Outcome::Deleted], "{}", server.name);
        let answer = get(server, &plain).await;
        assert_eq!(answer[&plain]["aliases"], json!({}), "{answer}");
        assert_eq!(answer[&plain]["mappings"]["properties"]["n"]["type"], json!("integer"), "{answer}");
        assert!(!exists(server, &format!("{plain}-000001")).await);
        assert!(stored(server, &behind, "1").await.is_some());
        assert!(!exists(server, &format!("{alias}-000001")).await);
    }
}

#[tokio::test]
async fn a_missing_index_is_waited_for_when_creation_is_off() {
    for server in services::opensearch() {
        let sink = OpenSearch::connect(&Config { create_index: false, ..config(&server.url) }).await.unwrap();
        let people = name("no-create");
        for operation in [put(&people, "1", 1, "{}"), delete(&people, "1", 2)] {
            let what = blocked(write(&sink, vec![operation]).await);
            assert!(what.contains(&people) && what.contains("revsync setup"), "{what}");
        }
        assert!(!exists(server, &people).await, "nothing appears by accident");
        assert_eq!(sink.setup(&[&people]).await.unwrap().0, [format!("created index {people}-000001 with write alias {people}")]);
        assert_eq!(write(&sink, vec![put(&people, "1", 1, "{}")]).await.unwrap(), [Outcome::Indexed], "{}", server.name);
    }
}

#[tokio::test]
async fn an_index_that_vanishes_is_never_made_anew() {
    for server in services::opensearch() {
        for plain in [false, true] {
            for write_again in [true, false] {
                let (sink, people) = (connect(&server.url).await, name("vanish"));
                if plain {
                    put_to(server, &people, json!({})).await;
                }
                write(&sink, vec![put(&people, "1", 1, "{}")]).await.unwrap();
                remove(server, &if plain { people.clone() } else { format!("{people}-000001") }).await;
                let operation = || if write_again { put(&people, "2", 1, "{}") } else { delete(&people, "1", 2) };
                let outcomes = write(&sink, vec![operation()]).await.unwrap();
                assert!(is_blocked(&outcomes[0]), "{} plain {plain}: {outcomes:?}", server.name);
                let what = blocked(write(&sink, vec![operation()]).await);
                assert!(what.contains(&people) && what.contains("gone"), "{what}");
                assert!(!exists(server, &people).await, "{} plain {plain}: an index of that name appeared", server.name);
            }
        }
    }
}

#[tokio::test]
async fn an_index_that_is_replaced_under_our_hands_is_blocked_and_settles_nothing() {
    for server in services::opensearch() {
        for plain in [false, true] {
            let (sink, people) = (connect(&server.url).await, name("replace"));
            let (index, body) = if plain {
                put_to(server, &people, json!({})).await;
                (people.clone(), json!({}))
            } else {
                (format!("{people}-000001"), json!({"aliases": { &people: {} }}))
            };
            write(&sink, vec![put(&people, "1", 1, "{}")]).await.unwrap();
            remove(server, &index).await;
            put_to(server, &index, body).await;
            let outcomes = write(&sink, vec![put(&people, "2", 1, "{}"), delete(&people, "1", 2)]).await.unwrap();
            assert!(outcomes.iter().all(is_blocked), "{} plain {plain}: {outcomes:?}", server.name);
            let what = blocked(write(&sink, vec![put(&people, "2", 1, "{}")]).await);
            assert!(what.contains("no longer the one"), "{what}");
            let fresh = connect(&server.url).await;
            assert_eq!(write(&fresh, vec![put(&people, "3", 1, "{}")]).await.unwrap(), [Outcome::Indexed], "a new start takes it");
        }
    }
}

#[tokio::test]
async fn an_alias_that_comes_back_is_written_to_again() {
    for server in services::opensearch() {
        let (sink, people) = (connect(&server.url).await, name("back"));
        write(&sink, vec![put(&people, "1", 1, "{}")]).await.unwrap();
        let change = |what: &str| json!({"actions": [{ what: {"index": format!("{people}-000001"), "alias": people} }]});
        ask(server, Method::Post, "_aliases", change("remove")).await;
        assert!(is_blocked(&write(&sink, vec![put(&people, "2", 1, "{}")]).await.unwrap()[0]));
        blocked(write(&sink, vec![put(&people, "2", 1, "{}")]).await);
        ask(server, Method::Post, "_aliases", change("add")).await;
        assert_eq!(write(&sink, vec![put(&people, "2", 1, "{}")]).await.unwrap(), [Outcome::Indexed], "{}", server.name);
    }
}

#[tokio::test]
async fn a_blocked_index_does_not_hold_up_the_others_of_its_batch() {
    for server in services::opensearch() {
        let sink = OpenSearch::connect(&Config { create_index: false, ..config(&server.url) }).await.unwrap();
        let (there, missing) = (name("there"), name("missing"));
        put_to(server, &there, json!({})).await;
        let outcomes =
            write(&sink, vec![put(&missing, "1", 1, "{}"), put(&there, "1", 1, "{}"), delete(&missing, "1", 2), delete(&there, "2", 1)])
                .await
                .unwrap();
        assert!(is_blocked(&outcomes[0]) && is_blocked(&outcomes[2]), "{}: {outcomes:?}", server.name);
        assert_eq!((&outcomes[1], &outcomes[3]), (&Outcome::Indexed, &Outcome::Absent), "{}", server.name);
        assert!(!exists(server, &missing).await);
    }
}

#[tokio::test]
async fn a_write_block_is_waited_out() {
    for server in services::opensearch() {
        let (sink, people) = (connect(&server.url).await, name("block"));
        write(&sink, vec![put(&people, "1", 1, "{}")]).await.unwrap();
        let settings = format!("{people}/_settings");
        put_to(server, &settings, json!({"index.blocks.write": true})).await;
        let outcomes = write(&sink, vec![put(&people, "1", 2, "{}"), delete(&people, "1", 3)]).await.unwrap();
        assert!(outcomes.iter().all(is_blocked), "{}: {outcomes:?}", server.name);
        assert_eq!(fault(&outcomes[0]).kind, "cluster_block_exception");
        put_to(server, &settings, json!({"index.blocks.write": false})).await;
        assert_eq!(write(&sink, vec![put(&people, "1", 2, "{}")]).await.unwrap(), [Outcome::Indexed], "{}", server.name);
    }
}

#[tokio::test]
async fn an_alias_without_a_write_index_is_for_a_person_to_mend() {
    for server in services::opensearch() {
        let (sink, people) = (connect(&server.url).await, name("no-write-index"));
        for part in ["a", "b"] {
            put_to(server, &format!("{people}-{part}"), json!({"aliases": { &people: {} }})).await;
        }
        match write(&sink, vec![put(&people, "1", 1, "{}")]).await {
            Err(Failure::Misconfigured { what }) => assert!(what.contains(&people) && what.contains("is_write_index"), "{what}"),
            other => panic!("{}: {other:?}", server.name),
        }
    }
}

#[tokio::test]
async fn any_id_arrives_as_it_is() {
    for server in services::opensearch() {
        let (sink, people) = (connect(&server.url).await, name("ids"));
        let ids = [
            "quote\"backslash\\slash/",
            "line\nbreak\ttab",
            "\u{1}\u{1f}\u{7f}",
            "Zürich 東京 🦀",
            " ",
            "..",
            "_underscore",
            &"x".repeat(512),
            &"ü".repeat(256),
        ];
        let batch = ids.iter().map(|id| put(&people, id, 1, "{}")).collect();
        let outcomes = write(&sink, batch).await.unwrap();
        for (id, outcome) in ids.iter().zip(outcomes) {
            assert_eq!(outcome, Outcome::Indexed, "{}: {id:?}", server.name);
            assert!(stored(server, &people, id).await.is_some(), "{}: {id:?}", server.name);
        }
    }
}

#[tokio::test]
async fn an_id_of_513_bytes_spoils_its_request_and_nothing_of_it_is_written() {
    for server in services::opensearch() {
        let (sink, people) = (connect(&server.url).await, name("long-id"));
        match write(&sink, vec![put(&people, "1", 1, "{}"), put(&people, &"x".repeat(513), 1, "{}")]).await {
            Err(Failure::Invalid(fault)) => assert_eq!(fault.kind, "action_request_validation_exception"),
            other => panic!("{}: {other:?}", server.name),
        }
        assert_eq!(stored(server, &people, "1").await, None, "{}", server.name);
    }
}

#[tokio::test]
async fn a_document_that_the_mapping_refuses_is_rejected_without_its_values() {
    for server in services::opensearch() {
        let (sink, people) = (connect(&server.url).await, name("mapper"));
        let types = json!({"l": {"type": "long"}, "d": {"type": "date"}, "i": {"type": "ip"}, "b": {"type": "boolean"}, "k": {"type": "keyword"},
                           "o": {"properties": {"x": {"type": "long"}}}, "g": {"type": "geo_point"}, "r": {"type": "date_range"}});
        put_to(server, &people, json!({"mappings": {"properties": types}})).await;
        let long = format!(r#"{{"k":"{}"}}"#, "secret".repeat(6_000));
        let bad = [
            r#"{"l":"secret"}"#,
            r#"{"l":987654321987654321987}"#,
            r#"{"d":"secret"}"#,
            r#"{"i":"secret"}"#,
            r#"{"b":"secret"}"#,
            r#"{"k":{"secret":1}}"#,
            r#"{"o":"secret"}"#,
            r#"{"g":{"lat":987654321987654321987,"lon":1}}"#,
            r#"{"r":{"gte":"secret"}}"#,
            r#"{"l":[1,"secret"]}"#,
            r#"{"_id":"secret"}"#,
            r#"{"":"secret"}"#,
            r#"{"a..b":"secret"}"#,
            r#"{"a":secret}"#,
            r#"["secret"]"#,
            &long,
        ];
        let mut batch: Vec<Operation> = bad.iter().enumerate().map(|(n, document)| put(&people, &n.to_string(), 1, document)).collect();
        batch.push(put(&people, "good", 1, r#"{"l":1}"#));
        let outcomes = write(&sink, batch).await.unwrap();
        assert_eq!(outcomes.last(), Some(&Outcome::Indexed), "{}", server.name);
        for (document, outcome) in bad.iter().zip(&outcomes) {
            assert!(matches!(outcome, Outcome::Rejected(_)), "{} {document:.40}: {outcome:?}", server.name);
            let said = fault(outcome).to_string();
            assert!(!said.contains("secret") && !said.contains("98765432"), "{} {document:.40}: {said}", server.name);
        }
        assert_eq!(
            fault(&outcomes[0]).to_string(),
            "mapper_parsing_exception: failed to parse field [l] of type [long] in document with id '0' (illegal_argument_exception)"
        );
        assert!(fault(&outcomes[11]).reason.contains("field name cannot be an empty string"), "{outcomes:?}");
        assert!(fault(&outcomes[15]).reason.contains("immense term in field=\"k\""), "{outcomes:?}");
    }
}

#[tokio::test]
async fn a_document_with_too_many_fields_is_rejected() {
    for server in services::opensearch() {
        let (sink, people) = (connect(&server.url).await, name("fields"));
        let many: Vec<String> = (0..1_001).map(|n| format!(r#""f{n}":{n}"#)).collect();
        let outcomes = write(&sink, vec![put(&people, "1", 1, &format!("{{{}}}", many.join(","))), put(&people, "2", 1, r#"{"f1":1}"#)])
            .await
            .unwrap();
        assert!(fault(&outcomes[0]).reason.starts_with("Limit of total fields [1000]"), "{}: {outcomes:?}", server.name);
        assert!(matches!(outcomes[0], Outcome::Rejected(_)));
        assert_eq!(outcomes[1], Outcome::Indexed);
    }
}

#[tokio::test]
async fn numbers_arrive_to_the_last_digit() {
    for server in services::opensearch() {
        let (sink, people) = (connect(&server.url).await, name("digits"));
        let document = r#"{"a":9223372036854775807,"b":442.30,"c":0.10000000000000000000000000000000000001}"#;
        write(&sink, vec![put(&people, "1", 1, document)]).await.unwrap();
        let hits = {
            sink.finish().await.unwrap();
            sink.search("9223372036854775807", &people, 1).await.unwrap()
        };
        assert_eq!(hits[0].source.get(), document, "{}", server.name);
    }
}

#[tokio::test]
async fn a_body_over_the_servers_limit_is_too_large_and_not_an_outage() {
    for server in services::opensearch() {
        let limits = get(server, "_nodes/http?filter_path=nodes.*.http.max_content_length_in_bytes").await;
        let limit = |node: &Value| node["http"]["max_content_length_in_bytes"].as_u64();
        if limits["nodes"].as_object().unwrap().values().filter_map(limit).all(|limit| limit > 12 << 20) {
            eprintln!("{} takes bodies of more than 12 MiB, so none can be tried that is too large: {limits}", server.name);
            continue;
        }
        for gzip in [true, false] {
            let sink = OpenSearch::connect(&Config { gzip, ..config(&server.url) }).await.unwrap();
            let people = name("too-large");
            let batch = (0..12).map(|n| put(&people, &n.to_string(), 1, &format!(r#"{{"x":"{}"}}"#, "x".repeat(1 << 20)))).collect();
            match write(&sink, batch).await {
                Err(Failure::TooLarge { .. }) => {}
                other => panic!("{} gzip {gzip}: {other:?}", server.name),
            }
        }
    }
}

#[tokio::test]
async fn a_search_finds_every_word_and_marks_it() {
    for server in services::opensearch() {
        let (sink, people) = (connect(&server.url).await, name("search"));
        write(
            &sink,
            vec![
                put(&people, "1", 3, r#"{"name":"Raul Lewis","city":"Zürich","born":1963}"#),
                put(&people, "2", 1, r#"{"name":"Raul Smith"}"#),
                put(&people, "3", 1, r#"{"name":"Brent Logan"}"#),
            ],
        )
        .await
        .unwrap();
        sink.finish().await.unwrap();
        let hits = sink.search("lewis raul", &people, 10).await.unwrap();
        assert_eq!(hits.len(), 1, "{}: {hits:?}", server.name);
        let hit = &hits[0];
        assert_eq!((hit.index.as_str(), hit.id.as_str(), hit.version), (format!("{people}-000001").as_str(), "1", 3));
        assert!(hit.score > 0.0);
        assert!(hit.highlights.iter().any(|fragment| fragment == "\u{1}Raul\u{2} \u{1}Lewis\u{2}"), "{:?}", hit.highlights);
        assert_eq!(sink.search("raul", &people, 1).await.unwrap().len(), 1, "the limit holds");
        assert_eq!(sink.search("zürich \"unbalanced (", &people, 10).await.unwrap().len(), 0, "no text is an error");
        assert_eq!(sink.search("1963", &format!("{people},{people}*"), 10).await.unwrap().len(), 1);
        let error = sink.search("x", &name("nowhere"), 1).await.unwrap_err().to_string();
        assert!(error.contains("no such index"), "{error}");
    }
}

#[tokio::test]
async fn a_server_says_what_it_is_and_lets_us_try_what_we_need() {
    for server in services::opensearch() {
        let sink = connect(&server.url).await;
        let probe = sink.probe().await.unwrap();
        assert_eq!(probe.distribution, "opensearch");
        assert!(probe.version.is_some());
        let people = name("rights");
        sink.check_rights(&people).await.unwrap();
        assert_eq!(get(server, &format!("{people}*")).await, json!({}), "{}: the scratch index is gone", server.name);
    }
}

#[tokio::test]
async fn setup_says_what_it_did() {
    for server in services::opensearch() {
        let (sink, made, plain) = (connect(&server.url).await, name("made"), name("was-there"));
        put_to(server, &plain, json!({})).await;
        let (done, advice) = sink.setup(&[&made, &plain]).await.unwrap();
        assert_eq!(
            done,
            [format!("created index {made}-000001 with write alias {made}"), format!("index {plain} exists and is used as it is")]
        );
        assert!(advice.len() == 1 && advice[0].found.contains(&plain) && advice[0].help.contains("index.gc_deletes"), "{advice:?}");
        assert_eq!(sink.setup(&[&made]).await.unwrap(), (vec![format!("alias {made} exists and is used as it is")], vec![]));
        let error = sink.setup(&["Upper"]).await.unwrap_err().to_string();
        assert!(error.contains("Invalid index name [Upper-000001]"), "{}: {error}", server.name);
    }
}

#[tokio::test]
async fn a_routed_document_is_written_under_its_routing() {
    for server in services::opensearch() {
        let (sink, people) = (connect(&server.url).await, name("routing"));
        let routed = revsync::operation::Target { routing: Some("eu west".to_owned()), ..target(&people, "1", 1) };
        let Operation::Index { document, .. } = put(&people, "1", 1, "{}") else { unreachable!() };
        assert_eq!(write(&sink, vec![Operation::Index { target: routed, document }]).await.unwrap(), [Outcome::Indexed], "{}", server.name);
        let answer = get(server, &format!("{people}/_doc/1?routing=eu%20west")).await;
        assert_eq!(answer["_routing"], json!("eu west"), "{}: {answer}", server.name);
    }
}
