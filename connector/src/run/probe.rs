//! Whether a sink to which nothing is sent is there.
//!
//! Asks, and tells how things stand; tries nothing again by itself.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::standing::Standing;
use super::stopped;
use crate::sink::Sink;

/// How often a sink that nothing is sent to is asked whether it is there.
const PROBE: Duration = Duration::from_secs(10);

/// Asks a sink to which nothing is sent whether it is there, until the end.
pub(super) async fn probe(sink: Arc<dyn Sink>, standing: Arc<Standing>, mut end: watch::Receiver<bool>) {
    let mut ticks = interval(PROBE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stopped(&mut end) => return,
            _ = ticks.tick() => {}
        }
        let heard = |reached: Option<Instant>| reached.is_some_and(|reached| reached.elapsed() < PROBE);
        if heard(standing.state().sink.reached) {
            continue;
        }
        let reached = sink.reach().await;
        let mut state = standing.state();
        match reached {
            Ok(()) => state.sink.is_there(),
            Err(error) => state.sink.is_not(error.what),
        }
    }
}
