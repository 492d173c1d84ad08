//! An index in trouble: one that refuses its documents, one that cannot be written for long, and what the line does with everything else
//! meanwhile.
//!
//! Time is simulated: an hour of waiting takes none.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use revsync::error::Kind;
use revsync::operation::Operation;
use revsync::plan::breaker::Thresholds;
use revsync::plan::outcome::Reply;
use revsync::record::Record;
use revsync::run::deliver::{Deliver, Settings};
use revsync::run::learned::Learned;
use tokio::time::timeout;

use crate::line::{Bench, deliver};
use crate::qldb_stream::{put, records};
use crate::scripted_sink::{busy, down, poison};

/// One put of each of so many documents of a table.
fn many(table: &str, count: usize) -> Vec<Record> {
    let ids: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    records(ids.iter().map(|id| (table, id.as_str(), 0, put(id))))
}

/// People and places, one after another.
fn people_and_places(count: usize) -> Vec<Record> {
    let ids: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    records(ids.iter().flat_map(|id| [("Person", id.as_str(), 0, put("x")), ("Place", id.as_str(), 0, put("y"))]))
}

fn is_a_person(operation: &Operation) -> bool {
    &*operation.target().index == "person"
}

fn is_a_seventh(operation: &Operation) -> bool {
    operation.target().id.parse::<u32>().is_ok_and(|id| id % 7 == 0)
}

fn blocked(line: &Deliver) -> Vec<(String, String)> {
    line.blocked().map(|(index, _, why)| (index.to_owned(), why.kind.clone())).collect()
}

/// Pushes until the line takes no more for an hour; gives the place of the first record that it did not take.
async fn fill(line: &mut Deliver, records: &[Record]) -> usize {
    for (at, record) in records.iter().enumerate() {
        if timeout(Duration::from_secs(3_600), line.push(record)).await.is_err() {
            return at;
        }
    }
    records.len()
}

/// Lets an hour pass in which the line does what it can.
async fn an_hour(line: &mut Deliver) {
    timeout(Duration::from_secs(3_600), line.finish()).await.expect_err("something waits");
}

fn for_ever() -> Settings {
    Settings { give_up_after: None, ..Settings::default() }
}

// The poison breaker

