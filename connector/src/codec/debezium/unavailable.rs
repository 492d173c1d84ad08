//! Values that say "not in this change": what PostgreSQL does not write to its log again because it is large and did not change (TOAST), and what
//! Oracle leaves out of large objects. Written over a stored field they would destroy it.
//!
//! Only the connectors' own forms count, and only as the whole value of a column; text that contains one is data. A placeholder that was chosen
//! with `unavailable.value.placeholder` is not known here. A `boolean[]` has no form of its own (28 times `true`), and is not recognised.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::super::json::{Json, Kind};
use crate::record::Fault;

/// Debezium's default for `unavailable.value.placeholder`.
const PLACEHOLDER: &str = "__debezium_unavailable_value";

/// It in Base64, for columns of bytes.
const BASE64: &str = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==";

/// It in hexadecimal digits, for columns of bytes with `binary.handling.mode=hex`.
const HEX: &str = "5f5f646562657a69756d5f756e617661696c61626c655f76616c7565";

/// It for columns of type hstore with `hstore.handling.mode=json`.
const HSTORE_TEXT: &str = r#"{"__debezium_unavailable_value":"__debezium_unavailable_value"}"#;

/// The name-based UUID of it, as Java's `UUID.nameUUIDFromBytes` makes one: the only element of a `uuid[]`.
const UUID: &str = "b68a35a7-17ad-35b3-af2a-ae46edb4545a";

/// Whether a column's value is a placeholder (Debezium, PostgreSQL connector, `UnchangedToastedPlaceholder`): the text itself, bytes, an hstore, an
/// array with it as the one element, or an array of numbers with an element for each of its bytes.
pub(super) fn is_unavailable(value: Json<'_>) -> bool {
    match value.kind() {
        Kind::String => is_one_of(value, &[PLACEHOLDER, BASE64, HEX, HSTORE_TEXT]),
        Kind::Object => {
            let mut members = value.members();
            let is_it = members.next().is_some_and(|(name, value)| name == PLACEHOLDER && is_one_of(value, &[PLACEHOLDER]));
            is_it && members.next().is_none()
        }
        Kind::Array => {
            let mut items = value.items();
            let is_it = items.next().is_some_and(|item| is_one_of(item, &[PLACEHOLDER, BASE64, UUID]));
            (is_it && items.next().is_none()) || is_of_bytes(value)
        }
        Kind::Null | Kind::Boolean | Kind::Number => false,
    }
}

fn is_one_of(value: Json<'_>, texts: &[&str]) -> bool {
    value.unescaped().is_some_and(|(text, _)| texts.contains(&&*text))
}

/// Whether an array has an element for each byte of the placeholder, as whole numbers, with a fraction, or as decimals of either kind.
fn is_of_bytes(array: Json<'_>) -> bool {
    let mut items = array.items();
    let are_bytes = PLACEHOLDER.bytes().all(|byte| items.next().is_some_and(|item| is_byte(item, byte)));
    are_bytes && items.next().is_none()
}

fn is_byte(item: Json<'_>, byte: u8) -> bool {
    match item.kind() {
        Kind::Number => item.text().strip_suffix(".0").unwrap_or(item.text()) == itoa::Buffer::new().format(byte),
        Kind::String => is_one_of(item, &[&STANDARD.encode([byte])]),
        Kind::Object => item.find(["value"])[0].is_some_and(|value| is_one_of(value, &[&STANDARD.encode([byte])])),
        Kind::Null | Kind::Boolean | Kind::Array => false,
    }
}

/// What becomes of a row that has such a column.
pub(super) fn fault(column: &str) -> Fault {
    let reason = format!(
        "expected the whole row, found column {column:?} without its value: the database does not log a large value that did not change. Have it \
         log whole rows (PostgreSQL: ALTER TABLE … REPLICA IDENTITY FULL), or leave the column out of the connector's table"
    );
    Fault::new("unavailable_value", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(value: &str) -> bool {
        is_unavailable(Json::parse(value.as_bytes()).unwrap())
    }

    #[test]
    fn every_form_of_the_placeholder_is_found() {
        for value in [
            r#""__debezium_unavailable_value""#,
            r#""\u005f_debezium_unavailable_value""#,
            r#""X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==""#,
            r#""5f5f646562657a69756d5f756e617661696c61626c655f76616c7565""#,
            r#"["__debezium_unavailable_value"]"#,
            r#"[ "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==" ]"#,
            r#"["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]"#,
            r#"{"__debezium_unavailable_value": "__debezium_unavailable_value"}"#,
            r#""{\"__debezium_unavailable_value\":\"__debezium_unavailable_value\"}""#,
            "[95,95,100,101,98,101,122,105,117,109,95,117,110,97,118,97,105,108,97,98,108,101,95,118,97,108,117,101]",
        ] {
            assert!(is(value), "{value}");
        }
        let of_each_byte = |element: &dyn Fn(u8) -> String| format!("[{}]", PLACEHOLDER.bytes().map(element).collect::<Vec<_>>().join(","));
        assert!(is(&of_each_byte(&|byte| format!("{byte}.0"))));
        assert!(is(&of_each_byte(&|byte| format!("\"{}\"", STANDARD.encode([byte])))));
        assert!(is(&of_each_byte(&|byte| format!("{{\"scale\":0,\"value\":\"{}\"}}", STANDARD.encode([byte])))));
    }

    #[test]
    fn the_forms_are_made_of_the_placeholder() {
        use md5::{Digest, Md5};
        let mut uuid: [u8; 16] = Md5::digest(PLACEHOLDER).into();
        uuid[6] = uuid[6] & 0x0F | 0x30;
        uuid[8] = uuid[8] & 0x3F | 0x80;
        assert_eq!(UUID.replace('-', ""), hex::encode(uuid));
        assert_eq!((BASE64, HEX), (&*STANDARD.encode(PLACEHOLDER), &*hex::encode(PLACEHOLDER)));
    }

    #[test]
    fn what_merely_contains_it_is_data() {
        for value in [
            r#""see __debezium_unavailable_value""#,
            r#""__debezium_unavailable_value ""#,
            r#"["__debezium_unavailable_value","a"]"#,
            r#"["a","__debezium_unavailable_value"]"#,
            r#"[["__debezium_unavailable_value"]]"#,
            r#"{"__debezium_unavailable_value":"a"}"#,
            r#"{"a":"__debezium_unavailable_value"}"#,
            r#"{"__debezium_unavailable_value":"__debezium_unavailable_value","a":1}"#,
            r#"{"note":{"__debezium_unavailable_value":"__debezium_unavailable_value"}}"#,
            r#""b68a35a7-17ad-35b3-af2a-ae46edb4545a""#,
            "[95,95]",
            "[95,95,100,101,98,101,122,105,117,109,95,117,110,97,118,97,105,108,97,98,108,101,95,118,97,108,117,101,0]",
            "[]",
            "{}",
            "\"\"",
            "95",
            "null",
        ] {
            assert!(!is(value), "{value}");
        }
    }
}
