//! One revision of a document, as a record of a stream has it and as a block of an export has it.
//!
//! Never decides by "empty": only by what is there and what is not.

use ion_rs::Element;

use super::super::choices::{Metadata, Rows};
use super::super::ion_binary::{self, Type, Value};
use super::super::ion_json::write_value;
use super::super::ion_symbols::Symbols;
use super::super::{Content, Decoder, revision_hash};
use super::metadata::MetadataWriter;
use super::{committed, members, present, structure, text_of};
use crate::error::Error;
use crate::memory;
use crate::metrics::{Notes, Skip};
use crate::record::Fault;
use crate::revision::{Change, Document, MAX_VERSION, Revision, VersionType};

pub(super) fn unusable(reason: impl Into<String>) -> Fault {
    Fault::new("unusable_revision", reason)
}

/// Decodes a revision of the table of this name and, where it is told, this id. `element` is the revision as ion-rs reads it.
///
/// # Errors
/// A revision that cannot be used, or whose hash is another than it states.
pub(super) fn decode<'a>(
    decoder: &mut Decoder,
    (table_name, table_id): (&str, Option<Value<'a>>),
    revision: Option<Value<'a>>,
    symbols: &'a Symbols<'_>,
    element: impl FnOnce() -> Option<Element>,
    notes: &mut Notes,
) -> Result<Content, Fault> {
    let table = decoder.table(table_name);
    if table.options.unread {
        return Ok(Content::Skip(Skip::Unmapped));
    }
    if table.options.rows == Rows::Cells && !table.options.unmapped {
        let what = format!("{}: expected rows = \"full\" for a table of QLDB, found \"cells\"", table.name);
        let help = "its revisions carry whole documents; leave rows, or --rows, out";
        return Ok(Content::Refused(Error::usage(what).help(help)));
    }

    let revision = structure(revision).ok_or_else(|| unusable("expected a revision, found none"))?;
    let [data, data_hash, hash, metadata, block_address] =
        members(revision, symbols, ["data", "dataHash", "hash", "metadata", "blockAddress"])?;
    let metadata = structure(metadata).ok_or_else(|| unusable("expected the revision's metadata, found none"))?;
    let [id, version, tx_time, tx_id] = members(metadata, symbols, ["id", "version", "txTime", "txId"])?;
    let id = text_of(id, symbols)?.filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| unusable("expected metadata.id to be a non-empty string, found something else"))?.to_owned();
    let version = version.filter(|v| v.ion_type == Type::PositiveInt && !v.null).and_then(|v| ion_binary::uint(v.body));
    let version = version
        .filter(|version| *version <= MAX_VERSION)
        .ok_or_else(|| unusable(format!("expected metadata.version to be a whole number from 0 to {MAX_VERSION}, found something else")))?;

    let change = if let Some(data) = data.filter(present) {
        let document =
            structure(Some(data)).ok_or_else(|| unusable("expected the revision's data to be a struct, found something else"))?;
        decoder.json.clear();
        // JSON is about as long as Ion; a buffer that grows by doubling would hold twice that for a large document.
        decoder.json.reserve(document.body.len());
        write_value(document, symbols, &table.options.rules, &mut decoder.json, notes)?;
        Change::Put(Document(memory::copy(&decoder.json)))
    } else if data_hash.as_ref().is_some_and(present) {
        Change::Redaction
    } else {
        Change::Delete
    };
    if decoder.options.verify_hashes {
        let stated = |value: Option<Value<'a>>| value.filter(|v| v.ion_type == Type::Blob && !v.null).map(|v| v.body);
        revision_hash::verify(&change, stated(hash), stated(data_hash), element, notes)?;
    }
    let mut writer = MetadataWriter { table: &table, symbols, json: &mut decoder.json, notes };
    let metadata = match table.options.metadata {
        Metadata::None => None,
        Metadata::Field => {
            let values = [("tableId", table_id), ("txId", tx_id), ("txTime", tx_time), ("blockAddress", block_address)];
            Some(writer.field(&id, version, values)?)
        }
        Metadata::History => {
            let values = [("tableId", table_id), ("txId", tx_id), ("txTime", tx_time), ("blockAddress", block_address), ("hash", hash)];
            Some(writer.field(&id, version, values)?)
        }
        Metadata::Committed => Some(writer.committed_view(
            &id,
            version,
            [("blockAddress", block_address), ("hash", hash)],
            [("txTime", tx_time), ("txId", tx_id)],
        )?),
    };
    let committed = tx_time.and_then(committed);
    Ok(Content::Revision(Revision { table: table.name, id, version, version_type: VersionType::External, change, metadata, committed }))
}
