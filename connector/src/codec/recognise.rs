//! Which format a record has, by its content alone.
//!
//! Looks at the first bytes, and of JSON at the names of the outermost members. Never decodes anything, never judges more than it takes to tell.

use super::Format;
use super::ion_binary::VERSION_MARKER;
use super::json_cursor::Cursor;
use crate::record::Fault;

/// The format of a record's bytes; [`Format::Auto`] where only reading it can tell.
///
/// # Errors
/// A fault for what is no record of any format.
pub(super) fn format(payload: &[u8]) -> Result<Format, Fault> {
    if payload.starts_with(&VERSION_MARKER) {
        return Ok(Format::Qldb);
    }
    if let Some(fault) = schema_registry(payload) {
        return Err(fault);
    }
    if std::str::from_utf8(payload).is_err_and(|error| error.valid_up_to() < 4) {
        let found = payload.iter().take(4).map(|b| format!("{b:02X}")).collect::<Vec<_>>().join(" ");
        return Err(unknown("undecodable", &format!("found bytes that begin with {found}")));
    }
    let mut cursor = Cursor::new(payload);
    let list = cursor.peek() == Some(b'[');
    if cursor.peek() != Some(b'{') {
        return if list && cursor.value().is_some() && cursor.at_end() && is_json(payload) {
            Err(unknown("unknown_record", "found a list; each of its elements may be a record, but only by itself"))
        } else {
            Ok(Format::Auto)
        };
    }
    let mut seen = Seen::default();
    let ended = seen.object(&mut cursor);
    if let Some(format) = seen.format() {
        return Ok(format);
    }
    // Ion text may look like JSON for a while, and may have other values behind the first.
    if !(ended && cursor.at_end() && is_json(payload)) {
        return Ok(Format::Auto);
    }
    Err(if seen.flattened {
        let reason = "found a row by itself, as the transform ExtractNewRecordState leaves it (__op, __deleted): without the change around it, \
                      nothing tells its table and its version; take the transform out of the connector";
        unknown("unknown_record", reason)
    } else {
        unknown("unknown_record", "found a JSON object with the members of none of them")
    })
}

fn is_json(payload: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(payload).is_ok()
}

fn unknown(kind: &str, found: &str) -> Fault {
    let reason = format!(
        "expected a record of QLDB ({{qldbStreamArn, recordType, payload}} in Ion, or a block of its journal), Lindorm ({{op, table, ts, data}} in JSON) or Debezium \
         ({{op, before, after, source}} in JSON, alone or as payload), {found}"
    );
    Fault::new(kind, reason)
}

/// The fault of a message whose schema is in a registry: a zero byte, four bytes of the schema's id, and then Avro, Protobuf or JSON (Confluent
/// wire format).
pub(super) fn schema_registry(payload: &[u8]) -> Option<Fault> {
    let [0, _, _, _, _, ..] = payload else { return None };
    let reason = "expected JSON, found a message in the wire format of a schema registry (a zero byte, the number of a schema, and Avro, Protobuf \
                  or JSON): set value.converter=org.apache.kafka.connect.json.JsonConverter in the connector, and key.converter too";
    Some(Fault::new("undecodable", reason))
}

/// What the outermost members of an object tell.
#[derive(Default)]
struct Seen {
    record_type: bool,
    /// `blockAddress` and `transactionId`, which a block of a journal has.
    block: [bool; 2],
    /// `op` as a text.
    op: bool,
    /// `data` as a list.
    data: bool,
    /// `source`, `before` or `after`.
    images: bool,
    source: bool,
    /// `payload`, and what it holds.
    payload: bool,
    inside: Option<Box<Seen>>,
    schema: bool,
    /// `ts_ms`, which is all that a heartbeat has.
    time: bool,
    /// What only a message about a transaction has.
    transaction: bool,
    /// What only a message about a schema has.
    definition: bool,
    flattened: bool,
    /// Members that tell nothing.
    others: usize,
    /// 0 outermost, 1 inside `payload`.
    depth: u8,
}

impl Seen {
    /// Passes an object; false where the text breaks off or is no JSON.
    fn object(&mut self, cursor: &mut Cursor<'_>) -> bool {
        cursor.advance();
        loop {
            match cursor.next_field() {
                None => return false,
                Some(None) => return true,
                Some(Some(name)) => {
                    self.member(name, cursor.peek());
                    let passed = if name == b"\"payload\"" && cursor.peek() == Some(b'{') && self.depth == 0 {
                        let inside = self.inside.insert(Box::new(Self { depth: 1, ..Self::default() }));
                        inside.object(cursor)
                    } else {
                        cursor.value().is_some()
                    };
                    if !passed {
                        return false;
                    }
                }
            }
        }
    }

    /// Takes in a member by its name and the first byte of its value.
    fn member(&mut self, name: &[u8], first: Option<u8>) {
        match name {
            b"\"recordType\"" | b"\"qldbStreamArn\"" => self.record_type = true,
            b"\"blockAddress\"" => (self.block[0], self.others) = (true, self.others + 1),
            b"\"transactionId\"" => (self.block[1], self.others) = (true, self.others + 1),
            b"\"op\"" => self.op = first == Some(b'"'),
            b"\"data\"" => self.data = first == Some(b'['),
            b"\"source\"" => (self.source, self.images) = (true, true),
            b"\"before\"" | b"\"after\"" => self.images = true,
            b"\"payload\"" => self.payload = true,
            b"\"schema\"" => self.schema = true,
            b"\"ts_ms\"" => self.time = true,
            b"\"event_count\"" | b"\"data_collections\"" => self.transaction = true,
            b"\"ddl\"" | b"\"tableChanges\"" => self.definition = true,
            b"\"__op\"" | b"\"__deleted\"" => self.flattened = true,
            _ => self.others += 1,
        }
    }

    fn format(&self) -> Option<Format> {
        if self.record_type || self.depth == 0 && self.block == [true, true] {
            return Some(Format::Qldb);
        }
        if self.op && self.data {
            return Some(Format::Lindorm);
        }
        let enveloped = self.inside.as_ref().is_some_and(|inside| inside.is_debezium()) || self.payload && self.schema;
        (enveloped || self.is_debezium()).then_some(Format::Debezium)
    }

    /// Whether it is a change, or one of the messages that Debezium sends beside them.
    fn is_debezium(&self) -> bool {
        let change = self.op && self.images;
        let heartbeat = self.time && self.others == 0 && !self.op && !self.images && !self.data && !self.payload && !self.flattened;
        change || heartbeat || self.transaction || self.source && self.definition
    }
}

#[cfg(test)]
mod tests;
