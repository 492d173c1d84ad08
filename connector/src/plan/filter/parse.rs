//! The parser's tree to a condition.
//!
//! Refuses what has the form of a condition and is none. Never copies a tree, and never prints one: it may be deep.

use sqlparser::ast::{BinaryOperator, Expr, Ident, UnaryOperator, Value as Literal, ValueWithSpan};

use super::condition::{Condition, Operand};
use super::extract::Wanted;
use super::grammar::{MISSING, expression};
use super::like::Pattern;
use super::number::Number;
use super::value::{Comparison, Set, Value};
use crate::codec::ion_json::MAX_DEPTH;
use crate::error::Error;

const EXAMPLE: &str = "write a condition such as State <> 'XX' AND (Fee >= 10.50 OR Owners.PrimaryOwner.PersonId IS NOT NULL)";

/// Field names that a path may have: documents do not nest more deeply.
const MAX_NAMES: usize = MAX_DEPTH;

/// Reads a condition, and the paths that its numbers stand for.
pub(super) fn parse(text: &str) -> Result<(Wanted, Condition), Error> {
    let expression = expression(text).map_err(|problem| Error::usage(problem).help(EXAMPLE))?;
    let mut reader = Reader::default();
    let condition = reader.condition(expression).map_err(|problem| Error::usage(problem).help(EXAMPLE))?;
    Ok((reader.wanted, condition))
}

/// One side of a comparison.
enum Side {
    Path(usize),
    Value(Value<'static>),
}

/// Turns the parser's tree into ours.
#[derive(Default)]
struct Reader {
    wanted: Wanted,
}

impl Reader {
    fn condition(&mut self, expression: Expr) -> Result<Condition, String> {
        match expression {
            Expr::Nested(inside) => self.condition(*inside),
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => Ok(not(self.condition(*expr)?)),
            Expr::BinaryOp { ref op, .. } if *op == BinaryOperator::And => {
                Ok(Condition::All(self.chain(expression, &BinaryOperator::And)?))
            }
            Expr::BinaryOp { ref op, .. } if *op == BinaryOperator::Or => Ok(Condition::Any(self.chain(expression, &BinaryOperator::Or)?)),
            Expr::BinaryOp { left, op: BinaryOperator::Custom(op), .. } if op == MISSING => {
                Ok(Condition::IsMissing(self.tested(*left, "IS MISSING")?))
            }
            Expr::BinaryOp { left, op, right } => self.comparison(*left, &op, *right),
            Expr::IsNull(tested) => Ok(Condition::IsNull(self.tested(*tested, "IS NULL")?)),
            Expr::InList { expr, list, negated } => {
                let path = self.tested(*expr, "IN")?;
                let values = list.into_iter().map(|item| self.value(item, "in the list of IN")).collect::<Result<Vec<_>, _>>()?;
                Ok(negated_if(negated, Condition::Compare(path, Comparison::Equal, Operand::Values(Set::of(values)))))
            }
            Expr::Between { expr, negated, low, high } => {
                let path = self.tested(*expr, "BETWEEN")?;
                let (low, high) = (self.operand(*low)?, self.operand(*high)?);
                Ok(negated_if(negated, Condition::Between(path, low, high)))
            }
            Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                let path = self.tested(*expr, "LIKE")?;
                let Value::Text(pattern) = self.value(*pattern, "behind LIKE")? else {
                    return Err("expected a pattern in single quotes behind LIKE, found another value".to_owned());
                };
                Ok(negated_if(negated, Condition::Like(path, Pattern::read(&pattern, escape(escape_char)?)?)))
            }
            Expr::Value(ValueWithSpan { value: Literal::Boolean(holds), .. }) => Ok(Condition::Constant(holds)),
            Expr::CompoundIdentifier(names) => {
                let yes = Operand::Values(Set::of([Value::Bool(true)]));
                Ok(Condition::Compare(self.path(names)?, Comparison::Equal, yes))
            }
            other => Err(format!("expected a condition, found {}", kind(&other))),
        }
    }

    /// The conditions between the ANDs, or the ORs, of a chain, which the parser hangs one below the other.
    fn chain(&mut self, mut expression: Expr, wanted: &BinaryOperator) -> Result<Vec<Condition>, String> {
        let mut backwards = Vec::new();
        loop {
            match expression {
                Expr::BinaryOp { left, op, right } if op == *wanted => {
                    backwards.push(*right);
                    expression = *left;
                }
                first => {
                    backwards.push(first);
                    return backwards.into_iter().rev().map(|one| self.condition(one)).collect();
                }
            }
        }
    }

