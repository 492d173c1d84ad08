//! A revision as a document of a history: the members of the document, and one more, `revsync`, that says what the revision was.
//!
//! `{"Sku":"MX-200",…,"revsync":{"op":"index","id":"3QxYbM8sTkE1pLw0Zr9uAc","version":2,"table":"Item","tableId":…,"txId":…,"txTime":…,
//! "blockAddress":{…},"hash":…}}`. A delete and a redaction have that member only. Never has a field `deleted` in it, so that nothing takes it for
//! a tombstone ([`tombstone`](super::tombstone)); never writes over a member of the document.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::projection::{Paths, project};
use super::tombstone::FIELD;
use crate::codec::ion_json::write_string;
use crate::codec::json_cursor::Cursor;
use crate::memory;
use crate::revision::{Change, Document, Revision};

/// What the revision was, in the member `revsync`: `index`, `delete` or `redacted`.
pub const OP: &str = "op";
/// The `op` of a revision whose content was removed afterwards.
pub const REDACTED: &str = "redacted";

/// Why a revision cannot be a document of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// Its document is no JSON object.
    NoJson,
    /// Its document has a member `revsync` of its own.
    Clash,
}

/// The id of a revision's document, which is made of the document's id and of the revision's version.
pub fn id(id: &str, version: u64) -> String {
    format!("{id}@{version}")
}

/// The `op` of a change.
pub fn op(change: &Change) -> &'static str {
    match change {
        Change::Put(_) | Change::Cells(_) => "index",
        Change::Delete => "delete",
        Change::Redaction => REDACTED,
    }
}

/// The document of a revision, with what `fields` (all where empty) and `exclude` leave of its members.
///
/// # Errors
/// A document that is no object, or has a member of the name of ours.
pub fn document(revision: &Revision, fields: &Paths, exclude: &Paths) -> Result<Document, Unusable> {
    let empty = Document(bytes::Bytes::from_static(b"{}"));
    let source = if let Change::Put(document) = &revision.change { document } else { &empty };
    let known = revision.metadata.as_ref().map_or(0, |metadata| metadata.0.len());
    let mut out = Vec::with_capacity(source.0.len() + known + revision.id.len() + revision.table.len() + 96);
    if fields.is_empty() && exclude.is_empty() {
        out.extend_from_slice(source.as_bytes().trim_ascii_end());
    } else {
        project(source.as_bytes(), fields, exclude, None, &mut out).ok_or(Unusable::NoJson)?;
    }
    if has_member(&out)? {
        return Err(Unusable::Clash);
    }
    if out.pop() != Some(b'}') {
        return Err(Unusable::NoJson);
    }
    if !out.ends_with(b"{") {
        out.push(b',');
    }
    out.extend_from_slice(format!("\"{FIELD}\":{{\"{OP}\":\"{}\",\"id\":", op(&revision.change)).as_bytes());
    write_string(&revision.id, &mut out);
    out.extend_from_slice(b",\"version\":");
    out.extend_from_slice(itoa::Buffer::new().format(revision.version).as_bytes());
    out.extend_from_slice(b",\"table\":");
    write_string(&revision.table, &mut out);
    if let Some(metadata) = &revision.metadata {
        // What was just written, and the source's own name for what happened.
        static SAID: LazyLock<Paths> = LazyLock::new(|| Paths::parse([OP, "id", "version", "table"]).unwrap_or_default());
        let mut known = Vec::with_capacity(metadata.0.len());
        project(metadata.as_bytes(), &Paths::default(), &SAID, None, &mut known).ok_or(Unusable::NoJson)?;
        if let Some(members) = known.strip_prefix(b"{").and_then(|known| known.strip_suffix(b"}")).filter(|members| !members.is_empty()) {
            out.push(b',');
            out.extend_from_slice(members);
        }
    }
    out.extend_from_slice(b"}}");
    Ok(Document(memory::copy(&out)))
}

