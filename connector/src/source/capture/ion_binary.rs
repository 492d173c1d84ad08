//! Frames Ion binary: one record for each top-level user value, complete with the version marker and symbol tables that it needs.
//!
//! A value that follows its own marker and tables is one slice of the input. Damage is set aside up to the next version marker.
//! Never decodes a value: what is inside one whose length fits is the codec's business.

use std::sync::LazyLock;

use bytes::Bytes;
use memchr::memmem::Finder;

use super::ion_layout::{Head, SymbolTable, Unreadable, VERSION_MARKER, code, head, scalars_hold, unwrap};
use super::window::{VALUE_LIMIT, Window};
use super::{Broken, Framed};

static MARKER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(&VERSION_MARKER));

/// Padding above this is passed over and not kept in a record.
const KEPT_PADDING: u64 = 64 << 10;

/// The longest type descriptor with its length.
const LONGEST_HEAD: usize = 11;

/// The most bytes between two records that are taken for line ends: two lines, each with a carriage return.
const LINE_ENDS: usize = 4;

/// How many bytes of line ends come first, where a version marker or the end follows them: padding has neither there.
fn delimiter(bytes: &[u8]) -> Option<usize> {
    let length = bytes.iter().take(LINE_ENDS).take_while(|&&byte| matches!(byte, b'\n' | b'\r')).count();
    let rest = &bytes[length..];
    (length > 0 && (rest.is_empty() || rest.starts_with(&VERSION_MARKER))).then_some(length)
}

/// Where a version marker begins in `bytes`.
pub(super) fn find_version_marker(bytes: &[u8]) -> Option<usize> {
    MARKER.find(bytes)
}

/// The place in a stream of Ion binary values.
#[derive(Debug, Default, Clone)]
pub(super) struct IonBinary {
    /// The marker and tables in force, once they are no longer contiguous with the next value; the first part begins with the marker.
    context: Vec<Bytes>,
    /// How many bytes from the window's cursor on are marker, tables and padding of the value that comes next.
    lead: usize,
    /// What came since the last version marker.
    since_marker: Seen,
}

#[derive(Debug, Default, Clone)]
struct Seen {
    values: bool,
    tables: bool,
    padding: bool,
}

/// What the next bytes are.
enum Next {
    End,
    Marker,
    /// So many bytes of line ends between records, which a delivery stream writes when it is told to delimit them. To a reader of Ion each is the
    /// beginning of padding, with ten or more bytes of the next record in it.
    Delimiter(usize),
    Padding(u64),
    Table(SymbolTable, usize),
    Value(usize),
    Damage(String),
}

impl IonBinary {
    /// The next record; `None` at the end.
    pub(super) fn next(&mut self, window: &mut Window) -> Result<Option<Framed>, Broken> {
        loop {
            match self.look(window) {
                Next::End => return Ok(self.lost_value(window)),
                Next::Marker => {
                    if let Some(lost) = self.lost_value(window) {
                        return Ok(Some(lost));
                    }
                    window.skip(self.lead as u64);
                    *self = Self { lead: VERSION_MARKER.len(), ..Self::default() };
                }
                Next::Delimiter(length) if self.lead == 0 => window.skip(length as u64),
                Next::Delimiter(length) => self.lead += length,
                Next::Padding(length) => {
                    self.since_marker.padding = true;
                    if self.lead > 0 && length + self.lead as u64 <= KEPT_PADDING && window.need(self.lead + length as usize) {
                        self.lead += length as usize;
                    } else {
                        self.detach(window);
                        window.skip(length);
                    }
                }
                Next::Table(effect, length) => {
                    self.since_marker.tables = true;
                    if self.context.is_empty() {
                        self.lead += length;
                    } else {
                        if effect == SymbolTable::Replaces {
                            self.context = vec![self.context[0].slice(..VERSION_MARKER.len())];
                        }
                        self.context.push(window.take(length));
                    }
                }
                Next::Value(length) => return Ok(Some(self.value(window, length))),
                Next::Damage(found) => return self.set_aside(window, &found).map(Some),
            }
        }
    }

