//! Ion timestamps to text of the same precision and offset (Ion 1.0 binary encoding, "Timestamp").
//!
//! Never invents a part that the source did not give: not a time of day, not an offset, not a digit.

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
    let offset = if negative && offset == 0 { None } else { Some(i16::try_from(offset).ok().filter(|o| o.abs() < 1440).ok_or_else(bad)?) };
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
