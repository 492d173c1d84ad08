//! The whole line into a server that does what a healthy one never does: from QLDB records to what the server holds at the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use revsync::codec::Decoder;
use revsync::error::{Error, Kind};
use revsync::plan::mapping::Mapping;
use revsync::record::Record;
use revsync::run::deliver::{Deliver, Settings};
use revsync::sink::opensearch::{Config, OpenSearch};
use revsync::store::dead_letters::{DeadLetter, DeadLetters};
use tempfile::TempDir;

use crate::operations::config;
use crate::qldb_stream::{Does, put, records};
use crate::scripted_opensearch::{Fate, Scripted, Step};

struct Bench {
    server: Scripted,
    config: Config,
    settings: Settings,
    folder: TempDir,
}

impl Bench {
    /// A server with the index that people go to.
    async fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let server = Scripted::start().await;
        server.add_index("person-000001", Some("person"));
        server.tell_uuids();
        server.script(steps);
        let config = config(&server.url());
        Self { server, config, settings: Settings::default(), folder: tempfile::tempdir().unwrap() }
    }

    async fn line(&self) -> Deliver {
        let sink = Arc::new(OpenSearch::connect(&self.config).await.unwrap());
        let letters = Arc::new(DeadLetters::in_file(&self.folder.path().join("letters.jsonl")).unwrap());
        Deliver::new(Decoder::default(), Mapping::default(), sink, letters, self.settings)
    }

    async fn deliver(&self, records: &[Record]) -> (Result<(), Error>, Deliver) {
        let mut line = self.line().await;
        let result = push_all(&mut line, records).await;
        if result.is_err() {
            line.stop(Duration::from_secs(5)).await;
        }
        (result, line)
    }

    fn letters(&self) -> Vec<DeadLetter> {
        let text = std::fs::read_to_string(self.folder.path().join("letters.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The operations of every `_bulk` request, without what only guards the index.
    fn sent(&self) -> Vec<Vec<String>> {
        let of = |request: &crate::scripted_opensearch::Request| {
            request.operations().into_iter().filter(|operation| !operation.starts_with("update")).collect()
        };
        self.server.bulks().iter().map(of).collect()
    }
}

async fn push_all(line: &mut Deliver, records: &[Record]) -> Result<(), Error> {
    for record in records {
        line.push(record).await?;
    }
    line.finish().await
}

fn people(count: usize) -> Vec<Record> {
    let ids: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    records(ids.iter().map(|id| ("Person", id.as_str(), 0, put(id))))
}

#[tokio::test]
async fn each_item_goes_its_own_way_and_only_the_busy_one_is_sent_again() {
    let secret = "failed to parse field [n] of type [long] in document with id '1'. Preview of field's value: 'topsecret'";
    let bench = Bench::new([Step::reject(1, 400, "mapper_parsing_exception", secret).also(
        2,
        429,
        "rejected_execution_exception",
        "rejected execution of coordinating operation",
    )])
    .await;
    let (result, line) = bench.deliver(&people(4)).await;
    result.unwrap();
    assert_eq!(bench.sent()[1..], [["index 2@0"]]);
    let counts = line.counts();
    assert_eq!((counts.indexed, counts.dead_letters, counts.pending), (3, 1, 0));
    let letter = &bench.letters()[0];
    assert_eq!(letter.document_id.as_deref(), Some("1"));
    assert!(!format!("{:?}", letter.error).contains("topsecret"), "{:?}", letter.error);
}

#[tokio::test]
async fn whatever_becomes_of_the_answer_the_index_comes_to_the_fold() {
    let bench = Bench::new([
        Step::after_writing(Fate::Drop),
        Step::after_writing(Fate::Cut(30)),
        Step::without_writing(Fate::Drop),
        Step::after_writing(Fate::Say("<html>bad gateway</html>".to_owned())),
        Step::after_writing(Fate::Say(r#"{"errors":false,"items":[{"index":{"status":201}}]}"#.to_owned())),
        Step::status(503, "no"),
    ])
    .await;
    let all = records([
        ("Person", "a", 0, put("old")),
        ("Person", "b", 0, put("x")),
        ("Person", "a", 2, put("new")),
        ("Person", "b", 1, Does::Delete),
        ("Person", "a", 1, put("between")),
    ]);
    let (result, line) = bench.deliver(&all).await;
    result.unwrap();
    assert_eq!(bench.server.document("person", "a"), Some((2, Some(r#"{"note":"new"}"#.to_owned()))));
    assert_eq!(bench.server.document("person", "b"), Some((1, None)));
    let counts = line.counts();
    assert_eq!((counts.compacted, counts.stale, counts.pending, bench.letters().len()), (3, 2, 0, 0));
}

#[tokio::test]
async fn a_wait_that_the_server_asks_for_is_kept() {
    let bench = Bench::new([Step::status(429, "slow down").header("retry-after", "1")]).await;
    let started = Instant::now();
    let (result, _) = bench.deliver(&people(1)).await;
    result.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(1));
    assert_eq!(bench.sent().len(), 2);
}

#[tokio::test]
async fn a_request_that_is_too_large_is_halved_and_nothing_is_lost() {
    let too_large = || Step::status(413, r#"{"Message":"Request size exceeded 10485760 bytes"}"#);
    let bench = Bench::new([too_large(), too_large(), Step::proper()]).await;
    let (result, line) = bench.deliver(&people(8)).await;
    result.unwrap();
    let sizes: Vec<usize> = bench.sent().iter().map(Vec::len).collect();
    assert_eq!(sizes, [8, 4, 4, 2, 2]);
    assert_eq!((line.counts().indexed, bench.server.documents("person").len(), bench.letters().len()), (8, 8, 0));
}

#[tokio::test]
async fn a_document_that_no_request_can_carry_is_a_letter() {
    let too_large = || Step::status(413, r#"{"Message":"Request size exceeded 10485760 bytes"}"#);
    let bench = Bench::new([too_large(), too_large()]).await;
    let (result, line) = bench.deliver(&people(2)).await;
    result.unwrap();
    let letters = bench.letters();
    assert_eq!((letters.len(), letters[0].error.kind.as_str()), (1, "payload_too_large"));
    assert_eq!((line.counts().indexed, line.counts().dead_letters), (1, 1));
}

#[tokio::test]
async fn one_operation_that_spoils_the_request_is_found_and_the_rest_is_written_once() {
    let invalid = || {
        let body =
            r#"{"error":{"type":"action_request_validation_exception","reason":"Validation Failed: 1: id is too long"},"status":400}"#;
        Step::status(400, body)
    };
    // All eight, the first four, of them the first two, of them the first.
    let bench = Bench::new([invalid(), invalid(), Step::proper(), invalid(), Step::proper(), invalid(), Step::proper()]).await;
    let (result, line) = bench.deliver(&people(8)).await;
    result.unwrap();
    let counts = line.counts();
    assert_eq!((counts.indexed, counts.stale, counts.dead_letters), (7, 0, 1));
    assert_eq!(bench.server.documents("person").len(), 7);
    assert_eq!(bench.letters()[0].error.kind, "action_request_validation_exception");
    assert_eq!(bench.sent().len(), 7);
}

#[tokio::test]
async fn a_password_that_is_wrong_ends_the_run_with_nothing_settled() {
    let bench = Bench::new([]).await;
    bench.server.require_header("authorization", "Basic something-else");
    let (result, line) = bench.deliver(&people(3)).await;
    let error = result.unwrap_err();
    assert!(error.kind == Kind::Sink && error.what.contains("401"), "{error}");
    assert_eq!((line.counts().pending, line.first_unsettled()), (3, Some(people(1)[0].position.clone())));
    assert_eq!(bench.letters(), []);
}

#[tokio::test]
async fn a_server_that_hangs_is_asked_again_after_the_time_out() {
    let mut bench = Bench::new([Step::after_writing(Fate::Hang)]).await;
    bench.config.request_timeout = Duration::from_millis(300);
    let (result, line) = bench.deliver(&people(2)).await;
    result.unwrap();
    assert_eq!((line.counts().stale, bench.sent().len()), (2, 2));
}

#[tokio::test]
async fn a_run_that_gives_up_on_a_server_that_is_gone_says_what_is_pending_and_why() {
    let mut bench = Bench::new([]).await;
    bench.settings.give_up_after = Some(Duration::from_millis(400));
    let address = bench.server.address();
    let server = std::mem::replace(&mut bench.server, Scripted::start().await);
    server.stop().await;
    let (result, line) = bench.deliver(&people(2)).await;
    let error = result.unwrap_err();
    assert_eq!((error.kind, line.counts().pending, bench.letters().len()), (Kind::Pending, 2, 0));
    assert!(error.what.contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn a_server_that_comes_back_finds_everything_waiting() {
    let mut bench = Bench::new([]).await;
    let spare = Scripted::start().await;
    let address = std::mem::replace(&mut bench.server, spare).stop().await;
    let mut line = bench.line().await;
    for person in &people(3) {
        line.push(person).await.unwrap();
    }
    line.flush().await.unwrap();
    // A try that fails is no news: time passes, and the server comes back.
    let _ = tokio::time::timeout(Duration::from_millis(50), line.tend()).await;
    bench.server = Scripted::start_on(address, None).await;
    bench.server.add_index("person-000001", Some("person"));
    line.finish().await.unwrap();
    assert_eq!((line.counts().indexed, bench.server.documents("person").len()), (3, 3));
}

#[tokio::test]
async fn an_index_that_does_not_exist_yet_keeps_no_other_waiting() {
    let mut bench = Bench::new([]).await;
    bench.config.create_index = false;
    bench.settings.request_operations = 2;
    bench.settings.requests_in_flight = 1;
    let mut line = bench.line().await;
    let ids: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    let both = ids.iter().flat_map(|id| [("Person", id.as_str(), 0, put("x")), ("Place", id.as_str(), 0, put("y"))]);
    for record in &records(both) {
        line.push(record).await.unwrap();
    }
    while line.counts().indexed < 10 {
        line.tend().await.unwrap();
    }
    assert_eq!((line.counts().pending, bench.server.documents("person").len()), (10, 10));
    bench.server.add_index("place-000001", Some("place"));
    line.finish().await.unwrap();
    assert_eq!((line.counts().indexed, bench.server.documents("place").len(), bench.letters().len()), (20, 10, 0));
}

#[tokio::test]
async fn a_write_block_is_waited_out() {
    let blocked = || Step::reject(0, 403, "cluster_block_exception", "index [person-000001] blocked by: [FORBIDDEN/8/index write (api)];");
    let bench = Bench::new([blocked(), blocked()]).await;
    let (result, line) = bench.deliver(&people(2)).await;
    result.unwrap();
    assert_eq!((line.counts().indexed, bench.letters().len()), (2, 0));
    assert_eq!(bench.sent()[1..], [["index 0@0"], ["index 0@0"]]);
}

#[tokio::test]
async fn a_block_of_either_kind_in_an_item_or_for_a_whole_request_is_waited_out() {
    for kind in ["FORBIDDEN/8/index write (api)", "FORBIDDEN/12/index read-only / allow delete (api)"] {
        let reason = format!("index [person-000001] blocked by: [{kind}];");
        let item = || Step::reject(0, 403, "cluster_block_exception", &reason).also(1, 403, "cluster_block_exception", &reason);
        let body = format!(r#"{{"error":{{"type":"cluster_block_exception","reason":"{reason}"}},"status":403}}"#);
        for blocked in [item(), Step::status(403, &body)] {
            let bench = Bench::new([blocked.clone(), blocked]).await;
            let (result, line) = bench.deliver(&people(2)).await;
            result.unwrap();
            assert_eq!((line.counts().indexed, bench.letters().len()), (2, 0), "{kind}");
            let mut sent = bench.sent();
            sent.iter_mut().for_each(|operations| operations.sort());
            assert_eq!(sent, [["index 0@0", "index 1@0"]; 3], "{kind}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_says_errors_where_deletes_only_found_nothing_is_a_success() {
    let answer = r#"{"items":[{"delete":{"status":404}},{"delete":{"status":404}},{"update":{"status":404,"error":{"type":"document_missing_exception"}}}],"errors":true}"#;
    let bench = Bench::new([Step::without_writing(Fate::Say(answer.to_owned()))]).await;
    let (result, line) = bench.deliver(&records([("Person", "a", 3, Does::Delete), ("Person", "b", 1, Does::Delete)])).await;
    result.unwrap();
    assert_eq!((line.counts().absent, bench.sent().len(), bench.letters().len()), (2, 1, 0));
    assert!(line.ledger().is_settled());
}

#[tokio::test]
async fn a_refusal_right_after_a_delete_is_that_of_its_own_document() {
    // A delete has one line and a put has two: counted by lines, the third answer would be that of the second put.
    let bench = Bench::new([Step::reject(2, 400, "mapper_parsing_exception", "failed to parse").also(
        4,
        429,
        "rejected_execution_exception",
        "rejected execution of coordinating operation",
    )])
    .await;
    let all = records([
        ("Person", "a", 1, Does::Delete),
        ("Person", "b", 1, Does::Delete),
        ("Person", "c", 1, put("x")),
        ("Person", "d", 1, put("x")),
        ("Person", "e", 1, Does::Delete),
        ("Person", "f", 1, put("x")),
    ]);
    let (result, line) = bench.deliver(&all).await;
    result.unwrap();
    let letters: Vec<_> = bench.letters().into_iter().map(|letter| letter.document_id.unwrap()).collect();
    assert_eq!((letters, &bench.sent()[1..]), (vec!["c".to_owned()], &[vec!["delete e@1".to_owned()]][..]));
    assert_eq!((line.counts().indexed, line.counts().absent, line.counts().dead_letters), (2, 3, 1));
}

#[tokio::test]
async fn conflicts_are_known_in_every_language_and_are_no_letters() {
    let conflict = |place, reason: &str| Step::reject(place, 409, "version_conflict_engine_exception", reason);
    let bench = Bench::new([conflict(1, "[1]: conflit de version, la version actuelle [2] est supérieure").also(
        2,
        409,
        "version_conflict_engine_exception",
        "",
    )])
    .await;
    let (result, line) = bench.deliver(&people(4)).await;
    result.unwrap();
    assert_eq!((line.counts().indexed, line.counts().stale, bench.sent().len()), (2, 2, 1));
    assert!(!bench.folder.path().join("letters.jsonl").exists());
}

#[tokio::test]
async fn a_connection_that_is_reset_while_a_request_is_sent_costs_nothing() {
    let mut bench = Bench::new([Step::without_writing(Fate::Reset), Step::without_writing(Fate::Reset)]).await;
    // More than the buffers on the way take, so that the request is still being sent.
    bench.config.gzip = false;
    let padding = "x".repeat(1 << 20);
    let ids = ["0", "1", "2", "3"];
    let (result, line) = bench.deliver(&records(ids.map(|id| ("Person", id, 0, put(&padding))))).await;
    result.unwrap();
    assert_eq!((bench.server.resets(), bench.sent().len()), (2, 1));
    assert_eq!((line.counts().indexed, bench.server.documents("person").len(), bench.letters().len()), (4, 4, 0));
}

#[tokio::test]
async fn an_alias_without_a_write_index_ends_the_run() {
    let reason = "no write index is defined for alias [person]. The write index may be explicitly disabled";
    let bench = Bench::new([Step::reject(0, 400, "illegal_argument_exception", reason)]).await;
    let (result, line) = bench.deliver(&people(1)).await;
    let error = result.unwrap_err();
    assert!(error.kind == Kind::Sink && error.what.contains("write index"), "{error}");
    assert_eq!((line.counts().pending, bench.letters().len()), (1, 0));
}
