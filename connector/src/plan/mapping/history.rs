//! What a revision becomes in a history: a document of its own, whatever it says.
//!
//! Deletes nothing and replaces one thing only: a put whose revision was redacted since.

use std::sync::Arc;

use super::{LongIds, Planned, Rule, empty_id, too_large, undecodable, usable_id, usable_version};
use crate::codec::ion_json::DOCUMENT_LIMIT;
use crate::operation::{Operation, Target};
use crate::plan::history::{self, Unusable};
use crate::plan::projection::Paths;
use crate::plan::tombstone::FIELD;
use crate::record::Fault;
use crate::revision::{Change, Revision, VersionType};

/// What becomes of a revision, as the rule wants it.
pub(super) fn planned(revision: Revision, index: Arc<str>, rule: Option<&Rule>) -> Result<Planned, Fault> {
    if let Change::Cells(_) = revision.change {
        let reason = "expected whole rows, found a change of some columns, which is no revision of a row; this table needs rows = \"full\"";
        return Err(Fault::new("not_whole_row", reason));
    }
    let all = Paths::default();
    let (fields, exclude) = rule.map_or((&all, &all), |rule| (&rule.fields, &rule.exclude));
    let document = history::document(&revision, fields, exclude).map_err(|unusable| match unusable {
        Unusable::NoJson => undecodable(),
        Unusable::Clash => {
            let reason = format!(
                "expected a document without a member \"{FIELD}\", which a history has for what is known of the revision; exclude = \
                 [\"{FIELD}\"] leaves it out"
            );
            Fault::new("unusable_field", reason)
        }
    })?;
    if document.0.len() > DOCUMENT_LIMIT {
        return Err(too_large(document.0.len()));
    }
    usable_version(revision.version)?;
    Ok(Planned::Operation(Operation::Index { target: target(&revision, index, rule)?, document }))
}

/// The document of a revision. A redaction writes over the put of its own version, and a put that comes later does not write over it.
pub(super) fn target(revision: &Revision, index: Arc<str>, rule: Option<&Rule>) -> Result<Target, Fault> {
    if revision.id.is_empty() {
        return Err(empty_id());
    }
    let routing = rule.and_then(|rule| rule.routing_of(&revision.id, &revision.table));
    let id = usable_id(history::id(&revision.id, revision.version), rule.map_or(LongIds::Reject, |rule| rule.long_ids))?;
    let version_type = if revision.change == Change::Redaction { VersionType::ExternalGte } else { revision.version_type };
    Ok(Target { index, id, version: revision.version, version_type, routing })
}

#[cfg(test)]
mod tests;
