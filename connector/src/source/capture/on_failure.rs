//! What Lambda writes to an on-failure destination of a batch that it gave up: which records they were and, where the destination is S3, the
//! whole event, as a JSON string (AWS Lambda developer guide, "Retain discarded batch records for a Kinesis Data Streams event source").
//!
//! Their positions are those of their data in the file, as an event's are that stands there itself. Frames nothing around it.

use std::borrow::Cow;
use std::collections::VecDeque;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::json_record::{self, Inside};
use super::{Broken, Framed};

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(rename = "KinesisBatchInfo")]
    batch: Batch,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Batch {
    shard_id: String,
    start_sequence_number: String,
    end_sequence_number: String,
    stream_arn: String,
}

impl Default for Batch {
    fn default() -> Self {
        let [shard_id, start_sequence_number, end_sequence_number, stream_arn] = [(); 4].map(|()| "(not named)".to_owned());
        Self { shard_id, start_sequence_number, end_sequence_number, stream_arn }
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "Records")]
    records: Vec<&'a RawValue>,
}

/// The records of a document, which begins at `offset`; nothing where the object is no such document.
///
/// # Errors
/// It holds no records, because the destination gets none, or something else in their place.
pub(super) fn records(json: &[u8], offset: u64) -> Option<Result<VecDeque<Framed>, Broken>> {
    // Most objects are records, and are not to be read twice.
    memchr::memmem::find(json, b"\"KinesisBatchInfo\"")?;
    let Document { batch, payload } = serde_json::from_slice(json).ok()?;
    let Some(raw) = payload.map(RawValue::get).filter(|payload| *payload != "null") else {
        return Some(Err(batch.without_records(offset)));
    };
    let offset = offset + distance(json, raw.as_bytes()) as u64;
    // As a string, what is inside its quotes is the event with escapes.
    let inside = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let text = if inside.is_some() { serde_json::from_str::<Text<'_>>(raw).map(|text| text.0) } else { Ok(raw.into()) };
    let framed = text.ok().and_then(|text| {
        let Event { records } = serde_json::from_str(&text).ok()?;
        let mut place = Place { escaped: inside.map(str::as_bytes), at: 0, passed: 0 };
        let offset = offset + u64::from(inside.is_some());
        let framed = |record: &RawValue| {
            let begin = distance(text.as_bytes(), record.get().as_bytes());
            match json_record::inside(record.get().as_bytes()) {
                Ok(Inside { data, at, arrived }) => Framed { arrived, ..Framed::new(offset + place.of(begin + at) as u64, data) },
                Err(expected) => {
                    let offset = offset + place.of(begin) as u64;
                    Framed::undecodable(offset, Bytes::copy_from_slice(record.get().as_bytes()), format!("{expected} at byte {offset}"))
                }
            }
        };
        Some(records.into_iter().map(framed).collect())
    });
    let broken = || Broken::at(offset, "expected the event of the batch in the payload, found something else");
    Some(framed.ok_or_else(broken))
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Where something borrowed from `whole` begins in it.
fn distance(whole: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize)
}

impl Batch {
    fn without_records(&self, offset: u64) -> Broken {
        let Self { shard_id, start_sequence_number: start, end_sequence_number: end, stream_arn } = self;
        let what =
            "a batch that Lambda gave up, and none of its records, which only an S3 destination gets (expected a payload, found none)";
        let help = format!(
            "read them again from {shard_id} of {stream_arn}, from sequence number {start} to {end}, both included, before the stream's \
             retention ends: aws kinesis get-shard-iterator --shard-iterator-type AT_SEQUENCE_NUMBER, then get-records, whose saved answers \
             can be read"
        );
        Broken { help: Some(help), ..Broken::at(offset, what) }
    }
}

/// A place in an event, and where it is in the text that the event stands in.
struct Place<'a> {
    /// The event with escapes; none where it has none.
    escaped: Option<&'a [u8]>,
    at: usize,
    passed: usize,
}

