use proptest::prelude::*;

use super::*;
use crate::plan::checkpoint::Begin;

const AFTER: u64 = 30_000;

fn owner(session: &str) -> Owner {
    Owner { name: format!("worker {session}"), session: session.to_owned(), takeover_after: AFTER }
}

fn checkpoint(since: u64) -> Checkpoint {
    Checkpoint { progress: Progress::Begins(Begin::Latest { since }), covered: None, targets: BTreeMap::new() }
}

fn row(session: Option<&str>, epoch: u64) -> Row {
    Row { owner: session.map(owner), epoch, heartbeat: 0, checkpoint: checkpoint(0) }
}

fn stamp(number: u64) -> Stamp {
    Stamp { number, term: 1 }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A register that has seen these rows once, at time 0.
fn seen(rows: &[(&str, u64, Row)]) -> Register {
    let mut register = Register::new(owner("me"));
    see(&mut register, rows, 0);
    register
}

fn see(register: &mut Register, rows: &[(&str, u64, Row)], at: u64) {
    register.see(rows.iter().map(|(shard, number, row)| ((*shard).to_owned(), stamp(*number), row.clone())).collect(), seconds(at));
}

fn held(register: &Register, shard: &str) -> Option<Held> {
    register.rows().find(|(name, ..)| *name == shard).map(|(.., held)| held)
}

fn wanted(shards: &[&str]) -> Vec<(String, Checkpoint)> {
    shards.iter().map(|shard| ((*shard).to_owned(), checkpoint(9))).collect()
}

/// Takes a shard of which nothing is stored.
fn took(register: &mut Register, shard: &str, number: u64) -> Draft {
    let mut drafts = register.taking(&wanted(&[shard]), 5);
    let draft = drafts.remove(0);
    register.wrote(draft.clone(), stamp(number));
    draft
}

fn others() -> Held {
    Held::Other { owner: "worker other".to_owned() }
}

#[test]
fn a_shard_of_another_is_free_once_it_was_let_go() {
    let register = seen(&[("a", 1, row(Some("other"), 1)), ("b", 1, row(None, 1))]);
    assert_eq!((held(&register, "a"), held(&register, "b"), held(&register, "c")), (Some(others()), Some(Held::Free), None));
    let drafts = register.taking(&wanted(&["a", "b", "c"]), 5);
    let taken: Vec<_> = drafts.iter().map(|draft| (draft.shard.as_str(), draft.expect, draft.row.as_ref().unwrap().epoch)).collect();
    assert_eq!(taken, [("b", Some(stamp(1)), 2), ("c", None, 1)]);
    assert!(drafts.iter().all(|draft| draft.row.as_ref().unwrap().owner == Some(owner("me"))));
}

#[test]
fn a_shard_is_free_after_its_row_was_seen_not_to_change_for_long_enough() {
    let rows = [("a", 1, row(Some("other"), 1))];
    let mut register = seen(&rows);
    for at in [10, 20, 29] {
        see(&mut register, &rows, at);
        assert_eq!(held(&register, "a"), Some(others()), "{at}");
    }
    see(&mut register, &rows, 30);
    assert_eq!(held(&register, "a"), Some(Held::Free));
    see(&mut register, &[("a", 2, row(Some("other"), 1))], 31);
    assert_eq!(held(&register, "a"), Some(others()), "a heartbeat begins the silence anew");
}

#[test]
fn the_longer_silence_of_both_counts() {
    let patient = Owner { takeover_after: 2 * AFTER, ..owner("other") };
    let rows = [("a", 1, Row { owner: Some(patient), ..row(None, 1) })];
    let mut register = seen(&rows);
    for at in [10, 20, 30, 40, 50] {
        see(&mut register, &rows, at);
        assert_eq!(held(&register, "a"), Some(others()), "{at}");
    }
    see(&mut register, &rows, 60);
    assert_eq!(held(&register, "a"), Some(Held::Free));
}

#[test]
fn nobody_is_silent_while_the_rows_could_not_be_read() {
    let rows = [("a", 1, row(Some("other"), 1))];
    let mut register = seen(&rows);
    see(&mut register, &rows, 3_600);
    assert_eq!(held(&register, "a"), Some(others()), "it could not write either");
    see(&mut register, &rows, 3_615);
    assert_eq!(held(&register, "a"), Some(Held::Free), "and had time to since");
}

#[test]
fn what_is_taken_is_ours_and_every_save_keeps_all_of_it() {
    let mut register = seen(&[("other", 7, row(Some("other"), 1))]);
    took(&mut register, "a", 10);
    took(&mut register, "b", 11);
    let drafts = register.saving(&[("a".to_owned(), checkpoint(77)), ("other".to_owned(), checkpoint(78))], 6);
    let saved: Vec<_> = drafts.iter().map(|draft| (draft.shard.as_str(), draft.expect, draft.row.clone().unwrap())).collect();
    let mine = |since| Row { owner: Some(owner("me")), epoch: 1, heartbeat: 6, checkpoint: checkpoint(since) };
    assert_eq!(saved, [("a", Some(stamp(10)), mine(77)), ("b", Some(stamp(11)), mine(9))]);
}

#[test]
fn a_row_that_another_took_or_somebody_removed_is_lost_and_said_once() {
    let mut register = seen(&[]);
    for (shard, number) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
        took(&mut register, shard, number);
    }
    let mine = register.saving(&[], 6).remove(3).row.unwrap();
    // Of b the owner changed, of c the epoch, a is gone; d was only written by a save whose answer was lost.
    let rewound = Row { owner: Some(owner("me")), epoch: 2, ..mine.clone() };
    see(&mut register, &[("b", 9, row(Some("other"), 2)), ("c", 9, rewound), ("d", 9, mine)], 1);
    assert_eq!(held(&register, "d"), Some(Held::Mine));
    assert_eq!(register.take_lost(std::iter::empty()), ["a", "b", "c"]);
    assert_eq!(register.take_lost(std::iter::empty()), [] as [String; 0]);
    assert_eq!(register.take_lost(["b", "d"].into_iter()), ["b"], "and again to whoever still believes it");
    assert_eq!(register.saving(&[], 7)[0].expect, Some(stamp(9)), "the next save begins with what is there");
}

