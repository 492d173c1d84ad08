//! The local index as a sink and as a file.

use std::any::Any;
use std::collections::BTreeSet;
use std::fs;
use std::future::{Ready, ready};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use revsync::operation::{Operation, Target};
use revsync::plan::outcome::{Failure, Outcome, judge};
use revsync::revision::{Cell, Cells, Document, MAX_VERSION, VersionType};
use revsync::sink::local::Local;
use revsync::sink::{Asked, Contents, Detail, Page, Sink, Survey, Tombstones};
use rusqlite::Connection;

use crate::conformance::Bench;
use crate::contents::all;
use crate::merges::every_order_comes_to_one_document;

/// Ready at once; the suite waits for a bench, because others start a server for it.
fn bench() -> Ready<Option<Bench>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let local = Arc::new(Local::open(&folder.path().join("index.db")).expect("a new index"));
    ready(Some(bench_of(local, Box::new(folder))))
}

fn bench_of(local: Arc<Local>, keep: Box<dyn Any + Send>) -> Bench {
    let (reader, searcher) = (Arc::clone(&local), Arc::clone(&local));
    Bench {
        sink: local,
        read: Box::new(move |index, id| {
            let found = reader.get(&index, &id).expect("the index can be read");
            Box::pin(async move { found })
        }),
        visible: Box::new(move |index| {
            let found: BTreeSet<String> =
                searcher.search("*", Some(&index), 1_000).expect("the index can be read").into_iter().map(|hit| hit.id).collect();
            assert_eq!(searcher.count(&index).expect("the index can be read"), found.len() as u64);
            Box::pin(async move { found })
        }),
        index: "bench".to_owned(),
        keep,
    }
}

mod conformance_of_the_local_index {
    crate::conformance_suite!(super::bench);
    crate::merge_suite!(super::bench);
    crate::contents_suite!(super::bench);
}

fn target(index: &str, id: &str, version: u64) -> Target {
    Target { index: index.into(), id: id.to_owned(), version, version_type: VersionType::External, routing: None }
}

fn put(index: &str, id: &str, version: u64, document: &str) -> Operation {
    Operation::Index { target: target(index, id, version), document: Document(Bytes::copy_from_slice(document.as_bytes())) }
}

fn delete(index: &str, id: &str, version: u64) -> Operation {
    Operation::Delete { target: target(index, id, version) }
}

fn tombstone(index: &str, id: &str, version: u64, time: u64) -> Operation {
    Operation::Tombstone { target: target(index, id, version), time }
}

/// A merge of one cell.
fn merge(index: &str, id: &str, version: u64, name: &str, value: &str) -> Operation {
    let columns = vec![Cell { name: name.to_owned(), version, value: Bytes::copy_from_slice(value.as_bytes()) }];
    Operation::Merge { target: target(index, id, version), cells: Cells { erased: None, columns }.into(), time: 0 }
}

async fn write(local: &Local, operations: Vec<Operation>) -> Vec<u16> {
    let replies = local.write(operations.into()).await.expect("the request as a whole is carried out");
    replies.iter().map(|reply| reply.status).collect()
}

/// The files of an index as they stand while it is open: what a killed process leaves.
fn files_left_by_a_kill(from: &Path, to: &Path) {
    fs::copy(from, to).expect("the database");
    let log = |path: &Path| path.with_extension("db-wal");
    if log(from).exists() {
        fs::copy(log(from), log(to)).expect("the write-ahead log");
    }
}

