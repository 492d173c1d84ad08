//! Many shards at once while something is wrong: how often it is tried, what is told and what is said.

use std::sync::Arc;
use std::time::Duration;

use revsync::error::Kind;
use revsync::metrics::Loss;
use revsync::plan::checkpoint::{Begin, Start};
use revsync::plan::pace::{AT_THE_END, SOONEST};
use revsync::run::reading::{News, Reading, What};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, timeout};

use crate::connect;
use crate::follower::{Follower, ROOM};
use crate::log::Log;
use crate::script::{ScriptedStream, Shard, refuses};
use crate::scripted_aws::HANGS_UP;

async fn reading(stream: &ScriptedStream) -> (Reading, Receiver<News>) {
    Reading::new(Arc::new(connect(&stream.url()).await.unwrap()), ROOM)
}

async fn next(heard: &mut Receiver<News>) -> What {
    timeout(Duration::from_secs(10), heard.recv()).await.expect("news").unwrap().what
}

/// The next that is no page without records.
async fn next_of_note(heard: &mut Receiver<News>) -> What {
    loop {
        match next(heard).await {
            What::Page(read) if read.page.records.is_empty() => {}
            what => return what,
        }
    }
}

#[tokio::test]
async fn a_shard_that_is_throttled_is_read_again_later_and_no_hot_loop() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [10])]).await;
    stream
        .instead(|request, _| (request.action == "GetRecords").then(|| refuses("ProvisionedThroughputExceededException", "Rate exceeded")));
    let (mut reading, mut heard) = reading(&stream).await;
    let began = Instant::now();
    reading.read("shard-0", Begin::Earliest);
    while stream.asked("GetRecords").len() < 6 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(began.elapsed() >= 5 * SOONEST, "six tries in {:?}", began.elapsed());
    assert!(heard.try_recv().is_err(), "a while of that is nothing to tell");
    stream.change(|state| state.instead = None);
    assert!(matches!(next(&mut heard).await, What::Page(read) if read.page.records.len() == 1));
}

#[tokio::test]
async fn a_shard_is_read_at_most_five_times_a_second_and_an_idle_one_once() {
    let behind = Shard { behind: Some(5_000), ..Shard::with("shard-0", 0..100_000) };
    for (shard, least) in [(Shard::new("shard-0"), AT_THE_END), (behind, SOONEST)] {
        let stream = ScriptedStream::start(vec![shard]).await;
        let (mut reading, mut heard) = reading(&stream).await;
        let began = Instant::now();
        reading.read("shard-0", Begin::Earliest);
        for _ in 0..3 {
            assert!(matches!(next(&mut heard).await, What::Page(_)));
        }
        assert!(began.elapsed() >= 2 * least, "three reads in {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn an_outage_is_told_once_it_is_one_and_so_is_its_end() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [10])]).await;
    let (mut reading, mut heard) = reading(&stream).await;
    stream.instead(|request, _| (request.action == "GetShardIterator").then(|| (HANGS_UP, String::new())));
    reading.read("shard-0", Begin::Earliest);
    let What::Trouble { what: why, .. } = next(&mut heard).await else { panic!("expected trouble") };
    assert!(why.contains("GetShardIterator"), "{why}");
    stream.change(|state| state.instead = None);
    loop {
        match next(&mut heard).await {
            What::Trouble { .. } => {}
            What::Fine => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(next(&mut heard).await, What::Page(read) if read.page.records.len() == 1));
}

#[tokio::test]
async fn a_single_failure_is_nothing_to_tell() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [10])]).await;
    stream.instead(|request, before| {
        let is_first = !before.iter().any(|request| request.action == "GetRecords");
        (request.action == "GetRecords" && is_first).then(|| (500, String::new()))
    });
    let (mut reading, mut heard) = reading(&stream).await;
    reading.read("shard-0", Begin::Earliest);
    assert!(matches!(next(&mut heard).await, What::Page(read) if read.page.records.len() == 1));
}

