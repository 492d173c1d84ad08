//! What is said over the pipes: the daemon's messages read, the child's answers written.
//!
//! Source of the format: the classes of `software.amazon.kinesis.multilang.messages` in amazon-kinesis-client-multilang 3.1, and
//! `MultiLangProtocol`. An error never quotes a line: records hold documents.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::error::Category;

use crate::error::{Error, Kind};
use crate::record::{Fault, Origin, Position, Record, SequenceNumber};

/// What the daemon asks for; each is answered with a status that names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Begin with a shard.
    Initialize,
    /// Take records.
    ProcessRecords,
    /// The lease is another's: stop, without a checkpoint.
    LeaseLost,
    /// All records of the shard were handed over, and it is closed.
    ShardEnded,
    /// Come to an end.
    ShutdownRequested,
    /// The end, as daemons before KCL 2 said it.
    Shutdown,
}

/// One message of the daemon.
#[derive(Debug)]
pub enum Message<'a> {
    /// The child's shard.
    Initialize {
        /// Its name.
        shard: String,
        /// Behind which record its records begin, or a word that says where, such as `TRIM_HORIZON`; for people.
        from: String,
    },
    /// Records of the shard.
    ProcessRecords(Page<'a>),
    /// What became of a checkpoint.
    Checkpoint(Result<(), Refused>),
    /// The lease is another's.
    LeaseLost,
    /// All records of the shard were handed over, and it is closed.
    ShardEnded,
    /// The daemon is about to stop.
    ShutdownRequested,
    /// The end, with its reason.
    Shutdown {
        /// `TERMINATE` or `SHARD_END`, `ZOMBIE` or `LEASE_LOST`, `REQUESTED`.
        reason: String,
    },
}

/// Why a checkpoint was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The lease is another's.
    LeaseLost,
    /// It could not be stored just now; this is the name of the exception.
    Later(String),
    /// It is none that can be taken; this is the name of the exception.
    Never(String),
}

/// Records that were handed over at once.
#[derive(Debug)]
pub struct Page<'a> {
    records: Vec<Handed<'a>>,
    /// How far behind the end of the shard they are; `None` where the daemon does not know.
    pub behind: Option<Duration>,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    action: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialize {
    shard_id: String,
    sequence_number: Option<String>,
    sub_sequence_number: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProcessRecords<'a> {
    #[serde(borrow)]
    records: Vec<Handed<'a>>,
    millis_behind_latest: Option<i64>,
}

#[derive(Deserialize)]
struct Checkpoint {
    error: Option<String>,
}

#[derive(Deserialize)]
struct Shutdown {
    reason: Option<String>,
}

/// Text that stays in the line it was read from; an `Option<Cow<str>>` would be copied.
#[derive(Debug, Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// One record as it was handed over. The daemon has taken aggregates apart already.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Handed<'a> {
    #[serde(borrow)]
    data: Option<Text<'a>>,
    #[serde(borrow)]
    sequence_number: Cow<'a, str>,
    sub_sequence_number: Option<u64>,
    approximate_arrival_timestamp: Option<i64>,
}

impl<'a> Message<'a> {
    /// Reads a line.
    ///
    /// # Errors
    /// It is no message of the daemon, or one of a kind that is not known here.
    pub fn read(line: &'a [u8]) -> Result<Self, Error> {
        // A list would be taken for the members of an object in their order.
        if line.trim_ascii_start().first() != Some(&b'{') {
            return Err(refused("an object with its action", line, "that is none", 1));
        }
        let action = read::<Head<'_>>(line, "an object with its action")?.action;
        Ok(match &*action {
            "initialize" => {
                let Initialize { shard_id, sequence_number, sub_sequence_number } = read(line, "initialize")?;
                let from = match (sequence_number, sub_sequence_number) {
                    (None, _) => "the beginning that the daemon was configured with".to_owned(),
                    (Some(number), Some(sub)) if number.starts_with(|first: char| first.is_ascii_digit()) => format!("{number}:{sub}"),
                    (Some(number), _) => number,
                };
                Self::Initialize { shard: shard_id, from }
            }
            "processRecords" => {
                let ProcessRecords { records, millis_behind_latest } = read(line, "processRecords")?;
                let behind = millis_behind_latest.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or_default()));
                Self::ProcessRecords(Page { records, behind })
            }
            "checkpoint" => Self::Checkpoint(read::<Checkpoint>(line, "checkpoint")?.error.map_or(Ok(()), |error| Err(Refused::of(error)))),
            "leaseLost" => Self::LeaseLost,
            "shardEnded" => Self::ShardEnded,
            "shutdownRequested" => Self::ShutdownRequested,
            "shutdown" => Self::Shutdown { reason: read::<Shutdown>(line, "shutdown")?.reason.unwrap_or_default() },
            _ => return Err(unknown(&action)),
        })
    }

    /// What the status that answers it names; `None` for what is an answer itself.
    pub fn action(&self) -> Option<Action> {
        match self {
            Self::Initialize { .. } => Some(Action::Initialize),
            Self::ProcessRecords(_) => Some(Action::ProcessRecords),
            Self::Checkpoint(_) => None,
            Self::LeaseLost => Some(Action::LeaseLost),
            Self::ShardEnded => Some(Action::ShardEnded),
            Self::ShutdownRequested => Some(Action::ShutdownRequested),
            Self::Shutdown { .. } => Some(Action::Shutdown),
        }
    }
}

