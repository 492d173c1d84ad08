//! The parts of the line for a program without a command line, the Lambda handler: every option comes from the environment.
//!
//! The names are those of the options, REVSYNC_ before them. Opens no source: the events are handed in.

use std::sync::Arc;

use clap::Parser;

use super::options::{CreationOptions, DeliveryOptions, Global, SinkOptions, SourceOptions};
use super::{Context, Terminal, gather, line, log};
use crate::config::{Environment, Settings};
use crate::error::Error;
use crate::plan::mapping::Mapping;
use crate::run::deliver::Deliver;
use crate::run::learned::Learned;
use crate::sink::Sink;
use crate::store::dead_letters::DeadLetters;

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

/// What is built once and used for every event: the client with its connections, the place for dead letters.
pub struct Parts {
    settings: Settings,
    /// The rules, under which nothing was seen yet.
    mapping: Mapping,
    sink: Arc<dyn Sink>,
    learned: Arc<Learned>,
    dead_letters: Arc<DeadLetters>,
}

impl Parts {
    /// Builds the parts, and starts the log.
    ///
    /// # Errors
    /// A variable or the configuration file says something that cannot be, no sink or no place for dead letters is named (here nobody
    /// would look at a default), or the place for dead letters cannot be written.
    pub async fn from_environment(environment: Environment<'_>) -> Result<Self, Error> {
        let variables = Variables::try_parse_from(["revsync-lambda"]).map_err(|error| Error::usage(error.to_string()))?;
        let global = &variables.global;
        let context = Context { terminal: Terminal::of_process(global, environment), global, environment };
        log(global, &context.terminal, environment);
        let over = gather(&[&variables.source, &variables.sink, &variables.creation, &variables.delivery]);
        let file = context.file()?;
        if over.sink.is_none() && file.sink.url.is_none() {
            return Err(Error::usage("no sink is named").help("set REVSYNC_TO, such as REVSYNC_TO=https://search.example.com"));
        }
        if over.dead_letters.is_none() && file.dead_letters.url.is_none() {
            let help = "set REVSYNC_DEAD_LETTERS to a place that outlives the function: sqs://HOST/ACCOUNT/QUEUE, with \
                        REVSYNC_DEAD_LETTERS_LARGE=s3://BUCKET/PREFIX for what is larger than a message, or s3://BUCKET/PREFIX alone";
            return Err(Error::usage("no place for dead letters is named").help(help));
        }
        let settings = Settings::resolve(file, over, environment)?;
        line::warn_of_plain_deletes(&settings);
        let dead_letters = Arc::new(DeadLetters::open(&settings.dead_letters).await?);
        let learned = Arc::new(Learned::new(&line::delivery(&settings)));
        Ok(Self { sink: line::sink(&settings).await?, mapping: line::mapping(&settings)?, learned, settings, dead_letters })
    }

    /// A line for one event.
    pub fn line(&self) -> Deliver {
        let (sink, learned, dead_letters) = (Arc::clone(&self.sink), Arc::clone(&self.learned), Arc::clone(&self.dead_letters));
        let (decoder, mapping) = (line::decoder(&self.settings), self.mapping.clone());
        Deliver::continuing(decoder, mapping, sink, learned, dead_letters, line::delivery(&self.settings))
    }
}