#[tokio::test]
async fn what_was_answered_is_there_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let local = Local::open(&path).unwrap();
    for version in 0..20 {
        assert_eq!(
            write(&local, vec![put("a", &version.to_string(), version, r#"{"n":1}"#), delete("a", "gone", version)]).await,
            [201, 404]
        );
        let left = folder.path().join(format!("left-{version}.db"));
        files_left_by_a_kill(&path, &left);
        let left = Local::open(&left).unwrap();
        assert_eq!(left.count("a").unwrap(), version + 1);
        assert_eq!(left.search("1", None, 100).unwrap().len() as u64, version + 1, "the words are as safe as the documents");
        assert_eq!(write(&left, vec![put("a", "gone", version, "{}")]).await, [409]);
    }
}

#[tokio::test]
async fn a_killed_creation_leaves_no_file_that_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let local = Local::open(&path).unwrap();
    // Without the log: nothing was written into it yet that the file needs.
    let left = folder.path().join("left.db");
    fs::copy(&path, &left).unwrap();
    drop(local);
    assert_eq!(Local::open(&left).unwrap().indices().unwrap(), []);
}

#[tokio::test]
async fn a_finished_index_is_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let local = Local::open(&path).unwrap();
    write(&local, vec![put("a", "1", 1, r#"{"n":1}"#)]).await;
    local.finish().await.unwrap();
    let copy = folder.path().join("copy.db");
    fs::copy(&path, &copy).unwrap();
    assert_eq!(Local::open_existing(&copy).unwrap().get("a", "1").unwrap(), Some((1, r#"{"n":1}"#.to_owned())));
}

#[tokio::test]
async fn finish_does_not_need_the_readers_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let local = Local::open(&path).unwrap();
    write(&local, vec![put("a", "1", 1, "{}")]).await;
    let reader = Local::open_existing(&path).unwrap();
    local.finish().await.unwrap();
    write(&local, vec![put("a", "2", 1, "{}")]).await;
    assert_eq!(reader.count("a").unwrap(), 2);
}

#[tokio::test]
async fn a_delete_is_remembered_when_the_index_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let local = Local::open(&path).unwrap();
    write(&local, vec![put("a", "1", 1, "{}"), delete("a", "1", 2), delete("a", "never", 7)]).await;
    drop(local);
    let local = Local::open(&path).unwrap();
    assert_eq!(write(&local, vec![put("a", "1", 1, "{}"), put("a", "never", 6, "{}"), put("a", "never", 8, "{}")]).await, [409, 409, 201]);
}

#[tokio::test]
async fn indices_are_listed_with_their_documents() {
    let folder = tempfile::tempdir().unwrap();
    let local = Local::open(&folder.path().join("index.db")).unwrap();
    write(&local, vec![put("b", "1", 1, "{}"), put("a", "1", 1, "{}"), put("b", "2", 1, "{}"), delete("b", "2", 2), delete("c", "1", 1)])
        .await;
    assert_eq!(local.indices().unwrap(), [("a".to_owned(), 1), ("b".to_owned(), 1), ("c".to_owned(), 0)]);
    assert_eq!((local.count("b").unwrap(), local.count("nowhere").unwrap()), (1, 0));
}

#[tokio::test]
async fn what_a_whole_request_would_be_refused_for_is_refused_alone() {
    let folder = tempfile::tempdir().unwrap();
    let local = Local::open(&folder.path().join("index.db")).unwrap();
    let long = "é".repeat(257);
    let operations = vec![
        put("a", "", 1, "{}"),
        put("a", &long, 1, "{}"),
        delete("a", &long, 1),
        put("a", "high", MAX_VERSION + 1, "{}"),
        put("a", "last", MAX_VERSION, "{}"),
    ];
    let replies = local.write(operations.clone().into()).await.unwrap();
    let outcomes: Vec<_> = operations.iter().zip(&replies).map(|(operation, reply)| judge(operation, reply)).collect();
    for outcome in &outcomes[..4] {
        assert!(matches!(outcome, Outcome::Rejected(fault) if fault.kind == "illegal_argument_exception"), "{outcome:?}");
    }
    assert_eq!(outcomes[4], Outcome::Indexed);
    assert_eq!(local.count("a").unwrap(), 1);
}

#[tokio::test]
async fn any_json_object_is_taken_whatever_others_look_like() {
    let folder = tempfile::tempdir().unwrap();
    let local = Local::open(&folder.path().join("index.db")).unwrap();
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(50_000), "]".repeat(50_000));
    let documents = [
        r#"{"a":1}"#,
        r#"{"a":"text"}"#,
        r#"{"a":{"b":1}}"#,
        r#"{"a..b":1,"":2,".":3}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"lone":"\ud800"}"#,
        &deep,
    ];
    for (at, document) in documents.into_iter().enumerate() {
        let id = at.to_string();
        assert_eq!(write(&local, vec![put("a", &id, 1, document)]).await, [201]);
        assert_eq!(local.get("a", &id).unwrap().unwrap().1, document);
    }
    let hits = local.search("*", None, 100).unwrap();
    assert_eq!(hits.iter().map(|hit| hit.source.get()).collect::<Vec<_>>(), documents);
}

#[tokio::test]
async fn a_refused_document_is_not_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let local = Local::open(&folder.path().join("index.db")).unwrap();
    let replies = local.write([put("a", "1", 1, r#"{"ssn":"secret" "x"}"#)].into()).await.unwrap();
    let error = replies[0].error.as_ref().unwrap();
    assert_eq!((replies[0].status, error.kind.as_str()), (400, "mapper_parsing_exception"));
    assert_eq!(error.reason, "expected one JSON object, found something else at byte 16");
}

#[tokio::test]
async fn a_request_that_fails_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let local = Local::open(&path).unwrap();
    write(&local, vec![put("a", "1", 1, "{}")]).await;
    let stranger = Connection::open(&path).unwrap();
    stranger
        .execute_batch("CREATE TRIGGER stop BEFORE INSERT ON documents WHEN new.id = 'third' BEGIN SELECT RAISE(ABORT, 'stopped'); END")
        .unwrap();
    let failure = local.write([put("b", "first", 1, "{}"), delete("a", "1", 2), put("b", "third", 1, "{}")].into()).await.unwrap_err();
    assert!(matches!(&failure, Failure::Misconfigured { what } if what.contains("index.db") && what.contains("stopped")), "{failure:?}");
    assert_eq!(local.indices().unwrap(), [("a".to_owned(), 1)]);
    assert_eq!(local.search("first OR third", None, 10).unwrap().len(), 0);
    stranger.execute_batch("DROP TRIGGER stop").unwrap();
    assert_eq!(write(&local, vec![put("b", "first", 1, "{}"), delete("a", "1", 2), put("b", "third", 1, "{}")]).await, [201, 200, 201]);
}

#[tokio::test]
async fn two_writers_on_one_file_take_turns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let path = path.clone();
            tokio::spawn(async move {
                let local = Local::open(&path).unwrap();
                for round in 0..10 {
                    write(&local, vec![put("a", &format!("{writer}-{round}"), 1, "{}"), put("a", "shared", writer * 10 + round, "{}")])
                        .await;
                }
                local.finish().await.unwrap();
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let local = Local::open_existing(&path).unwrap();
    assert_eq!((local.count("a").unwrap(), local.get("a", "shared").unwrap().unwrap().0), (41, 39));
}

#[tokio::test]
async fn ten_thousand_orders_of_one_history_of_cells_come_to_one_document() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let local = Arc::new(Local::open(&path).unwrap());
    let bench = bench_of(local, Box::new(folder));
    let fold = every_order_comes_to_one_document(&bench, 10_000).await;
    let versions: Vec<String> = fold.columns.values().map(|column| column.version.to_string()).collect();
    let kept = format!(r#"{{"erased":{},"versions":[{}]}}"#, fold.erased.unwrap(), versions.join(","));
    let file = Connection::open(&path).unwrap();
    let count = |query: &str| file.query_row(query, [], |row| row.get::<_, u64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM cells"), 10_000);
    assert_eq!(count(&format!("SELECT count(*) FROM cells WHERE row = '{kept}'")), 10_000, "{kept}");
    assert_eq!(count("SELECT count(DISTINCT source || version) FROM documents"), 1, "not a byte differs");
    assert_eq!(count("SELECT count(*) FROM tombstones"), 0);
}

#[tokio::test]
async fn a_search_finds_a_merged_row_by_what_lives_of_it_and_by_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let local = Local::open(&folder.path().join("index.db")).unwrap();
    let erase = |id: &str, version| Operation::Merge {
        target: target("a", id, version),
        cells: Cells { erased: Some(version), columns: vec![] }.into(),
        time: 0,
    };
    let merges = vec![
        merge("a", "1", 1, "name", "\"porcelain\""),
        merge("a", "1", 2, "note", "\"fragile\""),
        merge("a", "1", 3, "note", "\"sturdy\""),
    ];
    assert_eq!(write(&local, merges).await, [201, 200, 200]);
    let found = |text: &str| local.search(text, Some("a"), 10).unwrap().len();
    assert_eq!([found("porcelain"), found("sturdy"), found("fragile"), found("porcelain sturdy")], [1, 1, 0, 1]);
    assert_eq!(write(&local, vec![erase("1", 1)]).await, [200]);
    assert_eq!([found("porcelain"), found("sturdy")], [0, 1]);
    assert_eq!(local.get("a", "1").unwrap(), Some((3, r#"{"note":"sturdy"}"#.to_owned())));
    assert_eq!(write(&local, vec![erase("1", 3)]).await, [200]);
    assert_eq!((found("sturdy"), found("*"), local.count("a").unwrap()), (0, 0, 0));
    assert_eq!(local.survey("a", u64::MAX).await.unwrap()[0].old, 1);
    let swept = local.page("a", u64::MAX, None).await.unwrap().found.remove(0).target;
    assert_eq!(write(&local, vec![Operation::Delete { target: swept }]).await, [200]);
    assert_eq!(local.get("a", "1").unwrap(), None);
    let late = vec![merge("a", "1", 3, "note", "\"late\""), merge("a", "1", 4, "note", "\"back\"")];
    let replies = local.write(late.into()).await.unwrap();
    assert_eq!(
        (replies[0].noop, replies[1].noop, found("back")),
        (true, false, 1),
        "what was erased is remembered when the tombstone is gone"
    );
}

#[tokio::test]
async fn a_document_that_is_written_as_a_whole_again_is_no_row_of_cells_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let local = Local::open(&path).unwrap();
    write(&local, vec![merge("a", "1", 1, "x", "1"), merge("a", "2", 1, "x", "1")]).await;
    assert_eq!(write(&local, vec![put("a", "1", 2, "{}"), delete("a", "2", 5), put("a", "3", 1, "{}")]).await, [200, 200, 201]);
    let kept: u64 = Connection::open(&path).unwrap().query_row("SELECT count(*) FROM cells", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 0);
    let replies =
        local.write([merge("a", "1", 9, "x", "1"), merge("a", "2", 5, "x", "1"), merge("a", "2", 6, "x", "1")].into()).await.unwrap();
    assert_eq!((replies[0].status, replies[1].noop, replies[2].status), (400, true, 201));
}

#[tokio::test]
async fn an_index_opened_for_reading_takes_no_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    drop(Local::open(&path).unwrap());
    let failure = Local::open_existing(&path).unwrap().write([put("a", "1", 1, "{}")].into()).await.unwrap_err();
    assert!(matches!(failure, Failure::Misconfigured { .. }), "{failure:?}");
}

#[test]
fn searching_before_the_first_sync_says_to_run_sync() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let error = Local::open_existing(&path).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("expected a local index at {}, found none; run revsync sync first, or name the index with --to local:FILE", path.display())
    );
    assert!(!path.exists(), "a look creates nothing");
}

#[test]
fn a_file_of_another_kind_is_refused_and_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    fs::write(&text, "my notes").unwrap();
    let database = folder.path().join("other.db");
    Connection::open(&database)
        .unwrap()
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE mine (a); INSERT INTO mine VALUES (1)")
        .unwrap();
    for path in [text, database] {
        let before = fs::read(&path).unwrap();
        for error in [Local::open(&path).unwrap_err(), Local::open_existing(&path).unwrap_err()] {
            assert!(error.to_string().starts_with("expected a local index of revsync, found another kind of file at "), "{error}");
        }
        assert_eq!(fs::read(&path).unwrap(), before);
    }
    let names = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 2, "nothing was put beside them either");
}

#[test]
fn an_index_of_a_newer_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    drop(Local::open(&path).unwrap());
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 4").unwrap();
    for error in [Local::open(&path).unwrap_err(), Local::open_existing(&path).unwrap_err()] {
        assert!(error.to_string().starts_with("expected a local index of format 3 or older, found format 4 in "), "{error}");
    }
}

/// A file as an older format made it: the same, without what that did not have.
fn of_format(path: &Path, format: &str, without: &str) {
    drop(Local::open(path).unwrap());
    let change = format!("{without} PRAGMA user_version = {format}; PRAGMA journal_mode = DELETE");
    Connection::open(path).unwrap().execute_batch(&change).unwrap();
}

#[tokio::test]
async fn an_index_of_an_older_format_is_read_and_becomes_one_of_this_when_it_is_written() {
    is_read_and_becomes_one_of_this("1", "DROP TABLE tombstones; DROP TABLE cells;").await;
    is_read_and_becomes_one_of_this("2", "DROP TABLE cells;").await;
}

async fn is_read_and_becomes_one_of_this(format: &str, without: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    of_format(&path, format, without);
    let before = fs::read(&path).unwrap();
    let reader = Local::open_existing(&path).unwrap();
    assert_eq!((reader.get("a", "1").unwrap(), reader.indices().unwrap()), (None, vec![]));
    assert_eq!(fs::read(&path).unwrap(), before, "a look changes nothing");
    drop(reader);
    for _ in 0..2 {
        let local = Local::open(&path).unwrap();
        let version = local.get("a", "1").unwrap().map_or(1, |(version, _)| version + 1);
        write(&local, vec![put("a", "1", version, "{}"), tombstone("a", "1", version + 1, 0)]).await;
        write(&local, vec![merge("a", "2", version, "n", "1")]).await;
    }
    assert_eq!(Local::open_existing(&path).unwrap().get("a", "2").unwrap(), Some((3, r#"{"n":1}"#.to_owned())));
    let (version, source) = Local::open_existing(&path).unwrap().get("a", "1").unwrap().unwrap();
    assert_eq!((version, source.as_str()), (4, r#"{"revsync":{"v":1,"deleted":true,"time":"1970-01-01T00:00:00Z"}}"#));
}

#[tokio::test]
async fn old_tombstones_are_found_page_by_page_and_a_version_outlives_its_tombstone() {
    let folder = tempfile::tempdir().unwrap();
    let local = Local::open(&folder.path().join("index.db")).unwrap();
    let mut written: Vec<_> = (0..2_500).map(|id| tombstone("a", &id.to_string(), 7, 1_000)).collect();
    written.extend([
        tombstone("a", "young", 7, 2_000),
        tombstone("b", "other", 7, 1_000),
        put("a", "document", 7, "{}"),
        put("c", "1", 1, "{}"),
    ]);
    write(&local, written).await;
    let surveyed = |found: Vec<Survey>| found.into_iter().map(|one| (one.index.to_string(), one.old, one.younger)).collect::<Vec<_>>();
    assert_eq!(surveyed(local.survey("a", 2_000).await.unwrap()), [("a".to_owned(), 2_500, 1)]);
    let all = [("a".to_owned(), 2_500, 1), ("b".to_owned(), 1, 0), ("c".to_owned(), 0, 0)];
    assert_eq!(surveyed(local.survey("*", 2_000).await.unwrap()), all);
    assert_eq!(local.survey("nowhere", 2_000).await.unwrap(), []);

    let (mut mark, mut swept) = (None, 0);
    loop {
        let Page { found, next } = local.page("a", 2_000, mark).await.unwrap();
        if found.is_empty() {
            break;
        }
        assert!(found.len() <= 1_000);
        let deletes = found.into_iter().map(|one| Operation::Delete { target: one.target }).collect();
        swept += write(&local, deletes).await.into_iter().filter(|status| *status == 200).count();
        mark = Some(next);
    }
    assert_eq!((swept, local.get("a", "1").unwrap()), (2_500, None));
    assert_eq!(surveyed(local.survey("*", 2_000).await.unwrap()), [("a".to_owned(), 0, 1), ("b".to_owned(), 1, 0), ("c".to_owned(), 0, 0)]);
    assert_eq!(write(&local, vec![put("a", "1", 6, "{}"), put("a", "1", 8, "{}")]).await, [409, 201], "for ever");
}

#[test]
fn an_empty_file_becomes_an_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    fs::write(&path, "").unwrap();
    assert_eq!(Local::open(&path).unwrap().indices().unwrap(), []);
}

#[test]
fn a_missing_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = Local::open(&folder.path().join("nowhere").join("index.db")).unwrap_err().to_string();
    assert!(error.contains("nowhere") && error.ends_with("check that its folder exists and may be written"), "{error}");
    assert!(Local::open(folder.path()).is_err(), "a folder is no index");
}

#[tokio::test]
async fn a_damaged_index_is_an_error_that_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let local = Local::open(&path).unwrap();
    let puts = (0..500).map(|id| put("a", &id.to_string(), 1, r#"{"text":"some words to fill a page or two"}"#)).collect();
    write(&local, puts).await;
    local.finish().await.unwrap();
    drop(local);
    let mut bytes = fs::read(&path).unwrap();
    bytes[100..].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    let error = match Local::open(&path) {
        Ok(local) => local.count("a").unwrap_err(),
        Err(error) => error,
    };
    assert!(error.to_string().contains("index.db") && error.to_string().contains("delete it and run sync again"), "{error}");
}

#[tokio::test]
async fn an_index_of_an_older_format_that_is_only_read_says_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    for format in [1, 2] {
        let path = folder.path().join(format!("{format}.db"));
        let local = Local::open(&path).unwrap();
        write(&local, vec![put("people", "a", 7, r#"{"n":1}"#), delete("people", "b", 3)]).await;
        drop(local);
        let older = Connection::open(&path).unwrap();
        let tables = if format == 1 { "DROP TABLE cells; DROP TABLE tombstones;" } else { "DROP TABLE cells;" };
        older.execute_batch(&format!("{tables} PRAGMA user_version = {format};")).unwrap();
        drop(older);
        let local = Local::open_existing(&path).unwrap();
        let (found, _) = all(&local, "people", Detail::Content).await.unwrap();
        assert_eq!(found, [("a".to_owned(), (7, None, false, Some(r#"{"n":1}"#.to_owned())))].into(), "format {format}");
    }
}

#[tokio::test]
async fn only_the_deletes_that_are_named_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let local = Local::open(&folder.path().join("index.db")).unwrap();
    write(&local, vec![delete("people", "a", 9), delete("people", "b", 9), delete("cars", "a", 9)]).await;
    local.forget_deletes("people", &[Asked { id: "a".to_owned(), routing: None }]).await.unwrap();
    local.forget_deletes("missing", &[Asked { id: "a".to_owned(), routing: None }]).await.unwrap();
    let again = vec![put("people", "a", 5, "{}"), put("people", "b", 5, "{}"), put("cars", "a", 5, "{}")];
    assert_eq!(write(&local, again).await, [201, 409, 409]);
}

#[tokio::test]
async fn a_document_that_a_stranger_removed_or_wrote_is_told_as_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let local = Local::open(&path).unwrap();
    write(&local, vec![put("people", "a", 7, "{}"), put("people", "b", 7, "{}"), merge("people", "c", 4, "n", "1")]).await;
    let stranger = Connection::open(&path).unwrap();
    stranger.execute_batch(r#"DELETE FROM documents WHERE id = 'a'; UPDATE documents SET version = 3 WHERE id = 'b';"#).unwrap();
    stranger.execute("UPDATE documents SET source = ?1 WHERE id = 'c'", [r#"{"other":2}"#]).unwrap();
    stranger.execute("UPDATE documents SET source = ?1 WHERE id = 'b'", ["not JSON"]).unwrap();
    let (found, _) = all(&local, "people", Detail::Version).await.unwrap();
    let held = |version| (version, None, false, None);
    assert_eq!(found, [("b".to_owned(), held(3)), ("c".to_owned(), held(4))].into());
    match local.holding("people", Detail::Content, None).await {
        Err(Failure::Misconfigured { what }) => assert!(!what.contains("not JSON"), "{what}"),
        other => panic!("{other:?}"),
    }
}
