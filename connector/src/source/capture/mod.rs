//! Captured streams: a file, a directory or standard input, recognised by content and read in bounded memory whatever its size.
//!
//! Every record is complete in itself. Damage becomes a record that says so, and reading goes on wherever the format lets it; where it does
//! not, everything before the damage is handed out first. Never decodes a record, never reads past the length that a file had at the start.

mod files;
mod ion_binary;
mod ion_layout;
mod ion_text;
mod ion_text_layout;
mod json;
mod json_record;
mod kafka_event;
mod on_failure;
mod recognise;
#[cfg(test)]
mod tests;
mod text;
mod window;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::error::{Error, Kind};
use crate::plan::resume::{Listed, Place};
use crate::record::{Bound, Fault, Message, Origin, Position, Record};
use crate::source::scan::Page;
use files::{Entry, Opened, Refused};
pub use on_failure::Batch;
use recognise::Format;
use window::{VALUE_LIMIT, Window};

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

/// What a framing gave.
enum Given {
    Record(Record),
    /// The batch of a document that begins there.
    Batch(u64, Box<Batch>),
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

/// One file on the way through its framing.
struct Input {
    name: String,
    origin: Arc<Origin>,
    framing: Framing,
    compressed: bool,
    window: Window,
    read: Arc<AtomicU64>,
}

#[derive(Clone)]
enum Framing {
    Empty,
    IonBinary(ion_binary::IonBinary),
    IonText(ion_text::IonText),
    ObjectLines,
    Json(json::Json),
    RowLines,
    RowValues(json::Json),
    Whole,
}

impl Capture {
    /// Opens a captured stream: the path of a file or directory, or `-` for standard input.
    ///
    /// The lengths that the files have now are where the scan ends.
    ///
    /// # Errors
    /// What does not exist, cannot be read, or is no captured stream; a directory without one; a bound that is none, as a capture ends.
    pub fn open(source: &str, bound: Bound) -> Result<Self, Error> {
        Self::open_from(source, bound, |_| Ok(Place { file: 0, offset: 0 }))
    }

    /// Opens a captured stream in the middle: `from` is told the files, in the order in which they are read, and says where to begin. Those before are
    /// not opened, and of the file itself, which is framed from its beginning, records before the place are not handed out.
    ///
    /// # Errors
    /// As [`open`](Self::open); and that of `from`, or a pipe, which can be read from its beginning only.
    pub fn open_from(source: &str, bound: Bound, from: impl FnOnce(&[Listed]) -> Result<Place, Error>) -> Result<Self, Error> {
        if bound == Bound::Never {
            return Err(Error::usage(format!("{source} is a captured stream: it ends, and cannot be followed")).help("read it with sync"));
        }
        let (entries, notes) = files::find(source)?;
        let listed: Vec<Listed> = entries.iter().filter_map(Entry::listed).collect();
        let place = from(&listed)?;
        if place != (Place { file: 0, offset: 0 }) && listed.len() < entries.len() {
            return Err(Error::new(Kind::Source, format!("{source} is a pipe, and can be read from its beginning only")));
        }
        let mut capture = Self {
            source: source.to_owned(),
            waiting: VecDeque::new(),
            current: None,
            finished_bytes: listed.iter().take(place.file).map(|file| file.bytes).sum(),
            total: Some(listed.iter().take(place.file).map(|file| file.bytes).sum()),
            files: 0,
            notes,
            broken: Vec::new(),
            first_broken: None,
            from: listed.get(place.file).map(|file| (file.name.clone(), place.offset)).filter(|_| place.offset > 0),
            rereading: None,
            reread: VecDeque::new(),
            is_incomplete: false,
        };
        for entry in entries.into_iter().skip(place.file) {
            capture.admit(entry)?;
        }
        if capture.files > 0 {
            return Ok(capture);
        }
        let what = match capture.notes.len() {
            0 => format!("{source} is an empty directory"),
            _ => format!("{source} is a directory without a captured stream; passed over: {}", capture.notes.join(", ")),
        };
        Err(Error::new(Kind::Source, what).help("name the directory or file that holds the captured stream"))
    }

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

    /// What was passed over in a directory, and why: for a line to the user before the run.
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

    /// Recognises a file before the run; a directory's other files are passed over with a note.
    fn admit(&mut self, entry: Entry) -> Result<(), Error> {
        match (entry.open(), &entry) {
            (Err(Refused::Unreadable(error)), _) => return Err(files::unreadable(&self.label(&entry), &error)),
            (Err(Refused::NotACapture(found)), Entry::File { name, .. }) if !name.is_empty() => {
                self.notes.push(format!("{name}: {found}"));
                return Ok(());
            }
            (Err(Refused::NotACapture(found)), _) => {
                let what = format!(
                    "{} is not a captured stream: expected Ion binary (E0 01 00 EA), Ion text, row changes of Lindorm or Debezium in \
                     JSON, JSON lines of Base64 records, a Lambda event, what Lambda wrote to S3 of a batch that it gave up, a GetRecords answer \
                     or a KPL aggregate, plain or gzipped; {found}",
                    self.label(&entry)
                );
                return Err(Error::new(Kind::Source, what).help("name a file that holds stream records"));
            }
            (Ok(_), Entry::File { name, length, .. }) if !name.is_empty() => self.total = self.total.map(|total| total + length),
            // The only input: kept open, because a pipe can be read only once.
            (Ok(opened), _) => {
                self.total = if let Entry::File { length, .. } = entry { Some(length) } else { None };
                self.current = Some(self.input(&entry, opened));
                self.files = 1;
                return Ok(());
            }
        }
        self.files += 1;
        self.waiting.push_back(entry);
        Ok(())
    }

