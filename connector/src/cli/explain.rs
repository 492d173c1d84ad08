//! `explain SOURCE`: decode and plan without sending; one line per unit.
//!
//! Opens no sink and stores no dead letter, so it can be tried on anything.

use clap::Args;

use super::options::{JournalOptions, ScanOptions, SourceOptions};
use super::terminal::clean;
use super::{Context, line};
use crate::error::{Error, Exit};
use crate::panics::panicked;
use crate::run::explain::explain;
use crate::run::pages;

/// Say for every unit of a source what would be done with it, and why
///
/// Decodes and plans as sync does, and sends nothing. Exactly one line per unit: where it is, what it is, what would be done.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync explain capture/ledger.ion | less -S
  revsync --config revsync.toml explain | grep skipped
      see what the rules of a configuration do before they do it
  revsync explain 'kinesis://ledger?region=eu-west-1' | less -S
      all records that the stream has now, one read a second of each shard
  revsync explain kafka://broker:9092/shop.item --key shop.item=sku | less -S
      all messages of a topic; no group is joined, and nothing is committed

Exit codes:
  0  every unit can be used
  1  something would become a dead letter, or it is not proven that everything was read: it is said
  2  the source cannot be read, or not to its end")]
pub struct Arguments {
    #[command(flatten)]
    source: SourceOptions,
    #[command(flatten)]
    scan: ScanOptions,
    #[command(flatten)]
    journal: JournalOptions,
}

pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    let settings = context.settings(&[&arguments.source, &arguments.scan, &arguments.journal])?;
    let (mut mapping, mut decoder) = (line::mapping(&settings)?, line::decoder(&settings));
    let mut scan = line::scan(&settings).await?;
    let terminal = &context.terminal;
    line::say_notes(&scan, terminal);
    let mut exit = Exit::Done;
    loop {
        let read;
        (scan, read) = pages::next(scan).await.map_err(|_| panicked())?;
        let Some(page) = read? else {
            return Ok(exit.max(line::completeness(!scan.is_incomplete(), terminal)));
        };
        let mut lines = String::new();
        let mut stopped = Ok(());
        for record in &page.records {
            stopped = explain(&mut decoder, &mut mapping, record, |explained| {
                if explained.action == "dead_letter" {
                    exit = Exit::Attention;
                }
                let line =
                    if terminal.json { serde_json::to_string(&explained).unwrap_or_default() } else { clean(&explained.to_string()) };
                lines.push_str(&line);
                lines.push('\n');
            });
            if stopped.is_err() {
                break;
            }
        }
        terminal.print(&lines)?;
        stopped?;
    }
}
