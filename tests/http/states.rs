//! Pipelines as they may stand, and a server that tells of one.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use revsync::metrics::{Counts, Loss, Skip};
use revsync::plan::health::Phase;
use revsync::plan::ledger::Settled;
use revsync::record::{Position, SequenceNumber};
use revsync::run::history::{LOOK_BACK, STEP};
use revsync::run::http::{Server, recorder, serve};
use revsync::run::standing::{About, Blocked, Shard, ShardPhase, Standing};
use time::OffsetDateTime;
use tokio::time::{Instant, advance, pause, resume};

pub const STUCK_AFTER: Duration = Duration::from_secs(600);

/// More than any time ago that a state has.
const HOUR: Duration = Duration::from_secs(3600);

thread_local! {
    /// Whether the clock of this test was moved.
    static LATER: Cell<bool> = const { Cell::new(false) };
}

/// A server of this process that tells how a pipeline stands, on a port that was free.
pub async fn server(standing: &Arc<Standing>) -> Server {
    let metrics = recorder("ledger", HOUR).unwrap().handle();
    serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), Arc::clone(standing), metrics, STUCK_AFTER).await.unwrap()
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn ago(time: Duration) -> Instant {
    Instant::now() - time
}

pub fn millis() -> u64 {
    u64::try_from(OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000).unwrap()
}

/// A shard that is read, with a lag in seconds for each minute of the last half hour, the present one last.
pub fn shard(standing: &Standing, name: &str, lags: impl Fn(u64) -> f32) {
    let mut state = standing.state();
    let number = format!("49653{:051}", state.shards.len() * 7_919 + 100_003);
    let settled = Settled { position: Position::Sequence { number: SequenceNumber(number), sub: None }, arrived: None };
    // What is caught up is so for as long as the test takes.
    let lag = Some(Duration::from_secs_f32(lags(30))).filter(|lag| *lag >= seconds(10)).unwrap_or_default();
    let shard = Shard {
        settled: Some(settled),
        behind: Some((lag, Instant::now())),
        records: 12_000,
        unsettled: if lag > seconds(10) { 812 } else { 3 },
        saved: Some(ago(seconds(4))),
        ..Shard::new(ShardPhase::Reading)
    };
    state.shards.insert(name.to_owned(), shard);
    let (past, rate) = state.past.shards.entry(name.to_owned()).or_default();
    let steps = LOOK_BACK.as_secs() / STEP.as_secs();
    for step in 0..steps {
        let at = STEP * u32::try_from(step).unwrap();
        past.add(2 * HOUR - LOOK_BACK + at, Some(Duration::from_secs_f32(lags(at.as_secs() / 60))));
    }
    rate.add(2 * HOUR - seconds(10), 10_800);
}

/// A pipeline that runs since two hours, and reaches everything; it has no shard yet.
pub async fn running() -> Arc<Standing> {
    // A machine that was started a minute ago has no moment an hour ago.
    if !LATER.replace(true) {
        pause();
        advance(3 * HOUR).await;
        resume();
    }
    let standing = Standing::new(About {
        pipeline: "ledger".to_owned(),
        source: "kinesis://ledger?region=eu-west-1".to_owned(),
        sink: "https://search.example.com".to_owned(),
        dead_letters: "sqs://sqs.eu-west-1.amazonaws.com/123456789012/ledger-dead-letters".to_owned(),
        checkpoints: "the index revsync-checkpoints of the sink".to_owned(),
        owner: "worker-a (process 7)".to_owned(),
    });
    let mut state = standing.state();
    state.phase = Phase::Running;
    state.started = ago(2 * HOUR);
    let skipped = [(Skip::Control, 1), (Skip::BlockSummary, 401_200)].into();
    let (indexed, deleted, stale, absent, compacted) = (1_204_310, 3_021, 812, 40, 1_907);
    let received = indexed + deleted + stale + absent + compacted + 401_201 + 12;
    state.counts =
        Counts { received, indexed, deleted, stale, absent, compacted, skipped, pending: 12, bytes: 1 << 30, ..Counts::default() };
    state.stale.add(31, 10_000);
    state.bytes_in_flight = 3 << 19;
    for (tick, at) in (0..13).map(|tick| (tick, 2 * HOUR - seconds(60) + seconds(5 * tick))) {
        state.past.received.add(at, received - 4_100 * (12 - tick));
        state.past.settled.add(at, received - 12 - 4_090 * (12 - tick));
    }
    state.source.is_there();
    state.sink.is_there();
    state.checkpoints.is_there();
    state.dead_letters.is_there();
    drop(state);
    Arc::new(standing)
}

