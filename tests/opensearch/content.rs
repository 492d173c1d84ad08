//! What documents hold, on the wire and in real servers: no byte of them breaks a request, and what a server refuses costs only itself.

use std::sync::Arc;

use opensearch::http::Method;
use revsync::codec::Decoder;
use revsync::plan::mapping::Mapping;
use revsync::run::deliver::{Deliver, Settings};
use revsync::sink::opensearch::OpenSearch;
use revsync::store::dead_letters::DeadLetters;
use serde_json::{Value, json};

use crate::command::{Done, Folder, revision};
use crate::live::{ask, get, name, put_to, stored};
use crate::operations::config;
use crate::qldb_stream::{Does, binary, put, record, revision as person, shard};
use crate::scripted_opensearch::Scripted;
use crate::services::{self, Server};

// On the wire

#[tokio::test]
async fn no_byte_of_a_record_breaks_the_lines_of_a_request() {
    let server = Scripted::start().await;
    server.add_index("person-000001", Some("person"));
    let folder = tempfile::tempdir().unwrap();
    let letters = Arc::new(DeadLetters::in_file(&folder.path().join("letters.jsonl")).unwrap());
    let sink = Arc::new(OpenSearch::connect(&config(&server.url())).await.unwrap());
    let mut line = Deliver::new(Decoder::default(), Mapping::default(), sink, letters, Settings::default());

    // As text and names, and at the end in an id: NUL, line ends of every kind, what JSON escapes, what only JavaScript takes for a line end.
    let odd = r#"a\0b\nc\rd\x85e\u2028f\u2029g\"h\\i\x1fj\x7fk\uFEFFl\uFFFFm"#;
    let data = format!("{{text:\"{odd}\",'{}':1,list:[\"{odd}\"],symbol:'{}'}}", odd, odd);
    let good = binary(&[value(&format!("id-{odd}"), &data)]);
    // Bytes that are no UTF-8 in a text and in a name, and a lone surrogate, which becomes U+FFFD.
    let mut in_text = binary(&[value("in-text", "{text:\"MARK\"}")]).to_vec();
    let mut in_name = binary(&[value("in-name", "{MARK:1}")]).to_vec();
    for bytes in [&mut in_text, &mut in_name] {
        let at = bytes.windows(4).position(|window| window == b"MARK").unwrap();
        bytes[at..at + 2].copy_from_slice(b"\xff\xfe");
    }
    let surrogate = value("surrogate", r#"{text:"\ud800"}"#).into_bytes();
    let origin = shard("0");
    let all = [good, in_text.into(), in_name.into(), surrogate.into(), binary(&[person("Person", "last", 0, &put("x"))])];
    for (data, offset) in all.into_iter().zip(0..) {
        line.push(&record(&origin, offset, data)).await.unwrap();
    }
    line.finish().await.unwrap();

    let bulks = server.bulks();
    assert_eq!((bulks.len(), bulks[0].lines().len()), (1, 6), "three documents of two lines: {:?}", bulks[0].lines());
    let text = "a\0b\nc\rd\u{85}e\u{2028}f\u{2029}g\"h\\i\u{1f}j\u{7f}k\u{feff}l\u{ffff}m";
    let (_, document) = server.document("person", &format!("id-{text}")).unwrap();
    let document: Value = serde_json::from_str(&document.unwrap()).unwrap();
    assert_eq!(document, json!({"text": text, text: 1, "list": [text], "symbol": text}));
    let (_, document) = server.document("person", "surrogate").unwrap();
    assert_eq!(document.as_deref(), Some("{\"text\":\"\u{fffd}\"}"));
    assert_eq!((line.counts().indexed, line.counts().dead_letters), (3, 2));
}

/// A revision whose id is Ion text of any kind.
fn value(id: &str, data: &str) -> String {
    person("Person", "ID", 0, &Does::Put(data.to_owned())).replace("id:\"ID\"", &format!("id:\"{id}\""))
}

// In real servers

/// Rules that put every table into indices of this test alone.
fn rules(folder: &Folder, prefix: &str) {
    folder.write("rules.toml", format!("[[table]]\nname = \"*\"\nindex = \"{prefix}-{{table}}\"\n"));
}

/// A rule for the table T, with a mapping.
fn rule(folder: &Folder, index: &str, mapping: &Value, more: &str) {
    folder.write("mapping.json", mapping.to_string());
    folder.write("rules.toml", format!("[[table]]\nname = \"T\"\nindex = \"{index}\"\nmapping = \"mapping.json\"\n{more}"));
}

fn sync(folder: &Folder, server: &Server, source: &str) -> Done {
    folder.revsync(&["--json", "--config", "rules.toml", "sync", source, "--to", &server.url]).balanced()
}

/// Ids and kinds of the letters.
fn letters(folder: &Folder) -> Vec<(String, String)> {
    let listed = folder.revsync(&["--json", "dead-letters", "list"]).json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |letter: &Value| (text(&letter["document_id"]), text(&letter["error"]["kind"]));
    listed["dead_letters"].as_array().unwrap().iter().map(of).collect()
}

#[tokio::test]
async fn what_a_server_refuses_in_a_document_costs_only_that_document() {
    let many: Vec<String> = (0..1_001).map(|number| format!("f{number}:{number}")).collect();
    // One level more than the 20 that OpenSearch maps.
    let deep = format!("{}1{}", "{d:".repeat(21), "}".repeat(21));
    let cases = [
        ("empty-name", "{'':1}".to_owned()),
        ("dot", "{'.':{}}".to_owned()),
        ("dots", "{'..':1}".to_owned()),
        ("trailing-dot", "{'a.':1}".to_owned()),
        ("leading-dot", "{'.a':1}".to_owned()),
        ("two-dots", "{'a..b':1}".to_owned()),
        ("below-a-number", "{'n.below':2}".to_owned()),
        ("object-for-text", "{t:{ip:\"127.0.0.1\"}}".to_owned()),
        ("text-for-object", "{o:\"x\"}".to_owned()),
        ("too-many-fields", format!("{{{}}}", many.join(","))),
        ("long-keyword", format!("{{k:\"{}\"}}", "x".repeat(40_000))),
        ("too-deep", deep),
        ("integer-too-large", "{n:9223372036854775808}".to_owned()),
    ];
    for server in services::opensearch() {
        let (folder, prefix) = (Folder::new(), name("content"));
        rules(&folder, &prefix);
        let index = format!("{prefix}-t");
        let fields =
            json!({"n": {"type": "long"}, "t": {"type": "text"}, "k": {"type": "keyword"}, "o": {"properties": {"p": {"type": "long"}}}});
        put_to(server, &index, json!({"mappings": {"date_detection": false, "properties": fields}})).await;
        let mut records = String::new();
        for (id, data) in &cases {
            records.push_str(&revision("T", id, 0, Some(data)));
            records.push_str(&revision("T", &format!("good-{id}"), 0, Some("{n:1,t:\"x\",k:\"y\",o:{p:1}}")));
        }
        folder.write("s.ion", records);
        let done = sync(&folder, server, "s.ion");
        assert_eq!(done.exit, 1, "{done:?}");
        let refused = letters(&folder);
        // Versions differ in which odd names they refuse; what they take is no letter, and what they refuse is one and nothing else.
        let known: Vec<&str> = cases.iter().map(|(id, _)| *id).collect();
        for (id, kind) in &refused {
            assert!(known.contains(&id.as_str()), "{}: {id} is refused as {kind}", server.name);
        }
        for (id, _) in &cases {
            let is_refused = refused.iter().filter(|(refused, _)| refused == id).count();
            let is_there = stored(server, &index, id).await.is_some();
            assert_eq!(is_refused, usize::from(!is_there), "{}: {id}: {refused:?}", server.name);
            assert!(stored(server, &index, &format!("good-{id}")).await.is_some(), "{}: the neighbour of {id}", server.name);
        }
        assert!(refused.len() >= 11, "{}: {refused:?}", server.name);
        assert_eq!(done.count("dead_letters") as usize, refused.len(), "{done:?}");
    }
}

#[tokio::test]
async fn a_document_of_two_hundred_levels_costs_only_itself() {
    // What writes the Ion here takes a deeper stack than what reads it may.
    let deep = std::thread::Builder::new().stack_size(64 << 20).spawn(|| {
        let of =
            |id: &str, open: &str, close: &str| person("T", id, 0, &Does::Put(format!("{{f:{}1{}}}", open.repeat(199), close.repeat(199))));
        let good = person("T", "good", 0, &put("x"));
        binary(&[of("objects", "{a:", "}"), of("lists", "[", "]"), good])
    });
    let capture = deep.unwrap().join().unwrap();
    for server in services::opensearch() {
        let (folder, prefix) = (Folder::new(), name("deep"));
        rules(&folder, &prefix);
        folder.write("s.10n", &capture);
        let done = sync(&folder, server, "s.10n");
        assert_eq!((done.exit, done.count("indexed"), done.count("dead_letters")), (1, 1, 2), "{}: {done:?}", server.name);
        let refused = letters(&folder);
        assert!(refused.iter().all(|(id, _)| id != "good"), "{}: {refused:?}", server.name);
        assert!(done.err.contains("allowed limit of [20]"), "it is said why: {}", done.err);
        assert!(stored(server, &format!("{prefix}-t"), "good").await.is_some());
    }
}

#[tokio::test]
async fn more_fields_than_an_index_takes_are_taken_where_the_mapping_says_how() {
    let many: Vec<String> = (0..1_001).map(|number| format!("f{number}:{number}")).collect();
    for server in services::opensearch() {
        let folder = Folder::new();
        rule(&folder, &name("flat"), &json!({"properties": {"attributes": {"type": "flat_object"}}}), "");
        folder.write("s.ion", revision("T", "a", 0, Some(&format!("{{attributes:{{{}}}}}", many.join(",")))));
        let done = sync(&folder, server, "s.ion");
        assert_eq!((done.exit, done.count("indexed")), (0, 1), "{}: {done:?}", server.name);
    }
}

#[tokio::test]
async fn every_revision_of_a_document_meets_in_the_shard_of_its_routing() {
    for server in services::opensearch() {
        let (folder, index) = (Folder::new(), name("routed"));
        rule(&folder, &index, &json!({"settings": {"index": {"number_of_shards": 5}}}), "routing = \"{table}-{id}\"\n");
        let ids: Vec<String> = (0..20).map(|number| number.to_string()).collect();
        let of = |version: u64, data: Option<&str>| ids.iter().map(|id| revision("T", id, version, data)).collect::<String>();
        folder.write("puts.ion", of(0, Some("{v:0}")) + &of(2, Some("{v:2}")) + &of(1, Some("{v:1}")));
        folder.write("deletes.ion", of(3, None));
        let count = async || {
            ask(server, Method::Post, &format!("{index}/_refresh"), Value::Null).await;
            get(server, &format!("{index}/_count")).await["count"].as_u64()
        };
        for source in ["puts.ion", "puts.ion"] {
            assert_eq!(sync(&folder, server, source).exit, 0);
            assert_eq!(count().await, Some(20), "{}", server.name);
        }
        let done = sync(&folder, server, "deletes.ion");
        assert_eq!((done.count("deleted"), count().await), (20, Some(0)), "{}: {done:?}", server.name);
        let late = sync(&folder, server, "puts.ion");
        assert_eq!((late.count("indexed"), count().await), (0, Some(0)), "{}: {late:?}", server.name);
    }
}

#[tokio::test]
async fn a_stream_that_begins_with_deletes_makes_its_index_as_it_should_be() {
    for server in services::opensearch() {
        let (folder, prefix) = (Folder::new(), name("deletes-first"));
        rules(&folder, &prefix);
        folder.write("s.ion", [revision("T", "a", 3, None), revision("T", "b", 0, None)].concat());
        let done = sync(&folder, server, "s.ion");
        assert_eq!((done.exit, done.count("absent")), (0, 2), "{}: {done:?}", server.name);
        let index = format!("{prefix}-t-000001");
        let made = get(server, &index).await[&index].clone();
        assert_eq!(
            (&made["mappings"]["date_detection"], &made["settings"]["index"]["gc_deletes"]),
            (&json!(false), &json!("24h")),
            "{made}"
        );
        folder.write("late.ion", revision("T", "a", 2, Some("{}")));
        assert_eq!(sync(&folder, server, "late.ion").count("stale"), 1, "{}: the delete is remembered", server.name);
    }
}

#[tokio::test]
async fn a_server_that_makes_no_index_by_itself_gets_them_made() {
    for server in services::opensearch() {
        let (folder, prefix) = (Folder::new(), name("no-auto"));
        // For the names of this test alone: others share the server.
        let setting = |value: Value| json!({"persistent": {"action.auto_create_index": value}});
        put_to(server, "_cluster/settings", setting(json!(format!("-{prefix}*,+*")))).await;
        rules(&folder, &prefix);
        folder.write("s.ion", [revision("T", "a", 3, None), revision("U", "b", 0, Some("{}"))].concat());
        let done = sync(&folder, server, "s.ion");
        assert_eq!((done.exit, done.count("absent"), done.count("indexed")), (0, 1, 1), "{}: {done:?}", server.name);

        // Without leave to make it, a missing index is waited for, and a delete on it is not taken for done.
        let (folder, prefix) = (Folder::new(), format!("{prefix}-missing"));
        rules(&folder, &prefix);
        folder.write("s.ion", revision("T", "a", 3, None));
        let arguments =
            ["--json", "--config", "rules.toml", "sync", "s.ion", "--to", &server.url, "--no-create-index", "--give-up-after", "1s"];
        let done = folder.revsync(&arguments).balanced();
        assert_eq!((done.exit, done.count("pending"), letters(&folder).len()), (2, 1, 0), "{}: {done:?}", server.name);
        assert!(done.err.contains(&prefix), "{done:?}");
        put_to(server, "_cluster/settings", setting(Value::Null)).await;
    }
}
