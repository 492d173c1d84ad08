//! What every place of checkpoints must do, as statements that run against any of them.
//!
//! A test target names the place once, with `shelf_suite!(bench)`; each statement is then a test of its own. `bench` is an async function that
//! makes a [`Shelves`], a place that no other test uses, or none where live tests are left out on purpose.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use revsync::plan::checkpoint::{Begin, Checkpoint, Progress};
use revsync::plan::lease::{Draft, Held, Owner, Row};
use revsync::plan::stored::{Change, Stamp, Written};
use revsync::record::{Position, SequenceNumber};
use revsync::run::leases::Leases;
use revsync::store::checkpoints::{Checkpoints, Pipeline, Shelf, survey};

/// A place under test, as two processes see it.
pub(crate) struct Shelves {
    pub(crate) one: Arc<dyn Shelf>,
    pub(crate) other: Arc<dyn Shelf>,
    /// What must live as long: a folder, a server.
    pub(crate) keep: Box<dyn Any + Send + Sync>,
}

/// A stream by its ARN.
pub(crate) fn arn(name: &str) -> String {
    format!("arn:aws:kinesis:eu-west-1:000000000000:stream/{name}")
}

pub(crate) fn pipeline(name: &str, stream: &str) -> Pipeline {
    Pipeline::new(name, &arn(stream)).expect("a pipeline")
}

/// The checkpoints of a pipeline of this name, on the stream of the same name.
pub(crate) fn checkpoints(shelf: &Arc<dyn Shelf>, name: &str) -> Checkpoints {
    Checkpoints::new(Arc::clone(shelf), pipeline(name, name))
}

/// Everything up to this sequence number.
pub(crate) fn settled(number: u64) -> Checkpoint {
    let position = Position::Sequence { number: SequenceNumber(number.to_string()), sub: Some(3) };
    let targets = [("person".to_owned(), "aAbB-_09".to_owned()), ("a.b-c".to_owned(), "x".to_owned())].into();
    Checkpoint { progress: Progress::Settled(position), covered: Some(1_732_868_100_000), targets }
}

pub(crate) fn row(epoch: u64, number: u64) -> Row {
    let owner = Owner { name: "worker \"1\"/é".to_owned(), session: "5e551074".to_owned(), takeover_after: 30_000 };
    Row { owner: Some(owner), epoch, heartbeat: 1_732_868_100_000, checkpoint: settled(number) }
}

fn draft(shard: &str, expect: Option<Stamp>, row: Option<Row>) -> Draft {
    Draft { shard: shard.to_owned(), expect, row }
}

fn done(written: &Written) -> Stamp {
    match written {
        Written::Done(stamp) => *stamp,
        other => panic!("{other:?}"),
    }
}

/// Writes one row that has to be taken.
async fn put(checkpoints: &Checkpoints, shard: &str, expect: Option<Stamp>, row: Option<Row>) -> Stamp {
    done(&checkpoints.write(&[draft(shard, expect, row)]).await.expect("a place that can be written")[0])
}

async fn conflicts(checkpoints: &Checkpoints, shard: &str, expect: Option<Stamp>, row: Option<Row>) {
    let written = checkpoints.write(&[draft(shard, expect, row)]).await.expect("a place that can be written");
    assert_eq!(written, [Written::Conflict], "{shard}");
}

/// One `#[tokio::test]` for each statement, against the place that the given async function makes.
#[macro_export]
macro_rules! shelf_suite {
    ($bench:path) => {
        $crate::shelf_suite! { $bench:
            where_nothing_was_written_there_is_no_row,
            a_row_reads_back_as_it_was_written,
            a_row_that_is_there_is_not_made_again,
            a_row_is_changed_only_by_who_knows_its_last_state,
            a_row_that_was_removed_and_made_anew_has_another_state,
            a_row_that_is_not_there_is_neither_changed_nor_removed,
            each_change_of_a_call_is_for_itself,
            rows_of_another_pipeline_are_not_seen,
            a_survey_shows_all_pipelines,
            what_was_written_a_moment_ago_is_seen_by_another,
            of_many_who_change_a_row_at_once_one_does,
            more_rows_than_fit_into_a_page_are_all_read,
            a_worker_hands_its_shards_to_the_next,
            a_worker_that_is_gone_is_followed_by_the_next,
        }
    };
    ($bench:path: $($statement:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $statement() {
                // Without a bench, live tests are left out on purpose, and that was said.
                if let Some(bench) = $bench().await {
                    $crate::shelves::$statement(&bench).await;
                }
            }
        )*
    };
}

