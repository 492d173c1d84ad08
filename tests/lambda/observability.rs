//! What is seen of the function: one line of its log for each invocation, its metrics, and no document.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture;
use crate::mapping_model::{Kept, event};
use crate::qldb_stream::{binary, put, revision};
use crate::runtime_api::{Answer, Function};
use crate::scripted_opensearch::Scripted;

/// More than any of these tests takes.
const LONG_ENOUGH: Duration = Duration::from_secs(60);
const EVENT: &str = "vehicle-registration/lambda-event.json";
const TO_NOTHING: [(&str, &str); 2] = [("REVSYNC_TO", "bulk:/dev/null"), ("REVSYNC_DEAD_LETTERS", "file:letters.jsonl")];
/// The counts of a unit that came to its end, as the line and the metrics name them.
const COUNTS: [&str; 6] = ["indexed", "deleted", "stale", "absent", "compacted", "dead_letters"];

fn lines(function: &Function) -> Vec<Value> {
    let errors = function.errors();
    errors.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn invocations(function: &Function) -> Vec<Value> {
    lines(function).into_iter().filter(|line| line["message"] == "invocation").collect()
}

/// The documents printed so far, each of which has to be what CloudWatch takes (Amazon CloudWatch user guide, "Specification: Embedded metric
/// format"): the metrics of each invocation, by name and label.
fn metrics(function: &Function) -> BTreeMap<String, BTreeMap<String, Value>> {
    let mut all: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    for line in function.output().lines() {
        assert!(line.len() < 1_000_000, "a document has at most 1 MB");
        let document: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let time = document["_aws"]["Timestamp"].as_u64().expect("a time");
        assert!((1_700_000_000_000..10_000_000_000_000).contains(&time), "milliseconds: {time}");
        let directives = document["_aws"]["CloudWatchMetrics"].as_array().expect("directives");
        for directive in directives {
            assert_eq!(directive["Namespace"], "revsync");
            let [dimensions] = &directive["Dimensions"].as_array().expect("dimensions")[..] else { panic!("one set: {directive}") };
            let dimensions: Vec<&str> = dimensions.as_array().expect("names").iter().map(|name| name.as_str().expect("a name")).collect();
            assert!(dimensions[0] == "pipeline" && dimensions.len() <= 2, "{dimensions:?}");
            let labels: Vec<&str> = dimensions.iter().map(|name| document[name].as_str().expect("each dimension is a member")).collect();
            let metrics = directive["Metrics"].as_array().expect("metrics");
            assert!((1..=100).contains(&metrics.len()), "{} metrics", metrics.len());
            for metric in metrics {
                let name = metric["Name"].as_str().expect("a name");
                let unit = if name.contains("bytes") {
                    "Bytes"
                } else if name.contains("seconds") {
                    "Seconds"
                } else {
                    "Count"
                };
                assert_eq!(metric["Unit"], unit, "{name}");
                let value = &document[name];
                let numbers = value.as_array().map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
                assert!((1..=100).contains(&numbers.len()) && numbers.iter().all(Value::is_number), "{name}: {value}");
                let request = document["requestId"].as_str().expect("the invocation").to_owned();
                let label = labels.get(1).map(|label| format!("{{{label}}}")).unwrap_or_default();
                let before = all.entry(request).or_default().insert(format!("{name}{label}"), value.clone());
                assert!(before.is_none(), "{name} twice in one flush");
            }
        }
    }
    all
}

#[test]
fn an_invocation_is_one_line_and_its_metrics_say_the_same() {
    let mut function = Function::start(&[&TO_NOTHING[..], &[("REVSYNC_NAME", "ledger")]].concat());
    function.invoke(&fixture(EVENT), LONG_ENOUGH);
    function.invoke(&fixture("kinesis_event/empty.json"), LONG_ENOUGH);
    let seen = invocations(&function);
    let first = &seen[0];
    assert_eq!(seen.len(), 2, "{}", function.errors());
    assert_eq!((&first["level"], &first["requestId"], &first["pipeline"]), (&json!("INFO"), &json!("invocation-1"), &json!("ledger")));
    assert_eq!((&first["answer"], &first["cold_start"], &seen[1]["cold_start"]), (&json!("done"), &json!(true), &json!(false)));
    let event: Value = serde_json::from_str(&fixture(EVENT)).expect("JSON");
    let records = event["Records"].as_array().expect("records");
    let number = |record: Option<&Value>| record.expect("a record")["kinesis"]["sequenceNumber"].clone();
    assert_eq!((&first["first"], &first["last"]), (&number(records.first()), &number(records.last())));
    assert_eq!((first["records"].as_u64(), first["shard"].as_str()), (Some(records.len() as u64), Some("shardId-000000000000")));
    for measured in ["iterator_age_seconds", "seconds", "remaining_seconds", "bytes", "received"] {
        assert!(first[measured].as_f64().is_some_and(|value| value > 0.0), "{measured}: {first}");
    }
    assert!(seen[1].get("iterator_age_seconds").is_none() && seen[1].get("error_type").is_none(), "{}", seen[1]);
    let skipped = first.as_object().expect("an object").iter().filter(|(name, _)| name.starts_with("skipped_"));
    let skipped: u64 = skipped.map(|(_, count)| count.as_u64().expect("a count")).sum();
    let settled: u64 = COUNTS.iter().map(|name| first[*name].as_u64().expect("a count")).sum();
    assert_eq!(first["received"].as_u64(), Some(settled + skipped + first["pending"].as_u64().expect("a count")), "{first}");

    let printed = metrics(&function);
    let (one, two) = (&printed["invocation-1"], &printed["invocation-2"]);
    for name in COUNTS.into_iter().chain(["received", "bytes"]) {
        let shown = one.get(&format!("revsync_{name}_total")).and_then(Value::as_u64).unwrap_or_default();
        assert_eq!(Some(shown), first[name].as_u64(), "{name}");
    }
    for (name, count) in first.as_object().expect("an object") {
        if let Some(reason) = name.strip_prefix("skipped_").filter(|_| count != 0) {
            assert_eq!(one.get(&format!("revsync_skipped_total{{{reason}}}")), Some(count), "{reason}");
        }
    }
    assert_eq!(one["revsync_iterator_age_seconds"].as_f64(), first["iterator_age_seconds"].as_f64());
    assert_eq!(one["revsync_invocation_seconds"].as_array().map(Vec::len), Some(1));
    // An event without records counts nothing again, and has no age.
    assert!(!two.contains_key("revsync_received_total") && two["revsync_iterator_age_seconds"] == 0.0, "{two:?}");
    assert_eq!((&two["revsync_pending"], two["revsync_invocation_seconds"].as_array().map(Vec::len)), (&json!(0.0), Some(1)));
}

#[test]
fn a_position_that_was_answered_is_a_warning_that_says_why() {
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let to = format!("http://{nobody}");
    let variables = [("REVSYNC_TO", to.as_str()), ("REVSYNC_DEAD_LETTERS", "file:letters.jsonl"), ("REVSYNC_GIVE_UP_AFTER", "300ms")];
    let mut function = Function::start(&variables);
    let Answer::Response(reply) = function.invoke(&fixture(EVENT), LONG_ENOUGH) else { panic!("{}", function.errors()) };
    let reply: Value = serde_json::from_str(&reply).expect("JSON");
    let seen = invocations(&function);
    assert_eq!(seen.len(), 1);
    assert_eq!((&seen[0]["level"], &seen[0]["answer"]), (&json!("WARN"), &reply["batchItemFailures"][0]["itemIdentifier"]));
    assert_eq!(seen[0]["error_type"], "Revsync.Pending");
    assert!(seen[0]["reason"].as_str().is_some_and(|reason| reason.contains("connection refused")), "{}", seen[0]);
    assert!(seen[0]["reason"].as_str().is_some_and(|reason| reason.contains("Lambda sends these records again")), "{}", seen[0]);
    assert!(seen[0]["pending"].as_u64().is_some_and(|pending| pending > 0), "{}", seen[0]);
    assert!(lines(&function).iter().filter(|line| line.get("shard").is_some()).all(|line| line["requestId"] == "invocation-1"));
    let printed = &metrics(&function)["invocation-1"];
    assert_eq!(printed["revsync_pending"].as_f64(), seen[0]["pending"].as_f64());
    assert!(printed["revsync_requests_total{unavailable}"].as_u64().is_some_and(|requests| requests > 0), "{printed:?}");
}

#[test]
fn a_batch_that_failed_is_an_error_that_says_why_and_its_metrics_are_printed_too() {
    let mut function = Function::start(&TO_NOTHING);
    let Answer::Error(failure) = function.invoke(r#"{"records":{"quokkazz":[]}}"#, LONG_ENOUGH) else {
        panic!("an event of no source is refused")
    };
    let errors: Vec<Value> = lines(&function).into_iter().filter(|line| line["level"] == "ERROR").collect();
    assert_eq!(errors.len(), 1, "{}", function.errors());
    assert_eq!((&errors[0]["message"], &errors[0]["answer"]), (&json!("invocation"), &json!("error")));
    assert_eq!(
        (errors[0]["error_type"].as_str(), errors[0]["reason"].as_str()),
        (Some(failure.kind.as_str()), Some(failure.message.as_str()))
    );
    assert_eq!(failure.kind, "Revsync.Event");
    assert!(metrics(&function).contains_key("invocation-1"));
}

#[test]
fn an_event_that_is_refused_does_not_show_the_age_of_the_one_before_it() {
    let mut function = Function::start(&TO_NOTHING);
    function.invoke(&fixture(EVENT), LONG_ENOUGH);
    function.invoke(r#"{"records":{}}"#, LONG_ENOUGH);
    let (printed, age) = (metrics(&function), "revsync_iterator_age_seconds");
    assert!(printed["invocation-1"][age].as_f64() > Some(0.0), "{printed:?}");
    assert_eq!(printed["invocation-2"][age], 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_is_blocked_is_shown_while_it_is_and_no_longer() {
    let server = Scripted::start().await;
    let to = server.url();
    let variables = [
        ("REVSYNC_TO", to.as_str()),
        ("REVSYNC_DEAD_LETTERS", "file:letters.jsonl"),
        ("REVSYNC_NO_CREATE_INDEX", "true"),
        ("REVSYNC_GIVE_UP_AFTER", "300ms"),
    ];
    let mut function = Function::start(&variables);
    let event = fixture(EVENT);
    tokio::task::block_in_place(|| {
        function.invoke(&event, LONG_ENOUGH);
        function.invoke(&fixture("kinesis_event/empty.json"), LONG_ENOUGH);
    });
    let printed = metrics(&function);
    let blocked = |request: &str| printed[request].iter().filter(|(name, _)| name.starts_with("revsync_index_blocked")).collect::<Vec<_>>();
    let (one, two) = (blocked("invocation-1"), blocked("invocation-2"));
    assert!(!one.is_empty() && one.iter().all(|(_, value)| **value == 1.0), "{one:?} {}", function.errors());
    assert!(two.len() == one.len() && two.iter().all(|(_, value)| **value == 0.0), "{two:?}");
    let waiting = ["revsync_pending", "revsync_parked_bytes", "revsync_bytes_in_flight"].map(|name| printed["invocation-1"][name].as_f64());
    assert!(waiting[0] > Some(0.0), "{waiting:?}");
    for name in ["revsync_pending", "revsync_parked_bytes", "revsync_bytes_in_flight", "revsync_lanes_in_use", "revsync_source_paused"] {
        assert_eq!(printed["invocation-2"][name], 0.0, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_hangs_is_left_at_the_deadline_and_the_metrics_are_printed_all_the_same() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = format!("http://{}", listener.local_addr().expect("an address"));
    let mut function = Function::start(&[("REVSYNC_TO", to.as_str()), ("REVSYNC_DEAD_LETTERS", "file:letters.jsonl")]);
    let answer = tokio::task::block_in_place(|| function.invoke(&fixture(EVENT), Duration::from_secs(4)));
    assert!(matches!(answer, Answer::Response(_)), "{answer:?}");
    let seen = invocations(&function);
    assert_eq!((seen.len(), &seen[0]["level"], &seen[0]["error_type"]), (1, &json!("WARN"), &json!("Revsync.Pending")), "{seen:?}");
    assert!(seen[0]["remaining_seconds"].as_f64().is_some_and(|left| left > 0.0 && left < 4.0), "{}", seen[0]);
    assert!(metrics(&function)["invocation-1"]["revsync_pending"].as_f64() > Some(0.0));
}

#[test]
fn how_much_is_heard_and_in_which_form_is_said_by_lambdas_variables_and_rust_log() {
    let said = |more: &[(&str, &str)]| {
        let mut function = Function::start(&[&TO_NOTHING[..], more].concat());
        function.invoke(&fixture(EVENT), LONG_ENOUGH);
        function.errors()
    };
    let level = |level| said(&[("AWS_LAMBDA_LOG_LEVEL", level)]);
    assert!(level("INFO").contains(r#""message":"invocation""#));
    let warn = level("WARN");
    assert!(!warn.contains("invocation\"") && warn.contains("is gone when this environment of the function ends"), "{warn}");
    assert_eq!(level("FATAL"), "");
    assert!(said(&[("AWS_LAMBDA_LOG_LEVEL", "FATAL"), ("RUST_LOG", "revsync=info")]).contains(r#""message":"invocation""#));
    let text = said(&[("AWS_LAMBDA_LOG_FORMAT", "Text")]);
    let line = text.lines().find(|line| line.contains(" invocation ")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.starts_with("invocation-1 ") && line.contains(" INFO ") && line.contains("received="), "{line}");
    assert!(said(&[("AWS_LAMBDA_LOG_FORMAT", "JSON")]).lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
}

#[test]
fn a_name_with_line_breaks_forges_no_line_of_the_log() {
    // No name of an index can be made of it, and the letter says so.
    let table = r"\n2026 ERROR a forged line\r\x1b[31m".repeat(20);
    let record = binary(&[revision(&table, "a", 1, &put("x"))]);
    let event = event("shard", &[Kept { number: "1".to_owned(), data: record.to_vec() }]);
    for format in ["Text", "JSON"] {
        let mut function = Function::start(&[&TO_NOTHING[..], &[("AWS_LAMBDA_LOG_FORMAT", format)]].concat());
        function.invoke(&event, LONG_ENOUGH);
        let said = function.errors();
        let lines: Vec<&str> = said.split(['\n', '\r', '\u{1b}']).filter(|line| line.contains("forged")).collect();
        assert!(matches!(lines[..], [line] if line.contains("dead letter: ") && line.contains("invalid_index_name")), "{format}: {said}");
    }
}

#[test]
fn no_document_is_told_at_any_level() {
    // What stands in every value, as it is and in Base64 from each of the three places in which that can begin.
    let marks = ["quokkazz", "cXVva2then", "F1b2trYXp6", "xdW9ra2F6e"];
    let texts = ["{\"quokkazz\":", "quokkazz", "{quokkazz:\"quokkazz\"}"];
    let records: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(number, text)| {
            let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
            json!({ "eventSource": "aws:kinesis", "eventID": format!("shardId-000000000000:{number}"),
                    "kinesis": { "sequenceNumber": format!("{}", 100 + number), "data": data, "approximateArrivalTimestamp": 1_700_000_000 } })
        })
        .collect();
    let event = json!({ "Records": records }).to_string();
    for level in [("RUST_LOG", "trace"), ("RUST_LOG", "debug"), ("AWS_LAMBDA_LOG_LEVEL", "TRACE")] {
        let mut function = Function::start(&[&TO_NOTHING[..], &[level]].concat());
        function.invoke(&event, LONG_ENOUGH);
        function.invoke(r#"{"Records":[{"kinesis":{"sequenceNumber":"1","data":"quokkazz!"}}],"more":"quokkazz"}"#, LONG_ENOUGH);
        function.invoke(r#"{"quokkazz":"quokkazz"}"#, LONG_ENOUGH);
        assert_eq!(invocations(&function)[0]["dead_letters"], 3);
        for (what, said) in [("the log", function.errors()), ("the metrics", function.output())] {
            let told = said.lines().find(|line| marks.iter().any(|mark| line.contains(mark)));
            assert!(told.is_none(), "{what} at {level:?}: {told:?}");
        }
    }
}
