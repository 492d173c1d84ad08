//! The promise as a whole: whatever the stream, whatever the cuts, whatever goes wrong on the way, the index comes to the fold of the stream.
//!
//! Each case is a small ledger with its revisions as QLDB records, some of them twice, in any order, in several shards, through a line with random
//! settings, into a sink that fails by chance; after every step nothing may be settled that is not. A case is named by its seed and comes out the
//! same in every run. `REVSYNC_TEST_LONG=1` runs thousands.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use revsync::codec::Decoder;
use revsync::error::Kind;
use revsync::metrics::Counts;
use revsync::operation::Operation;
use revsync::plan::breaker::Thresholds;
use revsync::plan::mapping::{Deletes, Mapping, Rule};
use revsync::plan::outcome::Reply;
use revsync::plan::rate::PerSecond;
use revsync::plan::tombstone;
use revsync::record::{Origin, Position, Record, SequenceNumber};
use revsync::run::deliver::{Deliver, Settings};
use revsync::sink::local::Local;

use crate::dice::Dice;
use crate::line::{Bench, deliver};
use crate::qldb_stream::{Does, aggregate, binary, control, revision, shard, text, value};
use crate::scripted_sink::{Chance, poison};

const TABLES: [(&str, &str); 3] = [("Person", "person"), ("VehicleRegistration", "vehicle_registration"), ("HTTPLog", "http_log")];

/// What must become of one unit.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Unit {
    /// The index comes to this version or a higher one.
    Sent {
        index: &'static str,
        id: String,
        version: u64,
        document: Option<String>,
    },
    /// The sink can never take it: a dead letter, unless something higher was sent in its place.
    Poison {
        index: &'static str,
        id: String,
        version: u64,
    },
    /// It never gets as far as the sink.
    Undecodable,
    Skipped,
}

struct Stream {
    records: Vec<Record>,
    /// By shard and place: what each record carries.
    units: HashMap<(Arc<Origin>, Position), Vec<Unit>>,
    received: u64,
}

/// What the sink has of each document at the end.
type Index = BTreeMap<(String, String), (u64, Option<String>)>;

impl Stream {
    /// A ledger's life. `poison` also makes documents that only the sink refuses.
    fn new(dice: &mut Dice, poison: bool) -> Self {
        let mut values = Vec::new();
        for number in 0..dice.between(1, 9) {
            let (table, index) = *dice.pick(&TABLES);
            let id = match dice.below(12) {
                0 => format!("{number}{}", "é".repeat(300)),
                _ => format!("doc-{number}"),
            };
            for version in 0..dice.between(1, 7) as u64 {
                values.push(Self::value(dice, table, index, &id, version, poison));
            }
        }
        for _ in 0..dice.below(4) {
            values.push(match dice.below(3) {
                0 => (control(), Unit::Skipped),
                1 => (value("BLOCK_SUMMARY", "{}"), Unit::Skipped),
                _ => (value("NEWS", "{}"), Unit::Undecodable),
            });
        }
        for _ in 0..dice.below(values.len()) {
            values.push(dice.pick(&values).clone());
        }
        match dice.below(3) {
            0 => {}
            // Nearly in order, as shards and retries leave it.
            1 => (1..values.len()).for_each(|i| {
                if dice.percent(30) {
                    values.swap(i - 1, i)
                }
            }),
            _ => dice.shuffle(&mut values),
        }
        Self::cut(dice, values)
    }

