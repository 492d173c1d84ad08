//! Calls to AWS, as both the queue and the bucket make them: several at once, and what is said where one is refused.

use std::collections::VecDeque;
use std::fmt::Display;
use std::future::Future;

use tokio::task::JoinSet;

use crate::error::{Error, Kind};

/// The error for a place where something cannot be done, with the rights that it takes where that is what is missing.
pub(super) fn refusal(place: &impl Display, what: &str, why: &str, rights: &str) -> Error {
    let error = Error::new(Kind::DeadLetters, format!("dead letters: {place} {what}: {why}"));
    if why.contains("AccessDenied") { error.help(rights) } else { error }
}

/// Does pieces of work, so many at once; gives what came of them in their order.
///
/// # Errors
/// The first error; what was not done then is abandoned.
pub(super) async fn together<T, F>(at_once: usize, works: impl IntoIterator<Item = F>) -> Result<Vec<T>, Error>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let mut waiting: VecDeque<(usize, F)> = works.into_iter().enumerate().collect();
    let mut done: Vec<Option<T>> = waiting.iter().map(|_| None).collect();
    let mut running = JoinSet::new();
    loop {
        while running.len() < at_once
            && let Some((place, work)) = waiting.pop_front()
        {
            running.spawn(async move { work.await.map(|value| (place, value)) });
        }
        let Some(ended) = running.join_next().await else { break };
        let (place, value) =
            ended.map_err(|error| Error::new(Kind::DeadLetters, format!("dead letters: the work was not finished: {error}")))??;
        done[place] = Some(value);
    }
    Ok(done.into_iter().flatten().collect())
}
