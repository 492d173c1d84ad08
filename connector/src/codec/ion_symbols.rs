//! Symbol tables of Ion binary (Amazon Ion Specification, "Ion Symbols").
//!
//! Borrows every text from the record, or from a table that records before it had too (`Known`). Never looks for a shared table: a record
//! cannot carry one, so an imported symbol has a number and no text, and is a fault only where it is used. Never holds more than
//! [`MAX_SYMBOLS`] symbols.

use std::sync::Arc;

use super::ion_binary::{Type, Value, damaged, fields, items, uint, utf8};
use crate::record::Fault;

/// Text of the symbols 1 to 9, which every table begins with.
const SYSTEM_SYMBOLS: [&str; 9] =
    ["$ion", "$ion_1_0", "$ion_symbol_table", "name", "version", "imports", "symbols", "max_id", "$ion_shared_symbol_table"];
pub(super) const ION_SYMBOL_TABLE: u64 = 3;
const NAME: u64 = 4;
const IMPORTS: u64 = 6;
const SYMBOLS: u64 = 7;
const MAX_ID: u64 = 8;

/// Symbols that the tables of a record may define. A symbol takes one byte of a record and 16 of memory; the largest document that a ledger
/// takes, 128 KB, cannot name a quarter as many.
pub const MAX_SYMBOLS: usize = 1 << 18;

/// The symbols that a value can name.
#[derive(Debug, Default)]
pub struct Symbols<'a> {
    /// Symbols of imported tables. A record cannot carry those tables, so their symbols have no text; only their number is known.
    imported: usize,
    /// The local symbols that were read from an earlier record already; they come before `local`.
    known: Option<Arc<Known>>,
    local: Vec<Option<&'a str>>,
}

impl<'a> Symbols<'a> {
    /// The symbols that a table had when it was remembered.
    pub(super) fn known(known: Arc<Known>) -> Self {
        Self { imported: known.imported, known: Some(known), local: Vec::new() }
    }

    /// The text of a symbol; `None` where it has none that is known.
    pub fn text(&self, id: u64) -> Option<&str> {
        let id = usize::try_from(id).ok()?;
        if let 0..=9 = id {
            return Some(SYSTEM_SYMBOLS[id.checked_sub(1)?]);
        }
        let mut at = (id - 10).checked_sub(self.imported)?;
        if let Some(known) = &self.known {
            match at.checked_sub(known.places.len()) {
                None => return known.text(at),
                Some(behind) => at = behind,
            }
        }
        *self.local.get(at)?
    }

    /// Whether a symbol is in the table, with a text or without.
    pub(super) fn contains(&self, id: u64) -> bool {
        usize::try_from(id).is_ok_and(|id| id < self.count().saturating_add(self.imported).saturating_add(10))
    }

    /// Local symbols.
    pub(super) fn count(&self) -> usize {
        self.known.as_ref().map_or(0, |known| known.places.len()) + self.local.len()
    }

    /// Whether all of them were read from an earlier record.
    pub(super) fn are_known(&self) -> bool {
        self.known.is_some() && self.local.is_empty()
    }

    /// A local symbol table: `imports` and `symbols` ("Ion Symbols", section "Local Symbol Tables").
    pub(super) fn read_table(&mut self, table: Value<'a>) -> Result<(), Fault> {
        let (mut imports, mut symbols) = (None, None);
        for field in fields(table) {
            let (name, value) = field?;
            let earlier = match name {
                IMPORTS => imports.replace(value),
                SYMBOLS => symbols.replace(value),
                _ => None,
            };
            if earlier.is_some() {
                return Err(damaged("a symbol table with a part that comes twice"));
            }
        }
        match imports {
            Some(Value { ion_type: Type::Symbol, null: false, body, .. }) if uint(body) == Some(ION_SYMBOL_TABLE) => {}
            imports => {
                *self = Self::default();
                if let Some(list @ Value { ion_type: Type::List, .. }) = imports {
                    items(list).try_for_each(|import| self.import(import?))?;
                }
            }
        }
        if let Some(value @ Value { ion_type: Type::List, .. }) = symbols {
            // A name has about eight letters and a byte of length: most tables fit at the first try.
            self.local.reserve((value.body.len() / 8).min(MAX_SYMBOLS));
            let most = self.local.len() + MAX_SYMBOLS - self.count();
            for symbol in items(value) {
                let symbol = symbol?;
                if self.local.len() == most {
                    let reason = format!("expected symbol tables of at most {MAX_SYMBOLS} symbols in one record, found more");
                    return Err(Fault::new("too_many_values", reason));
                }
                // Anything but a string holds its place and has no text.
                let text = if symbol.ion_type == Type::String && !symbol.null { Some(utf8(symbol.body)?) } else { None };
                self.local.push(text);
            }
        }
        Ok(())
    }

