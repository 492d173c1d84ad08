//! Values that people write as a text of their own form: sizes and times with their unit, where a stream is begun with, where to listen.
//!
//! Never guesses a unit: a bare number is refused.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::plan::checkpoint::Start;

/// A number of bytes, written as `"5MiB"`: a whole number and `B`, `KiB`, `MiB`, `GiB`, `kB`, `MB` or `GB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// A length of time, written as `"200ms"`: a whole number and `ms`, `s`, `m`, `h` or `d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// Where a stream is begun with: `earliest`, `latest`, or a time in RFC 3339 such as `2025-07-31T00:00:00Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartAt(pub Start);

/// Where requests over HTTP are answered, written as `"127.0.0.1:8080"`, or `"none"` where they are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen(pub Option<SocketAddr>);

/// The key columns of a table, or of all tables that a pattern names, written as `TABLE=COLUMN[,COLUMN]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableKey {
    /// The table: its name, or a pattern in which `*` stands for any characters.
    pub table: String,
    /// The columns, in their order.
    pub columns: Vec<String>,
}

impl FromStr for TableKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || format!("expected TABLE=COLUMN[,COLUMN], such as shop.item=sku, found {text:?}");
        let (table, columns) = text.split_once('=').ok_or_else(refuse)?;
        let columns: Vec<String> = columns.split(',').map(|column| column.trim().to_owned()).collect();
        if table.trim().is_empty() || columns.iter().any(String::is_empty) {
            return Err(refuse());
        }
        Ok(Self { table: table.trim().to_owned(), columns })
    }
}

impl Default for StartAt {
    fn default() -> Self {
        Self(Start::Earliest)
    }
}

const SIZES: [(&str, u64); 7] =
    [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000), ("B", 1)];
const TIMES: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

const SIZE_EXPECTED: &str = "a size such as \"5MiB\" (B, KiB, MiB, GiB, kB, MB, GB)";
const START_EXPECTED: &str = "earliest, latest, or a time such as \"2025-07-31T00:00:00Z\"";
const LISTEN_EXPECTED: &str = "an IP address with a port, such as \"127.0.0.1:8080\" or \"[::]:8080\", or \"none\"";
const TIME_EXPECTED: &str = "a time such as \"200ms\" (ms, s, m, h, d)";

/// Splits `5MiB` into its number and its unit, and multiplies. Sizes are read without regard to case, times are not (`m` and `M` mean
/// different things elsewhere).
fn parse(text: &str, units: &[(&str, u64)], any_case: bool, expected: &str) -> Result<u64, String> {
    let refuse = || format!("expected {expected}, found {text:?}");
    let trimmed = text.trim();
    let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = trimmed.split_at(digits);
    let unit = unit.trim_start();
    if number.is_empty() {
        return Err(refuse());
    }
    if unit.is_empty() {
        return Err(format!("{}: the unit is missing", refuse()));
    }
    let same = |name: &str| if any_case { name.eq_ignore_ascii_case(unit) } else { name == unit };
    let &(_, factor) = units.iter().find(|(name, _)| same(name)).ok_or_else(refuse)?;
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(|| format!("{}: the number is too large", refuse()))
}

/// The largest unit that divides the value, so that writing and reading give the same value.
fn write(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)], zero: &str) -> fmt::Result {
    if value == 0 {
        return f.write_str(zero);
    }
    match units.iter().find(|(_, factor)| value.is_multiple_of(*factor)) {
        Some((name, factor)) => write!(f, "{}{name}", value / factor),
        None => write!(f, "{value}"),
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, &SIZES, true, SIZE_EXPECTED).map(Self)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, &SIZES, "0B")
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, &TIMES, false, TIME_EXPECTED).map(Duration::from_millis).map(Self)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Hours are the largest unit written: OpenSearch's own documentation says 24h, not 1d.
        write(f, u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX), &TIMES[1..], "0s")
    }
}

impl FromStr for StartAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(match text.trim() {
            "earliest" => Start::Earliest,
            "latest" => Start::Latest,
            time => {
                let refuse = || format!("expected {START_EXPECTED}, found {text:?}");
                let time = OffsetDateTime::parse(time, &Rfc3339).map_err(|_| refuse())?;
                Start::Timestamp(u64::try_from(time.unix_timestamp_nanos() / 1_000_000).map_err(|_| refuse())?)
            }
        }))
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "none" => Ok(Self(None)),
            address => {
                address.parse().map(|address| Self(Some(address))).map_err(|_| format!("expected {LISTEN_EXPECTED}, found {text:?}"))
            }
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("none"),
            Some(address) => address.fmt(f),
        }
    }
}

