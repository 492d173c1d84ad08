//! A member of a consumer group: the messages of the partitions that the group gives it.
//!
//! Has to be polled all the time, whatever becomes of what it read: paused, it gives no messages, and stays a member. Commits what it is told to.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, RebalanceProtocol};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message as _;
use rdkafka::{Offset, TopicPartitionList};

use super::OWN;
use super::cluster::{Cluster, Failure};
use super::group::{Group, Held, Key, Shell, State};
use super::message::{beside, record};
use crate::error::Error;
use crate::kafka::client::{Context, config, refused};
use crate::kafka::{Address, Properties, Topics};
use crate::metrics::Loss;
use crate::plan::checkpoint::Start;
use crate::record::Record;

/// A partition of which so many statistics say that nothing is fetched has stopped at an error.
const STOPPED: u32 = 2;
/// How long one turn of leaving waits for what is to be heard.
const TURN: Duration = Duration::from_millis(10);

/// What a member is made of.
pub struct Joining {
    /// The topics.
    pub address: Address,
    /// Properties of the client, as a person gave them.
    pub properties: Properties,
    /// What the client says, and its tokens.
    pub context: Context,
    /// The group's name.
    pub group: String,
    /// Where a partition begins of which nothing is committed.
    pub start: Start,
    /// Who is told, and asked.
    pub shell: Arc<dyn Shell>,
}

/// A member of a group.
#[derive(Clone)]
pub struct Member(Arc<BaseConsumer<Group>>);

/// What polling came to.
#[derive(Debug)]
pub enum Polled {
    /// Nothing for whoever polls.
    Nothing,
    /// A message; how much memory it holds beside its value; which reading of its partition it is of.
    Message(Record, usize, u64),
    /// An offset is not there: it is to be [looked](Member::losses) for what was lost.
    OutOfRange,
    /// Something failed, and may pass.
    Trouble(Failure),
    /// Nothing more will come.
    Failed(Failure),
}

/// Messages that were lost before they could be read.
#[derive(Debug, Clone)]
pub struct Lost {
    /// The partition.
    pub key: Key,
    /// How.
    pub cause: Loss,
    /// In words.
    pub what: String,
    /// Where there is something to read again.
    goes_on_at: i64,
}

/// How far a partition is.
#[derive(Debug, Clone, Copy)]
pub struct Far {
    /// Which reading of it this is.
    pub generation: u64,
    /// The offset that comes next, or a later one where there are gaps.
    pub next: i64,
    /// Up to where nothing more was found.
    pub at_end: Option<i64>,
    /// The offset behind its last message.
    pub end: i64,
}

impl Member {
    /// A member that has not joined yet. Reaches nothing.
    ///
    /// # Errors
    /// A property is not accepted.
    pub fn new(joining: Joining) -> Result<Self, Error> {
        let Joining { address, properties, context, group, start, shell } = joining;
        let own = [&OWN[..], &[("group.id", group.as_str()), ("statistics.interval.ms", "1000")]].concat();
        let config = config(&address.bootstrap(), &properties, &own)?;
        let group = Group { context, address, start, shell, state: Mutex::new(State::default()) };
        let consumer: BaseConsumer<Group> = config.create_with_context(group).map_err(|error| refused(&error))?;
        Ok(Self(Arc::new(consumer)))
    }

    fn group(&self) -> &Group {
        self.0.context()
    }

