//! What the codec writes, against a plain conversion of the same value by way of ion-rs: nothing of the codec's own is used for it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ion_rs::v1_0::{Binary, Text};
use ion_rs::{Decimal, Element, ElementReader as _, Int, IonType, Reader, Value};
use proptest::prelude::*;
use proptest::test_runner::{TestRng, TestRunner};
use revsync::codec::ion_binary::{self, VERSION_MARKER};
use revsync::codec::ion_json::{Rules, write_value};
use revsync::codec::{Content, Decoder};
use revsync::metrics::Notes;
use revsync::revision::{Change, Revision};
use serde_json::value::RawValue;

/// A value as JSON, by the rules of the design; `None` where there is no text for a symbol.
fn expected(element: &Element, notes: &mut Notes) -> Option<String> {
    notes.annotations += element.annotations().len() as u64;
    Some(match element.value() {
        Value::Null(_) => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) if value.is_finite() => serde_json::to_string(value).unwrap().replace("e+", "e"),
        Value::Float(_) => {
            notes.non_finite += 1;
            "null".to_owned()
        }
        Value::Decimal(value) => expected_decimal(value),
        Value::Timestamp(value) => {
            // ion-rs prints Ion text.
            let text = value.to_string();
            format!("\"{}\"", text.strip_suffix('T').unwrap_or(&text).replace("+00:00", "Z"))
        }
        Value::String(value) => serde_json::to_string(value.text()).unwrap(),
        Value::Symbol(value) => serde_json::to_string(value.text()?).unwrap(),
        Value::Blob(value) => format!("\"{}\"", STANDARD.encode(value.as_ref())),
        Value::Clob(value) => {
            let bytes = value.as_ref().iter().map(|byte| match byte {
                0x80.. => format!("\\u00{byte:02x}"),
                ascii => {
                    let quoted = serde_json::to_string(&char::from(*ascii)).unwrap();
                    quoted[1..quoted.len() - 1].to_owned()
                }
            });
            format!("\"{}\"", bytes.collect::<String>())
        }
        Value::List(items) | Value::SExp(items) => {
            let items: Option<Vec<String>> = items.iter().map(|item| expected(item, notes)).collect();
            format!("[{}]", items?.join(","))
        }
        Value::Struct(fields) => {
            let mut kept: Vec<(&str, String)> = Vec::new();
            for (name, value) in fields.fields() {
                let (name, value) = (name.text()?, expected(value, notes)?);
                let before = kept.len();
                kept.retain(|(other, _)| *other != name);
                notes.duplicate_fields += (before - kept.len()) as u64;
                kept.push((name, value));
            }
            let fields: Vec<_> = kept.iter().map(|(name, value)| format!("{}:{value}", serde_json::to_string(name).unwrap())).collect();
            format!("{{{}}}", fields.join(","))
        }
    })
}

fn expected_decimal(value: &Decimal) -> String {
    let (sign, digits) = (if value.coefficient().is_negative() { "-" } else { "" }, value.coefficient().magnitude().to_string());
    match value.exponent() {
        0 => format!("{sign}{digits}.0"),
        exponent @ -40..0 => {
            let padded = format!("{digits:0>width$}", width = exponent.unsigned_abs() as usize + 1);
            let (whole, fraction) = padded.split_at(padded.len() - exponent.unsigned_abs() as usize);
            format!("{sign}{whole}.{fraction}")
        }
        exponent if exponent < 0 && digits.len() as i64 > -exponent => {
            let (whole, fraction) = digits.split_at((digits.len() as i64 + exponent) as usize);
            format!("{sign}{whole}.{fraction}")
        }
        exponent => format!("{sign}{digits}e{exponent}"),
    }
}

