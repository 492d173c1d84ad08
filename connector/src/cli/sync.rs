//! `sync SOURCE`: scan a source from its beginning to its end, deliver, report.

use clap::Args;

use super::Context;
use super::options::{CreationOptions, DeliveryOptions, SinkOptions, SourceOptions};
use crate::error::{Error, Exit};

/// Bring an index up to date with a source, and stop
///
/// Reads the source from its earliest record to the end that it has now, and writes every revision under its own version. What the index
/// already holds is counted as stale and left alone, so a run can be repeated at any time, and one that was cut short is simply started again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync sync capture/ledger.ion
      into the local index revsync.db; then: revsync search TEXT
  revsync sync capture/ --to https://search.example.com --username revsync --ca-file ca.pem
      a folder of captured files into OpenSearch; the password is in REVSYNC_PASSWORD
  gunzip -c records.json.gz | revsync sync - --to bulk:- | head
      see the exact bulk lines
  revsync --json sync capture/ | jq .dead_letters

Exit codes:
  0  everything is settled
  1  everything is settled, and something of it as a dead letter: see revsync dead-letters list
  2  not everything could be settled; the counts say how much is pending, and nothing is lost")]
pub struct Arguments {
    #[command(flatten)]
    source: SourceOptions,
    #[command(flatten)]
    sink: SinkOptions,
    #[command(flatten)]
    creation: CreationOptions,
    #[command(flatten)]
    delivery: DeliveryOptions,
}

// The lead writes the body: it needs run::deliver.
pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let settings = context.settings(&[&arguments.source, &arguments.sink, &arguments.creation, &arguments.delivery])?;
    settings.source.required()?;
    std::future::ready(Err(Error::usage("sync has no body on this branch"))).await
}
