//! Sends dead letters again, portion by portion: each is delivered until everything of it is settled, what settled is taken out, and only then
//! comes the next. What is refused again stays, once and with its newest reason.
//!
//! Sends no letter twice, so that it ends; takes out nothing that is not settled, whatever ends it.

use std::collections::HashSet;
use std::time::Duration;

use tokio::sync::watch;

use super::choice::Choice;
use super::deliver::{Deliver, interrupted};
use super::stopped;
use crate::error::{Error, Kind};
use crate::metrics::Counts;
use crate::plan::ledger::Ticket;
use crate::plan::resurrection::Guard;
use crate::store::dead_letters::{DeadLetter, DeadLetters, Entry, PORTION, Walk};

/// How long what is under way may take after something went wrong.
const GRACE: Duration = Duration::from_secs(10);

/// Sends the letters of a choice again, through a line that stores its dead letters in the same place. Says how many were taken out.
///
/// What the guard stops is left where it is.
///
/// # Errors
/// What ended the run, a stop signal too; the letters that were settled before are taken out all the same. A letter that the guard stopped.
pub async fn replay(
    store: &DeadLetters,
    choice: &Choice,
    guard: Option<&Guard>,
    deliver: &mut Deliver,
    mut stop: watch::Receiver<bool>,
    mut progress: impl FnMut(&Counts),
) -> Result<usize, Error> {
    let mut walk = store.walk().await?;
    let mut stayed = Stayed::default();
    let mut removed = 0;
    let result = loop {
        let portion = tokio::select! {
            biased;
            () = stopped(&mut stop) => Err(interrupted()),
            portion = walk.next(PORTION) => portion,
        };
        let portion = match portion {
            Ok(Some(portion)) => portion,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        let wanted = portion.into_iter().filter_map(|entry| match entry {
            Entry::Letter(letter) if !choice.takes(&letter) => None,
            Entry::Letter(letter) if guard.is_some_and(|guard| stops(guard, &letter)) => {
                stayed.old += 1;
                None
            }
            Entry::Letter(letter) => Some(*letter),
            Entry::Damaged { .. } => None,
        });
        let wanted: Vec<DeadLetter> = wanted.collect();
        let (delivered, taken_out) = work(&mut walk, wanted, deliver, &mut stop, &mut stayed).await;
        removed += taken_out;
        progress(&deliver.counts());
        if let Err(error) = delivered {
            break Err(error);
        }
    };
    let ended = walk.end().await;
    result.and(ended).and(stayed.told())?;
    Ok(removed)
}

/// Whether a guard stops a letter.
pub fn stops(guard: &Guard, letter: &DeadLetter) -> bool {
    guard.stops(letter.mode, letter.table.as_deref(), letter.since_moment())
}

/// Letters that were meant and not sent.
#[derive(Debug, Default)]
struct Stayed {
    old: u64,
    /// Those of the journal or of a history for which there is no index.
    without_index: u64,
    /// The first that was not to be had, and why; and how many were not.
    unreadable: Option<(String, String)>,
    unread: u64,
}

impl Stayed {
    fn told(self) -> Result<(), Error> {
        let refuse = |what: String, help: &str| Err(Error::new(Kind::DeadLetters, format!("dead letters: {what}")).help(help));
        match self {
            Self { unreadable: Some((id, why)), unread, .. } => refuse(
                format!("{unread} could not be sent again, for their payload is not to be had; letter {id}: {why}"),
                "the others were sent",
            ),
            Self { old: 1.., .. } => refuse(
                format!("{} could bring a deleted document back, and stayed", self.old),
                "run the command again: it says what to do about them",
            ),
            Self { without_index: without @ 1.., .. } => refuse(
                format!("{without} of the journal or of a history have no index to go to, and stayed"),
                "give --journal INDEX, and the configuration (--config) that has the rules with mode = \"history\"",
            ),
            Self { .. } => Ok(()),
        }
    }
}

/// Delivers letters and takes out what settled; both are told, and the first does not keep the second from being done.
async fn work(
    walk: &mut Walk,
    letters: Vec<DeadLetter>,
    deliver: &mut Deliver,
    stop: &mut watch::Receiver<bool>,
    stayed: &mut Stayed,
) -> (Result<(), Error>, usize) {
    let mut sent = Vec::new();
    let mut result = tokio::select! {
        biased;
        () = stopped(stop) => Err(interrupted()),
        result = send(walk, letters, deliver, &mut sent, stayed) => result,
    };
    if result.is_err() {
        deliver.stop(GRACE).await;
    }
    let anew = deliver.take_stored_again();
    let refused: HashSet<&str> = anew.iter().map(|anew| anew.id.as_str()).collect();
    let settled = sent.into_iter().filter(|(id, ticket)| deliver.ledger().is_settled_at(*ticket) && !refused.contains(id.as_str()));
    let settled: Vec<String> = settled.map(|(id, _)| id).collect();
    let replaced = walk.replace(&anew).await;
    let removed = walk.settle(&settled).await;
    result = result.and(replaced);
    match removed {
        Ok(removed) => (result, removed),
        Err(error) => (result.and(Err(error)), 0),
    }
}

/// Sends what can be read, and waits until it is settled. A place that cannot be read any more keeps nothing from being delivered that could be.
async fn send(
    walk: &Walk,
    letters: Vec<DeadLetter>,
    deliver: &mut Deliver,
    sent: &mut Vec<(String, Ticket)>,
    stayed: &mut Stayed,
) -> Result<(), Error> {
    let mut read = Ok(());
    for letter in letters {
        let id = letter.id.clone();
        match walk.load(letter).await {
            Ok(Ok(letter)) => match deliver.push_letter(&letter).await? {
                Some(ticket) => sent.push((id, ticket)),
                None => stayed.without_index += 1,
            },
            Ok(Err(why)) => {
                stayed.unread += 1;
                stayed.unreadable.get_or_insert((id, why));
            }
            Err(error) => {
                read = Err(error);
                break;
            }
        }
    }
    deliver.finish().await.and(read)
}
