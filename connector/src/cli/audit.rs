//! What `journal` and `verify-journal` share: how they are asked, how they run, and how they say what is missing.
//!
//! Names blocks, documents and hashes; never a statement or a value of a document.

use std::fmt::Write;
use std::time::Instant;

use indicatif::HumanCount;
use serde_json::{Map, Value, json};

use super::options::{ScanOptions, SourceOptions};
use super::terminal::{Paint, clean};
use super::{Context, Progress, line};
use crate::codec::Decoder;
use crate::codec::audit::Address;
use crate::error::{Error, Exit, Kind};
use crate::plan::journal::chain::{Strand, Told};
use crate::run::deliver::interrupted;
use crate::run::journal::{Audit, Request, audit};

/// What is to be audited.
pub(super) struct Asked<'a> {
    pub(super) source: &'a SourceOptions,
    pub(super) scan: &'a ScanOptions,
    pub(super) sample: u32,
    pub(super) hashes: bool,
}

/// What there is to be said.
pub(super) struct Report<'a> {
    pub(super) audit: &'a Audit,
    pub(super) source: String,
    pub(super) seconds: f64,
    /// Whether it came to its end; if not, why is said elsewhere.
    pub(super) is_finished: bool,
}

/// Audits, prints what came of it, and says the exit code. `is_good`: nothing needs attention.
pub(super) async fn run(
    asked: Asked<'_>,
    context: &Context<'_>,
    json: impl Fn(&Report<'_>) -> Value,
    human: impl Fn(&Report<'_>, Paint) -> String,
    is_good: impl Fn(&Audit) -> bool,
) -> Result<Exit, Error> {
    let started = Instant::now();
    let terminal = &context.terminal;
    let settings = context.settings(&[asked.source, asked.scan])?;
    settings.source.required()?;
    let stop = line::stop_signal()?;
    let mut stopped = stop.clone();
    let opened = tokio::select! {
        biased;
        _ = stopped.wait_for(|stop| *stop) => Err(interrupted()),
        scan = line::scan(&settings) => scan,
    };
    let mut found = Audit::default();
    let result = match opened {
        Ok(source) => {
            line::say_notes(&source, terminal);
            let progress = Progress::start(&terminal.bars, source.total());
            let request = Request {
                source,
                decoder: Decoder::new(line::decoding(&settings)),
                hashes: asked.hashes,
                sample: (asked.sample > 0).then_some(asked.sample),
                memory: line::delivery(&settings).budget() / 2,
            };
            let result = audit(request, stop, &mut found, |read, units| progress.read(read, units)).await;
            progress.finish();
            result
        }
        Err(error) if error.kind == Kind::Interrupted => Err(error),
        Err(error) => return Err(error),
    };
    let report = Report {
        audit: &found,
        source: settings.source.required()?.to_string(),
        seconds: started.elapsed().as_secs_f64(),
        is_finished: result.is_ok(),
    };
    if terminal.json {
        terminal.print_json(&json(&report))?;
    } else {
        terminal.print(&human(&report, terminal.paint))?;
    }
    result?;
    let exit = if is_good(&found) { Exit::Done } else { Exit::Attention };
    Ok(exit.max(line::completeness(found.is_complete, terminal)))
}

/// A number of things.
pub(super) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", HumanCount(count), if count == 1 { one } else { many })
}

/// A block's address as a person reads it.
pub(super) fn at(address: &Address) -> String {
    format!("{}@{}", clean(&address.strand), address.sequence)
}

/// A block's address as the journal has it.
pub(super) fn address(address: &Address) -> Value {
    json!({"strandId": address.strand, "sequenceNo": address.sequence})
}

/// How many more there are than are told.
pub(super) fn rest<T>(text: &mut String, told: &Told<T>) {
    let more = told.count.saturating_sub(told.first.len() as u64);
    if more > 0 {
        let _ = writeln!(text, "  and {} more; --sample 0 tells all", HumanCount(more));
    }
}

/// The strands, their blocks and what of them is missing.
pub(super) fn strands(text: &mut String, audit: &Audit, paint: Paint) {
    if audit.strands.count == 0 {
        return;
    }
    let _ = writeln!(text, "\n{}", paint.bold("strands"));
    for strand in &audit.strands.first {
        let Strand { strand: name, first, last, blocks, missing_blocks, .. } = strand;
        let missing = if *missing_blocks > 0 { format!(", {} missing", HumanCount(*missing_blocks)) } else { String::new() };
        let _ = writeln!(text, "  {}  blocks {first} to {last}: {}{missing}", clean(name), HumanCount(*blocks));
    }
    rest(text, &audit.strands);
}

/// What is not there.
pub(super) fn absent(text: &mut String, audit: &Audit, paint: Paint) {
    if audit.missing > 0 {
        let _ = writeln!(text, "\n{}: {}", paint.warn("missing"), counted(audit.missing, "block", "blocks"));
        for strand in audit.strands.first.iter().filter(|strand| strand.missing_blocks > 0) {
            for (from, to) in &strand.missing.first {
                let range = if from == to { from.to_string() } else { format!("{from} to {to}") };
                let _ = writeln!(text, "  {}  {range}", clean(&strand.strand));
            }
            rest(text, &strand.missing);
        }
    }
    let incomplete = &audit.incomplete;
    if incomplete.count > 0 {
        let blocks = counted(incomplete.count, "block", "blocks");
        let _ = writeln!(text, "\n{}: {blocks} of which not all revisions were seen", paint.warn("incomplete"));
        for block in &incomplete.first {
            let _ = writeln!(text, "  {}  {} of {}", at(&block.address), block.seen, counted(block.of, "revision", "revisions"));
        }
        rest(text, incomplete);
    }
    let orphans = &audit.orphans;
    if orphans.count > 0 {
        let revisions = counted(orphans.count, "revision", "revisions");
        let _ = writeln!(text, "\n{}: {revisions} of which the block was not seen", paint.warn("without their block"));
        for orphan in &orphans.first {
            let _ = writeln!(text, "  {}  {} version {}", at(&orphan.address), clean(&orphan.id), orphan.version);
        }
        rest(text, orphans);
    }
    if audit.unusable > 0 {
        let first = audit.first_unusable.as_deref().map(clean).unwrap_or_default();
        let units = counted(audit.unusable, "unit", "units");
        let _ = writeln!(text, "\n{}: {units} of the source cannot be used, the first {first}", paint.warn("unusable"));
    }
}

/// What is there and what is not, as JSON.
pub(super) fn gaps(report: &Report<'_>) -> Map<String, Value> {
    let audit = report.audit;
    let strand = |strand: &Strand| {
        let missing = strand.missing.first.iter().map(|(from, to)| json!([from, to])).collect::<Value>();
        json!({
            "strandId": strand.strand, "first": strand.first, "last": strand.last, "blocks": strand.blocks,
            "missing_blocks": strand.missing_blocks, "missing_ranges": strand.missing.count, "missing": missing, "last_hash": strand.last_hash.as_ref().map(ToString::to_string),
        })
    };
    let mut object = Map::new();
    object.insert("strands".into(), audit.strands.first.iter().map(strand).collect());
    object.insert("strand_count".into(), json!(audit.strands.count));
    object.insert("blocks".into(), json!(audit.blocks));
    object.insert("revisions".into(), json!(audit.tally.documents));
    object.insert("missing_blocks".into(), json!(audit.missing));
    object.insert("incomplete_blocks".into(), json!(audit.incomplete.count));
    let incomplete = audit.incomplete.first.iter();
    let incomplete = incomplete.map(|block| json!({"block": address(&block.address), "seen": block.seen, "of": block.of})).collect();
    object.insert("incomplete".into(), incomplete);
    object.insert("revisions_without_block".into(), json!(audit.orphans.count));
    let orphans = audit.orphans.first.iter();
    let orphans = orphans.map(|one| json!({"block": address(&one.address), "documentId": one.id, "version": one.version})).collect();
    object.insert("without_block".into(), orphans);
    object.insert("units".into(), json!(audit.units));
    object.insert("others".into(), json!(audit.others));
    object.insert("unusable".into(), json!(audit.unusable));
    object.insert("first_unusable".into(), json!(audit.first_unusable));
    object.insert("complete".into(), json!(report.is_finished && audit.is_complete));
    object.insert("seconds".into(), json!(report.seconds));
    object
}
