use ion_rs::v1_0::Binary;

use super::super::ion_binary::Reader;
use super::super::ion_text::elements;
use super::*;

fn binary(text: &str) -> Vec<u8> {
    elements(text).next().unwrap().unwrap().encode_as(Binary).unwrap()
}

fn write(binary: &[u8], rules: Rules) -> (Result<String, String>, Notes) {
    let (mut out, mut notes) = (b"before".to_vec(), Notes::default());
    let mut reader = Reader::new(binary);
    let (value, symbols) = reader.next_value().unwrap().unwrap();
    let written = write_value(value, symbols, &rules, &mut out, &mut notes);
    let text = String::from_utf8(out).unwrap();
    (written.map(|()| text.strip_prefix("before").unwrap().to_owned()).map_err(|fault| fault.kind), notes)
}

fn json(text: &str) -> String {
    write(&binary(text), Rules::default()).0.unwrap()
}

/// The fault of a value that is written with a version marker before these bytes.
fn fault(value: &[u8]) -> String {
    write(&[&[0xE0, 0x01, 0x00, 0xEA], value].concat(), Rules::default()).0.unwrap_err()
}

fn raw(value: &[u8]) -> String {
    write(&[&[0xE0, 0x01, 0x00, 0xEA], value].concat(), Rules::default()).0.unwrap()
}

/// A value with its length behind its descriptor.
fn long(descriptor: u8, body: &[u8]) -> Vec<u8> {
    let length = [(body.len() >> 14) as u8, (body.len() >> 7 & 0x7F) as u8, (body.len() & 0x7F) as u8 | 0x80];
    [&[descriptor][..], &length, body].concat()
}

fn assert_all(cases: &[(&str, &str)]) {
    for (ion, expected) in cases {
        assert_eq!(json(ion), *expected, "{ion}");
    }
}

#[test]
fn every_null_is_null() {
    let types =
        ["", ".null", ".bool", ".int", ".float", ".decimal", ".timestamp", ".symbol", ".string", ".clob", ".blob", ".list", ".sexp"];
    for suffix in types.into_iter().chain([".struct"]) {
        assert_eq!(json(&format!("null{suffix}")), "null");
    }
    assert_eq!(raw(&[0x3F]), "null", "the null of negative integers");
}

