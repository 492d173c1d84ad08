//! Damaged records: every fixture cut, flipped, spliced and stretched, and texts that nest without an end.
//!
//! Whatever comes in, a record becomes at least one unit, without a panic, and no more is written than was asked for. The same damage on every
//! run; a hundred times as much with `REVSYNC_TEST_LONG=1`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use revsync::codec::ion_json::Rules;
use revsync::codec::{ColumnType, Content, Decoder, Format, Journal, Metadata, Options, Rows, TableOptions, Unit, Versions};
use revsync::metrics::Notes;
use revsync::record::{Origin, Position, Record};
use revsync::revision::Change;
use revsync::source::capture::Capture;
use serde_json::value::RawValue;

/// Numbers that look like chance and are the same every time (SplitMix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// The files in a folder and below it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The records of every fixture: as the sources frame them, and whole files.
fn corpus() -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    for folder in ["qldb", "qldb-export", "kpl", "lindorm", "debezium"] {
        let mut files = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(folder));
        files.sort();
        for file in files
            .iter()
            .filter(|file| ![".expected.jsonl", ".keys.jsonl", ".manifest"].iter().any(|end| file.to_str().unwrap().ends_with(end)))
        {
            let mut capture = Capture::open(file.to_str().unwrap(), revsync::record::Bound::EndsAtStart).unwrap();
            while let Some(page) = capture.read(1 << 20).unwrap() {
                records.extend(page.records.iter().map(|record| record.data.to_vec()));
            }
            if file.extension().is_some_and(|ending| ending == "ion" || ending == "bin" || ending == "10n") {
                records.push(fs::read(file).unwrap());
            }
        }
    }
    records.retain(|record| record.len() <= 8 * 1024);
    records.sort();
    records.dedup();
    records
}

/// What damage is written into: bytes that mean something to a format.
const TELLING: [&[u8]; 42] = [
    b"\xE0\x01\x00\xEA",
    b"\xF3\x89\x9A\xC2",
    b"\x00",
    b"\xFF",
    b"\x0E",
    b"\x8E",
    b"\xDE\xFF\xFF",
    b"\xEE\x83\x81\x83",
    b"\x71\x03",
    b"\x7F",
    b"\x80",
    b"{",
    b"}",
    b"[",
    b"(",
    b"\"",
    b"'",
    b"'''",
    b"{{",
    b"\\",
    b"::",
    b"//",
    b"/*",
    b"$99",
    b"]",
    b"null",
    b"\"\"",
    b"-1",
    b"\\ud800",
    b"\\u00",
    b"\"op\":\"Put\",",
    b"\"data\":[",
    b"\"payload\":{",
    b"\"source\":{",
    b"{\"name\":\"sku\",\"ts\":9,\"value\":7},",
    b"\"ts\":9223372036854775807,",
    b"\"table\":\"shop.stock\",",
    b"\"blockAddress\":{",
    b"revisions:[{},",
    b"documents:{a:{tableName:T,statements:[0,",
    b"metadata:{id:a},",
    b"4e-2",
];

fn damage(record: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    let at = chance.below(record.len() + 1);
    let length = chance.below(16).min(record.len() - at);
    match chance.below(8) {
        0 if at < record.len() => record[at] ^= 1 << chance.below(8),
        1 if at < record.len() => record[at] = chance.next() as u8,
        2 => record.truncate(at),
        3 => drop(record.drain(at..at + length)),
        4 => {
            let again = record[at..at + length].repeat(1 + chance.below(4));
            record.splice(at..at, again);
        }
        5 => {
            let from = chance.below(other.len());
            record.splice(at..at + length, other[from..].iter().take(64).copied());
        }
        6 => {
            record.splice(at..at, TELLING[chance.below(TELLING.len())].iter().copied());
        }
        _ => {
            let bytes: Vec<u8> = (0..chance.below(6)).map(|_| chance.next() as u8).collect();
            record.splice(at..at, bytes);
        }
    }
}

const LIMIT: usize = 4 * 1024;

