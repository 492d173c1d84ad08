//! Operations to the body of a `_bulk` request: one action line each, and the document's line below it where there is a document.
//!
//! Pure: bytes are appended to one buffer and nothing else happens. Never parses or checks a document, never asks for a refresh, and never
//! writes an action without a version: every line carries `version` and `version_type`, so the index itself refuses what is stale.
//! (Format: OpenSearch Bulk API; newline-delimited JSON, the last byte is a newline.)

use std::sync::Arc;

use crate::operation::{Operation, Target};

/// Appends the lines of all operations, in their order. A delete has no document line.
pub fn encode(operations: &[Operation], out: &mut Vec<u8>) {
    for operation in operations {
        append(operation, false, out);
    }
}

/// Appends the lines of one operation. With `require_alias` the server refuses the write when the name is no alias (any more), instead of
/// making an index of that name; it heeds this on writes of documents, and ignores it on deletes ([`append_guard`]).
pub fn append(operation: &Operation, require_alias: bool, out: &mut Vec<u8>) {
    match operation {
        Operation::Index { target, document } => {
            out.extend_from_slice(br#"{"index":{"#);
            append_target(target, out);
            out.extend_from_slice(if require_alias { b",\"require_alias\":true}}\n" } else { b"}}\n" });
            out.extend_from_slice(document.as_bytes());
            out.push(b'\n');
        }
        Operation::Delete { target } => {
            out.extend_from_slice(br#"{"delete":{"#);
            append_target(target, out);
            out.extend_from_slice(b"}}\n");
        }
    }
}

/// The id in [`append_guard`]. No document has it, and none is ever written under it.
const GUARD_ID: &str = "revsync-alias-guard";

/// Appends an action that changes nothing and keeps the server from making an index where the alias `name` is gone.
///
/// A delete with an external version makes a missing index just as a write does, but `require_alias` is not read on delete lines. The server
/// decides per index name of a request, and one action with `require_alias` decides for all of that name; so a request that has only deletes
/// for a name gets one update of a document that does not exist. Its item answers 404 and belongs to no operation.
pub fn append_guard(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"update":{"_index":"#);
    append_string(name, out);
    out.extend_from_slice(br#","_id":"#);
    append_string(GUARD_ID, out);
    out.extend_from_slice(b",\"require_alias\":true}}\n{\"doc\":{}}\n");
}

/// Index names of a request that have deletes and no document writes, in the order in which they first come.
pub fn only_deletes(operations: &[Operation]) -> Vec<Arc<str>> {
    let mut names: Vec<(&Arc<str>, bool)> = Vec::new();
    for operation in operations {
        let index = &operation.target().index;
        let deletes = matches!(operation, Operation::Delete { .. });
        // Nearly always one name, and the same allocation as before.
        match names.iter_mut().find(|(name, _)| Arc::ptr_eq(name, index) || *name == index) {
            Some((_, only)) => *only &= deletes,
            None => names.push((index, deletes)),
        }
    }
    names.into_iter().filter(|(_, only)| *only).map(|(name, _)| Arc::clone(name)).collect()
}

fn append_target(target: &Target, out: &mut Vec<u8>) {
    out.extend_from_slice(br#""_index":"#);
    append_string(&target.index, out);
    out.extend_from_slice(br#","_id":"#);
    append_string(&target.id, out);
    out.extend_from_slice(br#","version":"#);
    out.extend_from_slice(itoa::Buffer::new().format(target.version).as_bytes());
    out.extend_from_slice(br#","version_type":""#);
    out.extend_from_slice(target.version_type.as_str().as_bytes());
    out.push(b'"');
    if let Some(routing) = &target.routing {
        out.extend_from_slice(br#","routing":"#);
        append_string(routing, out);
    }
}

/// Appends a JSON string. Text beyond ASCII stays as it is: the body is UTF-8.
fn append_string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| must_escape(*byte)) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            byte => out.extend_from_slice(&[
                b'\\',
                b'u',
                b'0',
                b'0',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 0xf)],
            ]),
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
    use crate::revision::{Document, VersionType};

    fn target(index: &str, id: &str, version: u64) -> Target {
        Target { index: index.into(), id: id.to_owned(), version, version_type: VersionType::External, routing: None }
    }

    fn index(target: Target, document: &str) -> Operation {
        Operation::Index { target, document: Document(Bytes::copy_from_slice(document.as_bytes())) }
    }

    fn text(operations: &[Operation]) -> String {
        let mut out = Vec::new();
        encode(operations, &mut out);
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
    fn a_delete_is_one_line() {
        assert_eq!(
            text(&[Operation::Delete { target: target("people", "4Ksf", 9_223_372_036_854_775_807) }]),
            "{\"delete\":{\"_index\":\"people\",\"_id\":\"4Ksf\",\"version\":9223372036854775807,\"version_type\":\"external\"}}\n"
        );
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
    fn only_names_without_a_document_write_need_a_guard() {
        let operations = [
            Operation::Delete { target: target("a", "1", 1) },
            Operation::Delete { target: target("b", "1", 1) },
            index(target("a", "2", 1), "{}"),
            Operation::Delete { target: target("b", "2", 1) },
        ];
        assert_eq!(only_deletes(&operations), vec![Arc::from("b")]);
        assert_eq!(only_deletes(&[]), Vec::<Arc<str>>::new());
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
