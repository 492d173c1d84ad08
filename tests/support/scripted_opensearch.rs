//! An OpenSearch that does what a healthy one never does: refuse, hang, cut its answers off, or carry a request out and not say so.
//!
//! Speaks real HTTP on a loopback port. It keeps documents under external versions, so that what a request did before its answer was lost
//! is really done, and a test can compare the end with what it should be. A script says how the next `_bulk` requests are answered; when it
//! has run out, requests are answered properly. It records everything that it was sent.
//!
//! ```ignore
//! let server = Scripted::start().await;
//! server.script([Step::after_writing(Fate::Drop), Step::status(429, "slow down").header("retry-after", "2"), Step::reject(1, 400, "mapper_parsing_exception", "failed to parse")]);
//! // … write to server.url() …
//! assert_eq!(server.bulks().len(), 4);
//! assert_eq!(server.document("people", "1"), Some((7, Some("{}".to_owned()))));
//! ```
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Read;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use time::{OffsetDateTime, PrimitiveDateTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle};

/// What becomes of an answer.
#[derive(Debug, Clone)]
pub enum Fate {
    /// The proper answer is sent.
    Answer,
    /// No answer, the connection is closed.
    Drop,
    /// The connection is reset while the request still comes; nothing of it is carried out or recorded.
    Reset,
    /// No answer, and the connection stays open.
    Hang,
    /// The proper answer's first so many bytes are sent, under its full length, and the connection is closed.
    Cut(usize),
    /// This is sent in place of the proper answer, with status 200.
    Say(String),
    /// This is sent in place of the proper answer.
    Status(u16, String),
}

/// How one `_bulk` request is answered.
#[derive(Debug, Clone)]
pub struct Step {
    writes: bool,
    fate: Fate,
    /// Operations that are refused, by place: status, type and reason.
    refused: BTreeMap<usize, (u16, String, String)>,
    headers: Vec<(String, String)>,
}

impl Step {
    /// Carry the request out and answer properly.
    pub fn proper() -> Self {
        Self { writes: true, fate: Fate::Answer, refused: BTreeMap::new(), headers: Vec::new() }
    }

    /// Carry the request out, and then let this become of the answer.
    pub fn after_writing(fate: Fate) -> Self {
        Self { fate, ..Self::proper() }
    }

    /// Do nothing of it, and let this become of the answer.
    pub fn without_writing(fate: Fate) -> Self {
        Self { writes: false, fate, ..Self::proper() }
    }

    /// Do nothing of it and answer with a status.
    pub fn status(status: u16, body: &str) -> Self {
        Self::without_writing(Fate::Status(status, body.to_owned()))
    }

    /// Refuse the operation at this place (from 0), and carry the others out. [`also`](Self::also) refuses more.
    pub fn reject(place: usize, status: u16, kind: &str, reason: &str) -> Self {
        Self::proper().also(place, status, kind, reason)
    }

    /// Refuses one more operation.
    pub fn also(mut self, place: usize, status: u16, kind: &str, reason: &str) -> Self {
        self.refused.insert(place, (status, kind.to_owned(), reason.to_owned()));
        self
    }

    /// Adds a header to the answer.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    /// `GET`, `POST` …
    pub method: String,
    /// The host in front of the path, as a proxy is asked.
    pub authority: Option<String>,
    /// The path, still escaped.
    pub path: String,
    /// The query, still escaped.
    pub query: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as it was sent.
    pub wire: Bytes,
    /// The body, decompressed.
    pub body: Bytes,
}

impl Request {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The lines of the decompressed body, without their newlines.
    pub fn lines(&self) -> Vec<String> {
        String::from_utf8(self.body.to_vec()).expect("bulk lines are UTF-8").split_terminator('\n').map(str::to_owned).collect()
    }

    /// `index ID@VERSION` or `delete ID@VERSION` of each operation, in order.
    pub fn operations(&self) -> Vec<String> {
        let actions = parse(&self.body);
        actions.iter().map(|action| format!("{} {}@{}", action.name, action.id, action.version.unwrap_or_default())).collect()
    }
}

