//! Goes through a queue of dead letters, as far as one can: what is received is held, so that each receive brings others, and let go at the end.
//!
//! A letter that is held is not seen by others. It is held on for as long as the walk lasts, and comes back by itself when this process dies.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_sqs::types::{ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::{AT_ONCE, BATCH, LetterQueue, failure, until_nothing_fails};
use crate::aws::{code, why};
use crate::error::Error;
use crate::store::dead_letters::calls::together;
use crate::store::dead_letters::copies::{Copies, Portion};
use crate::store::dead_letters::{Anew, DeadLetter, Entry, Large, PORTION_BYTES, bucket, letter};

/// How long a message stays held without being held on: what a process that died held comes back after this, in seconds.
const HOLD: i32 = 120;
/// How often what is held is held on.
const BEAT: Duration = Duration::from_secs(40);
/// How long a receive waits for messages, in seconds. Above 0, so that every server of the queue is asked.
const WAIT: i32 = 1;
/// The most messages that are held; SQS limits what is held of one queue to 120,000, and others hold some too.
const MOST: usize = 20_000;

/// Receipts of the messages that are held.
type Held = Arc<Mutex<HashMap<u64, String>>>;

/// Where a copy of a letter is.
#[derive(Debug)]
struct Copy {
    /// Its place in [`Held`].
    message: u64,
    large: Option<Large>,
}

/// Goes through a queue of dead letters.
#[derive(Debug)]
pub struct QueueWalk {
    queue: LetterQueue,
    held: Held,
    holding_on: JoinHandle<()>,
    copies: Copies<Copy>,
    received: u64,
    /// The queue shows no more.
    dry: bool,
    /// Why it could not be read any further; told when what came before it was worked on.
    failed: Option<Error>,
}

impl Drop for QueueWalk {
    fn drop(&mut self) {
        self.holding_on.abort();
    }
}

impl QueueWalk {
    pub(super) fn new(queue: LetterQueue) -> Self {
        if queue.redrives {
            tracing::warn!(
                "{} moves what was received several times to another queue (its RedrivePolicy), and looking at letters counts as receiving",
                queue.at
            );
        }
        let held = Held::default();
        let holding_on = tokio::spawn(hold_on(queue.clone(), Arc::clone(&held)));
        Self { queue, held, holding_on, copies: Copies::default(), received: 0, dry: false, failed: None }
    }

    pub(in crate::store::dead_letters) async fn next(&mut self, most: usize) -> Result<Option<Vec<Entry>>, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut portion = Portion::default();
        while !self.dry && portion.entries.len() < most && portion.bytes < PORTION_BYTES {
            let mut left_over = Vec::new();
            let received = match self.receive(most - portion.entries.len()).await {
                Ok(received) => received,
                Err(error) if portion.entries.is_empty() => return Err(error),
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            };
            for (message, id, body) in received {
                match letter::read(body.as_bytes()) {
                    Ok(letter) => {
                        let copy = Copy { message, large: letter.large.clone() };
                        left_over.extend(portion.letter(letter, copy, &mut self.copies));
                    }
                    Err(reason) => portion.damaged(format!("message {id}"), reason),
                }
            }
            self.remove(left_over).await?;
        }
        Ok((!portion.entries.is_empty()).then_some(portion.entries))
    }

    /// Some more messages: the number under which each is held, its id and its body. None when the queue has no more to show.
    async fn receive(&mut self, most: usize) -> Result<Vec<(u64, String, String)>, Error> {
        if lock(&self.held).len() >= MOST {
            tracing::warn!("{} holds more than the {MOST} letters that are looked at in one go", self.queue.at);
            self.dry = true;
            return Ok(Vec::new());
        }
        let most = i32::try_from(most.min(BATCH)).unwrap_or(1);
        let LetterQueue { client, at, .. } = &self.queue;
        let receive = client.receive_message().queue_url(at.url()).max_number_of_messages(most);
        let messages = match receive.visibility_timeout(HOLD).wait_time_seconds(WAIT).send().await {
            Ok(answer) => answer.messages.unwrap_or_default(),
            Err(error) if code(&error).is_some_and(|code| code.ends_with("OverLimit")) => {
                tracing::warn!("{at}: SQS shows no more letters while so many are held");
                Vec::new()
            }
            Err(error) => return Err(self.queue.error("cannot be read", &why(error))),
        };
        self.dry = messages.is_empty();
        let mut held = lock(&self.held);
        let received = messages.into_iter().map(|message| {
            self.received += 1;
            held.insert(self.received, message.receipt_handle.unwrap_or_default());
            (self.received, message.message_id.unwrap_or_default(), message.body.unwrap_or_default())
        });
        Ok(received.collect())
    }

    /// Fetches a letter that a message only points to. The inner error says why it is not to be had.
    pub(in crate::store::dead_letters) async fn load(&self, letter: DeadLetter) -> Result<Result<DeadLetter, String>, Error> {
        bucket::load(self.queue.large.as_ref(), letter).await
    }

    pub(in crate::store::dead_letters) async fn settle(&mut self, settled: &[String]) -> Result<usize, Error> {
        let copies: Vec<Vec<Copy>> = settled.iter().map(|id| self.copies.settle(id)).filter(|copies| !copies.is_empty()).collect();
        let letters = copies.len();
        self.remove(copies.into_iter().flatten().collect()).await?;
        Ok(letters)
    }

    pub(in crate::store::dead_letters) async fn replace(&mut self, anew: &[Anew]) -> Result<(), Error> {
        let older = anew.iter().flat_map(|Anew { id, moment }| self.copies.replace(id, *moment)).collect();
        self.remove(older).await
    }

    /// Deletes messages, and then the objects that they point to: the other way round, a message could point to nothing.
    async fn remove(&mut self, copies: Vec<Copy>) -> Result<(), Error> {
        if copies.is_empty() {
            return Ok(());
        }
        let receipts: Vec<String> = {
            let mut held = lock(&self.held);
            copies.iter().filter_map(|copy| held.remove(&copy.message)).collect()
        };
        let deletes = receipts.chunks(BATCH).map(|receipts| {
            let (queue, receipts) = (self.queue.clone(), receipts.to_vec());
            async move { queue.delete(receipts).await }
        });
        together(AT_ONCE, deletes.collect::<Vec<_>>()).await?;
        let Some(place) = &self.queue.large else { return Ok(()) };
        let objects = copies.into_iter().filter_map(|copy| copy.large).filter(|large| place.holds(&large.bucket, &large.key));
        place.delete(objects.map(|large| large.key).collect()).await
    }

    /// Lets go what is held.
    pub(in crate::store::dead_letters) async fn end(mut self) -> Result<(), Error> {
        self.holding_on.abort();
        // Holding on that is under way must not come after letting go.
        let _ = (&mut self.holding_on).await;
        let receipts = lock(&self.held).drain().map(|(_, receipt)| receipt).collect();
        if let Err(error) = self.queue.hold(receipts, 0).await {
            tracing::warn!("{error}; they are shown again after {HOLD} s");
        }
        Ok(())
    }
}

