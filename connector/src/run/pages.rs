//! The next page of a scan, read while something else is done.
//!
//! Only reads: what is done with a page, and when the next one is asked for, is the caller's.

use tokio::task::{JoinHandle, spawn_blocking};

use crate::error::Error;
use crate::source::scan::{Page, Scan};

/// Bytes that one read asks for.
pub const PAGE: usize = 1024 * 1024;

/// Reads the next page, and gives the scan back with it. A scan may block, and so it is read where that holds nobody up.
pub fn next(mut source: Scan) -> JoinHandle<(Scan, Result<Option<Page>, Error>)> {
    spawn_blocking(move || {
        let page = source.read(PAGE);
        (source, page)
    })
}
