//! What the function is told by its environment and its package: what it takes, what it refuses, and how Lambda hears of it.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::Value;

use crate::runtime_api::{Answer, Failure, Function, command};
use crate::scripted_opensearch::Scripted;
use crate::{aws, fixture};

/// More than any of these tests takes.
const LONG_ENOUGH: Duration = Duration::from_secs(60);
/// A sink and a place for dead letters with which a function starts.
const ENDS: [(&str, &str); 2] = [("REVSYNC_TO", "bulk:/dev/null"), ("REVSYNC_DEAD_LETTERS", "file:letters.jsonl")];

fn invocation(function: &Function) -> Value {
    let lines = function.errors();
    let line = lines.lines().find(|line| line.contains(r#""message":"invocation""#)).unwrap_or_else(|| panic!("no invocation: {lines}"));
    serde_json::from_str(line).expect("JSON")
}

#[test]
fn what_is_wrong_in_the_environment_is_told_to_lambda_and_logged_and_ends_the_process() {
    let sink = |more: &[(&'static str, &'static str)]| [&ENDS[..1], more].concat();
    let both = |more: (&'static str, &'static str)| [&ENDS[..], &[more]].concat();
    for (variables, expected) in [
        (vec![], "no sink is named; set REVSYNC_TO"),
        (sink(&[]), "no place for dead letters is named; set REVSYNC_DEAD_LETTERS"),
        (
            vec![("REVSYNC_TO", "nowhere"), ENDS[1]],
            "sink: expected local:FILE, http(s)://HOST:PORT, bulk:FILE or bulk:-, found \"nowhere\"",
        ),
        (vec![("REVSYNC_TO", "bulk:-"), ENDS[1]], "sink: expected http(s)://HOST:PORT, found bulk:-"),
        (sink(&[("REVSYNC_DEAD_LETTERS", "file:/nowhere/letters.jsonl")]), "/nowhere/letters.jsonl"),
        (
            both(("REVSYNC_DEAD_LETERS", "x")),
            "expected a variable that the function reads, found REVSYNC_DEAD_LETERS; did you mean REVSYNC_DEAD_LETTERS?",
        ),
        (both(("REVSYNC_AUTH", "digest")), "REVSYNC_AUTH: expected one of none, basic, aws, aoss, found \"digest\""),
        (both(("REVSYNC_LINGER", "soon")), "REVSYNC_LINGER: found \"soon\": "),
        (both(("REVSYNC_NAME", "zürich")), "found \"zürich\"; set REVSYNC_NAME"),
        (both(("REVSYNC_NAME", ":ledger")), "expected a name of the pipeline that CloudWatch takes for a dimension (1 to 1024 ASCII"),
        (both(("REVSYNC_NAME", "")), "found \"\"; set REVSYNC_NAME"),
        (both(("REVSYNC_CONFIG", "/nowhere/x.toml")), "configuration file /nowhere/x.toml: "),
    ] {
        let mut function = Function::start(&variables);
        let (told, status) = function.init_error();
        let told = told.unwrap_or_else(|| panic!("Lambda was told nothing of {variables:?}: {}", function.errors()));
        assert!(told.message.contains(expected), "{variables:?}: {}", told.message);
        let is_letters = expected.contains("/nowhere/letters");
        assert_eq!(told.kind, if is_letters { "Revsync.DeadLetters" } else { "Revsync.Configuration" }, "{variables:?}");
        assert_eq!((status.code(), function.output().as_str()), (Some(1), ""), "{variables:?}");
        let errors = function.errors();
        let lines: Vec<Value> = errors.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let failed: Vec<&Value> = lines.iter().filter(|line| line["level"] == "ERROR").collect();
        assert_eq!(failed.len(), 1, "{errors}");
        assert_eq!(
            (failed[0]["message"].as_str(), failed[0]["error_type"].as_str()),
            (Some(told.message.as_str()), Some(told.kind.as_str()))
        );
    }
}

#[test]
fn a_queue_that_does_not_answer_is_told_before_lambda_ends_the_start() {
    let hanging = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", hanging.local_addr().expect("an address"));
    let queue = "sqs://sqs.eu-west-1.amazonaws.com/000000000000/letters";
    let letters = [("REVSYNC_DEAD_LETTERS", queue), ("REVSYNC_DEAD_LETTERS_LARGE", "s3://bucket/large")];
    let place = [("AWS_ENDPOINT_URL", url.as_str()), ("AWS_REGION", aws::REGION)];
    let (told, _) = Function::start(&[&ENDS[..1], &letters, &place, &aws::CREDENTIALS].concat()).init_error();
    let Failure { kind, message, .. } = told.expect("Lambda is told");
    assert!(message.contains(&format!("dead letters: {queue} cannot be reached: no answer in 8 s; a function in a VPC")), "{message}");
    assert_eq!(kind, "Revsync.DeadLetters");
}

#[test]
fn variables_that_are_not_the_functions_are_told_and_do_no_harm() {
    let others = [("REVSYNC_QQQ", "x"), ("REVSYNC_SOURCE", "s.ion"), ("REVSYNC_JSON", "true")];
    let mut function = Function::start(&[&ENDS[..], &others].concat());
    assert_eq!(
        function.invoke(&fixture("kinesis_event/empty.json"), LONG_ENOUGH),
        Answer::Response(r#"{"batchItemFailures":[]}"#.to_owned())
    );
    let lines = function.errors();
    for told in [
        "REVSYNC_QQQ is no variable of the function and is not read; known are REVSYNC_CONFIG, ",
        "REVSYNC_SOURCE means nothing in a function and is not read: the event source mapping hands the records in",
        "REVSYNC_JSON means nothing in a function and is not read: ",
    ] {
        assert!(lines.lines().any(|line| line.contains(r#""level":"WARN""#) && line.contains(told)), "{told}: {lines}");
    }
}

#[test]
fn a_function_outside_of_lambda_says_what_is_wrong_and_ends() {
    let ended = command(&[]).output().expect("the function starts");
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("no sink is named"), "{ended:?}");
}

#[test]
fn the_file_of_the_package_is_read_and_one_that_is_named_comes_before_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().display().to_string();
    let named = format!("{root}/named.toml");
    let ends = "[sink]\nurl = \"bulk:/dev/null\"\n[dead_letters]\nurl = \"file:letters.jsonl\"\n";
    std::fs::write(folder.path().join("revsync.toml"), format!("name = \"packaged\"\n{ends}")).expect("a file");
    std::fs::write(&named, format!("name = \"named\"\n{ends}")).expect("a file");
    let (root, named) = (("LAMBDA_TASK_ROOT", root.as_str()), ("REVSYNC_CONFIG", named.as_str()));
    let function_name = [root, ENDS[0], ENDS[1]];
    for (variables, expected) in [
        (&[root][..], "packaged"),
        (&[root, named], "named"),
        (&[root, ("REVSYNC_NAME", "ledger")], "ledger"),
        // The name of the function, where nothing else names the pipeline.
        (&[("LAMBDA_TASK_ROOT", "/nowhere"), function_name[1], function_name[2]], "revsync"),
    ] {
        let mut function = Function::start(variables);
        let answer = function.invoke(&fixture("kinesis_event/empty.json"), LONG_ENOUGH);
        assert_eq!(answer, Answer::Response(r#"{"batchItemFailures":[]}"#.to_owned()), "{}", function.errors());
        assert_eq!(invocation(&function)["pipeline"], expected);
        let documents = function.output();
        assert!(documents.lines().all(|line| line.contains(&format!(r#""pipeline":"{expected}""#))), "{documents}");
    }
}

#[test]
fn dead_letters_go_where_the_environment_has_the_endpoint_of_aws() {
    let Some(emulator) = aws::emulator() else { return };
    let queue = emulator.queue(&emulator.name("letters"), serde_json::json!({}));
    let bucket = emulator.bucket(&emulator.name("large"));
    let place = format!("sqs://sqs.{}.amazonaws.com/{}/{queue}", aws::REGION, aws::ACCOUNT);
    // A name, before which another could stand; before an address none can.
    let (large, url) = (format!("s3://{bucket}/ledger"), emulator.url().replace("127.0.0.1", "localhost"));
    let variables = [("AWS_ENDPOINT_URL", url.as_str()), ("AWS_REGION", aws::REGION), ("REVSYNC_TO", "bulk:/dev/null")];
    let places = [("REVSYNC_DEAD_LETTERS", place.as_str()), ("REVSYNC_DEAD_LETTERS_LARGE", &large)];
    let mut function = Function::start(&[&variables[..], &places, &aws::CREDENTIALS].concat());
    let answer = function.invoke(&fixture("kinesis_event/plain.json"), LONG_ENOUGH);
    assert!(matches!(answer, Answer::Response(_)), "{answer:?} {}", function.errors());
    assert_eq!(emulator.messages(&queue).len(), 2);
    drop(function);

    let (place, endpoint) = (("REVSYNC_DEAD_LETTERS", large.as_str()), ("AWS_ENDPOINT_URL_S3", url.as_str()));
    let mut function = Function::start(&[&variables[1..], &[place, endpoint], &aws::CREDENTIALS].concat());
    let answer = function.invoke(&fixture("kinesis_event/plain.json"), LONG_ENOUGH);
    assert!(matches!(answer, Answer::Response(_)), "{answer:?} {}", function.errors());
    assert_eq!(emulator.keys(&bucket).len(), 2);
}

/// `Basic` with this user name and password.
fn basic(credentials: &str) -> String {
    format!("Basic {}", base64::Engine::encode(&base64::engine::general_purpose::STANDARD, credentials))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_is_rotated_while_the_function_is_warm_is_found_by_its_next_event() {
    let Some(emulator) = aws::emulator() else { return };
    let server = Scripted::start().await;
    let rotate = |password: &str| {
        server.require_header("authorization", &basic(&format!("ann:{password}")));
        emulator.secret("search", &serde_json::json!({ "username": "ann", "password": password }).to_string())
    };
    let arn = rotate("one");
    let (to, url) = (server.url(), emulator.url());
    let variables = [("REVSYNC_TO", to.as_str()), ENDS[1], ("REVSYNC_PASSWORD_SECRET", &arn), ("AWS_ENDPOINT_URL", &url)];
    let mut function = Function::start(&[&variables[..], &aws::CREDENTIALS].concat());
    for password in ["one", "two", "two"] {
        rotate(password);
        let answer = tokio::task::block_in_place(|| function.invoke(&fixture("vehicle-registration/lambda-event.json"), LONG_ENOUGH));
        assert_eq!(answer, Answer::Response(r#"{"batchItemFailures":[]}"#.to_owned()), "{}", function.errors());
    }
    rotate("three");
    emulator.secret("search", "{}");
    let answer = tokio::task::block_in_place(|| function.invoke(&fixture("vehicle-registration/lambda-event.json"), LONG_ENOUGH));
    assert!(matches!(&answer, Answer::Error(failure) if failure.kind == "Revsync.Sink"), "{answer:?}");
    for password in ["ann:one", "ann:two", "ann:three"] {
        let (said, header) = (function.errors(), basic(password));
        assert!(!said.contains(password) && !said.contains(&header["Basic ".len()..]), "{said}");
    }
}
