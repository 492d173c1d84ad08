//! Scans of topics: `sync`, `explain` and `mapping` read what there is, to the ends that there were at the start, and join no group.

use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use revsync::aws::Aws;
use revsync::error::Error;
use revsync::kafka::client::Context;
use revsync::kafka::{Address, Properties};
use revsync::record::{Position, Record};
use revsync::source::kafka::Topics;
use serde_json::{Value, json};

use crate::command::{Done, Folder};
use crate::kafka::{Broker, Sent, broker};
use crate::process::{Worker, held, note};

/// Brings the local index of a folder up to date.
fn sync(folder: &Folder, source: &str) -> Done {
    folder.revsync(&["--json", "sync", source, "--to", "local:index.db", "--dead-letters", "file:letters.jsonl"])
}

/// Looks for what a source has: nothing, and so exit code 1.
fn holds_nothing(folder: &Folder, source: &str) {
    let done = folder.revsync(&["--json", "query", source, "SELECT data FROM stream"]);
    assert_eq!((done.exit, done.out.as_str()), (1, ""), "{}", done.err);
}

/// The dead letters of a folder.
fn letters(folder: &Folder) -> Vec<Value> {
    let text = String::from_utf8(folder.read("letters.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_topic_is_read_from_its_first_message_to_its_end_and_no_group_comes_of_it() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("whole", 3), Folder::new());
    let notes: Vec<Sent> = (0..300).map(|i| note(i % 3, &format!("id-{i}"), 1, "first")).collect();
    broker.produce(&topic, &notes);
    let done = sync(&folder, &broker.url(&topic)).balanced();
    assert_eq!((done.exit, done.count("indexed")), (0, 300), "{}", done.err);
    let again = sync(&folder, &broker.url(&topic)).balanced();
    assert_eq!((again.exit, again.count("stale")), (0, 300), "{}", again.err);
    let groups: Vec<String> = serde_json::from_value(broker.ask(json!({ "do": "groups" }))).unwrap();
    assert!(!groups.iter().any(|group| group.contains("revsync-scan") || *group == topic), "{groups:?}");
}

#[test]
fn an_empty_topic_is_read_at_once() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("empty", 2), Folder::new());
    let done = sync(&folder, &broker.url(&topic)).balanced();
    assert_eq!((done.exit, done.count("received")), (0, 0), "{}", done.err);
    holds_nothing(&folder, &broker.url(&topic));
}

#[test]
fn messages_of_aborted_transactions_are_never_indexed_and_a_scan_ends_behind_them() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("aborted", 2), Folder::new());
    broker.transaction(&topic, &[note(0, "a", 1, "kept"), note(1, "b", 1, "kept")], "commit");
    // Behind these there is nothing but markers.
    broker.transaction(&topic, &[note(0, "a", 2, "aborted"), note(1, "c", 1, "aborted")], "abort");
    let done = sync(&folder, &broker.url(&topic)).balanced();
    assert_eq!((done.exit, done.count("received")), (0, 2), "{}", done.err);
    assert_eq!((held(&folder, "a"), held(&folder, "c")), (Some((1, "kept".to_owned())), None));
}

#[test]
fn a_topic_that_holds_markers_of_transactions_only_is_read_to_its_end() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("markers", 1), Folder::new());
    broker.transaction(&topic, &[note(0, "a", 1, "x"), note(0, "b", 1, "x")], "abort");
    broker.trim(&topic, 0, 2);
    assert_eq!(broker.ends(&topic), [(2, 3)]);
    let done = sync(&folder, &broker.url(&topic)).balanced();
    assert_eq!((done.exit, done.count("received")), (0, 0), "{}", done.err);
    holds_nothing(&folder, &broker.url(&topic));
}

#[test]
fn a_topic_of_which_everything_was_removed_is_read_at_once_and_holds_nothing() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("truncated", 2), Folder::new());
    broker.produce(&topic, &[note(0, "a", 1, "x"), note(0, "b", 1, "x"), note(1, "c", 1, "x")]);
    (0..2).for_each(|partition| broker.trim(&topic, partition, [2, 1][partition as usize]));
    assert_eq!(broker.ends(&topic), [(2, 2), (1, 1)]);
    let done = sync(&folder, &broker.url(&topic)).balanced();
    assert_eq!((done.exit, done.count("received")), (0, 0), "{}", done.err);
    holds_nothing(&folder, &broker.url(&topic));
    let explained = folder.revsync(&["explain", &broker.url(&topic)]);
    assert_eq!((explained.exit, explained.out.as_str()), (0, ""), "{}", explained.err);
}

