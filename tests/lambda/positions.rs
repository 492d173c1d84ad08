//! Which position the handler answers: for every record and every part of an aggregate that fails, in each way that it can, the lowest that is
//! not settled and no other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use revsync::codec::Decoder;
use revsync::error::{Error, Kind};
use revsync::operation::Operation;
use revsync::plan::mapping::Mapping;
use revsync::plan::outcome::{Failure, Reply};
use revsync::run::deliver::{Deliver, Settings};
use revsync::run::learned::Learned;
use revsync::sink::{Pending, Sink};
use revsync_lambda::{Batch, handle};

use crate::answered;
use crate::line::Bench;
use crate::mapping_model::{DONE, Kept, event, everything_from};
use crate::qldb_stream::{aggregate, binary, control, put, revision};
use crate::scripted_sink::{Step, busy, poison};

/// More than any of these invocations takes, by a clock that stands while there is something to do.
const LONG: Duration = Duration::from_secs(60);

/// How many user records each Kinesis record has; those with one are plain.
const SHAPE: [usize; 6] = [1, 3, 1, 2, 4, 1];

/// The numbers grow by a digit on the way.
const NUMBERS: [&str; 6] = ["8", "9", "10", "98", "100", "49545115243490985018280067714973144582180062593244200961"];

fn shard(shape: &[usize]) -> Vec<Kept> {
    let kept = |(place, count): (usize, &usize)| {
        let users: Vec<_> = (0..*count)
            .map(|sub| {
                // Documents that fail have ids of their own; versions tell the order of everything.
                binary(&[revision("Person", &format!("{place}-{sub}"), 1, &put("a"))])
            })
            .collect();
        let data = if *count == 1 { users[0].clone() } else { aggregate(&users) };
        Kept { number: NUMBERS[place].to_owned(), data: data.to_vec() }
    };
    shape.iter().enumerate().map(kept).collect()
}

async fn answer(bench: &Bench, event: &str, left: Duration) -> Result<String, Error> {
    let batch = Batch::read(event).expect("a Kinesis event");
    let reply = answered(batch, bench.line(), left).await?;
    Ok(serde_json::to_string(&reply).expect("JSON"))
}

/// Every user record by its place, and every pair of them.
fn choices() -> Vec<Vec<(usize, usize)>> {
    let all: Vec<_> = SHAPE.iter().enumerate().flat_map(|(place, count)| (0..*count).map(move |sub| (place, sub))).collect();
    let pairs = all.iter().flat_map(|a| all.iter().filter(move |b| a < b).map(move |b| vec![*b, *a]));
    all.iter().map(|one| vec![*one]).chain(pairs).collect()
}

