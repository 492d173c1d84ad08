//! Points in time, exact: whole seconds since 1970 and the digits of their fraction as they were written.
//!
//! The proleptic Gregorian calendar, years 1 to 9999, without leap seconds. Never reads a clock.

use std::borrow::Cow;
use std::fmt;

use time::{Date, Month, OffsetDateTime};

/// Seconds since 1970 at the beginning of the year 1.
const FIRST: i64 = -62_135_596_800;

/// Seconds since 1970 at the last second of the year 9999.
const LAST: i64 = 253_402_300_799;

/// A point in time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::plan) struct Instant<'a> {
    /// Whole seconds since 1970, rounded down.
    seconds: i64,
    /// The digits of the fraction, without zeros at the end: their order is that of the fractions.
    fraction: Cow<'a, [u8]>,
}

/// How much of a point in time a text says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A date, a time and an offset from UTC.
    Full,
    /// A date alone.
    Date,
    /// A year, a month, or a time without an offset: what is not said is the first there is, and UTC.
    Partial,
}

/// A part of time that a point in time is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::plan) enum Part {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    /// Seconds since 1970.
    Epoch,
}

impl Part {
    /// The part of this name, in any case, that EXTRACT gives.
    pub(super) fn to_extract(name: &str) -> Option<Self> {
        Self::named(name).filter(|part| !matches!(part, Self::Week | Self::Quarter))
    }

    /// The part of this name, in any case, to whose beginning DATE_TRUNC goes.
    pub(super) fn to_truncate(name: &str) -> Option<Self> {
        Self::named(name).filter(|part| *part != Self::Epoch)
    }

    fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "YEAR" => Self::Year,
            "QUARTER" => Self::Quarter,
            "MONTH" => Self::Month,
            "WEEK" => Self::Week,
            "DAY" => Self::Day,
            "HOUR" => Self::Hour,
            "MINUTE" => Self::Minute,
            "SECOND" => Self::Second,
            "EPOCH" => Self::Epoch,
            _ => return None,
        })
    }
}

impl<'a> Instant<'a> {
    /// Reads what the ISO forms of a timestamp say, and how much that is: `2017-08-21`, `2017-08-21T10:00:00.250+02:00`, seconds left out or not,
    /// and the forms of Ion, `2019T`, `2019-05` and the unknown offset `-00:00`. Between date and time may stand `T` or a space.
    pub(super) fn read(text: &'a str) -> Option<(Self, Form)> {
        let mut rest = Rest(text.as_bytes());
        let year = rest.number(4)?;
        if matches!(rest.0, b"" | b"T") {
            return Some((Self::whole(midnight(year, 1, 1)?), Form::Partial));
        }
        rest.sign(b"-")?;
        let month = rest.number(2)?;
        if matches!(rest.0, b"" | b"T") {
            return Some((Self::whole(midnight(year, month, 1)?), Form::Partial));
        }
        rest.sign(b"-")?;
        let midnight = midnight(year, month, rest.number(2)?)?;
        if matches!(rest.0, b"" | b"T") {
            return Some((Self::whole(midnight), if rest.0.is_empty() { Form::Date } else { Form::Partial }));
        }
        let separator = rest.sign(b"T ")?;
        let hour = rest.number(2)?;
        rest.sign(b":")?;
        let minute = rest.number(2)?;
        let mut second = 0;
        let mut fraction: &[u8] = b"";
        if rest.sign(b":").is_some() {
            second = rest.number(2)?;
            if rest.sign(b".").is_some() {
                fraction = rest.digits()?;
            }
        }
        let offset = match rest.sign(b"Z+-") {
            None => None,
            Some(b'Z') => Some(0),
            Some(sign) => {
                let hours = rest.number(2)?;
                rest.sign(b":")?;
                let minutes = rest.number(2)?;
                let all = i64::from(hours) * 3_600 + i64::from(minutes) * 60;
                (hours < 24 && minutes < 60).then_some(())?;
                Some(if sign == b'-' { -all } else { all })
            }
        };
        if !rest.0.is_empty() || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let of_day = i64::from(hour) * 3_600 + i64::from(minute) * 60 + i64::from(second);
        let form = if offset.is_some() && separator == b'T' { Form::Full } else { Form::Partial };
        let instant = Self { seconds: midnight + of_day - offset.unwrap_or(0), fraction: Cow::Borrowed(fraction) };
        Some((instant.in_range()?, form))
    }

    /// The point in time so many milliseconds after 1970.
    pub(in crate::plan) fn of_millis(millis: i64) -> Option<Self> {
        let fraction = format!("{:03}", millis.rem_euclid(1_000)).into_bytes();
        let kept = fraction.iter().rposition(|digit| *digit != b'0').map_or(0, |at| at + 1);
        Self { seconds: millis.div_euclid(1_000), fraction: Cow::Owned(fraction[..kept].to_vec()) }.in_range()
    }

