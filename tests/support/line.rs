//! A line with a scripted sink at its end and a folder of its own for dead letters.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::PathBuf;
use std::sync::Arc;

use revsync::codec::Decoder;
use revsync::error::Error;
use revsync::plan::mapping::{Mapping, Rule};
use revsync::record::Record;
use revsync::run::deliver::{Deliver, Settings};
use revsync::run::learned::Learned;
use revsync::store::dead_letters::{DeadLetter, DeadLetters, Entry};
use tempfile::TempDir;

use crate::scripted_sink::ScriptedSink;

pub(crate) struct Bench {
    pub(crate) sink: Arc<ScriptedSink>,
    pub(crate) settings: Settings,
    pub(crate) rules: Vec<Rule>,
    pub(crate) store: Arc<DeadLetters>,
    folder: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("letters")).expect("a folder");
        let store = Arc::new(DeadLetters::in_file(&folder.path().join("letters/letters.jsonl")).expect("a place for letters"));
        Self { sink: ScriptedSink::new(), settings, rules: Vec::new(), store, folder }
    }

    /// A line that stores its letters elsewhere.
    pub(crate) fn storing(store: DeadLetters) -> Self {
        Self { store: Arc::new(store), ..Self::new() }
    }

    /// A line as it is at the start of a process.
    pub(crate) fn line(&self) -> Deliver {
        let mapping = Mapping::new(self.rules.clone()).expect("rules that can be");
        Deliver::new(Decoder::default(), mapping, self.sink.clone(), self.store.clone(), self.settings)
    }

    /// A line that comes after others in the same process.
    pub(crate) fn line_after(&self, learned: &Arc<Learned>) -> Deliver {
        let mapping = Mapping::new(self.rules.clone()).expect("rules that can be");
        let (sink, store) = (self.sink.clone(), self.store.clone());
        Deliver::continuing(Decoder::default(), mapping, sink, learned.clone(), store, self.settings)
    }

    /// The folder that the letters are in, and nothing else.
    pub(crate) fn letters_folder(&self) -> PathBuf {
        self.folder.path().join("letters")
    }

    /// Every line of the store, also where one letter has several.
    pub(crate) fn letter_lines(&self) -> Vec<DeadLetter> {
        let text = std::fs::read_to_string(self.letters_folder().join("letters.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a letter")).collect()
    }

    /// The letters, each once.
    pub(crate) fn letters(&self) -> Vec<DeadLetter> {
        let DeadLetters::File(file) = &*self.store else { panic!("expected a file of letters") };
        let entries = file.list().expect("letters can be listed");
        entries
            .map(|entry| match entry {
                Ok(Entry::Letter(letter)) => *letter,
                other => panic!("expected a letter, found {other:?}"),
            })
            .collect()
    }
}

/// Delivers everything and waits for the end.
pub(crate) async fn deliver(line: &mut Deliver, records: &[Record]) -> Result<(), Error> {
    for record in records {
        line.push(record).await?;
    }
    line.finish().await
}
