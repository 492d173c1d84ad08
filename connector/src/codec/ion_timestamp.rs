//! Ion timestamps to text of the same precision and offset (Ion 1.0 binary encoding, "Timestamp").
//!
//! Never invents a part that the source did not give: not a time of day, not an offset, not a digit.

use time::{Date, Month};

use super::ion_binary::{Bytes, damaged};
use super::ion_number::{Magnitude, magnitude, with_digits};
use crate::record::Fault;

/// A timestamp as it is written down: local fields with their offset. What its precision does not reach is `None`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Timestamp<'a> {
    pub(super) year: u16,
    pub(super) month: Option<u8>,
    pub(super) day: Option<u8>,
    /// Hour and minute.
    pub(super) time: Option<(u8, u8)>,
    pub(super) second: Option<u8>,
    /// Digits of the fraction, and its coefficient.
    pub(super) fraction: Option<(u32, Magnitude<'a>)>,
    /// Minutes; `None` where it is not known.
    pub(super) offset: Option<i16>,
}

/// Digits that a second's fraction may have.
pub(super) const MAX_FRACTION_DIGITS: i64 = 36;

/// Reads a timestamp: fields in UTC in the bytes, moved to local time by the offset.
///
/// # Errors
/// Fields out of their range.
pub(super) fn timestamp(body: &[u8]) -> Result<Timestamp<'_>, Fault> {
    fields(body).and_then(|stamp| if (1..=9999).contains(&stamp.year) { Ok(stamp) } else { Err(bad()) })
}

fn bad() -> Fault {
    damaged("a timestamp with a field out of its range")
}

fn fields(body: &[u8]) -> Result<Timestamp<'_>, Fault> {
    let mut rest = Bytes(body);
    let (negative, offset) = rest.var_int()?;
    let field = |rest: &mut Bytes<'_>, from: u64, to: u64| -> Result<u16, Fault> {
        rest.var_uint()?.try_into().ok().filter(|n| (from..=to).contains(&u64::from(*n))).ok_or_else(bad)
    };
    // The first and the last hours of the calendar, as told by some clocks, are in the years 0 and 10000 of UTC.
    let mut stamp =
        Timestamp { year: field(&mut rest, 0, 10_000)?, month: None, day: None, time: None, second: None, fraction: None, offset: None };
    if rest.0.is_empty() {
        return Ok(stamp);
    }
    let month = field(&mut rest, 1, 12)? as u8;
    stamp.month = Some(month);
    if rest.0.is_empty() {
        return Ok(stamp);
    }
    let day = field(&mut rest, 1, u64::from(days_in(stamp.year, month)))? as u8;
    stamp.day = Some(day);
    if rest.0.is_empty() {
        return Ok(stamp);
    }
    let (hour, minute) = (field(&mut rest, 0, 23)? as u8, field(&mut rest, 0, 59)? as u8);
    stamp.time = Some((hour, minute));
    // A date has no offset, whatever is written there.
    let offset = if negative && offset == 0 { None } else { Some(i16::try_from(offset).ok().filter(|o| o.abs() < 1440).ok_or_else(bad)?) };
    stamp.offset = offset;
    if !rest.0.is_empty() {
        stamp.second = Some(field(&mut rest, 0, 59)? as u8);
    }
    if !rest.0.is_empty() {
        let (_, exponent) = rest.var_int()?;
        let coefficient = magnitude(rest.0);
        let zero = coefficient.first == 0 && coefficient.rest.iter().all(|byte| *byte == 0);
        if exponent < -MAX_FRACTION_DIGITS || (exponent >= 0 && !zero) || (coefficient.negative && !zero) {
            return Err(bad());
        }
        stamp.fraction = (exponent < 0).then_some((exponent.unsigned_abs() as u32, coefficient));
    }
    if let Some(minutes) = offset.filter(|minutes| *minutes != 0) {
        shift(&mut stamp, month, day, hour, minute, minutes).ok_or_else(bad)?;
    }
    Ok(stamp)
}

