//! Whether a data file of an export holds the blocks that its name says: the first and the last one are compared with it.
//!
//! Looks at the address of a block and at nothing else of it.

use bytes::Bytes;

use super::names::{self, Blocks};
use crate::codec::audit::Address;
use crate::codec::export::address;

/// What was seen of a data file.
#[derive(Debug)]
pub(in super::super) struct Contents {
    named: Blocks,
    /// The address of the first record, where it is a block.
    first: Option<Option<Address>>,
    last: Bytes,
}

impl Contents {
    /// Of a file that is named as one of an export.
    pub(in super::super) fn of(path: &str) -> Option<Self> {
        Some(Self { named: names::blocks(path)?, first: None, last: Bytes::new() })
    }

    /// A record of it was read.
    pub(in super::super) fn saw(&mut self, record: &Bytes) {
        self.first.get_or_insert_with(|| address(record));
        self.last = record.clone();
    }

    /// The file was read to its end: what does not fit its name, in words.
    pub(in super::super) fn differs(&self) -> Option<String> {
        let Blocks { strand, first, last } = &self.named;
        let expected = format!("expected the blocks {first} to {last} of strand {strand}, as its name says");
        let Some(begin) = &self.first else { return Some(format!("{expected}, found none")) };
        let fits = |found: Option<&Address>, number: u64| match found {
            None => Some("a first or last record that is no block".to_owned()),
            Some(found) if found.strand != *strand => Some(format!("one of strand {}", found.strand)),
            Some(found) if found.sequence != number => Some(format!("block {}", found.sequence)),
            Some(_) => None,
        };
        if let Some(found) = fits(begin.as_ref(), *first) {
            return Some(format!("{expected}, found at its beginning {found}"));
        }
        fits(address(&self.last).as_ref(), *last).map(|found| format!("{expected}, found at its end {found}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u64) -> Bytes {
        format!("{{blockAddress:{{strandId:\"s\",sequenceNo:{number}}},transactionId:\"t\",a:2020-01-01T}}").into()
    }

    fn differs(path: &str, records: &[Bytes]) -> Option<String> {
        let mut contents = Contents::of(path)?;
        records.iter().for_each(|record| contents.saw(record));
        contents.differs()
    }

    #[test]
    fn a_file_that_holds_what_its_name_says_fits_in_every_form() {
        let json = Bytes::from(r#"{"blockAddress":{"strandId":"s","sequenceNo":18446744073709551615},"a":"\ud83d\ude97"}"#);
        assert_eq!(differs("s.18446744073709551615-18446744073709551615.json", &[json]), None);
        assert_eq!(differs("x/s.3-5.ion", &[block(3), block(4), block(5)]), None);
        assert_eq!(differs("x/other.ion", &[block(3)]), None);
    }

    #[test]
    fn what_does_not_fit_the_name_is_said() {
        let said = |records: &[Bytes]| differs("s.3-5.ion", records).unwrap();
        assert!(said(&[]).ends_with("expected the blocks 3 to 5 of strand s, as its name says, found none"));
        assert!(said(&[block(3), block(4)]).ends_with("found at its end block 4"));
        assert!(said(&[block(2), block(5)]).ends_with("found at its beginning block 2"));
        assert!(said(&[block(3), Bytes::from("{a:1}")]).ends_with("found at its end a first or last record that is no block"));
        assert!(differs("r.3-3.ion", &[block(3)]).unwrap().ends_with("found at its beginning one of strand s"));
    }
}
