//! What a journal proves of itself: the checks of a block, of a revision, and of the chain that the blocks make.
//!
//! Works on what [`codec::audit`](crate::codec::audit) found, in whatever order and however often it came. Keeps nothing itself: what waits for its
//! other half is kept by [`store::journal`](crate::store::journal).

pub mod chain;
pub mod expected;
pub mod index;

use crate::codec::audit::hash::{Hash, dot, merkle};
use crate::codec::audit::{Address, Block, Proof, Revision};

/// One check, in the order in which a report has those of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Check {
    /// A revision's hash follows from its metadata and its data.
    RevisionHash = 1,
    /// A revision says the block and the transaction that it is found in.
    RevisionPlace,
    /// A revision's hash is one of those that its block has.
    RevisionListed,
    /// The hash of `transactionInfo` is one of `entriesHashList`.
    TransactionInfo,
    /// The Merkle root of the revisions' hashes is one of `entriesHashList`.
    Revisions,
    /// `entriesHash` is the Merkle root of `entriesHashList`.
    EntriesHash,
    /// `blockHash` follows from `entriesHash` and `previousBlockHash`.
    BlockHash,
    /// `previousBlockHash` is the `blockHash` of the block before.
    PreviousBlockHash,
    /// Every copy of a block is the same block.
    Copies,
}

impl Check {
    /// Every check, in their order.
    pub const ALL: [Self; 9] = [
        Self::RevisionHash,
        Self::RevisionPlace,
        Self::RevisionListed,
        Self::TransactionInfo,
        Self::Revisions,
        Self::EntriesHash,
        Self::BlockHash,
        Self::PreviousBlockHash,
        Self::Copies,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RevisionHash => "revision_hash",
            Self::RevisionPlace => "revision_place",
            Self::RevisionListed => "revision_listed",
            Self::TransactionInfo => "transaction_info",
            Self::Revisions => "revisions",
            Self::EntriesHash => "entries_hash",
            Self::BlockHash => "block_hash",
            Self::PreviousBlockHash => "previous_block_hash",
            Self::Copies => "copies",
        }
    }

    /// What it means that it failed.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::RevisionHash => "the revision's hash does not follow from its metadata and data: one of them was changed",
            Self::RevisionPlace => {
                "the revision says another block or another transaction than the one that it is found in, or a document that this does not name"
            }
            Self::RevisionListed => "the block has no revision of this hash: the revision was put in, or the block was changed",
            Self::TransactionInfo => {
                "the hash of transactionInfo is none of entriesHashList: a statement, its time or what it touched was changed"
            }
            Self::Revisions => "the root of the revisions' hashes is none of entriesHashList: a revision was dropped, put in or moved",
            Self::EntriesHash => "entriesHash is not the root of entriesHashList: one of them was changed",
            Self::BlockHash => "blockHash does not follow from entriesHash and previousBlockHash: one of them was changed",
            Self::PreviousBlockHash => "previousBlockHash is not the blockHash of the block before: one of the two is not of this journal",
            Self::Copies => "there are two different blocks of this address",
        }
    }
}

/// What could not be checked, and leaves something open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Open {
    /// JSON has lost the types of Ion, or the document was changed.
    TypesLost = 101,
    /// A revision states no hash.
    RevisionUnstated,
    /// A revision cannot be hashed.
    RevisionUnreadable,
    /// A block has no `transactionInfo`, and hashes of which it may be one.
    NoTransactionInfo,
    /// A block names documents of which it has no revision, and hashes of which theirs may be one.
    NoRevisions,
    /// A block states not all of its hashes.
    NoHashes,
}

impl Open {
    /// Every reason, in their order.
    pub const ALL: [Self; 6] =
        [Self::TypesLost, Self::RevisionUnstated, Self::RevisionUnreadable, Self::NoTransactionInfo, Self::NoRevisions, Self::NoHashes];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TypesLost => "types_lost",
            Self::RevisionUnstated => "revision_without_hash",
            Self::RevisionUnreadable => "revision_unreadable",
            Self::NoTransactionInfo => "no_transaction_info",
            Self::NoRevisions => "no_revisions",
            Self::NoHashes => "no_hashes",
        }
    }

    /// In words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::TypesLost => "JSON has lost the types of Ion, or the document was changed",
            Self::RevisionUnstated => "the revision states no hash",
            Self::RevisionUnreadable => "the revision cannot be hashed: it is too large, or damaged",
            Self::NoTransactionInfo => "the block has no transactionInfo: its statements cannot be checked",
            Self::NoRevisions => "the transaction names documents of which the block has no revision",
            Self::NoHashes => "the block does not state blockHash, entriesHash, previousBlockHash and entriesHashList",
        }
    }
}