pub(crate) async fn where_nothing_was_written_there_is_no_row(bench: &Shelves) {
    assert_eq!(checkpoints(&bench.one, "p").read().await, Ok(Vec::new()));
    assert_eq!(survey(&*bench.one).await, Ok((Vec::new(), Vec::new())));
}

pub(crate) async fn a_row_reads_back_as_it_was_written(bench: &Shelves) {
    let checkpoints = checkpoints(&bench.one, "p");
    let rows = [
        ("shardId-000000000000", row(1, 49)),
        (
            "shardId-000000000001",
            Row { owner: None, checkpoint: Checkpoint { progress: Progress::Ended, ..settled(0) }, ..row(u64::from(u32::MAX), 0) },
        ),
        (
            "shard with % and spaces",
            Row {
                checkpoint: Checkpoint { progress: Progress::Begins(Begin::Latest { since: 7 }), covered: None, targets: [].into() },
                ..row(2, 0)
            },
        ),
    ];
    let mut expected = Vec::new();
    for (shard, row) in rows {
        let stamp = put(&checkpoints, shard, None, Some(row.clone())).await;
        expected.push((shard.to_owned(), stamp, row));
    }
    let mut found = checkpoints.read().await.unwrap();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(found, expected);
}

pub(crate) async fn a_row_that_is_there_is_not_made_again(bench: &Shelves) {
    let (one, other) = (checkpoints(&bench.one, "p"), checkpoints(&bench.other, "p"));
    let stamp = put(&one, "a", None, Some(row(1, 1))).await;
    conflicts(&other, "a", None, Some(row(1, 2))).await;
    assert_eq!(other.read().await, Ok(vec![("a".to_owned(), stamp, row(1, 1))]));
}

pub(crate) async fn a_row_is_changed_only_by_who_knows_its_last_state(bench: &Shelves) {
    let (one, other) = (checkpoints(&bench.one, "p"), checkpoints(&bench.other, "p"));
    let first = put(&one, "a", None, Some(row(1, 1))).await;
    let second = put(&other, "a", Some(first), Some(row(2, 2))).await;
    assert_ne!(first, second);
    conflicts(&one, "a", Some(first), Some(row(1, 3))).await;
    conflicts(&one, "a", Some(first), None).await;
    let third = put(&one, "a", Some(second), Some(row(2, 2))).await;
    assert_ne!(second, third, "a heartbeat is another state, whatever else is the same");
    assert_eq!(other.read().await, Ok(vec![("a".to_owned(), third, row(2, 2))]));
}

pub(crate) async fn a_row_that_was_removed_and_made_anew_has_another_state(bench: &Shelves) {
    let checkpoints = checkpoints(&bench.one, "p");
    let mut before = vec![put(&checkpoints, "a", None, Some(row(1, 1))).await];
    for _ in 0..3 {
        let last = *before.last().unwrap();
        put(&checkpoints, "a", Some(last), None).await;
        assert_eq!(checkpoints.read().await, Ok(Vec::new()));
        conflicts(&checkpoints, "a", Some(last), Some(row(1, 1))).await;
        let anew = put(&checkpoints, "a", None, Some(row(1, 1))).await;
        assert!(!before.contains(&anew), "{anew:?} of {before:?}");
        before.push(anew);
        conflicts(&checkpoints, "a", Some(last), Some(row(1, 2))).await;
    }
}

pub(crate) async fn a_row_that_is_not_there_is_neither_changed_nor_removed(bench: &Shelves) {
    let checkpoints = checkpoints(&bench.one, "p");
    let stamp = put(&checkpoints, "a", None, Some(row(1, 1))).await;
    conflicts(&checkpoints, "b", Some(stamp), Some(row(1, 1))).await;
    conflicts(&checkpoints, "b", Some(stamp), None).await;
    assert_eq!(checkpoints.read().await.unwrap().len(), 1);
}

