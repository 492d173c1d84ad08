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
