//! Checkpoints in a file of JSON, replaced as a whole with every change, on stable storage before that returns.
//!
//! Several processes may use one file: who changes it holds a lock on a file beside it (`PATH.lock`, which stays). A file that was there and is
//! gone, or is another one now, is not made anew.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Pending, Pipeline, Shelf};
use crate::error::{Error, Kind};
use crate::plan::stored::{Change, Stamp, Stored, Written};
use crate::store::disk::{beside, private, sync_folder};

/// The version of the file's form that is written; a newer one is refused.
const FORMAT_VERSION: u32 = 1;

/// What the file says.
#[derive(Debug, Serialize, Deserialize)]
struct Content {
    v: u32,
    /// What no other file has: numbers of this one mean nothing in another.
    file: u64,
    /// The number of the last change.
    changes: u64,
    rows: Vec<Line>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    id: String,
    /// The change that wrote it.
    change: u64,
    row: Box<RawValue>,
}

/// A file of checkpoints. Created with its first row.
#[derive(Debug, Clone)]
pub struct ShelfFile {
    name: String,
    path: PathBuf,
    /// Which file was found under the path.
    known: Arc<Mutex<Option<u64>>>,
}

impl ShelfFile {
    /// Opens a file, and finds out now whether it can be read, and written where it is to be. Leaves nothing behind where there was nothing.
    ///
    /// # Errors
    /// The file cannot be read or written, or is no file of checkpoints.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = Self::look(path);
        file.content()?;
        file.probe()
            .map_err(|error| file.error(None, "cannot be written", &error).help("name another place with --checkpoints file:PATH"))?;
        Ok(file)
    }

    /// Opens a file only to look at what is there; where there is none, there are no checkpoints.
    pub fn look(path: &Path) -> Self {
        Self { name: format!("file:{}", path.display()), path: path.to_owned(), known: Arc::default() }
    }

    /// Permissions, read-only and full file systems all show themselves only when something is created.
    fn probe(&self) -> io::Result<()> {
        let probe = beside(&self.path, "probe");
        private(OpenOptions::new().write(true).create_new(true)).open(&probe)?;
        fs::remove_file(&probe)
    }

    /// A disk that is full or away for a while passes; what never worked is for a person.
    fn error(&self, known: Option<u64>, what: &str, error: &io::Error) -> Error {
        let kind = if known.is_some() { Kind::Pending } else { Kind::Checkpoints };
        Error::new(kind, format!("checkpoints: {} {what}: {error}", self.name)).help("make room there, or give back the right to it")
    }

    fn known(&self) -> Option<u64> {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the file says; `None` where there is none and there never was.
    fn content(&self) -> Result<Option<Content>, Error> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return match *known {
                    None => Ok(None),
                    Some(_) => Err(self.gone("was there and is gone")),
                };
            }
            Err(error) => return Err(self.error(*known, "cannot be read", &error)),
        };
        let content = self.parse(&text)?;
        match *known {
            Some(file) if file != content.file => Err(self.gone("is no longer the file that it was")),
            _ => {
                *known = Some(content.file);
                Ok(Some(content))
            }
        }
    }

    fn gone(&self, what: &str) -> Error {
        Error::new(Kind::Checkpoints, format!("checkpoints: {} {what}", self.name))
            .help("restore it; or start revsync again, and what has no checkpoint begins anew")
    }

    fn parse(&self, text: &str) -> Result<Content, Error> {
        #[derive(Deserialize)]
        struct Head {
            v: u32,
        }
        let refuse = |what: String| Error::new(Kind::Checkpoints, format!("checkpoints: {}: {what}", self.name));
        // serde's own text may quote what it found.
        let foreign = |error: &serde_json::Error| {
            let what = format!("expected a file of checkpoints, found something else near line {} column {}", error.line(), error.column());
            refuse(what).help("it was not touched: name another file with --checkpoints file:PATH, or restore it")
        };
        let Head { v } = serde_json::from_str(text).map_err(|error| foreign(&error))?;
        if v > FORMAT_VERSION {
            let what = format!("expected form {FORMAT_VERSION} or older, found form {v}, which a newer revsync wrote");
            return Err(refuse(what).help("use that one, or name another file with --checkpoints file:PATH"));
        }
        serde_json::from_str(text).map_err(|error| foreign(&error))
    }

    fn rows(&self) -> Result<Vec<Stored>, Error> {
        let Some(content) = self.content()? else { return Ok(Vec::new()) };
        let stored =
            |line: Line| Stored { stamp: Stamp { number: line.change, term: content.file }, body: line.row.get().to_owned(), id: line.id };
        Ok(content.rows.into_iter().map(stored).collect())
    }

    fn change(&self, changes: Vec<Change>) -> Result<Vec<Written>, Error> {
        let failed = |error: io::Error| self.error(self.known(), "cannot be written", &error);
        // Through a symbolic link, the file that it names is replaced, not the link.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let _lock = locked(&path).map_err(failed)?;
        let mut content = self.content()?.unwrap_or_else(|| Content {
            v: FORMAT_VERSION,
            // The standard library's hash keys are the one source of chance that needs no crate.
            file: RandomState::new().hash_one(std::process::id()),
            changes: 0,
            rows: Vec::new(),
        });
        let before = content.changes;
        let written: Vec<Written> = changes.into_iter().map(|change| self.apply(&mut content, change)).collect();
        if content.changes > before {
            replace(&path, &content).map_err(failed)?;
            *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(content.file);
        }
        Ok(written)
    }

    fn apply(&self, content: &mut Content, Change { id, expect, body }: Change) -> Written {
        let at = content.rows.iter().position(|line| line.id == id);
        let now = at.map(|at| Stamp { number: content.rows[at].change, term: content.file });
        if now != expect {
            return Written::Conflict;
        }
        let row = match body.map(RawValue::from_string).transpose() {
            Ok(row) => row,
            Err(_) => {
                let what = format!("checkpoints: {}: expected JSON to write as row {id:?}", self.name);
                return Written::Failed(Error::new(Kind::Checkpoints, what));
            }
        };
        content.changes += 1;
        let change = content.changes;
        match (at, row) {
            (Some(at), Some(row)) => content.rows[at] = Line { id, change, row },
            (None, Some(row)) => content.rows.push(Line { id, change, row }),
            (Some(at), None) => drop(content.rows.remove(at)),
            (None, None) => {}
        }
        Written::Done(Stamp { number: change, term: content.file })
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce(&Self) -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
        let file = self.clone();
        match tokio::task::spawn_blocking(move || work(&file)).await {
            Ok(result) => result,
            Err(_) => Err(Error::new(Kind::Checkpoints, format!("checkpoints: {}: the work panicked, which is a bug", self.name))),
        }
    }
}

