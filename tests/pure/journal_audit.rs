//! Ledgers as they should be, and ledgers that somebody changed.

use revsync::codec::{Content, Decoder, Options};
use revsync::metrics::Notes;

use crate::ledger::{Kind, Ledger, OUTPUTS};
use crate::qldb_stream::{record, shard};

#[test]
fn the_hashes_of_a_generated_ledger_are_those_that_the_decoder_expects() {
    let ledger = Ledger::new(3, 200);
    let mut decoder = Decoder::new(Options { verify_hashes: true, ..Options::default() });
    let (origin, mut units, mut notes) = (shard("0"), Vec::new(), Notes::default());
    for (data, offset) in ledger.stream().into_iter().zip(0..) {
        decoder.decode(&record(&origin, offset, data.into()), &mut units, &mut notes);
    }
    let count = |wanted: fn(&Kind) -> bool| ledger.revisions().filter(|revision| wanted(&revision.kind)).count() as u64;
    let deletes = count(|kind| *kind == Kind::Delete);
    assert!(deletes > 0 && count(|kind| *kind == Kind::Redacted) == 1);
    assert_eq!((notes.hashes_mismatched, notes.hashes_unchecked), (0, deletes));
    assert_eq!(notes.hashes_verified + deletes, ledger.revisions().count() as u64);
    let faults: Vec<_> = units.iter().filter(|unit| matches!(unit.content, Content::Fault(_))).collect();
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn an_export_has_a_manifest_that_names_its_files() {
    let ledger = Ledger::new(4, 40);
    for output in OUTPUTS {
        let folder = tempfile::tempdir().unwrap();
        let files = ledger.export(folder.path(), output, 7);
        assert_eq!(files.len(), 6, "{output:?}");
        assert!(files.iter().all(|file| file.is_file()));
    }
}
