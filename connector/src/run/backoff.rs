//! Waits between tries, with full jitter: the one place that knows the `backoff` crate. Base and cap are decided in [`plan::retry`](crate::plan::retry).

use std::time::Duration;

use backoff::ExponentialBackoff;
use backoff::backoff::Backoff;

use crate::plan::retry::Policy;

/// The waits of one request.
#[derive(Debug, Clone)]
pub(super) struct Waits(ExponentialBackoff);

impl Waits {
    pub(super) fn new(policy: Policy) -> Self {
        // The crate draws from interval ± factor × interval: half the ceiling with factor 1 is full jitter from 0 to the ceiling.
        let mut waits = ExponentialBackoff {
            initial_interval: policy.base / 2,
            max_interval: policy.cap / 2,
            randomization_factor: 1.0,
            multiplier: 2.0,
            max_elapsed_time: None,
            ..ExponentialBackoff::default()
        };
        waits.reset();
        Self(waits)
    }

    pub(super) fn next(&mut self) -> Duration {
        self.0.next_backoff().unwrap_or(self.0.max_interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wait_is_below_its_ceiling_and_the_ceiling_doubles_up_to_the_cap() {
        let policy = Policy { base: Duration::from_millis(100), cap: Duration::from_millis(1_000), tries: None };
        let mut longest = [Duration::ZERO; 8];
        for _ in 0..400 {
            let mut waits = Waits::new(policy);
            for longest in &mut longest {
                *longest = waits.next().max(*longest);
            }
        }
        for (i, longest) in longest.into_iter().enumerate() {
            let ceiling = policy.cap.min(policy.base * 2u32.pow(i as u32));
            assert!(longest <= ceiling + Duration::from_millis(1), "{longest:?} above {ceiling:?}");
            assert!(longest > ceiling / 2, "{longest:?}: 400 draws never came into the upper half of {ceiling:?}");
        }
    }
}
