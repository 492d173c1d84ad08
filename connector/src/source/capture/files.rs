//! The files of a captured stream: which there are, and each one's bytes up to the length that it had at the start, decompressed.
//!
//! Goes by content: a name decides only that a manifest is none and that a hidden file is left alone.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;

use super::export::is_manifest;
use super::objects::Object;
use super::recognise::{BYTE_ORDER_MARK, Format, recognise, tells};
use super::window::Window;
use crate::error::{Error, Kind};
use crate::plan::resume::Listed;

/// How often a file may be compressed over again.
const NESTED: usize = 4;

/// One input that is to be read.
#[derive(Debug, Clone)]
pub(super) enum Entry {
    /// An object of a bucket.
    Object(Object),
    /// Standard input, or a pipe given by its path.
    Pipe(Option<PathBuf>),
    /// A file: its path, its name below the directory, and its length at the start.
    File { path: PathBuf, name: String, length: u64 },
}

/// An input that was recognised, at the beginning of its first value.
pub(super) struct Opened {
    pub(super) format: Format,
    pub(super) compressed: bool,
    pub(super) window: Window,
    /// The bytes of the input read so far, before decompression.
    pub(super) read: Arc<AtomicU64>,
}

/// Why an input cannot be read at all.
#[derive(Debug)]
pub(super) enum Refused {
    /// It cannot be opened.
    Unreadable(io::Error),
    /// It is no captured stream; what was found instead.
    NotACapture(String),
}

impl Entry {
    /// Begins to fetch what is far away, before it is opened.
    pub(super) fn begin(&mut self) {
        if let Self::Object(object) = self {
            object.begin();
        }
    }

    /// Opens an input and recognises how it is kept.
    pub(super) fn open(&mut self) -> Result<Opened, Refused> {
        let length = self.listed().map(|file| file.bytes);
        let input = self.bytes().map_err(Refused::Unreadable)?;
        let read = Arc::new(AtomicU64::new(0));
        let over = |input, step| if length.is_some() { Window::new(input) } else { Window::live(input, step) };
        let mut window = over(Box::new(Counted { input, read: Arc::clone(&read), length }), usize::MAX);
        let mut compressed = false;
        for _ in 0..NESTED {
            let format = recognised(&mut window)?;
            if format != Format::Gzip {
                if window.bytes().starts_with(BYTE_ORDER_MARK) {
                    window.skip(BYTE_ORDER_MARK.len() as u64);
                }
                return Ok(Opened { format, compressed, window, read });
            }
            compressed = true;
            let decoder = MultiGzDecoder::new(BufReader::with_capacity(64 << 10, window.into_input()));
            window = over(Box::new(Stepwise(decoder)), STEP);
        }
        Err(Refused::NotACapture("found gzip inside gzip, over and over".to_owned()))
    }
}

/// Reads the beginning of an input, and no more of it than it takes to recognise it: a pipe may have nothing more for a long time.
fn recognised(window: &mut Window) -> Result<Format, Refused> {
    window.need(1);
    loop {
        let tells = !window.is_drained() || tells(window.bytes());
        match recognise(window.bytes(), window.ended()) {
            Ok(format) if tells => return Ok(format),
            Err(found) if !window.is_drained() => return Err(Refused::NotACapture(found)),
            _ => drop(window.more()),
        }
    }
}

/// Counts what is read, and does not take a file that became shorter for one that ends there.
struct Counted {
    input: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
    length: Option<u64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        let read = self.read.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
        if count == 0 && !buffer.is_empty() && self.length.is_some_and(|length| read < length) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was read"));
        }
        Ok(count)
    }
}

/// Bytes that are decompressed at once.
const STEP: usize = 4 << 10;

/// Decompresses in small steps, because a step that meets damage gives nothing of what it had decompressed before.
struct Stepwise<R>(R);

impl<R: Read> Read for Stepwise<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let step = buffer.len().min(STEP);
        self.0.read(&mut buffer[..step])
    }
}

