//! Every setting of the sink, of the delivery and of a table can be seen on the wire: none is read and then forgotten.
//!
//! Each runs the real command with a configuration file that sets one thing. A setting that the schema knows and this file does not fails a
//! test of its own.

use std::io::Write;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::access::Authority;
use crate::command::{Done, Folder, revision};
use crate::qldb_stream::{self, Does};
use crate::scripted_opensearch::{Fate, Request, Scripted, Step};

/// One test for each setting, and the list of them.
macro_rules! knobs {
    ($($section:literal $key:literal $test:ident,)*) => {
        /// The settings that are tested here, by section of the schema and key.
        const KNOBS: &[(&str, &str)] = &[$(($section, $key),)*];

        mod wire {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $test() {
                    super::$test().await;
                }
            )*
        }
    };
}

knobs! {
    "SinkSection" "url" the_url_is_where_requests_go,
    "SinkSection" "auth" auth_decides_how_requests_are_authorised,
    "SinkSection" "username" the_user_name_is_sent,
    "SinkSection" "password" the_password_is_sent,
    "SinkSection" "password_file" the_password_of_a_file_is_sent,
    "SinkSection" "password_secret" the_password_of_a_secret_is_sent,
    "SinkSection" "ca_file" the_authority_of_a_file_is_trusted,
    "SinkSection" "client_certificate_file" the_client_certificate_is_shown,
    "SinkSection" "create_index" no_index_is_created_where_that_is_off,
    "SinkSection" "gc_deletes" a_created_index_remembers_deletes_for_as_long_as_is_said,
    "SinkSection" "aws" aws_is_a_section_of_its_own,
    "Aws" "region" the_region_is_signed_for,
    "Aws" "assume_role_arn" the_role_is_assumed,
    "JournalSection" "index" blocks_are_written_to_the_index_of_the_journal,
    "JournalSection" "statements" the_text_of_statements_is_sent_where_that_is_said,
    "DeliverySection" "request_bytes" no_request_has_more_bytes,
    "DeliverySection" "request_operations" no_request_has_more_operations,
    "DeliverySection" "requests_in_flight" no_more_requests_are_under_way,
    "DeliverySection" "linger" operations_wait_for_company_for_as_long_as_is_said,
    "DeliverySection" "max_rate" no_second_has_more_operations,
    "DeliverySection" "gzip" bodies_are_compressed_or_not,
    "DeliverySection" "give_up_after" a_run_gives_up_when_it_is_said_to,
    "DeliverySection" "grace" what_is_under_way_gets_the_grace_time_when_the_work_ends,
    "DeliverySection" "request_timeout" a_request_is_given_up_when_it_is_said_to,
    "DeliverySection" "breaker_in_a_row" an_index_that_refuses_so_many_in_a_row_is_blocked,
    "DeliverySection" "breaker_percent" an_index_that_refuses_so_great_a_share_is_blocked,
    "TableRule" "name" a_rule_is_for_the_tables_that_it_names,
    "TableRule" "index" the_index_of_a_rule_is_written_to,
    "TableRule" "key" the_key_columns_of_a_rule_name_the_document,
    "TableRule" "rows" a_row_is_replaced_or_put_together_from_its_cells_as_a_rule_says,
    "TableRule" "types" columns_are_what_a_rule_says,
    "TableRule" "fields" only_the_fields_of_a_rule_are_sent,
    "TableRule" "exclude" the_fields_that_a_rule_leaves_out_are_not_sent,
    "TableRule" "where" what_does_not_match_a_rule_is_a_delete,
    "TableRule" "routing" the_routing_of_a_rule_is_sent,
    "TableRule" "mode" the_newest_revision_or_every_one_is_sent_as_a_rule_says,
    "TableRule" "redactions" a_redaction_deletes_what_it_covers_where_a_rule_says_so,
    "TableRule" "deletes" deletes_are_what_a_rule_says,
    "TableRule" "metadata_field" metadata_is_sent_where_a_rule_names_its_field,
    "TableRule" "long_ids" long_ids_are_hashed_where_a_rule_says_so,
    "TableRule" "decimals" decimals_are_strings_where_a_rule_says_so,
    "TableRule" "non_finite" what_is_not_finite_is_a_string_where_a_rule_says_so,
    "TableRule" "mapping" an_index_is_created_with_the_mapping_of_its_rule,
}

