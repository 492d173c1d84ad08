//! Where a scan of files goes on that was interrupted: the place in the source, and whether the source is still what it was up to there.
//!
//! Files are read in one order, and everything before the place is settled. A source that changed up to there is never gone on with: what was read
//! of it may not be what it holds now. Plain data and comparisons; opens nothing.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A file of a source, or an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name inside the source; empty for a source that is one file.
    pub name: String,
    /// Its bytes, as they are stored.
    pub bytes: u64,
}

/// A place in a source: everything before it is settled. The default is the beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// Which file, from 0, in the order in which they are read.
    pub file: usize,
    /// Where the first record begins that is to be read, in bytes of the decompressed file.
    pub offset: u64,
}

/// A place as it is saved, with what tells whether the source changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The file's name inside the source.
    pub file: String,
    /// Its bytes.
    pub length: u64,
    /// Where the first record begins that is to be read.
    pub offset: u64,
    /// The files before it.
    pub before: Before,
    /// All the files, where what comes behind it decided what was sent of those before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<Before>,
    /// Where it was written to, where that does not go without saying.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sink: Option<String>,
    /// Whether something that the files before it stand for could not be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// A hash of the rules by which it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<String>,
    /// Whether anything was written into the sink by then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub written: bool,
}

/// What is known of the files before a place, or of all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// How many there are.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// A hash of their names and lengths.
    pub hash: String,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.file.as_str(), self.before.files) {
            ("", _) => write!(f, "byte {}", self.offset),
            (file, 0) => write!(f, "{file} byte {}", self.offset),
            (file, files) => write!(f, "{file} byte {}, behind {files} {}", self.offset, if files == 1 { "file" } else { "files" }),
        }
    }
}

/// Makes marks, each behind the one before or where that is.
#[derive(Debug, Clone)]
pub struct Marks {
    sink: Option<String>,
    rules: Option<String>,
    all: Option<Before>,
    tally: Tally,
}

/// What is known of the first files.
#[derive(Debug, Clone, Default)]
struct Tally {
    files: usize,
    bytes: u64,
    hash: Sha256,
}

impl Tally {
    /// Goes on, or begins anew, until it has so many of the files.
    fn reach(&mut self, files: &[Listed], count: usize) -> Before {
        if count < self.files {
            *self = Self::default();
        }
        for Listed { name, bytes } in &files[self.files..count] {
            // Each part with its length before it, so that no two lists of files are one text.
            self.hash.update((name.len() as u64).to_be_bytes());
            self.hash.update(name.as_bytes());
            self.hash.update(bytes.to_be_bytes());
            self.bytes += bytes;
        }
        self.files = count;
        let hash = &self.hash.clone().finalize()[..16];
        Before { files: count as u64, bytes: self.bytes, hash: hex::encode(hash) }
    }
}

impl Marks {
    /// Of a source of which nothing was read yet. `sink` is where it is written to, where marks are to say it.
    pub fn new(sink: Option<String>) -> Self {
        Self { sink, rules: None, all: None, tally: Tally::default() }
    }

    /// Marks say by which rules it was written.
    pub fn with_rules(&mut self, hash: String) {
        self.rules = Some(hash);
    }

    /// From now on marks hold only as long as none of these files changes, which are all that there are: what comes behind decides what is sent of
    /// those before.
    pub fn with_all(&mut self, files: &[Listed]) {
        self.all = Some(Tally::default().reach(files, files.len()));
    }

    /// The mark of a place in these files, which are the same every time; `None` where there is no such file.
    pub fn mark(&mut self, files: &[Listed], place: Place) -> Option<Mark> {
        let Listed { name, bytes } = files.get(place.file)?;
        let before = self.tally.reach(files, place.file);
        Some(Mark {
            file: name.clone(),
            length: *bytes,
            offset: place.offset,
            before,
            all: self.all.clone(),
            sink: self.sink.clone(),
            rules: self.rules.clone(),
            incomplete: false,
            written: false,
        })
    }

