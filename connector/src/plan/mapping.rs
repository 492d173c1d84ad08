//! Revision to operation, by the rules: index, id, version, document, or why there is none.
//!
//! Index, id and routing depend on table and key only, so that every revision of a document meets in one place.

use std::collections::HashMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::cells;
use super::deletes::IndexDeletes;
use super::filter::Filter;
use super::names::{default_index, index_name_problem, matches};
use super::projection::{Paths, project};
use super::tombstone::FIELD;
use crate::codec::Rows;
use crate::codec::ion_json::DOCUMENT_LIMIT;
use crate::error::Error;
use crate::memory;
use crate::metrics::Skip;
use crate::operation::{Operation, Target};
use crate::record::Fault;
use crate::revision::{Block, Cell, Cells, Change, Document, MAX_VERSION, Revision, VersionType};

/// Bytes of UTF-8 that an `_id` may have (`IndexRequest.validate`).
pub const MAX_ID: usize = 512;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The newest revision of each document.
    #[default]
    Latest,
    /// Every revision, each a document of its own.
    History,
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

/// One rule: the tables it is for, and what is to be done with their revisions. The first rule that fits a table counts.
#[derive(Debug, Clone, Default)]
pub struct Rule {
    /// A table name, or a pattern in which `*` stands for any text.
    pub name: String,
    /// What the index is of the table's revisions. Of each mode the first rule that fits a table counts.
    pub mode: Mode,
    /// The index, in which `{table}` stands for the table's default name; the default name where absent.
    pub index: Option<String>,
    /// The fields that are kept; all where empty.
    pub fields: Paths,
    /// The fields that are left out.
    pub exclude: Paths,
    /// What a document must match to be in the index; a put that does not is a delete.
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

/// What becomes of one revision.
#[derive(Debug, Clone, PartialEq)]
pub enum Planned {
    /// This is sent.
    Operation(Operation),
    /// Nothing is sent, for a reason.
    Skip(Skip),
    /// It can never be sent.
    Fault(Fault),
}

#[derive(Debug, Clone)]
enum Destination {
    Index { name: Arc<str>, rule: Option<usize> },
    Unmapped,
    Unnamable(Fault),
}

/// Tables of which the destination is remembered; more are worked out again each time.
const REMEMBERED_TABLES: usize = 1_000;

/// The rules, and which tables were seen under them.
#[derive(Debug, Clone, Default)]
pub struct Mapping {
    rules: Vec<Rule>,
    /// Without rules, what a put of a row carries.
    rows: Rows,
    /// The index of the journal's blocks, where there is one.
    journal: Option<Arc<str>>,
    tables: HashMap<Arc<str>, Destination>,
    /// The table that came to an index first, and whether a rule named the index for it.
    owners: HashMap<Arc<str>, (Arc<str>, bool)>,
}

impl Mapping {
    /// A mapping by these rules; without any, every table goes to the index of its default name.
    ///
    /// # Errors
    /// A rule that names no index that OpenSearch could have, or makes index or routing depend on more than table and key.
    pub fn new(rules: Vec<Rule>) -> Result<Self, Error> {
        for rule in &rules {
            let named = |what: String| Error::usage(format!("rule for table \"{}\": {what}", rule.name));
            if let Some(index) = &rule.index {
                check_template(index, &["table"]).map_err(|e| named(format!("index: {e}")))?;
                if let Some(problem) = index_name_problem(&index.replace("{table}", "t")) {
                    return Err(named(format!("index: {problem}")));
                }
            }
            if let Some(routing) = &rule.routing {
                check_template(routing, &["table", "id"]).map_err(|e| named(format!("routing: {e}")))?;
            }
            if rule.deletes == Deletes::Tombstone && rule.metadata_field.as_deref() == Some(FIELD) {
                return Err(named(format!("metadata_field: expected another name than \"{FIELD}\", which is that of tombstones")));
            }
            if rule.rows == Rows::Cells
                && let Some(problem) = cells_problem(rule)
            {
                return Err(named(format!("rows = \"cells\": {problem}")));
            }
        }
        Ok(Self { rules, ..Self::default() })
    }

    /// Says what a put of a row carries where there are no rules; by default the whole row.
    #[must_use]
    pub fn with_rows(mut self, rows: Rows) -> Self {
        self.rows = rows;
        self
    }

