//! A Kinesis event in, a partial-batch reply out: event to records, records to the one delivery function, its answer to
//! `batchItemFailures`.
//!
//! Never decodes, retries or decides what is settled, and never names more than one record in a reply: Lambda resumes at the lowest
//! sequence number it is given, so only that one means anything (reference of the event and the reply: AWS Lambda developer guide,
//! "Using Lambda with Kinesis", "Configuring partial batch response").

use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::kinesis::KinesisEvent;
use aws_lambda_events::streams::KinesisEventResponse;
use revsync::error::{Error, Kind};
use revsync::record::{Origin, Position, Record, SequenceNumber};
use revsync::run::deliver::Deliver;

/// What is kept back of an invocation's time for ending what is under way and answering.
const MARGIN: Duration = Duration::from_secs(2);

/// The whole handler: delivers the records of one event through a line of its own, within the time that is left for the invocation.
///
/// What could not be settled in that time, or because an edge is down, is answered as the first record to send again.
///
/// # Errors
/// What a person has to put right (a sink that refuses the pipeline, a configuration that cannot be), and a sink that cannot be
/// finished: the whole batch fails, and Lambda sends it again.
pub async fn handle(event: KinesisEvent, line: Deliver, left: Duration) -> Result<KinesisEventResponse, Error> {
    deliver(records(event), line, left).await.map(reply)
}

/// Delivers the records of one shard. Answers the first that is not settled.
async fn deliver(records: Vec<Record>, mut line: Deliver, left: Duration) -> Result<Option<SequenceNumber>, Error> {
    let margin = MARGIN.min(left / 4);
    let mut taken = 0;
    let ended = tokio::time::timeout(left - margin, async {
        for record in &records {
            line.push(record).await?;
            taken += 1;
        }
        line.finish().await
    });
    let ended = ended.await;
    if ended != Ok(Ok(())) {
        line.stop(margin / 2).await;
    }
    let open = line.ledger().first_unsettled().map(|(_, position)| position);
    let first = first_unsettled(open.chain(records.get(taken).map(|record| &record.position)));
    match (ended, first) {
        (Ok(Ok(())), first) => Ok(first),
        // Out of time or patience, or a dead letter that could not be stored: everything before the first open record holds.
        (Err(_), Some(first)) => Ok(Some(first)),
        (Ok(Err(error)), Some(first)) if matches!(error.kind, Kind::Pending | Kind::DeadLetters) => Ok(Some(first)),
        (Ok(Err(error)), _) => Err(error),
        (Err(_), None) => Err(Error::new(Kind::Pending, "the time of the invocation ran out while the sink was being finished")),
    }
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
