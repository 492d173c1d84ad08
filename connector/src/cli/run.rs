//! `run SOURCE --to SINK`: the container worker, which follows a stream for ever.
//!
//! Opens the parts, in the order in which mistakes are found: what a person has to put right ends it at once, and what may pass is waited
//! for. Reads nothing and decides nothing itself.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::time::sleep;

use super::options::{
    CheckpointOptions, CreationOptions, DeliveryOptions, FollowOptions, HttpOptions, LISTEN, SinkOptions, SourceOptions, StopOptions,
    gather,
};
use super::{Context, line, shelf};
use crate::config::{Listen, OnDataLoss, Settings, SinkUrl, SourceUrl};
use crate::error::{Error, Exit, Kind};
use crate::run::deliver::Deliver;
use crate::run::keeper::Keeper;
use crate::run::leases::Leases;
use crate::run::reading::Reading;
use crate::run::standing::{About, Phase, Standing};
use crate::run::worker::Worker;
use crate::sink::Sink;
use crate::source::kinesis::{Address, Kinesis};
use crate::store::checkpoints::{Checkpoints, Pipeline, Shelf};
use crate::store::dead_letters::DeadLetters;

/// Follow a stream for ever, and keep an index equal to it
///
/// Reads all shards of the stream from their checkpoints on, parents before their children, and writes every revision under its own
/// version. An end that is down is waited for; what can never succeed becomes a dead letter. Checkpoints are in the sink, so another
/// machine can go on: a second one of the same name waits until the first stops, or has been silent for 30 s.
///
/// Serves /live, /ready, /metrics and a status page over HTTP. SIGTERM and SIGINT stop it: what was read is delivered, what is settled is
/// saved, and the exit code is 0.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync run 'kinesis://ledger?region=eu-west-1' --to https://search.example.com --auth aws --dead-letters file:letters.jsonl
      follow the stream ledger; then: curl localhost:8080/ready
  revsync run 'kinesis://ledger?region=us-east-1&endpoint=http://localhost:4566' --to local:ledger.db --dead-letters file:letters.jsonl
      an emulator, into a local index
  revsync run --config worker.toml
      everything from a file: revsync config example

What it needs of AWS: kinesis:DescribeStreamSummary, ListShards, GetShardIterator and GetRecords on the stream.

Exit codes:
  0  stopped by a signal; everything settled is saved
  2  something that a person has to put right; nothing is lost")]
pub struct Arguments {
    #[command(flatten)]
    source: SourceOptions,
    #[command(flatten)]
    follow: FollowOptions,
    #[command(flatten)]
    sink: SinkOptions,
    #[command(flatten)]
    creation: CreationOptions,
    #[command(flatten)]
    delivery: DeliveryOptions,
    #[command(flatten)]
    checkpoints: CheckpointOptions,
    #[command(flatten)]
    stop: StopOptions,
    #[command(flatten)]
    http: HttpOptions,
}

/// How often at least positions are saved, and it is looked whether another one has let go.
const SAVED_EVERY: Duration = Duration::from_secs(5);
/// How long a stream that cannot be reached is left alone before it is asked again.
const AGAIN: Duration = Duration::from_secs(5);

pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let settings = resolve(arguments, context)?;
    let address = address(&settings)?;
    line::warn_of_plain_deletes(&settings);
    let stop = line::stop_signal()?;
    let owner = owner();
    let standing = Arc::new(Standing::new(about(&settings, &owner)));
    // Before anything is reached: whoever asks is told what is waited for.
    let server = line::http(&settings, &standing, Listen(Some(LISTEN))).await?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        pipeline = settings.name,
        owner,
        "started: follows {address} into {}",
        settings.sink.url
    );
    let mut stopped = stop.clone();
    let prepared = tokio::select! {
        biased;
        _ = stopped.wait_for(|stop| *stop) => None,
        prepared = prepare(&settings, &address, &owner, &standing) => Some(prepared?),
    };
    let followed = match prepared {
        Some((worker, keeper)) => worker.follow(keeper, stop).await,
        None => Ok(()),
    };
    let (counts, shards) = {
        let mut state = standing.state();
        state.phase = Phase::Stopping;
        (state.counts.clone(), state.shards.len())
    };
    if let Some(server) = server {
        server.stop().await;
    }
    tracing::info!(
        received = counts.received,
        indexed = counts.indexed,
        deleted = counts.deleted,
        stale = counts.stale,
        dead_letters = counts.dead_letters,
        pending = counts.pending,
        shards,
        "stopped"
    );
    followed.map(|()| Exit::Done)
}

/// The settings; whatever has a default in a command that a person looks at has none here.
fn resolve(arguments: &Arguments, context: &Context<'_>) -> Result<Settings, Error> {
    let over = gather(&[
        &arguments.source,
        &arguments.follow,
        &arguments.sink,
        &arguments.creation,
        &arguments.delivery,
        &arguments.checkpoints,
        &arguments.stop,
        &arguments.http,
    ]);
    let file = context.file()?;
    line::refuse_missing("run", &file, &over)?;
    let settings = context.resolve(over)?;
    if settings.sink.url == SinkUrl::BulkStdout {
        let what = "run: expected http(s)://HOST:PORT, local:FILE or bulk:FILE as the sink, found bulk:-";
        return Err(Error::usage(what).help("revsync sync SOURCE --to bulk:- prints the bulk lines of a captured stream"));
    }
    line::refuse_one_place_for_two(&settings)?;
    Ok(settings)
}

fn address(settings: &Settings) -> Result<Address, Error> {
    match settings.source.required()? {
        SourceUrl::Kinesis(address) => Ok(address.clone()),
        other => Err(Error::usage(format!("run: expected a stream that goes on, kinesis://STREAM, found {other}"))
            .help("revsync sync reads a captured stream to its end")),
    }
}

/// Who this process is, for people.
fn owner() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned());
    let host = host.or_else(|| std::env::var("HOSTNAME").ok()).filter(|name| !name.is_empty());
    format!("{}:{}", host.as_deref().unwrap_or("unknown"), std::process::id())
}

fn about(settings: &Settings, owner: &str) -> About {
    About {
        pipeline: settings.name.clone(),
        source: settings.source.url.as_ref().map(ToString::to_string).unwrap_or_default(),
        sink: settings.sink.url.to_string(),
        dead_letters: settings.dead_letters.place.to_string(),
        checkpoints: settings.checkpoints.place.to_string(),
        owner: owner.to_owned(),
    }
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
