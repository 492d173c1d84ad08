//! Every generated fixture through the capture source and the decoder, against what its expected file says.
//!
//! The expected files are written by the generator, which shares no code with the product; nothing here rewrites them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use revsync::codec::{ColumnType, Content, Decoder, Journal, Options, Rows, TableOptions, Unit};
use revsync::metrics::{Notes, Skip};
use revsync::record::Bound;
use revsync::revision::{Cell, Change};
use revsync::source::capture::Capture;
use serde_json::value::RawValue;

pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name)
}

/// What the tables of the fixtures need beside their records.
fn table(name: &str) -> TableOptions {
    use ColumnType::{Base64, Boolean, Decimal, Double, Json, Long, String, TimestampMs};
    let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let types = [
        ("long", Long),
        ("double", Double),
        ("decimal", Decimal),
        ("boolean", Boolean),
        ("time", TimestampMs),
        ("bytes", Base64),
        ("json", Json),
        ("text", String),
    ];
    match name {
        "shop.item" => TableOptions { key: columns(&["sku"]), ..TableOptions::default() },
        "shop.typed" => TableOptions {
            key: columns(&["sku"]),
            types: types.map(|(name, column_type)| (name.to_owned(), column_type)).into(),
            ..TableOptions::default()
        },
        "shop.stock" => TableOptions { key: columns(&["shop", "sku"]), rows: Rows::Cells, ..TableOptions::default() },
        _ => TableOptions::default(),
    }
}

fn units(path: &Path) -> (Vec<Unit>, Notes) {
    units_with(None, path)
}

fn units_with(journal: Option<Journal>, path: &Path) -> (Vec<Unit>, Notes) {
    let mut capture = Capture::open(path.to_str().unwrap(), Bound::EndsAtStart).unwrap();
    let mut decoder = Decoder::new(Options { table: Box::new(table), journal, verify_hashes: true, ..Options::default() });
    let (mut units, mut notes) = (Vec::new(), Notes::default());
    while let Some(page) = capture.read(1 << 20).unwrap() {
        page.records.iter().for_each(|record| decoder.decode(record, &mut units, &mut notes));
    }
    (units, notes)
}

