//! An expression as a tree, and its value for one row.
//!
//! Never fails on a value: what cannot be computed is null. Never costs more memory or time than the limits of `arithmetic.rs` and `text.rs`
//! allow.

use super::arithmetic::{self, Operator};
use super::condition::Condition;
use super::convert::{Type, convert};
use super::facts::{Facts, Field};
use super::functions::Function;
use super::interval::Interval;
use super::set::compare;
use super::value::{Comparison, Truth, Value};

/// An expression.
#[derive(Debug, Clone)]
pub(in crate::plan) enum Expression {
    /// A value that the text names.
    Constant(Value<'static>),
    /// What a name stands for.
    Field(Field),
    /// What is known about a condition: true, false or null.
    Condition(Box<Condition>),
    /// A first value, and what is done with it one after another.
    Chain(Box<Expression>, Vec<(Operator, Expression)>),
    /// A time, or a text that says one, so much later.
    Later(Box<Expression>, Interval),
    /// The number with the other sign.
    Negative(Box<Expression>),
    /// CASE: the value behind the first condition that holds.
    Case(Vec<(Condition, Expression)>, Option<Box<Expression>>),
    /// CASE with a value behind it: the value behind the first that is equal.
    Switch(Box<Expression>, Vec<(Expression, Expression)>, Option<Box<Expression>>),
    /// A value of another type.
    Cast(Box<Expression>, Type),
    /// A function of its arguments.
    Call(Function, Vec<Expression>),
}

impl Expression {
    /// The value for a row.
    pub(in crate::plan) fn value<'a>(&'a self, facts: &Facts<'a>) -> Value<'a> {
        match self {
            Self::Constant(value) => value.borrowed(),
            Self::Field(field) => facts.value(*field),
            Self::Condition(condition) => match condition.holds(facts) {
                Truth::True => Value::Bool(true),
                Truth::False => Value::Bool(false),
                Truth::Unknown => Value::Null,
            },
            Self::Chain(first, steps) => {
                steps.iter().fold(first.value(facts), |left, (operator, right)| arithmetic::apply(left, *operator, right.value(facts)))
            }
            Self::Later(time, interval) => interval.after(&time.value(facts)).map_or(Value::Null, Value::Time),
            Self::Negative(number) => match number.value(facts) {
                Value::Number(number) => Value::Number(number.negated()),
                _ => Value::Null,
            },
            Self::Case(branches, otherwise) => {
                let branch = branches.iter().find(|(condition, _)| condition.holds(facts) == Truth::True);
                branch.map(|(_, value)| value).or(otherwise.as_deref()).map_or(Value::Null, |value| value.value(facts))
            }
            Self::Switch(tested, branches, otherwise) => {
                let tested = tested.value(facts);
                let equal = |value: &'a Expression| compare(&tested, Comparison::Equal, &value.value(facts)) == Truth::True;
                let branch = branches.iter().find(|(value, _)| equal(value));
                branch.map(|(_, value)| value).or(otherwise.as_deref()).map_or(Value::Null, |value| value.value(facts))
            }
            Self::Cast(value, target) => convert(value.value(facts), *target),
            Self::Call(function, arguments) => function.call(arguments, facts),
        }
    }
}