#[test]
fn integers_keep_all_their_digits() {
    let exact = ["0", "-1", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551615"];
    let longer = ["18446744073709551616", "170141183460469231731687303715884105727", "340282366920938463463374607431768211455"];
    let longest = [
        "340282366920938463463374607431768211456",
        "-340282366920938463463374607431768211456",
        "1000000000000000000000000000000000000000000000",
    ];
    for digits in exact.into_iter().chain(longer).chain(longest) {
        assert_eq!(json(digits), digits);
    }
    let googol_and_more = format!("7{}", "0123456789".repeat(200));
    assert_eq!(json(&googol_and_more), googol_and_more);
    assert_all(&[("0xff", "255"), ("-0x10", "-16"), ("0b101", "5"), ("1_000", "1000")]);
    assert_eq!(raw(&[0x22, 0x00, 0x07]), "7", "leading zeros");
    assert_eq!(raw(&[0x20]), "0");
}

#[test]
fn a_number_of_more_than_a_kibibyte_is_a_fault() {
    let of = |bytes: usize| long(0x2E, &vec![0xFF; bytes]);
    assert_eq!(raw(&of(1023)).len(), 2464);
    assert_eq!(fault(&of(1024)), "number_too_long");
    assert_eq!(fault(&of(10_000)), "number_too_long");
}

#[test]
fn floats_are_the_shortest_text_that_reads_back_and_keep_their_point() {
    assert_all(&[
        ("0e0", "0.0"),
        ("-0e0", "-0.0"),
        ("1e0", "1.0"),
        ("100e0", "100.0"),
        ("0.1e0", "0.1"),
        ("-2.5e3", "-2500.0"),
        ("1e16", "1e16"),
        ("1e300", "1e300"),
        ("5e-324", "5e-324"),
        ("1.7976931348623157e308", "1.7976931348623157e308"),
        ("0.30000000000000004e0", "0.30000000000000004"),
    ]);
    assert_eq!(raw(&[0x40]), "0.0");
    assert_eq!(raw(&[0x44, 0x3F, 0xC0, 0x00, 0x00]), "1.5", "four bytes");
    assert_eq!(fault(&[0x42, 0x00, 0x00]), "undecodable");
}

#[test]
fn nan_and_infinities_follow_the_rule() {
    for (ion, text) in [("nan", "\"nan\""), ("+inf", "\"+inf\""), ("-inf", "\"-inf\"")] {
        let by = |non_finite| write(&binary(ion), Rules { non_finite, ..Rules::default() });
        let (null, notes) = by(NonFinite::Null);
        assert_eq!((null, notes.non_finite), (Ok("null".to_owned()), 1));
        let (string, notes) = by(NonFinite::String);
        assert_eq!((string, notes.non_finite), (Ok(text.to_owned()), 0));
        assert_eq!(by(NonFinite::DeadLetter).0, Err("not_finite".to_owned()));
    }
}

#[test]
fn decimals_keep_their_digits_and_are_never_integers() {
    assert_all(&[
        ("442.30", "442.30"),
        ("100.", "100.0"),
        ("1d3", "1e3"),
        ("0.00000001", "0.00000001"),
        ("-0.0", "-0.0"),
        ("-0.", "-0.0"),
        ("-0d3", "-0e3"),
        ("0.", "0.0"),
        ("0.000", "0.000"),
        ("0d5", "0e5"),
        ("1d-50", "1e-50"),
        ("1d-40", "0.0000000000000000000000000000000000000001"),
        ("1d-41", "1e-41"),
        ("12345678901234567890.123456789", "12345678901234567890.123456789"),
        ("-12.5d-2", "-0.125"),
        ("12.5d1", "125.0"),
        ("12.5d2", "125e1"),
        ("0.10", "0.10"),
        ("1d100000000", "1e100000000"),
        ("-5d-100000000", "-5e-100000000"),
        ("1d9223372036854775807", "1e9223372036854775807"),
        ("123456789012345678901234567890.12345678901234567890123456789", "123456789012345678901234567890.12345678901234567890123456789"),
    ]);
    assert_eq!(raw(&[0x50]), "0.0");
    assert_eq!(raw(&[0x51, 0xC2]), "0.00", "an exponent without a coefficient");
    assert_eq!(raw(&[0x52, 0xC2, 0x80]), "-0.00", "a negative zero");
    assert_eq!(fault(&[0x52, 0x00, 0x00]), "undecodable", "an exponent that does not end");
}

#[test]
fn decimals_become_strings_by_the_rule() {
    let rules = Rules { decimals: Decimals::String, ..Rules::default() };
    assert_eq!(write(&binary("{a:442.30,b:1,c:1e0}"), rules).0.unwrap(), r#"{"a":"442.30","b":1,"c":1.0}"#);
}

#[test]
fn texts_are_escaped_so_that_a_document_is_one_line() {
    assert_all(&[
        (r#""""#, r#""""#),
        (r#""quote \" backslash \\ slash /""#, r#""quote \" backslash \\ slash /""#),
        (r#""\0\x01\x1f\x7f""#, "\"\\u0000\\u0001\\u001f\x7f\""),
        (r#""a\r\nb\tc\b\f""#, r#""a\r\nb\tc\b\f""#),
        ("'''long\nstring'''", r#""long\nstring""#),
        ("\"Søren 漢字 😀 \u{2028}\"", "\"Søren 漢字 😀 \u{2028}\""),
        ("red", "\"red\""),
        ("'two words'", "\"two words\""),
        ("''", "\"\""),
    ]);
    for length in 0..40 {
        for at in 0..length {
            let text: String = (0..length).map(|i| if i == at { '\n' } else { 'x' }).collect();
            let mut out = Vec::new();
            write_string(&text, &mut out);
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
            assert!(!out.contains(&b'\n'));
        }
    }
}

#[test]
fn a_symbol_without_a_text_is_a_fault() {
    assert_eq!(fault(&[0x71, 0x00]), "undecodable");
    assert_eq!(fault(&[0x70]), "undecodable");
    assert_eq!(fault(&[0x71, 0x0A]), "undecodable");
    assert_eq!(raw(&[0x71, 0x04]), "\"name\"", "a symbol of the system");
    assert_eq!(fault(&[0xD2, 0x80, 0x20]), "undecodable", "as a field's name");
}

#[test]
fn lobs_become_strings() {
    assert_all(&[
        ("{{aGVsbG8=}}", "\"aGVsbG8=\""),
        ("{{}}", "\"\""),
        ("{{+/+/}}", "\"+/+/\""),
        (r#"{{"clob \" text"}}"#, r#""clob \" text""#),
        (r#"{{"caf\xe9 \xff\x00"}}"#, r#""caf\u00e9 \u00ff\u0000""#),
    ]);
}

#[test]
fn timestamps_keep_precision_and_offset() {
    for text in [
        "2017-08-21T10:11Z",
        "2017-08-21T10:11-00:00",
        "2017-08-21T10:11+05:30",
        "2017-08-21T10:11:12Z",
        "2017-08-21T10:11:12.5Z",
        "2017-08-21T10:11:12.000-00:00",
        "2020-03-01T08:15:30.249000001Z",
        "2020-03-01T08:15:30.0123456789Z",
        "2020-03-01T08:15:30.123456789012345678-08:00",
        "2021-01-01T00:10:00+05:30",
        "2020-12-31T23:50:00-05:30",
        "2020-03-01T00:00+00:01",
        "2020-02-29T23:59-00:01",
        "2021-03-01T00:00+23:59",
        "2021-02-28T23:59-23:59",
        "0001-01-01T00:00+01:00",
        "9999-12-31T23:59:59.999999999-01:00",
    ] {
        assert_eq!(json(text), format!("\"{text}\""));
    }
    assert_all(&[
        ("2019T", "\"2019\""),
        ("2019-05T", "\"2019-05\""),
        ("2017-08-21T", "\"2017-08-21\""),
        ("2017-08-21", "\"2017-08-21\""),
        ("0001-01-01", "\"0001-01-01\""),
    ]);
}

#[test]
fn lists_structs_and_what_is_in_them() {
    assert_all(&[
        ("[]", "[]"),
        ("{}", "{}"),
        ("()", "[]"),
        ("[1,null,[2.0],{}]", "[1,null,[2.0],{}]"),
        ("(a + (b) \"c\")", r#"["a","+",["b"],"c"]"#),
        ("{a:{b:[{c:1}]},d:true,e:false}", r#"{"a":{"b":[{"c":1}]},"d":true,"e":false}"#),
        (
            r#"{'':1,'.':2,'a..b':3,'.a':4,'a.':5,A:6,a:7,'a b':8,'"\n':9}"#,
            r#"{"":1,".":2,"a..b":3,".a":4,"a.":5,"A":6,"a":7,"a b":8,"\"\n":9}"#,
        ),
    ]);
}

#[test]
fn annotations_are_dropped_and_counted() {
    let (json, notes) = write(&binary("x::{a:EUR::12.5,b:[y::z::1,w::null],c:v::'s'}"), Rules::default());
    assert_eq!(json.unwrap(), r#"{"a":12.5,"b":[1,null],"c":"s"}"#);
    assert_eq!(notes.annotations, 6);
}

#[test]
fn of_fields_with_one_name_the_last_is_kept_and_each_other_is_counted() {
    for (ion, expected, count) in [
        ("{a:1,a:2}", r#"{"a":2}"#, 1),
        ("{a:1,a:2,a:3}", r#"{"a":3}"#, 2),
        ("{a:1,b:2,a:3}", r#"{"b":2,"a":3}"#, 1),
        ("{b:0,a:1,a:2,c:3}", r#"{"b":0,"a":2,"c":3}"#, 1),
        ("{a:{x:1,x:2},a:{x:3,y:4,x:5}}", r#"{"a":{"y":4,"x":5}}"#, 3),
        ("{a:1,b:{c:1,c:[{d:1,d:2},{}]},a:2}", r#"{"b":{"c":[{"d":2},{}]},"a":2}"#, 3),
        ("[{a:1,a:2},{a:3}]", r#"[{"a":2},{"a":3}]"#, 1),
        ("{'':1,a:2,'':3}", r#"{"a":2,"":3}"#, 1),
        ("{a:',',a:',,',b:'}'}", r#"{"a":",,","b":"}"}"#, 1),
    ] {
        let (json, notes) = write(&binary(ion), Rules::default());
        assert_eq!((json.unwrap().as_str(), notes.duplicate_fields), (expected, count), "{ion}");
    }
}

#[test]
fn a_struct_of_many_fields_keeps_the_last_of_each_name_too() {
    for fields in [47usize, 48, 49, 50, 64, 65, 200] {
        let of = |names: &mut dyn Iterator<Item = (usize, usize)>| names.map(|(n, v)| format!("n{n}:{v}")).collect::<Vec<_>>().join(",");
        let once = of(&mut (0..fields).map(|n| (n, n)));
        let expected = once.replace('n', "\"n").replace(':', "\":");
        assert_eq!(json(&format!("{{{once}}}")), format!("{{{expected}}}"));
        // Every name three times: the third is what is left.
        let thrice = of(&mut (0..3 * fields).map(|i| (i % fields, if i < 2 * fields { 7 } else { i % fields })));
        let (json, notes) = write(&binary(&format!("{{{thrice}}}")), Rules::default());
        assert_eq!(json.unwrap(), format!("{{{expected}}}"), "{fields} fields");
        assert_eq!(notes.duplicate_fields as usize, 2 * fields);
    }
}

/// Lists around an empty one, by hand: text does not nest so deep.
fn nested(levels: usize) -> Vec<u8> {
    (1..levels).fold(vec![0xB0], |inner, _| long(0xBE, &inner))
}

#[test]
fn nesting_is_limited() {
    assert_eq!(raw(&nested(200)), "[".repeat(200) + &"]".repeat(200));
    assert_eq!(raw(&nested(MAX_DEPTH)).len(), 2 * MAX_DEPTH);
    assert_eq!(fault(&nested(MAX_DEPTH + 1)), "nested_too_deeply");
    assert_eq!(fault(&nested(300)), "nested_too_deeply");
    assert_eq!(fault(&nested(20_000)), "nested_too_deeply");
}

#[test]
fn the_limit_is_what_a_document_may_have_at_most() {
    for ion in ["\"0123456789\"", "{a:1,b:[2,3]}", "{{MDEyMzQ1Njc4OQ==}}", "{{\"\\xff\"}}", "'\\n\\n\\n'", "{abcdefgh:123}", "12345.67"] {
        let binary = binary(ion);
        let length = write(&binary, Rules::default()).0.unwrap().len();
        let by = |limit| write(&binary, Rules { limit, ..Rules::default() }).0;
        assert_eq!(by(length).unwrap().len(), length, "{ion}");
        for limit in 0..length {
            assert_eq!(by(limit), Err("document_too_large".to_owned()), "{ion} at {limit}");
        }
    }
}

#[test]
fn a_small_record_cannot_become_a_large_document() {
    // One symbol of 10,000 bytes, named 5,000 times: a record of 20 KiB would be a document of 50 MB.
    let table = long(0xDE, &[&[0x87][..], &long(0xBE, &long(0x8E, &[b's'; 10_000]))].concat());
    let table = long(0xEE, &[&[0x81, 0x83][..], &table].concat());
    let binary = [&[0xE0, 0x01, 0x00, 0xEA][..], &table, &long(0xBE, &[0x71, 0x0A].repeat(5_000))].concat();
    let (mut out, mut notes) = (Vec::new(), Notes::default());
    let mut reader = Reader::new(&binary);
    let (value, symbols) = reader.next_value().unwrap().unwrap();
    let rules = Rules { limit: 100_000, ..Rules::default() };
    assert_eq!(write_value(value, symbols, &rules, &mut out, &mut notes).unwrap_err().kind, "document_too_large");
    assert!(out.len() <= rules.limit, "{} bytes", out.len());
}

#[test]
fn what_escapes_add_is_within_the_limit_too() {
    let binary = binary(&format!("\"{}\"", "\\0".repeat(1_000_000)));
    let (mut out, mut notes) = (Vec::new(), Notes::default());
    let mut reader = Reader::new(&binary);
    let (value, symbols) = reader.next_value().unwrap().unwrap();
    let rules = Rules { limit: 1_500_000, ..Rules::default() };
    assert_eq!(write_value(value, symbols, &rules, &mut out, &mut notes).unwrap_err().kind, "document_too_large");
    assert!(out.len() <= rules.limit + 6 * PIECE, "{} bytes", out.len());
}
