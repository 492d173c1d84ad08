//! A source that is reduced to the newest revision of each document before it is sent: read twice, first into a fold, then again, and of that only
//! what stands is sent.
//!
//! What does not stand is settled when it is met: the one that stands comes later, or came before. Changes of cells all stand.

use super::super::letters::Claim;
use super::super::pages;
use super::super::verify::folding::Folding;
use super::Deliver;
use crate::codec::Decoder;
use crate::error::Error;
use crate::metrics::Skip;
use crate::operation::Operation;
use crate::panics::panicked;
use crate::plan::fold::{Sifted, State};
use crate::plan::mapping::Mapping;
use crate::source::scan::Scan;
use crate::store::fold::{Fold, Keeps, Met};

/// Reads a source into a fold, which holds at most so many bytes in memory. `progress` hears how much of it was read so far, and how many units. May
/// be dropped at any time.
///
/// # Errors
/// What would end a delivery too, but for what cannot be read: that is said when it is read once more.
pub async fn fold(
    source: Scan,
    decoder: Decoder,
    mapping: Mapping,
    memory: usize,
    mut progress: impl FnMut(u64, u64),
) -> Result<Fold, Error> {
    let (mut fold, mut folding) = (Fold::open(memory, Keeps::Places)?, Folding::new(decoder, mapping, false));
    let mut reading = pages::next(source);
    loop {
        let (source, page) = reading.await.map_err(|_| panicked())?;
        let Ok(Some(page)) = page else { return Ok(fold) };
        // The next page is read while this one is worked on.
        reading = pages::next(source);
        folding.fold(&page.records, &mut fold)?;
        progress(page.read, folding.read.units);
    }
}

impl Deliver {
    /// Sends only what stands in a fold of what it will be given.
    #[must_use]
    pub fn sifted_by(mut self, fold: Fold) -> Self {
        self.sieve = Some(fold);
        self
    }

    /// What is done with an operation; all stand where nothing is sifted.
    pub(super) fn sift(&self, operation: &Operation, claim: &Claim) -> Result<Sifted, Error> {
        let Some(fold) = &self.sieve else { return Ok(Sifted::Stands) };
        let state = match operation {
            Operation::Index { .. } => State::Document,
            Operation::Delete { .. } => State::Deleted,
            Operation::Tombstone { .. } => State::Tombstone,
            Operation::Merge { .. } => return Ok(Sifted::Stands),
        };
        let target = operation.target();
        fold.sift(&Met {
            index: &target.index,
            id: &target.id,
            state,
            version: target.version,
            origin: &claim.origin,
            position: &claim.position,
            unit: claim.unit,
        })
    }

    /// Settles what is not sent.
    pub(super) fn sift_out(&mut self, sifted: Sifted, claim: &Claim) {
        if sifted == Sifted::Redacted { self.account.skip(claim, Skip::Redacted) } else { self.account.compact(claim) }
    }
}
