//! A topic as the place for dead letters: what another client reads there, what `list`, `show` and `replay` make of it, and what happens where it
//! cannot be written.

use std::time::{Duration, Instant};

use bytes::Bytes;
use revsync::record::{Fault, Header, Message, Origin, Position};
use revsync::store::dead_letters::{Config, DeadLetter, DeadLetters, Entry, FORMAT_VERSION, Place, identify};
use serde_json::{Value, json};

use crate::aws;
use crate::command::{Done, Folder, revision};
use crate::kafka::{Broker, Received, Sent, broker, own_broker};
use crate::process::{PATIENCE, Worker, held, note};

/// An id that is too long for OpenSearch, and that a rule shortens.
fn long(name: &str) -> String {
    format!("{name}{}", "x".repeat(600))
}

/// With this rule a long id is no dead letter any more.
const SHORTENED: &str = "[[table]]\nname = \"Note\"\nlong_ids = \"hash\"\ndeletes = \"tombstone\"\n";

/// Brings the local index up to date with a file of revisions, some of which cannot be used.
fn sync(folder: &Folder, letters: &str, revisions: &[String]) -> Done {
    folder.write("stream.ion", revisions.concat());
    folder.revsync(&["--json", "sync", "stream.ion", "--to", "local:index.db", "--dead-letters", letters])
}

fn notes(ids: &[String]) -> Vec<String> {
    ids.iter().map(|id| revision("Note", id, 1, Some("{text:\"a\"}"))).collect()
}

/// The ids of the letters that are listed, oldest first.
fn listed(folder: &Folder, letters: &str) -> Vec<String> {
    let done = folder.revsync(&["--json", "dead-letters", "list", "--dead-letters", letters]);
    assert_eq!(done.exit, 0, "{}", done.err);
    let listed = done.json();
    listed["dead_letters"].as_array().unwrap().iter().map(|letter| letter["id"].as_str().unwrap().to_owned()).collect()
}

fn replay(folder: &Folder, letters: &str, more: &[&str]) -> Done {
    let fixed = ["--json", "dead-letters", "replay", "--to", "local:index.db", "--dead-letters", letters];
    folder.revsync(&[&fixed[..], more].concat())
}

/// What of each partition of the topic counts as replayed, and where it ends.
fn replayed(broker: &Broker, topic: &str) -> (Vec<Option<i64>>, Vec<i64>) {
    let ends = broker.ends(topic).into_iter().map(|(_, end)| end).collect();
    (broker.committed(&format!("revsync-dead-letters.{topic}"), topic), ends)
}

/// A letter of a message.
fn letter(offset: i64, message: Option<Message>, payload: &'static [u8]) -> DeadLetter {
    let (origin, payload) = (Origin { stream: "orders".to_owned(), shard: "3".to_owned() }, Bytes::from_static(payload));
    let position = Position::Offset { topic: "orders".to_owned(), partition: 3, offset };
    DeadLetter {
        v: FORMAT_VERSION,
        id: identify(&origin, &position, 0, None, &payload),
        time: format!("2024-05-06T07:08:{offset:02}Z"),
        first_time: None,
        origin,
        position,
        unit: 0,
        part: 0,
        format: "debezium".to_owned(),
        table: Some("shop.item".to_owned()),
        mode: None,
        document_id: None,
        version: None,
        index: None,
        action: None,
        attempts: 0,
        error: Fault::new("key_missing", "expected the key columns"),
        first_error: None,
        connector: "0".to_owned(),
        large: None,
        message,
        payload,
    }
}

