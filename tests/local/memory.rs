//! The most memory that a run of the command takes where nothing is slow: into the local index, and with records that would take many times
//! their size if they were decoded as they are.
//!
//! Each hostile record is some MiB long and stands in a line of its own between two good ones, which must arrive. Beside what any run takes,
//! it may hold itself, what it is read from, and a document. Before there were limits, these records took from 70 to 390 MiB.

use std::io::Write;
use std::process::Stdio;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use serde_json::{Value, json};

use crate::command::Folder;
use crate::peak::{BOUND, MIB, until_the_end};
use crate::qldb_stream::{Does, aggregate, binary, put, revision};

fn sync(folder: &Folder, arguments: &[&str]) -> (Value, usize) {
    measured(folder, &[&["sync"], arguments].concat())
}

/// Runs a command; gives its report and the most memory that it took. Without Linux nobody tells, and it says so and took none.
fn measured(folder: &Folder, arguments: &[&str]) -> (Value, usize) {
    let arguments = [&["--json"], arguments].concat();
    let mut running = folder.command(&arguments, &[]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let peak = until_the_end(&mut running);
    let output = running.wait_with_output().unwrap();
    if cfg!(target_os = "linux") {
        println!("{arguments:?}: {} MiB", peak / MIB);
    } else {
        eprintln!("not measured: only Linux tells the peak of a process that runs");
    }
    (serde_json::from_slice(&output.stdout).unwrap(), peak)
}

/// Runs a sync of this record between two good ones; gives what became of it, beside the two documents.
fn hostile(record: &[u8], more: &[&str]) -> Value {
    let folder = Folder::new();
    let good = |id: &str| [tables(&NAMES), details(id, &[])].concat();
    let line = |record: &[u8]| json!({"Data": STANDARD.encode(record)}).to_string() + "\n";
    folder.write("capture.jsonl", [line(&good("before")), line(record), line(&good("after"))].concat());
    let (mut report, peak) = sync(&folder, &[&["capture.jsonl", "--to", "bulk:lines"], more].concat());
    let written = String::from_utf8(folder.read("lines")).unwrap();
    assert!(written.contains("\"_id\":\"before\"") && written.contains("\"_id\":\"after\""), "{report}");
    // Base64 and record, twice the record for the time of a copy, and a document with a copy.
    let bound = 24 * MIB + 4 * record.len() + 2 * 9 * MIB;
    assert!(peak <= bound, "a record of {} bytes took {} MiB, may take {}", record.len(), peak / MIB, bound / MIB);
    report["indexed"] = (report["indexed"].as_u64().unwrap() - 2).into();
    report
}

/// The reasons of the dead letters that a run of this record leaves.
fn reasons(record: &[u8]) -> Vec<String> {
    let folder = Folder::new();
    folder.write("capture.jsonl", json!({"Data": STANDARD.encode(record)}).to_string());
    folder.revsync(&["--json", "sync", "capture.jsonl", "--to", "bulk:lines"]);
    let listed = folder.revsync(&["--json", "dead-letters", "list"]).json();
    listed["dead_letters"].as_array().unwrap().iter().map(|letter| letter["error"]["reason"].to_string()).collect()
}

/// A value of Ion binary: type, length and body.
fn value(kind: u8, body: &[u8]) -> Vec<u8> {
    let length =
        [(body.len() >> 21) as u8 & 0x7F, (body.len() >> 14) as u8 & 0x7F, (body.len() >> 7) as u8 & 0x7F, body.len() as u8 | 0x80];
    [&[kind << 4 | 14], &length[..], body].concat()
}

const MARKER: [u8; 4] = [0xE0, 0x01, 0x00, 0xEA];

/// The marker, and a table of these symbols from 10 on.
fn tables(symbols: &[&str]) -> Vec<u8> {
    let texts: Vec<u8> = symbols.iter().flat_map(|symbol| value(8, symbol.as_bytes())).collect();
    let table = value(13, &[&[0x87], &value(11, &texts)[..]].concat());
    [&MARKER[..], &value(14, &[&[0x81, 0x83], &table[..]].concat())].concat()
}

const NAMES: [&str; 11] =
    ["recordType", "REVISION_DETAILS", "payload", "tableInfo", "tableName", "revision", "data", "metadata", "id", "version", "hash"];

/// A revision of which the data has this body, by the numbers of `NAMES`.
fn details(id: &str, data: &[u8]) -> Vec<u8> {
    details_with(id, data, false)
}

/// The same, with a hash that is wrong.
fn details_with(id: &str, data: &[u8], hash: bool) -> Vec<u8> {
    let field = |name: &str, value: Vec<u8>| {
        let number = 10 + NAMES.iter().position(|known| *known == name).unwrap();
        [vec![0x80 | number as u8], value].concat()
    };
    let table_info = field("tableInfo", value(13, &field("tableName", value(8, b"T"))));
    let metadata = field("metadata", value(13, &[field("id", value(8, id.as_bytes())), field("version", vec![0x20])].concat()));
    let hash = if hash { field("hash", value(10, &[7; 32])) } else { Vec::new() };
    let revision = field("revision", value(13, &[field("data", value(13, data)), metadata, hash].concat()));
    value(13, &[field("recordType", vec![0x71, 11]), field("payload", value(13, &[table_info, revision].concat()))].concat())
}

fn text(data: &str) -> Vec<u8> {
    revision("T", "x", 0, &Does::Put(data.to_owned())).into_bytes()
}

#[test]
fn large_documents_into_the_local_index_stay_below_the_bound() {
    let folder = Folder::new();
    // Words that never come twice take most in a full-text index.
    let mut number = 0u64;
    let mut words = |bytes: usize| {
        let mut text = String::new();
        while text.len() < bytes {
            number += 1;
            text += &format!("{:x} ", number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        }
        text
    };
    let sizes = [1, 2, 8, 1, 4, 8, 2, 8, 1, 3];
    let records = sizes.iter().enumerate().map(|(at, size)| binary(&[revision("T", &format!("d{at}"), 0, &put(&words(size * MIB)))]));
    folder.write("capture.10n", records.collect::<Vec<_>>().concat());
    let (report, peak) = sync(&folder, &["capture.10n"]);
    assert_eq!(report["indexed"], sizes.len());
    assert!(peak <= BOUND, "{} MiB, may take {}", peak / MIB, BOUND / MIB);
}

#[test]
fn a_verify_of_more_documents_than_fit_into_memory_stays_below_the_bound() {
    let folder = Folder::new();
    folder.write("first.ion", text("{}"));
    assert_eq!(sync(&folder, &["first.ion"]).0["indexed"], 1);
    // Of every document the fold has the id, the differences have it too, and both are kept for the whole run.
    let documents = 30_000;
    let records = (0..documents).map(|number| revision("T", &format!("{number:0>500}"), 0, &put("x")) + "\n");
    folder.write("capture.ion", records.collect::<String>());
    let small = ["--request-bytes", "1MiB", "--requests-in-flight", "1"];
    let (report, peak) = measured(&folder, &[&["verify", "capture.ion", "--content"], &small[..]].concat());
    assert_eq!((&report["missing"], &report["foreign"]), (&json!(documents), &json!(1)));
    let bound = 20 * MIB;
    assert!(2 * 500 * documents > bound && peak <= bound, "{} MiB, may take {}", peak / MIB, bound / MIB);
}

#[test]
fn a_source_of_more_documents_than_fit_into_memory_is_folded_below_the_bound() {
    let folder = Folder::new();
    let (documents, again) = (24_000, 2_000);
    let of = |version, count| (0..count).map(move |number| revision("T", &format!("{number:0>500}"), version, &put("x")) + "\n");
    folder.write("capture.ion", of(0, documents).chain(of(1, again)).collect::<String>());
    let small = ["--request-bytes", "1MiB", "--requests-in-flight", "1"];
    let (report, peak) = sync(&folder, &[&["capture.ion", "--fold", "--to", "bulk:lines"], &small[..]].concat());
    assert_eq!((&report["indexed"], &report["compacted"]), (&json!(documents), &json!(again)));
    // Nothing of the fold: some 8 MiB. Its ids alone would take 12 MiB more.
    let bound = 16 * MIB;
    assert!(peak <= bound, "{} MiB, may take {}", peak / MIB, bound / MIB);
}

#[test]
fn an_aggregate_of_empty_records_takes_no_more_than_itself() {
    let body = [&[0x0A, 0x01, b'k'][..], &[0x1A, 0x04, 0x08, 0x00, 0x1A, 0x00].repeat(400_000)].concat();
    let empty = [&[0xF3, 0x89, 0x9A, 0xC2], &body[..], Md5::digest(&body).as_slice()].concat();
    let report = hostile(&empty, &[]);
    assert_eq!(report["skipped"]["no_change"], 400_000);
}

#[test]
fn an_aggregate_of_broken_records_is_a_bounded_number_of_dead_letters() {
    let good = binary(&[revision("T", "inside", 0, &put("good"))]);
    let whole = aggregate(&[good]);
    let body = [&whole[4..whole.len() - 16], &[0x1A, 0x00].repeat(1_000_000)].concat();
    let broken = [&[0xF3, 0x89, 0x9A, 0xC2], &body[..], Md5::digest(&body).as_slice()].concat();
    let report = hostile(&broken, &[]);
    assert_eq!((&report["indexed"], &report["dead_letters"]), (&json!(1), &json!(1_001)), "{report}");
}

#[test]
fn a_text_of_tiny_values_is_one_dead_letter() {
    for data in ["1,", "a::", "{},"] {
        let report = hostile(&text(&format!("{{v:[{}1]}}", data.repeat(3 * MIB / data.len()))), &[]);
        assert_eq!((&report["indexed"], &report["dead_letters"]), (&json!(0), &json!(1)), "{data}: {report}");
    }
    assert!(reasons(&text(&format!("{{v:[{}]}}", "1,".repeat(MIB))))[0].contains("at most 131072 values, names and annotations"));
}

#[test]
fn a_symbol_table_of_empty_texts_is_one_dead_letter() {
    let table = value(13, &[&[0x87], &value(11, &vec![0x80; 8 * MIB])[..]].concat());
    let record = [&MARKER[..], &value(14, &[&[0x81, 0x83], &table[..]].concat()), &[0x20]].concat();
    let report = hostile(&record, &[]);
    assert_eq!(report["dead_letters"], 1, "{report}");
    assert!(reasons(&record)[0].contains("at most 262144 symbols"));
}

#[test]
fn a_struct_of_millions_of_fields_is_one_dead_letter() {
    let record = [tables(&NAMES), details("x", &[0x8A, 0x20].repeat(4 * MIB))].concat();
    let report = hostile(&record, &[]);
    assert_eq!(report["dead_letters"], 1, "{report}");
    assert!(reasons(&record)[0].contains("at most 131072 fields"));
}

#[test]
fn hashing_a_list_of_millions_of_values_is_given_up() {
    let data = [&[0x90], &value(11, &vec![0x20; 4 * MIB])[..]].concat();
    let record = [tables(&NAMES), details_with("x", &data, true)].concat();
    let report = hostile(&record, &["--verify-hashes"]);
    assert_eq!((&report["indexed"], &report["dead_letters"]), (&json!(0), &json!(1)), "{report}");
    assert_eq!(hostile(&record, &[])["indexed"], 1, "where it is not to be hashed, it is no more than a list");
}

#[test]
fn tiny_values_without_number_in_one_record_take_no_more_than_it_does() {
    let control = [vec![0xD3, 0x8A, 0x71, 11]].concat();
    let record = [tables(&["recordType", "CONTROL"]), control.repeat(400_000)].concat();
    let report = hostile(&record, &[]);
    assert_eq!(report["skipped"]["control"], 400_000, "{report}");
}

#[test]
fn a_record_that_expands_to_many_large_documents_is_never_there_as_a_whole() {
    let symbol = "s".repeat(4_000);
    let names: Vec<&str> = NAMES.into_iter().chain([symbol.as_str()]).collect();
    let list = value(11, &[0x71, 21].repeat(2_000));
    let values: Vec<u8> = (0..24).flat_map(|id| details(&id.to_string(), &[&[0x90], &list[..]].concat())).collect();
    let record = [tables(&names), values].concat();
    assert!(record.len() * 1_000 < 24 * 8 * MIB, "{} bytes", record.len());
    let folder = Folder::new();
    folder.write("capture.jsonl", json!({"Data": STANDARD.encode(&record)}).to_string());
    let (report, peak) = sync(&folder, &["capture.jsonl", "--to", "bulk:lines"]);
    assert_eq!(report["indexed"], 24);
    assert!(folder.read("lines").len() > 24 * 7 * MIB);
    assert!(peak <= BOUND, "{} MiB, may take {}", peak / MIB, BOUND / MIB);
}

/// Runs a query whose rows go nowhere; gives what it said at its end, and the most memory that it took.
fn query(folder: &Folder, arguments: &[&str]) -> (String, usize) {
    let mut command = folder.command(&[&["query"], arguments].concat(), &[]);
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let peak = until_the_end(&mut running);
    let said = String::from_utf8(running.wait_with_output().unwrap().stderr).unwrap();
    println!("{arguments:?}: {} MiB, {said}", peak / MIB);
    (said, peak)
}

#[test]
fn a_query_of_a_large_capture_takes_as_much_as_one_of_a_small_one() {
    let block: Vec<u8> = (0..500).flat_map(|at| binary(&[revision("T", &format!("d{at}"), 0, &put(&"word ".repeat(400)))])).collect();
    let size = if std::env::var_os("REVSYNC_TEST_LONG").is_some_and(|value| value == "1") { 1024 * MIB } else { 48 * MIB };
    let times = size.div_ceil(block.len());
    let folder = Folder::new();
    let mut capture = std::io::BufWriter::new(std::fs::File::create(folder.path().join("capture.10n")).unwrap());
    (0..times).for_each(|_| capture.write_all(&block).unwrap());
    drop(capture.into_inner().unwrap());
    for (statement, rows) in
        [("SELECT * FROM stream", 500 * times), ("SELECT note FROM T WHERE note LIKE 'word%' AND metadata.id = 'd7'", times)]
    {
        for form in [&[][..], &["--csv"], &["--json"]] {
            let (said, peak) = query(&folder, &[&["capture.10n", statement], form].concat());
            let said: String = said.chars().filter(|c| *c != ',').collect();
            assert!(said.starts_with(&format!("complete: {rows} rows of {} revisions", 500 * times)), "{said}");
            assert!(peak <= 16 * MIB, "{} MiB", peak / MIB);
        }
    }
}

#[test]
fn a_query_of_a_record_that_expands_to_many_large_documents_never_has_it_as_a_whole() {
    let symbol = "s".repeat(4_000);
    let names: Vec<&str> = NAMES.into_iter().chain([symbol.as_str()]).collect();
    let list = value(11, &[0x71, 21].repeat(2_000));
    let values: Vec<u8> = (0..24).flat_map(|id| details(&id.to_string(), &[&[0x90], &list[..]].concat())).collect();
    let folder = Folder::new();
    folder.write("capture.jsonl", json!({"Data": STANDARD.encode([tables(&names), values].concat())}).to_string());
    for form in [&[][..], &["--csv"], &["--json"]] {
        let (said, peak) = query(&folder, &[&["capture.jsonl", "SELECT * FROM stream"], form].concat());
        assert!(said.starts_with("complete: 24 rows of 24 revisions, 1 record"), "{said}");
        assert!(peak <= BOUND, "{} MiB, may take {}", peak / MIB, BOUND / MIB);
    }
}

#[test]
fn the_blocks_of_a_long_journal_stay_below_the_bound() {
    let folder = Folder::new();
    let size = if std::env::var_os("REVSYNC_TEST_LONG").is_some_and(|value| value == "1") { 1_000_000 } else { 20_000 };
    let mut out = std::io::BufWriter::new(std::fs::File::create(folder.path().join("s.ion")).unwrap());
    for number in 0..size {
        // Every second block is missing, and so its revision waits for it.
        let place = format!(r#"blockAddress:{{strandId:"7sWdNf0uQxB4mJkTzL1eRg",sequenceNo:{number}}}"#);
        let hash = STANDARD.encode(format!("{number:032}"));
        if number % 2 == 0 {
            let hashes = format!("blockHash:{{{{{hash}}}}},previousBlockHash:{{{{{hash}}}}}");
            let summaries = format!(r#"revisionSummaries:[{{hash:{{{{{hash}}}}},documentId:"d{number}"}}]"#);
            writeln!(out, r#"{{recordType:"BLOCK_SUMMARY",payload:{{{place},transactionId:"t",{hashes},{summaries}}}}}"#).unwrap();
        }
        let revision = format!(r#"{{{place},hash:{{{{{hash}}}}},metadata:{{id:"d{number}",version:0}}}}"#);
        writeln!(out, r#"{{recordType:"REVISION_DETAILS",payload:{{revision:{revision}}}}}"#).unwrap();
    }
    drop(out);
    let (report, peak) = measured(&folder, &["journal", "s.ion"]);
    assert_eq!((&report["blocks"], &report["revisions_without_block"]), (&json!(size / 2), &json!(size / 2)), "{report}");
    assert!(peak < 64 * MIB, "took {} MiB", peak / MIB);
}
