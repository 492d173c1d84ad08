//! What the names of a query stand for: the columns of a row, and paths in them.

use sqlparser::tokenizer::Location;

use super::row::{Place, Row};
use crate::plan::sql::compile::{Names, Path, Resolved};
use crate::plan::sql::extract::{Found, Step, Wanted};
use crate::plan::sql::facts::{COLUMNS, Facts, Field};
use crate::plan::sql::instant::Instant;
use crate::plan::sql::number::Number;
use crate::plan::sql::problem::Problem;
use crate::plan::sql::value::Value;

/// The columns of a row that are no paths, in the order of their numbers.
const SCALARS: [&str; COLUMNS] = ["table", "op", DATA, "ROWTIME", "ROWPARTITION", "ROWOFFSET"];
const DATA: &str = "data";
/// The columns that are members of what was committed with the document.
const COMMITTED: [&str; 3] = ["metadata", "blockAddress", "hash"];
/// What `*` stands for.
pub(super) const ALL: [&str; 6] = ["table", "op", DATA, "metadata", "blockAddress", "hash"];

/// What is looked at of each row.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    document: Wanted,
    committed: Wanted,
    columns: [bool; COLUMNS],
    /// The names by which the row itself may be called: the table's, and its alias.
    rows: Vec<String>,
    now: Value<'static>,
}

impl Scope {
    /// Nothing yet. `rows` are the names before a dot that say nothing; `now` is in milliseconds since 1970.
    pub(super) fn new(rows: Vec<String>, now: u64) -> Self {
        let now = i64::try_from(now).ok().and_then(Instant::of_millis).map_or(Value::Null, Value::Time);
        Self { document: Wanted::default(), committed: Wanted::default(), columns: [false; COLUMNS], rows, now }
    }

    /// The column of this name, for `*`.
    pub(super) fn column(&mut self, name: &str) -> Field {
        match SCALARS.iter().position(|scalar| *scalar == name) {
            Some(number) => {
                self.columns[number] = true;
                Field::Column(number)
            }
            None => Field::Committed(self.committed.add(&[Step::Name(name.to_owned())])),
        }
    }

    pub(super) fn wants_committed(&self) -> bool {
        !self.committed.is_empty()
    }

    /// What a row has of what is looked at. What is no JSON has nothing.
    pub(super) fn facts<'a>(&self, row: &Row<'a>) -> Facts<'a> {
        let find = |wanted: &Wanted, json: Option<&'a [u8]>| -> Found<'a> {
            json.filter(|_| !wanted.is_empty()).and_then(|json| wanted.find(json)).unwrap_or_default()
        };
        let mut facts =
            Facts { document: find(&self.document, row.data), committed: find(&self.committed, row.committed), ..Facts::default() };
        for (number, _) in self.columns.iter().enumerate().filter(|(_, wanted)| **wanted) {
            facts.columns[number].0 = match number {
                0 => Value::Text(row.table.into()),
                1 => Value::Text(row.op.as_str().into()),
                2 => row.data.map_or(Value::Null, |data| Value::Json(data.into())),
                3 => {
                    let time = row.time.and_then(|millis| i64::try_from(millis).ok()).and_then(Instant::of_millis);
                    time.map_or(Value::Null, Value::Time)
                }
                4 => place(row.partition),
                _ => place(row.offset),
            };
        }
        facts
    }
}

fn place(place: Place<'_>) -> Value<'_> {
    match place {
        Place::Text(text) => Value::Text(text.into()),
        Place::Number(number) => Number::read(number.to_string().into_bytes()).map_or(Value::Null, Value::Number),
    }
}

/// With how many names a path begins that are the row's own, with another name behind them. The name of a table may have dots.
fn names_of(row: &str, steps: &[Step]) -> usize {
    let mut rest = row;
    for (at, step) in steps.iter().enumerate() {
        let Step::Name(name) = step else { return 0 };
        rest = match rest.strip_prefix(name.as_str()) {
            Some("") if matches!(steps.get(at + 1), Some(Step::Name(_))) => return at + 1,
            Some(more) if more.starts_with('.') => &more[1..],
            _ => return 0,
        };
    }
    0
}

impl Names for Scope {
    fn resolve(&mut self, Path { mut steps, place, .. }: Path) -> Result<Resolved, Problem> {
        steps.drain(..self.rows.iter().map(|row| names_of(row, &steps)).max().unwrap_or(0));
        let document = |scope: &mut Self, steps: &[Step]| Field::Document(scope.document.add(steps));
        let [Step::Name(first), rest @ ..] = &steps[..] else {
            return Err(Problem::at("expected the name of a field, found the number of an element", place));
        };
        if COMMITTED.contains(&first.as_str()) {
            let is_time = matches!(rest, [Step::Name(name)] if first == "metadata" && name == "txTime");
            return Ok(Resolved { field: Field::Committed(self.committed.add(&steps)), is_time });
        }
        let scalar = SCALARS.iter().position(|scalar| scalar == first || scalar.starts_with("ROW") && scalar.eq_ignore_ascii_case(first));
        let field = match (scalar, rest) {
            (None, _) => document(self, &steps),
            (Some(number), []) => {
                self.columns[number] = true;
                Field::Column(number)
            }
            (Some(_), [Step::Name(_), ..]) if first == DATA => document(self, rest),
            (Some(_), _) if first == DATA => {
                return Err(Problem::at(
                    "expected the name of a field behind data, which is an object, found the number of an element",
                    place,
                ));
            }
            (Some(_), _) => {
                let what = format!("expected nothing behind {first}, which is a column with one value, found a path");
                return Err(Problem::at(what, place).help(format!("a field of the document that is called so is data.{first}")));
            }
        };
        Ok(Resolved { field, is_time: false })
    }

    fn now(&self, _: Location) -> Result<Value<'static>, Problem> {
        Ok(self.now.clone())
    }
}
