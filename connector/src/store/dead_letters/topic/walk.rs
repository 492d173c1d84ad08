//! Goes through a topic of dead letters: from where the last replay came to, up to the ends that the partitions have when it begins.
//!
//! Nothing can be taken out of a topic before its retention does. How far all letters have been sent again and settled is kept as the committed offsets
//! of the group `revsync-dead-letters.TOPIC`, and a walk begins there. What is no letter holds that back: it would be seen by nobody any more.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::{LetterTopic, PATIENCE, Stored};
use crate::error::Error;
use crate::kafka::client::Context;
use crate::kafka::headers;
use crate::store::dead_letters::copies::{Copies, Portion};
use crate::store::dead_letters::{Anew, DeadLetter, Entry, PORTION_BYTES, blocking, bucket};

/// How long one look for a message waits.
const LOOK: Duration = Duration::from_millis(200);
/// How many of them find nothing before the cluster counts as gone.
const LOOKS: u32 = 150;
/// Messages that wait in memory, in KiB.
const QUEUED: &str = "16384";

/// Where a copy of a letter is: the place of its partition, and its offset.
type Copy = (usize, i64);

/// Goes through a topic of dead letters.
#[derive(Debug)]
pub struct TopicWalk {
    topic: LetterTopic,
    /// None while it is worked with elsewhere.
    scan: Option<Scan>,
    copies: Copies<Copy>,
}

/// A partition on the way to its end.
#[derive(Debug)]
struct Partition {
    number: i32,
    /// The offset behind the last message that is looked at.
    end: i64,
    /// The offset behind what was read.
    read: i64,
    is_done: bool,
    /// What was read and may not be passed over yet, or only together with what is before it: whether it may.
    open: VecDeque<(i64, bool)>,
    /// From where the next walk would begin now.
    noted: i64,
}

impl Partition {
    /// From where the next walk has to begin.
    fn from(&self) -> i64 {
        self.open.front().map_or(self.read, |(offset, _)| *offset)
    }

    /// The message at an offset may be passed over.
    fn pass(&mut self, offset: i64) {
        if let Ok(at) = self.open.binary_search_by_key(&offset, |(offset, _)| *offset) {
            self.open[at].1 = true;
        }
        while self.open.pop_front_if(|(_, may_go)| *may_go).is_some() {}
    }
}

/// A consumer of no group's making, and how far it is in each partition.
struct Scan {
    topic: LetterTopic,
    consumer: BaseConsumer<Context>,
    partitions: Vec<Partition>,
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").field("partitions", &self.partitions).finish_non_exhaustive()
    }
}

/// A message that was read.
type Read = (Copy, Result<DeadLetter, String>);

impl TopicWalk {
    pub(in crate::store::dead_letters) async fn begin(topic: LetterTopic) -> Result<Self, Error> {
        let scanned = topic.clone();
        let scan = Some(blocking(move || Scan::begin(scanned)).await?);
        Ok(Self { topic, scan, copies: Copies::default() })
    }

    pub(in crate::store::dead_letters) async fn next(&mut self, most: usize) -> Result<Option<Vec<Entry>>, Error> {
        let mut portion = Portion::default();
        while portion.entries.len() < most && portion.bytes < PORTION_BYTES {
            let wanted = most - portion.entries.len();
            let read = self.with_scan(move |scan| scan.next(wanted)).await?;
            if read.is_empty() {
                break;
            }
            for (copy, letter) in read {
                match letter {
                    Ok(letter) => {
                        let left_over = portion.letter(letter, copy, &mut self.copies);
                        self.pass(left_over);
                    }
                    Err(reason) => {
                        let number = self.scan.as_ref().map_or(0, |scan| scan.partitions[copy.0].number);
                        portion.damaged(format!("partition {number} offset {}", copy.1), reason);
                    }
                }
            }
        }
        Ok((!portion.entries.is_empty()).then_some(portion.entries))
    }

    /// The whole of a letter that a message only points to.
    pub(in crate::store::dead_letters) async fn load(&self, letter: DeadLetter) -> Result<Result<DeadLetter, String>, Error> {
        bucket::load(self.topic.0.large.as_ref(), letter).await
    }

