//! Decimals as Kafka Connect writes them into JSON, where only the schema says that some bytes in Base64 are a number (Kafka Connect, `Decimal`:
//! the unscaled integer in two's complement, big-endian, and the scale as a parameter of the schema; Debezium, `VariableScaleDecimal`: a struct of the
//! scale and those bytes).
//!
//! Every digit is kept, no floating point is on the way. Without a schema such bytes stay what they are.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::super::ion_json::{self, Decimals};
use super::super::ion_number::{Magnitude, write_decimal};
use super::super::json::{Json, Kind};
use crate::record::Fault;

/// Levels of lists and structs in a schema in which decimals are looked for. Tables have two at most, arrays of numbers.
const LEVELS: usize = 16;

/// Where decimals stand in the values of one schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decimal {
    /// The value is one, of a fixed scale; `None` where the schema does not tell it.
    Fixed(Option<i32>),
    /// The value is one, and tells its scale.
    Variable,
    /// Each of its elements.
    List(Box<Self>),
    /// These of its members.
    Struct(Vec<(String, Self)>),
}

/// The columns with decimals of `before` or `after`, by the schema of the whole event.
pub(super) fn of_image(schema: Option<Json<'_>>, image: &str) -> Vec<(String, Decimal)> {
    // Both names end so; most tables have none, and their schema is not looked at.
    let Some(schema) = schema.filter(|schema| schema.text().contains("Decimal\"")) else { return Vec::new() };
    let fields = schema.find(["fields"])[0];
    let mut images = fields.into_iter().flat_map(Json::items);
    let found = images.find(|field| text_of(field.find(["field"])[0]).as_deref() == Some(image));
    of_struct(found)
}

/// The columns with decimals of a struct, by its schema.
pub(super) fn of_struct(schema: Option<Json<'_>>) -> Vec<(String, Decimal)> {
    match of_value(schema) {
        Some(Decimal::Struct(columns)) => columns,
        _ => Vec::new(),
    }
}

/// The decimals of a value, by its schema.
pub(super) fn of_value(schema: Option<Json<'_>>) -> Option<Decimal> {
    read(schema?, LEVELS)
}

fn read(schema: Json<'_>, levels: usize) -> Option<Decimal> {
    let levels = levels.checked_sub(1)?;
    let [kind, name, parameters, items, fields] = schema.find(["type", "name", "parameters", "items", "fields"]);
    match text_of(name).as_deref() {
        Some("org.apache.kafka.connect.data.Decimal") => {
            let scale = parameters.and_then(|parameters| parameters.find(["scale"])[0]);
            return Some(Decimal::Fixed(scale.and_then(|scale| scale.text().trim_matches('"').parse().ok())));
        }
        Some("io.debezium.data.VariableScaleDecimal") => return Some(Decimal::Variable),
        _ => {}
    }
    match text_of(kind).as_deref() {
        Some("array") => Some(Decimal::List(Box::new(read(items?, levels)?))),
        Some("struct") => {
            let named = |field: Json<'_>| Some((text_of(field.find(["field"])[0])?, read(field, levels)?));
            let members: Vec<_> = fields?.items().filter_map(named).collect();
            (!members.is_empty()).then_some(Decimal::Struct(members))
        }
        _ => None,
    }
}

fn text_of(value: Option<Json<'_>>) -> Option<String> {
    Some(value?.unescaped()?.0.into_owned())
}

/// The value of a column that holds decimals, as JSON text.
///
/// # Errors
/// A value that is not the decimal that its schema says, or has too many digits.
pub(super) fn text(column: &str, value: Json<'_>, decimal: &Decimal, form: Decimals) -> Result<String, Fault> {
    let mut out = Vec::new();
    let wrong = |found: &str| {
        let reason = format!("expected a decimal in the column {column}, as the message's schema says, found {found}");
        Fault::new("wrong_column_type", reason)
    };
    write(value, decimal, form, &mut out, &wrong)?;
    String::from_utf8(out).map_err(|_| wrong("something else"))
}

