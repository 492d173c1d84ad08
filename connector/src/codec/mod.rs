//! Bytes to revisions, pure. A record of any kind goes in; units come out, each a revision, a block of a journal, a reason to skip, or a fault.
//!
//! Never panics on any input, never reads anything but its arguments. Never holds more than one unit at a time of a record, and beside a document
//! of at most [`DOCUMENT_LIMIT`](ion_json::DOCUMENT_LIMIT) bytes no more than some MiB, whatever the record: what a record may define or repeat is
//! limited ([`MAX_SYMBOLS`](ion_symbols::MAX_SYMBOLS), [`MAX_FIELDS`](ion_json::MAX_FIELDS), [`MAX_FAULTS`], and for Ion text
//! [`MAX_TEXT_VALUES`](ion_text::MAX_TEXT_VALUES)) far above what any producer writes. What is beyond is a fault that says so.

pub mod audit;
mod choices;
mod column;
mod debezium;
pub mod export;
pub mod ion_binary;
mod ion_encode;
pub mod ion_json;
mod ion_number;
pub mod ion_symbols;
pub mod ion_text;
mod ion_timestamp;
mod json;
pub(crate) mod json_cursor;
mod json_fields;
mod json_write;
pub mod kpl;
mod lindorm;
pub mod qldb;
mod recognise;
mod repeated_tables;
mod revision_hash;
mod row_key;
mod surrogates;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::Error;
use crate::metrics::{Notes, Skip};
use crate::record::{Fault, Message, Position, Record};
use crate::revision::{Block, Revision};
pub use choices::{ColumnType, Format, Journal, Metadata, Rows, TableOptions, Versions};
use kpl::{Contents, SubRecord};
use repeated_tables::RepeatedTables;

/// One counted unit: a revision, a block, or a record that carries none.
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
    /// A block of the journal; only where blocks are wanted.
    Block(Block),
    /// Nothing to write, for a reason.
    Skip(Skip),
    /// Nothing that can be used.
    Fault(Fault),
    /// Nothing of this kind may be used before a person has said how: going on would make a dead letter of every record.
    Refused(Error),
}

/// What the shell wants from decoding.
pub struct Options {
    /// What the records hold.
    pub format: Format,
    /// What may be taken for a version.
    pub versions: Versions,
    /// The choices of a table, by its name; asked once per table.
    pub table: Box<dyn Fn(&str) -> TableOptions + Send>,
    /// What is wanted of the journal's blocks; `None`: they are skipped.
    pub journal: Option<Journal>,
    /// Check the hash of every QLDB revision.
    pub verify_hashes: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            format: Format::default(),
            versions: Versions::default(),
            table: Box::new(|_| TableOptions::default()),
            journal: None,
            verify_hashes: false,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { format, versions, journal, verify_hashes, .. } = self;
        f.debug_struct("Options")
            .field("format", format)
            .field("versions", versions)
            .field("journal", journal)
            .field("verify_hashes", verify_hashes)
            .finish_non_exhaustive()
    }
}

/// A table as the decoder knows it: its name, interned, and its choices.
#[derive(Debug, Clone)]
struct Table {
    name: Arc<str>,
    options: Arc<TableOptions>,
}

/// Tables of which the choices are remembered. A ledger has 20 to 40; the limit holds memory when table names are damaged.
const REMEMBERED_TABLES: usize = 1_000;

/// Faults of one record, before what is left of it becomes one more. A byte can be a value that is none, and each fault is a dead letter.
pub const MAX_FAULTS: usize = 1_000;

/// The kind of the fault that stands for those of a record that are more than become dead letters of their own.
pub const TOO_MANY_FAULTS: &str = "too_many_faults";

/// Bytes that the dead letters of one record may repeat of it before what is left becomes one more: each holds its whole user record.
const MAX_FAULT_BYTES: usize = 64 << 20;

/// Decodes records, one after another.
#[derive(Debug, Default)]
pub struct Decoder {
    options: Options,
    tables: HashMap<Arc<str>, Table>,
    repeated_tables: RepeatedTables,
    json: Vec<u8>,
    faults: Faults,
}

/// The faults of a record so far.
#[derive(Debug, Default)]
struct Faults {
    count: usize,
    bytes: usize,
}

impl Faults {
    fn are_too_many(&self) -> bool {
        self.count >= MAX_FAULTS || self.bytes >= MAX_FAULT_BYTES
    }

