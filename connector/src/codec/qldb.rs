//! QLDB stream records in Ion, binary and text (QLDB developer guide, "QLDB stream records in Kinesis").
//!
//! One user record is normally one struct `{qldbStreamArn, recordType, payload}`; every top-level value of a record is read. Members that
//! are not known are ignored. Never decides by "empty": only by what is there and what is not.

use bytes::Bytes;
use ion_rs::ion_hash;
use ion_rs::v1_0::{Binary, Text};
use ion_rs::{Decoder as Encoding, Element, IonResult, LazyStruct, LazyValue, Reader, ValueRef};
use sha2::{Digest, Sha256};

use super::ion_json::{self, undecodable, write_document};
use super::{Content, Decoder, Table};
use crate::metrics::{Notes, Skip};
use crate::record::Fault;
use crate::revision::{Change, Document, MAX_VERSION, Revision, VersionType};

/// The version marker that begins Ion binary (Ion 1.0 binary encoding, "Value Streams").
const BINARY_MARKER: [u8; 4] = [0xE0, 0x01, 0x00, 0xEA];

/// Decodes a user record; `emit` gets each unit's index and content, at least one.
pub(super) fn decode(decoder: &mut Decoder, payload: &Bytes, notes: &mut Notes, emit: &mut dyn FnMut(u32, Content)) {
    if payload.is_empty() {
        return emit(0, Content::Skip(Skip::NoChange));
    }
    if payload.starts_with(&BINARY_MARKER) {
        return values(decoder, Reader::new(Binary, &payload[..]), notes, emit);
    }
    let text = match std::str::from_utf8(payload) {
        Ok(text) => text,
        Err(_) => {
            let found = payload.iter().take(4).map(|b| format!("{b:02X}")).collect::<Vec<_>>().join(" ");
            let reason =
                format!("expected a QLDB stream record in Ion binary (E0 01 00 EA) or Ion text, found bytes that begin with {found}");
            return emit(0, Content::Fault(Fault::new("undecodable", reason)));
        }
    };
    if text_depth(text) > ion_json::MAX_DEPTH + ENVELOPE_DEPTH {
        let reason = format!("expected at most {} levels of lists and structs, found more", ion_json::MAX_DEPTH);
        return emit(0, Content::Fault(Fault::new("nested_too_deeply", reason)));
    }
    values(decoder, Reader::new(Text, text), notes, emit);
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

fn values<E: Encoding, I: ion_rs::IonInput>(
    decoder: &mut Decoder,
    reader: IonResult<Reader<E, I>>,
    notes: &mut Notes,
    emit: &mut dyn FnMut(u32, Content),
) {
    let mut index = 0;
    let failed = |index: u32, error: &ion_rs::IonError| (index, Content::Fault(undecodable("a QLDB stream record in Ion", error)));
    let mut reader = match reader {
        Ok(reader) => reader,
        Err(error) => {
            let (index, content) = failed(0, &error);
            return emit(index, content);
        }
    };
    loop {
        match Reader::next(&mut reader) {
            Ok(Some(value)) => {
                let content = record(decoder, value, notes).unwrap_or_else(Content::Fault);
                emit(index, content);
                index += 1;
            }
            Ok(None) if index == 0 => return emit(0, Content::Skip(Skip::NoChange)),
            Ok(None) => return,
            // A reader that failed once does not find the next value: what is left of the record is one unit.
            Err(error) => {
                let (index, content) = failed(index, &error);
                return emit(index, content);
            }
        }
    }
}

fn record<E: Encoding>(decoder: &mut Decoder, value: LazyValue<'_, E>, notes: &mut Notes) -> Result<Content, Fault> {
    let unexpected =
        |what: &str| Fault::new("unknown_record", format!("expected a QLDB stream record {{qldbStreamArn, recordType, payload}}, {what}"));
    let Some(envelope) = read_struct(value)? else {
        return Err(unexpected("found a value that is not a struct"));
    };
    let [record_type, payload] = members(envelope, ["recordType", "payload"])?;
    let record_type = record_type.map(text_of).transpose()?.flatten().ok_or_else(|| unexpected("found no recordType"))?;
    match record_type {
        "CONTROL" => Ok(Content::Skip(Skip::Control)),
        "BLOCK_SUMMARY" => Ok(Content::Skip(Skip::BlockSummary)),
        "REVISION_DETAILS" => {
            let payload = payload.map(read_struct).transpose()?.flatten();
            revision_details(decoder, payload.ok_or_else(|| unexpected("found a REVISION_DETAILS without a payload"))?, notes)
        }
        _ => Err(unexpected("found a recordType other than CONTROL, BLOCK_SUMMARY and REVISION_DETAILS")),
    }
}

fn unusable(reason: impl Into<String>) -> Fault {
    Fault::new("unusable_revision", reason)
}

fn revision_details<E: Encoding>(decoder: &mut Decoder, payload: LazyStruct<'_, E>, notes: &mut Notes) -> Result<Content, Fault> {
    let [table_info, revision] = members(payload, ["tableInfo", "revision"])?;
    let table_info =
        table_info.map(read_struct).transpose()?.flatten().ok_or_else(|| unusable("expected payload.tableInfo, found none"))?;
    let [table_name, table_id] = members(table_info, ["tableName", "tableId"])?;
    let name = table_name.map(text_of).transpose()?.flatten().filter(|name| !name.is_empty());
    let table =
        decoder.table(name.ok_or_else(|| unusable("expected payload.tableInfo.tableName to be a non-empty string, found something else"))?);

    let revision = revision.map(read_struct).transpose()?.flatten().ok_or_else(|| unusable("expected payload.revision, found none"))?;
    let [data, data_hash, hash, metadata, block_address] = members(revision, ["data", "dataHash", "hash", "metadata", "blockAddress"])?;
    let metadata_struct =
        metadata.map(read_struct).transpose()?.flatten().ok_or_else(|| unusable("expected payload.revision.metadata, found none"))?;
    let [id, version, tx_time, tx_id] = members(metadata_struct, ["id", "version", "txTime", "txId"])?;
    let id = id.map(text_of).transpose()?.flatten().filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| unusable("expected metadata.id to be a non-empty string, found something else"))?.to_owned();
    let version = version_of(version)?;

    // A typed null says as little as nothing at all: `data: null.struct` is no document.
    let present = |value: Option<LazyValue<'_, E>>| value.is_some_and(|v| !v.is_null());
    let change = if present(data) {
        let Some(document) = data.map(read_struct).transpose()?.flatten() else {
            return Err(unusable("expected payload.revision.data to be a struct, found something else"));
        };
        decoder.json.clear();
        write_document(document, &table.rules, &mut decoder.json, notes)?;
        Change::Put(Document(Bytes::copy_from_slice(&decoder.json)))
    } else if present(data_hash) {
        Change::Redaction
    } else {
        Change::Delete
    };

    if decoder.options.verify_hashes {
        verify_hash(&change, hash, metadata, data, data_hash, notes)?;
    }
    let metadata = if table.metadata {
        Some(metadata_document(&table, [table_id, tx_id, tx_time, block_address], &id, version, &mut decoder.json, notes)?)
    } else {
        None
    };
    Ok(Content::Revision(Revision { table: table.name, id, version, version_type: VersionType::External, change, metadata }))
}

