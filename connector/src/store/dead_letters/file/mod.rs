//! Dead letters in a file: one line of JSON per letter, appended to, each write on stable storage before it returns.
//!
//! Several processes may use one file: a writer holds a lock on it. A line that cannot be read is never removed, and never hides another.

mod walk;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Take, Write};
use std::path::{Path, PathBuf};

use super::super::disk::{beside, private, sync_folder};
use super::Entry;
use super::letter::read;
use crate::error::{Error, Kind};

pub use walk::FileWalk;

/// A file of dead letters. Created with its first letter.
#[derive(Debug, Clone)]
pub struct LetterFile {
    path: PathBuf,
}

impl LetterFile {
    pub(super) fn look(path: &Path) -> Self {
        Self { path: path.to_path_buf() }
    }

    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let file = Self::look(path);
        file.probe().map_err(|error| file.error("cannot be written", &error).help("name another place with --dead-letters file:PATH"))?;
        Ok(file)
    }

    /// Whether letters can be written here, without writing any.
    fn probe(&self) -> io::Result<()> {
        match fs::metadata(&self.path) {
            Ok(found) if found.is_file() => OpenOptions::new().append(true).open(&self.path).map(drop),
            // Anything else (a folder, a pipe, /dev/null) would lose what is written to it.
            Ok(_) => Err(io::Error::other("it is not an ordinary file")),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // Permissions, read-only and full file systems all show themselves only when something is created.
                let probe = beside(&self.path, "probe");
                OpenOptions::new().write(true).create_new(true).open(&probe)?;
                fs::remove_file(&probe)
            }
            Err(error) => Err(error),
        }
    }

    /// Appends whole lines. All of them are on stable storage afterwards, or none counts.
    pub(super) fn append(&self, lines: &[u8]) -> Result<(), Error> {
        self.try_append(lines).map_err(|error| self.error("cannot be written", &error))
    }

    fn try_append(&self, lines: &[u8]) -> io::Result<()> {
        let (mut file, created) = self.locked()?;
        let length = file.seek(SeekFrom::End(0))?;
        let written =
            if ends_torn(&mut file, length)? { file.write_all(b"\n").and_then(|()| file.write_all(lines)) } else { file.write_all(lines) };
        if let Err(error) = written.and_then(|()| file.sync_data()) {
            // A disk that filled up in the middle leaves no half letter, where it still can be avoided.
            let _ = file.set_len(length);
            return Err(error);
        }
        if created { sync_folder(&self.path) } else { Ok(()) }
    }

    /// The file, open and locked for writing, and whether it is new. Created readable by its owner only.
    fn locked(&self) -> io::Result<(File, bool)> {
        loop {
            let created = !self.path.exists();
            let file = private(OpenOptions::new().read(true).append(true).create(true)).open(&self.path)?;
            file.lock()?;
            // Whoever held the lock before may have put another file in this one's place.
            if is_at(&file, &self.path)? {
                return Ok((file, created));
            }
        }
    }

    /// All letters, oldest first, each id once (as it was stored last), with what is damaged between them.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn list(&self) -> Result<Entries, Error> {
        self.try_list().map_err(|error| self.error("cannot be read", &error))
    }

    fn try_list(&self) -> io::Result<Entries> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Entries::none()),
            Err(error) => return Err(error),
        };
        // Under the lock no letter is half written; what comes later is not looked at.
        file.lock_shared()?;
        let length = file.metadata()?.len();
        let (file, last) = last_lines(file, length)?;
        file.unlock()?;
        Ok(Entries { lines: Some(Lines::new(file, length)), last, path: self.path.clone() })
    }

    pub(super) fn walk(&self) -> Result<FileWalk, Error> {
        Ok(FileWalk::new(self.clone(), self.list()?))
    }

    /// Takes out the letters of these ids, and of every other letter the older copies.
    pub(super) fn remove(&self, ids: &HashSet<String>) -> Result<usize, Error> {
        self.try_remove(ids).map_err(|error| self.error("cannot be rewritten", &error))
    }

    fn try_remove(&self, ids: &HashSet<String>) -> io::Result<usize> {
        if !self.path.exists() {
            return Ok(0);
        }
        // Through a symbolic link, the file that it names is replaced, not the link.
        let path = fs::canonicalize(&self.path)?;
        let here = Self { path };
        let (mut file, _) = here.locked()?;
        let length = file.metadata()?.len();
        file.rewind()?;
        let rewritten = beside(&here.path, "new");
        let result = here.keep_others(file, length, ids, &rewritten);
        if result.is_err() {
            let _ = fs::remove_file(&rewritten);
        }
        result
    }

    /// Writes everything that stays to a new file and puts it in the old one's place. The lock is held until then.
    fn keep_others(&self, old: File, length: u64, ids: &HashSet<String>, rewritten: &Path) -> io::Result<usize> {
        let permissions = old.metadata()?.permissions();
        let mut removed = HashSet::new();
        let (old, last) = last_lines(old, length)?;
        let mut lines = Lines::new(old, length);
        let new = private(OpenOptions::new().write(true).create_new(true)).open(rewritten)?;
        new.set_permissions(permissions)?;
        let mut new = BufWriter::new(new);
        while let Some((number, line)) = lines.next()? {
            match read(line) {
                Ok(letter) if ids.contains(&letter.id) => {
                    removed.insert(letter.id);
                }
                Ok(letter) if last.get(&letter.id) != Some(&number) => {}
                _ => {
                    new.write_all(line)?;
                    new.write_all(b"\n")?;
                }
            }
        }
        new.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(rewritten, &self.path)?;
        sync_folder(&self.path)?;
        Ok(removed.len())
    }

    fn error(&self, what: &str, error: &io::Error) -> Error {
        Error::new(Kind::DeadLetters, format!("dead letters: file:{} {what}: {error}", self.path.display()))
    }
}

