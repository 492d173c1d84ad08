//! The wall clock, for what is written down. Waiting goes by tokio's clock, which tests can hold.

use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Now, in milliseconds since 1970 (UTC).
pub fn millis() -> u64 {
    u64::try_from(OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000).unwrap_or_default()
}

/// Now, as RFC 3339 in UTC.
pub(super) fn now() -> String {
    OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default()
}

/// The moment that was so long ago.
pub fn ago(time: Duration) -> OffsetDateTime {
    let time = time::Duration::try_from(time).unwrap_or(time::Duration::MAX);
    OffsetDateTime::now_utc().checked_sub(time).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}
