//! Which shards one worker reads, among several that could: taken, kept by heartbeats, saved, and let go.
//!
//! Never reads a shard, and never decides where reading begins. What it decides is [`plan::lease`](crate::plan::lease); here are the order of
//! effects and the clock.
//!
//! Calls may be cancelled at any point: what had been sent may then be done or not, which is found out as after a lost answer. They run one after another; a call that waits for another
//! does nothing meanwhile.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::clock;
use crate::error::{Error, Kind};
use crate::plan::checkpoint::Checkpoint;
use crate::plan::lease::{Draft, Held, Owner, Register};
use crate::plan::stored::Written;
use crate::store::checkpoints::Checkpoints;

/// How often a save looks what is there and goes on, where a row is ours and has another state than was known.
const ROUNDS: usize = 3;

/// The least time that one call of the shelf may take.
const LEAST_WAIT: Duration = Duration::from_secs(5);

/// The shards of a pipeline, and which of them this worker holds.
#[derive(Debug)]
pub struct Leases {
    checkpoints: Arc<Checkpoints>,
    takeover_after: Duration,
    register: Mutex<Register>,
    /// Held while a call is under way.
    turn: tokio::sync::Mutex<()>,
    started: Instant,
}

impl Leases {
    /// Of a worker that holds nothing yet. `owner` is its name, for people; `takeover_after` the silence after which another may take over
    /// what it holds, and it what others hold.
    pub fn new(checkpoints: Arc<Checkpoints>, owner: String, takeover_after: Duration) -> Self {
        // The standard library's hash keys are the one source of chance that needs no crate.
        let session = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
        let millis = u64::try_from(takeover_after.as_millis()).unwrap_or(u64::MAX);
        let register = Mutex::new(Register::new(Owner { name: owner, session, takeover_after: millis }));
        Self { checkpoints, takeover_after, register, turn: tokio::sync::Mutex::default(), started: Instant::now() }
    }

    /// Where the checkpoints are, for messages.
    pub fn place(&self) -> &str {
        self.checkpoints.place()
    }

    /// The silence after which a holder may be taken over from.
    pub fn takeover_after(&self) -> Duration {
        self.takeover_after
    }

    /// How often [`save`](Self::save) keeps what is held, and [`look`](Self::look) sees in time that another one is silent: a third of the
    /// time after which it may be taken over.
    pub fn heartbeat(&self) -> Duration {
        self.takeover_after / 3
    }

    /// Reads all rows. Whose a shard is follows from what was read so far: a row that has not changed for long enough while it was watched is
    /// free, and so is one that was let go.
    ///
    /// # Errors
    /// [`Kind::Pending`] where it may pass; [`Kind::Checkpoints`] where a person has to act, such as for a row of a newer form.
    pub async fn look(&self) -> Result<(), Error> {
        let _turn = self.turn.lock().await;
        self.read().await
    }

    /// Every shard of which something is stored, how far it is, and whose; as of the last call.
    pub fn rows(&self) -> Vec<(String, Checkpoint, Held)> {
        self.register().rows().map(|(shard, checkpoint, held)| (shard.to_owned(), checkpoint.clone(), held)).collect()
    }

    /// Takes shards that are free, or of which nothing is stored, and saves the checkpoint of each. Gives those that are ours now, also those
    /// that were before. What another one took meanwhile, or holds, is left to it.
    ///
    /// # Errors
    /// As [`look`](Self::look). Some may have been taken all the same: [`rows`](Self::rows) says which are known to be ours.
    pub async fn take(&self, wanted: &[(String, Checkpoint)]) -> Result<Vec<String>, Error> {
        let _turn = self.turn.lock().await;
        let drafts = self.register().taking(wanted, clock::millis());
        let (conflicts, trouble) = self.write(drafts).await?;
        if !conflicts.is_empty() {
            self.read().await?;
            conflicts.iter().for_each(|draft| self.register().adopt(draft));
        }
        match trouble {
            Some(error) => Err(error),
            None => {
                let register = self.register();
                Ok(wanted.iter().map(|(shard, _)| shard).filter(|shard| register.is_mine(shard)).cloned().collect())
            }
        }
    }

