//! `checkpoints list` and `rewind`: how far pipelines that live on are, and where they begin anew.
//!
//! Reaches the place of the checkpoints and nothing else.

mod list;
mod rewind;

use clap::{Args, Subcommand};

use super::Context;
use crate::error::{Error, Exit};
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

/// How far a shard is, in words.
fn said(progress: &Progress) -> String {
    match progress {
        Progress::Begins(Begin::Earliest) => "begins at the earliest".to_owned(),
        Progress::Begins(Begin::Latest { since }) => format!("begins with what came after {}", rfc3339(*since)),
        Progress::Begins(Begin::Timestamp { millis }) => format!("begins at {}", rfc3339(*millis)),
        Progress::Begins(Begin::After { position }) | Progress::Settled(position) => position.to_string(),
        Progress::Ended => "ended".to_owned(),
    }
}
