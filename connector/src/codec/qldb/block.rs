//! A block of the journal as one document: what happened in a transaction (QLDB developer guide, "Block summary records" and "Journal contents in
//! Amazon QLDB").
//!
//! A BLOCK_SUMMARY of a stream and a block of an export give the same document to the last byte: what only one of them has is not in it, and what
//! neither orders is sorted by its text. What the block lacks, a null, and a list of nothing are left out. Documents are a list, never an object by
//! ids, each of which would become a field of the index. Never writes the text of a statement that was not asked for, never a document's data.

use std::collections::BTreeSet;

use super::super::choices::Journal;
use super::super::ion_binary::{self, Type, Value};
use super::super::ion_json::{DOCUMENT_LIMIT, MAX_FIELDS, Rules, check_room, write_string, write_value};
use super::super::ion_symbols::Symbols;
use super::super::{Content, Decoder};
use super::{committed, members, present, structure, text_of};
use crate::memory;
use crate::metrics::{Notes, Skip};
use crate::record::Fault;
use crate::revision::{Block, Document, MAX_VERSION};

/// Whether a struct without a recordType is a block.
pub(super) fn is_block(value: Value<'_>, symbols: &Symbols<'_>) -> Result<bool, Fault> {
    let found = members(value, symbols, ["blockAddress", "transactionId"])?;
    Ok(found.iter().all(Option::is_some))
}

/// Decodes a block of either kind.
///
/// # Errors
/// A block without a place in its strand, a member of another type than it has, and more than a document may hold.
pub(super) fn decode(decoder: &mut Decoder, block: Value<'_>, symbols: &Symbols<'_>, notes: &mut Notes) -> Result<Content, Fault> {
    let Some(Journal { statements }) = decoder.options.journal else { return Ok(Content::Skip(Skip::BlockSummary)) };
    let [address, transaction, timestamp, block_hash, entries_hash, previous_hash, entries, info, redactions] = members(
        block,
        symbols,
        [
            "blockAddress",
            "transactionId",
            "blockTimestamp",
            "blockHash",
            "entriesHash",
            "previousBlockHash",
            "entriesHashList",
            "transactionInfo",
            "redactionInfo",
        ],
    )?;
    let address = structure(address).ok_or_else(|| unusable("expected blockAddress, found none"))?;
    let [strand, sequence] = members(address, symbols, ["strandId", "sequenceNo"])?;
    let strand = text_of(strand, symbols)?.filter(|strand| !strand.is_empty());
    let strand = strand.ok_or_else(|| unusable("expected blockAddress.strandId to be a non-empty string, found something else"))?;
    let sequence = sequence.filter(|v| v.ion_type == Type::PositiveInt && !v.null).and_then(|v| ion_binary::uint(v.body));
    let sequence = sequence.filter(|sequence| *sequence <= MAX_VERSION).ok_or_else(|| {
        unusable(format!("expected blockAddress.sequenceNo to be a whole number from 0 to {MAX_VERSION}, found something else"))
    })?;

    decoder.json.clear();
    let mut summary = Summary { symbols, rules: Rules::default(), json: &mut decoder.json, notes };
    summary.json.push(b'{');
    summary.text("strandId", strand)?;
    summary.number("sequenceNo", sequence);
    for (name, value, kind) in [
        ("transactionId", transaction, Kind::Text),
        ("blockTimestamp", timestamp, Kind::Time),
        ("blockHash", block_hash, Kind::Hash),
        ("entriesHash", entries_hash, Kind::Hash),
        ("previousBlockHash", previous_hash, Kind::Hash),
    ] {
        summary.member(name, value, kind)?;
    }
    if let Some(list) = list("entriesHashList", entries)? {
        summary.list("entriesHashList", list, |summary, hash| summary.value("an entry of entriesHashList", hash, Kind::Hash))?;
    }
    summary.transaction(info, statements)?;
    summary.revisions(block)?;
    let redactions = match structure(redactions) {
        Some(info) => members(info, symbols, ["revisions"])?[0],
        None => None,
    };
    if let Some(list) = list("redactionInfo.revisions", redactions)? {
        summary
            .list("redactions", list, |summary, redaction| summary.value("an entry of redactionInfo.revisions", redaction, Kind::Struct))?;
    }
    summary.json.push(b'}');
    summary.room_for(0)?;
    Ok(Content::Block(Block {
        strand: strand.to_owned(),
        sequence,
        summary: Document(memory::copy(summary.json)),
        committed: timestamp.and_then(committed),
    }))
}

fn unusable(reason: impl Into<String>) -> Fault {
    Fault::new("unusable_block", reason)
}

