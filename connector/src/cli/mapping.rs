//! `mapping SOURCE`: the index mapping that fits what was seen.
//!
//! Prints and writes nothing: whoever wants the mapping keeps it in a file and names it in a rule.

use std::borrow::Cow;
use std::collections::BTreeMap;

use clap::Args;
use tokio::task::spawn_blocking;

use super::options::{ScanOptions, SourceOptions};
use super::terminal::clean;
use super::{Context, line};
use crate::codec::{Content, Decoder};
use crate::error::{Error, Exit, Kind};
use crate::metrics::Notes;
use crate::operation::Operation;
use crate::panics::panicked;
use crate::plan::cells::Row;
use crate::plan::history;
use crate::plan::inference::Inference;
use crate::plan::mapping::{Mapping, Mode, Plan, Planned};
use crate::record::Fault;
use crate::revision::Document;
use crate::run::pages::PAGE;
use crate::source::scan::Scan;

/// Print the index mapping that fits the documents of a source
///
/// Looks at every document and prints the mapping that takes them all, with the fields that contradict themselves named on standard error.
/// It is meant to be read, kept in a file and named by a rule of the configuration.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync mapping capture/ledger.ion --table VehicleRegistration > vehicle_registration.json
      then, in the configuration:  [[table]]
                                   name = \"VehicleRegistration\"
                                   mapping = \"vehicle_registration.json\"

Exit codes:
  0  one mapping takes everything that was seen
  1  fields contradict themselves, there were no documents, or it is not proven that everything was read: it is said
  2  the source cannot be read, or not to its end")]
pub struct Arguments {
    #[command(flatten)]
    source: SourceOptions,
    #[command(flatten)]
    scan: ScanOptions,
    /// Only this table; without it, one mapping per index
    #[arg(long, value_name = "TABLE", env = "REVSYNC_TABLE", hide_env_values = true)]
    table: Option<String>,
}

pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let settings = context.settings(&[&arguments.source, &arguments.scan])?;
    let (mapping, decoder, scan) = (line::mapping(&settings)?, line::decoder(&settings), line::scan(&settings).await?);
    line::say_notes(&scan, &context.terminal);
    let table = arguments.table.clone();
    let seen = spawn_blocking(move || observe(scan, decoder, mapping, table.as_deref()));
    let Observed { seen, unusable, is_complete } = seen.await.map_err(|_| panicked())??;
    let mut exit = line::completeness(is_complete, &context.terminal);
    if let Some((count, Fault { reason, .. })) = unusable {
        let line = format!("{count} units cannot be used, the first of them because: {reason}; revsync explain tells each");
        context.terminal.say(&format!("{}\n", clean(&line)));
    }
    if seen.is_empty() {
        context.terminal.say("no documents: nothing to map\n");
        return Ok(Exit::Attention);
    }
    let mut bodies = serde_json::Map::new();
    for (index, inference) in &seen {
        let inferred = inference.finish();
        context.terminal.say(&format!("{index}: {} documents, {} fields\n", inferred.documents, inferred.fields.len()));
        for conflict in &inferred.conflicts {
            exit = Exit::Attention;
            let found: Vec<_> = conflict.found.iter().map(|(kind, count)| format!("{} {}", kind.as_str(), count)).collect();
            let line = format!("{index}: {}: found {}; mapped as {}: {}", conflict.path, found.join(", "), conflict.chosen, conflict.why);
            context.terminal.say(&format!("{}\n", clean(&line)));
        }
        bodies.insert(index.clone(), inferred.mapping);
    }
    // One index: its body by itself, as a rule's `mapping` file and `PUT INDEX` take it.
    let printed = match bodies.len() {
        1 => bodies.into_iter().next().map(|(_, body)| body).unwrap_or_default(),
        _ => bodies.into(),
    };
    let text = serde_json::to_string_pretty(&printed).map_err(|error| Error::new(Kind::Usage, error.to_string()))?;
    context.terminal.print(&format!("{text}\n"))?;
    Ok(exit)
}

/// What was seen.
struct Observed {
    /// What the documents of each index come to.
    seen: BTreeMap<String, Inference>,
    /// How many units cannot be used, and the first reason.
    unusable: Option<(u64, Fault)>,
    /// Whether it is proven that everything was read.
    is_complete: bool,
}

fn observe(mut scan: Scan, mut decoder: Decoder, mut mapping: Mapping, table: Option<&str>) -> Result<Observed, Error> {
    let mut seen: BTreeMap<String, Inference> = BTreeMap::new();
    let mut unusable: Option<(u64, Fault)> = None;
    let mut refuse = |fault| unusable.get_or_insert((0, fault)).0 += 1;
    let mut notes = Notes::default();
    while let Some(page) = scan.read(PAGE)? {
        for record in &page.records {
            let mut user_records = decoder.open(record);
            while let Some(user_record) = user_records.next(&decoder) {
                let mut units = decoder.units(&user_record);
                while let Some((_, content)) = units.next(&mut decoder, &mut notes) {
                    let revision = match content {
                        Content::Revision(revision) => revision,
                        Content::Refused(error) => return Err(error),
                        Content::Skip(_) | Content::Block(_) => continue,
                        Content::Fault(fault) => {
                            refuse(fault);
                            continue;
                        }
                    };
                    if table.is_some_and(|table| *table != *revision.table) {
                        continue;
                    }
                    for Plan { mode, planned, .. } in mapping.plan(revision, 0)? {
                        match planned {
                            Planned::Operation(operation) => {
                                if let Some(document) = document(&operation, mode) {
                                    seen.entry(operation.target().index.to_string()).or_default().observe(&document);
                                }
                            }
                            Planned::Fault(fault) => refuse(fault),
                            Planned::Skip(_) => {}
                        }
                    }
                }
            }
        }
    }
    Ok(Observed { seen, unusable, is_complete: !scan.is_incomplete() })
}

/// What an operation puts into an index: a document, without what a history has in every one; or of a row that is put together from cells the columns
/// that were written.
fn document(operation: &Operation, mode: Option<Mode>) -> Option<Cow<'_, Document>> {
    match operation {
        Operation::Index { document, .. } if mode == Some(Mode::History) => history::bare(document).map(Cow::Owned),
        Operation::Index { document, .. } => Some(Cow::Borrowed(document)),
        Operation::Merge { cells, .. } => {
            let mut row = Row::default();
            row.merge(cells);
            row.document().map(Cow::Owned)
        }
        Operation::Delete { .. } | Operation::Tombstone { .. } => None,
    }
}