#[test]
fn every_setting_of_the_sink_the_journal_the_delivery_and_a_table_is_tested_on_the_wire() {
    let schema = Folder::new().revsync(&["config", "schema"]).json();
    for section in ["SinkSection", "Aws", "JournalSection", "DeliverySection", "TableRule"] {
        for key in schema["$defs"][section]["properties"].as_object().unwrap().keys() {
            assert!(KNOBS.contains(&(section, key.as_str())), "{section}.{key} is seen on no wire: add a test to this file");
        }
    }
}

/// What a run came to, and what the server was asked.
struct Run {
    done: Done,
    server: Scripted,
    folder: Arc<Folder>,
}

impl Run {
    /// The lines of all requests.
    fn lines(&self) -> Vec<Value> {
        self.server.bulks().iter().flat_map(Request::lines).map(|line| serde_json::from_str(&line).unwrap()).collect()
    }

    /// The body with which an index was created.
    fn creation(&self) -> Value {
        let created = self.server.requests().into_iter().find(|request| request.method == "PUT").expect("an index was created");
        serde_json::from_slice(&created.body).unwrap()
    }

    fn header(&self, name: &str) -> Vec<String> {
        self.server.bulks().iter().map(|request| request.header(name).unwrap_or_default().to_owned()).collect()
    }
}

/// Runs `sync` with a configuration file over records of the tables T and U.
async fn run(config: &str) -> Run {
    let records = [revision("T", "a", 0, Some("{n:1.50,s:\"x\",o:{p:1,q:2}}")), revision("T", "b", 4, None)].concat();
    run_on(Scripted::start().await, config, &records, &[]).await
}

async fn run_on(server: Scripted, config: &str, records: &str, environment: &[(&str, &str)]) -> Run {
    let folder = Arc::new(Folder::new());
    folder.write("revsync.toml", config);
    folder.write("s.ion", records);
    let done = sync(&folder, &server, environment).await;
    Run { done, server, folder }
}

/// Runs `sync` in a folder; the sink is that of the file where it names one.
async fn sync(folder: &Arc<Folder>, server: &Scripted, environment: &[(&str, &str)]) -> Done {
    sync_with(folder, server, environment, &[]).await
}

async fn sync_with(folder: &Arc<Folder>, server: &Scripted, environment: &[(&str, &str)], options: &[&str]) -> Done {
    let url = server.url();
    let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    let named = String::from_utf8(folder.read("revsync.toml")).unwrap().contains("\nurl = ");
    let environment: Vec<(String, String)> = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let folder = folder.clone();
    let done = tokio::task::spawn_blocking(move || {
        let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let common = ["--json", "--config", "revsync.toml", "sync", "s.ion"];
        let mut arguments = if named { common.to_vec() } else { [&common[..], &["--to", &url]].concat() };
        arguments.extend(options.iter().map(String::as_str));
        folder.revsync_with(&arguments, &environment, b"")
    });
    done.await.unwrap()
}

const KEYS: [(&str, &str); 3] = [("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_REGION", "eu-west-1")];

/// `Basic` with this user name and password.
fn basic(credentials: &str) -> Vec<String> {
    vec![format!("Basic {}", base64::Engine::encode(&base64::engine::general_purpose::STANDARD, credentials))]
}

// Where the index is, and how to get in

async fn the_url_is_where_requests_go() {
    let server = Scripted::start().await;
    let config = format!("[sink]\nurl = \"{}\"\n", server.url());
    let run = run_on(server, &config, &revision("T", "a", 0, Some("{}")), &[]).await;
    assert_eq!((run.done.exit, run.server.bulks().len()), (0, 1), "{:?}", run.done);
}

async fn auth_decides_how_requests_are_authorised() {
    for (auth, expected) in [("none", ""), ("basic", "Basic "), ("aws", "AWS4-HMAC-SHA256 "), ("aoss", "AWS4-HMAC-SHA256 ")] {
        let server = Scripted::start().await;
        server.fix("GET", "/_cat/indices", 200, "[]", &[]);
        let rule = "[[table]]\nname = \"*\"\ndeletes = \"tombstone\"\n";
        let config = format!("[sink]\nauth = \"{auth}\"\nusername = \"ann\"\npassword = \"p\"\n{rule}");
        let run = run_on(server, &config, &revision("T", "a", 0, Some("{}")), &KEYS).await;
        let sent = &run.header("authorization")[0];
        assert!(sent.starts_with(expected) && sent.is_empty() == expected.is_empty(), "{auth}: {sent}");
        let service = if auth == "aoss" { "/aoss/aws4_request" } else { "/es/aws4_request" };
        assert_eq!(sent.contains(service), auth.starts_with('a'), "{auth}: {sent}");
    }
}

