//! Documents that a pipeline keeps for itself, such as its checkpoints: in an index of their own, each changed only by who knows its last state, by
//! sequence number and primary term.
//!
//! A search shows what was refreshed, and a copy of a shard may lag: the index is refreshed before it is read, and read from its primary, so
//! that what was acknowledged is not missing. The index is made with the first document and never made anew: where it is gone, or another one
//! has its name, that is an error.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use opensearch::http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::OpenSearch;
use super::client::{Answer, Content, segment};
use super::inspect::{accepted, unreachable};
use super::redact;
use crate::error::{Error, Kind};
use crate::plan::outcome::Failure;
use crate::plan::stored::{Change, Stamp, Stored, Written};

/// Documents of one page, and of one request.
const PAGE: usize = 1_000;

/// An index of documents that are kept.
#[derive(Debug)]
pub struct Documents {
    /// Its name.
    index: String,
    /// The members of a document by which documents are found. Together they are different in each.
    fields: &'static [&'static str],
    /// The member that holds everything else, and is not indexed.
    content: &'static str,
    /// The UUID of the index, once it was found or made.
    uuid: Mutex<Option<String>>,
    /// Whether a refusal is waited for: whoever asked for that, or a change was made, so that the rights were there.
    outlasts_refusals: AtomicBool,
}

impl Documents {
    /// An index of that name. Every document has a text under each of `fields`, and under `content` an object that nobody searches.
    pub fn new(index: &str, fields: &'static [&'static str], content: &'static str) -> Self {
        Self { index: index.to_owned(), fields, content, uuid: Mutex::default(), outlasts_refusals: AtomicBool::default() }
    }

    /// As a pipeline that lives on wants it: a refusal is waited for from the start.
    #[must_use]
    pub fn that_outlast_refusals(self) -> Self {
        Self { outlasts_refusals: AtomicBool::new(true), ..self }
    }

    /// The name of the index.
    pub fn index(&self) -> &str {
        &self.index
    }

    fn mapping(&self) -> Value {
        let mut properties: serde_json::Map<String, Value> =
            self.fields.iter().map(|field| ((*field).to_owned(), json!({ "type": "keyword" }))).collect();
        properties.insert(self.content.to_owned(), json!({ "type": "object", "enabled": false }));
        json!({ "dynamic": false, "properties": properties })
    }

    fn known(&self) -> Option<String> {
        self.uuid.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a refusal is waited for: a password or a role that was good is put right, and nothing has to be started anew for that.
    fn outlasts_refusals(&self) -> bool {
        self.outlasts_refusals.load(Ordering::Relaxed)
    }

    fn waits_for(&self, failure: &Failure) -> bool {
        match failure {
            Failure::Retry { .. } => true,
            Failure::Unauthorized { .. } => self.outlasts_refusals(),
            _ => false,
        }
    }

    /// Remembers which index it is.
    fn meet(&self, uuid: &str) -> Result<(), Error> {
        let mut known = self.uuid.lock().unwrap_or_else(PoisonError::into_inner);
        match known.as_deref() {
            Some(before) if before != uuid => Err(self.gone("is no longer the one that it was")),
            _ => {
                *known = Some(uuid.to_owned());
                Ok(())
            }
        }
    }

    fn gone(&self, what: &str) -> Error {
        Error::new(Kind::Sink, format!("index {} {what}", self.index))
            .help("restore it; or start revsync again, and what it held is taken for never written")
    }
}

/// What is asked for of the answer to a change.
const ITEMS: &str = "items.*.status,items.*._seq_no,items.*._primary_term,items.*.error.type,items.*.error.index_uuid";

#[derive(Deserialize)]
struct Described {
    settings: Settings,
    #[serde(default)]
    mappings: Mappings,
}

#[derive(Deserialize)]
struct Settings {
    index: Uuid,
}

