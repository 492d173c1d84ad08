//! Reading Ion 1.0 binary in place: values, symbols and nothing else (Amazon Ion Specification, "Ion 1.0 Binary Encoding").
//!
//! ion-rs reads text, makes hashes and is the oracle of the tests; on the hot path its lazy reader alone took more time than the whole line
//! may (`connector/benches/README.md`). This one borrows everything from the record and allocates one vector, for the symbols.
//!
//! Never copies a value, never recurses, never reads past the bytes it was given; anything that the specification does not allow is a fault.

use std::sync::Arc;

use super::ion_symbols::{ION_SYMBOL_TABLE, Known, Symbols};
use crate::record::Fault;

/// The version marker that begins Ion 1.0 binary.
pub const VERSION_MARKER: [u8; 4] = [0xE0, 0x01, 0x00, 0xEA];

/// The type of a value: the high half of its type descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the specification")]
pub enum Type {
    Null,
    Bool,
    PositiveInt,
    NegativeInt,
    Float,
    Decimal,
    Timestamp,
    Symbol,
    String,
    Clob,
    Blob,
    List,
    SExp,
    Struct,
}

/// One value, not yet interpreted.
#[derive(Debug, Clone, Copy)]
pub struct Value<'a> {
    /// Its type.
    pub ion_type: Type,
    /// Whether it is the null of its type.
    pub null: bool,
    /// Its annotations, by their number; none of them is kept.
    pub annotations: u32,
    /// Its representation, without descriptor and length; for a bool one byte, 0 or 1.
    pub body: &'a [u8],
}

pub(super) fn damaged(what: &str) -> Fault {
    Fault::new("undecodable", format!("expected Ion binary, found {what}"))
}