#[derive(Debug, Clone)]
struct Fixed {
    status: u16,
    body: String,
    headers: Vec<(String, String)>,
}

#[derive(Debug, Default)]
struct State {
    script: VecDeque<Step>,
    requests: Vec<Request>,
    /// By method and path.
    fixed: HashMap<(String, String), Fixed>,
    /// What is answered once each, by method and path.
    queued: HashMap<(String, String), VecDeque<Fixed>>,
    required_header: Option<(String, String)>,
    /// Alias to index; an index stands for itself.
    names: HashMap<String, String>,
    /// By index and id: the version and the source, which a delete leaves empty.
    documents: BTreeMap<(String, String), (u64, Option<String>)>,
    uuids: bool,
    ignores_versions: bool,
    /// By how many seconds the server's clock is ahead.
    clock: Option<i64>,
    resets: usize,
}

/// The server. Ends when it is dropped.
#[derive(Debug)]
pub struct Scripted {
    address: SocketAddr,
    scheme: &'static str,
    state: Arc<Mutex<State>>,
    arrived: Arc<Notify>,
    accepting: JoinHandle<()>,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.accepting.abort();
        for connection in self.connections.lock().expect("no panic under the lock").drain(..) {
            connection.abort();
        }
    }
}

impl Scripted {
    /// Starts a server on a free port.
    pub async fn start() -> Self {
        Self::start_on(SocketAddr::from(([127, 0, 0, 1], 0)), None).await
    }

    /// Starts a server that speaks TLS.
    pub async fn start_tls(tls: tokio_rustls::rustls::ServerConfig) -> Self {
        Self::start_on(SocketAddr::from(([127, 0, 0, 1], 0)), Some(tls)).await
    }

    /// Starts a server on a given address, such as that of one that was stopped.
    pub async fn start_on(address: SocketAddr, tls: Option<tokio_rustls::rustls::ServerConfig>) -> Self {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let state = Arc::new(Mutex::new(State::default()));
        let arrived = Arc::new(Notify::new());
        let connections = Arc::new(Mutex::new(Vec::new()));
        let scheme = if tls.is_some() { "https" } else { "http" };
        let acceptor = tls.map(|tls| tokio_rustls::TlsAcceptor::from(Arc::new(tls)));
        let accepting = tokio::spawn(accept(listener, acceptor, Arc::clone(&state), Arc::clone(&arrived), Arc::clone(&connections)));
        Self { address, scheme, state, arrived, accepting, connections }
    }

