//! The fold of a stream: which revision of a document stands, what an index should hold of it, and what is wrong with what it holds.
//!
//! The revision of the highest version stands. Of one version, the later arrival stands where the source's clock can tie, and the first where it
//! cannot, because the two are the same; a redaction stands before a put. Everything else is [`judge`], one table for every index:
//!
//! | the stream says | nothing held | tombstone held | document held |
//! |---|---|---|---|
//! | document at v | missing | missing, above v ahead | below v stale, at v equal (other content: stale), above v ahead |
//! | deleted at v | equal | below v stale, at v equal, above v ahead | up to v resurrected, above v ahead |
//! | deleted at v, with a tombstone | missing | as above | as above |
//! | redacted at v, which is the newest | equal | equal, above v ahead | above v ahead, below it by the newest revision that is not redacted |
//! | redacted at v, and the rule erases | as deleted at v | as deleted at v | as deleted at v |
//! | something that does not count | equal | equal | equal |
//! | no such id | | equal | foreign |
//!
//! A document that is held at a version that was redacted is `redacted_present`, wherever it would stand in this table; in a history, where each
//! revision is a document of its own, one that still has its content. One that has it no more, of which the stream still has it, is ahead. A tombstone may outlive the
//! records of its document, and so is nowhere foreign. What is ahead was written by something else, or from records that the stream has no more:
//! nothing here knows better, and nothing mends it. What mends the others never writes over anything newer. Decides, and knows no index and no
//! time.
//!
//! A row of cells has a version in each cell, and is judged in [`rows`].

pub mod rows;

use crate::revision::VersionType;

/// What one revision says of its document, by the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// This is how it is now.
    Is(State),
    /// The content of this version is gone.
    Redacted,
    /// The content of this version is gone, and what was there up to it goes with it, so that this is how the document is now.
    Erased(State),
    /// Nothing that counts: what a rule keeps from the index, or what can never be written. The id is known by it.
    Nothing,
}

/// What a revision makes of its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// A document.
    Document,
    /// No document, and nothing in its place.
    Deleted,
    /// A tombstone.
    Tombstone,
    /// A document of a history that says that its content was removed.
    Redacted,
}

/// A revision that stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newest {
    /// Its version.
    pub version: u64,
    /// What it makes of the document.
    pub state: State,
}

/// What a stream says of a document. The default is that its id is known, and nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Folded {
    /// The revision that stands, of those that were not redacted.
    pub newest: Option<Newest>,
    /// The versions that were redacted, in their order.
    pub redacted: Vec<u64>,
}

/// What of a stream that is reduced to its newest revisions is done with one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sifted {
    /// It is sent.
    Stands,
    /// Another one of its document is sent in its place.
    Superseded,
    /// Its content is gone.
    Redacted,
}

impl Folded {
    /// Whether a revision is one that has to be sent, for the document to come to what it would come to with all of them. `stood`: it is the one that
    /// stood last, of those of its version. What the fold knows nothing newer of is sent, also where the newest was redacted and only that is known.
    pub fn sift(&self, state: State, version: u64, stood: bool) -> Sifted {
        match self.newest {
            Some(newest) if version < newest.version || version == newest.version && !stood => Sifted::Superseded,
            _ if state == State::Document && self.is_redacted(version) => Sifted::Redacted,
            _ => Sifted::Stands,
        }
    }

    /// Takes a revision in. Whether it is the one that stands now.
    pub fn take(&mut self, said: Said, version: u64, version_type: VersionType) -> bool {
        match said {
            Said::Nothing => false,
            Said::Redacted => {
                self.redact(version);
                // What stood before it is not known any more; a delete has no content to redact.
                self.newest = self.newest.filter(|newest| newest.version != version || newest.state != State::Document);
                false
            }
            Said::Erased(state) => {
                self.redact(version);
                let stands = self.newest.is_none_or(|newest| newest.version <= version);
                if stands {
                    self.newest = Some(Newest { version, state });
                }
                stands
            }
            Said::Is(State::Document) if self.is_redacted(version) => false,
            Said::Is(state) => {
                let stands = self.newest.is_none_or(|newest| match version_type {
                    VersionType::External => newest.version < version,
                    VersionType::ExternalGte => newest.version <= version,
                });
                if stands {
                    self.newest = Some(Newest { version, state });
                }
                stands
            }
        }
    }

