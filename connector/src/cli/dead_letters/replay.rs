//! `dead-letters replay`: send letters again; what settles is removed.
//!
//! Decides nothing about a letter: it goes through the same line as a record of `sync`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;

use super::choosing::ChoosingOptions;
use crate::cli::options::{ClientOptions, CreationOptions, DeliveryOptions, Overriding, RecordOptions, SinkOptions};
use crate::cli::terminal::clean;
use crate::cli::{Context, Progress, line};
use crate::config::{Settings, Span};
use crate::error::{Error, Exit, Kind};
use crate::metrics::Counts;
use crate::plan::resurrection::Guard;
use crate::run::choice::Choice;
use crate::run::clock;
use crate::run::deliver::{self, Deliver, interrupted};
use crate::run::explain::explain_letter;
use crate::run::replay::{replay, stops};
use crate::source::scan::Length;
use crate::store::dead_letters::{DeadLetter, DeadLetters, Entry, Place};

/// Send dead letters again; what settles is removed
///
/// Each letter goes through the same line as in sync, with the rules that the configuration has now. One that fails again stays, with its
/// new reason. The version of each revision still holds: what the index has newer is counted as stale, and the letter is removed.
///
/// OpenSearch remembers a delete only for a while (gc_deletes): a letter that lay longer could bring a document back that was deleted since.
/// Where the rule for a table has deletes = "delete", such letters are not sent without --force.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync dead-letters replay 3f9a01c2 --to https://search.example.com
  revsync --config revsync.toml dead-letters replay
  revsync dead-letters replay --table Person --reason mapper_parsing_exception --after 2d
  revsync dead-letters replay --dry-run | less -S
      see what would be sent; nothing is sent, and nothing is removed

It can be stopped at any time (Ctrl-C): what has settled by then is removed, and the rest stays.

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
    /// Say for each letter what would be done; send and remove nothing
    #[arg(long, env = "REVSYNC_DRY_RUN", hide_env_values = true, value_parser = clap::builder::BoolishValueParser::new())]
    dry_run: bool,
    /// Send letters too that are older than the index remembers deletes
    #[arg(long, env = "REVSYNC_FORCE", hide_env_values = true, value_parser = clap::builder::BoolishValueParser::new())]
    force: bool,
    #[command(flatten)]
    choosing: ChoosingOptions,
    #[command(flatten, next_help_heading = "What the letters hold")]
    records: RecordOptions,
    #[command(flatten)]
    sink: SinkOptions,
    #[command(flatten)]
    creation: CreationOptions,
    #[command(flatten)]
    delivery: DeliveryOptions,
    #[command(flatten)]
    client: ClientOptions,
}

pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let groups: [&dyn Overriding; 5] = [&arguments.records, &arguments.sink, &arguments.creation, &arguments.delivery, &arguments.client];
    let settings = context.settings(&groups)?;
    let started = Instant::now();
    if arguments.dry_run {
        return Box::pin(dry_run(arguments, &settings, context)).await;
    }
    let stop = line::stop_signal()?;
    let mut stopped = stop.clone();
    let prepared = tokio::select! {
        biased;
        _ = stopped.wait_for(|stop| *stop) => Err(interrupted()),
        prepared = Box::pin(prepare(arguments, &settings)) => prepared,
    };
    let (counts, result) = match prepared {
        Ok((store, choice, guard, mut deliver)) => {
            let progress = Progress::start(&context.terminal.bars, Length::Bytes(None));
            let told = |counts: &Counts| progress.update(counts.bytes, counts);
            let result = Box::pin(replay(&store, &choice, guard.as_ref(), &mut deliver, stop, told)).await;
            progress.finish();
            (deliver.counts(), result)
        }
        Err(error) if error.kind == Kind::Interrupted => (Counts::default(), Err(error)),
        Err(error) => return Err(error),
    };
    let place = &settings.dead_letters.place;
    if matches!(place, Place::Topic(_)) && arguments.chooses() && result.as_ref().is_ok_and(|sent| *sent > 0) {
        context.terminal.say(&format!(
            "{place} keeps letters until its retention ends: those that were sent are listed until a replay of all has settled what is before \
             them, and are stale if they are sent again\n"
        ));
    }
    context.conclude(&settings, &place.to_string(), &counts, started, result.map(drop))
}

impl Arguments {
    /// Whether only some letters are meant.
    fn chooses(&self) -> bool {
        !self.ids.is_empty() || self.choosing.chooses()
    }
}

/// Opens both ends; whatever cannot work, and letters that must not be sent, are found here.
async fn prepare(arguments: &Arguments, settings: &Settings) -> Result<(Arc<DeadLetters>, Choice, Option<Guard>, Deliver), Error> {
    let mapping = line::mapping(settings)?;
    let store = Arc::new(DeadLetters::open(&settings.dead_letters).await?);
    let guard = guard(settings).filter(|_| !arguments.force);
    let (choice, old) = survey(&store, arguments, guard.as_ref()).await?;
    if let (Some(old), Some(kept)) = (old, settings.forgets_deletes_after()) {
        return Err(old.refusal(Span(kept)));
    }
    let sink = line::reached_sink(settings).await?;
    // What is refused again was a dead letter before.
    let delivery = deliver::Settings { breaker: None, ..line::delivery(settings) };
    let deliver = Deliver::new(line::decoder(settings), mapping, sink, store.clone(), delivery);
    Ok((store, choice, guard, deliver))
}

