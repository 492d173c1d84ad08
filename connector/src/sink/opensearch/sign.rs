//! AWS credentials for signing (Signature Version 4; the signing itself is the `opensearch` crate's).
//!
//! That crate asks its provider for credentials on every request, and a provider such as an assumed role asks a server each time; so what was
//! handed out is [`Held`] between them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::Region;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use aws_types::sdk_config::TimeSource;

use super::clock::Clock;
use super::held::{Age, Held, Source};
use crate::aws::{self, Aws};
use crate::error::Error;

/// Credentials are fetched again this long before they expire, so that none expires on the way to the server.
const EARLY: Duration = Duration::from_secs(300);

/// Where credentials come from.
#[derive(Debug)]
pub(super) struct Keys {
    inner: SharedCredentialsProvider,
    /// What tells whether they have expired: the clock of those who say when they do.
    clock: Clock,
}

impl Keys {
    pub(super) fn new(inner: SharedCredentialsProvider, clock: Clock) -> Self {
        Self { inner, clock }
    }
}

impl Source for Keys {
    type Proof = Credentials;
    type Error = CredentialsError;

    async fn fetch(&self) -> Result<Credentials, CredentialsError> {
        self.inner.provide_credentials().await
    }

    fn age(&self, held: &Credentials) -> Age {
        match left(held, self.clock.now()) {
            None => Age::Good,
            Some(left) if left > EARLY => Age::Good,
            Some(left) if !left.is_zero() => Age::Ending,
            Some(_) => Age::Over,
        }
    }
}

fn left(credentials: &Credentials, now: SystemTime) -> Option<Duration> {
    credentials.expiry().map(|expiry| expiry.duration_since(now).unwrap_or_default())
}

/// The cache as the `opensearch` crate wants it.
#[derive(Debug)]
pub(super) struct Provider(pub(super) Arc<Held<Keys>>);

impl ProvideCredentials for Provider {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async { self.0.get().await.map(|(credentials, _)| credentials) })
    }
}

/// What to do where no region is known.
const NO_REGION: &str = "set --aws-region, region under [sink.aws], or AWS_REGION";

/// Finds the region and the source of credentials.
///
/// # Errors
/// [`Kind::Usage`](crate::error::Kind::Usage) where no region is known.
pub(super) async fn find(aws: &Aws) -> Result<(Region, SharedCredentialsProvider), Error> {
    let sdk = aws.load(None, NO_REGION).await?;
    sdk.region().cloned().zip(sdk.credentials_provider()).ok_or_else(no_region)
}

/// The error for a missing region.
pub(super) fn no_region() -> Error {
    aws::no_region(NO_REGION)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Hands out a new set on each call, each good for `lifetime`; from call `fails_from` on it fails.
    #[derive(Debug)]
    struct Rotating {
        calls: Arc<AtomicUsize>,
        lifetime: Option<Duration>,
        fails_from: usize,
    }

    impl ProvideCredentials for Rotating {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
            future::ProvideCredentials::ready(if call >= self.fails_from {
                Err(CredentialsError::provider_error("down"))
            } else {
                #[expect(clippy::disallowed_methods, reason = "the SDK compares an expiry with the wall clock")]
                let expiry = self.lifetime.map(|lifetime| SystemTime::now() + lifetime);
                Ok(Credentials::new(format!("key{call}"), "secret", None, expiry, "test"))
            })
        }
    }

    fn held(lifetime: Option<Duration>, fails_from: usize) -> (Held<Keys>, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        let provider = Rotating { calls: Arc::clone(&calls), lifetime, fails_from };
        (Held::new(Keys::new(SharedCredentialsProvider::new(provider), Clock::default())), calls)
    }

    #[tokio::test]
    async fn one_set_signs_many_requests() {
        let (held, calls) = held(Some(Duration::from_secs(3600)), usize::MAX);
        for _ in 0..10 {
            assert_eq!(held.get().await.unwrap().0.access_key_id(), "key1");
        }
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_set_near_its_end_is_replaced() {
        let (held, _) = held(Some(Duration::from_secs(60)), usize::MAX);
        assert_eq!(held.get().await.unwrap().0.access_key_id(), "key1");
        assert_eq!(held.get().await.unwrap().0.access_key_id(), "key2");
    }

    #[tokio::test]
    async fn a_set_that_is_still_good_bridges_an_outage_of_its_source() {
        let (held, _) = held(Some(Duration::from_secs(60)), 2);
        held.get().await.unwrap();
        assert_eq!(held.get().await.unwrap().0.access_key_id(), "key1");
    }

    #[tokio::test]
    async fn an_expired_set_is_never_handed_out() {
        let (held, _) = held(Some(Duration::ZERO), 2);
        held.get().await.unwrap();
        assert!(held.get().await.is_err());
    }

    #[tokio::test]
    async fn whether_a_set_has_expired_is_told_by_the_corrected_clock() {
        let (held, calls) = held(Some(Duration::from_secs(900)), usize::MAX);
        held.get().await.unwrap();
        #[expect(clippy::disallowed_methods, reason = "the server's clock is a quarter of an hour ahead of this one")]
        let ahead = SystemTime::now() + Duration::from_secs(900);
        assert!(held.source().clock.correct("h:1", 0, ahead));
        assert_eq!(held.get().await.unwrap().0.access_key_id(), "key2");
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn requests_refused_with_one_set_bring_about_one_refresh() {
        let (held, calls) = held(None, usize::MAX);
        let (_, seen) = held.get().await.unwrap();
        assert!(held.refresh(seen).await);
        assert!(held.refresh(seen).await);
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        assert_eq!(held.get().await.unwrap().0.access_key_id(), "key2");
    }

    #[tokio::test]
    async fn a_refresh_that_fails_asks_for_no_second_try() {
        let (held, _) = held(None, 2);
        let (_, seen) = held.get().await.unwrap();
        assert!(!held.refresh(seen).await);
    }
}
