//! JSON of a record written the one way that documents have: on one line, texts with no more escapes than they need, numbers as they came.
//!
//! Of fields with one name the last is kept, and counted; a lone surrogate becomes U+FFFD, and is counted. Never recurses deeper than
//! [`MAX_DEPTH`](super::ion_json::MAX_DEPTH), never writes more than the limit that it is given.

use std::borrow::Cow;

use super::ion_json::{PIECE, Rules, check_depth, check_room, write_escaped};
use super::json::Json;
use super::json_cursor::Cursor;
use super::json_fields::{Fields, Open};
use crate::metrics::Notes;
use crate::record::Fault;

/// Writes values behind one another into one document.
pub(super) struct Writer<'w, 'a> {
    rules: &'w Rules,
    limit: usize,
    out: &'w mut Vec<u8>,
    notes: &'w mut Notes,
    fields: Fields<Cow<'a, str>>,
}

impl<'w, 'a> Writer<'w, 'a> {
    /// Begins where `out` ends.
    pub(super) fn new(rules: &'w Rules, out: &'w mut Vec<u8>, notes: &'w mut Notes) -> Self {
        let limit = out.len().saturating_add(rules.limit);
        Self { rules, limit, out, notes, fields: Fields::default() }
    }

    /// Opens an object.
    pub(super) fn open(&mut self) -> Open<Cow<'a, str>> {
        self.out.push(b'{');
        self.fields.open()
    }

    /// Begins a field of it; its value is written next.
    pub(super) fn name(&mut self, object: &mut Open<Cow<'a, str>>, name: Cow<'a, str>) -> Result<(), Fault> {
        let written = name.clone();
        self.notes.duplicate_fields += u64::from(self.fields.begin(object, name, self.out)?);
        self.text(&written)?;
        self.out.push(b':');
        Ok(())
    }

    /// Closes it.
    pub(super) fn close(&mut self, object: Open<Cow<'a, str>>) -> Result<(), Fault> {
        self.fields.close(object, self.out);
        self.out.push(b'}');
        self.room_for(0)
    }

    /// Writes a value; `depth` is 1 for one that nothing is around.
    pub(super) fn value(&mut self, value: Json<'a>, depth: usize) -> Result<(), Fault> {
        self.pass(&mut value.cursor(), depth)
    }

    /// Writes the value at the cursor and passes it, so that however deep values stand inside one another, each byte is read once.
    fn pass(&mut self, cursor: &mut Cursor<'a>, depth: usize) -> Result<(), Fault> {
        match cursor.peek() {
            Some(b'{') => {
                check_depth(depth)?;
                cursor.advance();
                let mut object = self.open();
                while let Some(Some(name)) = cursor.next_field() {
                    let (name, lone_surrogates) = Json::part(name).unescaped().unwrap_or_default();
                    self.count_lone_surrogates(lone_surrogates);
                    self.name(&mut object, name)?;
                    self.pass(cursor, depth + 1)?;
                }
                self.close(object)?;
            }
            Some(b'[') => {
                check_depth(depth)?;
                cursor.advance();
                self.out.push(b'[');
                let mut first = true;
                while cursor.next_element(b']') == Some(true) {
                    if !std::mem::take(&mut first) {
                        self.out.push(b',');
                    }
                    self.pass(cursor, depth + 1)?;
                }
                self.out.push(b']');
            }
            _ => {
                let value = cursor.value().map_or(Json::NULL, Json::part);
                match value.string(self.notes) {
                    Some(text) => self.text(&text)?,
                    None => self.verbatim(value.text())?,
                }
            }
        }
        self.room_for(0)
    }

    /// Writes a value of another text, such as the one that a string holds.
    pub(super) fn foreign(&mut self, value: Json<'_>, depth: usize) -> Result<(), Fault> {
        let Self { rules, limit, out, notes, .. } = self;
        Writer { rules, limit: *limit, out, notes, fields: Fields::default() }.value(value, depth)
    }

    /// Counts what became U+FFFD in a text before it was handed over.
    pub(super) fn count_lone_surrogates(&mut self, count: u64) {
        self.notes.lone_surrogates += count;
    }

    /// Writes what is JSON already.
    pub(super) fn verbatim(&mut self, text: &str) -> Result<(), Fault> {
        self.room_for(text.len())?;
        self.out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// Writes a string.
    pub(super) fn text(&mut self, text: &str) -> Result<(), Fault> {
        self.out.push(b'"');
        for piece in text.as_bytes().chunks(PIECE) {
            self.room_for(piece.len())?;
            write_escaped(piece, self.out);
        }
        self.out.push(b'"');
        Ok(())
    }

    fn room_for(&self, bytes: usize) -> Result<(), Fault> {
        check_room(self.out, self.limit, bytes, self.rules)
    }
}
