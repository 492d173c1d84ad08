//! The report of a run for people: what was counted, what that means, and what to do next.
//!
//! Decides nothing: an exit code is made elsewhere from the same counts. Headings that counted nothing are left out.

use std::fmt::Write;

use indicatif::{HumanBytes, HumanCount};

use super::terminal::{Paint, clean};
use crate::config::{DEFAULT_DEAD_LETTERS, DEFAULT_SINK, SinkUrl};
use crate::error::Exit;
use crate::metrics::{Counts, Notes, Skip};
use crate::store::dead_letters::Place;

/// A run that has ended, well or not.
#[derive(Debug)]
pub struct Run<'a> {
    /// What was counted.
    pub counts: &'a Counts,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Where the records came from, for the headline.
    pub source: &'a str,
    /// Where the operations went.
    pub sink: &'a SinkUrl,
    /// Where dead letters are.
    pub dead_letters: &'a Place,
    /// Whether the run came to its end; if not, why is said elsewhere.
    pub complete: bool,
}

/// The exit code of a run that came to its end.
pub fn exit(counts: &Counts) -> Exit {
    match counts {
        Counts { pending: 1.., .. } => Exit::Failed,
        Counts { dead_letters: 1.., .. } => Exit::Attention,
        _ => Exit::Done,
    }
}

/// The report.
pub fn human(run: &Run<'_>, paint: Paint) -> String {
    let counts = run.counts;
    let mut text = headline(run, paint);
    let rows = rows(counts);
    if !rows.is_empty() {
        text.push('\n');
        table(&mut text, &rows, paint);
    }
    let notes = notes(&counts.notes);
    if !notes.is_empty() {
        let _ = writeln!(text, "\n{}", paint.bold("worth knowing"));
        table(&mut text, &notes, paint);
    }
    let next = next_steps(run);
    if !next.is_empty() {
        let _ = writeln!(text, "\n{}", paint.bold("next"));
        let width = next.iter().map(|(command, _)| command.chars().count()).max().unwrap_or_default();
        for (command, what) in next {
            let _ = writeln!(text, "  {command:<width$}  {}", paint.dim(what));
        }
    }
    text
}

pub(super) fn table(text: &mut String, rows: &[Row], paint: Paint) {
    const NAMES: usize = 22;
    let digits = rows.iter().map(|row| HumanCount(row.count).to_string().len()).max().unwrap_or_default();
    for row in rows {
        let count = HumanCount(row.count).to_string();
        let name = match row.tone {
            Tone::Plain => paint.bold(row.name).to_string(),
            Tone::Attention => paint.warn(row.name).to_string(),
        };
        // The name is padded by hand: its colours have no width.
        let pad = " ".repeat(NAMES.saturating_sub(row.name.len()));
        let _ = writeln!(text, "  {name}{pad}{count:>digits$}  {}", paint.dim(row.meaning));
    }
}

fn headline(run: &Run<'_>, paint: Paint) -> String {
    let counts = run.counts;
    let said = match (run.complete && counts.pending == 0, counts.dead_letters) {
        (false, _) => paint.bad("stopped early"),
        (true, 0) => paint.good("done"),
        (true, _) => paint.warn("done, with dead letters"),
    };
    let units = if counts.received == 1 { "unit" } else { "units" };
    let amount = format!("{} {units}, {}", HumanCount(counts.received), HumanBytes(counts.bytes));
    format!("{said}: {} -> {}  ({amount}, {})\n", clean(run.source), run.sink, duration(run.seconds))
}

/// `0.4 s`, `12 s`, `3 min 20 s`.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 60.0 => format!("{s:.0} s"),
        s => format!("{:.0} min {:.0} s", (s / 60.0).floor(), (s % 60.0).floor()),
    }
}

enum Tone {
    Plain,
    Attention,
}

pub(super) struct Row {
    name: &'static str,
    count: u64,
    meaning: &'static str,
    tone: Tone,
}

