//! Full-text search over what was written, for the command `search`.
//!
//! Only reads, and asks for nothing that the user did not write: the text is a `simple_query_string`, which never fails to parse.

use bytes::Bytes;
use opensearch::http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::client::{Content, pattern_segment, segment};
use super::{OpenSearch, inspect};
use crate::error::{Error, Kind};
use crate::plan::cells::without_bookkeeping;
use crate::plan::tombstone::DELETED;
use crate::sink::Hit;

/// Marks on the wire, of a private use area: the server trims control characters from the ends of a fragment, and with them the marks of
/// [`Hit::highlights`].
const OPEN: &str = "\u{e000}";
const CLOSE: &str = "\u{e001}";

#[derive(Deserialize)]
struct Answer {
    hits: Hits,
}

#[derive(Deserialize)]
struct Hits {
    hits: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    #[serde(rename = "_index")]
    index: String,
    #[serde(rename = "_id")]
    id: String,
    #[serde(rename = "_version")]
    version: u64,
    #[serde(rename = "_score")]
    score: Option<f64>,
    #[serde(rename = "_source")]
    source: Option<Box<RawValue>>,
    /// Fragments by field; a sorted map, so that a hit always shows the same way.
    #[serde(default)]
    highlight: BTreeMap<String, Vec<String>>,
}

impl OpenSearch {
    /// Searches all fields of the indices that `pattern` names (`people`, `people,cars`, `*`) for documents with every word of `text`, the
    /// best `limit` first (at most 10,000, the server's own limit). Tombstones are never found.
    ///
    /// # Errors
    /// [`Kind::Sink`] where the server cannot be reached or refuses.
    pub async fn search(&self, text: &str, pattern: &str, limit: usize) -> Result<Vec<Hit>, Error> {
        let body = json!({
            "size": limit,
            "version": true,
            "query": { "bool": {
                "must": { "simple_query_string": { "query": text, "fields": ["*"], "default_operator": "and", "lenient": true } },
                // An alias of ours hides them already; the index itself does not. Lenient, because the field may be somebody's own.
                "must_not": { "match": { DELETED: { "query": true, "lenient": true } } },
            } },
            "highlight": {
                "fields": { "*": {} },
                "pre_tags": [OPEN],
                "post_tags": [CLOSE],
                "require_field_match": false,
            },
        });
        let path = format!("{}/_search", pattern_segment(pattern));
        let content = Content::Json(Bytes::from(body.to_string()));
        let answer = self.client.send(Method::Post, &path, &[], content).await.map_err(|trouble| inspect::unreachable(&trouble))?;
        let answer = inspect::accepted(&self.client, answer, &format!("to search {pattern}"))?;
        let answer: Answer = serde_json::from_slice(&answer.body)
            .map_err(|_| Error::new(Kind::Sink, format!("{} answered a search in a way that is not OpenSearch's", self.client.place)))?;
        let hits = answer.hits.hits.into_iter().map(|found| Hit {
            index: found.index,
            id: found.id,
            version: found.version,
            score: found.score.unwrap_or_default(),
            source: shown(found.source.unwrap_or_else(|| RawValue::NULL.to_owned())),
            highlights: found.highlight.into_values().flatten().map(|text| text.replace(OPEN, "\u{1}").replace(CLOSE, "\u{2}")).collect(),
        });
        Ok(hits.collect())
    }

    /// The mapping of the index behind a name, as OpenSearch writes it: `{"INDEX":{"mappings":…}}`.
    ///
    /// # Errors
    /// [`Kind::Sink`] where the server cannot be reached or refuses, or has no such index.
    pub async fn mapping(&self, index: &str) -> Result<Value, Error> {
        let path = format!("{}/_mapping", segment(index));
        let answer = self.client.send(Method::Get, &path, &[], Content::Empty).await.map_err(|trouble| inspect::unreachable(&trouble))?;
        let answer = inspect::accepted(&self.client, answer, &format!("to read the mapping of {index}"))?;
        serde_json::from_slice(&answer.body)
            .map_err(|_| Error::new(Kind::Sink, format!("{} described {index} in a way that is not OpenSearch's", self.client.place)))
    }
}

/// A document without the cells of its row. The server could leave them out too, and would write its numbers anew.
fn shown(source: Box<RawValue>) -> Box<RawValue> {
    let without = without_bookkeeping(source.get().as_bytes()).and_then(|without| String::from_utf8(without).ok());
    without.and_then(|without| RawValue::from_string(without).ok()).unwrap_or(source)
}