#[derive(Deserialize)]
struct Uuid {
    uuid: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Mappings {
    properties: BTreeMap<String, Value>,
}

impl Mappings {
    fn fits(&self, documents: &Documents) -> bool {
        let of = |name: &str| self.properties.get(name).unwrap_or(&Value::Null);
        let enabled = &of(documents.content)["enabled"];
        documents.fields.iter().all(|field| of(field)["type"] == "keyword") && (enabled == false || enabled == "false")
    }
}

#[derive(Deserialize)]
struct Found {
    timed_out: bool,
    #[serde(rename = "_shards")]
    shards: Shards,
    hits: Hits,
}

#[derive(Deserialize)]
struct Shards {
    failed: u64,
}

#[derive(Deserialize)]
struct Hits {
    hits: Vec<Hit>,
}

#[derive(Deserialize)]
struct Hit {
    #[serde(rename = "_id")]
    id: String,
    #[serde(rename = "_seq_no")]
    number: u64,
    #[serde(rename = "_primary_term")]
    term: u64,
    #[serde(rename = "_source")]
    source: Box<RawValue>,
    sort: Vec<Value>,
}

#[derive(Deserialize)]
struct Items {
    items: Vec<BTreeMap<String, Item>>,
}

#[derive(Deserialize)]
struct Item {
    status: u16,
    #[serde(rename = "_seq_no")]
    number: Option<u64>,
    #[serde(rename = "_primary_term")]
    term: Option<u64>,
    error: Option<ItemError>,
}

#[derive(Deserialize)]
struct ItemError {
    #[serde(rename = "type")]
    kind: Option<String>,
    index_uuid: Option<String>,
}

impl OpenSearch {
    /// All documents that have these texts under these fields; none where there is no index and never was.
    ///
    /// # Errors
    /// [`Kind::Pending`] where it may pass; [`Kind::Sink`] where a person has to act: what is not allowed, an index that is gone or another
    /// one.
    pub async fn kept(&self, documents: &Documents, having: &[(&str, &str)]) -> Result<Vec<Stored>, Error> {
        if !self.has_index_of(documents).await? {
            return Ok(Vec::new());
        }
        let index = &documents.index;
        let refresh = format!("{}/_refresh", segment(index));
        self.ask_kept(documents, Method::Post, &refresh, &[], None, &format!("to refresh index {index} (indices:admin/refresh*)")).await?;
        let terms: Vec<Value> = having.iter().map(|(field, text)| json!({ "term": { *field: text } })).collect();
        let mut body = json!({
            "size": PAGE,
            "seq_no_primary_term": true,
            "query": { "bool": { "filter": terms } },
            "sort": documents.fields,
            "track_total_hits": false,
        });
        // Whole or not at all; a copy that lags would show less than there is.
        let query = [("preference", "_primary"), ("allow_partial_search_results", "false")];
        let path = format!("{}/_search", segment(index));
        let right = format!("to search index {index} (indices:data/read/search)");
        let mut stored = Vec::new();
        loop {
            let answer = self.ask_kept(documents, Method::Post, &path, &query, Some(&body), &right).await?;
            let found: Found = self.read_kept(&answer, "search")?;
            if found.timed_out || found.shards.failed > 0 {
                return Err(self.pending(format!("a search of index {index} left something out")));
            }
            let full = found.hits.hits.len() == PAGE;
            for hit in found.hits.hits {
                if full {
                    body["search_after"] = Value::Array(hit.sort);
                }
                let stamp = Stamp { number: hit.number, term: hit.term };
                stored.push(Stored { id: hit.id, stamp, body: hit.source.get().to_owned() });
            }
            if !full {
                return Ok(stored);
            }
        }
    }

    /// Makes changes, each for itself; the answers stand in their order. The index is made where there never was one.
    ///
    /// # Errors
    /// As [`kept`](Self::kept). Any of the changes may have been made or not.
    pub async fn keep(&self, documents: &Documents, changes: Vec<Change>) -> Result<Vec<Written>, Error> {
        if documents.known().is_none() && !self.has_index_of(documents).await? {
            self.make_index_of(documents).await?;
        }
        let mut written = Vec::with_capacity(changes.len());
        for changes in changes.chunks(PAGE) {
            written.extend(self.keep_some(documents, changes).await?);
        }
        Ok(written)
    }

