//! How values compare, one with one and one with many, in the three-valued logic of SQL.
//!
//! Never converts but for time: values of different types are neither equal nor different, and no comparison is an error. Two texts that are both
//! points in time, of which one at least has a time of day and an offset, compare as these; a time compares with every text that says one,
//! and with numbers as milliseconds since 1970.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::instant::{Form, Instant};
use super::number::Number;
use super::value::{Comparison, Truth, Value};

/// A text as comparisons see it.
enum Text<'t> {
    Plain,
    Date(Instant<'t>),
    Full(Instant<'t>),
}

impl<'t> Text<'t> {
    fn of(text: &'t str) -> Self {
        // Most texts are told apart by one byte, and no date has fewer than ten.
        if text.len() < 10 || text.as_bytes()[4] != b'-' {
            return Self::Plain;
        }
        match Instant::read(text) {
            Some((instant, Form::Full)) => Self::Full(instant),
            Some((instant, Form::Date)) => Self::Date(instant),
            _ => Self::Plain,
        }
    }
}

/// The order of two values; `None` where they have none.
pub(super) fn order(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => Some(a.cmp(b)),
        (Value::Text(a), Value::Text(b)) => Some(match (Text::of(a), Text::of(b)) {
            (Text::Full(a), Text::Full(b) | Text::Date(b)) | (Text::Date(a), Text::Full(b)) => a.cmp(&b),
            _ => a.cmp(b),
        }),
        (Value::Time(a), b) => Some(a.cmp(&b.instant()?)),
        (a, Value::Time(b)) => Some(a.instant()?.cmp(b)),
        _ => None,
    }
}

/// Whether one value compares like this with another.
pub(super) fn compare(a: &Value<'_>, comparison: Comparison, b: &Value<'_>) -> Truth {
    order(a, b).map_or(Truth::Unknown, |order| Truth::from(comparison.allows(order)))
}

