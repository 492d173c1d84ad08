//! Proves that an index holds what its stream says, and mends what it does not: the stream is folded to its end, the index is compared with the fold.
//!
//! The stream may be live. So it is read first, and the index second: what the index has more was written meanwhile, and the stream is read on to the
//! end that it has by then before anything counts as foreign, ahead or missing; what looks missing, stale or resurrected is looked up once more. A repair goes
//! by the versions that were found and never writes over anything newer. `folding` takes records in, `comparing` walks the indices; here is the
//! order of effects. Judges nothing: that is [`plan::fold`](crate::plan::fold).

mod comparing;
pub(in crate::run) mod folding;
mod repair;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;

pub use self::folding::Read;
pub use self::repair::Repair;

use self::comparing::Comparing;
use self::folding::Folding;
use super::deliver::interrupted;
use super::pages;
use super::patience::Patience;
use super::stopped;
use crate::codec::Decoder;
use crate::error::Error;
use crate::metrics::Counts;
use crate::panics::panicked;
use crate::plan::fold::Class;
use crate::plan::mapping::Mapping;
use crate::sink::Contents;
use crate::source::scan::Scan;
use crate::store::fold::differences::Difference;
use crate::store::fold::{Fold, Keeps};

/// What is to be verified.
pub struct Request {
    /// The stream.
    pub source: Scan,
    /// Reads its records.
    pub decoder: Decoder,
    /// The rules.
    pub mapping: Mapping,
    /// What is to hold what the stream says.
    pub sink: Arc<dyn Contents>,
    /// Whether contents are compared too.
    pub contents: bool,
    /// How many differences of a class are told at most; `None` tells all.
    pub sample: Option<u32>,
    /// Bytes of memory that the fold may take.
    pub memory: usize,
    /// Time without progress after which the sink is given up.
    pub give_up_after: Duration,
}

/// How far it is.
#[derive(Debug)]
pub enum Step<'a> {
    /// Records are read: how much of the source, and how many units.
    Folding(u64, u64),
    /// Documents are looked at: how many, and of how many.
    Comparing(u64, u64),
    /// Operations that mend are sent.
    Mending(&'a Counts),
}

/// A difference, with the name of its index.
pub type Found = (Arc<str>, Difference);

/// What a comparison came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// How many differences there are of each class, in the order of [`Class::ALL`].
    pub counts: [u64; Class::ALL.len()],
    /// Some of them, or all.
    pub sample: Vec<Found>,
}

impl Comparison {
    /// How many differences there are of a class.
    pub fn count(&self, class: Class) -> u64 {
        Class::ALL.iter().zip(self.counts).find(|(other, _)| **other == class).map_or(0, |(_, count)| count)
    }

    /// Whether there is none.
    pub fn is_equal(&self) -> bool {
        self.counts.iter().all(|count| *count == 0)
    }
}

/// What is known, also after an error.
#[derive(Debug, Default)]
pub struct Findings {
    /// What was read.
    pub read: Read,
    /// Whether everything that the stream has was read; something may be lost before it could be.
    pub is_complete: bool,
    /// Documents that the stream says there are.
    pub documents: u64,
    /// The indices that were compared.
    pub indices: u64,
    /// What was found; `None` before the end of the first comparison.
    pub found: Option<Comparison>,
    /// What was sent to mend it.
    pub repaired: Option<Counts>,
    /// What was found after the repair.
    pub left: Option<Comparison>,
    /// What a person should know of the repair.
    pub remarks: Vec<String>,
}

