//! The Lambda handler against events of Kinesis and Kafka: what it hands to delivery, and the bytes that it answers.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "a test may stop at the first surprise, and shares its support")]

#[path = "../support/aws.rs"]
mod aws;
mod configuration;
mod delivery;
#[path = "../support/dice.rs"]
mod dice;
mod function;
mod kafka;
#[path = "../support/line.rs"]
mod line;
#[path = "../support/mapping_model.rs"]
mod mapping_model;
mod observability;
mod outages;
mod positions;
#[path = "../support/qldb_stream.rs"]
mod qldb_stream;
mod redelivery;
#[path = "../support/runtime_api.rs"]
mod runtime_api;
#[path = "../support/scripted_opensearch.rs"]
mod scripted_opensearch;
#[path = "../support/scripted_sink.rs"]
mod scripted_sink;

use std::path::Path;
use std::time::Duration;

use revsync::error::{Error, Kind};
use revsync::record::{Position, Record, SequenceNumber};
use revsync::run::deliver::Deliver;
use revsync_lambda::{Batch, Reply, first_unsettled, handle, reply};

const STREAM: &str = "arn:aws:kinesis:eu-west-1:000000000000:stream/example";
const LONG: &str = "49545115243490985018280067714973144582180062593244200961";

fn records(case: &str) -> Vec<Record> {
    Batch::read(&fixture(&format!("kinesis_event/{case}.json"))).expect("a Kinesis event").records
}

/// What the function answers to a batch that goes through this line.
async fn answered(batch: Batch, mut line: Deliver, left: Duration) -> Result<Reply, Error> {
    handle(batch, &mut line, left).await.map(|answer| reply(&answer.first))
}

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn number(text: &str) -> SequenceNumber {
    SequenceNumber(text.to_owned())
}

fn at(text: &str) -> Position {
    Position::Sequence { number: number(text), sub: None }
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
    serde_json::to_string(&reply(&first.map(at).into_iter().collect::<Vec<_>>())).expect("JSON")
}

#[test]
fn records_keep_their_order_their_bytes_and_where_they_came_from() {
    let records = records("plain");
    assert_eq!(numbers(&records), ["49590010", "49590011", "49590012"]);
    assert_eq!(records.iter().map(|record| record.data.as_ref()).collect::<Vec<_>>(), [&b"first"[..], b"second", b""]);
    for record in &records {
        assert_eq!((record.origin.stream.as_str(), record.origin.shard.as_str()), (STREAM, "shardId-000000000003"));
        assert!(record.damage.is_none());
    }
}

#[test]
fn an_aggregate_is_handed_on_whole_under_its_outer_number() {
    let records = records("aggregate");
    assert_eq!(numbers(&records), ["49590020", "49590021"]);
    assert_eq!(records[0].data[..4], [0xF3, 0x89, 0x9A, 0xC2]);
    assert_eq!(records[1].data.as_ref(), b"alone");
}

#[test]
fn an_event_without_ids_is_still_read() {
    let event = r#"{"Records":[{"kinesis":{"data":"YQ==","sequenceNumber":"7","approximateArrivalTimestamp":1.25}}]}"#;
    let Batch { records, oldest } = Batch::read(event).expect("an event");
    assert_eq!(oldest, Some(1_250));
    assert_eq!(numbers(&records), ["7"]);
    assert_eq!((records[0].origin.stream.as_str(), records[0].origin.shard.as_str()), ("", ""));
}

