//! What one JSON value is, told by how it is written.
//!
//! Never guesses a meaning: a date is a date by its form alone, and only in forms that every OpenSearch `date` field with the
//! default format takes (measured on 2.19 and 3.9).

use std::borrow::Cow;

use super::Kind;

/// Strings up to this many bytes may be codes.
const MAX_CODE: usize = 64;
/// The JSON parser of the server refuses a longer number, wherever it stands.
const MAX_NUMBER: usize = 1_000;

/// The kind of a number, from its JSON text.
pub(super) fn number(raw: &str) -> Kind {
    if raw.len() > MAX_NUMBER {
        return Kind::OverlongNumber;
    }
    let whole = !raw.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
    if whole && raw.parse::<i64>().is_ok() {
        return Kind::Long;
    }
    match raw.parse::<f64>() {
        Ok(near) if near.is_finite() && whole => Kind::BigInteger,
        Ok(near) if near.is_finite() => Kind::Double,
        _ => Kind::HugeNumber,
    }
}

/// The kind of a string, from its JSON text with the quotes.
pub(super) fn string(raw: &str) -> Kind {
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    let text = if inner.contains('\\') {
        // A lone surrogate is legal JSON text and no Rust string; the server takes it as text.
        serde_json::from_str::<String>(raw).map_or(Cow::Borrowed("\\"), Cow::Owned)
    } else {
        Cow::Borrowed(inner)
    };
    let bytes = text.as_bytes();
    if let Some(kind) = date(bytes) {
        return kind;
    }
    let code = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte);
    if bytes.len() > MAX_CODE || !bytes.iter().all(code) {
        Kind::Text
    } else if bytes.iter().any(u8::is_ascii_digit) {
        Kind::Code
    } else {
        Kind::Word
    }
}

/// `YYYY`, `YYYY-MM`, `YYYY-MM-DD`, each with or without a final `T`, or a day with a time: `THH:MM[:SS[.f]]` with 1 to 9 digits of
/// fraction and an optional offset `Z`, `±HH`, `±HHMM`, `±HH:MM` of at most 18 hours. Years are 0001 to 9999: all of them fit the
/// milliseconds of a `date`. Days are checked against the calendar.
fn date(text: &[u8]) -> Option<Kind> {
    let mut rest = text;
    let year = digits(&mut rest, 4).filter(|year| *year > 0)?;
    if ends(rest) {
        return Some(Kind::PartialDate);
    }
    take(&mut rest, b'-')?;
    let month = digits(&mut rest, 2).filter(|month| (1..=12).contains(month))?;
    if ends(rest) {
        return Some(Kind::PartialDate);
    }
    take(&mut rest, b'-')?;
    digits(&mut rest, 2).filter(|day| (1..=days(year, month)).contains(day))?;
    if ends(rest) {
        return Some(Kind::Date);
    }
    take(&mut rest, b'T')?;
    digits(&mut rest, 2).filter(|hour| *hour < 24)?;
    take(&mut rest, b':')?;
    digits(&mut rest, 2).filter(|minute| *minute < 60)?;
    if take(&mut rest, b':').is_some() {
        digits(&mut rest, 2).filter(|second| *second < 60)?;
        if take(&mut rest, b'.').is_some() {
            let fraction = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if !(1..=9).contains(&fraction) {
                return None;
            }
            rest = &rest[fraction..];
        }
    }
    offset(rest).then_some(Kind::Date)
}

fn offset(mut rest: &[u8]) -> bool {
    match rest {
        b"" | b"Z" => true,
        [b'+' | b'-', ..] => {
            rest = &rest[1..];
            let Some(hours) = digits(&mut rest, 2) else { return false };
            if rest.is_empty() {
                return hours <= 18;
            }
            let _ = take(&mut rest, b':');
            let Some(minutes) = digits(&mut rest, 2) else { return false };
            rest.is_empty() && minutes < 60 && hours * 60 + minutes <= 18 * 60
        }
        _ => false,
    }
}

fn ends(rest: &[u8]) -> bool {
    matches!(rest, b"" | b"T")
}

fn take(rest: &mut &[u8], byte: u8) -> Option<()> {
    *rest = rest.strip_prefix(&[byte])?;
    Some(())
}

fn digits(rest: &mut &[u8], count: usize) -> Option<u32> {
    let (head, tail) = rest.split_at_checked(count)?;
    let mut number = 0;
    for byte in head {
        number = number * 10 + u32::from(byte.is_ascii_digit().then(|| byte - b'0')?);
    }
    *rest = tail;
    Some(number)
}

