//! Workers that share a consumer group: who reads what, what is committed, and what becomes of it when one of them goes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use revsync::sink::local::Local;
use serde_json::{Value, json};

use crate::command::Folder;
use crate::dice::Dice;
use crate::kafka::{Broker, Sent, broker};
use crate::process::{Worker, held, note};
use crate::scripted_opensearch::{Fate, Scripted, Step};

/// The document that the message at an offset of a partition is of.
fn id(partition: i32, offset: i64) -> String {
    format!("{partition}-{offset}")
}

/// Messages behind those that a topic has, each of a document of its own.
fn more(broker: &Broker, topic: &str, each: i64) -> Vec<Sent> {
    let ends = broker.ends(topic).into_iter().zip(0..);
    ends.flat_map(|((_, end), partition)| (end..end + each).map(move |offset| note(partition, &id(partition, offset), 1, "x"))).collect()
}

/// What a group committed has to be in the index: asked for in this order.
fn assert_only_what_is_settled_is_committed(broker: &Broker, topic: &str, folder: &Folder) {
    let committed = broker.committed(topic, topic);
    let Ok(index) = Local::open_existing(&folder.path().join("index.db")) else {
        return assert!(committed.iter().all(Option::is_none), "{committed:?}");
    };
    for (committed, partition) in committed.into_iter().zip(0..) {
        for offset in 0..committed.unwrap_or(0) {
            assert!(index.get("note", &id(partition, offset)).unwrap().is_some(), "{topic}-{partition}: {offset} is below {committed:?}");
        }
    }
}

/// How many messages of a topic are in the index, and how many there are.
fn indexed(broker: &Broker, topic: &str, folder: &Folder) -> (i64, i64) {
    let index = Local::open_existing(&folder.path().join("index.db")).unwrap();
    let ends = broker.ends(topic);
    let all = ends.iter().zip(0..).flat_map(|((_, end), partition)| (0..*end).map(move |offset| id(partition, offset)));
    let found = all.filter(|id| index.get("note", id).unwrap().is_some()).count();
    (i64::try_from(found).unwrap(), ends.iter().map(|(_, end)| end).sum())
}

fn killed_again_and_again(more_properties: &[&str], seed: u64) {
    let Some(broker) = broker() else { return };
    let (topic, folder, mut dice) = (broker.topic("kills", 8), Folder::new(), Dice::new(seed));
    // Gone is noticed soon.
    let properties = [&["-X", "session.timeout.ms=3000", "-X", "heartbeat.interval.ms=500"][..], more_properties].concat();
    let start = || Worker::start(&folder, &broker.url(&topic), &properties);
    broker.produce(&topic, &more(broker, &topic, 20));
    let steady = start();
    for _ in 0..5 {
        let shaken = start();
        std::thread::sleep(Duration::from_millis(dice.below(2_500) as u64));
        broker.produce(&topic, &more(broker, &topic, 30));
        assert_only_what_is_settled_is_committed(broker, &topic, &folder);
        std::thread::sleep(Duration::from_millis(dice.below(1_500) as u64));
        if dice.percent(75) {
            shaken.kill();
        } else {
            let (exit, log) = shaken.stop();
            assert_eq!(exit, 0, "{log}");
        }
        assert_only_what_is_settled_is_committed(broker, &topic, &folder);
        broker.produce(&topic, &more(broker, &topic, 10));
    }
    let status = steady.wait_until_caught_up(8);
    assert!(status["data_loss"].as_object().unwrap().values().all(|count| *count == 0), "{status:#}");
    let (found, all) = indexed(broker, &topic, &folder);
    assert_eq!(found, all, "{}", steady.log());
    let (exit, log) = steady.stop();
    assert_eq!(exit, 0, "{log}");
    let ends: Vec<_> = broker.ends(&topic).into_iter().map(|(_, end)| Some(end)).collect();
    assert_eq!(broker.committed(&topic, &topic), ends, "{log}");
    assert_only_what_is_settled_is_committed(broker, &topic, &folder);
}

