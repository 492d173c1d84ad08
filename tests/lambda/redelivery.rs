//! The handler between a model of the event source mapping and a sink with faults that heal: redelivered from what it answers, the index comes
//! to the fold of the stream, and nothing is ever acknowledged that is not settled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use revsync::plan::outcome::Failure;
use revsync::run::deliver::Settings;
use revsync::run::learned::Learned;
use revsync_lambda::Batch;

use crate::answered;
use crate::dice::Dice;
use crate::line::Bench;
use crate::mapping_model::{Invocation, Kept, Model};
use crate::qldb_stream::{Does, aggregate, binary, put, revision};
use crate::scripted_sink::{Chance, Step, busy, down, poison};

/// The one document that the index refuses for good.
const BAD: &str = "bad";

/// A revision: the document, the version, and whether it is a delete.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Planned {
    id: String,
    version: u64,
    is_delete: bool,
}

struct Stream {
    records: Vec<Kept>,
    revisions: Vec<Vec<Planned>>,
}

fn stream(dice: &mut Dice) -> Stream {
    let (mut records, mut revisions) = (Vec::new(), Vec::new());
    let mut number = *dice.pick(&[90, 995, 9_980]);
    for _ in 0..dice.between(5, 40) {
        let planned: Vec<Planned> = (0..if dice.percent(50) { 1 } else { dice.between(2, 6) })
            .map(|_| {
                let id = if dice.percent(10) { BAD.to_owned() } else { format!("d{}", dice.below(8)) };
                let version = dice.below(30) as u64;
                // What a version does is the same wherever it comes again.
                Planned { id, version, is_delete: version % 5 == 4 }
            })
            .collect();
        let user = |Planned { id, version, is_delete }: &Planned| {
            let does = if *is_delete { Does::Delete } else { put(&format!("{id}@{version}")) };
            binary(&[revision("Person", id, *version, &does)])
        };
        let users: Vec<_> = planned.iter().map(user).collect();
        let data = if users.len() == 1 { users[0].clone() } else { aggregate(&users) };
        records.push(Kept { number: number.to_string(), data: data.to_vec() });
        revisions.push(planned);
        number += dice.between(1, 3);
    }
    Stream { records, revisions }
}

/// The highest version of each document, and its content where it is not deleted.
fn fold(revisions: &[Vec<Planned>]) -> BTreeMap<String, (u64, Option<String>)> {
    let mut fold = BTreeMap::<String, (u64, Option<String>)>::new();
    for Planned { id, version, is_delete } in revisions.iter().flatten().filter(|planned| planned.id != BAD) {
        if fold.get(id).is_none_or(|(highest, _)| version > highest) {
            fold.insert(id.clone(), (*version, (!is_delete).then(|| format!(r#"{{"note":"{id}@{version}"}}"#))));
        }
    }
    fold
}

/// What goes wrong in one invocation, beside what chance does to its requests.
fn spoil(dice: &mut Dice, bench: &Bench) {
    match dice.below(9) {
        0 => bench.sink.rule(|rules| rules.down = Some(down("connection refused"))),
        1 => bench.sink.rule(|rules| rules.stalled = true),
        2 | 3 => {
            let id = format!("d{}", dice.below(8));
            bench.sink.rule(|rules| drop(rules.answers.insert(id, busy())));
        }
        4 => std::fs::rename(bench.letters_folder(), away(bench)).unwrap(),
        5 => bench.sink.script([Step::Panic]),
        6 => bench.sink.script([Step::Fail(Failure::Unauthorized { what: "status 401".to_owned() })]),
        7 => bench.sink.script([Step::Proper, Step::HangAfterWriting]),
        _ => {
            let chance = Chance { dice: dice.clone(), percent: 60, left: dice.between(1, 12) };
            bench.sink.chance(Some(chance));
        }
    }
}

fn heal(bench: &Bench) {
    bench.sink.rule(|rules| {
        rules.down = None;
        rules.answers = [(BAD.to_owned(), poison())].into();
    });
    bench.sink.release();
    bench.sink.clear();
    if away(bench).exists() {
        std::fs::rename(away(bench), bench.letters_folder()).unwrap();
    }
}

fn away(bench: &Bench) -> std::path::PathBuf {
    bench.letters_folder().with_file_name("away")
}

/// Every revision of these records is in the index, or overtaken there, or a letter.
fn check_settled(bench: &Bench, stream: &Stream, records: std::ops::Range<usize>, seed: u64) {
    let letters: Vec<_> = bench.letters().into_iter().map(|letter| (letter.position.to_string(), letter.version)).collect();
    for place in records {
        for (sub, Planned { id, version, .. }) in stream.revisions[place].iter().enumerate() {
            let number = &stream.records[place].number;
            let settled = if id == BAD {
                let single = stream.revisions[place].len() == 1;
                let position = if single { String::new() } else { format!(", sub-sequence number {sub}") };
                letters.contains(&(format!("sequence number {number}{position}"), Some(*version)))
            } else {
                bench.sink.version("person", id).is_some_and(|stored| stored >= *version)
            };
            assert!(settled, "seed {seed}: {number} was acknowledged, and {id}@{version} of it is not settled: {letters:?}");
        }
    }
}

async fn run(seed: u64) -> usize {
    let mut dice = Dice::new(seed);
    let settings = Settings {
        request_operations: dice.between(1, 6),
        requests_in_flight: dice.between(1, 4),
        give_up_after: Some(Duration::from_secs(dice.between(2, 90) as u64)),
        ..Settings::default()
    };
    let bench = Bench::with(settings);
    let stream = stream(&mut dice);
    let mut model = Model::new("shardId-000000000003", stream.records.clone(), dice.between(1, 30), dice.percent(70));
    let learned = Arc::new(Learned::new(&settings));
    heal(&bench);
    while let Some(event) = model.next() {
        if model.invocations() < 80 && dice.percent(60) {
            spoil(&mut dice, &bench);
        }
        let batch = Batch::read(&event).unwrap();
        let left = Duration::from_secs(dice.between(1, 60) as u64);
        let begun = tokio::time::Instant::now();
        let answered = answered(batch, bench.line_after(&learned), left).await;
        assert!(begun.elapsed() < left, "seed {seed}: {left:?} and answered after {:?}", begun.elapsed());
        assert_eq!(bench.sink.here(), 0, "seed {seed}");
        heal(&bench);
        // An answer may also be lost on its way.
        let invocation = match answered {
            Ok(reply) if !dice.percent(10) => Invocation::Answered(serde_json::to_string(&reply).unwrap()),
            _ => Invocation::Failed,
        };
        let acknowledged = model.hear(&invocation);
        check_settled(&bench, &stream, acknowledged, seed);
        assert!(model.invocations() < 400, "seed {seed}: no end");
    }
    let of_person = bench.sink.documents().into_iter().map(|((_, id), document)| (id, document));
    assert_eq!(of_person.collect::<BTreeMap<_, _>>(), fold(&stream.revisions), "seed {seed}");
    let bad = stream.revisions.iter().flatten().filter(|planned| planned.id == BAD).count();
    assert_eq!((bench.letters().len(), bench.sink.violations()), (bad, Vec::new()), "seed {seed}");
    model.invocations()
}

#[tokio::test(start_paused = true)]
async fn redelivered_from_what_is_answered_the_index_comes_to_the_fold_and_nothing_unsettled_is_acknowledged() {
    let mut invocations = 0;
    for seed in 0..if std::env::var("REVSYNC_TEST_LONG").is_ok() { 3_000 } else { 120 } {
        invocations += run(seed).await;
    }
    assert!(invocations > 500, "hardly anything came twice: {invocations}");
}
