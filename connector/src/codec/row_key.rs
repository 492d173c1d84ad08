//! Document ids of rows, from the values of their key columns.
//!
//! One key column gives its plain text, several are escaped (`%` as `%25`, `,` as `%2C`) and joined with `,`, so that two keys never give one
//! id. A number has one text however it is written: 7, 7.0 and 70e-1 are one key. Never makes an id of a key that lacks a part, and never names
//! a value.

use std::borrow::Cow;

use super::json::{Json, Kind};
use crate::record::Fault;

/// The longest text of a number that is written without an exponent, where it has zeros that are not digits of it.
const PLAIN_DIGITS: i64 = 64;

/// The id of a row. `value` gives the value of a key column, where the row has the column.
///
/// # Errors
/// A key column that the row does not have or that is null (`key_missing`), or that holds what no key can be (`unusable_key`).
pub(super) fn id<'a, S: AsRef<str>>(key: &[S], value: impl Fn(&str) -> Option<Json<'a>>) -> Result<String, Fault> {
    let mut id = String::new();
    for (i, column) in key.iter().enumerate() {
        let column = column.as_ref();
        let unusable = |found: &str| {
            let reason = format!("expected {}, found {found} in {column}", expected(key));
            Fault::new("unusable_key", reason)
        };
        let missing = |found: &str| Fault::new("key_missing", format!("expected {}, found {found}", expected(key)));
        let value = value(column).ok_or_else(|| missing(&format!("no {column}")))?;
        let part = match value.kind() {
            Kind::Null => return Err(missing(&format!("null in {column}"))),
            Kind::Array | Kind::Object => return Err(unusable(value.kind().as_str())),
            Kind::Boolean => Cow::Borrowed(value.text()),
            Kind::Number => Cow::Owned(number(value.text()).ok_or_else(|| unusable("a number beyond all bounds"))?),
            Kind::String => match value.unescaped() {
                Some((text, 0)) => text,
                // As U+FFFD it would be the key of other rows too.
                _ => return Err(unusable("half of a surrogate pair")),
            },
        };
        if key.len() == 1 {
            if part.is_empty() {
                return Err(unusable("an empty text"));
            }
            return Ok(part.into_owned());
        }
        if i > 0 {
            id.push(',');
        }
        for character in part.chars() {
            match character {
                '%' => id.push_str("%25"),
                ',' => id.push_str("%2C"),
                other => id.push(other),
            }
        }
    }
    Ok(id)
}

/// What a row has to have, for a message.
pub(super) fn expected<S: AsRef<str>>(key: &[S]) -> String {
    match key {
        [column] => format!("a text, a number, true or false in the key column {}", column.as_ref()),
        columns => {
            let names: Vec<&str> = columns.iter().map(AsRef::as_ref).collect();
            format!("a text, a number, true or false in each of the key columns {}", names.join(", "))
        }
    }
}

