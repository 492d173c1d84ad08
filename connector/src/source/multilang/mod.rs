//! The MultiLangDaemon of the Kinesis Client Library (KCL): it starts a child for each shard that it holds the lease of, hands the shard's records
//! over on the child's standard input, one JSON object a line, and takes answers on its standard output.
//!
//! Reads and writes exactly that; when a checkpoint may be asked for is decided by others. The daemon asks one thing at a time and waits for
//! its answer; it passes over whatever it cannot read, and then waits for ever, so nothing else may reach that output.

mod message;
mod pipe;
#[cfg(test)]
mod tests;

pub use message::{Action, Answer, Message, Page, Refused};
pub use pipe::Daemon;
