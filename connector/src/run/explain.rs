//! What would be done with a captured stream, and why: one line per unit. Sends and stores nothing.

use serde::Serialize;

use super::intake::{self, read_again};
use super::place::{Place, named};
use crate::codec::{Content, Decoder, Format};
use crate::error::Error;
use crate::metrics::{Notes, Skip};
use crate::operation::Operation;
use crate::plan::mapping::{Mapping, Planned};
use crate::record::{Fault, Record};
use crate::revision::{Block, Cells};
use crate::store::dead_letters::DeadLetter;

/// What would become of one unit.
#[derive(Debug, Serialize)]
pub struct Explained {
    /// Where it was read.
    #[serde(flatten)]
    pub place: Place,
    /// `index`, `delete`, `tombstone`, `merge`, `skip` or `dead_letter`.
    pub action: &'static str,
    /// The table, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The index, where something would be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// The document id, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The version, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Why.
    pub reason: String,
}

impl std::fmt::Display for Explained {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.action.replace('_', " "))?;
        match (&self.index, &self.table, &self.id) {
            (Some(index), _, Some(id)) => write!(f, " {index}/{id}")?,
            (None, Some(table), Some(id)) => write!(f, " {table} {id}")?,
            _ => {}
        }
        if let Some(version) = self.version {
            write!(f, " at version {version}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// Explains every unit of a record.
///
/// # Errors
/// Two tables that come to one index: a run would stop here.
pub fn explain(decoder: &mut Decoder, mapping: &mut Mapping, record: &Record, mut tell: impl FnMut(Explained)) -> Result<(), Error> {
    let mut notes = Notes::default();
    let mut user_records = intake::open(decoder, record);
    while let Some(user_record) = intake::next_user_record(decoder, &mut user_records, record) {
        let mut units = decoder.units(&user_record);
        while let Some((unit, content)) = intake::next_unit(decoder, &mut units, &mut notes) {
            let explained = Explained {
                place: Place::new(record, &user_record, unit),
                action: "skip",
                table: None,
                index: None,
                id: None,
                version: None,
                reason: String::new(),
            };
            tell(judged(explained, user_record.format, content, mapping)?);
        }
    }
    Ok(())
}

/// Explains what would become of a dead letter that is sent again.
///
/// # Errors
/// As [`explain`].
pub fn explain_letter(decoder: &mut Decoder, mapping: &mut Mapping, letter: &DeadLetter) -> Result<Explained, Error> {
    let (format, content) = read_again(decoder, letter, &mut Notes::default());
    let explained = Explained {
        place: Place { origin: named(&letter.origin, &letter.position), position: letter.position.clone(), sub: None, unit: letter.unit },
        action: "skip",
        table: letter.table.clone(),
        index: None,
        id: letter.document_id.clone(),
        version: letter.version,
        reason: String::new(),
    };
    judged(explained, format, content, mapping)
}

fn judged(mut explained: Explained, format: Format, content: Content, mapping: &mut Mapping) -> Result<Explained, Error> {
    let (planned, leaves) = match content {
        Content::Skip(reason) => (Planned::Skip(reason), false),
        Content::Fault(fault) => (Planned::Fault(fault), false),
        Content::Refused(error) => return Err(error),
        Content::Block(block) => return Ok(of_block(explained, block, mapping)),
        Content::Revision(revision) => {
            explained.table = Some(revision.table.to_string());
            explained.id = Some(revision.id.clone());
            explained.version = Some(revision.version);
            intake::plan(mapping, revision)?
        }
    };
    fill(&mut explained, format, planned, leaves);
    Ok(explained)
}

fn of_block(mut explained: Explained, block: Block, mapping: &Mapping) -> Explained {
    explained.version = Some(block.sequence);
    let size = block.summary.0.len();
    fill(&mut explained, Format::Qldb, intake::plan_block(mapping, block), false);
    if explained.index.is_some() {
        explained.reason = format!("a block of the journal, {size} bytes as JSON");
    }
    explained
}

/// `leaves`: the revision does not match the rule's WHERE.
fn fill(explained: &mut Explained, format: Format, planned: Planned, leaves: bool) {
    let rows = matches!(format, Format::Lindorm | Format::Debezium);
    match planned {
        Planned::Skip(reason) if leaves => {
            explained.reason = format!("{}, does not match where, and the rule keeps what was deleted", reason.as_str());
        }
        Planned::Skip(reason) => explained.reason = format!("{}, {}", reason.as_str(), why(reason)),
        Planned::Fault(Fault { kind, reason }) => {
            explained.action = "dead_letter";
            explained.reason = format!("{kind}, {reason}");
        }
        Planned::Operation(operation) => {
            explained.action = operation.action();
            let target = operation.target();
            explained.index = Some(target.index.to_string());
            explained.id = Some(target.id.clone());
            explained.reason = match &operation {
                Operation::Merge { cells, .. } => merged(cells),
                Operation::Index { document, .. } if rows => format!("the row as it is now, {} bytes as JSON", document.0.len()),
                Operation::Index { document, .. } => format!("data is present, {} bytes as JSON", document.0.len()),
                Operation::Delete { .. } | Operation::Tombstone { .. } if leaves => "does not match where".to_owned(),
                Operation::Delete { .. } | Operation::Tombstone { .. } if rows => "the row was deleted, or its key changed".to_owned(),
                Operation::Delete { .. } | Operation::Tombstone { .. } => "neither data nor dataHash is present".to_owned(),
            };
        }
    }
}

/// What a merge does, in words.
fn merged(cells: &Cells) -> String {
    let columns = match cells.columns.len() {
        1 => "one cell".to_owned(),
        count => format!("{count} cells"),
    };
    match (cells.columns.is_empty(), cells.erased) {
        (_, None) => format!("{columns}, each by its own version"),
        (true, Some(erased)) => format!("erases the row's cells up to version {erased}"),
        (false, Some(erased)) => format!("{columns}, each by its own version, and erases the row's others up to version {erased}"),
    }
}

/// A skip's reason in words.
pub fn why(reason: Skip) -> &'static str {
    match reason {
        Skip::Control => "a control record of the stream",
        Skip::BlockSummary => "the journal's own bookkeeping; --journal gives it an index of its own",
        Skip::Filtered => "a delete, and the rule keeps what was deleted",
        Skip::Redacted => "the content of this revision was removed, a newer revision holds the document's state",
        Skip::Unmapped => "there are rules, and none of them is for this table",
        Skip::NoChange => "there is nothing to write",
    }
}
