//! Which positions are settled, and how far a checkpoint may move: the settled prefix of every shard, and never past it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::record::{Origin, Position};

/// A claim on one record: as many settlements close it as it has units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    shard: usize,
    number: u64,
}

#[derive(Debug)]
struct Entry {
    position: Position,
    arrived: Option<u64>,
    bytes: usize,
    open: usize,
}

#[derive(Debug)]
struct Shard {
    origin: Arc<Origin>,
    /// The number of the first entry.
    first: u64,
    entries: VecDeque<Entry>,
    checkpoint: Option<Settled>,
    /// Whether the checkpoint moved since that was asked last.
    moved: bool,
}

/// The last of a shard's records up to which everything is settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// Its position.
    pub position: Position,
    /// When it arrived, in milliseconds since 1970, where the source says so.
    pub arrived: Option<u64>,
}

/// Bytes that an entry takes itself, a sequence number in it included. Held until the entry goes, which may be long after its record was settled:
/// one record that stays open must not let everything behind it pile up.
pub const ENTRY: usize = 128;

/// The open and settled records of all shards.
#[derive(Debug, Default)]
pub struct Ledger {
    shards: Vec<Shard>,
    /// Shards that were forgotten: the next one takes the place.
    free: Vec<usize>,
    by_origin: HashMap<Arc<Origin>, usize>,
    held: usize,
}

impl Ledger {
    /// Enters the next record of a shard, which holds `bytes` of memory until it is settled. Records of a shard come in their order; `arrived`
    /// is when, in milliseconds since 1970.
    pub fn enter(&mut self, origin: &Arc<Origin>, position: Position, arrived: Option<u64>, bytes: usize) -> Ticket {
        let shard = self.shard(origin);
        let entries = &mut self.shards[shard];
        let number = entries.first + entries.entries.len() as u64;
        // One more than its units, so that it cannot close before all of them are known.
        entries.entries.push_back(Entry { position, arrived, bytes, open: 1 });
        self.held += bytes + ENTRY;
        Ticket { shard, number }
    }

    fn shard(&mut self, origin: &Arc<Origin>) -> usize {
        if let Some(shard) = self.by_origin.get(origin) {
            return *shard;
        }
        let shard = Shard { origin: origin.clone(), first: 0, entries: VecDeque::new(), checkpoint: None, moved: false };
        let place = match self.free.pop() {
            Some(place) => {
                // Tickets of the shard that was here before mean nothing any more.
                let first = self.shards[place].first;
                self.shards[place] = Shard { first, ..shard };
                place
            }
            None => {
                self.shards.push(shard);
                self.shards.len() - 1
            }
        };
        self.by_origin.insert(origin.clone(), place);
        place
    }

    /// Forgets a shard, and what of it is not settled: whatever is settled of it later moves nothing.
    pub fn forget(&mut self, origin: &Origin) {
        let Some(place) = self.by_origin.remove(origin) else { return };
        let shard = &mut self.shards[place];
        self.held -= shard.entries.iter().map(|entry| entry.bytes + ENTRY).sum::<usize>();
        shard.first += shard.entries.len() as u64;
        shard.entries = VecDeque::new();
        shard.moved = false;
        self.free.push(place);
    }

    /// Adds a unit to a record that is not closed yet.
    pub fn add_unit(&mut self, ticket: Ticket) {
        if let Some(entry) = self.entry(ticket) {
            entry.open += 1;
        }
    }

    /// The record holds `bytes` more, until it is settled.
    pub fn grow(&mut self, ticket: Ticket, bytes: usize) {
        if let Some(entry) = self.entry(ticket).filter(|entry| entry.open > 0) {
            entry.bytes += bytes;
            self.held += bytes;
        }
    }

    /// All units of the record are known.
    pub fn close(&mut self, ticket: Ticket) {
        self.settle(ticket);
    }

    /// One unit of the record is settled.
    pub fn settle(&mut self, ticket: Ticket) {
        let Some(entry) = self.entry(ticket).filter(|entry| entry.open > 0) else { return };
        entry.open -= 1;
        if entry.open == 0 {
            let bytes = std::mem::take(&mut entry.bytes);
            self.held -= bytes;
            let shard = &mut self.shards[ticket.shard];
            while let Some(entry) = shard.entries.pop_front_if(|entry| entry.open == 0) {
                shard.first += 1;
                self.held -= ENTRY;
                shard.checkpoint = Some(Settled { position: entry.position, arrived: entry.arrived });
                shard.moved = true;
            }
        }
    }

    fn entry(&mut self, ticket: Ticket) -> Option<&mut Entry> {
        let shard = self.shards.get_mut(ticket.shard)?;
        let at = ticket.number.checked_sub(shard.first)?;
        shard.entries.get_mut(usize::try_from(at).ok()?)
    }

    /// Whether this one record is settled.
    pub fn is_settled_at(&self, ticket: Ticket) -> bool {
        self.shards.get(ticket.shard).is_some_and(|shard| {
            let entry = ticket.number.checked_sub(shard.first).and_then(|at| shard.entries.get(usize::try_from(at).ok()?));
            entry.is_none_or(|entry| entry.open == 0)
        })
    }

    /// Bytes of all records that are not settled, and [`ENTRY`] for each record from the first of its shard that is not settled on.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Whether every record is settled.
    pub fn is_settled(&self) -> bool {
        self.shards.iter().all(|shard| shard.entries.is_empty())
    }

    /// The last position of a shard up to which everything is settled.
    pub fn checkpoint(&self, origin: &Origin) -> Option<&Position> {
        let settled = self.shards[*self.by_origin.get(origin)?].checkpoint.as_ref()?;
        Some(&settled.position)
    }

