//! Checkpoints where no server is needed: in a file, and in the local index.

use std::path::Path;
use std::sync::Arc;

use revsync::error::Kind;
use revsync::sink::local::Local;
use revsync::store::checkpoints::{Shelf, ShelfFile};

use crate::shelves::{Shelves, checkpoints};

mod in_a_file {
    async fn bench() -> Option<crate::shelves::Shelves> {
        Some(super::bench(|path| std::sync::Arc::new(super::ShelfFile::open(path).unwrap())))
    }
    crate::shelf_suite!(bench);
}

mod in_the_local_index {
    async fn bench() -> Option<crate::shelves::Shelves> {
        Some(super::bench(|path| std::sync::Arc::new(super::Local::open(path).unwrap())))
    }
    crate::shelf_suite!(bench);
}

fn bench(open: impl Fn(&Path) -> Arc<dyn Shelf>) -> Shelves {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept");
    Shelves { one: open(&path), other: open(&path), keep: Box::new(folder) }
}
