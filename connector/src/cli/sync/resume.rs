//! `sync --resume`: opens a source where an earlier run was interrupted, and the place where that is saved.
//!
//! Refuses what cannot be gone on with, and says where it goes on.

use std::io::ErrorKind;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use crate::aws::Reach;
use crate::aws::bucket::Bucket;
use crate::cli::{Terminal, line, shelf};
use crate::config::{Settings, SinkUrl, SourceUrl};
use crate::error::{Error, Kind};
use crate::panics::panicked;
use crate::plan::resume::Listed;
use crate::run::resume::{Found, Home, Resume, begin_anew};
use crate::sink::Sink;
#[cfg(feature = "local")]
use crate::sink::local::Local;
use crate::source::capture::Inputs;
use crate::source::scan::Scan;
use crate::store::checkpoints::{Pipeline, Place};

/// Both ends of a run that goes on.
pub(super) struct Opened {
    /// All of the source.
    pub(super) inputs: Inputs,
    /// What of it is to be sent.
    pub(super) scan: Scan,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) resume: Resume,
}

/// Opens both ends of a run that goes on.
///
/// # Errors
/// The source cannot be gone on with, or has changed; the place cannot be read.
pub(super) async fn open(settings: &Settings, terminal: &Terminal, folds: bool) -> Result<Opened, Error> {
    let stream = files(settings, "--resume")?;
    let (sink, shelf) = shelf::ends_of_scan(settings).await?;
    let elsewhere = settings.checkpoints.place != Place::Sink;
    let (pipeline, sink_name) = (Pipeline::new(&settings.name, &stream)?, elsewhere.then(|| sink_name(&settings.sink.url)));
    let makes_durable = elsewhere && matches!(settings.sink.url, SinkUrl::Local(_));
    let home = Home { shelf, pipeline, sink: sink_name, makes_durable, rules: hash_of_rules(settings) };
    let found = Found::look(&home).await?;
    let (sender, receiver) = oneshot::channel();
    let from = move |listed: &[Listed]| {
        let place = found.place(&home, listed);
        // Whoever asked waits for it.
        let _ = sender.send((listed.to_vec(), found, home));
        place
    };
    let inputs = line::inputs(settings).await?;
    let scan = line::scan_of(settings, inputs.clone(), from).await?;
    let (files, found, home) = receiver.await.map_err(|_| panicked())?;
    refuse_an_empty_index(settings, &found, &home)?;
    terminal.say(&match found.mark() {
        Some(mark) => format!("goes on where it was interrupted: {mark}\n"),
        None => "nothing of it was interrupted: begins at the beginning\n".to_owned(),
    });
    if found.mark().and_then(|mark| mark.rules.as_ref()).is_some_and(|rules| *rules != home.rules) {
        tracing::warn!(
            "--resume: the rules, the journal or what makes keys and versions is not what it was when the run was interrupted; what came before stays as \
             it was indexed then. To have all of it by what is said now, {}",
            begin_anew(&home)
        );
    }
    let resume = found.keep(home, Arc::clone(&sink), files, folds);
    Ok(Opened { inputs, scan, sink, resume })
}

/// By which it is known again whether a record becomes the same operations.
fn hash_of_rules(settings: &Settings) -> String {
    let Settings { tables, journal, source, .. } = settings;
    let source = (source.format, source.versions, &source.keys, source.rows, source.verify_hashes);
    hex::encode(&Sha256::digest(format!("{tables:?} {journal:?} {source:?}"))[..16])
}

/// A local index has no name by which another one at its place would be known; but one that holds nothing is not the one that was written to.
fn refuse_an_empty_index(settings: &Settings, found: &Found, home: &Home) -> Result<(), Error> {
    #[cfg(feature = "local")]
    if let (SinkUrl::Local(path), Some(mark)) = (&settings.sink.url, found.mark().filter(|mark| mark.written))
        && Local::open_existing(path)?.indices()?.is_empty()
    {
        let what = format!("--resume: expected what an interrupted run wrote up to {mark} in {}, found an empty index", settings.sink.url);
        return Err(Error::new(Kind::Sink, what).help(format!("put the index back; or {}", begin_anew(home))));
    }
    let _ = (settings, found, home);
    Ok(())
}

/// The source, which has to be files, by its name wherever the command is run. `option` is what wants it.
///
/// # Errors
/// It can be read once only, or it is not there.
pub(super) fn files(settings: &Settings, option: &str) -> Result<String, Error> {
    let refused = |why: &str| Err(Error::usage(format!("{option}: expected files, found {why}")));
    match settings.source.required()? {
        SourceUrl::Path(path) => {
            let real = std::fs::canonicalize(path).map_err(|error| {
                let what =
                    if error.kind() == ErrorKind::NotFound { "does not exist".to_owned() } else { format!("cannot be read: {error}") };
                Error::new(Kind::Source, format!("{} {what}", path.display())).help("check its path and permissions")
            })?;
            if !real.is_dir() && !real.is_file() {
                return refused(&format!("the pipe {}, which can be read once only", path.display()));
            }
            Ok(real.display().to_string())
        }
        SourceUrl::Stdin => {
            refused("standard input, which can be read once only").map_err(|error: Error| error.help("save it to a file and name that"))
        }
        SourceUrl::S3(bucket) => Ok(Bucket { reach: Reach::default(), ..bucket.clone() }.to_string()),
        #[cfg(feature = "kinesis")]
        url @ SourceUrl::Kinesis(_) => refused(&format!("the stream {url}")).map_err(follow),
        #[cfg(feature = "kafka")]
        url @ SourceUrl::Kafka(_) => refused(&format!("the topics of {url}")).map_err(follow),
    }
}

#[cfg(any(feature = "kinesis", feature = "kafka"))]
fn follow(error: Error) -> Error {
    error.help("leave the option out: a sync of it is simply started again, and revsync run follows it and keeps checkpoints")
}

/// A sink by which it is known again, wherever the command is run.
fn sink_name(url: &SinkUrl) -> String {
    match url {
        SinkUrl::Local(path) => match std::fs::canonicalize(path) {
            Ok(real) => format!("local:{}", real.display()),
            Err(_) => url.to_string(),
        },
        _ => url.to_string(),
    }
}
