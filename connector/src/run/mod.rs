//! The shell: the order of effects, time and shutdown. Everything that waits, waits here.
//!
//! [`deliver`] is the whole line from record to settled; `intake` is its beginning, `traffic` what of it is under way, `request` the one retry
//! loop, and `account` what became of everything. Decides nothing itself: that is [`plan`](crate::plan).

mod account;
#[cfg(feature = "kafka")]
mod assignment;
mod backoff;
#[cfg(feature = "kinesis")]
pub mod bounded;
pub mod choice;
pub mod clock;
#[cfg(feature = "kafka")]
pub mod consumer;
pub mod deliver;
pub mod explain;
mod gate;
pub mod history;
pub mod http;
mod intake;
#[cfg(feature = "local")]
pub mod journal;
pub mod kcl;
#[cfg(feature = "kinesis")]
pub mod keeper;
pub mod learned;
pub mod leases;
mod letters;
mod notices;
mod pacing;
pub mod pages;
mod parked;
mod part;
mod patience;
pub mod place;
#[cfg(feature = "kafka")]
mod polling;
#[cfg(any(feature = "kafka", feature = "kinesis"))]
mod probe;
pub mod query;
pub mod readiness;
#[cfg(feature = "kinesis")]
pub mod reading;
pub mod replay;
mod request;
#[cfg(feature = "kinesis")]
pub mod rereading;
pub mod resume;
pub mod rewind;
#[cfg(feature = "kinesis")]
mod room;
mod settings;
mod shared;
pub mod shelves;
pub mod standing;
pub mod sweep;
pub mod sync;
mod traffic;
mod verdicts;
#[cfg(feature = "local")]
pub mod verify;
#[cfg(feature = "kinesis")]
pub mod worker;

use std::future::pending;

use tokio::sync::watch;

/// Waits for the stop signal; for ever, where none can come any more.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        pending::<()>().await;
    }
}
