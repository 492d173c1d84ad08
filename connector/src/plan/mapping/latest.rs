//! What a revision becomes in an index of the newest revisions: the document, a delete or a tombstone, a merge of cells, or nothing.
//!
//! Decides, and knows the rule of one table.

use std::sync::Arc;

use super::{Deletes, LongIds, Planned, Redactions, Rule, too_large, undecodable, usable_id, usable_version};
use crate::codec::Rows;
use crate::codec::ion_json::DOCUMENT_LIMIT;
use crate::memory;
use crate::metrics::Skip;
use crate::operation::{Operation, Target};
use crate::plan::cells;
use crate::plan::history;
use crate::plan::projection::project;
use crate::plan::tombstone::FIELD;
use crate::record::Fault;
use crate::revision::{Cell, Cells, Change, Document, Revision, VersionType};

/// What a revision comes to in its index.
enum State {
    Document(Document),
    Merged(Cells),
    Gone,
}

/// What becomes of a revision of an index, as the rule wants it. `rows` is what a put carries.
pub(super) fn planned(revision: Revision, index: Arc<str>, rule: Option<&Rule>, rows: Rows, now: u64) -> Result<Planned, Fault> {
    let deletes = rule.map_or_else(Deletes::default, |r| r.deletes);
    let mut version_type = revision.version_type;
    let state = match revision.change {
        Change::Redaction if rule.is_none_or(|rule| rule.redactions == Redactions::Skip) => return Ok(Planned::Skip(Skip::Redacted)),
        Change::Redaction => {
            // The content that it covers has the same version.
            version_type = VersionType::ExternalGte;
            State::Gone
        }
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
    let version = usable_version(if let State::Merged(cells) = &state { cells::version(cells) } else { revision.version })?;
    let target = target(&revision.table, revision.id, index, rule, version, version_type)?;
    Ok(Planned::Operation(match state {
        State::Document(document) => Operation::Index { target, document },
        State::Merged(cells) => Operation::Merge { target, cells: Arc::new(cells), time: now },
        State::Gone if deletes == Deletes::Tombstone => Operation::Tombstone { target, time: now },
        State::Gone => Operation::Delete { target },
    }))
}

pub(super) fn target(
    table: &str,
    id: String,
    index: Arc<str>,
    rule: Option<&Rule>,
    version: u64,
    version_type: VersionType,
) -> Result<Target, Fault> {
    let routing = rule.and_then(|rule| rule.routing_of(&id, table));
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

/// The document as the rule wants it: fields chosen, metadata added, within the size that any request could carry.
fn shape(document: Document, metadata: Option<&Document>, rule: Option<&Rule>) -> Result<Document, Fault> {
    let Some(rule) = rule else { return Ok(document) };
    let field = rule.metadata_field.as_deref().zip(metadata);
    if rule.fields.is_empty() && rule.exclude.is_empty() && field.is_none() {
        return Ok(document);
    }
    let mut out = Vec::with_capacity(document.0.len() + metadata.map_or(0, |m| m.0.len() + 32));
    let field = field.map(|(name, value)| (name, history::without_hash(value)));
    project(document.as_bytes(), &rule.fields, &rule.exclude, field.as_ref().map(|(name, value)| (*name, &**value)), &mut out)
        .ok_or_else(undecodable)?;
    if out.len() > DOCUMENT_LIMIT {
        return Err(too_large(out.len()));
    }
    // What is left may be a small part of what there was room for.
    Ok(Document(memory::copy(&out)))
}
