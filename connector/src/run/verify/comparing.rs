//! One comparison of the fold with the indices: each is walked once, as it stood when its walk began, and what it does not hold is found in the fold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::value::RawValue;

use super::super::patience::Patience;
use crate::error::Error;
use crate::plan::cells::Row;
use crate::plan::fingerprint::fingerprint;
use crate::plan::fold::rows::{HeldRow, Judged, judge_row};
use crate::plan::fold::{self, Class, State, judge};
use crate::plan::history;
use crate::plan::outcome::{self, Failure};
use crate::sink::{Asked, Contents, Detail, Held};
use crate::store::fold::differences::Difference;
use crate::store::fold::{Fold, Index, Known};

/// Differences that are looked up at once.
const PORTION: u32 = 500;

/// Compares, as often as it is asked to.
pub(super) struct Comparing {
    pub(super) sink: Arc<dyn Contents>,
    pub(super) patience: Patience,
    /// Indices that are compared although no revision may have come to them.
    pub(super) named: Vec<Arc<str>>,
    /// Whether contents are compared too.
    pub(super) contents: bool,
    /// The number of the last walk.
    walk: i64,
    /// Documents that each index was found to hold, without tombstones.
    pub(super) held: BTreeMap<Index, u64>,
    /// Indices that are not there.
    pub(super) absent: BTreeSet<Index>,
    /// Pages of the walk at hand that were compared in one go, at most.
    furthest: u64,
}

impl Comparing {
    pub(super) fn new(sink: Arc<dyn Contents>, patience: Patience, named: &[String], contents: bool) -> Self {
        let named = named.iter().map(|name| name.as_str().into()).collect();
        Self { sink, patience, named, contents, walk: 0, held: BTreeMap::new(), absent: BTreeSet::new(), furthest: 0 }
    }

    /// Walks every index. `progress` hears how many documents were looked at, and of how many so far.
    ///
    /// # Errors
    /// A sink that refuses or is down for too long, a stop signal; the fold cannot be used.
    pub(super) async fn walk(&mut self, fold: &mut Fold, mut progress: impl FnMut(u64, u64)) -> Result<(), Error> {
        for name in self.named.clone() {
            fold.index(&name);
        }
        fold.drop_differences(None)?;
        (self.held, self.absent) = (BTreeMap::new(), BTreeSet::new());
        let (mut before, mut of) = (0, 0);
        for (index, name) in (0..).zip(fold.indices().to_vec()) {
            self.furthest = 0;
            let looked_at = loop {
                let mut so_far = 0;
                let mut total = 0;
                let walked = self.index(index, &name, fold, |more, all| {
                    (so_far, total) = (so_far + more, all.unwrap_or(total));
                    progress(before + so_far, (of + total).max(before + so_far));
                });
                match walked.await? {
                    Ok(()) => {
                        of += total.max(so_far);
                        break so_far;
                    }
                    Err(failure) => {
                        self.patience.wait(failure).await?;
                        fold.drop_differences(Some(index))?;
                    }
                }
            };
            before += looked_at;
        }
        Ok(())
    }

    async fn index(
        &mut self,
        index: Index,
        name: &Arc<str>,
        fold: &mut Fold,
        mut progress: impl FnMut(u64, Option<u64>),
    ) -> Result<Result<(), Failure>, Error> {
        self.walk += 1;
        self.held.insert(index, 0);
        let detail = self.detail(fold, index);
        let (mut after, mut pages): (Option<String>, u64) = (None, 0);
        loop {
            let page = match self.patience.asked(self.sink.holding(name, detail, after.clone())).await {
                Ok(Ok(Some(page))) => page,
                Ok(Ok(None)) => {
                    self.absent.insert(index);
                    break;
                }
                // The page can be asked for again, but where its place is lost: then all of them.
                Ok(Err(Failure::Invalid(fault))) if after.is_some() => {
                    let what = fault.to_string();
                    return Ok(Err(Failure::Retry { class: outcome::Class::Unavailable, what, after: None }));
                }
                Ok(Err(failure)) => {
                    self.patience.wait(failure).await?;
                    continue;
                }
                Err(error) => {
                    if let Some(after) = after {
                        self.sink.leave(after).await;
                    }
                    return Err(error);
                }
            };
            if page.found.is_empty() {
                break;
            }
            after = Some(page.next);
            let walk = self.walk;
            let values = self.contents;
            fold.together(|fold| page.found.iter().try_for_each(|held| compare(fold, index, held, values, walk)))?;
            *self.held.entry(index).or_default() += page.found.iter().filter(|held| !held.is_tombstone).count() as u64;
            pages += 1;
            // To come as far as before is no progress: a server that always loses its place would be asked for ever.
            if pages > self.furthest {
                self.furthest = pages;
                self.patience.progress();
            }
            progress(page.found.len() as u64, page.total);
        }
        self.rest(index, fold).map(Ok)
    }

