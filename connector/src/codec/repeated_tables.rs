//! Symbol tables that one record after another begins with: read once, and not once for each record.
//!
//! A capture may define thousands of symbols at its beginning and use them to its end; each of its records then carries the whole table, because
//! a record is complete in itself. Goes by the bytes alone, so what is decoded is what it would have been. Small tables, which every record of
//! a ledger has for itself, are never looked at.

use std::sync::Arc;

use super::ion_binary::Reader;
use super::ion_symbols::{Known, Symbols};

/// Symbols from which on tables are remembered: those of a ledger's own records have some dozens.
const MANY: usize = 256;

/// The longest tables that are remembered, in bytes: they are held once more, outside of every budget.
const LONGEST: usize = 2 << 20;

/// Bytes at the end of tables by which they are taken for those of the record before, until they are compared.
const TAIL: usize = 32;

/// The tables that came last.
#[derive(Debug, Default)]
pub(super) struct RepeatedTables {
    /// Length and end of the tables of the record before: only what comes twice is remembered.
    before: Option<(usize, [u8; TAIL])>,
    remembered: Option<(Box<[u8]>, Arc<Known>)>,
}

impl RepeatedTables {
    /// A reader of a record that begins with the version marker; behind its tables, where they are the remembered ones.
    pub(super) fn reader<'a>(&self, record: &'a [u8]) -> Reader<'a> {
        match &self.remembered {
            Some((tables, known)) if record.starts_with(tables) => Reader::behind(record, tables.len(), known.clone()),
            _ => Reader::new(record),
        }
    }

    /// Takes notice of what stood before the first value of a record, and of the symbols that it defines.
    pub(super) fn notice(&mut self, tables: &[u8], symbols: &Symbols<'_>) {
        if symbols.count() < MANY || symbols.are_known() || tables.len() > LONGEST {
            return;
        }
        let end = tables.last_chunk().map(|tail| (tables.len(), *tail));
        if end == self.before {
            self.remembered = Known::new(symbols).map(|known| (tables.into(), Arc::new(known)));
        }
        self.before = end;
    }
}

#[cfg(test)]
mod tests {
    use super::super::ion_binary::{VERSION_MARKER, text};
    use super::*;

    fn tagged(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = [(body.len() >> 14) as u8, (body.len() >> 7 & 0x7F) as u8, (body.len() & 0x7F) as u8 | 0x80];
        [&[kind << 4 | 14][..], &length, body].concat()
    }

    /// A table of symbols `a0`, `a1` … of this letter, which adds to the one before it or takes its place.
    fn table(letter: char, count: usize, adds: bool) -> Vec<u8> {
        let texts: Vec<u8> = (0..count).flat_map(|at| tagged(8, format!("{letter}{at}").as_bytes())).collect();
        let imports: &[u8] = if adds { &[0x86, 0x71, 0x03] } else { &[] };
        let fields = [imports, &[0x87], &tagged(11, &texts)].concat();
        tagged(14, &[&[0x81, 0x83][..], &tagged(13, &fields)].concat())
    }

    /// The texts of a record's values, which are symbols, and whether they were known before.
    fn read(tables: &mut RepeatedTables, record: &[u8]) -> (String, bool) {
        let mut reader = tables.reader(record);
        let (mut found, mut known) = (Vec::new(), false);
        while let Some((value, symbols)) = reader.next_value().unwrap() {
            found.push(text(value, symbols).map_or("?".to_owned(), |text| text.unwrap().to_owned()));
            known = symbols.are_known();
            if found.len() == 1 {
                tables.notice(&record[..record.len() - reader.left_with_last()], reader.symbols());
            }
        }
        (found.join(" "), known)
    }

    fn symbol(id: usize) -> Vec<u8> {
        vec![0x72, (id >> 8) as u8, id as u8]
    }

    #[test]
    fn tables_that_come_again_are_read_twice_and_never_more() {
        let mut tables = RepeatedTables::default();
        let record = [&VERSION_MARKER[..], &table('a', 300, false), &symbol(10), &symbol(309), &symbol(310)].concat();
        let reads: Vec<_> = (0..4).map(|_| read(&mut tables, &record)).collect();
        assert_eq!(reads, [false, false, true, true].map(|known| ("a0 a299 ?".to_owned(), known)));
    }

    #[test]
    fn what_stands_behind_known_tables_is_read_as_ever() {
        let mut tables = RepeatedTables::default();
        let known = [&VERSION_MARKER[..], &table('a', 300, false)].concat();
        let record = |behind: &[&[u8]]| [&known[..], &behind.concat()].concat();
        for _ in 0..3 {
            read(&mut tables, &record(&[&symbol(10)]));
        }
        assert_eq!(read(&mut tables, &record(&[&table('b', 2, true), &symbol(309), &symbol(310), &symbol(312)])).0, "a299 b0 ?");
        assert_eq!(read(&mut tables, &record(&[&table('b', 2, false), &symbol(10), &symbol(12)])).0, "b0 ?");
        assert_eq!(read(&mut tables, &record(&[&VERSION_MARKER, &symbol(10)])).0, "?");
        assert_eq!(read(&mut tables, &[&VERSION_MARKER[..], &table('c', 300, false), &symbol(10)].concat()).0, "c0");
        assert_eq!(read(&mut tables, &record(&[&symbol(10)])), ("a0".to_owned(), true));
    }

    #[test]
    fn tables_of_the_usual_size_are_not_remembered() {
        let mut tables = RepeatedTables::default();
        let record = [&VERSION_MARKER[..], &table('a', MANY - 1, false), &symbol(10)].concat();
        assert!((0..4).all(|_| read(&mut tables, &record) == ("a0".to_owned(), false)));
        assert!(tables.remembered.is_none());
    }
}
