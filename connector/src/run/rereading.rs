//! The records of batches that Lambda gave up, read again from their streams by their sequence numbers: a document of an on-failure destination other
//! than S3 has nothing more of them (AWS Lambda developer guide, "Retain discarded batch records for a Kinesis Data Streams event source").
//!
//! Reads no more of a shard than the batch, as often as a scan may. What the stream does not hold any more is said; never passes over anything that it
//! holds.

use std::collections::HashMap;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, sleep_until};

use super::backoff::Waits;
use crate::aws::Aws;
use crate::error::{Error, Kind};
use crate::plan::checkpoint::Begin;
use crate::plan::outcome::Class;
use crate::plan::pace::MOST_RECORDS;
use crate::plan::retry::policy;
use crate::record::{Position, Record, SequenceNumber};
use crate::source::capture::{self, Batch, Reread};
use crate::source::kinesis::{Address, Failure, Kinesis, Page, Reader};

/// How a stream is asked.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How long is waited between two reads.
    pub interval: Duration,
    /// How long a stream may give no answer, and a shard no record, before it is given up.
    pub patience: Duration,
}

/// Reads batches again.
struct Streams {
    aws: Aws,
    settings: Settings,
    by_arn: HashMap<String, Kinesis>,
    /// When the next read may be.
    next_read: Instant,
}

/// What reads batches again. To be called in a runtime, and what it gives outside of one, where it may block.
pub fn rereading(aws: Aws, settings: Settings) -> capture::Rereading {
    let mut streams = Streams { aws, settings, by_arn: HashMap::new(), next_read: Instant::now() };
    let runtime = Handle::current();
    Box::new(move |batch| runtime.block_on(streams.batch(batch)))
}

/// How far a batch was read.
#[derive(Default)]
struct Progress {
    records: Vec<Record>,
    /// Why some were not there any more.
    loss: Option<String>,
    /// Empty pages in a row that said of themselves that they are at the end of the shard: a first one may err.
    at_end: u32,
}

impl Streams {
    async fn batch(&mut self, batch: &Batch) -> Result<Reread, Error> {
        let kinesis = self.stream(&batch.stream_arn).await?;
        let numbers = [&batch.start_sequence_number, &batch.end_sequence_number];
        if batch.shard_id.is_empty() || numbers.iter().any(|number| !is_number(number)) {
            let what = "expected a shardId, a startSequenceNumber and an endSequenceNumber in KinesisBatchInfo, found something else";
            return Err(Error::new(Kind::Source, what).help("give the document as Lambda wrote it"));
        }
        let [start, end] = numbers.map(|number| SequenceNumber(number.clone()));
        // What begins inside of an aggregate begins at its record: no other place does.
        let position = Position::Sequence { number: start, sub: Some(0) };
        let mut reader = kinesis.reader(&batch.shard_id, Begin::After { position });
        let most = batch.batch_size.and_then(|size| usize::try_from(size).ok()).unwrap_or(MOST_RECORDS).max(1);
        let (mut read, mut since) = (Progress::default(), Instant::now());
        loop {
            let had = read.records.len();
            let page = self.page(&kinesis, &mut reader, most - had.min(most - 1)).await?;
            if is_all(page, &end, &mut read) || since.elapsed() >= self.settings.patience {
                break;
            }
            if read.records.len() > had {
                since = Instant::now();
            }
        }
        let Progress { records, loss, .. } = read;
        let missing = batch.batch_size.unwrap_or_default().saturating_sub(records.len() as u64);
        let reached = records.last().is_some_and(|last| matches!(&last.position, Position::Sequence { number, .. } if *number == end));
        let is_incomplete = missing > 0 || !reached || loss.is_some();
        if is_incomplete {
            let (shard, stream) = (&*batch.shard_id, kinesis.described());
            let read = records.len();
            let why = loss.unwrap_or_else(|| format!("{stream} does not hold them any more"));
            tracing::error!(shard, read, missing, "records of a batch that Lambda gave up were lost before they were read again: {why}");
        }
        Ok(Reread { records, is_incomplete })
    }

