use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::codec::ion_json::{MAX_DEPTH, MAX_FIELDS, Rules};
use crate::codec::json_write::Writer;

fn json(text: &str) -> Json<'_> {
    Json::parse(text.as_bytes()).unwrap()
}

fn written_by(rules: Rules, text: &str) -> Result<(String, Notes), String> {
    let (mut out, mut notes) = (b"before".to_vec(), Notes::default());
    Writer::new(&rules, &mut out, &mut notes).value(json(text), 1).map_err(|fault| fault.kind)?;
    Ok((String::from_utf8(out[6..].to_vec()).unwrap(), notes))
}

fn written(text: &str) -> String {
    written_by(Rules::default(), text).unwrap_or_else(|kind| (kind, Notes::default())).0
}

#[test]
fn a_value_is_written_on_one_line_with_its_numbers_as_they_came() {
    for (text, expected) in [
        (" { \"a\" : [ 1 , 2.50 ,\r\n-0 , 1E+5 ] ,\t\"b\" : { } , \"c\":[]} ", r#"{"a":[1,2.50,-0,1E+5],"b":{},"c":[]}"#),
        (r#"["\u0041\/\"\\\n\u00e9\u0000\b\f\ud83d\ude00","é\t"]"#, "[\"A/\\\"\\\\\\né\\u0000\\b\\f😀\",\"é\\t\"]"),
        (r#"{"\u0061":true,"a b":null}"#, r#"{"a":true,"a b":null}"#),
        ("123456789012345678901234567890.1234567890123456789", "123456789012345678901234567890.1234567890123456789"),
        ("1e999999", "1e999999"),
    ] {
        assert_eq!(written(text), expected);
    }
}

#[test]
fn of_fields_with_one_name_the_last_is_kept_and_the_others_are_counted() {
    let (text, notes) = written_by(Rules::default(), r#"{"a":1,"b":{"c":1,"c":2},"\u0061":3,"d":4,"a":5}"#).unwrap();
    assert_eq!((text.as_str(), notes.duplicate_fields), (r#"{"b":{"c":2},"d":4,"a":5}"#, 3));
    let many: Vec<String> = (0..200).map(|i| format!("\"f{}\":{i}", i % 100)).collect();
    let (text, notes) = written_by(Rules::default(), &format!("{{{}}}", many.join(","))).unwrap();
    assert_eq!((text, notes.duplicate_fields), (format!("{{{}}}", many[100..].join(",")), 100));
}

#[test]
fn a_lone_surrogate_is_replaced_and_counted() {
    for (text, expected, count) in [
        (r#""\ud800""#, "\u{FFFD}", 1),
        (r#""\udc00\ud800""#, "\u{FFFD}\u{FFFD}", 2),
        (r#""\ud800\ud83d\ude00""#, "\u{FFFD}😀", 1),
        (r#""\ud800\u0041\udfff""#, "\u{FFFD}A\u{FFFD}", 2),
        (r#""\uD83D\uDE00\uD83D\n""#, "😀\u{FFFD}\n", 1),
        (r#""\ud800x\\udc00""#, "\u{FFFD}x\\udc00", 1),
    ] {
        let mut notes = Notes::default();
        assert_eq!(json(text).string(&mut notes).unwrap(), expected, "{text}");
        assert_eq!(notes.lone_surrogates, count, "{text}");
    }
    let (text, notes) = written_by(Rules::default(), r#"{"\ud800":{"a":["\udc00"]}}"#).unwrap();
    assert_eq!((text.as_str(), notes.lone_surrogates), ("{\"\u{FFFD}\":{\"a\":[\"\u{FFFD}\"]}}", 2));
}

#[test]
fn what_is_no_json_is_a_fault_that_says_where() {
    for (text, found) in [
        (&b""[..], "its end at byte 0 of 0"),
        (b"{\"a\":1", "its end at byte 6 of 6"),
        (b"{\"a\":1}}", "something else at byte 7 of 8"),
        (b"{\"a\":1}\n\n {}", "something else at byte 10 of 12"),
        (b"{\"a\":01}", "something else at byte 6 of 8"),
        (b"{a:1}", "something else at byte 1 of 5"),
        (b"[1,]", "something else at byte 3 of 4"),
        (b"\"\xC3\"", "a byte that is no UTF-8 at byte 1 of 3"),
        (b"[NaN]", "something else at byte 1 of 5"),
    ] {
        let fault = Json::parse(text).unwrap_err();
        assert_eq!((fault.kind.as_str(), fault.reason), ("undecodable", format!("expected one JSON value in UTF-8, found {found}")));
    }
}

#[test]
fn values_may_nest_so_deep_and_no_deeper() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |levels: usize| format!("{}1{}", open.repeat(levels), close.repeat(levels));
        assert_eq!(written(&nested(MAX_DEPTH)), nested(MAX_DEPTH));
        assert_eq!(written(&nested(MAX_DEPTH + 1)), "nested_too_deeply");
        assert_eq!(written(&nested(500_000)), "nested_too_deeply", "and nothing runs over on the way");
    }
}

#[test]
fn a_document_may_be_so_long_and_no_longer() {
    let rules = |limit| Rules { limit, ..Rules::default() };
    for text in [r#"{"a":"bcd"}"#, "[1,22,333]", "12345678", "\"\\n\\n\\n\"", "[[],[],{}]"] {
        let length = written(text).len();
        assert!(written_by(rules(length), text).is_ok(), "{text}");
        assert_eq!(written_by(rules(length - 1), text).unwrap_err(), "document_too_large", "{text}");
    }
}

#[test]
fn an_object_may_have_so_many_fields_and_no_more() {
    let object = |fields: usize| format!("{{{}}}", (0..fields).map(|i| format!("\"{i}\":0")).collect::<Vec<_>>().join(","));
    assert_eq!(written(&object(MAX_FIELDS)), object(MAX_FIELDS));
    assert_eq!(written(&object(MAX_FIELDS + 1)), "too_many_values");
}

#[test]
fn members_are_found_in_one_pass_and_of_repeated_ones_the_last() {
    let [a, b, missing] = json(r#"{"a":1,"x":{"b":2},"b":[{"a":3}],"\u0061":"4"}"#).find(["a", "b", "missing"]);
    assert_eq!((a.map(Json::text), b.map(Json::text), missing), (Some("\"4\""), Some(r#"[{"a":3}]"#), None));
    assert!(json("[1]").members().next().is_none() && json("{\"a\":1}").items().next().is_none());
}

#[test]
fn a_version_is_a_whole_number_up_to_the_highest_external_one() {
    for (text, version) in [
        ("0", Some(0)),
        ("9223372036854775807", Some(i64::MAX as u64)),
        ("9223372036854775808", None),
        ("99999999999999999999", None),
        ("-1", None),
        ("-0", None),
        ("\"12\"", Some(12)),
        ("\"012\"", Some(12)),
        ("\"9223372036854775807\"", Some(i64::MAX as u64)),
        ("\"9223372036854775808\"", None),
        ("\"-1\"", None),
        ("\"+1\"", None),
        ("\" 1\"", None),
        ("\"1\\u0032\"", None),
        ("\"\"", None),
        ("12.0", None),
        ("\"12.0\"", None),
        ("1e3", None),
        ("null", None),
        ("true", None),
        ("[1]", None),
        ("{}", None),
    ] {
        assert_eq!(json(text).version(), version, "{text}");
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_value_is_the_same_however_it_was_laid_out(value in any_value()) {
        let compact = serde_json::to_string(&value).unwrap();
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        prop_assert_eq!(written(&compact), written(&pretty));
        prop_assert_eq!(written(&compact), compact);
    }

    #[test]
    fn what_is_json_for_another_reader_is_json_and_nothing_else(text in r#"[{}\[\]",:0-9a-u\\. eE+\-]{0,24}"#) {
        let other = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
        prop_assert_eq!(Json::parse(text.as_bytes()).is_ok(), other);
        if other {
            let _ = written(&text);
        }
    }
}
