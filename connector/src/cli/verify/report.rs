//! What a comparison came to, for people and as JSON. Decides only the exit code.

use std::fmt::Write;

use indicatif::HumanCount;
use serde_json::{Map, Value, json};

use super::super::report::{Row, attention, duration, rows, table};
use super::super::terminal::{Paint, clean};
use crate::config::SinkUrl;
use crate::error::Exit;
use crate::metrics;
use crate::plan::fold::Class;
use crate::run::verify::{Comparison, Findings, Found};

/// What there is to be said.
pub(super) struct Report<'a> {
    pub(super) findings: &'a Findings,
    pub(super) source: String,
    pub(super) sink: &'a SinkUrl,
    pub(super) seconds: f64,
    /// Whether it came to its end; if not, why is said elsewhere.
    pub(super) is_finished: bool,
}

impl Report<'_> {
    /// The exit code of a run that came to its end.
    pub(super) fn exit(&self) -> Exit {
        let Findings { read, repaired, .. } = self.findings;
        let is_good = self.is_equal() && read.unusable == 0 && repaired.as_ref().is_none_or(|counts| counts.dead_letters == 0);
        if is_good { Exit::Done } else { Exit::Attention }
    }

    fn last(&self) -> Option<&Comparison> {
        self.findings.left.as_ref().or(self.findings.found.as_ref())
    }

    /// Whether nothing is different any more.
    fn is_equal(&self) -> bool {
        self.is_finished && self.last().is_some_and(Comparison::is_equal)
    }

    pub(super) fn json(&self) -> Value {
        let Findings { read, documents, indices, found, repaired, left, remarks, is_complete } = self.findings;
        let mut object = Map::new();
        object.insert("equal".into(), json!(self.is_equal()));
        object.insert("documents".into(), json!(documents));
        object.insert("indices".into(), json!(indices));
        let found = found.clone().unwrap_or_default();
        object.append(&mut counts(&found));
        object.insert("differences".into(), found.sample.iter().map(difference).collect());
        object.insert("units".into(), json!(read.units));
        object.insert("unusable".into(), json!(read.unusable));
        object.insert("complete".into(), json!(self.is_finished && *is_complete));
        if let Some(repaired) = repaired {
            object.insert("repaired".into(), json!(metrics::Report { counts: repaired, seconds: self.seconds }));
            if let Some(left) = left {
                let mut after = counts(left);
                after.insert("differences".into(), left.sample.iter().map(difference).collect());
                object.insert("left".into(), after.into());
            }
            object.insert("remarks".into(), json!(remarks));
        }
        object.insert("seconds".into(), json!(self.seconds));
        object.into()
    }

    pub(super) fn human(&self, paint: Paint) -> String {
        let Findings { read, documents, indices, found, repaired, left, remarks, .. } = self.findings;
        let said = match (self.is_finished, self.is_equal(), repaired) {
            (false, ..) => paint.bad("stopped early"),
            (_, true, None) => paint.good("equal"),
            (_, true, Some(_)) => paint.good("equal after the repair"),
            (_, false, _) => paint.warn("different"),
        };
        let plural = |count: u64, one: &str, many: &str| format!("{} {}", HumanCount(count), if count == 1 { one } else { many });
        let (documents, indices) = (plural(*documents, "document", "documents"), plural(*indices, "index", "indices"));
        let units = plural(read.units, "unit", "units");
        let (source, sink, time) = (clean(&self.source), self.sink, duration(self.seconds));
        let mut text = format!("{said}: {documents} in {indices}  ({source}, {units}, against {sink}, {time})\n");
        if read.unusable > 0 {
            let first = read.first_unusable.as_deref().map(clean).unwrap_or_default();
            let units = plural(read.unusable, "unit", "units");
            let _ = writeln!(text, "\n{}: {units} of the source cannot be used, the first {first}", paint.warn("not proven"));
        }
        if let Some(found) = found.as_ref().filter(|found| !found.is_equal()) {
            comparison(&mut text, if repaired.is_some() { "found" } else { "different" }, found, paint);
        }
        if let Some(repaired) = repaired {
            let _ = writeln!(text, "\n{}", paint.bold("sent to mend it"));
            table(&mut text, &rows(repaired), paint);
        }
        for remark in remarks {
            let _ = writeln!(text, "\n{}", clean(remark));
        }
        if let Some(left) = left.as_ref().filter(|left| !left.is_equal()) {
            comparison(&mut text, "left", left, paint);
        }
        if self.last().is_some_and(|last| last.count(Class::Ahead) > 0) {
            text.push_str(AHEAD);
        }
        text
    }
}

/// What to do about what nothing here can judge.
const AHEAD: &str = "\n\
What is ahead was written by something else, or the stream has lost its records. Look each up in the source. Where the index is wrong, delete the\n\
document there by hand (DELETE INDEX/_doc/ID) and run the same command with --repair: it is missing then, and sent again.\n";

fn counts(comparison: &Comparison) -> Map<String, Value> {
    Class::ALL.iter().map(|class| (class.as_str().to_owned(), json!(comparison.count(*class)))).collect()
}

fn difference((index, difference): &Found) -> Value {
    json!({
        "class": difference.class.as_str(),
        "index": &**index,
        "id": difference.id,
        "held": difference.held,
        "tombstone": difference.is_tombstone,
        "stream": difference.folded,
        "content": difference.is_other,
    })
}

fn comparison(text: &mut String, title: &str, comparison: &Comparison, paint: Paint) {
    let _ = writeln!(text, "\n{}", paint.bold(title));
    let rows: Vec<Row> = Class::ALL.iter().map(|class| attention(class.as_str(), comparison.count(*class), meaning(*class))).collect();
    let rows: Vec<Row> = rows.into_iter().filter(Row::counted).collect();
    table(text, &rows, paint);
    text.push('\n');
    let of = |class: &Class| comparison.sample.iter().filter(|(_, difference)| difference.class == *class).count() as u64;
    for (index, difference) in &comparison.sample {
        let version = |version: Option<u64>| version.map_or("none".to_owned(), |version| version.to_string());
        let tombstone = if difference.is_tombstone { " (tombstone)" } else { "" };
        let other = if difference.is_other { ", other content" } else { "" };
        let (held, stream) = (version(difference.held), version(difference.folded));
        let id = clean(&difference.id);
        let _ = writeln!(text, "  {:<16}  {index}/{id}  index {held}{tombstone}, stream {stream}{other}", difference.class.as_str());
    }
    for class in Class::ALL {
        let more = comparison.count(class).saturating_sub(of(&class));
        if more > 0 {
            let _ = writeln!(text, "  {:<16}  and {} more; --sample 0 tells all", class.as_str(), HumanCount(more));
        }
    }
}

fn meaning(class: Class) -> &'static str {
    match class {
        Class::Missing => "the stream has them, the index does not",
        Class::Stale => "the index holds something older, or other content",
        Class::Resurrected => "the stream deleted them, the index holds them",
        Class::Foreign => "the stream knows no such id",
        Class::Ahead => "the index holds a higher version than the stream has; never mended",
        Class::RedactedPresent => "the index holds content that was redacted",
    }
}

#[cfg(test)]
mod tests;
