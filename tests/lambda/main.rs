//! The Lambda handler against recorded Kinesis events: what it hands to delivery, and the bytes that it answers.

#[path = "../support/aws.rs"]
mod aws;
mod delivery;
mod function;
#[path = "../support/runtime_api.rs"]
mod runtime_api;

use std::path::Path;

use aws_lambda_events::kinesis::KinesisEvent;
use revsync::record::{Position, Record, SequenceNumber};
use revsync_lambda::{first_unsettled, records, reply};

const STREAM: &str = "arn:aws:kinesis:eu-west-1:000000000000:stream/example";
const LONG: &str = "49545115243490985018280067714973144582180062593244200961";

fn event(case: &str) -> KinesisEvent {
    read(&format!("kinesis_event/{case}.json"))
}

fn read(fixture: &str) -> KinesisEvent {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(fixture);
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

fn json(first: Option<&str>) -> String {
    serde_json::to_string(&reply(first.map(number))).expect("JSON")
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

#[test]
fn the_reply_is_these_bytes_and_no_others() {
    assert_eq!(json(None), r#"{"batchItemFailures":[]}"#);
    assert_eq!(json(Some("49590011")), r#"{"batchItemFailures":[{"itemIdentifier":"49590011"}]}"#);
    assert_eq!(json(Some(LONG)), format!(r#"{{"batchItemFailures":[{{"itemIdentifier":"{LONG}"}}]}}"#));
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

#[test]
fn numbers_that_grow_by_a_digit_keep_their_order() {
    let records = records(event("growing_numbers"));
    assert_eq!(numbers(&records), ["999", "1000", LONG]);
    for first in 0..records.len() {
        let open = records[first..].iter().rev().map(|record| &record.position);
        assert_eq!(first_unsettled(open), Some(number(numbers(&records)[first])));
    }
}

#[test]
fn ten_thousand_records_come_in_order() {
    let mut many = event("plain");
    let one = many.records[0].clone();
    many.records = (9_000..19_000)
        .map(|n| {
            let mut record = one.clone();
            record.kinesis.sequence_number = n.to_string();
            record
        })
        .collect();
    let records = records(many);
    assert_eq!(records.len(), 10_000);
    assert!(records.is_sorted_by_key(|record| record.position.clone()));
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
