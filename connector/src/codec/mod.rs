//! Bytes to revisions, pure. A record of any kind goes in; units come out, each a revision, a reason to skip, or a fault.
//!
//! Never panics on any input, never reads anything but its arguments. Never holds more than one unit at a time of a record, and beside a document
//! of at most [`DOCUMENT_LIMIT`](ion_json::DOCUMENT_LIMIT) bytes no more than some MiB, whatever the record: what a record may define or repeat is
//! limited ([`MAX_SYMBOLS`](ion_symbols::MAX_SYMBOLS), [`MAX_FIELDS`](ion_json::MAX_FIELDS), [`MAX_FAULTS`], and for Ion text
//! [`MAX_TEXT_VALUES`](ion_text::MAX_TEXT_VALUES)) far above what any producer writes. What is beyond is a fault that says so.

pub mod ion_binary;
mod ion_encode;
pub mod ion_json;
mod ion_number;
pub mod ion_symbols;
pub mod ion_text;
mod ion_timestamp;
pub mod kpl;
pub mod qldb;
mod repeated_tables;
mod revision_hash;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::metrics::{Notes, Skip};
use crate::record::{Fault, Position, Record};
use crate::revision::Revision;
use ion_json::Rules;
use kpl::{Contents, SubRecord};
use repeated_tables::RepeatedTables;

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

/// Faults of one record, before what is left of it becomes one more. A byte can be a value that is none, and each fault is a dead letter.
pub const MAX_FAULTS: usize = 1_000;

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

    fn rest(&self) -> Content {
        let reason = format!(
            "expected records of a stream, found {} values in one record that are none, more than become dead letters of their own; what \
             follows them was not read",
            self.count
        );
        Content::Fault(Fault::new("undecodable", reason))
    }
}

/// A plain record, or what an aggregate held, or a dead letter's payload.
#[derive(Debug)]
pub struct UserRecord {
    /// The sub-sequence number, where the record was an aggregate.
    pub sub: Option<u64>,
    /// Its bytes, complete in themselves: decoding them again gives its units again.
    pub payload: Bytes,
    /// What it is, where that is known without reading it.
    known: Option<Content>,
}

impl UserRecord {
    /// One that cannot be read for this reason, whatever it holds.
    pub fn unreadable(payload: Bytes, fault: Fault) -> Self {
        Self { sub: None, payload, known: Some(Content::Fault(fault)) }
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
            return Some(UserRecord { sub: Some(sub), payload: before, known: Some(decoder.faults.rest()) });
        }
        Some(match data {
            Ok(payload) => UserRecord { sub: Some(sub), payload, known: None },
            Err(fault) => UserRecord { sub: Some(sub), payload: rest, known: Some(Content::Fault(fault)) },
        })
    }
}

/// The units of one user record, decoded one after another, so that a record that expands is never there as a whole.
pub struct Units<'a> {
    user_record: &'a UserRecord,
    /// `None` at the beginning, at the end, and where nothing has to be read.
    values: Option<qldb::Values<'a>>,
    begun: bool,
    /// The place of the next unit.
    index: u32,
}

