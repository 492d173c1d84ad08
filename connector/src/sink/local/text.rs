//! The searchable text of a document: every string, number and boolean in it, in one pass over the JSON bytes.
//!
//! Builds no tree, does not recurse (a document nested a million deep is as safe as a flat one) and never fails on what JSON allows:
//! numbers of any size, lone surrogates, a field name twice. serde_json is not used, because it stops at 128 levels and at a lone
//! surrogate, and this index takes any object.
//!
//! The same document must give the same text for as long as an index is kept, because its words are taken out by giving the text again:
//! whoever changes what comes out here raises the format in `schema`.

use memchr::memchr2;

/// Stands between two values as a word of its own, so that no phrase reaches from one value into the next. A private character: unicode61
/// counts those as letters, and it occurs in no text that is made here.
pub(super) const BETWEEN: char = '\u{e000}';

/// A space without width: cuts words and is taken out again before a person sees the text.
pub(super) const ZERO_WIDTH: char = '\u{200b}';

/// How much of a document's text is searched, in bytes: more than the largest document of a ledger has. FTS5 keeps every word of a document in
/// memory at once, up to 200 bytes for each, and words that never come twice cost a hundred times what others do.
pub(super) const SEARCHED: usize = 512 << 10;

/// Adds what a document is found by to `text`: its id and then its values, each behind [`BETWEEN`], up to [`SEARCHED`] bytes. Hands back the
/// document as text.
///
/// The error says where it stops being a JSON object, in bytes from its start, and holds nothing of it.
pub(super) fn searchable<'a>(id: &str, document: &'a [u8], text: &mut String) -> Result<&'a str, String> {
    push(text, id);
    let source =
        std::str::from_utf8(document).map_err(|cause| format!("expected UTF-8, found other bytes at byte {}", cause.valid_up_to()))?;
    let mut scan = Scan { source, bytes: document, at: 0, text };
    match scan.object() {
        Some(()) => {
            text.truncate(text.floor_char_boundary(SEARCHED));
            Ok(source)
        }
        None => Err(format!("expected one JSON object, found something else at byte {}", scan.at)),
    }
}

/// Adds text that may stand in one value: control characters and [`BETWEEN`] become spaces, and every character of a script without spaces
/// a word.
pub(super) fn push(text: &mut String, value: &str) {
    if value.is_ascii() && !value.bytes().any(|byte| byte.is_ascii_control()) {
        text.push_str(value);
    } else {
        value.chars().for_each(|character| push_char(text, character));
    }
}

fn push_char(text: &mut String, character: char) {
    match character {
        BETWEEN => text.push(' '),
        character if character.is_control() => text.push(' '),
        character if unspaced(character) => text.extend([ZERO_WIDTH, character, ZERO_WIDTH]),
        character => text.push(character),
    }
}

/// Han, Hiragana and Katakana: written without spaces, so that a run of them would be one word that nobody asks for.
fn unspaced(character: char) -> bool {
    matches!(character,
        '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}')
}

/// What may come next.
enum Expect {
    FirstName,
    Name,
    FirstElement,
    Value,
    AfterValue,
}

struct Scan<'a> {
    source: &'a str,
    bytes: &'a [u8],
    at: usize,
    text: &'a mut String,
}

