//! Keeps the leases of a stream's shards and saves how far each is settled, beside the line that delivers them.
//!
//! Decides with [`plan::shards`](crate::plan::shards) what may be read, and orders it from the worker; hears from it what is over. Goes on
//! while the line stands still, so that nobody takes over from a worker whose sink is down. Never saves what is not settled, and never lets
//! a shard be read by two generations of this process at once: one that was lost is taken again only when the worker has left it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::clock;
use super::leases::Leases;
use super::notices::Notices;
use super::standing::{Phase, Shard, ShardPhase, Standing};
use super::stopped;
use crate::error::{Error, Kind};
use crate::metrics::Loss;
use crate::plan::checkpoint::{Begin, Checkpoint, Progress, Start};
use crate::plan::lease::Held;
use crate::plan::shards::{self, Listed, Plan};
use crate::record::Origin;
use crate::sink::Sink;
use crate::source::kinesis::{Failure, Kinesis};

/// What the worker is to do.
#[derive(Debug)]
pub enum Order {
    /// Read a shard that is ours now.
    Read {
        /// Its name.
        shard: String,
        /// What its records come from.
        origin: Arc<Origin>,
        /// Where reading begins.
        begin: Begin,
    },
    /// Leave a shard that is not ours any more.
    Leave {
        /// Its name.
        shard: String,
    },
}

/// What the worker tells.
#[derive(Debug)]
pub enum Told {
    /// A shard was read to its end, and everything of it is settled.
    Ended {
        /// Its name.
        shard: String,
    },
    /// A shard was left, as ordered.
    Left {
        /// Its name.
        shard: String,
    },
}

/// Keeps leases and checkpoints.
pub struct Keeper {
    /// The stream, to ask for its shards.
    pub stream: Arc<Kinesis>,
    /// The leases of this process.
    pub leases: Leases,
    /// How things stand: the settled positions come from here.
    pub standing: Arc<Standing>,
    /// The sink, whose indices are saved with the positions.
    pub sink: Arc<dyn Sink>,
    /// Where shards begin of which nothing is saved.
    pub start: Start,
    /// How often leases are renewed and positions are saved: a fraction of the time after which others take over.
    pub every: Duration,
    /// Whether records that were lost before they could be read end the work.
    pub stops_on_data_loss: bool,
}

/// What a keeper knows while it keeps.
struct Keeping {
    keeper: Keeper,
    orders: UnboundedSender<Order>,
    end: watch::Receiver<bool>,
    /// Our shards, and what was saved of each last.
    ours: HashMap<String, Checkpoint>,
    /// Shards that the worker was told to leave and has not left.
    leaving: HashSet<String>,
    /// Shards that are over, and not saved as that yet.
    over: HashSet<String>,
    listed: Vec<Listed>,
    /// When the stream is asked for its shards again.
    list_at: Instant,
    began: bool,
    notices: Notices,
}

/// How often the stream is asked for its shards while nothing says that they changed.
const LIST: Duration = Duration::from_secs(30);

impl Keeper {
    /// Keeps until it is told to end; then saves what is settled and gives up its leases.
    ///
    /// # Errors
    /// What waiting does not help: checkpoints of a newer version, a stream that is gone, lost records where they are to end the work.
    pub async fn keep(
        self,
        orders: UnboundedSender<Order>,
        mut told: UnboundedReceiver<Told>,
        end: watch::Receiver<bool>,
    ) -> Result<(), Error> {
        let mut keeping = Keeping {
            keeper: self,
            orders,
            end,
            ours: HashMap::new(),
            leaving: HashSet::new(),
            over: HashSet::new(),
            listed: Vec::new(),
            list_at: Instant::now(),
            began: false,
            notices: Notices::default(),
        };
        let error = loop {
            if let Err(error) = keeping.round().await
                && !keeping.passes(&error)
            {
                break error;
            }
            let wait = sleep(keeping.keeper.every);
            tokio::pin!(wait);
            loop {
                tokio::select! {
                    biased;
                    () = stopped(&mut keeping.end) => {
                        while let Ok(told) = told.try_recv() {
                            keeping.hear(told);
                        }
                        keeping.wind_up().await;
                        return Ok(());
                    }
                    Some(told) = told.recv() => {
                        // Its children wait for nothing else.
                        if keeping.hear(told) { break }
                    }
                    () = &mut wait => break,
                }
            }
        };
        keeping.wind_up().await;
        Err(error)
    }
}