    fn rest(&self) -> Fault {
        let reason = format!(
            "expected records of a stream, found {} values in one record that are none, more than become dead letters of their own; what \
             follows them was not read",
            self.count
        );
        Fault::new(TOO_MANY_FAULTS, reason)
    }

    fn rest_of_block(&self) -> Fault {
        let reason = format!(
            "expected the revisions of a block, found {} values in one record that are none, more than become dead letters of their own; this one \
             stands for all that follow them",
            self.count
        );
        Fault::new(TOO_MANY_FAULTS, reason)
    }
}

/// A plain record, or what an aggregate held, or a dead letter's payload.
#[derive(Debug)]
pub struct UserRecord {
    /// The sub-sequence number, where the record was an aggregate.
    pub sub: Option<u64>,
    /// Its bytes, complete in themselves: decoding them again gives its units again.
    pub payload: Bytes,
    /// What it has beside them, where it is a message of Kafka.
    pub message: Option<Arc<Message>>,
    /// What it holds; [`Format::Auto`] where that could not be told.
    pub format: Format,
    /// What it is, where that is known without reading it.
    known: Option<Content>,
}

impl UserRecord {
    /// One that cannot be read for this reason, whatever it holds.
    pub fn unreadable(payload: Bytes, message: Option<Arc<Message>>, fault: Fault) -> Self {
        Self { sub: None, payload, message, format: Format::Auto, known: Some(Content::Fault(fault)) }
    }
}

/// The user records of a record, one after another. The default is that there are none.
#[derive(Debug, Default)]
pub struct UserRecords {
    /// The record where it is one by itself.
    single: Option<UserRecord>,
    aggregate: Option<kpl::Aggregate>,
}

impl From<UserRecord> for UserRecords {
    fn from(single: UserRecord) -> Self {
        Self { single: Some(single), aggregate: None }
    }
}

impl UserRecords {
    /// The next one; its units are decoded before the one behind it is asked for.
    pub fn next(&mut self, decoder: &Decoder) -> Option<UserRecord> {
        if let Some(single) = self.single.take() {
            return Some(single);
        }
        let aggregate = self.aggregate.as_mut()?;
        let before = aggregate.rest();
        let SubRecord { sub, data, rest } = aggregate.next()?;
        if decoder.faults.are_too_many() {
            self.aggregate = None;
            let rest = UserRecord::unreadable(before, None, decoder.faults.rest());
            return Some(UserRecord { sub: Some(sub), ..rest });
        }
        let user_record = match data {
            Ok(payload) => decoder.user_record(payload, None),
            Err(fault) => UserRecord::unreadable(rest, None, fault),
        };
        Some(UserRecord { sub: Some(sub), ..user_record })
    }
}

/// What one user record holds, read value by value where there may be many.
enum Values<'a> {
    Qldb(qldb::Values<'a>),
    /// A change of rows, which is read at once: there are two at most, of a key that changed.
    Rows(std::vec::IntoIter<Content>),
}

impl<'a> Values<'a> {
    fn new(decoder: &mut Decoder, user_record: &'a UserRecord, notes: &mut Notes) -> Self {
        match user_record.format {
            Format::Auto | Format::Qldb => Self::Qldb(qldb::Values::new(decoder, &user_record.payload, notes)),
            Format::Lindorm => Self::Rows(lindorm::decode(decoder, user_record, notes).into_iter()),
            Format::Debezium => Self::Rows(debezium::decode(decoder, user_record, notes).into_iter()),
        }
    }

    fn next(&mut self, decoder: &mut Decoder, notes: &mut Notes) -> Option<Content> {
        match self {
            Self::Qldb(values) => values.next(decoder, notes),
            Self::Rows(rows) => rows.next(),
        }
    }

    /// Whether it is among the revisions of a block, of which each is found whatever those before it are.
    fn is_in_block(&self) -> bool {
        matches!(self, Self::Qldb(values) if values.is_in_block())
    }
}

/// The units of one user record, decoded one after another, so that a record that expands is never there as a whole.
pub struct Units<'a> {
    user_record: &'a UserRecord,
    /// `None` at the beginning, at the end, and where nothing has to be read.
    values: Option<Values<'a>>,
    begun: bool,
    /// The place of the next unit.
    index: u32,
    /// Whether it was said that the block at hand has more faults than are told.
    rest_told: bool,
}

