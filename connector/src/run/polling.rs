//! The thread that polls a member of a consumer group, and goes on with it whatever the line does: a member that is not polled is put out.
//!
//! Room bounds what was read and not taken in: where there is none, the partitions are paused, and polling goes on. Never decides what is settled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::assignment::{Assignment, Settled};
use super::notices::Notices;
use crate::error::{Error, Kind};
use crate::kafka::Address;
use crate::panics::caught;
use crate::record::Record;
use crate::source::kafka::{Begun, Failure, Key, Lost, Member, Polled};

/// Bytes of messages that are handed over together.
const PAGE: usize = 256 * 1024;
/// How long the first message of a page is waited for.
const TURN: Duration = Duration::from_millis(100);
/// How long the others are.
const AT_HAND: Duration = Duration::from_millis(1);
/// How long servers that cannot be asked are left alone.
const AGAIN: Duration = Duration::from_secs(3);
/// How often it is looked how far everything is.
const SURVEY: Duration = Duration::from_secs(2);
/// How soon after the group gave a partition.
const GLANCE: Duration = Duration::from_millis(200);
/// How long a member that leaves waits for the group to confirm it.
const LEAVING: Duration = Duration::from_secs(3);

/// What the thread is to do.
#[derive(Debug)]
pub(super) enum Order {
    /// Commit this.
    Commit(Vec<Settled>),
    /// Hand no more messages over.
    Stop,
    /// Commit this, and leave.
    Leave(Vec<Settled>),
}

/// What the thread tells. Things come in the order in which they happened.
#[derive(Debug)]
pub(super) enum News {
    /// A partition is read from now on.
    Begun(Begun),
    /// A partition is not read any more.
    Left(Key),
    /// Messages.
    Page(Page),
    /// Messages were lost before they could be read. What is there still comes next.
    Lost(Lost),
    /// Nothing more comes.
    Failed(Error),
}

/// Messages, each with the reading of its partition. Their memory counts until this is dropped.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) records: Vec<(u64, Record)>,
    bytes: usize,
    in_use: Arc<AtomicUsize>,
}

impl Page {
    fn new(room: &Room) -> Self {
        Self { records: Vec::new(), bytes: 0, in_use: Arc::clone(&room.in_use) }
    }