impl LetterQueue {
    async fn delete(&self, receipts: Vec<String>) -> Result<(), Error> {
        let deleted = until_nothing_fails(receipts, |receipts| async move {
            let entries = receipts
                .iter()
                .enumerate()
                .map(|(place, receipt)| DeleteMessageBatchRequestEntry::builder().id(place.to_string()).receipt_handle(receipt).build());
            let entries = entries.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
            let answer =
                self.client.delete_message_batch().queue_url(self.at.url()).set_entries(Some(entries)).send().await.map_err(why)?;
            // A message that was not held any more is shown again, and then goes.
            let failed = answer.failed().iter().filter(|entry| entry.code() != "ReceiptHandleIsInvalid");
            let failed = failed.filter_map(|entry| {
                let place: usize = entry.id().parse().ok()?;
                Some((receipts.get(place)?.clone(), failure(entry)))
            });
            Ok(failed.collect())
        });
        deleted.await.map_err(|why| self.error("a letter cannot be removed", &why))
    }

    /// Sets how long messages stay held from now on. One that is not held any more is none of ours.
    async fn hold(&self, receipts: Vec<String>, seconds: i32) -> Result<(), Error> {
        let changes = receipts.chunks(BATCH).map(|receipts| {
            let entries = receipts.iter().enumerate().map(|(place, receipt)| {
                let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(place.to_string()).receipt_handle(receipt);
                entry.visibility_timeout(seconds).build()
            });
            let entries = entries.collect::<Result<Vec<_>, _>>();
            let queue = self.clone();
            async move {
                let error = |why: &str| queue.error("a letter cannot be let go", why);
                let entries = entries.map_err(|cause| error(&cause.to_string()))?;
                let change = queue.client.change_message_visibility_batch().queue_url(queue.at.url()).set_entries(Some(entries));
                change.send().await.map(drop).map_err(|cause| error(&why(cause)))
            }
        });
        together(AT_ONCE, changes.collect::<Vec<_>>()).await.map(drop)
    }
}

async fn hold_on(queue: LetterQueue, held: Held) {
    let mut beat = interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat.tick().await;
    loop {
        beat.tick().await;
        let receipts = lock(&held).values().cloned().collect();
        if let Err(error) = queue.hold(receipts, HOLD).await {
            // What is shown again meanwhile is a copy, and is treated as one.
            tracing::warn!("{error}");
        }
    }
}

fn lock(held: &Held) -> MutexGuard<'_, HashMap<u64, String>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}
