//! The Lambda function: builds the parts once per cold start, then answers one event after another.
//!
//! Configured by the environment alone, by the names of the command's options (`REVSYNC_TO`, `REVSYNC_DEAD_LETTERS`, `REVSYNC_CONFIG` …).
//! Holds nothing between events but connections: what is not settled at the end of one comes again with the next.

use std::process::ExitCode;
use std::time::SystemTime;

use aws_lambda_events::kinesis::KinesisEvent;
use lambda_runtime::{LambdaEvent, service_fn};
use revsync::cli::Parts;
use revsync_lambda::handle;

#[tokio::main]
async fn main() -> ExitCode {
    let parts = match Parts::from_environment(&|name| std::env::var(name).ok()).await {
        Ok(parts) => parts,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let parts = &parts;
    let answer = async |event: LambdaEvent<KinesisEvent>| {
        #[expect(clippy::disallowed_methods, reason = "an invocation's deadline is given by the wall clock")]
        let left = event.context.deadline().duration_since(SystemTime::now()).unwrap_or_default();
        handle(event.payload, parts.line(), left).await.map_err(lambda_runtime::Error::from)
    };
    match lambda_runtime::run(service_fn(answer)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
