//! An AWS service that does what a healthy one seldom does: a test says how each request is answered.
//!
//! Speaks real HTTP on a loopback port and keeps every request.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// What the service is asked to do; empty for S3.
    pub(crate) action: String,
    pub(crate) body: Bytes,
}

impl Request {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The status and the body of an answer; with [`HANGS_UP`], the connection is closed without one.
pub(crate) type Answer = (u16, String);

pub(crate) const HANGS_UP: u16 = 0;

/// The service. Ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Scripted {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    date: Arc<Mutex<Option<String>>>,
    accepting: JoinHandle<()>,
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Scripted {
    /// Starts a service that answers so. The answer is given the requests that came before, too.
    pub(crate) async fn start(answer: impl Fn(&Request, &[Request]) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let date = Arc::new(Mutex::new(None::<String>));
        let (kept, said, answer) = (Arc::clone(&requests), Arc::clone(&date), Arc::new(answer));
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (kept, said, answer) = (Arc::clone(&kept), Arc::clone(&said), Arc::clone(&answer));
                let service = service_fn(move |request: hyper::Request<Incoming>| {
                    let (kept, said, answer) = (Arc::clone(&kept), Arc::clone(&said), Arc::clone(&answer));
                    async move {
                        let (head, body) = request.into_parts();
                        let target = head.headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
                        let request = Request {
                            method: head.method.to_string(),
                            path: head.uri.to_string(),
                            action: target.rsplit('.').next().unwrap_or_default().to_owned(),
                            body: body.collect().await.expect("a whole request").to_bytes(),
                        };
                        let mut before = kept.lock().expect("no panic under the lock");
                        let (status, text) = answer(&request, &before);
                        before.push(request);
                        if status == HANGS_UP {
                            return Err(std::io::Error::from(std::io::ErrorKind::ConnectionAborted));
                        }
                        let mut response = hyper::Response::builder().status(status);
                        if let Some(date) = said.lock().expect("no panic under the lock").as_deref() {
                            response = response.header("date", date);
                        }
                        Ok(response.body(Full::new(Bytes::from(text))).expect("a status"))
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, requests, date, accepting }
    }

    /// The clock of the service: what the `Date` header of its answers says from now on.
    pub(crate) fn says_date(&self, date: &str) {
        *self.date.lock().expect("no panic under the lock") = Some(date.to_owned());
    }

    /// `http://HOST:PORT`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A queue of it, as revsync takes it.
    pub(crate) fn queue_place(&self) -> String {
        format!("sqs://{}/000000000000/letters?region=eu-west-1&endpoint={}", self.address, self.url())
    }

    /// A bucket of it, as revsync takes it.
    pub(crate) fn bucket_place(&self) -> String {
        format!("s3://letters?region=eu-west-1&endpoint={}", self.url())
    }

    /// What it was asked so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no panic under the lock").clone()
    }
}
