//! The Lambda function: builds the parts once per cold start, then answers one event after another.
//!
//! Configured by the environment alone, by the names of the command's options (`REVSYNC_TO`, `REVSYNC_DEAD_LETTERS`, `REVSYNC_CONFIG` …).
//! Holds nothing between events but connections: what is not settled at the end of one comes again with the next.

use std::process::ExitCode;
use std::time::SystemTime;

use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use revsync::cli::Parts;
use revsync::error::Error;
use revsync::run::panics;
use revsync_lambda::{Batch, error_type, handle};
use serde_json::value::RawValue;

#[tokio::main]
async fn main() -> ExitCode {
    panics::hide_messages();
    let parts = match Parts::from_environment(&|name| std::env::var(name).ok()).await {
        Ok(parts) => parts,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let parts = &parts;
    // Read here, because the runtime would say only that it could not, and quote what it found.
    let answer = async |event: LambdaEvent<Box<RawValue>>| {
        let batch = Batch::read(event.payload.get()).map_err(diagnostic)?;
        #[expect(clippy::disallowed_methods, reason = "an invocation's deadline is given by the wall clock")]
        let left = event.context.deadline().duration_since(SystemTime::now()).unwrap_or_default();
        handle(batch, parts.line(), left).await.map_err(diagnostic)
    };
    match lambda_runtime::run(service_fn(answer)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn diagnostic(error: Error) -> Diagnostic {
    Diagnostic { error_type: error_type(error.kind).to_owned(), error_message: error.to_string() }
}