impl Keeping {
    /// Renews, saves, looks around, and takes what may be read.
    async fn round(&mut self) -> Result<(), Error> {
        self.save().await?;
        self.keeper.leases.look().await?;
        self.keeper.standing.state().checkpoints.is_there();
        // Before the stream is asked: a shard that another one began with after that is not missing.
        let rows = self.keeper.leases.rows();
        let is_fresh = self.list_at <= Instant::now() && self.list().await?;
        // Of a stream that could not be asked yet nothing is known.
        if self.listed.is_empty() || *self.end.borrow() {
            return Ok(());
        }
        let others: HashSet<&str> =
            rows.iter().filter(|(.., held)| matches!(held, Held::Other { .. })).map(|(shard, ..)| shard.as_str()).collect();
        let saved: BTreeMap<String, Checkpoint> = rows.iter().map(|(shard, checkpoint, _)| (shard.clone(), checkpoint.clone())).collect();
        let plan = shards::plan(&self.listed, &saved, self.keeper.start, clock::millis());
        self.begin(&saved)?;
        // What is ours by its row and is not read is what was taken when something else went wrong.
        let is_idle = |shard: &str| !others.contains(shard) && !self.ours.contains_key(shard) && !self.leaving.contains(shard);
        // While the stream was asked another one may have taken a shard, gone on with it and let it go.
        let now: BTreeMap<String, Checkpoint> =
            self.keeper.leases.rows().into_iter().map(|(shard, checkpoint, _)| (shard, checkpoint)).collect();
        let is_as_planned = |shard: &str| is_idle(shard) && now.get(shard) == saved.get(shard);
        let wanted: Vec<(String, Begin)> = plan.read.iter().filter(|(shard, _)| is_as_planned(shard)).cloned().collect();
        let vanished: Vec<String> = plan.vanished.iter().filter(|shard| is_as_planned(shard)).cloned().collect();
        let removable: Vec<String> = plan.removable.iter().filter(|shard| is_idle(shard)).cloned().collect();
        self.take(wanted, &saved).await?;
        if is_fresh {
            self.clean(&vanished, &removable, &saved).await?;
        } else if !vanished.is_empty() {
            self.list_at = Instant::now();
        }
        self.tell(&plan);
        Ok(())
    }

