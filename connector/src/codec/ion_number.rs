//! Ion integers and decimals to JSON text, from their digits: no floating point on the way (Ion 1.0 binary encoding, "Int" and "Decimal").

use super::ion_binary::Bytes;
use crate::record::Fault;

/// Bytes of an integer or of a decimal's coefficient that are still written out: 2,466 decimal digits.
const MAX_NUMBER_BYTES: usize = 1024;

/// Digits of a decimal that are still written without an exponent.
const PLAIN_DIGITS: i64 = 40;

/// A signed magnitude of any length: sign, and big-endian bytes without it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Magnitude<'a> {
    /// Whether it is negative; there is a negative zero.
    pub(super) negative: bool,
    /// The first byte without the sign bit.
    pub(super) first: u8,
    /// The others.
    pub(super) rest: &'a [u8],
}

/// A decimal: its coefficient, and its exponent.
///
/// # Errors
/// A representation that ends too early.
pub(super) fn decimal(body: &[u8]) -> Result<(Magnitude<'_>, i64), Fault> {
    if body.is_empty() {
        return Ok((Magnitude { negative: false, first: 0, rest: &[] }, 0));
    }
    let mut rest = Bytes(body);
    let (_, exponent) = rest.var_int()?;
    Ok((magnitude(rest.0), exponent))
}

pub(super) fn magnitude(body: &[u8]) -> Magnitude<'_> {
    match body {
        [] => Magnitude { negative: false, first: 0, rest: &[] },
        [first, rest @ ..] => Magnitude { negative: first & 0x80 != 0, first: first & 0x7F, rest },
    }
}

pub(super) fn write_int(body: &[u8], negative: bool, out: &mut Vec<u8>) -> Result<(), Fault> {
    if negative {
        if body.iter().all(|byte| *byte == 0) {
            return Err(Fault::new("undecodable", "expected Ion binary, found a negative zero where only a decimal can have one"));
        }
        out.push(b'-');
    }
    with_digits(0, body, |digits| out.extend_from_slice(digits))
}

/// Hands on the decimal digits of a big-endian magnitude.
pub(super) fn with_digits(first: u8, rest: &[u8], write: impl FnOnce(&[u8])) -> Result<(), Fault> {
    let bytes = 1 + rest.len();
    if bytes <= 8 {
        let number = rest.iter().fold(u64::from(first), |number, byte| number << 8 | u64::from(*byte));
        write(itoa::Buffer::new().format(number).as_bytes());
    } else if bytes <= 16 {
        let number = rest.iter().fold(u128::from(first), |number, byte| number << 8 | u128::from(*byte));
        write(itoa::Buffer::new().format(number).as_bytes());
    } else if bytes <= MAX_NUMBER_BYTES {
        let little_endian: Vec<u8> = rest.iter().rev().copied().chain([first]).collect();
        write(ion_rs::UInt::from_le_bytes(&little_endian).to_string().as_bytes());
    } else {
        let reason = format!("expected a number of at most {MAX_NUMBER_BYTES} bytes, found one of {bytes}");
        return Err(Fault::new("number_too_long", reason));
    }
    Ok(())
}

