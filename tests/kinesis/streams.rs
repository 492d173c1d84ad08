//! Whole streams of emulators, followed while they are split and merged.

use std::collections::HashMap;

use revsync::plan::checkpoint::Start;

use crate::aws::{ACCOUNT, Emulator, REGION, emulator};
use crate::connect;
use crate::follower::{Follower, now, number};
use crate::kinesis::{Stream, kinesis};

/// Numbered texts.
fn texts(from: usize, count: usize) -> Vec<Vec<u8>> {
    (from..from + count).map(|number| format!("{number:05}").into_bytes()).collect()
}

/// Says whether of the two of every pair the first came first.
fn came_in_order(events: &[String], pairs: &[(String, String)]) -> bool {
    let place = |event: &String| events.iter().position(|seen| seen == event).unwrap_or_else(|| panic!("no {event}: {events:?}"));
    pairs.iter().all(|(first, second)| place(first) < place(second))
}

#[tokio::test]
async fn every_record_of_every_shard_is_read_once_and_in_its_order() {
    let Some(mock) = kinesis() else { return };
    let stream = Stream::make(mock, "plain", 3);
    for (place, shard) in stream.open().iter().enumerate() {
        stream.put_all(shard, &texts(100 * place, 50));
    }
    let kinesis = connect(&stream.url()).await.unwrap();
    assert_eq!((kinesis.arn(), kinesis.retention().as_secs()), (stream.arn().as_str(), 86_400));
    let began = now();
    let mut follower = Follower::new(kinesis, Start::Earliest);
    follower.follow_until_records(150).await;
    let mut by_shard: HashMap<&str, Vec<String>> = HashMap::new();
    for (record, text) in follower.records.iter().zip(follower.texts()) {
        assert!(record.arrived.is_some_and(|arrived| arrived.abs_diff(began) < 600_000), "{:?}", record.arrived);
        assert_eq!(record.origin.stream, stream.arn());
        by_shard.entry(&record.origin.shard).or_default().push(text);
    }
    assert_eq!(by_shard.len(), 3);
    for read in by_shard.values() {
        assert!(read.len() == 50 && read.is_sorted(), "{read:?}");
    }
}

