//! Dead letters in a topic of Kafka: one message per letter, with the key, the value and the headers that the record had ([`message`]).
//!
//! A letter counts as stored when every in-sync replica of the topic has confirmed its message. One that is larger than a message may be is stored as
//! an object of a bucket where one is named, and its message says where ([`Large`]); where none is, nothing is stored, and the error says what to
//! raise. Never creates a topic. `walk` goes through one.

mod message;
mod walk;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_credential_types::provider::SharedCredentialsProvider;
use bytes::Bytes;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::config::{ClientConfig, FromClientConfigAndContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header as KafkaHeader, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::util::Timeout;
use sha2::{Digest, Sha256};

use super::bucket::LetterBucket;
use super::calls::together;
use super::place::{Config, Topic};
use super::{DeadLetter, Large, blocking};
use crate::error::{Error, Kind};
use crate::kafka::Properties;
use crate::kafka::client::{self, Context};
use message::Stored;

pub use walk::TopicWalk;

/// How long a question to the cluster may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a letter may take until it is confirmed, where no property says so.
const CONFIRMED_WITHIN: &str = "30000";
/// Letters on their way at once.
const AT_ONCE: usize = 500;
/// What a topic takes as one message, where it is not known (Apache Kafka, "Topic Configs", `max.message.bytes`).
const MESSAGE_BYTES: usize = 1_048_588;
/// A message must have room for a letter without its payload.
const SMALLEST: usize = 16 * 1024;
/// What holds for the producer whatever a person says: every in-sync replica confirms, a retry makes no second copy, no topic is created because its
/// name was misspelt, and what a topic takes is looked at here, for each letter, so that batches are small.
const HELD_TO: [(&str, &str); 5] = [
    ("acks", "all"),
    ("enable.idempotence", "true"),
    ("allow.auto.create.topics", "false"),
    ("batch.size", "16384"),
    ("message.max.bytes", "1000000000"),
];

/// A topic of dead letters.
#[derive(Clone)]
pub struct LetterTopic(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    at: Topic,
    properties: Properties,
    context: Context,
    /// None where letters are only looked at.
    writer: Option<Writer>,
    large: Option<LetterBucket>,
}

#[derive(Clone)]
struct Writer {
    producer: FutureProducer<Context>,
    /// The most bytes of one message; 0 where the cluster does not say.
    message_bytes: Arc<AtomicUsize>,
    /// How long the topic keeps a message; none where it does so for ever, or is not known.
    kept: Option<Duration>,
}

impl fmt::Debug for LetterTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LetterTopic").field("at", &self.0.at).field("large", &self.0.large).finish_non_exhaustive()
    }
}

impl LetterTopic {
    /// Makes ready to look at letters; reaches nothing.
    pub(super) async fn look(at: &Topic, config: &Config, credentials: Option<&SharedCredentialsProvider>) -> Result<Self, Error> {
        let context = Context::new(&config.properties, &config.aws).await?;
        let large = match &config.large {
            Some(bucket) => Some(LetterBucket::look(bucket, &config.aws, credentials).await?),
            None => None,
        };
        Ok(Self(Arc::new(Inner { at: at.clone(), properties: config.properties.clone(), context, writer: None, large })))
    }

    /// Reaches the topic to store letters in it, and finds out what can be found out without storing one.
    pub(super) async fn open(at: &Topic, config: &Config, credentials: Option<&SharedCredentialsProvider>) -> Result<Self, Error> {
        let looking = Self::look(at, config, credentials).await?;
        let mut made = looking.config(&[("linger.ms", "5"), ("message.timeout.ms", CONFIRMED_WITHIN)])?;
        for (key, value) in HELD_TO {
            made.set(key, value);
        }
        let producer: FutureProducer<Context> = looking.made(&made)?;
        let (asked, topic) = (producer.clone(), looking.clone());
        blocking(move || topic.partitions(asked.client().fetch_metadata(Some(&topic.0.at.name), PATIENCE))).await?;
        let limits = looking.limits().await;
        let message_bytes = limits.as_ref().and_then(|limits| usize::try_from(number(limits, "max.message.bytes")?).ok());
        if let Some(limits) = &limits {
            looking.refuse_unfit(message_bytes, limits)?;
        }
        if let Some(large) = &looking.0.large {
            large.probe().await?;
        }
        let kept = limits.as_ref().and_then(|limits| number(limits, "retention.ms")).map(Duration::from_millis);
        let writer = Writer { producer, message_bytes: Arc::new(message_bytes.unwrap_or_default().into()), kept };
        Ok(Self(Arc::new(Inner { writer: Some(writer), ..(*looking.0).clone() })))
    }

