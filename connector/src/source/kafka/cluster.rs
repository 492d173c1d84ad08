//! What a cluster says of topics: which there are, which partitions they have, and where those begin and end.
//!
//! Asks through a consumer of whatever kind, and blocks while it waits. Reads no message.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::MetadataTopic;
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{Offset, TopicPartitionList};
use regex_lite::Regex;

use super::group::Key;
use super::mark::Mark;
use crate::error::{Error, Kind};
use crate::kafka::client::{Context, why};
use crate::kafka::{Address, Topics as Names};

/// How long one question may take.
pub(super) const ANSWER: Duration = Duration::from_secs(10);
/// How long an answer is waited for before what librdkafka has to say is heard.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long that is listened for.
const HEAR: Duration = Duration::from_millis(50);

/// A consumer of a cluster, to ask it what there is.
#[derive(Clone, Copy)]
pub struct Cluster<'a, C: ConsumerContext> {
    pub(super) consumer: &'a BaseConsumer<C>,
    pub(super) context: &'a Context,
    pub(super) address: &'a Address,
    /// Whether the consumer may be polled by whoever asks: nothing is assigned to it yet.
    pub(super) hears: bool,
}

impl<C: ConsumerContext> std::fmt::Debug for Cluster<'_, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A topic, with the number of its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub topic: String,
    /// How many partitions it has; they are numbered from 0.
    pub partitions: i32,
}

/// Why a cluster gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A topic is not there.
    Gone {
        /// Which, in words.
        what: String,
    },
    /// It may be read by others, and not by us: a person has to put it right.
    Refused {
        /// In the server's words.
        what: String,
    },
    /// It may pass.
    Again {
        /// In librdkafka's words.
        what: String,
    },
}

impl Failure {
    /// What happened.
    pub fn what(&self) -> &str {
        let (Self::Gone { what } | Self::Refused { what } | Self::Again { what }) = self;
        what
    }

    /// What a person is told who cannot have the topics.
    pub fn error(&self, address: &Address) -> Error {
        let servers = address.servers.join(", ");
        match self {
            Self::Gone { what } => Error::new(Kind::Source, format!("source: {what} at {servers}"))
                .help("check the topic's name and the servers; revsync creates no topic"),
            Self::Refused { what } => Error::new(Kind::Source, format!("source: {address} cannot be read: {what}")).help(
                "check security.protocol, sasl.mechanisms and the credentials (-X, REVSYNC_PROPERTY, [source.properties]), and the rights: \
                 Describe and Read on the topic and on the group",
            ),
            Self::Again { what } => Error::new(Kind::Pending, format!("source: {servers} cannot be reached: {what}"))
                .help("check the servers, the network and, where the servers want TLS or SASL, security.protocol (-X security.protocol=…)"),
        }
    }

    pub(super) fn of(error: &KafkaError) -> Self {
        let what = why(error);
        match error.rdkafka_error_code() {
            Some(code) if is_refusal(code) => Self::Refused { what },
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownPartition) => {
                Self::Gone { what }
            }
            _ => Self::Again { what },
        }
    }
}

fn is_refusal(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::Authentication
            | Code::SaslAuthenticationFailed
            | Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed
    )
}