#[test]
fn a_topic_of_which_compaction_left_no_message_is_read_to_its_end_and_holds_nothing() {
    let Some(broker) = broker() else { return };
    let config = json!({ "cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "min.compaction.lag.ms": "0",
                         "delete.retention.ms": "0" });
    let (topic, folder) = (broker.topic_with("cleaned", 1, config), Folder::new());
    let tombstone = |key: &str| Sent::to(0, "").key(key).null();
    broker.produce(&topic, &[note(0, "a", 1, "x"), note(0, "b", 1, "x"), tombstone("a"), tombstone("b")]);
    let since = std::time::Instant::now();
    // Until the cleaner has been there twice. What closes the segment before it is never handed over.
    let received = loop {
        broker.transaction(&topic, &[note(0, "c", 1, "aborted")], "abort");
        let done = sync(&folder, &broker.url(&topic)).balanced();
        assert_eq!(done.exit, 0, "{}", done.err);
        if done.count("received") == 0 || since.elapsed().as_secs() > 60 {
            break done.count("received");
        }
    };
    assert_eq!(received, 0, "the cleaner did not come");
    holds_nothing(&folder, &broker.url(&topic));
    let (first, end) = broker.ends(&topic)[0];
    assert!(first == 0 && end > 4, "offsets are there, and no message: {first} to {end}");
}

#[test]
fn what_an_open_transaction_holds_back_is_not_waited_for() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("open", 1), Folder::new());
    broker.produce(&topic, &[note(0, "a", 1, "before")]);
    broker.transaction(&topic, &[note(0, "b", 1, "open")], "open");
    broker.produce(&topic, &[note(0, "c", 1, "behind")]);
    let done = sync(&folder, &broker.url(&topic)).balanced();
    assert_eq!((done.exit, done.count("indexed")), (0, 1), "{}", done.err);
    let all = folder.revsync(&["--json", "sync", &broker.url(&topic), "--to", "local:all.db", "-X", "isolation.level=read_uncommitted"]);
    assert_eq!((all.exit, all.count("indexed")), (0, 3), "{}", all.err);
}

#[test]
fn a_compacted_topic_is_read_to_its_end_whatever_is_missing_in_it() {
    let Some(broker) = broker() else { return };
    let config = json!({ "cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "min.compaction.lag.ms": "0",
                         "delete.retention.ms": "0" });
    let (topic, folder) = (broker.topic_with("compacted", 1, config), Folder::new());
    for version in 1..=30 {
        broker.produce(&topic, &[note(0, "a", version, "again"), note(0, "b", version, "again")]);
    }
    let since = std::time::Instant::now();
    // Until the cleaner has been there. A new message closes the segment before it.
    let mut received = u64::MAX;
    for version in 31.. {
        broker.produce(&topic, &[note(0, "a", version, "again")]);
        let done = sync(&folder, &broker.url(&topic)).balanced();
        assert_eq!(done.exit, 0, "{}", done.err);
        received = received.min(done.count("received"));
        assert_eq!(held(&folder, "a"), Some((version, "again".to_owned())));
        if received < 30 || since.elapsed().as_secs() > 60 {
            break;
        }
    }
    assert!(received < 30, "the cleaner did not come: {received}");
}

#[test]
fn poison_becomes_dead_letters_with_its_position_and_its_key_and_a_null_value_is_no_change() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("poison", 2), Folder::new());
    let mut bad = Sent::to(1, b"\x00\xffnothing that anybody knows").key("k");
    bad.headers = vec![("trace".to_owned(), Some(b"7".to_vec())), ("empty".to_owned(), None)];
    let null = Sent::to(1, "").key("gone").null();
    broker.produce(&topic, &[note(1, "a", 1, "good"), bad, null, Sent::to(1, "").null(), note(1, "b", 1, "good")]);
    let done = sync(&folder, &broker.url(&topic)).balanced();
    assert_eq!((done.exit, done.count("indexed"), done.count("dead_letters")), (1, 2, 1), "{}", done.err);
    assert_eq!(done.json()["skipped"]["no_change"], 2, "{}", done.out);
    let letter = &letters(&folder)[0];
    let position = json!({ "offset": { "topic": topic, "partition": 1, "offset": 1 } });
    assert_eq!((&letter["position"], &letter["origin"]), (&position, &json!({ "stream": topic, "shard": "1" })), "{letter:#}");
    assert!(letter["message"].is_object(), "{letter:#}");
}

