//! What happens to a member when partitions are given to it and taken away: where each is begun with, and what is committed on its way out.
//!
//! Called by librdkafka while the member is polled, in the thread that polls it. Decides by itself where a partition begins, and never what is
//! settled: that is asked.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::statistics::Statistics;
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{Offset, TopicPartitionList};
use serde::Deserialize;

use super::cluster::{Cluster, Failure};
use super::mark::Mark;
use crate::kafka::Address;
use crate::kafka::client::{Context, why};
use crate::plan::checkpoint::Start;
use crate::record::Origin;

/// A partition: its topic and its number.
pub type Key = (String, i32);

/// What a member tells, and asks on the way. Called in the thread that polls it; nobody else polls meanwhile, so it has to be quick.
pub trait Shell: Send + Sync {
    /// These partitions are read from now on.
    fn assigned(&self, begun: Vec<Begun>);
    /// These partitions are taken away: gives the offsets to commit for them, each the one behind the last message up to which everything is
    /// settled. `lost`: somebody else may have them already, and nothing is committed.
    fn revoked(&self, partitions: &[Key], lost: bool) -> Vec<(Key, i64)>;
    /// Offsets were committed, or could not be: why.
    fn committed(&self, result: Result<&[(Key, i64)], String>);
    /// The partitions that came could not be begun with: why. It is tried again.
    fn hindered(&self, failure: &Failure);
    /// The time now, in milliseconds since 1970.
    fn now(&self) -> u64;
}

/// A partition that is read from now on.
#[derive(Debug, Clone)]
pub struct Begun {
    /// The partition.
    pub key: Key,
    /// What its records come from.
    pub origin: Arc<Origin>,
    /// The offset of the first message that is read.
    pub from: i64,
    /// Which reading of it this is: what an earlier one read is of no use any more.
    pub generation: u64,
}

/// The context of a member.
pub(super) struct Group {
    pub(super) context: Context,
    pub(super) address: Address,
    pub(super) start: Start,
    pub(super) shell: Arc<dyn Shell>,
    pub(super) state: Mutex<State>,
}

/// What a member knows of its partitions.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) held: HashMap<Key, Held>,
    pub(super) is_paused: bool,
    /// What came could not be begun with: the group has to be joined anew.
    pub(super) has_to_rejoin: bool,
    generations: u64,
}

/// A partition that is read.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) origin: Arc<Origin>,
    pub(super) generation: u64,
    /// The offset that comes next, or a later one where there are gaps.
    pub(super) next: i64,
    /// Up to where librdkafka found nothing more to read.
    pub(super) at_end: Option<i64>,
    /// How many statistics in a row had it that librdkafka fetches nothing of it: one is right after the beginning too.
    pub(super) unfetched: u32,
    pub(super) mark: Option<Mark>,
}

impl State {
    /// Holds a partition, from this offset on.
    pub(super) fn hold(&mut self, key: &Key, next: i64, mark: Option<Mark>) -> Begun {
        self.generations += 1;
        let origin = Arc::new(Origin { stream: key.0.clone(), shard: key.1.to_string() });
        let held = Held { origin: Arc::clone(&origin), generation: self.generations, next, at_end: None, unfetched: 0, mark };
        self.held.insert(key.clone(), held);
        Begun { key: key.clone(), origin, from: next, generation: self.generations }
    }
}

