//! Numbers compared exactly, as decimals on their digits.
//!
//! Never goes through floating point, and never writes out the zeros that an exponent stands for: `1e999999999` costs as much as `1`.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::instant::Instant;

/// A decimal: ±0.DIGITS times ten to the power of `point`. One value has one form, so that `442.30` is `442.3`, and `-0` is `0`; beside it, the
/// number keeps the text that it was read from.
#[derive(Debug, Clone)]
pub(in crate::plan) struct Number<'a> {
    text: Cow<'a, [u8]>,
    negative: bool,
    /// Where in the text the digits are, without zeros at either end: before the decimal point, and behind it. Zero has none at all.
    digits: [(u32, u32); 2],
    point: i64,
}

impl<'a> Number<'a> {
    /// Reads a number as JSON or SQL writes it. `None` for what is none, and for one whose exponent does not fit into 64 bits.
    pub(in crate::plan) fn read(text: impl Into<Cow<'a, [u8]>>) -> Option<Self> {
        let text = text.into();
        let (negative, digits, point) = scan(&text)?;
        Some(Self { text, negative, digits, point })
    }

    /// The number as it was written.
    pub(in crate::plan) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The same, for as long as the text lives.
    pub(super) fn into_text(self) -> Cow<'a, [u8]> {
        self.text
    }

    /// The same number with its text owned.
    pub(super) fn into_owned(self) -> Number<'static> {
        Number { text: Cow::Owned(self.text.into_owned()), negative: self.negative, digits: self.digits, point: self.point }
    }

    /// The same number without a text of its own.
    pub(super) fn borrowed(&self) -> Number<'_> {
        Number { text: Cow::Borrowed(&self.text), negative: self.negative, digits: self.digits, point: self.point }
    }

    /// The number with the other sign. Zero has none.
    pub(super) fn negated(&self) -> Number<'static> {
        let text = match &*self.text {
            [b'-', rest @ ..] => rest.to_vec(),
            text if self.is_zero() => text.to_vec(),
            text => [b"-", text].concat(),
        };
        let moved = |at: u32| if self.text.starts_with(b"-") { at - 1 } else { at + 1 };
        let digits = self.digits.map(|(from, to)| if from == to { (0, 0) } else { (moved(from), moved(to)) });
        Number { text: text.into(), negative: !self.negative && !self.is_zero(), digits, point: self.point }
    }

    /// The number without its sign.
    pub(super) fn absolute(self) -> Self {
        if self.text.starts_with(b"-") { self.negated() } else { self }
    }

    /// Whether it is below zero.
    pub(super) fn is_negative(&self) -> bool {
        self.negative
    }

    /// The number where it is a whole one of 64 bits.
    pub(super) fn whole(&self) -> Option<i64> {
        let places = usize::try_from(self.point).ok().filter(|places| *places <= 19)?;
        let (negative, mut digits, _) = self.parts();
        if digits.len() > places {
            return None;
        }
        digits.resize(places, b'0');
        let magnitude = digits.iter().fold(0i128, |value, digit| value * 10 + i128::from(digit - b'0'));
        i64::try_from(if negative { -magnitude } else { magnitude }).ok()
    }

    /// Whether it is zero.
    pub(super) fn is_zero(&self) -> bool {
        self.digits == [(0, 0); 2]
    }

    /// Its digits without zeros at either end, and the power of ten of `0.DIGITS`.
    pub(super) fn parts(&self) -> (bool, Vec<u8>, i64) {
        let [head, tail] = self.digits();
        (self.negative, [head, tail].concat(), self.point)
    }

    /// The point in time so many milliseconds after 1970; digits behind those are cut off.
    pub(super) fn millis(&self) -> Option<Instant<'static>> {
        // No point in time has more than 15 digits before the decimal point.
        if self.point > 15 {
            return None;
        }
        let (negative, digits, point) = self.parts();
        let whole = usize::try_from(point).unwrap_or(0);
        let digit = |at: usize| i64::from(digits.get(at).map_or(0, |digit| digit - b'0'));
        let cut = (0..whole).fold(0, |millis, at| millis * 10 + digit(at));
        let has_fraction = digits.len() > whole;
        Instant::of_millis(if negative { -cut - i64::from(has_fraction) } else { cut })
    }

    fn digits(&self) -> [&[u8]; 2] {
        self.digits.map(|(from, to)| &self.text[from as usize..to as usize])
    }
}

type Scanned = (bool, [(u32, u32); 2], i64);

