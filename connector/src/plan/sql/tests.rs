//! What expressions come to, as queries on one document show it.

use proptest::prelude::*;

use crate::plan::filter::Filter;
use crate::plan::query::{Op, Place, Query, Row};

const DOCUMENT: &[u8] = r#"{"s":"Größe","n":442.30,"big":9223372036854775808,"neg":-7,"two":2,"t":"2019-05-31T10:20:30.250+02:00","d":"2019-05-31","l":[1,[2],{"a":3}],"o":{"x":1},
    "far":1e5000,"null":null,"yes":true,"objects":[{"a":1},{"a":"x"},{}]}"#
    .as_bytes();

fn row() -> Row<'static> {
    Row {
        table: "t",
        op: Op::Index,
        data: Some(DOCUMENT),
        committed: None,
        time: Some(0),
        partition: Place::Number(0),
        offset: Place::Number(0),
    }
}

fn value(expression: &str) -> String {
    let query =
        Query::parse(&format!("SELECT {expression} FROM t"), 1_500_000_000_123).unwrap_or_else(|error| panic!("{expression}: {error}"));
    let mut values = Vec::new();
    assert!(query.answer(&row(), &mut values), "{expression}");
    let mut json = Vec::new();
    values[0].write_json(&mut json);
    String::from_utf8(json).unwrap()
}

fn all(expected: &[(&str, &str)]) {
    for (expression, json) in expected {
        assert_eq!(value(expression), *json, "{expression}");
    }
}