/// What keeps old letters from an index that forgets deletes.
fn guard(settings: &Settings) -> Option<Guard> {
    let kept = settings.forgets_deletes_after()?;
    Some(Guard { rules: settings.all_deletes(), forgotten_before: clock::ago(kept) })
}

/// Letters that must not be sent.
#[derive(Debug)]
struct Old {
    letters: u64,
    oldest: String,
}

impl Old {
    fn refusal(&self, kept: Span) -> Error {
        let Self { letters, oldest } = self;
        let (letters, are) = if *letters == 1 { ("1 letter".to_owned(), "is") } else { (format!("{letters} letters"), "are") };
        Error::usage(format!(
            "dead letters: {letters} {are} older than {kept} (the oldest: {}), and the index forgets deletes after that (gc_deletes): sent \
             again, an older revision could bring a deleted document back",
            clean(oldest)
        ))
        .help(format!(
            "nothing was sent. Set deletes = \"tombstone\" in the rules of their tables, choose younger letters with --after {kept}, or send \
             them all the same with --force"
        ))
    }
}

/// Which letters are meant, and which of them must not be sent. Looks at the letters only where it has to.
async fn survey(store: &DeadLetters, arguments: &Arguments, guard: Option<&Guard>) -> Result<(Choice, Option<Old>), Error> {
    let mut choice = arguments.choosing.choice();
    if arguments.ids.is_empty() && guard.is_none() {
        return Ok((choice, None));
    }
    let (mut ids, mut old) = (BTreeSet::new(), HashMap::new());
    let mut walk = store.walk().await?;
    let looked = loop {
        let portion = match walk.next(usize::MAX).await {
            Ok(Some(portion)) => portion,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        for entry in portion {
            let Entry::Letter(letter) = entry else { continue };
            if choice.takes(&letter) && guard.is_some_and(|guard| stops(guard, &letter)) {
                old.insert(letter.id.clone(), (letter.since_moment(), letter.since().to_owned()));
            }
            if !arguments.ids.is_empty() {
                ids.insert(letter.id);
            }
        }
    };
    walk.end().await?;
    looked?;
    if !arguments.ids.is_empty() {
        let wanted: HashSet<String> =
            super::expand(&arguments.ids, &ids.iter().map(String::as_str).collect())?.into_iter().map(str::to_owned).collect();
        old.retain(|id, _| wanted.contains(id));
        choice.ids = Some(wanted);
    }
    let letters = old.len() as u64;
    Ok((choice, old.into_values().min().map(|(_, oldest)| Old { letters, oldest })))
}

/// Says for each letter what would be done with it.
async fn dry_run(arguments: &Arguments, settings: &Settings, context: &Context<'_>) -> Result<Exit, Error> {
    let (mut mapping, mut decoder) = (line::mapping(settings)?, line::decoder(settings));
    let store = DeadLetters::look(&settings.dead_letters).await?;
    let (choice, old) = survey(&store, arguments, guard(settings).as_ref()).await?;
    let terminal = &context.terminal;
    let mut walk = store.walk().await?;
    let mut letters = 0_u64;
    let told = async {
        while let Some(portion) = walk.next(usize::MAX).await? {
            for entry in portion {
                let Entry::Letter(letter) = entry else { continue };
                if !choice.takes(&letter) {
                    continue;
                }
                letters += 1;
                let id = letter.id.clone();
                let mut lines = String::new();
                let mut tell = |line: &str| lines.extend([line, "\n"]);
                match walk.load(*letter).await? {
                    Ok(letter) => {
                        explain_letter(&mut decoder, &mut mapping, &letter, |unit| tell(&explained(&letter, unit, terminal.json)))?
                    }
                    Err(why) if terminal.json => tell(&serde_json::json!({ "letter": id, "action": "stay", "reason": why }).to_string()),
                    Err(why) => tell(&format!("{}: stays: {}", short(&id), clean(&why))),
                }
                terminal.print(&lines)?;
            }
        }
        Ok::<(), Error>(())
    };
    let told = told.await;
    walk.end().await?;
    told?;
    terminal.say(&format!("{letters} would be tried again; nothing was sent, and nothing was removed\n"));
    if let (Some(old), Some(kept)) = (old.filter(|_| !arguments.force), settings.forgets_deletes_after()) {
        terminal.say(&format!("{} {}\n", terminal.paint_err.warn("warning:"), old.refusal(Span(kept)).what));
    }
    Ok(Exit::Done)
}

fn explained(letter: &DeadLetter, explained: crate::run::explain::Explained, json: bool) -> String {
    if !json {
        return clean(&format!("{} {explained}", short(&letter.id)));
    }
    let mut value = serde_json::to_value(&explained).unwrap_or_default();
    value["letter"] = letter.id.as_str().into();
    value.to_string()
}

fn short(id: &str) -> String {
    clean(&id.chars().take(super::SHORTEST).collect::<String>())
}