#[tokio::test]
async fn missing_rights_are_told_at_once_and_tried_again_slowly() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [10])]).await;
    stream.instead(|request, _| {
        (request.action == "GetRecords").then(|| refuses("AccessDeniedException", "not authorized to perform: kinesis:GetRecords"))
    });
    let (mut reading, mut heard) = reading(&stream).await;
    reading.read("shard-0", Begin::Earliest);
    let What::Trouble { what: why, .. } = next(&mut heard).await else { panic!("expected trouble") };
    assert!(why.contains("kinesis:GetRecords"), "{why}");
}

#[tokio::test]
async fn a_stream_that_is_deleted_while_it_is_read_ends_the_reading_and_names_the_stream() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [10])]).await;
    let (mut reading, mut heard) = reading(&stream).await;
    reading.read("shard-0", Begin::Earliest);
    assert!(matches!(next(&mut heard).await, What::Page(_)));
    stream.change(|state| state.is_deleted = true);
    let What::Failed(error) = next_of_note(&mut heard).await else { panic!("expected the end") };
    assert_eq!(error.kind, Kind::Source);
    assert!(error.to_string().contains("the stream scripted in eu-west-1"), "{error}");
    let asked = stream.service.requests().len();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(stream.service.requests().len(), asked, "it is not asked for over and over");
}

#[tokio::test]
async fn a_shard_that_vanishes_while_it_is_read_is_a_loss_and_counts_as_ended() {
    let (log, _listening) = Log::start();
    let mut shards = vec![Shard::with("shard-0", [10]), Shard::with("shard-1", [20])];
    let stream = ScriptedStream::start(shards.clone()).await;
    let mut follower = Follower::new(connect(&stream.url()).await.unwrap(), Start::Earliest);
    follower.follow_until_records(2).await;
    shards[0] = Shard { parents: vec!["shard-0".to_owned()], ..Shard::with("shard-2", [11]) };
    stream.change(|state| state.shards = shards);
    follower.follow_until("the child and the loss", |follower| follower.records.len() == 3 && !follower.losses.is_empty()).await;
    assert_eq!(follower.losses.len(), 1, "{:?}", follower.losses);
    assert_eq!(follower.texts()[2], "11");
    assert!(follower.failed.is_none());
    let said = log.lines().into_iter().filter(|line| line.contains("ERROR")).collect::<Vec<_>>();
    assert!(said.len() == 1 && said[0].contains("shard-0"), "{said:?}");
}

#[tokio::test]
async fn a_shard_that_is_not_found_and_is_listed_is_tried_again() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [10])]).await;
    stream.instead(|request, before| {
        let tries = before.iter().filter(|request| request.action == "GetShardIterator").count();
        (request.action == "GetShardIterator" && tries < 2).then(|| refuses("ResourceNotFoundException", "not yet"))
    });
    let (mut reading, mut heard) = reading(&stream).await;
    reading.read("shard-0", Begin::Earliest);
    loop {
        match next(&mut heard).await {
            What::Page(read) => break assert_eq!(read.page.records.len(), 1),
            What::Trouble { .. } | What::Fine => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_trimmed_position_is_told_before_what_is_left_is_read() {
    let (log, _listening) = Log::start();
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [30])]).await;
    stream.instead(|request, _| {
        let is_old = request.action == "GetShardIterator" && request.json()["StartingSequenceNumber"] == "20";
        is_old.then(|| refuses("InvalidArgumentException", "StartingSequenceNumber 20 is invalid."))
    });
    let (mut reading, mut heard) = reading(&stream).await;
    let number = revsync::record::SequenceNumber("20".to_owned());
    reading.read("shard-0", Begin::After { position: revsync::record::Position::Sequence { number, sub: None } });
    assert!(matches!(next(&mut heard).await, What::Loss { cause: Loss::Trimmed, what } if what.contains("StartingSequenceNumber 20")));
    assert!(matches!(next(&mut heard).await, What::Page(read) if read.page.records.len() == 1));
    assert!(log.lines().iter().any(|line| line.contains("ERROR") && line.contains("lost") && line.contains("shard-0")));
}

