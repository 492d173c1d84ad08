//! Where a scan ends, as values: the bound of a partition of Kafka, of a shard of Kinesis, and of a stream with all its shards.
//!
//! A bound is taken when a scan starts. Everything that was there then is within it, and a little of what came later may be. Never reads, and
//! never knows a clock: what a read showed, and how long ago the bound was taken, are handed in.

mod partition;
mod shard;
mod stream;

pub use self::partition::Partition;
pub use self::shard::{Seen, Shard, Verdict};
pub use self::stream::{Plan, Stream};

#[cfg(test)]
mod tests;
