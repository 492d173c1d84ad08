//! Dead letters in an S3 bucket: one object per letter, `PREFIX/ID.json`, so that a letter that is stored again replaces itself.
//!
//! A letter counts as stored when S3 has confirmed its object. What is no letter under the prefix is named and left alone.

use std::collections::VecDeque;

use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{Delete, ObjectIdentifier};
use bytes::Bytes;

use super::calls::{refusal, together};
use super::copies::{Copies, Portion};
use super::{Anew, DeadLetter, Entry, Large, PORTION_BYTES, letter};
use crate::aws::bucket::{Bucket, Patience};
use crate::aws::{Aws, why};
use crate::error::Error;

/// The rights that it takes.
const RIGHTS: &str =
    "the rights are s3:PutObject, s3:GetObject and s3:DeleteObject on the objects under the prefix, and s3:ListBucket on the bucket";
/// Requests at once.
const AT_ONCE: usize = 16;
/// The most that one delete request takes (Amazon S3 API reference, `DeleteObjects`).
const DELETES: usize = 1_000;
/// No letter is larger than this: a record of 16 MiB as Base64, and what is told about it. Larger objects are not read.
const LARGEST: i64 = 32 * 1024 * 1024;

/// A bucket of dead letters.
#[derive(Debug, Clone)]
pub struct LetterBucket {
    client: Client,
    at: Bucket,
}

impl LetterBucket {
    /// Makes the client; sends nothing.
    pub(super) async fn look(at: &Bucket, aws: &Aws, credentials: Option<&SharedCredentialsProvider>) -> Result<Self, Error> {
        let help = "add ?region=… to the s3:// URL, set region under [dead_letters.aws], or AWS_REGION";
        Ok(Self { client: at.client(aws, credentials, Patience::Some, help).await?, at: at.clone() })
    }

    /// Finds out whether objects can be put and deleted.
    pub(super) async fn probe(&self) -> Result<(), Error> {
        let probe = self.key("revsync-probe");
        self.put(probe.clone(), Bytes::new()).await?;
        self.delete(vec![probe]).await
    }

    /// Stores each letter under its id.
    pub(super) async fn append(&self, letters: &[DeadLetter]) -> Result<(), Error> {
        let objects =
            letters.iter().map(|letter| Ok((self.home(&letter.id), Bytes::from(letter.line()?)))).collect::<Result<_, Error>>()?;
        self.put_all(objects).await
    }

    pub(super) async fn put_all(&self, objects: Vec<(String, Bytes)>) -> Result<(), Error> {
        let puts = objects.into_iter().map(|(key, body)| {
            let bucket = self.clone();
            async move { bucket.put(key, body).await }
        });
        together(AT_ONCE, puts).await.map(drop)
    }

    async fn put(&self, key: String, body: Bytes) -> Result<(), Error> {
        let put = self.client.put_object().bucket(&self.at.name).key(key).content_type("application/json").body(ByteStream::from(body));
        put.send().await.map(drop).map_err(|error| self.error("cannot be written", &why(error)))
    }

    /// An object; nothing where there is none.
    pub(super) async fn get(&self, key: &str) -> Result<Option<Bytes>, Error> {
        let answer = match self.client.get_object().bucket(&self.at.name).key(key).send().await {
            Ok(answer) => answer,
            Err(error) if error.as_service_error().is_some_and(|error| error.is_no_such_key()) => return Ok(None),
            Err(error) => return Err(self.error("cannot be read", &why(error))),
        };
        let body = answer.body.collect().await.map_err(|error| self.error("cannot be read", &error.to_string()))?;
        Ok(Some(body.into_bytes()))
    }

    pub(super) async fn delete(&self, keys: Vec<String>) -> Result<(), Error> {
        for keys in keys.chunks(DELETES) {
            let objects = keys.iter().map(|key| ObjectIdentifier::builder().key(key).build()).collect::<Result<_, _>>();
            let delete = objects.and_then(|objects| Delete::builder().set_objects(Some(objects)).quiet(true).build());
            let delete = delete.map_err(|error| self.error("an object cannot be deleted", &error.to_string()))?;
            let answer = self.client.delete_objects().bucket(&self.at.name).delete(delete).send().await;
            let answer = answer.map_err(|error| self.error("an object cannot be deleted", &why(error)))?;
            if let Some(failed) = answer.errors().first() {
                let what = [failed.code(), failed.message()].into_iter().flatten().collect::<Vec<_>>().join(": ");
                return Err(self.error("an object cannot be deleted", &what));
            }
        }
        Ok(())
    }

    /// The key of an object under the prefix.
    fn key(&self, name: &str) -> String {
        if self.at.prefix.is_empty() { name.to_owned() } else { format!("{}/{name}", self.at.prefix) }
    }

    /// Where the letter of an id is stored.
    fn home(&self, id: &str) -> String {
        self.key(&format!("{id}.json"))
    }

    /// A key under the prefix for a letter that a message points to. Each text of a letter has its own, so that the message owns the object.
    pub(super) fn key_of(&self, id: &str, digest: &str) -> String {
        self.key(&format!("{id}-{digest}.json"))
    }

