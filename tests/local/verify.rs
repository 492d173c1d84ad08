//! The proof that a local index holds what its stream says, end to end: the index is damaged by chance, and every damage is named and mended.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use revsync::operation::{Operation, Target};
use revsync::revision::{Document, VersionType};
use revsync::sink::local::Local;
use serde_json::{Value, json};

use crate::command::{Done, Folder, revision};
use crate::damage::{self, Plan, Table, ledger, stream, told};
use crate::dice::Dice;
use crate::qldb_stream::{self, Does};

const RULES: &str = "[[table]]\nname = \"Person\"\ndeletes = \"tombstone\"\nrouting = \"{table}\"\n[[table]]\nname = \"*\"\n";

fn tables() -> [Table; 3] {
    let plain = |name, index: &str| Table { name, index: index.to_owned(), routing: None, tombstones: false };
    [Table { routing: Some("Person"), tombstones: true, ..plain("Person", "person") }, plain("Car", "car"), plain("HTTPLog", "http_log")]
}

fn verify(folder: &Folder, more: &[&str]) -> Done {
    folder.revsync(&[&["--json", "--config", "rules.toml", "verify", "s.ion", "--sample", "0"], more].concat())
}

/// A folder with a stream, and the index that came of it by these rules.
fn synced_by(rules: &str, lines: &str) -> Folder {
    let folder = Folder::new();
    folder.write("rules.toml", rules);
    folder.write("s.ion", lines);
    let done = folder.revsync(&["--json", "--config", "rules.toml", "sync", "s.ion"]).balanced();
    assert_eq!(done.exit, 0, "{done:?}");
    folder
}

fn synced(lines: &str) -> Folder {
    synced_by("", lines)
}

fn local(folder: &Folder) -> Local {
    Local::open(&folder.path().join("revsync.db")).unwrap()
}

/// A document that a Car's stream is about.
fn car(id: &str, version: u64, data: Option<&str>) -> String {
    revision("Car", id, version, data)
}

fn target(id: &str, version: u64) -> Target {
    Target { index: "car".into(), id: id.to_owned(), version, version_type: VersionType::ExternalGte, routing: None }
}

fn put(id: &str, version: u64, document: &str) -> Operation {
    Operation::Index { target: target(id, version), document: Document(document.as_bytes().to_vec().into()) }
}

fn delete(id: &str, version: u64) -> Operation {
    Operation::Delete { target: target(id, version) }
}

/// Writes past the stream.
async fn write(folder: &Folder, operations: Vec<Operation>) {
    damage::write(&local(folder), operations).await;
}

