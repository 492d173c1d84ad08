//! `checkpoints rewind`: where shards begin anew.
//!
//! Asks no source: whether a position is there still shows when it is read.

use std::str::FromStr;

use clap::Args;
use clap::builder::BoolishValueParser;
use serde_json::json;

use super::said;
use crate::cli::options::{CheckpointOptions, SinkOptions};
use crate::cli::table::layout;
use crate::cli::terminal::clean;
use crate::cli::{Context, shelf};
use crate::config::StartAt;
use crate::error::{Error, Exit};
#[cfg(feature = "kafka")]
use crate::kafka::Topics;
use crate::plan::checkpoint::{Begin, Progress, Start};
#[cfg(feature = "kafka")]
use crate::plan::tombstone::rfc3339;
use crate::record::{Position, SequenceNumber};
use crate::run::clock;
use crate::run::resume::SHARD;
use crate::run::rewind::{Request, rewind};

/// Set back from where revsync run goes on, in one shard or in all
///
/// What is read again changes nothing that is in the index already: its versions are stale there. A rewind also forgets which indices were
/// written to, so that one that was made anew, and is blocked for that, is taken for what it is and filled.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync --config revsync.toml checkpoints rewind earliest
      index everything anew that the stream still has
  revsync checkpoints rewind 2025-07-31T00:00:00Z --to https://search.example.com --name ledger
  revsync checkpoints rewind 49590338271490256608559692538361571095921575989136588898 --shard shardId-000000000001
      the record behind that one is the first to be read; with :3 behind the number, the part behind that of an aggregate

It is refused while a worker reads the shard. With --force that worker loses the shard, and takes it
again from there.

Exit codes:
  0  done
  2  refused, or not possible")]
pub(super) struct Arguments {
    /// Where to: earliest, latest, a time such as 2025-07-31T00:00:00Z, or SEQUENCE[:SUB], the last record that counts as settled
    #[arg(value_name = "POSITION")]
    position: Where,
    /// Only this shard [default: all that have a checkpoint]
    #[arg(long, value_name = "SHARD", env = "REVSYNC_SHARD", hide_env_values = true)]
    shard: Option<String>,
    /// Of the pipeline of this name [default: the only one]
    #[arg(long, value_name = "NAME", env = "REVSYNC_NAME", hide_env_values = true)]
    name: Option<String>,
    /// Of several pipelines of that name, the one of this stream, by its ARN or name
    #[arg(long, value_name = "STREAM", env = "REVSYNC_STREAM", hide_env_values = true)]
    stream: Option<String>,
    /// Also while a worker reads it
    #[arg(long, env = "REVSYNC_FORCE", hide_env_values = true, value_parser = BoolishValueParser::new())]
    force: bool,
    #[command(flatten)]
    place: CheckpointOptions,
    #[command(flatten)]
    sink: SinkOptions,
}

/// Where to begin anew, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Where {
    Start(Start),
    After(Position),
}

impl Where {
    /// `now` is in milliseconds since 1970.
    fn progress(&self, now: u64) -> Progress {
        match self {
            Self::Start(Start::Earliest) => Progress::Begins(Begin::Earliest),
            Self::Start(Start::Latest) => Progress::Begins(Begin::Latest { since: now }),
            Self::Start(Start::Timestamp(millis)) => Progress::Begins(Begin::Timestamp { millis: *millis }),
            Self::After(position) => Progress::Settled(position.clone()),
        }
    }
}

impl FromStr for Where {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(StartAt(start)) = text.parse() {
            return Ok(Self::Start(start));
        }
        let (number, sub) = text.split_once(':').map_or((text, None), |(number, sub)| (number, Some(sub)));
        // Kinesis API reference, `SequenceNumber`: 0, or up to 129 digits that do not begin with 0.
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let plain = is_number(number) && number.len() <= 129 && (number == "0" || !number.starts_with('0'));
        match sub.map(|sub| sub.parse().ok().filter(|_| is_number(sub))) {
            None if plain => Ok(Self::After(Position::Sequence { number: SequenceNumber(number.to_owned()), sub: None })),
            Some(Some(sub)) if plain => Ok(Self::After(Position::Sequence { number: SequenceNumber(number.to_owned()), sub: Some(sub) })),
            _ => Err("expected earliest, latest, a time such as 2025-07-31T00:00:00Z, or a sequence number, perhaps with :SUB".to_owned()),
        }
    }
}