impl Group {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn assign(&self, consumer: &BaseConsumer<Self>, partitions: &TopicPartitionList) -> Result<(), Failure> {
        let keys = keys(partitions);
        let begins = self.begins(consumer, &keys)?;
        let mut assigned = TopicPartitionList::new();
        for ((topic, number), next, _) in &begins {
            added(assigned.add_partition_offset(topic, *number, Offset::Offset(*next)))?;
        }
        match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_assign(&assigned),
            _ => consumer.assign(&assigned),
        }
        .map_err(|error| Failure::of(&error))?;
        let mut state = self.state();
        // After a fetch of theirs may have begun: what it brings is thrown away by librdkafka.
        if state.is_paused && !keys.is_empty() {
            consumer.pause(&assigned).map_err(|error| Failure::of(&error))?;
        }
        let begun = begins.into_iter().map(|(key, next, mark)| state.hold(&key, next, mark)).collect();
        drop(state);
        self.shell.assigned(begun);
        Ok(())
    }

    /// Where partitions begin: behind what is committed, or else where the pipeline is to begin; that is committed then, so that it is the same
    /// the next time.
    fn begins(&self, consumer: &BaseConsumer<Self>, keys: &[Key]) -> Result<Vec<(Key, i64, Option<Mark>)>, Failure> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let cluster = Cluster { consumer, context: &self.context, address: &self.address, hears: false };
        let committed = cluster.committed(keys)?;
        let of = |key: &Key| committed.iter().find(|(known, ..)| known == key);
        let fresh: Vec<&Key> = keys.iter().filter(|key| of(key).is_none()).collect();
        let mut begins: Vec<(Key, i64, Option<Mark>)> = committed.clone();
        if fresh.is_empty() {
            return Ok(begins);
        }
        if self.start == Start::Earliest {
            for key in fresh {
                begins.push((key.clone(), cluster.ends(&key.0, key.1)?.0, None));
            }
            return Ok(begins);
        }
        let listed = cluster.topics()?;
        let all: Vec<Key> = listed.iter().flat_map(|listed| (0..listed.partitions).map(|number| (listed.topic.clone(), number))).collect();
        let of_the_group = cluster.committed(&all)?;
        let now = self.shell.now();
        for key in fresh {
            let of_the_topic = of_the_group.iter().filter(|((topic, _), ..)| *topic == key.0);
            let mark = of_the_topic.filter_map(|(.., mark)| *mark).find(|mark| key.1 < mark.partitions);
            let partitions = listed.iter().find(|listed| listed.topic == key.0).map_or(0, |listed| listed.partitions);
            let fresh_mark = Mark { begun: now, partitions };
            let (next, mark) = match (self.start, mark) {
                // It was there when the group began, and its member did not come to begin with it.
                (Start::Latest, Some(mark)) => (cluster.at(key, mark.begun)?, mark),
                (Start::Timestamp(time), Some(mark)) => (cluster.at(key, time)?, mark),
                // It came later: nothing of it is passed over.
                _ if !of_the_group.is_empty() => (cluster.ends(&key.0, key.1)?.0, fresh_mark),
                (Start::Timestamp(time), None) => (cluster.at(key, time)?, fresh_mark),
                _ => (cluster.ends(&key.0, key.1)?.1, fresh_mark),
            };
            begins.push((key.clone(), next, Some(mark)));
        }
        let fixed: Vec<(Key, i64, Option<Mark>)> = begins.iter().filter(|(key, ..)| of(key).is_none()).cloned().collect();
        consumer.commit(&offsets(&fixed)?, CommitMode::Sync).map_err(|error| cluster.failure(&error))?;
        Ok(begins)
    }

    fn revoke(&self, consumer: &BaseConsumer<Self>, partitions: &TopicPartitionList) {
        let (keys, lost) = (keys(partitions), consumer.assignment_lost());
        let settled = self.shell.revoked(&keys, lost);
        if !lost && !settled.is_empty() {
            let committed =
                self.with_marks(&settled).and_then(|list| consumer.commit(&list, CommitMode::Sync).map_err(|error| Failure::of(&error)));
            self.shell.committed(committed.map(|()| settled.as_slice()).map_err(|failure| failure.what().to_owned()));
        }
        let mut state = self.state();
        keys.iter().for_each(|key| drop(state.held.remove(key)));
    }

    /// A list to commit, each with the mark that the partition has.
    pub(super) fn with_marks(&self, settled: &[(Key, i64)]) -> Result<TopicPartitionList, Failure> {
        let state = self.state();
        let marked = |(key, next): &(Key, i64)| (key.clone(), *next, state.held.get(key).and_then(|held| held.mark));
        offsets(&settled.iter().map(marked).collect::<Vec<_>>())
    }
}

