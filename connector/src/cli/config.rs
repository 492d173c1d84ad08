//! `config example` and `config schema`: what a configuration file can say.
//!
//! Both texts are made from the structs of the file; nothing is read.

use clap::{Args, Subcommand};

use super::Context;
use crate::config;
use crate::error::{Error, Exit};

/// Print what a configuration file can say
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Print a commented file with every key and its default
    #[command(after_help = "\
Example:
  revsync config example > revsync.toml
  revsync --config revsync.toml check")]
    Example,
    /// Print the file's JSON Schema, for editors and validators
    Schema,
}

pub(super) fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    context.terminal.print(&match arguments.what {
        What::Example => config::example(),
        What::Schema => config::schema(),
    })?;
    Ok(Exit::Done)
}
