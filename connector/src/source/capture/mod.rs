//! Captured streams: a file, a directory, standard input or objects of a bucket, recognised by content and read in bounded memory whatever its size.
//!
//! Every record is complete in itself. Damage becomes a record that says so, and reading goes on wherever the format lets it; where it does
//! not, everything before the damage is handed out first. Never decodes a record, never reads past the length that a file had at the start.

mod export;
mod files;
mod input;
mod ion_binary;
mod ion_layout;
mod ion_text;
mod ion_text_layout;
mod json;
mod json_record;
mod kafka_event;
mod objects;
mod on_failure;
mod opening;
mod recognise;
#[cfg(test)]
mod tests;
mod text;
mod window;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use crate::error::{Error, Kind};
use crate::record::{Fault, Message, Origin, Position, Record};
use crate::source::scan::Page;
use export::Contents;
use files::{Entry, Refused};
use input::{Given, Input};
pub use on_failure::Batch;
pub use opening::Inputs;
use opening::Strangers;

/// A captured stream that is being read.
pub struct Capture {
    source: String,
    waiting: VecDeque<Entry>,
    current: Option<Input>,
    finished_bytes: u64,
    total: Option<u64>,
    files: usize,
    notes: Vec<String>,
    broken: Vec<Error>,
    /// The first file that could not be read to its end.
    first_broken: Option<String>,
    /// Records of this file that begin before this are passed over.
    from: Option<(String, u64)>,
    rereading: Option<Rereading>,
    /// Records that were read again from their stream, and wait to be handed out.
    reread: VecDeque<Record>,
    is_incomplete: bool,
    strangers: Strangers,
}

/// Reads the records of a batch again from their stream. May block.
pub type Rereading = Box<dyn FnMut(&Batch) -> Result<Reread, Error> + Send>;

/// The records of a batch, as far as their stream still holds them.
#[derive(Debug, Default)]
pub struct Reread {
    /// The records, in their order.
    pub records: Vec<Record>,
    /// Whether some are not there any more; it has been said.
    pub is_incomplete: bool,
}

/// A record as a format's framing finds it.
#[derive(Debug, Clone)]
struct Framed {
    offset: u64,
    data: Bytes,
    /// When the stream took it in, where the form in which it was saved says so.
    arrived: Option<u64>,
    damage: Option<Fault>,
    message: Option<Arc<Message>>,
    /// Records that it stands for, and that are somewhere else.
    batch: Option<Box<Batch>>,
}

impl Framed {
    /// A record that is its bytes and nothing more.
    fn new(offset: u64, data: Bytes) -> Self {
        Self { offset, data, arrived: None, damage: None, message: None, batch: None }
    }

    /// Bytes that no record could be made of.
    fn undecodable(offset: u64, data: Bytes, reason: String) -> Self {
        Self { damage: Some(Fault::new("undecodable", reason)), ..Self::new(offset, data) }
    }
}

/// Why nothing more can be read of a file.
#[derive(Debug)]
struct Broken {
    offset: u64,
    what: String,
}

impl Broken {
    fn at(offset: u64, what: impl Into<String>) -> Self {
        Self { offset, what: what.into() }
    }
}

impl Capture {
    /// From now on the records of batches that Lambda gave up, and told no more of than where they are, are read again by this.
    #[must_use]
    pub fn rereading(mut self, rereading: Rereading) -> Self {
        self.rereading = Some(rereading);
        self
    }

    /// Whether something that the files stand for could not be read; it has been said.
    pub fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// Bytes of all files, as they are stored; `None` for a pipe, whose length nobody knows.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// The first file, by its name inside the source, that could not be read to its end, as far as was read.
    pub fn first_broken(&self) -> Option<&str> {
        self.first_broken.as_deref()
    }

    /// What was passed over in a directory, and why, and what there is to say of exports: each a line for the user before the run.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The next records: as many as it takes to come to `budget` bytes, or fewer where an input has no more at hand, and one at least. `None` is
    /// the end.
    ///
    /// Reads files and so may block; a damaged record is no error but a [`Record`] with its [`Fault`].
    ///
    /// # Errors
    /// A file cannot be read to its end. Comes once, after all records that could be read, of this file and of all others.
    pub fn read(&mut self, budget: usize) -> Result<Option<Page>, Error> {
        let (mut records, mut size) = (Vec::new(), 0);
        while size < budget && (records.is_empty() || self.is_at_hand()) {
            let Some(record) = self.next_record() else { break };
            size += record.data.len() + size_of::<Record>();
            records.push(record);
        }
        if !records.is_empty() {
            let current = self.current.as_ref().map_or(0, |input| input.read.load(Ordering::Relaxed));
            return Ok(Some(Page { records, read: self.finished_bytes + current }));
        }
        self.broken.extend(self.strangers.told(&self.source, self.files == 0));
        let broken = std::mem::take(&mut self.broken);
        let count = broken.len();
        match broken.into_iter().next() {
            None => Ok(None),
            Some(first) if count == 1 => Err(first),
            Some(mut first) => {
                first.what = format!("{} files could not be read to their ends, the first: {}", count, first.what);
                Err(first)
            }
        }
    }