impl<'a> Units<'a> {
    /// The next unit's place in its payload, and what it is; at least one comes. Counts what is worth knowing in `notes`.
    pub fn next(&mut self, decoder: &mut Decoder, notes: &mut Notes) -> Option<(u32, Content)> {
        if !std::mem::replace(&mut self.begun, true) && self.user_record.known.is_none() {
            self.values = Some(qldb::Values::new(decoder, &self.user_record.payload));
        }
        let content = match &mut self.values {
            None if self.index > 0 => return None,
            None => self.user_record.known.clone()?,
            Some(values) => match values.next(decoder, notes) {
                Some(_) if decoder.faults.are_too_many() => {
                    self.values = None;
                    decoder.faults.rest()
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
    /// A decoder for QLDB stream records.
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
        let single = |known| Some(UserRecord { sub: None, payload: record.data.clone(), known });
        if let Some(fault) = &record.damage {
            return UserRecords { single: single(Some(Content::Fault(fault.clone()))), aggregate: None };
        }
        match kpl::open(&record.data) {
            Contents::Plain => UserRecords { single: single(None), aggregate: None },
            Contents::Aggregate(aggregate) if aggregate.is_empty() => {
                UserRecords { single: single(Some(Content::Skip(Skip::NoChange))), aggregate: None }
            }
            Contents::Aggregate(aggregate) => UserRecords { single: None, aggregate: Some(aggregate) },
        }
    }

    /// Begins with the payload of a dead letter.
    pub fn open_payload(&mut self, payload: &Bytes) -> UserRecord {
        self.faults = Faults::default();
        UserRecord { sub: None, payload: payload.clone(), known: None }
    }

    /// Begins with a user record.
    pub fn units<'a>(&self, user_record: &'a UserRecord) -> Units<'a> {
        Units { user_record, values: None, begun: false, index: 0 }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use md5::{Digest, Md5};

    use super::*;
    use crate::record::{Origin, SequenceNumber};

    fn record(data: impl Into<Bytes>) -> Record {
        let origin = Arc::new(Origin { stream: "stream".to_owned(), shard: "shard".to_owned() });
        let position = Position::Sequence { number: SequenceNumber("7".to_owned()), sub: None };
        Record { origin, position, data: data.into(), arrived: None, damage: None }
    }

    fn decode(decoder: &mut Decoder, record: &Record) -> Vec<Unit> {
        let mut units = Vec::new();
        decoder.decode(record, &mut units, &mut Notes::default());
        units
    }

    fn length(bytes: usize) -> [u8; 3] {
        [(bytes & 0x7F) as u8 | 0x80, (bytes >> 7 & 0x7F) as u8 | 0x80, (bytes >> 14) as u8]
    }

    /// An aggregate of user records under one partition key; a part that is `Err` is taken for a sub-record as it is.
    fn aggregate(parts: &[Result<&[u8], &[u8]>]) -> Bytes {
        let mut body = vec![0x0A, 0x01, b'k'];
        for part in parts {
            let sub = match part {
                Ok(data) => [&[0x08, 0x00, 0x1A][..], &length(data.len()), data].concat(),
                Err(raw) => raw.to_vec(),
            };
            body.extend([&[0x1A][..], &length(sub.len()), &sub].concat());
        }
        [&[0xF3, 0x89, 0x9A, 0xC2], &body[..], Md5::digest(&body).as_slice()].concat().into()
    }

    fn revision(id: &str, version: u64) -> String {
        format!(
            "{{recordType:\"REVISION_DETAILS\",payload:{{tableInfo:{{tableName:\"Item\"}},\
             revision:{{data:{{n:{version}}},metadata:{{id:\"{id}\",version:{version}}}}}}}}}"
        )
    }

    fn versions(units: &[Unit]) -> Vec<(Option<u64>, u32, Option<u64>)> {
        let version = |unit: &Unit| if let Content::Revision(revision) = &unit.content { Some(revision.version) } else { None };
        units.iter().map(|unit| (unit.sub, unit.index, version(unit))).collect()
    }

    #[test]
    fn a_plain_record_has_no_sub_sequence_number() {
        let text = format!("{} {}", revision("a", 1), revision("a", 2));
        let units = decode(&mut Decoder::default(), &record(text.clone()));
        assert_eq!(versions(&units), [(None, 0, Some(1)), (None, 1, Some(2))]);
        assert!(units.iter().all(|unit| unit.payload == text));
    }

    #[test]
    fn an_aggregate_counts_its_user_records_and_each_counts_its_units() {
        let (one, two) = (revision("a", 1), format!("{} {} 5", revision("b", 2), revision("c", 3)));
        let damaged = [0x08, 0x09, 0x1A, 0x01, b'x'];
        let parts = [Ok(one.as_bytes()), Ok(&b""[..]), Err(&damaged[..]), Ok(two.as_bytes())];
        let units = decode(&mut Decoder::default(), &record(aggregate(&parts)));
        let expected = [
            (Some(0), 0, Some(1)),
            (Some(1), 0, None),
            (Some(2), 0, None),
            (Some(3), 0, Some(2)),
            (Some(3), 1, Some(3)),
            (Some(3), 2, None),
        ];
        assert_eq!(versions(&units), expected);
        assert_eq!(units[0].payload, one);
        assert_eq!(units[1].content, Content::Skip(Skip::NoChange));
        assert!(matches!(&units[2].content, Content::Fault(fault) if fault.kind == "damaged_aggregate"));
        assert_eq!(units[2].payload, damaged[..], "the bytes that could not be read");
        assert_eq!((&units[3].payload, &units[5].payload), (&Bytes::from(two.clone()), &Bytes::from(two)));
    }

    #[test]
    fn a_payload_decoded_again_gives_the_unit_again() {
        let (text, inner) = (format!("{} 5 {}", revision("a", 1), revision("b", 2)), aggregate(&[Ok(b"x"), Ok(b"y")]));
        let parts =
            [Ok(text.as_bytes()), Ok(b"\xE0\x01\x00\xEA\xF3"), Ok(&inner[..]), Err(&[0x08, 0x09][..]), Ok(b"{recordType:\"CONTROL\"}")];
        for data in [aggregate(&parts), Bytes::from(text.clone()), Bytes::from_static(b"\xF3\x89\x9A\xC2no aggregate")] {
            let units = decode(&mut Decoder::default(), &record(data));
            for unit in units.iter().filter(|unit| !matches!(&unit.content, Content::Fault(fault) if fault.kind == "damaged_aggregate")) {
                let mut decoder = Decoder::default();
                let user_record = decoder.open_payload(&unit.payload);
                let mut units = decoder.units(&user_record);
                let again = std::iter::from_fn(|| units.next(&mut decoder, &mut Notes::default())).nth(unit.index as usize);
                assert_eq!(again, Some((unit.index, unit.content.clone())));
            }
        }
    }

    #[test]
    fn an_aggregate_without_records_is_one_unit() {
        let data = aggregate(&[]);
        let units = decode(&mut Decoder::default(), &record(data.clone()));
        assert_eq!(units, [Unit { sub: None, index: 0, payload: data, content: Content::Skip(Skip::NoChange) }]);
    }

    #[test]
    fn an_aggregate_with_a_wrong_digest_is_one_record() {
        let mut data = aggregate(&[Ok(revision("a", 1).as_bytes())]).to_vec();
        *data.last_mut().unwrap() ^= 1;
        let units = decode(&mut Decoder::default(), &record(data.clone()));
        assert_eq!((units.len(), units[0].sub, &units[0].payload), (1, None, &Bytes::from(data)));
        assert!(matches!(&units[0].content, Content::Fault(fault) if fault.kind == "undecodable"));
    }

    #[test]
    fn damage_that_the_source_saw_is_handed_on() {
        let fault = Fault::new("too_large", "expected less");
        let damaged = Record { damage: Some(fault.clone()), ..record(revision("a", 1)) };
        let units = decode(&mut Decoder::default(), &damaged);
        assert_eq!(units, [Unit { sub: None, index: 0, payload: damaged.data, content: Content::Fault(fault) }]);
    }

    #[test]
    fn a_tables_choices_are_asked_for_once() {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let rules = |_: &str| {
            ASKED.fetch_add(1, Ordering::Relaxed);
            Rules::default()
        };
        let mut decoder = Decoder::new(Options { rules: Box::new(rules), ..Options::default() });
        (0..10).for_each(|version| drop(decode(&mut decoder, &record(revision("a", version)))));
        assert_eq!(ASKED.load(Ordering::Relaxed), 1);
        // Damaged names must not fill the memory.
        for table in 0..REMEMBERED_TABLES + 10 {
            decode(&mut decoder, &record(revision("a", 1).replace("Item", &format!("T{table}"))));
        }
        assert_eq!(decoder.tables.len(), REMEMBERED_TABLES);
    }

    #[test]
    fn a_unit_has_the_position_of_its_record_and_its_place_in_the_aggregate() {
        let sequence = |sub| Position::Sequence { number: SequenceNumber("7".to_owned()), sub };
        assert_eq!(position(&sequence(None), Some(3)), sequence(Some(3)));
        assert_eq!(position(&sequence(Some(2)), None), sequence(Some(2)));
        assert_eq!(position(&Position::Byte { offset: 9 }, Some(3)), Position::Byte { offset: 9 });
    }
}
