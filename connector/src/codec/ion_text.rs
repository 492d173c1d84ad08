//! Ion text, read by ion-rs and handed on as elements or in its binary form.
//!
//! ion-rs parses text recursively, unwraps a few things that a text may well get wrong, and keeps lengths of decimals in 16 bits. So a text is
//! looked through before ion-rs gets it, and what gets past that and still panics is a fault of its record like any other damage.
//!
//! Never gives ion-rs a text that nests deeper than `MAX_TEXT_DEPTH`, never lets a panic through.

use std::borrow::Cow;
use std::iter::Peekable;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ion_rs::v1_0::Text;
use ion_rs::{Element, ElementReader as _, Reader};

use super::ion_encode::encode;
use crate::record::Fault;

/// Levels of lists and structs that a text may have: an unoptimised ion-rs takes 17 KiB of stack for each, a thread may have 2 MiB.
/// OpenSearch maps 20 levels of objects by default.
pub(super) const MAX_TEXT_DEPTH: usize = 67;

/// Values, field names and annotations that one value of a text may have, symbol tables too: ion-rs makes a tree of it, which takes up to 250
/// bytes for each. The largest document that a ledger takes, 128 KB of Ion binary, has no more.
pub const MAX_TEXT_VALUES: usize = 1 << 17;

/// Bytes that symbols by their number may come to in one value of a text: ion-rs gives each a copy of its name.
const MAX_NAMED_BYTES: usize = 16 * 1024 * 1024;

/// Digits in a row that a number may have, which is what [`super::ion_json`] writes out. ion-rs counts them modulo 65,536.
const MAX_DIGITS: usize = 2_500;

/// Digits after a `$`: a symbol by its number, which ion-rs unwraps as 64 bits.
const MAX_SYMBOL_DIGITS: usize = 18;

fn unreadable() -> Fault {
    Fault::new("undecodable", "expected a QLDB stream record in Ion text, found something that is not Ion")
}

/// A text as Ion binary, value by value.
pub(super) struct Transcript {
    /// The values, one behind the other, each with its own marker and table.
    binary: Vec<u8>,
    /// Where those that were not handed out end.
    ends: std::vec::IntoIter<usize>,
    /// Where the next one begins.
    begin: usize,
    /// The place of the next value or fault.
    place: usize,
    /// The faults and their places.
    faults: Peekable<std::vec::IntoIter<(usize, Fault)>>,
}

impl Transcript {
    /// Reads a text, up to where more than `most` of its values are neither records of a stream nor blocks: what comes then is not looked at.
    pub(super) fn new(text: &str, most: usize) -> Self {
        let (mut binary, mut ends, mut faults, mut others) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for (element, place) in elements(text).zip(0..) {
            let has = |element: &Element, name| element.as_struct().is_some_and(|fields| fields.get(name).is_some());
            let is_record = |element: &Element| has(element, "recordType") || has(element, "blockAddress");
            others += usize::from(!element.as_ref().is_ok_and(is_record));
            match element.and_then(|element| encode(&element)) {
                Ok(value) => {
                    if binary.is_empty() {
                        binary = value;
                    } else {
                        binary.extend_from_slice(&value);
                    }
                    ends.push(binary.len());
                }
                Err(fault) => faults.push((place, fault)),
            }
            if others > most {
                break;
            }
        }
        Self { binary, ends: ends.into_iter(), begin: 0, place: 0, faults: faults.into_iter().peekable() }
    }

    /// The next value, by itself; or why it cannot be read. Nothing is kept of the last one.
    pub(super) fn next(&mut self) -> Option<Result<Cow<'_, [u8]>, Fault>> {
        let place = self.place;
        self.place += 1;
        if let Some((_, fault)) = self.faults.next_if(|(at, _)| *at == place) {
            return Some(Err(fault));
        }
        let end = self.ends.next()?;
        let begin = std::mem::replace(&mut self.begin, end);
        if begin == 0 && self.ends.len() == 0 {
            return Some(Ok(std::mem::take(&mut self.binary).into()));
        }
        Some(Ok(self.binary[begin..end].into()))
    }
}

