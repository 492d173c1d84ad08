//! The repair: exactly the operations that mend what was found, through the line that delivers everything.
//!
//! What is foreign is deleted only where there is no doubt that the stream has everything, or where that was said. An index that remembers a delete at a
//! higher version than it should is made to forget, under the same condition, and then told anew of every delete that the stream has.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::super::deliver::{Deliver, interrupted};
use super::super::{clock, stopped};
use super::{Findings, Step, Verifying};
use crate::error::Error;
use crate::operation::{Operation, Target};
use crate::plan::deletes::IndexDeletes;
use crate::plan::fold::{Class, Mend};
use crate::plan::mapping::{Deletes, Mode};
use crate::revision::VersionType;
use crate::sink::Asked;
use crate::store::fold::differences::Difference;
use crate::store::fold::{Index, Known};

/// Comparisons after which what is left stays: of an index that others write to something may be left for ever.
const ROUNDS: usize = 3;

/// How long what is under way may take after something went wrong.
const GRACE: Duration = Duration::from_secs(10);

/// Differences that are read at once.
const PORTION: u32 = 500;

/// How what was found is to be mended.
pub struct Repair {
    /// The line to the sink.
    pub deliver: Deliver,
    /// What deletes are in each index.
    pub deletes: IndexDeletes,
    /// Foreign documents are deleted although they may be none, and deletes are forgotten that the stream may have.
    pub force: bool,
}

