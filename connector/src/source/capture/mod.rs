//! Captured streams: a file, a directory, standard input, or objects of a bucket, recognised by content and read in bounded memory whatever its size.
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
mod objects;
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

use aws_credential_types::provider::SharedCredentialsProvider;
use bytes::Bytes;
use tokio::task::spawn_blocking;

use crate::aws::bucket::Bucket;
use crate::aws::{Aws, Reach};
use crate::error::{Error, Kind};
use crate::panics::panicked;
use crate::record::{Bound, Fault, Message, Origin, Position, Record};
use crate::source::scan::Page;
use files::{Entry, Opened, Refused};
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
    /// Objects that turned out to be no captured streams when they were opened: how many, and what is said of the first.
    strangers: (usize, String),
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
}

impl Framed {
    /// A record that is its bytes and nothing more.
    fn new(offset: u64, data: Bytes) -> Self {
        Self { offset, data, arrived: None, damage: None, message: None }
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
    /// What to do, where it is no damage.
    help: Option<String>,
}

impl Broken {
    fn at(offset: u64, what: impl Into<String>) -> Self {
        Self { offset, what: what.into(), help: None }
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
        if bound == Bound::Never {
            return Err(Error::usage(format!("{source} is a captured stream: it ends, and cannot be followed")).help("read it with sync"));
        }
        let (entries, notes) = files::find(source)?;
        let mut capture = Self::new(source.to_owned(), notes);
        for entry in entries {
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

    /// Opens a captured stream in a bucket: the object of that key, or all in the folder of that name.
    ///
    /// The keys, lengths and ETags that the objects have now are where the scan ends. An object of a folder is recognised when its turn comes, so that
    /// none is fetched twice.
    ///
    /// # Errors
    /// The bucket cannot be listed, holds nothing there, or only what has to be restored first; one object that cannot be read, or is no captured
    /// stream.
    pub async fn in_bucket(bucket: &Bucket, aws: &Aws, credentials: Option<&SharedCredentialsProvider>) -> Result<Self, Error> {
        let listing = objects::list(bucket, aws, credentials).await?;
        let named = Bucket { reach: Reach::default(), ..bucket.clone() };
        let mut capture = Self::new(named.to_string(), listing.notes);
        if !listing.is_one {
            capture.total = Some(listing.entries.iter().map(Entry::length).sum());
            (capture.files, capture.waiting) = (listing.entries.len(), listing.entries.into());
            return Ok(capture);
        }
        let admitted = spawn_blocking(move || {
            listing.entries.into_iter().try_for_each(|entry| capture.admit(entry))?;
            Ok(capture)
        });
        admitted.await.map_err(|_| panicked())?
    }

    fn new(source: String, notes: Vec<String>) -> Self {
        Self {
            source,
            waiting: VecDeque::new(),
            current: None,
            finished_bytes: 0,
            total: Some(0),
            files: 0,
            notes,
            broken: Vec::new(),
            strangers: (0, String::new()),
        }
    }

    /// Bytes of all files, as they are stored; `None` for a pipe, whose length nobody knows.
    pub fn total(&self) -> Option<u64> {
        self.total
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
        if let (count @ 1.., first) = std::mem::take(&mut self.strangers) {
            if self.files == 0 {
                let what = format!("{} is a folder without a captured stream; passed over: {count} objects, the first {first}", self.source);
                self.broken.push(Error::new(Kind::Source, what).help("name the folder or object that holds the captured stream"));
            } else {
                tracing::warn!("passed over: {count} objects that are no captured streams, the first {first}");
            }
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
    fn admit(&mut self, mut entry: Entry) -> Result<(), Error> {
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
                self.total = if let Entry::Pipe(_) = entry { None } else { Some(entry.length()) };
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
            Entry::Object(object) => object.label(),
            _ => self.source.clone(),
        }
    }

    fn input(&self, entry: &Entry, opened: Opened) -> Input {
        let shard = match entry {
            Entry::File { name, .. } => name.clone(),
            Entry::Object(object) => object.key().to_owned(),
            Entry::Pipe(_) => String::new(),
        };
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
            let input = match &mut self.current {
                Some(input) => input,
                None => {
                    let mut entry = self.waiting.pop_front()?;
                    self.waiting.iter_mut().take(objects::AHEAD).for_each(Entry::begin);
                    match entry.open() {
                        Ok(opened) => {
                            let input = self.input(&entry, opened);
                            self.current.insert(input)
                        }
                        Err(Refused::NotACapture(found)) if matches!(entry, Entry::Object(_)) => {
                            self.finished_bytes += entry.length();
                            self.files -= 1;
                            if self.strangers.0 == 0 {
                                self.strangers.1 = format!("{}: {found}", self.label(&entry));
                            }
                            self.strangers.0 += 1;
                            continue;
                        }
                        Err(refused) => {
                            let name = self.label(&entry);
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
                Ok(Some(record)) => return Some(record),
                Ok(None) => {}
                Err(error) => self.broken.push(error),
            }
            self.finished_bytes += input.read.load(Ordering::Relaxed);
            self.current = None;
        }
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

    fn next(&mut self) -> Result<Option<Record>, Error> {
        let framed = self.framing.next(&mut self.window);
        if let Ok(Some(Framed { offset, data, arrived, damage, message })) = framed {
            // So tools print the value of a message that has none, which is what follows a delete.
            let is_null = matches!(self.framing, Framing::RowLines | Framing::RowValues(_)) && data == "null";
            return Ok(Some(Record {
                origin: Arc::clone(&self.origin),
                position: Position::Byte { offset },
                data,
                arrived,
                damage,
                message: message.or_else(|| is_null.then(|| Arc::new(Message { is_null, ..Message::default() }))),
            }));
        }
        let after = if self.compressed { " of its decompressed content" } else { "" };
        // An input that fails looks to its framing like one that was cut off; this is the real reason.
        let failure = self.window.take_failure();
        if let Some(refusal) = failure.as_ref().and_then(objects::refusal) {
            return Err(Error::new(Kind::Source, format!("{} cannot be read: {refusal}", self.name)).help(refusal.help.clone()));
        }
        let what = match (failure, framed) {
            (Some(failure), _) => {
                let end = self.window.offset() + self.window.bytes().len() as u64;
                let how = if self.compressed { "is damaged or cut off" } else { "cannot be read" };
                format!("{} {how} after byte {end}{after}: {failure}", self.name)
            }
            (None, Err(Broken { offset, what, help: Some(help) })) => {
                return Err(Error::new(Kind::Source, format!("{}: at byte {offset}{after}: {what}", self.name)).help(help));
            }
            (None, Err(broken)) => format!("{} is damaged at byte {}{after}: {}", self.name, broken.offset, broken.what),
            (None, _) => return Ok(None),
        };
        Err(Error::new(Kind::Source, what).help(
            "everything before it was read; capture it again or cut the damage out, and run the same command: nothing is written twice",
        ))
    }
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
