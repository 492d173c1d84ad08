//! A pull query: scans a source from its beginning to the end that it has, evaluates a statement on every revision, hands the rows out as they are
//! found, and stops.
//!
//! Goes by the stream alone: no rule, no index and no checkpoint has a part in it, and nothing is written. Holds one page of records, and the row
//! at hand. What cannot be decoded is counted and told at the end; it ends nothing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::deliver::interrupted;
use super::pages::{self, PAGE};
use super::place::{self, Place as Whereabouts};
use super::{intake, stopped};
use crate::codec::{self, Content, Decoder, Metadata, UserRecord};
use crate::error::Error;
use crate::metrics::Notes;
use crate::panics::{caught, panicked};
use crate::plan::cells;
use crate::plan::query::{Op, Place, Query, Row, Value};
use crate::record::{Fault, Position, Record};
use crate::revision::{Change, Document, Revision};
use crate::source::scan::{Page, Scan};

/// Units that cannot be decoded of which the place is told.
pub const TOLD: usize = 10;

/// Names of tables that are remembered. A ledger has 20 to 40; the limit holds memory when table names are damaged.
const REMEMBERED_TABLES: usize = 1_000;

/// Who is handed the rows.
pub trait Rows {
    /// Takes a row, a value for each column of the statement.
    ///
    /// # Errors
    /// It cannot be written.
    fn row(&mut self, values: &[Value<'_>]) -> Result<(), Error>;

    /// What was found so far is to be seen now. `read` says how much of the source was read; `false`: nobody looks any more.
    ///
    /// # Errors
    /// It cannot be written.
    fn show(&mut self, read: u64, scanned: &Scanned) -> Result<bool, Error>;
}

/// What was scanned, and what of it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Records of the source.
    pub records: u64,
    /// Bytes of these records.
    pub bytes: u64,
    /// Revisions of the table that was asked for, or of all tables.
    pub revisions: u64,
    /// Rows that were handed out.
    pub rows: u64,
    /// Units that could not be decoded.
    pub undecodable: u64,
    /// The first [`TOLD`] of them.
    pub told: Vec<(Whereabouts, Fault)>,
}

impl Scanned {
    fn give_up(&mut self, place: impl FnOnce() -> Whereabouts, fault: Fault) {
        self.undecodable += 1;
        if self.told.len() < TOLD {
            self.told.push((place(), fault));
        }
    }
}

/// How a query ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Everything that was there at the start was looked at.
    Complete,
    /// As many rows were found as were asked for.
    LimitReached,
    /// The source cannot say that this was everything: it has said why.
    NotProven,
    /// Nobody looks at the rows any more.
    NobodyLooks,
}

/// The names of the tables that occurred in a stream, up to a thousand.
#[derive(Debug, Clone, Default)]
pub struct Tables(Arc<Mutex<BTreeSet<String>>>);

impl Tables {
    fn notice(&self, table: &str) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() < REMEMBERED_TABLES && !names.contains(table) {
            names.insert(table.to_owned());
        }
    }

    /// The names in their order.
    pub fn names(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// A decoder by these choices for a query: every revision of its table carries what the statement looks at, no other table is read, and no rule
/// leaves one out. Tables that occur are noticed.
pub fn decoder(query: &Query, options: codec::Options) -> (Decoder, Tables) {
    let (tables, of_table) = (Tables::default(), options.table);
    let (noticed, wanted) = (tables.clone(), query.table().map(str::to_owned));
    let metadata = if query.wants_committed() { Metadata::Committed } else { Metadata::None };
    let table = move |table: &str| {
        noticed.notice(table);
        let unread = wanted.as_ref().is_some_and(|wanted| wanted != table);
        codec::TableOptions { unread, unmapped: false, metadata, ..of_table(table) }
    };
    (Decoder::new(codec::Options { table: Box::new(table), ..options }), tables)
}

/// Scans the source and hands out the rows that the statement finds; `scanned` says how far that is, also when it ends early.
///
/// # Errors
/// What ended the scan early. Everything that could be read before was looked at, and its rows were handed out.
pub async fn query(
    source: Scan,
    query: &Query,
    decoder: &mut Decoder,
    rows: &mut impl Rows,
    scanned: &mut Scanned,
    mut stop: watch::Receiver<bool>,
) -> Result<End, Error> {
    if query.limit() == Some(0) {
        return Ok(End::LimitReached);
    }
    let mut evaluation = Evaluation::new(query, decoder, rows, scanned);
    let mut reading = pages::next(source);
    loop {
        let (source, page) = tokio::select! {
            biased;
            () = stopped(&mut stop) => return Err(interrupted()),
            page = &mut reading => page.map_err(|_| panicked())?,
        };
        let Some(page) = page? else {
            let is_incomplete = spawn_blocking(move || source.is_incomplete()).await.map_err(|_| panicked())?;
            return Ok(if is_incomplete { End::NotProven } else { End::Complete });
        };
        // The next page is read while this one is looked at; not where a record alone is larger than pages are.
        let bytes = page.records.iter().map(|record| record.data.len()).sum::<usize>();
        let mut unread = Some(source);
        if let Some(source) = unread.take_if(|_| bytes <= 2 * PAGE) {
            reading = pages::next(source);
        }
        if let Some(end) = evaluation.page(page)? {
            return Ok(end);
        }
        if let Some(source) = unread {
            reading = pages::next(source);
        }
    }
}

/// A statement at work, on one record after another.
pub struct Evaluation<'q, R> {
    query: &'q Query,
    decoder: &'q mut Decoder,
    rows: &'q mut R,
    scanned: &'q mut Scanned,
    notes: Notes,
}

