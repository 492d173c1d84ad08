//! The conformance suite of all sinks, against real OpenSearch servers of both versions.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use opensearch::http::Method;
use opensearch::http::headers::HeaderMap;
use opensearch::http::transport::Transport;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::conformance::{Bench, Found};
use crate::live::{name, put_to};
use crate::operations::connect;
use crate::services;

mod opensearch_2 {
    async fn bench() -> Option<crate::conformance::Bench> {
        super::bench(0).await
    }
    crate::conformance_suite!(bench);
    crate::merge_suite!(bench);
    crate::contents_suite!(bench);
}

mod opensearch_3 {
    async fn bench() -> Option<crate::conformance::Bench> {
        super::bench(1).await
    }
    crate::conformance_suite!(bench);
    crate::merge_suite!(bench);
    crate::contents_suite!(bench);
}

pub async fn bench(server: usize) -> Option<Bench> {
    let server = services::opensearch().get(server)?;
    let index = name("conformance");
    for index in [&index, &format!("{index}-other")] {
        // Whatever a statement puts into a document, no mapping is made of it.
        // Three shards share no page evenly, so that documents at one place of several shards come to stand on both sides of its end.
        let settings = json!({"index.gc_deletes": "24h", "index.number_of_replicas": 0, "index.number_of_shards": 3});
        let alias = json!({"is_write_index": true, "filter": {"bool": {"must_not": {"term": {"revsync.deleted": true}}}}});
        let fields = json!({"revsync": {"properties": {"deleted": {"type": "boolean"}, "time": {"type": "date"}}}});
        let mappings = json!({"dynamic": false, "properties": fields});
        let body = json!({"settings": settings, "mappings": mappings, "aliases": {index.as_str(): alias}});
        put_to(server, &format!("{index}-000001"), body).await;
    }
    let (url, of_readers) = (server.url.clone(), server.url.clone());
    Some(Bench {
        sink: Arc::new(connect(&server.url).await),
        read: Box::new(move |index, id| Box::pin(read(url.clone(), index, id))),
        visible: Box::new(move |index| Box::pin(visible(of_readers.clone(), index))),
        index,
        keep: Box::new(()),
    })
}

#[derive(Deserialize)]
struct Answer {
    docs: Vec<Document>,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    found: bool,
    #[serde(rename = "_version")]
    version: Option<u64>,
    #[serde(rename = "_source")]
    source: Option<Box<RawValue>>,
}

async fn visible(url: String, index: String) -> BTreeSet<String> {
    let transport = Transport::single_node(&url).unwrap();
    let ask = async |path: &str, body: Option<&str>| -> Value {
        let path = format!("{index}/{path}");
        let response = transport.send(Method::Post, &path, HeaderMap::new(), None::<&()>, body, None).await.unwrap();
        response.json().await.unwrap()
    };
    ask("_refresh", None).await;
    let found = ask("_search", Some(r#"{"size":1000,"_source":false}"#)).await;
    let ids: BTreeSet<String> =
        found["hits"]["hits"].as_array().unwrap().iter().map(|hit| hit["_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ask("_count", None).await["count"].as_u64(), Some(ids.len() as u64));
    ids
}

async fn read(url: String, index: String, id: String) -> Found {
    let body = Bytes::from(json!({"docs": [{"_index": index, "_id": id}]}).to_string());
    let transport = Transport::single_node(&url).unwrap();
    let response = transport.send(Method::Post, "_mget", HeaderMap::new(), None::<&()>, Some(body), None).await.unwrap();
    let mut answer: Answer = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    let document = answer.docs.remove(0);
    document.found.then(|| (document.version.unwrap(), document.source.unwrap().get().to_owned()))
}
