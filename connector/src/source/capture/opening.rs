//! How a captured stream is opened: which files there are, where to begin, and what each one is, as far as that is found out before the run.
//!
//! Reads no record.

use std::collections::VecDeque;

use aws_credential_types::provider::SharedCredentialsProvider;

use super::export::{self, Arranged};
use super::files::{self, Entry, Found, Opened, Refused};
use super::input::Input;
use super::{Capture, objects};
use crate::aws::bucket::Bucket;
use crate::aws::{Aws, Reach};
use crate::error::{Error, Kind};
use crate::plan::resume::{Listed, Place};
use crate::record::{Bound, Origin};

/// What a source names now. Whoever reads it several times reads the same every time, or is told what changed.
#[derive(Debug, Clone)]
pub struct Inputs {
    source: String,
    found: Found,
}

impl Inputs {
    /// Those of a path of a file or directory, or `-` for standard input.
    ///
    /// The lengths that the files have now are where a scan ends.
    ///
    /// # Errors
    /// What does not exist or cannot be read; a bound that is none, as a capture ends.
    pub fn find(source: &str, bound: Bound) -> Result<Self, Error> {
        if bound == Bound::Never {
            return Err(Error::usage(format!("{source} is a captured stream: it ends, and cannot be followed")).help("read it with sync"));
        }
        Ok(Self { source: source.to_owned(), found: files::find(source)? })
    }

    /// Those of a bucket: the object of that key, or all in the folder of that name.
    ///
    /// The keys, lengths and ETags that the objects have now are where a scan ends. An object of a folder is recognised when its turn comes, so that
    /// none is fetched twice.
    ///
    /// # Errors
    /// The bucket cannot be listed, holds nothing there, or only what has to be restored first.
    pub async fn in_bucket(bucket: &Bucket, aws: &Aws, credentials: Option<&SharedCredentialsProvider>) -> Result<Self, Error> {
        let found = objects::list(bucket, aws, credentials).await?;
        Ok(Self { source: Bucket { reach: Reach::default(), ..bucket.clone() }.to_string(), found })
    }

    /// Opens them in the middle: `from` is told the files, in the order in which they are read, and says where to begin. Those before are not opened,
    /// and of the file itself, which is framed from its beginning, records before the place are not handed out. May block.
    ///
    /// # Errors
    /// What cannot be read, or is no captured stream; a directory without one; that of `from`, or a pipe, which can be read from its beginning only.
    pub fn open_from(self, from: impl FnOnce(&[Listed]) -> Result<Place, Error>) -> Result<Capture, Error> {
        Capture::begin(self.source, self.found, from)
    }
}

impl Capture {
    /// Opens a captured stream: the path of a file or directory, or `-` for standard input.
    ///
    /// # Errors
    /// As [`Inputs::find`] and [`Inputs::open_from`].
    pub fn open(source: &str, bound: Bound) -> Result<Self, Error> {
        Inputs::find(source, bound)?.open_from(|_| Ok(Place::default()))
    }

    fn begin(source: String, found: Found, from: impl FnOnce(&[Listed]) -> Result<Place, Error>) -> Result<Self, Error> {
        let Found { entries, manifests, mut notes } = found;
        let Arranged { entries, notes: of_exports, is_incomplete } = export::arrange(entries, manifests);
        notes.extend(of_exports);
        let listed: Vec<Listed> = entries.iter().filter_map(Entry::listed).collect();
        let place = from(&listed)?;
        if place != Place::default() && listed.len() < entries.len() {
            return Err(Error::new(Kind::Source, format!("{source} is a pipe, and can be read from its beginning only")));
        }
        let is_one = entries.len() == 1;
        let passed = listed.iter().take(place.file).map(|file| file.bytes).sum();
        let mut capture = Self {
            source,
            waiting: VecDeque::new(),
            current: None,
            finished_bytes: passed,
            total: Some(passed),
            files: 0,
            notes,
            broken: Vec::new(),
            first_broken: None,
            from: listed.get(place.file).map(|file| (file.name.clone(), place.offset)).filter(|_| place.offset > 0),
            rereading: None,
            reread: VecDeque::new(),
            is_incomplete,
            strangers: Strangers::default(),
        };
        for entry in entries.into_iter().skip(place.file) {
            capture.admit(entry, is_one)?;
        }
        if capture.files > 0 {
            return Ok(capture);
        }
        let Self { source, notes, .. } = &capture;
        let what = match notes.len() {
            0 => format!("{source} is an empty directory"),
            _ => format!("{source} is a directory without a captured stream; {}", notes.join(", ")),
        };
        Err(Error::new(Kind::Source, what).help("name the directory or file that holds the captured stream"))
    }

    /// Recognises a file before the run; a directory's other files are passed over with a note. Objects are far away: of several, each is
    /// recognised when its turn comes.
    fn admit(&mut self, mut entry: Entry, is_one: bool) -> Result<(), Error> {
        if let Entry::Object(object) = &entry
            && !is_one
        {
            self.total = self.total.map(|total| total + object.length());
            self.files += 1;
            self.waiting.push_back(entry);
            return Ok(());
        }
        match (entry.open(), &entry) {
            (Err(Refused::Unreadable(error)), _) => return Err(files::unreadable(&self.label(&entry), &error)),
            (Err(Refused::NotACapture(found)), Entry::File { name, .. }) if !name.is_empty() => {
                self.notes.push(format!("passed over: {name}: {found}"));
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
                self.total = entry.listed().map(|file| file.bytes);
                self.current = Some(self.input(&entry, opened));
                self.files = 1;
                return Ok(());
            }
        }
        self.files += 1;
        self.waiting.push_back(entry);
        Ok(())
    }

    /// A file as a person is told it.
    pub(super) fn label(&self, entry: &Entry) -> String {
        match entry {
            Entry::Pipe(None) => "standard input".to_owned(),
            Entry::File { name, .. } if !name.is_empty() => format!("{}/{name}", self.source.trim_end_matches('/')),
            Entry::Object(object) => object.label(),
            _ => self.source.clone(),
        }
    }

    /// An entry on the way through its framing.
    pub(super) fn input(&self, entry: &Entry, opened: Opened) -> Input {
        let shard = entry.listed().map(|file| file.name).unwrap_or_default();
        // A key names an object in its bucket, not in a folder of it.
        let stream = if let Entry::Object(object) = entry { object.bucket() } else { self.source.clone() };
        Input::new(self.label(entry), Origin { stream, shard }, opened)
    }
}

/// Objects that turned out to be no captured streams when their turn came.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    count: usize,
    first: String,
}

impl Strangers {
    pub(super) fn add(&mut self, label: &str, found: &str) {
        if self.count == 0 {
            self.first = format!("{label}: {found}");
        }
        self.count += 1;
    }

    /// Says of them that they were passed over, once. An error where `all` there was is that.
    pub(super) fn told(&mut self, source: &str, all: bool) -> Option<Error> {
        let Self { count: count @ 1.., first } = std::mem::take(self) else { return None };
        let passed = match count {
            1 => format!("passed over: {first}"),
            _ => format!("passed over: {count} objects that are no captured streams, the first {first}"),
        };
        if !all {
            tracing::warn!("{passed}");
            return None;
        }
        let what = format!("{source} is a folder without a captured stream; {passed}");
        Some(Error::new(Kind::Source, what).help("name the folder or object that holds the captured stream"))
    }
}
