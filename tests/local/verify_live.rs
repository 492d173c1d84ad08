//! The proof while the stream and the index are written to, step by step: something happens before a page, a look-up or a write, and it is seen what the
//! proof makes of it. And what it makes of a sink that fails.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use revsync::codec::Decoder;
use revsync::error::{Error, Kind};
use revsync::operation::{Operation, Target};
use revsync::plan::fold::Class as Different;
use revsync::plan::mapping::Mapping;
use revsync::plan::outcome::{Class, Failure, Reply};
use revsync::record::{Fault, Record};
use revsync::revision::{Document, VersionType};
use revsync::run::deliver::{Deliver, Settings};
use revsync::run::verify::{Comparison, Findings, Repair, Request, verify};
use revsync::sink::local::Local;
use revsync::sink::{Asked, Contents, Detail, Held, Holding, Pending, Sink};
use revsync::source::scan::{Length, Page, Pages, Scan};
use revsync::store::dead_letters::DeadLetters;
use tokio::sync::watch;

use crate::command::{Folder, revision};
use crate::damage;
use crate::qldb_stream::{record, shard};

/// A stream that grows while it is read.
#[derive(Debug, Default)]
struct Stream {
    records: Arc<Mutex<Vec<Record>>>,
    read: usize,
    end: usize,
}

impl Pages for Stream {
    fn read(&mut self, _budget: usize) -> Result<Option<Page>, Error> {
        let from = std::mem::replace(&mut self.read, self.end);
        let records = self.records.lock().unwrap()[from..self.end].to_vec();
        Ok((!records.is_empty()).then_some(Page { records, read: self.end as u64 }))
    }

    fn total(&self) -> Length {
        Length::Messages(self.end as u64)
    }

    fn is_incomplete(&self) -> bool {
        false
    }

    fn has_dropped(&self) -> bool {
        false
    }

    fn extend(&mut self) -> Result<bool, Error> {
        self.end = self.records.lock().unwrap().len();
        Ok(true)
    }
}

/// What happens before the sink answers: revisions come to the stream, operations to the index, and the answer may be a failure.
#[derive(Debug, Default)]
struct Happens {
    revisions: String,
    operations: Vec<Operation>,
    failure: Option<Failure>,
}

impl Happens {
    fn come(revisions: &[String], operations: Vec<Operation>) -> Self {
        Self { revisions: revisions.concat(), operations, failure: None }
    }

    fn fail(failure: Failure) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Before {
    FirstPage,
    NextPage,
    LookUp,
    Write,
}

/// A local index to which things happen.
struct Eventful {
    index: Local,
    records: Arc<Mutex<Vec<Record>>>,
    happens: Mutex<BTreeMap<Before, VecDeque<Happens>>>,
    asked: Mutex<Vec<Before>>,
}

impl Eventful {
    async fn happen(&self, before: Before) -> Result<(), Failure> {
        let happens = {
            self.asked.lock().unwrap().push(before);
            self.happens.lock().unwrap().get_mut(&before).and_then(VecDeque::pop_front)
        };
        let Some(Happens { revisions, operations, failure }) = happens else { return Ok(()) };
        self.append(&revisions);
        damage::write(&self.index, operations).await;
        failure.map_or(Ok(()), Err)
    }

    fn append(&self, revisions: &str) {
        let mut records: MutexGuard<'_, Vec<Record>> = self.records.lock().unwrap();
        let origin = shard("0");
        for revision in revisions.lines() {
            let offset = records.len() as u64;
            records.push(record(&origin, offset, revision.to_owned().into()));
        }
    }
}

impl Sink for Eventful {
    fn name(&self) -> &str {
        "local:eventful"
    }

    fn write(&self, operations: Arc<[Operation]>) -> Pending<'_, Result<Vec<Reply>, Failure>> {
        Box::pin(async move {
            self.happen(Before::Write).await?;
            self.index.write(operations).await
        })
    }

    fn finish(&self) -> Pending<'_, Result<(), Error>> {
        self.index.finish()
    }
}

impl Contents for Eventful {
    fn holding<'a>(&'a self, index: &'a str, with: Detail, after: Option<String>) -> Pending<'a, Result<Option<Holding>, Failure>> {
        Box::pin(async move {
            self.happen(if after.is_some() { Before::NextPage } else { Before::FirstPage }).await?;
            self.index.holding(index, with, after).await
        })
    }

