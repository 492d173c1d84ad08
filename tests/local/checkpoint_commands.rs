//! `checkpoints list` and `rewind`, as a person sees them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use revsync::plan::checkpoint::{Checkpoint, Progress};
use revsync::plan::lease::{Draft, Owner, Row};
use revsync::plan::stored::{Stamp, Written};
use revsync::sink::local::Local;
use revsync::store::checkpoints::{Checkpoints, Shelf, ShelfFile};
use serde_json::{Value, json};

use crate::command::{Done, Folder};
use crate::shelves::{arn, pipeline, settled};

/// The file that all of these use.
const FILE: [&str; 2] = ["--checkpoints", "file:kept"];

fn shelf(folder: &Folder) -> Arc<dyn Shelf> {
    Arc::new(ShelfFile::open(&folder.path().join("kept")).unwrap())
}

fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis().try_into().unwrap()
}

/// A row whose owner was heard of so long ago, and may be taken over after three seconds of silence.
fn owned(ago: u64, number: u64) -> Row {
    let owner = Owner { name: "host-1".to_owned(), session: "s".to_owned(), takeover_after: 3_000 };
    Row { owner: Some(owner), epoch: 4, heartbeat: now() - ago, checkpoint: settled(number) }
}

fn released(number: u64) -> Row {
    Row { owner: None, ..owned(120_000, number) }
}

#[tokio::main(flavor = "current_thread")]
async fn store(shelf: &Arc<dyn Shelf>, (name, stream): (&str, &str), shard: &str, expect: Option<Stamp>, row: Row) -> Stamp {
    let checkpoints = Checkpoints::new(Arc::clone(shelf), pipeline(name, stream));
    match checkpoints.write(&[Draft { shard: shard.to_owned(), expect, row: Some(row) }]).await.unwrap()[..] {
        [Written::Done(stamp)] => stamp,
        ref other => panic!("{other:?}"),
    }
}

/// A folder with the checkpoints of two shards of one pipeline, which nobody reads.
fn folder() -> Folder {
    let folder = Folder::new();
    let shelf = shelf(&folder);
    store(&shelf, ("ledger", "ledger"), "shardId-0", None, released(49));
    let ended = Checkpoint { progress: Progress::Ended, covered: None, ..settled(0) };
    store(&shelf, ("ledger", "ledger"), "shardId-1", None, Row { checkpoint: ended, ..released(0) });
    folder
}

fn checkpoints(folder: &Folder, arguments: &[&str]) -> Done {
    folder.revsync(&[&["checkpoints"], arguments, &FILE].concat())
}

fn listed(folder: &Folder) -> Vec<Value> {
    let done = folder.revsync(&[&["--json", "checkpoints", "list"], &FILE[..]].concat());
    done.json()["checkpoints"].as_array().unwrap().clone()
}

/// Where each shard is.
fn places(folder: &Folder) -> Vec<Value> {
    listed(folder).iter().map(|row| row["progress"].clone()).collect()
}

#[test]
fn a_list_shows_how_far_each_shard_is_and_who_reads_it() {
    let folder = folder();
    store(&shelf(&folder), ("second", "other"), "shardId-7", None, owned(2_500, 7));
    let done = checkpoints(&folder, &["list"]);
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!(done.exit, 0, "{done:?}");
    assert_eq!(lines[0], format!("ledger {}", arn("ledger")));
    assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>(), ["SHARD", "OWNER", "HEARTBEAT", "COVERED", "POSITION"]);
    assert!(lines[2].starts_with("shardId-0  -") && lines[2].contains("2 min "), "{}", lines[2]);
    assert!(lines[2].ends_with("2024-11-29 08:15:00Z  sequence number 49, sub-sequence number 3"), "{}", lines[2]);
    assert!(lines[3].ends_with("-                     ended"), "{}", lines[3]);
    assert!(lines[6].starts_with("SHARD") && lines[7].contains("host-1") && lines[7].contains(" s ago"), "{done:?}");
    let of_one = checkpoints(&folder, &["list", "--name", "second"]);
    assert!(!of_one.out.contains("shardId-0") && of_one.out.contains("shardId-7"), "{of_one:?}");

    let row = &listed(&folder)[0];
    let expected = json!({
        "pipeline": "ledger", "stream": arn("ledger"), "shard": "shardId-0", "owner": null, "epoch": 4, "ended": false,
        "progress": {"settled": {"sequence": {"number": "49", "sub": 3}}}, "covered": "2024-11-29T08:15:00Z",
        "targets": {"person": "aAbB-_09", "a.b-c": "x"}, "heartbeat": row["heartbeat"], "heartbeat_age_seconds": row["heartbeat_age_seconds"],
    });
    assert_eq!(*row, expected);
    assert!(row["heartbeat_age_seconds"].as_u64().is_some_and(|age| age >= 120), "{row}");
}

