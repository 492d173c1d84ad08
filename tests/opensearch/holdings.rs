//! What an index holds and what it is made to forget: on real servers what no other sink has, and on a scripted one what a healthy server never does.

use opensearch::http::Method;
use revsync::operation::{Operation, Target};
use revsync::plan::outcome::{Class, Failure, Outcome};
use revsync::revision::VersionType;
use revsync::sink::opensearch::OpenSearch;
use revsync::sink::opensearch::config::Access;
use revsync::sink::{Asked, Contents, Detail, Held, Holding};
use serde_json::{Value, json};

use crate::contents::{Known, all, known};
use crate::live::{ask, get, name, put_to, stored};
use crate::log::Log;
use crate::operations::{connect, delete, put, target, tombstone, write};
use crate::scripted_opensearch::{Request, Scripted};
use crate::services;
use crate::signatures::signing;

fn asked(id: &str, routing: Option<&str>) -> Asked {
    Asked { id: id.to_owned(), routing: routing.map(str::to_owned) }
}

/// A document at version 1, and how it is held.
fn one() -> Known {
    (1, None, false, None)
}

#[tokio::test]
async fn a_document_of_two_routing_values_is_two_documents_and_each_is_held() {
    for server in services::opensearch() {
        let (sink, people) = (connect(&server.url).await, name("routed"));
        put_to(server, &people, json!({"settings": {"number_of_shards": 5, "number_of_routing_shards": 20}})).await;
        let routed = |routing: &str, version| {
            let Operation::Index { document, .. } = put(&people, "", 0, "{}") else { unreachable!() };
            let target = Target { routing: Some(routing.to_owned()), ..target(&people, "1", version) };
            Operation::Index { target, document }
        };
        write(&sink, vec![routed("a", 1), routed("b", 2), routed("c", 3)]).await.unwrap();
        let (mut found, mut after): (Vec<Held>, _) = (Vec::new(), None);
        loop {
            let Holding { found: page, next, .. } = sink.holding(&people, Detail::Version, after).await.unwrap().unwrap();
            if page.is_empty() {
                break;
            }
            found.extend(page);
            after = Some(next);
        }
        let mut found: Vec<_> = found.into_iter().map(|held| (held.version, held.routing.unwrap())).collect();
        found.sort();
        assert!(found.len() >= 2, "{}: {found:?}", server.name);
        let ids = ["a", "b", "c", "other"].map(|routing| asked("1", Some(routing)));
        let held = sink.held(&people, &ids, Detail::Version).await.unwrap();
        for (version, routing) in &found {
            assert!(held.iter().flatten().any(|held| (held.version, held.routing.as_ref()) == (*version, Some(routing))), "{held:?}");
        }
    }
}