/// Whether an object has a member of the name of ours.
fn has_member(json: &[u8]) -> Result<bool, Unusable> {
    const KEY: &[u8] = b"\"revsync\"";
    if memchr::memmem::find(json, KEY).is_none() {
        return Ok(false);
    }
    let mut cursor = Cursor::new(json);
    if cursor.peek() != Some(b'{') {
        return Err(Unusable::NoJson);
    }
    cursor.advance();
    while let Some(key) = cursor.next_field().ok_or(Unusable::NoJson)? {
        if key == KEY {
            return Ok(true);
        }
        cursor.value().ok_or(Unusable::NoJson)?;
    }
    Ok(false)
}

/// What the source knows of a revision, without its hash: the document of an index of newest revisions has the same field for it whether or not
/// its table has a history too.
pub(super) fn without_hash(metadata: &Document) -> Cow<'_, [u8]> {
    static HASH: LazyLock<Paths> = LazyLock::new(|| Paths::parse(["hash"]).unwrap_or_default());
    if memchr::memmem::find(metadata.as_bytes(), b"\"hash\"").is_none() {
        return Cow::Borrowed(metadata.as_bytes());
    }
    let mut out = Vec::with_capacity(metadata.0.len());
    match project(metadata.as_bytes(), &Paths::default(), &HASH, None, &mut out) {
        Some(()) => Cow::Owned(out),
        None => Cow::Borrowed(metadata.as_bytes()),
    }
}

/// A document of a history without its member `revsync`; `None` where nothing is left.
pub fn bare(document: &Document) -> Option<Document> {
    static OURS: LazyLock<Paths> = LazyLock::new(|| Paths::parse([FIELD]).unwrap_or_default());
    let mut out = Vec::with_capacity(document.0.len());
    project(document.as_bytes(), &Paths::default(), &OURS, None, &mut out)?;
    (out != b"{}").then(|| Document(out.into()))
}