    /// How much of its documents is asked for. A row of cells has its versions in its content, and a document of a history says there that it was
    /// redacted.
    fn detail(&self, fold: &Fold, index: Index) -> Detail {
        if self.contents || fold.has_rows(index) || fold.has_redactions(index) { Detail::Content } else { Detail::Version }
    }

    /// What the index was not found to hold.
    fn rest(&self, index: Index, fold: &mut Fold) -> Result<(), Error> {
        let mut after = String::new();
        loop {
            let unseen = fold.unseen(index, self.walk, &after, 2_000)?;
            let Some((last, _)) = unseen.last() else { return Ok(()) };
            after.clone_from(last);
            fold.together(|fold| {
                for (id, known) in &unseen {
                    if let Some(difference) = difference(index, id, Some(known), None, false) {
                        fold.note(&difference)?;
                    }
                }
                Ok(())
            })?;
        }
    }

    /// Looks up what the walk said is missing, stale, resurrected or redacted: a pipeline may have written it meanwhile. What is newer than the fold by now
    /// is no difference, and neither is what is as new as was expected when it was noted: the fold may have more by now.
    ///
    /// # Errors
    /// As [`walk`](Self::walk).
    pub(super) async fn look_again(&mut self, fold: &mut Fold) -> Result<(), Error> {
        for class in [Class::Missing, Class::Stale, Class::Resurrected, Class::RedactedPresent] {
            let mut after = 0;
            loop {
                let portion = fold.differences(class, after, PORTION)?;
                let Some((last, _)) = portion.last() else { break };
                after = *last;
                for index in portion.iter().map(|(_, difference)| difference.index).collect::<BTreeSet<_>>() {
                    if self.absent.contains(&index) {
                        continue;
                    }
                    let of: Vec<&(i64, Difference)> = portion.iter().filter(|(_, difference)| difference.index == index).collect();
                    let asked: Vec<Asked> =
                        of.iter().map(|(_, difference)| Asked { id: difference.id.clone(), routing: difference.routing.clone() }).collect();
                    let found = self.held(&fold.name(index), &asked, self.detail(fold, index)).await?;
                    let values = self.contents;
                    fold.together(|fold| {
                        of.iter().zip(&found).try_for_each(|((key, noted), held)| judge_again(fold, *key, noted, held.as_ref(), values))
                    })?;
                }
            }
        }
        Ok(())
    }

    async fn held(&mut self, name: &str, asked: &[Asked], detail: Detail) -> Result<Vec<Option<Held>>, Error> {
        loop {
            match self.patience.asked(self.sink.held(name, asked, detail)).await? {
                Ok(found) if found.len() == asked.len() => {
                    self.patience.progress();
                    return Ok(found);
                }
                Ok(found) => {
                    let what = format!("expected {} answers, found {}", asked.len(), found.len());
                    self.patience.wait(Failure::Retry { class: outcome::Class::Unavailable, what, after: None }).await?;
                }
                Err(failure) => self.patience.wait(failure).await?,
            }
        }
    }

    /// Judges what was foreign or ahead once more, at the versions that were found: the fold has more records by now.
    ///
    /// # Errors
    /// The fold cannot be used.
    pub(super) fn judge_newer(fold: &mut Fold) -> Result<(), Error> {
        for class in [Class::Foreign, Class::Ahead] {
            let mut after = 0;
            loop {
                let portion = fold.differences(class, after, PORTION)?;
                let Some((last, _)) = portion.last() else { break };
                after = *last;
                fold.together(|fold| {
                    for (key, noted) in &portion {
                        let known = fold.known(noted.index, &noted.id)?.filter(|known| known.routing == noted.routing);
                        let newest = known.as_ref().and_then(|known| known.folded.newest);
                        // Of the version that the stream has it was found to be redacted, which no version tells.
                        if noted.class == Class::Ahead
                            && noted.held == noted.folded
                            && newest.is_some_and(|newest| newest.state == State::Document && Some(newest.version) == noted.held)
                        {
                            continue;
                        }
                        let now = difference(noted.index, &noted.id, known.as_ref(), was_held(noted).as_ref(), false);
                        if !now.is_some_and(|now| matches!(now.class, Class::Foreign | Class::Ahead)) {
                            fold.drop_difference(*key)?;
                        }
                    }
                    Ok(())
                })?;
            }
        }
        Ok(())
    }
}

