//! How soon a shard is read again, how much is asked for at once, and what memory that takes: from what its last pages were.
//!
//! Kinesis allows five reads a second of a shard to all its readers together, and 10,000 records or 10 MB in one (Amazon Kinesis Data Streams
//! API reference, `GetRecords`). Never waits, and counts on nothing that a page says of the distance to the end of the shard.

use std::time::Duration;

/// The soonest that a shard is read again.
pub const SOONEST: Duration = Duration::from_millis(200);
/// How soon a shard is read again of which everything was read: most of the limit is left to others.
pub const AT_THE_END: Duration = Duration::from_secs(1);
/// The most records of one page.
pub const MOST_RECORDS: usize = 10_000;
/// The most bytes of one page's records.
pub const MOST_BYTES: usize = 10_000_000;
/// What a record takes in memory beside its bytes: its number, its place, what holds them.
pub const RECORD: usize = 256;

/// The bytes of records that a page is to have, about.
const WANTED: usize = 1024 * 1024;
/// What is asked for of a shard of which no record was seen yet.
const FIRST: usize = 64;
/// The bytes that a record is taken to have before one was seen.
const UNSEEN: usize = 4 * 1024;
/// Of a page that was not full the next one may ask for so many times as much as it had.
const MORE: usize = 4;

/// What the pages of one shard have shown.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Records that the next page asks for.
    limit: usize,
    /// The bytes of a record, about.
    average: usize,
    /// The most bytes that a record of the stream may have.
    largest: usize,
    interval: Duration,
    behind: Option<Duration>,
}

/// What a page was.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// Its records.
    pub records: usize,
    /// The bytes of their data.
    pub bytes: usize,
    /// How far behind the end of the shard it says that it is.
    pub behind: Option<Duration>,
}

impl Pace {
    /// A shard of which nothing was read yet, in a stream whose records have at most so many bytes.
    pub fn new(largest: usize) -> Self {
        Self { limit: FIRST, average: UNSEEN.min(largest), largest, interval: SOONEST, behind: None }
    }

    /// The records that the next page asks for: 1 to [`MOST_RECORDS`].
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// How long after the last read the next one may begin.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// The memory that the next page takes, about: its answer in JSON and Base64, and what is made of it.
    pub fn memory(&self) -> usize {
        memory(self.limit, (self.limit * self.average).min(MOST_BYTES.max(self.average)).min(self.limit * self.largest))
    }

    /// A page came.
    pub fn saw(&mut self, page: Seen) {
        let was_full = page.records >= self.limit || page.bytes >= MOST_BYTES / 2;
        // Not that the distance is zero: it may never be, on an idle shard, nor on a busy one.
        let is_nearer = page.behind > Some(Duration::ZERO) && self.behind.is_none_or(|before| page.behind < Some(before));
        let has_more = was_full || page.behind > Some(Duration::ZERO) && (page.records > 0 || is_nearer);
        self.behind = page.behind;
        self.interval = if has_more { SOONEST } else { AT_THE_END };
        if let Some(size) = page.bytes.checked_div(page.records) {
            // Large ones count at once, small ones when they go on.
            self.average = size.max((3 * self.average + size) / 4).max(1);
        }
        // At the end of a shard little is asked for, so that many may be asked at once.
        let next = if has_more { MORE * self.limit } else { FIRST.max(MORE * page.records) };
        self.limit = next.min((WANTED / self.average).clamp(1, MOST_RECORDS));
    }
}

/// The memory of a page while it is read: its answer in JSON and Base64, and what is made of it.
pub fn memory(records: usize, bytes: usize) -> usize {
    held(records, bytes) + bytes.div_ceil(3) * 4 + records * RECORD
}

