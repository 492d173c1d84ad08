//! The parser's tree to an expression or a condition of ours.
//!
//! Refuses what has the form of an expression and is none. Never copies a tree, and never prints one: it may be deep. Takes a chain of
//! operators apart without going down into it.

mod path;
mod values;

use sqlparser::ast::{BinaryOperator, Expr, ObjectNamePart, UnaryOperator, Value as Literal, ValueWithSpan};
use sqlparser::tokenizer::Location;

use super::condition::{Condition, Operand};
use super::convert::Type;
use super::expression::Expression;
use super::extract::Step;
use super::facts::Field;
use super::like::Pattern;
use super::problem::Problem;
use super::set::Set;
use super::tokens::NOT_IN;
use super::value::{Comparison, Truth, Value};

/// Operations inside each other. What the parser nests is less deep; what it hangs one behind the other, as `a IS NULL IS NULL`, could be more.
const MAX_NESTING: usize = 60;

/// A name and what follows it, as the text has it.
#[derive(Debug)]
pub(in crate::plan) struct Path {
    /// The steps; the first is a name.
    pub(in crate::plan) steps: Vec<Step>,
    /// Where it begins.
    pub(in crate::plan) place: Location,
}

/// What a path stands for.
#[derive(Debug, Clone, Copy)]
pub(in crate::plan) struct Resolved {
    /// Where its value is.
    pub(in crate::plan) field: Field,
    /// Whether its text is a point in time whatever it is compared with.
    pub(in crate::plan) is_time: bool,
}

/// What names stand for.
pub(in crate::plan) trait Names {
    /// The place of what a path stands for.
    ///
    /// # Errors
    /// A path that stands for nothing.
    fn resolve(&mut self, path: Path) -> Result<Resolved, Problem>;

    /// The moment that NOW() stands for.
    ///
    /// # Errors
    /// Why there is none here.
    fn now(&self, place: Location) -> Result<Value<'static>, Problem>;
}

/// Turns the parser's trees into ours.
pub(in crate::plan) struct Compiler<'n> {
    names: &'n mut dyn Names,
    depth: usize,
}

impl<'n> Compiler<'n> {
    /// A compiler for which names stand for what `names` says.
    pub(in crate::plan) fn new(names: &'n mut dyn Names) -> Self {
        Self { names, depth: 0 }
    }

    /// A condition from the parser's tree.
    ///
    /// # Errors
    /// What is no condition.
    pub(in crate::plan) fn condition(&mut self, tree: Expr) -> Result<Condition, Problem> {
        self.deeper(|compiler| compiler.condition_here(tree))
    }

    /// An expression from the parser's tree.
    ///
    /// # Errors
    /// What is no expression.
    pub(in crate::plan) fn expression(&mut self, tree: Expr) -> Result<Expression, Problem> {
        self.deeper(|compiler| compiler.expression_here(tree))
    }

    fn deeper<T>(&mut self, compile: impl FnOnce(&mut Self) -> Result<T, Problem>) -> Result<T, Problem> {
        if self.depth == MAX_NESTING {
            return Err(Problem::new("expected fewer operations inside each other, or one behind the other"));
        }
        self.depth += 1;
        let compiled = compile(self);
        self.depth -= 1;
        compiled
    }