/// Goes through a file of dead letters; reads one line at a time.
#[derive(Debug)]
pub struct Entries {
    lines: Option<Lines>,
    /// In which line each id stands last.
    last: HashMap<String, u64>,
    path: PathBuf,
}

impl Entries {
    fn none() -> Self {
        Self { lines: None, last: HashMap::new(), path: PathBuf::new() }
    }
}

impl Iterator for Entries {
    type Item = Result<Entry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let next = self.lines.as_mut()?.next();
            let (line, found) = match next {
                Ok(Some((number, line))) => (number, read(line)),
                Ok(None) => {
                    self.lines = None;
                    return None;
                }
                Err(error) => {
                    self.lines = None;
                    return Some(Err(LetterFile::look(&self.path).error("cannot be read", &error)));
                }
            };
            match found {
                Ok(letter) if self.last.get(&letter.id) == Some(&line) => return Some(Ok(Entry::Letter(Box::new(letter)))),
                Ok(_) => {}
                Err(reason) => return Some(Ok(Entry::Damaged { at: format!("line {line}"), reason })),
            }
        }
    }
}

/// The lines of a file up to a length, without their ends; blank ones are passed over.
#[derive(Debug)]
struct Lines {
    reader: Take<BufReader<File>>,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    fn new(file: File, length: u64) -> Self {
        Self { reader: BufReader::new(file).take(length), line: Vec::new(), number: 0 }
    }

    fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        loop {
            self.line.clear();
            if self.reader.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.line.last() == Some(&b'\n') {
                self.line.pop();
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(Some((self.number, &self.line)));
            }
        }
    }

    fn into_file(self) -> File {
        self.reader.into_inner().into_inner()
    }
}

/// In which line each letter stands last; the file is at its beginning again.
fn last_lines(file: File, length: u64) -> io::Result<(File, HashMap<String, u64>)> {
    let mut lines = Lines::new(file, length);
    let mut last = HashMap::new();
    while let Some((number, line)) = lines.next()? {
        if let Ok(letter) = read(line) {
            last.insert(letter.id, number);
        }
    }
    let mut file = lines.into_file();
    file.rewind()?;
    Ok((file, last))
}

/// Whether the last line has no end: a writer was stopped in the middle of it.
fn ends_torn(file: &mut File, length: u64) -> io::Result<bool> {
    if length == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::Start(length - 1))?;
    file.read_exact(&mut last)?;
    Ok(last[0] != b'\n')
}

/// Whether the path still names this open file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let open = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((open.dev(), open.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Elsewhere a locked file cannot be replaced.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}
