//! Opens the source of a command that reads to an end.
//!
//! The one place where a source becomes a scan.

use tokio::task::spawn_blocking;

use super::Terminal;
#[cfg(feature = "kinesis")]
use super::line::delivery;
#[cfg(any(feature = "kafka", feature = "kinesis"))]
use crate::config::OnDataLoss;
use crate::config::{Settings, SourceUrl};
use crate::error::{Error, Exit};
#[cfg(feature = "kafka")]
use crate::kafka;
use crate::panics::panicked;
use crate::plan::resume::{Listed, Place};
use crate::record::Bound;
#[cfg(feature = "kinesis")]
use crate::run::bounded::{self, Bounded};
#[cfg(feature = "kinesis")]
use crate::run::rereading;
use crate::source::capture::{Capture, Inputs};
#[cfg(feature = "kafka")]
use crate::source::kafka::Topics;
#[cfg(feature = "kinesis")]
use crate::source::kinesis::Kinesis;
use crate::source::scan::Scan;

/// Opens a source that is read to its end: a captured stream, or topics and streams up to the ends that they have now.
pub(super) async fn scan(settings: &Settings) -> Result<Scan, Error> {
    #[cfg(feature = "kafka")]
    if let SourceUrl::Kafka(address) = settings.source.required()? {
        let (address, source) = (address.clone(), settings.source.clone());
        let context = kafka::client::Context::new(&source.properties, &source.aws).await?;
        let stops = source.on_data_loss == OnDataLoss::Stop;
        let opened = spawn_blocking(move || Topics::open(&address, &source.properties, &context, stops));
        return Ok(Scan::Topics(Box::new(opened.await.map_err(|_| panicked())??)));
    }
    #[cfg(feature = "kinesis")]
    if let SourceUrl::Kinesis(address) = settings.source.required()? {
        let source = &settings.source;
        let kinesis = Kinesis::connect(address, &source.aws).await?;
        let reads = bounded::Settings {
            interval: source.idle_time_between_reads,
            patience: source.shard_timeout,
            room: delivery(settings).budget() / 4,
            stops_on_data_loss: source.on_data_loss == OnDataLoss::Stop,
        };
        return Ok(Scan::Driven(Box::new(Bounded::open(kinesis, reads).await?)));
    }
    scan_of(settings, inputs(settings).await?, |_| Ok(Place::default())).await
}

/// Opens a captured stream that was found, where `from` says, which is told its files.
pub(super) async fn scan_of(
    settings: &Settings,
    inputs: Inputs,
    from: impl FnOnce(&[Listed]) -> Result<Place, Error> + Send + 'static,
) -> Result<Scan, Error> {
    #[cfg(feature = "kinesis")]
    let rereading = {
        let source = &settings.source;
        let reads = rereading::Settings { interval: source.idle_time_between_reads, patience: source.shard_timeout };
        rereading::rereading(source.aws.clone(), reads)
    };
    let capture = opened(inputs, from).await?;
    #[cfg(feature = "kinesis")]
    let capture = capture.rereading(rereading);
    Ok(capture.into())
}

/// Says what there is to be known of a source before it is read: what was passed over, and what of an export is missing.
pub(super) fn say_notes(scan: &Scan, terminal: &Terminal) {
    scan.notes().iter().for_each(|note| terminal.say(&format!("{note}\n")));
}

/// What it means for the exit code whether a scan is complete; where it is not, that is said. What happened was said when it did.
pub(super) fn completeness(is_complete: bool, terminal: &Terminal) -> Exit {
    if is_complete {
        return Exit::Done;
    }
    terminal
        .say("not proven complete: something of the source was lost before it could be read, came meanwhile, or its end was not found\n");
    Exit::Attention
}

/// Opens the captured stream.
pub(super) async fn capture(settings: &Settings) -> Result<Capture, Error> {
    opened(inputs(settings).await?, |_| Ok(Place::default())).await
}

/// Finds what a captured stream consists of, up to the end that it has now.
pub(super) async fn inputs(settings: &Settings) -> Result<Inputs, Error> {
    let source = match settings.source.required()? {
        SourceUrl::Stdin => "-".to_owned(),
        SourceUrl::Path(path) => {
            let path = path.to_str().ok_or_else(|| Error::usage(format!("source: expected a path in UTF-8, found {}", path.display())))?;
            path.to_owned()
        }
        SourceUrl::S3(bucket) => return Inputs::in_bucket(bucket, &settings.source.aws, None).await,
        #[cfg(any(feature = "kinesis", feature = "kafka"))]
        url => return Err(Error::usage(format!("source: expected a captured stream, a file or a directory, found {url}"))),
    };
    spawn_blocking(move || Inputs::find(&source, Bound::EndsAtStart)).await.map_err(|_| panicked())?
}

/// Opens what was found.
async fn opened(inputs: Inputs, from: impl FnOnce(&[Listed]) -> Result<Place, Error> + Send + 'static) -> Result<Capture, Error> {
    // What a pipe holds is recognised by its first bytes, and they may take their time.
    spawn_blocking(move || inputs.open_from(from)).await.map_err(|_| panicked())?
}
