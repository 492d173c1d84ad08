//! The bulk-lines file.

use std::fs;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use revsync::operation::{Operation, Target};
use revsync::plan::outcome::{Failure, Reply};
use revsync::revision::{Cell, Cells, Document, VersionType};
use revsync::sink::Sink;
use revsync::sink::bulk_file::BulkFile;

fn operations() -> [Operation; 4] {
    let target = |id: &str, version| Target {
        index: "people".into(),
        id: id.to_owned(),
        version,
        version_type: VersionType::External,
        routing: None,
    };
    [
        Operation::Index { target: target("a\"1", 0), document: Document(Bytes::from_static(br#"{"price":442.30}"#)) },
        Operation::Delete { target: target("b", 7) },
        Operation::Index { target: target("b", 3), document: Document(Bytes::from_static(b"{}")) },
        Operation::Tombstone { target: target("c", 4), time: 1_732_868_100_000 },
    ]
}

const LINES: &str = r#"{"index":{"_index":"people","_id":"a\"1","version":0,"version_type":"external"}}
{"price":442.30}
{"delete":{"_index":"people","_id":"b","version":7,"version_type":"external"}}
{"index":{"_index":"people","_id":"b","version":3,"version_type":"external"}}
{}
{"index":{"_index":"people","_id":"c","version":4,"version_type":"external"}}
{"revsync":{"v":1,"deleted":true,"time":"2024-11-29T08:15:00Z"}}
"#;

#[tokio::test]
async fn the_file_holds_the_exact_lines_and_everything_counts_as_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines");
    let sink = BulkFile::create(&path).unwrap();
    assert_eq!(sink.name(), format!("bulk:{}", path.display()));
    assert_eq!(sink.write(operations().into()).await.unwrap(), [Reply::ok(201), Reply::ok(200), Reply::ok(201), Reply::ok(201)]);
    assert_eq!(sink.write(operations().into()).await.unwrap().len(), 4, "it keeps no versions");
    assert_eq!(sink.write([].into()).await.unwrap(), []);
    sink.finish().await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), LINES.repeat(2));
}

#[tokio::test]
async fn a_merge_is_an_update_with_the_script_that_carries_it_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines");
    let sink = BulkFile::create(&path).unwrap();
    let target = Target { index: "items".into(), id: "MX".into(), version: 7, version_type: VersionType::ExternalGte, routing: None };
    let columns = vec![
        Cell { name: "f:price".to_owned(), version: 6, value: Bytes::from_static(b"442.30") },
        Cell { name: "sku".to_owned(), version: 7, value: Bytes::from_static(b"\"MX\"") },
    ];
    let merge = Operation::Merge { target, cells: Cells { erased: Some(5), columns }.into(), time: 1_732_868_100_000 };
    assert_eq!(sink.write([merge].into()).await.unwrap(), [Reply::ok(200)]);
    sink.finish().await.unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let (action, script) = text.split_once('\n').unwrap();
    assert_eq!(action, r#"{"update":{"_index":"items","_id":"MX","retry_on_conflict":5}}"#);
    let parameters = r#""params":{"e":5,"t":"2024-11-29T08:15:00Z","c":[["f:price",6,"442.30",null,1],["sku",7,"\"MX\"","MX"]]}}}"#;
    assert!(script.starts_with(r#"{"scripted_upsert":true,"upsert":{},"script":{"lang":"painless","source":"def read("#), "{script}");
    assert!(script.ends_with(&format!("{parameters}\n")), "{script}");
}

#[tokio::test]
async fn a_file_that_exists_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines");
    fs::write(&path, "old ".repeat(1_000)).unwrap();
    let sink = BulkFile::create(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"", "at the start, not at the first line");
    sink.write(operations().into()).await.unwrap();
    sink.finish().await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), LINES);
}

/// The writing end of a pipe as a path, as a shell hands over `>(command)`.
fn path_of(end: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/dev/fd/{}", end.as_raw_fd()))
}

#[tokio::test]
async fn a_pipe_gets_the_lines_while_they_are_written() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let sink = BulkFile::create(&path_of(&writer)).unwrap();
    drop(writer);
    sink.write(operations().into()).await.unwrap();
    let mut seen = vec![0; LINES.len()];
    reader.read_exact(&mut seen).unwrap();
    assert_eq!(String::from_utf8(seen).unwrap(), LINES);
    sink.finish().await.unwrap();
    drop(sink);
    assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap(), 0);
}

#[tokio::test]
async fn a_reader_that_has_gone_ends_the_run_and_is_not_tried_again() {
    let (reader, writer) = std::io::pipe().unwrap();
    let sink = BulkFile::create(&path_of(&writer)).unwrap();
    drop((reader, writer));
    let failure = sink.write(operations().into()).await.unwrap_err();
    assert!(matches!(&failure, Failure::Misconfigured { what } if what.starts_with("the reader of bulk:/dev/fd/")), "{failure:?}");
}

#[test]
fn a_place_that_cannot_be_written_is_an_error_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let error = BulkFile::create(folder.path()).unwrap_err().to_string();
    assert!(error.starts_with("cannot open ") && error.contains("for bulk lines"), "{error}");
    assert!(BulkFile::create(Path::new("/nowhere/at/all")).is_err());
}
