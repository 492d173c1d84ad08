//! An Amazon Kinesis data stream as a source: the records of its shards, each in its order.
//!
//! [`address`] is how a stream is named.

mod address;

pub use self::address::Address;
