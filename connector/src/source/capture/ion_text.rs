//! Frames Ion text: one record for each top-level user value, complete with the symbol tables that it needs.
//!
//! A value whose end is not found is set aside up to the next line that looks like a record. Never decodes a value: that is the codec's
//! business.

use bytes::Bytes;
use memchr::memmem;

use super::ion_text_layout::{Context, gap, value};
use super::text::Unframed::{Bad, Short};
use super::text::{blank, quoted, skip_blanks, skip_line};
use super::window::{VALUE_LIMIT, Window};
use super::{Broken, Framed};

const MARKER: &[u8] = b"$ion_1_0";

/// The longest thing at which reading goes on after damage, with the line feed before it.
const RESUME_WIDTH: usize = MARKER.len() + 1;

/// The place in a stream of Ion text values.
#[derive(Debug, Default, Clone)]
pub(super) struct IonText {
    /// The symbol tables in force, as text; mostly empty.
    tables: Vec<u8>,
    /// Values so far that did not end. Each may cost a scan of 16 MiB, so there are not many of them before lines are believed more than
    /// brackets.
    unclosed: u32,
}

/// Unclosed values after which lines are believed more than brackets.
const BELIEVE_LINES: u32 = 16;

/// Unclosed values after which a file is given up.
const GIVE_UP: u32 = 1000;

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
            let mut context = Context { ended: false, by_lines: self.unclosed >= BELIEVE_LINES };
            let end = loop {
                match value(window.bytes(), context) {
                    Ok(end) if end <= VALUE_LIMIT => break end,
                    Err(Bad(at, found)) => return set_aside(window, at, found).map(Some),
                    Err(Short) if window.more() => {}
                    Err(Short) if !context.ended && window.at_end(window.bytes().len()) => context.ended = true,
                    Ok(_) | Err(Short) => {
                        self.unclosed += 1;
                        if self.unclosed > GIVE_UP {
                            let what = format!("expected Ion values, found more than {GIVE_UP} that do not end");
                            return Err(Broken::at(window.offset(), what));
                        }
                        let found = if context.ended { "the end of the file inside it" } else { "one above 16 MiB" };
                        return set_aside(window, 0, found).map(Some);
                    }
                }
            };
            let offset = window.offset();
            let text = window.take(end);
            if text.starts_with(b"$ion_") && text.iter().all(|&b| b == b'_' || b == b'$' || b.is_ascii_alphanumeric()) {
                if text != MARKER {
                    if let Some(version) = unknown_version(&text) {
                        return Err(Broken::at(offset, format!("expected Ion 1.0, found the version marker {version}")));
                    }
                } else {
                    self.tables.clear();
                    continue;
                }
            }
            match table_fields(&text) {
                None => return Ok(Some(Framed::new(offset, self.complete(text)))),
                Some(fields) => self.add_table(&text, fields, offset)?,
            }
        }
    }

    fn add_table(&mut self, table: &[u8], fields: &[u8], offset: u64) -> Result<(), Broken> {
        if !appends(fields) {
            self.tables.clear();
        }
        if self.tables.len() + table.len() > VALUE_LIMIT {
            return Err(Broken::at(offset, "expected symbol tables of at most 16 MiB".to_owned()));
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
        let Ok(length) = value(&fields[begin..], Context { ended: true, by_lines: false }) else { return false };
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
        return Err(Broken::at(at, format!("{found}; no line that begins with a struct follows, so nothing after it can be read")));
    };
    let reason = format!(
        "{found} at byte {at}; the {} bytes from {offset} to the next line that begins with a struct were set aside",
        salvage.length
    );
    Ok(Framed::undecodable(offset, salvage.data, reason))
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
            assert_eq!(good(&format!("/* before */ {value} /* between */ 1 {value} // after")), [value, "1", value]);
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

    #[test]
    fn a_stream_record_that_is_not_closed_ends_before_the_next() {
        let text = "{recordType:1,a:[\n{qldbStreamArn:1}\n{\"recordType\":2}\n";
        let (out, broken) = frame(text);
        assert!(broken.is_none());
        assert_eq!(out.iter().map(|(_, damaged)| *damaged).collect::<Vec<_>>(), [true, false, false]);
    }

    #[test]
    fn many_unclosed_values_are_not_scanned_to_the_end_again_and_again() {
        let (out, broken) = frame(&"{ //\n".repeat(200_000));
        assert!(out.len() > 190_000 && out.iter().all(|(_, damaged)| *damaged));
        assert!(broken.is_some());
        let (_, broken) = frame(&"{a:/*\n".repeat(20_000));
        assert!(broken.unwrap().what.contains("more than 1000"));
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
