//! A history on real servers: what it answers, what readers see of it, and that content which was redacted does not stay.

use std::path::Path;
use std::sync::Arc;

use opensearch::http::Method;
use serde_json::{Value, json};

use crate::command::{Done, Folder};
use crate::live::{ask, get, name, put_to, stored};
use crate::services::{self, Server};

const ID: &str = "3QxYbM8sTkE1pLw0Zr9uAc";

/// A revision of the item as a record in Ion text; `content` is `data:…`, `dataHash:…` or nothing.
fn revision(version: u64, time: &str, content: &str) -> String {
    format!(
        "{{qldbStreamArn:\"arn:aws:qldb:eu-west-1:000000000000:stream/tests/0\",recordType:\"REVISION_DETAILS\",payload:{{tableInfo:{{tableName:\"Item\",\
         tableId:\"t\"}},revision:{{blockAddress:{{strandId:\"s\",sequenceNo:{version}}},hash:{{{{aGFzaA==}}}},{content}metadata:{{id:\"{ID}\",version:{version},\
         txTime:{time},txId:\"x{version}\"}}}}}}}}\n"
    )
}

/// The queries of the documentation.
fn queries() -> Vec<Value> {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).unwrap();
    let (_, section) = readme.split_once("\n## Histories and redactions\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    section.split("```json\n").skip(1).map(|block| serde_json::from_str(block.split_once("```").unwrap().0).unwrap()).collect()
}

async fn answers(server: &Server, index: &str, query: &Value) -> Vec<Value> {
    ask(server, Method::Post, &format!("{index}/_refresh"), Value::Null).await;
    let (status, answer) = ask(server, Method::Post, &format!("{index}/_search"), query.clone()).await;
    assert_eq!(status, 200, "{answer}");
    answer["hits"]["hits"].as_array().unwrap().clone()
}

async fn command(folder: &Arc<Folder>, server: &Server, arguments: &[&str]) -> Done {
    let arguments: Vec<String> =
        [&["--json", "--config", "rules.toml"], arguments, &["--to", &server.url]].concat().into_iter().map(str::to_owned).collect();
    let folder = Arc::clone(folder);
    let done = tokio::task::spawn_blocking(move || folder.revsync(&arguments.iter().map(String::as_str).collect::<Vec<_>>()));
    done.await.unwrap()
}

#[tokio::test]
async fn a_history_tells_how_a_document_was_at_a_moment_and_never_keeps_what_was_redacted() {
    for server in services::opensearch() {
        let (index, history) = (name("newest"), name("history"));
        let folder = Arc::new(Folder::new());
        folder.write(
            "rules.toml",
            format!(
                "[[table]]\nname = \"Item\"\nindex = \"{index}\"\ndeletes = \"tombstone\"\nredactions = \"erase\"\n[[table]]\nname = \"Item\"\nmode = \
                 \"history\"\nindex = \"{history}\"\n"
            ),
        );
        let stream = [
            revision(1, "2020-02-01T00:00:00.000Z", "dataHash:{{aGFzaA==}},"),
            revision(0, "2020-01-01T00:00:00Z", "data:{Stock:7},"),
            revision(1, "2020-02-01T00:00:00.000Z", "data:{Stock:\"secret\"},"),
            revision(2, "2020-03-01T08:15:30.250000001Z", "data:{Stock:3},"),
            revision(3, "2020-04-01T00:00:00.000Z", ""),
        ];
        folder.write("s.ion", stream.concat());
        let done = command(&folder, server, &["sync", "s.ion"]).await.balanced();
        assert_eq!((done.exit, done.count("received"), done.count("dead_letters")), (0, 10, 0), "{}: {done:?}", server.name);

        let queries = queries();
        let [at_a_moment, what_happened] = queries.as_slice() else { panic!("expected two queries, found {queries:?}") };
        let found = answers(server, &history, at_a_moment).await;
        assert_eq!((found.len(), &found[0]["_source"]["Stock"]), (1, &json!(3)), "{}: {found:?}", server.name);
        let found = answers(server, &history, what_happened).await;
        let told: Vec<_> = found
            .iter()
            .map(|hit| (hit["_source"]["revsync"]["op"].as_str().unwrap(), hit["_source"]["revsync"]["txId"].as_str().unwrap()))
            .collect();
        assert_eq!(told, [("index", "x0"), ("redacted", "x1"), ("index", "x2"), ("delete", "x3")], "{}", server.name);

        // Nothing of it is hidden, as tombstones are.
        let alias = get(server, &format!("_alias/{history}")).await;
        assert!(!alias.to_string().contains("filter"), "{}: {alias}", server.name);
        let mapping = get(server, &format!("{history}/_mapping")).await;
        let fields = &mapping[format!("{history}-000001")]["mappings"]["properties"]["revsync"]["properties"];
        assert_eq!((&fields["txTime"]["type"], fields.get("deleted")), (&json!("date"), None), "{}: {mapping}", server.name);

        let verify = ["verify", "s.ion"];
        assert_eq!(command(&folder, server, &[&verify[..], &["--content"]].concat()).await.exit, 0, "{}", server.name);
        let id = format!("{ID}@1");
        let before = stored(server, &history, &id).await.unwrap();
        let path = format!("{history}/_doc/{ID}%401?version=1&version_type=external_gte");
        put_to(server, &path, json!({"Stock": 99, "revsync": {"op": "index", "version": 1}})).await;
        let found = command(&folder, server, &verify).await;
        assert_eq!((found.exit, &found.json()["redacted_present"]), (1, &json!(1)), "{}: {found:?}", server.name);
        let mended = command(&folder, server, &[&verify[..], &["--repair"]].concat()).await;
        assert_eq!((mended.exit, &mended.json()["equal"]), (0, &json!(true)), "{}: {mended:?}", server.name);
        assert_eq!(stored(server, &history, &id).await.unwrap(), before, "{}", server.name);

        // A sweep of the rules' indices looks at none but those with tombstones.
        let swept = command(&folder, server, &["sweep", "--older-than", "3650d"]).await;
        assert_eq!((swept.exit, &swept.json()["kept"]), (0, &json!({"younger": 1})), "{}: {swept:?}", server.name);
        assert_eq!(answers(server, &history, what_happened).await.len(), 4, "{}", server.name);
    }
}
