//! `check`: validate the configuration, reach both ends, probe rights; a list of what is right and what is not.
//!
//! Goes on after a failure: whoever sets something up wants to see all that is wrong. Writes nothing but a scratch index that it deletes.

#[cfg(feature = "kinesis")]
mod stream;
#[cfg(feature = "kafka")]
mod topics;

use std::path::Path;

use clap::Args;
use indicatif::HumanBytes;
use serde::Serialize;

use super::options::{CheckpointOptions, CreationOptions, DeliveryOptions, FollowOptions, SinkOptions, SourceOptions};
use super::terminal::{Paint, clean};
use super::{Context, line};
use crate::config::{Settings, SinkUrl, SourceUrl};
use crate::error::{Error, Exit};
use crate::store::dead_letters::DeadLetters;

/// Validate the configuration, reach both ends, and try whether writing is allowed
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync --config revsync.toml check
  revsync check capture/ --to http://localhost:9200
  revsync check 'kinesis://ledger?region=eu-west-1' --to https://search.example.com --auth aws
      also says what revsync run would do: where it would go on, and who reads the stream now
  revsync check kafka://broker:9092/shop.item --group search
      also how far the group is behind; no group is joined

On OpenSearch a scratch index is created, written to and deleted again, in a bucket of dead
letters an object; nothing else is touched.

Exit codes:
  0  everything is right
  1  everything works, and something should be known: how far deletes hold in an index, what may be lost
  2  something is not")]
pub struct Arguments {
    #[command(flatten)]
    source: SourceOptions,
    #[command(flatten)]
    follow: FollowOptions,
    #[command(flatten)]
    sink: SinkOptions,
    #[command(flatten)]
    creation: CreationOptions,
    #[command(flatten)]
    delivery: DeliveryOptions,
    #[command(flatten)]
    checkpoints: CheckpointOptions,
}

/// One thing that was tried.
#[derive(Debug, Serialize)]
struct Tried {
    what: &'static str,
    ok: bool,
    /// It works, and someone should know something about it.
    attention: bool,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
}

impl Tried {
    fn new(what: &'static str, result: Result<String, Error>) -> Self {
        match result {
            Ok(found) => Self { what, ok: true, attention: false, found, help: None },
            // What was tried stands in front of it already.
            Err(error) => {
                let found = error.what.trim_start_matches(what).trim_start_matches(": ").to_owned();
                Self { what, ok: false, attention: false, found, help: error.help }
            }
        }
    }
}

pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let settings = context.settings(&[
        &arguments.source,
        &arguments.follow,
        &arguments.sink,
        &arguments.creation,
        &arguments.delivery,
        &arguments.checkpoints,
    ])?;
    let mut tried = vec![Tried::new("configuration", configuration(&settings))];
    match &settings.source.url {
        #[cfg(feature = "kinesis")]
        Some(SourceUrl::Kinesis(address)) => stream::check(&settings, address, &mut tried).await,
        #[cfg(feature = "kafka")]
        Some(SourceUrl::Kafka(address)) => topics::check(&settings, address, &mut tried).await,
        _ => tried.push(Tried::new("source", source(&settings).await)),
    }
    tried.push(Tried::new("dead letters", dead_letters(&settings).await));
    sink(&settings, &mut tried).await;
    let exit = match (tried.iter().all(|one| one.ok), tried.iter().any(|one| one.attention)) {
        (true, false) => Exit::Done,
        (true, true) => Exit::Attention,
        (false, _) => Exit::Failed,
    };
    if context.terminal.json {
        context.terminal.print_json(&serde_json::json!({ "ok": exit != Exit::Failed, "checks": tried }))?;
    } else {
        context.terminal.print(&list(&tried, context.terminal.paint))?;
    }
    Ok(exit)
}

fn configuration(settings: &Settings) -> Result<String, Error> {
    settings.mappings()?;
    line::mapping(settings)?;
    Ok(match settings.tables.len() {
        0 => "no rules: every table goes to the index named after it".to_owned(),
        1 => "1 rule".to_owned(),
        rules => format!("{rules} rules"),
    })
}