/// What the codec makes of the first value, and what it noted on the way.
fn written(binary: &[u8]) -> (Result<String, String>, Notes) {
    let (mut out, mut notes) = (Vec::new(), Notes::default());
    let mut reader = ion_binary::Reader::new(binary);
    let result = match reader.next_value() {
        Ok(Some((value, symbols))) => write_value(value, symbols, &Rules::default(), &mut out, &mut notes),
        Ok(None) => return (Err("nothing".to_owned()), notes),
        Err(fault) => Err(fault),
    };
    (result.map(|()| String::from_utf8(out).unwrap()).map_err(|fault| fault.kind), notes)
}

/// The document of a record with this value in it, by way of text.
fn written_from_text(value: &str) -> Result<String, Box<Content>> {
    let record = format!(
        "{{recordType:\"REVISION_DETAILS\",payload:{{tableInfo:{{tableName:\"V\"}},revision:{{data:{{v:{value}}},metadata:{{id:\"x\",version:0}}}}}}}}"
    );
    let mut decoder = Decoder::default();
    let user_record = decoder.open_payload(&Bytes::from(record), None);
    let mut units = decoder.units(&user_record);
    let (_, content) = units.next(&mut decoder, &mut Notes::default()).unwrap();
    match content {
        Content::Revision(Revision { change: Change::Put(document), .. }) => {
            let document = std::str::from_utf8(document.as_bytes()).unwrap();
            Ok(document.strip_prefix("{\"v\":").unwrap().strip_suffix('}').unwrap().to_owned())
        }
        content => Err(Box::new(content)),
    }
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z0-9_ ]{0,40}",
        2 => any::<String>(),
        1 => prop::collection::vec(prop_oneof![Just('"'), Just('\\'), Just('\n'), Just('\0'), Just('\u{1f}'), Just('/'), Just('é'), Just('😀'), Just('a')], 0..40)
            .prop_map(String::from_iter),
    ]
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![6 => "[a-e]", 2 => texts(), 1 => prop_oneof![Just(""), Just("."), Just("a..b"), Just("$ion"), Just("null"), Just("$10")].prop_map(str::to_owned)]
}

fn ints() -> impl Strategy<Value = Int> {
    prop_oneof![
        any::<i8>().prop_map(Int::from),
        any::<i64>().prop_map(Int::from),
        any::<i128>().prop_map(Int::from),
        prop::collection::vec(any::<u8>(), 0..60).prop_map(|bytes| Int::from_le_signed_bytes(&bytes)),
    ]
}

fn decimals() -> impl Strategy<Value = Decimal> {
    let exponents = prop_oneof![4 => -60..60i64, 1 => any::<i64>().prop_map(|exponent| exponent / 2)];
    let coefficients = prop_oneof![4 => any::<i32>().prop_map(i128::from), 2 => any::<i128>(), 1 => Just(0)];
    prop_oneof![
        8 => (coefficients, exponents.clone()).prop_map(|(coefficient, exponent)| Decimal::new(coefficient, exponent)),
        1 => exponents.prop_map(Decimal::negative_zero_with_exponent),
    ]
}

/// Timestamps of every precision and offset, as Ion text.
fn timestamps() -> impl Strategy<Value = String> {
    let date = (1..=9999u32, 1..=12u32, 1..=28u32);
    let fraction = prop_oneof![Just(String::new()), "[0-9]{1,18}"];
    let offset = prop_oneof![
        Just("Z".to_owned()),
        Just("-00:00".to_owned()),
        (any::<bool>(), 0..24u32, 1..60u32)
            .prop_map(|(plus, hour, minute)| format!("{}{hour:02}:{minute:02}", if plus { '+' } else { '-' }))
    ];
    let time = (0..24u32, 0..60u32, prop::option::of((0..60u32, fraction)), offset);
    (date, 0..4, time).prop_map(|((year, month, day), precision, (hour, minute, second, offset))| match precision {
        0 => format!("{year:04}T"),
        1 => format!("{year:04}-{month:02}T"),
        2 => format!("{year:04}-{month:02}-{day:02}"),
        _ => {
            let second = second.map_or(String::new(), |(second, fraction)| {
                format!(":{second:02}{}{fraction}", if fraction.is_empty() { "" } else { "." })
            });
            format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}{second}{offset}")
        }
    })
}