/// Bytes being read, from the front.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    fn byte(&mut self) -> Result<u8, Fault> {
        let (first, rest) = self.0.split_first().ok_or_else(|| damaged("a value that ends too early"))?;
        self.0 = rest;
        Ok(*first)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Fault> {
        let length = usize::try_from(length).ok().filter(|length| *length <= self.0.len());
        let length = length.ok_or_else(|| damaged("a value that is longer than what holds it"))?;
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(taken)
    }

    /// A VarUInt: seven bits a byte, the last byte with its high bit set.
    pub(super) fn var_uint(&mut self) -> Result<u64, Fault> {
        let mut number = 0u64;
        loop {
            let byte = self.byte()?;
            if number > u64::MAX >> 7 {
                return Err(damaged("a number of more than 64 bits where a length or a symbol is meant"));
            }
            number = number << 7 | u64::from(byte & 0x7F);
            if byte & 0x80 != 0 {
                return Ok(number);
            }
        }
    }

    /// A VarInt: as a VarUInt, with a sign in the second bit; gives the sign apart, as there is a negative zero.
    pub(super) fn var_int(&mut self) -> Result<(bool, i64), Fault> {
        let first = self.byte()?;
        let negative = first & 0x40 != 0;
        let mut number = i64::from(first & 0x3F);
        let mut last = first & 0x80 != 0;
        while !last {
            let byte = self.byte()?;
            if number > i64::MAX >> 7 {
                return Err(damaged("an exponent or offset of more than 63 bits"));
            }
            number = number << 7 | i64::from(byte & 0x7F);
            last = byte & 0x80 != 0;
        }
        Ok((negative, if negative { -number } else { number }))
    }

    /// The bytes of the next value as a whole.
    pub(super) fn next_whole(&mut self) -> Result<&'a [u8], Fault> {
        let before = self.0;
        self.value()?;
        Ok(&before[..before.len() - self.0.len()])
    }

    /// The next value; `None` for padding.
    fn value(&mut self) -> Result<Option<Value<'a>>, Fault> {
        let descriptor = self.byte()?;
        if descriptor >> 4 == 0xE {
            return self.annotated(descriptor & 0xF).map(Some);
        }
        self.plain(descriptor)
    }

    fn plain(&mut self, descriptor: u8) -> Result<Option<Value<'a>>, Fault> {
        let (kind, low) = (descriptor >> 4, descriptor & 0xF);
        let ion_type = match kind {
            0 => Type::Null,
            1 => Type::Bool,
            2 => Type::PositiveInt,
            3 => Type::NegativeInt,
            4 => Type::Float,
            5 => Type::Decimal,
            6 => Type::Timestamp,
            7 => Type::Symbol,
            8 => Type::String,
            9 => Type::Clob,
            10 => Type::Blob,
            11 => Type::List,
            12 => Type::SExp,
            13 => Type::Struct,
            _ => return Err(damaged(&format!("a type descriptor {descriptor:#04X} that means nothing"))),
        };
        if low == 15 {
            return Ok(Some(Value { ion_type, null: true, annotations: 0, body: &[] }));
        }
        if ion_type == Type::Bool {
            const FALSE_TRUE: [[u8; 1]; 2] = [[0], [1]];
            let body = FALSE_TRUE.get(usize::from(low)).ok_or_else(|| damaged("a bool that is neither true nor false"))?;
            return Ok(Some(Value { ion_type, null: false, annotations: 0, body }));
        }
        let length = match low {
            14 => self.var_uint()?,
            // A struct of length 1 is one with ordered fields, and its length follows.
            1 if ion_type == Type::Struct => match self.var_uint()? {
                0 => return Err(damaged("an ordered struct without fields")),
                length => length,
            },
            low => u64::from(low),
        };
        let body = self.take(length)?;
        if ion_type == Type::Null {
            return Ok(None);
        }
        Ok(Some(Value { ion_type, null: false, annotations: 0, body }))
    }

    fn annotated(&mut self, low: u8) -> Result<Value<'a>, Fault> {
        let (annotations, mut wrapped) = self.annotation_wrapper(low)?;
        if annotations.last().is_none_or(|last| last & 0x80 == 0) {
            return Err(damaged("an annotation wrapper without a whole annotation"));
        }
        let annotations = annotations.iter().filter(|byte| **byte & 0x80 != 0).count();
        let descriptor = wrapped.byte()?;
        // A wrapper in a wrapper comes to this too: 0xE is no type of a plain value.
        let value = wrapped.plain(descriptor)?.filter(|_| wrapped.0.is_empty());
        let value = value.ok_or_else(|| damaged("an annotation wrapper that does not hold exactly one value"))?;
        Ok(Value { annotations: u32::try_from(annotations).unwrap_or(u32::MAX), ..value })
    }

    /// The bytes of the annotations, and of the value that has them.
    fn annotation_wrapper(&mut self, low: u8) -> Result<(&'a [u8], Self), Fault> {
        let length = match low {
            14 => self.var_uint()?,
            3..=13 => u64::from(low),
            _ => return Err(damaged("an annotation wrapper of no legal length")),
        };
        let mut wrapped = Self(self.take(length)?);
        let annotations = wrapped.var_uint()?;
        Ok((wrapped.take(annotations)?, wrapped))
    }
}

