//! A row with its decimals as the numbers that they are.
//!
//! Never copies a value that is not a decimal.

use std::borrow::Cow;

use super::super::ion_json::Decimals;
use super::super::json::Json;
use super::decimals::{self, Decimal};
use crate::record::Fault;

/// A row as it is written, and beside it what its decimals come to.
pub(super) struct Row<'a> {
    json: Json<'a>,
    /// Columns that hold decimals, by name, with their values as JSON text.
    decimals: Vec<(Cow<'a, str>, String)>,
}

impl<'a> Row<'a> {
    /// A row that is an object, decimals as numbers.
    ///
    /// # Errors
    /// A value that is not the decimal that the schema says.
    pub(super) fn new(json: Json<'a>, decimals: &[(String, Decimal)]) -> Result<Self, Fault> {
        Self::read(json, decimals, Decimals::Number)
    }

    /// The same with decimals as texts.
    pub(super) fn with_texts(json: Json<'a>, decimals: &[(String, Decimal)]) -> Result<Self, Fault> {
        Self::read(json, decimals, Decimals::String)
    }

    fn read(json: Json<'a>, decimals: &[(String, Decimal)], form: Decimals) -> Result<Self, Fault> {
        let mut found = Vec::new();
        if !decimals.is_empty() {
            for (name, value) in json.members() {
                if let Some((_, decimal)) = decimals.iter().find(|(column, _)| *column == name) {
                    let text = decimals::text(&name, value, decimal, form)?;
                    found.push((name, text));
                }
            }
        }
        Ok(Self { json, decimals: found })
    }

    /// One value as a row of one column.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(super) fn of_value(name: &'static str, json: Json<'a>, decimal: Option<Decimal>) -> Result<Self, Fault> {
        let text = match decimal {
            Some(decimal) => decimals::text(name, json, &decimal, Decimals::Number)?,
            None => json.text().to_owned(),
        };
        Ok(Self { json, decimals: vec![(name.into(), text)] })
    }

    /// The names of its columns, in their order.
    pub(super) fn names(&self) -> Vec<Cow<'a, str>> {
        let mut names: Vec<Cow<'a, str>> = Vec::new();
        for (name, _) in self.json.members() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The value of a column that holds decimals.
    pub(super) fn decimal(&self, name: &str) -> Option<Json<'_>> {
        let (_, text) = self.decimals.iter().rev().find(|(column, _)| column == name)?;
        Json::parse(text.as_bytes()).ok()
    }

    /// The value of a column.
    pub(super) fn value(&self, name: &str) -> Option<Json<'_>> {
        self.decimal(name).or_else(|| self.json.find([name])[0])
    }
}
