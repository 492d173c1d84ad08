//! What a panic costs: while a record is decoded, the record and nothing else; in a request, the run, and nothing that was settled.

use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use revsync::codec::{Decoder, Options, TableOptions};
use revsync::error::Kind;
use revsync::metrics::Counts;
use revsync::panics::hide_messages;
use revsync::plan::mapping::Mapping;
use revsync::record::Record;
use revsync::run::deliver::{Deliver, Settings};
use revsync::run::explain::explain;

use crate::line::{Bench, deliver};
use crate::qldb_stream::{aggregate, put, record, revision, shard, text};
use crate::scripted_sink::Step;

const PLACE: u32 = line!() + 5;

/// A decoder with a bug that shows with one table, and says what it should keep to itself.
fn decoder_with_a_bug() -> Decoder {
    let table = |table: &str| {
        assert!(table != "Odd", "a secret of {table}");
        TableOptions::default()
    };
    Decoder::new(Options { table: Box::new(table), ..Options::default() })
}

fn line(bench: &Bench, decoder: Decoder) -> Deliver {
    Deliver::new(decoder, Mapping::default(), bench.sink.clone(), bench.store.clone(), bench.settings)
}

fn one(table: &str, id: &str) -> String {
    revision(table, id, 1, &put(id))
}

fn records(data: impl IntoIterator<Item = Bytes>) -> Vec<Record> {
    data.into_iter().zip(0..).map(|(data, offset)| record(&shard("0"), offset, data)).collect()
}

/// Delivers with the bug, and checks that everything was settled.
async fn settled(bench: &Bench, records: &[Record]) -> Counts {
    let mut line = line(bench, decoder_with_a_bug());
    deliver(&mut line, records).await.unwrap();
    assert!(line.ledger().is_settled() && line.counts().balanced());
    line.counts()
}

/// Sends the letters again, without the bug.
async fn replayed(bench: &Bench) -> Counts {
    let mut line = line(bench, Decoder::default());
    for letter in bench.letters() {
        line.push_letter(&letter).await.unwrap();
    }
    line.finish().await.unwrap();
    line.counts()
}