    /// Says where the blocks of the journal go; by default nowhere.
    ///
    /// # Errors
    /// A name that no index of OpenSearch can have.
    pub fn with_journal(mut self, index: Option<&str>) -> Result<Self, Error> {
        if let Some(problem) = index.and_then(index_name_problem) {
            return Err(Error::usage(format!("journal: index: {problem}")));
        }
        self.journal = index.map(Into::into);
        Ok(self)
    }

    /// Decides about a block of the journal: its id is made of its strand and its sequence number, which is its version.
    pub fn plan_block(&self, block: Block) -> Planned {
        let Some(index) = &self.journal else { return Planned::Skip(Skip::BlockSummary) };
        let Block { strand, sequence, summary, .. } = block;
        match usable_id(format!("{strand}@{sequence}"), LongIds::Reject) {
            Err(fault) => Planned::Fault(fault),
            Ok(id) => {
                let target = Target { index: Arc::clone(index), id, version: sequence, version_type: VersionType::External, routing: None };
                Planned::Operation(Operation::Index { target, document: summary })
            }
        }
    }

    /// Which deletes an index can get by these rules.
    pub fn deletes(&self) -> IndexDeletes {
        IndexDeletes::of(&self.rules, self.rows)
    }

    /// Decides about one revision. `now` is the time that a tombstone bears, in milliseconds since 1970 (UTC).
    ///
    /// # Errors
    /// Two tables that come to one index without a rule that says so: going on would mix their documents.
    pub fn plan(&mut self, revision: Revision, now: u64) -> Result<Planned, Error> {
        self.plan_and_tell(revision, now).map(|(planned, _)| planned)
    }

    /// As [`plan`](Self::plan), and tells whether the revision is a put that does not match the rule's filter, and so is planned as a delete.
    ///
    /// # Errors
    /// As for [`plan`](Self::plan).
    pub fn plan_and_tell(&mut self, revision: Revision, now: u64) -> Result<(Planned, bool), Error> {
        let (index, rule) = match self.destination(&revision.table)? {
            Destination::Index { name, rule } => (name, rule.map(|i| &self.rules[i])),
            Destination::Unmapped => return Ok((Planned::Skip(Skip::Unmapped), false)),
            Destination::Unnamable(fault) => return Ok((Planned::Fault(fault), false)),
        };
        let leaves = match leaves(&revision.change, rule) {
            Ok(leaves) => leaves,
            Err(fault) => return Ok((Planned::Fault(fault), false)),
        };
        // An earlier revision may have matched.
        let revision = if leaves { Revision { change: Change::Delete, ..revision } } else { revision };
        let rows = rule.map_or(self.rows, |rule| rule.rows);
        Ok((planned(revision, index, rule, rows, now).unwrap_or_else(Planned::Fault), leaves))
    }

    /// The document that a revision is about, whatever is to be done with it; `None` where it has no place in any index.
    ///
    /// # Errors
    /// As for [`plan`](Self::plan).
    pub fn target(&mut self, revision: &Revision) -> Result<Option<Target>, Error> {
        let Destination::Index { name, rule } = self.destination(&revision.table)? else { return Ok(None) };
        let rule = rule.map(|i| &self.rules[i]);
        Ok(target(&revision.table, revision.id.clone(), name, rule, revision.version, revision.version_type).ok())
    }

    /// The indices that rules name, whatever tables there are.
    pub fn named_indices(&self) -> Vec<String> {
        IndexDeletes::of(&self.rules, self.rows).named()
    }

    fn destination(&mut self, table: &Arc<str>) -> Result<Destination, Error> {
        if let Some(destination) = self.tables.get(table) {
            return Ok(destination.clone());
        }
        let destination = self.find_destination(table)?;
        if self.tables.len() < REMEMBERED_TABLES {
            self.tables.insert(table.clone(), destination.clone());
        }
        Ok(destination)
    }

