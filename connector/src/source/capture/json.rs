//! Frames Kinesis records kept as JSON: one object a line, bare Base64 a line, Lambda events (of Kafka, too), batches that Lambda gave up,
//! GetRecords answers; one after another, on any number of lines; and row changes, which are records as they stand.
//!
//! A list of records is read element by element, whatever its length. Never looks into a record: what was Base64 is handed on as it was.

use std::collections::VecDeque;

use bytes::Bytes;

use super::json_record::{self, Inside, bare, string};
use super::recognise::is_row_change;
use super::text::Unframed::{Bad, Short};
use super::text::{Scan, blank, next_line, quoted, skip_blanks};
use super::window::{VALUE_LIMIT, Window};
use super::{Broken, Framed, kafka_event, on_failure};

/// How deep a value may be nested. Kinesis records need four levels.
const DEEPEST: u32 = 128;

/// The place in a file of JSON values.
#[derive(Debug, Default, Clone)]
pub(super) struct Json {
    place: Place,
    /// What a value by itself is.
    holds: Holds,
    /// Records that stood inside one value, and wait to be handed out.
    waiting: VecDeque<Framed>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Between top-level values.
    #[default]
    Top,
    /// Inside a list of records: before an element, or its end.
    Element { first: bool, in_object: bool },
    /// Behind the list, inside its object.
    Rest,
}

/// What the values of a file are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// A Kinesis record, which says what its data is.
    #[default]
    Kinesis,
    /// A row change, which is a record as it stands.
    Rows,
}

impl Holds {
    /// Takes a framed object or other value as a record.
    fn record(self, window: &mut Window, length: usize) -> Framed {
        match self {
            Self::Kinesis => record(window, length),
            Self::Rows => Framed::new(window.offset(), window.take(length)),
        }
    }

    /// A line that is no object.
    fn line(self, framed: Framed) -> Framed {
        match self {
            Self::Kinesis => line(framed),
            Self::Rows => framed,
        }
    }

    fn object(self, bytes: &[u8]) -> Scan<Object> {
        match self {
            Self::Kinesis => object(bytes),
            Self::Rows => value(bytes, 0).map(Object::Whole),
        }
    }

    fn is_record(self, object: &[u8]) -> bool {
        match self {
            Self::Kinesis => json_record::inside(object).is_ok(),
            Self::Rows => is_row_change(object),
        }
    }
}

/// A top-level object.
enum Object {
    /// It ends here.
    Whole(usize),
    /// It holds a list of records, which begins here.
    List(usize),
}

impl Json {
    /// Of a file of row changes.
    pub(super) fn rows() -> Self {
        Self { holds: Holds::Rows, ..Self::default() }
    }

    /// The next record; `None` at the end.
    pub(super) fn next(&mut self, window: &mut Window) -> Result<Option<Framed>, Broken> {
        loop {
            if let Some(framed) = self.waiting.pop_front() {
                return Ok(Some(framed));
            }
            let more = skip_blanks(window);
            let next = window.bytes().first().copied().unwrap_or_default();
            match self.place {
                Place::Top if !more => return Ok(None),
                _ if !more => {
                    let what = "expected the end of a list of records, found the end of the file".to_owned();
                    return Err(Broken::at(window.offset(), what));
                }
                Place::Top if next == b'{' => match scan(window, |bytes| self.holds.object(bytes)) {
                    Ok(Object::Whole(end)) if self.holds == Holds::Rows => return Ok(Some(self.holds.record(window, end))),
                    Ok(Object::Whole(end)) => match inside(&window.bytes()[..end], window.offset()) {
                        None => return Ok(Some(self.holds.record(window, end))),
                        Some(Ok(records)) => {
                            self.waiting = records;
                            window.skip(end as u64);
                        }
                        Some(Err(broken)) => return Err(broken),
                    },
                    Ok(Object::List(at)) => {
                        window.skip(at as u64);
                        self.place = Place::Element { first: true, in_object: true };
                    }
                    Err(Bad(at, found)) => return set_aside(window, at, found).map(Some),
                    Err(Short) => return set_aside(window, 0, "the end of the file or 16 MiB inside it").map(Some),
                },
                Place::Top if next == b'[' => {
                    window.skip(1);
                    self.place = Place::Element { first: true, in_object: false };
                }
                Place::Top => return Ok(next_line(window).map(|framed| self.holds.line(framed))),
                Place::Element { in_object, .. } if next == b']' => {
                    window.skip(1);
                    self.place = if in_object { Place::Rest } else { Place::Top };
                }
                Place::Element { first: false, .. } if next != b',' => {
                    return self.leave_list(window, 0, "no comma between two records").map(Some);
                }
                Place::Element { first: false, in_object } => {
                    window.skip(1);
                    self.place = Place::Element { first: true, in_object };
                }
                Place::Element { first: true, in_object } => match scan(window, |bytes| value(bytes, 0)) {
                    Ok(end) => {
                        self.place = Place::Element { first: false, in_object };
                        return Ok(Some(self.holds.record(window, end)));
                    }
                    Err(Bad(at, found)) => return self.leave_list(window, at, found).map(Some),
                    Err(Short) => return self.leave_list(window, 0, "the end of the file or 16 MiB inside it").map(Some),
                },
                Place::Rest => match scan(window, rest_of_object) {
                    Ok(end) => {
                        window.skip(end as u64);
                        self.place = Place::Top;
                    }
                    Err(Bad(at, found)) => return self.leave_list(window, at, found).map(Some),
                    Err(Short) => return self.leave_list(window, 0, "the end of the file or 16 MiB inside the object").map(Some),
                },
            }
        }
    }