fn name(number: usize) -> String {
    format!("shardId-{number:012}")
}

/// All is well.
pub async fn healthy() -> Arc<Standing> {
    let standing = running().await;
    (0..4).for_each(|number| shard(&standing, &name(number), |minute| if minute == 12 { 3.0 } else { 0.3 }));
    standing
}

/// It works, and has not caught up.
pub async fn behind() -> Arc<Standing> {
    let standing = running().await;
    shard(&standing, &name(0), |_| 0.3);
    shard(&standing, &name(1), |minute| if minute < 8 { 1.0 } else { (minute - 8) as f32 * 40.0 + 20.0 });
    shard(&standing, &name(2), |minute| 2_060.0 - 30.0 * minute as f32);
    shard(&standing, &name(3), |minute| if minute == 12 { 40.0 } else { 0.3 });
    let mut state = standing.state();
    state.shards.insert(name(4), Shard::new(ShardPhase::Waiting));
    state.shards.insert(name(5), Shard::new(ShardPhase::Ended));
    state.counts.pending = 1_624;
    drop(state);
    standing
}

/// The sink is away.
pub async fn sink_down() -> Arc<Standing> {
    let standing = running().await;
    shard(&standing, &name(0), |minute| if minute < 18 { 0.4 } else { (minute - 18) as f32 * 60.0 + 20.0 });
    shard(&standing, &name(1), |minute| if minute < 19 { 0.4 } else { (minute - 19) as f32 * 60.0 + 20.0 });
    shard(&standing, &name(2), |_| 0.2);
    let mut state = standing.state();
    state.sink.is_not("connection refused");
    state.sink.trouble = state.sink.trouble.take().map(|(_, why)| (ago(seconds(740)), why));
    state.last_error = Some((millis() - 21_000, "https://search.example.com: connection refused".to_owned()));
    state.counts.pending = 4_812;
    drop(state);
    standing
}

/// An index cannot be written, and nothing is read because of it; there are dead letters, and something was lost.
pub async fn blocked() -> Arc<Standing> {
    let standing = running().await;
    shard(&standing, &name(0), |minute| if minute < 18 { 0.4 } else { (minute - 18) as f32 * 60.0 + 20.0 });
    shard(&standing, &name(1), |minute| if minute < 18 { 0.4 } else { (minute - 18) as f32 * 58.0 });
    let why = "cluster_block_exception: index [vehicle_registration] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage \
               watermark, index has read-only-allow-delete block];";
    standing.lost(Loss::Trimmed);
    let mut state = standing.state();
    state.blocked = vec![Blocked { index: "vehicle_registration".to_owned(), since: ago(seconds(740)), why: why.to_owned() }];
    state.paused = true;
    state.counts.dead_letters = 37;
    state.counts.received += 37;
    state.last_dead_letter =
        Some((millis() - 3_780_000, "mapper_parsing_exception: failed to parse field [ValidFromDate] of type [date]".to_owned()));
    state.last_error = Some((millis() - 740_000, "the index vehicle_registration is blocked".to_owned()));
    drop(state);
    standing
}

/// Another one does the work.
pub async fn waiting() -> Arc<Standing> {
    let standing = running().await;
    let mut state = standing.state();
    state.phase = Phase::Waiting { owner: "worker-b (process 9)".to_owned() };
    state.counts = Counts::default();
    (state.past.received, state.past.settled, state.stale) = Default::default();
    for number in 0..4 {
        state.shards.insert(name(number), Shard::new(ShardPhase::Held { owner: "worker-b (process 9)".to_owned() }));
    }
    drop(state);
    standing
}

/// A thousand shards, of which ten are behind, one that cannot be read among them.
pub async fn thousand() -> Arc<Standing> {
    let standing = running().await;
    for number in 0..1_000 {
        let behind = if number % 100 == 42 { 620.0 + number as f32 } else { 0.3 };
        shard(&standing, &name(number), |minute| if minute < 10 { 0.3 } else { behind * minute as f32 / 30.0 });
    }
    if let Some(shard) = standing.state().shards.get_mut(&name(142)) {
        shard.trouble = Some("ProvisionedThroughputExceededException: Rate exceeded for shard; trying again".to_owned());
    }
    standing
}
