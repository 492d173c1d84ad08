//! Frames Ion text: one record for each top-level user value, complete with the symbol tables that it needs.
//!
//! From the Amazon Ion text specification. Finds where values end and checks nothing inside them: that is the codec's business.

use bytes::Bytes;
use memchr::memmem;

use super::text::Unframed::{Bad, Short};
use super::text::{Scan, blank, quoted, skip_blanks, skip_line};
use super::window::{VALUE_LIMIT, Window};
use super::{Broken, Framed};
use crate::record::Fault;

const MARKER: &[u8] = b"$ion_1_0";

/// The longest thing at which reading goes on after damage, with the line feed before it.
const RESUME_WIDTH: usize = MARKER.len() + 1;

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

/// The place in a stream of Ion text values.
#[derive(Debug, Default)]
pub(super) struct IonText {
    /// The symbol tables in force, as text; mostly empty.
    tables: Vec<u8>,
}

impl IonText {
    /// The next record; `None` at the end.
    pub(super) fn next(&mut self, window: &mut Window) -> Result<Option<Framed>, Broken> {
        loop {
            if let Err(found) = skip_gap(window) {
                return set_aside(window, 0, found).map(Some);
            }
            if !window.need(1) {
                return Ok(None);
            }
            let mut ended = false;
            let end = loop {
                match value(window.bytes(), ended) {
                    Ok(end) if end <= VALUE_LIMIT => break end,
                    Err(Short) if window.more() => {}
                    Err(Short) if window.at_end(window.bytes().len()) => {
                        if ended {
                            return set_aside(window, 0, "the end of the file inside it").map(Some);
                        }
                        ended = true;
                    }
                    Ok(_) | Err(Short) => return set_aside(window, 0, "one above 16 MiB").map(Some),
                    Err(Bad(at, found)) => return set_aside(window, at, found).map(Some),
                }
            };
            let offset = window.offset();
            let text = window.take(end);
            if text.starts_with(b"$ion_") && text.iter().all(|&b| b == b'_' || b == b'$' || b.is_ascii_alphanumeric()) {
                if text != MARKER {
                    if let Some(version) = unknown_version(&text) {
                        return Err(Broken { offset, what: format!("expected Ion 1.0, found the version marker {version}") });
                    }
                } else {
                    self.tables.clear();
                    continue;
                }
            }
            match table_fields(&text) {
                None => return Ok(Some(Framed { offset, data: self.complete(text), damage: None })),
                Some(fields) => self.add_table(&text, fields, offset)?,
            }
        }
    }

    fn add_table(&mut self, table: &[u8], fields: &[u8], offset: u64) -> Result<(), Broken> {
        if !appends(fields) {
            self.tables.clear();
        }
        if self.tables.len() + table.len() > VALUE_LIMIT {
            return Err(Broken { offset, what: "expected symbol tables of at most 16 MiB".to_owned() });
        }
        self.tables.extend_from_slice(table);
        self.tables.push(b'\n');
        Ok(())
    }

    fn complete(&self, text: Bytes) -> Bytes {
        if self.tables.is_empty() { text } else { [&self.tables[..], &text].concat().into() }
    }
}

/// Moves the cursor over blanks and comments.
fn skip_gap(window: &mut Window) -> Result<(), &'static str> {
    while skip_blanks(window) {
        window.need(2);
        match window.bytes() {
            [b'/', b'/', ..] => skip_line(window),
            [b'/', b'*', rest @ ..] => match memmem::find(rest, b"*/") {
                Some(end) => window.skip(2 + end as u64 + 2),
                None if window.more() => {}
                None => return Err("a comment that does not end"),
            },
            _ => break,
        }
    }
    Ok(())
}

