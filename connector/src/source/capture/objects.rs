//! Captured files in a bucket of Amazon S3: which there are, and each one's bytes as they come, without a copy on disk.
//!
//! A listing fixes keys, lengths and ETags, and is the bound of the scan. An object whose connection breaks goes on from where it was, and one that
//! is no longer the listed one ends its reading. Never looks at what the bytes mean.

use std::error::Error as StdError;
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_s3::Client;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::types::{Object as Listed, ObjectStorageClass, OptionalObjectAttributes};
use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::sleep;

use super::export::is_manifest;
use super::files::{Entry, Found};
use crate::aws::bucket::{Bucket, Patience};
use crate::aws::{Aws, code, deepest, lacks_credentials, why};
use crate::error::{Error, Kind};
use crate::plan::outcome::Class;
use crate::plan::retry::policy;

/// Objects that are begun before their turn, so that many small ones do not cost a round trip each.
pub(super) const AHEAD: usize = 6;

/// Pieces of an object that wait to be read; one has some hundred KiB at the most.
const PIECES: usize = 2;

/// How often in a row an object is gone on with of which no byte comes.
const TRIES: u32 = 6;

/// What a folder's name ends in.
const FOLDER: char = '/';

/// The bucket as it is read.
#[derive(Debug)]
struct Shelf {
    bucket: Bucket,
    client: Client,
    runtime: Handle,
}

/// An object that is to be read.
#[derive(Debug)]
pub(super) struct Object {
    shelf: Arc<Shelf>,
    key: Box<str>,
    etag: Option<Box<str>>,
    length: u64,
    coming: Option<Receiver<Result<Bytes, Refusal>>>,
}

/// Why an object cannot be read to its end, and what to do.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    what: String,
    pub(super) help: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl StdError for Refusal {}

/// What is said of an input that failed, where it is an object.
pub(super) fn refusal(error: &io::Error) -> Option<&Refusal> {
    error.get_ref()?.downcast_ref()
}