    /// Asks the stream for its shards; what it said before holds where it cannot be asked. Whether it answered.
    async fn list(&mut self) -> Result<bool, Error> {
        let stream = Arc::clone(&self.keeper.stream);
        let mut answer = pin!(stream.shards());
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut answer => break answer,
                () = stopped(&mut self.end) => return Ok(false),
                // It may take longer than others wait for a sign of us.
                () = sleep(self.keeper.every) => self.save().await?,
            }
        };
        match answer {
            Ok(listed) => {
                self.listed = listed;
                self.list_at = Instant::now() + LIST;
                self.keeper.standing.state().source.is_there();
                Ok(true)
            }
            Err(Failure::Gone { .. }) => Err(self.keeper.stream.gone()),
            Err(Failure::Again { what, .. }) => {
                if self.notices.is_due(&what) {
                    tracing::warn!("{} cannot be asked for its shards: {what}; trying again", self.keeper.stream.described());
                }
                self.keeper.standing.state().source.is_not(what);
                Ok(false)
            }
        }
    }

    /// The first look: what was known of the indices, and whether this is the stream that it was.
    fn begin(&mut self, saved: &BTreeMap<String, Checkpoint>) -> Result<(), Error> {
        if std::mem::replace(&mut self.began, true) {
            return Ok(());
        }
        let again = shards::made_again(&self.listed, saved);
        if let Some(shard) = again.first() {
            let what = format!("{shard} is saved as read to its end and closed, and is open: the stream was deleted and made again");
            return Err(Error::new(Kind::Source, what)
                .help("to read the new stream, forget the old one's checkpoints: revsync checkpoints rewind earliest, or another --name"));
        }
        Ok(())
    }

    /// Takes what may be read, as far as it can be had.
    async fn take(&mut self, wanted: Vec<(String, Begin)>, saved: &BTreeMap<String, Checkpoint>) -> Result<(), Error> {
        if wanted.is_empty() {
            return Ok(());
        }
        let taken: Vec<(String, Checkpoint)> = wanted
            .iter()
            .map(|(shard, begin)| {
                let new = || Checkpoint { progress: Progress::Begins(begin.clone()), covered: None, targets: BTreeMap::new() };
                (shard.clone(), saved.get(shard).cloned().unwrap_or_else(new))
            })
            .collect();
        let got = self.keeper.leases.take(&taken).await?;
        for ((shard, checkpoint), (_, begin)) in taken.into_iter().zip(wanted) {
            if !got.contains(&shard) {
                continue;
            }
            // Whoever had it before us may have gone on since the indices were asked for.
            self.keeper.sink.expecting(&checkpoint.targets);
            self.tell_age(&shard, &checkpoint)?;
            let origin = Arc::new(Origin { stream: self.keeper.stream.arn().to_owned(), shard: shard.clone() });
            self.ours.insert(shard.clone(), checkpoint);
            // How far it was when it was ours before is not how far it is now.
            self.keeper.standing.state().shards.remove(&shard);
            let _ = self.orders.send(Order::Read { shard, origin, begin });
        }
        Ok(())
    }

    /// Says what may have been lost because the stream does not keep its records for so long.
    fn tell_age(&self, shard: &str, checkpoint: &Checkpoint) -> Result<(), Error> {
        let Some(covered) = checkpoint.covered else { return Ok(()) };
        let Some(lost) = shards::lost_to_age(covered, self.keeper.stream.retention(), clock::millis()) else { return Ok(()) };
        let hours = lost.as_secs_f64() / 3_600.0;
        self.lost(
            shard,
            Loss::Trimmed,
            &format!("what was written in the first {hours:.1} hours after its checkpoint may not be kept any more"),
        )
    }

    fn lost(&self, shard: &str, cause: Loss, what: &str) -> Result<(), Error> {
        tracing::error!(%shard, "records were lost before they were read: {what}");
        self.keeper.standing.lost_in(shard, cause, what, self.keeper.stops_on_data_loss)
    }

    /// Ends what is gone, once, and removes what nobody needs any more.
    async fn clean(&mut self, vanished: &[String], removable: &[String], saved: &BTreeMap<String, Checkpoint>) -> Result<(), Error> {
        if !vanished.is_empty() {
            let rows = vanished.iter().filter_map(|shard| Some((shard.clone(), saved.get(shard)?.clone()))).collect::<Vec<_>>();
            let taken = self.keeper.leases.take(&rows).await?;
            let mut ended = rows;
            ended.retain(|(shard, _)| taken.contains(shard));
            ended.iter_mut().for_each(|(_, checkpoint)| checkpoint.progress = Progress::Ended);
            let mut lost = self.keeper.leases.save(&ended).await?;
            ended.retain(|(shard, _)| !lost.contains(shard));
            lost.retain(|shard| !taken.contains(shard));
            self.leave(lost);
            for (shard, _) in ended {
                self.lost(&shard, Loss::Vanished, "the stream does not have it any more, and it was not read to its end")?;
            }
        }
        if !removable.is_empty() {
            self.keeper.leases.remove(removable).await?;
        }
        Ok(())
    }

    /// Saves how far everything is settled, and with it renews the leases.
    async fn save(&mut self) -> Result<(), Error> {
        if self.ours.is_empty() {
            return Ok(());
        }
        let (now, targets) = (clock::millis(), self.keeper.sink.targets());
        let mut changed: Vec<(String, Checkpoint)> = Vec::new();
        {
            let state = self.keeper.standing.state();
            for (shard, saved) in &self.ours {
                let mut next = saved.clone();
                if self.over.contains(shard) {
                    next.progress = Progress::Ended;
                } else if let Some(standing) = state.shards.get(shard) {
                    if let Some(settled) = &standing.settled {
                        next.progress = Progress::Settled(settled.position.clone());
                    }
                    // What was settled once stays so, but for a clock that was ahead.
                    next.covered = standing.covered().max(next.covered.filter(|covered| *covered <= now));
                }
                next.targets.extend(targets.clone());
                if next != *saved {
                    changed.push((shard.clone(), next));
                }
            }
        }
        if !changed.is_empty() {
            // What a position says to be settled has to outlive what saves the position.
            self.keeper.sink.finish().await?;
        }
        let lost = self.keeper.leases.save(&changed).await?;
        self.keeper.standing.state().checkpoints.is_there();
        self.keeper.standing.saved(self.ours.keys().map(String::as_str));
        for (shard, checkpoint) in changed {
            if !lost.contains(&shard) {
                self.ours.insert(shard, checkpoint);
            }
        }
        self.leave(lost);
        for shard in std::mem::take(&mut self.over) {
            tracing::info!(%shard, "read to its end, and everything is settled");
            self.ours.remove(&shard);
            // Its children may be new.
            self.list_at = Instant::now();
        }
        Ok(())
    }

    /// Leaves what is not ours any more.
    fn leave(&mut self, lost: Vec<String>) {
        for shard in lost {
            tracing::warn!(%shard, "another one reads this shard now; leaving it");
            self.ours.remove(&shard);
            self.over.remove(&shard);
            self.leaving.insert(shard.clone());
            let _ = self.orders.send(Order::Leave { shard });
        }
    }

    /// Hears the worker; says whether there is something to do at once.
    fn hear(&mut self, told: Told) -> bool {
        match told {
            Told::Ended { shard } => self.ours.contains_key(&shard) && self.over.insert(shard),
            Told::Left { shard } => {
                self.leaving.remove(&shard);
                false
            }
        }
    }

    /// Says how things stand with the shards.
    fn tell(&self, plan: &Plan) {
        let mut state = self.keeper.standing.state();
        let mut phases: BTreeMap<&str, ShardPhase> = BTreeMap::new();
        let mut owner = None;
        let rows = self.keeper.leases.rows();
        for (shard, checkpoint, held) in &rows {
            let phase = match (&checkpoint.progress, held) {
                (Progress::Ended, _) => ShardPhase::Ended,
                (_, Held::Other { owner: other }) => {
                    owner.get_or_insert_with(|| other.clone());
                    ShardPhase::Held { owner: other.clone() }
                }
                (_, Held::Mine) => ShardPhase::Reading,
                (_, Held::Free) => ShardPhase::Waiting,
            };
            phases.insert(shard, phase);
        }
        phases.extend(plan.waiting.iter().map(|shard| (shard.as_str(), ShardPhase::Waiting)));
        state.shards.retain(|shard, _| phases.contains_key(shard.as_str()));
        for (shard, phase) in phases {
            match state.shards.get_mut(shard) {
                Some(shard) => shard.phase = phase,
                // What is ours is entered by the worker, when it begins with it.
                None if phase != ShardPhase::Reading => {
                    state.shards.insert(shard.to_owned(), Shard::new(phase));
                }
                None => {}
            }
        }
        let phase = match owner {
            Some(owner) if self.ours.is_empty() => Phase::Waiting { owner },
            _ if matches!(state.phase, Phase::Stopping) => Phase::Stopping,
            _ => Phase::Running,
        };
        if let Phase::Waiting { owner } = &phase
            && phase != state.phase
        {
            let silence = self.keeper.leases.takeover_after();
            tracing::info!("{owner} does the work; waiting until it stops, or has been silent for {silence:?}");
        }
        state.phase = phase;
    }

    /// Whether an error may pass, and is tried again in the next round.
    fn passes(&self, error: &Error) -> bool {
        match error.kind {
            // A stream that is gone, lost records where they are to end the work, checkpoints that a person has to see to.
            Kind::Usage | Kind::Bug | Kind::Interrupted | Kind::Source | Kind::Checkpoints => return false,
            Kind::Pending | Kind::Sink | Kind::DeadLetters => self.keeper.standing.state().checkpoints.is_not(error.what.clone()),
        }
        // It fails in other words every time.
        if self.notices.is_due("checkpoints") {
            tracing::warn!("{error}; trying again");
        }
        true
    }

    /// Saves what is settled for the last time, and gives the leases to whoever wants them.
    async fn wind_up(&mut self) {
        let saved = match self.save().await {
            Ok(()) => self.keeper.leases.release_all().await,
            Err(error) => Err(error),
        };
        if let Err(error) = saved {
            tracing::warn!(
                "{error}; what was settled since the last checkpoint is delivered again by whoever goes on, which changes nothing"
            );
        }
    }
}
