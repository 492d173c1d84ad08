//! The index of the journal on real servers, and what is never told of a statement.

use std::sync::Arc;

use opensearch::http::Method;
use serde_json::{Value, json};

use crate::command::{Folder, fixture};
use crate::live::{ask, get, name, stored};
use crate::scripted_opensearch::{Fate, Scripted, Step};
use crate::services;

const STRAND: &str = "1arMVLUsINkMmKodmsjQ20";

/// The two data objects of an export of the fixtures.
fn objects(output: &str, ending: &str) -> [String; 2] {
    ["0-6", "7-11"].map(|range| fixture(&format!("qldb-export/{output}/journal.v1/shop/2024/04/02/09/{STRAND}.{range}.{ending}")))
}

#[tokio::test]
async fn a_block_is_found_by_a_word_of_its_statement_and_by_what_it_touched() {
    for server in services::opensearch() {
        let (folder, journal, prefix) = (Folder::new(), name("journal"), name("tables"));
        folder.write(
            "rules.toml",
            format!("[journal]\nindex = \"{journal}\"\nstatements = true\n[[table]]\nname = \"*\"\nindex = \"{prefix}-{{table}}\"\n"),
        );
        let setup = folder.revsync(&["--config", "rules.toml", "setup", "--to", &server.url]);
        assert!(setup.exit == 0 && setup.out.contains(&format!("created index {journal}-000001")), "{setup:?}");
        let mut received = 0;
        for object in objects("ion-binary", "ion") {
            let done = folder.revsync(&["--config", "rules.toml", "--json", "sync", &object, "--to", &server.url]).balanced();
            assert_eq!((done.exit, done.count("dead_letters")), (0, 0), "{done:?}");
            received += done.count("received");
        }
        assert_eq!(received, 12 + 11 + 4);
        let of_stream = folder
            .revsync(&["--config", "rules.toml", "--json", "sync", &fixture("qldb-export/stream.10n"), "--to", &server.url])
            .balanced();
        assert_eq!((of_stream.exit, of_stream.count("indexed")), (0, 0), "the stream says nothing new: {of_stream:?}");

        let found = folder.revsync(&["--json", "search", "SecondaryOwners", "--index", &journal, "--to", &server.url]).json();
        let hits: Vec<&Value> = found["hits"].as_array().unwrap().iter().map(|hit| &hit["id"]).collect();
        assert_eq!(hits, [&json!(format!("{STRAND}@4"))], "{found}");

        let count = async |query: Value| {
            ask(server, Method::Post, &format!("{journal}/_count"), json!({ "query": query })).await.1["count"].clone()
        };
        assert_eq!(count(json!({"match_all": {}})).await, 12);
        assert_eq!(count(json!({"term": {"tables": "VehicleRegistration"}})).await, 3);
        assert_eq!(count(json!({"term": {"documents.documentId": "iDYXltV2pjWJEZOi82uvFc"}})).await, 3);
        assert_eq!(count(json!({"range": {"blockTimestamp": {"gte": "2024-04-02T09:08:00Z"}}})).await, 4);
        assert_eq!(count(json!({"range": {"sequenceNo": {"lt": 3}}})).await, 3);
        assert_eq!(count(json!({"term": {"redactions.version": 1}})).await, 1);
        let mapping = get(server, &format!("{journal}/_mapping")).await;
        assert_eq!(mapping[format!("{journal}-000001")]["mappings"]["properties"]["statements"]["properties"]["statement"]["type"], "text");
    }
}

#[tokio::test]
async fn an_export_in_json_gives_the_documents_that_one_in_ion_gives() {
    for server in services::opensearch() {
        let indices = [name("journal"), name("journal")];
        for (journal, (output, ending)) in indices.iter().zip([("ion-text", "ion"), ("json", "json")]) {
            let folder = Folder::new();
            let prefix = format!("{journal}-table");
            folder.write("rules.toml", format!("[[table]]\nname = \"*\"\nindex = \"{prefix}-{{table}}\"\n"));
            for object in objects(output, ending) {
                let done = folder.revsync(&["--config", "rules.toml", "sync", &object, "--journal", journal, "--to", &server.url]);
                assert_eq!(done.exit, 0, "{done:?}");
            }
        }
        for sequence in 0..12 {
            let id = format!("{STRAND}@{sequence}");
            let block = stored(server, &indices[0], &id).await;
            assert!(block.as_ref().is_some_and(|(version, _)| *version == sequence), "{block:?}");
            assert_eq!(stored(server, &indices[1], &id).await, block);
        }
        let registration = "e6Iq6H9mYHn7rgOyKI35Rp";
        let of = async |journal: &str| stored(server, &format!("{journal}-table-vehicle_registration"), registration).await;
        assert!(of(&indices[0]).await.is_some());
        assert_eq!(of(&indices[0]).await, of(&indices[1]).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_a_statement_is_never_told_whatever_a_server_says_of_it() {
    for level in ["", "trace"] {
        let server = Scripted::start().await;
        let reason = "failed to parse field [statements.statement] of type [date] in document with id 's@7'. Preview of field's value: 'SELECT quokkazz'";
        let error = json!({"type": "mapper_parsing_exception", "reason": reason, "caused_by": {"type": "illegal_argument_exception", "reason": "quokkazz"}});
        let answer = json!({"took": 1, "errors": true, "items": [{"index": {"status": 400, "error": error}}]});
        server.script([Step::without_writing(Fate::Say(answer.to_string()))]);
        let folder = Arc::new(Folder::new());
        let block = "{recordType:\"BLOCK_SUMMARY\",payload:{blockAddress:{strandId:\"s\",sequenceNo:7},\
                     transactionInfo:{statements:[{statement:\"SELECT quokkazz\"}]}}}\n";
        let unusable = block.replace("sequenceNo:7", "sequenceNo:quokkazz");
        folder.write("s.ion", [block, &unusable].concat());
        let (url, running) = (server.url(), Arc::clone(&folder));
        let done = tokio::task::spawn_blocking(move || {
            let options = ["--json", "sync", "s.ion", "--journal", "blocks", "--statements", "--to", &url];
            let done = running.revsync_with(&options, &[("RUST_LOG", level)], b"");
            let explained = running.revsync(&["explain", "s.ion", "--journal", "blocks", "--statements"]);
            let listed = running.revsync(&["dead-letters", "list"]);
            [done, explained, listed]
        })
        .await
        .unwrap();
        assert!(server.bulks()[0].body.windows(8).any(|bytes| bytes == b"quokkazz"), "it was sent: {:?}", done[0]);
        assert_eq!(done[0].count("dead_letters"), 2, "{:?}", done[0]);
        for said in &done {
            assert!(!said.out.contains("quokkazz") && !said.err.contains("quokkazz"), "{said:?}");
        }
        let letters = String::from_utf8(folder.read("revsync-dead-letters.jsonl")).unwrap();
        for letter in letters.lines() {
            let mut letter: Value = serde_json::from_str(letter).unwrap();
            letter.as_object_mut().unwrap().remove("payload");
            assert!(!letter.to_string().contains("quokkazz"), "{letter}");
        }
    }
}
