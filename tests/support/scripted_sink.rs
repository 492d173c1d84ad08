//! A sink inside the test that keeps documents under OpenSearch's version rules and does to its caller what servers do on their worst days.
//!
//! What holds for every request is set by its rules (what is refused, what spoils a request, how large one may be, which index is blocked); a
//! script says what happens to the next requests one by one; and chance, where it is let in, decides about the others. It records what it was
//! sent and when, and notices what must never happen: two operations on one document at once, or a document sent again after its success was told.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use revsync::error::Error;
use revsync::operation::{Operation, Target};
use revsync::plan::cells::Row;
use revsync::plan::outcome::{Class, Failure, Reply};
use revsync::record::Fault;
use revsync::revision::{Cells, VersionType};
use revsync::sink::{Pending, Sink};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::dice::Dice;

/// What happens to one request.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// It is carried out and answered.
    Proper,
    /// These operations, by place, are answered like this and not carried out; the others are.
    Answer(Vec<(usize, Reply)>),
    /// Nothing is carried out.
    Fail(Failure),
    /// Everything is carried out, and the answer is lost.
    FailAfterWriting(Failure),
    /// Nothing happens until [`ScriptedSink::release`]; then it is carried out.
    Hang,
    /// It is carried out at once, and the answer comes with [`ScriptedSink::release`].
    HangAfterWriting,
    /// It is carried out, and so many replies come.
    Replies(usize),
    /// The task of the request ends with a panic.
    Panic,
}

/// What holds for every request.
pub(crate) struct Rules {
    /// The answer to operations that are refused.
    pub(crate) refuses: fn(&Operation) -> Option<Reply>,
    /// The answer to operations that are refused the first time that they come.
    pub(crate) refuses_at_first: fn(&Operation) -> Option<Reply>,
    /// The answer to everything about a document, by its id.
    pub(crate) answers: BTreeMap<String, Reply>,
    /// Operations of which one makes the whole request invalid.
    pub(crate) spoils: fn(&Operation) -> bool,
    /// Bytes of operations that a request may have.
    pub(crate) largest: usize,
    /// Indices that refuse every write.
    pub(crate) blocked: BTreeSet<String>,
    /// Every request fails like this.
    pub(crate) down: Option<Failure>,
    /// How long each request takes.
    pub(crate) takes: Duration,
    /// No request is answered before [`ScriptedSink::release`].
    pub(crate) stalled: bool,
}

/// Faults by chance, as long as there are some left.
#[derive(Debug)]
pub(crate) struct Chance {
    pub(crate) dice: Dice,
    pub(crate) percent: usize,
    pub(crate) left: usize,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) at: Instant,
    pub(crate) bytes: usize,
    /// `index ID@VERSION` or `delete ID@VERSION` of each operation.
    pub(crate) operations: Vec<String>,
}

struct State {
    rules: Rules,
    script: VecDeque<Step>,
    chance: Option<Chance>,
    /// By index and id: the version, and the source where there is a document.
    documents: BTreeMap<(String, String), (u64, Option<String>)>,
    /// Of documents that are merged, the rows that they are.
    rows: BTreeMap<(String, String), Row>,
    requests: Vec<Request>,
    at_work: HashMap<(String, String), usize>,
    with_us: usize,
    most_with_us: usize,
    /// Operations whose success was told, by the address of what they carry, which stays alive here.
    told: HashMap<usize, Operation>,
    violations: Vec<String>,
    /// What was refused because it came for the first time.
    seen: BTreeSet<String>,
    finished: usize,
}

pub(crate) struct ScriptedSink {
    state: Mutex<State>,
    released: watch::Sender<usize>,
}