    fn condition_here(&mut self, tree: Expr) -> Result<Condition, Problem> {
        let place = place(&tree);
        match tree {
            Expr::Nested(inside) => self.condition(*inside),
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => Ok(not(self.condition(*expr)?)),
            Expr::BinaryOp { ref op, .. } if *op == BinaryOperator::And => Ok(Condition::All(self.conditions(tree, &BinaryOperator::And)?)),
            Expr::BinaryOp { ref op, .. } if *op == BinaryOperator::Or => Ok(Condition::Any(self.conditions(tree, &BinaryOperator::Or)?)),
            Expr::BinaryOp { left, op: BinaryOperator::Custom(op), right } => Ok(negated_if(op == NOT_IN, self.one_of(*left, *right)?)),
            Expr::BinaryOp { left, op, right } if comparison(&op).is_some() => self.comparison(*left, &op, *right),
            Expr::IsNull(tested) => Ok(Condition::IsNull(self.tested(*tested)?)),
            Expr::IsNotNull(tested) => Ok(not(Condition::IsNull(self.tested(*tested)?))),
            Expr::IsNormalized { expr, negated, .. } => Ok(negated_if(negated, Condition::IsMissing(self.field(*expr)?))),
            Expr::IsTrue(tested) => self.is(*tested, Truth::True),
            Expr::IsNotTrue(tested) => Ok(not(self.is(*tested, Truth::True)?)),
            Expr::IsFalse(tested) => self.is(*tested, Truth::False),
            Expr::IsNotFalse(tested) => Ok(not(self.is(*tested, Truth::False)?)),
            Expr::IsUnknown(tested) => self.is(*tested, Truth::Unknown),
            Expr::IsNotUnknown(tested) => Ok(not(self.is(*tested, Truth::Unknown)?)),
            Expr::Between { expr, negated, low, high } => {
                let tested = operand_of(self.compared(*expr)?);
                Ok(negated_if(negated, Condition::Between(tested, self.bound(*low)?, self.bound(*high)?)))
            }
            Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                Ok(negated_if(negated, Condition::Like(operand_of(self.compared(*expr)?), like(*pattern, escape_char)?)))
            }
            Expr::Value(ValueWithSpan { value: Literal::Boolean(holds), .. }) => Ok(Condition::Constant(holds)),
            tree => {
                let what = what(&tree);
                let expression = self.expression(tree)?;
                if !may_be_bool(&expression) {
                    return Err(problem(format!("expected a condition, found {what}"), place));
                }
                let yes = Operand::Constants(Set::of([Value::Bool(true)]));
                Ok(Condition::Compare(operand_of(expression), Comparison::Equal, yes))
            }
        }
    }

    /// The conditions between the ANDs, or the ORs, of a chain, which the parser hangs one below the other.
    fn conditions(&mut self, mut tree: Expr, wanted: &BinaryOperator) -> Result<Vec<Condition>, Problem> {
        let mut backwards = Vec::new();
        loop {
            match tree {
                Expr::BinaryOp { left, op, right } if op == *wanted => {
                    backwards.push(*right);
                    tree = *left;
                }
                first => {
                    backwards.push(first);
                    return backwards.into_iter().rev().map(|one| self.condition(one)).collect();
                }
            }
        }
    }

    fn is(&mut self, tested: Expr, known: Truth) -> Result<Condition, Problem> {
        Ok(Condition::Is(Box::new(self.condition(tested)?), known))
    }

    fn comparison(&mut self, left: Expr, op: &BinaryOperator, right: Expr) -> Result<Condition, Problem> {
        let comparison = comparison(op).unwrap_or(Comparison::Equal);
        if matches!(&left, Expr::BinaryOp { op: before, .. } if self::comparison(before).is_some()) {
            let problem = problem(format!("expected AND between two comparisons, found {op} and a third value"), place(&right));
            return Err(problem.help("write a < b AND b < c, or put what is compared with TRUE or FALSE in parentheses"));
        }
        let (left, right) = (self.compared(left)?, self.compared(right)?);
        Ok(match (left, right) {
            (left, Expression::Constant(value)) => Condition::Compare(operand_of(left), comparison, constant(value)),
            (Expression::Constant(value), right) => Condition::Compare(operand_of(right), comparison.flipped(), constant(value)),
            (left, right) => Condition::Compare(operand_of(left), comparison, operand_of(right)),
        })
    }

    fn one_of(&mut self, tested: Expr, list: Expr) -> Result<Condition, Problem> {
        let items = match list {
            Expr::Nested(only) => vec![*only],
            Expr::Tuple(items) => items,
            other => return Err(problem("expected a list in parentheses behind IN, found something else", place(&other))),
        };
        let tested = operand_of(self.compared(tested)?);
        let mut constants = Vec::new();
        let mut computed = Vec::new();
        for item in items {
            match self.compared(item)? {
                Expression::Constant(value) => constants.push(value),
                expression => computed.push(operand_of(expression)),
            }
        }
        Ok(Condition::In(tested, Set::of(constants), computed))
    }

    fn bound(&mut self, tree: Expr) -> Result<Operand, Problem> {
        Ok(match self.compared(tree)? {
            Expression::Constant(value) => constant(value),
            expression => operand_of(expression),
        })
    }

    /// What is compared, which is never NULL itself.
    fn compared(&mut self, tree: Expr) -> Result<Expression, Problem> {
        let place = place(&tree);
        match self.expression(tree)? {
            Expression::Constant(Value::Null) => {
                Err(problem("expected a value to compare with, found NULL, with which no comparison is true", place)
                    .help("write IS NULL, or IS NOT NULL"))
            }
            expression => Ok(expression),
        }
    }

    /// What is tested for null.
    fn tested(&mut self, tree: Expr) -> Result<Operand, Problem> {
        match unnested(tree) {
            path @ Expr::CompoundFieldAccess { .. } => Ok(Operand::Field(self.path(path)?.field)),
            other => Ok(operand_of(self.expression(other)?)),
        }
    }
}

fn unnested(mut tree: Expr) -> Expr {
    while let Expr::Nested(inside) = tree {
        tree = *inside;
    }
    tree
}

fn not(condition: Condition) -> Condition {
    Condition::Not(Box::new(condition))
}

fn negated_if(negated: bool, condition: Condition) -> Condition {
    if negated { not(condition) } else { condition }
}

fn constant(value: Value<'static>) -> Operand {
    Operand::Constants(Set::of([value]))
}

fn operand_of(expression: Expression) -> Operand {
    match expression {
        Expression::Field(field) => Operand::Field(field),
        other => Operand::Computed(other),
    }
}