impl Place<'_> {
    /// Where a place of the event is, which lies behind all that were asked for before.
    fn of(&mut self, wanted: usize) -> usize {
        let Some(text) = self.escaped else { return wanted };
        while self.passed < wanted {
            let (long, stands_for) = match text[self.at..] {
                [b'\\', b'u', a, b, c, d, ..] => {
                    let hex = std::str::from_utf8(&[a, b, c, d]).ok().and_then(|hex| u32::from_str_radix(hex, 16).ok());
                    match hex.unwrap_or_default() {
                        0..0x80 => (6, 1),
                        0x80..0x800 => (6, 2),
                        // Two of them are one character.
                        0xD800..0xE000 => (12, 4),
                        _ => (6, 3),
                    }
                }
                [b'\\', ..] => (2, 1),
                _ => (1, 1),
            };
            self.at += long;
            self.passed += stands_for;
        }
        self.at
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::super::Capture;
    use super::*;
    use crate::error::Error;
    use crate::record::{Bound, Position, Record};

    fn event() -> Value {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/vehicle-registration/lambda-event.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    /// As Lambda writes it, with this payload.
    fn document(payload: &Value) -> String {
        let info = json!({"shardId": "shardId-000000000003", "startSequenceNumber": "4959001", "endSequenceNumber": "4959100",
            "approximateArrivalOfFirstRecord": "2026-01-01T00:00:00Z", "approximateArrivalOfLastRecord": "2026-01-01T00:00:10Z",
            "batchSize": 100, "streamArn": "arn:aws:kinesis:eu-west-1:000000000000:stream/example"});
        let head = r#"{"requestContext":{"requestId":"0f0f","condition":"RetryAttemptsExhausted","approximateInvokeCount":4},"responseContext":{"statusCode":200,"functionError":"Unhandled"},"version":"1.0","timestamp":"2026-01-01T00:00:00.000Z","KinesisBatchInfo":"#;
        let payload = if payload.is_null() { String::new() } else { format!(",\"payload\":{payload}") };
        format!("{head}{info}{payload}}}")
    }

    fn read(text: &str) -> (Vec<Record>, Option<Error>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("capture");
        std::fs::write(&path, text).unwrap();
        let mut capture = Capture::open(path.to_str().unwrap(), Bound::EndsAtStart).unwrap();
        let mut records = Vec::new();
        loop {
            match capture.read(1 << 20) {
                Ok(Some(page)) => records.extend(page.records),
                Ok(None) => return (records, None),
                Err(error) => return (records, Some(error)),
            }
        }
    }

    fn data(records: &[Record]) -> Vec<Bytes> {
        records.iter().map(|record| record.data.clone()).collect()
    }

    #[test]
    fn the_records_of_a_batch_that_lambda_gave_up_are_those_of_its_event() {
        let event = event();
        let (expected, _) = read(&event.to_string());
        assert!(expected.len() > 3);
        for payload in [Value::String(event.to_string()), Value::String(format!("{event:#}")), event] {
            let text = document(&payload);
            // Several, one after another, as objects of a bucket may be put together.
            let (records, error) = read(&format!("{text}\n{text}\n"));
            assert_eq!((data(&records), error), ([data(&expected), data(&expected)].concat(), None));
            assert!(records.is_sorted_by(|a, b| a.position < b.position));
            for record in &records[..expected.len()] {
                let Position::Byte { offset } = record.position else { panic!("expected an offset, found {}", record.position) };
                let begin = text[offset as usize..].trim_start_matches(['\\', '"']);
                assert!(begin.starts_with("4AEA6") || begin.starts_with("84ma"), "{}", &begin[..20]);
            }
        }
    }

    #[test]
    fn positions_are_right_behind_characters_of_every_kind() {
        let event = r#"{"a":"\u00fc\ud83d\ude97 ü🚗\n","Records":[{"Data":"4AEA6g=="}]}"#;
        let escaped = Value::String(event.to_owned()).to_string().replace('ü', "\\u00fc").replace('🚗', "\\ud83d\\ude97");
        let text = format!(r#"{{"payload":{escaped},"KinesisBatchInfo":{{}}}}"#);
        let (records, error) = read(&text);
        let [Record { position: Position::Byte { offset }, .. }] = &records[..] else { panic!("{records:?} {error:?}") };
        assert!(text[*offset as usize..].starts_with(r#"\"4AEA6g"#), "{}", &text[*offset as usize..]);
    }

    #[test]
    fn a_record_that_is_damaged_costs_only_itself() {
        let mut event = event();
        event["Records"][1]["kinesis"]["data"] = "!".into();
        let whole = event["Records"].as_array().unwrap().len();
        let (records, error) = read(&document(&Value::String(event.to_string())));
        let damaged: Vec<_> = (0..records.len()).filter(|at| records[*at].damage.is_some()).collect();
        assert_eq!((records.len(), damaged, error), (whole, vec![1], None));
    }

    #[test]
    fn without_the_records_it_says_from_where_they_have_to_be_read_again() {
        for payload in [Value::Null, json!("null"), json!("a secret"), json!({"Records": "a secret"})] {
            let (records, error) = read(&document(&payload));
            let error = error.unwrap().to_string();
            assert!(records.is_empty() && !error.contains("a secret"), "{error}");
            if payload.is_null() {
                assert!(error.contains("read them again from shardId-000000000003 of arn:aws:kinesis:eu-west-1:000000000000:stream/example, from sequence number 4959001 to 4959100, both included"), "{error}");
            } else {
                assert!(error.contains("expected the event of the batch in the payload, found something else"), "{error}");
            }
        }
    }
}
