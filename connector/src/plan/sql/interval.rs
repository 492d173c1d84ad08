//! INTERVAL: a length of time, and a point in time so much later.

use super::instant::Instant;
use super::value::Value;

/// A length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::plan) struct Interval {
    months: i32,
    seconds: i64,
}

/// The units, in months and in seconds.
const UNITS: [(&str, i32, i64); 7] =
    [("SECOND", 0, 1), ("MINUTE", 0, 60), ("HOUR", 0, 3_600), ("DAY", 0, 86_400), ("WEEK", 0, 604_800), ("MONTH", 1, 0), ("YEAR", 12, 0)];

impl Interval {
    /// So many of a unit, in capitals, singular or plural.
    ///
    /// # Errors
    /// What is expected in place of it.
    pub(super) fn read(count: &str, unit: &str) -> Result<Self, String> {
        let count: i32 = count.trim().parse().map_err(|_| "a whole number in quotes behind INTERVAL".to_owned())?;
        let Some((_, months, seconds)) = UNITS.iter().find(|(name, ..)| unit == *name || unit.strip_suffix('S') == Some(name)) else {
            return Err("SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR".to_owned());
        };
        let months = months.checked_mul(count).ok_or("an interval of fewer years")?;
        Ok(Self { months, seconds: seconds * i64::from(count) })
    }

    /// The same length backwards.
    pub(super) fn negated(self) -> Self {
        Self { months: self.months.saturating_neg(), seconds: -self.seconds }
    }

    /// The point in time so much later than what a value says, which is a time or a text.
    pub(super) fn after(self, value: &Value<'_>) -> Option<Instant<'static>> {
        match value {
            Value::Time(_) | Value::Text(_) => value.instant()?.into_owned().later(self.months, self.seconds),
            _ => None,
        }
    }
}
