//! Revision to operations, by the rules: index, id, version, document, or why there is none.
//!
//! Of each mode the first rule that fits a table counts: a revision has one plan for the newest revisions, and one for the history where the
//! table has a rule of both modes. Index, id and routing depend on table and key only, so that every revision of a document meets in one place.
//! `rule` says what a rule is, `destination` where a table goes, `latest` and `history` what a revision becomes there.

mod destination;
mod history;
mod latest;
mod rule;

use std::sync::Arc;

use sha2::{Digest, Sha256};

pub use self::destination::{Destination, Destinations};
pub use self::rule::{Deletes, LongIds, Mode, Redactions, Rule};

use self::destination::{Place, Tables};
use super::deletes::IndexDeletes;
use super::names::index_name_problem;
use crate::codec::Rows;
use crate::codec::ion_json::DOCUMENT_LIMIT;
use crate::error::Error;
use crate::metrics::Skip;
use crate::operation::{Operation, Target};
use crate::record::Fault;
use crate::revision::{Block, Change, MAX_VERSION, Revision, VersionType};

/// Bytes of UTF-8 that an `_id` may have (`IndexRequest.validate`).
pub const MAX_ID: usize = 512;

/// What a person can do where revisions and blocks of the journal come to one index.
const JOURNAL_HELP: &str = "name another index for one of them in the configuration ([journal] index = …, [[table]] index = …)";

/// What becomes of one revision in one index.
#[derive(Debug, Clone, PartialEq)]
pub enum Planned {
    /// This is sent.
    Operation(Operation),
    /// Nothing is sent, for a reason.
    Skip(Skip),
    /// It can never be sent.
    Fault(Fault),
}

/// What becomes of one revision in one mode: a unit of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What the index is of the table's revisions; `None` where the plan is for all that there is of the table.
    pub mode: Option<Mode>,
    /// What becomes of it.
    pub planned: Planned,
    /// Whether the revision is a put that does not match the rule's filter.
    pub leaves: bool,
}

/// The plans of one revision, the newest revisions first; at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Plans {
    /// That of the newest revisions, or the only one.
    pub first: Plan,
    /// That of the history, where the table has a rule of both modes.
    pub second: Option<Plan>,
}

impl IntoIterator for Plans {
    type Item = Plan;
    type IntoIter = std::iter::Chain<std::iter::Once<Plan>, std::option::IntoIter<Plan>>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self.first).chain(self.second)
    }
}

/// The rules, and which tables were seen under them.
#[derive(Debug, Clone, Default)]
pub struct Mapping {
    rules: Vec<Rule>,
    /// Without rules, what a put of a row carries.
    rows: Rows,
    /// The index of the journal's blocks, where there is one.
    journal: Option<Arc<str>>,
    tables: Tables,
}