impl ScriptedSink {
    pub(crate) fn new() -> Arc<Self> {
        let rules = Rules {
            refuses: |_| None,
            refuses_at_first: |_| None,
            answers: BTreeMap::new(),
            spoils: |_| false,
            largest: usize::MAX,
            blocked: BTreeSet::new(),
            down: None,
            takes: Duration::ZERO,
            stalled: false,
        };
        let state = State {
            rules,
            script: VecDeque::new(),
            chance: None,
            documents: BTreeMap::new(),
            rows: BTreeMap::new(),
            requests: Vec::new(),
            at_work: HashMap::new(),
            with_us: 0,
            most_with_us: 0,
            told: HashMap::new(),
            violations: Vec::new(),
            seen: BTreeSet::new(),
            finished: 0,
        };
        Arc::new(Self { state: Mutex::new(state), released: watch::Sender::new(0) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under the lock")
    }

    /// Adds to the script.
    pub(crate) fn script(&self, steps: impl IntoIterator<Item = Step>) {
        self.state().script.extend(steps);
    }

    /// Changes the rules.
    pub(crate) fn rule(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.state().rules);
    }

    /// An index refuses every write from now on.
    pub(crate) fn block(&self, index: &str) {
        self.state().rules.blocked.insert(index.to_owned());
    }

    /// Lets chance in.
    pub(crate) fn chance(&self, chance: Option<Chance>) {
        self.state().chance = chance;
    }

    /// Forgets the rest of the script, and chance.
    pub(crate) fn clear(&self) {
        let mut state = self.state();
        state.script.clear();
        state.chance = None;
    }

    /// Lets everything go on that hangs, and nothing hang from now on because of the rules.
    pub(crate) fn release(&self) {
        self.state().rules.stalled = false;
        self.released.send_modify(|times| *times += 1);
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    /// The operations of every request.
    pub(crate) fn sent(&self) -> Vec<Vec<String>> {
        self.state().requests.iter().map(|request| request.operations.clone()).collect()
    }

    /// Requests that are here now.
    pub(crate) fn here(&self) -> usize {
        self.state().with_us
    }

    /// The most requests that were here at once.
    pub(crate) fn most_at_once(&self) -> usize {
        self.state().most_with_us
    }

    /// Version and source of every document, deleted ones too.
    pub(crate) fn documents(&self) -> BTreeMap<(String, String), (u64, Option<String>)> {
        self.state().documents.clone()
    }

    /// The version of a document or of its delete.
    pub(crate) fn version(&self, index: &str, id: &str) -> Option<u64> {
        self.state().documents.get(&(index.to_owned(), id.to_owned())).map(|(version, _)| *version)
    }

    /// A row that was merged.
    pub(crate) fn row(&self, index: &str, id: &str) -> Option<Row> {
        self.state().rows.get(&(index.to_owned(), id.to_owned())).cloned()
    }

    /// What must never happen and did.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.state().violations.clone()
    }

    /// How often the run said that it came to its end.
    pub(crate) fn finished(&self) -> usize {
        self.state().finished
    }

    async fn released(&self, mut times: watch::Receiver<usize>) {
        times.changed().await.expect("the sink outlives its requests");
    }

    async fn carry(&self, operations: &[Operation]) -> Result<Vec<Reply>, Failure> {
        let released = self.released.subscribe();
        let (step, takes, stalled) = {
            let mut state = self.state();
            let step = state.next_step(operations);
            (step, state.rules.takes, state.rules.stalled)
        };
        if stalled {
            self.released(released.clone()).await;
        }
        tokio::time::sleep(takes).await;
        match step {
            Step::Proper => self.state().write(operations, &[]),
            Step::Answer(answers) => self.state().write(operations, &answers),
            Step::Fail(failure) => Err(failure),
            Step::FailAfterWriting(failure) => self.state().write(operations, &[]).and(Err(failure)),
            Step::Hang => {
                self.released(released).await;
                self.state().write(operations, &[])
            }
            Step::HangAfterWriting => {
                let replies = self.state().write(operations, &[]);
                self.released(released).await;
                replies
            }
            Step::Replies(count) => self.state().write(operations, &[]).map(|mut replies| {
                replies.resize(count, Reply::ok(201));
                replies
            }),
            Step::Panic => panic!("as the script wants it"),
        }
    }
}

/// A request that is here; gone when it is dropped, also half-way.
struct Visit<'a> {
    sink: &'a ScriptedSink,
    documents: Vec<(String, String)>,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let mut state = self.sink.state();
        state.with_us -= 1;
        for document in &self.documents {
            state.at_work.remove(document);
        }
    }
}

impl Sink for ScriptedSink {
    fn name(&self) -> &str {
        "scripted"
    }

