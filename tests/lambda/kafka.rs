//! Events of Kafka: what is read of their records, and where Lambda is told to go on, partition by partition.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use revsync::error::{Error, Kind};
use revsync::metrics::Skip;
use revsync::record::{Message, Position, Record};
use revsync::run::deliver::Settings;
use revsync_lambda::{Batch, first_unsettled, handle, reply};
use serde_json::{Map, Value, json};

use crate::fixture;
use crate::line::Bench;
use crate::mapping_model::DONE;
use crate::qldb_stream::{binary, put, revision};
use crate::runtime_api::{Answer, Function};
use crate::scripted_sink::{busy, down, poison};

/// More than any of these invocations takes, by a clock that stands while there is something to do.
const LONG: Duration = Duration::from_secs(60);

/// A record as an event of Kafka has it.
fn record(topic: &str, partition: i32, offset: i64, key: Option<&[u8]>, value: Option<&[u8]>) -> Value {
    let text = |bytes: Option<&[u8]>| bytes.map(|bytes| STANDARD.encode(bytes));
    json!({
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": 1_700_000_000_000_i64 + offset,
        "timestampType": "CREATE_TIME",
        "key": text(key),
        "value": text(value),
        "headers": [],
    })
}

/// A record with a revision of a person, whose version is the offset.
fn person(topic: &str, partition: i32, offset: u32, id: &str) -> Value {
    let value = binary(&[revision("Person", id, u64::from(offset), &put("a"))]);
    record(topic, partition, i64::from(offset), Some(id.as_bytes()), Some(&value))
}

/// An event of Amazon MSK with these records.
fn event(records: &[Value]) -> String {
    let mut partitions = Map::new();
    for record in records {
        let name = format!("{}-{}", record["topic"].as_str().unwrap(), record["partition"]);
        partitions.entry(name).or_insert_with(|| json!([])).as_array_mut().unwrap().push(record.clone());
    }
    json!({
        "eventSource": "aws:kafka",
        "eventSourceArn": "arn:aws:kafka:eu-west-1:000000000000:cluster/example/0-0",
        "bootstrapServers": "b-1.example:9092,b-2.example:9092",
        "records": partitions,
    })
    .to_string()
}

