//! The poison breaker: when an index refuses document after document, something is wrong with the index and not with the documents.
//!
//! Says of each refusal whether it may become a dead letter. Without it one wrong mapping would drain a whole table into the dead letters.

use std::collections::VecDeque;

/// When an index is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// So many refusals in a row; 0 never stops it.
    pub in_a_row: u32,
    /// So many refusals in a hundred, of the last [`WINDOW`] answers; 0 never stops it.
    pub percent: u32,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { in_a_row: 100, percent: 5 }
    }
}

/// Answers that the share of refusals is taken of.
pub const WINDOW: u32 = 10_000;

/// What an index answered of late.
#[derive(Debug)]
pub struct Breaker {
    thresholds: Thresholds,
    row: u32,
    /// Of each refusal of the window, how many answers there were until then.
    refusals: VecDeque<u64>,
    answers: u64,
    stopped: bool,
    /// Its next answer says whether it is still as it was.
    on_trial: bool,
}

impl Breaker {
    /// A breaker of an index that nothing is known of.
    pub fn new(thresholds: Thresholds) -> Self {
        Self { thresholds, row: 0, refusals: VecDeque::new(), answers: 0, stopped: false, on_trial: false }
    }

    /// The index took a document, or holds something newer.
    pub fn took(&mut self) {
        self.answers += 1;
        self.row = 0;
        self.on_trial = false;
    }

    /// The index refused a document; whether this one may become a dead letter. The one that reaches a threshold still may, none after it.
    pub fn refused(&mut self) -> bool {
        self.answers += 1;
        while self.refusals.front().is_some_and(|at| self.answers - at >= u64::from(WINDOW)) {
            self.refusals.pop_front();
        }
        let Thresholds { in_a_row, percent } = self.thresholds;
        let many = u64::from(WINDOW) * u64::from(percent) / 100;
        let are_many = |refusals: usize| percent > 0 && refusals as u64 >= many;
        if self.stopped || self.on_trial || are_many(self.refusals.len()) {
            self.stopped = true;
            return false;
        }
        self.row += 1;
        self.refusals.push_back(self.answers);
        self.stopped = (in_a_row > 0 && self.row >= in_a_row) || are_many(self.refusals.len());
        true
    }

    /// Another line begins, for which nothing waits yet: a stopped index gets its documents again, and its first refusal stops it as before.
    pub fn begin_again(&mut self) {
        self.on_trial |= self.stopped;
        self.stopped = false;
    }

    /// Whether nothing more of the index becomes a dead letter.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Refusals in a row, and refusals of the window.
    pub fn refusals(&self) -> (u32, usize) {
        (self.row, self.refusals.len())
    }

    /// A sample of the documents that wait was tried; whether the index goes on. Documents that it refused before are the ones that show
    /// whether its mapping was mended (`again`); where none of those wait, any others will do, though what was refused before still counts.
    pub fn tried(&mut self, again: Sample, others: Sample) -> bool {
        if again.took + again.refused > 0 {
            if again.took > again.refused {
                *self = Self::new(self.thresholds);
            }
        } else if others.took > others.refused {
            self.stopped = false;
            self.row = 0;
        }
        !self.stopped
    }
}

