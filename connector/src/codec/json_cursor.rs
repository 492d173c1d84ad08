//! A place in JSON text, and how to move on from it: to the next field, the next element, or past a value.
//!
//! Never builds a tree, never interprets a value, never recurses. Only as strict as it takes to end at the right place: what is read was checked
//! before, or written by this program.

/// A place in JSON text. Every method gives `None` where the text breaks off or is no JSON.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the first byte that is not white space.
    pub(crate) fn new(json: &'a [u8]) -> Self {
        let mut cursor = Self { json, at: 0 };
        cursor.skip_space();
        cursor
    }

    /// The byte at this place.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    /// Passes the byte at this place.
    pub(crate) fn advance(&mut self) {
        self.at += 1;
    }

    /// Whether nothing but white space is left.
    pub(crate) fn at_end(&mut self) -> bool {
        self.skip_space();
        self.at == self.json.len()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Inside an object, goes to the value of the next field and gives its name as it is written, quotes included; `Some(None)` past the
    /// object's end.
    pub(crate) fn next_field(&mut self) -> Option<Option<&'a [u8]>> {
        if !self.next_element(b'}')? {
            return Some(None);
        }
        if self.peek()? != b'"' {
            return None;
        }
        let name = self.string()?;
        self.skip_space();
        if self.peek()? != b':' {
            return None;
        }
        self.at += 1;
        self.skip_space();
        Some(Some(name))
    }

    /// Inside a list that `end` closes, goes to the next element; `Some(false)` past the list's end.
    pub(crate) fn next_element(&mut self, end: u8) -> Option<bool> {
        loop {
            match self.peek()? {
                b if b == end => {
                    self.at += 1;
                    return Some(false);
                }
                b if b == b',' || b.is_ascii_whitespace() => self.at += 1,
                _ => return Some(true),
            }
        }
    }

    /// Passes a string and gives it as it is written, quotes included.
    fn string(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        self.at += 1;
        loop {
            let rest = self.json.get(self.at..)?;
            self.at += memchr::memchr2(b'"', b'\\', rest)?;
            if self.json[self.at] == b'"' {
                self.at += 1;
                return Some(&self.json[start..self.at]);
            }
            self.at += 2;
        }
    }

    /// Passes a value and gives its text.
    pub(crate) fn value(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        let mut depth = 0usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' if depth == 0 => return None,
                b',' | b':' => self.at += 1,
                b if b.is_ascii_whitespace() => self.at += 1,
                _ => {
                    let rest = &self.json[self.at..];
                    self.at += rest.iter().position(|b| matches!(b, b',' | b'}' | b']') || b.is_ascii_whitespace()).unwrap_or(rest.len());
                }
            }
            if depth == 0 {
                return Some(&self.json[start..self.at]);
            }
        }
    }

    /// The text from an earlier place to this one.
    pub(crate) fn since(&self, earlier: &Self) -> &'a [u8] {
        &self.json[earlier.at..self.at]
    }
}