/// A list, where it is there and holds anything.
fn list<'a>(name: &str, value: Option<Value<'a>>) -> Result<Option<Value<'a>>, Fault> {
    match value.filter(present) {
        Some(list) if list.ion_type != Type::List => Err(unusable(format!("expected {name} to be a list, found something else"))),
        list => Ok(list.filter(|list| !list.body.is_empty())),
    }
}

/// What a member is. JSON has texts for hashes and times.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Time,
    Hash,
    Struct,
}

impl Kind {
    fn fits(self, value: Value<'_>) -> bool {
        let text = matches!(value.ion_type, Type::String | Type::Symbol);
        present(&value)
            && match self {
                Self::Text => text,
                Self::Time => text || value.ion_type == Type::Timestamp,
                Self::Hash => text || value.ion_type == Type::Blob,
                Self::Struct => value.ion_type == Type::Struct,
            }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Time => "a timestamp",
            Self::Hash => "a hash",
            Self::Struct => "a struct",
        }
    }
}

/// A document that a transaction touched.
struct Touched<'a> {
    id: &'a str,
    table_name: Option<&'a str>,
    table_id: Option<Value<'a>>,
    /// The places of the statements that touched it, in their order.
    statements: Vec<u64>,
}

/// The document that is being written.
struct Summary<'w, 'a> {
    symbols: &'a Symbols<'a>,
    rules: Rules,
    json: &'w mut Vec<u8>,
    notes: &'w mut Notes,
}

impl<'a> Summary<'_, 'a> {
    /// The statements, the documents and the tables of a transaction.
    fn transaction(&mut self, info: Option<Value<'a>>, with_text: bool) -> Result<(), Fault> {
        let Some(info) = structure(info) else { return Ok(()) };
        let [statements, documents] = members(info, self.symbols, ["statements", "documents"])?;
        let touched = touched(documents, self.symbols)?;
        let mut of_statement: Vec<(u64, &str)> =
            touched.iter().flat_map(|document| document.statements.iter().map(|statement| (*statement, document.id))).collect();
        // Stable: of one statement the documents stay in their order.
        of_statement.sort_by_key(|(statement, _)| *statement);
        if let Some(statements) = list("transactionInfo.statements", statements)? {
            let (mut at, mut rest) = (0, of_statement.as_slice());
            self.list("statements", statements, |summary, statement| {
                let (documents, behind) = rest.split_at(rest.partition_point(|(of, _)| *of <= at));
                (at, rest) = (at + 1, behind);
                summary.statement(statement, with_text, documents)
            })?;
        }
        if touched.is_empty() {
            return Ok(());
        }
        self.texts("documents", touched.iter(), |summary, document| summary.document(document))?;
        let tables: BTreeSet<&str> = touched.iter().filter_map(|document| document.table_name).collect();
        if !tables.is_empty() {
            self.texts("tables", tables.into_iter(), |summary, table| summary.string(table))?;
        }
        Ok(())
    }

    fn statement(&mut self, statement: Value<'a>, with_text: bool, documents: &[(u64, &str)]) -> Result<(), Fault> {
        let statement = structure(Some(statement)).ok_or_else(|| unusable("expected a statement to be a struct, found something else"))?;
        let [text, start, digest] = members(statement, self.symbols, ["statement", "startTime", "statementDigest"])?;
        self.json.push(b'{');
        if with_text {
            self.member("statement", text, Kind::Text)?;
        }
        self.member("startTime", start, Kind::Time)?;
        self.member("statementDigest", digest, Kind::Hash)?;
        if !documents.is_empty() {
            self.texts("documents", documents.iter(), |summary, (_, id)| summary.string(id))?;
        }
        self.json.push(b'}');
        Ok(())
    }

    fn document(&mut self, document: &Touched<'a>) -> Result<(), Fault> {
        self.json.push(b'{');
        self.text("documentId", document.id)?;
        if let Some(name) = document.table_name {
            self.text("tableName", name)?;
        }
        self.member("tableId", document.table_id, Kind::Text)?;
        if !document.statements.is_empty() {
            self.texts("statements", document.statements.iter(), |summary, place| {
                summary.json.extend_from_slice(itoa::Buffer::new().format(*place).as_bytes());
                Ok(())
            })?;
        }
        self.json.push(b'}');
        Ok(())
    }

    /// The revisions by their hashes: an export has them whole, a stream has a summary of each. One that cannot be used keeps its place, and is a
    /// fault of its own.
    fn revisions(&mut self, block: Value<'a>) -> Result<(), Fault> {
        let [whole, summaries] = members(block, self.symbols, ["revisions", "revisionSummaries"])?;
        let usable = |value: &Value<'a>| present(value) && value.ion_type == Type::List && !value.body.is_empty();
        let Some(revisions) = whole.filter(usable).or(summaries.filter(usable)) else { return Ok(()) };
        self.list("revisions", revisions, |summary, revision| {
            summary.json.push(b'{');
            if let Some(revision) = structure(Some(revision)) {
                let [hash, id, metadata] = members(revision, summary.symbols, ["hash", "documentId", "metadata"])?;
                let id = match structure(metadata) {
                    Some(metadata) => members(metadata, summary.symbols, ["id"])?[0],
                    None => id,
                };
                summary.member("hash", hash.filter(|hash| Kind::Hash.fits(*hash)), Kind::Hash)?;
                summary.member("documentId", id.filter(|id| Kind::Text.fits(*id)), Kind::Text)?;
            }
            summary.json.push(b'}');
            Ok(())
        })
    }

    /// A list under a name, each of its items written by `write`.
    fn list(&mut self, name: &str, list: Value<'a>, mut write: impl FnMut(&mut Self, Value<'a>) -> Result<(), Fault>) -> Result<(), Fault> {
        self.texts(name, ion_binary::items(list), |summary, item| write(summary, item?))
    }

    fn texts<T>(
        &mut self,
        name: &str,
        items: impl Iterator<Item = T>,
        mut write: impl FnMut(&mut Self, T) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.name(name);
        self.json.push(b'[');
        for (at, item) in items.enumerate() {
            if at > 0 {
                self.json.push(b',');
            }
            self.room_for(0)?;
            write(self, item)?;
        }
        self.json.push(b']');
        Ok(())
    }

    /// A member, where the block has it.
    fn member(&mut self, name: &str, value: Option<Value<'a>>, kind: Kind) -> Result<(), Fault> {
        let Some(value) = value.filter(present) else { return Ok(()) };
        self.name(name);
        self.value(name, value, kind)
    }

    fn value(&mut self, what: &str, value: Value<'a>, kind: Kind) -> Result<(), Fault> {
        if !kind.fits(value) {
            return Err(unusable(format!("expected {what} to be {}, found something else", kind.as_str())));
        }
        write_value(value, self.symbols, &self.rules, self.json, self.notes)
    }

    fn text(&mut self, name: &str, text: &str) -> Result<(), Fault> {
        self.name(name);
        self.string(text)
    }

    fn string(&mut self, text: &str) -> Result<(), Fault> {
        self.room_for(text.len())?;
        write_string(text, self.json);
        Ok(())
    }

    fn number(&mut self, name: &str, number: u64) {
        self.name(name);
        self.json.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// The name of a member, behind what stands before it.
    fn name(&mut self, name: &str) {
        if !self.json.ends_with(b"{") {
            self.json.push(b',');
        }
        write_string(name, self.json);
        self.json.push(b':');
    }

    fn room_for(&self, bytes: usize) -> Result<(), Fault> {
        check_room(self.json, DOCUMENT_LIMIT, bytes, &self.rules)
    }
}