/// A pipeline that is handed its records, as a Lambda function is, has no source to name.
async fn source(settings: &Settings) -> Result<String, Error> {
    let Some(url) = &settings.source.url else {
        return Ok("none is named, and none was tried".to_owned());
    };
    // What stands on standard input is there once only.
    if *url == SourceUrl::Stdin {
        return Ok("standard input".to_owned());
    }
    let capture = line::capture(settings).await?;
    Ok(match capture.total() {
        Some(bytes) => format!("{url}: {}", HumanBytes(bytes)),
        None => url.to_string(),
    })
}

async fn dead_letters(settings: &Settings) -> Result<String, Error> {
    let (place, store) = (&settings.dead_letters.place, DeadLetters::open(&settings.dead_letters).await?);
    Ok(match store.notes() {
        Some(notes) => format!("{place} can be written; {notes}"),
        None => format!("{place} can be written"),
    })
}

async fn sink(settings: &Settings, tried: &mut Vec<Tried>) {
    let url = &settings.sink.url;
    match url {
        SinkUrl::OpenSearch { .. } => opensearch(settings, tried).await,
        SinkUrl::BulkStdout => tried.push(Tried::new("sink", Ok("bulk lines on standard output".to_owned()))),
        SinkUrl::BulkFile(path) | SinkUrl::Local(path) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let result = match (path.is_dir(), folder.is_dir()) {
                (true, _) => Err(Error::usage(format!("{url}: expected a file, found a folder"))),
                (false, false) => Err(Error::usage(format!("{url}: there is no folder {}", folder.display()))),
                (false, true) if path.exists() => existing(url),
                (false, true) => Ok(format!("{url} will be created")),
            };
            tried.push(Tried::new("sink", result));
        }
    }
}

/// A file that is there has to be what it is taken for; bulk lines overwrite anything.
fn existing(url: &SinkUrl) -> Result<String, Error> {
    match url {
        #[cfg(feature = "local")]
        SinkUrl::Local(path) => {
            let indices = crate::sink::local::Local::open_existing(path)?.indices()?;
            Ok(format!("{url}: {} documents in {} indices", indices.iter().map(|(_, documents)| documents).sum::<u64>(), indices.len()))
        }
        _ => Ok(format!("{url} exists, and will be overwritten")),
    }
}

async fn opensearch(settings: &Settings, tried: &mut Vec<Tried>) {
    let url = &settings.sink.url;
    let connected = async {
        let sink = line::opensearch(settings).await?;
        let probe = sink.probe().await?;
        Ok((sink, probe))
    };
    let sink = match connected.await {
        Ok((sink, probe)) => {
            let version = probe.version.map(|version| format!(" {version}")).unwrap_or_default();
            let cluster = probe.cluster.map(|name| format!(", cluster {name}")).unwrap_or_default();
            tried.push(Tried::new("sink", Ok(format!("{url} is {}{version}{cluster}", probe.distribution))));
            sink
        }
        Err(error) => return tried.push(Tried::new("sink", Err(error))),
    };
    let index = settings.indices().into_iter().next().unwrap_or_else(|| "revsync".to_owned());
    let rights = sink.check_rights(&index).await;
    tried.push(Tried::new("rights", rights.map(|()| "indices can be created, written with external versions, and deleted".to_owned())));
    for index in settings.indices() {
        match sink.advice(&index).await {
            Ok(advice) => tried.extend(advice.into_iter().map(|advice| Tried {
                what: "deletes",
                ok: true,
                attention: true,
                found: advice.found,
                help: Some(advice.help),
            })),
            Err(error) => tried.push(Tried::new("deletes", Err(error))),
        }
    }
}

fn list(tried: &[Tried], paint: Paint) -> String {
    let mut text = String::new();
    for one in tried {
        let mark = match (one.ok, one.attention) {
            (false, _) => paint.bad("✗"),
            (true, true) => paint.warn("!"),
            (true, false) => paint.good("✓"),
        };
        text.push_str(&format!("{mark} {:<14} {}\n", one.what, clean(&one.found)));
        if let Some(help) = &one.help {
            text.push_str(&format!("  {:<14} {}\n", "", paint.dim(clean(help))));
        }
    }
    text
}
