//! Opens the place where checkpoints are: the sink itself, or a file.
//!
//! Refuses a sink that has no place for them, with the way out.

use std::path::Path;
use std::sync::Arc;

use super::line;
use crate::config::{Settings, SinkUrl};
use crate::error::Error;
use crate::run::shelves::{INDEX, InOpenSearch};
use crate::sink::Sink;
use crate::sink::opensearch::OpenSearch;
use crate::sink::opensearch::config::Access;
use crate::store::checkpoints::{Place, Shelf, ShelfFile};

/// The sink of a pipeline that lives on, and the place of its checkpoints, which may be one and the same. Creates a file where one is to be
/// written; does not reach a server.
///
/// # Errors
/// The sink has no place for checkpoints, or a file cannot be written.
#[cfg(feature = "kinesis")]
pub(super) async fn ends(settings: &Settings) -> Result<(Arc<dyn Sink>, Arc<dyn Shelf>), Error> {
    if let Place::File(path) = &settings.checkpoints.place {
        let shelf = ShelfFile::open(path)?;
        return Ok((line::sink(settings).await?, Arc::new(shelf)));
    }
    match &settings.sink.url {
        #[cfg(feature = "local")]
        SinkUrl::Local(path) => {
            let local = Arc::new(crate::sink::local::Local::open(path)?);
            Ok((local.clone(), local))
        }
        SinkUrl::OpenSearch { .. } => {
            refuse_serverless(settings)?;
            let server = Arc::new(line::opensearch(settings).await?.without_refresh());
            Ok((server.clone(), Arc::new(InOpenSearch::new(server, INDEX).that_outlasts_refusals())))
        }
        _ => Err(no_place(settings)),
    }
}

/// The sink of a scan that can be gone on with, which is reached, and the place where it is saved how far it is.
///
/// # Errors
/// As [`ends`]; bulk lines, of which every run writes all anew; a server that does not let us in.
pub(super) async fn ends_of_scan(settings: &Settings) -> Result<(Arc<dyn Sink>, Arc<dyn Shelf>), Error> {
    if let SinkUrl::BulkFile(_) | SinkUrl::BulkStdout = &settings.sink.url {
        let what = format!("--resume: {} is written anew by every run, and would lose what an interrupted one wrote", settings.sink.url);
        return Err(Error::usage(what).help("leave --resume out"));
    }
    if let Place::File(path) = &settings.checkpoints.place {
        let shelf = ShelfFile::open(path)?;
        return Ok((line::reached_sink(settings).await?, Arc::new(shelf)));
    }
    match &settings.sink.url {
        #[cfg(feature = "local")]
        SinkUrl::Local(path) => {
            let local = Arc::new(crate::sink::local::Local::open(path)?);
            Ok((local.clone(), local))
        }
        SinkUrl::OpenSearch { .. } => {
            refuse_serverless(settings)?;
            let server = line::reached_opensearch(settings).await?;
            Ok((server.clone(), Arc::new(InOpenSearch::new(server, INDEX))))
        }
        _ => Err(no_place(settings)),
    }
}

/// The place alone, of which there has to be one already. `writes` says whether anything is to be changed there.
///
/// # Errors
/// As [`ends`], and where there is no local index.
pub(super) async fn existing(settings: &Settings, writes: bool) -> Result<Arc<dyn Shelf>, Error> {
    if let Place::File(path) = &settings.checkpoints.place {
        return Ok(Arc::new(ShelfFile::look(path)));
    }
    match &settings.sink.url {
        SinkUrl::Local(path) => of_local(path, writes, settings),
        SinkUrl::OpenSearch { .. } => {
            refuse_serverless(settings)?;
            let server = Arc::new(OpenSearch::connect(settings.opensearch()?).await?);
            Ok(Arc::new(InOpenSearch::new(server, INDEX)))
        }
        _ => Err(no_place(settings)),
    }
}

#[cfg(feature = "local")]
fn of_local(path: &Path, writes: bool, _: &Settings) -> Result<Arc<dyn Shelf>, Error> {
    use crate::sink::local::Local;
    // Also where it is written to: no index is made for that.
    let advised =
        |error: Error| if path.exists() { error } else { error.help("name the sink of the worker with --to, or its file with --config") };
    let existing = Local::open_existing(path).map_err(advised)?;
    Ok(Arc::new(if writes { Local::open(path)? } else { existing }))
}

#[cfg(not(feature = "local"))]
fn of_local(_: &Path, _: bool, settings: &Settings) -> Result<Arc<dyn Shelf>, Error> {
    Err(no_place(settings))
}

fn refuse_serverless(settings: &Settings) -> Result<(), Error> {
    let serverless = settings.sink.opensearch.as_ref().is_some_and(|config| matches!(config.access, Access::Aoss(_)));
    if serverless { Err(no_place(settings)) } else { Ok(()) }
}

fn no_place(settings: &Settings) -> Error {
    let url = &settings.sink.url;
    let what = match url {
        SinkUrl::OpenSearch { .. } => format!("checkpoints: {url} is OpenSearch Serverless, which cannot keep them"),
        _ => format!("checkpoints: {url} cannot keep them"),
    };
    Error::usage(what).help("name a file for them with --checkpoints file:PATH, on a disk that outlives the process")
}