fn write(value: Json<'_>, decimal: &Decimal, form: Decimals, out: &mut Vec<u8>, wrong: &dyn Fn(&str) -> Fault) -> Result<(), Fault> {
    match (decimal, value.kind()) {
        (Decimal::Fixed(scale), Kind::String) => {
            let scale = scale.ok_or_else(|| wrong("a schema that does not say its scale"))?;
            number(value, scale, form, out, wrong)
        }
        (Decimal::Variable, Kind::Object) => {
            let [scale, bytes] = value.find(["scale", "value"]);
            let scale = scale.and_then(|scale| scale.text().parse().ok()).ok_or_else(|| wrong("one without its scale"))?;
            number(bytes.ok_or_else(|| wrong("one without its value"))?, scale, form, out, wrong)
        }
        (Decimal::List(of), Kind::Array) => {
            out.push(b'[');
            for (i, item) in value.items().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(item, of, form, out, wrong)?;
            }
            out.push(b']');
            Ok(())
        }
        (Decimal::Struct(of), Kind::Object) => {
            out.push(b'{');
            for (i, (name, value)) in value.members().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                ion_json::write_string(&name, out);
                out.push(b':');
                match of.iter().find(|(member, _)| *member == name) {
                    Some((_, of)) => write(value, of, form, out, wrong)?,
                    None => out.extend_from_slice(value.text().as_bytes()),
                }
            }
            out.push(b'}');
            Ok(())
        }
        // Null, or a number already (`decimal.format=NUMERIC` of the converter).
        _ => {
            out.extend_from_slice(value.text().as_bytes());
            Ok(())
        }
    }
}