fn nulls() -> impl Strategy<Value = Element> {
    use IonType::{Blob, Bool, Clob, Decimal, Float, Int, List, Null, SExp, String, Struct, Symbol, Timestamp};
    let types = vec![Null, Bool, Int, Float, Decimal, Timestamp, Symbol, String, Clob, Blob, List, SExp, Struct];
    prop::sample::select(types).prop_map(Element::null)
}

fn annotated(value: Element) -> impl Strategy<Value = Element> {
    prop_oneof![6 => Just(Vec::new()), 1 => prop::collection::vec(names(), 1..3)]
        .prop_map(move |names| value.clone().with_annotations(names))
}

fn elements() -> impl Strategy<Value = Element> {
    let scalar = prop_oneof![
        1 => nulls(),
        1 => any::<bool>().prop_map(Element::boolean),
        3 => ints().prop_map(Element::int),
        2 => any::<f64>().prop_map(Element::float),
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, 1.5, 1e21, f64::MAX, f64::MIN_POSITIVE]).prop_map(Element::float),
        4 => decimals().prop_map(Element::decimal),
        3 => timestamps().prop_map(|text| Element::read_one(text).unwrap()),
        2 => texts().prop_map(Element::symbol),
        4 => texts().prop_map(Element::string),
        1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Element::clob),
        1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Element::blob),
    ];
    scalar.prop_flat_map(annotated).prop_recursive(5, 60, 8, |inner| {
        let sequence = prop::collection::vec(inner.clone(), 0..8);
        let fields = prop::collection::vec((names(), inner), 0..8);
        prop_oneof![
            sequence.clone().prop_map(|items| Element::sequence_builder().push_all(items).build_list().into()),
            sequence.prop_map(|items| Element::sequence_builder().push_all(items).build_sexp().into()),
            fields.prop_map(|fields| fields
                .into_iter()
                .fold(Element::struct_builder(), |b, (name, value)| b.with_field(name, value))
                .build()
                .into()),
        ]
        .prop_flat_map(annotated)
    })
}

/// Runs a property on the same cases every time; twenty times as many with `REVSYNC_TEST_LONG=1`.
fn always<S: Strategy>(few: u32, strategy: S, property: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let long = std::env::var_os("REVSYNC_TEST_LONG").is_some_and(|value| value == "1");
    let config = ProptestConfig { cases: if long { few * 20 } else { few }, failure_persistence: None, ..ProptestConfig::default() };
    let rng = TestRng::deterministic_rng(config.rng_algorithm);
    TestRunner::new_with_rng(config, rng).run(&strategy, property).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn every_value_becomes_the_json_that_a_plain_conversion_gives() {
    always(400, elements(), |element| {
        let mut expected_notes = Notes::default();
        let expected = expected(&element, &mut expected_notes).unwrap();
        let (json, notes) = written(&element.encode_as(Binary).unwrap());
        prop_assert_eq!(json.as_deref(), Ok(&*expected));
        prop_assert_eq!(notes, expected_notes);
        prop_assert_eq!(serde_json::from_str::<&RawValue>(&expected).unwrap().get(), &expected);
        prop_assert!(!expected.contains(['\n', '\r']));
        let text = element.encode_as(Text).unwrap();
        // ion-rs writes control characters of symbols as they are, and does not read them.
        if !text.contains(|c: char| c.is_control()) {
            prop_assert_eq!(written_from_text(&text), Ok(expected));
        }
        Ok(())
    });
}

#[test]
fn timestamps_are_written_as_they_were() {
    always(400, timestamps(), |text| {
        let expected = format!("\"{}\"", text.strip_suffix('T').unwrap_or(&text));
        prop_assert_eq!(written_from_text(&text), Ok(expected));
        Ok(())
    });
}

/// Values in a row, each with its own symbol table, and where they are damaged.
fn damaged() -> impl Strategy<Value = (Vec<Element>, Vec<(prop::sample::Index, u8, u8)>)> {
    (prop::collection::vec(elements(), 1..4), prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 0..3))
}