#[test]
fn a_letter_has_the_key_the_value_and_the_headers_of_its_message_and_says_why_as_kafka_connect_does() {
    let Some(broker) = broker() else { return };
    let (source, letters, folder) = (broker.topic("source", 2), broker.topic("letters", 3), Folder::new());
    let headers = vec![("trace".to_owned(), Some(b"a\xFF".to_vec())), ("none".to_owned(), None), ("trace".to_owned(), Some(Vec::new()))];
    let bad = Sent { key: Some(b"k\xFF1".to_vec()), headers: headers.clone(), ..Sent::to(1, b"\xFFno record of anything") };
    broker.produce(&source, &[note(1, "a", 1, "x"), bad.clone()]);
    let to = broker.url(&letters);
    let done = folder.revsync(&["--json", "sync", &broker.url(&source), "--to", "local:index.db", "--dead-letters", &to]).balanced();
    assert_eq!((done.exit, done.count("indexed"), done.count("dead_letters")), (1, 1, 1), "{}", done.err);
    let messages = broker.read(&letters);
    let [message] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!((&message.key, &message.value), (&bad.key, &bad.value));
    assert_eq!(message.headers[..3], headers);
    let said = |name: &str| message.header(&format!("__connect.errors.{name}")).unwrap_or_else(|| panic!("no {name}: {message:?}"));
    assert_eq!((said("topic"), said("partition"), said("offset")), (source, "1".to_owned(), "1".to_owned()));
    assert_eq!((said("connector.name"), said("stage")), ("revsync".to_owned(), "VALUE_CONVERTER".to_owned()));
    assert!(["task.id", "class.name"].iter().all(|name| !said(name).is_empty()));
    let letter: Value = serde_json::from_str(&message.header("revsync.letter").unwrap()).unwrap();
    assert_eq!((&letter["payload"], letter["error"]["kind"].as_str()), (&json!(""), Some(said("exception.class.name").as_str())));
    assert_eq!(letter["error"]["reason"].as_str(), Some(said("exception.message").as_str()));
    let shown = folder.revsync(&["--json", "dead-letters", "show", letter["id"].as_str().unwrap(), "--payload", "--dead-letters", &to]);
    assert_eq!(shown.json()["dead_letters"][0]["position"]["offset"]["offset"], 1, "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn null_values_and_null_keys_stay_null_and_everything_comes_back() {
    let Some(broker) = broker() else { return };
    let topic = broker.topic("nulls", 2);
    let header = Header { name: "a".to_owned(), value: None };
    let message =
        |key: Option<&'static [u8]>, is_null| Some(Message { key: key.map(Bytes::from_static), headers: vec![header.clone()], is_null });
    let sent = [
        letter(1, message(None, true), b""),
        letter(2, message(Some(b""), false), b""),
        letter(3, message(Some(b"k"), false), b"{}"),
        letter(4, None, b"of a file"),
    ];
    let config = Config::from(broker.url(&topic).parse::<Place>().unwrap());
    let store = DeadLetters::open(&config).await.unwrap();
    store.append(&sent).await.unwrap();
    let read = tokio::task::spawn_blocking(move || broker.read(&topic)).await.unwrap();
    let of = |id: &str| read.iter().find(|message| message.header("revsync.letter").unwrap().contains(id)).unwrap();
    assert_eq!((&of(&sent[0].id).key, &of(&sent[0].id).value), (&None, &None));
    assert_eq!((&of(&sent[1].id).key, &of(&sent[1].id).value), (&Some(Vec::new()), &Some(Vec::new())));
    assert_eq!(of(&sent[3].id).key.as_deref(), Some(sent[3].id.as_bytes()));
    let mut walk = store.walk().await.unwrap();
    let mut found = Vec::new();
    while let Some(portion) = walk.next(3).await.unwrap() {
        found.extend(portion.into_iter().map(|entry| match entry {
            Entry::Letter(letter) => *letter,
            other => panic!("expected a letter, found {other:?}"),
        }));
    }
    walk.end().await.unwrap();
    found.sort_by_key(|letter| letter.position.clone());
    assert_eq!(found, sent);
}

#[test]
fn what_a_replay_settles_is_passed_over_and_what_it_does_not_is_listed_once() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("replayed", 3), Folder::new());
    let to = broker.url(&topic);
    let ids: Vec<String> = ["a", "b", "c", "d"].map(long).into();
    let done = sync(&folder, &to, &[notes(&ids), notes(&["good".to_owned()])].concat());
    assert_eq!((done.exit, done.count("dead_letters"), done.count("indexed")), (1, 4, 1), "{}", done.err);
    assert_eq!(listed(&folder, &to).len(), 4);
    assert_eq!(replayed(broker, &topic).0, [None; 3], "looking notes nothing");
    // Refused again: stored anew at the end, and what was before is passed over.
    let before = replayed(broker, &topic).1;
    let again = replay(&folder, &to, &[]);
    assert_eq!((again.exit, again.count("dead_letters")), (1, 4), "{}", again.err);
    let (committed, ends) = replayed(broker, &topic);
    assert_eq!(committed, before.iter().map(|end| (*end > 0).then_some(*end)).collect::<Vec<_>>());
    assert_eq!((ends.iter().sum::<i64>(), listed(&folder, &to).len()), (8, 4));
    folder.write("rules.toml", SHORTENED);
    let fixed =
        folder.revsync(&["--json", "--config", "rules.toml", "dead-letters", "replay", "--to", "local:index.db", "--dead-letters", &to]);
    assert_eq!((fixed.exit, fixed.count("indexed")), (0, 4), "{}", fixed.err);
    assert_eq!(listed(&folder, &to), Vec::<String>::new());
    let nothing = replay(&folder, &to, &[]);
    assert_eq!((nothing.exit, nothing.count("received")), (0, 0), "{}", nothing.err);
    assert_eq!(broker.read(&topic).len(), 8, "nothing was taken out of the topic");
}

