//! The container worker: follows a stream for ever, all its shards through one line.
//!
//! Two halves that never wait for each other: this one takes pages in and delivers them, and stands still while the sink is down; the
//! [`keeper`](super::keeper) keeps leases and checkpoints meanwhile. A shard's pages go through the line in their order, and its end is told
//! only when everything of it is settled, so that its children come after it. Reads nothing by itself, and saves nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::clock;
use super::deliver::Deliver;
use super::keeper::{Keeper, Order, Told};
use super::probe::probe;
use super::reading::{News, Read, Reading, What};
use super::standing::{Phase, Shard, ShardPhase, Standing};
use super::stopped;
use crate::error::{Error, Kind};
use crate::panics::guard;
use crate::record::Origin;
use crate::sink::Sink;

/// The least time that saving what was settled gets at the end, however short the grace time is.
const LEAST_FOR_SAVING: Duration = Duration::from_secs(2);

/// What a worker is made of.
pub struct Worker {
    /// The line, watched by `standing`.
    pub line: Deliver,
    /// What reads the shards, and what it tells.
    pub reading: Reading,
    /// What `reading` tells.
    pub news: Receiver<News>,
    /// The sink, to ask whether it is there.
    pub sink: Arc<dyn Sink>,
    /// How things stand.
    pub standing: Arc<Standing>,
    /// How long what was read may take to be delivered after a stop signal.
    pub grace: Duration,
    /// Whether records that were lost before they could be read end the work.
    pub stops_on_data_loss: bool,
}

impl Worker {
    /// Follows the stream until the stop signal; then delivers what was read, as far as the grace time allows, and gives everything up
    /// to whoever goes on.
    ///
    /// # Errors
    /// What a person has to put right and waiting does not help: two tables in one index, a stream that is gone, checkpoints of a newer
    /// version, lost records where they are to end the work. What was settled is saved then too.
    pub async fn follow(self, keeper: Keeper, stop: watch::Receiver<bool>) -> Result<(), Error> {
        let (orders, ordered) = unbounded_channel();
        let (tell, told) = unbounded_channel();
        let (end, ends) = watch::channel(false);
        let (standing, sink, grace) = (Arc::clone(&self.standing), Arc::clone(&self.sink), self.grace);
        let mut keeping = tokio::spawn(guard(keeper.keep(orders, told, ends.clone())));
        let probing = tokio::spawn(guard(probe(sink, Arc::clone(&standing), ends)));
        let mut following = Following { worker: self, shards: HashMap::new(), tell };
        let mut stop_signal = stop;
        let (ended, kept) = tokio::select! {
            biased;
            () = stopped(&mut stop_signal) => (Ok(()), None),
            // It ends before it is told to only where it cannot go on.
            kept = &mut keeping => (Ok(()), Some(kept)),
            ended = guard(following.follow(ordered)) => (ended.unwrap_or_else(|panic| Err(Error::new(Kind::Bug, panic.reason))), None),
        };
        standing.state().phase = Phase::Stopping;
        tracing::info!("stopping: what was read is delivered, for {grace:?} at most");
        following.wind_up(grace).await;
        // What was settled last is saved, and the leases are given up.
        let _ = end.send(true);
        let kept = match kept {
            Some(kept) => kept,
            None => match timeout((grace / 5).max(LEAST_FOR_SAVING), &mut keeping).await {
                Ok(kept) => kept,
                Err(_) => {
                    keeping.abort();
                    tracing::warn!(
                        "what was settled last could not be saved in time; whoever goes on delivers it again, which changes nothing"
                    );
                    Ok(Ok(Ok(())))
                }
            },
        };
        probing.abort();
        let kept = kept.map_err(|_| Error::new(Kind::Bug, "the keeping of checkpoints was not finished"));
        let kept = kept.and_then(|kept| kept.unwrap_or_else(|panic| Err(Error::new(Kind::Bug, panic.reason))));
        ended.and(kept)
    }
}

/// The half that delivers.
struct Following {
    worker: Worker,
    /// The shards that are read, by their names.
    shards: HashMap<String, Followed>,
    tell: UnboundedSender<Told>,
}

/// A shard that is read.
#[derive(Debug)]
struct Followed {
    origin: Arc<Origin>,
    /// There is no more to read; it is over when everything is settled.
    at_its_end: bool,
}

