//! Dead letters in an SQS queue: one message per letter, which holds the letter's line of JSON.
//!
//! A letter counts as stored when SQS has confirmed its message. One that is larger than a message may be is stored as an object of a bucket,
//! and its message says where ([`Large`]). `walk` goes through a queue, as far as one can.
//!
//! The rights that it takes are in `RIGHTS`; on the bucket of large letters those of `bucket`.

mod walk;

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::Builder;
use aws_sdk_sqs::types::{QueueAttributeName, SendMessageBatchRequestEntry};
use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::bucket::LetterBucket;
use super::calls::{refusal, together};
use super::place::{Config, Queue};
use super::{DeadLetter, Large};
use crate::aws::{Aws, code, retries, timeouts, why};
use crate::error::Error;
use crate::record::Fault;

pub use walk::QueueWalk;

/// The rights that it takes.
const RIGHTS: &str = "the rights are sqs:GetQueueAttributes and sqs:SendMessage to store letters, sqs:ReceiveMessage and sqs:ChangeMessageVisibility to look at them, and sqs:DeleteMessage to replay them";
/// Messages of one request (Amazon SQS API reference, `SendMessageBatch`).
const BATCH: usize = 10;
/// Requests at once.
const AT_ONCE: usize = 8;
/// What every queue takes as one batch; one that takes larger messages takes as much in a batch.
const BATCH_BYTES: usize = 256 * 1024;
/// A message must have room for a letter without its payload.
const SMALLEST: usize = 16 * 1024;
/// The most of each text that a message shows of a letter that is itself in a bucket, where it would not fit otherwise.
const SHOWN: usize = 1_000;
/// The waits between tries of what SQS refused out of a batch.
const WAITS: [Duration; 4] =
    [Duration::from_millis(200), Duration::from_millis(400), Duration::from_millis(800), Duration::from_millis(1_600)];

/// A queue of dead letters.
#[derive(Debug, Clone)]
pub struct LetterQueue {
    client: Client,
    at: Queue,
    /// The most bytes of one message.
    message_bytes: usize,
    /// How long it keeps a message.
    kept: Duration,
    /// Messages that it holds, about.
    reported: u64,
    /// It moves messages that were received often to another queue.
    redrives: bool,
    large: Option<LetterBucket>,
}

impl LetterQueue {
    /// Reaches the queue to look at its letters.
    pub(super) async fn look(at: &Queue, config: &Config, credentials: Option<&SharedCredentialsProvider>) -> Result<Self, Error> {
        let aws = Aws { region: at.region().or_else(|| config.aws.region.clone()), ..config.aws.clone() };
        let sdk = aws.load(credentials, "add ?region=… to the sqs:// URL, set region under [dead_letters.aws], or AWS_REGION").await?;
        let mut client = Builder::from(&sdk).timeout_config(timeouts()).retry_config(retries());
        if let Some(endpoint) = at.endpoint() {
            client = client.endpoint_url(endpoint);
        }
        let large = match &config.large {
            Some(bucket) => Some(LetterBucket::look(bucket, &config.aws, credentials).await?),
            None => None,
        };
        let zero = Duration::ZERO;
        let client = Client::from_conf(client.build());
        let mut queue = Self { client, at: at.clone(), message_bytes: 0, kept: zero, reported: 0, redrives: false, large };
        let attributes = queue.attributes().await?;
        let number = |name| attributes.get(&name).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
        queue.message_bytes = usize::try_from(number(QueueAttributeName::MaximumMessageSize)).unwrap_or_default();
        queue.kept = Duration::from_secs(number(QueueAttributeName::MessageRetentionPeriod));
        queue.reported = number(QueueAttributeName::ApproximateNumberOfMessages)
            + number(QueueAttributeName::ApproximateNumberOfMessagesNotVisible)
            + number(QueueAttributeName::ApproximateNumberOfMessagesDelayed);
        queue.redrives = attributes.contains_key(&QueueAttributeName::RedrivePolicy);
        Ok(queue)
    }

    /// Reaches the queue to store letters in it, and finds out what can be found out without storing one.
    pub(super) async fn open(at: &Queue, config: &Config, credentials: Option<&SharedCredentialsProvider>) -> Result<Self, Error> {
        if config.large.is_none() {
            return Err(Error::usage(format!(
                "dead letters: {at}: a record may be larger than a message, and no place for those is named"
            ))
            .help("add --dead-letters-large s3://BUCKET/PREFIX (or large = … under [dead_letters])"));
        }
        let queue = Self::look(at, config, credentials).await?;
        if queue.message_bytes < SMALLEST {
            let found = queue.message_bytes;
            return Err(queue
                .error("cannot be used", &format!("expected a queue that takes messages of at least {SMALLEST} bytes, found {found}"))
                .help("raise its MaximumMessageSize"));
        }
        // At once: a function that starts waits for both.
        let large = async { if let Some(large) = &queue.large { large.probe().await } else { Ok(()) } };
        tokio::try_join!(queue.probe(), large)?;
        Ok(queue)
    }