#[tokio::test]
async fn a_stream_that_is_made_again_under_its_name_is_read_from_its_beginning_and_what_was_left_of_the_other_is_a_loss() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [10])]).await;
    let (mut reading, mut heard) = reading(&stream).await;
    reading.read("shard-0", Begin::Earliest);
    assert!(matches!(next(&mut heard).await, What::Page(_)));
    stream.change(|state| state.shards = vec![Shard::with("shard-0", [5])]);
    stream.instead(|request, _| {
        let asked = request.json();
        match request.action.as_str() {
            "GetRecords" if asked["ShardIterator"] == "shard-0|1" => Some(refuses("ResourceNotFoundException", "no such stream")),
            "GetShardIterator" if asked["StartingSequenceNumber"] == "10" => {
                Some(refuses("InvalidArgumentException", "StartingSequenceNumber 10 did not come from this stream."))
            }
            _ => None,
        }
    });
    assert!(matches!(next_of_note(&mut heard).await, What::Loss { cause: Loss::Trimmed, .. }));
    assert!(matches!(next_of_note(&mut heard).await, What::Page(read) if read.page.records[0].data == "5"));
}

#[tokio::test]
async fn a_shard_that_is_stopped_is_read_no_more_and_its_old_news_are_known() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [10])]).await;
    let (mut reading, mut heard) = reading(&stream).await;
    reading.read("shard-0", Begin::Earliest);
    let first = timeout(Duration::from_secs(10), heard.recv()).await.unwrap().unwrap();
    assert!(reading.heeds(&first));
    reading.stop("shard-0");
    assert!(!reading.heeds(&first) && !reading.is_reading("shard-0"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let asked = stream.service.requests().len();
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(stream.service.requests().len(), asked);
    reading.read("shard-0", Begin::Earliest);
    let second = timeout(Duration::from_secs(10), heard.recv()).await.unwrap().unwrap();
    assert!(reading.heeds(&second) && !reading.heeds(&first), "another reading of the same shard");
}

#[tokio::test]
async fn nothing_of_a_record_is_said_in_the_log() {
    let (log, _listening) = Log::start();
    let mut shard = Shard { closed: true, ..Shard::new("shard-0") };
    shard.records = vec![(1, 1, b"secret-content".to_vec())];
    let child = Shard { parents: vec!["shard-0".to_owned()], ..Shard::new("shard-1") };
    let stream = ScriptedStream::start(vec![shard, child]).await;
    let mut follower = Follower::new(connect(&stream.url()).await.unwrap(), Start::Earliest);
    follower.follow_until("the child", |follower| follower.events.iter().any(|event| event == "shard-1 begins")).await;
    let lines = log.lines();
    assert!(lines.iter().all(|line| !line.contains("secret-content")), "{lines:?}");
    // Each began once, and one ended.
    let said: Vec<_> = lines.iter().filter(|line| line.contains("revsync::run::reading")).collect();
    assert_eq!(said.len(), 3, "{said:?}");
}

#[tokio::test]
async fn a_shard_that_was_read_to_its_end_is_read_again_when_that_is_ordered() {
    let stream = ScriptedStream::start(vec![Shard { closed: true, ..Shard::with("shard-0", [10]) }]).await;
    let child = Shard { parents: vec!["shard-0".to_owned()], ..Shard::new("shard-1") };
    stream.change(|state| state.shards.push(child));
    let (mut reading, mut heard) = reading(&stream).await;
    for _ in 0..2 {
        reading.read("shard-0", Begin::Earliest);
        assert!(matches!(next(&mut heard).await, What::Page(read) if read.page.records.len() == 1));
        assert!(matches!(next(&mut heard).await, What::Ended));
    }
}