    /// The highest version that the stream has of the document and that counts.
    pub fn version(&self) -> Option<u64> {
        self.newest.map(|newest| newest.version).max(self.redacted.last().copied())
    }

    fn redact(&mut self, version: u64) {
        if let Err(place) = self.redacted.binary_search(&version) {
            self.redacted.insert(place, version);
        }
    }

    fn is_redacted(&self, version: u64) -> bool {
        self.redacted.binary_search(&version).is_ok()
    }
}

/// What an index holds under an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Its version.
    pub version: u64,
    /// Whether it is a tombstone.
    pub is_tombstone: bool,
    /// Whether its content is another than that of the revision that stands; false where that was not compared.
    pub is_other: bool,
    /// Whether it is a document of a history that says that its content was removed, or a tombstone where redactions leave one; false where that was not
    /// looked at.
    pub is_redacted: bool,
}

/// What is wrong with what is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The stream has it, and the index does not.
    Missing,
    /// The index holds something older, or other content at the same version.
    Stale,
    /// The stream deleted it, and the index holds it.
    Resurrected,
    /// The stream knows no such id.
    Foreign,
    /// The index holds a higher version than the stream has.
    Ahead,
    /// The index holds content that was redacted.
    RedactedPresent,
}

impl Class {
    /// Every class, in the order of reports.
    pub const ALL: [Self; 6] = [Self::Missing, Self::Stale, Self::Resurrected, Self::Foreign, Self::Ahead, Self::RedactedPresent];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Stale => "stale",
            Self::Resurrected => "resurrected",
            Self::Foreign => "foreign",
            Self::Ahead => "ahead",
            Self::RedactedPresent => "redacted_present",
        }
    }
}

/// What mends a difference, under `external_gte`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mend {
    /// The revision that stands is sent again.
    Newest,
    /// The document is deleted at this version.
    Erase(u64),
    /// The document is deleted at this version, and what stands is sent again: to write it where it is would change nothing.
    Anew(u64),
    /// Nothing: what is held may be right.
    Nothing,
}

/// Judges what is held under an id by what the stream says of it; `None` for a document that is as it should be.
pub fn judge(folded: Option<&Folded>, held: Option<Held>) -> Option<(Class, Mend)> {
    let Some(folded) = folded else {
        return held.filter(|held| !held.is_tombstone).map(|held| (Class::Foreign, Mend::Erase(held.version)));
    };
    let version = folded.version()?;
    let Some(held) = held else {
        return folded.newest.filter(|newest| newest.version == version && newest.state != State::Deleted).map(|_| MISSING);
    };
    if held.version > version {
        return Some((Class::Ahead, Mend::Nothing));
    }
    let newest = folded.newest.filter(|newest| newest.version >= held.version);
    if !held.is_tombstone && folded.is_redacted(held.version) {
        return Some((Class::RedactedPresent, newest.map_or(Mend::Erase(version), |_| Mend::Newest)));
    }
    // A redaction that is the newest says nothing of how the document is now: neither that it is gone, nor that it is there.
    let is_told = folded.newest.is_some_and(|newest| newest.version == version);
    if held.is_tombstone && !is_told && folded.redacted.last() == Some(&version) {
        return None;
    }
    let newest = newest?;
    match newest.state {
        // It was erased after the stream that is read here, and must not come back: a delete has a version of its own.
        State::Document if held.is_tombstone && held.is_redacted && held.version == newest.version => Some((Class::Ahead, Mend::Nothing)),
        State::Document | State::Redacted if held.is_tombstone => Some(MISSING),
        State::Redacted if held.version == newest.version && !held.is_redacted => Some((Class::RedactedPresent, Mend::Newest)),
        // It was redacted after the stream that is read here, and must not come back.
        State::Document if held.version == newest.version && held.is_redacted && held.is_other => Some((Class::Ahead, Mend::Nothing)),
        State::Document | State::Redacted => (held.version < newest.version || held.is_other).then_some((Class::Stale, Mend::Newest)),
        State::Deleted | State::Tombstone if held.is_tombstone => (held.version < newest.version).then_some((Class::Stale, Mend::Newest)),
        State::Deleted | State::Tombstone => Some((Class::Resurrected, Mend::Newest)),
    }
}

const MISSING: (Class, Mend) = (Class::Missing, Mend::Newest);

#[cfg(test)]
mod tests;
