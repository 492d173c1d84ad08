//! Values of one type as values of another. What cannot be converted is null.

use std::borrow::Cow;

use bigdecimal::RoundingMode;

use super::arithmetic;
use super::number::Number;
use super::text;
use super::value::Value;

/// A type that CAST knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::plan) enum Type {
    /// Text, of at most so many characters.
    Text(Option<u32>),
    /// A whole number of any size.
    Integer,
    /// A number of any size, or one of so many digits, of which so many stand behind the decimal point.
    Decimal(Option<(u32, u32)>),
    /// True or false.
    Bool,
    /// A point in time.
    Timestamp,
    /// A day, as text.
    Date,
}

/// The names of the types, and how many numbers in parentheses they take.
const TYPES: [(&str, Type, usize); 18] = [
    ("VARCHAR", Type::Text(None), 1),
    ("CHAR", Type::Text(None), 1),
    ("CHARACTER", Type::Text(None), 1),
    ("TEXT", Type::Text(None), 0),
    ("STRING", Type::Text(None), 0),
    ("INT", Type::Integer, 0),
    ("INTEGER", Type::Integer, 0),
    ("BIGINT", Type::Integer, 0),
    ("SMALLINT", Type::Integer, 0),
    ("DECIMAL", Type::Decimal(None), 2),
    ("NUMERIC", Type::Decimal(None), 2),
    ("DOUBLE", Type::Decimal(None), 0),
    ("FLOAT", Type::Decimal(None), 0),
    ("REAL", Type::Decimal(None), 0),
    ("BOOLEAN", Type::Bool, 0),
    ("BOOL", Type::Bool, 0),
    ("TIMESTAMP", Type::Timestamp, 0),
    ("DATE", Type::Date, 0),
];

impl Type {
    /// The type of this name, in capitals, with the numbers behind it.
    ///
    /// # Errors
    /// What is expected in place of it.
    pub(super) fn named(name: &str, numbers: &[u32]) -> Result<Self, String> {
        let Some((_, found, most)) = TYPES.iter().find(|(known, ..)| *known == name) else {
            let names: Vec<&str> = TYPES.iter().map(|(name, ..)| *name).collect();
            return Err(format!("a type of {}", names.join(", ")));
        };
        match (found, numbers) {
            (Self::Text(_), [length]) if *most > 0 => Ok(Self::Text(Some(*length))),
            (Self::Decimal(_), [digits]) if *most > 0 => Ok(Self::Decimal(Some((*digits, 0)))),
            (Self::Decimal(_), [digits, scale]) if *most > 1 && scale <= digits => Ok(Self::Decimal(Some((*digits, *scale)))),
            (_, []) => Ok(*found),
            _ => Err(format!("{name} with other numbers behind it, or none")),
        }
    }
}

/// The value as one of this type.
pub(super) fn convert(value: Value<'_>, target: Type) -> Value<'_> {
    match target {
        Type::Text(length) => match (value.into_text(), length) {
            (Some(whole), Some(length)) => text::end(whole, i64::from(length), true),
            (Some(whole), None) => Value::Text(whole),
            (None, _) => Value::Null,
        },
        Type::Integer => match to_number(value) {
            Value::Number(number) => arithmetic::rounded(&number, 0, RoundingMode::HalfUp),
            _ => Value::Null,
        },
        Type::Decimal(None) => to_number(value),
        Type::Decimal(Some((digits, scale))) => match to_number(value) {
            Value::Number(number) => match arithmetic::rounded(&number, i64::from(scale), RoundingMode::HalfUp) {
                Value::Number(rounded) if fits(&rounded, digits, scale) => Value::Number(rounded),
                _ => Value::Null,
            },
            _ => Value::Null,
        },
        Type::Bool => match value {
            Value::Bool(value) => Value::Bool(value),
            Value::Text(text) if text.eq_ignore_ascii_case("true") => Value::Bool(true),
            Value::Text(text) if text.eq_ignore_ascii_case("false") => Value::Bool(false),
            _ => Value::Null,
        },
        Type::Timestamp => match value {
            Value::Time(instant) => Value::Time(instant),
            other => other.instant().map_or(Value::Null, |instant| Value::Time(instant.into_owned())),
        },
        Type::Date => value.instant().map_or(Value::Null, |instant| Value::Text(Cow::Owned(instant.date()))),
    }
}

/// Whether a number has at most so many digits before its decimal point as a type leaves to it.
fn fits(number: &Number<'_>, digits: u32, scale: u32) -> bool {
    let (_, _, point) = number.parts();
    point <= i64::from(digits - scale)
}

fn to_number(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Number(number) => Value::Number(number),
        Value::Text(text) => {
            json_number(text.trim()).and_then(|number| Number::read(Cow::Owned(number.into_bytes()))).map_or(Value::Null, Value::Number)
        }
        Value::Bool(value) => arithmetic::whole(i64::from(value)),
        _ => Value::Null,
    }
}

/// A number as JSON writes it: SQL allows more zeros at its beginning, a plus, and a decimal point with nothing on one side.
pub(super) fn json_number(text: &str) -> Option<String> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = rest.split_at(rest.find(['e', 'E']).unwrap_or(rest.len()));
    let (whole, fraction) = mantissa.split_once('.').map_or((mantissa, None), |(whole, fraction)| (whole, Some(fraction)));
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if fraction.is_some() { "." } else { "" };
    let fraction = fraction.map_or("", |fraction| if fraction.is_empty() { "0" } else { fraction });
    Number::read(rest.as_bytes())?;
    (!rest.starts_with('-')).then(|| format!("{sign}{whole}{point}{fraction}{exponent}"))
}
