//! AWS as every edge reaches it: the region, the source of credentials and the endpoint, made in one place.
//!
//! A leaf: knows of services only where the `secrets` are and how a `bucket` is named and reached, what an error of any says, and how long a call
//! may take.

pub mod bucket;
pub(crate) mod secrets;

use std::error::Error as StdError;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::sts::AssumeRoleProvider;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_secretsmanager::error::{ProvideErrorMetadata, SdkError};
use aws_types::service_config::ServiceConfigKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::error::Error;

/// How to reach AWS.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Aws {
    /// The region that requests are signed for. Default: that of the AWS environment or profile.
    pub region: Option<String>,
    /// A role to assume before signing. Default: none.
    pub assume_role_arn: Option<String>,
}

impl Aws {
    /// Finds the region and the source of credentials: `given`, or the default chain (environment, profile, container, instance), and the role to
    /// assume.
    ///
    /// # Errors
    /// [`Kind::Usage`](crate::error::Kind::Usage) where no region is known, with `help` as what to do, or no source of credentials.
    pub(crate) async fn load(&self, given: Option<&SharedCredentialsProvider>, help: &str) -> Result<SdkConfig, Error> {
        let mut loader = aws_config::defaults(BehaviorVersion::latest());
        if let Some(given) = given {
            loader = loader.credentials_provider(given.clone());
        }
        if let Some(region) = &self.region {
            loader = loader.region(Region::new(region.clone()));
        }
        let sdk = loader.load().await;
        if sdk.region().is_none() {
            return Err(no_region(help));
        }
        if sdk.credentials_provider().is_none() {
            return Err(Error::usage("no source of AWS credentials").help("set AWS_PROFILE, or run under a role"));
        }
        let Some(role) = &self.assume_role_arn else { return Ok(sdk) };
        let assumed = AssumeRoleProvider::builder(role).session_name("revsync").configure(&sdk).build().await;
        Ok(sdk.into_builder().credentials_provider(SharedCredentialsProvider::new(assumed)).build())
    }
}

/// The error for a missing region.
pub(crate) fn no_region(help: &str) -> Error {
    Error::usage("the AWS region to sign for is not known").help(help)
}

/// The address that the environment or the profile names for a service (`AWS_ENDPOINT_URL`, or that and `_` and the service's id), in place of
/// AWS's own.
pub(crate) fn endpoint(sdk: &SdkConfig, service: &str) -> Option<String> {
    let key = ServiceConfigKey::builder().service_id(service).env("AWS_ENDPOINT_URL").profile("endpoint_url").build().ok()?;
    let own = sdk.service_config().and_then(|config| config.load_config(key));
    own.or_else(|| sdk.endpoint_url().map(str::to_owned))
}

/// How often the SDK tries a call that fails for a reason that may pass.
pub(crate) fn retries() -> RetryConfig {
    RetryConfig::standard().with_max_attempts(4)
}

/// How long a call may take: a letter may have tens of MiB, and whoever waits for it has a batch that is not settled.
pub(crate) fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(5))
        .operation_attempt_timeout(Duration::from_secs(30))
        .operation_timeout(Duration::from_secs(60))
        .build()
}

/// What an error of a call says, in one line.
pub(crate) fn why<E: ProvideErrorMetadata + StdError + Send + Sync + 'static>(error: SdkError<E>) -> String {
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

/// The code by which a service names an error.
pub(crate) fn code<E: ProvideErrorMetadata>(error: &SdkError<E>) -> Option<&str> {
    if let SdkError::ServiceError(service) = error { service.err().code() } else { None }
}

/// Whether a call was never sent, because there is nothing to sign it with.
pub(crate) fn lacks_credentials(error: &(dyn StdError + 'static)) -> bool {
    std::iter::successors(Some(error), |error| (*error).source()).any(|error| error.is::<CredentialsError>())
}

/// The innermost cause, which is the only one whose text is not a paraphrase.
pub(crate) fn deepest(error: &(dyn StdError + 'static)) -> String {
    std::iter::successors(Some(error), |error| (*error).source()).last().map(ToString::to_string).unwrap_or_default()
}

/// Where an AWS service is, as the query of a URL says it: `?region=…&endpoint=…`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// The region; comes before every other setting of it.
    pub region: Option<String>,
    /// The address of the service, for an emulator or an endpoint of one's own; without a slash at its end.
    pub endpoint: Option<String>,
}

impl Reach {
    /// Reads the query of a URL.
    ///
    /// # Errors
    /// Another key, a key without a value, or an endpoint that is no `http(s)://HOST:PORT`: in words that go on from "expected".
    pub(crate) fn of(url: &Url) -> Result<Self, String> {
        let mut reach = Self::default();
        for (key, value) in url.query_pairs() {
            let place = match key.as_ref() {
                "region" => &mut reach.region,
                "endpoint" => &mut reach.endpoint,
                _ => return Err(format!("region=… and endpoint=… behind the ?, found {key:?}")),
            };
            if value.is_empty() || place.is_some() {
                return Err(format!("one value of {key} behind the ?"));
            }
            *place = Some(value.trim_end_matches('/').to_owned());
        }
        if reach.endpoint.as_deref().is_some_and(|endpoint| !is_address(endpoint)) {
            // What was found is not repeated: a password may stand in it.
            return Err("http(s)://HOST:PORT behind endpoint=".to_owned());
        }
        Ok(reach)
    }
}

fn is_address(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.host_str().is_some_and(|host| !host.is_empty())
            && url.username().is_empty()
            && url.password().is_none()
    })
}

impl std::fmt::Display for Reach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pairs = [("region", &self.region), ("endpoint", &self.endpoint)];
        let given = pairs.into_iter().filter_map(|(key, value)| Some((key, value.as_deref()?)));
        for ((key, value), sign) in given.zip(['?', '&']) {
            write!(f, "{sign}{key}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(query: &str) -> Result<Reach, String> {
        Reach::of(&Url::parse(&format!("kinesis://ledger{query}")).unwrap())
    }

    #[test]
    fn a_query_names_region_and_endpoint() {
        let found = reach("?endpoint=http://127.0.0.1:4566/&region=eu-west-1").unwrap();
        assert_eq!((found.region.as_deref(), found.endpoint.as_deref()), (Some("eu-west-1"), Some("http://127.0.0.1:4566")));
        assert_eq!(found.to_string(), "?region=eu-west-1&endpoint=http://127.0.0.1:4566");
        assert_eq!((reach("").unwrap(), Reach::default().to_string()), (Reach::default(), String::new()));
    }

    #[test]
    fn a_query_that_says_something_else_is_refused() {
        for query in ["?regoin=x", "?region=", "?region=a&region=b", "?endpoint=localhost:4566", "?endpoint=http://ann:hunter2@h"] {
            let refused = reach(query).unwrap_err();
            assert!(!refused.contains("hunter2"), "{refused}");
        }
    }
}