fn ids(bench: &Bench) -> Vec<String> {
    let mut ids: Vec<String> = bench.sink.documents().into_keys().map(|(_, id)| id).collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn a_record_at_which_the_decoder_panics_is_a_dead_letter_and_everything_else_is_delivered() {
    let bench = Bench::new();
    let records = records([("Person", "a"), ("Odd", "b"), ("Person", "c"), ("Odd", "d")].map(|(table, id)| text(&[one(table, id)])));
    let counts = settled(&bench, &records).await;
    assert_eq!((counts.received, counts.indexed, counts.dead_letters), (4, 2, 2));
    assert_eq!(ids(&bench), ["a", "c"]);
    let (letters, place) = (bench.letters(), format!("tests/pure/delivery_panics.rs:{PLACE},"));
    assert_eq!(letters.iter().map(|letter| &letter.payload).collect::<Vec<_>>(), [&records[1].data, &records[3].data]);
    for letter in letters {
        assert_eq!((letter.error.kind.as_str(), &letter.document_id), ("panic", &None));
        assert!(letter.error.reason.contains(&place), "{}", letter.error.reason);
        assert!(!letter.error.reason.contains("secret"), "{}", letter.error.reason);
    }
    assert_eq!((replayed(&bench).await.indexed, ids(&bench).len()), (2, 4));
}

#[tokio::test]
async fn inside_an_aggregate_a_panic_costs_what_is_left_of_its_user_record() {
    let bench = Bench::new();
    let users = [
        text(&[one("Person", "a")]),
        text(&[one("Person", "b"), one("Odd", "c"), one("Person", "d")]),
        text(&[one("Person", "e")]),
        text(&[one("Odd", "f")]),
    ];
    let counts = settled(&bench, &records([aggregate(&users)])).await;
    assert_eq!((counts.received, counts.indexed, counts.dead_letters), (5, 3, 2));
    assert_eq!(ids(&bench), ["a", "b", "e"]);
    let letters: Vec<_> = bench.letters().into_iter().map(|letter| (letter.payload, letter.unit, letter.part)).collect();
    assert_eq!(letters, [(users[1].clone(), 2, 1), (users[3].clone(), 4, 0)]);
    let counts = replayed(&bench).await;
    assert_eq!((counts.received, counts.indexed, counts.stale), (3, 3, 0), "what was not read is read now, what was is not sent again");
    assert_eq!(ids(&bench), ["a", "b", "c", "d", "e", "f"]);
}

#[tokio::test]
async fn a_letter_at_which_the_decoder_panics_again_stays_the_same_letter() {
    let bench = Bench::new();
    let records = records([text(&[one("Person", "a"), one("Odd", "b")])]);
    settled(&bench, &records).await;
    let before = bench.letters();
    let mut line = line(&bench, decoder_with_a_bug());
    line.push_letter(&before[0]).await.unwrap();
    line.finish().await.unwrap();
    let after = bench.letters();
    assert_eq!((after.len(), &after[0].id, after[0].part), (1, &before[0].id, 1));
}

#[test]
fn explain_shows_a_panic_as_the_dead_letter_that_it_would_be() {
    let mut lines = Vec::new();
    for record in records([text(&[one("Odd", "a")]), text(&[one("Person", "b")])]) {
        explain(&mut decoder_with_a_bug(), &mut Mapping::default(), &record, |line| lines.push(line.to_string())).unwrap();
    }
    assert!(lines[0].starts_with("0 byte 0: dead letter: panic, the connector panicked at "), "{lines:?}");
    assert!(lines[1].starts_with("0 byte 1: index person/b at version 1"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_one_of_several_requests_loses_nothing_settles_nothing_and_does_not_hang() {
    let bench = Bench::with(Settings { request_operations: 1, ..Settings::default() });
    bench.sink.script([Step::Proper, Step::Panic]);
    let people = records(["a", "b", "c", "d", "e", "f", "g", "h"].map(|id| text(&[one("Person", id)])));
    let mut line = bench.line();
    let error = deliver(&mut line, &people).await.unwrap_err();
    assert_eq!(error.kind, Kind::Sink);
    assert!(error.what.contains("scripted_sink.rs:") && !error.what.contains("script wants"), "{error}");
    line.stop(Duration::from_secs(1)).await;
    let counts = line.counts();
    assert!(counts.balanced() && counts.dead_letters == 0 && counts.pending >= 1, "{counts:?}");
    assert_eq!(line.ledger().checkpoint(&shard("0")), Some(&people[0].position));
    assert_eq!(line.first_unsettled().as_ref(), Some(&people[1].position));
    // The next process goes on from there.
    deliver(&mut bench.line(), &people[1..]).await.unwrap();
    assert_eq!((ids(&bench).len(), bench.sink.violations()), (8, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_sample_of_a_blocked_index_ends_the_run_too() {
    let bench = Bench::new();
    bench.sink.block("person");
    bench.sink.script([Step::Proper, Step::Proper, Step::Panic]);
    let mut line = bench.line();
    let people = records(["a", "b"].map(|id| text(&[one("Person", id)])));
    let error = deliver(&mut line, &people).await.unwrap_err();
    assert_eq!((error.kind, line.counts().pending, bench.sink.requests().len()), (Kind::Sink, 2, 3));
    line.stop(Duration::from_secs(1)).await;
    assert_eq!(line.first_unsettled().as_ref(), Some(&people[0].position));
}

#[tokio::test(start_paused = true)]
async fn work_that_does_not_wait_leaves_others_their_turn() {
    let bench = Bench::new();
    let document = revision("Person", "a", 1, &put(&"x".repeat(1_000)));
    let people = records(std::iter::repeat_n(text(&[document]), 10_000));
    let mut line = bench.line();
    let turns = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let others = turns.clone();
    let other = tokio::spawn(async move {
        loop {
            others.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    for person in &people[..1_500] {
        line.push(person).await.unwrap();
    }
    other.abort();
    assert!(bench.sink.requests().is_empty(), "nothing was sent, so nothing had to be waited for");
    let turns = turns.load(std::sync::atomic::Ordering::Relaxed);
    assert!(turns >= 5, "{turns} turns within 1.5 MB");
}

/// Names the panic that the process of the test below is to end with.
const VARIABLE: &str = "REVSYNC_TEST_PANIC";

#[test]
fn a_program_tells_a_panic_by_its_place_and_only_a_literal_by_its_words() {
    if let Ok(how) = std::env::var(VARIABLE) {
        hide_messages();
        assert!(how != "formatted", "a secret of {how}");
        panic!("a literal");
    }
    let test = "delivery_panics::a_program_tells_a_panic_by_its_place_and_only_a_literal_by_its_words";
    let end = |how: &str| {
        let mut program = Command::new(std::env::current_exe().unwrap());
        let Output { status, stderr, .. } = program.args([test, "--exact", "--nocapture"]).env(VARIABLE, how).output().unwrap();
        assert!(!status.success());
        String::from_utf8(stderr).unwrap()
    };
    let formatted = end("formatted");
    let told = "which is a bug in it: the message is not shown, for it may quote a document";
    assert!(formatted.contains("error: the connector panicked at ") && formatted.contains(told), "{formatted}");
    assert!(formatted.contains("delivery_panics.rs:") && !formatted.contains("secret"), "{formatted}");
    let literal = end("literal");
    assert!(literal.contains("which is a bug in it: a literal"), "{literal}");
}
