//! `checkpoints list` and `rewind`: how far pipelines that live on are, and where they begin anew.
//!
//! Reaches the place of the checkpoints and nothing else.

mod list;
mod rewind;

use clap::{Args, Subcommand};

use super::Context;
#[cfg(feature = "kafka")]
use crate::config::{Settings, SourceUrl};
use crate::error::{Error, Exit};
#[cfg(feature = "kafka")]
use crate::kafka::Topics;
use crate::plan::checkpoint::{Begin, Progress};
use crate::plan::tombstone::rfc3339;

/// See how far revsync run is in each shard, and set it back
///
/// A checkpoint says up to where everything of a shard is settled: indexed, deleted, skipped for a counted reason, or stored as a dead
/// letter. It also says which worker reads the shard, and when that was last heard of.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    List(list::Arguments),
    Rewind(rewind::Arguments),
}

pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    match &arguments.what {
        What::List(arguments) => list::run(arguments, context).await,
        What::Rewind(arguments) => rewind::run(arguments, context).await,
    }
}

/// Refuses a pipeline on Kafka, whose checkpoints are its group's committed offsets: Kafka's own command looks at them and sets them. `what` is
/// this command, `how` what that one is told beside the group.
#[cfg(feature = "kafka")]
fn refuse_groups(context: &Context<'_>, settings: &Settings, what: &str, how: impl Fn(&Topics) -> String) -> Result<(), Error> {
    let of_environment = (context.environment)("REVSYNC_SOURCE").and_then(|source| source.parse().ok());
    let Some(SourceUrl::Kafka(address)) = settings.source.url.clone().or(of_environment) else { return Ok(()) };
    let group = match &settings.source.group {
        Some(group) => group.clone(),
        None if settings.source.url.is_some() => settings.name.clone(),
        None => address.topics.to_string(),
    };
    let error =
        Error::usage(format!("checkpoints {what}: those of a pipeline on Kafka are the committed offsets of the consumer group {group}"));
    let servers = address.bootstrap();
    Err(error.help(format!("kafka-consumer-groups --bootstrap-server {servers} --group '{group}' {}", how(&address.topics))))
}

/// How far a shard is, in words.
fn said(progress: &Progress) -> String {
    match progress {
        Progress::Begins(Begin::Earliest) => "begins at the earliest".to_owned(),
        Progress::Begins(Begin::Latest { since }) => format!("begins with what came after {}", rfc3339(*since)),
        Progress::Begins(Begin::Timestamp { millis }) => format!("begins at {}", rfc3339(*millis)),
        Progress::Begins(Begin::After { position }) | Progress::Settled(position) => position.to_string(),
        Progress::Ended => "ended".to_owned(),
        Progress::Scanned(mark) => mark.to_string(),
    }
}