#[test]
fn a_shard_whose_taking_was_not_answered_is_free_for_us_and_held_for_others() {
    let mut register = seen(&[]);
    let draft = register.taking(&wanted(&["a"]), 5).remove(0);
    see(&mut register, &[("a", 1, draft.row.clone().unwrap())], 1);
    assert_eq!(held(&register, "a"), Some(Held::Free));
    let again = register.taking(&wanted(&["a"]), 6).remove(0);
    assert_eq!((again.expect, again.row.unwrap().epoch), (Some(stamp(1)), 2));
    // Or it turns out at once, because the same was tried again.
    register.adopt(&draft);
    assert_eq!(held(&register, "a"), Some(Held::Mine));
}

#[test]
fn what_another_took_is_not_adopted() {
    let mut register = seen(&[]);
    let draft = register.taking(&wanted(&["a"]), 5).remove(0);
    see(&mut register, &[("a", 1, row(Some("other"), 1))], 1);
    register.adopt(&draft);
    assert_eq!(held(&register, "a"), Some(others()));
    let of_old = Row { epoch: 7, ..draft.row.clone().unwrap() };
    see(&mut register, &[("a", 2, of_old)], 2);
    register.adopt(&draft);
    assert_eq!(held(&register, "a"), Some(Held::Free), "another epoch");
}

#[test]
fn what_is_let_go_keeps_its_epoch_and_its_checkpoint() {
    let mut register = seen(&[]);
    took(&mut register, "a", 1);
    let draft = register.releasing(8).remove(0);
    assert_eq!(draft.row, Some(Row { owner: None, epoch: 1, heartbeat: 8, checkpoint: checkpoint(9) }));
    register.wrote(draft, stamp(2));
    assert_eq!(held(&register, "a"), Some(Held::Free));
    assert_eq!(register.take_lost(std::iter::empty()), [] as [String; 0]);
}