impl<P: FnMut(Step<'_>) + Send> Verifying<P> {
    /// Mends what the last comparison found, and compares again.
    pub(super) async fn repair(&mut self, mut repair: Repair, findings: &mut Findings) -> Result<(), Error> {
        let result = self.rounds(&mut repair, findings).await;
        if result.is_err() {
            repair.deliver.stop(GRACE).await;
        }
        findings.repaired = Some(repair.deliver.counts());
        result
    }

    async fn rounds(&mut self, repair: &mut Repair, findings: &mut Findings) -> Result<(), Error> {
        let mut forgotten = BTreeSet::new();
        for _ in 0..ROUNDS {
            let stale = repair.deliver.counts().stale;
            let kept = self.kept(repair, findings)?;
            let mut stop = self.stop.clone();
            tokio::select! {
                biased;
                () = stopped(&mut stop) => return Err(interrupted()),
                mended = self.mend(repair, &kept, &forgotten) => mended?,
            }
            self.compare(findings).await?;
            // Nothing is held, and what should be was refused as older than something: a delete is remembered.
            let refused = repair.deliver.counts().stale > stale;
            forgotten = if refused { self.with_missing()? } else { BTreeSet::new() };
            if !repair.force {
                self.remember(&mut forgotten, findings)?;
            }
            if forgotten.is_empty() {
                return Ok(());
            }
            for index in &forgotten {
                self.forget(*index, findings).await?;
            }
        }
        Ok(())
    }

    /// The indices of which foreign documents stay.
    fn kept(&self, repair: &Repair, findings: &mut Findings) -> Result<BTreeSet<Index>, Error> {
        let mut kept = BTreeSet::new();
        for index in (0..).take(self.fold.indices().len()) {
            let foreign = self.fold.count_in(Class::Foreign, index)?;
            let held = self.comparing.held.get(&index).copied().unwrap_or_default();
            let why = match (self.has_dropped, self.folding.read.unusable, findings.is_complete) {
                _ if foreign == 0 || repair.force => continue,
                (true, ..) => "the source may have dropped records, and these may be theirs",
                (_, 1.., _) => "the source has records that cannot be used, and these may be theirs",
                (_, _, false) => "the source could not be read completely",
                _ if foreign > held / 2 => {
                    "they are more than half of the index: it may be another one, or the source only a part of the stream"
                }
                _ => continue,
            };
            kept.insert(index);
            let remark = format!("{}: {foreign} foreign documents stay, because {why}; --force deletes them", self.fold.name(index));
            if !findings.remarks.contains(&remark) {
                findings.remarks.push(remark);
            }
        }
        Ok(kept)
    }

    async fn mend(&mut self, repair: &mut Repair, kept: &BTreeSet<Index>, forgotten: &BTreeSet<Index>) -> Result<(), Error> {
        // First what stands where something else has to go, or under another routing value.
        for erases in [true, false] {
            for class in Class::ALL {
                let mut after = 0;
                loop {
                    let portion = self.fold.differences(class, after, PORTION)?;
                    let Some((last, _)) = portion.last() else { break };
                    after = *last;
                    for (key, difference) in portion {
                        match difference.mend {
                            Mend::Erase(_) if class == Class::Foreign && kept.contains(&difference.index) => {}
                            Mend::Erase(version) | Mend::Anew(version) if erases => {
                                let operation = self.erasure(repair, &difference, version);
                                repair.deliver.push_operation(operation, key.unsigned_abs()).await?;
                            }
                            Mend::Newest | Mend::Anew(_) if !erases => {
                                self.send(repair, difference.index, &difference.id, key).await?;
                            }
                            Mend::Newest | Mend::Anew(_) | Mend::Erase(_) | Mend::Nothing => {}
                        }
                    }
                    (self.progress)(Step::Mending(&repair.deliver.counts()));
                }
            }
            repair.deliver.finish().await?;
        }
        for index in forgotten {
            self.delete_again(repair, *index).await?;
        }
        repair.deliver.finish().await
    }

    fn erasure(&self, repair: &Repair, difference: &Difference, version: u64) -> Operation {
        let target = Target {
            index: self.fold.name(difference.index),
            id: difference.id.clone(),
            version,
            version_type: VersionType::ExternalGte,
            routing: difference.routing.clone(),
        };
        // What was redacted may be delivered again, and a tombstone stands against it; of what is foreign the stream has nothing.
        if difference.class == Class::RedactedPresent && repair.deletes.may(&target.index, Deletes::Tombstone) {
            return Operation::Tombstone { target, time: clock::millis() };
        }
        Operation::Delete { target }
    }

    /// Sends what stands of a document.
    async fn send(&mut self, repair: &mut Repair, index: Index, id: &str, key: i64) -> Result<(), Error> {
        if let Some(Known { row: Some(row), routing, .. }) = self.fold.known(index, id)? {
            let (index, version_type) = (self.fold.name(index), VersionType::ExternalGte);
            let target = Target { index, id: id.to_owned(), version: row.version(), version_type, routing };
            let operation = Operation::Merge { target, cells: Arc::new(row.change()), time: clock::millis() };
            return repair.deliver.push_operation(operation, key.unsigned_abs()).await;
        }
        match self.fold.unit(index, id)? {
            Some(unit) => {
                let mode = if repair.deletes.is_history(&self.fold.name(index)) { Mode::History } else { Mode::Latest };
                repair.deliver.push_again(&unit, mode).await
            }
            None => Ok(()),
        }
    }

    /// Indices that hold nothing where they should.
    fn with_missing(&self) -> Result<BTreeSet<Index>, Error> {
        let mut found = BTreeSet::new();
        for index in (0..).take(self.fold.indices().len()) {
            if self.fold.count_in(Class::Missing, index)? > 0 {
                found.insert(index);
            }
        }
        Ok(found)
    }

    /// Takes out the indices that are not to forget: where not all of the source could be read, what is missing may be what the rest deletes.
    fn remember(&self, forgotten: &mut BTreeSet<Index>, findings: &mut Findings) -> Result<(), Error> {
        let why = match (self.folding.read.unusable, findings.is_complete) {
            (1.., _) => "the source has records that cannot be used, and these may be deletes",
            (_, false) => "the source could not be read completely",
            _ => return Ok(()),
        };
        for index in std::mem::take(forgotten) {
            let (name, missing) = (self.fold.name(index), self.fold.count_in(Class::Missing, index)?);
            let remark = format!(
                "{name}: {missing} missing documents stay so: the index remembers deletes at higher versions, and {why}; --force makes it forget them"
            );
            if !findings.remarks.contains(&remark) {
                findings.remarks.push(remark);
            }
        }
        Ok(())
    }

    async fn forget(&mut self, index: Index, findings: &mut Findings) -> Result<(), Error> {
        let name = self.fold.name(index);
        let mut after = 0;
        loop {
            let portion = self.fold.differences(Class::Missing, after, PORTION)?;
            let Some((last, _)) = portion.last() else { break };
            after = *last;
            let of_index = portion.into_iter().map(|(_, difference)| difference).filter(|difference| difference.index == index);
            let asked: Vec<Asked> = of_index.map(|difference| Asked { id: difference.id, routing: difference.routing }).collect();
            if asked.is_empty() {
                continue;
            }
            // To its end, also after a stop signal.
            while let Err(failure) = self.comparing.sink.forget_deletes(&name, &asked).await {
                self.comparing.patience.wait(failure).await?;
            }
        }
        let remark = format!(
            "{name}: it remembered deletes at higher versions than the stream has, and was made to forget them; it is told anew of the deletes that the \
             stream has"
        );
        if !findings.remarks.contains(&remark) {
            findings.remarks.push(remark);
        }
        Ok(())
    }

    /// Sends every delete of an index again, so that it is remembered.
    async fn delete_again(&mut self, repair: &mut Repair, index: Index) -> Result<(), Error> {
        let mut after = String::new();
        loop {
            let deleted = self.fold.deleted(index, &after, PORTION)?;
            let Some(last) = deleted.last() else { return Ok(()) };
            after.clone_from(last);
            for id in &deleted {
                self.send(repair, index, id, 0).await?;
            }
            (self.progress)(Step::Mending(&repair.deliver.counts()));
        }
    }
}