/// How many documents of each class a report tells, where there are any.
fn counted(report: &Value) -> Vec<(&str, u64)> {
    let classes = ["missing", "stale", "resurrected", "foreign", "ahead", "redacted_present"];
    classes.map(|class| (class, report[class].as_u64().unwrap())).into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Damages what came of a ledger, and has it named and mended.
async fn damaged_and_mended(seed: u64, contents: bool, ahead: bool) {
    let dice = &mut Dice::new(seed);
    let lives = ledger(&tables(), 40, dice);
    let folder = synced_by(RULES, &stream(&lives, dice));
    let compared: &[&str] = if contents { &["--content"] } else { &[] };
    let before = verify(&folder, compared);
    assert_eq!((before.exit, &before.json()["equal"], &before.json()["indices"]), (0, &json!(true), &json!(3)), "{before:?}");

    let plan = Plan::new(&lives, contents, ahead, dice);
    plan.carry_out(&local(&folder)).await;
    let damages = plan.damages;

    let found = verify(&folder, compared);
    assert_eq!((found.exit, told(&found.json())), (1, damages.clone()), "seed {seed}");
    let repaired = verify(&folder, &[compared, &["--repair"]].concat());
    let left: Vec<_> = damages.iter().filter(|(class, ..)| class == "ahead").cloned().collect();
    assert_eq!(repaired.exit, i32::from(!left.is_empty()), "seed {seed}: {repaired:?}");
    let report = repaired.json();
    assert_eq!((told(&report), told(&report["left"])), (damages, left.clone()), "seed {seed}");
    let after = verify(&folder, compared);
    assert_eq!((after.exit, told(&after.json())), (i32::from(!left.is_empty()), left), "seed {seed}");
}

#[tokio::test]
async fn whatever_the_damage_each_document_is_named_and_mended() {
    for seed in 0..6 {
        damaged_and_mended(seed, false, false).await;
    }
}

#[tokio::test]
async fn content_that_was_changed_at_the_same_version_is_found_where_contents_are_compared() {
    for seed in 10..13 {
        damaged_and_mended(seed, true, false).await;
    }
}

#[tokio::test]
async fn what_is_ahead_is_told_and_stays() {
    for seed in 20..23 {
        damaged_and_mended(seed, true, true).await;
    }
}

#[tokio::test]
async fn content_that_was_changed_is_not_looked_at_unless_that_is_asked_for() {
    let folder = synced(&car("a", 1, Some("{A:1.50}")));
    write(&folder, vec![put("a", 1, r#"{"A":1.5}"#)]).await;
    assert_eq!(verify(&folder, &[]).exit, 0);
    let found = verify(&folder, &["--content"]);
    assert_eq!((found.exit, &found.json()["differences"][0]["content"]), (1, &json!(true)), "a digit is content: {found:?}");
    let said = folder.revsync(&["verify", "s.ion", "--content"]);
    assert!(said.out.contains("car/a  index 1, stream 1, other content"), "{said:?}");
}

#[tokio::test]
async fn what_was_redacted_and_put_back_is_erased_where_nothing_newer_is_known() {
    let redacted = qldb_stream::revision("Car", "a", 3, &Does::Redact) + "\n";
    let put_before = car("a", 3, Some("{Secret:1}"));
    for (rules, tombstone) in [("", false), ("[[table]]\nname = \"*\"\ndeletes = \"tombstone\"\n", true)] {
        let folder = synced_by(rules, &[car("b", 0, Some("{A:1}")), put_before.clone()].concat());
        folder.write("s.ion", [car("b", 0, Some("{A:1}")), put_before.clone(), redacted.clone()].concat());
        let found = verify(&folder, &["--repair"]);
        let report = found.json();
        assert_eq!((found.exit, counted(&report), counted(&report["left"])), (0, vec![("redacted_present", 1)], vec![]), "{found:?}");
        let held = local(&folder).get("car", "a").unwrap();
        assert_eq!(held.is_some_and(|(version, source)| version == 3 && source.contains("deleted")), tombstone, "{report}");
        assert_eq!(verify(&folder, &[]).exit, 0);
    }
}

#[tokio::test]
async fn a_stream_may_come_from_standard_input() {
    let lines = car("a", 0, Some("{A:1}"));
    let folder = synced(&lines);
    let done = folder.revsync_with(&["--json", "verify", "-"], &[], lines.as_bytes());
    assert_eq!((done.exit, &done.json()["units"]), (0, &json!(1)), "{done:?}");
    write(&folder, vec![delete("a", 0)]).await;
    let mended = folder.revsync_with(&["--json", "verify", "-", "--repair"], &[], lines.as_bytes());
    assert_eq!((mended.exit, counted(&mended.json())), (0, vec![("missing", 1)]), "{mended:?}");
}

#[tokio::test]
async fn a_sample_of_each_class_is_told_and_the_counts_are_of_all() {
    let folder = synced(&(0..30).map(|id| car(&format!("c{id:02}"), 1, Some("{A:1}"))).collect::<String>());
    write(&folder, (0..15).map(|id| delete(&format!("c{id:02}"), 1)).chain((0..12).map(|id| put(&format!("f{id}"), 1, "{}"))).collect())
        .await;
    for (more, told) in [(&[][..], 20), (&["--sample", "3"], 6), (&["--sample", "0"], 27)] {
        let done = folder.revsync(&[&["--json", "verify", "s.ion"], more].concat());
        let report = done.json();
        assert_eq!((done.exit, counted(&report)), (1, vec![("missing", 15), ("foreign", 12)]), "{report}");
        assert_eq!(report["differences"].as_array().unwrap().len(), told, "{report}");
    }
    let said = folder.revsync(&["verify", "s.ion", "--sample", "3"]);
    assert!(
        said.out.contains("missing           car/c02  index none, stream 1\n  foreign           car/f0  index 1, stream none"),
        "{said:?}"
    );
    assert!(said.out.contains("missing           and 12 more; --sample 0 tells all"), "{said:?}");
}

#[tokio::test]
async fn a_stream_with_records_that_cannot_be_used_proves_nothing_and_no_foreign_document_is_deleted() {
    let lines = [car("a", 0, Some("{A:1}")), car("b", 0, Some("{A:1}"))].concat();
    let folder = synced(&lines);
    let poison = "{qldbStreamArn:\"arn:aws:qldb:eu-west-1:000000000000:stream/tests/0\",recordType:\"NEWS\",payload:{}}\n";
    folder.write("s.ion", [&lines, poison].concat());
    write(&folder, vec![put("foreign", 1, "{}")]).await;
    let found = verify(&folder, &["--repair"]);
    let report = found.json();
    assert_eq!((found.exit, &report["unusable"], &report["equal"]), (1, &json!(1), &json!(false)), "{report}");
    assert!(
        report["remarks"][0]
            .as_str()
            .unwrap()
            .contains("car: 1 foreign documents stay, because the source has records that cannot be used")
    );
    assert!(local(&folder).get("car", "foreign").unwrap().is_some());
    let forced = verify(&folder, &["--repair", "--force"]);
    assert_eq!((forced.exit, &forced.json()["equal"]), (1, &json!(true)), "{forced:?}");
    let said = folder.revsync(&["verify", "s.ion"]);
    assert!(said.exit == 1 && said.out.contains("not proven: 1 unit of the source cannot be used, the first s.ion at "), "{said:?}");
}

#[tokio::test]
async fn foreign_documents_that_are_most_of_the_index_stay_unless_that_is_said() {
    let folder = synced(&car("a", 0, Some("{A:1}")));
    write(&folder, (0..5).map(|id| put(&format!("f{id}"), 1, "{}")).collect()).await;
    let kept = verify(&folder, &["--repair"]);
    assert_eq!((kept.exit, counted(&kept.json()["left"])), (1, vec![("foreign", 5)]), "{kept:?}");
    assert!(kept.json()["remarks"][0].as_str().unwrap().contains("more than half of the index"), "{kept:?}");
    assert_eq!(verify(&folder, &["--repair", "--force"]).exit, 0);
}

#[tokio::test]
async fn an_index_that_is_not_there_lacks_everything_and_is_made_by_the_repair() {
    let folder = Folder::new();
    folder.write("s.ion", [car("a", 2, Some("{A:1}")), car("b", 1, None)].concat());
    folder.write("rules.toml", "");
    let absent = verify(&folder, &[]);
    assert!(absent.exit == 2 && absent.err.contains("revsync.db"), "no index is made by looking: {absent:?}");
    assert!(!folder.path().join("revsync.db").exists());
    let mended = verify(&folder, &["--repair"]);
    assert_eq!((mended.exit, counted(&mended.json())), (0, vec![("missing", 1)]), "{mended:?}");
}

#[tokio::test]
async fn a_rule_that_keeps_rows_out_makes_them_deletes_and_one_that_keeps_deletes_makes_none() {
    let lines =
        [car("a", 0, Some("{State:\"WA\"}")), car("b", 0, Some("{State:\"OR\"}")), car("c", 0, Some("{State:\"WA\"}")), car("c", 1, None)];
    let folder = synced_by("[[table]]\nname = \"*\"\nwhere = \"State = 'WA'\"\n", &lines.concat());
    assert_eq!(verify(&folder, &["--content"]).exit, 0);
    write(&folder, vec![put("b", 0, r#"{"State":"OR"}"#)]).await;
    let found = verify(&folder, &["--repair", "--content"]);
    assert_eq!((found.exit, counted(&found.json())), (0, vec![("resurrected", 1)]), "{found:?}");
    assert_eq!(local(&folder).get("car", "b").unwrap(), None);

    let folder = synced_by("[[table]]\nname = \"*\"\ndeletes = \"keep\"\n", &lines.concat());
    assert_eq!(verify(&folder, &["--content"]).exit, 0, "what was deleted may stay");
}

#[test]
fn lines_of_bulk_are_no_index_that_could_be_compared() {
    let folder = Folder::new();
    folder.write("s.ion", car("a", 0, Some("{A:1}")));
    for sink in ["bulk:lines", "bulk:-"] {
        let done = folder.revsync(&["verify", "s.ion", "--to", sink]);
        assert_eq!(done.exit, 2, "{done:?}");
        assert!(
            done.err.contains(&format!("{sink} holds no documents that could be compared: expected local:FILE or http(s)://HOST:PORT"))
        );
    }
    assert!(!folder.path().join("lines").exists());
}

#[test]
fn a_run_that_is_stopped_exits_2_and_prints_what_it_knows() {
    let folder = synced(&car("a", 0, Some("{A:1}")));
    let made = std::process::Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap();
    assert!(made.success());
    let mut command = folder.command(&["--json", "verify", "pipe"], &[]);
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Opened when the signal is listened for already; the source comes to no end before.
    let mut pipe = std::fs::File::options().write(true).open(folder.path().join("pipe")).unwrap();
    pipe.write_all(car("a", 0, Some("{A:1}")).as_bytes()).unwrap();
    let signalled = std::process::Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    let output = running.wait_with_output().unwrap();
    drop(pipe);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &report["equal"], &report["complete"]), (Some(2), &json!(false), &json!(false)), "{report}");
}

#[test]
fn the_examples_of_the_readme_run_as_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let (_, section) = readme.split_once("\n## Prove that the index matches\n").unwrap();
    let (_, session) = section.split_once("```console\n").unwrap();
    let (session, _) = session.split_once("```\n").unwrap();
    let folder = Folder::new();
    std::os::unix::fs::symlink(root.join("tests"), folder.path().join("tests")).unwrap();
    let path = format!("{}:/usr/bin:/bin", Path::new(env!("CARGO_BIN_EXE_revsync")).parent().unwrap().display());
    let run = |typed: &str| {
        let mut shell = std::process::Command::new("sh");
        let output = shell.args(["-c", typed]).current_dir(folder.path()).env_clear().env("PATH", &path).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    // How long it took is another thing each time.
    let timeless = |text: &str| {
        let line =
            |line: &str| line.strip_suffix(" s)").map_or(line.to_owned(), |line| line.trim_end_matches(|end: char| end != ',').to_owned());
        text.lines().map(line).collect::<Vec<_>>()
    };
    let examples: Vec<(&str, &str)> = session.split("$ ").skip(1).map(|example| example.split_once('\n').unwrap()).collect();
    for (typed, expected) in &examples {
        assert_eq!(timeless(&run(typed)), timeless(expected), "{typed}");
    }
    assert_eq!(examples.len(), 4);
}