#[test]
fn where_there_are_none_that_is_said() {
    let folder = Folder::new();
    assert_eq!(checkpoints(&folder, &["list"]).out, "no checkpoints\n");
    assert!(!folder.path().join("kept").exists());
    let done = checkpoints(&folder, &["rewind", "earliest"]);
    assert!(done.exit == 2 && done.err.contains("holds none") && done.err.contains("revsync checkpoints list"), "{done:?}");
    let index = folder.revsync(&["checkpoints", "list"]);
    assert!(index.exit == 2 && index.err.contains("expected a local index at revsync.db"), "{index:?}");
    assert!(!folder.path().join("revsync.db").exists());
}

#[test]
fn a_row_of_a_newer_revsync_is_named_and_hides_nothing_else() {
    let folder = folder();
    let newer = folder.read("kept");
    let newer = String::from_utf8(newer).unwrap().replacen("{\"v\":1,", "{\"v\":2,", 1);
    folder.write("kept", newer);
    let done = checkpoints(&folder, &["list"]);
    assert!(done.exit == 1 && done.err.contains("shardId-0: expected form 1 or older, found form 2"), "{done:?}");
    assert!(done.out.contains("shardId-1") && !done.out.contains("shardId-0"), "{done:?}");
    let done = folder.revsync(&[&["--json", "checkpoints", "list"], &FILE[..]].concat());
    assert_eq!((done.exit, done.json()["unreadable"].as_array().unwrap().len()), (1, 1));
}

#[test]
fn a_rewind_sets_every_shard_and_forgets_the_indices() {
    for (to, progress) in [
        ("earliest", json!({"begins": "earliest"})),
        ("2025-07-31T00:00:00Z", json!({"begins": {"timestamp": {"millis": 1_753_920_000_000_u64}}})),
    ] {
        let folder = folder();
        let done = checkpoints(&folder, &["rewind", to]);
        assert_eq!((done.exit, done.err.as_str()), (0, ""), "{done:?}");
        assert!(
            done.out.contains("sequence number 49") && done.out.contains("ledger: 2 shards; revsync run goes on from there"),
            "{done:?}"
        );
        for row in listed(&folder) {
            assert_eq!((&row["progress"], &row["targets"], &row["covered"]), (&progress, &json!({}), &Value::Null));
            assert_eq!((&row["epoch"], &row["owner"]), (&json!(5), &Value::Null), "whoever reads it now loses it");
        }
    }
}

#[test]
fn a_rewind_to_the_latest_passes_nothing_over_that_comes_later() {
    let (folder, before) = (folder(), now());
    checkpoints(&folder, &["rewind", "latest"]);
    let since = places(&folder)[0]["begins"]["latest"]["since"].as_u64().unwrap();
    assert!(before <= since && since <= now());
}

#[test]
fn a_rewind_to_a_record_is_for_one_shard() {
    let folder = folder();
    let refused = checkpoints(&folder, &["rewind", "12"]);
    assert!(refused.exit == 2 && refused.err.contains("one shard only") && refused.err.contains("--shard"), "{refused:?}");
    let done = folder.revsync(&[&["--json", "checkpoints", "rewind", "12:3", "--shard", "shardId-0"], &FILE[..]].concat());
    let to = json!({"settled": {"sequence": {"number": "12", "sub": 3}}});
    let from = json!({"settled": {"sequence": {"number": "49", "sub": 3}}});
    let expected = json!({"pipeline": "ledger", "stream": arn("ledger"), "to": to, "rewound": [{"shard": "shardId-0", "from": from}]});
    assert_eq!(done.json(), expected);
    assert_eq!(places(&folder), [to, json!("ended")]);
    let unknown = checkpoints(&folder, &["rewind", "earliest", "--shard", "shardId-9"]);
    assert!(unknown.exit == 2 && unknown.err.contains("none of a shard \"shardId-9\""), "{unknown:?}");
    let wrong = checkpoints(&folder, &["rewind", "yesterday"]);
    assert!(wrong.exit == 2 && wrong.err.contains("expected earliest, latest, a time"), "{wrong:?}");
}

#[test]
fn of_several_pipelines_one_has_to_be_named() {
    let folder = folder();
    store(&shelf(&folder), ("second", "other"), "shardId-7", None, released(7));
    store(&shelf(&folder), ("second", "third"), "shardId-7", None, released(7));
    let rewind = |arguments: &[&str]| checkpoints(&folder, &[&["rewind", "earliest"], arguments].concat());
    let refused = rewind(&[]);
    assert!(refused.exit == 2 && refused.err.contains("both \"ledger\" and \"second\"") && refused.err.contains("--name"), "{refused:?}");
    let refused = rewind(&["--name", "second"]);
    assert!(refused.exit == 2 && refused.err.contains(&arn("third")) && refused.err.contains("--stream"), "{refused:?}");
    assert_eq!(rewind(&["--name", "second", "--stream", "third"]).exit, 0);
    assert_eq!(rewind(&["--name", "second", "--stream", &arn("other")]).exit, 0);
    let begun = json!({"begins": "earliest"});
    assert_eq!(places(&folder)[2..], [begun.clone(), begun]);
    assert_eq!(places(&folder)[1], json!("ended"), "those of the other were left alone");
}

