//! A message of Kafka as a record.
//!
//! Copies what it takes: a message of librdkafka keeps the whole answer that it came in.

use std::sync::Arc;

use bytes::Bytes;
use rdkafka::message::{BorrowedMessage, Message as _};

use crate::kafka::headers;
use crate::record::{Message, Origin, Position, Record};

/// The record of a message. Its origin is the topic and the partition.
pub(super) fn record(message: &BorrowedMessage<'_>, origin: Arc<Origin>) -> Record {
    Record {
        position: Position::Offset { topic: origin.stream.clone(), partition: message.partition(), offset: message.offset() },
        origin,
        data: message.payload().map(Bytes::copy_from_slice).unwrap_or_default(),
        arrived: message.timestamp().to_millis().and_then(|millis| u64::try_from(millis).ok()),
        damage: None,
        message: Some(Arc::new(Message {
            key: message.key().map(Bytes::copy_from_slice),
            headers: headers(message.headers()),
            is_null: message.payload().is_none(),
        })),
    }
}

/// The memory of a record beside its value.
pub(super) fn beside(record: &Record) -> usize {
    let Some(message) = &record.message else { return 0 };
    let headers = message.headers.iter().map(|header| header.name.len() + header.value.as_ref().map_or(0, Bytes::len));
    message.key.as_ref().map_or(0, Bytes::len) + headers.sum::<usize>()
}
