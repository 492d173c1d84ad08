//! Text to [`File`]: finds unknown keys, puts the environment in, and says where a mistake is.
//!
//! Reads no environment itself: it is handed a function. Never shows what was found under a key that holds a secret.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;
use toml::de::{DeTable, DeValue};

use super::file::File;
use super::schema;
use crate::error::Error;

/// What the environment says under a name.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads a configuration file's text. `name` is the file's name, for messages.
///
/// # Errors
/// Text that is no TOML, an unknown key, a variable that is not set, a value of the wrong form; each with file, line and column.
pub fn parse(text: &str, name: &str, environment: Environment<'_>) -> Result<File, Error> {
    let place = Place { text, name };
    let mut table = DeTable::parse(text).map_err(|error| place.error(error.span(), &one_line(error.message())))?;
    let schema = schema::root();
    Walk { place, schema: &schema, environment }.table(table.get_mut(), &schema, "")?;
    let keys = table.clone();
    File::deserialize(toml::Deserializer::from(table)).map_err(|error| {
        let key = error.span().and_then(|span| key_at(keys.get_ref(), &span)).unwrap_or_default();
        let message = one_line(error.message());
        place.error(error.span(), &if key.is_empty() { message } else { format!("{key}: {message}") })
    })
}

/// The text and its name: turns a place in bytes into file, line and column.
#[derive(Clone, Copy)]
struct Place<'a> {
    text: &'a str,
    name: &'a str,
}

impl Place<'_> {
    fn error(self, span: Option<Range<usize>>, message: &str) -> Error {
        let Some(before) = span.and_then(|span| self.text.get(..span.start)) else {
            return Error::usage(format!("{}: {message}", self.name));
        };
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Error::usage(format!("{}:{line}:{column}: {message}", self.name))
    }
}

/// Goes through the parsed file beside its schema.
struct Walk<'a> {
    place: Place<'a>,
    schema: &'a Value,
    environment: Environment<'a>,
}

impl Walk<'_> {
    fn table(&self, table: &mut DeTable<'_>, schema: &Value, path: &str) -> Result<(), Error> {
        let Some(known) = schema["properties"].as_object() else {
            // Names of a person's own choice.
            let below = schema::resolve(self.schema, &schema["additionalProperties"]);
            for (key, value) in table.iter_mut() {
                let inner = format!("{path}.{}", key.get_ref());
                let span = value.span();
                self.value(value.get_mut(), span, below, &inner)?;
            }
            return Ok(());
        };
        for (key, value) in table.iter_mut() {
            let name = key.get_ref().as_ref();
            let Some(below) = known.get(name) else {
                return Err(self.unknown(key.span(), name, path));
            };
            let inner = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let span = value.span();
            self.value(value.get_mut(), span, schema::resolve(self.schema, below), &inner)?;
        }
        Ok(())
    }

    fn value(&self, value: &mut DeValue<'_>, span: Range<usize>, schema: &Value, path: &str) -> Result<(), Error> {
        match value {
            DeValue::Table(table) => self.table(table, schema, path),
            DeValue::Array(items) => {
                let below = schema::resolve(self.schema, &schema["items"]);
                for item in items.iter_mut() {
                    let span = item.span();
                    self.value(item.get_mut(), span, below, path)?;
                }
                Ok(())
            }
            DeValue::String(text) if text.contains('$') => {
                let filled = fill(text, self.environment).map_err(|message| self.place.error(Some(span), &format!("{path}: {message}")))?;
                *value = DeValue::String(Cow::Owned(filled));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn unknown(&self, span: Range<usize>, key: &str, path: &str) -> Error {
        let here = schema::keys(self.schema, path);
        let inside = if path.is_empty() { "at the top of the file".to_owned() } else { format!("in {}", schema::header(path)) };
        let error = self.place.error(Some(span), &format!("unknown key {key:?} {inside}"));
        if let Some(near) = nearest(key, here.iter().map(String::as_str)) {
            return error.help(format!("did you mean {near:?}?"));
        }
        let tables = schema::TABLES.iter().filter(|table| **table != path);
        let elsewhere = tables.filter_map(|table| {
            nearest(key, schema::keys(self.schema, table).iter().map(String::as_str)).map(|near| (*table, near.to_owned()))
        });
        // A table inside of this one is more likely meant than one of another part.
        let inside = |table: &str| table.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
        match elsewhere.max_by_key(|(table, near)| (inside(table), near == key)) {
            Some(("", near)) => error.help(format!("{near:?} belongs at the top of the file, before the first table")),
            Some((table, near)) => error.help(format!("{near:?} belongs in {}", schema::header(table))),
            None => error.help(format!("known here: {}", here.join(", "))),
        }
    }
}

/// The known word that a mistyped one was most likely meant to be.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.map(|candidate| (strsim::jaro_winkler(word, candidate), candidate));
    scored.filter(|(score, _)| *score > 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, candidate)| candidate)
}

/// Puts the environment into `${NAME}`; `$${` stands for `${`.
fn fill(text: &str, environment: Environment<'_>) -> Result<String, String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        rest = &from[2..];
        if let Some(before) = before.strip_suffix('$') {
            filled.push_str(before);
            filled.push_str("${");
            continue;
        }
        filled.push_str(before);
        let end = rest.find('}').ok_or("expected ${NAME}, found no closing brace; write $${ for the two characters themselves")?;
        let name = &rest[..end];
        rest = &rest[end + 1..];
        if name.is_empty()
            || name.starts_with(|c: char| c.is_ascii_digit())
            || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        {
            return Err(format!(
                "expected the name of an environment variable in ${{…}}, found {name:?}; write $${{ for the two characters themselves"
            ));
        }
        filled.push_str(&environment(name).ok_or_else(|| format!("the environment variable {name} is not set"))?);
    }
    filled.push_str(rest);
    Ok(filled)
}

/// The key whose value spans a place.
fn key_at(table: &DeTable<'_>, span: &Range<usize>) -> Option<String> {
    let (key, value) = table.iter().find(|(_, value)| holds(value.get_ref(), &value.span(), span))?;
    let name = key.get_ref();
    let below = match value.get_ref() {
        DeValue::Table(inner) => key_at(inner, span),
        DeValue::Array(items) => items.iter().find_map(|item| item.get_ref().as_table().and_then(|inner| key_at(inner, span))),
        _ => None,
    };
    Some(below.map_or_else(|| name.to_string(), |below| format!("{name}.{below}")))
}

/// A table's own span is its header only: whether a place is inside is told by what is inside.
fn holds(value: &DeValue<'_>, own: &Range<usize>, span: &Range<usize>) -> bool {
    let inside = own.start <= span.start && span.end <= own.end;
    inside
        || match value {
            DeValue::Table(table) => table.iter().any(|(_, value)| holds(value.get_ref(), &value.span(), span)),
            DeValue::Array(items) => items.iter().any(|item| holds(item.get_ref(), &item.span(), span)),
            _ => false,
        }
}

/// The parser's and serde's wording, on one line and in words that are not Rust's.
fn one_line(message: &str) -> String {
    let line = message.split('\n').map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    line.replace("expected u32", "expected a whole number")
        .replace("expected a boolean", "expected true or false")
        .replace("unknown variant", "unknown value")
        .replace('`', "\"")
}
