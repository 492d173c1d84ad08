//! `journal SOURCE`: what of a journal is there, and what is missing.
//!
//! What can be asked for; a build without SQLite has no room for the blocks of a journal, and says so. Computes no hash: that is `verify-journal`.

use clap::Args;

#[cfg(feature = "local")]
use super::audit::{self, Report};
use super::options::{ScanOptions, SourceOptions};
#[cfg(feature = "local")]
use super::{Context, report::duration, terminal::Paint, terminal::clean};
#[cfg(feature = "local")]
use crate::error::{Error, Exit};
#[cfg(feature = "local")]
use crate::plan::journal::{Check, Verdict};
#[cfg(feature = "local")]
use crate::run::journal::Audit;

/// Say what of a ledger's journal is there, and what is missing
///
/// Reads captured streams, streams and exports of QLDB to the end that they have now, and tells which strands there are, from which block to which,
/// which blocks between them are missing, of which blocks not all revisions were seen, and which revisions came without their block. Blocks and
/// revisions may come in any order and more than once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync journal export/
      a journal export: every file of it, whatever its output format
  revsync journal capture/
      a captured stream: its block summaries and its revisions are held against each other
  revsync journal 'kinesis://ledger?region=eu-west-1'
      what a stream has now; a stream forgets, so it begins in the middle of its strand
  revsync --json journal export/ | jq '.strands[] | {strandId, first, last, missing}'

A block that is missing leaves a hole in the sequence numbers of its strand. What came before the
first block and after the last cannot be known from the blocks: compare both with what you asked
for. A stream whose block summaries were left out has revisions without their block, and no strand.

What it costs: one read of the source, and some 200 bytes for each block and revision in a
temporary file beyond some 30 MiB of memory. The file is in the folder that SQLITE_TMPDIR or TMPDIR
names (else /var/tmp), has no name, and is gone with the process.

Whether the blocks are what they were is another question: see revsync verify-journal.

Exit codes:
  0  complete: no block is missing between the first and the last, and each has its revisions
  1  not complete, or not proven: units of the source cannot be used, or not all of it could be read
  2  failed: what was found so far is printed")]
pub struct Arguments {
    #[command(flatten)]
    source: SourceOptions,
    #[command(flatten)]
    scan: ScanOptions,
    /// How many of each kind are told; 0 tells all
    #[arg(long, value_name = "NUMBER", default_value_t = 10, env = "REVSYNC_SAMPLE", hide_env_values = true)]
    sample: u32,
}

#[cfg(feature = "local")]
pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let Arguments { source, scan, sample } = arguments;
    let asked = audit::Asked { source, scan, sample: *sample, hashes: false };
    let json = |report: &Report<'_>| {
        let mut object = audit::gaps(report);
        object.insert("blocks_without_revisions".into(), report.audit.open.count.into());
        object.insert("contradictions".into(), contradictions(report).into());
        object.insert("gapless".into(), is_good(report).into());
        object.into()
    };
    Box::pin(audit::run(asked, context, json, human, Audit::is_proven)).await
}

#[cfg(not(feature = "local"))]
pub(super) async fn run(_: &Arguments, _: &super::Context<'_>) -> Result<crate::error::Exit, crate::error::Error> {
    Err(crate::error::Error::usage("journal: this build has no room for the blocks of a journal (feature `local`)"))
}

#[cfg(feature = "local")]
fn is_good(report: &Report<'_>) -> bool {
    report.is_finished && report.audit.is_proven()
}

/// Blocks and revisions that cannot all be of one journal.
#[cfg(feature = "local")]
fn contradictions(report: &Report<'_>) -> u64 {
    let of = |check| [Check::Copies, Check::RevisionListed, Check::RevisionPlace, Check::PreviousBlockHash].contains(&check);
    report.audit.counts.iter().filter(|(verdict, _)| matches!(verdict, Verdict::Broken(check) if of(*check))).map(|(_, count)| count).sum()
}

#[cfg(feature = "local")]
fn human(report: &Report<'_>, paint: Paint) -> String {
    let audit = report.audit;
    let said = match (report.is_finished, is_good(report)) {
        (false, _) => paint.bad("stopped early"),
        (_, true) => paint.good("complete"),
        (_, false) if audit.blocks == 0 => paint.warn("no block of a journal"),
        (_, false) => paint.warn("not complete"),
    };
    let strands = audit::counted(audit.strands.count, "strand", "strands");
    let blocks = audit::counted(audit.blocks, "block", "blocks");
    let revisions = audit::counted(audit.tally.documents, "revision", "revisions");
    let units = audit::counted(audit.units, "unit", "units");
    let (source, time) = (clean(&report.source), duration(report.seconds));
    let mut text = format!("{said}: {blocks} in {strands}, {revisions}  ({source}, {units}, {time})\n");
    audit::strands(&mut text, audit, paint);
    audit::absent(&mut text, audit, paint);
    if audit.open.count > 0 {
        // What is open without a hash is nothing else.
        let count = audit::counted(audit.open.count, "block", "blocks");
        let what = "without a revision of each document that its transaction names; revsync verify-journal names them";
        text.push_str(&format!("\n{}: {count} {what}\n", paint.warn("incomplete")));
    }
    let contradictions = contradictions(report);
    if contradictions > 0 {
        let count = audit::counted(contradictions, "contradiction", "contradictions");
        text.push_str(&format!("\n{}: {count} between blocks; revsync verify-journal names them\n", paint.bad("broken")));
    }
    text
}
