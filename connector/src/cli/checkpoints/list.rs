//! `checkpoints list`: one line per shard.
//!
//! Changes nothing.

use clap::Args;
use serde_json::{Value, json};

use super::said;
use crate::cli::options::{CheckpointOptions, SinkOptions};
use crate::cli::report::duration;
use crate::cli::table::layout;
use crate::cli::terminal::{Paint, clean};
use crate::cli::{Context, shelf};
use crate::error::{Error, Exit, Kind};
use crate::plan::checkpoint::Progress;
use crate::plan::tombstone::rfc3339;
use crate::run::clock;
use crate::store::checkpoints::{Kept, survey};

/// List how far each shard is settled, and who reads it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync --config revsync.toml checkpoints list
  revsync checkpoints list --to https://search.example.com --name ledger
  revsync --json checkpoints list --checkpoints file:checkpoints.json | jq -r '.checkpoints[].shard'

Exit codes:
  0  listed, or nothing to list
  1  something there cannot be read; it is named, and hides nothing else
  2  the place cannot be read")]
pub(super) struct Arguments {
    /// Only of the pipelines of this name [default: all]
    #[arg(long, value_name = "NAME", env = "REVSYNC_NAME", hide_env_values = true)]
    name: Option<String>,
    #[command(flatten)]
    place: CheckpointOptions,
    #[command(flatten)]
    sink: SinkOptions,
}

pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let settings = context.settings(&[&arguments.place, &arguments.sink])?;
    #[cfg(feature = "kafka")]
    super::refuse_groups(context, &settings, "list", |_| "--describe".to_owned())?;
    let shelf = shelf::existing(&settings, false).await?;
    let (mut rows, unreadable) = survey(&*shelf).await?;
    rows.retain(|kept| arguments.name.as_ref().is_none_or(|name| *name == kept.pipeline.name));
    let (terminal, now) = (&context.terminal, clock::millis());
    if terminal.json {
        let checkpoints = rows.iter().map(|kept| as_json(kept, now)).collect::<Result<Vec<_>, Error>>()?;
        let unreadable: Vec<Value> = unreadable.iter().map(|one| json!({ "id": one.id, "reason": one.reason })).collect();
        terminal.print_json(&json!({ "checkpoints": checkpoints, "unreadable": unreadable }))?;
    } else {
        for one in &unreadable {
            let (warning, place) = (terminal.paint_err.warn("warning:"), shelf.name());
            terminal.say(&format!("{warning} {place}, row {}: {}\n", clean(&one.id), one.reason));
        }
        terminal.print(&human(&rows, now, terminal.width, terminal.paint))?;
    }
    Ok(if unreadable.is_empty() { Exit::Done } else { Exit::Attention })
}

fn as_json(kept: &Kept, now: u64) -> Result<Value, Error> {
    let Kept { pipeline, shard, row, .. } = kept;
    let progress = serde_json::to_value(&row.checkpoint.progress)
        .map_err(|error| Error::new(Kind::Checkpoints, format!("a checkpoint cannot be written as JSON: {error}")))?;
    Ok(json!({
        "pipeline": pipeline.name,
        "stream": pipeline.stream,
        "shard": shard,
        "owner": row.owner.as_ref().map(|owner| &owner.name),
        "epoch": row.epoch,
        "heartbeat": rfc3339(row.heartbeat),
        "heartbeat_age_seconds": row.age(now) / 1000,
        "progress": progress,
        "ended": row.checkpoint.progress == Progress::Ended,
        "covered": row.checkpoint.covered.map(rfc3339),
        "targets": row.checkpoint.targets,
    }))
}

fn human(rows: &[Kept], now: u64, width: Option<usize>, paint: Paint) -> String {
    let pipelines: Vec<&[Kept]> = rows.chunk_by(|a, b| a.pipeline == b.pipeline).collect();
    if pipelines.is_empty() {
        return "no checkpoints\n".to_owned();
    }
    let shown = pipelines.iter().map(|of_one| {
        let head = &of_one[0].pipeline;
        let lines: Vec<[String; 5]> = of_one.iter().map(|kept| line(kept, now)).collect();
        let table = layout(["SHARD", "OWNER", "HEARTBEAT", "COVERED", "POSITION"], &lines, width, paint);
        format!("{} {}\n{table}", paint.bold(clean(&head.name)), paint.dim(clean(&head.stream)))
    });
    shown.collect::<Vec<_>>().join("\n")
}

fn line(kept: &Kept, now: u64) -> [String; 5] {
    let row = &kept.row;
    let heard = format!("{} ago", duration(row.age(now) as f64 / 1000.0));
    let covered = row.checkpoint.covered.map_or_else(|| "-".to_owned(), |time| rfc3339(time).replace('T', " "));
    let owner = row.owner.as_ref().map_or_else(|| "-".to_owned(), |owner| clean(&owner.name));
    [clean(&kept.shard), owner, heard, covered, clean(&said(&row.checkpoint.progress))]
}
