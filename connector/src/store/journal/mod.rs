//! The blocks of a journal and what waits for its other half, on disk where that is larger than the memory it may take: a private database without a
//! name, which is gone with the process.
//!
//! Keeps of each block its hashes and those of its revisions, so that whatever comes later, or again, is held against the same block; and of a revision
//! whose block has not come its address and hash. Decides nothing: that is [`plan::journal`](crate::plan::journal). Never keeps content.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::unnamed;
use crate::codec::audit::hash::Hash;
use crate::codec::audit::{Address, Revision};
use crate::error::Error;
use crate::plan::journal::chain::{Link, Told};
use crate::plan::journal::expected::{Expected, Seen};
use crate::plan::journal::{Check, Finding, Open, Verdict};

/// What is kept of a journal.
#[derive(Debug)]
pub struct Journal {
    connection: Connection,
}

/// A revision whose block did not come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// The block that it says to be of.
    pub address: Address,
    /// The document.
    pub id: String,
    /// Its version.
    pub version: u64,
}

const SCHEMA: &str = "
CREATE TABLE blocks (
    strand TEXT NOT NULL, sequence INTEGER NOT NULL, hash BLOB, previous BLOB, expected BLOB NOT NULL, PRIMARY KEY (strand, sequence)
) WITHOUT ROWID;
CREATE TABLE waiting (
    strand TEXT NOT NULL, sequence INTEGER NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, hash BLOB NOT NULL, seen INTEGER NOT NULL,
    PRIMARY KEY (strand, sequence, id, version, hash, seen)
) WITHOUT ROWID;
CREATE TABLE findings (
    strand TEXT NOT NULL, sequence INTEGER NOT NULL, verdict INTEGER NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, expected BLOB NOT NULL,
    found BLOB NOT NULL, PRIMARY KEY (strand, sequence, verdict, id, version, expected, found)
) WITHOUT ROWID;
";

