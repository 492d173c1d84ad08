//! The handler with the real line behind it and a scripted sink at its end: what Lambda is told when all goes well, and when it does not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use revsync::codec::{Content, Decoder};
use revsync::error::{Error, Kind};
use revsync::metrics::Notes;
use revsync::operation::Operation;
use revsync::plan::mapping::Mapping;
use revsync::plan::outcome::{Class, Failure, Reply};
use revsync::record::Position;
use revsync::run::deliver::{Deliver, Settings};
use revsync::sink::{Pending, Sink};
use revsync::store::dead_letters::DeadLetters;
use revsync_lambda::Batch;

use crate::{answered, fixture};

/// More than any of these tests takes.
const LONG_ENOUGH: Duration = Duration::from_secs(60);

/// A sink that answers by a script and remembers the highest version that it took of each document.
struct Scripted {
    script: fn(&Operation) -> Answer,
    taken: Mutex<BTreeMap<String, u64>>,
}

enum Answer {
    Take,
    Reply(Reply),
    Fail(Failure),
    Hang,
}

impl Sink for Scripted {
    fn name(&self) -> &str {
        "a scripted sink"
    }

    fn write(&self, operations: Arc<[Operation]>) -> Pending<'_, Result<Vec<Reply>, Failure>> {
        Box::pin(async move {
            let mut replies = Vec::new();
            for operation in operations.iter() {
                match (self.script)(operation) {
                    Answer::Take => {
                        let target = operation.target();
                        let mut taken = self.taken.lock().expect("no panic elsewhere");
                        let highest = taken.entry(target.id.clone()).or_default();
                        *highest = target.version.max(*highest);
                        replies.push(Reply::ok(200));
                    }
                    Answer::Reply(reply) => replies.push(reply),
                    Answer::Fail(failure) => return Err(failure),
                    Answer::Hang => std::future::pending().await,
                }
            }
            Ok(replies)
        })
    }

    fn finish(&self) -> Pending<'_, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

fn registrations() -> Batch {
    Batch::read(&fixture("vehicle-registration/lambda-event.json")).expect("a Kinesis event")
}

/// The Kinesis record that brings the first revision of a document.
fn first_record_of(id: &str) -> String {
    let (mut decoder, mut notes) = (Decoder::default(), Notes::default());
    for record in registrations().records {
        let mut units = Vec::new();
        decoder.decode(&record, &mut units, &mut notes);
        let about_it = |content: &Content| matches!(content, Content::Revision(revision) if id.is_empty() || revision.id == id);
        if units.iter().any(|unit| about_it(&unit.content)) {
            let Position::Sequence { number, .. } = record.position else { panic!("expected a sequence number") };
            return number.0;
        }
    }
    panic!("no revision of {id}");
}

struct Outcome {
    /// The bytes of the reply.
    reply: Result<String, Error>,
    taken: BTreeMap<String, u64>,
    letters: usize,
}

/// Runs the handler over the vehicle registrations. Without a place, dead letters cannot be stored.
async fn invoke(script: fn(&Operation) -> Answer, left: Duration, letters_can_be_stored: bool) -> Outcome {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("letters");
    std::fs::create_dir(&inner).expect("a folder");
    let file = inner.join("letters.jsonl");
    let dead_letters = Arc::new(DeadLetters::in_file(&file).expect("a place for letters"));
    if !letters_can_be_stored {
        std::fs::remove_dir_all(&inner).expect("the folder can go");
    }
    let sink = Arc::new(Scripted { script, taken: Mutex::default() });
    let settings = Settings { give_up_after: Some(Duration::from_millis(300)), ..Settings::default() };
    let line = Deliver::new(Decoder::default(), Mapping::default(), sink.clone(), dead_letters, settings);
    let reply = answered(registrations(), line, left).await.map(|reply| serde_json::to_string(&reply).expect("JSON"));
    let letters = std::fs::read_to_string(&file).unwrap_or_default().lines().count();
    let taken = sink.taken.lock().expect("no panic elsewhere").clone();
    Outcome { reply, taken, letters }
}