    fn add(&mut self, record: Record, beside: usize, generation: u64) {
        let bytes = record.data.len() + beside + size_of::<(u64, Record)>();
        self.bytes += bytes;
        self.in_use.fetch_add(bytes, Ordering::Relaxed);
        self.records.push((generation, record));
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.in_use.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The memory that what was read and not taken in may have.
#[derive(Debug, Clone)]
pub(super) struct Room {
    in_use: Arc<AtomicUsize>,
    all: usize,
}

impl Room {
    pub(super) fn new(bytes: usize) -> Self {
        Self { in_use: Arc::default(), all: bytes }
    }

    /// What is taken of it, in bytes.
    pub(super) fn in_use(&self) -> usize {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Whether more may be read: where nothing is, only when half of it is free again.
    fn lets_in(&self, is_paused: bool) -> bool {
        self.in_use() < if is_paused { self.all / 2 } else { self.all }
    }
}

/// The thread.
pub(super) struct Polling {
    member: Member,
    address: Address,
    assignment: Arc<Assignment>,
    room: Room,
    news: UnboundedSender<News>,
    orders: Receiver<Order>,
    stops_on_data_loss: bool,
    notices: Notices,
}

impl Polling {
    /// Starts the thread: gives where it takes orders, and what tells of its end. It looks whether the topics are there, joins the group, and
    /// ends when it was told to leave, or cannot go on.
    pub(super) fn start(
        member: Member,
        address: Address,
        assignment: Arc<Assignment>,
        room: Room,
        news: UnboundedSender<News>,
        stops_on_data_loss: bool,
    ) -> (Sender<Order>, oneshot::Receiver<()>) {
        let (sender, orders) = channel();
        let (end, ended) = oneshot::channel();
        let polling = Self { member, address, assignment, room, news, orders, stops_on_data_loss, notices: Notices::default() };
        thread::spawn(move || {
            let news = polling.news.clone();
            let ended = caught(|| polling.run()).unwrap_or_else(|panic| Err(Error::new(Kind::Bug, panic.reason)));
            if let Err(error) = ended {
                let _ = news.send(News::Failed(error));
            }
            let _ = end.send(());
        });
        (sender, ended)
    }

    fn run(&self) -> Result<(), Error> {
        while let Err(failure) = self.member.look() {
            if let Failure::Gone { .. } = failure {
                return Err(failure.error(&self.address));
            }
            self.hindered(&failure);
            if !self.waits(AGAIN) {
                return Ok(());
            }
        }
        self.assignment.source_is_there();
        self.member.join().map_err(|failure| failure.error(&self.address))?;
        let ends = Arc::new(AtomicBool::new(false));
        let (member, assignment, surveyed) = (self.member.clone(), Arc::clone(&self.assignment), Arc::clone(&ends));
        let surveying = thread::spawn(move || survey(&member, &assignment, &surveyed));
        let polled = self.poll();
        ends.store(true, Ordering::Relaxed);
        surveying.thread().unpark();
        // Whatever ended it: the others wait for a member that does not say that it goes.
        self.leave(polled.as_deref().unwrap_or_default());
        polled.map(drop)
    }

    /// Waits before the group is joined; whether it is to go on.
    fn waits(&self, time: Duration) -> bool {
        match self.orders.recv_timeout(time) {
            Ok(Order::Stop | Order::Leave(_)) | Err(RecvTimeoutError::Disconnected) => false,
            Ok(Order::Commit(_)) | Err(RecvTimeoutError::Timeout) => true,
        }
    }

    /// Polls until it is told to leave: gives what is to be committed before.
    fn poll(&self) -> Result<Vec<Settled>, Error> {
        let (mut is_stopped, mut is_paused) = (false, false);
        // Since when it is to be looked again for what was lost.
        let mut unclear = None::<Instant>;
        loop {
            match self.orders.try_recv() {
                Ok(Order::Commit(settled)) => self.commit(&settled),
                Ok(Order::Stop) => is_stopped = true,
                Ok(Order::Leave(settled)) => return Ok(settled),
                Err(TryRecvError::Disconnected) => return Ok(Vec::new()),
                Err(TryRecvError::Empty) => {}
            }
            is_paused = is_stopped || !self.room.lets_in(is_paused);
            if let Err(failure) = self.member.pause(is_paused) {
                self.hindered(&failure);
            }
            if unclear.is_some_and(|since| since.elapsed() >= AGAIN) {
                unclear = if self.look_for_losses() { None } else { Some(Instant::now()) };
            }
            let mut page = Page::new(&self.room);
            let mut time = TURN;
            loop {
                match self.member.poll(time) {
                    Polled::Message(record, beside, generation) if !is_stopped => page.add(record, beside, generation),
                    Polled::Message(..) | Polled::Nothing => break,
                    Polled::Trouble(failure) => {
                        self.hindered(&failure);
                        break;
                    }
                    Polled::OutOfRange => {
                        self.hand_over(&mut page);
                        self.look_for_losses();
                        // A partition that stopped goes on by nothing else, and what became of it may not be known yet.
                        unclear = Some(Instant::now());
                        break;
                    }
                    Polled::Failed(failure) => return Err(failure.error(&self.address)),
                }
                if page.bytes >= PAGE {
                    break;
                }
                time = AT_HAND;
            }
            self.hand_over(&mut page);
        }
    }

    fn hand_over(&self, page: &mut Page) {
        if !page.records.is_empty() {
            let page = std::mem::replace(page, Page::new(&self.room));
            let _ = self.news.send(News::Page(page));
        }
    }

    fn commit(&self, settled: &[Settled]) {
        if let Err(failure) = self.member.commit(&self.assignment.still_held(settled)) {
            self.assignment.not_committed(failure.what());
        }
    }

    /// Whether it is known what was lost, and everything goes on.
    fn look_for_losses(&self) -> bool {
        let lost = match self.member.losses() {
            Ok(lost) => lost,
            Err(failure) => {
                self.hindered(&failure);
                return false;
            }
        };
        let mut goes_on = true;
        for lost in lost {
            tracing::error!("records of {}-{} were lost before they were read: {}", lost.key.0, lost.key.1, lost.what);
            let _ = self.news.send(News::Lost(lost.clone()));
            if self.stops_on_data_loss {
                continue;
            }
            if let Err(failure) = self.member.go_on(&lost) {
                self.hindered(&failure);
                goes_on = false;
            }
        }
        goes_on
    }

    fn hindered(&self, failure: &Failure) {
        if self.notices.is_due(failure.what()) {
            tracing::warn!("{}; trying again", failure.error(&self.address).what);
        }
        self.assignment.source_is_not(failure.what());
    }

    fn leave(&self, settled: &[Settled]) {
        if let Err(failure) = self.member.commit_and_wait(&self.assignment.still_held(settled)) {
            tracing::warn!("{}: what was settled since the last commit is read again, which changes nothing", failure.what());
        }
        let why = match self.member.leave(LEAVING) {
            Ok(true) => return,
            Ok(false) => format!("its coordinator has not confirmed it for {LEAVING:?}"),
            Err(failure) => failure.what().to_owned(),
        };
        tracing::warn!("the group may not have been left, and then its other members wait until the session of this one ends: {why}");
    }
}

/// Looks, beside the polling, how far the partitions are and whether the topics are there.
fn survey(member: &Member, assignment: &Assignment, ends: &AtomicBool) {
    let mut surveyed = None::<Instant>;
    while !ends.load(Ordering::Relaxed) {
        let is_due = assignment.take_changed() || surveyed.is_none_or(|surveyed| surveyed.elapsed() >= SURVEY);
        if assignment.has_begun() && is_due {
            surveyed = Some(Instant::now());
            match member.survey() {
                Ok(found) => {
                    assignment.source_is_there();
                    found.iter().for_each(|(key, far)| assignment.surveyed(key, *far));
                }
                Err(failure) => assignment.source_is_not(failure.what()),
            }
        }
        thread::park_timeout(GLANCE);
    }
}

impl std::fmt::Debug for Polling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Polling").field("member", &self.member).finish_non_exhaustive()
    }
}
