//! `sync --fold`: the first of its two passes over the source.
//!
//! Writes nothing.

use crate::cli::Terminal;
use crate::config::Settings;
use crate::error::Error;
use crate::run::deliver::Deliver;
use crate::source::capture::Inputs;

/// What is said where a folded run left dead letters.
pub(super) const OF_LETTERS: &str =
    "folded: where the sink refused the newest revision of a document, no earlier one was sent; run it without --fold to have that\n";

/// Reads all of the source, which is to be what is read in the second pass, and lets the line send only what stands in it.
#[cfg(feature = "local")]
pub(super) async fn reduced(deliver: Deliver, inputs: Inputs, settings: &Settings, terminal: &Terminal) -> Result<Deliver, Error> {
    use crate::cli::{Progress, line};
    use crate::plan::resume::Place;
    use crate::run::deliver::sifting::fold;

    let scan = line::scan_of(settings, inputs, |_| Ok(Place::default())).await?;
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
pub(super) async fn reduced(_: Deliver, _: Inputs, _: &Settings, _: &Terminal) -> Result<Deliver, Error> {
    Err(Error::usage("--fold: this build has no place for a fold").help("leave it out: the index comes to the same"))
}