impl Journal {
    /// An empty one that holds at most about so many bytes in memory, and the rest in a file of the system's folder for temporary ones
    /// (`SQLITE_TMPDIR`, else `TMPDIR`), which has no name.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn open(memory: usize) -> Result<Self, Error> {
        Ok(Self { connection: unnamed::open(memory, SCHEMA).map_err(error)? })
    }

    /// Does some work as one: much faster than each step by itself.
    ///
    /// # Errors
    /// That of the work; nothing can be used after it.
    pub fn together<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.connection.execute_batch("BEGIN").map_err(error)?;
        let done = work(self)?;
        self.connection.execute_batch("COMMIT").map_err(error)?;
        Ok(done)
    }

    /// Takes a block in, and what waited for it. Of two different blocks of one address the first stays.
    ///
    /// # Errors
    /// It cannot be written, as where the disk is full.
    pub fn take_block(&mut self, mut link: Link) -> Result<(), Error> {
        let take = || {
            let before = self.link(&link.address)?;
            if let Some(before) = before {
                if before.hash != link.hash || before.previous != link.previous {
                    let finding = Finding::of_block(&link.address, Verdict::Broken(Check::Copies));
                    self.write_finding(&Finding { expected: before.hash, found: link.hash, ..finding })?;
                    return Ok(());
                }
                let (mut kept, other) =
                    if before.expected.is_empty() { (link.expected, before.expected) } else { (before.expected, link.expected) };
                kept.join(&other);
                link.expected = kept;
            }
            self.settle_waiting(&mut link)?;
            self.write_link(&link)
        };
        take().map_err(error)
    }

    /// Takes a revision in: with its block, where that is there, or else to wait for it.
    ///
    /// # Errors
    /// As [`take_block`](Self::take_block).
    pub fn take_revision(&mut self, revision: &Revision) -> Result<(), Error> {
        let Address { strand, sequence } = &revision.address;
        let (hash, seen) = (revision.hash.clone().unwrap_or_default(), Seen::of(revision));
        let take = || {
            let Some(mut link) = self.link(&revision.address)? else {
                const WAIT: &str =
                    "INSERT OR IGNORE INTO waiting (strand, sequence, id, version, hash, seen) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
                let values = params![strand, sequence, revision.id, revision.version, hash.as_bytes(), seen as u8];
                return self.connection.prepare_cached(WAIT)?.execute(values).map(drop);
            };
            let before = link.expected.clone();
            if !link.expected.see(&hash, seen) {
                return self.unlisted(&revision.address, &revision.id, revision.version, &hash);
            }
            if link.expected == before { Ok(()) } else { self.write_link(&link) }
        };
        take().map_err(error)
    }

    /// Notes a finding, once however often it comes.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn find(&self, finding: &Finding) -> Result<(), Error> {
        self.write_finding(finding).map_err(error)
    }

    /// Hands out every block in the order of the addresses.
    ///
    /// # Errors
    /// It cannot be read; what `each` gives.
    pub fn walk(&self, mut each: impl FnMut(Link) -> Result<(), Error>) -> Result<(), Error> {
        const ALL: &str = "SELECT strand, sequence, hash, previous, expected FROM blocks ORDER BY strand, sequence";
        let mut select = self.connection.prepare(ALL).map_err(error)?;
        let mut rows = select.query([]).map_err(error)?;
        while let Some(row) = rows.next().map_err(error)? {
            let link = Ok(()).and_then(|()| {
                let address = Address { strand: row.get(0)?, sequence: row.get(1)? };
                read_link(address, row, 2)
            });
            each(link.map_err(error)?)?;
        }
        Ok(())
    }

    /// The revisions whose block did not come, in their order.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn orphans(&self, limit: Option<u32>) -> Result<Told<Orphan>, Error> {
        const ORPHANS: &str = "SELECT DISTINCT strand, sequence, id, version FROM waiting ORDER BY 1, 2, 3, 4";
        let read = || {
            let mut told = Told::default();
            let mut select = self.connection.prepare(ORPHANS)?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                let address = Address { strand: row.get(0)?, sequence: row.get(1)? };
                told.push(Orphan { address, id: row.get(2)?, version: row.get(3)? }, limit);
            }
            Ok(told)
        };
        read().map_err(error)
    }

    /// The findings of some verdicts, in the order of their addresses.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn findings(&self, wanted: impl Fn(Verdict) -> bool, limit: Option<u32>) -> Result<Told<Finding>, Error> {
        const FINDINGS: &str = "SELECT strand, sequence, verdict, id, version, expected, found FROM findings ORDER BY 1, 2, 3, 4, 5, 6, 7";
        let read = || {
            let mut told = Told::default();
            let mut select = self.connection.prepare(FINDINGS)?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                let verdict = verdict(row.get(2)?).ok_or(rusqlite::Error::InvalidQuery)?;
                if wanted(verdict) {
                    told.push(read_finding(verdict, row)?, limit);
                }
            }
            Ok(told)
        };
        read().map_err(error)
    }

    /// How many findings there are of each verdict.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn counts(&self) -> Result<Vec<(Verdict, u64)>, Error> {
        const COUNTS: &str = "SELECT verdict, count(*) FROM findings GROUP BY verdict ORDER BY verdict";
        let read = || {
            let mut select = self.connection.prepare(COUNTS)?;
            let of = |row: &Row<'_>| Ok((verdict(row.get(0)?).ok_or(rusqlite::Error::InvalidQuery)?, row.get(1)?));
            select.query_map([], of)?.collect::<rusqlite::Result<_>>()
        };
        read().map_err(error)
    }

    fn link(&self, address: &Address) -> rusqlite::Result<Option<Link>> {
        const GET: &str = "SELECT hash, previous, expected FROM blocks WHERE strand = ?1 AND sequence = ?2";
        let mut select = self.connection.prepare_cached(GET)?;
        select.query_row(params![address.strand, address.sequence], |row| read_link(address.clone(), row, 0)).optional()
    }

    fn write_link(&self, link: &Link) -> rusqlite::Result<()> {
        const PUT: &str = "INSERT OR REPLACE INTO blocks (strand, sequence, hash, previous, expected) VALUES (?1, ?2, ?3, ?4, ?5)";
        let Link { address: Address { strand, sequence }, hash, previous, expected } = link;
        let [hash, previous] = [hash, previous].map(|hash| hash.as_ref().map(Hash::as_bytes));
        self.connection.prepare_cached(PUT)?.execute(params![strand, sequence, hash, previous, expected.as_bytes()]).map(drop)
    }

    /// What waited for a block is seen in it.
    fn settle_waiting(&self, link: &mut Link) -> rusqlite::Result<()> {
        const WAITING: &str = "SELECT id, version, hash, seen FROM waiting WHERE strand = ?1 AND sequence = ?2";
        const SETTLED: &str = "DELETE FROM waiting WHERE strand = ?1 AND sequence = ?2";
        let address = link.address.clone();
        let place = params![address.strand, address.sequence];
        let mut select = self.connection.prepare_cached(WAITING)?;
        let mut rows = select.query(place)?;
        let mut waited = false;
        while let Some(row) = rows.next()? {
            waited = true;
            let (id, version, hash, seen): (String, u64, Vec<u8>, u8) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            let hash = Hash::new(hash);
            if !link.expected.see(&hash, Seen::stored(seen)) {
                self.unlisted(&address, &id, version, &hash)?;
            }
        }
        if waited {
            self.connection.prepare_cached(SETTLED)?.execute(place)?;
        }
        Ok(())
    }

    fn unlisted(&self, address: &Address, id: &str, version: u64, hash: &Hash) -> rusqlite::Result<()> {
        let finding = Finding::of_revision(address, (id, version), Verdict::Broken(Check::RevisionListed));
        self.write_finding(&Finding { found: Some(hash.clone()), ..finding })
    }

    fn write_finding(&self, finding: &Finding) -> rusqlite::Result<()> {
        const FIND: &str =
            "INSERT OR IGNORE INTO findings (strand, sequence, verdict, id, version, expected, found) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let Finding { address: Address { strand, sequence }, verdict, revision, expected, found } = finding;
        let (id, version) = revision.as_ref().map_or(("", None), |(id, version)| (id.as_str(), i64::try_from(*version).ok()));
        let [expected, found] = [expected, found].map(|hash| hash.as_ref().map_or(&[][..], Hash::as_bytes));
        let values = params![strand, sequence, number(*verdict), id, version.unwrap_or(-1), expected, found];
        self.connection.prepare_cached(FIND)?.execute(values).map(drop)
    }
}

