//! `verify-journal SOURCE`: prove that a journal is what its ledger wrote.
//!
//! What can be asked for; a build without SQLite has no room for the blocks of a journal, and says so. Judges nothing.

#[cfg(feature = "local")]
use std::fmt::Write;

use clap::Args;
#[cfg(feature = "local")]
use indicatif::HumanCount;
#[cfg(feature = "local")]
use serde_json::{Value, json};

#[cfg(feature = "local")]
use super::audit::{self, Report};
use super::options::{ScanOptions, SourceOptions};
#[cfg(feature = "local")]
use super::{Context, report::duration, terminal::Paint, terminal::clean};
#[cfg(feature = "local")]
use crate::error::{Error, Exit};
#[cfg(feature = "local")]
use crate::plan::journal::{Finding, Verdict};
#[cfg(feature = "local")]
use crate::run::journal::Audit;

/// Prove that a ledger's journal is what the ledger wrote
///
/// Computes every hash of a journal of QLDB again: of each revision from its metadata and its data, of each block from its statements and its
/// revisions, and the chain that the blocks make. Names the first that does not follow, with the address of its block. Takes journal exports of
/// every output format and captured streams, in any order and with whatever is in them twice.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync verify-journal export/
      a journal export, with all of its files
  revsync verify-journal capture/
      a captured stream, with its block summaries
  revsync --json verify-journal export/ | jq '.breaks[] | {block, check}'

What is checked:
  revision_hash        hash follows from metadata and data; where the data was redacted, from dataHash
  revision_place       a revision of an export says the block and the transaction that it is
                       found in, and is of a document that these name
  revision_listed      the hash of a revision is one of those that its block has
  transaction_info     the hash of transactionInfo is one of entriesHashList
  revisions            the root of the hashes of the revisions is one of entriesHashList
  entries_hash         entriesHash is the root of entriesHashList
  block_hash           blockHash follows from entriesHash and previousBlockHash
  previous_block_hash  previousBlockHash is the blockHash of the block before
  copies               blocks that come more than once are the same

What cannot be checked, and is told with its count:
  deletions            how their hash is made is not published; that it is one of its block is
                       checked. A revision whose data somebody took out looks like a deletion,
                       or with dataHash in its place like a redaction: know how many there were
  the ledger's own     revisions of which only the hash leaves the ledger
  the first block      of a strand: nothing is before it that it could go on from
  no hash covers       the strand, the number and the time of a block, redactionInfo, the
                       transactionId of a block without revisions, and in a stream the name of
                       a table
  JSON                 has lost the types of Ion. Likely readings of a document are tried; where
                       none gives its hash, the document is not proven: look for an export in Ion
A whole journal that somebody made anew, with all of its hashes, is as right as the first one:
compare the hash of the last block of a strand, which is printed, with one that you know from
elsewhere.

What it costs: as revsync journal, and the time for the hashes.

Exit codes:
  0  proven: everything is there, and every hash that can be checked follows
  1  broken, or not proven: it is said which block and which check, or what could not be checked
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
    let asked = audit::Asked { source, scan, sample: *sample, hashes: true };
    Box::pin(audit::run(asked, context, json, human, Audit::is_proven)).await
}

#[cfg(not(feature = "local"))]
pub(super) async fn run(_: &Arguments, _: &super::Context<'_>) -> Result<crate::error::Exit, crate::error::Error> {
    Err(crate::error::Error::usage("verify-journal: this build has no room for the blocks of a journal (feature `local`)"))
}

/// The word for a verdict.
#[cfg(feature = "local")]
fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Broken(check) => check.as_str(),
        Verdict::Open(open) => open.as_str(),
    }
}

#[cfg(feature = "local")]
fn json(report: &Report<'_>) -> Value {
    let audit = report.audit;
    let finding = |finding: &Finding| {
        let hash = |hash: &Option<_>| hash.as_ref().map(ToString::to_string);
        json!({
            "block": audit::address(&finding.address),
            "check": name(finding.verdict),
            "documentId": finding.revision.as_ref().map(|(id, _)| id),
            "version": finding.revision.as_ref().map(|(_, version)| version),
            "expected": hash(&finding.expected),
            "found": hash(&finding.found),
        })
    };
    let of = |broken: bool| -> Value {
        let counts = audit.counts.iter().filter(|(verdict, _)| matches!(verdict, Verdict::Broken(_)) == broken);
        Value::Object(counts.map(|(verdict, count)| (name(*verdict).to_owned(), json!(count))).collect())
    };
    let mut object = audit::gaps(report);
    object.insert("proven".into(), json!(report.is_finished && audit.is_proven()));
    object.insert("broken".into(), json!(audit.broken.count));
    object.insert("broken_checks".into(), of(true));
    object.insert("breaks".into(), audit.broken.first.iter().map(finding).collect());
    object.insert("not_proven".into(), json!(audit.open.count));
    object.insert("not_proven_reasons".into(), of(false));
    object.insert("open".into(), audit.open.first.iter().map(finding).collect());
    object.insert("links".into(), json!(audit.links));
    object.insert("verified".into(), json!({"whole": audit.tally.whole, "redacted": audit.tally.redacted}));
    object.insert("unchecked".into(), json!({"deletions": audit.tally.deletions, "system": audit.tally.system}));
    object.into()
}

