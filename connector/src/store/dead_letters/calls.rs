//! Calls to AWS, as both the queue and the bucket make them: how long they may take, several at once, and what an error says.
//!
//! Never shows more of an error than its code, its message and the innermost cause.

use std::collections::VecDeque;
use std::error::Error as StdError;
use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use tokio::task::JoinSet;

use crate::error::{Error, Kind};

/// How often the SDK tries a call that fails for a reason that may pass.
pub(super) fn retries() -> RetryConfig {
    RetryConfig::standard().with_max_attempts(4)
}

/// How long a call may take: a letter may have tens of MiB, and whoever waits for it has a batch that is not settled.
pub(super) fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(5))
        .operation_attempt_timeout(Duration::from_secs(30))
        .operation_timeout(Duration::from_secs(60))
        .build()
}

/// What an error of a call says, in one line.
pub(super) fn why<E: ProvideErrorMetadata + StdError + Send + Sync + 'static>(error: SdkError<E>) -> String {
    match &error {
        SdkError::ServiceError(service) => {
            let status = service.raw().status().as_u16();
            match (service.err().code(), service.err().message()) {
                (Some(code), Some(message)) if !message.is_empty() => format!("{code}: {message}"),
                (Some(code), _) => code.to_owned(),
                (None, _) => format!("status {status}"),
            }
        }
        SdkError::TimeoutError(_) => "no answer in time".to_owned(),
        _ => deepest(&error),
    }
}

/// The error for a place where something cannot be done, with the rights that it takes where that is what is missing.
pub(super) fn refusal(place: &impl Display, what: &str, why: &str, rights: &str) -> Error {
    let error = Error::new(Kind::DeadLetters, format!("dead letters: {place} {what}: {why}"));
    if why.contains("AccessDenied") { error.help(rights) } else { error }
}

/// The code by which a service names an error.
pub(super) fn code<E: ProvideErrorMetadata>(error: &SdkError<E>) -> Option<&str> {
    if let SdkError::ServiceError(service) = error { service.err().code() } else { None }
}

/// The innermost cause, which is the only one whose text is not a paraphrase.
fn deepest(error: &(dyn StdError + 'static)) -> String {
    std::iter::successors(Some(error), |error| (*error).source()).last().map(ToString::to_string).unwrap_or_default()
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