/// The partitions of a list.
fn keys(partitions: &TopicPartitionList) -> Vec<Key> {
    partitions.elements().iter().map(|partition| (partition.topic().to_owned(), partition.partition())).collect()
}

fn offsets(begins: &[(Key, i64, Option<Mark>)]) -> Result<TopicPartitionList, Failure> {
    let mut list = TopicPartitionList::new();
    for ((topic, number), next, mark) in begins {
        let mut partition = list.add_partition(topic, *number);
        added(partition.set_offset(Offset::Offset(*next)))?;
        if let Some(mark) = mark {
            partition.set_metadata(mark.to_string());
        }
    }
    Ok(list)
}

fn added(result: KafkaResult<()>) -> Result<(), Failure> {
    result.map_err(|error| Failure::of(&error))
}

impl ConsumerContext for Group {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, event: RDKafkaRespErr, partitions: &mut TopicPartitionList) {
        let done = if event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.assign(consumer, partitions).or_else(|failure| {
                // Nothing is read from where it should not be: whoever polls joins anew.
                self.shell.hindered(&failure);
                self.state().has_to_rejoin = true;
                match consumer.rebalance_protocol() {
                    RebalanceProtocol::Cooperative => Ok(()),
                    _ => consumer.unassign(),
                }
            })
        } else {
            self.revoke(consumer, partitions);
            match consumer.rebalance_protocol() {
                RebalanceProtocol::Cooperative => consumer.incremental_unassign(partitions),
                _ => consumer.unassign(),
            }
        };
        if let Err(error) = done {
            self.shell.hindered(&Failure::Again { what: error.to_string() });
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, offsets: &TopicPartitionList) {
        let of = |partition: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| match (partition.offset(), partition.error()) {
            (Offset::Offset(next), Ok(())) => Some(((partition.topic().to_owned(), partition.partition()), next)),
            _ => None,
        };
        let committed: Vec<(Key, i64)> = offsets.elements().iter().filter_map(of).collect();
        match result {
            Ok(()) => self.shell.committed(Ok(&committed)),
            // There was nothing to commit.
            Err(KafkaError::ConsumerCommit(rdkafka::error::RDKafkaErrorCode::NoOffset)) => {}
            Err(error) => self.shell.committed(Err(why(&error))),
        }
    }
}

/// What is read of librdkafka's statistics (librdkafka, `STATISTICS.md`).
#[derive(Deserialize)]
struct Told {
    topics: HashMap<String, ToldOfTopic>,
}

#[derive(Deserialize)]
struct ToldOfTopic {
    partitions: HashMap<String, ToldOfPartition>,
}

#[derive(Deserialize)]
struct ToldOfPartition {
    partition: i32,
    /// Where the next fetch begins.
    next_offset: i64,
    /// Where the last end was found; an earlier one, where reading went on since.
    eof_offset: i64,
    /// What is done to fetch it, `none` where nothing is.
    fetch_state: String,
}

impl ClientContext for Group {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        self.context.log(level, facility, text);
    }

    fn stats(&self, _: Statistics) {}

    fn stats_raw(&self, statistics: &[u8]) {
        let Ok(told) = serde_json::from_slice::<Told>(statistics) else { return };
        let mut state = self.state();
        for (topic, of_topic) in told.topics {
            for ToldOfPartition { partition, next_offset, eof_offset, fetch_state } in of_topic.partitions.into_values() {
                if let Some(held) = state.held.get_mut(&(topic.clone(), partition)) {
                    held.at_end = (eof_offset == next_offset).then_some(eof_offset);
                    held.unfetched = if fetch_state == "none" { held.unfetched + 1 } else { 0 };
                }
            }
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.context.error(error, reason);
    }

    fn generate_oauth_token(&self, configuration: Option<&str>) -> Result<OAuthToken, Box<dyn StdError>> {
        self.context.generate_oauth_token(configuration)
    }
}
