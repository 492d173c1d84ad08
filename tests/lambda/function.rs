//! The function as Lambda runs it: the real binary between a runtime interface of ours and a file of bulk lines.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::aws;

/// A function process that ends with the test.
struct Function(Child);

impl Drop for Function {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn function(variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_revsync-lambda"));
    let own = std::env::vars().map(|(name, _)| name).filter(|name| name.starts_with("REVSYNC_"));
    for name in own {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied()).stdin(Stdio::null());
    for (name, value) in [
        ("FUNCTION_NAME", "revsync"),
        ("FUNCTION_MEMORY_SIZE", "128"),
        ("FUNCTION_VERSION", "1"),
        ("LOG_GROUP_NAME", "g"),
        ("LOG_STREAM_NAME", "s"),
    ] {
        command.env(format!("AWS_LAMBDA_{name}"), value);
    }
    command
}

/// One request to the runtime interface: its first line and its body.
fn request(stream: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut first = String::new();
    stream.read_line(&mut first).ok().filter(|read| *read > 0)?;
    let mut length = 0;
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).expect("a header");
        if header.trim().is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').expect("a name and a value");
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().expect("a length");
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("a body");
    Some((first, String::from_utf8(body).expect("UTF-8")))
}

/// Hands out the events one after another, and returns what the function answered: the path's last word and the body.
fn serve(listener: &TcpListener, events: &[&str]) -> Vec<(String, String)> {
    #[expect(clippy::disallowed_methods, reason = "Lambda gives the deadline by the wall clock")]
    let deadline = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970") + Duration::from_secs(60);
    let mut waiting = events.iter();
    let mut answers = Vec::new();
    for stream in listener.incoming() {
        let stream = stream.expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time-out");
        let mut stream = BufReader::new(stream);
        while let Some((first, body)) = request(&mut stream) {
            let path = first.split(' ').nth(1).expect("a path").to_owned();
            if path.ends_with("/invocation/next") {
                let event = waiting.next().expect("the function asks for no more events than there are");
                let headers = format!(
                    "Lambda-Runtime-Aws-Request-Id: 1\r\nLambda-Runtime-Deadline-Ms: {}\r\nLambda-Runtime-Invoked-Function-Arn: arn:aws:lambda:eu-west-1:000000000000:function:revsync\r\n",
                    deadline.as_millis()
                );
                let reply =
                    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n{event}", event.len());
                stream.get_mut().write_all(reply.as_bytes()).expect("an event");
                continue;
            }
            answers.push((path.rsplit('/').next().unwrap_or_default().to_owned(), body));
            if answers.len() == events.len() {
                return answers;
            }
            stream.get_mut().write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n").expect("an acknowledgement");
        }
    }
    answers
}

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name);
    std::fs::read_to_string(path).expect("a fixture")
}

