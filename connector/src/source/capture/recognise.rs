//! Tells by its first bytes how a captured stream is kept.
//!
//! Goes by content, never by a file's name. Never reads: it is given the beginning.

use memchr::memchr;

use super::ion_binary::find_version_marker;
use super::json::value;
use super::json_record::{bare, string};
use super::text::{blank, quoted};

/// The magic of a KPL aggregate (KPL aggregation format).
const KPL_MAGIC: [u8; 4] = [0xF3, 0x89, 0x9A, 0xC2];

/// The magic of gzip (RFC 1952).
pub(super) const GZIP_MAGIC: [u8; 2] = [0x1F, 0x8B];

/// Bytes within which binary data shows that it is no text.
const TOLD_BY: usize = 16 << 10;

/// Fields that QLDB stream records have, and no other struct that a capture may hold.
const QLDB_FIELDS: [&[u8]; 2] = [b"recordType", b"qldbStreamArn"];

/// Fields that blocks of a journal export have together, and no other struct that a capture may hold.
const BLOCK_FIELDS: [&[u8]; 2] = [b"blockAddress", b"transactionId"];

/// Fields by which Kinesis records and lists of them are known.
const KINESIS_FIELDS: [&[u8]; 6] = [b"Records", b"records", b"Data", b"data", b"kinesis", b"KinesisBatchInfo"];

/// Fields that records have together that a delivery stream could not process or deliver.
const UNDELIVERED_FIELDS: [&[u8]; 2] = [b"attemptsMade", b"rawData"];

/// Fields by which row changes of Lindorm and Debezium are known; `data` alone is no sign, as Kinesis records have one too. Those with
/// underscores are what is left of a change that was unwrapped: the codec says more of it than a file could.
const ROW_FIELDS: [&[u8]; 7] = [b"op", b"payload", b"schema", b"before", b"after", b"__op", b"__deleted"];

/// Fields by which messages of a queue and notifications of a topic are known, in which documents of batches come that Lambda gave up.
const MESSAGE_FIELDS: [&[u8]; 3] = [b"Messages", b"Body", b"Message"];

/// How many lines are looked at, when the first one does not tell.
const LINES: usize = 12;

/// How a captured stream is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Nothing but blanks.
    Empty,
    /// Compressed; what is inside is recognised again.
    Gzip,
    /// Values of Ion binary.
    IonBinary,
    /// Values of Ion text.
    IonText,
    /// JSON objects that are QLDB stream records or blocks themselves, one a line. JSON is Ion text, too.
    ObjectLines,
    /// Kinesis records as JSON.
    Json,
    /// Row changes in JSON, one a line.
    RowLines,
    /// Row changes in JSON, on any number of lines or in lists.
    RowValues,
    /// One Kinesis record as it is.
    Whole,
}

/// Whether a beginning is long enough to go by, where more may come: binary data by its magic, text by a whole line.
pub(super) fn tells(prefix: &[u8]) -> bool {
    let magic = prefix.starts_with(&GZIP_MAGIC) || prefix.starts_with(&KPL_MAGIC) || matches!(prefix, [0xE0, _, _, 0xEA, ..]);
    magic || prefix.len() >= TOLD_BY || skip_comments(prefix.strip_prefix(BYTE_ORDER_MARK).unwrap_or(prefix)).contains(&b'\n')
}

/// Recognises a capture by its first bytes (`complete`: they are all there are). An error says what was found instead.
pub(super) fn recognise(prefix: &[u8], complete: bool) -> Result<Format, String> {
    if prefix.starts_with(&GZIP_MAGIC) {
        return Ok(Format::Gzip);
    }
    if prefix.starts_with(&KPL_MAGIC) {
        return Ok(Format::Whole);
    }
    if matches!(prefix, [0xE0, _, _, 0xEA, ..]) {
        return Ok(Format::IonBinary);
    }
    let text = prefix.strip_prefix(BYTE_ORDER_MARK).unwrap_or(prefix);
    let binary = text.iter().take(TOLD_BY).any(|&b| b < b' ' && !blank(b));
    // A damaged beginning does not hide the records behind it.
    if binary && find_version_marker(prefix).is_some() {
        return Ok(Format::IonBinary);
    }
    let mut rest = skip_comments(text);
    if rest.is_empty() && complete {
        return Ok(Format::Empty);
    }
    let mut first = true;
    for _ in 0..LINES {
        rest = skip_comments(rest);
        if rest.is_empty() {
            break;
        }
        // A damaged byte does not make a text binary, but then only records make it a capture.
        if let Some(format) = look(rest, first, first && !binary) {
            return Ok(format);
        }
        first = false;
        rest = memchr(b'\n', rest).map_or(&[][..], |end| &rest[end..]);
    }
    Err(if binary { format!("found binary data that begins {}", shown(prefix)) } else { "found other text".to_owned() })
}

