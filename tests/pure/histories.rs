//! One stream into an index of the newest revisions and a history of all of them: each revision is a unit for each, and whatever the order, both
//! come to the fold of the stream.

use std::collections::BTreeMap;
use std::time::Duration;

use revsync::metrics::Skip;
use revsync::operation::Operation;
use revsync::plan::mapping::{Deletes, Mode, Redactions, Rule};
use revsync::plan::tombstone;
use revsync::record::Record;
use revsync::run::choice::Choice;
use revsync::run::deliver::{Deliver, Settings};
use revsync::run::replay::replay;
use revsync::store::dead_letters::DeadLetter;
use tokio::sync::watch;

use crate::dice::Dice;
use crate::line::{Bench, deliver};
use crate::qldb_stream::{Does, binary, put, record, records, revision, shard};
use crate::scripted_sink::{Chance, poison};

fn rule(mode: Mode) -> Rule {
    Rule { name: "*".into(), mode, ..Rule::default() }
}

fn erasing(deletes: Deletes) -> Rule {
    Rule { redactions: Redactions::Erase, deletes, ..rule(Mode::Latest) }
}

fn bench(rules: &[Rule]) -> Bench {
    let mut bench = Bench::with(Settings { give_up_after: Some(Duration::from_secs(60)), ..Settings::default() });
    bench.rules = rules.to_vec();
    bench
}

fn both() -> Bench {
    bench(&[rule(Mode::Latest), rule(Mode::History)])
}

fn is_history(operation: &Operation) -> bool {
    operation.target().index.ends_with("_history")
}

