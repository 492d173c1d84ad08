//! A sweep over a sink inside the test: what it removes and what it never does, and that it ends whatever the sink does.
//!
//! Time is simulated: an hour of waiting takes none. The clock on the wall is real, so tombstones are of years long gone, or of none to come.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use revsync::error::{Error, Kind};
use revsync::metrics::{Kept, Swept};
use revsync::operation::{Operation, Target};
use revsync::plan::outcome::{Class, Failure, Reply};
use revsync::plan::tombstone::document;
use revsync::revision::VersionType;
use revsync::run::sweep::{Request, sweep};
use revsync::sink::{Candidate, Page, Pending, Sink, Survey, Tombstones};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::Instant;

/// A time long past, in milliseconds since 1970.
const OLD: u64 = 1_000;
/// A time that never comes.
const YOUNG: u64 = u64::MAX;

/// Documents of one index, by id: version and source.
#[derive(Default)]
struct State {
    documents: BTreeMap<String, (u64, String)>,
    /// What becomes of the next requests for a page, and of the next deletes.
    pages: VecDeque<Failure>,
    writes: VecDeque<Failure>,
    /// The answer to the deletes of an id, so many times.
    answers: BTreeMap<String, (Reply, usize)>,
    /// Written just before the next delete.
    meanwhile: Option<(String, u64)>,
    /// Ids of every request.
    requests: Vec<Vec<String>>,
    hangs: bool,
    /// Every page but the first fails.
    loses_its_place: bool,
}

/// An index `people` under its own name and that of its alias.
#[derive(Default)]
struct Yard(Mutex<State>);

const PAGE: usize = 3;

impl Yard {
    fn with(documents: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let yard = Self::default();
        yard.state().documents = documents.into_iter().map(|(id, source)| (id.to_owned(), (7, source))).collect();
        yard
    }

    fn old(ids: impl IntoIterator<Item = &'static str>) -> Self {
        Self::with(ids.into_iter().map(|id| (id, tombstone(OLD))))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn left(&self) -> Vec<String> {
        self.state().documents.keys().cloned().collect()
    }
}

fn tombstone(time: u64) -> String {
    String::from_utf8(document(time).0.to_vec()).unwrap()
}

fn target(id: &str, version: u64) -> Target {
    Target { index: "people".into(), id: id.to_owned(), version, version_type: VersionType::ExternalGte, routing: None }
}

impl Sink for Yard {
    fn name(&self) -> &str {
        "yard"
    }

    fn write(&self, operations: Arc<[Operation]>) -> Pending<'_, Result<Vec<Reply>, Failure>> {
        let mut state = self.state();
        if state.hangs {
            return Box::pin(std::future::pending());
        }
        if let Some((id, version)) = state.meanwhile.take() {
            state.documents.insert(id, (version, "{}".to_owned()));
        }
        state.requests.push(operations.iter().map(|operation| operation.target().id.clone()).collect());
        if let Some(failure) = state.writes.pop_front() {
            return Box::pin(std::future::ready(Err(failure)));
        }
        let replies = operations.iter().map(|operation| state.delete(operation)).collect();
        Box::pin(std::future::ready(Ok(replies)))
    }

    fn finish(&self) -> Pending<'_, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

impl State {
    fn delete(&mut self, operation: &Operation) -> Reply {
        let Operation::Delete { target } = operation else { panic!("a sweep writes nothing: {operation:?}") };
        assert_eq!(target.version_type, VersionType::ExternalGte);
        if let Some((reply, left @ 1..)) = self.answers.get_mut(&target.id) {
            *left -= 1;
            return reply.clone();
        }
        match self.documents.get(&target.id) {
            None => Reply::ok(404),
            Some((version, _)) if *version > target.version => Reply::error(409, "version_conflict_engine_exception", "conflict"),
            Some(_) => {
                self.documents.remove(&target.id);
                Reply::ok(200)
            }
        }
    }
}

impl Tombstones for Yard {
    fn survey<'a>(&'a self, name: &'a str, _: u64) -> Pending<'a, Result<Vec<Survey>, Failure>> {
        let there = matches!(name, "people" | "alias").then(|| Survey { index: "people".into(), old: 4, younger: 2 });
        Box::pin(std::future::ready(Ok(there.into_iter().collect())))
    }