#[test]
fn texts_are_worked_on_by_characters() {
    all(&[
        ("UPPER(s)", r#""GRÖSSE""#),
        ("LOWER('ÄB')", r#""äb""#),
        ("LENGTH(s)", "5"),
        ("SUBSTRING(s FROM 3 FOR 2)", r#""öß""#),
        ("SUBSTRING(s, 3)", r#""öße""#),
        ("SUBSTR(s, 0, 2)", r#""G""#),
        ("SUBSTRING(s FROM 99)", r#""""#),
        ("SUBSTRING(s, 1, -1)", "null"),
        ("LEFT(s, 2) || RIGHT(s, 2)", r#""Grße""#),
        ("LEFT(s, -1)", r#""Größ""#),
        ("RIGHT(s, -4)", r#""e""#),
        ("RIGHT(s, 99)", r#""Größe""#),
        ("TRIM('  a ')", r#""a""#),
        ("TRIM(LEADING 'x' FROM 'xxax')", r#""ax""#),
        ("TRIM(TRAILING FROM ' a ')", r#"" a""#),
        ("TRIM('xax', 'x')", r#""a""#),
        ("LTRIM('aba', 'ab')", r#""""#),
        ("RTRIM('  a ')", r#""  a""#),
        ("REPLACE(s, 'ß', 'ss')", r#""Grösse""#),
        ("REPLACE(s, '', 'x')", r#""Größe""#),
        ("CONCAT(s, \"null\", n, yes)", r#""Größe442.30true""#),
        ("s || \"null\"", "null"),
        ("s || o", "null"),
        ("POSITION('ß' IN s)", "4"),
        ("STRPOS(s, 'x')", "0"),
        ("STARTS_WITH(s, 'Gr')", "true"),
        ("STARTS_WITH(n, 'Gr')", "null"),
        ("UPPER(n)", "null"),
        ("NULLIF(s, 'x')", r#""Größe""#),
        ("NULLIF(n, 442.3)", "null"),
        ("COALESCE(nothing, \"null\", n)", "442.30"),
    ]);
}

#[test]
fn arithmetic_is_exact_and_what_cannot_be_computed_is_null() {
    all(&[
        ("n + 1", "443.30"),
        ("big + 1", "9223372036854775809"),
        ("big * big", "85070591730234615865843651857942052864"),
        ("0.1 + 0.2", "0.3"),
        ("neg / two", "-3.5"),
        ("10 / 4", "2.5"),
        ("100 / 1", "100"),
        ("2 / 3", "0.6666666666666666666666666666666666666667"),
        ("-2 / 3", "-0.6666666666666666666666666666666666666667"),
        ("1 / 8e50", "125e-53"),
        ("neg % two", "-1"),
        ("MOD(neg, 4)", "-3"),
        ("n / 0", "null"),
        ("n % 0", "null"),
        ("n + nothing", "null"),
        ("n + s", "null"),
        ("n + yes", "null"),
        ("far + 1", "null"),
        ("-far", "-1e5000"),
        ("-s", "null"),
        ("+n", "442.30"),
        ("1e999 + 1", &format!("1{}1", "0".repeat(998))),
        ("1e999 * 1e999", "1e1998"),
        ("1e1000 + 1", "null"),
        ("1 + 2 * 3 - 4 / 2", "5"),
        ("ABS(neg)", "7"),
        ("ABS(n)", "442.30"),
        ("SIGN(neg)", "-1"),
        ("ROUND(2.5)", "3"),
        ("ROUND(-2.5)", "-3"),
        ("ROUND(n, 1)", "442.3"),
        ("ROUND(n, 5)", "442.30"),
        ("ROUND(n, -2)", "400"),
        ("FLOOR(-1.5)", "-2"),
        ("CEIL(1.2)", "2"),
        ("GREATEST(1, n, 3)", "442.30"),
        ("LEAST('b', 'a')", r#""a""#),
        ("LEAST(1, \"null\")", "null"),
        ("GREATEST(1, 'a')", "null"),
        (".5 + 01.", "1.5"),
    ]);
}

#[test]
fn times_are_worked_on_in_utc() {
    all(&[
        ("NOW()", r#""2017-07-14T02:40:00.123Z""#),
        ("CURRENT_TIMESTAMP - INTERVAL '1' DAY", r#""2017-07-13T02:40:00.123Z""#),
        ("CAST(t AS TIMESTAMP)", r#""2019-05-31T08:20:30.25Z""#),
        ("TIMESTAMP '2019-05-31 08:20'", r#""2019-05-31T08:20:00Z""#),
        ("CAST('2019' AS TIMESTAMP)", r#""2019-01-01T00:00:00Z""#),
        ("CAST('2019-05T' AS TIMESTAMP)", r#""2019-05-01T00:00:00Z""#),
        ("CAST('2019-02-29' AS TIMESTAMP)", "null"),
        ("CAST('2019-05-31T24:00:00Z' AS TIMESTAMP)", "null"),
        ("CAST('0001-01-01T00:00:00+01:00' AS TIMESTAMP)", "null"),
        ("TO_TIMESTAMP(-1)", r#""1969-12-31T23:59:59.999Z""#),
        ("TO_TIMESTAMP(1500000000123.9)", r#""2017-07-14T02:40:00.123Z""#),
        ("TO_TIMESTAMP(1e30)", "null"),
        ("TO_TIMESTAMP(s)", "null"),
        ("EXTRACT(YEAR FROM t)", "2019"),
        ("EXTRACT(HOUR FROM t)", "8"),
        ("EXTRACT(SECOND FROM t)", "30.25"),
        ("EXTRACT(EPOCH FROM t)", "1559290830.25"),
        ("EXTRACT(EPOCH FROM '1969-12-31T23:59:59.75Z')", "-0.25"),
        ("EXTRACT(YEAR FROM s)", "null"),
        ("EXTRACT(YEAR FROM n)", "null"),
        ("DATE_TRUNC('hour', t)", r#""2019-05-31T08:00:00Z""#),
        ("DATE_TRUNC('quarter', d)", r#""2019-04-01T00:00:00Z""#),
        ("DATE_TRUNC('week', d)", r#""2019-05-27T00:00:00Z""#),
        ("t - INTERVAL '3' MONTHS", r#""2019-02-28T08:20:30.25Z""#),
        ("d + INTERVAL '36' HOUR", r#""2019-06-01T12:00:00Z""#),
        ("d + INTERVAL '9999' YEAR", "null"),
        ("n + INTERVAL '1' DAY", "null"),
        ("CAST(t AS DATE)", r#""2019-05-31""#),
        ("DATE '2019-05-31' = d", "true"),
        ("CAST(t AS TIMESTAMP) = '2019-05-31T08:20:30.25Z'", "true"),
        ("ROWTIME = 0", "true"),
        ("ROWTIME = s", "null"),
        ("t = '2019-05-31T08:20:30.250000Z'", "true"),
    ]);
}

#[test]
fn values_are_converted_or_null() {
    all(&[
        ("CAST(n AS VARCHAR)", r#""442.30""#),
        ("CAST(s AS VARCHAR(2))", r#""Gr""#),
        ("CAST(o AS TEXT)", "null"),
        ("CAST(' 0042.50 ' AS DECIMAL)", "42.50"),
        ("CAST('x' AS INT)", "null"),
        ("CAST('--1' AS INT)", "null"),
        ("CAST(2.5 AS INTEGER)", "3"),
        ("CAST(n AS DECIMAL(5, 1))", "442.3"),
        ("CAST(n AS DECIMAL(2))", "null"),
        ("CAST(n AS DOUBLE PRECISION)", "442.30"),
        ("CAST('TRUE' AS BOOLEAN)", "true"),
        ("CAST(n AS BOOLEAN)", "null"),
        ("CAST(yes AS INT)", "1"),
        ("CASE WHEN n > 400 THEN 'many' ELSE 'few' END", r#""many""#),
        ("CASE two WHEN 1 THEN 'one' WHEN 2 THEN 'two' END", r#""two""#),
        ("CASE two WHEN 1 THEN 'one' END", "null"),
        ("n > 400 AND s = 'x'", "false"),
        ("nothing = 1", "null"),
    ]);
}

#[test]
fn a_path_through_a_list_is_the_list_of_what_it_found() {
    all(&[
        ("objects.a", r#"[1,"x"]"#),
        ("objects[1].a", r#""x""#),
        ("objects[9].a", "null"),
        ("objects.nothing", "[]"),
        ("l", r#"[1,[2],{"a":3}]"#),
        ("l[1][0]", "2"),
        ("CARDINALITY(l)", "3"),
        ("SIZE(objects.a)", "2"),
        ("CARDINALITY(o)", "null"),
        ("COALESCE(objects.a, 1)", r#"[1,"x"]"#),
        ("UPPER(objects.a)", "null"),
        ("COALESCE(objects.a, 1) = 'x'", "true"),
    ]);
}

#[test]
fn no_value_of_a_record_costs_unbounded_memory() {
    let long = "a".repeat(1 << 20);
    let json = format!("{{\"x\":\"{long}\",\"n\":{},\"zeros\":1.{}}}", "9".repeat(1 << 20), "0".repeat(1 << 20));
    let row = Row { data: Some(json.as_bytes()), ..row() };
    for (expression, is_null) in [
        ("LENGTH(REPLACE(x, 'a', x))", true),
        ("LENGTH(REPLACE(x, 'a', 'bbbb'))", false),
        ("LENGTH(CONCAT(x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x))", true),
        ("n * n", true),
        ("n / 3", true),
        ("zeros + 1", false),
        ("ABS(n)", false),
    ] {
        let query = Query::parse(&format!("SELECT {expression} FROM t"), 0).unwrap();
        let mut values = Vec::new();
        assert!(query.answer(&row, &mut values));
        let mut json = Vec::new();
        values[0].write_json(&mut json);
        assert_eq!(json == b"null", is_null, "{expression}");
    }
}

/// Pieces of which texts are put together that are often nearly right.
const PIECES: [&str; 52] = [
    "SELECT",
    "FROM",
    "WHERE",
    "LIMIT",
    "stream",
    "t",
    "a",
    "b.c",
    "\"q r\"",
    "[0]",
    "(",
    ")",
    "(",
    ")",
    ",",
    ".",
    "*",
    "+",
    "-",
    "/",
    "%",
    "||",
    "=",
    "<>",
    "<",
    ">=",
    "AND",
    "OR",
    "NOT",
    "IN",
    "BETWEEN",
    "LIKE",
    "ESCAPE",
    "IS",
    "NULL",
    "MISSING",
    "TRUE",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "CAST(",
    "AS",
    "INT",
    "EXTRACT(YEAR",
    "INTERVAL",
    "'1'",
    "DAY",
    "1.5",
    "é",
    ";",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(pieces in prop::collection::vec(0..PIECES.len(), 0..25), noise in "\\PC{0,4}", at in 0..25usize) {
        let mut words: Vec<&str> = pieces.into_iter().map(|piece| PIECES[piece]).collect();
        words.insert(at.min(words.len()), &noise);
        let text = words.join(" ");
        for sql in [text.clone(), format!("SELECT {text} FROM t"), format!("SELECT a FROM t WHERE {text}")] {
            if let Ok(query) = Query::parse(&sql, 0) {
                query.answer(&row(), &mut Vec::new());
            }
        }
        if let Ok(filter) = Filter::parse(&text) {
            prop_assert!(filter.matches(DOCUMENT).is_some());
        }
    }

    #[test]
    fn numbers_compare_and_add_up_as_decimals_do(a in "-?[0-9]{1,30}(\\.[0-9]{1,20})?(e-?[0-9]{1,2})?", b in "-?[0-9]{1,30}(\\.[0-9]{1,20})?(e-?[0-9]{1,2})?") {
        use std::str::FromStr;
        use bigdecimal::BigDecimal;
        let (x, y) = (BigDecimal::from_str(&a).unwrap(), BigDecimal::from_str(&b).unwrap());
        prop_assert_eq!(value(&format!("{a} < {b}")), (x < y).to_string());
        prop_assert_eq!(value(&format!("{a} = {b}")), (x == y).to_string());
        let number = |text: String| BigDecimal::from_str(&text).unwrap();
        prop_assert_eq!(number(value(&format!("{a} + {b}"))), &x + &y);
        prop_assert_eq!(number(value(&format!("{a} - ({b})"))), &x - &y);
        prop_assert_eq!(number(value(&format!("{a} * {b}"))), &x * &y);
    }
}