    /// After damage inside a list: goes on at its next whole record, or at the next line that begins with an object, which is a new value.
    fn leave_list(&mut self, window: &mut Window, at: usize, found: &'static str) -> Result<Framed, Broken> {
        let in_list = !matches!(self.place, Place::Rest);
        let resume = loop {
            if let Some(resume) = resume(window.bytes(), in_list, at == 0, self.holds) {
                break resume;
            }
            if !window.more() {
                let what = format!("expected a list of records, found {found}; no record follows, so nothing after it can be read");
                return Err(Broken::at(window.offset() + at as u64, what));
            }
        };
        let (length, element) = resume;
        self.place = match self.place {
            Place::Element { in_object, .. } if element => Place::Element { first: true, in_object },
            _ => Place::Top,
        };
        let (offset, data) = (window.offset(), window.take(length));
        Ok(damaged(offset, data, length as u64, at, found))
    }
}

/// The records of an object that holds some otherwise than in a list; nothing where it is a record itself.
fn inside(json: &[u8], offset: u64) -> Option<Result<VecDeque<Framed>, Broken>> {
    kafka_event::records(json, offset).map(Ok).or_else(|| on_failure::records(json, offset))
}

/// Where reading goes on in a damaged list, and whether that is an element of it. `here`: what comes first was not begun to be read.
fn resume(bytes: &[u8], in_list: bool, here: bool, holds: Holds) -> Option<(usize, bool)> {
    memchr::memchr_iter(b'{', bytes).find_map(|at| {
        if at == 0 {
            // A list that was cut off: what comes next is a new value.
            return here.then_some((0, false)).filter(|_| value(bytes, 0).is_ok());
        }
        let element = in_list
            && bytes[..at].trim_ascii_end().ends_with(b",")
            && value(&bytes[at..], 0).is_ok_and(|end| holds.is_record(&bytes[at..at + end]));
        (element || bytes[at - 1] == b'\n').then_some((at, element))
    })
}

/// Buffers until a scan is no longer short, as far as there is more and the limit allows.
fn scan<T>(window: &mut Window, scan: impl Fn(&[u8]) -> Scan<T>) -> Scan<T> {
    loop {
        let found = scan(window.bytes());
        if !matches!(found, Err(Short)) || !window.more() {
            return found;
        }
    }
}

/// A top-level object, up to its list of records where it has one.
fn object(bytes: &[u8]) -> Scan<Object> {
    let mut at = blanks(bytes, 1);
    if bytes.get(at) == Some(&b'}') {
        return Ok(Object::Whole(at + 1));
    }
    loop {
        let (name, begin) = field(bytes, at)?;
        if matches!(name, b"Records" | b"records") && bytes.get(begin) == Some(&b'[') {
            return Ok(Object::List(begin + 1));
        }
        at = blanks(bytes, value(bytes, begin)?);
        match bytes.get(at) {
            Some(b',') => at = blanks(bytes, at + 1),
            Some(b'}') => return Ok(Object::Whole(at + 1)),
            Some(_) => return Err(Bad(at, "neither a comma nor the end of the object")),
            None => return Err(Short),
        }
    }
}

/// What may follow a list inside its object.
fn rest_of_object(bytes: &[u8]) -> Scan {
    let mut at = blanks(bytes, 0);
    loop {
        match bytes.get(at) {
            Some(b'}') => return Ok(at + 1),
            Some(b',') => {
                let (_, begin) = field(bytes, blanks(bytes, at + 1))?;
                at = blanks(bytes, value(bytes, begin)?);
            }
            Some(_) => return Err(Bad(at, "neither a comma nor the end of the object")),
            None => return Err(Short),
        }
    }
}

/// A field's name, as written between its quotes, and where its value begins.
fn field(bytes: &[u8], at: usize) -> Scan<(&[u8], usize)> {
    match bytes.get(at) {
        Some(b'"') => {}
        Some(_) => return Err(Bad(at, "no field name")),
        None => return Err(Short),
    }
    let end = quoted(bytes, at + 1, b'"')?;
    let colon = blanks(bytes, end);
    match bytes.get(colon) {
        Some(b':') => Ok((&bytes[at + 1..end - 1], blanks(bytes, colon + 1))),
        Some(_) => Err(Bad(colon, "no colon after a field name")),
        None => Err(Short),
    }
}

