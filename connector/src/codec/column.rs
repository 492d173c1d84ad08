//! Columns of rows as they stand in a document, by the type that a person gave the column.
//!
//! A source of rows may write everything as text; without a type a value stays what it is. A value that cannot be of its column's type is a
//! fault that names the column and the type, never the value.
//!
//! | type | taken | written |
//! |---|---|---|
//! | any | null | null |
//! | `string` | a text; a number, true or false | string |
//! | `long` | a whole number of 64 bits with a sign, as a number or as text | number |
//! | `double` | a finite number, as a number or as text | number with a point or an exponent, its digits as they came |
//! | `decimal` | a number of any length, as a number or as text | the same, or a string where decimals are strings |
//! | `boolean` | true, false, 1, 0, as they are or as text in any case | `true`, `false` |
//! | `timestamp-ms` | a whole number of milliseconds since 1970, as a number or as text | string such as `2023-11-14T22:13:20.000Z` |
//! | `base64` | a text in Base64 with its padding | the same string |
//! | `json` | a text that is JSON; an object, a list, a number, true or false | what the text says |

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use time::OffsetDateTime;

use super::choices::{ColumnType, TableOptions};
use super::ion_json::Decimals;
use super::json::{Json, Kind};
use super::json_fields::Open;
use super::json_write::Writer;
use crate::metrics::Notes;
use crate::record::Fault;

/// Writes the document of a row, column by column.
pub(super) struct RowWriter<'w, 'a> {
    options: &'w TableOptions,
    writer: Writer<'w, 'a>,
    object: Open<Cow<'a, str>>,
}

impl<'w, 'a> RowWriter<'w, 'a> {
    /// Begins a document where `out` ends.
    pub(super) fn new(options: &'w TableOptions, out: &'w mut Vec<u8>, notes: &'w mut Notes) -> Self {
        let mut writer = Writer::new(&options.rules, out, notes);
        let object = writer.open();
        Self { options, writer, object }
    }

    /// Writes a column; of those with one name the last is kept, and counted.
    ///
    /// # Errors
    /// A value that is not of its column's type, or a document beyond its limits; what was written is then a part of it.
    pub(super) fn column(&mut self, name: Cow<'a, str>, value: Json<'a>) -> Result<(), Fault> {
        let column_type = self.options.types.get(name.as_ref()).map(|column_type| (name.clone(), *column_type));
        self.writer.name(&mut self.object, name)?;
        match column_type {
            None => self.writer.value(value, 2),
            Some((name, column_type)) => typed(&name, value, column_type, self.options, &mut self.writer, 2),
        }
    }

    /// Ends the document.
    ///
    /// # Errors
    /// A document beyond its limits.
    pub(super) fn end(self) -> Result<(), Fault> {
        let Self { mut writer, object, .. } = self;
        writer.close(object)
    }
}

/// Appends the document of a row that is an object to `out`.
///
/// # Errors
/// As [`RowWriter::column`].
pub(super) fn write_row(row: Json<'_>, options: &TableOptions, out: &mut Vec<u8>, notes: &mut Notes) -> Result<(), Fault> {
    let mut members = row.members();
    let mut document = RowWriter::new(options, out, notes);
    for (name, value) in members.by_ref() {
        document.column(name, value)?;
    }
    document.end()?;
    notes.lone_surrogates += members.lone_surrogates;
    Ok(())
}

/// Appends the value of one column to `out`, by itself.
///
/// # Errors
/// As [`RowWriter::column`].
pub(super) fn write_column(name: &str, value: Json<'_>, options: &TableOptions, out: &mut Vec<u8>, notes: &mut Notes) -> Result<(), Fault> {
    let mut writer = Writer::new(&options.rules, out, notes);
    match options.types.get(name) {
        None => writer.value(value, 1),
        Some(column_type) => typed(name, value, *column_type, options, &mut writer, 1),
    }
}