/// The sign, the places of the digits, and the power of ten.
fn scan(text: &[u8]) -> Option<Scanned> {
    u32::try_from(text.len()).ok()?;
    let negative = text.first() == Some(&b'-');
    let begin = usize::from(negative);
    let end = text.iter().position(|b| matches!(b, b'e' | b'E')).unwrap_or(text.len());
    let mantissa = text.get(begin..end)?;
    let whole_end = memchr::memchr(b'.', mantissa).map_or(end, |at| begin + at);
    let fraction_begin = end.min(whole_end + 1);
    let (whole, fraction) = (&text[begin..whole_end], &text[fraction_begin..end]);
    if whole.is_empty() && fraction.is_empty() || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return None;
    }
    let exponent = if end < text.len() { Some(std::str::from_utf8(&text[end + 1..]).ok()?) } else { None };
    if exponent.is_some_and(|e| !e.strip_prefix(['+', '-']).unwrap_or(e).starts_with(|c: char| c.is_ascii_digit())) {
        return None;
    }
    let leading = |digits: &[u8]| digits.iter().take_while(|digit| **digit == b'0').count();
    let trailing = |digits: &[u8]| digits.iter().rev().take_while(|digit| **digit == b'0').count();
    let fraction_end = end - trailing(fraction);
    let mut zeros = leading(whole);
    let (mut head, mut tail) = ((begin + zeros, whole_end), (fraction_begin, fraction_end.max(fraction_begin)));
    if head.0 == head.1 {
        let more = leading(&text[tail.0..tail.1]);
        zeros += more;
        tail.0 += more;
    } else if tail.0 == tail.1 {
        head.1 -= trailing(&text[head.0..head.1]);
    }
    let place =
        |(from, to): (usize, usize)| if from == to { Some((0, 0)) } else { Some((u32::try_from(from).ok()?, u32::try_from(to).ok()?)) };
    let digits = [place(head)?, place(tail)?];
    if digits == [(0, 0); 2] {
        return Some((false, digits, 0));
    }
    let shift = i64::try_from(whole.len()).ok()?.checked_sub(i64::try_from(zeros).ok()?)?;
    let point = exponent.map_or(Ok(0), str::parse::<i64>).ok()?.checked_add(shift)?;
    Some((negative, digits, point))
}

impl Ord for Number<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        // Zero has no digits and is below every other magnitude, whatever the places of their points.
        let magnitude = || {
            let place = |number: &Self| (!number.is_zero()).then_some(number.point);
            place(self).cmp(&place(other)).then_with(|| match (self.digits(), other.digits()) {
                ([head, []], [other_head, []]) => head.cmp(other_head),
                (mine, others) => mine.into_iter().flatten().cmp(others.into_iter().flatten()),
            })
        };
        match (self.negative, other.negative) {
            (false, false) => magnitude(),
            (true, true) => magnitude().reverse(),
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
        }
    }
}

impl PartialEq for Number<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Number<'_> {}

impl PartialOrd for Number<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number<'_> {
        Number::read(text.as_bytes()).unwrap_or_else(|| panic!("{text} is a number"))
    }

    #[test]
    fn numbers_of_one_value_are_equal_however_they_are_written() {
        let scale_38 = format!("0.1{}", "0".repeat(37));
        let groups: [&[&str]; 6] = [
            &["442.3", "442.30", "4423e-1", "0.4423E3", "00442.300", "442300e-3", "442.3e+0"],
            &["100", "100.0", "1e2", "100.", "0.1e3", "1E+2", "1e000000000000000000000000002"],
            &["0", "-0", "0.0", "0e400", "-0.00e-999999999999999999999999", ".0"],
            &["0.1", &scale_38, "1e-1", ".1"],
            &["-1.5", "-15e-1", "-1.50"],
            &["1e400", "10e399", "0.1e401"],
        ];
        for group in groups {
            for (a, b) in group.iter().flat_map(|a| group.iter().map(move |b| (a, b))) {
                assert_eq!(number(a).cmp(&number(b)), Ordering::Equal, "{a} {b}");
                assert_eq!(number(a), number(b));
            }
        }
    }

    #[test]
    fn numbers_are_ordered_to_the_last_digit() {
        let ascending = [
            "-1e999999999",
            "-9223372036854775809",
            "-9223372036854775808",
            "-1.0000000000000000000000000000000000001",
            "-1",
            "-0.5",
            "-1e-999999999",
            "0",
            "1e-400",
            "0.099999999999999999999999999999999999999",
            "0.1",
            "0.10000000000000000000000000000000000001",
            "9",
            "10",
            "9007199254740992",
            "9007199254740993",
            "9223372036854775807",
            "9223372036854775807.5",
            "9223372036854775808",
            "1e308",
            "1e400",
            "1e999999999",
            "1e9223372036854775806",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(number(a).cmp(&number(b)), i.cmp(&j), "{a} {b}");
                assert_eq!(number(a).negated().cmp(&number(b).negated()), j.cmp(&i), "-({a}) -({b})");
            }
        }
    }

    #[test]
    fn what_is_no_number_or_has_an_exponent_beyond_64_bits_is_not_read() {
        for text in ["", "-", ".", "e5", "1e", "1e+", "1x", "0x10", "1.2.3", "--1", "1e5.0", "NaN", "1e+-5", "1e9223372036854775808"] {
            assert_eq!(Number::read(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Number::read(&b"1e9223372036854775807"[..]), None, "its point does not fit");
    }
}
