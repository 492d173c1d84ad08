//! One Ion value as Ion binary, for the texts: ion-rs reads them, and the line has one reader, for binary.
//!
//! ion-rs's own writer copies a value once for each level that it is nested, and keeps every copy until it is done: a document of 8 MiB took 60.
//! Here containers are written where they belong, under a length of fixed width (padding is legal: Amazon Ion Specification, "VarUInt and VarInt
//! Fields"), and only numbers and timestamps are left to ion-rs. Never recurses deeper than a text may nest.

use std::collections::HashMap;

use ion_rs::v1_0::Binary;
use ion_rs::{Element, IonType, Sequence, Symbol, Value, Writer};

use super::ion_binary::{Bytes, Type, VERSION_MARKER};
use super::ion_symbols::ION_SYMBOL_TABLE;
use super::ion_text::guarded;
use crate::record::Fault;

/// The symbols of a table begin behind those of the system.
const FIRST: u64 = 10;

/// `symbols` in the system's table.
const SYMBOLS: u64 = 7;

/// The annotation wrapper's type code.
const ANNOTATED: u8 = 14;

/// A value with the marker and the table that it needs.
///
/// # Errors
/// What ion-rs does not write: decimals and timestamps of more than 32 bytes.
pub(super) fn encode(element: &Element) -> Result<Vec<u8>, Fault> {
    let mut first = First { symbols: Vec::new(), numbers: HashMap::new(), scalars: Vec::new() };
    first.look(element);
    let scalars = guarded(|| scalars(&first.scalars).ok())
        .map_err(|_| Fault::new("undecodable", "expected Ion text with numbers of at most 70 digits, found longer ones"))?;
    let scalars = Bytes(scalars.strip_prefix(&VERSION_MARKER).unwrap_or(&scalars));
    let mut second = Second { numbers: first.numbers, scalars, out: VERSION_MARKER.to_vec() };
    if !first.symbols.is_empty() {
        second.table(&first.symbols);
    }
    second.element(element)?;
    Ok(second.out)
}

/// Numbers and timestamps, one behind the other.
fn scalars(values: &[&Value]) -> ion_rs::IonResult<Vec<u8>> {
    let mut writer = Writer::new(Binary, Vec::new())?;
    for value in values {
        writer.write(*value)?;
    }
    writer.close()
}

/// The first look: which symbols there are, and what ion-rs has to write.
struct First<'e> {
    symbols: Vec<&'e str>,
    numbers: HashMap<&'e str, u64>,
    scalars: Vec<&'e Value>,
}

impl<'e> First<'e> {
    fn look(&mut self, element: &'e Element) {
        element.annotations().iter().for_each(|annotation| self.name(annotation));
        match element.value() {
            Value::Symbol(symbol) => self.name(symbol),
            value @ (Value::Int(_) | Value::Float(_) | Value::Decimal(_) | Value::Timestamp(_)) => self.scalars.push(value),
            Value::List(items) | Value::SExp(items) => items.elements().for_each(|item| self.look(item)),
            Value::Struct(fields) => fields.fields().for_each(|(name, value)| {
                self.name(name);
                self.look(value);
            }),
            Value::Null(_) | Value::Bool(_) | Value::String(_) | Value::Clob(_) | Value::Blob(_) => {}
        }
    }

    fn name(&mut self, symbol: &'e Symbol) {
        let Some(text) = symbol.text() else { return };
        let next = FIRST + self.symbols.len() as u64;
        if *self.numbers.entry(text).or_insert(next) == next {
            self.symbols.push(text);
        }
    }
}

/// The second look writes.
struct Second<'e> {
    numbers: HashMap<&'e str, u64>,
    scalars: Bytes<'e>,
    out: Vec<u8>,
}

