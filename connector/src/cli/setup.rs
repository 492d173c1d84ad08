//! `setup`: create what delivery needs, and say what else is needed.
//!
//! Of an index or alias that exists it touches nothing but the mapping of tombstones, where it gets any; and it grants no rights: it says
//! which ones are wanted.

use clap::Args;

use super::options::{CreationOptions, SinkOptions};
use super::terminal::clean;
use super::{Context, line};
use crate::config::Settings;
use crate::error::{Error, Exit};
use crate::plan::mapping::Deletes;
use crate::sink::opensearch::Advice;

/// Create indices and aliases, and print what else is needed
///
/// Creates each index that is named here or by a rule of the configuration, as NAME-000001 with the write alias NAME, so that it can be
/// rebuilt behind its name later. What exists is used as it is. Needs an OpenSearch sink: the others create by themselves.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  revsync setup --to https://search.example.com --username admin vehicle_registration person
  revsync --config revsync.toml setup
      every index that the rules name

The rights that sync needs, of a role with no more than this:
{}
Exit codes:
  0  everything exists now
  2  something could not be created", rights("NAME, NAME-*")))]
pub struct Arguments {
    /// Indices to create beside those that the configuration names
    #[arg(value_name = "INDEX")]
    indices: Vec<String>,
    #[command(flatten)]
    sink: SinkOptions,
    #[command(flatten)]
    creation: CreationOptions,
}

pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let settings = context.settings(&[&arguments.sink, &arguments.creation])?;
    let Some(config) = &settings.sink.opensearch else {
        context.terminal.say(&format!("{} needs no setup: it is created by the first run.\n", settings.sink.url));
        return Ok(Exit::Done);
    };
    let names = names(&arguments.indices, &settings);
    if names.is_empty() {
        return Err(Error::usage("no index to create: expected names as arguments, or rules with an index in the file of --config")
            .help("indices that no rule names are created by the first sync"));
    }
    let sink = line::opensearch(&settings).await?;
    sink.probe().await?;
    let (done, advice) = sink.setup(&names.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    if context.terminal.json {
        let advice: Vec<String> = advice.iter().map(ToString::to_string).collect();
        context.terminal.print_json(&serde_json::json!({ "indices": names, "done": done, "advice": advice }))?;
        return Ok(Exit::Done);
    }
    let paint = context.terminal.paint;
    let mut text: String = done.iter().map(|line| format!("{} {line}\n", paint.good("✓"))).collect();
    for Advice { found, help } in &advice {
        text.push_str(&format!("{} {}\n  {}\n", paint.warn("!"), clean(found), paint.dim(clean(help))));
    }
    text.push_str(&needed(&settings, &config.gc_deletes, &names));
    context.terminal.print(&text)?;
    Ok(Exit::Done)
}

/// The names given, then those of the rules, each once.
fn names(given: &[String], settings: &Settings) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in given.iter().cloned().chain(settings.indices()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// What a person has to do, because revsync does not.
fn needed(settings: &Settings, gc_deletes: &str, names: &[String]) -> String {
    let patterns: Vec<String> = names.iter().map(|name| format!("{name}, {name}-*")).collect();
    let rights = rights(&patterns.join(", "));
    let mut text = format!("\nWhat else is needed\n  A role for the user that sync runs as, with no more than this:\n{rights}");
    if settings.plainly_deleted().is_none_or(|tables| !tables.is_empty()) {
        text.push_str(&format!(
            "  Deletes are remembered for {gc_deletes} (index.gc_deletes), and not past a restart of the server's node:
  a revision that is delivered again later than that can bring its document back. deletes = \"tombstone\"
  in a table's rule holds; see revsync sweep --help.
"
        ));
    }
    if settings.all_deletes().iter().any(|(_, deletes)| *deletes == Deletes::Tombstone) {
        text.push_str("  A job that runs revsync sweep now and then, once a day say: until then every delete leaves a tombstone.\n");
    }
    text
}

/// The rights that delivery needs, by the names that the security plugin gives them. `indices` are the patterns of the role.
fn rights(indices: &str) -> String {
    format!(
        "    cluster          cluster:monitor/main, indices:data/write/bulk
    on the indices   {indices}
      to deliver     indices:data/write/*, indices:admin/get, indices:admin/refresh*,
                     indices:admin/mapping/auto_put; with tombstones indices:admin/mapping/put
      to create      indices:admin/create, indices:admin/aliases
      to search      indices:data/read/search*
      to sweep       indices:admin/get, indices:data/write/*, indices:data/read/search*,
                     indices:data/read/scroll*
      to run         indices:data/write/*, indices:data/read/search, indices:admin/get,
                     indices:admin/refresh*, indices:admin/create and indices:admin/mapping/put on
                     revsync-checkpoints, unless checkpoints are elsewhere; without the last two,
                     where that index exists
      to check       indices:admin/create and indices:admin/delete on NAME-revsync-check-*
"
    )
}