    async fn stream(&mut self, arn: &str) -> Result<Kinesis, Error> {
        if let Some(known) = self.by_arn.get(arn) {
            return Ok(known.clone());
        }
        let address: Address = format!("kinesis://{arn}").parse().map_err(|_| {
            let what = "expected the ARN of a stream as streamArn in KinesisBatchInfo, found something else";
            Error::new(Kind::Source, what).help("give the document as Lambda wrote it")
        })?;
        let kinesis = Kinesis::connect(&address, &self.aws).await?;
        self.by_arn.insert(arn.to_owned(), kinesis.clone());
        Ok(kinesis)
    }

    async fn page(&mut self, kinesis: &Kinesis, reader: &mut Reader, most: usize) -> Result<Page, Error> {
        let since = Instant::now();
        let mut waits = None;
        loop {
            sleep_until(self.next_read).await;
            let page = reader.next(most).await;
            self.next_read = Instant::now() + self.settings.interval;
            match page {
                Err(Failure::Again { class: class @ (Class::Throttled | Class::Unavailable), .. })
                    if since.elapsed() < self.settings.patience =>
                {
                    sleep(waits.get_or_insert_with(|| Waits::new(policy(class))).next()).await;
                }
                Err(failure) => return Err(Error { kind: Kind::Source, ..kinesis.error(&failure) }),
                Ok(page) => return Ok(page),
            }
        }
    }
}

/// Takes a page in, and tells whether it was the last.
fn is_all(page: Page, end: &SequenceNumber, read: &mut Progress) -> bool {
    if page.loss.is_some() {
        read.loss = page.loss;
    }
    let is_empty = page.records.is_empty();
    for record in page.records {
        let Position::Sequence { number, .. } = &record.position else { continue };
        let is_last = number == end;
        if number > end {
            return true;
        }
        read.records.push(record);
        if is_last {
            return true;
        }
    }
    let is_at_end = is_empty && page.behind == Some(Duration::ZERO);
    read.at_end = if is_at_end { read.at_end + 1 } else { 0 };
    page.ended || read.at_end > 1
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::record::Origin;

    fn page(numbers: &[&str]) -> Page {
        let origin = Arc::new(Origin { stream: "stream".into(), shard: "shard".into() });
        let record = |number: &&str| Record {
            origin: Arc::clone(&origin),
            position: Position::Sequence { number: SequenceNumber((*number).to_owned()), sub: None },
            data: Bytes::new(),
            arrived: None,
            damage: None,
            message: None,
        };
        Page { records: numbers.iter().map(record).collect(), ..Page::default() }
    }

    fn read(pages: &[Page]) -> (Vec<String>, Option<usize>) {
        let mut read = Progress::default();
        let mut ended = None;
        for (at, given) in pages.iter().enumerate() {
            let given = Page { records: given.records.clone(), loss: given.loss.clone(), ..*given };
            if is_all(given, &SequenceNumber("100".into()), &mut read) {
                ended = Some(at);
                break;
            }
        }
        (read.records.iter().map(|record| record.position.to_string().replace("sequence number ", "")).collect(), ended)
    }

    #[test]
    fn a_batch_ends_with_its_last_record_and_takes_nothing_behind_it() {
        let numbers = |given: &[&str]| given.iter().map(|number| (*number).to_owned()).collect::<Vec<_>>();
        assert_eq!(read(&[page(&["98", "99"]), page(&["100", "101"])]), (numbers(&["98", "99", "100"]), Some(1)));
        assert_eq!(read(&[page(&["98"]), page(&["103"])]), (numbers(&["98"]), Some(1)), "the last one is gone");
        assert_eq!(read(&[page(&["98"]), page(&[])]), (numbers(&["98"]), None), "an empty page is no end");
        let at_the_end = || Page { behind: Some(Duration::ZERO), ..page(&[]) };
        assert_eq!(read(&[page(&["98"]), at_the_end(), page(&[]), at_the_end(), at_the_end()]).1, Some(4));
        assert_eq!(read(&[Page { ended: true, ..page(&["98"]) }]).1, Some(0));
    }
}
