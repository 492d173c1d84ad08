//! One shard, read page by page from a place on, with iterators that are renewed where they are too old.
//!
//! A read tries once, and one that is given up half-way has read nothing. Never passes a record over: an iterator that is lost is made anew
//! behind the last record that was read, and where nothing was read yet from the time at which reading began.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_kinesis::error::SdkError;
use aws_sdk_kinesis::operation::get_records::{GetRecordsError, GetRecordsOutput};
use aws_sdk_kinesis::primitives::DateTime;
use aws_sdk_kinesis::types::ShardIteratorType as IteratorType;
use bytes::Bytes;
use tokio::time::Instant;

use super::Failure;
use super::failure::is;
use super::stream::Stream;
use crate::plan::checkpoint::Begin;
use crate::plan::outcome::Class;
use crate::plan::pace;
use crate::record::{Origin, Position, Record, SequenceNumber};

/// An iterator lives 5 minutes (Amazon Kinesis Data Streams API reference, `GetShardIterator`); one that is about to end is not tried.
const ITERATOR_LIVES: Duration = Duration::from_secs(5 * 60 - 20);

/// For so long the latest is what it was when reading began.
const AT_ONCE: Duration = Duration::from_secs(1);

/// A shard that is read.
#[derive(Debug)]
pub struct Reader {
    stream: Arc<Stream>,
    origin: Arc<Origin>,
    place: Place,
    iterator: Option<(String, Instant)>,
    made: Instant,
}

/// How far a shard was read.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// No record yet, and no iterator either.
    Begin(Begin),
    /// No record yet, but an iterator was made: what was written since then is to be read.
    Since(Begin),
    /// Up to this record, and all of it.
    Behind(SequenceNumber),
    /// To its end.
    Ended,
}

/// What one read gave.
#[derive(Debug, Default)]
pub struct Page {
    /// The records, in their order; there may be none anywhere in a shard.
    pub records: Vec<Record>,
    /// Of the first record, which is an aggregate, the parts up to this sub-sequence number are settled already.
    pub skip_first_sub: Option<u64>,
    /// How far behind the end of the shard the page is, as the service says; not to be relied upon.
    pub behind: Option<Duration>,
    /// The shard is closed, and this was all of it.
    pub ended: bool,
    /// Memory that the records take, in bytes.
    pub bytes: usize,
    /// Something between where reading was to go on and the next record is not there any more: why that is so. The page has no record, and
    /// the next one begins with the oldest that the shard has.
    pub loss: Option<String>,
}

/// A place that the service does not know any more.
enum Refused {
    Lost(String),
    Failed(Failure),
}

impl Reader {
    pub(super) fn new(stream: Arc<Stream>, shard: &str, begin: Begin) -> Self {
        let origin = Arc::new(Origin { stream: stream.arn().to_owned(), shard: shard.to_owned() });
        Self { stream, origin, place: Place::Begin(begin), iterator: None, made: Instant::now() }
    }

    /// The origin of its records.
    pub fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// Reads the next page, of at most so many records. May be dropped at any time, and then nothing was read.
    ///
    /// # Errors
    /// Nothing was read, and the next call tries the same again. [`Failure::Gone`] where the shard or the stream is not there.
    pub async fn next(&mut self, limit: usize) -> Result<Page, Failure> {
        // An iterator that is refused was not used: the second is fresh.
        let mut is_fresh = self.iterator.is_none();
        loop {
            let iterator = match self.iterator().await {
                Ok(Some(iterator)) => iterator,
                Ok(None) => return Ok(Page { ended: true, ..Page::default() }),
                Err(Refused::Failed(failure)) => return Err(failure),
                Err(Refused::Lost(why)) => {
                    self.place = Place::Begin(Begin::Earliest);
                    return Ok(Page { loss: Some(why), ..Page::default() });
                }
            };
            let call = self.stream.once.get_records().shard_iterator(iterator).set_stream_arn(self.stream.given_arn.clone());
            let limit = i32::try_from(limit.clamp(1, pace::MOST_RECORDS)).unwrap_or(i32::MAX);
            match call.limit(limit).send().await {
                Ok(answer) => return self.page(answer).await,
                Err(error) => {
                    let is_refused = is_of_the_iterator(&error);
                    // Of a stream that was made again since, the iterator is another's.
                    if is_refused || is(&error, "ResourceNotFoundException") {
                        self.iterator = None;
                    }
                    if !is_refused || std::mem::replace(&mut is_fresh, true) {
                        return Err(Failure::of("GetRecords", error));
                    }
                }
            }
        }
    }

