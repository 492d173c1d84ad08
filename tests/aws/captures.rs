//! Captured streams in a bucket, read by the command.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use revsync::sink::local::Local;

use crate::aws::{CREDENTIALS, Emulator, REGION, emulator};
use crate::command::{Done, Folder, revision};
use crate::ledger::{Ledger, OUTPUTS};

/// Runs the command as one who may use the emulator.
fn revsync(folder: &Folder, arguments: &[&str]) -> Done {
    let environment = [&CREDENTIALS[..], &[("AWS_REGION", REGION)]].concat();
    folder.revsync_with(arguments, &environment, b"")
}

/// A folder of a bucket, or an object, as a source.
fn source(emulator: &Emulator, bucket: &str, prefix: &str) -> String {
    format!("s3://{bucket}/{prefix}?region={REGION}&endpoint={}", emulator.url())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn versions(folder: &Folder) -> Vec<(String, u64)> {
    let index = Local::open_existing(&folder.path().join("revsync.db")).unwrap();
    let ids = ["a", "b", "c", "d", "e", "f"];
    ids.into_iter().filter_map(|id| Some((id.to_owned(), index.get("t", id).unwrap()?.0))).collect()
}

/// Files of a capture under names that a bucket may hold.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("2020.03/01/a.ion", revision("T", "a", 0, Some("{A:1}")).into()),
        ("2020.03/01/of cars, \u{fc}\u{1f697}+%20?.ion", revision("T", "b", 3, Some("{A:2}")).into()),
        ("2020.03/02/c.ion.gz", gzip(revision("T", "c", 1, Some("{A:3}")).as_bytes())),
        ("2020.03/02/empty", Vec::new()),
        ("2020.03/02/notes.txt", b"Some text.\n".to_vec()),
        ("2020.03/02/.hidden/d.ion", revision("T", "d", 0, Some("{}")).into()),
        ("2020.03/zero/.e.ion", revision("T", "e", 0, Some("{}")).into()),
        ("2020.03/zero/f.ion", revision("T", "a", 7, None).into()),
    ]
}

