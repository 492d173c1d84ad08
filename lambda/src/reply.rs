//! The reply: what of a batch has to come again (reference: AWS Lambda developer guide, "Configuring partial batch response with Kinesis Data
//! Streams and Lambda" and "Configuring error handling controls for Kafka event sources").
//!
//! Never names more than Lambda goes by: of a shard it resumes at the lowest sequence number that it is given, of each partition at the lowest offset.
//! It means something only when the event source mapping has `FunctionResponseTypes: [ReportBatchItemFailures]`, which for Kafka it can have only in
//! provisioned mode; without it Lambda takes any reply for success and the records are lost.

use std::collections::BTreeMap;

use aws_lambda_events::streams::KinesisEventResponse;
use revsync::record::Position;
use serde::Serialize;

/// The reply in the bytes that Lambda reads.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Reply {
    /// To an event of Kinesis, and to one of which everything is settled.
    Kinesis(KinesisEventResponse),
    /// To an event of Kafka.
    Kafka(KafkaEventResponse),
}

/// The reply to an event of Kafka, for which `aws_lambda_events` 1.2.1 has no type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KafkaEventResponse {
    batch_item_failures: Vec<KafkaBatchItemFailure>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct KafkaBatchItemFailure {
    item_identifier: KafkaItemIdentifier,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct KafkaItemIdentifier {
    /// The topic and the partition, as the event's lists of records are named: `orders-0`.
    partition: String,
    offset: i64,
}

/// Where Lambda has to go on, of positions that are not settled: the lowest sequence number, or the lowest offset of each partition.
///
/// A part of an aggregate counts as its whole Kinesis record, which comes again as one. Positions of captured streams do not occur here.
pub fn first_unsettled<'a>(positions: impl IntoIterator<Item = &'a Position>) -> Vec<Position> {
    let mut lowest = BTreeMap::new();
    for position in positions {
        let (place, whole) = match position {
            Position::Sequence { number, .. } => (None, Position::Sequence { number: number.clone(), sub: None }),
            Position::Offset { topic, partition, .. } => (Some((topic, *partition)), position.clone()),
            Position::Byte { .. } => continue,
        };
        let first = lowest.entry(place).or_insert_with(|| whole.clone());
        if whole < *first {
            *first = whole;
        }
    }
    lowest.into_values().collect()
}

/// The reply that has Lambda go on at these positions, which are of one source; with none, everything is done.
pub fn reply(first_unsettled: &[Position]) -> Reply {
    let failures: Vec<_> = first_unsettled.iter().filter_map(failure).collect();
    if !failures.is_empty() {
        return Reply::Kafka(KafkaEventResponse { batch_item_failures: failures });
    }
    let mut reply = KinesisEventResponse::default();
    reply.set_failures(first_unsettled.iter().filter_map(|position| match position {
        Position::Sequence { number, .. } => Some(number.0.clone()),
        Position::Byte { .. } | Position::Offset { .. } => None,
    }));
    Reply::Kinesis(reply)
}

fn failure(position: &Position) -> Option<KafkaBatchItemFailure> {
    let Position::Offset { topic, partition, offset } = position else { return None };
    Some(KafkaBatchItemFailure { item_identifier: KafkaItemIdentifier { partition: format!("{topic}-{partition}"), offset: *offset } })
}
