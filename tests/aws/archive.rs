//! A journal export in S3 that is far larger than memory: read in bounded memory, and gone on with where a run was killed.
//!
//! Generated, and sparse in content: each document is a number and a text that says nothing, which a rule leaves out. 64 MiB, or 10 GiB with
//! `REVSYNC_TEST_LONG=1`, which the emulator keeps in its memory.

use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use ion_rs::Element;
use ion_rs::v1_0::Binary;
use rusqlite::{Connection, OpenFlags};

use crate::aws::{CREDENTIALS, Emulator, emulator};
use crate::command::Folder;
use crate::peak::{BOUND, MIB, until_the_end};

/// Documents of a block; no transaction of a ledger has more.
const DOCUMENTS: usize = 40;
/// Bytes of the text of a document: near the most that a document may have.
const FILLER: usize = 100_000;
const BLOCKS_PER_FILE: usize = 4;
const STRAND: &str = "7sWdNf0uQxB4mJkTzL1eRg";
/// Stands for a block's number in the template: an integer of 4 bytes, as all of them are.
const NUMBER: [u8; 5] = [0x24, 0x5A, 0x5A, 0x5A, 0x5A];
/// The number of the first block.
const FIRST: u32 = 0x1000_0000;
const RULES: &str = "[[table]]\nname = \"*\"\nfields = [\"Number\"]\n";

/// The id of a document in the template.
fn placeholder(place: usize) -> String {
    format!("placeholder-{place:010}")
}

fn id(block: usize, place: usize) -> String {
    format!("document-{block:08}-{place:04}")
}

/// A block in Ion binary, in which ids and numbers are placeholders.
fn template() -> Vec<u8> {
    let filler = "-".repeat(FILLER);
    let address = format!("{{strandId:\"{STRAND}\",sequenceNo:{}}}", 0x5A5A_5A5A);
    let (mut documents, mut revisions) = (String::new(), String::new());
    for place in 0..DOCUMENTS {
        let id = placeholder(place);
        documents += &format!("'{id}':{{tableName:\"Item\",tableId:\"0cVbZr5NnLt2KyWqHs8DfX\",statements:[0]}},");
        revisions += &format!(
            "{{blockAddress:{address},hash:{{{{}}}},data:{{Number:{place},Filler:\"{filler}\"}},metadata:{{id:\"{id}\",version:0,\
             txTime:2020-03-01T08:15:30.250Z,txId:\"9fKc2WqLr7D0xVtJm4HsNe\"}}}},"
        );
    }
    let block = format!(
        "{{blockAddress:{address},transactionId:\"9fKc2WqLr7D0xVtJm4HsNe\",blockTimestamp:2020-03-01T08:15:30.250Z,\
         transactionInfo:{{statements:[],documents:{{{documents}}}}},revisions:[{revisions}]}}"
    );
    Element::read_one(block).unwrap().encode_as(Binary).unwrap()
}

/// Where the placeholders are, and what stands there in a block.
struct Blocks {
    template: Vec<u8>,
    numbers: Vec<usize>,
    ids: Vec<(usize, usize)>,
}

impl Blocks {
    fn new() -> Self {
        let template = template();
        let find = |what: &[u8]| memchr::memmem::find_iter(&template, what).collect::<Vec<_>>();
        let numbers = find(&NUMBER);
        let of = |place| find(placeholder(place).as_bytes()).into_iter().map(move |at| (at, place));
        let ids: Vec<_> = (0..DOCUMENTS).flat_map(of).collect();
        assert_eq!((numbers.len(), ids.len()), (DOCUMENTS + 1, 2 * DOCUMENTS));
        Self { template, numbers, ids }
    }

    fn block(&self, number: usize) -> Vec<u8> {
        let mut block = self.template.clone();
        for at in &self.numbers {
            block[at + 1..at + 5].copy_from_slice(&(FIRST + number as u32).to_be_bytes());
        }
        for (at, place) in &self.ids {
            block[*at..at + 22].copy_from_slice(id(number, *place).as_bytes());
        }
        block
    }
}

/// Puts an export of at least so many bytes into a bucket; its place, and how many documents it has.
fn export(emulator: &Emulator, bytes: usize) -> (String, usize) {
    let bucket = emulator.bucket(&emulator.name("archive"));
    let blocks = Blocks::new();
    let count = bytes.div_ceil(blocks.template.len() * BLOCKS_PER_FILE) * BLOCKS_PER_FILE;
    let mut keys = Vec::new();
    for first in (0..count).step_by(BLOCKS_PER_FILE) {
        let numbers = first..first + BLOCKS_PER_FILE;
        let body: Vec<u8> = numbers.clone().flat_map(|number| blocks.block(number)).collect();
        let of = |number: usize| FIRST as usize + number;
        let key = format!("journal.v1/2020/03/01/08/{STRAND}.{}-{}.ion", of(first), of(numbers.end - 1));
        emulator.put(&bucket, &key, &body);
        keys.push(format!("{key:?}"));
    }
    let started =
        "{ledgerName:\"shop\",exportId:\"5tQm0aVxkLs7WnYb2Re8dH\",bucket:\"archive\",prefix:\"journal.v1\",outputFormat:\"ION_BINARY\"}";
    let completed = format!("{{keys:[{}]}}", keys.join(","));
    for (name, text) in [("started", started), (&format!("{STRAND}.completed"), &completed)] {
        let manifest = Element::read_one(text).unwrap().encode_as(Binary).unwrap();
        emulator.put(&bucket, &format!("journal.v1/5tQm0aVxkLs7WnYb2Re8dH.{name}.manifest"), &manifest);
    }
    (emulator.bucket_place(&bucket).replace('?', "/journal.v1?"), count * DOCUMENTS)
}

/// How many documents the index holds now.
fn held(folder: &Folder) -> usize {
    let held = || {
        let index = Connection::open_with_flags(folder.path().join("index.db"), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        index.query_row("SELECT count(*) FROM documents", [], |row| row.get(0))
    };
    held().unwrap_or(0)
}

#[test]
fn an_export_far_larger_than_memory_is_indexed_from_s3_and_gone_on_with_where_a_run_was_killed() {
    let Some(emulator) = emulator() else { return };
    let bytes = if std::env::var("REVSYNC_TEST_LONG").is_ok_and(|long| long == "1") { 10 << 30 } else { 64 * MIB };
    let (place, documents) = export(emulator, bytes);
    let folder = Folder::new();
    folder.write("rules.toml", RULES);
    let arguments = ["--json", "--config", "rules.toml", "sync", &place, "--to", "local:index.db", "--resume"];
    let mut killed = folder.command(&arguments, &CREDENTIALS).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while held(&folder) < documents / 2 {
        assert!(killed.try_wait().unwrap().is_none(), "it ended before it could be killed");
        sleep(Duration::from_millis(5));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let before = held(&folder);
    assert!(before < documents, "it was over before it could be killed");
    let mut run = folder.command(&arguments, &CREDENTIALS).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let peak = until_the_end(&mut run);
    let output = run.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let count = |name: &str| report[name].as_u64().unwrap() as usize;
    assert_eq!((held(&folder), count("indexed")), (documents, documents - before), "{report}");
    println!("{documents} documents, {before} before it was killed, then {} stale and {} MiB; {said}", count("stale"), peak / MIB);
    assert!(peak <= BOUND, "{} MiB, may take {}", peak / MIB, BOUND / MIB);
    if bytes > 64 * MIB {
        // It is saved about once a second, which is all of a small export.
        assert!(count("stale") < before / 2, "{report}");
    }
}
