use proptest::prelude::*;

use super::*;
use crate::revision::{Cell, Cells};

type Column = (&'static str, u64, &'static str);

fn row(erased: Option<u64>, columns: &[Column]) -> Row {
    let cell = |(name, version, value): &Column| Cell { name: (*name).to_owned(), version: *version, value: (*value).into() };
    let mut row = Row::default();
    row.merge(&Cells { erased, columns: columns.iter().map(cell).collect() });
    row
}

fn judged(folded: &Row, held: &Row) -> Option<Judged> {
    judge_row(folded, Some(HeldRow { version: 7, row: Some(held) }), true)
}

#[test]
fn every_way_in_which_a_row_can_differ_has_its_class_and_what_mends_it() {
    use Class::{Ahead, Missing, Resurrected, Stale};
    use Mend::{Anew, Newest, Nothing};
    let folded = row(Some(2), &[("a", 5, "1"), ("b", 3, "442.30")]);
    let cases = [
        (row(Some(2), &[("a", 5, "1"), ("b", 3, "442.30")]), None),
        (row(Some(2), &[("a", 5, "1"), ("b", 3, "4423e-1")]), None),
        (row(Some(2), &[("a", 4, "1"), ("b", 3, "442.30")]), Some((Stale, Newest, false))),
        (row(Some(2), &[("a", 5, "1")]), Some((Stale, Newest, false))),
        (row(None, &[("a", 5, "1"), ("b", 3, "442.30")]), Some((Stale, Newest, false))),
        (row(None, &[("a", 5, "1"), ("b", 3, "442.30"), ("old", 2, "1")]), Some((Stale, Newest, false))),
        (row(Some(2), &[]), Some((Missing, Newest, false))),
        (row(Some(4), &[]), Some((Missing, Newest, false))),
        (row(Some(5), &[]), Some((Ahead, Nothing, false))),
        (row(Some(3), &[("a", 5, "1")]), Some((Ahead, Nothing, false))),
        (row(Some(2), &[("a", 6, "1"), ("b", 3, "442.30")]), Some((Ahead, Nothing, false))),
        (row(Some(2), &[("a", 5, "1"), ("b", 3, "442.30"), ("new", 3, "1")]), Some((Ahead, Nothing, false))),
        (row(Some(2), &[("a", 6, "1")]), Some((Stale, Newest, false))),
        (row(Some(2), &[("a", 5, "2"), ("b", 3, "442.30")]), Some((Stale, Anew(7), true))),
        (row(Some(2), &[("a", 5, "2")]), Some((Stale, Anew(7), false))),
        // What is newer is never written over.
        (row(Some(2), &[("a", 5, "2"), ("b", 4, "0")]), Some((Ahead, Nothing, false))),
        (row(None, &[("a", 5, "2"), ("b", 4, "0")]), Some((Stale, Newest, false))),
    ];
    for (held, expected) in cases {
        assert_eq!(judged(&folded, &held), expected, "{held:?}");
    }
    let gone = row(Some(6), &[]);
    assert_eq!(judged(&gone, &folded), Some((Resurrected, Newest, false)));
    assert_eq!(judged(&gone, &row(Some(5), &[])), Some((Stale, Newest, false)));
    assert_eq!(judged(&gone, &row(Some(6), &[("a", 8, "1")])), Some((Ahead, Nothing, false)));
    assert_eq!(judged(&gone, &row(None, &[("a", 8, "1")])), Some((Stale, Newest, false)));
    for any in [&folded, &gone] {
        assert_eq!(judge_row(any, None, true), Some((Missing, Newest, false)));
        assert_eq!(judge_row(any, Some(HeldRow { version: 3, row: None }), false), Some((Stale, Anew(3), true)));
    }
    let other = row(Some(2), &[("a", 5, "2"), ("b", 3, "442.30")]);
    assert_eq!(judge_row(&folded, Some(HeldRow { version: 7, row: Some(&other) }), false), None, "values are not looked at");
}

fn any_row() -> impl Strategy<Value = Row> {
    let columns =
        prop::collection::btree_map(prop::sample::select(vec!["a", "b", "c"]), (0..6u64, prop::sample::select(vec!["1", "2"])), 0..3);
    (prop::option::of(0..6u64), columns).prop_map(|(erased, columns)| {
        let columns: Vec<Column> = columns.into_iter().map(|(name, (version, value))| (name, version, value)).collect();
        row(erased, &columns)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn what_mends_a_row_leaves_it_equal_or_ahead_and_loses_nothing_newer(folded in any_row(), held in any_row()) {
        let mended = match judged(&folded, &held) {
            None => {
                prop_assert_eq!(&folded, &held);
                return Ok(());
            }
            Some((Class::Ahead, mend, _)) => {
                prop_assert_eq!(mend, Mend::Nothing);
                return Ok(());
            }
            Some((_, Mend::Newest, _)) => {
                let mut mended = held.clone();
                mended.merge(&folded.change());
                mended
            }
            Some((_, Mend::Anew(_), _)) => folded.clone(),
            other => panic!("{other:?}"),
        };
        prop_assert!(!lacks(&mended, &held), "{:?}", mended);
        prop_assert!(!lacks(&mended, &folded), "{:?}", mended);
        let left = judged(&folded, &mended).map(|(class, ..)| class);
        prop_assert!(matches!(left, None | Some(Class::Ahead)), "{:?}", left);
    }
}