    /// The iterator to read with; none where the shard has no more to read.
    async fn iterator(&mut self) -> Result<Option<String>, Refused> {
        if let Some((iterator, since)) = &self.iterator
            && since.elapsed() < ITERATOR_LIVES
        {
            return Ok(Some(iterator.clone()));
        }
        let call = self.stream.once.get_shard_iterator().set_stream_name(self.stream.name()).set_stream_arn(self.stream.given_arn.clone());
        let call = call.shard_id(&self.origin.shard);
        let call = match &self.place {
            Place::Begin(Begin::Earliest) | Place::Since(Begin::Earliest) => call.shard_iterator_type(IteratorType::TrimHorizon),
            Place::Begin(Begin::Latest { .. }) if self.made.elapsed() < AT_ONCE => call.shard_iterator_type(IteratorType::Latest),
            // Not the latest once more, nor later: what was written meanwhile would be passed over.
            Place::Begin(Begin::Latest { since: millis })
            | Place::Since(Begin::Latest { since: millis })
            | Place::Begin(Begin::Timestamp { millis })
            | Place::Since(Begin::Timestamp { millis }) => {
                let millis = i64::try_from(*millis).unwrap_or(i64::MAX);
                call.shard_iterator_type(IteratorType::AtTimestamp).timestamp(DateTime::from_millis(millis))
            }
            Place::Begin(Begin::After { position }) | Place::Since(Begin::After { position }) => {
                let Position::Sequence { number, sub } = position else {
                    return Err(Refused::Lost(format!("{position} is no position of a Kinesis stream")));
                };
                // The rest of an aggregate is in the same record.
                let kind = if sub.is_some() { IteratorType::AtSequenceNumber } else { IteratorType::AfterSequenceNumber };
                call.shard_iterator_type(kind).starting_sequence_number(&number.0)
            }
            Place::Behind(number) => call.shard_iterator_type(IteratorType::AfterSequenceNumber).starting_sequence_number(&number.0),
            Place::Ended => return Ok(None),
        };
        let answer = call.send().await.map_err(|error| match is(&error, "InvalidArgumentException") && self.place.is_a_number() {
            true => Refused::Lost(crate::aws::why(error)),
            false => Refused::Failed(Failure::of("GetShardIterator", error)),
        })?;
        let no_iterator = || Refused::Failed(Failure::again(Class::Unknown, "GetShardIterator: the answer has no iterator"));
        let iterator = answer.shard_iterator.ok_or_else(no_iterator)?;
        if let Place::Begin(begin) = &self.place {
            self.place = Place::Since(begin.clone());
        }
        self.iterator = Some((iterator.clone(), Instant::now()));
        Ok(Some(iterator))
    }

    async fn page(&mut self, answer: GetRecordsOutput) -> Result<Page, Failure> {
        let ended = answer.next_shard_iterator.is_none();
        // An answer that says nothing is no end: what comes behind it would never be read.
        if ended && answer.child_shards().is_empty() && !self.is_closed().await? {
            return Err(Failure::again(Class::Unknown, "GetRecords: the answer has no iterator to go on with, and the shard is open"));
        }
        let bytes = answer.records.iter().map(|record| record.data.as_ref().len()).sum();
        let first = answer.records.first().map(|record| record.sequence_number.as_str());
        let skip_first_sub = match &self.place {
            Place::Since(Begin::After { position: Position::Sequence { number, sub } }) if first == Some(&number.0) => *sub,
            _ => None,
        };
        if let Some(last) = answer.records.last() {
            self.place = Place::Behind(SequenceNumber(last.sequence_number.clone()));
        }
        if ended {
            self.place = Place::Ended;
        }
        self.iterator = answer.next_shard_iterator.map(|iterator| (iterator, Instant::now()));
        let records: Vec<Record> = answer.records.into_iter().map(|record| self.record(record)).collect();
        let behind = answer.millis_behind_latest.and_then(|millis| u64::try_from(millis).ok()).map(Duration::from_millis);
        Ok(Page { bytes: pace::held(records.len(), bytes), records, skip_first_sub, behind, ended, loss: None })
    }

    /// Whether the stream lists the shard as closed.
    async fn is_closed(&self) -> Result<bool, Failure> {
        let listed = self.stream.shards().await?;
        Ok(listed.iter().find(|listed| listed.id == self.origin.shard).is_some_and(|listed| listed.closed))
    }

    fn record(&self, record: aws_sdk_kinesis::types::Record) -> Record {
        let arrived = record.approximate_arrival_timestamp.and_then(|at| at.to_millis().ok()).and_then(|at| u64::try_from(at).ok());
        Record {
            origin: Arc::clone(&self.origin),
            position: Position::Sequence { number: SequenceNumber(record.sequence_number), sub: None },
            data: Bytes::from(record.data.into_inner()),
            arrived,
            damage: None,
            message: None,
        }
    }
}

impl Place {
    /// Whether reading goes on at a record that the stream may not have any more.
    fn is_a_number(&self) -> bool {
        matches!(self, Self::Behind(_) | Self::Begin(Begin::After { .. }) | Self::Since(Begin::After { .. }))
    }
}

/// Whether the iterator is at fault, which another one may not be.
fn is_of_the_iterator(error: &SdkError<GetRecordsError>) -> bool {
    is(error, "ExpiredIteratorException") || is(error, "InvalidArgumentException")
}
