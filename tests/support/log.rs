//! What is said in the log of this thread, on which the whole of a test runs.

use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use tracing::Dispatch;
use tracing::subscriber::DefaultGuard;

/// A log that is kept; everything at every level is in it.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Listens for as long as the guard lives.
    pub(crate) fn start() -> (Self, DefaultGuard) {
        // With a single subscriber in the process, what another test's thread says first would be switched off for all threads.
        static ANOTHER: OnceLock<Dispatch> = OnceLock::new();
        ANOTHER
            .get_or_init(|| Dispatch::new(tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(io::sink).finish()));
        let log = Self::default();
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false).with_writer(move || writer.clone()).finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// What this product said, line by line.
    pub(crate) fn lines(&self) -> Vec<String> {
        String::from_utf8(self.0.lock().unwrap().clone())
            .unwrap()
            .lines()
            .filter(|line| line.contains("revsync"))
            .map(str::to_owned)
            .collect()
    }
}
