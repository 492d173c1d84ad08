//! Rules of the configuration, end to end into the local index: which rows are in it, and what a rule may not say.

use revsync::sink::local::Local;
use serde_json::{Value, json};

use crate::command::{Done, Folder, revision};

const WITHOUT_XX: &str = "[[table]]\nname = \"Car\"\nwhere = \"State <> 'XX'\"\n";

/// A car's revision; without a state it is a delete.
fn car(id: &str, version: u64, state: Option<&str>) -> String {
    let data = state.map(|state| format!("{{State:\"{state}\",Version:{version}}}"));
    revision("Car", id, version, data.as_deref())
}

/// Delivers a stream under a rule, each revision in a request of its own.
fn sync(folder: &Folder, rules: &str, stream: &[String]) -> Done {
    folder.write("rules.toml", rules);
    folder.write("s.ion", stream.concat());
    let done = folder.revsync(&["--json", "--config", "rules.toml", "sync", "s.ion", "--request-operations", "1"]).balanced();
    assert_eq!(done.exit, 0, "{done:?}");
    done
}

fn version(folder: &Folder, id: &str) -> Option<u64> {
    let index = Local::open_existing(&folder.path().join("revsync.db")).unwrap();
    index.get("car", id).unwrap().map(|(version, _)| version)
}

#[test]
fn a_row_that_leaves_is_deleted_at_its_own_version_and_comes_back_with_the_next_that_matches() {
    let folder = Folder::new();
    let stream = [car("a", 0, Some("WA")), car("a", 1, Some("XX")), car("b", 0, Some("XX")), car("c", 0, Some("WA"))];
    let done = sync(&folder, WITHOUT_XX, &stream);
    assert_eq!((done.count("indexed"), done.count("deleted"), done.count("absent")), (2, 1, 1), "{done:?}");
    assert_eq!(["a", "b", "c"].map(|id| version(&folder, id)), [None, None, Some(0)]);
    let done = sync(&folder, WITHOUT_XX, &[car("a", 2, Some("OR")), car("c", 1, None)]);
    assert_eq!((done.count("indexed"), done.count("deleted")), (1, 1), "{done:?}");
    assert_eq!(["a", "b", "c"].map(|id| version(&folder, id)), [Some(2), None, None]);
}

#[test]
fn a_rule_computes_with_the_fields_of_a_document_as_a_query_does() {
    let folder = Folder::new();
    let rule = "[[table]]\nname = \"Car\"\nwhere = \"lower(State) || '-' || Version * 2 IN ('wa-0', 'or-4') AND data IS MISSING\"\n";
    let done = sync(&folder, rule, &[car("a", 0, Some("WA")), car("b", 1, Some("WA")), car("c", 2, Some("OR")), car("d", 0, Some("XX"))]);
    assert_eq!((done.count("indexed"), done.count("absent")), (2, 2), "{done:?}");
    assert_eq!(["a", "b", "c", "d"].map(|id| version(&folder, id)), [Some(0), None, Some(2), None]);
}

#[test]
fn an_older_row_that_matches_and_comes_after_the_one_that_left_stays_out() {
    let folder = Folder::new();
    assert_eq!(sync(&folder, WITHOUT_XX, &[car("a", 1, Some("XX"))]).count("absent"), 1);
    for _ in 0..2 {
        let done = sync(&folder, WITHOUT_XX, &[car("a", 0, Some("WA"))]);
        assert_eq!((done.count("stale"), done.count("indexed")), (1, 0), "{done:?}");
    }
    assert_eq!(version(&folder, "a"), None);
}

