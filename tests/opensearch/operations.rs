//! Operations and sinks, said briefly.

use std::sync::Arc;

use revsync::config::SinkUrl;
use revsync::operation::{Operation, Target};
use revsync::plan::outcome::{Failure, Outcome, judge};
use revsync::revision::{Document, VersionType};
use revsync::sink::Sink;
use revsync::sink::opensearch::config::{Access, Password};
use revsync::sink::opensearch::{Config, OpenSearch};

pub fn target(index: &str, id: &str, version: u64) -> Target {
    Target { index: index.into(), id: id.to_owned(), version, version_type: VersionType::External, routing: None }
}

pub fn put(index: &str, id: &str, version: u64, document: &str) -> Operation {
    Operation::Index { target: target(index, id, version), document: Document(document.to_owned().into()) }
}

pub fn delete(index: &str, id: &str, version: u64) -> Operation {
    Operation::Delete { target: target(index, id, version) }
}

pub fn tombstone(index: &str, id: &str, version: u64, time: u64) -> Operation {
    Operation::Tombstone { target: target(index, id, version), time }
}

pub async fn connect(url: &str) -> OpenSearch {
    OpenSearch::connect(&config(url)).await.unwrap()
}

/// The defaults for an address, with the credentials that stand in it.
pub fn config(url: &str) -> Config {
    let SinkUrl::OpenSearch { url, credentials } = url.parse().unwrap() else { panic!("{url} is no OpenSearch") };
    let access = credentials
        .map_or(Access::Open, |(username, password)| Access::Basic { username: Some(username), password: Password::Given(password) });
    Config { access, ..Config::new(url) }
}

/// Writes, and judges each reply.
pub async fn write(sink: &OpenSearch, operations: Vec<Operation>) -> Result<Vec<Outcome>, Failure> {
    let operations: Arc<[Operation]> = operations.into();
    let replies = sink.write(Arc::clone(&operations)).await?;
    assert_eq!(replies.len(), operations.len(), "one reply per operation");
    Ok(operations.iter().zip(&replies).map(|(operation, reply)| judge(operation, reply)).collect())
}
