//! What a server was found to take, learned from its answers and kept for the life of the process: how large a request may be, and how many
//! may be with it at once.

use std::collections::VecDeque;
use std::time::Duration;

/// The most bytes of uncompressed body that any request may have; below the 10 MiB of small managed domains with room for what grows.
pub const HARD_LIMIT: usize = 9 * 1024 * 1024;

/// The smallest limit that is learned: below this a refusal is about one document, not about the batch.
const FLOOR: usize = 64 * 1024;

/// The new limit after a body of `size` bytes was refused as too large, where the server may have `stated` its own.
///
/// A stated limit counts bytes on the wire; the limit here counts uncompressed bytes, so a stated one is only a hint to stay well below.
pub fn after_refusal(limit: usize, size: usize, stated: Option<usize>) -> usize {
    let half = size / 2;
    let hint = stated.map_or(half, |stated| half.max(stated / 10 * 9).min(size - size / 10));
    limit.min(hint.max(FLOOR))
}

/// How many requests may be with the sink at once: half as many when it asks for less or becomes slow, one more for each round of requests
/// that it keeps up with (additive increase, multiplicative decrease).
#[derive(Debug)]
pub struct Window {
    most: usize,
    size: f64,
    round: u64,
    /// How long requests took of late, by size.
    recent: VecDeque<Duration>,
}

/// Requests of which the fastest says how fast the sink can be.
const RECENT: usize = 32;
/// A request that takes less is never slow.
const NEVER_SLOW: Duration = Duration::from_secs(2);
/// So many times as long as the fastest is slow.
const SLOW: u32 = 4;
/// Bytes that take as long as a request without any, roughly.
const WORTH_A_REQUEST: f64 = 1024.0 * 1024.0;

impl Window {
    /// As many as there may ever be.
    pub fn new(most: usize) -> Self {
        Self { most: most.max(1), size: most.max(1) as f64, round: 0, recent: VecDeque::new() }
    }

    /// How many requests may be with the sink.
    pub fn at_once(&self) -> usize {
        self.size as usize
    }

    /// Which requests belong together: those that start between two decreases. A burst of refusals is one decrease.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// The sink answered a request of that round.
    pub fn answered(&mut self, round: u64, took: Duration, bytes: usize, asks_for_less: bool) {
        let by_size = took.div_f64(1.0 + bytes as f64 / WORTH_A_REQUEST);
        let fastest = self.recent.iter().min().copied();
        let slow = took >= NEVER_SLOW && fastest.is_some_and(|fastest| by_size > fastest * SLOW);
        self.recent.push_back(by_size);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        if !asks_for_less && !slow {
            self.size = (self.size + 1.0 / self.size).min(self.most as f64);
        } else if round == self.round {
            self.size = (self.size / 2.0).max(1.0);
            self.round += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_body_lowers_the_limit_and_never_raises_it() {
        assert_eq!(after_refusal(5_000_000, 4_000_000, None), 2_000_000);
        assert_eq!(after_refusal(1_000_000, 4_000_000, None), 1_000_000);
        assert_eq!(after_refusal(5_000_000, 4_000_000, Some(3_000_000)), 2_700_000);
        assert_eq!(after_refusal(5_000_000, 4_000_000, Some(10_485_760)), 3_600_000);
    }

    #[test]
    fn one_refused_document_does_not_make_every_request_tiny() {
        assert_eq!(after_refusal(5_000_000, 100, None), FLOOR);
    }

    const QUICK: Duration = Duration::from_millis(50);

    #[test]
    fn a_server_that_asks_for_less_gets_half_and_never_nothing() {
        let mut window = Window::new(8);
        let sizes: Vec<usize> = (0..5)
            .map(|_| {
                window.answered(window.round(), QUICK, 1_000, true);
                window.at_once()
            })
            .collect();
        assert_eq!(sizes, [4, 2, 1, 1, 1]);
    }

    #[test]
    fn a_burst_of_refusals_is_one_decrease() {
        let mut window = Window::new(8);
        let round = window.round();
        (0..8).for_each(|_| window.answered(round, QUICK, 1_000, true));
        assert_eq!(window.at_once(), 4);
    }

    #[test]
    fn a_server_that_keeps_up_gets_one_more_a_round_until_it_has_all_again() {
        let mut window = Window::new(4);
        (0..2).for_each(|_| window.answered(window.round(), QUICK, 1_000, true));
        let mut sizes = Vec::new();
        while window.at_once() < 4 {
            let now = window.at_once();
            (0..now).for_each(|_| window.answered(window.round(), QUICK, 1_000, false));
            sizes.push(window.at_once());
            assert!(sizes.len() < 20, "{sizes:?}");
        }
        assert_eq!(sizes[0], 2);
        assert!(sizes.windows(2).all(|pair| pair[1] - pair[0] <= 1), "{sizes:?}");
        (0..100).for_each(|_| window.answered(window.round(), QUICK, 1_000, false));
        assert_eq!(window.at_once(), 4);
    }

    #[test]
    fn a_server_that_becomes_slow_gets_half_and_one_that_always_was_does_not() {
        let mut window = Window::new(4);
        (0..10).for_each(|_| window.answered(window.round(), QUICK, 1_000, false));
        window.answered(window.round(), Duration::from_secs(3), 1_000, false);
        assert_eq!(window.at_once(), 2);
        let mut window = Window::new(4);
        (0..100).for_each(|_| window.answered(window.round(), Duration::from_secs(3), 1_000, false));
        assert_eq!(window.at_once(), 4);
    }

    #[test]
    fn a_large_request_may_take_longer_than_a_small_one() {
        let mut window = Window::new(4);
        (0..10).for_each(|_| window.answered(window.round(), Duration::from_millis(600), 1_000, false));
        window.answered(window.round(), Duration::from_secs(4), 5 << 20, false);
        assert_eq!(window.at_once(), 4);
    }
}
