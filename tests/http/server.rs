//! Who asks, gets an answer: in the form that was asked for, with the status that programs go by, and whatever other clients do.

use std::net::SocketAddr;
use std::sync::Arc;

use revsync::error::Kind;
use revsync::run::http::{recorder, serve};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{get, request, send};
use crate::states::{STUCK_AFTER, ago, blocked, healthy, running, seconds, server, shard, sink_down, waiting};

#[tokio::test]
async fn a_pipeline_that_is_well_lives_and_is_ready() {
    let server = server(&healthy().await).await;
    let (live, ready) = (get(server.address(), "/live").await, get(server.address(), "/ready").await);
    assert_eq!((live.status, live.json()), (200, json!({ "live": true, "reasons": [] })));
    assert_eq!((ready.status, ready.json()), (200, json!({ "ready": true, "reasons": [] })));
}

#[tokio::test]
async fn a_sink_that_is_down_is_a_reason_not_to_be_ready_and_none_to_be_started_anew() {
    let standing = sink_down().await;
    standing.state().progress = ago(seconds(3_000));
    standing.state().past.excused = ago(seconds(3_000));
    let server = server(&standing).await;
    let (live, ready) = (get(server.address(), "/live").await, get(server.address(), "/ready").await);
    assert_eq!((live.status, ready.status), (200, 503));
    let reasons = json!(["the sink https://search.example.com has been unreachable for 12 min: connection refused"]);
    assert_eq!(ready.json(), json!({ "ready": false, "reasons": reasons }));
}

#[tokio::test]
async fn a_pipeline_that_waits_or_is_blocked_lives_and_is_not_ready() {
    for (what, standing) in [("waiting", waiting().await), ("blocked", blocked().await)] {
        standing.state().progress = ago(seconds(3_000));
        let server = server(&standing).await;
        assert_eq!((get(server.address(), "/live").await.status, get(server.address(), "/ready").await.status), (200, 503), "{what}");
    }
}

#[tokio::test]
async fn a_process_that_settles_nothing_for_long_although_it_could_is_stuck() {
    let standing = running().await;
    shard(&standing, "shardId-000000000000", |minute| (60 * minute) as f32);
    let server = server(&standing).await;
    assert_eq!(get(server.address(), "/live").await.status, 200, "it may have been idle until now");
    let long = ago(STUCK_AFTER + seconds(1));
    (standing.state().progress, standing.state().past.excused) = (long, long);
    let live = get(server.address(), "/live").await;
    let why = "nothing was settled for 10 min, although everything can be reached and 812 records wait";
    assert_eq!((live.status, live.json()), (503, json!({ "live": false, "reasons": [why] })));
    standing.state().progress = ago(seconds(0));
    assert_eq!(get(server.address(), "/live").await.status, 200, "it goes on");
}

#[tokio::test]
async fn a_time_in_which_nothing_was_to_be_done_or_could_be_done_does_not_count_as_stuck() {
    let standing = running().await;
    let long = ago(STUCK_AFTER + seconds(1));
    (standing.state().progress, standing.state().past.excused) = (long, long);
    standing.look();
    shard(&standing, "shardId-000000000000", |minute| (60 * minute) as f32);
    assert_eq!(standing.state().summary(0).stuck(STUCK_AFTER), None, "it was idle");

    (standing.state().progress, standing.state().past.excused) = (long, long);
    standing.state().sink.is_not("connection refused");
    standing.look();
    standing.state().sink.is_there();
    standing.look();
    assert_eq!(standing.state().summary(0).stuck(STUCK_AFTER), None, "the sink was away");

    (standing.state().progress, standing.state().past.excused) = (long, long);
    standing.look();
    assert!(standing.state().summary(0).stuck(STUCK_AFTER).is_some());
}

#[tokio::test]
async fn the_status_tells_everything_that_the_page_shows() {
    let server = server(&blocked().await).await;
    let answer = get(server.address(), "/status").await;
    assert_eq!((answer.status, answer.headers["content-type"].as_str()), (200, "application/json"));
    let status = answer.json();
    assert_eq!(
        (&status["pipeline"], &status["phase"], &status["ready"], &status["live"]),
        (&json!("ledger"), &json!("running"), &json!(false), &json!(true))
    );
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        (&status["counts"]["dead_letters"], &status["data_loss"]["trimmed"], &status["paused"]),
        (&json!(37), &json!(1), &json!(true))
    );
    assert_eq!(
        (&status["blocked"][0]["index"], &json!(status["blocked"][0]["seconds"].as_u64() >= Some(740))),
        (&json!("vehicle_registration"), &json!(true))
    );
    assert_eq!((&status["sink"]["address"], &status["sink"]["reachable"]), (&json!("https://search.example.com"), &json!(true)));
    assert!(status["headline"].as_str().unwrap().starts_with("Not ready: the index vehicle_registration has been blocked for 12 min"));
    assert!(status["last_dead_letter"]["what"].as_str().unwrap().starts_with("mapper_parsing_exception"));
    let shards = status["shards"].as_array().unwrap();
    assert_eq!((shards.len(), &shards[0]["shard"], &shards[0]["phase"]), (2, &json!("shardId-000000000000"), &json!("reading")));
    assert!(
        shards[0]["lag_milliseconds"].as_u64().unwrap() >= 720_000
            && shards[0]["settled"].as_str().unwrap().starts_with("sequence number 49653")
    );
    let waits = get(crate::states::server(&waiting().await).await.address(), "/status").await.json();
    assert_eq!((&waits["phase"], &waits["waits_for"]), (&json!("waiting"), &json!("worker-b (process 9)")));
}

