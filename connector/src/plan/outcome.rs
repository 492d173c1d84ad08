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
}

impl Reply {
    /// A reply without an error.
    pub fn ok(status: u16) -> Self {
        Self { status, error: None }
    }

    /// A reply with an error.
    pub fn error(status: u16, kind: &str, reason: &str) -> Self {
        Self { status, error: Some(Fault::new(kind, reason)) }
    }
}

/// What became of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The document was written.
    Indexed,
    /// The document was deleted.
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
    /// An error of no known class: ten tries, then a dead letter.
    Unknown,
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
            (200..=299, Operation::Index { .. }) => Outcome::Indexed,
            (200..=299, Operation::Delete { .. }) => Outcome::Deleted,
            (404, Operation::Delete { .. }) => Outcome::Absent,
            (status, _) => judge_status(status, Fault::new("no_error_given", format!("status {status} without an error"))),
        };
    };
    match error.kind.as_str() {
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
        "cluster_block_exception" | "index_not_found_exception" | "index_closed_exception" => Outcome::Retry(Class::Blocked, error.clone()),
        "mapper_parsing_exception"
        | "document_parsing_exception"
        | "strict_dynamic_mapping_exception"
        | "illegal_argument_exception"
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
