//! `dead-letters replay`: send letters again; what settles is removed.
//!
//! Decides nothing about a letter: it goes through the same line as a record of `sync`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;

use crate::cli::options::{CreationOptions, DeliveryOptions, SinkOptions};
use crate::cli::{Context, line};
use crate::error::{Error, Exit};
use crate::run::deliver::{self, Deliver};
use crate::run::replay::replay;
use crate::store::dead_letters::{DeadLetters, Entry};

/// Send dead letters again; what settles is removed
///
/// Each letter goes through the same line as in sync, with the rules that the configuration has now. One that fails again stays, with its
/// new reason. The version of each revision still holds: what the index has newer is counted as stale, and the letter is removed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync dead-letters replay 3f9a01c2 --to https://search.example.com
  revsync --config revsync.toml dead-letters replay

Exit codes:
  0  everything that was sent is settled
  1  something failed again and is still a dead letter
  2  not everything could be sent")]
pub(super) struct Arguments {
    /// Ids, or beginnings of ids, as dead-letters list shows them [default: every letter]
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Send every letter, as without an id
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    #[command(flatten)]
    sink: SinkOptions,
    #[command(flatten)]
    creation: CreationOptions,
    #[command(flatten)]
    delivery: DeliveryOptions,
}

pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let settings = context.settings(&[&arguments.sink, &arguments.creation, &arguments.delivery])?;
    let started = Instant::now();
    let store = Arc::new(DeadLetters::open(&settings.dead_letters)?);
    let known = super::list::read(&store)?.letters;
    let ids: BTreeSet<&str> = known.iter().map(|letter| letter.id.as_str()).collect();
    let wanted = if arguments.ids.is_empty() { ids.iter().copied().collect() } else { super::expand(&arguments.ids, &ids)? };
    let sink = line::reached_sink(&settings).await?;
    let letters = store.list()?.filter_map(|entry| match entry {
        Ok(Entry::Letter(letter)) => wanted.contains(&letter.id.as_str()).then_some(Ok(*letter)),
        Ok(Entry::Damaged { .. }) => None,
        Err(error) => Some(Err(error)),
    });
    // What is refused again was a dead letter before.
    let delivery = deliver::Settings { breaker: None, ..line::delivery(&settings) };
    let mut deliver = Deliver::new(line::decoder(&settings), line::mapping(&settings)?, sink, store.clone(), delivery);
    let result = replay(letters, &mut deliver, &store).await;
    context.conclude(&settings, &settings.dead_letters.to_string(), &deliver.counts(), started, result.map(drop))
}
