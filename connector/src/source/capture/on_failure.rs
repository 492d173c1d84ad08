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

/// The batch that a document is about, by where its records are in their stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Batch {
    /// The stream's ARN.
    pub stream_arn: String,
    /// The shard.
    pub shard_id: String,
    /// The sequence number of its first record.
    pub start_sequence_number: String,
    /// That of its last record.
    pub end_sequence_number: String,
    /// How many records it has; `None` where the document does not say.
    pub batch_size: Option<u64>,
}

/// What a document comes in from a queue or a topic: messages as `aws sqs receive-message` answers them, one of them, or a notification of SNS.
#[derive(Deserialize)]
struct Envelope {
    #[serde(rename = "Messages", default)]
    messages: Vec<Envelope>,
    #[serde(rename = "Body", alias = "body", alias = "Message")]
    inside: Option<String>,
}

/// How deep: an answer, its message, and a notification in that.
const ENVELOPES: usize = 3;

impl Envelope {
    fn batches(self, levels: usize) -> Vec<Batch> {
        let Some(levels) = levels.checked_sub(1) else { return Vec::new() };
        let of_text = |text: String| match serde_json::from_str(&text) {
            Ok(Document { batch, .. }) => vec![batch],
            Err(_) => serde_json::from_str::<Self>(&text).map(|inside| inside.batches(levels)).unwrap_or_default(),
        };
        let inside = self.inside.map(of_text).unwrap_or_default();
        inside.into_iter().chain(self.messages.into_iter().flat_map(|message| message.batches(levels))).collect()
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "Records")]
    records: Vec<&'a RawValue>,
}

/// The records of a document, which begins at `offset`; nothing where the object is no such document. Where it holds none, because its destination
/// gets none, it is the batch that stands for them.
///
/// # Errors
/// It holds something else in the place of records.
pub(super) fn records(json: &[u8], offset: u64) -> Option<Result<VecDeque<Framed>, Broken>> {
    // Most objects are records, and are not to be read twice.
    memchr::memmem::find(json, b"KinesisBatchInfo")?;
    let Ok(Document { batch, payload }) = serde_json::from_slice(json) else {
        let batches = serde_json::from_slice::<Envelope>(json).ok()?.batches(ENVELOPES);
        let framed = |batch| Framed { batch: Some(Box::new(batch)), ..Framed::new(offset, Bytes::new()) };
        return (!batches.is_empty()).then(|| Ok(batches.into_iter().map(framed).collect()));
    };
    let Some(raw) = payload.map(RawValue::get).filter(|payload| *payload != "null") else {
        let framed = Framed { batch: Some(Box::new(batch)), ..Framed::new(offset, Bytes::new()) };
        return Some(Ok(VecDeque::from([framed])));
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
    /// The batch in words, and why its records are not in the document.
    pub(super) fn described(&self) -> String {
        let Self { shard_id, start_sequence_number: start, end_sequence_number: end, stream_arn, .. } = self;
        format!(
            "a batch that Lambda gave up, without its records, which only an S3 destination gets: those of {shard_id} of {stream_arn} from \
             sequence number {start} to {end}, both included"
        )
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

    use super::super::{Capture, Reread};
    use super::*;
    use crate::error::Error;
    use crate::record::{Bound, Origin, Position, Record, SequenceNumber};

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
    fn without_the_records_the_batch_stands_for_them_and_costs_nothing_that_follows() {
        let event = event();
        let (expected, _) = read(&event.to_string());
        let text = format!("{}\n{}\n", document(&Value::Null), document(&Value::String(event.to_string())));
        let (records, error) = read(&text);
        let error = error.unwrap().to_string();
        assert_eq!(data(&records), data(&expected));
        let found = "without its records, which only an S3 destination gets: those of shardId-000000000003 of arn:aws:kinesis:eu-west-1:000000000000:stream/example from sequence number 4959001 to 4959100, both included";
        assert!(error.contains("at byte 0: a batch that Lambda gave up") && error.contains(found), "{error}");
    }

    #[test]
    fn the_records_of_a_batch_come_where_its_document_stands() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("capture");
        let event = json!({"Records": [{"Data": "4AEA6g=="}]});
        let given_up = document(&Value::Null);
        std::fs::write(&path, format!("{event}\n{given_up}\n{event}\n{given_up}\n")).unwrap();
        let mut asked = 0;
        let rereading = move |batch: &Batch| {
            assert_eq!((batch.shard_id.as_str(), batch.batch_size), ("shardId-000000000003", Some(100)));
            asked += 1;
            let record = |number: u64| Record {
                origin: Origin { stream: batch.stream_arn.clone(), shard: batch.shard_id.clone() }.into(),
                position: Position::Sequence { number: SequenceNumber(number.to_string()), sub: None },
                data: Bytes::new(),
                arrived: None,
                damage: None,
                message: None,
            };
            Ok(Reread { records: vec![record(4_959_001), record(4_959_100)], is_incomplete: asked > 1 })
        };
        let mut capture = Capture::open(path.to_str().unwrap(), Bound::EndsAtStart).unwrap().rereading(Box::new(rereading));
        let mut shards = Vec::new();
        while let Some(page) = capture.read(1).unwrap() {
            shards.extend(page.records.iter().map(|record| record.origin.shard.clone()));
            assert_eq!(capture.is_incomplete(), shards.len() > 4);
        }
        let of_shard = "shardId-000000000003";
        assert_eq!(shards, ["", of_shard, of_shard, "", of_shard, of_shard]);
    }

    #[test]
    fn a_batch_is_found_in_a_message_of_a_queue_and_in_a_notification_of_a_topic() {
        let text = document(&Value::Null);
        let notification = json!({"Type": "Notification", "MessageId": "1", "Message": text}).to_string();
        let message = |body: &str| json!({"MessageId": "1", "ReceiptHandle": "r", "MD5OfBody": "0", "Body": body});
        for (saved, count) in [
            (message(&text), 1),
            (json!({"Messages": [message(&text), message("KinesisBatchInfo"), message(&notification)]}), 2),
            (serde_json::from_str(&notification).unwrap(), 1),
        ] {
            for saved in [saved.to_string(), format!("{saved:#}")] {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("capture");
                std::fs::write(&path, saved).unwrap();
                let capture = Capture::open(path.to_str().unwrap(), Bound::EndsAtStart).unwrap();
                let (counted, found) =
                    (std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0)), Batch { batch_size: Some(100), ..Batch::default() });
                let seen = counted.clone();
                let mut capture = capture.rereading(Box::new(move |batch| {
                    assert_eq!((batch.batch_size, batch.start_sequence_number.as_str()), (found.batch_size, "4959001"));
                    seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    Ok(Reread::default())
                }));
                assert!(capture.read(1).unwrap().is_none());
                assert_eq!(counted.load(std::sync::atomic::Ordering::Relaxed), count);
            }
        }
    }

    #[test]
    fn what_stands_in_the_place_of_records_is_named_without_its_content() {
        for payload in [json!("null"), json!("a secret"), json!({"Records": "a secret"})] {
            let (records, error) = read(&document(&payload));
            let error = error.unwrap().to_string();
            assert!(records.is_empty() && !error.contains("a secret"), "{error}");
            assert!(error.contains("expected the event of the batch in the payload, found something else"), "{error}");
        }
    }
}
