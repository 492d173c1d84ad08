//! Builds the parts of the line from the settings, and the signal that stops it.
//!
//! The one place where configuration becomes parts. Opens what a part needs at its start, so that what cannot work is found before anything
//! is read.

use std::path::Path;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

pub(super) use super::opening::{capture, completeness, inputs, say_notes, scan, scan_of};
use crate::codec::ion_json::Rules;
use crate::codec::{self, Decoder, Journal, Metadata, TableOptions};
use crate::config::{File, Listen, Overrides, Settings, SinkUrl, SourceUrl, TableRule};
use crate::error::{Error, Kind};
use crate::plan::filter::Filter;
use crate::plan::mapping::{Mapping, Mode, Rule};
use crate::plan::names::matches;
use crate::plan::projection::Paths;
use crate::run::standing::Standing;
use crate::run::{deliver, http};
use crate::sink::Sink;
use crate::sink::bulk_file::BulkFile;
use crate::sink::opensearch::OpenSearch;
use crate::sink::opensearch::config::Access;
use crate::store::checkpoints;
use crate::store::dead_letters;

/// Opens the sink of a pipeline that lives on. Creates a file where one is to be written; does not reach a server.
pub(super) async fn sink(settings: &Settings) -> Result<Arc<dyn Sink>, Error> {
    Ok(match &settings.sink.url {
        #[cfg(feature = "local")]
        SinkUrl::Local(path) => Arc::new(crate::sink::local::Local::open(path)?),
        #[cfg(not(feature = "local"))]
        SinkUrl::Local(_) => return Err(Error::usage("sink: this build has no local index").help("name another sink with --to")),
        SinkUrl::OpenSearch { .. } => Arc::new(opensearch(settings).await?.without_refresh()),
        SinkUrl::BulkFile(path) => Arc::new(BulkFile::create(path)?),
        SinkUrl::BulkStdout => Arc::new(BulkFile::create("-".as_ref())?),
    })
}

/// Opens the sink and reaches it before anything is read, so that a wrong address or password is said at once and nothing is half done. A
/// server that is there and says that it cannot just now is waited for by the delivery, as at any other time.
pub(super) async fn reached_sink(settings: &Settings) -> Result<Arc<dyn Sink>, Error> {
    let SinkUrl::OpenSearch { .. } = settings.sink.url else { return sink(settings).await };
    Ok(reached_opensearch(settings).await?)
}

/// The OpenSearch sink, reached in the same way.
pub(super) async fn reached_opensearch(settings: &Settings) -> Result<Arc<OpenSearch>, Error> {
    let server = opensearch(settings).await?;
    match server.probe().await {
        Err(busy) if busy.kind == Kind::Pending => tracing::warn!("{busy}; going on, it may pass"),
        probed => drop(probed?),
    }
    Ok(Arc::new(server))
}

/// The OpenSearch sink, with what the rules say about its indices.
pub(super) async fn opensearch(settings: &Settings) -> Result<OpenSearch, Error> {
    refuse_plain_deletes_on_serverless(settings)?;
    let sink = OpenSearch::connect(settings.opensearch()?).await?;
    Ok(sink.with_mappings(settings.mappings()?).with_deletes(mapping(settings)?.deletes()))
}

/// Which tables get plain deletes, in words; `None` where none does.
fn plainly_deleted(settings: &Settings) -> Option<String> {
    match settings.plainly_deleted() {
        None => Some("without rules, every table gets plain deletes".to_owned()),
        Some(tables) if tables.is_empty() => None,
        Some(tables) => Some(format!(
            "deletes = \"delete\" holds for {}",
            tables.iter().map(|table| format!("{table:?}")).collect::<Vec<_>>().join(", ")
        )),
    }
}

/// It is not documented for how long Serverless remembers a delete, if at all, nor can it be set.
fn refuse_plain_deletes_on_serverless(settings: &Settings) -> Result<(), Error> {
    let serverless = settings.sink.opensearch.as_ref().is_some_and(|config| matches!(config.access, Access::Aoss(_)));
    match plainly_deleted(settings) {
        Some(which) if serverless => {
            Err(Error::usage(format!("sink: OpenSearch Serverless is not known to remember deletes, and {which}"))
                .help("set deletes = \"tombstone\" in every rule ([[table]] name = \"*\" is one for all tables)"))
        }
        _ => Ok(()),
    }
}