/// The one text of a JSON number, exact to its last digit; `None` where its exponent or length does not fit into 63 bits.
fn number(text: &str) -> Option<String> {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [whole, fraction].concat();
    let digits = all.trim_start_matches('0').trim_end_matches('0');
    if digits.is_empty() {
        return Some("0".to_owned());
    }
    let dropped = all.len() - all.trim_end_matches('0').len();
    let exponent = exponent.parse::<i64>().ok()?.checked_sub(fraction.len() as i64)?.checked_add(dropped as i64)?;
    let length = digits.len() as i64;
    // Where the point stands, counted from the first digit.
    let point = length.checked_add(exponent)?;
    let sign = if negative { "-" } else { "" };
    let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or_default());
    Some(if exponent == 0 {
        format!("{sign}{digits}")
    } else if exponent > 0 && point <= PLAIN_DIGITS {
        format!("{sign}{digits}{}", zeros(exponent))
    } else if exponent < 0 && point > 0 {
        let (whole, fraction) = digits.split_at(usize::try_from(point).ok()?);
        format!("{sign}{whole}.{fraction}")
    } else if exponent < 0 && -exponent <= PLAIN_DIGITS {
        format!("{sign}0.{}{digits}", zeros(-point))
    } else {
        format!("{sign}{digits}e{exponent}")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id_of(columns: &[(&str, &str)]) -> Result<String, Fault> {
        let key: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let value = |wanted: &str| {
            let text = columns.iter().find(|(name, _)| *name == wanted).map(|(_, text)| *text).filter(|text| !text.is_empty());
            text.map(|text| Json::parse(text.as_bytes()).unwrap())
        };
        id(&key, value)
    }

    fn one(text: &str) -> String {
        id_of(&[("a", text)]).unwrap_or_else(|fault| fault.kind)
    }

    #[test]
    fn one_column_gives_its_plain_text() {
        assert_eq!(one(r#""MX-200""#), "MX-200");
        assert_eq!(one(r#""a,b%2C""#), "a,b%2C");
        assert_eq!(one(r#""\u0061\ud83d\ude00""#), "a😀");
        assert_eq!(one("7"), "7");
        assert_eq!(one("true"), "true");
        assert_eq!(one(r#""AAE=""#), "AAE=", "bytes in Base64 are just their text");
    }

    #[test]
    fn several_columns_are_escaped_and_joined_in_the_order_of_the_key() {
        assert_eq!(id_of(&[("a", r#""x,y""#), ("b", "7"), ("c", r#""50%""#)]).unwrap(), "x%2Cy,7,50%25");
        assert_eq!(id_of(&[("a", r#""""#), ("b", r#""""#)]).unwrap(), ",");
    }

    #[test]
    fn a_number_is_one_key_however_it_is_written() {
        for same in [&["7", "7.0", "7e0", "70e-1", "0.7E+1", "7.000"][..], &["0", "-0", "0.0", "0e9"], &["-12.5", "-1.25e1", "-12.50"]] {
            assert!(same.iter().all(|text| one(text) == same[0]), "{same:?}");
        }
        assert_eq!(one("9007199254740993"), "9007199254740993");
        assert_eq!(one("123456789012345678901234567890"), "123456789012345678901234567890");
        assert_eq!(one("0.000000000000000000000000000001"), "0.000000000000000000000000000001");
        assert_eq!(one("1e3"), "1000");
        assert_eq!(one("1e300"), one("10e299"));
        assert_eq!(one("12e-300"), "12e-300");
        assert_eq!(one("1e9223372036854775806"), "1e9223372036854775806");
        assert_eq!(one("1e9223372036854775807"), "unusable_key");
        assert_eq!(one("0.1e-9223372036854775808"), "unusable_key");
    }

    #[test]
    fn what_is_no_key_is_refused_and_only_its_columns_are_named() {
        let fault = |columns: &[(&str, &str)]| id_of(columns).unwrap_err();
        let missing = fault(&[("shop", "1"), ("sku", "")]);
        assert_eq!(missing.kind, "key_missing");
        assert_eq!(missing.reason, "expected a text, a number, true or false in each of the key columns shop, sku, found no sku");
        assert_eq!(fault(&[("sku", "null")]).reason, "expected a text, a number, true or false in the key column sku, found null in sku");
        for (text, found) in [
            (r#"{"secret":1}"#, "an object"),
            (r#"["secret"]"#, "a list"),
            (r#""""#, "an empty text"),
            (r#""secret\ud800""#, "half of a surrogate pair"),
            (r#""\udc00secret""#, "half of a surrogate pair"),
        ] {
            let unusable = fault(&[("sku", text)]);
            assert_eq!(unusable.kind, "unusable_key");
            assert_eq!(unusable.reason, format!("expected a text, a number, true or false in the key column sku, found {found} in sku"));
        }
    }

    /// A part of a key as JSON, and what it stands for.
    fn part() -> impl Strategy<Value = (String, String)> {
        let text = "[a,%25C0.e-]{0,4}".prop_map(|text: String| (serde_json::to_string(&text).unwrap(), text));
        let number = (-300i64..300, -3i64..4).prop_map(|(digits, exponent)| {
            // The text by division: nothing in common with the code above.
            let (mut digits_left, mut exponent_left) = (digits, exponent);
            while digits_left != 0 && digits_left % 10 == 0 {
                (digits_left, exponent_left) = (digits_left / 10, exponent_left + 1);
            }
            let plain = if exponent_left >= 0 || digits_left == 0 {
                (digits_left * 10i64.pow(exponent_left.max(0) as u32)).to_string()
            } else {
                let scale = 10i64.pow(-exponent_left as u32);
                let (whole, fraction) = (digits_left.abs() / scale, digits_left.abs() % scale);
                format!("{}{whole}.{fraction:0width$}", if digits_left < 0 { "-" } else { "" }, width = -exponent_left as usize)
            };
            (format!("{digits}e{exponent}"), plain)
        });
        prop_oneof![text, number]
    }

    proptest! {
        #[test]
        fn two_keys_have_one_id_only_where_all_their_parts_are_the_same(
            (one, other) in (1usize..4).prop_flat_map(|n| (prop::collection::vec(part(), n), prop::collection::vec(part(), n)))
        ) {
            let names = ["a", "b", "c"];
            let id = |key: &[(String, String)]| {
                let columns: Vec<_> = key.iter().zip(names).map(|((json, _), name)| (name, json.as_str())).collect();
                id_of(&columns)
            };
            let plain = |key: &[(String, String)]| key.iter().map(|(_, plain)| plain.clone()).collect::<Vec<_>>();
            if let (Ok(one_id), Ok(other_id)) = (id(&one), id(&other)) {
                prop_assert_eq!(one_id == other_id, plain(&one) == plain(&other));
            }
        }
    }
}
