//! Exact arithmetic on decimals, within limits that no value of a record can pass.
//!
//! A number of more than 1,000 digits, or with its first digit more than 1,000 places from the decimal point, is not calculated with: the result is null, as
//! is a result of more than 1,000 digits, and a division by zero. A quotient that does not end has 40 significant digits, or as many as the
//! dividend, and is rounded, halves away from zero.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::str::FromStr;

use bigdecimal::num_bigint::BigInt;
use bigdecimal::{BigDecimal, RoundingMode, Zero};

use super::number::Number;
use super::text;
use super::value::Value;

/// Digits that a number may have, and places of its first digit from the decimal point.
const MAX_DIGITS: u64 = 1_000;

/// Significant digits of a quotient that does not end.
const QUOTIENT_DIGITS: u64 = 40;

/// Zeros that are written out where an exponent could stand for them.
const MAX_ZEROS: i64 = 40;

/// What is done with two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::plan) enum Operator {
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Times,
    /// `/`
    Divide,
    /// `%`
    Remainder,
    /// `||`
    Join,
}

/// What two values come to. Null where one is null, or cannot be calculated with.
pub(super) fn apply<'a>(left: Value<'a>, operator: Operator, right: Value<'a>) -> Value<'a> {
    if operator == Operator::Join {
        return match (left.into_text(), right.into_text()) {
            (Some(left), Some(right)) => text::join([left, right]),
            _ => Value::Null,
        };
    }
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => calculate(&left, operator, &right),
        _ => Value::Null,
    }
}

fn calculate(left: &Number<'_>, operator: Operator, right: &Number<'_>) -> Value<'static> {
    let (Some(left), Some(right)) = (decimal(left), decimal(right)) else { return Value::Null };
    number(match operator {
        Operator::Plus => left + right,
        Operator::Minus => left - right,
        Operator::Times => left * right,
        Operator::Divide | Operator::Remainder if right.is_zero() => return Value::Null,
        Operator::Divide => quotient(left, right),
        Operator::Remainder => left % right,
        Operator::Join => return Value::Null,
    })
}

/// The number as one that can be calculated with, with its zeros behind the decimal point.
pub(super) fn decimal(number: &Number<'_>) -> Option<BigDecimal> {
    let (negative, digits, point) = number.parts();
    if digits.len() as u64 > MAX_DIGITS || point.unsigned_abs() > MAX_DIGITS {
        return None;
    }
    // The exponent of a zero says nothing, but its places would be written out.
    if number.is_zero() {
        let written = std::str::from_utf8(number.text()).ok().and_then(|text| BigDecimal::from_str(text).ok());
        return Some(written.filter(|zero| zero.fractional_digit_count().unsigned_abs() <= MAX_DIGITS).unwrap_or_default());
    }
    if number.text().len() as u64 <= 2 * MAX_DIGITS {
        return BigDecimal::from_str(std::str::from_utf8(number.text()).ok()?).ok();
    }
    let whole = BigInt::parse_bytes(&digits, 10).unwrap_or_default();
    let scale = i64::try_from(digits.len()).ok()? - point;
    Some(BigDecimal::new(if negative { -whole } else { whole }, scale))
}

/// The value of a result; null when it has too many digits.
pub(super) fn number(result: BigDecimal) -> Value<'static> {
    if result.digits() > MAX_DIGITS {
        return Value::Null;
    }
    Number::read(Cow::Owned(written(&result).into_bytes())).map_or(Value::Null, Value::Number)
}

/// A whole number as a value.
pub(super) fn whole(value: i64) -> Value<'static> {
    number(BigDecimal::from(value))
}

fn quotient(dividend: BigDecimal, divisor: BigDecimal) -> BigDecimal {
    let wanted = QUOTIENT_DIGITS.max(dividend.digits());
    // One digit more than is kept decides how the last one is rounded.
    let more = (wanted + 2 + divisor.digits()).saturating_sub(dividend.digits());
    let (dividend, dividend_scale) = dividend.into_bigint_and_scale();
    let (divisor, divisor_scale) = divisor.into_bigint_and_scale();
    let more_digits = u32::try_from(more).unwrap_or(u32::MAX);
    let digits = dividend * BigInt::from(10).pow(more_digits) / divisor;
    let exact = BigDecimal::new(digits, dividend_scale - divisor_scale + i64::from(more_digits));
    NonZeroU64::new(wanted).map_or(exact.clone(), |wanted| exact.with_precision_round(wanted, RoundingMode::HalfUp)).normalized()
}

/// Rounded to so many digits behind the decimal point, or before it where that is negative.
pub(super) fn rounded(value: &Number<'_>, digits: i64, mode: RoundingMode) -> Value<'static> {
    let Some(exact) = decimal(value).filter(|_| digits.unsigned_abs() <= MAX_DIGITS) else { return Value::Null };
    let (_, scale) = exact.as_bigint_and_scale();
    number(if scale <= digits { exact } else { exact.with_scale_round(digits, mode) })
}

/// The number in JSON: with all its digits, and an exponent only in place of many zeros.
fn written(value: &BigDecimal) -> String {
    let (whole, scale) = value.as_bigint_and_scale();
    let sign = if *whole < BigInt::ZERO { "-" } else { "" };
    let digits = whole.magnitude().to_string();
    let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
    let length = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    match scale {
        _ if scale > 0 && length > scale => {
            let (whole, fraction) = digits.split_at(digits.len() - usize::try_from(scale).unwrap_or(0));
            format!("{sign}{whole}.{fraction}")
        }
        _ if scale > 0 && scale - length <= MAX_ZEROS => format!("{sign}0.{}{digits}", zeros(scale - length)),
        _ if scale <= 0 && (-scale <= MAX_ZEROS || digits == "0") => {
            format!("{sign}{digits}{}", zeros(if digits == "0" { 0 } else { -scale }))
        }
        _ => format!("{sign}{digits}e{}", -scale),
    }
}
