//! The records of an event of Kafka, of any number of partitions.

use std::sync::Arc;

use revsync::error::Error;
use revsync::record::{Origin, Position, Record};
use revsync::source::kafka_event::{KafkaRecord, Nameless};

use super::refused;

/// Reads the records of all partitions.
pub(super) fn records<'a>(list: impl Iterator<Item = &'a str>) -> Result<Vec<Record>, Error> {
    let mut records = Vec::new();
    let mut latest: Option<(i32, Arc<Origin>)> = None;
    for (place, record) in list.enumerate() {
        let record = KafkaRecord::read(record).map_err(|nameless| match nameless {
            Nameless::SomethingElse => refused(&format!("something else in place of record {place}")),
            Nameless::WithoutPosition => refused(&format!("no topic, partition and offset in record {place}")),
        })?;
        let KafkaRecord { topic, partition, offset, arrived, data, message, damage } = record;
        let origin = match &latest {
            Some((shard, origin)) if *shard == partition && origin.stream == topic => Arc::clone(origin),
            _ => Arc::new(Origin { stream: topic.clone(), shard: partition.to_string() }),
        };
        latest = Some((partition, Arc::clone(&origin)));
        records.push(Record { origin, position: Position::Offset { topic, partition, offset }, data, arrived, damage, message });
    }
    Ok(records)
}