/// A unit as a line of an expected file.
pub(crate) fn line(unit: &Unit) -> String {
    match &unit.content {
        Content::Skip(reason) => format!(r#"{{"skip":"{}"}}"#, reason.as_str()),
        Content::Fault(fault) => format!(r#"{{"fault":"{}"}}"#, fault.kind),
        Content::Refused(error) => format!(r#"{{"refused":"{}"}}"#, error.what),
        Content::Block(block) => {
            let summary = std::str::from_utf8(block.summary.as_bytes()).unwrap();
            format!(r#"{{"block":"{}@{}","summary":{summary}}}"#, block.strand, block.sequence)
        }
        Content::Revision(revision) => {
            let (op, document) = match &revision.change {
                Change::Put(document) => ("put", format!(r#","document":{}"#, std::str::from_utf8(document.as_bytes()).unwrap())),
                Change::Delete => ("delete", String::new()),
                Change::Redaction => ("redaction", String::new()),
                Change::Cells(cells) => {
                    let cell = |cell: &Cell| {
                        format!(
                            r#"{{"name":"{}","version":{},"value":{}}}"#,
                            cell.name,
                            cell.version,
                            std::str::from_utf8(&cell.value).unwrap()
                        )
                    };
                    let columns: Vec<String> = cells.columns.iter().map(cell).collect();
                    let erased = cells.erased.map(|erased| format!(r#","erased":{erased}"#)).unwrap_or_default();
                    ("cells", format!(r#"{erased},"columns":[{}]"#, columns.join(",")))
                }
            };
            format!(r#"{{"{op}":{{"table":"{}","id":"{}","version":{}{document}}}}}"#, revision.table, revision.id, revision.version)
        }
    }
}

fn every_case_of(name: &str, at_least: usize) {
    let files: Vec<PathBuf> = fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut cases = 0;
    let mut wrong = Vec::new();
    for path in &files {
        let file = path.file_name().unwrap().to_str().unwrap();
        if file.ends_with(".expected.jsonl") {
            continue;
        }
        let case = file.split('.').next().unwrap();
        let expected = fs::read_to_string(path.with_file_name(format!("{case}.expected.jsonl"))).unwrap();
        let (units, notes) = units(path);
        let found: String = units.iter().map(|unit| line(unit) + "\n").collect();
        if found != expected {
            let shown = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
            wrong.push(format!("{file}: {} lines of {}, first {shown:?}", found.lines().count(), expected.lines().count()));
        }
        if notes.hashes_mismatched > 0 {
            wrong.push(format!("{file}: {} hashes do not match", notes.hashes_mismatched));
        }
        cases += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases >= at_least, "only {cases} cases");
}

#[test]
fn every_qldb_fixture_gives_the_units_that_it_should() {
    every_case_of("qldb", 60);
}

#[test]
fn every_kpl_fixture_gives_the_units_that_it_should() {
    every_case_of("kpl", 15);
}

#[test]
fn every_lindorm_fixture_gives_the_units_that_it_should() {
    every_case_of("lindorm", 20);
}

/// The data objects below a folder, in the order of their names.
fn objects(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .flat_map(|path| if path.is_dir() { objects(&path) } else { vec![path] })
        .filter(|path| !path.to_str().unwrap().ends_with(".manifest"))
        .collect();
    found.sort();
    found
}

#[test]
fn a_ledgers_stream_and_its_exports_of_every_output_format_give_the_units_that_they_should() {
    let of = |path: &Path| {
        let (units, notes) = units_with(Some(Journal { statements: true }), path);
        (units.iter().map(|unit| line(unit) + "\n").collect::<String>(), notes)
    };
    let expected = |name: &str| fs::read_to_string(folder("qldb-export").join(name)).unwrap();
    let (found, notes) = of(&folder("qldb-export/stream.10n"));
    assert_eq!(found, expected("stream.expected.jsonl"));
    assert_eq!((notes.hashes_verified, notes.hashes_mismatched, notes.hashes_unchecked), (10, 0, 1));
    // JSON has lost the types that a hash is made of.
    for (output, verified, unchecked) in [("ion-text", 10, 1), ("ion-binary", 10, 1), ("json", 0, 11)] {
        let files = objects(&folder("qldb-export").join(output));
        assert_eq!(files.len(), 2, "{output}");
        let (found, notes): (Vec<String>, Vec<Notes>) = files.iter().map(|path| of(path)).unzip();
        assert_eq!(found.concat(), expected("export.expected.jsonl"), "{output}");
        let hashes = |count: fn(&Notes) -> u64| notes.iter().map(count).sum::<u64>();
        let (checked, not_checked) = (hashes(|notes| notes.hashes_verified), hashes(|notes| notes.hashes_unchecked));
        assert_eq!((checked, not_checked, hashes(|notes| notes.hashes_mismatched)), (verified, unchecked, 0), "{output}");
    }
}

#[derive(serde::Deserialize)]
struct Recorded {
    counts: BTreeMap<String, usize>,
    person: BTreeMap<String, Document>,
    vehicle_registration: BTreeMap<String, Document>,
    deleted: BTreeMap<String, u64>,
}

#[derive(serde::Deserialize)]
struct Document {
    version: u64,
    source: Box<RawValue>,
}

#[test]
fn the_recorded_stream_folds_to_the_expected_documents_in_every_form() {
    let recorded: Recorded = serde_json::from_slice(&fs::read(folder("vehicle-registration/expected.json")).unwrap()).unwrap();
    let forms: Vec<PathBuf> = fs::read_dir(folder("vehicle-registration")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(forms.len(), 11);
    for form in forms.iter().filter(|path| !path.ends_with("expected.json")) {
        let (units, notes) = units(form);
        let mut counts = BTreeMap::from([("received".to_owned(), units.len())]);
        let mut newest: BTreeMap<&str, (u64, &str, Option<String>)> = BTreeMap::new();
        for unit in &units {
            let kind = match &unit.content {
                Content::Skip(Skip::Control) => "control",
                Content::Skip(Skip::BlockSummary) => "block_summary",
                Content::Revision(revision) => {
                    let (kind, content) = match &revision.change {
                        Change::Put(document) => ("puts", Some(String::from_utf8(document.as_bytes().to_vec()).unwrap())),
                        Change::Delete => ("deletes", None),
                        Change::Redaction => ("redacted", None),
                        Change::Cells(_) => panic!("a ledger has no cells"),
                    };
                    let known = newest.get(revision.id.as_str()).map(|(version, ..)| *version);
                    if kind != "redacted" && known.is_none_or(|known| revision.version > known) {
                        newest.insert(&revision.id, (revision.version, &revision.table, content));
                    }
                    kind
                }
                other => panic!("{}: {other:?}", form.display()),
            };
            *counts.entry(kind.to_owned()).or_default() += 1;
        }
        assert_eq!(counts, recorded.counts, "{}", form.display());
        let live =
            recorded.person.iter().map(|d| ("Person", d)).chain(recorded.vehicle_registration.iter().map(|d| ("VehicleRegistration", d)));
        let live = live.map(|(table, (id, document))| (id.as_str(), (document.version, table, Some(document.source.get().to_owned()))));
        let gone = recorded.deleted.iter().map(|(id, version)| (id.as_str(), *version));
        assert!(newest.iter().filter(|(_, (_, _, content))| content.is_none()).map(|(id, (version, ..))| (*id, *version)).eq(gone));
        newest.retain(|_, (_, _, content)| content.is_some());
        assert_eq!(newest, live.collect(), "{}", form.display());
        assert_eq!(notes.hashes_verified as usize, recorded.counts["puts"] + recorded.counts["redacted"]);
    }
}
