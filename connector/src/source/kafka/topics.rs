//! A scan of topics: every partition from its first offset to the end that it had when the scan began.
//!
//! A partition is over when its position reaches that end, or when the server says that there is no more: never because a certain message came,
//! which compaction or an aborted transaction may have removed. Joins no group, and commits nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message as _;
use rdkafka::{Offset, TopicPartitionList};

use super::OWN;
use super::cluster::{Cluster, Failure, Listed};
use super::message::{beside, record};
use crate::error::{Error, Kind};
use crate::kafka::client::{Context, config, refused};
use crate::kafka::{Address, Properties};
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
    listed: Vec<Listed>,
    /// The partitions of topics that are not begun with; of the one that is read, those that are not over.
    waiting: Vec<(String, Vec<Partition>)>,
    current: Option<String>,
    open: HashMap<i32, Partition>,
    total: u64,
    read: u64,
    /// Whether messages were lost before they could be read, or partitions came that were not read.
    is_incomplete: bool,
    heard: Instant,
    asked_last: bool,
}

#[derive(Debug)]
struct Partition {
    number: i32,
    origin: Arc<Origin>,
    /// The offset that comes next, or a later one where there are gaps.
    next: i64,
    /// The offset behind the last that is read.
    end: i64,
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
            listed: Vec::new(),
            waiting: Vec::new(),
            current: None,
            open: HashMap::new(),
            total: 0,
            read: 0,
            is_incomplete: false,
            heard: Instant::now(),
            asked_last: false,
        };
        let failed = |failure: Failure| failure.error(address);
        scan.listed = scan.cluster().topics().map_err(failed)?;
        for Listed { topic, partitions } in scan.listed.clone() {
            let mut open = Vec::new();
            for number in 0..partitions {
                let (next, end) = scan.cluster().ends(&topic, number).map_err(failed)?;
                scan.total += u64::try_from(end - next).unwrap_or_default();
                let origin = Arc::new(Origin { stream: topic.clone(), shard: number.to_string() });
                if next < end {
                    open.push(Partition { number, origin, next, end });
                }
            }
            scan.waiting.push((topic, open));
        }
        // Taken from behind.
        scan.waiting.reverse();
        Ok(scan)
    }

    /// How many messages there were from the first to the last, with those that compaction or an aborted transaction removed.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether messages were lost before they could be read, or partitions came that were not read.
    pub fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    fn cluster(&self) -> Cluster<'_, Context> {
        Cluster { consumer: &self.consumer, context: &self.context, address: &self.address, hears: self.current.is_none() }
    }

    /// The next messages, as [`Scan::read`](crate::source::scan::Scan::read) gives them.
    ///
    /// # Errors
    /// The servers are silent for a minute, a topic is gone or was made again, or messages were lost where that is to end the scan.
    pub fn read(&mut self, budget: usize) -> Result<Option<Page>, Error> {
        // What was read before is delivered, which it would not be where the sink is what does not answer.
        self.page(budget).map_err(|error| if error.kind == Kind::Pending { Error { kind: Kind::Source, ..error } } else { error })
    }

    fn page(&mut self, budget: usize) -> Result<Option<Page>, Error> {
        let (mut records, mut size) = (Vec::new(), 0);
        self.heard = Instant::now();
        while size < budget {
            if self.open.is_empty() && !self.begin_next()? {
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

    /// Begins with the next topic that has anything to read. One after the other: the end of a partition is told by its number alone.
    fn begin_next(&mut self) -> Result<bool, Error> {
        while let Some((topic, partitions)) = self.waiting.pop() {
            if !partitions.is_empty() {
                self.open = partitions.into_iter().map(|partition| (partition.number, partition)).collect();
                self.current = Some(topic);
                self.assign_open()?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the partitions that are not over, each from where it is.
    fn assign_open(&self) -> Result<(), Error> {
        let mut assigned = TopicPartitionList::new();
        for partition in self.open.values() {
            let added = assigned.add_partition_offset(&partition.origin.stream, partition.number, Offset::Offset(partition.next));
            added.map_err(|error| self.failed(&error))?;
        }
        self.consumer.assign(&assigned).map_err(|error| self.failed(&error))
    }

    /// The next message that belongs to the scan; none where none came in time.
    fn next(&mut self, time: Duration) -> Result<Option<Record>, Error> {
        let polled = match self.consumer.poll(time) {
            None => None,
            Some(Ok(message)) => {
                let number = message.partition();
                let open = self.open.get_mut(&number).filter(|_| self.current.as_deref() == Some(message.topic()));
                Some(Ok(open.map(|partition| {
                    partition.next = message.offset() + 1;
                    let is_within = message.offset() < partition.end;
                    (is_within.then(|| record(&message, Arc::clone(&partition.origin))), number, partition.next >= partition.end)
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
        let Some(partition) = self.open.remove(&number) else { return Ok(()) };
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
        let numbers: Vec<i32> = self.open.keys().copied().collect();
        for number in numbers {
            let Some(topic) = &self.current else { return Ok(()) };
            let (low, high) = self.cluster().ends(topic, number).map_err(|failure| failure.error(&self.address))?;
            let Some(partition) = self.open.get_mut(&number) else { continue };
            let at = format!("{topic}-{number}");
            if partition.next > high {
                let what = format!("source: {at} ends before the offset {}, which it had: the topic was made again", partition.next);
                return Err(Error::new(Kind::Source, what).help("run the same command again"));
            }
            if partition.next >= low {
                continue;
            }
            let (from, to) = (partition.next, low.min(partition.end));
            let what = format!("{at}: the messages from offset {from} to {} were removed before they could be read", to - 1);
            tracing::error!("data loss in {what}");
            self.is_incomplete = true;
            if self.stops_on_data_loss {
                let help = "on_data_loss = \"continue\" goes on with what there is";
                return Err(Error::new(Kind::Source, format!("data loss in {what}")).help(help));
            }
            partition.next = to;
            if to >= partition.end {
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
        for Listed { topic, partitions } in now {
            let then = self.listed.iter().find(|listed| listed.topic == topic).map_or(0, |listed| listed.partitions);
            if partitions > then {
                self.is_incomplete = true;
                tracing::warn!(
                    "{topic} had {then} partitions and has {partitions} now: those that came meanwhile were not read; sync again"
                );
            }
        }
    }

    fn failed(&self, error: &KafkaError) -> Error {
        self.cluster().failure(error).error(&self.address)
    }
}

impl std::fmt::Debug for Topics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Topics").field("address", &self.address).field("open", &self.open.len()).finish_non_exhaustive()
    }
}
