//! One rule: the tables that it is for, and what is to be done with their revisions; and why there cannot be such a rule.
//!
//! Plain data. Looks at one rule at a time, and at no revision.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::codec::Rows;
use crate::plan::filter::Filter;
use crate::plan::names::index_name_problem;
use crate::plan::projection::Paths;
use crate::plan::tombstone::FIELD;

/// What a delete revision does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Deletes {
    /// It deletes the document, at its own version.
    #[default]
    Delete,
    /// It writes a tombstone in the document's place, at its own version.
    Tombstone,
    /// Nothing: the last state stays.
    Keep,
}

/// What an index is of a table's revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The newest revision of each document.
    #[default]
    Latest,
    /// Every revision, each a document of its own.
    History,
}

impl Mode {
    /// Both, in the order in which a revision goes to them.
    pub const ALL: [Self; 2] = [Self::Latest, Self::History];

    /// The name in the configuration, and in dead letters.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Latest => "latest",
            Self::History => "history",
        }
    }

    /// The index of a rule that names none.
    pub fn default_template(self) -> &'static str {
        match self {
            Self::Latest => "{table}",
            Self::History => "{table}_history",
        }
    }
}

/// What a redaction does to an index of the newest revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Redactions {
    /// Nothing: only revisions are redacted that newer ones have replaced.
    #[default]
    Skip,
    /// It removes the content that it covers, should the index hold it.
    Erase,
}

/// What becomes of an id of more than 512 bytes, which OpenSearch does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LongIds {
    /// A dead letter.
    #[default]
    Reject,
    /// `sha256:` and the hash in hexadecimal.
    Hash,
}

/// One rule: the tables it is for, and what is to be done with their revisions. Of each mode the first rule that fits a table counts.
#[derive(Debug, Clone, Default)]
pub struct Rule {
    /// A table name, or a pattern in which `*` stands for any text.
    pub name: String,
    /// What the index is of the table's revisions.
    pub mode: Mode,
    /// The index, in which `{table}` stands for the table's default name; where absent [`Mode::default_template`].
    pub index: Option<String>,
    /// The fields that are kept; all where empty.
    pub fields: Paths,
    /// The fields that are left out.
    pub exclude: Paths,
    /// What a document must match to be in the index; a put that does not is a delete, and is passed over in a history.
    pub filter: Option<Filter>,
    /// The routing value, in which `{id}` and `{table}` stand for the document id and the table's name.
    pub routing: Option<String>,
    /// What a delete does.
    pub deletes: Deletes,
    /// What a redaction does.
    pub redactions: Redactions,
    /// The field that takes the source's metadata, where there is to be one.
    pub metadata_field: Option<String>,
    /// What becomes of ids that are too long.
    pub long_ids: LongIds,
    /// What a put of a row carries.
    pub rows: Rows,
}

impl Rule {
    /// The index, with its placeholders.
    pub fn template(&self) -> &str {
        self.index.as_deref().unwrap_or(self.mode.default_template())
    }

    /// The routing value of a document.
    pub(super) fn routing_of(&self, id: &str, table: &str) -> Option<String> {
        self.routing.as_ref().map(|routing| routing.replace("{id}", id).replace("{table}", table))
    }

    /// Why there cannot be such a rule, where there cannot.
    pub(super) fn problem(&self) -> Option<String> {
        if let Some(index) = &self.index {
            if let Err(problem) = check_template(index, &["table"]) {
                return Some(format!("index: {problem}"));
            }
            if let Some(problem) = index_name_problem(&index.replace("{table}", "t")) {
                return Some(format!("index: {problem}"));
            }
        }
        if let Some(Err(problem)) = self.routing.as_ref().map(|routing| check_template(routing, &["table", "id"])) {
            return Some(format!("routing: {problem}"));
        }
        if self.mode == Mode::History {
            return history_problem(self).map(|problem| format!("mode = \"history\": {problem}"));
        }
        if self.deletes == Deletes::Tombstone && self.metadata_field.as_deref() == Some(FIELD) {
            return Some(format!("metadata_field: expected another name than \"{FIELD}\", which is that of tombstones"));
        }
        (self.rows == Rows::Cells).then(|| cells_problem(self)).flatten().map(|problem| format!("rows = \"cells\": {problem}"))
    }
}

/// Why a rule cannot hold for a history, to which nothing happens but that revisions are added.
fn history_problem(rule: &Rule) -> Option<String> {
    if rule.rows == Rows::Cells {
        return Some("expected rows = \"full\": a change of some columns is no revision of a row".to_owned());
    }
    if rule.deletes != Deletes::default() {
        return Some("expected no deletes: a history deletes nothing, and each delete is a document of it that says so".to_owned());
    }
    if rule.redactions != Redactions::default() {
        return Some("expected no redactions: a history never keeps what was redacted".to_owned());
    }
    let field = rule.metadata_field.is_some();
    field.then(|| format!("expected no metadata_field: the member \"{FIELD}\" of each document has what the source knows"))
}

/// Why a rule cannot hold where a row is put together from cells: no change has the whole row.
fn cells_problem(rule: &Rule) -> Option<&'static str> {
    if rule.filter.is_some() {
        return Some("expected no where, which has to see the whole row, and a change carries only some columns of it");
    }
    if rule.metadata_field.is_some() {
        return Some("expected no metadata_field: a row comes from many changes, and no one of them describes it");
    }
    if rule.redactions != Redactions::default() {
        return Some("expected no redactions: those are of whole documents");
    }
    let names = rule.fields.are_names() && rule.exclude.are_names();
    (!names)
        .then_some("fields and exclude choose among columns: expected their names (one with dots in double quotes), found a path into one")
}

/// Checks that a template has no placeholder but the known ones: a document's fields can change, and an id must stay in one place.
fn check_template(template: &str, known: &[&str]) -> Result<(), String> {
    let expected = || known.iter().map(|k| format!("{{{k}}}")).collect::<Vec<_>>().join(" or ");
    for part in template.split('{').skip(1) {
        let name = part.split_once('}').map(|(name, _)| name);
        if !name.is_some_and(|name| known.contains(&name)) {
            return Err(format!("expected no placeholder but {}, found \"{template}\"; it may depend on table and key only", expected()));
        }
    }
    Ok(())
}