impl<'a> Units<'a> {
    /// The next unit's place in its payload, and what it is; at least one comes. Counts what is worth knowing in `notes`.
    pub fn next(&mut self, decoder: &mut Decoder, notes: &mut Notes) -> Option<(u32, Content)> {
        if !std::mem::replace(&mut self.begun, true) && self.user_record.known.is_none() {
            self.values = Some(Values::new(decoder, self.user_record, notes));
        }
        let content = loop {
            break match &mut self.values {
                None if self.index > 0 => return None,
                None => self.user_record.known.clone()?,
                Some(values) => match values.next(decoder, notes) {
                    Some(content) if decoder.faults.are_too_many() && values.is_in_block() => match content {
                        Content::Fault(_) if std::mem::replace(&mut self.rest_told, true) => {
                            self.index += 1;
                            continue;
                        }
                        Content::Fault(_) => Content::Fault(decoder.faults.rest_of_block()),
                        content => content,
                    },
                    Some(_) if decoder.faults.are_too_many() => {
                        self.values = None;
                        Content::Fault(decoder.faults.rest())
                    }
                    Some(content) => content,
                    None => {
                        self.values = None;
                        if self.index > 0 {
                            return None;
                        }
                        Content::Skip(Skip::NoChange)
                    }
                },
            };
        };
        if let Content::Fault(_) = content {
            decoder.faults.count += 1;
            decoder.faults.bytes += self.user_record.payload.len();
        }
        Some((self.passed(), content))
    }

    /// Ends here, for a reason that the decoder does not know: what is left of the user record is one unit, of which this gives the place.
    pub fn end(&mut self) -> u32 {
        self.values = None;
        self.passed()
    }

    fn passed(&mut self) -> u32 {
        self.index += 1;
        self.index - 1
    }
}

impl Decoder {
    /// A decoder with these choices.
    pub fn new(options: Options) -> Self {
        Self { options, ..Self::default() }
    }

    /// Forgets everything but its options: after work was torn off half-way, what it remembers may be half of something.
    pub fn renew(&mut self) {
        *self = Self::new(std::mem::take(&mut self.options));
    }

    /// Begins with a record.
    pub fn open(&mut self, record: &Record) -> UserRecords {
        self.faults = Faults::default();
        let single = |user_record| UserRecords { single: Some(user_record), aggregate: None };
        let plain = || self.user_record(record.data.clone(), record.message.clone());
        if let Some(fault) = &record.damage {
            return single(UserRecord::unreadable(record.data.clone(), record.message.clone(), fault.clone()));
        }
        match kpl::open(&record.data) {
            Contents::Plain => single(plain()),
            Contents::Aggregate(aggregate) if aggregate.is_empty() => {
                single(UserRecord { known: Some(Content::Skip(Skip::NoChange)), ..plain() })
            }
            Contents::Aggregate(aggregate) => UserRecords { single: None, aggregate: Some(aggregate) },
        }
    }

    /// Begins with the payload of a dead letter, and what it had beside it.
    pub fn open_payload(&mut self, payload: &Bytes, message: Option<Arc<Message>>) -> UserRecord {
        self.faults = Faults::default();
        self.user_record(payload.clone(), message)
    }

    fn user_record(&self, payload: Bytes, message: Option<Arc<Message>>) -> UserRecord {
        let is_null = message.as_ref().is_some_and(|message| message.is_null);
        let (format, known) = match self.options.format {
            format if is_null => (format, Some(Content::Skip(Skip::NoChange))),
            Format::Auto => match recognise::format(&payload) {
                Ok(format) => (format, None),
                Err(fault) => (Format::Auto, Some(Content::Fault(fault))),
            },
            format => (format, None),
        };
        UserRecord { sub: None, payload, message, format, known }
    }

    /// Begins with a user record.
    pub fn units<'a>(&self, user_record: &'a UserRecord) -> Units<'a> {
        Units { user_record, values: None, begun: false, index: 0, rest_told: false }
    }

    /// Decodes one record as a whole, for those who know that it is small; appends at least one unit.
    pub fn decode(&mut self, record: &Record, units: &mut Vec<Unit>, notes: &mut Notes) {
        let mut user_records = self.open(record);
        while let Some(user_record) = user_records.next(self) {
            let mut decoded = self.units(&user_record);
            while let Some((index, content)) = decoded.next(self, notes) {
                units.push(Unit { sub: user_record.sub, index, payload: user_record.payload.clone(), content });
            }
        }
    }

    fn table(&mut self, name: &str) -> Table {
        if let Some(table) = self.tables.get(name) {
            return table.clone();
        }
        let table = Table { name: name.into(), options: (self.options.table)(name).into() };
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

#[cfg(test)]
mod tests;
