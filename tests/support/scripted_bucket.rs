//! A bucket of S3 that does what a healthy one seldom does: a test says, byte for byte, how each request is answered.
//!
//! Speaks HTTP on a loopback port, one request a connection, and keeps every request.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// With its query.
    pub(crate) path: String,
    pub(crate) range: Option<String>,
    pub(crate) if_match: Option<String>,
}

impl Asked {
    /// Whether it asks for a list of objects.
    pub(crate) fn is_list(&self) -> bool {
        self.path.contains("list-type=2")
    }
}

/// The bucket; serves until the test process ends.
#[derive(Debug)]
pub(crate) struct ScriptedBucket {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl ScriptedBucket {
    /// Starts a bucket that answers so. The answer is given the requests that came before, too.
    pub(crate) fn start(answer: impl Fn(&Asked, &[Asked]) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (kept, answer) = (Arc::clone(&asked), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let Some(request) = request(&stream) else { return };
                    let answer = {
                        let mut before = kept.lock().expect("no panic under the lock");
                        let answer = answer(&request, &before);
                        before.push(request);
                        answer
                    };
                    // Who hangs up meanwhile has no use for it.
                    let _ = (&stream).write_all(&answer);
                });
            }
        });
        Self { address, asked }
    }

    /// A folder of it as a source.
    pub(crate) fn source(&self, prefix: &str) -> String {
        format!("s3://exports/{prefix}?region=eu-west-1&endpoint=http://{}", self.address)
    }

    /// What it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic under the lock").clone()
    }
}

fn request(stream: &TcpStream) -> Option<Asked> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let mut asked = Asked { path, range: None, if_match: None };
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(": ").unwrap_or((&line, ""));
        match name.to_ascii_lowercase().as_str() {
            "range" => asked.range = Some(value.to_owned()),
            "if-match" => asked.if_match = Some(value.to_owned()),
            _ => {}
        }
    }
    Some(asked)
}

/// An answer with a body that may be shorter than it says.
pub(crate) fn answer(status: &str, headers: &str, length: usize, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// An error as S3 says it.
pub(crate) fn error(status: &str, code: &str) -> Vec<u8> {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>as scripted</Message></Error>");
    answer(status, "Content-Type: application/xml\r\n", body.len(), body.as_bytes())
}

/// A page of a list: keys and lengths, and what is said of a next page.
pub(crate) fn list(objects: &[(&str, usize)], next: &str) -> Vec<u8> {
    let object = |(key, size): &(&str, usize)| {
        format!(
            "<Contents><Key>{key}</Key><ETag>&quot;e-{key}&quot;</ETag><Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
        )
    };
    let objects: String = objects.iter().map(object).collect();
    let body = format!("<?xml version=\"1.0\"?><ListBucketResult><Name>exports</Name>{next}{objects}</ListBucketResult>");
    answer("200 OK", "Content-Type: application/xml\r\n", body.len(), body.as_bytes())
}
