//! A worker whose ends go away and come back: it keeps its memory and its leases, says what is missing, and catches up by itself.

use std::time::Duration;

use serde_json::Value;

use crate::command::{Folder, revision};
use crate::feeder::Feeder;
use crate::kinesis::{Stream, kinesis};
use crate::peak::{MIB, so_far};
use crate::process::Worker;
use crate::relay::Relay;
use crate::scripted_opensearch::Scripted;
use crate::services;

const LETTERS: [&str; 2] = ["--dead-letters", "file:letters.jsonl"];

fn reasons(status: &Value) -> String {
    status["reasons"].to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opensearch_that_is_down_for_long_is_waited_for_in_bounded_memory_and_caught_up_with() {
    let Some(emulator) = kinesis() else { return };
    let Some(server) = services::opensearch().first() else { return };
    let (relay, folder) = (Relay::default(), Folder::new());
    let url = relay.listen().await;
    relay.to(&server.url);
    let stream = Stream::make(emulator, "outage", 2);
    let table = format!("Outage{}", std::process::id());
    let done = tokio::task::spawn_blocking(move || {
        // With a budget of 1 MiB, what is written below has to stay in the stream.
        let config = folder.write(
            "worker.toml",
            format!(
                "name = \"{}\"\n[checkpoints]\ntakeover_after = \"2s\"\n[delivery]\nrequest_bytes = \"256KiB\"\nrequests_in_flight = 2\n",
                stream.name
            ),
        );
        let source = stream.url();
        let arguments = [&[source.as_str(), "--to", url.as_str(), "--config", config.to_str().unwrap()], &LETTERS[..]].concat();
        let worker = Worker::start(&folder, &arguments);
        let write = |from: u64, documents: u64, padding: usize| {
            let data = format!("{{text:\"{}\"}}", "x".repeat(padding));
            let open = stream.open();
            for (at, shard) in open.iter().enumerate() {
                let record = |i| revision(&table, &format!("{at}-{i}"), from, Some(&data)).into_bytes();
                stream.put_all(shard, &(0..documents).map(record).collect::<Vec<_>>());
            }
        };
        write(0, 10, 10);
        worker.wait_until("the first are indexed", |status| status["counts"]["indexed"] == 20);
        assert_eq!(worker.get("/ready").unwrap().0, 200, "{}", worker.log());
        relay.to_nowhere();
        let quiet = so_far(worker.id()).unwrap();
        write(1, 100, 30_000);
        let status =
            worker.wait_until("it is not ready", |status| status["ready"] == false && status["bytes_in_flight"].as_u64() > Some(100_000));
        assert!(reasons(&status).contains("sink"), "{status:#}");
        assert_eq!(status["live"], true);
        // Long enough for another one to take over from a worker that is silent.
        std::thread::sleep(Duration::from_secs(6));
        let other = Worker::start(
            &folder,
            &[&stream.url(), "--to", &server.url, "--config", config.to_str().unwrap(), "--dead-letters", "file:other.jsonl"],
        );
        other.wait_until("the other one waits", |status| status["phase"] == "waiting");
        let status = worker.status();
        assert_eq!((&status["counts"]["indexed"], &status["counts"]["dead_letters"]), (&20.into(), &0.into()), "{status:#}");
        let grown = so_far(worker.id()).unwrap().saturating_sub(quiet);
        assert!(grown < 24 * MIB, "it grew by {} MiB with a budget of 1 MiB", grown / MIB);
        relay.to(&server.url);
        let status = worker.wait_until("it has caught up", |status| status["counts"]["indexed"] == 220 && status["ready"] == true);
        assert_eq!(status["counts"]["dead_letters"], 0, "{status:#}");
        assert_eq!((other.stop().0, worker.stop().0), (0, 0));
    });
    done.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_cannot_be_reached_is_waited_for_from_the_start_and_later() {
    let Some(emulator) = kinesis() else { return };
    let (relay, folder) = (Relay::default(), Folder::new());
    let endpoint = relay.listen().await;
    let stream = Stream::make(emulator, "unreached", 1);
    let emulator = emulator.url();
    let done = tokio::task::spawn_blocking(move || {
        let mut feeder = Feeder::new(&stream, 5, 10);
        feeder.write(10);
        let url = format!("kinesis://{}?region={}&endpoint={endpoint}", stream.name, crate::aws::REGION);
        let worker = Worker::start(&folder, &[&[url.as_str(), "--to", "local:index.db"], &LETTERS[..]].concat());
        let status = worker.wait_until("it says that the source is not there", |status| status["source"]["reachable"] == false);
        assert!(status["live"] == true && status["ready"] == false && reasons(&status).contains("source"), "{status:#}");
        relay.to(&emulator);
        worker.wait_until("it has read", |status| status["counts"]["received"] == 12 && status["ready"] == true);
        relay.to_nowhere();
        worker.wait_until("it says that the source has gone", |status| status["ready"] == false);
        feeder.write(10);
        relay.to(&emulator);
        worker.wait_until("it goes on", |status| status["counts"]["received"] == 24 && status["ready"] == true);
        assert_eq!(worker.stop().0, 0);
    });
    done.await.unwrap();
}

#[test]
fn a_stream_that_there_is_not_ends_the_worker_at_once_with_what_to_do() {
    let Some(emulator) = kinesis() else { return };
    let folder = Folder::new();
    let url = format!("kinesis://missing?region={}&endpoint={}", crate::aws::REGION, emulator.url());
    let mut worker = Worker::start(&folder, &[&[url.as_str(), "--to", "local:index.db"], &LETTERS[..]].concat());
    let (exit, log) = worker.ended();
    assert_eq!(exit, 2, "{log}");
    assert!(log.contains("missing") && log.contains("does not exist") && log.contains("check the stream's name"), "{log}");
}

#[test]
fn a_stream_that_is_deleted_ends_the_worker_with_what_is_settled_saved() {
    let Some(emulator) = kinesis() else { return };
    let (stream, folder) = (Stream::make(emulator, "deleted", 1), Folder::new());
    Feeder::new(&stream, 6, 10).write(10);
    let mut worker = Worker::start(&folder, &[&[stream.url().as_str(), "--to", "local:index.db"], &LETTERS[..]].concat());
    worker.wait_until("it has read", |status| status["counts"]["received"] == 12);
    stream.delete();
    let (exit, log) = worker.ended();
    assert_eq!(exit, 2, "{log}");
    assert!(log.contains(&stream.name), "{log}");
}

#[test]
fn a_stop_in_an_outage_keeps_to_the_grace_time_and_settles_nothing_that_is_not() {
    let Some(emulator) = kinesis() else { return };
    let (stream, folder) = (Stream::make(emulator, "grace", 1), Folder::new());
    let mut feeder = Feeder::new(&stream, 7, 10);
    feeder.write(10);
    let arguments = |to: &'static str, grace: &'static str| {
        let checkpoints = ["--checkpoints", "file:checkpoints.json"];
        [&["--to", to, "--grace", grace], &LETTERS[..], &checkpoints[..]].concat()
    };
    // Nobody listens there.
    let url = stream.url();
    let worker = Worker::start(&folder, &[&[url.as_str()], &arguments("http://127.0.0.1:1", "2s")[..]].concat());
    worker.wait_until("it has read", |status| status["counts"]["received"] == 12);
    let began = std::time::Instant::now();
    let (exit, log) = worker.stop();
    assert_eq!(exit, 0, "{log}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}: {log}", began.elapsed());
    let worker = Worker::start(&folder, &[&[url.as_str()], &arguments("local:index.db", "20s")[..]].concat());
    let status =
        worker.wait_until("all of it comes again", |status| status["counts"]["received"] == 12 && status["counts"]["pending"] == 0);
    assert_eq!(status["counts"]["dead_letters"], 0, "{status:#}");
    assert_eq!(worker.stop().0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_is_wrong_from_the_start_is_waited_for_and_the_worker_says_so() {
    let Some(emulator) = kinesis() else { return };
    let (stream, folder, server) = (Stream::make(emulator, "password", 1), Folder::new(), Scripted::start().await);
    // revsync:right
    server.require_header("authorization", "Basic cmV2c3luYzpyaWdodA==");
    let (sink, source) = (server.url(), stream.url());
    let done = tokio::task::spawn_blocking(move || {
        Feeder::new(&stream, 8, 10).write(10);
        folder.write("password", "wrong");
        let arguments = [&[source.as_str(), "--to", &sink, "--username", "revsync", "--password-file", "password"], &LETTERS[..]].concat();
        // Its checkpoints are behind the same door.
        let worker = Worker::start(&folder, &arguments);
        let status = worker.wait_until("it says that it is not let in", |status| {
            status["ready"] == false && reasons(status).contains("refuses the credentials")
        });
        assert_eq!((&status["live"], &status["counts"]["received"]), (&true.into(), &0.into()), "{status:#}");
        assert_eq!(worker.stop().0, 0);

        let worker = Worker::start(&folder, &[&arguments[..], &["--checkpoints", "file:checkpoints.json"]].concat());
        let status =
            worker.wait_until("it says that it is not let in", |status| status["ready"] == false && status["counts"]["pending"] == 12);
        assert_eq!((&status["counts"]["indexed"], &status["counts"]["dead_letters"]), (&0.into(), &0.into()), "{status:#}");
        folder.write("password", "right");
        worker.wait_until("it goes on once the password is right", |status| status["counts"]["pending"] == 0 && status["ready"] == true);
        let (exit, log) = worker.stop();
        assert!(exit == 0 && !log.contains("wrong"), "{log}");
    });
    done.await.unwrap();
}
