//! Writes the exact lines of OpenSearch bulk requests to a file, a pipe or standard output, to look at or to send by other means.
//!
//! Keeps no versions and compares nothing: every operation is written and answered as carried out. Never writes anything but bulk lines,
//! and the same operations give the same bytes in every run.

use std::fs::File;
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::opensearch::request::Portions;
use super::{Pending, Sink};
use crate::error::{Error, Kind};
use crate::operation::Operation;
use crate::plan::outcome::{Class, Failure, Reply};

/// A file of bulk lines that is being written.
#[derive(Debug)]
pub struct BulkFile {
    name: String,
    output: Arc<Mutex<Output>>,
}

#[derive(Debug)]
enum Output {
    Standard,
    /// What has been written can be taken back to a length, and be synced.
    Regular {
        file: File,
        length: u64,
    },
    /// A pipe or a device: what is written is gone.
    Other(File),
}

impl BulkFile {
    /// Opens the file for writing and empties it; `-` is standard output. Opening a named pipe waits for its reader.
    ///
    /// # Errors
    /// The file cannot be created or opened.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let name = format!("bulk:{}", path.display());
        let output = if path == Path::new("-") {
            Output::Standard
        } else {
            let opened = File::create(path).and_then(|file| Ok((file.metadata()?.is_file(), file)));
            match opened {
                Ok((true, file)) => Output::Regular { file, length: 0 },
                Ok((false, file)) => Output::Other(file),
                Err(cause) => {
                    let what = format!("cannot open {} for bulk lines: {cause}", path.display());
                    return Err(Error::new(Kind::Sink, what).help("check that its folder exists and may be written, or write to bulk:-"));
                }
            }
        };
        Ok(Self { name, output: Arc::new(Mutex::new(output)) })
    }

    fn failure(&self, unwritten: &Unwritten) -> Failure {
        let name = &self.name;
        match (unwritten.cause.kind(), unwritten.again) {
            (_, true) => {
                let what = format!("cannot write to {name}: {}", unwritten.cause);
                Failure::Retry { class: Class::Unavailable, what, after: None }
            }
            (ErrorKind::BrokenPipe, false) => Failure::Misconfigured {
                what: format!("the reader of {name} has gone before the end; keep it reading until revsync is done"),
            },
            (_, false) => Failure::Misconfigured {
                what: format!("cannot write to {name}: {}; the lines written so far end in the middle: run it again", unwritten.cause),
            },
        }
    }
}

impl Sink for BulkFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn write(&self, operations: Arc<[Operation]>) -> Pending<'_, Result<Vec<Reply>, Failure>> {
        let output = Arc::clone(&self.output);
        Box::pin(async move {
            let written = tokio::task::spawn_blocking(move || {
                output.lock().unwrap_or_else(PoisonError::into_inner).append(&operations)?;
                Ok(operations.iter().map(reply).collect())
            });
            written
                .await
                .unwrap_or_else(|_| Err(Unwritten { cause: panicked(), again: false }))
                .map_err(|unwritten| self.failure(&unwritten))
        })
    }

    fn finish(&self) -> Pending<'_, Result<(), Error>> {
        let output = Arc::clone(&self.output);
        Box::pin(async move {
            let synced = tokio::task::spawn_blocking(move || output.lock().unwrap_or_else(PoisonError::into_inner).sync()).await;
            synced
                .unwrap_or_else(|_| Err(panicked()))
                .map_err(|cause| Error::new(Kind::Sink, format!("cannot end the bulk lines in {}: {cause}", self.name)))
        })
    }
}

/// What the work panicked with may quote a document.
fn panicked() -> io::Error {
    io::Error::other("the work panicked, which is a bug")
}

/// What an index that holds nothing newer would answer.
fn reply(operation: &Operation) -> Reply {
    Reply::ok(match operation {
        Operation::Index { .. } | Operation::Tombstone { .. } => 201,
        Operation::Delete { .. } | Operation::Merge { .. } => 200,
    })
}

fn write_lines(operations: &[Operation], out: impl Write) -> io::Result<()> {
    let mut lines = Portions::new(out);
    for operation in operations {
        lines.append(operation, false)?;
    }
    lines.finish()?.flush()
}

/// Lines that were not written, and whether they may be written again.
struct Unwritten {
    cause: io::Error,
    again: bool,
}

impl Output {
    /// Writes all or, in a regular file, nothing: a request that is sent again must not stand behind its own first half.
    fn append(&mut self, operations: &[Operation]) -> Result<(), Unwritten> {
        match self {
            Self::Standard => write_lines(operations, io::stdout().lock()).map_err(|cause| Unwritten { cause, again: false }),
            Self::Other(file) => write_lines(operations, file).map_err(|cause| Unwritten { cause, again: false }),
            Self::Regular { file, length } => {
                let written = write_lines(operations, &mut *file).and_then(|()| file.stream_position());
                match written {
                    Ok(end) => *length = end,
                    Err(cause) => {
                        let again = file.set_len(*length).and_then(|()| file.seek(SeekFrom::Start(*length))).is_ok();
                        return Err(Unwritten { cause, again });
                    }
                }
                Ok(())
            }
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        match self {
            Self::Standard => io::stdout().lock().flush(),
            Self::Regular { file, .. } => file.sync_all(),
            Self::Other(_) => Ok(()),
        }
    }
}