pub(crate) async fn each_change_of_a_call_is_for_itself(bench: &Shelves) {
    let (one, other) = (checkpoints(&bench.one, "p"), checkpoints(&bench.other, "p"));
    let made = one.write(&["a", "b", "c"].map(|shard| draft(shard, None, Some(row(1, 1))))).await.unwrap();
    let stamps: Vec<Stamp> = made.iter().map(done).collect();
    put(&other, "b", Some(stamps[1]), Some(row(2, 2))).await;
    let drafts = [
        draft("a", Some(stamps[0]), Some(row(1, 9))),
        draft("b", Some(stamps[1]), Some(row(1, 9))),
        draft("c", Some(stamps[2]), None),
        draft("d", None, Some(row(1, 9))),
    ];
    let written = one.write(&drafts).await.unwrap();
    assert!(matches!(written[..], [Written::Done(_), Written::Conflict, Written::Done(_), Written::Done(_)]), "{written:?}");
    let mut found: Vec<(String, Row)> = other.read().await.unwrap().into_iter().map(|(shard, _, row)| (shard, row)).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(found, [("a".to_owned(), row(1, 9)), ("b".to_owned(), row(2, 2)), ("d".to_owned(), row(1, 9))]);
}

pub(crate) async fn rows_of_another_pipeline_are_not_seen(bench: &Shelves) {
    let of = |name: &str, stream: &str| Checkpoints::new(Arc::clone(&bench.one), pipeline(name, stream));
    let all = [of("p", "s"), of("p", "s2"), of("p2", "s"), of("P", "s"), of("p s", "s")];
    for (number, checkpoints) in (0..).zip(&all) {
        put(checkpoints, "a", None, Some(row(1, number))).await;
    }
    for (number, checkpoints) in (0..).zip(&all) {
        let found: Vec<Row> = checkpoints.read().await.unwrap().into_iter().map(|(_, _, row)| row).collect();
        assert_eq!(found, [row(1, number)], "{checkpoints:?}");
    }
}

pub(crate) async fn a_survey_shows_all_pipelines(bench: &Shelves) {
    for (name, shard) in [("p2", "a"), ("p1", "b"), ("p1", "a")] {
        put(&checkpoints(&bench.one, name), shard, None, Some(row(1, 1))).await;
    }
    let (found, unreadable) = survey(&*bench.other).await.unwrap();
    let found: Vec<_> = found.iter().map(|kept| (kept.pipeline.name.as_str(), kept.shard.as_str())).collect();
    assert_eq!((found, unreadable), (vec![("p1", "a"), ("p1", "b"), ("p2", "a")], Vec::new()));
    // A row of a newer form is named, and hides nothing else; to its own pipeline it is an error.
    let newer = pipeline("p3", "p3").id("a");
    let body = r#"{"v":99,"pipeline":"p3","stream":"arn:aws:kinesis:eu-west-1:000000000000:stream/p3","shard":"a","content":{}}"#;
    let change = Change { id: newer.clone(), expect: None, body: Some(body.to_owned()) };
    done(&bench.one.write(vec![change]).await.unwrap()[0]);
    let (found, unreadable) = survey(&*bench.other).await.unwrap();
    assert_eq!((found.len(), unreadable.len(), unreadable[0].id.as_str()), (3, 1, newer.as_str()));
    let error = checkpoints(&bench.one, "p3").read().await.unwrap_err().to_string();
    assert!(error.contains("found form 99, which a newer revsync wrote"), "{error}");
    assert_eq!(checkpoints(&bench.one, "p2").read().await.unwrap().len(), 1);
}

pub(crate) async fn what_was_written_a_moment_ago_is_seen_by_another(bench: &Shelves) {
    let (one, other) = (checkpoints(&bench.one, "p"), checkpoints(&bench.other, "p"));
    let mut stamp = put(&one, "a", None, Some(row(1, 0))).await;
    for number in 1..10 {
        let shard = format!("b{number}");
        put(&one, &shard, None, Some(row(1, number))).await;
        stamp = put(&one, "a", Some(stamp), Some(row(1, number))).await;
        let found = other.read().await.unwrap();
        assert_eq!(found.len() as u64, number + 1);
        assert!(found.contains(&("a".to_owned(), stamp, row(1, number))), "{number}");
    }
}

