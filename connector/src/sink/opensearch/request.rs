//! Operations to the body of a `_bulk` request: one action line each, and the document's line below it where there is a document. A
//! tombstone is a document like any other; a merge is an update by a script (`merge`).
//!
//! Pure: bytes are appended to what the caller has and nothing else happens. Never parses or checks a document, never asks for a refresh, and
//! never writes an action without a version: every line carries `version` and `version_type`, so the index itself refuses what is stale, but for
//! merges, whose versions are inside.
//! (Format: OpenSearch Bulk API; newline-delimited JSON, the last byte is a newline.)

use std::io::{self, Write};

use super::merge;
use crate::operation::{Operation, Target};
use crate::plan::tombstone;
use crate::revision::Document;

/// Appends the lines of one operation. With `require_alias` the server refuses the write when the name is no alias (any more); it heeds
/// this on writes of documents, and ignores it on deletes ([`append_guards`]).
pub fn append(operation: &Operation, require_alias: bool, out: &mut Vec<u8>) {
    append_action(operation, require_alias, out);
    match operation {
        Operation::Index { document, .. } => append_document(document, out),
        Operation::Tombstone { time, .. } => append_document(&tombstone::document(*time), out),
        Operation::Merge { cells, time, .. } => merge::append_line(cells, *time, out),
        Operation::Delete { .. } => {}
    }
}

fn append_document(document: &Document, out: &mut Vec<u8>) {
    out.extend_from_slice(document.as_bytes());
    out.push(b'\n');
}

