//! Scans of streams of two emulators: `sync`, `explain` and `mapping` read what there is when they start, of every kind of shard, and end.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use revsync::record::Record;
use revsync::run::bounded::{Bounded, Settings};
use revsync::source::scan::{Length, Pages as _};

use crate::aws::{CREDENTIALS, Emulator};
use crate::command::{Done, Folder, revision};
use crate::connect;
use crate::follower::{ROOM, text};
use crate::kinesis::{Listed, Stream};

on_both! {
    an_empty_stream_is_read_to_its_end_and_nothing_comes_of_it,
    an_idle_stream_is_read_from_its_oldest_record_to_its_end,
    a_stream_that_was_resharded_is_read_with_all_its_shards,
    a_stream_that_is_written_to_without_pause_is_read_to_where_it_was_when_the_scan_began,
    explain_and_mapping_read_a_stream_and_nothing_comes_of_it,
    what_came_meanwhile_is_read_when_the_bound_is_taken_anew,
    verify_compares_an_index_with_a_stream_and_mends_it,
}

/// The fastest reads that are allowed.
const FAST: [&str; 2] = ["--idle-time-between-reads", "200ms"];

fn note(id: &str) -> Vec<u8> {
    revision("Note", id, 1, Some("{text:\"x\"}")).into_bytes()
}

fn notes(ids: impl IntoIterator<Item = usize>) -> Vec<Vec<u8>> {
    ids.into_iter().map(|id| note(&format!("id-{id}"))).collect()
}

fn sync(folder: &Folder, stream: &Stream) -> Done {
    let url = stream.url();
    let arguments = [&["--json", "sync", &url, "--to", "local:index.db"][..], &FAST].concat();
    folder.revsync_with(&arguments, &CREDENTIALS, b"").balanced()
}

fn query(stream: &Stream, statement: &str) -> Done {
    let url = stream.url();
    let arguments = [&["--json", "query", &url, statement][..], &FAST].concat();
    Folder::new().revsync_with(&arguments, &CREDENTIALS, b"")
}

/// What is explained: the shard and the id of every unit, in the order in which they come.
fn explained(stream: &Stream) -> Vec<(String, String)> {
    let url = stream.url();
    let arguments = [&["--json", "explain", &url][..], &FAST].concat();
    let done = Folder::new().revsync_with(&arguments, &CREDENTIALS, b"");
    assert_eq!(done.exit, 0, "{done:?}");
    let unit = |line: &str| {
        let unit: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| unit[key].as_str().unwrap().to_owned();
        (text("origin"), text("id"))
    };
    done.out.lines().map(unit).collect()
}

fn an_empty_stream_is_read_to_its_end_and_nothing_comes_of_it(emulator: &'static Emulator) {
    let stream = Stream::make(emulator, "empty", 2);
    let done = sync(&Folder::new(), &stream);
    assert_eq!((done.exit, done.count("received")), (0, 0), "{}", done.err);
    let found = query(&stream, "SELECT data FROM stream");
    assert_eq!((found.exit, found.out.as_str()), (1, ""), "{}", found.err);
}

fn an_idle_stream_is_read_from_its_oldest_record_to_its_end(emulator: &'static Emulator) {
    let (stream, folder) = (Stream::make(emulator, "idle", 3), Folder::new());
    // The third has none.
    for (shard, from) in stream.open().iter().zip([0, 1_000]) {
        stream.put_all(shard, &notes(from..from + 300));
    }
    let done = sync(&folder, &stream);
    assert_eq!((done.exit, done.count("indexed")), (0, 600), "{}", done.err);
    let again = sync(&folder, &stream);
    assert_eq!((again.exit, again.count("stale")), (0, 600), "{}", again.err);
}

fn a_stream_that_was_resharded_is_read_with_all_its_shards(emulator: &'static Emulator) {
    let stream = Stream::make(emulator, "resharded", 1);
    let put = |shard: &Listed, id: &str| drop(stream.put(shard, &note(id)));
    let parent = stream.open().remove(0);
    put(&parent, "parent");
    stream.split(&parent);
    let children = stream.open();
    put(&children[0], "left");
    put(&children[1], "right");
    // Of what is merged one side is read first, and has nothing left when the other one is.
    children.iter().enumerate().for_each(|(side, child)| stream.put_all(child, &notes(side * 1_000..side * 1_000 + 200 * side)));
    stream.merge(&children[0], &children[1]);
    let merged = stream.open().remove(0);
    put(&merged, "merged");
    let found = query(&stream, "SELECT metadata.id FROM Note WHERE metadata.id = 'merged'");
    assert_eq!((found.exit, found.out.lines().count()), (0, 1), "{found:?}");
    let kept: BTreeSet<String> = stream.shards().into_iter().map(|shard| shard.id).collect();
    let units = explained(&stream);
    // One emulator forgets a shard with all that it holds when it is closed.
    let expected = if kept.contains(&parent.id) { 204 } else { 1 };
    assert_eq!(units.len(), expected, "{units:?}");
    let place = |id: &str| units.iter().position(|(_, unit)| unit == id);
    let last_of = |shard: &Listed| units.iter().rposition(|(of, _)| *of == shard.id);
    assert!(place("parent") <= place("left") && place("parent") <= place("right"), "{units:?}");
    assert!(children.iter().all(|child| last_of(child) < place("merged")), "{units:?}");
}

