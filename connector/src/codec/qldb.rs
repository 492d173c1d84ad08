//! QLDB stream records in Ion, binary and text (QLDB developer guide, "QLDB stream records in Kinesis").
//!
//! One user record is normally one struct `{qldbStreamArn, recordType, payload}`; every top-level value of a record is read. Members that
//! are not known are ignored. Never decides by "empty": only by what is there and what is not.

use ion_rs::Element;

use super::choices::{Metadata, Rows};
use super::ion_binary::{self, Reader, Type, VERSION_MARKER, Value};
use super::ion_json::{self, write_value};
use super::ion_symbols::Symbols;
use super::ion_text::Transcript;
use super::{Content, Decoder, MAX_FAULTS, Table, ion_timestamp, revision_hash, surrogates};
use crate::error::Error;
use crate::memory;
use crate::metrics::{Notes, Skip};
use crate::record::Fault;
use crate::revision::{Change, Document, MAX_VERSION, Revision, VersionType};

/// The values of one user record, read one after another.
pub(super) enum Values<'a> {
    Binary {
        payload: &'a [u8],
        reader: Reader<'a>,
        /// Whether no value was read yet.
        first: bool,
    },
    Text(Transcript),
    Neither(Fault),
    End,
}

impl<'a> Values<'a> {
    pub(super) fn new(decoder: &Decoder, payload: &'a [u8], notes: &mut Notes) -> Self {
        if payload.starts_with(&VERSION_MARKER) {
            let mut reader = decoder.repeated_tables.reader(payload);
            if decoder.options.verify_hashes {
                reader.keep_context();
            }
            return Self::Binary { payload, reader, first: true };
        }
        if let Ok(text) = std::str::from_utf8(payload) {
            let replaced = surrogates::replaced(text);
            notes.lone_surrogates += replaced.as_ref().map_or(0, |(_, count)| *count);
            return Self::Text(Transcript::new(replaced.as_ref().map_or(text, |(text, _)| text), MAX_FAULTS));
        }
        let found = payload.iter().take(4).map(|b| format!("{b:02X}")).collect::<Vec<_>>().join(" ");
        let reason = format!("expected a QLDB stream record in Ion binary (E0 01 00 EA) or Ion text, found bytes that begin with {found}");
        Self::Neither(Fault::new("undecodable", reason))
    }

    /// What the next value comes to; `None` at the end, and behind damage, as no further value can be found there.
    pub(super) fn next(&mut self, decoder: &mut Decoder, notes: &mut Notes) -> Option<Content> {
        let content = match self {
            Self::Binary { payload, reader, first } => match reader.next_value() {
                Ok(value) => {
                    let value = value?.0;
                    if std::mem::take(first) {
                        decoder.repeated_tables.notice(&payload[..payload.len() - reader.left_with_last()], reader.symbols());
                    }
                    record(decoder, value, reader, notes)
                }
                Err(fault) => {
                    *self = Self::End;
                    Err(fault)
                }
            },
            Self::Text(text) => text.next()?.and_then(|binary| {
                let mut reader = Reader::new(&binary);
                if decoder.options.verify_hashes {
                    reader.keep_context();
                }
                let (value, _) = reader.next_value()?.ok_or_else(|| unexpected("found nothing"))?;
                record(decoder, value, &reader, notes)
            }),
            Self::Neither(fault) => {
                let fault = fault.clone();
                *self = Self::End;
                Err(fault)
            }
            Self::End => return None,
        };
        Some(content.unwrap_or_else(Content::Fault))
    }
}

/// A value by itself: a struct's members or nothing.
fn structure(value: Option<Value<'_>>) -> Option<Value<'_>> {
    value.filter(|value| value.ion_type == Type::Struct && !value.null)
}

fn text_of<'a>(value: Option<Value<'a>>, symbols: &'a Symbols<'_>) -> Result<Option<&'a str>, Fault> {
    value.map_or(Ok(None), |value| ion_binary::text(value, symbols))
}

