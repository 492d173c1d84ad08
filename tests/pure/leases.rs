//! Several workers on one place of checkpoints that fails in every way it can: whatever happens, a shard has one owner at a time that can save,
//! no checkpoint goes back, and somebody goes on.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use revsync::error::{Error, Kind};
use revsync::plan::checkpoint::{Begin, Checkpoint, Progress};
use revsync::plan::lease::Held;
use revsync::plan::stored::{Change, Stamp, Stored, Written};
use revsync::record::{Position, SequenceNumber};
use revsync::run::leases::Leases;
use revsync::run::rewind::{Request, rewind};
use revsync::store::checkpoints::{Checkpoints, Pending, Pipeline, Shelf};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::dice::Dice;

const TAKEOVER: Duration = Duration::from_secs(30);
const SHARDS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A place in memory.
#[derive(Debug, Default)]
struct Memory {
    documents: HashMap<String, (u64, String)>,
    last: u64,
    /// Every row that was written, in the order in which that took effect.
    history: Vec<Value>,
}

impl Memory {
    fn apply(&mut self, change: Change) -> Written {
        let now = self.documents.get(&change.id).map(|(number, _)| Stamp { number: *number, term: 0 });
        if now != change.expect {
            return Written::Conflict;
        }
        self.last += 1;
        match change.body {
            Some(body) => {
                self.history.push(serde_json::from_str(&body).unwrap());
                self.documents.insert(change.id, (self.last, body));
            }
            None => drop(self.documents.remove(&change.id)),
        }
        Written::Done(Stamp { number: self.last, term: 0 })
    }
}

/// The way of one worker to it.
#[derive(Clone)]
struct Flaky {
    memory: Arc<Mutex<Memory>>,
    dice: Arc<Mutex<Dice>>,
    /// In so many of a hundred calls something goes wrong.
    trouble: Arc<Mutex<usize>>,
}

impl Flaky {
    fn new(seed: u64, trouble: usize) -> Self {
        Self { memory: Arc::default(), dice: Arc::new(Mutex::new(Dice::new(seed))), trouble: Arc::new(Mutex::new(trouble)) }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap()
    }

    /// A roll of the dice, where there is to be trouble.
    fn fate(&self) -> Option<usize> {
        let (mut dice, trouble) = (self.dice.lock().unwrap(), *self.trouble.lock().unwrap());
        dice.percent(trouble).then(|| dice.below(6))
    }

    fn wait(&self, most: usize) -> Duration {
        Duration::from_millis(self.dice.lock().unwrap().below(most) as u64)
    }
}

fn down() -> Error {
    Error::new(Kind::Pending, "the place is down")
}

impl Shelf for Flaky {
    fn name(&self) -> &str {
        "memory"
    }

    fn read<'a>(&'a self, _: Option<&'a Pipeline>) -> Pending<'a, Result<Vec<Stored>, Error>> {
        Box::pin(async {
            match self.fate() {
                Some(0) => return Err(down()),
                Some(1) => sleep(self.wait(40_000)).await,
                _ => sleep(self.wait(50)).await,
            }
            let stored = |(id, (number, body)): (&String, &(u64, String))| Stored {
                id: id.clone(),
                stamp: Stamp { number: *number, term: 0 },
                body: body.clone(),
            };
            Ok(self.memory().documents.iter().map(stored).collect())
        })
    }

