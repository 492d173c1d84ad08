//! What waits for indices that cannot be written: of each a sample is tried again after a while, everything else waits behind it.
//!
//! Sends nothing. Of one document never more than one operation waits here; later ones wait in its lane.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::time::Instant;

use super::part::Open;
use crate::metrics::instruments;
use crate::record::Fault;

/// Operations of which it is tried whether their index can be written again.
const SAMPLE: usize = 10;

/// An index that cannot be written.
#[derive(Debug)]
struct Parked {
    since: Instant,
    why: Fault,
    waiting: VecDeque<Open>,
    /// Bytes that everything holds that is for this index and not settled, as far as it passed through here.
    bytes: usize,
}

/// The indices that cannot be written.
#[derive(Debug, Default)]
pub(super) struct ParkedIndices {
    indices: HashMap<Arc<str>, Parked>,
    bytes: usize,
}

impl ParkedIndices {
    /// Bytes of all operations that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The indices, since when they are blocked and why.
    pub(super) fn indices(&self) -> impl Iterator<Item = (&Arc<str>, Instant, &Fault)> {
        self.indices.iter().map(|(index, parked)| (index, parked.since, &parked.why))
    }

    /// Whether an index is blocked.
    pub(super) fn has(&self, index: &Arc<str>) -> bool {
        self.indices.contains_key(index)
    }

    /// Holds operations back whose index is blocked, for the reason given; says whether it is news that it is.
    pub(super) fn park(&mut self, index: &Arc<str>, open: Vec<Open>, why: &Fault) -> bool {
        let bytes: usize = open.iter().map(Open::weight).sum();
        self.bytes += bytes;
        match self.indices.entry(index.clone()) {
            Entry::Occupied(parked) => {
                let parked = parked.into_mut();
                parked.bytes += bytes;
                parked.waiting.extend(open);
                false
            }
            Entry::Vacant(place) => {
                instruments::index_blocked(index, true);
                place.insert(Parked { since: Instant::now(), why: why.clone(), waiting: open.into(), bytes });
                true
            }
        }
    }

    /// Holds an operation back whose index is blocked.
    pub(super) fn push(&mut self, open: Open) {
        if let Some(parked) = self.indices.get_mut(&open.slot.operation.target().index) {
            parked.bytes += open.weight();
            self.bytes += open.weight();
            parked.waiting.push_back(open);
        }
    }

    /// Something of so many bytes waits in its lane, for the same index.
    pub(super) fn grow(&mut self, index: &Arc<str>, bytes: usize) {
        if let Some(parked) = self.indices.get_mut(index) {
            parked.bytes += bytes;
            self.bytes += bytes;
        }
    }

    /// A sample came back, and these of it were not taken: the next ones are tried before them.
    pub(super) fn put_back(&mut self, index: &Arc<str>, open: Vec<Open>, why: &Fault) {
        if let Some(parked) = self.indices.get_mut(index) {
            why.clone_into(&mut parked.why);
            parked.waiting.extend(open);
        }
    }

    /// The next operations to try an index with, and since when it is blocked: first what it refused, which shows best whether it was mended.
    pub(super) fn sample(&mut self, index: &Arc<str>) -> Option<(Vec<Open>, Instant)> {
        let parked = self.indices.get_mut(index)?;
        let refused = (0..parked.waiting.len()).filter(|at| parked.waiting[*at].refused);
        let mut places: Vec<usize> = refused.take(SAMPLE).collect();
        if places.is_empty() {
            places = (0..SAMPLE.min(parked.waiting.len())).collect();
        }
        let sample = places.iter().rev().filter_map(|at| parked.waiting.remove(*at)).collect();
        Some((sample, parked.since))
    }

    /// An index can be written again: everything that waits for it.
    pub(super) fn release(&mut self, index: &Arc<str>) -> Vec<Open> {
        let Some(parked) = self.indices.remove(index) else { return Vec::new() };
        self.bytes -= parked.bytes;
        instruments::index_blocked(index, false);
        parked.waiting.into()
    }
}
