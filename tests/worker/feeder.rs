//! What is written to a stream while workers come and go: revisions of some documents, late, twice and out of order, through splits and merges.

use std::collections::BTreeMap;

use crate::command::revision;
use crate::dice::Dice;
use crate::kinesis::{Listed, Stream};

/// The newest of each document: its version, and its text where it is not deleted.
pub(crate) type Fold = BTreeMap<String, (u64, Option<String>)>;

/// Writes to a stream, and remembers what the index has to come to.
pub(crate) struct Feeder<'a> {
    stream: &'a Stream,
    dice: Dice,
    documents: usize,
    next: BTreeMap<usize, u64>,
    written: Vec<Vec<u8>>,
    pub(crate) fold: Fold,
}

impl<'a> Feeder<'a> {
    pub(crate) fn new(stream: &'a Stream, seed: u64, documents: usize) -> Self {
        Self { stream, dice: Dice::new(seed), documents, next: BTreeMap::new(), written: Vec::new(), fold: Fold::new() }
    }

    /// Writes so many revisions, some of them twice, some late.
    pub(crate) fn write(&mut self, revisions: usize) {
        let mut records = Vec::new();
        for _ in 0..revisions {
            let document = self.dice.below(self.documents);
            let version = self.next.entry(document).or_default();
            let (id, is_put) = (format!("d{document}"), self.dice.percent(85));
            let text = format!("{id} at {version}");
            let data = is_put.then(|| format!("{{text:\"{text}\"}}"));
            records.push(revision("Note", &id, *version, data.as_deref()).into_bytes());
            // Versions of one document are written in their order here; the stream may turn them round below.
            self.fold.insert(id, (*version, is_put.then_some(text)));
            *version += 1;
        }
        self.written.extend(records.iter().cloned());
        for _ in 0..revisions / 5 {
            let again = self.dice.pick(&self.written).clone();
            records.push(again);
        }
        self.dice.shuffle(&mut records);
        let open = self.stream.open();
        let mut by_shard: BTreeMap<String, (Listed, Vec<Vec<u8>>)> = BTreeMap::new();
        for record in records {
            let shard = self.dice.pick(&open);
            by_shard.entry(shard.id.clone()).or_insert_with(|| (shard.clone(), Vec::new())).1.push(record);
        }
        for (shard, records) in by_shard.values() {
            self.stream.put_all(shard, records);
        }
    }

    /// Splits a shard, or merges two.
    pub(crate) fn reshard(&mut self) {
        let open = self.stream.open();
        let pairs: Vec<(&Listed, &Listed)> = open
            .iter()
            .flat_map(|left| open.iter().map(move |right| (left, right)))
            .filter(|(left, right)| left.is_left_of(right))
            .collect();
        if open.len() < 4 && (pairs.is_empty() || self.dice.percent(60)) {
            self.stream.split(self.dice.pick(&open));
        } else {
            let (left, right) = *self.dice.pick(&pairs);
            self.stream.merge(left, right);
        }
    }

    pub(crate) fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }
}
