//! The proof that an index holds what its stream says, on real servers of both versions: the damage is done by plain requests, past revsync.

use std::fmt::Write;

use opensearch::http::Method;
use opensearch::http::headers::HeaderMap;
use opensearch::http::transport::Transport;
use revsync::operation::Target;
use serde_json::{Value, json};

use crate::command::{Done, Folder, revision};
use crate::damage::{Life, Plan, Table, ledger, stream, told};
use crate::dice::Dice;
use crate::live::{ask, get, name, stored};
use crate::services::{self, Server};

/// A folder with rules that put every table into indices of this test alone; those of Person get tombstones, a routing value, and three shards.
fn folder(prefix: &str) -> Folder {
    let folder = Folder::new();
    folder.write("sharded.json", r#"{"settings":{"number_of_shards":3}}"#);
    let person = "name = \"Person\"\ndeletes = \"tombstone\"\nrouting = \"r-{id}\"\nmapping = \"sharded.json\"";
    folder.write(
        "rules.toml",
        format!("[[table]]\n{person}\nindex = \"{prefix}-{{table}}\"\n[[table]]\nname = \"*\"\nindex = \"{prefix}-{{table}}\"\n"),
    );
    folder
}

fn command(folder: &Folder, server: &Server, command: &str, more: &[&str]) -> Done {
    folder.revsync(&[&["--json", "--config", "rules.toml", command, "s.ion", "--to", &server.url], more].concat())
}

fn verify(folder: &Folder, server: &Server, more: &[&str]) -> Done {
    command(folder, server, "verify", &[&["--sample", "0"], more].concat())
}

/// Brings the index up to date with these records.
fn sync(folder: &Folder, server: &Server, lines: &str) {
    folder.write("s.ion", lines);
    let done = command(folder, server, "sync", &[]).balanced();
    assert_eq!((done.exit, done.count("dead_letters")), (0, 0), "{done:?}");
}

fn query(target: &Target) -> String {
    target.routing.as_ref().map_or_else(String::new, |routing| format!("routing={routing}&"))
}

/// Deletes a document as a person does, without a version.
async fn delete_by_hand(server: &Server, index: &str, id: &str, query: &str) {
    let (status, answer) = ask(server, Method::Delete, &format!("{index}/_doc/{id}?{query}"), Value::Null).await;
    assert_eq!((status, &answer["result"]), (200, &json!("deleted")), "{}: {answer}", server.name);
}

/// Deletes a document at its version, whether it is there or not.
async fn delete_at(server: &Server, target: &Target) {
    let path = format!("{}/_doc/{}?{}version={}&version_type=external_gte", target.index, target.id, query(target), target.version);
    let (status, answer) = ask(server, Method::Delete, &path, Value::Null).await;
    assert!(matches!(status, 200 | 404) && answer["_version"] == target.version, "{}: {answer}", server.name);
}

/// Damages indices as planned, by plain requests.
async fn carry_out(plan: &Plan, server: &Server) {
    for target in &plan.deletes {
        delete_at(server, target).await;
    }
    for index in plan.forgotten.keys() {
        let (concrete, setting) = (format!("{index}-000001"), "index.gc_deletes");
        let path = format!("{concrete}/_settings");
        let before = get(server, &path).await[&concrete]["settings"]["index"]["gc_deletes"].clone();
        assert_eq!(ask(server, Method::Put, &path, json!({ setting: "-1ms" })).await.0, 200);
        assert_eq!(ask(server, Method::Post, &format!("{index}/_refresh"), Value::Null).await.0, 200);
        assert_eq!(ask(server, Method::Put, &path, json!({ setting: before })).await.0, 200);
    }
    let mut lines = String::new();
    for (target, document) in &plan.writes {
        let mut action = json!({"_index": &*target.index, "_id": target.id, "version": target.version, "version_type": "external_gte"});
        if let Some(routing) = &target.routing {
            action["routing"] = json!(routing);
        }
        writeln!(lines, "{}\n{}", json!({ "index": action }), std::str::from_utf8(document.as_bytes()).unwrap()).unwrap();
    }
    let transport = Transport::single_node(&server.url).unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("content-type", "application/x-ndjson".parse().unwrap());
    let response = transport.send(Method::Post, "_bulk", headers, None::<&()>, Some(lines), None).await.unwrap();
    let answer: Value = response.json().await.unwrap();
    assert_eq!(answer["errors"], false, "{}: {answer}", server.name);
    for target in &plan.by_hand {
        delete_by_hand(server, &target.index, &target.id, &query(target)).await;
    }
}

/// Whether an index takes a document at this version.
async fn takes(server: &Server, index: &str, id: &str, version: u64, query: &str) -> bool {
    let path = format!("{index}/_doc/{id}?{query}version={version}&version_type=external");
    let (status, answer) = ask(server, Method::Put, &path, json!({"Name": "late"})).await;
    assert!(status < 300 || status == 409, "{}: {answer}", server.name);
    status != 409
}

fn lives(prefix: &str, dice: &mut Dice) -> Vec<Life> {
    let table = |name, index: &str, routing, tombstones| Table { name, index: format!("{prefix}-{index}"), routing, tombstones };
    // Live documents of more than one page.
    let mut lives = ledger(&[table("Car", "car", None, false)], 1_500, dice);
    lives.extend(ledger(&[table("Person", "person", Some("r-{id}"), true), table("HTTPLog", "http_log", None, false)], 60, dice));
    lives
}

#[tokio::test]
async fn whatever_the_damage_each_document_is_named_and_mended() {
    for (server, seed) in services::opensearch().iter().zip(1..) {
        let (dice, prefix) = (&mut Dice::new(seed), name("verify"));
        let (folder, lives) = (folder(&prefix), lives(&prefix, dice));
        sync(&folder, server, &stream(&lives, dice));
        let before = verify(&folder, server, &["--content"]);
        assert_eq!((before.exit, &before.json()["indices"], told(&before.json())), (0, &json!(3), vec![]), "{}: {before:?}", server.name);
        let settings = get(server, &format!("{prefix}-*/_settings")).await;

        let plan = Plan::new(&lives, true, true, dice);
        carry_out(&plan, server).await;
        let (damages, mut left) = (plan.damages.clone(), plan.damages);
        left.retain(|(class, ..)| class == "ahead");
        assert!(!plan.by_hand.is_empty() && !left.is_empty());
        let found = verify(&folder, server, &["--content"]);
        assert_eq!((found.exit, told(&found.json())), (1, damages.clone()), "{}: {}", server.name, found.err);
        let repaired = verify(&folder, server, &["--content", "--repair"]);
        let report = repaired.json();
        assert_eq!((repaired.exit, told(&report), told(&report["left"])), (1, damages, left.clone()), "{}: {}", server.name, repaired.err);
        assert_eq!(report["repaired"]["dead_letters"], 0, "{report}");
        assert_eq!(get(server, &format!("{prefix}-*/_settings")).await, settings, "{}: the memory is as long as before", server.name);
        for (_, index, id, ..) in &left {
            let life = lives.iter().find(|life| life.id == *id && life.table.index == *index).unwrap();
            delete_by_hand(server, index, id, &query(&life.target(0))).await;
        }
        let mended = verify(&folder, server, &["--content", "--repair"]);
        assert_eq!((mended.exit, told(&mended.json()).len()), (0, left.len()), "{}: {mended:?}", server.name);
        assert_eq!(verify(&folder, server, &["--content"]).exit, 0, "{}", server.name);
        for life in lives.iter().filter(|life| life.is_deleted()).take(40) {
            let target = life.target(life.newest());
            assert!(!takes(server, &target.index, &target.id, target.version - 1, &query(&target)).await, "{}: {}", server.name, life.id);
        }
    }
}

#[tokio::test]
async fn a_delete_by_hand_is_forgotten_and_those_of_the_stream_are_remembered_again() {
    for server in services::opensearch() {
        let prefix = name("by-hand");
        let (folder, index) = (folder(&prefix), format!("{prefix}-car"));
        let lines = [("a", 1, Some("{A:1}")), ("b", 4, Some("{A:1}")), ("b", 5, None), ("c", 0, Some("{A:1}"))];
        sync(&folder, server, &lines.map(|(id, version, data)| revision("Car", id, version, data)).concat());
        delete_by_hand(server, &index, "a", "").await;
        let settings = get(server, &format!("{index}/_settings")).await;
        let mended = verify(&folder, server, &["--repair"]);
        let report = mended.json();
        assert_eq!((mended.exit, &report["missing"], &report["left"]["missing"]), (0, &json!(1), &json!(0)), "{}: {mended:?}", server.name);
        let remark = format!("{index}: it remembered deletes at higher versions than the stream has, and was made to forget them");
        assert!(report["remarks"][0].as_str().unwrap().starts_with(&remark), "{report}");
        assert_eq!(stored(server, &index, "a").await, Some((1, json!({"A": 1}))));
        assert_eq!(get(server, &format!("{index}/_settings")).await, settings, "{}", server.name);
        assert!(!takes(server, &index, "b", 4, "").await, "{}: what comes late stays away", server.name);
    }
}

#[tokio::test]
async fn a_document_that_was_overwritten_by_hand_is_ahead_and_stays_and_it_is_said_what_to_do() {
    for server in services::opensearch() {
        let prefix = name("ahead");
        let (folder, index) = (folder(&prefix), format!("{prefix}-car"));
        sync(&folder, server, &[revision("Car", "a", 3, Some("{A:1}")), revision("Car", "b", 0, Some("{A:1}"))].concat());
        let (status, _) = ask(server, Method::Put, &format!("{index}/_doc/a"), json!({"A": 2})).await;
        assert_eq!(status, 200);
        let ahead = vec![("ahead".to_owned(), index.clone(), "a".to_owned(), Some(4), Some(3))];
        for more in [&["--content"][..], &["--content", "--repair"]] {
            let found = verify(&folder, server, more);
            assert_eq!((found.exit, told(&found.json())), (1, ahead.clone()), "{}: {found:?}", server.name);
        }
        assert_eq!(stored(server, &index, "a").await, Some((4, json!({"A": 2}))));
        let said = folder.revsync(&["--config", "rules.toml", "verify", "s.ion", "--to", &server.url]).out;
        assert!(said.contains(&format!("ahead             {index}/a  index 4, stream 3")), "{said}");
        assert!(
            said.contains("delete the\ndocument there by hand (DELETE INDEX/_doc/ID) and run the same command with --repair"),
            "{said}"
        );
        delete_by_hand(server, &index, "a", "").await;
        assert_eq!(verify(&folder, server, &["--repair"]).exit, 0);
        assert_eq!(stored(server, &index, "a").await, Some((3, json!({"A": 1}))));
    }
}

#[tokio::test]
async fn an_index_that_is_not_there_is_not_made_by_looking() {
    for server in services::opensearch() {
        let prefix = name("absent");
        let folder = folder(&prefix);
        folder.write("s.ion", revision("Car", "a", 3, Some("{A:1}")));
        let found = verify(&folder, server, &[]);
        assert_eq!((found.exit, &found.json()["missing"]), (1, &json!(1)), "{}: {found:?}", server.name);
        assert_eq!(ask(server, Method::Get, &format!("{prefix}-car"), Value::Null).await.0, 404, "{}", server.name);
        let mended = verify(&folder, server, &["--repair"]);
        assert_eq!((mended.exit, stored(server, &format!("{prefix}-car"), "a").await), (0, Some((3, json!({"A": 1})))), "{mended:?}");
    }
}

const CHANGES: &str = r#"{"op":"Put","table":"item","ts":10,"data":[{"name":"sku","value":"?"},{"name":"price","value":442.30},{"name":"stock","value":7}]}
{"op":"Put","table":"item","ts":20,"data":[{"name":"sku","value":"?"},{"name":"price","value":12.50}]}
"#;

#[tokio::test]
async fn rows_of_cells_are_mended_cell_by_cell_and_a_value_that_was_changed_under_its_version_is_written_anew() {
    for server in services::opensearch() {
        let (folder, items) = (Folder::new(), name("cells"));
        let rule = format!("[[table]]\nname = \"item\"\nindex = \"{items}\"\nkey = [\"sku\"]\nrows = \"cells\"\n");
        folder.write("rules.toml", rule);
        let gone = r#"{"op":"DeleteFamily","table":"item","ts":30,"data":[{"name":"sku","value":"gone"}]}"#;
        let rows = ["equal", "deleted", "changed", "replaced", "gone", "newer"].map(|id| CHANGES.replace('?', id));
        sync(&folder, server, &[rows.concat(), gone.to_owned()].concat());
        let equal = verify(&folder, server, &["--content"]);
        assert_eq!((equal.exit, &equal.json()["documents"]), (0, &json!(5)), "{}: {equal:?}", server.name);

        delete_by_hand(server, &items, "deleted", "").await;
        delete_by_hand(server, &items, "gone", "").await;
        // The bookkeeping stays as it is.
        let changed = ask(server, Method::Post, &format!("{items}/_update/changed"), json!({"doc": {"stock": 8}})).await;
        let replaced = ask(server, Method::Put, &format!("{items}/_doc/replaced"), json!({"price": 1})).await;
        assert_eq!((changed.0, replaced.0), (200, 200), "{}: {changed:?} {replaced:?}", server.name);
        folder.write("s.ion", CHANGES.replace('?', "newer").replace("\"ts\":20", "\"ts\":25"));
        assert_eq!(command(&folder, server, "sync", &[]).exit, 0);
        folder.write("s.ion", [rows.concat(), gone.to_owned()].concat());

        let of = |report: &Value| {
            let told = report["differences"].as_array().unwrap().iter();
            told.map(|told| json!([told["class"], told["id"], told["stream"], told["content"]])).collect::<Vec<_>>()
        };
        let ahead = json!(["ahead", "newer", 20, false]);
        let expected = [
            json!(["missing", "deleted", 20, false]),
            json!(["missing", "gone", 30, false]),
            json!(["stale", "changed", 20, true]),
            json!(["stale", "replaced", 20, true]),
            ahead.clone(),
        ];
        let found = verify(&folder, server, &["--content"]);
        assert_eq!((found.exit, of(&found.json())), (1, expected.to_vec()), "{}: {found:?}", server.name);
        let mended = verify(&folder, server, &["--content", "--repair"]);
        assert_eq!((mended.exit, of(&mended.json()["left"])), (1, vec![ahead]), "{}: {mended:?}", server.name);
        for id in ["deleted", "changed", "replaced"] {
            let source = stored(server, &items, id).await.unwrap().1;
            assert_eq!((&source["price"], &source["stock"]), (&json!(12.5), &json!(7)), "{}: {source}", server.name);
            assert_eq!(source["revsync"]["cells"]["columns"]["price"], json!([20, "12.50", 1]), "{}", server.name);
        }
        assert_eq!(stored(server, &items, "gone").await.unwrap().1["revsync"]["cells"]["erased"], 30, "{}", server.name);
        // Whatever comes late is judged as before.
        assert_eq!(command(&folder, server, "sync", &[]).count("stale"), 13, "{}", server.name);
    }
}
