//! A scan of topics: every partition from its first offset to the end that it had when the scan began.
//!
//! A partition is over when its position reaches that end, or when the server says that there is no more: never because a certain message came,
//! which compaction or an aborted transaction may have removed. Joins no group, and commits nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message as _;
use rdkafka::{Offset, TopicPartitionList};

use super::OWN;
use super::cluster::{Cluster, Failure};
use super::message::{beside, record};
use crate::error::{Error, Kind};
use crate::kafka::client::{Context, config, refused};
use crate::kafka::{Address, Properties};
use crate::plan::bounds;
use crate::record::{Origin, Record};
use crate::source::scan::Page;

/// How long more messages are waited for, where some are at hand.
const AT_HAND: Duration = Duration::from_millis(20);
/// How long the first is waited for before it is looked at the time.
const TURN: Duration = Duration::from_millis(250);
/// After so much silence of the servers a scan gives up.
const SILENCE: Duration = Duration::from_secs(60);

/// Topics that are read to their ends.
pub struct Topics {
    consumer: BaseConsumer<Context>,
    context: Context,
    address: Address,
    stops_on_data_loss: bool,
    topics: Vec<Topic>,
    /// The topic that is read, by its place; those behind it are not begun with.
    current: Option<usize>,
    total: u64,
    read: u64,
    /// Whether a partition began behind its first offset.
    has_dropped: bool,
    /// Whether messages were lost before they could be read.
    has_lost: bool,
    /// Whether partitions came that were not read.
    has_new: bool,
    heard: Instant,
    asked_last: bool,
}

#[derive(Debug)]
struct Topic {
    name: String,
    /// In the order of their numbers, from 0.
    partitions: Vec<Partition>,
}

#[derive(Debug)]
struct Partition {
    number: i32,
    origin: Arc<Origin>,
    bound: bounds::Partition,
    /// Whether it is fetched.
    is_open: bool,
}

impl Topic {
    fn open(&self) -> impl Iterator<Item = &Partition> {
        self.partitions.iter().filter(|partition| partition.is_open)
    }

    fn open_of(&mut self, number: i32) -> Option<&mut Partition> {
        self.partitions.iter_mut().find(|partition| partition.number == number && partition.is_open)
    }
}

impl Topics {
    /// Looks at the topics: which partitions they have, and where those begin and end now.
    ///
    /// # Errors
    /// A property is not accepted, a topic is not there, or the servers cannot be asked.
    pub fn open(address: &Address, properties: &Properties, context: &Context, stops_on_data_loss: bool) -> Result<Self, Error> {
        // librdkafka reads with no consumer that has no group; nothing of it is ever said to the servers.
        let own = [&OWN[..], &[("group.id", "revsync-scan")]].concat();
        let config = config(&address.bootstrap(), properties, &own)?;
        let consumer: BaseConsumer<Context> = config.create_with_context(context.clone()).map_err(|error| refused(&error))?;
        let mut scan = Self {
            consumer,
            context: context.clone(),
            address: address.clone(),
            stops_on_data_loss,
            topics: Vec::new(),
            current: None,
            total: 0,
            read: 0,
            has_dropped: false,
            has_lost: false,
            has_new: false,
            heard: Instant::now(),
            asked_last: false,
        };
        scan.take_ends()?;
        Ok(scan)
    }

    /// Takes the ends of all partitions that there are now; what was read before goes on where it stopped.
    fn take_ends(&mut self) -> Result<(), Error> {
        let failed = |failure: Failure| failure.error(&self.address);
        let listed = self.cluster().topics().map_err(failed)?;
        let mut topics = Vec::new();
        let mut has_dropped = self.has_dropped;
        for listed in listed {
            let known = self.topics.iter().find(|topic| topic.name == listed.topic);
            let mut partitions = Vec::new();
            for number in 0..listed.partitions {
                let (first, end) = self.cluster().ends(&listed.topic, number).map_err(failed)?;
                let known = known.and_then(|topic| topic.partitions.iter().find(|partition| partition.number == number));
                let bound = match known {
                    Some(known) if known.bound.next() > end => return Err(made_again(&listed.topic, number, known.bound.next())),
                    Some(known) => bounds::Partition::new(known.bound.next(), end),
                    None => {
                        has_dropped |= first > 0;
                        bounds::Partition::new(first, end)
                    }
                };
                let origin = Arc::new(Origin { stream: listed.topic.clone(), shard: number.to_string() });
                partitions.push(Partition { number, origin, bound, is_open: false });
            }
            topics.push(Topic { name: listed.topic, partitions });
        }
        self.total += topics.iter().flat_map(|topic| &topic.partitions).map(|partition| partition.bound.left()).sum::<u64>();
        (self.topics, self.current, self.asked_last, self.has_new) = (topics, None, false, false);
        self.has_dropped = has_dropped;
        Ok(())
    }

