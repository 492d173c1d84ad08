//! The parser's tree of what has a value: calls, arithmetic, CASE, literals.

use sqlparser::ast::{BinaryOperator, CaseWhen, Expr, Function as Call, Ident, UnaryOperator, Value as Literal, ValueWithSpan};
use sqlparser::tokenizer::Location;

use super::{Compiler, Problem, place, problem, what};
use crate::plan::sql::arithmetic::Operator;
use crate::plan::sql::call;
use crate::plan::sql::convert::{Type, json_number};
use crate::plan::sql::expression::Expression;
use crate::plan::sql::functions::{self, Function, Named};
use crate::plan::sql::instant::{Instant, Part};
use crate::plan::sql::interval::Interval;
use crate::plan::sql::number::Number;
use crate::plan::sql::value::Value;

/// What to do where a function of many rows stands.
const ONE_ROW: &str = "rows come one after another and nothing is kept of them; count or add up what the query prints, as with \
                       revsync query … --json | jq -s length";

impl Compiler<'_> {
    pub(super) fn expression_here(&mut self, tree: Expr) -> Result<Expression, Problem> {
        let at = place(&tree);
        match tree {
            Expr::Nested(inside) => self.expression(*inside),
            Expr::CompoundFieldAccess { .. } => {
                let resolved = self.path(tree)?;
                let field = Expression::Field(resolved.field);
                Ok(if resolved.is_time { Expression::Cast(Box::new(field), Type::Timestamp) } else { field })
            }
            Expr::Value(ValueWithSpan { value, span }) => literal(value, span.start).map(Expression::Constant),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => Ok(match self.expression(*expr)? {
                Expression::Constant(Value::Number(number)) => Expression::Constant(Value::Number(number.negated())),
                other => Expression::Negative(Box::new(other)),
            }),
            // A sign that changes nothing, but makes null of what is no number.
            Expr::UnaryOp { op: UnaryOperator::Plus, expr } => Ok(match self.expression(*expr)? {
                number @ Expression::Constant(Value::Number(_)) => number,
                other => Expression::Negative(Box::new(Expression::Negative(Box::new(other)))),
            }),
            Expr::BinaryOp { ref op, .. } if operator(op).is_some() => self.chain(tree),
            Expr::Function(call) => self.call(call),
            Expr::Case { operand, conditions, else_result, .. } => {
                let otherwise = else_result.map(|tree| self.expression(*tree)).transpose()?.map(Box::new);
                let branches = conditions.into_iter();
                Ok(match operand {
                    None => {
                        let branch = |CaseWhen { condition, result }| Ok((self.condition(condition)?, self.expression(result)?));
                        Expression::Case(branches.map(branch).collect::<Result<_, Problem>>()?, otherwise)
                    }
                    Some(tested) => {
                        let tested = Box::new(self.expression(*tested)?);
                        let branch = |CaseWhen { condition, result }| Ok((self.compared(condition)?, self.expression(result)?));
                        Expression::Switch(tested, branches.map(branch).collect::<Result<_, Problem>>()?, otherwise)
                    }
                })
            }
            Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Custom(_), .. }
            | Expr::UnaryOp { op: UnaryOperator::Not, .. }
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsNormalized { .. }
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotUnknown(_)
            | Expr::Between { .. }
            | Expr::Like { any: false, .. } => Ok(Expression::Condition(Box::new(self.condition(tree)?))),
            Expr::BinaryOp { ref op, .. } if super::comparison(op).is_some() => Ok(Expression::Condition(Box::new(self.condition(tree)?))),
            other => Err(problem(format!("expected a path, a value, a function or an operator, found {}", what(&other)), at)),
        }
    }

    /// What is done with a first value, which the parser hangs one below the other.
    fn chain(&mut self, mut tree: Expr) -> Result<Expression, Problem> {
        let mut backwards = Vec::new();
        let first = loop {
            match tree {
                Expr::BinaryOp { left, op, right } if operator(&op).is_some() => {
                    backwards.push((op, *right));
                    tree = *left;
                }
                first => break first,
            }
        };
        let mut value = self.expression(first)?;
        let mut nested = 0;
        for (op, right) in backwards.into_iter().rev() {
            let Some(operator) = operator(&op) else { continue };
            if let Some(interval) = interval(&right)? {
                let interval = match operator {
                    Operator::Plus => interval,
                    Operator::Minus => interval.negated(),
                    _ => return Err(problem(format!("expected + or - before INTERVAL, found {op}"), place(&right))),
                };
                nested += 1;
                value = Expression::Later(Box::new(value), interval);
            } else {
                let right = self.expression(right)?;
                match &mut value {
                    Expression::Chain(_, steps) => steps.push((operator, right)),
                    _ => value = Expression::Chain(Box::new(value), vec![(operator, right)]),
                }
            }
            if nested > super::MAX_NESTING / 2 {
                return Err(Problem::new("expected fewer intervals one behind the other"));
            }
        }
        Ok(value)
    }

    fn call(&mut self, call: Call) -> Result<Expression, Problem> {
        let Some((name, mut args)) = call::parts(call) else { return Err(Problem::new("expected a function of plain arguments")) };
        let at = name.span.start;
        match functions::named(&name.value).filter(|_| name.quote_style.is_none()) {
            None => Err(unknown(&name)),
            Some(Named::Now) if args.is_empty() => self.names.now(at).map(Expression::Constant),
            Some(Named::Now) => Err(Problem::at(format!("expected no argument of {}, found {}", name.value, args.len()), at)),
            Some(Named::Function(function, least, most)) => {
                if args.len() < least || args.len() > most {
                    let wanted = match (least, most) {
                        (1, functions::ANY) => "one argument at least".to_owned(),
                        (1, 1) => "one argument".to_owned(),
                        (least, most) if least == most => format!("{least} arguments"),
                        (least, most) => format!("{least} to {most} arguments"),
                    };
                    return Err(Problem::at(format!("expected {wanted} of {}, found {}", name.value, args.len()), at));
                }
                Ok(Expression::Call(function, args.into_iter().map(|arg| self.expression(arg)).collect::<Result<_, _>>()?))
            }
            Some(Named::Special("CAST")) => {
                let rest = args.split_off(1);
                let value = args.pop().map(|arg| self.expression(arg)).transpose()?.unwrap_or(Expression::Constant(Value::Null));
                let target = rest.first().and_then(text).unwrap_or_default();
                let numbers: Option<Vec<u32>> = rest.iter().skip(1).map(digits).collect();
                let target = numbers
                    .ok_or_else(|| "a type with smaller numbers behind it".to_owned())
                    .and_then(|numbers| Type::named(target, &numbers));
                let place = rest.first().and_then(place).unwrap_or(at);
                Ok(Expression::Cast(
                    Box::new(value),
                    target.map_err(|expected| Problem::at(format!("expected {expected}, found another"), place))?,
                ))
            }
            Some(Named::Special(special @ ("EXTRACT" | "DATE_TRUNC"))) => {
                let (Some(value), Some(part), true) = (args.pop(), args.pop(), args.is_empty()) else {
                    return Err(Problem::at(format!("expected 2 arguments of {special}"), at).help("write DATE_TRUNC('day', ROWTIME)"));
                };
                let place = place(&part).unwrap_or(at);
                let function = if special == "EXTRACT" {
                    let wanted = "expected YEAR, MONTH, DAY, HOUR, MINUTE, SECOND or EPOCH, found another part of time";
                    Function::Extract(text(&part).and_then(Part::to_extract).ok_or_else(|| Problem::at(wanted, place))?)
                } else {
                    let wanted = "expected 'year', 'quarter', 'month', 'week', 'day', 'hour', 'minute' or 'second' in single quotes, found something else";
                    Function::Truncate(text(&part).and_then(Part::to_truncate).ok_or_else(|| Problem::at(wanted, place))?)
                };
                Ok(Expression::Call(function, vec![self.expression(value)?]))
            }
            Some(Named::Special(special @ ("TIMESTAMP" | "DATE"))) => {
                let [only] = &args[..] else {
                    return Err(Problem::at(format!("expected a text in single quotes behind {special}"), at));
                };
                let instant = text(only).and_then(Instant::read);
                let Some((instant, _)) = instant else {
                    let place = place(only).unwrap_or(at);
                    return Err(Problem::at(
                        format!("expected a {} in single quotes behind {special}, found something else", special.to_lowercase()),
                        place,
                    )
                    .help("write TIMESTAMP '2017-08-21T10:00:00Z', DATE '2017-08-21', or CAST(x AS TIMESTAMP) for what is in a field"));
                };
                Ok(Expression::Constant(match special {
                    "DATE" => Value::Text(instant.date().into()),
                    _ => Value::Time(instant.into_owned()),
                }))
            }
            Some(Named::Special(_)) => Err(Problem::at("expected a time and + or - before INTERVAL, found something else", at)),
        }
    }
}

