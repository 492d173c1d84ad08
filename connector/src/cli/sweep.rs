//! `sweep`: remove the tombstones that no late revision can come after any more.
//!
//! Refuses what would let deleted documents come back. Says what stays, and why.

use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

use clap::Args;
use clap::builder::BoolishValueParser;
use indicatif::HumanCount;
use serde::Serialize;

use super::options::{Overriding, SinkOptions};
use super::report::{Row, attention, duration, plain, table};
use super::terminal::Paint;
use super::{Context, Progress, line};
use crate::config::{Overrides, Settings, SinkUrl, Span};
use crate::error::{Error, Exit};
use crate::metrics::{Kept, Swept};
use crate::plan::sweep::is_too_young;
use crate::run::deliver::interrupted;
use crate::run::sweep::{Request, sweep};
use crate::sink::Tombstones;
use crate::sink::opensearch::OpenSearch;

/// Remove tombstones that are older than an age
///
/// Under deletes = "tombstone" a delete writes a small document in the place of the deleted one, which readers do not see. It keeps the
/// version of the delete, so that an older revision that is delivered late, or again, does not bring the document back. Once the source has
/// dropped every older revision, the tombstone has nothing left to do, and sweep removes it. Documents are never touched, and what is written
/// under an id meanwhile stays.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync --config revsync.toml sweep --older-than 30d
      every index that a rule with tombstones names; once a day is enough
  revsync sweep --older-than 30d --dry-run 'shop-*' --to https://search.example.com
      count what would go, in all indices whose names begin so

How far a delete holds against an older revision that comes later:
  delete     in OpenSearch for index.gc_deletes (24h in indices that revsync creates), and not past
             a restart of the node, or a move of the shard; in the local index for ever
  tombstone  until it is swept: through restarts and moves, for as long as you like
  keep       the document is not deleted at all

An age below the source's retention is refused, because the source can still deliver what the
tombstone stands against. Replay dead letters before their tombstones are swept: a letter is as
old as its record, and no retention ends it.

Exit codes:
  0  done
  1  some that are old enough stay: of a newer form, not ours, or not removable now
  2  failed or refused; run it again, what is left is found again")]
pub struct Arguments {
    /// Indices, aliases or patterns with * [default: those that rules with tombstones name]
    #[arg(value_name = "INDEX")]
    indices: Vec<String>,
    /// Remove tombstones that are older than this, such as 30d
    #[arg(long, value_name = "AGE", required = true, env = "REVSYNC_OLDER_THAN", hide_env_values = true)]
    older_than: Span,
    /// How long the source keeps its records; a younger tombstone is not removed [default: 168h]
    #[arg(long, value_name = "TIME", env = "REVSYNC_RETENTION", hide_env_values = true)]
    retention: Option<Span>,
    /// Remove nothing, and count what would be removed
    #[arg(long, env = "REVSYNC_DRY_RUN", hide_env_values = true, value_parser = BoolishValueParser::new())]
    dry_run: bool,
    #[command(flatten)]
    sink: SinkOptions,
}

impl Overriding for Arguments {
    fn put(&self, over: &mut Overrides) {
        over.retention = self.retention;
    }
}

/// The JSON form of what came of it.
#[derive(Debug, Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    counts: &'a Swept,
    dry_run: bool,
    seconds: f64,
}

pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let settings = context.settings(&[arguments, &arguments.sink])?;
    let Span(age) = arguments.older_than;
    let retention = settings.source.retention;
    if is_too_young(age, retention) {
        let (age, retention) = (arguments.older_than, Span(retention));
        return Err(Error::usage(format!(
            "--older-than {age} is less than the {retention} for which the source keeps its records: \
             it can still deliver what those tombstones stand against, and deleted documents would come back"
        ))
        .help(format!(
            "give --older-than {retention} or more; if the source keeps its records for another time, set retention under [source], or --retention"
        )));
    }
    let request = Request {
        names: names(arguments, &settings, context)?,
        must_exist: !arguments.indices.is_empty(),
        age,
        dry_run: arguments.dry_run,
        give_up_after: settings.delivery.give_up_after,
    };
    let started = Instant::now();
    let stop = line::stop_signal()?;
    let mut stopped = stop.clone();
    let sink = tokio::select! {
        biased;
        _ = stopped.wait_for(|stop| *stop) => return Err(interrupted()),
        sink = place(&settings, arguments.dry_run) => sink?,
    };
    let progress = Progress::of_tombstones(&context.terminal.bars);
    let mut counts = Swept::default();
    let result = sweep(&*sink, &request, stop, &mut counts, |looked_at, of| progress.reach(looked_at, of)).await;
    progress.finish();
    let report = Report { counts: &counts, dry_run: arguments.dry_run, seconds: started.elapsed().as_secs_f64() };
    if context.terminal.json {
        context.terminal.print_json(&report)?;
    } else if result.is_ok() || counts != Swept::default() {
        context.terminal.print(&human(&report, arguments.older_than, result.is_ok(), context.terminal.paint))?;
    }
    result.map(|()| exit(&counts))
}

