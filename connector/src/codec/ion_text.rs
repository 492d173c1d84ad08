//! Ion text, read by ion-rs and handed on as elements or in its binary form.
//!
//! ion-rs parses text recursively, unwraps a few things that a text may well get wrong, and keeps lengths of decimals in 16 bits. So a text is
//! looked through before ion-rs gets it, and what gets past that and still panics is a fault of its record like any other damage.
//!
//! Never gives ion-rs a text that nests deeper than [`MAX_TEXT_DEPTH`], never lets a panic through.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ion_rs::v1_0::{Binary, Text};
use ion_rs::{Element, ElementReader as _, Reader, Writer};

use crate::record::Fault;

/// Levels of lists and structs that a text may have: an unoptimised ion-rs takes 17 KiB of stack for each, a thread may have 2 MiB.
/// OpenSearch maps 20 levels of objects by default.
pub(super) const MAX_TEXT_DEPTH: usize = 67;

/// Digits in a row that a number may have, which is what [`super::ion_json`] writes out. ion-rs counts them modulo 65,536.
const MAX_DIGITS: usize = 2_500;

/// Digits after a `$`: a symbol by its number, which ion-rs unwraps as 64 bits.
const MAX_SYMBOL_DIGITS: usize = 18;

fn unreadable() -> Fault {
    Fault::new("undecodable", "expected a QLDB stream record in Ion text, found something that is not Ion")
}

/// The top-level values of a text, in their order; a fault, where there is one, is the last.
pub(super) fn elements(text: &str) -> impl Iterator<Item = Result<Element, Fault>> {
    let mut reader = Some(look_through(text).and_then(|()| guarded(|| Reader::new(Text, text).ok())));
    std::iter::from_fn(move || {
        let element = reader.take()?.and_then(|mut open| {
            let element = guarded(|| open.read_next_element().ok())?;
            reader = element.is_some().then_some(Ok(open));
            Ok(element)
        });
        element.transpose()
    })
}

/// An element as Ion binary, which has one reader for the whole line.
///
/// # Errors
/// What ion-rs does not write: decimals and timestamps of more than 32 bytes.
pub(super) fn to_binary(element: &Element) -> Result<Vec<u8>, Fault> {
    let write = || -> ion_rs::IonResult<Vec<u8>> {
        let mut writer = Writer::new(Binary, Vec::new())?;
        writer.write(element)?;
        writer.close()
    };
    guarded(|| write().ok()).map_err(|_| Fault::new("undecodable", "expected Ion text with numbers of at most 70 digits, found longer ones"))
}

/// Runs a part of ion-rs; a panic of it is an unreadable text.
pub(super) fn guarded<T>(read: impl FnOnce() -> Option<T>) -> Result<T, Fault> {
    // Nothing that `read` has touched is used after a panic.
    catch_unwind(AssertUnwindSafe(read)).ok().flatten().ok_or_else(unreadable)
}

/// Refuses what ion-rs must not be given.
fn look_through(text: &str) -> Result<(), Fault> {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0usize, 0usize);
    while let Some(byte) = bytes.get(at) {
        let rest = &bytes[at..];
        at += match byte {
            b'{' if rest.starts_with(b"{{") => lob(rest)?,
            b'{' | b'[' | b'(' => {
                depth += 1;
                if depth > MAX_TEXT_DEPTH {
                    let reason = format!("expected at most {MAX_TEXT_DEPTH} levels of lists and structs in Ion text, found more");
                    return Err(Fault::new("nested_too_deeply", reason));
                }
                1
            }
            b'}' | b']' | b')' => {
                depth = depth.saturating_sub(1);
                1
            }
            b'/' if rest.starts_with(b"//") => memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len()),
            b'/' if rest.starts_with(b"/*") => memchr::memmem::find(&rest[2..], b"*/").map_or(rest.len(), |end| end + 4),
            b'\'' if rest.starts_with(b"'''") => quoted(rest, b"'''")?,
            b'"' | b'\'' => quoted(rest, &rest[..1])?,
            b'$' if digits(&rest[1..]) > MAX_SYMBOL_DIGITS => return Err(unreadable()),
            b'0'..=b'9' => match digits(rest) {
                run if run > MAX_DIGITS => {
                    let reason = format!("expected a number of at most {MAX_DIGITS} digits, found one of {run}");
                    return Err(Fault::new("number_too_long", reason));
                }
                run => run,
            },
            _ => 1,
        };
    }
    Ok(())
}

/// Digits that `rest` begins with; underscores between them count.
fn digits(rest: &[u8]) -> usize {
    rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'_').count()
}

/// Bytes from an opening quote to the end of its closing one.
fn quoted(rest: &[u8], quote: &[u8]) -> Result<usize, Fault> {
    let mut at = quote.len();
    while at < rest.len() {
        if rest[at] == b'\\' {
            if rest[at + 1..].first() == Some(&b'U') && !names_a_character(&rest[at + 2..]) {
                return Err(unreadable());
            }
            at += 2;
        } else if rest[at..].starts_with(quote) {
            return Ok(at + quote.len());
        } else {
            at += 1;
        }
    }
    Ok(rest.len())
}

/// Whether eight hexadecimal digits name a character that ion-rs can make; it unwraps those beyond the last.
fn names_a_character(digits: &[u8]) -> bool {
    let digits = digits.get(..8).and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).is_some_and(|code| code <= 0x10_FFFF)
}

/// Bytes of a blob or clob with its braces: the slashes of Base64 begin no comment.
fn lob(rest: &[u8]) -> Result<usize, Fault> {
    let mut at = 2;
    while let Some(byte) = rest.get(at) {
        at += match byte {
            b'}' if rest[at..].starts_with(b"}}") => return Ok(at + 2),
            b'"' => quoted(&rest[at..], b"\"")?,
            b'\'' if rest[at..].starts_with(b"'''") => quoted(&rest[at..], b"'''")?,
            _ => 1,
        };
    }
    Ok(rest.len())
}
