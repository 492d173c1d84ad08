//! Blocks of a journal export that is kept as JSON, told from Ion text and read as such.
//!
//! JSON is Ion text, but for its numbers: with an exponent they are floats there. A ledger has written its decimals so, 442.30 as `44230e-2`, and
//! they are meant to be decimals. Never touches anything else of a text.

use super::super::json_cursor::Cursor;

/// A text of JSON blocks as Ion text of the same meaning; `None` for any other text, also a damaged one.
pub(super) fn as_ion(text: &str) -> Option<String> {
    is_json_block(text).then(|| with_decimals(text))
}

/// Whether a text is JSON, one value, and a block of the journal.
fn is_json_block(text: &str) -> bool {
    let mut cursor = Cursor::new(text.as_bytes());
    if cursor.peek() != Some(b'{') {
        return false;
    }
    cursor.advance();
    let (mut address, mut transaction) = (false, false);
    loop {
        match cursor.next_field() {
            Some(Some(b"\"blockAddress\"")) => address = true,
            Some(Some(b"\"transactionId\"")) => transaction = true,
            Some(Some(b"\"recordType\"")) | None => return false,
            Some(Some(_)) => {}
            Some(None) => break,
        }
        if cursor.value().is_none() {
            return false;
        }
    }
    address && transaction && cursor.at_end() && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// JSON with `d` where a number has its exponent, which is how Ion text writes a decimal.
pub(in crate::codec) fn with_decimals(json: &str) -> String {
    let mut ion = String::with_capacity(json.len());
    let mut rest = json;
    while let Some((before, behind)) = rest.split_once('"') {
        push_numbers(before, &mut ion);
        let end = end_of_string(behind);
        ion.push('"');
        ion.push_str(&behind[..end]);
        rest = &behind[end..];
    }
    push_numbers(rest, &mut ion);
    ion
}

/// What stands between two strings. An `e` behind a digit or a capital one is no part of `true`, `false` or `null`.
fn push_numbers(json: &str, ion: &mut String) {
    let mut last = ' ';
    for char in json.chars() {
        ion.push(if last.is_ascii_digit() && matches!(char, 'e' | 'E') { 'd' } else { char });
        last = char;
    }
}

/// Bytes of a string from behind its opening quote to behind its closing one.
fn end_of_string(text: &str) -> usize {
    let mut at = 0;
    while let Some(step) = memchr::memchr2(b'"', b'\\', &text.as_bytes()[at..]) {
        at += step;
        if text.as_bytes()[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(json: &str) -> String {
        as_ion(&format!("{{\"blockAddress\":{{}},\"transactionId\":\"e1e\",\"x\":{json}}}"))
            .unwrap()
            .split_once("\"x\":")
            .unwrap()
            .1
            .to_owned()
    }

    #[test]
    fn exponents_become_those_of_decimals_and_nothing_else_changes() {
        for (json, ion) in [
            ("44230e-2", "44230d-2"),
            ("1e3", "1d3"),
            ("1.5E+3", "1.5d+3"),
            ("[-0e0,442.30,7]", "[-0d0,442.30,7]"),
            ("[true,false,null]", "[true,false,null]"),
            (r#"{"1e3":"2e\"4e5\\","é3e":1e1}"#, r#"{"1e3":"2e\"4e5\\","é3e":1d1}"#),
        ] {
            assert_eq!(numbers(json), format!("{ion}}}"), "{json}");
        }
    }

    #[test]
    fn only_a_whole_block_in_json_is_one() {
        let block = r#"{"blockAddress":{"strandId":"s"},"transactionId":"t"}"#;
        assert!(as_ion(block).is_some());
        assert!(as_ion(&format!(" {block}\n")).is_some());
        for other in [
            r#"{"blockAddress":{}}"#,
            r#"{"transactionId":"t"}"#,
            r#"{"recordType":"BLOCK_SUMMARY","blockAddress":{},"transactionId":"t"}"#,
            r#"{"payload":{"blockAddress":{},"transactionId":"t"}}"#,
            r#"[{"blockAddress":{},"transactionId":"t"}]"#,
            r#"{blockAddress:{},transactionId:"t"}"#,
            r#"{"blockAddress":{},"transactionId":'t'}"#,
            r#"{"blockAddress":{},"transactionId":"t""#,
            "",
            "1e3",
        ] {
            assert_eq!(as_ion(other), None, "{other}");
        }
        assert_eq!(as_ion(&format!("{block}{block}")), None, "two values are no JSON");
    }
}
