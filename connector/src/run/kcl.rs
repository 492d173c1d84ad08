//! The line as a child of the MultiLangDaemon: takes the records of one shard as they are handed over, and asks for a checkpoint at what is settled
//! of them, and never beyond.
//!
//! The daemon waits for each answer. While the sink takes nothing it gets none, and so hands nothing more over: the records stay in the
//! stream. Reads no checkpoint and holds no lease, for both are the daemon's.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::backoff::Waits;
use super::deliver::Deliver;
use super::standing::{Phase, Shard, ShardPhase, Standing};
use super::stopped;
use crate::error::{Error, Kind};
use crate::plan::outcome::Class;
use crate::plan::retry::policy;
use crate::record::{Origin, Position};
use crate::source::multilang::{Answer, Daemon, Message, Page, Refused};

/// How often at least what is settled is checkpointed while a page is worked on.
const EVERY: Duration = Duration::from_secs(5);
/// How often a checkpoint that could not be stored is asked for before the next page is taken.
const TRIES: u32 = 4;
/// Longer than the linger: how long what the end of a shard brings may take to be settled before it is answered. What is settled later is
/// checkpointed with what comes next.
const PATIENCE: Duration = Duration::from_secs(2);
/// What a stop signal leaves the daemon beyond the time in which everything should be settled: to come to its own end, and to store a checkpoint.
const MARGIN: Duration = Duration::from_secs(5);

/// What the daemon does not say.
#[derive(Debug, Clone)]
pub struct Options {
    /// The stream's name or ARN, as positions name it.
    pub stream: String,
    /// How long an operation waits for others.
    pub linger: Duration,
    /// How long what was handed over may take to be settled when the end is near.
    pub grace: Duration,
}

/// Serves the daemon until it has gone, or until the time after a stop signal is over.
///
/// # Errors
/// What the daemon says cannot be understood, or what ends a line that goes on for ever.
pub async fn kcl(
    daemon: Daemon,
    deliver: &mut Deliver,
    standing: &Standing,
    options: Options,
    stop: watch::Receiver<bool>,
) -> Result<(), Error> {
    let (gone, grace) = (daemon.gone(), options.grace);
    let late = late(stop, grace + MARGIN);
    let mut child = Child { daemon, deliver, standing, options, shard: None, lost: false };
    let served = tokio::select! {
        biased;
        () = gone => Err(Ended::Gone),
        () = late => Err(Ended::Late),
        served = child.serve() => served,
    };
    match served {
        Ok(()) | Err(Ended::Gone) => {
            standing.state().phase = Phase::Stopping;
            deliver.stop(grace).await;
            Ok(())
        }
        Err(Ended::Late) => {
            tracing::warn!(
                "a stop signal came {grace:?} ago, and the MultiLangDaemon has not ended this shard since: its records come again"
            );
            deliver.abandon().await;
            Ok(())
        }
        Err(Ended::Failed(error)) => {
            deliver.stop(grace).await;
            Err(error)
        }
    }
}

/// So long after the stop signal.
async fn late(mut stop: watch::Receiver<bool>, grace: Duration) {
    stopped(&mut stop).await;
    sleep(grace).await;
}