#[test]
fn a_header_whose_name_is_no_text_stops_nobody_and_is_left_out() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("headers", 1), Folder::new());
    let sent = |text: &[u8]| json!([0, null, STANDARD.encode(text), [["good", "eA=="], [{ "base64": "//4=" }, "eA=="], ["last", null]]]);
    let good = note(0, "a", 1, "x").value.unwrap();
    broker.ask(json!({ "do": "produce", "topic": topic, "messages": [sent(&good), sent(b"{")] }));
    broker.produce(&topic, &[note(0, "b", 1, "x")]);
    let done = sync(&folder, &broker.url(&topic)).balanced();
    assert_eq!((done.exit, done.count("indexed"), done.count("dead_letters")), (1, 2, 1), "{}", done.err);
    assert!(!done.err.contains("panicked"), "{}", done.err);
    let headers = letters(&folder)[0]["message"]["headers"].to_string();
    assert!(headers.contains("good") && headers.contains("last"), "{headers}");
    let worker = Worker::start(&folder, &broker.url(&topic), &[]);
    let status = worker.wait_until_caught_up(1);
    assert_eq!((&status["counts"]["received"], &status["counts"]["dead_letters"]), (&json!(3), &json!(1)), "{status:#}");
    let (exit, log) = worker.stop();
    assert_eq!((exit, log.contains("panicked")), (0, false), "{log}");
}

#[test]
fn messages_of_a_mib_are_read_as_they_are() {
    let Some(broker) = broker() else { return };
    let config = json!({ "max.message.bytes": "4194304" });
    let (topic, folder) = (broker.topic_with("large", 1, config), Folder::new());
    let text = "x".repeat(1 << 20);
    broker.produce(&topic, &[note(0, "a", 1, &text), note(0, "b", 1, "small"), note(0, "c", 1, &text.repeat(3))]);
    let done = sync(&folder, &broker.url(&topic)).balanced();
    assert_eq!((done.exit, done.count("indexed")), (0, 3), "{}", done.err);
    assert_eq!(held(&folder, "c"), Some((1, text.repeat(3))));
}

#[test]
fn several_topics_and_a_pattern_are_read_and_a_server_that_is_down_is_passed_over() {
    let Some(broker) = broker() else { return };
    let (one, other, folder) = (broker.topic("shop.item", 2), broker.topic("shop.order", 1), Folder::new());
    broker.produce(&one, &[note(1, "a", 1, "x")]);
    broker.produce(&other, &[note(0, "b", 1, "x")]);
    let named = sync(&folder, &broker.url(&format!("{one},{other}"))).balanced();
    assert_eq!((named.exit, named.count("indexed")), (0, 2), "{}", named.err);
    let matched = sync(&folder, &format!("kafka://127.0.0.1:1,{}/^shop\\.(item|order)-", broker.address)).balanced();
    assert_eq!((matched.exit, matched.count("stale")), (0, 2), "{}", matched.err);
}

/// What `sync` says of a source that it cannot read.
fn refused(source: &str, more: &[&str], environment: &[(&str, &str)]) -> String {
    let folder = Folder::new();
    let done = folder.revsync_with(&[&["sync", source, "--to", "local:index.db"], more].concat(), environment, b"");
    assert_eq!(done.exit, 2, "{done:?}");
    assert!(!done.err.contains("hunter"), "{}", done.err);
    done.err
}

#[test]
fn what_is_not_there_is_said_with_its_name_and_its_servers() {
    let Some(broker) = broker() else { return };
    let error = refused(&broker.url("nowhere"), &[], &[]);
    assert!(error.contains("there is no topic nowhere") && error.contains(&broker.address), "{error}");
    let error = refused(&broker.url("^nowhere"), &[], &[]);
    assert!(error.contains("no topic matches ^nowhere"), "{error}");
    let error = refused("kafka://127.0.0.1:1/orders", &[], &[]);
    assert!(error.contains("127.0.0.1:1 cannot be reached") && error.contains("refused"), "{error}");
    let error = refused(&broker.url("nowhere"), &["-X", "group.id=x"], &[]);
    assert!(error.contains("group.id") && error.contains("--group"), "{error}");
    let error = refused(&broker.url("nowhere"), &["-X", "fetch.max.byte=1"], &[]);
    assert!(error.contains("fetch.max.byte"), "{error}");
}