/// What a check came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It failed.
    Broken(Check),
    /// It could not be made.
    Open(Open),
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The block.
    pub address: Address,
    /// What.
    pub verdict: Verdict,
    /// The revision, by its document and version, where it is one.
    pub revision: Option<(String, u64)>,
    /// The hash that is stated, where one stands against another.
    pub expected: Option<Hash>,
    /// The hash that was computed or found.
    pub found: Option<Hash>,
}

impl Finding {
    /// A finding about a block.
    pub fn of_block(address: &Address, verdict: Verdict) -> Self {
        Self { address: address.clone(), verdict, revision: None, expected: None, found: None }
    }

    /// A finding about a revision.
    pub fn of_revision(address: &Address, (id, version): (&str, u64), verdict: Verdict) -> Self {
        Self { revision: Some((id.to_owned(), version)), ..Self::of_block(address, verdict) }
    }
}

/// Checks what a block says of itself.
pub fn check_block(block: &Block, mut tell: impl FnMut(Finding)) {
    let mut broken = |check, expected: Option<&Hash>, found: Option<&Hash>| {
        let finding = Finding::of_block(&block.address, Verdict::Broken(check));
        tell(Finding { expected: expected.cloned(), found: found.cloned(), ..finding });
    };
    let mut is_accounted = true;
    if let Some(entries) = &block.entries {
        if let Some(info) = block.info.as_ref().filter(|info| !entries.contains(info)) {
            broken(Check::TransactionInfo, None, Some(info));
        }
        let root = merkle(block.summaries.iter().map(|summary| summary.hash.clone().unwrap_or_default()));
        if !block.summaries.is_empty() && !entries.contains(&root) {
            broken(Check::Revisions, None, Some(&root));
        }
        // Of what is missing here nothing was hashed, where every hash is one of what is there.
        is_accounted = entries.iter().all(|entry| *entry == Hash::default() || *entry == root || Some(entry) == block.info.as_ref());
        let root = merkle(entries.iter().cloned());
        if let Some(stated) = block.entries_hash.as_ref().filter(|stated| **stated != root) {
            broken(Check::EntriesHash, Some(stated), Some(&root));
        }
    }
    if let (Some(stated), Some(entries), Some(previous)) = (&block.hash, &block.entries_hash, &block.previous) {
        let computed = dot(entries, previous);
        if computed != *stated {
            broken(Check::BlockHash, Some(stated), Some(&computed));
        }
    }
    let mut open = |open| tell(Finding::of_block(&block.address, Verdict::Open(open)));
    if block.info.is_none() && !is_accounted {
        open(Open::NoTransactionInfo);
    }
    // One root stands for many sets of revisions: that it is right says nothing of a document that is in none of them.
    if block.without_revision > 0 && !(block.summaries.is_empty() && is_accounted) {
        open(Open::NoRevisions);
    }
    if [&block.hash, &block.entries_hash, &block.previous].iter().any(|hash| hash.is_none()) || block.entries.is_none() {
        open(Open::NoHashes);
    }
}

/// Checks without a hash whether a block has a revision of each document that its transaction names.
pub fn check_presence(block: &Block, mut tell: impl FnMut(Finding)) {
    // One hash is that of transactionInfo: there were no revisions to be hashed.
    let hashes = block.entries.iter().flatten().filter(|entry| **entry != Hash::default()).count();
    if block.without_revision > 0 && !(block.summaries.is_empty() && hashes == 1) {
        tell(Finding::of_block(&block.address, Verdict::Open(Open::NoRevisions)));
    }
}

/// Checks what a revision says of itself.
pub fn check_revision(revision: &Revision, mut tell: impl FnMut(Finding)) {
    let of = |verdict| Finding::of_revision(&revision.address, (&revision.id, revision.version), verdict);
    match &revision.proof {
        Proof::Unasked | Proof::Holds | Proof::Redacted | Proof::Deletion => {}
        Proof::Differs(computed) => {
            let finding = of(Verdict::Broken(Check::RevisionHash));
            tell(Finding { expected: revision.hash.clone(), found: Some(computed.clone()), ..finding });
        }
        Proof::TypesLost => tell(of(Verdict::Open(Open::TypesLost))),
        Proof::Unstated => tell(of(Verdict::Open(Open::RevisionUnstated))),
        Proof::Unreadable => tell(of(Verdict::Open(Open::RevisionUnreadable))),
    }
    if revision.is_elsewhere {
        tell(of(Verdict::Broken(Check::RevisionPlace)));
    }
}

#[cfg(test)]
mod tests;
