//! Ion values to JSON text, written straight to bytes: no tree, no floating point on the way of a decimal.
//!
//! The rules are those of design choices that an index can live with; each is named here, with its default.
//!
//! | Ion | JSON |
//! |---|---|
//! | null of any type | `null` |
//! | bool, int | as they are, all digits |
//! | float | shortest text that reads back the same; `nan`, `+inf`, `-inf` by [`NonFinite`] (default null) |
//! | decimal | digits as written, always with a point or an exponent, by [`Decimals`] as number (default) or string |
//! | timestamp | string of the same precision and offset, without the trailing `T` of dates: `2017-08-21` |
//! | string, symbol | string; a symbol whose text is not known is a fault |
//! | blob | Base64 string |
//! | clob | string, bytes above 127 as `\u00XX` |
//! | list, s-expression | array |
//! | struct | object; of fields with one name the last is kept, and counted |
//! | annotation | dropped, and counted |
//!
//! Never writes invalid JSON, never recurses deeper than [`MAX_DEPTH`], never writes more than the limit it is given, never remembers more than
//! [`MAX_FIELDS`] fields.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ion_binary::{self, Type, Value};
use super::ion_number::{decimal, write_decimal, write_int};
use super::ion_symbols::Symbols;
use super::ion_timestamp::{timestamp, write_timestamp};
use super::json_fields::Fields;
use crate::metrics::Notes;
use crate::record::Fault;

/// Levels of lists and structs that a document may have. OpenSearch maps 20 levels of objects by default.
pub const MAX_DEPTH: usize = 256;

/// Fields that the structs around one place of a document may have written, that is also the most of one struct. A field takes two bytes of a
/// record and up to 70 of memory; the largest document that a ledger takes, 128 KB, has half as many at most, and OpenSearch maps 1,000.
pub const MAX_FIELDS: usize = 1 << 17;

/// How decimals are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decimals {
    /// A JSON number with all its digits: exact in `_source`, a double in the index.
    #[default]
    Number,
    /// A JSON string: exact in a keyword field too.
    String,
}

/// What becomes of NaN and the infinities, which JSON does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NonFinite {
    /// `null`, and counted.
    #[default]
    Null,
    /// The strings `nan`, `+inf` and `-inf`.
    String,
    /// The document is a dead letter.
    DeadLetter,
}

/// The choices of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// How decimals are written.
    pub decimals: Decimals,
    /// What becomes of NaN and the infinities.
    pub non_finite: NonFinite,
    /// The most bytes that one document may have as JSON.
    pub limit: usize,
}

/// The largest document that any request could carry, in bytes of JSON.
pub const DOCUMENT_LIMIT: usize = 9 * 1024 * 1024;

impl Default for Rules {
    fn default() -> Self {
        Self { decimals: Decimals::default(), non_finite: NonFinite::default(), limit: DOCUMENT_LIMIT }
    }
}

/// Appends the value's JSON form to `out`.
///
/// # Errors
/// A fault when the value cannot be decoded or written; `out` then ends in a part of it.
pub fn write_value<'a>(
    value: Value<'a>,
    symbols: &'a Symbols<'_>,
    rules: &Rules,
    out: &mut Vec<u8>,
    notes: &mut Notes,
) -> Result<(), Fault> {
    let limit = out.len().saturating_add(rules.limit);
    let mut writer = Writer { symbols, rules, limit, out, notes, fields: Fields::default() };
    writer.value(value, 1)?;
    writer.room_for(0)
}

struct Writer<'w, 'a> {
    symbols: &'a Symbols<'a>,
    rules: &'w Rules,
    limit: usize,
    out: &'w mut Vec<u8>,
    notes: &'w mut Notes,
    fields: Fields<&'a str>,
}

/// Bytes of a text that are written between two looks at the limit.
pub(super) const PIECE: usize = 64 * 1024;