    /// The configuration of a client of the topic.
    fn config(&self, own: &[(&str, &str)]) -> Result<ClientConfig, Error> {
        client::config(&self.0.at.servers, &self.0.properties, own).map_err(ours)
    }

    fn made<C: FromClientConfigAndContext<Context>>(&self, config: &ClientConfig) -> Result<C, Error> {
        config.create_with_context(self.0.context.clone()).map_err(|error| ours(client::refused(&error)))
    }

    /// How the topic is configured, where the cluster says so: it takes a right of its own (DescribeConfigs).
    async fn limits(&self) -> Option<ConfigResource> {
        let config = self.config(&[]).ok()?;
        // The thread of such a client makes no tokens.
        let mechanism = config.get("sasl.mechanisms").or(config.get("sasl.mechanism"));
        if mechanism.is_some_and(|mechanism| mechanism.eq_ignore_ascii_case("OAUTHBEARER")) {
            return None;
        }
        let admin: AdminClient<Context> = self.made(&config).ok()?;
        let options = AdminOptions::new().request_timeout(Some(PATIENCE));
        let asked = admin.describe_configs(&[ResourceSpecifier::Topic(&self.0.at.name)], &options).await;
        asked.ok()?.into_iter().next()?.ok()
    }

    fn refuse_unfit(&self, message_bytes: Option<usize>, limits: &ConfigResource) -> Result<(), Error> {
        let Topic { servers, name } = &self.0.at;
        let alter = |setting: &str| {
            format!(
                "kafka-configs.sh --bootstrap-server {servers} --alter --entity-type topics --entity-name {name} --add-config {setting}"
            )
        };
        if let Some(bytes) = message_bytes.filter(|bytes| *bytes < SMALLEST) {
            let why = format!("expected a topic that takes messages of at least {SMALLEST} bytes, found max.message.bytes = {bytes}");
            return Err(self.error("cannot be used", &why).help(alter("max.message.bytes=10485760")));
        }
        let policy = limits.get("cleanup.policy").and_then(|entry| entry.value.as_deref()).unwrap_or_default();
        if policy.contains("compact") {
            let why = "it is compacted (cleanup.policy), and would keep only the last letter of each key";
            return Err(self.error("cannot be used", why).help(alter("cleanup.policy=delete")));
        }
        Ok(())
    }

    /// The partitions of the topic, or why there are none.
    fn partitions(&self, asked: Result<rdkafka::metadata::Metadata, KafkaError>) -> Result<Vec<i32>, Error> {
        let metadata = asked.map_err(|error| self.failed("cannot be reached", &error))?;
        let Topic { servers, name } = &self.0.at;
        let topic = metadata.topics().iter().find(|topic| topic.name() == name);
        let refused = topic.and_then(|topic| topic.error()).map(RDKafkaErrorCode::from);
        match (topic, refused) {
            (Some(topic), None) if !topic.partitions().is_empty() => Ok(topic.partitions().iter().map(|partition| partition.id()).collect()),
            (_, Some(code)) if !matches!(code, RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                Err(self.failed("cannot be reached", &KafkaError::MetadataFetch(code)))
            }
            _ => Err(self.error("cannot be used", "the topic does not exist").help(format!(
                "create it: kafka-topics.sh --bootstrap-server {servers} --create --topic {name} --partitions 3 --config cleanup.policy=delete \
                 --config max.message.bytes=10485760 --config retention.ms=1209600000"
            ))),
        }
    }

    /// What is good to know of the topic.
    pub(super) fn notes(&self) -> Option<String> {
        let Writer { message_bytes, kept, .. } = self.0.writer.as_ref()?;
        let bytes = match message_bytes.load(Ordering::Relaxed) {
            0 => "the cluster does not say how large a message may be".to_owned(),
            bytes => format!("messages of up to {bytes} bytes"),
        };
        Some(kept.map_or_else(|| bytes.clone(), |kept| format!("keeps a letter for {} h; {bytes}", kept.as_secs() / 3_600)))
    }