impl<'q, R: Rows> Evaluation<'q, R> {
    /// Hands rows to `rows`, and counts in `scanned`; the decoder is one of [`decoder`].
    pub fn new(query: &'q Query, decoder: &'q mut Decoder, rows: &'q mut R, scanned: &'q mut Scanned) -> Self {
        Self { query, decoder, rows, scanned, notes: Notes::default() }
    }

    /// Looks at the records of a page, and shows the rows of it; the end, where this was it.
    fn page(&mut self, page: Page) -> Result<Option<End>, Error> {
        let mut end = Ok(None);
        for record in page.records {
            end = self.record(&record);
            if !matches!(end, Ok(None)) {
                break;
            }
        }
        // What was found is seen before anything that went wrong is said.
        let seen = self.rows.show(page.read, self.scanned)?;
        Ok(end?.or((!seen).then_some(End::NobodyLooks)))
    }

    /// Looks at a record; the end, where it gave the last row that is asked for.
    ///
    /// # Errors
    /// A row cannot be handed out, or nothing of this kind may be decoded before a person has said how.
    pub fn record(&mut self, record: &Record) -> Result<Option<End>, Error> {
        self.scanned.records += 1;
        self.scanned.bytes += record.data.len() as u64;
        let mut user_records = intake::open(self.decoder, record);
        while let Some(user_record) = intake::next_user_record(self.decoder, &mut user_records, record) {
            let mut units = self.decoder.units(&user_record);
            while let Some((unit, content)) = intake::next_unit(self.decoder, &mut units, &mut self.notes) {
                match content {
                    Content::Revision(revision) => {
                        if let Some(end) = self.revision(record, &user_record, unit, revision)? {
                            return Ok(Some(end));
                        }
                    }
                    Content::Fault(fault) => self.scanned.give_up(|| Whereabouts::new(record, &user_record, unit), fault),
                    Content::Skip(_) | Content::Block(_) => {}
                    Content::Refused(error) => return Err(error),
                }
            }
        }
        Ok(None)
    }

    fn revision(&mut self, record: &Record, user_record: &UserRecord, unit: u32, revision: Revision) -> Result<Option<End>, Error> {
        self.scanned.revisions += 1;
        let (op, document) = done(revision.change);
        let position = &record.position;
        let row = Row {
            table: &revision.table,
            op,
            data: document.as_ref().map(Document::as_bytes),
            committed: revision.metadata.as_ref().map(Document::as_bytes),
            time: record.arrived,
            partition: match position {
                Position::Offset { partition, .. } => Place::Number(i64::from(*partition)),
                _ => Place::Text(place::shard(&record.origin)),
            },
            offset: match position {
                Position::Offset { offset, .. } => Place::Number(*offset),
                Position::Byte { offset } => Place::Number(i64::try_from(*offset).unwrap_or(i64::MAX)),
                Position::Sequence { number, .. } => Place::Text(&number.0),
            },
        };
        let mut values = Vec::new();
        let query = self.query;
        match caught(|| query.answer(&row, &mut values)) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(fault) => {
                self.scanned.give_up(|| Whereabouts::new(record, user_record, unit), fault);
                return Ok(None);
            }
        }
        self.scanned.rows += 1;
        self.rows.row(&values)?;
        Ok((query.limit() == Some(self.scanned.rows)).then_some(End::LimitReached))
    }
}

/// What a change does, and the document that it leaves.
fn done(change: Change) -> (Op, Option<Document>) {
    match change {
        Change::Put(document) => (Op::Index, Some(document)),
        Change::Delete => (Op::Delete, None),
        Change::Redaction => (Op::Redacted, None),
        Change::Cells(change) => {
            let mut row = cells::Row::default();
            row.merge(&change);
            match row.document() {
                Some(document) => (Op::Index, Some(document)),
                None => (Op::Delete, None),
            }
        }
    }
}
