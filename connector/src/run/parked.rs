//! What waits for indices that cannot be written: of each a sample is tried again after a while, everything else waits behind it.
//!
//! Sends nothing. Of one document never more than one operation waits here, or merges of one batch, which may be carried out in any order; later
//! ones wait in its lane.

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
    /// Bytes of what waits, of the sample under way, and of what waits behind them in its lane.
    bytes: usize,
    /// Bytes of the sample under way.
    sampled: usize,
}

/// The indices that cannot be written.
#[derive(Debug, Default)]
pub(super) struct ParkedIndices {
    indices: HashMap<Arc<str>, Parked>,
}

impl ParkedIndices {
    /// Bytes of all operations that wait.
    pub(super) fn bytes(&self) -> usize {
        self.indices.values().map(|parked| parked.bytes).sum()
    }

    /// The indices, since when they are blocked and why.
    pub(super) fn indices(&self) -> impl Iterator<Item = (&Arc<str>, Instant, &Fault)> {
        self.indices.iter().map(|(index, parked)| (index, parked.since, &parked.why))
    }

    /// Whether an index is blocked.
    pub(super) fn has(&self, index: &Arc<str>) -> bool {
        self.indices.contains_key(index)
    }

    /// Holds operations back whose index is blocked, for the reason given. Gives whether it is news that it is; what waits in its lanes for it
    /// is then still to be told ([`grow`](Self::grow)).
    pub(super) fn park(&mut self, index: &Arc<str>, open: Vec<Open>, why: &Fault) -> bool {
        let is_new = !self.has(index);
        let parked = self.indices.entry(index.clone()).or_insert_with(|| {
            instruments::index_blocked(index, true);
            Parked { since: Instant::now(), why: why.clone(), waiting: VecDeque::new(), bytes: 0, sampled: 0 }
        });
        parked.bytes += weights(&open);
        parked.waiting.extend(open);
        is_new
    }

    /// Holds an operation back whose index is blocked.
    pub(super) fn push(&mut self, open: Open) {
        if let Some(parked) = self.indices.get_mut(&open.slot.operation.target().index) {
            parked.bytes += open.weight();
            parked.waiting.push_back(open);
        }
    }

    /// Something of so many bytes waits in its lane for the index.
    pub(super) fn grow(&mut self, index: &Arc<str>, bytes: usize) {
        if let Some(parked) = self.indices.get_mut(index) {
            parked.bytes += bytes;
        }
    }

    /// Something of so many bytes waits in its lane for the index no more.
    pub(super) fn shrink(&mut self, index: &Arc<str>, bytes: usize) {
        if let Some(parked) = self.indices.get_mut(index) {
            parked.bytes -= bytes;
        }
    }

    /// A sample came back, and these of it were not taken: the next ones are tried before them.
    pub(super) fn put_back(&mut self, index: &Arc<str>, open: Vec<Open>, why: &Fault) {
        if let Some(parked) = self.indices.get_mut(index) {
            why.clone_into(&mut parked.why);
            parked.bytes = parked.bytes - std::mem::take(&mut parked.sampled) + weights(&open);
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
        let sample: Vec<Open> = places.iter().rev().filter_map(|at| parked.waiting.remove(*at)).collect();
        parked.sampled = weights(&sample);
        Some((sample, parked.since))
    }

    /// An index can be written again: everything that waits for it.
    pub(super) fn release(&mut self, index: &Arc<str>) -> Vec<Open> {
        let Some(parked) = self.indices.remove(index) else { return Vec::new() };
        instruments::index_blocked(index, false);
        parked.waiting.into()
    }
}

impl Drop for ParkedIndices {
    /// Of a line that is gone nothing waits.
    fn drop(&mut self) {
        self.indices.keys().for_each(|index| instruments::index_blocked(index, false));
    }
}

fn weights(open: &[Open]) -> usize {
    open.iter().map(Open::weight).sum()
}