/// U+FEFF in UTF-8, which some editors write before a text.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Blanks and whole comments of Ion text.
fn skip_comments(mut text: &[u8]) -> &[u8] {
    loop {
        text = text.trim_ascii_start();
        let end = match text {
            [b'/', b'/', ..] => memchr(b'\n', text),
            [b'/', b'*', ..] => memchr::memmem::find(text, b"*/").map(|end| end + 2),
            _ => return text,
        };
        text = end.map_or(&[], |end| &text[end..]);
    }
}

/// What a text tells that begins here. `first`: it is the beginning of the file; `trusted`: of one that is text, so that less is enough.
fn look(text: &[u8], first: bool, trusted: bool) -> Option<Format> {
    let line = text[..memchr(b'\n', text).unwrap_or(text.len())].trim_ascii_end();
    match text[0] {
        b'$' | b'\'' if text.starts_with(b"$ion_") || text.starts_with(b"'$ion_") => Some(Format::IonText),
        b'{' => object(text, line, trusted),
        b'[' if first => {
            let inside = text[1..].trim_ascii_start();
            match (inside.first() == Some(&b'{')).then(|| object(inside, inside, false))?? {
                Format::Json => Some(Format::Json),
                Format::RowLines | Format::RowValues => Some(Format::RowValues),
                _ => None,
            }
        }
        b'"' => is_record(&string(line.strip_suffix(b",").unwrap_or(line))?).then_some(Format::Json),
        b'a'..=b'z' | b'A'..=b'Z' | b'_' if trusted && annotates_struct(text) => Some(Format::IonText),
        // Enough of a long line to see how the record begins.
        _ => is_record(&bare(line.get(..line.len().min(4096) / 4 * 4)?).or_else(|| bare(line))?).then_some(Format::Json),
    }
}

/// Whether a record begins like one of a QLDB stream.
fn is_record(data: &[u8]) -> bool {
    matches!(data, [0xE0, 1, 0, 0xEA, ..]) || data.starts_with(&KPL_MAGIC) || data.starts_with(b"{") || data.starts_with(b"$ion_1_0")
}

/// Whether a name, `::` and a struct come first.
fn annotates_struct(text: &[u8]) -> bool {
    let name = text.iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$')).count();
    text[name..].trim_ascii_start().strip_prefix(b"::").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"{"))
}

/// A struct or JSON object, by the names of its outermost fields.
fn object(text: &[u8], line: &[u8], trusted: bool) -> Option<Format> {
    let names = names(text);
    let has = |wanted: &[&[u8]]| names.iter().any(|name| wanted.contains(name));
    let json = text[1..].trim_ascii_start().first() == Some(&b'"');
    if has(&QLDB_FIELDS) || BLOCK_FIELDS.iter().all(|field| names.contains(field)) {
        let one_line = line.len() < text.len() && line.ends_with(b"}") && json;
        return Some(if one_line { Format::ObjectLines } else { Format::IonText });
    }
    // Messages may hold anything: only what is inside of these tells.
    if json && has(&MESSAGE_FIELDS) && memchr::memmem::find(text, b"KinesisBatchInfo").is_some() {
        return Some(Format::Json);
    }
    if json && has(&ROW_FIELDS) && !has(&[b"KinesisBatchInfo", b"kinesis"]) {
        let line = line.strip_suffix(b",").unwrap_or(line);
        return Some(if value(line, 0) == Ok(line.len()) { Format::RowLines } else { Format::RowValues });
    }
    if json {
        let is_undelivered = UNDELIVERED_FIELDS.iter().all(|field| names.contains(field));
        return (is_undelivered || has(&KINESIS_FIELDS)).then_some(Format::Json);
    }
    // An Ion struct with other fields may be damaged or of a kind not known yet; only the beginning of a file makes it a capture.
    (trusted && !names.is_empty()).then_some(Format::IonText)
}

