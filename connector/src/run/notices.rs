//! What is said over and over is said once in a while: a server that is down for an hour, a hundred thousand dead letters.
//!
//! Decides only whether to speak, never what.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long the same thing is not said again.
const PAUSE: Duration = Duration::from_secs(30);
/// Different things that are remembered; more than that are as good as new.
const REMEMBERED: usize = 64;

/// What was said, and when.
#[derive(Debug, Default)]
pub(super) struct Notices(Mutex<HashMap<String, Instant>>);

impl Notices {
    /// Whether this may be said now; it then counts as said.
    pub(super) fn is_due(&self, what: &str) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if said.get(what).is_some_and(|when| now.duration_since(*when) < PAUSE) {
            return false;
        }
        if said.len() >= REMEMBERED {
            said.clear();
        }
        said.insert(what.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_same_thing_is_said_once_in_half_a_minute_and_another_at_once() {
        let notices = Notices::default();
        assert!(notices.is_due("connection refused"));
        assert!(!notices.is_due("connection refused"));
        assert!(notices.is_due("status 503"));
        tokio::time::advance(PAUSE).await;
        assert!(notices.is_due("connection refused"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_said_does_not_pile_up() {
        let notices = Notices::default();
        (0..1_000).for_each(|i| assert!(notices.is_due(&i.to_string())));
        assert!(notices.0.lock().unwrap().len() <= REMEMBERED);
    }
}