/// Blanks and comments from `at` on. A `/` that begins no comment ends them.
fn gap(bytes: &[u8], mut at: usize) -> Scan {
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

/// A top-level value with its annotations; the bytes begin with it. `ended`: nothing comes behind the bytes.
fn value(bytes: &[u8], ended: bool) -> Scan {
    let mut at = 0;
    loop {
        let end = match bytes.get(at..).unwrap_or_default() {
            [] => return Err(Short),
            [b'{', b'{', ..] => return lob(bytes, at + 2),
            [b'{'] => return Err(Short),
            [b'{' | b'[' | b'(', ..] => return container(bytes, at),
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
fn container(bytes: &[u8], mut at: usize) -> Scan {
    let mut open: Vec<u8> = Vec::new();
    loop {
        let Some(step) = bytes.get(at..).and_then(|rest| rest.iter().position(|&b| STRUCTURAL[b as usize])) else { return Err(Short) };
        at += step;
        match &bytes[at..] {
            [b'{', b'{', ..] => at = lob(bytes, at + 2)?,
            [b'{'] | [b'/'] | [b'\''] | [b'\'', b'\''] => return Err(Short),
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

/// The version of a marker such as `$ion_1_1`; other symbols that begin like one are values.
fn unknown_version(text: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(text).ok()?;
    let (major, minor) = text.strip_prefix("$ion_")?.split_once('_')?;
    let number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    (number(major) && number(minor)).then_some(text)
}

/// What is inside the struct of `$ion_symbol_table::{…}`; `None` for any other value.
fn table_fields(text: &[u8]) -> Option<&[u8]> {
    let rest = text.strip_prefix(b"$ion_symbol_table").or_else(|| text.strip_prefix(b"'$ion_symbol_table'"))?;
    let Ok(at) = gap(rest, 0) else { return None };
    let Ok(value) = gap(rest, at + 2) else { return None };
    rest[at..].starts_with(b"::").then(|| &rest[value..])?.strip_prefix(b"{")
}

/// Whether the fields of a symbol table hold `imports: $ion_symbol_table`.
fn appends(fields: &[u8]) -> bool {
    let mut at = 0;
    loop {
        let Ok(name) = gap(fields, at) else { return false };
        let end = match fields.get(name) {
            Some(b'"' | b'\'') => quoted(fields, name + 1, fields[name]),
            Some(_) => Ok(name + fields[name..].iter().position(|&b| b == b':' || blank(b)).unwrap_or(0)),
            None => return false,
        };
        let Ok(end) = end else { return false };
        let Ok(colon) = gap(fields, end) else { return false };
        if fields.get(colon) != Some(&b':') {
            return false;
        }
        let Ok(begin) = gap(fields, colon + 1) else { return false };
        let Ok(length) = value(&fields[begin..], true) else { return false };
        let unquoted = |text: &[u8]| text.iter().copied().filter(|b| !b"'\"".contains(b)).collect::<Vec<u8>>();
        if unquoted(&fields[name..end]) == b"imports" {
            return matches!(&unquoted(&fields[begin..begin + length])[..], b"$ion_symbol_table" | b"$3");
        }
        let Ok(comma) = gap(fields, begin + length) else { return false };
        if fields.get(comma) != Some(&b',') {
            return false;
        }
        at = comma + 1;
    }
}

/// Where, after damage, a line begins that looks like the next record.
fn find_record(bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'\n', bytes).map(|at| at + 1).find(|&at| bytes[at..].starts_with(b"{") || bytes[at..].starts_with(MARKER))
}

fn set_aside(window: &mut Window, at: usize, found: &str) -> Result<Framed, Broken> {
    let (offset, at) = (window.offset(), window.offset() + at as u64);
    let found = format!("expected an Ion value, found {found}");
    let Some(salvage) = window.salvage(0, RESUME_WIDTH, find_record) else {
        return Err(Broken {
            offset: at,
            what: format!("{found}; no line that begins with a struct follows, so nothing after it can be read"),
        });
    };
    let reason = format!(
        "{found} at byte {at}; the {} bytes from {offset} to the next line that begins with a struct were set aside",
        salvage.length
    );
    Ok(Framed { offset, data: salvage.data, damage: Some(Fault::new("undecodable", reason)) })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn frame(text: &str) -> (Vec<(String, bool)>, Option<Broken>) {
        let mut window = Window::new(Box::new(Cursor::new(text.as_bytes().to_vec())));
        let (mut framer, mut out) = (IonText::default(), Vec::new());
        loop {
            match framer.next(&mut window) {
                Ok(Some(f)) => {
                    if f.damage.is_none() && framer.tables.is_empty() {
                        assert_eq!(
                            text.as_bytes()[f.offset as usize..][..f.data.len()],
                            f.data,
                            "the offset is not where the value begins"
                        );
                    }
                    out.push((String::from_utf8_lossy(&f.data).into_owned(), f.damage.is_some()));
                }
                Ok(None) => return (out, None),
                Err(broken) => return (out, Some(broken)),
            }
            assert!(out.len() <= text.len(), "no progress");
        }
    }

    fn good(text: &str) -> Vec<String> {
        let (out, broken) = frame(text);
        assert!(broken.is_none(), "{broken:?}");
        assert!(out.iter().all(|(_, damaged)| !damaged), "{out:?}");
        out.into_iter().map(|(text, _)| text).collect()
    }

    #[test]
    fn values_of_every_form_are_framed() {
        for value in [
            "{a:1,b:[2,(3 + '4')],\"c\":{}}",
            r#"{s:"}\"{",t:'}\'{',u:'''it's } {'''}"#,
            "{b:{{ //8= }},c:{{\"}}\"}},d:{{'''}}''' '''x'''}}}",
            "{/* } */ a:1 // }\n}",
            "a::b::{}",
            "'a b' :: c /* x */ ::{x:1}",
            "null.struct",
            "2017-08-21T10:11:12.5-00:00",
            "-1.5d-3",
            "\"a string\"",
            "'''a''' '''b'''",
            "{{aGVsbG8=}}",
            "[1, 2]",
            "(a / b // c\n)",
            "$10",
            "'a symbol'",
        ] {
            assert_eq!(good(value), [value]);
            assert_eq!(good(&format!("$ion_1_0\n{value}\n{{z:1}}\n")), [value, "{z:1}"]);
            assert_eq!(good(&format!("/* before */ {value} /* between */ {value} // after")), [value, value]);
        }
    }

    #[test]
    fn an_empty_file_and_one_with_only_comments_hold_nothing() {
        for text in ["", "\n\n", "// nothing", "/* nothing */", "$ion_1_0", "$ion_1_0 // nothing\n"] {
            assert_eq!(good(text), [] as [&str; 0]);
        }
    }

    #[test]
    fn symbol_tables_travel_with_their_values() {
        let table = "$ion_symbol_table::{symbols:[\"a\"]}";
        let more = "$ion_symbol_table :: { symbols:[\"b\"], imports : $ion_symbol_table }";
        let text = format!("{table} {{$10:1}} {more} {{$11:2}} {table} {{$10:3}} $ion_1_0 {{c:4}}");
        assert_eq!(
            good(&text),
            [format!("{table}\n{{$10:1}}"), format!("{table}\n{more}\n{{$11:2}}"), format!("{table}\n{{$10:3}}"), "{c:4}".to_owned()]
        );
    }

    #[test]
    fn a_version_that_is_not_known_ends_the_file() {
        let (out, broken) = frame("{a:1}\n$ion_1_1\n{b:2}");
        assert_eq!(out.len(), 1);
        assert!(broken.unwrap().what.contains("$ion_1_1"));
    }

    #[test]
    fn a_value_that_cannot_be_framed_costs_only_itself() {
        for bad in ["{a:1", "{a:]}", "}", "{a:\"x}", "{a:'x}", ", {a:1}", "{a:{{!}!}}", "{a:[1,2}"] {
            let (out, broken) = frame(&format!("{{first:1}}\n{bad}\n{{second:2}}\n{{third:3}}"));
            assert!(broken.is_none(), "{bad}: {broken:?}");
            let kept: Vec<_> = out.iter().filter(|(_, damaged)| !damaged).map(|(text, _)| &text[..]).collect();
            assert_eq!(kept, ["{first:1}", "{second:2}", "{third:3}"], "after {bad}");
            assert_eq!(out.len(), 4);
        }
    }

    #[test]
    fn damage_without_a_next_record_is_the_end_with_its_offset() {
        let (out, broken) = frame("{a:1}\n{b:2");
        assert_eq!(out.len(), 1);
        assert_eq!(broken.unwrap().offset, 6);
        let (_, broken) = frame("{a:1}\n/* for ever");
        assert_eq!(broken.unwrap().offset, 6);
    }

    #[test]
    fn a_value_above_the_limit_is_set_aside() {
        let (out, broken) = frame(&format!("{{a:\"{}\"}}\n{{b:2}}", "x".repeat(VALUE_LIMIT)));
        assert!(broken.is_none());
        assert_eq!(out.iter().map(|(_, damaged)| *damaged).collect::<Vec<_>>(), [true, false]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_comes_to_an_end(text in "[ -~\n]{0,60}", odd in "[{}\\[\\]()'\"/*:,$a1\n ]{0,40}") {
            frame(&text);
            frame(&odd);
            frame(&format!("{{a:1}}\n{odd}\n{{b:2}}"));
        }

        #[test]
        fn records_around_a_broken_line_are_kept(odd in "[{}\\[\\]()'\":,$a1 ]{0,12}") {
            let (out, _) = frame(&format!("{{first:1}}\n{{broken:{odd}\n{{last:2}}\n"));
            proptest::prop_assert_eq!(&out[0].0, "{first:1}");
        }
    }
}