#[test]
fn letters_that_were_chosen_are_sent_and_it_is_said_that_the_topic_keeps_them() {
    let Some(broker) = broker() else { return };
    // One partition, so that what was not chosen stands before what was.
    let (topic, folder) = (broker.topic("chosen", 1), Folder::new());
    let to = broker.url(&topic);
    sync(&folder, &to, &notes(&[long("a"), long("b")]));
    folder.write("rules.toml", SHORTENED);
    let replay = |more: &[&str]| {
        let fixed = ["--json", "--config", "rules.toml", "dead-letters", "replay", "--to", "local:index.db", "--dead-letters", &to];
        folder.revsync(&[&fixed[..], more].concat())
    };
    let ids: Vec<String> = broker.read(&topic).iter().map(|message| String::from_utf8(message.key.clone().unwrap()).unwrap()).collect();
    let chosen = replay(&[&ids[1]]);
    assert_eq!((chosen.exit, chosen.count("indexed")), (0, 1), "{}", chosen.err);
    assert!(chosen.err.contains("keeps letters until its retention ends"), "{}", chosen.err);
    assert_eq!((listed(&folder, &to).len(), replayed(broker, &topic).0), (2, vec![None]));
    let all = replay(&[]);
    assert_eq!((all.exit, all.count("indexed"), all.count("stale")), (0, 1, 1), "{}", all.err);
    assert!(!all.err.contains("keeps letters"), "{}", all.err);
    assert_eq!((listed(&folder, &to).len(), replayed(broker, &topic).0), (0, vec![Some(2)]));
}

#[test]
fn what_is_no_letter_is_named_and_stays_listed() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("foreign", 1), Folder::new());
    let to = broker.url(&topic);
    sync(&folder, &to, &notes(&[long("a")]));
    broker.produce(&topic, &[Sent::to(0, "a secret")]);
    let look = || folder.revsync(&["dead-letters", "list", "--dead-letters", &to]);
    let first = look();
    let expected = format!("{to}, partition 0 offset 1: no message of revsync: it has no header revsync.letter");
    assert!(first.exit == 1 && first.err.contains(&expected) && !first.err.contains("secret"), "{first:?}");
    folder.write("rules.toml", SHORTENED);
    let done =
        folder.revsync(&["--json", "--config", "rules.toml", "dead-letters", "replay", "--to", "local:index.db", "--dead-letters", &to]);
    assert_eq!((done.exit, done.count("indexed"), replayed(broker, &topic).0), (0, 1, vec![Some(1)]), "{}", done.err);
    let second = look();
    assert!(second.exit == 1 && second.err.contains(&expected) && second.out.contains("no dead letters that can be read"), "{second:?}");
}