/// The indices that were named, or those of the rules with tombstones.
fn names(arguments: &Arguments, settings: &Settings, context: &Context<'_>) -> Result<Vec<String>, Error> {
    if !arguments.indices.is_empty() {
        return Ok(arguments.indices.clone());
    }
    let (indices, untold) = settings.tombstone_indices();
    let which = untold.iter().map(|rule| format!("{rule:?}")).collect::<Vec<_>>().join(", ");
    match (indices.is_empty(), untold.is_empty()) {
        (true, true) => Err(Error::usage("no index to sweep: expected names as arguments, or rules with deletes = \"tombstone\"")
            .help("name them, such as: revsync sweep --older-than 30d vehicle_registration")),
        (true, false) => Err(Error::usage(format!("no index to sweep: the indices of the rule {which} are named after its tables"))
            .help("name them as arguments; a pattern with * will do")),
        (false, true) => Ok(indices),
        (false, false) => {
            context
                .terminal
                .say(&format!("passed over: the rule {which}, whose indices are named after its tables; name them as arguments\n"));
            Ok(indices)
        }
    }
}

async fn place(settings: &Settings, dry_run: bool) -> Result<Box<dyn Tombstones>, Error> {
    match &settings.sink.url {
        SinkUrl::OpenSearch { .. } => {
            let sink = OpenSearch::connect(settings.opensearch()?).await?.for_sweep();
            sink.probe().await?;
            Ok(Box::new(sink))
        }
        SinkUrl::Local(path) => local(path, dry_run),
        url @ (SinkUrl::BulkFile(_) | SinkUrl::BulkStdout) => {
            Err(Error::usage(format!("{url} holds no tombstones: expected local:FILE or http(s)://HOST:PORT")))
        }
    }
}

#[cfg(feature = "local")]
fn local(path: &Path, dry_run: bool) -> Result<Box<dyn Tombstones>, Error> {
    use crate::sink::local::Local;
    // Also where it is written to: no index is made for a sweep.
    let existing = Local::open_existing(path)?;
    Ok(Box::new(if dry_run { existing } else { Local::open(path)? }))
}

#[cfg(not(feature = "local"))]
fn local(path: &Path, _: bool) -> Result<Box<dyn Tombstones>, Error> {
    Err(Error::usage(format!("local:{}: this build has no local index (feature `local`)", path.display())))
}

fn exit(counts: &Swept) -> Exit {
    let needs_attention = |reason: &Kept| matches!(reason, Kept::NewerForm | Kept::Foreign | Kept::Failed);
    if counts.kept.keys().any(needs_attention) { Exit::Attention } else { Exit::Done }
}

fn human(report: &Report<'_>, age: Span, complete: bool, paint: Paint) -> String {
    let counts = report.counts;
    let said = match (complete, exit(counts)) {
        (false, _) => paint.bad("stopped early"),
        (true, Exit::Done) => paint.good("done"),
        (true, _) => paint.warn("done, but not all"),
    };
    let done = if report.dry_run { "would be removed" } else { "removed" };
    let tombstones = if counts.swept == 1 { "tombstone" } else { "tombstones" };
    let mut text = format!("{said}: {} {tombstones} older than {age} {done}  ({})\n", HumanCount(counts.swept), duration(report.seconds));
    let rows: Vec<Row> = counts.kept.iter().map(|(reason, count)| row(*reason, *count)).collect();
    if !rows.is_empty() {
        let _ = writeln!(text, "\n{}", paint.bold("kept"));
        table(&mut text, &rows, paint);
    }
    text
}

fn row(reason: Kept, count: u64) -> Row {
    match reason {
        Kept::Younger => plain("younger", count, "not old enough yet"),
        Kept::Rewritten => plain("rewritten", count, "the document was written again meanwhile"),
        Kept::NewerForm => attention("newer form", count, "written by a newer revsync; sweep with that one"),
        Kept::Foreign => attention("foreign", count, "documents with a field revsync.deleted that are no tombstones"),
        Kept::Failed => attention("failed", count, "the index did not take the delete; sweep again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_although_it_is_old_needs_attention() {
        let kept = |reason| Swept { swept: 3, kept: [(reason, 1)].into() };
        let exits = Kept::ALL.map(|reason| exit(&kept(reason)));
        assert_eq!(exits, [Exit::Done, Exit::Done, Exit::Attention, Exit::Attention, Exit::Attention]);
    }

    #[test]
    fn the_report_says_what_went_and_what_stays() {
        let counts = Swept { swept: 1_200, kept: [(Kept::Younger, 34), (Kept::NewerForm, 1)].into() };
        let report = |dry_run| Report { counts: &counts, dry_run, seconds: 0.42 };
        let age = "30d".parse().unwrap();
        assert_eq!(
            human(&report(false), age, true, Paint(false)),
            "done, but not all: 1,200 tombstones older than 720h removed  (0.4 s)\n\nkept\n  \
             younger               34  not old enough yet\n  newer form             1  written by a newer revsync; sweep with that one\n"
        );
        assert!(human(&report(true), age, true, Paint(false)).contains("older than 720h would be removed"));
        assert_eq!(
            serde_json::to_string(&report(false)).unwrap(),
            r#"{"swept":1200,"kept":{"younger":34,"newer_form":1},"dry_run":false,"seconds":0.42}"#
        );
    }
}
