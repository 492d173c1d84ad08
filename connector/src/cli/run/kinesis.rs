//! The worker on a stream of Kinesis, from its parts.
//!
//! A stream that cannot be reached is waited for. Reads nothing and decides nothing itself.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::cli::{line, shelf};
use crate::config::{OnDataLoss, Settings};
use crate::error::{Error, Kind};
use crate::run::deliver::Deliver;
use crate::run::keeper::Keeper;
use crate::run::leases::Leases;
use crate::run::reading::Reading;
use crate::run::standing::Standing;
use crate::run::worker::Worker;
use crate::sink::Sink;
use crate::source::kinesis::{Address, Kinesis};
use crate::store::checkpoints::{Checkpoints, Pipeline, Shelf};
use crate::store::dead_letters::DeadLetters;

/// How often at least positions are saved, and it is looked whether another one has let go.
const SAVED_EVERY: Duration = Duration::from_secs(5);
/// How long a stream that cannot be reached is left alone before it is asked again.
const AGAIN: Duration = Duration::from_secs(5);

/// Follows the stream until the stop signal.
pub(super) async fn follow(
    settings: &Settings,
    address: &Address,
    owner: &str,
    standing: &Arc<Standing>,
    stop: watch::Receiver<bool>,
) -> Result<(), Error> {
    let mut stopped = stop.clone();
    let (worker, keeper) = tokio::select! {
        biased;
        _ = stopped.wait_for(|stop| *stop) => return Ok(()),
        prepared = prepare(settings, address, owner, standing) => prepared?,
    };
    Box::pin(worker.follow(keeper, stop)).await
}

/// Builds the worker. A stream that cannot be reached is waited for, and so are, later, a sink and the place of the checkpoints.
async fn prepare(settings: &Settings, address: &Address, owner: &str, standing: &Arc<Standing>) -> Result<(Worker, Keeper), Error> {
    let mapping = line::mapping(settings)?;
    let (sink, shelf): (Arc<dyn Sink>, Arc<dyn Shelf>) = shelf::ends(settings).await?;
    standing.state().about.checkpoints = shelf.name().to_owned();
    let dead_letters = Arc::new(DeadLetters::open(&settings.dead_letters).await?);
    standing.state().dead_letters.is_there();
    let stream = Arc::new(reached(address, settings, standing).await?);
    let sending = line::lasting_delivery(settings);
    // Pages that were read and not taken in yet; what is taken in has its own share.
    let (reading, news) = Reading::new(Arc::clone(&stream), sending.budget() / 4);
    let line = Deliver::new(line::decoder(settings), mapping, Arc::clone(&sink), dead_letters, sending).watched_by(standing);
    let pipeline = Pipeline { name: settings.name.clone(), stream: stream.arn().to_owned() };
    let leases = Leases::new(Arc::new(Checkpoints::new(shelf, pipeline)), owner.to_owned(), settings.checkpoints.takeover_after);
    let stops_on_data_loss = settings.source.on_data_loss == OnDataLoss::Stop;
    let keeper = Keeper {
        stream,
        every: (leases.heartbeat() / 2).min(SAVED_EVERY),
        leases,
        standing: Arc::clone(standing),
        sink: Arc::clone(&sink),
        start: settings.source.start,
        stops_on_data_loss,
    };
    let grace = settings.delivery.grace;
    Ok((Worker { line, reading, news, sink, standing: Arc::clone(standing), grace, stops_on_data_loss }, keeper))
}

/// Reaches the stream, however long that takes.
async fn reached(address: &Address, settings: &Settings, standing: &Standing) -> Result<Kinesis, Error> {
    loop {
        match Kinesis::connect(address, &settings.source.aws).await {
            Ok(stream) => {
                standing.state().source.is_there();
                return Ok(stream);
            }
            Err(error) if error.kind == Kind::Pending => {
                tracing::warn!("{error}; trying again");
                standing.state().source.is_not(error.what);
                sleep(AGAIN).await;
            }
            Err(error) => return Err(error),
        }
    }
}