fn shift(stamp: &mut Timestamp<'_>, month: u8, day: u8, hour: u8, minute: u8, offset: i16) -> Option<()> {
    let minutes = i16::from(hour) * 60 + i16::from(minute) + offset;
    let (mut year, mut month, mut day) = (stamp.year, month, day);
    match minutes.div_euclid(1440) {
        0 => {}
        1 if day < days_in(year, month) => day += 1,
        1 if month < 12 => (month, day) = (month + 1, 1),
        1 => (year, month, day) = (year + 1, 1, 1),
        _ if day > 1 => day -= 1,
        _ if month > 1 => (month, day) = (month - 1, days_in(year, month - 1)),
        _ => (year, month, day) = (year.checked_sub(1)?, 12, 31),
    }
    let of_day = minutes.rem_euclid(1440);
    stamp.year = year;
    stamp.month = Some(month);
    stamp.day = Some(day);
    stamp.time = Some(((of_day / 60) as u8, (of_day % 60) as u8));
    Some(())
}

fn days_in(year: u16, month: u8) -> u8 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The moment, in whole milliseconds since 1970; `None` where it is before that, or not given to the second.
pub(super) fn millis(timestamp: &Timestamp<'_>) -> Option<u64> {
    let (Some(month), Some(day), Some((hour, minute)), Some(second)) = (timestamp.month, timestamp.day, timestamp.time, timestamp.second)
    else {
        return None;
    };
    const EPOCH: i64 = 2_440_588;
    let date = Date::from_calendar_date(timestamp.year.into(), Month::try_from(month).ok()?, day).ok()?;
    let minutes = (i64::from(date.to_julian_day()) - EPOCH) * 1440 + i64::from(hour) * 60 + i64::from(minute);
    let seconds = (minutes - i64::from(timestamp.offset.unwrap_or_default())) * 60 + i64::from(second);
    let mut fraction = 0;
    if let Some((places, coefficient)) = &timestamp.fraction {
        let places = *places as usize;
        with_digits(coefficient.first, coefficient.rest, |digits| {
            let zeros = places.saturating_sub(digits.len());
            let digit = |at: usize| at.checked_sub(zeros).and_then(|at| digits.get(at)).map_or(0, |digit| u64::from(digit - b'0'));
            fraction = digit(0) * 100 + digit(1) * 10 + digit(2);
        })
        .ok()?;
    }
    u64::try_from(seconds).ok()?.checked_mul(1000)?.checked_add(fraction)
}

/// Writes a timestamp as its Ion text, without the `T` that ends a year, a month or a day.
pub(super) fn write_timestamp(timestamp: &Timestamp<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    write_pair(timestamp.year / 100, out);
    write_pair(timestamp.year % 100, out);
    for part in [timestamp.month, timestamp.day].into_iter().flatten() {
        out.push(b'-');
        write_pair(part.into(), out);
    }
    let Some((hour, minute)) = timestamp.time else { return Ok(()) };
    out.push(b'T');
    write_pair(hour.into(), out);
    out.push(b':');
    write_pair(minute.into(), out);
    if let Some(second) = timestamp.second {
        out.push(b':');
        write_pair(second.into(), out);
    }
    if let Some((digits, coefficient)) = &timestamp.fraction {
        write_fraction(*digits as usize, coefficient, out)?;
    }
    match timestamp.offset {
        None => out.extend_from_slice(b"-00:00"),
        Some(0) => out.push(b'Z'),
        Some(minutes) => {
            out.push(if minutes < 0 { b'-' } else { b'+' });
            write_pair(minutes.unsigned_abs() / 60, out);
            out.push(b':');
            write_pair(minutes.unsigned_abs() % 60, out);
        }
    }
    Ok(())
}

fn write_pair(number: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]);
}