    fn look(&self, window: &mut Window) -> Next {
        let lead = self.lead;
        if !window.need(lead + 1) {
            return Next::End;
        }
        window.need(lead + LONGEST_HEAD);
        let bytes = &window.bytes()[lead..];
        if bytes.starts_with(&VERSION_MARKER) {
            return Next::Marker;
        }
        if let Some(length) = delimiter(bytes) {
            return Next::Delimiter(length);
        }
        if let &[0xE0, major, minor, 0xEA, ..] = bytes {
            return Next::Damage(format!("expected Ion 1.0, found the version marker of Ion {major}.{minor}"));
        }
        if lead == 0 && self.context.is_empty() {
            return Next::Damage("expected the version marker E0 01 00 EA".to_owned());
        }
        let head = match head(bytes) {
            Ok(head) => head,
            Err(Unreadable::Short) => return Next::Damage("expected a value, found the end of the file inside its length".to_owned()),
            Err(Unreadable::Bad(found)) => return Next::Damage(format!("expected a value, found {found}")),
        };
        self.look_at(window, head)
    }

    fn look_at(&self, window: &mut Window, head: Head) -> Next {
        let lead = self.lead;
        let total = match usize::try_from(head.total()) {
            Ok(total) if lead + self.context_length() <= VALUE_LIMIT && total <= VALUE_LIMIT => total,
            Ok(total) if total <= VALUE_LIMIT => return Next::Damage("expected symbol tables of at most 16 MiB".to_owned()),
            _ => return Next::Damage(format!("expected a value of at most 16 MiB, found one of {} bytes", head.total())),
        };
        // A length may also have swallowed only the beginning of the next marker; a pipe that has nothing more yet is not waited for.
        let whole = lead + total;
        let next = if window.is_drained() { 0 } else { VERSION_MARKER.len() - 1 };
        if !window.need(whole + next) && window.bytes().len() < whole {
            let left = window.bytes().len() - lead;
            return Next::Damage(format!("expected a value of {total} bytes, found the end of the file after {left}"));
        }
        let near = &window.bytes()[lead..];
        let near = &near[..near.len().min(total + VERSION_MARKER.len() - 1)];
        let (value, mut markers) = (&near[..total], MARKER.find_iter(near).peekable());
        if markers.peek().is_some() && (head.is_padding() || !scalars_hold(value, markers)) {
            return Next::Damage(format!("expected a value of {total} bytes, found another record inside it"));
        }
        if head.is_padding() {
            return Next::Padding(head.total());
        }
        if head.code != code::ANNOTATED {
            return Next::Value(total);
        }
        match unwrap(value, &head) {
            Ok(Some(effect)) => Next::Table(effect, total),
            Ok(None) => Next::Value(total),
            Err(found) => Next::Damage(format!("expected a value, found {found}")),
        }
    }

    fn context_length(&self) -> usize {
        self.context.iter().map(Bytes::len).sum()
    }

    /// Takes marker and tables out of the way of what follows, and keeps them for the values to come.
    fn detach(&mut self, window: &mut Window) {
        if self.lead > 0 {
            let lead = window.take(std::mem::take(&mut self.lead));
            self.context = vec![lead];
        }
    }

    fn value(&mut self, window: &mut Window, length: usize) -> Framed {
        self.since_marker.values = true;
        let offset = window.offset();
        if self.context.is_empty() {
            let record = window.take(self.lead + length);
            self.context = vec![record.slice(..self.lead)];
            self.lead = 0;
            return Framed::new(offset, record);
        }
        let mut data = Vec::with_capacity(self.context_length() + length);
        self.context.iter().for_each(|part| data.extend_from_slice(part));
        data.extend_from_slice(&window.take(length));
        Framed::new(offset, data.into())
    }

