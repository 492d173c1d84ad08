//! What an index holds: every document of it with its version (single ones by their ids: [`lookup`](super::lookup)).
//!
//! Pages are those of a point in time on the index that is written to, past its alias's filter, shard by shard: in the order of a shard (`_doc`) no
//! document can be passed over, while over several shards at once documents that share a place are (23 of 2,500 in a trial on OpenSearch 2.19
//! and on 3.9), and an order that tells them apart (`_shard_doc`) is there since 3.3 only. A page that did not come is asked for again.
//!
//! An answer is bounded by what the last one brought of a document, and one that is announced as larger than wanted is not read but asked for in smaller
//! parts. Never gives fewer documents than there are: shards that failed are a failure, and at the end the documents are as many as were counted.

use std::collections::HashMap;

use bytes::Bytes;
use opensearch::http::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::OpenSearch;
use super::client::{Answer, Content, segment};
use super::describe::{Seen, find_index};
use crate::plan::outcome::Failure;
use crate::plan::tombstone;
use crate::record::Fault;
use crate::sink::{Asked, Contents, Detail, Held, Holding, Pending};

/// Documents of one page, and ids of one request.
pub(super) const PAGE: usize = 1_000;
/// The same at first where content is asked for; it grows with what comes.
pub(super) const FIRST_PAGE: usize = 100;

/// Bytes that an answer is to have, where documents are no larger by themselves.
const WANTED: usize = 2 * 1024 * 1024;
/// The largest answer that is read, but for one with a single document.
pub(super) const MOST: u64 = 8 * 1024 * 1024;

/// How long the server keeps the point in time after a page: longer than a request is tried again.
const KEEP: &str = "10m";

/// What of a document tells a tombstone, but for what else is in it.
pub(super) const MARKS: [&str; 3] = ["revsync.v", "revsync.deleted", "revsync.time"];

/// Where the next page begins.
#[derive(Serialize, Deserialize)]
struct Mark {
    pit: String,
    /// The shard of which the next page is, and how many there are.
    shard: u64,
    shards: u64,
    /// The place in the shard of the last document.
    sort: Option<Box<RawValue>>,
    /// How many documents the next page is to have.
    size: usize,
    /// How many documents there are, and how many came.
    total: u64,
    seen: u64,
}

#[derive(Deserialize)]
struct Opened {
    pit_id: String,
    #[serde(rename = "_shards")]
    shards: Shards,
}

#[derive(Deserialize)]
struct Shards {
    #[serde(default)]
    total: u64,
    #[serde(default)]
    successful: u64,
    failed: u64,
}

#[derive(Deserialize)]
struct Page {
    pit_id: Option<String>,
    timed_out: bool,
    #[serde(rename = "_shards")]
    shards: Shards,
    hits: Hits,
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
pub(super) struct Found {
    #[serde(rename = "_id")]
    pub(super) id: String,
    #[serde(rename = "_version")]
    version: Option<u64>,
    #[serde(rename = "_routing")]
    routing: Option<String>,
    #[serde(rename = "_source")]
    source: Option<Box<RawValue>>,
    sort: Option<Box<RawValue>>,
    /// Only where it was asked for by its id.
    pub(super) found: Option<bool>,
    pub(super) error: Option<Error>,
}

#[derive(Deserialize, Default)]
pub(super) struct Error {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    #[serde(default)]
    root_cause: Vec<Error>,
}

#[derive(Deserialize)]
struct Refusal {
    error: Error,
}

impl Found {
    /// Whether it may be a tombstone, by what was read of it.
    pub(super) fn is_alike(&self) -> bool {
        self.source.as_ref().is_some_and(|source| tombstone::read(source.get().as_bytes()).is_some())
    }
}

impl Contents for OpenSearch {
    fn holding<'a>(&'a self, index: &'a str, with: Detail, after: Option<String>) -> Pending<'a, Result<Option<Holding>, Failure>> {
        Box::pin(async move {
            let (mark, total) = match after {
                Some(mark) => (serde_json::from_str(&mark).map_err(|_| self.is_lost("the mark is none of an index's"))?, None),
                None => {
                    let Some(mark) = self.open(index, with).await? else { return Ok(None) };
                    let total = mark.total;
                    (mark, Some(total))
                }
            };
            self.next(index, with, mark).await.map(|page| Some(Holding { total, ..page }))
        })
    }

    fn leave(&self, after: String) -> Pending<'_, ()> {
        Box::pin(async move {
            if let Ok(Mark { pit, .. }) = serde_json::from_str(&after) {
                self.close(&pit).await;
            }
        })
    }