/// Writes a decimal from its coefficient and exponent, with a point or an exponent, as JSON wants it.
pub(super) fn write_decimal(coefficient: &Magnitude<'_>, exponent: i64, out: &mut Vec<u8>) -> Result<(), Fault> {
    if coefficient.negative {
        out.push(b'-');
    }
    with_digits(coefficient.first, coefficient.rest, |digits| {
        let length = digits.len() as i64;
        if exponent == 0 {
            out.extend_from_slice(digits);
            out.extend_from_slice(b".0");
        } else if exponent < 0 && exponent > -length {
            let (whole, fraction) = digits.split_at((length + exponent) as usize);
            out.extend_from_slice(whole);
            out.push(b'.');
            out.extend_from_slice(fraction);
        } else if (-PLAIN_DIGITS..0).contains(&exponent) {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + (-exponent - length) as usize, b'0');
            out.extend_from_slice(digits);
        } else {
            out.extend_from_slice(digits);
            out.push(b'e');
            out.extend_from_slice(itoa::Buffer::new().format(exponent).as_bytes());
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(body: &[u8], negative: bool) -> Result<String, String> {
        let mut out = Vec::new();
        write_int(body, negative, &mut out).map_err(|fault| fault.kind)?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn decimal_of(body: &[u8]) -> String {
        let (coefficient, exponent) = decimal(body).unwrap();
        let mut out = Vec::new();
        write_decimal(&coefficient, exponent, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Digits by schoolbook division: nothing in common with the code above.
    fn digits(body: &[u8]) -> String {
        let (mut number, mut digits) = (body.to_vec(), Vec::new());
        while number.iter().any(|byte| *byte != 0) {
            let rest = number.iter_mut().fold(0u32, |rest, byte| {
                let whole = rest << 8 | u32::from(*byte);
                *byte = (whole / 10) as u8;
                whole % 10
            });
            digits.push(b'0' + rest as u8);
        }
        digits.reverse();
        String::from_utf8(digits).unwrap()
    }

    #[test]
    fn integers_of_any_width_have_the_same_digits() {
        for width in 1..80usize {
            for fill in [0xFF, 0x80, 0x01] {
                let body: Vec<u8> = (0..width).map(|i| if i == 0 { fill } else { (i * 37) as u8 }).collect();
                assert_eq!(int(&body, false), Ok(digits(&body)));
                assert_eq!(int(&body, true), Ok(format!("-{}", digits(&body))));
                let padded = [&[0; 9][..], &body].concat();
                assert_eq!(int(&padded, false), Ok(digits(&body)), "zeros before it");
            }
        }
    }

    #[test]
    fn there_is_no_negative_zero_among_integers() {
        assert_eq!(int(&[], false), Ok("0".to_owned()));
        assert_eq!(int(&[0, 0], false), Ok("0".to_owned()));
        assert_eq!(int(&[], true), Err("undecodable".to_owned()));
        assert_eq!(int(&[0, 0], true), Err("undecodable".to_owned()));
    }

    #[test]
    fn a_magnitude_has_its_sign_in_the_first_bit() {
        assert_eq!(magnitude(&[]), Magnitude { negative: false, first: 0, rest: &[] });
        assert_eq!(magnitude(&[0x80]), Magnitude { negative: true, first: 0, rest: &[] });
        assert_eq!(magnitude(&[0xFF, 1]), Magnitude { negative: true, first: 0x7F, rest: &[1] });
    }

    #[test]
    fn a_point_comes_where_the_exponent_says() {
        for (body, expected) in [
            (&[][..], "0.0"),
            (&[0x80], "0.0"),
            (&[0x80, 0x07], "7.0"),
            (&[0x80, 0x87], "-7.0"),
            (&[0xC1, 0x07], "0.7"),
            (&[0xC2, 0x07], "0.07"),
            (&[0xC1, 0x7F], "12.7"),
            (&[0xC3, 0x7F], "0.127"),
            (&[0xC4, 0x7F], "0.0127"),
            (&[0x81, 0x7F], "127e1"),
            (&[0xC3], "0.000"),
            (&[0xC1, 0x80], "-0.0"),
            (&[0x83], "0e3"),
            (&[0xE8, 0x07], "0.0000000000000000000000000000000000000007"),
            (&[0xE9, 0x07], "7e-41"),
            (&[0xC0, 0x07], "7.0"),
        ] {
            assert_eq!(decimal_of(body), expected, "{body:02X?}");
        }
    }

    #[test]
    fn the_digits_are_the_same_wherever_the_point_is() {
        let body = [0x12, 0x34, 0x56, 0x78, 0x9A, 0xBC, 0xDE, 0xF0, 0x12, 0x34, 0x56, 0x78, 0x9A, 0xBC, 0xDE, 0xF0, 0x11];
        let expected = digits(&body);
        for exponent in 0..60u8 {
            let text = decimal_of(&[&[0xC0 | exponent][..], &body].concat());
            let bare = text.replace('.', "");
            let bare = bare.split('e').next().unwrap().trim_start_matches('0');
            assert_eq!(bare.strip_suffix(if exponent == 0 { "0" } else { "" }), Some(&expected[..]), "{text}");
        }
    }

    #[test]
    fn a_large_exponent_is_not_written_out() {
        assert_eq!(decimal_of(&[0x2F, 0x5E, 0x08, 0x80, 0x01]).len(), "1e100000000".len());
        assert_eq!(decimal_of(&[0x00, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0xFF, 0x01]), "1e9223372036854775807");
        assert_eq!(decimal_of(&[0x40, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0xFF, 0x01]), "1e-9223372036854775807");
    }

    #[test]
    fn an_exponent_that_does_not_end_is_a_fault() {
        assert_eq!(decimal(&[0x00]).unwrap_err().kind, "undecodable");
        assert_eq!(decimal(&[0x01, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0xFF]).unwrap_err().kind, "undecodable");
    }
}