    /// Closes the port and every connection, and gives the address.
    pub async fn stop(mut self) -> SocketAddr {
        self.accepting.abort();
        let _ = (&mut self.accepting).await;
        self.address
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds to the script.
    pub fn script(&self, steps: impl IntoIterator<Item = Step>) {
        self.state().script.extend(steps);
    }

    /// Forgets the rest of the script.
    pub fn clear(&self) {
        self.state().script.clear();
    }

    /// Answers every request of this method and path with this, whatever else holds.
    pub fn fix(&self, method: &str, path: &str, status: u16, body: &str, headers: &[(&str, &str)]) {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.state().fixed.insert((method.to_owned(), path.to_owned()), Fixed { status, body: body.to_owned(), headers });
    }

    /// Answers the next requests of this method and path with these, one after the other.
    pub fn queue(&self, method: &str, path: &str, answers: impl IntoIterator<Item = (u16, String)>) {
        let answers = answers.into_iter().map(|(status, body)| Fixed { status, body, headers: Vec::new() });
        self.state().queued.entry((method.to_owned(), path.to_owned())).or_default().extend(answers);
    }

    /// From now on, requests without this header value are answered with 401.
    pub fn require_header(&self, name: &str, value: &str) {
        self.state().required_header = Some((name.to_owned(), value.to_owned()));
    }

    /// Tells the UUIDs of indices, as a real server does; clients then guard against indices that change under their hands.
    pub fn tell_uuids(&self) {
        self.state().uuids = true;
    }

    /// From now on the server's clock is so many seconds ahead of this machine's: its answers say so, and it refuses a signed request that was
    /// dated more than five minutes before or after, as AWS does.
    pub fn set_clock(&self, ahead: i64) {
        self.state().clock = Some(ahead);
    }

    /// How often a connection was reset.
    pub fn resets(&self) -> usize {
        self.state().resets
    }

    /// From now on every write succeeds, whatever its version.
    pub fn ignore_versions(&self) {
        self.state().ignores_versions = true;
    }

    /// Makes an index, with a name of its own or under an alias.
    pub fn add_index(&self, index: &str, alias: Option<&str>) {
        let mut state = self.state();
        state.names.insert(index.to_owned(), index.to_owned());
        if let Some(alias) = alias {
            state.names.insert(alias.to_owned(), index.to_owned());
        }
    }

    /// Everything that was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    /// The `_bulk` requests so far.
    pub fn bulks(&self) -> Vec<Request> {
        self.state().requests.iter().filter(|request| is_bulk(request)).cloned().collect()
    }

    /// Waits until so many `_bulk` requests have arrived.
    pub async fn arrived(&self, count: usize) {
        loop {
            let notified = self.arrived.notified();
            if self.bulks().len() >= count {
                return;
            }
            notified.await;
        }
    }

    /// Version and source of a document, by index or alias; the source is `None` where it was deleted.
    pub fn document(&self, name: &str, id: &str) -> Option<(u64, Option<String>)> {
        let state = self.state();
        let index = state.names.get(name)?;
        state.documents.get(&(index.clone(), id.to_owned())).cloned()
    }

    /// The documents of an index or alias that are not deleted: id to version and source.
    pub fn documents(&self, name: &str) -> BTreeMap<String, (u64, String)> {
        let state = self.state();
        let Some(index) = state.names.get(name) else { return BTreeMap::new() };
        let of_index = state.documents.iter().filter(|((of, _), _)| of == index);
        of_index.filter_map(|((_, id), (version, source))| Some((id.clone(), (*version, source.clone()?)))).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under the lock")
    }
}

async fn accept(
    listener: TcpListener,
    tls: Option<tokio_rustls::TlsAcceptor>,
    state: Arc<Mutex<State>>,
    arrived: Arc<Notify>,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (state, arrived, tls) = (Arc::clone(&state), Arc::clone(&arrived), tls.clone());
        let task = tokio::spawn(async move {
            match tls {
                None => converse(stream, state, arrived).await,
                Some(tls) => {
                    // A client that does not trust us ends here, which is what it should do.
                    if let Ok(stream) = tls.accept(stream).await {
                        converse(stream, state, arrived).await;
                    }
                }
            }
        });
        connections.lock().expect("no panic under the lock").push(task.abort_handle());
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin + 'static, state: Arc<Mutex<State>>, arrived: Arc<Notify>) {
    let service = service_fn(move |request| respond(request, Arc::clone(&state), Arc::clone(&arrived)));
    // Ends with an error on every `Fate::Drop`.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

type Response = hyper::Response<Cut>;

async fn respond(request: hyper::Request<Incoming>, state: Arc<Mutex<State>>, arrived: Arc<Notify>) -> Result<Response, std::io::Error> {
    let (head, body) = request.into_parts();
    if head.uri.path().ends_with("/_bulk") && state.lock().expect("no panic under the lock").is_reset() {
        return Err(std::io::Error::other("as the script wants it"));
    }
    let wire = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let headers: Vec<(String, String)> =
        head.headers.iter().map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())).collect();
    let gzip = headers.iter().any(|(name, value)| name == "content-encoding" && value == "gzip");
    let request = Request {
        method: head.method.to_string(),
        authority: head.uri.authority().map(ToString::to_string),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers,
        body: if gzip { decompressed(&wire)? } else { wire.clone() },
        wire,
    };
    let (decided, now) = {
        let mut state = state.lock().expect("no panic under the lock");
        state.requests.push(request.clone());
        let now = state.clock.map(now);
        (now.and_then(|now| untimely(&request, now)).unwrap_or_else(|| state.answer(&request)), now)
    };
    if is_bulk(&request) {
        arrived.notify_waiters();
    }
    match decided {
        Decided::Hang => std::future::pending().await,
        Decided::Drop => Err(std::io::Error::other("as the script wants it")),
        Decided::Send { status, body, headers, cut } => {
            let mut response = hyper::Response::builder().status(status).header("content-type", "application/json; charset=UTF-8");
            if let Some(now) = now {
                response = response.header("date", httpdate::fmt_http_date(now.into()));
            }
            if let Some(kept) = cut {
                response = response.header("content-length", body.len());
                let body = Cut { rest: Some(Bytes::from(body).slice(..kept)), fails: true };
                return Ok(response.body(body).expect("a valid response"));
            }
            for (name, value) in headers {
                response = response.header(name, value);
            }
            Ok(response.body(Cut { rest: Some(Bytes::from(body)), fails: false }).expect("a valid response"))
        }
    }
}

