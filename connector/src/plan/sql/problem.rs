//! What is wrong with a text of SQL, and where: the sentence, the line with a mark under the place, and what to do.

use sqlparser::parser::ParserError;
use sqlparser::tokenizer::Location;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::error::Error;

/// Columns of a line that are shown around the place.
const SHOWN: usize = 60;

/// Where in the text something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Everywhere.
    Nowhere,
    /// Behind its last word.
    End,
    /// At this character.
    At(Location),
}

/// Something wrong with a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::plan) struct Problem {
    what: String,
    help: Option<String>,
    place: Place,
}

impl Problem {
    /// A problem of the whole text.
    pub(in crate::plan) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), help: None, place: Place::Nowhere }
    }

    /// A problem at a place; nowhere when that is the parser's place of nothing.
    pub(in crate::plan) fn at(what: impl Into<String>, place: Location) -> Self {
        let place = if place.line == 0 { Place::Nowhere } else { Place::At(place) };
        Self { place, ..Self::new(what) }
    }

    /// Something is missing at the end.
    pub(in crate::plan) fn at_end(what: impl Into<String>) -> Self {
        Self { place: Place::End, ..Self::new(what) }
    }

    /// What to do about it.
    #[must_use]
    pub(in crate::plan) fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// The problem as the error that ends a command. `text` is what was read; `advice` is given where the problem has none of its own.
    pub(in crate::plan) fn into_error(self, text: &str, advice: &str) -> Error {
        let at = match self.place {
            Place::Nowhere => None,
            Place::End => Some(end(text)),
            Place::At(place) => Some(place),
        };
        let what = match at {
            None => self.what,
            Some(at) if self.place == Place::End => format!("{}{}", self.what, excerpt(text, at)),
            Some(at) => format!("{} at line {}, column {}{}", self.what, at.line, at.column, excerpt(text, at)),
        };
        Error::usage(what).help(self.help.unwrap_or_else(|| advice.to_owned()))
    }
}

impl From<ParserError> for Problem {
    fn from(error: ParserError) -> Self {
        match error {
            ParserError::RecursionLimitExceeded => {
                Self::new("expected an expression with fewer parentheses, calls or NOTs inside each other")
            }
            ParserError::ParserError(what) | ParserError::TokenizerError(what) => in_our_words(&what),
        }
    }
}

/// The parser's words as they are written everywhere else, with the place that they end in.
fn in_our_words(what: &str) -> Problem {
    let placed = what.rsplit_once(" at Line: ").and_then(|(what, place)| Some((what, Place::At(location(place)?))));
    let (what, place) = placed.unwrap_or((what, Place::Nowhere));
    let what = what.replacen("Expected: ", "expected ", 1);
    match what.strip_suffix(", found: EOF") {
        Some(expected) => Problem::at_end(format!("{expected}, found the end")),
        None => Problem { place, ..Problem::new(what.replacen(", found: ", ", found ", 1)) },
    }
}

fn location(text: &str) -> Option<Location> {
    let (line, column) = text.split_once(", Column: ")?;
    Some(Location { line: line.parse().ok()?, column: column.parse().ok()? })
}

/// The place behind the last character that is not white space.
fn end(text: &str) -> Location {
    let text = text.trim_end();
    let line = text.rsplit('\n').next().unwrap_or_default();
    Location { line: text.matches('\n').count() as u64 + 1, column: line.chars().count() as u64 + 1 }
}

/// The line of a place, and a mark under it. Of a long line only what is around the place.
fn excerpt(text: &str, place: Location) -> String {
    if text.trim().is_empty() {
        return String::new();
    }
    let index = |number: u64| usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
    let line: Vec<char> = text.split('\n').nth(index(place.line)).unwrap_or_default().chars().collect();
    let at = index(place.column).min(line.len());
    let from = at.saturating_sub(SHOWN);
    let shown = |part: &[char]| part.iter().map(|c| if c.width().is_none() { ' ' } else { *c }).collect::<String>();
    let before = format!("{}{}", if from > 0 { "…" } else { "" }, shown(&line[from..at]));
    let to = line.len().min(at + SHOWN);
    let after = format!("{}{}", shown(&line[at..to]), if to < line.len() { "…" } else { "" });
    format!("\n  {before}{}\n  {}^", after.trim_end(), " ".repeat(before.width()))
}
