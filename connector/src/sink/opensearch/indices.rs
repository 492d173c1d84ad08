//! The indices that are written to: found or made once, and never silently made anew.
//!
//! A missing index NAME is created as NAME-000001 with NAME as its write alias, so that a rebuild can switch the name later; an index or
//! alias NAME that exists is used as it is. From then on its UUID is known. An index that vanishes, or turns out to be another one, is
//! blocked until the one that was known is back under its name, or revsync is started again. A name that is switched to another index while
//! revsync writes to it is blocked in the same way: whether the other one holds what was written before is not for us to guess.
//!
//! Not covered: servers that tell no UUID, and OpenSearch Serverless, where a missing index is only seen by its own error. A role that may
//! index but not update (`indices:data/write/update`) gets no UUID from the guards, so a change is seen only when the name is missing.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use opensearch::http::Method;
use serde::Deserialize;
use serde_json::Value;

use super::client::{Client, Content, segment};
use super::creation;
use super::reply::Replies;
use crate::operation::Operation;
use crate::plan::outcome::{Class, Failure, Reply};

/// What is known about the names written to.
#[derive(Debug)]
pub(super) struct Indices {
    known: RwLock<HashMap<Arc<str>, Known>>,
    /// Held while a name is looked up or created, so that requests that run at once do it once.
    looking: tokio::sync::Mutex<()>,
    create: bool,
    gc_deletes: String,
    /// Settings and mappings to create an index with, by name.
    pub(super) bodies: HashMap<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    index: Index,
    /// Why nothing is written to it at present.
    blocked: Option<Arc<str>>,
}

/// An index that a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Index {
    /// Whether the name is an alias.
    pub(super) alias: bool,
    /// The UUID of the index that is written to; servers that only stand in for OpenSearch give none.
    pub(super) uuid: Option<Arc<str>>,
}

/// One index name of a request.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) name: Arc<str>,
    pub(super) index: Index,
    /// Why its operations are not sent.
    pub(super) blocked: Option<Arc<str>>,
}

/// How a name came to be usable.
#[derive(Debug)]
pub(super) enum Found {
    Existed(Index),
    Created(Index),
    Missing,
}

impl Indices {
    pub(super) fn new(create: bool, gc_deletes: &str) -> Self {
        Self {
            known: RwLock::default(),
            looking: tokio::sync::Mutex::default(),
            create,
            gc_deletes: gc_deletes.to_owned(),
            bodies: HashMap::new(),
        }
    }

    /// The names known so far, but for those that are blocked.
    pub(super) fn names(&self) -> Vec<Arc<str>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter(|(_, known)| known.blocked.is_none()).map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Makes sure that every index of a request exists, each the first time that it is written to.
    pub(super) async fn admit(&self, client: &Client, operations: &[Operation]) -> Result<Vec<Admitted>, Failure> {
        let mut admitted: Vec<Admitted> = Vec::new();
        for operation in operations {
            let name = &operation.target().index;
            if find(&admitted, name).is_some() {
                continue;
            }
            let known = match self.get(name) {
                Some(known) if known.blocked.is_none() => known,
                _ => self.look(client, name).await?,
            };
            admitted.push(Admitted { name: Arc::clone(name), index: known.index, blocked: known.blocked });
        }
        Ok(admitted)
    }

