//! What would be done with a captured stream, and why: one line per unit, and so two for a revision that goes to an index of each mode. Sends and stores nothing.

use std::sync::Arc;

use serde::Serialize;

use super::intake::{self, has_no_index, read_again, stands_for_the_rest};
use super::place::{Place, named};
use crate::codec::{Content, Decoder, Format};
use crate::error::Error;
use crate::metrics::{Notes, Skip};
use crate::operation::Operation;
use crate::plan::mapping::{Mapping, Mode, Plan, Planned};
use crate::record::{Fault, Record};
use crate::revision::{Block, Cells, Change};
use crate::store::dead_letters::DeadLetter;

/// What would become of one unit.
#[derive(Debug, Clone, Serialize)]
pub struct Explained {
    /// Where it was read.
    #[serde(flatten)]
    pub place: Place,
    /// `index`, `delete`, `tombstone`, `merge`, `skip` or `dead_letter`; of a dead letter also `stay`, where it would not be sent.
    pub action: &'static str,
    /// The table, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// What the index is of the table's revisions, where that is a history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
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
                mode: None,
                index: None,
                id: None,
                version: None,
                reason: String::new(),
            };
            judged(explained, user_record.format, content, mapping, None, &mut tell)?;
        }
    }
    Ok(())
}

/// Explains what would become of a dead letter that is sent again: of its unit, or of all that it stands for.
///
/// # Errors
/// As [`explain`].
pub fn explain_letter(
    decoder: &mut Decoder,
    mapping: &mut Mapping,
    letter: &DeadLetter,
    mut tell: impl FnMut(Explained),
) -> Result<(), Error> {
    let explained = Explained {
        place: Place { origin: named(&letter.origin, &letter.position), position: letter.position.clone(), sub: None, unit: letter.unit },
        action: "skip",
        table: letter.table.clone(),
        mode: letter.mode.filter(|mode| *mode == Mode::History),
        index: None,
        id: letter.document_id.clone(),
        version: letter.version,
        reason: String::new(),
    };
    if stands_for_the_rest(letter) {
        return explain_the_rest(decoder, mapping, letter, &explained, tell);
    }
    let (format, content) = read_again(decoder, letter, &mut Notes::default());
    if has_no_index(mapping, letter, &content)? {
        tell(Explained { action: "stay", reason: "there is no index of the journal or of a history for it".to_owned(), ..explained });
        return Ok(());
    }
    judged(explained, format, content, mapping, letter.mode, &mut tell)
}

/// Explains every unit of a letter's payload from the letter's own on.
fn explain_the_rest(
    decoder: &mut Decoder,
    mapping: &mut Mapping,
    letter: &DeadLetter,
    explained: &Explained,
    mut tell: impl FnMut(Explained),
) -> Result<(), Error> {
    let user_record = decoder.open_payload(&letter.payload, letter.message.clone().map(Arc::new));
    let (mut units, mut notes, mut passed) = (decoder.units(&user_record), Notes::default(), letter.part);
    let mut explained = explained.clone();
    while let Some((_, content)) = intake::next_unit(decoder, &mut units, &mut notes) {
        if passed > 0 {
            passed -= 1;
            continue;
        }
        judged(explained.clone(), user_record.format, content, mapping, None, &mut tell)?;
        explained.place.unit += 1;
    }
    Ok(())
}

/// Tells what becomes of a unit; of a revision what becomes of it in each mode, or in the one that is given.
fn judged(
    mut explained: Explained,
    format: Format,
    content: Content,
    mapping: &mut Mapping,
    only: Option<Mode>,
    tell: &mut impl FnMut(Explained),
) -> Result<(), Error> {
    let planned = match content {
        Content::Skip(reason) => Planned::Skip(reason),
        Content::Fault(fault) => Planned::Fault(fault),
        Content::Refused(error) => return Err(error),
        Content::Block(block) => {
            tell(of_block(explained, block, mapping));
            return Ok(());
        }
        Content::Revision(revision) => {
            explained.table = Some(revision.table.to_string());
            explained.id = Some(revision.id.clone());
            explained.version = Some(revision.version);
            let change = Was::of(&revision.change);
            for Plan { mode, planned, leaves } in intake::plan(mapping, revision, only)? {
                let mut explained = Explained { mode: mode.filter(|mode| *mode == Mode::History), ..explained.clone() };
                fill(&mut explained, format, planned, change, leaves);
                tell(explained);
            }
            return Ok(());
        }
    };
    fill(&mut explained, format, planned, Was::Put, false);
    tell(explained);
    Ok(())
}

/// What a revision was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Was {
    Put,
    Delete,
    Redaction,
}

impl Was {
    fn of(change: &Change) -> Self {
        match change {
            Change::Put(_) | Change::Cells(_) => Self::Put,
            Change::Delete => Self::Delete,
            Change::Redaction => Self::Redaction,
        }
    }
}

fn of_block(mut explained: Explained, block: Block, mapping: &Mapping) -> Explained {
    explained.version = Some(block.sequence);
    let size = block.summary.0.len();
    fill(&mut explained, Format::Qldb, intake::plan_block(mapping, block), Was::Put, false);
    if explained.index.is_some() {
        explained.reason = format!("a block of the journal, {size} bytes as JSON");
    }
    explained
}

/// `leaves`: the revision does not match the rule's WHERE.
fn fill(explained: &mut Explained, format: Format, planned: Planned, was: Was, leaves: bool) {
    let rows = matches!(format, Format::Lindorm | Format::Debezium);
    let is_history = explained.mode.is_some();
    match planned {
        Planned::Skip(reason) if leaves && is_history => explained.reason = format!("{}, does not match where", reason.as_str()),
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
                Operation::Index { .. } if is_history && was == Was::Delete => "the delete, as a document of the history".to_owned(),
                Operation::Index { .. } if is_history && was == Was::Redaction => {
                    "the content of this revision was removed, and so it is from the history".to_owned()
                }
                Operation::Index { document, .. } if is_history => {
                    format!("this revision, as a document of the history, {} bytes as JSON", document.0.len())
                }
                Operation::Index { document, .. } if rows => format!("the row as it is now, {} bytes as JSON", document.0.len()),
                Operation::Index { document, .. } => format!("data is present, {} bytes as JSON", document.0.len()),
                Operation::Delete { .. } | Operation::Tombstone { .. } if leaves => "does not match where".to_owned(),
                Operation::Delete { .. } | Operation::Tombstone { .. } if was == Was::Redaction => {
                    "the content of this revision was removed, and the rule erases it".to_owned()
                }
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
