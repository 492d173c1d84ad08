//! The index of the journal, from a stream and from exports, end to end.

use std::collections::BTreeMap;

use revsync::sink::local::Local;
use serde_json::Value;

use crate::command::{Folder, fixture};
use crate::ledger::{Ledger, OUTPUTS};

/// Every document of an index: id, version, source.
fn held(folder: &Folder, index: &str) -> BTreeMap<String, (u64, String)> {
    let local = Local::open_existing(&folder.path().join("revsync.db")).unwrap();
    let hits = local.search("*", Some(index), usize::MAX).unwrap();
    hits.into_iter().map(|hit| local.get(index, &hit.id).unwrap().map(|document| (hit.id, document)).unwrap()).collect()
}

fn ids_found(folder: &Folder, word: &str) -> Vec<String> {
    let found = folder.revsync(&["--json", "search", word]).json();
    let hits = found["hits"].as_array().unwrap().iter();
    hits.map(|hit| format!("{}/{}", hit["index"].as_str().unwrap(), hit["id"].as_str().unwrap())).collect()
}

#[test]
fn a_block_is_found_by_a_word_of_its_statement_where_statements_were_asked_for() {
    let stream = fixture("qldb/documentation.10n");
    let folder = Folder::new();
    let done = folder.revsync(&["--json", "sync", &stream, "--journal", "journal", "--statements"]).balanced();
    assert_eq!((done.exit, done.count("indexed"), &done.json()["skipped"]["block_summary"]), (0, 2, &Value::Null), "{done:?}");
    let blocks = held(&folder, "journal");
    let (id, (version, source)) = blocks.first_key_value().unwrap();
    let block: Value = serde_json::from_str(source).unwrap();
    assert_eq!(*id, format!("{}@{version}", block["strandId"].as_str().unwrap()));
    assert_eq!(block["statements"][0]["statement"], "INSERT INTO VehicleRegistration ?");
    assert_eq!(ids_found(&folder, "insert"), [format!("journal/{id}")]);

    let without = Folder::new();
    assert_eq!(without.revsync(&["sync", &stream, "--journal", "journal"]).exit, 0);
    assert_eq!(ids_found(&without, "insert"), [] as [&str; 0]);
    assert!(!held(&without, "journal").first_key_value().unwrap().1.1.contains("INSERT"));
}

#[test]
fn a_block_of_an_export_is_found_by_a_word_of_its_statement() {
    for output in ["ion-text", "ion-binary", "json"] {
        let folder = Folder::new();
        let file = fixture(&format!("qldb-export/{output}/journal.v1/shop/2024/04/02/09/1arMVLUsINkMmKodmsjQ20.0-6.{}", ending(output)));
        let done = folder.revsync(&["--json", "sync", &file, "--journal", "journal", "--statements"]).balanced();
        assert_eq!((done.exit, done.count("received"), done.count("dead_letters")), (0, 16, 0), "{output}: {done:?}");
        assert_eq!(ids_found(&folder, "\"INSERT INTO r.Owners.SecondaryOwners\""), ["journal/1arMVLUsINkMmKodmsjQ20@4"], "{output}");
    }
}

fn ending(output: &str) -> &str {
    if output == "json" { "json" } else { "ion" }
}

#[test]
fn without_a_name_for_it_there_is_no_journal_index() {
    let folder = Folder::new();
    let done = folder.revsync(&["--json", "sync", &fixture("qldb/documentation.10n"), "--statements"]).balanced();
    assert_eq!((done.count("indexed"), &done.json()["skipped"]["block_summary"]), (1, &Value::from(1)), "{done:?}");
}

#[test]
fn the_configuration_names_the_index_of_the_journal_too() {
    let folder = Folder::new();
    folder.write("revsync.toml", "[journal]\nindex = \"blocks\"\nstatements = true\n");
    let done = folder.revsync(&["--json", "--config", "revsync.toml", "sync", &fixture("qldb/documentation.10n")]).balanced();
    assert_eq!(done.count("indexed"), 2, "{done:?}");
    assert_eq!(held(&folder, "blocks").len(), 1);
    assert_eq!(ids_found(&folder, "insert").len(), 1);
}

#[test]
fn explain_says_what_becomes_of_a_block_and_sends_nothing() {
    let folder = Folder::new();
    let stream = fixture("qldb/documentation.ion");
    let done = folder.revsync(&["explain", &stream, "--journal", "journal", "--statements"]);
    let block = done.out.lines().nth(1).unwrap();
    assert!(
        block.contains(": index journal/") && block.contains(" bytes as JSON") && block.contains(": a block of the journal, "),
        "{block}"
    );
    assert!(!done.out.contains("INSERT"), "{done:?}");
    let done = folder.revsync(&["explain", &stream]);
    let skipped = "skip: block_summary, the journal's own bookkeeping; --journal gives it an index of its own";
    assert!(done.out.lines().nth(1).unwrap().ends_with(skipped), "{done:?}");
    assert!(!folder.path().join("revsync.db").exists());
}

