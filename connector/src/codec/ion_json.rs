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
//! Never writes invalid JSON, never recurses deeper than [`MAX_DEPTH`], never writes more than the limit it is given.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ion_rs::{Decimal, Decoder, Int, LazyStruct, LazyValue, Timestamp, TimestampPrecision, ValueRef};

use crate::metrics::Notes;
use crate::record::Fault;

/// Levels of lists and structs that a document may have. OpenSearch maps 20 levels of objects by default.
pub const MAX_DEPTH: usize = 256;

/// Bytes of an integer or of a decimal's coefficient that are still written out: 2,466 decimal digits.
const MAX_NUMBER_BYTES: usize = 1024;

/// Digits of a decimal that are still written without an exponent.
const PLAIN_DIGITS: i64 = 40;

/// How decimals are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decimals {
    /// A JSON number with all its digits: exact in `_source`, a double in the index.
    #[default]
    Number,
    /// A JSON string: exact in a keyword field too.
    String,
}

/// What becomes of NaN and the infinities, which JSON does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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

/// Appends the struct's JSON form to `out`.
///
/// # Errors
/// A fault when the value cannot be decoded or written; `out` then ends in a part of the document.
pub fn write_document<D: Decoder>(fields: LazyStruct<'_, D>, rules: &Rules, out: &mut Vec<u8>, notes: &mut Notes) -> Result<(), Fault> {
    let limit = out.len().saturating_add(rules.limit);
    Writer { rules, limit, out, notes, fields: Vec::new() }.structure(fields, 1)
}

/// Appends any value's JSON form to `out`.
///
/// # Errors
/// As [`write_document`].
pub fn write_value<D: Decoder>(value: LazyValue<'_, D>, rules: &Rules, out: &mut Vec<u8>, notes: &mut Notes) -> Result<(), Fault> {
    let limit = out.len().saturating_add(rules.limit);
    Writer { rules, limit, out, notes, fields: Vec::new() }.value(value, 0)
}

/// The fault of bytes that are not the Ion they should be. ion-rs's own text is left out: it can quote the input.
pub(crate) fn undecodable(what: &str, error: &ion_rs::IonError) -> Fault {
    let cause = match error {
        ion_rs::IonError::Incomplete(_) => "it ends too early",
        ion_rs::IonError::Encoding(_) | ion_rs::IonError::IllegalOperation(_) => "it cannot be read",
        _ => "it is not valid Ion",
    };
    Fault::new("undecodable", format!("expected {what}: {cause}"))
}

