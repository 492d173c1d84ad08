//! What is not there: messages that were removed before they were read, topics that are other ones, brokers that are away, and who may not read.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::command::Folder;
use crate::kafka::{broker, own_broker};
use crate::process::{Worker, held, note};

#[test]
fn messages_that_were_removed_before_they_were_read_are_counted_and_what_is_there_is_read() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("trimmed", 2), Folder::new());
    broker.produce(&topic, &(0..20).map(|i| note(i % 2, &format!("id-{i}"), 1, "x")).collect::<Vec<_>>());
    broker.ask(json!({ "do": "commit", "group": topic, "topic": topic, "partition": 0, "offset": 4 }));
    broker.trim(&topic, 0, 7);
    let stopped = Worker::start(&folder, &broker.url(&topic), &["--on-data-loss", "stop"]).ended();
    assert_eq!(stopped.0, 2, "{}", stopped.1);
    assert!(stopped.1.contains("data loss") && stopped.1.contains("from offset 4 to 6"), "{}", stopped.1);
    assert_eq!(broker.committed(&topic, &topic)[0], Some(4), "whoever comes next has to know it too");
    let worker = Worker::start(&folder, &broker.url(&topic), &[]);
    let status = worker.wait_until_caught_up(2);
    assert_eq!((&status["data_loss"]["trimmed"], &status["data_loss"]["vanished"]), (&json!(1), &json!(0)), "{status:#}");
    assert!(status["last_error"]["what"].as_str().unwrap().contains("from offset 4 to 6"), "{status:#}");
    assert_eq!(worker.stop().0, 0);
    assert_eq!(broker.committed(&topic, &topic), [Some(10), Some(10)]);
    assert_eq!((held(&folder, "id-12"), held(&folder, "id-14").is_some()), (None, true));
    // It is said once.
    let again = Worker::start(&folder, &broker.url(&topic), &[]);
    let status = again.wait_until_caught_up(2);
    assert_eq!((&status["data_loss"]["trimmed"], &status["counts"]["received"]), (&json!(0), &json!(0)), "{status:#}");
}

#[test]
fn a_topic_that_was_made_again_is_read_from_its_beginning_and_that_is_counted() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("again", 1), Folder::new());
    broker.produce(&topic, &(0..10).map(|i| note(0, &format!("old-{i}"), 1, "x")).collect::<Vec<_>>());
    let worker = Worker::start(&folder, &broker.url(&topic), &["--group", "again-readers"]);
    worker.wait_until_caught_up(1);
    assert_eq!(worker.stop().0, 0);
    broker.ask(json!({ "do": "delete", "topic": topic }));
    broker.ask(json!({ "do": "create", "topic": topic }));
    broker.produce(&topic, &[note(0, "new", 1, "x")]);
    // Kafka forgets what groups committed of a topic that is deleted, unless a member is there, and some time later; another system that copies
    // topics does not.
    let since = Instant::now();
    while broker.committed("again-readers", &topic) != [None] {
        assert!(since.elapsed() < Duration::from_secs(60), "the broker remembers what is gone");
        sleep(Duration::from_millis(100));
    }
    broker.ask(json!({ "do": "commit", "group": "again-readers", "topic": topic, "partition": 0, "offset": 10 }));
    let worker = Worker::start(&folder, &broker.url(&topic), &["--group", "again-readers"]);
    let status = worker.wait_until_caught_up(1);
    assert_eq!((&status["data_loss"]["vanished"], &status["counts"]["received"]), (&json!(1), &json!(1)), "{status:#}");
    assert_eq!(worker.stop().0, 0);
    assert_eq!((held(&folder, "new").is_some(), broker.committed("again-readers", &topic)), (true, vec![Some(1)]));
}

