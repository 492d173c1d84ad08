//! What a person may choose about decoding: the format of the records, and what is to be known of a table that its records do not tell.
//!
//! Plain data. The names are those of the configuration.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ion_json::Rules;

/// What the records of a source hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Recognised by content, record by record
    #[default]
    Auto,
    /// The QLDB stream: control, block summary and revision details records in Ion
    Qldb,
    /// Lindorm Streams: row changes in JSON, in the legacy format or as DebeziumV2
    Lindorm,
    /// Debezium: change events in JSON, with or without their schema
    Debezium,
}

impl Format {
    /// The name in the configuration, and in dead letters.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Qldb => "qldb",
            Self::Lindorm => "lindorm",
            Self::Debezium => "debezium",
        }
    }
}

/// What may be taken for the version of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Versions {
    /// The position in the database's log, where the connector tells one; a source without is refused
    #[default]
    Sound,
    /// The time of the change (`source.ts_ms`): of two changes of a row in one millisecond the one that comes later wins, and a clock that is set
    /// back loses changes
    Timestamp,
}

/// What a put of a row carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Rows {
    /// The whole row: it replaces the document
    #[default]
    Full,
    /// Some columns of the row: each is merged into the document, and of two values of a column the later one stays
    Cells,
}

/// What the values of a column become, which a source of rows may write as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnType {
    /// Text as it is; an empty one stays empty.
    String,
    /// A whole number of 64 bits with a sign.
    Long,
    /// A number with a binary fraction.
    Double,
    /// A number with all its digits.
    Decimal,
    /// `true` or `false`.
    Boolean,
    /// Milliseconds since 1970, which become a time in ISO form.
    TimestampMs,
    /// Bytes in Base64.
    Base64,
    /// JSON text, which becomes what it says.
    Json,
}

/// What a revision carries of the source's own metadata, beside its document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Metadata {
    /// Nothing.
    #[default]
    None,
    /// A flat object to be a field of the document: `table`, `id`, `version` and what else the format knows.
    Field,
    /// As `Field`, and the revision's hash where the format has one: what a document of a history says of its revision.
    History,
    /// An object with the members that a revision has in the committed view of a table of QLDB: `blockAddress`, `hash`, and `metadata` with `id`,
    /// `version`, `txTime`, `txId` (QLDB developer guide, "Querying document metadata"). Other formats have `metadata`, with what they know.
    Committed,
}

/// What is wanted of the blocks of a journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Journal {
    /// The text of statements too, which may hold personal data as literals, also such that was redacted since.
    pub statements: bool,
}

/// The choices of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// Its revisions are not wanted and not looked at: each is skipped as unmapped once its table is known.
    pub unread: bool,
    /// Rules exist and none is for this table: nothing of it is wanted, and nothing has to be known of it.
    pub unmapped: bool,
    /// How values are written.
    pub rules: Rules,
    /// What its revisions carry of the source's metadata.
    pub metadata: Metadata,
    /// The key columns in their order, where the format does not tell them.
    pub key: Vec<String>,
    /// What a put carries.
    pub rows: Rows,
    /// What columns become, by their names as the source writes them.
    pub types: BTreeMap<String, ColumnType>,
}
