//! Which letters of a place were met on one walk through it, and which copies of them are left over.
//!
//! A queue may hold a letter twice and may show it twice, and what is refused again comes back while the walk goes on: each letter is worked
//! on once, so that a walk ends. Removes nothing itself.

use std::collections::{HashMap, HashSet};

use time::OffsetDateTime;

use super::{DeadLetter, Entry};

/// What a copy of a letter is.
#[derive(Debug, PartialEq, Eq)]
enum Met {
    /// The first of its letter.
    New,
    /// One more of a letter that was met; or the letter as it was stored anew.
    Known,
    /// One of a letter that is settled, or was replaced by a newer one: it may go.
    LeftOver,
}

/// The letters met so far, each with where its copies are.
#[derive(Debug)]
pub(super) struct Copies<H> {
    open: HashMap<String, Vec<H>>,
    settled: HashSet<String>,
    /// When a letter that was refused again was stored anew.
    anew: HashMap<String, Option<OffsetDateTime>>,
}

impl<H> Default for Copies<H> {
    fn default() -> Self {
        Self { open: HashMap::new(), settled: HashSet::new(), anew: HashMap::new() }
    }
}

impl<H> Copies<H> {
    /// Takes a copy in. Of what is left over, the handle comes back.
    fn meet(&mut self, id: &str, moment: Option<OffsetDateTime>, handle: H) -> (Met, Option<H>) {
        if self.settled.contains(id) {
            return (Met::LeftOver, Some(handle));
        }
        if let Some(anew) = self.anew.get(id) {
            return if moment < *anew { (Met::LeftOver, Some(handle)) } else { (Met::Known, None) };
        }
        let copies = self.open.entry(id.to_owned()).or_default();
        copies.push(handle);
        (if copies.len() == 1 { Met::New } else { Met::Known }, None)
    }

    /// A letter is settled: its copies may go.
    pub(super) fn settle(&mut self, id: &str) -> Vec<H> {
        self.settled.insert(id.to_owned());
        self.open.remove(id).unwrap_or_default()
    }

    /// A letter was refused again and stored anew: the copies from before may go.
    pub(super) fn replace(&mut self, id: &str, anew: Option<OffsetDateTime>) -> Vec<H> {
        self.anew.insert(id.to_owned(), anew);
        self.open.remove(id).unwrap_or_default()
    }
}

/// What is handed out of a walk at once: each letter once, with its newest reason.
#[derive(Debug, Default)]
pub(super) struct Portion {
    pub(super) entries: Vec<Entry>,
    /// Bytes of the letters' payloads.
    pub(super) bytes: usize,
    places: HashMap<String, usize>,
}

impl Portion {
    /// Takes in what is no letter.
    pub(super) fn damaged(&mut self, at: String, reason: String) {
        self.entries.push(Entry::Damaged { at, reason });
    }

    /// Takes in a letter that was found where the handle says. Of what is left over, the handle comes back.
    pub(super) fn letter<H>(&mut self, letter: DeadLetter, handle: H, copies: &mut Copies<H>) -> Option<H> {
        let (met, left_over) = copies.meet(&letter.id, letter.moment(), handle);
        match met {
            Met::New => {
                self.bytes += letter.payload.len();
                self.places.insert(letter.id.clone(), self.entries.len());
                self.entries.push(Entry::Letter(Box::new(letter)));
            }
            Met::Known => {
                // Of two copies that were met together, the one with the newest reason counts.
                if let Some(place) = self.places.get(&letter.id)
                    && let Entry::Letter(known) = &mut self.entries[*place]
                    && known.moment() < letter.moment()
                {
                    **known = letter;
                }
            }
            Met::LeftOver => {}
        }
        left_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Option<OffsetDateTime> {
        OffsetDateTime::from_unix_timestamp(second).ok()
    }

    #[test]
    fn every_copy_of_a_settled_letter_goes_whenever_it_is_met() {
        let mut copies = Copies::default();
        assert_eq!(copies.meet("a", at(1), 1), (Met::New, None));
        assert_eq!(copies.meet("a", at(2), 2), (Met::Known, None));
        assert_eq!(copies.settle("a"), [1, 2]);
        assert_eq!(copies.meet("a", at(3), 3), (Met::LeftOver, Some(3)));
        assert_eq!(copies.meet("b", at(1), 4), (Met::New, None));
    }

    #[test]
    fn of_a_letter_that_was_refused_again_only_the_newest_stays() {
        let mut copies = Copies::default();
        copies.meet("a", at(1), 1);
        assert_eq!(copies.replace("a", at(5)), [1]);
        assert_eq!(copies.meet("a", at(2), 2), (Met::LeftOver, Some(2)));
        assert_eq!(copies.meet("a", at(5), 3), (Met::Known, None));
        assert_eq!(copies.meet("a", at(6), 4), (Met::Known, None));
    }
}
