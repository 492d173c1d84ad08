//! A line that lives on: what a person has to put right is waited for, nothing is settled by that, and whoever watches sees why nothing moves.

use std::sync::Arc;
use std::time::Duration;

use revsync::plan::outcome::{Class, Failure};
use revsync::record::Record;
use revsync::run::deliver::{Deliver, Settings};
use revsync::run::standing::{About, Shard, ShardPhase, Standing};
use tokio::time::{Instant, timeout};

use crate::line::{Bench, deliver};
use crate::log::Log;
use crate::qldb_stream::{aggregate, put, record, records, shard};
use crate::scripted_sink::{Step, poison};

fn people(count: usize) -> Vec<Record> {
    let names: Vec<String> = (0..count).map(|i| i.to_string()).collect();
    records(names.iter().map(|name| ("Person", name.as_str(), 0, put("x"))))
}

fn lasting() -> Bench {
    Bench::with(Settings { give_up_after: None, waits_for_repair: true, ..Settings::default() })
}

/// A line that somebody watches, and what is watched.
fn watched(bench: &Bench) -> (Deliver, Arc<Standing>) {
    let standing = Arc::new(Standing::new(About::default()));
    standing.state().shards.insert("0".to_owned(), Shard::new(ShardPhase::Reading));
    (bench.line().watched_by(&standing), standing)
}

/// Lets an hour pass in which the line does what it can.
async fn an_hour(line: &mut Deliver) {
    timeout(Duration::from_secs(3_600), line.finish()).await.expect_err("something waits");
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_refuses_the_pipeline_is_asked_again_slowly_until_it_takes_it() {
    for failure in [Failure::Unauthorized { what: "401 it says".into() }, Failure::Misconfigured { what: "401 it says".into() }] {
        let bench = lasting();
        bench.sink.rule(|rules| rules.down = Some(failure));
        let (mut line, standing) = watched(&bench);
        for person in &people(6) {
            line.push(person).await.unwrap();
        }
        an_hour(&mut line).await;
        assert_eq!((line.counts().pending, bench.letter_lines().len()), (6, 0));
        let asked = bench.sink.requests().len();
        assert!((60..=1_500).contains(&asked), "asked {asked} times in an hour");
        {
            let state = standing.state();
            assert!(!state.sink.is_reachable());
            assert_eq!(state.sink.trouble.as_ref().map(|(_, why)| why.as_str()), Some("401 it says"));
            assert_eq!((state.counts.pending, state.shards["0"].unsettled, &state.shards["0"].settled), (6, 6, &None));
        }
        bench.sink.rule(|rules| rules.down = None);
        line.finish().await.unwrap();
        assert_eq!(line.counts().indexed, 6);
        let state = standing.state();
        assert!(state.sink.is_reachable());
        assert_eq!(state.shards["0"].unsettled, 0);
        assert_eq!(state.shards["0"].settled.as_ref().map(|settled| &settled.position), Some(&people(6)[5].position));
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_throttles_or_has_a_blocked_index_is_reachable_and_one_that_is_down_is_not() {
    for (class, reachable) in [(Class::Throttled, true), (Class::Blocked, true), (Class::Unavailable, false)] {
        let bench = lasting();
        bench.sink.rule(|rules| rules.down = Some(Failure::Retry { class, what: "busy".into(), after: None }));
        let (mut line, standing) = watched(&bench);
        line.push(&people(1)[0]).await.unwrap();
        an_hour(&mut line).await;
        let state = standing.state();
        assert_eq!((state.sink.is_reachable(), state.blocked.len()), (reachable, usize::from(class == Class::Blocked)), "{class:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_for_dead_letters_that_is_down_is_waited_for_and_nothing_is_settled_by_that() {
    let bench = lasting();
    bench.sink.script([Step::Answer(vec![(1, poison())])]);
    std::fs::remove_dir_all(bench.letters_folder()).unwrap();
    let (mut line, standing) = watched(&bench);
    for person in &people(3) {
        line.push(person).await.unwrap();
    }
    an_hour(&mut line).await;
    assert_eq!((line.counts().dead_letters, line.ledger().checkpoint(&shard("0"))), (0, Some(&people(3)[0].position)));
    assert!(standing.state().dead_letters.trouble.is_some());
    std::fs::create_dir(bench.letters_folder()).unwrap();
    line.finish().await.unwrap();
    assert_eq!((line.counts().dead_letters, line.counts().indexed, bench.letter_lines().len()), (1, 2, 1));
    let state = standing.state();
    assert!(state.dead_letters.is_reachable() && state.last_dead_letter.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_place_for_dead_letters_that_is_down_is_not_said_again_with_every_try() {
    let (log, _guard) = Log::start();
    let bench = lasting();
    bench.sink.script([Step::Answer(vec![(0, poison())])]);
    std::fs::remove_dir_all(bench.letters_folder()).unwrap();
    let mut line = bench.line();
    line.push(&people(1)[0]).await.unwrap();
    timeout(Duration::from_secs(25), line.finish()).await.expect_err("the place is waited for");
    let said = log.lines().iter().filter(|line| line.contains("cannot be written")).count();
    assert_eq!(said, 1, "{:#?}", log.lines());
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_heard_while_dead_letters_cannot_be_stored() {
    let bench = lasting();
    bench.sink.script([Step::Answer(vec![(0, poison())])]);
    std::fs::remove_dir_all(bench.letters_folder()).unwrap();
    let mut line = bench.line();
    line.push(&people(1)[0]).await.unwrap();
    an_hour(&mut line).await;
    let began = Instant::now();
    line.stop(Duration::from_secs(2)).await;
    assert!(began.elapsed() <= Duration::from_secs(3));
    assert_eq!(line.counts().pending, 1);
}

#[tokio::test(start_paused = true)]
async fn parts_of_an_aggregate_that_are_settled_already_are_passed_over() {
    let parts: Vec<_> = people(10).into_iter().map(|person| person.data).collect();
    let aggregate = record(&shard("0"), 7, aggregate(&parts));
    for (settled, sent) in [(None, 10), (Some(0), 9), (Some(4), 5), (Some(9), 0), (Some(99), 0)] {
        let bench = lasting();
        let mut line = bench.line();
        line.push_after(&aggregate, settled).await.unwrap();
        line.finish().await.unwrap();
        assert_eq!((line.counts().indexed, line.ledger().is_settled()), (sent, true), "{settled:?}");
        assert_eq!(line.ledger().checkpoint(&shard("0")), Some(&aggregate.position));
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_no_aggregate_is_delivered_whatever_part_of_it_is_said_to_be_settled() {
    let bench = lasting();
    let mut line = bench.line();
    line.push_after(&people(1)[0], Some(7)).await.unwrap();
    line.finish().await.unwrap();
    assert_eq!(line.counts().indexed, 1);
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_is_not_read_any_more_holds_nothing_up() {
    let bench = lasting();
    bench.sink.rule(|rules| rules.down = Some(Failure::Unauthorized { what: "no".into() }));
    let (mut line, standing) = watched(&bench);
    line.push(&people(1)[0]).await.unwrap();
    an_hour(&mut line).await;
    line.forget(&shard("0"));
    assert_eq!((standing.state().shards["0"].unsettled, line.ledger().held()), (0, 0));
    bench.sink.rule(|rules| rules.down = None);
    deliver(&mut line, &people(2)).await.unwrap();
    assert_eq!(line.ledger().checkpoint(&shard("0")), Some(&people(2)[1].position));
}
