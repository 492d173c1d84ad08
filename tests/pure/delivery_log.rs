//! What delivery says while it works: enough to see what is wrong, never a field's value, and not the same thing a million times.

use std::time::Duration;

use bytes::Bytes;
use revsync::plan::outcome::Reply;
use revsync::run::deliver::Settings;

use crate::line::{Bench, deliver};
use crate::log::Log;
use crate::qldb_stream::{put, records};
use crate::scripted_sink::{Step, busy, down, poison};

#[tokio::test(start_paused = true)]
async fn no_value_of_a_document_is_ever_said() {
    let (log, _guard) = Log::start();
    let bench = Bench::with(Settings { give_up_after: Some(Duration::from_secs(9)), ..Settings::default() });
    bench.sink.rule(|rules| {
        rules.largest = 3_000;
        rules.refuses = |operation| match operation.target().id.as_str() {
            "poison" => Some(poison()),
            "busy" => Some(busy()),
            "odd" => Some(Reply::error(500, "surprising_exception", "who knows")),
            _ => None,
        };
        rules.spoils = |operation| operation.target().id == "spoils";
    });
    let secret = "topsecret";
    let (large, long) = (secret.repeat(500), "i".repeat(513));
    let mut all = records([
        ("Person", "good", 0, put(secret)),
        ("Person", "poison", 0, put(secret)),
        ("Person", "busy", 0, put(secret)),
        ("Person", "odd", 0, put(secret)),
        ("Person", "spoils", 0, put(secret)),
        ("Person", "large", 0, put(&large)),
        ("Person", long.as_str(), 0, put(secret)),
        ("Person", "garbled", 0, put(secret)),
        ("Person", "cut", 0, put(secret)),
        ("!!!", "nameless", 0, put(secret)),
    ]);
    all[7].data = Bytes::from_static(b"{topsecret: 'topsecret");
    let length = all[8].data.len();
    all[8].data.truncate(length - 3);
    let mut line = bench.line();
    let error = deliver(&mut line, &all).await.unwrap_err();
    line.stop(Duration::from_secs(1)).await;

    let letters = bench.letter_lines();
    assert!(letters.len() >= 6, "{}", letters.len());
    let said = log.lines();
    assert!(said.len() >= letters.len(), "each letter is told: {said:?}");
    for text in said.iter().cloned().chain(letters.iter().map(|letter| format!("{:?}", letter.error))).chain([error.to_string()]) {
        assert!(!text.contains(secret), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_letters_are_not_a_thousand_lines() {
    let (log, _guard) = Log::start();
    let bench = Bench::with(Settings { breaker: None, ..Settings::default() });
    bench.sink.rule(|rules| rules.refuses = |_| Some(poison()));
    let ids: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
    deliver(&mut bench.line(), &records(ids.iter().map(|id| ("Person", id.as_str(), 0, put("x"))))).await.unwrap();
    assert_eq!(bench.letter_lines().len(), 1_000);
    let said = log.lines();
    assert!((1..=25).contains(&said.len()), "{} lines", said.len());
    assert!(said[0].contains("mapper_parsing_exception") && said[0].contains("byte 0"), "{}", said[0]);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_told_once_in_a_while_with_its_cause() {
    let (log, _guard) = Log::start();
    let bench = Bench::with(Settings { request_operations: 1, ..Settings::default() });
    bench.sink.rule(|rules| rules.down = Some(down("connection refused")));
    let ids: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    let people = records(ids.iter().map(|id| ("Person", id.as_str(), 0, put("x"))));
    deliver(&mut bench.line(), &people).await.unwrap_err();
    assert!(bench.sink.requests().len() > 50, "{}", bench.sink.requests().len());
    let said = log.lines();
    assert!((2..=15).contains(&said.len()), "{said:?}");
    assert!(said.iter().all(|line| line.contains("connection refused") && line.contains("scripted")), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn an_index_that_is_waited_for_is_named() {
    let (log, _guard) = Log::start();
    let bench = Bench::new();
    bench.sink.block("person");
    let mut line = bench.line();
    deliver(&mut line, &records([("Person", "a", 0, put("x")), ("Place", "b", 0, put("x"))])).await.unwrap_err();
    assert_eq!((line.counts().indexed, line.counts().pending), (1, 1));
    let said = log.lines();
    assert!(!said.is_empty() && said.iter().all(|line| line.contains("index=\"person\"")), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_came_twice_is_nothing_to_speak_of() {
    let bench = Bench::new();
    let people = records([("Person", "a", 0, put("x")), ("Person", "b", 3, put("x")), ("Place", "c", 1, put("x"))]);
    deliver(&mut bench.line(), &people).await.unwrap();
    let (log, _guard) = Log::start();
    let mut line = bench.line();
    deliver(&mut line, &people).await.unwrap();
    assert_eq!((line.counts().stale, log.lines()), (3, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_letter_is_told_with_its_first_and_its_last_error_and_how_often_it_was_sent() {
    let (log, _guard) = Log::start();
    let bench = Bench::new();
    bench.sink.script([Step::Fail(down("connection refused")), Step::Answer(vec![(0, busy())]), Step::Answer(vec![(0, poison())])]);
    deliver(&mut bench.line(), &records([("Person", "a", 0, put("x"))])).await.unwrap();
    let said: Vec<String> = log.lines().into_iter().filter(|line| line.contains("dead letter")).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    for part in ["mapper_parsing_exception", "first_error=\"unavailable: connection refused\"", "attempts=3", "document_id=\"a\""] {
        assert!(said[0].contains(part), "{part}: {}", said[0]);
    }
}
