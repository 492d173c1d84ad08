//! The command end to end, into real OpenSearch servers of both versions.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::command::{Done, Folder, fixture, revision};
use crate::live::{get, name, put_to, stored};
use crate::scripted_opensearch::{Scripted, Step};
use crate::services::{self, Server};

/// Rules that put every table into indices of this test alone.
fn rules(folder: &Folder, prefix: &str) {
    folder.write("rules.toml", format!("[[table]]\nname = \"*\"\nindex = \"{prefix}-{{table}}\"\n"));
}

fn sync(folder: &Folder, server: &Server, source: &str, more: &[&str]) -> Done {
    let arguments = [&["--json", "--config", "rules.toml", "sync", source, "--to", &server.url], more].concat();
    folder.revsync(&arguments).balanced()
}

#[tokio::test]
async fn the_documentations_example_is_one_document_through_every_form_of_input() {
    for server in services::opensearch() {
        for form in ["10n", "ion", "jsonl.gz", "lambda-event.json", "get-records.json", "kpl"] {
            let (folder, prefix) = (Folder::new(), name("documentation"));
            rules(&folder, &prefix);
            let done = sync(&folder, server, &fixture(&format!("qldb/documentation.{form}")), &[]);
            assert_eq!((done.exit, done.count("indexed")), (0, 1), "{form}: {done:?}");
            let index = format!("{prefix}-vehicle_registration");
            let (version, source) = stored(server, &index, "QFPyEPhFTCo58PlnvQ6VkS").await.unwrap();
            assert_eq!(
                (version, &source["PendingPenaltyTicketAmount"], &source["ValidFromDate"]),
                (0, &json!(90.25), &json!("2017-08-21"))
            );
        }
    }
}

#[tokio::test]
async fn running_the_same_sync_twice_changes_nothing() {
    let expected: Value = serde_json::from_slice(&std::fs::read(fixture("vehicle-registration/expected.json")).unwrap()).unwrap();
    for server in services::opensearch() {
        let (folder, prefix) = (Folder::new(), name("twice"));
        rules(&folder, &prefix);
        for more in [&["--request-operations", "3"][..], &["--no-gzip"], &[]] {
            let done = sync(&folder, server, &fixture("vehicle-registration/stream.10n"), more);
            assert_eq!(done.exit, 0, "{done:?}");
            if more.first() != Some(&"--request-operations") {
                assert_eq!((done.count("indexed"), done.count("deleted"), done.count("absent")), (0, 0, 0), "{done:?}");
            }
            for table in ["person", "vehicle_registration"] {
                for (id, document) in expected[table].as_object().unwrap() {
                    let (version, source) = stored(server, &format!("{prefix}-{table}"), id).await.unwrap();
                    assert_eq!((Some(version), &source), (document["version"].as_u64(), &document["source"]), "{table}/{id}");
                }
            }
            for id in expected["deleted"].as_object().unwrap().keys() {
                for table in ["person", "vehicle_registration"] {
                    assert_eq!(stored(server, &format!("{prefix}-{table}"), id).await, None);
                }
            }
        }
    }
}

#[tokio::test]
async fn one_bad_document_in_5000_is_one_dead_letter_that_is_replayed_once_the_mapping_is_fixed() {
    for server in services::opensearch() {
        let (folder, prefix) = (Folder::new(), name("poison"));
        rules(&folder, &prefix);
        let index = format!("{prefix}-t");
        put_to(server, &index, json!({"mappings": {"properties": {"Amount": {"type": "integer"}}}})).await;
        let records: String = (0..5_000)
            .map(|n| {
                let data = if n == 2_500 { "{Amount:\"a secret\"}".to_owned() } else { format!("{{Amount:{n}}}") };
                revision("T", &format!("d{n}"), 0, Some(&data))
            })
            .collect();
        folder.write("s.ion", records);

        let done = sync(&folder, server, "s.ion", &[]);
        assert_eq!((done.exit, done.count("indexed"), done.count("dead_letters")), (1, 4_999, 1), "{done:?}");
        let listed = folder.revsync(&["--json", "dead-letters", "list"]).json();
        let id = listed["dead_letters"][0]["id"].as_str().unwrap();
        let shown = folder.revsync(&["dead-letters", "show", id]);
        assert!(shown.out.contains("mapper_parsing_exception") && shown.out.contains("d2500"), "{shown:?}");
        for said in [&done.err, &shown.out, &listed.to_string()] {
            assert!(!said.contains("a secret"), "a field value was told: {said}");
        }

        let replay = ["--json", "--config", "rules.toml", "dead-letters", "replay", "--all", "--to", &server.url];
        let again = folder.revsync(&replay).balanced();
        assert_eq!((again.exit, again.count("dead_letters")), (1, 1), "nothing was fixed yet: {again:?}");

        put_to(server, &format!("{index}/_mapping"), json!({"properties": {"Amount": {"type": "integer", "ignore_malformed": true}}}))
            .await;
        let replayed = folder.revsync(&replay).balanced();
        assert_eq!((replayed.exit, replayed.count("indexed")), (0, 1), "{replayed:?}");
        assert_eq!(stored(server, &index, "d2500").await, Some((0, json!({"Amount": "a secret"}))));
        assert_eq!(folder.revsync(&["--json", "dead-letters", "list"]).json()["dead_letters"], json!([]));
    }
}