fn version_of<E: Encoding>(version: Option<LazyValue<'_, E>>) -> Result<u64, Fault> {
    let bad = || unusable(format!("expected metadata.version to be a whole number from 0 to {MAX_VERSION}, found something else"));
    match version.map(|v| v.read()).transpose().map_err(|e| undecodable("metadata.version", &e))? {
        Some(ValueRef::Int(int)) => int.as_u64().filter(|version| *version <= MAX_VERSION).ok_or_else(bad),
        _ => Err(bad()),
    }
}

/// The named members of a struct in one pass over it; of a repeated one the last.
fn members<'top, E: Encoding, const N: usize>(
    fields: LazyStruct<'top, E>,
    names: [&str; N],
) -> Result<[Option<LazyValue<'top, E>>; N], Fault> {
    let mut found = [None; N];
    for field in &fields {
        let field = field.map_err(|e| undecodable("a member of the record", &e))?;
        let name = field.name().map_err(|e| undecodable("a member's name", &e))?;
        if let Some(place) = names.iter().position(|wanted| Some(*wanted) == name.text()) {
            found[place] = Some(field.value());
        }
    }
    Ok(found)
}

fn read_struct<E: Encoding>(value: LazyValue<'_, E>) -> Result<Option<LazyStruct<'_, E>>, Fault> {
    match value.read().map_err(|e| undecodable("a struct", &e))? {
        ValueRef::Struct(fields) => Ok(Some(fields)),
        _ => Ok(None),
    }
}

fn text_of<E: Encoding>(value: LazyValue<'_, E>) -> Result<Option<&str>, Fault> {
    match value.read().map_err(|e| undecodable("a string", &e))? {
        ValueRef::String(text) => Ok(Some(text.text())),
        ValueRef::Symbol(symbol) => Ok(symbol.text()),
        _ => Ok(None),
    }
}

/// Checks `hash = dot(ionhash(metadata), ionhash(data))`; a redacted revision has `dataHash` in place of the second (QLDB developer
/// guide, "Verifying a document revision"). How the hash of a deletion is made is not published, so it stays unchecked.
fn verify_hash<E: Encoding>(
    change: &Change,
    hash: Option<LazyValue<'_, E>>,
    metadata: Option<LazyValue<'_, E>>,
    data: Option<LazyValue<'_, E>>,
    data_hash: Option<LazyValue<'_, E>>,
    notes: &mut Notes,
) -> Result<(), Fault> {
    let (Some(stated), Some(metadata)) = (hash.map(blob_of).transpose()?.flatten(), metadata) else {
        notes.hashes_unchecked += 1;
        return Ok(());
    };
    let data_hash = match (change, data) {
        (Change::Put(_), Some(data)) => ion_hash_of(data)?,
        (Change::Redaction, _) => data_hash.map(blob_of).transpose()?.flatten().unwrap_or_default(),
        _ => {
            notes.hashes_unchecked += 1;
            return Ok(());
        }
    };
    if dot(&ion_hash_of(metadata)?, &data_hash) == stated {
        notes.hashes_verified += 1;
        return Ok(());
    }
    notes.hashes_mismatched += 1;
    Err(Fault::new(
        "hash_mismatch",
        "expected the revision's hash to follow from its metadata and data, found another one: its content was changed",
    ))
}

fn ion_hash_of<E: Encoding>(value: LazyValue<'_, E>) -> Result<Vec<u8>, Fault> {
    let element = Element::try_from(value).map_err(|e| undecodable("an Ion value to hash", &e))?;
    Ok(ion_hash::sha256(&element).map_err(|e| undecodable("an Ion value to hash", &e))?.to_vec())
}

fn blob_of<E: Encoding>(value: LazyValue<'_, E>) -> Result<Option<Vec<u8>>, Fault> {
    match value.read().map_err(|e| undecodable("a hash", &e))? {
        ValueRef::Blob(bytes) => Ok(Some(bytes.data().to_vec())),
        _ => Ok(None),
    }
}

/// The SHA-256 of two hashes, the smaller one first, compared as signed bytes from the last byte to the first.
fn dot(a: &[u8], b: &[u8]) -> Vec<u8> {
    let signed = |hash: &[u8]| hash.iter().rev().map(|byte| *byte as i8).collect::<Vec<_>>();
    let (first, second) = if signed(a) <= signed(b) { (a, b) } else { (b, a) };
    Sha256::new().chain_update(first).chain_update(second).finalize().to_vec()
}

/// The source's own metadata as an object: `table`, `tableId`, `id`, `version`, `txId`, `txTime`, `blockAddress`.
fn metadata_document<E: Encoding>(
    table: &Table,
    values: [Option<LazyValue<'_, E>>; 4],
    id: &str,
    version: u64,
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
    for (name, value) in ["tableId", "txId", "txTime", "blockAddress"].iter().zip(values) {
        if let Some(value) = value {
            json.push(b',');
            ion_json::write_string(name, json);
            json.push(b':');
            ion_json::write_value(value, &table.rules, json, notes)?;
        }
    }
    json.push(b'}');
    Ok(Document(Bytes::copy_from_slice(json)))
}
