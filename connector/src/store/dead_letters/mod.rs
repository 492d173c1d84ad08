//! Dead letters: records and operations that can never succeed, stored with everything needed to understand and to replay them.
//!
//! A letter counts as stored when it is on stable storage, not before. Nothing here decides what is a dead letter, reads a clock or replays
//! anything. Letters hold content of documents: the file is readable by its owner only.

mod file;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::error::{Error, Kind};
use crate::record::{Fault, Origin, Position};

pub use file::{Entries, LetterFile};

/// The version of the stored form that is written; a newer one is refused.
pub const FORMAT_VERSION: u32 = 1;

/// One record or operation that can never succeed. One line of JSON where it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The version of the stored form, [`FORMAT_VERSION`].
    pub v: u32,
    /// 32 hexadecimal digits made from origin, position and unit, and from the payload where the position is one in a file ([`identify`]): the same in every run.
    pub id: String,
    /// When it became a dead letter, RFC 3339.
    pub time: String,
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
    /// The record's bytes, complete in themselves; stored as Base64.
    #[serde(serialize_with = "write_base64", deserialize_with = "read_base64")]
    pub payload: Bytes,
}

/// A letter's id: the same record and unit have the same id in every run, so that a repeated run adds no second letter to look at.
///
/// A sequence number or an offset of a topic names one record for ever. The place in a file does not, since another file can come to the
/// same name, so there the payload is part of what is identified.
pub fn identify(origin: &Origin, position: &Position, unit: u32, payload: &[u8]) -> String {
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
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn write_base64<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn read_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    let text = String::deserialize(deserializer)?;
    // The decoder's own message would name a byte of the content.
    STANDARD.decode(text).map(Bytes::from).map_err(|_| serde::de::Error::custom("payload is not Base64"))
}

/// Where dead letters go, as it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A file of JSON lines.
    File(PathBuf),
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        const EXPECTED: &str = "dead letters: expected file:PATH";
        match text.split_once(':') {
            Some(("file", "")) => Err(Error::usage(format!("{EXPECTED}, found no path after file:"))),
            Some(("file", path)) => match path.strip_prefix("//") {
                Some(path) => Err(Error::usage(format!("{EXPECTED}, found {text:?}")).help(format!("did you mean file:{path}?"))),
                None => Ok(Self::File(PathBuf::from(path))),
            },
            Some((scheme @ ("sqs" | "s3" | "kafka"), _)) => {
                Err(Error::usage(format!("{EXPECTED}: this build cannot write to {scheme}: yet")))
            }
            _ if text.is_empty() => Err(Error::usage(format!("{EXPECTED}, found nothing"))),
            _ => Err(Error::usage(format!("{EXPECTED}, found {text:?}")).help(format!("did you mean file:{text}?"))),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

/// One thing found where dead letters are stored.
#[derive(Debug)]
pub enum Entry {
    /// A letter.
    Letter(Box<DeadLetter>),
    /// A line that is none: torn, damaged, or written by a newer revsync. It stays where it is.
    Damaged {
        /// The line, from 1.
        line: u64,
        /// What is wrong with it; nothing of its content.
        reason: String,
    },
}

/// The dead letters of one place.
#[derive(Debug)]
pub enum DeadLetters {
    /// A file of JSON lines.
    File(LetterFile),
}

impl DeadLetters {
    /// Opens a place for writing, and finds out now whether it can be written. Leaves nothing behind where there was nothing.
    ///
    /// # Errors
    /// The place cannot be written.
    pub fn open(place: &Place) -> Result<Self, Error> {
        match place {
            Place::File(path) => LetterFile::open(path).map(Self::File),
        }
    }

    /// Opens a place only to look at what is there; a place where nothing was ever stored holds no letters.
    pub fn look(place: &Place) -> Self {
        match place {
            Place::File(path) => Self::File(LetterFile::look(path)),
        }
    }

    /// Stores letters; when it returns, they are on stable storage, all of them.
    ///
    /// # Errors
    /// Nothing of them counts as stored. Storing them again is harmless.
    pub async fn append(&self, letters: &[DeadLetter]) -> Result<(), Error> {
        if letters.is_empty() {
            return Ok(());
        }
        let lines = lines(letters)?;
        match self {
            Self::File(file) => {
                let file = file.clone();
                blocking(move || file.append(&lines)).await
            }
        }
    }

    /// All letters, oldest first, each id once (as it was stored last), with what is damaged between them.
    ///
    /// # Errors
    /// The place cannot be read.
    pub fn list(&self) -> Result<Entries, Error> {
        match self {
            Self::File(file) => file.list(),
        }
    }

    /// Takes letters out, and says how many. What is damaged stays, and what is stored meanwhile is not lost.
    ///
    /// # Errors
    /// The place cannot be written; the letters are still there then.
    pub async fn remove(&self, ids: Vec<String>) -> Result<usize, Error> {
        if ids.is_empty() {
            return Ok(0);
        }
        match self {
            Self::File(file) => {
                let file = file.clone();
                blocking(move || file.remove(&ids.into_iter().collect())).await
            }
        }
    }
}

fn lines(letters: &[DeadLetter]) -> Result<Vec<u8>, Error> {
    let mut lines = Vec::new();
    for letter in letters {
        serde_json::to_writer(&mut lines, letter)
            .map_err(|error| Error::new(Kind::DeadLetters, format!("dead letter {}: cannot be written as JSON: {error}", letter.id)))?;
        lines.push(b'\n');
    }
    Ok(lines)
}

/// Files block: their work is done where nothing else waits for it.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Error::new(Kind::DeadLetters, format!("dead letters: the work was not finished: {error}"))),
    }
}

/// Reads one stored line.
fn read(line: &[u8]) -> Result<DeadLetter, String> {
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

#[cfg(test)]
mod tests;