/// Whether a JSON object is a row change, by the names of its outermost fields.
pub(super) fn is_row_change(text: &[u8]) -> bool {
    matches!(object(text, text, false), Some(Format::RowLines | Format::RowValues))
}

/// The names of the outermost fields up to one that tells, as far as the bytes go and are well formed. Quotes are left out.
fn names(text: &[u8]) -> Vec<&[u8]> {
    let (mut names, mut depth, mut at) = (Vec::<&[u8]>::new(), 0usize, 0);
    let mut expected = false;
    while let Some(&byte) = text.get(at).filter(|_| !names.last().is_some_and(|name| tells_by_itself(name))) {
        match byte {
            b'"' | b'\'' => {
                let Ok(end) = quoted(text, at + 1, byte) else { break };
                if expected {
                    names.push(&text[at + 1..end - 1]);
                }
                (at, expected) = (end, false);
                continue;
            }
            b'{' | b'[' | b'(' => {
                depth += 1;
                expected = depth == 1;
            }
            b'}' | b']' | b')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    break;
                }
            }
            b',' => expected = depth == 1,
            _ if expected && (byte.is_ascii_alphabetic() || byte == b'_' || byte == b'$') => {
                let length = text[at..].iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$')).count();
                if !text[at + length..].trim_ascii_start().starts_with(b":") {
                    break;
                }
                names.push(&text[at..at + length]);
                (at, expected) = (at + length, false);
                continue;
            }
            _ if expected && !blank(byte) => break,
            _ => {}
        }
        at += 1;
    }
    names
}

/// `Data` may stand before `recordType`, but a list of records and the envelope of a record stand for themselves.
fn tells_by_itself(name: &[u8]) -> bool {
    QLDB_FIELDS.contains(&name) || matches!(name, b"Records" | b"records" | b"kinesis" | b"KinesisBatchInfo")
}