    fn get(&self, name: &str) -> Option<Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn put(&self, name: &Arc<str>, known: Known) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(name), known);
    }

    /// Looks a name up that is new or blocked, and creates it if it is new and missing.
    async fn look(&self, client: &Client, name: &Arc<str>) -> Result<Known, Failure> {
        let _one_at_a_time = self.looking.lock().await;
        let before = self.get(name);
        if let Some(known) = &before
            && known.blocked.is_none()
        {
            return Ok(known.clone());
        }
        let found = match self.ensure(client, name, self.create && before.is_none()).await {
            Ok(found) => found,
            // One index that cannot be made now does not hold up the others of its request.
            Err(Failure::Retry { class: Class::Blocked, what, .. }) => return Ok(missing(what)),
            Err(failure) => return Err(failure),
        };
        let known = match (before, found) {
            (None, Found::Existed(index) | Found::Created(index)) => Known { index, blocked: None },
            // Not remembered: it has never been there, so whoever makes it is welcome.
            (None, Found::Missing) => {
                return Ok(missing(format!("index {name} does not exist and create_index is off; run revsync setup")));
            }
            (Some(known), Found::Existed(index) | Found::Created(index)) if index.uuid == known.index.uuid => {
                Known { index, blocked: None }
            }
            (Some(known), Found::Missing) => Known { blocked: Some(vanished(name)), ..known },
            (Some(known), Found::Existed(_) | Found::Created(_)) => Known { blocked: Some(replaced(name)), ..known },
        };
        self.put(name, known.clone());
        Ok(known)
    }

    /// Finds the index behind a name, or creates it.
    pub(super) async fn ensure(&self, client: &Client, name: &str, create: bool) -> Result<Found, Failure> {
        if let Some(index) = find_index(client, name).await? {
            return Ok(Found::Existed(index));
        }
        if !create {
            return Ok(Found::Missing);
        }
        let first = format!("{name}-000001");
        // Serverless has no such setting.
        let gc_deletes = (!client.serverless).then_some(self.gc_deletes.as_str());
        let body = creation::body(name, gc_deletes, self.bodies.get(name));
        let answer = client.send(Method::Put, &segment(&first), &[], Content::Json(Bytes::from(body.to_string()))).await?;
        let created = answer.is_success();
        if !created {
            // Someone else may have made it between the two requests; whether that is so shows in the next look.
            match answer.error_type().as_deref() {
                Some("resource_already_exists_exception" | "invalid_alias_name_exception") => {}
                _ => {
                    return Err(match client.judged(&answer) {
                        Failure::Invalid(fault) => {
                            Failure::Misconfigured { what: format!("cannot create index {first}: {}", fault.reason) }
                        }
                        failure => failure,
                    });
                }
            }
        }
        match find_index(client, name).await? {
            Some(index) if created => Ok(Found::Created(index)),
            Some(index) => Ok(Found::Existed(index)),
            None => Err(Failure::Retry {
                class: Class::Blocked,
                what: format!(
                    "index {first} exists, but {name} is no alias of it; add the alias, or delete the index to have it made anew"
                ),
                after: None,
            }),
        }
    }

    /// Blocks what the replies of a request show to have vanished or changed, and unsettles what was written to an index of which nobody knew.
    pub(super) fn watch(&self, admitted: &[Admitted], sent: &[&Operation], replies: &mut Replies) {
        let mut guards = replies.guards.iter();
        for Admitted { name, index, .. } in admitted.iter().filter(|admitted| admitted.blocked.is_none()) {
            let Some(uuid) = &index.uuid else { continue };
            let reached = if index.alias { guards.next() } else { guards.nth(1) };
            let changed = reached.and_then(Option::as_deref).is_some_and(|now| now != "_na_" && now != &**uuid);
            let mut its_replies = sent.iter().zip(&mut replies.operations).filter(|(operation, _)| operation.target().index == *name);
            if changed {
                let what = replaced(name);
                its_replies.for_each(|(_, reply)| *reply = Reply::error(404, "index_not_found_exception", &what));
                self.put(name, Known { index: index.clone(), blocked: Some(what) });
            } else if its_replies.any(|(_, reply)| reply.error.as_ref().is_some_and(|fault| fault.kind == "index_not_found_exception")) {
                self.put(name, Known { index: index.clone(), blocked: Some(vanished(name)) });
            }
        }
    }
}

/// The entry of a name in a request. Names are nearly always shared, so comparing addresses finds most.
pub(super) fn find<'a>(admitted: &'a [Admitted], name: &Arc<str>) -> Option<&'a Admitted> {
    admitted.iter().find(|admitted| Arc::ptr_eq(&admitted.name, name)).or_else(|| admitted.iter().find(|admitted| admitted.name == *name))
}

fn missing(what: String) -> Known {
    Known { index: Index { alias: false, uuid: None }, blocked: Some(what.into()) }
}

fn vanished(name: &str) -> Arc<str> {
    format!("index {name} was there and is gone; restore it, or run revsync setup and start again from the earliest position").into()
}

fn replaced(name: &str) -> Arc<str> {
    format!("index {name} is no longer the one that was written to before; if the new one is meant, start revsync again").into()
}

#[derive(Deserialize)]
struct Described {
    #[serde(default)]
    aliases: HashMap<String, Alias>,
    #[serde(default)]
    settings: Settings,
}

impl Described {
    fn uuid(&self) -> Option<Arc<str>> {
        self.settings.index.uuid.as_deref().map(Arc::from)
    }
}