#[test]
fn two_workers_lose_nothing_while_one_is_killed_again_and_again_and_commit_only_what_is_settled() {
    killed_again_and_again(&[], 1);
}

#[test]
fn two_workers_that_rebalance_step_by_step_lose_nothing_either() {
    killed_again_and_again(&["-X", "partition.assignment.strategy=cooperative-sticky"], 2);
}

#[test]
fn two_workers_lose_nothing_under_the_protocol_in_which_the_broker_assigns() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("broker-assigns", 8), Folder::new());
    broker.produce(&topic, &more(broker, &topic, 20));
    let start = || Worker::start(&folder, &broker.url(&topic), &["-X", "group.protocol=consumer"]);
    let first = start();
    first.wait_until_caught_up(8);
    let second = start();
    second.wait_until("the partitions are shared", |status| status["shards"].as_array().unwrap().len() == 4);
    broker.produce(&topic, &more(broker, &topic, 20));
    first.wait_until_caught_up(4);
    assert_eq!(second.stop().0, 0);
    broker.produce(&topic, &more(broker, &topic, 20));
    first.wait_until_caught_up(8);
    assert_eq!(first.stop().0, 0);
    assert_eq!(indexed(broker, &topic, &folder), (480, 480));
    assert_eq!(broker.committed(&topic, &topic), vec![Some(60); 8]);
}

