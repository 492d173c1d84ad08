//! What every sink that keeps versions must do, as statements that run against any of them.
//!
//! A test target names the sink once, with `conformance_suite!(bench)`; each statement is then a test of its own. `bench` is an async
//! function that makes a [`Bench`], a sink with an index that no other test uses, or none where live tests are left out on purpose.
//!
//! Never asks a sink more than the contract says: reasons are not compared, nor anything about search but which documents a reader sees.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use revsync::operation::{Operation, Target};
use revsync::plan::outcome::{Outcome, Reply, judge};
use revsync::revision::{Document, MAX_VERSION, VersionType};
use revsync::sink::Contents;

/// The version and the JSON text of a document, as the sink gives them back; `None` when the document is not there.
pub(crate) type Found = Option<(u64, String)>;

/// Reads one document of an index by its id, up to date, its `_source` byte for byte (ids hold everything: `_mget` takes them where a path
/// would not).
pub(crate) type Read = Box<dyn Fn(String, String) -> Pin<Box<dyn Future<Output = Found> + Send>> + Send + Sync>;

/// The ids of all documents that somebody finds who searches an index, up to date; as many as a count of it gives.
pub(crate) type Visible = Box<dyn Fn(String) -> Pin<Box<dyn Future<Output = BTreeSet<String>> + Send>> + Send + Sync>;

/// A sink under test.
pub(crate) struct Bench {
    /// The sink.
    pub(crate) sink: Arc<dyn Contents>,
    /// How to read what is in it.
    pub(crate) read: Read,
    /// What readers of it find.
    pub(crate) visible: Visible,
    /// An index that is empty or missing, used by one statement alone. It must take any object: a server needs it created with `dynamic:
    /// false` (and `gc_deletes` above the length of a test), behind an alias that hides tombstones.
    pub(crate) index: String,
    /// What must live as long as the sink: a folder, a server.
    #[expect(dead_code, reason = "held, and never looked at")]
    pub(crate) keep: Box<dyn Any + Send>,
}

impl Bench {
    pub(crate) fn target(&self, id: &str, version: u64, version_type: VersionType) -> Target {
        Target { index: self.index.as_str().into(), id: id.to_owned(), version, version_type, routing: None }
    }

    /// A put under `external`.
    pub(crate) fn put(&self, id: &str, version: u64, document: &str) -> Operation {
        self.put_as(VersionType::External, id, version, document)
    }

    /// A put.
    pub(crate) fn put_as(&self, version_type: VersionType, id: &str, version: u64, document: &str) -> Operation {
        Operation::Index { target: self.target(id, version, version_type), document: Document(Bytes::copy_from_slice(document.as_bytes())) }
    }

    /// A delete under `external`.
    pub(crate) fn delete(&self, id: &str, version: u64) -> Operation {
        self.delete_as(VersionType::External, id, version)
    }

    /// A delete.
    pub(crate) fn delete_as(&self, version_type: VersionType, id: &str, version: u64) -> Operation {
        Operation::Delete { target: self.target(id, version, version_type) }
    }

    /// A delete under `external` that leaves a tombstone.
    pub(crate) fn tombstone(&self, id: &str, version: u64) -> Operation {
        self.tombstone_as(VersionType::External, id, version)
    }

    /// A delete that leaves a tombstone.
    pub(crate) fn tombstone_as(&self, version_type: VersionType, id: &str, version: u64) -> Operation {
        Operation::Tombstone { target: self.target(id, version, version_type), time: TIME }
    }

    /// Sends one request; the replies must be as many as the operations.
    pub(crate) async fn replies(&self, operations: Vec<Operation>) -> Vec<Reply> {
        let expected = operations.len();
        let replies = self.sink.write(operations.into()).await.expect("the request as a whole is carried out");
        assert_eq!(replies.len(), expected, "one reply for each operation");
        replies
    }

    /// Sends one request and judges its replies as a run does.
    pub(crate) async fn outcomes(&self, operations: Vec<Operation>) -> Vec<Outcome> {
        let replies = self.replies(operations.clone()).await;
        operations.iter().zip(&replies).map(|(operation, reply)| judge(operation, reply)).collect()
    }

    /// Sends one operation.
    pub(crate) async fn outcome(&self, operation: Operation) -> Outcome {
        self.outcomes(vec![operation]).await.remove(0)
    }

    /// Reads one document.
    pub(crate) async fn found(&self, id: &str) -> Found {
        (self.read)(self.index.clone(), id.to_owned()).await
    }

    /// The ids that readers find.
    pub(crate) async fn visible(&self) -> Vec<String> {
        (self.visible)(self.index.clone()).await.into_iter().collect()
    }

    /// Reads one document that has to be there.
    async fn expect(&self, id: &str, version: u64, document: &str) {
        assert_eq!(self.found(id).await, Some((version, document.to_owned())), "document {id:?}");
    }
}

/// The time of every tombstone here, and what it then says.
pub(crate) const TIME: u64 = 1_732_868_100_000;
pub(crate) const TOMBSTONE: &str = r#"{"revsync":{"v":1,"deleted":true,"time":"2024-11-29T08:15:00Z"}}"#;

