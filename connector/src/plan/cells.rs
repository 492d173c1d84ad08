//! A row that is put together from cells: of each column the write with the highest version, whatever order the writes come in and how often.
//!
//! A join semilattice: a merge is commutative, associative and idempotent, so that every order of the same changes comes to the same row. A
//! higher version wins. Of one version an erasure wins over a value, and of two values the one of the greater [`rank`]. Every sink goes by these
//! rules; where a server does it by itself, it compares what is made here. Never reads a value but as text.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::projection::{Paths, project};
use super::same::is_same;
use super::tombstone::{self, Tombstone};
use crate::codec::ion_json::write_string;
use crate::revision::{Cell, Cells, Document};

/// The member of a row's field `revsync` that says which write of each column is in the document. No index may look into it.
pub const FIELD: &str = "cells";

/// The form of the bookkeeping, in it as `v`.
const FORM: u64 = 1;

/// A row as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// Every cell up to this version is gone, and so is one of this version that comes late.
    pub erased: Option<u64>,
    /// The columns that live, by name. One without a value lives too: it is `null`.
    pub columns: BTreeMap<String, Column>,
}

/// A column as it was written last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The version of that write.
    pub version: u64,
    /// The value as JSON text.
    pub value: Bytes,
}

impl Row {
    /// Takes a change in. Whether there was anything new in it.
    pub fn merge(&mut self, cells: &Cells) -> bool {
        let mut changed = false;
        if let Some(erased) = cells.erased.filter(|erased| self.erased.is_none_or(|before| before < *erased)) {
            self.erased = Some(erased);
            self.columns.retain(|_, column| column.version > erased);
            changed = true;
        }
        for cell in &cells.columns {
            if self.erased.is_none_or(|erased| erased < cell.version)
                && self.columns.get(&cell.name).is_none_or(|before| wins(cell, before))
            {
                self.columns.insert(cell.name.clone(), Column { version: cell.version, value: cell.value.clone() });
                changed = true;
            }
        }
        changed
    }

    /// The highest version that is in it, for people; 0 where there is none.
    pub fn version(&self) -> u64 {
        self.columns.values().map(|column| column.version).chain(self.erased).max().unwrap_or_default()
    }

    /// Reads a stored document back, at the version that it has: a row with its cells beside it, or the tombstone of a row or of a whole document,
    /// which says by its version up to which all is gone. `None` where it is another document, or its cells are not those of its columns.
    ///
    /// A value is the text that it was written as where that is kept, and else what stands in the document, which a server may have spelled anew; so
    /// is one that is not what was written.
    pub fn read(source: &[u8], version: u64) -> Option<Self> {
        let mut members: BTreeMap<String, &RawValue> = serde_json::from_slice(source).ok()?;
        let kept: Kept<'_> = serde_json::from_str(members.remove(tombstone::FIELD)?.get()).ok()?;
        let Some(cells) = kept.cells else {
            let is_tombstone = matches!(tombstone::read(source), Some(Tombstone::Of(_)));
            return is_tombstone.then(|| Self { erased: Some(version), columns: BTreeMap::new() });
        };
        if cells.v != FORM || !members.keys().eq(cells.columns.keys()) {
            return None;
        }
        let column = |((name, value), entry): ((String, &RawValue), &Entry<'_>)| {
            let (version, written) = entry.read()?;
            let value = written.filter(|written| is_same(written, value.get())).unwrap_or_else(|| value.get().to_owned());
            Some((name, Column { version, value: value.into() }))
        };
        let columns = members.into_iter().zip(cells.columns.values()).map(column).collect::<Option<_>>()?;
        Some(Self { erased: cells.erased, columns })
    }