    /// Symbol tables and padding, and no value behind them: a value whose type was damaged into padding. Never passed over in silence.
    fn lost_value(&mut self, window: &mut Window) -> Option<Framed> {
        let Seen { values: false, tables: true, padding: true } = self.since_marker else { return None };
        self.since_marker.values = true;
        // Without a lead, all is read already: the last byte of the padding, so that no other record has this offset.
        let offset = window.offset() - u64::from(self.lead == 0);
        let data = match std::mem::take(&mut self.lead) {
            0 => self.context.concat().into(),
            lead => window.take(lead),
        };
        let reason = format!("expected a value after the symbol table at byte {offset}, found only padding");
        Some(Framed::undecodable(offset, data, reason))
    }

    fn set_aside(&mut self, window: &mut Window, found: &str) -> Result<Framed, Broken> {
        let (offset, at) = (window.offset(), window.offset() + self.lead as u64);
        // The marker of the damaged record itself is no place to go on.
        let from = self.lead + 1;
        let Some(salvage) = window.salvage(from, VERSION_MARKER.len(), find_version_marker) else {
            return Err(Broken::at(at, format!("{found}; no version marker follows, so nothing after it can be read")));
        };
        *self = Self::default();
        let reason = format!("{found} at byte {at}; the {} bytes from {offset} to the next version marker were set aside", salvage.length);
        Ok(Framed::undecodable(offset, salvage.data, reason))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// A symbol table that defines `name` as symbol 10.
    fn table(name: &str) -> Vec<u8> {
        let symbols = [&[0x87, 0xB0 | (name.len() as u8 + 1), 0x80 | name.len() as u8][..], name.as_bytes()].concat();
        let inner = [&[0xD0 | symbols.len() as u8][..], &symbols].concat();
        [&[0xE0 | (inner.len() as u8 + 2), 0x81, 0x83][..], &inner].concat()
    }

    fn appended(name: &str) -> Vec<u8> {
        let fields = [&[0x86, 0x71, 0x03, 0x87, 0xB0 | (name.len() as u8 + 1), 0x80 | name.len() as u8][..], name.as_bytes()].concat();
        let inner = [&[0xD0 | fields.len() as u8][..], &fields].concat();
        [&[0xEE, 0x80 | (inner.len() as u8 + 2), 0x81, 0x83][..], &inner].concat()
    }

    /// `{name: number}` behind its own marker and table.
    fn record(name: &str, number: u8) -> Vec<u8> {
        [&VERSION_MARKER[..], &table(name), &value(number)].concat()
    }

    fn value(number: u8) -> Vec<u8> {
        vec![0xD3, 0x8A, 0x21, number]
    }

    fn frame(bytes: &[u8]) -> (Vec<Framed>, Option<Broken>) {
        let mut window = Window::new(Box::new(Cursor::new(bytes.to_vec())));
        let (mut framer, mut out) = (IonBinary::default(), Vec::new());
        loop {
            match framer.next(&mut window) {
                Ok(Some(framed)) => out.push(framed),
                Ok(None) => return (out, None),
                Err(broken) => return (out, Some(broken)),
            }
            assert!(out.len() <= bytes.len() + 1, "no progress");
        }
    }

    fn good(bytes: &[u8]) -> Vec<Vec<u8>> {
        let (framed, broken) = frame(bytes);
        assert!(broken.is_none(), "{broken:?}");
        framed.into_iter().filter(|f| f.damage.is_none()).map(|f| f.data.to_vec()).collect()
    }

    #[test]
    fn records_with_their_own_tables_are_slices() {
        let capture = [record("a", 1), record("bc", 2), record("d", 3)].concat();
        let (framed, _) = frame(&capture);
        assert_eq!(framed.iter().map(|f| f.data.to_vec()).collect::<Vec<_>>(), [record("a", 1), record("bc", 2), record("d", 3)]);
        assert_eq!(framed[1].offset, record("a", 1).len() as u64);
        assert_eq!(framed[0].data.as_ptr() as usize + framed[0].data.len(), framed[1].data.as_ptr() as usize, "copied");
    }

    #[test]
    fn several_values_after_one_table_all_carry_it() {
        let capture = [record("a", 1), value(2), value(3)].concat();
        let head = [&VERSION_MARKER[..], &table("a")].concat();
        assert_eq!(good(&capture), [record("a", 1), [head.clone(), value(2)].concat(), [head, value(3)].concat()]);
    }

    #[test]
    fn an_appending_table_is_added_and_another_one_replaces() {
        let capture = [record("a", 1), appended("b"), value(2), table("c"), value(3), value(4)].concat();
        let marker = VERSION_MARKER.to_vec();
        let both = [marker, table("a"), appended("b")].concat();
        let out = good(&capture);
        assert_eq!(out[1], [both, value(2)].concat());
        assert!(out[2].ends_with(&[table("c"), value(3)].concat()));
        assert!(out[2].len() < capture.len(), "the replaced tables are carried along");
        assert!(out[3].ends_with(&[table("c"), value(4)].concat()));
    }

    #[test]
    fn padding_before_and_after_values_is_no_record() {
        let padded = [&VERSION_MARKER[..], &table("a"), &[0x03, 9, 9, 9], &value(1)].concat();
        let capture = [padded.clone(), vec![0x00, 0x0E, 0x82, 0, 0], record("b", 2), vec![0x02, 0, 0]].concat();
        assert_eq!(good(&capture), [padded, record("b", 2)]);
    }

    #[test]
    fn long_padding_is_passed_over_and_not_kept() {
        let length = 1usize << 20;
        let mut capture = [&VERSION_MARKER[..], &table("a"), &[0x0E, 0x40, 0x00, 0x80]].concat();
        assert_eq!(0x40usize << 14, length);
        capture.resize(capture.len() + length, 0);
        capture.extend(value(1));
        assert_eq!(good(&capture), [record("a", 1)]);
    }

    #[test]
    fn a_line_feed_between_records_is_passed_over() {
        let capture = [record("a", 1), b"\n".to_vec(), record("b", 2), b"\n".to_vec()].concat();
        assert_eq!(good(&capture), [record("a", 1), record("b", 2)]);
    }

    #[test]
    fn line_ends_of_every_kind_between_records_lose_nothing() {
        for end in ["\n", "\r\n", "\n\n", "\r\n\r\n", "\r"] {
            let end = end.as_bytes();
            // Six bytes: all of it would lie in the padding that a line feed begins.
            let short = [&VERSION_MARKER[..], &[0x21, 7]].concat();
            let records = [record("a", 1), short.clone(), record("b", 2), short];
            let capture: Vec<u8> = records.iter().flat_map(|record| [record, end].concat()).collect();
            assert_eq!(good(&capture), records, "{end:?}");
            assert_eq!(good(&capture[..capture.len() - end.len()]), records, "{end:?}");
        }
    }

    #[test]
    fn padding_of_ten_and_thirteen_bytes_is_padding_where_no_record_begins_in_it() {
        for length in [0x0A, 0x0D] {
            for content in [0, 0x0A, 0x0D, 0xE0] {
                let pad = [&[length][..], &vec![content; usize::from(length)]].concat();
                let padded = [&VERSION_MARKER[..], &table("a"), &pad, &value(1)].concat();
                let capture = [padded.clone(), pad.clone(), record("b", 2), pad].concat();
                assert_eq!(good(&capture), [padded, record("b", 2)], "{length} {content}");
            }
        }
    }

    #[test]
    fn a_null_and_an_annotated_value_are_records() {
        let capture = [&VERSION_MARKER[..], &[0x0F], &[0xE4, 0x81, 0x84, 0x21, 7]].concat();
        assert_eq!(good(&capture).len(), 2);
    }

    #[test]
    fn a_version_that_is_not_known_is_named() {
        let (framed, broken) = frame(&[0xE0, 1, 1, 0xEA, 0x60]);
        assert!(framed.is_empty());
        assert!(broken.unwrap().what.contains("Ion 1.1"));
    }

    #[test]
    fn damage_costs_the_record_and_names_its_place() {
        let mut bad = record("b", 2);
        let descriptor = bad.len() - 4;
        bad[descriptor] = 0xF3;
        let capture = [record("a", 1), bad.clone(), record("c", 3)].concat();
        let (framed, broken) = frame(&capture);
        assert!(broken.is_none());
        assert_eq!(framed.len(), 3);
        assert_eq!(framed[1].data, bad);
        let reason = &framed[1].damage.as_ref().unwrap().reason;
        assert!(reason.contains(&format!("at byte {}", record("a", 1).len() + descriptor)), "{reason}");
    }

    #[test]
    fn a_truncated_last_value_is_the_end_with_its_offset() {
        let capture = [record("a", 1), record("b", 2)].concat();
        let (framed, broken) = frame(&capture[..capture.len() - 1]);
        assert_eq!(framed.len(), 1);
        assert_eq!(broken.unwrap().offset, (capture.len() - 4) as u64);
    }

    #[test]
    fn a_length_that_swallows_the_next_records_costs_only_its_own() {
        let mut long = record("b", 2);
        let descriptor = long.len() - 4;
        long[descriptor] = 0xDD;
        let capture = [record("a", 1), long, record("c", 3), record("d", 4)].concat();
        assert_eq!(good(&capture), [record("a", 1), record("c", 3), record("d", 4)]);
    }

    #[test]
    fn a_value_turned_into_padding_is_still_accounted_for() {
        let mut gone = record("b", 2);
        let descriptor = gone.len() - 4;
        gone[descriptor] = 0x03;
        for tail in [record("c", 3), Vec::new()] {
            let (framed, broken) = frame(&[record("a", 1), gone.clone(), tail.clone()].concat());
            assert!(broken.is_none());
            assert_eq!(framed.iter().filter(|f| f.damage.is_some()).count(), 1);
        }
    }

    #[test]
    fn garbage_of_any_size_is_one_damaged_record_of_bounded_size() {
        let garbage = vec![0xFF; VALUE_LIMIT + (3 << 20)];
        let (framed, broken) = frame(&[record("a", 1), garbage, record("b", 2)].concat());
        assert!(broken.is_none());
        assert_eq!(framed.len(), 3);
        assert_eq!(framed[1].data.len(), VALUE_LIMIT);
    }

    proptest::proptest! {
        #[test]
        fn one_flipped_byte_loses_at_most_its_own_record(at: proptest::sample::Index, to: u8, names in proptest::collection::vec("[a-z]{1,4}", 2..12)) {
            let records: Vec<Vec<u8>> = names.iter().enumerate().map(|(i, name)| record(name, i as u8)).collect();
            let mut capture = records.concat();
            let at = at.index(capture.len());
            capture[at] = to;
            let mut end = 0;
            let hit = records.iter().position(|r| { end += r.len(); at < end }).unwrap();
            let (framed, broken) = frame(&capture);
            let out: Vec<_> = framed.iter().map(|f| f.data.to_vec()).collect();
            for (i, record) in records.iter().enumerate().filter(|&(i, _)| i != hit) {
                proptest::prop_assert!(out.contains(record), "record {} of {} was lost by byte {}", i, records.len(), at);
            }
            proptest::prop_assert!(broken.is_none() || hit + 1 == records.len());
        }

        #[test]
        fn any_bytes_come_to_an_end(bytes: Vec<u8>) {
            frame(&bytes);
            frame(&[&VERSION_MARKER[..], &bytes].concat());
        }
    }
}