    /// The shards whose checkpoint moved since this was asked last.
    pub fn take_moved(&mut self) -> impl Iterator<Item = (&Arc<Origin>, &Settled)> {
        let moved = self.shards.iter_mut().filter_map(|shard| std::mem::take(&mut shard.moved).then_some(&*shard));
        moved.filter_map(|shard| Some((&shard.origin, shard.checkpoint.as_ref()?)))
    }

    /// Whether every record of a shard is settled.
    pub fn is_settled_of(&self, origin: &Origin) -> bool {
        self.by_origin.get(origin).is_none_or(|place| self.shards[*place].entries.is_empty())
    }

    /// Of each shard with a record that is not settled: how many there are from the first such on, and when that one arrived.
    pub fn open(&self) -> impl Iterator<Item = (&Arc<Origin>, usize, Option<u64>)> {
        self.shards.iter().filter_map(|shard| Some((&shard.origin, shard.entries.len(), shard.entries.front()?.arrived)))
    }

    /// The first position of each shard that is not settled.
    pub fn first_unsettled(&self) -> impl Iterator<Item = (&Origin, &Position)> {
        self.shards.iter().filter_map(|shard| Some((&*shard.origin, &shard.entries.front()?.position)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn origin(shard: &str) -> Arc<Origin> {
        Arc::new(Origin { stream: "s".into(), shard: shard.into() })
    }

    fn at(offset: u64) -> Position {
        Position::Byte { offset }
    }

    #[test]
    fn a_checkpoint_stops_before_the_first_record_that_is_not_settled() {
        let (mut ledger, a) = (Ledger::default(), origin("a"));
        let tickets: Vec<_> = (0..3).map(|i| ledger.enter(&a, at(i), None, 10)).collect();
        ledger.close(tickets[1]);
        assert_eq!((ledger.checkpoint(&a), ledger.held()), (None, 20 + 3 * ENTRY));
        ledger.close(tickets[0]);
        assert_eq!(ledger.checkpoint(&a), Some(&at(1)));
        assert_eq!(ledger.first_unsettled().collect::<Vec<_>>(), [(&*a, &at(2))]);
    }

    #[test]
    fn a_record_is_settled_when_all_its_units_are() {
        let (mut ledger, a) = (Ledger::default(), origin("a"));
        let ticket = ledger.enter(&a, at(0), None, 10);
        ledger.add_unit(ticket);
        ledger.add_unit(ticket);
        ledger.settle(ticket);
        ledger.close(ticket);
        assert!(!ledger.is_settled());
        ledger.settle(ticket);
        assert!(ledger.is_settled());
    }

    #[test]
    fn a_record_that_is_settled_holds_nothing_more_whatever_comes_late() {
        let (mut ledger, a) = (Ledger::default(), origin("a"));
        let first = ledger.enter(&a, at(0), None, 10);
        let second = ledger.enter(&a, at(1), None, 10);
        ledger.close(second);
        ledger.grow(second, 100);
        ledger.settle(second);
        assert_eq!(ledger.held(), 10 + 2 * ENTRY);
        ledger.close(first);
        assert_eq!(ledger.held(), 0);
    }

    #[test]
    fn shards_do_not_wait_for_each_other() {
        let (mut ledger, a, b) = (Ledger::default(), origin("a"), origin("b"));
        ledger.enter(&a, at(0), None, 1);
        let ticket = ledger.enter(&b, at(7), None, 1);
        ledger.close(ticket);
        assert_eq!((ledger.checkpoint(&a), ledger.checkpoint(&b)), (None, Some(&at(7))));
    }

    #[test]
    fn a_shard_that_is_forgotten_holds_nothing_and_what_comes_of_it_late_moves_nothing() {
        let (mut ledger, a, b) = (Ledger::default(), origin("a"), origin("b"));
        let late = ledger.enter(&a, at(0), None, 10);
        ledger.forget(&a);
        assert_eq!((ledger.held(), ledger.is_settled_of(&a)), (0, true));
        let ticket = ledger.enter(&b, at(7), Some(70), 5);
        ledger.settle(late);
        assert!(ledger.is_settled_at(late) && !ledger.is_settled_of(&b));
        assert_eq!(ledger.open().collect::<Vec<_>>(), [(&b, 1, Some(70))]);
        ledger.close(ticket);
        assert_eq!(ledger.take_moved().collect::<Vec<_>>(), [(&b, &Settled { position: at(7), arrived: Some(70) })]);
        assert_eq!((ledger.take_moved().count(), ledger.held(), ledger.checkpoint(&a)), (0, 0, None));
    }

    proptest! {
        #[test]
        fn a_checkpoint_is_always_the_settled_prefix(units in prop::collection::vec(1usize..4, 1..40), seed in any::<u64>()) {
            let (mut ledger, a) = (Ledger::default(), origin("a"));
            let mut open = Vec::new();
            for (i, n) in units.iter().enumerate() {
                let ticket = ledger.enter(&a, at(i as u64), None, 1);
                for _ in 0..*n {
                    ledger.add_unit(ticket);
                    open.push((i, ticket));
                }
                ledger.close(ticket);
            }
            let mut left = units;
            let mut state = seed | 1;
            while !open.is_empty() {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let (i, ticket) = open.swap_remove((state >> 33) as usize % open.len());
                ledger.settle(ticket);
                left[i] -= 1;
                let prefix = left.iter().take_while(|n| **n == 0).count();
                prop_assert_eq!(ledger.checkpoint(&a).cloned(), prefix.checked_sub(1).map(|p| at(p as u64)));
                prop_assert_eq!(ledger.held(), left.iter().filter(|n| **n > 0).count() + (left.len() - prefix) * ENTRY);
            }
            prop_assert!(ledger.is_settled());
        }
    }
}
