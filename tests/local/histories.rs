//! Histories and erased content, end to end into the local index: what is held, explained, mapped, verified and mended.

use revsync::operation::{Operation, Target};
use revsync::revision::{Document, VersionType};
use revsync::sink::local::Local;
use serde_json::{Value, json};

use crate::command::{Done, Folder, revision};
use crate::damage;
use crate::qldb_stream::{self, Does};

const BOTH: &str = "[[table]]\nname = \"Car\"\nmetadata_field = \"_row\"\n[[table]]\nname = \"*\"\nmode = \"history\"\n";
const ERASING: &str = "[[table]]\nname = \"*\"\nredactions = \"erase\"\n";

fn car(id: &str, version: u64, data: Option<&str>) -> String {
    revision("Car", id, version, data)
}

fn redacted(id: &str, version: u64) -> String {
    qldb_stream::revision("Car", id, version, &Does::Redact) + "\n"
}

fn local(folder: &Folder) -> Local {
    Local::open(&folder.path().join("revsync.db")).unwrap()
}

/// What an index holds under an id.
fn held(folder: &Folder, index: &str, id: &str) -> Option<(u64, Value)> {
    let (version, source) = local(folder).get(index, id).unwrap()?;
    Some((version, serde_json::from_str(&source).unwrap()))
}

fn command(folder: &Folder, rules: &str, arguments: &[&str]) -> Done {
    folder.write("rules.toml", rules);
    folder.revsync(&[&["--json", "--config", "rules.toml"], arguments].concat())
}

fn synced(rules: &str, stream: &[String]) -> Folder {
    let folder = Folder::new();
    folder.write("s.ion", stream.concat());
    let done = command(&folder, rules, &["sync", "s.ion"]).balanced();
    assert_eq!(done.exit, 0, "{done:?}");
    folder
}

fn verified(folder: &Folder, rules: &str, more: &[&str]) -> Done {
    command(folder, rules, &[&["verify", "s.ion", "--sample", "0"], more].concat())
}

/// How many documents of each class a report tells, where there are any.
fn counted(report: &Value) -> Vec<(&str, u64)> {
    let classes = ["missing", "stale", "resurrected", "foreign", "ahead", "redacted_present"];
    classes.map(|class| (class, report[class].as_u64().unwrap())).into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Writes past the stream.
async fn write(folder: &Folder, index: &str, id: &str, version: u64, document: &str) {
    let target = Target { index: index.into(), id: id.to_owned(), version, version_type: VersionType::ExternalGte, routing: None };
    let document = Document(document.as_bytes().to_vec().into());
    damage::write(&local(folder), vec![Operation::Index { target, document }]).await;
}

fn life() -> Vec<String> {
    vec![
        car("a", 0, Some("{State:\"WA\"}")),
        redacted("a", 1),
        car("a", 2, Some("{State:\"OR\"}")),
        car("b", 0, Some("{}")),
        car("b", 1, None),
    ]
}

#[test]
fn every_revision_is_a_document_of_the_history_and_says_what_it_was() {
    let folder = synced(BOTH, &life());
    let (version, document) = held(&folder, "car_history", "a@0").unwrap();
    let said = json!({
        "op": "index", "id": "a", "version": 0, "table": "Car", "tableId": "t", "blockAddress": {"strandId": "s", "sequenceNo": 0},
    });
    assert_eq!((version, document), (0, json!({"State": "WA", "revsync": said})));
    let (version, document) = held(&folder, "car_history", "a@1").unwrap();
    assert_eq!((version, &document["revsync"]["op"], &document["revsync"]["hash"]), (1, &json!("redacted"), &json!("aGFzaA==")));
    assert_eq!((document.as_object().unwrap().len(), &document["revsync"]["txId"]), (1, &json!("X")));
    assert_eq!(held(&folder, "car_history", "b@1").unwrap().1["revsync"]["op"], "delete");
    let (version, document) = held(&folder, "car", "a").unwrap();
    assert_eq!((version, &document["_row"]["version"]), (2, &json!(2)));
    assert_eq!(document["_row"].get("hash"), None, "the field is as it is without a history");
    assert_eq!(held(&folder, "car", "b"), None);

    let found = folder.revsync(&["--json", "search", "WA"]);
    assert!(found.exit == 0 && found.out.contains("a@0"), "{found:?}");
    let again = command(&folder, BOTH, &["sync", "s.ion"]).balanced();
    // A redaction is written again.
    assert_eq!((again.count("received"), again.count("stale"), again.count("indexed")), (10, 6, 1), "{again:?}");
}

#[test]
fn only_the_newest_revisions_are_sent_of_a_folded_stream_and_all_of_them_to_the_history() {
    let folder = Folder::new();
    folder.write("s.ion", [life(), vec![car("a", 1, Some("{State:\"secret\"}"))]].concat().concat());
    let done = command(&folder, BOTH, &["sync", "s.ion", "--fold"]).balanced();
    assert_eq!((done.exit, done.count("received"), done.count("indexed"), done.count("compacted")), (0, 12, 6, 4), "{done:?}");
    assert_eq!(held(&folder, "car_history", "a@1").unwrap().1["revsync"]["op"], "redacted");
    assert_eq!(verified(&folder, BOTH, &["--content"]).exit, 0);
}

#[test]
fn explain_says_a_line_for_each_index_and_why() {
    let folder = Folder::new();
    folder.write("s.ion", life().concat());
    let rules = format!("{ERASING}[[table]]\nname = \"*\"\nmode = \"history\"\nwhere = \"State = 'OR'\"\n");
    folder.write("rules.toml", &rules);
    let done = folder.revsync(&["--config", "rules.toml", "explain", "s.ion"]);
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!((done.exit, lines.len()), (0, 10), "{done:?}");
    for (at, expected) in [
        (0, "index car/a at version 0: data is present"),
        (1, "skip Car a at version 0: filtered, does not match where"),
        (2, "delete car/a at version 1: the content of this revision was removed, and the rule erases it"),
        (3, "index car_history/a@1 at version 1: the content of this revision was removed, and so it is from the history"),
        (5, "index car_history/a@2 at version 2: this revision, as a document of the history"),
        (9, "index car_history/b@1 at version 1: the delete, as a document of the history"),
    ] {
        assert!(lines[at].contains(expected), "{expected}: {}", lines[at]);
    }
    let modes: Vec<Value> = command(&folder, &rules, &["explain", "s.ion"])
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["mode"].clone())
        .collect();
    assert_eq!(modes[..2], [Value::Null, json!("history")]);
}

