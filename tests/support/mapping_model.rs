//! A model of Lambda's event source mapping on one shard, by its documented rules: what it hands to the function, and what it takes an answer
//! for.
//!
//! | answer | meaning |
//! |---|---|
//! | empty list, `null` or no list, `{}`, `null` | the whole batch is done |
//! | identifiers | the lowest is the checkpoint: that record and everything after it come again |
//! | an identifier that is empty, `null` or of no record of the batch; a list of something else | the whole batch failed |
//! | an error, no answer in time | the whole batch failed; with bisect on, its halves come by themselves |
//!
//! (AWS Lambda developer guide, "Configuring partial batch response with Kinesis Data Streams and Lambda" and "Error handling controls".) Numbers
//! are compared by length, then by bytes. It tries for ever, as the template has it, and never leaves a record out.
#![allow(dead_code, reason = "each test uses its part")]

use std::collections::VecDeque;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The stream that all events are of.
pub(crate) const STREAM: &str = "arn:aws:kinesis:eu-west-1:000000000000:stream/example";

/// A record of the shard.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) number: String,
    pub(crate) data: Vec<u8>,
}

/// What an invocation came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Invocation {
    /// The function answered with this body.
    Answered(String),
    /// It failed, or did not answer in time.
    Failed,
}

/// The mapping of one shard.
#[derive(Debug)]
pub(crate) struct Model {
    shard: String,
    records: Vec<Kept>,
    /// Records that one event may have.
    batch: usize,
    bisect: bool,
    /// Batches that came back, or are halves of one that failed, in their order. What is before the first of them is done.
    again: VecDeque<Range<usize>>,
    /// The first record that was in no batch yet.
    next: usize,
    invocations: usize,
}

/// The event of some records of a shard.
pub(crate) fn event(shard: &str, records: &[Kept]) -> String {
    let record = |Kept { number, data }: &Kept| {
        json!({
            "kinesis": {
                "kinesisSchemaVersion": "1.0",
                "partitionKey": "k",
                "sequenceNumber": number,
                "data": STANDARD.encode(data),
                "approximateArrivalTimestamp": 1_700_000_000.25,
            },
            "eventSource": "aws:kinesis",
            "eventVersion": "1.0",
            "eventID": format!("{shard}:{number}"),
            "eventName": "aws:kinesis:record",
            "invokeIdentityArn": "arn:aws:iam::000000000000:role/example",
            "awsRegion": "eu-west-1",
            "eventSourceARN": STREAM,
        })
    };
    json!({"Records": records.iter().map(record).collect::<Vec<_>>()}).to_string()
}

/// The answer that brings everything from a record on back.
pub(crate) fn everything_from(number: &str) -> String {
    format!(r#"{{"batchItemFailures":[{{"itemIdentifier":"{number}"}}]}}"#)
}

/// The answer to a batch that is done.
pub(crate) const DONE: &str = r#"{"batchItemFailures":[]}"#;

impl Model {
    pub(crate) fn new(shard: &str, records: Vec<Kept>, batch: usize, bisect: bool) -> Self {
        Self { shard: shard.to_owned(), records, batch, bisect, again: VecDeque::new(), next: 0, invocations: 0 }
    }

    /// The next event; none when everything is done.
    pub(crate) fn next(&mut self) -> Option<String> {
        if self.again.is_empty() {
            let end = self.records.len().min(self.next + self.batch);
            if self.next == end {
                return None;
            }
            self.again.push_back(self.next..end);
            self.next = end;
        }
        self.invocations += 1;
        Some(event(&self.shard, &self.records[self.again[0].clone()]))
    }

    /// Takes what the invocation of the last event came to; gives the records, by place, that are done by it.
    pub(crate) fn hear(&mut self, invocation: &Invocation) -> Range<usize> {
        let batch = self.again.pop_front().expect("an event was handed out");
        let from = match invocation {
            Invocation::Answered(body) => self.checkpoint(&batch, body),
            Invocation::Failed => None,
        };
        match from {
            Some(from) => {
                if from < batch.end {
                    self.again.push_front(from..batch.end);
                }
                batch.start..from
            }
            None if self.bisect && batch.len() > 1 => {
                let middle = batch.start + batch.len() / 2;
                self.again.push_front(middle..batch.end);
                self.again.push_front(batch.start..middle);
                batch.start..batch.start
            }
            None => {
                self.again.push_front(batch.clone());
                batch.start..batch.start
            }
        }
    }

    /// How many events were handed out.
    pub(crate) fn invocations(&self) -> usize {
        self.invocations
    }

    /// Before which record everything is done; nothing where the whole batch failed.
    fn checkpoint(&self, batch: &Range<usize>, body: &str) -> Option<usize> {
        let body: Value = serde_json::from_str(body).ok()?;
        if body.is_null() {
            return Some(batch.end);
        }
        let failures = match body.as_object()?.get("batchItemFailures") {
            None | Some(Value::Null) => return Some(batch.end),
            Some(failures) => failures.as_array()?,
        };
        let places: Option<Vec<usize>> = failures
            .iter()
            .map(|failure| {
                let number = failure.get("itemIdentifier")?.as_str()?;
                batch.clone().find(|place| self.records[*place].number == number)
            })
            .collect();
        Some(places?.into_iter().min().unwrap_or(batch.end))
    }
}

#[test]
fn the_model_takes_answers_as_lambda_does() {
    let records = ["8", "9", "10", "11"].map(|number| Kept { number: number.to_owned(), data: Vec::new() });
    let answered = |body: &str| Invocation::Answered(body.to_owned());
    for (invocation, done, again) in [
        (answered(DONE), 4, &[][..]),
        (answered("{}"), 4, &[][..]),
        (answered("null"), 4, &[][..]),
        (answered(r#"{"batchItemFailures":null}"#), 4, &[][..]),
        (answered(&everything_from("10")), 2, &[(2, 4)]),
        (answered(r#"{"batchItemFailures":[{"itemIdentifier":"11"},{"itemIdentifier":"9"}]}"#), 1, &[(1, 4)]),
        (answered(r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#), 0, &[(0, 2), (2, 4)]),
        (answered(r#"{"batchItemFailures":[{"itemIdentifier":"7"}]}"#), 0, &[(0, 2), (2, 4)]),
        (answered(r#"{"batchItemFailures":[{"identifier":"10"}]}"#), 0, &[(0, 2), (2, 4)]),
        (Invocation::Failed, 0, &[(0, 2), (2, 4)]),
    ] {
        let mut model = Model::new("shard", records.to_vec(), 100, true);
        assert!(model.next().is_some());
        assert_eq!(model.hear(&invocation), 0..done, "{invocation:?}");
        let comes_again: Vec<_> = model.again.iter().map(|batch| (batch.start, batch.end)).collect();
        assert_eq!(comes_again, again, "{invocation:?}");
    }
    let mut model = Model::new("shard", records.to_vec(), 3, false);
    for invocation in [Invocation::Failed, answered(DONE), answered(DONE)] {
        assert!(model.next().is_some());
        model.hear(&invocation);
    }
    assert_eq!((model.next(), model.invocations()), (None, 3));
}
