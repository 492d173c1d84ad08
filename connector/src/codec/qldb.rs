//! QLDB stream records in Ion, binary and text (QLDB developer guide, "QLDB stream records in Kinesis").
//!
//! One user record is normally one struct `{qldbStreamArn, recordType, payload}`; every top-level value of a record is read. Members that
//! are not known are ignored. Never decides by "empty": only by what is there and what is not.

use bytes::Bytes;
use ion_rs::v1_0::Binary;
use ion_rs::{Element, ElementReader as _, Reader as TextReader};
use sha2::{Digest, Sha256};

use super::ion_binary::{self, Reader, Symbols, Type, VERSION_MARKER, Value};
use super::ion_json::{self, write_value};
use super::{Content, Decoder, Table};
use crate::metrics::{Notes, Skip};
use crate::record::Fault;
use crate::revision::{Change, Document, MAX_VERSION, Revision, VersionType};

/// Decodes a user record; `emit` gets each unit's index and content, at least one.
pub(super) fn decode(decoder: &mut Decoder, payload: &Bytes, notes: &mut Notes, emit: &mut dyn FnMut(u32, Content)) {
    if payload.is_empty() {
        return emit(0, Content::Skip(Skip::NoChange));
    }
    if payload.starts_with(&VERSION_MARKER) {
        return values(decoder, payload, None, notes, emit);
    }
    match std::str::from_utf8(payload) {
        Ok(text) => {
            let (binary, damage) = text_to_binary(text);
            values(decoder, &binary, damage, notes, emit);
        }
        Err(_) => {
            let found = payload.iter().take(4).map(|b| format!("{b:02X}")).collect::<Vec<_>>().join(" ");
            let reason =
                format!("expected a QLDB stream record in Ion binary (E0 01 00 EA) or Ion text, found bytes that begin with {found}");
            emit(0, Content::Fault(Fault::new("undecodable", reason)));
        }
    }
}

/// Text in its binary form, which has one reader; and why it could not be read to its end, where it could not.
fn text_to_binary(text: &str) -> (Vec<u8>, Option<Fault>) {
    if text_depth(text) > ion_json::MAX_DEPTH + ENVELOPE_DEPTH {
        let reason = format!("expected at most {} levels of lists and structs, found more", ion_json::MAX_DEPTH);
        return (VERSION_MARKER.to_vec(), Some(Fault::new("nested_too_deeply", reason)));
    }
    let unreadable = || Fault::new("undecodable", "expected a QLDB stream record in Ion text, found something that is not Ion");
    let mut elements: Vec<Element> = Vec::new();
    let damage = match TextReader::new(ion_rs::v1_0::Text, text) {
        Ok(mut reader) => reader.elements().find_map(|element| element.map(|element| elements.push(element)).err()).map(|_| unreadable()),
        Err(_) => Some(unreadable()),
    };
    match encode(&elements) {
        Ok(binary) => (binary, damage),
        Err(_) => (VERSION_MARKER.to_vec(), Some(unreadable())),
    }
}

/// Structs around a revision's data.
const ENVELOPE_DEPTH: usize = 3;

/// How deep brackets nest outside of text, symbols and comments. ion-rs parses text recursively, so this comes before it.
fn text_depth(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut depth, mut deepest, mut at) = (0usize, 0usize, 0usize);
    while at < bytes.len() {
        let rest = &bytes[at..];
        match bytes[at] {
            b'{' | b'[' | b'(' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' | b')' => depth = depth.saturating_sub(1),
            b'/' if rest.starts_with(b"//") => at += memchr::memchr(b'\n', rest).unwrap_or(rest.len()),
            b'/' if rest.starts_with(b"/*") => at += memchr::memmem::find(&rest[2..], b"*/").map_or(rest.len(), |end| end + 3),
            b'\'' if rest.starts_with(b"'''") => at += skip_quoted(rest, b"'''"),
            quote @ (b'"' | b'\'') => at += skip_quoted(rest, &[quote]),
            _ => {}
        }
        at += 1;
    }
    deepest
}

/// Bytes from an opening quote to the last byte of its closing one.
fn skip_quoted(rest: &[u8], quote: &[u8]) -> usize {
    let mut at = quote.len();
    while at < rest.len() {
        if rest[at] == b'\\' {
            at += 1;
        } else if rest[at..].starts_with(quote) {
            return at + quote.len() - 1;
        }
        at += 1;
    }
    rest.len()
}

fn encode(elements: &[Element]) -> ion_rs::IonResult<Vec<u8>> {
    let mut writer = ion_rs::Writer::new(Binary, Vec::new())?;
    for element in elements {
        writer.write(element)?;
    }
    writer.close()
}

