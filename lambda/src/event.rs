//! The event of an invocation, read record by record, so that one that is damaged costs only itself.
//!
//! An event that does not come from a Kinesis stream is refused and says so. Never decodes a record's data, and quotes nothing of it: aggregates
//! are taken apart later, by the codec (reference: AWS Lambda developer guide, "Using Lambda to process records from Amazon Kinesis Data Streams").

use std::sync::Arc;

use aws_lambda_events::encodings::Base64Data;
use revsync::error::{Error, Kind};
use revsync::record::{Fault, Origin, Position, Record, SequenceNumber};
use serde::Deserialize;
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

/// A record of any source, as far as it tells which. `KinesisEventRecord` of `aws_lambda_events` 1.2.1 refuses records whose data is good for what
/// nothing here goes by: an arrival with microseconds, as emulators have it, or a new type of encryption.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outside<'a> {
    #[serde(alias = "EventSource")]
    event_source: Option<String>,
    #[serde(rename = "eventID")]
    id: Option<String>,
    #[serde(rename = "eventSourceARN")]
    stream: Option<String>,
    #[serde(borrow)]
    kinesis: Option<Inside<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Inside<'a> {
    sequence_number: Option<String>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    /// Seconds since 1970, with a fraction.
    #[serde(borrow)]
    approximate_arrival_timestamp: Option<&'a RawValue>,
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
            let Ok(outside) = serde_json::from_str::<Outside<'_>>(raw) else {
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
            let (id, stream) = (outside.id.unwrap_or_default(), outside.stream.unwrap_or_default());
            let shard = id.split_once(':').map_or("", |(shard, _)| shard);
            let origin = match &latest {
                Some(origin) if origin.shard == shard && origin.stream == stream => Arc::clone(origin),
                _ => Arc::new(Origin { stream, shard: shard.to_owned() }),
            };
            latest = Some(Arc::clone(&origin));
            let seconds = inside.approximate_arrival_timestamp.and_then(|time| serde_json::from_str::<f64>(time.get()).ok());
            // Lossless for the next 250,000 years.
            let arrived = seconds.map(|seconds| (seconds * 1_000.0).round() as u64);
            batch.oldest = [batch.oldest, arrived].into_iter().flatten().min();
            let position = Position::Sequence { number: SequenceNumber(number), sub: None };
            let (data, damage) = match inside.data.map(|data| serde_json::from_str::<Base64Data>(data.get())) {
                Some(Ok(data)) => (data.0, None),
                _ => {
                    let found = if inside.data.is_some() { "something else" } else { "none" };
                    let reason = format!(
                        "expected a Kinesis record with data in Base64, found {found}; the payload is the record as the event has it"
                    );
                    (raw.as_bytes().to_vec(), Some(Fault::new("undecodable", reason)))
                }
            };
            batch.records.push(Record { origin, position, data: data.into(), arrived, damage, message: None });
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
