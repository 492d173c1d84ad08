//! The Lambda function: builds the parts once per cold start, then answers one event after another.
//!
//! Configured by the environment, by the names of the command's options (`REVSYNC_TO`, `REVSYNC_DEAD_LETTERS`, `REVSYNC_CONFIG` …), and by
//! the file `revsync.toml` of the package where it has one. Holds nothing between events but connections and what was learned: what is not settled
//! at the end of one comes again with the next. `log` is what is written of it, `watched` what is counted.

mod log;
mod watched;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use lambda_runtime_api_client::body::Body;
use lambda_runtime_api_client::{PooledClient, build_request};
use log::RequestId;
use revsync::cli::Parts;
use revsync::error::Error;
use revsync::panics;
use revsync_lambda::{Batch, Reply, error_type, handle, reply};
use serde_json::json;
use serde_json::value::RawValue;
use watched::{Invocation, Watch};

/// What the errors of the start are to Lambda, which tells them by it.
const INIT_ERROR: &str = "Runtime.InitError";

#[tokio::main]
async fn main() -> ExitCode {
    panics::hide_messages();
    let named = |(name, value): (std::ffi::OsString, std::ffi::OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    let variables: BTreeMap<String, String> = std::env::vars_os().filter_map(named).collect();
    let request = RequestId::default();
    log::start(&variables, &request);
    let function = match Function::start(&variables, request).await {
        Ok(function) => function,
        Err(error) => {
            tracing::error!(error_type = error_type(error.kind), "{error}");
            if variables.contains_key("AWS_LAMBDA_RUNTIME_API") {
                tell_runtime(&error).await;
            }
            return ExitCode::FAILURE;
        }
    };
    let answer = async |event: LambdaEvent<Box<RawValue>>| function.answer(event).await;
    match lambda_runtime::run(service_fn(answer)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("the Runtime API cannot be used any more: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Everything that outlives an event.
struct Function {
    parts: Parts,
    watch: Watch,
    request: RequestId,
    /// No event was answered yet.
    cold: AtomicBool,
}

impl Function {
    async fn start(variables: &BTreeMap<String, String>, request: RequestId) -> Result<Self, Error> {
        let parts = Parts::from_environment(variables).await?;
        Ok(Self { watch: Watch::start(parts.name())?, parts, request, cold: AtomicBool::new(true) })
    }

    async fn answer(&self, event: LambdaEvent<Box<RawValue>>) -> Result<Reply, Diagnostic> {
        let context = &event.context;
        self.request.set(&context.request_id);
        let mut invocation = Invocation::begin(&context.request_id, context.deadline(), self.cold.swap(false, Ordering::Relaxed));
        let mut line = self.parts.line();
        // Read here, because the runtime would say only that it could not, and quote what it found.
        let answer = match Batch::read(event.payload.get()) {
            Ok(batch) => {
                invocation.read(&batch);
                handle(batch, &mut line, invocation.left()).await
            }
            Err(error) => Err(error),
        };
        // Before the line is gone, and with it what its gauges show; and before the answer, after which the process may be frozen.
        self.watch.end(&invocation, &line.counts(), &answer);
        self.parts.end(line);
        revsync::metrics::instruments::over();
        match answer {
            Ok(answer) => Ok(reply(&answer.first)),
            Err(error) => Err(Diagnostic { error_type: error_type(error.kind).to_owned(), error_message: error.to_string() }),
        }
    }
}

/// Tells Lambda why the function does not start, so that the error of the invocation says it.
async fn tell_runtime(error: &Error) {
    let body = json!({ "errorType": error_type(error.kind), "errorMessage": error.to_string() }).to_string();
    let request = build_request()
        .method("POST")
        .uri("/2018-06-01/runtime/init/error")
        .header("lambda-runtime-function-error-type", INIT_ERROR)
        .body(Body::from(body));
    let told = match request {
        Ok(request) => PooledClient::builder().build().call(request).await.map(drop),
        Err(error) => Err(error.into()),
    };
    if let Err(error) = told {
        tracing::warn!("Lambda could not be told of it: {error}");
    }
}