fn blanks(bytes: &[u8], at: usize) -> usize {
    at + bytes.get(at..).unwrap_or_default().iter().take_while(|&&b| blank(b)).count()
}

/// A value of any kind from `at` on. Walks without recursion.
pub(super) fn value(bytes: &[u8], mut at: usize) -> Scan {
    // One bit for each open bracket, the innermost lowest: 1 is an object.
    let (mut open, mut depth) = (0u128, 0u32);
    loop {
        let &first = bytes.get(at).ok_or(Short)?;
        match first {
            b'"' => at = quoted(bytes, at + 1, b'"')?,
            b'{' | b'[' => {
                if depth == DEEPEST {
                    return Err(Bad(at, "nesting beyond 128 levels"));
                }
                (open, depth) = (open << 1 | u128::from(first == b'{'), depth + 1);
                at = blanks(bytes, at + 1);
                match bytes.get(at).ok_or(Short)? {
                    b'}' if first == b'{' => {}
                    b']' if first == b'[' => {}
                    _ if first == b'{' => {
                        (_, at) = field(bytes, at)?;
                        continue;
                    }
                    _ => continue,
                }
            }
            b'-' | b'0'..=b'9' | b'a'..=b'z' => {
                let length =
                    bytes[at..].iter().position(|b| !matches!(b, b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'E')).ok_or(Short)?;
                at += length;
            }
            _ => return Err(Bad(at, "no JSON value")),
        }
        loop {
            if depth == 0 {
                return Ok(at);
            }
            at = blanks(bytes, at);
            match (bytes.get(at).ok_or(Short)?, open & 1 == 1) {
                (b',', true) => {
                    (_, at) = field(bytes, blanks(bytes, at + 1))?;
                    break;
                }
                (b',', false) => {
                    at = blanks(bytes, at + 1);
                    break;
                }
                (b'}', true) | (b']', false) => (open, depth, at) = (open >> 1, depth - 1, at + 1),
                _ => return Err(Bad(at, "neither a comma nor the end of a list or object")),
            }
        }
    }
}

/// Takes a Kinesis record's data.
fn record(window: &mut Window, length: usize) -> Framed {
    let offset = window.offset();
    match json_record::inside(&window.bytes()[..length]) {
        Ok(Inside { data, at, arrived }) => {
            window.skip(length as u64);
            Framed { arrived, ..Framed::new(offset + at as u64, data) }
        }
        Err(expected) => Framed::undecodable(offset, window.take(length), format!("{expected} at byte {offset}")),
    }
}

/// A line that is a JSON string of Base64, or bare Base64.
fn line(framed: Framed) -> Framed {
    let Framed { offset, data, damage: None, .. } = framed else { return framed };
    // Exports often end each line with the comma of the list that they were cut from.
    let text = data.strip_suffix(b",").unwrap_or(&data);
    match string(text).or_else(|| bare(text)) {
        Some(data) => Framed::new(offset, data),
        None => {
            let reason = format!("expected a JSON object, a JSON string of Base64, or Base64 at byte {offset}");
            Framed::undecodable(offset, data, reason)
        }
    }
}

fn damaged(offset: u64, data: Bytes, length: u64, at: usize, found: &str) -> Framed {
    let place = offset + at as u64;
    let reason = format!("expected a JSON value, found {found} at byte {place}; the {length} bytes from {offset} on were set aside");
    Framed::undecodable(offset, data.slice(..data.len().min(VALUE_LIMIT)), reason)
}

/// Sets a top-level object aside: up to the next line that begins with one, or its own line when it is the last.
fn set_aside(window: &mut Window, at: usize, found: &str) -> Result<Framed, Broken> {
    let offset = window.offset();
    let next_object = |bytes: &[u8]| memchr::memchr_iter(b'\n', bytes).map(|line| line + 1).find(|&line| bytes.get(line) == Some(&b'{'));
    let last_line = loop {
        match memchr::memchr(b'\n', window.bytes()) {
            Some(end) => {
                break Some(end).filter(|&end| window.bytes()[end..].iter().all(|&b| blank(b)) && window.at_end(window.bytes().len()));
            }
            None if window.more() => {}
            None => break Some(window.bytes().len()).filter(|&end| window.at_end(end)),
        }
    };
    if let Some(end) = last_line {
        let data = window.take(end);
        return Ok(damaged(offset, data, end as u64, at, found));
    }
    match window.salvage(0, 2, next_object) {
        Some(salvage) => Ok(damaged(offset, salvage.data, salvage.length, at, found)),
        None => {
            let what = format!(
                "expected a JSON value, found {found}; no line that begins with an object follows, so nothing after it can be read"
            );
            Err(Broken::at(offset + at as u64, what))
        }
    }
}