#[test]
fn rows_of_others_are_not_removed() {
    let mut register = seen(&[("a", 1, row(Some("other"), 1)), ("b", 2, row(None, 1))]);
    took(&mut register, "c", 3);
    let drafts = register.removing(&["a", "b", "c", "d"].map(str::to_owned));
    let removed: Vec<_> = drafts.iter().map(|draft| (draft.shard.as_str(), draft.expect, &draft.row)).collect();
    assert_eq!(removed, [("b", Some(stamp(2)), &None), ("c", Some(stamp(3)), &None)]);
    for draft in drafts {
        register.wrote(draft, stamp(0));
    }
    assert_eq!((held(&register, "b"), held(&register, "c")), (None, None));
}

#[test]
fn a_rewound_row_is_nobodys_and_knows_no_index() {
    let before = Row {
        checkpoint: Checkpoint { covered: Some(3), targets: [("a".into(), "b".into())].into(), ..checkpoint(1) },
        ..row(Some("x"), 4)
    };
    let after = before.rewound(Progress::Begins(Begin::Earliest), 8);
    let checkpoint = Checkpoint { progress: Progress::Begins(Begin::Earliest), covered: None, targets: BTreeMap::new() };
    assert_eq!(after, Row { owner: None, epoch: 5, heartbeat: 8, checkpoint });
    assert!(before.is_recent(AFTER - 1) && !before.is_recent(AFTER) && !after.is_recent(9));
    assert!(Row { heartbeat: 50_000, ..before }.is_recent(1), "its clock is ahead");
}

proptest! {
    #[test]
    fn nobody_takes_over_before_the_silence_is_over_however_often_it_looks(gaps in proptest::collection::vec(0_u64..40_000, 1..40)) {
        let rows = vec![("a".to_owned(), stamp(1), row(Some("other"), 1))];
        let mut register = Register::new(owner("me"));
        let mut now = Duration::ZERO;
        register.see(rows.clone(), now);
        let mut looks = 0;
        for gap in gaps {
            now += Duration::from_millis(gap);
            looks += 1;
            register.see(rows.clone(), now);
            let free = held(&register, "a") == Some(Held::Free);
            prop_assert!(!free || now >= Duration::from_millis(AFTER) && looks >= 2, "free after {now:?} and {looks} looks");
        }
    }

    #[test]
    fn who_looks_often_enough_takes_over_within_the_silence_and_one_look(gaps in proptest::collection::vec(1_u64..=AFTER / 2, 80..90)) {
        let rows = vec![("a".to_owned(), stamp(1), row(Some("other"), 1))];
        let mut register = Register::new(owner("me"));
        let mut now = Duration::ZERO;
        register.see(rows.clone(), now);
        for gap in gaps {
            now += Duration::from_millis(gap);
            register.see(rows.clone(), now);
            prop_assert_eq!(held(&register, "a") == Some(Held::Free), now >= Duration::from_millis(AFTER), "after {:?}", now);
        }
    }

    #[test]
    fn no_draft_touches_what_another_holds(
        rows in proptest::collection::btree_map("[a-f]", (0_u64..9, proptest::option::of(0_usize..3), 0_u64..5), 0..6),
        shards in proptest::collection::vec("[a-h]", 0..8),
        at in 0_u64..100,
    ) {
        let sessions = ["me", "other", "third"];
        let found: Vec<(String, Stamp, Row)> = rows.iter()
            .map(|(shard, (number, owner, epoch))| (shard.clone(), stamp(*number), row(owner.map(|owner| sessions[owner]), *epoch)))
            .collect();
        let mut register = Register::new(owner("me"));
        register.see(found.clone(), seconds(0));
        register.see(found.clone(), seconds(at));
        let wanted: Vec<(String, Checkpoint)> = shards.iter().map(|shard| (shard.clone(), checkpoint(1))).collect();
        let drafts = [register.taking(&wanted, 1), register.removing(&shards), register.saving(&wanted, 1), register.releasing(1)].concat();
        for draft in drafts {
            let there = found.iter().find(|(shard, ..)| *shard == draft.shard);
            prop_assert_eq!(draft.expect, there.map(|(_, stamp, _)| *stamp), "every draft names the state that was seen");
            if let Some((_, _, there)) = there {
                let of_another = there.owner.as_ref().is_some_and(|owner| owner.session != "me");
                prop_assert!(!of_another, "{} of another, seen for {} s", draft.shard, at);
                prop_assert!(draft.row.is_none_or(|row| row.epoch == there.epoch + 1));
            }
        }
    }
}
