//! A condition as a tree, and what is known about it for one row.
//!
//! Plain data: knows neither SQL text nor JSON text. As deep as its parentheses, since a chain of AND or OR is one node.

use std::borrow::Cow;

use super::expression::Expression;
use super::extract::Elements;
use super::facts::{Facts, Field};
use super::like::Pattern;
use super::set::{Set, compare};
use super::value::{Comparison, Truth, Value};

/// A condition.
#[derive(Debug, Clone)]
pub(in crate::plan) enum Condition {
    /// TRUE or FALSE.
    Constant(bool),
    /// The opposite.
    Not(Box<Condition>),
    /// AND: all of them hold.
    All(Vec<Condition>),
    /// OR: at least one holds.
    Any(Vec<Condition>),
    /// Some value of the left compares like this with some value of the right.
    Compare(Operand, Comparison, Operand),
    /// Some value is equal to one of these, or to some value of one of those.
    In(Operand, Set<'static>, Vec<Operand>),
    /// Some value is between two others, both included.
    Between(Operand, Operand, Operand),
    /// Some value fits the pattern.
    Like(Operand, Pattern),
    /// No value is anything but null.
    IsNull(Operand),
    /// The path leads nowhere.
    IsMissing(Field),
    /// This, and nothing else, is known about the condition.
    Is(Box<Condition>, Truth),
}

/// What is compared: any of its values.
#[derive(Debug, Clone)]
pub(in crate::plan) enum Operand {
    /// Values that the text names; only to compare others with.
    Constants(Set<'static>),
    /// Those that a field has; of a list its elements.
    Field(Field),
    /// What is computed; of a list its elements.
    Computed(Expression),
}

/// The values of an operand, to compare others with.
enum Others<'a> {
    One(Value<'a>),
    Set(Cow<'a, Set<'a>>),
}

impl Others<'_> {
    fn hold(&self, value: &Value<'_>, comparison: Comparison) -> Truth {
        match self {
            Self::One(other) => compare(value, comparison, other),
            Self::Set(set) => set.holds(value, comparison),
        }
    }
}

impl Operand {
    /// What is known about some value; unknown where there is none, as for null. Looks no further than the first for which it is true.
    fn any<'a>(&'a self, facts: &Facts<'a>, judge: impl FnMut(Value<'a>) -> Truth) -> Truth {
        let known = match self {
            Self::Field(Field::Document(number)) => greatest(facts.document.values(*number).map(judge)),
            Self::Field(Field::Committed(number)) => greatest(facts.committed.values(*number).map(judge)),
            Self::Field(column @ Field::Column(_)) => greatest(elements(facts.value(*column)).map(judge)),
            Self::Computed(expression) => match expression.value(facts) {
                list @ Value::Json(_) => greatest(elements(list).map(judge)),
                one => greatest(std::iter::once(one).map(judge)),
            },
            Self::Constants(_) => None,
        };
        known.unwrap_or(Truth::Unknown)
    }

    fn others<'a>(&'a self, facts: &Facts<'a>) -> Others<'a> {
        if let Self::Constants(set) = self {
            return Others::Set(Cow::Borrowed(set));
        }
        let mut first = None;
        let mut more = Vec::new();
        self.any(facts, |value| {
            if first.is_none() {
                first = Some(value)
            } else {
                more.push(value)
            }
            Truth::Unknown
        });
        match first {
            Some(one) if more.is_empty() => Others::One(one),
            first => Others::Set(Cow::Owned(Set::of(first.into_iter().chain(more)))),
        }
    }
}

/// A value, or of a list its elements.
fn elements(value: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    let (one, many) = match value {
        Value::Json(Cow::Borrowed(json)) => (None, Some(Elements::of(json).map(Value::read).collect::<Vec<_>>())),
        Value::Json(Cow::Owned(json)) => (None, Some(Elements::of(&json).map(|text| Value::read(text).into_owned()).collect())),
        one => (Some(one), None),
    };
    one.into_iter().chain(many.into_iter().flatten())
}

impl Condition {
    /// What is known about the condition, given what a row has.
    pub(in crate::plan) fn holds<'a>(&'a self, facts: &Facts<'a>) -> Truth {
        match self {
            Self::Constant(holds) => Truth::from(*holds),
            Self::Not(condition) => condition.holds(facts).negated(),
            Self::All(conditions) => least(conditions, facts),
            Self::Any(conditions) => greatest(conditions.iter().map(|condition| condition.holds(facts))).unwrap_or(Truth::False),
            Self::Compare(left, comparison, right) => {
                let others = right.others(facts);
                left.any(facts, |value| others.hold(&value, *comparison))
            }
            Self::In(tested, constants, computed) => {
                let computed: Vec<Others<'_>> = computed.iter().map(|operand| operand.others(facts)).collect();
                tested.any(facts, |value| {
                    let constant = (!constants.is_empty()).then(|| constants.holds(&value, Comparison::Equal));
                    let others = computed.iter().map(|others| others.hold(&value, Comparison::Equal));
                    greatest(constant.into_iter().chain(others)).unwrap_or(Truth::Unknown)
                })
            }
            Self::Between(tested, low, high) => {
                let (low, high) = (low.others(facts), high.others(facts));
                tested.any(facts, |value| low.hold(&value, Comparison::GreaterOrEqual).min(high.hold(&value, Comparison::LessOrEqual)))
            }
            Self::Like(tested, pattern) => tested.any(facts, |value| match value {
                Value::Text(text) => Truth::from(pattern.fits(&text)),
                _ => Truth::Unknown,
            }),
            Self::IsNull(tested) => Truth::from(tested.any(facts, |value| Truth::from(value != Value::Null)) != Truth::True),
            Self::IsMissing(field) => Truth::from(facts.is_missing(*field)),
            Self::Is(condition, known) => Truth::from(condition.holds(facts) == *known),
        }
    }
}

fn least<'a>(conditions: &'a [Condition], facts: &Facts<'a>) -> Truth {
    let mut least = Truth::True;
    for condition in conditions {
        least = least.min(condition.holds(facts));
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