fn decode(data: &[u8]) -> Vec<Unit> {
    let types = [ColumnType::Long, ColumnType::Decimal, ColumnType::TimestampMs, ColumnType::Json];
    let options = Options {
        format: [Format::Auto, Format::Lindorm, Format::Auto, Format::Debezium][data.len() % 4],
        versions: if data.len().is_multiple_of(3) { Versions::Timestamp } else { Versions::Sound },
        table: Box::new(move |table| TableOptions {
            rules: Rules { limit: LIMIT, ..Rules::default() },
            metadata: [Metadata::None, Metadata::Field, Metadata::Committed][table.len() % 3],
            key: if table.len() % 3 == 0 { vec![] } else { vec!["sku".to_owned()] },
            rows: if table.ends_with("stock") { Rows::Cells } else { Rows::Full },
            types: [("f:stock".to_owned(), types[table.len() % 4])].into(),
            ..TableOptions::default()
        }),
        journal: (!data.len().is_multiple_of(5)).then_some(Journal { statements: data.len().is_multiple_of(2) }),
        verify_hashes: data.len().is_multiple_of(2),
    };
    let origin = Arc::new(Origin { stream: String::new(), shard: String::new() });
    let record = Record {
        origin,
        position: Position::Byte { offset: 0 },
        data: Bytes::copy_from_slice(data),
        arrived: None,
        damage: None,
        message: None,
    };
    let mut units = Vec::new();
    Decoder::new(options).decode(&record, &mut units, &mut Notes::default());
    units
}

fn check(data: &[u8]) {
    let units = decode(data);
    assert!(!units.is_empty(), "{data:02X?}");
    assert!(units.len() <= data.len().max(1) + 1, "{} units of {} bytes", units.len(), data.len());
    for unit in &units {
        if let Content::Block(block) = &unit.content {
            let text = std::str::from_utf8(block.summary.as_bytes()).unwrap();
            assert!(!block.strand.is_empty() && text.starts_with('{') && !text.contains(['\n', '\r']), "{text}");
            assert!(serde_json::from_str::<&RawValue>(text).is_ok(), "{text}");
        }
        if let Content::Revision(revision) = &unit.content {
            assert!(!revision.id.is_empty() && !revision.table.is_empty());
            let document = if let Change::Put(document) = &revision.change { Some((document, LIMIT)) } else { None };
            // Of the source's metadata each of four values may be as long, beside table and id.
            let metadata = revision.metadata.as_ref().map(|metadata| (metadata, 4 * LIMIT + 12 * data.len() + 200));
            if let Change::Cells(cells) = &revision.change {
                assert!(cells.columns.iter().map(|cell| cell.value.len()).sum::<usize>() <= LIMIT);
                assert!(cells.columns.is_sorted_by(|one, other| one.name < other.name), "each name once, in their order");
                assert!(cells.columns.iter().all(|cell| serde_json::from_slice::<&RawValue>(&cell.value).is_ok()));
            }
            for (document, limit) in document.into_iter().chain(metadata) {
                let text = std::str::from_utf8(document.as_bytes()).unwrap();
                assert!(text.len() <= limit, "{} bytes", text.len());
                assert!(text.starts_with('{') && !text.contains(['\n', '\r']), "{text}");
                assert!(serde_json::from_str::<&RawValue>(text).is_ok(), "{text}");
            }
        }
    }
}

fn cases(few: usize) -> usize {
    if std::env::var_os("REVSYNC_TEST_LONG").is_some_and(|value| value == "1") { few * 100 } else { few }
}

#[test]
fn damaged_fixtures_are_faults_and_nothing_worse() {
    let corpus = corpus();
    assert!(corpus.len() > 60, "{} records", corpus.len());
    corpus.iter().for_each(|record| check(record));
    let mut chance = Chance(1);
    for case in 0..cases(4_000) {
        let mut record = corpus[case % corpus.len()].clone();
        for _ in 0..=chance.below(3) {
            let other = chance.below(corpus.len());
            damage(&mut record, &corpus[other], &mut chance);
        }
        check(&record);
    }
}

#[test]
fn every_beginning_of_a_record_is_read() {
    let corpus = corpus();
    let step = 1 + corpus.iter().map(Vec::len).sum::<usize>() / cases(3_000);
    for record in &corpus {
        for length in (0..record.len()).step_by(step) {
            check(&record[..length]);
        }
    }
}