#[tokio::test]
async fn what_is_written_after_the_first_page_changes_nothing_of_the_next() {
    for server in services::opensearch() {
        let (sink, people) = (connect(&server.url).await, name("point"));
        write(&sink, (0..1_500).map(|id| put(&people, &id.to_string(), 1, "{}")).collect()).await.unwrap();
        let first = sink.holding(&people, Detail::Version, None).await.unwrap().unwrap();
        assert_eq!(first.total, Some(1_500), "{}", server.name);
        write(&sink, (0..1_600).map(|id| put(&people, &id.to_string(), 2, "{}")).collect()).await.unwrap();
        ask(server, Method::Post, &format!("{people}/_refresh"), Value::Null).await;
        let second = sink.holding(&people, Detail::Version, Some(first.next)).await.unwrap().unwrap();
        assert_eq!(first.found.len() + second.found.len(), 1_500);
        assert!(first.found.iter().chain(&second.found).all(|held| held.version == 1), "{}", server.name);
        let end = sink.holding(&people, Detail::Version, Some(second.next.clone())).await.unwrap().unwrap();
        assert!(end.found.is_empty());
        // It was closed with the last page.
        match sink.holding(&people, Detail::Version, Some(second.next)).await {
            Err(Failure::Invalid(fault)) => assert!(fault.reason.contains("no longer has the point in time"), "{fault}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn of_an_alias_with_several_indices_the_one_that_is_written_to_is_looked_at_and_the_others_are_named() {
    for server in services::opensearch() {
        let people = name("several");
        let (old, new) = (format!("{people}-1"), format!("{people}-2"));
        put_to(server, &old, json!({"aliases": {people.as_str(): {}}})).await;
        let filter = json!({"term": {"nothing": "has this"}});
        put_to(server, &new, json!({"aliases": {people.as_str(): {"is_write_index": true, "filter": filter}}})).await;
        let sink = connect(&server.url).await;
        write(&sink, vec![put(&old, "old", 1, "{}"), put(&people, "new", 1, "{}"), tombstone(&people, "gone", 2, 0)]).await.unwrap();
        let (log, _guard) = Log::start();
        let (found, _) = all(&sink, &people, Detail::Version).await.unwrap();
        let expected = [("gone".to_owned(), (2, None, true, None)), ("new".to_owned(), one())];
        assert_eq!(found, expected.into(), "{}: past the filter", server.name);
        let held = sink.held(&people, &[asked("old", None), asked("new", None)], Detail::Version).await.unwrap();
        assert_eq!(held.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
        let said = log.lines();
        assert!(said.iter().any(|line| line.contains(&format!("also means {old}; only {new} is written to"))), "{said:?}");
    }
}

#[tokio::test]
async fn an_index_that_keeps_no_documents_is_refused_with_the_reason() {
    for server in services::opensearch() {
        let (sink, people) = (connect(&server.url).await, name("sourceless"));
        put_to(server, &people, json!({"mappings": {"_source": {"enabled": false}}})).await;
        write(&sink, vec![put(&people, "1", 1, "{}")]).await.unwrap();
        let held = sink.held(&people, &[asked("1", None)], Detail::Version).await.map(|_| ());
        for result in [sink.holding(&people, Detail::Version, None).await.map(|_| ()), held] {
            match result {
                Err(Failure::Misconfigured { what }) => assert!(what.contains("_source is switched off"), "{what}"),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_document_that_was_deleted_by_hand_can_be_written_again_once_that_is_forgotten() {
    for server in services::opensearch() {
        for setting in [json!("24h"), json!("25m"), Value::Null] {
            let (sink, people) = (connect(&server.url).await, name("by-hand"));
            let settings = if setting.is_null() { json!({}) } else { json!({"gc_deletes": setting}) };
            put_to(server, &people, json!({"settings": settings})).await;
            let gte = || {
                let Operation::Index { target, document } = put(&people, "1", 5, "{}") else { unreachable!() };
                let target = Target { version_type: VersionType::ExternalGte, ..target };
                Operation::Index { target, document }
            };
            write(&sink, vec![gte(), delete(&people, "2", 7)]).await.unwrap();
            let (_, deleted) = ask(server, Method::Delete, &format!("{people}/_doc/1"), Value::Null).await;
            assert_eq!(deleted["_version"], 6, "{}: a delete by hand counts on", server.name);
            assert_eq!(write(&sink, vec![gte()]).await.unwrap(), [Outcome::Stale], "{}", server.name);
            let before = get(server, &format!("{people}/_settings")).await;
            sink.forget_deletes(&people, &[asked("1", None)]).await.unwrap();
            assert_eq!(write(&sink, vec![gte()]).await.unwrap(), [Outcome::Indexed], "{} with {setting}", server.name);
            assert_eq!(stored(server, &people, "1").await, Some((5, json!({}))));
            assert_eq!(get(server, &format!("{people}/_settings")).await, before, "{}", server.name);
        }
    }
}

const PIT: &str = "/people/_search/point_in_time";
const ALL_SHARDS: &str = r#""_shards":{"total":1,"successful":1,"failed":0}"#;

fn opened() -> (u16, String) {
    (200, format!(r#"{{"pit_id":"p",{ALL_SHARDS}}}"#))
}

/// The answer to a search: how many there are, and the ids of this page.
fn page(total: u64, ids: &[&str]) -> (u16, String) {
    let hits: Vec<Value> = ids.iter().enumerate().map(|(at, id)| json!({"_id": id, "_version": 1, "_source": {}, "sort": [at]})).collect();
    let hits = json!({"total": {"value": total, "relation": "eq"}, "hits": hits});
    (200, format!(r#"{{"pit_id":"p","timed_out":false,{ALL_SHARDS},"hits":{hits}}}"#))
}

fn refused(status: u16, kind: &str) -> (u16, String) {
    (status, json!({"error": {"type": kind, "reason": "", "root_cause": [{"type": kind, "reason": ""}]}, "status": status}).to_string())
}

/// A server with an index and a point in time of it, and a sink on it.
async fn scripted() -> (Scripted, OpenSearch) {
    let server = Scripted::start().await;
    server.add_index("people", None);
    server.fix("POST", "/people/_refresh", 200, &format!("{{{ALL_SHARDS}}}"), &[]);
    server.fix("POST", PIT, 200, &opened().1, &[]);
    server.fix("DELETE", "/_search/point_in_time", 200, "{}", &[]);
    let sink = connect(&server.url()).await;
    (server, sink)
}

fn closed(server: &Scripted) -> usize {
    server.requests().iter().filter(|request| request.method == "DELETE" && request.path == "/_search/point_in_time").count()
}

async fn next(sink: &OpenSearch, after: Option<&str>) -> Result<Holding, Failure> {
    sink.holding("people", Detail::Version, after.map(str::to_owned)).await.map(|page| page.expect("the index is there"))
}

fn retry(result: Result<Holding, Failure>) -> Class {
    match result {
        Err(Failure::Retry { class, .. }) => class,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_page_of_which_shards_are_missing_or_late_is_asked_for_again_and_nothing_is_left_out() {
    let (server, sink) = scripted().await;
    let lacking = |(status, body): (u16, String)| (status, body.replace(r#""failed":0"#, r#""failed":1"#));
    let late = |(status, body): (u16, String)| (status, body.replace(r#""timed_out":false"#, r#""timed_out":true"#));
    server.queue("POST", "/_search", [page(3, &[]), page(3, &["a", "b"]), lacking(page(3, &[])), late(page(3, &[]))]);
    let first = next(&sink, None).await.unwrap();
    assert_eq!((first.found.len(), first.total), (2, Some(3)));
    assert_eq!(retry(next(&sink, Some(&first.next)).await), Class::Unavailable);
    assert_eq!(retry(next(&sink, Some(&first.next)).await), Class::Unavailable);
    for (status, kind, class) in [
        (429, "rejected_execution_exception", Class::Throttled),
        (503, "search_phase_execution_exception", Class::Unavailable),
        (429, "circuit_breaking_exception", Class::Throttled),
    ] {
        server.queue("POST", "/_search", [refused(status, kind)]);
        assert_eq!(retry(next(&sink, Some(&first.next)).await), class, "{kind}");
    }
    assert_eq!(closed(&server), 0, "the place is kept");
    server.queue("POST", "/_search", [page(3, &["c"]), page(3, &[])]);
    let second = next(&sink, Some(&first.next)).await.unwrap();
    assert_eq!(known(second.found.into_iter().next().unwrap()), ("c".to_owned(), one()));
    assert!(next(&sink, Some(&second.next)).await.unwrap().found.is_empty());
    assert_eq!(closed(&server), 1);
}

#[tokio::test]
async fn a_point_in_time_that_is_gone_is_told_apart_from_an_outage() {
    let (server, sink) = scripted().await;
    server.queue("POST", "/_search", [page(2, &[]), page(2, &["a"]), refused(404, "search_context_missing_exception")]);
    let first = next(&sink, None).await.unwrap();
    assert!(matches!(next(&sink, Some(&first.next)).await, Err(Failure::Invalid(_))));
    assert!(matches!(next(&sink, Some("no mark")).await, Err(Failure::Invalid(_))));
    sink.leave(first.next).await;
    sink.leave("no mark".to_owned()).await;
    assert_eq!(closed(&server), 1);
}

#[tokio::test]
async fn fewer_documents_than_were_counted_are_not_taken_for_all() {
    let (server, sink) = scripted().await;
    server.queue("POST", "/_search", [page(3, &[]), page(3, &["a", "b"]), page(3, &[])]);
    let first = next(&sink, None).await.unwrap();
    match next(&sink, Some(&first.next)).await {
        Err(Failure::Invalid(fault)) => assert!(fault.reason.contains("2 documents of 3"), "{fault}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(closed(&server), 1);
}

#[tokio::test]
async fn an_index_that_cannot_be_opened_whole_is_not_looked_at() {
    let (server, sink) = scripted().await;
    let lacking = |text: &str| text.replace(r#""failed":0"#, r#""failed":1"#);
    server.queue("POST", "/people/_refresh", [(200, lacking(&format!("{{{ALL_SHARDS}}}"))), refused(503, "unavailable_shards_exception")]);
    assert_eq!(retry(next(&sink, None).await), Class::Unavailable);
    assert_eq!(retry(next(&sink, None).await), Class::Unavailable);
    server.queue("POST", PIT, [(200, lacking(&opened().1))]);
    assert_eq!(retry(next(&sink, None).await), Class::Unavailable);
    assert_eq!(closed(&server), 1, "what was opened in part is closed");
    server.queue("POST", "/_search", [refused(503, "search_phase_execution_exception")]);
    assert_eq!(retry(next(&sink, None).await), Class::Unavailable);
    assert_eq!(closed(&server), 2);
    server.queue("POST", "/people/_refresh", [refused(403, "security_exception")]);
    assert!(matches!(next(&sink, None).await, Err(Failure::Unauthorized { .. })));
    server.queue(
        "POST",
        PIT,
        [(400, r#"{"error":"no handler found for uri [/people/_search/point_in_time] and method [POST]"}"#.to_owned())],
    );
    match next(&sink, None).await {
        Err(Failure::Misconfigured { what }) => assert!(what.contains("OpenSearch 2.4 or newer is needed"), "{what}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_asked_for_in_parts() {
    let (server, sink) = scripted().await;
    let large = (200, "x".repeat(9 * 1024 * 1024));
    server.queue("POST", "/_search", [page(2, &[]), large.clone(), large.clone(), page(2, &["a", "b"]), page(2, &[])]);
    let first = sink.holding("people", Detail::Content, None).await.unwrap().unwrap();
    assert_eq!(first.found.len(), 2);
    let body = |request: &Request| serde_json::from_slice::<Value>(&request.body).unwrap();
    let sizes: Vec<Value> =
        server.requests().iter().filter(|request| request.path == "/_search").map(|request| body(request)["size"].clone()).collect();
    assert_eq!(sizes, [0, 100, 50, 25]);
    server.queue("POST", "/people/_mget", [large, (200, r#"{"docs":[{"_id":"a","found":false}]}"#.to_owned())]);
    server.queue("POST", "/people/_mget", [(200, r#"{"docs":[{"_id":"b","found":true,"_version":7,"_source":{}}]}"#.to_owned())]);
    let held = sink.held("people", &[asked("a", None), asked("b", None)], Detail::Content).await.unwrap();
    assert_eq!(held.iter().map(|held| held.as_ref().map(|held| held.version)).collect::<Vec<_>>(), [None, Some(7)]);
}

#[tokio::test]
async fn a_document_that_could_not_be_read_is_not_taken_for_one_that_is_not_there() {
    let (server, sink) = scripted().await;
    for docs in [
        json!([{"_id": "a", "found": false}, {"_id": "b", "error": {"type": "no_shard_available_action_exception", "root_cause": []}}]),
        json!([{"_id": "a", "found": false}]),
        json!([{"_id": "b", "found": false}, {"_id": "a", "found": false}]),
    ] {
        server.queue("POST", "/people/_mget", [(200, json!({"docs": docs}).to_string())]);
        let held = sink.held("people", &[asked("a", None), asked("b", None)], Detail::Version).await;
        assert!(matches!(held, Err(Failure::Retry { class: Class::Unavailable, .. })), "{docs}: {held:?}");
    }
}

#[tokio::test]
async fn a_setting_that_could_not_be_put_back_is_said_loudly_and_put_back_by_the_next_try() {
    let (server, sink) = scripted().await;
    let described = |setting: &str| json!({"people": {"settings": {"index": {"uuid": "u", "gc_deletes": setting}}}}).to_string();
    server.queue("GET", "/people", [(200, described("24h")), (200, described("-1ms"))]);
    let done = || (200, "{}".to_owned());
    server.queue("PUT", "/people/_settings", [done(), refused(503, "process_cluster_event_timeout_exception"), done(), done()]);
    let (log, _guard) = Log::start();
    let forgotten = sink.forget_deletes("people", &[]).await;
    assert!(matches!(forgotten, Err(Failure::Retry { class: Class::Unavailable, .. })), "{forgotten:?}");
    let said = log.lines();
    let loud = r#"send PUT people/_settings with {"index.gc_deletes": "24h"}"#;
    assert!(said.iter().any(|line| line.contains("ERROR") && line.contains(loud)), "{said:?}");
    sink.forget_deletes("people", &[]).await.unwrap();
    // Also where the refresh in between fails.
    server.queue("GET", "/people", [(200, described("7m"))]);
    server.queue("PUT", "/people/_settings", [done(), done()]);
    server.queue("POST", "/people/_refresh", [refused(429, "rejected_execution_exception")]);
    assert!(matches!(sink.forget_deletes("people", &[]).await, Err(Failure::Retry { class: Class::Throttled, .. })));
    let sent: Vec<Value> = server
        .requests()
        .iter()
        .filter(|request| request.path == "/people/_settings")
        .map(|request| serde_json::from_slice::<Value>(&request.body).unwrap()["index.gc_deletes"].clone())
        .collect();
    assert_eq!(sent, ["-1ms", "24h", "-1ms", "24h", "-1ms", "7m"]);
}

#[tokio::test]
async fn serverless_says_what_it_cannot_tell() {
    let server = Scripted::start().await;
    server.add_index("people", None);
    let sink = signing(&server, Access::Aoss, false).await;
    let listed = sink.holding("people", Detail::Version, None).await.map(|_| ());
    for result in [listed, sink.forget_deletes("people", &[]).await] {
        match result {
            Err(Failure::Misconfigured { what }) => assert!(what.contains("OpenSearch Serverless"), "{what}"),
            other => panic!("{other:?}"),
        }
    }
    assert!(server.requests().is_empty());
}