    fn find_destination(&mut self, table: &Arc<str>) -> Result<Destination, Error> {
        let rule = self.rules.iter().position(|rule| matches(&rule.name, table));
        if rule.is_none() && !self.rules.is_empty() {
            return Ok(Destination::Unmapped);
        }
        let template = rule.and_then(|i| self.rules[i].index.as_deref());
        let name = match (template, default_index(table)) {
            (Some(template), default) if default.is_some() || !template.contains("{table}") => {
                Some(template.replace("{table}", &default.unwrap_or_default()))
            }
            (None, default) => default,
            (Some(_), _) => None,
        };
        let Some(name) = name.filter(|name| index_name_problem(name).is_none()) else {
            let reason = format!("expected a table name that an index can be named after, found \"{table}\"; give it a rule with an index");
            return Ok(Destination::Unnamable(Fault::new("invalid_index_name", reason)));
        };
        let name: Arc<str> = name.into();
        if self.journal.as_ref() == Some(&name) {
            return Err(Error::usage(format!("the table \"{table}\" and the journal both come to the index \"{name}\""))
                .help("name another index for one of them in the configuration ([journal] index = …, [[table]] index = …)"));
        }
        // A template with a placeholder says of no two tables that they belong together.
        let named_by_rule = template.is_some_and(|template| !template.contains("{table}"));
        match self.owners.get(&name) {
            Some((owner, owner_named)) if owner != table && !(named_by_rule && *owner_named) => {
                return Err(Error::usage(format!("tables \"{owner}\" and \"{table}\" both come to the index \"{name}\""))
                    .help("name an index for each of them in the configuration ([[table]] name = …, index = …)"));
            }
            Some(_) => {}
            None => {
                self.owners.insert(name.clone(), (table.clone(), named_by_rule));
            }
        }
        Ok(Destination::Index { name, rule })
    }
}

/// What a revision comes to in its index.
enum State {
    Document(Document),
    Merged(Cells),
    Gone,
}

/// What becomes of a revision of an index, as the rule wants it. `rows` is what a put carries.
fn planned(revision: Revision, index: Arc<str>, rule: Option<&Rule>, rows: Rows, now: u64) -> Result<Planned, Fault> {
    let deletes = rule.map_or_else(Deletes::default, |r| r.deletes);
    let state = match revision.change {
        Change::Redaction => return Ok(Planned::Skip(Skip::Redacted)),
        Change::Put(_) | Change::Delete if rows == Rows::Cells => {
            let reason =
                "expected columns with a version each, as rows = \"cells\" has it, found a whole row; this table needs rows = \"full\"";
            return Err(Fault::new("whole_row", reason));
        }
        Change::Delete if deletes == Deletes::Keep => return Ok(Planned::Skip(Skip::Filtered)),
        Change::Delete => State::Gone,
        Change::Cells(cells) => {
            let erases = cells.erased.is_some();
            let cells = chosen(cells, rule, deletes)?;
            match (cells.columns.is_empty(), cells.erased) {
                (true, None) => return Ok(Planned::Skip(if erases { Skip::Filtered } else { Skip::NoChange })),
                _ => State::Merged(cells),
            }
        }
        Change::Put(document) => State::Document(shape(document, revision.metadata.as_ref(), rule)?),
    };
    // What a merge bears is for people, and of what was left of it.
    let version = if let State::Merged(cells) = &state { cells::version(cells) } else { revision.version };
    if version > MAX_VERSION {
        let reason = format!("expected a version of at most {MAX_VERSION}, found {version}");
        return Err(Fault::new("version_out_of_range", reason));
    }
    let target = target(&revision.table, revision.id, index, rule, version, revision.version_type)?;
    Ok(Planned::Operation(match state {
        State::Document(document) => Operation::Index { target, document },
        State::Merged(cells) => Operation::Merge { target, cells: Arc::new(cells), time: now },
        State::Gone if deletes == Deletes::Tombstone => Operation::Tombstone { target, time: now },
        State::Gone => Operation::Delete { target },
    }))
}

fn target(table: &str, id: String, index: Arc<str>, rule: Option<&Rule>, version: u64, version_type: VersionType) -> Result<Target, Fault> {
    let routing = rule.and_then(|r| r.routing.as_ref()).map(|r| r.replace("{id}", &id).replace("{table}", table));
    let id = usable_id(id, rule.map_or(LongIds::Reject, |r| r.long_ids))?;
    Ok(Target { index, id, version, version_type, routing })
}

/// The cells as the rule wants them: columns chosen, within the size that any request could carry, and without what they erase themselves.
fn chosen(cells: Cells, rule: Option<&Rule>, deletes: Deletes) -> Result<Cells, Fault> {
    let mut cells = cells::settled(cells);
    if let Some(rule) = rule {
        let kept = |name: &str| (rule.fields.is_empty() || rule.fields.has(name)) && !rule.exclude.has(name);
        cells.columns.retain(|cell| kept(&cell.name));
    }
    if deletes == Deletes::Keep {
        cells.erased = None;
    }
    if cells.columns.iter().any(|cell| cell.name == FIELD) {
        let reason =
            format!("expected columns of other names than \"{FIELD}\", which holds their versions; exclude = [\"{FIELD}\"] leaves it out");
        return Err(Fault::new("unusable_column", reason));
    }
    let size: usize = cells.columns.iter().map(Cell::size).sum();
    if size > DOCUMENT_LIMIT { Err(too_large(size)) } else { Ok(cells) }
}

fn too_large(size: usize) -> Fault {
    Fault::new("document_too_large", format!("expected a document of at most {DOCUMENT_LIMIT} bytes, found {size}"))
}

/// Why a rule cannot hold where a row is put together from cells: no change has the whole row.
fn cells_problem(rule: &Rule) -> Option<&'static str> {
    if rule.filter.is_some() {
        return Some("expected no where, which has to see the whole row, and a change carries only some columns of it");
    }
    if rule.metadata_field.is_some() {
        return Some("expected no metadata_field: a row comes from many changes, and no one of them describes it");
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

fn usable_id(id: String, long_ids: LongIds) -> Result<String, Fault> {
    match id.len() {
        0 => Err(Fault::new("empty_id", "expected a document id, found an empty one")),
        1..=MAX_ID => Ok(id),
        _ if long_ids == LongIds::Hash => {
            let hash: String = Sha256::digest(id.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
            Ok(format!("sha256:{hash}"))
        }
        length => Err(Fault::new(
            "id_too_long",
            format!("expected a document id of at most {MAX_ID} bytes, found one of {length}; a rule with long_ids = \"hash\" takes it"),
        )),
    }
}

/// Whether a put does not match the rule's filter, which sees the document as the source has it.
fn leaves(change: &Change, rule: Option<&Rule>) -> Result<bool, Fault> {
    let (Change::Put(document), Some(filter)) = (change, rule.and_then(|rule| rule.filter.as_ref())) else { return Ok(false) };
    filter.matches(document.as_bytes()).map(|matches| !matches).ok_or_else(undecodable)
}

fn undecodable() -> Fault {
    Fault::new("undecodable", "expected the document to be JSON, found something else")
}

/// The document as the rule wants it: fields chosen, metadata added, within the size that any request could carry.
fn shape(document: Document, metadata: Option<&Document>, rule: Option<&Rule>) -> Result<Document, Fault> {
    let Some(rule) = rule else { return Ok(document) };
    let field = rule.metadata_field.as_deref().zip(metadata);
    if rule.fields.is_empty() && rule.exclude.is_empty() && field.is_none() {
        return Ok(document);
    }
    let mut out = Vec::with_capacity(document.0.len() + metadata.map_or(0, |m| m.0.len() + 32));
    project(document.as_bytes(), &rule.fields, &rule.exclude, field.map(|(name, value)| (name, value.as_bytes())), &mut out)
        .ok_or_else(undecodable)?;
    if out.len() > DOCUMENT_LIMIT {
        return Err(too_large(out.len()));
    }
    // What is left may be a small part of what there was room for.
    Ok(Document(memory::copy(&out)))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    fn revision(table: &str, id: &str, change: Change) -> Revision {
        Revision {
            table: table.into(),
            id: id.to_owned(),
            version: 3,
            version_type: VersionType::External,
            change,
            metadata: None,
            committed: None,
        }
    }

    fn put(table: &str, id: &str) -> Revision {
        revision(table, id, Change::Put(Document(Bytes::from_static(br#"{"a":1,"b":2}"#))))
    }

    fn mapping(rules: impl IntoIterator<Item = Rule>) -> Mapping {
        Mapping::new(rules.into_iter().collect()).unwrap()
    }

    fn rule(name: &str, index: Option<&str>) -> Rule {
        Rule { name: name.to_owned(), index: index.map(str::to_owned), ..Rule::default() }
    }

    fn target(planned: Planned) -> Target {
        match planned {
            Planned::Operation(operation) => operation.target().clone(),
            other => panic!("expected an operation, found {other:?}"),
        }
    }

    fn fault(planned: Planned) -> String {
        match planned {
            Planned::Fault(fault) => fault.kind,
            other => panic!("expected a fault, found {other:?}"),
        }
    }

    #[test]
    fn without_rules_every_table_goes_to_the_index_of_its_name_with_the_document_as_it_is() {
        let planned = mapping([]).plan(put("VehicleRegistration", "a"), NOW).unwrap();
        let Planned::Operation(Operation::Index { target, document }) = planned else { panic!("{planned:?}") };
        assert_eq!((&*target.index, target.id.as_str(), target.version), ("vehicle_registration", "a", 3));
        assert_eq!(document.as_bytes(), br#"{"a":1,"b":2}"#);
    }

    #[test]
    fn two_tables_in_one_index_are_refused_unless_a_rule_names_the_index_for_both() {
        let both = |rules: Vec<Rule>| {
            let mut mapping = mapping(rules);
            mapping.plan(put("Person", "a"), NOW).unwrap();
            mapping.plan(put("person", "b"), NOW).map(target)
        };
        let refused = both(vec![]).unwrap_err();
        assert!(refused.what.contains("\"Person\"") && refused.what.contains("\"person\""), "{refused}");
        assert!(both(vec![rule("*", Some("x-{table}"))]).is_err(), "a placeholder says of no two tables that they belong together");
        assert!(both(vec![rule("Person", Some("person")), rule("*", None)]).is_err());
        assert_eq!(&*both(vec![rule("*", Some("all"))]).unwrap().index, "all");
        assert_eq!(&*both(vec![rule("Person", Some("one")), rule("person", Some("one"))]).unwrap().index, "one");
    }

    #[test]
    fn more_tables_than_are_remembered_still_go_where_they_belong() {
        let mut mapping = mapping([]);
        for round in 0..2 {
            for number in 0..REMEMBERED_TABLES + 50 {
                let found = target(mapping.plan(put(&format!("T{number}"), "a"), NOW).unwrap());
                assert_eq!(*found.index, format!("t{number}"), "round {round}");
            }
        }
        assert!(mapping.plan(put("t7", "a"), NOW).is_err());
        assert!(mapping.plan(put(&format!("t{}", REMEMBERED_TABLES + 20), "a"), NOW).is_err());
    }

    #[test]
    fn the_first_rule_that_fits_counts_and_a_table_without_one_is_unmapped() {
        let mut mapping = mapping([rule("shop.*", Some("shop")), rule("shop.orders", Some("orders"))]);
        assert_eq!(&*target(mapping.plan(put("shop.orders", "a"), NOW).unwrap()).index, "shop");
        assert_eq!(mapping.plan(put("Person", "a"), NOW), Ok(Planned::Skip(Skip::Unmapped)));
    }

    #[test]
    fn a_redaction_is_skipped_and_a_delete_deletes_unless_the_rule_keeps() {
        let mut plain = mapping([]);
        assert_eq!(plain.plan(revision("Person", "a", Change::Redaction), NOW), Ok(Planned::Skip(Skip::Redacted)));
        assert!(matches!(plain.plan(revision("Person", "a", Change::Delete), NOW), Ok(Planned::Operation(Operation::Delete { .. }))));
        let mut keeping = mapping([Rule { deletes: Deletes::Keep, ..rule("*", None) }]);
        assert_eq!(keeping.plan(revision("Person", "a", Change::Delete), NOW), Ok(Planned::Skip(Skip::Filtered)));
        assert_eq!(keeping.plan(revision("Person", "a", Change::Redaction), NOW), Ok(Planned::Skip(Skip::Redacted)));
    }

    #[test]
    fn a_delete_under_tombstones_is_one_at_its_own_version_with_the_time_of_the_plan() {
        let mut mapping = mapping([Rule { deletes: Deletes::Tombstone, routing: Some("{table}".into()), ..rule("*", None) }]);
        let Ok(Planned::Operation(Operation::Tombstone { target, time })) = mapping.plan(revision("Person", "a", Change::Delete), NOW)
        else {
            panic!("expected a tombstone")
        };
        assert_eq!((target.version, target.routing.as_deref(), time), (3, Some("Person"), NOW));
        assert!(matches!(mapping.plan(put("Person", "a"), NOW), Ok(Planned::Operation(Operation::Index { .. }))));
        assert_eq!(mapping.plan(revision("Person", "a", Change::Redaction), NOW), Ok(Planned::Skip(Skip::Redacted)));
        assert_eq!(fault(mapping.plan(revision("Person", "", Change::Delete), NOW).unwrap()), "empty_id");
    }

    #[test]
    fn the_field_of_tombstones_takes_no_metadata() {
        let rule = |deletes| Rule { deletes, metadata_field: Some("revsync".into()), ..rule("Person", None) };
        assert!(Mapping::new(vec![rule(Deletes::Tombstone)]).unwrap_err().what.contains("metadata_field"));
        assert!(Mapping::new(vec![rule(Deletes::Delete)]).is_ok());
    }

    #[test]
    fn ids_and_versions_beyond_what_opensearch_takes_are_faults() {
        let mut mapping = mapping([]);
        assert_eq!(target(mapping.plan(put("Person", &"x".repeat(512)), NOW).unwrap()).id.len(), 512);
        assert_eq!(fault(mapping.plan(put("Person", &"x".repeat(513)), NOW).unwrap()), "id_too_long");
        assert_eq!(fault(mapping.plan(put("Person", &"é".repeat(257)), NOW).unwrap()), "id_too_long");
        assert_eq!(fault(mapping.plan(put("Person", ""), NOW).unwrap()), "empty_id");
        let beyond = Revision { version: MAX_VERSION + 1, ..put("Person", "a") };
        assert_eq!(fault(mapping.plan(beyond, NOW).unwrap()), "version_out_of_range");
        assert_eq!(target(mapping.plan(Revision { version: MAX_VERSION, ..put("Person", "a") }, NOW).unwrap()).version, MAX_VERSION);
        assert_eq!(fault(mapping.plan(put("***", "a"), NOW).unwrap()), "invalid_index_name");
    }

    #[test]
    fn a_long_id_under_a_rule_is_a_hash_that_is_the_same_every_time_and_marked_as_one() {
        let mut mapping = mapping([Rule { long_ids: LongIds::Hash, ..rule("*", None) }]);
        let mut id = |id: String| target(mapping.plan(put("Person", &id), NOW).unwrap()).id;
        let (first, again, other) = (id("x".repeat(513)), id("x".repeat(513)), id("x".repeat(514)));
        assert!(first == again && first != other && first.starts_with("sha256:") && first.len() == 71, "{first} {other}");
        assert_eq!(id("x".repeat(512)).len(), 512);
    }

    #[test]
    fn metadata_and_chosen_fields_make_the_document_that_the_rule_wants() {
        let fields = Paths::parse(["b"]).unwrap();
        let mut mapping = mapping([Rule { fields, metadata_field: Some("_ledger".into()), ..rule("*", None) }]);
        let metadata = Some(Document(Bytes::from_static(br#"{"version":3}"#)));
        let Ok(Planned::Operation(Operation::Index { document, .. })) = mapping.plan(Revision { metadata, ..put("Person", "a") }, NOW)
        else {
            panic!("expected a document")
        };
        assert_eq!(document.as_bytes(), br#"{"b":2,"_ledger":{"version":3}}"#);
    }

    fn filtered(condition: &str, deletes: Deletes) -> Rule {
        Rule { filter: Some(Filter::parse(condition).unwrap()), deletes, ..rule("*", None) }
    }

    #[test]
    fn a_put_that_does_not_match_is_a_delete_at_its_own_version_or_what_the_rule_makes_of_deletes() {
        for (condition, leaves) in [("a = 1", false), ("a = 2", true), ("nothing = 1", true), ("NOT nothing = 1", true)] {
            let mut deleting = mapping([filtered(condition, Deletes::Delete)]);
            let planned = deleting.plan(put("Person", "a"), NOW).unwrap();
            assert_eq!(matches!(planned, Planned::Operation(Operation::Delete { .. })), leaves, "{condition}");
            assert_eq!(target(planned).version, 3);
            assert_eq!(deleting.plan_and_tell(put("Person", "a"), NOW).unwrap().1, leaves, "{condition}");
            let kept = mapping([filtered(condition, Deletes::Keep)]).plan(put("Person", "a"), NOW).unwrap();
            assert_eq!(kept == Planned::Skip(Skip::Filtered), leaves, "{condition}: {kept:?}");
            let marked = mapping([filtered(condition, Deletes::Tombstone)]).plan(put("Person", "a"), NOW).unwrap();
            assert_eq!(matches!(marked, Planned::Operation(Operation::Tombstone { time: NOW, .. })), leaves, "{condition}: {marked:?}");
        }
    }

    #[test]
    fn only_a_put_is_judged_by_a_filter() {
        let mut mapping = mapping([filtered("FALSE", Deletes::Delete), rule("Person", None)]);
        assert_eq!(mapping.plan(revision("Person", "a", Change::Redaction), NOW), Ok(Planned::Skip(Skip::Redacted)));
        assert!(matches!(mapping.plan(revision("Person", "a", Change::Delete), NOW), Ok(Planned::Operation(Operation::Delete { .. }))));
        for change in [Change::Redaction, Change::Delete] {
            assert!(!mapping.plan_and_tell(revision("Person", "a", change), NOW).unwrap().1);
        }
    }

    #[test]
    fn a_filter_sees_the_fields_that_the_rule_leaves_out() {
        let exclude = Paths::parse(["a"]).unwrap();
        let mut mapping = mapping([Rule { exclude, ..filtered("a = 1", Deletes::Delete) }]);
        let planned = mapping.plan(put("Person", "a"), NOW).unwrap();
        let Planned::Operation(Operation::Index { document, .. }) = planned else { panic!("expected a document, found {planned:?}") };
        assert_eq!(document.as_bytes(), br#"{"b":2}"#);
    }

    #[test]
    fn a_delete_for_want_of_a_match_has_the_limits_of_any_operation() {
        let mut mapping = mapping([filtered("FALSE", Deletes::Delete)]);
        assert_eq!(fault(mapping.plan(put("Person", &"x".repeat(513)), NOW).unwrap()), "id_too_long");
        let beyond = Revision { version: MAX_VERSION + 1, ..put("Person", "a") };
        assert_eq!(fault(mapping.plan(beyond, NOW).unwrap()), "version_out_of_range");
        let no_json = revision("Person", "a", Change::Put(Document(Bytes::from_static(b"{\"a\":"))));
        assert_eq!(fault(mapping.plan(no_json, NOW).unwrap()), "undecodable");
    }

    #[test]
    fn index_and_routing_depend_on_table_and_key_only() {
        for (index, routing) in
            [(Some("{id}"), None), (Some("x-{State}"), None), (None, Some("{State}")), (Some("x{"), None), (Some("X"), None)]
        {
            let rule = Rule { routing: routing.map(str::to_owned), ..rule("Person", index) };
            assert!(Mapping::new(vec![rule]).is_err(), "{index:?} {routing:?}");
        }
        let mut mapping = mapping([Rule { routing: Some("{table}/{id}".into()), ..rule("Person", None) }]);
        assert_eq!(target(mapping.plan(put("Person", "a"), NOW).unwrap()).routing.as_deref(), Some("Person/a"));
    }

    fn cells_of(erased: Option<u64>, columns: &[(&str, u64, &'static str)]) -> Change {
        let cell = |(name, version, value): &(&str, u64, &'static str)| Cell {
            name: (*name).to_owned(),
            version: *version,
            value: Bytes::from_static(value.as_bytes()),
        };
        Change::Cells(Cells { erased, columns: columns.iter().map(cell).collect() })
    }

    fn merging(rule: Rule) -> Mapping {
        mapping([Rule { rows: Rows::Cells, ..rule }])
    }

    /// The version of a merge, up to which version it erases, and the names of its columns.
    fn merged(planned: Planned) -> (u64, Option<u64>, String) {
        match planned {
            Planned::Operation(Operation::Merge { target, cells, time: NOW }) => {
                let names: Vec<&str> = cells.columns.iter().map(|cell| cell.name.as_str()).collect();
                (target.version, cells.erased, names.join(" "))
            }
            other => panic!("expected a merge, found {other:?}"),
        }
    }

    #[test]
    fn cells_become_a_merge_whose_version_is_the_highest_of_them() {
        let mut mapping = merging(Rule { routing: Some("{id}".into()), ..rule("*", Some("items")) });
        let change = cells_of(Some(3), &[("a", 3, "1"), ("b", 9, "2"), ("c", 4, "null")]);
        let planned = mapping.plan(revision("shop.item", "MX", change), NOW).unwrap();
        let Planned::Operation(operation) = &planned else { panic!("{planned:?}") };
        assert_eq!(
            (&*operation.target().index, operation.target().id.as_str(), operation.target().routing.as_deref()),
            ("items", "MX", Some("MX"))
        );
        assert_eq!(merged(planned), (9, Some(3), "b c".into()), "what it erases itself is not sent");
        let erasing = mapping.plan(revision("shop.item", "MX", cells_of(Some(7), &[])), NOW).unwrap();
        assert_eq!(merged(erasing), (7, Some(7), String::new()));
        let nothing = mapping.plan(revision("shop.item", "MX", cells_of(None, &[])), NOW).unwrap();
        assert_eq!(nothing, Planned::Skip(Skip::NoChange));
    }

    #[test]
    fn fields_and_exclude_choose_among_the_columns_by_their_names() {
        let paths = |names: &[&str]| Paths::parse(names).unwrap();
        let change = || revision("T", "1", cells_of(None, &[("a", 1, "1"), ("f.x", 2, "2"), ("revsync", 3, "3")]));
        let planned = |rule: Rule| merging(rule).plan(change(), NOW).unwrap();
        assert_eq!(merged(planned(Rule { fields: paths(&["a", "\"f.x\""]), ..rule("*", None) })), (2, None, "a f.x".into()));
        assert_eq!(merged(planned(Rule { exclude: paths(&["a", "revsync"]), ..rule("*", None) })), (2, None, "f.x".into()));
        assert_eq!(fault(planned(rule("*", None))), "unusable_column", "it holds the versions");
        assert_eq!(planned(Rule { fields: paths(&["z"]), ..rule("*", None) }), Planned::Skip(Skip::NoChange));
    }

    #[test]
    fn where_deletes_are_kept_an_erasure_changes_nothing() {
        let mut mapping = merging(Rule { deletes: Deletes::Keep, ..rule("*", None) });
        let mut planned = |change| mapping.plan(revision("T", "1", change), NOW).unwrap();
        assert_eq!(planned(cells_of(Some(7), &[])), Planned::Skip(Skip::Filtered));
        assert_eq!(merged(planned(cells_of(Some(7), &[("a", 8, "1")]))), (8, None, "a".into()));
    }

    #[test]
    fn a_change_of_a_whole_row_does_not_go_where_rows_are_put_together_from_cells() {
        let mut mapping = merging(rule("*", None));
        assert_eq!(fault(mapping.plan(put("Person", "a"), NOW).unwrap()), "whole_row");
        assert_eq!(fault(mapping.plan(revision("Person", "a", Change::Delete), NOW).unwrap()), "whole_row");
        assert_eq!(mapping.plan(revision("Person", "a", Change::Redaction), NOW).unwrap(), Planned::Skip(Skip::Redacted));
        let mut without_rules = Mapping::new(vec![]).unwrap().with_rows(Rows::Cells);
        assert_eq!(fault(without_rules.plan(put("Person", "a"), NOW).unwrap()), "whole_row");
    }

    #[test]
    fn a_merge_has_a_version_that_an_index_takes_and_a_size_that_a_request_takes() {
        let mut mapping = merging(rule("*", None));
        let mut planned = |change| mapping.plan(revision("T", "1", change), NOW).unwrap();
        assert_eq!(merged(planned(cells_of(None, &[("a", MAX_VERSION, "1")]))).0, MAX_VERSION);
        for change in [cells_of(None, &[("a", MAX_VERSION + 1, "1")]), cells_of(Some(MAX_VERSION + 1), &[])] {
            assert_eq!(fault(planned(change)), "version_out_of_range");
        }
        let large = Bytes::from(format!("\"{}\"", "x".repeat(DOCUMENT_LIMIT)));
        let columns = vec![Cell { name: "a".to_owned(), version: 1, value: large }];
        assert_eq!(fault(planned(Change::Cells(Cells { erased: None, columns }))), "document_too_large");
    }

    #[test]
    fn a_rule_that_needs_the_whole_row_is_refused_where_rows_are_put_together_from_cells() {
        for (rule, problem) in [
            (Rule { filter: Some(Filter::parse("a = 1").unwrap()), ..rule("*", None) }, "where"),
            (Rule { metadata_field: Some("_row".into()), ..rule("*", None) }, "metadata_field"),
            (Rule { fields: Paths::parse(["a.b"]).unwrap(), ..rule("*", None) }, "names"),
            (Rule { exclude: Paths::parse(["a", "a.b"]).unwrap(), ..rule("*", None) }, "names"),
        ] {
            let error = Mapping::new(vec![Rule { rows: Rows::Cells, ..rule.clone() }]).unwrap_err();
            assert!(error.what.contains("rows = \"cells\": ") && error.what.contains(problem), "{}", error.what);
            assert!(Mapping::new(vec![rule]).is_ok());
        }
    }

    #[test]
    fn an_operation_is_no_larger_for_the_merges_that_some_are() {
        assert!(std::mem::size_of::<Operation>() <= std::mem::size_of::<Target>() + 40, "{}", std::mem::size_of::<Operation>());
    }
}
