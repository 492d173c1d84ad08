//! One Kinesis record as JSON: where its data is, and what the Base64 comes to.
//!
//! As the Kinesis API, its clients and Lambda events show records. Frames nothing, and never looks into the data.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::memory::Buffer;

/// Base64 as the AWS tools write it; missing padding is tolerated.
pub(super) const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent));

/// A record as the Kinesis API, its clients and Lambda show it.
#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow, alias = "Data")]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    kinesis: Option<Kinesis<'a>>,
}

#[derive(Deserialize)]
struct Kinesis<'a> {
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// Bytes as JavaScript's `Buffer` turns into JSON.
#[derive(Deserialize)]
struct ByteList {
    data: Vec<u8>,
}

/// The data of a record given as a JSON object, and where its value begins in `json`; an error says what was expected.
pub(super) fn data(json: &[u8]) -> Result<(Bytes, usize), &'static str> {
    let record: Record<'_> = serde_json::from_slice(json).map_err(|_| "expected a Kinesis record as a JSON object")?;
    let raw = record.data.or(record.kinesis.and_then(|inside| inside.data)).ok_or("expected a Kinesis record with Data, found none")?.get();
    // The value is borrowed from `json`, so the distance of the two is its place.
    let at = (raw.as_ptr() as usize).saturating_sub(json.as_ptr() as usize);
    if raw.starts_with('{') {
        let list: ByteList = serde_json::from_str(raw).map_err(|_| "expected Base64 in Data")?;
        return Ok((list.data.into(), at));
    }
    Ok((string(raw.as_bytes()).ok_or("expected Base64 in Data")?, at))
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