#[test]
fn a_table_and_the_journal_that_come_to_one_index_stop_the_run() {
    let folder = Folder::new();
    let done = folder.revsync(&["sync", &fixture("qldb/documentation.10n"), "--journal", "vehicle_registration"]);
    assert_eq!(done.exit, 2, "{done:?}");
    assert!(done.err.contains("the table \"VehicleRegistration\" and the journal both come to the index"), "{done:?}");
    let done = folder.revsync(&["sync", &fixture("qldb/documentation.10n"), "--journal", "Journal"]);
    assert!(done.exit == 2 && done.err.contains("journal: index: "), "{done:?}");
}

#[test]
fn a_rule_and_the_journal_that_name_one_index_are_refused_before_anything_is_read() {
    let folder = Folder::new();
    folder.write("revsync.toml", "[journal]\nindex = \"car_history\"\n[[table]]\nname = \"Car\"\nmode = \"history\"\n");
    let checked = folder.revsync(&["--config", "revsync.toml", "check"]);
    assert!(checked.out.contains("a rule and the journal both name the index \"car_history\""), "{checked:?}");
}

#[test]
fn a_stream_and_an_export_of_one_ledger_give_the_same_documents_and_the_same_counts() {
    let ledger = Ledger::new(11, 24);
    let of_stream = Folder::new();
    of_stream.write("stream.10n", ledger.shuffled(5, 2).concat());
    let done = of_stream.revsync(&["--json", "sync", "stream.10n", "--journal", "journal", "--statements"]).balanced();
    assert_eq!(done.exit, 0, "{done:?}");
    let indices = ["journal", "person", "vehicle_registration"];
    let expected = indices.map(|index| held(&of_stream, index));
    assert_eq!(expected[0].len(), 24);
    assert!(expected.iter().all(|documents| !documents.is_empty()));

    for output in OUTPUTS {
        let folder = Folder::new();
        let files = ledger.export(&folder.path().join("bucket"), output, 10);
        let mut received = 0;
        for file in &files {
            let path = file.to_str().unwrap();
            let done = folder.revsync(&["--json", "sync", path, "--journal", "journal", "--statements", "--verify-hashes"]).balanced();
            assert_eq!(done.exit, 0, "{output:?}: {done:?}");
            received += done.count("received");
        }
        assert_eq!(indices.map(|index| held(&folder, index)), expected, "{output:?}");
        let revisions = ledger.revisions().count() as u64;
        assert!(received >= 24 + revisions && received < 24 + revisions + 10, "{output:?}: {received}");
    }
}

#[test]
fn a_broken_revision_of_a_block_is_one_dead_letter_that_can_be_sent_again() {
    let folder = Folder::new();
    let revision = |id: &str, version: &str| format!("{{data:{{n:1}},metadata:{{id:\"{id}\",version:{version}}}}}");
    let revisions = [revision("a", "0"), revision("b", "-1"), revision("c", "0")].join(",");
    let documents = "a:{tableName:\"T\"},b:{tableName:\"T\"},c:{tableName:\"T\"}";
    folder.write(
        "b.ion",
        format!(
            "{{blockAddress:{{strandId:\"s\",sequenceNo:3}},transactionId:\"x\",transactionInfo:{{documents:{{{documents}}}}},revisions:[{revisions}]}}"
        ),
    );
    let done = folder.revsync(&["--json", "sync", "b.ion", "--journal", "journal"]).balanced();
    assert_eq!((done.exit, done.count("received"), done.count("indexed"), done.count("dead_letters")), (1, 4, 3, 1), "{done:?}");
    let letters = folder.revsync(&["--json", "dead-letters", "list"]).json();
    assert_eq!((&letters["dead_letters"][0]["part"], letters["dead_letters"].as_array().unwrap().len()), (&Value::from(2), 1), "{letters}");
    let again = folder.revsync(&["dead-letters", "replay", "--dry-run"]);
    assert!(again.out.contains("unusable_revision, expected metadata.version to be a whole number"), "{again:?}");
}

#[test]
fn a_good_revision_of_a_block_is_indexed_however_many_before_it_are_broken() {
    let folder = Folder::new();
    let broken = "7,".repeat(1_005);
    folder.write(
        "b.ion",
        format!(
            "{{blockAddress:{{strandId:\"s\",sequenceNo:3}},transactionId:\"x\",transactionInfo:{{documents:{{a:{{tableName:\"T\"}}}}}},\
             revisions:[{broken}{{data:{{n:1}},metadata:{{id:\"a\",version:0}}}},7]}}"
        ),
    );
    let done = folder.revsync(&["--json", "sync", "b.ion"]).balanced();
    // The block, a thousand letters, one for what is broken beyond them, and the revision.
    let counts = ["received", "indexed", "dead_letters"].map(|name| done.count(name));
    assert_eq!((done.exit, counts), (1, [1_003, 1, 1_001]), "{done:?}");

    let again = folder.revsync(&["--json", "dead-letters", "replay", "--reason", "too_many_faults"]).balanced();
    let counts = ["received", "stale", "dead_letters"].map(|name| again.count(name));
    assert_eq!((again.exit, counts), (1, [2, 1, 1]), "what it stands for is sent again whole: {again:?}");
}
