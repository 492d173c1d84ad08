//! Asking a sink again after what may pass, outside of the line: with a wait before each try, for as long as something is got done now and then, and
//! until a stop signal.
//!
//! Knows nothing of what is asked.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::backoff::Waits;
use super::deliver::interrupted;
use super::stopped;
use crate::error::{Error, Kind};
use crate::plan::outcome::{Class, Failure};
use crate::plan::retry::{LONGEST_AFTER, policy};

/// How long a request may take to end after a stop signal.
const GRACE: Duration = Duration::from_secs(10);

/// Asks, and waits.
pub(super) struct Patience {
    /// The sink, for messages.
    name: String,
    /// What to do where the sink lets nobody in.
    rights: &'static str,
    give_up_after: Duration,
    stop: watch::Receiver<bool>,
    /// When something was got done last, and the waits since then.
    since: Instant,
    waits: Option<(Class, Waits)>,
}

impl Patience {
    pub(super) fn new(name: &str, rights: &'static str, give_up_after: Duration, stop: watch::Receiver<bool>) -> Self {
        Self { name: name.to_owned(), rights, give_up_after, stop, since: Instant::now(), waits: None }
    }

    /// Something was got done.
    pub(super) fn progress(&mut self) {
        (self.since, self.waits) = (Instant::now(), None);
    }

    /// The answer to a request, unless everything is to end.
    pub(super) async fn asked<T>(&mut self, answer: impl Future<Output = T>) -> Result<T, Error> {
        if *self.stop.borrow() {
            return Err(interrupted());
        }
        let ended = async {
            stopped(&mut self.stop).await;
            sleep(GRACE).await;
        };
        tokio::select! {
            answer = answer => Ok(answer),
            () = ended => Err(interrupted()),
        }
    }

    /// Waits after a failure that may pass.
    ///
    /// # Errors
    /// It does not pass, or lasts for too long; a stop signal.
    pub(super) async fn wait(&mut self, failure: Failure) -> Result<(), Error> {
        let name = &self.name;
        let (class, what, after) = match failure {
            Failure::Retry { class, what, after } => (class, what, after.unwrap_or_default()),
            Failure::Unauthorized { what } => return Err(Error::new(Kind::Sink, what).help(self.rights)),
            Failure::TooLarge { what, .. } | Failure::Misconfigured { what } => return Err(Error::new(Kind::Sink, what)),
            Failure::Invalid(fault) => return Err(Error::new(Kind::Sink, format!("{name}: {fault}"))),
        };
        let left = self.give_up_after.saturating_sub(self.since.elapsed());
        if left.is_zero() {
            let seconds = self.give_up_after.as_secs_f64();
            let what = format!("{name}: nothing was got done for {seconds}s: {what}");
            return Err(Error::new(Kind::Pending, what).help("run the same command again: what is left is found again"));
        }
        let (_, waits) = match self.waits.take() {
            Some(same) if same.0 == class => self.waits.insert(same),
            _ => {
                tracing::warn!("{name}: {what}; trying again");
                self.waits.insert((class, Waits::new(policy(class))))
            }
        };
        let wait = waits.next().max(after.min(LONGEST_AFTER)).min(left);
        tokio::select! {
            () = sleep(wait) => Ok(()),
            () = stopped(&mut self.stop) => Err(interrupted()),
        }
    }
}
