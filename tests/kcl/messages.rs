//! What is said over the pipes: each message has its answer, and nothing else comes.

use serde_json::json;

use crate::command::Folder;
use crate::kcl::{Child, Handed, Lease};
use crate::qldb_stream::put;
use crate::scripted_opensearch::Scripted;
use crate::{SHARD, child, kcl_command, people, person, versions};

#[tokio::test(flavor = "multi_thread")]
async fn every_message_is_answered_and_what_was_handed_over_is_in_the_index() {
    let (server, folder, mut lease) = (Scripted::start().await, Folder::new(), Lease::default());
    let mut child = child(&folder, &server.url(), &[], &mut lease);
    child.process(&[], 0, &mut lease);
    assert_eq!(lease.asked, []);
    child.process(&people(3), 0, &mut lease);
    assert_eq!((lease.at, versions(&server).len()), (Some((3, 0)), 3));
    child.process(&[], 0, &mut lease);
    assert_eq!(lease.asked.len(), 1, "what is saved is not saved again");
    child.request("shutdownRequested", &mut lease);
    child.request("leaseLost", &mut lease);
    let over = child.close();
    assert_eq!((over.exit, over.said.concat().as_str()), (0, ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_a_line_with_an_empty_one_before_it() {
    let (server, folder) = (Scripted::start().await, Folder::new());
    // However much there is to say: it is said on standard error.
    let mut child = Child::start(kcl_command(&folder, &server.url(), &["-vvv", "--json"]));
    let mut exchange = |message: &serde_json::Value, answers: &[&str]| {
        child.send(message);
        for answer in answers {
            assert_eq!([child.line(), child.line()], ["", answer]);
        }
    };
    let initialize = json!({ "action": "initialize", "shardId": SHARD, "sequenceNumber": "TRIM_HORIZON", "subSequenceNumber": 0 });
    exchange(&initialize, &[r#"{"action":"status","responseFor":"initialize"}"#]);
    let record = json!({ "action": "record", "data": "", "sequenceNumber": "49", "subSequenceNumber": 0 });
    let page = json!({ "action": "processRecords", "records": [record], "millisBehindLatest": 0 });
    exchange(&page, &[r#"{"action":"checkpoint","sequenceNumber":"49","subSequenceNumber":null}"#]);
    let taken = json!({ "action": "checkpoint", "sequenceNumber": "49", "subSequenceNumber": null, "error": null });
    exchange(&taken, &[r#"{"action":"status","responseFor":"processRecords"}"#]);
    let over = child.close();
    assert_eq!((over.exit, over.said), (0, Vec::<String>::new()));
    assert!(over.err.contains("begins after TRIM_HORIZON"), "{}", over.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shutdown_of_older_daemons_is_taken_by_its_reason() {
    let server = Scripted::start().await;
    for (reason, ends, saved) in [
        ("TERMINATE", true, true),
        ("SHARD_END", true, true),
        ("ZOMBIE", false, false),
        ("LEASE_LOST", false, false),
        ("REQUESTED", false, true),
        ("SOMETHING", false, false),
    ] {
        let (folder, mut lease) = (Folder::new(), Lease::default());
        let mut child = child(&folder, &server.url(), &[], &mut lease);
        // Far behind: nothing of it is waited for.
        child.process(&people(2), 60_000, &mut lease);
        lease.asked.clear();
        child.ask(&json!({ "action": "shutdown", "reason": reason }), &mut lease);
        let at_the_end = lease.asked.contains(&(None, None));
        assert_eq!((at_the_end, lease.at == Some((2, 0))), (ends, saved), "{reason}: {lease:?}");
        assert_eq!(child.close().exit, 0, "{reason}");
    }
}

#[test]
fn what_no_daemon_says_ends_the_child_with_a_clear_word_and_nothing_of_what_it_holds() {
    let folder = Folder::new();
    let initialize = json!({ "action": "initialize", "shardId": SHARD, "sequenceNumber": "TRIM_HORIZON", "subSequenceNumber": 0 });
    let checkpoint = json!({ "action": "checkpoint", "sequenceNumber": null, "subSequenceNumber": null, "error": null });
    for (lines, says) in [
        (vec!["hunter2".to_owned()], "expected an object with its action of the MultiLangDaemon, found a line of 7 bytes that is none"),
        (vec!["{hunter2}".to_owned()], "found a line of 9 bytes that is no JSON"),
        (vec![json!({ "action": "shardSplit" }).to_string()], "found \"shardSplit\""),
        (vec![json!({ "action": "processRecords", "records": [] }).to_string()], "expected initialize, found another message before it"),
        (vec![json!({ "action": "shardEnded" }).to_string()], "expected initialize, found another message before it"),
        (vec![initialize.to_string(), initialize.to_string()], "expected one shard, found"),
        (vec![checkpoint.to_string()], "found an answer to a checkpoint that was not asked for"),
    ] {
        let mut child = Child::start(kcl_command(&folder, "local:x.db", &[]));
        lines.iter().for_each(|line| child.write(line));
        let over = child.over();
        assert!(over.exit == 2 && over.err.contains("error: standard input: ") && over.err.contains(says), "{lines:?}: {over:?}");
        assert!(!over.err.contains("hunter2"), "{over:?}");
    }
}

#[test]
fn a_line_that_no_page_of_records_is_as_long_as_ends_the_child() {
    let folder = Folder::new();
    let mut child = Child::start(kcl_command(&folder, "local:x.db", &[]));
    child.write(&"x".repeat((256 << 20) + 1));
    let over = child.over();
    assert!(over.exit == 2 && over.err.contains("expected lines of at most 256 MiB") && over.err.contains("maxRecords"), "{over:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn poison_becomes_a_dead_letter_under_its_position_and_what_is_beside_it_goes_on() {
    let (server, folder, mut lease) = (Scripted::start().await, Folder::new(), Lease::default());
    let mut child = child(&folder, &server.url(), &[], &mut lease);
    let record = |number, sub, data| Handed { number, sub, data };
    let records = [
        record(1, 0, person("1", 0, &put("x"))),
        record(2, 0, "garbage".into()),
        record(3, 0, person("3", 0, &put("x"))),
        record(3, 1, "garbage".into()),
    ];
    child.process(&records, 0, &mut lease);
    assert_eq!((lease.at, versions(&server).len()), (Some((3, 1)), 2));
    assert_eq!(child.close().exit, 0);
    let listed = folder.revsync(&["--json", "dead-letters", "list", "--dead-letters", "file:letters.jsonl"]).json();
    let letters: Vec<_> =
        listed["dead_letters"].as_array().unwrap().iter().map(|letter| (&letter["origin"], &letter["position"])).collect();
    let origin = json!({ "stream": "ledger", "shard": SHARD });
    // A record that was no aggregate has the position that every other source gives it.
    let position = |number: &str, sub: Option<u64>| json!({ "sequence": { "number": number, "sub": sub } });
    assert_eq!(letters, [(&origin, &position("2", None)), (&origin, &position("3", Some(1)))]);
}

#[test]
fn a_stream_that_the_configuration_names_is_the_stream_of_every_position() {
    let (folder, mut lease) = (Folder::new(), Lease::default());
    let stream = "arn:aws:kinesis:eu-west-1:000000000000:stream/ledger";
    folder.write(
        "revsync.toml",
        format!("[source]\nurl = \"kinesis://{stream}\"\n[sink]\nurl = \"local:x.db\"\n[dead_letters]\nurl = \"file:letters.jsonl\"\n"),
    );
    let mut child = Child::start(folder.command(&["--config", "revsync.toml", "kcl"], &[]));
    child.initialize(SHARD, &mut lease);
    child.process(&[Handed { number: 1, sub: 0, data: "garbage".into() }], 0, &mut lease);
    assert_eq!((lease.at, child.close().exit), (Some((1, 0)), 0));
    let letters = String::from_utf8(folder.read("letters.jsonl")).unwrap();
    assert!(letters.contains(&format!("\"stream\":\"{stream}\"")), "{letters}");
}
