//! Checkpoints where no server is needed: in a file, and in the local index.

use std::future::{Ready, ready};
use std::path::Path;
use std::sync::Arc;

use revsync::error::Kind;
use revsync::plan::lease::Draft;
use revsync::sink::local::Local;
use revsync::store::checkpoints::{Shelf, ShelfFile};

use crate::shelves::{Shelves, checkpoints, row};

mod in_a_file {
    fn bench() -> std::future::Ready<Option<crate::shelves::Shelves>> {
        super::bench(|path| std::sync::Arc::new(super::ShelfFile::open(path).unwrap()))
    }
    crate::shelf_suite!(bench);
}

mod in_the_local_index {
    fn bench() -> std::future::Ready<Option<crate::shelves::Shelves>> {
        super::bench(|path| std::sync::Arc::new(super::Local::open(path).unwrap()))
    }
    crate::shelf_suite!(bench);
}

fn bench(open: impl Fn(&Path) -> Arc<dyn Shelf>) -> Ready<Option<Shelves>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept");
    ready(Some(Shelves { one: open(&path), other: open(&path), keep: Box::new(folder) }))
}

#[tokio::test]
async fn a_file_that_is_no_file_of_checkpoints_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept");
    for (content, said) in [
        ("", "expected a file of checkpoints"),
        ("{}", "expected a file of checkpoints"),
        ("hunter2", "expected a file of checkpoints"),
        (r#"{"v":1,"rows":"hunter2"}"#, "expected a file of checkpoints"),
        (r#"{"v":2,"anything":[]}"#, "found form 2, which a newer revsync wrote"),
    ] {
        std::fs::write(&path, content).unwrap();
        let error = ShelfFile::open(&path).unwrap_err();
        assert!(error.kind == Kind::Checkpoints && error.what.contains(said) && !error.what.contains("hunter2"), "{content}: {error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
    }
    let error = ShelfFile::open(&folder.path().join("none/kept")).unwrap_err().to_string();
    assert!(error.contains("cannot be written") && error.contains("--checkpoints"), "{error}");
}

/// Nobody may take rows that vanished for shards that were never read.
#[tokio::test]
async fn a_file_that_vanishes_or_is_replaced_is_neither_empty_nor_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept");
    let file: Arc<dyn Shelf> = Arc::new(ShelfFile::open(&path).unwrap());
    let ours = checkpoints(&file, "p");
    let first = [Draft { shard: "a".to_owned(), expect: None, row: Some(row(1, 1)) }];
    ours.write(&first).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    for error in [ours.read().await.map(drop).unwrap_err(), ours.write(&first).await.map(drop).unwrap_err()] {
        assert!(error.kind == Kind::Checkpoints && error.what.contains("was there and is gone"), "{error}");
    }
    let other: Arc<dyn Shelf> = Arc::new(ShelfFile::open(&path).unwrap());
    checkpoints(&other, "p").write(&first).await.unwrap();
    for error in [ours.read().await.map(drop).unwrap_err(), ours.write(&first).await.map(drop).unwrap_err()] {
        assert!(error.kind == Kind::Checkpoints && error.what.contains("no longer the file that it was"), "{error}");
    }
}

#[tokio::test]
async fn a_disk_that_takes_no_checkpoints_any_more_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (path, lock) = (folder.path().join("kept"), folder.path().join("kept.lock"));
    let file: Arc<dyn Shelf> = Arc::new(ShelfFile::open(&path).unwrap());
    let (ours, draft) = (checkpoints(&file, "p"), |shard: &str| Draft { shard: shard.to_owned(), expect: None, row: Some(row(1, 1)) });
    ours.write(&[draft("a")]).await.unwrap();
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    let error = ours.write(&[draft("b")]).await.unwrap_err();
    assert!(error.kind == Kind::Pending && error.what.contains("cannot be written"), "{error}");
    std::fs::remove_dir(&lock).unwrap();
    ours.write(&[draft("b")]).await.unwrap();
    assert_eq!(ours.read().await.unwrap().len(), 2);
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_of_checkpoints_is_its_owners_and_stays_where_a_link_says() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("kept"), folder.path().join("link"));
    std::os::unix::fs::symlink(&path, &link).unwrap();
    std::fs::write(&path, r#"{"v":1,"file":7,"changes":0,"rows":[]}"#).unwrap();
    let file: Arc<dyn Shelf> = Arc::new(ShelfFile::open(&link).unwrap());
    checkpoints(&file, "p").write(&[Draft { shard: "a".to_owned(), expect: None, row: Some(row(1, 1)) }]).await.unwrap();
    assert!(link.is_symlink() && std::fs::read_to_string(&path).unwrap().contains("\"file\": 7"));
    let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["kept", "kept.lock", "link"]);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn checkpoints_are_no_part_of_the_local_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let index = Arc::new(Local::open(&path).unwrap());
    let shelf: Arc<dyn Shelf> = index.clone();
    checkpoints(&shelf, "p").write(&[Draft { shard: "a".to_owned(), expect: None, row: Some(row(1, 1)) }]).await.unwrap();
    assert_eq!(index.indices().unwrap(), []);
    assert_eq!(index.search("shard OR a OR worker", None, 10).unwrap().len(), 0);
    // Who only reads sees them, and can change nothing.
    let reading: Arc<dyn Shelf> = Arc::new(Local::open_existing(&path).unwrap());
    let theirs = checkpoints(&reading, "p");
    assert_eq!(theirs.read().await.unwrap().len(), 1);
    let error = theirs.write(&[Draft { shard: "b".to_owned(), expect: None, row: Some(row(1, 1)) }]).await.unwrap_err();
    assert_eq!(error.kind, Kind::Checkpoints, "{error}");
}
