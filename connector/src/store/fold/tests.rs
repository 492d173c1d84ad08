use super::differences::Difference;
use super::*;
use crate::plan::fold::{Class, Mend};
use crate::record::Header;
use crate::revision::VersionType::{External, ExternalGte};
use crate::revision::{Cell, Cells as Changes};

fn saying<'a>(index: &'a Arc<str>, id: &'a str, said: Said, version: u64) -> Saying<'a> {
    Saying { index, id, routing: None, said, version, version_type: External, content: None }
}

fn unit(payload: &str) -> Unit {
    Unit {
        origin: Arc::new(Origin { stream: "ledger".into(), shard: "0".into() }),
        position: Position::Byte { offset: 7 },
        unit: 3,
        part: 1,
        payload: Bytes::copy_from_slice(payload.as_bytes()),
        message: None,
    }
}

fn never() -> Unit {
    panic!("the unit is not to be kept")
}

const DOCUMENT: Said = Said::Is(State::Document);
const DELETED: Said = Said::Is(State::Deleted);

#[test]
fn the_fold_is_what_the_plan_says_it_is_whatever_was_folded_before() {
    let mut fold = Fold::open(1 << 20, Keeps::Nothing).unwrap();
    let (one, two): (Arc<str>, Arc<str>) = ("one".into(), "two".into());
    for (index, id, said, version) in [
        (&one, "a", DOCUMENT, 4),
        (&two, "a", DELETED, 9),
        (&one, "a", Said::Redacted, 2),
        (&one, "a", DOCUMENT, 3),
        (&one, "a", Said::Redacted, 1),
        (&one, "b", Said::Redacted, 5),
        (&one, "b", DOCUMENT, 5),
        (&one, "c", Said::Nothing, 5),
    ] {
        fold.take(&saying(index, id, said, version), never).unwrap();
    }
    let folded = |index, id| fold.known(index, id).unwrap().map(|known| known.folded);
    let newest = |version, state| Some(Newest { version, state });
    assert_eq!(folded(0, "a"), Some(Folded { newest: newest(4, State::Document), redacted: vec![1, 2] }));
    assert_eq!(folded(1, "a"), Some(Folded { newest: newest(9, State::Deleted), redacted: vec![] }));
    assert_eq!(folded(0, "b"), Some(Folded { newest: None, redacted: vec![5] }));
    assert_eq!((folded(0, "c"), folded(1, "b")), (Some(Folded::default()), None));
    assert_eq!((fold.indices(), fold.documents().unwrap()), (&[one, two][..], 1));
    assert_eq!((fold.deleted(0, "", 9).unwrap(), fold.deleted(1, "", 9).unwrap()), (vec![], vec!["a".to_owned()]));
}

#[test]
fn a_document_of_very_many_redacted_revisions_takes_no_time_that_grows_with_each() {
    let mut fold = Fold::open(1 << 20, Keeps::Places).unwrap();
    let index: Arc<str> = "one".into();
    let started = std::time::Instant::now();
    fold.together(|fold| (0..30_000).try_for_each(|version| fold.take(&saying(&index, "a", Said::Redacted, version), never))).unwrap();
    fold.take(&saying(&index, "a", DOCUMENT, 30_000), || unit("")).unwrap();
    fold.take(&saying(&index, "a", DOCUMENT, 29_999), never).unwrap();
    // Where each looks through all before it, it is minutes.
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
    assert_eq!(fold.known(0, "a").unwrap().unwrap().folded.redacted.len(), 30_000);
}

#[test]
fn the_unit_and_the_content_of_the_revision_that_stands_are_kept() {
    let mut fold = Fold::open(1 << 20, Keeps::Units).unwrap();
    let index: Arc<str> = "shop".into();
    let take = |fold: &mut Fold, version, version_type, payload: &str, content| {
        let saying = Saying { version_type, content: Some([content; 16]), routing: Some("r"), ..saying(&index, "a", DOCUMENT, version) };
        fold.take(&saying, || unit(payload)).unwrap();
        (fold.unit(0, "a").unwrap().unwrap().payload, fold.known(0, "a").unwrap().unwrap().content.unwrap()[0])
    };
    assert_eq!(take(&mut fold, 4, External, "first", 1), (Bytes::from("first"), 1));
    assert_eq!(take(&mut fold, 4, External, "again", 2), (Bytes::from("first"), 1));
    assert_eq!(take(&mut fold, 3, External, "older", 3), (Bytes::from("first"), 1));
    assert_eq!(take(&mut fold, 4, ExternalGte, "tie", 4), (Bytes::from("tie"), 4));
    assert_eq!(take(&mut fold, 9, External, "a longer one, which needs more room", 5).1, 5);
    assert_eq!(fold.known(0, "a").unwrap().unwrap().routing.as_deref(), Some("r"));
    let message =
        Message { key: Some(Bytes::from_static(b"\xff")), headers: vec![Header { name: "h".into(), value: None }], is_null: false };
    let whole = Unit { message: Some(Arc::new(message)), ..unit("with a key") };
    fold.take(&saying(&index, "b", DELETED, 1), || whole.clone()).unwrap();
    assert_eq!(fold.unit(0, "b").unwrap(), Some(whole));
    assert_eq!(fold.unit(0, "c").unwrap(), None);
}

