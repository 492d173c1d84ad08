//! How a line sends, and what follows from it. Plain data.

use std::time::Duration;

use tokio::time::Instant;

use crate::plan::breaker::Thresholds;
use crate::plan::rate::PerSecond;

/// How operations are sent.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The most bytes of one request before compression, up to 9 MiB.
    pub request_bytes: usize,
    /// The most operations of one request, at least 1.
    pub request_operations: usize,
    /// The most requests at once, at least 1.
    pub requests_in_flight: usize,
    /// How long an operation waits for others.
    pub linger: Duration,
    /// The most operations that are sent in a second, those that are sent again among them; `None` is as many as the sink takes.
    pub max_rate: Option<PerSecond>,
    /// Time without progress after which the run gives up; `None` goes on for ever.
    pub give_up_after: Option<Duration>,
    /// Whether what a person has to put right is waited for, however long: a sink that refuses the pipeline, a place for dead letters that
    /// cannot be written. Otherwise it ends the run.
    pub waits_for_repair: bool,
    /// When an index that refuses documents is stopped before more of them become dead letters; `None` never stops one.
    pub breaker: Option<Thresholds>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            request_bytes: 5 * 1024 * 1024,
            request_operations: 2_000,
            requests_in_flight: 4,
            linger: Duration::from_millis(200),
            max_rate: None,
            give_up_after: Some(Duration::from_secs(300)),
            waits_for_repair: false,
            breaker: Some(Thresholds::default()),
        }
    }
}

impl Settings {
    /// With at least one operation in a request, and one request at once; and with no more in a request than may be sent in a second.
    pub(super) fn usable(self) -> Self {
        let a_second = self.max_rate.map_or(usize::MAX, |most| usize::try_from(most.get()).unwrap_or(usize::MAX));
        Self { request_operations: self.request_operations.clamp(1, a_second), requests_in_flight: self.requests_in_flight.max(1), ..self }
    }

    /// Bytes of records and operations that may wait to be settled; the bodies under way take as much again as one third of the whole.
    pub fn budget(&self) -> usize {
        self.request_bytes.saturating_mul(self.requests_in_flight).saturating_mul(2)
    }

    /// When something that waits since then has waited long enough.
    pub(super) fn lingered(&self, since: Instant) -> Instant {
        const LONGEST: Duration = Duration::from_secs(60 * 60);
        since + self.linger.min(LONGEST)
    }
}
