//! `dead-letters replay`: send letters again; what settles is removed.

use clap::Args;

use crate::cli::Context;
use crate::cli::options::{CreationOptions, DeliveryOptions, SinkOptions};
use crate::error::{Error, Exit};

/// Send dead letters again; what settles is removed
///
/// Each letter goes through the same line as in sync, with the rules that the configuration has now. One that fails again stays, with its
/// new reason. The version of each revision still holds: what the index has newer is counted as stale, and the letter is removed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync dead-letters replay 3f9a01c2 --to https://search.example.com
  revsync --config revsync.toml dead-letters replay --all

Exit codes:
  0  everything that was sent is settled
  1  something failed again and is still a dead letter
  2  not everything could be sent")]
pub(super) struct Arguments {
    /// Ids, or beginnings of ids, as dead-letters list shows them
    #[arg(value_name = "ID", required_unless_present = "all")]
    ids: Vec<String>,
    /// Send every letter
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Send letters that are older than the index remembers deletes, too: they can bring deleted documents back
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    sink: SinkOptions,
    #[command(flatten)]
    creation: CreationOptions,
    #[command(flatten)]
    delivery: DeliveryOptions,
}

// The lead writes the body: it needs run::deliver. `super::expand` turns the given ids into whole ones.
pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    context.settings(&[&arguments.sink, &arguments.creation, &arguments.delivery])?;
    let _ = (&arguments.ids, arguments.all, arguments.force);
    std::future::ready(Err(Error::usage("replay has no body on this branch"))).await
}
