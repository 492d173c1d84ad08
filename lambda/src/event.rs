//! The event of an invocation, read record by record, so that one that is damaged costs only itself.
//!
//! An event that does not come from a Kinesis stream is refused and says so. Never decodes a record's data, and quotes nothing of it: aggregates
//! are taken apart later, by the codec (reference: AWS Lambda developer guide, "Using Lambda to process records from Amazon Kinesis Data Streams").

use std::sync::Arc;

use aws_lambda_events::kinesis::KinesisEventRecord;
use revsync::error::{Error, Kind};
use revsync::record::{Fault, Origin, Position, Record, SequenceNumber};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// The records of one event: of one shard, in the order of their sequence numbers.
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
    #[serde(borrow, rename = "Records")]
    records: Option<Vec<&'a RawValue>>,
    #[serde(rename = "eventSource", alias = "source")]
    source: Option<String>,
}

/// A record of any source, as far as it tells which.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outside {
    #[serde(alias = "EventSource")]
    event_source: Option<String>,
    #[serde(rename = "eventID", default)]
    id: String,
    #[serde(rename = "eventSourceARN", default)]
    stream: String,
    kinesis: Option<Inside>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Inside {
    sequence_number: Option<String>,
    data: Option<IgnoredAny>,
    /// Seconds since 1970, with a fraction of which `aws_lambda_events` 1.2.1 takes the digits for milliseconds (1.25 for 1.025).
    approximate_arrival_timestamp: Option<f64>,
}

impl Batch {
    /// Reads an event.
    ///
    /// A record of which only the sequence number can be read is handed on as damaged, with all that there is of it: it can never be read better,
    /// and a dead letter brings the shard further where an error would stop it.
    ///
    /// # Errors
    /// The event is of another source, or a record has no sequence number, so that it could not be named in an answer.
    pub fn read(event: &str) -> Result<Self, Error> {
        let Ok(Envelope { records, source }) = serde_json::from_str(event) else { return Err(refused("something else")) };
        let Some(raw) = records else { return Err(refused(&source.map_or_else(|| "one without Records".to_owned(), of))) };
        let mut batch = Self { records: Vec::with_capacity(raw.len()), oldest: None };
        let mut latest: Option<Arc<Origin>> = None;
        for (place, raw) in raw.into_iter().map(RawValue::get).enumerate() {
            let Ok(outside) = serde_json::from_str::<Outside>(raw) else {
                return Err(refused(&format!("something else in place of record {place}")));
            };
            let inside = match (outside.event_source, outside.kinesis) {
                (Some(source), _) if source != "aws:kinesis" => return Err(refused(&of(source))),
                (_, None) => return Err(refused(&format!("no \"kinesis\" in record {place}"))),
                (_, Some(inside)) => inside,
            };
            let Some(number) = inside.sequence_number.filter(|number| !number.is_empty()) else {
                return Err(refused(&format!("no sequence number in record {place}")));
            };
            // The shard is named nowhere else than before the colon.
            let shard = outside.id.split_once(':').map_or("", |(shard, _)| shard);
            let origin = match &latest {
                Some(origin) if origin.shard == shard && origin.stream == outside.stream => Arc::clone(origin),
                _ => Arc::new(Origin { stream: outside.stream, shard: shard.to_owned() }),
            };
            latest = Some(Arc::clone(&origin));
            // Lossless for the next 250,000 years.
            let arrived = inside.approximate_arrival_timestamp.map(|seconds| (seconds * 1_000.0).round() as u64);
            batch.oldest = [batch.oldest, arrived].into_iter().flatten().min();
            let position = Position::Sequence { number: SequenceNumber(number), sub: None };
            let (data, damage) = match serde_json::from_str::<KinesisEventRecord>(raw) {
                Ok(record) => (record.kinesis.data.0, None),
                Err(_) => {
                    let found = if inside.data.is_some() { "something else" } else { "none" };
                    let reason = format!(
                        "expected a Kinesis record with data in Base64, found {found}; the payload is the record as the event has it"
                    );
                    (raw.as_bytes().to_vec(), Some(Fault::new("undecodable", reason)))
                }
            };
            batch.records.push(Record { origin, position, data: data.into(), damage });
        }
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
    Error::new(Kind::Source, format!("expected an event of a Kinesis stream (eventSource aws:kinesis), found {found}; nothing was done"))
        .help("invoke this function by an event source mapping of a Kinesis data stream, and by nothing else")
}
