//! The bound of a shard of Kinesis: no call tells where an open shard ends, so that its pages have to.
//!
//! What a page says of the distance to the end may be wrong: emulators always said 0, or counted records in place of milliseconds, and idle
//! streams kept a distance for ever. A distance is believed at once only where the shard has shown that it measures it; else two pages
//! without records in a row have to say that the end is reached. A page without records says nothing by itself.

use std::time::Duration;

/// Times of arrival are not strictly in order: a record that came so long after the bound proves that none before it is left.
const DISORDER: Duration = Duration::from_secs(1);
/// A distance of so much is measured in time, and none that is always 0 or 1.
const MEASURED: Duration = Duration::from_secs(1);
/// So many pages without records in a row that say that they are at the end are believed.
const BELIEVED: u32 = 2;
/// So many pages in a row have to come no nearer to the end, however long that takes: nothing is read while what was read is not taken in.
const IN_A_ROW: u32 = 5;

/// A shard that is read to its bound.
#[derive(Debug, Clone)]
pub struct Shard {
    /// The time of the bound, in milliseconds since 1970; `None` for what was closed then, which is read to its end.
    bound: Option<u64>,
    /// How long it may come no nearer to its end.
    patience: Duration,
    /// The least distance that was said.
    nearest: Option<Duration>,
    is_measured: bool,
    /// Pages without records in a row that said that they are at the end.
    claims: u32,
    /// When it last came nearer to its end, since the bound was taken; and the pages since then.
    progress: Option<(Duration, u32)>,
}

/// What a page showed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// Its records.
    pub records: usize,
    /// When the newest of them arrived, in milliseconds since 1970.
    pub newest: Option<u64>,
    /// How far behind the end of the shard it says that it is.
    pub behind: Option<Duration>,
}

/// What becomes of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// There may be more.
    GoesOn,
    /// Everything that arrived up to the bound was read.
    Reached,
    /// It came no nearer to its end for too long, and it is not proven that it was reached.
    NotProven,
}

impl Shard {
    /// A shard that is read up to a time, in milliseconds since 1970 by the clock of the stream; without one, as one that is closed, it is read
    /// until it has no more. It is given up where it comes no nearer to its end for `patience`.
    pub fn new(bound: Option<u64>, patience: Duration) -> Self {
        Self { bound, patience, nearest: None, is_measured: false, claims: 0, progress: None }
    }

    /// A page was read that was asked for so long after the bound was taken. The end of a closed shard is not judged here: it is said.
    pub fn saw(&mut self, page: Seen, since: Duration) -> Verdict {
        let is_nearer = page.behind.is_some_and(|behind| self.nearest.is_none_or(|nearest| behind < nearest));
        if page.records > 0 || is_nearer {
            self.progress = Some((since, 0));
        }
        if is_nearer {
            self.nearest = page.behind;
        }
        if self.bound.is_some_and(|bound| self.is_reached(page, bound, since)) {
            return Verdict::Reached;
        }
        let (last, pages) = self.progress.get_or_insert((since, 0));
        *pages += 1;
        let is_given_up = *pages > IN_A_ROW && since.saturating_sub(*last) >= self.patience;
        if is_given_up { Verdict::NotProven } else { Verdict::GoesOn }
    }

    fn is_reached(&mut self, page: Seen, bound: u64, since: Duration) -> bool {
        // Lossless: a second.
        if page.newest.is_some_and(|newest| newest > bound.saturating_add(DISORDER.as_millis() as u64)) {
            return true;
        }
        if self.is_measured && page.behind == Some(Duration::ZERO) {
            return true;
        }
        self.is_measured |= page.behind > Some(MEASURED);
        // What comes next is of a time behind that of the bound.
        let is_claimed = page.records == 0 && page.behind.is_some_and(|behind| behind.is_zero() || behind < since);
        self.claims = if is_claimed { self.claims + 1 } else { 0 };
        self.claims >= BELIEVED
    }
}