/// The first bytes in hexadecimal.
fn shown(bytes: &[u8]) -> String {
    bytes.iter().take(4).map(|b| format!("{b:02X}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: impl AsRef<[u8]>) -> Option<Format> {
        recognise(bytes.as_ref(), true).ok()
    }

    #[test]
    fn binary_captures_are_known_by_their_magic() {
        assert_eq!(of([0xE0, 1, 0, 0xEA, 0xD0]), Some(Format::IonBinary));
        assert_eq!(of([0xE0, 1, 1, 0xEA]), Some(Format::IonBinary), "another version is a capture that cannot be read");
        assert_eq!(of([0x1F, 0x8B, 8]), Some(Format::Gzip));
        assert_eq!(of([0xF3, 0x89, 0x9A, 0xC2, 0]), Some(Format::Whole));
        assert_eq!(of([0x00, 9, 9, 0xE0, 1, 0, 0xEA, 0xD0]), Some(Format::IonBinary), "behind a damaged beginning");
    }

    #[test]
    fn text_captures_are_known_by_how_they_begin() {
        for (text, format) in [
            ("", Format::Empty),
            (" \r\n\n", Format::Empty),
            ("// only a comment", Format::Empty),
            ("$ion_1_0\n{a:1}", Format::IonText),
            ("\u{FEFF}$ion_1_0", Format::IonText),
            ("// hello\n/* x */{qldbStreamArn:\"a\"", Format::IonText),
            ("$ion_symbol_table::{}", Format::IonText),
            ("{recordType:1}", Format::IonText),
            ("{ 'a b' : 1}", Format::IonText),
            ("note::{a:1}", Format::IonText),
            ("{blockAddress:{strandId:\"s\",sequenceNo:0},transactionId:\"t\"}", Format::IonText),
            ("\u{2}\n{transactionId:\"t\",blockAddress:{}}\n", Format::IonText),
            ("{\"blockAddress\":{\"strandId\":\"s\"},\"transactionId\":\"t\"}\n{\"blockAdd", Format::ObjectLines),
            ("{\"blockAddress\":{\"strandId\":\"s\"},\"transactionId\":\"t\",\"blockTimest", Format::IonText),
            ("{\n  \"blockAddress\": {},\n  \"transactionId\": \"t\"\n}\n", Format::IonText),
            ("{\"recordType\":\"CONTROL\"}\n{\"recordType\":1}", Format::ObjectLines),
            ("{\n  \"qldbStreamArn\": \"x\",\n \"recordType\":\"CONTROL\"}", Format::IonText),
            ("{\"Data\":\"4AEA6g==\"}", Format::Json),
            ("{\"SequenceNumber\":\"1\",\"data\":\"", Format::Json),
            ("{\n \"Records\": [\n", Format::Json),
            ("{\"kinesis\":{\"data\":\"\"}}", Format::Json),
            ("{\"requestContext\":{\"data\":1},\"version\":\"1.0\",\"KinesisBatchInfo\":{", Format::Json),
            ("{\"MillisBehindLatest\":0,\"Records\":[]}", Format::Json),
            ("[{\"Data\":\"4AEA6g==\"}]", Format::Json),
            ("{\"attemptsMade\":4,\"errorCode\":\"x\",\"rawData\":\"4AEA6g==\"}\n", Format::Json),
            ("\"4AEA6g==\"", Format::Json),
            ("4AEA6g==", Format::Json),
            ("84mawgoCazE=\n", Format::Json),
            ("{\"Data\":\"4AEA\n{\"Data\":\"4AEA6g==\"}\n", Format::Json),
            ("{\"Data\":\"4A\u{1}A6g==\"}\n{\"Data\":\"4AEA6g==\"}\n", Format::Json),
            ("[{\"Data\":\"4AEA6g==\"},{\"Data\":\"4A\u{1}A6g==\"}]", Format::Json),
            ("4AEA6g==\n4A\u{2}A6g==\n", Format::Json),
            ("{recordType:\"CONTROL\",payload:\"\u{3}\"}\n", Format::IonText),
            ("#!broken\n\n{\"Data\":\"4AEA6g==\"}\n", Format::Json),
            (r#"{"op":"Put","table":"t","ts":1,"data":[]}"#, Format::RowLines),
            ("{\"data\":[],\"op\":\"Put\"},\n", Format::RowLines),
            (r#"{"payload":{"op":"c"},"schema":{}}"#, Format::RowLines),
            ("null\n{\"before\":null,\"after\":{},\"op\":\"c\"}\n", Format::RowLines),
            ("{\"schema\":{\"type\":\"struct\",\"fields\":[{", Format::RowValues),
            ("{\n  \"op\": \"Put\",\n", Format::RowValues),
            ("[\n  {\"op\":\"Put\"}\n]", Format::RowValues),
            ("{\"recordType\":\"CONTROL\",\"payload\":{}}\n", Format::ObjectLines),
            ("{\"recordTy\n{\"recordType\":\"CONTROL\"}\n", Format::ObjectLines),
        ] {
            assert_eq!(of(text), Some(format), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_capture_is_told_with_what_was_found() {
        for text in [
            "# A title\n\nSome text.",
            "hello",
            "{\"name\":\"x\",\"version\":\"1\"}",
            "{\"rawData\":\"x\"}",
            "{\"name\":\"x\",\"blockAddress\":{}}",
            "id,version\n1,2\n",
            "<xml/>",
            "[1,2]",
            "\"hello\"",
            "'quoted'",
            "{a:1,b:\u{0}}",
        ] {
            assert_eq!(of(text), None, "{text:?}");
        }
        assert_eq!(recognise(b"\x89PNG\r\n\x1a\n", true), Err("found binary data that begins 89 50 4E 47".to_owned()));
    }

    proptest::proptest! {
        #[test]
        fn any_beginning_is_judged(bytes: Vec<u8>, text in "[ -~\n]{0,60}") {
            let _ = recognise(&bytes, true);
            let _ = recognise(text.as_bytes(), false);
        }
    }
}