fn damage(bytes: &mut Vec<u8>, from: usize, places: &[(prop::sample::Index, u8, u8)]) {
    for (place, byte, kind) in places {
        if bytes.len() == from {
            return;
        }
        let at = from + place.index(bytes.len() - from);
        match kind {
            0 => bytes[at] = *byte,
            1 => bytes[at] ^= 1 << (byte & 7),
            2 => bytes.insert(at, *byte),
            _ => drop(bytes.remove(at)),
        }
    }
}

/// Where the value begins behind the version marker and the symbol table, if it has one.
fn value_at(binary: &[u8]) -> usize {
    match binary[4..] {
        [0xEE, length, 0x81, 0x83, ..] if length & 0x80 != 0 => 6 + usize::from(length & 0x7F),
        [0xEE, high, low, 0x81, 0x83, ..] => 7 + (usize::from(high) << 7) + usize::from(low & 0x7F),
        [first @ 0xE3..=0xED, 0x81, 0x83, ..] => 5 + usize::from(first & 0xF),
        _ => 4,
    }
}

#[test]
fn damaged_values_are_read_as_ion_rs_reads_them() {
    // ion-rs reads annotations, which are dropped here, and stops at 18 digits of a second.
    let stricter = |why: &str| why.contains("annotation") || why.contains("fractional seconds precision");
    always(400, damaged(), |(values, places)| {
        let mut binary = Vec::new();
        for value in &values {
            let mut one = value.encode_as(Binary).unwrap();
            let from = value_at(&one);
            damage(&mut one, from, &places);
            binary.extend(one);
        }
        same_as_ion_rs(&binary, stricter)
    });
}

#[test]
fn whatever_ion_rs_reads_of_damaged_binary_is_read_alike() {
    // In a symbol table ion-rs refuses what is not used as well.
    let stricter = |_: &str| true;
    always(400, damaged(), |(values, places)| {
        let mut binary: Vec<u8> = values.iter().flat_map(|value| value.encode_as(Binary).unwrap()).collect();
        damage(&mut binary, VERSION_MARKER.len(), &places);
        same_as_ion_rs(&binary, stricter)
    });
}

fn same_as_ion_rs(binary: &[u8], may_be_stricter: impl Fn(&str) -> bool) -> Result<(), TestCaseError> {
    let mut reader = Reader::new(Binary, binary).unwrap();
    let mut ours = ion_binary::Reader::new(binary);
    loop {
        // ion-rs subtracts lengths of damaged annotation wrappers without a look.
        let theirs = catch_unwind(AssertUnwindSafe(|| reader.read_next_element().map_err(|error| error.to_string())));
        let theirs = theirs.unwrap_or(Err("a panic at an annotation wrapper".to_owned()));
        let (mut json, mut notes) = (Vec::new(), Notes::default());
        let ours = ours.next_value().and_then(|next| match next {
            Some((value, symbols)) => write_value(value, symbols, &Rules::default(), &mut json, &mut notes).map(|()| true),
            None => Ok(false),
        });
        match (theirs, ours) {
            (Ok(None), Ok(false)) | (Err(_), Err(_)) => return Ok(()),
            (Err(why), Ok(_)) if may_be_stricter(&why) => return Ok(()),
            (Ok(Some(element)), ours) if ours != Ok(false) => {
                let mut expected_notes = Notes::default();
                // Without an expectation there is a symbol without a text.
                let expected = expected(&element, &mut expected_notes);
                prop_assert_eq!(ours.is_ok(), expected.is_some(), "{:?} {:02X?}", ours, binary);
                if let Some(expected) = expected {
                    prop_assert_eq!(std::str::from_utf8(&json), Ok(&*expected), "{:02X?}", binary);
                    prop_assert_eq!(notes, expected_notes);
                }
            }
            (theirs, ours) => prop_assert!(false, "ion-rs: {theirs:?}\nours: {ours:?}\n{binary:02X?}"),
        }
    }
}
