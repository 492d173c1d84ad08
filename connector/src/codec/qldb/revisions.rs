//! The revisions of a block of a journal export, one after another, and the tables that they are of.
//!
//! A block says of its documents which table they are in (`transactionInfo.documents`), and of a revision no table. A revision without metadata
//! is one of the ledger's own, of no document. Never keeps a revision, only where the next one begins.

use std::ops::Range;
use std::sync::Arc;

use super::super::ion_binary::{self, Bytes, Reader, Type, Value};
use super::super::ion_json::MAX_FIELDS;
use super::super::ion_symbols::{Known, Symbols};
use super::super::{Content, Decoder, revision_hash};
use super::revision::{self, unusable};
use super::{members, present, structure, text_of};
use crate::metrics::{Notes, Skip};
use crate::record::Fault;

/// What is left of a block's revisions. All places are those of the record's bytes.
pub(in crate::codec) struct Revisions {
    rest: Range<usize>,
    /// Why there is no list to read, which is said once.
    fault: Option<Fault>,
    /// The documents by the text of their ids: symbol, and the struct of its table.
    documents: Vec<(u64, Range<usize>)>,
    /// The marker and the tables that a revision needs to be read by itself; empty where no hash is checked.
    context: Vec<u8>,
}

/// The place of a part in the bytes that it is a part of.
fn place(whole: &[u8], part: &[u8]) -> Range<usize> {
    let begin = part.as_ptr().addr().saturating_sub(whole.as_ptr().addr());
    begin..begin + part.len()
}

impl Revisions {
    /// The revisions of the block that the reader has read last, of these bytes.
    ///
    /// # Errors
    /// Damage, and more documents than a block may have.
    pub(super) fn new(block: Value<'_>, reader: &Reader<'_>, bytes: &[u8]) -> Result<Self, Fault> {
        let symbols = reader.symbols();
        let [revisions, info] = members(block, symbols, ["revisions", "transactionInfo"])?;
        let (rest, fault) = match revisions.filter(present) {
            Some(list) if list.ion_type == Type::List => (place(bytes, list.body), None),
            None => (0..0, None),
            Some(_) => (0..0, Some(unusable("expected revisions to be a list, found something else"))),
        };
        let mut documents = Vec::new();
        let of_block = match structure(info) {
            Some(info) => structure(members(info, symbols, ["documents"])?[0]),
            None => None,
        };
        for field in of_block.into_iter().flat_map(ion_binary::fields) {
            let (id, document) = field?;
            ion_binary::field_name(id, symbols)?;
            if documents.len() == MAX_FIELDS {
                let reason = format!("expected a block of at most {MAX_FIELDS} documents, found more");
                return Err(Fault::new("too_many_values", reason));
            }
            documents.push((id, structure(Some(document)).map_or(0..0, |document| place(bytes, document.body))));
        }
        // Stable, so that of a repeated one the last stays the last.
        documents.sort_by(|(a, _), (b, _)| symbols.text(*a).cmp(&symbols.text(*b)));
        Ok(Self { rest, fault, documents, context: reader.context() })
    }

    /// The next revision, of the same bytes and the symbols that the block was written with.
    pub(super) fn next(
        &mut self,
        bytes: &[u8],
        symbols: &Symbols<'_>,
        decoder: &mut Decoder,
        notes: &mut Notes,
    ) -> Option<Result<Content, Fault>> {
        if let Some(fault) = self.fault.take() {
            return Some(Err(fault));
        }
        let mut rest = Bytes(&bytes[self.rest.clone()]);
        let item = ion_binary::next_item(&mut rest);
        self.rest = match item {
            Ok(_) => self.rest.end - rest.0.len()..self.rest.end,
            Err(_) => 0..0,
        };
        Some(item.transpose()?.and_then(|(value, whole)| self.revision(value, whole, bytes, symbols, decoder, notes)))
    }

    fn revision(
        &self,
        value: Value<'_>,
        whole: &[u8],
        bytes: &[u8],
        symbols: &Symbols<'_>,
        decoder: &mut Decoder,
        notes: &mut Notes,
    ) -> Result<Content, Fault> {
        let revision =
            structure(Some(value)).ok_or_else(|| unusable("expected a revision of the block to be a struct, found something else"))?;
        let [metadata] = members(revision, symbols, ["metadata"])?;
        let Some(metadata) = metadata.filter(present) else { return Ok(Content::Skip(Skip::NoChange)) };
        let metadata =
            structure(Some(metadata)).ok_or_else(|| unusable("expected the revision's metadata to be a struct, found something else"))?;
        let [id] = members(metadata, symbols, ["id"])?;
        let id = text_of(id, symbols)?.filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| unusable("expected metadata.id to be a non-empty string, found something else"))?;
        let missing =
            || unusable("expected the table of the revision in transactionInfo.documents of its block, by its document id; found none");
        let behind = self.documents.partition_point(|(other, _)| symbols.text(*other) <= Some(id));
        let document = behind.checked_sub(1).map(|at| &self.documents[at]).filter(|(other, _)| symbols.text(*other) == Some(id));
        let body = &bytes[document.ok_or_else(missing)?.1.clone()];
        let document = Value { ion_type: Type::Struct, null: false, annotations: 0, body };
        let [table_name, table_id] = members(document, symbols, ["tableName", "tableId"])?;
        let name = text_of(table_name, symbols)?.filter(|name| !name.is_empty()).ok_or_else(missing)?;
        let element = || revision_hash::element(&[&self.context, whole].concat(), value, &[]);
        revision::decode(decoder, (name, table_id), Some(revision), symbols, element, notes)
    }
}

/// The same with the bytes and symbols, of a text that is Ion binary for as long as one value is read.
pub(in crate::codec) struct Apart {
    revisions: Revisions,
    bytes: Vec<u8>,
    known: Arc<Known>,
}

/// The symbols of a block, for as long as its revisions are read.
///
/// # Errors
/// Texts that are too long to be kept.
pub(super) fn known(symbols: &Symbols<'_>) -> Result<Arc<Known>, Fault> {
    Known::new(symbols).map(Arc::new).ok_or_else(|| Fault::new("too_many_values", "expected symbols of less than 4 GiB, found more"))
}

impl Apart {
    pub(super) fn new(revisions: Revisions, known: Arc<Known>, bytes: Vec<u8>) -> Self {
        Self { revisions, bytes, known }
    }

    pub(super) fn next(&mut self, decoder: &mut Decoder, notes: &mut Notes) -> Option<Result<Content, Fault>> {
        self.revisions.next(&self.bytes, &Symbols::known(Arc::clone(&self.known)), decoder, notes)
    }
}

#[cfg(test)]
mod tests;
