//! What a healthy server never does, and what the sink makes of it. It tries once and reports: nothing here is sent twice by itself.

use std::time::Duration;

use revsync::plan::outcome::{Class, Failure, Outcome};
use revsync::sink::Sink;
use revsync::sink::opensearch::{Config, OpenSearch};

use crate::operations::{config, connect, delete, put, write};
use crate::scripted_opensearch::{Fate, Scripted, Step};

async fn server(steps: impl IntoIterator<Item = Step>) -> (Scripted, OpenSearch) {
    let server = Scripted::start().await;
    server.add_index("people-000001", Some("people"));
    server.script(steps);
    let sink = connect(&server.url()).await;
    (server, sink)
}

/// Class, text and wait of a failure that is tried again.
fn retried(result: Result<Vec<Outcome>, Failure>) -> (Class, String, Option<Duration>) {
    match result {
        Err(Failure::Retry { class, what, after }) => (class, what, after),
        other => panic!("expected a failure that is tried again, found {other:?}"),
    }
}

fn unavailable(result: Result<Vec<Outcome>, Failure>) -> String {
    let (class, what, _) = retried(result);
    assert_eq!(class, Class::Unavailable, "{what}");
    what
}

#[tokio::test]
async fn each_item_is_judged_by_itself() {
    let (server, sink) = server([Step::reject(1, 429, "rejected_execution_exception", "rejected execution of coordinating operation")
        .also(
            2,
            400,
            "mapper_parsing_exception",
            "failed to parse field [n] of type [long] in document with id '3'. Preview of field's value: 'secret'",
        )
        .also(4, 503, "unavailable_shards_exception", "[people][0] primary shard is not active")
        .also(5, 500, "surprising_exception", "secret")])
    .await;
    let outcomes = write(
        &sink,
        vec![
            put("people", "1", 1, "{}"),
            put("people", "2", 1, "{}"),
            put("people", "3", 1, "{}"),
            delete("people", "4", 1),
            put("people", "5", 1, "{}"),
            put("people", "6", 1, "{}"),
        ],
    )
    .await
    .unwrap();
    assert_eq!(outcomes[0], Outcome::Indexed);
    assert!(matches!(&outcomes[1], Outcome::Retry(Class::Throttled, _)), "{outcomes:?}");
    assert!(matches!(&outcomes[2], Outcome::Rejected(_)), "{outcomes:?}");
    assert_eq!(outcomes[3], Outcome::Absent);
    assert!(matches!(&outcomes[4], Outcome::Retry(Class::Unavailable, _)), "{outcomes:?}");
    assert!(matches!(&outcomes[5], Outcome::Retry(Class::Unknown, _)), "{outcomes:?}");
    assert!(!format!("{outcomes:?}").contains("secret"), "{outcomes:?}");
    assert_eq!(server.bulks().len(), 1);
}

#[tokio::test]
async fn a_replayed_batch_is_stale_all_through() {
    let (server, sink) = server([]).await;
    let batch = || vec![put("people", "1", 3, "{}"), delete("people", "2", 4)];
    assert_eq!(write(&sink, batch()).await.unwrap(), [Outcome::Indexed, Outcome::Absent]);
    assert_eq!(write(&sink, batch()).await.unwrap(), [Outcome::Stale, Outcome::Stale]);
    assert_eq!(server.document("people", "1"), Some((3, Some("{}".to_owned()))));
}

#[tokio::test]
async fn deletes_that_found_nothing_are_a_success() {
    let (_server, sink) = server([]).await;
    let outcomes = write(&sink, vec![delete("people", "1", 1), delete("people", "2", 1)]).await.unwrap();
    assert_eq!(outcomes, [Outcome::Absent, Outcome::Absent]);
}

