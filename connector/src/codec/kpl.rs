//! KPL aggregates: several user records inside one Kinesis record.
//!
//! Format: `F3 89 9A C2`, a protobuf `AggregatedRecord`, and the MD5 of the protobuf bytes (amazon-kinesis-producer, `aggregation-format.md`).
//! Never drops a sub-record because of its hash key: reading a record twice is harmless downstream, losing one is not.

use std::ops::Range;

use bytes::Bytes;
use md5::{Digest, Md5};
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::record::Fault;

const MAGIC: [u8; 4] = [0xF3, 0x89, 0x9A, 0xC2];
const DIGEST: usize = 16;

/// What a Kinesis record holds.
#[derive(Debug)]
pub enum Contents {
    /// One user record: the Kinesis record itself.
    Plain,
    /// Several, which are read one by one.
    Aggregate(Aggregate),
}

/// The sub-records of an aggregate, in their order. Holds none of them: an aggregate of empty sub-records would take many times its size.
#[derive(Debug)]
pub struct Aggregate {
    body: Bytes,
    /// Bytes of the body that were read.
    at: usize,
    next: u64,
    is_empty: bool,
    partition_keys: u64,
    explicit_hash_keys: u64,
}

/// One user record of an aggregate.
#[derive(Debug, Clone, PartialEq)]
pub struct SubRecord {
    /// Its index inside the aggregate, from 0: the sub-sequence number.
    pub sub: u64,
    /// The user record's bytes, or why there are none; then `rest` holds what could not be read.
    pub data: Result<Bytes, Fault>,
    /// The bytes that a fault is about; empty without one.
    pub rest: Bytes,
}

/// `Record` of the aggregation format.
#[derive(Clone, PartialEq, Message)]
struct ProtoRecord {
    #[prost(uint64, required, tag = "1")]
    partition_key_index: u64,
    #[prost(uint64, optional, tag = "2")]
    explicit_hash_key_index: Option<u64>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    data: Option<Bytes>,
}

/// Opens a Kinesis record.
///
/// Anything that does not have the magic number, something behind it and the right digest is [`Contents::Plain`], as with KCL. With
/// the right digest, what can be read is delivered, and each part that cannot be read comes as a fault.
pub fn open(record: &Bytes) -> Contents {
    let Some(body) = aggregate_body(record) else { return Contents::Plain };
    let mut aggregate = Aggregate { body, at: 0, next: 0, is_empty: true, partition_keys: 0, explicit_hash_keys: 0 };
    // Keys may stand behind the sub-records that refer to them.
    while let Some(field) = aggregate.field() {
        match field {
            Ok((PARTITION_KEY, _)) => aggregate.partition_keys += 1,
            Ok((EXPLICIT_HASH_KEY, _)) => aggregate.explicit_hash_keys += 1,
            Ok((RECORD, _)) => aggregate.is_empty = false,
            Ok(_) => {}
            Err(Unreadable) => {
                aggregate.is_empty = false;
                break;
            }
        }
    }
    aggregate.at = 0;
    Contents::Aggregate(aggregate)
}

fn aggregate_body(record: &Bytes) -> Option<Bytes> {
    if !record.starts_with(&MAGIC) || record.len() <= MAGIC.len() + DIGEST {
        return None;
    }
    let body = record.slice(MAGIC.len()..record.len() - DIGEST);
    let digest = &record[record.len() - DIGEST..];
    (Md5::digest(&body).as_slice() == digest).then_some(body)
}

const PARTITION_KEY: u32 = 1;
const EXPLICIT_HASH_KEY: u32 = 2;
const RECORD: u32 = 3;

/// A field that cannot be read, nor what stands behind it.
struct Unreadable;

/// The tag of the field that `rest` begins with, and the length of its content; leaves `rest` at that content, or behind a field of another tag.
fn head(rest: &mut &[u8]) -> Option<(u32, usize)> {
    let (tag, wire_type) = decode_key(rest).ok()?;
    if !(PARTITION_KEY..=RECORD).contains(&tag) {
        skip_field(wire_type, tag, rest, DecodeContext::default()).ok()?;
        return Some((tag, 0));
    }
    if wire_type != WireType::LengthDelimited {
        return None;
    }
    let length = usize::try_from(decode_varint(rest).ok()?).ok()?;
    (length <= rest.len()).then_some((tag, length))
}

impl Aggregate {
    /// The next field and its content. Read field by field, so that damage costs only what follows it.
    fn field(&mut self) -> Option<Result<(u32, Range<usize>), Unreadable>> {
        let mut rest = &self.body[self.at..];
        if rest.is_empty() {
            return None;
        }
        let Some((tag, length)) = head(&mut rest) else { return Some(Err(Unreadable)) };
        let begin = self.body.len() - rest.len();
        self.at = begin + length;
        Some(Ok((tag, begin..self.at)))
    }

    /// Whether there is no sub-record and no damage.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// What was not read yet.
    pub fn rest(&self) -> Bytes {
        self.body.slice(self.at..)
    }

    fn user_record(&self, raw: &Bytes) -> Result<Bytes, Fault> {
        let bad = |what: String| Fault::new("damaged_aggregate", what);
        let record =
            ProtoRecord::decode(raw.clone()).map_err(|_| bad("expected a sub-record of a KPL aggregate, found no protobuf".into()))?;
        let tables = [
            ("partition key", Some(record.partition_key_index), self.partition_keys),
            ("explicit hash key", record.explicit_hash_key_index, self.explicit_hash_keys),
        ];
        for (table, index, entries) in tables {
            if let Some(index) = index.filter(|index| *index >= entries) {
                return Err(bad(format!("expected an index into a table of {entries} {table} entries, found {index}")));
            }
        }
        record.data.ok_or_else(|| bad("expected a sub-record with data, found none".into()))
    }
}