/// The time of a clock that is so many seconds ahead.
fn now(ahead: i64) -> OffsetDateTime {
    OffsetDateTime::now_utc() + time::Duration::seconds(ahead)
}

/// The refusal of a request whose signature was made more than five minutes before or after.
fn untimely(request: &Request, now: OffsetDateTime) -> Option<Decided> {
    let form = time::format_description::parse_borrowed::<2>("[year][month][day]T[hour][minute][second]Z").expect("a valid form");
    let shown = |time: OffsetDateTime| time.format(&form).expect("a time that can be written");
    let dated = PrimitiveDateTime::parse(request.header("x-amz-date")?, &form).expect("a valid x-amz-date").assume_utc();
    let tolerance = time::Duration::minutes(5);
    let (is, was, limit) = if dated < now - tolerance {
        ("expired", "now earlier", now - tolerance)
    } else if dated > now + tolerance {
        ("not yet current", "still later", now + tolerance)
    } else {
        return None;
    };
    let message = format!("Signature {is}: {} is {was} than {} ({})", shown(dated), shown(limit), shown(now));
    let headers = vec![("x-amzn-errortype".to_owned(), "InvalidSignatureException".to_owned())];
    Some(Decided::Send { status: 403, body: json!({ "message": message }).to_string(), headers, cut: None })
}

fn decompressed(wire: &[u8]) -> Result<Bytes, std::io::Error> {
    let mut body = Vec::new();
    flate2::read::GzDecoder::new(wire).read_to_end(&mut body)?;
    Ok(Bytes::from(body))
}

fn is_bulk(request: &Request) -> bool {
    request.path.ends_with("/_bulk")
}

enum Decided {
    Hang,
    Drop,
    Send { status: u16, body: String, headers: Vec<(String, String)>, cut: Option<usize> },
}

fn send(status: u16, body: String) -> Decided {
    Decided::Send { status, body, headers: Vec::new(), cut: None }
}

fn error(status: u16, kind: &str, reason: &str) -> Decided {
    send(status, json!({"error": {"type": kind, "reason": reason}, "status": status}).to_string())
}

struct Action {
    name: String,
    index: String,
    id: String,
    version: Option<u64>,
    gte: bool,
    require_alias: bool,
    source: Option<String>,
}

