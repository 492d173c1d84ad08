//! A Kinesis event in, a partial-batch reply out: event to records, records to the one delivery function, its answer to `batchItemFailures`.
//!
//! Never decodes, retries or decides what is settled, and never names more than one record in a reply: Lambda resumes at the lowest
//! sequence number it is given, so only that one means anything (reference of the event and the reply: AWS Lambda developer guide,
//! "Using Lambda with Kinesis", "Configuring partial batch response").

use std::future::Future;
use std::sync::Arc;

use aws_lambda_events::kinesis::KinesisEvent;
use aws_lambda_events::streams::KinesisEventResponse;
use revsync::error::Error;
use revsync::record::{Origin, Position, Record, SequenceNumber};

/// The whole handler. `deliver` gets the records of one shard in their order, and answers the first of them that is not settled, `None`
/// when all are. An error fails the whole batch; Lambda then sends it again.
///
/// # Errors
///
/// Whatever `deliver` fails with.
pub async fn handle<D, F>(event: KinesisEvent, deliver: D) -> Result<KinesisEventResponse, Error>
where
    D: FnOnce(Vec<Record>) -> F,
    F: Future<Output = Result<Option<SequenceNumber>, Error>>,
{
    let records = records(event);
    if records.is_empty() {
        return Ok(reply(None));
    }
    deliver(records).await.map(reply)
}

/// The records of an event, in its order, as the producer wrote them: aggregates are taken apart later, by the codec.
///
/// The stream is the event source's ARN; the shard is named only inside `eventID`, before the colon.
pub fn records(event: KinesisEvent) -> Vec<Record> {
    let mut latest: Option<Arc<Origin>> = None;
    let mut records = Vec::with_capacity(event.records.len());
    for record in event.records {
        let id = record.event_id.unwrap_or_default();
        let shard = id.split_once(':').map_or("", |(shard, _)| shard);
        let stream = record.event_source_arn.unwrap_or_default();
        let origin = match &latest {
            Some(origin) if origin.shard == shard && origin.stream == stream => Arc::clone(origin),
            _ => Arc::new(Origin { stream, shard: shard.to_owned() }),
        };
        latest = Some(Arc::clone(&origin));
        records.push(Record {
            origin,
            position: Position::Sequence { number: SequenceNumber(record.kinesis.sequence_number), sub: None },
            data: record.kinesis.data.0.into(),
            damage: None,
        });
    }
    records
}

/// The lowest sequence number of the positions that are not settled. A part of an aggregate counts as its whole Kinesis record, which
/// comes again as one; positions of other sources have no sequence number and do not occur here.
pub fn first_unsettled<'a>(positions: impl IntoIterator<Item = &'a Position>) -> Option<SequenceNumber> {
    let number = |position: &'a Position| match position {
        Position::Sequence { number, .. } => Some(number),
        Position::Byte { .. } | Position::Offset { .. } => None,
    };
    positions.into_iter().filter_map(number).min().cloned()
}

/// The reply: nothing failed, or everything from this record on comes again.
///
/// It means something only when the event source mapping has `FunctionResponseTypes: [ReportBatchItemFailures]`; without it Lambda takes
/// any reply for success and the records are lost.
pub fn reply(first_unsettled: Option<SequenceNumber>) -> KinesisEventResponse {
    let mut reply = KinesisEventResponse::default();
    reply.set_failures(first_unsettled.map(|number| number.0));
    reply
}
