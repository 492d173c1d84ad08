//! `completions SHELL`: the script that lets a shell complete commands and options.
//!
//! Made from the command line itself; never installs anything.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, Context};
use crate::error::{Error, Exit};

/// Print a script with which a shell completes commands and options
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync completions bash > /etc/bash_completion.d/revsync
  revsync completions zsh  > \"${fpath[1]}/_revsync\"
  revsync completions fish > ~/.config/fish/completions/revsync.fish")]
pub struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "revsync", &mut script);
    context.terminal.print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