fn read<'a, T: Deserialize<'a>>(line: &'a [u8], expected: &str) -> Result<T, Error> {
    // What the parser says may quote what it found.
    serde_json::from_slice(line).map_err(|error| {
        let found = match error.classify() {
            Category::Syntax | Category::Io => "that is no JSON",
            Category::Eof => "that breaks off",
            Category::Data => "that lacks a member or has one of another type",
        };
        refused(expected, line, found, error.column())
    })
}

fn refused(expected: &str, line: &[u8], found: &str, at: usize) -> Error {
    let found = format!("found a line of {} bytes {found}, at byte {at}", line.len());
    Error::new(Kind::Source, format!("standard input: expected {expected} of the MultiLangDaemon, {found}"))
        .help("nothing but the MultiLangDaemon may write there; if it did, report this with the version of its jars")
}

fn unknown(action: &str) -> Error {
    let is_a_name = (1..=40).contains(&action.len()) && action.bytes().all(|b| b.is_ascii_alphanumeric());
    let found = if is_a_name { format!("{action:?}") } else { format!("one of {} bytes that is no name", action.len()) };
    let known = "initialize, processRecords, checkpoint, leaseLost, shardEnded, shutdownRequested or shutdown";
    Error::new(Kind::Source, format!("standard input: expected the action {known}, found {found}"))
        .help("this daemon speaks a newer protocol than revsync knows: use jars of KCL 2 or 3")
}

impl Refused {
    /// By the simple name of the daemon's exception.
    fn of(exception: String) -> Self {
        match exception.as_str() {
            "ShutdownException" => Self::LeaseLost,
            "ThrottlingException" | "KinesisClientLibDependencyException" => Self::Later(exception),
            _ => Self::Never(exception),
        }
    }
}

impl Page<'_> {
    /// How many records it has.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The records, each decoded when it is asked for.
    pub fn records(&self, origin: &Arc<Origin>) -> impl Iterator<Item = Record> {
        let at = |place: Option<usize>| place.and_then(|place| self.records.get(place));
        self.records.iter().enumerate().map(move |(place, handed)| {
            let beside = [at(place.checked_sub(1)), at(place.checked_add(1))];
            let has_siblings = beside.into_iter().flatten().any(|other| other.sequence_number == handed.sequence_number);
            handed.record(origin, has_siblings)
        })
    }
}

impl Handed<'_> {
    fn record(&self, origin: &Arc<Origin>, has_siblings: bool) -> Record {
        let text = self.data.as_ref().map(|text| &*text.0).unwrap_or_default();
        let (data, damage) = match STANDARD.decode(text) {
            Ok(data) => (Bytes::from(data), None),
            Err(_) => {
                let reason = format!("expected the record's data as Base64, found {} bytes that are none", text.len());
                (Bytes::copy_from_slice(text.as_bytes()), Some(Fault::new("undecodable", reason)))
            }
        };
        // A record that is no aggregate has 0 here too. Without, its position is what every other source says of it.
        let sub = self.sub_sequence_number.filter(|sub| *sub > 0 || has_siblings);
        let number = SequenceNumber(self.sequence_number.clone().into_owned());
        let arrived = self.approximate_arrival_timestamp.and_then(|millis| u64::try_from(millis).ok());
        Record { origin: Arc::clone(origin), position: Position::Sequence { number, sub }, data, arrived, damage, message: None }
    }
}

/// What the child says. Its fields are the daemon's, all of them and no other: a message that it cannot read is passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Answer<'a> {
    /// Done.
    Status {
        /// With this.
        response_for: Action,
    },
    /// Everything up to here is settled; without a number: everything that was handed over. The daemon answers before anything else is said.
    Checkpoint {
        /// The record.
        sequence_number: Option<&'a str>,
        /// Its place in an aggregate; without, the whole record.
        sub_sequence_number: Option<u64>,
    },
}

impl<'a> Answer<'a> {
    /// A checkpoint at a position; `None` for everything that was handed over. `None` is answered where it is no position in a shard.
    pub fn checkpoint(position: Option<&'a Position>) -> Option<Self> {
        match position {
            None => Some(Self::Checkpoint { sequence_number: None, sub_sequence_number: None }),
            Some(Position::Sequence { number, sub }) => {
                Some(Self::Checkpoint { sequence_number: Some(&number.0), sub_sequence_number: *sub })
            }
            Some(Position::Byte { .. } | Position::Offset { .. }) => None,
        }
    }

    /// The bytes to write: the line, and a newline before it in case something else stands there.
    ///
    /// # Errors
    /// Never, as far as is known.
    pub fn bytes(&self) -> serde_json::Result<Vec<u8>> {
        let mut bytes = b"\n".to_vec();
        serde_json::to_writer(&mut bytes, self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}