    fn cluster(&self, hears: bool) -> Cluster<'_, Group> {
        let group = self.group();
        Cluster { consumer: &self.0, context: &group.context, address: &group.address, hears }
    }

    /// Looks whether the topics are there, before the group is joined.
    ///
    /// # Errors
    /// They are not, or it cannot be known.
    pub fn look(&self) -> Result<(), Failure> {
        self.cluster(true).topics().map(drop)
    }

    /// Joins the group; what it gives comes while it is polled.
    ///
    /// # Errors
    /// The pattern is none.
    pub fn join(&self) -> Result<(), Failure> {
        let topics: Vec<&str> = match &self.group().address.topics {
            Topics::Named(names) => names.iter().map(String::as_str).collect(),
            Topics::Pattern(pattern) => vec![pattern],
        };
        self.0.subscribe(&topics).map_err(|error| Failure::of(&error))
    }

    /// Leaves the group, for good: what it held is revoked, and the group's coordinator has confirmed that it left when this returns `true`, or it
    /// has not within `time`. A process that ends before may take the request with it, and the group then waits for its session to end.
    ///
    /// # Errors
    /// librdkafka cannot even try.
    pub fn leave(&self, time: Duration) -> Result<bool, Failure> {
        self.0.close_queue().map_err(|error| Failure::of(&error))?;
        let since = Instant::now();
        while !self.0.closed() {
            if since.elapsed() >= time {
                return Ok(false);
            }
            drop(self.0.poll(TURN));
        }
        Ok(true)
    }

    /// Waits for the next message, and for whatever else there is to be heard.
    pub fn poll(&self, time: Duration) -> Polled {
        if std::mem::take(&mut self.group().state().has_to_rejoin) {
            self.0.unsubscribe();
            if let Err(failure) = self.join() {
                return Polled::Failed(failure);
            }
        }
        match self.0.poll(time) {
            None | Some(Err(KafkaError::PartitionEOF(_))) => Polled::Nothing,
            Some(Ok(message)) => {
                let mut state = self.group().state();
                let Some(held) = state.held.get_mut(&(message.topic().to_owned(), message.partition())) else { return Polled::Nothing };
                held.next = message.offset() + 1;
                let record = record(&message, Arc::clone(&held.origin));
                let beside = beside(&record);
                Polled::Message(record, beside, held.generation)
            }
            Some(Err(error)) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset) => Polled::OutOfRange,
            Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => Polled::Failed(self.cluster(false).failure(&error)),
            Some(Err(error)) => Polled::Trouble(self.cluster(false).failure(&error)),
        }
    }

    /// Gives no message from now on, whatever comes; or does again.
    ///
    /// # Errors
    /// librdkafka knows of none.
    pub fn pause(&self, pauses: bool) -> Result<(), Failure> {
        let mut state = self.group().state();
        if std::mem::replace(&mut state.is_paused, pauses) == pauses {
            return Ok(());
        }
        let mut held = TopicPartitionList::new();
        for (topic, number) in state.held.keys() {
            held.add_partition(topic, *number);
        }
        drop(state);
        if held.count() == 0 {
            return Ok(());
        }
        let done = if pauses { self.0.pause(&held) } else { self.0.resume(&held) };
        done.map_err(|error| Failure::of(&error))
    }

    /// Commits offsets; whether that was done is told to the shell, while the member is polled.
    ///
    /// # Errors
    /// It cannot even be tried.
    pub fn commit(&self, settled: &[(Key, i64)]) -> Result<(), Failure> {
        self.committed(settled, CommitMode::Async)
    }

    /// Commits offsets, and waits until that is done.
    ///
    /// # Errors
    /// It was not.
    pub fn commit_and_wait(&self, settled: &[(Key, i64)]) -> Result<(), Failure> {
        self.committed(settled, CommitMode::Sync)
    }

    fn committed(&self, settled: &[(Key, i64)], mode: CommitMode) -> Result<(), Failure> {
        if settled.is_empty() {
            return Ok(());
        }
        let list = self.group().with_marks(settled)?;
        self.0.commit(&list, mode).map_err(|error| Failure::of(&error))
    }

    /// What was lost of the partitions that are held: their next offset is not there any more, or not yet, because the topic is another one. One
    /// that has grown past it again is known some seconds later only, by having stopped.
    ///
    /// # Errors
    /// It cannot be known now.
    pub fn losses(&self) -> Result<Vec<Lost>, Failure> {
        // Behind the last message there may be markers of transactions, which were passed too.
        let far = |held: &Held| (held.next, held.at_end.map_or(held.next, |at_end| at_end.max(held.next)), held.unfetched >= STOPPED);
        let held: Vec<(Key, (i64, i64, bool))> = self.group().state().held.iter().map(|(key, held)| (key.clone(), far(held))).collect();
        let mut lost = Vec::new();
        for (key, (next, passed, has_stopped)) in held {
            let (low, high) = self.cluster(false).ends(&key.0, key.1)?;
            if next < low {
                let what = format!("the messages from offset {next} to {} were removed before they were read", low - 1);
                lost.push(Lost { key, cause: Loss::Trimmed, what, goes_on_at: low });
            } else if passed > high {
                let what =
                    format!("it ends before offset {passed}, up to which it was read: the topic was made again, or its end was lost");
                lost.push(Lost { key, cause: Loss::Vanished, what, goes_on_at: low });
            } else if has_stopped {
                let what =
                    format!("it ended before offset {passed}, up to which it was read: the topic was made again, or its end was lost");
                lost.push(Lost { key, cause: Loss::Vanished, what, goes_on_at: low });
            }
        }
        Ok(lost)
    }

    /// Goes on where there is something to read, as a new reading of the partition, and commits that.
    ///
    /// # Errors
    /// It cannot now.
    pub fn go_on(&self, lost: &Lost) -> Result<(), Failure> {
        let Lost { key, goes_on_at, .. } = lost;
        let group = self.group();
        let (begun, held, is_paused) = {
            let mut state = group.state();
            let mark = state.held.get(key).and_then(|held| held.mark);
            let begun = state.hold(key, *goes_on_at, mark);
            (begun, state.held.iter().map(|(key, held)| (key.clone(), held.next)).collect::<Vec<_>>(), state.is_paused)
        };
        // A partition that stopped at an error cannot be sought in: it has to be assigned anew, and with it all, where not each can by itself.
        let assigned = match self.0.rebalance_protocol() {
            RebalanceProtocol::Cooperative => {
                let one = listed(&[(key.clone(), *goes_on_at)])?;
                self.0.incremental_unassign(&one).and_then(|()| self.0.incremental_assign(&one)).map(|()| one)
            }
            _ => {
                let all = listed(&held)?;
                self.0.assign(&all).map(|()| all)
            }
        };
        let assigned = assigned.map_err(|error| Failure::of(&error))?;
        if is_paused {
            self.0.pause(&assigned).map_err(|error| Failure::of(&error))?;
        }
        group.shell.assigned(vec![begun]);
        self.commit(&[(key.clone(), *goes_on_at)])
    }

    /// How far the partitions are that are held, and whether the topics are there. Called by another thread than the one that polls, which waits
    /// for no answer.
    ///
    /// # Errors
    /// It cannot be known now.
    pub fn survey(&self) -> Result<Vec<(Key, Far)>, Failure> {
        let cluster = self.cluster(false);
        cluster.topics()?;
        let keys: Vec<Key> = self.group().state().held.keys().cloned().collect();
        let mut found = Vec::new();
        for key in keys {
            let (_, end) = cluster.ends(&key.0, key.1)?;
            if let Some(held) = self.group().state().held.get(&key) {
                found.push((key, Far { generation: held.generation, next: held.next, at_end: held.at_end, end }));
            }
        }
        Ok(found)
    }
}

fn listed(begins: &[(Key, i64)]) -> Result<TopicPartitionList, Failure> {
    let mut list = TopicPartitionList::new();
    for ((topic, number), next) in begins {
        list.add_partition_offset(topic, *number, Offset::Offset(*next)).map_err(|error| Failure::of(&error))?;
    }
    Ok(list)
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").field("address", &self.group().address).finish_non_exhaustive()
    }
}
