use super::chain::{Link, Walk};
use super::expected::Expected;
use super::*;
use crate::codec::audit::Summary;

fn hash(byte: u8) -> Hash {
    Hash::new([byte; 32])
}

fn address(strand: &str, sequence: u64) -> Address {
    Address { strand: strand.to_owned(), sequence }
}

/// A block whose hashes are right.
fn block() -> Block {
    let (info, revision, system, previous) = (hash(1), hash(2), hash(3), hash(4));
    let entries = vec![info.clone(), merkle([revision.clone(), system.clone()]), hash(5), Hash::default()];
    let root = merkle(entries.clone());
    Block {
        address: address("S", 7),
        hash: Some(dot(&root, &previous)),
        entries_hash: Some(root),
        previous: Some(previous),
        entries: Some(entries),
        info: Some(info),
        without_revision: 0,
        summaries: vec![Summary { hash: Some(revision), is_document: true }, Summary { hash: Some(system), is_document: false }],
        revisions: Vec::new(),
    }
}

fn verdicts(block: &Block) -> Vec<Verdict> {
    let mut found = Vec::new();
    check_block(block, |finding| found.push(finding.verdict));
    found
}

#[test]
fn a_block_whose_hashes_follow_from_each_other_is_as_it_should_be() {
    assert_eq!(verdicts(&block()), []);
}

#[test]
fn each_check_of_a_block_fails_by_itself() {
    use Verdict::{Broken, Open as Left};
    let good = block();
    let with = |change: &dyn Fn(&mut Block)| {
        let mut block = good.clone();
        change(&mut block);
        verdicts(&block)
    };
    assert_eq!(with(&|block| block.info = Some(hash(9))), [Broken(Check::TransactionInfo)]);
    assert_eq!(with(&|block| block.summaries.swap_remove(1).hash = None), [Broken(Check::Revisions)]);
    assert_eq!(with(&|block| block.summaries[0].hash = None), [Broken(Check::Revisions)]);
    assert_eq!(with(&|block| block.previous = Some(hash(9))), [Broken(Check::BlockHash)]);
    assert_eq!(with(&|block| block.hash = Some(hash(9))), [Broken(Check::BlockHash)]);
    assert_eq!(with(&|block| block.entries_hash = Some(hash(9))), [Broken(Check::EntriesHash), Broken(Check::BlockHash)]);
    assert_eq!(with(&|block| block.entries.as_mut().unwrap()[2] = hash(9)), [Broken(Check::EntriesHash)]);
    assert_eq!(with(&|block| block.info = None), [Left(Open::NoTransactionInfo)]);
    let dropped = |block: &mut Block| {
        block.summaries.clear();
        block.without_revision = 1;
    };
    assert_eq!(with(&dropped), [Left(Open::NoRevisions)]);
    assert_eq!(with(&|block| block.without_revision = 1), [Left(Open::NoRevisions)]);
    assert_eq!(with(&|block| block.hash = None), [Left(Open::NoHashes)]);
    assert_eq!(with(&|block| block.entries = None), [Left(Open::NoHashes)]);
}

#[test]
fn that_a_block_lacks_revisions_is_seen_without_a_hash() {
    let lacks = |change: &dyn Fn(&mut Block)| {
        let mut block = Block { info: None, ..block() };
        change(&mut block);
        let mut found = 0;
        check_presence(&block, |_| found += 1);
        found == 1
    };
    assert!(!lacks(&|_| ()) && lacks(&|block| block.without_revision = 1));
    let bare = |entries: Option<Vec<Hash>>| {
        lacks(&|block| {
            block.summaries.clear();
            (block.without_revision, block.entries) = (1, entries.clone());
        })
    };
    assert!(bare(None) && bare(Some(vec![hash(1), hash(2)])) && !bare(Some(vec![hash(1), Hash::default()])));
}

#[test]
fn what_a_block_never_had_leaves_nothing_open() {
    let only = |entries: Vec<Hash>, info: Option<Hash>, summaries: Vec<Summary>| {
        let (root, previous) = (merkle(entries.clone()), hash(4));
        let hash = Some(dot(&root, &previous));
        let without_revision = u64::from(summaries.is_empty());
        let entries = Some(entries);
        let block =
            Block { hash, entries_hash: Some(root), previous: Some(previous), entries, info, summaries, without_revision, ..block() };
        verdicts(&block)
    };
    let summary = Summary { hash: Some(hash(2)), is_document: true };
    assert_eq!(only(vec![hash(2), Hash::default()], None, vec![summary.clone()]), []);
    assert_eq!(only(vec![hash(1)], Some(hash(1)), Vec::new()), []);
    assert_eq!(only(vec![hash(2), hash(1)], None, vec![summary]), [Verdict::Open(Open::NoTransactionInfo)]);
}

#[test]
fn blocks_make_runs_and_what_is_between_them_is_missing() {
    let mut walk = Walk::new(Some(1));
    for (strand, sequence) in [("A", 3), ("A", 4), ("A", 7), ("A", 9), ("B", 0)] {
        let link = Link {
            address: address(strand, sequence),
            hash: Some(hash(sequence as u8)),
            previous: Some(hash((sequence as u8).wrapping_sub(1))),
            expected: Expected::default(),
        };
        assert_eq!(walk.step(link), None, "{strand} {sequence}");
    }
    walk.end();
    let [first] = walk.strands.first.as_slice() else { panic!("{walk:?}") };
    assert_eq!((first.first, first.last, first.blocks, first.links), (3, 9, 4, 1));
    assert_eq!((first.missing_blocks, first.missing.count, first.missing.first.as_slice()), (3, 2, &[(5, 6)][..]));
    assert_eq!((walk.strands.count, walk.blocks, walk.missing), (2, 5, 3));
}

#[test]
fn a_block_that_does_not_go_on_from_the_one_before_is_told() {
    let mut walk = Walk::new(None);
    let link = |sequence, byte, previous| Link {
        address: address("S", sequence),
        hash: Some(hash(byte)),
        previous: Some(hash(previous)),
        expected: Expected::default(),
    };
    assert_eq!(walk.step(link(0, 1, 0)), None);
    let finding = walk.step(link(1, 2, 9)).unwrap();
    assert_eq!((finding.address.sequence, finding.verdict), (1, Verdict::Broken(Check::PreviousBlockHash)));
    assert_eq!((finding.expected, finding.found), (Some(hash(9)), Some(hash(1))));
    assert_eq!(walk.step(link(2, 3, 2)), None);
}

#[test]
fn however_many_blocks_are_missing_they_are_counted_without_an_end() {
    let mut walk = Walk::new(Some(1));
    for strand in ["A", "B", "C"] {
        for sequence in [0, crate::revision::MAX_VERSION] {
            walk.step(Link { address: address(strand, sequence), hash: None, previous: None, expected: Expected::default() });
        }
    }
    assert_eq!(walk.missing, u64::MAX);
}
