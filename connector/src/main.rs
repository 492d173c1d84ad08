//! The command `revsync`: parse, build, run, exit code.
//!
//! Everything else is in the library, so that tests and other shells have it too.

use std::process::ExitCode;

use clap::Parser;
use revsync::cli::{Cli, run};
use revsync::error::Exit;
use revsync::panics;

fn main() -> ExitCode {
    panics::hide_messages();
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: the runtime cannot be started: {error}");
            return Exit::Failed.into();
        }
    };
    let exit = runtime.block_on(run(&cli, &|name| std::env::var(name).ok()));
    // A read of standard input that never comes back must not keep a finished command alive.
    runtime.shutdown_background();
    exit.into()
}
