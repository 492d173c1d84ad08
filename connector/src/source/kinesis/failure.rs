//! Why a call gave nothing, and whether the same call may give something later.
//!
//! Decides no waits. What is said comes from the service, which names streams, shards and rights, and no record.

use std::error::Error as StdError;
use std::fmt;

use aws_sdk_kinesis::error::{ProvideErrorMetadata, SdkError};

use crate::aws::{code, lacks_credentials, why};
use crate::plan::outcome::Class;

/// Why a call gave nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The same call may succeed later.
    Again {
        /// How soon; `Refused` where a person has to do something for it.
        class: Class,
        /// What happened.
        what: String,
    },
    /// The stream or the shard is not there.
    Gone {
        /// What the service said.
        what: String,
    },
}

impl Failure {
    pub(super) fn again(class: Class, what: impl Into<String>) -> Self {
        Self::Again { class, what: what.into() }
    }

    /// What an answer that is an error means for the same call later. `call` is its name, as the service and its rights have it.
    pub(super) fn of<E: ProvideErrorMetadata + StdError + Send + Sync + 'static>(call: &str, error: SdkError<E>) -> Self {
        let class = match &error {
            SdkError::ServiceError(service) => {
                let status = service.raw().status().as_u16();
                match service.err().code() {
                    Some("ResourceNotFoundException") => return Self::Gone { what: why(error) },
                    Some(code) => class_of(code, status),
                    None if status >= 500 => Class::Unavailable,
                    // No service of AWS refuses without a code: something else answers there, or stands between.
                    None => Class::Unknown,
                }
            }
            _ if lacks_credentials(&error) => {
                return Self::again(Class::Refused, format!("{call}: there are no credentials for AWS to sign with: {}", why(error)));
            }
            SdkError::ConstructionFailure(_) => Class::Unknown,
            _ => Class::Unavailable,
        };
        Self::again(class, format!("{call}: {}", why(error)))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Again { what, .. } | Self::Gone { what } => f.write_str(what),
        }
    }
}

/// What a code of the service means (Amazon Kinesis Data Streams API reference, `GetRecords` and "Common Errors").
fn class_of(code: &str, status: u16) -> Class {
    match code {
        "ProvisionedThroughputExceededException"
        | "LimitExceededException"
        | "KMSThrottlingException"
        | "ThrottlingException"
        | "Throttling"
        | "RequestLimitExceeded" => Class::Throttled,
        "AccessDeniedException"
        | "AccessDenied"
        | "UnrecognizedClientException"
        | "InvalidClientTokenId"
        | "InvalidSignatureException"
        | "SignatureDoesNotMatch"
        | "IncompleteSignature"
        | "MissingAuthenticationToken"
        | "MissingAuthenticationTokenException"
        | "ExpiredTokenException"
        | "ExpiredToken"
        | "OptInRequired"
        | "NotAuthorized"
        | "KMSAccessDeniedException"
        | "KMSDisabledException"
        | "KMSInvalidStateException"
        | "KMSNotFoundException"
        | "KMSOptInRequired" => Class::Refused,
        "ResourceInUseException" | "InternalFailure" | "InternalFailureException" | "ServiceUnavailable" => Class::Unavailable,
        _ if status >= 500 => Class::Unavailable,
        _ => Class::Unknown,
    }
}

/// The code by which the service names an error.
pub(super) fn is<E: ProvideErrorMetadata>(error: &SdkError<E>, wanted: &str) -> bool {
    code(error) == Some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_too_often_is_throttled_what_is_forbidden_refused_and_what_is_down_unavailable() {
        assert_eq!(class_of("ProvisionedThroughputExceededException", 400), Class::Throttled);
        assert_eq!(class_of("KMSThrottlingException", 400), Class::Throttled);
        assert_eq!(class_of("AccessDeniedException", 400), Class::Refused);
        assert_eq!(class_of("KMSDisabledException", 400), Class::Refused);
        assert_eq!(class_of("InternalFailure", 500), Class::Unavailable);
        assert_eq!(class_of("SomethingNew", 503), Class::Unavailable);
        assert_eq!(class_of("SomethingNew", 400), Class::Unknown);
    }
}