impl Mapping {
    /// A mapping by these rules; without any, every table goes to the index of its default name.
    ///
    /// # Errors
    /// A rule that names no index that OpenSearch could have, makes index or routing depend on more than table and key, or asks for what its mode
    /// does not have; an index that would be that of a history and of newest revisions.
    pub fn new(rules: Vec<Rule>) -> Result<Self, Error> {
        for rule in &rules {
            if let Some(problem) = rule.problem() {
                return Err(Error::usage(format!("rule for table \"{}\": {problem}", rule.name)));
            }
        }
        let mapping = Self { rules, ..Self::default() };
        if let Some(index) = mapping.deletes().of_both_modes() {
            let what = format!("the index \"{index}\" would be that of a history, and that of newest revisions");
            return Err(Error::usage(what).help("name another index for one of them in the configuration ([[table]] index = …)"));
        }
        Ok(mapping)
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
    /// A name that no index of OpenSearch can have, and one that a rule names for its tables.
    pub fn with_journal(mut self, index: Option<&str>) -> Result<Self, Error> {
        if let Some(problem) = index.and_then(index_name_problem) {
            return Err(Error::usage(format!("journal: index: {problem}")));
        }
        if let Some(index) = index.filter(|index| self.named_indices().iter().any(|named| named == index)) {
            return Err(Error::usage(format!("a rule and the journal both name the index \"{index}\"")).help(JOURNAL_HELP));
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

    /// Where the revisions of a table go.
    ///
    /// # Errors
    /// Two tables that come to one index without a rule that says so, or an index that is a history and not one: going on would mix documents.
    pub fn destinations(&mut self, table: &Arc<str>) -> Result<Destinations, Error> {
        let (rules, rows) = (&self.rules, self.rows);
        self.tables.destinations(table, rules, self.journal.as_ref(), || IndexDeletes::of(rules, rows))
    }

    /// Decides about one revision. `now` is the time that a tombstone bears, in milliseconds since 1970 (UTC).
    ///
    /// # Errors
    /// As for [`destinations`](Self::destinations).
    pub fn plan(&mut self, revision: Revision, now: u64) -> Result<Plans, Error> {
        let Destinations { first, second } = self.destinations(&revision.table)?;
        let second = second.map(|second| self.plan_at(second, revision.clone(), now));
        Ok(Plans { first: self.plan_at(first, revision, now), second })
    }

    /// Decides about one revision in one of the destinations of its table.
    pub fn plan_at(&self, destination: Destination, revision: Revision, now: u64) -> Plan {
        let Destination { mode, place } = destination;
        let (planned, leaves) = match place {
            Place::Unmapped => (Planned::Skip(Skip::Unmapped), false),
            Place::Unnamable(fault) => (Planned::Fault(fault), false),
            Place::Index { name, rule } => {
                let rule = rule.and_then(|at| self.rules.get(at));
                match (leaves(&revision.change, rule), mode) {
                    (Err(fault), _) => (Planned::Fault(fault), false),
                    (Ok(leaves), Mode::Latest) => {
                        // An earlier revision may have matched.
                        let revision = if leaves { Revision { change: Change::Delete, ..revision } } else { revision };
                        let rows = rule.map_or(self.rows, |rule| rule.rows);
                        (latest::planned(revision, name, rule, rows, now).unwrap_or_else(Planned::Fault), leaves)
                    }
                    (Ok(true), Mode::History) => (Planned::Skip(Skip::Filtered), true),
                    (Ok(false), Mode::History) => (history::planned(revision, name, rule).unwrap_or_else(Planned::Fault), false),
                }
            }
        };
        Plan { mode: Some(mode), planned, leaves }
    }

    /// The document that a revision is about in one of the destinations of its table, whatever is to be done with it; `None` where it has no place in
    /// any index.
    pub fn target_at(&self, destination: Destination, revision: &Revision) -> Option<Target> {
        let Destination { mode, place: Place::Index { name, rule } } = destination else { return None };
        let rule = rule.and_then(|at| self.rules.get(at));
        match mode {
            Mode::Latest => latest::target(&revision.table, revision.id.clone(), name, rule, revision.version, revision.version_type).ok(),
            Mode::History => history::target(revision, name, rule).ok(),
        }
    }

    /// Whether a redaction leaves no content in a destination.
    pub fn erases(&self, destination: &Destination) -> bool {
        let Place::Index { rule: Some(rule), .. } = destination.place else { return false };
        self.rules.get(rule).is_some_and(|rule| rule.redactions == Redactions::Erase)
    }

    /// The indices that rules name, whatever tables there are.
    pub fn named_indices(&self) -> Vec<String> {
        self.deletes().named()
    }
}

fn too_large(size: usize) -> Fault {
    Fault::new("document_too_large", format!("expected a document of at most {DOCUMENT_LIMIT} bytes, found {size}"))
}

fn usable_id(id: String, long_ids: LongIds) -> Result<String, Fault> {
    match id.len() {
        0 => Err(empty_id()),
        1..=MAX_ID => Ok(id),
        _ if long_ids == LongIds::Hash => Ok(format!("sha256:{}", hex::encode(Sha256::digest(id.as_bytes())))),
        length => Err(Fault::new(
            "id_too_long",
            format!("expected a document id of at most {MAX_ID} bytes, found one of {length}; a rule with long_ids = \"hash\" takes it"),
        )),
    }
}

fn empty_id() -> Fault {
    Fault::new("empty_id", "expected a document id, found an empty one")
}

fn usable_version(version: u64) -> Result<u64, Fault> {
    if version > MAX_VERSION {
        return Err(Fault::new("version_out_of_range", format!("expected a version of at most {MAX_VERSION}, found {version}")));
    }
    Ok(version)
}

/// Whether a put does not match the rule's filter, which sees the document as the source has it.
fn leaves(change: &Change, rule: Option<&Rule>) -> Result<bool, Fault> {
    let (Change::Put(document), Some(filter)) = (change, rule.and_then(|rule| rule.filter.as_ref())) else { return Ok(false) };
    filter.matches(document.as_bytes()).map(|matches| !matches).ok_or_else(undecodable)
}

fn undecodable() -> Fault {
    Fault::new("undecodable", "expected the document to be JSON, found something else")
}

#[cfg(test)]
mod tests;
