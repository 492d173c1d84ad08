//! Queues and buckets on their worst days: what is not confirmed is not stored, and nothing is settled by it.

use std::collections::HashSet;
use std::time::Duration;

use revsync::error::Kind;
use revsync::run::choice::Choice;
use revsync::run::replay::replay;
use revsync::store::dead_letters::{Config, DeadLetters};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::letters::{config, credentials, letter};
use crate::line::{Bench, deliver};
use crate::qldb_stream::{put, records};
use crate::scripted_aws::{Answer, Request, Scripted};
use crate::scripted_sink::poison;

/// A healthy answer to what is asked of a place before and beside the letters; nothing to anything else.
fn healthy(request: &Request) -> Option<Answer> {
    let ok = |body: &str| Some((200, body.to_owned()));
    match (request.method.as_str(), request.action.as_str()) {
        ("POST", "GetQueueAttributes") => ok(r#"{"Attributes":{"MaximumMessageSize":"262144","MessageRetentionPeriod":"345600"}}"#),
        ("POST", "SendMessageBatch") if entries(request).is_empty() => {
            Some((400, r#"{"__type":"com.amazonaws.sqs#EmptyBatchRequest","message":"none"}"#.to_owned()))
        }
        ("POST", "DeleteMessageBatch" | "ChangeMessageVisibilityBatch") => Some((200, answer_all(request))),
        ("POST", "") => ok("<DeleteResult/>"),
        ("PUT", "") if request.path.contains("probe") => ok(""),
        _ => None,
    }
}

fn entries(request: &Request) -> Vec<Value> {
    request.json()["Entries"].as_array().cloned().unwrap_or_default()
}

fn answer_all(request: &Request) -> String {
    json!({ "Successful": entries(request).iter().map(|entry| json!({ "Id": entry["Id"] })).collect::<Vec<_>>(), "Failed": [] }).to_string()
}

/// The places of a service, with a bucket of it for large letters.
fn places(service: &Scripted) -> [Config; 2] {
    let bucket = service.bucket_place();
    [config(&service.queue_place(), Some(&bucket)), config(&bucket, None)]
}

async fn open(config: &Config) -> DeadLetters {
    DeadLetters::open_with(config, credentials()).await.unwrap()
}

#[tokio::test]
async fn what_a_queue_did_not_take_of_a_batch_is_sent_again_until_it_has_all() {
    let service = Scripted::start(|request, before| {
        healthy(request).unwrap_or_else(|| {
            let tries = before.iter().filter(|request| request.action == "SendMessageBatch" && !entries(request).is_empty()).count();
            // Of the first request every third fails, of the second one is not even named.
            let fails = |at: usize| (tries == 0 && at.is_multiple_of(3)) || (tries == 1 && at == 0);
            let (failed, good): (Vec<_>, Vec<_>) = entries(request).into_iter().enumerate().partition(|(at, _)| fails(*at));
            let failed = failed.iter().filter(|_| tries == 0);
            let failed: Vec<Value> =
                failed.map(|(_, entry)| json!({ "Id": entry["Id"], "Code": "InternalError", "SenderFault": false })).collect();
            let good: Vec<Value> = good.iter().map(|(_, entry)| json!({ "Id": entry["Id"] })).collect();
            (200, json!({ "Successful": good, "Failed": failed }).to_string())
        })
    })
    .await;
    let store = open(&places(&service)[0]).await;
    let letters: Vec<_> = (0..10).map(|number| letter(number, "x")).collect();
    store.append(&letters).await.unwrap();
    let sent = service.requests().into_iter().filter(|request| request.action == "SendMessageBatch").map(|request| entries(&request));
    let sent: Vec<Vec<Value>> = sent.filter(|entries| !entries.is_empty()).collect();
    assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [10, 4, 1]);
    let bodies: HashSet<&str> = sent[0].iter().filter_map(|entry| entry["MessageBody"].as_str()).collect();
    assert_eq!(bodies.len(), 10);
    assert!(sent[1..].iter().flatten().all(|entry| bodies.contains(entry["MessageBody"].as_str().unwrap())));
}

#[tokio::test]
async fn a_queue_that_goes_on_refusing_one_letter_fails_the_batch() {
    let service = Scripted::start(|request, _| {
        healthy(request).unwrap_or_else(|| {
            let failed = json!([{ "Id": "0", "Code": "InternalError", "Message": "try later", "SenderFault": false }]);
            let good: Vec<Value> = entries(request).iter().skip(1).map(|entry| json!({ "Id": entry["Id"] })).collect();
            (200, json!({ "Successful": good, "Failed": failed }).to_string())
        })
    })
    .await;
    let store = open(&places(&service)[0]).await;
    let error = store.append(&[letter(1, "x"), letter(2, "x")]).await.unwrap_err();
    assert!(error.kind == Kind::DeadLetters && error.what.contains("InternalError: try later"), "{error}");
}

#[tokio::test]
async fn letters_that_cannot_be_stored_leave_their_batch_unsettled_and_end_the_run() {
    let service =
        Scripted::start(|request, _| healthy(request).unwrap_or((403, r#"{"__type":"com.amazonaws.sqs#KmsAccessDenied"}"#.to_owned())))
            .await;
    for config in places(&service) {
        let bench = Bench::storing(open(&config).await);
        bench.sink.rule(|rules| rules.refuses = |operation| (operation.target().id == "b").then(poison));
        let mut line = bench.line();
        let records = records([("Person", "a", 0, put("x")), ("Person", "b", 0, put("x")), ("Person", "c", 0, put("x"))]);
        let error = deliver(&mut line, &records).await.unwrap_err();
        assert!(error.kind == Kind::DeadLetters && error.what.contains("cannot be written"), "{error}");
        assert_eq!((line.counts().indexed, line.counts().dead_letters, line.counts().pending), (2, 0, 1), "{}", config.place);
        assert_eq!(line.first_unsettled(), Some(records[1].position.clone()));
    }
}

#[tokio::test]
async fn an_outage_that_passes_is_waited_for() {
    let service = Scripted::start(|request, before| {
        let tried =
            before.iter().any(|earlier| (&earlier.method, &earlier.path, &earlier.body) == (&request.method, &request.path, &request.body));
        match healthy(request) {
            Some(answer) => answer,
            None if !tried => (503, String::new()),
            None if request.action.is_empty() => (200, String::new()),
            None => (200, answer_all(request)),
        }
    })
    .await;
    for config in places(&service) {
        open(&config).await.append(&[letter(1, "x")]).await.unwrap();
    }
}

#[tokio::test]
async fn a_role_that_may_not_store_letters_is_found_at_the_start_with_the_right_that_it_lacks() {
    let denied = |request: &Request| {
        (
            403,
            if request.action.is_empty() { "<Error><Code>AccessDenied</Code></Error>" } else { r#"{"__type":"AccessDeniedException"}"# }
                .to_owned(),
        )
    };
    let service = Scripted::start(move |request, _| match (request.method.as_str(), request.action.as_str()) {
        ("POST", "GetQueueAttributes") => healthy(request).unwrap(),
        _ => denied(request),
    })
    .await;
    for (config, right) in places(&service).into_iter().zip(["sqs:SendMessage", "s3:PutObject"]) {
        let error = DeadLetters::open_with(&config, credentials()).await.unwrap_err();
        assert!(error.what.contains("AccessDenied") && error.help.as_deref().unwrap_or_default().contains(right), "{error:?}");
    }
}

#[tokio::test]
async fn a_letter_that_is_worked_on_for_long_stays_held_and_is_let_go_at_the_end() {
    let one = serde_json::to_string(&letter(1, "x")).unwrap();
    let service = Scripted::start(move |request, before| match request.action.as_str() {
        "ReceiveMessage" if !before.iter().any(|request| request.action == "ReceiveMessage") => {
            (200, json!({ "Messages": [{ "MessageId": "1", "ReceiptHandle": "r1", "Body": one }] }).to_string())
        }
        "ReceiveMessage" => (200, "{}".to_owned()),
        _ => healthy(request).unwrap(),
    })
    .await;
    let holds = || {
        let requests = service.requests().into_iter().filter(|request| request.action == "ChangeMessageVisibilityBatch");
        requests.flat_map(|request| entries(&request)).map(|entry| entry["VisibilityTimeout"].clone()).collect::<Vec<_>>()
    };
    let mut walk = open(&places(&service)[0]).await.walk().await.unwrap();
    assert_eq!(walk.next(10).await.unwrap().unwrap().len(), 1);
    assert_eq!(holds(), [] as [Value; 0]);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(41)).await;
    tokio::time::resume();
    while holds().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(holds(), [120]);
    walk.end().await.unwrap();
    assert_eq!(holds(), [120, 0]);
}

#[tokio::test]
async fn letters_that_cannot_be_read_to_the_end_are_replayed_as_far_as_they_can_be() {
    let one = serde_json::to_string(&crate::letters::letter(1, crate::qldb_stream::control())).unwrap();
    let service = Scripted::start(move |request, before| {
        let received = before.iter().filter(|request| request.action == "ReceiveMessage").count();
        match (request.action.as_str(), received) {
            ("ReceiveMessage", 0) => {
                let portion = json!({ "MessageId": "1", "ReceiptHandle": "r1", "Body": one });
                (200, json!({ "Messages": [portion] }).to_string())
            }
            ("ReceiveMessage", _) => (400, r#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist"}"#.to_owned()),
            _ => healthy(request).unwrap(),
        }
    })
    .await;
    let bench = Bench::storing(open(&places(&service)[0]).await);
    let mut line = bench.line();
    let (_never, stop) = watch::channel(false);
    let error = replay(&bench.store, &Choice::default(), None, &mut line, stop, |_| ()).await.unwrap_err();
    assert!(error.what.contains("cannot be read: QueueDoesNotExist"), "{error}");
    assert_eq!(line.counts().received, 1);
    let deleted = service.requests().into_iter().filter(|request| request.action == "DeleteMessageBatch").count();
    assert_eq!(deleted, 1);
}
