//! A dead letter is sent again: what it stands for goes down the line as it did the first time.

use std::sync::Arc;

use super::super::intake::{has_no_index, read_again, stands_for_the_rest};
use super::super::letters::Claim;
use super::{Deliver, Passed};
use crate::error::Error;
use crate::plan::ledger::Ticket;
use crate::record::Record;
use crate::store::dead_letters::DeadLetter;

impl Deliver {
    /// Takes a dead letter's unit in again, under the letter's own origin, position and unit. `None` where nothing was taken in, for the letter is of the
    /// journal or of a history, and this line has no index of that kind for it.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub async fn push_letter(&mut self, letter: &DeadLetter) -> Result<Option<Ticket>, Error> {
        let (origin, payload) = (Arc::new(letter.origin.clone()), letter.payload.clone());
        let ticket = self.enter(&origin, &letter.position, None, payload.len()).await?;
        if stands_for_the_rest(letter) {
            self.account.letters.send_again(letter);
            let record = Record {
                origin,
                position: letter.position.clone(),
                data: payload,
                arrived: None,
                damage: None,
                message: letter.message.clone().map(Arc::new),
            };
            self.units(&record, ticket, Passed { number: letter.unit, units: letter.part, sub: None }).await?;
        } else {
            let (format, content) = read_again(&mut self.decoder, letter, &mut self.account.counts.notes);
            if has_no_index(&mut self.mapping, letter, &content)? {
                self.account.ledger.close(ticket);
                return Ok(None);
            }
            self.account.letters.send_again(letter);
            let table = letter.table.as_deref().map(Into::into);
            let claim = Claim {
                ticket,
                origin,
                position: letter.position.clone(),
                unit: letter.unit,
                part: letter.part,
                payload,
                message: letter.message.clone().map(Arc::new),
                format,
                table,
                mode: letter.mode,
                committed: None,
            };
            self.unit(claim, content).await?;
        }
        self.account.ledger.close(ticket);
        Ok(Some(ticket))
    }
}