impl<'a> Writer<'_, 'a> {
    fn structure(&mut self, value: Value<'a>, depth: usize) -> Result<(), Fault> {
        check_depth(depth)?;
        let mut object = self.fields.open();
        self.out.push(b'{');
        for field in ion_binary::fields(value) {
            let (name, value) = field?;
            let name = ion_binary::field_name(name, self.symbols)?;
            self.notes.duplicate_fields += u64::from(self.fields.begin(&mut object, name, self.out)?);
            self.text(name)?;
            self.out.push(b':');
            self.value(value, depth + 1)?;
        }
        self.fields.close(object, self.out);
        self.out.push(b'}');
        Ok(())
    }

    fn value(&mut self, value: Value<'a>, depth: usize) -> Result<(), Fault> {
        self.room_for(1)?;
        self.notes.annotations += u64::from(value.annotations);
        if value.null {
            self.out.extend_from_slice(b"null");
            return Ok(());
        }
        match value.ion_type {
            Type::Null => self.out.extend_from_slice(b"null"),
            Type::Bool => self.out.extend_from_slice(if value.body == [1] { b"true" } else { b"false" }),
            Type::PositiveInt => write_int(value.body, false, self.out)?,
            Type::NegativeInt => write_int(value.body, true, self.out)?,
            Type::Float => self.float(ion_binary::float(value.body)?)?,
            Type::Decimal => self.decimal(value.body)?,
            Type::Timestamp => {
                self.out.push(b'"');
                write_timestamp(&timestamp(value.body)?, self.out)?;
                self.out.push(b'"');
            }
            Type::Symbol | Type::String => self.text(ion_binary::text(value, self.symbols)?.unwrap_or_default())?,
            Type::Blob => {
                self.room_for(value.body.len())?;
                write_base64(value.body, self.out);
            }
            Type::Clob => self.pieces(value.body, write_clob)?,
            Type::List | Type::SExp => self.sequence(value, depth)?,
            Type::Struct => self.structure(value, depth)?,
        }
        Ok(())
    }

    fn room_for(&self, bytes: usize) -> Result<(), Fault> {
        check_room(self.out, self.limit, bytes, self.rules)
    }

    fn text(&mut self, text: &str) -> Result<(), Fault> {
        self.pieces(text.as_bytes(), write_escaped)
    }

    /// Writes a text in pieces: escapes can make it six times as long as it is in the source, and the limit holds for what is written.
    fn pieces(&mut self, text: &[u8], write: impl Fn(&[u8], &mut Vec<u8>)) -> Result<(), Fault> {
        self.out.push(b'"');
        for piece in text.chunks(PIECE) {
            self.room_for(piece.len())?;
            write(piece, self.out);
        }
        self.out.push(b'"');
        Ok(())
    }

    fn sequence(&mut self, value: Value<'a>, depth: usize) -> Result<(), Fault> {
        check_depth(depth)?;
        self.out.push(b'[');
        for (i, item) in ion_binary::items(value).enumerate() {
            if i > 0 {
                self.out.push(b',');
            }
            self.value(item?, depth + 1)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn float(&mut self, float: f64) -> Result<(), Fault> {
        if float.is_finite() {
            self.out.extend_from_slice(ryu::Buffer::new().format_finite(float).as_bytes());
            return Ok(());
        }
        match self.rules.non_finite {
            NonFinite::Null => {
                self.notes.non_finite += 1;
                self.out.extend_from_slice(b"null");
            }
            NonFinite::String => self.out.extend_from_slice(match float {
                f if f.is_nan() => b"\"nan\"",
                f if f > 0.0 => b"\"+inf\"",
                _ => b"\"-inf\"",
            }),
            NonFinite::DeadLetter => return Err(Fault::new("not_finite", "expected a finite number, found NaN or an infinity")),
        }
        Ok(())
    }

    fn decimal(&mut self, body: &[u8]) -> Result<(), Fault> {
        let quoted = self.rules.decimals == Decimals::String;
        if quoted {
            self.out.push(b'"');
        }
        let (coefficient, exponent) = decimal(body)?;
        write_decimal(&coefficient, exponent, self.out)?;
        if quoted {
            self.out.push(b'"');
        }
        Ok(())
    }
}

/// Whether lists and structs may nest so deep.
///
/// # Errors
/// Levels beyond [`MAX_DEPTH`].
pub(super) fn check_depth(depth: usize) -> Result<(), Fault> {
    if depth <= MAX_DEPTH {
        return Ok(());
    }
    Err(Fault::new("nested_too_deeply", format!("expected at most {MAX_DEPTH} levels of lists and structs, found more")))
}

/// Whether `out` may have so many bytes more and still end at `limit`.
///
/// # Errors
/// A document beyond the limit of its table.
pub(super) fn check_room(out: &[u8], limit: usize, bytes: usize, rules: &Rules) -> Result<(), Fault> {
    if limit.checked_sub(out.len()).is_some_and(|room| bytes <= room) {
        return Ok(());
    }
    let reason = format!("expected a document of at most {} bytes as JSON, found a larger one", rules.limit);
    Err(Fault::new("document_too_large", reason))
}

fn write_base64(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]).unwrap_or(0);
    out.truncate(start + written);
    out.push(b'"');
}

fn write_clob(bytes: &[u8], out: &mut Vec<u8>) {
    for part in bytes.chunk_by(|a, b| a.is_ascii() == b.is_ascii()) {
        if part.is_ascii() {
            write_escaped(part, out);
        } else {
            part.iter().for_each(|byte| write_unicode_escape(*byte, out));
        }
    }
}

/// Appends a JSON string, quotes included.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    write_escaped(text.as_bytes(), out);
    out.push(b'"');
}

/// Appends a text as it stands inside of a JSON string.
pub(super) fn write_escaped(mut bytes: &[u8], out: &mut Vec<u8>) {
    loop {
        let (clean, rest) = bytes.split_at(clean_length(bytes));
        out.extend_from_slice(clean);
        let Some((byte, rest)) = rest.split_first() else { return };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0C => out.extend_from_slice(b"\\f"),
            _ => write_unicode_escape(*byte, out),
        }
        bytes = rest;
    }
}

/// Bytes before the first that needs an escape.
fn clean_length(bytes: &[u8]) -> usize {
    let mut at = 0;
    // Whole blocks without anything to escape are the rule; this comparison of 16 bytes at once is what makes them cheap.
    while let Some(block) = bytes[at..].first_chunk::<16>() {
        if block.iter().fold(false, |found, byte| found | needs_escape(*byte)) {
            break;
        }
        at += block.len();
    }
    at + bytes[at..].iter().position(|byte| needs_escape(*byte)).unwrap_or(bytes.len() - at)
}

fn needs_escape(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

fn write_unicode_escape(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\\u00");
    out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}

#[cfg(test)]
mod tests;