#[test]
fn a_shard_that_is_read_is_not_rewound_unless_that_is_forced() {
    let folder = folder();
    let row = Row { owner: owned(0, 0).owner.map(|owner| Owner { takeover_after: 600_000, ..owner }), ..owned(3_000, 7) };
    store(&shelf(&folder), ("ledger", "ledger"), "shardId-2", None, row);
    let before = places(&folder);
    let refused = checkpoints(&folder, &["rewind", "earliest"]);
    assert!(refused.exit == 2 && refused.err.contains("shardId-2 is read by host-1, which was heard of "), "{refused:?}");
    assert!(refused.err.contains("stop the worker first"), "{refused:?}");
    assert_eq!(places(&folder), before, "nothing was rewound");
    assert_eq!(checkpoints(&folder, &["rewind", "earliest", "--shard", "shardId-0"]).exit, 0, "another shard is not read");
    assert_eq!(checkpoints(&folder, &["rewind", "earliest", "--force"]).exit, 0);
    assert!(places(&folder).iter().all(|place| *place == json!({"begins": "earliest"})));
}

#[test]
fn an_owner_that_is_silent_by_its_clock_is_watched_before_that_is_believed() {
    let folder = folder();
    let shelf = shelf(&folder);
    let first = store(&shelf, ("ledger", "ledger"), "shardId-2", None, owned(3_600_000, 7));
    let over = Arc::new(AtomicBool::new(false));
    let heartbeats = {
        let (shelf, over) = (Arc::clone(&shelf), Arc::clone(&over));
        // Its clock is an hour behind, and it lives.
        std::thread::spawn(move || {
            let mut stamp = first;
            while !over.load(Ordering::Relaxed) {
                stamp = store(&shelf, ("ledger", "ledger"), "shardId-2", Some(stamp), owned(3_600_000, 7));
                std::thread::sleep(Duration::from_millis(50));
            }
        })
    };
    let refused = checkpoints(&folder, &["rewind", "earliest"]);
    over.store(true, Ordering::Relaxed);
    heartbeats.join().unwrap();
    assert!(refused.exit == 2 && refused.err.contains("host-1, which was just heard of"), "{refused:?}");
    // And one that is gone is not in the way.
    assert_eq!(checkpoints(&folder, &["rewind", "earliest"]).exit, 0);
}

#[test]
fn checkpoints_in_the_local_index_are_listed_and_rewound_there() {
    let folder = Folder::new();
    let path = folder.path().join("revsync.db");
    let index: Arc<dyn Shelf> = Arc::new(Local::open(Path::new(&path)).unwrap());
    store(&index, ("ledger", "ledger"), "shardId-0", None, released(49));
    assert_eq!(folder.revsync(&["checkpoints", "rewind", "earliest"]).exit, 0);
    let done = folder.revsync(&["--json", "checkpoints", "list", "--to", "local:revsync.db"]);
    assert_eq!(done.json()["checkpoints"][0]["progress"], json!({"begins": "earliest"}));
}

#[test]
fn a_sink_that_has_no_place_for_checkpoints_is_refused_with_the_way_out() {
    let folder = Folder::new();
    for to in [&["--to", "bulk:-"][..], &["--to", "bulk:x"], &["--to", "https://h", "--auth", "aoss", "--aws-region", "eu-west-1"]] {
        let done = folder.revsync(&[&["checkpoints", "list"], to].concat());
        assert!(done.exit == 2 && done.err.contains("cannot keep them") && done.err.contains("--checkpoints file:PATH"), "{done:?}");
        assert_eq!(folder.revsync(&[&["checkpoints", "list"], to, &FILE].concat()).exit, 0, "{to:?}");
    }
}

#[test]
fn the_place_comes_from_the_file_of_the_configuration_too() {
    let folder = folder();
    folder.write("r.toml", "[checkpoints]\nurl = \"file:kept\"\ntakeover_after = \"2s\"\n");
    assert!(folder.revsync(&["--config", "r.toml", "checkpoints", "list"]).out.contains("shardId-1"));
    let done = folder.revsync_with(&["checkpoints", "list"], &[("REVSYNC_CHECKPOINTS", "file:kept")], b"");
    assert!(done.out.contains("shardId-1"), "{done:?}");
    for (text, said) in [
        ("takeover_after = \"0s\"", "checkpoints.takeover_after: expected 1s to 1h, found 0s"),
        ("takeover_after = \"2h\"", "checkpoints.takeover_after: expected 1s to 1h, found 2h"),
        ("url = \"kept\"", "did you mean file:kept?"),
        ("place = \"kept\"", "unknown key \"place\" in [checkpoints]"),
    ] {
        folder.write("r.toml", format!("[checkpoints]\n{text}\n"));
        let done = folder.revsync(&["--config", "r.toml", "checkpoints", "list"]);
        assert!(done.exit == 2 && done.err.contains(said), "{text}: {done:?}");
    }
}