impl<C: ConsumerContext> Cluster<'_, C> {
    /// The topics of the address that there are, in their order.
    ///
    /// # Errors
    /// One that is named is not there, no topic matches the pattern, or the cluster cannot be asked.
    pub fn topics(&self) -> Result<Vec<Listed>, Failure> {
        match &self.address.topics {
            Names::Named(names) => names.iter().map(|name| self.topic(name)).collect(),
            Names::Pattern(pattern) => {
                let matching = Regex::new(pattern).map_err(|error| Failure::Gone { what: format!("{pattern} is no pattern: {error}") })?;
                let metadata = self.ask(|time| self.consumer.fetch_metadata(None, time))?;
                let listed = metadata.topics().iter().filter(|topic| matching.is_match(topic.name()));
                let mut listed = listed.map(listed_as).collect::<Result<Vec<_>, _>>()?;
                listed.sort_by(|one, other| one.topic.cmp(&other.topic));
                if listed.is_empty() { Err(Failure::Gone { what: format!("no topic matches {pattern}") }) } else { Ok(listed) }
            }
        }
    }

    fn topic(&self, name: &str) -> Result<Listed, Failure> {
        let metadata = self.ask(|time| self.consumer.fetch_metadata(Some(name), time))?;
        let gone = || Failure::Gone { what: format!("there is no topic {name}") };
        let listed = listed_as(metadata.topics().first().ok_or_else(gone)?);
        listed.and_then(|listed| if listed.partitions == 0 { Err(gone()) } else { Ok(listed) })
    }

    /// The first offset of a partition, and the one behind its last message: behind the last that is committed, for a consumer that reads only
    /// those.
    ///
    /// # Errors
    /// The cluster cannot be asked.
    pub fn ends(&self, topic: &str, partition: i32) -> Result<(i64, i64), Failure> {
        let (low, high) = self.consumer.fetch_watermarks(topic, partition, ANSWER).map_err(|error| self.failure(&error))?;
        Ok((low, high.max(low)))
    }

    /// Asks, and hears meanwhile what librdkafka has to say: a token may be wanted before there is an answer, and who is refused gets none.
    fn ask<T>(&self, question: impl Fn(Duration) -> Result<T, KafkaError>) -> Result<T, Failure> {
        let (since, time) = (Instant::now(), if self.hears { PATIENCE } else { ANSWER });
        loop {
            self.hear(HEAR);
            let error = match question(time) {
                Ok(answer) => {
                    self.context.forget_trouble();
                    return Ok(answer);
                }
                Err(error) => error,
            };
            self.hear(HEAR);
            let failure = self.failure(&error);
            if !matches!(failure, Failure::Again { .. }) || since.elapsed() + time >= ANSWER {
                return Err(failure);
            }
        }
    }

    fn hear(&self, time: Duration) {
        if self.hears {
            let _ = self.consumer.poll(time);
        }
    }

    /// What the group committed of these partitions, and beside it; nothing for those of which it committed nothing.
    ///
    /// # Errors
    /// The cluster cannot be asked.
    pub(super) fn committed(&self, keys: &[Key]) -> Result<Vec<(Key, i64, Option<Mark>)>, Failure> {
        let mut asked = TopicPartitionList::new();
        for (topic, number) in keys {
            asked.add_partition(topic, *number);
        }
        let found = self.ask(|time| self.consumer.committed_offsets(asked.clone(), time))?;
        let mut committed = Vec::new();
        for partition in found.elements() {
            partition.error().map_err(|error| self.failure(&error))?;
            if let Offset::Offset(next) = partition.offset() {
                let key = (partition.topic().to_owned(), partition.partition());
                committed.push((key, next, partition.metadata().parse().ok()));
            }
        }
        Ok(committed)
    }

    /// The first offset of a message of this time or later, in milliseconds since 1970; the end where there is none.
    ///
    /// # Errors
    /// The cluster cannot be asked.
    pub(super) fn at(&self, key: &Key, millis: u64) -> Result<i64, Failure> {
        let time = i64::try_from(millis).unwrap_or(i64::MAX);
        let mut asked = TopicPartitionList::new();
        asked.add_partition_offset(&key.0, key.1, Offset::Offset(time)).map_err(|error| Failure::of(&error))?;
        let found = self.ask(|time| self.consumer.offsets_for_times(asked.clone(), time))?;
        match found.elements().first().map(|partition| (partition.offset(), partition.error())) {
            Some((_, Err(error))) => Err(self.failure(&error)),
            Some((Offset::Offset(next), Ok(()))) => Ok(next),
            _ => Ok(self.ends(&key.0, key.1)?.1),
        }
    }

    /// An error, in the words of what led to it where that is known.
    pub(super) fn failure(&self, error: &KafkaError) -> Failure {
        let may_pass = matches!(Failure::of(error), Failure::Again { .. });
        match self.context.trouble().filter(|_| may_pass) {
            Some(trouble) if trouble.is_refusal => Failure::Refused { what: trouble.what },
            Some(trouble) => Failure::Again { what: trouble.what },
            None => Failure::of(error),
        }
    }
}

fn listed_as(topic: &MetadataTopic) -> Result<Listed, Failure> {
    match topic.error() {
        None => {
            let partitions = i32::try_from(topic.partitions().len()).unwrap_or(i32::MAX);
            Ok(Listed { topic: topic.name().to_owned(), partitions })
        }
        Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART | RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_ID) => {
            Err(Failure::Gone { what: format!("there is no topic {}", topic.name()) })
        }
        Some(code) => {
            let error = KafkaError::MetadataFetch(code.into());
            let what = format!("{}: {}", topic.name(), why(&error));
            Err(if is_refusal(code.into()) { Failure::Refused { what } } else { Failure::Again { what } })
        }
    }
}