/// Lists what a bucket holds at and under a prefix.
///
/// The prefix is a folder, `PREFIX/…`, or the key of one object; with a slash at its end it is only a folder.
///
/// # Errors
/// No region is known, the bucket is not there or may not be listed, nothing has the prefix, or objects are archived and have to be restored first.
pub(super) async fn list(bucket: &Bucket, aws: &Aws, credentials: Option<&SharedCredentialsProvider>) -> Result<Found, Error> {
    let help = "add ?region=… to the s3:// URL, set region under [source.aws], or AWS_REGION";
    let hasty = bucket.client(aws, credentials, Patience::Some, help).await?;
    let patient = bucket.client(aws, credentials, Patience::Long, help).await?;
    let shelf = Arc::new(Shelf { bucket: bucket.clone(), client: patient, runtime: Handle::current() });
    let prefix = &bucket.prefix;
    let (mut entries, mut manifests, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    let mut first = None;
    if !prefix.is_empty() && !prefix.ends_with(FOLDER) {
        // A key that is the prefix comes before all that only begin with it.
        first = page(&hasty, bucket, prefix, None, Some(1)).await?.0.into_iter().next();
    }
    let folder = if prefix.is_empty() || prefix.ends_with(FOLDER) { prefix.clone() } else { format!("{prefix}{FOLDER}") };
    let named = first.as_ref().filter(|first| first.key() == Some(prefix));
    let is_one = named.is_some_and(|named| named.size() > Some(0));
    let mut archived = Archived::default();
    if let Some(object) = named.filter(|_| is_one) {
        archived.see(object);
        entries.extend(entry(&shelf, object));
        let below = page(&hasty, bucket, &folder, None, Some(1)).await?.0;
        if !below.is_empty() {
            notes.push(format!("passed over: {}: a folder beside the object of that name", bucket.object(&folder)));
        }
    } else {
        let (mut client, mut token) = (&hasty, None);
        loop {
            let (listed, next) = page(client, bucket, &folder, token, None).await?;
            for object in &listed {
                let Some(key) = object.key() else { continue };
                // As in a directory: what is hidden is left alone. A folder that was made by hand has an object of its own name.
                let is_hidden = key[folder.len().min(key.len())..].split(FOLDER).any(|part| part.starts_with('.'));
                if is_hidden || key.ends_with(FOLDER) && object.size().unwrap_or_default() == 0 {
                    continue;
                }
                archived.see(object);
                match key {
                    _ if is_manifest(key) => manifests.extend(entry(&shelf, object)),
                    _ if key.ends_with(".manifest") => notes.push(format!("passed over: {}: a manifest", bucket.object(key))),
                    _ => entries.extend(entry(&shelf, object)),
                }
            }
            token = next;
            if token.is_none() {
                break;
            }
            client = &shelf.client;
        }
    }
    archived.refuse(bucket)?;
    if let Some(empty) = named.filter(|_| entries.is_empty()) {
        entries.extend(entry(&shelf, empty));
    }
    if entries.is_empty() {
        let near = first.as_ref().and_then(|first| first.key()).filter(|key| !key.starts_with(&folder));
        return Err(nothing(bucket, near));
    }
    Ok(Found { entries, manifests, notes })
}

/// One page of the list of objects, and where the next one begins.
async fn page(
    client: &Client,
    bucket: &Bucket,
    prefix: &str,
    token: Option<String>,
    most: Option<i32>,
) -> Result<(Vec<Listed>, Option<String>), Error> {
    let list = client.list_objects_v2().bucket(&bucket.name).set_prefix(Some(prefix.to_owned()).filter(|prefix| !prefix.is_empty()));
    let list = list.optional_object_attributes(OptionalObjectAttributes::RestoreStatus).set_max_keys(most);
    let answer = list.set_continuation_token(token.clone()).send().await.map_err(|error| unlisted(bucket, error))?;
    let next = answer.next_continuation_token().map(str::to_owned);
    if most.is_none() && answer.is_truncated() == Some(true) && (next.is_none() || next == token) {
        let what = format!("source: {bucket} cannot be listed: the list is cut off and does not say where it goes on");
        return Err(Error::new(Kind::Source, what).help("the server does not speak ListObjectsV2 as Amazon S3 does"));
    }
    Ok((answer.contents.unwrap_or_default(), next))
}

fn entry(shelf: &Arc<Shelf>, object: &Listed) -> Option<Entry> {
    Some(Entry::Object(Object {
        shelf: Arc::clone(shelf),
        key: object.key()?.into(),
        etag: object.e_tag().map(Into::into),
        length: object.size().and_then(|size| u64::try_from(size).ok()).unwrap_or_default(),
        coming: None,
    }))
}

/// Objects of storage classes that are not read before they are restored (Amazon S3 user guide, "Restoring an archived object").
#[derive(Default)]
struct Archived {
    first: Option<String>,
    count: usize,
}

impl Archived {
    fn see(&mut self, object: &Listed) {
        let is_archive = matches!(object.storage_class(), Some(ObjectStorageClass::Glacier | ObjectStorageClass::DeepArchive));
        let is_restored = object.restore_status().is_some_and(|status| status.restore_expiry_date().is_some());
        if is_archive && !is_restored {
            self.count += 1;
            self.first = self.first.take().or_else(|| object.key().map(str::to_owned));
        }
    }

    fn refuse(&self, bucket: &Bucket) -> Result<(), Error> {
        let Some(first) = &self.first else { return Ok(()) };
        let object = bucket.object(first);
        let what = match self.count {
            1 => format!("source: {object} is archived"),
            count => format!("source: {count} objects are archived, the first is {object}"),
        };
        Err(Error::new(Kind::Source, what).help(RESTORE))
    }
}

const RESTORE: &str = "restore what is archived (aws s3api restore-object), and run the same command again when that is done";

fn nothing(bucket: &Bucket, near: Option<&str>) -> Error {
    let Bucket { name, prefix, .. } = bucket;
    if prefix.is_empty() {
        return Error::new(Kind::Source, format!("source: {bucket} is an empty bucket"))
            .help("name the bucket that holds the captured stream");
    }
    let what = format!("source: {bucket} does not exist: the bucket {name} has no object of that key and none in a folder of that name");
    let error = Error::new(Kind::Source, what);
    let Some(near) = near else { return error.help("check the prefix with aws s3 ls") };
    // The folder, or the object, that goes on where the prefix ends.
    let end = near[prefix.len()..].find(FOLDER).map_or(near.len(), |at| prefix.len() + at + 1);
    error.help(format!("did you mean {}?", bucket.object(&near[..end])))
}

fn unlisted<E>(bucket: &Bucket, error: SdkError<E>) -> Error
where
    E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
{
    let help = match code(&error) {
        Some("AccessDenied") => Some("the right that it takes is s3:ListBucket on the bucket".to_owned()),
        Some("NoSuchBucket") => Some("check the bucket's name with aws s3 ls".to_owned()),
        _ if lacks_credentials(&error) => {
            Some("there are no credentials for AWS to sign with: set AWS_PROFILE, or run under a role".to_owned())
        }
        _ => region(&error),
    };
    let error = Error::new(Kind::Source, format!("source: {bucket} cannot be listed: {}", why(error)));
    if let Some(help) = help { error.help(help) } else { error }
}

/// What to do where the bucket is in another region.
fn region<E: ProvideErrorMetadata>(error: &SdkError<E>) -> Option<String> {
    let SdkError::ServiceError(service) = error else { return None };
    let is_elsewhere =
        matches!(service.err().code(), Some("PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException"));
    let region = service.raw().headers().get("x-amz-bucket-region");
    let named = region.map_or_else(|| "?region=…".to_owned(), |region| format!("?region={region}"));
    (is_elsewhere || service.raw().status().as_u16() == 301)
        .then(|| format!("the bucket is in another region: add {named} to the s3:// URL"))
}

/// The same object, of which nothing was begun.
impl Clone for Object {
    fn clone(&self) -> Self {
        let Self { shelf, key, etag, length, .. } = self;
        Self { shelf: Arc::clone(shelf), key: key.clone(), etag: etag.clone(), length: *length, coming: None }
    }
}

impl Object {
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// The bucket that it is in, as a person is told it.
    pub(super) fn bucket(&self) -> String {
        format!("s3://{}", self.shelf.bucket.name)
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The object, as a person is told it.
    pub(super) fn label(&self) -> String {
        self.shelf.bucket.object(&self.key)
    }

    /// Begins to fetch it, unless that was done.
    pub(super) fn begin(&mut self) {
        if self.coming.is_none() {
            let (pieces, coming) = channel(PIECES);
            let (shelf, key, etag) = (Arc::clone(&self.shelf), self.key.clone(), self.etag.clone());
            let fetch = Fetch { key, etag, length: self.length, at: 0 };
            self.shelf.runtime.spawn(async move { fetch.all(&shelf, &pieces).await });
            self.coming = Some(coming);
        }
    }

    /// Its bytes. To be read where that may block.
    pub(super) fn open(&mut self) -> Box<dyn Read + Send> {
        self.begin();
        match self.coming.take() {
            Some(coming) => Box::new(Pieces { coming, piece: Bytes::new(), failed: None }),
            None => Box::new(io::empty()),
        }
    }
}

/// An object on its way.
struct Fetch {
    key: Box<str>,
    etag: Option<Box<str>>,
    length: u64,
    /// How much of it came.
    at: u64,
}

impl Fetch {
    /// Hands over all that comes, or why no more does; ends when nobody takes it.
    async fn all(mut self, shelf: &Shelf, pieces: &Sender<Result<Bytes, Refusal>>) {
        let waits = policy(Class::Unavailable);
        let mut tries = 0;
        while self.at < self.length {
            let before = self.at;
            let broke = match self.once(shelf, pieces).await {
                Ok(Some(broke)) => broke,
                Ok(None) => return,
                Err(refusal) => {
                    // Whoever reads no more has no use for it.
                    let _ = pieces.send(Err(refusal)).await;
                    return;
                }
            };
            tries = if self.at > before { 0 } else { tries + 1 };
            if tries == TRIES {
                let what = format!("the connection broke off {TRIES} times in a row: {broke}");
                let _ = pieces.send(Err(Refusal { what, help: "run the same command again: nothing is written twice".to_owned() })).await;
                return;
            }
            tracing::debug!(key = &*self.key, at = self.at, "the connection broke off, and is made anew: {broke}");
            sleep((waits.base * 2u32.pow(tries)).min(waits.cap)).await;
        }
    }

    /// One request from where it is. Gives why it broke off before the end; nothing when all of it came or nobody takes it any more.
    async fn once(&mut self, shelf: &Shelf, pieces: &Sender<Result<Bytes, Refusal>>) -> Result<Option<String>, Refusal> {
        let range = (self.at > 0).then(|| format!("bytes={}-{}", self.at, self.length - 1));
        let get = shelf.client.get_object().bucket(&shelf.bucket.name).key(&*self.key);
        let get = get.set_if_match(self.etag.as_deref().map(str::to_owned)).set_range(range);
        let answer = get.send().await.map_err(unread)?;
        // Not every server that speaks S3 heeds the conditions.
        if let (Some(listed), Some(there)) = (&self.etag, answer.e_tag())
            && bare(listed) != bare(there)
        {
            return Err(Refusal { what: CHANGED.to_owned(), help: LIST_AGAIN.to_owned() });
        }
        let goes_on = |range: &str| range.starts_with(&format!("bytes {}-", self.at));
        if self.at > 0 && !answer.content_range().is_some_and(goes_on) {
            let what = "the connection broke off, and the server cannot go on in the middle of an object".to_owned();
            return Err(Refusal { what, help: "copy the object to a file and read that".to_owned() });
        }
        if self.etag.is_none() {
            self.etag = answer.e_tag().map(Into::into);
        }
        let mut body = answer.body;
        loop {
            match body.next().await {
                Some(Ok(mut piece)) => {
                    // Lossless: no more than what the piece has.
                    piece.truncate((self.length - self.at).min(piece.len() as u64) as usize);
                    self.at += piece.len() as u64;
                    if pieces.send(Ok(piece)).await.is_err() {
                        return Ok(None);
                    }
                }
                None if self.at == self.length => return Ok(None),
                None => return Ok(Some("it ended early".to_owned())),
                Some(Err(error)) if self.at == self.length => {
                    let what = format!("its checksum does not fit: {}", deepest(&error));
                    return Err(Refusal { what, help: "run the same command again: nothing is written twice".to_owned() });
                }
                Some(Err(error)) => return Ok(Some(deepest(&error))),
            }
        }
    }
}

const CHANGED: &str = "it changed since the bucket was listed";
const LIST_AGAIN: &str = "run the same command again, which lists what there is then: nothing is written twice";

/// An ETag without what one server adds in its lists and another in its answers.
fn bare(etag: &str) -> &str {
    etag.trim_start_matches("W/").trim_matches('"')
}

fn unread<E>(error: SdkError<E>) -> Refusal
where
    E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
{
    let status = if let SdkError::ServiceError(service) = &error { service.raw().status().as_u16() } else { 0 };
    let (what, help) = match (code(&error), status) {
        (Some("PreconditionFailed"), _) | (_, 412) => (CHANGED.to_owned(), LIST_AGAIN.to_owned()),
        (Some("NoSuchKey"), _) => ("it was removed since the bucket was listed".to_owned(), LIST_AGAIN.to_owned()),
        (Some("InvalidObjectState"), _) => ("it is archived".to_owned(), RESTORE.to_owned()),
        (Some("AccessDenied"), _) => (
            why(error),
            "the right that it takes is s3:GetObject on the objects, and kms:Decrypt on the key where they are encrypted with one of AWS KMS"
                .to_owned(),
        ),
        _ => (why(error), "nothing is lost: run the same command again when it can be read".to_owned()),
    };
    Refusal { what, help }
}

/// The bytes of an object as they come.
struct Pieces {
    coming: Receiver<Result<Bytes, Refusal>>,
    piece: Bytes,
    failed: Option<Refusal>,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() && self.failed.is_none() {
            match self.coming.blocking_recv() {
                Some(Ok(piece)) => self.piece = piece,
                Some(Err(refusal)) => self.failed = Some(refusal),
                None => return Ok(0),
            }
        }
        if let Some(failed) = &self.failed {
            return Err(io::Error::other(failed.clone()));
        }
        let count = buffer.len().min(self.piece.len());
        buffer[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}
