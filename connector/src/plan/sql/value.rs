//! A value of a document or of an expression, the comparisons there are, and the three values that logic has in SQL.
//!
//! Plain data; how values compare is `set.rs`.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::instant::Instant;
use super::number::Number;

/// What is known about a condition. The order makes AND the least and OR the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::plan) enum Truth {
    /// It does not hold.
    False,
    /// It cannot be told: something is null, missing or of another type.
    Unknown,
    /// It holds.
    True,
}

impl Truth {
    /// The opposite; of what is unknown too.
    pub(super) fn negated(self) -> Self {
        match self {
            Self::False => Self::True,
            Self::Unknown => Self::Unknown,
            Self::True => Self::False,
        }
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::plan) enum Value<'a> {
    /// Null, or nothing at all.
    Null,
    /// True or false; false is below true.
    Bool(bool),
    /// A number.
    Number(Number<'a>),
    /// A string, unescaped. Its order is that of its code points, which is that of its bytes.
    Text(Cow<'a, str>),
    /// A point in time.
    Time(Instant<'a>),
    /// JSON text of what compares with nothing by itself: an object, a list, or a number with an exponent beyond 64 bits.
    Json(Cow<'a, [u8]>),
}

impl<'a> Value<'a> {
    /// Reads a JSON value.
    pub(in crate::plan) fn read(json: &'a [u8]) -> Self {
        match json {
            b"null" => Self::Null,
            b"true" => Self::Bool(true),
            b"false" => Self::Bool(false),
            [b'"', inside @ .., b'"'] => {
                let text = if memchr::memchr(b'\\', inside).is_none() {
                    std::str::from_utf8(inside).ok().map(Cow::Borrowed)
                } else {
                    serde_json::from_slice(json).ok().map(Cow::Owned)
                };
                text.map_or(Self::Json(Cow::Borrowed(json)), Self::Text)
            }
            [b'{' | b'[', ..] => Self::Json(Cow::Borrowed(json)),
            _ => Number::read(json).map_or(Self::Json(Cow::Borrowed(json)), Self::Number),
        }
    }

    /// The same value without a text of its own.
    pub(in crate::plan) fn borrowed(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(number) => Value::Number(number.borrowed()),
            Self::Text(text) => Value::Text(Cow::Borrowed(text)),
            Self::Time(instant) => Value::Time(instant.borrowed()),
            Self::Json(json) => Value::Json(Cow::Borrowed(json)),
        }
    }

    /// The same value with its text owned.
    pub(in crate::plan) fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Number(number) => Value::Number(number.into_owned()),
            Self::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Self::Time(instant) => Value::Time(instant.into_owned()),
            Self::Json(json) => Value::Json(Cow::Owned(json.into_owned())),
        }
    }

    /// The value as a text, where it is no list and no object: numbers as they are written, times as RFC 3339 writes them. `None` for null.
    pub(super) fn into_text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Null | Self::Json(_) => None,
            Self::Bool(value) => Some(if value { "true" } else { "false" }.into()),
            Self::Number(number) => match number.into_text() {
                Cow::Borrowed(text) => std::str::from_utf8(text).ok().map(Cow::Borrowed),
                Cow::Owned(text) => String::from_utf8(text).ok().map(Cow::Owned),
            },
            Self::Text(text) => Some(text),
            Self::Time(instant) => Some(instant.to_string().into()),
        }
    }

    /// The point in time that a value says: a time itself, a text that reads as one, a number of milliseconds since 1970.
    pub(super) fn instant(&self) -> Option<Instant<'_>> {
        match self {
            Self::Time(instant) => Some(instant.borrowed()),
            Self::Text(text) => Instant::read(text).map(|(instant, _)| instant),
            Self::Number(number) => number.millis(),
            _ => None,
        }
    }
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::plan) enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// Whether an order is one of those that the comparison asks for.
    pub(super) fn allows(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }

    /// The same comparison with its sides exchanged.
    pub(super) fn flipped(self) -> Self {
        match self {
            Self::Equal | Self::NotEqual => self,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Value<'_> {
        Value::read(json.as_bytes())
    }

    #[test]
    fn values_are_read_as_they_are_meant() {
        assert_eq!(value("null"), Value::Null);
        assert_eq!(value("true"), Value::Bool(true));
        assert_eq!(value(r#""a\u00e9\n\ud83d\ude00""#), Value::Text("aé\n😀".into()));
        for json in ["{\"a\":1}", "[1]", "1e99999999999999999999"] {
            assert_eq!(value(json), Value::Json(json.as_bytes().into()));
        }
        assert!(matches!(value("-442.30"), Value::Number(_)));
    }
}