    /// Finds out whether letters may be stored. A request for nothing stores nothing; where storing is not allowed at all, that is what the
    /// answer says.
    async fn probe(&self) -> Result<(), Error> {
        let nothing = self.client.send_message_batch().queue_url(self.at.url()).set_entries(Some(Vec::new())).send().await;
        match nothing {
            Err(refused) if code(&refused).is_some_and(|code| code.contains("AccessDenied")) => {
                Err(self.error("cannot be written", &why(refused)))
            }
            _ => Ok(()),
        }
    }

    /// What is good to know of the queue.
    pub(super) fn notes(&self) -> String {
        let days = self.kept.as_secs() / 86_400;
        let kept = if days > 0 { format!("{days} d") } else { format!("{} s", self.kept.as_secs()) };
        format!("keeps a letter for {kept}; messages of up to {} bytes", self.message_bytes)
    }

    async fn attributes(&self) -> Result<HashMap<QueueAttributeName, String>, Error> {
        let asked = self.client.get_queue_attributes().queue_url(self.at.url()).attribute_names(QueueAttributeName::All).send().await;
        Ok(asked.map_err(|error| self.error("cannot be reached", &why(error)))?.attributes.unwrap_or_default())
    }

    /// Stores letters; the large ones in the bucket, before their messages.
    pub(super) async fn append(&self, letters: &[DeadLetter]) -> Result<(), Error> {
        let (mut messages, mut objects) = (Vec::new(), Vec::new());
        for letter in letters {
            let text = message_text(letter.line()?);
            if text.len() <= self.message_bytes {
                messages.push(Message { id: letter.id.clone(), text });
                continue;
            }
            let Some(bucket) = &self.large else {
                let what = format!("letter {} has {} bytes, more than a message may have", letter.id, text.len());
                return Err(self.error("cannot be written", &what));
            };
            let key = bucket.key_of(&letter.id, &digest(text.as_bytes())[..8]);
            let large = Large { bucket: bucket.bucket_name().to_owned(), key: key.clone(), bytes: letter.payload.len() as u64 };
            messages.push(Message { id: letter.id.clone(), text: self.pointer(letter, large)? });
            objects.push((key, Bytes::from(text)));
        }
        if let Some(bucket) = &self.large {
            bucket.put_all(objects).await?;
        }
        let sends = batches(messages, self.message_bytes.max(BATCH_BYTES)).into_iter().map(|batch| {
            let queue = self.clone();
            async move { queue.send(batch).await }
        });
        together(AT_ONCE, sends).await.map(drop)
    }

    /// The message of a letter that is in the bucket: all of it but the payload, and of long texts only the beginning where it has to be.
    fn pointer(&self, letter: &DeadLetter, large: Large) -> Result<String, Error> {
        let pointer = DeadLetter { large: Some(large), payload: Bytes::new(), ..letter.clone() };
        let text = message_text(pointer.line()?);
        if text.len() <= self.message_bytes {
            return Ok(text);
        }
        let short = |text: &str| text.chars().take(SHOWN).collect::<String>();
        let short_fault = |fault: &Fault| Fault::new(&short(&fault.kind), short(&fault.reason));
        let pointer = DeadLetter {
            table: pointer.table.as_deref().map(short),
            document_id: pointer.document_id.as_deref().map(short),
            index: pointer.index.as_deref().map(short),
            error: short_fault(&pointer.error),
            first_error: pointer.first_error.as_ref().map(short_fault),
            ..pointer
        };
        Ok(message_text(pointer.line()?))
    }

    async fn send(&self, batch: Vec<Message>) -> Result<(), Error> {
        let sent = until_nothing_fails(batch, |batch| async move {
            let entries = batch.iter().enumerate().map(|(place, message)| {
                let fifo = self.at.name.ends_with(".fifo");
                // A group of its own for each letter: of one group, nothing is received while something of it is worked on.
                let (group, once) = if fifo { (Some(message.id.clone()), Some(digest(message.text.as_bytes()))) } else { (None, None) };
                let entry = SendMessageBatchRequestEntry::builder().id(place.to_string()).message_body(&message.text);
                entry.set_message_group_id(group).set_message_deduplication_id(once).build()
            });
            let entries = entries.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
            let answer = self.client.send_message_batch().queue_url(self.at.url()).set_entries(Some(entries)).send().await.map_err(why)?;
            let confirmed: Vec<&str> = answer.successful().iter().map(|entry| entry.id()).collect();
            let failed = |place: &str| answer.failed().iter().find(|entry| entry.id() == place).map(failure);
            let left = batch.into_iter().enumerate().filter_map(|(place, message)| {
                let place = place.to_string();
                // What the answer does not name is not confirmed.
                (!confirmed.contains(&place.as_str())).then(|| (message, failed(&place).unwrap_or_else(|| "not confirmed".to_owned())))
            });
            Ok(left.collect())
        });
        sent.await.map_err(|why| self.error("cannot be written", &why))
    }

