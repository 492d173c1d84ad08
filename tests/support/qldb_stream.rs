//! QLDB stream records as a ledger would write them, through ion-rs: one revision or several, control records, KPL aggregates, and what is damaged.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::sync::Arc;

use bytes::Bytes;
use ion_rs::v1_0::Binary;
use ion_rs::{Element, Sequence};
use md5::{Digest, Md5};
use revsync::record::{Origin, Position, Record};

/// What a revision does, with its data as Ion text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Does {
    Put(String),
    Delete,
    Redact,
}

/// One top-level value: a revision, as Ion text.
pub(crate) fn revision(table: &str, id: &str, version: u64, does: &Does) -> String {
    let data = match does {
        Does::Put(data) => format!("data:{data},"),
        Does::Delete => String::new(),
        Does::Redact => "dataHash:{{aGFzaA==}},".to_owned(),
    };
    value(
        "REVISION_DETAILS",
        &format!(
            r#"{{tableInfo:{{tableName:"{table}",tableId:"T"}},revision:{{blockAddress:{{strandId:"S",sequenceNo:7}},hash:{{{{aGFzaA==}}}},{data}metadata:{{id:"{id}",version:{version},txTime:2024-05-01T10:00:00.000Z,txId:"X"}}}}}}"#
        ),
    )
}

/// One top-level value of any record type.
pub(crate) fn value(record_type: &str, payload: &str) -> String {
    format!(r#"{{qldbStreamArn:"arn:aws:qldb:eu-west-1:000000000000:stream/example/s",recordType:"{record_type}",payload:{payload}}}"#)
}

/// A control record's value.
pub(crate) fn control() -> String {
    value("CONTROL", r#"{controlRecordType:"CREATED"}"#)
}

/// A record of these values in Ion binary.
pub(crate) fn binary(values: &[String]) -> Bytes {
    let elements: Sequence = Element::read_all(values.join(" ")).expect("Ion text");
    elements.encode_as(Binary).expect("Ion binary").into()
}

/// A record of these values in Ion text.
pub(crate) fn text(values: &[String]) -> Bytes {
    values.join("\n").into()
}

/// A KPL aggregate of these user records.
pub(crate) fn aggregate(records: &[Bytes]) -> Bytes {
    let sub = |record: &Bytes| {
        let mut sub = vec![0x08, 0, 0x1A];
        length(record.len(), &mut sub);
        sub.extend_from_slice(record);
        sub
    };
    aggregate_of(records.iter().map(sub))
}

/// A KPL aggregate with the right digest, of which the only part is no user record.
pub(crate) fn damaged_aggregate() -> Bytes {
    aggregate_of([vec![0x08, 9, 0x1A, 1, b'x']])
}

fn aggregate_of(subs: impl IntoIterator<Item = Vec<u8>>) -> Bytes {
    let mut body = vec![0x0A, 1, b'k'];
    for sub in subs {
        body.push(0x1A);
        length(sub.len(), &mut body);
        body.extend_from_slice(&sub);
    }
    [&[0xF3, 0x89, 0x9A, 0xC2], body.as_slice(), Md5::digest(&body).as_slice()].concat().into()
}

/// A protobuf length.
fn length(mut length: usize, out: &mut Vec<u8>) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

/// A shard.
pub(crate) fn shard(name: &str) -> Arc<Origin> {
    Arc::new(Origin { stream: "ledger".to_owned(), shard: name.to_owned() })
}

/// A record at a byte offset of a shard.
pub(crate) fn record(origin: &Arc<Origin>, offset: u64, data: Bytes) -> Record {
    Record { origin: origin.clone(), position: Position::Byte { offset }, data, arrived: None, damage: None, message: None }
}

/// Records of one revision each, one after another in one shard.
pub(crate) fn records<'a>(revisions: impl IntoIterator<Item = (&'a str, &'a str, u64, Does)>) -> Vec<Record> {
    let origin = shard("0");
    let data = |(table, id, version, does): (&str, &str, u64, Does)| binary(&[revision(table, id, version, &does)]);
    revisions.into_iter().map(data).zip(0..).map(|(data, offset)| record(&origin, offset, data)).collect()
}

/// A put of a small document.
pub(crate) fn put(note: &str) -> Does {
    Does::Put(format!("{{note:\"{note}\"}}"))
}
