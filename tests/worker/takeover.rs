//! Two workers of one name: one works, the other waits and takes over.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::command::Folder;
use crate::feeder::Feeder;
use crate::kinesis::{Stream, kinesis};
use crate::process::Worker;

/// A worker of a folder, and after how much silence another takes over from it.
fn worker(folder: &Folder, stream: &Stream, takeover_after: &str) -> Worker {
    let config = folder.write("worker.toml", format!("name = \"notes\"\n[checkpoints]\ntakeover_after = \"{takeover_after}\"\n"));
    let config = config.to_str().unwrap();
    Worker::start(folder, &[&stream.url(), "--to", "local:index.db", "--dead-letters", "file:letters.jsonl", "--config", config])
}

fn waits(status: &Value) -> bool {
    status["phase"] == "waiting" && status["waits_for"].is_string()
}

#[test]
fn a_newcomer_waits_and_is_not_ready_and_takes_over_at_once_when_the_first_stops() {
    let Some(emulator) = kinesis() else { return };
    let (stream, folder) = (Stream::make(emulator, "takeover", 2), Folder::new());
    let mut feeder = Feeder::new(&stream, 1, 10);
    feeder.write(30);
    // Long enough that it is the release that is seen.
    let first = worker(&folder, &stream, "10m");
    first.wait_until_caught_up(&stream.open());
    assert_eq!(first.get("/ready").unwrap().0, 200, "{}", first.log());
    let second = worker(&folder, &stream, "10m");
    let status = second.wait_until("the newcomer waits", waits);
    assert_eq!(status["shards"].as_array().unwrap().iter().filter(|shard| shard["phase"] == "held").count(), 2, "{status:#}");
    assert_eq!((second.get("/live").unwrap().0, second.get("/ready").unwrap().0), (200, 503));
    feeder.write(30);
    first.wait_until("all is read", |status| status["counts"]["received"].as_u64().is_some_and(|received| received >= 72));
    assert_eq!(second.status()["counts"]["received"], 0);
    let (exit, log) = first.stop();
    assert_eq!(exit, 0, "{log}");
    feeder.write(5);
    second.wait_until_caught_up(&stream.open());
    assert_eq!(second.get("/ready").unwrap().0, 200, "{}", second.log());
    // It goes on where the first was.
    assert_eq!(second.status()["counts"]["received"], 6);
    let (exit, log) = second.stop();
    assert_eq!(exit, 0, "{log}");
    // Whoever has only the log is told what it is, and why nothing was read.
    let said = |what: &str| log.lines().filter(|line| line.contains(what)).count();
    assert_eq!((said("started: follows kinesis://"), said("does the work; waiting until it stops")), (1, 1), "{log}");
}

#[test]
fn a_worker_that_was_killed_is_taken_over_from_after_its_silence_and_not_before() {
    let Some(emulator) = kinesis() else { return };
    let (stream, folder) = (Stream::make(emulator, "silence", 1), Folder::new());
    Feeder::new(&stream, 2, 10).write(20);
    let first = worker(&folder, &stream, "4s");
    first.wait_until_caught_up(&stream.open());
    first.kill();
    let (second, started) = (worker(&folder, &stream, "4s"), Instant::now());
    second.wait_until("the newcomer waits", waits);
    second.wait_until_caught_up(&stream.open());
    assert!(started.elapsed() >= Duration::from_secs(3), "taken over after {:?}", started.elapsed());
    assert_eq!(second.stop().0, 0);
}

#[test]
fn a_worker_that_slept_while_another_took_over_leaves_the_shards_and_waits() {
    let Some(emulator) = kinesis() else { return };
    let (stream, folder) = (Stream::make(emulator, "asleep", 1), Folder::new());
    let mut feeder = Feeder::new(&stream, 3, 10);
    feeder.write(20);
    let first = worker(&folder, &stream, "1s");
    first.wait_until_caught_up(&stream.open());
    first.signal("STOP");
    let second = worker(&folder, &stream, "1s");
    second.wait_until_caught_up(&stream.open());
    first.signal("CONT");
    first.wait_until("the first sees that it lost", waits);
    assert!(first.log().contains("another one reads this shard now"), "{}", first.log());
    feeder.write(10);
    second.wait_until("the second goes on", |status| status["counts"]["received"].as_u64().is_some_and(|received| received >= 12));
    assert_eq!((first.get("/ready").unwrap().0, second.get("/ready").unwrap().0), (503, 200));
    assert_eq!((first.stop().0, second.stop().0), (0, 0));
}