/// How an index answered a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// Documents that it took.
    pub took: usize,
    /// Documents that it refused.
    pub refused: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(breaker: &mut Breaker, refusals: usize) -> usize {
        (0..refusals).filter(|_| breaker.refused()).count()
    }

    #[test]
    fn a_hundred_refusals_in_a_row_stop_the_index_and_one_document_between_them_does_not() {
        let mut breaker = Breaker::new(Thresholds::default());
        assert_eq!(letters(&mut breaker, 99), 99);
        breaker.took();
        assert_eq!(letters(&mut breaker, 99), 99);
        assert!(!breaker.is_stopped());
        assert_eq!(letters(&mut breaker, 1_000), 1);
        assert!(breaker.is_stopped());
    }

    #[test]
    fn five_in_a_hundred_of_the_last_ten_thousand_stop_the_index() {
        let mut breaker = Breaker::new(Thresholds::default());
        let mut letters = 0;
        for _ in 0..20_000 {
            (0..20).for_each(|_| breaker.took());
            letters += usize::from(breaker.refused());
        }
        assert!(!breaker.is_stopped(), "one in 21 goes on for ever");
        assert_eq!(letters, 20_000);
        let mut letters = 0;
        for _ in 0..10_000 {
            (0..15).for_each(|_| breaker.took());
            letters += usize::from(breaker.refused());
        }
        assert!(breaker.is_stopped() && letters < 500, "{letters}");
    }

    #[test]
    fn few_documents_are_no_share_of_ten_thousand() {
        let mut breaker = Breaker::new(Thresholds::default());
        for _ in 0..499 {
            breaker.took();
            assert!(breaker.refused());
        }
        assert!(!breaker.is_stopped(), "499 of 998");
    }

    #[test]
    fn thresholds_of_zero_never_stop_an_index() {
        let mut breaker = Breaker::new(Thresholds { in_a_row: 0, percent: 0 });
        assert_eq!(letters(&mut breaker, 20_000), 20_000);
    }

    const NONE: Sample = Sample { took: 0, refused: 0 };

    #[test]
    fn a_stopped_index_begins_anew_once_it_takes_most_of_what_it_refused() {
        let mut breaker = Breaker::new(Thresholds { in_a_row: 2, percent: 0 });
        assert_eq!(letters(&mut breaker, 9), 2);
        assert!(!breaker.tried(Sample { took: 0, refused: 10 }, NONE));
        assert!(!breaker.tried(Sample { took: 4, refused: 4 }, Sample { took: 2, refused: 0 }), "others prove nothing");
        breaker.took();
        assert!(breaker.is_stopped(), "a single document is no proof");
        assert!(breaker.tried(Sample { took: 6, refused: 4 }, NONE));
        assert_eq!(letters(&mut breaker, 9), 2);
    }

    #[test]
    fn where_nothing_that_was_refused_waits_other_documents_are_tried() {
        let mut breaker = Breaker::new(Thresholds { in_a_row: 100, percent: 0 });
        assert_eq!(letters(&mut breaker, 100), 100);
        assert!(!breaker.tried(NONE, Sample { took: 5, refused: 5 }));
        assert!(breaker.tried(NONE, Sample { took: 6, refused: 4 }));
        assert_eq!(letters(&mut breaker, 200), 100);
    }

    #[test]
    fn a_line_that_begins_with_a_stopped_index_makes_no_letter_of_its_first_refusal() {
        let mut breaker = Breaker::new(Thresholds { in_a_row: 3, percent: 0 });
        assert_eq!(letters(&mut breaker, 9), 3);
        breaker.begin_again();
        assert!(!breaker.is_stopped());
        assert_eq!(letters(&mut breaker, 9), 0);
        breaker.begin_again();
        breaker.took();
        assert_eq!(letters(&mut breaker, 9), 3, "it takes documents again");
    }

    #[test]
    fn an_index_that_took_others_goes_on_and_is_stopped_again_by_its_next_refusal_while_there_are_many() {
        let mut breaker = Breaker::new(Thresholds { in_a_row: 0, percent: 5 });
        assert_eq!(letters(&mut breaker, 1_000), 500);
        assert!(breaker.tried(NONE, Sample { took: 10, refused: 0 }));
        assert!(!breaker.refused(), "none becomes a letter");
        assert!(breaker.is_stopped());
        assert!(breaker.tried(NONE, Sample { took: 10, refused: 0 }));
        (0..WINDOW).for_each(|_| breaker.took());
        assert!(breaker.refused(), "ten thousand answers later it is forgotten");
    }
}
