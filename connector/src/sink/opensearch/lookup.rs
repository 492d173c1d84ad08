//! Documents by their ids, as they are now, whatever a search would show yet.
//!
//! An answer that is announced as larger than wanted is not read: what it would tell is asked for in smaller parts.

use std::collections::HashMap;

use bytes::Bytes;
use opensearch::http::Method;
use serde::Deserialize;
use serde_json::json;

use super::OpenSearch;
use super::client::{Content, segment};
use super::contents::{FIRST_PAGE, Found, MARKS, MOST, PAGE, sourceless};
use super::describe::{Seen, find_index};
use crate::plan::outcome::{Class, Failure};
use crate::sink::{Asked, Detail, Held};

#[derive(Deserialize)]
struct Got {
    docs: Vec<Found>,
}

impl OpenSearch {
    /// Documents by their ids.
    pub(super) async fn get(&self, name: &str, ids: &[Asked], with: Detail) -> Result<Vec<Option<Held>>, Failure> {
        let Some(Seen { concrete, keeps_source, .. }) = find_index(&self.client, name).await? else {
            return Ok(ids.iter().map(|_| None).collect());
        };
        if !keeps_source {
            return Err(sourceless(&concrete));
        }
        let mut held = Vec::with_capacity(ids.len());
        let mut size = if with == Detail::Content { FIRST_PAGE } else { PAGE };
        while held.len() < ids.len() {
            let asked: Vec<&Asked> = ids[held.len()..].iter().take(size).collect();
            let Some(found) = self.get_some(&concrete, &asked, with == Detail::Content).await? else {
                size = asked.len() / 2;
                continue;
            };
            let alike: Vec<usize> = (0..found.len()).filter(|at| with == Detail::Version && found[*at].is_alike()).collect();
            let mut whole = HashMap::new();
            for at in &alike {
                // One by one: they are few, and what only looks like a tombstone may be large.
                let found = self.get_some(&concrete, &asked[*at..=*at], true).await?;
                whole.insert(*at, found.into_iter().flatten().next());
            }
            for (at, found) in found.into_iter().enumerate() {
                let found = whole.remove(&at).flatten().unwrap_or(found);
                let is_tombstone = found.is_alike();
                held.push(if found.found == Some(true) { Some(self.held_as(found, with, is_tombstone)?) } else { None });
            }
        }
        Ok(held)
    }

    /// One request; `None` where its answer would be too large.
    async fn get_some(&self, index: &str, asked: &[&Asked], whole: bool) -> Result<Option<Vec<Found>>, Failure> {
        let document = |asked: &&Asked| match &asked.routing {
            Some(routing) => json!({"_id": asked.id, "routing": routing}),
            None => json!({"_id": asked.id}),
        };
        let body = json!({"docs": asked.iter().map(document).collect::<Vec<_>>()});
        let marks = MARKS.join(",");
        let query: &[(&str, &str)] = if whole { &[] } else { &[("_source_includes", &marks)] };
        let most = if asked.len() > 1 { MOST } else { u64::MAX };
        let content = Content::Json(Bytes::from(body.to_string()));
        let answer = self.client.send_for(most, Method::Post, &format!("{}/_mget", segment(index)), query, content).await?;
        if answer.is_over {
            return Ok(None);
        }
        let Got { docs } = self.read(&answer)?;
        if docs.len() != asked.len() || docs.iter().zip(asked).any(|(found, asked)| found.id != asked.id) {
            return Err(self.misread("left out documents"));
        }
        if let Some(error) = docs.iter().find_map(|found| found.error.as_ref()) {
            let kind = error.kind.as_deref().unwrap_or("no type");
            let what = format!("{} could not read a document of index {index}: {kind}", self.client.place);
            return Err(Failure::Retry { class: Class::Unavailable, what, after: None });
        }
        Ok(Some(docs))
    }
}