    /// One imported table: a struct with a name other than `$ion`, else it counts for nothing. Without `max_id` its length is not known.
    fn import(&mut self, import: Value<'a>) -> Result<(), Fault> {
        if import.ion_type != Type::Struct {
            return Ok(());
        }
        let (mut named, mut length) = (false, None);
        for field in fields(import) {
            match field? {
                (NAME, Value { ion_type: Type::String, body, .. }) => named = !body.is_empty() && body != b"$ion",
                (MAX_ID, Value { ion_type: Type::PositiveInt, null: false, body, .. }) => length = uint(body),
                _ => {}
            }
        }
        if named {
            let length = length.and_then(|length| usize::try_from(length).ok()).and_then(|length| self.imported.checked_add(length));
            self.imported = length.ok_or_else(|| damaged("a symbol table that imports another one of no known length"))?;
        }
        Ok(())
    }
}

/// Symbols with texts of their own, for records that begin with the same tables.
#[derive(Debug)]
pub(super) struct Known {
    imported: usize,
    /// The texts, one behind the other.
    texts: String,
    /// Of each symbol where its text begins and ends; behind the last text where it has none.
    places: Vec<(u32, u32)>,
}

/// The place of a symbol without a text.
const NO_TEXT: (u32, u32) = (u32::MAX, u32::MAX);

impl Known {
    /// The symbols as they are now; `None` where their texts are too long for that.
    pub(super) fn new(symbols: &Symbols<'_>) -> Option<Self> {
        let mut known = Self { imported: symbols.imported, texts: String::new(), places: Vec::with_capacity(symbols.count()) };
        for at in 0..symbols.count() {
            let begin = u32::try_from(known.texts.len()).ok()?;
            let id = u64::try_from(at.checked_add(symbols.imported)?.checked_add(10)?).ok()?;
            known.places.push(match symbols.text(id) {
                Some(text) => {
                    known.texts.push_str(text);
                    (begin, u32::try_from(known.texts.len()).ok()?)
                }
                None => NO_TEXT,
            });
        }
        Some(known)
    }