/// The top-level values of a text, in their order; a fault, where there is one, is the last.
pub(super) fn elements(text: &str) -> impl Iterator<Item = Result<Element, Fault>> {
    elements_of(text, MAX_TEXT_VALUES)
}

/// The same, where one of them may have so many values, names and annotations.
pub(super) fn elements_of(text: &str, most: usize) -> impl Iterator<Item = Result<Element, Fault>> {
    let (readable, mut refused) = look_through(text, most);
    let mut reader = Some(guarded(|| Reader::new(Text, &text[..readable]).ok()));
    std::iter::from_fn(move || {
        let element = reader.take()?.and_then(|mut open| {
            let element = guarded(|| open.read_next_element().ok())?;
            reader = element.is_some().then_some(Ok(open));
            Ok(element)
        });
        match element.transpose() {
            Some(Ok(element)) => Some(Ok(element)),
            // A text that was cut in front of what is refused may end too early itself.
            ended => refused.take().map(Err).or(ended),
        }
    })
}

/// Runs a part of ion-rs; a panic of it is an unreadable text.
pub(super) fn guarded<T>(read: impl FnOnce() -> Option<T>) -> Result<T, Fault> {
    // Nothing that `read` has touched is used after a panic.
    catch_unwind(AssertUnwindSafe(read)).ok().flatten().ok_or_else(unreadable)
}

/// How many bytes of a text ion-rs may be given, which are all or end before a top-level value; and why not more.
fn look_through(text: &str, most: usize) -> (usize, Option<Fault>) {
    let mut look = Look { bytes: text.as_bytes(), most, at: 0, depth: 0, value: 0, parts: 0, numbered: 0, quoted: 0, sequences: 0 };
    match look.through() {
        Ok(()) => (text.len(), None),
        Err(fault) => (look.value, Some(fault)),
    }
}

/// A look through a text, for what ion-rs must not be given.
struct Look<'a> {
    bytes: &'a [u8],
    /// Parts that a value may have.
    most: usize,
    at: usize,
    depth: usize,
    /// Where the top-level value at work begins.
    value: usize,
    /// Parts of it that may be values.
    parts: usize,
    /// Symbols by their number in it.
    numbered: usize,
    /// Bytes of all that was quoted so far, symbol tables too: no symbol's name is longer.
    quoted: usize,
    /// One bit for each open bracket, the innermost lowest: 1 is an s-expression, in which nothing has to stand between two values.
    sequences: u128,
}

