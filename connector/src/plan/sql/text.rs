//! What functions do with texts. Lengths and places are counted in characters (code points), from 1.
//!
//! Never makes a text of more than 16 MiB: it is null instead.

use std::borrow::Cow;

use super::value::Value;

/// Bytes that a text may have that was put together.
const MAX_BYTES: usize = 16 << 20;

fn limited(text: String) -> Value<'static> {
    if text.len() <= MAX_BYTES { Value::Text(Cow::Owned(text)) } else { Value::Null }
}

/// The texts one behind the other.
pub(super) fn join<'a>(texts: impl IntoIterator<Item = Cow<'a, str>>) -> Value<'static> {
    let mut joined = String::new();
    for text in texts {
        if joined.len() + text.len() > MAX_BYTES {
            return Value::Null;
        }
        joined.push_str(&text);
    }
    Value::Text(Cow::Owned(joined))
}

/// The text in capitals, or in small letters.
pub(super) fn cased(text: &str, upper: bool) -> Value<'static> {
    if text.len() > MAX_BYTES {
        return Value::Null;
    }
    limited(if upper { text.to_uppercase() } else { text.to_lowercase() })
}

/// The text with one part of it replaced wherever it is. An empty part is nowhere.
pub(super) fn replaced<'a>(text: Cow<'a, str>, part: &str, by: &str) -> Value<'a> {
    let count = if part.is_empty() { 0 } else { text.matches(part).count() };
    if count == 0 {
        return Value::Text(text);
    }
    match by.len().checked_mul(count).and_then(|more| (text.len() - part.len() * count).checked_add(more)) {
        Some(length) if length <= MAX_BYTES => Value::Text(Cow::Owned(text.replace(part, by))),
        _ => Value::Null,
    }
}

/// The characters from one place on, and at most so many of them as `length` says; places before the first count, as in the standard.
pub(super) fn part<'a>(text: Cow<'a, str>, from: i64, length: Option<i64>) -> Value<'a> {
    let end = match length {
        Some(length) if length < 0 => return Value::Null,
        Some(length) => from.saturating_add(length),
        None => i64::MAX,
    };
    let place = |place: i64| {
        let before = usize::try_from(place.saturating_sub(1)).unwrap_or(0);
        text.char_indices().nth(before).map_or(text.len(), |(at, _)| at)
    };
    let (from, to) = (place(from), place(end));
    within(text, from, to.max(from))
}

/// The first characters of a text, or its last; where the number is negative, all but so many at the other end.
pub(super) fn end<'a>(text: Cow<'a, str>, count: i64, left: bool) -> Value<'a> {
    let all = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let count = if count < 0 { all.saturating_add(count).max(0) } else { count.min(all) };
    if left { part(text, 1, Some(count)) } else { part(text, all - count + 1, None) }
}

/// The text without these characters at its beginning, its end, or both.
pub(super) fn trimmed<'a>(text: Cow<'a, str>, characters: &str, begin: bool, end: bool) -> Value<'a> {
    let unwanted = |c: char| characters.contains(c);
    let from = if begin { text.len() - text.trim_start_matches(unwanted).len() } else { 0 };
    let to = if end { text.trim_end_matches(unwanted).len() } else { text.len() };
    within(text, from, to.max(from))
}

fn within(text: Cow<'_, str>, from: usize, to: usize) -> Value<'_> {
    Value::Text(match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[from..to]),
        Cow::Owned(text) => Cow::Owned(text[from..to].to_owned()),
    })
}

/// The place of one text in another, from 1; 0 where it is not in it.
pub(super) fn place(text: &str, part: &str) -> i64 {
    text.find(part).map_or(0, |at| i64::try_from(text[..at].chars().count()).map_or(i64::MAX, |before| before + 1))
}