/// Why the daemon is not served any more.
enum Ended {
    /// It does not listen, or says nothing more.
    Gone,
    /// The time after a stop signal is over.
    Late,
    Failed(Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

struct Child<'a> {
    daemon: Daemon,
    deliver: &'a mut Deliver,
    standing: &'a Standing,
    options: Options,
    shard: Option<Begun>,
    /// The lease is another's: no checkpoint can be taken any more.
    lost: bool,
}

/// A shard that was begun with.
struct Begun {
    origin: Arc<Origin>,
    /// The last position that the daemon took, and when that was.
    saved: Option<Position>,
    since: Instant,
}

impl Child<'_> {
    async fn serve(&mut self) -> Result<(), Ended> {
        while let Some(line) = self.next().await? {
            self.standing.state().source.is_there();
            let message = Message::read(&line)?;
            let Some(action) = message.action() else {
                let what =
                    "standard input: expected a request of the MultiLangDaemon, found an answer to a checkpoint that was not asked for";
                return Err(Error::new(Kind::Source, what).into());
            };
            match message {
                Message::Initialize { shard, from } => self.begin(shard, &from)?,
                Message::ProcessRecords(page) => self.process(page, line.len()).await?,
                Message::LeaseLost => self.lose().await,
                Message::ShardEnded => self.end().await?,
                Message::ShutdownRequested => self.come_to_an_end().await?,
                Message::Shutdown { reason } => match reason.as_str() {
                    "TERMINATE" | "SHARD_END" => self.end().await?,
                    "REQUESTED" => self.come_to_an_end().await?,
                    _ => self.lose().await,
                },
                Message::Checkpoint(_) => {}
            }
            // The next line may be as large.
            drop(line);
            self.say(&Answer::Status { response_for: action })?;
        }
        Ok(())
    }