impl fmt::Display for StartAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Start::Earliest => f.write_str("earliest"),
            Start::Latest => f.write_str("latest"),
            Start::Timestamp(millis) => {
                let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000);
                let written = time.ok().and_then(|time| time.format(&Rfc3339).ok());
                f.write_str(&written.unwrap_or_else(|| millis.to_string()))
            }
        }
    }
}

/// Reads a value with a unit from text, and says what it expects when it finds a bare number.
struct WithUnit<T> {
    expected: &'static str,
    kind: std::marker::PhantomData<T>,
}

impl<T: FromStr<Err = String>> Visitor<'_> for WithUnit<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        Err(E::custom(format_args!("expected {}, found the bare number {number}: the unit is missing", self.expected)))
    }
}

macro_rules! written_with_unit {
    ($type:ident, $expected:expr, $pattern:literal) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(WithUnit { expected: $expected, kind: std::marker::PhantomData })
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern })
            }
        }
    };
}

written_with_unit!(ByteSize, SIZE_EXPECTED, r"^\s*[0-9]+\s*([KkMmGg]([Ii])?)?[Bb]\s*$");
written_with_unit!(StartAt, START_EXPECTED, r"^\s*(earliest|latest|[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ].+)\s*$");
written_with_unit!(Listen, LISTEN_EXPECTED, r"^\s*(none|[0-9.]+:[0-9]{1,5}|\[[0-9A-Fa-f:.]+(%[0-9]+)?\]:[0-9]{1,5})\s*$");
written_with_unit!(Span, TIME_EXPECTED, r"^\s*[0-9]+\s*(ms|s|m|h|d)\s*$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in [
            ("5MiB", 5 << 20),
            ("5 mib", 5 << 20),
            ("9MB", 9_000_000),
            ("1kB", 1_000),
            ("1KiB", 1024),
            ("0B", 0),
            ("7B", 7),
            ("2GiB", 2 << 30),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn times_are_read_with_their_units() {
        for (text, ms) in [("200ms", 200), ("30s", 30_000), ("5m", 300_000), ("24h", 86_400_000), ("7 d", 604_800_000), ("0s", 0)] {
            assert_eq!(text.parse(), Ok(Span(Duration::from_millis(ms))), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_or_time_is_refused_with_what_was_found() {
        for text in ["", "MiB", "5M", "-1B", "1.5MiB", "5 parsecs", "99999999999999999999B", "18446744073709551615KiB"] {
            let error = text.parse::<ByteSize>().unwrap_err();
            assert!(error.contains(&format!("{text:?}")) && error.contains("5MiB"), "{error}");
        }
        for text in ["", "s", "5M", "5min", "1.5h", "-3s", "99999999999999999999s"] {
            let error = text.parse::<Span>().unwrap_err();
            assert!(error.contains(&format!("{text:?}")) && error.contains("200ms"), "{error}");
        }
    }

    #[test]
    fn a_start_is_an_end_of_the_stream_or_a_time() {
        for (text, start) in [
            ("earliest", Start::Earliest),
            ("latest", Start::Latest),
            ("1970-01-01T00:00:01.5Z", Start::Timestamp(1_500)),
            ("1970-01-01T01:00:00+01:00", Start::Timestamp(0)),
        ] {
            let read: StartAt = text.parse().unwrap();
            assert_eq!(read.0, start, "{text}");
            assert_eq!(read.to_string().parse(), Ok(read));
        }
        for text in ["", "newest", "2025-07-31", "1969-12-31T23:59:59Z", "trim_horizon"] {
            let error = text.parse::<StartAt>().unwrap_err();
            assert!(error.contains(&format!("{text:?}")) && error.contains("earliest"), "{error}");
        }
    }

    #[test]
    fn a_bare_number_is_refused_because_its_unit_is_missing() {
        assert!("5".parse::<ByteSize>().unwrap_err().ends_with("the unit is missing"));
        assert!("5".parse::<Span>().unwrap_err().ends_with("the unit is missing"));
    }

    #[test]
    fn written_values_read_back_as_themselves() {
        for bytes in [0, 1, 1000, 1024, 5 << 20, 9_000_000, u64::MAX] {
            assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }
        for ms in [0, 1, 999, 200, 30_000, 300_000, 86_400_000] {
            let span = Span(Duration::from_millis(ms));
            assert_eq!(span.to_string().parse(), Ok(span));
        }
    }

    #[test]
    fn where_to_listen_is_an_address_with_a_port_or_none() {
        for text in ["127.0.0.1:8080", "0.0.0.0:0", "[::1]:8080", "none"] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
        for text in ["", ":8080", "8080", "localhost:8080", "127.0.0.1", "127.0.0.1:70000", "http://127.0.0.1:8080", "None"] {
            let error = text.parse::<Listen>().unwrap_err();
            assert!(error.contains(&format!("{text:?}")) && error.contains("127.0.0.1:8080"), "{error}");
        }
    }
}
