//! `dead-letters list`: one line per letter.
//!
//! Never shows a payload, and never writes to the file.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;

use super::{PlaceOptions, digits};
use crate::cli::Context;
use crate::cli::table::layout;
use crate::cli::terminal::{Paint, clean};
use crate::error::{Error, Exit};
use crate::store::dead_letters::{DeadLetter, DeadLetters, Entry};

/// List what could not be indexed: when, which document, and why
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync dead-letters list
  revsync --json dead-letters list | jq -r '.dead_letters[].error.kind' | sort | uniq -c

Exit codes:
  0  listed, or nothing to list
  1  something in the file is damaged; it is named, and hides nothing else
  2  the file cannot be read")]
pub(super) struct Arguments {
    #[command(flatten)]
    place: PlaceOptions,
}

pub(super) fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let settings = context.settings(&[&arguments.place])?;
    let found = read(&DeadLetters::look(&settings.dead_letters))?;
    let terminal = &context.terminal;
    if terminal.json {
        let damaged: Vec<_> = found.damaged.iter().map(|(line, reason)| serde_json::json!({ "line": line, "reason": reason })).collect();
        let letters = found.letters.iter().map(super::show::json).collect::<Result<Vec<_>, Error>>()?;
        terminal.print_json(&serde_json::json!({ "dead_letters": letters, "damaged": damaged }))?;
    } else {
        for (line, reason) in &found.damaged {
            terminal.say(&format!("{} {}, line {line}: {reason}\n", terminal.paint_err.warn("warning:"), settings.dead_letters));
        }
        if found.letters.is_empty() && !found.damaged.is_empty() {
            terminal.print("no dead letters that can be read\n")?;
        } else {
            terminal.print(&human(&found.letters, terminal.width, terminal.paint))?;
        }
    }
    Ok(if found.damaged.is_empty() { Exit::Done } else { Exit::Attention })
}

/// What is stored, without the payloads: a list of letters may be long, and each may hold megabytes.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) letters: Vec<DeadLetter>,
    pub(super) damaged: Vec<(u64, String)>,
}

pub(super) fn read(store: &DeadLetters) -> Result<Found, Error> {
    let mut found = Found { letters: Vec::new(), damaged: Vec::new() };
    for entry in store.list()? {
        match entry? {
            Entry::Letter(letter) => found.letters.push(DeadLetter { payload: bytes::Bytes::new(), ..*letter }),
            Entry::Damaged { line, reason } => found.damaged.push((line, reason)),
        }
    }
    Ok(found)
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
