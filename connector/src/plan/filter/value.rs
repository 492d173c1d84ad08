//! A value of a document or of a condition, and how it compares, in the three-valued logic of SQL.
//!
//! Never converts: values of different types are neither equal nor different, and no comparison is an error.

use std::borrow::Cow;

use super::number::Number;

/// What is known about a condition. The order makes AND the least and OR the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Truth {
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
pub(super) enum Value<'a> {
    /// Null.
    Null,
    /// True or false; false is below true.
    Bool(bool),
    /// A number.
    Number(Number<'a>),
    /// A string, unescaped. Its order is that of its code points, which is that of its bytes.
    Text(Cow<'a, str>),
    /// What compares with nothing: an object, or a number with an exponent beyond 64 bits.
    Other,
}

impl<'a> Value<'a> {
    /// Reads a JSON value that is no list.
    pub(super) fn read(json: &'a [u8]) -> Self {
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
                text.map_or(Self::Other, Self::Text)
            }
            _ => Number::read(json).map_or(Self::Other, Self::Number),
        }
    }
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
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

/// Values to compare others with, sorted, so that a long list costs little.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Set<'a> {
    bools: Vec<bool>,
    numbers: Vec<Number<'a>>,
    texts: Vec<Cow<'a, str>>,
    /// Whether there are nulls, or values that compare with nothing.
    others: bool,
}

impl<'a> Set<'a> {
    /// The set of these values.
    pub(super) fn of(values: impl IntoIterator<Item = Value<'a>>) -> Self {
        let mut set = Self::default();
        for value in values {
            match value {
                Value::Bool(value) => set.bools.push(value),
                Value::Number(value) => set.numbers.push(value),
                Value::Text(value) => set.texts.push(value),
                Value::Null | Value::Other => set.others = true,
            }
        }
        set.bools.sort_unstable();
        set.numbers.sort_unstable();
        set.texts.sort_unstable();
        set
    }

    /// Whether `value` compares like this with any value of the set: true with one is true, else unknown with one is unknown. Without any
    /// value it is unknown, as for null.
    pub(super) fn holds(&self, value: &Value<'_>, comparison: Comparison) -> Truth {
        let (found, of_its_type) = match value {
            Value::Bool(value) => (any(value, comparison, &self.bools), self.bools.len()),
            Value::Number(value) => (any(value, comparison, &self.numbers), self.numbers.len()),
            Value::Text(value) => (any(value, comparison, &self.texts), self.texts.len()),
            Value::Null | Value::Other => return Truth::Unknown,
        };
        let all = self.bools.len() + self.numbers.len() + self.texts.len();
        match found {
            true => Truth::True,
            false if self.others || of_its_type == 0 || of_its_type < all => Truth::Unknown,
            false => Truth::False,
        }
    }
}

fn any<T: Ord>(value: &T, comparison: Comparison, sorted: &[T]) -> bool {
    let [least, ..] = sorted else { return false };
    let greatest = &sorted[sorted.len() - 1];
    match comparison {
        Comparison::Equal => sorted.binary_search(value).is_ok(),
        Comparison::NotEqual => value != least || value != greatest,
        Comparison::Less => value < greatest,
        Comparison::LessOrEqual => value <= greatest,
        Comparison::Greater => value > least,
        Comparison::GreaterOrEqual => value >= least,
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
        assert_eq!(value("{\"a\":1}"), Value::Other);
        assert_eq!(value("1e99999999999999999999"), Value::Other);
        assert!(matches!(value("-442.30"), Value::Number(_)));
    }

    #[test]
    fn strings_are_ordered_by_their_code_points_whatever_their_escapes() {
        let ascending = [r#""""#, r#""\u0000""#, r#"" ""#, r#""2017-08-21""#, r#""2017-08-21T00:00:00Z""#, r#""Z""#, r#""a""#, r#""é""#];
        // A surrogate pair stands for a code point above U+FFFF; as UTF-16 it would come before U+FF5E.
        let above = [r#""\uff5e""#, r#""\ud83d\ude00""#];
        let all: Vec<&str> = ascending.into_iter().chain(above).collect();
        for (i, a) in all.iter().enumerate() {
            for (j, b) in all.iter().enumerate() {
                let holds = |comparison| Set::of([value(b)]).holds(&value(a), comparison);
                assert_eq!(holds(Comparison::Less), Truth::from(i < j), "{a} {b}");
                assert_eq!(holds(Comparison::Equal), Truth::from(i == j), "{a} {b}");
            }
        }
    }

    #[test]
    fn a_comparison_with_a_set_is_a_comparison_with_each_of_its_values() {
        let values = ["null", "true", "false", "1", "1.0", "2", "\"1\"", "\"x\"", "{}"];
        let comparisons = [
            Comparison::Equal,
            Comparison::NotEqual,
            Comparison::Less,
            Comparison::LessOrEqual,
            Comparison::Greater,
            Comparison::GreaterOrEqual,
        ];
        let triples: Vec<[&str; 3]> = values.into_iter().flat_map(|b| values.map(|c| values.map(|d| [b, c, d]))).flatten().collect();
        for a in values.map(value) {
            for comparison in comparisons {
                assert_eq!(Set::default().holds(&a, comparison), Truth::Unknown);
                for triple in &triples {
                    let each = triple.map(|one| Set::of([value(one)]).holds(&a, comparison));
                    let all = Set::of(triple.map(value)).holds(&a, comparison);
                    assert_eq!(Some(all), each.into_iter().max(), "{a:?} {comparison:?} {triple:?}");
                }
            }
        }
    }
}
