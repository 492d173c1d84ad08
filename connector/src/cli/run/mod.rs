//! `run SOURCE --to SINK`: the container worker, which follows a stream or topics for ever.
//!
//! Opens the parts, in the order in which mistakes are found: what a person has to put right ends it at once, and what may pass is waited
//! for. Reads nothing and decides nothing itself.

#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "kinesis")]
mod kinesis;

use std::sync::Arc;

use clap::Args;
use tokio::sync::watch;

use super::options::{
    CheckpointOptions, CreationOptions, DeliveryOptions, FollowOptions, HttpOptions, LISTEN, SinkOptions, SourceOptions, StopOptions,
    gather,
};
use super::{Context, line};
use crate::config::{Listen, Settings, SinkUrl, SourceUrl};
use crate::error::{Error, Exit};
use crate::run::standing::{About, Phase, Standing};

/// Follow a stream for ever, and keep an index equal to it
///
/// Reads all shards of the stream from their checkpoints on, parents before their children, and writes every revision under its own
/// version. An end that is down is waited for; what can never succeed becomes a dead letter. Checkpoints are in the sink, so another
/// machine can go on: a second one of the same name waits until the first stops, or has been silent for 30 s.
///
/// On Kafka it is a member of a consumer group, named after the pipeline or by --group: any number of them share the partitions, and the offsets
/// that the group committed are the checkpoints. An offset is committed when everything before it is settled.
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
  revsync run kafka://broker:9092/shop.item --key shop.item=sku --to https://search.example.com --dead-letters file:letters.jsonl
      follow a topic of Lindorm Streams; start as many as there are partitions, and they share them
  revsync run kafka://broker:9092/inventory.customers --to https://search.example.com --dead-letters file:letters.jsonl
      follow a topic of Debezium, whose messages tell their keys
  revsync run kafka://broker:9098/shop.item -X security.protocol=SASL_SSL -X sasl.mechanisms=OAUTHBEARER --config worker.toml
      Amazon MSK with IAM, by the credentials of the task or machine
  revsync run --config worker.toml
      everything from a file: revsync config example

What it needs of AWS: kinesis:DescribeStreamSummary, ListShards, GetShardIterator and GetRecords on the stream.
What it needs of Kafka: Describe and Read on the topics and on the group.

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

pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let settings = resolve(arguments, context)?;
    refuse_what_ends(&settings)?;
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
        "started: follows {} into {}",
        settings.source.required()?,
        settings.sink.url
    );
    let followed = follow(&settings, &owner, &standing, stop).await;
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
    #[cfg(feature = "kafka")]
    kafka::refuse_checkpoints(&settings)?;
    Ok(settings)
}

async fn follow(settings: &Settings, owner: &str, standing: &Arc<Standing>, stop: watch::Receiver<bool>) -> Result<(), Error> {
    match settings.source.required()? {
        #[cfg(feature = "kinesis")]
        SourceUrl::Kinesis(address) => kinesis::follow(settings, address, owner, standing, stop).await,
        #[cfg(feature = "kafka")]
        SourceUrl::Kafka(address) => kafka::follow(settings, address, standing, stop).await,
        other => Err(ends(other)),
    }
}

fn refuse_what_ends(settings: &Settings) -> Result<(), Error> {
    match settings.source.required()? {
        #[cfg(feature = "kinesis")]
        SourceUrl::Kinesis(_) => Ok(()),
        #[cfg(feature = "kafka")]
        SourceUrl::Kafka(_) => Ok(()),
        other => Err(ends(other)),
    }
}

fn ends(source: &SourceUrl) -> Error {
    let what = format!("run: expected a stream that goes on, kafka://HOST:PORT/TOPIC or kinesis://STREAM, found {source}");
    Error::usage(what).help("revsync sync reads a captured stream to its end")
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
        checkpoints: match &settings.source.url {
            #[cfg(feature = "kafka")]
            Some(SourceUrl::Kafka(_)) => format!("consumer group {}", settings.group()),
            _ => settings.checkpoints.place.to_string(),
        },
        owner: owner.to_owned(),
    }
}
