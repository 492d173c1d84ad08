//! What expressions are evaluated on: what a document, and what was committed with it, have at the wanted paths, and the columns of the row.
//!
//! Plain data. The names that stand for all this are resolved elsewhere, once.

use std::borrow::Cow;

use super::extract::Found;
use super::value::Value;

/// Columns of a row that are no paths.
pub(in crate::plan) const COLUMNS: usize = 6;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::plan) enum Field {
    /// The path of this number in the document.
    Document(usize),
    /// The path of this number in what was committed with it.
    Committed(usize),
    /// The column of this number.
    Column(usize),
}

/// What is known of one row, or of one document.
#[derive(Debug, Default)]
pub(in crate::plan) struct Facts<'a> {
    pub(in crate::plan) document: Found<'a>,
    pub(in crate::plan) committed: Found<'a>,
    pub(in crate::plan) columns: [Column<'a>; COLUMNS],
}

/// A column's value. The default is null.
#[derive(Debug)]
pub(in crate::plan) struct Column<'a>(pub(in crate::plan) Value<'a>);

impl Default for Column<'_> {
    fn default() -> Self {
        Self(Value::Null)
    }
}

impl<'a> Facts<'a> {
    fn found(&self, field: Field) -> Result<(&Found<'a>, usize), usize> {
        match field {
            Field::Document(number) => Ok((&self.document, number)),
            Field::Committed(number) => Ok((&self.committed, number)),
            Field::Column(number) => Err(number),
        }
    }

    /// The JSON text of a field as it stands there; `None` where there is nothing, and for a column.
    pub(in crate::plan) fn text(&self, field: Field) -> Option<Cow<'a, [u8]>> {
        let (found, number) = self.found(field).ok()?;
        found.text(number)
    }

    /// Whether a field is not there at all, not even as null.
    pub(super) fn is_missing(&self, field: Field) -> bool {
        self.found(field).is_ok_and(|(found, number)| found.is_missing(number))
    }

    /// The one value of a field. A path through lists has the list of what it found.
    pub(super) fn value(&self, field: Field) -> Value<'a> {
        match self.found(field) {
            Err(column) => self.columns[column].0.clone(),
            Ok((found, number)) => match found.text(number) {
                None => Value::Null,
                Some(Cow::Borrowed(text)) => Value::read(text),
                Some(Cow::Owned(list)) => Value::Json(Cow::Owned(list)),
            },
        }
    }
}
