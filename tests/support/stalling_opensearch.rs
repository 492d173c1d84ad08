//! An OpenSearch that takes requests and answers them when it is told to, to see what a client holds meanwhile.
//!
//! Speaks real HTTP on a loopback port and takes every document; keeps nothing of them but their ids.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::HashSet;
use std::convert::Infallible;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

#[derive(Debug)]
struct State {
    /// Whether `_bulk` requests are answered.
    writes: watch::Sender<bool>,
    /// Whether the refresh at the end of a run has come.
    refreshes: watch::Sender<bool>,
    /// Whether it is answered.
    ends: watch::Sender<bool>,
    ids: Mutex<HashSet<String>>,
}

/// The server. Ends when it is dropped.
#[derive(Debug)]
pub struct Stalling {
    address: SocketAddr,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

impl Drop for Stalling {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Stalling {
    /// Starts a server on a free port, which answers no `_bulk` request yet.
    pub async fn start() -> Self {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let state = Arc::new(State {
            writes: watch::Sender::new(false),
            refreshes: watch::Sender::new(false),
            ends: watch::Sender::new(false),
            ids: Mutex::default(),
        });
        let shared = state.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = shared.clone();
                let service = service_fn(move |request| respond(request, state.clone()));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, state, accepting }
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on `_bulk` requests are answered, those that wait too.
    pub fn release(&self) {
        self.state.writes.send_replace(true);
    }

    /// Waits for the last request of a run, which is not answered before [`end`](Self::end).
    pub async fn at_the_end(&self) {
        let _ = self.state.refreshes.subscribe().wait_for(|refreshes| *refreshes).await;
    }

    /// Lets the run end.
    pub fn end(&self) {
        self.state.ends.send_replace(true);
    }

    /// How many documents there are.
    pub fn documents(&self) -> usize {
        self.state.ids.lock().expect("no panic under the lock").len()
    }
}

async fn respond(request: hyper::Request<Incoming>, state: Arc<State>) -> Result<hyper::Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let wire = body.collect().await.expect("a whole request").to_bytes();
    let path = head.uri.path().trim_matches('/');
    let answer = if path.is_empty() {
        json!({"version": {"distribution": "opensearch", "number": "3.0.0"}})
    } else if path.ends_with("_bulk") {
        let gzip = head.headers.get("content-encoding").is_some_and(|encoding| encoding == "gzip");
        let answer = take(&wire, gzip, &state);
        drop(wire);
        let _ = state.writes.subscribe().wait_for(|writes| *writes).await;
        answer
    } else if path.ends_with("_refresh") {
        state.refreshes.send_replace(true);
        let _ = state.ends.subscribe().wait_for(|ends| *ends).await;
        json!({})
    } else {
        json!({format!("{path}-000001"): {"aliases": {path: {"is_write_index": true}}, "settings": {"index": {}}}})
    };
    let response = hyper::Response::builder().header("content-type", "application/json; charset=UTF-8");
    Ok(response.body(Full::from(answer.to_string())).expect("a valid response"))
}

/// Takes the documents of a body; says what became of each.
fn take(wire: &Bytes, gzip: bool, state: &State) -> Value {
    let mut body = Vec::new();
    if gzip {
        flate2::read::GzDecoder::new(&wire[..]).read_to_end(&mut body).expect("gzip");
    } else {
        body.extend_from_slice(wire);
    }
    let (mut items, mut rest) = (Vec::new(), &body[..]);
    let mut line = || {
        let end = memchr::memchr(b'\n', rest)?;
        let (line, behind) = rest.split_at(end);
        rest = &behind[1..];
        Some(line)
    };
    while let Some(action) = line() {
        let action: Value = serde_json::from_slice(action).expect("an action line");
        line().expect("a document");
        if let Some(id) = action["index"]["_id"].as_str() {
            state.ids.lock().expect("no panic under the lock").insert(id.to_owned());
            items.push(json!({"index": {"status": 201}}));
        } else {
            items.push(json!({"update": {"status": 404}}));
        }
    }
    json!({"errors": false, "items": items})
}