    /// What the daemon says next. Meanwhile the line does what there is to do.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            tokio::select! {
                biased;
                line = self.daemon.next() => return line,
                tended = self.deliver.tend() => tended?,
            }
        }
    }

    fn say(&mut self, answer: &Answer<'_>) -> Result<(), Ended> {
        self.daemon.say(answer).map_err(|error| {
            tracing::info!("the MultiLangDaemon does not listen any more: {error}");
            Ended::Gone
        })
    }

    fn begin(&mut self, shard: String, from: &str) -> Result<(), Error> {
        if let Some(begun) = &self.shard {
            let what = format!("standard input: expected one shard, found {shard} after {}", begun.origin.shard);
            return Err(Error::new(Kind::Source, what).help("the MultiLangDaemon starts a child for each"));
        }
        tracing::info!("{shard}: begins after {from}");
        let mut state = self.standing.state();
        state.phase = Phase::Running;
        state.shards.insert(shard.clone(), Shard { is_handed_over: true, ..Shard::new(ShardPhase::Reading) });
        let origin = Arc::new(Origin { stream: self.options.stream.clone(), shard });
        self.shard = Some(Begun { origin, saved: None, since: Instant::now() });
        Ok(())
    }

    fn origin(&self) -> Result<Arc<Origin>, Error> {
        let what = "standard input: expected initialize, found another message before it";
        self.shard.as_ref().map(|begun| Arc::clone(&begun.origin)).ok_or_else(|| Error::new(Kind::Source, what))
    }

    /// Takes a page of records, which has so many bytes as a line.
    async fn process(&mut self, page: Page<'_>, bytes: usize) -> Result<(), Ended> {
        let origin = self.origin()?;
        if let Some(shard) = self.standing.state().shards.get_mut(&origin.shard) {
            shard.behind = page.behind.map(|behind| (behind, Instant::now()));
            shard.records += page.len() as u64;
        }
        self.deliver.read_ahead(bytes.min(self.deliver.budget() / 4));
        for record in page.records(&origin) {
            if self.shard.as_ref().is_some_and(|begun| begun.since.elapsed() >= EVERY) {
                self.checkpoint().await?;
            }
            self.deliver.push(&record).await?;
        }
        self.deliver.read_ahead(0);
        if page.behind.is_none_or(|behind| behind.is_zero()) {
            self.settle_until(Instant::now() + self.options.linger + PATIENCE).await?;
        }
        self.checkpoint().await
    }

    /// Sends what waits, and waits until everything is settled, but no longer than so.
    async fn settle_until(&mut self, until: Instant) -> Result<(), Error> {
        timeout_at(until, self.settle()).await.unwrap_or(Ok(()))
    }

    /// Sends what waits, and waits until everything is settled.
    async fn settle(&mut self) -> Result<(), Error> {
        if self.deliver.ledger().is_settled() {
            return Ok(());
        }
        self.deliver.flush().await?;
        while !self.deliver.ledger().is_settled() {
            self.deliver.tend().await?;
        }
        Ok(())
    }

    /// Has the position saved up to which everything is settled, where that has moved.
    async fn checkpoint(&mut self) -> Result<(), Ended> {
        let Some(begun) = self.shard.as_mut().filter(|_| !self.lost) else { return Ok(()) };
        let settled = self.deliver.ledger().checkpoint(&begun.origin);
        if settled == begun.saved.as_ref() {
            self.standing.saved([begun.origin.shard.as_str()]);
            return Ok(());
        }
        let settled = settled.cloned();
        begun.since = Instant::now();
        if self.save(settled.as_ref(), Some(TRIES)).await?
            && let Some(begun) = &mut self.shard
        {
            begun.saved = settled;
            self.standing.saved([begun.origin.shard.as_str()]);
        }
        Ok(())
    }

    /// Has a position saved, or the end of the shard. Whether the daemon took it.
    async fn save(&mut self, position: Option<&Position>, tries: Option<u32>) -> Result<bool, Ended> {
        let Some(answer) = Answer::checkpoint(position) else { return Ok(false) };
        if let Err(error) = self.deliver.make_durable().await {
            tracing::warn!("{error}; no checkpoint is asked for before that is over");
            return Ok(false);
        }
        let mut waits = Waits::new(policy(Class::Throttled));
        let mut tried = 0;
        loop {
            self.say(&answer)?;
            tried += 1;
            let Some(line) = self.next().await? else { return Err(Ended::Gone) };
            let Message::Checkpoint(said) = Message::read(&line)? else {
                let what = "standard input: expected what became of a checkpoint, found another message of the MultiLangDaemon";
                return Err(Error::new(Kind::Source, what).into());
            };
            match said {
                Ok(()) => {
                    self.standing.state().checkpoints.is_there();
                    return Ok(true);
                }
                Err(Refused::LeaseLost) => {
                    tracing::info!("another worker has the lease of this shard: nothing more of it is checkpointed here");
                    self.lost = true;
                    return Ok(false);
                }
                Err(Refused::Later(why)) if tries.is_none_or(|tries| tried < tries) => {
                    self.standing.state().checkpoints.is_not(why);
                    let until = Instant::now() + waits.next();
                    self.tend_until(until).await?;
                }
                Err(Refused::Later(why) | Refused::Never(why)) => {
                    tracing::warn!("the MultiLangDaemon did not take a checkpoint: {why}; the next one stands for it");
                    return Ok(false);
                }
            }
        }
    }

    async fn tend_until(&mut self, until: Instant) -> Result<(), Error> {
        loop {
            tokio::select! {
                biased;
                () = sleep_until(until) => return Ok(()),
                tended = self.deliver.tend() => tended?,
            }
        }
    }

    /// The shard is closed and all of it was handed over: its children may be read when all of it is settled, and not before.
    async fn end(&mut self) -> Result<(), Ended> {
        let origin = self.origin()?;
        self.settle().await?;
        if !self.lost && self.save(None, None).await? {
            tracing::info!("{}: ended, and all of it is settled", origin.shard);
            if let Some(shard) = self.standing.state().shards.get_mut(&origin.shard) {
                shard.phase = ShardPhase::Ended;
            }
        }
        Ok(())
    }

    /// The shard is another's, who reads again what is not settled.
    async fn lose(&mut self) {
        self.lost = true;
        if let Some(begun) = &self.shard {
            self.deliver.forget(&begun.origin);
            self.standing.state().shards.remove(&begun.origin.shard);
        }
        self.deliver.abandon().await;
    }

    /// The daemon stops: what can be settled soon is, and checkpointed.
    async fn come_to_an_end(&mut self) -> Result<(), Ended> {
        self.standing.state().phase = Phase::Stopping;
        self.settle_until(Instant::now() + self.options.grace).await?;
        self.checkpoint().await
    }
}