struct Writer<'w, 'top> {
    rules: &'w Rules,
    limit: usize,
    out: &'w mut Vec<u8>,
    notes: &'w mut Notes,
    /// The fields written so far of every open struct, the innermost last: name, and where the field begins in `out`.
    fields: Vec<(&'top str, usize)>,
}

/// Fields of one struct up to which names are compared one by one.
const FEW_FIELDS: usize = 48;

impl<'top> Writer<'_, 'top> {
    fn structure<D: Decoder>(&mut self, fields: LazyStruct<'top, D>, depth: usize) -> Result<(), Fault> {
        self.check(depth)?;
        let first = self.fields.len();
        let mut seen = 0u64;
        let mut many: HashMap<&'top str, usize> = HashMap::new();
        let mut replaced: Vec<usize> = Vec::new();
        self.out.push(b'{');
        for field in &fields {
            let field = field.map_err(|e| undecodable("a field of a struct", &e))?;
            let name = field.name().map_err(|e| undecodable("a field name", &e))?;
            let Some(name) = name.text() else {
                return Err(Fault::new("undecodable", "expected a field name, found a symbol whose text is not in the symbol table"));
            };
            let bit = 1u64 << (name.bytes().fold(name.len() as u64, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b))) & 63);
            let mine = self.fields.len() - first;
            if mine == FEW_FIELDS {
                many = self.fields[first..].iter().enumerate().map(|(i, (name, _))| (*name, i)).collect();
            }
            let earlier = if mine >= FEW_FIELDS {
                many.insert(name, mine)
            } else if seen & bit != 0 {
                self.fields[first..].iter().rposition(|(other, _)| *other == name)
            } else {
                None
            };
            seen |= bit;
            if let Some(earlier) = earlier {
                self.notes.duplicate_fields += 1;
                replaced.push(earlier);
            }
            self.fields.push((name, self.out.len()));
            if mine > 0 {
                self.out.push(b',');
            }
            write_string(name, self.out);
            self.out.push(b':');
            self.value(field.value(), depth)?;
        }
        if !replaced.is_empty() {
            self.drop_replaced(first, &mut replaced);
        }
        self.fields.truncate(first);
        self.out.push(b'}');
        Ok(())
    }

    /// Takes fields that a later one replaced out of the innermost struct, in one pass.
    fn drop_replaced(&mut self, first: usize, replaced: &mut Vec<usize>) {
        replaced.sort_unstable();
        let starts: Vec<usize> = self.fields[first..].iter().map(|(_, start)| *start).collect();
        let Some(&begin) = starts.first() else { return };
        let tail = self.out.split_off(begin);
        let end_of = |i: usize| starts.get(i + 1).map_or(tail.len(), |next| next - begin);
        for (i, start) in starts.iter().enumerate() {
            if replaced.binary_search(&i).is_ok() {
                continue;
            }
            let field = &tail[start - begin..end_of(i)];
            let bare = field.strip_prefix(b",").unwrap_or(field);
            if self.out.len() > begin {
                self.out.push(b',');
            }
            self.out.extend_from_slice(bare);
        }
    }

    fn value<D: Decoder>(&mut self, value: LazyValue<'top, D>, depth: usize) -> Result<(), Fault> {
        if self.out.len() > self.limit {
            return Err(Fault::new(
                "document_too_large",
                format!("expected a document of at most {} bytes as JSON, found a larger one", self.rules.limit),
            ));
        }
        if value.has_annotations() {
            self.notes.annotations += 1;
        }
        match value.read().map_err(|e| undecodable("an Ion value", &e))? {
            ValueRef::Null(_) => self.out.extend_from_slice(b"null"),
            ValueRef::Bool(true) => self.out.extend_from_slice(b"true"),
            ValueRef::Bool(false) => self.out.extend_from_slice(b"false"),
            ValueRef::Int(int) => write_int(&int, self.out)?,
            ValueRef::Float(float) => self.float(float)?,
            ValueRef::Decimal(decimal) => self.decimal(&decimal)?,
            ValueRef::Timestamp(timestamp) => {
                self.out.push(b'"');
                write_timestamp(&timestamp, self.out);
                self.out.push(b'"');
            }
            ValueRef::String(text) => write_string(text.text(), self.out),
            ValueRef::Symbol(symbol) => match symbol.text() {
                Some(text) => write_string(text, self.out),
                None => {
                    return Err(Fault::new(
                        "undecodable",
                        "expected a symbol with a text, found one whose text is not in the symbol table",
                    ));
                }
            },
            ValueRef::Blob(bytes) => write_base64(bytes.data(), self.out),
            ValueRef::Clob(bytes) => write_clob(bytes.data(), self.out),
            ValueRef::List(list) => self.sequence(list.iter(), depth + 1)?,
            ValueRef::SExp(sexp) => self.sequence(sexp.iter(), depth + 1)?,
            ValueRef::Struct(fields) => self.structure(fields, depth + 1)?,
        }
        Ok(())
    }

    fn sequence<D: Decoder>(
        &mut self,
        items: impl Iterator<Item = ion_rs::IonResult<LazyValue<'top, D>>>,
        depth: usize,
    ) -> Result<(), Fault> {
        self.check(depth)?;
        self.out.push(b'[');
        for (i, item) in items.enumerate() {
            if i > 0 {
                self.out.push(b',');
            }
            self.value(item.map_err(|e| undecodable("an item of a list", &e))?, depth)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn check(&self, depth: usize) -> Result<(), Fault> {
        if depth <= MAX_DEPTH {
            return Ok(());
        }
        Err(Fault::new("nested_too_deeply", format!("expected at most {MAX_DEPTH} levels of lists and structs, found more")))
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

    fn decimal(&mut self, decimal: &Decimal) -> Result<(), Fault> {
        let quoted = self.rules.decimals == Decimals::String;
        if quoted {
            self.out.push(b'"');
        }
        write_decimal(decimal, self.out)?;
        if quoted {
            self.out.push(b'"');
        }
        Ok(())
    }
}

fn write_int(int: &Int, out: &mut Vec<u8>) -> Result<(), Fault> {
    if let Some(small) = int.as_i64() {
        out.extend_from_slice(itoa::Buffer::new().format(small).as_bytes());
    } else if let Some(large) = int.as_i128() {
        out.extend_from_slice(itoa::Buffer::new().format(large).as_bytes());
    } else {
        check_number(int.to_le_signed_bytes().len())?;
        out.extend_from_slice(int.to_string().as_bytes());
    }
    Ok(())
}

fn check_number(bytes: usize) -> Result<(), Fault> {
    if bytes <= MAX_NUMBER_BYTES {
        return Ok(());
    }
    Err(Fault::new("number_too_long", format!("expected a number of at most {MAX_NUMBER_BYTES} bytes, found one of {bytes}")))
}

/// Writes a decimal from its coefficient and exponent, with a point or an exponent, as JSON wants it.
fn write_decimal(decimal: &Decimal, out: &mut Vec<u8>) -> Result<(), Fault> {
    let coefficient = decimal.coefficient();
    if coefficient.is_negative() {
        out.push(b'-');
    }
    let magnitude = coefficient.magnitude();
    let mut small = itoa::Buffer::new();
    let large;
    let digits = match magnitude.as_u128() {
        Some(magnitude) => small.format(magnitude).as_bytes(),
        None => {
            check_number(magnitude.to_le_bytes().len())?;
            large = magnitude.to_string();
            large.as_bytes()
        }
    };
    let exponent = decimal.exponent();
    let length = digits.len() as i64;
    if exponent == 0 {
        out.extend_from_slice(digits);
        out.extend_from_slice(b".0");
    } else if exponent < 0 && exponent > -length {
        let (whole, fraction) = digits.split_at((length + exponent) as usize);
        out.extend_from_slice(whole);
        out.push(b'.');
        out.extend_from_slice(fraction);
    } else if exponent < 0 && exponent >= -PLAIN_DIGITS {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-exponent - length) as usize, b'0');
        out.extend_from_slice(digits);
    } else {
        out.extend_from_slice(digits);
        out.push(b'e');
        out.extend_from_slice(itoa::Buffer::new().format(exponent).as_bytes());
    }
    Ok(())
}