#[test]
fn a_topic_that_cannot_take_letters_ends_a_run_before_anything_is_read() {
    let Some(broker) = broker() else { return };
    let folder = Folder::new();
    let source = broker.topic("self", 1);
    broker.produce(&source, &[note(0, "a", 1, "x")]);
    let (compacted, small) = (
        broker.topic_with("compacted", 1, json!({ "cleanup.policy": "compact" })),
        broker.topic_with("tiny", 1, json!({ "max.message.bytes": "1000" })),
    );
    let nobody = "kafka://127.0.0.1:1/letters".to_owned();
    for (to, expected) in [
        (broker.url("not-there"), vec!["the topic does not exist", "--create --topic not-there"]),
        (broker.url(&compacted), vec!["it is compacted", "--add-config cleanup.policy=delete"]),
        (broker.url(&small), vec!["at least 16384 bytes, found max.message.bytes = 1000", "--add-config max.message.bytes="]),
        (broker.url(&source), vec!["includes the topic of the dead letters", "name another topic"]),
        (nobody, vec!["kafka://127.0.0.1:1/letters cannot be reached", "Connection refused"]),
    ] {
        let done = folder.revsync(&["sync", &broker.url(&source), "--to", "local:index.db", "--dead-letters", &to]);
        assert_eq!(done.exit, 2, "{to}: {done:?}");
        assert!(expected.iter().all(|expected| done.err.contains(expected)), "{to}: {}", done.err);
        assert!(!folder.path().join("index.db").exists() || held(&folder, "a").is_none(), "{to}");
    }
    let known: Vec<String> = serde_json::from_value(broker.ask(json!({ "do": "topics" }))).unwrap();
    assert!(!known.contains(&"not-there".to_owned()), "no topic is made by its name");
}

#[test]
fn a_letter_that_is_larger_than_a_message_may_be_settles_nothing_and_is_stored_when_the_limit_is_raised() {
    let Some(broker) = broker() else { return };
    let (source, folder) = (broker.topic("of-large", 1), Folder::new());
    let letters = broker.topic_with("large", 1, json!({ "max.message.bytes": "20000" }));
    broker.produce(&source, &[note(0, "a", 1, "x"), note(0, &long("b"), 1, &"x".repeat(30_000)), note(0, "c", 1, "x")]);
    let worker = Worker::start(&folder, &broker.url(&source), &["--dead-letters", &broker.url(&letters), "--name", &source]);
    worker.wait_until("a letter that cannot be stored", |_| {
        worker.log().contains("more than a message of the topic may have (max.message.bytes (20000))")
    });
    assert!(worker.log().contains("--add-config max.message.bytes=32768"), "{}", worker.log());
    assert!(broker.committed(&source, &source).iter().all(|committed| committed.is_none_or(|offset| offset <= 1)));
    assert_eq!(broker.read(&letters), []);
    broker.ask(json!({ "do": "alter", "topic": letters, "config": { "max.message.bytes": "1000000" } }));
    until("the letter", || broker.read(&letters).len() == 1);
    worker.wait_until_caught_up(1);
    let (exit, log) = worker.stop();
    assert_eq!((exit, broker.committed(&source, &source)), (0, vec![Some(3)]), "{log}");
}