    async fn keep_some(&self, documents: &Documents, changes: &[Change]) -> Result<Vec<Written>, Error> {
        let index = &documents.index;
        let mut lines = String::new();
        for Change { id, expect, body } in changes {
            let mut head = json!({ "_index": index, "_id": id });
            if let Some(Stamp { number, term }) = expect {
                (head["if_seq_no"], head["if_primary_term"]) = ((*number).into(), (*term).into());
            }
            let action = match (expect, body) {
                (_, None) => "delete",
                (None, Some(_)) => "create",
                (Some(_), Some(_)) => "index",
            };
            lines.push_str(&json!({ action: head }).to_string());
            lines.push('\n');
            if let Some(body) = body {
                lines.push_str(body);
                lines.push('\n');
            }
        }
        let content = Content::Lines { bytes: lines.into(), gzip: false };
        let query = [("timeout", self.shard_timeout.as_str()), ("filter_path", ITEMS)];
        let answer = self.sent(documents, Method::Post, "_bulk", &query, content).await?;
        let answer = self.accepted_of(documents, answer, &format!("to write to index {index} (indices:data/write/bulk)"))?;
        let Items { items } = self.read_kept(&answer, "bulk request")?;
        if items.len() != changes.len() {
            return Err(self.pending(format!("expected {} items in the answer to _bulk, found {}", changes.len(), items.len())));
        }
        items.into_iter().map(|item| self.judge(documents, item.into_values().next())).collect()
    }

    /// What became of one change. Where it shows that the index is not the one that it was, nothing of the request counts.
    fn judge(&self, documents: &Documents, item: Option<Item>) -> Result<Written, Error> {
        let Some(item) = item else { return Err(self.pending("an item in the answer to _bulk is empty".to_owned())) };
        let index = &documents.index;
        let Some(error) = item.error else {
            return Ok(match (item.status, item.number, item.term) {
                (200..=299, Some(number), Some(term)) => {
                    documents.outlasts_refusals.store(true, Ordering::Relaxed);
                    Written::Done(Stamp { number, term })
                }
                // There was nothing to delete.
                (404, ..) => Written::Conflict,
                (status, ..) => Written::Failed(self.pending(format!("a write to index {index} was answered with status {status}"))),
            });
        };
        match error.kind.as_deref().unwrap_or_default() {
            "version_conflict_engine_exception" => {
                if let Some(uuid) = &error.index_uuid {
                    documents.meet(uuid)?;
                }
                Ok(Written::Conflict)
            }
            "index_not_found_exception" => Err(documents.gone("was there and is gone")),
            "security_exception" => {
                let what = format!("{} does not allow {} to write to index {index}", self.client.place, self.client.proof.user());
                let help = "give it a role with the rights that revsync setup --help lists";
                let kind = if documents.outlasts_refusals() { Kind::Pending } else { Kind::Sink };
                Ok(Written::Failed(Error::new(kind, format!("{what} (indices:data/write/*)")).help(help)))
            }
            kind @ ("mapper_parsing_exception" | "strict_dynamic_mapping_exception" | "illegal_argument_exception") => {
                let what = format!("index {index} does not take what is kept there: {kind}");
                Ok(Written::Failed(Error::new(Kind::Sink, what).help(format!("its mapping has to be {}", documents.mapping()))))
            }
            kind => {
                let what = format!("a write to index {index} was answered with status {}, {}", item.status, redact::kind(kind));
                Ok(Written::Failed(self.pending(what)))
            }
        }
    }