/// Verifies, and repairs where that is wanted; `findings` holds what came of it, also after an error.
///
/// # Errors
/// The source cannot be read to its end; the sink refuses or was down for too long; the fold has no room; a stop signal.
pub async fn verify(
    request: Request,
    repair: Option<Repair>,
    stop: watch::Receiver<bool>,
    findings: &mut Findings,
    progress: impl FnMut(Step<'_>) + Send,
) -> Result<(), Error> {
    let Request { source, decoder, mapping, sink, contents, sample, memory, give_up_after } = request;
    let rights = "revsync setup --help lists the rights that are needed";
    let patience = Patience::new(sink.name(), rights, give_up_after, stop.clone());
    let named = mapping.named_indices();
    let mut verifying = Verifying {
        fold: Fold::open(memory, if repair.is_some() { Keeps::Units } else { Keeps::Nothing })?,
        folding: Folding::new(decoder, mapping, contents),
        comparing: Comparing::new(sink, patience, &named, contents),
        has_dropped: source.has_dropped(),
        source: Some(source),
        sample,
        stop,
        progress,
    };
    let result = Box::pin(verifying.run(repair, findings)).await;
    findings.read = verifying.folding.read;
    result
}

struct Verifying<P> {
    fold: Fold,
    folding: Folding,
    comparing: Comparing,
    /// `None` while it is being read.
    source: Option<Scan>,
    /// Whether the source may have dropped records: a document that it does not know may be of one of them.
    has_dropped: bool,
    sample: Option<u32>,
    stop: watch::Receiver<bool>,
    progress: P,
}

impl<P: FnMut(Step<'_>) + Send> Verifying<P> {
    async fn run(&mut self, repair: Option<Repair>, findings: &mut Findings) -> Result<(), Error> {
        self.read().await?;
        self.compare(findings).await?;
        let found = self.comparison()?;
        let is_equal = found.is_equal();
        findings.found = Some(found);
        if let Some(repair) = repair
            && !is_equal
        {
            self.repair(repair, findings).await?;
            findings.left = Some(self.comparison()?);
        }
        Ok(())
    }

    /// Reads the source to the end that it has now.
    async fn read(&mut self) -> Result<(), Error> {
        let Some(source) = self.source.take() else { return Ok(()) };
        let mut stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stopped(&mut stop) => Err(interrupted()),
            read = self.read_all(source) => read,
        }
    }

    async fn read_all(&mut self, source: Scan) -> Result<(), Error> {
        let mut reading = pages::next(source);
        loop {
            let (source, page) = reading.await.map_err(|_| panicked())?;
            let Some(page) = page? else {
                self.source = Some(source);
                return Ok(());
            };
            // The next page is read while this one is worked on.
            reading = pages::next(source);
            self.folding.fold(&page.records, &mut self.fold)?;
            (self.progress)(Step::Folding(page.read, self.folding.read.units));
        }
    }

    /// Compares, and reads the source on where the index has more than the fold.
    async fn compare(&mut self, findings: &mut Findings) -> Result<(), Error> {
        let progress = &mut self.progress;
        self.comparing.walk(&mut self.fold, |looked_at, of| progress(Step::Comparing(looked_at, of))).await?;
        self.comparing.look_again(&mut self.fold).await?;
        // What is missing may have been deleted since the end.
        if self.fold.has_any(&[Class::Foreign, Class::Ahead, Class::Missing])? && self.extend().await? {
            self.read().await?;
            Comparing::judge_newer(&mut self.fold)?;
            self.comparing.look_again(&mut self.fold).await?;
        }
        findings.is_complete = self.source.as_ref().is_some_and(|source| !source.is_incomplete());
        findings.documents = self.fold.documents()?;
        findings.indices = self.fold.indices().len() as u64;
        Ok(())
    }

    /// Whether the source has grown, and can be read on.
    async fn extend(&mut self) -> Result<bool, Error> {
        let Some(mut source) = self.source.take() else { return Err(panicked()) };
        let asked = spawn_blocking(move || {
            let extended = source.extend();
            (source, extended)
        });
        let (source, extended) = asked.await.map_err(|_| panicked())?;
        self.source = Some(source);
        extended
    }

    fn comparison(&self) -> Result<Comparison, Error> {
        let mut comparison = Comparison::default();
        for (class, count) in Class::ALL.into_iter().zip(&mut comparison.counts) {
            *count = self.fold.count(class)?;
            let sample = self.fold.sample(class, self.sample)?;
            comparison.sample.extend(sample.into_iter().map(|difference| (self.fold.name(difference.index), difference)));
        }
        Ok(comparison)
    }
}
