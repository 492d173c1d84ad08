//! Operations on their way: the batch that fills, the requests under way, and what waits for its document or its index.
//!
//! Every document has its lane, and of a lane never more than one request has operations: later ones wait until it has come to its end, so that
//! nothing overtakes. Of an index that cannot be written a sample is under way now and then, and everything else for it waits; other indices
//! go on. Settles nothing and waits for nothing but news.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::learned::Learned;
use super::letters::Claim;
use super::parked::ParkedIndices;
use super::part::{Open, Poison, Trouble, weight};
use super::request::{Over, carry, carry_sample};
use super::settings::Settings;
use super::shared::{End, Event, Shared};
use super::standing::Standing;
use crate::error::{Error, Kind};
use crate::operation::Operation;
use crate::panics::guard;
use crate::plan::batch::{Batch, Cut, Slot};
use crate::record::Fault;
use crate::sink::Sink;

/// What became of operations.
#[derive(Debug)]
pub(super) enum News {
    /// These were carried out; what each stood for is compacted.
    Settled(Vec<(Slot<Claim>, End)>),
    /// These can never succeed.
    Poison(Vec<Poison>),
    /// A request ended with an error; what it had is not settled.
    Failed(Error),
    /// Nothing that anybody has to do something about.
    Nothing,
}

/// A lane, by a hash of index and id. Of one lane never more than one request has operations; what comes meanwhile waits in it. There are so many
/// that two documents rarely share one, and when they do they wait for each other and nothing worse; only those in use take memory.
type LaneNumber = u32;

/// A lane that is in use.
#[derive(Debug, Default)]
struct Lane {
    /// Operations under way or parked.
    under_way: usize,
    /// What came since.
    waiting: Vec<(Operation, Claim)>,
}

/// All operations that are not settled.
pub(super) struct Traffic {
    settings: Settings,
    shared: Arc<Shared>,
    events: UnboundedReceiver<Event>,
    requests: JoinSet<Result<Over, Fault>>,
    /// Requests under way, but for samples of blocked indices.
    busy: usize,
    batch: Batch<Claim>,
    since: Option<Instant>,
    /// The lanes in use.
    lanes: HashMap<LaneNumber, Lane>,
    parked: ParkedIndices,
    /// What was parked and may go now; never anything while another request may be sent.
    released: VecDeque<Vec<Open>>,
}

impl Traffic {
    pub(super) fn new(sink: Arc<dyn Sink>, learned: Arc<Learned>, settings: Settings) -> Self {
        let (sender, events) = unbounded_channel();
        learned.begin_again();
        Self {
            settings,
            shared: Arc::new(Shared::new(sink, sender, learned, &settings)),
            events,
            requests: JoinSet::new(),
            busy: 0,
            batch: Batch::default(),
            since: None,
            lanes: HashMap::new(),
            parked: ParkedIndices::default(),
            released: VecDeque::new(),
        }
    }

    pub(super) fn sink(&self) -> &dyn Sink {
        &*self.shared.sink
    }

    /// From now on somebody has to know how things stand.
    pub(super) fn watched_by(&self, standing: &Arc<Standing>) {
        let _ = self.shared.standing.set(Arc::clone(standing));
    }

    /// Whether the batch has to be sent before this operation comes in.
    pub(super) fn is_full_for(&self, operation: &Operation) -> bool {
        let cut = Cut { bytes: self.shared.learned.limit.load(Ordering::Relaxed), operations: self.settings.request_operations };
        self.batch.is_full_for(operation, cut)
    }

    /// Takes an operation in.
    pub(super) fn push(&mut self, operation: Operation, claim: Claim) {
        if let Some(lane) = self.lanes.get_mut(&lane(&operation)) {
            self.parked.grow(&operation.target().index, weight(&operation, &claim));
            lane.waiting.push((operation, claim));
        } else {
            self.fill(operation, claim);
        }
    }

    fn fill(&mut self, operation: Operation, claim: Claim) {
        self.since.get_or_insert_with(Instant::now);
        self.batch.push(operation, claim);
    }

