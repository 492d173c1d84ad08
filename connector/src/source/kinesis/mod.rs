//! An Amazon Kinesis data stream as a source: the records of its shards, each in its order.
//!
//! [`Address`] is how a stream is named, [`Kinesis`] the stream and what it lists, [`Reader`] one shard that is read page by page, and [`Failure`]
//! why a call gave nothing. Waits for nothing but answers and tries nothing again that is asked over and over: who reads, paces.
//!
//! The rights that it takes are kinesis:DescribeStreamSummary, kinesis:ListShards, kinesis:GetShardIterator and kinesis:GetRecords on the
//! stream, and kms:Decrypt on its key where it is encrypted with one of the customer's.

mod address;
mod failure;
mod reader;
mod stream;

pub use self::address::Address;
pub use self::failure::Failure;
pub use self::reader::{Page, Reader};
pub use self::stream::Kinesis;

/// What to do where rights are missing.
const RIGHTS: &str = "check the credentials (AWS_PROFILE, or the role of the machine or task); the rights are kinesis:DescribeStreamSummary, kinesis:ListShards, kinesis:GetShardIterator and kinesis:GetRecords on the stream, and kms:Decrypt on its key";
