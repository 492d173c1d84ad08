//! What mapping fits what was seen; and a model of a server's acceptance, against which random documents are held.
//!
//! The model is written from what OpenSearch 2.19 and 3.9 answered to each value in each type, not from the code that it checks.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use super::*;

fn infer(documents: &[&str]) -> Inferred {
    let mut inference = Inference::new();
    for text in documents {
        inference.observe(&Document(Bytes::copy_from_slice(text.as_bytes())));
    }
    inference.finish()
}

fn properties(inferred: &Inferred) -> &Value {
    &inferred.mapping["mappings"]["properties"]
}

fn keyword() -> Value {
    json!({"type": "keyword", "ignore_above": 8191})
}

fn text() -> Value {
    json!({"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}})
}

fn disabled() -> Value {
    json!({"type": "object", "enabled": false, "dynamic": false})
}

#[test]
fn every_field_gets_the_narrowest_type_that_takes_all_its_values() {
    let plain = |name: &str| json!({"type": name});
    for (values, mapping) in [
        (&["1", "-7", "9223372036854775807"][..], plain("long")),
        (&["1", "1.5"], plain("double")),
        (&["1e3"], plain("double")),
        (&["100.0", "1"], plain("double")),
        (&["true", "false", "null"], plain("boolean")),
        (&[r#""2017-08-21""#, r#""2017-08-21T10:11:12.123-00:00""#], plain("date")),
        (&[r#""2017-08-21""#, r#""2019""#, r#""2019-05""#], plain("date")),
        (&[r#""2019""#, r#""2020""#], keyword()),
        (&[r#""2019-05""#], keyword()),
        (&[r#""3Qv67yjXEwB9SjmvkuG6Cp""#, r#""KRva""#, r#""5PLf9SXwndd63lPaSIa0O6""#, r#""8F0TPCmdNQ6JTRpiLj2TmW""#], keyword()),
        (&[r#""Seattle""#, r#""Tacoma""#], text()),
        (&[r#""A1""#, r#""Seattle""#], text()),
        (&[r#""A1""#, r#""two words""#], text()),
        (&["[1,2,[3]]", "4", "[]", "[null]"], plain("long")),
        (&["[1,2.5]"], plain("double")),
        (&[r#"{"a":1}"#, r#"{"b":true}"#], json!({"type": "object", "properties": {"a": {"type": "long"}, "b": {"type": "boolean"}}})),
        (&[r#"[{"a":1},[{"a":2.5}],null]"#, "null", "[]"], json!({"type": "object", "properties": {"a": {"type": "double"}}})),
        (&["{}"], json!({"type": "object", "properties": {}})),
    ] {
        let documents: Vec<String> = values.iter().map(|value| format!(r#"{{"f":{value}}}"#)).collect();
        let inferred = infer(&documents.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(properties(&inferred)["f"], mapping, "{values:?}");
        assert_eq!(inferred.conflicts, [], "{values:?}");
    }
}

#[test]
fn contradictions_are_named_and_take_the_widest_type() {
    for (values, mapping, found) in [
        (&["1", "9223372036854775808"][..], keyword(), "[(Long, 1), (BigInteger, 1)]"),
        (&["1.5", "9223372036854775808"], json!({"type": "double"}), "[(BigInteger, 1), (Double, 1)]"),
        (&["1", "1e400"], keyword(), "[(Long, 1), (HugeNumber, 1)]"),
        (&["1", "true"], keyword(), "[(Boolean, 1), (Long, 1)]"),
        (&["1", "2", r#""A7""#], keyword(), "[(Long, 2), (Code, 1)]"),
        (&["1", r#""two words""#], text(), "[(Long, 1), (Text, 1)]"),
        (&["true", r#""yes""#], text(), "[(Boolean, 1), (Word, 1)]"),
        (&["1", r#""2017-08-21""#], keyword(), "[(Long, 1), (Date, 1)]"),
        (&[r#""2017-08-21""#, r#""2017-08-22""#, r#""""#], text(), "[(Date, 2), (Word, 1)]"),
        (&[r#""2017-08-21""#, r#""2017-02-29""#], keyword(), "[(Date, 1), (Code, 1)]"),
        (&["1", r#"{"a":1}"#], disabled(), "[(Long, 1), (Object, 1)]"),
        (&[r#"["x",{"a":1}]"#], disabled(), "[(Word, 1), (Object, 1)]"),
    ] {
        let documents: Vec<String> = values.iter().map(|value| format!(r#"{{"f":{value}}}"#)).collect();
        let inferred = infer(&documents.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(properties(&inferred)["f"], mapping, "{values:?}");
        assert_eq!(inferred.conflicts.len(), 1, "{values:?}: {:?}", inferred.conflicts);
        assert_eq!(inferred.conflicts[0].path, "f");
        assert_eq!(format!("{:?}", inferred.conflicts[0].found), found, "{values:?}");
    }
}

#[test]
fn one_date_among_many_texts_is_no_conflict() {
    let inferred = infer(&[r#"{"f":"2017-08-21"}"#, r#"{"f":"two words"}"#, r#"{"f":"three more words"}"#]);
    assert_eq!(properties(&inferred)["f"], text());
    assert_eq!(inferred.conflicts, []);
}

#[test]
fn the_mapping_switches_guessing_off_and_keeps_decimals_exact_enough() {
    let inferred = infer(&[r#"{"a":1}"#]);
    assert_eq!(
        inferred.mapping,
        json!({"mappings": {
            "date_detection": false,
            "numeric_detection": false,
            "dynamic_templates": [{"decimals": {"match_mapping_type": "double", "mapping": {"type": "double"}}}],
            "properties": {"a": {"type": "long"}},
        }})
    );
}

#[test]
fn a_field_that_was_only_null_or_empty_is_listed_and_left_open() {
    let inferred = infer(&[r#"{"a":null,"b":[],"c":[null,[]]}"#, r#"{"a":null}"#]);
    assert_eq!(properties(&inferred), &json!({}));
    assert_eq!(inferred.fields, ["a", "b", "c"].map(|path| Seen { path: path.to_owned(), mapped: None, seen: 0, absent: 2 }),);
}

#[test]
fn documents_are_counted_once_per_field_however_many_values_they_hold() {
    let inferred = infer(&[r#"{"a":[1,2,3],"o":[{"b":1},{"b":2}]}"#, r#"{"a":4}"#, "{}"]);
    let counts: Vec<_> = inferred.fields.iter().map(|field| (field.path.as_str(), field.mapped, field.seen, field.absent)).collect();
    assert_eq!(counts, [("a", Some("long"), 2, 1), ("o", Some("object"), 1, 2), ("o.b", Some("long"), 1, 2)]);
    assert_eq!(inferred.documents, 3);
}

#[test]
fn a_name_with_dots_is_the_path_that_the_server_makes_of_it() {
    let inferred = infer(&[r#"{"a.b":1}"#, r#"{"a":{"b":2.5}}"#, r#"{"a":{"c":true}}"#]);
    let a = json!({"type": "object", "properties": {"b": {"type": "double"}, "c": {"type": "boolean"}}});
    assert_eq!(properties(&inferred), &json!({"a": a}));
    assert_eq!(inferred.conflicts, []);

    let inferred = infer(&[r#"{"a":1}"#, r#"{"a.b":1}"#]);
    assert_eq!(properties(&inferred)["a"], disabled());
}

#[test]
fn a_name_with_a_dot_at_its_end_is_mapped_without_it_and_named() {
    let inferred = infer(&[r#"{"a.":{"c":true}}"#, r#"{"a":{"b":1}}"#]);
    let a = json!({"type": "object", "properties": {"b": {"type": "long"}, "c": {"type": "boolean"}}});
    assert_eq!(properties(&inferred), &json!({"a": a}));
    assert_eq!(inferred.conflicts.len(), 1);
    assert_eq!((inferred.conflicts[0].path.as_str(), inferred.conflicts[0].chosen.as_str()), ("a.", "a"));
}

#[test]
fn names_that_the_server_refuses_are_named() {
    for name in ["", ".", "..", ".a", "a..b", "a. .b", "_id", "_source", "_id.a", "_doc_count", "_primary_term"] {
        let inferred = infer(&[&json!({name: 1, "good": 1}).to_string()]);
        assert_eq!(properties(&inferred), &json!({"good": {"type": "long"}}), "{name}");
        assert_eq!(inferred.conflicts.len(), 1, "{name}");
        assert_eq!(inferred.conflicts[0].path, name, "{name}");
    }
    for name in [" ", "_type", "_size", "a*b", "a#b"] {
        assert_eq!(infer(&[&json!({name: 1}).to_string()]).conflicts, [], "{name}");
    }
    assert_eq!(infer(&[r#"{"a":{"_id":1}}"#]).conflicts, []);
    assert_eq!(infer(&[r#"{"a":{"b..c":1}}"#]).conflicts[0].path, "a.b..c");
}

#[test]
fn refused_names_are_kept_in_a_bounded_number() {
    let documents: Vec<String> = (0..300).map(|n| format!(r#"{{"a..{n}":1}}"#)).collect();
    let inferred = infer(&documents.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(inferred.conflicts.len(), MAX_REFUSED + 1);
    assert!(inferred.conflicts.iter().any(|conflict| conflict.path.is_empty() && conflict.why.starts_with("200 more")));
}

#[test]
fn fields_past_the_cap_are_closed_off_and_said() {
    let members: Vec<String> = (0..MAX_FIELDS + 5).map(|n| format!(r#""f{n}":1"#)).collect();
    let inferred = infer(&[&format!("{{{}}}", members.join(","))]);
    assert_eq!(inferred.fields.len(), MAX_FIELDS);
    assert_eq!(inferred.mapping["mappings"]["dynamic"], json!(false));
    assert_eq!(inferred.mapping["settings"], json!({"index.mapping.total_fields.limit": 3000}));
    assert!(inferred.conflicts.iter().any(|conflict| conflict.path.is_empty() && conflict.why.starts_with("5 values")));
}

#[test]
fn more_fields_than_a_server_takes_by_default_raise_the_limit_and_are_said() {
    let documents = |count: usize| format!("{{{}}}", (0..count).map(|n| format!(r#""f{n}":"two words""#)).collect::<Vec<_>>().join(","));
    let at = infer(&[&documents(500)]);
    assert_eq!((at.mapping.get("settings"), at.conflicts.len()), (None, 0));
    let over = infer(&[&documents(501)]);
    assert_eq!(over.mapping["settings"]["index.mapping.total_fields.limit"], json!(2000));
    assert_eq!(over.conflicts.len(), 1);
}

#[test]
fn objects_below_the_mapping_depth_are_closed_off_and_said() {
    let nested = |count: usize| format!("{}1{}", r#"{"o":"#.repeat(count), "}".repeat(count));
    let fits = infer(&[&nested(20)]);
    assert_eq!((depth(&fits.mapping["mappings"]), fits.conflicts.len()), (20, 0));
    for count in [21, 25, 120, 5_000] {
        let inferred = infer(&[&nested(count)]);
        assert_eq!(depth(&inferred.mapping["mappings"]), 20, "{count}");
        assert_eq!(inferred.conflicts.len(), 1, "{count}");
        assert_eq!(inferred.conflicts[0].path, ["o"; 20].join("."), "{count}");
    }
    let dotted = infer(&[&format!(r#"{{"{}":1}}"#, ["o"; 40].join("."))]);
    assert_eq!((depth(&dotted.mapping["mappings"]), dotted.conflicts.len()), (20, 1));
}

/// Levels of a mapping as the server counts them: the root and every object.
fn depth(mapping: &Value) -> usize {
    match mapping.get("properties").and_then(Value::as_object) {
        Some(properties) => 1 + properties.values().map(depth).max().unwrap_or(0),
        None => 0,
    }
}

#[test]
fn arrays_deeper_than_the_server_takes_are_named() {
    let nested = |count: usize| format!(r#"{{"f":{}1{}}}"#, "[".repeat(count), "]".repeat(count));
    let inferred = infer(&[&nested(20)]);
    assert_eq!((&properties(&inferred)["f"]["type"], inferred.conflicts.len()), (&json!("long"), 0));
    for count in [21, 200, 20_000] {
        let inferred = infer(&[&nested(count)]);
        assert_eq!(properties(&inferred), &json!({}), "{count}");
        assert_eq!(inferred.conflicts.len(), 1, "{count}");
    }
}

#[test]
fn text_that_is_no_json_object_is_counted_and_named() {
    for broken in ["[1]", "1", "", "{", r#"{"a":}"#, r#"{"a":1} x"#, "\u{feff}{}", r#"{"\ud800":1}"#] {
        let inferred = infer(&[broken, r#"{"good":1}"#]);
        assert_eq!(properties(&inferred)["good"]["type"], json!("long"), "{broken}");
        assert_eq!(inferred.documents, 2);
        assert!(inferred.conflicts.iter().any(|conflict| conflict.why.contains("in 1 documents")), "{broken}: {:?}", inferred.conflicts);
    }
}

#[test]
fn no_value_of_a_document_is_kept() {
    let inferred = infer(&[r#"{"a":"topsecret","b":["topsecret",7]}"#, r#"{"a":{"c":"topsecret"}}"#]);
    assert!(!format!("{inferred:?}").contains("topsecret"));
}

#[test]
fn the_report_is_json_with_kinds_by_name() {
    let inferred = infer(&[r#"{"a":1}"#, r#"{"a":true}"#]);
    let report = serde_json::to_value(&inferred).unwrap();
    assert_eq!(report["conflicts"][0]["found"], json!([["boolean", 1], ["long", 1]]));
    assert_eq!(report["fields"], json!([{"path": "a", "mapped": "keyword", "seen": 2, "absent": 0}]));
    for kind in Kind::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap(), json!(kind.as_str()));
        assert_eq!(Kind::ALL[kind as usize], kind);
    }
}

/// A JSON value whose numbers keep their text.
#[derive(Debug, Clone)]
enum Json {
    Null,
    Boolean(bool),
    Number(String),
    Text(String),
    Array(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    fn render(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Boolean(value) => value.to_string(),
            Self::Number(digits) => digits.clone(),
            Self::Text(text) => serde_json::to_string(text).unwrap(),
            Self::Array(elements) => format!("[{}]", elements.iter().map(Self::render).collect::<Vec<_>>().join(",")),
            Self::Object(members) => {
                let member = |(name, value): (&String, &Self)| format!("{}:{}", serde_json::to_string(name).unwrap(), value.render());
                format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
            }
        }
    }

    fn says_nothing(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Array(elements) => elements.iter().all(Self::says_nothing),
            _ => false,
        }
    }
}

/// Whether a server with this mapping takes the value at `path`; the error says what it would refuse, or leave to chance.
fn takes(mapping: &Value, dynamic: bool, path: &str, value: &Json) -> Result<(), String> {
    if mapping.get("enabled") == Some(&json!(false)) {
        return Ok(());
    }
    let kind = mapping.get("type").and_then(Value::as_str).unwrap_or("object");
    match (kind, value) {
        (_, Json::Null) | ("keyword" | "text", Json::Boolean(_) | Json::Number(_) | Json::Text(_)) | ("boolean", Json::Boolean(_)) => {
            Ok(())
        }
        (_, Json::Array(elements)) => elements.iter().try_for_each(|element| takes(mapping, dynamic, path, element)),
        ("long", Json::Number(digits)) if digits.parse::<f64>().is_ok_and(|near| near.abs() < 9.2e18) => Ok(()),
        ("long", Json::Number(digits)) if digits.parse::<i64>().is_ok() => Ok(()),
        ("double", Json::Number(digits)) if digits.parse::<f64>().is_ok_and(f64::is_finite) => Ok(()),
        ("date", Json::Text(text)) if form::DATES.contains(&text.as_str()) || form::PARTIAL_DATES.contains(&text.as_str()) => Ok(()),
        ("object", Json::Object(members)) => {
            let dynamic = mapping.get("dynamic").map_or(dynamic, |dynamic| *dynamic == json!(true));
            members.iter().try_for_each(|(name, value)| member_is_taken(mapping, dynamic, path, name, value))
        }
        _ => Err(format!("{path}: {kind} does not take {value:?}")),
    }
}

fn member_is_taken(object: &Value, dynamic: bool, path: &str, name: &str, value: &Json) -> Result<(), String> {
    let (mut object, mut dynamic) = (object, dynamic);
    for part in name.trim_end_matches('.').split('.') {
        if object.get("enabled") == Some(&json!(false)) {
            return Ok(());
        }
        dynamic = object.get("dynamic").map_or(dynamic, |dynamic| *dynamic == json!(true));
        match object["properties"].get(part) {
            Some(next) => object = next,
            None if !dynamic || value.says_nothing() => return Ok(()),
            None => return Err(format!("{path}.{name}: left to chance")),
        }
    }
    takes(object, dynamic, &format!("{path}.{name}"), value)
}

fn plain() -> impl Strategy<Value = Json> {
    let numbers =
        ["0", "-0", "7", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "0.5", "442.30", "1e3", "1e-400", "1e400"];
    let strings = ["", "A1", "Seattle", "two words", "true", "12", "2017-08-21 10:11:12", "\u{fc}", "a\"b\\c\n"];
    let known: Vec<&str> = form::DATES.into_iter().chain(form::PARTIAL_DATES).chain(form::NO_DATES).chain(strings).collect();
    prop_oneof![
        1 => Just(Json::Null),
        2 => any::<bool>().prop_map(Json::Boolean),
        4 => prop::sample::select(numbers.to_vec()).prop_map(|digits| Json::Number(digits.to_owned())),
        1 => Just(Json::Number("1".repeat(400))),
        4 => prop::sample::select(&form::DATES[..]).prop_map(|text| Json::Text(text.to_owned())),
        4 => prop::sample::select(known).prop_map(|text| Json::Text(text.to_owned())),
        1 => Just(Json::Text("x".repeat(40_000))),
    ]
}

/// Few names and shallow trees, so that values meet in the same fields.
fn object() -> impl Strategy<Value = Json> {
    let names = prop::sample::select(vec!["a", "b", "c", "d", "e", "a.b", "b.a", "c.d.e"]).prop_map(str::to_owned);
    let value = plain().prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::Array),
            prop::collection::btree_map(names.clone(), inner, 0..4).prop_map(Json::Object),
        ]
    });
    let names = prop::sample::select(vec!["a", "b", "c", "d", "e", "a.b", "b.a", "c.d.e"]).prop_map(str::to_owned);
    prop::collection::btree_map(names, value, 0..5).prop_map(Json::Object)
}

/// One kind per field: the documents of an orderly table.
fn orderly() -> impl Strategy<Value = Json> {
    let pick = |texts: &'static [&'static str]| prop::sample::select(texts);
    (pick(&["1", "-5"]), pick(&["1", "0.5", "1e3"]), pick(&form::DATES), pick(&["Seattle", "two words"]), any::<bool>()).prop_map(
        |(whole, decimal, date, text, flag)| {
            let member = |name: &str, value| (name.to_owned(), value);
            Json::Object(BTreeMap::from([
                member("whole", Json::Number(whole.to_owned())),
                member("decimal", Json::Array(vec![Json::Number(decimal.to_owned()), Json::Null])),
                member("date", Json::Text(date.to_owned())),
                member(
                    "owner",
                    Json::Object(BTreeMap::from([member("name", Json::Text(text.to_owned())), member("flag", Json::Boolean(flag))])),
                ),
            ]))
        },
    )
}

fn rendered(documents: &[Json]) -> Vec<String> {
    documents.iter().map(Json::render).collect()
}

/// The same cases in every run.
fn cases() -> ProptestConfig {
    ProptestConfig { rng_seed: RngSeed::Fixed(20_171_121), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn every_document_that_was_seen_fits_the_mapping(documents in prop::collection::vec(object(), 1..12)) {
        let inferred = infer(&rendered(&documents).iter().map(String::as_str).collect::<Vec<_>>());
        for document in &documents {
            prop_assert_eq!(takes(&inferred.mapping["mappings"], true, "", document), Ok(()), "{}", inferred.mapping);
        }
    }

    #[test]
    fn the_mapping_does_not_depend_on_the_order_of_the_documents(documents in prop::collection::vec(object(), 1..8)) {
        let texts = rendered(&documents);
        let forwards = infer(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let backwards = infer(&texts.iter().rev().map(String::as_str).collect::<Vec<_>>());
        prop_assert_eq!(forwards, backwards);
    }

    #[test]
    fn an_orderly_table_has_no_conflicts(documents in prop::collection::vec(orderly(), 1..8)) {
        let inferred = infer(&rendered(&documents).iter().map(String::as_str).collect::<Vec<_>>());
        prop_assert_eq!(&inferred.conflicts, &[]);
        for document in &documents {
            prop_assert_eq!(takes(&inferred.mapping["mappings"], true, "", document), Ok(()));
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut inference = Inference::new();
        inference.observe(&Document(Bytes::from(bytes)));
        inference.finish();
    }
}

#[test]
fn the_model_of_the_server_can_refuse() {
    let one = |mapping: Value, value: Json| {
        takes(&json!({"properties": {"f": mapping}}), true, "", &Json::Object(BTreeMap::from([("f".to_owned(), value)])))
    };
    assert!(one(json!({"type": "long"}), Json::Number("9223372036854775808".to_owned())).is_err());
    assert!(one(json!({"type": "double"}), Json::Number("1e400".to_owned())).is_err());
    assert!(one(json!({"type": "date"}), Json::Text("2017-02-29".to_owned())).is_err());
    assert!(one(json!({"type": "boolean"}), Json::Text("yes".to_owned())).is_err());
    assert!(one(keyword(), Json::Object(BTreeMap::new())).is_err());
    assert!(one(json!({"properties": {}}), Json::Number("1".to_owned())).is_err());
    assert!(one(json!({"properties": {}}), Json::Object(BTreeMap::from([("g".to_owned(), Json::Boolean(true))]))).is_err());
}