fn parse(body: &[u8]) -> Vec<Action> {
    assert_eq!(body.last(), Some(&b'\n'), "the last byte of a bulk body is a newline");
    let text = std::str::from_utf8(body).expect("bulk lines are UTF-8");
    let mut lines = text.split_terminator('\n');
    let mut actions = Vec::new();
    while let Some(line) = lines.next() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("not an action line: {line}: {error}"));
        let (name, meta) = line.as_object().and_then(|line| line.iter().next()).expect("an action line has one member");
        let source = (name != "delete").then(|| lines.next().expect("a source line after the action").to_owned());
        actions.push(Action {
            name: name.clone(),
            index: meta["_index"].as_str().expect("an index name").to_owned(),
            id: meta["_id"].as_str().expect("an id that is a string").to_owned(),
            version: meta["version"].as_u64(),
            gte: meta["version_type"] == "external_gte",
            require_alias: meta["require_alias"] == true,
            source,
        });
    }
    actions
}

impl State {
    /// Whether the next step of the script resets the connection; it is then over.
    fn is_reset(&mut self) -> bool {
        let reset = self.script.pop_front_if(|step| matches!(step.fate, Fate::Reset)).is_some();
        self.resets += usize::from(reset);
        reset
    }

    fn answer(&mut self, request: &Request) -> Decided {
        if let Some((name, value)) = &self.required_header
            && request.header(name) != Some(value)
        {
            return send(401, "Unauthorized".to_owned());
        }
        let queued = self.queued.get_mut(&(request.method.clone(), request.path.clone())).and_then(VecDeque::pop_front);
        if let Some(Fixed { status, body, headers }) = queued {
            return Decided::Send { status, body, headers, cut: None };
        }
        if let Some(Fixed { status, body, headers }) = self.fixed.get(&(request.method.clone(), request.path.clone())).cloned() {
            return Decided::Send { status, body, headers, cut: None };
        }
        let path: Vec<&str> = request.path.trim_matches('/').split('/').collect();
        match (request.method.as_str(), path.as_slice()) {
            ("GET", [""]) => {
                send(200, json!({"cluster_name": "scripted", "version": {"distribution": "opensearch", "number": "3.0.0"}}).to_string())
            }
            (_, [.., "_bulk"]) => self.bulk(request),
            (_, [_, "_refresh"]) => send(200, "{}".to_owned()),
            ("GET", [name]) => self.describe(name),
            ("PUT", [name]) => self.create(name, &request.body),
            ("PUT", [name, "_mapping"]) if self.names.contains_key(*name) => send(200, json!({"acknowledged": true}).to_string()),
            ("DELETE", [name]) => {
                self.names.retain(|_, index| index != name);
                send(200, "{}".to_owned())
            }
            ("PUT" | "DELETE", [name, "_doc", id]) => self.write_one(request, name, id),
            _ => error(400, "illegal_argument_exception", "not in the script"),
        }
    }

    fn describe(&self, name: &str) -> Decided {
        let Some(index) = self.names.get(name) else { return error(404, "index_not_found_exception", &format!("no such index [{name}]")) };
        let aliases: serde_json::Map<String, Value> = self
            .names
            .iter()
            .filter(|(alias, target)| *target == index && *alias != index)
            .map(|(alias, _)| (alias.clone(), json!({"is_write_index": true})))
            .collect();
        let uuid = if self.uuids { json!({"uuid": uuid(index)}) } else { json!({}) };
        send(200, json!({ index: {"aliases": aliases, "settings": {"index": uuid}} }).to_string())
    }

    fn create(&mut self, name: &str, body: &[u8]) -> Decided {
        if self.names.contains_key(name) {
            return error(400, "resource_already_exists_exception", &format!("index [{name}/x] already exists"));
        }
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        self.names.insert(name.to_owned(), name.to_owned());
        for alias in body["aliases"].as_object().into_iter().flat_map(serde_json::Map::keys) {
            self.names.insert(alias.clone(), name.to_owned());
        }
        send(200, json!({"acknowledged": true, "index": name}).to_string())
    }

