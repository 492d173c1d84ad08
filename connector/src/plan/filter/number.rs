//! Numbers compared exactly, as decimals on their digits.
//!
//! Never goes through floating point, and never writes out the zeros that an exponent stands for: `1e999999999` costs as much as `1`.

use std::borrow::Cow;
use std::cmp::Ordering;

/// A decimal: ±0.DIGITS times ten to the power of `point`. One value has one form, so that `442.30` is `442.3`, and `-0` is `0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Number<'a> {
    negative: bool,
    /// Without zeros at either end; zero has none at all.
    digits: Cow<'a, [u8]>,
    point: i64,
}

impl<'a> Number<'a> {
    /// Reads a number as JSON or SQL writes it. `None` for what is none, and for one whose exponent does not fit into 64 bits.
    pub(super) fn read(text: &'a [u8]) -> Option<Self> {
        let (negative, text) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = match text.iter().position(|b| matches!(b, b'e' | b'E')) {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let (whole, fraction) = match memchr::memchr(b'.', mantissa) {
            Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
            None => (mantissa, &[][..]),
        };
        if whole.is_empty() && fraction.is_empty() || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
            return None;
        }
        let exponent = exponent.map(std::str::from_utf8).transpose().ok()?;
        if exponent.is_some_and(|e| !e.strip_prefix(['+', '-']).unwrap_or(e).starts_with(|c: char| c.is_ascii_digit())) {
            return None;
        }
        let (leading, digits) = significant(whole, fraction);
        if digits.is_empty() {
            return Some(Self { negative: false, digits, point: 0 });
        }
        let shift = i64::try_from(whole.len()).ok()?.checked_sub(leading)?;
        let point = exponent.map_or(Ok(0), str::parse::<i64>).ok()?.checked_add(shift)?;
        Some(Self { negative, digits, point })
    }

    /// The same number with its digits owned.
    pub(super) fn into_owned(self) -> Number<'static> {
        Number { negative: self.negative, digits: Cow::Owned(self.digits.into_owned()), point: self.point }
    }

    /// The number with the other sign.
    pub(super) fn negated(self) -> Self {
        Self { negative: !self.negative && !self.digits.is_empty(), ..self }
    }
}

/// How many zeros lead, and the digits without the zeros at either end.
fn significant<'a>(whole: &'a [u8], fraction: &'a [u8]) -> (i64, Cow<'a, [u8]>) {
    let zeros = |digits: &[u8]| digits.iter().take_while(|digit| **digit == b'0').count();
    let without_end = |digits: &'a [u8]| &digits[..digits.len() - digits.iter().rev().take_while(|digit| **digit == b'0').count()];
    let fraction = without_end(fraction);
    let mut leading = zeros(whole);
    let digits = if leading == whole.len() {
        let in_fraction = zeros(fraction);
        leading += in_fraction;
        Cow::Borrowed(&fraction[in_fraction..])
    } else if fraction.is_empty() {
        Cow::Borrowed(without_end(&whole[leading..]))
    } else {
        Cow::Owned([&whole[leading..], fraction].concat())
    };
    (i64::try_from(leading).unwrap_or(i64::MAX), digits)
}

impl Ord for Number<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        // Zero has no digits and is below every other magnitude, whatever the places of their points.
        let magnitude = || {
            let place = |number: &Self| (!number.digits.is_empty()).then_some(number.point);
            place(self).cmp(&place(other)).then_with(|| self.digits.cmp(&other.digits))
        };
        match (self.negative, other.negative) {
            (false, false) => magnitude(),
            (true, true) => magnitude().reverse(),
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
        }
    }
}

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
        assert_eq!(Number::read(b"1e9223372036854775807"), None, "its point does not fit");
    }
}