impl Second<'_> {
    fn table(&mut self, symbols: &[&str]) {
        let wrapper = self.open(ANNOTATED);
        self.out.extend_from_slice(&[0x81, 0x80 | ION_SYMBOL_TABLE as u8]);
        let table = self.open(Type::Struct as u8);
        self.var_uint(SYMBOLS);
        let list = self.open(Type::List as u8);
        for symbol in symbols {
            self.bytes(Type::String, symbol.as_bytes());
        }
        [list, table, wrapper].into_iter().for_each(|begin| self.close(begin));
    }

    fn element(&mut self, element: &Element) -> Result<(), Fault> {
        if element.annotations().is_empty() {
            return self.value(element.value());
        }
        let wrapper = self.open(ANNOTATED);
        let numbers: Vec<u64> = element.annotations().iter().map(|annotation| self.number(annotation)).collect();
        self.var_uint(numbers.iter().map(|number| width(*number)).sum());
        numbers.into_iter().for_each(|number| self.var_uint(number));
        self.value(element.value())?;
        self.close(wrapper);
        Ok(())
    }

    fn value(&mut self, value: &Value) -> Result<(), Fault> {
        match value {
            Value::Null(ion_type) => self.out.push((code(*ion_type) as u8) << 4 | 15),
            Value::Bool(is) => self.out.push((Type::Bool as u8) << 4 | u8::from(*is)),
            Value::Int(_) | Value::Float(_) | Value::Decimal(_) | Value::Timestamp(_) => {
                let scalar = self.scalars.next_whole()?;
                self.out.extend_from_slice(scalar);
            }
            Value::Symbol(symbol) => {
                let number = self.number(symbol).to_be_bytes();
                let first = number.iter().position(|byte| *byte != 0).unwrap_or(number.len());
                self.bytes(Type::Symbol, &number[first..]);
            }
            Value::String(text) => self.bytes(Type::String, text.text().as_bytes()),
            Value::Clob(bytes) => self.bytes(Type::Clob, bytes.as_ref()),
            Value::Blob(bytes) => self.bytes(Type::Blob, bytes.as_ref()),
            Value::List(items) => self.sequence(Type::List, items)?,
            Value::SExp(items) => self.sequence(Type::SExp, items)?,
            Value::Struct(fields) => {
                let begin = self.open(Type::Struct as u8);
                for (name, value) in fields.fields() {
                    self.var_uint(self.number(name));
                    self.element(value)?;
                }
                self.close(begin);
            }
        }
        Ok(())
    }

    fn sequence(&mut self, ion_type: Type, items: &Sequence) -> Result<(), Fault> {
        let begin = self.open(ion_type as u8);
        items.elements().try_for_each(|item| self.element(item))?;
        self.close(begin);
        Ok(())
    }

    /// A symbol's number; 0 for one without a text.
    fn number(&self, symbol: &Symbol) -> u64 {
        symbol.text().and_then(|text| self.numbers.get(text)).copied().unwrap_or_default()
    }

    fn bytes(&mut self, ion_type: Type, bytes: &[u8]) {
        match u8::try_from(bytes.len()) {
            Ok(length @ 0..14) => self.out.push((ion_type as u8) << 4 | length),
            _ => {
                self.out.push((ion_type as u8) << 4 | 14);
                self.var_uint(bytes.len() as u64);
            }
        }
        self.out.extend_from_slice(bytes);
    }

    /// Begins a container; gives the place behind its length.
    fn open(&mut self, code: u8) -> usize {
        self.out.extend_from_slice(&[code << 4 | 14, 0, 0, 0, 0, 0]);
        self.out.len()
    }

    fn close(&mut self, begin: usize) {
        let length = self.out.len() - begin;
        for (place, digit) in (begin - LENGTH..begin).rev().zip(0..) {
            self.out[place] = (length >> (7 * digit) & 0x7F) as u8 | if digit == 0 { 0x80 } else { 0 };
        }
    }

    fn var_uint(&mut self, number: u64) {
        for digit in (0..width(number)).rev() {
            self.out.push((number >> (7 * digit) & 0x7F) as u8 | if digit == 0 { 0x80 } else { 0 });
        }
    }
}

/// Bytes of a container's length: 35 bits.
const LENGTH: usize = 5;

/// Bytes of a VarUInt.
fn width(number: u64) -> u64 {
    u64::from(number.checked_ilog2().unwrap_or_default()) / 7 + 1
}

fn code(ion_type: IonType) -> Type {
    match ion_type {
        IonType::Null => Type::Null,
        IonType::Bool => Type::Bool,
        IonType::Int => Type::PositiveInt,
        IonType::Float => Type::Float,
        IonType::Decimal => Type::Decimal,
        IonType::Timestamp => Type::Timestamp,
        IonType::Symbol => Type::Symbol,
        IonType::String => Type::String,
        IonType::Clob => Type::Clob,
        IonType::Blob => Type::Blob,
        IonType::List => Type::List,
        IonType::SExp => Type::SExp,
        IonType::Struct => Type::Struct,
    }
}

#[cfg(test)]
mod tests {
    use ion_rs::IonData;

    use super::*;

    /// ion-rs reads back what was written, to the last bit and in the same order.
    fn goes_round(text: &str) {
        let element = Element::read_one(text).unwrap();
        let read = Element::read_one(encode(&element).unwrap()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(IonData::eq(&read, &element), "{text}: {read}");
        assert_eq!(read.to_string(), element.to_string());
    }

    #[test]
    fn values_of_every_type_go_round() {
        for text in [
            "null",
            "null.int",
            "null.struct",
            "null.symbol",
            "null.clob",
            "null.list",
            "null.sexp",
            "null.timestamp",
            "null.decimal",
            "true",
            "false",
            "0",
            "-1",
            "9223372036854775808",
            "-123456789012345678901234567890",
            "1e0",
            "-0e0",
            "nan",
            "+inf",
            "1.50",
            "-0.0",
            "0d5",
            "2017T",
            "2017-08-21",
            "2017-08-21T10:11:12.500-00:00",
            "2017-08-21T10:11+01:30",
            "a",
            "''",
            "name",
            "'a b'",
            "\"\"",
            "\"text\"",
            "\"a text of more than thirteen bytes: é\"",
            "{{}}",
            "{{AAECAwQ=}}",
            "{{\"clob\"}}",
            "[]",
            "()",
            "{}",
            "[1,[2,(3 +)],{a:[]}]",
            "{a:1,b:2,a:3}",
            "{name:1,version:2,symbols:3,'':4}",
            "a::1",
            "a::b::a::{c:d::[e::f]}",
            "x::null.int",
            "[1.5,a,2,b,2020T,a,3e0]",
        ] {
            goes_round(text);
        }
    }

    #[test]
    fn lengths_and_symbol_numbers_of_any_width_go_round() {
        for length in [13, 14, 127, 128, 16_383, 16_384, 3_000_000] {
            let text = "x".repeat(length);
            goes_round(&format!("{{a:\"{text}\",b:[\"{text}\"],'{text}':{text}}}"));
        }
        let fields: Vec<String> = (0..20_000).map(|at| format!("f{at}:s{at}")).collect();
        goes_round(&format!("{{{}}}", fields.join(",")));
        goes_round(&format!("{}1", (0..130).map(|at| format!("a{at}::")).collect::<String>()));
    }

    #[test]
    fn the_widths_of_numbers_are_those_of_the_specification() {
        assert_eq!([0, 1, 127, 128, 16_383, 16_384, u64::MAX].map(width), [1, 1, 1, 2, 2, 3, 10]);
    }
}
