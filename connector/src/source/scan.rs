//! What has an end: a captured stream, or topics and streams up to the ends that they had when the scan began. Read page by page, to the end and
//! no further.
//!
//! Chooses between them and nothing more.

use std::fmt;
use std::time::Duration;

use super::capture::Capture;
#[cfg(feature = "kafka")]
use super::kafka::Topics;
use crate::error::Error;
use crate::record::Record;

/// A source that is read to its end.
#[derive(Debug)]
pub enum Scan {
    /// A captured stream.
    Capture(Box<Capture>),
    /// Topics of Kafka.
    #[cfg(feature = "kafka")]
    Topics(Box<Topics>),
    /// A stream whose reading is driven from outside, because it takes waits: one of Kinesis.
    Driven(Box<dyn Pages>),
}

/// What is read page by page to a bound, by whoever drives it. Each function is as that of [`Scan`].
#[expect(missing_docs, reason = "each is as the function of the same name of `Scan`")]
pub trait Pages: fmt::Debug + Send {
    fn read(&mut self, budget: usize) -> Result<Option<Page>, Error>;
    fn total(&self) -> Length;
    fn is_incomplete(&self) -> bool;
    fn has_dropped(&self) -> bool;
    fn extend(&mut self) -> Result<bool, Error>;
}

/// Some records, in order.
#[derive(Debug)]
pub struct Page {
    /// The records; never none.
    pub records: Vec<Record>,
    /// How much was read so far: to be compared with [`Scan::total`].
    pub read: u64,
}

/// What the length of a source is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Bytes as they are stored; `None` where nobody knows the length.
    Bytes(Option<u64>),
    /// Messages, with those that are no longer there.
    Messages(u64),
    /// Milliseconds of the stream's time, from the oldest record that it may have to its bound.
    Time(Duration),
}

impl Scan {
    /// The next records: as many as it takes to come to `budget` bytes, or fewer where no more are at hand, and one at least. `None` is the end.
    ///
    /// Reads files or waits for a server, and so may block.
    ///
    /// # Errors
    /// The source cannot be read to its end. Comes after all records that could be read.
    pub fn read(&mut self, budget: usize) -> Result<Option<Page>, Error> {
        match self {
            Self::Capture(capture) => capture.read(budget),
            #[cfg(feature = "kafka")]
            Self::Topics(topics) => topics.read(budget),
            Self::Driven(pages) => pages.read(budget),
        }
    }

    /// How much there is to read.
    pub fn total(&self) -> Length {
        match self {
            Self::Capture(capture) => Length::Bytes(capture.total()),
            #[cfg(feature = "kafka")]
            Self::Topics(topics) => Length::Messages(topics.total()),
            Self::Driven(pages) => pages.total(),
        }
    }

    /// Whether something was lost before it could be read, came meanwhile and was not read, or is not proven to be all; it has been said.
    pub fn is_incomplete(&self) -> bool {
        match self {
            Self::Capture(capture) => capture.is_incomplete(),
            #[cfg(feature = "kafka")]
            Self::Topics(topics) => topics.is_incomplete(),
            Self::Driven(pages) => pages.is_incomplete(),
        }
    }

    /// Whether the source may have dropped records since it began to take them in, as its retention wants it: what it does not know may be older then.
    pub fn has_dropped(&self) -> bool {
        match self {
            Self::Capture(_) => false,
            #[cfg(feature = "kafka")]
            Self::Topics(topics) => topics.has_dropped(),
            Self::Driven(pages) => pages.has_dropped(),
        }
    }

    /// Takes the ends anew, after [`read`](Self::read) gave `None`. True: there may be more, and `read` goes on to the new ends. False: the
    /// source does not grow.
    ///
    /// # Errors
    /// The source cannot be asked.
    pub fn extend(&mut self) -> Result<bool, Error> {
        match self {
            Self::Capture(_) => Ok(false),
            #[cfg(feature = "kafka")]
            Self::Topics(topics) => topics.extend(),
            Self::Driven(pages) => pages.extend(),
        }
    }

    /// The first file, by its name inside the source, that could not be read to its end, as far as was read.
    pub fn first_broken(&self) -> Option<&str> {
        match self {
            Self::Capture(capture) => capture.first_broken(),
            #[cfg(feature = "kafka")]
            Self::Topics(_) => None,
            Self::Driven(_) => None,
        }
    }

    /// What was passed over in a directory, and why: for a line to the user before the run.
    pub fn notes(&self) -> &[String] {
        match self {
            Self::Capture(capture) => capture.notes(),
            #[cfg(feature = "kafka")]
            Self::Topics(_) => &[],
            Self::Driven(_) => &[],
        }
    }
}

impl From<Capture> for Scan {
    fn from(capture: Capture) -> Self {
        Self::Capture(Box::new(capture))
    }
}
