//! The command line: what can be asked for, and one file per command that does it.
//!
//! Builds the parts and hands them over; holds no decision about records, revisions or operations. Exit codes are said in one place,
//! `error::Exit`.

#[cfg(feature = "local")]
mod audit;
mod check;
mod checkpoints;
mod completions;
mod config;
mod dead_letters;
mod explain;
mod health;
mod journal;
mod kcl;
mod line;
mod log;
mod mapping;
mod opening;
mod options;
mod parts;
mod progress;
mod query;
mod report;
#[cfg(any(feature = "kafka", feature = "kinesis"))]
mod run;
mod search;
mod setup;
mod shelf;
mod sweep;
mod sync;
mod table;
mod terminal;
mod verify;
mod verify_journal;

pub use log::may_be_told;
pub use options::Global;
pub use parts::{Parts, variables as function_variables};
pub use progress::Progress;
pub use report::{Run, exit as exit_of, human as human_report};
pub use terminal::{Paint, Terminal};

use std::path::Path;
use std::time::Instant;

use clap::{Parser, Subcommand};

use crate::config::{Environment, File, LogFormat, Overrides, Settings, SinkUrl, parse};
use crate::error::{Error, Exit, Kind};
use crate::metrics::{Counts, Report};
use options::{Overriding, gather};

const AFTER_HELP: &str = "\
First steps:
  revsync sync capture/ledger.ion              read a captured stream into revsync.db, a local index
  revsync search 'Seattle'                     find documents in it
  revsync query capture/ 'SELECT * FROM stream LIMIT 5'
                                               ask a stream a question, without any index
  revsync sync capture/ --to http://localhost:9200
                                               the same into OpenSearch; run it as often as you like
  revsync sync kafka://localhost:9092/inventory.customers --to http://localhost:9200
                                               a topic of Debezium, up to its present end
  revsync sync kafka://localhost:9092/shop.item --key shop.item=sku --to http://localhost:9200
                                               one of Lindorm Streams, with the columns of its key
  revsync search MX-200 --to http://localhost:9200
                                               find what came of them; revsync run follows a topic

Every option can also come from the environment: REVSYNC_ and its name (REVSYNC_TO, REVSYNC_AUTH).
An option comes before its variable, and both come before the file of --config. The password of
the sink comes only from REVSYNC_PASSWORD, a file or a secret of AWS Secrets Manager.

Exit codes:
  0  done
  1  done, but something needs attention: dead letters were written, nothing was found
  2  failed; what was not settled is counted as pending, nothing is lost";

/// Keeps a search index equal to a stream of document revisions.
///
/// Every revision becomes one index operation under the document's id and the revision's own version, so that the index itself refuses
/// what is stale or came twice. Any run can be repeated, interrupted and mixed with others: the index always comes to the newest
/// revision of each document.
#[derive(Debug, Parser)]
#[command(name = "revsync", version, after_help = AFTER_HELP, after_long_help = AFTER_HELP, max_term_width = 120)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Cli {
    #[expect(missing_docs, reason = "clap would show it as help")]
    #[command(flatten)]
    pub global: Global,
    #[expect(missing_docs, reason = "clap would show it as help")]
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "each is documented by its arguments, which clap shows")]
pub enum Command {
    Sync(sync::Arguments),
    #[cfg(any(feature = "kafka", feature = "kinesis"))]
    Run(run::Arguments),
    Kcl(kcl::Arguments),
    Explain(explain::Arguments),
    Query(query::Arguments),
    Search(search::Arguments),
    Mapping(mapping::Arguments),
    Setup(setup::Arguments),
    Check(check::Arguments),
    Verify(verify::Arguments),
    Journal(journal::Arguments),
    VerifyJournal(verify_journal::Arguments),
    Sweep(sweep::Arguments),
    Config(config::Arguments),
    DeadLetters(dead_letters::Arguments),
    Health(health::Arguments),
    Checkpoints(checkpoints::Arguments),
    Completions(completions::Arguments),
}

impl Command {
    /// Whether it goes on until it is stopped, with nobody looking on: what it does is in its log then.
    fn lives_on(&self) -> bool {
        match self {
            #[cfg(any(feature = "kafka", feature = "kinesis"))]
            Self::Run(_) => true,
            Self::Kcl(_) => true,
            _ => false,
        }
    }
}

/// What every command is handed.
pub struct Context<'a> {
    /// Where it speaks.
    pub terminal: Terminal,
    global: &'a Global,
    environment: Environment<'a>,
}

