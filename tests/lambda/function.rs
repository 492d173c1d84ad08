//! The function as Lambda runs it: the real binary, asked and answering over the Runtime API, and a file of bulk lines or nobody at its end.

use std::net::TcpListener;
use std::time::Duration;

use crate::runtime_api::{Answer, Function};
use crate::{aws, fixture};

/// More than any of these tests takes.
const LONG_ENOUGH: Duration = Duration::from_secs(60);

fn done() -> Answer {
    Answer::Response(r#"{"batchItemFailures":[]}"#.to_owned())
}

#[test]
fn the_function_writes_an_event_and_answers_in_the_bytes_that_lambda_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let bulk = folder.path().join("bulk.ndjson");
    let letters = folder.path().join("letters.jsonl");
    let to = format!("bulk:{}", bulk.display());
    let dead_letters = format!("file:{}", letters.display());
    let mut function = Function::start(&[("REVSYNC_TO", &to), ("REVSYNC_DEAD_LETTERS", &dead_letters)]);

    assert_eq!(function.invoke(&fixture("vehicle-registration/lambda-event.json"), LONG_ENOUGH), done());
    assert_eq!(function.invoke(&fixture("kinesis_event/empty.json"), LONG_ENOUGH), done());
    let other = function.invoke(r#"{"records":{}}"#, LONG_ENOUGH);
    assert!(matches!(&other, Answer::Error(_)), "an event of another source is refused: {other:?}");
    let lines = std::fs::read_to_string(&bulk).expect("bulk lines");
    assert_eq!(lines.lines().filter(|line| line.starts_with(r#"{"delete""#)).count(), 2);
    assert!(lines.contains(r#""_index":"vehicle_registration""#), "{lines}");
    assert!(!letters.exists(), "nothing of it is a dead letter");
}

/// What the function says on standard error until it has answered one event, with these rules and this sink.
fn said(rules: &str, to: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(file("rules.toml"), rules).expect("a file of rules");
    let mut function = Function::start(&[
        ("REVSYNC_TO", to),
        ("REVSYNC_DEAD_LETTERS", &format!("file:{}", file("letters.jsonl"))),
        ("REVSYNC_CONFIG", &file("rules.toml")),
    ]);
    assert_eq!(function.invoke(&fixture("kinesis_event/empty.json"), LONG_ENOUGH), done());
    function.errors().replace("\\\"", "\"")
}

#[test]
fn the_function_warns_of_plain_deletes_where_opensearch_may_forget_them() {
    let (opensearch, tombstones) = ("http://127.0.0.1:9", "[[table]]\nname = \"*\"\ndeletes = \"tombstone\"\n");
    let without_rules = said("", opensearch);
    assert!(without_rules.contains("without rules, every table gets plain deletes: OpenSearch remembers them for 24h"), "{without_rules}");
    let by_rule = said(&format!("[[table]]\nname = \"Car\"\n{tombstones}"), opensearch);
    assert!(by_rule.contains("deletes = \"delete\" holds for \"Car\": OpenSearch"), "{by_rule}");
    for (rules, to) in [(tombstones, opensearch), ("", "bulk:/dev/null")] {
        let said = said(rules, to);
        assert!(!said.contains("brings a deleted document back"), "{to}: {said}");
    }
}

#[test]
fn dead_letters_of_the_function_go_into_a_queue() {
    let Some(emulator) = aws::emulator() else { return };
    let queue = emulator.queue(&emulator.name("letters"), serde_json::json!({}));
    let (place, large) = (emulator.queue_place(&queue), emulator.bucket_place(&emulator.bucket(&emulator.name("large"))));
    let variables = [("REVSYNC_TO", "bulk:/dev/null"), ("REVSYNC_DEAD_LETTERS", &place), ("REVSYNC_DEAD_LETTERS_LARGE", &large)];
    let mut function = Function::start(&[&variables[..], &aws::CREDENTIALS].concat());
    assert_eq!(function.invoke(&fixture("kinesis_event/plain.json"), LONG_ENOUGH), done());
    let letters = emulator.messages(&queue);
    assert_eq!(letters.len(), 2, "the third record is empty: {letters:?}");
    assert!(letters.iter().all(|letter| letter.contains(r#""payload":"#)), "{letters:?}");
}

#[test]
fn a_cold_start_needs_no_sink_and_a_batch_that_cannot_be_written_comes_back_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let to = format!("http://{nobody}");
    let letters = folder.path().join("letters.jsonl");
    let dead_letters = format!("file:{}", letters.display());
    let variables = [("REVSYNC_TO", to.as_str()), ("REVSYNC_DEAD_LETTERS", &dead_letters), ("REVSYNC_GIVE_UP_AFTER", "300ms")];
    let mut function = Function::start(&variables);
    let event = fixture("vehicle-registration/lambda-event.json");
    let answer = function.invoke(&event, LONG_ENOUGH);
    assert_eq!(function.invoke(&event, LONG_ENOUGH), answer, "the same function answers again");
    assert!(matches!(&answer, Answer::Response(body) if body.starts_with(r#"{"batchItemFailures":[{"itemIdentifier":""#)), "{answer:?}");
    assert!(!letters.exists(), "an outage is no dead letter");
}
