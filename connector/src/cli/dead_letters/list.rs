//! `dead-letters list`: one line per letter.
//!
//! Never shows a payload, and never changes what is there.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;

use super::choosing::ChoosingOptions;
use super::{PlaceOptions, digits};
use crate::cli::Context;
use crate::cli::table::layout;
use crate::cli::terminal::{Paint, clean};
use crate::error::{Error, Exit};
use crate::run::choice::Choice;
use crate::store::dead_letters::{DeadLetter, DeadLetters, Entry, Place, Walk};

/// List what could not be indexed: when, which document, and why
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync dead-letters list
  revsync dead-letters list --table Vehicle* --reason mapper_parsing_exception --after 2h
  revsync --json dead-letters list | jq -r '.dead_letters[].error.kind' | sort | uniq -c
  revsync dead-letters list --dead-letters 'sqs://sqs.eu-west-1.amazonaws.com/123456789012/letters'
      a sample: of a queue nobody can see everything

Exit codes:
  0  listed, or nothing to list
  1  something there is damaged; it is named, and hides nothing else
  2  the place cannot be read")]
pub(super) struct Arguments {
    #[command(flatten)]
    place: PlaceOptions,
    #[command(flatten)]
    choosing: ChoosingOptions,
    /// Show at most so many [default: all; of a queue 100]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..), env = "REVSYNC_LIMIT", hide_env_values = true)]
    limit: Option<u32>,
}

/// Letters of a queue that are looked at, where no limit is given.
const SAMPLE: u32 = 100;

pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let settings = context.settings(&[&arguments.place])?;
    let config = &settings.dead_letters;
    let store = DeadLetters::look(config).await?;
    let limit = arguments.limit.or(matches!(config.place, Place::Queue(_)).then_some(SAMPLE)).map_or(usize::MAX, |limit| limit as usize);
    let mut walk = store.walk().await?;
    let found = read(&mut walk, limit, &arguments.choosing.choice()).await;
    walk.end().await?;
    let found = found?;
    let terminal = &context.terminal;
    if terminal.json {
        let damaged: Vec<_> = found.damaged.iter().map(|(at, reason)| serde_json::json!({ "at": at, "reason": reason })).collect();
        let letters = found.letters.iter().map(super::show::json).collect::<Result<Vec<_>, Error>>()?;
        let mut listed =
            serde_json::json!({ "dead_letters": letters, "damaged": damaged, "complete": found.is_complete(store.reported()) });
        if let Some(reported) = store.reported() {
            listed["reported"] = reported.into();
        }
        terminal.print_json(&listed)?;
    } else {
        for (at, reason) in &found.damaged {
            terminal.say(&format!("{} {}, {}: {reason}\n", terminal.paint_err.warn("warning:"), config.place, clean(at)));
        }
        if found.letters.is_empty() && !found.damaged.is_empty() {
            terminal.print("no dead letters that can be read\n")?;
        } else {
            terminal.print(&human(&found.letters, terminal.width, terminal.paint))?;
        }
        if let Some(note) = note(&found, store.reported()) {
            terminal.say(&note);
        }
    }
    Ok(if found.damaged.is_empty() { Exit::Done } else { Exit::Attention })
}

/// What is stored, without the payloads: a list of letters may be long, and each may hold megabytes.
#[derive(Debug, Default)]
struct Found {
    /// The oldest first.
    letters: Vec<DeadLetter>,
    damaged: Vec<(String, String)>,
    /// Letters that were seen, also those that were not asked for.
    seen: u64,
    /// The walk came to its end.
    ended: bool,
}

impl Found {
    /// Whether there is nothing else, as far as one can know.
    fn is_complete(&self, reported: Option<u64>) -> bool {
        self.ended && reported.is_none_or(|reported| reported <= self.seen)
    }
}

async fn read(walk: &mut Walk, limit: usize, choice: &Choice) -> Result<Found, Error> {
    let mut found = Found::default();
    while found.letters.len() < limit {
        let Some(portion) = walk.next(limit - found.letters.len()).await? else {
            found.ended = true;
            break;
        };
        for entry in portion {
            found.seen += 1;
            match entry {
                Entry::Letter(letter) if !choice.takes(&letter) => {}
                Entry::Letter(letter) => found.letters.push(DeadLetter { payload: bytes::Bytes::new(), ..*letter }),
                Entry::Damaged { at, reason } => found.damaged.push((at, reason)),
            }
        }
    }
    found.letters.sort_by_key(DeadLetter::moment);
    Ok(found)
}

/// Says that not everything was shown.
fn note(found: &Found, reported: Option<u64>) -> Option<String> {
    match reported {
        Some(reported) => {
            Some(format!("a sample: {} were looked at, and the queue reports about {reported}; --limit looks at more\n", found.seen))
        }
        None if !found.ended => Some("there may be more: --limit shows them\n".to_owned()),
        None => None,
    }
}

fn human(letters: &[DeadLetter], width: Option<usize>, paint: Paint) -> String {
    if letters.is_empty() {
        return "no dead letters\n".to_owned();
    }
    let digits = digits(&letters.iter().map(|letter| letter.id.as_str()).collect::<BTreeSet<_>>());
    let rows: Vec<[String; 6]> = letters
        .iter()
        .map(|letter| {
            [
                letter.id.chars().take(digits).collect(),
                clean(letter.time.split('.').next().unwrap_or_default().trim_end_matches('Z')).replace('T', " "),
                document(letter),
                letter.version.map_or_else(|| "-".to_owned(), |version| version.to_string()),
                clean(&letter.error.kind),
                clean(&letter.error.reason),
            ]
        })
        .collect();
    let mut text = layout(["ID", "TIME", "TABLE/DOCUMENT", "VERSION", "ERROR", "REASON"], &rows, width, paint);
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for letter in letters {
        *kinds.entry(&letter.error.kind).or_default() += 1;
    }
    let kinds: Vec<String> = kinds.into_iter().map(|(kind, count)| format!("{count} {}", clean(kind))).collect();
    let letters = if letters.len() == 1 { "1 dead letter".to_owned() } else { format!("{} dead letters", letters.len()) };
    text.push_str(&format!("\n{}: {}\n", paint.bold(letters), kinds.join(", ")));
    text.push_str(&format!("{}\n", paint.dim("revsync dead-letters show ID says what to do about one")));
    text
}

/// Which document a letter is about, or where its record stands if that is not known.
fn document(letter: &DeadLetter) -> String {
    match (&letter.table, &letter.document_id) {
        (Some(table), Some(id)) => clean(&format!("{table}/{id}")),
        (Some(table), None) => clean(&format!("{table}/-")),
        (None, _) => clean(&format!("{} {}", letter.origin, letter.position)),
    }
}