/// A time as Kafka's command takes it.
#[cfg(feature = "kafka")]
fn with_millis(time: &str) -> String {
    let (seconds, fraction) = time.trim_end_matches('Z').split_once('.').unwrap_or((time.trim_end_matches('Z'), "0"));
    format!("{seconds}.{fraction:0<3}")
}

pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let settings = context.settings(&[&arguments.place, &arguments.sink])?;
    #[cfg(feature = "kafka")]
    super::refuse_groups(context, &settings, "rewind", |topics| {
        let to = match &arguments.position {
            Where::Start(Start::Latest) => "--to-latest".to_owned(),
            Where::Start(Start::Timestamp(time)) => format!("--to-datetime {}", with_millis(&rfc3339(*time))),
            Where::Start(Start::Earliest) | Where::After(_) => "--to-earliest".to_owned(),
        };
        let which = match topics {
            Topics::Named(names) => names.iter().map(|name| format!("--topic {name} ")).collect(),
            Topics::Pattern(_) => "--all-topics ".to_owned(),
        };
        format!("{which}--reset-offsets {to} --execute, while no worker of the group runs")
    })?;
    let shelf = shelf::existing(&settings, true).await?;
    let to = arguments.position.progress(clock::millis());
    let request = Request {
        name: arguments.name.clone(),
        stream: arguments.stream.clone(),
        shard: arguments.shard.clone(),
        to: to.clone(),
        force: arguments.force,
    };
    let done = rewind(&shelf, &request).await?;
    let (terminal, to) = (&context.terminal, said(&to));
    let pipeline = done.first().map(|kept| &kept.pipeline);
    if terminal.json {
        let shards: Vec<_> = done.iter().map(|kept| json!({ "shard": kept.shard, "from": kept.row.checkpoint.progress })).collect();
        terminal.print_json(&json!({
            "pipeline": pipeline.map(|pipeline| &pipeline.name),
            "stream": pipeline.map(|pipeline| &pipeline.stream),
            "to": request.to,
            "rewound": shards,
        }))?;
        return Ok(Exit::Done);
    }
    let lines: Vec<[String; 3]> =
        done.iter().map(|kept| [clean(&kept.shard), to.clone(), clean(&said(&kept.row.checkpoint.progress))]).collect();
    let name = pipeline.map(|pipeline| clean(&pipeline.name)).unwrap_or_default();
    let mut text = layout(["SHARD", "NOW", "BEFORE"], &lines, terminal.width, terminal.paint);
    let shards = if done.len() == 1 { "1 shard".to_owned() } else { format!("{} shards", done.len()) };
    let who = if done.iter().any(|kept| kept.shard == SHARD) { "revsync sync --resume" } else { "revsync run" };
    text.push_str(&format!("\n{}: {shards}; {who} goes on from there\n", terminal.paint.bold(name)));
    terminal.print(&text)?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_end_a_time_or_a_record() {
        let after = |number: &str, sub| Where::After(Position::Sequence { number: SequenceNumber(number.to_owned()), sub });
        for (text, expected) in [
            ("earliest", Where::Start(Start::Earliest)),
            ("latest", Where::Start(Start::Latest)),
            ("2025-07-31T02:00:00+02:00", Where::Start(Start::Timestamp(1_753_920_000_000))),
            (
                "49590338271490256608559692538361571095921575989136588898",
                after("49590338271490256608559692538361571095921575989136588898", None),
            ),
            ("495:0", after("495", Some(0))),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in ["", "first", "2025-07-31", "12:", ":3", "12:x", "012", "-1", "12:+3", &"9".repeat(130)] {
            assert!(text.parse::<Where>().unwrap_err().starts_with("expected earliest, latest"), "{text}");
        }
    }

    #[test]
    fn what_is_latest_is_a_time_that_does_not_move() {
        assert_eq!(Where::Start(Start::Latest).progress(7).begin(), Some(Begin::Timestamp { millis: 7 }));
    }
}