    /// Whether an object is here, where this place may read and delete it.
    pub(super) fn holds(&self, bucket: &str, key: &str) -> bool {
        bucket == self.at.name && key.starts_with(&self.key("")) && key.ends_with(".json")
    }

    pub(super) fn bucket_name(&self) -> &str {
        &self.at.name
    }

    pub(super) fn walk(&self) -> BucketWalk {
        BucketWalk { bucket: self.clone(), keys: VecDeque::new(), next: Next::First, copies: Copies::default() }
    }

    fn error(&self, what: &str, why: &str) -> Error {
        refusal(&self.at, what, why, RIGHTS)
    }
}

/// Which page of the list of objects comes next.
#[derive(Debug)]
enum Next {
    First,
    After(String),
    None,
}

/// Goes through a bucket of dead letters in the order of their keys.
#[derive(Debug)]
pub struct BucketWalk {
    bucket: LetterBucket,
    /// Keys and sizes that were listed and not read yet.
    keys: VecDeque<(String, i64)>,
    next: Next,
    copies: Copies<String>,
}

impl BucketWalk {
    pub(super) async fn next(&mut self, most: usize) -> Result<Option<Vec<Entry>>, Error> {
        while self.keys.is_empty() {
            if !self.list().await? {
                return Ok(None);
            }
        }
        let (mut portion, mut wanted, mut bytes) = (Portion::default(), Vec::new(), 0);
        while wanted.len() + portion.entries.len() < most
            && let Some((key, size)) = self.keys.pop_front_if(|(_, size)| bytes == 0 || bytes + *size <= PORTION_BYTES as i64)
        {
            if size > LARGEST {
                portion.damaged(object(&key), "it is larger than a dead letter can be".to_owned());
            } else {
                bytes += size;
                wanted.push(key);
            }
        }
        let gets = wanted.into_iter().map(|key| {
            let bucket = self.bucket.clone();
            async move { Ok((bucket.get(&key).await?, key)) }
        });
        for (body, key) in together(AT_ONCE, gets).await? {
            // What was taken out since it was listed is no letter any more.
            let Some(body) = body else { continue };
            match letter::read(&body) {
                Ok(letter) => {
                    if let Some(key) = portion.letter(letter, key, &mut self.copies) {
                        self.bucket.delete(vec![key]).await?;
                    }
                }
                Err(reason) => portion.damaged(object(&key), reason),
            }
        }
        Ok(Some(portion.entries))
    }

    /// Lists some more keys; whether there were more pages.
    async fn list(&mut self) -> Result<bool, Error> {
        let token = match &self.next {
            Next::First => None,
            Next::After(token) => Some(token.clone()),
            Next::None => return Ok(false),
        };
        let Self { bucket, .. } = self;
        let list = bucket.client.list_objects_v2().bucket(&bucket.at.name).prefix(bucket.key("")).delimiter("/");
        let page = list.set_continuation_token(token).send().await.map_err(|error| bucket.error("cannot be listed", &why(error)))?;
        self.next = page.next_continuation_token().map_or(Next::None, |token| Next::After(token.to_owned()));
        let letters = page.contents().iter().filter_map(|object| Some((object.key()?.to_owned(), object.size().unwrap_or_default())));
        self.keys.extend(letters.filter(|(key, _)| key.ends_with(".json")));
        Ok(true)
    }

    pub(super) async fn settle(&mut self, settled: &[String]) -> Result<usize, Error> {
        let keys: Vec<Vec<String>> = settled.iter().map(|id| self.copies.settle(id)).filter(|keys| !keys.is_empty()).collect();
        let letters = keys.len();
        self.bucket.delete(keys.concat()).await?;
        Ok(letters)
    }

    /// What was stored anew has replaced itself, unless it lay under another key.
    pub(super) async fn replace(&mut self, anew: &[Anew]) -> Result<(), Error> {
        let mut others = Vec::new();
        for Anew { id, moment } in anew {
            let home = self.bucket.home(id);
            others.extend(self.copies.replace(id, *moment).into_iter().filter(|key| *key != home));
        }
        self.bucket.delete(others).await
    }
}

/// The whole of a letter that a message only points to, from the bucket for large letters. The inner error says why it is not to be had.
pub(super) async fn load(place: Option<&LetterBucket>, letter: DeadLetter) -> Result<Result<DeadLetter, String>, Error> {
    let Some(Large { bucket, key, .. }) = &letter.large else { return Ok(Ok(letter)) };
    // A message could point anywhere.
    let Some(place) = place.filter(|place| place.holds(bucket, key)) else {
        return Ok(Err(format!("it is in s3://{bucket}/{key}, which is not under --dead-letters-large")));
    };
    let Some(body) = place.get(key).await? else { return Ok(Err(format!("s3://{bucket}/{key} is not there any more"))) };
    match letter::read(&body) {
        Ok(whole) if whole.id == letter.id && whole.large.is_none() => Ok(Ok(whole)),
        Ok(_) => Ok(Err(format!("s3://{bucket}/{key} holds another letter"))),
        Err(reason) => Ok(Err(format!("s3://{bucket}/{key}: {reason}"))),
    }
}

fn object(key: &str) -> String {
    format!("object {key}")
}
