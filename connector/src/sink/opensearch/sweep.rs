//! The tombstones of an index: how many there are, and which are old.
//!
//! Asks the indices themselves, because an alias hides tombstones. Never removes one: that is a delete like any other. What it finds is what
//! the fields say; whoever removes looks at the documents.

use std::sync::Arc;

use bytes::Bytes;
use opensearch::http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::OpenSearch;
use super::client::{Content, segment};
use super::describe::find_all;
use crate::operation::Target;
use crate::plan::outcome::{Class, Failure};
use crate::plan::tombstone::{DELETED, TIME, rfc3339};
use crate::revision::VersionType;
use crate::sink::{Candidate, Page, Pending, Survey, Tombstones};

/// Tombstones of one page, and so deletes of one request.
const PAGE: usize = 1_000;

/// How long the server keeps its place between two pages: longer than a request is tried again.
const KEEP: &str = "10m";

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "_scroll_id")]
    scroll: Option<String>,
    #[serde(rename = "_shards")]
    shards: Shards,
    hits: Hits,
    aggregations: Option<Aggregations>,
}

#[derive(Deserialize)]
struct Shards {
    failed: u64,
}

#[derive(Deserialize)]
struct Hits {
    total: Option<Total>,
    hits: Vec<Found>,
}

#[derive(Deserialize)]
struct Total {
    value: u64,
}

#[derive(Deserialize)]
struct Aggregations {
    old: Counted,
}

#[derive(Deserialize)]
struct Counted {
    doc_count: u64,
}

#[derive(Deserialize)]
struct Found {
    #[serde(rename = "_id")]
    id: String,
    #[serde(rename = "_version")]
    version: u64,
    #[serde(rename = "_routing")]
    routing: Option<String>,
    #[serde(rename = "_source")]
    source: Option<Box<RawValue>>,
}

impl Tombstones for OpenSearch {
    fn survey<'a>(&'a self, name: &'a str, before: u64) -> Pending<'a, Result<Vec<Survey>, Failure>> {
        Box::pin(self.survey_all(name, before))
    }

    fn page<'a>(&'a self, index: &'a str, before: u64, after: Option<String>) -> Pending<'a, Result<Page, Failure>> {
        Box::pin(self.next_page(index, before, after))
    }
}

impl OpenSearch {
    async fn survey_all(&self, name: &str, before: u64) -> Result<Vec<Survey>, Failure> {
        let (searchable, blind): (Vec<_>, Vec<_>) = find_all(&self.client, name).await?.into_iter().partition(|seen| seen.mapped);
        if searchable.is_empty() && !blind.is_empty() {
            let what =
                format!("no index {name} maps the fields of tombstones, so none can be found there; run revsync setup with its rule");
            return Err(Failure::Misconfigured { what });
        }
        // A pattern also means the indices of others.
        for seen in blind.iter().filter(|_| !name.contains('*')) {
            tracing::warn!("index {} does not map the fields of tombstones and is passed over", seen.concrete);
        }
        let mut surveys = Vec::new();
        for seen in searchable {
            let body = json!({
                "size": 0,
                "track_total_hits": true,
                "query": { "term": { DELETED: true } },
                "aggs": { "old": { "filter": is_before(before) } },
            });
            let answer: Answer = self.search_for_tombstones(&seen.concrete, &[], &body).await?;
            let old = answer.aggregations.map_or(0, |aggregations| aggregations.old.doc_count);
            let all = answer.hits.total.map_or(0, |total| total.value);
            surveys.push(Survey { index: seen.concrete.into(), old, younger: all.saturating_sub(old) });
        }
        Ok(surveys)
    }

    /// A scroll rather than a point in time: that has an order to go by since OpenSearch 3.3 only (`_shard_doc`), and every other order
    /// could pass over some.
    async fn next_page(&self, index: &str, before: u64, after: Option<String>) -> Result<Page, Failure> {
        let answer: Answer = match after {
            None => {
                let body = json!({
                    "size": PAGE,
                    "sort": ["_doc"],
                    "version": true,
                    "query": { "bool": { "filter": [{ "term": { DELETED: true } }, is_before(before)] } },
                });
                self.search_for_tombstones(index, &[("scroll", KEEP)], &body).await?
            }
            Some(scroll) => {
                let answer = self.question(Method::Post, "_search/scroll", &[], &json!({ "scroll": KEEP, "scroll_id": scroll })).await;
                // It has forgotten the place: whoever begins anew finds what is left.
                answer.map_err(|failure| match failure {
                    Failure::Misconfigured { what } => Failure::Retry { class: Class::Unavailable, what, after: None },
                    failure => failure,
                })?
            }
        };
        if answer.shards.failed > 0 {
            return Err(self.misread("left out shards"));
        }
        let Some(next) = answer.scroll else { return Err(self.misread("gave no scroll id")) };
        if answer.hits.hits.is_empty() {
            // It would end by itself; that it could not be ended now changes nothing.
            let _ = self.question::<Value>(Method::Delete, "_search/scroll", &[], &json!({ "scroll_id": [&next] })).await;
        }
        let index: Arc<str> = index.into();
        let candidate = |Found { id, version, routing, source }| {
            let target = Target { index: Arc::clone(&index), id, version, version_type: VersionType::ExternalGte, routing };
            Candidate { target, source: source.unwrap_or_else(|| RawValue::NULL.to_owned()) }
        };
        Ok(Page { found: answer.hits.hits.into_iter().map(candidate).collect(), next })
    }

    /// A search that fails as a whole where a part of it would.
    async fn search_for_tombstones(&self, index: &str, query: &[(&str, &str)], body: &Value) -> Result<Answer, Failure> {
        let query = [query, &[("allow_partial_search_results", "false")]].concat();
        self.question(Method::Post, &format!("{}/_search", segment(index)), &query, body).await
    }

    /// Asks with a body, and reads the answer.
    pub(super) async fn question<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        body: &Value,
    ) -> Result<T, Failure> {
        let content = Content::Json(Bytes::from(body.to_string()));
        let answer = self.client.send(method, path, query, content).await?;
        if !answer.is_success() {
            return Err(self.client.judged(&answer));
        }
        serde_json::from_slice(&answer.body).map_err(|_| self.misread("is not OpenSearch's"))
    }

    pub(super) fn misread(&self, how: &str) -> Failure {
        let what = format!("the answer of {} to a search {how}", self.client.place);
        Failure::Retry { class: Class::Unavailable, what, after: None }
    }
}

fn is_before(time: u64) -> Value {
    json!({ "range": { TIME: { "lt": rfc3339(time) } } })
}
