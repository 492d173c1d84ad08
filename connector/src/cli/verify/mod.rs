//! `verify SOURCE --to SINK`: prove that an index holds what its stream says, and mend what it does not.
//!
//! What can be asked for; a build without SQLite has no room for the fold of a stream, and says so.

#[cfg(feature = "local")]
mod proof;
#[cfg(feature = "local")]
mod report;

use clap::Args;
use clap::builder::BoolishValueParser;

use super::options::{CreationOptions, DeliveryOptions, ScanOptions, SinkOptions, SourceOptions};
#[cfg(feature = "local")]
pub(super) use proof::run;

/// Prove that an index holds what its stream says
///
/// Reads the source to the end that it has now, and folds it to the newest revision of each document. Then looks at every document of the indices that
/// these come to, and of those that rules name, and tells what is different, with ids and versions. With --repair it sends exactly what mends that,
/// and compares again. Nothing that is newer in the index is ever written over.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  revsync verify capture/ledger.ion
      the local index revsync.db; after a sync of the same capture: equal
  revsync verify capture/ --to https://search.example.com --content
      compare the documents too, not only their versions
  revsync verify capture/ --to https://search.example.com --repair
      mend what is different, and compare again
  revsync verify kafka://broker:9092/inventory.customers --to https://search.example.com
      a topic that is written to, and an index that a pipeline keeps: see below
  revsync --json verify capture/ | jq '.differences[] | select(.class == \"stale\").id'

What can be different, as index and stream have it:
  missing           the stream has the document (under deletes = \"tombstone\": or the delete), the
                    index does not
  stale             the index holds an older version; with --content: or other content
  resurrected       the stream deleted it, and the index holds it
  foreign           the stream knows no such id
  ahead             the index holds a version above the newest of the stream: it was written by
                    something else, or the stream has lost records. It is told and never mended: look
                    it up in the source, and delete it by hand where it is wrong
  redacted_present  the index holds content that was redacted

A tombstone that was swept is missing for as long as the stream has its delete. Rows that are put together
from cells are compared cell by cell; a value that was changed under its version shows with --content.

On a stream that is written to, what the pipeline has not delivered yet shows as missing or stale:
verify again a moment later. Nothing shows as foreign or ahead because it came meanwhile.

A repair deletes what is foreign, unless the stream may not have everything: records that cannot be
used, a topic that does not begin at offset 0, a stream older than its retention, an index of which
more than half is foreign. Then it says so and leaves them; --force deletes them all the same. Nor does
the index forget a delete that it remembers, where the source could not be read completely. What the
index refuses becomes a dead letter.

What it costs: one read of the source, one of the indices, and room for each document's id and version
(with --repair for its record too) in a temporary file beyond some 30 MiB of memory. The file is in the
folder that SQLITE_TMPDIR or TMPDIR names (else /var/tmp), has no name, and is gone with the process.

Exit codes:
  0  equal
  1  different, or not proven: units of the source cannot be used, or not all of it could be read
  2  failed: what was found so far is printed")]
pub struct Arguments {
    #[command(flatten)]
    source: SourceOptions,
    /// Compare the documents too, not only their versions
    #[arg(long, env = "REVSYNC_CONTENT", hide_env_values = true, value_parser = BoolishValueParser::new())]
    content: bool,
    /// Send what mends the differences, and compare again
    #[arg(long, env = "REVSYNC_REPAIR", hide_env_values = true, value_parser = BoolishValueParser::new())]
    repair: bool,
    /// With --repair: delete foreign documents also where the stream may not have everything
    #[arg(long, env = "REVSYNC_FORCE", hide_env_values = true, value_parser = BoolishValueParser::new())]
    force: bool,
    /// How many differences of each kind are told; 0 tells all
    #[arg(long, value_name = "NUMBER", default_value_t = 10, env = "REVSYNC_SAMPLE", hide_env_values = true)]
    sample: u32,
    #[command(flatten)]
    scan: ScanOptions,
    #[command(flatten)]
    sink: SinkOptions,
    #[command(flatten)]
    creation: CreationOptions,
    #[command(flatten)]
    delivery: DeliveryOptions,
}

#[cfg(not(feature = "local"))]
pub(super) async fn run(_: &Arguments, _: &super::Context<'_>) -> Result<crate::error::Exit, crate::error::Error> {
    Err(crate::error::Error::usage("verify: this build has no room for the fold of a stream (feature `local`)"))
}