    /// Passes over letters, so that the next walk begins behind them where nothing is left before them.
    pub(in crate::store::dead_letters) async fn settle(&mut self, settled: &[String]) -> Result<usize, Error> {
        let copies: Vec<Vec<Copy>> = settled.iter().map(|id| self.copies.settle(id)).filter(|copies| !copies.is_empty()).collect();
        let letters = copies.len();
        self.pass(copies.into_iter().flatten());
        self.with_scan(Scan::commit).await?;
        Ok(letters)
    }

    /// What was stored anew stands at the end of the topic.
    pub(in crate::store::dead_letters) fn replace(&mut self, anew: &[Anew]) {
        let older: Vec<Copy> = anew.iter().flat_map(|Anew { id, moment }| self.copies.replace(id, *moment)).collect();
        self.pass(older);
    }

    fn pass(&mut self, copies: impl IntoIterator<Item = Copy>) {
        if let Some(scan) = &mut self.scan {
            copies.into_iter().for_each(|(partition, offset)| scan.partitions[partition].pass(offset));
        }
    }

    /// Leaves the cluster, which waits for it.
    pub(in crate::store::dead_letters) async fn end(mut self) -> Result<(), Error> {
        let scan = self.scan.take();
        blocking(move || {
            drop(scan);
            Ok(())
        })
        .await
    }

    /// Works with the scan where nothing else waits for it.
    async fn with_scan<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Scan) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let Some(mut scan) = self.scan.take() else { return Err(self.topic.error("cannot be read", "the walk was broken off")) };
        let (scan, worked) = blocking(move || {
            let worked = work(&mut scan);
            Ok((scan, worked))
        })
        .await?;
        self.scan = Some(scan);
        worked
    }
}

impl Scan {
    fn begin(topic: LetterTopic) -> Result<Self, Error> {
        let name = topic.0.at.name.clone();
        let group = format!("revsync-dead-letters.{name}");
        let own = [
            ("group.id", group.as_str()),
            ("enable.auto.commit", "false"),
            ("enable.partition.eof", "true"),
            ("auto.offset.reset", "earliest"),
            ("queued.max.messages.kbytes", QUEUED),
        ];
        let consumer: BaseConsumer<Context> = topic.made(&topic.config(&own)?)?;
        let numbers = topic.partitions(consumer.fetch_metadata(Some(&name), PATIENCE))?;
        let failed = |error: KafkaError| topic.failed("cannot be read", &error);
        let mut asked = TopicPartitionList::new();
        for number in &numbers {
            asked.add_partition(&name, *number);
        }
        let committed = coordinated(|| consumer.committed_offsets(asked.clone(), PATIENCE)).map_err(failed)?;
        let (mut partitions, mut assigned) = (Vec::new(), TopicPartitionList::new());
        for number in numbers {
            let (low, end) = consumer.fetch_watermarks(&name, number, PATIENCE).map_err(failed)?;
            let known = committed.find_partition(&name, number).and_then(|found| match found.offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            });
            // Where the topic was made anew, an offset of the one before means nothing.
            let begin = known.filter(|offset| (low..=end).contains(offset)).unwrap_or(low);
            if begin < end {
                assigned.add_partition_offset(&name, number, Offset::Offset(begin)).map_err(failed)?;
            }
            partitions.push(Partition { number, end, read: begin, is_done: begin >= end, open: VecDeque::new(), noted: begin });
        }
        consumer.assign(&assigned).map_err(failed)?;
        Ok(Self { topic, consumer, partitions })
    }

    /// Some more messages, in the order in which they come; none at the ends of all partitions.
    fn next(&mut self, most: usize) -> Result<Vec<Read>, Error> {
        let (mut read, mut bytes, mut idle) = (Vec::new(), 0, 0);
        while read.len() < most && bytes < PORTION_BYTES && !self.partitions.iter().all(|partition| partition.is_done) {
            let Self { topic, consumer, partitions } = self;
            let failed = |error: &KafkaError| Err(topic.failed("cannot be read", error));
            match consumer.poll(LOOK) {
                Some(Ok(message)) => {
                    idle = 0;
                    let Some(place) = partitions.iter().position(|known| known.number == message.partition()) else { continue };
                    let (partition, offset) = (&mut partitions[place], message.offset());
                    if partition.is_done || offset >= partition.end {
                        partition.read = partition.end;
                    } else {
                        partition.read = offset + 1;
                        partition.open.push_back((offset, false));
                        bytes += message.payload_len();
                        read.push(((place, offset), stored(&message).letter()));
                    }
                    if partition.read >= partition.end {
                        finish(consumer, &topic.0.at.name, partition);
                    }
                }
                Some(Err(KafkaError::PartitionEOF(number))) => {
                    idle = 0;
                    if let Some(partition) = partitions.iter_mut().find(|known| known.number == number) {
                        partition.read = partition.end;
                        finish(consumer, &topic.0.at.name, partition);
                    }
                }
                Some(Err(error)) if !passes(&error) => return failed(&error),
                None | Some(Err(_)) => {
                    idle += 1;
                    if idle > LOOKS {
                        return failed(&KafkaError::MessageConsumption(RDKafkaErrorCode::OperationTimedOut));
                    }
                }
            }
        }
        Ok(read)
    }

    /// Notes from where the next walk begins.
    fn commit(&mut self) -> Result<(), Error> {
        let name = &self.topic.0.at.name;
        let mut moved = TopicPartitionList::new();
        for partition in &mut self.partitions {
            let from = partition.from();
            if from > partition.noted && moved.add_partition_offset(name, partition.number, Offset::Offset(from)).is_ok() {
                partition.noted = from;
            }
        }
        if moved.count() == 0 {
            return Ok(());
        }
        coordinated(|| self.consumer.commit(&moved, CommitMode::Sync))
            .map_err(|error| self.topic.failed("keeps no note of what was sent again", &error))
    }
}

