//! The indices that are written to: found or made once, and never silently made anew.
//!
//! A missing index NAME is created as NAME-000001 with NAME as its write alias, so that a rebuild can switch the name later; an index or
//! alias NAME that exists is used as it is. From then on its UUID is known. An index that vanishes, or turns out to be another one, is
//! blocked until the one that was known is back under its name, or revsync is started again; where checkpoints hold the UUIDs, until those are
//! rewound. Before an index gets its first delete, it is
//! said how far deletes hold there ([`advice`]), and before its first tombstone or merge, what those need is mapped; where nothing can be merged
//! without harm, the index is blocked. A name that is switched to another index while
//! revsync writes to it is blocked in the same way: whether the other one holds what was written before is not for us to guess.
//!
//! Not covered: servers that tell no UUID, and OpenSearch Serverless, where a missing index is only seen by its own error. A role that may
//! index but not update (`indices:data/write/update`) gets no UUID from the guards, so a change is seen only when the name is missing.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use opensearch::http::Method;
use serde_json::Value;

use super::advice::Uses;
use super::client::{Client, Content, segment};
use super::creation::Holds;
use super::describe::{Index, Seen, find_index};
use super::inspect::said;
use super::reply::Replies;
use super::{advice, creation};
use crate::operation::Operation;
use crate::plan::deletes::IndexDeletes;
use crate::plan::mapping::Deletes;
use crate::plan::outcome::{Class, Failure, Reply};

/// What is known about the names written to.
#[derive(Debug)]
pub(super) struct Indices {
    known: RwLock<HashMap<Arc<str>, Known>>,
    /// Held while a name is looked up or created, so that requests that run at once do it once.
    looking: tokio::sync::Mutex<()>,
    /// Whether what is known outlives the process, in checkpoints: starting again then changes nothing.
    lasting: AtomicBool,
    pub(super) create: bool,
    gc_deletes: String,
    /// Settings and mappings to create an index with, by name.
    pub(super) bodies: HashMap<String, Value>,
    /// Which deletes an index can get.
    pub(super) deletes: IndexDeletes,
    /// Whether it is said how far deletes hold.
    pub(super) advises: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    index: Index,
    /// Why nothing is written to it at present.
    blocked: Option<Arc<str>>,
    /// What it has been made ready for.
    ready: Uses,
}

/// One index name of a request.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) name: Arc<str>,
    pub(super) index: Index,
    /// Why its operations are not sent.
    pub(super) blocked: Option<Arc<str>>,
    /// What it has been made ready for, and what it gets.
    ready: Uses,
    uses: Uses,
}

/// How a name came to be usable.
#[derive(Debug)]
pub(super) enum Found {
    Existed(Seen),
    Created(Seen),
    Missing,
}

impl Indices {
    pub(super) fn new(create: bool, gc_deletes: &str) -> Self {
        Self {
            known: RwLock::default(),
            looking: tokio::sync::Mutex::default(),
            lasting: AtomicBool::new(false),
            create,
            gc_deletes: gc_deletes.to_owned(),
            bodies: HashMap::new(),
            deletes: IndexDeletes::default(),
            advises: true,
        }
    }