    fn write(&self, changes: Vec<Change>) -> Pending<'_, Result<Vec<Written>, Error>> {
        Box::pin(async move {
            sleep(self.wait(50)).await;
            match self.fate() {
                // It was not done.
                Some(0) => Err(down()),
                // It was done, and the answer is lost.
                Some(1) => {
                    changes.into_iter().for_each(|change| drop(self.memory().apply(change)));
                    Err(down())
                }
                // It is done long after anybody waits for it, or after an answer that says that it failed.
                Some(fate @ 2..=3) => {
                    let (later, time) = (self.clone(), self.wait(90_000));
                    tokio::spawn(async move {
                        sleep(time).await;
                        changes.into_iter().for_each(|change| drop(later.memory().apply(change)));
                    });
                    if fate == 2 {
                        return Err(down());
                    }
                    sleep(Duration::from_secs(3_600)).await;
                    Err(down())
                }
                // Some of it was done, of some nobody knows.
                Some(4) => {
                    let one = |change| match self.fate() {
                        Some(0) => Written::Failed(down()),
                        Some(1) => {
                            self.memory().apply(change);
                            Written::Failed(down())
                        }
                        _ => self.memory().apply(change),
                    };
                    Ok(changes.into_iter().map(one).collect())
                }
                _ => {
                    let written: Vec<Written> = changes.into_iter().map(|change| self.memory().apply(change)).collect();
                    sleep(self.wait(50)).await;
                    Ok(written)
                }
            }
        })
    }
}

fn checkpoint(number: u64) -> Checkpoint {
    let progress = match number {
        0 => Progress::Begins(Begin::Earliest),
        _ => Progress::Settled(Position::Sequence { number: SequenceNumber(number.to_string()), sub: None }),
    };
    Checkpoint { progress, covered: None, targets: BTreeMap::new() }
}

fn number(checkpoint: &Checkpoint) -> u64 {
    match &checkpoint.progress {
        Progress::Settled(Position::Sequence { number, .. }) => number.0.parse().unwrap(),
        _ => 0,
    }
}

fn checkpoints(shelf: &Flaky) -> Arc<Checkpoints> {
    Arc::new(Checkpoints::new(Arc::new(shelf.clone()), Pipeline::new("p", "s").unwrap()))
}

/// What a worker does: it takes what it can, and saves what it settled. `mine` is what it believes to hold.
async fn work(shelf: Flaky, name: String, mine: Arc<Mutex<HashSet<String>>>) {
    let leases = Leases::new(checkpoints(&shelf), name, TAKEOVER);
    let mut settled: BTreeMap<String, u64> = BTreeMap::new();
    loop {
        let _ = leases.look().await;
        let wanted: Vec<(String, Checkpoint)> = {
            let rows = leases.rows();
            let known = |shard: &str| rows.iter().find(|(name, ..)| name == shard);
            // What is ours by its row and is not read was taken when something else went wrong.
            let is_idle =
                |shard: &str| !settled.contains_key(shard) && known(shard).is_none_or(|(.., held)| !matches!(held, Held::Other { .. }));
            SHARDS
                .iter()
                .filter(|shard| is_idle(shard))
                .map(|shard| ((*shard).to_owned(), known(shard).map_or_else(|| checkpoint(0), |(_, at, _)| at.clone())))
                .collect()
        };
        for shard in leases.take(&wanted).await.unwrap_or_default() {
            // From where it was taken: what another one saved in between is not lost.
            let (_, at, _) = leases.rows().into_iter().find(|(name, ..)| *name == shard).unwrap();
            settled.insert(shard, number(&at));
        }
        for at in settled.values_mut() {
            *at += shelf.dice.lock().unwrap().below(3) as u64;
        }
        let moved: Vec<(String, Checkpoint)> = settled.iter().map(|(shard, at)| (shard.clone(), checkpoint(*at))).collect();
        for lost in leases.save(&moved).await.unwrap_or_default() {
            settled.remove(&lost);
        }
        *mine.lock().unwrap() = settled.keys().cloned().collect();
        sleep(leases.heartbeat()).await;
    }
}

struct Worker {
    task: JoinHandle<()>,
    mine: Arc<Mutex<HashSet<String>>>,
}

fn start(shelf: &Flaky, name: usize) -> Worker {
    let mine = Arc::default();
    Worker { task: tokio::spawn(work(shelf.clone(), format!("worker {name}"), Arc::clone(&mine))), mine }
}