#[test]
fn a_topic_that_was_made_again_with_as_many_messages_is_read_from_its_beginning_too() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("as-many", 1), Folder::new());
    // The marker at the end of the transaction takes an offset too, behind which reading goes on.
    broker.transaction(&topic, &(0..5).map(|i| note(0, &format!("old-{i}"), 1, "x")).collect::<Vec<_>>(), "commit");
    let worker = Worker::start(&folder, &broker.url(&topic), &["-X", "topic.metadata.refresh.interval.ms=500"]);
    worker.wait_until_caught_up(1);
    broker.ask(json!({ "do": "delete", "topic": topic }));
    broker.ask(json!({ "do": "create", "topic": topic }));
    broker.produce(&topic, &(0..5).map(|i| note(0, &format!("new-{i}"), 1, "x")).collect::<Vec<_>>());
    worker.wait_until("the new messages", |status| status["counts"]["indexed"] == 10);
    broker.produce(&topic, &[note(0, "newer", 1, "x")]);
    worker.wait_until("what came later", |status| status["counts"]["indexed"] == 11);
    assert_eq!(worker.stop().0, 0);
}

#[test]
fn a_topic_that_is_deleted_while_it_is_followed_is_said_to_be_missing() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("deleted", 1), Folder::new());
    broker.produce(&topic, &[note(0, "a", 1, "x")]);
    let worker = Worker::start(&folder, &broker.url(&topic), &["-X", "topic.metadata.refresh.interval.ms=500"]);
    worker.wait_until_caught_up(1);
    broker.ask(json!({ "do": "delete", "topic": topic }));
    let status = worker.wait_until("it is missed", |status| status["reasons"].to_string().contains("there is no topic"));
    assert!(status["ready"] == false && status["live"] == true, "{status:#}");
    // Made again, it is followed again.
    broker.ask(json!({ "do": "create", "topic": topic }));
    broker.produce(&topic, &[note(0, "b", 1, "x")]);
    worker.wait_until("it is followed again", |status| status["ready"] == true && status["counts"]["indexed"] == 2);
    assert_eq!(worker.stop().0, 0);
}

#[test]
fn a_topic_that_is_not_there_ends_a_worker_at_its_start() {
    let Some(broker) = broker() else { return };
    let folder = Folder::new();
    let (exit, log) = Worker::start(&folder, &broker.url("nowhere"), &[]).ended();
    assert_eq!(exit, 2, "{log}");
    assert!(log.contains("there is no topic nowhere") && log.contains(&broker.address), "{log}");
}

#[test]
fn a_broker_that_goes_away_is_waited_for_also_at_the_start() {
    let Some(mut broker) = own_broker() else { return };
    let (topic, folder) = (broker.topic("restart", 2), Folder::new());
    broker.produce(&topic, &(0..10).map(|i| note(i % 2, &format!("id-{i}"), 1, "x")).collect::<Vec<_>>());
    let quick = ["-X", "reconnect.backoff.max.ms=500"];
    let first = Worker::start(&folder, &broker.url(&topic), &quick);
    first.wait_until_caught_up(2);
    first.wait_until("it is ready", |status| status["ready"] == true);
    broker.crash();
    let status = first.wait_until("it is not ready", |status| status["ready"] == false);
    assert!(status["reasons"].to_string().contains("source") && status["live"] == true, "{status:#}");
    let other = Folder::new();
    let second = Worker::start(&other, &broker.url(&topic), &[&quick[..], &["--group", "other"]].concat());
    second.wait_until("it waits", |status| status["ready"] == false && status["reasons"].to_string().contains("refused"));
    broker.start();
    broker.produce(&topic, &(0..10).map(|i| note(i % 2, &format!("id-{i}"), 2, "x")).collect::<Vec<_>>());
    first.wait_until("it goes on", |status| status["ready"] == true && status["counts"]["indexed"] == 20);
    second.wait_until_caught_up(2);
    let (exit, log) = first.stop();
    assert_eq!((exit, second.stop().0), (0, 0), "{log}");
    assert_eq!((held(&folder, "id-9"), held(&other, "id-9")), (Some((2, "x".to_owned())), Some((2, "x".to_owned()))));
    assert_eq!(broker.committed(&topic, &topic), [Some(10), Some(10)], "{log}");
}