/// Asks the group's coordinator, which a cluster may have to find or to make ready first.
fn coordinated<T>(ask: impl Fn() -> Result<T, KafkaError>) -> Result<T, KafkaError> {
    let finding = [
        RDKafkaErrorCode::NotCoordinator,
        RDKafkaErrorCode::CoordinatorNotAvailable,
        RDKafkaErrorCode::CoordinatorLoadInProgress,
        RDKafkaErrorCode::WaitingForCoordinator,
    ];
    for _ in 0..LOOKS / 3 {
        match ask() {
            Err(error) if error.rdkafka_error_code().is_some_and(|code| finding.contains(&code)) => std::thread::sleep(LOOK),
            answered => return answered,
        }
    }
    ask()
}

/// Nothing more is wanted of a partition.
fn finish(consumer: &BaseConsumer<Context>, topic: &str, partition: &mut Partition) {
    if !std::mem::replace(&mut partition.is_done, true) {
        let mut one = TopicPartitionList::new();
        one.add_partition(topic, partition.number);
        // It would only be read for nothing.
        let _ = consumer.pause(&one);
    }
}

/// Whether it may pass by itself, as the loss of a broker does.
fn passes(error: &KafkaError) -> bool {
    let passing = [
        RDKafkaErrorCode::BrokerTransportFailure,
        RDKafkaErrorCode::AllBrokersDown,
        RDKafkaErrorCode::Resolve,
        RDKafkaErrorCode::OperationTimedOut,
        RDKafkaErrorCode::RequestTimedOut,
        RDKafkaErrorCode::LeaderNotAvailable,
        RDKafkaErrorCode::NotLeaderForPartition,
    ];
    error.rdkafka_error_code().is_some_and(|code| passing.contains(&code))
}

/// A message as it was stored.
fn stored(message: &BorrowedMessage<'_>) -> Stored {
    Stored {
        key: message.key().map(Bytes::copy_from_slice),
        value: message.payload().map(Bytes::copy_from_slice),
        headers: headers(message.headers()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_walk_begins_before_the_first_message_that_may_not_be_passed_over() {
        let open = [10, 12, 15].map(|offset| (offset, false)).into();
        let mut partition = Partition { number: 0, end: 20, read: 16, is_done: false, open, noted: 10 };
        partition.pass(12);
        assert_eq!(partition.from(), 10);
        partition.pass(10);
        assert_eq!(partition.from(), 15);
        partition.pass(11);
        partition.pass(15);
        assert_eq!(partition.from(), 16);
    }
}
