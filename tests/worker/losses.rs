//! What is lost before it could be read is said once and counted, and ends the work where it is to; and what `check` knows of that and of the
//! rest before anything is read.

use serde_json::Value;

use crate::aws::{CREDENTIALS, emulator};
use crate::command::{Done, Folder};
use crate::feeder::Feeder;
use crate::kinesis::{Stream, kinesis};
use crate::process::Worker;

/// The lines of a check, by what was tried.
fn check(folder: &Folder, stream: &Stream, more: &[&str]) -> (Done, Value) {
    let url = stream.url();
    let arguments = [&["--json", "check", &url, "--to", "local:index.db", "--dead-letters", "file:letters.jsonl"], more].concat();
    let done = folder.revsync_with(&arguments, &CREDENTIALS, b"");
    let checks = done.json()["checks"].clone();
    (done, checks)
}

fn found<'a>(checks: &'a Value, what: &str) -> &'a str {
    let one = checks.as_array().unwrap().iter().find(|one| one["what"] == what);
    one.unwrap_or_else(|| panic!("no {what}: {checks:#}"))["found"].as_str().unwrap()
}

fn start(folder: &Folder, stream: &Stream, more: &[&str]) -> Worker {
    let url = stream.url();
    let arguments = [&[url.as_str(), "--to", "local:index.db", "--dead-letters", "file:letters.jsonl"], more].concat();
    Worker::start(folder, &arguments)
}

/// A worker read a part of the only shard and stopped; then the shard was split, which this emulator deletes it for, with what nobody read.
fn split_before_it_was_read(stream: &Stream, folder: &Folder, seed: u64) {
    let mut feeder = Feeder::new(stream, seed, 10);
    feeder.write(10);
    let worker = start(folder, stream, &[]);
    worker.wait_until("it has read", |status| status["counts"]["received"] == 12);
    assert_eq!(worker.stop().0, 0);
    feeder.write(10);
    stream.split(&stream.open()[0]);
    feeder.write(10);
}

#[test]
fn a_shard_that_vanished_before_it_was_read_ends_the_work_or_is_said_once() {
    let Some(emulator) = emulator() else { return };
    let (stream, folder) = (Stream::make(emulator, "vanished", 1), Folder::new());
    split_before_it_was_read(&stream, &folder, 1);

    let (done, checks) = check(&folder, &stream, &[]);
    assert_eq!(done.exit, 1, "{checks:#}");
    let run = checks.as_array().unwrap().iter().find(|one| one["what"] == "run").unwrap();
    assert!(run["help"].as_str().unwrap().contains("1 shards are gone"), "{run:#}");

    let mut stops = start(&folder, &stream, &["--on-data-loss", "stop"]);
    let (exit, log) = stops.ended();
    assert_eq!(exit, 2, "{log}");
    assert!(log.contains("data loss in shardId-000000000000") && log.contains("on_data_loss = \"continue\""), "{log}");

    // It is said once: whoever goes on after that does so knowingly.
    let goes_on = start(&folder, &stream, &[]);
    goes_on.wait_until("the children are read", |status| status["counts"]["received"] == 12);
    let (exit, log) = goes_on.stop();
    assert_eq!(exit, 0, "{log}");
}

#[test]
fn a_shard_that_vanished_is_counted_and_the_rest_goes_on() {
    let Some(emulator) = emulator() else { return };
    let (stream, folder) = (Stream::make(emulator, "counted", 1), Folder::new());
    split_before_it_was_read(&stream, &folder, 2);
    let worker = start(&folder, &stream, &[]);
    let status = worker.wait_until("the children are read", |status| status["counts"]["received"] == 12);
    assert_eq!(status["data_loss"]["vanished"], 1, "{status:#}");
    let (_, metrics) = worker.get("/metrics").unwrap();
    assert!(
        metrics.lines().any(|line| line.contains("revsync_data_loss_total") && line.contains("vanished") && line.ends_with(" 1")),
        "{metrics}"
    );
    let (exit, log) = worker.stop();
    assert_eq!((exit, log.matches("records were lost before they were read").count()), (0, 1), "{log}");
    let worker = start(&folder, &stream, &[]);
    let status = worker.wait_until_caught_up(&stream.open());
    assert_eq!(status["data_loss"]["vanished"], 0, "{status:#}");
    assert_eq!(worker.stop().0, 0);
}

#[test]
fn check_says_what_a_worker_would_do_and_who_reads_the_stream() {
    let Some(emulator) = kinesis() else { return };
    let (stream, folder) = (Stream::make(emulator, "check", 2), Folder::new());
    Feeder::new(&stream, 3, 10).write(10);
    stream.split(&stream.open()[0]);
    let (done, checks) = check(&folder, &stream, &[]);
    assert_eq!(done.exit, 0, "{checks:#}");
    assert!(found(&checks, "source").contains("3 open and 1 closed shards"), "{checks:#}");
    assert_eq!(found(&checks, "checkpoints"), format!("local:index.db: none of {} yet", stream.name));
    let run = "would go on in 0 shards from their checkpoints, begin with 2 at their oldest record, and read 2 after their parents";
    assert_eq!(found(&checks, "run"), run);

    let worker = start(&folder, &stream, &[]);
    worker.wait_until_caught_up(&stream.open());
    let (done, checks) = check(&folder, &stream, &[]);
    assert_eq!(done.exit, 0, "{checks:#}");
    assert!(found(&checks, "checkpoints").contains("4 shards") && found(&checks, "checkpoints").contains("read by "), "{checks:#}");
    assert!(found(&checks, "run").starts_with("would go on in 3 shards from their checkpoints, begin with 0"), "{checks:#}");
    assert_eq!(worker.stop().0, 0);
    let (_, checks) = check(&folder, &stream, &[]);
    assert!(found(&checks, "checkpoints").contains("no worker runs"), "{checks:#}");
}

#[test]
fn check_says_that_the_checkpoints_of_a_worker_cannot_be_written_where_it_would_put_them() {
    let Some(emulator) = kinesis() else { return };
    let (stream, folder) = (Stream::make(emulator, "unwritable", 1), Folder::new());
    let (done, checks) = check(&folder, &stream, &["--checkpoints", "file:no/such/folder/c.json"]);
    assert_eq!(done.exit, 2, "{checks:#}");
    assert!(found(&checks, "checkpoints").contains("file:no/such/folder/c.json cannot be written"), "{checks:#}");
}

#[test]
fn check_says_which_stream_there_is_not() {
    let Some(emulator) = kinesis() else { return };
    let (stream, folder) = (Stream::make(emulator, "gone", 1), Folder::new());
    stream.delete();
    let (done, checks) = check(&folder, &stream, &[]);
    assert_eq!(done.exit, 2);
    assert!(found(&checks, "source").contains(&stream.name), "{checks:#}");
}