#[derive(Deserialize, Default)]
struct Alias {
    is_write_index: Option<bool>,
}

#[derive(Deserialize, Default)]
struct Settings {
    #[serde(default)]
    index: IndexSettings,
}

#[derive(Deserialize, Default)]
struct IndexSettings {
    uuid: Option<String>,
}

async fn find_index(client: &Client, name: &str) -> Result<Option<Index>, Failure> {
    let filter: &[(&str, &str)] = if client.serverless { &[] } else { &[("filter_path", "*.aliases,*.settings.index.uuid")] };
    let answer = client.send(Method::Get, &segment(name), filter, Content::Empty).await?;
    if answer.status == 404 && matches!(answer.error_type().as_deref(), None | Some("index_not_found_exception")) {
        return Ok(None);
    }
    if !answer.is_success() {
        return Err(client.judged(&answer));
    }
    let described: HashMap<String, Described> = serde_json::from_slice(&answer.body).map_err(|_| Failure::Retry {
        class: Class::Unavailable,
        what: format!("{} described index {name} in a way that is not OpenSearch's", client.place),
        after: None,
    })?;
    interpret(name, &described).map(Some)
}

fn interpret(name: &str, described: &HashMap<String, Described>) -> Result<Index, Failure> {
    if described.is_empty() {
        return Ok(Index { alias: false, uuid: None });
    }
    if let Some(index) = described.get(name) {
        return Ok(Index { alias: false, uuid: index.uuid() });
    }
    let members: Vec<(&Alias, &Described)> = described.values().filter_map(|index| Some((index.aliases.get(name)?, index))).collect();
    let write_index = members.iter().find(|(alias, _)| alias.is_write_index == Some(true)).or(match members.as_slice() {
        [only] if only.0.is_write_index.is_none() => Some(only),
        _ => None,
    });
    match write_index {
        Some((_, index)) => Ok(Index { alias: true, uuid: index.uuid() }),
        None if members.is_empty() => Err(Failure::Misconfigured {
            what: format!("{name} is neither an index nor an alias; a data stream takes no external versions"),
        }),
        None => Err(Failure::Misconfigured {
            what: format!("alias {name} has no write index: set is_write_index on one of its {} indices", members.len()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(text: &str) -> HashMap<String, Described> {
        serde_json::from_str(text).unwrap()
    }

    fn found(text: &str) -> Result<Index, Failure> {
        interpret("people", &described(text))
    }

    fn index(alias: bool, uuid: &str) -> Index {
        Index { alias, uuid: Some(uuid.into()) }
    }

    #[test]
    fn a_name_is_an_index_or_an_alias_with_one_write_index() {
        assert_eq!(found(r#"{"people":{"aliases":{},"settings":{"index":{"uuid":"a"}}}}"#).unwrap(), index(false, "a"));
        assert_eq!(
            found(r#"{"people-1":{"aliases":{"people":{}},"settings":{"index":{"uuid":"a"}}}}"#).unwrap(),
            index(true, "a"),
            "a lone index behind an alias is its write index"
        );
        assert_eq!(
            found(
                r#"{"people-1":{"aliases":{"people":{"is_write_index":false}},"settings":{"index":{"uuid":"a"}}},
                    "people-2":{"aliases":{"people":{"is_write_index":true}},"settings":{"index":{"uuid":"b"}}}}"#
            )
            .unwrap(),
            index(true, "b")
        );
    }

    #[test]
    fn an_alias_without_a_write_index_and_a_data_stream_are_refused() {
        for (text, expected) in [
            (r#"{"people-1":{"aliases":{"people":{}}},"people-2":{"aliases":{"people":{}}}}"#, "one of its 2 indices"),
            (r#"{"people-1":{"aliases":{"people":{"is_write_index":false}}}}"#, "has no write index"),
            (r#"{".ds-people-000001":{"aliases":{},"settings":{"index":{"uuid":"a"}}}}"#, "data stream"),
        ] {
            match found(text) {
                Err(Failure::Misconfigured { what }) => assert!(what.contains(expected), "{what}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_server_that_tells_no_uuid_is_not_asked_for_it() {
        assert_eq!(
            found(r#"{"people":{"aliases":{},"mappings":{},"settings":{"index":{}}}}"#).unwrap(),
            Index { alias: false, uuid: None }
        );
        assert_eq!(found("{}").unwrap(), Index { alias: false, uuid: None });
    }
}