#[test]
fn after_a_clean_stop_nothing_is_read_twice() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("clean", 2), Folder::new());
    broker.produce(&topic, &more(broker, &topic, 100));
    let first = Worker::start(&folder, &broker.url(&topic), &["--group", "readers"]);
    // In the middle of it.
    first.wait_until("some are indexed", |status| status["counts"]["received"].as_u64() > Some(0));
    let (exit, log) = first.stop();
    assert_eq!(exit, 0, "{log}");
    let (settled, _) = indexed(broker, &topic, &folder);
    assert_eq!(broker.committed("readers", &topic).into_iter().flatten().sum::<i64>(), settled, "{log}");
    broker.produce(&topic, &more(broker, &topic, 10));
    let second = Worker::start(&folder, &broker.url(&topic), &["--group", "readers"]);
    let status = second.wait_until_caught_up(2);
    assert_eq!((&status["counts"]["received"], &status["counts"]["stale"]), (&json!(220 - settled), &json!(0)), "{status:#}");
    assert_eq!(second.stop().0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_is_taken_away_with_requests_under_way_is_committed_as_far_as_it_is_settled() {
    let Some(broker) = broker() else { return };
    let server = Scripted::start().await;
    let (url, topic, folder) = (server.url(), broker.topic("mid-flight", 2), Folder::new());
    let places = ["--to", url.as_str(), "--linger", "50ms"];
    let (source, group) = (broker.url(&topic), topic.clone());
    broker.produce(&topic, &more(broker, &topic, 5));
    let first = tokio::task::block_in_place(|| {
        let first = Worker::start(&folder, &source, &places);
        first.wait_until_caught_up(2);
        first
    });
    // What comes next is written, and nobody hears of it.
    let held: Vec<Step> = (0..8).map(|_| Step::after_writing(Fate::Hang)).collect();
    server.script(held);
    let before = server.bulks().len();
    tokio::task::block_in_place(|| broker.produce(&topic, &more(broker, &topic, 5)));
    server.arrived(before + 1).await;
    let second = tokio::task::block_in_place(|| {
        let second = Worker::start(&folder, &source, &places);
        second.wait_until("the partitions are shared", |status| status["shards"].as_array().unwrap().len() == 1);
        first.wait_until("the partitions are shared", |status| status["shards"].as_array().unwrap().len() == 1);
        assert_eq!(broker.committed(&group, &topic), [Some(5), Some(5)], "{}", first.log());
        second
    });
    server.clear();
    tokio::task::block_in_place(|| {
        first.wait_until_caught_up(1);
        second.wait_until_caught_up(1);
        assert_eq!((first.stop().0, second.stop().0), (0, 0));
        assert_eq!(broker.committed(&group, &topic), [Some(10), Some(10)]);
    });
    assert_eq!(server.documents("note").len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_sink_is_down_for_longer_than_it_may_go_without_polling_stays_in_its_group() {
    let Some(broker) = broker() else { return };
    let server = Scripted::start().await;
    let (url, topic, folder) = (server.url(), broker.topic("outage", 2), Folder::new());
    let config = folder.write("worker.toml", "[delivery]\nrequest_bytes = \"64KiB\"\nrequests_in_flight = 1\n");
    let times = "session.timeout.ms=3000;heartbeat.interval.ms=500;max.poll.interval.ms=3000";
    let more_arguments = ["--to", &url, "--config", config.to_str().unwrap(), "-X", times];
    tokio::task::block_in_place(|| broker.produce(&topic, &more(broker, &topic, 5)));
    let worker = tokio::task::block_in_place(|| {
        let worker = Worker::start(&folder, &broker.url(&topic), &more_arguments);
        worker.wait_until_caught_up(2);
        worker
    });
    let address = server.stop().await;
    let text = "x".repeat(10_000);
    let status = tokio::task::block_in_place(|| {
        // More than there is room for.
        let notes: Vec<Sent> = (0..200).map(|i| note(i % 2, &format!("later-{i}"), 1, &text)).collect();
        broker.produce(&topic, &notes);
        worker.wait_until("it is not ready", |status| status["ready"] == false);
        std::thread::sleep(Duration::from_secs(6));
        assert_eq!(broker.ask(json!({ "do": "members", "group": topic })), json!([2]));
        worker.status()
    });
    let unread: u64 = status["shards"].as_array().unwrap().iter().map(|shard| shard["unread"].as_u64().unwrap()).sum();
    assert!(unread > 50 && status["live"] == true, "{status:#}\n{}", worker.log());
    let server = Scripted::start_on(address, None).await;
    server.add_index("note-000001", Some("note"));
    tokio::task::block_in_place(|| {
        worker.wait_until_caught_up(2);
        let (exit, log) = worker.stop();
        assert_eq!((exit, log.contains("lost")), (0, false), "{log}");
        assert_eq!(broker.committed(&topic, &topic), [Some(105), Some(105)], "{log}");
    });
    assert!(server.documents("note").len() >= 200);
}

#[test]
fn a_group_that_begins_with_the_latest_reads_what_comes_later_in_new_partitions_too() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("latest", 2), Folder::new());
    broker.produce(&topic, &more(broker, &topic, 3));
    let latest = ["--start", "latest", "-X", "topic.metadata.refresh.interval.ms=1000"];
    let first = Worker::start(&folder, &broker.url(&topic), &latest);
    first.wait_until_caught_up(2);
    // Before anything was read: where it began is fixed.
    assert_eq!(first.stop().0, 0);
    assert_eq!(broker.committed(&topic, &topic), [Some(3), Some(3)]);
    broker.produce(&topic, &[note(0, "while-away", 1, "x")]);
    let second = Worker::start(&folder, &broker.url(&topic), &latest);
    second.wait_until_caught_up(2);
    broker.ask(json!({ "do": "grow", "topic": topic, "partitions": 3 }));
    broker.produce(&topic, &[note(2, "in-the-new-one", 1, "x")]);
    let status = second.wait_until_caught_up(3);
    assert_eq!(status["counts"]["received"], 2, "{status:#}");
    assert_eq!(second.stop().0, 0);
    assert_eq!((held(&folder, "while-away").is_some(), held(&folder, "in-the-new-one").is_some()), (true, true));
}

#[test]
fn a_group_begins_at_a_time() {
    let Some(broker) = broker() else { return };
    // Its messages are old from the start, and the broker looks for such from time to time.
    let (topic, folder) = (broker.topic_with("time", 1, json!({ "retention.ms": "-1" })), Folder::new());
    let at = |id: &str, at: u64| Sent { at: Some(at), ..note(0, id, 1, "x") };
    broker.produce(&topic, &[at("a", 1_750_000_000_000), at("b", 1_760_000_000_000), at("c", 1_770_000_000_000)]);
    let worker = Worker::start(&folder, &broker.url(&topic), &["--start", "2025-10-09T08:53:20Z"]);
    let status = worker.wait_until_caught_up(1);
    assert_eq!(status["counts"]["received"], 2, "{status:#}");
    assert_eq!((worker.stop().0, held(&folder, "a")), (0, None));
}

/// The shards of a worker: their names.
fn shards(status: &Value) -> Vec<&str> {
    status["shards"].as_array().unwrap().iter().map(|shard| shard["shard"].as_str().unwrap()).collect()
}

#[test]
fn topics_of_a_pattern_are_followed_also_those_that_come_later() {
    let Some(broker) = broker() else { return };
    let (prefix, folder) = (broker.name("family"), Folder::new());
    let topic = broker.topic(&format!("{prefix}.item"), 1);
    broker.produce(&topic, &[note(0, "a", 1, "x")]);
    let more = ["--name", &prefix, "-X", "topic.metadata.refresh.interval.ms=500", "--start", "latest"];
    let worker = Worker::start(&folder, &broker.url(&format!("^{prefix}\\.")), &more);
    let status = worker.wait_until_caught_up(1);
    assert_eq!(shards(&status), [format!("{topic}-0")]);
    let later = broker.topic(&format!("{prefix}.order"), 1);
    broker.produce(&later, &[note(0, "b", 1, "x")]);
    let status = worker.wait_until_caught_up(2);
    assert_eq!(status["counts"]["received"], 1, "what was there before it began is passed over, and nothing of the new topic: {status:#}");
    assert_eq!(worker.stop().0, 0);
    assert_eq!(broker.committed(&prefix, &later), [Some(1)]);
}

#[test]
fn a_topic_that_ends_in_markers_of_transactions_is_caught_up_with() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("markers", 1), Folder::new());
    broker.transaction(&topic, &[note(0, "a", 1, "kept")], "commit");
    broker.transaction(&topic, &[note(0, "a", 2, "aborted")], "abort");
    let worker = Worker::start(&folder, &broker.url(&topic), &[]);
    let status = worker.wait_until_caught_up(1);
    assert_eq!((&status["counts"]["received"], &status["shards"][0]["lag_milliseconds"]), (&json!(1), &json!(0)), "{status:#}");
    let metrics = worker.get("/metrics").unwrap().1;
    assert!(metrics.lines().any(|line| line.starts_with("revsync_lag_records") && line.ends_with(" 0")), "{metrics}");
    assert_eq!(worker.stop().0, 0);
    assert_eq!(held(&folder, "a"), Some((1, "kept".to_owned())));
}

