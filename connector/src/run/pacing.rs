//! The turns in which requests go to a sink that is to be spared: one after another, each when its time has come.
//!
//! When that is, is [`Rate`]'s decision; here is the waiting for it. Sends nothing.

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep};

use crate::plan::rate::{PerSecond, Rate};

/// Lets requests go as often as is allowed.
#[derive(Debug)]
pub(super) struct Pacing {
    began: Instant,
    rate: Mutex<Rate>,
}

/// The next request may be sent. Whoever holds it is the only one; where it is dropped, nothing was sent.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    began: Instant,
    rate: MutexGuard<'a, Rate>,
}

impl Pacing {
    pub(super) fn new(most: PerSecond) -> Self {
        Self { began: Instant::now(), rate: Mutex::new(Rate::new(most)) }
    }

    /// Waits for the next turn; those that wait have it in their order. May be dropped at any time.
    pub(super) async fn turn(&self) -> Turn<'_> {
        let rate = self.rate.lock().await;
        sleep(rate.wait(self.began.elapsed())).await;
        Turn { began: self.began, rate }
    }
}

impl Turn<'_> {
    /// So many operations are sent now.
    pub(super) fn sent(mut self, operations: usize) {
        self.rate.sent(self.began.elapsed(), operations);
    }
}