/// Reads the top-level values of a record.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: Bytes<'a>,
    symbols: Symbols<'a>,
    /// The marker and the tables in force, where somebody wants to know.
    context: Option<Vec<&'a [u8]>>,
    /// Bytes from the beginning of the last value on.
    last: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of bytes that begin with the version marker.
    pub fn new(record: &'a [u8]) -> Self {
        Self { rest: Bytes(record), symbols: Symbols::default(), context: None, last: record }
    }

    /// A reader of bytes of which the first `length` define these symbols.
    pub(super) fn behind(record: &'a [u8], length: usize, known: Arc<Known>) -> Self {
        Self { rest: Bytes(&record[length..]), symbols: Symbols::known(known), ..Self::new(record) }
    }

    /// From now on [`last_by_itself`](Self::last_by_itself) can be asked for. Not before the first value only.
    pub(super) fn keep_context(&mut self) {
        let read = self.last.len() - self.rest.0.len();
        self.context = Some(vec![&self.last[..read]]);
    }

    /// The last value as a record of its own, with the tables that it needs.
    pub(super) fn last_by_itself(&self) -> Vec<u8> {
        let value = &self.last[..self.last.len() - self.rest.0.len()];
        let mut record = self.context();
        record.extend_from_slice(value);
        record
    }

    /// The marker and the tables that the last value needs; empty unless they are kept.
    pub(super) fn context(&self) -> Vec<u8> {
        self.context.iter().flatten().copied().collect::<Vec<_>>().concat()
    }

    /// What was read last is a part of the context of what follows.
    fn note_context(&mut self) {
        if let Some(context) = &mut self.context {
            context.push(&self.last[..self.last.len() - self.rest.0.len()]);
        }
    }

    /// The symbols that the last value was written with.
    pub(super) fn symbols(&self) -> &Symbols<'a> {
        &self.symbols
    }

    /// Bytes from the beginning of the last value on.
    pub(super) fn left_with_last(&self) -> usize {
        self.last.len()
    }

    /// The next value that is no symbol table, marker or padding, with the symbols that it was written with.
    ///
    /// # Errors
    /// Bytes that are no Ion; nothing can be read after them.
    pub fn next_value(&mut self) -> Result<Option<(Value<'a>, &Symbols<'a>)>, Fault> {
        loop {
            self.last = self.rest.0;
            match self.rest.0 {
                [] => return Ok(None),
                [0xE0, rest @ ..] => match rest {
                    [1, 0, 0xEA, rest @ ..] => {
                        self.rest = Bytes(rest);
                        self.symbols = Symbols::default();
                        self.context.iter_mut().for_each(Vec::clear);
                        self.note_context();
                    }
                    _ => return Err(damaged("a version marker other than that of Ion 1.0")),
                },
                [descriptor, ..] if descriptor >> 4 == 0xE => {
                    let mut ahead = Bytes(&self.rest.0[1..]);
                    let (annotations, _) = ahead.annotation_wrapper(descriptor & 0xF)?;
                    let value = self.rest.value()?.ok_or_else(|| damaged("annotated padding"))?;
                    let first = Bytes(annotations).var_uint()?;
                    if first != ION_SYMBOL_TABLE || value.ion_type != Type::Struct {
                        return Ok(Some((value, &self.symbols)));
                    }
                    self.symbols.read_table(value)?;
                    self.note_context();
                }
                _ => {
                    if let Some(value) = self.rest.value()? {
                        return Ok(Some((value, &self.symbols)));
                    }
                }
            }
        }
    }
}

/// The fields of a struct: symbol and value. Ends with the first fault.
pub fn fields(value: Value<'_>) -> impl Iterator<Item = Result<(u64, Value<'_>), Fault>> {
    let mut rest = Bytes(value.body);
    std::iter::from_fn(move || {
        while !rest.0.is_empty() {
            let field = rest.var_uint().and_then(|name| Ok(rest.value()?.map(|value| (name, value))));
            match field {
                Ok(None) => {}
                Ok(Some(field)) => return Some(Ok(field)),
                Err(fault) => {
                    rest.0 = &[];
                    return Some(Err(fault));
                }
            }
        }
        None
    })
}

/// The items of a list or an s-expression. Ends with the first fault.
pub fn items(value: Value<'_>) -> impl Iterator<Item = Result<Value<'_>, Fault>> {
    let mut rest = Bytes(value.body);
    std::iter::from_fn(move || {
        while !rest.0.is_empty() {
            match rest.value() {
                Ok(None) => {}
                Ok(Some(value)) => return Some(Ok(value)),
                Err(fault) => {
                    rest.0 = &[];
                    return Some(Err(fault));
                }
            }
        }
        None
    })
}

/// The next item of a list's bytes, and its bytes as a whole.
pub(super) fn next_item<'a>(rest: &mut Bytes<'a>) -> Result<Option<(Value<'a>, &'a [u8])>, Fault> {
    while !rest.0.is_empty() {
        let before = rest.0;
        if let Some(value) = rest.value()? {
            return Ok(Some((value, &before[..before.len() - rest.0.len()])));
        }
    }
    Ok(None)
}