#[test]
fn rows_that_leave_come_to_the_same_index_in_any_order() {
    let states = ["WA", "XX", "OR", "XX"];
    let lines: Vec<String> =
        (0..5u64).flat_map(|id| (0..4u64).map(move |n| car(&id.to_string(), n, Some(states[(id + n) as usize % 4])))).collect();
    for order in [1, 3, 7, 9, 11, 19] {
        let folder = Folder::new();
        let strided: Vec<String> = (0..lines.len() + 5).map(|i| lines[i * order % lines.len()].clone()).collect();
        sync(&folder, WITHOUT_XX, &strided);
        // The last revision of every second car is in state XX.
        assert_eq!([0, 1, 2, 3, 4].map(|id| version(&folder, &id.to_string())), [None, Some(3), None, Some(3), None], "order {order}");
    }
}

#[test]
fn a_rule_that_keeps_what_was_deleted_keeps_rows_that_leave() {
    let folder = Folder::new();
    let done = sync(&folder, &format!("{WITHOUT_XX}deletes = \"keep\"\n"), &[car("a", 0, Some("WA")), car("a", 1, Some("XX"))]);
    assert_eq!((done.count("indexed"), &done.json()["skipped"]), (1, &json!({"filtered": 1})), "{done:?}");
    assert_eq!(version(&folder, "a"), Some(0));
}

#[test]
fn a_row_that_leaves_under_a_rule_with_tombstones_is_hidden_behind_one() {
    let folder = Folder::new();
    let rules = format!("{WITHOUT_XX}deletes = \"tombstone\"\n");
    let done = sync(&folder, &rules, &[car("a", 0, Some("WA")), car("a", 1, Some("XX"))]);
    assert_eq!((done.count("indexed"), done.count("deleted")), (1, 1), "{done:?}");
    let index = Local::open_existing(&folder.path().join("revsync.db")).unwrap();
    let (version, source) = index.get("car", "a").unwrap().unwrap();
    assert!(version == 1 && source.contains("\"deleted\":true") && !source.contains("XX"), "{source}");
    assert_eq!(index.count("car").unwrap(), 0);
    let explained = folder.revsync(&["--config", "rules.toml", "explain", "s.ion"]);
    assert!(explained.out.ends_with(": tombstone car/a at version 1: does not match where\n"), "{explained:?}");
    assert_eq!(sync(&folder, &rules, &[car("a", 2, Some("OR"))]).count("indexed"), 1);
    assert_eq!(index.count("car").unwrap(), 1);
}

#[test]
fn a_rule_may_leave_out_the_fields_that_it_is_decided_by() {
    let folder = Folder::new();
    let data = |state: &str| Some(format!("{{id:\"other\",version:99,State:\"{state}\",N:1}}"));
    let stream = [("a", data("WA")), ("b", data("XX"))].map(|(id, data)| revision("Car", id, 7, data.as_deref()));
    sync(&folder, &format!("{WITHOUT_XX}exclude = [\"id\", \"version\", \"State\"]\n"), &stream);
    let index = Local::open_existing(&folder.path().join("revsync.db")).unwrap();
    assert_eq!(index.get("car", "a").unwrap(), Some((7, "{\"N\":1}".to_owned())));
    assert_eq!((index.get("car", "b").unwrap(), index.get("car", "other").unwrap()), (None, None));
}

#[test]
fn explain_says_which_rows_leave() {
    let folder = Folder::new();
    folder.write("s.ion", [car("a", 0, Some("WA")), car("a", 1, Some("XX")), car("a", 2, None)].concat());
    let explained = |rules: &str, options: &[&str]| {
        folder.write("rules.toml", rules);
        let done = folder.revsync(&[&["--config", "rules.toml", "explain", "s.ion"], options].concat());
        assert_eq!(done.exit, 0, "{done:?}");
        done.out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let lines = explained(WITHOUT_XX, &[]);
    assert!(lines[0].contains(": index car/a at version 0: data is present"), "{lines:?}");
    assert!(lines[1].ends_with(": delete car/a at version 1: does not match where"), "{lines:?}");
    assert!(lines[2].ends_with(": delete car/a at version 2: neither data nor dataHash is present"), "{lines:?}");
    let objects: Vec<Value> = explained(WITHOUT_XX, &["--json"]).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&objects[1]["action"], &objects[1]["reason"]), (&json!("delete"), &json!("does not match where")));
    let keeping = explained(&format!("{WITHOUT_XX}deletes = \"keep\"\n"), &[]);
    assert!(
        keeping[1].ends_with(": skip Car a at version 1: filtered, does not match where, and the rule keeps what was deleted"),
        "{keeping:?}"
    );
    assert!(keeping[2].ends_with("filtered, a delete, and the rule keeps what was deleted"), "{keeping:?}");
}