#[test]
fn a_record_whose_data_is_good_is_never_damaged_by_what_stands_beside_it() {
    for (beside, arrived) in [
        // Of an emulator, with microseconds.
        (r#""approximateArrivalTimestamp":1700000000.1234567"#, Some(1_700_000_000_123)),
        (r#""approximateArrivalTimestamp":"2023-11-14T22:13:20Z""#, None),
        (r#""approximateArrivalTimestamp":null"#, None),
        (r#""encryptionType":"OTHER","partitionKey":null"#, None),
    ] {
        let event = format!(
            r#"{{"Records":[{{"eventID":null,"eventSourceARN":null,"kinesis":{{"data":"YQ==","sequenceNumber":"7",{beside}}}}}]}}"#
        );
        let Batch { records, oldest } = Batch::read(&event).unwrap_or_else(|error| panic!("{beside}: {error}"));
        assert_eq!((records[0].data.as_ref(), &records[0].damage, oldest), (&b"a"[..], &None, arrived), "{beside}");
    }
}

#[test]
fn the_reply_is_these_bytes_and_no_others() {
    assert_eq!(json(None), r#"{"batchItemFailures":[]}"#);
    assert_eq!(json(Some("49590011")), r#"{"batchItemFailures":[{"itemIdentifier":"49590011"}]}"#);
    assert_eq!(json(Some(LONG)), format!(r#"{{"batchItemFailures":[{{"itemIdentifier":"{LONG}"}}]}}"#));
}

#[test]
fn sequence_numbers_are_compared_by_length_and_then_by_bytes() {
    let part = |text: &str, sub| Position::Sequence { number: number(text), sub };
    for (positions, first) in [
        (vec![at("1000"), at("999")], Some("999")),
        (vec![part("99", Some(3)), part("99", Some(0))], Some("99")),
        (vec![at(LONG), at("9"), at("10")], Some("9")),
        (vec![at("21"), at("12")], Some("12")),
        (vec![], None),
        (vec![Position::Byte { offset: 1 }], None),
    ] {
        assert_eq!(first_unsettled(&positions), first.map(at).into_iter().collect::<Vec<_>>(), "{positions:?}");
    }
}

#[test]
fn numbers_that_grow_by_a_digit_keep_their_order() {
    let records = records("growing_numbers");
    assert_eq!(numbers(&records), ["999", "1000", LONG]);
    for first in 0..records.len() {
        let open = records[first..].iter().rev().map(|record| &record.position);
        assert_eq!(first_unsettled(open), [at(numbers(&records)[first])]);
    }
}

#[test]
fn records_that_come_out_of_order_are_put_in_order() {
    let record =
        |number: &str| format!(r#"{{"kinesis":{{"data":"YQ==","sequenceNumber":"{number}","approximateArrivalTimestamp":{number}}}}}"#);
    let event = format!(r#"{{"Records":[{},{},{}]}}"#, record("100"), record("99"), record("20"));
    let Batch { records, oldest } = Batch::read(&event).expect("an event");
    assert_eq!((numbers(&records), oldest), (vec!["20", "99", "100"], Some(20_000)));
}

#[test]
fn an_event_of_another_source_is_refused_by_its_name() {
    for (event, found) in [
        (r#"{"Records":[{"messageId":"1","body":"a secret","eventSource":"aws:sqs"}]}"#, "one of aws:sqs"),
        (r#"{"Records":[{"EventSource":"aws:sns","Sns":{"Message":"a secret"}}]}"#, "one of aws:sns"),
        (r#"{"Records":[{"eventSource":"aws:s3","s3":{"object":{"key":"a secret"}}}]}"#, "one of aws:s3"),
        (r#"{"source":"aws.events","detail":{"a":"a secret"}}"#, "one of aws.events"),
        (r#"{"Records":[{"eventSource":"a secret, long and with spaces"}]}"#, "one of another source"),
        (r#"{"Records":[{"messageId":"1","body":"a secret"}]}"#, r#"no "kinesis" in record 0"#),
        (r#"{"Records":[{"kinesis":{"data":"YQ=="}}]}"#, "no sequence number in record 0"),
        (r#"{"Records":[{"kinesis":{"data":"YQ==","sequenceNumber":""}}]}"#, "no sequence number in record 0"),
        (r#"{"Records":["a secret"]}"#, "something else in place of record 0"),
        (r#"{"Records":"a secret"}"#, "something else"),
        (r#"{"key1":"a secret"}"#, "one without Records"),
        ("[\"a secret\"]", "something else"),
        ("{}", "one without Records"),
    ] {
        let error = Batch::read(event).expect_err(event);
        assert_eq!(error.kind, Kind::Source);
        let expected = format!(
            "expected an event of a Kinesis stream (eventSource aws:kinesis) or of topics of Kafka (aws:kafka, SelfManagedKafka), found {found}; \
             nothing was done; invoke"
        );
        assert!(error.to_string().starts_with(&expected) && !error.to_string().contains("secret"), "{event}: {error}");
    }
}

#[test]
fn a_damaged_record_is_told_apart_where_it_has_a_number() {
    let whole = r#"{"kinesis":{"data":"YQ==","sequenceNumber":"8","approximateArrivalTimestamp":1}}"#;
    for (damaged, found) in [
        (r#"{"kinesis":{"data":"not base64!","sequenceNumber":"7","approximateArrivalTimestamp":1}}"#, "something else"),
        (r#"{"kinesis":{"sequenceNumber":"7","approximateArrivalTimestamp":1}}"#, "none"),
        (r#"{"kinesis":{"data":null,"sequenceNumber":"7","approximateArrivalTimestamp":1}}"#, "none"),
    ] {
        let records = Batch::read(&format!(r#"{{"Records":[{damaged},{whole}]}}"#)).expect("an event").records;
        assert_eq!(numbers(&records), ["7", "8"]);
        let fault = records[0].damage.clone().expect("damage");
        let reason = format!("expected a Kinesis record with data in Base64, found {found}; the payload is the record as the event has it");
        assert_eq!((fault.kind.as_str(), fault.reason), ("undecodable", reason));
        assert_eq!(records[0].data, damaged.as_bytes());
        assert!(records[1].damage.is_none());
    }
}
