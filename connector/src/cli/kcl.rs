//! `kcl`: the line as a child of the MultiLangDaemon.
//!
//! Standard output is the daemon's from the first moment on: whatever else of this process would write there goes to standard error.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal};
use std::os::fd::AsFd;
use std::process;
use std::sync::Arc;

use clap::Args;

use super::options::{CreationOptions, DeliveryOptions, HttpOptions, RecordOptions, SinkOptions, StopOptions, gather};
use super::{Context, line};
#[cfg(feature = "kinesis")]
use crate::config::SourceUrl;
use crate::config::{Listen, Settings, SinkUrl};
use crate::error::{Error, Exit, Kind};
use crate::run::deliver::Deliver;
use crate::run::kcl::{Options, kcl};
use crate::run::standing::{About, Standing};
use crate::source::multilang::Daemon;
use crate::store::dead_letters::DeadLetters;

/// Bytes that are read from the daemon at once.
const READ: usize = 256 * 1024;

/// Follow one shard of a Kinesis stream, as a child of the Kinesis Client Library
///
/// Is started by the MultiLangDaemon of the KCL, once for each shard that the daemon holds the lease of, and speaks with it over standard
/// input and output. The daemons of a fleet share the shards of a stream among them, and take over from each other; they store how far
/// each shard is in a table of DynamoDB. A position is checkpointed there when everything before it is settled.
#[derive(Debug, Args)]
#[command(after_help = "\
In the properties file of the MultiLangDaemon:
  executableName = revsync --config revsync.toml kcl

The section \"A fleet on the Kinesis Client Library\" of the README has the whole file, and says how to start the
daemon.

Exit codes:
  0  the daemon closed standard input, or a stop signal came
  2  the configuration is wrong, or what came from the daemon could not be understood; the daemon ends with it")]
pub struct Arguments {
    #[command(flatten)]
    records: RecordOptions,
    #[command(flatten)]
    sink: SinkOptions,
    #[command(flatten)]
    creation: CreationOptions,
    #[command(flatten)]
    delivery: DeliveryOptions,
    #[command(flatten)]
    stop: StopOptions,
    #[command(flatten)]
    http: HttpOptions,
}

pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    if io::stdin().is_terminal() {
        return Err(Error::usage("kcl: expected the MultiLangDaemon of the Kinesis Client Library on standard input, found a terminal")
            .help("it starts this command by itself; the README says how, under \"A fleet on the Kinesis Client Library\""));
    }
    let answers = take_standard_output().map_err(|error| Error::new(Kind::Usage, format!("standard output: {error}")))?;
    let settings = resolve(arguments, context)?;
    line::warn_of_plain_deletes(&settings);
    let stop = line::stop_signal()?;
    let daemon = Daemon::over(BufReader::with_capacity(READ, io::stdin()), answers)?;
    let standing = Arc::new(Standing::new(about(&settings)));
    // A port of its own has to be asked for: there is a child for each shard.
    let server = line::http(&settings, &standing, Listen(None)).await?;
    let gone = daemon.gone();
    let mut stopped = stop.clone();
    let prepared = tokio::select! {
        biased;
        _ = stopped.wait_for(|stop| *stop) => return Ok(Exit::Done),
        () = gone => return Ok(Exit::Done),
        prepared = prepare(&settings) => prepared,
    };
    let mut deliver = prepared?.watched_by(&standing);
    standing.state().dead_letters.is_there();
    let options = Options { stream: stream(&settings), linger: settings.delivery.linger, grace: settings.delivery.grace };
    kcl(daemon, &mut deliver, &standing, options, stop).await?;
    if let Some(server) = server {
        server.stop().await;
    }
    let counts = deliver.counts();
    tracing::info!(received = counts.received, settled = counts.settled(), dead_letters = counts.dead_letters, "ended");
    Ok(Exit::Done)
}

/// Standard output, which from now on is standard error to the rest of the process.
fn take_standard_output() -> io::Result<File> {
    let answers = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(File::from(answers))
}

/// The settings; whatever has a default in a command that a person looks at has none here.
fn resolve(arguments: &Arguments, context: &Context<'_>) -> Result<Settings, Error> {
    let over = gather(&[&arguments.records, &arguments.sink, &arguments.creation, &arguments.delivery, &arguments.stop, &arguments.http]);
    let file = context.file()?;
    line::refuse_missing("kcl", &file, &over)?;
    if over.name.is_none() && file.name.is_none() && file.source.url.is_none() {
        let help = "the daemon does not say which stream it reads: name the pipeline with --name, or as name in the file of --config";
        return Err(Error::usage("kcl: the pipeline has no name").help(help));
    }
    let settings = context.resolve(over)?;
    if matches!(settings.sink.url, SinkUrl::BulkFile(_) | SinkUrl::BulkStdout) {
        let what = format!("kcl: expected http(s)://HOST:PORT or local:FILE as the sink, found {}", settings.sink.url);
        return Err(Error::usage(what).help("there is a child for each shard, and each would write over what the others wrote"));
    }
    line::refuse_one_place_for_two(&settings)?;
    Ok(settings)
}

/// Builds the line. Reaches no server but that of the dead letters: a sink that is down is waited for.
async fn prepare(settings: &Settings) -> Result<Deliver, Error> {
    let mapping = line::mapping(settings)?;
    let dead_letters = Arc::new(DeadLetters::open(&settings.dead_letters).await?);
    let sink = line::sink(settings).await?;
    Ok(Deliver::new(line::decoder(settings), mapping, sink, dead_letters, line::lasting_delivery(settings)))
}

/// The stream as its positions name it: by the configuration where it says so, for the daemon does not.
fn stream(settings: &Settings) -> String {
    match &settings.source.url {
        #[cfg(feature = "kinesis")]
        Some(SourceUrl::Kinesis(address)) => address.stream.clone(),
        _ => settings.name.clone(),
    }
}

fn about(settings: &Settings) -> About {
    About {
        pipeline: settings.name.clone(),
        source: stream(settings),
        sink: settings.sink.url.to_string(),
        dead_letters: settings.dead_letters.place.to_string(),
        checkpoints: "the lease table of the MultiLangDaemon".to_owned(),
        owner: format!("process {}", process::id()),
    }
}
