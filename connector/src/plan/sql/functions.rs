//! The functions there are, by their names, and what they come to. Every one is null where an argument that it needs is null, or of another type.

use std::cmp::Ordering;

use bigdecimal::RoundingMode;

use super::arithmetic::{self, Operator};
use super::convert::{Type, convert};
use super::expression::Expression;
use super::facts::Facts;
use super::instant::Part;
use super::set::{compare, order};
use super::text;
use super::value::{Comparison, Truth, Value};
use crate::codec::json_cursor::Cursor;

/// A function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::plan) enum Function {
    Upper,
    Lower,
    Length,
    Substring,
    TrimBoth,
    TrimLeft,
    TrimRight,
    Replace,
    Concat,
    Position,
    StartsWith,
    Left,
    Right,
    Abs,
    Round,
    Floor,
    Ceiling,
    Modulo,
    Sign,
    Greatest,
    Least,
    Coalesce,
    NullIf,
    ToTimestamp,
    Cardinality,
    /// The one of this part of time.
    Extract(Part),
    /// To the beginning of this part of time.
    Truncate(Part),
}

/// What a name in a call stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    /// A function of so many arguments, at least and at most.
    Function(Function, usize, usize),
    /// The moment at which the query was asked.
    Now,
    /// CAST, EXTRACT and what else has a syntax of its own, by its name in capitals.
    Special(&'static str),
}

/// As many arguments as there are.
pub(super) const ANY: usize = usize::MAX;

/// Every name that can be called.
const NAMES: [(&str, Named); 40] = [
    ("UPPER", Named::Function(Function::Upper, 1, 1)),
    ("LOWER", Named::Function(Function::Lower, 1, 1)),
    ("LENGTH", Named::Function(Function::Length, 1, 1)),
    ("CHAR_LENGTH", Named::Function(Function::Length, 1, 1)),
    ("CHARACTER_LENGTH", Named::Function(Function::Length, 1, 1)),
    ("SUBSTRING", Named::Function(Function::Substring, 2, 3)),
    ("SUBSTR", Named::Function(Function::Substring, 2, 3)),
    ("TRIM", Named::Function(Function::TrimBoth, 1, 2)),
    ("BTRIM", Named::Function(Function::TrimBoth, 1, 2)),
    ("LTRIM", Named::Function(Function::TrimLeft, 1, 2)),
    ("RTRIM", Named::Function(Function::TrimRight, 1, 2)),
    ("REPLACE", Named::Function(Function::Replace, 3, 3)),
    ("CONCAT", Named::Function(Function::Concat, 1, ANY)),
    ("POSITION", Named::Function(Function::Position, 2, 2)),
    ("STRPOS", Named::Function(Function::Position, 2, 2)),
    ("STARTS_WITH", Named::Function(Function::StartsWith, 2, 2)),
    ("LEFT", Named::Function(Function::Left, 2, 2)),
    ("RIGHT", Named::Function(Function::Right, 2, 2)),
    ("ABS", Named::Function(Function::Abs, 1, 1)),
    ("ROUND", Named::Function(Function::Round, 1, 2)),
    ("FLOOR", Named::Function(Function::Floor, 1, 1)),
    ("CEIL", Named::Function(Function::Ceiling, 1, 1)),
    ("CEILING", Named::Function(Function::Ceiling, 1, 1)),
    ("MOD", Named::Function(Function::Modulo, 2, 2)),
    ("SIGN", Named::Function(Function::Sign, 1, 1)),
    ("GREATEST", Named::Function(Function::Greatest, 1, ANY)),
    ("LEAST", Named::Function(Function::Least, 1, ANY)),
    ("COALESCE", Named::Function(Function::Coalesce, 1, ANY)),
    ("NULLIF", Named::Function(Function::NullIf, 2, 2)),
    ("TO_TIMESTAMP", Named::Function(Function::ToTimestamp, 1, 1)),
    ("CARDINALITY", Named::Function(Function::Cardinality, 1, 1)),
    ("SIZE", Named::Function(Function::Cardinality, 1, 1)),
    ("NOW", Named::Now),
    ("CURRENT_TIMESTAMP", Named::Now),
    ("CAST", Named::Special("CAST")),
    ("EXTRACT", Named::Special("EXTRACT")),
    ("DATE_TRUNC", Named::Special("DATE_TRUNC")),
    ("TIMESTAMP", Named::Special("TIMESTAMP")),
    ("DATE", Named::Special("DATE")),
    ("INTERVAL", Named::Special("INTERVAL")),
];

