//! A condition as a tree, and what is known about it for one document.
//!
//! Plain data: knows neither SQL text nor JSON text. As deep as its parentheses, since a chain of AND or OR is one node.

use std::borrow::Cow;

use super::extract::Found;
use super::like::Pattern;
use super::value::{Comparison, Set, Truth, Value};

/// A condition. A path is named by its number among the wanted.
#[derive(Debug, Clone)]
pub(super) enum Condition {
    /// TRUE or FALSE.
    Constant(bool),
    /// The opposite.
    Not(Box<Condition>),
    /// AND: all of them hold.
    All(Vec<Condition>),
    /// OR: at least one holds.
    Any(Vec<Condition>),
    /// Some value at the path compares like this with some value of the operand. IN is an `=` with several values.
    Compare(usize, Comparison, Operand),
    /// Some value at the path is between two others, both included.
    Between(usize, Operand, Operand),
    /// Some value at the path fits the pattern.
    Like(usize, Pattern),
    /// No value at the path is anything but null.
    IsNull(usize),
    /// The path leads nowhere.
    IsMissing(usize),
}

/// What the values at a path are compared with.
#[derive(Debug, Clone)]
pub(super) enum Operand {
    /// Values that the condition names.
    Values(Set<'static>),
    /// The values at another path.
    Path(usize),
}

impl Operand {
    fn values<'s, 'a>(&'s self, found: &Found<'a>) -> Cow<'s, Set<'a>> {
        match self {
            Self::Values(values) => Cow::Borrowed(values),
            Self::Path(path) => Cow::Owned(Set::of(found.values(*path))),
        }
    }
}

impl Condition {
    /// What is known about the condition, given what a document has at its paths.
    pub(super) fn holds(&self, found: &Found<'_>) -> Truth {
        match self {
            Self::Constant(holds) => Truth::from(*holds),
            Self::Not(condition) => condition.holds(found).negated(),
            Self::All(conditions) => least(conditions, found),
            Self::Any(conditions) => greatest(conditions.iter().map(|condition| condition.holds(found))).unwrap_or(Truth::False),
            Self::Compare(path, comparison, operand) => {
                let values = operand.values(found);
                any(found, *path, |value| values.holds(value, *comparison))
            }
            Self::Between(path, low, high) => {
                let (low, high) = (low.values(found), high.values(found));
                any(found, *path, |value| low.holds(value, Comparison::GreaterOrEqual).min(high.holds(value, Comparison::LessOrEqual)))
            }
            Self::Like(path, pattern) => any(found, *path, |value| match value {
                Value::Text(text) => Truth::from(pattern.fits(text)),
                _ => Truth::Unknown,
            }),
            Self::IsNull(path) => Truth::from(found.values(*path).all(|value| value == Value::Null)),
            Self::IsMissing(path) => Truth::from(found.is_missing(*path)),
        }
    }
}

/// What is known about some value at a path; unknown where there is none, as for null.
fn any(found: &Found<'_>, path: usize, judge: impl Fn(&Value<'_>) -> Truth) -> Truth {
    greatest(found.values(path).map(|value| judge(&value))).unwrap_or(Truth::Unknown)
}

fn least(conditions: &[Condition], found: &Found<'_>) -> Truth {
    let mut least = Truth::True;
    for condition in conditions {
        least = least.min(condition.holds(found));
        if least == Truth::False {
            break;
        }
    }
    least
}

/// The greatest, without looking further than the first that is true.
fn greatest(truths: impl Iterator<Item = Truth>) -> Option<Truth> {
    let mut greatest = None;
    for truth in truths {
        greatest = greatest.max(Some(truth));
        if truth == Truth::True {
            break;
        }
    }
    greatest
}
