//! Tombstones and their sweep end to end, in the local index.

use revsync::sink::local::Local;
use serde_json::json;

use crate::command::{Folder, revision};

const RULES: &str = "[[table]]\nname = \"Person\"\ndeletes = \"tombstone\"\n[[table]]\nname = \"*\"\n";

/// A folder with two people, of whom one is deleted, and a car that is.
fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("rules.toml", RULES);
    let stream = [
        revision("Person", "a", 0, Some("{Name:\"Raul\"}")),
        revision("Person", "b", 0, Some("{Name:\"Brent\"}")),
        revision("Person", "a", 1, None),
        revision("Car", "c", 0, Some("{Make:\"Ford\"}")),
        revision("Car", "c", 1, None),
    ];
    folder.write("s.ion", stream.concat());
    folder.write("late.ion", revision("Person", "a", 0, Some("{Name:\"Raul\"}")));
    folder
}

fn index(folder: &Folder) -> Local {
    Local::open_existing(&folder.path().join("revsync.db")).unwrap()
}

#[test]
fn a_delete_that_left_a_tombstone_stays_deleted_for_every_reader_also_after_the_sweep() {
    let folder = folder();
    let sync = |source: &str| folder.revsync(&["--json", "--config", "rules.toml", "sync", source, "--request-operations", "1"]).balanced();
    let done = sync("s.ion");
    assert_eq!((done.count("indexed"), done.count("deleted"), done.count("stale")), (3, 2, 0), "{done:?}");
    assert!(index(&folder).get("person", "a").unwrap().unwrap().1.contains(r#""deleted":true"#));
    assert_eq!(index(&folder).get("car", "c").unwrap(), None, "a plain delete leaves nothing to read");
    let seen = || {
        assert_eq!(sync("late.ion").count("stale"), 1);
        let hits = folder.revsync(&["--json", "search", "*"]).json();
        let ids: Vec<&str> = hits["hits"].as_array().unwrap().iter().map(|hit| hit["id"].as_str().unwrap()).collect();
        assert_eq!((ids, index(&folder).count("person").unwrap()), (vec!["b"], 1));
        assert_eq!(folder.revsync(&["search", "revsync"]).exit, 1);
    };
    seen();
    let sweep = ["--json", "--config", "rules.toml", "sweep", "--older-than", "0s", "--retention", "0s"];
    let dry = folder.revsync(&[&sweep[..], &["--dry-run"]].concat());
    assert_eq!((dry.exit, &dry.json()["swept"], &dry.json()["dry_run"]), (0, &json!(1), &json!(true)), "{dry:?}");
    assert!(index(&folder).get("person", "a").unwrap().is_some());
    let swept = folder.revsync(&sweep);
    assert_eq!((swept.exit, &swept.json()["swept"], &swept.json()["kept"]), (0, &json!(1), &json!({})), "{swept:?}");
    assert_eq!(index(&folder).get("person", "a").unwrap(), None);
    seen();
    assert_eq!(folder.revsync(&sweep).json()["swept"], 0);
}

#[test]
fn younger_tombstones_are_counted_and_stay() {
    let folder = folder();
    assert_eq!(folder.revsync(&["--config", "rules.toml", "sync", "s.ion"]).exit, 0);
    let swept = folder.revsync(&["sweep", "person", "car", "--older-than", "30d"]);
    assert_eq!(swept.exit, 0, "{swept:?}");
    assert!(
        swept.out.contains("0 tombstones older than 720h removed") && swept.out.contains("younger               1  not old enough yet"),
        "{swept:?}"
    );
    assert!(index(&folder).get("person", "a").unwrap().is_some());
}

#[test]
fn an_index_that_is_not_there_is_an_error_where_it_was_named_and_none_where_a_rule_names_it() {
    let folder = folder();
    let none = folder.revsync(&["sweep", "person", "--older-than", "30d"]);
    assert!(none.exit == 2 && none.err.contains("expected a local index at revsync.db, found none"), "{none:?}");
    assert!(!folder.path().join("revsync.db").exists());
    folder.write("car.ion", revision("Car", "c", 0, Some("{}")));
    assert_eq!(folder.revsync(&["sync", "car.ion"]).exit, 0);
    let named = folder.revsync(&["sweep", "person", "--older-than", "30d"]);
    assert!(named.exit == 2 && named.err.contains("there is no index person"), "{named:?}");
    let by_rule = folder.revsync(&["--config", "rules.toml", "sweep", "--older-than", "30d"]);
    assert!(by_rule.exit == 0 && by_rule.err.contains("there is no index person yet"), "{by_rule:?}");
    assert_eq!(folder.revsync(&["sweep", "p*", "c*", "--older-than", "30d"]).exit, 2, "a pattern that means nothing is a mistake too");
    assert_eq!(folder.revsync(&["sweep", "*", "--older-than", "30d"]).exit, 0);
}

#[test]
fn explain_and_bulk_lines_show_a_tombstone() {
    let folder = folder();
    let explained = folder.revsync(&["--config", "rules.toml", "explain", "s.ion"]);
    assert!(explained.out.contains(": tombstone person/a at version 1: neither data nor dataHash is present"), "{explained:?}");
    assert!(explained.out.contains(": delete car/c at version 1: "), "{explained:?}");
    folder.write("rules.toml", "[[table]]\nname = \"*\"\ndeletes = \"tombstone\"\n");
    let bulk = folder.revsync(&["--config", "rules.toml", "sync", "s.ion", "--to", "bulk:-"]);
    assert!(!bulk.out.contains(r#"{"delete""#), "{bulk:?}");
    let at = bulk.out.lines().position(|line| line.contains(r#""_id":"a","version":1"#)).unwrap();
    assert!(bulk.out.lines().nth(at + 1).unwrap().starts_with(r#"{"revsync":{"v":1,"deleted":true,"time":"20"#), "{bulk:?}");
}

#[test]
fn a_sweep_that_is_interrupted_exits_2() {
    let folder = Folder::new();
    // A server that takes the connection and never answers: when it has come, the signal is listened for.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("http://{}", silent.local_addr().unwrap());
    let mut command = folder.command(&["sweep", "person", "--older-than", "30d", "--to", &to], &[]);
    let running = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let _connection = silent.accept().unwrap();
    let signalled = std::process::Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    let output = running.wait_with_output().unwrap();
    assert!(output.status.code() == Some(2) && String::from_utf8_lossy(&output.stderr).contains("interrupted"), "{output:?}");
}
