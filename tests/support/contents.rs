//! What every sink that keeps versions can say of what it holds, as statements that run against any of them, beside those of the conformance suite
//! and in the same way: `contents_suite!(bench)`.

use std::collections::BTreeMap;

use revsync::operation::{Operation, Target};
use revsync::plan::cells::Row;
use revsync::plan::outcome::Outcome::{Absent, Deleted, Indexed, Stale};
use revsync::plan::same::is_same;
use revsync::revision::{Cells, VersionType};
use revsync::sink::{Asked, Contents, Detail, Held};

use crate::conformance::{Bench, Seeded, TOMBSTONE};
use crate::merges::cells;

/// One `#[tokio::test]` for each statement, against the sink that the given async function makes.
#[macro_export]
macro_rules! contents_suite {
    ($bench:path) => {
        $crate::contents_suite! { $bench:
            an_index_holds_its_documents_and_tombstones_and_no_deletes,
            an_index_of_deletes_alone_holds_nothing,
            of_an_index_that_is_not_there_nothing_is_said,
            documents_are_given_by_their_ids_in_the_order_of_these,
            everything_comes_once_over_many_pages,
            a_page_that_did_not_come_can_be_asked_for_again,
            a_page_of_large_documents_is_a_short_one,
            a_document_that_only_looks_like_a_tombstone_is_none,
            a_row_of_cells_is_given_with_its_cells,
            what_is_held_is_what_any_order_of_operations_comes_to,
            a_delete_that_is_forgotten_lets_an_older_version_be_written_and_a_tombstone_does_not,
        }
    };
    ($bench:path: $($statement:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $statement() {
                // Without a bench, live tests are left out on purpose, and that was said.
                if let Some(bench) = $bench().await {
                    $crate::contents::$statement(&bench).await;
                }
            }
        )*
    };
}

/// Version, routing, whether it is a tombstone, and content.
pub(crate) type Known = (u64, Option<String>, bool, Option<String>);

pub(crate) fn known(held: Held) -> (String, Known) {
    (held.id, (held.version, held.routing, held.is_tombstone, held.source.map(|source| source.get().to_owned())))
}

/// Everything that an index holds, by id, and how many pages that took; each document must come once, and as many as were counted.
pub(crate) async fn all(sink: &dyn Contents, index: &str, with: Detail) -> Option<(BTreeMap<String, Known>, usize)> {
    let (mut found, mut after, mut pages, mut total) = (BTreeMap::new(), None, 0, None);
    loop {
        let page = sink.holding(index, with, after).await.expect("the index can be looked at")?;
        if pages == 0 {
            total = page.total;
        }
        if page.found.is_empty() {
            assert_eq!(total, Some(found.len() as u64), "what was counted is what came");
            return Some((found, pages));
        }
        for held in page.found {
            let (id, known) = known(held);
            assert!(found.insert(id.clone(), known).is_none(), "{id} came twice");
        }
        (after, pages) = (Some(page.next), pages + 1);
    }
}

fn asked(ids: &[&str]) -> Vec<Asked> {
    ids.iter().map(|id| Asked { id: (*id).to_owned(), routing: None }).collect()
}

impl Bench {
    async fn all(&self, with: Detail) -> BTreeMap<String, Known> {
        all(&*self.sink, &self.index, with).await.expect("the index is there").0
    }

    async fn held(&self, ids: &[&str], with: Detail) -> Vec<Option<Known>> {
        let held = self.sink.held(&self.index, &asked(ids), with).await.expect("the index can be looked at");
        assert_eq!(held.len(), ids.len());
        let of = |(held, id): (Option<Held>, &&str)| {
            let (found, known) = known(held?);
            assert_eq!(found, **id);
            Some(known)
        };
        held.into_iter().zip(ids).map(of).collect()
    }

    async fn forget(&self, ids: &[&str]) {
        self.sink.forget_deletes(&self.index, &asked(ids)).await.expect("deletes can be forgotten");
    }
}

fn document(version: u64, source: &str) -> Known {
    (version, None, false, Some(source.to_owned()))
}

