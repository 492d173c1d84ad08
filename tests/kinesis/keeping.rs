//! The half of the worker that keeps leases and checkpoints, with a scripted stream, a place in memory, and a worker that is the test.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use revsync::error::{Error, Kind};
use revsync::operation::Operation;
use revsync::plan::checkpoint::{Begin, Start};
use revsync::plan::ledger::Settled;
use revsync::plan::outcome::{Failure, Reply};
use revsync::plan::stored::{Change, Stamp, Stored, Written};
use revsync::record::{Position, SequenceNumber};
use revsync::run::clock::millis;
use revsync::run::keeper::{Keeper, Order, Told};
use revsync::run::leases::Leases;
use revsync::run::standing::{About, Shard, ShardPhase, Standing};
use revsync::sink::{self, Sink};
use revsync::store::checkpoints::{Checkpoints, Pending, Pipeline, Shelf};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::connect;
use crate::script::{self, ARN, ScriptedStream};

const EVERY: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(20);

/// What a test has happen before the next read of all rows.
type Meanwhile = Box<dyn FnOnce(&mut Rows) + Send>;

/// The rows in memory, by the names of the shards.
#[derive(Default)]
struct Rows {
    rows: HashMap<String, (u64, Value)>,
    last: u64,
    /// A shard of which the next write fails.
    fails: Option<String>,
    meanwhile: Option<Meanwhile>,
}

impl Rows {
    fn put(&mut self, shard: &str, content: Value) {
        self.last += 1;
        let row = json!({ "v": 1, "pipeline": "p", "stream": ARN, "shard": shard, "content": content });
        self.rows.insert(id(shard), (self.last, row));
    }

    fn content(&self, shard: &str) -> Value {
        self.rows.get(&id(shard)).map(|(_, row)| row["content"].clone()).unwrap_or_default()
    }

    fn apply(&mut self, change: Change) -> Written {
        if self.fails.take_if(|shard| change.id == id(shard)).is_some() {
            return Written::Failed(Error::new(Kind::Pending, "too many requests"));
        }
        let now = self.rows.get(&change.id).map(|(number, _)| Stamp { number: *number, term: 0 });
        if now != change.expect {
            return Written::Conflict;
        }
        self.last += 1;
        match change.body {
            Some(body) => drop(self.rows.insert(change.id, (self.last, serde_json::from_str(&body).unwrap()))),
            None => drop(self.rows.remove(&change.id)),
        }
        Written::Done(Stamp { number: self.last, term: 0 })
    }
}

fn id(shard: &str) -> String {
    pipeline().id(shard)
}

fn pipeline() -> Pipeline {
    Pipeline::new("p", ARN).unwrap()
}

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Rows>>);

impl Memory {
    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap()
    }
}

impl Shelf for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn read<'a>(&'a self, _: Option<&'a Pipeline>) -> Pending<'a, Result<Vec<Stored>, Error>> {
        let mut rows = self.rows();
        if let Some(meanwhile) = rows.meanwhile.take() {
            meanwhile(&mut rows);
        }
        let stored = |(id, (number, row)): (&String, &(u64, Value))| Stored {
            id: id.clone(),
            stamp: Stamp { number: *number, term: 0 },
            body: row.to_string(),
        };
        let stored = rows.rows.iter().map(stored).collect();
        Box::pin(async { Ok(stored) })
    }

    fn write(&self, changes: Vec<Change>) -> Pending<'_, Result<Vec<Written>, Error>> {
        let written = changes.into_iter().map(|change| self.rows().apply(change)).collect();
        Box::pin(async { Ok(written) })
    }
}

/// A sink to which nothing is sent.
struct Unused;

impl Sink for Unused {
    fn name(&self) -> &str {
        "unused"
    }

    fn write(&self, _: Arc<[Operation]>) -> sink::Pending<'_, Result<Vec<Reply>, Failure>> {
        panic!("a keeper sends nothing")
    }

    fn finish(&self) -> sink::Pending<'_, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }
}

struct Bench {
    stream: ScriptedStream,
    rows: Memory,
    standing: Arc<Standing>,
    orders: UnboundedReceiver<Order>,
    tell: UnboundedSender<Told>,
    keeping: JoinHandle<Result<(), Error>>,
    _end: watch::Sender<bool>,
}

