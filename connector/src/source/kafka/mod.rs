//! Topics of Kafka as a source: the messages of their partitions, each in its order.
//!
//! [`Topics`] is a scan up to the ends that partitions had when it began, which joins no group and commits nothing. [`Member`] is a member of a
//! consumer group, which goes on for ever: Kafka's own group protocol shares the partitions out, and the group's committed offsets are the only
//! checkpoints. [`Cluster`] is what both ask for topics, ends and offsets. Nothing here decides when an offset is committed: that is told.
//!
//! Calls of librdkafka block: nothing here may be called by a thread of the runtime.

mod cluster;
mod group;
mod mark;
mod member;
mod message;
mod topics;

pub use self::cluster::{Cluster, Failure, Listed};
pub use self::group::{Begun, Key, Shell};
pub use self::member::{Far, Joining, Lost, Member, Polled};
pub use self::topics::Topics;

/// The properties that a consumer has where a person says nothing else, whatever it is for. What is read and waits in librdkafka's queue is a
/// part of the memory of the process, so it is a few MiB; a message that is larger than that comes alone.
const OWN: [(&str, &str); 9] = [
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    // An offset that is out of range is told, and not mended in silence.
    ("auto.offset.reset", "error"),
    ("enable.partition.eof", "true"),
    ("isolation.level", "read_committed"),
    ("queued.max.messages.kbytes", "8192"),
    ("fetch.max.bytes", "4194304"),
    // A fetch of nothing waits for the server so long, which is no load on either side.
    ("fetch.wait.max.ms", "500"),
    ("topic.metadata.refresh.interval.ms", "30000"),
];
