//! A scripted Kinesis: answers as it would, unless the test says something else. Its iterators say in words what they stand for.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::aws::REGION;
use crate::scripted_aws::{Answer, Request, Scripted};

pub(crate) const ARN: &str = "arn:aws:kinesis:eu-west-1:000000000000:stream/scripted";

/// What the stream holds, and how it answers.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) shards: Vec<Shard>,
    /// Bytes of a page at which it is full.
    pub(crate) page_bytes: Option<usize>,
    /// Asked of every request first.
    pub(crate) instead: Option<Instead>,
    /// The stream was deleted.
    pub(crate) is_deleted: bool,
    /// Shards of one answer of ListShards.
    pub(crate) list_page: Option<usize>,
}

/// Gives the answer to a request in place of the usual one, where it has one. Is given the requests that came before, too.
pub(crate) type Instead = Box<dyn Fn(&Request, &[Request]) -> Option<Answer> + Send + Sync>;

#[derive(Debug, Clone, Default)]
pub(crate) struct Shard {
    pub(crate) id: String,
    pub(crate) parents: Vec<String>,
    pub(crate) closed: bool,
    /// Number, time of arrival and data.
    pub(crate) records: Vec<(u64, u64, Vec<u8>)>,
    pub(crate) behind: Option<u64>,
}

impl Shard {
    pub(crate) fn new(id: &str) -> Self {
        Self { id: id.to_owned(), behind: Some(0), ..Self::default() }
    }

    /// With records of these numbers, which arrived in the same millisecond of 1970 each.
    pub(crate) fn with(id: &str, numbers: impl IntoIterator<Item = u64>) -> Self {
        let records = numbers.into_iter().map(|number| (number, number, number.to_string().into_bytes())).collect();
        Self { records, ..Self::new(id) }
    }
}

#[derive(Clone)]
pub(crate) struct Script(Arc<Mutex<State>>);

pub(crate) struct ScriptedStream {
    pub(crate) service: Scripted,
    state: Script,
}

impl ScriptedStream {
    pub(crate) async fn start(shards: Vec<Shard>) -> Self {
        let state = Script(Arc::new(Mutex::new(State { shards, ..State::default() })));
        let script = state.clone();
        let service = Scripted::start(move |request, before| script.0.lock().unwrap().answer(request, before)).await;
        Self { service, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("kinesis://scripted?region={REGION}&endpoint={}", self.service.url())
    }

    /// Changes what it holds, or how it answers.
    pub(crate) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.0.lock().unwrap());
    }

    /// From now on it answers so, where that is an answer.
    pub(crate) fn instead(&self, instead: impl Fn(&Request, &[Request]) -> Option<Answer> + Send + Sync + 'static) {
        self.change(|state| state.instead = Some(Box::new(instead)));
    }

    /// The bodies of all requests of an action so far.
    pub(crate) fn asked(&self, action: &str) -> Vec<Value> {
        self.service.requests().iter().filter(|request| request.action == action).map(Request::json).collect()
    }

    /// The iterators that were asked for so far, in words.
    pub(crate) fn iterators(&self) -> Vec<String> {
        self.asked("GetShardIterator").iter().map(words).collect()
    }
}

/// An error of the service.
pub(crate) fn refuses(code: &str, message: &str) -> Answer {
    (400, json!({ "__type": code, "message": message }).to_string())
}

/// A wanted iterator in words.
fn words(wanted: &Value) -> String {
    let text = |key: &str| wanted[key].as_str().unwrap_or_default().to_owned();
    let number = text("StartingSequenceNumber");
    let time = wanted["Timestamp"].as_f64().map(|seconds| format!("{}", (seconds * 1_000.0).round() as u64)).unwrap_or_default();
    format!("{} {number}{time}", text("ShardIteratorType")).trim_end().to_owned()
}

impl State {
    fn answer(&mut self, request: &Request, before: &[Request]) -> Answer {
        if let Some(answer) = self.instead.as_ref().and_then(|instead| instead(request, before)) {
            return answer;
        }
        if self.is_deleted {
            return refuses("ResourceNotFoundException", "Stream scripted under account 000000000000 not found.");
        }
        let asked = request.json();
        match request.action.as_str() {
            "DescribeStreamSummary" => (200, self.summary().to_string()),
            "ListShards" => (200, self.list(&asked).to_string()),
            "GetShardIterator" => self.iterator(&asked),
            "GetRecords" => self.records(&asked),
            other => refuses("UnknownOperationException", other),
        }
    }

