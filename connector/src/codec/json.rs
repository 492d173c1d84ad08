//! JSON text of records: checked once as a whole, then read where it stands.
//!
//! Never builds a tree, never recurses, never takes text for a value that is not JSON to its last byte (RFC 8259). A number stays the text that
//! it is written as.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::json_cursor::Cursor;
use super::recognise::schema_registry;
use super::surrogates::{code_unit, pair};
use crate::metrics::Notes;
use crate::record::Fault;
use crate::revision::MAX_VERSION;

/// A value as it is written: JSON, and nothing around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Json<'a>(&'a str);

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    /// What to call it in a message.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "true or false",
            Self::Number => "a number",
            Self::String => "a text",
            Self::Array => "a list",
            Self::Object => "an object",
        }
    }
}

impl<'a> Json<'a> {
    /// `null`.
    pub(super) const NULL: Json<'static> = Json("null");

    /// Checks a whole text, of any depth.
    ///
    /// # Errors
    /// A fault that says at which byte the text is no JSON any more; bytes are counted from 0.
    pub(super) fn parse(text: &'a [u8]) -> Result<Self, Fault> {
        if let Some(fault) = schema_registry(text) {
            return Err(fault);
        }
        let broken = |at: usize, found: &str| {
            let reason = format!("expected one JSON value in UTF-8, found {found} at byte {at} of {}", text.len());
            Err(Fault::new("undecodable", reason))
        };
        let checked = match std::str::from_utf8(text) {
            Ok(checked) => checked,
            Err(error) => return broken(error.valid_up_to(), "a byte that is no UTF-8"),
        };
        match serde_json::from_str::<IgnoredAny>(checked) {
            Ok(IgnoredAny) => Ok(Self(checked.trim_matches([' ', '\t', '\n', '\r']))),
            Err(error) if error.is_eof() => broken(text.len(), "its end"),
            Err(error) => {
                let lines = checked.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
                broken((lines + error.column().saturating_sub(1)).min(text.len()), "something else")
            }
        }
    }

    /// A part of a text that was checked. It begins and ends at ASCII characters, so it is UTF-8 too.
    pub(super) fn part(part: &'a [u8]) -> Self {
        std::str::from_utf8(part).map_or(Json::NULL, Self)
    }

    /// At its first byte.
    pub(super) fn cursor(self) -> Cursor<'a> {
        Cursor::new(self.0.as_bytes())
    }

    /// The text as it is written.
    pub(super) fn text(self) -> &'a str {
        self.0
    }

    /// What it is.
    pub(super) fn kind(self) -> Kind {
        match self.0.as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Boolean,
            Some(b'n') => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// Whether it is `null`.
    pub(super) fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// The value, unless it is `null`.
    pub(super) fn present(self) -> Option<Self> {
        Some(self).filter(|value| !value.is_null())
    }

    /// The value, where it is an object.
    pub(super) fn object(self) -> Option<Self> {
        Some(self).filter(|value| value.kind() == Kind::Object)
    }

    /// The members of an object as they come, names twice where they come twice; of another value none.
    pub(super) fn members(self) -> Members<'a> {
        Members { cursor: self.inside(Kind::Object), lone_surrogates: 0 }
    }

    /// The elements of an array; of another value none.
    pub(super) fn items(self) -> Items<'a> {
        Items(self.inside(Kind::Array))
    }

    fn inside(self, kind: Kind) -> Option<Cursor<'a>> {
        (self.kind() == kind).then(|| {
            let mut cursor = self.cursor();
            cursor.advance();
            cursor
        })
    }

    /// The named members of an object in one pass over it; of a repeated one the last.
    pub(super) fn find<const N: usize>(self, names: [&str; N]) -> [Option<Self>; N] {
        let mut found = [None; N];
        for (name, value) in self.members() {
            if let Some(place) = names.iter().position(|wanted| *wanted == name) {
                found[place] = Some(value);
            }
        }
        found
    }

    /// The text of a string without its escapes, `None` where it is something else. A lone surrogate is U+FFFD, and counted.
    pub(super) fn string(self, notes: &mut Notes) -> Option<Cow<'a, str>> {
        self.unescaped().map(|(text, lone_surrogates)| {
            notes.lone_surrogates += lone_surrogates;
            text
        })
    }

    /// The text of a string without its escapes, and how many of them were lone surrogates.
    pub(super) fn unescaped(self) -> Option<(Cow<'a, str>, u64)> {
        let inside = self.0.strip_prefix('"')?.strip_suffix('"')?;
        Some(if inside.contains('\\') {
            let (text, lone_surrogates) = unescape(inside);
            (Cow::Owned(text), lone_surrogates)
        } else {
            (Cow::Borrowed(inside), 0)
        })
    }

    /// A whole number from 0 to 2^63-1, as a number or as a text of digits: what a version can be. No fraction, no exponent, no sign.
    pub(super) fn version(self) -> Option<u64> {
        let digits = match self.kind() {
            Kind::Number => self.0,
            Kind::String => self.0.trim_matches('"'),
            _ => return None,
        };
        let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?;
        number.filter(|number| *number <= MAX_VERSION)
    }
}

/// The members of an object: names without escapes, and values.
#[derive(Debug, Clone)]
pub(super) struct Members<'a> {
    cursor: Option<Cursor<'a>>,
    /// Those in the names so far, each of which became U+FFFD.
    pub(super) lone_surrogates: u64,
}

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, Json<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let cursor = self.cursor.as_mut()?;
        let (name, lone_surrogates) = Json::part(cursor.next_field()??).unescaped()?;
        self.lone_surrogates += lone_surrogates;
        Some((name, Json::part(cursor.value()?)))
    }
}

/// The elements of an array.
#[derive(Debug, Clone)]
pub(super) struct Items<'a>(Option<Cursor<'a>>);

impl<'a> Iterator for Items<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let cursor = self.0.as_mut()?;
        cursor.next_element(b']')?.then(|| cursor.value().map(Json::part))?
    }
}

/// The text of the inside of a string that was checked, and how many lone surrogates became U+FFFD.
fn unescape(inside: &str) -> (String, u64) {
    let mut text = String::with_capacity(inside.len());
    let mut lone_surrogates = 0;
    let mut rest = inside;
    while let Some((before, escape)) = rest.split_once('\\') {
        text.push_str(before);
        let mut characters = escape.chars();
        let character = match characters.next() {
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('u') => {
                let unit = code_unit(escape).unwrap_or_default();
                let behind = escape.get(5..).unwrap_or_default();
                let pair = pair(unit, behind);
                rest = if pair.is_some() { behind.get(6..).unwrap_or_default() } else { behind };
                let one = pair.or_else(|| char::from_u32(u32::from(unit)));
                lone_surrogates += u64::from(one.is_none());
                text.push(one.unwrap_or(char::REPLACEMENT_CHARACTER));
                continue;
            }
            other => other.unwrap_or_default(),
        };
        text.push(character);
        rest = characters.as_str();
    }
    text.push_str(rest);
    (text, lone_surrogates)
}

#[cfg(test)]
mod tests;