    /// The names known so far, but for those that are blocked.
    pub(super) fn names(&self) -> Vec<Arc<str>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter(|(_, known)| known.blocked.is_none()).map(|(name, _)| Arc::clone(name)).collect()
    }

    /// The names known so far with the UUIDs that they have to have, also of those that are blocked.
    pub(super) fn targets(&self) -> BTreeMap<String, String> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let target = |(name, known): (&Arc<str>, &Known)| Some((name.to_string(), known.index.uuid.as_deref()?.to_owned()));
        known.iter().filter_map(target).collect()
    }

    /// Names that were written to before, with the UUIDs that they had: each is looked up before it is written to.
    pub(super) fn expecting(&self, targets: &BTreeMap<String, String>) {
        self.lasting.store(true, Ordering::Relaxed);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for (name, uuid) in targets {
            let unseen = || Known {
                index: Index { alias: false, uuid: Some(uuid.as_str().into()) },
                blocked: Some(format!("index {name} was not looked up yet").into()),
                ready: Uses::default(),
            };
            known.entry(name.as_str().into()).or_insert_with(unseen);
        }
    }

    /// Makes sure that every index of a request exists and is ready for what it gets, each the first time.
    pub(super) async fn admit(&self, client: &Client, operations: &[Operation]) -> Result<Vec<Admitted>, Failure> {
        let mut admitted: Vec<Admitted> = Vec::new();
        for operation in operations {
            let name = &operation.target().index;
            let at = match place(&admitted, name) {
                Some(at) => at,
                None => {
                    let Known { index, blocked, ready } = match self.get(name) {
                        Some(known) if known.blocked.is_none() => known,
                        _ => self.look(client, name).await?,
                    };
                    let uses = Uses { deletes: false, ..self.uses(name) };
                    admitted.push(Admitted { name: Arc::clone(name), index, blocked, ready, uses });
                    admitted.len() - 1
                }
            };
            admitted[at].uses.add(operation);
        }
        for Admitted { name, uses, blocked, .. } in admitted.iter_mut().filter(|one| one.blocked.is_none() && !one.ready.cover(one.uses)) {
            *blocked = self.make_ready(client, name, *uses).await?;
        }
        Ok(admitted)
    }

    fn gets_tombstones(&self, name: &str) -> bool {
        self.deletes.may(name, Deletes::Tombstone)
    }

    /// Says once how far deletes hold in an index, and maps what tombstones and merges need. Gives why nothing is to be written to it, where a merge
    /// would do harm.
    async fn make_ready(&self, client: &Client, name: &Arc<str>, uses: Uses) -> Result<Option<Arc<str>>, Failure> {
        let _one_at_a_time = self.looking.lock().await;
        let Some(known) = self.get(name).filter(|known| !known.ready.cover(uses)) else { return Ok(None) };
        if known.blocked.is_some() {
            return Ok(known.blocked);
        }
        // What has gone meanwhile shows in the answer to the write.
        if self.advises
            && let Some(mut seen) = find_index(client, name).await?
        {
            let advice = self.prepare(client, name, &mut seen, uses.without(known.ready)).await?;
            if uses.merges && !seen.keeps_cells {
                let why: Option<Arc<str>> = advice.first().map(|advice| advice.to_string().into());
                self.put(name, Known { blocked: why.clone(), ..known });
                return Ok(why);
            }
            for advice in advice {
                tracing::warn!("{advice}");
            }
        }
        self.put(name, Known { ready: known.ready.and(uses), ..known });
        Ok(None)
    }

    /// Maps what tombstones and merges need in an index that has them, and gives what else is to be known about deletes there, first of all why
    /// nothing can be merged.
    pub(super) async fn prepare(&self, client: &Client, name: &str, seen: &mut Seen, uses: Uses) -> Result<Vec<advice::Advice>, Failure> {
        let mut refusal = None;
        if (uses.tombstones && !seen.mapped) || (uses.merges && !seen.keeps_cells) {
            let path = format!("{}/_mapping", segment(&seen.concrete));
            let mapping = Content::Json(Bytes::from(creation::tombstone_mapping().to_string()));
            let answer = client.send(Method::Put, &path, &[], mapping).await?;
            if answer.is_success() {
                (seen.mapped, seen.keeps_cells) = (true, true);
            } else {
                refusal = match client.judged(&answer) {
                    // An outage passes, and then it is tried again; a refusal is for a person.
                    failure @ Failure::Retry { class: Class::Throttled | Class::Unavailable, .. } => return Err(failure),
                    failure => Some(said(failure)),
                };
            }
        }
        Ok(self.advice(client, name, seen, uses, refusal.as_deref()))
    }

    /// What is to be known about deletes in an index. `refusal` is what the server said to the mapping of tombstones.
    pub(super) fn advice(&self, client: &Client, name: &str, seen: &Seen, uses: Uses, refusal: Option<&str>) -> Vec<advice::Advice> {
        // Serverless has no such setting.
        let gc_deletes = (!client.serverless).then_some(self.gc_deletes.as_str());
        advice::advice(name, seen, uses, gc_deletes, refusal)
    }

    /// What an index can get by the rules.
    pub(super) fn uses(&self, name: &str) -> Uses {
        Uses {
            deletes: self.deletes.may(name, Deletes::Delete),
            tombstones: self.gets_tombstones(name),
            merges: self.deletes.may_merge(name),
        }
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
            (None, Found::Existed(seen)) => Known { index: seen.index, blocked: None, ready: Uses::default() },
            (None, Found::Created(seen)) => {
                // What the user gave may stand in the way of what tombstones need.
                let tombstones = self.gets_tombstones(name) && seen.mapped && seen.hides;
                let ready = Uses { deletes: true, tombstones, merges: tombstones && seen.keeps_cells };
                Known { index: seen.index, blocked: None, ready }
            }
            // Not remembered: it has never been there, so whoever makes it is welcome.
            (None, Found::Missing) => {
                return Ok(missing(format!("index {name} does not exist and create_index is off; run revsync setup")));
            }
            (Some(known), Found::Existed(seen) | Found::Created(seen)) if seen.index.uuid == known.index.uuid => {
                Known { index: seen.index, blocked: None, ..known }
            }
            (Some(known), Found::Missing) => Known { blocked: Some(self.vanished(name)), ..known },
            (Some(known), Found::Existed(_) | Found::Created(_)) => Known { blocked: Some(self.replaced(name)), ..known },
        };
        self.put(name, known.clone());
        Ok(known)
    }

    /// Finds the index behind a name, or creates it.
    pub(super) async fn ensure(&self, client: &Client, name: &str, create: bool) -> Result<Found, Failure> {
        if let Some(seen) = find_index(client, name).await? {
            return Ok(Found::Existed(seen));
        }
        if !create {
            return Ok(Found::Missing);
        }
        let first = format!("{name}-000001");
        // Serverless has no such setting.
        let gc_deletes = (!client.serverless).then_some(self.gc_deletes.as_str());
        let holds = match (self.deletes.is_history(name), self.gets_tombstones(name)) {
            (true, _) => Holds::History,
            (false, true) => Holds::Tombstones,
            (false, false) => Holds::Documents,
        };
        let body = creation::body(name, gc_deletes, holds, self.bodies.get(name));
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
            Some(seen) if created => Ok(Found::Created(seen)),
            Some(seen) => Ok(Found::Existed(seen)),
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
        for Admitted { name, index, ready, uses, .. } in admitted.iter().filter(|admitted| admitted.blocked.is_none()) {
            let Some(uuid) = &index.uuid else { continue };
            let reached = if index.alias { guards.next() } else { guards.nth(1) };
            let changed = reached.and_then(Option::as_deref).is_some_and(|now| now != "_na_" && now != &**uuid);
            let mut its_replies = sent.iter().zip(&mut replies.operations).filter(|(operation, _)| operation.target().index == *name);
            if changed {
                let what = self.replaced(name);
                its_replies.for_each(|(_, reply)| *reply = Reply::error(404, "index_not_found_exception", &what));
                self.put(name, Known { index: index.clone(), blocked: Some(what), ready: ready.and(*uses) });
            } else if its_replies.any(|(_, reply)| reply.error.as_ref().is_some_and(|fault| fault.kind == "index_not_found_exception")) {
                self.put(name, Known { index: index.clone(), blocked: Some(self.vanished(name)), ready: ready.and(*uses) });
            }
        }
    }
}

