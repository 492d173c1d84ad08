//! How soon operations may be sent where no more than so many a second are wanted: evenly, whatever was left unused before.
//!
//! Over any stretch of time there are no more than the rate allows for it, and those of one request. Knows no clock: times are handed in.

use std::num::NonZeroU32;
use std::time::Duration;

/// Operations a second.
pub type PerSecond = NonZeroU32;

/// When the next operations may be sent.
#[derive(Debug, Clone)]
pub struct Rate {
    most: PerSecond,
    /// When those that were sent have had their time.
    free: Duration,
}

impl Rate {
    /// Nothing was sent yet, and the first may go at once.
    pub fn new(most: PerSecond) -> Self {
        Self { most, free: Duration::ZERO }
    }

    /// How long the next operations have to wait, now. Times count from any one moment on.
    pub fn wait(&self, now: Duration) -> Duration {
        self.free.saturating_sub(now)
    }

    /// So many operations are sent now; the next have to wait until these have had their time.
    pub fn sent(&mut self, now: Duration, operations: usize) {
        let time = Duration::from_secs_f64(operations as f64 / f64::from(self.most.get()));
        self.free = self.free.max(now).saturating_add(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(most: u32) -> Rate {
        Rate::new(PerSecond::new(most).unwrap())
    }

    #[test]
    fn the_first_go_at_once_and_the_next_when_those_had_their_time() {
        let mut rate = rate(100);
        assert_eq!(rate.wait(Duration::ZERO), Duration::ZERO);
        rate.sent(Duration::ZERO, 50);
        assert_eq!(rate.wait(Duration::from_millis(200)), Duration::from_millis(300));
    }

    #[test]
    fn time_that_was_not_used_is_not_saved_up() {
        let mut rate = rate(10);
        let later = Duration::from_secs(3_600);
        rate.sent(later, 10);
        assert_eq!(rate.wait(later), Duration::from_secs(1));
    }

    #[test]
    fn a_request_that_is_larger_than_the_rate_takes_as_many_seconds() {
        let mut rate = rate(10);
        rate.sent(Duration::ZERO, 35);
        assert_eq!(rate.wait(Duration::ZERO), Duration::from_millis(3_500));
    }

    proptest! {
        #[test]
        fn over_any_stretch_no_more_are_sent_than_the_rate_allows_and_one_request(
            most in 1_u32..10_000,
            requests in prop::collection::vec((0_u64..5_000, 1_usize..10_000), 1..40),
        ) {
            let (mut rate, mut now, mut sent) = (rate(most), Duration::ZERO, Vec::new());
            for (idle, operations) in requests {
                now += Duration::from_millis(idle);
                now += rate.wait(now);
                rate.sent(now, operations);
                sent.push((now, operations));
            }
            for from in 0..sent.len() {
                for to in from..sent.len() {
                    // All but the last of them had their time since the first was sent.
                    let before: usize = sent[from..to].iter().map(|(_, operations)| operations).sum();
                    let seconds = (sent[to].0 - sent[from].0).as_secs_f64();
                    prop_assert!(before as f64 <= f64::from(most) * seconds + 0.01, "{before} in {seconds} s");
                }
            }
        }
    }
}
