//! The event that Lambda makes of records of Kafka topics, of Amazon MSK or of a cluster of one's own (reference: AWS Lambda developer guide, "Using
//! Lambda with Amazon MSK" and "Using Lambda with self-managed Apache Kafka").
//!
//! One record that is damaged costs only itself. A value that is null or absent is a null one, which is not an empty one. Never looks at what a key
//! or a value says, and quotes nothing of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::record::{Fault, Header, Message};

/// The names that `eventSource` has in such an event: of Amazon MSK, and of any other cluster.
pub const SOURCES: [&str; 2] = ["aws:kafka", "SelfManagedKafka"];

/// Base64 as Lambda writes it; missing padding is tolerated.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent));

/// A record of an event.
#[derive(Debug, Clone)]
pub struct KafkaRecord {
    /// The topic, as the record names it: what the event's lists are called does not tell it from the partition.
    pub topic: String,
    /// The partition's number.
    pub partition: i32,
    /// The offset in the partition.
    pub offset: i64,
    /// The record's timestamp, in milliseconds since 1970.
    pub arrived: Option<u64>,
    /// The value, empty where it is null; of a damaged record all that there is of it.
    pub data: Bytes,
    /// The key and the headers; none of a damaged record.
    pub message: Option<Arc<Message>>,
    /// Why the record cannot be read.
    pub damage: Option<Fault>,
}

/// What is no record that could be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nameless {
    /// It has no topic, partition and offset.
    WithoutPosition,
    /// It is something else.
    SomethingElse,
}

/// A record, as far as it is gone by.
#[derive(Deserialize)]
struct Fields<'a> {
    topic: Option<String>,
    partition: Option<i32>,
    offset: Option<i64>,
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    key: Option<&'a RawValue>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    #[serde(borrow)]
    headers: Option<&'a RawValue>,
}

/// The records in the `records` of an event, as they stand there, one list after another.
///
/// `None` where they are no lists by partition.
pub fn lists(records: &str) -> Option<impl Iterator<Item = &str>> {
    let lists: BTreeMap<String, Vec<&RawValue>> = serde_json::from_str(records).ok()?;
    Some(lists.into_values().flatten().map(RawValue::get))
}

impl KafkaRecord {
    /// Reads a record. One of which only the position can be read is damaged, and has everything that there is of it as its data.
    ///
    /// # Errors
    /// It has no position, so that it could not be named.
    pub fn read(json: &str) -> Result<Self, Nameless> {
        let fields: Fields<'_> = serde_json::from_str(json).map_err(|_| Nameless::SomethingElse)?;
        let topic = fields.topic.filter(|topic| !topic.is_empty());
        let (Some(topic), Some(partition), Some(offset)) = (topic, fields.partition, fields.offset) else {
            return Err(Nameless::WithoutPosition);
        };
        let arrived = fields.timestamp.and_then(|time| serde_json::from_str(time.get()).ok());
        let (data, message, damage) = match (bytes(fields.key), bytes(fields.value)) {
            (Ok(key), Ok(value)) => {
                let message = Message { key, headers: headers(fields.headers), is_null: value.is_none() };
                (value.unwrap_or_default(), Some(Arc::new(message)), None)
            }
            (key, _) => {
                let what = if key.is_err() { "key" } else { "value" };
                let reason = format!(
                    "expected a Kafka record with its {what} in Base64 or null, found something else; the payload is the record as the event \
                     has it"
                );
                (Bytes::copy_from_slice(json.as_bytes()), None, Some(Fault::new("undecodable", reason)))
            }
        };
        Ok(Self { topic, partition, offset, arrived, data, message, damage })
    }
}

/// Something that cannot be read.
struct Unreadable;

/// The bytes of a key or a value; `None` where it is null.
fn bytes(json: Option<&RawValue>) -> Result<Option<Bytes>, Unreadable> {
    let decoded = |json: &RawValue| BASE64.decode(serde_json::from_str::<String>(json.get()).ok()?).ok();
    json.map(|json| decoded(json).map(Bytes::from).ok_or(Unreadable)).transpose()
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
