//! What is asked and done before an index gets its first delete or tombstone, against a scripted server.

use revsync::plan::mapping::{Deletes, Mapping, Rule};
use revsync::plan::outcome::{Class, Failure, Outcome};
use revsync::sink::opensearch::OpenSearch;

use crate::operations::{connect, delete, put, tombstone, write};
use crate::scripted_opensearch::Scripted;

/// A server with the index `people-000001` behind the alias `people`, and a sink that puts tombstones there.
async fn keeping() -> (Scripted, OpenSearch) {
    let server = Scripted::start().await;
    server.add_index("people-000001", Some("people"));
    let rule = Rule { name: "People".to_owned(), deletes: Deletes::Tombstone, ..Rule::default() };
    let sink = connect(&server.url()).await.with_deletes(Mapping::new(vec![rule]).unwrap().deletes());
    (server, sink)
}

fn asked(server: &Scripted) -> Vec<String> {
    server.requests().iter().map(|request| format!("{} {}", request.method, request.path)).collect()
}

#[tokio::test]
async fn an_index_that_exists_is_looked_at_before_its_first_delete_and_not_again() {
    let server = Scripted::start().await;
    server.add_index("people-000001", Some("people"));
    let sink = connect(&server.url()).await;
    for version in 1..4 {
        write(&sink, vec![put("people", "1", 2 * version, "{}")]).await.unwrap();
        write(&sink, vec![delete("people", "1", 2 * version + 1)]).await.unwrap();
    }
    let bulk = "POST /_bulk";
    assert_eq!(asked(&server), ["GET /people", bulk, "GET /people", bulk, bulk, bulk, bulk, bulk]);
}

#[tokio::test]
async fn an_index_that_was_made_for_it_is_not_looked_at_again() {
    let server = Scripted::start().await;
    let sink = connect(&server.url()).await;
    write(&sink, vec![put("people", "1", 1, "{}"), delete("people", "1", 2)]).await.unwrap();
    assert_eq!(asked(&server), ["GET /people", "PUT /people-000001", "GET /people", "POST /_bulk"]);
}

#[tokio::test]
async fn the_fields_of_tombstones_are_mapped_once_before_the_first_write_of_any_kind() {
    let (server, sink) = keeping().await;
    server.fix("PUT", "/people-000001/_mapping", 200, "{}", &[]);
    for id in ["1", "2"] {
        assert_eq!(write(&sink, vec![put("people", id, 1, "{}")]).await.unwrap(), [Outcome::Indexed]);
        assert_eq!(write(&sink, vec![tombstone("people", id, 2, 0)]).await.unwrap(), [Outcome::Deleted]);
    }
    let bulk = "POST /_bulk";
    assert_eq!(asked(&server), ["GET /people", "GET /people", "PUT /people-000001/_mapping", bulk, bulk, bulk, bulk]);
}

#[tokio::test]
async fn a_server_that_cannot_map_them_now_is_asked_again_and_nothing_is_written_before() {
    let (server, sink) = keeping().await;
    server.fix("PUT", "/people-000001/_mapping", 503, "", &[]);
    let failure = write(&sink, vec![tombstone("people", "1", 2, 0)]).await.unwrap_err();
    assert!(matches!(failure, Failure::Retry { class: Class::Unavailable, .. }), "{failure:?}");
    assert_eq!(server.bulks().len(), 0);
    server.fix("PUT", "/people-000001/_mapping", 200, "{}", &[]);
    assert_eq!(write(&sink, vec![tombstone("people", "1", 2, 0)]).await.unwrap(), [Outcome::Deleted]);
}

#[tokio::test]
async fn a_server_that_refuses_to_map_them_is_written_to_all_the_same_and_that_is_said() {
    let (server, sink) = keeping().await;
    let refusal = r#"{"error":{"type":"security_exception","reason":"no permissions for [indices:admin/mapping/put]"}}"#;
    server.fix("PUT", "/people-000001/_mapping", 403, refusal, &[]);
    assert_eq!(write(&sink, vec![tombstone("people", "1", 2, 0)]).await.unwrap(), [Outcome::Deleted]);
    assert_eq!(write(&sink, vec![tombstone("people", "1", 3, 0)]).await.unwrap(), [Outcome::Deleted]);
    assert_eq!(asked(&server).iter().filter(|asked| asked.starts_with("PUT")).count(), 1, "a refusal is not asked for twice");
    let (_, advice) = sink.setup(&["people"]).await.unwrap();
    assert!(advice[0].found.contains("no permissions for [indices:admin/mapping/put]"), "{advice:?}");
}

#[tokio::test]
async fn a_sweep_of_an_index_that_is_gone_makes_none() {
    let server = Scripted::start().await;
    let sink = connect(&server.url()).await.for_sweep();
    let failure = write(&sink, vec![delete("people-000001", "1", 2)]).await.unwrap_err();
    assert!(matches!(failure, Failure::Retry { class: Class::Blocked, .. }), "{failure:?}");
    assert_eq!(asked(&server), ["GET /people-000001"]);
}
