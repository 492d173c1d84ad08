//! What reaches the sink of one document comes in the order of its versions, also where its key goes on in another shard.

use std::collections::HashMap;
use std::sync::Arc;

use crate::command::{Folder, revision};
use crate::kinesis::{Listed, Stream, kinesis};
use crate::process::Worker;
use crate::scripted_opensearch::Scripted;

/// Documents with a key each, spread over all hash keys.
const KEYS: [u128; 5] = [0, u128::MAX / 4 + 1, u128::MAX / 3, u128::MAX / 4 * 3, u128::MAX];

/// Writes the next version of every document into the shard that its key belongs to.
fn write(stream: &Stream, versions: std::ops::Range<u64>) {
    let open = stream.open();
    for version in versions {
        for (document, key) in KEYS.iter().enumerate() {
            let of = |shard: &&Listed| (shard.keys.0..=shard.keys.1).contains(key);
            let data = revision("Note", &format!("d{document}"), version, Some("{a:1}"));
            stream.put_all(open.iter().find(of).unwrap(), &[data.into_bytes()]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_versions_of_a_document_arrive_in_their_order_through_splits_and_merges() {
    let Some(emulator) = kinesis() else { return };
    let (stream, folder, server) = (Stream::make(emulator, "order", 2), Folder::new(), Arc::new(Scripted::start().await));
    let (url, index) = (server.url(), Arc::clone(&server));
    let reshards = tokio::task::spawn_blocking(move || {
        write(&stream, 0..6);
        stream.split(&stream.open()[0]);
        write(&stream, 6..12);
        let worker = Worker::start(
            &folder,
            &[
                &stream.url(),
                "--to",
                &url,
                "--dead-letters",
                "file:letters.jsonl",
                "--checkpoints",
                "file:checkpoints.json",
                "--linger",
                "1ms",
            ],
        );
        let open = stream.open();
        stream.merge(&open[1], &open[2]);
        write(&stream, 12..18);
        let has = |version| (0..KEYS.len()).all(|d| index.document("note", &format!("d{d}")).is_some_and(|(now, _)| now == version));
        worker.wait_until("the index has what was written", |_| has(17));
        let open = stream.open();
        let right = open.iter().find(|right| open.iter().any(|left| left.is_left_of(right))).unwrap();
        let left = open.iter().find(|left| left.is_left_of(right)).unwrap();
        stream.merge(left, right);
        write(&stream, 18..24);
        stream.split(&stream.open()[0]);
        write(&stream, 24..30);
        worker.wait_until("the index has what was written", |_| has(29));
        let (exit, log) = worker.stop();
        assert_eq!(exit, 0, "{log}");
        stream.shards().len()
    });
    assert_eq!(reshards.await.unwrap(), 8);
    let mut latest: HashMap<String, u64> = HashMap::new();
    for operation in server.bulks().iter().flat_map(|request| request.operations()) {
        let (document, version) = operation.split_once('@').unwrap();
        let version: u64 = version.parse().unwrap();
        let before = latest.insert(document.to_owned(), version);
        assert!(before.is_none_or(|before| before < version), "{operation} came after version {before:?}");
    }
    assert_eq!(latest.len(), KEYS.len());
    assert!(latest.values().all(|version| *version == 29), "{latest:?}");
}