fn a_stream_that_is_written_to_without_pause_is_read_to_where_it_was_when_the_scan_began(emulator: &'static Emulator) {
    let stream = Stream::make(emulator, "busy", 2);
    let shards = stream.open();
    shards.iter().enumerate().for_each(|(side, shard)| stream.put_all(shard, &notes(side * 1_000_000..side * 1_000_000 + 400)));
    let (ends, written) = (AtomicBool::new(false), AtomicUsize::new(0));
    let units = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                let from = 2_000_000 + 50 * written.fetch_add(1, Ordering::Relaxed);
                stream.put_all(&shards[from / 50 % 2], &notes(from..from + 50));
            }
        });
        let units = explained(&stream);
        let found = query(&stream, "SELECT metadata.id FROM Note");
        ends.store(true, Ordering::Relaxed);
        assert_eq!(found.exit, 0, "{}", found.err);
        let is_found = |id: usize| found.out.contains(&format!("\"id-{id}\""));
        assert!((0..400).chain(1_000_000..1_000_400).all(is_found), "{} rows", found.out.lines().count());
        units
    });
    let read: BTreeSet<String> = units.into_iter().map(|(_, id)| id).collect();
    assert!((0..400).chain(1_000_000..1_000_400).all(|id| read.contains(&format!("id-{id}"))), "{} were read", read.len());
    assert!(written.into_inner() > 1, "it was written to");
}

fn explain_and_mapping_read_a_stream_and_nothing_comes_of_it(emulator: &'static Emulator) {
    let (stream, folder) = (Stream::make(emulator, "looked-at", 1), Folder::new());
    let shard = stream.open().remove(0);
    stream.put(&shard, &note("a"));
    stream.put(&shard, b"{");
    let run = |command: &str| folder.revsync_with(&[&[command, &stream.url()][..], &FAST].concat(), &CREDENTIALS, b"");
    let explained = run("explain");
    assert_eq!(explained.exit, 1, "{}", explained.err);
    assert!(explained.out.contains(": index note/a at version 1") && explained.out.contains(&shard.id), "{}", explained.out);
    let mapped = run("mapping");
    assert_eq!((mapped.exit, &mapped.json()["mappings"]["properties"]["text"]["type"]), (0, &"text".into()), "{mapped:?}");
}

fn verify_compares_an_index_with_a_stream_and_mends_it(emulator: &'static Emulator) {
    let (stream, folder) = (Stream::make(emulator, "verified", 2), Folder::new());
    let (shards, url) = (stream.open(), stream.url());
    shards.iter().enumerate().for_each(|(side, shard)| stream.put_all(shard, &notes(side * 10..side * 10 + 3)));
    assert_eq!(sync(&folder, &stream).exit, 0);
    stream.put(&shards[1], &note("late"));
    let verify = |more: &[&str]| {
        let arguments = [&["--json", "verify", &url, "--to", "local:index.db"][..], &FAST, more].concat();
        folder.revsync_with(&arguments, &CREDENTIALS, b"")
    };
    let different = verify(&[]);
    assert_eq!(different.exit, 1, "{different:?}");
    assert!(different.out.contains("\"missing\"") && different.out.contains("late"), "{}", different.out);
    let mended = verify(&["--repair"]);
    assert_eq!(mended.exit, 0, "{mended:?}");
}

/// Reads on to the bound.
async fn rest(scan: &mut Bounded) -> Vec<String> {
    let Length::Time(total) = scan.total() else { panic!("a stream has a length in time: {:?}", scan.total()) };
    let (mut read, mut so_far): (Vec<Record>, _) = (Vec::new(), 0);
    while let Some(page) = scan.next(100).await.unwrap() {
        assert!((so_far..=u64::try_from(total.as_millis()).unwrap()).contains(&page.read), "{} of {total:?}", page.read);
        so_far = page.read;
        read.extend(page.records);
    }
    let mut read: Vec<String> = read.iter().map(text).collect();
    read.sort();
    read
}

fn what_came_meanwhile_is_read_when_the_bound_is_taken_anew(emulator: &'static Emulator) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stream = Stream::make(emulator, "extended", 2);
    let shards = stream.open();
    stream.put_all(&shards[0], &[b"a".to_vec(), b"b".to_vec()]);
    runtime.block_on(async {
        let settings =
            Settings { interval: Duration::from_millis(200), patience: Duration::from_secs(60), room: ROOM, stops_on_data_loss: true };
        let mut scan = Bounded::open(connect(&stream.url()).await.unwrap(), settings).await.unwrap();
        assert_eq!(rest(&mut scan).await, ["a", "b"]);
        stream.put(&shards[0], b"c");
        stream.put(&shards[1], b"d");
        scan.go_on().await.unwrap();
        assert_eq!(rest(&mut scan).await, ["c", "d"]);
        // Where the one of which everything was read is closed meanwhile, its children are read.
        stream.split(&shards[1]);
        stream.open().iter().for_each(|child| drop(stream.put(child, child.id.as_bytes())));
        let gone = !stream.shards().iter().any(|shard| shard.id == shards[1].id);
        if gone {
            // It is not known what it still had.
            assert!(scan.go_on().await.unwrap_err().what.contains("data loss in the stream does not have the shard"));
            return;
        }
        scan.go_on().await.unwrap();
        let expected: Vec<String> = stream.open().into_iter().map(|shard| shard.id).collect();
        assert_eq!(rest(&mut scan).await, expected);
        assert!(!scan.is_incomplete());
    });
}
