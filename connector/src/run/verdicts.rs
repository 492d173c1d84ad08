//! The replies to one request, sorted by what has to be done with each operation.
//!
//! What a reply means is [`judge`]'s decision; nothing is sent or told here.

use std::collections::HashMap;
use std::sync::Arc;

use super::letters::Claim;
use super::part::Open;
use super::shared::End;
use crate::plan::batch::Slot;
use crate::plan::outcome::{Class, Outcome, Reply, judge};
use crate::plan::retry::{concerns_the_index, policy};
use crate::record::Fault;

/// What has to be done with an operation.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It came to its end.
    Settled(End),
    /// The index refuses it, for good as far as it says.
    Refused(Fault),
    /// It is sent again.
    Again(Class, Fault),
}

/// What becomes of each operation of a request, in the order of the replies, of which there are as many.
pub(super) fn verdicts(open: Vec<Open>, replies: &[Reply]) -> Vec<(Open, Verdict)> {
    let verdict = |(mut open, reply): (Open, &Reply)| {
        let verdict = match judge(&open.slot.operation, reply) {
            Outcome::Indexed => Verdict::Settled(End::Indexed),
            Outcome::Deleted => Verdict::Settled(End::Deleted),
            Outcome::Stale => Verdict::Settled(End::Stale),
            Outcome::Absent => Verdict::Settled(End::Absent),
            Outcome::Rejected(fault) => Verdict::Refused(fault),
            Outcome::Retry(class, fault) => {
                open.unknown += u32::from(class == Class::Unknown);
                match policy(class).tries {
                    Some(tries) if open.unknown >= tries => Verdict::Refused(fault),
                    _ => Verdict::Again(class, fault),
                }
            }
        };
        (open, verdict)
    };
    open.into_iter().zip(replies).map(verdict).collect()
}

/// Operations with one class of trouble, and the reason of the first of them.
pub(super) type Group = (Class, Fault, Vec<Open>);

/// The operations of a request, by what is to be done with them.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// They came to their end.
    pub(super) settled: Vec<(Slot<Claim>, End)>,
    /// They become dead letters.
    pub(super) refused: Vec<(Open, Fault)>,
    /// They are sent again, by class.
    pub(super) again: Vec<Group>,
    /// They wait for their index, by index and class.
    pub(super) of_index: Vec<(Arc<str>, Group)>,
}

impl Groups {
    pub(super) fn of(verdicts: Vec<(Open, Verdict)>) -> Self {
        let mut groups = Self::default();
        for (open, verdict) in verdicts {
            match verdict {
                Verdict::Settled(end) => groups.settled.push((open.slot, end)),
                Verdict::Refused(fault) => groups.refused.push((open, fault)),
                Verdict::Again(class, fault) if concerns_the_index(class) => {
                    let index = open.slot.operation.target().index.clone();
                    match groups.of_index.iter_mut().find(|(have, (same, ..))| *have == index && *same == class) {
                        Some((_, (.., others))) => others.push(open),
                        None => groups.of_index.push((index, (class, fault, vec![open]))),
                    }
                }
                Verdict::Again(class, fault) => match groups.again.iter_mut().find(|(same, ..)| *same == class) {
                    Some((.., others)) => others.push(open),
                    None => groups.again.push((class, fault, vec![open])),
                },
            }
        }
        groups
    }

    /// Whether the sink asked for less.
    pub(super) fn are_throttled(&self) -> bool {
        self.again.iter().any(|(class, ..)| *class == Class::Throttled)
    }
}

/// The operations of each index.
pub(super) fn by_index(open: Vec<Open>) -> HashMap<Arc<str>, Vec<Open>> {
    let mut of_index: HashMap<Arc<str>, Vec<Open>> = HashMap::new();
    for open in open {
        of_index.entry(open.slot.operation.target().index.clone()).or_default().push(open);
    }
    of_index
}