pub(crate) async fn of_many_who_change_a_row_at_once_one_does(bench: &Shelves) {
    let mut last = None;
    for epoch in 1..6 {
        let writers = (0..8).map(|number| {
            let checkpoints = checkpoints(if number % 2 == 0 { &bench.one } else { &bench.other }, "p");
            tokio::spawn(async move { checkpoints.write(&[draft("a", last, Some(row(epoch, number)))]).await.unwrap().remove(0) })
        });
        let mut won = Vec::new();
        for (number, writer) in (0..).zip(writers.collect::<Vec<_>>()) {
            match writer.await.unwrap() {
                Written::Done(stamp) => won.push((number, stamp)),
                written => assert_eq!(written, Written::Conflict),
            }
        }
        let [(number, stamp)] = won[..] else { panic!("epoch {epoch}: {won:?}") };
        assert_eq!(checkpoints(&bench.one, "p").read().await, Ok(vec![("a".to_owned(), stamp, row(epoch, number))]));
        last = Some(stamp);
    }
}

pub(crate) async fn more_rows_than_fit_into_a_page_are_all_read(bench: &Shelves) {
    let name = |number: u64| format!("shardId-{number:012}");
    let checkpoints = checkpoints(&bench.one, "p");
    put(&self::checkpoints(&bench.one, "o"), "x", None, Some(row(1, 1))).await;
    let drafts: Vec<Draft> = (0..2_345).map(|number| draft(&name(number), None, Some(row(1, number)))).collect();
    let written = checkpoints.write(&drafts).await.unwrap();
    assert!(written.iter().all(|written| matches!(written, Written::Done(_))));
    let found: BTreeSet<String> = checkpoints.read().await.unwrap().into_iter().map(|(shard, ..)| shard).collect();
    assert_eq!(found, (0..2_345).map(name).collect());
    assert_eq!(survey(&*bench.other).await.unwrap().0.len(), 2_346);
}

fn leases(shelf: &Arc<dyn Shelf>, owner: &str) -> Leases {
    Leases::new(Arc::new(checkpoints(shelf, "p")), owner.to_owned(), Duration::from_millis(600))
}

fn all(shards: &[&str], number: u64) -> Vec<(String, Checkpoint)> {
    shards.iter().map(|shard| ((*shard).to_owned(), settled(number))).collect()
}

pub(crate) async fn a_worker_hands_its_shards_to_the_next(bench: &Shelves) {
    let (first, second) = (leases(&bench.one, "first"), leases(&bench.other, "second"));
    first.look().await.unwrap();
    assert_eq!(first.take(&all(&["a", "b"], 1)).await, Ok(vec!["a".to_owned(), "b".to_owned()]));
    second.look().await.unwrap();
    assert!(second.rows().iter().all(|(.., held)| *held == Held::Other { owner: "first".to_owned() }), "{:?}", second.rows());
    assert_eq!(second.take(&all(&["a", "b", "c"], 2)).await, Ok(vec!["c".to_owned()]));
    assert_eq!(first.save(&all(&["a"], 5)).await, Ok(Vec::new()));
    first.release_all().await.unwrap();
    second.look().await.unwrap();
    let expected = [("a", 5, Held::Free), ("b", 1, Held::Free), ("c", 2, Held::Mine)];
    assert_eq!(second.rows(), expected.map(|(shard, number, held)| (shard.to_owned(), settled(number), held)));
    assert_eq!(second.take(&all(&["a", "b"], 5)).await, Ok(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(first.save(&all(&["a"], 6)).await, Ok(vec!["a".to_owned()]), "it let that go");
    assert_eq!(second.save(&all(&["a"], 7)).await, Ok(Vec::new()));
    second.remove(&["a".to_owned()]).await.unwrap();
    first.look().await.unwrap();
    assert_eq!(first.rows().iter().map(|(shard, ..)| shard.as_str()).collect::<Vec<_>>(), ["b", "c"]);
}

pub(crate) async fn a_worker_that_is_gone_is_followed_by_the_next(bench: &Shelves) {
    let (first, second) = (leases(&bench.one, "first"), leases(&bench.other, "second"));
    assert_eq!(first.take(&all(&["a"], 1)).await, Ok(vec!["a".to_owned()]));
    let taken = async {
        loop {
            second.look().await.unwrap();
            if second.take(&all(&["a"], 1)).await.unwrap() == ["a"] {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), taken).await.expect("somebody takes over");
    assert_eq!(first.save(&all(&["a"], 2)).await, Ok(vec!["a".to_owned()]), "who was silent and comes back has lost it");
    first.look().await.unwrap();
    assert_eq!(first.rows(), [("a".to_owned(), settled(1), Held::Other { owner: "second".to_owned() })]);
}
