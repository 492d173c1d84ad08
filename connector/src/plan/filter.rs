//! WHERE: the condition under which a document belongs into the index.
//!
//! A condition is read once, when a run starts, and evaluated on one document after another. The language is that of [`sql`](super::sql); every name
//! is a field of the document. Never fails on a value, and knows no time of day: what it says of a revision is the same whenever that is read.

use sqlparser::tokenizer::{Location, Token};

use super::sql::compile::{Compiler, Names, Path, Resolved};
use super::sql::condition::Condition;
use super::sql::extract::Wanted;
use super::sql::facts::{Facts, Field};
use super::sql::grammar::Expressions;
use super::sql::problem::Problem;
use super::sql::tokens::tokens;
use super::sql::value::{Truth, Value};
use crate::error::Error;

const EXAMPLE: &str = "write a condition such as State <> 'XX' AND (Fee >= 10.50 OR Owners.PrimaryOwner.PersonId IS NOT NULL)";

/// A condition, read and ready to be evaluated.
#[derive(Debug, Clone)]
pub struct Filter {
    wanted: Wanted,
    condition: Condition,
}

impl Filter {
    /// Reads a condition, which is what stands behind WHERE.
    ///
    /// # Errors
    /// Anything that is no condition of this language, with what was expected, what was found, and an example.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Self::read(text).map_err(|problem| problem.into_error(text, EXAMPLE))
    }

    fn read(text: &str) -> Result<Self, Problem> {
        let grammar = Expressions { in_query: false };
        let mut parser = grammar.parser(tokens(&grammar, text)?);
        let tree = parser.parse_expr()?;
        let next = parser.peek_token_ref();
        if next.token != Token::EOF {
            return parser.expected_ref("AND, OR or the end", next).map_err(Problem::from);
        }
        let mut fields = Fields::default();
        let condition = Compiler::new(&mut fields).condition(tree)?;
        Ok(Self { wanted: fields.wanted, condition })
    }

    /// Whether a document, an object as JSON text, matches. `None` when it is no object in valid JSON.
    pub fn matches(&self, json: &[u8]) -> Option<bool> {
        let facts = Facts { document: self.wanted.find(json)?, ..Facts::default() };
        Some(self.condition.holds(&facts) == Truth::True)
    }
}

/// The names of a rule's condition, which all stand for fields of the document.
#[derive(Default)]
struct Fields {
    wanted: Wanted,
}

impl Names for Fields {
    fn resolve(&mut self, path: Path) -> Result<Resolved, Problem> {
        Ok(Resolved { field: Field::Document(self.wanted.add(&path.steps)), is_time: false })
    }

    fn now(&self, place: Location) -> Result<Value<'static>, Problem> {
        let problem =
            Problem::at("expected a condition that says the same of a revision whenever it is read, found the time of now", place);
        Err(problem.help("compare with a fixed time such as TIMESTAMP '2017-08-21T00:00:00Z'"))
    }
}

#[cfg(test)]
mod tests;
