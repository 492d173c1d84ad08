//! The worker on topics of Kafka, from its parts.
//!
//! Reads nothing and decides nothing itself.

use std::sync::Arc;

use tokio::sync::watch;

use crate::cli::line;
use crate::config::{OnDataLoss, Settings, SourceUrl};
use crate::error::Error;
use crate::kafka::Address;
use crate::kafka::client::Context;
use crate::run::consumer::Consumer;
use crate::run::deliver::Deliver;
use crate::run::standing::Standing;
use crate::store::checkpoints::Place;
use crate::store::dead_letters::DeadLetters;

/// Refuses a place for checkpoints: those of a consumer group are its committed offsets.
pub(super) fn refuse_checkpoints(settings: &Settings) -> Result<(), Error> {
    match (&settings.source.url, &settings.checkpoints.place) {
        (Some(SourceUrl::Kafka(_)), Place::File(_)) => {
            let what =
                "run: the checkpoints of a pipeline on Kafka are the committed offsets of its consumer group, and have no other place";
            Err(Error::usage(what).help("leave out --checkpoints, and url under [checkpoints]"))
        }
        _ => Ok(()),
    }
}

/// Follows the topics until the stop signal.
pub(super) async fn follow(
    settings: &Settings,
    address: &Address,
    standing: &Arc<Standing>,
    stop: watch::Receiver<bool>,
) -> Result<(), Error> {
    let mut stopped = stop.clone();
    let consumer = tokio::select! {
        biased;
        _ = stopped.wait_for(|stop| *stop) => return Ok(()),
        prepared = prepare(settings, address, standing) => prepared?,
    };
    consumer.follow(stop).await
}

async fn prepare(settings: &Settings, address: &Address, standing: &Arc<Standing>) -> Result<Consumer, Error> {
    let mapping = line::mapping(settings)?;
    let sink = line::sink(settings).await?;
    let context = Context::new(&settings.source.properties, &settings.source.aws).await?;
    let dead_letters = Arc::new(DeadLetters::open(&settings.dead_letters).await?);
    standing.state().dead_letters.is_there();
    let sending = line::lasting_delivery(settings);
    let line = Deliver::new(line::decoder(settings), mapping, Arc::clone(&sink), dead_letters, sending).watched_by(standing);
    Ok(Consumer {
        address: address.clone(),
        properties: settings.source.properties.clone(),
        context,
        group: settings.group().to_owned(),
        start: settings.source.start,
        line,
        sink,
        standing: Arc::clone(standing),
        grace: settings.delivery.grace,
        stops_on_data_loss: settings.source.on_data_loss == OnDataLoss::Stop,
    })
}