impl Bench {
    /// A keeper of a stream of these shards, of which these rows are there already.
    async fn start(shards: Vec<script::Shard>, rows: Memory) -> Self {
        let stream = ScriptedStream::start(shards).await;
        let standing = Arc::new(Standing::new(About::default()));
        let shelf: Arc<dyn Shelf> = Arc::new(rows.clone());
        let keeper = Keeper {
            stream: Arc::new(connect(&stream.url()).await.unwrap()),
            leases: Leases::new(Arc::new(Checkpoints::new(shelf, pipeline())), "me".to_owned(), Duration::from_secs(30)),
            standing: Arc::clone(&standing),
            sink: Arc::new(Unused),
            start: Start::Earliest,
            every: EVERY,
            stops_on_data_loss: false,
        };
        let (order, orders) = unbounded_channel();
        let (tell, told) = unbounded_channel();
        let (end, ends) = watch::channel(false);
        let keeping = tokio::spawn(keeper.keep(order, told, ends));
        Self { stream, rows, standing, orders, tell, keeping, _end: end }
    }

    /// The next order in words.
    async fn next(&mut self) -> String {
        match timeout(PATIENCE, self.orders.recv()).await.expect("an order").unwrap() {
            Order::Read { shard, begin, .. } => format!("read {shard} {begin:?}"),
            Order::Leave { shard } => format!("leave {shard}"),
        }
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Rows) -> bool) {
        let waited = timeout(PATIENCE, async {
            while !is_so(&self.rows.rows()) {
                sleep(EVERY / 10).await;
            }
        });
        assert!(waited.await.is_ok(), "{what} never came");
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.keeping.abort();
    }
}

fn another() -> Value {
    json!({ "name": "another", "session": "another", "takeover_after": 30_000 })
}

fn row(owner: Value, epoch: u64, progress: Value) -> Value {
    json!({ "owner": owner, "epoch": epoch, "heartbeat": 7, "progress": progress })
}

fn settled(number: &str) -> Value {
    json!({ "settled": { "sequence": { "number": number } } })
}

fn begins(shard: &str) -> String {
    format!("read {shard} {:?}", Begin::Earliest)
}

fn goes_on(shard: &str, number: &str) -> String {
    let position = Position::Sequence { number: SequenceNumber(number.into()), sub: None };
    format!("read {shard} {:?}", Begin::After { position })
}

fn split() -> Vec<script::Shard> {
    let parent = script::Shard { closed: true, ..script::Shard::with("shard-0", [10]) };
    vec![parent, script::Shard { parents: vec!["shard-0".to_owned()], ..script::Shard::with("shard-1", [20]) }]
}

#[tokio::test]
async fn a_new_shard_that_another_worker_let_go_is_gone_on_with_and_not_taken_for_one_that_vanished() {
    let rows = Memory::default();
    rows.rows().put("shard-0", row(another(), 1, settled("10")));
    let mut bench = Bench::start(vec![script::Shard::with("shard-0", [10])], rows).await;
    while bench.stream.asked("ListShards").is_empty() {
        sleep(EVERY / 10).await;
    }
    sleep(2 * EVERY).await;
    // The other one reads the shard to its end, begins with its child, and stops.
    bench.stream.change(|state| state.shards = split());
    {
        let mut rows = bench.rows.rows();
        rows.put("shard-0", row(Value::Null, 1, json!("ended")));
        rows.put("shard-1", row(Value::Null, 1, settled("20")));
    }
    assert_eq!(bench.next().await, goes_on("shard-1", "20"));
    assert!(bench.standing.state().data_loss.is_empty());
}

#[tokio::test]
async fn a_shard_that_is_really_gone_is_a_loss_once() {
    let rows = Memory::default();
    rows.rows().put("shard-9", row(Value::Null, 1, settled("10")));
    let mut bench = Bench::start(vec![script::Shard::new("shard-0")], rows).await;
    assert_eq!(bench.next().await, begins("shard-0"));
    // Nobody needs its row any more.
    bench.until("the end of the row", |rows| rows.content("shard-9").is_null() || rows.content("shard-9")["progress"] == "ended").await;
    sleep(3 * EVERY).await;
    assert_eq!(bench.standing.state().data_loss.values().sum::<u64>(), 1);
}

