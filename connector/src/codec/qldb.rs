//! QLDB in Ion, binary and text: the records of a stream (QLDB developer guide, "QLDB stream records in Kinesis") and the blocks of a journal
//! export ("Journal export output in QLDB"), which may be JSON too.
//!
//! One user record of a stream is normally one struct `{qldbStreamArn, recordType, payload}`; a block is known by having no recordType, and a
//! blockAddress and a transactionId. Every top-level value of a record is read. Members that are not known are ignored. Never decides by
//! "empty": only by what is there and what is not.
//!
//! A block is a unit, and so is each of its revisions, behind it and in their order: a stream has a record of its own for each of them.

mod block;
mod json_block;
mod metadata;
mod revision;
mod revisions;

use super::ion_binary::{self, Reader, Type, VERSION_MARKER, Value};
use super::ion_symbols::Symbols;
use super::ion_text::Transcript;
use super::{Content, Decoder, MAX_FAULTS, ion_timestamp, revision_hash, surrogates};
use crate::metrics::{Notes, Skip};
use crate::record::Fault;
use block::is_block;
pub(super) use json_block::with_decimals;
use revision::unusable;
use revisions::{Apart, Revisions};

/// The values of one user record, read one after another.
pub(super) enum Values<'a> {
    Binary {
        payload: &'a [u8],
        reader: Reader<'a>,
        /// Whether no value was read yet.
        first: bool,
        /// What is left of the block that was read last.
        revisions: Option<Box<Revisions>>,
    },
    Text {
        transcript: Transcript,
        revisions: Option<Box<Apart>>,
    },
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
            return Self::Binary { payload, reader, first: true, revisions: None };
        }
        if let Ok(text) = std::str::from_utf8(payload) {
            let replaced = surrogates::replaced(text);
            notes.lone_surrogates += replaced.as_ref().map_or(0, |(_, count)| *count);
            let text = replaced.as_ref().map_or(text, |(text, _)| text);
            let as_ion = json_block::as_ion(text);
            let transcript = Transcript::new(as_ion.as_deref().unwrap_or(text), MAX_FAULTS);
            return Self::Text { transcript, revisions: None };
        }
        let found = payload.iter().take(4).map(|b| format!("{b:02X}")).collect::<Vec<_>>().join(" ");
        let reason = format!("expected a QLDB stream record in Ion binary (E0 01 00 EA) or Ion text, found bytes that begin with {found}");
        Self::Neither(Fault::new("undecodable", reason))
    }

    /// Whether what was read last is a block or one of its revisions.
    pub(super) fn is_in_block(&self) -> bool {
        match self {
            Self::Binary { revisions, .. } => revisions.is_some(),
            Self::Text { revisions, .. } => revisions.is_some(),
            Self::Neither(_) | Self::End => false,
        }
    }

    /// What the next value comes to; `None` at the end, and behind damage, as no further value can be found there.
    pub(super) fn next(&mut self, decoder: &mut Decoder, notes: &mut Notes) -> Option<Content> {
        let content = match self {
            Self::Binary { payload, reader, first, revisions } => {
                if let Some(rest) = revisions {
                    match rest.next(payload, reader.symbols(), decoder, notes) {
                        Some(revision) => return Some(revision.unwrap_or_else(Content::Fault)),
                        None => *revisions = None,
                    }
                }
                match reader.next_value() {
                    Ok(value) => {
                        let value = value?.0;
                        if std::mem::take(first) {
                            decoder.repeated_tables.notice(&payload[..payload.len() - reader.left_with_last()], reader.symbols());
                        }
                        record(decoder, value, reader, payload, revisions, notes)
                    }
                    Err(fault) => {
                        *self = Self::End;
                        Err(fault)
                    }
                }
            }
            Self::Text { transcript, revisions } => {
                if let Some(rest) = revisions {
                    match rest.next(decoder, notes) {
                        Some(revision) => return Some(revision.unwrap_or_else(Content::Fault)),
                        None => *revisions = None,
                    }
                }
                transcript.next()?.and_then(|binary| {
                    let mut reader = Reader::new(&binary);
                    if decoder.options.verify_hashes {
                        reader.keep_context();
                    }
                    let (value, _) = reader.next_value()?.ok_or_else(|| unexpected("found nothing"))?;
                    let mut found = None;
                    let content = record(decoder, value, &reader, &binary, &mut found, notes);
                    if let Some(found) = found {
                        let known = revisions::known(reader.symbols())?;
                        *revisions = Some(Box::new(Apart::new(*found, known, binary.into_owned())));
                    }
                    content
                })
            }
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

/// Whether a value is there. A typed null says as little as nothing at all: `data: null.struct` is no document.
fn present(value: &Value<'_>) -> bool {
    !value.null && value.ion_type != Type::Null
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

/// When a transaction was committed, in milliseconds since 1970. A revision is as good without it.
fn committed(time: Value<'_>) -> Option<u64> {
    let stamp = (time.ion_type == Type::Timestamp && !time.null).then(|| ion_timestamp::timestamp(time.body))?;
    ion_timestamp::millis(&stamp.ok()?)
}

fn unexpected(what: &str) -> Fault {
    Fault::new("unknown_record", format!("expected a QLDB stream record {{qldbStreamArn, recordType, payload}}, {what}"))
}

/// Decodes the value that the reader has read last, of these bytes; of a block gives its revisions apart.
fn record<'a>(
    decoder: &mut Decoder,
    value: Value<'a>,
    reader: &'a Reader<'_>,
    bytes: &[u8],
    revisions: &mut Option<Box<Revisions>>,
    notes: &mut Notes,
) -> Result<Content, Fault> {
    let symbols = reader.symbols();
    let Some(envelope) = structure(Some(value)) else {
        return Err(unexpected("found a value that is not a struct"));
    };
    let [record_type, payload] = members(envelope, symbols, ["recordType", "payload"])?;
    match text_of(record_type, symbols)? {
        Some("CONTROL") => Ok(Content::Skip(Skip::Control)),
        Some("BLOCK_SUMMARY") if decoder.options.journal.is_none() => Ok(Content::Skip(Skip::BlockSummary)),
        Some("BLOCK_SUMMARY") => {
            let payload = structure(payload).ok_or_else(|| unexpected("found a BLOCK_SUMMARY without a payload"))?;
            block::decode(decoder, payload, symbols, notes)
        }
        Some("REVISION_DETAILS") => {
            let payload = structure(payload).ok_or_else(|| unexpected("found a REVISION_DETAILS without a payload"))?;
            let [table_info, revision] = members(payload, symbols, ["tableInfo", "revision"])?;
            let table_info = structure(table_info).ok_or_else(|| unusable("expected payload.tableInfo, found none"))?;
            let [table_name, table_id] = members(table_info, symbols, ["tableName", "tableId"])?;
            let name = text_of(table_name, symbols)?.filter(|name| !name.is_empty());
            let name =
                name.ok_or_else(|| unusable("expected payload.tableInfo.tableName to be a non-empty string, found something else"))?;
            let element = || revision_hash::element(&reader.last_by_itself(), value, &["payload", "revision"]);
            revision::decode(decoder, (name, table_id), revision, symbols, element, notes)
        }
        Some(_) => Err(unexpected("found a recordType other than CONTROL, BLOCK_SUMMARY and REVISION_DETAILS")),
        None if record_type.is_none_or(|value| !present(&value)) && is_block(envelope, symbols)? => {
            *revisions = Some(Box::new(Revisions::new(envelope, reader, bytes)?));
            block::decode(decoder, envelope, symbols, notes)
        }
        None => Err(unexpected("or a block of a journal export {blockAddress, transactionId}, found no recordType")),
    }
}

#[cfg(test)]
mod tests;
