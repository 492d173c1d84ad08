//! What goes into one request: cut by bytes and operations, and of several revisions of one document only the highest.
//!
//! Of several merges into one document every one is sent, in the order in which they came: each has something that the others do not have.
//! A revision that was left out is kept until its winner has an outcome: should the winner turn out to be poison, the next highest takes
//! its place, so that an index always holds the highest version that it can hold. A redaction and the put of the same version are told apart by
//! how their versions compare: the redaction goes before it whichever came first, and the put never takes the place of the redaction.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::operation::{Operation, Target};
use crate::revision::VersionType;

/// Where a batch is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Bytes of uncompressed body.
    pub bytes: usize,
    /// Operations.
    pub operations: usize,
}

/// One document of a batch: what is sent for it, and what was left out in favour of that.
#[derive(Debug)]
pub struct Slot<T> {
    /// The highest revision's operation.
    pub operation: Operation,
    /// What the caller attached to it.
    pub attached: T,
    /// Lower revisions of the same document, and equal ones that came later.
    pub superseded: Vec<(Operation, T)>,
}

/// What becomes of a slot whose operation cannot be sent.
#[derive(Debug)]
pub struct FallenBack<T> {
    /// What was attached to the operation.
    pub attached: T,
    /// What was attached to puts that it was to remove the content of: they are not sent in its place, and settled with it.
    pub covered: Vec<T>,
    /// What is sent in its place.
    pub next: Option<Slot<T>>,
}

impl<T> Slot<T> {
    /// The highest of what was left out becomes the operation.
    pub fn fall_back(self) -> FallenBack<T> {
        let Target { version, version_type, .. } = *self.operation.target();
        let is_covered = |left_out: &Target| {
            version_type == VersionType::ExternalGte && left_out.version == version && left_out.version_type == VersionType::External
        };
        let (covered, mut superseded): (Vec<_>, Vec<_>) =
            self.superseded.into_iter().partition(|(operation, _)| is_covered(operation.target()));
        let highest = (0..superseded.len())
            .reduce(|best, next| if beats(superseded[next].0.target(), superseded[best].0.target()) { next } else { best });
        let next = highest.map(|i| {
            let (operation, attached) = superseded.remove(i);
            Slot { operation, attached, superseded }
        });
        FallenBack { attached: self.attached, covered: covered.into_iter().map(|(_, attached)| attached).collect(), next }
    }
}

/// Whether a later arrival goes before what is there of its document.
fn beats(later: &Target, sent: &Target) -> bool {
    match later.version_type {
        VersionType::External => later.version > sent.version,
        VersionType::ExternalGte => later.version >= sent.version,
    }
}

/// Operations that will go out together.
#[derive(Debug)]
pub struct Batch<T> {
    slots: Vec<Slot<T>>,
    places: HashMap<(Arc<str>, String), usize>,
    bytes: usize,
}

impl<T> Default for Batch<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), places: HashMap::new(), bytes: 0 }
    }
}

impl<T> Batch<T> {
    /// Whether the batch has to go out before this operation comes in.
    pub fn is_full_for(&self, operation: &Operation, cut: Cut) -> bool {
        !self.slots.is_empty() && (self.slots.len() >= cut.operations || self.bytes + operation.size() > cut.bytes)
    }