fn write_fraction(places: usize, coefficient: &Magnitude<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let mut fits = true;
    with_digits(coefficient.first, coefficient.rest, |digits| {
        fits = digits.len() <= places;
        if fits {
            out.push(b'.');
            out.resize(out.len() + places - digits.len(), b'0');
            out.extend_from_slice(digits);
        }
    })?;
    if fits {
        return Ok(());
    }
    Err(Fault::new("undecodable", "expected Ion binary, found a timestamp with a fraction of a second or more"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(body: &[u8]) -> Result<String, String> {
        let mut out = Vec::new();
        timestamp(body).and_then(|stamp| write_timestamp(&stamp, &mut out)).map_err(|fault| fault.kind)?;
        Ok(String::from_utf8(out).unwrap())
    }

    /// An offset in minutes, in two bytes.
    fn offset(minutes: i16) -> [u8; 2] {
        let sign = if minutes < 0 { 0x40 } else { 0 };
        let minutes = minutes.unsigned_abs();
        [sign | (minutes >> 7) as u8, 0x80 | (minutes & 0x7F) as u8]
    }

    fn year(year: u16) -> [u8; 2] {
        [(year >> 7) as u8, 0x80 | (year & 0x7F) as u8]
    }

    fn minute_of(local: i16, at: [u16; 5]) -> Result<String, String> {
        let rest = at[1..].iter().map(|part| 0x80 | *part as u8).collect::<Vec<_>>();
        text(&[&offset(local)[..], &year(at[0]), &rest].concat())
    }

    #[test]
    fn fields_are_written_as_far_as_they_are_given() {
        const UNKNOWN: u8 = 0xC0;
        for (body, expected) in [
            (&[UNKNOWN, 0x0F, 0xE3][..], "2019"),
            (&[UNKNOWN, 0x0F, 0xE3, 0x85], "2019-05"),
            (&[UNKNOWN, 0x0F, 0xE3, 0x85, 0x9F], "2019-05-31"),
            (&[UNKNOWN, 0x0F, 0xE3, 0x85, 0x9F, 0x97, 0xBB], "2019-05-31T23:59-00:00"),
            (&[0x80, 0x0F, 0xE3, 0x85, 0x9F, 0x97, 0xBB], "2019-05-31T23:59Z"),
            (&[0x80, 0x0F, 0xE3, 0x85, 0x9F, 0x97, 0xBB, 0x80], "2019-05-31T23:59:00Z"),
            (&[0x80, 0x0F, 0xE3, 0x85, 0x9F, 0x97, 0xBB, 0xBB, 0xC3, 0x07], "2019-05-31T23:59:59.007Z"),
            (&[0x80, 0x0F, 0xE3, 0x85, 0x9F, 0x97, 0xBB, 0xBB, 0xC3], "2019-05-31T23:59:59.000Z"),
            (&[0x80, 0x0F, 0xE3, 0x85, 0x9F, 0x97, 0xBB, 0xBB, 0xC1, 0x09], "2019-05-31T23:59:59.9Z"),
            (&[0x80, 0x0F, 0xE3, 0x85, 0x9F, 0x97, 0xBB, 0xBB, 0x80], "2019-05-31T23:59:59Z"),
            (&[0x80, 0x0F, 0xE3, 0x85, 0x9F, 0x97, 0xBB, 0xBB, 0x85, 0x00], "2019-05-31T23:59:59Z"),
            (&[0x80, 0x81, 0x81, 0x81], "0001-01-01"),
        ] {
            assert_eq!(text(body).as_deref(), Ok(expected), "{body:02X?}");
        }
    }

    #[test]
    fn an_offset_moves_the_clock_over_every_border() {
        for (local, utc, expected) in [
            (330, [2019, 5, 31, 18, 29], "2019-05-31T23:59+05:30"),
            (330, [2019, 5, 31, 18, 30], "2019-06-01T00:00+05:30"),
            (330, [2019, 12, 31, 18, 30], "2020-01-01T00:00+05:30"),
            (330, [2020, 2, 28, 18, 30], "2020-02-29T00:00+05:30"),
            (330, [2021, 2, 28, 18, 30], "2021-03-01T00:00+05:30"),
            (330, [2000, 2, 28, 20, 0], "2000-02-29T01:30+05:30"),
            (330, [1900, 2, 28, 20, 0], "1900-03-01T01:30+05:30"),
            (-480, [2019, 6, 1, 8, 0], "2019-06-01T00:00-08:00"),
            (-480, [2019, 6, 1, 7, 59], "2019-05-31T23:59-08:00"),
            (-480, [2020, 1, 1, 0, 0], "2019-12-31T16:00-08:00"),
            (-480, [2020, 3, 1, 0, 0], "2020-02-29T16:00-08:00"),
            (-480, [2021, 3, 1, 0, 0], "2021-02-28T16:00-08:00"),
            (-480, [2021, 5, 1, 0, 0], "2021-04-30T16:00-08:00"),
            (1439, [2019, 5, 31, 0, 1], "2019-06-01T00:00+23:59"),
            (-1439, [2019, 5, 31, 23, 58], "2019-05-30T23:59-23:59"),
            (60, [0, 12, 31, 23, 0], "0001-01-01T00:00+01:00"),
            (-60, [10_000, 1, 1, 0, 59], "9999-12-31T23:59-01:00"),
        ] {
            assert_eq!(minute_of(local, utc).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn what_is_outside_of_the_calendar_is_a_fault() {
        for (local, utc) in [
            (0, [0, 12, 31, 23, 0]),
            (59, [0, 12, 31, 23, 0]),
            (-60, [0, 1, 1, 0, 0]),
            (-60, [1, 1, 1, 0, 0]),
            (60, [9999, 12, 31, 23, 0]),
            (0, [10_000, 1, 1, 0, 0]),
            (0, [2019, 0, 1, 0, 0]),
            (0, [2019, 13, 1, 0, 0]),
            (0, [2019, 5, 0, 0, 0]),
            (0, [2019, 4, 31, 0, 0]),
            (0, [2019, 2, 29, 0, 0]),
            (0, [2019, 5, 1, 24, 0]),
            (0, [2019, 5, 1, 0, 60]),
            (1440, [2019, 5, 1, 0, 0]),
            (-1440, [2019, 5, 1, 0, 0]),
        ] {
            assert_eq!(minute_of(local, utc), Err("undecodable".to_owned()), "{local} {utc:?}");
        }
        let to_the_second = [0x80, 0x0F, 0xE3, 0x85, 0x9F, 0x97, 0xBB];
        for (rest, what) in [
            (&[0xBC][..], "a 61st second"),
            (&[0xBB, 0xC1, 0x0A], "a fraction of a second"),
            (&[0xBB, 0xC1, 0x89], "a negative fraction"),
            (&[0xBB, 0x80, 0x01], "a whole second as its fraction"),
            (&[0xBB, 0xE5], "37 digits"),
        ] {
            assert_eq!(text(&[&to_the_second[..], rest].concat()), Err("undecodable".to_owned()), "{what}");
        }
        for cut in [0, 1, 2, 6] {
            assert_eq!(text(&to_the_second[..cut]), Err("undecodable".to_owned()), "{cut} bytes");
        }
    }

    #[test]
    fn a_moment_is_told_in_milliseconds_where_it_is_given_to_the_second() {
        let at = |body: &[u8]| millis(&timestamp(body).unwrap());
        let second = [0x80, 0x0F, 0xE3, 0x85, 0x9F, 0x97, 0xBB, 0xBB];
        const EXPECTED: u64 = 1_559_347_199_000;
        for (fraction, expected) in [
            (&[][..], 0),
            (&[0xC3, 0x07], 7),
            (&[0xC3], 0),
            (&[0xC1, 0x09], 900),
            (&[0xC3, 0x03, 0xE7], 999),
            (&[0xC6, 0x01, 0xE2, 0x40], 123),
            (&[0xC4, 0x09], 0),
        ] {
            assert_eq!(at(&[&second[..], fraction].concat()), Some(EXPECTED + expected), "{fraction:02X?}");
        }
        let minute = [&offset(330)[..], &year(2019), &[0x85, 0x9F, 0x97, 0xBB, 0xBB]].concat();
        assert_eq!(at(&minute), Some(EXPECTED), "an offset changes how it is written, not when it was");
        let unknown = [&[0xC0][..], &second[1..]].concat();
        assert_eq!(at(&unknown), Some(EXPECTED));
        for cut in 3..8 {
            if let Ok(stamp) = timestamp(&second[..cut]) {
                assert_eq!(millis(&stamp), None, "{cut} bytes");
            }
        }
        assert_eq!(at(&[0x80, 0x0F, 0xB1, 0x8C, 0x9F, 0x97, 0xBB, 0xBB]), None, "1969");
        assert_eq!(at(&[0x80, 0x0F, 0xB2, 0x81, 0x81, 0x80, 0x80, 0x80]), Some(0));
    }

    #[test]
    fn fractions_have_up_to_36_digits() {
        for places in 1..=36u8 {
            let body = [&[0x80, 0x0F, 0xE3, 0x85, 0x9F, 0x97, 0xBB, 0x80][..], &[0xC0 | places, 0x05]].concat();
            let expected = format!("2019-05-31T23:59:00.{}5Z", "0".repeat(usize::from(places) - 1));
            assert_eq!(text(&body), Ok(expected));
        }
    }
}
