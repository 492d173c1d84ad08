//! The Lambda handler against recorded Kinesis events: what it hands to delivery, and the bytes that it answers.

use std::collections::BTreeSet;
use std::path::Path;

use aws_lambda_events::kinesis::KinesisEvent;
use revsync::error::{Error, Kind};
use revsync::record::{Position, Record, SequenceNumber};
use revsync_lambda::{first_unsettled, handle, records, reply};

const STREAM: &str = "arn:aws:kinesis:eu-west-1:000000000000:stream/example";
const LONG: &str = "49545115243490985018280067714973144582180062593244200961";

fn event(case: &str) -> KinesisEvent {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/kinesis_event").join(case).with_extension("json");
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).expect("a Kinesis event")
}

fn number(text: &str) -> SequenceNumber {
    SequenceNumber(text.to_owned())
}

fn numbers(records: &[Record]) -> Vec<&str> {
    records
        .iter()
        .map(|record| match &record.position {
            Position::Sequence { number, sub: None } => number.0.as_str(),
            other => panic!("expected a whole Kinesis record, found {other}"),
        })
        .collect()
}

/// The reply's JSON when delivery leaves the records with these numbers unsettled.
async fn answer(case: &str, unsettled: &[&str]) -> String {
    let unsettled: BTreeSet<&str> = unsettled.iter().copied().collect();
    let deliver = |records: Vec<Record>| async move {
        let open = records.iter().map(|record| &record.position).filter(|position| match position {
            Position::Sequence { number, .. } => unsettled.contains(number.0.as_str()),
            _ => false,
        });
        Ok(first_unsettled(open))
    };
    serde_json::to_string(&handle(event(case), deliver).await.expect("a reply")).expect("JSON")
}

#[test]
fn records_keep_their_order_their_bytes_and_where_they_came_from() {
    let records = records(event("plain"));
    assert_eq!(numbers(&records), ["49590010", "49590011", "49590012"]);
    assert_eq!(records.iter().map(|record| record.data.as_ref()).collect::<Vec<_>>(), [&b"first"[..], b"second", b""]);
    for record in &records {
        assert_eq!((record.origin.stream.as_str(), record.origin.shard.as_str()), (STREAM, "shardId-000000000003"));
        assert!(record.damage.is_none());
    }
}

#[test]
fn an_aggregate_is_handed_on_whole_under_its_outer_number() {
    let records = records(event("aggregate"));
    assert_eq!(numbers(&records), ["49590020", "49590021"]);
    assert_eq!(records[0].data[..4], [0xF3, 0x89, 0x9A, 0xC2]);
    assert_eq!(records[1].data.as_ref(), b"alone");
}

#[test]
fn an_event_without_ids_is_still_read() {
    let event: KinesisEvent =
        serde_json::from_str(r#"{"Records":[{"kinesis":{"data":"YQ==","sequenceNumber":"7","approximateArrivalTimestamp":1}}]}"#)
            .expect("an event");
    let records = records(event);
    assert_eq!(numbers(&records), ["7"]);
    assert_eq!((records[0].origin.stream.as_str(), records[0].origin.shard.as_str()), ("", ""));
}

#[tokio::test]
async fn a_batch_that_is_settled_answers_an_empty_list() {
    for case in ["plain", "aggregate", "growing_numbers", "empty"] {
        assert_eq!(answer(case, &[]).await, r#"{"batchItemFailures":[]}"#, "{case}");
    }
}

#[tokio::test]
async fn the_reply_names_the_first_unsettled_record_and_no_other() {
    for (case, unsettled, first) in [
        ("plain", &["49590010"][..], "49590010"),
        ("plain", &["49590011", "49590012"], "49590011"),
        ("plain", &["49590010", "49590011", "49590012"], "49590010"),
        ("aggregate", &["49590020"], "49590020"),
        ("growing_numbers", &["1000", "999"], "999"),
        ("growing_numbers", &[LONG, "1000"], "1000"),
        ("growing_numbers", &[LONG], LONG),
    ] {
        let expected = format!(r#"{{"batchItemFailures":[{{"itemIdentifier":"{first}"}}]}}"#);
        assert_eq!(answer(case, unsettled).await, expected, "{case} {unsettled:?}");
    }
}

#[test]
fn sequence_numbers_are_compared_by_length_and_then_by_bytes() {
    let at = |text: &str, sub| Position::Sequence { number: number(text), sub };
    for (positions, first) in [
        (vec![at("1000", None), at("999", None)], Some("999")),
        (vec![at("99", Some(3)), at("99", Some(0))], Some("99")),
        (vec![at(LONG, None), at("9", None), at("10", None)], Some("9")),
        (vec![at("21", None), at("12", None)], Some("12")),
        (vec![], None),
        (vec![Position::Byte { offset: 1 }], None),
    ] {
        assert_eq!(first_unsettled(&positions), first.map(number), "{positions:?}");
    }
}

#[tokio::test]
async fn a_delivery_that_fails_fails_the_whole_batch() {
    let deliver = |_| async { Err(Error::new(Kind::Sink, "the sink refuses the pipeline")) };
    assert_eq!(handle(event("plain"), deliver).await.map_err(|error| error.kind), Err(Kind::Sink));
}

#[tokio::test]
async fn an_empty_event_asks_nothing_of_delivery() {
    let deliver = |_| async { panic!("nothing to deliver") };
    assert_eq!(handle(event("empty"), deliver).await, Ok(reply(None)));
}

#[tokio::test]
async fn ten_thousand_records_come_back_in_order() {
    let mut many = event("plain");
    let one = many.records[0].clone();
    many.records = (0..10_000)
        .map(|n| {
            let mut record = one.clone();
            record.kinesis.sequence_number = (9_000 + n).to_string();
            record
        })
        .collect();
    let deliver = |records: Vec<Record>| async move {
        assert_eq!(records.len(), 10_000);
        assert!(records.is_sorted_by_key(|record| record.position.clone()));
        Ok(first_unsettled(records[4_321..].iter().map(|record| &record.position)))
    };
    let reply = handle(many, deliver).await.expect("a reply");
    assert_eq!(reply.batch_item_failures.len(), 1);
    assert_eq!(reply.batch_item_failures[0].item_identifier.as_deref(), Some("13321"));
}

#[test]
fn an_event_of_another_source_is_an_error_and_no_silent_success() {
    for text in [
        r#"{"eventSource":"aws:kafka","records":{"orders-0":[]}}"#,
        r#"{"Records":[{"messageId":"1","body":"x"}]}"#,
        r#"{"Records":[{"kinesis":{"data":"not base64!","sequenceNumber":"7","approximateArrivalTimestamp":1}}]}"#,
        "{}",
    ] {
        assert!(serde_json::from_str::<KinesisEvent>(text).is_err(), "{text}");
    }
}