fn read_link(address: Address, row: &Row<'_>, from: usize) -> rusqlite::Result<Link> {
    let hash = |at| Ok::<_, rusqlite::Error>(row.get::<_, Option<Vec<u8>>>(at)?.map(Hash::new));
    Ok(Link { address, hash: hash(from)?, previous: hash(from + 1)?, expected: Expected::stored(row.get(from + 2)?) })
}

fn read_finding(verdict: Verdict, row: &Row<'_>) -> rusqlite::Result<Finding> {
    let hash = |at| Ok::<_, rusqlite::Error>(Some(row.get::<_, Vec<u8>>(at)?).filter(|hash| !hash.is_empty()).map(Hash::new));
    let version = u64::try_from(row.get::<_, i64>(4)?).ok();
    Ok(Finding {
        address: Address { strand: row.get(0)?, sequence: row.get(1)? },
        verdict,
        revision: version.map(|version| Ok::<_, rusqlite::Error>((row.get(3)?, version))).transpose()?,
        expected: hash(5)?,
        found: hash(6)?,
    })
}

fn number(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Broken(check) => check as u8,
        Verdict::Open(open) => open as u8,
    }
}

fn verdict(stored: u8) -> Option<Verdict> {
    let broken = Check::ALL.into_iter().map(Verdict::Broken);
    broken.chain(Open::ALL.into_iter().map(Verdict::Open)).find(|verdict| number(*verdict) == stored)
}

fn error(cause: rusqlite::Error) -> Error {
    unnamed::error(&cause, "some 200 bytes for each block and revision")
}

#[cfg(test)]
mod tests;