impl Scan<'_> {
    /// The whole text as one object and nothing behind it; `None` where it is not, with `at` on the spot.
    fn object(&mut self) -> Option<()> {
        self.space();
        self.take(b'{')?;
        let mut open = vec![b'{'];
        let mut expect = Expect::FirstName;
        while let Some(&container) = open.last() {
            self.space();
            let byte = self.peek()?;
            expect = match (expect, byte) {
                (Expect::FirstName, b'}') | (Expect::FirstElement, b']') => {
                    self.at += 1;
                    open.pop();
                    Expect::AfterValue
                }
                (Expect::AfterValue, b'}' | b']') if byte == container + 2 => {
                    self.at += 1;
                    open.pop();
                    Expect::AfterValue
                }
                (Expect::AfterValue, b',') => {
                    self.at += 1;
                    if container == b'{' { Expect::Name } else { Expect::Value }
                }
                (Expect::FirstName | Expect::Name, b'"') => {
                    self.name()?;
                    Expect::Value
                }
                (Expect::FirstElement | Expect::Value, b'{') => {
                    self.at += 1;
                    open.push(byte);
                    Expect::FirstName
                }
                (Expect::FirstElement | Expect::Value, b'[') => {
                    self.at += 1;
                    open.push(byte);
                    Expect::FirstElement
                }
                (Expect::FirstElement | Expect::Value, _) => {
                    self.scalar(byte)?;
                    Expect::AfterValue
                }
                _ => return None,
            };
        }
        self.space();
        (self.at == self.bytes.len()).then_some(())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, expected: u8) -> Option<()> {
        (self.peek()? == expected).then(|| self.at += 1)
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// A field name and its colon. Names are not searched: every document of a table would be found by them.
    fn name(&mut self) -> Option<()> {
        let kept = self.text.len();
        self.string()?;
        self.text.truncate(kept);
        self.space();
        self.take(b':')
    }

    fn scalar(&mut self, byte: u8) -> Option<()> {
        if byte == b'n' {
            return self.word("null");
        }
        if self.text.len() < SEARCHED {
            self.text.extend([' ', BETWEEN, ' ']);
        }
        let start = self.at;
        match byte {
            b'"' => return self.string(),
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            _ => self.number()?,
        }
        if self.text.len() < SEARCHED {
            self.text.push_str(&self.source[start..self.at]);
        }
        Some(())
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.bytes[self.at..].starts_with(word.as_bytes()).then(|| self.at += word.len())
    }

    fn number(&mut self) -> Option<()> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    /// A string, its escapes resolved, into the text.
    fn string(&mut self) -> Option<()> {
        self.take(b'"')?;
        loop {
            let start = self.at;
            let length = memchr2(b'"', b'\\', &self.bytes[start..])?;
            let run = &self.source[start..start + length];
            if let Some(control) = run.bytes().position(|byte| byte < b' ') {
                self.at = start + control;
                return None;
            }
            let room = SEARCHED.saturating_sub(self.text.len());
            push(self.text, &run[..run.floor_char_boundary(room)]);
            self.at = start + length;
            if self.bytes[self.at] == b'"' {
                self.at += 1;
                return Some(());
            }
            self.escape()?;
        }
    }

    fn escape(&mut self) -> Option<()> {
        let kind = *self.bytes.get(self.at + 1)?;
        let character = match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' | b'f' | b'n' | b'r' | b't' => ' ',
            b'u' => return self.unicode_escape(),
            _ => return None,
        };
        self.at += 2;
        self.push_char(character);
        Some(())
    }

    /// `\uXXXX`, and both halves of a pair; half a pair alone is U+FFFD in the text and stays as it is in the document.
    fn unicode_escape(&mut self) -> Option<()> {
        let first = self.code_unit(self.at)?;
        self.at += 6;
        let second = if (0xd800..0xdc00).contains(&first) { self.code_unit(self.at) } else { None };
        let character = match second {
            Some(second @ 0xdc00..0xe000) => {
                self.at += 6;
                char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00))
            }
            _ => char::from_u32(first),
        };
        self.push_char(character.unwrap_or(char::REPLACEMENT_CHARACTER));
        Some(())
    }

    fn push_char(&mut self, character: char) {
        if self.text.len() < SEARCHED {
            push_char(self.text, character);
        }
    }

    fn code_unit(&self, at: usize) -> Option<u32> {
        let digits = self.bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits.iter().try_fold(0, |number, digit| Some(number * 16 + char::from(*digit).to_digit(16)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(document: &str) -> Result<Vec<String>, String> {
        let mut text = String::new();
        searchable("id", document.as_bytes(), &mut text)?;
        Ok(text.split(BETWEEN).skip(1).map(|value| value.trim().replace(ZERO_WIDTH, "|")).collect())
    }

    #[test]
    fn strings_numbers_and_booleans_are_text_and_names_and_nulls_are_not() {
        let found = values(
            r#" {"VIN":"1N4AL11D75C109151","Year":2011,"Ok":true,"No":false,"None":null,"In":{"Deep":["a",[1e400,-0.50],{}]},"":[]} "#,
        );
        assert_eq!(found.unwrap(), ["1N4AL11D75C109151", "2011", "true", "false", "a", "1e400", "-0.50"]);
    }

    #[test]
    fn escapes_are_resolved_and_control_characters_are_spaces() {
        let found = values(r#"{"a\n\"":"x\n\t\u0000y\u00e9\ud83d\ude00\\\/\"","b":"\ud800!\udc00\ud800\u0041","c":"\u0001z"}"#);
        assert_eq!(found.unwrap(), ["x   yé😀\\/\"", "\u{fffd}!\u{fffd}\u{fffd}A", "z"]);
    }

    #[test]
    fn a_script_without_spaces_is_cut_into_characters() {
        assert_eq!(values(r#"{"a":"東京x"}"#).unwrap(), ["|東||京|x"]);
    }

    #[test]
    fn a_value_cannot_hold_the_mark_between_values() {
        assert_eq!(values("{\"a\":\"x\u{e000}y\",\"b\":\"\\ue000z\"}").unwrap(), ["x y", "z"]);
    }

    #[test]
    fn of_a_large_document_the_beginning_is_searched_and_all_of_it_is_checked() {
        for (value, text) in [("x ", "x "), ("é", "é"), ("\\u00e9", "é")] {
            let document = format!("{{\"a\":\"{}\",\"b\":\"end\"}}", value.repeat(SEARCHED));
            let mut found = String::new();
            assert_eq!(searchable("id", document.as_bytes(), &mut found), Ok(document.as_str()));
            assert!((SEARCHED - 4..=SEARCHED).contains(&found.len()) && found.contains(text) && !found.contains("end"), "{}", found.len());
            assert!(searchable("id", &document.as_bytes()[..document.len() - 1], &mut String::new()).is_err());
        }
    }

    #[test]
    fn depth_is_no_danger() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert_eq!(values(&deep).unwrap(), ["1"]);
    }

    #[test]
    fn whatever_is_not_one_json_object_is_refused_with_its_place() {
        let cases: [(&str, usize); 29] = [
            ("", 0),
            ("[1]", 0),
            ("1", 0),
            ("{", 1),
            ("{} {}", 3),
            ("{}x", 2),
            ("{,}", 1),
            (r#"{"a"}"#, 4),
            (r#"{"a":}"#, 5),
            (r#"{"a":1,}"#, 7),
            (r#"{"a":[1,]}"#, 8),
            (r#"{"a":[1}"#, 7),
            (r#"{"a":[}"#, 6),
            (r#"{"a":{]}"#, 6),
            (r#"{"a" 1}"#, 5),
            (r#"{a:1}"#, 1),
            (r#"{"a":01}"#, 6),
            (r#"{"a":1.}"#, 7),
            (r#"{"a":.5}"#, 5),
            (r#"{"a":+1}"#, 5),
            (r#"{"a":1e}"#, 7),
            (r#"{"a":-}"#, 6),
            (r#"{"a":NaN}"#, 5),
            (r#"{"a":tru}"#, 5),
            (r#"{"a":"x}"#, 6),
            (r#"{"a":"\x"}"#, 6),
            (r#"{"a":"\u12g4"}"#, 6),
            ("{\"a\":\"x\ny\"}", 7),
            (r#"{"a":1 2}"#, 7),
        ];
        for (document, at) in cases {
            assert_eq!(values(document).unwrap_err(), format!("expected one JSON object, found something else at byte {at}"), "{document}");
        }
        assert_eq!(searchable("id", b"{\"a\":\"\xff\"}", &mut String::new()).unwrap_err(), "expected UTF-8, found other bytes at byte 6");
    }
}