fn number(bytes: Json<'_>, scale: i32, form: Decimals, out: &mut Vec<u8>, wrong: &dyn Fn(&str) -> Fault) -> Result<(), Fault> {
    let text = bytes.unescaped().ok_or_else(|| wrong("something other than bytes in Base64"))?.0;
    let mut bytes = STANDARD.decode(text.as_bytes()).map_err(|_| wrong("a text that is not Base64"))?;
    let negative = bytes.first().ok_or_else(|| wrong("no bytes"))? & 0x80 != 0;
    if negative {
        let mut carry = true;
        for byte in bytes.iter_mut().rev() {
            (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
        }
    }
    let quote: &[u8] = if form == Decimals::String { b"\"" } else { b"" };
    out.extend_from_slice(quote);
    write_decimal(&Magnitude { negative, first: bytes[0], rest: &bytes[1..] }, -i64::from(scale), out)?;
    out.extend_from_slice(quote);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn schema(json: &str) -> Option<Decimal> {
        of_value(Some(Json::parse(json.as_bytes()).unwrap()))
    }

    fn text_of(decimal: &Decimal, value: &str) -> String {
        text("price", Json::parse(value.as_bytes()).unwrap(), decimal, Decimals::Number).unwrap_or_else(|fault| fault.reason)
    }

    fn fixed(scale: i32, bytes: &[u8]) -> String {
        text_of(&Decimal::Fixed(Some(scale)), &format!("\"{}\"", STANDARD.encode(bytes)))
    }

    #[test]
    fn a_decimal_has_the_digits_of_its_bytes_and_the_point_of_its_scale() {
        for (scale, bytes, expected) in [
            (2, &[0x04, 0xE2][..], "12.50"),
            (2, &[0xFB, 0x1E], "-12.50"),
            (0, &[0x07], "7.0"),
            (0, &[0x80], "-128.0"),
            (0, &[0xFF], "-1.0"),
            (0, &[0x00], "0.0"),
            (2, &[0x00], "0.00"),
            (3, &[0x00, 0xFF], "0.255"),
            (-3, &[0x05], "5e3"),
            (4, &[0xFF, 0xFF, 0xFF, 0x00], "-0.0256"),
            (i32::MAX, &[0x05], "5e-2147483647"),
            (i32::MIN, &[0x05], "5e2147483648"),
        ] {
            assert_eq!(fixed(scale, bytes), expected, "{bytes:02X?}");
        }
    }

    proptest! {
        #[test]
        fn a_decimal_is_the_number_that_was_written(unscaled in any::<i128>(), scale in 0..30i32) {
            // By division of the absolute number: nothing in common with the code above.
            let (digits, scale_of_ten) = (unscaled.unsigned_abs(), 10u128.pow(scale as u32));
            let (whole, fraction) = (digits / scale_of_ten, digits % scale_of_ten);
            let sign = if unscaled < 0 { "-" } else { "" };
            let expected = if scale == 0 { format!("{sign}{whole}.0") } else { format!("{sign}{whole}.{fraction:0width$}", width = scale as usize) };
            prop_assert_eq!(fixed(scale, &unscaled.to_be_bytes()), expected);
        }
    }

    #[test]
    fn the_schema_says_where_decimals_are() {
        let price = r#"{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"2","connect.decimal.precision":"10"}}"#;
        assert_eq!(schema(price), Some(Decimal::Fixed(Some(2))));
        assert_eq!(schema(&price.replace("\"2\"", "-2")), Some(Decimal::Fixed(Some(-2))));
        assert_eq!(schema(&price.replace("scale", "other")), Some(Decimal::Fixed(None)));
        let list = format!(r#"{{"type":"array","items":{price}}}"#);
        assert_eq!(text_of(&schema(&list).unwrap(), r#"["BOI=", null, 1.5]"#), "[12.50,null,1.5]");
        let variable = r#"{"type":"struct","name":"io.debezium.data.VariableScaleDecimal","fields":[{"type":"int32","field":"scale"},{"type":"bytes","field":"value"}]}"#;
        assert_eq!(text_of(&schema(variable).unwrap(), r#"{"scale":3,"value":"AP8="}"#), "0.255");
        let within =
            format!(r#"{{"type":"struct","fields":[{{"field":"x","type":"string"}},{}]}}"#, price.replacen('{', r#"{"field":"p","#, 1));
        assert_eq!(text_of(&schema(&within).unwrap(), r#"{"x":"BOI=","p":"BOI="}"#), r#"{"x":"BOI=","p":12.50}"#);
        for none in [r#"{"type":"bytes"}"#, r#"{"type":"struct","fields":[]}"#, r#"{"type":"array"}"#, "{}", "[]", "null", "7"] {
            assert_eq!(schema(none), None, "{none}");
        }
        let deep = format!("{}{price}{}", r#"{"type":"array","items":"#.repeat(5_000), "}".repeat(5_000));
        assert_eq!(schema(&deep), None);
    }

    #[test]
    fn what_is_no_decimal_is_a_fault_that_names_the_column_and_no_value() {
        let wrong = "expected a decimal in the column price, as the message's schema says, found ";
        assert_eq!(text_of(&Decimal::Fixed(Some(2)), r#""12,50""#), format!("{wrong}a text that is not Base64"));
        assert_eq!(text_of(&Decimal::Fixed(Some(2)), r#""""#), format!("{wrong}no bytes"));
        assert_eq!(text_of(&Decimal::Fixed(None), r#""BOI=""#), format!("{wrong}a schema that does not say its scale"));
        assert_eq!(text_of(&Decimal::Variable, r#"{"value":"BOI="}"#), format!("{wrong}one without its scale"));
        assert_eq!(text_of(&Decimal::Variable, r#"{"scale":2}"#), format!("{wrong}one without its value"));
        assert_eq!(text_of(&Decimal::Variable, r#"{"scale":2,"value":7}"#), format!("{wrong}something other than bytes in Base64"));
        assert_eq!(text("price", Json::parse(b"\"BOI=\"").unwrap(), &Decimal::Fixed(Some(2)), Decimals::String).unwrap(), r#""12.50""#);
        assert!(fixed(2, &[1; 1025]).starts_with("expected a number of at most 1024 bytes"));
    }
}
