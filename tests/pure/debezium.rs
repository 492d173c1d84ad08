//! The fixtures of Debezium, message by message with their keys, against what their expected files say; and whole histories, repeated and in
//! disorder.
//!
//! The expected files are written by the generator, which shares no code with the product.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use bytes::Bytes;
use revsync::codec::{Content, Decoder, Format, Options, TableOptions, Unit};
use revsync::metrics::Notes;
use revsync::record::{Message, Origin, Position, Record};

use crate::dice::Dice;
use crate::fixtures::{folder, line};

/// The names of all families.
fn families() -> Vec<String> {
    let files = fs::read_dir(folder("debezium")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = files.filter_map(|file| file.strip_suffix(".expected.jsonl").map(str::to_owned)).collect();
    names.sort();
    names
}

/// The messages of a family; of one that has no keys, as a stream without messages of Kafka gives them.
fn records(family: &str) -> Vec<Record> {
    let read = |ending: &str| fs::read_to_string(folder("debezium").join(format!("{family}{ending}")));
    let keys = read(".keys.jsonl").ok();
    let mut keys = keys.as_deref().map(str::lines);
    let origin = Arc::new(Origin { stream: "topic".to_owned(), shard: "0".to_owned() });
    let record = |(offset, value): (usize, &str)| Record {
        origin: origin.clone(),
        position: Position::Offset { topic: "topic".to_owned(), partition: 0, offset: offset as i64 },
        data: Bytes::copy_from_slice(value.as_bytes()),
        arrived: None,
        damage: None,
        message: keys.as_mut().map(|keys| {
            let key = Bytes::copy_from_slice(keys.next().unwrap().as_bytes());
            Arc::new(Message { key: Some(key), headers: Vec::new(), is_null: value.is_empty() })
        }),
    };
    read(".jsonl").unwrap().lines().enumerate().map(record).collect()
}

fn decoder(format: Format, records: &[Record]) -> Decoder {
    let key = if records[0].message.is_none() { vec!["id".to_owned()] } else { Vec::new() };
    let table = move |_: &str| TableOptions { key: key.clone(), ..TableOptions::default() };
    Decoder::new(Options { format, table: Box::new(table), ..Options::default() })
}

fn units(decoder: &mut Decoder, record: &Record) -> Vec<Unit> {
    let mut units = Vec::new();
    decoder.decode(record, &mut units, &mut Notes::default());
    units
}

#[test]
fn every_debezium_fixture_gives_the_units_that_it_should() {
    let families = families();
    assert_eq!(families.len(), 16);
    for family in families {
        let expected = fs::read_to_string(folder("debezium").join(format!("{family}.expected.jsonl"))).unwrap();
        let records = records(&family);
        for format in [Format::Debezium, Format::Auto] {
            let mut decoder = decoder(format, &records);
            let found: String = records.iter().flat_map(|record| units(&mut decoder, record)).map(|unit| line(&unit) + "\n").collect();
            assert_eq!(found, expected, "{family}, {format:?}");
        }
    }
}

#[test]
fn a_history_comes_to_the_same_documents_repeated_and_in_any_order() {
    for family in families().iter().filter(|family| !family.ends_with("-beside")) {
        let records = records(family);
        let told: Vec<Vec<Content>> = records
            .iter()
            .map(|record| units(&mut decoder(Format::Debezium, &records), record).into_iter().map(|unit| unit.content).collect())
            .collect();
        let newest = |order: &[usize]| {
            let mut newest = BTreeMap::new();
            for revision in order.iter().flat_map(|at| &told[*at]) {
                if let Content::Revision(revision) = revision {
                    let last = newest.entry(revision.id.clone()).or_insert((revision.version, revision.change.clone()));
                    if revision.version >= last.0 {
                        *last = (revision.version, revision.change.clone());
                    }
                }
            }
            newest
        };
        let in_order: Vec<usize> = (0..records.len()).collect();
        for seed in 0..20 {
            let mut dice = Dice::new(seed);
            let mut order = [in_order.clone(), (0..records.len()).map(|_| dice.below(records.len())).collect()].concat();
            for at in (1..order.len()).rev() {
                order.swap(at, dice.below(at + 1));
            }
            // One decoder for all, which remembers what came before: an id and a version come from the message alone.
            let mut decoder = decoder(Format::Debezium, &records);
            for at in &order {
                let again: Vec<Content> = units(&mut decoder, &records[*at]).into_iter().map(|unit| unit.content).collect();
                assert_eq!(again, told[*at], "{family}, message {at}");
            }
            assert_eq!(newest(&order), newest(&in_order), "{family}, seed {seed}");
        }
    }
}

#[test]
fn every_beginning_of_a_message_and_of_its_key_is_read() {
    for family in families() {
        let records = records(&family);
        let mut decoder = decoder(Format::Debezium, &records);
        let long = std::env::var_os("REVSYNC_TEST_LONG").is_some_and(|value| value == "1");
        let step = if long { 1 } else { 1 + records.iter().map(|record| record.data.len()).sum::<usize>() / 150 };
        for record in &records {
            for length in (0..record.data.len()).step_by(step) {
                let cut = Record { data: record.data.slice(..length), ..record.clone() };
                let found = units(&mut decoder, &cut);
                let expected = record.message.as_ref().is_some_and(|message| message.is_null);
                assert!(
                    matches!(&found[..], [Unit { content: Content::Fault(fault), .. }] if fault.kind == "undecodable") || expected,
                    "{found:?}"
                );
            }
            let Some(message) = &record.message else { continue };
            let key = message.key.clone().unwrap();
            for length in (0..key.len()).step_by(if long { 1 } else { 5 }) {
                let cut = Arc::new(Message { key: Some(key.slice(..length)), ..(**message).clone() });
                assert!(!units(&mut decoder, &Record { message: Some(cut), ..record.clone() }).is_empty());
            }
        }
    }
}
