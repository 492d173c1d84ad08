//! A client of HTTP that can be as rude as it likes.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What a server answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn read(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.map(|line| line.split_once(": ").unwrap()).map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        Self { status, headers: headers.collect(), body: body.to_owned() }
    }
}

/// Sends this and reads until the server closes the connection.
pub async fn send(address: SocketAddr, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    Answer::read(&String::from_utf8(answer).unwrap())
}

pub async fn request(address: SocketAddr, method: &str, path: &str) -> Answer {
    send(address, &format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")).await
}

pub async fn get(address: SocketAddr, path: &str) -> Answer {
    request(address, "GET", path).await
}