fn compare(fold: &mut Fold, index: Index, held: &Held, values: bool, walk: i64) -> Result<(), Error> {
    let known = fold.known(index, &held.id)?.filter(|known| known.routing == held.routing);
    if known.is_some() {
        fold.see(index, &held.id, walk)?;
    }
    difference(index, &held.id, known.as_ref(), Some(held), values).map_or(Ok(()), |difference| fold.note(&difference))
}

fn judge_again(fold: &mut Fold, key: i64, noted: &Difference, held: Option<&Held>, values: bool) -> Result<(), Error> {
    let known = fold.known(noted.index, &noted.id)?;
    let held = held.filter(|held| known.as_ref().is_some_and(|known| known.routing == held.routing));
    let Some(now) = difference(noted.index, &noted.id, known.as_ref(), held, values) else { return fold.drop_difference(key) };
    let has_come = now.folded > noted.folded && now.held >= noted.folded && !now.is_other;
    match now.class {
        Class::Ahead => fold.drop_difference(key),
        Class::Missing | Class::Stale if has_come => fold.drop_difference(key),
        _ if now == *noted => Ok(()),
        _ => fold.renote(key, &now),
    }
}

/// What was found when a difference was noted.
fn was_held(noted: &Difference) -> Option<Held> {
    let source = noted.row.clone().and_then(|row| RawValue::from_string(row).ok());
    let version = noted.held?;
    Some(Held { id: noted.id.clone(), version, routing: noted.routing.clone(), is_tombstone: noted.is_tombstone, source })
}

/// What is wrong with what is held under an id. `values`: whether the values of cells are compared.
fn difference(index: Index, id: &str, known: Option<&Known>, held: Option<&Held>, values: bool) -> Option<Difference> {
    let row = held.and_then(|held| Row::read(held.source.as_ref()?.get().as_bytes(), held.version));
    let (class, mend, is_other) = match known {
        Some(Known { row: Some(folded), .. }) => {
            judge_row(folded, held.map(|held| HeldRow { version: held.version, row: row.as_ref() }), values)?
        }
        _ => judge_whole(known, held)?,
    };
    let routing = held.map_or_else(|| known.and_then(|known| known.routing.clone()), |held| held.routing.clone());
    // A sink may count the writes to a row instead.
    let version = |held: &Held| row.as_ref().map_or(held.version, Row::version);
    Some(Difference {
        class,
        index,
        id: id.to_owned(),
        routing,
        held: held.map(version),
        is_tombstone: held.is_some_and(|held| held.is_tombstone),
        folded: known.and_then(|known| known.folded.version()),
        is_other: is_other && class == Class::Stale,
        mend,
        row: row.as_ref().filter(|_| matches!(class, Class::Foreign | Class::Ahead)).map(Row::text),
    })
}

fn judge_whole(known: Option<&Known>, held: Option<&Held>) -> Option<Judged> {
    let newest = known.and_then(|known| known.folded.newest);
    let is_other = || {
        let (source, content) = (held?.source.as_ref()?, known?.content?);
        Some(newest?.version == held?.version && fingerprint(source.get().as_bytes()) != content)
    };
    let is_other = held.is_some_and(|held| !held.is_tombstone) && is_other().unwrap_or(false);
    let says_so = is_other || newest.is_some_and(|newest| newest.state == State::Redacted);
    let is_redacted = |held: &Held| held.source.as_ref().is_some_and(|source| history::is_redacted(source.get().as_bytes(), held.version));
    let as_held = held.map(|held| fold::Held {
        version: held.version,
        is_tombstone: held.is_tombstone,
        is_other,
        is_redacted: held.is_tombstone && known.is_some_and(|known| known.erases) || says_so && is_redacted(held),
    });
    judge(known.map(|known| &known.folded), as_held).map(|(class, mend)| (class, mend, is_other))
}