#[test]
fn what_nests_without_an_end_is_refused_before_it_is_followed() {
    let text = [
        "[", "(", "{a:", "x::[", "'a'::(", "{'a':", "{\"a\":[", "[1,", "(+ (", "{a:1,b:", "/**/[", "[\n", "{{", "[{{", "'''", "x::",
        "{a:x::{", "[\"", "/*", "//", "[//",
    ];
    let rows = |value: &str| {
        format!(
            "{{\"op\":\"Put\",\"table\":\"shop.item\",\"ts\":1,\"data\":[{{\"name\":\"sku\",\"value\":1}},{{\"name\":\"f:stock\",\"value\":{value}}}]}}"
        )
    };
    for part in text {
        for times in [50, 80, 300, 20_000] {
            let open = part.repeat(times);
            check(open.as_bytes());
            check(format!("{open}1{}", "]".repeat(times)).as_bytes());
            check(rows(&open).as_bytes());
            check(rows(&format!("{open}1{}", "]".repeat(times))).as_bytes());
            check(
                format!("{{recordType:\"REVISION_DETAILS\",payload:{{tableInfo:{{tableName:\"T\"}},revision:{{data:{{v:{open}").as_bytes(),
            );
        }
    }
    for descriptor in [0xBEu8, 0xCE, 0xDE, 0xEE] {
        let mut value = vec![0x20];
        for _ in 0..4_000 {
            let name: &[u8] = match descriptor {
                0xDE => &[0x84],
                0xEE => &[0x81, 0x84],
                _ => &[],
            };
            let length = name.len() + value.len();
            let head = [descriptor, (length >> 14) as u8, (length >> 7 & 0x7F) as u8, (length & 0x7F) as u8 | 0x80];
            value = [&head[..], name, &value].concat();
        }
        check(&[&[0xE0, 0x01, 0x00, 0xEA][..], &value].concat());
    }
}

#[test]
fn a_record_costs_no_more_than_its_length() {
    let revision = |v: &str| {
        format!(
            "{{recordType:\"REVISION_DETAILS\",payload:{{tableInfo:{{tableName:\"T\"}},revision:{{data:{{v:{v}}},metadata:{{id:\"a\",version:0}}}}}}}}"
        )
    };
    // Each of these is long where something could be counted twice over; a quadratic step would take minutes here.
    for part in [
        "1 ",
        "a::",
        "'''a''' ",
        "/**/",
        "\\n",
        "{a:1} ",
        "1,",
        "a:1,",
        "$ion_1_0 ",
        "$ion_symbol_table::{symbols:[\"a\"]} ",
        "{recordType:\"CONTROL\"} ",
        "_",
        "1_0",
        "7",
        "0.",
        "AAAA",
        "{\"name\":\"a\"},",
        "\\ud800",
        "[",
        "{\"a\":",
        "{statements:[0]},",
        "{metadata:{id:\"a\",version:0}},",
    ] {
        let many = part.repeat(20_000);
        let block = |rest: &str| format!("{{blockAddress:{{strandId:\"s\",sequenceNo:0}},transactionId:\"t\",{rest}}}");
        let put = |columns: &str| {
            format!("{{\"op\":\"Put\",\"table\":\"shop.item\",\"ts\":1,\"data\":[{columns}{{\"name\":\"sku\",\"value\":1}}]}}")
        };
        for text in [
            many.clone(),
            put(&many),
            put(&format!("{{\"name\":\"a\",\"value\":[{many}1]}},")),
            put(&format!("{{\"name\":\"a\",\"value\":\"{many}\"}},")),
            revision(&format!("[{many}1]")),
            revision(&format!("{{{many}b:1}}")),
            revision(&format!("\"{many}\"")),
            revision(&format!("{{{{{many}}}}}")),
            block(&format!("transactionInfo:{{documents:{{a:{{tableName:T}}}}}},revisions:[{many}]")),
            block(&format!("transactionInfo:{{statements:[{many}],documents:{{{many}}}}},revisions:[]")),
            block(&format!("transactionInfo:{{documents:{{a:{{tableName:T,statements:[{many}]}}}}}},revisions:[]")),
            format!("{{\"blockAddress\":{{}},\"transactionId\":\"t\",\"revisions\":[{many}{{}}]}}"),
        ] {
            check(text.as_bytes());
        }
    }
}
