//! Scans of a scripted stream: how often it is read, what it takes to believe that its end is reached, and what is said where a scan is not
//! proven to be complete.

use std::time::Duration;

use revsync::error::{Error, Kind};
use revsync::plan::pace::SOONEST;
use revsync::run::bounded::{Bounded, Settings};
use revsync::source::scan::Pages as _;
use serde_json::json;
use tokio::time::Instant;

use crate::aws::CREDENTIALS;
use crate::command::{Done, Folder, revision};
use crate::connect;
use crate::follower::{ROOM, now, text};
use crate::script::{ScriptedStream, Shard, refuses};
use crate::scripted_aws::HANGS_UP;

const FAST: Settings = Settings { interval: SOONEST, patience: Duration::from_secs(60), room: ROOM, stops_on_data_loss: false };

/// A distance that stays, as if there were more.
const ODD: Option<u64> = Some(40_000_000_000);

/// What a scan reads, in the order in which it comes, and whether it is complete.
async fn scanned(stream: &ScriptedStream, settings: Settings) -> Result<(Vec<String>, bool), Error> {
    let mut scan = Bounded::open(connect(&stream.url()).await?, settings).await?;
    let mut read = Vec::new();
    while let Some(page) = scan.next(usize::MAX).await? {
        read.extend(page.records.iter().map(text));
    }
    Ok((read, !scan.is_incomplete()))
}

fn texts(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    numbers.into_iter().map(|number| number.to_string()).collect()
}

/// Runs a command on the stream.
async fn run(stream: &ScriptedStream, arguments: &[&str]) -> Done {
    run_with(stream, arguments, &[], "").await
}