#[tokio::test]
async fn the_layout_of_the_answer_does_not_matter() {
    let pretty = "\u{feff}{\n \"items\": [ { \"index\": { \"status\": 201 } },\n {\"index\": {\"error\": {\"reason\": \"conflit de version\", \"type\": \
                  \"version_conflict_engine_exception\"}, \"status\": 409} } ],\n \"errors\": true\n}\n\n";
    let (_server, sink) = server([Step::without_writing(Fate::Say(pretty.to_owned()))]).await;
    let outcomes = write(&sink, vec![put("people", "1", 1, "{}"), put("people", "2", 1, "{}")]).await.unwrap();
    assert_eq!(outcomes, [Outcome::Indexed, Outcome::Stale]);
}

#[tokio::test]
async fn a_lost_answer_leaves_a_batch_that_can_be_sent_again() {
    for fate in [Fate::Drop, Fate::Cut(0), Fate::Cut(30)] {
        let (server, sink) = server([Step::after_writing(fate.clone())]).await;
        let batch = || vec![put("people", "1", 1, "{}"), put("people", "2", 1, "{}")];
        let what = unavailable(write(&sink, batch()).await);
        assert!(what.contains(&server.address().to_string()), "{what}");
        assert_eq!(write(&sink, batch()).await.unwrap(), [Outcome::Stale, Outcome::Stale], "{fate:?}: it had been carried out");
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_its_request_settles_nothing() {
    for body in [
        "",
        "OK",
        "{}",
        r#"{"took":1,"errors":false}"#,
        r#"{"errors":false,"items":[{"index":{"status":201}}]}"#,
        r#"{"errors":false,"items":[{"index":{"status":201}},{"index":{"status":201}}]}"#,
        r#"{"errors":false,"items":[{"delete":{"status":200}},{"index":{"status":201}}]}"#,
        r#"{"errors":false,"items":[{"index":{"status":201}},{"delete":{"status":200}},{"index":{"status":201}}]}"#,
        r#"{"errors":false,"items":[{"index":{"status":201}},{"delete":{"result":"deleted"}}]}"#,
        r#"{"errors":false,"items":[{"index":{"status":201}},{"delete":{"status":200}}"#,
    ] {
        let (_server, sink) = server([Step::without_writing(Fate::Say(body.to_owned()))]).await;
        unavailable(write(&sink, vec![put("people", "1", 1, "{}"), delete("people", "2", 1)]).await);
    }
}

#[tokio::test]
async fn a_request_that_hangs_is_given_up_and_can_be_sent_again() {
    let server = Scripted::start().await;
    server.add_index("people-000001", Some("people"));
    server.script([Step::after_writing(Fate::Hang)]);
    let patience = Config { request_timeout: Duration::from_millis(300), ..config(&server.url()) };
    let sink = OpenSearch::connect(&patience).await.unwrap();
    let what = unavailable(write(&sink, vec![put("people", "1", 1, "{}")]).await);
    assert_eq!(what, format!("no answer from {} within 0.3 s", server.address()));
    let patient = connect(&server.url()).await;
    assert_eq!(write(&patient, vec![put("people", "1", 1, "{}")]).await.unwrap(), [Outcome::Stale]);
}

#[tokio::test]
async fn whole_requests_are_judged_by_type_and_status() {
    let block = r#"{"error":{"type":"cluster_block_exception","reason":"index [people] blocked by: [FORBIDDEN/12/index read-only / allow delete (api)];"},"status":403}"#;
    for (step, expected) in [
        (Step::status(429, "Too Many Requests"), Class::Throttled),
        (
            Step::status(429, r#"{"error":{"type":"circuit_breaking_exception","reason":"[parent] Data too large"},"status":429}"#),
            Class::Throttled,
        ),
        (Step::status(500, "secret"), Class::Unavailable),
        (Step::status(502, "<html>Bad Gateway</html>"), Class::Unavailable),
        (
            Step::status(
                503,
                r#"{"error":{"type":"cluster_block_exception","reason":"blocked by: [SERVICE_UNAVAILABLE/2/no master];"},"status":503}"#,
            ),
            Class::Unavailable,
        ),
        (Step::status(504, ""), Class::Unavailable),
        (Step::status(403, block), Class::Blocked),
    ] {
        let (server, sink) = server([step.clone()]).await;
        let (class, what, _) = retried(write(&sink, vec![put("people", "1", 1, "{}")]).await);
        assert_eq!(class, expected, "{step:?}: {what}");
        assert!(what.starts_with(&server.address().to_string()) && !what.contains("secret"), "{what}");
        assert_eq!(server.bulks().len(), 1, "the sink tries once");
    }
}

#[tokio::test]
async fn retry_after_is_handed_on() {
    let (_server, sink) = server([
        Step::status(429, "slow down").header("retry-after", "2"),
        Step::status(503, "").header("date", "Fri, 31 Dec 2100 23:59:49 GMT").header("retry-after", "Fri, 31 Dec 2100 23:59:59 GMT"),
    ])
    .await;
    for seconds in [2, 10] {
        assert_eq!(retried(write(&sink, vec![put("people", "1", 1, "{}")]).await).2, Some(Duration::from_secs(seconds)));
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_told_with_the_limit() {
    let (_server, sink) = server([Step::status(413, r#"{"Message":"Request size exceeded 10485760 bytes"}"#), Step::status(413, "")]).await;
    for expected in [Some(10_485_760), None] {
        match write(&sink, vec![put("people", "1", 1, "{}")]).await {
            Err(Failure::TooLarge { limit, .. }) => assert_eq!(limit, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_request_that_is_refused_whole_is_invalid() {
    let refusal = r#"{"error":{"root_cause":[],"type":"action_request_validation_exception","reason":"Validation Failed: 1: id [x] is too long, must be no longer than 512 bytes but was: 513;"},"status":400}"#;
    let (_server, sink) = server([Step::status(400, refusal)]).await;
    match write(&sink, vec![put("people", "1", 1, "{}")]).await {
        Err(Failure::Invalid(fault)) => assert_eq!(fault.kind, "action_request_validation_exception"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_stands_in_front_of_opensearch_is_not_taken_for_it() {
    for status in [400, 404, 405] {
        let (_server, sink) = server([Step::status(status, "<html></html>")]).await;
        let result = write(&sink, vec![put("people", "1", 1, "{}")]).await;
        assert!(matches!(result, Err(Failure::Misconfigured { .. })), "{status}: {result:?}");
    }
}

#[tokio::test]
async fn every_body_ends_with_a_newline_and_asks_for_little() {
    for gzip in [true, false] {
        let server = Scripted::start().await;
        let sink = OpenSearch::connect(&Config { gzip, ..config(&server.url()) }).await.unwrap();
        write(&sink, vec![put("people", "1", 1, r#"{"a":1}"#), delete("people", "2", 3)]).await.unwrap();
        let bulk = &server.bulks()[0];
        assert_eq!(bulk.body.last(), Some(&b'\n'));
        assert_eq!(bulk.header("content-encoding"), gzip.then_some("gzip"));
        assert_eq!(bulk.header("content-type"), Some("application/x-ndjson"));
        assert_eq!(bulk.query, "filter_path=errors%2Citems.*.status%2Citems.*.error&timeout=10000ms");
        assert_eq!(
            bulk.lines(),
            [
                r#"{"index":{"_index":"people","_id":"1","version":1,"version_type":"external","require_alias":true}}"#,
                r#"{"a":1}"#,
                r#"{"delete":{"_index":"people","_id":"2","version":3,"version_type":"external"}}"#,
            ]
        );
    }
}

#[tokio::test]
async fn an_index_is_looked_up_once_and_then_guarded() {
    let server = Scripted::start().await;
    server.tell_uuids();
    let sink = connect(&server.url()).await;
    for id in ["1", "2", "3"] {
        assert_eq!(write(&sink, vec![put("people", id, 1, "{}")]).await.unwrap(), [Outcome::Indexed]);
    }
    let asked: Vec<String> = server.requests().iter().map(|request| format!("{} {}", request.method, request.path)).collect();
    assert_eq!(asked, ["GET /people", "PUT /people-000001", "GET /people", "POST /_bulk", "POST /_bulk", "POST /_bulk"]);
    assert_eq!(
        server.bulks()[2].lines()[2..],
        [r#"{"update":{"_index":"people","_id":"revsync-guard","require_alias":true}}"#, r#"{"doc":{}}"#]
    );
}

#[tokio::test]
async fn a_lookup_that_fails_is_a_failure_of_the_write_and_is_tried_anew() {
    let server = Scripted::start().await;
    server.fix("GET", "/people", 503, "", &[]);
    let sink = connect(&server.url()).await;
    unavailable(write(&sink, vec![put("people", "1", 1, "{}")]).await);
    server.fix("GET", "/people", 403, r#"{"error":{"type":"security_exception","reason":"no permissions for [indices:admin/get]"}}"#, &[]);
    let refused = write(&sink, vec![put("people", "1", 1, "{}")]).await;
    assert!(matches!(&refused, Err(Failure::Unauthorized { what }) if what.contains("indices:admin/get")), "{refused:?}");
    assert_eq!(server.bulks().len(), 0);
}

#[tokio::test]
async fn a_cluster_that_has_no_room_for_another_index_is_waited_for() {
    let server = Scripted::start().await;
    let full = r#"{"error":{"type":"validation_exception","reason":"Validation Failed: 1: this action would add [2] total shards, but this cluster currently has [1000]/[1000] maximum shards open;"},"status":400}"#;
    server.fix("PUT", "/people-000001", 400, full, &[]);
    let sink = connect(&server.url()).await;
    let (class, what, _) = retried(write(&sink, vec![put("people", "1", 1, "{}")]).await);
    assert_eq!(class, Class::Blocked);
    assert!(what.contains("maximum shards open"), "{what}");
}

#[tokio::test]
async fn an_index_without_its_alias_is_not_taken_over() {
    let server = Scripted::start().await;
    server.add_index("people-000001", None);
    let sink = connect(&server.url()).await;
    let (class, what, _) = retried(write(&sink, vec![put("people", "1", 1, "{}")]).await);
    assert_eq!(class, Class::Blocked);
    assert!(what.contains("people is no alias of it"), "{what}");
}

#[tokio::test]
async fn a_server_that_comes_back_on_its_port_is_found_again() {
    let (server, sink) = server([]).await;
    write(&sink, vec![put("people", "1", 1, "{}")]).await.unwrap();
    let address = server.stop().await;
    let what = unavailable(write(&sink, vec![put("people", "1", 2, "{}")]).await);
    assert!(what.contains(&address.to_string()), "{what}");
    let server = Scripted::start_on(address, None).await;
    server.add_index("people-000001", Some("people"));
    assert_eq!(write(&sink, vec![put("people", "1", 2, "{}")]).await.unwrap(), [Outcome::Indexed]);
}

#[tokio::test]
async fn a_path_prefix_stands_before_every_path() {
    let server = Scripted::start().await;
    server.fix("GET", "/search/prefix/people", 200, r#"{"people":{}}"#, &[]);
    let sink = connect(&format!("{}/search/prefix", server.url())).await;
    server.add_index("people", None);
    assert_eq!(write(&sink, vec![put("people", "1", 1, "{}")]).await.unwrap(), [Outcome::Indexed]);
    assert_eq!(server.bulks()[0].path, "/search/prefix/_bulk");
    assert_eq!(sink.name(), format!("{}/search/prefix", server.url()));
}

#[tokio::test]
async fn a_refresh_that_fails_does_not_fail_the_run() {
    let (server, sink) = server([]).await;
    write(&sink, vec![put("people", "1", 1, "{}")]).await.unwrap();
    server.fix("POST", "/people/_refresh", 403, "", &[]);
    sink.finish().await.unwrap();
    assert_eq!(server.requests().last().unwrap().path, "/people/_refresh");
}
