//! The instruments as Prometheus reads them.
//!
//! Keeps what is counted; counts nothing itself. What nobody has spoken of for a while is forgotten, so that shards that came and went do not
//! pile up.

use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use metrics_util::MetricKindMask;

use crate::error::{Error, Kind};

/// How long a gauge is shown that is not set any more.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(5 * 60);

/// Bounds of the buckets, in seconds: a request to a sink.
const REQUEST: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// From a commit to the acknowledgement: from what a live stream takes to the retention of a stream that is caught up with.
const FRESHNESS: [f64; 14] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 21_600.0, 86_400.0];

/// A recorder; every metric has the label `pipeline`. `forgotten_after` is how long a gauge is shown that is not set any more.
///
/// # Errors
/// The bounds of a histogram are none; a fault of revsync.
pub fn recorder(pipeline: &str, forgotten_after: Duration) -> Result<PrometheusRecorder, Error> {
    let refuse = |error| Error::new(Kind::Bug, format!("metrics cannot be counted: {error}"));
    let bounds = [("revsync_request_seconds", &REQUEST[..]), ("revsync_freshness_seconds", &FRESHNESS[..])];
    let mut builder =
        PrometheusBuilder::new().add_global_label("pipeline", pipeline).idle_timeout(MetricKindMask::GAUGE, Some(forgotten_after));
    for (name, bounds) in bounds {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), bounds).map_err(refuse)?;
    }
    Ok(builder.build_recorder())
}

/// Makes a recorder the one of this process.
///
/// # Errors
/// The process has one already.
pub fn install(pipeline: &str) -> Result<PrometheusHandle, Error> {
    let recorder = recorder(pipeline, FORGOTTEN_AFTER)?;
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| Error::new(Kind::Bug, format!("metrics cannot be counted: {error}")))?;
    Ok(handle)
}
