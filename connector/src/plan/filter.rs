//! WHERE: the condition under which a document belongs into the index.
//!
//! A condition is read once, when a run starts; for each document the values at its paths are found in one pass over the JSON text
//! (`filter/extract.rs`), and the condition is evaluated on them (`filter/condition.rs`). Never builds a tree of a document, and never fails
//! on a value: what cannot be compared is unknown, and what is unknown does not match.
//!
//! # The language
//!
//! | | |
//! |---|---|
//! | path | `State`, `Owners.PrimaryOwner.PersonId`, `"a name with dots.or spaces"."like"`; letter case counts; a word of SQL goes in double quotes |
//! | value | `'text'` (a quote in it is doubled), `442.30`, `-1e400`, TRUE, FALSE |
//! | comparison | `=` `<>` `!=` `<` `<=` `>` `>=` between a path and a value or two paths; `Active` alone is `Active = TRUE` |
//! | more | `IN (…)`, `BETWEEN … AND …`, `LIKE '…%_'` with `ESCAPE '…'`, each with NOT before it; `IS [NOT] NULL`, `IS [NOT] MISSING` |
//! | between them | NOT, AND, OR, parentheses, TRUE, FALSE; `--` and `/* */` comments |
//!
//! # What it means
//!
//! - Logic has three values. Null and missing are unknown, and so is a comparison of values of different types (a number with a string, anything
//!   with an object): neither `State = 'WA'` nor `State <> 'WA'` holds for a document without `State`. NOT of unknown is unknown. Only what
//!   is true matches.
//! - `IS NULL` holds for null and for what is missing, `IS MISSING` only for a field that is not there at all. Neither is ever unknown.
//! - Numbers are compared exactly, as decimals on their digits: `442.30 = 442.3`, and 9223372036854775807 is below 9223372036854775808.
//!   Under a rule with `decimals = "string"` a decimal is a string here too.
//! - Strings are compared by their code points, after JSON's escapes are undone. Timestamps are strings in ISO form, whose order is that of
//!   time only where they have one offset and one precision.
//! - A path that leads through a list, or ends at one, means any of its elements, also of lists in lists. A comparison is true when it is true
//!   for one element (with two paths: for one pair); else unknown when it is unknown for one; else false. An empty list has no element
//!   and is as null. So `Tags <> 'x'` says that some tag is another, and `NOT Tags = 'x'` that none is `x`; `NOT IN`, `NOT BETWEEN`
//!   and `NOT LIKE` are NOT of the whole, and say that no element is. `BETWEEN` asks both of one and the same element.
//!   `IS NULL` says that no element is anything but null, `IS NOT NULL` that some element is.

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