/// A field's name.
///
/// # Errors
/// A symbol without a known text.
pub fn field_name<'a>(id: u64, symbols: &'a Symbols<'_>) -> Result<&'a str, Fault> {
    symbols.text(id).ok_or_else(|| damaged("a field name whose text is not in the symbol table"))
}

/// The text of a string or symbol; `None` for a null and for any other type.
///
/// # Errors
/// Bytes that are not UTF-8, a symbol without a known text.
pub fn text<'a>(value: Value<'a>, symbols: &'a Symbols<'_>) -> Result<Option<&'a str>, Fault> {
    match value.ion_type {
        _ if value.null => Ok(None),
        Type::String => utf8(value.body).map(Some),
        Type::Symbol => {
            let id =
                uint(value.body).filter(|id| symbols.contains(*id)).ok_or_else(|| damaged("a symbol that is not in the symbol table"))?;
            symbols.text(id).map(Some).ok_or_else(|| damaged("a symbol whose text is not in the symbol table"))
        }
        _ => Ok(None),
    }
}

/// A UInt of at most 64 bits: big-endian magnitude.
pub fn uint(body: &[u8]) -> Option<u64> {
    let first = body.iter().position(|byte| *byte != 0).unwrap_or(body.len());
    let significant = &body[first..];
    (significant.len() <= 8).then(|| significant.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// A float of 0, 4 or 8 bytes.
///
/// # Errors
/// Any other length.
pub fn float(body: &[u8]) -> Result<f64, Fault> {
    match body {
        [] => Ok(0.0),
        [a, b, c, d] => Ok(f64::from(f32::from_be_bytes([*a, *b, *c, *d]))),
        [a, b, c, d, e, f, g, h] => Ok(f64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h])),
        _ => Err(damaged("a float that has neither 4 nor 8 bytes")),
    }
}

