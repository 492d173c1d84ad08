//! A child that is killed at any moment: what it left comes again to the next one, and in the end the index holds the newest revisions.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use crate::command::Folder;
use crate::dice::Dice;
use crate::kcl::{Child, Handed, Lease};
use crate::qldb_stream::{Does, put};
use crate::scripted_opensearch::{Fate, Scripted, Step};
use crate::{SHARD, kcl_command, person, versions};

/// A shard of random revisions, some of them in aggregates, and what they come to.
fn shard(dice: &mut Dice) -> (Vec<Handed>, BTreeMap<String, u64>) {
    let (mut records, mut newest): (Vec<Handed>, BTreeMap<String, (u64, bool)>) = (Vec::new(), BTreeMap::new());
    for number in 1..=dice.between(20, 60) as u64 {
        let parts = if dice.percent(30) { dice.between(2, 6) as u64 } else { 1 };
        for sub in 0..parts {
            let (id, version) = (dice.below(12).to_string(), dice.below(40) as u64);
            // A revision is the same whenever it comes.
            let does = if version % 7 == 6 { Does::Delete } else { put(&format!("{id} at {version}")) };
            records.push(Handed { number, sub, data: person(&id, version, &does) });
            let held = newest.entry(id).or_insert((version, false));
            if version >= held.0 {
                *held = (version, does != Does::Delete);
            }
        }
    }
    (records, newest.into_iter().filter_map(|(id, (version, is_there))| is_there.then_some((id, version))).collect())
}

/// What goes wrong with the next requests.
fn faults(dice: &mut Dice) -> Vec<Step> {
    let fault = |dice: &mut Dice| match dice.below(8) {
        0 => Step::status(429, "slow down"),
        1 => Step::status(503, "down"),
        2 => Step::after_writing(Fate::Drop),
        3 => Step::without_writing(Fate::Drop),
        4 => Step::reject(0, 429, "circuit_breaking_exception", "slow down"),
        5 | 6 => Step::without_writing(Fate::Hang),
        _ => Step::proper(),
    };
    (0..dice.below(10)).map(|_| fault(dice)).collect()
}

/// Lets a child work on the shard from its checkpoint on; kills it after so many pages, at any moment of the last one. Whether it came to the
/// end before.
fn live(child: &mut Child, records: &[Handed], pages: usize, dice: &mut Dice, lease: &mut Lease) -> bool {
    child.initialize(SHARD, lease);
    let mut rest: Vec<Handed> = records.iter().filter(|record| Some((record.number, record.sub)) > lease.at).cloned().collect();
    for page in 0.. {
        let mut size = dice.between(1, 20).min(rest.len());
        // A record is handed over as a whole.
        while size > 0 && rest.get(size).is_some_and(|next| next.number == rest[size - 1].number) {
            size += 1;
        }
        let handed: Vec<Handed> = rest.drain(..size).collect();
        let behind = if rest.is_empty() || dice.percent(30) { 0 } else { 60_000 };
        if page == pages {
            child.send_records(&handed, behind, lease);
            sleep(Duration::from_micros(dice.below(20_000) as u64));
            // What it asked for in time is taken.
            return false;
        }
        if dice.percent(20) {
            let exceptions = ["ThrottlingException", "KinesisClientLibDependencyException", "InvalidStateException"];
            lease.fails.push_back(exceptions[dice.below(exceptions.len())]);
        }
        child.process(&handed, behind, lease);
        if rest.is_empty() {
            child.request("shardEnded", lease);
            return lease.ended;
        }
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_is_killed_at_any_moment_leaves_nothing_undone() {
    let seeds = if std::env::var_os("REVSYNC_TEST_LONG").is_some() { 0..200 } else { 0..12 };
    for seed in seeds {
        let mut dice = Dice::new(seed);
        let (server, folder, mut lease) = (Scripted::start().await, Folder::new(), Lease::default());
        let (records, expected) = shard(&mut dice);
        let mut lives = 0;
        while !lease.ended {
            lives += 1;
            // The last one may live as long as it likes.
            let pages = if lives > 6 { usize::MAX } else { dice.below(5) };
            server.script(faults(&mut dice));
            // Small requests, so that some are answered while others are not.
            let small = ["--request-operations", "3", "--request-timeout", "400ms"];
            let mut child = Child::start(kcl_command(&folder, &server.url(), &small));
            let before = lease.at;
            let ended = live(&mut child, &records, pages, &mut dice, &mut lease);
            assert!(lease.at >= before, "seed {seed}: the checkpoint went back");
            if ended {
                assert_eq!(child.close().exit, 0, "seed {seed}");
            } else {
                child.kill();
            }
        }
        assert_eq!(versions(&server), expected, "seed {seed}, {lives} lives");
        let documents = server.documents("person");
        let source = |id: &str, version: u64| format!("{{\"note\":\"{id} at {version}\"}}");
        assert!(documents.iter().all(|(id, (version, found))| *found == source(id, *version)), "seed {seed}: {documents:?}");
    }
}
