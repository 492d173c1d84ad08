//! OpenSearch as a sink: one `write` is one `_bulk` request.
//!
//! [`request`] makes the body (`merge` its updates), `client` sends it with a `proof` of who we are (`held` until it is refused; `sign` and `clock` for AWS), `reply` reads the answer (and
//! `redact` what may be told of it), `indices` sees to it that the index exists and stays the same one (`describe` what it is, `creation`
//! with what it is made, `advice` how far deletes hold in it), `documents` keeps what is no operation of the line, `inspect`, `search`, `sweep`, `contents`, `lookup` and `forget` are what the commands ask for beside writing.
//!
//! Tries once and reports. Never decides what a reply means ([`plan::outcome`](crate::plan::outcome)), and never makes an index anew that
//! was there and is gone.

mod advice;
mod client;
mod clock;
pub mod config;
mod contents;
mod creation;
mod describe;
mod documents;
mod forget;
mod held;
mod indices;
mod inspect;
mod lookup;
mod merge;
mod proof;
mod redact;
mod reply;
pub mod request;
mod search;
mod sign;
mod sweep;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::sync::Arc;

use aws_credential_types::provider::SharedCredentialsProvider;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use opensearch::http::Method;
use serde_json::Value;

pub use self::advice::Advice;
use self::client::{Client, Content, Trouble, TroubleKind, segment};
pub use self::config::Config;
pub use self::documents::Documents;
use self::indices::{Admitted, Indices, find};
pub use self::inspect::Probe;
use self::request::Portions;
use super::{Pending, Sink};
use crate::error::Error;
use crate::memory::Buffer;
use crate::operation::Operation;
use crate::plan::deletes::IndexDeletes;
use crate::plan::outcome::{Class, Failure, Reply};

/// An OpenSearch server or cluster, 2.x or 3.x, an Amazon OpenSearch Service domain, or (experimental) a Serverless collection.
#[derive(Debug)]
pub struct OpenSearch {
    client: Client,
    indices: Indices,
    gzip: bool,
    /// Whether what was written is made searchable at the end, before the indices do it by themselves.
    refreshes: bool,
    /// How long the server may wait for a shard, in its own notation. Its default of a minute is longer than a request may take: one red index
    /// would then cost the answers for all others.
    shard_timeout: String,
    /// Settings that were changed for a moment, and are to be put back.
    changed: forget::Changed,
}

impl OpenSearch {
    /// Builds the client. Reads the files that the configuration names and finds the source of AWS credentials; does not reach the server.
    ///
    /// # Errors
    /// [`Kind::Usage`](crate::error::Kind::Usage) where a file cannot be used, no AWS region is known, or a client certificate is to go
    /// together with AWS signatures.
    pub async fn connect(config: &Config) -> Result<Self, Error> {
        Self::build(config, None).await
    }

