//! Opens the parts, and prints what came of it. Judges nothing.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use super::super::{Context, Progress, Terminal, line};
use super::{Arguments, report};
use crate::config::{Settings, SinkUrl};
use crate::error::{Error, Exit, Kind};
use crate::run::deliver::{Deliver, interrupted};
use crate::run::verify::{Findings, Repair, Request, Step, verify};
use crate::sink::Contents;
use crate::sink::local::Local;
use crate::store::dead_letters::DeadLetters;

pub(in crate::cli) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let settings = context.settings(&[&arguments.source, &arguments.scan, &arguments.sink, &arguments.creation, &arguments.delivery])?;
    let started = Instant::now();
    let stop = line::stop_signal()?;
    let mut stopped = stop.clone();
    let prepared = tokio::select! {
        biased;
        _ = stopped.wait_for(|stop| *stop) => Err(interrupted()),
        prepared = prepare(arguments, &settings) => prepared,
    };
    let terminal = &context.terminal;
    let mut findings = Findings::default();
    let result = match prepared {
        Ok((request, repair)) => Box::pin(watched(request, repair, stop, &mut findings, terminal)).await,
        Err(error) if error.kind == Kind::Interrupted => Err(error),
        Err(error) => return Err(error),
    };
    let report = report::Report {
        findings: &findings,
        source: settings.source.required()?.to_string(),
        sink: &settings.sink.url,
        seconds: started.elapsed().as_secs_f64(),
        is_finished: result.is_ok(),
    };
    if terminal.json {
        terminal.print_json(&report.json())?;
    } else {
        terminal.print(&report.human(terminal.paint))?;
    }
    result?;
    Ok(report.exit().max(line::completeness(findings.is_complete, terminal)))
}

/// Verifies under bars of progress, one for each step.
async fn watched(
    request: Request,
    repair: Option<Repair>,
    stop: watch::Receiver<bool>,
    findings: &mut Findings,
    terminal: &Terminal,
) -> Result<(), Error> {
    line::say_notes(&request.source, terminal);
    let mut bar = Some((0, Progress::start(&terminal.bars, request.source.total())));
    let result = Box::pin(verify(request, repair, stop, findings, |step| {
        let number = match step {
            Step::Folding(..) => 0,
            Step::Comparing(..) => 1,
            Step::Mending(_) => 2,
        };
        let (_, progress) = match bar.take() {
            Some(same) if same.0 == number => bar.insert(same),
            other => {
                if let Some((_, before)) = other {
                    before.finish();
                }
                bar.insert((number, if number == 0 { Progress::of_units(&terminal.bars) } else { Progress::of_documents(&terminal.bars) }))
            }
        };
        match step {
            Step::Folding(read, units) => progress.read(read, units),
            Step::Comparing(looked_at, of) => progress.reach(looked_at, of),
            Step::Mending(counts) => progress.reach(counts.settled(), counts.received),
        }
    }))
    .await;
    if let Some((_, progress)) = bar {
        progress.finish();
    }
    result
}

/// Opens both ends, and whatever cannot work is found here.
async fn prepare(arguments: &Arguments, settings: &Settings) -> Result<(Request, Option<Repair>), Error> {
    let mapping = line::mapping(settings)?;
    line::refuse_one_place_for_two(settings)?;
    let sink = contents(settings, arguments.repair).await?;
    let delivery = line::delivery(settings);
    let repair = if arguments.repair {
        let dead_letters = Arc::new(DeadLetters::open(&settings.dead_letters).await?);
        let sink = Arc::clone(&sink);
        Some(Repair {
            deliver: Deliver::new(line::decoder(settings), mapping.clone(), sink, dead_letters, delivery),
            deletes: mapping.deletes(),
            force: arguments.force,
        })
    } else {
        None
    };
    let request = Request {
        source: line::scan(settings).await?,
        decoder: line::decoder(settings),
        mapping,
        sink,
        contents: arguments.content,
        sample: (arguments.sample > 0).then_some(arguments.sample),
        memory: delivery.budget() / 2,
        give_up_after: settings.delivery.give_up_after,
    };
    Ok((request, repair))
}

async fn contents(settings: &Settings, writes: bool) -> Result<Arc<dyn Contents>, Error> {
    match &settings.sink.url {
        SinkUrl::OpenSearch { .. } => {
            let server = line::opensearch(settings).await?;
            match server.probe().await {
                Err(busy) if busy.kind == Kind::Pending => tracing::warn!("{busy}; going on, it may pass"),
                probed => drop(probed?),
            }
            Ok(Arc::new(if writes { server } else { server.for_sweep() }))
        }
        SinkUrl::Local(path) if writes => Ok(Arc::new(Local::open(path)?)),
        SinkUrl::Local(path) => Ok(Arc::new(Local::open_existing(path)?)),
        url @ (SinkUrl::BulkFile(_) | SinkUrl::BulkStdout) => {
            Err(Error::usage(format!("{url} holds no documents that could be compared: expected local:FILE or http(s)://HOST:PORT")))
        }
    }
}