#[test]
fn a_worker_commits_while_messages_keep_coming() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("busy", 1), Folder::new());
    broker.produce(&topic, &more(broker, &topic, 1));
    let worker = Worker::start(&folder, &broker.url(&topic), &[]);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                broker.produce(&topic, &more(broker, &topic, 20));
            }
        });
        let since = std::time::Instant::now();
        while broker.committed(&topic, &topic)[0] < Some(100) {
            assert!(since.elapsed().as_secs() < 60, "{}", worker.log());
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_only_what_is_settled_is_committed(broker, &topic, &folder);
        ends.store(true, Ordering::Relaxed);
    });
    assert_eq!(worker.stop().0, 0);
}

#[test]
fn a_worker_that_stops_has_left_its_group_when_it_ends() {
    let Some(broker) = broker() else { return };
    let topic = broker.topic("left", 1);
    broker.produce(&topic, &[note(0, "a", 1, "x")]);
    // One that has not leaves the next waiting for its session to time out.
    for protocol in ["classic", "consumer"] {
        for _ in 0..3 {
            let folder = Folder::new();
            let worker = Worker::start(&folder, &broker.url(&topic), &["--group", &topic, "-X", &format!("group.protocol={protocol}")]);
            worker.wait_until_caught_up(1);
            assert_eq!(worker.stop().0, 0);
            assert_eq!(broker.ask(json!({ "do": "members", "group": topic })), json!([]), "{protocol}");
        }
    }
}