    /// The same point in time without a text of its own.
    pub(super) fn borrowed(&self) -> Instant<'_> {
        Instant { seconds: self.seconds, fraction: Cow::Borrowed(&self.fraction) }
    }

    /// The same point in time with its digits owned.
    pub(super) fn into_owned(self) -> Instant<'static> {
        Instant { seconds: self.seconds, fraction: Cow::Owned(self.fraction.into_owned()) }
    }

    /// So many months later, on the last day of the month where it has fewer days, and then so many seconds.
    pub(super) fn later(self, months: i32, seconds: i64) -> Option<Self> {
        let at = OffsetDateTime::from_unix_timestamp(self.seconds).ok()?;
        let month = i32::from(u8::from(at.month())) - 1;
        let all = at.year().checked_mul(12)?.checked_add(month)?.checked_add(months)?;
        let year = u16::try_from(all.div_euclid(12)).ok()?;
        let month = u16::try_from(all.rem_euclid(12) + 1).ok()?;
        let midnight = (28..=at.day()).rev().chain([at.day()]).find_map(|day| midnight(year, month, u16::from(day)))?;
        let seconds = midnight.checked_add(self.seconds.rem_euclid(86_400))?.checked_add(seconds)?;
        Self { seconds, ..self }.in_range()
    }

    /// The day, in UTC.
    pub(super) fn date(&self) -> String {
        self.to_string().chars().take(10).collect()
    }

    /// A part of it, in UTC, as the digits of a number.
    pub(super) fn part(&self, part: Part) -> Option<String> {
        let at = OffsetDateTime::from_unix_timestamp(self.seconds).ok()?;
        let with_fraction = |seconds: i64| match (seconds < 0, self.fraction.is_empty()) {
            (_, true) => Some(seconds.to_string()),
            (false, false) => Some(format!("{seconds}.{}", String::from_utf8_lossy(&self.fraction))),
            // Before 1970 the fraction counts forwards from a whole second that counts backwards.
            (true, false) => {
                let whole = seconds + 1;
                let nines = self.fraction.iter().enumerate().map(|(at, digit)| {
                    let top = if at + 1 == self.fraction.len() { b'9' + 1 } else { b'9' };
                    char::from(top - digit + b'0')
                });
                Some(format!("-{}.{}", whole.unsigned_abs(), nines.collect::<String>()))
            }
        };
        match part {
            Part::Year => Some(at.year().to_string()),
            Part::Month => Some(u8::from(at.month()).to_string()),
            Part::Day => Some(at.day().to_string()),
            Part::Hour => Some(at.hour().to_string()),
            Part::Minute => Some(at.minute().to_string()),
            Part::Second => with_fraction(i64::from(at.second())),
            Part::Epoch => with_fraction(self.seconds),
            Part::Week | Part::Quarter => None,
        }
    }

    /// The beginning of the part of time that it is in, in UTC.
    pub(super) fn truncated(&self, part: Part) -> Option<Instant<'static>> {
        let at = OffsetDateTime::from_unix_timestamp(self.seconds).ok()?;
        let year = u16::try_from(at.year()).ok()?;
        let month = u16::from(u8::from(at.month()));
        let of_unit = |seconds: i64| Some(self.seconds - self.seconds.rem_euclid(seconds));
        let seconds = match part {
            Part::Year => midnight(year, 1, 1),
            Part::Quarter => midnight(year, (month - 1) / 3 * 3 + 1, 1),
            Part::Month => midnight(year, month, 1),
            Part::Week => Some(of_unit(86_400)? - i64::from(at.weekday().number_days_from_monday()) * 86_400),
            Part::Day => of_unit(86_400),
            Part::Hour => of_unit(3_600),
            Part::Minute => of_unit(60),
            Part::Second => Some(self.seconds),
            Part::Epoch => None,
        };
        Instant { seconds: seconds?, fraction: Cow::Borrowed(b"") }.in_range()
    }

    fn in_range(self) -> Option<Self> {
        (FIRST..=LAST).contains(&self.seconds).then_some(self)
    }

    fn whole(seconds: i64) -> Self {
        Self { seconds, fraction: Cow::Borrowed(b"") }
    }
}

impl fmt::Display for Instant<'_> {
    /// As RFC 3339 writes it, in UTC, with as many digits of the second as there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = OffsetDateTime::from_unix_timestamp(self.seconds).map_err(|_| fmt::Error)?;
        let (year, month, day) = at.to_calendar_date();
        let (hour, minute, second) = at.to_hms();
        write!(f, "{year:04}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}", u8::from(month))?;
        if !self.fraction.is_empty() {
            write!(f, ".{}", String::from_utf8_lossy(&self.fraction))?;
        }
        f.write_str("Z")
    }
}

/// What is left of a text.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    /// A number of exactly so many digits.
    fn number(&mut self, digits: usize) -> Option<u16> {
        let (number, rest) = self.0.split_at_checked(digits)?;
        let value = number.iter().try_fold(0, |value, digit| digit.is_ascii_digit().then(|| value * 10 + u16::from(digit - b'0')))?;
        self.0 = rest;
        Some(value)
    }

    /// One of these signs.
    fn sign(&mut self, wanted: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        wanted.contains(first).then(|| {
            self.0 = rest;
            *first
        })
    }

    /// All digits that come, at least one; zeros at their end are left out.
    fn digits(&mut self) -> Option<&'a [u8]> {
        let count = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        let zeros = digits.iter().rev().take_while(|digit| **digit == b'0').count();
        (count > 0).then(|| &digits[..count - zeros])
    }
}

/// Seconds since 1970 at the beginning of a day.
fn midnight(year: u16, month: u16, day: u16) -> Option<i64> {
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    let date = Date::from_calendar_date(i32::from(year), month, u8::try_from(day).ok()?).ok()?;
    (year > 0).then(|| date.midnight().assume_utc().unix_timestamp())
}
