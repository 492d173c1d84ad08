//! Bytes to revisions, pure. A record of any kind goes in; units come out, each a revision, a reason to skip, or a fault.
//!
//! Never panics on any input, never allocates more than a small multiple of what it was given, never reads anything but its arguments.

pub mod ion_binary;
pub mod ion_json;
mod ion_number;
pub mod ion_symbols;
mod ion_text;
mod ion_timestamp;
pub mod kpl;
pub mod qldb;
mod revision_hash;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::metrics::{Notes, Skip};
use crate::record::{Fault, Position, Record};
use crate::revision::Revision;
use ion_json::Rules;

/// One counted unit: a revision, or a record that carries none.
#[derive(Debug, Clone, PartialEq)]
pub struct Unit {
    /// The sub-sequence number, where the record was an aggregate.
    pub sub: Option<u64>,
    /// Its place inside `payload`, from 0.
    pub index: u32,
    /// The user record that it was decoded from, complete in itself: decoding it again gives the unit again.
    pub payload: Bytes,
    /// What it is.
    pub content: Content,
}

/// What a unit is.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A change of a document.
    Revision(Revision),
    /// Nothing to write, for a reason.
    Skip(Skip),
    /// Nothing that can be used.
    Fault(Fault),
}

/// What the shell wants from decoding.
pub struct Options {
    /// The choices of a table, by its name; asked once per table.
    pub rules: Box<dyn Fn(&str) -> Rules + Send>,
    /// Whether a table's revisions carry the source's metadata, by its name; asked once per table.
    pub metadata: Box<dyn Fn(&str) -> bool + Send>,
    /// Check the hash of every QLDB revision.
    pub verify_hashes: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { rules: Box::new(|_| Rules::default()), metadata: Box::new(|_| false), verify_hashes: false }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("verify_hashes", &self.verify_hashes).finish_non_exhaustive()
    }
}

/// A table as the decoder knows it: its name, interned, and its choices.
#[derive(Debug, Clone)]
struct Table {
    name: Arc<str>,
    rules: Rules,
    metadata: bool,
}

/// Tables of which the choices are remembered. A ledger has 20 to 40; the limit holds memory when table names are damaged.
const REMEMBERED_TABLES: usize = 1_000;

/// Decodes records, one after another.
#[derive(Debug, Default)]
pub struct Decoder {
    options: Options,
    tables: HashMap<Arc<str>, Table>,
    json: Vec<u8>,
}

impl Decoder {
    /// A decoder for QLDB stream records.
    pub fn new(options: Options) -> Self {
        Self { options, ..Self::default() }
    }

    /// Decodes one record; appends at least one unit. Counts what is worth knowing in `notes`.
    pub fn decode(&mut self, record: &Record, units: &mut Vec<Unit>, notes: &mut Notes) {
        if let Some(fault) = &record.damage {
            units.push(Unit { sub: None, index: 0, payload: record.data.clone(), content: Content::Fault(fault.clone()) });
            return;
        }
        let subs = match kpl::open(&record.data) {
            kpl::Contents::Plain => return self.user_record(None, &record.data, units, notes),
            kpl::Contents::Aggregate(subs) => subs,
        };
        if subs.is_empty() {
            units.push(Unit { sub: None, index: 0, payload: record.data.clone(), content: Content::Skip(Skip::NoChange) });
        }
        for sub in subs {
            match sub.data {
                Ok(data) => self.user_record(Some(sub.sub), &data, units, notes),
                Err(fault) => units.push(Unit { sub: Some(sub.sub), index: 0, payload: sub.rest, content: Content::Fault(fault) }),
            }
        }
    }

    /// Decodes one user record: a plain record, or what an aggregate held, or a dead letter's payload.
    pub fn user_record(&mut self, sub: Option<u64>, payload: &Bytes, units: &mut Vec<Unit>, notes: &mut Notes) {
        qldb::decode(self, payload, notes, &mut |index, content| {
            units.push(Unit { sub, index, payload: payload.clone(), content });
        });
    }

    fn table(&mut self, name: &str) -> Table {
        if let Some(table) = self.tables.get(name) {
            return table.clone();
        }
        let table = Table { name: name.into(), rules: (self.options.rules)(name), metadata: (self.options.metadata)(name) };
        if self.tables.len() < REMEMBERED_TABLES {
            self.tables.insert(table.name.clone(), table.clone());
        }
        table
    }
}

/// The position of a unit: its record's, with the sub-sequence number where positions have one.
pub fn position(record: &Position, sub: Option<u64>) -> Position {
    match record {
        Position::Sequence { number, .. } if sub.is_some() => Position::Sequence { number: number.clone(), sub },
        other => other.clone(),
    }
}
