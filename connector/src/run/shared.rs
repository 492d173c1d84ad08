//! What all requests of a line share: the sink, what is known of it, and the way to tell the line what became of operations.
//!
//! Sends nothing and waits for nothing.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time::Instant;

use super::learned::Learned;
use super::letters::Claim;
use super::notices::Notices;
use super::part::{Open, Poison, Trouble};
use super::settings::Settings;
use super::standing::Standing;
use crate::plan::batch::Slot;
use crate::sink::Sink;

/// What a request tells the line.
#[derive(Debug)]
pub(super) enum Event {
    /// These came to their end, and what each stood for with it.
    Settled(Vec<(Slot<Claim>, End)>),
    /// These can never succeed.
    Poison(Vec<Poison>),
    /// These have to wait for their index.
    Parked(Arc<str>, Vec<Open>, Box<Trouble>),
}

/// How an operation that was carried out ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Indexed,
    Deleted,
    Stale,
    Absent,
}

/// What all requests of a line share.
pub(super) struct Shared {
    pub(super) sink: Arc<dyn Sink>,
    events: UnboundedSender<Event>,
    pub(super) learned: Arc<Learned>,
    /// When something was settled last.
    pub(super) progress: Mutex<Instant>,
    /// Time without progress after which a request gives up.
    pub(super) give_up_after: Option<Duration>,
    /// Whether a sink that refuses the pipeline is waited for.
    pub(super) waits_for_repair: bool,
    /// Nothing more is sent.
    pub(super) stopping: watch::Sender<bool>,
    pub(super) notices: Notices,
    /// Who has to know how things stand, where anybody has.
    pub(super) standing: OnceLock<Arc<Standing>>,
}

impl Shared {
    pub(super) fn new(sink: Arc<dyn Sink>, events: UnboundedSender<Event>, learned: Arc<Learned>, settings: &Settings) -> Self {
        Self {
            sink,
            events,
            learned,
            progress: Mutex::new(Instant::now()),
            give_up_after: settings.give_up_after,
            waits_for_repair: settings.waits_for_repair,
            stopping: watch::Sender::new(false),
            notices: Notices::default(),
            standing: OnceLock::new(),
        }
    }

    /// The sink answered, or why it did not as it should.
    pub(super) fn reached(&self, trouble: Option<&str>) {
        let Some(standing) = self.standing.get() else { return };
        let sink = &mut standing.state().sink;
        match trouble {
            None => sink.is_there(),
            Some(why) => sink.is_not(why),
        }
    }

    pub(super) fn tell(&self, event: Event) {
        if !matches!(event, Event::Parked(..)) {
            *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
        // The line listens until its last request is over; if it has gone, so has the run.
        let _ = self.events.send(event);
    }
}
