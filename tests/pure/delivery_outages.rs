//! Delivery while something is down, blocked or slow, and what it sends while nothing is: how long it waits, who waits with it, how full a
//! request is, and what has settled when it stops.

use std::time::Duration;

use revsync::operation::Operation;
use revsync::plan::outcome::{Class, Failure, Reply};
use revsync::record::Record;
use revsync::run::deliver::{Deliver, Settings};
use tokio::time::{Instant, timeout};

use crate::line::{Bench, deliver};
use crate::qldb_stream::{put, records, shard};
use crate::scripted_sink::{Step, busy, poison};

const MIB: usize = 1 << 20;

fn people(count: usize, padding: usize) -> Vec<Record> {
    let ids: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    let padding = "x".repeat(padding);
    records(ids.iter().map(|id| ("Person", id.as_str(), 0, put(&padding))))
}

fn patient() -> Bench {
    Bench::with(Settings { give_up_after: None, ..Settings::default() })
}

async fn push_all(line: &mut Deliver, records: &[Record]) {
    for record in records {
        line.push(record).await.unwrap();
    }
}

// Blocks

#[tokio::test(start_paused = true)]
async fn a_write_block_of_either_kind_is_waited_out_and_ends_with_its_cause() {
    fn write(_: &Operation) -> Option<Reply> {
        Some(Reply::error(403, "cluster_block_exception", "index [person] blocked by: [FORBIDDEN/8/index write (api)];"))
    }
    fn flood_stage(_: &Operation) -> Option<Reply> {
        let reason = "index [person] blocked by: [FORBIDDEN/12/index read-only / allow delete (api)];";
        Some(Reply::error(403, "cluster_block_exception", reason))
    }
    for refuses in [write, flood_stage] {
        let bench = patient();
        bench.sink.rule(|rules| rules.refuses = refuses);
        let mut line = bench.line();
        push_all(&mut line, &people(10, 1)).await;
        timeout(Duration::from_secs(3_600), line.finish()).await.unwrap_err();
        assert_eq!((line.counts().pending, line.ledger().checkpoint(&shard("0"))), (10, None));
        // An hour of tries, each at most half a minute apart.
        let tries = bench.sink.requests().len();
        assert!((110..1_000).contains(&tries), "{tries}");

        bench.sink.rule(|rules| rules.refuses = |_| None);
        let lifted = Instant::now();
        line.finish().await.unwrap();
        assert!(lifted.elapsed() <= Duration::from_secs(31), "{:?}", lifted.elapsed());
        assert_eq!((line.counts().indexed, bench.letter_lines().len()), (10, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_block_that_refuses_whole_requests_is_waited_out_too() {
    let bench = patient();
    let what = "status 403, cluster_block_exception: index [person] blocked by: [FORBIDDEN/12/index read-only / allow delete (api)]";
    bench.sink.rule(|rules| rules.down = Some(Failure::Retry { class: Class::Blocked, what: what.to_owned(), after: None }));
    let mut line = bench.line();
    push_all(&mut line, &people(10, 1)).await;
    timeout(Duration::from_secs(3_600), line.finish()).await.unwrap_err();
    bench.sink.rule(|rules| rules.down = None);
    let lifted = Instant::now();
    line.finish().await.unwrap();
    assert!(lifted.elapsed() <= Duration::from_secs(31), "{:?}", lifted.elapsed());
    assert_eq!((line.counts().indexed, bench.letter_lines().len()), (10, 0));
}

#[tokio::test(start_paused = true)]
async fn an_index_without_its_shards_keeps_no_other_waiting() {
    let bench = Bench::with(Settings { request_operations: 4, requests_in_flight: 1, give_up_after: None, ..Settings::default() });
    bench.sink.rule(|rules| {
        rules.refuses = |operation| {
            let red = Reply::error(503, "unavailable_shards_exception", "[red][0] primary shard is not active");
            (*operation.target().index == *"red").then_some(red)
        };
    });
    let ids: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    let both = records(ids.iter().flat_map(|id| [("Red", id.as_str(), 0, put("x")), ("Green", id.as_str(), 0, put("y"))]));
    let mut line = bench.line();
    push_all(&mut line, &both).await;
    timeout(Duration::from_secs(3_600), line.finish()).await.unwrap_err();
    assert_eq!((line.counts().indexed, line.counts().pending, bench.letter_lines().len()), (40, 40, 0));
    bench.sink.rule(|rules| rules.refuses = |_| None);
    line.finish().await.unwrap();
    assert_eq!(line.counts().indexed, 80);
}

// Stalls

#[tokio::test(start_paused = true)]
async fn a_sink_that_stalls_for_five_minutes_pauses_the_source_and_loses_nothing() {
    let settings = Settings { request_bytes: 20_000, requests_in_flight: 2, give_up_after: None, ..Settings::default() };
    let bench = Bench::with(settings);
    bench.sink.rule(|rules| rules.stalled = true);
    let people = people(200, 1_000);
    let mut line = bench.line();
    let stalled = Instant::now();
    let mut taken = 0;
    for person in &people {
        // The source is not asked for more as long as this waits.
        match timeout(Duration::from_secs(300), line.push(person)).await {
            Ok(pushed) => pushed.unwrap(),
            Err(_) => break,
        }
        taken += 1;
    }
    assert!((10..150).contains(&taken) && stalled.elapsed() >= Duration::from_secs(300), "{taken} records in {:?}", stalled.elapsed());
    assert!(line.ledger().held() <= 3 * 2 * settings.request_bytes, "{} bytes", line.ledger().held());
    bench.sink.release();
    push_all(&mut line, &people[taken..]).await;
    line.finish().await.unwrap();
    assert_eq!((line.counts().indexed, line.counts().pending), (200, 0));
}

// How full requests are

#[tokio::test(start_paused = true)]
async fn under_load_every_request_is_full() {
    for (count, padding) in [(6_100, 10), (3_500, 5_000)] {
        let bench = Bench::new();
        let mut line = bench.line();
        for person in &people(count, padding) {
            line.push(person).await.unwrap();
            // The requests go on meanwhile.
            tokio::task::yield_now().await;
        }
        // What is sent later is the rest, when nothing more comes.
        let requests = bench.sink.requests();
        assert!(requests.len() >= 2);
        line.finish().await.unwrap();
        assert_eq!(line.counts().indexed, count as u64);
        for request in requests {
            let (operations, bytes) = (request.operations.len(), request.bytes);
            assert!(operations >= 1_000 || bytes >= 5 * MIB * 9 / 10, "{operations} operations, {bytes} bytes");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_document_that_is_larger_than_a_request_may_be_goes_alone_and_is_counted() {
    let bench = Bench::with(Settings { request_bytes: 10_000, ..Settings::default() });
    let (large, small) = ("x".repeat(50_000), "x".repeat(100));
    let all = records([
        ("Person", "a", 0, put(&small)),
        ("Person", "large", 0, put(&large)),
        ("Person", "b", 0, put(&small)),
        ("Person", "c", 0, put(&small)),
    ]);
    let mut line = bench.line();
    deliver(&mut line, &all).await.unwrap();
    assert_eq!(line.counts().indexed, 4);
    assert_eq!(bench.sink.sent(), [vec!["index a@0"], vec!["index large@0"], vec!["index b@0", "index c@0"]]);
}

// What a stop leaves

#[tokio::test(start_paused = true)]
async fn what_waits_for_company_at_a_stop_is_not_settled() {
    let bench = Bench::with(Settings { linger: Duration::from_secs(3_600), ..Settings::default() });
    let people = people(10, 1);
    let mut line = bench.line();
    push_all(&mut line, &people).await;
    line.stop(Duration::from_secs(10)).await;
    let counts = line.counts();
    assert!(counts.balanced());
    assert_eq!((bench.sink.requests().len(), counts.pending), (0, 10));
    assert_eq!((line.ledger().checkpoint(&shard("0")), line.first_unsettled()), (None, Some(people[0].position.clone())));
    let mut again = bench.line();
    deliver(&mut again, &people).await.unwrap();
    assert_eq!(again.counts().indexed, 10);
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_something_is_tried_again_and_again_ends_at_once_and_leaves_it_unsettled() {
    let bench = patient();
    bench.sink.rule(|rules| rules.refuses = |operation| (operation.target().id == "3").then(busy));
    let people = people(10, 1);
    let mut line = bench.line();
    push_all(&mut line, &people).await;
    timeout(Duration::from_secs(600), line.finish()).await.unwrap_err();
    let stopped = Instant::now();
    line.stop(Duration::from_secs(10)).await;
    assert!(stopped.elapsed() < Duration::from_secs(1), "{:?}", stopped.elapsed());
    assert_eq!((line.counts().indexed, line.counts().pending), (9, 1));
    assert_eq!(line.ledger().checkpoint(&shard("0")), Some(&people[2].position));
}

// What has settled while something has not

#[tokio::test(start_paused = true)]
async fn the_checkpoint_waits_for_what_is_sent_again_and_nothing_else_is() {
    let bench = Bench::new();
    bench.sink.script([Step::Answer(vec![(1, busy())]), Step::Hang]);
    let people = people(2, 1);
    let mut line = bench.line();
    push_all(&mut line, &people).await;
    timeout(Duration::from_secs(60), line.finish()).await.unwrap_err();
    assert_eq!(bench.sink.sent(), [vec!["index 0@0", "index 1@0"], vec!["index 1@0"]]);
    assert_eq!(line.ledger().checkpoint(&shard("0")), Some(&people[0].position));
    bench.sink.release();
    line.finish().await.unwrap();
    assert_eq!(line.ledger().checkpoint(&shard("0")), Some(&people[1].position));
    assert_eq!(bench.sink.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_successes_and_conflicts_is_a_success_in_whatever_language_it_is_written() {
    let bench = Bench::new();
    let conflict = |reason: &str| Reply::error(409, "version_conflict_engine_exception", reason);
    let reason = "[1]: conflit de version, la version actuelle [2] est supérieure";
    bench.sink.script([Step::Answer(vec![(1, conflict(reason)), (3, conflict(""))])]);
    let mut line = bench.line();
    deliver(&mut line, &people(4, 1)).await.unwrap();
    assert_eq!((bench.sink.requests().len(), bench.letter_lines().len()), (1, 0));
    assert_eq!((line.counts().indexed, line.counts().stale), (2, 2));
    assert!(!bench.letters_folder().join("letters.jsonl").exists(), "no conflict touches the dead letters");
}

#[tokio::test(start_paused = true)]
async fn what_is_a_letter_already_is_none_again_while_its_neighbours_are_tried_again() {
    let bench = Bench::new();
    bench.sink.script([
        Step::Answer(vec![(0, poison()), (1, busy()), (2, poison())]),
        Step::Answer(vec![(0, busy())]),
        Step::Answer(vec![(0, busy())]),
        Step::Answer(vec![(0, poison())]),
    ]);
    let mut line = bench.line();
    deliver(&mut line, &people(4, 1)).await.unwrap();
    assert_eq!(bench.sink.sent()[1..], [["index 1@0"], ["index 1@0"], ["index 1@0"]]);
    let letters = bench.letter_lines();
    let told: Vec<_> = letters.iter().map(|letter| (letter.document_id.as_deref().unwrap(), letter.attempts)).collect();
    assert_eq!(told, [("0", 1), ("2", 1), ("1", 4)]);
    assert_eq!((line.counts().indexed, line.counts().dead_letters), (1, 3));
}

// Order

#[tokio::test(start_paused = true)]
async fn a_thousand_updates_of_ten_documents_go_out_in_their_order() {
    let bench = Bench::with(Settings { request_operations: 7, ..Settings::default() });
    bench.sink.rule(|rules| rules.takes = Duration::from_millis(100));
    let ids: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    let updates = (0..1_000).map(|number| ("Person", ids[number % 10].as_str(), number as u64 / 10, put("x")));
    let mut line = bench.line();
    deliver(&mut line, &records(updates)).await.unwrap();
    for id in &ids {
        let versions: Vec<u64> = bench
            .sink
            .sent()
            .concat()
            .iter()
            .filter_map(|operation| operation.strip_prefix(&format!("index {id}@"))?.parse().ok())
            .collect();
        assert!(versions.is_sorted() && versions.last() == Some(&99), "{id}: {versions:?}");
    }
    let counts = line.counts();
    assert_eq!((counts.stale, counts.indexed + counts.compacted), (0, 1_000));
    assert_eq!(bench.sink.violations(), [] as [String; 0]);
}