/// The name of no function, with the nearest that is one.
fn unknown(name: &Ident) -> Problem {
    let found = &name.value;
    if functions::is_of_many_rows(found) {
        return Problem::at(format!("expected an expression on one row, found {found}, a function of many rows,"), name.span.start)
            .help(ONE_ROW);
    }
    let problem = Problem::at(format!("expected a function that there is, found {found}"), name.span.start);
    match functions::nearest(found) {
        Some(nearest) => problem.help(format!("is it {nearest}? revsync query --help lists the functions")),
        None => problem.help("revsync query --help lists the functions"),
    }
}

/// The operator between two values, where it is one.
pub(super) fn operator(op: &BinaryOperator) -> Option<Operator> {
    Some(match op {
        BinaryOperator::Plus => Operator::Plus,
        BinaryOperator::Minus => Operator::Minus,
        BinaryOperator::Multiply => Operator::Times,
        BinaryOperator::Divide => Operator::Divide,
        BinaryOperator::Modulo => Operator::Remainder,
        BinaryOperator::StringConcat => Operator::Join,
        _ => return None,
    })
}

fn literal(literal: Literal, place: Location) -> Result<Value<'static>, Problem> {
    Ok(match literal {
        Literal::Boolean(value) => Value::Bool(value),
        Literal::SingleQuotedString(text) => Value::Text(text.into()),
        Literal::Number(digits, _) => {
            let number = json_number(&digits).and_then(|text| Number::read(text.into_bytes()));
            let wanted = "expected a number with an exponent of at most 64 bits, found another";
            Value::Number(number.ok_or_else(|| Problem::at(wanted, place))?)
        }
        _ => Value::Null,
    })
}

fn text(tree: &Expr) -> Option<&str> {
    match tree {
        Expr::Value(ValueWithSpan { value: Literal::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    }
}

fn digits(tree: &Expr) -> Option<u32> {
    match tree {
        Expr::Value(ValueWithSpan { value: Literal::Number(digits, _), .. }) => digits.parse().ok(),
        _ => None,
    }
}

/// The length of time that INTERVAL names, where it is one.
fn interval(tree: &Expr) -> Result<Option<Interval>, Problem> {
    let Expr::Function(call) = tree else { return Ok(None) };
    let Some((count, unit)) = call::interval(call) else { return Ok(None) };
    let (Some(count), Some(unit)) = (text(count), text(unit)) else { return Ok(None) };
    let found = Interval::read(count, unit);
    found.map(Some).map_err(|expected| problem(format!("expected {expected}, found something else"), place(tree)))
}