    /// As [`connect`](Self::connect), with AWS credentials from a source that the caller has; `aws.region` must be set.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_with(config: &Config, credentials: SharedCredentialsProvider) -> Result<Self, Error> {
        Self::build(config, Some(credentials)).await
    }

    async fn build(config: &Config, credentials: Option<SharedCredentialsProvider>) -> Result<Self, Error> {
        Ok(Self {
            client: Client::new(config, credentials).await?,
            indices: Indices::new(config.create_index, &config.gc_deletes),
            gzip: config.gzip,
            refreshes: true,
            shard_timeout: format!("{}ms", config.request_timeout.as_millis() / 3),
            changed: forget::Changed::default(),
        })
    }

    /// Sets what an index is created with, by index name: a body with `settings`, `mappings` or `aliases`, or a mapping by itself. It is laid
    /// over revsync's own choices.
    #[must_use]
    pub fn with_mappings(mut self, bodies: HashMap<String, Value>) -> Self {
        self.indices.bodies = bodies;
        self
    }

    /// Says which deletes an index can get: one that gets tombstones is created behind an alias that hides them. Without this every index
    /// gets plain deletes.
    #[must_use]
    pub fn with_deletes(mut self, deletes: IndexDeletes) -> Self {
        self.indices.deletes = deletes;
        self
    }

    /// As a sweep wants it: an index that is gone is not made anew, and nothing is said about how far deletes hold.
    #[must_use]
    pub fn for_sweep(mut self) -> Self {
        (self.indices.create, self.indices.advises) = (false, false);
        self
    }

    /// Leaves it to the indices when what was written becomes searchable, by default within a second. For a pipeline that lives on: refreshing
    /// after every batch makes many small segments.
    #[must_use]
    pub fn without_refresh(mut self) -> Self {
        self.refreshes = false;
        self
    }

    async fn write_all(&self, operations: &[Operation]) -> Result<Vec<Reply>, Failure> {
        if operations.is_empty() {
            return Ok(Vec::new());
        }
        let admitted = self.indices.admit(&self.client, operations).await?;
        let blocked = |operation: &Operation| find(&admitted, &operation.target().index).and_then(|admitted| admitted.blocked.as_deref());
        if let Some(what) = all_blocked(&admitted) {
            return Err(Failure::Retry { class: Class::Blocked, what, after: None });
        }
        let sent: Vec<&Operation> = operations.iter().filter(|operation| blocked(operation).is_none()).collect();
        let (body, guards) = self.encode(&sent, &admitted);
        let content = Content::Lines { bytes: body, gzip: self.gzip };
        let answer = self.client.send(Method::Post, "_bulk", self.bulk_query(&sent).as_slice(), content).await?;
        if !answer.is_success() {
            return Err(self.client.judged(&answer));
        }
        let mut replies = reply::parse(&answer.body, sent.iter().map(|operation| request::action(operation)), guards)?;
        self.indices.watch(&admitted, &sent, &mut replies);
        if sent.len() == operations.len() {
            return Ok(replies.operations);
        }
        let mut answered = replies.operations.into_iter();
        let all = operations.iter().map_while(|operation| match blocked(operation) {
            Some(what) => Some(Reply::error(404, "index_not_found_exception", what)),
            None => answered.next(),
        });
        Ok(all.collect())
    }

    fn bulk_query(&self, sent: &[&Operation]) -> Vec<(&str, &str)> {
        let merges = sent.iter().any(|operation| matches!(operation, Operation::Merge { .. }));
        let mut query = vec![("filter_path", if merges { reply::FILTER_PATH_OF_MERGES } else { reply::FILTER_PATH })];
        // Serverless has no shards to wait for, and is not asked for more than it documents.
        if !self.client.serverless {
            query.push(("timeout", &self.shard_timeout));
        }
        query
    }

    /// The body, and how many guards stand at its end.
    fn encode(&self, sent: &[&Operation], admitted: &[Admitted]) -> (Bytes, usize) {
        let flagged = |operation: &Operation| {
            let admitted = find(admitted, &operation.target().index);
            !self.client.serverless && admitted.is_some_and(|admitted| admitted.index.alias)
        };
        let add_guards = |out: &mut Vec<u8>| -> usize {
            // Without a UUID there is nothing to compare: a server that only stands in for OpenSearch. Serverless is not asked for more than
            // it documents.
            let guarded =
                admitted.iter().filter(|admitted| admitted.blocked.is_none() && admitted.index.uuid.is_some() && !self.client.serverless);
            guarded.map(|admitted| request::append_guards(&admitted.name, admitted.index.alias, out)).sum()
        };
        let body = Buffer::with_room(sent.iter().map(|operation| operation.size()).sum::<usize>() + 4 * 1024);
        let written = if self.gzip {
            // Lines are compressed in portions, so that the body never exists uncompressed.
            write_lines(sent, flagged, add_guards, GzEncoder::new(body, Compression::fast()))
                .and_then(|(body, guards)| Ok((body.finish()?, guards)))
        } else {
            write_lines(sent, flagged, add_guards, body)
        };
        let (body, guards) = written.expect("writing into memory does not fail");
        (body.into_bytes(), guards)
    }

    async fn refresh_all(&self) {
        if self.client.serverless || !self.refreshes {
            return;
        }
        for name in self.indices.names() {
            let path = format!("{}/_refresh", segment(&name));
            // The documents are durable without it, and searchable a second later by themselves.
            match self.client.send(Method::Post, &path, &[], Content::Empty).await {
                Ok(answer) if answer.is_success() => {}
                Ok(answer) => tracing::warn!(index = %name, status = answer.status, "could not refresh the index"),
                Err(trouble) => tracing::warn!(index = %name, "could not refresh the index: {}", trouble.what),
            }
        }
    }
}

impl Sink for OpenSearch {
    fn name(&self) -> &str {
        &self.client.shown
    }

    fn write(&self, operations: Arc<[Operation]>) -> Pending<'_, Result<Vec<Reply>, Failure>> {
        Box::pin(async move { self.write_all(&operations).await })
    }

    fn reach(&self) -> Pending<'_, Result<(), Error>> {
        Box::pin(async move { self.is_there().await })
    }

    fn targets(&self) -> BTreeMap<String, String> {
        self.indices.targets()
    }

    fn expecting(&self, targets: &BTreeMap<String, String>) {
        self.indices.expecting(targets);
    }

    fn finish(&self) -> Pending<'_, Result<(), Error>> {
        Box::pin(async move {
            self.refresh_all().await;
            Ok(())
        })
    }
}

/// The lines of a body and its guards, and how many of these there are.
fn write_lines<W: Write>(
    sent: &[&Operation],
    flagged: impl Fn(&Operation) -> bool,
    add_guards: impl Fn(&mut Vec<u8>) -> usize,
    body: W,
) -> io::Result<(W, usize)> {
    let mut lines = Portions::new(body);
    for operation in sent {
        lines.append(operation, flagged(operation))?;
    }
    let guards = add_guards(lines.portion());
    Ok((lines.finish()?, guards))
}

fn all_blocked(admitted: &[Admitted]) -> Option<String> {
    let whats: Option<Vec<&str>> = admitted.iter().map(|admitted| admitted.blocked.as_deref()).collect();
    whats.map(|whats| whats.join("; "))
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        let Trouble { kind, what } = trouble;
        match kind {
            TroubleKind::NoCredentials => Self::Unauthorized { what },
            TroubleKind::Redirected => Self::Misconfigured { what },
            TroubleKind::Refused | TroubleKind::Name | TroubleKind::Tls | TroubleKind::TimedOut | TroubleKind::Broken => {
                Self::Retry { class: Class::Unavailable, what, after: None }
            }
        }
    }
}
