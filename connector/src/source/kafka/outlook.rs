//! What is to be said of topics and of a group before they are followed. Reads one message at most, joins nothing, and commits nothing.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};

use super::OWN;
use super::cluster::{Cluster, Failure, Listed};
use super::group::Key;
use crate::error::Error;
use crate::kafka::client::{Context, config, refused};
use crate::kafka::{Address, Properties};

/// How long a message, or the end, is waited for.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// Topics, and how far a group is with them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlook {
    /// The topics.
    pub topics: Vec<Listed>,
    /// The partitions.
    pub partitions: Vec<Standing>,
}

/// How far a group is with a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The partition.
    pub key: Key,
    /// Its first offset.
    pub first: i64,
    /// The offset behind its last message.
    pub end: i64,
    /// What the group committed.
    pub committed: Option<i64>,
}

impl Outlook {
    /// Looks at topics and at a group, and tries whether they may be read. Blocks.
    ///
    /// # Errors
    /// A property is not accepted, a topic is not there, or something may not be read.
    pub fn look(address: &Address, properties: &Properties, context: &Context, group: &str) -> Result<Self, Error> {
        let config = config(&address.bootstrap(), properties, &[&OWN[..], &[("group.id", group)]].concat())?;
        let consumer: BaseConsumer<Context> = config.create_with_context(context.clone()).map_err(|error| refused(&error))?;
        let cluster = Cluster { consumer: &consumer, context, address, hears: true };
        let found = Self::of(&cluster).map_err(|failure| failure.error(address))?;
        if let Some(standing) = found.partitions.iter().find(|standing| standing.first < standing.end).or(found.partitions.first()) {
            read(&cluster, standing).map_err(|failure| failure.error(address))?;
        }
        Ok(found)
    }

    fn of(cluster: &Cluster<'_, Context>) -> Result<Self, Failure> {
        let topics = cluster.topics()?;
        let keys: Vec<Key> = topics.iter().flat_map(|listed| (0..listed.partitions).map(|number| (listed.topic.clone(), number))).collect();
        let committed = cluster.committed(&keys)?;
        let mut partitions = Vec::new();
        for key in keys {
            let (first, end) = cluster.ends(&key.0, key.1)?;
            let committed = committed.iter().find(|(of, ..)| *of == key).map(|(_, next, _)| *next);
            partitions.push(Standing { key, first, end, committed });
        }
        Ok(Self { topics, partitions })
    }
}

/// Reads a message, or finds that there is none.
fn read(cluster: &Cluster<'_, Context>, Standing { key, first, .. }: &Standing) -> Result<(), Failure> {
    let mut assigned = TopicPartitionList::new();
    assigned.add_partition_offset(&key.0, key.1, Offset::Offset(*first)).map_err(|error| Failure::of(&error))?;
    cluster.consumer.assign(&assigned).map_err(|error| Failure::of(&error))?;
    let since = Instant::now();
    while since.elapsed() < READ_WITHIN {
        match cluster.consumer.poll(Duration::from_millis(200)) {
            Some(Ok(_) | Err(KafkaError::PartitionEOF(_))) => return Ok(()),
            Some(Err(error)) => {
                let failure = cluster.failure(&error);
                if !matches!(failure, Failure::Again { .. }) {
                    return Err(failure);
                }
            }
            None => {}
        }
    }
    Err(Failure::Again { what: format!("{}-{} gave no message in {} s", key.0, key.1, READ_WITHIN.as_secs()) })
}
