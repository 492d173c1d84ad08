//! What ends a command: one error type for a caller's mistake, an edge that is down and a broken promise, and the exit codes.
//!
//! A record that cannot be used is not an error: it is a [`Fault`](crate::record::Fault) and becomes a dead letter. A leaf: imports
//! nothing.

use std::fmt;
use std::process::ExitCode;

/// What a command comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Done, but something needs attention: dead letters were written, nothing was found.
    Attention = 1,
    /// Failed.
    Failed = 2,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Whose fault an error is; decides nothing but what a shell does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The command line or the configuration.
    Usage,
    /// The source cannot be read, or not further.
    Source,
    /// The sink cannot be reached, or refuses the whole pipeline.
    Sink,
    /// The dead-letter place cannot be written or read.
    DeadLetters,
    /// The place of the checkpoints cannot be used as it is.
    Checkpoints,
    /// A retry budget ran out; nothing is lost, something is not done.
    Pending,
    /// The run was interrupted.
    Interrupted,
    /// The connector's own: it panicked.
    Bug,
}

/// An error that ends a command with exit code 2.
///
/// The text says what was expected, what was found and where; `help` says what to do. Neither holds a document's content or a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Whose fault it is.
    pub kind: Kind,
    /// What happened: lower case, no final stop.
    pub what: String,
    /// What to do about it, where there is something to say.
    pub help: Option<String>,
}

impl Error {
    /// An error without advice.
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), help: None }
    }

    /// A mistake of the caller.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Kind::Usage, what)
    }

    /// Adds what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