pub(super) fn utf8(bytes: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(bytes).map_err(|_| damaged("a text that is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a record's values are, each as its type and body, or the word of the fault that ended them.
    fn read(values: &[u8]) -> Vec<Result<(Type, Vec<u8>), String>> {
        let record = [&VERSION_MARKER[..], values].concat();
        let mut reader = Reader::new(&record);
        let mut found = Vec::new();
        loop {
            match reader.next_value() {
                Ok(Some((value, _))) => found.push(Ok((value.ion_type, value.body.to_vec()))),
                Ok(None) => return found,
                Err(fault) => {
                    assert_eq!(fault.kind, "undecodable");
                    found.push(Err(fault.reason.strip_prefix("expected Ion binary, found ").unwrap().to_owned()));
                    return found;
                }
            }
        }
    }

    fn one(value: &[u8]) -> (Type, Vec<u8>) {
        let found = read(value);
        assert_eq!(found.len(), 1, "{value:02X?}: {found:?}");
        found[0].clone().unwrap()
    }

    fn refused(value: &[u8]) -> String {
        read(value).pop().unwrap().unwrap_err()
    }

    fn numbers(list: &[u8]) -> Vec<u64> {
        let mut bytes = Bytes(list);
        let value = bytes.value().unwrap().unwrap();
        assert!(bytes.0.is_empty());
        match value.ion_type {
            Type::Struct => fields(value).map(|field| field.unwrap().0).collect(),
            _ => items(value).map(|item| uint(item.unwrap().body).unwrap()).collect(),
        }
    }

    #[test]
    fn every_type_is_told_by_its_descriptor() {
        for (value, expected, body) in [
            (&[0x10][..], Type::Bool, &[0][..]),
            (&[0x11], Type::Bool, &[1]),
            (&[0x21, 7], Type::PositiveInt, &[7]),
            (&[0x31, 7], Type::NegativeInt, &[7]),
            (&[0x40], Type::Float, &[]),
            (&[0x52, 0xC1, 5], Type::Decimal, &[0xC1, 5]),
            (&[0x63, 0xC0, 0x0F, 0xE0], Type::Timestamp, &[0xC0, 0x0F, 0xE0]),
            (&[0x71, 4], Type::Symbol, &[4]),
            (&[0x81, b'a'], Type::String, b"a"),
            (&[0x91, b'a'], Type::Clob, b"a"),
            (&[0xA1, b'a'], Type::Blob, b"a"),
            (&[0xB1, 0x20], Type::List, &[0x20]),
            (&[0xC1, 0x20], Type::SExp, &[0x20]),
            (&[0xD2, 0x84, 0x20], Type::Struct, &[0x84, 0x20]),
        ] {
            assert_eq!(one(value), (expected, body.to_vec()));
        }
    }

    #[test]
    fn every_type_has_a_null() {
        for kind in 0..14u8 {
            let record = [&VERSION_MARKER[..], &[kind << 4 | 15]].concat();
            let mut reader = Reader::new(&record);
            let (value, symbols) = reader.next_value().unwrap().unwrap();
            assert!(value.null && value.body.is_empty(), "{kind}");
            assert_eq!(text(value, symbols), Ok(None));
        }
    }

    #[test]
    fn a_length_may_follow_in_any_number_of_bytes() {
        assert_eq!(one(&[0x8E, 0x81, b'a']), (Type::String, b"a".to_vec()));
        assert_eq!(one(&[0x8E, 0x00, 0x00, 0x81, b'a']), (Type::String, b"a".to_vec()));
        assert_eq!(one(&[0x8E, 0x80]), (Type::String, Vec::new()));
        assert_eq!(one(&[0xDE, 0x80]), (Type::Struct, Vec::new()));
        let long = vec![b'x'; 300];
        assert_eq!(one(&[&[0x8E, 0x02, 0xAC][..], &long].concat()), (Type::String, long));
    }

    #[test]
    fn padding_is_passed_over_wherever_it_may_be() {
        assert_eq!(read(&[]), []);
        assert_eq!(read(&[0x00]), []);
        assert_eq!(read(&[0x0E, 0x83, 1, 2, 3]), []);
        assert_eq!(one(&[0x00, 0x02, 9, 9, 0x21, 7, 0x01, 9]), (Type::PositiveInt, vec![7]));
        assert_eq!(numbers(&[0xB7, 0x00, 0x21, 1, 0x01, 0xFF, 0x21, 2]), [1, 2], "between items");
        assert_eq!(numbers(&[0xB1, 0x00]), [] as [u64; 0], "instead of items");
        assert_eq!(numbers(&[0xD7, 0x80, 0x00, 0x84, 0x20, 0x85, 0x01, 0xFF]), [4], "between fields, under any name");
        let too_long = refused(&[0x0E, 0x84, 1, 2, 3]);
        assert_eq!(too_long, "a value that is longer than what holds it");
    }

    #[test]
    fn a_struct_may_say_that_its_fields_are_ordered() {
        assert_eq!(numbers(&[0xD1, 0x84, 0x84, 0x20, 0x85, 0x20]), [4, 5]);
        assert_eq!(refused(&[0xD1, 0x80]), "an ordered struct without fields");
    }

    #[test]
    fn annotations_wrap_exactly_one_value() {
        for (value, count) in
            [(&[0xE3, 0x81, 0x84, 0x20][..], 1), (&[0xE5, 0x83, 0x84, 0x00, 0x85, 0x20], 2), (&[0xEE, 0x83, 0x81, 0x84, 0x20], 1)]
        {
            let record = [&VERSION_MARKER[..], value].concat();
            let mut reader = Reader::new(&record);
            assert_eq!(reader.next_value().unwrap().unwrap().0.annotations, count, "{value:02X?}");
            assert!(reader.next_value().unwrap().is_none());
        }
        for (value, what) in [
            (&[0xE3, 0x80, 0x20, 0x20][..], "an annotation wrapper without a whole annotation"),
            (&[0xE3, 0x81, 0x04, 0x20], "an annotation wrapper without a whole annotation"),
            (&[0xE4, 0x81, 0x84, 0x20, 0x20], "an annotation wrapper that does not hold exactly one value"),
            (&[0xE3, 0x81, 0x84, 0x00], "an annotation wrapper that does not hold exactly one value"),
            (&[0xE3, 0x82, 0x84, 0x84], "a value that ends too early"),
            (&[0xE3, 0x83, 0x84, 0x84], "a value that is longer than what holds it"),
            (&[0xE2, 0x81, 0x84], "an annotation wrapper of no legal length"),
            (&[0xEF, 0x81, 0x84], "an annotation wrapper of no legal length"),
            (&[0xE6, 0x81, 0x84, 0xE3, 0x81, 0x84, 0x20], "a type descriptor 0xE3 that means nothing"),
        ] {
            assert_eq!(refused(value), what, "{value:02X?}");
        }
    }

    #[test]
    fn damage_is_a_fault_and_ends_the_record() {
        for (value, what) in [
            (&[0x21][..], "a value that is longer than what holds it"),
            (&[0x8E], "a value that ends too early"),
            (&[0x8E, 0x01], "a value that ends too early"),
            (
                &[0x8E, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0xFF],
                "a number of more than 64 bits where a length or a symbol is meant",
            ),
            (&[0x8E, 0x01, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0xFF], "a value that is longer than what holds it"),
            (&[0x12], "a bool that is neither true nor false"),
            (&[0x1E], "a bool that is neither true nor false"),
            (&[0xF0], "a type descriptor 0xF0 that means nothing"),
            (&[0xFF], "a type descriptor 0xFF that means nothing"),
            (&[0xE0, 0x01, 0x01, 0xEA], "a version marker other than that of Ion 1.0"),
            (&[0xE0, 0x01, 0x00], "a version marker other than that of Ion 1.0"),
        ] {
            assert_eq!(refused(value), what, "{value:02X?}");
            let after = [&[0x21, 7][..], value].concat();
            assert_eq!(read(&after), [Ok((Type::PositiveInt, vec![7])), Err(what.to_owned())]);
        }
    }

    #[test]
    fn damage_inside_a_container_ends_what_is_read_of_it() {
        let value = |bytes: &'static [u8]| Bytes(bytes).value().unwrap().unwrap();
        let found: Vec<_> = items(value(&[0xB4, 0x21, 1, 0x22, 9])).map(|item| item.map(|item| item.body)).collect();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].as_ref(), found[1].is_err()), (Ok(&&[1u8][..]), true));
        let found: Vec<_> = fields(value(&[0xD4, 0x84, 0x20, 0x85, 0x21])).map(|field| field.map(|(name, _)| name)).collect();
        assert_eq!((found[0].as_ref(), found[1].is_err(), found.len()), (Ok(&4), true, 2));
    }

    #[test]
    fn signed_numbers_of_variable_length_have_a_negative_zero() {
        for (bytes, expected) in [
            (&[0x80][..], (false, 0)),
            (&[0xC0], (true, 0)),
            (&[0xC1], (true, -1)),
            (&[0xBF], (false, 63)),
            (&[0x00, 0xC0], (false, 64)),
            (&[0x40, 0xC0], (true, -64)),
            (&[0x00, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0xFF], (false, i64::MAX)),
            (&[0x40, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0xFF], (true, -i64::MAX)),
        ] {
            assert_eq!(Bytes(bytes).var_int(), Ok(expected), "{bytes:02X?}");
        }
        assert!(Bytes(&[0x01, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0xFF]).var_int().is_err());
        assert!(Bytes(&[0x00]).var_int().is_err());
        assert!(Bytes(&[]).var_int().is_err());
    }

    #[test]
    fn unsigned_numbers_may_have_zeros_before_them() {
        for (bytes, expected) in [
            (&[][..], Some(0)),
            (&[0, 0, 1, 0], Some(256)),
            (&[0xFF; 8], Some(u64::MAX)),
            (&[0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], Some(u64::MAX)),
            (&[1, 0, 0, 0, 0, 0, 0, 0, 0], None),
        ] {
            assert_eq!(uint(bytes), expected, "{bytes:02X?}");
        }
    }

    #[test]
    fn texts_must_be_utf_8() {
        let symbols = Symbols::default();
        let of = |body| text(Value { ion_type: Type::String, null: false, annotations: 0, body }, &symbols);
        assert_eq!(of("é".as_bytes()), Ok(Some("é")));
        assert!(of(b"\xFF").is_err());
    }
}