fn may_be_bool(expression: &Expression) -> bool {
    match expression {
        Expression::Constant(value) => matches!(value, Value::Bool(_)),
        Expression::Field(_) | Expression::Condition(_) | Expression::Case(..) | Expression::Switch(..) => true,
        Expression::Cast(_, target) => *target == Type::Bool,
        Expression::Call(function, _) => function.may_be_bool(),
        Expression::Chain(..) | Expression::Later(..) | Expression::Negative(_) => false,
    }
}

fn comparison(op: &BinaryOperator) -> Option<Comparison> {
    Some(match op {
        BinaryOperator::Eq => Comparison::Equal,
        BinaryOperator::NotEq => Comparison::NotEqual,
        BinaryOperator::Lt => Comparison::Less,
        BinaryOperator::LtEq => Comparison::LessOrEqual,
        BinaryOperator::Gt => Comparison::Greater,
        BinaryOperator::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

fn like(pattern: Expr, escape: Option<ValueWithSpan>) -> Result<Pattern, Problem> {
    let place = place(&pattern);
    let Expr::Value(ValueWithSpan { value: Literal::SingleQuotedString(pattern), .. }) = pattern else {
        return Err(problem(format!("expected a pattern in single quotes behind LIKE, found {}", what(&pattern)), place));
    };
    let escape = match escape {
        None => None,
        Some(ValueWithSpan { value, span }) => {
            let text = value.into_string().unwrap_or_default();
            let mut chars = text.chars();
            match (chars.next(), chars.next()) {
                (Some(escape), None) => Some(escape),
                _ => return Err(problem("expected one character in single quotes behind ESCAPE, found something else", span.start)),
            }
        }
    };
    Pattern::read(&pattern, escape).map_err(|what| problem(what, place))
}

fn problem(what: impl Into<String>, place: impl Into<Option<Location>>) -> Problem {
    match place.into() {
        Some(place) => Problem::at(what, place),
        None => Problem::new(what),
    }
}

/// Where an expression begins, as far as the parser has kept it.
fn place(mut tree: &Expr) -> Option<Location> {
    loop {
        tree = match tree {
            Expr::Value(value) => return Some(value.span.start),
            Expr::Identifier(name) => return Some(name.span.start),
            Expr::Function(call) => match call.name.0.first()? {
                ObjectNamePart::Identifier(name) => return Some(name.span.start),
                ObjectNamePart::Function(_) => return None,
            },
            Expr::Case { case_token, .. } => return Some(case_token.0.span.start),
            Expr::Tuple(items) => items.first()?,
            Expr::BinaryOp { left, .. } => left,
            Expr::AnyOp { left, .. } | Expr::AllOp { left, .. } => left,
            Expr::CompoundFieldAccess { root, .. } => root,
            Expr::Nested(inside) | Expr::UnaryOp { expr: inside, .. } => inside,
            Expr::IsNull(inside) | Expr::IsNotNull(inside) | Expr::IsUnknown(inside) | Expr::IsNotUnknown(inside) => inside,
            Expr::IsTrue(inside) | Expr::IsNotTrue(inside) | Expr::IsFalse(inside) | Expr::IsNotFalse(inside) => inside,
            Expr::Between { expr, .. } | Expr::Like { expr, .. } | Expr::ILike { expr, .. } | Expr::SimilarTo { expr, .. } => expr,
            Expr::RLike { expr, .. } | Expr::IsNormalized { expr, .. } | Expr::Collate { expr, .. } => expr,
            Expr::AtTimeZone { timestamp, .. } => timestamp,
            _ => return None,
        };
    }
}

/// An expression in words. Its own text could be as deep as the text is long.
fn what(tree: &Expr) -> String {
    match tree {
        Expr::BinaryOp { op, .. } if values::operator(op).is_some() => "arithmetic".to_owned(),
        Expr::UnaryOp { op: UnaryOperator::Plus | UnaryOperator::Minus, .. } => "a number".to_owned(),
        Expr::BinaryOp { op, .. } => format!("an expression with {op}"),
        Expr::Value(_) => "a value".to_owned(),
        Expr::CompoundFieldAccess { .. } => "a path".to_owned(),
        Expr::AnyOp { .. } | Expr::AllOp { .. } => "ANY, SOME or ALL".to_owned(),
        Expr::ILike { .. } | Expr::SimilarTo { .. } | Expr::RLike { .. } => {
            "a pattern of another kind than LIKE (LOWER(x) LIKE '…' takes letters of any case)".to_owned()
        }
        Expr::Function(call) => format!("the function {}", call.name),
        Expr::Tuple(_) => "a list".to_owned(),
        Expr::Collate { .. } => "COLLATE".to_owned(),
        Expr::AtTimeZone { .. } => "AT TIME ZONE".to_owned(),
        _ => "something that no expression here has".to_owned(),
    }
}
