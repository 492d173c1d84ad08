//! What the log says of a pipeline that is not ready: when it begins, again every few minutes while it lasts, and when it has ended. So whoever
//! watches nothing but the log can be woken by it.
//!
//! Decides nothing about health, and is told the time.

use std::time::Duration;

use tokio::time::Instant;

use crate::plan::health::{Phase, Summary};

/// How often it is said again: whoever looks at five minutes at a time sees it in each of them.
const AGAIN: Duration = Duration::from_secs(4 * 60);

/// What was said last.
#[derive(Debug, Clone, Copy, Default)]
pub struct Readiness(Option<Instant>);

impl Readiness {
    /// What is to be said now, if anything is. To start, to wait for another process and to stop is no trouble.
    pub fn look(&mut self, summary: &Summary, now: Instant) -> Option<Change> {
        let reasons = summary.not_ready();
        let reasons = match summary.phase {
            Phase::Running => reasons.as_slice(),
            Phase::Starting | Phase::Waiting { .. } => reasons.get(1..).unwrap_or_default(),
            Phase::Stopping => return None,
        };
        if reasons.is_empty() {
            return self.0.take().map(|_| Change::Ready);
        }
        if self.0.is_some_and(|said| now.duration_since(said) < AGAIN) {
            return None;
        }
        self.0 = Some(now);
        Some(Change::NotReady(reasons.join("; ")))
    }
}

/// What is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is not ready, and why.
    NotReady(String),
    /// It is ready again.
    Ready,
}

impl Change {
    /// Says it.
    pub fn log(&self) {
        match self {
            Self::NotReady(why) => tracing::warn!("not ready: {why}"),
            Self::Ready => tracing::info!("ready again"),
        }
    }
}