    /// Whether there is the index, as it has to be; puts its mapping right where somebody made it without.
    async fn has_index_of(&self, documents: &Documents) -> Result<bool, Error> {
        const WANTED: &str = "*.settings.index.uuid,*.mappings.properties.*.type,*.mappings.properties.*.enabled";
        let index = &documents.index;
        let path = segment(index);
        let right = format!("to look at index {index} (indices:admin/get)");
        let answer = self.sent(documents, Method::Get, &path, &[("filter_path", WANTED)], Content::Empty).await?;
        if answer.status == 404 && matches!(answer.error_type().as_deref(), None | Some("index_not_found_exception")) {
            return if documents.known().is_some() { Err(documents.gone("was there and is gone")) } else { Ok(false) };
        }
        let answer = self.accepted_of(documents, answer, &right)?;
        let described: BTreeMap<String, Described> = self.read_kept(&answer, "look at an index")?;
        let mut all = described.into_values();
        let (Some(one), None) = (all.next(), all.next()) else {
            let what = format!("expected one index of the name {index}, found an alias of several");
            return Err(Error::new(Kind::Sink, what).help("leave the alias to one index"));
        };
        documents.meet(&one.settings.index.uuid)?;
        if !one.mappings.fits(documents) {
            let mapping = documents.mapping();
            let body = Content::Json(Bytes::from(mapping.to_string()));
            let answer = self.sent(documents, Method::Put, &format!("{path}/_mapping"), &[], body).await?;
            let right = format!("to put a mapping into index {index} (indices:admin/mapping/put)");
            self.accepted_of(documents, answer, &right).map_err(|error| match error.kind {
                Kind::Pending => error,
                _ => error.help(format!("its mapping has to be {mapping}: delete the index if nothing is in it, or make it so")),
            })?;
        }
        Ok(true)
    }

    async fn make_index_of(&self, documents: &Documents) -> Result<(), Error> {
        let index = &documents.index;
        let body = json!({ "settings": { "index.number_of_shards": 1 }, "mappings": documents.mapping() });
        let answer = self.sent(documents, Method::Put, &segment(index), &[], Content::Json(Bytes::from(body.to_string()))).await?;
        // Somebody else made it between the two requests.
        if answer.error_type().as_deref() != Some("resource_already_exists_exception") {
            self.accepted_of(documents, answer, &format!("to create index {index} (indices:admin/create)"))?;
        }
        if self.has_index_of(documents).await? { Ok(()) } else { Err(documents.gone("was made and is gone")) }
    }

    async fn ask_kept(
        &self,
        documents: &Documents,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<&Value>,
        right: &str,
    ) -> Result<Answer, Error> {
        let content = body.map_or(Content::Empty, |body| Content::Json(Bytes::from(body.to_string())));
        let answer = self.sent(documents, method, path, query, content).await?;
        self.accepted_of(documents, answer, right)
    }

    fn read_kept<T: DeserializeOwned>(&self, answer: &Answer, to: &str) -> Result<T, Error> {
        serde_json::from_slice(&answer.body).map_err(|_| self.pending(format!("the answer to a {to} is not OpenSearch's")))
    }

    /// An answer of success; an outage passes, so does a refusal after it worked, and anything else is for a person.
    fn accepted_of(&self, documents: &Documents, answer: Answer, right: &str) -> Result<Answer, Error> {
        let passes = !answer.is_success() && documents.waits_for(&self.client.judged(&answer));
        accepted(&self.client, answer, right).map_err(|error| if passes { Error { kind: Kind::Pending, ..error } } else { error })
    }

    async fn sent(
        &self,
        documents: &Documents,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        content: Content,
    ) -> Result<Answer, Error> {
        self.client.send(method, path, query, content).await.map_err(|trouble| {
            let error = unreachable(&trouble);
            if documents.waits_for(&Failure::from(trouble)) { Error { kind: Kind::Pending, ..error } } else { error }
        })
    }

    fn pending(&self, what: String) -> Error {
        Error::new(Kind::Pending, format!("{}: {what}", self.client.place))
    }
}
