//! The revisions that a block has, and which of them were seen: 33 bytes each, as they are stored.
//!
//! Never knows a document: a revision is its hash here.

use crate::codec::audit::hash::{Hash, LENGTH};
use crate::codec::audit::{Block, Proof, Revision};

/// What became of a revision that a block has. Of several copies the worst stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Seen {
    /// It is one of the ledger's own: only its hash leaves it.
    System,
    /// It was not seen.
    Not,
    /// It was seen; that its hash follows from its content was proven, or not asked.
    Whole,
    /// It was seen without the content that was removed of it; its hash follows from the hash of that.
    Redacted,
    /// It was seen, and is a deletion, whose hash cannot be checked.
    Deletion,
    /// It was seen, and is told of by a finding.
    Found,
}

impl Seen {
    const ALL: [Self; 6] = [Self::System, Self::Not, Self::Whole, Self::Redacted, Self::Deletion, Self::Found];

    /// How a revision was seen.
    pub fn of(revision: &Revision) -> Self {
        match revision.proof {
            Proof::Unasked | Proof::Holds => Self::Whole,
            Proof::Redacted => Self::Redacted,
            Proof::Deletion => Self::Deletion,
            Proof::Differs(_) | Proof::TypesLost | Proof::Unstated | Proof::Unreadable => Self::Found,
        }
    }

    /// As it was stored.
    pub fn stored(byte: u8) -> Self {
        Self::ALL.get(usize::from(byte)).copied().unwrap_or(Self::Not)
    }
}

/// What a block expects of its revisions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected(Vec<u8>);

impl Expected {
    /// What this block expects; nothing of it was seen. A hash that is none is told of by the checks, and not expected.
    pub fn of(block: &Block) -> Self {
        let mut bytes = Vec::with_capacity(block.summaries.len() * (1 + LENGTH));
        for summary in &block.summaries {
            if let Some(hash) = summary.hash.as_ref().and_then(Hash::whole) {
                bytes.push(if summary.is_document { Seen::Not } else { Seen::System } as u8);
                bytes.extend_from_slice(&hash);
            }
        }
        Self(bytes)
    }

    /// As it was stored.
    pub fn stored(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// To be stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it expects nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A revision of this hash was seen; false: it is none of this block's.
    pub fn see(&mut self, hash: &Hash, how: Seen) -> bool {
        let mut is_listed = false;
        for place in self.0.chunks_exact_mut(1 + LENGTH).filter(|place| place[1..] == *hash.as_bytes()) {
            is_listed = true;
            let before = Seen::stored(place[0]);
            if before != Seen::System {
                place[0] = before.max(how) as u8;
            }
        }
        is_listed
    }

    /// Takes over what a copy of the same block has seen.
    pub fn join(&mut self, other: &Self) {
        for place in other.0.chunks_exact(1 + LENGTH).filter(|place| place[0] > Seen::Not as u8) {
            self.see(&Hash::new(&place[1..]), Seen::stored(place[0]));
        }
    }

    /// How each was seen.
    pub fn states(&self) -> impl Iterator<Item = Seen> {
        self.0.chunks_exact(1 + LENGTH).map(|place| Seen::stored(place[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::audit::{Address, Summary};

    fn hash(byte: u8) -> Hash {
        Hash::new([byte; LENGTH])
    }

    fn expected() -> Expected {
        let summary = |byte, is_document| Summary { hash: Some(hash(byte)), is_document };
        Expected::of(&Block {
            address: Address { strand: "S".to_owned(), sequence: 0 },
            hash: None,
            entries_hash: None,
            previous: None,
            entries: None,
            info: None,
            without_revision: 0,
            summaries: vec![summary(1, true), summary(2, false), summary(3, true), Summary { hash: None, is_document: true }],
            revisions: Vec::new(),
        })
    }

    #[test]
    fn what_was_seen_is_remembered_and_the_worst_of_several_copies_stands() {
        let mut expected = expected();
        assert!(expected.see(&hash(3), Seen::Found) && expected.see(&hash(3), Seen::Whole) && !expected.see(&hash(9), Seen::Whole));
        assert!(expected.see(&hash(2), Seen::Whole));
        let stored = Expected::stored(expected.as_bytes().to_vec());
        assert_eq!(stored.states().collect::<Vec<_>>(), [Seen::Not, Seen::System, Seen::Found]);
    }

    #[test]
    fn a_copy_gives_what_it_has_seen() {
        let (mut one, mut other) = (expected(), expected());
        one.see(&hash(1), Seen::Whole);
        other.see(&hash(3), Seen::Deletion);
        one.join(&other);
        assert_eq!(one.states().collect::<Vec<_>>(), [Seen::Whole, Seen::System, Seen::Deletion]);
    }
}