#[test]
fn a_row_is_what_its_changes_come_to() {
    let mut fold = Fold::open(1 << 20, Keeps::Units).unwrap();
    let index: Arc<str> = "item".into();
    let cell = |name: &str, version, value: &'static str| Cell { name: name.to_owned(), version, value: value.into() };
    fold.take(&saying(&index, "a", Said::Nothing, 1), never).unwrap();
    assert!(!fold.has_rows(0));
    let mut expected = Cells::default();
    for change in [
        Changes { erased: None, columns: vec![cell("b", 4, "442.30"), cell("c", 2, "1")] },
        Changes { erased: Some(3), columns: vec![] },
        Changes { erased: None, columns: vec![cell("b", 3, "1"), cell("d", 7, "{\"e\":[null]}")] },
    ] {
        expected.merge(&change);
        fold.take_cells(&index, "a", Some("r"), &change).unwrap();
    }
    fold.take_cells(&index, "gone", None, &Changes { erased: Some(9), columns: vec![] }).unwrap();
    fold.take_cells(&index, "bare", None, &Changes::default()).unwrap();
    fold.take(&saying(&index, "a", Said::Nothing, 8), never).unwrap();
    let known = fold.known(0, "a").unwrap().unwrap();
    assert_eq!((known.row, known.folded.version()), (Some(expected), Some(7)));
    assert_eq!((fold.has_rows(0), fold.documents().unwrap(), fold.deleted(0, "", 9).unwrap()), (true, 1, vec![]));
    let rows: Vec<_> = fold.unseen(0, 1, "", 9).unwrap().into_iter().map(|(id, known)| (id, known.row.unwrap().erased)).collect();
    assert_eq!(rows, [("a".to_owned(), Some(3)), ("bare".to_owned(), None), ("gone".to_owned(), Some(9))]);
}

#[test]
fn what_was_not_seen_in_a_comparison_comes_page_by_page() {
    let mut fold = Fold::open(1 << 20, Keeps::Nothing).unwrap();
    let index: Arc<str> = "shop".into();
    for number in 0..10 {
        fold.take(&saying(&index, &format!("id-{number}"), DOCUMENT, number), never).unwrap();
    }
    for seen in [1, 4, 9] {
        fold.see(0, &format!("id-{seen}"), 7).unwrap();
    }
    let mut found = Vec::new();
    let mut after = String::new();
    loop {
        let page = fold.unseen(0, 7, &after, 3).unwrap();
        let Some((last, _)) = page.last() else { break };
        after.clone_from(last);
        found.extend(page.into_iter().map(|(id, known)| (id, known.folded.version().unwrap())));
    }
    let expected: Vec<_> = [0, 2, 3, 5, 6, 7, 8].iter().map(|number| (format!("id-{number}"), *number)).collect();
    assert_eq!(found, expected);
    assert_eq!(fold.unseen(0, 8, "", 100).unwrap().len(), 10, "another comparison has seen none yet");
}

#[test]
fn differences_are_counted_sampled_in_order_and_forgotten() {
    let mut fold = Fold::open(1 << 20, Keeps::Nothing).unwrap();
    let difference = |class, index, id: &str, mend| Difference {
        class,
        index,
        id: id.to_owned(),
        routing: None,
        held: Some(3),
        is_tombstone: false,
        folded: None,
        is_other: false,
        mend,
        row: matches!(mend, Mend::Nothing).then(|| "a row".to_owned()),
    };
    let noted = [
        difference(Class::Foreign, 1, "b", Mend::Erase(3)),
        difference(Class::Foreign, 0, "c", Mend::Erase(3)),
        difference(Class::Foreign, 0, "a", Mend::Erase(3)),
        difference(Class::Ahead, 0, "z", Mend::Nothing),
        difference(Class::Stale, 0, "z", Mend::Anew(8)),
    ];
    noted.iter().for_each(|difference| fold.note(difference).unwrap());
    assert_eq!(fold.sample(Class::Foreign, Some(2)).unwrap(), [noted[2].clone(), noted[1].clone()]);
    assert_eq!(fold.sample(Class::Foreign, None).unwrap().len(), 3);
    for noted in &noted[3..] {
        assert_eq!(&fold.sample(noted.class, None).unwrap(), std::slice::from_ref(noted));
    }
    let walked = fold.differences(Class::Foreign, 0, 2).unwrap();
    assert_eq!(walked.iter().map(|(_, difference)| difference).collect::<Vec<_>>(), [&noted[0], &noted[1]]);
    assert_eq!(fold.differences(Class::Foreign, walked[1].0, 2).unwrap().len(), 1);
    assert_eq!((fold.count(Class::Foreign).unwrap(), fold.count_in(Class::Foreign, 0).unwrap()), (3, 2));
    fold.renote(walked[1].0, &noted[4]).unwrap();
    assert_eq!((fold.count(Class::Foreign).unwrap(), fold.count(Class::Stale).unwrap()), (2, 2));
    fold.renote(walked[1].0, &noted[1]).unwrap();
    fold.drop_difference(walked[0].0).unwrap();
    assert_eq!(fold.count(Class::Foreign).unwrap(), 2);
    fold.drop_differences(Some(0)).unwrap();
    assert!(!fold.has_any(&Class::ALL).unwrap());
}