#[test]
fn a_folder_of_a_bucket_gives_the_index_that_the_same_folder_on_disk_gives() {
    let Some(emulator) = emulator() else { return };
    let (bucket, on_disk, in_bucket) = (emulator.bucket(&emulator.name("captures")), Folder::new(), Folder::new());
    emulator.put(&bucket, "ledger/", b"");
    emulator.put(&bucket, "ledger/2020.03/", b"");
    emulator.put(&bucket, "ledger-of-others/x.ion", revision("T", "f", 0, Some("{}")).as_bytes());
    for (name, content) in files() {
        emulator.put(&bucket, &format!("ledger/{name}"), &content);
        let path = on_disk.path().join("ledger").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let local = revsync(&on_disk, &["--json", "sync", "ledger"]).balanced();
    for prefix in ["ledger", "ledger/"] {
        let synced = revsync(&in_bucket, &["--json", "sync", &source(emulator, &bucket, prefix)]).balanced();
        assert_eq!(
            (synced.exit, synced.count("received"), synced.count("bytes")),
            (0, local.count("received"), local.count("bytes")),
            "{synced:?}"
        );
        assert!(synced.err.contains(&format!("passed over: s3://{bucket}/ledger/2020.03/02/notes.txt: found other text")), "{synced:?}");
    }
    assert_eq!(versions(&in_bucket), versions(&on_disk));
    assert_eq!(versions(&in_bucket), [("b".to_owned(), 3), ("c".to_owned(), 1)]);
}

#[test]
fn more_objects_than_a_page_of_the_list_holds_are_read_in_the_order_of_their_keys() {
    let Some(emulator) = emulator() else { return };
    let (bucket, folder) = (emulator.bucket(&emulator.name("captures")), Folder::new());
    for number in 0..1_100 {
        emulator.put(&bucket, &format!("many/{number:04}.ion"), revision("T", "a", number, Some("{}")).as_bytes());
    }
    let explained = revsync(&folder, &["--json", "explain", &source(emulator, &bucket, "many")]);
    let origins: Vec<String> = explained
        .out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["origin"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(origins, (0..1_100).map(|number| format!("many/{number:04}.ion")).collect::<Vec<_>>(), "{}", explained.err);
}

#[test]
fn the_whole_bucket_and_one_object_are_sources_too() {
    let Some(emulator) = emulator() else { return };
    let (bucket, folder) = (emulator.bucket(&emulator.name("captures")), Folder::new());
    emulator.put(&bucket, "a b.ion", revision("T", "a", 0, Some("{}")).as_bytes());
    emulator.put(&bucket, "a b.ion.old", revision("T", "b", 0, Some("{}")).as_bytes());
    emulator.put(&bucket, "x/c.ion", revision("T", "c", 0, Some("{}")).as_bytes());
    for (prefix, received) in [("", 3), ("a b.ion", 1), ("a%20b.ion", 1), ("x", 1), ("x/", 1), ("x/c.ion", 1)] {
        let done = revsync(&folder, &["--json", "sync", &source(emulator, &bucket, prefix)]).balanced();
        assert_eq!((done.exit, done.count("received")), (0, received), "{prefix}: {done:?}");
    }
    let verified = revsync(&folder, &["verify", &source(emulator, &bucket, ""), "--to", "local:revsync.db"]);
    assert_eq!(verified.exit, 0, "{verified:?}");
    let rows = revsync(&folder, &["--json", "query", &source(emulator, &bucket, ""), "SELECT id FROM T"]);
    assert_eq!((rows.exit, rows.out.lines().count()), (0, 3), "{rows:?}");
    let checked = revsync(&folder, &["check", &source(emulator, &bucket, "x")]);
    assert!(checked.exit == 0 && checked.out.contains(&format!("✓ source         s3://{bucket}/x")), "{checked:?}");
}

#[test]
fn a_dead_letter_names_the_object_that_it_came_from() {
    let Some(emulator) = emulator() else { return };
    let (bucket, folder) = (emulator.bucket(&emulator.name("captures")), Folder::new());
    emulator.put(
        &bucket,
        "x/y/c.ion",
        [revision("T", "a", 0, Some("{}")), revision("T", &"x".repeat(600), 0, Some("{}"))].concat().as_bytes(),
    );
    let synced = revsync(&folder, &["--json", "sync", &source(emulator, &bucket, "x")]).balanced();
    assert_eq!((synced.exit, synced.count("dead_letters")), (1, 1), "{synced:?}");
    let letter: serde_json::Value = serde_json::from_slice(&folder.read("revsync-dead-letters.jsonl")).unwrap();
    assert_eq!(
        (&letter["origin"]["stream"], &letter["origin"]["shard"]),
        (&format!("s3://{bucket}").into(), &"x/y/c.ion".into()),
        "{letter}"
    );
}

#[test]
fn an_export_in_a_bucket_is_read_in_the_order_of_its_manifest_and_what_is_missing_is_said() {
    let Some(emulator) = emulator() else { return };
    let ledger = Ledger::new(3, 40);
    for output in OUTPUTS {
        let (on_disk, in_bucket) = (Folder::new(), Folder::new());
        let bucket = emulator.bucket(&emulator.name("exports"));
        let root = on_disk.path().join("export");
        let files = ledger.export(&root, output, 9);
        let key = |path: &Path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                match path.is_dir() {
                    true => folders.push(path),
                    false => emulator.put(&bucket, &key(&path), &std::fs::read(&path).unwrap()),
                }
            }
        }
        let local = revsync(&on_disk, &["--json", "sync", "export"]).balanced();
        let source = source(emulator, &bucket, "journal.v1");
        let synced = revsync(&in_bucket, &["--json", "sync", &source]).balanced();
        assert_eq!((synced.exit, synced.err.as_str()), (0, ""), "{output:?}: {synced:?}");
        for name in ["received", "indexed", "deleted", "stale", "compacted"] {
            assert_eq!(synced.count(name), local.count(name), "{output:?}: {name}");
        }
        let explained = revsync(&in_bucket, &["--json", "explain", &source]);
        let mut origins: Vec<String> = Vec::new();
        for line in explained.out.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            origins.push(line["origin"].as_str().unwrap().to_owned());
        }
        origins.dedup();
        assert_eq!(origins, files.iter().map(|file| key(file)).collect::<Vec<_>>(), "{output:?}");

        let (status, _) = emulator.request("DELETE", &format!("/{bucket}/{}", key(&files[2])), &[], b"");
        assert_eq!(status, 204);
        let missing = revsync(&Folder::new(), &["--json", "sync", &source]).balanced();
        let said = format!("1 of the {} files that", files.len());
        assert!(missing.exit == 1 && missing.err.contains(&said) && missing.err.contains(&key(&files[2])), "{missing:?}");
    }
}

#[test]
fn what_cannot_be_read_is_named_with_what_to_do() {
    let Some(emulator) = emulator() else { return };
    let (bucket, folder) = (emulator.bucket(&emulator.name("captures")), Folder::new());
    emulator.put(&bucket, "ledger-2020/c.ion", revision("T", "c", 0, Some("{}")).as_bytes());
    emulator.put(&bucket, "texts/a.txt", b"Some text.");
    emulator.put(&bucket, "texts/b.txt", b"Some text.");
    let archive = [("x-amz-storage-class", "GLACIER".to_owned())];
    emulator.put_as(&bucket, "cold/a.ion", revision("T", "c", 0, Some("{}")).as_bytes(), &archive);
    let nowhere = format!("{bucket}-nowhere");
    let empty = emulator.bucket(&emulator.name("empty"));
    for (bucket, prefix, expected) in [
        (&*nowhere, "", "cannot be listed: NoSuchBucket"),
        (&*empty, "", "is an empty bucket"),
        (&*bucket, "nothing", "does not exist: the bucket"),
        (&*bucket, "ledger", &format!("did you mean s3://{bucket}/ledger-2020/?")),
        (&*bucket, "texts", "is a folder without a captured stream; passed over: 2 objects that are no captured streams, the first s3://"),
        (&*bucket, "texts/a.txt", "is not a captured stream: expected"),
        (&*bucket, "cold", "restore what is archived"),
    ] {
        let done = revsync(&folder, &["sync", &source(emulator, bucket, prefix)]);
        assert!(done.exit == 2 && done.err.contains(expected), "{bucket}/{prefix}: {done:?}");
    }
    let mistyped = revsync(&folder, &["sync", "s3://Ledger/x"]);
    assert!(mistyped.exit == 2 && mistyped.err.contains("source: expected s3://BUCKET[/PREFIX], found"), "{mistyped:?}");
}