#[tokio::test]
async fn a_shard_that_could_be_taken_is_read_also_where_another_one_could_not() {
    let rows = Memory::default();
    rows.rows().fails = Some("shard-1".to_owned());
    let mut bench = Bench::start(vec![script::Shard::new("shard-0"), script::Shard::new("shard-1")], rows).await;
    let mut orders = [bench.next().await, bench.next().await];
    orders.sort();
    assert_eq!(orders, [begins("shard-0"), begins("shard-1")]);
}

#[tokio::test]
async fn a_shard_that_is_rewound_at_any_moment_is_left_before_it_is_read_from_there() {
    let mut bench = Bench::start(vec![script::Shard::with("shard-0", [10])], Memory::default()).await;
    assert_eq!(bench.next().await, begins("shard-0"));
    bench.until("the row", |rows| !rows.content("shard-0").is_null()).await;
    // Between a save, which found nothing wrong, and the look behind it.
    bench.rows.rows().meanwhile = Some(Box::new(|rows| rows.put("shard-0", row(Value::Null, 9, settled("10")))));
    assert_eq!(bench.next().await, "leave shard-0");
    sleep(3 * EVERY).await;
    assert!(bench.orders.try_recv().is_err(), "it was not left yet");
    bench.tell.send(Told::Left { shard: "shard-0".to_owned() }).unwrap();
    assert_eq!(bench.next().await, goes_on("shard-0", "10"));
}

#[tokio::test]
async fn a_shard_that_ended_when_it_was_another_s_already_is_left_and_can_be_read_again() {
    let mut bench = Bench::start(vec![script::Shard::with("shard-0", [10])], Memory::default()).await;
    assert_eq!(bench.next().await, begins("shard-0"));
    bench.until("the row", |rows| !rows.content("shard-0").is_null()).await;
    bench.rows.rows().put("shard-0", row(another(), 9, settled("10")));
    bench.tell.send(Told::Ended { shard: "shard-0".to_owned() }).unwrap();
    assert_eq!(bench.next().await, "leave shard-0");
    bench.tell.send(Told::Left { shard: "shard-0".to_owned() }).unwrap();
    bench.rows.rows().put("shard-0", row(Value::Null, 9, settled("10")));
    assert_eq!(bench.next().await, goes_on("shard-0", "10"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_kept_while_the_stream_does_not_answer_for_its_shards() {
    let closed = script::Shard { closed: true, ..script::Shard::new("shard-0") };
    let mut bench = Bench::start(vec![closed, script::Shard::new("shard-1")], Memory::default()).await;
    let mut orders = [bench.next().await, bench.next().await];
    orders.sort();
    assert_eq!(orders, [begins("shard-0"), begins("shard-1")]);
    let asked = bench.stream.asked("ListShards").len();
    bench.stream.instead(move |request, _| {
        if request.action == "ListShards" {
            thread::sleep(Duration::from_secs(3));
        }
        None
    });
    bench.tell.send(Told::Ended { shard: "shard-0".to_owned() }).unwrap();
    bench.until("the end", |rows| rows.content("shard-0")["progress"] == "ended").await;
    let before = bench.rows.rows().last;
    sleep(Duration::from_secs(2)).await;
    let written = bench.rows.rows().last - before;
    assert_eq!(bench.stream.asked("ListShards").len(), asked + 1, "it was not answered yet");
    assert!(written >= 6, "{written} heartbeats");
}

#[tokio::test]
async fn what_was_settled_once_stays_so_when_the_next_record_waits_for_days() {
    let mut bench = Bench::start(vec![script::Shard::with("shard-0", [10])], Memory::default()).await;
    assert_eq!(bench.next().await, begins("shard-0"));
    let position = Position::Sequence { number: SequenceNumber("10".into()), sub: None };
    let days_ago = Settled { position, arrived: Some(millis() - 3 * 86_400_000) };
    let now = millis();
    let shard = Shard { settled: Some(days_ago), taken_in: Some(now), ..Shard::new(ShardPhase::Reading) };
    bench.standing.state().shards.insert("shard-0".to_owned(), shard);
    bench.until("what is covered", |rows| rows.content("shard-0")["covered"] == now).await;
    let number = bench.rows.rows().last;
    bench.standing.state().shards.get_mut("shard-0").unwrap().unsettled = 1;
    bench.until("more saves", |rows| rows.last > number + 3).await;
    assert_eq!(bench.rows.rows().content("shard-0")["covered"], now);
}
