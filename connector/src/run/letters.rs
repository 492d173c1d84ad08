//! Where a unit came from, and the dead letter that is made of it when it can never succeed.

use std::sync::Arc;

use bytes::Bytes;

use super::clock;
use crate::operation::Operation;
use crate::plan::ledger::Ticket;
use crate::record::{Fault, Origin, Position};
use crate::store::dead_letters::{DeadLetter, FORMAT_VERSION, identify};

/// What is known of a unit from its record on.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) ticket: Ticket,
    pub(super) origin: Arc<Origin>,
    pub(super) position: Position,
    /// The unit's place in its record, from 0.
    pub(super) unit: u32,
    /// The unit's place in `payload`, from 0.
    pub(super) part: u32,
    pub(super) payload: Bytes,
    pub(super) table: Option<Arc<str>>,
}

impl Claim {
    /// The letter of a unit that did not become an operation.
    pub(super) fn letter(&self, error: Fault) -> DeadLetter {
        DeadLetter {
            v: FORMAT_VERSION,
            id: identify(&self.origin, &self.position, self.unit),
            time: clock::now(),
            origin: (*self.origin).clone(),
            position: self.position.clone(),
            unit: self.unit,
            part: self.part,
            format: "qldb".to_owned(),
            table: self.table.as_ref().map(|table| table.to_string()),
            document_id: None,
            version: None,
            index: None,
            action: None,
            attempts: 0,
            error,
            first_error: None,
            connector: env!("CARGO_PKG_VERSION").to_owned(),
            payload: self.payload.clone(),
        }
    }

    /// The letter of an operation that the sink refused.
    pub(super) fn refused(&self, operation: &Operation, attempts: u32, first: Option<Fault>, error: Fault) -> DeadLetter {
        let target = operation.target();
        DeadLetter {
            document_id: Some(target.id.clone()),
            version: Some(target.version),
            index: Some(target.index.to_string()),
            action: Some(operation.action().to_owned()),
            attempts,
            first_error: first.filter(|first| *first != error),
            ..self.letter(error)
        }
    }
}