impl Entry {
    /// Its bytes as they are stored, up to the length that it had at the start.
    pub(super) fn bytes(&mut self) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Object(object) => object.open(),
            Self::Pipe(None) => Box::new(io::stdin()),
            Self::Pipe(Some(path)) => Box::new(File::open(path)?),
            Self::File { path, length, .. } => Box::new(File::open(path)?.take(*length)),
        })
    }

    /// What is known of it without opening it; `None` of a pipe.
    pub(super) fn listed(&self) -> Option<Listed> {
        match self {
            Self::Pipe(_) => None,
            Self::Object(object) => Some(Listed { name: object.key().to_owned(), bytes: object.length() }),
            Self::File { name, length, .. } => Some(Listed { name: name.clone(), bytes: *length }),
        }
    }
}

/// The inputs that a source names.
#[derive(Debug, Default, Clone)]
pub(super) struct Found {
    /// What is to be read, in the order of the names.
    pub(super) entries: Vec<Entry>,
    /// The manifests of journal exports.
    pub(super) manifests: Vec<Entry>,
    /// What stands beside them and is not read, and why.
    pub(super) notes: Vec<String>,
}

/// Finds the inputs that a source names: one, or the files of a directory in the order of their names, and what was passed over.
pub(super) fn find(source: &str) -> Result<Found, Error> {
    let one = |entry| Found { entries: vec![entry], ..Found::default() };
    if source == "-" {
        return Ok(one(Entry::Pipe(None)));
    }
    let path = Path::new(source);
    let metadata = fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::new(Kind::Source, format!("{source} does not exist"))
            .help("a SOURCE is the path of a captured file or a directory of them, - for standard input, or the URL of a stream"),
        _ => unreadable(source, &error),
    })?;
    if metadata.is_dir() {
        let mut walk = Walk { files: Vec::new(), manifests: Vec::new(), notes: Vec::new(), seen: HashSet::new() };
        walk.directory(path, "").map_err(|(name, error)| unreadable(&name, &error))?;
        let entries = |mut files: Vec<(PathBuf, String, u64)>| {
            files.sort_by(|a, b| a.1.cmp(&b.1));
            files.into_iter().map(|(path, name, length)| Entry::File { path, name, length }).collect()
        };
        Ok(Found { entries: entries(walk.files), manifests: entries(walk.manifests), notes: walk.notes })
    } else if metadata.is_file() {
        Ok(one(Entry::File { path: path.to_owned(), name: String::new(), length: metadata.len() }))
    } else {
        Ok(one(Entry::Pipe(Some(path.to_owned()))))
    }
}

/// The error for what the operating system does not let us read.
pub(super) fn unreadable(name: &str, error: &io::Error) -> Error {
    Error::new(Kind::Source, format!("{name} cannot be read: {error}")).help("check its path and permissions")
}

/// A name as it is written: bytes that are no text each by their value, so that no two names of a directory become one.
fn written(name: &OsStr) -> String {
    name.as_encoded_bytes().utf8_chunks().fold(String::new(), |mut text, part| {
        text.push_str(part.valid());
        part.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
        text
    })
}

struct Walk {
    files: Vec<(PathBuf, String, u64)>,
    manifests: Vec<(PathBuf, String, u64)>,
    notes: Vec<String>,
    seen: HashSet<PathBuf>,
}

impl Walk {
    fn directory(&mut self, path: &Path, below: &str) -> Result<(), (String, io::Error)> {
        let failed = |error| (path.display().to_string(), error);
        // A directory that links back to one above it is read once.
        if !self.seen.insert(fs::canonicalize(path).map_err(failed)?) {
            return Ok(());
        }
        let mut children = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(failed)?;
        children.sort_by_key(fs::DirEntry::file_name);
        for child in children {
            let (path, name) = (child.path(), written(&child.file_name()));
            if name.starts_with('.') {
                continue;
            }
            let name = if below.is_empty() { name } else { format!("{below}/{name}") };
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => self.directory(&path, &name)?,
                Ok(metadata) if metadata.is_file() && is_manifest(&name) => self.manifests.push((path, name, metadata.len())),
                Ok(_) if path.extension().is_some_and(|extension| extension == "manifest") => {
                    self.notes.push(format!("passed over: {name}: a manifest"))
                }
                Ok(metadata) if metadata.is_file() => self.files.push((path, name, metadata.len())),
                Ok(_) => self.notes.push(format!("passed over: {name}: not a file")),
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.notes.push(format!("passed over: {name}: a link to nothing")),
                Err(error) => return Err((path.display().to_string(), error)),
            }
        }
        Ok(())
    }
}
