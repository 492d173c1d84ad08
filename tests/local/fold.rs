//! `sync --fold`: each document is written once, and the index comes to what it comes to without.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::Duration;

use revsync::sink::local::Local;
use serde_json::Value;

use crate::command::{Folder, revision};
use crate::dice::Dice;
use crate::qldb_stream::{Does, revision as made};

/// Revisions of some documents in any order, some of them twice, some deleted or redacted, in several files.
fn capture(folder: &Folder, dice: &mut Dice, documents: usize, versions: u64) {
    let mut all = Vec::new();
    for document in 0..documents {
        let newest = 1 + dice.below(versions as usize) as u64;
        for version in 0..newest {
            let does = match dice.below(10) {
                0 => Does::Delete,
                _ => Does::Put(format!("{{n:{version}}}")),
            };
            let text = made("T", &format!("d{document}"), version, &does) + "\n";
            for _ in 0..=usize::from(dice.percent(20)) {
                all.push(text.clone());
            }
        }
    }
    for at in (1..all.len()).rev() {
        all.swap(at, dice.below(at + 1));
    }
    std::fs::create_dir(folder.path().join("export")).unwrap();
    for (file, part) in all.chunks(all.len().div_ceil(3)).enumerate() {
        folder.write(&format!("export/{file}.ion"), part.concat());
    }
}

fn held(folder: &Folder, file: &str, documents: usize) -> BTreeMap<String, (u64, String)> {
    let index = Local::open_existing(&folder.path().join(file)).unwrap();
    (0..documents).filter_map(|document| Some((format!("d{document}"), index.get("t", &format!("d{document}")).unwrap()?))).collect()
}

/// The ids of a file of bulk lines.
fn ids(folder: &Folder) -> Vec<String> {
    let text = String::from_utf8(folder.read("lines")).unwrap();
    let actions = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    actions.filter_map(|line| Some(line.get("index").or(line.get("delete"))?["_id"].as_str()?.to_owned())).collect()
}

#[test]
fn each_document_is_written_once_and_the_index_is_what_it_is_without() {
    for seed in 0..6 {
        let folder = Folder::new();
        capture(&folder, &mut Dice::new(seed), 40, 12);
        let plain = folder.revsync(&["--json", "sync", "export", "--to", "local:plain.db"]).balanced();
        let folded = folder.revsync(&["--json", "sync", "export", "--fold", "--to", "local:folded.db"]).balanced();
        assert_eq!((plain.exit, folded.exit), (0, 0), "seed {seed}: {folded:?}");
        assert_eq!(held(&folder, "folded.db", 40), held(&folder, "plain.db", 40), "seed {seed}");
        assert_eq!(folded.count("received"), plain.count("received"));
        let written = folded.count("indexed") + folded.count("deleted") + folded.count("absent");
        assert_eq!((written, folded.count("stale")), (40, 0), "seed {seed}: {folded:?}");
        assert_eq!(folder.revsync(&["sync", "export", "--fold", "--to", "bulk:lines"]).exit, 0);
        let ids = ids(&folder);
        assert_eq!((ids.len(), ids.iter().collect::<BTreeSet<_>>().len()), (40, 40), "seed {seed}");
        let verified = folder.revsync(&["verify", "export", "--content", "--to", "local:folded.db"]);
        assert_eq!(verified.exit, 0, "seed {seed}: {verified:?}");
    }
}

#[test]
fn a_delete_that_is_the_newest_is_sent_and_nothing_before_it() {
    let folder = Folder::new();
    let text = [revision("T", "a", 0, Some("{}")), revision("T", "a", 2, None), revision("T", "a", 1, Some("{}"))].join("\n");
    folder.write("s.ion", text);
    folder.write("tombstones.toml", "[[table]]\nname = \"T\"\ndeletes = \"tombstone\"\n");
    let plain = folder.revsync(&["--json", "sync", "s.ion", "--fold", "--to", "bulk:lines"]).balanced();
    assert_eq!((plain.count("deleted"), plain.count("compacted"), plain.count("indexed")), (1, 2, 0));
    let tombstone = folder.revsync(&["--json", "--config", "tombstones.toml", "sync", "s.ion", "--fold", "--to", "bulk:lines"]).balanced();
    assert_eq!((tombstone.count("deleted"), tombstone.count("compacted")), (1, 2), "{tombstone:?}");
    assert!(String::from_utf8(folder.read("lines")).unwrap().contains("revsync"), "a tombstone was written");
}

