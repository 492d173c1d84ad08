//! A delete as a document: `{"revsync":{"v":1,"deleted":true,"time":"2026-11-29T08:15:00Z"}}`, written and read again.
//!
//! Its version is kept by the index like that of any other document, so it holds where the memory of a plain delete does not. Never takes
//! for a tombstone what has anything else in it: such a document is somebody's. That of a row of cells also says up to which version the row was
//! erased, in a member of its own.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::revision::Document;

/// The one field of a tombstone, an object.
pub const FIELD: &str = "revsync";
/// True in a tombstone: what readers' filters go by.
pub const DELETED: &str = "revsync.deleted";
/// When the delete was planned.
pub const TIME: &str = "revsync.time";
/// The stored form that this program writes; it is in the document as `v`.
pub const FORM: u64 = 1;

/// The last time that RFC 3339 can write, in milliseconds since 1970.
const LAST: u64 = 253_402_300_799_999;

/// A document that was found to be a tombstone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tombstone {
    /// Written at this time, in milliseconds since 1970 (UTC).
    Of(u64),
    /// Of a form that only a newer revsync knows.
    Newer,
}

/// The document of a tombstone. `time` is when the delete was planned, in milliseconds since 1970 (UTC).
pub fn document(time: u64) -> Document {
    Document(Bytes::from(format!(r#"{{"{FIELD}":{{"v":{FORM},"deleted":true,"time":"{}"}}}}"#, rfc3339(time))))
}

/// A time in milliseconds since 1970 as RFC 3339 in UTC.
pub fn rfc3339(time: u64) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(time.min(LAST)) * 1_000_000);
    time.expect("a time of four-digit years").format(&Rfc3339).expect("RFC 3339 writes years of four digits")
}

/// Reads a stored document; `None` where it is no tombstone.
pub fn read(source: &[u8]) -> Option<Tombstone> {
    let members: HashMap<String, &RawValue> = serde_json::from_slice(source).ok()?;
    let form: Value = serde_json::from_str(members.get(FIELD)?.get()).ok()?;
    match (form["v"].as_u64()?, &form["deleted"]) {
        (FORM, Value::Bool(true)) if members.len() == 1 => {
            let time = OffsetDateTime::parse(form["time"].as_str()?, &Rfc3339).ok()?;
            Some(Tombstone::Of(u64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok()?))
        }
        (newer, Value::Bool(true)) if newer > FORM => Some(Tombstone::Newer),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Operation, Target};
    use crate::revision::VersionType;

    #[test]
    fn a_tombstone_says_when_in_utc_and_is_read_again() {
        assert_eq!(document(1_732_868_100_000).as_bytes(), br#"{"revsync":{"v":1,"deleted":true,"time":"2024-11-29T08:15:00Z"}}"#);
        for time in [0, 1, 999, 1_732_868_100_120, LAST] {
            assert_eq!(read(document(time).as_bytes()), Some(Tombstone::Of(time)), "{time}");
        }
        assert_eq!(read(document(u64::MAX).as_bytes()), Some(Tombstone::Of(LAST)));
    }

    #[test]
    fn a_tombstone_of_a_row_of_cells_is_one() {
        let source = br#"{"revsync":{"v":1,"deleted":true,"time":"2024-11-29T08:15:00Z","cells":{"v":1,"erased":7}}}"#;
        assert_eq!(read(source), Some(Tombstone::Of(1_732_868_100_000)));
        assert_eq!(read(br#"{"a":1,"revsync":{"cells":{"v":1,"columns":{"a":[7,"1"]}}}}"#), None);
    }

    #[test]
    fn what_has_anything_else_in_it_is_no_tombstone() {
        for source in [
            r#"{}"#,
            r#"{"revsync":true}"#,
            r#"{"revsync":{"v":1,"deleted":true}}"#,
            r#"{"revsync":{"v":1,"deleted":false,"time":"2024-11-29T08:15:00Z"}}"#,
            r#"{"revsync":{"v":1,"deleted":"true","time":"2024-11-29T08:15:00Z"}}"#,
            r#"{"revsync":{"v":1,"deleted":true,"time":"yesterday"}}"#,
            r#"{"revsync":{"v":1,"deleted":true,"time":"1969-11-29T08:15:00Z"}}"#,
            r#"{"revsync":{"deleted":true,"time":"2024-11-29T08:15:00Z"}}"#,
            r#"{"revsync":{"v":0,"deleted":true,"time":"2024-11-29T08:15:00Z"}}"#,
            r#"{"revsync":{"v":1,"deleted":true,"time":"2024-11-29T08:15:00Z"},"name":"Raul"}"#,
            r#"{"revsync.deleted":true}"#,
            r#"[{"revsync":{"v":1,"deleted":true,"time":"2024-11-29T08:15:00Z"}}]"#,
            r#"{"revsync":{"v":1,"deleted":true,"time":"2024-11-29T08:15:00Z"}"#,
        ] {
            assert_eq!(read(source.as_bytes()), None, "{source}");
        }
    }

    #[test]
    fn a_form_of_a_newer_revsync_is_recognised_whatever_it_holds() {
        for source in [r#"{"revsync":{"v":2,"deleted":true}}"#, r#"{"id":1,"revsync":{"v":7,"deleted":true,"time":5}}"#] {
            assert_eq!(read(source.as_bytes()), Some(Tombstone::Newer), "{source}");
        }
    }

    #[test]
    fn a_tombstone_is_as_large_in_a_batch_as_it_is_in_the_body() {
        let target = Target { index: "i".into(), id: "a".into(), version: 1, version_type: VersionType::External, routing: None };
        let bare = Operation::Delete { target: target.clone() }.size();
        let counted = Operation::Tombstone { target, time: 0 }.size() - bare;
        for time in [0, 1_732_868_100_123] {
            assert!(counted.abs_diff(document(time).as_bytes().len()) <= 8, "{time}");
        }
    }
}
