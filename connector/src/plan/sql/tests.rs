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
    value_of(&row(), expression)
}

fn value_of(row: &Row<'_>, expression: &str) -> String {
    let query =
        Query::parse(&format!("SELECT {expression} FROM t"), 1_500_000_000_123).unwrap_or_else(|error| panic!("{expression}: {error}"));
    let mut values = Vec::new();
    assert!(query.answer(row, &mut values), "{expression}");
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
fn a_zero_with_a_long_exponent_does_not_make_a_query_hang() {
    let zeros = br#"{"small":0e-999999999,"large":0e999999999,"larger":0.000e99999999999999999999999}"#;
    let row = Row { data: Some(zeros), ..row() };
    for (expression, json) in [
        ("small + 1", "1"),
        ("1.5 - small", "1.5"),
        ("small * small", "0"),
        ("7 % small", "null"),
        ("large / 3", "0"),
        ("large + small", "0"),
        ("larger + 1", "1"),
        ("ROUND(small, 2)", "0"),
        ("CAST(large AS INT)", "0"),
    ] {
        assert_eq!(value_of(&row, expression), json, "{expression}");
    }
}

#[test]
fn a_zero_is_never_printed_with_a_minus_by_what_takes_signs_away_or_changes_them() {
    let row = Row { data: Some(br#"{"zero":0,"minus":-0.0}"#), ..row() };
    for (expression, json) in [("-zero", "0"), ("-0", "0"), ("-minus", "0.0"), ("ABS(minus)", "0.0"), ("CAST(-0 AS TEXT)", "\"0\"")] {
        assert_eq!(value_of(&row, expression), json, "{expression}");
    }
}

#[test]
fn numbers_are_rounded_away_from_zero_at_halves_on_both_sides_of_the_point() {
    all(&[
        ("ROUND(-0.5)", "-1"),
        ("ROUND(-0.4)", "0"),
        ("ROUND(-0.05, 1)", "-0.1"),
        ("ROUND(1.005, 2)", "1.01"),
        ("ROUND(-5, -1)", "-10"),
        ("ROUND(499.9, -3)", "0"),
        ("ROUND(500, -3)", "1000"),
        ("ROUND(50, -3)", "0"),
        ("ROUND(999.9, -3)", "1000"),
        ("ROUND(1, -1001)", "null"),
        ("FLOOR(-1e-30)", "-1"),
        ("CEIL(-0.5)", "0"),
        ("CAST(99.995 AS DECIMAL(4, 2))", "null"),
        ("CAST('9223372036854775808' AS BIGINT)", "9223372036854775808"),
        ("CAST(1e400 AS INT)", "1e400"),
    ]);
}

#[test]
fn times_at_the_ends_of_months_and_of_the_calendar() {
    all(&[
        ("DATE '2020-02-29' + INTERVAL '1' YEAR", r#""2021-02-28T00:00:00Z""#),
        ("DATE '2020-03-31' - INTERVAL '1' MONTH", r#""2020-02-29T00:00:00Z""#),
        ("DATE '2020-05-31' + INTERVAL '13' MONTH", r#""2021-06-30T00:00:00Z""#),
        ("DATE '2020-01-01' - INTERVAL '-2147483648' MONTH", "null"),
        ("DATE '2020-01-01' + INTERVAL '2147483647' WEEK", "null"),
        ("'0001-01-01T00:00:00Z' - INTERVAL '1' SECOND", "null"),
        ("'9999-12-31T23:59:59.9Z' + INTERVAL '1' SECOND", "null"),
        ("DATE_TRUNC('week', '0001-01-01')", r#""0001-01-01T00:00:00Z""#),
        ("DATE_TRUNC('second', '9999-12-31T23:59:59.999999999999Z')", r#""9999-12-31T23:59:59Z""#),
        ("CAST('2019-12-31T23:30:00-01:00' AS TIMESTAMP)", r#""2020-01-01T00:30:00Z""#),
        ("CAST('2020-01-01T00:30:00+01:00' AS DATE)", r#""2019-12-31""#),
        ("CAST('2000-02-29' AS DATE)", r#""2000-02-29""#),
        ("CAST('1900-02-29' AS DATE)", "null"),
        ("CAST('2016-12-31T23:59:60Z' AS TIMESTAMP)", "null"),
        ("EXTRACT(EPOCH FROM '1969-12-31T23:59:58.001Z')", "-1.999"),
        ("EXTRACT(SECOND FROM '1969-12-31T23:59:59.001Z')", "59.001"),
        ("EXTRACT(EPOCH FROM '0001-01-01T00:00:00Z')", "-62135596800"),
        ("TO_TIMESTAMP(-62135596800001)", "null"),
        ("TO_TIMESTAMP(253402300799999)", r#""9999-12-31T23:59:59.999Z""#),
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

/// Queries with all that there is, to be changed.
const QUERIES: [&str; 6] = [
    "SELECT s, n AS number, \"o\".x, l[1][0], objects.a FROM stream AS x WHERE n BETWEEN 1 AND 1e400 AND NOT s IN ('a', 'it''s', s) LIMIT 10;",
    "SELECT * FROM t -- all\r\nWHERE (t > '2019-05-31T10:20:30Z' OR d + INTERVAL '36' HOUR < NOW()) AND s LIKE 'G!%_%' ESCAPE '!' /* x */",
    "SELECT CASE WHEN n > 4 THEN 'many' ELSE s || '-' || t END, CASE two WHEN 1 THEN 2 END FROM \"a.b\" WHERE yes IS NOT TRUE AND nothing IS MISSING",
    "SELECT CAST(n AS DECIMAL(5, 1)), ROUND(neg / 3 * -2 % 7, 2), COALESCE(nothing, NULLIF(n, 2), big - far) FROM shop.item i WHERE i.n <> 442.30",
    "SELECT EXTRACT(YEAR FROM t), DATE_TRUNC('week', TIMESTAMP '2019-05-31'), SUBSTRING(s FROM 2 FOR 3), TRIM(BOTH 'x' FROM s) FROM t",
    "SELECT POSITION('ß' IN s), GREATEST(n, two), LEFT(s, -1), CARDINALITY(l), ROWTIME, rowoffset, metadata.txTime FROM stream WHERE yes = (n >= 2)",
];

/// What is put into them.
const INSERTS: [&str; 24] = [
    "'",
    "\"",
    "(",
    ")",
    "((((((((",
    "[",
    "]",
    ".",
    "..",
    ";",
    "--",
    "/*",
    "NOT ",
    " IS ",
    " IN ",
    "- - -",
    "\0",
    "\t",
    "\r",
    "日本",
    "\u{301}",
    "1e99999999999999999999",
    " ANY ",
    "INTERVAL ",
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
    fn no_query_that_was_nearly_right_panics(
        which in 0..QUERIES.len(),
        changes in prop::collection::vec((any::<u16>(), 0..7u8, any::<u16>(), prop::sample::select(&INSERTS[..])), 1..5),
    ) {
        let mut sql: Vec<char> = QUERIES[which].chars().collect();
        for (at, what, other, insert) in changes {
            let place = |number: u16| usize::from(number) % (sql.len() + 1);
            let (from, to) = (place(at).min(place(other)), place(at).max(place(other)));
            let part: Vec<char> = match what {
                // Left out, twice, many times, in another's place, backwards; else something put in.
                0 => Vec::new(),
                1 => sql[from..to].repeat(2),
                2 if to - from < 40 => sql[from..to].repeat(60),
                3 => QUERIES[usize::from(other) % QUERIES.len()].chars().collect(),
                4 => sql[from..to].iter().rev().copied().collect(),
                _ => insert.chars().chain(sql[from..to].iter().copied()).collect(),
            };
            sql.splice(from..to, part);
        }
        let sql: String = sql.into_iter().collect();
        for sql in [sql.as_str(), QUERIES[which].get(..sql.len() % QUERIES[which].len()).unwrap_or_default()] {
            match Query::parse(sql, 0) {
                Ok(query) => drop(query.answer(&row(), &mut Vec::new())),
                Err(error) => prop_assert!(!error.what.is_empty() && error.help.is_some()),
            }
            let condition = sql.split_once("WHERE").map_or(sql, |(_, condition)| condition);
            if let Ok(filter) = Filter::parse(condition) {
                prop_assert!(filter.matches(DOCUMENT).is_some());
            }
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