/// Judges everything that was ever written.
fn judge(seed: u64, history: &[Value]) {
    let mut of_epoch: HashMap<(String, u64), String> = HashMap::new();
    let mut last: HashMap<String, (u64, u64)> = HashMap::new();
    for row in history {
        let (shard, content) = (row["shard"].as_str().unwrap().to_owned(), &row["content"]);
        let epoch = content["epoch"].as_u64().unwrap();
        if let Some(session) = content["owner"]["session"].as_str() {
            let first = of_epoch.entry((shard.clone(), epoch)).or_insert_with(|| session.to_owned());
            assert_eq!(first, session, "seed {seed}: two owners saved {shard} in epoch {epoch}");
        }
        let at = content["progress"]["settled"]["sequence"]["number"].as_str().map_or(0, |number| number.parse().unwrap());
        let rewound = content["owner"].is_null() && at == 0;
        if let Some((epoch_before, at_before)) = last.insert(shard.clone(), (epoch, at)) {
            assert!(epoch >= epoch_before, "seed {seed}: epoch {epoch} of {shard} after {epoch_before}");
            assert!(at >= at_before || rewound, "seed {seed}: {shard} went back from {at_before} to {at} in epoch {epoch}");
        }
    }
}

async fn model(seed: u64) {
    let shelf = Flaky::new(seed, 30);
    let mut dice = Dice::new(seed + 1_000_000);
    let mut workers: Vec<Worker> = (0..3).map(|name| start(&shelf, name)).collect();
    for step in 0..120 {
        sleep(Duration::from_secs(dice.between(1, 40) as u64)).await;
        let at = dice.below(workers.len());
        match dice.below(10) {
            // It crashes, and another one comes, at once or later.
            0..=2 => {
                workers[at].task.abort();
                if dice.percent(50) {
                    sleep(Duration::from_secs(dice.between(1, 60) as u64)).await;
                }
                workers[at] = start(&shelf, 3 + step);
            }
            3 => {
                let place: Arc<dyn Shelf> = Arc::new(shelf.clone());
                let shard = Some((*dice.pick(&SHARDS)).to_owned());
                let to = Progress::Begins(Begin::Earliest);
                let _ = rewind(&place, &Request { name: None, stream: None, shard, to, force: true }).await;
            }
            _ => {}
        }
    }
    // The place heals, all but one go, and what was under way comes to its end.
    *shelf.trouble.lock().unwrap() = 0;
    let survivor = workers.pop().unwrap();
    workers.iter().for_each(|worker| worker.task.abort());
    sleep(Duration::from_secs(100)).await;
    let (epochs, saved): (HashMap<String, u64>, usize) = {
        let memory = shelf.memory();
        (
            memory.history.iter().map(|row| (row["shard"].to_string(), row["content"]["epoch"].as_u64().unwrap())).collect(),
            memory.history.len(),
        )
    };
    sleep(TAKEOVER * 2).await;
    assert_eq!(*survivor.mine.lock().unwrap(), SHARDS.map(str::to_owned).into(), "seed {seed}: somebody goes on with every shard");
    let memory = shelf.memory();
    assert!(memory.history.len() > saved, "seed {seed}: and saves");
    let end: HashMap<String, u64> =
        memory.history.iter().map(|row| (row["shard"].to_string(), row["content"]["epoch"].as_u64().unwrap())).collect();
    assert_eq!(end, epochs, "seed {seed}: and keeps them");
    judge(seed, &memory.history);
    survivor.task.abort();
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_a_shard_has_one_owner_and_does_not_go_back() {
    let seeds = if std::env::var_os("REVSYNC_TEST_LONG").is_some() { 500 } else { 12 };
    for seed in 0..seeds {
        model(seed).await;
    }
}

/// What is taken, by one worker alone.
async fn held_by(shelf: &Flaky, name: &str) -> Leases {
    let leases = Leases::new(checkpoints(shelf), name.to_owned(), TAKEOVER);
    assert_eq!(leases.take(&[("a".to_owned(), checkpoint(1))]).await, Ok(vec!["a".to_owned()]));
    leases
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_another_takes_over_within_the_silence_and_two_looks() {
    let shelf = Flaky::new(1, 0);
    let first = held_by(&shelf, "first").await;
    let second = Leases::new(checkpoints(&shelf), "second".to_owned(), TAKEOVER);
    for _ in 0..30 {
        second.look().await.unwrap();
        assert_eq!(second.take(&[("a".to_owned(), checkpoint(1))]).await, Ok(Vec::new()), "the first is alive");
        first.save(&[]).await.unwrap();
        sleep(second.heartbeat()).await;
    }
    drop(first);
    let crashed = Instant::now();
    loop {
        second.look().await.unwrap();
        if !second.take(&[("a".to_owned(), checkpoint(1))]).await.unwrap().is_empty() {
            break;
        }
        sleep(second.heartbeat()).await;
    }
    let time = crashed.elapsed();
    assert!(time >= TAKEOVER - second.heartbeat() && time <= TAKEOVER + 2 * second.heartbeat(), "{time:?}");
}

#[tokio::test(start_paused = true)]
async fn a_save_whose_answer_was_lost_loses_nothing_and_the_next_goes_on() {
    let shelf = Flaky::new(1, 0);
    let leases = held_by(&shelf, "first").await;
    // The same as a lost answer: the row is written under the owner's hands, as by the owner.
    let (id, (_, body)) = shelf.memory().documents.iter().next().map(|(id, row)| (id.clone(), row.clone())).unwrap();
    let written = body.replace("\"number\":\"1\"", "\"number\":\"2\"");
    assert_ne!(written, body);
    shelf.memory().documents.insert(id, (77, written));
    shelf.memory().last = 77;
    assert_eq!(leases.save(&[]).await, Ok(Vec::new()));
    assert_eq!(leases.rows(), [("a".to_owned(), checkpoint(2), Held::Mine)], "what was saved stands");
    assert_eq!(leases.save(&[("a".to_owned(), checkpoint(3))]).await, Ok(Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_place_that_does_not_answer_is_given_up_in_time_to_try_again() {
    let shelf = Flaky::new(1, 0);
    let leases = held_by(&shelf, "first").await;
    *shelf.trouble.lock().unwrap() = 100;
    for _ in 0..50 {
        let began = Instant::now();
        let saved = leases.save(&[("a".to_owned(), checkpoint(9))]).await;
        assert!(began.elapsed() <= 6 * leases.heartbeat() + Duration::from_secs(1), "{:?}", began.elapsed());
        assert!(saved.is_err_and(|error| error.kind == Kind::Pending) || leases.rows()[0].2 == Held::Mine);
    }
    *shelf.trouble.lock().unwrap() = 0;
    sleep(Duration::from_secs(100)).await;
    assert_eq!(leases.save(&[("a".to_owned(), checkpoint(10))]).await, Ok(Vec::new()), "nobody took it: it is ours still");
    assert_eq!(leases.rows(), [("a".to_owned(), checkpoint(10), Held::Mine)]);
}

#[tokio::test(start_paused = true)]
async fn calls_can_be_made_in_tasks_of_their_own_and_be_cancelled() {
    let shelf = Flaky::new(1, 0);
    let leases = Arc::new(held_by(&shelf, "first").await);
    for millis in [0, 10, 30, 60, 90] {
        let saving = Arc::clone(&leases);
        let task = tokio::spawn(async move { saving.save(&[("a".to_owned(), checkpoint(millis + 5))]).await });
        sleep(Duration::from_millis(millis)).await;
        task.abort();
    }
    assert_eq!(leases.save(&[("a".to_owned(), checkpoint(200))]).await, Ok(Vec::new()));
    leases.release_all().await.unwrap();
    assert_eq!(leases.rows(), [("a".to_owned(), checkpoint(200), Held::Free)]);
}