/// The source of a document of a history.
fn kept(document: &str, op: &str, id: &str, version: u64) -> String {
    let members = document.trim_start_matches('{').trim_end_matches('}');
    let comma = if members.is_empty() { "" } else { "," };
    format!(r#"{{{members}{comma}"revsync":{{"op":"{op}","id":"{id}","version":{version},"table":"Person"}}}}"#)
}

async fn replay_all(bench: &Bench) -> Deliver {
    let mut line = bench.line();
    let (_never, stop) = watch::channel(false);
    replay(&bench.store, &Choice::default(), None, &mut line, stop, |_| ()).await.unwrap();
    line
}

#[tokio::test(start_paused = true)]
async fn every_revision_is_a_unit_for_each_index_that_it_goes_to() {
    let bench = both();
    let mut line = bench.line();
    let stream = [("Person", "a", 0, put("x")), ("Person", "a", 1, Does::Redact), ("Person", "a", 2, Does::Delete)];
    deliver(&mut line, &records(stream)).await.unwrap();
    let counts = line.counts();
    assert_eq!((counts.received, counts.indexed, counts.compacted, counts.absent), (6, 3, 1, 1), "{counts:?}");
    assert_eq!(counts.skipped.get(&Skip::Redacted), Some(&1), "{counts:?}");
    let document = |version, source: Option<String>| (version, source);
    let held = bench.sink.documents();
    assert_eq!(held[&("person".into(), "a".into())], document(2, None));
    for (version, source) in
        [(0, kept(r#"{"note":"x"}"#, "index", "a", 0)), (1, kept("{}", "redacted", "a", 1)), (2, kept("{}", "delete", "a", 2))]
    {
        assert_eq!(held[&("person_history".into(), format!("a@{version}"))], document(version, Some(source)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_table_that_only_a_history_is_for_goes_nowhere_else() {
    let bench = bench(&[rule(Mode::History)]);
    let mut line = bench.line();
    deliver(&mut line, &records([("Person", "a", 0, put("x")), ("Person", "a", 0, put("x"))])).await.unwrap();
    assert_eq!((line.counts().received, line.counts().indexed, line.counts().compacted), (2, 1, 1));
    assert_eq!(bench.sink.documents().keys().map(|(index, _)| index.as_str()).collect::<Vec<_>>(), ["person_history"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_meant_for_a_history_is_a_letter_of_its_own_and_only_that_is_sent_again() {
    let stream = records([("Person", "a", 0, put("x"))]);
    let plain = Bench::new();
    plain.sink.rule(|rules| rules.refuses = |_| Some(poison()));
    deliver(&mut plain.line(), &stream).await.unwrap();

    let bench = both();
    bench.sink.rule(|rules| rules.refuses = |_| Some(poison()));
    let mut line = bench.line();
    deliver(&mut line, &stream).await.unwrap();
    assert_eq!((line.counts().received, line.counts().dead_letters), (2, 2));
    let letters = bench.letters();
    let of = |mode| letters.iter().find(|letter| letter.mode == Some(mode)).unwrap();
    let (latest, history) = (of(Mode::Latest), of(Mode::History));
    assert_eq!(latest.id, plain.letters()[0].id, "a history beside it does not change the id of a letter");
    assert_ne!(latest.id, history.id);
    assert_eq!((history.document_id.as_deref(), history.index.as_deref()), (Some("a@0"), Some("person_history")));
    assert_eq!(history.unit, latest.unit);

    for (refuses, left) in [(Mode::Latest, Mode::Latest), (Mode::History, Mode::History)] {
        let bench = both();
        bench.sink.rule(|rules| rules.refuses = |_| Some(poison()));
        deliver(&mut bench.line(), &stream).await.unwrap();
        bench.sink.rule(|rules| {
            rules.refuses = match refuses {
                Mode::Latest => |operation| (!is_history(operation)).then(poison),
                Mode::History => |operation| is_history(operation).then(poison),
            };
        });
        let line = replay_all(&bench).await;
        assert_eq!((line.counts().received, line.counts().indexed, line.counts().dead_letters), (2, 1, 1), "{refuses:?}");
        assert_eq!(bench.letters().iter().map(|letter| letter.mode).collect::<Vec<_>>(), [Some(left)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_letter_of_a_unit_that_could_not_be_read_is_for_everything_that_becomes_of_it() {
    let bench = both();
    deliver(&mut bench.line(), &[record(&shard("0"), 0, binary(&["7".to_owned()]))]).await.unwrap();
    let letters = bench.letters();
    assert_eq!(letters.iter().map(|letter| letter.mode).collect::<Vec<_>>(), [None]);
    // As it is where it can be read now.
    let readable = DeadLetter { payload: binary(&[revision("Person", "a", 0, &put("x"))]), ..letters[0].clone() };
    let mut line = bench.line();
    line.push_letter(&readable).await.unwrap();
    line.finish().await.unwrap();
    assert_eq!((line.counts().received, line.counts().indexed), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_redaction_holds_against_the_put_of_its_version_in_one_batch_and_in_two() {
    for (first, second) in [(put("secret"), Does::Redact), (Does::Redact, put("secret"))] {
        for together in [true, false] {
            let bench = bench(&[erasing(Deletes::Delete), rule(Mode::History)]);
            let mut line = bench.line();
            let stream = records([("Person", "a", 4, first.clone()), ("Person", "a", 4, second.clone())]);
            for record in &stream {
                line.push(record).await.unwrap();
                if !together {
                    line.finish().await.unwrap();
                }
            }
            line.finish().await.unwrap();
            let held = bench.sink.documents();
            assert_eq!(held[&("person".into(), "a".into())], (4, None), "{first:?} {together}");
            assert_eq!(held[&("person_history".into(), "a@4".into())], (4, Some(kept("{}", "redacted", "a", 4))), "{first:?} {together}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_redaction_that_waits_for_its_index_holds_against_a_put_that_waits_before_or_behind_it() {
    for (first, second) in [(put("secret"), Does::Redact), (Does::Redact, put("secret"))] {
        let bench = bench(&[erasing(Deletes::Delete), rule(Mode::History)]);
        for index in ["person", "person_history"] {
            bench.sink.block(index);
        }
        let mut line = bench.line();
        for record in records([("Person", "a", 4, first.clone()), ("Person", "a", 4, second.clone())]) {
            line.push(&record).await.unwrap();
            line.flush().await.unwrap();
            // Until it is known that the index is blocked.
            for _ in 0..4 {
                let _ = tokio::time::timeout(Duration::from_millis(300), line.tend()).await;
            }
        }
        assert_eq!(line.blocked().count(), 2);
        bench.sink.rule(|rules| rules.blocked.clear());
        line.finish().await.unwrap();
        let held = bench.sink.documents();
        assert_eq!(held[&("person".into(), "a".into())], (4, None), "{first:?}");
        assert_eq!(held[&("person_history".into(), "a@4".into())], (4, Some(kept("{}", "redacted", "a", 4))), "{first:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn content_that_was_redacted_is_not_written_where_the_redaction_is_refused() {
    for (first, second) in [(put("secret"), Does::Redact), (Does::Redact, put("secret"))] {
        let bench = bench(&[rule(Mode::History)]);
        bench.sink.rule(|rules| {
            rules.refuses = |operation| {
                let Operation::Index { document, .. } = operation else { return None };
                document.as_bytes().starts_with(br#"{"revsync":{"op":"redacted""#).then(poison)
            };
        });
        let mut line = bench.line();
        deliver(&mut line, &records([("Person", "a", 4, first), ("Person", "a", 4, second)])).await.unwrap();
        let counts = line.counts();
        assert_eq!((counts.dead_letters, counts.compacted, counts.pending), (1, 1, 0), "{counts:?}");
        assert!(bench.sink.documents().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_erasure_is_counted_as_what_it_becomes() {
    for (deletes, is_deleted) in [(Deletes::Delete, 1), (Deletes::Tombstone, 1)] {
        let bench = bench(&[erasing(deletes)]);
        let mut line = bench.line();
        deliver(&mut line, &records([("Person", "a", 3, put("x"))])).await.unwrap();
        deliver(&mut line, &records([("Person", "a", 3, Does::Redact), ("Person", "b", 1, put("y"))])).await.unwrap();
        deliver(&mut line, &records([("Person", "b", 0, Does::Redact)])).await.unwrap();
        let counts = line.counts();
        assert_eq!((counts.indexed, counts.deleted, counts.stale), (2, is_deleted, 1), "{counts:?}");
        assert!(counts.skipped.values().all(|count| *count == 0), "{counts:?}");
        assert_eq!(bench.sink.version("person", "b"), Some(1), "a newer revision is untouched");
    }
}

/// What a stream comes to: of each document the newest version with its source, and of each revision its document.
#[derive(Debug, Default, PartialEq)]
struct Fold {
    latest: BTreeMap<String, (u64, Option<String>)>,
    history: BTreeMap<String, (u64, Option<String>)>,
}

/// A ledger's life: what each revision did, and whether it was redacted since.
fn life(dice: &mut Dice) -> (Vec<(String, u64, Does)>, Fold) {
    let (mut stream, mut fold) = (Vec::new(), Fold::default());
    for number in 0..dice.between(1, 5) {
        let id = format!("doc-{number}");
        for version in 0..dice.between(1, 6) as u64 {
            let text = format!(r#"{{"note":"{}"}}"#, dice.below(1_000));
            let does = if dice.percent(20) { Does::Delete } else { Does::Put(text.clone()) };
            let is_redacted = does != Does::Delete && dice.percent(30);
            // Some have it only as it is since.
            if !is_redacted || dice.percent(70) {
                stream.push((id.clone(), version, does.clone()));
            }
            let (op, source) = match does {
                _ if is_redacted => ("redacted", None),
                Does::Delete => ("delete", None),
                _ => ("index", Some(text)),
            };
            if is_redacted {
                stream.push((id.clone(), version, Does::Redact));
            }
            let document = kept(source.as_deref().unwrap_or("{}"), op, &id, version);
            fold.history.insert(format!("{id}@{version}"), (version, Some(document)));
            fold.latest.insert(id.clone(), (version, source));
        }
    }
    for _ in 0..dice.below(stream.len() + 1) {
        stream.push(dice.pick(&stream).clone());
    }
    dice.shuffle(&mut stream);
    (stream, fold)
}

/// What the sink holds; a tombstone is nothing.
fn held(bench: &Bench) -> Fold {
    let mut fold = Fold::default();
    for ((index, id), (version, source)) in bench.sink.documents() {
        let source = source.filter(|source| tombstone::read(source.as_bytes()).is_none());
        if index == "person" {
            fold.latest.insert(id, (version, source))
        } else {
            fold.history.insert(id, (version, source))
        };
    }
    fold
}

#[tokio::test(start_paused = true)]
async fn whatever_the_order_and_the_faults_both_indices_come_to_the_fold() {
    let cases = if std::env::var_os("REVSYNC_TEST_LONG").is_some_and(|value| value == "1") { 5_000 } else { 400 };
    for seed in 0..cases {
        let dice = &mut Dice::new(seed);
        let (stream, expected) = life(dice);
        let deletes = *dice.pick(&[Deletes::Delete, Deletes::Tombstone]);
        let mut bench = bench(&[erasing(deletes), rule(Mode::History)]);
        bench.settings.request_bytes = dice.between(200, 3_000);
        bench.settings.request_operations = dice.between(1, 9);
        bench.settings.requests_in_flight = dice.between(1, 4);
        bench.settings.give_up_after = None;
        bench.sink.chance(Some(Chance { dice: dice.clone(), percent: dice.between(0, 60), left: 20 }));
        let mut line = bench.line();
        let origin = shard("0");
        for (offset, (id, version, does)) in (0..).zip(&stream) {
            let read: Record = record(&origin, offset, binary(&[revision("Person", id, *version, does)]));
            line.push(&read).await.unwrap();
        }
        line.finish().await.unwrap();
        let counts = line.counts();
        assert_eq!((counts.received, counts.pending, counts.dead_letters), (2 * stream.len() as u64, 0, 0), "seed {seed}");
        assert_eq!(held(&bench), expected, "seed {seed}");
        assert!(bench.sink.violations().is_empty(), "seed {seed}: {:?}", bench.sink.violations());
    }
}