    /// The place of a mark in the files that there are now.
    ///
    /// # Errors
    /// What changed up to there, in words.
    pub fn find(&mut self, files: &[Listed], mark: &Mark) -> Result<Place, String> {
        if self.sink != mark.sink
            && let (Some(now), Some(then)) = (&self.sink, &mark.sink)
        {
            return Err(format!("it was written to {then} and is to go on into {now}"));
        }
        let named = |name: &str| if name.is_empty() { "the file".to_owned() } else { name.to_owned() };
        let Some(file) = files.iter().position(|listed| listed.name == mark.file) else {
            return Err(format!("{} was being read, and is not there any more", named(&mark.file)));
        };
        let place = Place { file, offset: mark.offset };
        let now = self.mark(files, place).map(|now| (now.length, now.before));
        let Some((length, before)) = now else { return Err("it has no files any more".to_owned()) };
        let counted = |Before { files, bytes, .. }: &Before| format!("{files} files of {bytes} bytes");
        if length != mark.length {
            return Err(format!("{} had {} bytes and has {length} now", named(&mark.file), mark.length));
        }
        if (before.files, before.bytes) != (mark.before.files, mark.before.bytes) {
            return Err(format!("before {} there were {} and are {} now", named(&mark.file), counted(&mark.before), counted(&before)));
        }
        if before.hash != mark.before.hash {
            return Err(format!("the {} before {} have other names or lengths now", counted(&before), named(&mark.file)));
        }
        if let Some(then) = &mark.all {
            let now = Tally::default().reach(files, files.len());
            if now != *then {
                let changed = if (now.files, now.bytes) == (then.files, then.bytes) { ", with other names or lengths" } else { "" };
                return Err(format!("with --fold every file counts: there were {} and are {} now{changed}", counted(then), counted(&now)));
            }
        }
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn files(of: &[(&str, u64)]) -> Vec<Listed> {
        of.iter().map(|(name, bytes)| Listed { name: (*name).to_owned(), bytes: *bytes }).collect()
    }

    fn mark(files: &[Listed], file: usize, offset: u64) -> Mark {
        Marks::new(None).mark(files, Place { file, offset }).unwrap()
    }

    #[test]
    fn what_comes_behind_the_place_may_change() {
        let then = files(&[("a", 1), ("b", 2), ("c", 3)]);
        let now = files(&[("a", 1), ("b", 2), ("c", 4), ("d", 5)]);
        assert_eq!(Marks::new(None).find(&now, &mark(&then, 1, 7)), Ok(Place { file: 1, offset: 7 }));
    }

    #[test]
    fn a_source_that_changed_up_to_the_place_is_refused_with_what_changed() {
        let then = files(&[("a", 1), ("b", 2), ("c", 3)]);
        for (now, what) in [
            (&[("a", 1), ("b", 2)][..], "c was being read, and is not there any more"),
            (&[("a", 1), ("b", 2), ("c", 9)], "c had 3 bytes and has 9 now"),
            (&[("b", 2), ("c", 3)], "before c there were 2 files of 3 bytes and are 1 files of 2 bytes now"),
            (&[("a", 1), ("aa", 0), ("b", 2), ("c", 3)], "and are 3 files of 3 bytes now"),
            (&[("a", 2), ("b", 1), ("c", 3)], "the 2 files of 3 bytes before c have other names or lengths now"),
            (&[("a", 1), ("bb", 2), ("c", 3)], "have other names or lengths now"),
        ] {
            let error = Marks::new(None).find(&files(now), &mark(&then, 2, 0)).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn where_all_files_decide_none_may_change() {
        let then = files(&[("a", 1), ("b", 2)]);
        let mut marks = Marks::new(None);
        marks.with_all(&then);
        let mark = marks.mark(&then, Place { file: 0, offset: 1 }).unwrap();
        assert!(Marks::new(None).find(&then, &mark).is_ok());
        let error = Marks::new(None).find(&files(&[("a", 1), ("b", 2), ("c", 3)]), &mark).unwrap_err();
        assert_eq!(error, "with --fold every file counts: there were 2 files of 3 bytes and are 3 files of 6 bytes now");
    }

    #[test]
    fn another_sink_than_the_one_that_was_written_to_is_refused() {
        let files = files(&[("", 5)]);
        let mark = Marks::new(Some("local:a.db".to_owned())).mark(&files, Place { file: 0, offset: 3 }).unwrap();
        assert!(Marks::new(Some("local:a.db".to_owned())).find(&files, &mark).is_ok());
        assert!(Marks::new(Some("local:b.db".to_owned())).find(&files, &mark).unwrap_err().contains("local:b.db"));
    }

    #[test]
    fn a_mark_is_stored_in_a_form_that_stays() {
        let text = serde_json::to_string(&mark(&files(&[("a", 1), ("b", 2)]), 1, 7)).unwrap();
        let expected = r#"{"file":"b","length":2,"offset":7,"before":{"files":1,"bytes":1,"hash":"#;
        assert!(text.starts_with(expected), "{text}");
        assert_eq!(serde_json::from_str::<Mark>(&text).unwrap(), mark(&files(&[("a", 1), ("b", 2)]), 1, 7));
    }

    proptest! {
        #[test]
        fn marks_made_one_after_another_are_those_made_at_once(
            lengths in prop::collection::vec(0_u64..9, 1..20),
            mut places in prop::collection::vec((0_usize..20, 0_u64..9), 1..20),
        ) {
            let files: Vec<Listed> =
                lengths.iter().enumerate().map(|(at, bytes)| Listed { name: format!("{at:02}"), bytes: *bytes }).collect();
            places.iter_mut().for_each(|(file, _)| *file %= files.len());
            let mut marks = Marks::new(None);
            for (file, offset) in places {
                let place = Place { file, offset };
                let made = marks.mark(&files, place).unwrap();
                prop_assert_eq!(&made, &mark(&files, file, offset));
                prop_assert_eq!(Marks::new(None).find(&files, &made), Ok(place));
            }
        }
    }
}