    /// Saves how far shards are, and keeps all that are ours: a heartbeat also of those that did not move. Gives those that are not ours any
    /// more: whoever reads them has to stop.
    ///
    /// # Errors
    /// As [`look`](Self::look). Nothing is lost by that: what could not be saved is to be saved with the next call, and what was
    /// lost meanwhile is said then.
    pub async fn save(&self, moved: &[(String, Checkpoint)]) -> Result<Vec<String>, Error> {
        let _turn = self.turn.lock().await;
        self.settle(|register, now| register.saving(moved, now)).await?;
        Ok(self.register().take_lost(moved.iter().map(|(shard, _)| shard.as_str())))
    }

    /// Lets all go that are ours, so that another one can take them at once.
    ///
    /// # Errors
    /// As [`look`](Self::look). What could not be let go is ours still.
    pub async fn release_all(&self) -> Result<(), Error> {
        let _turn = self.turn.lock().await;
        self.settle(Register::releasing).await
    }

    /// Removes rows that nobody needs any more, but for those that another one holds or changed meanwhile.
    ///
    /// # Errors
    /// As [`look`](Self::look). Some may have been removed all the same.
    pub async fn remove(&self, shards: &[String]) -> Result<(), Error> {
        let _turn = self.turn.lock().await;
        let drafts = self.register().removing(shards);
        let (conflicts, trouble) = self.write(drafts).await?;
        if !conflicts.is_empty() {
            self.read().await?;
        }
        trouble.map_or(Ok(()), Err)
    }

    /// Writes the rows that are ours. A row that has another state than was known may be ours all the same, as after a lost answer: then
    /// it is written from there.
    async fn settle(&self, drafts: impl Fn(&Register, u64) -> Vec<Draft>) -> Result<(), Error> {
        let mut left: Option<Vec<String>> = None;
        let mut trouble = None;
        for _ in 0..ROUNDS {
            let mut drafts = drafts(&self.register(), clock::millis());
            if let Some(left) = &left {
                drafts.retain(|draft| left.contains(&draft.shard));
            }
            let (conflicts, failed) = self.write(drafts).await?;
            trouble = trouble.or(failed);
            if conflicts.is_empty() {
                return trouble.map_or(Ok(()), Err);
            }
            left = Some(conflicts.into_iter().map(|draft| draft.shard).collect());
            self.read().await?;
        }
        let what = format!("checkpoints: {}: rows of ours keep changing while they are written", self.place());
        Err(trouble.unwrap_or_else(|| Error::new(Kind::Pending, what)))
    }

    async fn read(&self) -> Result<(), Error> {
        let rows = self.in_time(self.checkpoints.read()).await?;
        self.register().see(rows, self.started.elapsed());
        Ok(())
    }

    /// Writes rows. Gives those that had another state, and the first failure of one.
    async fn write(&self, drafts: Vec<Draft>) -> Result<(Vec<Draft>, Option<Error>), Error> {
        let written = self.in_time(self.checkpoints.write(&drafts)).await?;
        let (mut conflicts, mut trouble) = (Vec::new(), None);
        for (draft, written) in drafts.into_iter().zip(written) {
            match written {
                Written::Done(stamp) => self.register().wrote(draft, stamp),
                Written::Conflict => conflicts.push(draft),
                Written::Failed(error) => drop(trouble.get_or_insert(error)),
            }
        }
        Ok((conflicts, trouble))
    }

    /// What does not answer within a heartbeat is asked again while there is time.
    async fn in_time<T>(&self, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let time = self.heartbeat().max(LEAST_WAIT);
        timeout(time, answer).await.unwrap_or_else(|_| {
            let what = format!("checkpoints: {}: no answer within {} s", self.place(), time.as_secs_f32());
            Err(Error::new(Kind::Pending, what))
        })
    }

    fn register(&self) -> MutexGuard<'_, Register> {
        self.register.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