    fn value(dice: &mut Dice, table: &str, index: &'static str, id: &str, version: u64, poison: bool) -> (String, Unit) {
        let padding = "x".repeat(if dice.percent(10) { dice.below(600) } else { dice.below(20) });
        let kind = match dice.below(100) {
            0..10 => return (revision(table, id, version, &Does::Delete), Self::unit(index, id, version, None)),
            10..16 => return (revision(table, id, version, &Does::Redact), Unit::Skipped),
            16..26 if poison => *dice.pick(&["refused", "odd", "spoils", "large"]),
            _ => "good",
        };
        let padding = if kind == "large" { "y".repeat(LARGEST) } else { padding };
        let data = format!(r#"{{"kind":"{kind}","of":"{version}","padding":"{padding}"}}"#);
        let unit = match kind {
            "good" => Self::unit(index, id, version, Some(data.clone())),
            _ if id.len() > 512 => Unit::Undecodable,
            _ => Unit::Poison { index, id: id.to_owned(), version },
        };
        (revision(table, id, version, &Does::Put(data)), unit)
    }

    fn unit(index: &'static str, id: &str, version: u64, document: Option<String>) -> Unit {
        if id.len() > 512 { Unit::Undecodable } else { Unit::Sent { index, id: id.to_owned(), version, document } }
    }

    /// Puts values into records, and records into shards.
    fn cut(dice: &mut Dice, values: Vec<(String, Unit)>) -> Self {
        let shards: Vec<Arc<Origin>> = (0..dice.between(1, 3)).map(|number| shard(&number.to_string())).collect();
        let (mut records, mut units, mut received) = (Vec::new(), HashMap::new(), 0);
        let mut values = values.into_iter().peekable();
        let mut offset = 0;
        while values.peek().is_some() {
            let mut user_records: Vec<Bytes> = Vec::new();
            let mut carried = Vec::new();
            for _ in 0..if dice.percent(20) { dice.between(1, 4) } else { 1 } {
                let count = if dice.percent(15) { 3 } else { 1 };
                let (texts, these): (Vec<String>, Vec<Unit>) = values.by_ref().take(count).unzip();
                user_records.push(if dice.percent(20) { text(&texts) } else { binary(&texts) });
                carried.extend(if texts.is_empty() { vec![Unit::Skipped] } else { these });
            }
            if dice.percent(5) {
                user_records.push(Bytes::from_static(b"\xff\xfe what is this"));
                carried.push(Unit::Undecodable);
            }
            let data = if user_records.len() > 1 || dice.percent(5) { aggregate(&user_records) } else { user_records.remove(0) };
            offset += dice.between(1, 1_000) as u64;
            let origin = dice.pick(&shards).clone();
            let position = if origin.shard == "0" {
                Position::Byte { offset }
            } else {
                Position::Sequence { number: SequenceNumber(offset.to_string()), sub: None }
            };
            received += carried.len() as u64;
            units.insert((origin.clone(), position.clone()), carried);
            records.push(Record { origin, position, data, arrived: None, damage: None, message: None });
        }
        Self { records, units, received }
    }

    /// Of every document the highest version that is no dead letter.
    fn fold(&self) -> Index {
        let mut fold = Index::new();
        for unit in self.units.values().flatten() {
            if let Unit::Sent { index, id, version, document } = unit {
                let newest = fold.entry(((*index).to_owned(), id.clone())).or_insert_with(|| (*version, document.clone()));
                if *version > newest.0 {
                    *newest = (*version, document.clone());
                }
            }
        }
        fold
    }

    fn undecodable(&self) -> u64 {
        self.units.values().flatten().filter(|unit| **unit == Unit::Undecodable).count() as u64
    }
}

/// Bytes of operations that one request may have in a model.
const LARGEST: usize = 6_000;

fn settings(dice: &mut Dice) -> Settings {
    Settings {
        request_bytes: dice.between(200, 5_000),
        request_operations: dice.between(1, 9),
        requests_in_flight: dice.between(1, 4),
        linger: Duration::from_millis(dice.below(500) as u64),
        max_rate: if dice.percent(25) { PerSecond::new(dice.between(5, 500) as u32) } else { None },
        give_up_after: None,
        waits_for_repair: false,
        // Here documents are to be blamed, and not their index.
        breaker: None,
    }
}

fn is(operation: &Operation, kind: &str) -> bool {
    let Operation::Index { document, .. } = operation else { return false };
    document.as_bytes().starts_with(format!(r#"{{"kind":"{kind}""#).as_bytes())
}

/// Deletes that leave tombstones, in half of the models.
fn rules(dice: &mut Dice) -> Vec<Rule> {
    if dice.percent(50) { vec![] } else { vec![Rule { name: "*".into(), deletes: Deletes::Tombstone, ..Rule::default() }] }
}

fn bench(dice: &mut Dice, faults: usize) -> Bench {
    let mut bench = Bench::with(settings(dice));
    bench.rules = rules(dice);
    bench.sink.rule(|rules| {
        rules.refuses = |operation| match operation {
            _ if is(operation, "refused") => Some(poison()),
            _ if is(operation, "odd") => Some(Reply::error(500, "surprising_exception", "who knows")),
            _ => None,
        };
        rules.spoils = |operation| is(operation, "spoils");
        rules.largest = LARGEST;
        rules.takes = Duration::from_millis(dice.below(50) as u64);
    });
    bench.sink.chance(Some(Chance { dice: dice.clone(), percent: dice.between(0, 60), left: faults }));
    bench
}

/// What is settled, judged from what the sink and the letters really hold.
struct Auditor<'a> {
    stream: &'a Stream,
    bench: &'a Bench,
    /// The records of each shard, in their order, and how many were found settled.
    shards: BTreeMap<Arc<Origin>, (Vec<&'a Record>, usize)>,
    letters: BTreeSet<(Origin, String)>,
    stored: u64,
    /// Letters of earlier lines on the same bench.
    before: u64,
}

impl<'a> Auditor<'a> {
    fn new(stream: &'a Stream, bench: &'a Bench) -> Self {
        let mut shards = BTreeMap::<_, (Vec<&Record>, usize)>::new();
        stream.records.iter().for_each(|record| shards.entry(record.origin.clone()).or_default().0.push(record));
        let before = bench.letter_lines().len() as u64;
        Self { stream, bench, shards, letters: BTreeSet::new(), stored: u64::MAX, before }
    }

    /// The record of a letter, whatever sub-record it is about.
    fn place(origin: &Origin, position: &Position) -> (Origin, String) {
        let place = match position {
            Position::Sequence { number, .. } => number.0.clone(),
            other => other.to_string(),
        };
        (origin.clone(), place)
    }

    fn audit(&mut self, line: &Deliver, seed: u64) {
        let counts = line.counts();
        assert!(counts.balanced(), "seed {seed}: {counts:?}");
        if counts.dead_letters != self.stored {
            let lines = self.bench.letter_lines();
            assert_eq!(lines.len() as u64, self.before + counts.dead_letters, "seed {seed}: letters are counted when they are stored");
            self.letters = lines.iter().map(|letter| Self::place(&letter.origin, &letter.position)).collect();
            self.stored = counts.dead_letters;
        }
        for (origin, (records, settled)) in &mut self.shards {
            let Some(checkpoint) = line.ledger().checkpoint(origin) else { continue };
            while records.get(*settled).is_some_and(|record| record.position <= *checkpoint) {
                let record = records[*settled];
                let stored = self.letters.contains(&Self::place(origin, &record.position));
                for unit in &self.stream.units[&(origin.clone(), record.position.clone())] {
                    let sink = &self.bench.sink;
                    let reached = |index: &str, id: &str, version: u64| sink.version(index, id).is_some_and(|stored| stored >= version);
                    let holds = match unit {
                        Unit::Sent { index, id, version, .. } => reached(index, id, *version),
                        Unit::Poison { index, id, version } => stored || reached(index, id, *version),
                        Unit::Undecodable => stored,
                        Unit::Skipped => true,
                    };
                    assert!(holds, "seed {seed}: {origin} at {} counts as settled, and {unit:?} is not", record.position);
                }
                *settled += 1;
            }
        }
    }
}

/// Time passes, or something is sent before its time, or nothing happens between two records.
pub async fn meanwhile(dice: &mut Dice, line: &mut Deliver) {
    match dice.below(8) {
        0 => tokio::time::sleep(Duration::from_millis(dice.below(300) as u64)).await,
        1 => line.flush().await.unwrap(),
        2 => drop(tokio::time::timeout(Duration::from_millis(dice.below(300) as u64), line.tend()).await),
        3 => tokio::task::yield_now().await,
        _ => {}
    }
}

pub fn in_simulated_time(case: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(case);
}

pub fn cases(short: u64) -> u64 {
    match std::env::var("REVSYNC_TEST_LONG").as_deref() {
        Ok("" | "0") | Err(_) => short,
        Ok(_) => short * 40,
    }
}

fn check_the_end(stream: &Stream, counts: &Counts, index: &Index, seed: u64) {
    assert!(counts.balanced() && counts.pending == 0, "seed {seed}: {counts:?}");
    assert_eq!(counts.received, stream.received, "seed {seed}");
    assert_eq!(index, &stream.fold(), "seed {seed}");
    assert!(counts.dead_letters >= stream.undecodable(), "seed {seed}: {counts:?}");
}

fn check_the_letters(stream: &Stream, bench: &Bench, seed: u64) {
    let letters = bench.letters();
    let distinct: BTreeSet<&str> = letters.iter().map(|letter| letter.id.as_str()).collect();
    assert_eq!(distinct.len(), letters.len(), "seed {seed}: two letters of one unit");
    for letter in &letters {
        let origin = stream
            .units
            .keys()
            .find(|(origin, position)| Auditor::place(origin, position) == Auditor::place(&letter.origin, &letter.position));
        let units = &stream.units[origin.unwrap()];
        let unit = &units[letter.unit as usize];
        let as_expected = match unit {
            Unit::Poison { id, version, .. } => letter.document_id.as_deref() == Some(id) && letter.version == Some(*version),
            Unit::Undecodable => letter.document_id.is_none() && letter.attempts == 0,
            _ => false,
        };
        assert!(as_expected, "seed {seed}: {unit:?} became {letter:?}");
    }
}

#[test]
fn whatever_goes_wrong_the_index_comes_to_the_fold() {
    for seed in 0..cases(120) {
        in_simulated_time(async move {
            let mut dice = Dice::new(seed);
            let stream = Stream::new(&mut dice, true);
            let bench = bench(&mut dice, 40);
            let mut line = bench.line();
            let mut auditor = Auditor::new(&stream, &bench);
            for record in &stream.records {
                line.push(record).await.unwrap();
                auditor.audit(&line, seed);
                meanwhile(&mut dice, &mut line).await;
                auditor.audit(&line, seed);
            }
            line.finish().await.unwrap();
            auditor.audit(&line, seed);
            check_the_end(&stream, &line.counts(), &bench.sink.documents(), seed);
            check_the_letters(&stream, &bench, seed);
            assert!(line.ledger().is_settled() && line.ledger().held() == 0, "seed {seed}");
            assert_eq!(bench.letter_lines().len() as u64, line.counts().dead_letters, "seed {seed}: a letter twice");
            assert_eq!(bench.sink.violations(), [] as [String; 0], "seed {seed}");
            assert!(bench.sink.most_at_once() <= bench.settings.requests_in_flight, "seed {seed}");
            assert_eq!(bench.sink.finished(), 1);
        });
    }
}

#[test]
fn a_run_that_is_stopped_anywhere_has_settled_nothing_that_is_not_and_another_run_completes_it() {
    for seed in 0..cases(60) {
        in_simulated_time(async move {
            let mut dice = Dice::new(seed);
            let stream = Stream::new(&mut dice, true);
            let bench = bench(&mut dice, 60);
            for _ in 0..dice.between(1, 3) {
                let mut line = bench.line();
                let mut auditor = Auditor::new(&stream, &bench);
                let until = tokio::time::Instant::now() + Duration::from_millis(dice.below(2_000) as u64);
                for record in &stream.records {
                    // Dropped in the middle, as a stop signal does.
                    if tokio::time::timeout_at(until, line.push(record)).await.is_err() {
                        break;
                    }
                    auditor.audit(&line, seed);
                    meanwhile(&mut dice, &mut line).await;
                }
                let stopping = tokio::time::Instant::now();
                let grace = Duration::from_millis(dice.below(1_000) as u64);
                line.stop(grace).await;
                assert!(stopping.elapsed() <= grace + Duration::from_millis(1), "seed {seed}");
                auditor.audit(&line, seed);
            }
            let mut line = bench.line();
            deliver(&mut line, &stream.records).await.unwrap();
            check_the_end(&stream, &line.counts(), &bench.sink.documents(), seed);
            check_the_letters(&stream, &bench, seed);
        });
    }
}

#[test]
fn a_process_that_is_killed_anywhere_goes_on_from_its_checkpoint_and_comes_to_the_fold() {
    for seed in 0..cases(60) {
        in_simulated_time(async move {
            let mut dice = Dice::new(seed);
            let stream = Stream::new(&mut dice, true);
            let bench = bench(&mut dice, 60);
            let mut saved: HashMap<Arc<Origin>, Position> = HashMap::new();
            let to_read = |saved: &HashMap<Arc<Origin>, Position>| -> Vec<&Record> {
                stream.records.iter().filter(|record| saved.get(&record.origin).is_none_or(|saved| record.position > *saved)).collect()
            };
            for _ in 0..dice.between(1, 5) {
                let mut line = bench.line();
                let until = tokio::time::Instant::now() + Duration::from_millis(dice.below(1_500) as u64);
                for record in to_read(&saved) {
                    if tokio::time::timeout_at(until, line.push(record)).await.is_err() {
                        break;
                    }
                    meanwhile(&mut dice, &mut line).await;
                    if dice.percent(30) {
                        let origins: BTreeSet<&Arc<Origin>> = stream.records.iter().map(|record| &record.origin).collect();
                        for origin in origins {
                            if let Some(position) = line.ledger().checkpoint(origin) {
                                saved.insert(origin.clone(), position.clone());
                            }
                        }
                    }
                }
                // Nothing is said to anybody; what is with the sink may be carried out or not.
                drop(line);
                tokio::task::yield_now().await;
            }
            let mut line = bench.line();
            for record in to_read(&saved) {
                line.push(record).await.unwrap();
            }
            line.finish().await.unwrap();
            let counts = line.counts();
            assert!(counts.balanced() && counts.pending == 0, "seed {seed}: {counts:?}");
            assert_eq!(bench.sink.documents(), stream.fold(), "seed {seed}");
            check_the_letters(&stream, &bench, seed);
            let letters = bench.letters().iter().filter(|letter| letter.document_id.is_none()).count() as u64;
            assert_eq!(letters, stream.undecodable(), "seed {seed}: nothing is lost");
        });
    }
}

#[test]
fn an_index_that_refuses_everything_for_a_while_comes_to_the_fold_but_for_the_letters_of_its_threshold() {
    for seed in 0..cases(40) {
        in_simulated_time(async move {
            let mut dice = Dice::new(seed);
            let stream = Stream::new(&mut dice, false);
            let mut bench = bench(&mut dice, 20);
            let in_a_row = dice.between(1, 5) as u32;
            bench.settings.breaker = Some(Thresholds { in_a_row, percent: 0 });
            bench.sink.rule(|rules| rules.refuses = |operation| (&*operation.target().index == "person").then(poison));
            let mut line = bench.line();
            let mends = dice.below(stream.records.len() + 1);
            for (at, record) in stream.records.iter().enumerate() {
                if at == mends {
                    bench.sink.rule(|rules| rules.refuses = |_| None);
                }
                // With what waits for its index, there may be no room for more.
                if tokio::time::timeout(Duration::from_secs(600), line.push(record)).await.is_err() {
                    bench.sink.rule(|rules| rules.refuses = |_| None);
                    line.finish().await.unwrap();
                    line = bench.line();
                    deliver(&mut line, &stream.records).await.unwrap();
                    break;
                }
                meanwhile(&mut dice, &mut line).await;
            }
            let _ = tokio::time::timeout(Duration::from_secs(600), line.finish()).await;
            bench.sink.rule(|rules| rules.refuses = |_| None);
            line.finish().await.unwrap();
            let letters = bench.letters();
            let refused: Vec<_> = letters.iter().filter(|letter| letter.error.kind == "mapper_parsing_exception").collect();
            assert!(refused.len() <= in_a_row as usize * 2, "seed {seed}: {} letters at a threshold of {in_a_row}", refused.len());
            let index = bench.sink.documents();
            for ((name, id), newest) in stream.fold() {
                let is_a_letter = |version: u64| {
                    refused.iter().any(|letter| (letter.document_id.as_deref(), letter.version) == (Some(id.as_str()), Some(version)))
                };
                let held = index.get(&(name.clone(), id.clone()));
                assert!(held == Some(&newest) || is_a_letter(newest.0), "seed {seed}: {name}/{id} is {held:?}, expected {newest:?}");
            }
            assert_eq!(bench.sink.violations(), [] as [String; 0], "seed {seed}");
            assert_eq!((line.counts().pending, line.blocked().count()), (0, 0), "seed {seed}");
        });
    }
}

#[test]
fn a_sink_that_refuses_the_pipeline_ends_the_run_with_nothing_settled_that_is_not() {
    for seed in 0..cases(60) {
        in_simulated_time(async move {
            let mut dice = Dice::new(seed);
            let stream = Stream::new(&mut dice, true);
            let bench = bench(&mut dice, 10);
            let mut line = bench.line();
            let mut auditor = Auditor::new(&stream, &bench);
            let last = dice.below(stream.records.len());
            let mut result = Ok(());
            for (at, record) in stream.records.iter().enumerate() {
                if at == last {
                    use revsync::plan::outcome::Failure::{Misconfigured, Unauthorized};
                    let what = "it says no".to_owned();
                    let failure = if dice.percent(50) { Unauthorized { what } } else { Misconfigured { what } };
                    bench.sink.rule(|rules| rules.down = Some(failure));
                }
                result = line.push(record).await;
                auditor.audit(&line, seed);
                if result.is_err() {
                    break;
                }
            }
            if result.is_ok() {
                result = line.finish().await;
            }
            line.stop(Duration::from_secs(1)).await;
            auditor.audit(&line, seed);
            if let Err(error) = result {
                assert_eq!(error.kind, Kind::Sink, "seed {seed}: {error}");
            } else {
                assert_eq!(line.counts().pending, 0, "seed {seed}: nothing of what came last had to be sent");
            }
        });
    }
}

#[test]
fn the_local_index_comes_to_the_fold_too() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for seed in 0..cases(25) {
        runtime.block_on(async {
            let mut dice = Dice::new(seed);
            let stream = Stream::new(&mut dice, false);
            let bench = Bench::with(Settings { linger: Duration::from_millis(1), max_rate: None, ..settings(&mut dice) });
            let local = Arc::new(Local::open(&bench.letters_folder().join("index.db")).unwrap());
            let mapping = Mapping::new(rules(&mut dice)).unwrap();
            let mut line = Deliver::new(Decoder::default(), mapping, local.clone(), bench.store.clone(), bench.settings);
            deliver(&mut line, &stream.records).await.unwrap();
            let mut index = stream.fold();
            for ((index, id), newest) in &mut index {
                let found = local.get(index, id).unwrap().filter(|(_, source)| tombstone::read(source.as_bytes()).is_none());
                *newest = found.map_or((newest.0, None), |(version, source)| (version, Some(source)));
            }
            check_the_end(&stream, &line.counts(), &index, seed);
            check_the_letters(&stream, &bench, seed);
        });
    }
}

#[test]
fn a_model_meets_every_kind_of_trouble() {
    let mut kinds = BTreeSet::new();
    let mut seen = Counts::default();
    for seed in 0..60 {
        in_simulated_time(async {
            let mut dice = Dice::new(seed);
            let stream = Stream::new(&mut dice, true);
            let bench = bench(&mut dice, 40);
            let mut line = bench.line();
            deliver(&mut line, &stream.records).await.unwrap();
            kinds.extend(bench.letters().into_iter().map(|letter| letter.error.kind));
            let counts = line.counts();
            seen.stale += counts.stale;
            seen.compacted += counts.compacted;
            seen.absent += counts.absent;
            seen.deleted += counts.deleted;
        });
    }
    let expected = [
        "action_request_validation_exception",
        "id_too_long",
        "mapper_parsing_exception",
        "payload_too_large",
        "surprising_exception",
        "undecodable",
        "unknown_record",
    ];
    assert!(kinds.iter().map(String::as_str).eq(expected), "{kinds:?}");
    assert!(seen.stale > 0 && seen.compacted > 0 && seen.absent > 0 && seen.deleted > 0, "{seen:?}");
}
