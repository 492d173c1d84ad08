//! A cluster that is to be spared: no more operations a second than is said, and nothing else is any different.
//!
//! Time is simulated: an hour of waiting takes none.

use std::time::Duration;

use revsync::error::Kind;
use revsync::plan::rate::PerSecond;
use revsync::record::Record;
use revsync::run::deliver::Settings;
use tokio::time::Instant;

use crate::line::{Bench, deliver};
use crate::qldb_stream::{put, records};
use crate::scripted_sink::{Step, busy, down};

fn people(count: usize) -> Vec<Record> {
    let ids: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    records(ids.iter().map(|id| ("Person", id.as_str(), 0, put(id))))
}

fn spared(most: u32, settings: Settings) -> Bench {
    Bench::with(Settings { max_rate: PerSecond::new(most), ..settings })
}

/// The most operations that any second had, counted from the beginning of each request.
fn most_in_a_second(bench: &Bench) -> usize {
    let requests = bench.sink.requests();
    let within = |from: Instant| requests.iter().filter(move |request| request.at >= from && request.at - from < Duration::from_secs(1));
    requests.iter().map(|request| within(request.at).map(|request| request.operations.len()).sum()).max().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn no_second_has_more_operations_than_is_said_and_the_time_is_used() {
    for takes in [Duration::ZERO, Duration::from_millis(700)] {
        let bench = spared(100, Settings::default());
        bench.sink.rule(|rules| rules.takes = takes);
        let started = Instant::now();
        let mut line = bench.line();
        deliver(&mut line, &people(1_000)).await.unwrap();
        assert_eq!((line.counts().indexed, most_in_a_second(&bench)), (1_000, 100));
        let took = started.elapsed();
        assert!((Duration::from_secs(9)..Duration::from_secs(11)).contains(&took), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_again_counts_too() {
    let bench = spared(10, Settings::default());
    bench.sink.script((0..20).map(|_| Step::Answer((0..10).map(|place| (place, busy())).collect())));
    deliver(&mut bench.line(), &people(40)).await.unwrap();
    assert!(bench.sink.requests().len() >= 24 && most_in_a_second(&bench) == 10, "{:?}", bench.sink.requests());
}

#[tokio::test(start_paused = true)]
async fn a_slow_sink_is_not_caught_up_with_in_a_burst() {
    let bench = spared(10, Settings { request_operations: 5, ..Settings::default() });
    bench.sink.script((0..4).map(|_| Step::Hang));
    let mut line = bench.line();
    let all = people(80);
    let released = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        bench.sink.release();
    };
    let (delivered, ()) = tokio::join!(deliver(&mut line, &all), released);
    delivered.unwrap();
    assert_eq!((line.counts().indexed, most_in_a_second(&bench)), (80, 10));
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_the_next_turn_is_no_time_without_progress() {
    let bench = spared(1, Settings { give_up_after: Some(Duration::from_millis(300)), ..Settings::default() });
    let mut line = bench.line();
    deliver(&mut line, &people(20)).await.unwrap();
    assert_eq!(line.counts().indexed, 20);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_down_is_given_up_all_the_same() {
    let bench = spared(1, Settings { give_up_after: Some(Duration::from_secs(30)), ..Settings::default() });
    bench.sink.rule(|rules| rules.down = Some(down("connection refused")));
    let started = Instant::now();
    let mut line = bench.line();
    let error = deliver(&mut line, &people(20)).await.unwrap_err();
    line.stop(Duration::from_secs(1)).await;
    assert!(error.kind == Kind::Pending && started.elapsed() < Duration::from_secs(300), "{error} after {:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_turns() {
    let bench = spared(1, Settings::default());
    let mut line = bench.line();
    for person in &people(20) {
        line.push(person).await.unwrap();
    }
    let started = Instant::now();
    line.stop(Duration::from_secs(60)).await;
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(line.counts().pending, 20 - line.counts().indexed);
}

#[tokio::test(start_paused = true)]
async fn below_the_limit_nothing_waits_but_for_company() {
    let bench = spared(1_000, Settings::default());
    let mut line = bench.line();
    for person in people(10).chunks(2) {
        for person in person {
            line.push(person).await.unwrap();
        }
        let started = Instant::now();
        while line.counts().pending > 0 {
            line.tend().await.unwrap();
        }
        assert_eq!(started.elapsed(), bench.settings.linger);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