    fn held<'a>(&'a self, index: &'a str, ids: &'a [Asked], with: Detail) -> Pending<'a, Result<Vec<Option<Held>>, Failure>> {
        Box::pin(self.get(index, ids, with))
    }

    fn forget_deletes<'a>(&'a self, index: &'a str, _ids: &'a [Asked]) -> Pending<'a, Result<(), Failure>> {
        Box::pin(self.forget_all_deletes(index))
    }
}

impl OpenSearch {
    /// Makes everything searchable, and takes the point in time; `None` where there is no such index.
    async fn open(&self, name: &str, with: Detail) -> Result<Option<Mark>, Failure> {
        if self.client.serverless {
            let what = format!(
                "expected to list what index {name} holds, but OpenSearch Serverless cannot be made to show everything that was written; \
                 look at single documents instead"
            );
            return Err(Failure::Misconfigured { what });
        }
        let Some(Seen { concrete, others, keeps_source, .. }) = find_index(&self.client, name).await? else { return Ok(None) };
        if !keeps_source {
            return Err(sourceless(&concrete));
        }
        if !others.is_empty() {
            tracing::warn!(
                "alias {name} also means {}; only {concrete} is written to and looked at, but readers find what the others hold too",
                others.join(", ")
            );
        }
        let index = segment(&concrete);
        self.refresh(&concrete).await?;
        let query = [("keep_alive", KEEP), ("allow_partial_pit_creation", "false")];
        let answer = self.client.send(Method::Post, &format!("{index}/_search/point_in_time"), &query, Content::Empty).await?;
        let Opened { pit_id: pit, shards } = match self.read(&answer) {
            Err(Failure::Misconfigured { what }) => {
                let what =
                    format!("no point in time can be taken of index {concrete}, for which OpenSearch 2.4 or newer is needed: {what}");
                return Err(Failure::Misconfigured { what });
            }
            answer => answer?,
        };
        let size = if with == Detail::Content { FIRST_PAGE } else { PAGE };
        let mut mark = Mark { pit, shard: 0, shards: shards.total, sort: None, size, total: 0, seen: 0 };
        let counted = if shards.failed > 0 || shards.successful != shards.total {
            Err(self.misread("left out shards"))
        } else {
            let count = json!({"size": 0, "track_total_hits": true, "pit": {"id": &mark.pit, "keep_alive": KEEP}});
            self.search_at(u64::MAX, &count).await
        };
        match counted {
            Ok(Some(Page { hits: Hits { total: Some(total), .. }, .. })) => {
                mark.total = total.value;
                Ok(Some(mark))
            }
            counted => {
                self.close(&mark.pit).await;
                Err(counted.err().unwrap_or_else(|| self.misread("counted nothing")))
            }
        }
    }

    /// The next page, which is empty once every shard is at its end.
    async fn next(&self, name: &str, with: Detail, mut mark: Mark) -> Result<Holding, Failure> {
        let wanted = if with == Detail::Content { json!(true) } else { json!(MARKS) };
        while mark.shard < mark.shards {
            let size = mark.size;
            let mut body = json!({"size": size, "sort": ["_doc"], "_source": wanted});
            if let Some(sort) = &mark.sort {
                body["search_after"] = serde_json::from_str(sort.get()).unwrap_or_default();
            }
            let most = if size > 1 { MOST } else { u64::MAX };
            let Some(Page { pit_id, hits: Hits { hits, .. }, .. }) = self.search_at(most, &of_shard(body, &mark)).await? else {
                mark.size = size / 2;
                continue;
            };
            let Some(last) = hits.last() else {
                (mark.shard, mark.sort) = (mark.shard + 1, None);
                continue;
            };
            let Some(sort) = last.sort.clone() else { return Err(self.misread("has no order")) };
            let found = self.settle(with, hits, &mark).await?;
            if with == Detail::Content {
                mark.size = next_size(size, &found);
            }
            mark.seen += found.len() as u64;
            mark.sort = Some(sort);
            mark.pit = pit_id.unwrap_or(mark.pit);
            let next = serde_json::to_string(&mark).map_err(|_| self.misread("made no mark"))?;
            return Ok(Holding { found, next, total: None });
        }
        self.close(&mark.pit).await;
        if mark.seen != mark.total {
            return Err(self.is_lost(&format!("index {name} gave {} documents of {}", mark.seen, mark.total)));
        }
        Ok(Holding { found: Vec::new(), next: serde_json::to_string(&mark).unwrap_or_default(), total: None })
    }

