//! A rule with WHERE keeps the promise: in any order, however often, through whatever fails, the index comes to the fold, in which a document whose
//! highest revision does not match is absent.

use std::collections::BTreeMap;
use std::time::Duration;

use revsync::plan::filter::Filter;
use revsync::plan::mapping::{Deletes, Rule};
use revsync::plan::projection::Paths;
use revsync::record::Record;
use revsync::run::deliver::Settings;

use crate::dice::Dice;
use crate::line::{Bench, deliver};
use crate::qldb_stream::{Does, binary, record, records, revision, shard};
use crate::scripted_sink::{Chance, Step, busy};

fn rule(condition: &str) -> Rule {
    Rule { name: "Car".to_owned(), filter: Some(Filter::parse(condition).unwrap()), ..Rule::default() }
}

/// A car in a state; the state is no longer in the index.
fn car(state: &str) -> Does {
    Does::Put(format!("{{State:\"{state}\",N:1}}"))
}

fn bench(rule: Rule) -> Bench {
    let mut bench = Bench::with(Settings { request_operations: 1, ..Settings::default() });
    bench.rules = vec![rule];
    bench
}

async fn delivered(bench: &Bench, revisions: impl IntoIterator<Item = (u64, Does)>) -> Option<u64> {
    let mut line = bench.line();
    deliver(&mut line, &records(revisions.into_iter().map(|(version, does)| ("Car", "a", version, does)))).await.unwrap();
    assert!(line.counts().balanced() && line.counts().pending == 0, "{:?}", line.counts());
    bench.sink.documents().into_values().find_map(|(version, source)| source.map(|_| version))
}

#[tokio::test(start_paused = true)]
async fn a_row_that_left_comes_back_with_a_later_revision_that_matches() {
    let bench = bench(rule("State <> 'XX'"));
    assert_eq!(delivered(&bench, [(0, car("WA")), (1, car("XX"))]).await, None);
    assert_eq!(bench.sink.version("car", "a"), Some(1), "the delete is at the version of the revision that does not match");
    assert_eq!(delivered(&bench, [(2, car("OR")), (1, car("XX"))]).await, Some(2));
}

#[tokio::test(start_paused = true)]
async fn an_older_revision_that_matches_does_not_bring_back_a_row_that_left() {
    let bench = bench(rule("State <> 'XX'"));
    assert_eq!(delivered(&bench, [(1, car("XX"))]).await, None);
    assert_eq!(delivered(&bench, [(0, car("WA"))]).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_leaves_under_a_sink_that_refuses_is_sent_again_as_a_delete() {
    let bench = bench(rule("State <> 'XX'"));
    bench.sink.script([Step::Answer(vec![(0, busy())])]);
    assert_eq!(delivered(&bench, [(3, car("XX"))]).await, None);
    assert_eq!(bench.sink.sent(), [["delete a@3"], ["delete a@3"]]);
}

#[tokio::test(start_paused = true)]
async fn a_redaction_is_never_judged_and_never_removes_a_row() {
    let bench = bench(rule("State <> 'XX'"));
    assert_eq!(delivered(&bench, [(0, car("WA")), (1, Does::Redact)]).await, Some(0));
    assert_eq!(bench.sink.sent(), [["index a@0"]]);
}

/// Cars with their revisions, some of them twice, in any order, and what must be left of them.
fn stream(dice: &mut Dice) -> (Vec<Record>, BTreeMap<String, u64>) {
    let (mut values, mut fold) = (Vec::new(), BTreeMap::new());
    for number in 0..dice.between(1, 12) {
        let id = format!("car-{number}");
        for version in 0..dice.between(1, 6) as u64 {
            let does = match dice.below(10) {
                0 => Does::Delete,
                1 => Does::Put("{N:1}".to_owned()),
                2..6 => car("XX"),
                _ => car("WA"),
            };
            match does == car("WA") {
                true => fold.insert(id.clone(), version),
                false => fold.remove(&id),
            };
            values.push(revision("Car", &id, version, &does));
        }
    }
    for _ in 0..dice.below(values.len()) {
        values.push(dice.pick(&values).clone());
    }
    dice.shuffle(&mut values);
    let origin = shard("0");
    let records = values.into_iter().zip(0..).map(|(value, offset)| record(&origin, offset, binary(&[value]))).collect();
    (records, fold)
}

#[test]
fn in_any_order_and_through_any_faults_the_index_comes_to_the_fold_of_the_rows_that_match() {
    let (mut left, mut stayed) = (0, 0);
    for seed in 0..150 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut dice = Dice::new(seed);
            let (records, fold) = stream(&mut dice);
            let settings = Settings {
                request_operations: dice.between(1, 5),
                requests_in_flight: dice.between(1, 4),
                linger: Duration::from_millis(dice.below(300) as u64),
                ..Settings::default()
            };
            let mut bench = Bench::with(settings);
            let deletes = *dice.pick(&[Deletes::Delete, Deletes::Tombstone]);
            bench.rules = vec![Rule { exclude: Paths::parse(["State"]).unwrap(), deletes, ..rule("State <> 'XX'") }];
            bench.sink.chance(Some(Chance { dice: dice.clone(), percent: dice.between(0, 50), left: 30 }));
            let mut line = bench.line();
            deliver(&mut line, &records).await.unwrap();
            let counts = line.counts();
            assert!(counts.balanced() && counts.pending == 0 && counts.dead_letters == 0, "seed {seed}: {counts:?}");
            let index: BTreeMap<String, u64> = bench
                .sink
                .documents()
                .into_iter()
                .filter_map(|((_, id), (version, source))| {
                    assert!(source.as_ref().is_none_or(|source| source == "{\"N\":1}"), "seed {seed}: {source:?}");
                    source.map(|_| (id, version))
                })
                .collect();
            assert_eq!(index, fold, "seed {seed}");
            assert_eq!(bench.sink.violations(), [] as [String; 0], "seed {seed}");
            left += counts.deleted + counts.absent;
            stayed += fold.len();
        });
    }
    assert!(left > 500 && stayed > 200, "{left} {stayed}");
}

#[tokio::test(start_paused = true)]
async fn rows_that_leave_are_skipped_as_filtered_where_deletes_are_kept() {
    let bench = bench(Rule { deletes: Deletes::Keep, ..rule("State <> 'XX'") });
    let mut line = bench.line();
    deliver(&mut line, &records([("Car", "a", 0, car("WA")), ("Car", "a", 1, car("XX")), ("Car", "a", 2, Does::Delete)])).await.unwrap();
    assert_eq!(line.counts().skipped.into_iter().map(|(skip, count)| (skip.as_str(), count)).collect::<Vec<_>>(), [("filtered", 2)]);
    assert_eq!(bench.sink.version("car", "a"), Some(0));
}
