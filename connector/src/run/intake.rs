//! Decoding and planning, in which a panic costs the unit at hand and nothing else.
//!
//! What was being decoded when it came cannot be gone on with: what is left of that user record, or of the record where not even that is known,
//! is one unit, a fault, and what follows is decoded by a decoder that remembers nothing. Waits for nothing and counts nothing.

use std::sync::Arc;

use bytes::Bytes;

use super::clock;
use crate::codec::{Content, Decoder, Format, TOO_MANY_FAULTS, Units, UserRecord, UserRecords};
use crate::error::Error;
use crate::metrics::{Notes, Skip};
use crate::panics::{PANIC, caught};
use crate::plan::mapping::{Destination, Destinations, Mapping, Mode, Plan, Planned, Plans};
use crate::record::{Fault, Message, Record};
use crate::revision::{Block, Revision};
use crate::store::dead_letters::DeadLetter;

/// Begins with a record.
pub(super) fn open(decoder: &mut Decoder, record: &Record) -> UserRecords {
    caught(|| decoder.open(record)).unwrap_or_else(|fault| {
        decoder.renew();
        UserRecord::unreadable(record.data.clone(), record.message.clone(), fault).into()
    })
}

/// The next user record of a record.
pub(super) fn next_user_record(decoder: &mut Decoder, user_records: &mut UserRecords, record: &Record) -> Option<UserRecord> {
    caught(|| user_records.next(decoder)).unwrap_or_else(|fault| {
        decoder.renew();
        *user_records = UserRecords::default();
        Some(UserRecord::unreadable(record.data.clone(), record.message.clone(), fault))
    })
}

/// The next unit of a user record, and its place in it.
pub(super) fn next_unit(decoder: &mut Decoder, units: &mut Units<'_>, notes: &mut Notes) -> Option<(u32, Content)> {
    caught(|| units.next(decoder, notes)).unwrap_or_else(|fault| {
        decoder.renew();
        Some((units.end(), Content::Fault(fault)))
    })
}

/// The plans of a revision, the newest revisions first; only that of one mode where one is given. A panic costs the plan at hand.
///
/// # Errors
/// As [`Mapping::destinations`].
pub(super) fn plan(mapping: &mut Mapping, revision: Revision, only: Option<Mode>) -> Result<Plans, Error> {
    // A mapping remembers whole destinations, one step each: there is no half of one.
    let destinations = match caught(|| mapping.destinations(&revision.table)) {
        Ok(destinations) => destinations?,
        Err(fault) => return Ok(Plans { first: failed(None, fault), second: None }),
    };
    let Destinations { first, second } = if let Some(mode) = only { destinations.only(mode) } else { destinations };
    let second = second.map(|second| plan_at(mapping, second, revision.clone()));
    Ok(Plans { first: plan_at(mapping, first, revision), second })
}

/// Decides about a revision in one destination of its table.
pub(super) fn plan_at(mapping: &Mapping, destination: Destination, revision: Revision) -> Plan {
    planned(destination.mode(), || mapping.plan_at(destination, revision, clock::millis()))
}

fn planned(mode: Mode, plan: impl FnOnce() -> Plan) -> Plan {
    caught(plan).unwrap_or_else(|fault| failed(Some(mode), fault))
}

fn failed(mode: Option<Mode>, fault: Fault) -> Plan {
    Plan { mode, planned: Planned::Fault(fault), leaves: false }
}

/// Decides about a block of the journal.
pub(super) fn plan_block(mapping: &Mapping, block: Block) -> Planned {
    caught(|| mapping.plan_block(block)).unwrap_or_else(Planned::Fault)
}

/// Whether a letter stands for everything that is left of its payload: a panic kept the decoder from telling its units apart, there were more faults
/// than become letters of their own, or a change of a row could not be read, which may be two (its key changed).
pub(super) fn stands_for_the_rest(letter: &DeadLetter) -> bool {
    let of_rows = [Format::Lindorm, Format::Debezium].iter().any(|format| format.as_str() == letter.format);
    letter.table.is_none() && (of_rows || [PANIC, TOO_MANY_FAULTS].contains(&&*letter.error.kind))
}

/// The unit of a dead letter, decoded anew, and the format by which it was.
///
/// What was damaged inside of an aggregate has no format to be decoded by: unless it is a revision after all, it keeps its reason.
pub(super) fn read_again(decoder: &mut Decoder, letter: &DeadLetter, notes: &mut Notes) -> (Format, Content) {
    let (format, content) = unit_of(decoder, &letter.payload, letter.message.clone().map(Arc::new), letter.part, notes);
    let content = match content {
        Some(Content::Revision(revision)) => Content::Revision(revision),
        _ if letter.error.kind == "damaged_aggregate" => Content::Fault(letter.error.clone()),
        Some(content) => content,
        None => Content::Fault(Fault::new("undecodable", "expected the letter's unit in its payload, found none")),
    };
    (format, content)
}

/// Whether a letter's unit was meant for the journal's index or for a history, and there is none for it now: passed over, it would be lost.
///
/// # Errors
/// As [`Mapping::destinations`].
pub(super) fn has_no_index(mapping: &mut Mapping, letter: &DeadLetter, content: &Content) -> Result<bool, Error> {
    match content {
        Content::Skip(reason) => Ok(*reason == Skip::BlockSummary),
        Content::Revision(revision) if letter.mode == Some(Mode::History) => {
            Ok(mapping.destinations(&revision.table)?.only(Mode::History).first.is_unmapped())
        }
        _ => Ok(false),
    }
}

/// One unit of a payload, by its place in it, and the format by which it was decoded; `None` where there is no such unit.
pub(super) fn unit_of(
    decoder: &mut Decoder,
    payload: &Bytes,
    message: Option<Arc<Message>>,
    part: u32,
    notes: &mut Notes,
) -> (Format, Option<Content>) {
    let user_record = decoder.open_payload(payload, message);
    let mut units = decoder.units(&user_record);
    let content = loop {
        match next_unit(decoder, &mut units, notes) {
            Some((place, content)) if place == part => break Some(content),
            Some(_) => {}
            None => break None,
        }
    };
    (user_record.format, content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_while_a_revision_is_planned_is_its_fault() {
        let Plan { mode, planned, leaves } = planned(Mode::History, || panic!("{} of a customer", "the name"));
        let Planned::Fault(Fault { kind, reason }) = planned else { panic!("expected a fault, found {planned:?}") };
        assert!(
            mode == Some(Mode::History) && !leaves && kind == PANIC && reason.contains("intake.rs:") && !reason.contains("customer"),
            "{reason}"
        );
    }
}