    /// The document that the row is, with its cells beside it; `None` where nothing of it lives.
    pub fn stored(&self) -> Option<String> {
        let document = self.document()?;
        let mut out = document.as_bytes().strip_suffix(b"}")?.to_vec();
        out.extend_from_slice(format!(r#","{}":{{"{FIELD}":{{"v":{FORM}"#, tombstone::FIELD).as_bytes());
        if let Some(erased) = self.erased {
            out.extend_from_slice(format!(r#","erased":{erased}"#).as_bytes());
        }
        for (at, (name, column)) in self.columns.iter().enumerate() {
            out.extend_from_slice(if at == 0 { br#","columns":{"# } else { b"," });
            write_string(name, &mut out);
            out.extend_from_slice(format!(":[{},", column.version).as_bytes());
            write_string(&rank(&column.value), &mut out);
            out.push(b']');
        }
        out.extend_from_slice(b"}}}}");
        String::from_utf8(out).ok()
    }

    /// The row as text that [`read`](Self::read) makes the same row of; of one of which nothing lives it is no document.
    pub fn text(&self) -> String {
        self.stored().unwrap_or_else(|| {
            let erased = self.erased.map(|erased| format!(r#","erased":{erased}"#)).unwrap_or_default();
            format!(r#"{{"{}":{{"{FIELD}":{{"v":{FORM}{erased}}}}}}}"#, tombstone::FIELD)
        })
    }

    /// Bytes of its names and values.
    pub fn size(&self) -> usize {
        self.columns.iter().map(|(name, column)| name.len() + column.value.len()).sum()
    }

    /// Everything that is known of the row as one change.
    pub fn change(&self) -> Cells {
        let cell = |(name, column): (&String, &Column)| Cell { name: name.clone(), version: column.version, value: column.value.clone() };
        Cells { erased: self.erased, columns: self.columns.iter().map(cell).collect() }
    }

    /// The document that the row is, without any bookkeeping; `None` where nothing of it lives.
    pub fn document(&self) -> Option<Document> {
        if self.columns.is_empty() {
            return None;
        }
        let mut out = vec![b'{'];
        for (name, column) in &self.columns {
            if out.len() > 1 {
                out.push(b',');
            }
            write_string(name, &mut out);
            out.push(b':');
            out.extend_from_slice(&column.value);
        }
        out.push(b'}');
        Some(Document(out.into()))
    }
}

/// The field `revsync` of a stored document.
#[derive(Deserialize)]
struct Kept<'a> {
    #[serde(borrow)]
    cells: Option<KeptCells<'a>>,
}

#[derive(Deserialize)]
struct KeptCells<'a> {
    v: u64,
    erased: Option<u64>,
    #[serde(borrow, default)]
    columns: BTreeMap<String, Entry<'a>>,
}

/// What is kept of a column: the version, the rank of the value and, of a value with decimals, what it is made of.
#[derive(Deserialize)]
#[serde(transparent)]
struct Entry<'a>(#[serde(borrow)] Vec<&'a RawValue>);

impl Entry<'_> {
    /// The version, and the text that the value was written as where the rank is all of it.
    fn read(&self) -> Option<(u64, Option<String>)> {
        let version = serde_json::from_str(self.0.first()?.get()).ok()?;
        let rank: String = serde_json::from_str(self.0.get(1)?.get()).ok()?;
        Some((version, rank.chars().nth(SHOWN).is_none().then_some(rank)))
    }
}

fn wins(cell: &Cell, before: &Column) -> bool {
    let tie = || is_greater(&rank(&cell.value), &rank(&before.value));
    cell.version > before.version || (cell.version == before.version && tie())
}

/// The most characters of a value that its rank holds.
const SHOWN: usize = 64;

/// What decides between two values of one column at one version: the value's text, of a long one its beginning and the SHA-256 of all of it.
/// Two values have one rank only where they are one text.
pub fn rank(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    match text.char_indices().nth(SHOWN) {
        None => text.into_owned(),
        Some((end, _)) => format!("{}{}", &text[..end], hex::encode(Sha256::digest(value))),
    }
}

/// Whether a rank is above another, in the order of Java's `String.compareTo`: by units of UTF-16, which beyond U+FFFF is not the order of bytes.
fn is_greater(one: &str, other: &str) -> bool {
    one.encode_utf16().gt(other.encode_utf16())
}

/// The same change without the cells that it erases itself.
pub fn settled(mut cells: Cells) -> Cells {
    if let Some(erased) = cells.erased {
        cells.columns.retain(|cell| cell.version > erased);
    }
    cells
}

/// The document as its source has it, where it is a row with its cells beside it in the field `revsync`; `None` where it is another document.
pub fn without_bookkeeping(source: &[u8]) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Beside<'a> {
        #[serde(borrow)]
        revsync: HashMap<&'a str, IgnoredAny>,
    }
    let kept: Beside<'_> = serde_json::from_slice(source).ok()?;
    kept.revsync.contains_key(FIELD).then_some(())?;
    let field = Paths::parse([tombstone::FIELD]).ok()?;
    let mut out = Vec::with_capacity(source.len());
    project(source, &Paths::default(), &field, None, &mut out).map(|()| out)
}

/// The highest version of a change, for people; 0 where it changes nothing.
pub fn version(cells: &Cells) -> u64 {
    cells.columns.iter().map(|cell| cell.version).chain(cells.erased).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn put(columns: &[(&str, u64, &str)]) -> Cells {
        let cell = |(name, version, value): &(&str, u64, &str)| Cell {
            name: (*name).to_owned(),
            version: *version,
            value: Bytes::copy_from_slice(value.as_bytes()),
        };
        Cells { erased: None, columns: columns.iter().map(cell).collect() }
    }

    fn erase(version: u64) -> Cells {
        Cells { erased: Some(version), columns: Vec::new() }
    }

    fn fold<'a>(changes: impl IntoIterator<Item = &'a Cells>) -> Row {
        let mut row = Row::default();
        for cells in changes {
            row.merge(cells);
        }
        row
    }

    fn text(row: &Row) -> Option<String> {
        row.document().map(|document| String::from_utf8(document.as_bytes().to_vec()).unwrap())
    }

    #[test]
    fn of_a_column_the_write_with_the_higher_version_stays_in_both_orders() {
        let (older, newer) = (put(&[("a", 1, "\"old\""), ("b", 9, "1")]), put(&[("a", 2, "\"new\""), ("c", 1, "null")]));
        for order in [[&older, &newer], [&newer, &older]] {
            assert_eq!(text(&fold(order)).unwrap(), r#"{"a":"new","b":1,"c":null}"#);
        }
        assert_eq!(fold([&older, &newer]).version(), 9);
    }

    #[test]
    fn a_change_that_is_older_or_the_same_again_changes_nothing() {
        let mut row = fold([&put(&[("a", 5, "1")]), &erase(3)]);
        let before = row.clone();
        for cells in [put(&[("a", 5, "1")]), put(&[("a", 4, "2")]), put(&[("b", 3, "2")]), erase(3), erase(2), Cells::default()] {
            assert!(!row.merge(&cells), "{cells:?}");
        }
        assert_eq!(row, before);
    }

    #[test]
    fn an_erasure_takes_its_own_version_and_what_is_older_and_leaves_what_is_newer() {
        let row = fold([&put(&[("old", 4, "1"), ("tie", 5, "1"), ("new", 6, "1")]), &erase(5)]);
        assert_eq!(text(&row).unwrap(), r#"{"new":1}"#);
        let nothing = fold([&put(&[("a", 5, "1")]), &erase(5), &put(&[("b", 5, "1")])]);
        assert_eq!((nothing.document(), nothing.erased, nothing.version()), (None, Some(5), 5));
        let back = fold([&erase(5), &put(&[("a", 6, "1")])]);
        assert_eq!((text(&back).unwrap().as_str(), back.erased), (r#"{"a":1}"#, Some(5)));
    }

    #[test]
    fn of_two_values_of_one_version_the_greater_text_stays_in_both_orders() {
        let long = |last: &str| format!("\"{}{last}\"", "x".repeat(100));
        for (lower, greater) in [
            ("1", "2"),
            ("10", "9"),
            ("1", "1.0"),
            ("\"1\"", "1"),
            ("null", "true"),
            ("\"é\"", "\"\u{ffff}\""),
            // In bytes of UTF-8 it is the other way round.
            ("\"😀\"", "\"\u{e000}\""),
            ("[1]", "{}"),
        ] {
            for order in [[lower, greater], [greater, lower]] {
                let row = fold(&order.map(|value| put(&[("a", 7, value)])));
                assert_eq!(row.columns["a"].value, greater, "{lower} and {greater}");
            }
        }
        let values = [long("a"), long("b"), long("c")];
        let ends = [[0, 1, 2], [2, 1, 0], [1, 0, 2]].map(|order| fold(&order.map(|at| put(&[("a", 7, &values[at])]))));
        assert!(ends[0] == ends[1] && ends[1] == ends[2], "{ends:?}");
    }

    #[test]
    fn a_rank_is_short_and_tells_every_two_texts_apart() {
        assert_eq!(rank(b"442.30"), "442.30");
        let edge = "é".repeat(SHOWN);
        assert_eq!(rank(edge.as_bytes()), edge);
        let long = rank(format!("{edge}!").as_bytes());
        assert!(long.starts_with(&edge) && long.chars().count() == SHOWN + 64, "{long}");
        assert_ne!(long, rank(format!("{edge}?").as_bytes()));
    }

    #[test]
    fn a_row_is_shown_without_what_is_kept_beside_it_and_every_other_document_as_it_is() {
        let shown = |source: &str| without_bookkeeping(source.as_bytes()).map(|shown| String::from_utf8(shown).unwrap());
        let row = r#"{"a":442.30,"revsync":{"cells":{"v":1,"columns":{"a":[7,"442.30",1]}}},"b":{"revsync":1e400}}"#;
        assert_eq!(shown(row).unwrap(), r#"{"a":442.30,"b":{"revsync":1e400}}"#);
        for other in [r#"{"a":1}"#, r#"{"revsync":{"v":1}}"#, r#"{"revsync":"cells"}"#, r#"{"revsync":["cells"]}"#, "[1]", "null"] {
            assert_eq!(shown(other), None, "{other}");
        }
    }

    #[test]
    fn names_are_written_as_json() {
        assert_eq!(text(&fold([&put(&[("f:\"q\"\n", 1, "1")])])).unwrap(), r#"{"f:\"q\"\n":1}"#);
    }

    #[test]
    fn what_a_change_erases_itself_is_not_in_it() {
        let cells = settled(Cells { erased: Some(4), ..put(&[("a", 4, "1"), ("b", 5, "2")]) });
        assert_eq!(cells, Cells { erased: Some(4), ..put(&[("b", 5, "2")]) });
        assert_eq!((version(&cells), version(&erase(9)), version(&Cells::default())), (5, 9, 0));
    }

    #[test]
    fn a_row_is_read_back_from_what_is_stored_of_it() {
        let long = format!("\"{}\"", "x".repeat(200));
        let whole = fold([&erase(3), &put(&[("f:a\"b", 4, "442.30"), ("b", 9, &long), ("c", 5, "null"), ("d", 5, r#"{"é":[1e400]}"#)])]);
        let stored = whole.stored().unwrap();
        assert_eq!(Row::read(stored.as_bytes(), 9).unwrap(), whole, "{stored}");
        assert_eq!(text(&whole).unwrap().into_bytes(), without_bookkeeping(stored.as_bytes()).unwrap());
        let bare = fold([&put(&[("a", 0, "1")])]);
        assert_eq!(bare.stored().unwrap(), r#"{"a":1,"revsync":{"cells":{"v":1,"columns":{"a":[0,"1"]}}}}"#);
        assert_eq!(Row::read(bare.stored().unwrap().as_bytes(), 1), Some(bare));
        assert_eq!(fold([&erase(3)]).stored(), None);
    }

    #[test]
    fn a_row_is_the_same_again_as_text_and_as_one_change() {
        let long = format!("\"{}\"", "x".repeat(200));
        for row in [Row::default(), fold([&erase(3)]), fold([&erase(3), &put(&[("a", 4, "442.30"), ("b", 9, &long)])])] {
            assert_eq!(Row::read(row.text().as_bytes(), 0), Some(row.clone()), "{}", row.text());
            assert_eq!(fold([&row.change()]), row);
        }
    }

    #[test]
    fn a_value_is_read_back_as_it_was_written_unless_another_stands_in_the_document() {
        let read = |source: &str| Row::read(source.as_bytes(), 7).unwrap().columns.remove("a").unwrap().value;
        assert_eq!(read(r#"{"a":1E+400,"revsync":{"cells":{"v":1,"columns":{"a":[7,"1e400",1]}}}}"#), "1e400");
        assert_eq!(read(r#"{"revsync":{"cells":{"v":1,"columns":{"a":[7,"[442.30]",["n442.30"]]}}},"a":[442.3]}"#), "[442.30]");
        assert_eq!(read(r#"{"a":2,"revsync":{"cells":{"v":1,"columns":{"a":[7,"1"]}}}}"#), "2");
    }

    #[test]
    fn of_a_row_that_is_gone_the_version_up_to_which_it_is_gone_is_read_back() {
        let gone = |erased| Some(Row { erased: Some(erased), columns: BTreeMap::new() });
        let of_cells = r#"{"revsync":{"v":1,"deleted":true,"time":"2024-11-29T08:15:00Z","cells":{"v":1,"erased":5}}}"#;
        assert_eq!(Row::read(of_cells.as_bytes(), 99), gone(5));
        assert_eq!(Row::read(tombstone::document(7).as_bytes(), 99), gone(99));
    }

    #[test]
    fn a_document_that_is_no_row_of_cells_is_not_read_as_one() {
        for source in [
            "{}",
            r#"{"a":1}"#,
            r#"{"a":1,"revsync":1}"#,
            r#"{"a":1,"revsync":{"cells":{"v":2,"columns":{"a":[7,"1"]}}}}"#,
            r#"{"a":1,"revsync":{"cells":{"v":1}}}"#,
            r#"{"a":1,"revsync":{"cells":{"v":1,"columns":{"b":[7,"1"]}}}}"#,
            r#"{"a":1,"b":1,"revsync":{"cells":{"v":1,"columns":{"a":[7,"1"]}}}}"#,
            r#"{"a":1,"revsync":{"cells":{"v":1,"columns":{"a":[7]}}}}"#,
            r#"{"a":1,"revsync":{"cells":{"v":1,"columns":{"a":["7","1"]}}}}"#,
            r#"{"a":1,"revsync":{"v":1,"deleted":true,"time":"2024-11-29T08:15:00Z"}}"#,
            "[1]",
            "{",
        ] {
            assert_eq!(Row::read(source.as_bytes(), 7), None, "{source}");
        }
    }

    fn change() -> impl Strategy<Value = Cells> {
        let value = prop::sample::select(vec!["null", "1", "1.0", "\"a\"", "\"😀\"", "\"\u{e000}\"", "[1,2]"]);
        let columns = prop::collection::btree_map("[a-d]", (0..9u64, value), 0..4);
        (prop::option::weighted(0.3, 0..9u64), columns).prop_map(|(erased, columns)| {
            let columns: Vec<_> = columns.iter().map(|(name, (version, value))| (name.as_str(), *version, *value)).collect();
            Cells { erased, ..put(&columns) }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        /// 200 histories, 50 orders of each: 10,000 permutations.
        #[test]
        fn every_order_with_duplicates_comes_to_one_row(
            history in prop::collection::vec(change(), 1..8),
            orders in prop::collection::vec(prop::collection::vec((any::<prop::sample::Index>(), any::<u16>()), 0..12), 50),
        ) {
            let expected = fold(&history);
            for order in orders {
                // Each change once, and some more than once.
                let keys = order.iter().map(|(_, key)| *key).chain(std::iter::repeat(0));
                let mut sent: Vec<(u16, &Cells)> = keys.zip(&history).collect();
                sent.extend(order.iter().map(|(which, key)| (key.rotate_left(5), which.get(&history))));
                sent.sort_by_key(|(key, _)| *key);
                prop_assert_eq!(&fold(sent.into_iter().map(|(_, cells)| cells)), &expected);
            }
        }

        #[test]
        fn a_change_comes_to_the_same_without_what_it_erases_itself(before in change(), cells in change()) {
            prop_assert_eq!(fold([&before, &settled(cells.clone())]), fold([&before, &cells]));
        }
    }
}
