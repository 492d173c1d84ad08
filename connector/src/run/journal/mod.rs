//! The audit of a journal: reads a source to the end that it has now, holds blocks and revisions against each other, and tells what is missing and
//! what does not follow from what.
//!
//! Sends nothing and mends nothing. Holds one page of records; what waits for its other half is in a temporary file where it is more than the memory
//! that it may take. Works whatever the order, and however often a block or a revision comes.

use tokio::sync::watch;

use super::deliver::interrupted;
use super::{intake, pages, stopped};
use crate::codec::audit::{Block, Piece, Revision, pieces};
use crate::codec::{self, Decoder};
use crate::error::Error;
use crate::panics::{caught, panicked};
use crate::plan::journal::chain::{Incomplete, Link, Strand, Tally, Told, Walk};
use crate::plan::journal::expected::{Expected, Seen};
use crate::plan::journal::{Finding, Verdict, check_block, check_presence, check_revision};
use crate::record::{Fault, Record};
use crate::source::scan::Scan;
use crate::store::journal::{Journal, Orphan};

/// What is to be audited, and how.
#[derive(Debug)]
pub struct Request {
    /// The source.
    pub source: Scan,
    /// Opens its records.
    pub decoder: Decoder,
    /// Whether hashes are computed and held against those that are stated.
    pub hashes: bool,
    /// How many of each kind are told; `None`: all.
    pub sample: Option<u32>,
    /// The memory that the blocks may take, in bytes.
    pub memory: usize,
}

/// What an audit came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audit {
    /// Blocks and revisions that were read, each copy of them.
    pub units: u64,
    /// What of the source has nothing to do with a journal: control records, records of other formats.
    pub others: u64,
    /// What of the source cannot be used.
    pub unusable: u64,
    /// Where the first of that is, and why.
    pub first_unusable: Option<String>,
    /// The strands.
    pub strands: Told<Strand>,
    /// Blocks, each once.
    pub blocks: u64,
    /// Blocks that are missing between others.
    pub missing: u64,
    /// Pairs of blocks of which it was checked that the second goes on from the first.
    pub links: u64,
    /// Blocks of which revisions were not seen.
    pub incomplete: Told<Incomplete>,
    /// Revisions whose block was not seen.
    pub orphans: Told<Orphan>,
    /// The revisions of the blocks.
    pub tally: Tally,
    /// Checks that failed.
    pub broken: Told<Finding>,
    /// What could not be checked, and leaves something open.
    pub open: Told<Finding>,
    /// How many findings there are of each verdict.
    pub counts: Vec<(Verdict, u64)>,
    /// Whether it is known that all of the source was read.
    pub is_complete: bool,
}

impl Audit {
    /// Whether every block and every revision that belongs to the others is there.
    pub fn has_all(&self) -> bool {
        let is_whole = self.missing == 0 && self.incomplete.count == 0 && self.orphans.count == 0;
        self.blocks > 0 && is_whole && self.unusable == 0 && self.is_complete
    }

    /// Whether everything is there, and every hash was checked and follows from what it is to follow from.
    pub fn is_proven(&self) -> bool {
        self.has_all() && self.broken.count == 0 && self.open.count == 0
    }
}

/// Audits a source; `audit` says how far that came, also when it ends early. `progress` is told how much of the source was read, and how many units
/// that were.
///
/// # Errors
/// What ended it early: the source cannot be read further, there is no room for the blocks, it was interrupted.
pub async fn audit(
    request: Request,
    mut stop: watch::Receiver<bool>,
    audit: &mut Audit,
    progress: impl FnMut(u64, u64) + Send,
) -> Result<(), Error> {
    let journal = Journal::open(request.memory)?;
    let mut auditing = Auditing { journal, decoder: request.decoder, hashes: request.hashes, audit, progress };
    let read = tokio::select! {
        biased;
        () = stopped(&mut stop) => Err(interrupted()),
        read = auditing.read(request.source) => read,
    };
    // What was found before it was interrupted is told too.
    auditing.conclude(request.sample)?;
    read
}

struct Auditing<'a, P> {
    journal: Journal,
    decoder: Decoder,
    hashes: bool,
    audit: &'a mut Audit,
    progress: P,
}