fn everything_from(number: &str) -> Result<String, Error> {
    Ok(format!(r#"{{"batchItemFailures":[{{"itemIdentifier":"{number}"}}]}}"#))
}

fn nothing() -> Result<String, Error> {
    Ok(r#"{"batchItemFailures":[]}"#.to_owned())
}

fn unavailable() -> Failure {
    Failure::Retry { class: Class::Unavailable, what: "connection refused".to_owned(), after: None }
}

/// A document whose first revision is somewhere in the middle of the event.
const ONE: &str = "ly6uorZxldL0jgOS9UhVbn";

fn is_one(operation: &Operation) -> bool {
    operation.target().id == ONE
}

#[tokio::test]
async fn an_event_that_is_written_leaves_nothing_to_send_again() {
    let outcome = invoke(|_| Answer::Take, LONG_ENOUGH, true).await;
    assert_eq!(outcome.reply, nothing());
    assert_eq!((outcome.taken.len(), outcome.taken[ONE], outcome.letters), (21, 2, 0));
}

#[tokio::test]
async fn an_event_that_came_twice_is_stale_and_leaves_nothing_to_send_again() {
    let outcome = invoke(|_| Answer::Reply(Reply::error(409, "version_conflict_engine_exception", "")), LONG_ENOUGH, true).await;
    assert_eq!((outcome.reply, outcome.letters), (nothing(), 0));
}

#[tokio::test]
async fn a_sink_that_is_down_brings_everything_back_from_the_first_revision_on() {
    let outcome = invoke(|_| Answer::Fail(unavailable()), LONG_ENOUGH, true).await;
    assert_eq!((outcome.reply, outcome.letters), (everything_from(&first_record_of("")), 0));
}

#[tokio::test]
async fn one_document_that_must_wait_brings_its_record_back_and_what_follows() {
    let answer = |operation: &Operation| {
        if is_one(operation) { Answer::Reply(Reply::error(429, "rejected_execution_exception", "")) } else { Answer::Take }
    };
    let outcome = invoke(answer, LONG_ENOUGH, true).await;
    assert_eq!(outcome.reply, everything_from(&first_record_of(ONE)));
    assert_ne!(first_record_of(ONE), first_record_of(""), "the test needs a document that is not in the first record");
}

#[tokio::test]
async fn a_sink_that_hangs_is_left_in_time() {
    let outcome = invoke(|_| Answer::Hang, Duration::from_millis(400), true).await;
    assert_eq!(outcome.reply, everything_from(&first_record_of("")));
}

#[tokio::test]
async fn poison_becomes_a_dead_letter_and_nothing_comes_back() {
    let answer = |operation: &Operation| {
        if is_one(operation) { Answer::Reply(Reply::error(400, "mapper_parsing_exception", "")) } else { Answer::Take }
    };
    let outcome = invoke(answer, LONG_ENOUGH, true).await;
    assert_eq!(outcome.reply, nothing());
    assert!(outcome.letters > 0 && !outcome.taken.contains_key(ONE), "{} letters", outcome.letters);
}

#[tokio::test]
async fn a_dead_letter_that_cannot_be_stored_brings_its_record_back() {
    let answer = |operation: &Operation| {
        if is_one(operation) { Answer::Reply(Reply::error(400, "mapper_parsing_exception", "")) } else { Answer::Take }
    };
    let outcome = invoke(answer, LONG_ENOUGH, false).await;
    assert_eq!(outcome.reply, everything_from(&first_record_of(ONE)));
}

#[tokio::test]
async fn a_sink_that_refuses_the_pipeline_fails_the_whole_batch() {
    let outcome = invoke(|_| Answer::Fail(Failure::Unauthorized { what: "401".to_owned() }), LONG_ENOUGH, true).await;
    assert_eq!(outcome.reply.map_err(|error| error.kind), Err(Kind::Sink));
}
