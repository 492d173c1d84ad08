//! What a JSON document says, as a number: two documents have the same where they say the same, however they are written.
//!
//! The order of members, spaces and the way in which a character is escaped are no difference; the digits of a number are one, because a document
//! arrives with its digits. Of a name that comes twice the last counts.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::codec::ion_json::write_string;

/// Levels of nesting that are looked into; what lies deeper is taken as it is written.
const DEPTH: usize = 200;

/// 128 bits of the SHA-256 of the document in one form. What is no JSON is taken byte by byte.
pub fn fingerprint(document: &[u8]) -> [u8; 16] {
    let mut out = Vec::with_capacity(document.len());
    match serde_json::from_slice::<&RawValue>(document) {
        Ok(value) => write(value.get(), 0, &mut out),
        Err(_) => out.extend_from_slice(document),
    }
    let hash: [u8; 32] = Sha256::digest(&out).into();
    let mut short = [0; 16];
    short.copy_from_slice(&hash[..16]);
    short
}

/// Writes a value in one form.
fn write(value: &str, depth: usize, out: &mut Vec<u8>) {
    match value.as_bytes().first().filter(|_| depth < DEPTH) {
        Some(b'{') => {
            if let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(value) {
                out.push(b'{');
                for (name, value) in members {
                    write_string(&name, out);
                    out.push(b':');
                    write(value.get(), depth + 1, out);
                    out.push(b',');
                }
                return out.push(b'}');
            }
        }
        Some(b'[') => {
            if let Ok(elements) = serde_json::from_str::<Vec<&RawValue>>(value) {
                out.push(b'[');
                for element in elements {
                    write(element.get(), depth + 1, out);
                    out.push(b',');
                }
                return out.push(b']');
            }
        }
        Some(b'"') => {
            if let Ok(text) = serde_json::from_str::<String>(value) {
                return write_string(&text, out);
            }
        }
        _ => {}
    }
    out.extend_from_slice(value.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(one: &str, other: &str) -> bool {
        fingerprint(one.as_bytes()) == fingerprint(other.as_bytes())
    }

    #[test]
    fn how_a_document_is_written_makes_no_difference() {
        assert!(same(r#"{"a":1,"b":{"c":[1,"é",null],"d":{}}}"#, " { \"b\" : {\"d\":{ }, \"c\":[ 1 , \"\\u00e9\",null]}, \"a\":1 }\n"));
        assert!(same(r#"{"a":1,"a":2}"#, r#"{"a":2}"#));
        assert!(same("not JSON", "not JSON"));
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(same(&deep, &deep));
    }

    #[test]
    fn what_it_says_does() {
        for (one, other) in [
            (r#"{"a":442.30}"#, r#"{"a":442.3}"#),
            (r#"{"a":1}"#, r#"{"a":"1"}"#),
            (r#"{"a":1}"#, r#"{"b":1}"#),
            (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#),
            (r#"{"a":[12]}"#, r#"{"a":[1,2]}"#),
            (r#"{"a":{"b":1},"c":2}"#, r#"{"a":{"b":1,"c":2}}"#),
            (r#"{"a":null}"#, "{}"),
            ("not JSON", "not json"),
        ] {
            assert!(!same(one, other), "{one} and {other}");
        }
    }
}
