//! One dead letter: what is known of it, its id, and its stored form, a line of JSON.
//!
//! Plain data. Says what is wrong with a line that is none without a byte of its content.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::error::{Error, Kind};
use crate::plan::mapping::Mode;
use crate::record::{Fault, Header, Message, Origin, Position};

/// The version of the stored form that is written; a newer one is refused. Form 1 had no `message`, and form 2 no `mode`.
pub const FORMAT_VERSION: u32 = 3;

/// One record or operation that can never succeed. One line of JSON where it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The version of the stored form, [`FORMAT_VERSION`].
    pub v: u32,
    /// 32 hexadecimal digits made from origin, position, unit and mode, and from the payload where the position is one in a file ([`identify`]): the same in every run.
    pub id: String,
    /// When it became a dead letter, with the error that it has now; RFC 3339.
    pub time: String,
    /// When it first became one, where it was replayed and refused again since; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_time: Option<String>,
    /// The shard that the record was read from.
    pub origin: Origin,
    /// The record's place in that shard.
    pub position: Position,
    /// Which unit of the record, from 0; the record itself where it holds no units.
    pub unit: u32,
    /// Which unit of the payload, from 0; differs from `unit` where the payload is one of several sub-records of an aggregate.
    pub part: u32,
    /// The name of the payload's format, such as `qldb`.
    pub format: String,
    /// The table, where the record told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// What the index is of the table's revisions, where it came to that: the letter is of this mode only. Absent: it is of everything that would
    /// become of the unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The document id, where the record told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_id: Option<String>,
    /// The revision's version, where the record told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The index that was written to, where it came to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// What was asked of the index: `index` or `delete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// How often it was sent; 0 for a record that could not be used at all.
    pub attempts: u32,
    /// Why it can never succeed.
    pub error: Fault,
    /// What the first try said, where that was something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<Fault>,
    /// The version of revsync that wrote the letter.
    pub connector: String,
    /// Where the whole letter is, where it is larger than a message may be; `payload` is empty then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub large: Option<Large>,
    /// What the record had beside its bytes, where it was a message of Kafka.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "stored_message")]
    pub message: Option<Message>,
    /// The record's bytes, complete in themselves; stored as Base64.
    #[serde(serialize_with = "write_base64", deserialize_with = "read_base64")]
    pub payload: Bytes,
}

/// Where a letter is that did not fit: an object that holds the whole of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Large {
    /// The bucket.
    pub bucket: String,
    /// The object's key.
    pub key: String,
    /// Bytes of the payload.
    pub bytes: u64,
}

impl DeadLetter {
    /// When it became a dead letter, as a time.
    pub fn moment(&self) -> Option<OffsetDateTime> {
        OffsetDateTime::parse(&self.time, &Rfc3339).ok()
    }

    /// Since when its record is not in the index: when it first became a dead letter.
    pub fn since(&self) -> &str {
        self.first_time.as_deref().unwrap_or(&self.time)
    }

    /// [`since`](Self::since) as a time.
    pub fn since_moment(&self) -> Option<OffsetDateTime> {
        OffsetDateTime::parse(self.since(), &Rfc3339).ok()
    }

    /// Bytes of its payload, wherever that is.
    pub fn payload_bytes(&self) -> u64 {
        self.large.as_ref().map_or(self.payload.len() as u64, |large| large.bytes)
    }

    /// The stored form: one line of JSON, without its end.
    pub(super) fn line(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(self)
            .map_err(|error| Error::new(Kind::DeadLetters, format!("dead letter {}: cannot be written as JSON: {error}", self.id)))
    }
}

/// A letter's id: the same record and unit have the same id in every run, so that a repeated run adds no second letter to look at.
///
/// A sequence number or an offset of a topic names one record for ever. The place in a file does not, since another file can come to the
/// same name, so there the payload is part of what is identified. What was meant for a history is another unit than what was meant for the newest
/// revisions.
pub fn identify(origin: &Origin, position: &Position, unit: u32, mode: Option<Mode>, payload: &[u8]) -> String {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        // The length in front keeps ("ab", "c") apart from ("a", "bc").
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    part(origin.stream.as_bytes());
    part(origin.shard.as_bytes());
    match position {
        Position::Byte { offset } => {
            part(format!("byte {offset}").as_bytes());
            part(payload);
        }
        Position::Sequence { number, sub: None } => part(format!("sequence {}", number.0).as_bytes()),
        Position::Sequence { number, sub: Some(sub) } => part(format!("sequence {} {sub}", number.0).as_bytes()),
        Position::Offset { topic, partition, offset } => {
            part(topic.as_bytes());
            part(format!("offset {partition} {offset}").as_bytes());
        }
    }
    part(unit.to_string().as_bytes());
    if mode == Some(Mode::History) {
        part(Mode::History.as_str().as_bytes());
    }
    hex::encode(&hash.finalize()[..16])
}

fn write_base64<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn read_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    let text = String::deserialize(deserializer)?;
    // The decoder's own message would name a byte of the content.
    STANDARD.decode(text).map(Bytes::from).map_err(|_| serde::de::Error::custom("not Base64"))
}

/// The stored form of a [`Message`]: `{"key":…,"headers":[["name",…]],"null_value":true}`, key and header values in Base64 or null.
pub(in crate::store) mod stored_message {
    use super::{Base64, Deserialize, Deserializer, Header, Message, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Stored {
        key: Option<Base64>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        headers: Vec<(String, Option<Base64>)>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        null_value: bool,
    }

    pub(in crate::store) fn serialize<S: Serializer>(message: &Option<Message>, serializer: S) -> Result<S::Ok, S::Error> {
        let stored = message.as_ref().map(|message| Stored {
            key: message.key.clone().map(Base64),
            headers: message.headers.iter().map(|header| (header.name.clone(), header.value.clone().map(Base64))).collect(),
            null_value: message.is_null,
        });
        stored.serialize(serializer)
    }

    pub(in crate::store) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Message>, D::Error> {
        let stored = Option::<Stored>::deserialize(deserializer)?;
        let header = |(name, value): (String, Option<Base64>)| Header { name, value: value.map(|value| value.0) };
        Ok(stored.map(|stored| Message {
            key: stored.key.map(|key| key.0),
            headers: stored.headers.into_iter().map(header).collect(),
            is_null: stored.null_value,
        }))
    }
}

/// Bytes that are stored as Base64.
struct Base64(Bytes);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_base64(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_base64(deserializer).map(Self)
    }
}

/// Reads one stored line.
pub(super) fn read(line: &[u8]) -> Result<DeadLetter, String> {
    #[derive(Deserialize)]
    struct Head {
        v: u32,
    }
    let Head { v } = serde_json::from_slice(line).map_err(|error| damage(&error))?;
    if v > FORMAT_VERSION {
        return Err(format!("written by a newer revsync (form {v}; this one reads up to {FORMAT_VERSION})"));
    }
    serde_json::from_slice(line).map_err(|error| damage(&error))
}

/// What is wrong with a line, without its content: serde's own message may quote some.
fn damage(error: &serde_json::Error) -> String {
    match error.classify() {
        serde_json::error::Category::Eof => "the line is cut off".to_owned(),
        serde_json::error::Category::Data => {
            format!("a field of a dead letter is missing or of the wrong form, near column {}", error.column())
        }
        _ => format!("not JSON from column {}", error.column()),
    }
}
