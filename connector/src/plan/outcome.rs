//! What a sink's answer means. The one place where reply items, and failures of a whole request, are judged.
//!
//! Matches `error.type` first, then the status, and never the wording of a reason (which differs between versions and languages).

use std::time::Duration;

use crate::operation::Operation;
use crate::record::Fault;

/// What a sink answered for one operation, in the terms of an OpenSearch bulk item. Every sink speaks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The item's status.
    pub status: u16,
    /// The item's error, where there is one.
    pub error: Option<Fault>,
    /// Whether the operation was carried out and changed nothing, as only a merge can (`result: noop`).
    pub noop: bool,
}

impl Reply {
    /// A reply without an error.
    pub fn ok(status: u16) -> Self {
        Self { status, error: None, noop: false }
    }

    /// The reply to a merge that had nothing new.
    pub fn noop() -> Self {
        Self { status: 200, error: None, noop: true }
    }

    /// A reply with an error.
    pub fn error(status: u16, kind: &str, reason: &str) -> Self {
        Self { status, error: Some(Fault::new(kind, reason)), noop: false }
    }
}

/// What became of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The document was written.
    Indexed,
    /// The document was deleted, or a tombstone was written in its place, or cells of it were erased.
    Deleted,
    /// The index holds something at least as new: as good as written.
    Stale,
    /// There was no such document to delete; its version is kept all the same.
    Absent,
    /// It may succeed later.
    Retry(Class, Fault),
    /// It can never succeed.
    Rejected(Fault),
}

/// Why something is tried again; decides how soon and how often ([`retry`](super::retry)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// The server asks for less: 429, circuit breakers.
    Throttled,
    /// No connection, no answer, 5xx, a shard that is not there yet.
    Unavailable,
    /// An index that refuses writes or is missing: a person has to lift it.
    Blocked,
    /// Somebody else wrote the same document just then.
    Contended,
    /// An error of no known class: ten tries, then a dead letter.
    Unknown,
    /// The server refuses the pipeline, for its credentials or what it asks: a person has to put it right. Only a line that waits for
    /// repair tries again.
    Refused,
}

/// How a whole request failed. Nothing of it is settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The batch is sent again later.
    Retry {
        /// How soon and how often.
        class: Class,
        /// What happened, without field values and secrets.
        what: String,
        /// The server's `Retry-After`.
        after: Option<Duration>,
    },
    /// 413: the body is too large for this server. The batch is halved, a single document is a dead letter.
    TooLarge {
        /// What the server said.
        what: String,
        /// The limit in uncompressed bytes, where the server named one.
        limit: Option<usize>,
    },
    /// 400 for the whole request: one operation spoils it. The batch is bisected, a single operation is a dead letter.
    Invalid(Fault),
    /// 401, or 403 by the security layer. Credentials are refreshed once, then a person has to act.
    Unauthorized {
        /// What the server said.
        what: String,
    },
    /// Every operation would fail alike (no write index, custom ids not supported): a person has to change the configuration.
    Misconfigured {
        /// What is wrong and what to do.
        what: String,
    },
}

/// Judges the answer to one operation.
pub fn judge(operation: &Operation, reply: &Reply) -> Outcome {
    let Some(error) = &reply.error else {
        return match (reply.status, operation) {
            (200..=299, Operation::Merge { .. }) if reply.noop => Outcome::Stale,
            (200..=299, Operation::Merge { cells, .. }) if cells.columns.is_empty() => Outcome::Deleted,
            (200..=299, Operation::Index { .. } | Operation::Merge { .. }) => Outcome::Indexed,
            (200..=299, Operation::Delete { .. } | Operation::Tombstone { .. }) => Outcome::Deleted,
            (404, Operation::Delete { .. }) => Outcome::Absent,
            (status, _) => judge_status(status, Fault::new("no_error_given", format!("status {status} without an error"))),
        };
    };
    match error.kind.as_str() {
        // A merge has no version that could be too low: another write came between its reading and its writing.
        "version_conflict_engine_exception" if matches!(operation, Operation::Merge { .. }) => {
            Outcome::Retry(Class::Contended, error.clone())
        }
        "version_conflict_engine_exception" => Outcome::Stale,
        "rejected_execution_exception"
        | "es_rejected_execution_exception"
        | "opensearch_rejected_execution_exception"
        | "circuit_breaking_exception" => Outcome::Retry(Class::Throttled, error.clone()),
        "unavailable_shards_exception"
        | "no_shard_available_action_exception"
        | "process_cluster_event_timeout_exception"
        | "cluster_manager_not_discovered_exception"
        | "master_not_discovered_exception"
        | "primary_missing_action_exception"
        | "node_closed_exception"
        | "node_not_connected_exception"
        | "index_shard_closed_exception"
        | "shard_not_found_exception"
        | "i_o_exception" => Outcome::Retry(Class::Unavailable, error.clone()),
        "cluster_block_exception"
        | "index_create_block_exception"
        | "index_not_found_exception"
        | "index_closed_exception"
        | "validation_exception"
        | "security_exception" => Outcome::Retry(Class::Blocked, error.clone()),
        "mapper_parsing_exception"
        | "document_parsing_exception"
        | "strict_dynamic_mapping_exception"
        | "illegal_argument_exception"
        | "script_exception"
        | "invalid_index_name_exception"
        | "routing_missing_exception"
        | "max_bytes_length_exceeded_exception" => Outcome::Rejected(error.clone()),
        _ => judge_status(reply.status, error.clone()),
    }
}

