//! The parts of the line for a program without a command line, the Lambda function: every option comes from the environment.
//!
//! The names are those of the options, REVSYNC_ before them; a name that is a misspelt one is refused, for it would be missing without
//! a word. Opens no source: the events are handed in. Starts no log.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::error::{ContextKind, ContextValue};
use clap::{Command, CommandFactory, Parser};
use tokio::time::timeout;

use super::options::{CreationOptions, DeliveryOptions, Global, SinkOptions, SourceOptions};
use super::{file, gather, line};
use crate::config::{File, Overrides, Settings, SinkUrl, nearest};
use crate::error::{Error, Kind};
use crate::plan::mapping::Mapping;
use crate::run::deliver::Deliver;
use crate::run::learned::Learned;
use crate::sink::Sink;
use crate::store::dead_letters::{Config, DeadLetters, Place};

#[derive(Debug, Parser)]
struct Variables {
    #[command(flatten)]
    global: Global,
    #[command(flatten)]
    source: SourceOptions,
    #[command(flatten)]
    sink: SinkOptions,
    #[command(flatten)]
    creation: CreationOptions,
    #[command(flatten)]
    delivery: DeliveryOptions,
}

/// What begins the name of each variable.
const OURS: &str = "REVSYNC_";
/// The variable that is no option, because other processes can read a command line.
const PASSWORD: &str = "REVSYNC_PASSWORD";
/// Options that mean nothing in a function, and what stands in their place.
const SENSELESS: [(&str, &str); 6] = [
    ("REVSYNC_SOURCE", "the event source mapping hands the records in"),
    ("REVSYNC_PROPERTY", "the event source mapping is what connects to Kafka"),
    ("REVSYNC_JSON", "the log is JSON where AWS_LAMBDA_LOG_FORMAT is not Text"),
    ("REVSYNC_LOG_FORMAT", "the form of the log is said by the function's logging configuration, AWS_LAMBDA_LOG_FORMAT"),
    ("REVSYNC_QUIET", "how much is logged is said by the function's logging configuration, or RUST_LOG"),
    ("REVSYNC_VERBOSE", "how much is logged is said by the function's logging configuration, or RUST_LOG"),
];
/// How long the place for dead letters may take to be opened: Lambda ends a start after 10 s, and then nobody hears why.
const START: Duration = Duration::from_secs(8);
/// The file of the package that is read where REVSYNC_CONFIG names none.
const FILE: &str = "revsync.toml";

/// The names of all variables of ours that a function reads.
pub fn variables() -> Vec<String> {
    let command = Variables::command();
    let named = command.get_arguments().filter_map(|argument| Some(argument.get_env()?.to_str()?.to_owned()));
    named.filter(|name| SENSELESS.iter().all(|(senseless, _)| senseless != name)).chain([PASSWORD.to_owned()]).collect()
}

/// What is built once and used for every event: the client with its connections, the place for dead letters.
pub struct Parts {
    settings: Settings,
    /// The rules, and the tables that were seen under them: two of one index may come with different events.
    mapping: Mutex<Mapping>,
    sink: Arc<dyn Sink>,
    learned: Arc<Learned>,
    dead_letters: Arc<DeadLetters>,
}

impl Parts {
    /// Builds the parts. `variables` is the environment of this process.
    ///
    /// # Errors
    /// A variable or the configuration file says something that cannot be, or is misspelt; no sink or no place for dead
    /// letters is named (here nobody would look at a default); the place for dead letters cannot be written; a password cannot be read.
    pub async fn from_environment(variables: &BTreeMap<String, String>) -> Result<Self, Error> {
        let environment = |name: &str| variables.get(name).cloned();
        refuse_misspelt(variables.keys())?;
        let given = Variables::try_parse_from(["revsync-lambda"]).map_err(|error| refused(&error))?;
        let mut over = gather(&[&given.source, &given.sink, &given.creation, &given.delivery]);
        let path = given.global.config.or_else(|| packaged(variables.get("LAMBDA_TASK_ROOT")?));
        let file = file(path.as_deref(), &environment)?;
        over.name = over.name.or_else(|| file.name.clone()).or_else(|| environment("AWS_LAMBDA_FUNCTION_NAME"));
        refuse_missing(&file, &over)?;
        let settings = Settings::resolve(file, over, &environment)?;
        if settings.sink.url == SinkUrl::BulkStdout {
            let what = "sink: expected http(s)://HOST:PORT, found bulk:-: what a function prints is its log, and would hold documents";
            return Err(Error::usage(what).help("set REVSYNC_TO, such as REVSYNC_TO=https://search.example.com"));
        }
        if let Place::File(path) = &settings.dead_letters.place {
            tracing::warn!("dead letters: file:{} is gone when this environment of the function ends", path.display());
        }
        line::warn_of_plain_deletes(&settings);
        let mapping = Mutex::new(line::mapping(&settings)?);
        let learned = Arc::new(Learned::new(&line::delivery(&settings)));
        // At once: the first event waits for both.
        let (sink, dead_letters) = tokio::try_join!(line::sink(&settings), dead_letters(&settings.dead_letters))?;
        Ok(Self { sink, mapping, learned, settings, dead_letters: Arc::new(dead_letters) })
    }

