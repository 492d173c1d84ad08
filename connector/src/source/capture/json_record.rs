//! One Kinesis record as JSON: where its data is, and what the Base64 comes to.
//!
//! As the Kinesis API, its clients, Lambda events and what delivery streams could not deliver show records. Frames nothing, and never looks into the data.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::memory::Buffer;

/// Base64 as the AWS tools write it; missing padding is tolerated.
pub(super) const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent));

/// A record as the Kinesis API, its clients and Lambda show it.
#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow, alias = "Data")]
    data: Option<&'a RawValue>,
    #[serde(borrow, rename = "ApproximateArrivalTimestamp", alias = "approximateArrivalTimestamp")]
    arrived: Option<&'a RawValue>,
    #[serde(borrow)]
    kinesis: Option<Kinesis<'a>>,
    /// Of a record that a delivery stream could not process or deliver (Amazon Data Firehose developer guide, "Handle data transformation failure").
    #[serde(borrow, rename = "rawData")]
    undelivered: Option<&'a RawValue>,
    #[serde(borrow, rename = "arrivalTimestamp")]
    undelivered_arrived: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct Kinesis<'a> {
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow, rename = "approximateArrivalTimestamp")]
    arrived: Option<&'a RawValue>,
}

/// What is inside a record.
pub(super) struct Inside {
    pub(super) data: Bytes,
    /// Where the value of its data begins in the record.
    pub(super) at: usize,
    /// When the stream took it in, in milliseconds since 1970.
    pub(super) arrived: Option<u64>,
}

/// Bytes as JavaScript's `Buffer` turns into JSON.
#[derive(Deserialize)]
struct ByteList {
    data: Vec<u8>,
}

/// What is inside a record given as a JSON object; an error says what was expected.
pub(super) fn inside(json: &[u8]) -> Result<Inside, &'static str> {
    let record: Record<'_> = serde_json::from_slice(json).map_err(|_| "expected a Kinesis record as a JSON object")?;
    let of_event = record.kinesis.unwrap_or_default();
    let raw = record.data.or(of_event.data).or(record.undelivered).ok_or("expected a Kinesis record with Data, found none")?.get();
    let arrived = record.arrived.or(of_event.arrived).or(record.undelivered_arrived).and_then(|time| arrival(time.get()));
    // The value is borrowed from `json`, so the distance of the two is its place.
    let at = (raw.as_ptr() as usize).saturating_sub(json.as_ptr() as usize);
    if raw.starts_with('{') {
        let list: ByteList = serde_json::from_str(raw).map_err(|_| "expected Base64 in Data")?;
        return Ok(Inside { data: list.data.into(), at, arrived });
    }
    Ok(Inside { data: string(raw.as_bytes()).ok_or("expected Base64 in Data")?, at, arrived })
}

/// A time as the tools write it: seconds since 1970 with a fraction (the API, Lambda, the AWS CLI's first version), milliseconds (Java), or a text
/// with date, time and offset (JavaScript, Python, the AWS CLI). What is none of these says nothing.
fn arrival(json: &str) -> Option<u64> {
    /// No second since 1970 before the year 5138, and a millisecond of 1973.
    const MILLISECONDS_FROM: f64 = 1e11;
    if let Ok(number) = serde_json::from_str::<f64>(json) {
        let millis = if number < MILLISECONDS_FROM { number * 1_000.0 } else { number };
        // A float's whole part is exact far beyond any such time, and one below 0 is none.
        return (millis >= 0.0).then_some(millis.round() as u64);
    }
    let text: String = serde_json::from_str(json).ok()?;
    let time = OffsetDateTime::parse(&text.replacen(' ', "T", 1), &Rfc3339).ok()?;
    u64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok()
}

/// The bytes behind a JSON string of Base64.
pub(super) fn string(json: &[u8]) -> Option<Bytes> {
    let inside = json.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if memchr::memchr(b'\\', inside).is_none() {
        return bare(inside);
    }
    bare(serde_json::from_slice::<String>(json).ok()?.as_bytes())
}

/// The bytes behind Base64.
pub(super) fn bare(base64: &[u8]) -> Option<Bytes> {
    let mut bytes = Buffer::with_room(base64::decoded_len_estimate(base64.len()));
    let length = BASE64.decode_slice(base64, bytes.unfilled()).ok()?;
    bytes.fill(length);
    Some(bytes.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_arrival_is_read_as_every_tool_writes_it() {
        for (time, millis) in [
            ("1711960200.25", Some(1_711_960_200_250)),
            ("1700000000.123", Some(1_700_000_000_123)),
            ("1700000000", Some(1_700_000_000_000)),
            ("1700000000123", Some(1_700_000_000_123)),
            ("\"2023-11-14T22:13:20.123Z\"", Some(1_700_000_000_123)),
            ("\"2023-11-14T23:13:20.123000+01:00\"", Some(1_700_000_000_123)),
            ("\"2023-11-14 22:13:20.123000+00:00\"", Some(1_700_000_000_123)),
            ("\"yesterday\"", None),
            ("\"ü\"", None),
            ("-1", None),
            ("1e999", None),
            ("null", None),
            ("{\"a\":1}", None),
        ] {
            for record in [
                format!(r#"{{"Data":"YQ==","ApproximateArrivalTimestamp":{time}}}"#),
                format!(r#"{{"approximateArrivalTimestamp":{time},"data":"YQ=="}}"#),
                format!(r#"{{"attemptsMade":4,"arrivalTimestamp":{time},"errorCode":"Lambda.FunctionTimedOut","rawData":"YQ=="}}"#),
                format!(r#"{{"kinesis":{{"data":"YQ==","approximateArrivalTimestamp":{time}}}}}"#),
            ] {
                let inside = inside(record.as_bytes()).unwrap();
                assert_eq!((&inside.data[..], inside.arrived), (&b"a"[..], millis), "{record}");
            }
        }
        assert_eq!(inside(br#"{"Data":"YQ=="}"#).unwrap().arrived, None);
    }
}