/// What a pipeline that lives on should know: the memory of OpenSearch is shorter.
pub(super) fn warn_of_plain_deletes(settings: &Settings) {
    if let (Some(config), Some(which)) = (&settings.sink.opensearch, plainly_deleted(settings)) {
        tracing::warn!(
            "{which}: OpenSearch remembers them for {} at most (index.gc_deletes), and not past a restart of a node, and then an older revision \
             that is delivered late brings a deleted document back; deletes = \"tombstone\" in the tables' rules holds",
            config.gc_deletes
        );
    }
}

/// Refuses what has a default in a command that a person looks at, and none in one that lives on.
pub(super) fn refuse_missing(command: &str, file: &File, over: &Overrides) -> Result<(), Error> {
    if over.sink.is_none() && file.sink.url.is_none() {
        let help = "name it with --to, such as --to https://search.example.com, or as url under [sink] in the file of --config";
        return Err(Error::usage(format!("{command}: no sink is named")).help(help));
    }
    if over.dead_letters.is_none() && file.dead_letters.url.is_none() {
        let help = "name it with --dead-letters, such as sqs://HOST/ACCOUNT/QUEUE, or as url under [dead_letters] in the file of --config";
        return Err(Error::usage(format!("{command}: no place for dead letters is named")).help(help));
    }
    Ok(())
}

/// Refuses a file that would be read as the source and written over, or written by two, and a topic that would be read and written at once.
///
/// # Errors
/// It names both.
pub(super) fn refuse_one_place_for_two(settings: &Settings) -> Result<(), Error> {
    #[cfg(feature = "kafka")]
    if let (Some(SourceUrl::Kafka(source)), dead_letters::Place::Topic(letters)) = (&settings.source.url, &settings.dead_letters.place)
        && source.topics.includes(&letters.name)
        && letters.servers.split(',').any(|server| source.servers.iter().any(|known| known == server))
    {
        let what = format!("the source {source} includes the topic of the dead letters, {}: each would be read as a record", letters.name);
        return Err(Error::usage(what).help("name another topic for the dead letters, or topics of the source that leave it out"));
    }
    let letters = if let dead_letters::Place::File(path) = &settings.dead_letters.place { Some(path) } else { None };
    let sink = match &settings.sink.url {
        SinkUrl::BulkFile(path) | SinkUrl::Local(path) => Some(path),
        SinkUrl::OpenSearch { .. } | SinkUrl::BulkStdout => None,
    };
    let source = if let Some(SourceUrl::Path(path)) = &settings.source.url { Some(path) } else { None };
    let checkpoints = if let checkpoints::Place::File(path) = &settings.checkpoints.place { Some(path) } else { None };
    let named = [("the source", source), ("the sink", sink), ("the dead letters", letters), ("the checkpoints", checkpoints)];
    for (at, (what, path)) in named.iter().enumerate() {
        for (other, there) in &named[..at] {
            if let (Some(path), Some(there)) = (path, there)
                && one_file(path, there)
            {
                let what = format!("{other} and {what} are one file, {}: one would write over the other", path.display());
                return Err(Error::usage(what).help("name another file"));
            }
        }
    }
    Ok(())
}

/// Whether two paths name one file, that there is or that there would be.
fn one_file(a: &Path, b: &Path) -> bool {
    // Devices and pipes can be named twice.
    match (std::fs::canonicalize(a), std::fs::canonicalize(b)) {
        (Ok(real_a), Ok(real_b)) => real_a == real_b && real_a.is_file(),
        (Err(_), Err(_)) => a == b,
        _ => false,
    }
}

/// The mapping by the rules of the configuration.
pub(super) fn mapping(settings: &Settings) -> Result<Mapping, Error> {
    let paths = |table: &str, key: &str, paths: &[String]| {
        Paths::parse(paths).map_err(|problem| Error::usage(format!("[[table]] {table:?}: {key}: {problem}")))
    };
    let filter = |table: &str, text: &str| {
        Filter::parse(text).map_err(|error| Error { what: format!("[[table]] {table:?}: where: {}", error.what), ..error })
    };
    let rule = |rule: &TableRule| {
        Ok(Rule {
            name: rule.name.clone(),
            index: rule.index.clone(),
            fields: paths(&rule.name, "fields", rule.fields.as_deref().unwrap_or_default())?,
            exclude: paths(&rule.name, "exclude", &rule.exclude)?,
            filter: rule.filter.as_deref().map(|text| filter(&rule.name, text)).transpose()?,
            routing: rule.routing.clone(),
            mode: rule.mode,
            deletes: rule.deletes,
            redactions: rule.redactions,
            metadata_field: rule.metadata_field.clone(),
            long_ids: rule.long_ids,
            rows: rule.rows.unwrap_or(settings.source.rows),
        })
    };
    let rules = settings.tables.iter().map(rule).collect::<Result<_, Error>>()?;
    Mapping::new(rules)?.with_rows(settings.source.rows).with_journal(settings.journal.index.as_deref())
}

