//! A block or a record as JSON has it: read as Ion again, and the types that JSON has lost tried out.
//!
//! What has a known schema is given its types back. Of a document nobody knows them: the readings that are likely are tried, and where none of them
//! comes to the stated hash, nothing is proven. Never changes a digit or a text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ion_rs::{Decimal, Element, IntoAnnotatedElement as _, IonType, List, Sequence, Struct, Value};
use serde::de::IgnoredAny;

use super::super::ion_text;

/// Whether a text is one JSON object.
pub(super) fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// A blob that JSON has as text.
pub(super) fn blob(value: &Element) -> Option<Vec<u8>> {
    STANDARD.decode(value.as_string()?).ok()
}

/// `transactionInfo` with its types: when each statement started is a timestamp, its digest a blob.
pub(super) fn transaction_info(info: &Element) -> Element {
    members(info, |name, value| match name {
        "statements" => items(value, |statement| {
            members(statement, |name, value| match name {
                "startTime" => timestamp(value).unwrap_or_else(|| value.clone()),
                "statementDigest" => blob(value).map_or_else(|| value.clone(), Element::blob),
                _ => value.clone(),
            })
        }),
        _ => value.clone(),
    })
}

/// `metadata` with its types: the time of the transaction is a timestamp.
pub(super) fn metadata(metadata: &Element) -> Element {
    members(metadata, |name, value| match name {
        "txTime" => timestamp(value).unwrap_or_else(|| value.clone()),
        _ => value.clone(),
    })
}

/// What a document may have been in Ion, the likely first.
pub(super) fn readings(data: &Element) -> impl Iterator<Item = Element> {
    [(true, false), (false, false), (true, true), (false, true)].into_iter().map(|(timestamps, floats)| reading(data, timestamps, floats))
}

fn reading(value: &Element, timestamps: bool, floats: bool) -> Element {
    match value.value() {
        Value::String(_) if timestamps => timestamp(value).unwrap_or_else(|| value.clone()),
        Value::Decimal(number) if floats => float(number).unwrap_or_else(|| value.clone()),
        Value::List(_) => items(value, |item| reading(item, timestamps, floats)),
        Value::Struct(_) => members(value, |_, member| reading(member, timestamps, floats)),
        _ => value.clone(),
    }
}

/// A text that is a timestamp of Ion as one.
fn timestamp(value: &Element) -> Option<Element> {
    let text = value.as_string()?;
    // What is no timestamp at the first look is never parsed: a text may be anything.
    let is_likely = (5..=40).contains(&text.len()) && text.as_bytes()[..4].iter().all(u8::is_ascii_digit);
    let is_plain = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b':' | b'.' | b'T' | b'Z'));
    let read = (is_likely && is_plain).then(|| ion_text::guarded(|| Element::read_one(text).ok()).ok())?;
    read.filter(|read| read.ion_type() == IonType::Timestamp)
}

fn float(number: &Decimal) -> Option<Element> {
    format!("{}e{}", number.coefficient(), number.exponent()).parse::<f64>().ok().map(Element::from)
}

fn members(value: &Element, mut with: impl FnMut(&str, &Element) -> Element) -> Element {
    let Some(fields) = value.as_struct() else { return value.clone() };
    let fields = fields.fields().map(|(name, value)| (name.clone(), with(name.text().unwrap_or_default(), value)));
    fields.collect::<Struct>().with_annotations(value.annotations().iter().cloned())
}

fn items(value: &Element, with: impl FnMut(&Element) -> Element) -> Element {
    let Some(items) = value.as_sequence() else { return value.clone() };
    List::from(items.iter().map(with).collect::<Sequence>()).into()
}

#[cfg(test)]
mod tests {
    use super::super::super::qldb::with_decimals;
    use super::*;

    fn ion(text: &str) -> Element {
        Element::read_one(text).unwrap()
    }

    #[test]
    fn numbers_of_json_are_decimals_to_the_last_digit_and_texts_stay() {
        let json = r#"{"a\"b":44230e-2, "c":[1,-2.50,1E3,true,null],"d":"\ud83d\ude00 1e5\n","e":{}}"#;
        assert!(is_object(json) && !is_object("[1]") && !is_object("{a:1}"));
        let expected = ion("{'a\"b':442.30,c:[1,-2.50,1d3,true,null],d:\"\u{1F600} 1e5\\n\",e:{}}");
        assert_eq!(ion(&with_decimals(json)), expected);
    }

    #[test]
    fn the_types_of_what_has_a_schema_are_given_back() {
        let info = r#"{statements:[{statement:"2020-01-01T",startTime:"2020-03-01T08:15:30.231Z",statementDigest:"aGFzaA=="}],documents:{d:{tableName:"T"}}}"#;
        let expected = r#"{statements:[{statement:"2020-01-01T",startTime:2020-03-01T08:15:30.231Z,statementDigest:{{aGFzaA==}}}],documents:{d:{tableName:"T"}}}"#;
        assert_eq!(transaction_info(&ion(info)), ion(expected));
        assert_eq!(metadata(&ion(r#"{id:"2020-01-01",txTime:"2020-01-01"}"#)), ion(r#"{id:"2020-01-01",txTime:2020-01-01}"#));
    }

    #[test]
    fn a_document_is_tried_with_timestamps_and_without_with_decimals_and_floats() {
        let data = ion(r#"{a:"2020-01-01",b:[1.5,{c:"2021-01-01T10:00:00Z"}],d:"2020"}"#);
        let found: Vec<Element> = readings(&data).collect();
        assert_eq!(found[0], ion(r#"{a:2020-01-01,b:[1.5,{c:2021-01-01T10:00:00Z}],d:"2020"}"#));
        assert_eq!(found[1], data);
        assert_eq!(found[3], ion(r#"{a:"2020-01-01",b:[1.5e0,{c:"2021-01-01T10:00:00Z"}],d:"2020"}"#));
    }
}