/// Asserts that a rule ends every command that would use it, before anything is written, and gives what is said.
fn refused(rule: &str) -> String {
    let folder = Folder::new();
    folder.write("s.ion", car("a", 0, Some("WA")));
    folder.write("rules.toml", format!("[[table]]\nname = \"Car\"\n{rule}\n"));
    let commands: [&[&str]; 4] =
        [&["sync", "s.ion"], &["explain", "s.ion"], &["mapping", "s.ion"], &["sync", "s.ion", "--to", "bulk:lines"]];
    let said = commands.map(|command| {
        let done = folder.revsync(&[&["--config", "rules.toml"], command].concat());
        assert_eq!((done.exit, done.out.as_str()), (2, ""), "{done:?}");
        done.err
    });
    assert!(!folder.path().join("revsync.db").exists() && !folder.path().join("lines").exists());
    assert!(said.iter().all(|one| *one == said[0]), "{said:?}");
    let checked = folder.revsync(&["--config", "rules.toml", "check", "s.ion"]);
    assert!(checked.exit == 2 && checked.out.contains("✗ configuration"), "{checked:?}");
    said[0].clone()
}

#[test]
fn a_condition_that_is_none_is_refused_at_start_with_the_rule_the_place_and_an_example() {
    let said = refused("where = \"lover(State) = 'wa'\"");
    assert!(said.contains("[[table]] \"Car\": where: expected a function that there is, found lover at line 1, column 1"), "{said}");
    assert!(said.contains("is it LOWER?"), "{said}");
    let said = refused("where = \"State = \"");
    assert!(said.contains("write a condition such as State <> 'XX'"), "{said}");
    for (condition, found) in [
        ("", "found the end"),
        ("State = 'a'; State = 'b'", "found ;"),
        ("State IN (SELECT State FROM Car)", "found SELECT"),
        ("State = ?", "a parameter"),
        ("State = NULL", "write IS NULL"),
    ] {
        let said = refused(&format!("where = \"{condition}\""));
        assert!(said.contains("[[table]] \"Car\": where: expected ") && said.contains(found), "{said}");
    }
}

#[test]
fn an_index_that_depends_on_a_field_is_refused_at_start_with_the_reason() {
    let said = refused("index = \"car-{State}\"");
    assert!(said.contains("\"Car\": index: expected no placeholder but {table}, found \"car-{State}\""), "{said}");
    assert!(said.contains("it may depend on table and key only"), "{said}");
}

#[test]
fn routing_that_depends_on_a_field_is_refused_at_start_with_the_reason() {
    let said = refused("routing = \"{State}\"");
    assert!(said.contains("\"Car\": routing: expected no placeholder but {table} or {id}, found \"{State}\""), "{said}");
    assert!(said.contains("it may depend on table and key only"), "{said}");
}

#[test]
fn there_is_no_key_for_an_id_that_depends_on_a_field() {
    let folder = Folder::new();
    folder.write("s.ion", car("a", 0, Some("WA")));
    folder.write("rules.toml", "[[table]]\nname = \"Car\"\nid = \"{VIN}\"\n");
    let done = folder.revsync(&["--config", "rules.toml", "sync", "s.ion"]);
    assert!(done.exit == 2 && done.err.contains("unknown key \"id\" in [[table]]"), "{done:?}");
}
