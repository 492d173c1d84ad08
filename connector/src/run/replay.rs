//! Sends dead letters again. What settles is taken out of the store; what is refused again stays, with its newest reason.

use std::collections::HashSet;
use std::time::Duration;

use super::deliver::Deliver;
use crate::error::Error;
use crate::plan::ledger::Ticket;
use crate::store::dead_letters::{DeadLetter, DeadLetters};

/// How long what is under way may take after something went wrong.
const GRACE: Duration = Duration::from_secs(10);

/// Replays the letters through the line, which must store its dead letters where they came from, and takes out those that settled.
///
/// # Errors
/// What ended the run; the letters that were settled before are taken out all the same.
pub async fn replay(
    letters: impl IntoIterator<Item = Result<DeadLetter, Error>>,
    deliver: &mut Deliver,
    store: &DeadLetters,
) -> Result<usize, Error> {
    deliver.remember_letters();
    let mut sent = Vec::new();
    let result = match send(letters, deliver, &mut sent).await {
        Ok(()) => deliver.finish().await,
        Err(error) => Err(error),
    };
    if result.is_err() {
        deliver.stop(GRACE).await;
    }
    let refused: HashSet<&str> = deliver.remembered_letters().collect();
    let settled = sent.into_iter().filter(|(id, ticket)| deliver.ledger().is_settled_at(*ticket) && !refused.contains(id.as_str()));
    let removed = store.remove(settled.map(|(id, _)| id).collect()).await?;
    result.map(|()| removed)
}

async fn send(
    letters: impl IntoIterator<Item = Result<DeadLetter, Error>>,
    deliver: &mut Deliver,
    sent: &mut Vec<(String, Ticket)>,
) -> Result<(), Error> {
    for letter in letters {
        let letter = letter?;
        let ticket = deliver.push_letter(&letter).await?;
        sent.push((letter.id, ticket));
    }
    Ok(())
}
