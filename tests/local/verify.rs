//! The proof that a local index holds what its stream says, end to end: the index is damaged by chance, and every damage is named and mended.

use revsync::operation::{Operation, Target};
use revsync::sink::local::Local;
use serde_json::{Value, json};

use crate::command::{Done, Folder, revision};
use crate::damage::{Damaging, Table, ledger, stream, told};
use crate::dice::Dice;

const RULES: &str = "[[table]]\nname = \"Person\"\ndeletes = \"tombstone\"\nrouting = \"{table}\"\n[[table]]\nname = \"*\"\n";

fn tables() -> [Table; 3] {
    let plain = |name, index: &str| Table { name, index: index.to_owned(), routing: None, tombstones: false };
    [Table { routing: Some("Person"), tombstones: true, ..plain("Person", "person") }, plain("Car", "car"), plain("HTTPLog", "http_log")]
}

fn verify(folder: &Folder, more: &[&str]) -> Done {
    folder.revsync(&[&["--json", "--config", "rules.toml", "verify", "s.ion", "--sample", "0"], more].concat())
}

/// A folder with a stream, and the index that came of it.
fn synced(lines: &str) -> Folder {
    let folder = Folder::new();
    folder.write("rules.toml", RULES);
    folder.write("s.ion", lines);
    let done = folder.revsync(&["--json", "--config", "rules.toml", "sync", "s.ion", "--request-operations", "1"]).balanced();
    assert_eq!(done.exit, 0, "{done:?}");
    folder
}

fn local(folder: &Folder) -> Local {
    Local::open(&folder.path().join("revsync.db")).unwrap()
}

/// Damages what came of a ledger, and has it named and mended.
async fn damaged_and_mended(seed: u64, contents: bool, ahead: bool) {
    let dice = &mut Dice::new(seed);
    let lives = ledger(&tables(), 40, dice);
    let folder = synced(&stream(&lives, dice));
    let compared: &[&str] = if contents { &["--content"] } else { &[] };
    let before = verify(&folder, compared);
    assert_eq!((before.exit, &before.json()["equal"], &before.json()["indices"]), (0, &json!(true), &json!(3)), "{before:?}");

    let sink = local(&folder);
    let damaging = Damaging { sink: &sink, contents, ahead };
    let (damages, by_hand) = damaging.damage(&lives, dice).await;
    damaging
        .write(by_hand.into_iter().map(|target| Operation::Delete { target: Target { version: target.version + 1, ..target } }).collect())
        .await;
    drop(sink);

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
