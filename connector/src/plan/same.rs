//! Whether two JSON texts say the same, however they are spelled: spaces, escapes, the order of members, and the form of numbers aside.
//!
//! Numbers are compared by all of their digits. A server writes `1e400` as `1E+400` and `é` where the source had `\u00e9`; that is the same.
//! Never makes a binary number of one.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::sql::number::Number;

/// Whether two JSON texts are one value. Of members of one name the last counts. What is no JSON is only the same as the same text.
pub fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim_ascii(), other.trim_ascii());
    one == other || is_same_value(one, other).unwrap_or(false)
}

fn is_same_value(one: &str, other: &str) -> Option<bool> {
    let kind = |text: &str| match text.as_bytes().first()? {
        b'-' | b'0'..=b'9' => Some(b'0'),
        other => Some(*other),
    };
    if kind(one)? != kind(other)? {
        return Some(false);
    }
    Some(match kind(one)? {
        b'0' => Number::read(one.as_bytes())? == Number::read(other.as_bytes())?,
        b'"' => serde_json::from_str::<String>(one).ok()? == serde_json::from_str::<String>(other).ok()?,
        b'[' => {
            let (one, other): (Vec<&RawValue>, Vec<&RawValue>) = (serde_json::from_str(one).ok()?, serde_json::from_str(other).ok()?);
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one.get(), other.get()))
        }
        b'{' => {
            let members = |text| serde_json::from_str::<BTreeMap<String, &RawValue>>(text).ok();
            let (one, other) = (members(one)?, members(other)?);
            one.keys().eq(other.keys()) && one.values().zip(other.values()).all(|(one, other)| is_same(one.get(), other.get()))
        }
        _ => one == other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_is_the_same_however_it_is_spelled() {
        for (one, other) in [
            ("442.30", "442.3"),
            ("1e400", "1E+400"),
            ("100", "1e2"),
            ("0.0", "-0"),
            ("120e-1", "12"),
            ("18446744073709551616.50", "1.84467440737095516165e19"),
            (r#""\u00e9\/""#, "\"é/\""),
            (" [1, 2.0 ] ", "[1.0,2]"),
            (r#"{"a":1,"b":[null,true]}"#, r#"{"b":[ null, true ],"a":1.0}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            ("1e99999999999999999999", "1e99999999999999999999"),
        ] {
            assert!(is_same(one, other) && is_same(other, one), "{one} and {other}");
        }
    }

    #[test]
    fn another_value_is_not_the_same() {
        for (one, other) in [
            ("442.30", "442.31"),
            ("9007199254740993", "9007199254740992"),
            ("1", "-1"),
            ("1", "10"),
            ("1", "\"1\""),
            ("null", "false"),
            ("[1]", "[1,1]"),
            ("[]", "{}"),
            (r#"{"a":1}"#, r#"{"a":1,"b":null}"#),
            (r#"{"a":1}"#, r#"{"A":1}"#),
            (r#""é""#, r#""e""#),
            ("1e99999999999999999999", "1e99999999999999999998"),
        ] {
            assert!(!is_same(one, other) && !is_same(other, one), "{one} and {other}");
        }
    }
}
