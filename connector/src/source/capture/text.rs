//! What all text captures share: blanks, lines and quotes.
//!
//! Knows nothing of what a line means.

use serde::de::IgnoredAny;

use super::Framed;
use super::json::value;
use super::window::{VALUE_LIMIT, Window};

/// Why a scan of buffered bytes found no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unframed {
    /// The bytes end inside it.
    Short,
    /// It is malformed at this place; with what was found there.
    Bad(usize, &'static str),
}

/// What a scan found; mostly the place behind it.
pub(super) type Scan<T = usize> = Result<T, Unframed>;

/// The rest of a string or quoted symbol, behind its opening quote.
pub(super) fn quoted(bytes: &[u8], mut at: usize, quote: u8) -> Scan {
    loop {
        let Some(step) = bytes.get(at..).and_then(|rest| memchr::memchr3(quote, b'\\', b'\n', rest)) else { return Err(Unframed::Short) };
        at += step;
        match &bytes[at..] {
            [b'\\', b'\r', b'\n', ..] => at += 3,
            [b'\\', ..] => at += 2,
            [b'\n', ..] => return Err(Unframed::Bad(at, "a line feed inside quotes")),
            _ => return Ok(at + 1),
        }
    }
}

/// The blanks of JSON and of Ion text.
pub(super) fn blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0B | 0x0C)
}

/// How many of the bytes belong to the line they begin in, without its line feed.
fn rest_of_line(bytes: &[u8]) -> usize {
    memchr::memchr(b'\n', bytes).unwrap_or(bytes.len())
}

/// Moves the cursor over blanks of any length; false at the end of the input.
pub(super) fn skip_blanks(window: &mut Window) -> bool {
    while window.need(1) {
        let blanks = window.bytes().iter().take_while(|&&b| blank(b)).count();
        let all = blanks == window.bytes().len();
        window.skip(blanks as u64);
        if !all {
            return true;
        }
    }
    false
}

fn is_object(line: &[u8]) -> bool {
    line.starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// The next line that is not blank, as a record; one above the limit is cut and damaged. Where the input failed inside
/// a line, there is none.
pub(super) fn next_line(window: &mut Window) -> Option<Framed> {
    next_of_line(window, |_| None)
}

/// As [`next_line`], but of a line that holds several JSON objects the next one: so lines come together where files are joined of which one does not
/// end in a line feed.
pub(super) fn next_object_line(window: &mut Window) -> Option<Framed> {
    next_of_line(window, first_of_several)
}

/// The length of a line's first JSON object, where another one follows in the line. Looks no further than that, so that a line of many costs no more
/// than as many lines.
fn first_of_several(bytes: &[u8]) -> Option<usize> {
    if bytes.first() != Some(&b'{') {
        return None;
    }
    // Outside of texts, no JSON object has these two in a row.
    let is_followed = |end: usize| bytes[end..].iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\r')) == Some(&b'{');
    let first = memchr::memchr2_iter(b'}', b'\n', bytes).find(|at| bytes[*at] == b'\n' || is_followed(at + 1))?;
    let end = (bytes[first] == b'}').then(|| value(bytes, 0).ok()).flatten()?;
    (is_followed(end) && memchr::memchr(b'\n', &bytes[..end]).is_none()).then_some(end)
}

/// The beginning of the next line of the length that `first` gives, or all of it.
fn next_of_line(window: &mut Window, first: impl Fn(&[u8]) -> Option<usize>) -> Option<Framed> {
    if !skip_blanks(window) {
        return None;
    }
    let offset = window.offset();
    loop {
        if let Some(length) = first(window.bytes()) {
            return Some(Framed::new(offset, window.take(length)));
        }
        let length = rest_of_line(window.bytes());
        if length < window.bytes().len() && length <= VALUE_LIMIT || !window.more() && window.at_end(length) {
            if window.failed() && window.bytes().len() == length && !is_object(window.bytes()) {
                // Nothing says that the rest of the line does not follow.
                return None;
            }
            let line = window.take(length);
            let trimmed = line.trim_ascii_end().len();
            return Some(Framed::new(offset, line.slice(..trimmed)));
        }
        if window.bytes().len() > VALUE_LIMIT {
            let data = window.slice(0, VALUE_LIMIT);
            skip_line(window);
            let reason = format!("expected a line of at most 16 MiB, found a longer one at byte {offset}");
            return Some(Framed::undecodable(offset, data, reason));
        }
    }
}

/// Moves the cursor to the end of its line.
pub(super) fn skip_line(window: &mut Window) {
    while window.need(1) {
        let length = memchr::memchr2(b'\n', b'\r', window.bytes()).unwrap_or(window.bytes().len());
        let found = length < window.bytes().len();
        window.skip(length as u64);
        if found {
            return;
        }
    }
}