    /// Since when the oldest operation of the batch waits for company.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Whether something waits to be sent.
    pub(super) fn has_batch(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Whether another request may be sent now. When it may not, one is under way.
    pub(super) fn may_send(&self) -> bool {
        self.busy < self.shared.learned.gate.at_once() && self.released.is_empty()
    }

    /// Lanes in use.
    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// What waits for indices that cannot be written.
    pub(super) fn parked(&self) -> &ParkedIndices {
        &self.parked
    }

    /// Whether this may be said now, of what is said over and over.
    pub(super) fn is_due(&self, what: &str) -> bool {
        self.shared.notices.is_due(what)
    }

    /// Whether no request is under way and there is no news. Nothing waits for a document or an index then.
    pub(super) fn is_quiet(&self) -> bool {
        self.requests.is_empty() && self.events.is_empty()
    }

    /// Sends the batch.
    pub(super) fn send(&mut self) {
        self.since = None;
        let mut open = Vec::new();
        for slot in self.batch.take() {
            self.lanes.entry(lane(&slot.operation)).or_default().under_way += 1;
            let parked = self.parked.has(&slot.operation.target().index);
            let one = Open::new(slot);
            if parked {
                self.parked.push(one);
            } else {
                open.push(one);
            }
        }
        if !open.is_empty() {
            self.carry(open);
        }
    }

    fn carry(&mut self, open: Vec<Open>) {
        self.busy += 1;
        self.requests.spawn(guard(carry(open, self.shared.clone())));
    }

    /// Waits for news; for ever, when no request is under way. Loses nothing when it is dropped.
    pub(super) async fn news(&mut self) -> News {
        tokio::select! {
            biased;
            Some(event) = self.events.recv() => self.heard(event),
            Some(ended) = self.requests.join_next() => self.ended(ended),
        }
    }

    /// News that is there already.
    pub(super) fn old_news(&mut self) -> Option<News> {
        match self.events.try_recv() {
            Ok(event) => Some(self.heard(event)),
            Err(_) => self.requests.try_join_next().map(|ended| self.ended(ended)),
        }
    }

    fn heard(&mut self, event: Event) -> News {
        match event {
            Event::Settled(settled) => {
                settled.iter().for_each(|(slot, _)| self.leave(&slot.operation));
                News::Settled(settled)
            }
            Event::Poison(poison) => {
                poison.iter().filter(|poison| !poison.replaced).for_each(|poison| self.leave(&poison.operation));
                News::Poison(poison)
            }
            Event::Parked(index, open, trouble) => {
                if self.parked.park(&index, open, &trouble.last) {
                    let behind = self.lanes.values().flat_map(|lane| &lane.waiting);
                    let behind = behind.filter(|(operation, _)| operation.target().index == index);
                    self.parked.grow(&index, behind.map(|(operation, claim)| weight(operation, claim)).sum());
                    self.try_index(index, *trouble);
                }
                News::Nothing
            }
        }
    }

    /// An operation leaves its lane.
    fn leave(&mut self, operation: &Operation) {
        let Entry::Occupied(mut lane) = self.lanes.entry(lane(operation)) else { return };
        lane.get_mut().under_way -= 1;
        if lane.get().under_way == 0 {
            for (operation, claim) in lane.remove().waiting {
                self.parked.shrink(&operation.target().index, weight(&operation, &claim));
                self.fill(operation, claim);
            }
        }
    }

    /// Tries a sample of what waits for an index.
    fn try_index(&mut self, index: Arc<str>, trouble: Trouble) {
        if let Some((open, since)) = self.parked.sample(&index) {
            self.requests.spawn(guard(carry_sample(index, open, trouble, since, self.shared.clone())));
        }
    }

    fn ended(&mut self, ended: Result<Result<Over, Fault>, JoinError>) -> News {
        // What it had is not settled, and nothing more is sent: what waited behind it stays where it is.
        let failed =
            |how: &str| News::Failed(Error::new(Kind::Sink, format!("{}: a request was not finished: {how}", self.shared.sink.name())));
        let over = match ended {
            Ok(Ok(over)) => over,
            Ok(Err(panic)) => return failed(&panic.reason),
            Err(_) => return failed("the connector is being shut down"),
        };
        match (over.index, over.still) {
            (None, _) => self.busy -= 1,
            (Some(index), Some((open, trouble))) => {
                self.parked.put_back(&index, open, &trouble.last);
                if over.result.is_ok() {
                    self.try_index(index, trouble);
                }
            }
            (Some(index), None) => {
                if over.result.is_ok() {
                    let waiting = self.parked.release(&index);
                    self.release(waiting);
                }
            }
        }
        match over.result {
            Ok(()) => {
                while self.busy < self.shared.learned.gate.at_once()
                    && let Some(open) = self.released.pop_front()
                {
                    self.carry(open);
                }
                News::Nothing
            }
            Err(error) => News::Failed(error),
        }
    }

    /// Cuts what was parked into requests.
    fn release(&mut self, waiting: Vec<Open>) {
        let (limit, mut request, mut bytes) = (self.shared.learned.limit.load(Ordering::Relaxed), Vec::new(), 0);
        for open in waiting {
            if !request.is_empty() && (request.len() >= self.settings.request_operations || bytes + open.size() > limit) {
                self.released.push_back(std::mem::take(&mut request));
                bytes = 0;
            }
            bytes += open.size();
            request.push(open);
        }
        self.released.extend((!request.is_empty()).then_some(request));
    }

    /// No request is sent from now on; those that are with the sink come to their end.
    pub(super) fn stop(&mut self) {
        self.shared.stopping.send_replace(true);
    }

    /// Abandons what is under way.
    pub(super) async fn abandon(&mut self) {
        self.requests.shutdown().await;
        self.busy = 0;
    }
}

fn lane(operation: &Operation) -> LaneNumber {
    let mut hash = DefaultHasher::new();
    let target = operation.target();
    (&target.index, &target.id).hash(&mut hash);
    // Any half of a hash is as good as the other.
    hash.finish() as LaneNumber
}
