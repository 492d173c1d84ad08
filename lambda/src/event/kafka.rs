//! The records of an event of Kafka topics, of Amazon MSK or of a cluster of one's own (reference: AWS Lambda developer guide, "Using Lambda with
//! Amazon MSK" and "Using Lambda with self-managed Apache Kafka").
//!
//! A value that is null or absent is a null one, which is not an empty one. Never looks at what a key or a value says.

use std::collections::BTreeMap;
use std::sync::Arc;

use revsync::error::Error;
use revsync::record::{Fault, Header, Message, Origin, Position, Record};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{base64, refused};

/// A record, as far as it is gone by. `KafkaRecord` of `aws_lambda_events` 1.2.1 refuses records whose value is good for what nothing here goes by:
/// headers that are missing or of another form.
#[derive(Deserialize)]
struct Outside<'a> {
    topic: Option<String>,
    partition: Option<i32>,
    offset: Option<i64>,
    /// Milliseconds since 1970.
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    key: Option<&'a RawValue>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    #[serde(borrow)]
    headers: Option<&'a RawValue>,
}

/// Reads the records of all partitions.
pub(super) fn records<'a>(list: impl Iterator<Item = &'a RawValue>) -> Result<Vec<Record>, Error> {
    let mut records = Vec::new();
    let mut latest: Option<(i32, Arc<Origin>)> = None;
    for (place, raw) in list.map(RawValue::get).enumerate() {
        let Ok(outside) = serde_json::from_str::<Outside<'_>>(raw) else {
            return Err(refused(&format!("something else in place of record {place}")));
        };
        let (Some(topic), Some(partition), Some(offset)) =
            (outside.topic.filter(|topic| !topic.is_empty()), outside.partition, outside.offset)
        else {
            return Err(refused(&format!("no topic, partition and offset in record {place}")));
        };
        let origin = match &latest {
            Some((shard, origin)) if *shard == partition && origin.stream == topic => Arc::clone(origin),
            _ => Arc::new(Origin { stream: topic.clone(), shard: partition.to_string() }),
        };
        latest = Some((partition, Arc::clone(&origin)));
        let arrived = outside.timestamp.and_then(|time| serde_json::from_str(time.get()).ok());
        let (data, damage, message) = match (optional(outside.key), optional(outside.value)) {
            (Ok(key), Ok(value)) => {
                let message = Message { key: key.map(Into::into), headers: headers(outside.headers), is_null: value.is_none() };
                (value.unwrap_or_default().into(), None, Some(Arc::new(message)))
            }
            (key, _) => {
                let what = if key.is_err() { "key" } else { "value" };
                let reason = format!(
                    "expected a Kafka record with its {what} in Base64 or null, found something else; the payload is the record as the event \
                     has it"
                );
                (raw.as_bytes().to_vec().into(), Some(Fault::new("undecodable", reason)), None)
            }
        };
        records.push(Record { origin, position: Position::Offset { topic, partition, offset }, data, arrived, damage, message });
    }
    Ok(records)
}

/// Something that cannot be read.
struct Unreadable;

/// The bytes of a key or a value; `None` where it is null.
fn optional(json: Option<&RawValue>) -> Result<Option<Vec<u8>>, Unreadable> {
    json.map(|json| base64(json).ok_or(Unreadable)).transpose()
}

/// The headers in their order: an object for each, with its bytes as numbers, which Java has from -128 to 127. What is of another form is left out:
/// nothing goes by it, and what the record says is good without.
fn headers(json: Option<&RawValue>) -> Vec<Header> {
    let list: Vec<&RawValue> = json.and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or_default();
    let read = |header: &RawValue| serde_json::from_str::<BTreeMap<String, Option<Vec<Byte>>>>(header.get()).ok();
    let header =
        |(name, value): (String, Option<Vec<Byte>>)| Header { name, value: value.map(|bytes| bytes.into_iter().map(u8::from).collect()) };
    list.into_iter().filter_map(read).flatten().map(header).collect()
}

/// A byte, with a sign or without.
#[derive(Deserialize)]
#[serde(untagged)]
enum Byte {
    Signed(i8),
    Unsigned(u8),
}

impl From<Byte> for u8 {
    fn from(byte: Byte) -> Self {
        match byte {
            Byte::Signed(byte) => byte.cast_unsigned(),
            Byte::Unsigned(byte) => byte,
        }
    }
}