/// The documents of a transaction by their ids; of a repeated one the last counts.
fn touched<'a>(documents: Option<Value<'a>>, symbols: &'a Symbols<'_>) -> Result<Vec<Touched<'a>>, Fault> {
    let mut touched = Vec::new();
    let mut parts = 0;
    for field in structure(documents).into_iter().flat_map(ion_binary::fields) {
        let (id, document) = field?;
        let id = ion_binary::field_name(id, symbols)?;
        let document = structure(Some(document))
            .ok_or_else(|| unusable("expected a document in transactionInfo.documents to be a struct, found something else"))?;
        let [table_name, table_id, of] = members(document, symbols, ["tableName", "tableId", "statements"])?;
        let mut statements = Vec::new();
        for place in list("the statements of a document", of)?.into_iter().flat_map(ion_binary::items) {
            let place = place.map(|v| (v.ion_type == Type::PositiveInt && !v.null).then(|| ion_binary::uint(v.body)).flatten())?;
            statements.push(place.ok_or_else(|| unusable("expected the statements of a document as their places, found something else"))?);
            parts += 1;
            if parts > MAX_FIELDS {
                return Err(too_many());
            }
        }
        statements.sort_unstable();
        statements.dedup();
        parts += 1;
        if parts > MAX_FIELDS {
            return Err(too_many());
        }
        touched.push(Touched { id, table_name: text_of(table_name, symbols)?, table_id, statements });
    }
    touched.reverse();
    touched.sort_by_key(|document| document.id);
    touched.dedup_by_key(|document| document.id);
    Ok(touched)
}

fn too_many() -> Fault {
    Fault::new("too_many_values", format!("expected a block of at most {MAX_FIELDS} documents and places of statements, found more"))
}

#[cfg(test)]
mod tests;