use Outcome::{Absent, Deleted, Indexed, Stale};

/// One `#[tokio::test]` for each statement, against the sink that the given async function makes.
#[macro_export]
macro_rules! conformance_suite {
    ($bench:path) => {
        $crate::conformance_suite! { $bench:
            a_newer_version_replaces_an_older_one,
            an_older_version_after_a_newer_one_is_stale,
            the_same_version_again_is_stale,
            under_external_gte_the_same_version_writes_again,
            under_external_gte_an_older_version_is_stale,
            version_0_is_a_version,
            the_highest_version_is_a_version,
            a_delete_removes_the_document,
            an_older_delete_is_stale_and_the_document_stays,
            the_same_delete_again_is_stale,
            under_external_gte_the_same_delete_again_is_absent,
            under_external_gte_a_put_and_a_delete_of_one_version_come_to_the_later,
            a_redaction_replaces_the_put_of_its_version_whichever_comes_first,
            a_redaction_deletes_the_put_of_its_version_whichever_comes_first,
            a_delete_of_a_missing_document_is_absent,
            a_delete_of_a_missing_document_keeps_its_version,
            a_newer_delete_of_a_deleted_document_is_absent_and_raises_its_version,
            a_late_put_does_not_bring_a_deleted_document_back,
            a_newer_put_after_a_delete_brings_the_document_back,
            a_tombstone_is_read_by_its_id_and_found_by_nobody,
            an_older_put_after_a_tombstone_is_stale_and_the_document_stays_hidden,
            a_newer_put_after_a_tombstone_brings_the_document_back,
            a_tombstone_of_a_missing_document_is_deleted_and_keeps_its_version,
            an_older_tombstone_and_the_same_again_are_stale,
            under_external_gte_the_same_tombstone_again_is_deleted,
            a_plain_delete_takes_a_tombstone_away,
            a_delete_at_a_tombstones_own_version_takes_it_away_and_nothing_that_is_newer,
            the_statuses_are_those_of_a_bulk_reply,
            operations_on_one_document_in_one_request_apply_in_their_order,
            replies_stand_in_the_order_of_the_operations,
            an_empty_request_has_no_replies,
            ids_keep_every_character,
            ids_differ_in_every_byte,
            an_id_of_512_bytes_is_an_id,
            numbers_come_back_to_the_last_digit,
            strings_come_back_byte_for_byte,
            field_names_order_and_spaces_come_back_byte_for_byte,
            a_large_document_comes_back_whole,
            a_document_that_is_no_object_is_rejected_and_the_rest_is_written,
            two_indices_share_no_versions,
            requests_at_once_come_to_the_highest_version,
            a_whole_stream_again_changes_nothing,
            any_order_with_duplicates_comes_to_the_fold,
            any_order_under_external_gte_comes_to_the_fold,
            any_order_with_tombstones_comes_to_the_fold,
        }
    };
    ($bench:path: $($statement:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $statement() {
                // Without a bench, live tests are left out on purpose, and that was said.
                if let Some(bench) = $bench().await {
                    $crate::conformance::$statement(&bench).await;
                }
            }
        )*
    };
}