fn values(decoder: &mut Decoder, binary: &[u8], damage: Option<Fault>, notes: &mut Notes, emit: &mut dyn FnMut(u32, Content)) {
    let mut index = 0;
    let mut reader = Reader::new(binary);
    let damage = loop {
        match reader.next() {
            Ok(Some((value, symbols))) => {
                let content =
                    record(decoder, value, symbols, Hashable { binary, index: index as usize }, notes).unwrap_or_else(Content::Fault);
                emit(index, content);
                index += 1;
            }
            Ok(None) => break damage,
            // After damage no further value can be found: what is left of the record is one unit.
            Err(fault) => break Some(fault),
        }
    };
    match damage {
        Some(fault) => emit(index, Content::Fault(fault)),
        None if index == 0 => emit(index, Content::Skip(Skip::NoChange)),
        None => {}
    }
}

/// A value by itself: a struct's members or nothing.
fn structure(value: Option<Value<'_>>) -> Option<Value<'_>> {
    value.filter(|value| value.ion_type == Type::Struct && !value.null)
}

fn text<'a>(value: Option<Value<'a>>, symbols: &Symbols<'a>) -> Result<Option<&'a str>, Fault> {
    value.map_or(Ok(None), |value| ion_binary::text(value, symbols))
}

/// The named members of a struct in one pass over it; of a repeated one the last.
fn members<'a, const N: usize>(value: Value<'a>, symbols: &Symbols<'a>, names: [&str; N]) -> Result<[Option<Value<'a>>; N], Fault> {
    let mut found = [None; N];
    for field in ion_binary::fields(value) {
        let (name, value) = field?;
        let name = symbols.text(name);
        if let Some(place) = names.iter().position(|wanted| Some(*wanted) == name) {
            found[place] = Some(value);
        }
    }
    Ok(found)
}

fn record<'a>(
    decoder: &mut Decoder,
    value: Value<'a>,
    symbols: &Symbols<'a>,
    hashable: Hashable<'_>,
    notes: &mut Notes,
) -> Result<Content, Fault> {
    let unexpected =
        |what: &str| Fault::new("unknown_record", format!("expected a QLDB stream record {{qldbStreamArn, recordType, payload}}, {what}"));
    let Some(envelope) = structure(Some(value)) else {
        return Err(unexpected("found a value that is not a struct"));
    };
    let [record_type, payload] = members(envelope, symbols, ["recordType", "payload"])?;
    match text(record_type, symbols)? {
        Some("CONTROL") => Ok(Content::Skip(Skip::Control)),
        Some("BLOCK_SUMMARY") => Ok(Content::Skip(Skip::BlockSummary)),
        Some("REVISION_DETAILS") => {
            let payload = structure(payload).ok_or_else(|| unexpected("found a REVISION_DETAILS without a payload"))?;
            revision_details(decoder, payload, symbols, hashable, notes)
        }
        Some(_) => Err(unexpected("found a recordType other than CONTROL, BLOCK_SUMMARY and REVISION_DETAILS")),
        None => Err(unexpected("found no recordType")),
    }
}

fn unusable(reason: impl Into<String>) -> Fault {
    Fault::new("unusable_revision", reason)
}

fn revision_details<'a>(
    decoder: &mut Decoder,
    payload: Value<'a>,
    symbols: &Symbols<'a>,
    hashable: Hashable<'_>,
    notes: &mut Notes,
) -> Result<Content, Fault> {
    let [table_info, revision] = members(payload, symbols, ["tableInfo", "revision"])?;
    let table_info = structure(table_info).ok_or_else(|| unusable("expected payload.tableInfo, found none"))?;
    let [table_name, table_id] = members(table_info, symbols, ["tableName", "tableId"])?;
    let name = text(table_name, symbols)?.filter(|name| !name.is_empty());
    let table =
        decoder.table(name.ok_or_else(|| unusable("expected payload.tableInfo.tableName to be a non-empty string, found something else"))?);

    let revision = structure(revision).ok_or_else(|| unusable("expected payload.revision, found none"))?;
    let [data, data_hash, hash, metadata, block_address] =
        members(revision, symbols, ["data", "dataHash", "hash", "metadata", "blockAddress"])?;
    let metadata = structure(metadata).ok_or_else(|| unusable("expected payload.revision.metadata, found none"))?;
    let [id, version, tx_time, tx_id] = members(metadata, symbols, ["id", "version", "txTime", "txId"])?;
    let id = text(id, symbols)?.filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| unusable("expected metadata.id to be a non-empty string, found something else"))?.to_owned();
    let version = version.filter(|v| v.ion_type == Type::PositiveInt && !v.null).and_then(|v| ion_binary::uint(v.body));
    let version = version
        .filter(|version| *version <= MAX_VERSION)
        .ok_or_else(|| unusable(format!("expected metadata.version to be a whole number from 0 to {MAX_VERSION}, found something else")))?;

    // A typed null says as little as nothing at all: `data: null.struct` is no document.
    let present = |value: &Value<'_>| !value.null && value.ion_type != Type::Null;
    let change = if let Some(data) = data.filter(present) {
        let document =
            structure(Some(data)).ok_or_else(|| unusable("expected payload.revision.data to be a struct, found something else"))?;
        decoder.json.clear();
        write_value(document, symbols, &table.rules, &mut decoder.json, notes)?;
        Change::Put(Document(Bytes::copy_from_slice(&decoder.json)))
    } else if data_hash.as_ref().is_some_and(present) {
        Change::Redaction
    } else {
        Change::Delete
    };
    if decoder.options.verify_hashes {
        let stated = |value: Option<Value<'a>>| value.filter(|v| v.ion_type == Type::Blob && !v.null).map(|v| v.body);
        hashable.verify(&change, stated(hash), stated(data_hash), notes)?;
    }
    let metadata = if table.metadata {
        let values = [("tableId", table_id), ("txId", tx_id), ("txTime", tx_time), ("blockAddress", block_address)];
        Some(metadata_document(&table, &id, version, values, symbols, &mut decoder.json, notes)?)
    } else {
        None
    };
    Ok(Content::Revision(Revision { table: table.name, id, version, version_type: VersionType::External, change, metadata }))
}