/// The memory of a page that was read.
pub fn held(records: usize, bytes: usize) -> usize {
    bytes + records * RECORD
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LARGEST: usize = 1024 * 1024;
    const BEHIND: Option<Duration> = Some(Duration::from_secs(60));

    fn seen(records: usize, size: usize, behind: Option<Duration>) -> Seen {
        Seen { records, bytes: records * size, behind }
    }

    /// A shard with so much in it that every page is full.
    fn full(pace: &mut Pace, size: usize, pages: usize) {
        for _ in 0..pages {
            let records = pace.limit().min((MOST_BYTES / size).max(1));
            pace.saw(seen(records, size, BEHIND));
        }
    }

    #[test]
    fn pages_of_a_shard_that_is_behind_come_to_about_a_mebibyte_whatever_its_records_are() {
        for (size, limit) in [(50, 10_000), (1_024, 1_024), (50 * 1_024, 20), (1024 * 1024, 1), (10 * 1024 * 1024, 1)] {
            let mut pace = Pace::new(10 * LARGEST);
            full(&mut pace, size, 40);
            assert_eq!(pace.limit(), limit, "records of {size} bytes");
        }
    }

    #[test]
    fn a_shard_that_is_behind_is_read_again_at_once_and_one_at_its_end_once_a_second() {
        let mut pace = Pace::new(LARGEST);
        pace.saw(seen(3, 100, BEHIND));
        assert_eq!(pace.interval(), SOONEST);
        pace.saw(seen(3, 100, Some(Duration::ZERO)));
        assert_eq!(pace.interval(), AT_THE_END);
        pace.saw(seen(0, 0, None));
        assert_eq!(pace.interval(), AT_THE_END);
    }

    #[test]
    fn a_full_page_is_followed_at_once_also_where_it_says_that_it_is_at_the_end() {
        let mut pace = Pace::new(LARGEST);
        pace.saw(seen(pace.limit(), 100, Some(Duration::ZERO)));
        assert_eq!(pace.interval(), SOONEST);
    }

    #[test]
    fn an_empty_stretch_is_crossed_at_once_and_a_distance_that_stays_is_not_chased() {
        let mut pace = Pace::new(LARGEST);
        for seconds in (1..60).rev() {
            pace.saw(seen(0, 0, Some(Duration::from_secs(seconds))));
            assert_eq!(pace.interval(), SOONEST, "{seconds} s behind");
        }
        pace.saw(seen(0, 0, Some(Duration::from_secs(1))));
        assert_eq!(pace.interval(), AT_THE_END);
    }

    #[test]
    fn little_is_asked_for_at_the_end_of_a_shard_and_much_again_when_there_is_much() {
        let mut pace = Pace::new(LARGEST);
        full(&mut pace, 1_024, 40);
        assert_eq!(pace.limit(), 1_024);
        pace.saw(seen(2, 1_024, Some(Duration::ZERO)));
        assert_eq!(pace.limit(), FIRST);
        full(&mut pace, 1_024, 2);
        assert_eq!(pace.limit(), 1_024);
    }

    #[test]
    fn large_records_are_heeded_at_once() {
        let mut pace = Pace::new(LARGEST);
        full(&mut pace, 100, 10);
        pace.saw(seen(10, LARGEST, BEHIND));
        assert_eq!(pace.limit(), 1);
        assert!(pace.memory() >= memory(1, LARGEST));
    }

    proptest! {
        #[test]
        fn whatever_pages_come_the_next_one_asks_for_something_that_is_allowed(
            pages in prop::collection::vec((0_usize..10_000, 0_usize..10_000_000, prop::option::of(0_u64..100_000)), 0..40),
            largest in 1_usize..10_000_000,
        ) {
            let mut pace = Pace::new(largest);
            for (records, bytes, behind) in pages {
                let bytes = if records == 0 { 0 } else { bytes };
                pace.saw(Seen { records, bytes, behind: behind.map(Duration::from_millis) });
                prop_assert!((1..=MOST_RECORDS).contains(&pace.limit()));
                prop_assert!(pace.interval() >= SOONEST);
                prop_assert!(pace.memory() <= memory(MOST_RECORDS, MOST_BYTES.max(largest)));
            }
        }
    }
}
