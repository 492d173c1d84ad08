//! `explain SOURCE`: decode and plan without sending; one line per unit.

use clap::Args;

use super::Context;
use super::options::SourceOptions;
use crate::error::{Error, Exit};

/// Say for every unit of a source what would be done with it, and why
///
/// Decodes and plans as sync does, and sends nothing. Exactly one line per unit: where it is, what it is, what would be done.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync explain capture/ledger.ion | less -S
  revsync --config revsync.toml explain | grep skipped
      see what the rules of a configuration do before they do it

Exit codes:
  0  every unit can be used
  1  something would become a dead letter
  2  the source cannot be read, or not to its end")]
pub struct Arguments {
    #[command(flatten)]
    source: SourceOptions,
}

// The lead writes the body.
pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let settings = context.settings(&[&arguments.source])?;
    settings.source.required()?;
    std::future::ready(Err(Error::usage("explain has no body on this branch"))).await
}
