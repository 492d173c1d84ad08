//! The promise for rows that are put together from cells: whatever the order, whatever comes twice, whatever goes wrong on the way, the index comes to
//! the fold of all changes but those that are dead letters.
//!
//! As the model of whole documents (`model`): each case is named by its seed and comes out the same in every run, and `REVSYNC_TEST_LONG=1` runs
//! thousands.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use revsync::codec::{Decoder, Format, Options, Rows, TableOptions};
use revsync::operation::Operation;
use revsync::plan::cells::Row;
use revsync::plan::mapping::{Mapping, Rule};
use revsync::plan::outcome::Reply;
use revsync::record::{Origin, Position, Record};
use revsync::revision::{Cell, Cells};
use revsync::run::deliver::{Deliver, Settings};
use revsync::sink::local::Local;

use crate::dice::Dice;
use crate::line::{Bench, deliver};
use crate::model::{cases, in_simulated_time, meanwhile};
use crate::scripted_sink::{Chance, poison};

const TABLE: &str = "shop.item";

/// What must become of one record.
#[derive(Debug, Clone)]
enum Unit {
    /// It is in the row.
    Merged {
        id: String,
        change: Cells,
    },
    /// The sink can never take it.
    Poison {
        id: String,
    },
    Undecodable,
    Skipped,
}

struct Stream {
    records: Vec<Record>,
    /// By shard and place: what each record carries.
    units: HashMap<(Arc<Origin>, Position), Unit>,
}