/// Runs a command on the stream, with these variables of its environment, and this configuration.
async fn run_with(stream: &ScriptedStream, arguments: &[&str], environment: &[(&'static str, &'static str)], config: &'static str) -> Done {
    let mut all: Vec<String> = ["--config", "revsync.toml"].iter().chain(arguments).map(|&argument| argument.to_owned()).collect();
    all.push(stream.url());
    let environment = [&CREDENTIALS, environment].concat();
    let run = move || {
        let (folder, all): (_, Vec<&str>) = (Folder::new(), all.iter().map(String::as_str).collect());
        folder.write("revsync.toml", config);
        folder.revsync_with(&all, &environment, b"")
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

fn of_notes(id: &str, count: u64) -> Shard {
    let records = (1..=count).map(|number| (number, number, revision("Note", &format!("{id}-{number}"), 1, Some("{n:1}")).into_bytes()));
    Shard { records: records.collect(), ..Shard::new(id) }
}

#[tokio::test]
async fn a_shard_is_read_once_a_second_and_no_more_often_than_is_said() {
    for (interval, reads) in [(Duration::from_secs(1), 3), (Duration::from_millis(400), 6)] {
        let shards = ["shard-0", "shard-1"].map(|id| Shard { behind: Some(5_000), ..Shard::with(id, 0..100_000) });
        let stream = ScriptedStream::start(shards.to_vec()).await;
        let began = Instant::now();
        let mut scan = Bounded::open(connect(&stream.url()).await.unwrap(), Settings { interval, ..FAST }).await.unwrap();
        while stream.asked("GetRecords").len() < 2 * reads {
            scan.next(usize::MAX).await.unwrap();
        }
        let most_of_one = |shard: &str| {
            let of_it = |asked: &&serde_json::Value| asked["ShardIterator"].as_str().unwrap().starts_with(shard);
            stream.asked("GetRecords").iter().filter(of_it).count()
        };
        let most = most_of_one("shard-0").max(most_of_one("shard-1"));
        assert!(most >= reads);
        let least = interval * (u32::try_from(most).unwrap() - 1);
        assert!(began.elapsed() >= least, "{most} reads in {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn sync_reads_a_shard_once_a_second_unless_it_is_told_otherwise() {
    let stream = ScriptedStream::start(vec![of_notes("shard-0", 2)]).await;
    let began = Instant::now();
    let done = run(&stream, &["--json", "sync"]).await.balanced();
    assert_eq!((done.exit, done.count("indexed")), (0, 2), "{}", done.err);
    let reads = stream.asked("GetRecords").len();
    assert!(reads >= 3 && began.elapsed() >= Duration::from_secs(reads as u64 - 1), "{reads} reads in {:?}", began.elapsed());
}

#[tokio::test]
async fn a_page_without_records_at_the_beginning_is_no_end_although_it_says_so() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", 0..10)]).await;
    stream.instead(|request, before| {
        let is_first = !before.iter().any(|request| request.action == "GetRecords");
        let empty = json!({ "Records": [], "MillisBehindLatest": 0, "NextShardIterator": "shard-0|0" });
        (request.action == "GetRecords" && is_first).then(|| (200, empty.to_string()))
    });
    assert_eq!(scanned(&stream, FAST).await.unwrap(), (texts(0..10), true));
}

#[tokio::test]
async fn an_empty_stretch_is_crossed_however_long_it_is() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", 0..10)]).await;
    stream.instead(|request, before| {
        let crossed = before.iter().filter(|request| request.action == "GetRecords").count() as u64;
        let behind = 60_000_000 - 5_000_000 * crossed;
        let empty = json!({ "Records": [], "MillisBehindLatest": behind, "NextShardIterator": "shard-0|0" });
        (request.action == "GetRecords" && crossed < 10).then(|| (200, empty.to_string()))
    });
    assert_eq!(scanned(&stream, FAST).await.unwrap(), (texts(0..10), true));
    assert_eq!(stream.asked("GetRecords").len(), 11, "a distance that was measured and is zero is believed");
}

#[tokio::test]
async fn a_shard_that_never_says_that_it_is_at_its_end_is_given_up_and_that_is_said() {
    let stream = ScriptedStream::start(vec![Shard { behind: ODD, ..of_notes("shard-0", 3) }, of_notes("shard-1", 2)]).await;
    let synced = run(&stream, &["--json", "sync", "--idle-time-between-reads", "200ms", "--shard-timeout", "1s"]).await.balanced();
    assert_eq!((synced.exit, synced.count("indexed")), (1, 5), "{}", synced.err);
    let environment = [("REVSYNC_IDLE_TIME_BETWEEN_READS", "200ms"), ("REVSYNC_SHARD_TIMEOUT", "1s")];
    let explained = run_with(&stream, &["explain"], &environment, "").await;
    let file = "[source]\nidle_time_between_reads = \"200ms\"\nshard_timeout = \"1s\"\n";
    for done in [synced, explained, run_with(&stream, &["mapping"], &[], file).await] {
        assert_eq!(done.exit, 1, "{done:?}");
        assert!(done.err.contains("not proven complete") && done.err.contains("shard-0") && !done.err.contains("shard-1"), "{}", done.err);
    }
}

#[tokio::test]
async fn the_bound_goes_by_the_clock_of_the_service_and_not_by_that_of_this_machine() {
    let ahead = 24 * 60 * 60 * 1_000;
    let mut shard = Shard { behind: Some(1_000_000), ..Shard::new("shard-0") };
    // What came before the scan began by the service's clock, and what comes much later; no page says that it is at the end.
    let of_now = now() + ahead;
    shard.records = (1..=9).map(|number| (number, of_now - 60_000 + number, number.to_string().into_bytes())).collect();
    shard.records.extend((10..100).map(|number| (number, of_now + 60_000, number.to_string().into_bytes())));
    let stream = ScriptedStream::start(vec![shard]).await;
    stream.service.says_date(&date(of_now));
    stream.change(|state| state.page_bytes = Some(3));
    assert_eq!(scanned(&stream, FAST).await.unwrap(), (texts(1..=11), true), "the last page is within the bound in part");
}

fn date(millis: u64) -> String {
    let date = time::OffsetDateTime::from_unix_timestamp(i64::try_from(millis / 1_000).unwrap()).unwrap();
    date.format(&time::format_description::well_known::Rfc2822).unwrap().replace("+0000", "GMT")
}

#[tokio::test]
async fn throttled_reads_and_iterators_that_expire_cost_a_scan_time_and_no_record() {
    let stream = ScriptedStream::start(vec![Shard { behind: Some(0), ..Shard::with("shard-0", 0..200) }]).await;
    stream.instead(|request, before| {
        let reads = before.iter().filter(|request| request.action == "GetRecords").count();
        (request.action == "GetRecords").then(|| match reads {
            0 | 2 | 3 => Some(refuses("ProvisionedThroughputExceededException", "Rate exceeded")),
            5 => Some(refuses("ExpiredIteratorException", "Iterator expired.")),
            _ => None,
        })?
    });
    let (read, is_complete) = scanned(&stream, FAST).await.unwrap();
    assert_eq!((read, is_complete), (texts(0..200), true));
}

#[tokio::test]
async fn a_merged_shard_is_begun_once_and_after_both_of_what_it_came_of() {
    let closed = |id: &str, numbers| Shard { closed: true, ..Shard::with(id, numbers) };
    let parents = vec!["left".to_owned(), "right".to_owned()];
    let merged = Shard { parents, ..Shard::with("merged", 1_000..1_003) };
    let stream = ScriptedStream::start(vec![merged, closed("left", 0..1), closed("right", 1..300)]).await;
    let (read, is_complete) = scanned(&stream, FAST).await.unwrap();
    assert_eq!((read.len(), is_complete), (303, true));
    assert_eq!(read[300..], texts(1_000..1_003), "behind all others");
    let begun = stream.asked("GetShardIterator").iter().filter(|asked| asked["ShardId"] == "merged").count();
    assert_eq!(begun, 1);
}

#[tokio::test]
async fn children_of_a_shard_that_was_read_to_the_bound_are_not_begun() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", 0..3)]).await;
    let mut scan = Bounded::open(connect(&stream.url()).await.unwrap(), FAST).await.unwrap();
    let page = scan.next(usize::MAX).await.unwrap().unwrap();
    assert_eq!(page.records.len(), 3);
    assert!(scan.next(usize::MAX).await.unwrap().is_none());
    let child = Shard { parents: vec!["shard-0".to_owned()], ..Shard::with("shard-1", 3..5) };
    stream.change(|state| {
        state.shards[0].closed = true;
        state.shards.push(child);
    });
    assert!(scan.next(usize::MAX).await.unwrap().is_none());
    // They are when the scan goes on.
    scan.go_on().await.unwrap();
    let page = scan.next(usize::MAX).await.unwrap().unwrap();
    assert_eq!(page.records.iter().map(text).collect::<Vec<_>>(), texts(3..5));
}

#[tokio::test]
async fn a_stream_that_is_deleted_while_it_is_scanned_ends_the_scan_and_is_named() {
    let stream = ScriptedStream::start(vec![Shard { behind: Some(5_000), ..Shard::with("shard-0", 0..100_000) }]).await;
    let mut scan = Bounded::open(connect(&stream.url()).await.unwrap(), FAST).await.unwrap();
    scan.next(usize::MAX).await.unwrap();
    stream.change(|state| state.is_deleted = true);
    let error = loop {
        if let Err(error) = scan.next(usize::MAX).await {
            break error;
        }
    };
    assert!(error.kind == Kind::Source && error.what.contains("the stream scripted in eu-west-1"), "{error}");
}

#[tokio::test]
async fn a_shard_that_vanishes_while_it_is_scanned_is_a_loss_and_the_scan_is_not_complete() {
    let vanishes = || async {
        let stream = ScriptedStream::start(vec![Shard { behind: ODD, ..of_notes("shard-0", 3) }]).await;
        stream.instead(|request, before| {
            let is_read = before.iter().any(|request| request.action == "GetRecords");
            match request.action.as_str() {
                "GetRecords" if is_read => Some(refuses("ResourceNotFoundException", "Shard shard-0 does not exist")),
                "ListShards" if is_read => Some((200, json!({ "Shards": [] }).to_string())),
                _ => None,
            }
        });
        stream
    };
    let done = run(&vanishes().await, &["--json", "sync", "--idle-time-between-reads", "200ms"]).await.balanced();
    assert_eq!((done.exit, done.count("indexed")), (1, 3), "{}", done.err);
    assert!(done.err.contains("lost before they were read") && done.err.contains("not proven complete"), "{}", done.err);
    let stream = vanishes().await;
    let stops = Settings { stops_on_data_loss: true, ..FAST };
    let mut scan = Bounded::open(connect(&stream.url()).await.unwrap(), stops).await.unwrap();
    let error = loop {
        if let Err(error) = scan.next(usize::MAX).await {
            break error;
        }
    };
    assert!(error.what.contains("data loss in shard-0") && error.to_string().contains("on_data_loss"), "{error}");
}

#[tokio::test]
async fn a_shard_that_does_not_answer_any_more_ends_a_scan_and_what_was_read_before_is_delivered() {
    let stream = ScriptedStream::start(vec![Shard { behind: ODD, ..of_notes("shard-0", 3) }]).await;
    stream.instead(|request, before| {
        let is_read = before.iter().any(|request| request.action == "GetRecords");
        (request.action == "GetRecords" && is_read).then(|| (HANGS_UP, String::new()))
    });
    let done = run(&stream, &["--json", "sync", "--idle-time-between-reads", "200ms", "--shard-timeout", "1s"]).await.balanced();
    assert_eq!((done.exit, done.count("indexed")), (2, 3), "{}", done.err);
    assert!(done.err.contains("the shard shard-0 of the stream scripted in eu-west-1"), "{}", done.err);
    assert!(done.err.contains("could not be read for 1s"), "{}", done.err);
}

#[tokio::test]
async fn rights_that_are_missing_end_a_scan_and_are_named() {
    let stream = ScriptedStream::start(vec![of_notes("shard-0", 3)]).await;
    stream.instead(|request, _| (request.action == "GetRecords").then(|| refuses("AccessDeniedException", "not authorized")));
    let done = run(&stream, &["--json", "sync"]).await.balanced();
    assert_eq!(done.exit, 2, "{}", done.err);
    assert!(done.err.contains("cannot be read") && done.err.contains("kinesis:GetRecords"), "{}", done.err);
}

#[tokio::test]
async fn a_scan_holds_no_more_than_its_room_whatever_a_stream_has() {
    let mut shards = Vec::new();
    for id in 0..6 {
        let mut shard = Shard { behind: Some(5_000), ..Shard::new(&format!("shard-{id}")) };
        shard.records = (1..=4).map(|number| (number, number, vec![b'x'; 500_000])).collect();
        shard.closed = true;
        shards.push(shard);
    }
    let stream = ScriptedStream::start(shards).await;
    let settings = Settings { room: 2_000_000, ..FAST };
    let mut scan = Bounded::open(connect(&stream.url()).await.unwrap(), settings).await.unwrap();
    let mut records = 0;
    while let Some(page) = scan.next(600_000).await.unwrap() {
        assert!(page.records.len() <= 2, "no more than was asked for, and one");
        records += page.records.len();
    }
    assert_eq!(records, 24);
}