    /// Whether the next record can be had without waiting for a pipe.
    fn is_at_hand(&mut self) -> bool {
        self.current.as_mut().is_none_or(Input::is_at_hand)
    }

    fn next_record(&mut self) -> Option<Record> {
        loop {
            if let Some(record) = self.reread.pop_front() {
                return Some(record);
            }
            let input = match &mut self.current {
                Some(input) => input,
                None => {
                    let mut entry = self.waiting.pop_front()?;
                    entry.begin();
                    self.waiting.iter_mut().take(objects::AHEAD).for_each(Entry::begin);
                    match entry.open() {
                        Ok(opened) => {
                            let input = self.input(&entry, opened);
                            self.current.insert(input)
                        }
                        Err(Refused::NotACapture(found)) if matches!(entry, Entry::Object(_)) => {
                            self.finished_bytes += entry.listed().map_or(0, |object| object.bytes);
                            self.files -= 1;
                            let label = self.label(&entry);
                            self.strangers.add(&label, &found);
                            continue;
                        }
                        Err(refused) => {
                            let name = self.label(&entry);
                            self.first_broken = self.first_broken.take().or_else(|| entry.listed().map(|file| file.name));
                            self.broken.push(match refused {
                                Refused::Unreadable(error) => files::unreadable(&name, &error),
                                Refused::NotACapture(_) => Error::new(Kind::Source, format!("{name} changed while the directory was read")),
                            });
                            continue;
                        }
                    }
                }
            };
            match input.next() {
                Ok(Some(Given::Record(record))) if is_before(&record.origin, &record.position, self.from.as_ref()) => continue,
                Ok(Some(Given::Record(record))) => return Some(record),
                Ok(Some(Given::Batch(offset, _))) if is_before(&input.origin, &Position::Byte { offset }, self.from.as_ref()) => continue,
                Ok(Some(Given::Batch(offset, batch))) => {
                    let at = format!("{}: at byte {offset}: {}", input.name, batch.described());
                    let shard = input.origin.shard.clone();
                    if let Err(error) = self.read_again(&batch, &at) {
                        self.first_broken.get_or_insert(shard);
                        self.broken.push(error);
                    }
                    continue;
                }
                Ok(None) => {
                    if let Some(what) = input.contents.as_ref().and_then(Contents::differs) {
                        tracing::warn!("{}: {what}", input.name);
                        self.is_incomplete = true;
                    }
                }
                Err(error) => {
                    self.first_broken.get_or_insert_with(|| input.origin.shard.clone());
                    self.broken.push(error);
                }
            }
            self.from = None;
            self.finished_bytes += input.read.load(Ordering::Relaxed);
            self.current = None;
        }
    }
}

impl Capture {
    /// Reads the records of a batch from their stream. `at` says which batch, and where it was found.
    fn read_again(&mut self, batch: &Batch, at: &str) -> Result<(), Error> {
        let Some(rereading) = &mut self.rereading else {
            let help = "read them again before the stream's retention ends: aws kinesis get-shard-iterator --shard-iterator-type \
                        AT_SEQUENCE_NUMBER, then get-records, whose saved answers can be read";
            return Err(Error::new(Kind::Source, format!("{at}; this build does not read streams")).help(help));
        };
        let reread = rereading(batch).map_err(|error| Error { what: format!("{at}: {}", error.what), ..error })?;
        self.is_incomplete |= reread.is_incomplete;
        self.reread = reread.records.into();
        Ok(())
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").field("source", &self.source).field("files", &self.files).finish_non_exhaustive()
    }
}

/// Whether a position is before an offset of its file.
fn is_before(origin: &Origin, position: &Position, from: Option<&(String, u64)>) -> bool {
    from.is_some_and(|(file, from)| matches!(position, Position::Byte { offset } if offset < from) && origin.shard == *file)
}
