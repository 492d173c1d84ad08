//! Operations that mend an index: a unit that stands is sent once more, and what is not to be there is deleted at the version that it has.
//!
//! Under `external_gte`, so that it holds also where the index has something else at the same version. Goes through the same lanes, retries, counts and
//! dead letters as everything.

use std::sync::Arc;

use bytes::Bytes;

use super::super::intake;
use super::super::letters::Claim;
use super::Deliver;
use crate::codec::{Content, Format};
use crate::error::Error;
use crate::operation::Operation;
use crate::plan::mapping::{Mode, Planned};
use crate::record::{Fault, Origin, Position};
use crate::revision::{Revision, VersionType};
use crate::store::fold::Unit;

impl Deliver {
    /// Takes a unit in once more, under its own origin, position and number, for the indices of one mode.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub(in crate::run) async fn push_again(&mut self, unit: &Unit, mode: Mode) -> Result<(), Error> {
        let ticket = self.enter(&unit.origin, &unit.position, None, unit.payload.len()).await?;
        let notes = &mut self.account.counts.notes;
        let (format, content) = intake::unit_of(&mut self.decoder, &unit.payload, unit.message.clone(), unit.part, notes);
        let content = match content {
            Some(Content::Revision(revision)) => Content::Revision(Revision { version_type: VersionType::ExternalGte, ..revision }),
            Some(other) => other,
            None => Content::Fault(Fault::new("undecodable", "expected the unit in its payload, found none")),
        };
        let claim = Claim {
            ticket,
            origin: Arc::clone(&unit.origin),
            position: unit.position.clone(),
            unit: unit.unit,
            part: unit.part,
            payload: unit.payload.clone(),
            message: unit.message.clone(),
            format,
            table: None,
            mode: Some(mode),
            committed: None,
        };
        match content {
            Content::Block(block) => {
                let planned = match intake::plan_block(&self.mapping, block) {
                    Planned::Operation(Operation::Index { mut target, document }) => {
                        target.version_type = VersionType::ExternalGte;
                        Planned::Operation(Operation::Index { target, document })
                    }
                    planned => planned,
                };
                self.planned(claim, planned).await?;
            }
            content => self.unit(claim, content).await?,
        }
        self.account.ledger.close(ticket);
        Ok(())
    }

    /// Sends an operation that no record of the stream stands for. `number` is another one for each.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub(in crate::run) async fn push_operation(&mut self, operation: Operation, number: u64) -> Result<(), Error> {
        let origin = Arc::new(Origin { stream: "verify".to_owned(), shard: operation.target().index.to_string() });
        let position = Position::Byte { offset: number };
        let ticket = self.enter(&origin, &position, None, 0).await?;
        let claim = Claim {
            ticket,
            origin,
            position,
            unit: 0,
            part: 0,
            // The letter's id is made of it.
            payload: Bytes::copy_from_slice(operation.target().id.as_bytes()),
            message: None,
            format: Format::Auto,
            table: None,
            mode: None,
            committed: None,
        };
        self.account.receive(&claim);
        self.send_in_company(operation, claim).await?;
        self.account.ledger.close(ticket);
        Ok(())
    }
}
