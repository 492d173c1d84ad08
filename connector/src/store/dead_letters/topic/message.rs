//! A dead letter as a message of Kafka: the key, the value and the headers that the record had, and headers that say why it is here.
//!
//! The names of those are Kafka Connect's (Apache Kafka, `org.apache.kafka.connect.runtime.errors.DeadLetterQueueReporter`), so that what reads the
//! dead letters of connectors reads these too. [`LETTER`] holds the letter itself without what is in the message already; it stands before them,
//! so that a record which came with headers of their names keeps those. Reaches nothing.

use bytes::Bytes;

use crate::error::Error;
use crate::record::{Header, Message, Position};
use crate::store::dead_letters::{DeadLetter, letter};

/// The header that holds the letter: its line of JSON, without the payload, the key and the record's own headers.
const LETTER: &str = "revsync.letter";

/// The beginning of the names of Kafka Connect's headers.
const CONNECT: &str = "__connect.errors.";

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) key: Option<Bytes>,
    /// `None` is a null value, which is not an empty one.
    pub(super) value: Option<Bytes>,
    pub(super) headers: Vec<Header>,
}

impl Stored {
    /// The message of a letter. A letter of a record that was no message of Kafka has its id as key.
    pub(super) fn of(letter: &DeadLetter) -> Result<Self, Error> {
        // What the message itself has is not said twice.
        let message = letter.message.as_ref().map(|_| Message::default());
        let line = DeadLetter { payload: Bytes::new(), message, ..letter.clone() }.line()?;
        let Message { key, mut headers, is_null } =
            letter.message.clone().unwrap_or_else(|| Message { key: Some(Bytes::from(letter.id.clone())), ..Message::default() });
        headers.push(Header { name: LETTER.to_owned(), value: Some(line.into()) });
        headers.extend(connect(letter));
        Ok(Self { key, value: (!is_null).then(|| letter.payload.clone()), headers })
    }

    /// The message of a letter that is somewhere else: its key, and what is said of it.
    pub(super) fn pointer(letter: &DeadLetter) -> Result<Self, Error> {
        let message = letter.message.as_ref().map(|message| Message { key: message.key.clone(), ..Message::default() });
        Self::of(&DeadLetter { payload: Bytes::new(), message, ..letter.clone() })
    }

    /// The letter of a message.
    ///
    /// # Errors
    /// It is none: why, with nothing of its content.
    pub(super) fn letter(self) -> Result<DeadLetter, String> {
        let Self { key, value, mut headers } = self;
        let Some(at) = headers.iter().rposition(|header| header.name == LETTER) else {
            return Err(format!("no message of revsync: it has no header {LETTER}"));
        };
        let line = headers[at].value.clone().unwrap_or_default();
        headers.truncate(at);
        let letter = letter::read(&line)?;
        let message = letter.message.as_ref().map(|_| Message { key, headers, is_null: value.is_none() });
        Ok(DeadLetter { payload: value.unwrap_or_default(), message, ..letter })
    }

    /// Bytes that it takes in a topic, and a little more: what Kafka adds to a message is at most 61 bytes for its batch, and some for each length.
    pub(super) fn bytes(&self) -> usize {
        let length = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
        let headers: usize = self.headers.iter().map(|header| header.name.len() + length(&header.value) + 10).sum();
        length(&self.key) + length(&self.value) + headers + 128
    }
}