/// What a name stands for, whatever its case.
pub(super) fn named(name: &str) -> Option<Named> {
    NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, named)| *named)
}

/// The function whose name is nearest to one that there is not, where one is near.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_uppercase();
    let likeness = |known: &str| strsim::jaro_winkler(&name, known);
    let best = NAMES.iter().map(|(known, _)| *known).max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) >= 0.75).then_some(best)
}

/// Functions of many rows, of which a query and a rule see one at a time.
pub(in crate::plan) fn is_of_many_rows(name: &str) -> bool {
    const OF_MANY: [&str; 20] = [
        "COUNT",
        "SUM",
        "MIN",
        "MAX",
        "AVG",
        "STDDEV",
        "VARIANCE",
        "MEDIAN",
        "COUNT_DISTINCT",
        "APPROX_COUNT_DISTINCT",
        "ARRAY_AGG",
        "STRING_AGG",
        "LISTAGG",
        "GROUP_CONCAT",
        "COLLECT_LIST",
        "COLLECT_SET",
        "LATEST_BY_OFFSET",
        "EARLIEST_BY_OFFSET",
        "TOPK",
        "HISTOGRAM",
    ];
    OF_MANY.iter().any(|known| known.eq_ignore_ascii_case(name))
}

impl Function {
    /// Whether what it comes to may be true or false.
    pub(super) fn may_be_bool(self) -> bool {
        matches!(self, Self::StartsWith | Self::Coalesce | Self::NullIf | Self::Greatest | Self::Least)
    }

