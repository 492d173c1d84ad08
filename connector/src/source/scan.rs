//! What has an end: a captured stream, or topics up to the ends that they had when the scan began. Read page by page, to the end and no further.
//!
//! Chooses between the two and nothing more.

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
        }
    }

    /// How much there is to read.
    pub fn total(&self) -> Length {
        match self {
            Self::Capture(capture) => Length::Bytes(capture.total()),
            #[cfg(feature = "kafka")]
            Self::Topics(topics) => Length::Messages(topics.total()),
        }
    }

    /// Whether something was lost before it could be read, or came meanwhile and was not read; it has been said.
    pub fn is_incomplete(&self) -> bool {
        match self {
            Self::Capture(_) => false,
            #[cfg(feature = "kafka")]
            Self::Topics(topics) => topics.is_incomplete(),
        }
    }

    /// What was passed over in a directory, and why: for a line to the user before the run.
    pub fn notes(&self) -> &[String] {
        match self {
            Self::Capture(capture) => capture.notes(),
            #[cfg(feature = "kafka")]
            Self::Topics(_) => &[],
        }
    }
}

impl From<Capture> for Scan {
    fn from(capture: Capture) -> Self {
        Self::Capture(Box::new(capture))
    }
}