#[test]
fn a_worker_with_a_wrong_password_waits_and_says_so() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("secret", 1), Folder::new());
    let url = format!("kafka://{}/{topic}", broker.sasl);
    let properties = ["-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.username=ann", "-X", "sasl.mechanisms=PLAIN"];
    let worker = Worker::start_with(&folder, &url, &properties, &[("REVSYNC_PROPERTY", "sasl.password=hunter3")]);
    let status = worker.wait_until("it is refused", |status| status["reasons"].to_string().to_lowercase().contains("authentication"));
    assert!(status["ready"] == false && status["live"] == true, "{status:#}");
    let (exit, log) = worker.stop();
    assert_eq!((exit, log.contains("hunter3")), (0, false), "{log}");
}

#[test]
fn the_checkpoints_of_a_pipeline_on_kafka_have_no_other_place() {
    let folder = Folder::new();
    let to = ["--to", "local:index.db", "--dead-letters", "file:letters.jsonl"];
    let done = folder.revsync(&[&["run", "kafka://127.0.0.1:1/orders", "--checkpoints", "file:c.json"], &to[..]].concat());
    assert_eq!(done.exit, 2);
    assert!(done.err.contains("committed offsets of its consumer group"), "{}", done.err);
}

#[test]
fn the_committed_offsets_of_a_group_are_looked_at_and_set_with_the_command_that_is_for_that() {
    let folder = Folder::new();
    folder.write("revsync.toml", "[source]\nurl = \"kafka://h:9092/orders,items\"\ngroup = \"search\"\n");
    for (arguments, expected) in [
        (&["checkpoints", "list"][..], "kafka-consumer-groups --bootstrap-server h:9092 --group 'search' --describe"),
        (&["checkpoints", "rewind", "earliest"], "--topic orders --topic items --reset-offsets --to-earliest --execute"),
        (&["checkpoints", "rewind", "2025-07-31T00:00:00Z"], "--to-datetime 2025-07-31T00:00:00.000 --execute"),
    ] {
        let done = folder.revsync(&[&["--config", "revsync.toml"], arguments].concat());
        assert_eq!(done.exit, 2);
        assert!(done.err.contains(expected), "{}", done.err);
    }
}

#[test]
fn check_says_what_run_would_do_with_topics_and_joins_no_group() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("checked", 2), Folder::new());
    broker.produce(&topic, &(0..10).map(|i| note(i % 2, &format!("id-{i}"), 1, "x")).collect::<Vec<_>>());
    let check = |more: &[&str]| {
        let source = broker.url(&topic);
        folder.revsync(
            &[&["check", &source, "--to", "local:index.db", "--dead-letters", "file:l.jsonl", "--group", "checkers"], more].concat(),
        )
    };
    let done = check(&[]);
    assert_eq!(done.exit, 0, "{done:?}");
    assert!(done.out.contains(&format!("{topic} with 2 partitions can be read, 10 messages at most")), "{}", done.out);
    assert!(
        done.out.contains("checkers committed nothing yet") && done.out.contains("begin with 2 at their first messages"),
        "{}",
        done.out
    );
    broker.ask(json!({ "do": "commit", "group": "checkers", "topic": topic, "partition": 0, "offset": 2 }));
    assert!(check(&[]).out.contains("checkers committed offsets of 1 of 2 partitions, and is 3 messages behind there"));
    broker.trim(&topic, 0, 4);
    let done = check(&[]);
    assert!(done.exit == 1 && done.out.contains(&format!("of {topic}-0 is not there any more")), "{done:?}");
    let done = check(&["--format", "qldb", "-X", "security.protocol=SSL"]);
    assert_eq!(done.exit, 2, "{done:?}");
}
