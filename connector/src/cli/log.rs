//! What is said on standard error while a command works: which lines are heard, and in which form.
//!
//! Never holds a document's values: what could quote one is not heard whatever RUST_LOG says. One event is one line, whatever is in a name.

use tracing::{Level, Metadata};
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use super::options::Global;
use super::terminal::Terminal;
use crate::config::{Environment, LogFormat};

/// Starts the log. RUST_LOG says more exactly what -v says roughly. A command that `lives_on` tells what it does and when, because
/// nobody looks on; any other tells only what is wrong.
pub(super) fn start(global: &Global, format: LogFormat, lives_on: bool, terminal: &Terminal, environment: Environment<'_>) {
    let level = match (global.quiet, global.verbose + u8::from(lives_on)) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "warn,revsync=info",
        (false, 2) => "info,revsync=debug",
        (false, _) => "debug,revsync=trace",
    };
    let filter = environment("RUST_LOG").and_then(|wanted| EnvFilter::try_new(wanted).ok()).unwrap_or_else(|| EnvFilter::new(level));
    let is_json = format == LogFormat::Json;
    let lines = fmt::layer().with_ansi(terminal.paint_err.0 && !is_json).with_writer(terminal.log_writer());
    let lines = if is_json {
        lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
    } else {
        let lines = lines.with_target(global.verbose > 1);
        if global.verbose > 0 || lives_on { lines.boxed() } else { lines.without_time().boxed() }
    };
    // A second command in one process, as in a test, speaks through the first one's writer.
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter.and(filter_fn(may_be_told)))).try_init();
}

/// Whether a line can be told to anybody. The finest lines of the libraries below quote requests, and with the right variable in the
/// environment whole bodies.
pub fn may_be_told(line: &Metadata<'_>) -> bool {
    *line.level() < Level::TRACE || line.target().starts_with("revsync")
}
