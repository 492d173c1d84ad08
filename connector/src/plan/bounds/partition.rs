//! The bound of a partition of Kafka: from the offset that comes next to the one at which it ended when the bound was taken.
//!
//! It is reached by the position alone, or because the server has no more; never because a certain message came, which compaction or an
//! aborted transaction may have removed.

/// What is still to be read of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    next: i64,
    end: i64,
}

impl Partition {
    /// From the first offset that it has to the one behind the last, for a reader of committed messages: the last stable offset.
    pub fn new(first: i64, end: i64) -> Self {
        Self { next: first, end }
    }

    /// The offset that comes next, or a later one where there are gaps.
    pub fn next(&self) -> i64 {
        self.next
    }

    /// The offset at which it is over.
    pub fn end(&self) -> i64 {
        self.end
    }

    /// Whether there is nothing left to read.
    pub fn is_over(&self) -> bool {
        self.next >= self.end
    }

    /// The messages that are left, with those that compaction or an aborted transaction removed.
    pub fn left(&self) -> u64 {
        u64::try_from(self.end - self.next).unwrap_or_default()
    }

    /// A message came; whether it belongs to the scan. One behind the end says that all before it came.
    pub fn came(&mut self, offset: i64) -> bool {
        let is_within = offset < self.end;
        self.next = self.next.max(offset.saturating_add(1).min(self.end));
        is_within
    }

    /// The server has no more messages at present, and so none before the end.
    pub fn no_more(&mut self) {
        self.next = self.next.max(self.end);
    }

    /// The oldest message that the partition has is this one; the offsets that were to be read and are gone: from the first up to, and
    /// without, the last.
    pub fn begins(&mut self, oldest: i64) -> Option<(i64, i64)> {
        let from = self.next;
        self.next = from.max(oldest.min(self.end));
        (self.next > from).then_some((from, self.next))
    }

    /// Goes on to another end; whether there is more to read. An end before the position, which only another topic of the name can have,
    /// changes nothing.
    pub fn extend(&mut self, end: i64) -> bool {
        self.end = self.end.max(end);
        !self.is_over()
    }
}