#[test]
fn the_mapping_of_a_history_leaves_to_revsync_what_it_has_in_every_document() {
    let folder = Folder::new();
    folder.write("s.ion", life().concat());
    let done = command(&folder, BOTH, &["mapping", "s.ion"]);
    let mapping = done.json();
    let of = |index: &str| mapping[index].to_string();
    assert!(of("car_history").contains("State") && !of("car_history").contains("revsync"), "{mapping}");
    assert!(of("car").contains("_row"), "{mapping}");
}

#[tokio::test]
async fn a_history_that_holds_what_was_redacted_lacks_a_revision_or_has_one_too_many_is_named_and_mended() {
    let folder = synced(BOTH, &life());
    let equal = verified(&folder, BOTH, &[]);
    assert_eq!((equal.exit, &equal.json()["units"], &equal.json()["indices"]), (0, &json!(10), &json!(2)), "{equal:?}");
    assert_eq!(verified(&folder, BOTH, &["--content"]).exit, 0);

    write(&folder, "car_history", "a@1", 1, r#"{"State":"secret","revsync":{"op":"index","id":"a","version":1,"table":"Car"}}"#).await;
    write(&folder, "car_history", "c@0", 0, r#"{"revsync":{"op":"delete","id":"c","version":0,"table":"Car"}}"#).await;
    let target =
        Target { index: "car_history".into(), id: "b@0".into(), version: 0, version_type: VersionType::ExternalGte, routing: None };
    damage::write(&local(&folder), vec![Operation::Delete { target }]).await;
    for more in [&[][..], &["--content"]] {
        let found = verified(&folder, BOTH, more);
        assert_eq!((found.exit, counted(&found.json())), (1, vec![("missing", 1), ("foreign", 1), ("redacted_present", 1)]), "{found:?}");
    }
    let mended = verified(&folder, BOTH, &["--repair"]);
    assert_eq!((mended.exit, &mended.json()["equal"]), (0, &json!(true)), "{mended:?}");
    assert_eq!(held(&folder, "car_history", "a@1").unwrap().1["revsync"]["op"], "redacted");
    assert_eq!(held(&folder, "car_history", "c@0"), None);
    assert!(held(&folder, "car_history", "b@0").is_some() && held(&folder, "car", "a@1").is_none());
    assert_eq!(verified(&folder, BOTH, &["--content"]).exit, 0);
}

#[test]
fn content_that_was_redacted_after_the_stream_that_is_verified_does_not_come_back() {
    let folder = synced(BOTH, &life());
    folder.write(
        "s.ion",
        [vec![car("a", 1, Some("{State:\"secret\"}"))], life().into_iter().filter(|line| !line.contains("dataHash")).collect()]
            .concat()
            .concat(),
    );
    let found = verified(&folder, BOTH, &["--content", "--repair"]);
    assert_eq!((found.exit, counted(&found.json())), (1, vec![("ahead", 1)]), "{found:?}");
    assert_eq!(held(&folder, "car_history", "a@1").unwrap().1["revsync"]["op"], "redacted");
}

#[tokio::test]
async fn an_index_whose_rule_erases_holds_nothing_of_a_redacted_revision() {
    let tombstones = format!("{ERASING}deletes = \"tombstone\"\n");
    for rules in [ERASING, &tombstones] {
        let stream = [car("a", 0, Some("{State:\"WA\"}")), redacted("a", 1), car("b", 3, Some("{A:1}")), redacted("b", 2)];
        let folder = synced(rules, &stream);
        let is_gone = || held(&folder, "car", "a").is_none_or(|(_, document)| document["revsync"]["deleted"] == json!(true));
        assert!(is_gone() && held(&folder, "car", "b").is_some());
        assert_eq!(verified(&folder, rules, &["--content"]).exit, 0);

        write(&folder, "car", "a", 1, r#"{"State":"secret"}"#).await;
        let mended = verified(&folder, rules, &["--repair"]);
        assert_eq!((mended.exit, counted(&mended.json())), (0, vec![("redacted_present", 1)]), "{mended:?}");
        assert!(is_gone());
    }
}

#[test]
fn a_document_with_a_member_of_the_name_of_the_historys_is_a_dead_letter_for_the_history_alone() {
    let folder = Folder::new();
    folder.write("s.ion", car("a", 0, Some("{revsync:1}")));
    let done = command(&folder, BOTH, &["sync", "s.ion"]).balanced();
    assert_eq!((done.exit, done.count("indexed"), done.count("dead_letters")), (1, 1, 1), "{done:?}");
    let shown = folder.revsync(&["--json", "dead-letters", "list"]).json();
    assert_eq!(
        (&shown["dead_letters"][0]["mode"], &shown["dead_letters"][0]["error"]["kind"]),
        (&json!("history"), &json!("unusable_field"))
    );

    let excluding = format!("{BOTH}exclude = [\"revsync\"]\n");
    let dry = command(&folder, &excluding, &["dead-letters", "replay", "--dry-run"]);
    assert!(dry.out.lines().count() == 1 && dry.out.contains("car_history"), "{dry:?}");
    let replayed = command(&folder, &excluding, &["dead-letters", "replay"]).balanced();
    assert_eq!((replayed.exit, replayed.count("received"), replayed.count("indexed")), (0, 1, 1), "{replayed:?}");
}

#[test]
fn letters_of_a_history_and_of_the_journal_stay_where_a_replay_has_no_index_for_them() {
    let folder = Folder::new();
    let block = "{blockAddress:{strandId:\"s\",sequenceNo:-1},transactionId:\"x\"}\n";
    folder.write("s.ion", car("a", 0, Some("{revsync:1}")) + block);
    let done = command(&folder, BOTH, &["sync", "s.ion", "--journal", "journal"]).balanced();
    assert_eq!((done.exit, done.count("indexed"), done.count("dead_letters")), (1, 1, 2), "{done:?}");

    let left = || folder.revsync(&["--json", "dead-letters", "list"]).json()["dead_letters"].as_array().unwrap().len();
    let dry = folder.revsync(&["dead-letters", "replay", "--dry-run"]);
    assert_eq!(dry.out.matches(": stay").count(), 2, "{dry:?}");
    let forgotten = folder.revsync(&["--json", "dead-letters", "replay"]).balanced();
    assert_eq!((forgotten.exit, forgotten.count("received"), left()), (2, 0, 2), "{forgotten:?}");
    assert!(forgotten.err.contains("2 of the journal or of a history have no index to go to, and stayed"), "{forgotten:?}");

    let excluding = format!("{BOTH}exclude = [\"revsync\"]\n");
    let replayed = command(&folder, &excluding, &["dead-letters", "replay"]).balanced();
    assert_eq!((replayed.exit, replayed.count("indexed"), left()), (2, 1, 1), "{replayed:?}");
}

#[test]
fn content_that_was_erased_after_the_stream_that_is_verified_does_not_come_back() {
    let rules = format!("{ERASING}deletes = \"tombstone\"\n");
    let folder = synced(&rules, &[car("a", 1, Some("{State:\"secret\"}")), redacted("a", 1)]);
    folder.write("s.ion", car("a", 1, Some("{State:\"secret\"}")));
    let found = verified(&folder, &rules, &["--repair"]);
    assert_eq!((found.exit, counted(&found.json())), (1, vec![("ahead", 1)]), "{found:?}");
    assert_eq!(held(&folder, "car", "a").unwrap().1["revsync"]["deleted"], json!(true));
}
