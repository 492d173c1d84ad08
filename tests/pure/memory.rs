//! What the line holds at most: while the sink stalls it stops taking records in at its budget, and goes on afterwards.
//!
//! A record that the line has taken is either settled or held, so what it holds is what it took.

use std::time::Duration;

use revsync::plan::ledger::ENTRY;
use revsync::record::Record;
use revsync::run::deliver::{Deliver, Settings};
use tokio::time::timeout;

use crate::line::Bench;
use crate::qldb_stream::{Does, binary, put, record, revision, shard};
use crate::scripted_sink::{busy, poison};

const MIB: usize = 1 << 20;

/// Of `request_bytes x requests_in_flight x 3` a third is for the bodies under way.
fn budget(settings: &Settings) -> usize {
    settings.request_bytes * settings.requests_in_flight * 2
}

/// Pushes until the line takes no more; gives the place of the first record that it did not take.
async fn fill(line: &mut Deliver, records: &[Record]) -> usize {
    for (at, record) in records.iter().enumerate() {
        if timeout(Duration::from_secs(60), line.push(record)).await.is_err() {
            return at;
        }
    }
    records.len()
}

/// Many records of one shard, made of one and the same data under different ids.
fn copies(count: usize, data: impl Fn(&str) -> Does) -> Vec<Record> {
    let origin = shard("0");
    let of = |number: usize| {
        let id = format!("{number:06}");
        record(&origin, number as u64, binary(&[revision("Person", &id, 0, &data(&id))]))
    };
    (0..count).map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn with_a_stalled_sink_documents_of_a_megabyte_stop_at_the_budget_and_go_on_afterwards() {
    let bench = Bench::new();
    bench.sink.rule(|rules| rules.stalled = true);
    let padding = "x".repeat(MIB);
    let records = copies(30, |_| put(&padding));
    let mut line = bench.line();
    let taken = fill(&mut line, &records).await;
    // Each is held as it came and as JSON.
    let held = taken * 2 * MIB;
    assert!(taken < 30 && held <= budget(&bench.settings) + 2 * MIB, "{taken} records");
    assert!(held >= budget(&bench.settings) * 3 / 4, "{taken} records: the budget is there to be used");
    assert!(line.ledger().held() <= budget(&bench.settings) + 2 * MIB, "{}", line.ledger().held());

    bench.sink.release();
    assert_eq!(fill(&mut line, &records[taken..]).await, 30 - taken);
    line.finish().await.unwrap();
    assert_eq!((line.counts().indexed, line.ledger().held()), (30, 0));
    assert!(bench.sink.requests().iter().all(|request| request.bytes <= bench.settings.request_bytes));
}

#[tokio::test(start_paused = true)]
async fn a_document_is_held_at_the_size_that_its_json_has() {
    let settings = Settings { request_bytes: MIB / 2, ..Settings::default() };
    let bench = Bench::with(settings);
    bench.sink.rule(|rules| rules.stalled = true);
    // A symbol is written once in Ion, and each time in JSON.
    let symbol = format!("'{}'", "s".repeat(1_000));
    let values = vec![symbol.as_str(); 200].join(",");
    let records = copies(60, |_| Does::Put(format!("{{values:[{values}]}}")));
    let json = 200 * 1_000;
    assert!(records[0].data.len() * 10 < json, "{} bytes of Ion", records[0].data.len());
    let mut line = bench.line();
    let taken = fill(&mut line, &records).await;
    assert!(taken * json <= budget(&settings) + 2 * json, "{taken} documents");
    bench.sink.release();
    fill(&mut line, &records[taken..]).await;
    line.finish().await.unwrap();
    assert_eq!(line.counts().indexed, 60);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_larger_than_the_budget_goes_alone() {
    let settings = Settings { request_bytes: 1_000, requests_in_flight: 2, ..Settings::default() };
    let bench = Bench::with(settings);
    let padding = "x".repeat(20_000);
    let records = copies(6, |id| put(if id.ends_with(['1', '4']) { &padding } else { "small" }));
    let mut line = bench.line();
    let mut held_before = Vec::new();
    for record in &records {
        line.push(record).await.unwrap();
        held_before.push(line.ledger().held() - if record.data.len() > 20_000 { 2 * record.data.len() } else { 0 });
    }
    line.finish().await.unwrap();
    assert_eq!(line.counts().indexed, 6);
    assert!(held_before[1] < 2_000 && held_before[4] < 2_000, "nothing else was held beside it: {held_before:?}");
    let alone = bench.sink.requests().into_iter().filter(|request| request.bytes > 20_000);
    assert!(alone.map(|request| request.operations.len()).eq([1, 1]));
}

#[tokio::test(start_paused = true)]
async fn one_document_that_stays_open_does_not_let_everything_behind_it_pile_up() {
    let settings = Settings { request_bytes: 10_000, request_operations: 5, requests_in_flight: 2, ..Settings::default() };
    let bench = Bench::with(settings);
    bench.sink.rule(|rules| rules.refuses = |operation| (operation.target().id == "000000").then(busy));
    let records = copies(1_000, |_| put("x"));
    let mut line = bench.line();
    let taken = fill(&mut line, &records).await;
    assert!(taken <= budget(&settings) / ENTRY, "{taken} records");
    assert!(line.counts().indexed as usize >= taken - 20, "what is behind it is written: {:?}", line.counts());
    bench.sink.rule(|rules| rules.refuses = |_| None);
    fill(&mut line, &records[taken..]).await;
    line.finish().await.unwrap();
    assert_eq!(line.counts().indexed, 1_000);
}

#[tokio::test(start_paused = true)]
async fn small_records_take_the_room_that_they_really_need() {
    let settings = Settings { request_bytes: 100_000, ..Settings::default() };
    let bench = Bench::with(settings);
    bench.sink.rule(|rules| rules.stalled = true);
    let mut line = bench.line();
    let taken = fill(&mut line, &copies(4_000, |_| Does::Put("{}".to_owned()))).await;
    // An operation on its way takes some hundred bytes beside its two.
    assert!(taken < budget(&settings) / 500, "{taken} records");
}

#[tokio::test(start_paused = true)]
async fn letters_that_wait_are_stored_when_there_is_no_room_left() {
    let settings = Settings { request_bytes: 1_000, requests_in_flight: 1, linger: Duration::from_secs(3_600), ..Settings::default() };
    let bench = Bench::with(settings);
    bench.sink.rule(|rules| rules.refuses = |_| Some(poison()));
    let mut line = bench.line();
    let records = copies(50, |_| put("x"));
    assert_eq!(fill(&mut line, &records).await, 50);
    line.finish().await.unwrap();
    assert_eq!((line.counts().dead_letters, bench.letter_lines().len()), (50, 50));
}