/// Values to compare others with, sorted, so that a long list costs little.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::plan) struct Set<'a> {
    bools: Vec<bool>,
    numbers: Vec<Number<'a>>,
    /// Texts that are no point in time.
    plain: Vec<Cow<'a, str>>,
    /// Texts that are dates.
    dates: Vec<Cow<'a, str>>,
    /// Texts that are points in time, in the order of texts.
    full: Vec<Cow<'a, str>>,
    /// The same, in the order of time.
    instants: Vec<Instant<'static>>,
    times: Vec<Instant<'a>>,
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
                Value::Text(value) => match Text::of(&value) {
                    Text::Plain => set.plain.push(value),
                    Text::Date(_) => set.dates.push(value),
                    Text::Full(instant) => {
                        set.instants.push(instant.into_owned());
                        set.full.push(value);
                    }
                },
                Value::Time(value) => set.times.push(value),
                Value::Null | Value::Json(_) => set.others = true,
            }
        }
        set.bools.sort_unstable();
        set.numbers.sort_unstable();
        set.times.sort_unstable();
        set.instants.sort_unstable();
        for texts in [&mut set.plain, &mut set.dates, &mut set.full] {
            texts.sort_unstable();
        }
        set
    }

    /// Whether it has no value.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether `value` compares like this with any value of the set: true with one is true, else unknown with one is unknown. Without any
    /// value it is unknown, as for null.
    pub(super) fn holds(&self, value: &Value<'_>, comparison: Comparison) -> Truth {
        let texts = self.plain.len() + self.dates.len() + self.full.len();
        let all = self.bools.len() + self.numbers.len() + self.times.len() + texts;
        let (found, comparable) = match value {
            Value::Bool(value) => (any(value, comparison, &self.bools), self.bools.len()),
            Value::Number(number) => {
                let (found, times) = self.any_time(value, comparison);
                (found || any(number, comparison, &self.numbers), self.numbers.len() + times)
            }
            Value::Text(text) => {
                let (found, times) = self.any_time(value, comparison);
                (found || self.any_text(text, comparison), texts + times)
            }
            Value::Time(instant) => return self.any_of_time(instant, comparison, all),
            Value::Null | Value::Json(_) => return Truth::Unknown,
        };
        match found {
            true => Truth::True,
            false if self.others || comparable == 0 || comparable < all => Truth::Unknown,
            false => Truth::False,
        }
    }

    /// Whether a value that is no time compares like this with any time, and how many times it can be compared with.
    fn any_time(&self, value: &Value<'_>, comparison: Comparison) -> (bool, usize) {
        if self.times.is_empty() {
            return (false, 0);
        }
        value.instant().map_or((false, 0), |instant| (any(&instant, comparison, &self.times), self.times.len()))
    }

    fn any_text(&self, text: &str, comparison: Comparison) -> bool {
        let as_text = |texts: &[Cow<'_, str>]| any_by(|other: &Cow<'_, str>| text.cmp(other), comparison, texts);
        let as_time = |instant: &Instant<'_>| any_by(|other: &Instant<'_>| instant.cmp(other), comparison, &self.instants);
        match Text::of(text) {
            Text::Plain => as_text(&self.plain) || as_text(&self.dates) || as_text(&self.full),
            Text::Date(instant) => as_text(&self.plain) || as_text(&self.dates) || as_time(&instant),
            Text::Full(instant) => {
                let as_date = |other: &Cow<'_, str>| Instant::read(other).map_or(Ordering::Equal, |(other, _)| instant.cmp(&other));
                as_text(&self.plain) || any_by(as_date, comparison, &self.dates) || as_time(&instant)
            }
        }
    }

    /// A time compares with what says one, which is looked at one by one.
    fn any_of_time(&self, instant: &Instant<'_>, comparison: Comparison, all: usize) -> Truth {
        let mut comparable = self.times.len();
        let mut judge = |other: Option<Instant<'_>>| {
            other.is_some_and(|other| {
                comparable += 1;
                comparison.allows(instant.cmp(&other))
            })
        };
        let mut texts = self.plain.iter().chain(&self.dates).chain(&self.full);
        let found = any_by(|other: &Instant<'_>| instant.cmp(other), comparison, &self.times)
            || texts.any(|text| judge(Instant::read(text).map(|(instant, _)| instant)))
            || self.numbers.iter().any(|number| judge(number.millis()));
        match found {
            true => Truth::True,
            false if self.others || comparable == 0 || comparable < all => Truth::Unknown,
            false => Truth::False,
        }
    }
}

fn any<T: Ord>(value: &T, comparison: Comparison, sorted: &[T]) -> bool {
    any_by(|other| value.cmp(other), comparison, sorted)
}

/// Whether what `order` says of some value is what the comparison asks for. It is how the one compares with the other, and the others are sorted.
fn any_by<T>(order: impl Fn(&T) -> Ordering, comparison: Comparison, sorted: &[T]) -> bool {
    let [least, ..] = sorted else { return false };
    let greatest = &sorted[sorted.len() - 1];
    match comparison {
        Comparison::Equal => sorted.binary_search_by(|other| order(other).reverse()).is_ok(),
        Comparison::NotEqual => order(least).is_ne() || order(greatest).is_ne(),
        Comparison::Less | Comparison::LessOrEqual => comparison.allows(order(greatest)),
        Comparison::Greater | Comparison::GreaterOrEqual => comparison.allows(order(least)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Value<'_> {
        Value::read(json.as_bytes())
    }

    #[test]
    fn strings_are_ordered_by_their_code_points_whatever_their_escapes() {
        let ascending = [r#""""#, r#""\u0000""#, r#"" ""#, r#""2017-08-21""#, r#""2017-08-21x""#, r#""Z""#, r#""a""#, r#""é""#];
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
        let values = [
            "null",
            "true",
            "1",
            "2",
            "\"x\"",
            "{}",
            "\"1970-01-01\"",
            "\"1970-01-01T00:00:00Z\"",
            "\"1970-01-01T01:00:00.0010+01:00\"",
            "\"1970-01-01T\"",
        ];
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
