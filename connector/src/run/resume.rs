//! Saves how far a scan of files is settled, so that one that was interrupted goes on there.
//!
//! The first file of which something is not settled decides, or that could not be read to its end. Never saves what is not settled, and never
//! overwrites what another run saved in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::clock;
use super::deliver::Deliver;
use super::notices::Notices;
use crate::error::{Error, Kind};
use crate::plan::checkpoint::{Begin, Checkpoint, Progress};
use crate::plan::lease::{Draft, Row};
use crate::plan::resume::{Listed, Mark, Marks, Place};
use crate::plan::stored::{Stamp, Written};
use crate::record::{Position, Record};
use crate::sink::Sink;
use crate::store::checkpoints::{Checkpoints, Pipeline, Shelf};

/// How often it is saved how far a scan is.
const EVERY: Duration = Duration::from_secs(1);
/// How long that may keep everything else waiting.
const PATIENCE: Duration = Duration::from_secs(5);
/// The name of the row, in the place of a shard's.
pub const SHARD: &str = "scan";

/// Where it is saved how far a scan is, and how far it is.
pub struct Resume {
    checkpoints: Checkpoints,
    sink: Arc<dyn Sink>,
    makes_durable: bool,
    marks: Marks,
    files: Vec<Listed>,
    stamp: Option<Stamp>,
    epoch: u64,
    /// What was saved last.
    saved: Option<Row>,
    /// What was written since without an answer.
    tried: Option<Row>,
    /// Where the record is that was handed on last.
    last: Option<Place>,
    /// Where the record is behind which others came of a stream, which are not all settled.
    held: Option<Place>,
    broken: Option<usize>,
    /// Whether something was read that is not proven complete, by this run or by an earlier one.
    incomplete: bool,
    /// Whether anything was written, by this run or by an earlier one.
    written: bool,
    due: Instant,
    notices: Notices,
}

/// What is known before the source is opened.
#[derive(Debug)]
pub struct Found {
    stamp: Option<Stamp>,
    epoch: u64,
    mark: Option<Mark>,
    targets: BTreeMap<String, String>,
}

/// Where the checkpoints of a scan are, and whose they are.
pub struct Home {
    /// The place.
    pub shelf: Arc<dyn Shelf>,
    /// The pipeline, whose stream is the source.
    pub pipeline: Pipeline,
    /// Where it is written to, where the place is another one.
    pub sink: Option<String>,
    /// Whether what was written has to be made durable before it is saved that it was: not where both are in one place, nor where an answer says
    /// that it is durable.
    pub makes_durable: bool,
    /// A hash of the rules by which it is written.
    pub rules: String,
}

impl Found {
    /// Looks how far an earlier run came.
    ///
    /// # Errors
    /// The place cannot be read, or what is there.
    pub async fn look(home: &Home) -> Result<Self, Error> {
        let rows = Checkpoints::new(Arc::clone(&home.shelf), home.pipeline.clone()).read().await?;
        let Some((_, stamp, row)) = rows.into_iter().find(|(shard, ..)| shard == SHARD) else {
            return Ok(Self { stamp: None, epoch: 0, mark: None, targets: BTreeMap::new() });
        };
        let mark = match row.checkpoint.progress {
            Progress::Scanned(mark) => Some(mark),
            Progress::Begins(Begin::Earliest) => None,
            _ => {
                let what = format!("checkpoints: {}: that of {} is set to no place of a file", home.shelf.name(), home.pipeline.stream);
                return Err(Error::new(Kind::Checkpoints, what).help(begin_anew(home)));
            }
        };
        Ok(Self { stamp: Some(stamp), epoch: row.epoch, mark, targets: row.checkpoint.targets })
    }

    /// Where an earlier run was, as it was saved.
    pub fn mark(&self) -> Option<&Mark> {
        self.mark.as_ref()
    }

    /// The place in the files that there are.
    ///
    /// # Errors
    /// The source changed up to there.
    pub fn place(&self, home: &Home, files: &[Listed]) -> Result<Place, Error> {
        let Some(mark) = &self.mark else { return Ok(Place::default()) };
        Marks::new(home.sink.clone()).find(files, mark).map_err(|changed| {
            let what = format!("{} is not what it was when the run was interrupted: {changed}", home.pipeline.stream);
            Error::new(Kind::Source, what).help(format!("put back what was there; or {}", begin_anew(home)))
        })
    }

    /// Keeps on saving. `folds`: what a file holds decides what is sent of others.
    pub fn keep(self, home: Home, sink: Arc<dyn Sink>, files: Vec<Listed>, folds: bool) -> Resume {
        sink.expecting(&self.targets);
        let mut marks = Marks::new(home.sink);
        marks.with_rules(home.rules);
        // What an earlier run left to files behind it is not forgotten by one that sends everything.
        if folds || self.mark.as_ref().is_some_and(|mark| mark.all.is_some()) {
            marks.with_all(&files);
        }
        Resume {
            checkpoints: Checkpoints::new(home.shelf, home.pipeline),
            makes_durable: home.makes_durable,
            marks,
            sink,
            files,
            stamp: self.stamp,
            epoch: self.epoch,
            saved: None,
            tried: None,
            last: None,
            held: None,
            broken: None,
            incomplete: self.mark.as_ref().is_some_and(|mark| mark.incomplete),
            written: self.mark.is_some_and(|mark| mark.written),
            due: Instant::now() + EVERY,
            notices: Notices::default(),
        }
    }
}

/// How a scan is begun anew, for a person.
pub fn begin_anew(home: &Home) -> String {
    let Pipeline { name, stream } = &home.pipeline;
    let [name, stream] = [name, stream].map(|text| text.replace('\'', "'\\''"));
    format!(
        "begin anew: revsync checkpoints rewind earliest --name '{name}' --stream '{stream}', with --to or --checkpoints as here; nothing is written twice"
    )
}