fn tombstone(version: u64) -> Known {
    (version, None, true, Some(TOMBSTONE.to_owned()))
}

fn without_content((version, routing, is_tombstone, _): Known) -> Known {
    (version, routing, is_tombstone, None)
}

pub(crate) async fn an_index_holds_its_documents_and_tombstones_and_no_deletes(bench: &Bench) {
    let written = vec![
        bench.put("kept", 7, r#"{"n": 442.30}"#),
        bench.put("deleted", 1, "{}"),
        bench.delete("deleted", 2),
        bench.delete("never", 9),
        bench.put("buried", 0, "{}"),
        bench.tombstone("buried", 3),
        bench.put("zero", 0, "{}"),
    ];
    assert_eq!(bench.outcomes(written).await, [Indexed, Indexed, Deleted, Absent, Indexed, Deleted, Indexed]);
    let expected = [("buried", tombstone(3)), ("kept", document(7, r#"{"n": 442.30}"#)), ("zero", document(0, "{}"))];
    let expected: BTreeMap<String, Known> = expected.into_iter().map(|(id, known)| (id.to_owned(), known)).collect();
    assert_eq!(bench.all(Detail::Content).await, expected);
    let expected = expected.into_iter().map(|(id, known)| (id, without_content(known))).collect();
    assert_eq!(bench.all(Detail::Version).await, expected);
}

pub(crate) async fn an_index_of_deletes_alone_holds_nothing(bench: &Bench) {
    bench.outcomes(vec![bench.put("a", 1, "{}"), bench.delete("a", 2), bench.delete("never", 9)]).await;
    assert_eq!(bench.all(Detail::Version).await, BTreeMap::new());
    assert_eq!(bench.held(&["a", "never"], Detail::Content).await, [None, None]);
}

pub(crate) async fn of_an_index_that_is_not_there_nothing_is_said(bench: &Bench) {
    let missing = format!("{}-missing", bench.index);
    assert!(all(&*bench.sink, &missing, Detail::Version).await.is_none());
    let held = bench.sink.held(&missing, &asked(&["a", "b"]), Detail::Version).await.unwrap();
    assert!(held.len() == 2 && held.iter().all(Option::is_none), "{held:?}");
}

pub(crate) async fn documents_are_given_by_their_ids_in_the_order_of_these(bench: &Bench) {
    bench.outcomes(vec![bench.put("a", 1, r#"{"a":1}"#), bench.tombstone("b/é,", 2), bench.put("c", 3, r#"{"c":3}"#)]).await;
    let ids = ["c", "missing", "b/é,", "a", "c"];
    let expected =
        [Some(document(3, r#"{"c":3}"#)), None, Some(tombstone(2)), Some(document(1, r#"{"a":1}"#)), Some(document(3, r#"{"c":3}"#))];
    assert_eq!(bench.held(&ids, Detail::Content).await, expected);
    assert_eq!(bench.held(&ids, Detail::Version).await, expected.map(|known| known.map(without_content)));
    assert_eq!(bench.held(&[], Detail::Version).await, []);
    // As it is now, and not as it was searched last.
    bench.outcomes(vec![bench.put("a", 8, r#"{"a":8}"#), bench.delete("c", 4)]).await;
    assert_eq!(bench.held(&["a", "c"], Detail::Content).await, [Some(document(8, r#"{"a":8}"#)), None]);
}

/// Documents of which some have a routing value, and every seventh is a tombstone.
async fn many(bench: &Bench, count: usize) -> BTreeMap<String, Known> {
    let (mut operations, mut expected) = (Vec::new(), BTreeMap::new());
    for number in 0..count {
        let routing = (number % 3 == 0).then(|| format!("r{}", number % 11));
        let target = Target { routing: routing.clone(), ..bench.target(&format!("id-{number}"), number as u64, VersionType::External) };
        expected.insert(target.id.clone(), (target.version, routing, number % 7 == 0, None));
        operations.push(match bench.put("", 0, r#"{"some":"text"}"#) {
            Operation::Index { document, .. } if number % 7 != 0 => Operation::Index { target, document },
            _ => Operation::Tombstone { target, time: 0 },
        });
    }
    bench.outcomes(operations).await;
    expected
}

pub(crate) async fn everything_comes_once_over_many_pages(bench: &Bench) {
    let expected = many(bench, 4_321).await;
    let (found, pages) = all(&*bench.sink, &bench.index, Detail::Version).await.unwrap();
    assert_eq!(found, expected);
    assert!(pages > 3, "{pages} pages");
    let asked: Vec<Asked> = expected.iter().map(|(id, known)| Asked { id: id.clone(), routing: known.1.clone() }).collect();
    let held = bench.sink.held(&bench.index, &asked, Detail::Version).await.unwrap();
    assert_eq!(held.into_iter().map(|held| known(held.unwrap())).collect::<BTreeMap<_, _>>(), expected);
}

pub(crate) async fn a_page_that_did_not_come_can_be_asked_for_again(bench: &Bench) {
    let expected = many(bench, 2_100).await;
    let page = async |after| bench.sink.holding(&bench.index, Detail::Version, after).await.unwrap().unwrap();
    let ids = |found: Vec<Held>| found.into_iter().map(|held| held.id).collect::<Vec<_>>();
    let first = page(None).await;
    let (second, again) = (page(Some(first.next.clone())).await, page(Some(first.next.clone())).await);
    let (first, second, again) = (ids(first.found), ids(second.found), (ids(again.found), again.next));
    assert_eq!(second, again.0);
    assert!(first.iter().all(|id| !second.contains(id)) && first.len() + second.len() <= expected.len());
    bench.sink.leave(again.1).await;
}

pub(crate) async fn a_page_of_large_documents_is_a_short_one(bench: &Bench) {
    let text = "x".repeat(1024 * 1024);
    let mut random = Seeded(1);
    for number in 0..30 {
        let large = format!(r#"{{"text":"{text}{}"}}"#, random.below(1_000));
        let small = (0..20).map(|small| bench.put(&format!("small-{number}-{small}"), 1, "{}"));
        bench.outcomes(small.chain([bench.put(&format!("large-{number}"), 1, &large)]).collect()).await;
    }
    let (mut after, mut found, mut most) = (None, 0, 0);
    loop {
        let page = bench.sink.holding(&bench.index, Detail::Content, after).await.unwrap().unwrap();
        if page.found.is_empty() {
            break;
        }
        found += page.found.len();
        most = most.max(page.found.iter().map(|held| held.source.as_ref().unwrap().get().len()).sum());
        after = Some(page.next);
    }
    assert_eq!(found, 630);
    assert!(most < 10 * 1024 * 1024, "a page of {most} bytes");
}

pub(crate) async fn a_document_that_only_looks_like_a_tombstone_is_none(bench: &Bench) {
    let alike = r#"{"revsync":{"v":1,"deleted":true,"time":"2024-11-29T08:15:00Z"},"name":"Raul"}"#;
    bench.outcomes(vec![bench.put("alike", 1, alike), bench.tombstone("buried", 2)]).await;
    let expected = [("alike", document(1, alike)), ("buried", tombstone(2))].map(|(id, known)| (id.to_owned(), without_content(known)));
    assert_eq!(bench.all(Detail::Version).await, expected.clone().into());
    assert_eq!(bench.held(&["alike", "buried"], Detail::Version).await, expected.map(|(_, known)| Some(known)));
}

pub(crate) async fn a_row_of_cells_is_given_with_its_cells(bench: &Bench) {
    let long = format!("\"{}\"", "é".repeat(300));
    let changes: [(&str, Cells); 6] = [
        ("row", cells(None, &[("f:a", 5, "442.30"), ("f:b", 6, "1e400"), ("f:long", 6, &long), ("f:gone", 2, "1")])),
        ("row", cells(Some(3), &[("f:c", 9, r#"{"d":[18446744073709551616.50,"é"]}"#)])),
        ("bare", cells(None, &[("a", 0, "null")])),
        ("erased", cells(None, &[("a", 4, "1")])),
        ("erased", cells(Some(8), &[])),
        ("whole", cells(None, &[("a", 1, "1")])),
    ];
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for (id, change) in changes {
        rows.entry(id).or_default().merge(&change);
        bench.outcome(bench.merge(id, change)).await;
    }
    bench.outcome(bench.put("whole", 100, r#"{"a":1}"#)).await;
    rows.remove("whole");
    let found = bench.all(Detail::Content).await;
    let held = bench.held(&["bare", "erased", "row", "whole"], Detail::Content).await;
    assert_eq!(found.values().cloned().map(Some).collect::<Vec<_>>(), held);
    for (id, row) in rows {
        let (version, _, is_tombstone, source) = &found[id];
        let read = Row::read(source.as_ref().unwrap().as_bytes(), *version).unwrap();
        assert_eq!((read.erased, *is_tombstone), (row.erased, row.columns.is_empty()), "{id}");
        assert!(read.columns.keys().eq(row.columns.keys()), "{id}: {read:?}");
        for (name, column) in &row.columns {
            let text = |value| std::str::from_utf8(value).unwrap().to_owned();
            assert_eq!(read.columns[name].version, column.version, "{id} {name}");
            assert!(is_same(&text(&read.columns[name].value), &text(&column.value)), "{id} {name}: {read:?}");
        }
    }
    assert_eq!(Row::read(found["whole"].3.as_ref().unwrap().as_bytes(), 100), None);
}

pub(crate) async fn what_is_held_is_what_any_order_of_operations_comes_to(bench: &Bench) {
    let mut random = Seeded(11);
    let mut expected = BTreeMap::new();
    for _ in 0..40 {
        let operations: Vec<Operation> = (0..25)
            .map(|_| {
                let (id, version) = (random.below(150).to_string(), random.below(30) as u64);
                match random.below(4) {
                    0 => bench.delete(&id, version),
                    1 => bench.tombstone(&id, version),
                    _ => bench.put(&id, version, &format!(r#"{{"v":{version}}}"#)),
                }
            })
            .collect();
        for (operation, outcome) in operations.iter().zip(bench.outcomes(operations.clone()).await) {
            let (id, version) = (operation.target().id.clone(), operation.target().version);
            match (outcome, operation) {
                (Stale, _) => {}
                (_, Operation::Delete { .. }) => _ = expected.remove(&id),
                (_, Operation::Tombstone { .. }) => _ = expected.insert(id, tombstone(version)),
                _ => _ = expected.insert(id, document(version, &format!(r#"{{"v":{version}}}"#))),
            }
        }
    }
    assert_eq!(bench.all(Detail::Content).await, expected);
    let ids: Vec<String> = (0..150).map(|id| id.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let held = bench.held(&ids, Detail::Content).await;
    assert_eq!(held, ids.iter().map(|id| expected.get(*id).cloned()).collect::<Vec<_>>());
}

pub(crate) async fn a_delete_that_is_forgotten_lets_an_older_version_be_written_and_a_tombstone_does_not(bench: &Bench) {
    bench.outcomes(vec![bench.put("a", 5, "{}"), bench.delete("a", 9), bench.delete("never", 9), bench.tombstone("b", 9)]).await;
    bench.outcomes(vec![bench.put("c", 9, "{}")]).await;
    let late = || ["a", "never", "b", "c"].map(|id| bench.put(id, 5, r#"{"late":true}"#)).to_vec();
    assert_eq!(bench.outcomes(late()).await, [Stale, Stale, Stale, Stale]);
    bench.forget(&["a", "never", "b", "c", "missing"]).await;
    assert_eq!(bench.outcomes(late()).await, [Indexed, Indexed, Stale, Stale]);
    // What is deleted from now on is remembered as before.
    assert_eq!(bench.outcomes(vec![bench.delete("a", 7), bench.put("a", 6, "{}")]).await, [Deleted, Stale]);
}
