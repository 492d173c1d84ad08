//! The container worker on Kafka: a member of a consumer group, all of whose partitions go through one line.
//!
//! Three that never wait for each other: the thread that polls (`polling`), which stays a member of the group whatever happens; this one,
//! which takes messages in and delivers them, and stands still while the sink is down; and one that has committed what is settled meanwhile. A
//! partition that is taken away is forgotten at once. Reads nothing by itself, and commits nothing that is not settled.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::assignment::Assignment;
use super::deliver::Deliver;
use super::polling::{News, Order, Page, Polling, Room};
use super::probe::probe;
use super::standing::{Phase, Standing};
use super::stopped;
use crate::error::{Error, Kind};
use crate::kafka::client::Context;
use crate::kafka::{Address, Properties, Topics};
use crate::panics::guard;
use crate::plan::checkpoint::Start;
use crate::record::Origin;
use crate::sink::Sink;
use crate::source::kafka::{Joining, Key, Member};

/// How often what is settled is committed.
const COMMITTED_EVERY: Duration = Duration::from_secs(2);
/// The least time that committing what was settled gets at the end, however short the grace time is.
const LEAST_FOR_COMMITTING: Duration = Duration::from_secs(2);

/// What a worker on Kafka is made of.
pub struct Consumer {
    /// The topics.
    pub address: Address,
    /// Properties of the client, as a person gave them.
    pub properties: Properties,
    /// What the client says, and its tokens.
    pub context: Context,
    /// The consumer group.
    pub group: String,
    /// Where a partition begins of which the group committed nothing.
    pub start: Start,
    /// The line, watched by `standing`.
    pub line: Deliver,
    /// The sink.
    pub sink: Arc<dyn Sink>,
    /// How things stand.
    pub standing: Arc<Standing>,
    /// How long what was read may take to be delivered after a stop signal.
    pub grace: Duration,
    /// Whether records that were lost before they could be read end the work.
    pub stops_on_data_loss: bool,
}

impl Consumer {
    /// Follows the topics until the stop signal; then delivers what was read, as far as the grace time allows, commits what is settled, and leaves
    /// the group.
    ///
    /// # Errors
    /// What a person has to put right and waiting does not help: a property that is not accepted, a topic that is not there at the start, two
    /// tables in one index, lost records where they are to end the work. What was settled is committed then too.
    pub async fn follow(self, mut stop: watch::Receiver<bool>) -> Result<(), Error> {
        let Self { address, properties, context, group, start, line, sink, standing, grace, stops_on_data_loss } = self;
        standing.state().has_streams = !matches!(&address.topics, Topics::Named(names) if names.len() == 1);
        let (tell, news) = unbounded_channel();
        let assignment = Arc::new(Assignment::new(Arc::clone(&standing), Arc::clone(&sink), tell.clone()));
        let shell = Arc::clone(&assignment);
        let member = Member::new(Joining { address: address.clone(), properties, context, group, start, shell })?;
        let room = Room::new(line.budget() / 4);
        let (orders, left) = Polling::start(member, address, Arc::clone(&assignment), room.clone(), tell, stops_on_data_loss);
        let (end, ends) = watch::channel(false);
        let probing = tokio::spawn(guard(probe(Arc::clone(&sink), Arc::clone(&standing), ends.clone())));
        let committing = tokio::spawn(guard(commit(Arc::clone(&assignment), Arc::clone(&sink), orders.clone(), ends)));
        let mut following = Following { line, news, assignment, standing, room, stops_on_data_loss };
        let ended = tokio::select! {
            biased;
            () = stopped(&mut stop) => Ok(()),
            ended = guard(following.follow()) => ended.unwrap_or_else(|panic| Err(Error::new(Kind::Bug, panic.reason))),
        };
        following.standing.state().phase = Phase::Stopping;
        tracing::info!("stopping: what was read is delivered, for {grace:?} at most");
        let _ = orders.send(Order::Stop);
        following.wind_up(grace).await;
        let _ = end.send(true);
        let _ = committing.await;
        probing.abort();
        following.leave(&orders, left, &sink, (grace / 5).max(LEAST_FOR_COMMITTING)).await;
        ended
    }
}