fn one(record: &str) -> Result<Vec<Record>, Error> {
    Batch::read(&format!(r#"{{"eventSource":"SelfManagedKafka","bootstrapServers":"b:9092","records":{{"t-0":[{record}]}}}}"#))
        .map(|batch| batch.records)
}

/// What the function answers to an event that goes through the line of a bench.
async fn answer(bench: &Bench, event: &str, left: Duration) -> Result<String, Error> {
    let answer = handle(Batch::read(event)?, &mut bench.line(), left).await?;
    Ok(serde_json::to_string(&reply(&answer.first)).unwrap())
}

/// The answer that has Lambda go on at these offsets.
fn everything_from(failures: &[(&str, i64)]) -> String {
    let failure = |(partition, offset): &(&str, i64)| format!(r#"{{"itemIdentifier":{{"partition":"{partition}","offset":{offset}}}}}"#);
    format!(r#"{{"batchItemFailures":[{}]}}"#, failures.iter().map(failure).collect::<Vec<_>>().join(","))
}

fn message(record: &Record) -> &Message {
    record.message.as_deref().expect("a message of Kafka")
}

fn at(topic: &str, partition: i32, offset: i64) -> Position {
    Position::Offset { topic: topic.to_owned(), partition, offset }
}

#[test]
fn a_record_is_read_with_its_topic_partition_offset_key_headers_and_time() {
    let event = r#"{"eventSource":"aws:kafka","eventSourceArn":"arn:aws:kafka:eu-west-1:000000000000:cluster/example/0-0",
        "bootstrapServers":"b-1.example:9092,b-2.example:9092","records":{"orders-0":[{"topic":"orders","partition":0,"offset":15,
        "timestamp":1700000000123,"timestampType":"CREATE_TIME","key":"azE=","value":"eyJhIjoxfQ==",
        "headers":[{"trace":[97,-62,-87]},{"none":null},{"trace":[]},{"high":[255]}]}]}}"#;
    let Batch { records, oldest } = Batch::read(event).unwrap();
    let [record] = &records[..] else { panic!("{records:?}") };
    assert_eq!((record.origin.stream.as_str(), record.origin.shard.as_str(), &record.position), ("orders", "0", &at("orders", 0, 15)));
    assert_eq!((&record.data[..], record.arrived, oldest), (&br#"{"a":1}"#[..], Some(1_700_000_000_123), Some(1_700_000_000_123)));
    let Message { key, headers, is_null } = message(record);
    assert_eq!((key.as_deref(), is_null), (Some(&b"k1"[..]), &false));
    let headers: Vec<_> = headers.iter().map(|header| (header.name.as_str(), header.value.as_deref())).collect();
    assert_eq!(headers, [("trace", Some(&b"a\xC2\xA9"[..])), ("none", None), ("trace", Some(b"")), ("high", Some(b"\xFF"))]);
}

#[test]
fn a_key_or_value_that_is_absent_is_a_null_one_and_an_empty_one_is_not() {
    for (members, key, value) in [
        (r#""key":"azE=","value":"djE=""#, Some(&b"k1"[..]), Some(&b"v1"[..])),
        (r#""key":null,"value":null"#, None, None),
        (r#""key":"","value":"""#, Some(b""), Some(b"")),
        (r#""value":"djE=""#, None, Some(b"v1")),
        (r#""key":"azE=""#, Some(b"k1"), None),
    ] {
        for headers in ["", r#","headers":null"#, r#","headers":[]"#] {
            let records = one(&format!(r#"{{"topic":"t","partition":0,"offset":7,{members}{headers}}}"#)).unwrap();
            let Message { key: read, headers, is_null } = message(&records[0]);
            assert_eq!((read.as_deref(), headers.len(), *is_null), (key, 0, value.is_none()), "{members}");
            assert_eq!((&records[0].data[..], &records[0].damage), (value.unwrap_or_default(), &None), "{members}");
        }
    }
}

#[test]
fn a_topic_with_dashes_and_numbers_is_what_the_record_says_and_never_what_the_list_is_called() {
    let of = |topic: &str, partition: i32| format!(r#"{{"topic":"{topic}","partition":{partition},"offset":1,"value":""}}"#);
    let event = format!(
        r#"{{"eventSource":"SelfManagedKafka","records":{{"a-1-2":[{},{}],"something":[{}]}}}}"#,
        of("a-1", 2),
        of("a", 1),
        of("a-1-2", 0)
    );
    let records = Batch::read(&event).unwrap().records;
    let origins: Vec<_> = records.iter().map(|record| (record.origin.stream.as_str(), record.origin.shard.as_str())).collect();
    assert_eq!(origins, [("a", "1"), ("a-1", "2"), ("a-1-2", "0")]);
    let positions: Vec<_> = records.iter().map(|record| record.position.clone()).collect();
    assert_eq!(serde_json::to_string(&reply(&positions)).unwrap(), everything_from(&[("a-1", 1), ("a-1-2", 1), ("a-1-2-0", 1)]));
}

#[test]
fn records_of_a_partition_that_come_out_of_order_are_put_in_order() {
    let batch = Batch::read(&event(&[person("t", 0, 100, "a"), person("t", 0, 99, "b"), person("t", 0, 1_000, "c")])).unwrap();
    let positions: Vec<_> = batch.records.iter().map(|record| record.position.clone()).collect();
    assert_eq!((positions, batch.oldest), (vec![at("t", 0, 99), at("t", 0, 100), at("t", 0, 1_000)], Some(1_700_000_000_099)));
}

#[test]
fn a_record_whose_value_is_good_is_never_damaged_by_what_stands_beside_it() {
    for (beside, arrived) in [
        (r#""timestamp":"yesterday""#, None),
        (r#""timestamp":null,"timestampType":7"#, None),
        (r#""timestamp":-1"#, None),
        (r#""timestamp":5,"headers":"a secret""#, Some(5)),
        (r#""headers":[{"a":[1]},"a secret",{"b":[4000]},{"c":"d"}]"#, None),
        (r#""leaderEpoch":7,"valueSchemaMetadata":{}"#, None),
    ] {
        let records = one(&format!(r#"{{"topic":"t","partition":0,"offset":7,"value":"YQ==",{beside}}}"#)).unwrap();
        assert_eq!((&records[0].data[..], &records[0].damage, records[0].arrived), (&b"a"[..], &None, arrived), "{beside}");
        let names: Vec<_> = message(&records[0]).headers.iter().map(|header| header.name.as_str()).collect();
        assert_eq!(names, if beside.starts_with(r#""headers":["#) { vec!["a"] } else { vec![] }, "{beside}");
    }
}

#[test]
fn a_damaged_record_is_told_apart_where_it_has_a_position() {
    for (members, what) in [
        (r#""key":"azE=","value":"not base64!""#, "value"),
        (r#""key":"not base64!","value":"YQ==""#, "key"),
        (r#""key":7,"value":"YQ==""#, "key"),
        (r#""value":{"a":1}"#, "value"),
    ] {
        let damaged = format!(r#"{{"topic":"t","partition":0,"offset":7,{members}}}"#);
        let records = one(&format!(r#"{damaged},{{"topic":"t","partition":0,"offset":8,"value":"YQ=="}}"#)).unwrap();
        let fault = records[0].damage.clone().expect("damage");
        let reason = format!(
            "expected a Kafka record with its {what} in Base64 or null, found something else; the payload is the record as the event has it"
        );
        assert_eq!((fault.kind.as_str(), fault.reason), ("undecodable", reason));
        assert_eq!((&records[0].data[..], records[0].position.clone()), (damaged.as_bytes(), at("t", 0, 7)));
        assert!(records[1].damage.is_none());
    }
}

#[test]
fn an_event_whose_records_could_not_be_named_in_an_answer_is_refused() {
    let no_position = "no topic, partition and offset in record 0";
    for (event, found) in [
        (r#"{"eventSource":"aws:kafka"}"#, "one of aws:kafka without records"),
        (r#"{"eventSource":"aws:kafka","Records":[]}"#, "one of aws:kafka without records"),
        (
            r#"{"eventSource":"SelfManagedKafka","records":["a secret"]}"#,
            "one of SelfManagedKafka with something else in place of its records",
        ),
        (r#"{"eventSource":"aws:kafka","records":{"t-0":"a secret"}}"#, "one of aws:kafka with something else in place of its records"),
        (r#"{"eventSource":"aws:kafka","records":{"t-0":["a secret"]}}"#, "something else in place of record 0"),
        (r#"{"eventSource":"aws:kafka","records":{"t-0":[{"value":"a secret"}]}}"#, no_position),
        (r#"{"eventSource":"aws:kafka","records":{"t-0":[{"topic":"","partition":0,"offset":1}]}}"#, no_position),
        (r#"{"eventSource":"aws:kafka","records":{"t-0":[{"topic":"t","offset":1}]}}"#, no_position),
        (r#"{"eventSource":"aws:kafka","records":{"t-0":[{"topic":"t","partition":0}]}}"#, no_position),
        (
            r#"{"eventSource":"aws:kafka","records":{"t-0":[{"topic":"t","partition":"0","offset":1}]}}"#,
            "something else in place of record 0",
        ),
    ] {
        let error = Batch::read(event).expect_err(event);
        assert_eq!(error.kind, Kind::Source);
        assert!(error.to_string().contains(&format!(", found {found}; nothing was done")), "{event}: {error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[test]
fn the_reply_has_the_first_offset_of_each_partition_in_these_bytes() {
    let open = [at("b-c", 1, 15), at("a", 10, 3), at("a", 9, 7), at("a", 10, 2), at("b-c", 1, 99)];
    let first = first_unsettled(&open);
    assert_eq!(first, [at("a", 9, 7), at("a", 10, 2), at("b-c", 1, 15)]);
    let bytes = concat!(
        r#"{"batchItemFailures":[{"itemIdentifier":{"partition":"a-9","offset":7}},"#,
        r#"{"itemIdentifier":{"partition":"a-10","offset":2}},{"itemIdentifier":{"partition":"b-c-1","offset":15}}]}"#
    );
    assert_eq!(serde_json::to_string(&reply(&first)).unwrap(), bytes);
    assert_eq!(serde_json::to_string(&reply(&[])).unwrap(), r#"{"batchItemFailures":[]}"#);
}

/// Two topics with three partitions of four people each; an id says where it is.
fn people() -> Vec<Value> {
    let places = [("orders", 0, 10), ("orders", 1, 98), ("shop-eu-1", 0, 0)];
    let partition = |(topic, partition, first): (&'static str, i32, u32)| {
        (0..4).map(move |n| person(topic, partition, first + n, &format!("{topic}.{partition}.{}", first + n)))
    };
    places.into_iter().flat_map(partition).collect()
}

#[tokio::test(start_paused = true)]
async fn partitions_fail_independently() {
    for (busy_ones, expected) in [
        (vec!["orders.0.11"], vec![("orders-0", 11)]),
        (vec!["orders.0.13", "orders.1.98"], vec![("orders-0", 13), ("orders-1", 98)]),
        (vec!["shop-eu-1.0.2", "shop-eu-1.0.1", "orders.1.100"], vec![("orders-1", 100), ("shop-eu-1-0", 1)]),
    ] {
        let bench = Bench::with(Settings { give_up_after: Some(Duration::from_secs(300)), request_operations: 4, ..Settings::default() });
        bench.sink.rule(|rules| rules.answers = busy_ones.iter().map(|id| ((*id).to_owned(), busy())).collect());
        assert_eq!(answer(&bench, &event(&people()), LONG).await, Ok(everything_from(&expected)));
        assert_eq!(bench.sink.documents().len(), 12 - busy_ones.len(), "the others were written all the same");
        assert!(bench.letters().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_down_brings_every_partition_back_from_its_first_record_on() {
    let bench = Bench::with(Settings { give_up_after: Some(Duration::from_secs(3)), ..Settings::default() });
    bench.sink.rule(|rules| rules.down = Some(down("connection refused")));
    let expected = everything_from(&[("orders-0", 10), ("orders-1", 98), ("shop-eu-1-0", 0)]);
    assert_eq!(answer(&bench, &event(&people()), LONG).await, Ok(expected));
    bench.sink.rule(|rules| rules.down = None);
    assert_eq!(answer(&bench, &event(&people()), LONG).await, Ok(DONE.to_owned()));
    assert_eq!((bench.sink.documents().len(), bench.letters().len()), (12, 0));
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_hangs_is_left_in_time_and_what_was_not_begun_comes_back_too() {
    let bench = Bench::with(Settings { request_operations: 1, requests_in_flight: 1, ..Settings::default() });
    bench.sink.rule(|rules| rules.stalled = true);
    let begun = tokio::time::Instant::now();
    let expected = everything_from(&[("orders-0", 10), ("orders-1", 98), ("shop-eu-1-0", 0)]);
    assert_eq!(answer(&bench, &event(&people()), LONG).await, Ok(expected.clone()));
    assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
    assert_eq!(bench.sink.here(), 0, "what hangs is abandoned, not left behind");
    let asked = bench.sink.requests().len();
    assert_eq!(answer(&bench, &event(&people()), Duration::ZERO).await, Ok(expected), "no time is left");
    assert_eq!(bench.sink.requests().len(), asked);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_cannot_be_stored_brings_its_partition_back_and_no_other() {
    for (id, partition, offset) in [("orders.0.12", "orders-0", 12), ("orders.1.98", "orders-1", 98), ("shop-eu-1.0.3", "shop-eu-1-0", 3)] {
        let bench = Bench::new();
        std::fs::remove_dir_all(bench.letters_folder()).unwrap();
        bench.sink.rule(|rules| rules.answers = BTreeMap::from([(id.to_owned(), poison())]));
        assert_eq!(answer(&bench, &event(&people()), LONG).await, Ok(everything_from(&[(partition, offset)])));
        assert_eq!(bench.sink.documents().len(), 11, "{id}: the others are written");
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_record_is_one_letter_and_the_rest_of_the_batch_is_done() {
    let bench = Bench::new();
    let mut records = people();
    records[5]["value"] = "no base64!".into();
    assert_eq!(answer(&bench, &event(&records), LONG).await, Ok(DONE.to_owned()));
    let letters = bench.letters();
    assert_eq!((letters.len(), bench.sink.documents().len()), (1, 11));
    assert_eq!(serde_json::from_slice::<Value>(&letters[0].payload).unwrap(), records[5]);
    assert_eq!((letters[0].position.clone(), letters[0].origin.to_string()), (at("orders", 1, 99), "orders/1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn the_letter_of_a_message_has_its_key_and_headers() {
    let bench = Bench::new();
    let mut bad = record("orders", 0, 5, Some(b"k\xFF1"), Some(b"\xFFno record of anything"));
    bad["headers"] = json!([{"trace": [97, -62, -87]}, {"trace": [98]}]);
    assert_eq!(answer(&bench, &event(&[bad]), LONG).await, Ok(DONE.to_owned()));
    let letters = bench.letters();
    let Message { key, headers, is_null } = letters[0].message.as_ref().expect("a message");
    assert_eq!((key.as_deref(), *is_null), (Some(&b"k\xFF1"[..]), false));
    let headers: Vec<_> = headers.iter().map(|header| (header.name.as_str(), header.value.as_deref())).collect();
    assert_eq!(headers, [("trace", Some(&b"a\xC2\xA9"[..])), ("trace", Some(b"b"))]);
    assert_eq!(&letters[0].payload[..], b"\xFFno record of anything");
}

#[tokio::test(start_paused = true)]
async fn tombstones_are_settled_and_change_nothing_and_an_event_without_records_is_done() {
    let bench = Bench::new();
    let tombstones: Vec<Value> = (0..3).map(|offset| record("orders", offset % 2, i64::from(offset), Some(b"k"), None)).collect();
    let (batch, mut line) = (Batch::read(&event(&tombstones)).unwrap(), bench.line());
    let answered = handle(batch, &mut line, LONG).await.unwrap();
    assert!(answered.first.is_empty() && bench.sink.requests().is_empty() && bench.letters().is_empty());
    let counts = line.counts();
    assert_eq!((counts.received, counts.skipped.get(&Skip::NoChange)), (3, Some(&3)));
    for empty in [r#"{"eventSource":"aws:kafka","records":{}}"#, r#"{"eventSource":"SelfManagedKafka","records":{"orders-0":[]}}"#] {
        assert_eq!(answer(&bench, empty, Duration::ZERO).await, Ok(DONE.to_owned()));
    }
}

#[test]
fn the_function_delivers_an_event_of_kafka_and_its_line_says_how_far_each_partition_came() {
    let folder = tempfile::tempdir().unwrap();
    let bulk = folder.path().join("bulk.ndjson");
    let to = format!("bulk:{}", bulk.display());
    let mut function = Function::start(&[("REVSYNC_TO", to.as_str()), ("REVSYNC_DEAD_LETTERS", "file:letters.jsonl")]);
    assert_eq!(function.invoke(&event(&people()), LONG), Answer::Response(DONE.to_owned()));
    let lines = std::fs::read_to_string(&bulk).unwrap();
    assert_eq!(lines.lines().filter(|line| line.starts_with(r#"{"index""#)).count(), 12);
    let late = everything_from(&[("orders-0", 10), ("orders-1", 98), ("shop-eu-1-0", 0)]);
    assert_eq!(function.invoke_late(&event(&people()), Duration::from_secs(5)), Answer::Response(late));
    let said = function.errors();
    let seen: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).filter(|line: &Value| line["message"] == "invocation").collect();
    assert_eq!((&seen[0]["answer"], &seen[0]["shard"]), (&json!("done"), &json!("orders-0 to shop-eu-1-0")));
    assert_eq!((&seen[0]["first"], &seen[0]["last"]), (&json!("orders-0 offset 10"), &json!("shop-eu-1-0 offset 3")));
    assert!(seen[0]["iterator_age_seconds"].as_f64() > Some(0.0), "{}", seen[0]);
    assert_eq!(
        (&seen[1]["level"], &seen[1]["answer"]),
        (&json!("WARN"), &json!("orders-0 offset 10, orders-1 offset 98, shop-eu-1-0 offset 0"))
    );
}

/// The lines of a fixture.
fn lines(name: &str) -> Vec<String> {
    fixture(name).lines().map(str::to_owned).collect()
}

/// What the function writes of these records, as the lines of a bulk request, and the letters that it stores.
fn written(records: &[Value], variables: &[(&str, &str)]) -> (Vec<Value>, Vec<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (to, letters) = (format!("bulk:{}", file("bulk.ndjson")), format!("file:{}", file("letters.jsonl")));
    let mut function = Function::start(&[&[("REVSYNC_TO", to.as_str()), ("REVSYNC_DEAD_LETTERS", &letters)], variables].concat());
    assert_eq!(function.invoke(&event(records), LONG), Answer::Response(DONE.to_owned()), "{}", function.errors());
    let read = |name: &str| {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    (read("bulk.ndjson"), read("letters.jsonl"))
}

#[test]
fn the_documented_message_of_lindorm_is_the_right_document() {
    let messages = lines("lindorm/documented.jsonl");
    let records: Vec<Value> =
        (0..).zip(&messages).map(|(offset, message)| record("shop", 0, offset, Some(b"MX-200"), Some(message.as_bytes()))).collect();
    let (bulk, letters) = written(&records, &[("REVSYNC_KEY", "shop.item=sku")]);
    assert_eq!(letters, Vec::<Value>::new());
    let action = &bulk[0]["index"];
    assert_eq!((&action["_id"], &action["version"]), (&json!("MX-200"), &json!(1_700_000_000_001_u64)));
    assert_eq!((&action["version_type"], &bulk[1]), (&json!("external_gte"), &json!({"sku": "MX-200", "f:stock": "7", "f:note": null})));
}

#[test]
fn a_message_of_lindorm_whose_key_nobody_named_fails_the_batch_with_what_to_say() {
    let mut function = Function::start(&[("REVSYNC_TO", "bulk:/dev/null"), ("REVSYNC_DEAD_LETTERS", "file:letters.jsonl")]);
    let message = &lines("lindorm/documented.jsonl")[0];
    let Answer::Error(failure) = function.invoke(&event(&[record("shop", 0, 1, None, Some(message.as_bytes()))]), LONG) else {
        panic!("expected an error: {}", function.errors())
    };
    assert!(failure.kind == "Revsync.Configuration" && failure.message.contains("shop.item"), "{failure:?}");
}

#[test]
fn the_keys_of_debezium_messages_are_those_of_the_event_and_the_tombstones_between_them_are_no_change() {
    let (messages, keys) = (lines("debezium/mariadb.jsonl"), lines("debezium/mariadb.keys.jsonl"));
    let records: Vec<Value> = (0..)
        .zip(messages.iter().zip(&keys))
        .map(|(offset, (message, key))| {
            let value = (message != "null").then_some(message.as_bytes());
            record("shop", 0, offset, (key != "null").then_some(key.as_bytes()), value)
        })
        .collect();
    let (bulk, letters) = written(&records, &[]);
    let done: Vec<&String> = bulk
        .iter()
        .filter_map(Value::as_object)
        .flat_map(serde_json::Map::keys)
        .filter(|name| ["index", "delete"].contains(&name.as_str()))
        .collect();
    assert!(done.iter().any(|name| *name == "index") && done.iter().any(|name| *name == "delete"), "{bulk:?} {letters:?}");
    let (without_keys, refused) = written(
        &records
            .iter()
            .cloned()
            .map(|mut record| {
                record["key"] = Value::Null;
                record
            })
            .collect::<Vec<_>>(),
        &[],
    );
    assert!(without_keys.is_empty() && refused.len() >= done.len(), "without a key there is no document: {without_keys:?}");
}
