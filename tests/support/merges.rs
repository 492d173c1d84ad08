//! What every sink that keeps versions must do with merges of cells, as statements that run against any of them, beside those of the conformance
//! suite and in the same way: `merge_suite!(bench)`.
//!
//! A merged document is compared column by column, each value as text to the last digit; what a sink keeps beside the columns is its own affair.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use revsync::operation::Operation;
use revsync::plan::cells::Row;
use revsync::plan::outcome::{Outcome, judge};
use revsync::revision::{Cell, Cells, MAX_VERSION, VersionType};
use revsync::sink::Sink;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::conformance::{Bench, Seeded, TIME};

use Outcome::{Deleted, Indexed, Stale};

/// One `#[tokio::test]` for each statement, against the sink that the given async function makes.
#[macro_export]
macro_rules! merge_suite {
    ($bench:path) => {
        $crate::merge_suite! { $bench:
            a_merge_makes_a_document_of_its_columns_and_adds_to_it,
            of_a_column_the_newer_cell_stays_and_an_older_one_is_stale,
            of_two_cells_of_one_version_the_greater_value_stays_in_both_orders,
            an_erasure_takes_what_is_not_above_it_and_leaves_what_is,
            a_row_of_which_everything_is_erased_is_found_by_nobody_and_refuses_what_comes_late,
            a_cell_above_an_erasure_brings_the_row_back,
            a_cell_without_a_value_lives,
            numbers_in_cells_keep_their_digits_whatever_is_merged_later,
            a_thousand_columns_are_a_document,
            names_of_columns_keep_every_character,
            merges_of_one_row_in_one_request_are_all_carried_out,
            the_same_merges_again_are_stale,
            nothing_is_merged_into_a_document_that_was_written_as_a_whole,
            a_tombstone_of_a_whole_row_refuses_cells_that_are_not_above_it,
            merges_at_once_come_to_the_fold,
            any_order_of_merges_comes_to_the_fold,
        }
    };
    ($bench:path: $($statement:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $statement() {
                // Without a bench, live tests are left out on purpose, and that was said.
                if let Some(bench) = $bench().await {
                    $crate::merges::$statement(&bench).await;
                }
            }
        )*
    };
}

/// A column's name, version and value.
type Written<'a> = (&'a str, u64, &'a str);

pub(crate) fn cells(erased: Option<u64>, columns: &[Written<'_>]) -> Cells {
    let cell = |(name, version, value): &Written<'_>| Cell {
        name: (*name).to_owned(),
        version: *version,
        value: Bytes::copy_from_slice(value.as_bytes()),
    };
    Cells { erased, columns: columns.iter().map(cell).collect() }
}

impl Bench {
    pub(crate) fn merge(&self, id: &str, cells: Cells) -> Operation {
        let version = revsync::plan::cells::version(&cells);
        Operation::Merge { target: self.target(id, version, VersionType::ExternalGte), cells: cells.into(), time: TIME }
    }