    /// Takes an operation in, in the place of a lower one or beside a higher one of the same document. A merge stands for itself.
    pub fn push(&mut self, operation: Operation, attached: T) {
        if matches!(operation, Operation::Merge { .. }) {
            self.bytes += operation.size();
            self.slots.push(Slot { operation, attached, superseded: Vec::new() });
            return;
        }
        let target = operation.target();
        match self.places.entry((target.index.clone(), target.id.clone())) {
            Entry::Vacant(place) => {
                place.insert(self.slots.len());
                self.bytes += operation.size();
                self.slots.push(Slot { operation, attached, superseded: Vec::new() });
            }
            Entry::Occupied(place) => {
                let slot = &mut self.slots[*place.get()];
                if beats(target, slot.operation.target()) {
                    self.bytes = self.bytes - slot.operation.size() + operation.size();
                    let lower = std::mem::replace(&mut slot.operation, operation);
                    let attached = std::mem::replace(&mut slot.attached, attached);
                    slot.superseded.push((lower, attached));
                } else {
                    slot.superseded.push((operation, attached));
                }
            }
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Takes everything out.
    pub fn take(&mut self) -> Vec<Slot<T>> {
        self.places.clear();
        self.bytes = 0;
        std::mem::take(&mut self.slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision::Cells;

    fn delete(id: &str, version: u64, version_type: VersionType) -> Operation {
        Operation::Delete { target: Target { index: "i".into(), id: id.into(), version, version_type, routing: None } }
    }

    fn sent(batch: &mut Batch<u32>) -> Vec<(String, u64, u32, Vec<u32>)> {
        let slots = batch.take();
        slots
            .into_iter()
            .map(|s| {
                let target = s.operation.target();
                (target.id.clone(), target.version, s.attached, s.superseded.into_iter().map(|(_, t)| t).collect())
            })
            .collect()
    }

    #[test]
    fn of_one_document_only_the_highest_version_is_sent() {
        let mut batch = Batch::default();
        for (i, (id, version)) in [("a", 1), ("b", 5), ("a", 3), ("a", 2), ("a", 3)].into_iter().enumerate() {
            batch.push(delete(id, version, VersionType::External), i as u32);
        }
        assert_eq!(sent(&mut batch), [("a".into(), 3, 2, vec![0, 3, 4]), ("b".into(), 5, 1, vec![])]);
        assert!(batch.is_empty());
    }

    #[test]
    fn of_a_tie_the_later_arrival_is_sent_where_the_clock_can_tie() {
        let mut batch = Batch::default();
        batch.push(delete("a", 7, VersionType::ExternalGte), 0);
        batch.push(delete("a", 7, VersionType::ExternalGte), 1);
        assert_eq!(sent(&mut batch), [("a".into(), 7, 1, vec![0])]);
    }

    #[test]
    fn merges_of_one_document_are_all_sent_in_the_order_in_which_they_came() {
        let mut batch = Batch::default();
        let merge = |version| {
            let target = Target { index: "i".into(), id: "a".into(), version, version_type: VersionType::ExternalGte, routing: None };
            Operation::Merge { target, cells: Cells { erased: Some(version), columns: vec![] }.into(), time: 0 }
        };
        let size = merge(1).size();
        for (i, version) in [3, 1, 3, 2].into_iter().enumerate() {
            assert!(!batch.is_full_for(&merge(version), Cut { bytes: 4 * size, operations: 4 }));
            batch.push(merge(version), i as u32);
        }
        assert!(batch.is_full_for(&merge(1), Cut { bytes: 4 * size, operations: 9 }));
        let one = |version, attached| ("a".to_owned(), version, attached, vec![]);
        assert_eq!(sent(&mut batch), [one(3, 0), one(1, 1), one(3, 2), one(2, 3)]);
    }

    #[test]
    fn when_the_highest_cannot_be_sent_the_next_highest_is() {
        let mut batch = Batch::default();
        for (i, version) in [1, 9, 4, 4].into_iter().enumerate() {
            batch.push(delete("a", version, VersionType::External), i as u32);
        }
        let slot = batch.take().remove(0);
        let FallenBack { attached: poison, covered, next } = slot.fall_back();
        let next = next.unwrap();
        assert!(covered.is_empty());
        assert_eq!((poison, next.attached, next.operation.target().version, next.superseded.len()), (1, 2, 4, 2));
    }

    #[test]
    fn of_a_tie_below_poison_the_later_arrival_is_sent_where_the_clock_can_tie() {
        let mut batch = Batch::default();
        for (i, version) in [4, 9, 2, 4, 4].into_iter().enumerate() {
            batch.push(delete("a", version, VersionType::ExternalGte), i as u32);
        }
        let mut order = Vec::new();
        let mut slot = Some(batch.take().remove(0));
        while let Some(at_work) = slot {
            let FallenBack { attached, next, .. } = at_work.fall_back();
            order.push(attached);
            slot = next;
        }
        assert_eq!(order, [1, 4, 3, 0, 2]);
    }

    #[test]
    fn a_redaction_is_sent_before_the_put_of_its_version_whichever_came_first_and_the_put_never_in_its_place() {
        let (put, redaction) = (VersionType::External, VersionType::ExternalGte);
        for order in [[(put, 4), (redaction, 4)], [(redaction, 4), (put, 4)]] {
            let mut batch = Batch::default();
            for (i, (version_type, version)) in [(put, 9), (put, 2)].into_iter().chain(order).enumerate() {
                batch.push(delete("a", version, version_type), i as u32);
            }
            let poison = batch.take().remove(0).fall_back();
            let next = poison.next.unwrap();
            assert_eq!(next.operation.target().version_type, redaction, "{order:?}");
            let poison = next.fall_back();
            assert_eq!((poison.covered.len(), poison.next.unwrap().operation.target().version), (1, 2), "{order:?}");

            for (version_type, version) in order {
                batch.push(delete("a", version, version_type), 0);
            }
            let alone = batch.take().remove(0);
            assert_eq!((alone.operation.target().version_type, alone.superseded.len()), (redaction, 1));
            assert!(alone.fall_back().next.is_none());
        }
    }

    #[test]
    fn a_batch_is_cut_by_operations_and_by_bytes() {
        let mut batch = Batch::default();
        let operation = |id: &str| delete(id, 1, VersionType::External);
        let cut = |bytes, operations| Cut { bytes, operations };
        assert!(!batch.is_full_for(&operation("a"), cut(1, 1)), "one operation always fits into an empty batch");
        batch.push(operation("a"), 0);
        assert!(batch.is_full_for(&operation("b"), cut(1_000_000, 1)));
        let size = operation("a").size();
        assert!(batch.is_full_for(&operation("b"), cut(2 * size - 1, 10)));
        assert!(!batch.is_full_for(&operation("b"), cut(2 * size, 10)));
    }
}