/// The named members of a struct in one pass over it; of a repeated one the last.
fn members<'a, const N: usize>(value: Value<'a>, symbols: &Symbols<'_>, names: [&str; N]) -> Result<[Option<Value<'a>>; N], Fault> {
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

fn unexpected(what: &str) -> Fault {
    Fault::new("unknown_record", format!("expected a QLDB stream record {{qldbStreamArn, recordType, payload}}, {what}"))
}

/// Decodes the value that the reader has read last.
fn record<'a>(decoder: &mut Decoder, value: Value<'a>, reader: &'a Reader<'_>, notes: &mut Notes) -> Result<Content, Fault> {
    let symbols = reader.symbols();
    let Some(envelope) = structure(Some(value)) else {
        return Err(unexpected("found a value that is not a struct"));
    };
    let [record_type, payload] = members(envelope, symbols, ["recordType", "payload"])?;
    match text_of(record_type, symbols)? {
        Some("CONTROL") => Ok(Content::Skip(Skip::Control)),
        Some("BLOCK_SUMMARY") => Ok(Content::Skip(Skip::BlockSummary)),
        Some("REVISION_DETAILS") => {
            let payload = structure(payload).ok_or_else(|| unexpected("found a REVISION_DETAILS without a payload"))?;
            let element = || revision_hash::element(&reader.last_by_itself(), value);
            revision_details(decoder, payload, symbols, element, notes)
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
    symbols: &'a Symbols<'_>,
    element: impl FnOnce() -> Option<Element>,
    notes: &mut Notes,
) -> Result<Content, Fault> {
    let [table_info, revision] = members(payload, symbols, ["tableInfo", "revision"])?;
    let table_info = structure(table_info).ok_or_else(|| unusable("expected payload.tableInfo, found none"))?;
    let [table_name, table_id] = members(table_info, symbols, ["tableName", "tableId"])?;
    let name = text_of(table_name, symbols)?.filter(|name| !name.is_empty());
    let table =
        decoder.table(name.ok_or_else(|| unusable("expected payload.tableInfo.tableName to be a non-empty string, found something else"))?);
    if table.options.unread {
        return Ok(Content::Skip(Skip::Unmapped));
    }
    if table.options.rows == Rows::Cells && !table.options.unmapped {
        let what = format!("{}: expected rows = \"full\" for a table of QLDB, found \"cells\"", table.name);
        let help = "its revisions carry whole documents; leave rows, or --rows, out";
        return Ok(Content::Refused(Error::usage(what).help(help)));
    }

    let revision = structure(revision).ok_or_else(|| unusable("expected payload.revision, found none"))?;
    let [data, data_hash, hash, metadata, block_address] =
        members(revision, symbols, ["data", "dataHash", "hash", "metadata", "blockAddress"])?;
    let metadata = structure(metadata).ok_or_else(|| unusable("expected payload.revision.metadata, found none"))?;
    let [id, version, tx_time, tx_id] = members(metadata, symbols, ["id", "version", "txTime", "txId"])?;
    let id = text_of(id, symbols)?.filter(|id| !id.is_empty());
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

/// When a transaction was committed, in milliseconds since 1970. A revision is as good without it.
fn committed(tx_time: Value<'_>) -> Option<u64> {
    let stamp = (tx_time.ion_type == Type::Timestamp && !tx_time.null).then(|| ion_timestamp::timestamp(tx_time.body))?;
    ion_timestamp::millis(&stamp.ok()?)
}

/// Writes the source's own metadata as an object.
struct MetadataWriter<'w, 'a> {
    table: &'w Table,
    symbols: &'w Symbols<'a>,
    json: &'w mut Vec<u8>,
    notes: &'w mut Notes,
}

/// Members that a record may have.
type Members<'a, const N: usize> = [(&'static str, Option<Value<'a>>); N];

impl MetadataWriter<'_, '_> {
    /// The flat form: `table`, `id`, `version`, and these: `tableId`, `txId`, `txTime`, `blockAddress`, and `hash` for a history.
    fn field<const N: usize>(&mut self, id: &str, version: u64, values: Members<'_, N>) -> Result<Document, Fault> {
        self.json.clear();
        self.json.push(b'{');
        self.name("table");
        ion_json::write_string(&self.table.name, self.json);
        self.id_and_version(id, version);
        for member in values {
            self.member(member)?;
        }
        self.json.push(b'}');
        Ok(Document(memory::copy(self.json)))
    }

    /// The committed view without its data: `blockAddress`, `hash`, `metadata` with `id`, `version`, `txTime`, `txId`.
    fn committed_view(&mut self, id: &str, version: u64, around: Members<'_, 2>, inside: Members<'_, 2>) -> Result<Document, Fault> {
        self.json.clear();
        self.json.push(b'{');
        for member in around {
            self.member(member)?;
        }
        self.name("metadata");
        self.json.push(b'{');
        self.id_and_version(id, version);
        for member in inside {
            self.member(member)?;
        }
        self.json.extend_from_slice(b"}}");
        Ok(Document(memory::copy(self.json)))
    }

    fn id_and_version(&mut self, id: &str, version: u64) {
        self.name("id");
        ion_json::write_string(id, self.json);
        self.name("version");
        self.json.extend_from_slice(itoa::Buffer::new().format(version).as_bytes());
    }

    /// The name of a member, behind what stands before it.
    fn name(&mut self, name: &str) {
        if !self.json.ends_with(b"{") {
            self.json.push(b',');
        }
        ion_json::write_string(name, self.json);
        self.json.push(b':');
    }

    /// A member, where the record has it.
    fn member(&mut self, (name, value): (&str, Option<Value<'_>>)) -> Result<(), Fault> {
        let Some(value) = value else { return Ok(()) };
        self.name(name);
        write_value(value, self.symbols, &self.table.options.rules, self.json, self.notes)
    }
}

#[cfg(test)]
mod tests;
