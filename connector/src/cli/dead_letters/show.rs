//! `dead-letters show ID`: everything about a letter, what its class means and what to do.
//!
//! Shows the payload, which holds content of the document, only when asked to.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::Value;

use super::{Advice, PlaceOptions, advice, begins, expand};
use crate::cli::Context;
use crate::cli::terminal::{Paint, clean};
use crate::error::{Error, Exit, Kind};
use crate::plan::mapping::Mode;
use crate::store::dead_letters::{DeadLetter, DeadLetters, Entry, Walk};

/// Show everything about a dead letter, and what to do about it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync dead-letters show 3f9a01c2
  revsync dead-letters show 3f9a01c2 --payload
      the record itself too; it holds content of the document")]
pub(super) struct Arguments {
    /// Ids, or beginnings of ids, as dead-letters list shows them
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Show the record itself too: as text where it is text, else as Base64
    #[arg(long, env = "REVSYNC_PAYLOAD", hide_env_values = true, value_parser = clap::builder::BoolishValueParser::new())]
    payload: bool,
    #[command(flatten)]
    place: PlaceOptions,
}

pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let settings = context.settings(&[&arguments.place])?;
    let mut walk = DeadLetters::look(&settings.dead_letters).await?.walk().await?;
    let picked = pick(&mut walk, arguments).await;
    walk.end().await?;
    let letters = picked?;
    let terminal = &context.terminal;
    if terminal.json {
        let letters =
            letters.iter().map(|letter| if arguments.payload { whole(letter) } else { json(letter) }).collect::<Result<Vec<_>, Error>>()?;
        terminal.print_json(&serde_json::json!({ "dead_letters": letters }))?;
    } else {
        let shown: Vec<String> = letters.iter().map(|letter| human(letter, arguments.payload, terminal.paint)).collect();
        terminal.print(&shown.join("\n"))?;
    }
    Ok(Exit::Done)
}

/// The letters that abbreviated ids stand for, in the order in which they were asked for.
async fn pick(walk: &mut Walk, arguments: &Arguments) -> Result<Vec<DeadLetter>, Error> {
    let (mut ids, mut fitting) = (BTreeSet::new(), HashMap::new());
    while let Some(portion) = walk.next(usize::MAX).await? {
        for entry in portion {
            let Entry::Letter(letter) = entry else { continue };
            ids.insert(letter.id.clone());
            // Of an abbreviation that stands for many no letter will be shown: they need not be kept.
            if fitting.len() <= arguments.ids.len() && arguments.ids.iter().any(|given| begins(&letter.id, given)) {
                fitting.insert(letter.id.clone(), *letter);
            }
        }
    }
    let wanted = expand(&arguments.ids, &ids.iter().map(String::as_str).collect())?;
    let mut letters = Vec::with_capacity(wanted.len());
    for letter in wanted.into_iter().filter_map(|id| fitting.remove(id)) {
        letters.push(if arguments.payload { loaded(walk, letter).await? } else { letter });
    }
    Ok(letters)
}

async fn loaded(walk: &Walk, letter: DeadLetter) -> Result<DeadLetter, Error> {
    let id = letter.id.clone();
    walk.load(letter).await?.map_err(|why| Error::new(Kind::DeadLetters, format!("dead letter {id}: {why}")))
}

/// A letter as it is stored, payload included.
fn whole(letter: &DeadLetter) -> Result<Value, Error> {
    serde_json::to_value(letter).map_err(|error| Error::new(Kind::DeadLetters, format!("dead letter {}: {error}", letter.id)))
}

/// A letter without its payload.
pub(super) fn json(letter: &DeadLetter) -> Result<Value, Error> {
    let mut value = whole(letter)?;
    if let Some(fields) = value.as_object_mut() {
        fields.remove("payload");
    }
    Ok(value)
}

fn human(letter: &DeadLetter, payload: bool, paint: Paint) -> String {
    let mut text = format!("{} {}\n", paint.bold("dead letter"), paint.bold(clean(&letter.id)));
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<12}{}", clean(&value));
    };
    line("time", letter.time.clone());
    if let Some(first) = &letter.first_time {
        line("first", first.clone());
    }
    line("from", format!("{}, {}, unit {} ({})", letter.origin, letter.position, letter.unit, letter.format));
    for (name, value) in [("table", &letter.table), ("document", &letter.document_id)] {
        if let Some(value) = value {
            line(name, value.clone());
        }
    }
    if letter.mode == Some(Mode::History) {
        line("mode", Mode::History.as_str().to_owned());
    }
    if let Some(version) = letter.version {
        line("version", version.to_string());
    }
    if let Some(index) = &letter.index {
        line("index", index.clone());
    }
    let tried = match (letter.attempts, &letter.action) {
        (0, _) => "never sent".to_owned(),
        (1, action) => format!("{}, sent once", action.as_deref().unwrap_or("operation")),
        (attempts, action) => format!("{}, sent {attempts} times", action.as_deref().unwrap_or("operation")),
    };
    line("action", tried);
    line("error", letter.error.kind.clone());
    line("reason", letter.error.reason.clone());
    if let Some(first) = letter.first_error.as_ref().filter(|first| **first != letter.error) {
        line("at first", first.to_string());
    }
    line("written by", format!("revsync {}", letter.connector));
    line("record", format!("{} bytes{}", letter.payload_bytes(), if payload { "" } else { "; --payload shows them" }));
    let Advice { means, todo } = advice(&letter.error.kind);
    let _ = writeln!(text, "\n{}\n  {means}\n\n{}\n  {todo}", paint.bold("what it means"), paint.bold("what to do"));
    let short: String = letter.id.chars().take(super::SHORTEST).collect();
    let _ = writeln!(text, "  {}", paint.dim(format!("revsync dead-letters replay {}", clean(&short))));
    if payload {
        let _ = writeln!(text, "\n{}\n{}", paint.bold("record"), readable(&letter.payload));
    }
    text
}

/// Bytes as text where they are text, else as Base64.
fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) => {
            text.split('\n').map(|line| clean(line.trim_end_matches('\r'))).collect::<Vec<_>>().join("\n")
        }
        _ => STANDARD.encode(bytes),
    }
}
