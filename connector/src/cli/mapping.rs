//! `mapping SOURCE`: the index mapping that fits what was seen.

use clap::Args;

use super::Context;
use super::options::SourceOptions;
use crate::error::{Error, Exit};

/// Print the index mapping that fits the documents of a source
///
/// Looks at every document and prints the mapping that takes them all, with the fields that contradict themselves named on standard error.
/// It is meant to be read, kept in a file and named by a rule of the configuration.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync mapping capture/ledger.ion --table VehicleRegistration > vehicle_registration.json
      then, in the configuration:  [[table]]
                                   name = \"VehicleRegistration\"
                                   mapping = \"vehicle_registration.json\"

Exit codes:
  0  one mapping takes everything that was seen
  1  fields contradict themselves, or there were no documents
  2  the source cannot be read, or not to its end")]
pub struct Arguments {
    #[command(flatten)]
    source: SourceOptions,
    /// Only this table; without it, one mapping per index
    #[arg(long, value_name = "TABLE", env = "REVSYNC_TABLE", hide_env_values = true)]
    table: Option<String>,
}

// The lead writes the body: it needs the source and the codec.
pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let settings = context.settings(&[&arguments.source])?;
    settings.source.required()?;
    let _ = &arguments.table;
    std::future::ready(Err(Error::usage("mapping has no body on this branch"))).await
}