/// Writes a value by the type of its column.
fn typed<'a>(
    name: &str,
    value: Json<'a>,
    column_type: ColumnType,
    options: &TableOptions,
    writer: &mut Writer<'_, 'a>,
    depth: usize,
) -> Result<(), Fault> {
    let kind = value.kind();
    if kind == Kind::Null {
        return writer.value(value, depth);
    }
    let wrong = || {
        let expected = expected(column_type);
        let reason = format!("expected {expected} in the column {name}, found {} that is none", kind.as_str());
        Fault::new("wrong_column_type", reason)
    };
    let (text, lone_surrogates) = value.unescaped().unwrap_or((Cow::Borrowed(value.text()), 0));
    let scalar = matches!(kind, Kind::String | Kind::Number);
    match column_type {
        ColumnType::String => match kind {
            Kind::String | Kind::Number | Kind::Boolean => {
                writer.count_lone_surrogates(lone_surrogates);
                writer.text(&text)
            }
            _ => Err(wrong()),
        },
        ColumnType::Long => {
            let number = Some(&text).filter(|text| scalar && !text.starts_with('+')).and_then(|text| text.parse::<i64>().ok());
            writer.verbatim(itoa::Buffer::new().format(number.ok_or_else(wrong)?))
        }
        ColumnType::Double => {
            let number = Some(&text).filter(|_| scalar).and_then(|text| fractional(text)).ok_or_else(wrong)?;
            number.parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(wrong)?;
            writer.verbatim(&number)
        }
        ColumnType::Decimal => {
            let number = Some(&text).filter(|_| scalar).and_then(|text| fractional(text)).ok_or_else(wrong)?;
            match options.rules.decimals {
                Decimals::Number => writer.verbatim(&number),
                Decimals::String => writer.text(&number),
            }
        }
        ColumnType::Boolean => match text.as_ref() {
            _ if matches!(kind, Kind::Array | Kind::Object) => Err(wrong()),
            "1" => writer.verbatim("true"),
            "0" => writer.verbatim("false"),
            text if text.eq_ignore_ascii_case("true") => writer.verbatim("true"),
            text if text.eq_ignore_ascii_case("false") => writer.verbatim("false"),
            _ => Err(wrong()),
        },
        ColumnType::TimestampMs => {
            let millis = Some(&text).filter(|text| scalar && !text.starts_with('+')).and_then(|text| text.parse::<i64>().ok());
            writer.text(&millis.and_then(moment).ok_or_else(wrong)?)
        }
        ColumnType::Base64 => {
            if kind != Kind::String || STANDARD.decode(text.as_bytes()).is_err() {
                return Err(wrong());
            }
            writer.text(&text)
        }
        ColumnType::Json => {
            if kind != Kind::String {
                return writer.value(value, depth);
            }
            writer.count_lone_surrogates(lone_surrogates);
            writer.foreign(Json::parse(text.as_bytes()).map_err(|_| wrong())?, depth)
        }
    }
}

fn expected(column_type: ColumnType) -> &'static str {
    match column_type {
        ColumnType::String => "a text, a number, true or false (string)",
        ColumnType::Long => "a whole number of 64 bits (long)",
        ColumnType::Double => "a finite number (double)",
        ColumnType::Decimal => "a number (decimal)",
        ColumnType::Boolean => "true, false, 1 or 0 (boolean)",
        ColumnType::TimestampMs => "milliseconds since 1970 (timestamp-ms)",
        ColumnType::Base64 => "bytes in Base64 (base64)",
        ColumnType::Json => "JSON text (json)",
    }
}

/// A number in the form that JSON has for it, with a point or an exponent, so that an index sees that it may have a fraction. The digits stay.
fn fractional(text: &str) -> Option<String> {
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).map_or((unsigned, None), |(mantissa, exponent)| (mantissa, Some(exponent)));
    let (whole, fraction) = mantissa.split_once('.').map_or((mantissa, None), |(whole, fraction)| (whole, Some(fraction)));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(fraction.unwrap_or_default()) || (whole.is_empty() && fraction.unwrap_or_default().is_empty()) {
        return None;
    }
    let exponent = match exponent {
        None => String::new(),
        Some(exponent) => {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || !are_digits(digits) {
                return None;
            }
            format!("e{exponent}")
        }
    };
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let fraction = match fraction {
        Some("") => ".0".to_owned(),
        Some(fraction) => format!(".{fraction}"),
        None if exponent.is_empty() => ".0".to_owned(),
        None => String::new(),
    };
    Some(format!("{sign}{whole}{fraction}{exponent}"))
}

/// A moment in ISO form, in the years 0 to 9999.
fn moment(millis: i64) -> Option<String> {
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000).ok()?;
    let (year, month, day) = moment.to_calendar_date();
    let (hour, minute, second, millisecond) = moment.to_hms_milli();
    let month = u8::from(month);
    (0..=9999).contains(&year).then(|| format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z"))
}

#[cfg(test)]
mod tests;