impl Resume {
    /// A record was handed on to the line.
    pub(super) fn pushed(&mut self, record: &Record) {
        let Position::Byte { offset } = record.position else {
            self.held = self.held.or(self.last).or(Some(Place::default()));
            return;
        };
        let from = self.last.map_or(0, |last| last.file);
        if let Some(file) = self.index(&record.origin.shard, from) {
            self.last = Some(Place { file, offset });
        }
    }

    /// Of this file not everything could be read: nothing behind it is settled as long as that is so.
    pub(super) fn broke(&mut self, name: Option<&str>) {
        if let (None, Some(name)) = (self.broken, name) {
            self.broken = self.files.iter().position(|file| file.name == name);
        }
    }

    /// Something came to light while it was read that leaves the source not proven complete.
    pub(super) fn is_missing_something(&mut self) {
        self.incomplete = true;
    }

    /// Whether that came to light in this run, or in an earlier one that it goes on from.
    pub(super) fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    /// When it is to be saved next.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// The file of this name; most are asked for in their order.
    fn index(&self, name: &str, from: usize) -> Option<usize> {
        let is = |file: &Listed| file.name == name;
        self.files[from..].iter().position(is).map(|at| from + at).or_else(|| self.files[..from].iter().rposition(is))
    }

    /// Where reading would go on now.
    fn place(&mut self, deliver: &Deliver) -> Option<Place> {
        let last = self.last?;
        let of_streams = |(_, position): (_, &Position)| !matches!(position, Position::Byte { .. });
        self.held = self.held.filter(|_| deliver.ledger().first_unsettled().any(of_streams));
        let open = deliver.ledger().first_unsettled().filter_map(|(origin, position)| {
            let Position::Byte { offset } = *position else { return None };
            Some(Place { file: self.index(&origin.shard, last.file)?, offset })
        });
        let open = open.chain(self.held);
        // The last record is read again: nothing says that none behind it begins where it does.
        let place = open.min_by_key(|place| (place.file, place.offset)).unwrap_or(last);
        Some(match self.broken {
            Some(file) if file < place.file => Place { file, offset: 0 },
            _ => place,
        })
    }

    /// Saves how far everything is settled. What does not work now is tried again with the next.
    ///
    /// # Errors
    /// Another run goes on from the same place, or a person has to do something about the place.
    pub(super) async fn save(&mut self, deliver: &mut Deliver) -> Result<(), Error> {
        let saved = timeout(PATIENCE, self.try_to_save(deliver)).await.unwrap_or_else(|_| {
            Err(Error::new(Kind::Pending, format!("checkpoints: {}: no answer in {} s", self.checkpoints.place(), PATIENCE.as_secs())))
        });
        self.due = Instant::now() + EVERY;
        match saved {
            Err(error) if error.kind == Kind::Pending => {
                if self.notices.is_due("checkpoints") {
                    tracing::warn!("{error}; it is tried again, and a run that goes on would read some of it again");
                }
                Ok(())
            }
            saved => saved,
        }
    }

    async fn try_to_save(&mut self, deliver: &mut Deliver) -> Result<(), Error> {
        let Some(mark) = self.place(deliver).and_then(|place| self.marks.mark(&self.files, place)) else { return Ok(()) };
        let counts = deliver.counts();
        self.written |= counts.indexed + counts.deleted > 0;
        let progress = Progress::Scanned(Mark { incomplete: self.incomplete, written: self.written, ..mark });
        if self.tried.is_none() && self.saved.as_ref().is_some_and(|saved| saved.checkpoint.progress == progress) {
            return Ok(());
        }
        if self.makes_durable {
            self.sink.finish().await?;
        }
        let checkpoint = Checkpoint { progress, covered: None, targets: self.sink.targets() };
        self.write(Some(Row { owner: None, epoch: self.epoch, heartbeat: clock::millis(), checkpoint })).await
    }

    /// All of the source is settled: the next run begins at the beginning.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(super) async fn remove(&mut self) -> Result<(), Error> {
        // What was written without an answer may be there or not.
        if self.stamp.is_none() && self.tried.is_none() { Ok(()) } else { self.write(None).await }
    }

    async fn write(&mut self, row: Option<Row>) -> Result<(), Error> {
        let before = std::mem::replace(&mut self.tried, row.clone());
        let draft = |expect| [Draft { shard: SHARD.to_owned(), expect, row: row.clone() }];
        let mut written = self.checkpoints.write(&draft(self.stamp)).await?.pop();
        if written == Some(Written::Conflict) {
            // An answer may have been lost: what is there is ours then.
            let found = self.checkpoints.read().await?.into_iter().find(|(shard, ..)| shard == SHARD);
            match found {
                Some((_, stamp, there)) if [&self.saved, &before, &row].iter().any(|ours| ours.as_ref() == Some(&there)) => {
                    self.stamp = Some(stamp);
                    written = self.checkpoints.write(&draft(Some(stamp))).await?.pop();
                }
                None if row.is_none() => written = None,
                _ => {}
            }
        }
        match written {
            Some(Written::Done(stamp)) => {
                self.stamp = row.is_some().then_some(stamp);
                (self.saved, self.tried) = (row, None);
            }
            Some(Written::Conflict) => {
                let what = format!("checkpoints: {}: another run goes on from the same place", self.checkpoints.place());
                return Err(Error::new(Kind::Checkpoints, what).help("let one of the two come to its end; another --name keeps them apart"));
            }
            Some(Written::Failed(error)) => return Err(error),
            None => {}
        }
        Ok(())
    }
}

impl std::fmt::Debug for Resume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resume").field("last", &self.last).finish_non_exhaustive()
    }
}
