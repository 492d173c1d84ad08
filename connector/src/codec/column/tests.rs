use super::*;
use crate::codec::ion_json::Rules;

const TYPES: [ColumnType; 8] = [
    ColumnType::String,
    ColumnType::Long,
    ColumnType::Double,
    ColumnType::Decimal,
    ColumnType::Boolean,
    ColumnType::TimestampMs,
    ColumnType::Base64,
    ColumnType::Json,
];

fn written(value: &str, column_type: ColumnType) -> Result<String, Fault> {
    let options = TableOptions { types: [("c".to_owned(), column_type)].into(), ..TableOptions::default() };
    let mut out = Vec::new();
    write_column("c", Json::parse(value.as_bytes()).unwrap(), &options, &mut out, &mut Notes::default())?;
    Ok(String::from_utf8(out).unwrap())
}

fn check(column_type: ColumnType, taken: &[(&str, &str)], refused: &[&str]) {
    for (value, expected) in taken {
        assert_eq!(written(value, column_type).as_deref(), Ok(*expected), "{value}");
    }
    for value in refused {
        let fault = written(value, column_type).expect_err(value);
        assert_eq!(fault.kind, "wrong_column_type");
        assert!(fault.reason.starts_with(&format!("expected {} in the column c, found ", expected(column_type))), "{}", fault.reason);
        assert!(!fault.reason.contains("x9"), "{value}: {}", fault.reason);
    }
}

#[test]
fn null_is_null_under_every_type() {
    assert!(TYPES.iter().all(|column_type| written("null", *column_type).unwrap() == "null"));
}

#[test]
fn string_takes_what_has_a_text() {
    check(
        ColumnType::String,
        &[("\"\"", "\"\""), (r#""a\u0062""#, "\"ab\""), ("7.50", "\"7.50\""), ("true", "\"true\"")],
        &["[\"x9\"]", "{\"x9\":1}"],
    );
}

#[test]
fn long_takes_whole_numbers_of_64_bits() {
    check(
        ColumnType::Long,
        &[
            ("7", "7"),
            ("\"7\"", "7"),
            ("\"-007\"", "-7"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("\"9223372036854775807\"", "9223372036854775807"),
        ],
        &["\"9223372036854775808\"", "7.0", "7e0", "\"7.5\"", "\"+7\"", "\" 7\"", "\"\"", "\"x9\"", "true", "[7]"],
    );
}

#[test]
fn double_takes_finite_numbers_and_keeps_their_digits() {
    check(
        ColumnType::Double,
        &[
            ("7", "7.0"),
            ("\"7.10\"", "7.10"),
            ("\"-.5\"", "-0.5"),
            ("\"5.\"", "5.0"),
            ("\"+1e3\"", "1e3"),
            ("\"007.5E-3\"", "7.5e-3"),
            ("1e308", "1e308"),
            ("\"-0\"", "-0.0"),
        ],
        &[
            "1e309",
            "\"-1e309\"",
            "\"NaN\"",
            "\"Infinity\"",
            "\"inf\"",
            "\"\"",
            "\".\"",
            "\"1e\"",
            "\"1e+\"",
            "\"0x9\"",
            "\"1_0\"",
            "false",
            "{}",
        ],
    );
}

#[test]
fn decimal_keeps_every_digit() {
    let long = "123456789012345678901234567890.12345678901234567890";
    check(
        ColumnType::Decimal,
        &[(long, long), (&format!("\"{long}\""), long), ("\"100\"", "100.0"), ("1e400", "1e400"), ("\"-0012.50\"", "-12.50")],
        &["\"12,5\"", "\"x9\"", "\"NaN\"", "true", "[]", "\"-\"", "\"--1\"", "\"é\""],
    );
    let options = TableOptions {
        types: [("c".to_owned(), ColumnType::Decimal)].into(),
        rules: Rules { decimals: Decimals::String, ..Rules::default() },
        ..TableOptions::default()
    };
    let mut out = Vec::new();
    write_column("c", Json::parse(b"7.10").unwrap(), &options, &mut out, &mut Notes::default()).unwrap();
    assert_eq!(out, b"\"7.10\"");
}

#[test]
fn boolean_takes_true_and_false_and_their_digits() {
    check(
        ColumnType::Boolean,
        &[
            ("true", "true"),
            ("\"TRUE\"", "true"),
            ("\"False\"", "false"),
            ("1", "true"),
            ("\"1\"", "true"),
            ("0", "false"),
            ("\"0\"", "false"),
        ],
        &["2", "1.0", "\"yes\"", "\"t\"", "\"\"", "[true]", "{}"],
    );
}

#[test]
fn timestamps_become_times_in_utc() {
    check(
        ColumnType::TimestampMs,
        &[
            ("1700000000000", "\"2023-11-14T22:13:20.000Z\""),
            ("\"1700000000123\"", "\"2023-11-14T22:13:20.123Z\""),
            ("0", "\"1970-01-01T00:00:00.000Z\""),
            ("-1", "\"1969-12-31T23:59:59.999Z\""),
            ("253402300799999", "\"9999-12-31T23:59:59.999Z\""),
            ("-62167219200000", "\"0000-01-01T00:00:00.000Z\""),
        ],
        &["253402300800000", "-62167219200001", "\"2023-11-14T22:13:20Z\"", "1.5", "\"+1\"", "\"\"", "true", "9223372036854775807"],
    );
}

#[test]
fn base64_is_checked_and_stays_text() {
    check(
        ColumnType::Base64,
        &[("\"AAE=\"", "\"AAE=\""), ("\"\"", "\"\""), (r#""\u0041AE=""#, "\"AAE=\"")],
        &["\"AAE\"", "\"A-_=\"", "\"x9 x9\"", "7777", "[\"AAE=\"]"],
    );
}

#[test]
fn json_becomes_what_it_says() {
    check(
        ColumnType::Json,
        &[
            (r#""{\"a\" : [1.50, \"x\"], \"a\":2}""#, r#"{"a":2}"#),
            ("\"7\"", "7"),
            ("\"\\\"a\\\"\"", "\"a\""),
            ("{\"a\" : 1}", "{\"a\":1}"),
            ("7", "7"),
        ],
        &["\"{x9\"", "\"\"", "\"1 2\""],
    );
    let nested = format!("\"{}\"", "[".repeat(300));
    assert_eq!(written(&nested, ColumnType::Json).unwrap_err().kind, "wrong_column_type");
    let nested = format!("\"{}{}\"", "[".repeat(300), "]".repeat(300));
    assert_eq!(written(&nested, ColumnType::Json).unwrap_err().kind, "nested_too_deeply");
}

#[test]
fn a_row_is_written_by_its_types_and_without_them_as_it_is() {
    let options = TableOptions { types: [("n".to_owned(), ColumnType::Long)].into(), ..TableOptions::default() };
    let row = |text: &str| {
        let (mut out, mut notes) = (Vec::new(), Notes::default());
        write_row(Json::parse(text.as_bytes()).unwrap(), &options, &mut out, &mut notes).map_err(|fault| fault.kind)?;
        Ok((String::from_utf8(out).unwrap(), notes.duplicate_fields, notes.lone_surrogates))
    };
    let text = "{ \"n\":\"1\", \"m\":\"2\", \"x\":{\"n\":\"3\"},\n\"n\":\"4\", \"\\ud800\":\"\" }";
    assert_eq!(row(text), Ok((format!(r#"{{"m":"2","x":{{"n":"3"}},"n":4,"{}":""}}"#, '\u{FFFD}'), 1, 1)));
    assert_eq!(row(r#"{"n":"one"}"#), Err("wrong_column_type".to_owned()));
}