#[tokio::test(start_paused = true)]
async fn an_index_that_refuses_everything_is_stopped_after_a_hundred_and_goes_on_once_its_mapping_is_mended() {
    let bench = Bench::with(Settings { request_operations: 300, ..for_ever() });
    bench.sink.rule(|rules| rules.refuses = |operation| is_a_person(operation).then(poison));
    let mut line = bench.line();
    assert_eq!(fill(&mut line, &people_and_places(1_000)).await, 2_000);
    an_hour(&mut line).await;
    let counts = line.counts();
    assert_eq!((counts.indexed, counts.dead_letters, counts.pending), (1_000, 100, 900), "the other index goes on");
    assert_eq!(bench.letter_lines().len(), 100);
    assert_eq!(blocked(&line), [("person".to_owned(), "too_many_refusals".to_owned())]);

    bench.sink.rule(|rules| rules.refuses = |_| None);
    line.finish().await.unwrap();
    let counts = line.counts();
    assert_eq!((counts.indexed, counts.dead_letters, counts.pending), (1_900, 100, 0));
    assert_eq!(blocked(&line), []);
    assert_eq!(bench.sink.violations(), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_index_is_asked_with_a_few_documents_once_in_a_while() {
    let bench = Bench::with(for_ever());
    bench.sink.rule(|rules| rules.refuses = |_| Some(poison()));
    let mut line = bench.line();
    fill(&mut line, &many("Person", 2_000)).await;
    line.flush().await.unwrap();
    let before = bench.sink.requests().len();
    an_hour(&mut line).await;
    let asked = &bench.sink.requests()[before..];
    assert!((120..500).contains(&asked.len()), "{} requests in an hour", asked.len());
    assert!(asked[1..].iter().all(|request| request.operations.len() <= 10));
    let longest = asked.windows(2).map(|pair| pair[1].at - pair[0].at).max();
    assert!(longest <= Some(Duration::from_secs(30)), "{longest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_heap_of_poison_stops_its_index_until_somebody_says_that_it_is_poison() {
    let mut bench = Bench::with(Settings { request_operations: 500, ..Settings::default() });
    bench.sink.rule(|rules| rules.refuses = |operation| operation.target().id.parse::<u32>().is_ok_and(|id| id < 130).then(poison));
    let mut line = bench.line();
    let error = deliver(&mut line, &many("Person", 1_000)).await.unwrap_err();
    line.stop(Duration::from_secs(10)).await;
    assert_eq!(error.kind, Kind::Pending);
    let counts = line.counts();
    assert_eq!((counts.dead_letters, counts.indexed + counts.pending), (100, 900));

    bench.settings.breaker = None;
    let mut line = bench.line();
    deliver(&mut line, &many("Person", 1_000)).await.unwrap();
    assert_eq!((line.counts().dead_letters, line.counts().indexed + line.counts().stale), (130, 870));
}

#[tokio::test(start_paused = true)]
async fn one_refusal_in_ten_of_few_documents_stops_nothing() {
    let bench = Bench::with(for_ever());
    bench.sink.rule(|rules| rules.refuses = |operation| operation.target().id.ends_with('0').then(poison));
    let mut line = bench.line();
    deliver(&mut line, &many("Person", 4_000)).await.unwrap();
    assert_eq!((line.counts().indexed, line.counts().dead_letters), (3_600, 400));
}

#[tokio::test(start_paused = true)]
async fn five_refusals_in_a_hundred_of_the_last_ten_thousand_stop_the_index() {
    let bench = Bench::with(for_ever());
    bench.sink.rule(|rules| rules.refuses = |operation| operation.target().id.ends_with('0').then(poison));
    let mut line = bench.line();
    fill(&mut line, &many("Person", 8_000)).await;
    an_hour(&mut line).await;
    assert_eq!(line.counts().dead_letters, 500);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_gives_up_on_a_stopped_index_leaves_its_documents_pending_and_makes_no_letters_of_them() {
    let bench = Bench::new();
    bench.sink.rule(|rules| rules.refuses = |_| Some(poison()));
    let mut line = bench.line();
    let error = deliver(&mut line, &many("Person", 500)).await.unwrap_err();
    line.stop(Duration::from_secs(10)).await;
    assert_eq!(error.kind, Kind::Pending);
    assert!(error.what.contains("too_many_refusals") && error.what.contains("mapper_parsing_exception"), "{error}");
    assert_eq!((line.counts().dead_letters, line.counts().pending, bench.letter_lines().len()), (100, 400, 100));

    bench.sink.rule(|rules| rules.refuses = |_| None);
    let mut line = bench.line();
    deliver(&mut line, &many("Person", 500)).await.unwrap();
    assert_eq!((line.counts().indexed, line.counts().pending), (500, 0));
}

#[tokio::test(start_paused = true)]
async fn the_thresholds_of_the_configuration_count() {
    let stopped_after = async |breaker| {
        let bench = Bench::with(Settings { breaker, ..for_ever() });
        bench.sink.rule(|rules| rules.refuses = |_| Some(poison()));
        let mut line = bench.line();
        let _ = timeout(Duration::from_secs(3_600), deliver(&mut line, &many("Person", 1_000))).await;
        line.counts().dead_letters
    };
    assert_eq!(stopped_after(Some(Thresholds { in_a_row: 7, percent: 0 })).await, 7);
    assert_eq!(stopped_after(Some(Thresholds { in_a_row: 0, percent: 1 })).await, 100);
    assert_eq!(stopped_after(Some(Thresholds { in_a_row: 0, percent: 0 })).await, 1_000);
    assert_eq!(stopped_after(None).await, 1_000);
}

#[tokio::test(start_paused = true)]
async fn an_index_that_was_stopped_stays_so_for_the_next_line_of_the_process_until_it_takes_documents() {
    let bench = Bench::with(Settings { give_up_after: Some(Duration::from_secs(60)), ..Settings::default() });
    bench.sink.rule(|rules| rules.refuses = |_| Some(poison()));
    let learned = Arc::new(Learned::new(&bench.settings));
    for _ in 0..5 {
        let mut line = bench.line_after(&learned);
        deliver(&mut line, &many("Person", 300)).await.unwrap_err();
        line.stop(Duration::from_secs(1)).await;
    }
    assert_eq!(bench.letter_lines().len(), 100, "and not a hundred of each");

    bench.sink.rule(|rules| rules.refuses = |operation| (operation.target().id == "299").then(poison));
    let mut line = bench.line_after(&learned);
    deliver(&mut line, &many("Person", 300)).await.unwrap();
    assert_eq!((line.counts().indexed, line.counts().dead_letters), (299, 1));
}

#[tokio::test(start_paused = true)]
async fn documents_that_are_letters_already_do_not_stop_their_index_however_often_their_batch_comes_again() {
    let bench = Bench::with(Settings { give_up_after: Some(Duration::from_secs(1)), ..Settings::default() });
    bench.sink.rule(|rules| rules.refuses = |operation| (&*operation.target().index == "person").then(poison));
    bench.sink.block("place");
    let learned = Arc::new(Learned::new(&bench.settings));
    // The first is of an index that cannot be written for long.
    let batch = [many("Place", 1), many("Person", 20)].concat();
    for _ in 0..30 {
        let mut line = bench.line_after(&learned);
        deliver(&mut line, &batch).await.unwrap_err();
        line.stop(Duration::from_secs(1)).await;
        assert_eq!((line.counts().dead_letters, line.counts().pending), (20, 1));
    }
    bench.sink.rule(|rules| rules.blocked.clear());
    let mut line = bench.line_after(&learned);
    deliver(&mut line, &batch).await.unwrap();
    assert_eq!((line.counts().dead_letters, line.counts().indexed, bench.letter_lines().len()), (20, 1, 20));
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_was_learned_holds_for_the_next_line_of_the_process() {
    let bench = Bench::new();
    bench.sink.rule(|rules| rules.largest = 100_000);
    let learned = Arc::new(Learned::new(&bench.settings));
    let padding = "x".repeat(1_000);
    let ids: Vec<String> = (0..400).map(|number| number.to_string()).collect();
    let all = records(ids.iter().map(|id| ("Person", id.as_str(), 0, put(&padding))));
    deliver(&mut bench.line_after(&learned), &all).await.unwrap();
    let before = bench.sink.requests().len();
    deliver(&mut bench.line_after(&learned), &all).await.unwrap();
    let later = &bench.sink.requests()[before..];
    assert!(later.iter().all(|request| request.bytes <= 100_000), "{:?}", later.iter().map(|request| request.bytes).collect::<Vec<_>>());
}

// An index that cannot be written

#[tokio::test(start_paused = true)]
async fn the_source_pauses_when_what_waits_for_an_index_fills_half_of_the_budget() {
    let settings = Settings { request_bytes: 50_000, requests_in_flight: 2, ..for_ever() };
    let bench = Bench::with(settings);
    bench.sink.block("person");
    let mut line = bench.line();
    let all = people_and_places(2_000);
    let taken = fill(&mut line, &all).await;
    assert!(taken < all.len(), "nothing more is read");
    let budget = settings.request_bytes * settings.requests_in_flight * 2;
    let held = line.ledger().held();
    assert!(held >= budget / 2 && held <= budget * 9 / 10, "{held} of {budget} bytes");
    assert_eq!(blocked(&line), [("person".to_owned(), "cluster_block_exception".to_owned())]);
    assert!(line.counts().indexed as usize >= taken / 2 - 10, "the other index has all that was read: {:?}", line.counts());

    bench.sink.rule(|rules| rules.blocked.clear());
    assert_eq!(fill(&mut line, &all[taken..]).await, all.len() - taken);
    line.finish().await.unwrap();
    assert_eq!((line.counts().indexed, line.counts().pending, line.ledger().held()), (4_000, 0, 0));
    assert_eq!(bench.sink.violations(), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_source_goes_on_while_only_a_few_documents_of_an_index_wait_for_their_shard() {
    let settings = Settings { request_bytes: 50_000, requests_in_flight: 2, ..for_ever() };
    let bench = Bench::with(settings);
    bench.sink.rule(|rules| {
        rules.refuses = |operation| {
            operation.target().id.ends_with('7').then(|| Reply::error(503, "unavailable_shards_exception", "primary shard is not active"))
        };
    });
    let mut line = bench.line();
    // Each twice, so that some wait in their lanes.
    let ids: Vec<String> = (0..400).map(|number| number.to_string()).collect();
    let all = records(ids.iter().flat_map(|id| [("Person", id.as_str(), 0, put("x")), ("Person", id.as_str(), 1, put("x"))]));
    assert_eq!(fill(&mut line, &all).await, all.len(), "what waits is less than half of the budget");
    an_hour(&mut line).await;
    assert_eq!(line.counts().pending, 80);

    bench.sink.rule(|rules| rules.refuses = |_| None);
    line.finish().await.unwrap();
    assert_eq!((line.counts().pending, line.counts().indexed + line.counts().compacted), (0, 800));
    assert_eq!(bench.sink.violations(), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn later_revisions_of_a_document_that_waits_for_its_index_queue_behind_it() {
    let settings = Settings { request_bytes: 20_000, requests_in_flight: 1, ..for_ever() };
    let bench = Bench::with(settings);
    bench.sink.block("person");
    let mut line = bench.line();
    let all = records((0..500).map(|version| ("Person", "a", version, put("x"))));
    let taken = fill(&mut line, &all).await;
    assert!((10..500).contains(&taken), "they fill the budget as others do: {taken}");
    bench.sink.rule(|rules| rules.blocked.clear());
    fill(&mut line, &all[taken..]).await;
    line.finish().await.unwrap();
    assert_eq!((line.counts().stale, line.counts().indexed + line.counts().compacted), (0, 500));
    assert_eq!(bench.sink.version("person", "a"), Some(499));
    assert_eq!(bench.sink.violations(), [] as [String; 0]);
}

// Everything at once

#[tokio::test(start_paused = true)]
async fn of_5000_with_three_poison_and_a_busy_one_in_seven_each_is_sent_again_only_when_it_was_busy_itself() {
    let bench = Bench::new();
    bench.sink.rule(|rules| rules.refuses = |operation| matches!(operation.target().id.as_str(), "10" | "2222" | "4999").then(poison));
    bench.sink.rule(|rules| rules.refuses_at_first = |operation| is_a_seventh(operation).then(busy));
    let mut line = bench.line();
    deliver(&mut line, &many("Person", 5_000)).await.unwrap();

    let counts = line.counts();
    assert_eq!((counts.indexed, counts.dead_letters, counts.pending), (4_997, 3, 0));
    let mut times: HashMap<String, usize> = HashMap::new();
    bench.sink.sent().into_iter().flatten().for_each(|sent| *times.entry(sent).or_default() += 1);
    let mut wrong = Vec::new();
    for id in 0..5_000 {
        let was_busy = id % 7 == 0;
        if times[&format!("index {id}@0")] != 1 + usize::from(was_busy) {
            wrong.push(id);
        }
    }
    assert_eq!(wrong, [] as [i32; 0]);
    let letters = bench.letters();
    let mut ids: Vec<_> = letters.iter().map(|letter| letter.document_id.as_deref().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["10", "2222", "4999"]);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_silent_for_ten_minutes_gets_everything_afterwards_in_the_order_of_each_document_and_nothing_twice() {
    let settings = Settings { request_bytes: 20_000, request_operations: 50, ..for_ever() };
    let bench = Bench::with(settings);
    bench.sink.rule(|rules| rules.stalled = true);
    let mut line = bench.line();
    let ids: Vec<String> = (0..97).map(|number| number.to_string()).collect();
    let all =
        records((0..4_000).map(|at| ("Person", ids[at % 97].as_str(), (at / 97) as u64, put("some text that is there for its size"))));
    let budget = settings.request_bytes * settings.requests_in_flight * 2;
    let silent = tokio::time::Instant::now();
    let mut taken = 0;
    while silent.elapsed() < Duration::from_secs(600) {
        if timeout(Duration::from_secs(10), line.push(&all[taken])).await.is_ok() {
            taken += 1;
        }
        assert!(line.ledger().held() <= budget + 2_000, "{} of {budget} bytes", line.ledger().held());
    }
    assert!(taken < all.len() && line.counts().settled() == 0);

    bench.sink.release();
    for record in &all[taken..] {
        line.push(record).await.unwrap();
        assert!(line.ledger().held() <= budget + 2_000);
    }
    line.finish().await.unwrap();
    let counts = line.counts();
    assert_eq!((counts.stale, counts.pending, counts.indexed + counts.compacted), (0, 0, 4_000));
    assert_eq!(bench.sink.violations(), [] as [String; 0], "none overtakes, none is sent again once it was told");
    for (at, id) in ids.iter().enumerate() {
        assert_eq!(bench.sink.version("person", id), Some(((4_000 - 1 - at) / 97) as u64));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_is_asked_by_one_request_at_a_time_and_by_all_again_once_it_is_back() {
    let bench = Bench::with(Settings { request_operations: 1, requests_in_flight: 4, ..for_ever() });
    bench.sink.rule(|rules| {
        rules.down = Some(down("connection refused"));
        rules.takes = Duration::from_secs(1);
    });
    let mut line = bench.line();
    let all = many("Person", 200);
    for record in &all[..4] {
        line.push(record).await.unwrap();
    }
    let _ = timeout(Duration::from_secs(120), line.finish()).await;
    let requests = bench.sink.requests();
    let late: Vec<_> = requests.iter().skip(8).map(|request| request.at).collect();
    assert!(late.windows(2).all(|pair| pair[1] - pair[0] >= Duration::from_secs(1)), "one after another");

    bench.sink.rule(|rules| rules.down = None);
    let back = tokio::time::Instant::now();
    deliver(&mut line, &all[4..]).await.unwrap();
    assert!(back.elapsed() < Duration::from_secs(100), "two hundred seconds of work were done in {:?}", back.elapsed());
}
