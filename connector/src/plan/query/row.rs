//! What a query sees, a row of a stream, and the values that it answers with.
//!
//! Plain data. JSON goes through as it is, to the last digit.

use std::borrow::Cow;

use crate::codec::ion_json::write_string;
use crate::plan::sql::value::Value as Computed;

/// What a revision does to its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// The document is now this.
    Index,
    /// The document is gone.
    Delete,
    /// The content of the revision was removed.
    Redacted,
}

impl Op {
    /// The text of the column `op`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Delete => "delete",
            Self::Redacted => "redacted",
        }
    }
}

/// A shard or partition, or a place in one, as its source names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// A partition of Kafka; an offset, in Kafka or in a file.
    Number(i64),
    /// A shard, a file, a sequence number.
    Text(&'a str),
}

/// A revision as a row: the columns, and the pseudo-columns of its record.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// `table`
    pub table: &'a str,
    /// `op`
    pub op: Op,
    /// `data`: the document, a JSON object; `None` where the revision has none.
    pub data: Option<&'a [u8]>,
    /// `metadata`, `blockAddress` and `hash` as members of a JSON object, each where the source has it.
    pub committed: Option<&'a [u8]>,
    /// `ROWTIME`: when the source took the record in, in milliseconds since 1970.
    pub time: Option<u64>,
    /// `ROWPARTITION`
    pub partition: Place<'a>,
    /// `ROWOFFSET`
    pub offset: Place<'a>,
}

/// A value of the result.
#[derive(Debug, Clone, PartialEq)]
pub struct Value<'a>(pub(super) Answer<'a>);

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer<'a> {
    Missing,
    /// JSON text as the stream has it.
    Json(Cow<'a, [u8]>),
    Computed(Computed<'a>),
}

impl Value<'_> {
    /// Appends the value as JSON text on one line; what is missing is null.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Answer::Missing | Answer::Computed(Computed::Null) => out.extend_from_slice(b"null"),
            Answer::Json(json) | Answer::Computed(Computed::Json(json)) => out.extend_from_slice(json),
            Answer::Computed(Computed::Text(text)) => write_string(text, out),
            Answer::Computed(Computed::Time(time)) => write_string(&time.to_string(), out),
            Answer::Computed(Computed::Number(number)) => out.extend_from_slice(number.text()),
            Answer::Computed(Computed::Bool(value)) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        }
    }

    /// Appends the value as it stands in a table: strings without quotes, nothing for what is null or missing, JSON for lists and objects.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Answer::Missing | Answer::Computed(Computed::Null) => {}
            Answer::Json(json) if **json == *b"null" => {}
            Answer::Json(json) => match Computed::read(json) {
                Computed::Text(text) => out.extend_from_slice(text.as_bytes()),
                _ => out.extend_from_slice(json),
            },
            Answer::Computed(Computed::Text(text)) => out.extend_from_slice(text.as_bytes()),
            Answer::Computed(Computed::Time(time)) => out.extend_from_slice(time.to_string().as_bytes()),
            Answer::Computed(_) => self.write_json(out),
        }
    }

    /// Whether it is a number.
    pub fn is_number(&self) -> bool {
        match &self.0 {
            Answer::Json(json) => json.first().is_some_and(|first| matches!(first, b'-' | b'0'..=b'9')),
            Answer::Computed(computed) => matches!(computed, Computed::Number(_)),
            Answer::Missing => false,
        }
    }
}
