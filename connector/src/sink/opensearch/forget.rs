//! Makes an index forget the deletes of which nothing is left but a version.
//!
//! A shard remembers a delete for `index.gc_deletes`, and drops what it no longer remembers at a refresh. With -1 ms, the least that there is, every
//! delete is past that at once; with 0 it is so only after the next tick of the server's clock, and without the refresh the memory is back together
//! with the setting (seen on OpenSearch 2.19 and 3.9). It is a matter of three short requests, in which other deletes are forgotten too.
//! Never leaves the setting changed without saying so.

use std::collections::HashMap;

use bytes::Bytes;
use opensearch::http::Method;
use serde::Deserialize;
use serde_json::json;

use super::OpenSearch;
use super::client::{Content, segment};
use super::describe::find_index;
use crate::plan::outcome::Failure;

const SETTING: &str = "index.gc_deletes";

/// What the setting was, by index, for as long as it is not put back; `None` where it was not set.
pub(super) type Changed = tokio::sync::Mutex<HashMap<String, Option<String>>>;

#[derive(Deserialize)]
struct Refreshed {
    #[serde(rename = "_shards")]
    shards: Shards,
}

#[derive(Deserialize)]
struct Shards {
    failed: u64,
}

impl OpenSearch {
    pub(super) async fn forget_all_deletes(&self, name: &str) -> Result<(), Failure> {
        if self.client.serverless {
            let what = format!(
                "expected to make index {name} forget its deletes, but OpenSearch Serverless has no setting for that; wait until it forgets them"
            );
            return Err(Failure::Misconfigured { what });
        }
        // One at a time, and what an earlier call could not put back is known still.
        let mut changed = self.changed.lock().await;
        let Some(seen) = find_index(&self.client, name).await? else { return Ok(()) };
        let index = seen.concrete;
        let before = changed.entry(index.clone()).or_insert(seen.gc_deletes).clone();
        let forgotten = match self.set_gc_deletes(&index, Some("-1ms")).await {
            Ok(()) => self.refresh(&index).await,
            failed => failed,
        };
        // Also after a failure: that no answer came does not say that nothing was done.
        if let Err(failure) = self.set_gc_deletes(&index, before.as_deref()).await {
            let value = before.map_or_else(|| "null".to_owned(), |value| format!("\"{value}\""));
            tracing::error!(
                "index {index} may remember no deletes at present, because {SETTING} could not be put back: send PUT {index}/_settings with \
                 {{\"{SETTING}\": {value}}}"
            );
            return Err(failure);
        }
        changed.remove(&index);
        forgotten
    }

    async fn set_gc_deletes(&self, index: &str, value: Option<&str>) -> Result<(), Failure> {
        let body = Content::Json(Bytes::from(json!({ SETTING: value }).to_string()));
        let answer = self.client.send(Method::Put, &format!("{}/_settings", segment(index)), &[], body).await?;
        if answer.is_success() { Ok(()) } else { Err(self.client.judged(&answer)) }
    }

    /// Makes everything that was written searchable.
    pub(super) async fn refresh(&self, index: &str) -> Result<(), Failure> {
        let answer = self.client.send(Method::Post, &format!("{}/_refresh", segment(index)), &[], Content::Empty).await?;
        if !answer.is_success() {
            return Err(self.client.judged(&answer));
        }
        match serde_json::from_slice(&answer.body) {
            Ok(Refreshed { shards: Shards { failed: 0 } }) => Ok(()),
            _ => Err(self.misread("left out shards")),
        }
    }
}
