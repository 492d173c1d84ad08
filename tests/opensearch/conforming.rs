//! The conformance suite of all sinks, against real OpenSearch servers of both versions.

use std::sync::Arc;

use bytes::Bytes;
use opensearch::http::Method;
use opensearch::http::headers::HeaderMap;
use opensearch::http::transport::Transport;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::conformance::{Bench, Found};
use crate::live::{name, put_to};
use crate::operations::connect;
use crate::services;

mod opensearch_2 {
    async fn bench() -> Option<crate::conformance::Bench> {
        super::bench(0).await
    }
    crate::conformance_suite!(bench);
}

mod opensearch_3 {
    async fn bench() -> Option<crate::conformance::Bench> {
        super::bench(1).await
    }
    crate::conformance_suite!(bench);
}

async fn bench(server: usize) -> Option<Bench> {
    let server = services::opensearch().get(server)?;
    let index = name("conformance");
    for index in [&index, &format!("{index}-other")] {
        // Whatever a statement puts into a document, no mapping is made of it.
        put_to(
            server,
            index,
            json!({"settings": {"index.gc_deletes": "24h", "index.number_of_replicas": 0}, "mappings": {"dynamic": false}}),
        )
        .await;
    }
    let url = server.url.clone();
    Some(Bench {
        sink: Arc::new(connect(&server.url).await),
        read: Box::new(move |index, id| Box::pin(read(url.clone(), index, id))),
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

async fn read(url: String, index: String, id: String) -> Found {
    let body = Bytes::from(json!({"docs": [{"_index": index, "_id": id}]}).to_string());
    let transport = Transport::single_node(&url).unwrap();
    let response = transport.send(Method::Post, "_mget", HeaderMap::new(), None::<&()>, Some(body), None).await.unwrap();
    let mut answer: Answer = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    let document = answer.docs.remove(0);
    document.found.then(|| (document.version.unwrap(), document.source.unwrap().get().to_owned()))
}