    fn held<'a>(&'a self, index: &'a str, ids: &'a [Asked], with: Detail) -> Pending<'a, Result<Vec<Option<Held>>, Failure>> {
        Box::pin(async move {
            self.happen(Before::LookUp).await?;
            self.index.held(index, ids, with).await
        })
    }

    fn forget_deletes<'a>(&'a self, index: &'a str, ids: &'a [Asked]) -> Pending<'a, Result<(), Failure>> {
        self.index.forget_deletes(index, ids)
    }
}

struct Proof {
    folder: Folder,
    sink: Arc<Eventful>,
    findings: Findings,
    give_up_after: Duration,
}

impl Proof {
    /// A stream of these revisions, and an index that holds what these operations make of it.
    async fn of(revisions: &[String], operations: Vec<Operation>) -> Self {
        let folder = Folder::new();
        let index = Local::open(&folder.path().join("index.db")).unwrap();
        let sink = Eventful { index, records: Arc::default(), happens: Mutex::default(), asked: Mutex::default() };
        sink.append(&revisions.concat());
        damage::write(&sink.index, operations).await;
        Self { folder, sink: Arc::new(sink), findings: Findings::default(), give_up_after: Duration::from_secs(60) }
    }

    fn happening(self, before: Before, happens: impl IntoIterator<Item = Happens>) -> Self {
        self.sink.happens.lock().unwrap().entry(before).or_default().extend(happens);
        self
    }

    async fn run(&mut self, repairs: bool) -> Result<(), Error> {
        let mut stream = Stream { records: self.sink.records.clone(), ..Stream::default() };
        stream.extend().unwrap();
        let mapping = Mapping::new(Vec::new()).unwrap();
        let letters = Arc::new(DeadLetters::in_file(&self.folder.path().join("letters.jsonl")).unwrap());
        let deliver = || Deliver::new(Decoder::default(), mapping.clone(), self.sink.clone(), letters, Settings::default());
        let repair = repairs.then(|| Repair { deliver: deliver(), deletes: mapping.deletes(), force: true });
        let request = Request {
            source: Scan::Driven(Box::new(stream)),
            decoder: Decoder::default(),
            mapping: mapping.clone(),
            sink: self.sink.clone(),
            contents: false,
            sample: None,
            memory: 1 << 20,
            give_up_after: self.give_up_after,
        };
        let (_stop, stopping) = watch::channel(false);
        verify(request, repair, stopping, &mut self.findings, |_| {}).await
    }

    /// What is different, each with what the index has and what the stream.
    async fn finds(mut self) -> Vec<(Different, String, Option<u64>, Option<u64>)> {
        self.run(false).await.unwrap();
        let Comparison { counts, sample } = self.findings.found.unwrap();
        assert_eq!(counts.iter().sum::<u64>(), sample.len() as u64);
        sample.into_iter().map(|(_, found)| (found.class, found.id, found.held, found.folded)).collect()
    }

    fn asked(&self, before: Before) -> usize {
        self.sink.asked.lock().unwrap().iter().filter(|asked| **asked == before).count()
    }
}

fn now(id: &str, version: u64) -> String {
    revision("Car", id, version, Some("{A:1}"))
}

fn gone(id: &str, version: u64) -> String {
    revision("Car", id, version, None)
}

fn target(id: &str, version: u64) -> Target {
    Target { index: "car".into(), id: id.to_owned(), version, version_type: VersionType::ExternalGte, routing: None }
}

fn put(id: &str, version: u64) -> Operation {
    Operation::Index { target: target(id, version), document: Document("{\"A\":1}".into()) }
}

fn delete(id: &str, version: u64) -> Operation {
    Operation::Delete { target: target(id, version) }
}

#[tokio::test]
async fn what_a_pipeline_wrote_meanwhile_is_nothing_foreign_ahead_or_missing() {
    let proof = Proof::of(&[now("changed", 0), now("deleted", 0)], vec![put("changed", 0), put("deleted", 0)]).await;
    let meanwhile = Happens::come(
        &[now("changed", 1), now("new", 0), gone("deleted", 1)],
        vec![put("changed", 1), put("new", 0), delete("deleted", 1)],
    );
    assert_eq!(proof.happening(Before::FirstPage, [meanwhile]).finds().await, []);
}

#[tokio::test]
async fn a_document_that_was_deleted_meanwhile_is_not_missing() {
    let proof = Proof::of(&[now("a", 0)], vec![put("a", 0)]).await;
    let meanwhile = Happens::come(&[gone("a", 1)], vec![delete("a", 1)]);
    assert_eq!(proof.happening(Before::FirstPage, [meanwhile]).finds().await, []);
}

