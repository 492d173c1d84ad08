//! What the log says of a pipeline that is not ready: enough to wake somebody, and no more.

use std::time::Duration;

use revsync::run::clock::millis;
use revsync::run::standing::{About, Phase, Shard, ShardPhase, Standing};
use tokio::time::{Instant, advance};

use crate::log::Log;

/// How things stand, looked at every five seconds for so long.
async fn pass(standing: &Standing, time: Duration) {
    for _ in 0..time.as_secs() / 5 {
        advance(Duration::from_secs(5)).await;
        standing.look();
    }
}

/// The lines that speak of readiness.
fn said(log: &Log) -> Vec<String> {
    log.lines().into_iter().filter(|line| line.contains("ready")).collect()
}

fn running() -> Standing {
    let standing = Standing::new(About { sink: "https://search.example.com/".to_owned(), ..About::default() });
    let mut state = standing.state();
    state.phase = Phase::Running;
    state.source.is_there();
    state.sink.is_there();
    drop(state);
    standing
}

#[tokio::test(start_paused = true)]
async fn each_five_minutes_in_which_a_pipeline_is_not_ready_have_a_line_that_says_why() {
    let (log, _guard) = Log::start();
    let standing = running();
    standing.state().sink.is_not("connection refused");
    for _ in 0..4 {
        let before = said(&log).len();
        pass(&standing, Duration::from_secs(300)).await;
        let lines = said(&log);
        assert!((1..=2).contains(&(lines.len() - before)), "{lines:?}");
        assert!(
            lines.iter().all(|line| line.contains("WARN") && line.contains("not ready: the sink https://search.example.com/")),
            "{lines:?}"
        );
        assert!(lines.iter().all(|line| line.contains("connection refused")), "{lines:?}");
    }
    standing.state().sink.is_there();
    pass(&standing, Duration::from_secs(300)).await;
    let lines = said(&log);
    assert_eq!(lines.iter().filter(|line| line.contains("INFO") && line.ends_with("ready again")).count(), 1, "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pipeline_that_is_well_starts_waits_or_stops_says_nothing_of_it() {
    let (log, _guard) = Log::start();
    let standing = running();
    for phase in [Phase::Starting, Phase::Waiting { owner: "another".to_owned() }, Phase::Running, Phase::Stopping] {
        standing.state().phase = phase;
        pass(&standing, Duration::from_secs(600)).await;
    }
    standing.state().sink.is_not("connection refused");
    pass(&standing, Duration::from_secs(600)).await;
    assert_eq!(said(&log), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn one_that_starts_while_the_sink_is_down_says_so() {
    let (log, _guard) = Log::start();
    let standing = running();
    standing.state().phase = Phase::Starting;
    standing.state().sink.is_not("connection refused");
    pass(&standing, Duration::from_secs(10)).await;
    let lines = said(&log);
    assert!(lines.len() == 1 && lines[0].contains("not ready: the sink ") && !lines[0].contains("it is starting"), "{lines:?}");
}

/// Why it is stuck, where nothing may stand still for ten minutes.
fn stuck(standing: &Standing) -> Option<String> {
    standing.state().summary(millis()).stuck(Duration::from_secs(600))
}

#[tokio::test(start_paused = true)]
async fn an_idle_shard_that_never_says_that_it_is_at_its_end_needs_no_restart_and_one_that_is_silent_does() {
    let standing = running();
    let answers = || {
        let shard = Shard { behind: Some((Duration::from_secs(1), Instant::now())), ..Shard::new(ShardPhase::Reading) };
        standing.state().shards.insert("0".to_owned(), shard);
    };
    for _ in 0..60 {
        answers();
        pass(&standing, Duration::from_secs(30)).await;
        assert_eq!(stuck(&standing), None);
    }
    pass(&standing, Duration::from_secs(13 * 60)).await;
    let why = stuck(&standing).unwrap();
    assert!(why.contains("a shard has not answered for 13 min"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_shard_of_the_daemon_that_has_no_more_records_falls_no_further_behind() {
    let standing = running();
    let behind = Some((Duration::from_secs(1), Instant::now()));
    let shard = Shard { behind, is_handed_over: true, ..Shard::new(ShardPhase::Reading) };
    standing.state().shards.insert("0".to_owned(), shard);
    pass(&standing, Duration::from_secs(3_600)).await;
    assert_eq!(stuck(&standing), None);
    assert_eq!(standing.state().shards["0"].lag(millis()), Some(Duration::from_secs(1)));
}