impl Look<'_> {
    fn through(&mut self) -> Result<(), Fault> {
        while let Some(byte) = self.bytes.get(self.at) {
            let rest = &self.bytes[self.at..];
            let step = match byte {
                b'{' if rest.starts_with(b"{{") => lob(rest)?,
                b'{' | b'[' | b'(' => {
                    self.open(*byte)?;
                    1
                }
                b'}' | b']' | b')' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.sequences >>= 1;
                    1
                }
                b'/' if rest.starts_with(b"//") => memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len()),
                b'/' if rest.starts_with(b"/*") => memchr::memmem::find(&rest[2..], b"*/").map_or(rest.len(), |end| end + 4),
                b'\'' if rest.starts_with(b"'''") => quoted(rest, b"'''")?,
                b'"' | b'\'' => quoted(rest, &rest[..1])?,
                b'$' => {
                    self.symbol(digits(&rest[1..]))?;
                    1
                }
                b'0'..=b'9' => match digits(rest) {
                    run if run > MAX_DIGITS => {
                        let reason = format!("expected a number of at most {MAX_DIGITS} digits, found one of {run}");
                        return Err(Fault::new("number_too_long", reason));
                    }
                    run => run,
                },
                _ => 1,
            };
            self.count(*byte)?;
            self.quoted += if matches!(byte, b'"' | b'\'') { step } else { 0 };
            self.at += step;
            if self.depth == 0 && (byte.is_ascii_whitespace() || matches!(byte, b'}' | b']' | b')')) {
                (self.value, self.parts, self.numbered) = (self.at, 0, 0);
            }
        }
        Ok(())
    }

    fn open(&mut self, bracket: u8) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth > MAX_TEXT_DEPTH {
            let reason = format!("expected at most {MAX_TEXT_DEPTH} levels of lists and structs in Ion text, found more");
            return Err(Fault::new("nested_too_deeply", reason));
        }
        self.sequences = self.sequences << 1 | u128::from(bracket == b'(');
        Ok(())
    }

    /// Counts a symbol of so many digits, where it has any.
    fn symbol(&mut self, digits: usize) -> Result<(), Fault> {
        if digits > MAX_SYMBOL_DIGITS {
            return Err(unreadable());
        }
        self.numbered += usize::from(digits > 0);
        if self.numbered * self.quoted > MAX_NAMED_BYTES {
            let reason =
                format!("expected at most {MAX_NAMED_BYTES} bytes of symbols by their number in one value of Ion text, found more");
            return Err(Fault::new("too_many_values", reason));
        }
        Ok(())
    }

    /// Counts what begins with this byte, where it may be a value, a field's name or an annotation.
    fn count(&mut self, byte: u8) -> Result<(), Fault> {
        self.parts += usize::from(matches!(byte, b'{' | b'[' | b'(' | b',' | b':') || self.sequences & 1 == 1);
        if self.parts > self.most {
            let reason = format!("expected at most {} values, names and annotations in one value of Ion text, found more", self.most);
            return Err(Fault::new("too_many_values", reason));
        }
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<String> {
        elements(text).map(|element| element.map_or_else(|fault| fault.kind, |element| element.to_string())).collect()
    }

    fn refused(text: &str) -> String {
        look_through(text, MAX_TEXT_VALUES).1.unwrap().kind
    }

    #[test]
    fn values_come_one_by_one_until_the_damage() {
        assert_eq!(kinds("1 two [3]"), ["1", "two", "[3]"]);
        assert_eq!(kinds("1 two [3"), ["1", "two", "undecodable"]);
        assert_eq!(kinds("1 ] 2"), ["1", "undecodable"]);
        assert_eq!(kinds("// nothing"), [] as [&str; 0]);
        assert_eq!(kinds("/* nothing"), ["undecodable"]);
        assert_eq!(kinds("$ion_1_1 1"), ["undecodable"]);
        assert_eq!(kinds("$ion_symbol_table::{symbols:[\"a\"]} $10 $11"), ["a", "undecodable"]);
    }

    #[test]
    fn a_text_may_nest_so_deep_and_no_deeper() {
        for (open, close) in [("[", "]"), ("(", ")"), ("{a:", "}"), ("x::{a:", "}"), ("x::[", "]")] {
            let nested = |levels: usize| format!("{}1{}", open.repeat(levels), close.repeat(levels));
            assert_eq!(elements(&nested(MAX_TEXT_DEPTH)).filter(Result::is_ok).count(), 1, "{open}");
            assert_eq!(kinds(&nested(MAX_TEXT_DEPTH + 1)), ["nested_too_deeply"]);
            assert_eq!(kinds(&nested(100_000)), ["nested_too_deeply"]);
            assert_eq!(kinds(&open.repeat(100_000)), ["nested_too_deeply"], "without an end");
        }
    }

    #[test]
    fn brackets_in_texts_and_comments_do_not_nest() {
        let many = "[{(".repeat(100);
        for text in [
            format!("\"{many}\""),
            format!("\"\\\"{many}\""),
            format!("'{many}'"),
            format!("'\\'{many}'"),
            format!("'''{many}''' '''{many}'''"),
            format!("''' ' '' \" {many}'''"),
            format!("{{{{\"{many}\"}}}}"),
            format!("{{{{ '''{many}''' }}}}"),
            format!("// {many}\n1"),
            format!("/* {many} */ 1"),
            format!("/*/ {many} */ 1"),
            format!("[1,\n// \"\n2, /* ' */ \"{many}\"]"),
            format!("['',\"{many}\"]"),
            format!("{{'a':'''{many}'''}}"),
        ] {
            assert_eq!(look_through(&text, MAX_TEXT_VALUES), (text.len(), None), "{text}");
            assert!(elements(&text).all(|element| element.is_ok()), "{text}");
        }
    }

    #[test]
    fn nothing_hides_brackets_that_nest() {
        let many = "[".repeat(200);
        for before in [
            "\"\" ",
            "\"\\\\\" ",
            "'' ",
            "'\\\\' ",
            "'''''' ",
            "''' ' ''' ",
            "// x\n",
            "// x\r",
            "/**/",
            "/* // */",
            "{{//}} ",
            "{{ab/*}} ",
            "{{\"/*\"}} ",
            "{{'''//'''}}",
            "{a:'//'} ",
            "\"'\" ",
            "'\"' ",
        ] {
            assert_eq!(refused(&format!("{before}{many}")), "nested_too_deeply", "{before}");
        }
    }

    #[test]
    fn what_ion_rs_unwraps_is_refused_before() {
        assert_eq!(kinds("[1, $99999999999999999999999]"), ["undecodable"]);
        assert_eq!(kinds("\"\\U00110000\""), ["undecodable"]);
        assert_eq!(kinds("'\\UFFFFFFFF'::1"), ["undecodable"]);
        assert_eq!(kinds("'''\\UFFFFFFFF'''"), ["undecodable"]);
        assert_eq!(kinds("\"\\U0010FFFF\" \"\\\\U00110000\""), ["\"\u{10FFFF}\"", "\"\\\\U00110000\""]);
    }

    #[test]
    fn numbers_of_too_many_digits_are_refused_before_ion_rs_counts_them() {
        let digits = "7".repeat(MAX_DIGITS);
        assert_eq!(kinds(&digits), std::slice::from_ref(&digits));
        assert_eq!(kinds(&format!("{digits}7")), ["number_too_long"]);
        // In 16 bits, the length of this one is 5.
        assert_eq!(kinds(&format!("1.{}", "7".repeat(65_540))), ["number_too_long"]);
        assert_eq!(kinds(&format!("\"{digits}7\"")), [format!("\"{digits}7\"")], "in a text they are none");
    }

    #[test]
    fn a_long_name_that_is_repeated_by_its_number_is_refused_before_ion_rs_copies_it() {
        let repeated = |name: usize, times: usize| {
            format!("$ion_symbol_table::{{symbols:[\"{}\"]}} [{}] 7", "s".repeat(name), vec!["$10"; times].join(","))
        };
        // 30 GB of copies.
        assert_eq!(kinds(&repeated(300_000, 100_000)), ["too_many_values"]);
        assert_eq!(kinds(&repeated(300_000, 50)).len(), 2);
        assert_eq!(kinds(&repeated(10, 100_000)).len(), 2);
    }

    #[test]
    fn a_panic_is_an_unreadable_text() {
        assert_eq!(guarded(|| -> Option<()> { None }), Err(unreadable()));
        assert_eq!(guarded(|| Some(1)), Ok(1));
        assert_eq!(guarded(|| -> Option<()> { std::panic::resume_unwind(Box::new("as ion-rs would")) }), Err(unreadable()));
    }

    #[test]
    fn a_number_that_ion_rs_does_not_write_is_a_fault_of_its_own_value() {
        let found: Vec<_> = elements(&format!("1 0.{} 2", "7".repeat(100))).map(|element| encode(&element.unwrap()).is_ok()).collect();
        assert_eq!(found, [true, false, true]);
    }
}