impl Iterator for Aggregate {
    type Item = SubRecord;

    fn next(&mut self) -> Option<SubRecord> {
        loop {
            let (data, rest) = match self.field()? {
                Ok((RECORD, content)) => {
                    let raw = self.body.slice(content);
                    match self.user_record(&raw) {
                        Ok(data) => (Ok(data), Bytes::new()),
                        Err(fault) => (Err(fault), raw),
                    }
                }
                Ok(_) => continue,
                Err(Unreadable) => {
                    let reason =
                        format!("expected a KPL AggregatedRecord, found bytes that are no protobuf field at byte {} of it", self.at);
                    let rest = self.rest();
                    self.at = self.body.len();
                    (Err(Fault::new("damaged_aggregate", reason)), rest)
                }
            };
            let sub = self.next;
            self.next += 1;
            return Some(SubRecord { sub, data, rest });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two user records "A" and "B" under the partition key "k1"; read by the public Python library too.
    const TWO: &[u8] = &[
        0xF3, 0x89, 0x9A, 0xC2, 0x0A, 0x02, 0x6B, 0x31, 0x1A, 0x05, 0x08, 0x00, 0x1A, 0x01, 0x41, 0x1A, 0x05, 0x08, 0x00, 0x1A, 0x01, 0x42,
        0x54, 0x05, 0x96, 0x82, 0xB9, 0x98, 0xEA, 0x2E, 0xB9, 0x91, 0xBE, 0x10, 0xD2, 0x02, 0x0B, 0xD2,
    ];

    fn aggregate(body: &[u8]) -> Bytes {
        [&MAGIC, body, Md5::digest(body).as_slice()].concat().into()
    }

    fn read(record: &Bytes) -> Vec<Result<Bytes, String>> {
        match open(record) {
            Contents::Plain => panic!("expected an aggregate"),
            Contents::Aggregate(subs) => subs
                .zip(0..)
                .map(|(sub, place)| {
                    assert_eq!(sub.sub, place);
                    sub.data.map_err(|fault| fault.kind)
                })
                .collect(),
        }
    }

    #[test]
    fn an_aggregate_opens_into_its_user_records() {
        assert_eq!(read(&Bytes::from_static(TWO)), [Ok("A".into()), Ok("B".into())]);
        assert_eq!(aggregate(&TWO[4..22]), TWO);
    }

    #[test]
    fn a_wrong_digest_makes_a_plain_record() {
        let mut bytes = TWO.to_vec();
        bytes[37] ^= 1;
        assert!(matches!(open(&bytes.into()), Contents::Plain));
    }

    #[test]
    fn what_is_too_short_is_a_plain_record() {
        for length in 0..=20 {
            assert!(matches!(open(&Bytes::from_static(&TWO[..length])), Contents::Plain), "{length} bytes");
        }
        assert!(matches!(open(&aggregate(&[])), Contents::Plain));
    }

    #[test]
    fn damage_behind_a_right_digest_costs_only_what_follows_it() {
        let body = [&TWO[4..22], &[0x1A, 0x7F, 0x08]].concat();
        assert_eq!(read(&aggregate(&body)), [Ok("A".into()), Ok("B".into()), Err("damaged_aggregate".into())]);
    }

    #[test]
    fn a_table_index_out_of_range_costs_one_sub_record() {
        let body =
            [&[0x0A, 0x02, 0x6B, 0x31], &[0x1A, 0x05, 0x08, 0x07, 0x1A, 0x01, 0x41][..], &[0x1A, 0x05, 0x08, 0x00, 0x1A, 0x01, 0x42]]
                .concat();
        assert_eq!(read(&aggregate(&body)), [Err("damaged_aggregate".into()), Ok("B".into())]);
    }

    #[test]
    fn unknown_fields_and_tags_are_passed_over() {
        let body =
            [&[0x0A, 0x02, 0x6B, 0x31, 0x22, 0x01, 0x00], &[0x1A, 0x09, 0x08, 0x00, 0x1A, 0x01, 0x41, 0x22, 0x02, 0x0A, 0x00][..]].concat();
        assert_eq!(read(&aggregate(&body)), [Ok("A".into())]);
    }

    #[test]
    fn an_aggregate_without_records_has_none() {
        assert_eq!(read(&aggregate(&[0x0A, 0x02, 0x6B, 0x31])), []);
    }

    #[test]
    fn an_empty_user_record_is_one_user_record() {
        assert_eq!(read(&aggregate(&[0x0A, 0x01, 0x6B, 0x1A, 0x04, 0x08, 0x00, 0x1A, 0x00])), [Ok(Bytes::new())]);
    }

    proptest! {
        #[test]
        fn every_aggregate_gives_back_what_went_in(records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20)) {
            let mut body = vec![0x0A, 0x01, b'k'];
            for data in &records {
                let record = ProtoRecord { partition_key_index: 0, explicit_hash_key_index: None, data: Some(data.clone().into()) };
                prost::encoding::message::encode(3, &record, &mut body);
            }
            let expected: Vec<_> = records.into_iter().map(|d| Ok(Bytes::from(d))).collect();
            prop_assert_eq!(read(&aggregate(&body)), expected);
        }

        #[test]
        fn no_bytes_behind_a_right_digest_are_lost_or_panic(body in prop::collection::vec(any::<u8>(), 1..400)) {
            read(&aggregate(&body));
        }
    }
}