async fn the_user_name_is_sent() {
    let run = run("[sink]\nusername = \"zoë\"\npassword = \"p\"\n").await;
    assert_eq!(run.header("authorization"), basic("zoë:p"));
}

async fn the_password_is_sent() {
    let run = run("[sink]\nusername = \"ann\"\npassword = \"p:ä \"\n").await;
    assert_eq!(run.header("authorization"), basic("ann:p:ä "));
}

async fn the_password_of_a_file_is_sent() {
    let folder = Arc::new(Folder::new());
    let server = Scripted::start().await;
    folder.write("password", "of the file\n");
    folder.write("revsync.toml", "[sink]\nusername = \"ann\"\npassword_file = \"password\"\n");
    folder.write("s.ion", revision("T", "a", 0, Some("{}")));
    assert_eq!(sync(&folder, &server, &[]).await.exit, 0);
    assert_eq!(server.bulks()[0].header("authorization"), Some(basic("ann:of the file")[0].as_str()));
}

async fn the_password_of_a_secret_is_sent() {
    let aws = Scripted::start().await;
    aws.fix("POST", "/", 200, r#"{"SecretString":"{\"username\":\"ann\",\"password\":\"of the secret\"}"}"#, &[]);
    let url = aws.url();
    let environment = [&KEYS[..], &[("AWS_ENDPOINT_URL_SECRETS_MANAGER", url.as_str())]].concat();
    let config = "[sink]\npassword_secret = \"search\"\n";
    let run = run_on(Scripted::start().await, config, &revision("T", "a", 0, Some("{}")), &environment).await;
    assert_eq!(run.header("authorization"), basic("ann:of the secret"), "{:?}", run.done);
    assert_eq!(serde_json::from_slice::<Value>(&aws.requests()[0].body).unwrap()["SecretId"], "search");
}

async fn the_authority_of_a_file_is_trusted() {
    let authority = Authority::new();
    for trusted in [true, false] {
        let server = authority.server("127.0.0.1", false).await;
        let config = if trusted { format!("[sink]\nca_file = \"{}\"\n", authority.ca_file().display()) } else { String::new() };
        let run = run_on(server, &config, &revision("T", "a", 0, Some("{}")), &[]).await;
        assert_eq!((run.done.exit == 0, run.server.bulks().len()), (trusted, usize::from(trusted)), "{:?}", run.done);
    }
}

async fn the_client_certificate_is_shown() {
    let authority = Authority::new();
    let (_, _, pem) = authority.certificate("client");
    let certificate = authority.file("client.pem", &pem);
    for shown in [true, false] {
        let server = authority.server("127.0.0.1", true).await;
        let mut config = format!("[sink]\nca_file = \"{}\"\n", authority.ca_file().display());
        if shown {
            config.push_str(&format!("client_certificate_file = \"{}\"\n", certificate.display()));
        }
        let run = run_on(server, &config, &revision("T", "a", 0, Some("{}")), &[]).await;
        assert_eq!((run.done.exit == 0, run.server.bulks().len()), (shown, usize::from(shown)), "{:?}", run.done);
    }
}

async fn aws_is_a_section_of_its_own() {
    let run = run("[sink.aws]\nregoin = \"eu-west-1\"\n").await;
    assert!(run.done.exit == 2 && run.done.err.contains("region"), "{:?}", run.done);
    assert_eq!(run.server.requests().len(), 0, "nothing is sent with a mistake in the file");
}

async fn the_region_is_signed_for() {
    let config = "[sink]\nauth = \"aws\"\n[sink.aws]\nregion = \"ap-southeast-2\"\n";
    let run = run_on(Scripted::start().await, config, &revision("T", "a", 0, Some("{}")), &KEYS).await;
    assert!(run.header("authorization")[0].contains("/ap-southeast-2/es/"), "{:?}", run.header("authorization"));
}

async fn the_role_is_assumed() {
    let sts = Scripted::start().await;
    let credentials = "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult><Credentials>\
                       <AccessKeyId>AKIAROLE</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>\
                       <Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>";
    sts.fix("POST", "/", 200, credentials, &[]);
    let config = "[sink]\nauth = \"aws\"\n[sink.aws]\nassume_role_arn = \"arn:aws:iam::000000000000:role/writer\"\n";
    let url = sts.url();
    let environment = [&KEYS[..], &[("AWS_ENDPOINT_URL_STS", url.as_str())]].concat();
    let run = run_on(Scripted::start().await, config, &revision("T", "a", 0, Some("{}")), &environment).await;
    assert!(run.header("authorization")[0].contains("Credential=AKIAROLE/"), "{:?}", run.done);
    assert!(String::from_utf8_lossy(&sts.requests()[0].body).contains("role%2Fwriter"));
}

// What is created

async fn no_index_is_created_where_that_is_off() {
    let run = run("[sink]\ncreate_index = false\n[delivery]\ngive_up_after = \"300ms\"\n").await;
    assert_eq!((run.done.exit, run.done.count("pending")), (2, 2), "{:?}", run.done);
    assert!(run.server.requests().iter().all(|request| request.method == "GET"), "{:?}", run.server.requests());
}

async fn a_created_index_remembers_deletes_for_as_long_as_is_said() {
    let run = run("[sink]\ngc_deletes = \"36h\"\n").await;
    assert_eq!(run.creation()["settings"]["index.gc_deletes"], "36h");
}

async fn an_index_is_created_with_the_mapping_of_its_rule() {
    let folder = Arc::new(Folder::new());
    let server = Scripted::start().await;
    folder.write("mapping.json", r#"{"properties":{"s":{"type":"keyword"}}}"#);
    folder.write("revsync.toml", "[[table]]\nname = \"T\"\nmapping = \"mapping.json\"\n");
    folder.write("s.ion", revision("T", "a", 0, Some("{}")));
    let done = sync(&folder, &server, &[]).await;
    let run = Run { done, server, folder };
    assert_eq!(run.creation()["mappings"]["properties"], json!({"s": {"type": "keyword"}}), "{:?}", run.done);
}

// The journal

/// A block summary of a stream, with a statement.
const BLOCK: &str = "{recordType:\"BLOCK_SUMMARY\",payload:{blockAddress:{strandId:\"s\",sequenceNo:7},blockHash:{{AAE=}},\
                     transactionInfo:{statements:[{statement:\"SELECT 1\"}]}}}\n";

async fn blocks_are_written_to_the_index_of_the_journal() {
    let run = run_on(Scripted::start().await, "[journal]\nindex = \"blocks\"\n", BLOCK, &[]).await;
    let action = json!({"index": {"_index": "blocks", "_id": "s@7", "require_alias": true, "version": 7, "version_type": "external"}});
    let block = json!({"strandId": "s", "sequenceNo": 7, "blockHash": "AAE=", "statements": [{}]});
    assert_eq!(run.lines(), [action, block], "{:?}", run.done);
    let mapping = &run.creation()["mappings"];
    assert_eq!(mapping["dynamic"], json!(false));
    for (path, kind) in [
        ("/sequenceNo", "long"),
        ("/blockTimestamp", "date"),
        ("/blockHash", "keyword"),
        ("/statements/properties/statement", "text"),
        ("/documents/properties/documentId", "keyword"),
        ("/tables", "keyword"),
        ("/redactions/properties/version", "long"),
    ] {
        assert_eq!(mapping["properties"].pointer(path).unwrap()["type"], json!(kind), "{path}");
    }
    let without = run_on(Scripted::start().await, "", BLOCK, &[]).await;
    assert_eq!((without.lines(), &without.done.json()["skipped"]["block_summary"]), (vec![], &json!(1)), "{:?}", without.done);
}

async fn the_text_of_statements_is_sent_where_that_is_said() {
    let run = run_on(Scripted::start().await, "[journal]\nindex = \"blocks\"\nstatements = true\n", BLOCK, &[]).await;
    assert_eq!(run.lines()[1]["statements"], json!([{"statement": "SELECT 1"}]), "{:?}", run.done);
}

// How operations are sent

fn many(count: usize, padding: usize) -> String {
    let data = format!("{{x:\"{}\"}}", "x".repeat(padding));
    (0..count).map(|id| revision("T", &id.to_string(), 0, Some(&data))).collect()
}

async fn no_request_has_more_bytes() {
    let run = run_on(Scripted::start().await, "[delivery]\nrequest_bytes = \"10KiB\"\n", &many(50, 1_000), &[]).await;
    let sizes: Vec<usize> = run.server.bulks().iter().map(|request| request.body.len()).collect();
    assert!(sizes.len() >= 5 && sizes.iter().all(|size| *size <= 10 * 1024), "{sizes:?}");
}

async fn no_request_has_more_operations() {
    let run = run_on(Scripted::start().await, "[delivery]\nrequest_operations = 3\n", &many(20, 1), &[]).await;
    let mut counts: Vec<usize> = run.server.bulks().iter().map(|request| request.operations().len()).collect();
    counts.sort_unstable();
    assert_eq!(counts, [2, 3, 3, 3, 3, 3, 3]);
}

/// The command as it runs, ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn no_more_requests_are_under_way() {
    for most in [1, 3] {
        let server = Scripted::start().await;
        server.add_index("t-000001", Some("t"));
        server.script((0..20).map(|_| Step::without_writing(Fate::Hang)));
        let folder = Folder::new();
        folder.write("revsync.toml", format!("[delivery]\nrequests_in_flight = {most}\nrequest_operations = 1\n"));
        folder.write("s.ion", many(20, 1));
        let mut command = folder.command(&["--config", "revsync.toml", "sync", "s.ion", "--to", &server.url()], &[]);
        let _running = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        server.arrived(most).await;
        // Another one would come as fast as these did.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(server.bulks().len(), most);
    }
}

async fn operations_wait_for_company_for_as_long_as_is_said() {
    for (linger, at_once) in [("0s", true), ("1h", false)] {
        let server = Scripted::start().await;
        server.add_index("t-000001", Some("t"));
        let folder = Folder::new();
        folder.write("revsync.toml", format!("[delivery]\nlinger = \"{linger}\"\nrequest_bytes = \"9MiB\"\nrequest_operations = 100000\n"));
        let mut command = folder.command(&["--json", "--config", "revsync.toml", "sync", "-", "--to", &server.url()], &[]);
        let mut running = Running(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let mut input = running.0.stdin.take().unwrap();
        // More than the source keeps back before it hands anything on, and less than a request takes.
        let records = many(1_500, 2_000);
        let writing = tokio::task::spawn_blocking(move || {
            input.write_all(records.as_bytes()).unwrap();
            input
        });
        let input = writing.await.unwrap();
        if at_once {
            server.arrived(1).await;
        }
        drop(input);
        let ended = tokio::task::spawn_blocking(move || running.0.wait().unwrap().code());
        assert_eq!(ended.await.unwrap(), Some(0));
        assert_eq!((server.documents("t").len(), server.bulks().len() == 1), (1_500, !at_once), "{linger}");
    }
}

async fn no_second_has_more_operations() {
    let server = Scripted::start().await;
    server.add_index("t-000001", Some("t"));
    let started = Instant::now();
    let run = run_on(server, "[delivery]\nmax_rate = 10\n", &many(30, 1), &[]).await;
    let counts: Vec<usize> = run.server.bulks().iter().map(|request| request.operations().len()).collect();
    assert_eq!(counts, [10, 10, 10]);
    // The first go at once, the others each a second later.
    assert!(started.elapsed() >= Duration::from_secs(2));
}

async fn bodies_are_compressed_or_not() {
    for (gzip, encoding) in [("true", "gzip"), ("false", "")] {
        let run = run(&format!("[delivery]\ngzip = {gzip}\n")).await;
        assert_eq!(run.header("content-encoding"), [encoding]);
    }
}

async fn a_run_gives_up_when_it_is_said_to() {
    let server = Scripted::start().await;
    server.add_index("t-000001", Some("t"));
    server.script((0..1_000).map(|_| Step::status(503, "down")));
    let run = run_on(server, "[delivery]\ngive_up_after = \"700ms\"\n", &revision("T", "a", 0, Some("{}")), &[]).await;
    assert_eq!((run.done.exit, run.done.count("pending")), (2, 1));
    assert!(run.done.err.contains("nothing was settled for 0.7s"), "{}", run.done.err);
}

async fn a_request_is_given_up_when_it_is_said_to() {
    let server = Scripted::start().await;
    server.add_index("t-000001", Some("t"));
    server.script([Step::without_writing(Fate::Hang)]);
    let run = run_on(server, "[delivery]\nrequest_timeout = \"700ms\"\n", &revision("T", "a", 0, Some("{}")), &[]).await;
    assert_eq!((run.done.exit, run.server.bulks().len()), (0, 2));
    assert!(run.done.err.contains("within 0.7 s"), "{}", run.done.err);
}

async fn what_is_under_way_gets_the_grace_time_when_the_work_ends() {
    let server = Scripted::start().await;
    server.add_index("t-000001", Some("t"));
    server.script([Step::without_writing(Fate::Hang)]);
    let (url, folder) = (server.url(), Folder::new());
    folder.write("revsync.toml", "name = \"t\"\n[delivery]\ngrace = \"700ms\"\nlinger = \"1ms\"\n");
    let record = json!({
        "action": "record", "data": BASE64.encode(revision("T", "a", 0, Some("{}"))), "partitionKey": "k", "sequenceNumber": "1",
        "subSequenceNumber": 0, "approximateArrivalTimestamp": null,
    });
    let said = [
        json!({"action": "initialize", "shardId": "shardId-0", "sequenceNumber": "TRIM_HORIZON", "subSequenceNumber": 0}),
        json!({"action": "processRecords", "records": [record], "millisBehindLatest": 1}),
    ];
    let said = said.map(|line| format!("{line}\n")).concat();
    let arguments = ["--config", "revsync.toml", "kcl", "--to", &url, "--dead-letters", "file:letters.jsonl"];
    let mut command = folder.command(&arguments, &[]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut daemon = child.stdin.take().unwrap();
    daemon.write_all(said.as_bytes()).unwrap();
    server.arrived(1).await;
    drop(daemon);
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap();
    let log = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success() && log.contains("did not end in 700ms"), "{log}");
}

/// Runs over so many documents, of which the server refuses every so manieth once; gives the number of dead letters.
async fn letters_of(config: &str, documents: usize, one_in: usize) -> u64 {
    let server = Scripted::start().await;
    server.add_index("t-000001", Some("t"));
    let item = |at: usize| match at % one_in {
        0 => json!({"index": {"status": 400, "error": {"type": "mapper_parsing_exception", "reason": "failed to parse"}}}),
        _ => json!({"index": {"status": 201}}),
    };
    let items: Vec<Value> = (0..documents).map(item).collect();
    server.script([Step::without_writing(Fate::Say(json!({"errors": true, "items": items}).to_string()))]);
    let run = run_on(server, config, &many(documents, 1), &[]).await;
    assert_eq!(run.done.count("pending"), 0, "{:?}", run.done);
    run.done.count("dead_letters")
}

async fn an_index_that_refuses_so_many_in_a_row_is_blocked() {
    for (in_a_row, letters) in [(3, 3), (0, 20)] {
        assert_eq!(letters_of(&format!("[delivery]\nbreaker_in_a_row = {in_a_row}\n"), 20, 1).await, letters, "{in_a_row}");
    }
}

async fn an_index_that_refuses_so_great_a_share_is_blocked() {
    // Of the last 10,000 answers, whether or not there were so many.
    for (percent, letters) in [(1, 100), (0, 150)] {
        assert_eq!(letters_of(&format!("[delivery]\nbreaker_percent = {percent}\n"), 300, 2).await, letters, "{percent}");
    }
}

// What becomes of a table

async fn a_rule_is_for_the_tables_that_it_names() {
    let records = [revision("T", "a", 0, Some("{}")), revision("U", "b", 0, Some("{}"))].concat();
    let run = run_on(Scripted::start().await, "[[table]]\nname = \"U*\"\n", &records, &[]).await;
    assert_eq!((run.lines()[0]["index"]["_index"].as_str(), run.lines().len()), (Some("u"), 2));
    assert_eq!(run.done.json()["skipped"]["unmapped"], 1);
}

async fn the_index_of_a_rule_is_written_to() {
    let run = run("[[table]]\nname = \"T\"\nindex = \"elsewhere\"\n").await;
    assert_eq!((&run.lines()[0]["index"]["_index"], &run.lines()[2]["delete"]["_index"]), (&json!("elsewhere"), &json!("elsewhere")));
}

/// A row of Lindorm in the legacy format.
const ROW: &str =
    r#"{"op":"Put","table":"T","ts":5,"data":[{"name":"shop","value":"north"},{"name":"sku","value":"a"},{"name":"stock","value":"7"}]}"#;

async fn rows(rule: &str) -> Run {
    run_on(Scripted::start().await, &format!("[[table]]\nname = \"T\"\n{rule}\n"), ROW, &[]).await
}

async fn the_key_columns_of_a_rule_name_the_document() {
    for (key, id) in [(r#"["sku"]"#, "a"), (r#"["sku", "shop"]"#, "a,north")] {
        assert_eq!(rows(&format!("key = {key}")).await.lines()[0]["index"]["_id"], json!(id));
    }
}

async fn a_row_is_replaced_or_put_together_from_its_cells_as_a_rule_says() {
    for (rows_are, action) in [("full", "index"), ("cells", "update")] {
        let run = rows(&format!("key = [\"sku\"]\nrows = \"{rows_are}\"")).await;
        assert_eq!(run.lines()[0][action]["_id"], json!("a"), "{rows_are}: {:?}", run.lines());
    }
}

async fn columns_are_what_a_rule_says() {
    let run = rows("key = [\"sku\"]\ntypes = { stock = \"long\" }").await;
    assert_eq!(run.lines()[1], json!({"shop": "north", "sku": "a", "stock": 7}));
}

async fn only_the_fields_of_a_rule_are_sent() {
    let run = run("[[table]]\nname = \"T\"\nfields = [\"s\", \"o.p\"]\n").await;
    assert_eq!(run.lines()[1], json!({"s": "x", "o": {"p": 1}}));
}

async fn the_fields_that_a_rule_leaves_out_are_not_sent() {
    let run = run("[[table]]\nname = \"T\"\nexclude = [\"n\", \"o.p\"]\n").await;
    assert_eq!(run.lines()[1], json!({"s": "x", "o": {"q": 2}}));
}

async fn the_routing_of_a_rule_is_sent() {
    let run = run("[[table]]\nname = \"T\"\nrouting = \"r-{table}-{id}\"\n").await;
    assert_eq!((&run.lines()[0]["index"]["routing"], &run.lines()[2]["delete"]["routing"]), (&json!("r-T-a"), &json!("r-T-b")));
}

async fn deletes_are_what_a_rule_says() {
    for (deletes, expected) in [("keep", Value::Null), ("delete", json!("delete")), ("tombstone", json!("index"))] {
        let run = run(&format!("[[table]]\nname = \"T\"\ndeletes = \"{deletes}\"\n")).await;
        let action = run.lines().get(2).map_or(Value::Null, |line| json!(line.as_object().unwrap().keys().next()));
        assert_eq!(action, expected, "{deletes}: {:?}", run.lines());
    }
}

async fn the_newest_revision_or_every_one_is_sent_as_a_rule_says() {
    let run = run("[[table]]\nname = \"T\"\nmode = \"history\"\n").await;
    let (lines, created) = (run.lines(), run.creation());
    let action = |at: usize| (&lines[at]["index"]["_id"], &lines[at]["index"]["version"], &lines[at + 1]["revsync"]["op"]);
    assert_eq!(action(0), (&json!("a@0"), &json!(0), &json!("index")), "{lines:?}");
    assert_eq!(action(2), (&json!("b@4"), &json!(4), &json!("delete")), "{lines:?}");
    assert_eq!((&lines[1]["n"], &lines[1]["revsync"]["tableId"]), (&json!(1.50), &json!("t")));
    assert_eq!(created["mappings"]["properties"]["revsync"]["properties"]["op"]["type"], "keyword");
    assert_eq!(created["aliases"], json!({"t_history": {"is_write_index": true}}));
}

async fn a_redaction_deletes_what_it_covers_where_a_rule_says_so() {
    let redacted = qldb_stream::revision("T", "a", 7, &Does::Redact);
    for (redactions, expected) in [("skip", None), ("erase", Some((json!("a"), json!(7), json!("external_gte"))))] {
        let config = format!("[[table]]\nname = \"T\"\nredactions = \"{redactions}\"\n");
        let run = run_on(Scripted::start().await, &config, &redacted, &[]).await;
        let deleted = run.lines().first().map(|line| line["delete"].clone());
        let found = deleted.map(|delete| (delete["_id"].clone(), delete["version"].clone(), delete["version_type"].clone()));
        assert_eq!(found, expected, "{redactions}: {:?}", run.lines());
    }
}

async fn what_does_not_match_a_rule_is_a_delete() {
    for (condition, action) in [("s = 'x'", "index"), ("s <> 'x'", "delete")] {
        let run = run(&format!("[[table]]\nname = \"T\"\nwhere = \"{condition}\"\n")).await;
        assert_eq!(run.lines()[0][action]["_id"], "a", "{condition}: {:?}", run.lines());
    }
}

async fn metadata_is_sent_where_a_rule_names_its_field() {
    let run = run("[[table]]\nname = \"T\"\nmetadata_field = \"_ledger\"\n").await;
    assert_eq!((&run.lines()[1]["_ledger"]["table"], &run.lines()[1]["_ledger"]["version"]), (&json!("T"), &json!(0)), "{:?}", run.lines());
}

async fn long_ids_are_hashed_where_a_rule_says_so() {
    for (long_ids, expected) in [("hash", Some(71)), ("reject", None)] {
        let config = format!("[[table]]\nname = \"T\"\nlong_ids = \"{long_ids}\"\n");
        let run = run_on(Scripted::start().await, &config, &revision("T", &"x".repeat(600), 0, Some("{}")), &[]).await;
        let sent = run.lines().first().map(|line| line["index"]["_id"].as_str().unwrap().len());
        assert_eq!(sent, expected);
        assert_eq!(run.folder.path().join("revsync-dead-letters.jsonl").exists(), expected.is_none());
    }
}

async fn decimals_are_strings_where_a_rule_says_so() {
    for (decimals, expected) in [("string", r#""n":"1.50""#), ("number", r#""n":1.50"#)] {
        let run = run(&format!("[[table]]\nname = \"T\"\ndecimals = \"{decimals}\"\n")).await;
        assert!(run.server.bulks()[0].lines()[1].contains(expected), "{:?}", run.server.bulks()[0].lines());
    }
}

async fn what_is_not_finite_is_a_string_where_a_rule_says_so() {
    for (non_finite, expected) in [("string", Some(r#"{"n":"nan"}"#)), ("null", Some(r#"{"n":null}"#)), ("dead_letter", None)] {
        let config = format!("[[table]]\nname = \"T\"\nnon_finite = \"{non_finite}\"\n");
        let run = run_on(Scripted::start().await, &config, &revision("T", "a", 0, Some("{n:nan}")), &[]).await;
        let sent = run.server.bulks().first().map(|request| request.lines()[1].clone());
        assert_eq!(sent.as_deref(), expected);
    }
}

// The same by options

#[tokio::test(flavor = "multi_thread")]
async fn options_come_to_the_same_as_their_keys() {
    let by = async |server: Scripted, records: &str, environment: &[(&str, &str)], options: &[&str]| {
        let folder = Arc::new(Folder::new());
        folder.write("revsync.toml", "[sink]\ngc_deletes = \"1h\"\n[delivery]\nrequest_bytes = \"9MiB\"\nrequest_timeout = \"1h\"\n");
        folder.write("s.ion", records);
        let done = sync_with(&folder, &server, environment, options).await;
        assert_eq!(done.exit, 0, "{options:?}: {done:?}");
        Run { done, server, folder }
    };
    let one = revision("T", "a", 0, Some("{}"));

    let run = by(Scripted::start().await, &one, &[], &["--gc-deletes", "36h"]).await;
    assert_eq!(run.creation()["settings"]["index.gc_deletes"], "36h");

    let run = by(Scripted::start().await, &many(50, 1_000), &[], &["--request-bytes", "10KiB"]).await;
    assert!(run.server.bulks().iter().all(|request| request.body.len() <= 10 * 1024));

    let slow = Scripted::start().await;
    slow.add_index("t-000001", Some("t"));
    slow.script([Step::without_writing(Fate::Hang)]);
    assert_eq!(by(slow, &one, &[], &["--request-timeout", "300ms"]).await.server.bulks().len(), 2);

    let run = by(Scripted::start().await, &one, &KEYS, &["--auth", "aws", "--aws-region", "ap-southeast-2"]).await;
    assert!(run.header("authorization")[0].contains("/ap-southeast-2/es/"));

    let authority = Authority::new();
    let (_, _, pem) = authority.certificate("client");
    let (ca, client) = (authority.ca_file(), authority.file("client.pem", &pem));
    let options = ["--ca-file", ca.to_str().unwrap(), "--client-certificate-file", client.to_str().unwrap()];
    by(authority.server("127.0.0.1", true).await, &one, &[], &options).await;
}
