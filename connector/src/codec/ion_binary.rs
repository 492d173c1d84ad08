//! Reading Ion 1.0 binary in place: values, symbols and nothing else (Amazon Ion Specification, "Ion 1.0 Binary Encoding").
//!
//! ion-rs reads text, makes hashes and is the oracle of the tests; on the hot path its lazy reader alone took more time than the whole line
//! may (`connector/benches/README.md`). This one borrows everything from the record and allocates one vector, for the symbols.
//!
//! Never copies a value, never recurses, never reads past the bytes it was given; anything that the specification does not allow is a fault.

use crate::record::Fault;

/// The version marker that begins Ion 1.0 binary.
pub const VERSION_MARKER: [u8; 4] = [0xE0, 0x01, 0x00, 0xEA];

/// Text of the symbols 1 to 9, which every table begins with.
const SYSTEM_SYMBOLS: [&str; 9] =
    ["$ion", "$ion_1_0", "$ion_symbol_table", "name", "version", "imports", "symbols", "max_id", "$ion_shared_symbol_table"];
const ION_SYMBOL_TABLE: u64 = 3;
const NAME: u64 = 4;
const IMPORTS: u64 = 6;
const SYMBOLS: u64 = 7;
const MAX_ID: u64 = 8;

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

/// The symbols that a value can name.
#[derive(Debug, Default)]
pub struct Symbols<'a> {
    /// Symbols of imported tables. A record cannot carry those tables, so their symbols have no text; only their number is known.
    imported: usize,
    local: Vec<Option<&'a str>>,
}

impl<'a> Symbols<'a> {
    /// The text of a symbol; `None` where it has none that is known.
    pub fn text(&self, id: u64) -> Option<&'a str> {
        let id = usize::try_from(id).ok()?;
        match id {
            0 => None,
            1..=9 => Some(SYSTEM_SYMBOLS[id - 1]),
            _ => *self.local.get((id - 10).checked_sub(self.imported)?)?,
        }
    }

    fn contains(&self, id: u64) -> bool {
        usize::try_from(id).is_ok_and(|id| id < self.local.len().saturating_add(self.imported).saturating_add(10))
    }
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
            return Err(damaged("an annotation wrapper without annotations"));
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
}

impl<'a> Reader<'a> {
    /// A reader of bytes that begin with the version marker.
    pub fn new(record: &'a [u8]) -> Self {
        Self { rest: Bytes(record), symbols: Symbols::default() }
    }

    /// The next value that is no symbol table, marker or padding, with the symbols that it was written with.
    ///
    /// # Errors
    /// Bytes that are no Ion; nothing can be read after them.
    pub fn next(&mut self) -> Result<Option<(Value<'a>, &Symbols<'a>)>, Fault> {
        loop {
            match self.rest.0 {
                [] => return Ok(None),
                [0xE0, rest @ ..] => match rest {
                    [1, 0, 0xEA, rest @ ..] => {
                        self.rest = Bytes(rest);
                        self.symbols = Symbols::default();
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
                    self.read_symbol_table(value)?;
                }
                _ => {
                    if let Some(value) = self.rest.value()? {
                        return Ok(Some((value, &self.symbols)));
                    }
                }
            }
        }
    }

    /// A local symbol table: `imports` and `symbols` ("Ion Symbols", section "Local Symbol Tables").
    fn read_symbol_table(&mut self, table: Value<'a>) -> Result<(), Fault> {
        let (mut imports, mut symbols) = (None, None);
        for field in fields(table) {
            let (name, value) = field?;
            let earlier = match name {
                IMPORTS => imports.replace(value),
                SYMBOLS => symbols.replace(value),
                _ => None,
            };
            if earlier.is_some() {
                return Err(damaged("a symbol table with a part that comes twice"));
            }
        }
        match imports {
            Some(Value { ion_type: Type::Symbol, null: false, body, .. }) if uint(body) == Some(ION_SYMBOL_TABLE) => {}
            imports => {
                self.symbols = Symbols::default();
                if let Some(list @ Value { ion_type: Type::List, .. }) = imports {
                    items(list).try_for_each(|import| self.import(import?))?;
                }
            }
        }
        if let Some(value @ Value { ion_type: Type::List, .. }) = symbols {
            for symbol in items(value) {
                let symbol = symbol?;
                // Anything but a string holds its place and has no text.
                let text = if symbol.ion_type == Type::String && !symbol.null { Some(utf8(symbol.body)?) } else { None };
                self.symbols.local.push(text);
            }
        }
        Ok(())
    }

    /// One imported table: a struct with a name other than `$ion`, else it counts for nothing. Without `max_id` its length is not known.
    fn import(&mut self, import: Value<'a>) -> Result<(), Fault> {
        if import.ion_type != Type::Struct {
            return Ok(());
        }
        let (mut named, mut length) = (false, None);
        for field in fields(import) {
            match field? {
                (NAME, Value { ion_type: Type::String, body, .. }) => named = !body.is_empty() && body != b"$ion",
                (MAX_ID, Value { ion_type: Type::PositiveInt, null: false, body, .. }) => length = uint(body),
                _ => {}
            }
        }
        if named {
            let length = length.and_then(|length| usize::try_from(length).ok()).and_then(|length| self.symbols.imported.checked_add(length));
            self.symbols.imported = length.ok_or_else(|| damaged("a symbol table that imports another one of no known length"))?;
        }
        Ok(())
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

/// A field's name.
///
/// # Errors
/// A symbol without a known text.
pub fn field_name<'a>(id: u64, symbols: &Symbols<'a>) -> Result<&'a str, Fault> {
    symbols.text(id).ok_or_else(|| damaged("a field name whose text is not in the symbol table"))
}

/// The text of a string or symbol; `None` for a null and for any other type.
///
/// # Errors
/// Bytes that are not UTF-8, a symbol without a known text.
pub fn text<'a>(value: Value<'a>, symbols: &Symbols<'a>) -> Result<Option<&'a str>, Fault> {
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

fn utf8(bytes: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(bytes).map_err(|_| damaged("a text that is not UTF-8"))
}