impl Context<'_> {
    /// The settings: the options of a command over the configuration file.
    ///
    /// # Errors
    /// The file cannot be read, or says something that cannot be.
    fn settings(&self, options: &[&dyn Overriding]) -> Result<Settings, Error> {
        self.resolve(gather(options))
    }

    fn resolve(&self, over: Overrides) -> Result<Settings, Error> {
        Settings::resolve(self.file()?, over, self.environment)
    }

    /// Ends a run: prints what it came to, and says its exit code or what ended it early.
    fn conclude(
        &self,
        settings: &Settings,
        source: &str,
        counts: &Counts,
        started: Instant,
        result: Result<(), Error>,
    ) -> Result<Exit, Error> {
        self.report(&Run {
            counts,
            seconds: started.elapsed().as_secs_f64(),
            source,
            sink: &settings.sink.url,
            dead_letters: &settings.dead_letters.place,
            complete: result.is_ok(),
        })?;
        result.map(|()| exit_of(counts))
    }

    /// Prints what a run came to: on standard output, or on standard error where that is full of bulk lines.
    fn report(&self, run: &Run<'_>) -> Result<(), Error> {
        let text = if self.terminal.json {
            let report = Report { counts: run.counts, seconds: run.seconds };
            let text = serde_json::to_string(&report);
            text.map_err(|error| Error::new(Kind::Usage, format!("the counts cannot be written as JSON: {error}")))? + "\n"
        } else {
            human_report(run, if *run.sink == SinkUrl::BulkStdout { self.terminal.paint_err } else { self.terminal.paint })
        };
        if *run.sink == SinkUrl::BulkStdout {
            self.terminal.say(&text);
            return Ok(());
        }
        self.terminal.print(&text)
    }

    fn file(&self) -> Result<File, Error> {
        file(self.global.config.as_deref(), self.environment)
    }
}

/// Reads the configuration file, where one is named.
fn file(path: Option<&Path>, environment: Environment<'_>) -> Result<File, Error> {
    let Some(path) = path else { return Ok(File::default()) };
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| {
        Error::usage(format!("configuration file {name}: {error}")).help("revsync config example prints a file to begin with")
    })?;
    parse(&text, &name, environment)
}

/// Does what the command line asks for. `environment` is the only way in which the environment is read, but for what the option parser did.
pub async fn run(cli: &Cli, environment: Environment<'_>) -> Exit {
    let context = Context { terminal: Terminal::of_process(&cli.global, environment), global: &cli.global, environment };
    let format = log_format(&cli.global, environment);
    log::start(&cli.global, format, cli.command.lives_on(), &context.terminal, environment);
    let done = match &cli.command {
        Command::Sync(arguments) => Box::pin(sync::run(arguments, &context)).await,
        #[cfg(any(feature = "kafka", feature = "kinesis"))]
        Command::Run(arguments) => Box::pin(run::run(arguments, &context)).await,
        Command::Kcl(arguments) => kcl::run(arguments, &context).await,
        Command::Explain(arguments) => explain::run(arguments, &context).await,
        Command::Query(arguments) => Box::pin(query::run(arguments, &context)).await,
        Command::Search(arguments) => search::run(arguments, &context).await,
        Command::Mapping(arguments) => mapping::run(arguments, &context).await,
        Command::Setup(arguments) => setup::run(arguments, &context).await,
        Command::Check(arguments) => check::run(arguments, &context).await,
        Command::Verify(arguments) => Box::pin(verify::run(arguments, &context)).await,
        Command::Journal(arguments) => journal::run(arguments, &context).await,
        Command::VerifyJournal(arguments) => verify_journal::run(arguments, &context).await,
        Command::Sweep(arguments) => sweep::run(arguments, &context).await,
        Command::Config(arguments) => config::run(arguments, &context),
        Command::DeadLetters(arguments) => dead_letters::run(arguments, &context).await,
        Command::Health(arguments) => health::run(arguments, &context).await,
        Command::Checkpoints(arguments) => checkpoints::run(arguments, &context).await,
        Command::Completions(arguments) => completions::run(arguments, &context),
    };
    done.unwrap_or_else(|error| {
        match format {
            LogFormat::Text => context.terminal.fail(&error),
            LogFormat::Json => tracing::error!(help = error.help, "{}", error.what),
        }
        Exit::Failed
    })
}

/// The form of the log. A file that cannot be read is told of by the command.
fn log_format(global: &Global, environment: Environment<'_>) -> LogFormat {
    let written = || file(global.config.as_deref(), environment).map(|file| file.log_format).unwrap_or_default();
    global.log_format.unwrap_or_else(written)
}
