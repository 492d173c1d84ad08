//! Operations on their way: the batch that fills, the requests under way, and what waits for its document or its index.
//!
//! Of one document never more than one operation is under way: later ones wait until it has come to its end, so that nothing overtakes. Of an
//! index that cannot be written only one request is under way, and everything else for it waits; other indices go on. Settles nothing and
//! waits for nothing but news.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::deliver::Settings;
use super::letters::Claim;
use super::notices::Notices;
use super::part::{Open, Poison, Trouble};
use super::request::{End, Event, Over, Shared, carry, carry_parked};
use crate::error::{Error, Kind};
use crate::operation::Operation;
use crate::plan::batch::{Batch, Cut, Slot};
use crate::plan::limits::{self, HARD_LIMIT};
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

/// All operations that are not settled.
pub(super) struct Traffic {
    settings: Settings,
    shared: Arc<Shared>,
    events: UnboundedReceiver<Event>,
    requests: JoinSet<Over>,
    /// Requests under way, but for those that wait for an index.
    busy: usize,
    /// How many may be.
    at_once: usize,
    batch: Batch<Claim>,
    since: Option<Instant>,
    /// By document: what came while an operation on it was under way. An entry is there as long as one is.
    documents: HashMap<u64, Vec<(Operation, Claim)>>,
    /// By index: what waits behind the request that tries whether the index can be written again.
    parked: HashMap<Arc<str>, Vec<Open>>,
    /// What was parked and may go now; never anything while another request may be sent.
    released: VecDeque<Vec<Open>>,
}

impl Traffic {
    pub(super) fn new(sink: Arc<dyn Sink>, settings: Settings) -> Self {
        let (sender, events) = unbounded_channel();
        let shared = Shared {
            sink,
            events: sender,
            writes: Semaphore::new(settings.requests_in_flight),
            limit: AtomicUsize::new(settings.request_bytes.min(HARD_LIMIT)),
            progress: Mutex::new(Instant::now()),
            give_up_after: settings.give_up_after,
            stopping: watch::Sender::new(false),
            notices: Notices::default(),
        };
        Self {
            settings,
            shared: Arc::new(shared),
            events,
            requests: JoinSet::new(),
            busy: 0,
            at_once: settings.requests_in_flight,
            batch: Batch::default(),
            since: None,
            documents: HashMap::new(),
            parked: HashMap::new(),
            released: VecDeque::new(),
        }
    }

    pub(super) fn sink(&self) -> &dyn Sink {
        &*self.shared.sink
    }

    /// Whether the batch has to be sent before this operation comes in.
    pub(super) fn is_full_for(&self, operation: &Operation) -> bool {
        let cut = Cut { bytes: self.shared.limit.load(Ordering::Relaxed), operations: self.settings.request_operations };
        self.batch.is_full_for(operation, cut)
    }

    /// Takes an operation in.
    pub(super) fn push(&mut self, operation: Operation, claim: Claim) {
        if let Some(waiting) = self.documents.get_mut(&document(&operation)) {
            waiting.push((operation, claim));
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
        self.busy < self.at_once && self.released.is_empty()
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
            self.documents.entry(document(&slot.operation)).or_default();
            match self.parked.get_mut(&slot.operation.target().index) {
                Some(waiting) => waiting.push(Open::new(slot)),
                None => open.push(Open::new(slot)),
            }
        }
        if !open.is_empty() {
            self.carry(open);
        }
    }

    fn carry(&mut self, open: Vec<Open>) {
        self.busy += 1;
        self.requests.spawn(carry(open, self.shared.clone()));
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
                settled.iter().for_each(|(slot, _)| self.released_document(&slot.operation));
                News::Settled(settled)
            }
            Event::Poison(poison) => {
                poison.iter().filter(|poison| !poison.replaced).for_each(|poison| self.released_document(&poison.operation));
                News::Poison(poison)
            }
            Event::Parked(index, open, trouble) => {
                self.park(index, open, *trouble);
                News::Nothing
            }
        }
    }

    fn released_document(&mut self, operation: &Operation) {
        for (operation, claim) in self.documents.remove(&document(operation)).into_iter().flatten() {
            self.fill(operation, claim);
        }
    }

    fn park(&mut self, index: Arc<str>, open: Vec<Open>, trouble: Trouble) {
        match self.parked.entry(index.clone()) {
            Entry::Occupied(waiting) => waiting.into_mut().extend(open),
            Entry::Vacant(place) => {
                place.insert(Vec::new());
                self.requests.spawn(carry_parked(index, open, trouble, self.shared.clone()));
            }
        }
    }

    fn ended(&mut self, ended: Result<Over, JoinError>) -> News {
        let over = match ended {
            Ok(over) => over,
            // What it panicked with may hold anything.
            Err(error) => {
                let how = if error.is_panic() { "with a panic, which is a bug" } else { "before it was over" };
                return News::Failed(Error::new(Kind::Sink, format!("{}: a request ended {how}", self.shared.sink.name())));
            }
        };
        match over.index.and_then(|index| self.parked.remove(&index)) {
            Some(waiting) => self.release(waiting),
            None => {
                self.busy -= 1;
                self.at_once = limits::at_once(self.at_once, self.settings.requests_in_flight, over.throttled);
            }
        }
        match over.result {
            Ok(()) => {
                while self.busy < self.at_once
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
        let (limit, mut request, mut bytes) = (self.shared.limit.load(Ordering::Relaxed), Vec::new(), 0);
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

/// A document by a hash of index and id. Two documents that share one wait for each other, and nothing worse.
fn document(operation: &Operation) -> u64 {
    let mut hash = DefaultHasher::new();
    let target = operation.target();
    (&target.index, &target.id).hash(&mut hash);
    hash.finish()
}

impl Settings {
    /// Bytes of records and operations that may wait to be settled; the bodies under way take as much again as one third of the whole.
    pub(super) fn budget(&self) -> usize {
        self.request_bytes.saturating_mul(self.requests_in_flight).saturating_mul(2)
    }

    /// When something that waits since then has waited long enough.
    pub(super) fn lingered(&self, since: Instant) -> Instant {
        const LONGEST: Duration = Duration::from_secs(60 * 60);
        since + self.linger.min(LONGEST)
    }
}
