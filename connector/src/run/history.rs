//! What was, for as long as a person looks back: the lag of a shard over half an hour, a rate over the last minute, a share of the last answers.
//!
//! Plain data of a bounded size, told the time and never reading it.

use std::collections::VecDeque;
use std::time::Duration;

/// How far back the lag is kept.
pub const LOOK_BACK: Duration = Duration::from_secs(30 * 60);
/// The time that one point of it stands for.
pub const STEP: Duration = Duration::from_secs(15);
/// Points of [`LOOK_BACK`].
pub const POINTS: usize = (LOOK_BACK.as_secs() / STEP.as_secs()) as usize;
/// The time over which a rate is taken.
const RATE_OVER: Duration = Duration::from_secs(60);
/// Answers that a share is taken of, at least where there were so many.
const ANSWERS: u64 = 10_000;
/// Answers that are forgotten together.
const TOGETHER: u64 = 500;

/// The lag of a shard over the last [`LOOK_BACK`], a point for each [`STEP`]: the highest of that time.
#[derive(Debug, Clone, Default)]
pub struct Lags {
    /// In seconds; NaN where it was not known.
    points: VecDeque<f32>,
    /// Which step the last point stands for.
    last: u64,
}

impl Lags {
    /// The lag at a time since any fixed moment. Times come in their order.
    pub fn add(&mut self, at: Duration, lag: Option<Duration>) {
        let (step, lag) = (at.as_secs() / STEP.as_secs(), lag.map_or(f32::NAN, |lag| lag.as_secs_f32()));
        match self.points.back_mut() {
            // Of a number and NaN this is the number.
            Some(point) if step <= self.last => *point = point.max(lag),
            None => self.points.push_back(lag),
            Some(_) => {
                let unknown = (step - self.last - 1).min(POINTS as u64) as usize;
                self.points.extend(std::iter::repeat_n(f32::NAN, unknown));
                self.points.push_back(lag);
            }
        }
        self.last = self.last.max(step);
        let surplus = self.points.len().saturating_sub(POINTS);
        self.points.drain(..surplus);
    }

    /// The points in their order, the last one now; in seconds, `None` where it was not known.
    pub fn points(&self) -> impl ExactSizeIterator<Item = Option<f32>> {
        self.points.iter().map(|point| Some(*point).filter(|point| !point.is_nan()))
    }
}

/// How fast a count grows.
#[derive(Debug, Clone, Default)]
pub struct Rate(VecDeque<(Duration, u64)>);

impl Rate {
    /// The count at a time since any fixed moment. Times come in their order.
    pub fn add(&mut self, at: Duration, count: u64) {
        self.0.push_back((at, count));
        while self.0.len() > 2 && self.0.get(1).is_some_and(|(second, _)| at.saturating_sub(*second) >= RATE_OVER) {
            self.0.pop_front();
        }
    }

    /// By how much it grew in a second, over the last minute.
    pub fn per_second(&self) -> f64 {
        match (self.0.front(), self.0.back()) {
            (Some((from, before)), Some((to, now))) if to > from => now.saturating_sub(*before) as f64 / (*to - *from).as_secs_f64(),
            _ => 0.0,
        }
    }
}

/// How many of the last answers were of one kind.
#[derive(Debug, Clone, Default)]
pub struct Share {
    /// Of some answers in a row: those of the kind, and all.
    parts: VecDeque<(u64, u64)>,
    sum: (u64, u64),
}

impl Share {
    /// So many more answers were of the kind, of so many more in all.
    pub fn add(&mut self, these: u64, all: u64) {
        if all == 0 {
            return;
        }
        self.sum = (self.sum.0 + these, self.sum.1 + all);
        match self.parts.back_mut().filter(|(_, all)| *all < TOGETHER) {
            Some(part) => *part = (part.0 + these, part.1 + all),
            None => self.parts.push_back((these, all)),
        }
        while let Some((first, of)) = self.parts.front().copied().filter(|(_, of)| self.sum.1 - of >= ANSWERS) {
            self.parts.pop_front();
            self.sum = (self.sum.0 - first, self.sum.1 - of);
        }
    }

    /// From 0 to 1; `None` before the first answer.
    pub fn ratio(&self) -> Option<f64> {
        (self.sum.1 > 0).then(|| self.sum.0 as f64 / self.sum.1 as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn points(lags: &Lags) -> Vec<Option<f32>> {
        lags.points().collect()
    }

    #[test]
    fn a_point_is_the_highest_lag_of_its_time_and_what_was_not_known_is_a_gap() {
        let mut lags = Lags::default();
        for (at, lag) in [(100, Some(s(1))), (101, Some(s(5))), (104, Some(s(2))), (105, None), (151, Some(s(7)))] {
            lags.add(s(at), lag);
        }
        assert_eq!(points(&lags), [Some(5.0), None, None, None, Some(7.0)]);
    }

    #[test]
    fn half_an_hour_is_kept_however_long_nobody_asks() {
        let mut lags = Lags::default();
        (0..10_000).for_each(|at| lags.add(s(at), Some(s(at))));
        assert_eq!(lags.points().len(), POINTS);
        lags.add(s(1_000_000), Some(s(3)));
        assert_eq!((lags.points().len(), lags.points().flatten().count(), lags.points().last()), (POINTS, 1, Some(Some(3.0))));
    }

    #[test]
    fn a_rate_is_of_the_last_minute() {
        let mut rate = Rate::default();
        assert_eq!(rate.per_second(), 0.0);
        rate.add(s(0), 7);
        assert_eq!(rate.per_second(), 0.0);
        (1..=12).for_each(|tick| rate.add(s(5 * tick), 7 + 50 * tick));
        assert_eq!(rate.per_second(), 10.0);
        (13..=36).for_each(|tick| rate.add(s(5 * tick), 607));
        assert_eq!(rate.per_second(), 0.0);
        assert!(rate.0.len() <= 14, "{}", rate.0.len());
    }

    #[test]
    fn a_share_is_of_the_last_ten_thousand_answers_or_so() {
        let mut share = Share::default();
        assert_eq!(share.ratio(), None);
        share.add(0, 0);
        assert_eq!(share.ratio(), None);
        share.add(1, 4);
        assert_eq!(share.ratio(), Some(0.25));
        (0..100).for_each(|_| share.add(0, 100));
        assert!(share.ratio().is_some_and(|ratio| ratio > 0.0));
        (0..10).for_each(|_| share.add(0, 100));
        assert_eq!(share.ratio(), Some(0.0));
        (0..200).for_each(|_| share.add(100, 100));
        assert_eq!(share.ratio(), Some(1.0));
        assert!(share.parts.len() <= 22, "{}", share.parts.len());
    }
}
