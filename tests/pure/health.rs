//! The health check of a container: what `revsync health` says of a worker that lives, of one that does not, and of none.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use crate::command::{Done, Folder};

/// Answers one request with this; gives the address, and the request.
fn worker(answer: &'static str) -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut byte = [0];
        while !request.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            request.push(byte[0]);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(request).unwrap()
    });
    (address, asked)
}

fn ask(arguments: &[&str], http: &str) -> Done {
    Folder::new().revsync_with(arguments, &[("REVSYNC_HTTP", http)], b"")
}

#[test]
fn a_worker_that_lives_is_healthy() {
    let (address, asked) = worker("HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{\"a\": true}");
    let done = ask(&["health"], &address);
    assert_eq!((done.exit, done.out.as_str(), done.err.as_str()), (0, "live {\"a\": true}\n", ""));
    assert!(asked.join().unwrap().starts_with("GET /live HTTP/1.1\r\n"));
}

#[test]
fn a_worker_that_listens_everywhere_is_asked_on_this_machine() {
    let (address, asked) = worker("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let done = ask(&["health"], &address.replace("127.0.0.1", "0.0.0.0"));
    assert_eq!((done.exit, done.out.as_str()), (0, "live\n"));
    assert!(asked.join().unwrap().to_lowercase().contains(&format!("\r\nhost: {address}\r\n")));
}

#[test]
fn a_worker_that_is_stuck_or_not_ready_is_told_with_its_reasons_and_exit_1() {
    let unavailable = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 17\r\n\r\nsink\u{1b}[2J: is down";
    for (arguments, path, said) in [(["health"].as_slice(), "/live", "live"), (&["health", "--ready"], "/ready", "ready")] {
        let (address, asked) = worker(unavailable);
        let done = ask(arguments, &address);
        // Nothing that was answered reaches a terminal with its control characters.
        assert_eq!((done.exit, done.out), (1, format!("not {said}: status 503 sink\u{fffd}[2J: is down\n")));
        assert!(asked.join().unwrap().starts_with(&format!("GET {path} ")));
    }
    let (address, _asked) = worker(unavailable);
    let done = ask(&["health", "--json"], &address);
    assert_eq!((done.exit, done.json()["ok"].as_bool(), done.json()["status"].as_str()), (1, Some(false), Some("not live: status 503")));
}

#[test]
fn where_no_worker_answers_there_is_none_that_lives() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let done = ask(&["health"], &free);
    assert_eq!(done.exit, 1);
    assert!(done.out.starts_with(&format!("not live: {free}: ")), "{done:?}");
    let (address, _asked) = worker("");
    assert_eq!(ask(&["health"], &address).exit, 1);
}

#[test]
fn where_the_worker_answers_is_what_the_configuration_says() {
    let (address, asked) = worker("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let folder = Folder::new();
    folder.write("revsync.toml", format!("[http]\nlisten = \"{address}\"\n"));
    assert_eq!(folder.revsync(&["--config", "revsync.toml", "health"]).exit, 0);
    assert!(asked.join().unwrap().starts_with("GET /live "));
    for (http, found) in [("none", "found none"), ("nowhere", "\"nowhere\"")] {
        let done = ask(&["health"], http);
        assert!(done.exit == 2 && done.err.contains(found), "{done:?}");
    }
}