/// The properties of ann at the broker's other port.
const SASL: [&str; 6] = ["-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.username=ann", "-X", "sasl.mechanisms=SCRAM-SHA-256"];

fn sasl_url(broker: &Broker, topic: &str) -> String {
    format!("kafka://{}/{topic}", broker.sasl)
}

#[test]
fn a_password_comes_from_the_environment_or_the_file_and_not_from_an_option() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("secret", 1), Folder::new());
    broker.produce(&topic, &[note(0, "a", 1, "x")]);
    let url = sasl_url(broker, &topic);
    for mechanism in ["PLAIN", "SCRAM-SHA-256"] {
        let mechanism = format!("sasl.mechanisms={mechanism}");
        let arguments = [&["--json", "sync", &url][..], &SASL[..4], &["-X", &mechanism]].concat();
        let done = folder.revsync_with(&arguments, &[("REVSYNC_PROPERTY", "sasl.password=hunter2")], b"");
        assert_eq!((done.exit, done.count("received")), (0, 1), "{}", done.err);
    }
    let file = "[source.properties]\n\"security.protocol\" = \"SASL_PLAINTEXT\"\n\"sasl.mechanisms\" = \"PLAIN\"\n\"sasl.username\" = \"ann\"\n\
                \"sasl.password\" = \"${PASSWORD}\"\n";
    folder.write("revsync.toml", file);
    let done = folder.revsync_with(&["--json", "--config", "revsync.toml", "sync", &url], &[("PASSWORD", "hunter2")], b"");
    assert_eq!(done.exit, 0, "{}", done.err);
    let error = refused(&url, &[&SASL[..], &["-X", "sasl.password=hunter2"]].concat(), &[]);
    assert!(error.contains("REVSYNC_PROPERTY"), "{error}");
}

#[test]
fn a_wrong_password_ends_a_scan_and_says_so() {
    let Some(broker) = broker() else { return };
    let topic = broker.topic("secret", 1);
    let error = refused(&sasl_url(broker, &topic), &SASL, &[("REVSYNC_PROPERTY", "sasl.password=hunter3")]);
    assert!(error.contains("cannot be read") && error.to_lowercase().contains("authentication"), "{error}");
}

#[test]
fn explain_and_mapping_read_a_topic_and_nothing_comes_of_it() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("looked-at", 1), Folder::new());
    broker.produce(&topic, &[note(0, "a", 1, "x"), Sent::to(0, "{").key("k")]);
    let explained = folder.revsync(&["explain", &broker.url(&topic)]);
    assert_eq!(explained.exit, 1, "{}", explained.err);
    assert!(explained.out.starts_with(&format!("{topic}-0 offset 0: index note/a at version 1")), "{}", explained.out);
    let mapped = folder.revsync(&["mapping", &broker.url(&topic)]);
    assert_eq!(mapped.exit, 0, "{}", mapped.err);
    assert_eq!(mapped.json()["mappings"]["properties"]["text"]["type"], "text", "{}", mapped.out);
}

#[test]
fn a_topic_that_grows_all_the_time_is_read_to_the_end_that_it_had() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("growing", 2), Folder::new());
    let notes = |from: u64| (from..from + 200).map(|i| note(i32::from(i % 2 == 0), &format!("id-{i}"), 1, "x")).collect::<Vec<_>>();
    broker.produce(&topic, &notes(0));
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for from in 1.. {
                if ends.load(Ordering::Relaxed) {
                    break;
                }
                broker.produce(&topic, &notes(from * 200));
            }
        });
        let done = sync(&folder, &broker.url(&topic)).balanced();
        let found = folder.revsync(&["--json", "query", &broker.url(&topic), "SELECT metadata.id FROM Note"]);
        ends.store(true, Ordering::Relaxed);
        assert!(done.exit == 0 && done.count("indexed") >= 200, "{done:?}");
        assert_eq!(found.exit, 0, "{}", found.err);
        assert!((0..200).all(|id| found.out.contains(&format!("\"id-{id}\""))), "{} rows", found.out.lines().count());
    });
    assert!((0..200).all(|i| held(&folder, &format!("id-{i}")).is_some()));
}

