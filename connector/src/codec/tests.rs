use std::sync::atomic::{AtomicUsize, Ordering};

use md5::{Digest, Md5};

use super::*;
use crate::record::{Origin, SequenceNumber};

fn record(data: impl Into<Bytes>) -> Record {
    let origin = Arc::new(Origin { stream: "stream".to_owned(), shard: "shard".to_owned() });
    let position = Position::Sequence { number: SequenceNumber("7".to_owned()), sub: None };
    Record { origin, position, data: data.into(), arrived: None, damage: None, message: None }
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
    let expected =
        [(Some(0), 0, Some(1)), (Some(1), 0, None), (Some(2), 0, None), (Some(3), 0, Some(2)), (Some(3), 1, Some(3)), (Some(3), 2, None)];
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
    let parts = [Ok(text.as_bytes()), Ok(b"\xE0\x01\x00\xEA\xF3"), Ok(&inner[..]), Err(&[0x08, 0x09][..]), Ok(b"{recordType:\"CONTROL\"}")];
    for data in [aggregate(&parts), Bytes::from(text.clone()), Bytes::from_static(b"\xF3\x89\x9A\xC2no aggregate")] {
        let units = decode(&mut Decoder::default(), &record(data));
        for unit in units.iter().filter(|unit| !matches!(&unit.content, Content::Fault(fault) if fault.kind == "damaged_aggregate")) {
            let mut decoder = Decoder::default();
            let user_record = decoder.open_payload(&unit.payload, None);
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
    let table = |_: &str| {
        ASKED.fetch_add(1, Ordering::Relaxed);
        TableOptions::default()
    };
    let mut decoder = Decoder::new(Options { table: Box::new(table), ..Options::default() });
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