fn judge_status(status: u16, error: Fault) -> Outcome {
    match status {
        429 => Outcome::Retry(Class::Throttled, error),
        502..=504 => Outcome::Retry(Class::Unavailable, error),
        _ => Outcome::Retry(Class::Unknown, error),
    }
}

/// Judges the answer to a whole request that was not carried out item by item: anything but a 2xx status.
///
/// `error_type` is the body's `error.type`, or what AWS names in its place; `what` is the text for messages, already without field values
/// and secrets; `after` is the server's `Retry-After`. A body that was too large comes back without a limit, which only the reader of the
/// body knows.
pub fn judge_request(status: u16, error_type: Option<&str>, what: String, after: Option<Duration>) -> Failure {
    let class = match (status, error_type) {
        (413, _) => return Failure::TooLarge { what, limit: None },
        // 403 and 429 are not what they seem where an index is blocked; 503 means that the cluster has no manager yet.
        (403 | 429, Some("cluster_block_exception" | "index_create_block_exception")) => Class::Blocked,
        // A missing or closed index; a shard limit, which OpenSearch reports as a validation error.
        (_, Some("index_not_found_exception" | "index_closed_exception" | "validation_exception")) => Class::Blocked,
        (401 | 403, _) => return Failure::Unauthorized { what },
        (
            400,
            Some(
                "ExpiredToken"
                | "ExpiredTokenException"
                | "RequestExpired"
                | "RequestTimeTooSkewed"
                | "RequestInTheFuture"
                | "InvalidSignatureException"
                | "SignatureDoesNotMatch"
                | "IncompleteSignature"
                | "IncompleteSignatureException"
                | "AuthFailure"
                | "AccessDenied"
                | "AccessDeniedException"
                | "InvalidClientTokenId"
                | "MissingAuthenticationToken"
                | "MissingAuthenticationTokenException"
                | "UnrecognizedClientException",
            ),
        ) => return Failure::Unauthorized { what },
        (429, _) | (_, Some("circuit_breaking_exception")) => Class::Throttled,
        (400, Some("Throttling" | "ThrottlingException" | "ThrottledException" | "TooManyRequestsException" | "RequestLimitExceeded")) => {
            Class::Throttled
        }
        // OpenSearch answers 500 where a mapping does not fit the one that there is, which is no outage.
        (400, Some(kind)) | (500, Some(kind @ "mapper_exception")) => return Failure::Invalid(Fault::new(kind, what)),
        (200..=299 | 408 | 425 | 500..=599, _) => Class::Unavailable,
        // Also a 400 without a type: it comes from something in front of OpenSearch, and halving the batch would not cure it.
        _ => return Failure::Misconfigured { what },
    };
    Failure::Retry { class, what, after }
}

