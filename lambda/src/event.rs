//! The event of an invocation, read record by record, so that one that is damaged costs only itself.
//!
//! An event that comes neither from a Kinesis stream nor from topics of Kafka is refused and says so. Never decodes a record's data, and quotes
//! nothing of it: aggregates are taken apart later, by the codec. `kinesis` and `kafka` read the records of the two.

mod kafka;
mod kinesis;

use revsync::error::{Error, Kind};
use revsync::record::Record;
use revsync::source::kafka_event;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The name that `eventSource` has in an event of Kinesis.
const KINESIS: &str = "aws:kinesis";

/// The records of one event, in the order of their positions: of one shard of a Kinesis stream, or of partitions of Kafka, one after another.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The records, as the producers wrote them.
    pub records: Vec<Record>,
    /// When the oldest of them came into the stream, in milliseconds since 1970 (UTC); none where there is none.
    pub oldest: Option<u64>,
}

/// An event of any source, as far as it tells which.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "eventSource", alias = "source")]
    source: Option<String>,
    /// Of Kinesis, and of many others.
    #[serde(borrow, rename = "Records")]
    list: Option<Vec<&'a RawValue>>,
    /// Of Kafka, by partition.
    #[serde(borrow, rename = "records")]
    partitions: Option<&'a RawValue>,
}

impl Batch {
    /// Reads an event.
    ///
    /// A record of which only the position can be read is handed on as damaged, with all that there is of it: it can never be read better, and a
    /// dead letter brings the shard or partition further where an error would stop it.
    ///
    /// # Errors
    /// The event is of another source, or a record has no position, so that it could not be named in an answer.
    pub fn read(event: &str) -> Result<Self, Error> {
        let Ok(Envelope { source, list, partitions }) = serde_json::from_str(event) else { return Err(refused("something else")) };
        let records = match (source, list, partitions) {
            (Some(source), _, partitions) if kafka_event::SOURCES.contains(&&*source) => {
                let none = || refused(&format!("one of {source} without records"));
                let partitions = partitions.ok_or_else(none)?.get();
                let Some(records) = kafka_event::lists(partitions) else {
                    return Err(refused(&format!("one of {source} with something else in place of its records")));
                };
                kafka::records(records)?
            }
            (_, Some(list), _) => kinesis::records(&list)?,
            (source, None, _) => return Err(refused(&source.map_or_else(|| "one without Records".to_owned(), of))),
        };
        let oldest = records.iter().filter_map(|record| record.arrived).min();
        let mut batch = Self { records, oldest };
        // Several invocations may work on one shard at once; a batch then holds the records of some of its keys.
        batch.records.sort_by(|a, b| a.position.cmp(&b.position));
        Ok(batch)
    }
}

/// The name of a source, where it is one.
fn of(source: String) -> String {
    let is_name = source.len() <= 64 && source.bytes().all(|b| b.is_ascii_alphanumeric() || b":._-".contains(&b));
    if is_name { format!("one of {source}") } else { "one of another source".to_owned() }
}

fn refused(found: &str) -> Error {
    let [msk, own] = kafka_event::SOURCES;
    let what = format!(
        "expected an event of a Kinesis stream (eventSource {KINESIS}) or of topics of Kafka ({msk}, {own}), found {found}; nothing was done"
    );
    Error::new(Kind::Source, what)
        .help("invoke this function by an event source mapping of a Kinesis data stream or of Kafka topics, and by nothing else")
}
