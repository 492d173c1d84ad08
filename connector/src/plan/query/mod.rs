//! A pull query: SELECT, read once, and its answer for one row after another.
//!
//! Keeps nothing of a row, and so has no groups, no order and no joins: what they need is refused with what to do instead (`refused.rs`). Never
//! reads a stream: that is [`run::query`](crate::run::query)'s.
//!
//! `SELECT expression [AS name], … FROM table [WHERE condition] [LIMIT n]`, with the expressions of [`sql`](super::sql). `FROM stream` has the rows
//! of every table. The columns are `table`, `op`, `data`, `metadata`, `blockAddress` and `hash`, which `*` stands for, and ROWTIME, ROWPARTITION
//! and ROWOFFSET; every other name is a field of the document, as is everything behind `data.`.

mod refused;
mod row;
mod scope;
mod statement;

pub use row::{Op, Place, Row, Value};

use self::row::Answer;
use self::scope::{ALL, Scope};
use self::statement::{Item, Statement};
use super::sql::compile::Compiler;
use super::sql::condition::Condition;
use super::sql::expression::Expression;
use super::sql::facts::{Facts, Field};
use super::sql::problem::Problem;
use super::sql::value::{Truth, Value as Computed};
use crate::error::Error;

const EXAMPLE: &str = "write a query such as SELECT VIN, State FROM VehicleRegistration WHERE State = 'WA' LIMIT 10";

/// A query, ready to be answered.
#[derive(Debug, Clone)]
pub struct Query {
    columns: Vec<String>,
    expressions: Vec<Expression>,
    table: Option<String>,
    condition: Option<Condition>,
    limit: Option<u64>,
    scope: Scope,
}

impl Query {
    /// Reads a query. `now` is what NOW() stands for, in milliseconds since 1970.
    ///
    /// # Errors
    /// Anything that is no query of this language: what was expected, what was found and where, and what to do instead.
    pub fn parse(sql: &str, now: u64) -> Result<Self, Error> {
        Self::read(sql, now).map_err(|problem| problem.into_error(sql, EXAMPLE))
    }

    fn read(sql: &str, now: u64) -> Result<Self, Problem> {
        let Statement { items, table, alias, condition, limit } = statement::read(sql)?;
        let mut scope = Scope::new(table.iter().chain(&alias).cloned().collect(), now);
        let condition = condition.map(|tree| Compiler::new(&mut scope).condition(tree)).transpose()?;
        let (mut columns, mut expressions) = (Vec::new(), Vec::new());
        for item in items {
            match item {
                Item::All => {
                    for name in ALL {
                        expressions.push(Expression::Field(scope.column(name)));
                        columns.push(name.to_owned());
                    }
                }
                Item::One { expression, alias, text } => {
                    let (expression, name) = Compiler::new(&mut scope).selected(*expression)?;
                    expressions.push(expression);
                    columns.push(alias.or(name).unwrap_or(text));
                }
            }
        }
        Ok(Self { columns: distinct(columns), expressions, table, condition, limit, scope })
    }

    /// The names of the result's columns, in their order, no two of them the same.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The table whose rows are asked for; `None` for those of every table.
    pub fn table(&self) -> Option<&str> {
        self.table.as_deref()
    }

    /// How many rows are wanted at most.
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Whether `metadata`, `blockAddress` or `hash` are looked at.
    pub fn wants_committed(&self) -> bool {
        self.scope.wants_committed()
    }

    /// Whether a row is part of the answer; then `values` are those of its columns, and else what they were.
    pub fn answer<'a>(&'a self, row: &Row<'a>, values: &mut Vec<Value<'a>>) -> bool {
        if self.table.as_ref().is_some_and(|table| table != row.table) {
            return false;
        }
        let facts = self.scope.facts(row);
        if self.condition.as_ref().is_some_and(|condition| condition.holds(&facts) != Truth::True) {
            return false;
        }
        values.clear();
        values.extend(self.expressions.iter().map(|expression| value(expression, &facts)));
        true
    }
}

/// The value of a column. A field keeps its JSON text as it is.
fn value<'a>(expression: &'a Expression, facts: &Facts<'a>) -> Value<'a> {
    Value(match expression {
        Expression::Field(field @ (Field::Document(_) | Field::Committed(_))) => facts.text(*field).map_or(Answer::Missing, Answer::Json),
        computed => match computed.value(facts) {
            Computed::Json(json) => Answer::Json(json),
            value => Answer::Computed(value),
        },
    })
}

/// The names, those that come again with a number behind them.
fn distinct(names: Vec<String>) -> Vec<String> {
    let mut different: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !different.contains(name));
        different.push(free.unwrap_or(name));
    }
    different
}

#[cfg(test)]
mod tests;