impl<P: FnMut(u64, u64) + Send> Auditing<'_, P> {
    async fn read(&mut self, source: Scan) -> Result<(), Error> {
        let mut reading = pages::next(source);
        loop {
            let (source, page) = reading.await.map_err(|_| panicked())?;
            let Some(page) = page? else {
                self.audit.is_complete = !source.is_incomplete();
                return Ok(());
            };
            // The next page is read while this one is worked on.
            reading = pages::next(source);
            let Self { journal, decoder, hashes, audit, .. } = self;
            journal.together(|journal| {
                let mut taking = Taking { journal, decoder, hashes: *hashes, audit };
                page.records.iter().try_for_each(|record| taking.record(record))
            })?;
            (self.progress)(page.read, self.audit.units);
        }
    }

    /// Walks along the blocks, and sums up.
    fn conclude(&mut self, sample: Option<u32>) -> Result<(), Error> {
        let mut walk = Walk::new(sample);
        self.journal.walk(|link| walk.step(link).map_or(Ok(()), |finding| self.journal.find(&finding)))?;
        walk.end();
        let audit = &mut *self.audit;
        audit.broken = self.journal.findings(|verdict| matches!(verdict, Verdict::Broken(_)), sample)?;
        audit.open = self.journal.findings(|verdict| matches!(verdict, Verdict::Open(_)), sample)?;
        audit.counts = self.journal.counts()?;
        audit.orphans = self.journal.orphans(sample)?;
        let Walk { strands, blocks, missing, links, incomplete, tally, .. } = walk;
        (audit.strands, audit.blocks, audit.missing, audit.links) = (strands, blocks, missing, links);
        (audit.incomplete, audit.tally) = (incomplete, tally);
        Ok(())
    }
}

/// Takes records in.
struct Taking<'a> {
    journal: &'a mut Journal,
    decoder: &'a mut Decoder,
    hashes: bool,
    audit: &'a mut Audit,
}

impl Taking<'_> {
    fn record(&mut self, record: &Record) -> Result<(), Error> {
        let mut user_records = intake::open(self.decoder, record);
        while let Some(user_record) = intake::next_user_record(self.decoder, &mut user_records, record) {
            let position = codec::position(&record.position, user_record.sub);
            let unusable = |audit: &mut Audit, fault: &Fault| {
                audit.unusable += 1;
                audit.first_unusable.get_or_insert_with(|| format!("{} at {position}: {fault}", record.origin));
            };
            let mut done = Ok(());
            let read = caught(|| {
                pieces(&user_record, self.hashes, |piece| {
                    if done.is_err() {
                        return;
                    }
                    match piece {
                        Piece::Other => self.audit.others += 1,
                        Piece::Unusable(fault) => unusable(self.audit, &fault),
                        Piece::Block(block) => {
                            self.audit.units += 1;
                            done = self.block(&block);
                        }
                        Piece::Revision(revision) => {
                            self.audit.units += 1;
                            done = self.revision(&revision);
                        }
                    }
                });
            });
            if let Err(fault) = read {
                unusable(self.audit, &fault);
            }
            done?;
        }
        Ok(())
    }

    fn block(&mut self, block: &Block) -> Result<(), Error> {
        let hashes = self.hashes;
        self.tell(|tell| if hashes { check_block(block, tell) } else { check_presence(block, tell) })?;
        let mut expected = Expected::of(block);
        for revision in &block.revisions {
            self.tell(|tell| check_revision(revision, tell))?;
            // One without a hash is told of by the checks.
            if let Some(hash) = &revision.hash {
                expected.see(hash, Seen::of(revision));
            }
        }
        self.audit.units += block.revisions.len() as u64;
        let (hash, previous) = (block.hash.clone(), block.previous.clone());
        self.journal.take_block(Link { address: block.address.clone(), hash, previous, expected })
    }

    fn revision(&mut self, revision: &Revision) -> Result<(), Error> {
        self.tell(|tell| check_revision(revision, tell))?;
        self.journal.take_revision(revision)
    }

    fn tell(&mut self, check: impl FnOnce(&mut dyn FnMut(Finding))) -> Result<(), Error> {
        let mut done = Ok(());
        check(&mut |finding| {
            if done.is_ok() {
                done = self.journal.find(&finding);
            }
        });
        done
    }
}