    /// The pipeline's name.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// A line for one event.
    pub fn line(&self) -> Deliver {
        let (sink, learned, dead_letters) = (Arc::clone(&self.sink), Arc::clone(&self.learned), Arc::clone(&self.dead_letters));
        let mapping = self.mapping.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Deliver::continuing(line::decoder(&self.settings), mapping, sink, learned, dead_letters, line::delivery(&self.settings))
    }

    /// Ends a line whose event was answered.
    pub fn end(&self, line: Deliver) {
        *self.mapping.lock().unwrap_or_else(PoisonError::into_inner) = line.into_mapping();
    }
}

/// Opens the place for dead letters, in time for the start of a function to say what is wrong with it.
async fn dead_letters(config: &Config) -> Result<DeadLetters, Error> {
    timeout(START, DeadLetters::open(config)).await.unwrap_or_else(|_| {
        let what = format!("dead letters: {} cannot be reached: no answer in {} s", config.place, START.as_secs());
        let help =
            "a function in a VPC reaches SQS and S3 through endpoints of the VPC or a NAT gateway, and security groups have to allow it";
        Err(Error::new(Kind::DeadLetters, what).help(help))
    })
}

/// The configuration file beside the binary, where there is one.
fn packaged(root: &String) -> Option<PathBuf> {
    let path = Path::new(root).join(FILE);
    path.is_file().then_some(path)
}

/// Refuses variables that are a misspelt one of ours, and tells of the others that begin like ours: they are other programs' business.
fn refuse_misspelt<'a>(names: impl Iterator<Item = &'a String>) -> Result<(), Error> {
    let known = variables();
    for name in names.filter(|name| name.starts_with(OURS)) {
        if known.contains(name) {
            continue;
        }
        if let Some((_, instead)) = SENSELESS.iter().find(|(senseless, _)| senseless == name) {
            tracing::warn!("{name} means nothing in a function and is not read: {instead}");
            continue;
        }
        let words = || known.iter().filter_map(|known| known.strip_prefix(OURS));
        if let Some(near) = nearest(&name[OURS.len()..], words()) {
            let what = format!("expected a variable that the function reads, found {name}");
            return Err(Error::usage(what).help(format!("did you mean {OURS}{near}?")));
        }
        tracing::warn!("{name} is no variable of the function and is not read; known are {}", known.join(", "));
    }
    Ok(())
}

/// Refuses what has a default in a command only.
fn refuse_missing(file: &File, over: &Overrides) -> Result<(), Error> {
    if over.sink.is_none() && file.sink.url.is_none() {
        return Err(Error::usage("no sink is named").help("set REVSYNC_TO, such as REVSYNC_TO=https://search.example.com"));
    }
    if over.dead_letters.is_none() && file.dead_letters.url.is_none() {
        let help = "set REVSYNC_DEAD_LETTERS to a place that outlives the function: sqs://HOST/ACCOUNT/QUEUE, with \
                    REVSYNC_DEAD_LETTERS_LARGE=s3://BUCKET/PREFIX for what is larger than a message, or s3://BUCKET/PREFIX alone";
        return Err(Error::usage("no place for dead letters is named").help(help));
    }
    Ok(())
}

/// A value that the option parser refuses, by the name of its variable.
fn refused(error: &clap::Error) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
        _ => None,
    };
    let (argument, value) = (text(ContextKind::InvalidArg), text(ContextKind::InvalidValue));
    let (Some(argument), Some(value)) = (argument, value) else { return Error::usage(error.to_string().trim_end().to_owned()) };
    let mut command = Variables::command();
    // Before that, an argument does not know how it is shown.
    command.build();
    let name = variable(&command, &argument).unwrap_or(argument);
    match (text(ContextKind::ValidValue), std::error::Error::source(error)) {
        (Some(values), _) => Error::usage(format!("{name}: expected one of {values}, found {value:?}")),
        (None, Some(why)) => Error::usage(format!("{name}: found {value:?}: {why}")),
        (None, None) => Error::usage(format!("{name}: found {value:?}, which it cannot be")),
    }
}

/// The variable of an argument, which the parser names as `--auth <AUTH>`.
fn variable(command: &Command, shown: &str) -> Option<String> {
    let argument = command.get_arguments().find(|argument| argument.to_string() == shown)?;
    Some(argument.get_env()?.to_str()?.to_owned())
}