    fn write(&self, operations: Arc<[Operation]>) -> Pending<'_, Result<Vec<Reply>, Failure>> {
        Box::pin(async move {
            let visit = Visit { sink: self, documents: self.state().receive(&operations) };
            let answer = self.carry(&operations).await;
            if let Ok(replies) = &answer
                && replies.len() == operations.len()
            {
                self.state().tell(&operations, replies);
            }
            drop(visit);
            answer
        })
    }

    fn finish(&self) -> Pending<'_, Result<(), Error>> {
        self.state().finished += 1;
        Box::pin(std::future::ready(Ok(())))
    }
}

fn key(target: &Target) -> (String, String) {
    (target.index.to_string(), target.id.clone())
}

/// The address of what an operation carries, which its copies share.
fn address(operation: &Operation) -> Option<usize> {
    match operation {
        Operation::Index { document, .. } => Some(document.as_bytes().as_ptr() as usize),
        Operation::Merge { cells, .. } => Some(Arc::as_ptr(cells) as usize),
        Operation::Delete { .. } | Operation::Tombstone { .. } => None,
    }
}

impl State {
    fn receive(&mut self, operations: &[Operation]) -> Vec<(String, String)> {
        self.with_us += 1;
        self.most_with_us = self.most_with_us.max(self.with_us);
        let shown = |operation: &Operation| {
            let Target { id, version, .. } = operation.target();
            format!("{} {id}@{version}", operation.action())
        };
        self.requests.push(Request {
            at: Instant::now(),
            bytes: operations.iter().map(Operation::size).sum(),
            operations: operations.iter().map(shown).collect(),
        });
        let mut documents = Vec::new();
        for operation in operations {
            // Merges of one document may be under way together: they come to the same in any order.
            if !matches!(operation, Operation::Merge { .. }) {
                let document = key(operation.target());
                if self.at_work.insert(document.clone(), 1).is_some() {
                    self.violations.push(format!("{} while another operation on it is under way", shown(operation)));
                }
                documents.push(document);
            }
            if address(operation).is_some_and(|address| self.told.contains_key(&address)) {
                self.violations.push(format!("{} again after its success was told", shown(operation)));
            }
        }
        documents
    }

    fn next_step(&mut self, operations: &[Operation]) -> Step {
        if let Some(step) = self.script.pop_front() {
            return step;
        }
        let Some(chance) = self.chance.as_mut().filter(|chance| chance.left > 0) else { return Step::Proper };
        if !chance.dice.percent(chance.percent) {
            return Step::Proper;
        }
        chance.left -= 1;
        by_chance(&mut chance.dice, operations)
    }

    fn write(&mut self, operations: &[Operation], answers: &[(usize, Reply)]) -> Result<Vec<Reply>, Failure> {
        if let Some(failure) = &self.rules.down {
            return Err(failure.clone());
        }
        if operations.iter().map(Operation::size).sum::<usize>() > self.rules.largest {
            return Err(Failure::TooLarge { what: "status 413".to_owned(), limit: None });
        }
        if operations.iter().any(self.rules.spoils) {
            return Err(Failure::Invalid(Fault::new("action_request_validation_exception", "Validation Failed")));
        }
        let reply = |(at, operation): (usize, &Operation)| {
            if let Some((_, reply)) = answers.iter().find(|(place, _)| *place == at) {
                return reply.clone();
            }
            if let Some(reply) = self.rules.answers.get(&operation.target().id) {
                return reply.clone();
            }
            if self.rules.blocked.contains(&*operation.target().index) {
                return Reply::error(403, "cluster_block_exception", "index is read-only");
            }
            if let Some(reply) = (self.rules.refuses_at_first)(operation) {
                let Target { index, id, version, .. } = operation.target();
                if self.seen.insert(format!("{index}/{id}@{version}")) {
                    return reply;
                }
            }
            (self.rules.refuses)(operation).unwrap_or_else(|| match operation {
                Operation::Merge { cells, .. } => {
                    let (key, row) = (key(operation.target()), self.rows.entry(key(operation.target())).or_default());
                    merge(key, row, cells, &mut self.documents)
                }
                _ => self.documents.apply(operation),
            })
        };
        Ok(operations.iter().enumerate().map(reply).collect())
    }

