//! The records of a Kinesis event (reference: AWS Lambda developer guide, "Using Lambda to process records from Amazon Kinesis Data Streams").
//!
//! Never takes an aggregate apart.

use std::sync::Arc;

use aws_lambda_events::encodings::Base64Data;
use revsync::error::Error;
use revsync::record::{Fault, Origin, Position, Record, SequenceNumber};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{KINESIS, of, refused};

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

/// Reads the records of a list.
pub(super) fn records(list: &[&RawValue]) -> Result<Vec<Record>, Error> {
    let mut records = Vec::with_capacity(list.len());
    let mut latest: Option<Arc<Origin>> = None;
    for (place, raw) in list.iter().map(|raw| raw.get()).enumerate() {
        let Ok(outside) = serde_json::from_str::<Outside<'_>>(raw) else {
            return Err(refused(&format!("something else in place of record {place}")));
        };
        let inside = match (outside.event_source, outside.kinesis) {
            (Some(source), _) if source != KINESIS => return Err(refused(&of(source))),
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
        let position = Position::Sequence { number: SequenceNumber(number), sub: None };
        let (data, damage) = match inside.data.map(|data| serde_json::from_str::<Base64Data>(data.get())) {
            Some(Ok(data)) => (data.0.into(), None),
            _ => {
                let found = if inside.data.is_some() { "something else" } else { "none" };
                let reason =
                    format!("expected a Kinesis record with data in Base64, found {found}; the payload is the record as the event has it");
                (raw.as_bytes().to_vec().into(), Some(Fault::new("undecodable", reason)))
            }
        };
        records.push(Record { origin, position, data, arrived, damage, message: None });
    }
    Ok(records)
}