#[cfg(feature = "local")]
fn human(report: &Report<'_>, paint: Paint) -> String {
    let audit = report.audit;
    let said = match report.is_finished {
        false => paint.bad("stopped early"),
        true if audit.broken.count > 0 => paint.bad("broken"),
        true if audit.is_proven() => paint.good("proven"),
        true if audit.blocks == 0 => paint.warn("no block of a journal"),
        true => paint.warn("not proven"),
    };
    let strands = audit::counted(audit.strands.count, "strand", "strands");
    let blocks = audit::counted(audit.blocks, "block", "blocks");
    let revisions = audit::counted(audit.tally.documents, "revision", "revisions");
    let (source, time) = (clean(&report.source), duration(report.seconds));
    let mut text =
        format!("{said}: {blocks} in {strands}, {revisions}  ({source}, {}, {time})\n", audit::counted(audit.units, "unit", "units"));
    if audit.broken.count > 0 {
        broken(&mut text, audit, paint);
    }
    if audit.open.count > 0 {
        open(&mut text, audit, paint);
    }
    audit::absent(&mut text, audit, paint);
    checked(&mut text, audit, paint);
    text
}

#[cfg(feature = "local")]
fn broken(text: &mut String, audit: &Audit, paint: Paint) {
    let count = audit::counted(audit.broken.count, "check fails", "checks fail");
    let first = audit.broken.first.first().map(|first| format!(", the first at {}", audit::at(&first.address))).unwrap_or_default();
    let _ = writeln!(text, "\n{}: {count}{first}", paint.bad("broken"));
    for finding in &audit.broken.first {
        said(text, finding);
        if let Verdict::Broken(check) = finding.verdict {
            let _ = writeln!(text, "      {}", check.meaning());
        }
        for (word, hash) in [("expected", &finding.expected), ("found", &finding.found)] {
            if let Some(hash) = hash {
                let _ = writeln!(text, "      {word:<8}  {hash}");
            }
        }
    }
    audit::rest(text, &audit.broken);
}

#[cfg(feature = "local")]
fn open(text: &mut String, audit: &Audit, paint: Paint) {
    let _ = writeln!(
        text,
        "\n{}: {}",
        paint.warn("not proven"),
        audit::counted(audit.open.count, "check could not be made", "checks could not be made")
    );
    for (verdict, count) in &audit.counts {
        if let Verdict::Open(open) = verdict {
            let _ = writeln!(text, "  {:<22}  {}  {}", open.as_str(), HumanCount(*count), open.meaning());
        }
    }
    for finding in &audit.open.first {
        said(text, finding);
    }
    audit::rest(text, &audit.open);
}

#[cfg(feature = "local")]
fn said(text: &mut String, finding: &Finding) {
    let revision = finding.revision.as_ref().map(|(id, version)| format!("  {} version {version}", clean(id))).unwrap_or_default();
    let _ = writeln!(text, "  {}  {}{revision}", audit::at(&finding.address), name(finding.verdict));
}

/// What was checked, and what nobody can check.
#[cfg(feature = "local")]
fn checked(text: &mut String, audit: &Audit, paint: Paint) {
    if audit.blocks == 0 {
        return;
    }
    let tally = &audit.tally;
    let _ = writeln!(text, "\n{}", paint.bold("checked"));
    let _ = writeln!(text, "  {} by their content", audit::counted(tally.whole, "revision", "revisions"));
    if tally.redacted > 0 {
        let _ = writeln!(text, "  {} by the hash of the content that was removed", audit::counted(tally.redacted, "revision", "revisions"));
    }
    let _ = writeln!(text, "  {} that a block goes on from the one before", audit::counted(audit.links, "time", "times"));
    let _ = writeln!(text, "\n{}", paint.bold("cannot be checked"));
    if tally.deletions > 0 {
        let count = audit::counted(tally.deletions, "deletion", "deletions");
        let _ = writeln!(text, "  {count}: how their hash is made is not published");
    }
    if tally.system > 0 {
        let _ = writeln!(
            text,
            "  {}: only their hash leaves it",
            audit::counted(tally.system, "revision of the ledger's own", "revisions of the ledger's own")
        );
    }
    for strand in &audit.strands.first {
        let _ = writeln!(text, "  {}@{}: nothing is before it that it could go on from", clean(&strand.strand), strand.first);
    }
    audit::rest(text, &audit.strands);
    let _ = writeln!(
        text,
        "  the address and the time of a block, its redactionInfo, and its transactionId where it has no revisions: no hash covers them"
    );
    let _ = writeln!(text, "\n{}", paint.bold("the hash of the last block, to be compared with one that is known from elsewhere"));
    for strand in &audit.strands.first {
        let hash = strand.last_hash.as_ref().map_or("none".to_owned(), ToString::to_string);
        let _ = writeln!(text, "  {}@{}  {hash}", clean(&strand.strand), strand.last);
    }
}