#[tokio::test]
async fn what_a_pipeline_wrote_after_the_page_and_before_the_look_up_is_no_difference() {
    let proof = Proof::of(&[now("late", 0), now("old", 1), gone("back", 1), now("newer", 1)], vec![put("old", 0), put("back", 0)]).await;
    let meanwhile = Happens::come(&[now("newer", 2)], vec![put("late", 0), put("old", 1), delete("back", 1), put("newer", 2)]);
    assert_eq!(proof.happening(Before::LookUp, [meanwhile]).finds().await, []);
}

#[tokio::test]
async fn what_came_to_the_stream_meanwhile_and_not_to_the_index_yet_is_no_difference() {
    let proof = Proof::of(&[now("slow", 0), now("other", 0)], vec![put("other", 0)]).await;
    let first = Happens::come(&[now("slow", 1), now("other", 1), now("new", 0)], vec![]);
    // The index comes to what the stream had at first only.
    let proof = proof
        .happening(Before::FirstPage, [first])
        .happening(Before::LookUp, [Happens::default(), Happens::come(&[], vec![put("slow", 0)])]);
    assert_eq!(proof.finds().await, []);
}

#[tokio::test]
async fn what_is_different_all_the_same_is_told() {
    let proof = Proof::of(&[now("ahead", 1), now("missing", 1)], vec![put("ahead", 9), put("foreign", 3)]).await;
    let meanwhile = Happens::come(&[now("ahead", 2), now("other", 0)], vec![put("other", 0)]);
    let found = proof.happening(Before::FirstPage, [meanwhile]).finds().await;
    let expected = [
        (Different::Missing, "missing".to_owned(), None, Some(1)),
        (Different::Foreign, "foreign".to_owned(), Some(3), None),
        (Different::Ahead, "ahead".to_owned(), Some(9), Some(1)),
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_repair_never_writes_over_what_came_between_the_comparison_and_its_request() {
    let proof = Proof::of(&[now("a", 1), now("b", 0)], vec![put("a", 0), put("b", 0), put("foreign", 3)]).await;
    let meanwhile = Happens::come(&[now("a", 5), now("foreign", 4)], vec![put("a", 5), put("foreign", 4)]);
    let mut proof = proof.happening(Before::Write, [meanwhile]);
    proof.run(true).await.unwrap();
    let (found, left) = (proof.findings.found.as_ref().unwrap(), proof.findings.left.as_ref().unwrap());
    assert_eq!((found.count(Different::Stale), found.count(Different::Foreign), left.is_equal()), (1, 1, true), "{left:?}");
    let held = |id| proof.sink.index.get("car", id).unwrap().map(|(version, _)| version);
    assert_eq!((held("a"), held("foreign")), (Some(5), Some(4)));
}

#[tokio::test]
async fn a_page_that_fails_is_asked_for_again_and_where_the_place_is_lost_the_index_is_walked_anew() {
    let busy = || Happens::fail(Failure::Retry { class: Class::Throttled, what: "busy".to_owned(), after: None });
    let lost = || Happens::fail(Failure::Invalid(Fault::new("point_in_time", "it is gone")));
    let proof = Proof::of(&[now("a", 1), now("b", 1), now("c", 1)], vec![put("a", 0), put("b", 1), put("foreign", 3)]).await;
    let mut proof = proof
        .happening(Before::FirstPage, [busy(), Happens::default(), busy()])
        .happening(Before::NextPage, [busy(), lost(), busy()])
        .happening(Before::LookUp, [busy()]);
    proof.run(false).await.unwrap();
    let counts = proof.findings.found.as_ref().unwrap().counts;
    assert_eq!(counts, [1, 1, 0, 1, 0, 0], "each difference once");
    assert_eq!((proof.asked(Before::FirstPage), proof.asked(Before::NextPage)), (4, 4));
}

#[tokio::test]
async fn a_sink_that_loses_its_place_for_ever_is_given_up_in_the_end() {
    let lost = || Happens::fail(Failure::Invalid(Fault::new("point_in_time", "it is gone")));
    let proof = Proof::of(&[now("a", 1)], vec![put("a", 1)]).await;
    let mut proof = proof.happening(Before::NextPage, (0..10_000).map(|_| lost()));
    proof.give_up_after = Duration::from_millis(300);
    let error = proof.run(false).await.unwrap_err();
    assert!(error.kind == Kind::Pending && error.what.contains("it is gone"), "{error}");
    assert_eq!(proof.findings.found, None);
}