fn days(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Strings that a `date` field of OpenSearch 2.19 and 3.9 took (measured), and that count as dates here.
#[cfg(test)]
pub(super) const DATES: [&str; 20] = [
    "2017-08-21",
    "2017-08-21T",
    "2017-08-21T10:11",
    "2017-08-21T10:11Z",
    "2017-08-21T10:11-00:00",
    "2017-08-21T10:11+0000",
    "2017-08-21T10:11+01",
    "2017-08-21T10:11:12",
    "2017-08-21T10:11:12Z",
    "2017-08-21T10:11:12.1Z",
    "2017-08-21T10:11:12.123456789Z",
    "2017-08-21T10:11:12.123-00:00",
    "2017-08-21T10:11:12+05:30",
    "2017-08-21T10:11:12+18:00",
    "2017-08-21T10:11:12-0530",
    "0001-01-01",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59.999999999Z",
    "9999-12-31T23:59:59-18:00",
    "2016-02-29",
];

/// Strings that it took as well, and that count as dates only beside finer ones.
#[cfg(test)]
pub(super) const PARTIAL_DATES: [&str; 4] = ["2019", "2019T", "2019-05", "2019-05T"];

/// Strings that it refused.
#[cfg(test)]
pub(super) const NO_DATES: [&str; 22] = [
    "2017-08-21T10:11:12.1234567890Z",
    "2017-08-21T10:11:12+18:01",
    "2017-08-21T10:11:12-23:59",
    "2017-02-29",
    "2017-13-01",
    "2017-08-21T24:00Z",
    "2017-08-21T23:59:60Z",
    "2017-08-21t10:11:12z",
    "2017-08-21T10:11:12.Z",
    "",
    "2017-08-21 10:11:12",
    " 2017-08-21",
    "2017-8-21",
    "2017-08-21T10:11:12 Z",
    "2017-08-21T10:11:12[Europe/Paris]",
    "2017-W01-1",
    "2017-233",
    "2017-08-21T10:60",
    "2017-08-21T10:11:12+5:30",
    "2017-08-21Z",
    "2017-08-21+01:00",
    "2017-08-21T10.5",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Kind {
        string(&serde_json::to_string(text).unwrap())
    }

    #[test]
    fn a_string_is_a_date_by_its_form_alone() {
        for text in DATES {
            assert_eq!(of(text), Kind::Date, "{text}");
        }
        for text in PARTIAL_DATES {
            assert_eq!(of(text), Kind::PartialDate, "{text}");
        }
        for text in NO_DATES {
            assert!(!matches!(of(text), Kind::Date | Kind::PartialDate), "{text}");
        }
    }

    #[test]
    fn forms_that_only_some_servers_take_are_no_dates() {
        for text in ["0000-01-01", "+12017-01-01", "-2000-01-01", "2017-08-21T10", "2017-08-21T10:11:12,5Z", "20170821", "1234567890123"] {
            assert!(!matches!(of(text), Kind::Date | Kind::PartialDate), "{text}");
        }
    }

    #[test]
    fn the_calendar_is_checked() {
        for (text, kind) in [
            ("2000-02-29", Kind::Date),
            ("1900-02-29", Kind::Code),
            ("2024-02-29", Kind::Date),
            ("2023-04-31", Kind::Code),
            ("2023-12-31", Kind::Date),
            ("2023-00-01", Kind::Code),
            ("2023-01-00", Kind::Code),
            ("2023-01-32", Kind::Code),
        ] {
            assert_eq!(of(text), kind, "{text}");
        }
    }

    #[test]
    fn strings_are_codes_words_or_text() {
        for (text, kind) in [
            ("3Qv67yjXEwB9SjmvkuG6Cp", Kind::Code),
            ("550e8400-e29b-41d4-a716-446655440000", Kind::Code),
            ("LEWISR261LL", Kind::Code),
            ("12.50", Kind::Code),
            ("a/b:1", Kind::Code),
            ("1".repeat(64).as_str(), Kind::Code),
            ("1".repeat(65).as_str(), Kind::Text),
            ("Seattle", Kind::Word),
            ("", Kind::Word),
            ("two words", Kind::Text),
            ("line\nbreak", Kind::Text),
            ("a1\u{fc}", Kind::Text),
            ("someone@example.com", Kind::Text),
        ] {
            assert_eq!(of(text), kind, "{text}");
        }
    }

    #[test]
    fn escapes_are_read_before_a_string_is_judged() {
        assert_eq!(string(r#""2017\u002d08-21""#), Kind::Date);
        assert_eq!(string(r#""a\/1""#), Kind::Code);
        assert_eq!(string(r#""a\"1""#), Kind::Text);
        assert_eq!(string(r#""\ud800""#), Kind::Text);
    }

    #[test]
    fn numbers_are_told_apart_as_they_are_written() {
        let digits = |count: usize| "1".repeat(count);
        for (text, kind) in [
            ("0", Kind::Long),
            ("-0", Kind::Long),
            ("9223372036854775807", Kind::Long),
            ("-9223372036854775808", Kind::Long),
            ("9223372036854775808", Kind::BigInteger),
            ("-9223372036854775809", Kind::BigInteger),
            ("18446744073709551616", Kind::BigInteger),
            (digits(300).as_str(), Kind::BigInteger),
            (digits(400).as_str(), Kind::HugeNumber),
            (digits(1_000).as_str(), Kind::HugeNumber),
            (digits(1_001).as_str(), Kind::OverlongNumber),
            ("100.0", Kind::Double),
            ("442.30", Kind::Double),
            ("1e3", Kind::Double),
            ("1E-400", Kind::Double),
            ("1e400", Kind::HugeNumber),
            ("-1e400", Kind::HugeNumber),
        ] {
            assert_eq!(number(text), kind, "{text}");
        }
    }
}
