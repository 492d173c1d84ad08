//! The function as Lambda runs it, before an OpenSearch that is down, refuses, hangs or does not know its password, and before events that are
//! none: what Lambda is told, and what became of the records.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use revsync::store::dead_letters::DeadLetter;
use tempfile::TempDir;

use crate::dice::Dice;
use crate::fixture;
use crate::mapping_model::{DONE, Invocation, Kept, Model, event, everything_from};
use crate::positions::MANY;
use crate::qldb_stream::{Does, aggregate, binary, put, revision};
use crate::runtime_api::{Answer, Failure, Function};
use crate::scripted_opensearch::{Fate, Scripted, Step};

/// More than an invocation takes that has nothing to wait for.
const LONG_ENOUGH: Duration = Duration::from_secs(60);

/// Where the letters of a test go.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("letters.jsonl")
    }

    fn letters(&self) -> Vec<DeadLetter> {
        let text = std::fs::read_to_string(self.file()).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn function(&self, to: &str, more: &[(&str, &str)]) -> Function {
        let letters = format!("file:{}", self.file().display());
        Function::start(&[&[("REVSYNC_TO", to), ("REVSYNC_DEAD_LETTERS", &letters), ("REVSYNC_GIVE_UP_AFTER", "300ms")], more].concat())
    }
}

fn response(body: &str) -> Answer {
    Answer::Response(body.to_owned())
}

/// A record of one person, or an aggregate of several.
fn record(number: u64, ids: &[&str]) -> Kept {
    let users: Vec<_> = ids.iter().map(|id| binary(&[revision("Person", id, number, &put("a"))])).collect();
    let data = if users.len() == 1 { users[0].clone() } else { aggregate(&users) };
    Kept { number: number.to_string(), data: data.to_vec() }
}