    fn write_one(&mut self, request: &Request, index: &str, id: &str) -> Decided {
        let version = request.query.split('&').find_map(|pair| pair.strip_prefix("version=")?.parse().ok());
        let source = (request.method == "PUT").then(|| String::from_utf8_lossy(&request.body).into_owned());
        let name = if source.is_some() { "index" } else { "delete" }.to_owned();
        let action =
            Action { name: name.clone(), index: index.to_owned(), id: id.to_owned(), version, gte: false, require_alias: false, source };
        let item = self.carry_out(&Step::proper(), 0, &action)[&name].clone();
        send(item["status"].as_u64().and_then(|status| status.try_into().ok()).expect("an item has a status"), item.to_string())
    }

    fn bulk(&mut self, request: &Request) -> Decided {
        let step = self.script.pop_front().unwrap_or_else(Step::proper);
        let body = if step.writes {
            let items: Vec<Value> = parse(&request.body).iter().enumerate().map(|(at, action)| self.carry_out(&step, at, action)).collect();
            let errors = items.iter().any(|item| item.to_string().contains("\"error\""));
            json!({"errors": errors, "items": items}).to_string()
        } else {
            String::new()
        };
        match step.fate {
            Fate::Answer => Decided::Send { status: 200, body, headers: step.headers, cut: None },
            Fate::Drop | Fate::Reset => Decided::Drop,
            Fate::Hang => Decided::Hang,
            Fate::Cut(kept) => Decided::Send { status: 200, body, headers: step.headers, cut: Some(kept) },
            Fate::Say(body) => Decided::Send { status: 200, body, headers: step.headers, cut: None },
            Fate::Status(status, body) => Decided::Send { status, body, headers: step.headers, cut: None },
        }
    }

    fn carry_out(&mut self, step: &Step, at: usize, action: &Action) -> Value {
        let item = |status: u16, error: Option<(&str, &str)>| {
            let mut item = json!({ "status": status });
            if let Some((kind, reason)) = error {
                item["error"] = json!({"type": kind, "reason": reason, "index_uuid": "_na_"});
            }
            json!({ &action.name: item })
        };
        if let Some((status, kind, reason)) = step.refused.get(&at) {
            return item(*status, Some((kind, reason)));
        }
        let Some(index) = self.names.get(&action.index).cloned() else {
            return item(404, Some(("index_not_found_exception", "no such index")));
        };
        if action.require_alias && index == action.index {
            return item(404, Some(("index_not_found_exception", "no alias")));
        }
        if action.name == "update" && action.id != "revsync-guard" {
            // It knows no scripts; what is sent is what is looked at.
            return json!({"update": {"status": 200, "result": "updated"}});
        }
        if action.name == "update" {
            let missing = json!({"type": "document_missing_exception", "reason": "document missing", "index_uuid": uuid(&index)});
            return json!({"update": {"status": 404, "error": missing}});
        }
        let version = action.version.expect("every operation has a version");
        let before = self.documents.get(&(index.clone(), action.id.clone()));
        if !self.ignores_versions && before.is_some_and(|(stored, _)| if action.gte { *stored > version } else { *stored >= version }) {
            return item(409, Some(("version_conflict_engine_exception", "version conflict")));
        }
        let existed = before.is_some_and(|(_, source)| source.is_some());
        let status = match (action.name.as_str(), existed) {
            ("delete", false) => 404,
            (_, true) => 200,
            _ => 201,
        };
        self.documents.insert((index, action.id.clone()), (version, action.source.clone()));
        item(status, None)
    }
}

fn uuid(index: &str) -> String {
    format!("uuid-of-{index}")
}

/// A body in one piece, after which the connection may break.
#[derive(Debug)]
pub struct Cut {
    rest: Option<Bytes>,
    fails: bool,
}

impl Body for Cut {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.rest.take() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None if self.fails => Poll::Ready(Some(Err(std::io::Error::other("as the script wants it")))),
            None => Poll::Ready(None),
        }
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match &self.rest {
            Some(bytes) if !self.fails => hyper::body::SizeHint::with_exact(bytes.len() as u64),
            _ => hyper::body::SizeHint::default(),
        }
    }
}
