//! Records into the fold: decoded and planned as for a delivery, and written nowhere else.

use std::sync::Arc;

use super::super::intake;
use crate::codec::{self, Content, Decoder};
use crate::error::Error;
use crate::metrics::{Notes, Skip};
use crate::operation::{Operation, Target};
use crate::plan::fingerprint::fingerprint;
use crate::plan::fold::{Said, State};
use crate::plan::mapping::{Destination, Destinations, Mapping, Mode, Planned};
use crate::record::{Fault, Record};
use crate::revision::{Block, Change, Revision};
use crate::store::fold::{Fold, Saying, Unit};

/// What was read of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Read {
    /// Units.
    pub units: u64,
    /// Units that can never be written: a delivery makes dead letters of them.
    pub unusable: u64,
    /// Where the first of them is, and why.
    pub first_unusable: Option<String>,
    /// Bytes of records.
    pub bytes: u64,
}

/// Takes records in.
pub(in crate::run) struct Folding {
    decoder: Decoder,
    mapping: Mapping,
    /// Whether contents are compared.
    contents: bool,
    pub(in crate::run) read: Read,
}

impl Folding {
    pub(in crate::run) fn new(decoder: Decoder, mapping: Mapping, contents: bool) -> Self {
        Self { decoder, mapping, contents, read: Read::default() }
    }

    /// Takes records in.
    ///
    /// # Errors
    /// What would end a delivery too: two tables in one index, records of which nobody said what they hold. The fold cannot be written.
    pub(in crate::run) fn fold(&mut self, records: &[Record], fold: &mut Fold) -> Result<(), Error> {
        fold.together(|fold| records.iter().try_for_each(|record| self.record(record, fold)))
    }

    fn record(&mut self, record: &Record, fold: &mut Fold) -> Result<(), Error> {
        self.read.bytes += record.data.len() as u64;
        let mut user_records = intake::open(&mut self.decoder, record);
        let (mut number, mut notes) = (0, Notes::default());
        while let Some(user_record) = intake::next_user_record(&mut self.decoder, &mut user_records, record) {
            let mut units = self.decoder.units(&user_record);
            while let Some((part, content)) = intake::next_unit(&mut self.decoder, &mut units, &mut notes) {
                let unit = || Unit {
                    origin: Arc::clone(&record.origin),
                    position: codec::position(&record.position, user_record.sub),
                    unit: number,
                    part,
                    payload: user_record.payload.clone(),
                    message: user_record.message.clone(),
                };
                match content {
                    Content::Skip(_) => self.read.units += 1,
                    Content::Refused(error) => return Err(error),
                    Content::Fault(fault) => {
                        self.read.units += 1;
                        self.unusable(record, &fault);
                    }
                    Content::Revision(revision) => self.revision(record, revision, unit, fold)?,
                    Content::Block(block) => {
                        self.read.units += 1;
                        self.block(record, block, unit, fold)?;
                    }
                }
                number += 1;
            }
        }
        Ok(())
    }

    fn unusable(&mut self, record: &Record, fault: &Fault) {
        self.read.unusable += 1;
        self.read.first_unusable.get_or_insert_with(|| format!("{} at {}: {fault}", record.origin, record.position));
    }

    fn block(&mut self, record: &Record, block: Block, unit: impl FnOnce() -> Unit, fold: &mut Fold) -> Result<(), Error> {
        let (target, document) = match intake::plan_block(&self.mapping, block) {
            Planned::Operation(Operation::Index { target, document }) => (target, document),
            Planned::Operation(_) | Planned::Skip(_) => return Ok(()),
            Planned::Fault(fault) => {
                self.unusable(record, &fault);
                return Ok(());
            }
        };
        let saying = Saying {
            index: &target.index,
            id: &target.id,
            routing: None,
            said: Said::Is(State::Document),
            version: target.version,
            version_type: target.version_type,
            content: self.contents.then(|| fingerprint(document.as_bytes())),
        };
        fold.take(&saying, unit)
    }

    /// A revision in each mode that its table has a rule of.
    fn revision(&mut self, record: &Record, revision: Revision, unit: impl Fn() -> Unit, fold: &mut Fold) -> Result<(), Error> {
        let Destinations { first, second } = self.mapping.destinations(&revision.table)?;
        if let Some(second) = second {
            self.revision_at(second, record, revision.clone(), &unit, fold)?;
        }
        self.revision_at(first, record, revision, &unit, fold)
    }

    fn revision_at(
        &mut self,
        destination: Destination,
        record: &Record,
        revision: Revision,
        unit: impl FnOnce() -> Unit,
        fold: &mut Fold,
    ) -> Result<(), Error> {
        self.read.units += 1;
        let is_redaction = revision.change == Change::Redaction;
        let is_history = destination.mode() == Mode::History;
        let erases = self.mapping.erases(&destination);
        let about =
            Revision { table: Arc::clone(&revision.table), id: revision.id.clone(), change: Change::Delete, metadata: None, ..revision };
        let (operation, said) = match intake::plan_at(&self.mapping, destination.clone(), revision).planned {
            Planned::Operation(operation) => {
                let said = match &operation {
                    Operation::Index { .. } if is_history && is_redaction => Said::Is(State::Redacted),
                    Operation::Index { .. } => Said::Is(State::Document),
                    Operation::Delete { .. } if is_redaction => Said::Erased(State::Deleted),
                    Operation::Tombstone { .. } if is_redaction => Said::Erased(State::Tombstone),
                    Operation::Delete { .. } => Said::Is(State::Deleted),
                    Operation::Tombstone { .. } => Said::Is(State::Tombstone),
                    Operation::Merge { target, cells, .. } => {
                        return fold.take_cells(&target.index, &target.id, target.routing.as_deref(), cells);
                    }
                };
                (Some(operation), said)
            }
            Planned::Skip(Skip::Redacted) if is_redaction => (None, Said::Redacted),
            Planned::Skip(_) => (None, Said::Nothing),
            Planned::Fault(fault) => {
                self.unusable(record, &fault);
                (None, Said::Nothing)
            }
        };
        let of_id;
        let target: &Target = match &operation {
            Some(operation) => operation.target(),
            None => match self.mapping.target_at(destination, &about) {
                Some(target) => {
                    of_id = target;
                    &of_id
                }
                None => return Ok(()),
            },
        };
        let content = match &operation {
            Some(Operation::Index { document, .. }) if self.contents => Some(fingerprint(document.as_bytes())),
            _ => None,
        };
        if erases {
            fold.erases(&target.index);
        }
        let saying = Saying {
            index: &target.index,
            id: &target.id,
            routing: target.routing.as_deref(),
            said,
            version: target.version,
            version_type: target.version_type,
            content,
        };
        fold.take(&saying, unit)
    }
}