#[tokio::test]
async fn search_setup_and_check_reach_a_server() {
    for server in services::opensearch() {
        let (folder, prefix) = (Folder::new(), name("commands"));
        rules(&folder, &prefix);
        let people = format!("{prefix}-person");
        let setup = folder.revsync(&["setup", &people, "--to", &server.url]);
        assert_eq!(setup.exit, 0, "{setup:?}");
        let check = folder.revsync(&["--config", "rules.toml", "check", &fixture("vehicle-registration"), "--to", &server.url]);
        assert_eq!(check.exit, 0, "{check:?}");
        assert_eq!(sync(&folder, server, &fixture("vehicle-registration/stream.10n"), &[]).exit, 0);
        let hits = folder.revsync(&["--json", "search", "Quillfeather", "--index", &people, "--to", &server.url]);
        let hit = &hits.json()["hits"][0];
        assert_eq!((hits.exit, &hit["id"], &hit["version"]), (0, &json!("VEgJSFUq2Mnj7VEIXJdI2Q"), &json!(0)), "{hits:?}");
    }
}

#[tokio::test]
async fn a_search_shows_a_row_of_cells_as_it_is_and_finds_nothing_by_what_is_kept_beside_it() {
    for server in services::opensearch() {
        let (folder, index) = (Folder::new(), name("cells"));
        folder.write("rules.toml", format!("[[table]]\nname = \"shop.item\"\nindex = \"{index}\"\nkey = [\"sku\"]\nrows = \"cells\"\n"));
        folder.write(
            "changes.jsonl",
            r#"{"op":"Put","table":"shop.item","ts":7,"data":[{"name":"sku","value":"MX"},{"name":"f:price","value":442.30}]}"#,
        );
        assert_eq!(sync(&folder, server, "changes.jsonl", &[]).exit, 0);
        let search = |text: &str| folder.revsync(&["--json", "search", text, "--index", &index, "--to", &server.url]);
        let hits = search("MX");
        assert!(hits.out.contains(r#""source":{"f:price":442.30,"sku":"MX"}"#), "{hits:?}");
        for kept in ["1", "7"] {
            assert_eq!(search(kept).json()["hits"], json!([]), "{kept}");
        }
    }
}

#[tokio::test]
async fn the_index_template_makes_what_revsync_makes() {
    let template = std::fs::read_to_string(fixture("../../infra/opensearch/index-template.json")).unwrap();
    for server in services::opensearch() {
        let (folder, ours, theirs) = (Folder::new(), name("template"), name("template"));
        folder.write("rules.toml", "[[table]]\nname = \"*\"\ndeletes = \"tombstone\"\n");
        assert_eq!(folder.revsync(&["--config", "rules.toml", "setup", &ours, "--to", &server.url]).exit, 0);
        put_to(server, &format!("_index_template/{theirs}"), serde_json::from_str(&template.replace("NAME", &theirs)).unwrap()).await;
        // As infra/README.md has it.
        let alias = json!({"is_write_index": true, "filter": {"bool": {"must_not": {"term": {"revsync.deleted": true}}}}});
        put_to(server, &format!("{theirs}-000001"), json!({"aliases": {theirs.as_str(): alias}})).await;
        let made = async |name: &str| {
            let index = get(server, &format!("{name}-000001")).await[format!("{name}-000001")].clone();
            (index["mappings"].clone(), index["settings"]["index"]["gc_deletes"].clone(), index["aliases"][name].clone())
        };
        assert_eq!(made(&theirs).await, made(&ours).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_busy_when_a_sync_starts_is_waited_for() {
    for status in [429, 503] {
        let server = Scripted::start().await;
        server.add_index("t-000001", Some("t"));
        server.fix("GET", "/", status, "busy", &[]);
        let url = server.url();
        let done = tokio::task::spawn_blocking(move || {
            let folder = Folder::new();
            folder.write("s.ion", revision("T", "a", 0, Some("{}")));
            folder.revsync(&["--json", "sync", "s.ion", "--to", &url]).balanced()
        });
        let done = done.await.unwrap();
        assert_eq!((done.exit, done.count("indexed")), (0, 1), "{status}: {done:?}");
    }
}

/// Starts the command, with its outputs kept.
fn start(folder: &Folder, arguments: &[&str], environment: &[(&str, &str)]) -> Child {
    folder.command(arguments, environment).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Sends SIGTERM, and waits for the end without keeping the scripted server from answering.
async fn terminate(running: Child) -> (Option<i32>, Value) {
    let output = tokio::task::spawn_blocking(move || {
        assert!(Command::new("kill").args(["-TERM", &running.id().to_string()]).status().unwrap().success());
        running.wait_with_output().unwrap()
    });
    let output = output.await.unwrap();
    let counts = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code(), counts)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sync_that_tries_again_and_again_ends_with_the_signal_and_says_what_is_pending() {
    let server = Scripted::start().await;
    server.add_index("t-000001", Some("t"));
    server.script((0..1_000).map(|_| Step::status(503, "down")));
    let folder = Folder::new();
    folder.write("s.ion", [revision("T", "a", 0, Some("{}")), revision("T", "b", 0, Some("{}"))].concat());
    let running = start(&folder, &["--json", "sync", "s.ion", "--to", &server.url()], &[]);
    server.arrived(3).await;
    let signalled = std::time::Instant::now();
    let (exit, counts) = terminate(running).await;
    assert!(signalled.elapsed() < Duration::from_secs(10), "within its time of grace: {:?}", signalled.elapsed());
    assert_eq!((exit, &counts["pending"], &counts["received"]), (Some(2), &json!(2), &json!(2)), "{counts}");
    assert_eq!(server.documents("t").len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_saves_how_far_it_is_in_a_file_refreshes_the_index_at_its_end_only() {
    let server = Scripted::start().await;
    server.add_index("t-000001", Some("t"));
    let folder = Folder::new();
    folder.write("s.ion", (0..30).map(|number| revision("T", &format!("d{number}"), 0, Some("{}"))).collect::<String>());
    let to = server.url();
    let arguments = ["--json", "sync", "s.ion", "--resume", "--checkpoints", "file:checkpoints.json", "--max-rate", "8", "--to", &to];
    let running = start(&folder, &arguments, &[]);
    let output = tokio::task::spawn_blocking(move || running.wait_with_output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(server.documents("t").len(), 30);
    let requests = server.requests();
    let (refreshes, bulks) = (requests.iter().filter(|request| request.path.ends_with("/_refresh")).count(), server.bulks().len());
    assert!(refreshes == 1 && bulks > 2, "{refreshes} refreshes, {bulks} bulks");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_is_asked_for_servers_elsewhere_with_their_path_and_its_own_password() {
    let proxy = Scripted::start().await;
    proxy.add_index("t-000001", Some("t"));
    proxy.fix("GET", "/some/prefix/", 200, r#"{"cluster_name":"c","version":{"distribution":"opensearch","number":"3.0.0"}}"#, &[]);
    proxy.fix("GET", "/some/prefix/t", 200, r#"{"t":{}}"#, &[]);
    // A name that nobody can look up (RFC 6761): whoever gets an answer has asked the proxy.
    let to = "http://ann:hunter2@search.invalid:9200/some/prefix";
    let variable = format!("http://proxy-user:proxy-secret@{}", proxy.address());
    for (variables, through_the_proxy) in [(vec![("http_proxy", variable.as_str())], true), (vec![], false)] {
        let folder = Folder::new();
        folder.write("s.ion", revision("T", "a", 0, Some("{}")));
        let environment = [&variables[..], &[("RUST_LOG", "trace")]].concat();
        let running = start(&folder, &["--json", "sync", "s.ion", "--to", to], &environment);
        let output = tokio::task::spawn_blocking(move || running.wait_with_output().unwrap()).await.unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(if through_the_proxy { 0 } else { 2 }), "{said}");
        for secret in ["hunter2", "proxy-secret", "YW5uOmh1bnRlcjI", "cHJveHktdXNlcj"] {
            assert!(!said.contains(secret), "{secret}: {said}");
        }
    }
    let bulks = proxy.bulks();
    assert_eq!((bulks.len(), bulks[0].path.as_str()), (1, "/some/prefix/_bulk"));
    for request in proxy.requests() {
        assert_eq!(request.authority.as_deref(), Some("search.invalid:9200"), "{request:?}");
        assert_eq!(request.header("authorization"), Some("Basic YW5uOmh1bnRlcjI="), "for the server");
        assert_eq!(request.header("proxy-authorization"), Some("Basic cHJveHktdXNlcjpwcm94eS1zZWNyZXQ="), "for the proxy");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_is_wrong_is_said_before_anything_is_read() {
    let server = Scripted::start().await;
    server.require_header("authorization", "Basic something-else");
    let folder = Folder::new();
    folder.write("s.ion", revision("T", "a", 0, Some("{}")));
    let url = server.url();
    let running = start(&folder, &["sync", "s.ion", "--to", &url, "--username", "ann"], &[("REVSYNC_PASSWORD", "hunter2")]);
    let output = tokio::task::spawn_blocking(move || running.wait_with_output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len(), server.requests().len()), (Some(2), 0, 1), "{said}");
    assert!(said.contains("refuses the credentials of user \"ann\" (status 401)"), "{said}");
}