    /// Gives every document as one that looks old: what it says is for the sweep to read. The mark is the last id.
    fn page<'a>(&'a self, index: &'a str, _: u64, after: Option<String>) -> Pending<'a, Result<Page, Failure>> {
        assert_eq!(index, "people");
        let mut state = self.state();
        if let Some(failure) = state.pages.pop_front() {
            return Box::pin(std::future::ready(Err(failure)));
        }
        if after.is_some() && state.loses_its_place {
            return Box::pin(std::future::ready(Err(unavailable())));
        }
        let after = after.unwrap_or_default();
        let found: Vec<Candidate> = (state.documents.iter())
            .filter(|(id, _)| **id > after)
            .take(PAGE)
            .map(|(id, (version, source))| Candidate {
                target: target(id, *version),
                source: RawValue::from_string(source.clone()).unwrap(),
            })
            .collect();
        let next = found.last().map_or(after, |last| last.target.id.clone());
        Box::pin(std::future::ready(Ok(Page { found, next })))
    }
}

fn request(names: &[&str]) -> Request {
    Request {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        must_exist: true,
        age: Duration::from_secs(3600),
        dry_run: false,
        give_up_after: Duration::from_secs(300),
    }
}

async fn swept(yard: &Yard, request: &Request) -> (Result<(), Error>, Swept) {
    let mut counts = Swept::default();
    let (_stop, stopping) = watch::channel(false);
    let result = sweep(yard, request, stopping, &mut counts, |_, _| {}).await;
    (result, counts)
}

fn counts(swept: u64, kept: &[(Kept, u64)]) -> Swept {
    Swept { swept, kept: kept.iter().copied().collect() }
}

/// The younger ones that the survey tells of.
const YOUNGER: (Kept, u64) = (Kept::Younger, 2);

fn unavailable() -> Failure {
    Failure::Retry { class: Class::Unavailable, what: "status 503".to_owned(), after: None }
}

#[tokio::test(start_paused = true)]
async fn only_what_says_that_it_is_an_old_tombstone_is_removed() {
    let documents = [
        ("a", tombstone(OLD)),
        ("b", tombstone(YOUNG)),
        ("c", r#"{"revsync":{"v":2,"deleted":true}}"#.to_owned()),
        ("d", r#"{"revsync":{"deleted":true},"name":"Raul"}"#.to_owned()),
        ("e", tombstone(OLD)),
        ("f", "null".to_owned()),
    ];
    let yard = Yard::with(documents);
    let (result, found) = swept(&yard, &request(&["people"])).await;
    assert_eq!(result, Ok(()));
    assert_eq!(found, counts(2, &[(Kept::Younger, 3), (Kept::NewerForm, 1), (Kept::Foreign, 2)]));
    assert_eq!(yard.left(), ["b", "c", "d", "f"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_written_between_the_look_and_the_delete_stays() {
    let yard = Yard::old(["a", "b"]);
    yard.state().meanwhile = Some(("a".to_owned(), 8));
    assert_eq!(swept(&yard, &request(&["people"])).await, (Ok(()), counts(1, &[YOUNGER, (Kept::Rewritten, 1)])));
    assert_eq!(yard.state().documents["a"], (8, "{}".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_counts_and_removes_nothing() {
    let yard = Yard::old(["a", "b", "c", "d"]);
    let (result, found) = swept(&yard, &Request { dry_run: true, ..request(&["people"]) }).await;
    assert_eq!((result, found), (Ok(()), counts(4, &[YOUNGER])));
    assert_eq!((yard.left().len(), yard.state().requests.len()), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn two_names_of_one_index_sweep_it_once() {
    let yard = Yard::old(["a"]);
    assert_eq!(swept(&yard, &request(&["people", "alias"])).await, (Ok(()), counts(1, &[YOUNGER])));
}

#[tokio::test(start_paused = true)]
async fn a_name_without_an_index_is_found_before_anything_is_removed_or_passed_over() {
    let yard = Yard::old(["a"]);
    let (result, found) = swept(&yard, &request(&["people", "poeple"])).await;
    assert_eq!((result.unwrap_err().kind, found, yard.left().len()), (Kind::Usage, Swept::default(), 1));
    let passed_over = Request { must_exist: false, ..request(&["poeple", "people"]) };
    assert_eq!(swept(&yard, &passed_over).await, (Ok(()), counts(1, &[YOUNGER])));
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_waited_out_and_nothing_is_counted_twice() {
    let documents = ["a", "b", "c", "d", "e"].map(|id| (id, tombstone(if id == "b" { YOUNG } else { OLD })));
    for dry_run in [false, true] {
        let yard = Yard::with(documents.clone());
        yard.state().pages = [unavailable(), unavailable()].into();
        yard.state().writes = [unavailable()].into();
        yard.state().answers = [("e".to_owned(), (Reply::error(429, "rejected_execution_exception", "queue full"), 2))].into();
        let (result, found) = swept(&yard, &Request { dry_run, ..request(&["people"]) }).await;
        assert_eq!((result, found), (Ok(()), counts(4, &[(Kept::Younger, 3)])), "dry run {dry_run}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_removed_does_not_keep_a_sweep_from_its_end() {
    for reply in [
        Reply::error(403, "cluster_block_exception", "index is read-only"),
        Reply::error(503, "unavailable_shards_exception", "primary shard is not active"),
        Reply::error(400, "illegal_argument_exception", "no"),
        Reply::error(500, "surprising_exception", "who knows"),
    ] {
        let yard = Yard::old(["a", "b", "c", "d", "e"]);
        yard.state().answers = [("b".to_owned(), (reply.clone(), usize::MAX)), ("d".to_owned(), (reply, usize::MAX))].into();
        assert_eq!(swept(&yard, &request(&["people"])).await, (Ok(()), counts(3, &[YOUNGER, (Kept::Failed, 2)])));
        assert_eq!(yard.left(), ["b", "d"]);
    }
    let yard = Yard::old(["a", "b", "c", "d"]);
    yard.state().writes = [Failure::Retry { class: Class::Blocked, what: "index people is gone".to_owned(), after: None }].into();
    assert_eq!(swept(&yard, &request(&["people"])).await, (Ok(()), counts(1, &[YOUNGER, (Kept::Failed, 3)])));
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_stays_down_is_given_up_with_what_was_removed_counted() {
    let yard = Yard::old(["a", "b", "c", "d"]);
    yard.state().answers = [("d".to_owned(), (Reply::error(429, "rejected_execution_exception", "queue full"), usize::MAX))].into();
    let began = Instant::now();
    let (result, found) = swept(&yard, &request(&["people"])).await;
    let error = result.unwrap_err();
    assert_eq!((error.kind, found), (Kind::Pending, counts(3, &[YOUNGER])));
    assert!(error.what.contains("nothing was got done for 300s") && error.what.contains("rejected_execution_exception"), "{error}");
    assert!((300..320).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_loses_its_place_is_asked_from_the_beginning_and_not_for_ever() {
    let yard = Yard::old(["a", "b", "c", "d"]);
    yard.state().loses_its_place = true;
    assert_eq!(swept(&yard, &request(&["people"])).await, (Ok(()), counts(4, &[YOUNGER])));

    let yard = Yard::with(["a", "b", "c", "d"].map(|id| (id, tombstone(YOUNG))));
    yard.state().loses_its_place = true;
    let began = Instant::now();
    let (result, found) = swept(&yard, &request(&["people"])).await;
    assert_eq!((result.unwrap_err().kind, found), (Kind::Pending, counts(0, &[YOUNGER])));
    assert!((300..320).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_refuses_the_sweep_ends_it_at_once() {
    for failure in [
        Failure::Unauthorized { what: "no permissions".to_owned() },
        Failure::Misconfigured { what: "no".to_owned() },
        Failure::TooLarge { what: "status 413".to_owned(), limit: None },
    ] {
        let yard = Yard::old(["a"]);
        yard.state().writes = [failure].into();
        let (result, found) = swept(&yard, &request(&["people"])).await;
        assert_eq!((result.unwrap_err().kind, found), (Kind::Sink, counts(0, &[YOUNGER])));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_signal_ends_a_sweep_that_works_waits_or_hangs() {
    for (hangs, down) in [(false, false), (false, true), (true, false)] {
        let yard = Yard::old(["a", "b", "c", "d"]);
        yard.state().hangs = hangs;
        if down {
            yard.state().pages = (0..100).map(|_| unavailable()).collect();
        }
        let (stop, stopping) = watch::channel(false);
        let mut found = Swept::default();
        let began = Instant::now();
        let request = request(&["people"]);
        let sweeping = sweep(&yard, &request, stopping, &mut found, |_, _| {
            stop.send_replace(true);
        });
        let stopped_later = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            stop.send_replace(true);
            std::future::pending::<()>().await;
        };
        let result = tokio::select! {
            result = sweeping => result,
            () = stopped_later => Ok(()),
        };
        assert_eq!(result.unwrap_err().kind, Kind::Interrupted);
        assert!(began.elapsed() <= Duration::from_secs(13), "{:?}", began.elapsed());
        assert_eq!(found.swept, if hangs || down { 0 } else { 3 }, "what was removed is counted");
    }
}
