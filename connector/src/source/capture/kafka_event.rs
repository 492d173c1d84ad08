//! A Lambda event of Kafka that was saved: the records of all its partitions, with their keys and headers.
//!
//! Their positions are those of the records in the file. Frames nothing around the event.

use std::collections::VecDeque;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::kafka_event::{KafkaRecord, SOURCES, lists};
use super::Framed;

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "eventSource")]
    source: String,
    #[serde(borrow)]
    records: &'a RawValue,
}

/// The records of an event, which begins at `offset`, in the order in which they stand there; nothing where the object is no such event.
pub(super) fn records(json: &[u8], offset: u64) -> Option<VecDeque<Framed>> {
    // Most objects are records, and are not to be read twice.
    memchr::memmem::find(json, b"\"eventSource\"")?;
    let event: Event<'_> = serde_json::from_slice(json).ok()?;
    if !SOURCES.contains(&&*event.source) {
        return None;
    }
    let framed = |record: &str| {
        // Borrowed from `json`, so the distance of the two is its place.
        let offset = offset + (record.as_ptr() as usize).saturating_sub(json.as_ptr() as usize) as u64;
        match KafkaRecord::read(record) {
            Ok(KafkaRecord { data, arrived, message, damage, .. }) => Framed { arrived, damage, message, ..Framed::new(offset, data) },
            Err(_) => {
                let reason = format!("expected a Kafka record with topic, partition and offset at byte {offset}, found something else");
                Framed::undecodable(offset, Bytes::copy_from_slice(record.as_bytes()), reason)
            }
        }
    };
    let mut framed: Vec<Framed> = lists(event.records.get())?.map(framed).collect();
    framed.sort_by_key(|framed| framed.offset);
    Some(framed.into())
}

#[cfg(test)]
mod tests {
    use super::super::Capture;
    use crate::record::{Bound, Message, Position, Record};

    fn read(text: &str) -> Vec<Record> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("capture");
        std::fs::write(&path, text).unwrap();
        let mut capture = Capture::open(path.to_str().unwrap(), Bound::EndsAtStart).unwrap();
        let mut records = Vec::new();
        while let Some(page) = capture.read(1 << 20).unwrap() {
            records.extend(page.records);
        }
        records
    }

    const EVENT: &str = r#"{"eventSource":"aws:kafka","bootstrapServers":"b:9092","records":{
        "orders-1":[{"topic":"orders","partition":1,"offset":15,"timestamp":1700000000123,"timestampType":"CREATE_TIME","key":"azE=","value":"eyJhIjoxfQ==","headers":[{"h":[97,-62,-87]}]},
                    {"topic":"orders","partition":1,"offset":16,"key":"azE=","value":null}],
        "orders-0":[{"topic":"orders","partition":0,"offset":3,"value":""}]}}"#;

    #[test]
    fn the_records_of_a_saved_event_have_their_values_keys_and_headers() {
        let one_line = EVENT.replace('\n', "");
        for (text, events) in [(EVENT.to_owned(), 1), (format!("{one_line}\n{one_line}\n"), 2)] {
            let records = read(&text);
            assert_eq!(records.len(), 3 * events);
            for record in records.chunks(3) {
                assert_eq!([&record[0].data[..], &record[1].data[..], &record[2].data[..]], [&br#"{"a":1}"#[..], b"", b""]);
                assert_eq!([record[0].arrived, record[1].arrived, record[2].arrived], [Some(1_700_000_000_123), None, None]);
                let messages: Vec<&Message> = record.iter().map(|record| record.message.as_deref().unwrap()).collect();
                assert_eq!(messages.iter().map(|message| message.is_null).collect::<Vec<_>>(), [false, true, false]);
                assert_eq!(
                    messages.iter().map(|message| message.key.as_deref()).collect::<Vec<_>>(),
                    [Some(&b"k1"[..]), Some(b"k1"), None]
                );
                assert_eq!(messages[0].headers[0].value.as_deref(), Some(&b"a\xC2\xA9"[..]));
            }
            assert!(records.is_sorted_by(|a, b| a.position < b.position));
            for record in &records {
                let Position::Byte { offset } = record.position else { panic!("expected an offset, found {}", record.position) };
                assert!(text[offset as usize..].starts_with(r#"{"topic":"#), "{}", &text[offset as usize..]);
            }
        }
    }

    #[test]
    fn a_damaged_record_costs_only_itself() {
        for (from, to) in [("eyJhIjoxfQ==", "a secret"), (r#""topic":"orders","partition":1,"offset":15,"#, "")] {
            let records = read(&EVENT.replace(from, to));
            assert_eq!(records.iter().map(|record| record.damage.is_some()).collect::<Vec<_>>(), [true, false, false]);
            let reason = &records[0].damage.as_ref().unwrap().reason;
            assert!(reason.starts_with("expected a Kafka record with ") && !reason.contains("secret"), "{reason}");
        }
    }

    #[test]
    fn an_event_of_a_cluster_of_ones_own_without_records_is_read_too() {
        assert!(read(r#"{"eventSource":"SelfManagedKafka","records":{}}"#).is_empty());
    }
}
