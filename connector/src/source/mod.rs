//! Where records come from: the records of a shard, in their order, until the bound.
//!
//! A source is pulled, never hears what became of a record, and decodes nothing but its own container.

pub mod capture;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod kafka_event;
#[cfg(feature = "kinesis")]
pub mod kinesis;
pub mod multilang;
pub mod scan;
