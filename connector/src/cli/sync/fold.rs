//! `sync --fold`: the first of its two passes over the source.
//!
//! Writes nothing.

use crate::cli::{Terminal, line};
use crate::config::Settings;
use crate::error::Error;
use crate::plan::resume::Place;
use crate::run::deliver::Deliver;
use crate::source::scan::Scan;

/// What is said where a folded run left dead letters.
pub(super) const OF_LETTERS: &str =
    "folded: where the sink refused the newest revision of a document, no earlier one was sent; run it without --fold to have that\n";

/// Opens the source for the first pass. It has to be files.
///
/// # Errors
/// It can be read once only, or it is not there.
pub(super) async fn scan(settings: &Settings) -> Result<Scan, Error> {
    super::resume::files(settings, "--fold")?;
    line::scan_of_files(settings, |_| Ok(Place { file: 0, offset: 0 })).await
}

/// Reads the whole source, and lets the line send only what stands in it.
#[cfg(feature = "local")]
pub(super) async fn reduced(scan: Scan, deliver: Deliver, settings: &Settings, terminal: &Terminal) -> Result<Deliver, Error> {
    use crate::cli::Progress;
    use crate::run::deliver::sifting::fold;

    let progress = Progress::start(&terminal.bars, scan.total());
    let memory = line::delivery(settings).budget() / 2;
    let folded = fold(scan, line::decoder(settings), line::mapping(settings)?, memory, |read, units| {
        progress.tell(read, || format!("first of two passes, {units} units"));
    });
    let folded = folded.await;
    progress.finish();
    folded.map(|folded| deliver.sifted_by(folded))
}

/// Without the local index there is no place for the fold.
#[cfg(not(feature = "local"))]
pub(super) async fn reduced(_: Scan, _: Deliver, _: &Settings, _: &Terminal) -> Result<Deliver, Error> {
    Err(Error::usage("--fold: this build has no place for a fold").help("leave it out: the index comes to the same"))
}