/// What a scan reads of a topic of which something happens between its beginning and its first read: the offsets, and whether it is complete.
async fn scanned(
    broker: &'static Broker,
    topic: &str,
    stops: bool,
    meanwhile: impl FnOnce() + Send + 'static,
) -> Result<(Vec<i64>, bool), Error> {
    let (address, properties): (Address, _) = (broker.url(topic).parse().unwrap(), Properties::default());
    let context = Context::new(&properties, &Aws::default()).await.unwrap();
    let scan = move || {
        let mut topics = Topics::open(&address, &properties, &context, stops)?;
        meanwhile();
        let mut offsets = Vec::new();
        while let Some(page) = topics.read(1 << 20)? {
            let offset = |record: &Record| if let Position::Offset { offset, .. } = record.position { offset } else { -1 };
            offsets.extend(page.records.iter().map(offset));
        }
        Ok((offsets, topics.is_incomplete()))
    };
    tokio::task::spawn_blocking(scan).await.unwrap()
}

#[tokio::test]
async fn what_is_removed_or_comes_while_a_scan_reads_is_known_and_it_ends() {
    let Some(broker) = broker() else { return };
    let make = || {
        let topic = broker.topic("scanned", 1);
        broker.produce(&topic, &(0..10).map(|i| note(0, &format!("id-{i}"), 1, "x")).collect::<Vec<_>>());
        topic
    };
    let topic = make();
    let of = topic.clone();
    assert_eq!(scanned(broker, &topic, false, move || broker.trim(&of, 0, 7)).await.unwrap(), (vec![7, 8, 9], true));
    let of = topic.clone();
    assert_eq!(scanned(broker, &topic, false, move || broker.trim(&of, 0, 10)).await.unwrap(), (vec![], true));
    let (topic, of) = {
        let topic = make();
        (topic.clone(), topic)
    };
    let error = scanned(broker, &topic, true, move || broker.trim(&of, 0, 7)).await.unwrap_err();
    assert!(error.what.contains("from offset 0 to 6"), "{error}");
    let (topic, of) = {
        let topic = make();
        (topic.clone(), topic)
    };
    let grown = move || drop(broker.ask(json!({ "do": "grow", "topic": of, "partitions": 2 })));
    assert_eq!(scanned(broker, &topic, false, grown).await.unwrap(), ((0..10).collect(), true));
}

#[tokio::test]
async fn a_scan_goes_on_to_what_came_meanwhile_from_where_it_stopped_and_with_partitions_that_are_new() {
    let Some(broker) = broker() else { return };
    let (one, other) = (broker.topic("extended", 2), broker.topic("extended-too", 1));
    broker.produce(&one, &[note(0, "a", 1, "x"), note(1, "b", 1, "x")]);
    let (address, properties): (Address, _) = (broker.url(&format!("{one},{other}")).parse().unwrap(), Properties::default());
    let context = Context::new(&properties, &Aws::default()).await.unwrap();
    let scan = move || {
        let mut topics = Topics::open(&address, &properties, &context, false).unwrap();
        let rest = |topics: &mut Topics| {
            let mut places = Vec::new();
            while let Some(page) = topics.read(100).unwrap() {
                places.extend(page.records.iter().map(|record| record.position.to_string().replace(&one, "one").replace(&other, "other")));
            }
            places.sort();
            places
        };
        assert_eq!(rest(&mut topics), ["one-0 offset 0", "one-1 offset 0"]);
        assert!(topics.extend().unwrap());
        assert_eq!(rest(&mut topics), Vec::<String>::new());
        broker.produce(&other, &[note(0, "c", 1, "x")]);
        broker.transaction(&one, &[note(0, "a", 2, "aborted")], "abort");
        broker.produce(&one, &[note(0, "a", 2, "x"), note(0, "a", 3, "x")]);
        broker.ask(json!({ "do": "grow", "topic": one, "partitions": 3 }));
        broker.produce(&one, &[note(2, "d", 1, "x")]);
        assert!(rest(&mut topics).is_empty());
        assert!(topics.extend().unwrap());
        // The aborted message and its marker have the offsets between.
        assert_eq!(rest(&mut topics), ["one-0 offset 3", "one-0 offset 4", "one-2 offset 0", "other-0 offset 0"]);
        assert_eq!((topics.is_incomplete(), topics.total()), (false, 2 + 6));
        // What is removed before the scan comes to it is lost.
        broker.produce(&one, &[note(0, "a", 4, "x"), note(0, "a", 5, "x")]);
        broker.trim(&one, 0, 6);
        assert!(topics.extend().unwrap());
        assert_eq!((rest(&mut topics), topics.is_incomplete()), (vec!["one-0 offset 6".to_owned()], true));
    };
    tokio::task::spawn_blocking(scan).await.unwrap();
}