    /// What it comes to for a row.
    pub(super) fn call<'a>(self, arguments: &'a [Expression], facts: &Facts<'a>) -> Value<'a> {
        match self {
            Self::Coalesce => {
                arguments.iter().map(|argument| argument.value(facts)).find(|value| *value != Value::Null).unwrap_or(Value::Null)
            }
            Self::Greatest => extreme(arguments, facts, Ordering::Greater),
            Self::Least => extreme(arguments, facts, Ordering::Less),
            Self::Concat => {
                let texts = arguments.iter().filter_map(|argument| argument.value(facts).into_text());
                text::join(texts)
            }
            _ => {
                let value = |at: usize| arguments.get(at).map(|argument: &'a Expression| argument.value(facts));
                self.of(value(0).unwrap_or(Value::Null), value(1), value(2))
            }
        }
    }

    fn of<'a>(self, first: Value<'a>, second: Option<Value<'a>>, third: Option<Value<'a>>) -> Value<'a> {
        match (self, first, second, third) {
            (Self::Upper, Value::Text(text), ..) => text::cased(&text, true),
            (Self::Lower, Value::Text(text), ..) => text::cased(&text, false),
            (Self::Length, Value::Text(text), ..) => arithmetic::whole(i64::try_from(text.chars().count()).unwrap_or(i64::MAX)),
            (Self::Substring, Value::Text(text), Some(from), None) => whole(&from).map_or(Value::Null, |from| text::part(text, from, None)),
            (Self::Substring, Value::Text(text), Some(from), Some(length)) => match (whole(&from), whole(&length)) {
                (Some(from), Some(length)) => text::part(text, from, Some(length)),
                _ => Value::Null,
            },
            (Self::TrimBoth | Self::TrimLeft | Self::TrimRight, Value::Text(text), characters, _) => {
                let characters = match &characters {
                    None => " ",
                    Some(Value::Text(characters)) => characters,
                    Some(_) => return Value::Null,
                };
                text::trimmed(text, characters, self != Self::TrimRight, self != Self::TrimLeft)
            }
            (Self::Replace, Value::Text(text), Some(Value::Text(part)), Some(Value::Text(by))) => text::replaced(text, &part, &by),
            (Self::Position, Value::Text(text), Some(Value::Text(part)), _) => arithmetic::whole(text::place(&text, &part)),
            (Self::StartsWith, Value::Text(text), Some(Value::Text(part)), _) => Value::Bool(text.starts_with(&*part)),
            (Self::Left | Self::Right, Value::Text(text), Some(count), _) => {
                whole(&count).map_or(Value::Null, |count| text::end(text, count, self == Self::Left))
            }
            (Self::Abs, Value::Number(number), ..) => Value::Number(number.absolute()),
            (Self::Round, Value::Number(number), digits, _) => match digits.map_or(Some(0), |digits| whole(&digits)) {
                Some(digits) => arithmetic::rounded(&number, digits, RoundingMode::HalfUp),
                None => Value::Null,
            },
            (Self::Floor, Value::Number(number), ..) => arithmetic::rounded(&number, 0, RoundingMode::Floor),
            (Self::Ceiling, Value::Number(number), ..) => arithmetic::rounded(&number, 0, RoundingMode::Ceiling),
            (Self::Modulo, left, Some(right), _) => arithmetic::apply(left, Operator::Remainder, right),
            (Self::Sign, Value::Number(number), ..) => arithmetic::whole(if number.is_zero() {
                0
            } else if number.is_negative() {
                -1
            } else {
                1
            }),
            (Self::NullIf, first, Some(second), _) => match compare(&first, Comparison::Equal, &second) {
                Truth::True => Value::Null,
                _ => first,
            },
            (Self::ToTimestamp, value, ..) => convert(value, Type::Timestamp),
            (Self::Cardinality, Value::Json(json), ..) => length(&json).map_or(Value::Null, arithmetic::whole),
            (Self::Extract(part), value @ (Value::Time(_) | Value::Text(_)), ..) => {
                let digits = value.instant().and_then(|instant| instant.part(part));
                digits.map_or(Value::Null, |digits| convert(Value::Text(digits.into()), Type::Decimal(None)))
            }
            (Self::Truncate(part), value @ (Value::Time(_) | Value::Text(_)), ..) => {
                value.instant().and_then(|instant| instant.truncated(part)).map_or(Value::Null, Value::Time)
            }
            _ => Value::Null,
        }
    }
}

/// A whole number of 64 bits.
fn whole(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Number(number) => number.whole(),
        _ => None,
    }
}

/// The greatest value, or the least; null where one cannot be compared with the others.
fn extreme<'a>(arguments: &'a [Expression], facts: &Facts<'a>, wanted: Ordering) -> Value<'a> {
    let mut best: Option<Value<'a>> = None;
    for argument in arguments {
        let value = argument.value(facts);
        match &best {
            None if matches!(value, Value::Null | Value::Json(_)) => return Value::Null,
            None => best = Some(value),
            Some(so_far) => match order(&value, so_far) {
                None => return Value::Null,
                Some(found) if found == wanted => best = Some(value),
                Some(_) => {}
            },
        }
    }
    best.unwrap_or(Value::Null)
}

/// How many elements a list has; `None` for an object.
fn length(json: &[u8]) -> Option<i64> {
    let mut cursor = Cursor::new(json);
    if cursor.peek()? != b'[' {
        return None;
    }
    cursor.advance();
    let mut count = 0;
    while cursor.next_element(b']')? {
        cursor.value()?;
        count += 1;
    }
    Some(count)
}