#[test]
fn the_function_writes_an_event_and_answers_in_the_bytes_that_lambda_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let bulk = folder.path().join("bulk.ndjson");
    let letters = folder.path().join("letters.jsonl");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let to = format!("bulk:{}", bulk.display());
    let dead_letters = format!("file:{}", letters.display());
    let variables =
        [("AWS_LAMBDA_RUNTIME_API", address.as_str()), ("REVSYNC_TO", to.as_str()), ("REVSYNC_DEAD_LETTERS", dead_letters.as_str())];
    let _function = Function(function(&variables).stderr(Stdio::null()).spawn().expect("the function starts"));

    let events = [fixture("vehicle-registration/lambda-event.json"), fixture("kinesis_event/empty.json"), r#"{"records":{}}"#.to_owned()];
    let answers = serve(&listener, &events.each_ref().map(String::as_str));

    assert_eq!(answers[0], ("response".to_owned(), r#"{"batchItemFailures":[]}"#.to_owned()));
    assert_eq!(answers[1], ("response".to_owned(), r#"{"batchItemFailures":[]}"#.to_owned()));
    assert_eq!(answers[2].0, "error", "an event of another source is refused: {}", answers[2].1);
    let lines = std::fs::read_to_string(&bulk).expect("bulk lines");
    assert_eq!(lines.lines().filter(|line| line.starts_with(r#"{"delete""#)).count(), 2);
    assert!(lines.contains(r#""_index":"vehicle_registration""#), "{lines}");
    assert!(!letters.exists(), "nothing of it is a dead letter");
}

/// What the function says on standard error until it has answered one event, with these rules and this sink.
fn said(rules: &str, to: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(file("rules.toml"), rules).expect("a file of rules");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let variables = [
        ("AWS_LAMBDA_RUNTIME_API", address.as_str()),
        ("REVSYNC_TO", to),
        ("REVSYNC_DEAD_LETTERS", &format!("file:{}", file("letters.jsonl"))),
        ("REVSYNC_CONFIG", &file("rules.toml")),
    ];
    let errors = std::fs::File::create(file("errors")).expect("a file");
    let running = Function(function(&variables).stderr(errors).spawn().expect("the function starts"));
    serve(&listener, &[&fixture("kinesis_event/empty.json")]);
    drop(running);
    std::fs::read_to_string(file("errors")).expect("what was said")
}

#[test]
fn the_function_warns_of_plain_deletes_where_opensearch_may_forget_them() {
    let (opensearch, tombstones) = ("http://127.0.0.1:9", "[[table]]\nname = \"*\"\ndeletes = \"tombstone\"\n");
    let without_rules = said("", opensearch);
    assert!(without_rules.contains("without rules, every table gets plain deletes: OpenSearch remembers them for 24h"), "{without_rules}");
    let by_rule = said(&format!("[[table]]\nname = \"Car\"\n{tombstones}"), opensearch);
    assert!(by_rule.contains("deletes = \"delete\" holds for \"Car\": OpenSearch"), "{by_rule}");
    assert_eq!(said(tombstones, opensearch), "");
    assert_eq!(said("", "bulk:/dev/null"), "", "bulk lines remember nothing, and that is said elsewhere");
}

#[test]
fn dead_letters_of_the_function_go_into_a_queue() {
    let Some(emulator) = aws::emulator() else { return };
    let queue = emulator.queue(&emulator.name("letters"), serde_json::json!({}));
    let (place, large) = (emulator.queue_place(&queue), emulator.bucket_place(&emulator.bucket(&emulator.name("large"))));
    let folder = tempfile::tempdir().expect("a folder");
    let to = format!("bulk:{}", folder.path().join("bulk.ndjson").display());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let variables = [
        ("AWS_LAMBDA_RUNTIME_API", address.as_str()),
        ("REVSYNC_TO", to.as_str()),
        ("REVSYNC_DEAD_LETTERS", place.as_str()),
        ("REVSYNC_DEAD_LETTERS_LARGE", large.as_str()),
    ];
    let variables = [&variables[..], &aws::CREDENTIALS].concat();
    let _function = Function(function(&variables).stderr(Stdio::null()).spawn().expect("the function starts"));
    let answers = serve(&listener, &[&fixture("kinesis_event/plain.json")]);
    assert_eq!(answers[0], ("response".to_owned(), r#"{"batchItemFailures":[]}"#.to_owned()));
    let letters = emulator.messages(&queue);
    assert_eq!(letters.len(), 2, "the third record is empty: {letters:?}");
    assert!(letters.iter().all(|letter| letter.contains(r#""payload":"#)), "{letters:?}");
}

#[test]
fn a_cold_start_needs_no_sink_and_a_batch_that_cannot_be_written_comes_back_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let to = format!("http://{nobody}");
    let letters = folder.path().join("letters.jsonl");
    let dead_letters = format!("file:{}", letters.display());
    let variables = [
        ("AWS_LAMBDA_RUNTIME_API", address.as_str()),
        ("REVSYNC_TO", to.as_str()),
        ("REVSYNC_DEAD_LETTERS", dead_letters.as_str()),
        ("REVSYNC_GIVE_UP_AFTER", "300ms"),
    ];
    let _function = Function(function(&variables).stderr(Stdio::null()).spawn().expect("the function starts"));
    let event = fixture("vehicle-registration/lambda-event.json");
    let answers = serve(&listener, &[&event, &event]);
    assert_eq!((answers[0].0.as_str(), &answers[0]), ("response", &answers[1]), "the same function answers again");
    assert!(answers[0].1.starts_with(r#"{"batchItemFailures":[{"itemIdentifier":""#), "{}", answers[0].1);
    assert!(!letters.exists(), "an outage is no dead letter");
}

#[test]
fn the_function_does_not_start_without_a_sink_and_a_place_for_dead_letters() {
    for (variables, expected) in [
        (&[][..], "error: no sink is named; set REVSYNC_TO"),
        (&[("REVSYNC_TO", "bulk:-")], "error: no place for dead letters is named; set REVSYNC_DEAD_LETTERS"),
        (&[("REVSYNC_TO", "nowhere"), ("REVSYNC_DEAD_LETTERS", "file:letters.jsonl")], "error: "),
    ] {
        let Output { status, stderr, .. } = function(variables).output().expect("the function starts");
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(!status.success() && stderr.contains(expected), "{variables:?}: {stderr}");
    }
}
