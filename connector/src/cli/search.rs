//! `search TEXT`: full-text search of the local index or of OpenSearch, with the words that matched set off.
//!
//! Never creates an index that is not there, and never lets a document drive the terminal.

use std::fmt::Write;
use std::path::Path;

use clap::Args;
use serde::Serialize;

use super::Context;
use super::options::SinkOptions;
use super::terminal::{Paint, clean};
use crate::config::{Settings, SinkUrl};
use crate::error::{Error, Exit};
use crate::sink::Hit;
use crate::sink::opensearch::OpenSearch;

/// Find documents by what they say
///
/// Finds documents with all the words, wherever they stand in a document; "several words" in quotes must stand together, word* is a
/// beginning.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync search Seattle
  revsync search '\"Seattle WA\" -Ford' --index vehicle_registration
  revsync search 'seat*' --to http://localhost:9200 --limit 50
  revsync --json search Seattle | jq '.hits[].source'

Exit codes, as grep's:
  0  found
  1  nothing found
  2  failed")]
pub struct Arguments {
    /// What to look for
    #[arg(value_name = "TEXT", required = true)]
    text: Vec<String>,
    /// Only in this index, or in those that a pattern with * names [default: all]
    #[arg(long, value_name = "INDEX", env = "REVSYNC_INDEX", hide_env_values = true)]
    index: Option<String>,
    /// The most documents to print, at most 10000
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=10_000), env = "REVSYNC_LIMIT", hide_env_values = true)]
    limit: u16,
    #[command(flatten)]
    sink: SinkOptions,
}

/// The JSON form. A struct and no `json!`, which would read each document and lose the digits of its numbers.
#[derive(Debug, Serialize)]
struct Found<'a> {
    hits: &'a [Hit],
}

pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let settings = context.settings(&[&arguments.sink])?;
    let hits = find(arguments, &settings).await?;
    if context.terminal.json {
        context.terminal.print_json(&Found { hits: &hits })?;
    } else if hits.is_empty() {
        context.terminal.say(&format!("nothing found in {}\n", settings.sink.url));
    } else {
        context.terminal.print(&human(&hits, context.terminal.paint))?;
    }
    Ok(if hits.is_empty() { Exit::Attention } else { Exit::Done })
}

async fn find(arguments: &Arguments, settings: &Settings) -> Result<Vec<Hit>, Error> {
    let text = arguments.text.join(" ");
    let limit = usize::from(arguments.limit);
    match &settings.sink.url {
        SinkUrl::OpenSearch { .. } => {
            let sink = OpenSearch::connect(settings.opensearch()?).await?;
            sink.search(&text, arguments.index.as_deref().unwrap_or("*"), limit).await
        }
        SinkUrl::Local(path) => local(path, &text, arguments.index.as_deref(), limit),
        url @ (SinkUrl::BulkFile(_) | SinkUrl::BulkStdout) => {
            Err(Error::usage(format!("{url} cannot be searched: expected local:FILE or http(s)://HOST:PORT")))
        }
    }
}

#[cfg(feature = "local")]
fn local(path: &Path, text: &str, index: Option<&str>, limit: usize) -> Result<Vec<Hit>, Error> {
    crate::sink::local::Local::open_existing(path)?.search(text, index, limit)
}

#[cfg(not(feature = "local"))]
fn local(path: &Path, _: &str, _: Option<&str>, _: usize) -> Result<Vec<Hit>, Error> {
    Err(Error::usage(format!("local:{}: this build has no local index (feature `local`)", path.display())))
}

/// The hits for a person: where each is, then the fragments that matched.
fn human(hits: &[Hit], paint: Paint) -> String {
    let mut text = String::new();
    for hit in hits {
        let _ = writeln!(
            text,
            "{}  {}",
            paint.bold(format!("{}/{}", clean(&hit.index), clean(&hit.id))),
            paint.dim(format!("version {}", hit.version))
        );
        if hit.highlights.is_empty() {
            let _ = writeln!(text, "    {}", cut(&clean(hit.source.get())));
        }
        for fragment in &hit.highlights {
            let _ = writeln!(text, "    {}", marked(fragment, paint));
        }
    }
    text
}

/// A fragment with its matched words, which stand between U+0001 and U+0002, set off.
fn marked(fragment: &str, paint: Paint) -> String {
    let mut text = String::new();
    for (at, part) in fragment.split('\u{1}').enumerate() {
        match part.split_once('\u{2}') {
            Some((word, rest)) if at > 0 => {
                let _ = write!(text, "{}{}", paint.warn(clean(word)), clean(rest));
            }
            _ => text.push_str(&clean(part)),
        }
    }
    text
}

/// The beginning of a document, for a hit that no fragment explains.
fn cut(text: &str) -> String {
    const MOST: usize = 160;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn hit(highlights: &[&str]) -> Hit {
        Hit {
            index: "person".into(),
            id: "7Pi\u{1b}[2J".into(),
            version: 3,
            score: 1.5,
            source: RawValue::from_string(r#"{"City":"Seattle"}"#.into()).unwrap(),
            highlights: highlights.iter().map(|text| (*text).to_owned()).collect(),
        }
    }

    #[test]
    fn a_hit_shows_where_it_is_and_what_matched() {
        let text = human(&[hit(&["in \u{1}Seattle\u{2}, WA"]), hit(&[])], Paint(false));
        assert_eq!(
            text,
            "person/7Pi\u{fffd}[2J  version 3\n    in Seattle, WA\nperson/7Pi\u{fffd}[2J  version 3\n    {\"City\":\"Seattle\"}\n"
        );
    }

    #[test]
    fn matched_words_are_set_off_on_a_terminal_and_documents_cannot_drive_it() {
        let text = marked("a \u{1}b\u{2} c\u{1b}[31m \u{1}d\u{2}", Paint(true));
        assert_eq!(text.matches("\u{1b}[1m").count(), 2, "{text:?}");
        assert!(text.contains("c\u{fffd}[31m"), "{text:?}");
    }

    #[test]
    fn marks_that_do_not_pair_up_lose_no_text() {
        assert_eq!(marked("a\u{2}b\u{1}c", Paint(false)).replace('\u{fffd}', ""), "abc");
    }

    #[test]
    fn a_long_document_is_cut_at_a_character() {
        let long = "ä".repeat(500);
        assert_eq!(cut(&long).chars().count(), 161);
    }
}