/// The decoder, with each table's choices.
pub(super) fn decoder(settings: &Settings) -> Decoder {
    Decoder::new(decoding(settings))
}

/// What is chosen about decoding, with each table's choices.
pub(super) fn decoding(settings: &Settings) -> codec::Options {
    let (tables, keys, rows) = (settings.tables.clone(), settings.source.keys.clone(), settings.source.rows);
    codec::Options {
        format: settings.source.format,
        versions: settings.source.versions,
        table: Box::new(move |table| {
            let rule = rule(&tables, table);
            let metadata = if has_history(&tables, table) {
                Metadata::History
            } else if rule.is_some_and(|rule| rule.metadata_field.is_some()) {
                Metadata::Field
            } else {
                Metadata::None
            };
            let named = keys.iter().find(|key| matches(&key.table, table)).map(|key| &key.columns);
            TableOptions {
                unread: false,
                unmapped: rule.is_none() && !tables.is_empty(),
                rules: rule
                    .map(|rule| Rules { decimals: rule.decimals, non_finite: rule.non_finite, ..Rules::default() })
                    .unwrap_or_default(),
                metadata,
                key: named.or(rule.map(|rule| &rule.key)).cloned().unwrap_or_default(),
                rows: rule.and_then(|rule| rule.rows).unwrap_or(rows),
                types: rule.map(|rule| rule.types.clone()).unwrap_or_default(),
            }
        }),
        journal: settings.journal.index.as_ref().map(|_| Journal { statements: settings.journal.statements }),
        verify_hashes: settings.source.verify_hashes,
    }
}

/// The rule by which the records of a table are decoded: the first that fits, and one for newest revisions before one for a history.
fn rule<'a>(rules: &'a [TableRule], table: &str) -> Option<&'a TableRule> {
    Mode::ALL.into_iter().find_map(|mode| rules.iter().find(|rule| rule.mode == mode && matches(&rule.name, table)))
}

fn has_history(rules: &[TableRule], table: &str) -> bool {
    rules.iter().any(|rule| rule.mode == Mode::History && matches(&rule.name, table))
}

/// How operations are sent.
pub(super) fn delivery(settings: &Settings) -> deliver::Settings {
    let delivery = settings.delivery;
    deliver::Settings {
        request_bytes: delivery.request_bytes,
        request_operations: delivery.request_operations,
        requests_in_flight: delivery.requests_in_flight,
        linger: delivery.linger,
        max_rate: delivery.max_rate,
        give_up_after: Some(delivery.give_up_after),
        waits_for_repair: false,
        breaker: Some(delivery.breaker),
    }
}

/// How operations are sent by a pipeline that lives on: it never gives up, and waits for what a person has to put right.
pub(super) fn lasting_delivery(settings: &Settings) -> deliver::Settings {
    deliver::Settings { give_up_after: None, waits_for_repair: true, ..delivery(settings) }
}

/// Answers over HTTP how a pipeline stands, from now on, where that is wanted: where it was said, or else at `default`. To be called before the
/// line is built, so that whoever asks sees it start.
pub(super) async fn http(settings: &Settings, standing: &Arc<Standing>, default: Listen) -> Result<Option<http::Server>, Error> {
    let Listen(Some(listen)) = settings.http.listen.unwrap_or(default) else { return Ok(None) };
    let metrics = http::install(&settings.name)?;
    http::serve(listen, Arc::clone(standing), metrics, settings.http.stuck_after).await.map(Some)
}

/// Becomes true with the first SIGINT or SIGTERM; a second one ends the process at once.
pub(super) fn stop_signal() -> Result<watch::Receiver<bool>, Error> {
    let failed = |error: std::io::Error| Error::new(Kind::Usage, format!("signals cannot be listened for: {error}"));
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt()).map_err(failed)?, signal(SignalKind::terminate()).map_err(failed)?);
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        for first in [true, false] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if !first {
                std::process::exit(crate::error::Exit::Failed as i32);
            }
            let _ = sender.send(true);
        }
    });
    Ok(receiver)
}