    fn tell(&mut self, operations: &[Operation], replies: &[Reply]) {
        for (operation, reply) in operations.iter().zip(replies) {
            let stale = |error: &Fault| error.kind == "version_conflict_engine_exception" && !matches!(operation, Operation::Merge { .. });
            let done = reply.error.as_ref().is_none_or(stale);
            if let (true, Some(address)) = (done, address(operation)) {
                self.told.insert(address, operation.clone());
            }
        }
    }
}

trait Versioned {
    fn apply(&mut self, operation: &Operation) -> Reply;
}

impl Versioned for BTreeMap<(String, String), (u64, Option<String>)> {
    fn apply(&mut self, operation: &Operation) -> Reply {
        let target = operation.target();
        let before = self.get(&key(target));
        let conflict = before.is_some_and(|(stored, _)| match target.version_type {
            VersionType::External => *stored >= target.version,
            VersionType::ExternalGte => *stored > target.version,
        });
        if conflict {
            return Reply::error(409, "version_conflict_engine_exception", "version conflict");
        }
        let existed = before.is_some_and(|(_, source)| source.is_some());
        let (source, status) = match operation {
            Operation::Index { document, .. } => {
                (Some(String::from_utf8(document.as_bytes().to_vec()).expect("UTF-8")), if existed { 200 } else { 201 })
            }
            Operation::Delete { .. } => (None, if existed { 200 } else { 404 }),
            Operation::Tombstone { .. } => (None, if existed { 200 } else { 201 }),
            Operation::Merge { .. } => panic!("a merge goes by the versions of its cells"),
        };
        self.insert(key(target), (target.version, source));
        Reply::ok(status)
    }
}

fn merge(key: (String, String), row: &mut Row, cells: &Cells, documents: &mut BTreeMap<(String, String), (u64, Option<String>)>) -> Reply {
    if !row.merge(cells) {
        return Reply::noop();
    }
    let source = row.document().map(|document| String::from_utf8(document.as_bytes().to_vec()).expect("UTF-8"));
    let existed = documents.insert(key, (row.version(), source)).is_some();
    Reply::ok(if existed { 200 } else { 201 })
}

/// A fault that passes.
fn by_chance(dice: &mut Dice, sent: &[Operation]) -> Step {
    let operations = sent.len();
    let after = dice.percent(20).then(|| Duration::from_millis(dice.below(5_000) as u64));
    let class = *dice.pick(&[Class::Throttled, Class::Unavailable, Class::Blocked]);
    let failure = Failure::Retry { class, what: "by chance".to_owned(), after };
    match dice.below(9) {
        0 => Step::Fail(failure),
        1 => Step::FailAfterWriting(failure),
        2 => Step::FailAfterWriting(Failure::Retry { class: Class::Unavailable, what: "the answer is cut off".to_owned(), after: None }),
        3 => Step::Replies(if dice.percent(50) { operations - 1 } else { operations + 1 }),
        // A single document that is too large is too large for good.
        4 if operations > 1 => Step::Fail(Failure::TooLarge { what: "status 413".to_owned(), limit: None }),
        _ => {
            let errors = [
                Reply::error(429, "rejected_execution_exception", "busy"),
                Reply::error(503, "unavailable_shards_exception", "primary shard is not active"),
                Reply::error(403, "cluster_block_exception", "index is read-only"),
                Reply::error(404, "index_not_found_exception", "no such index"),
            ];
            let mut answers = Vec::new();
            for (place, operation) in sent.iter().enumerate() {
                if !dice.percent(50) {
                    continue;
                }
                // Somebody else wrote the row between the look at it and the write.
                let contended = matches!(operation, Operation::Merge { .. }) && dice.percent(30);
                let conflict = || Reply::error(409, "version_conflict_engine_exception", "version conflict");
                answers.push((place, if contended { conflict() } else { dice.pick(&errors).clone() }));
            }
            Step::Answer(answers)
        }
    }
}

/// The usual refusals.
pub(crate) fn busy() -> Reply {
    Reply::error(429, "rejected_execution_exception", "busy")
}

pub(crate) fn poison() -> Reply {
    Reply::error(400, "mapper_parsing_exception", "failed to parse")
}

pub(crate) fn down(what: &str) -> Failure {
    Failure::Retry { class: Class::Unavailable, what: what.to_owned(), after: None }
}