#[test]
fn what_was_redacted_is_not_sent_and_what_stood_before_it_is() {
    for order in [[0, 1, 2], [0, 2, 1], [2, 1, 0], [1, 2, 0], [2, 0, 1], [1, 0, 2]] {
        let folder = Folder::new();
        let of = [
            made("T", "a", 0, &Does::Put("{n:0}".to_owned())),
            made("T", "a", 1, &Does::Put("{n:1}".to_owned())),
            made("T", "a", 1, &Does::Redact),
        ];
        folder.write("s.ion", order.map(|at| of[at].clone() + "\n").concat());
        let done = folder.revsync(&["--json", "sync", "s.ion", "--fold"]).balanced();
        assert_eq!((done.count("indexed"), done.json()["skipped"]["redacted"].as_u64()), (1, Some(2)), "{order:?}: {done:?}");
        let index = Local::open_existing(&folder.path().join("revsync.db")).unwrap();
        assert_eq!(index.get("t", "a").unwrap().unwrap().0, 0, "{order:?}");
    }
}

#[test]
fn where_the_newest_can_never_be_written_the_newest_that_can_is_sent() {
    let folder = Folder::new();
    let broken = revision("T", "a", 2, Some("{n:2}")).replace("version:2", "version:\"two\"");
    folder.write("s.ion", [revision("T", "a", 0, Some("{n:0}")), revision("T", "a", 1, Some("{n:1}")), broken].join("\n"));
    let done = folder.revsync(&["--json", "sync", "s.ion", "--fold"]).balanced();
    assert_eq!((done.exit, done.count("indexed"), done.count("compacted"), done.count("dead_letters")), (1, 1, 1, 1), "{done:?}");
    assert!(done.err.contains("no earlier one was sent; run it without --fold"), "{done:?}");
    let index = Local::open_existing(&folder.path().join("revsync.db")).unwrap();
    assert_eq!(index.get("t", "a").unwrap().unwrap().0, 1);
}

#[test]
fn of_one_version_the_last_stands_where_the_clock_can_tie() {
    let folder = Folder::new();
    let change = |name: &str| {
        format!(
            r#"{{"schema":{{}},"payload":{{"op":"u","before":null,"after":{{"pk":"1","name":"{name}"}},"source":{{"db":"d","table":"t","ts_ms":5}},"ts_ms":5}}}}"#
        ) + "\n"
    };
    folder.write("s.jsonl", [change("first"), change("last")].concat());
    let with = |more: &[&str]| {
        let options =
            ["--json", "sync", "s.jsonl", "--format", "debezium", "--key", "*=pk", "--versions", "timestamp", "--to", "bulk:lines"];
        folder.revsync(&[&options[..], more].concat()).balanced()
    };
    let done = with(&["--fold"]);
    assert_eq!((done.count("indexed"), done.count("compacted")), (1, 1), "{done:?}");
    assert!(String::from_utf8(folder.read("lines")).unwrap().contains("\"last\""));
}