    pub(super) fn walk(&self) -> QueueWalk {
        QueueWalk::new(self.clone())
    }

    pub(super) fn reported(&self) -> u64 {
        self.reported
    }

    fn error(&self, what: &str, why: &str) -> Error {
        refusal(&self.at, what, why, RIGHTS)
    }
}

/// A letter on its way into the queue.
#[derive(Debug, Clone)]
struct Message {
    id: String,
    text: String,
}

/// Cuts messages into batches.
fn batches(messages: Vec<Message>, most: usize) -> Vec<Vec<Message>> {
    let mut batches: Vec<Vec<Message>> = Vec::new();
    let mut bytes = 0;
    for message in messages {
        match batches.last_mut().filter(|batch| batch.len() < BATCH && bytes + message.text.len() <= most) {
            Some(batch) => {
                bytes += message.text.len();
                batch.push(message);
            }
            None => {
                bytes = message.text.len();
                batches.push(vec![message]);
            }
        }
    }
    batches
}

/// Tries a batch, and what failed of it a few times more. An attempt gives back what failed, and why.
async fn until_nothing_fails<T, F>(batch: Vec<T>, attempt: impl Fn(Vec<T>) -> F) -> Result<(), String>
where
    F: Future<Output = Result<Vec<(T, String)>, String>>,
{
    let mut failed = attempt(batch).await?;
    for wait in WAITS {
        if failed.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(wait).await;
        failed = attempt(failed.into_iter().map(|(item, _)| item).collect()).await?;
    }
    failed.into_iter().next().map_or(Ok(()), |(_, why)| Err(why))
}

fn failure(entry: &aws_sdk_sqs::types::BatchResultErrorEntry) -> String {
    entry.message().map_or_else(|| entry.code().to_owned(), |message| format!("{}: {message}", entry.code()))
}

/// A line of JSON as SQS takes it. Of the characters that JSON leaves as they are, SQS refuses U+FFFE and U+FFFF (Amazon SQS API reference,
/// `SendMessage`: those of XML 1.0); they stand inside of strings only, so they can be escaped.
fn message_text(line: Vec<u8>) -> String {
    let text = String::from_utf8(line).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    if text.contains(['\u{fffe}', '\u{ffff}']) {
        return text.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff");
    }
    text
}

/// The SHA-256 of a text, in hexadecimal.
fn digest(text: &[u8]) -> String {
    hex::encode(Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn message(bytes: usize) -> Message {
        Message { id: "a".to_owned(), text: "x".repeat(bytes) }
    }

    #[test]
    fn batches_have_at_most_ten_messages_and_as_many_bytes_as_the_queue_takes() {
        let sizes = |messages: &[usize], most| {
            let batches = batches(messages.iter().map(|bytes| message(*bytes)).collect(), most);
            batches.iter().map(|batch| batch.iter().map(|message| message.text.len()).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&[1; 12], 100), [vec![1; 10], vec![1; 2]]);
        assert_eq!(sizes(&[60, 40, 1, 100, 1], 100), [vec![60, 40], vec![1], vec![100], vec![1]]);
        assert_eq!(sizes(&[], 100), [] as [Vec<usize>; 0]);
    }

    #[test]
    fn a_message_has_no_character_that_sqs_refuses_and_is_the_same_json() {
        let odd = "\u{0}\u{8}\u{1f}\t\r\n\u{7f}\u{fffd}\u{fffe}\u{ffff}\u{10ffff}\"\\";
        let text = message_text(serde_json::to_vec(&odd).unwrap());
        let allowed =
            |c: char| matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}');
        assert!(text.chars().all(allowed), "{text:?}");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), odd);
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_out_of_a_batch_is_tried_again_alone_and_not_for_ever() {
        let tries = RefCell::new(Vec::new());
        let until = |good_from: usize| {
            let tries = &tries;
            until_nothing_fails(vec![1, 2, 3], move |items: Vec<i32>| async move {
                tries.borrow_mut().push(items.clone());
                let good = tries.borrow().len() >= good_from;
                Ok(items.into_iter().filter(|item| *item != 1 && !good).map(|item| (item, "busy".to_owned())).collect())
            })
        };
        assert_eq!(until(3).await, Ok(()));
        assert_eq!(tries.take(), [vec![1, 2, 3], vec![2, 3], vec![2, 3]]);
        assert_eq!(until(usize::MAX).await, Err("busy".to_owned()));
        assert_eq!(tries.take().len(), 5);
    }
}