impl Stream {
    fn new(dice: &mut Dice, poison: bool) -> Self {
        let mut messages: Vec<(String, Unit)> = Vec::new();
        for number in 0..dice.between(1, 6) {
            let id = format!("MX-{number}");
            (0..dice.between(1, 9)).for_each(|_| messages.push(message(dice, &id, poison)));
        }
        for _ in 0..dice.below(4) {
            messages.push(match dice.below(2) {
                0 => (r#"{"op":"Increment","table":"shop.item","ts":1,"data":[]}"#.to_owned(), Unit::Undecodable),
                _ => (key_only(), Unit::Skipped),
            });
        }
        for _ in 0..dice.below(2 * messages.len()) {
            messages.push(dice.pick(&messages).clone());
        }
        dice.shuffle(&mut messages);
        let shards: Vec<Arc<Origin>> =
            (0..dice.between(1, 3)).map(|number| Arc::new(Origin { stream: "s".into(), shard: number.to_string() })).collect();
        let (mut records, mut units) = (Vec::new(), HashMap::new());
        for (offset, (text, unit)) in messages.into_iter().enumerate() {
            let (origin, position) = (dice.pick(&shards).clone(), Position::Byte { offset: offset as u64 });
            units.insert((origin.clone(), position.clone()), unit);
            records.push(Record { origin, position, data: Bytes::from(text), arrived: None, damage: None, message: None });
        }
        Self { records, units }
    }

    /// Of every row what all changes come to that are no dead letters.
    fn fold(&self) -> BTreeMap<(String, String), Row> {
        let mut rows = BTreeMap::<(String, String), Row>::new();
        for unit in self.units.values() {
            if let Unit::Merged { id, change } = unit {
                rows.entry(("shop.item".to_owned(), id.clone())).or_default().merge(change);
            }
        }
        rows
    }

    fn count(&self, is: fn(&Unit) -> bool) -> u64 {
        self.units.values().filter(|unit| is(unit)).count() as u64
    }
}

fn key_only() -> String {
    r#"{"op":"Put","table":"shop.item","ts":7,"keyOnly":true,"data":[{"type":"VARCHAR","name":"sku","value":"MX-0"}]}"#.to_owned()
}

/// A put of some columns, most with a version of their own, or an erasure.
fn message(dice: &mut Dice, id: &str, poison: bool) -> (String, Unit) {
    let ts = dice.below(20) as u64;
    let key = format!(r#"{{"type":"VARCHAR","name":"sku","value":"{id}"}}"#);
    if dice.percent(20) {
        let text = format!(r#"{{"op":"DeleteFamily","table":"{TABLE}","ts":{ts},"keyOnly":false,"data":[{key}]}}"#);
        return (text, Unit::Merged { id: id.to_owned(), change: Cells { erased: Some(ts), columns: vec![] } });
    }
    let mut entries = vec![key];
    let mut columns = BTreeMap::from([("sku".to_owned(), (ts, format!("\"{id}\"")))]);
    for name in ["f:a", "f:b", "f:c"] {
        if dice.percent(50) {
            let version = dice.below(20) as u64;
            let value = (*dice.pick(&["7", "442.30", "\"text\"", "null", "[1.0]"])).to_owned();
            entries.push(format!(r#"{{"type":"ANY","name":"{name}","ts":{version},"value":{value}}}"#));
            columns.insert(name.to_owned(), (version, value));
        }
    }
    let kind = if poison && dice.percent(10) { Some(*dice.pick(&["refused", "odd", "spoils"])) } else { None };
    if let Some(kind) = kind {
        entries.push(format!(r#"{{"type":"ANY","name":"{kind}","value":1}}"#));
    }
    let text = format!(r#"{{"op":"Put","table":"{TABLE}","ts":{ts},"keyOnly":false,"data":[{}]}}"#, entries.join(","));
    let columns = columns.into_iter().map(|(name, (version, value))| Cell { name, version, value: value.into() }).collect();
    let unit = match kind {
        Some(_) => Unit::Poison { id: id.to_owned() },
        None => Unit::Merged { id: id.to_owned(), change: Cells { erased: None, columns } },
    };
    (text, unit)
}

fn has(operation: &Operation, name: &str) -> bool {
    matches!(operation, Operation::Merge { cells, .. } if cells.columns.iter().any(|cell| cell.name == name))
}

fn decoder() -> Decoder {
    let table = |_: &str| TableOptions { key: vec!["sku".to_owned()], rows: Rows::Cells, ..TableOptions::default() };
    Decoder::new(Options { format: Format::Lindorm, table: Box::new(table), ..Options::default() })
}

fn mapping() -> Mapping {
    Mapping::new(vec![Rule { name: "*".to_owned(), rows: Rows::Cells, ..Rule::default() }]).unwrap()
}

fn settings(dice: &mut Dice) -> Settings {
    Settings {
        request_bytes: dice.between(200, 9_000),
        request_operations: dice.between(1, 9),
        requests_in_flight: dice.between(1, 4),
        linger: Duration::from_millis(dice.below(500) as u64),
        max_rate: None,
        give_up_after: None,
        waits_for_repair: false,
        breaker: None,
    }
}

fn bench(dice: &mut Dice) -> Bench {
    let bench = Bench::with(settings(dice));
    bench.sink.rule(|rules| {
        rules.refuses = |operation| match operation {
            _ if has(operation, "refused") => Some(poison()),
            _ if has(operation, "odd") => Some(Reply::error(500, "surprising_exception", "who knows")),
            _ => None,
        };
        rules.spoils = |operation| has(operation, "spoils");
        rules.takes = Duration::from_millis(dice.below(50) as u64);
    });
    bench.sink.chance(Some(Chance { dice: dice.clone(), percent: dice.between(0, 60), left: 40 }));
    bench
}

fn line(bench: &Bench) -> Deliver {
    Deliver::new(decoder(), mapping(), bench.sink.clone(), bench.store.clone(), bench.settings)
}

/// What is settled, judged from what the sink and the letters really hold.
struct Auditor<'a> {
    stream: &'a Stream,
    bench: &'a Bench,
    letters: BTreeSet<(Origin, String)>,
    stored: u64,
}

impl<'a> Auditor<'a> {
    fn new(stream: &'a Stream, bench: &'a Bench) -> Self {
        Self { stream, bench, letters: BTreeSet::new(), stored: u64::MAX }
    }

    /// Whatever counts as settled is in its row, or is a stored letter.
    fn audit(&mut self, line: &Deliver, seed: u64) {
        let counts = line.counts();
        assert!(counts.balanced(), "seed {seed}: {counts:?}");
        if counts.dead_letters != self.stored {
            let lines = self.bench.letter_lines();
            self.letters = lines.into_iter().map(|letter| (letter.origin, letter.position.to_string())).collect();
            self.stored = counts.dead_letters;
        }
        for record in &self.stream.records {
            if line.ledger().checkpoint(&record.origin).is_none_or(|checkpoint| record.position > *checkpoint) {
                continue;
            }
            let holds = match &self.stream.units[&(record.origin.clone(), record.position.clone())] {
                Unit::Merged { id, change } => self.bench.sink.row("shop.item", id).is_some_and(|mut row| !row.merge(change)),
                Unit::Poison { .. } | Unit::Undecodable => self.letters.contains(&((*record.origin).clone(), record.position.to_string())),
                Unit::Skipped => true,
            };
            assert!(holds, "seed {seed}: {} counts as settled, and is not", record.position);
        }
    }
}

fn check_the_end(stream: &Stream, bench: &Bench, line: &Deliver, seed: u64) {
    let counts = line.counts();
    assert!(counts.balanced() && counts.pending == 0, "seed {seed}: {counts:?}");
    assert_eq!(counts.received, stream.records.len() as u64, "seed {seed}");
    assert_eq!(counts.compacted, 0, "seed {seed}: a merge is never left out");
    let letters = stream.count(|unit| matches!(unit, Unit::Poison { .. } | Unit::Undecodable));
    assert_eq!(counts.dead_letters, letters, "seed {seed}");
    for ((index, id), row) in stream.fold() {
        assert_eq!(bench.sink.row(&index, &id), Some(row), "seed {seed}: {id}");
    }
    let poisoned: BTreeSet<&str> =
        stream.units.values().filter_map(|unit| if let Unit::Poison { id } = unit { Some(id.as_str()) } else { None }).collect();
    for letter in bench.letters() {
        let known = letter.document_id.as_deref().is_none_or(|id| poisoned.contains(id));
        assert!(known && letter.action.as_deref().is_none_or(|action| action == "merge"), "seed {seed}: {letter:?}");
    }
}

#[test]
fn whatever_goes_wrong_every_row_comes_to_the_fold_of_its_cells() {
    for seed in 0..cases(100) {
        in_simulated_time(async move {
            let mut dice = Dice::new(seed);
            let stream = Stream::new(&mut dice, true);
            let bench = bench(&mut dice);
            let mut line = line(&bench);
            let mut auditor = Auditor::new(&stream, &bench);
            for record in &stream.records {
                line.push(record).await.unwrap();
                meanwhile(&mut dice, &mut line).await;
                auditor.audit(&line, seed);
            }
            line.finish().await.unwrap();
            auditor.audit(&line, seed);
            check_the_end(&stream, &bench, &line, seed);
            assert_eq!(bench.sink.violations(), [] as [String; 0], "seed {seed}");
        });
    }
}

#[test]
fn a_run_that_is_stopped_anywhere_is_completed_by_another_and_every_row_comes_to_the_fold() {
    for seed in 0..cases(40) {
        in_simulated_time(async move {
            let mut dice = Dice::new(seed);
            let stream = Stream::new(&mut dice, false);
            let bench = bench(&mut dice);
            for _ in 0..dice.between(1, 3) {
                let mut stopped = line(&bench);
                let until = tokio::time::Instant::now() + Duration::from_millis(dice.below(2_000) as u64);
                for record in &stream.records {
                    if tokio::time::timeout_at(until, stopped.push(record)).await.is_err() {
                        break;
                    }
                    meanwhile(&mut dice, &mut stopped).await;
                }
                stopped.stop(Duration::from_millis(dice.below(1_000) as u64)).await;
                Auditor::new(&stream, &bench).audit(&stopped, seed);
            }
            let mut line = line(&bench);
            deliver(&mut line, &stream.records).await.unwrap();
            for ((index, id), row) in stream.fold() {
                assert_eq!(bench.sink.row(&index, &id), Some(row), "seed {seed}: {id}");
            }
        });
    }
}

#[test]
fn the_local_index_comes_to_the_fold_of_the_cells_too() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for seed in 0..cases(20) {
        runtime.block_on(async {
            let mut dice = Dice::new(seed);
            let stream = Stream::new(&mut dice, false);
            let bench = Bench::with(Settings { linger: Duration::from_millis(1), ..settings(&mut dice) });
            let local = Arc::new(Local::open(&bench.letters_folder().join("index.db")).unwrap());
            let mut line = Deliver::new(decoder(), mapping(), local.clone(), bench.store.clone(), bench.settings);
            deliver(&mut line, &stream.records).await.unwrap();
            assert!(line.counts().balanced() && line.counts().pending == 0, "seed {seed}");
            for ((index, id), row) in stream.fold() {
                let (version, source) = local.get(&index, &id).unwrap().unwrap();
                assert_eq!(version, row.version(), "seed {seed}: {id}");
                match row.document() {
                    Some(document) => assert_eq!(source.as_bytes(), document.as_bytes(), "seed {seed}: {id}"),
                    None => assert!(source.contains(r#""deleted":true"#), "seed {seed}: {id} is {source}"),
                }
            }
        });
    }
}