#[tokio::test]
async fn both_emulators_give_their_records_by_name_and_by_arn() {
    let Some((mock, ministack)) = kinesis().zip(emulator()) else { return };
    let both: [&'static Emulator; 2] = [mock, ministack];
    for emulator in both {
        let stream = Stream::make(emulator, "named", 1);
        let shard = stream.open().remove(0);
        let put: Vec<String> = (0..3).map(|number| stream.put(&shard, number.to_string().as_bytes())).collect();
        for url in [stream.url(), stream.url_by_arn()] {
            let mut follower = Follower::new(connect(&url).await.unwrap(), Start::Earliest);
            follower.follow_until_records(3).await;
            assert_eq!(follower.texts(), ["0", "1", "2"], "{url}");
            assert_eq!(follower.records.iter().map(number).collect::<Vec<_>>(), put);
        }
    }
}

#[tokio::test]
async fn closed_shards_that_were_never_read_are_read_before_their_children() {
    let Some(mock) = kinesis() else { return };
    let stream = Stream::make(mock, "unread", 1);
    let parent = stream.open().remove(0);
    stream.put(&parent, b"v1");
    stream.split(&parent);
    let children = stream.open();
    children.iter().for_each(|child| drop(stream.put(child, b"v2")));
    stream.merge(&children[0], &children[1]);
    let merged = stream.open().remove(0);
    stream.put(&merged, b"v3");

    let mut follower = Follower::new(connect(&stream.url()).await.unwrap(), Start::Earliest);
    follower.follow_until_records(4).await;
    assert_eq!(follower.texts(), ["v1", "v2", "v2", "v3"]);
    let ends_before = |first: &str, second: &str| (format!("{first} ends"), format!("{second} begins"));
    let order = [
        ends_before(&parent.id, &children[0].id),
        ends_before(&parent.id, &children[1].id),
        ends_before(&children[0].id, &merged.id),
        ends_before(&children[1].id, &merged.id),
    ];
    assert!(came_in_order(&follower.events, &order), "{:?}", follower.events);
    assert_eq!(follower.events.iter().filter(|event| **event == format!("{} begins", merged.id)).count(), 1, "announced twice");
}

#[tokio::test]
async fn a_stream_that_is_split_merged_and_split_again_is_followed_also_across_restarts() {
    let Some(mock) = kinesis() else { return };
    let stream = Stream::make(mock, "resharded", 2);
    let mut written = 0;
    let mut write = |stream: &Stream| {
        for shard in stream.open() {
            stream.put_all(&shard, &texts(written, 5));
            written += 5;
        }
        written
    };
    write(&stream);
    let mut follower = Follower::new(connect(&stream.url()).await.unwrap(), Start::Earliest);
    follower.follow_until_records(10).await;
    // While it is followed.
    stream.split(&stream.open()[0]);
    let so_far = write(&stream);
    follower.follow_until_records(so_far).await;
    // While nobody does: merged, and split again, and the shards between were never seen.
    let (saved, mut read) = (follower.saved.clone(), follower.texts());
    drop(follower);
    let open = stream.open();
    let left = open.iter().find(|left| open.iter().any(|right| left.is_left_of(right))).unwrap();
    let right = open.iter().find(|right| left.is_left_of(right)).unwrap();
    stream.merge(left, right);
    write(&stream);
    let newest = stream.open().into_iter().next_back().unwrap();
    stream.split(&newest);
    let all = write(&stream);
    let mut follower = Follower::continuing(connect(&stream.url()).await.unwrap(), Start::Latest, saved);
    follower.follow_until("all of them", |follower| follower.records.len() + read.len() >= all).await;
    read.extend(follower.texts());
    read.sort();
    let expected: Vec<String> = texts(0, all).into_iter().map(|text| String::from_utf8(text).unwrap()).collect();
    assert_eq!(read, expected, "each once");
    assert!(follower.losses.is_empty());
}

#[tokio::test]
async fn with_the_latest_what_was_there_is_passed_over_and_all_that_comes_is_read() {
    let Some(mock) = kinesis() else { return };
    let stream = Stream::make(mock, "latest", 1);
    let shard = stream.open().remove(0);
    stream.put(&shard, b"old");
    let mut follower = Follower::new(connect(&stream.url()).await.unwrap(), Start::Latest);
    // Its first iterator is made before the first page comes.
    follower.follow_until("an iterator", |follower| !follower.events.is_empty()).await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    stream.put(&shard, b"new");
    stream.split(&shard);
    stream.open().iter().for_each(|child| drop(stream.put(child, b"newer")));
    follower.follow_until_records(3).await;
    assert_eq!(follower.texts(), ["new", "newer", "newer"]);
}

#[tokio::test]
async fn with_a_start_in_time_everything_is_read_that_arrived_then_or_later() {
    let Some(mock) = kinesis() else { return };
    let stream = Stream::make(mock, "time", 1);
    let shard = stream.open().remove(0);
    stream.put(&shard, b"before");
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let start = now();
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    stream.put(&shard, b"after");
    let mut follower = Follower::new(connect(&stream.url()).await.unwrap(), Start::Timestamp(start));
    follower.follow_until_records(1).await;
    assert_eq!(follower.texts(), ["after"]);
}

#[tokio::test]
async fn a_large_record_of_an_emulator_is_read() {
    let Some(mock) = kinesis() else { return };
    let stream = Stream::make(mock, "large", 1);
    let shard = stream.open().remove(0);
    stream.put_all(&shard, &[vec![b'x'; 900 * 1024]]);
    let mut follower = Follower::new(connect(&stream.url()).await.unwrap(), Start::Earliest);
    follower.follow_until_records(1).await;
    assert_eq!(follower.records[0].data.len(), 900 * 1024);
}

#[tokio::test]
async fn a_stream_of_an_emulator_that_is_deleted_ends_the_reading() {
    let Some(mock) = kinesis() else { return };
    let stream = Stream::make(mock, "deleted", 1);
    let mut follower = Follower::new(connect(&stream.url()).await.unwrap(), Start::Earliest);
    follower.follow_until("a beginning", |follower| !follower.events.is_empty()).await;
    stream.delete();
    follower.reading.read("shardId-000000000000", revsync::plan::checkpoint::Begin::Earliest);
    follower.follow_failing().await;
    let failed = follower.failed.unwrap();
    assert!(failed.contains(&format!("the stream {} in {REGION}", stream.name)) && failed.contains("does not exist"), "{failed} {ACCOUNT}");
}