/// Kafka Connect's headers. Where a record came from is said only where that is a topic, as there.
fn connect(letter: &DeadLetter) -> Vec<Header> {
    let (stage, class) = match (&letter.action, &letter.table) {
        (Some(_), _) => ("TASK_PUT", "revsync::sink"),
        (None, Some(_)) => ("TRANSFORMATION", "revsync::plan"),
        (None, None) => ("VALUE_CONVERTER", "revsync::codec"),
    };
    let mut said: Vec<(&str, String)> = Vec::new();
    if let Position::Offset { topic, partition, offset } = &letter.position {
        said.extend([("topic", topic.clone()), ("partition", partition.to_string()), ("offset", offset.to_string())]);
    }
    said.extend([
        ("connector.name", "revsync".to_owned()),
        ("task.id", "0".to_owned()),
        ("stage", stage.to_owned()),
        ("class.name", class.to_owned()),
        ("exception.class.name", letter.error.kind.clone()),
        ("exception.message", letter.error.reason.clone()),
    ]);
    said.into_iter().map(|(name, value)| Header { name: format!("{CONNECT}{name}"), value: Some(value.into()) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Fault, Origin};

    fn letter(message: Option<Message>, payload: &'static [u8]) -> DeadLetter {
        let position = Position::Offset { topic: "orders".to_owned(), partition: 3, offset: 15 };
        DeadLetter {
            v: letter::FORMAT_VERSION,
            id: "0123456789abcdef0123456789abcdef".to_owned(),
            time: "2024-05-06T07:08:09Z".to_owned(),
            first_time: None,
            origin: Origin { stream: "orders".to_owned(), shard: "3".to_owned() },
            position,
            unit: 0,
            part: 0,
            format: "lindorm".to_owned(),
            table: None,
            mode: None,
            document_id: None,
            version: None,
            index: None,
            action: None,
            attempts: 0,
            error: Fault::new("undecodable", "expected an object"),
            first_error: None,
            connector: "0".to_owned(),
            large: None,
            message,
            payload: Bytes::from_static(payload),
        }
    }

    fn header(name: &str, value: Option<&'static [u8]>) -> Header {
        Header { name: name.to_owned(), value: value.map(Bytes::from_static) }
    }

    fn names(stored: &Stored) -> Vec<&str> {
        stored.headers.iter().map(|header| header.name.as_str()).collect()
    }

    #[test]
    fn a_message_keeps_its_key_value_and_headers_and_comes_back_as_the_letter_that_it_was() {
        let headers = vec![header("a", Some(b"\xFF")), header("a", None), header("__connect.errors.topic", Some(b"elsewhere"))];
        for key in [None, Some(Bytes::from_static(b"")), Some(Bytes::from_static(b"k\xFF"))] {
            for (is_null, payload) in [(false, &b"{}"[..]), (false, b""), (true, b"")] {
                let letter = letter(Some(Message { key: key.clone(), headers: headers.clone(), is_null }), payload);
                let stored = Stored::of(&letter).unwrap();
                assert_eq!((&stored.key, stored.value.as_deref()), (&key, (!is_null).then_some(payload)));
                assert_eq!(stored.headers[..3], headers);
                assert_eq!(stored.letter().unwrap(), letter);
            }
        }
    }

    #[test]
    fn a_letter_that_was_a_letter_of_a_topic_before_keeps_what_it_came_with() {
        let first = letter(Some(Message::default()), b"x");
        let stored = Stored::of(&first).unwrap();
        let again = letter(Some(Message { key: None, headers: stored.headers, is_null: false }), b"x");
        assert_eq!(Stored::of(&again).unwrap().letter().unwrap(), again);
    }

    #[test]
    fn the_headers_are_those_of_kafka_connect() {
        let mut letter = letter(Some(Message::default()), b"x");
        let stored = Stored::of(&letter).unwrap();
        let connect = [
            "topic",
            "partition",
            "offset",
            "connector.name",
            "task.id",
            "stage",
            "class.name",
            "exception.class.name",
            "exception.message",
        ];
        let expected: Vec<String> = [LETTER.to_owned()].into_iter().chain(connect.map(|name| format!("__connect.errors.{name}"))).collect();
        assert_eq!(names(&stored), expected);
        let values: Vec<&[u8]> = stored.headers[1..].iter().map(|header| header.value.as_deref().unwrap()).collect();
        let said: [&[u8]; 9] =
            [b"orders", b"3", b"15", b"revsync", b"0", b"VALUE_CONVERTER", b"revsync::codec", b"undecodable", b"expected an object"];
        assert_eq!(values, said);
        letter.action = Some("index".to_owned());
        assert_eq!(Stored::of(&letter).unwrap().headers[6].value.as_deref(), Some(&b"TASK_PUT"[..]));
    }

    #[test]
    fn a_letter_of_a_file_has_its_id_as_key_and_names_no_topic() {
        let letter = DeadLetter { position: Position::Byte { offset: 7 }, ..letter(None, b"") };
        let stored = Stored::of(&letter).unwrap();
        assert_eq!((stored.key.as_deref(), stored.value.as_deref()), (Some(letter.id.as_bytes()), Some(&b""[..])));
        assert!(!names(&stored).contains(&"__connect.errors.topic"));
        assert_eq!(stored.letter().unwrap(), letter);
    }

    #[test]
    fn what_is_no_letter_is_told_without_its_content() {
        for (headers, expected) in [
            (vec![], "no message of revsync: it has no header revsync.letter"),
            (vec![header("a", Some(b"a secret"))], "it has no header revsync.letter"),
            (vec![header(LETTER, None)], "cut off"),
            (vec![header(LETTER, Some(b"{\"v\":2,\"id\":\"a secret\"}"))], "missing or of the wrong form"),
            (vec![header(LETTER, Some(b"{\"v\":99}"))], "written by a newer revsync"),
        ] {
            let reason = Stored { key: None, value: Some(Bytes::from_static(b"a secret")), headers }.letter().unwrap_err();
            assert!(reason.contains(expected) && !reason.contains("secret"), "{reason}");
        }
    }

    #[test]
    fn a_message_takes_no_more_than_is_said() {
        let stored = Stored::of(&letter(Some(Message::default()), b"0123456789")).unwrap();
        assert!(
            stored.bytes()
                > 10 + stored.headers.iter().map(|header| header.name.len() + header.value.as_ref().unwrap().len()).sum::<usize>()
        );
    }
}
