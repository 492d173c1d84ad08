//! The first noun: bytes as a source hands them over, with where they came from and how far the source has been read.
//!
//! Never decoded here, and never compared across shards: an order exists only between positions of one origin.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Where records come from: one shard of one stream. Records of one origin come in the order of their positions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Origin {
    /// The stream: a path, a stream's name or ARN, a topic.
    pub stream: String,
    /// The shard or partition inside the stream; the file of a captured stream.
    pub shard: String,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.shard.is_empty() || self.shard == self.stream {
            f.write_str(&self.stream)
        } else {
            write!(f, "{}/{}", self.stream, self.shard)
        }
    }
}

/// A Kinesis sequence number: decimal text of up to 128 digits, ordered by length and then by bytes.
///
/// It fits no machine integer and is comparable only inside one shard (Kinesis API reference, `Record.SequenceNumber`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SequenceNumber(pub String);

impl Ord for SequenceNumber {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0.len(), self.0.as_bytes()).cmp(&(other.0.len(), other.0.as_bytes()))
    }
}

impl PartialOrd for SequenceNumber {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// How far one shard has been read. Positions of different kinds never meet inside one origin.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// A captured stream: where the record's value begins, in bytes of the (decompressed) file.
    Byte {
        /// Bytes before the record.
        offset: u64,
    },
    /// Kinesis: the record's number, and the place inside a KPL aggregate (from 0), where there is one.
    Sequence {
        /// The Kinesis record's sequence number; all sub-records of an aggregate share it.
        number: SequenceNumber,
        /// The sub-sequence number, the sub-record's index inside its aggregate.
        sub: Option<u64>,
    },
    /// Kafka.
    Offset {
        /// The topic's name.
        topic: String,
        /// The partition's number.
        partition: i32,
        /// The message's offset.
        offset: i64,
    },
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Byte { offset } => write!(f, "byte {offset}"),
            Self::Sequence { number, sub: None } => write!(f, "sequence number {}", number.0),
            Self::Sequence { number, sub: Some(sub) } => write!(f, "sequence number {}, sub-sequence number {sub}", number.0),
            Self::Offset { topic, partition, offset } => write!(f, "{topic}-{partition} offset {offset}"),
        }
    }
}

/// Where a scan ends. The one value in which a live worker and a bounded scan differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// Follow the source for ever.
    Never,
    /// Stop at the ends that every shard had when the scan started.
    EndsAtStart,
}

/// One record of a source.
#[derive(Debug, Clone)]
pub struct Record {
    /// The shard it was read from.
    pub origin: Arc<Origin>,
    /// Its place in that shard.
    pub position: Position,
    /// Its bytes, as the producer wrote them; complete in itself (for Ion: with the version marker and symbol tables it needs).
    pub data: Bytes,
    /// When the source took it in, in milliseconds since 1970, where the source says so.
    pub arrived: Option<u64>,
    /// Bytes that a source could not make a record of; the record is a dead letter with this reason.
    pub damage: Option<Fault>,
    /// What it has beside its bytes, where the source has messages with keys and headers (Kafka).
    pub message: Option<Arc<Message>>,
}

/// What a message of Kafka has beside its value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// The key; `None` where it is null.
    pub key: Option<Bytes>,
    /// The headers, in their order; a name may come more than once.
    pub headers: Vec<Header>,
    /// Whether the value is null (a tombstone of Kafka), which is not an empty one.
    pub is_null: bool,
}

/// A header of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Its value; `None` where it is null.
    pub value: Option<Bytes>,
}

/// Why a unit can never succeed: what goes into its dead letter. Holds no field value of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The class, in `snake_case`, such as `undecodable`, or the server's own `error.type`.
    pub kind: String,
    /// What was expected, what was found and where, in one sentence.
    pub reason: String,
}

impl Fault {
    /// A fault of one class.
    pub fn new(kind: &str, reason: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), reason: reason.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.reason)
    }
}