    /// Takes the ends anew, as [`Scan::extend`](crate::source::scan::Scan::extend) does, with partitions that came meanwhile.
    ///
    /// # Errors
    /// The servers cannot be asked, or a topic was made again.
    pub fn extend(&mut self) -> Result<bool, Error> {
        self.take_ends().map(|()| true).map_err(not_pending)
    }

    /// Whether a partition does not have its first messages any more.
    pub fn has_dropped(&self) -> bool {
        self.has_dropped || self.has_lost
    }

    /// How many messages there were from the first to the last, with those that compaction or an aborted transaction removed.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether messages were lost before they could be read, or partitions came that were not read.
    pub fn is_incomplete(&self) -> bool {
        self.has_lost || self.has_new
    }

    fn cluster(&self) -> Cluster<'_, Context> {
        Cluster { consumer: &self.consumer, context: &self.context, address: &self.address, hears: self.current.is_none() }
    }

    /// The next messages, as [`Scan::read`](crate::source::scan::Scan::read) gives them.
    ///
    /// # Errors
    /// The servers are silent for a minute, a topic is gone or was made again, or messages were lost where that is to end the scan.
    pub fn read(&mut self, budget: usize) -> Result<Option<Page>, Error> {
        self.page(budget).map_err(not_pending)
    }

    fn page(&mut self, budget: usize) -> Result<Option<Page>, Error> {
        let (mut records, mut size) = (Vec::new(), 0);
        self.heard = Instant::now();
        while size < budget {
            if !self.is_reading() && !self.begin_next()? {
                break;
            }
            match self.next(if records.is_empty() { TURN } else { AT_HAND })? {
                Some(record) => {
                    size += record.data.len() + beside(&record) + size_of::<Record>();
                    records.push(record);
                }
                None if !records.is_empty() => break,
                None => {}
            }
        }
        if !records.is_empty() {
            return Ok(Some(Page { records, read: self.read }));
        }
        if !std::mem::replace(&mut self.asked_last, true) {
            self.tell_of_new_partitions();
        }
        Ok(None)
    }

    fn topic(&self) -> Option<&Topic> {
        self.current.and_then(|current| self.topics.get(current))
    }

    fn is_reading(&self) -> bool {
        self.topic().is_some_and(|topic| topic.open().next().is_some())
    }

    /// Begins with the next topic that has anything to read. One after the other: the end of a partition is told by its number alone.
    fn begin_next(&mut self) -> Result<bool, Error> {
        loop {
            let next = self.current.map_or(0, |current| current + 1);
            let Some(topic) = self.topics.get_mut(next) else { return Ok(false) };
            self.current = Some(next);
            topic.partitions.iter_mut().for_each(|partition| partition.is_open = !partition.bound.is_over());
            if self.is_reading() {
                self.assign_open()?;
                return Ok(true);
            }
        }
    }

    /// Reads the partitions that are not over, each from where it is.
    fn assign_open(&self) -> Result<(), Error> {
        let mut assigned = TopicPartitionList::new();
        for partition in self.topic().iter().flat_map(|topic| topic.open()) {
            let next = Offset::Offset(partition.bound.next());
            let added = assigned.add_partition_offset(&partition.origin.stream, partition.number, next);
            added.map_err(|error| self.failed(&error))?;
        }
        self.consumer.assign(&assigned).map_err(|error| self.failed(&error))?;
        // One that is gone on with was paused at its end.
        self.consumer.resume(&assigned).map_err(|error| self.failed(&error))
    }

    /// The next message that belongs to the scan; none where none came in time.
    fn next(&mut self, time: Duration) -> Result<Option<Record>, Error> {
        let polled = match self.consumer.poll(time) {
            None => None,
            Some(Ok(message)) => {
                let number = message.partition();
                let topic = self.current.and_then(|current| self.topics.get_mut(current));
                let open = topic.filter(|topic| topic.name == message.topic()).and_then(|topic| topic.open_of(number));
                Some(Ok(open.map(|partition| {
                    let is_within = partition.bound.came(message.offset());
                    (is_within.then(|| record(&message, Arc::clone(&partition.origin))), number, partition.bound.is_over())
                })))
            }
            Some(Err(error)) => Some(Err(error)),
        };
        match polled {
            None => self.look_at_the_time().map(|()| None),
            Some(Ok(None)) => Ok(None),
            Some(Ok(Some((record, number, is_over)))) => {
                self.heard = Instant::now();
                self.read += u64::from(record.is_some());
                if is_over {
                    self.end(number)?;
                }
                Ok(record)
            }
            Some(Err(KafkaError::PartitionEOF(number))) => {
                self.heard = Instant::now();
                self.end(number)?;
                Ok(None)
            }
            Some(Err(error)) => self.judge(&error).map(|()| None),
        }
    }

    /// A partition is over: nothing more of it is fetched.
    fn end(&mut self, number: i32) -> Result<(), Error> {
        let topic = self.current.and_then(|current| self.topics.get_mut(current));
        let Some(partition) = topic.and_then(|topic| topic.open_of(number)) else { return Ok(()) };
        partition.bound.no_more();
        partition.is_open = false;
        let mut over = TopicPartitionList::new();
        over.add_partition(&partition.origin.stream, number);
        self.consumer.pause(&over).map_err(|error| self.failed(&error))
    }

    /// An error of the consumer: what may pass is waited for.
    fn judge(&mut self, error: &KafkaError) -> Result<(), Error> {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset) {
            return self.look_for_what_is_gone();
        }
        match Failure::of(error) {
            Failure::Again { .. } if !matches!(error, KafkaError::MessageConsumptionFatal(_)) => self.look_at_the_time(),
            failure => Err(failure.error(&self.address)),
        }
    }

    /// An offset is out of range: the topic does not keep so old messages any more, or is another one.
    fn look_for_what_is_gone(&mut self) -> Result<(), Error> {
        let Some(topic) = self.topic() else { return Ok(()) };
        let (name, numbers) = (topic.name.clone(), topic.open().map(|partition| partition.number).collect::<Vec<_>>());
        for number in numbers {
            let (low, high) = self.cluster().ends(&name, number).map_err(|failure| failure.error(&self.address))?;
            let topic = self.current.and_then(|current| self.topics.get_mut(current));
            let Some(partition) = topic.and_then(|topic| topic.open_of(number)) else { continue };
            if partition.bound.next() > high {
                return Err(made_again(&name, number, partition.bound.next()));
            }
            let Some((from, to)) = partition.bound.begins(low) else { continue };
            let is_over = partition.bound.is_over();
            let what = format!("{name}-{number}: the messages from offset {from} to {} were removed before they could be read", to - 1);
            tracing::error!("data loss in {what}");
            self.has_lost = true;
            if self.stops_on_data_loss {
                let help = "on_data_loss = \"continue\" goes on with what there is";
                return Err(Error::new(Kind::Source, format!("data loss in {what}")).help(help));
            }
            if is_over {
                self.end(number)?;
            }
        }
        // A partition that stopped at an error cannot be sought in.
        self.assign_open()
    }

    fn look_at_the_time(&self) -> Result<(), Error> {
        if self.heard.elapsed() < SILENCE {
            return Ok(());
        }
        let why = self.context.trouble().map(|trouble| format!(": {}", trouble.what)).unwrap_or_default();
        let what = format!("source: {} did not answer for {} s{why}", self.address.servers.join(", "), SILENCE.as_secs());
        Err(Error::new(Kind::Source, what).help("nothing is lost: run the same command again when they do"))
    }

    /// Partitions that came meanwhile are not read, and not passed over in silence.
    fn tell_of_new_partitions(&mut self) {
        let now = match self.cluster().topics() {
            Ok(now) => now,
            Err(failure) => return tracing::warn!("it is not known whether partitions came meanwhile: {}", failure.what()),
        };
        for now in now {
            let then = self.topics.iter().find(|topic| topic.name == now.topic).map_or(0, |topic| topic.partitions.len());
            // Lossless: a number of partitions.
            if now.partitions > then as i32 {
                self.has_new = true;
                tracing::warn!(
                    "{} had {then} partitions and has {} now: those that came meanwhile were not read; run the same command again",
                    now.topic,
                    now.partitions
                );
            }
        }
    }

    fn failed(&self, error: &KafkaError) -> Error {
        self.cluster().failure(error).error(&self.address)
    }
}

/// What was read before an error of the source is delivered, which it would not be where the sink is what does not answer.
fn not_pending(error: Error) -> Error {
    if error.kind == Kind::Pending { Error { kind: Kind::Source, ..error } } else { error }
}

/// The error of a partition that ends before what was read of it.
fn made_again(topic: &str, number: i32, next: i64) -> Error {
    let what = format!("source: {topic}-{number} ends before the offset {next}, which it had: the topic was made again");
    Error::new(Kind::Source, what).help("run the same command again")
}

impl std::fmt::Debug for Topics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Topics").field("address", &self.address).field("topics", &self.topics.len()).finish_non_exhaustive()
    }
}