pub(crate) async fn a_newer_version_replaces_an_older_one(bench: &Bench) {
    assert_eq!(bench.outcome(bench.put("a", 1, r#"{"v":1,"gone":true}"#)).await, Indexed);
    bench.expect("a", 1, r#"{"v":1,"gone":true}"#).await;
    assert_eq!(bench.outcome(bench.put("a", 7, r#"{"v":7}"#)).await, Indexed);
    bench.expect("a", 7, r#"{"v":7}"#).await;
}

pub(crate) async fn an_older_version_after_a_newer_one_is_stale(bench: &Bench) {
    bench.outcome(bench.put("a", 7, r#"{"v":7}"#)).await;
    assert_eq!(bench.outcome(bench.put("a", 6, r#"{"v":6}"#)).await, Stale);
    bench.expect("a", 7, r#"{"v":7}"#).await;
}

pub(crate) async fn the_same_version_again_is_stale(bench: &Bench) {
    bench.outcome(bench.put("a", 7, r#"{"v":7}"#)).await;
    assert_eq!(bench.outcome(bench.put("a", 7, r#"{"v":"other"}"#)).await, Stale);
    bench.expect("a", 7, r#"{"v":7}"#).await;
}

pub(crate) async fn under_external_gte_the_same_version_writes_again(bench: &Bench) {
    bench.outcome(bench.put_as(VersionType::ExternalGte, "a", 7, r#"{"v":7}"#)).await;
    assert_eq!(bench.outcome(bench.put_as(VersionType::ExternalGte, "a", 7, r#"{"v":"later"}"#)).await, Indexed);
    bench.expect("a", 7, r#"{"v":"later"}"#).await;
}

pub(crate) async fn under_external_gte_an_older_version_is_stale(bench: &Bench) {
    bench.outcome(bench.put_as(VersionType::ExternalGte, "a", 7, r#"{"v":7}"#)).await;
    assert_eq!(bench.outcome(bench.put_as(VersionType::ExternalGte, "a", 6, r#"{"v":6}"#)).await, Stale);
    assert_eq!(bench.outcome(bench.delete_as(VersionType::ExternalGte, "a", 6)).await, Stale);
    bench.expect("a", 7, r#"{"v":7}"#).await;
}

pub(crate) async fn version_0_is_a_version(bench: &Bench) {
    assert_eq!(bench.outcome(bench.put("a", 0, r#"{"v":0}"#)).await, Indexed);
    bench.expect("a", 0, r#"{"v":0}"#).await;
    assert_eq!(bench.outcome(bench.put("a", 0, r#"{"v":"again"}"#)).await, Stale);
    assert_eq!(bench.outcome(bench.delete("b", 0)).await, Absent);
    assert_eq!(bench.outcome(bench.put("b", 0, r#"{"v":0}"#)).await, Stale);
    assert_eq!(bench.outcome(bench.put("a", 1, r#"{"v":1}"#)).await, Indexed);
}

pub(crate) async fn the_highest_version_is_a_version(bench: &Bench) {
    assert_eq!(bench.outcome(bench.put("a", MAX_VERSION - 1, r#"{"v":1}"#)).await, Indexed);
    assert_eq!(bench.outcome(bench.put("a", MAX_VERSION, r#"{"v":2}"#)).await, Indexed);
    bench.expect("a", MAX_VERSION, r#"{"v":2}"#).await;
    assert_eq!(bench.outcome(bench.put("a", MAX_VERSION - 1, r#"{"v":1}"#)).await, Stale);
    assert_eq!(bench.outcome(bench.delete("b", MAX_VERSION)).await, Absent);
    assert_eq!(bench.outcome(bench.put("b", MAX_VERSION, r#"{"v":2}"#)).await, Stale);
}

pub(crate) async fn a_delete_removes_the_document(bench: &Bench) {
    bench.outcome(bench.put("a", 1, r#"{"v":1}"#)).await;
    assert_eq!(bench.outcome(bench.delete("a", 2)).await, Deleted);
    assert_eq!(bench.found("a").await, None);
}

pub(crate) async fn an_older_delete_is_stale_and_the_document_stays(bench: &Bench) {
    bench.outcome(bench.put("a", 5, r#"{"v":5}"#)).await;
    assert_eq!(bench.outcome(bench.delete("a", 4)).await, Stale);
    assert_eq!(bench.outcome(bench.delete("a", 5)).await, Stale);
    bench.expect("a", 5, r#"{"v":5}"#).await;
}

pub(crate) async fn the_same_delete_again_is_stale(bench: &Bench) {
    bench.outcome(bench.put("a", 1, r#"{"v":1}"#)).await;
    bench.outcome(bench.delete("a", 2)).await;
    assert_eq!(bench.outcome(bench.delete("a", 2)).await, Stale);
    assert_eq!(bench.found("a").await, None);
}

pub(crate) async fn under_external_gte_the_same_delete_again_is_absent(bench: &Bench) {
    bench.outcome(bench.put_as(VersionType::ExternalGte, "a", 1, r#"{"v":1}"#)).await;
    assert_eq!(bench.outcome(bench.delete_as(VersionType::ExternalGte, "a", 2)).await, Deleted);
    assert_eq!(bench.outcome(bench.delete_as(VersionType::ExternalGte, "a", 2)).await, Absent);
    assert_eq!(bench.found("a").await, None);
}

pub(crate) async fn under_external_gte_a_put_and_a_delete_of_one_version_come_to_the_later(bench: &Bench) {
    let gte = VersionType::ExternalGte;
    bench.outcome(bench.put_as(gte, "a", 3, r#"{"v":3}"#)).await;
    assert_eq!(bench.outcome(bench.delete_as(gte, "a", 3)).await, Deleted);
    assert_eq!(bench.found("a").await, None);
    assert_eq!(bench.outcome(bench.put_as(gte, "a", 3, r#"{"v":"back"}"#)).await, Indexed);
    bench.expect("a", 3, r#"{"v":"back"}"#).await;
}

/// A put comes under `external`, and what the redaction of its revision writes under `external_gte`.
pub(crate) async fn a_redaction_replaces_the_put_of_its_version_whichever_comes_first(bench: &Bench) {
    let redaction = |id: &str| bench.put_as(VersionType::ExternalGte, id, 3, r#"{"revsync":{"op":"redacted"}}"#);
    let put = |id: &str| bench.put(id, 3, r#"{"v":"secret"}"#);
    assert_eq!(bench.outcome(put("put@3")).await, Indexed);
    assert_eq!(bench.outcome(redaction("put@3")).await, Indexed);
    assert_eq!(bench.outcome(redaction("redaction@3")).await, Indexed);
    assert_eq!(bench.outcome(put("redaction@3")).await, Stale);
    assert_eq!(bench.outcomes(vec![put("together@3"), redaction("together@3"), put("together@3")]).await, [Indexed, Indexed, Stale]);
    for id in ["put@3", "redaction@3", "together@3"] {
        bench.expect(id, 3, r#"{"revsync":{"op":"redacted"}}"#).await;
    }
    assert_eq!(bench.visible().await, ["put@3", "redaction@3", "together@3"], "it is no tombstone");
}

/// As above, where the rule erases: with a delete, or with a tombstone in its place.
pub(crate) async fn a_redaction_deletes_the_put_of_its_version_whichever_comes_first(bench: &Bench) {
    let gte = VersionType::ExternalGte;
    for (leaves, erased) in [("nothing", Absent), ("tombstone", Deleted)] {
        let redaction = |id: &str| if leaves == "nothing" { bench.delete_as(gte, id, 3) } else { bench.tombstone_as(gte, id, 3) };
        let [first, second, newer] = ["first", "second", "newer"].map(|id| format!("{leaves}-{id}"));
        assert_eq!(bench.outcome(bench.put(&first, 3, r#"{"v":"secret"}"#)).await, Indexed);
        assert_eq!(bench.outcome(redaction(&first)).await, Deleted);
        assert_eq!(bench.outcome(redaction(&second)).await, erased);
        assert_eq!(bench.outcome(bench.put(&second, 3, r#"{"v":"secret"}"#)).await, Stale);
        bench.outcome(bench.put(&newer, 4, r#"{"v":4}"#)).await;
        assert_eq!(bench.outcome(redaction(&newer)).await, Stale);
        bench.expect(&newer, 4, r#"{"v":4}"#).await;
    }
    assert_eq!(bench.visible().await, ["nothing-newer", "tombstone-newer"]);
}

pub(crate) async fn a_delete_of_a_missing_document_is_absent(bench: &Bench) {
    assert_eq!(bench.outcome(bench.delete("never", 4)).await, Absent);
    assert_eq!(bench.found("never").await, None);
}

pub(crate) async fn a_delete_of_a_missing_document_keeps_its_version(bench: &Bench) {
    bench.outcome(bench.delete("a", 4)).await;
    assert_eq!(bench.outcome(bench.put("a", 3, r#"{"v":3}"#)).await, Stale);
    assert_eq!(bench.outcome(bench.put("a", 4, r#"{"v":4}"#)).await, Stale);
    assert_eq!(bench.outcome(bench.delete("a", 3)).await, Stale);
    assert_eq!(bench.found("a").await, None);
    assert_eq!(bench.outcome(bench.put("a", 5, r#"{"v":5}"#)).await, Indexed);
    bench.expect("a", 5, r#"{"v":5}"#).await;
}

pub(crate) async fn a_newer_delete_of_a_deleted_document_is_absent_and_raises_its_version(bench: &Bench) {
    bench.outcome(bench.put("a", 1, r#"{"v":1}"#)).await;
    bench.outcome(bench.delete("a", 2)).await;
    assert_eq!(bench.outcome(bench.delete("a", 9)).await, Absent);
    assert_eq!(bench.outcome(bench.put("a", 8, r#"{"v":8}"#)).await, Stale);
    assert_eq!(bench.found("a").await, None);
}

pub(crate) async fn a_late_put_does_not_bring_a_deleted_document_back(bench: &Bench) {
    bench.outcome(bench.put("a", 1, r#"{"v":1}"#)).await;
    bench.outcome(bench.delete("a", 3)).await;
    assert_eq!(bench.outcome(bench.put("a", 1, r#"{"v":1}"#)).await, Stale);
    assert_eq!(bench.outcome(bench.put("a", 2, r#"{"v":2}"#)).await, Stale);
    assert_eq!(bench.found("a").await, None);
}

pub(crate) async fn a_newer_put_after_a_delete_brings_the_document_back(bench: &Bench) {
    bench.outcome(bench.put("a", 1, r#"{"v":1}"#)).await;
    bench.outcome(bench.delete("a", 2)).await;
    assert_eq!(bench.outcome(bench.put("a", 3, r#"{"v":3}"#)).await, Indexed);
    bench.expect("a", 3, r#"{"v":3}"#).await;
}

pub(crate) async fn a_tombstone_is_read_by_its_id_and_found_by_nobody(bench: &Bench) {
    bench.outcomes(vec![bench.put("a", 1, r#"{"v":1}"#), bench.put("b", 1, r#"{"v":1}"#)]).await;
    assert_eq!(bench.visible().await, ["a", "b"]);
    assert_eq!(bench.outcome(bench.tombstone("a", 2)).await, Deleted);
    bench.expect("a", 2, TOMBSTONE).await;
    assert_eq!(bench.visible().await, ["b"]);
}

pub(crate) async fn an_older_put_after_a_tombstone_is_stale_and_the_document_stays_hidden(bench: &Bench) {
    bench.outcomes(vec![bench.put("a", 1, r#"{"v":1}"#), bench.tombstone("a", 3)]).await;
    assert_eq!(bench.outcomes(vec![bench.put("a", 1, r#"{"v":1}"#), bench.put("a", 3, r#"{"v":3}"#)]).await, [Stale, Stale]);
    bench.expect("a", 3, TOMBSTONE).await;
    assert_eq!(bench.visible().await, [] as [&str; 0]);
}

pub(crate) async fn a_newer_put_after_a_tombstone_brings_the_document_back(bench: &Bench) {
    bench.outcomes(vec![bench.put("a", 1, r#"{"v":1}"#), bench.tombstone("a", 2)]).await;
    assert_eq!(bench.outcome(bench.put("a", 3, r#"{"v":3}"#)).await, Indexed);
    bench.expect("a", 3, r#"{"v":3}"#).await;
    assert_eq!(bench.visible().await, ["a"]);
    assert_eq!(bench.outcome(bench.tombstone("a", 4)).await, Deleted);
    assert_eq!(bench.visible().await, [] as [&str; 0]);
}

pub(crate) async fn a_tombstone_of_a_missing_document_is_deleted_and_keeps_its_version(bench: &Bench) {
    assert_eq!(bench.outcome(bench.tombstone("never", 4)).await, Deleted);
    bench.expect("never", 4, TOMBSTONE).await;
    assert_eq!(bench.outcome(bench.put("never", 3, r#"{"v":3}"#)).await, Stale);
    assert_eq!(bench.visible().await, [] as [&str; 0]);
}

pub(crate) async fn an_older_tombstone_and_the_same_again_are_stale(bench: &Bench) {
    bench.outcome(bench.put("a", 5, r#"{"v":5}"#)).await;
    assert_eq!(bench.outcomes(vec![bench.tombstone("a", 4), bench.tombstone("a", 5)]).await, [Stale, Stale]);
    bench.expect("a", 5, r#"{"v":5}"#).await;
    assert_eq!(bench.outcomes(vec![bench.tombstone("a", 6), bench.tombstone("a", 6)]).await, [Deleted, Stale]);
}

pub(crate) async fn under_external_gte_the_same_tombstone_again_is_deleted(bench: &Bench) {
    let gte = VersionType::ExternalGte;
    bench.outcome(bench.put_as(gte, "a", 1, r#"{"v":1}"#)).await;
    let same = || bench.tombstone_as(gte, "a", 2);
    assert_eq!(bench.outcomes(vec![same(), same()]).await, [Deleted, Deleted]);
    assert_eq!(bench.outcome(bench.put_as(gte, "a", 2, r#"{"v":"back"}"#)).await, Indexed);
    bench.expect("a", 2, r#"{"v":"back"}"#).await;
}

pub(crate) async fn a_plain_delete_takes_a_tombstone_away(bench: &Bench) {
    bench.outcomes(vec![bench.put("a", 1, r#"{"v":1}"#), bench.tombstone("a", 2)]).await;
    assert_eq!(bench.outcome(bench.delete("a", 3)).await, Deleted);
    assert_eq!(bench.found("a").await, None);
    assert_eq!(bench.outcomes(vec![bench.put("a", 2, "{}"), bench.tombstone("a", 4)]).await, [Stale, Deleted]);
    bench.expect("a", 4, TOMBSTONE).await;
}

pub(crate) async fn a_delete_at_a_tombstones_own_version_takes_it_away_and_nothing_that_is_newer(bench: &Bench) {
    bench.outcomes(vec![bench.tombstone("a", 2), bench.tombstone("b", 2), bench.put("b", 3, r#"{"v":3}"#)]).await;
    let swept = |id: &str| bench.delete_as(VersionType::ExternalGte, id, 2);
    assert_eq!(bench.outcomes(vec![swept("a"), swept("b")]).await, [Deleted, Stale]);
    assert_eq!(bench.found("a").await, None);
    bench.expect("b", 3, r#"{"v":3}"#).await;
    assert_eq!(bench.outcomes(vec![bench.put("a", 1, "{}"), bench.put("a", 3, r#"{"v":3}"#)]).await, [Stale, Indexed]);
}

pub(crate) async fn the_statuses_are_those_of_a_bulk_reply(bench: &Bench) {
    let operations = vec![
        bench.put("a", 1, "{}"),
        bench.put("a", 2, "{}"),
        bench.put("a", 2, "{}"),
        bench.delete("a", 3),
        bench.delete("a", 3),
        bench.delete("a", 4),
        bench.put("a", 5, "{}"),
        bench.tombstone("a", 6),
        bench.tombstone("a", 6),
        bench.put("a", 7, "{}"),
        bench.tombstone("b", 1),
        bench.delete("b", 2),
    ];
    let replies = bench.replies(operations).await;
    let statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
    assert_eq!(statuses, [201, 200, 409, 200, 409, 404, 201, 200, 409, 200, 201, 200]);
    for reply in &replies {
        let kind = reply.error.as_ref().map(|error| error.kind.as_str());
        assert_eq!(kind, (reply.status == 409).then_some("version_conflict_engine_exception"));
    }
}

pub(crate) async fn operations_on_one_document_in_one_request_apply_in_their_order(bench: &Bench) {
    let operations = vec![
        bench.put("a", 1, r#"{"v":1}"#),
        bench.delete("a", 2),
        bench.put("a", 1, r#"{"v":1}"#),
        bench.put("a", 3, r#"{"v":3}"#),
        bench.delete("a", 3),
        bench.put("b", 9, r#"{"v":9}"#),
        bench.put("b", 8, r#"{"v":8}"#),
    ];
    assert_eq!(bench.outcomes(operations).await, [Indexed, Deleted, Stale, Indexed, Stale, Indexed, Stale]);
    bench.expect("a", 3, r#"{"v":3}"#).await;
    bench.expect("b", 9, r#"{"v":9}"#).await;
}

pub(crate) async fn replies_stand_in_the_order_of_the_operations(bench: &Bench) {
    bench.outcomes(vec![bench.put("old", 5, "{}"), bench.put("there", 1, "{}")]).await;
    let mixed = || {
        vec![
            bench.put("old", 4, "{}"),
            bench.delete("missing", 1),
            bench.put("new", 1, "{}"),
            bench.delete("there", 2),
            bench.delete("old", 1),
        ]
    };
    assert_eq!(bench.outcomes(mixed()).await, [Stale, Absent, Indexed, Deleted, Stale]);
    let many: Vec<_> =
        (0..500).map(|at| if at % 3 == 0 { bench.delete(&format!("m{at}"), 1) } else { bench.put(&format!("m{at}"), 1, "{}") }).collect();
    for (at, outcome) in bench.outcomes(many).await.into_iter().enumerate() {
        assert_eq!(outcome, if at % 3 == 0 { Absent } else { Indexed }, "operation {at}");
    }
}

pub(crate) async fn an_empty_request_has_no_replies(bench: &Bench) {
    assert_eq!(bench.replies(Vec::new()).await, Vec::new());
}

/// Ids that break what joins, quotes, splits or decodes them.
const IDS: [&str; 22] = [
    "8F0TPCmdNQ6JTRpiLj2TmW",
    "it's \"quoted\"",
    "back\\slash",
    "a/b/../c",
    "with space",
    " leading and trailing ",
    "50%",
    "a%2Cb,c",
    "a+b&c=d?e#f",
    "{\"json\":[1]}",
    "<tag>",
    "'; DROP TABLE documents; --",
    "*",
    "-1",
    "_id",
    "tab\tnewline\nreturn\r",
    "nul\u{0}inside",
    "\u{7f}\u{85}\u{2028}",
    "Žluťoučký kůň",
    "東京都",
    "😀👩‍👩‍👧‍👧",
    "\u{feff}\u{fffd}\u{ffff}\u{10ffff}",
];

pub(crate) async fn ids_keep_every_character(bench: &Bench) {
    let puts = IDS.iter().enumerate().map(|(at, id)| bench.put(id, at as u64, &format!("{{\"at\":{at}}}"))).collect();
    assert_eq!(bench.outcomes(puts).await, vec![Indexed; IDS.len()]);
    for (at, id) in IDS.iter().enumerate() {
        bench.expect(id, at as u64, &format!("{{\"at\":{at}}}")).await;
    }
    let deletes = IDS.iter().map(|id| bench.delete(id, 99)).collect();
    assert_eq!(bench.outcomes(deletes).await, vec![Deleted; IDS.len()]);
}

pub(crate) async fn ids_differ_in_every_byte(bench: &Bench) {
    // Each pair is one document to whatever folds case, composes characters, trims, pads or reads numbers.
    let pairs = [("a", "A"), ("é", "e\u{301}"), ("a", "a "), ("7", "07"), ("7", "7.0"), ("ß", "ss"), ("x", "x\u{0}"), ("a,b", "a%2Cb")];
    for (at, (one, other)) in pairs.into_iter().enumerate() {
        let (one, other) = (format!("{at}{one}"), format!("{at}{other}"));
        assert_eq!(bench.outcomes(vec![bench.put(&one, 5, r#"{"n":1}"#), bench.put(&other, 3, r#"{"n":2}"#)]).await, [Indexed, Indexed]);
        bench.expect(&one, 5, r#"{"n":1}"#).await;
        bench.expect(&other, 3, r#"{"n":2}"#).await;
    }
}

pub(crate) async fn an_id_of_512_bytes_is_an_id(bench: &Bench) {
    for id in ["x".repeat(512), "é".repeat(256), "😀".repeat(128)] {
        assert_eq!(bench.outcome(bench.put(&id, 1, r#"{"v":1}"#)).await, Indexed);
        assert_eq!(bench.outcome(bench.put(&id, 1, r#"{"v":1}"#)).await, Stale);
        bench.expect(&id, 1, r#"{"v":1}"#).await;
        assert_eq!(bench.outcome(bench.delete(&id, 2)).await, Deleted);
    }
}

async fn comes_back(bench: &Bench, documents: &[&str]) {
    let puts = documents.iter().enumerate().map(|(at, document)| bench.put(&at.to_string(), 1, document)).collect();
    assert_eq!(bench.outcomes(puts).await, vec![Indexed; documents.len()]);
    for (at, document) in documents.iter().enumerate() {
        bench.expect(&at.to_string(), 1, document).await;
    }
}

pub(crate) async fn numbers_come_back_to_the_last_digit(bench: &Bench) {
    comes_back(
        bench,
        &[
            r#"{"price":442.30,"whole":100.0,"zero":-0.0,"tiny":1e-400,"huge":1e400,"signed":-1E+7}"#,
            r#"{"beyond":9223372036854775808,"unsigned":18446744073709551616,"max":9223372036854775807,"min":-9223372036854775808}"#,
            r#"{"decimal":12345678901234567890.123456789,"third":0.33333333333333333333333333333333333}"#,
            r#"{"list":[1,1.0,1.00,1e0,10E-1]}"#,
        ],
    )
    .await;
}

pub(crate) async fn strings_come_back_byte_for_byte(bench: &Bench) {
    comes_back(
        bench,
        &[
            r#"{"controls":"\u0000\u0001\u001f","newlines":"a\nb\r\nc","tab":"\t","named":"\b\f"}"#,
            r#"{"quotes":"\"\\\/'","escaped":"\u00e9\u0022","raw":"é\"","pair":"\ud83d\ude00","emoji":"😀"}"#,
            "{\"separators\":\"\u{2028}\u{2029}\u{85}\u{7f}\",\"bom\":\"\u{feff}\",\"private\":\"\u{e000}\u{f8ff}\"}",
            r#"{"empty":"","bulk":"}}\n{\"delete\":{\"_id\":\"x\"}}\n","sql":"'; DROP TABLE documents; --"}"#,
        ],
    )
    .await;
}

pub(crate) async fn field_names_order_and_spaces_come_back_byte_for_byte(bench: &Bench) {
    comes_back(
        bench,
        &[
            "{}",
            r#"{"z":1,"a":2,"Z":3,"_private":4,"with space":5,"f:name":6,"\u0061bc":7}"#,
            r#"{ "a" : [ 1 , { "b" : null } , [ ] , { } ] ,	"c" : true , "d" : false }"#,
            r#"{"null":null,"nested":{"a":{"b":{"c":{"d":[[[[1]]]]}}}}}"#,
        ],
    )
    .await;
}

pub(crate) async fn a_large_document_comes_back_whole(bench: &Bench) {
    let items: Vec<_> = (0..20_000).map(|at| format!("{{\"at\":{at},\"text\":\"{}\"}}", "lorem ipsum ".repeat(4))).collect();
    let document = format!("{{\"items\":[{}]}}", items.join(","));
    assert!(document.len() > 1024 * 1024);
    comes_back(bench, &[&document]).await;
}

pub(crate) async fn a_document_that_is_no_object_is_rejected_and_the_rest_is_written(bench: &Bench) {
    let bad = ["[1]", "1", "\"text\"", "null", "{\"a\":1"];
    let mut operations = vec![bench.put("first", 1, "{}")];
    operations.extend(bad.iter().map(|document| bench.put("bad", 1, document)));
    operations.push(bench.put("last", 1, "{}"));
    let outcomes = bench.outcomes(operations).await;
    assert_eq!((&outcomes[0], &outcomes[bad.len() + 1]), (&Indexed, &Indexed));
    for (document, outcome) in bad.iter().zip(&outcomes[1..]) {
        assert!(matches!(outcome, Outcome::Rejected(_)), "{document}: {outcome:?}");
    }
    assert_eq!(bench.found("bad").await, None);
    assert_eq!(bench.outcome(bench.put("bad", 0, "{}")).await, Indexed, "a rejected document leaves no version behind");
}

pub(crate) async fn two_indices_share_no_versions(bench: &Bench) {
    let index = format!("{}-other", bench.index);
    let mut other = bench.put("a", 3, r#"{"v":3}"#);
    if let Operation::Index { target, .. } = &mut other {
        target.index = index.as_str().into();
    }
    assert_eq!(
        bench.outcomes(vec![bench.put("a", 5, r#"{"v":5}"#), other, bench.put("a", 4, r#"{"v":4}"#)]).await,
        [Indexed, Indexed, Stale]
    );
    bench.expect("a", 5, r#"{"v":5}"#).await;
    assert_eq!((bench.read)(index, "a".to_owned()).await, Some((3, r#"{"v":3}"#.to_owned())));
}

pub(crate) async fn requests_at_once_come_to_the_highest_version(bench: &Bench) {
    let requests: Vec<_> = (1..=16)
        .map(|version| {
            let operations: Arc<[Operation]> =
                (0..20).map(|id| bench.put(&id.to_string(), version, &format!("{{\"v\":{version}}}"))).collect();
            let sink = Arc::clone(&bench.sink);
            tokio::spawn(async move { sink.write(operations).await.expect("the request as a whole is carried out") })
        })
        .collect();
    for request in requests {
        let replies = request.await.expect("a request does not panic");
        assert!(replies.iter().all(|reply| matches!(reply.status, 200 | 201 | 409)), "{replies:?}");
    }
    for id in 0..20 {
        bench.expect(&id.to_string(), 16, "{\"v\":16}").await;
    }
}

pub(crate) async fn a_whole_stream_again_changes_nothing(bench: &Bench) {
    let stream = || {
        vec![
            bench.put("a", 0, r#"{"v":0}"#),
            bench.put("b", 0, "{}"),
            bench.put("a", 1, r#"{"v":1}"#),
            bench.delete("b", 1),
            bench.delete("c", 0),
        ]
    };
    assert_eq!(bench.outcomes(stream()).await, [Indexed, Indexed, Indexed, Deleted, Absent]);
    for _ in 0..3 {
        assert_eq!(bench.outcomes(stream()).await, vec![Stale; 5]);
    }
    bench.expect("a", 1, r#"{"v":1}"#).await;
    assert_eq!((bench.found("b").await, bench.found("c").await), (None, None));
}

pub(crate) async fn any_order_with_duplicates_comes_to_the_fold(bench: &Bench) {
    any_order(bench, VersionType::External, |_| false).await;
}

pub(crate) async fn any_order_under_external_gte_comes_to_the_fold(bench: &Bench) {
    any_order(bench, VersionType::ExternalGte, |_| false).await;
}

/// Also where a rule has changed in between, and an index has both kinds of deletes.
pub(crate) async fn any_order_with_tombstones_comes_to_the_fold(bench: &Bench) {
    any_order(bench, VersionType::External, |random| random.below(3) > 0).await;
}

/// Numbers that are the same in every run (the splitmix64 generator).
pub(crate) struct Seeded(pub(crate) u64);

impl Seeded {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % bound
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// What the contract says a sink holds: version and document, where a deleted document keeps its version.
type Model = BTreeMap<String, (u64, Option<String>)>;

/// What the contract says an operation comes to.
fn expected(model: &mut Model, operation: &Operation) -> Outcome {
    let target = operation.target();
    let document = match operation {
        Operation::Index { document, .. } => Some(String::from_utf8(document.as_bytes().to_vec()).expect("test documents are text")),
        Operation::Delete { .. } => None,
        Operation::Tombstone { .. } => Some(TOMBSTONE.to_owned()),
        Operation::Merge { .. } => panic!("a merge goes by the versions of its cells"),
    };
    let stored = model.get(&target.id);
    let stale = stored.is_some_and(|(version, _)| match target.version_type {
        VersionType::External => *version >= target.version,
        VersionType::ExternalGte => *version > target.version,
    });
    let outcome = match (stale, &document, stored) {
        (true, ..) => return Stale,
        (false, Some(_), _) if matches!(operation, Operation::Tombstone { .. }) => Deleted,
        (false, Some(_), _) => Indexed,
        (false, None, Some((_, Some(_)))) => Deleted,
        (false, None, _) => Absent,
    };
    model.insert(target.id.clone(), (target.version, document));
    outcome
}

/// Histories of a few documents, each revision sent one to three times, shuffled, cut into requests at random: every reply is the one that
/// the contract gives, and the end is the fold of the history.
async fn any_order(bench: &Bench, version_type: VersionType, leaves_a_tombstone: fn(&mut Seeded) -> bool) {
    let cases = if std::env::var_os("REVSYNC_TEST_LONG").is_some_and(|value| value == "1") { 500 } else { 30 };
    for case in 0..cases {
        let mut random = Seeded(case);
        let mut history = Vec::new();
        let mut fold: BTreeMap<String, (u64, Option<String>)> = BTreeMap::new();
        for document in 0..=random.below(5) {
            let id = format!("{case}-{document}");
            let versions: BTreeSet<u64> = (0..=random.below(9)).map(|_| random.below(20) as u64).collect();
            for version in versions {
                let text = format!("{{\"id\":\"{id}\",\"v\":{version}}}");
                let (operation, left) = match random.below(4) {
                    0 if leaves_a_tombstone(&mut random) => (bench.tombstone_as(version_type, &id, version), Some(TOMBSTONE.to_owned())),
                    0 => (bench.delete_as(version_type, &id, version), None),
                    _ => (bench.put_as(version_type, &id, version, &text), Some(text)),
                };
                fold.insert(id.clone(), (version, left));
                for _ in 0..=random.below(3) {
                    history.push(operation.clone());
                }
            }
        }
        random.shuffle(&mut history);
        let mut model = Model::new();
        while !history.is_empty() {
            let request = history.split_off(history.len() - 1 - random.below(history.len().min(12)));
            let wanted: Vec<_> = request.iter().map(|operation| expected(&mut model, operation)).collect();
            assert_eq!(bench.outcomes(request).await, wanted, "case {case}");
        }
        assert_eq!(model, fold, "case {case}: the model itself comes to the fold");
        for (id, (version, document)) in fold {
            assert_eq!(bench.found(&id).await, document.map(|document| (version, document)), "case {case}, document {id}");
        }
    }
}
