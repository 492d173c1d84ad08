//! An archive of a ledger: the newest revisions, every revision, and the journal, from a stream and from exports of every output format.
//!
//! What an index holds is read from its file, so that nothing that the product says of itself is relied upon.

use std::path::Path;

use rusqlite::Connection;

use crate::command::{Done, Folder};
use crate::ledger::{Kind, Ledger, OUTPUTS, Output};

/// All three kinds of index at once.
const RULES: &str = r#"
[journal]
index = "journal"
statements = true

[[table]]
name = "*"
redactions = "erase"

[[table]]
name = "*"
mode = "history"
"#;

/// A document that an index holds: the index, the id, the version, and the text; none where a delete is remembered.
type Row = (String, String, u64, Option<String>);

/// Everything that a local index holds, in one order.
fn rows(folder: &Folder) -> Vec<Row> {
    let connection = Connection::open(folder.path().join("index.db")).unwrap();
    let mut statement = connection
        .prepare("SELECT name, id, version, source FROM documents JOIN indices ON indices.key = documents.index_key ORDER BY name, id")
        .unwrap();
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    statement.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap()
}

fn sync(folder: &Folder, source: &str) -> Done {
    folder.write("rules.toml", RULES);
    let arguments = ["--json", "--config", "rules.toml", "sync", source, "--to", "local:index.db"];
    let done = folder.revsync(&arguments).balanced();
    assert_eq!(done.exit, 0, "{done:?}");
    done
}

/// The records as a file of captured records.
fn capture(folder: &Folder, records: &[Vec<u8>]) {
    folder.write("capture.10n", records.concat());
}

/// What comes of an export.
fn exported(ledger: &Ledger, output: Output) -> (Vec<Row>, Done) {
    let folder = Folder::new();
    ledger.export(&folder.path().join("export"), output, 90);
    let done = sync(&folder, "export");
    (rows(&folder), done)
}

#[test]
fn a_stream_and_its_exports_in_every_output_format_come_to_the_same_three_indices() {
    let ledger = Ledger::new(9, 1_000);
    let folder = Folder::new();
    capture(&folder, &ledger.shuffled(4, 2));
    sync(&folder, "capture.10n");
    let expected = rows(&folder);
    let of = |suffix: &str| expected.iter().filter(|(index, ..)| index.ends_with(suffix)).count();
    assert_eq!((of("journal"), of("_history")), (1_000, ledger.revisions().count()));
    assert_eq!(expected.len() - of("journal") - of("_history"), ledger.latest().len());
    let (erased, deleted) = (ledger.revisions().filter(|r| matches!(r.kind, Kind::Redacted)), ledger.latest());
    assert!(erased.count() > 0 && deleted.values().any(|revision| revision.kind == Kind::Delete), "the ledger has everything");
    for output in OUTPUTS {
        let (found, _) = exported(&ledger, output);
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "{output:?}");
        }
        assert_eq!(found.len(), expected.len(), "{output:?}");
    }
}

#[test]
fn the_content_of_a_redacted_revision_is_in_no_index_once_the_redaction_was_seen() {
    let ledger = Ledger::new(9, 1_000);
    let before = ledger.before_redactions();
    let folder = Folder::new();
    capture(&folder, &before.stream());
    sync(&folder, "capture.10n");
    let held = rows(&folder);
    ledger.export(&folder.path().join("export"), Output::IonBinary, 90);
    sync(&folder, "export");
    let after = rows(&folder);
    for revision in ledger.revisions().filter(|revision| matches!(revision.kind, Kind::Redacted)) {
        let id = format!("{}@{}", revision.id, revision.version);
        let of = |rows: &[Row]| rows.iter().find(|(_, held, ..)| *held == id).and_then(|(.., source)| source.clone()).unwrap();
        assert!(of(&held).contains(r#""op":"index""#) && of(&after).contains(r#""op":"redacted""#), "{id}");
    }
    // Delivered again, the old content changes nothing.
    sync(&folder, "capture.10n");
    assert_eq!(rows(&folder), after);
}

#[test]
fn the_three_indices_are_equal_to_their_source_and_what_is_wrong_with_them_is_found_and_mended() {
    let ledger = Ledger::new(3, 60);
    let folder = Folder::new();
    ledger.export(&folder.path().join("export"), Output::IonText, 20);
    sync(&folder, "export");
    let verify = |more: &[&str]| {
        let arguments =
            [&["--json", "--config", "rules.toml", "verify", "export", "--to", "local:index.db", "--content"][..], more].concat();
        folder.revsync(&arguments)
    };
    let equal = verify(&[]);
    assert_eq!(equal.exit, 0, "{equal:?}");
    let expected = rows(&folder);
    damage(&folder.path().join("index.db"));
    let different = verify(&[]);
    assert_eq!(different.exit, 1, "{different:?}");
    let mended = verify(&["--repair"]);
    assert_eq!(mended.exit, 0, "{mended:?}");
    assert_eq!(rows(&folder), expected);
}

/// Takes a document out of each kind of index, and changes the content of another.
fn damage(path: &Path) {
    let connection = Connection::open(path).unwrap();
    for index in ["journal", "person", "person_history"] {
        let of = format!("index_key = (SELECT key FROM indices WHERE name = '{index}') AND source IS NOT NULL");
        connection.execute(&format!("DELETE FROM documents WHERE key = (SELECT min(key) FROM documents WHERE {of})"), []).unwrap();
        let changed = format!("UPDATE documents SET source = '{{\"a\":1}}' WHERE key = (SELECT max(key) FROM documents WHERE {of})");
        connection.execute(&changed, []).unwrap();
    }
}
