//! Dead letters: records and operations that can never succeed, stored with everything needed to understand and to replay them.
//!
//! A letter counts as stored when it is on stable storage, not before. Nothing here decides what is a dead letter, reads a clock or replays
//! anything. Letters hold content of documents: a file is readable by its owner only, and who may read a queue or a bucket is for its owner
//! to say.
//!
//! [`letter`](DeadLetter) is one of them, `place` where they go, `file`, `queue`, `bucket` and `topic` the four kinds of place; `copies` keeps a
//! walk through one from coming twice to the same letter, and `calls` is how AWS is asked.

mod bucket;
mod calls;
mod copies;
mod file;
mod letter;
mod place;
mod queue;
#[cfg(feature = "kafka")]
mod topic;

use std::path::Path;

use aws_credential_types::provider::SharedCredentialsProvider;
use time::OffsetDateTime;

use crate::error::{Error, Kind};

pub use bucket::{BucketWalk, LetterBucket};
pub use file::{Entries, FileWalk, LetterFile};
#[cfg(feature = "local")]
pub(super) use letter::stored_message;
pub use letter::{DeadLetter, FORMAT_VERSION, Large, identify};
pub use place::{Config, Place, Queue, Topic, large_bucket};
pub use queue::{LetterQueue, QueueWalk};
#[cfg(feature = "kafka")]
pub use topic::{LetterTopic, TopicWalk};

/// Letters that a walk hands out at once, at most.
pub const PORTION: usize = 500;
/// Bytes of their payloads, about; one letter may be larger.
const PORTION_BYTES: usize = 4 * 1024 * 1024;

/// One thing found where dead letters are stored.
#[derive(Debug)]
pub enum Entry {
    /// A letter.
    Letter(Box<DeadLetter>),
    /// Something that is none: torn, damaged, or written by a newer revsync. It stays where it is.
    Damaged {
        /// Where it is: a line, an object, a message.
        at: String,
        /// What is wrong with it; nothing of its content.
        reason: String,
    },
}

/// A letter that was refused again: it has been stored anew, and its older copies may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anew {
    /// The letter.
    pub id: String,
    /// When it was refused again.
    pub moment: Option<OffsetDateTime>,
}

/// The dead letters of one place.
#[derive(Debug)]
pub enum DeadLetters {
    /// A file of JSON lines.
    File(LetterFile),
    /// An SQS queue.
    Queue(Box<LetterQueue>),
    /// An S3 bucket.
    Bucket(LetterBucket),
    /// A topic of Kafka.
    #[cfg(feature = "kafka")]
    Topic(LetterTopic),
}

/// A build without Kafka refuses its topics.
#[cfg(not(feature = "kafka"))]
fn no_topics(topic: &Topic) -> Error {
    Error::usage(format!("dead letters: this build cannot write to a topic of Kafka, found {topic}")).help("name a queue or a bucket")
}

impl DeadLetters {
    /// Opens a place for writing, and finds out now whether it can be written. Leaves nothing behind where there was nothing.
    ///
    /// # Errors
    /// The place cannot be written.
    pub async fn open(config: &Config) -> Result<Self, Error> {
        Box::pin(Self::build(config, None)).await
    }

    /// As [`open`](Self::open), with AWS credentials from a source that the caller has.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_with(config: &Config, credentials: SharedCredentialsProvider) -> Result<Self, Error> {
        Box::pin(Self::build(config, Some(&credentials))).await
    }

    async fn build(config: &Config, credentials: Option<&SharedCredentialsProvider>) -> Result<Self, Error> {
        match &config.place {
            Place::File(path) => Self::in_file(path),
            Place::Queue(queue) => Ok(Self::Queue(Box::new(Box::pin(LetterQueue::open(queue, config, credentials)).await?))),
            Place::Bucket(bucket) => {
                let bucket = LetterBucket::look(bucket, &config.aws, credentials).await?;
                bucket.probe().await?;
                Ok(Self::Bucket(bucket))
            }
            #[cfg(feature = "kafka")]
            Place::Topic(topic) => Ok(Self::Topic(Box::pin(LetterTopic::open(topic, config, credentials)).await?)),
            #[cfg(not(feature = "kafka"))]
            Place::Topic(topic) => Err(no_topics(topic)),
        }
    }

    /// Opens a file for writing, as [`open`](Self::open) does.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn in_file(path: &Path) -> Result<Self, Error> {
        LetterFile::open(path).map(Self::File)
    }

    /// Opens a place only to look at what is there; a file where nothing was ever stored holds no letters.
    ///
    /// # Errors
    /// A queue that cannot be reached, or no way to AWS is known.
    pub async fn look(config: &Config) -> Result<Self, Error> {
        Ok(match &config.place {
            Place::File(path) => Self::File(LetterFile::look(path)),
            Place::Queue(queue) => Self::Queue(Box::new(LetterQueue::look(queue, config, None).await?)),
            Place::Bucket(bucket) => Self::Bucket(LetterBucket::look(bucket, &config.aws, None).await?),
            #[cfg(feature = "kafka")]
            Place::Topic(topic) => Self::Topic(LetterTopic::look(topic, config, None).await?),
            #[cfg(not(feature = "kafka"))]
            Place::Topic(topic) => return Err(no_topics(topic)),
        })
    }

    /// Stores letters; when it returns, they are on stable storage, all of them.
    ///
    /// # Errors
    /// Nothing of them counts as stored. Storing them again is harmless.
    pub async fn append(&self, letters: &[DeadLetter]) -> Result<(), Error> {
        if letters.is_empty() {
            return Ok(());
        }
        match self {
            Self::File(file) => {
                let mut lines = Vec::new();
                for letter in letters {
                    lines.extend(letter.line()?);
                    lines.push(b'\n');
                }
                let file = file.clone();
                blocking(move || file.append(&lines)).await
            }
            Self::Queue(queue) => queue.append(letters).await,
            Self::Bucket(bucket) => bucket.append(letters).await,
            #[cfg(feature = "kafka")]
            Self::Topic(topic) => topic.append(letters).await,
        }
    }

    /// Begins a walk through the letters.
    ///
    /// # Errors
    /// The place cannot be read.
    pub async fn walk(&self) -> Result<Walk, Error> {
        Ok(match self {
            Self::File(file) => {
                let file = file.clone();
                Walk::File(Box::new(blocking(move || file.walk()).await?))
            }
            Self::Queue(queue) => Walk::Queue(Box::new(queue.walk())),
            Self::Bucket(bucket) => Walk::Bucket(Box::new(bucket.walk())),
            #[cfg(feature = "kafka")]
            Self::Topic(topic) => Walk::Topic(Box::new(TopicWalk::begin(topic.clone()).await?)),
        })
    }

    /// How many letters a queue says that it holds, about. Of other places, a walk shows them all.
    pub fn reported(&self) -> Option<u64> {
        if let Self::Queue(queue) = self { Some(queue.reported()) } else { None }
    }

    /// What is good to know of the place, beside that it can be written.
    pub fn notes(&self) -> Option<String> {
        match self {
            Self::Queue(queue) => Some(queue.notes()),
            #[cfg(feature = "kafka")]
            Self::Topic(topic) => topic.notes(),
            Self::File(_) | Self::Bucket(_) => None,
        }
    }
}