#[cfg(test)]
mod request_tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::operation::Target;
    use crate::revision::{Cell, Cells, VersionType};

    fn name(failure: &Failure) -> &'static str {
        match failure {
            Failure::Retry { class: Class::Throttled, .. } => "throttled",
            Failure::Retry { class: Class::Unavailable, .. } => "unavailable",
            Failure::Retry { class: Class::Blocked, .. } => "blocked",
            Failure::Retry { class: Class::Contended, .. } => "contended",
            Failure::Retry { class: Class::Unknown, .. } => "unknown",
            Failure::Retry { class: Class::Refused, .. } => "refused",
            Failure::TooLarge { .. } => "too large",
            Failure::Invalid(_) => "invalid",
            Failure::Unauthorized { .. } => "unauthorized",
            Failure::Misconfigured { .. } => "misconfigured",
        }
    }

    #[test]
    fn a_status_alone_does_not_decide() {
        for (status, kind, expected) in [
            (400, Some("action_request_validation_exception"), "invalid"),
            (400, Some("input_coercion_exception"), "invalid"),
            (400, Some("ExpiredTokenException"), "unauthorized"),
            (400, Some("ExpiredToken"), "unauthorized"),
            (400, Some("RequestTimeTooSkewed"), "unauthorized"),
            (400, Some("AccessDeniedException"), "unauthorized"),
            (400, Some("ThrottlingException"), "throttled"),
            (400, Some("validation_exception"), "blocked"),
            (400, None, "misconfigured"),
            (401, None, "unauthorized"),
            (403, None, "unauthorized"),
            (403, Some("security_exception"), "unauthorized"),
            (403, Some("cluster_block_exception"), "blocked"),
            (404, None, "misconfigured"),
            (404, Some("index_not_found_exception"), "blocked"),
            (408, None, "unavailable"),
            (413, None, "too large"),
            (429, None, "throttled"),
            (429, Some("cluster_block_exception"), "blocked"),
            (500, Some("null_pointer_exception"), "unavailable"),
            (500, Some("mapper_exception"), "invalid"),
            (502, None, "unavailable"),
            (503, Some("cluster_block_exception"), "unavailable"),
            (503, Some("circuit_breaking_exception"), "throttled"),
            (504, None, "unavailable"),
            (301, None, "misconfigured"),
        ] {
            let failure = judge_request(status, kind, String::new(), None);
            assert_eq!(name(&failure), expected, "{status} {kind:?}");
        }
    }

    #[test]
    fn what_was_said_and_retry_after_are_kept() {
        let after = Some(Duration::from_secs(2));
        assert_eq!(
            judge_request(429, None, "busy".to_owned(), after),
            Failure::Retry { class: Class::Throttled, what: "busy".to_owned(), after }
        );
        assert_eq!(
            judge_request(400, Some("parse_exception"), "line 3".to_owned(), None),
            Failure::Invalid(Fault::new("parse_exception", "line 3"))
        );
    }

    fn target() -> Target {
        Target { index: "people".into(), id: "1".to_owned(), version: 1, version_type: VersionType::External, routing: None }
    }

    #[test]
    fn a_tombstone_that_is_written_is_a_delete_and_one_that_comes_late_is_stale() {
        let tombstone = Operation::Tombstone { target: target(), time: 0 };
        assert_eq!([200, 201].map(|status| judge(&tombstone, &Reply::ok(status))), [Outcome::Deleted, Outcome::Deleted]);
        assert_eq!(judge(&tombstone, &Reply::error(409, "version_conflict_engine_exception", "")), Outcome::Stale);
        assert!(matches!(judge(&tombstone, &Reply::ok(404)), Outcome::Retry(Class::Unknown, _)), "404 answers a delete only");
    }

    #[test]
    fn a_merge_is_written_or_erases_or_has_nothing_new_and_never_comes_too_late() {
        let cell = Cell { name: "a".to_owned(), version: 1, value: Bytes::from_static(b"1") };
        let merge = |erased, columns| Operation::Merge { target: target(), cells: Arc::new(Cells { erased, columns }), time: 0 };
        let (written, erasing) = (merge(None, vec![cell]), merge(Some(1), vec![]));
        assert_eq!([200, 201].map(|status| judge(&written, &Reply::ok(status))), [Outcome::Indexed, Outcome::Indexed]);
        assert_eq!([200, 201].map(|status| judge(&erasing, &Reply::ok(status))), [Outcome::Deleted, Outcome::Deleted]);
        assert_eq!([&written, &erasing].map(|merge| judge(merge, &Reply::noop())), [Outcome::Stale, Outcome::Stale]);
        let conflict = Reply::error(409, "version_conflict_engine_exception", "");
        assert!(matches!(judge(&written, &conflict), Outcome::Retry(Class::Contended, _)));
        assert!(matches!(judge(&written, &Reply::error(400, "script_exception", "")), Outcome::Rejected(_)));
        assert!(matches!(judge(&written, &Reply::error(400, "circuit_breaking_exception", "")), Outcome::Retry(Class::Throttled, _)));
    }

    #[test]
    fn a_refusal_of_one_index_by_the_security_layer_blocks_it_and_loses_nothing() {
        let outcome = judge(&Operation::Delete { target: target() }, &Reply::error(403, "security_exception", "no permissions"));
        assert!(matches!(outcome, Outcome::Retry(Class::Blocked, _)), "{outcome:?}");
    }
}
