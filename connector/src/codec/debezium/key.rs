//! The document id of a row: of the key columns that the configuration names, or else of the message's key.
//!
//! A key of Debezium is an object of the key's columns in their order, with its own `{schema, payload}` or without; a transform may have made one
//! value of it. Never takes one of two keys that contradict each other.

use std::borrow::Cow;

use super::super::json::{Json, Kind};
use super::super::{Table, row_key};
use super::decimals::{self, Decimal};
use super::envelope::unwrapped;
use super::row::Row;
use super::unavailable::is_unavailable;
use crate::record::Fault;

/// What stands for the name of a key that is one value.
const UNNAMED: &str = "<message key>";

/// The key of one message and its table.
pub(super) struct Key<'a> {
    /// The key columns; none where the message's key is one value without a name, and the configuration names none.
    columns: Vec<Cow<'a, str>>,
    message: MessageKey<'a>,
}

/// The message's own key.
enum MessageKey<'a> {
    None,
    Columns(Row<'a>),
    /// One value.
    Value(Row<'a>),
}

impl<'a> Key<'a> {
    /// The key of a message of a table. `row_decimals` are those of the row, which stand for those of the key where it comes without its schema.
    ///
    /// # Errors
    /// No key at all, or one that cannot be read and would be needed.
    pub(super) fn new(table: &'a Table, key_json: Option<&'a [u8]>, row_decimals: &[(String, Decimal)]) -> Result<Self, Fault> {
        let configured = &table.options.key;
        let message = match message_key(key_json, row_decimals) {
            Ok(message) => message,
            // A key that another converter wrote is not needed where the row has the columns.
            Err(_) if !configured.is_empty() => MessageKey::None,
            Err(fault) => return Err(fault),
        };
        let columns = match &message {
            _ if !configured.is_empty() => configured.iter().map(|column| Cow::Borrowed(column.as_str())).collect(),
            MessageKey::Columns(row) => row.names(),
            MessageKey::Value(_) => Vec::new(),
            MessageKey::None => {
                let table = &table.name;
                let reason = format!(
                    "expected the key columns of {table} in the message's key or in the configuration, found neither: name them with --key \
                     {table}=COLUMN[,COLUMN]"
                );
                return Err(Fault::new("key_missing", reason));
            }
        };
        Ok(Self { columns, message })
    }

    /// Those decimals that are in its columns: all that is of interest in a row before its change.
    pub(super) fn of_its_columns(&self, decimals: &[(String, Decimal)]) -> Vec<(String, Decimal)> {
        decimals.iter().filter(|(name, _)| self.columns.iter().any(|column| column == name)).cloned().collect()
    }

    /// The id of a row that is there.
    ///
    /// # Errors
    /// A key that is incomplete, that cannot be an id, or that the message's key contradicts.
    pub(super) fn of_row(&self, row: &Row<'_>) -> Result<String, Fault> {
        self.id(|column| row.value(column))
    }

    /// The id of a row that was deleted; `before` may hold less than the key, or nothing.
    ///
    /// # Errors
    /// As [`of_row`](Self::of_row).
    pub(super) fn of_deleted(&self, before: Option<&Row<'_>>) -> Result<String, Fault> {
        self.id(|column| before.and_then(|before| known(before, column)))
    }

    /// The id that a row had before an update, where all of its key is known.
    pub(super) fn of_before(&self, before: &Row<'_>) -> Option<String> {
        if self.columns.is_empty() {
            return None;
        }
        row_key::id(&self.columns, |column| known(before, column)).ok()
    }

    fn id<'r>(&'r self, of_row: impl Fn(&str) -> Option<Json<'r>>) -> Result<String, Fault> {
        if let MessageKey::Value(value) = &self.message
            && self.columns.is_empty()
        {
            return row_key::id(&[UNNAMED], |_| value.value(UNNAMED));
        }
        for column in &self.columns {
            let one = |value: Json<'r>| row_key::id(&[column], |_| Some(value));
            if let (Some(row), Some(message)) = (of_row(column), self.of_message(column))
                && let (Ok(row), Ok(message)) = (one(row), one(message))
                && row != message
            {
                let reason = format!("expected the message's key and the row to have one value in {column}, found two");
                return Err(Fault::new("key_contradicted", reason));
            }
        }
        row_key::id(&self.columns, |column| of_row(column).or_else(|| self.of_message(column)))
    }

    fn of_message(&self, column: &str) -> Option<Json<'_>> {
        match &self.message {
            MessageKey::Columns(row) => row.value(column),
            MessageKey::Value(value) if self.columns.len() == 1 => value.value(UNNAMED),
            MessageKey::Value(_) | MessageKey::None => None,
        }
    }
}

/// A value of a row before its change. PostgreSQL writes null for what it did not log, so null says nothing.
fn known<'r>(before: &'r Row<'_>, column: &str) -> Option<Json<'r>> {
    before.value(column).and_then(Json::present).filter(|value| !is_unavailable(*value))
}

fn message_key<'a>(key_json: Option<&'a [u8]>, row_decimals: &[(String, Decimal)]) -> Result<MessageKey<'a>, Fault> {
    let Some(key_json) = key_json.filter(|key| !key.is_empty()) else { return Ok(MessageKey::None) };
    let unusable = |found: &str| {
        let reason = format!("expected the message's key as JSON, an object of the key columns or one value, found {found}");
        Fault::new("unusable_key", reason)
    };
    let whole = Json::parse(key_json)
        .map_err(|_| unusable("something else: set key.converter to JsonConverter, or name the columns with --key"))?;
    let (key, schema) = match unwrapped(whole) {
        (payload, Some(schema)) => (payload, Some(schema)),
        // A column may be called payload.
        (_, None) => (whole, None),
    };
    match key.kind() {
        Kind::Null => Ok(MessageKey::None),
        Kind::Array => Err(unusable("a list")),
        Kind::Object => {
            let own = decimals::of_struct(schema);
            let decimals = if schema.is_some() { &own } else { row_decimals };
            let row = Row::new(key, decimals)?;
            Ok(if row.names().is_empty() { MessageKey::None } else { MessageKey::Columns(row) })
        }
        Kind::Boolean | Kind::Number | Kind::String => Ok(MessageKey::Value(Row::of_value(UNNAMED, key, decimals::of_value(schema))?)),
    }
}