/// Writes a timestamp as its Ion text, without the `T` that ends a year, a month or a day.
pub(crate) fn write_timestamp(timestamp: &Timestamp, out: &mut Vec<u8>) {
    let precision = timestamp.precision();
    let pair = |out: &mut Vec<u8>, n: u32| out.extend_from_slice(&[b'0' + (n / 10 % 10) as u8, b'0' + (n % 10) as u8]);
    pair(out, timestamp.year() / 100);
    pair(out, timestamp.year());
    if precision == TimestampPrecision::Year {
        return;
    }
    out.push(b'-');
    pair(out, timestamp.month());
    if precision == TimestampPrecision::Month {
        return;
    }
    out.push(b'-');
    pair(out, timestamp.day());
    if precision == TimestampPrecision::Day {
        return;
    }
    out.push(b'T');
    pair(out, timestamp.hour());
    out.push(b':');
    pair(out, timestamp.minute());
    if precision == TimestampPrecision::Second {
        out.push(b':');
        pair(out, timestamp.second());
        write_fraction(timestamp, out);
    }
    match timestamp.offset() {
        None => out.extend_from_slice(b"-00:00"),
        Some(0) => out.push(b'Z'),
        Some(minutes) => {
            out.push(if minutes < 0 { b'-' } else { b'+' });
            pair(out, minutes.unsigned_abs() / 60);
            out.push(b':');
            pair(out, minutes.unsigned_abs() % 60);
        }
    }
}

fn write_fraction(timestamp: &Timestamp, out: &mut Vec<u8>) {
    let Some(scale) = timestamp.fractional_seconds_scale() else { return };
    out.push(b'.');
    if scale <= 9 {
        let nanoseconds = timestamp.nanoseconds() + 1_000_000_000;
        let digits = itoa::Buffer::new().format(nanoseconds).as_bytes()[1..].to_owned();
        out.extend_from_slice(&digits[..scale as usize]);
        return;
    }
    // Beyond nanoseconds ion-rs gives the digits only in its text form.
    let text = timestamp.to_string();
    let fraction = text.split_once('.').map_or("", |(_, rest)| rest);
    out.extend(fraction.bytes().take_while(u8::is_ascii_digit));
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
    out.push(b'"');
    for part in bytes.chunk_by(|a, b| a.is_ascii() == b.is_ascii()) {
        match std::str::from_utf8(part) {
            Ok(text) if part[0].is_ascii() => write_escaped(text, out),
            _ => part.iter().for_each(|byte| write_unicode_escape(*byte, out)),
        }
    }
    out.push(b'"');
}

/// Appends a JSON string, quotes included.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    write_escaped(text, out);
    out.push(b'"');
}

fn write_escaped(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    let mut clean = 0;
    let mut at = 0;
    while at < bytes.len() {
        // Whole blocks without anything to escape are the rule; this comparison of 16 bytes at once is what makes them cheap.
        if let Some(block) = bytes[at..].first_chunk::<16>() {
            if block.iter().fold(false, |found, b| found | needs_escape(*b)) == false {
                at += 16;
                continue;
            }
        }
        let byte = bytes[at];
        if needs_escape(byte) {
            out.extend_from_slice(&bytes[clean..at]);
            match byte {
                b'"' => out.extend_from_slice(b"\\\""),
                b'\\' => out.extend_from_slice(b"\\\\"),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                _ => write_unicode_escape(byte, out),
            }
            clean = at + 1;
        }
        at += 1;
    }
    out.extend_from_slice(&bytes[clean..]);
}

fn needs_escape(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

fn write_unicode_escape(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\\u00");
    out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}