    fn summary(&self) -> Value {
        json!({ "StreamDescriptionSummary": {
            "StreamName": "scripted",
            "StreamARN": ARN,
            "StreamStatus": "ACTIVE",
            "RetentionPeriodHours": 24,
            "StreamCreationTimestamp": 1.0,
            "EnhancedMonitoring": [],
            "OpenShardCount": self.shards.len(),
        }})
    }

    fn list(&self, asked: &Value) -> Value {
        let from = asked["NextToken"].as_str().map_or(0, |token| token.parse().unwrap());
        assert!(from == 0 || asked["StreamName"].is_null(), "a token stands for the stream: {asked}");
        let until = self.list_page.map_or(usize::MAX, |page| from + page).min(self.shards.len());
        let listed: Vec<Value> = self.shards[from..until]
            .iter()
            .map(|shard| {
                let mut range = json!({ "StartingSequenceNumber": "0" });
                if shard.closed {
                    range["EndingSequenceNumber"] = json!("9");
                }
                let mut listed = json!({ "ShardId": shard.id, "SequenceNumberRange": range });
                listed["HashKeyRange"] = json!({ "StartingHashKey": "0", "EndingHashKey": "1" });
                for (key, parent) in ["ParentShardId", "AdjacentParentShardId"].into_iter().zip(&shard.parents) {
                    listed[key] = json!(parent);
                }
                listed
            })
            .collect();
        let mut answer = json!({ "Shards": listed });
        if until < self.shards.len() {
            answer["NextToken"] = json!(until.to_string());
        }
        answer
    }

    fn iterator(&self, asked: &Value) -> Answer {
        let id = asked["ShardId"].as_str().unwrap();
        let Some(shard) = self.shards.iter().find(|shard| shard.id == id) else { return not_found(id) };
        let number = || asked["StartingSequenceNumber"].as_str().unwrap().parse::<u64>().unwrap();
        let before = |number: u64| shard.records.iter().filter(|(at, _, _)| *at < number).count();
        let from = match asked["ShardIteratorType"].as_str().unwrap() {
            "TRIM_HORIZON" => 0,
            "LATEST" => shard.records.len(),
            "AT_TIMESTAMP" => {
                let time = (asked["Timestamp"].as_f64().unwrap() * 1_000.0).round() as u64;
                shard.records.iter().filter(|(_, arrived, _)| *arrived < time).count()
            }
            "AT_SEQUENCE_NUMBER" => before(number()),
            "AFTER_SEQUENCE_NUMBER" => before(number() + 1),
            other => panic!("no type of an iterator: {other}"),
        };
        (200, json!({ "ShardIterator": format!("{id}|{from}") }).to_string())
    }

    fn records(&self, asked: &Value) -> Answer {
        let (id, from) = asked["ShardIterator"].as_str().unwrap().split_once('|').unwrap();
        let from: usize = from.parse().unwrap();
        let Some(shard) = self.shards.iter().find(|shard| shard.id == id) else { return not_found(id) };
        let (mut records, mut bytes) = (Vec::new(), 0);
        let limit = usize::try_from(asked["Limit"].as_u64().unwrap()).unwrap();
        for (number, arrived, data) in shard.records.iter().skip(from).take(limit) {
            records.push(json!({
                "SequenceNumber": number.to_string(),
                "ApproximateArrivalTimestamp": *arrived as f64 / 1_000.0,
                "Data": BASE64.encode(data),
                "PartitionKey": "k",
            }));
            bytes += data.len();
            if self.page_bytes.is_some_and(|most| bytes >= most) {
                break;
            }
        }
        let next = from + records.len();
        let mut answer = json!({ "Records": records, "MillisBehindLatest": shard.behind });
        if shard.closed && next == shard.records.len() {
            let children = self.shards.iter().filter(|child| child.parents.iter().any(|parent| parent == id));
            let range = json!({ "StartingHashKey": "0", "EndingHashKey": "1" });
            let child = |child: &Shard| json!({ "ShardId": child.id, "ParentShards": child.parents, "HashKeyRange": range });
            answer["ChildShards"] = children.map(child).collect();
        } else {
            answer["NextShardIterator"] = json!(format!("{id}|{next}"));
        }
        (200, answer.to_string())
    }
}

fn not_found(shard: &str) -> Answer {
    let message = format!("Shard {shard} in stream scripted under account 000000000000 does not exist");
    refuses("ResourceNotFoundException", &message)
}
