//! Goes through a file of dead letters. To take letters out the file is written anew, so they are taken out seldom: when half of them may go, and
//! at the end.

use std::collections::HashSet;

use super::{Entries, LetterFile};
use crate::error::Error;
use crate::store::dead_letters::{Anew, Entry, PORTION_BYTES, blocking};

/// Goes through a file of dead letters in portions.
#[derive(Debug)]
pub struct FileWalk {
    file: LetterFile,
    entries: Option<Entries>,
    /// Why the file cannot be read any further; told when what came before it was worked on.
    failed: Option<Error>,
    /// Letters that the file holds, about.
    left: usize,
    /// What may go, and is still there.
    settled: HashSet<String>,
    /// Letters were stored anew, so that older copies of them may go.
    replaced: bool,
}

impl FileWalk {
    pub(super) fn new(file: LetterFile, entries: Entries) -> Self {
        Self { file, left: entries.last.len(), entries: Some(entries), failed: None, settled: HashSet::new(), replaced: false }
    }

    pub(in crate::store::dead_letters) async fn next(&mut self, most: usize) -> Result<Option<Vec<Entry>>, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let Some(mut entries) = self.entries.take() else { return Ok(None) };
        let (entries, portion, failed) = blocking(move || {
            let (portion, failed) = portion(&mut entries, most);
            Ok((entries, portion, failed))
        })
        .await?;
        self.entries = Some(entries);
        match failed {
            Some(error) if portion.is_empty() => return Err(error),
            failed => self.failed = failed,
        }
        Ok((!portion.is_empty()).then_some(portion))
    }

    pub(in crate::store::dead_letters) async fn settle(&mut self, settled: &[String]) -> Result<usize, Error> {
        self.settled.extend(settled.iter().cloned());
        if !settled.is_empty() && self.settled.len() * 2 >= self.left {
            self.rewrite().await?;
        }
        Ok(settled.len())
    }

    pub(in crate::store::dead_letters) fn replace(&mut self, anew: &[Anew]) {
        self.replaced |= !anew.is_empty();
    }

    pub(in crate::store::dead_letters) async fn end(mut self) -> Result<(), Error> {
        if self.replaced || !self.settled.is_empty() { self.rewrite().await } else { Ok(()) }
    }

    async fn rewrite(&mut self) -> Result<(), Error> {
        let (file, settled) = (self.file.clone(), self.settled.clone());
        let removed = blocking(move || file.remove(&settled)).await?;
        self.left -= removed.min(self.left);
        self.settled.clear();
        self.replaced = false;
        Ok(())
    }
}

/// Some entries, and why there are no more.
fn portion(entries: &mut Entries, most: usize) -> (Vec<Entry>, Option<Error>) {
    let (mut portion, mut bytes) = (Vec::new(), 0);
    while portion.len() < most && bytes < PORTION_BYTES {
        match entries.next() {
            Some(Ok(entry)) => {
                if let Entry::Letter(letter) = &entry {
                    bytes += letter.payload.len();
                }
                portion.push(entry);
            }
            Some(Err(error)) => return (portion, Some(error)),
            None => break,
        }
    }
    (portion, None)
}