    fn label(&self, entry: &Entry) -> String {
        match entry {
            Entry::Pipe(None) => "standard input".to_owned(),
            Entry::File { name, .. } if !name.is_empty() => format!("{}/{name}", self.source.trim_end_matches('/')),
            _ => self.source.clone(),
        }
    }

    fn input(&self, entry: &Entry, opened: Opened) -> Input {
        let shard = if let Entry::File { name, .. } = entry { name.clone() } else { String::new() };
        let framing = match opened.format {
            // Gzip is taken off before.
            Format::Empty | Format::Gzip => Framing::Empty,
            Format::IonBinary => Framing::IonBinary(ion_binary::IonBinary::default()),
            Format::IonText => Framing::IonText(ion_text::IonText::default()),
            Format::ObjectLines => Framing::ObjectLines,
            Format::Json => Framing::Json(json::Json::default()),
            Format::RowLines => Framing::RowLines,
            Format::RowValues => Framing::RowValues(json::Json::rows()),
            Format::Whole => Framing::Whole,
        };
        Input {
            name: self.label(entry),
            origin: Arc::new(Origin { stream: self.source.clone(), shard }),
            framing,
            compressed: opened.compressed,
            window: opened.window,
            read: opened.read,
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
                    let entry = self.waiting.pop_front()?;
                    match entry.open() {
                        Ok(opened) => {
                            let input = self.input(&entry, opened);
                            self.current.insert(input)
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
                Ok(None) => {}
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

impl Framing {
    fn next(&mut self, window: &mut Window) -> Result<Option<Framed>, Broken> {
        match self {
            Self::Empty => Ok(None),
            Self::IonBinary(framing) => framing.next(window),
            Self::IonText(framing) => framing.next(window),
            Self::ObjectLines => Ok(text::next_line(window)),
            Self::RowLines => Ok(text::next_line(window).map(without_comma)),
            Self::Json(framing) | Self::RowValues(framing) => framing.next(window),
            Self::Whole => whole(window),
        }
    }
}

impl Input {
    fn is_at_hand(&mut self) -> bool {
        if !self.window.is_drained() {
            return true;
        }
        let mut framing = self.framing.clone();
        self.window.suffices(|window| drop(framing.next(window)))
    }

    fn next(&mut self) -> Result<Option<Given>, Error> {
        let framed = self.framing.next(&mut self.window);
        if let Ok(Some(Framed { offset, data, arrived, damage, message, batch })) = framed {
            if let Some(batch) = batch {
                return Ok(Some(Given::Batch(offset, batch)));
            }
            // So tools print the value of a message that has none, which is what follows a delete.
            let is_null = matches!(self.framing, Framing::RowLines | Framing::RowValues(_)) && data == "null";
            return Ok(Some(Given::Record(Record {
                origin: Arc::clone(&self.origin),
                position: Position::Byte { offset },
                data,
                arrived,
                damage,
                message: message.or_else(|| is_null.then(|| Arc::new(Message { is_null, ..Message::default() }))),
            })));
        }
        let after = if self.compressed { " of its decompressed content" } else { "" };
        // An input that fails looks to its framing like one that was cut off; this is the real reason.
        let what = match (self.window.take_failure(), framed) {
            (Some(failure), _) => {
                let end = self.window.offset() + self.window.bytes().len() as u64;
                let how = if self.compressed { "is damaged or cut off" } else { "cannot be read" };
                format!("{} {how} after byte {end}{after}: {failure}", self.name)
            }
            (None, Err(broken)) => format!("{} is damaged at byte {}{after}: {}", self.name, broken.offset, broken.what),
            (None, _) => return Ok(None),
        };
        Err(Error::new(Kind::Source, what).help(
            "everything before it was read; capture it again or cut the damage out, and run the same command: nothing is written twice",
        ))
    }
}

/// Whether a position is before an offset of its file.
fn is_before(origin: &Origin, position: &Position, from: Option<&(String, u64)>) -> bool {
    from.is_some_and(|(file, from)| matches!(position, Position::Byte { offset } if offset < from) && origin.shard == *file)
}

/// A line without the comma of the list that it was cut from.
fn without_comma(framed: Framed) -> Framed {
    let data = if framed.data.ends_with(b",") { framed.data.slice(..framed.data.len() - 1) } else { framed.data };
    Framed { data, ..framed }
}

/// A file that is one record.
fn whole(window: &mut Window) -> Result<Option<Framed>, Broken> {
    while window.more() {}
    match window.bytes().len() {
        0 => Ok(None),
        length if length <= VALUE_LIMIT => Ok(Some(Framed::new(window.offset(), window.take(length)))),
        _ => Err(Broken::at(window.offset(), "expected one record of at most 16 MiB, found more")),
    }
}