impl Shelf for ShelfFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn read<'a>(&'a self, _: Option<&'a Pipeline>) -> Pending<'a, Result<Vec<Stored>, Error>> {
        // All rows are read anyway, and whoever asks for those of one pipeline looks whose they are.
        Box::pin(self.run(Self::rows))
    }

    fn write(&self, changes: Vec<Change>) -> Pending<'_, Result<Vec<Written>, Error>> {
        Box::pin(self.run(move |file| file.change(changes)))
    }
}

/// Holds the lock until it is dropped.
fn locked(path: &Path) -> io::Result<File> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    let lock = private(OpenOptions::new().write(true).create(true).truncate(false)).open(path.with_file_name(name))?;
    lock.lock()?;
    Ok(lock)
}

/// Puts the content in the place of what is there: the one or the other is found whatever happens meanwhile.
fn replace(path: &Path, content: &Content) -> io::Result<()> {
    let new = beside(path, "new");
    let written = write(&new, content).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written.and_then(|()| sync_folder(path))
}

fn write(path: &Path, content: &Content) -> io::Result<()> {
    let mut file = private(OpenOptions::new().write(true).create_new(true)).open(path)?;
    let mut text = serde_json::to_vec_pretty(content)?;
    text.push(b'\n');
    file.write_all(&text)?;
    file.sync_all()
}