/// A walk through a place: its letters in portions, each letter once, and what became of them.
///
/// What is stored meanwhile may be met too. A queue shows what it likes, and holds what it has shown until the walk ends.
#[derive(Debug)]
pub enum Walk {
    /// Through a file, oldest letters first.
    File(Box<FileWalk>),
    /// Through a queue.
    Queue(Box<QueueWalk>),
    /// Through a bucket, in the order of the ids.
    Bucket(Box<BucketWalk>),
    /// Through a topic, each partition in the order of its offsets.
    #[cfg(feature = "kafka")]
    Topic(Box<TopicWalk>),
}

impl Walk {
    /// The next letters, at most so many and [`PORTION`], with what is damaged between them; none at the end.
    ///
    /// # Errors
    /// The place cannot be read.
    pub async fn next(&mut self, most: usize) -> Result<Option<Vec<Entry>>, Error> {
        let most = most.clamp(1, PORTION);
        match self {
            Self::File(walk) => walk.next(most).await,
            Self::Queue(walk) => walk.next(most).await,
            Self::Bucket(walk) => walk.next(most).await,
            #[cfg(feature = "kafka")]
            Self::Topic(walk) => walk.next(most).await,
        }
    }

    /// The whole of a letter, with its payload, wherever that is. The inner error says why it is not to be had; nothing of its content.
    ///
    /// # Errors
    /// The place cannot be read.
    pub async fn load(&self, letter: DeadLetter) -> Result<Result<DeadLetter, String>, Error> {
        match self {
            Self::Queue(walk) => walk.load(letter).await,
            #[cfg(feature = "kafka")]
            Self::Topic(walk) => walk.load(letter).await,
            Self::File(_) | Self::Bucket(_) if letter.large.is_some() => Ok(Err("its payload is not here".to_owned())),
            Self::File(_) | Self::Bucket(_) => Ok(Ok(letter)),
        }
    }

    /// Takes letters out that are settled, with every copy, and says how many. What is damaged stays.
    ///
    /// # Errors
    /// The place cannot be written; the letters may be there still, or again.
    pub async fn settle(&mut self, settled: &[String]) -> Result<usize, Error> {
        match self {
            Self::File(walk) => walk.settle(settled).await,
            Self::Queue(walk) => walk.settle(settled).await,
            Self::Bucket(walk) => walk.settle(settled).await,
            #[cfg(feature = "kafka")]
            Self::Topic(walk) => walk.settle(settled).await,
        }
    }

    /// Takes the older copies out of letters that were refused again.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub async fn replace(&mut self, anew: &[Anew]) -> Result<(), Error> {
        match self {
            Self::File(walk) => {
                walk.replace(anew);
                Ok(())
            }
            Self::Queue(walk) => walk.replace(anew).await,
            Self::Bucket(walk) => walk.replace(anew).await,
            #[cfg(feature = "kafka")]
            Self::Topic(walk) => {
                walk.replace(anew);
                Ok(())
            }
        }
    }

    /// Ends the walk: what is held is let go.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub async fn end(self) -> Result<(), Error> {
        match self {
            Self::File(walk) => walk.end().await,
            Self::Queue(walk) => walk.end().await,
            Self::Bucket(_) => Ok(()),
            #[cfg(feature = "kafka")]
            Self::Topic(walk) => walk.end().await,
        }
    }
}

/// Files and the clients of Kafka block: their work is done where nothing else waits for it.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        // What it panicked with may quote a letter.
        Err(_) => Err(Error::new(Kind::DeadLetters, "dead letters: the work panicked, which is a bug")),
    }
}

#[cfg(test)]
mod tests;
