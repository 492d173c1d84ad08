//! An event of Kinesis or of Kafka in, a partial-batch reply out: event to records, records to the one delivery function, its answer to
//! `batchItemFailures`.
//!
//! Never decodes, retries or decides what is settled. `event` reads what comes in, `reply` is what goes out.

mod event;
mod reply;

use std::time::Duration;

use revsync::error::{Error, Kind};
use revsync::panics::guard;
use revsync::record::{Position, Record};
use revsync::run::deliver::Deliver;
use tokio::time::timeout;

pub use event::Batch;
pub use reply::{KafkaEventResponse, Reply, first_unsettled, reply};

/// What is kept back of an invocation's time, where that is long enough: one half for requests that are with the sink and letters that are
/// being stored to come to their end, which spares sending them again; the other for abandoning the rest and for the answer to arrive. A bulk
/// request and a batch of letters take well below a second on a day on which they come to an end at all, and answering takes milliseconds, on
/// the smallest function some tens of them. A longer margin would take from the work of every invocation that runs to its deadline.
const MARGIN: Duration = Duration::from_secs(2);

/// The least part of an invocation's time that is kept back, where all of it is short: Lambda's shortest time-out is one second.
const MARGIN_PART: u32 = 4;

/// What a batch comes to where the function does not fail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Where to go on: the first record of the shard, or of each partition, that has to be sent again; none where nothing has.
    pub first: Vec<Position>,
    /// Why it has to be sent again.
    pub why: Option<Error>,
}

/// The whole handler: delivers the records of one event through a line of their own, within the time that is left for the invocation.
///
/// What could not be settled in that time, or because an edge is down, is answered as the first records to send again. Where no time is left,
/// nothing is begun. Nothing of the line is under way any more when this returns: the process may be frozen then.
///
/// # Errors
/// What a person has to put right (a sink that refuses the pipeline, a configuration that cannot be, a bug), and a sink that cannot be
/// finished: the whole batch fails, and Lambda sends it again.
pub async fn handle(batch: Batch, line: &mut Deliver, left: Duration) -> Result<Answer, Error> {
    match guard(deliver(batch.records, line, left)).await {
        Ok(delivered) => delivered,
        Err(panic) => {
            let _ = guard(line.abandon()).await;
            Err(Error::new(Kind::Bug, panic.reason).help("report it with this place; the batch comes again"))
        }
    }
}

/// Delivers the records. Answers the first that are not settled.
async fn deliver(records: Vec<Record>, line: &mut Deliver, left: Duration) -> Result<Answer, Error> {
    let late = |what: &str| Some(Error::new(Kind::Pending, what));
    if left.is_zero() {
        let why = late("no time was left for the invocation when it began");
        return Ok(Answer { first: first_unsettled(records.iter().map(|record| &record.position)), why });
    }
    let margin = MARGIN.min(left / MARGIN_PART);
    let mut taken = 0;
    let ended = timeout(left - margin, async {
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
    let first = first_unsettled(open.chain(records[taken..].iter().map(|record| &record.position)));
    match ended {
        Ok(Ok(())) => Ok(Answer { first, why: None }),
        // Out of time or patience, or a dead letter that could not be stored: everything before the first open records holds.
        Err(_) if !first.is_empty() => Ok(Answer { first, why: late("the time of the invocation ran out") }),
        Ok(Err(error)) if !first.is_empty() && matches!(error.kind, Kind::Pending | Kind::DeadLetters) => {
            // What is told of a run is to repeat it, which Lambda does by itself.
            let why = if error.kind == Kind::Pending { error.help("nothing is lost: Lambda sends these records again") } else { error };
            Ok(Answer { first, why: Some(why) })
        }
        Ok(Err(error)) => Err(error),
        Err(_) => Err(Error::new(Kind::Pending, "the time of the invocation ran out while the sink was being finished")),
    }
}

/// The `errorType` of an error of the function, by which an alarm or a filter can tell it.
pub fn error_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Usage => "Revsync.Configuration",
        Kind::Source => "Revsync.Event",
        Kind::Sink => "Revsync.Sink",
        Kind::DeadLetters => "Revsync.DeadLetters",
        Kind::Checkpoints => "Revsync.Checkpoints",
        Kind::Pending => "Revsync.Pending",
        Kind::Interrupted => "Revsync.Interrupted",
        Kind::Bug => "Revsync.Bug",
    }
}
