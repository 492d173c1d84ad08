//! `sync SOURCE`: scan a source from its beginning to its end, deliver, report.
//!
//! The order in which parts are opened: whatever can be found wrong is found before anything is read or written.

use std::sync::Arc;
use std::time::Instant;

use clap::Args;

mod fold;
mod resume;

use super::options::{CheckpointOptions, CreationOptions, DeliveryOptions, LoadOptions, ScanOptions, SinkOptions, SourceOptions};
use super::{Context, Progress, Terminal, line};
use crate::config::Settings;
use crate::error::{Error, Exit, Kind};
use crate::metrics::Counts;
use crate::plan::resume::Place;
use crate::run::deliver::{Deliver, interrupted};
use crate::run::resume::Resume;
use crate::run::sync::sync_and_save;
use crate::source::scan::Scan;
use crate::store::dead_letters::DeadLetters;

/// Bring an index up to date with a source, and stop
///
/// Reads the source from its earliest record to the end that it has now, and writes every revision under its own version. What the index
/// already holds is counted as stale and left alone, so a run can be repeated at any time, and one that was cut short is simply started
/// again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync sync capture/ledger.ion
      into the local index revsync.db; then: revsync search TEXT
  revsync sync capture/ --to https://search.example.com --username revsync --ca-file ca.pem
      a folder of captured files into OpenSearch; the password is in REVSYNC_PASSWORD
  revsync sync 's3://example-exports/ledger?region=eu-west-1' --to https://search.example.com --auth aws
      all objects in a folder of a bucket: captures, or a journal export with its manifests
  gunzip -c records.json.gz | revsync sync - --to bulk:- | head
      see the exact bulk lines
  revsync sync 'kinesis://ledger?region=eu-west-1' --to https://search.example.com --auth aws
      a stream of Kinesis, from its oldest records to the end that it has now; one read a second of each shard, no checkpoint
  revsync sync kafka://broker:9092/shop.item --key shop.item=sku --to https://search.example.com
      topics of Lindorm Streams on Kafka, from their first messages to their ends; no group is joined
  revsync sync kafka://broker:9092/inventory.customers --to https://search.example.com
      a topic of Debezium, whose messages tell their keys; then: revsync search TEXT --to https://search.example.com
  revsync sync export/ --fold --resume --max-rate 5000 --to https://search.example.com
      much at once: each document is written once, an interrupted run goes on where it was, and the cluster is spared
  revsync --json sync capture/ | jq .dead_letters

With --fold the source is read twice: first the newest revision of each document is found, then
only those are sent, and the others are counted as compacted. What is remembered of each document,
its id and some 30 bytes, goes to a temporary file beyond some 20 MiB, in the folder that TMPDIR
names. Where the newest cannot be written by the rules, the newest that can be is sent. One that the
sink refuses becomes a dead letter, and no earlier revision of its document is in the index then.
Changes of single cells (--rows cells) are all sent.

With --resume it is saved about once a second how far everything is settled, file and byte, with the
checkpoints (--checkpoints), under the pipeline's name (--name) and the source. The same command
goes on there. It is refused where files up to there are not what they were (with --fold: any file).
A run that comes to its end removes what was saved; revsync checkpoints list shows it, and
checkpoints rewind earliest begins anew.

Exit codes:
  0  everything is settled
  1  everything is settled, and something of it as a dead letter: see revsync dead-letters list
     (or, on Kinesis and Kafka, something was lost before it could be read, or it is not proven that everything was read: it is said)
  2  not everything could be settled; the counts say how much is pending, and nothing is lost")]
pub struct Arguments {
    #[command(flatten)]
    source: SourceOptions,
    #[command(flatten)]
    scan: ScanOptions,
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    checkpoints: CheckpointOptions,
    #[command(flatten)]
    sink: SinkOptions,
    #[command(flatten)]
    creation: CreationOptions,
    #[command(flatten)]
    delivery: DeliveryOptions,
}

pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let settings = context.settings(&[
        &arguments.source,
        &arguments.scan,
        &arguments.checkpoints,
        &arguments.sink,
        &arguments.creation,
        &arguments.delivery,
    ])?;
    let started = Instant::now();
    // Before all that may wait: a pipe that says nothing yet, a server that does not answer.
    let stop = line::stop_signal()?;
    let mut stopped = stop.clone();
    let prepared = tokio::select! {
        biased;
        _ = stopped.wait_for(|stop| *stop) => Err(interrupted()),
        prepared = prepare(arguments, &settings, &context.terminal) => prepared,
    };
    let (counts, result) = match prepared {
        Ok(Prepared { scan, mut deliver, mut resume }) => {
            line::say_notes(&scan, &context.terminal);
            let progress = Progress::start(&context.terminal.bars, scan.total());
            let result =
                Box::pin(sync_and_save(scan, &mut deliver, resume.as_mut(), stop, |read, counts| progress.update(read, counts))).await;
            progress.finish();
            (deliver.counts(), result)
        }
        Err(error) if error.kind == Kind::Interrupted => (Counts::default(), Err(error)),
        Err(error) => return Err(error),
    };
    if arguments.load.fold && counts.dead_letters > 0 {
        context.terminal.say(fold::OF_LETTERS);
    }
    let is_complete = *result.as_ref().unwrap_or(&true);
    let exit = context.conclude(&settings, &settings.source.required()?.to_string(), &counts, started, result.map(drop))?;
    Ok(exit.max(line::completeness(is_complete, &context.terminal)))
}

/// Opens both ends, and whatever cannot work is found here.
async fn prepare(arguments: &Arguments, settings: &Settings, terminal: &Terminal) -> Result<Prepared, Error> {
    let mapping = line::mapping(settings)?;
    line::refuse_one_place_for_two(settings)?;
    let (inputs, scan, sink, resume, dead_letters);
    let LoadOptions { fold: folds, resume: resumes } = arguments.load;
    if folds {
        resume::files(settings, "--fold")?;
    }
    if resumes {
        let opened = resume::open(settings, terminal, folds).await?;
        (inputs, scan, sink, resume) = (folds.then_some(opened.inputs), opened.scan, opened.sink, Some(opened.resume));
        dead_letters = Arc::new(DeadLetters::open(&settings.dead_letters).await?);
    } else {
        inputs = if folds { Some(line::inputs(settings).await?) } else { None };
        scan = match &inputs {
            Some(inputs) => line::scan_of(settings, inputs.clone(), |_| Ok(Place::default())).await?,
            None => line::scan(settings).await?,
        };
        dead_letters = Arc::new(DeadLetters::open(&settings.dead_letters).await?);
        (sink, resume) = (line::reached_sink(settings).await?, None);
    }
    let deliver = Deliver::new(line::decoder(settings), mapping, sink, dead_letters, line::delivery(settings));
    let deliver = match inputs {
        Some(inputs) => fold::reduced(deliver, inputs, settings, terminal).await?,
        None => deliver,
    };
    Ok(Prepared { scan, deliver, resume })
}

/// What a run needs.
struct Prepared {
    scan: Scan,
    deliver: Deliver,
    resume: Option<Resume>,
}
