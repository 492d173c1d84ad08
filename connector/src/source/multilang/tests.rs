use std::io::Cursor;
use std::sync::Arc;

use super::pipe::read_line;
use super::{Action, Answer, Message, Page, Refused};
use crate::record::{Origin, Position, Record, SequenceNumber};

fn page(line: &str) -> Page<'_> {
    match Message::read(line.as_bytes()).unwrap() {
        Message::ProcessRecords(page) => page,
        other => panic!("{other:?}"),
    }
}

fn records(line: &str) -> Vec<Record> {
    page(line).records(&Arc::new(Origin { stream: "s".into(), shard: "0".into() })).collect()
}

fn handed(number: u64, sub: u64) -> String {
    format!(
        r#"{{"data":"eA==","partitionKey":"k","sequenceNumber":"{number}","subSequenceNumber":{sub},"approximateArrivalTimestamp":7,"action":"record"}}"#
    )
}

fn process(records: &[String]) -> String {
    format!(r#"{{"action":"processRecords","records":[{}],"millisBehindLatest":5}}"#, records.join(","))
}

#[test]
fn a_record_that_is_no_aggregate_has_the_position_that_other_sources_give_it() {
    let line = process(&[handed(1, 0), handed(2, 0), handed(2, 1), handed(2, 2), handed(3, 0), handed(4, 3)]);
    let found: Vec<_> = records(&line).into_iter().map(|record| record.position).collect();
    let at = |number: &str, sub| Position::Sequence { number: SequenceNumber(number.into()), sub };
    assert_eq!(found, [at("1", None), at("2", Some(0)), at("2", Some(1)), at("2", Some(2)), at("3", None), at("4", Some(3))]);
}

#[test]
fn a_record_comes_with_its_bytes_and_the_time_of_its_arrival() {
    let [record] = <[Record; 1]>::try_from(records(&process(&[handed(1, 0)]))).unwrap();
    assert_eq!((&record.data[..], record.arrived, record.damage), (&b"x"[..], Some(7), None));
}

#[test]
fn data_that_is_no_base64_is_a_damaged_record_and_no_data_an_empty_one() {
    let line = process(&[handed(1, 0).replace("eA==", "=x"), handed(2, 0).replace("\"eA==\"", "null")]);
    let found = records(&line);
    let reason = found[0].damage.as_ref().map(|fault| fault.reason.as_str());
    assert_eq!(reason, Some("expected the record's data as Base64, found 2 bytes that are none"));
    assert!(found[1].damage.is_none() && found[1].data.is_empty());
}

#[test]
fn members_that_are_not_known_are_passed_over_and_those_that_may_be_missing_may() {
    let line = r#"{"newer":{"a":[1]},"millisBehindLatest":null,"records":[{"sequenceNumber":"1","data":"eA==","newer":2}],"action":"processRecords"}"#;
    let found = records(line);
    assert_eq!((found.len(), found[0].arrived, page(line).behind), (1, None, None));
    assert!(page(&process(&[])).is_empty());
}

#[test]
fn what_became_of_a_checkpoint_is_read_from_the_name_of_the_exception() {
    let read = |error: &str| {
        let line = format!(r#"{{"action":"checkpoint","sequenceNumber":"1","subSequenceNumber":0,"error":{error}}}"#);
        match Message::read(line.as_bytes()).unwrap() {
            Message::Checkpoint(said) => said,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(read("null"), Ok(()));
    assert_eq!(read(r#""ShutdownException""#), Err(Refused::LeaseLost));
    for name in ["ThrottlingException", "KinesisClientLibDependencyException"] {
        assert_eq!(read(&format!("{name:?}")), Err(Refused::Later(name.to_owned())));
    }
    assert_eq!(read(r#""InvalidStateException""#), Err(Refused::Never("InvalidStateException".to_owned())));
}

#[test]
fn an_answer_is_a_line_of_its_own_with_the_members_of_the_protocol_and_no_other() {
    let written = |answer: Answer<'_>| String::from_utf8(answer.bytes().unwrap()).unwrap();
    for (action, name) in [
        (Action::Initialize, "initialize"),
        (Action::ProcessRecords, "processRecords"),
        (Action::LeaseLost, "leaseLost"),
        (Action::ShardEnded, "shardEnded"),
        (Action::ShutdownRequested, "shutdownRequested"),
        (Action::Shutdown, "shutdown"),
    ] {
        let expected = format!("\n{{\"action\":\"status\",\"responseFor\":\"{name}\"}}\n");
        assert_eq!(written(Answer::Status { response_for: action }), expected);
    }
    let checkpoint = |number: &str, sub| {
        let position = Position::Sequence { number: SequenceNumber(number.into()), sub };
        written(Answer::checkpoint(Some(&position)).unwrap())
    };
    assert_eq!(checkpoint("49", Some(2)), "\n{\"action\":\"checkpoint\",\"sequenceNumber\":\"49\",\"subSequenceNumber\":2}\n");
    assert_eq!(checkpoint("49", None), "\n{\"action\":\"checkpoint\",\"sequenceNumber\":\"49\",\"subSequenceNumber\":null}\n");
    let all = written(Answer::checkpoint(None).unwrap());
    assert_eq!(all, "\n{\"action\":\"checkpoint\",\"sequenceNumber\":null,\"subSequenceNumber\":null}\n");
    assert_eq!(Answer::checkpoint(Some(&Position::Byte { offset: 1 })), None);
}

#[test]
fn what_is_no_message_is_refused_without_a_word_of_what_it_holds() {
    for line in [
        "hunter2",
        "{\"action\":\"processRecords\",\"records\":[{\"data\":\"hunter2",
        "{\"action\":\"processRecords\",\"records\":\"hunter2\"}",
        "{\"action\":\"initialize\",\"shardId\":[\"hunter2\"]}",
        "{\"action\":\"processRecords\",\"records\":[{\"data\":\"hunter2\"}]}",
        "{\"action\":\"hunter2 hunter2\"}",
        "[\"hunter2\"]",
        "{\"hunter2\":1}",
    ] {
        let error = Message::read(line.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("standard input: expected") && !error.contains("hunter2"), "{error}");
    }
    let error = Message::read(br#"{"action":"shardSplit"}"#).unwrap_err().to_string();
    assert!(error.contains("found \"shardSplit\""), "{error}");
}

#[test]
fn a_line_is_read_as_a_whole_and_not_further_than_it_may_be_long() {
    let mut input = Cursor::new(b"abc\n\nde".to_vec());
    let mut read = |longest| read_line(&mut input, longest);
    assert_eq!(read(3).unwrap().unwrap(), b"abc");
    assert_eq!(read(3).unwrap().unwrap(), b"");
    assert_eq!(read(3).unwrap().unwrap(), b"de");
    assert_eq!(read(3).unwrap(), None);
    assert!(read_line(&mut Cursor::new(b"abcd\n".to_vec()), 3).is_err());
}
