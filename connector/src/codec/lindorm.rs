//! Row changes of lindorm.

use super::{Content, Decoder, UserRecord};
use crate::metrics::Notes;
use crate::record::Fault;

/// The units of one message: at least one.
pub(super) fn decode(_decoder: &mut Decoder, _user_record: &UserRecord, _notes: &mut Notes) -> Vec<Content> {
    vec![Content::Fault(Fault::new("undecodable", "lindorm"))]
}
