//! The layout of Ion text: where a value ends, whatever is in it.
//!
//! From the Amazon Ion text specification. Decodes nothing and checks nothing but brackets and quotes: that is the codec's.

use memchr::memmem;

use super::text::Unframed::{Bad, Short};
use super::text::{Scan, blank, quoted};

const UNOPENED: &str = "a closing bracket without its opening one";

/// What matters inside a container.
const STRUCTURAL: [bool; 256] = {
    let (mut table, mut i, all) = ([false; 256], 0, b"{}[]()\"'/");
    while i < all.len() {
        table[all[i] as usize] = true;
        i += 1;
    }
    table
};

/// What the scan of a value has to know of the place it is in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context {
    /// Nothing comes behind the bytes.
    pub(super) ended: bool,
    /// Every line that begins with a struct is a new value, whatever is still open.
    pub(super) by_lines: bool,
}

/// Blanks and comments from `at` on. A `/` that begins no comment ends them.
pub(super) fn gap(bytes: &[u8], mut at: usize) -> Scan {
    loop {
        match bytes.get(at..).unwrap_or_default() {
            [b, ..] if blank(*b) => at += 1,
            [b'/', b'/', rest @ ..] => match memchr::memchr2(b'\n', b'\r', rest) {
                Some(end) => at += 2 + end,
                None => return Err(Short),
            },
            [b'/', b'*', rest @ ..] => match memmem::find(rest, b"*/") {
                Some(end) => at += 2 + end + 2,
                None => return Err(Short),
            },
            [b'/'] => return Err(Short),
            _ => return Ok(at),
        }
    }
}

/// A top-level value with its annotations; the bytes begin with it.
pub(super) fn value(bytes: &[u8], context: Context) -> Scan {
    let ended = context.ended;
    let mut at = 0;
    loop {
        let end = match bytes.get(at..).unwrap_or_default() {
            [] => return Err(Short),
            [b'{', b'{', ..] => return lob(bytes, at + 2),
            [b'{'] => return Err(Short),
            [b'{' | b'[' | b'(', ..] => return container(bytes, at, context.by_lines),
            [b'"', ..] => return quoted(bytes, at + 1, b'"'),
            [b'\'', b'\'', b'\'', ..] => return long_strings(bytes, at, ended),
            [b'\''] | [b'\'', b'\''] => return Err(Short),
            [b'\'', ..] => quoted(bytes, at + 1, b'\'')?,
            [b'}' | b']' | b')', ..] => return Err(Bad(at, UNOPENED)),
            [b',' | b':', ..] => return Err(Bad(at, "a separator outside a value")),
            rest => at + token(rest),
        };
        if end == at {
            return Err(Bad(at, "no value"));
        }
        // Whether this was an annotation is seen only behind the gap.
        let next = match gap(bytes, end) {
            Ok(next) => next,
            _ if ended => return Ok(end),
            other => return other,
        };
        match bytes.get(next..).unwrap_or_default() {
            [b':', b':', ..] => at = gap(bytes, next + 2)?,
            [] | [b':'] if !ended => return Err(Short),
            _ => return Ok(end),
        }
    }
}

/// Everything up to what ends a number, a timestamp, a symbol or a keyword.
fn token(bytes: &[u8]) -> usize {
    let ends = |(at, &b): (usize, &u8)| blank(b) || b"{}[]()\"',/".contains(&b) || b == b':' && bytes.get(at + 1) == Some(&b':');
    bytes.iter().enumerate().position(ends).unwrap_or(bytes.len())
}

/// The rest of a long string, behind its opening quotes.
fn long(bytes: &[u8], mut at: usize) -> Scan {
    loop {
        let Some(step) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'\'', b'\\', rest)) else { return Err(Short) };
        at += step;
        match &bytes[at..] {
            [b'\\', ..] => at += 2,
            [b'\'', b'\'', b'\'', ..] => return Ok(at + 3),
            _ => at += 1,
        }
    }
}

/// Long strings one after another, which are one value.
fn long_strings(bytes: &[u8], at: usize, ended: bool) -> Scan {
    let mut end = long(bytes, at + 3)?;
    loop {
        match gap(bytes, end) {
            Ok(next) if bytes[next..].starts_with(b"'''") => end = long(bytes, next + 3)?,
            Ok(next) if ended || bytes.len() - next >= 3 => return Ok(end),
            _ if ended => return Ok(end),
            _ => return Err(Short),
        }
    }
}

/// A blob or clob, behind its opening braces. There are no comments in it: a blob may hold `//`.
fn lob(bytes: &[u8], mut at: usize) -> Scan {
    loop {
        let Some(step) = bytes.get(at..).and_then(|rest| memchr::memchr3(b'}', b'"', b'\'', rest)) else { return Err(Short) };
        at += step;
        match &bytes[at..] {
            [b'}', b'}', ..] => return Ok(at + 2),
            [b'"', ..] => at = quoted(bytes, at + 1, b'"')?,
            [b'\'', b'\'', b'\'', ..] => at = long(bytes, at + 3)?,
            [b'}'] | [b'\''] | [b'\'', b'\''] => return Err(Short),
            _ => return Err(Bad(at, "a blob or clob that is not closed")),
        }
    }
}

/// A struct, list, s-expression, blob or clob from its opening bracket on. Walks without recursion.
fn container(bytes: &[u8], mut at: usize, by_lines: bool) -> Scan {
    let mut open: Vec<u8> = Vec::new();
    loop {
        let Some(step) = bytes.get(at..).and_then(|rest| rest.iter().position(|&b| STRUCTURAL[b as usize])) else { return Err(Short) };
        at += step;
        match &bytes[at..] {
            [b'{', b'{', ..] => at = lob(bytes, at + 2)?,
            [b'{'] | [b'/'] | [b'\''] | [b'\'', b'\''] => return Err(Short),
            [b'{', ..] if !open.is_empty() && bytes[at - 1] == b'\n' && (by_lines || begins_record(&bytes[at..])) => {
                return Err(Bad(at, "the next value inside it"));
            }
            [b'{', ..] => (_, at) = (open.push(b'}'), at + 1),
            [b'[', ..] => (_, at) = (open.push(b']'), at + 1),
            [b'(', ..] => (_, at) = (open.push(b')'), at + 1),
            [b'"', ..] => at = quoted(bytes, at + 1, b'"')?,
            [b'\'', b'\'', b'\'', ..] => at = long(bytes, at + 3)?,
            [b'\'', ..] => at = quoted(bytes, at + 1, b'\'')?,
            [b'/', b'/' | b'*', ..] => at = gap(bytes, at)?,
            [b'/', ..] => at += 1,
            [closing, ..] => {
                if open.pop() != Some(*closing) {
                    return Err(Bad(at, UNOPENED));
                }
                at += 1;
            }
            [] => return Err(Short),
        }
        if open.is_empty() {
            return Ok(at);
        }
    }
}

/// Whether a struct begins as a QLDB stream record is always written.
fn begins_record(bytes: &[u8]) -> bool {
    let name = bytes[1..].strip_prefix(b"\"").unwrap_or(&bytes[1..]);
    name.starts_with(b"qldbStreamArn") || name.starts_with(b"recordType")
}