    /// Stores letters; the large ones in the bucket, before their messages.
    pub(super) async fn append(&self, letters: &[DeadLetter]) -> Result<(), Error> {
        let Some(writer) = &self.0.writer else { return Err(self.error("cannot be written", "it was opened only to look at it")) };
        let (mut messages, mut objects) = (Vec::with_capacity(letters.len()), Vec::new());
        for letter in letters {
            let stored = Stored::of(letter)?;
            if self.fits(writer, stored.bytes()).await {
                messages.push(stored);
                continue;
            }
            let Some(bucket) = &self.0.large else { return Err(self.too_large(&letter.id, stored.bytes(), writer)) };
            let line = letter.line()?;
            let digest = hex::encode(&Sha256::digest(&line)[..4]);
            let key = bucket.key_of(&letter.id, &digest);
            let large = Large { bucket: bucket.bucket_name().to_owned(), key: key.clone(), bytes: letter.payload.len() as u64 };
            messages.push(Stored::pointer(&DeadLetter { large: Some(large), ..letter.clone() })?);
            objects.push((key, Bytes::from(line)));
        }
        if let Some(bucket) = &self.0.large {
            bucket.put_all(objects).await?;
        }
        let sends = messages.into_iter().zip(letters).map(|(message, letter)| {
            let (topic, id) = (self.clone(), letter.id.clone());
            async move { topic.send(message, &id).await }
        });
        together(AT_ONCE, sends.collect::<Vec<_>>()).await.map(drop)
    }

    /// Whether a message may have so many bytes. Before it is said that it may not, the topic is asked anew: its owner may have raised the limit.
    async fn fits(&self, writer: &Writer, bytes: usize) -> bool {
        let most = |writer: &Writer| match writer.message_bytes.load(Ordering::Relaxed) {
            // Without a bucket, the cluster is the one to refuse it.
            0 if self.0.large.is_none() => usize::MAX,
            0 => MESSAGE_BYTES,
            most => most,
        };
        if bytes <= most(writer) {
            return true;
        }
        let now = self.limits().await.and_then(|limits| number(&limits, "max.message.bytes"));
        if let Some(now) = now.and_then(|bytes| usize::try_from(bytes).ok()) {
            writer.message_bytes.store(now, Ordering::Relaxed);
        }
        bytes <= most(writer)
    }

    async fn send(&self, message: Stored, id: &str) -> Result<(), Error> {
        let Some(writer) = &self.0.writer else { return Ok(()) };
        let Stored { key, value, headers } = &message;
        let owned = headers.iter().fold(OwnedHeaders::new_with_capacity(headers.len()), |owned, header| {
            owned.insert(KafkaHeader { key: &header.name, value: header.value.as_deref() })
        });
        let record = FutureRecord {
            topic: &self.0.at.name,
            partition: None,
            payload: value.as_deref(),
            key: key.as_deref(),
            timestamp: None,
            headers: Some(owned),
        };
        match writer.producer.send(record, Timeout::After(PATIENCE)).await {
            Ok(_) => {
                self.0.context.forget_trouble();
                Ok(())
            }
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::MessageSizeTooLarge), _)) => {
                Err(self.too_large(id, message.bytes(), writer))
            }
            Err((error, _)) => Err(self.failed("cannot be written", &error)),
        }
    }

    fn too_large(&self, id: &str, bytes: usize, writer: &Writer) -> Error {
        let most = match writer.message_bytes.load(Ordering::Relaxed) {
            0 => String::new(),
            most => format!(" ({most})"),
        };
        let Topic { servers, name } = &self.0.at;
        let why = format!("letter {id} has about {bytes} bytes, more than a message of the topic may have (max.message.bytes{most})");
        self.error("cannot take it", &why).help(format!(
            "raise it: kafka-configs.sh --bootstrap-server {servers} --alter --entity-type topics --entity-name {name} --add-config \
             max.message.bytes={}; or name a bucket for such letters with --dead-letters-large s3://BUCKET/PREFIX",
            bytes.next_power_of_two()
        ))
    }

    /// What went wrong, and what the client had to say about it.
    fn failed(&self, what: &str, error: &KafkaError) -> Error {
        let why = client::why(error);
        match self.0.context.trouble() {
            Some(trouble) if trouble.what != why => self.error(what, &format!("{why}: {}", trouble.what)),
            _ => self.error(what, &why),
        }
    }

    fn error(&self, what: &str, why: &str) -> Error {
        Error::new(Kind::DeadLetters, format!("dead letters: {} {what}: {why}", self.0.at))
    }
}

/// An error of the client's configuration, of the dead letters.
fn ours(error: Error) -> Error {
    Error { what: format!("dead letters: {}", error.what), ..error }
}

/// A number of a topic's configuration; none where it is below 0, which means no limit.
fn number(limits: &ConfigResource, name: &str) -> Option<u64> {
    limits.get(name)?.value.as_deref()?.parse().ok()
}
