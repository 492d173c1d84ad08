//! The blocks in the order of their addresses: strands, what of them is missing, and whether each block goes on from the one before.
//!
//! Keeps the run of blocks at hand and what it tells, of which there is a limit; never a block.

use super::expected::{Expected, Seen};
use super::{Check, Finding, Verdict};
use crate::codec::audit::Address;
use crate::codec::audit::hash::Hash;

/// Some of many, and how many there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told<T> {
    /// The first of them.
    pub first: Vec<T>,
    /// How many there are in all.
    pub count: u64,
}

impl<T> Default for Told<T> {
    fn default() -> Self {
        Self { first: Vec::new(), count: 0 }
    }
}

impl<T> Told<T> {
    /// One more; it is kept where there are fewer than `limit`.
    pub fn push(&mut self, one: T, limit: Option<u32>) {
        self.count += 1;
        if limit.is_none_or(|limit| self.first.len() < limit as usize) {
            self.first.push(one);
        }
    }
}

/// A block, as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Where it is.
    pub address: Address,
    /// `blockHash`.
    pub hash: Option<Hash>,
    /// `previousBlockHash`.
    pub previous: Option<Hash>,
    /// Its revisions.
    pub expected: Expected,
}

/// One strand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strand {
    /// Its id.
    pub strand: String,
    /// The sequence number of its first block.
    pub first: u64,
    /// The sequence number of its last block.
    pub last: u64,
    /// `blockHash` of its last block.
    pub last_hash: Option<Hash>,
    /// How many blocks of it there are.
    pub blocks: u64,
    /// How many are missing between the first and the last.
    pub missing_blocks: u64,
    /// The ranges that are missing, each with both of its ends.
    pub missing: Told<(u64, u64)>,
    /// Pairs of blocks of which it was checked that the second goes on from the first.
    pub links: u64,
}

/// A block of which revisions were not seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incomplete {
    /// Where it is.
    pub address: Address,
    /// Revisions of documents that were seen.
    pub seen: u64,
    /// Revisions of documents that it has.
    pub of: u64,
}

/// How many revisions of blocks there are of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Revisions of documents that blocks have.
    pub documents: u64,
    /// Seen, and their hash follows from their content, where that was asked for.
    pub whole: u64,
    /// Seen without their content.
    pub redacted: u64,
    /// Deletions.
    pub deletions: u64,
    /// The ledger's own.
    pub system: u64,
    /// Not seen.
    pub unseen: u64,
}

/// The walk along the blocks.
#[derive(Debug)]
pub struct Walk {
    limit: Option<u32>,
    /// The strands so far.
    pub strands: Told<Strand>,
    /// Blocks of all strands.
    pub blocks: u64,
    /// Missing blocks of all strands.
    pub missing: u64,
    /// Links that were checked, of all strands.
    pub links: u64,
    /// The blocks of which revisions were not seen.
    pub incomplete: Told<Incomplete>,
    /// The revisions.
    pub tally: Tally,
    at_hand: Option<Strand>,
}

impl Walk {
    /// A walk that tells so many of each kind, or all of them.
    pub fn new(limit: Option<u32>) -> Self {
        Self {
            limit,
            strands: Told::default(),
            blocks: 0,
            missing: 0,
            links: 0,
            incomplete: Told::default(),
            tally: Tally::default(),
            at_hand: None,
        }
    }

    /// Takes the next block in the order of addresses, each address once; a finding, where it does not go on from the one before.
    pub fn step(&mut self, link: Link) -> Option<Finding> {
        self.blocks += 1;
        self.count(&link);
        let Link { address, hash, previous, .. } = link;
        if self.at_hand.as_ref().is_none_or(|strand| strand.strand != address.strand) {
            self.end();
            let Address { strand, sequence } = address;
            self.at_hand = Some(Strand { strand, first: sequence, last: sequence, last_hash: hash, blocks: 1, ..Strand::default() });
            return None;
        }
        let strand = self.at_hand.as_mut()?;
        strand.blocks += 1;
        let after = strand.last.saturating_add(1);
        let is_next = address.sequence == after;
        if !is_next {
            let missing = address.sequence.saturating_sub(after);
            strand.missing_blocks += missing;
            // Each strand has fewer than 2^63, and there may be many.
            self.missing = self.missing.saturating_add(missing);
            strand.missing.push((after, address.sequence.saturating_sub(1)), self.limit);
        }
        strand.last = address.sequence;
        let before = std::mem::replace(&mut strand.last_hash, hash).filter(|_| is_next);
        let (before, previous) = before.zip(previous)?;
        strand.links += 1;
        self.links += 1;
        (before != previous).then(|| Finding {
            expected: Some(previous),
            found: Some(before),
            ..Finding::of_block(&address, Verdict::Broken(Check::PreviousBlockHash))
        })
    }

    fn count(&mut self, link: &Link) {
        let (mut seen, mut of) = (0, 0);
        for state in link.expected.states() {
            let tally = &mut self.tally;
            match state {
                Seen::System => tally.system += 1,
                Seen::Not => tally.unseen += 1,
                Seen::Whole => tally.whole += 1,
                Seen::Redacted => tally.redacted += 1,
                Seen::Deletion => tally.deletions += 1,
                Seen::Found => {}
            }
            of += u64::from(state != Seen::System);
            seen += u64::from(!matches!(state, Seen::System | Seen::Not));
        }
        self.tally.documents += of;
        if seen < of {
            self.incomplete.push(Incomplete { address: link.address.clone(), seen, of }, self.limit);
        }
    }

    /// The last block was taken.
    pub fn end(&mut self) {
        if let Some(strand) = self.at_hand.take() {
            self.strands.push(strand, self.limit);
        }
    }
}