/// Whether a stored document is one of a history that says of this version that its content was removed.
pub fn is_redacted(source: &[u8], version: u64) -> bool {
    #[derive(Deserialize)]
    struct Said<'a> {
        #[serde(borrow)]
        op: Cow<'a, str>,
        version: u64,
    }
    let members: Option<HashMap<Cow<'_, str>, &RawValue>> = serde_json::from_slice(source).ok();
    let member = members.as_ref().and_then(|members| members.get(FIELD));
    let said = member.and_then(|member| serde_json::from_str::<Said<'_>>(member.get()).ok());
    said.is_some_and(|said| said.op == REDACTED && said.version == version)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::Value;

    use super::*;
    use crate::plan::tombstone;
    use crate::revision::VersionType;

    fn revision(change: Change) -> Revision {
        let metadata = r#"{"table":"Item","id":"a","version":2,"tableId":"t","txId":"x","txTime":"2020-03-01","hash":"h"}"#;
        Revision {
            table: "Item".into(),
            id: "a".into(),
            version: 2,
            version_type: VersionType::External,
            change,
            metadata: Some(Document(Bytes::from_static(metadata.as_bytes()))),
            committed: None,
        }
    }

    fn put(json: &'static str) -> Revision {
        revision(Change::Put(Document(Bytes::from_static(json.as_bytes()))))
    }

    fn written(revision: &Revision, fields: &[&str], exclude: &[&str]) -> String {
        let document = document(revision, &Paths::parse(fields).unwrap(), &Paths::parse(exclude).unwrap()).unwrap();
        serde_json::from_slice::<Value>(document.as_bytes()).unwrap();
        String::from_utf8(document.0.to_vec()).unwrap()
    }

    const KNOWN: &str = r#""id":"a","version":2,"table":"Item","tableId":"t","txId":"x","txTime":"2020-03-01","hash":"h"}}"#;

    #[test]
    fn a_put_keeps_its_members_and_says_what_it_was() {
        assert_eq!(
            written(&put(r#"{"b":442.30,"c":{"revsync":1}}"#), &[], &[]),
            format!(r#"{{"b":442.30,"c":{{"revsync":1}},"revsync":{{"op":"index",{KNOWN}"#)
        );
        assert_eq!(written(&put("{}"), &[], &[]), format!(r#"{{"revsync":{{"op":"index",{KNOWN}"#));
        assert_eq!(written(&put(r#"{"b":1,"c":2}"#), &["b"], &[]), format!(r#"{{"b":1,"revsync":{{"op":"index",{KNOWN}"#));
        assert_eq!(written(&put(r#"{"b":1,"c":2}"#), &[], &["b", "c"]), format!(r#"{{"revsync":{{"op":"index",{KNOWN}"#));
    }

    #[test]
    fn a_delete_and_a_redaction_say_what_they_are_and_nothing_else() {
        assert_eq!(written(&revision(Change::Delete), &["b"], &[]), format!(r#"{{"revsync":{{"op":"delete",{KNOWN}"#));
        assert_eq!(written(&revision(Change::Redaction), &[], &["b"]), format!(r#"{{"revsync":{{"op":"redacted",{KNOWN}"#));
        let bare = Revision { metadata: None, ..revision(Change::Delete) };
        assert_eq!(written(&bare, &[], &[]), r#"{"revsync":{"op":"delete","id":"a","version":2,"table":"Item"}}"#);
    }

    #[test]
    fn what_a_source_calls_the_change_does_not_stand_beside_what_it_was() {
        let metadata = Some(Document(Bytes::from_static(br#"{"table":"T","id":"a","version":2,"op":"u","ts_ms":7,"source":{"op":"x"}}"#)));
        let written = written(&Revision { metadata, ..put("{}") }, &[], &[]);
        assert_eq!(written, r#"{"revsync":{"op":"index","id":"a","version":2,"table":"Item","ts_ms":7,"source":{"op":"x"}}}"#);
    }

    #[test]
    fn a_document_with_a_member_of_the_same_name_is_refused_unless_that_is_left_out() {
        let clashing = put(r#"{"b":"\"revsync\"","revsync":{"op":"index"}}"#);
        let plain = Paths::default();
        assert_eq!(document(&clashing, &plain, &plain), Err(Unusable::Clash));
        assert_eq!(document(&clashing, &Paths::parse(["revsync.op"]).unwrap(), &plain), Err(Unusable::Clash));
        assert!(written(&clashing, &[], &["revsync"]).starts_with(r#"{"b":"\"revsync\"","revsync":{"op":"index","id""#));
        assert!(written(&clashing, &["b"], &[]).starts_with(r#"{"b":"#));
        assert_eq!(document(&put("[1]"), &plain, &plain), Err(Unusable::NoJson));
    }

    #[test]
    fn no_document_of_a_history_is_taken_for_a_tombstone() {
        for change in [Change::Delete, Change::Redaction, Change::Put(Document(Bytes::from_static(b"{}")))] {
            let document = document(&revision(change), &Paths::default(), &Paths::default()).unwrap();
            assert_eq!(tombstone::read(document.as_bytes()), None);
        }
    }

    #[test]
    fn a_document_that_was_redacted_is_told_from_others() {
        let of = |revision: &Revision| is_redacted(document(revision, &Paths::default(), &Paths::default()).unwrap().as_bytes(), 2);
        assert!(of(&revision(Change::Redaction)) && !of(&revision(Change::Delete)) && !of(&put(r#"{"op":"redacted"}"#)));
        for source in ["{}", "[", r#"{"revsync":7}"#, r#"{"revsync":{"op":"redacted","version":1}}"#] {
            assert!(!is_redacted(source.as_bytes(), 2), "{source}");
        }
    }

    #[test]
    fn what_every_document_of_a_history_has_is_taken_off() {
        let of = |revision: &Revision| bare(&document(revision, &Paths::default(), &Paths::default()).unwrap());
        assert_eq!(of(&put(r#"{"b":442.30}"#)).unwrap().as_bytes(), br#"{"b":442.30}"#);
        assert_eq!((of(&put("{}")), of(&revision(Change::Delete))), (None, None));
    }

    #[test]
    fn what_a_history_knows_more_is_not_in_the_field_of_other_indices() {
        let metadata = revision(Change::Delete).metadata.unwrap();
        let without = without_hash(&metadata);
        assert_eq!(&*without, br#"{"table":"Item","id":"a","version":2,"tableId":"t","txId":"x","txTime":"2020-03-01"}"#);
    }
}