impl Row {
    /// Whether there is anything to say.
    pub(super) fn counted(&self) -> bool {
        self.count > 0
    }
}

pub(super) fn plain(name: &'static str, count: u64, meaning: &'static str) -> Row {
    Row { name, count, meaning, tone: Tone::Plain }
}

pub(super) fn attention(name: &'static str, count: u64, meaning: &'static str) -> Row {
    Row { name, count, meaning, tone: Tone::Attention }
}

/// What was counted.
pub(super) fn rows(counts: &Counts) -> Vec<Row> {
    let mut rows = vec![
        plain("indexed", counts.indexed, "documents written"),
        plain("deleted", counts.deleted, "documents deleted"),
        plain("stale", counts.stale, "the index already held something at least as new"),
        plain("absent", counts.absent, "deletes of documents that the index did not have"),
        plain("compacted", counts.compacted, "a newer revision of the same document was sent instead"),
    ];
    rows.extend(counts.skipped.iter().map(|(reason, count)| {
        let (name, meaning) = skipped(*reason);
        plain(name, *count, meaning)
    }));
    rows.push(attention("dead letters", counts.dead_letters, "can never succeed; stored with the reason"));
    rows.push(attention("pending", counts.pending, "read, but not settled; the next run sends them"));
    rows.retain(Row::counted);
    rows
}

fn skipped(reason: Skip) -> (&'static str, &'static str) {
    match reason {
        Skip::Control => ("skipped.control", "control records of the stream"),
        Skip::BlockSummary => ("skipped.block_summary", "the journal's own bookkeeping"),
        Skip::Filtered => ("skipped.filtered", "deletes that a rule keeps from the index"),
        Skip::Redacted => ("skipped.redacted", "content was redacted; a newer revision holds the document"),
        Skip::Unmapped => ("skipped.unmapped", "no rule names their table"),
        Skip::NoChange => ("skipped.no_change", "nothing to write"),
    }
}

fn notes(notes: &Notes) -> Vec<Row> {
    let mut rows = vec![
        plain("hashes verified", notes.hashes_verified, "computed again, and right"),
        attention("hashes mismatched", notes.hashes_mismatched, "content that was changed after its hash was made; dead letters"),
        plain("hashes unchecked", notes.hashes_unchecked, "deletes, and revisions without a hash"),
        plain("duplicate fields", notes.duplicate_fields, "names that came twice in one struct; the last one was kept"),
        plain("annotations", notes.annotations, "dropped, JSON has none"),
        plain("non-finite numbers", notes.non_finite, "NaN and infinities, replaced as the rules say"),
        plain("lone surrogates", notes.lone_surrogates, "halves of characters, replaced by U+FFFD"),
    ];
    rows.retain(|row| row.count > 0);
    rows
}

fn next_steps(run: &Run<'_>) -> Vec<(String, &'static str)> {
    let mut next = Vec::new();
    let to = match run.sink {
        SinkUrl::Local(_) if run.sink.to_string() == DEFAULT_SINK => Some(String::new()),
        SinkUrl::Local(_) | SinkUrl::OpenSearch { .. } => Some(format!(" --to {}", run.sink)),
        SinkUrl::BulkFile(_) | SinkUrl::BulkStdout => None,
    };
    if run.counts.indexed > 0
        && let Some(to) = to
    {
        next.push((format!("revsync search{to} TEXT"), "find documents by what they say"));
    }
    if run.counts.dead_letters > 0 {
        let place = run.dead_letters.to_string();
        // A shell would take the signs of a query for its own.
        let quote = if place.contains(['?', '&', ' ']) { "'" } else { "" };
        let at = if place == DEFAULT_DEAD_LETTERS { String::new() } else { format!(" --dead-letters {quote}{place}{quote}") };
        next.push((format!("revsync dead-letters list{at}"), "see what could not be indexed, and why"));
    }
    next
}
