use super::*;
use crate::codec::audit::{Block, Proof, Summary};
use crate::plan::journal::chain::Walk;

fn hash(byte: u8) -> Hash {
    Hash::new([byte; 32])
}

fn address(sequence: u64) -> Address {
    Address { strand: "S".to_owned(), sequence }
}

/// A block with these revisions of documents.
fn link(sequence: u64, revisions: &[u8]) -> Link {
    let block = Block {
        address: address(sequence),
        hash: None,
        entries_hash: None,
        previous: None,
        entries: None,
        info: None,
        without_revision: 0,
        summaries: revisions.iter().map(|byte| Summary { hash: Some(hash(*byte)), is_document: true }).collect(),
        revisions: Vec::new(),
    };
    Link { address: block.address.clone(), hash: Some(hash(100)), previous: Some(hash(101)), expected: Expected::of(&block) }
}

fn revision(sequence: u64, byte: u8) -> Revision {
    Revision {
        address: address(sequence),
        id: format!("d{byte}"),
        version: 0,
        is_elsewhere: false,
        hash: Some(hash(byte)),
        proof: Proof::Holds,
    }
}

fn walked(journal: &Journal) -> Walk {
    let mut walk = Walk::new(None);
    journal
        .walk(|link| {
            walk.step(link);
            Ok(())
        })
        .unwrap();
    walk.end();
    walk
}

#[test]
fn blocks_and_revisions_find_each_other_in_any_order_and_more_than_once() {
    let mut journal = Journal::open(0).unwrap();
    journal.take_revision(&revision(1, 1)).unwrap();
    journal.take_revision(&revision(1, 1)).unwrap();
    assert_eq!(journal.orphans(None).unwrap().count, 1);
    journal.take_block(link(1, &[1, 2])).unwrap();
    assert_eq!((journal.orphans(None).unwrap().count, walked(&journal).incomplete.count), (0, 1));
    journal.take_block(link(1, &[1, 2])).unwrap();
    journal.take_revision(&revision(1, 2)).unwrap();
    journal.take_revision(&revision(1, 1)).unwrap();
    let walk = walked(&journal);
    assert_eq!((walk.incomplete.count, walk.tally.whole, walk.blocks), (0, 2, 1));
    assert_eq!(journal.findings(|_| true, None).unwrap().count, 0);
}

#[test]
fn a_revision_that_its_block_does_not_have_is_found_whichever_comes_first() {
    for block_first in [true, false] {
        let mut journal = Journal::open(0).unwrap();
        if block_first {
            journal.take_block(link(1, &[1])).unwrap();
        }
        journal.take_revision(&revision(1, 7)).unwrap();
        journal.take_block(link(1, &[1])).unwrap();
        let found = journal.findings(|_| true, None).unwrap();
        let [finding] = found.first.as_slice() else { panic!("{found:?}") };
        let expected = Finding::of_revision(&address(1), ("d7", 0), Verdict::Broken(Check::RevisionListed));
        assert_eq!(*finding, Finding { found: Some(hash(7)), ..expected });
    }
}

#[test]
fn two_different_blocks_of_one_address_are_found_once() {
    let mut journal = Journal::open(0).unwrap();
    journal.take_block(link(1, &[1])).unwrap();
    for _ in 0..2 {
        journal.take_block(Link { hash: Some(hash(9)), ..link(1, &[1]) }).unwrap();
    }
    let found = journal.findings(|_| true, Some(0)).unwrap();
    assert_eq!((found.count, found.first.len()), (1, 0));
}

#[test]
fn findings_come_in_the_order_of_the_journal() {
    let journal = Journal::open(0).unwrap();
    for (sequence, verdict) in
        [(5, Verdict::Open(Open::TypesLost)), (3, Verdict::Broken(Check::BlockHash)), (3, Verdict::Broken(Check::RevisionHash))]
    {
        journal.find(&Finding::of_block(&address(sequence), verdict)).unwrap();
    }
    let found = journal.findings(|_| true, None).unwrap();
    let verdicts: Vec<_> = found.first.iter().map(|finding| finding.verdict).collect();
    let expected = [Verdict::Broken(Check::RevisionHash), Verdict::Broken(Check::BlockHash), Verdict::Open(Open::TypesLost)];
    assert_eq!(verdicts, expected);
    assert_eq!(journal.findings(|verdict| matches!(verdict, Verdict::Open(_)), None).unwrap().count, 1);
}
