//! Batches that Lambda gave up and told no more of than where they are: their records are read again from the stream, each emulator's.

use serde_json::{Value, json};

use crate::aws::{CREDENTIALS, Emulator};
use crate::command::{Done, Folder, revision};
use crate::kinesis::Stream;

on_both! {
    the_records_of_a_batch_are_read_again_from_its_stream_and_no_others,
    a_batch_whose_size_is_said_to_be_none_is_read_by_its_numbers,
    a_batch_that_the_stream_does_not_hold_any_more_is_told_of_and_costs_no_other,
    a_stream_that_is_not_there_is_told_of_and_costs_no_other_batch,
}

fn note(id: usize) -> Vec<u8> {
    revision("Note", &format!("id-{id}"), 1, Some("{text:\"x\"}")).into_bytes()
}

/// What Lambda tells a queue of a batch.
fn document(stream: &str, shard: &str, from: &str, to: &str, size: usize) -> Value {
    json!({
        "requestContext": {"requestId": "0f0f", "condition": "RetryAttemptsExhausted", "approximateInvokeCount": 4},
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
        "version": "1.0",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "KinesisBatchInfo": {
            "shardId": shard, "startSequenceNumber": from, "endSequenceNumber": to,
            "approximateArrivalOfFirstRecord": "2026-01-01T00:00:00Z", "approximateArrivalOfLastRecord": "2026-01-01T00:00:10Z",
            "batchSize": size, "streamArn": stream,
        },
    })
}

fn sync(emulator: &Emulator, folder: &Folder, text: &str) -> Done {
    folder.write("given-up.json", text);
    let endpoint = emulator.url();
    let environment = [&CREDENTIALS[..], &[("AWS_ENDPOINT_URL", endpoint.as_str())]].concat();
    let arguments =
        ["--json", "sync", "given-up.json", "--to", "local:index.db", "--idle-time-between-reads", "200ms", "--shard-timeout", "5s"];
    folder.revsync_with(&arguments, &environment, b"").balanced()
}

/// A stream with ten notes in its one shard, the shard, and their sequence numbers.
fn stream(emulator: &'static Emulator, what: &str) -> (Stream, String, Vec<String>) {
    let stream = Stream::make(emulator, what, 1);
    let shard = stream.open().remove(0);
    let numbers = (0..10).map(|id| stream.put(&shard, &note(id))).collect();
    (stream, shard.id, numbers)
}

fn the_records_of_a_batch_are_read_again_from_its_stream_and_no_others(emulator: &'static Emulator) {
    let (stream, shard, numbers) = stream(emulator, "given-up");
    let of = |from: usize, to: usize| document(&stream.arn(), &shard, &numbers[from], &numbers[to], to - from + 1);
    let messages = json!({"Messages": [{"MessageId": "1", "Body": of(7, 8).to_string()}]});
    let folder = Folder::new();
    let done = sync(emulator, &folder, &format!("{}\n{}\n{messages}\n", of(2, 4), of(4, 5)));
    assert_eq!((done.exit, done.count("received"), done.count("indexed"), done.count("compacted")), (0, 7, 6, 1), "{}", done.err);
    let found = folder.revsync(&["--json", "search", "x", "--to", "local:index.db"]).out;
    let ids: Vec<bool> = (0..10).map(|id| found.contains(&format!("\"id-{id}\""))).collect();
    assert_eq!(ids, [false, false, true, true, true, true, false, true, true, false], "{found}");
}

fn a_batch_whose_size_is_said_to_be_none_is_read_by_its_numbers(emulator: &'static Emulator) {
    let (stream, shard, numbers) = stream(emulator, "sizeless");
    let none = document(&stream.arn(), &shard, &numbers[2], &numbers[4], 0);
    let done = sync(emulator, &Folder::new(), &none.to_string());
    assert_eq!((done.exit, done.count("received"), done.count("indexed")), (0, 3, 3), "{}", done.err);
}

fn a_batch_that_the_stream_does_not_hold_any_more_is_told_of_and_costs_no_other(emulator: &'static Emulator) {
    let (stream, shard, numbers) = stream(emulator, "gone");
    // It says that there were more than there are.
    let short = document(&stream.arn(), &shard, &numbers[0], &numbers[1], 5);
    let whole = document(&stream.arn(), &shard, &numbers[5], &numbers[6], 2);
    let done = sync(emulator, &Folder::new(), &format!("{short}\n{whole}\n"));
    assert_eq!((done.exit, done.count("indexed")), (1, 4), "{}", done.err);
    assert!(done.err.contains("records of a batch that Lambda gave up were lost") && done.err.contains("missing=3"), "{}", done.err);
    assert!(done.err.contains("not proven complete"), "{}", done.err);
}

fn a_stream_that_is_not_there_is_told_of_and_costs_no_other_batch(emulator: &'static Emulator) {
    let (stream, shard, numbers) = stream(emulator, "there");
    let lost = document(&stream.arn().replace("there", "never-there"), &shard, &numbers[0], &numbers[1], 2);
    let whole = document(&stream.arn(), &shard, &numbers[5], &numbers[6], 2);
    let done = sync(emulator, &Folder::new(), &format!("{lost}\n{whole}\n"));
    assert_eq!((done.exit, done.count("indexed")), (2, 2), "{}", done.err);
    assert!(
        done.err.contains("given-up.json: at byte 0: a batch that Lambda gave up") && done.err.contains("does not exist"),
        "{}",
        done.err
    );
}