    fn cells(&self, id: &str, columns: &[Written<'_>]) -> Operation {
        self.merge(id, cells(None, columns))
    }

    fn erase(&self, id: &str, version: u64) -> Operation {
        self.merge(id, cells(Some(version), &[]))
    }

    /// The columns of a row that live; `None` where there is a tombstone or nothing.
    async fn row(&self, id: &str) -> Option<BTreeMap<String, String>> {
        let (_, source) = self.found(id).await?;
        columns(&source)
    }

    async fn expect_row(&self, id: &str, expected: &[(&str, &str)]) {
        let expected = expected.iter().map(|(name, value)| ((*name).to_owned(), plain(value))).collect();
        assert_eq!(self.row(id).await, Some(expected), "row {id}");
    }
}

/// The columns of a document; `None` of a tombstone.
pub(crate) fn columns(source: &str) -> Option<BTreeMap<String, String>> {
    let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(source).expect("a document is JSON");
    let kept = members.remove("revsync").map(|kept| serde_json::from_str::<Value>(kept.get()).expect("JSON in JSON"));
    if kept.is_some_and(|kept| kept["deleted"] == true) {
        assert!(members.is_empty(), "a tombstone with columns: {source}");
        return None;
    }
    Some(members.into_iter().map(|(name, value)| (name, plain(value.get()))).collect())
}

/// The columns of a row as a model has it.
fn model(row: &Row) -> Option<BTreeMap<String, String>> {
    let text = |value: &Bytes| plain(std::str::from_utf8(value).expect("test values are text"));
    (!row.columns.is_empty()).then(|| row.columns.iter().map(|(name, column)| (name.clone(), text(&column.value))).collect())
}

fn fold(changes: &[Cells]) -> Row {
    let mut row = Row::default();
    for change in changes {
        row.merge(change);
    }
    row
}

/// A value with its strings written in one way and the members of objects in one order, its numbers as they are.
fn plain(value: &str) -> String {
    let list = |parts: Vec<String>| parts.join(",");
    match value.as_bytes()[0] {
        b'{' => {
            let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(value).expect("an object");
            let members = members.iter().map(|(name, value)| format!("{name:?}:{}", plain(value.get())));
            format!("{{{}}}", list(members.collect()))
        }
        b'[' => {
            let elements: Vec<Box<RawValue>> = serde_json::from_str(value).expect("a list");
            format!("[{}]", list(elements.iter().map(|element| plain(element.get())).collect()))
        }
        b'"' => format!("{:?}", serde_json::from_str::<String>(value).expect("a string")),
        _ => value.to_owned(),
    }
}

pub(crate) async fn a_merge_makes_a_document_of_its_columns_and_adds_to_it(bench: &Bench) {
    assert_eq!(bench.outcome(bench.cells("a", &[("f:name", 5, "\"mug\""), ("f:stock", 6, "7")])).await, Indexed);
    bench.expect_row("a", &[("f:name", "\"mug\""), ("f:stock", "7")]).await;
    assert_eq!(bench.outcome(bench.cells("a", &[("f:price", 1, "{\"eur\":[1,2]}")])).await, Indexed);
    bench.expect_row("a", &[("f:name", "\"mug\""), ("f:price", "{\"eur\":[1,2]}"), ("f:stock", "7")]).await;
    assert_eq!(bench.visible().await, ["a"]);
}

pub(crate) async fn of_a_column_the_newer_cell_stays_and_an_older_one_is_stale(bench: &Bench) {
    bench.outcome(bench.cells("a", &[("x", 5, "5"), ("y", 5, "5")])).await;
    assert_eq!(bench.outcome(bench.cells("a", &[("x", 4, "4"), ("y", 4, "4")])).await, Stale);
    assert_eq!(bench.outcome(bench.cells("a", &[("x", 6, "6"), ("y", 4, "4")])).await, Indexed);
    bench.expect_row("a", &[("x", "6"), ("y", "5")]).await;
    assert_eq!(bench.outcome(bench.cells("b", &[("x", 0, "0"), ("z", MAX_VERSION, "1")])).await, Indexed);
    assert_eq!(bench.outcome(bench.cells("b", &[("z", MAX_VERSION - 1, "2")])).await, Stale);
    bench.expect_row("b", &[("x", "0"), ("z", "1")]).await;
}

pub(crate) async fn of_two_cells_of_one_version_the_greater_value_stays_in_both_orders(bench: &Bench) {
    let long = |last: &str| format!("\"{}{last}\"", "é😀".repeat(50));
    let (one, other) = (long("a"), long("b"));
    let greater = if revsync::plan::cells::rank(one.as_bytes()) > revsync::plan::cells::rank(other.as_bytes()) { &one } else { &other };
    let lower = if greater == &one { &other } else { &one };
    for (at, (lower, greater)) in [
        ("1", "2"),
        ("10", "9"),
        ("1.5", "1.50"),
        ("\"1\"", "1"),
        ("null", "true"),
        // By bytes of UTF-8 it would be the other way round.
        ("\"😀\"", "\"\u{e000}\""),
        ("[1.0]", "{}"),
        (lower.as_str(), greater.as_str()),
    ]
    .into_iter()
    .enumerate()
    {
        for (order, outcomes) in [([lower, greater], [Indexed, Indexed]), ([greater, lower], [Indexed, Stale])] {
            let id = format!("{at}-{}", order[0] == lower);
            let merges = order.map(|value| bench.cells(&id, &[("x", 7, value)])).to_vec();
            assert_eq!(bench.outcomes(merges).await, outcomes, "{order:?}");
            bench.expect_row(&id, &[("x", greater)]).await;
        }
    }
}

pub(crate) async fn an_erasure_takes_what_is_not_above_it_and_leaves_what_is(bench: &Bench) {
    let written = |id: &str| bench.cells(id, &[("older", 4, "4"), ("same", 5, "5"), ("newer", 6, "6")]);
    assert_eq!(bench.outcomes(vec![written("after"), bench.erase("after", 5)]).await, [Indexed, Deleted]);
    assert_eq!(bench.outcomes(vec![bench.erase("before", 5), written("before")]).await, [Deleted, Indexed]);
    for id in ["after", "before"] {
        bench.expect_row(id, &[("newer", "6")]).await;
        assert_eq!(bench.outcomes(vec![bench.erase(id, 5), bench.erase(id, 4), written(id)]).await, [Stale, Stale, Stale]);
    }
    assert_eq!(bench.visible().await, ["after", "before"]);
}

pub(crate) async fn a_row_of_which_everything_is_erased_is_found_by_nobody_and_refuses_what_comes_late(bench: &Bench) {
    bench.outcomes(vec![bench.cells("a", &[("x", 4, "4"), ("y", 5, "5")]), bench.cells("b", &[("x", 4, "4")])]).await;
    assert_eq!(bench.outcomes(vec![bench.erase("a", 5), bench.erase("never", 5)]).await, [Deleted, Deleted]);
    for id in ["a", "never"] {
        assert_eq!(bench.row(id).await, None);
        let (_, source) = bench.found(id).await.expect("a tombstone");
        let tombstone: Value = serde_json::from_str(&source).expect("a document is JSON");
        let expected = ("2024-11-29T08:15:00Z", 1);
        assert_eq!((tombstone["revsync"]["time"].as_str(), tombstone["revsync"]["v"].as_u64()), (Some(expected.0), Some(expected.1)));
        let late = vec![bench.cells(id, &[("x", 4, "9")]), bench.cells(id, &[("y", 5, "9"), ("z", 0, "9")])];
        assert_eq!(bench.outcomes(late).await, [Stale, Stale]);
        assert_eq!(bench.row(id).await, None);
    }
    assert_eq!(bench.visible().await, ["b"]);
}

pub(crate) async fn a_cell_above_an_erasure_brings_the_row_back(bench: &Bench) {
    bench.outcomes(vec![bench.cells("a", &[("x", 4, "4")]), bench.erase("a", 5)]).await;
    assert_eq!(bench.outcome(bench.cells("a", &[("x", 5, "\"late\""), ("y", 6, "\"back\"")])).await, Indexed);
    bench.expect_row("a", &[("y", "\"back\"")]).await;
    assert_eq!(bench.visible().await, ["a"]);
    assert_eq!(bench.outcome(bench.cells("a", &[("x", 5, "5")])).await, Stale, "what was erased stays so");
    assert_eq!(bench.outcome(bench.erase("a", 6)).await, Deleted);
    assert_eq!((bench.row("a").await, bench.visible().await), (None, vec![]));
}

pub(crate) async fn a_cell_without_a_value_lives(bench: &Bench) {
    bench.outcomes(vec![bench.cells("a", &[("x", 4, "4"), ("y", 4, "null")]), bench.cells("a", &[("x", 5, "null")])]).await;
    bench.expect_row("a", &[("x", "null"), ("y", "null")]).await;
    assert_eq!(bench.visible().await, ["a"], "a row of nulls is a row");
}

pub(crate) async fn numbers_in_cells_keep_their_digits_whatever_is_merged_later(bench: &Bench) {
    let long = format!("0.{}10", "3".repeat(90));
    let columns = [
        ("price", 1, "442.30"),
        ("whole", 1, "100.0"),
        ("negative", 1, "-12.50"),
        ("huge", 1, "1E+400"),
        ("tiny", 1, "1.10E-400"),
        ("minus nothing", 1, "-0.0"),
        ("max", 1, "9223372036854775807"),
        ("min", 1, "-9223372036854775808"),
        ("beyond", 1, "123456789012345678901234567890"),
        ("decimal", 1, "12345678901234567890.1234567890"),
        ("long", 1, long.as_str()),
        ("text", 1, "\"1.50\""),
        ("nested", 1, "{\"a\":[1.0,1.00,{\"b\":0.10,\"n1.5\":\"n1.5\",\"s\":null}],\"c\":12345678901234567890123,\"1.0\":true}"),
    ];
    let expected: Vec<_> = columns.iter().map(|(name, _, value)| (*name, *value)).collect();
    assert_eq!(bench.outcome(bench.cells("a", &columns)).await, Indexed);
    bench.expect_row("a", &expected).await;
    for version in 1..4 {
        bench.outcome(bench.cells("a", &[("zzz", version, &version.to_string())])).await;
    }
    bench.expect_row("a", &[expected.as_slice(), &[("zzz", "3")]].concat()).await;
    assert_eq!(bench.outcome(bench.cells("a", &columns)).await, Stale);
}

pub(crate) async fn a_thousand_columns_are_a_document(bench: &Bench) {
    let names: Vec<_> = (0..1_000).map(|at| format!("column {at}")).collect();
    let written = |version: u64, value: &'static str| names.iter().map(|name| (name.as_str(), version, value)).collect::<Vec<_>>();
    assert_eq!(bench.outcome(bench.cells("a", &written(1, "\"first\""))).await, Indexed);
    assert_eq!(bench.outcome(bench.cells("a", &written(2, "2.50")[..500])).await, Indexed);
    let row = bench.row("a").await.expect("a document");
    assert_eq!(row.len(), 1_000);
    assert!(row.iter().all(|(name, value)| (value == "2.50") == names[..500].contains(name)), "{row:?}");
}

pub(crate) async fn names_of_columns_keep_every_character(bench: &Bench) {
    let names = [
        "f:name",
        "a.b",
        "it's \"quoted\"",
        "back\\slash",
        "with space",
        "constructor",
        "e",
        "öäü",
        "東京",
        "😀",
        "\u{ffff}x",
        "{\"a\":1}",
        "$1%",
        "tab\tnewline\n",
    ];
    for version in 1..3 {
        let value = version.to_string();
        let columns: Vec<_> = names.iter().map(|name| (*name, version, value.as_str())).collect();
        assert_eq!(bench.outcome(bench.cells("a", &columns)).await, Indexed);
        bench.expect_row("a", &names.map(|name| (name, value.as_str()))).await;
    }
}

pub(crate) async fn merges_of_one_row_in_one_request_are_all_carried_out(bench: &Bench) {
    let merges = vec![
        bench.cells("a", &[("x", 5, "5")]),
        bench.cells("a", &[("y", 3, "3")]),
        bench.cells("b", &[("x", 1, "1")]),
        bench.cells("a", &[("x", 4, "4")]),
        bench.erase("a", 3),
        bench.cells("a", &[("y", 3, "3")]),
        bench.cells("a", &[("z", 4, "4")]),
    ];
    assert_eq!(bench.outcomes(merges).await, [Indexed, Indexed, Indexed, Stale, Deleted, Stale, Indexed]);
    bench.expect_row("a", &[("x", "5"), ("z", "4")]).await;
    bench.expect_row("b", &[("x", "1")]).await;
}

pub(crate) async fn the_same_merges_again_are_stale(bench: &Bench) {
    let merges = || {
        vec![bench.cells("a", &[("x", 5, "5.50"), ("y", 5, "{\"n\":1.0}")]), bench.erase("b", 3), bench.cells("b", &[("x", 4, "\"v\"")])]
    };
    assert_eq!(bench.outcomes(merges()).await, [Indexed, Deleted, Indexed]);
    let before = (bench.found("a").await, bench.found("b").await);
    for _ in 0..2 {
        assert_eq!(bench.outcomes(merges()).await, [Stale, Stale, Stale]);
    }
    assert_eq!((bench.found("a").await, bench.found("b").await), before);
}

pub(crate) async fn nothing_is_merged_into_a_document_that_was_written_as_a_whole(bench: &Bench) {
    bench.outcome(bench.put("a", 3, r#"{"v":3}"#)).await;
    let outcomes = bench.outcomes(vec![bench.cells("a", &[("x", 9, "9")]), bench.cells("b", &[("x", 9, "9")])]).await;
    let Outcome::Rejected(fault) = &outcomes[0] else { panic!("{outcomes:?}") };
    assert!(fault.reason.contains("the document is no row of cells"), "{fault}");
    assert_eq!((&outcomes[1], bench.found("a").await), (&Indexed, Some((3, r#"{"v":3}"#.to_owned()))));
}

pub(crate) async fn a_tombstone_of_a_whole_row_refuses_cells_that_are_not_above_it(bench: &Bench) {
    bench.outcome(bench.tombstone("a", 5)).await;
    assert_eq!(bench.outcome(bench.cells("a", &[("x", 5, "5")])).await, Stale);
    assert_eq!(bench.outcome(bench.cells("a", &[("x", 5, "5"), ("y", 6, "6")])).await, Indexed);
    bench.expect_row("a", &[("y", "6")]).await;
}

/// Two processes at work on the same rows look like this to a server. What was refused for another's write is sent again, as a run does.
pub(crate) async fn merges_at_once_come_to_the_fold(bench: &Bench) {
    const ROWS: u64 = 10;
    let change = |row: u64, writer: u64| match (row + writer) % 5 {
        0 => cells(Some(writer), &[]),
        _ => cells(None, &[("x", writer, "\"shared\""), (&format!("own-{writer}"), writer, &writer.to_string())]),
    };
    let writers: Vec<_> = (1..=12)
        .map(|writer| {
            let mut open: Vec<Operation> = (0..ROWS).map(|row| bench.merge(&row.to_string(), change(row, writer))).collect();
            let sink: Arc<dyn Sink> = bench.sink.clone();
            tokio::spawn(async move {
                while !open.is_empty() {
                    let replies = sink.write(open.clone().into()).await.expect("the request as a whole is carried out");
                    let mut replies = replies.iter();
                    open.retain(|operation| match judge(operation, replies.next().expect("one reply for each")) {
                        Indexed | Deleted | Stale => false,
                        Outcome::Retry(..) => true,
                        outcome => panic!("{outcome:?}"),
                    });
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("a writer does not panic");
    }
    for row in 0..ROWS {
        let changes: Vec<_> = (1..=12).map(|writer| change(row, writer)).collect();
        assert_eq!(bench.row(&row.to_string()).await, model(&fold(&changes)), "row {row}");
    }
}

/// Histories of a few rows, every merge sent one to three times, shuffled, cut into requests at random: every outcome is that of the rules, and the end
/// is the fold of the history.
pub(crate) async fn any_order_of_merges_comes_to_the_fold(bench: &Bench) {
    let cases = if std::env::var_os("REVSYNC_TEST_LONG").is_some_and(|value| value == "1") { 500 } else { 25 };
    for case in 0..cases {
        let mut random = Seeded(case);
        let (mut sent, mut fold) = (Vec::new(), BTreeMap::<String, Row>::new());
        for row in 0..=random.below(4) {
            let id = format!("{case}-{row}");
            for _ in 0..=random.below(9) {
                let change = random_change(&mut random);
                fold.entry(id.clone()).or_default().merge(&change);
                (0..=random.below(3)).for_each(|_| sent.push((id.clone(), change.clone())));
            }
        }
        random.shuffle(&mut sent);
        let mut rows = BTreeMap::<String, Row>::new();
        while !sent.is_empty() {
            let request = sent.split_off(sent.len() - 1 - random.below(sent.len().min(12)));
            let expected = request.iter().map(|(id, change)| match rows.entry(id.clone()).or_default().merge(change) {
                false => Stale,
                true if change.columns.is_empty() => Deleted,
                true => Indexed,
            });
            let expected: Vec<_> = expected.collect();
            let merges = request.iter().map(|(id, change)| bench.merge(id, change.clone())).collect();
            assert_eq!(bench.outcomes(merges).await, expected, "case {case}");
        }
        assert_eq!(rows, fold, "case {case}: the model itself comes to the fold");
        for (id, row) in fold {
            assert_eq!(bench.row(&id).await, model(&row), "case {case}, row {id}");
        }
    }
}

/// A put of some columns, or the erasure of what is older.
pub(crate) fn random_change(random: &mut Seeded) -> Cells {
    const VALUES: [&str; 9] = ["null", "1", "1.50", "\"a\"", "\"😀\"", "\"\u{e000}\"", "[1.0,2]", "{\"a\":\"é\"}", "true"];
    if random.below(4) == 0 {
        return cells(Some(random.below(12) as u64), &[]);
    }
    let names = ["f:a", "f:b", "f:c", "f:d"];
    let mut columns: Vec<Written<'_>> = Vec::new();
    for name in names {
        if random.below(2) == 0 {
            columns.push((name, random.below(12) as u64, VALUES[random.below(VALUES.len())]));
        }
    }
    if columns.is_empty() { cells(None, &[("f:a", 3, "3")]) } else { cells(None, &columns) }
}

/// The acceptance of row mode `cells`: so many documents get one history, each in an order of its own and with duplicates, and all of them come to one
/// and the same. Gives the fold of the history.
pub(crate) async fn every_order_comes_to_one_document(bench: &Bench, documents: usize) -> Row {
    let mut random = Seeded(7);
    let history: Vec<Cells> = [
        cells(None, &[("f:name", 10, "\"mug\""), ("f:price", 10, "442.30"), ("f:stock", 10, "7")]),
        cells(None, &[("f:price", 30, "442.30"), ("f:note", 12, "null")]),
        cells(None, &[("f:price", 30, "442.3"), ("f:stock", 21, "null")]),
        cells(Some(20), &[]),
        cells(None, &[("f:stock", 20, "99"), ("f:name", 25, "\"Tasse 😀\"")]),
        cells(None, &[("f:name", 25, "\"Tasse \u{e000}\""), ("f:size", 40, "{\"cm\":[8.0,9.50],\"x\":12345678901234567890123}")]),
        cells(Some(15), &[]),
        cells(None, &[("f:old", 5, "\"never seen at the end\"")]),
    ]
    .into();
    let mut sent = Vec::new();
    for document in 0..documents {
        let mut order: Vec<usize> = (0..history.len()).collect();
        (0..random.below(5)).for_each(|_| order.push(random.below(history.len())));
        random.shuffle(&mut order);
        sent.extend(order.into_iter().map(|change| bench.merge(&document.to_string(), history[change].clone())));
    }
    for request in sent.chunks(2_000) {
        let outcomes = bench.outcomes(request.to_vec()).await;
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Indexed | Deleted | Stale)), "{outcomes:?}");
    }
    let fold = fold(&history);
    let expected = model(&fold).expect("a row that lives");
    for document in 0..documents {
        assert_eq!(bench.row(&document.to_string()).await.as_ref(), Some(&expected), "document {document}");
    }
    fold
}