    fn comparison(&mut self, left: Expr, op: &BinaryOperator, right: Expr) -> Result<Condition, String> {
        let comparison = match op {
            BinaryOperator::Eq => Comparison::Equal,
            BinaryOperator::NotEq => Comparison::NotEqual,
            BinaryOperator::Lt => Comparison::Less,
            BinaryOperator::LtEq => Comparison::LessOrEqual,
            BinaryOperator::Gt => Comparison::Greater,
            BinaryOperator::GtEq => Comparison::GreaterOrEqual,
            other => return Err(format!("expected a comparison, AND or OR, found {other}")),
        };
        match (self.side(left)?, self.side(right)?) {
            (Side::Path(path), Side::Value(value)) => Ok(Condition::Compare(path, comparison, Operand::Values(Set::of([value])))),
            (Side::Value(value), Side::Path(path)) => Ok(Condition::Compare(path, comparison.flipped(), Operand::Values(Set::of([value])))),
            (Side::Path(path), Side::Path(other)) => Ok(Condition::Compare(path, comparison, Operand::Path(other))),
            (Side::Value(_), Side::Value(_)) => Err(format!("expected a path on one side of {op}, found two values")),
        }
    }

    fn operand(&mut self, expression: Expr) -> Result<Operand, String> {
        Ok(match self.side(expression)? {
            Side::Path(path) => Operand::Path(path),
            Side::Value(value) => Operand::Values(Set::of([value])),
        })
    }

    /// The path that a test is about.
    fn tested(&mut self, expression: Expr, test: &str) -> Result<usize, String> {
        match self.side(expression)? {
            Side::Path(path) => Ok(path),
            Side::Value(_) => Err(format!("expected a path before {test}, found a value")),
        }
    }

    fn value(&mut self, expression: Expr, place: &str) -> Result<Value<'static>, String> {
        match self.side(expression)? {
            Side::Value(value) => Ok(value),
            Side::Path(_) => Err(format!("expected a value {place}, found a path; text goes in single quotes")),
        }
    }

    fn side(&mut self, expression: Expr) -> Result<Side, String> {
        match expression {
            Expr::Nested(inside) => self.side(*inside),
            Expr::CompoundIdentifier(names) => self.path(names).map(Side::Path),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match self.side(*expr)? {
                Side::Value(Value::Number(number)) => Ok(Side::Value(Value::Number(number.negated()))),
                _ => Err("expected a number behind -, found something else".to_owned()),
            },
            Expr::UnaryOp { op: UnaryOperator::Plus, expr } => match self.side(*expr)? {
                Side::Value(Value::Number(number)) => Ok(Side::Value(Value::Number(number))),
                _ => Err("expected a number behind +, found something else".to_owned()),
            },
            Expr::Value(ValueWithSpan { value, .. }) => match value {
                Literal::Boolean(value) => Ok(Side::Value(Value::Bool(value))),
                Literal::SingleQuotedString(text) => Ok(Side::Value(Value::Text(text.into()))),
                Literal::Number(digits, _) => match Number::read(digits.as_bytes()) {
                    Some(number) => Ok(Side::Value(Value::Number(number.into_owned()))),
                    None => Err(format!("expected a number with an exponent of at most 64 bits, found {digits}")),
                },
                _ => Err("expected a value to compare with, found NULL, with which no comparison is true; write IS NULL".to_owned()),
            },
            other => Err(format!("expected a path or a value, found {}", kind(&other))),
        }
    }

    fn path(&mut self, names: Vec<Ident>) -> Result<usize, String> {
        if names.len() > MAX_NAMES {
            return Err(format!("expected a path of at most {MAX_NAMES} names, found {}", names.len()));
        }
        if names.iter().any(|name| name.value.is_empty()) {
            return Err("expected the name of a field in double quotes, found an empty one".to_owned());
        }
        Ok(self.wanted.add(names.into_iter().map(|name| name.value)))
    }
}

fn not(condition: Condition) -> Condition {
    Condition::Not(Box::new(condition))
}

fn negated_if(negated: bool, condition: Condition) -> Condition {
    if negated { not(condition) } else { condition }
}

fn escape(given: Option<ValueWithSpan>) -> Result<Option<char>, String> {
    let Some(given) = given else { return Ok(None) };
    let text = given.value.into_string().unwrap_or_default();
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(escape), None) => Ok(Some(escape)),
        _ => Err("expected one character in single quotes behind ESCAPE, found something else".to_owned()),
    }
}

/// An expression in words. Its own text could be as deep as the text is long.
fn kind(expression: &Expr) -> String {
    match expression {
        Expr::BinaryOp { op: BinaryOperator::Plus | BinaryOperator::Minus, .. } => "arithmetic".to_owned(),
        Expr::UnaryOp { op: UnaryOperator::Plus | UnaryOperator::Minus, .. } => "a number".to_owned(),
        Expr::BinaryOp { op, .. } => format!("a condition with {op}"),
        Expr::Value(_) => "a value".to_owned(),
        Expr::AnyOp { .. } | Expr::AllOp { .. } => "ANY, SOME or ALL".to_owned(),
        Expr::ILike { .. } | Expr::SimilarTo { .. } | Expr::RLike { .. } => "a pattern of another kind than LIKE".to_owned(),
        Expr::InList { .. } | Expr::Between { .. } | Expr::Like { .. } | Expr::IsNull(_) => "a condition".to_owned(),
        Expr::UnaryOp { op: UnaryOperator::Not, .. } => "a condition with NOT".to_owned(),
        _ => "something that no condition here has".to_owned(),
    }
}