#[tokio::test]
async fn what_is_not_there_is_said_with_what_is() {
    let server = server(&healthy().await).await;
    for path in ["/helth", "/live/", "/favicon.ico", "//", "/../live"] {
        let answer = get(server.address(), path).await;
        assert_eq!(answer.status, 404, "{path}");
        for known in ["/live", "/metrics", "/ready", "/status"] {
            assert!(answer.body.contains(&format!("\n{known} ")), "{known}: {}", answer.body);
        }
    }
    assert_eq!(get(server.address(), "/live?verbose").await.status, 200);
}

#[tokio::test]
async fn nothing_can_be_changed_here() {
    let server = server(&healthy().await).await;
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
        let answer = request(server.address(), method, "/live").await;
        assert_eq!((answer.status, answer.headers["allow"].as_str()), (405, "GET, HEAD"), "{method}");
    }
}

#[tokio::test]
async fn head_answers_as_get_does_without_the_body() {
    let server = server(&healthy().await).await;
    for path in ["/", "/live", "/ready", "/status", "/metrics", "/nothing"] {
        let (get, head) = (get(server.address(), path).await, request(server.address(), "HEAD", path).await);
        assert_eq!((head.status, head.body.as_str()), (get.status, ""), "{path}");
        // Times in it may have more digits by then.
        assert!(head.headers["content-length"].parse::<usize>().unwrap().abs_diff(get.body.len()) < 50, "{path}");
    }
}

#[tokio::test]
async fn what_is_no_http_is_refused_and_others_are_answered() {
    let server = server(&healthy().await).await;
    assert_eq!(send(server.address(), "quit\r\n\r\n").await.status, 400);
    let long = format!("GET /live HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(100_000));
    let mut rude = TcpStream::connect(server.address()).await.unwrap();
    // The server may hang up in the middle of it.
    let _ = rude.write_all(long.as_bytes()).await;
    let mut said = Vec::new();
    let _ = rude.read_to_end(&mut said).await;
    assert!(
        said.is_empty() || said.starts_with(b"HTTP/1.1 431") || said.starts_with(b"HTTP/1.1 400"),
        "{}",
        String::from_utf8_lossy(&said)
    );
    assert_eq!(get(server.address(), "/live").await.status, 200);
}

#[tokio::test]
async fn clients_that_say_nothing_keep_nobody_from_being_answered() {
    let server = server(&healthy().await).await;
    let mut silent = Vec::new();
    for number in 0..200 {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        // Half of them begin, and go no further.
        if number % 2 == 0 {
            let _ = stream.write_all(b"GET /live HTTP/1.1\r\nhost").await;
        }
        silent.push(stream);
    }
    assert_eq!(get(server.address(), "/live").await.status, 200);
    // Those that came first had to go.
    let mut end = Vec::new();
    assert!(matches!(silent[0].read_to_end(&mut end).await, Ok(0) | Err(_)), "{}", String::from_utf8_lossy(&end));
}

#[tokio::test]
async fn an_address_that_is_in_use_or_none_of_this_machine_is_said_with_what_to_do() {
    let standing = healthy().await;
    let server = server(&standing).await;
    for listen in [server.address(), SocketAddr::from(([192, 0, 2, 1], 8080))] {
        let metrics = recorder("ledger", seconds(60)).unwrap().handle();
        let error = serve(listen, Arc::clone(&standing), metrics, STUCK_AFTER).await.unwrap_err();
        assert!(error.kind == Kind::Usage && error.what.contains(&format!("http: {listen} cannot be listened at: ")), "{error}");
        assert!(error.help.as_ref().is_some_and(|help| help.contains("--http")), "{error:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_stopped_gives_its_port_back() {
    let standing = healthy().await;
    let server = server(&standing).await;
    let address = server.address();
    // One that keeps its connection open is not waited for.
    let _idle = TcpStream::connect(address).await.unwrap();
    assert_eq!(get(address, "/live").await.status, 200);
    server.stop().await;
    let metrics = recorder("ledger", seconds(60)).unwrap().handle();
    serve(address, standing, metrics, STUCK_AFTER).await.unwrap();
}