/// What a person can do about an index that is not the one that was written to.
impl Indices {
    fn vanished(&self, name: &str) -> Arc<str> {
        let anew = match self.lasting.load(Ordering::Relaxed) {
            true => {
                "stop revsync and run revsync checkpoints rewind earliest (its --config, or its --to and --name), and it is made anew and filled with \
                 what the stream still has"
            }
            false => "run revsync setup and start again from the earliest position",
        };
        format!("index {name} was there and is gone; restore it, or {anew}").into()
    }

    fn replaced(&self, name: &str) -> Arc<str> {
        let if_meant = match self.lasting.load(Ordering::Relaxed) {
            true => {
                "stop revsync and run revsync checkpoints rewind earliest (its --config, or its --to and --name), and it is filled with what the \
                 stream still has"
            }
            false => "start revsync again",
        };
        format!("index {name} is no longer the one that was written to before; if the new one is meant, {if_meant}").into()
    }
}

/// The entry of a name in a request.
pub(super) fn find<'a>(admitted: &'a [Admitted], name: &Arc<str>) -> Option<&'a Admitted> {
    place(admitted, name).map(|at| &admitted[at])
}

/// The place of a name in a request. Names are nearly always shared, so comparing addresses finds most.
fn place(admitted: &[Admitted], name: &Arc<str>) -> Option<usize> {
    let shared = admitted.iter().position(|admitted| Arc::ptr_eq(&admitted.name, name));
    shared.or_else(|| admitted.iter().position(|admitted| admitted.name == *name))
}

fn missing(what: String) -> Known {
    Known { index: Index { alias: false, uuid: None }, blocked: Some(what.into()), ready: Uses::default() }
}