#[test]
fn a_letter_that_is_larger_than_a_message_may_be_goes_to_the_bucket_for_such() {
    let (Some(broker), Some(emulator)) = (broker(), aws::emulator()) else { return };
    let folder = Folder::new();
    let letters = broker.topic_with("pointing", 1, json!({ "max.message.bytes": "20000" }));
    let (to, bucket) = (broker.url(&letters), emulator.bucket(&emulator.name("large")));
    let large = emulator.bucket_place(&bucket);
    folder.write("stream.ion", revision("Note", &long("a"), 1, Some(&format!("{{text:\"{}\"}}", "x".repeat(30_000)))));
    folder.write("rules.toml", SHORTENED);
    let places = ["--dead-letters", &to, "--dead-letters-large", &large];
    let run = |arguments: &[&str]| folder.revsync_with(&[arguments, &places].concat(), &aws::CREDENTIALS, b"");
    let done = run(&["--json", "sync", "stream.ion", "--to", "local:index.db"]);
    assert_eq!((done.exit, done.count("dead_letters"), emulator.keys(&bucket).len()), (1, 1, 1), "{}", done.err);
    let messages = broker.read(&letters);
    let [Received { value, .. }] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!(value.as_deref(), Some(&b""[..]));
    let done = run(&["--json", "--config", "rules.toml", "dead-letters", "replay", "--to", "local:index.db"]);
    assert_eq!((done.exit, done.count("indexed")), (0, 1), "{}", done.err);
    assert_eq!(run(&["dead-letters", "list"]).out, "no dead letters\n");
}

#[test]
fn a_broker_that_goes_away_during_a_run_settles_nothing_until_it_is_back() {
    let (Some(broker), Some(mut place)) = (broker(), own_broker()) else { return };
    let (source, letters, folder) = (broker.topic("outage", 1), place.topic("letters", 1), Folder::new());
    broker.produce(&source, &[note(0, "a", 1, "x")]);
    let quick = ["-X", "message.timeout.ms=2000"];
    let to = place.url(&letters);
    let worker = Worker::start(&folder, &broker.url(&source), &[&["--dead-letters", &to, "--name", &source], &quick[..]].concat());
    worker.wait_until_caught_up(1);
    place.crash();
    broker.produce(&source, &[note(0, &long("b"), 1, "x"), note(0, "c", 1, "x")]);
    worker.wait_until("a letter that cannot be stored", |_| worker.log().contains(&format!("dead letters: {to} cannot be written")));
    assert!(broker.committed(&source, &source).iter().all(|committed| committed.is_none_or(|offset| offset <= 1)));
    place.start();
    worker.wait_until_caught_up(1);
    let (exit, log) = worker.stop();
    assert_eq!((exit, broker.committed(&source, &source), held(&folder, "c")), (0, vec![Some(3)], Some((1, "x".to_owned()))), "{log}");
    assert_eq!(place.read(&letters).len(), 1);
}

#[test]
fn the_client_of_the_topic_has_the_properties_of_its_section_or_else_those_of_the_source() {
    let Some(broker) = broker() else { return };
    let letters = broker.topic("secured", 1);
    let to = format!("kafka://{}/{letters}", broker.sasl);
    let properties = "\"security.protocol\" = \"SASL_PLAINTEXT\"\n\"sasl.mechanisms\" = \"PLAIN\"\n\"sasl.username\" = \"ann\"\n\"sasl.password\" = \"hunter2\"\n";
    for (number, section) in ["source", "dead_letters"].into_iter().enumerate() {
        let folder = Folder::new();
        folder.write("revsync.toml", format!("[{section}.properties]\n{properties}"));
        folder.write("stream.ion", notes(&[long("a")]).concat());
        let done = folder.revsync(&["--config", "revsync.toml", "sync", "stream.ion", "--to", "local:index.db", "--dead-letters", &to]);
        assert_eq!((done.exit, broker.read(&letters).len()), (1, number + 1), "{section}: {}", done.err);
        assert!(!done.err.contains("hunter2"));
    }
    let refused = Folder::new().revsync(&["dead-letters", "list", "--dead-letters", &to, "-X", "group.id=mine"]);
    assert!(
        refused.exit == 2 && refused.err.contains("dead letters: the property group.id of the Kafka client cannot be set"),
        "{refused:?}"
    );
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(100));
    }
}
