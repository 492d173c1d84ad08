//! What a process that lives on answers over HTTP, on one port: whether it lives, whether it is ready, its metrics, and how it stands.
//!
//! Only tells: nothing can be changed here, and whoever reaches the port may ask, so it belongs into a private network. A client that is slow or
//! says nothing takes a bounded share and no other client's turn.

mod page;
mod recorder;
mod status;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::clock;
use super::standing::{ShardPhase, Standing};
use crate::error::Error;
use crate::metrics::instruments::{self, Home, PHASES};
use crate::plan::health::Summary;
pub use recorder::{install, recorder};
use status::Status;

/// How often it is looked how things stand.
const LOOK: Duration = Duration::from_secs(5);
/// How long a client may take for the head of a request, or keep a connection without one.
const HEAD: Duration = Duration::from_secs(10);
/// How long a client may keep a connection at all.
const CONNECTION: Duration = Duration::from_secs(60);
/// Bytes of a head.
const HEAD_BYTES: usize = 16 * 1024;
/// Connections at once; when one more comes, the oldest has to go.
const CONNECTIONS: usize = 64;
/// How long answers that are under way may take when it ends.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// Shards on the page.
const SHOWN: usize = 50;

/// What can be asked for, and what that is.
const PATHS: [(&str, &str); 5] = [
    ("/", "how things stand, for people"),
    ("/live", "200, or 503 while the process is stuck and has to be started anew"),
    ("/metrics", "metrics in the text format of Prometheus"),
    ("/ready", "200, or 503 with the reasons while anything cannot be reached or an index is blocked"),
    ("/status", "how things stand, as JSON"),
];

/// Answers requests until it is stopped or dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Server {
    /// Where it answers; the port is the one that was free, where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the answers that are under way, and takes no more requests.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.serving.await;
    }
}

/// Begins to answer requests at an address: how `standing` is, and what `metrics` has counted. `stuck_after` is the time without progress
/// after which the process counts as stuck.
///
/// # Errors
/// The address is in use, or none of this machine.
pub async fn serve(listen: SocketAddr, standing: Arc<Standing>, metrics: PrometheusHandle, stuck_after: Duration) -> Result<Server, Error> {
    let refused = |error| {
        Error::usage(format!("http: {listen} cannot be listened at: {error}"))
            .help("name another address with --http, such as 127.0.0.1:0 for any free port, or none to answer nothing")
    };
    let listener = TcpListener::bind(listen).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    instruments::announce(Home::Line);
    instruments::announce(Home::Worker);
    standing.look();
    tracing::info!(%address, "http: answers at http://{address}/");
    let (stop, stopped) = oneshot::channel();
    let answers = Arc::new(Answers { standing, metrics, stuck_after });
    Ok(Server { address, stop, serving: tokio::spawn(run(listener, answers, stopped)) })
}

async fn run(listener: TcpListener, answers: Arc<Answers>, mut stopped: oneshot::Receiver<()>) {
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let graceful = GracefulShutdown::new();
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            _ = ticks.tick() => {
                answers.standing.look();
                answers.metrics.run_upkeep();
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    open.retain(|connection| !connection.is_finished());
                    if open.len() >= CONNECTIONS && let Some(oldest) = open.pop_front() {
                        oldest.abort();
                    }
                    open.push_back(connection(stream, &answers, &graceful));
                }
                Err(error) => {
                    // No more files can be opened, as a rule; it passes, and nothing else stops because of it.
                    tracing::warn!("http: a connection cannot be taken: {error}");
                    sleep(Duration::from_secs(1)).await;
                }
            },
        }
    }
    drop(listener);
    let _ = timeout(LAST_ANSWERS, graceful.shutdown()).await;
    open.iter().for_each(AbortHandle::abort);
}

fn connection(stream: TcpStream, answers: &Arc<Answers>, graceful: &GracefulShutdown) -> AbortHandle {
    let answers = Arc::clone(answers);
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answers.answer(&request);
        async move { Ok::<_, hyper::Error>(answer) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let connection = graceful.watch(connection);
    // What goes wrong with a client is its own affair.
    tokio::spawn(async move { drop(timeout(CONNECTION, connection).await) }).abort_handle()
}

/// What is answered.
struct Answers {
    standing: Arc<Standing>,
    metrics: PrometheusHandle,
    stuck_after: Duration,
}

impl Answers {
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "expected GET or HEAD: nothing can be changed here\n".to_owned());
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        let of = |good| if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        match request.uri().path() {
            "/" => page(page::write(&self.status(SHOWN), SHOWN)),
            "/status" => json(StatusCode::OK, &self.status(0)),
            "/live" => {
                let stuck = self.summary().stuck(self.stuck_after);
                json(of(stuck.is_none()), &serde_json::json!({ "live": stuck.is_none(), "reasons": Vec::from_iter(stuck) }))
            }
            "/ready" => {
                let reasons = self.summary().not_ready();
                json(of(reasons.is_empty()), &serde_json::json!({ "ready": reasons.is_empty(), "reasons": reasons }))
            }
            "/metrics" => {
                self.show();
                let mut answer = text(StatusCode::OK, self.metrics.render());
                let format = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                answer.headers_mut().insert(CONTENT_TYPE, format);
                answer
            }
            _ => {
                let paths: String = PATHS.iter().map(|(path, what)| format!("{path:<10}{what}\n")).collect();
                text(StatusCode::NOT_FOUND, format!("there is nothing here; expected one of\n{paths}"))
            }
        }
    }

    fn status(&self, with_past: usize) -> Status {
        Status::of(&self.standing.state(), clock::millis(), self.stuck_after, with_past)
    }

    fn summary(&self) -> Summary {
        self.standing.state().summary(clock::millis())
    }

    /// Shows in the instruments how things stand. What is not set here, such as a shard that has ended, is forgotten after a while.
    fn show(&self) {
        let (now, state) = (clock::millis(), self.standing.state());
        let summary = state.summary(now);
        instruments::health(summary.stuck(self.stuck_after).is_none(), summary.not_ready().is_empty(), state.stale.ratio());
        for phase in PHASES {
            instruments::shards(phase, state.shards.values().filter(|shard| status::phase_of(shard) == phase).count());
        }
        for (name, shard) in state.shards.iter().filter(|(_, shard)| shard.phase == ShardPhase::Reading) {
            instruments::shard(name, shard.lag(now), shard.unread.unwrap_or_default() + shard.unsettled as u64, shard.saved.map(|saved| saved.elapsed()));
        }
        state.blocked.iter().for_each(|blocked| instruments::index_blocked(&blocked.index, true));
        instruments::still_there();
    }
}

fn json(status: StatusCode, value: &impl serde::Serialize) -> Response<Full<Bytes>> {
    let mut body = serde_json::to_string(value).unwrap_or_default();
    body.push('\n');
    with(status, "application/json", body)
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    with(status, "text/plain; charset=utf-8", body)
}

fn page(body: String) -> Response<Full<Bytes>> {
    let mut answer = with(StatusCode::OK, "text/html; charset=utf-8", body);
    for (name, value) in page::headers() {
        answer.headers_mut().insert(name, value.clone());
    }
    answer
}

fn with(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let length = HeaderValue::from(body.len());
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    answer.headers_mut().insert(CONTENT_LENGTH, length);
    *answer.status_mut() = status;
    for (name, value) in
        [(CONTENT_TYPE, content_type), (CACHE_CONTROL, "no-store"), (HeaderName::from_static("x-content-type-options"), "nosniff")]
    {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}