fn append_action(operation: &Operation, require_alias: bool, out: &mut Vec<u8>) {
    match operation {
        Operation::Index { target, .. } | Operation::Tombstone { target, .. } => {
            out.extend_from_slice(br#"{"index":{"#);
            append_target(target, out);
            out.extend_from_slice(if require_alias { b",\"require_alias\":true}}\n" } else { b"}}\n" });
        }
        Operation::Delete { target } => {
            out.extend_from_slice(br#"{"delete":{"#);
            append_target(target, out);
            out.extend_from_slice(b"}}\n");
        }
        Operation::Merge { target, .. } => {
            out.extend_from_slice(br#"{"update":{"#);
            append_place(target, out);
            out.extend_from_slice(br#","retry_on_conflict":"#);
            out.extend_from_slice(RETRIES);
            append_routing(target, out);
            out.extend_from_slice(if require_alias { b",\"require_alias\":true}}\n" } else { b"}}\n" });
        }
    }
}

/// How often the server itself tries a merge again that another write of the document came in between of.
const RETRIES: &[u8] = b"5";

/// The name of an operation's action: the key of its action line, and of its item in the answer.
pub fn action(operation: &Operation) -> &'static str {
    match operation {
        Operation::Index { .. } | Operation::Tombstone { .. } => "index",
        Operation::Delete { .. } => "delete",
        Operation::Merge { .. } => "update",
    }
}

/// Writes lines in portions, so that the whole body never exists: small lines together, and a large document as it is.
#[derive(Debug)]
pub struct Portions<W> {
    portion: Vec<u8>,
    out: W,
}

/// Bytes that are written together.
const PORTION: usize = 64 * 1024;

impl<W: Write> Portions<W> {
    /// Nothing written yet.
    pub fn new(out: W) -> Self {
        Self { portion: Vec::with_capacity(2 * PORTION), out }
    }

    /// Writes the lines of one operation, as [`append`] makes them.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn append(&mut self, operation: &Operation, require_alias: bool) -> io::Result<()> {
        match operation {
            Operation::Index { document, .. } if document.0.len() >= PORTION => {
                append_action(operation, require_alias, &mut self.portion);
                self.flush()?;
                self.out.write_all(document.as_bytes())?;
                self.portion.push(b'\n');
            }
            _ => append(operation, require_alias, &mut self.portion),
        }
        if self.portion.len() >= PORTION { self.flush() } else { Ok(()) }
    }

    /// What is written next by the caller itself.
    pub fn portion(&mut self) -> &mut Vec<u8> {
        &mut self.portion
    }

    /// Writes what is left, and gives the writer back.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.out)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.portion)?;
        self.portion.clear();
        Ok(())
    }
}

/// The id in [`append_guards`]. Nothing is ever written under it.
const GUARD_ID: &str = "revsync-guard";

/// Appends actions that change nothing, keep the server from making the index `name` where it is gone, and tell which index was reached.
/// Gives their number; their items come after those of the operations and belong to none.
///
/// A write to a missing index makes one, with mappings that nobody chose, and so does a delete with an external version (on whose line
/// `require_alias` is not read). The server decides this per index name of a request, and a single action with `require_alias` decides it
/// for all actions on that name. The guard is an update of a document that does not exist: it answers `document_missing_exception` with the
/// UUID of the index. On a name that is no alias the first one cannot reach the index, so a second one without the condition asks for the
/// UUID.
/// (Seen on OpenSearch 2.19 and 3.9; `TransportBulkAction` merges `require_alias` per index before it creates anything.)
pub fn append_guards(name: &str, alias: bool, out: &mut Vec<u8>) -> usize {
    append_guard(name, true, out);
    if alias {
        return 1;
    }
    append_guard(name, false, out);
    2
}

fn append_guard(name: &str, require_alias: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"update":{"_index":"#);
    append_string(name, out);
    out.extend_from_slice(br#","_id":"#);
    append_string(GUARD_ID, out);
    out.extend_from_slice(if require_alias { b",\"require_alias\":true}}\n" } else { b"}}\n" });
    out.extend_from_slice(b"{\"doc\":{}}\n");
}

fn append_place(target: &Target, out: &mut Vec<u8>) {
    out.extend_from_slice(br#""_index":"#);
    append_string(&target.index, out);
    out.extend_from_slice(br#","_id":"#);
    append_string(&target.id, out);
}

fn append_target(target: &Target, out: &mut Vec<u8>) {
    append_place(target, out);
    out.extend_from_slice(br#","version":"#);
    out.extend_from_slice(itoa::Buffer::new().format(target.version).as_bytes());
    out.extend_from_slice(br#","version_type":""#);
    out.extend_from_slice(target.version_type.as_str().as_bytes());
    out.push(b'"');
    append_routing(target, out);
}

fn append_routing(target: &Target, out: &mut Vec<u8>) {
    if let Some(routing) = &target.routing {
        out.extend_from_slice(br#","routing":"#);
        append_string(routing, out);
    }
}

/// Appends a JSON string. Text beyond ASCII stays as it is: the body is UTF-8.
pub(super) fn append_string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| must_escape(*byte)) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            byte => out.extend_from_slice(&[b'\\', b'u', b'0', b'0', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xf)]]),
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn must_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::revision::{Cells, VersionType};

    fn target(index: &str, id: &str, version: u64) -> Target {
        Target { index: index.into(), id: id.to_owned(), version, version_type: VersionType::External, routing: None }
    }

    fn index(target: Target, document: &str) -> Operation {
        Operation::Index { target, document: Document(Bytes::copy_from_slice(document.as_bytes())) }
    }

    fn text(operations: &[Operation]) -> String {
        let mut out = Vec::new();
        operations.iter().for_each(|operation| append(operation, false, &mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_write_is_an_action_line_and_the_document_as_it_is() {
        assert_eq!(
            text(&[index(target("people", "4Ksf", 0), r#"{"price":442.30}"#)]),
            "{\"index\":{\"_index\":\"people\",\"_id\":\"4Ksf\",\"version\":0,\"version_type\":\"external\"}}\n{\"price\":442.30}\n"
        );
    }

    #[test]
    fn in_portions_it_is_the_same_text() {
        let sizes = [10, PORTION - 1, PORTION, 3 * PORTION, 0, 5, PORTION, PORTION];
        let documents = sizes.map(|size| format!("{{\"a\":\"{}\"}}", "x".repeat(size)));
        let mut operations: Vec<_> = documents.iter().map(|document| index(target("people", "1", 7), document)).collect();
        operations.insert(3, Operation::Delete { target: target("people", "2", 8) });
        let mut portions = Portions::new(Vec::new());
        operations.iter().for_each(|operation| portions.append(operation, false).unwrap());
        assert_eq!(String::from_utf8(portions.finish().unwrap()).unwrap(), text(&operations));
    }

    #[test]
    fn a_delete_is_one_line() {
        assert_eq!(
            text(&[Operation::Delete { target: target("people", "4Ksf", 9_223_372_036_854_775_807) }]),
            "{\"delete\":{\"_index\":\"people\",\"_id\":\"4Ksf\",\"version\":9223372036854775807,\"version_type\":\"external\"}}\n"
        );
    }

    #[test]
    fn a_tombstone_is_written_as_a_document_at_the_deletes_version() {
        let tombstone = Operation::Tombstone { target: target("people", "4Ksf", 7), time: 1_732_868_100_000 };
        assert_eq!(
            text(std::slice::from_ref(&tombstone)),
            "{\"index\":{\"_index\":\"people\",\"_id\":\"4Ksf\",\"version\":7,\"version_type\":\"external\"}}\n\
             {\"revsync\":{\"v\":1,\"deleted\":true,\"time\":\"2024-11-29T08:15:00Z\"}}\n"
        );
        assert_eq!((action(&tombstone), tombstone.action()), ("index", "tombstone"));
    }

    #[test]
    fn a_source_whose_clock_ties_is_sent_as_external_gte_with_its_routing() {
        let target = Target { version_type: VersionType::ExternalGte, routing: Some("eu\"1".to_owned()), ..target("people", "1", 5) };
        assert_eq!(
            text(&[Operation::Delete { target }]),
            "{\"delete\":{\"_index\":\"people\",\"_id\":\"1\",\"version\":5,\"version_type\":\"external_gte\",\"routing\":\"eu\\\"1\"}}\n"
        );
    }

    #[test]
    fn a_merge_is_an_update_without_a_version_of_its_own() {
        let merge = |target| Operation::Merge { target, cells: Cells { erased: Some(7), columns: vec![] }.into(), time: 0 };
        let lines = |operation: &Operation, require_alias| {
            let mut out = Vec::new();
            append(operation, require_alias, &mut out);
            let text = String::from_utf8(out).unwrap();
            let (action, script) = text.split_once('\n').unwrap();
            (action.to_owned(), script.to_owned())
        };
        let plain = merge(target("items", "MX-200", 7));
        let (action, script) = lines(&plain, true);
        assert_eq!(action, r#"{"update":{"_index":"items","_id":"MX-200","retry_on_conflict":5,"require_alias":true}}"#);
        assert!(script.starts_with(r#"{"scripted_upsert":true,"#) && script.ends_with("]}}}\n"), "{script}");
        let routed = merge(Target { routing: Some("eu".to_owned()), ..target("items", "MX-200", 7) });
        assert_eq!(lines(&routed, false).0, r#"{"update":{"_index":"items","_id":"MX-200","retry_on_conflict":5,"routing":"eu"}}"#);
        assert_eq!(super::action(&plain), "update");
    }

    #[test]
    fn an_alias_is_required_on_writes_only() {
        let mut out = Vec::new();
        append(&index(target("people", "1", 1), "{}"), true, &mut out);
        append(&Operation::Delete { target: target("people", "1", 2) }, true, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"index\":{\"_index\":\"people\",\"_id\":\"1\",\"version\":1,\"version_type\":\"external\",\"require_alias\":true}}\n{}\n\
             {\"delete\":{\"_index\":\"people\",\"_id\":\"1\",\"version\":2,\"version_type\":\"external\"}}\n"
        );
    }

    #[test]
    fn guards_change_nothing_and_one_of_them_requires_an_alias() {
        let mut out = Vec::new();
        assert_eq!(append_guards("people", true, &mut out), 1);
        let alias = "{\"update\":{\"_index\":\"people\",\"_id\":\"revsync-guard\",\"require_alias\":true}}\n{\"doc\":{}}\n";
        assert_eq!(String::from_utf8(out.clone()).unwrap(), alias);
        out.clear();
        assert_eq!(append_guards("people", false, &mut out), 2);
        let plain = "{\"update\":{\"_index\":\"people\",\"_id\":\"revsync-guard\"}}\n{\"doc\":{}}\n";
        assert_eq!(String::from_utf8(out).unwrap(), format!("{alias}{plain}"));
    }

    proptest! {
        #[test]
        fn any_id_comes_back_from_the_action_line(id in ".{1,40}", routing in proptest::option::of("\\PC{0,8}|[\\x00-\\x1f]{1,4}")) {
            let target = Target { routing: routing.clone(), ..target("people", &id, 7) };
            let written = text(&[index(target, "{}")]);
            let lines: Vec<&str> = written.split_terminator('\n').collect();
            prop_assert_eq!(lines.len(), 2);
            let action: Value = serde_json::from_str(lines[0]).unwrap();
            prop_assert_eq!(action["index"]["_id"].as_str(), Some(id.as_str()));
            prop_assert_eq!(action["index"]["routing"].as_str(), routing.as_deref());
        }
    }
}