/// How a document fails.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// The server takes everything but it, until the deadline.
    Busy,
    /// It is a dead letter, and there is no place for letters.
    Unstored,
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_the_lowest_record_of_which_a_part_failed() {
    for way in [Way::Busy, Way::Unstored] {
        for choice in choices() {
            let ids: Vec<String> = choice.iter().map(|(place, sub)| format!("{place}-{sub}")).collect();
            let bench =
                Bench::with(Settings { give_up_after: Some(Duration::from_secs(300)), request_operations: 4, ..Settings::default() });
            let reply = match way {
                Way::Busy => busy(),
                Way::Unstored => {
                    std::fs::remove_dir_all(bench.letters_folder()).expect("the folder can go");
                    poison()
                }
            };
            bench.sink.rule(|rules| rules.answers = ids.iter().map(|id| (id.clone(), reply.clone())).collect());
            let lowest = choice.iter().map(|(place, _)| *place).min().expect("one at least");
            let answered = answer(&bench, &event("shard", &shard(&SHAPE)), LONG).await;
            assert_eq!(answered, Ok(everything_from(NUMBERS[lowest])), "{way:?} {ids:?}");
            if matches!(way, Way::Busy) {
                let others = SHAPE.iter().sum::<usize>() - ids.len();
                assert_eq!(bench.sink.documents().len(), others, "{ids:?}: the others were written all the same");
                assert!(bench.letters().is_empty());
            }
            assert_eq!((bench.sink.here(), bench.sink.violations()), (0, Vec::new()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_record_is_one_letter_and_the_rest_of_the_batch_is_done() {
    let bench = Bench::new();
    let good = event("shard", &shard(&SHAPE));
    let mut event: serde_json::Value = serde_json::from_str(&good).expect("JSON");
    event["Records"][2]["kinesis"]["data"] = "no base64!".into();
    assert_eq!(answer(&bench, &event.to_string(), LONG).await, Ok(DONE.to_owned()));
    let letters = bench.letters();
    assert_eq!((letters.len(), bench.sink.documents().len()), (1, SHAPE.iter().sum::<usize>() - 1));
    assert_eq!(letters[0].payload, event["Records"][2].to_string());
    assert_eq!(letters[0].position.to_string(), "sequence number 10");
}

#[tokio::test(start_paused = true)]
async fn a_damaged_record_whose_letter_cannot_be_stored_is_the_answer_and_holds_up_nothing_else() {
    for (place, number) in NUMBERS.iter().enumerate() {
        let bench = Bench::new();
        std::fs::remove_dir_all(bench.letters_folder()).expect("the folder can go");
        let mut records = shard(&SHAPE);
        records[place].data = b"\xFFno record of anything".to_vec();
        assert_eq!(answer(&bench, &event("shard", &records), LONG).await, Ok(everything_from(number)));
        assert_eq!(bench.sink.documents().len(), SHAPE.iter().sum::<usize>() - SHAPE[place], "{number}: the others are written");
    }
}

#[tokio::test(start_paused = true)]
async fn without_time_nothing_is_begun_and_the_first_record_comes_back() {
    let bench = Bench::new();
    assert_eq!(answer(&bench, &event("shard", &shard(&SHAPE)), Duration::ZERO).await, Ok(everything_from("8")));
    assert_eq!(answer(&bench, r#"{"Records":[]}"#, Duration::ZERO).await, Ok(DONE.to_owned()));
    assert!(bench.sink.requests().is_empty());
}

/// Ten thousand records of about 1 KiB.
pub(crate) static MANY: LazyLock<Vec<Kept>> = LazyLock::new(|| {
    let one = |n: usize| Kept {
        number: (9_000 + n).to_string(),
        data: binary(&[revision("Person", &n.to_string(), 1, &put(&"x".repeat(900)))]).to_vec(),
    };
    (0..10_000).map(one).collect()
});

#[tokio::test(start_paused = true)]
async fn of_ten_thousand_records_none_is_acknowledged_by_a_sink_that_hangs_and_the_answer_is_in_time() {
    let bench = Bench::new();
    bench.sink.rule(|rules| rules.stalled = true);
    let begun = tokio::time::Instant::now();
    assert_eq!(answer(&bench, &event("shard", &MANY), LONG).await, Ok(everything_from("9000")));
    assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
    assert_eq!(bench.sink.here(), 0, "what hangs is abandoned, not left behind");
}

#[tokio::test(start_paused = true)]
async fn what_a_sink_took_before_it_hung_stays_settled_up_to_the_first_that_it_did_not_take() {
    let (bench, many) = (Bench::new(), &*MANY);
    // The second request hangs, all others are answered.
    bench.sink.script([Step::Proper, Step::Hang]);
    let answered = answer(&bench, &event("shard", many), LONG).await.expect("a position");
    let open: Vec<usize> = (0..many.len()).filter(|n| bench.sink.version("person", &n.to_string()).is_none()).collect();
    assert!(open.len() < many.len() && open[0] > 0, "some are written: {}", open.len());
    assert_eq!(answered, everything_from(&many[open[0]].number));
    // From there on everything comes again, and what was written is stale.
    bench.sink.release();
    assert_eq!(answer(&bench, &event("shard", &many[open[0]..]), LONG).await, Ok(DONE.to_owned()));
    assert_eq!((bench.sink.documents().len(), bench.sink.here()), (many.len(), 0));
}

#[tokio::test]
async fn work_that_never_waits_ends_at_the_deadline_too_and_what_was_not_begun_comes_back() {
    let bench = Bench::new();
    // There is nothing to be done for these: they are settled as they come, and only decoding them takes time.
    let nothing = binary(&[control()]);
    let many = |n: usize| Kept { number: (9_000 + n).to_string(), data: nothing.to_vec() };
    let event = event("shard", &(0..10_000).map(many).collect::<Vec<_>>());
    // Enough to begin, and by far not for ten thousand.
    let answered = answer(&bench, &event, Duration::from_millis(8)).await.expect("a position");
    assert!(answered.contains("itemIdentifier"), "{answered}");
    assert_eq!(answer(&bench, &event, LONG).await, Ok(DONE.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn two_invocations_share_what_was_learned_and_nothing_else() {
    let bench = Bench::new();
    let learned = Arc::new(Learned::new(&bench.settings));
    let records = shard(&SHAPE);
    let invoke = async |left| {
        let line = bench.line_after(&learned);
        let batch = Batch::read(&event("shard", &records)).expect("a Kinesis event");
        let reply = answered(batch, line, left).await.expect("an answer");
        serde_json::to_string(&reply).expect("JSON")
    };
    bench.sink.rule(|rules| rules.stalled = true);
    assert_eq!(invoke(LONG).await, everything_from("8"));
    let asked = bench.sink.requests().len();
    // The process may be frozen now: nothing happens any more, however long that is.
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!((bench.sink.requests().len(), bench.sink.here()), (asked, 0));
    bench.sink.release();
    assert_eq!(invoke(LONG).await, DONE);
    assert_eq!((bench.sink.documents().len(), bench.sink.violations()), (SHAPE.iter().sum(), Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_sink_fails_the_batch_and_the_next_invocation_delivers_it() {
    let bench = Bench::new();
    bench.sink.script([Step::Panic]);
    let event = event("shard", &shard(&SHAPE));
    let error = answer(&bench, &event, LONG).await.expect_err("no position: somebody has to look at it");
    assert!(error.kind == Kind::Sink && error.what.contains("scripted_sink.rs:") && !error.what.contains("script wants"), "{error}");
    assert_eq!(answer(&bench, &event, LONG).await, Ok(DONE.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_panic_anywhere_else_fails_the_batch_and_says_only_where() {
    let bench = Bench::new();
    let line = Deliver::new(Decoder::default(), Mapping::default(), Arc::new(Endless), bench.store.clone(), bench.settings);
    let batch = Batch::read(&event("shard", &shard(&SHAPE))).expect("a Kinesis event");
    let error = answered(batch, line, LONG).await.expect_err("an error");
    assert!(error.kind == Kind::Bug && error.what.contains("positions.rs:") && !error.what.contains("secret"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_leaves_no_request_behind_that_would_go_on_after_the_answer() {
    let bench = Bench::with(Settings { request_operations: 1, ..Settings::default() });
    let sink = Arc::new(Nameless::default());
    let mut line = Deliver::new(Decoder::default(), Mapping::default(), sink.clone(), bench.store.clone(), bench.settings);
    let batch = Batch::read(&event("shard", &shard(&SHAPE))).expect("a Kinesis event");
    let error = handle(batch, &mut line, LONG).await.expect_err("an error");
    assert!(error.kind == Kind::Bug && error.what.contains("positions.rs:"), "{error}");
    assert!(sink.asked.load(Ordering::Relaxed) > 1, "another request was under way");
    assert_eq!(Arc::strong_count(&sink.here), 1, "and is no more");
}

/// A sink whose first request hangs and whose second panics, and that cannot say its name.
#[derive(Default)]
struct Nameless {
    asked: AtomicUsize,
    here: Arc<()>,
}

impl Sink for Nameless {
    fn name(&self) -> &str {
        panic!("no name")
    }

    fn write(&self, _: Arc<[Operation]>) -> Pending<'_, Result<Vec<Reply>, Failure>> {
        let here = Arc::clone(&self.here);
        assert_eq!(self.asked.fetch_add(1, Ordering::Relaxed), 0, "the second");
        Box::pin(async move {
            std::future::pending::<()>().await;
            drop(here);
            Ok(Vec::new())
        })
    }

    fn finish(&self) -> Pending<'_, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A sink that takes everything and cannot be finished.
struct Endless;

impl Sink for Endless {
    fn name(&self) -> &str {
        "endless"
    }

    fn write(&self, operations: Arc<[Operation]>) -> Pending<'_, Result<Vec<Reply>, Failure>> {
        Box::pin(std::future::ready(Ok(operations.iter().map(|_| Reply::ok(201)).collect())))
    }

    fn finish(&self) -> Pending<'_, Result<(), Error>> {
        let secret = "a secret";
        panic!("{secret}")
    }
}
