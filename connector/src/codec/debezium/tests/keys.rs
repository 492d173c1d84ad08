//! Which document a change is of: its key, from the message and from what is configured.

use super::*;

#[test]
fn the_id_is_that_of_the_message_key_in_the_order_of_its_columns() {
    let put = event("c", "null", r#"{"shop":"a,b","sku":7,"n":1}"#, POSTGRESQL);
    let id = |key: &str| lines(Some(key), &put)[0].split('@').next().unwrap().to_owned();
    assert_eq!(id(r#"{"shop":"a,b","sku":7}"#), "public.item/a%2Cb,7");
    assert_eq!(id(r#"{"sku":7.0,"shop":"a,b"}"#), "public.item/7,a%2Cb");
    assert_eq!(id(r#"{"schema":{"type":"struct","fields":[]},"payload":{"sku":7}}"#), "public.item/7");
    assert_eq!(id(r#"{"schema":null,"payload":{"sku":7}}"#), "public.item/7");
    assert_eq!(id(r#"{"hidden":9}"#), "public.item/9", "a key column that is not in the row");
    for (scalar, expected) in
        [("7", "7"), ("7.0", "7"), ("\"x,y\"", "x,y"), ("true", "true"), (r#"{"schema":{"type":"int32"},"payload":7}"#, "7")]
    {
        assert_eq!(id(scalar), format!("public.item/{expected}"), "{scalar}");
    }
    let payload = event("c", "null", r#"{"payload":7}"#, POSTGRESQL);
    assert_eq!(lines(Some(r#"{"payload":7}"#), &payload), [r#"public.item/7@2400164 {"payload":7}"#], "a column may be called payload");
}

#[test]
fn configured_key_columns_come_before_the_message_key() {
    let put = event("c", "null", r#"{"id":7,"sku":"MX"}"#, POSTGRESQL);
    let first = |options, key, event: &str| line(&contents(options, key, event.to_owned())[0]);
    for key in [None, Some(r#"{"id":7}"#), Some("not JSON"), Some("[1]"), Some("null"), Some("")] {
        assert_eq!(first(keyed(&["sku"]), key, &put), r#"public.item/MX@2400164 {"id":7,"sku":"MX"}"#, "{key:?}");
        assert_eq!(first(keyed(&["sku", "id"]), key, &put), r#"public.item/MX,7@2400164 {"id":7,"sku":"MX"}"#, "{key:?}");
    }
    // What a delete does not say in its row, its key may say.
    assert_eq!(
        first(keyed(&["sku"]), Some(r#"{"sku":"MX"}"#), &event("d", r#"{"id":7,"sku":null}"#, "null", POSTGRESQL)),
        "public.item/MX@2400164 deleted"
    );
    assert_eq!(first(keyed(&["sku"]), Some("\"MX\""), &event("d", "null", "null", POSTGRESQL)), "public.item/MX@2400164 deleted");
    assert_eq!(first(keyed(&["sku"]), Some(r#"{"id":7}"#), &event("d", r#"{"id":7,"sku":null}"#, "null", POSTGRESQL)), "key_missing");
}

#[test]
fn without_any_key_a_message_is_a_fault_that_says_how_to_name_it() {
    for key in [None, Some(""), Some("null"), Some("{}"), Some(r#"{"schema":null,"payload":null}"#)] {
        let fault = fault(options(TableOptions::default()), key, &event("c", "null", r#"{"id":7}"#, MYSQL));
        assert_eq!(fault.kind, "key_missing");
        assert!(fault.reason.ends_with("name them with --key inventory.customers=COLUMN[,COLUMN]"), "{fault}");
    }
    for key in ["Struct{id=7}", "[7]", "\u{0}\u{0}", "{\"id\":7"] {
        assert_eq!(lines(Some(key), &event("c", "null", r#"{"id":7}"#, MYSQL)), ["unusable_key"], "{key}");
    }
}

#[test]
fn a_key_that_cannot_be_an_id_is_a_fault_that_names_columns_and_no_value() {
    for (key, row, kind) in [
        (r#"{"id":null}"#, r#"{"id":null}"#, "key_missing"),
        (r#"{"id":7}"#, r#"{"id":null}"#, "key_missing"),
        (r#"{"id":["secret"]}"#, r#"{"id":["secret"]}"#, "unusable_key"),
        (r#"{"id":{"secret":1}}"#, r#"{"id":{"secret":1}}"#, "unusable_key"),
        (r#"{"id":"secret"}"#, r#"{"id":"other secret"}"#, "key_contradicted"),
        (r#"{"id":7,"no":1}"#, r#"{"id":7,"no":2}"#, "key_contradicted"),
    ] {
        let fault = fault(options(TableOptions::default()), Some(key), &event("c", "null", row, MYSQL));
        assert_eq!(fault.kind, kind, "{key}");
        assert!(!fault.reason.contains("secret") && fault.reason.contains(if key.contains("no") { "no" } else { "id" }), "{fault}");
    }
    assert_eq!(fault(keyed(&["id"]), Some("8"), &event("c", "null", r#"{"id":7}"#, MYSQL)).kind, "key_contradicted");
    assert_eq!(
        fault(options(TableOptions::default()), Some(r#"{"id":8}"#), &event("d", r#"{"id":7}"#, "null", MYSQL)).kind,
        "key_contradicted"
    );
}

#[test]
fn an_update_of_the_key_deletes_the_old_id_and_indexes_the_new_one() {
    let moved = event("u", r#"{"id":6,"name":"mug"}"#, r#"{"id":7,"name":"mug"}"#, POSTGRESQL);
    let expected = ["public.item/6@2400164 deleted", r#"public.item/7@2400164 {"id":7,"name":"mug"}"#];
    assert_eq!(lines(Some(r#"{"id":7}"#), &moved), expected);
    let found: Vec<String> = contents(keyed(&["id"]), None, moved).iter().map(line).collect();
    assert_eq!(found, expected);
    for before in [
        "null",
        "{}",
        r#"{"name":"cup"}"#,
        r#"{"id":null,"name":"cup"}"#,
        r#"{"id":7.0}"#,
        r#"{"id":"__debezium_unavailable_value"}"#,
        "[]",
    ] {
        let same = event("u", before, r#"{"id":7,"name":"mug"}"#, POSTGRESQL);
        assert_eq!(lines(Some(r#"{"id":7}"#), &same), expected[1..], "{before}");
    }
    // Only an update moves a row.
    assert_eq!(lines(Some(r#"{"id":7}"#), &event("c", r#"{"id":6}"#, r#"{"id":7,"name":"mug"}"#, POSTGRESQL)), expected[1..]);
}