#[test]
fn changes_of_cells_are_all_sent() {
    let folder = Folder::new();
    let change = |ts: u32, column: &str| {
        format!(r#"{{"op":"Put","table":"shop.item","ts":{ts},"data":[{{"name":"sku","value":"MX"}},{{"name":"{column}","value":7}}]}}"#)
            + "\n"
    };
    folder.write("changes.jsonl", [change(10, "f:stock"), change(20, "f:price")].concat());
    let done = folder.revsync(&["--json", "sync", "changes.jsonl", "--fold", "--key", "shop.item=sku", "--rows", "cells"]).balanced();
    assert_eq!((done.exit, done.count("indexed"), done.count("compacted")), (0, 2, 0), "{done:?}");
    let (_, source) = Local::open_existing(&folder.path().join("revsync.db")).unwrap().get("shop.item", "MX").unwrap().unwrap();
    assert_eq!(source, r#"{"f:price":7,"f:stock":7,"sku":"MX"}"#);
}

#[test]
fn what_can_be_read_once_only_is_refused_with_the_reason() {
    let folder = Folder::new();
    for (source, reason) in [
        ("-", "--fold: expected files, found standard input"),
        ("kafka://127.0.0.1:1/topic", "--fold: expected files, found the topics"),
        ("kinesis://stream?region=eu-west-1", "--fold: expected files, found the stream"),
    ] {
        let done = folder.revsync(&["sync", source, "--fold"]);
        assert!(done.exit == 2 && done.err.contains(reason), "{source}: {done:?}");
    }
}

/// Kills a run that takes its time, when it saved a place in the second file that is further on; gives that.
fn killed_in_the_second_file(folder: &Folder, arguments: &[&str], further: u64) -> u64 {
    let slowly = [arguments, &["--max-rate", "60"]].concat();
    let mut running = folder.command(&slowly, &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let saved = || {
        let saved = folder.revsync(&["--json", "checkpoints", "list"]);
        let scanned = if saved.exit == 0 { saved.json()["checkpoints"][0]["progress"]["scanned"].clone() } else { Value::Null };
        scanned["offset"].as_u64().filter(|offset| scanned["before"]["files"].as_u64() == Some(1) && *offset > further)
    };
    let place = loop {
        assert!(running.try_wait().unwrap().is_none(), "it came to its end too soon");
        if let Some(place) = folder.path().join("revsync.db").exists().then(saved).flatten() {
            break place;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    running.kill().unwrap();
    running.wait().unwrap();
    place
}

#[test]
fn what_comes_to_the_source_while_a_folded_run_starts_takes_no_document_away() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("export")).unwrap();
    folder.write("export/1.ion", [revision("T", "a", 0, Some("{}")), revision("T", "b", 0, Some("{}"))].concat());
    // Its end that is written waits for the other one, after the source was opened.
    let made = std::process::Command::new("mkfifo").arg(folder.path().join("lines")).status().unwrap();
    assert!(made.success());
    let mut command = folder.command(&["--json", "sync", "export", "--fold", "--to", "bulk:lines"], &[]);
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    folder.write("export/2.ion", revision("T", "a", 1, Some("{}")));
    let ids: BTreeSet<String> = ids(&folder).into_iter().collect();
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(ids, BTreeSet::from(["a".to_owned(), "b".to_owned()]), "{output:?}");
}

#[test]
fn a_folded_run_that_is_killed_goes_on_with_its_second_pass() {
    let folder = Folder::new();
    capture(&folder, &mut Dice::new(9), 300, 6);
    let arguments = ["--json", "sync", "export", "--fold", "--resume"];
    killed_in_the_second_file(&folder, &arguments, 0);
    let done = folder.revsync(&arguments).balanced();
    let plain = folder.revsync(&["--json", "sync", "export", "--to", "local:plain.db"]).balanced();
    assert!(done.exit == 0 && done.count("received") < plain.count("received"), "{done:?}");
    assert_eq!(held(&folder, "revsync.db", 300), held(&folder, "plain.db", 300));
}

#[test]
fn what_a_folded_run_left_to_a_later_file_is_missed_when_that_is_gone_whoever_went_on_in_between() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("export")).unwrap();
    let part = |of: &str, version| (0..300).map(|number| revision("T", &format!("{of}{number}"), version, Some("{}"))).collect::<String>();
    folder.write("export/0.ion", part("left", 0));
    folder.write("export/1.ion", part("sent", 0));
    let last = folder.write("export/2.ion", part("left", 1));
    let arguments = ["--json", "sync", "export", "--resume", "--fold"];
    let place = killed_in_the_second_file(&folder, &arguments, 0);
    killed_in_the_second_file(&folder, &arguments[..4], place);
    std::fs::rename(&last, folder.path().join("2.ion")).unwrap();
    let done = folder.revsync(&arguments[..4]);
    assert!(done.exit == 2 && done.err.contains("with --fold every file counts"), "{done:?}");
}