    fn text(&self, at: usize) -> Option<&str> {
        let (begin, end) = *self.places.get(at)?;
        self.texts.get(begin as usize..end as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ion_binary::{Reader, VERSION_MARKER, text};

    /// A struct's or list's bytes, short enough for one byte of length.
    fn sized(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
        let body = parts.concat();
        [&[kind << 4 | 14, 0x80 | u8::try_from(body.len()).ok().filter(|n| *n < 0x80).unwrap()], &body[..]].concat()
    }

    fn string(text: &str) -> Vec<u8> {
        sized(8, &[text.as_bytes()])
    }

    fn table(fields: &[&[u8]]) -> Vec<u8> {
        let table = sized(13, fields);
        sized(14, &[&[0x81, 0x83], &table])
    }

    fn symbols(texts: &[&str]) -> Vec<u8> {
        let texts = texts.iter().map(|text| string(text)).collect::<Vec<_>>().concat();
        [&[0x87][..], &sized(11, &[&texts])].concat()
    }

    const APPEND: &[u8] = &[0x86, 0x71, 0x03];

    /// The symbols of a record as texts; `?` for one without a text, `!` for one that the table does not have.
    fn read(parts: &[&[u8]]) -> Result<String, String> {
        let record = [&VERSION_MARKER[..], &parts.concat()].concat();
        let mut reader = Reader::new(&record);
        let mut found = Vec::new();
        loop {
            match reader.next_value().map_err(|fault| fault.reason)? {
                None => return Ok(found.join(" ")),
                Some((value, symbols)) => found.push(match text(value, symbols) {
                    Ok(text) => text.unwrap().to_owned(),
                    Err(fault) if fault.reason.contains("whose text is not") => "?".to_owned(),
                    Err(_) => "!".to_owned(),
                }),
            }
        }
    }

    const TEN: &[u8] = &[0x71, 10];
    const ELEVEN: &[u8] = &[0x71, 11];
    const TWELVE: &[u8] = &[0x72, 0, 12];

    #[test]
    fn a_table_is_good_until_the_next() {
        let (ab, c) = (table(&[&symbols(&["a", "b"])]), table(&[&symbols(&["c"])]));
        assert_eq!(read(&[&ab, TEN, ELEVEN, TWELVE, &c, TEN, ELEVEN]).unwrap(), "a b ! c !");
        assert_eq!(
            read(&[TEN, &[0x71, 9], &[0x71, 3], &[0x70], &[0x71, 1]]).unwrap(),
            "! $ion_shared_symbol_table $ion_symbol_table ? $ion"
        );
    }

    #[test]
    fn a_table_can_add_to_the_one_before_it() {
        let (ab, c) = (table(&[&symbols(&["a", "b"])]), table(&[APPEND, &symbols(&["c"])]));
        assert_eq!(read(&[&ab, &c, TEN, ELEVEN, TWELVE]).unwrap(), "a b c");
        let other_order = table(&[&symbols(&["c"]), APPEND]);
        assert_eq!(read(&[&ab, &other_order, TEN, ELEVEN, TWELVE]).unwrap(), "a b c");
        assert_eq!(read(&[&c, TEN]).unwrap(), "c", "to none");
        assert_eq!(read(&[&ab, &table(&[APPEND]), TEN]).unwrap(), "a");
    }

    #[test]
    fn a_version_marker_forgets_all_symbols() {
        assert_eq!(read(&[&table(&[&symbols(&["a"])]), TEN, &VERSION_MARKER, TEN, &VERSION_MARKER, &VERSION_MARKER]).unwrap(), "a !");
    }

    #[test]
    fn what_is_no_string_holds_its_place() {
        let list = sized(11, &[&[0x20], &string("b"), &[0x8F], &string("d")]);
        let table = table(&[&[0x87], &list]);
        assert_eq!(read(&[&table, TEN, ELEVEN, &[0x71, 12], &[0x71, 13]]).unwrap(), "? b ? d");
    }

    #[test]
    fn imported_symbols_have_a_number_and_no_text() {
        let import = |fields: &[&[u8]]| [&[0x86][..], &sized(11, &[&sized(13, fields)])].concat();
        let name = [&[0x84][..], &string("shared")].concat();
        let two = import(&[&name, &[0x85, 0x21, 1], &[0x88, 0x21, 2]]);
        assert_eq!(read(&[&table(&[&two, &symbols(&["a"])]), TEN, ELEVEN, TWELVE, &[0x71, 13]]).unwrap(), "? ? a !");
        let added = table(&[APPEND, &symbols(&["b"])]);
        assert_eq!(read(&[&table(&[&two, &symbols(&["a"])]), &added, TWELVE, &[0x71, 13]]).unwrap(), "a b");
        assert_eq!(read(&[&table(&[&two]), &table(&[&symbols(&["a"])]), TEN]).unwrap(), "a", "forgotten by the next table");
    }

    #[test]
    fn an_import_without_a_usable_name_counts_for_nothing() {
        let ion = [&[0x84][..], &string("$ion")].concat();
        let empty = [&[0x84][..], &string("")].concat();
        for fields in [&[&[0x88, 0x21, 2][..]][..], &[&ion, &[0x88, 0x21, 2]], &[&empty, &[0x88, 0x21, 2]]] {
            let import = [&[0x86][..], &sized(11, &[&sized(13, fields), &[0x20], &[0xDF]])].concat();
            assert_eq!(read(&[&table(&[&import, &symbols(&["a"])]), TEN]).unwrap(), "a");
        }
        assert_eq!(read(&[&table(&[&[0x86, 0x8F], &symbols(&["a"])]), TEN]).unwrap(), "a", "imports that are no list");
    }

    #[test]
    fn an_import_of_no_known_length_is_a_fault() {
        let name = [&[0x84][..], &string("shared")].concat();
        for max_id in [&[][..], &[0x88, 0x0F], &[0x88, 0x31, 2], &[0x88, 0x29, 1, 0, 0, 0, 0, 0, 0, 0, 0]] {
            let import = [&[0x86][..], &sized(11, &[&sized(13, &[&name, max_id])])].concat();
            assert!(read(&[&table(&[&import]), TEN]).unwrap_err().ends_with("imports another one of no known length"), "{max_id:?}");
        }
    }

    #[test]
    fn an_import_of_a_huge_table_takes_no_memory() {
        let name = [&[0x84][..], &string("shared")].concat();
        let import =
            [&[0x86][..], &sized(11, &[&sized(13, &[&name, &[0x88, 0x28, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]])])].concat();
        assert_eq!(
            read(&[&table(&[&import, &symbols(&["a"])]), TEN, &[0x78, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]]).unwrap(),
            "? !"
        );
    }

    #[test]
    fn a_part_that_comes_twice_is_a_fault() {
        let twice = table(&[&symbols(&["a"]), &symbols(&["b"])]);
        assert!(read(&[&twice, TEN]).unwrap_err().ends_with("a symbol table with a part that comes twice"));
        assert!(read(&[&table(&[APPEND, APPEND])]).is_err());
    }

    #[test]
    fn only_a_struct_whose_first_annotation_says_so_is_a_table() {
        let ab = sized(13, &[&symbols(&["a"])]);
        let record = |annotations: &[u8], value: &[u8]| {
            let bytes = [&VERSION_MARKER[..], &sized(14, &[&[0x80 | annotations.len() as u8], annotations, value])].concat();
            Reader::new(&bytes).next_value().unwrap().is_some()
        };
        assert!(!record(&[0x83], &ab));
        assert!(!record(&[0x83, 0x84], &ab));
        assert!(record(&[0x84, 0x83], &ab));
        assert!(record(&[0x83], &[0x20]));
    }
}
