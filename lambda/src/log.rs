//! The function's log on standard error: one JSON object for each line, with `timestamp`, `level`, `message`, its fields, and `requestId` while an
//! invocation is under way.
//!
//! Goes by `AWS_LAMBDA_LOG_FORMAT` (`Text` gives text) and `AWS_LAMBDA_LOG_LEVEL`, which Lambda sets from the function's logging configuration;
//! `RUST_LOG` says more exactly what is heard. Never holds a document's values, whatever they say.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, PoisonError, RwLock};

use revsync::cli::may_be_told;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

/// What an invocation's own line says already (the runtime), and what is no error (a distribution that has more values than are printed).
const ELSEWHERE: &str = "lambda_runtime=off,metrics_cloudwatch_embedded=off";

/// The invocation that is under way: Lambda hands one process no two at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestId(Arc<RwLock<Option<String>>>);

impl RequestId {
    /// An invocation begins.
    pub(crate) fn set(&self, id: &str) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(id.to_owned());
    }

    fn get(&self) -> Option<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Starts the log.
pub(crate) fn start(variables: &BTreeMap<String, String>, request: &RequestId) {
    let json = !variables.get("AWS_LAMBDA_LOG_FORMAT").is_some_and(|format| format.eq_ignore_ascii_case("text"));
    let (given, request) = (variables.get("RUST_LOG").map(EnvFilter::try_new), request.clone());
    let wrong = matches!(given, Some(Err(_)));
    let filter = given.and_then(Result::ok).unwrap_or_else(|| EnvFilter::new(level(variables.get("AWS_LAMBDA_LOG_LEVEL"))));
    let lines = fmt::layer().with_ansi(false).with_writer(move || Line { request: request.get(), json });
    let lines = if json { lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed() } else { lines.boxed() };
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter.and(filter_fn(may_be_told)))).try_init();
    if wrong {
        tracing::warn!("RUST_LOG: expected levels such as warn,revsync=debug, found something else; it is ignored");
    }
}

/// What is heard at a level of Lambda's.
fn level(level: Option<&String>) -> String {
    let heard = match level.map(|level| level.to_ascii_uppercase()).as_deref() {
        Some("TRACE") => "debug,revsync=trace",
        Some("DEBUG") => "info,revsync=debug",
        Some("WARN") => "warn",
        Some("ERROR" | "FATAL") => "error",
        _ => "warn,revsync=info",
    };
    format!("{heard},{ELSEWHERE}")
}

/// Writes a line as a whole. Never fails: of an error tracing would tell on standard error, and panic where that is closed.
struct Line {
    request: Option<String>,
    json: bool,
}

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut whole = Vec::with_capacity(line.len() + 64);
        match (&self.request, line) {
            (Some(id), [b'{', members @ ..]) if self.json => {
                // The lines of spawned work too, which a span around the handler would not reach.
                whole.extend(br#"{"requestId":"#);
                let _ = serde_json::to_writer(&mut whole, id);
                whole.push(b',');
                whole.extend(members);
            }
            (id, line) => {
                if let Some(id) = id {
                    whole.extend(id.as_bytes());
                    whole.push(b' ');
                }
                let line = line.strip_suffix(b"\n").unwrap_or(line);
                // A name of a stream or table may have what would begin another line; JSON has it escaped.
                for byte in line {
                    if byte.is_ascii_control() { whole.extend(byte.escape_ascii()) } else { whole.push(*byte) }
                }
                whole.push(b'\n');
            }
        }
        let _ = io::stderr().lock().write_all(&whole);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