fn people() -> Vec<Kept> {
    vec![record(9, &["a"]), record(10, &["b", "c"]), record(11, &["d"])]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_answered_with_the_first_position_makes_no_letters_and_is_made_up_for_by_the_same_process() {
    let (server, place) = (Scripted::start().await, Place::new());
    let url = server.url();
    let address: SocketAddr = server.stop().await;
    let mut function = place.function(&url, &[]);
    let event = event("shardId-000000000003", &people());
    for _ in 0..2 {
        assert_eq!(function.invoke(&event, LONG_ENOUGH), response(&everything_from("9")));
    }
    let server = Scripted::start_on(address, None).await;
    assert_eq!(function.invoke(&event, LONG_ENOUGH), response(DONE));
    assert_eq!(server.documents("person").into_keys().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    assert!(!place.file().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_record_behind_one_that_an_outage_keeps_open_is_one_letter_however_often_it_comes_again() {
    let (server, place) = (Scripted::start().await, Place::new());
    let url = server.url();
    let address: SocketAddr = server.stop().await;
    let mut function = place.function(&url, &[]);
    let mut records = people();
    records[1].data = b"\xFFno record of anything".to_vec();
    let event = event("shardId-000000000003", &records);
    for _ in 0..3 {
        assert_eq!(function.invoke(&event, LONG_ENOUGH), response(&everything_from("9")));
    }
    let server = Scripted::start_on(address, None).await;
    assert_eq!(function.invoke(&event, LONG_ENOUGH), response(DONE));
    assert_eq!(server.documents("person").into_keys().collect::<Vec<_>>(), ["a", "d"]);
    assert_eq!(place.letters().into_iter().map(|letter| letter.payload).collect::<Vec<_>>(), [&records[1].data[..]]);
    let told = function.errors();
    assert_eq!((told.matches("dead letter: ").count(), told.matches(r#""dead_letters":1"#).count()), (1, 4), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_an_error_that_says_what_to_do_and_makes_no_letters() {
    let (server, place) = (Scripted::start().await, Place::new());
    server.require_header("authorization", "Basic cmV2c3luYzpyaWdodA==");
    let wrong = [("REVSYNC_AUTH", "basic"), ("REVSYNC_USERNAME", "revsync"), ("REVSYNC_PASSWORD", "a-wrong-password")];
    let mut function = place.function(&server.url(), &wrong);
    let event = event("shardId-000000000003", &people());
    let Answer::Error(Failure { kind, message, body }) = function.invoke(&event, LONG_ENOUGH) else { panic!("expected an error") };
    assert_eq!(kind, "Revsync.Sink");
    for expected in [&server.address().to_string(), "answered status 401", "; check the credentials and the rights of their user or role"] {
        assert!(message.contains(expected), "{message}");
    }
    let said = function.errors() + &function.output();
    assert!(!body.contains("a-wrong-password") && !said.contains("a-wrong-password"), "{body} {said}");
    assert!(!place.file().exists());
    // The right password, and the batch that came back whole is written.
    let right = [("REVSYNC_AUTH", "basic"), ("REVSYNC_USERNAME", "revsync"), ("REVSYNC_PASSWORD", "right")];
    assert_eq!(place.function(&server.url(), &right).invoke(&event, LONG_ENOUGH), response(DONE));
    assert_eq!(server.documents("person").len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_bad_record_is_one_letter_with_its_payload_and_the_batch_is_done() {
    let (server, place) = (Scripted::start().await, Place::new());
    let mut function = place.function(&server.url(), &[]);
    let mut records = people();
    records[1].data = b"\xFFno record of anything".to_vec();
    assert_eq!(function.invoke(&event("shardId-000000000003", &records), LONG_ENOUGH), response(DONE));
    let letters = place.letters();
    assert_eq!((letters.len(), &letters[0].payload[..]), (1, &records[1].data[..]));
    assert_eq!(
        (letters[0].position.to_string(), letters[0].origin.shard.as_str()),
        ("sequence number 10".to_owned(), "shardId-000000000003")
    );
    assert_eq!(server.documents("person").into_keys().collect::<Vec<_>>(), ["a", "d"]);
    // One that the index refuses, and one that the event itself has damaged.
    server.script([Step::reject(1, 400, "mapper_parsing_exception", "failed to parse")]);
    let refused = event("shardId-000000000003", &[record(20, &["e"]), record(21, &["f"]), record(22, &["g"])]);
    assert_eq!(function.invoke(&refused, LONG_ENOUGH), response(DONE));
    let damaged = event("shardId-000000000003", &[record(30, &["h"]), record(31, &["i"])]).replacen(r#""data":""#, r#""data":"!"#, 1);
    assert_eq!(function.invoke(&damaged, LONG_ENOUGH), response(DONE));
    let letters: Vec<_> = place.letters().into_iter().map(|letter| (letter.position.to_string(), letter.error.kind)).collect();
    let expected = [("10", "undecodable"), ("21", "mapper_parsing_exception"), ("30", "undecodable")];
    assert_eq!(letters, expected.map(|(number, kind)| (format!("sequence number {number}"), kind.to_owned())));
    assert_eq!(server.documents("person").into_keys().collect::<Vec<_>>(), ["a", "d", "e", "g", "i"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tables_of_one_index_are_refused_when_they_come_with_different_events_too() {
    let (server, place) = (Scripted::start().await, Place::new());
    let mut function = place.function(&server.url(), &[]);
    let of = |number: u64, table: &str| {
        let data = binary(&[revision(table, "a", number, &put(table))]).to_vec();
        event("shardId-000000000003", &[Kept { number: number.to_string(), data }])
    };
    assert_eq!(function.invoke(&of(1, "HTTPLog"), LONG_ENOUGH), response(DONE));
    let Answer::Error(Failure { kind, message, .. }) = function.invoke(&of(2, "http_log"), LONG_ENOUGH) else { panic!("they are mixed") };
    assert!(
        kind == "Revsync.Configuration" && message.contains(r#""HTTPLog" and "http_log" both come to the index "http_log""#),
        "{message}"
    );
    assert_eq!(function.invoke(&of(3, "HTTPLog"), LONG_ENOUGH), response(DONE));
    assert_eq!(server.document("http_log", "a").map(|(version, _)| version), Some(3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_is_all_stale_is_done() {
    let (server, place) = (Scripted::start().await, Place::new());
    let mut function = place.function(&server.url(), &[]);
    let event = event("shardId-000000000003", &people());
    assert_eq!([(); 3].map(|()| function.invoke(&event, LONG_ENOUGH)), [response(DONE), response(DONE), response(DONE)]);
    assert_eq!((server.documents("person").len(), place.file().exists()), (4, false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_another_source_is_an_error_that_names_it_and_changes_nothing() {
    let (server, place) = (Scripted::start().await, Place::new());
    let mut function = place.function(&server.url(), &[]);
    for (event, found) in [
        (r#"{"Records":[{"messageId":"1","body":"a secret","eventSource":"aws:sqs"}]}"#, "one of aws:sqs"),
        (r#"{"eventSource":"aws:kafka","records":{"orders-0":[{"value":"a secret"}]}}"#, "no topic, partition and offset in record 0"),
        (r#"{"Records":[{"eventSource":"aws:s3","s3":{"object":{"key":"a secret"}}}]}"#, "one of aws:s3"),
        ("{}", "one without Records"),
    ] {
        let Answer::Error(Failure { kind, message, body }) = function.invoke(event, LONG_ENOUGH) else {
            panic!("expected an error: {event}")
        };
        let message_of = format!(
            "expected an event of a Kinesis stream (eventSource aws:kinesis) or of topics of Kafka (aws:kafka, SelfManagedKafka), found {found}; \
             nothing was done; invoke this function by an event source mapping of a Kinesis data stream or of Kafka topics, and by nothing \
             else"
        );
        assert_eq!((kind.as_str(), message), ("Revsync.Event", message_of));
        assert!(!body.contains("secret"), "{body}");
    }
    assert!(!function.errors().contains("secret") && !function.output().contains("secret"));
    assert!(server.bulks().is_empty() && !place.file().exists());
    assert_eq!(function.invoke(&event("shardId-000000000003", &people()), LONG_ENOUGH), response(DONE), "the process goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_does_not_keep_the_function_past_its_deadline() {
    let (server, place) = (Scripted::start().await, Place::new());
    let mut function = place.function(&server.url(), &[("REVSYNC_GIVE_UP_AFTER", "60s")]);
    server.script([Step::without_writing(Fate::Hang)]);
    let event = event("shardId-000000000003", &people());
    assert_eq!(function.invoke(&event, Duration::from_secs(3)), response(&everything_from("9")));
    assert_eq!(function.invoke_late(&event, Duration::from_secs(5)), response(&everything_from("9")), "the deadline is past");
    assert_eq!(function.invoke(&event, LONG_ENOUGH), response(DONE));
    assert!(!place.file().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_records_before_a_server_that_hangs_are_answered_in_time_with_the_first_that_it_did_not_take() {
    let (server, place) = (Scripted::start().await, Place::new());
    let mut function = place.function(&server.url(), &[("REVSYNC_GIVE_UP_AFTER", "60s")]);
    server.script([Step::proper()].into_iter().chain(vec![Step::without_writing(Fate::Hang); 20]));
    let answer = function.invoke(&event("shardId-000000000003", &MANY), Duration::from_secs(12));
    let taken = server.documents("person");
    let first = MANY.iter().zip(0..).find(|(_, n): &(_, usize)| !taken.contains_key(&n.to_string())).unwrap().0;
    assert_eq!(answer, response(&everything_from(&first.number)));
    assert!(!taken.is_empty() && !place.file().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_shards_are_delivered_by_two_processes_at_once() {
    let (server, place) = (Scripted::start().await, Place::new());
    let registrations = fixture("vehicle-registration/lambda-event.json");
    let events = [event("shardId-000000000001", &people()), event("shardId-000000000002", &[record(5, &["a", "x"])]), registrations];
    let url = server.url();
    let running = events.map(|event| {
        let mut function = place.function(&url, &[]);
        thread::spawn(move || function.invoke(&event, LONG_ENOUGH))
    });
    for function in running {
        assert_eq!(function.join().unwrap(), response(DONE));
    }
    assert_eq!(server.document("person", "a").map(|(version, _)| version), Some(9), "the newest of both shards");
    assert!(["a", "b", "c", "d", "x"].iter().all(|id| server.documents("person").contains_key(*id)));
    assert!(!server.documents("vehicle_registration").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redelivered_by_the_mapping_everything_arrives_through_faults_that_heal() {
    let (server, place) = (Scripted::start().await, Place::new());
    let mut dice = Dice::new(5);
    let records: Vec<Kept> = (95..125)
        .map(|number| {
            let ids: Vec<String> = (0..dice.between(1, 4)).map(|_| format!("d{}", dice.below(12))).collect();
            let mut ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            ids.sort_unstable();
            ids.dedup();
            record(number, &ids)
        })
        .collect();
    let mut model = Model::new("shardId-000000000003", records.clone(), 8, true);
    let mut function = place.function(&server.url(), &[("REVSYNC_REQUEST_OPERATIONS", "3")]);
    let mut failed = 0;
    while let Some(event) = model.next() {
        if model.invocations() < 25 && dice.percent(60) {
            server.script(match dice.below(5) {
                0 => vec![Step::status(503, "busy"); 12],
                1 => vec![Step::proper(), Step::without_writing(Fate::Hang)],
                2 => vec![Step::after_writing(Fate::Drop), Step::status(429, "busy")],
                3 => vec![Step::status(403, r#"{"error":{"type":"security_exception","reason":"no permissions"},"status":403}"#)],
                _ => vec![Step::reject(0, 429, "rejected_execution_exception", "busy"), Step::after_writing(Fate::Cut(10))],
            });
        }
        let answer = function.invoke(&event, Duration::from_secs(4));
        server.clear();
        let invocation = match answer {
            Answer::Response(body) => Invocation::Answered(body),
            Answer::Error(_) => Invocation::Failed,
            other => panic!("expected an answer, found {other:?}"),
        };
        let is_done = invocation == Invocation::Answered(DONE.to_owned());
        failed += usize::from(!is_done);
        for place in model.hear(&invocation) {
            let version = records[place].number.parse().unwrap();
            let ids = server.documents("person");
            assert!(ids.values().any(|(stored, _)| *stored >= version), "{version} was acknowledged and is nowhere: {ids:?}");
        }
        // Lambda starts a new process whenever it likes.
        if dice.percent(10) {
            function = place.function(&server.url(), &[("REVSYNC_REQUEST_OPERATIONS", "3")]);
        }
        assert!(model.invocations() < 100, "no end");
    }
    assert!(failed > 2, "hardly anything failed: {failed}");
    let folder = tempfile::tempdir().unwrap();
    let bulk = format!("bulk:{}", folder.path().join("all.ndjson").display());
    assert_eq!(place.function(&bulk, &[]).invoke(&event("shardId-000000000003", &records), LONG_ENOUGH), response(DONE));
    let mut fold = std::collections::BTreeMap::<String, u64>::new();
    for line in std::fs::read_to_string(folder.path().join("all.ndjson")).unwrap().lines().filter(|line| line.starts_with(r#"{"index""#)) {
        let action: serde_json::Value = serde_json::from_str(line).unwrap();
        let (id, version) = (action["index"]["_id"].as_str().unwrap().to_owned(), action["index"]["version"].as_u64().unwrap());
        let highest = fold.entry(id).or_default();
        *highest = version.max(*highest);
    }
    let indexed = server.documents("person").into_iter().map(|(id, (version, _))| (id, version)).collect();
    assert_eq!(fold, indexed);
    assert!(!place.file().exists());
}

/// What the role of the template may send to a domain: these, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_sends_no_request_that_the_role_may_not_send() {
    let (server, place) = (Scripted::start().await, Place::new());
    server.add_index("person-000001", Some("person"));
    let rules = place.0.path().join("rules.toml");
    std::fs::write(&rules, include_str!("../../infra/revsync.toml")).unwrap();
    let more = [("REVSYNC_NO_CREATE_INDEX", "true"), ("REVSYNC_CONFIG", rules.to_str().unwrap())];
    let mut function = place.function(&server.url(), &more);
    let mut kept = people();
    kept.push(Kept { number: "12".to_owned(), data: binary(&[revision("Person", "a", 12, &Does::Delete)]).to_vec() });
    assert_eq!(function.invoke(&event("shardId-000000000003", &kept), LONG_ENOUGH), response(DONE));
    assert_eq!(server.documents("person").len(), 4, "a tombstone among them");
    let sent: BTreeSet<String> = server.requests().iter().map(|r| format!("{} {}", r.method, r.path)).collect();
    let may = ["GET /", "GET /person", "GET /person-000001", "POST /_bulk", "PUT /person/_mapping", "PUT /person-000001/_mapping"];
    assert!(sent.contains("POST /_bulk") && sent.iter().all(|request| may.contains(&request.as_str())), "{sent:?}");
}