    /// What was found, and which of it are tombstones.
    async fn settle(&self, with: Detail, hits: Vec<Found>, mark: &Mark) -> Result<Vec<Held>, Failure> {
        let mut whole: HashMap<String, Found> = HashMap::new();
        if with == Detail::Version {
            // Whether there is anything else in a document shows in all of it. An id is one document within a shard.
            let mut open: Vec<Vec<&str>> = vec![hits.iter().filter(|found| found.is_alike()).map(|found| found.id.as_str()).collect()];
            while let Some(mut ids) = open.pop().filter(|ids| !ids.is_empty()) {
                let body = json!({"size": ids.len(), "query": {"ids": {"values": ids}}});
                let most = if ids.len() > 1 { MOST } else { u64::MAX };
                match self.search_at(most, &of_shard(body, mark)).await? {
                    Some(page) => whole.extend(page.hits.hits.into_iter().map(|found| (found.id.clone(), found))),
                    None => {
                        let rest = ids.split_off(ids.len() / 2);
                        open.extend([ids, rest]);
                    }
                }
            }
        }
        let held = |found: Found| {
            let is_tombstone = if with == Detail::Version && found.is_alike() {
                let Some(whole) = whole.get(&found.id) else { return Err(self.misread("left out documents")) };
                whole.is_alike()
            } else {
                found.is_alike()
            };
            self.held_as(found, with, is_tombstone)
        };
        hits.into_iter().map(held).collect()
    }

    pub(super) fn held_as(&self, found: Found, with: Detail, is_tombstone: bool) -> Result<Held, Failure> {
        let Found { id, version, routing, source, .. } = found;
        let Some(version) = version else { return Err(self.misread("has no version")) };
        if with == Detail::Content && source.is_none() {
            return Err(self.misread("has no content"));
        }
        Ok(Held { id, version, routing, is_tombstone, source: source.filter(|_| with == Detail::Content) })
    }

    /// One search at a point in time; `None` where its answer would be too large.
    async fn search_at(&self, most: u64, body: &Value) -> Result<Option<Page>, Failure> {
        let query = [("allow_partial_search_results", "false")];
        let content = Content::Json(Bytes::from(body.to_string()));
        let answer = self.client.send_for(most, Method::Post, "_search", &query, content).await?;
        if answer.is_over {
            return Ok(None);
        }
        if !answer.is_success() && is_gone(&answer) {
            let what = format!("{} no longer has the point in time that was being read", self.client.place);
            return Err(self.is_lost(&what));
        }
        let page: Page = self.read(&answer)?;
        if page.shards.failed > 0 || page.timed_out {
            return Err(self.misread("left out shards"));
        }
        Ok(Some(page))
    }

    /// Ends a point in time. It would end by itself; that it could not be ended now changes nothing.
    async fn close(&self, pit: &str) {
        let body = json!({"pit_id": [pit]});
        let _ = self.question::<Value>(Method::Delete, "_search/point_in_time", &[], &body).await;
    }

    /// An answer's body, where it is no refusal.
    pub(super) fn read<T: DeserializeOwned>(&self, answer: &Answer) -> Result<T, Failure> {
        if !answer.is_success() {
            return Err(match self.client.judged(answer) {
                // No document is at fault here, and asking for fewer would not help.
                Failure::Invalid(Fault { reason: what, .. }) => Failure::Misconfigured { what },
                failure => failure,
            });
        }
        serde_json::from_slice(&answer.body).map_err(|_| self.misread("is not OpenSearch's"))
    }

    fn is_lost(&self, what: &str) -> Failure {
        Failure::Invalid(Fault::new("search_context_missing_exception", what))
    }
}

/// Why an index cannot be looked at that keeps no documents.
pub(super) fn sourceless(index: &str) -> Failure {
    let what = format!("index {index} keeps no documents (its _source is switched off), so it cannot be told which of them are tombstones");
    Failure::Misconfigured { what }
}

/// The request for documents of the shard that a mark is at.
fn of_shard(mut body: Value, mark: &Mark) -> Value {
    body["version"] = json!(true);
    body["track_total_hits"] = json!(false);
    body["pit"] = json!({"id": mark.pit, "keep_alive": KEEP});
    // As many slices as shards: each slice is one shard. A single one cannot be sliced.
    if mark.shards > 1 {
        body["slice"] = json!({"id": mark.shard, "max": mark.shards});
    }
    body
}

/// How many documents to ask for after those that came: as many as are wanted together, if they go on like this, and at most twice as many.
fn next_size(size: usize, found: &[Held]) -> usize {
    let bytes: usize = found.iter().map(|held| held.source.as_ref().map_or(0, |source| source.get().len())).sum();
    let fitting = WANTED.saturating_mul(found.len()) / bytes.max(1);
    fitting.clamp(1, PAGE.min(2 * size))
}

/// Whether a search was refused because the server has lost its point in time: it was restarted, its time was over, or the index is gone.
fn is_gone(answer: &Answer) -> bool {
    serde_json::from_slice::<Refusal>(&answer.body).is_ok_and(|Refusal { error }| {
        let all = [&error].into_iter().chain(&error.root_cause);
        all.filter_map(|error| error.kind.as_deref())
            .any(|kind| matches!(kind, "search_context_missing_exception" | "index_not_found_exception"))
    })
}