/// The value that is being decoded, for the one reader that can hash it.
#[derive(Clone, Copy)]
struct Hashable<'a> {
    binary: &'a [u8],
    /// Which top-level value it is.
    index: usize,
}

impl Hashable<'_> {
    /// Checks `hash = dot(ionhash(metadata), ionhash(data))`; a redacted revision has `dataHash` in place of the second (QLDB developer
    /// guide, "Verifying a document revision"). How the hash of a deletion is made is not published, so it stays unchecked.
    fn verify(self, change: &Change, stated: Option<&[u8]>, data_hash: Option<&[u8]>, notes: &mut Notes) -> Result<(), Fault> {
        let Some(stated) = stated.filter(|_| *change != Change::Delete) else {
            notes.hashes_unchecked += 1;
            return Ok(());
        };
        let unreadable = || Fault::new("undecodable", "expected a revision that can be hashed, found Ion that cannot be read as a whole");
        let element = self.element().ok_or_else(unreadable)?;
        let revision = element.as_struct().and_then(|envelope| envelope.get("payload")?.as_struct()?.get("revision")?.as_struct());
        let hash_of = |name: &str| ion_rs::ion_hash::sha256(revision?.get(name)?).ok().map(|hash| hash.to_vec());
        let metadata = hash_of("metadata").ok_or_else(unreadable)?;
        let data = match change {
            Change::Put(_) => hash_of("data").ok_or_else(unreadable)?,
            _ => data_hash.unwrap_or_default().to_vec(),
        };
        if dot(&metadata, &data) == stated {
            notes.hashes_verified += 1;
            return Ok(());
        }
        notes.hashes_mismatched += 1;
        let reason = "expected the revision's hash to follow from its metadata and data, found another one: its content was changed";
        Err(Fault::new("hash_mismatch", reason))
    }

    fn element(self) -> Option<Element> {
        // ion-rs builds elements recursively: what nests deeper than a document may is not given to it.
        let mut reader = Reader::new(self.binary);
        while let Some((value, _)) = reader.next().ok()? {
            is_shallow(value, ion_json::MAX_DEPTH + ENVELOPE_DEPTH)?;
        }
        Element::iter(self.binary).ok()?.nth(self.index)?.ok()
    }
}

fn is_shallow(value: Value<'_>, levels: usize) -> Option<()> {
    match value.ion_type {
        Type::List | Type::SExp | Type::Struct if levels == 0 => None,
        Type::Struct => ion_binary::fields(value).try_for_each(|field| is_shallow(field.ok()?.1, levels - 1)),
        Type::List | Type::SExp => ion_binary::items(value).try_for_each(|item| is_shallow(item.ok()?, levels - 1)),
        _ => Some(()),
    }
}

/// The SHA-256 of two hashes, the smaller one first, compared as signed bytes from the last byte to the first.
fn dot(a: &[u8], b: &[u8]) -> Vec<u8> {
    let signed = |hash: &[u8]| hash.iter().rev().map(|byte| *byte as i8).collect::<Vec<_>>();
    let (first, second) = if signed(a) <= signed(b) { (a, b) } else { (b, a) };
    Sha256::new().chain_update(first).chain_update(second).finalize().to_vec()
}

/// The source's own metadata as an object: `table`, `id`, `version`, `tableId`, `txId`, `txTime`, `blockAddress`.
fn metadata_document<'a>(
    table: &Table,
    id: &str,
    version: u64,
    values: [(&str, Option<Value<'a>>); 4],
    symbols: &Symbols<'a>,
    json: &mut Vec<u8>,
    notes: &mut Notes,
) -> Result<Document, Fault> {
    json.clear();
    json.extend_from_slice(b"{\"table\":");
    ion_json::write_string(&table.name, json);
    json.extend_from_slice(b",\"id\":");
    ion_json::write_string(id, json);
    json.extend_from_slice(b",\"version\":");
    json.extend_from_slice(itoa::Buffer::new().format(version).as_bytes());
    for (name, value) in values {
        if let Some(value) = value {
            json.push(b',');
            ion_json::write_string(name, json);
            json.push(b':');
            write_value(value, symbols, &table.rules, json, notes)?;
        }
    }
    json.push(b'}');
    Ok(Document(Bytes::copy_from_slice(json)))
}
