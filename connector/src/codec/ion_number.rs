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