impl Following {
    async fn follow(&mut self, mut orders: UnboundedReceiver<Order>) -> Result<(), Error> {
        loop {
            self.tell_ends();
            tokio::select! {
                biased;
                Some(order) = orders.recv() => self.obey(order),
                tended = self.worker.line.tend() => tended?,
                Some(news) = self.worker.news.recv() => self.take(news).await?,
            }
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Read { shard, origin, begin } => {
                self.worker.reading.read(&shard, begin);
                self.worker.standing.state().shards.insert(shard.clone(), Shard::new(ShardPhase::Reading));
                self.shards.insert(shard, Followed { origin, at_its_end: false });
            }
            Order::Leave { shard } => {
                self.worker.reading.stop(&shard);
                if let Some(followed) = self.shards.remove(&shard) {
                    self.worker.line.forget(&followed.origin);
                }
                self.worker.standing.state().shards.remove(&shard);
                let _ = self.tell.send(Told::Left { shard });
            }
        }
    }

    async fn take(&mut self, news: News) -> Result<(), Error> {
        // What an earlier reading of the shard read is of no use any more.
        if !self.worker.reading.heeds(&news) {
            return Ok(());
        }
        let shard = news.shard;
        match news.what {
            What::Page(read) => self.push(&shard, read).await?,
            What::Ended => {
                if let Some(followed) = self.shards.get_mut(&*shard) {
                    followed.at_its_end = true;
                }
            }
            What::Loss { cause, what } => self.worker.standing.lost_in(&shard, cause, &what, self.worker.stops_on_data_loss)?,
            What::Trouble { what, .. } => {
                let mut state = self.worker.standing.state();
                state.source.is_not(what.clone());
                if let Some(shard) = state.shards.get_mut(&*shard) {
                    shard.trouble = Some(what);
                }
            }
            What::Fine => {
                let mut state = self.worker.standing.state();
                state.source.is_there();
                if let Some(shard) = state.shards.get_mut(&*shard) {
                    shard.trouble = None;
                }
            }
            What::Failed(error) => return Err(error),
        }
        Ok(())
    }

    async fn push(&mut self, name: &str, read: Read) -> Result<(), Error> {
        let Worker { line, reading, standing, .. } = &mut self.worker;
        let asked = read.asked;
        let see = |records: usize| {
            let mut state = standing.state();
            state.source.is_there();
            if let Some(shard) = state.shards.get_mut(name) {
                shard.heard = Instant::now();
                shard.records += records as u64;
                shard.behind = read.page.behind.map(|behind| (behind, asked)).or(shard.behind);
            }
        };
        // Caught up is a shard only when what was read is with the line.
        if read.page.behind.is_some_and(|behind| !behind.is_zero()) {
            see(0);
        }
        let mut skip = read.page.skip_first_sub;
        let mut passed = 0;
        for record in &read.page.records {
            line.read_ahead(reading.room_in_use().saturating_sub(passed));
            line.push_after(record, skip.take()).await?;
            passed += record.data.len();
        }
        // Before it counts as caught up: what is not settled has to be known.
        line.tell_standing();
        see(read.page.records.len());
        if let (Some(behind), Some(shard)) = (read.page.behind, standing.state().shards.get_mut(name)) {
            // Lossless for the next 500 million years.
            shard.taken_in = Some(clock::millis().saturating_sub((asked.elapsed() + behind).as_millis() as u64));
        }
        drop(read);
        line.read_ahead(reading.room_in_use());
        Ok(())
    }

    /// Tells of the shards that are over: read to their end, and everything settled.
    fn tell_ends(&mut self) {
        let ledger = self.worker.line.ledger();
        let over = |(_, followed): &(&String, &Followed)| followed.at_its_end && ledger.is_settled_of(&followed.origin);
        let over: Vec<String> = self.shards.iter().filter(over).map(|(shard, _)| shard.clone()).collect();
        for shard in over {
            self.worker.reading.stop(&shard);
            if let Some(followed) = self.shards.remove(&shard) {
                self.worker.line.forget(&followed.origin);
            }
            let _ = self.tell.send(Told::Ended { shard });
        }
    }

    /// Delivers what was read, within the time.
    async fn wind_up(&mut self, grace: Duration) {
        self.worker.reading.stop_all();
        // A fifth of the time is kept for what is with the sink then, and another for saving what was settled.
        let finished = timeout(grace * 3 / 5, guard(self.worker.line.finish())).await;
        if !matches!(finished, Ok(Ok(Ok(())))) {
            self.worker.line.stop(grace / 5).await;
        }
        self.tell_ends();
    }
}