/// The part that delivers.
struct Following {
    line: Deliver,
    news: UnboundedReceiver<News>,
    assignment: Arc<Assignment>,
    standing: Arc<Standing>,
    room: Room,
    stops_on_data_loss: bool,
}

impl Following {
    async fn follow(&mut self) -> Result<(), Error> {
        loop {
            tokio::select! {
                biased;
                tended = self.line.tend() => tended?,
                Some(news) = self.news.recv() => self.hear(news).await?,
            }
        }
    }

    async fn hear(&mut self, news: News) -> Result<(), Error> {
        match news {
            News::Page(page) => return self.push(page).await,
            News::Begun(begun) => {
                self.forget(&begun.key);
                self.assignment.begin(&begun);
            }
            News::Left(key) => self.forget(&key),
            News::Lost(lost) => {
                let shard = format!("{}-{}", lost.key.0, lost.key.1);
                self.standing.lost_in(&shard, lost.cause, &lost.what, self.stops_on_data_loss)?;
            }
            News::Failed(error) => return Err(error),
        }
        Ok(())
    }

    /// What was read of a partition before is of no use any more.
    fn forget(&mut self, (topic, number): &Key) {
        let origin = Origin { stream: topic.clone(), shard: number.to_string() };
        self.line.forget(&origin);
        let mut state = self.standing.state();
        let name = state.name(&origin);
        state.shards.remove(&name);
    }

    async fn push(&mut self, page: Page) -> Result<(), Error> {
        let mut passed = 0;
        for of_one in page.records.chunk_by(|(one, _), (next, _)| one == next) {
            let mut last = None;
            for (generation, record) in of_one {
                passed += record.data.len();
                // It may be taken away at any time, also while the line waits for room.
                if !self.assignment.is_current(*generation) {
                    continue;
                }
                self.line.read_ahead(self.room.in_use().saturating_sub(passed));
                self.line.push(record).await?;
                last = Some((generation, record));
            }
            let Some((generation, record)) = last else { continue };
            // Before it counts as caught up: what is not settled has to be known.
            self.line.tell_standing();
            self.assignment.took(&record.position, record.arrived, *generation);
            if let Some(shard) = self.standing.state().shard(&record.origin) {
                shard.records += of_one.len() as u64;
            }
        }
        drop(page);
        self.line.read_ahead(self.room.in_use());
        Ok(())
    }

    /// Delivers what was taken in, within the time.
    async fn wind_up(&mut self, grace: Duration) {
        // A fifth of the time is kept for what is with the sink then, and another for committing what was settled.
        let finished = timeout(grace * 3 / 5, guard(self.line.finish())).await;
        if !matches!(finished, Ok(Ok(Ok(())))) {
            self.line.stop(grace / 5).await;
        }
        self.line.tell_standing();
    }

    /// Commits what was settled last, and leaves the group.
    async fn leave(&mut self, orders: &Sender<Order>, left: oneshot::Receiver<()>, sink: &Arc<dyn Sink>, time: Duration) {
        let settled = self.assignment.to_commit();
        let settled = match sink.finish().await {
            Ok(()) => settled,
            Err(error) => {
                tracing::warn!("{error}; what was settled since the last commit is read again, which changes nothing");
                Vec::new()
            }
        };
        let _ = orders.send(Order::Leave(settled));
        if timeout(time, left).await.is_err() && self.assignment.has_begun() {
            tracing::warn!("the group was not left in time: its other members wait for this one, until its session ends");
        }
    }
}

/// Has what is settled committed, until the end.
async fn commit(assignment: Arc<Assignment>, sink: Arc<dyn Sink>, orders: Sender<Order>, mut end: watch::Receiver<bool>) {
    let mut ticks = interval(COMMITTED_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut end) => return,
            _ = ticks.tick() => {}
        }
        let settled = assignment.to_commit();
        if settled.is_empty() {
            continue;
        }
        // What an offset says to be settled has to outlive the offset.
        match sink.finish().await {
            Ok(()) => drop(orders.send(Order::Commit(settled))),
            Err(error) => assignment.not_committed(&error.what),
        }
    }
}
