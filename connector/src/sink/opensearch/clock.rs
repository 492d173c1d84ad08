//! The clock that signatures are dated by: this machine's, corrected by the server's `Date` where the server refused a request for its time.
//!
//! Believes a server only then: an answer that was taken says nothing about whose clock is right. Waits for nothing, and dates nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use aws_types::sdk_config::TimeSource;

/// Clocks that are closer than this are as good as equal: servers allow five minutes, and an answer takes its time.
const CLOSE: u64 = 60;

/// This machine's clock and what has to be added to it. Clones share the correction.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock(Arc<AtomicI64>);

impl Clock {
    /// What is added at present, in seconds. Kept beside a request, it tells later whether the request was dated by a clock that has been
    /// corrected since.
    pub(super) fn correction(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes over the time of a server that refused a request for its time; `used` is the correction that the request was dated with. Whether
    /// another try is dated otherwise, so that it makes sense. `place` names the server, for the log.
    pub(super) fn correct(&self, place: &str, used: i64, date: SystemTime) -> bool {
        let before = self.correction();
        if before != used {
            return true;
        }
        let ahead = seconds(date, machine());
        if ahead.abs_diff(before) <= CLOSE {
            return false;
        }
        // Of requests that were refused at once, the first corrects for all.
        if self.0.compare_exchange(before, ahead, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            tell(place, ahead);
        }
        true
    }
}

impl TimeSource for Clock {
    fn now(&self) -> SystemTime {
        let (now, by) = (machine(), self.correction());
        let shift = Duration::from_secs(by.unsigned_abs());
        if by < 0 { now.checked_sub(shift) } else { now.checked_add(shift) }.unwrap_or(now)
    }
}

/// Tells how far this machine's clock is from that of a server that is ahead by so many seconds.
fn tell(place: &str, ahead: i64) {
    let (seconds, side) = (ahead.unsigned_abs(), if ahead < 0 { "ahead of" } else { "behind" });
    if seconds <= CLOSE {
        tracing::info!(seconds, "the clock of this machine is as good as that of {place} again; requests are dated by it");
        return;
    }
    tracing::warn!(
        seconds,
        "the clock of this machine is {} {side} that of {place}, which refuses such signatures; requests are dated by the server's clock \
         from now on, but set this one right",
        span(seconds)
    );
}

#[expect(clippy::disallowed_methods, reason = "a signature holds the time at which it is made")]
fn machine() -> SystemTime {
    SystemTime::now()
}

/// By how many seconds the one time is later than the other.
fn seconds(later: SystemTime, earlier: SystemTime) -> i64 {
    let whole = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    later.duration_since(earlier).map_or_else(|before| -whole(before.duration()), whole)
}

/// A time as a person says it.
fn span(seconds: u64) -> String {
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, 0) => format!("{minutes} min"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time of a server whose clock is ahead by so many seconds.
    fn server(ahead: i64) -> SystemTime {
        let shift = Duration::from_secs(ahead.unsigned_abs());
        if ahead < 0 { machine() - shift } else { machine() + shift }
    }

    fn is_near(clock: &Clock, ahead: i64) -> bool {
        seconds(clock.now(), server(ahead)).abs() <= 2
    }

    #[test]
    fn the_servers_time_is_taken_over_in_both_directions_and_followed() {
        let clock = Clock::default();
        for ahead in [1_200, -1_200, 40_000_000, 0] {
            assert!(clock.correct("h:1", clock.correction(), server(ahead)), "{ahead}");
            assert!(is_near(&clock, ahead), "{ahead}: {}", clock.correction());
            assert!(!clock.correct("h:1", clock.correction(), server(ahead)), "the same time again is no reason to try again");
        }
    }

    #[test]
    fn a_server_that_is_about_as_late_as_we_are_corrects_nothing() {
        let clock = Clock::default();
        for ahead in [0, 45, -45] {
            assert!(!clock.correct("h:1", 0, server(ahead)), "{ahead}");
        }
        assert_eq!(clock.correction(), 0);
    }

    #[test]
    fn a_request_from_before_the_correction_is_worth_another_try() {
        let clock = Clock::default();
        assert!(clock.correct("h:1", 0, server(1_200)));
        assert!(clock.correct("h:1", 0, server(1_200)));
    }

    #[test]
    fn a_difference_is_said_in_minutes_and_seconds() {
        assert_eq!([59, 60, 1_203].map(span), ["59 s", "1 min", "20 min 3 s"]);
    }
}
