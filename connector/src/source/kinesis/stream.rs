//! A stream: what it is called, how long it keeps records, and which shards it has.
//!
//! A call of these is tried a few times by the SDK. Never reads a record: that is the [`Reader`]'s.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_config::retry::RetryConfig;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::config::interceptors::BeforeDeserializationInterceptorContextRef;
use aws_sdk_kinesis::config::{Builder, ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_kinesis::error::BoxError;
use aws_sdk_kinesis::types::{Shard, StreamDescriptionSummary, StreamStatus};

use super::failure::is;
use super::reader::Reader;
use super::{Address, Failure, RIGHTS};
use crate::aws::{Aws, retries, timeouts};
use crate::error::{Error, Kind};
use crate::plan::checkpoint::Begin;
use crate::plan::outcome::Class;
use crate::plan::shards::Listed;

/// The most shards of one answer (Amazon Kinesis Data Streams API reference, `ListShards`).
const MOST_SHARDS: i32 = 10_000;
/// The most bytes of a record where the stream does not say so.
const LARGEST_RECORD: usize = 1024 * 1024;

/// A data stream that can be reached.
#[derive(Debug, Clone)]
pub struct Kinesis(Arc<Stream>);

#[derive(Debug)]
pub(super) struct Stream {
    /// Tries a call a few times.
    client: Client,
    /// Tries a call once.
    pub(super) once: Client,
    name: Option<String>,
    /// Where the stream was given by its ARN, which is how one of another account is read.
    pub(super) given_arn: Option<String>,
    arn: String,
    described: String,
    retention: Duration,
    largest_record: usize,
    /// When the stream was made, in milliseconds since 1970, where it says so.
    created: Option<u64>,
}

impl Kinesis {
    /// Reaches a stream, and asks what it is.
    ///
    /// # Errors
    /// [`Kind::Usage`] where no region is known; [`Kind::Source`] where there are no credentials, the stream is unknown or being deleted, may not be
    /// read, or what answers is no Kinesis; [`Kind::Pending`] where it cannot be reached, which may pass.
    pub async fn connect(address: &Address, aws: &Aws) -> Result<Self, Error> {
        Self::connect_as(address, aws, None).await
    }

    /// As [`connect`](Self::connect), with these credentials in place of the environment's.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_as(address: &Address, aws: &Aws, credentials: Option<&SharedCredentialsProvider>) -> Result<Self, Error> {
        let aws = Aws { region: address.reach.region.clone().or_else(|| aws.region.clone()), ..aws.clone() };
        let sdk = aws.load(credentials, "add ?region=… to the kinesis:// URL, set region under [source.aws], or AWS_REGION").await?;
        let client = |retries| {
            let mut client = Builder::from(&sdk).timeout_config(timeouts()).retry_config(retries);
            if let Some(endpoint) = &address.reach.endpoint {
                client = client.endpoint_url(endpoint);
            }
            Client::from_conf(client.build())
        };
        let region = sdk.region().map(ToString::to_string).unwrap_or_default();
        let at = address.reach.endpoint.as_ref().map(|endpoint| format!(" at {endpoint}")).unwrap_or_default();
        let (name, given_arn) = if address.is_arn() { (None, Some(address.stream.clone())) } else { (Some(address.stream.clone()), None) };
        let mut stream = Stream {
            client: client(retries()),
            once: client(RetryConfig::disabled()),
            name,
            given_arn,
            arn: String::new(),
            described: format!("the stream {} in {region}{at}", address.name()),
            retention: Duration::ZERO,
            largest_record: LARGEST_RECORD,
            created: None,
        };
        let summary = stream.describe().await.map_err(|failure| stream.error(&failure))?;
        stream.arn = summary.stream_arn;
        stream.retention = Duration::from_secs(60 * 60 * u64::try_from(summary.retention_period_hours).unwrap_or_default());
        stream.created = summary.stream_creation_timestamp.to_millis().ok().and_then(|at| u64::try_from(at).ok());
        if let Some(kib) = summary.max_record_size_in_kib.and_then(|kib| usize::try_from(kib).ok()) {
            stream.largest_record = kib.max(1) * 1024;
        }
        Ok(Self(Arc::new(stream)))
    }

    /// The stream's ARN, which names it everywhere.
    pub fn arn(&self) -> &str {
        &self.0.arn
    }

    /// The stream in words, with its region: "the stream NAME in REGION".
    pub fn described(&self) -> &str {
        &self.0.described
    }

    /// How long the stream keeps a record, as it was when it was reached.
    pub fn retention(&self) -> Duration {
        self.0.retention
    }

    /// The most bytes that a record of the stream may have, as it was when it was reached.
    pub fn largest_record(&self) -> usize {
        self.0.largest_record
    }

    /// When the stream was made, in milliseconds since 1970, where it says so.
    pub fn created(&self) -> Option<u64> {
        self.0.created
    }

    /// All shards that the stream has: open ones, and closed ones of which it still has records.
    ///
    /// # Errors
    /// As every call; a stream that is gone is [`Failure::Gone`].
    pub async fn shards(&self) -> Result<Vec<Listed>, Failure> {
        self.0.shards().await
    }

    /// As [`shards`](Self::shards), with the time of the answer by the clock of the service, in milliseconds since 1970 and rounded down to
    /// whole seconds: the `Date` header (RFC 9110). `None` where it has none.
    ///
    /// # Errors
    /// As [`shards`](Self::shards).
    pub async fn shards_and_time(&self) -> Result<(Vec<Listed>, Option<u64>), Failure> {
        let date = Date::default();
        let listed = self.0.listed(&date).await?;
        Ok((listed, date.millis()))
    }

    /// The error of a stream that cannot be read, for a run that does not wait for it.
    pub fn error(&self, failure: &Failure) -> Error {
        self.0.error(failure)
    }

    /// Whether there is such a stream, and it is not being deleted.
    ///
    /// # Errors
    /// It cannot be known now.
    pub async fn is_there(&self) -> Result<bool, Failure> {
        match self.0.describe().await {
            Ok(_) => Ok(true),
            Err(Failure::Gone { .. }) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// The error of a stream that was there and is not any more.
    pub fn gone(&self) -> Error {
        self.0.error(&Failure::Gone { what: "it was there when the run began".to_owned() })
    }

    /// Reads a shard from there on. Reaches nothing yet.
    pub fn reader(&self, shard: &str, begin: Begin) -> Reader {
        Reader::new(Arc::clone(&self.0), shard, begin)
    }
}

impl Stream {
    /// How a call names the stream: by its ARN where that was given.
    pub(super) fn name(&self) -> Option<String> {
        self.name.clone()
    }

    pub(super) fn arn(&self) -> &str {
        &self.arn
    }

    async fn describe(&self) -> Result<StreamDescriptionSummary, Failure> {
        const CALL: &str = "DescribeStreamSummary";
        let asked = self.client.describe_stream_summary().set_stream_name(self.name()).set_stream_arn(self.given_arn.clone()).send().await;
        let answer = asked.map_err(|error| Failure::of(CALL, error))?;
        let summary = answer.stream_description_summary.filter(|summary| summary.stream_arn.starts_with("arn:"));
        let summary = summary.ok_or_else(|| Failure::again(Class::Unknown, format!("{CALL}: the answer describes no stream")))?;
        match summary.stream_status {
            StreamStatus::Deleting => Err(Failure::Gone { what: "it is being deleted".to_owned() }),
            _ => Ok(summary),
        }
    }

    pub(super) async fn shards(&self) -> Result<Vec<Listed>, Failure> {
        self.listed(&Date::default()).await
    }

    async fn listed(&self, date: &Date) -> Result<Vec<Listed>, Failure> {
        let (mut listed, mut next) = (Vec::new(), None);
        loop {
            let call = self.client.list_shards().max_results(MOST_SHARDS);
            let call = match next {
                // The token stands for the stream.
                Some(_) => call.set_next_token(next),
                None => call.set_stream_name(self.name()).set_stream_arn(self.given_arn.clone()),
            };
            let answer =
                call.customize().interceptor(date.clone()).send().await.map_err(|error| match is(&error, "ExpiredNextTokenException") {
                    true => Failure::again(Class::Unavailable, "ListShards: the list took too long"),
                    false => Failure::of("ListShards", error),
                })?;
            listed.extend(answer.shards.unwrap_or_default().into_iter().map(shard));
            next = answer.next_token;
            if next.is_none() {
                return Ok(listed);
            }
        }
    }

    /// What a person is told who cannot have the stream.
    fn error(&self, failure: &Failure) -> Error {
        let described = &self.described;
        match failure {
            Failure::Gone { what } => Error::new(Kind::Source, format!("source: {described} does not exist: {what}"))
                .help("check the stream's name, the region and the account of the credentials"),
            Failure::Again { class: Class::Refused, what } => {
                Error::new(Kind::Source, format!("source: {described} cannot be read: {what}")).help(RIGHTS)
            }
            Failure::Again { class: Class::Unknown, what } => {
                Error::new(Kind::Source, format!("source: {described} cannot be reached: {what}"))
                    .help("check the endpoint: something else than Kinesis may answer there")
            }
            // It may pass.
            Failure::Again { what, .. } => Error::new(Kind::Pending, format!("source: {described} cannot be reached: {what}"))
                .help("check the network, the region and the endpoint"),
        }
    }
}

/// Remembers the time of the first answer.
#[derive(Debug, Clone, Default)]
struct Date(Arc<Mutex<Option<SystemTime>>>);

impl Date {
    fn millis(&self) -> Option<u64> {
        let date = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        date?.duration_since(UNIX_EPOCH).ok().and_then(|since| u64::try_from(since.as_millis()).ok())
    }
}

impl Intercept for Date {
    fn name(&self) -> &'static str {
        "Date"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let said = context.response().headers().get("date").and_then(|date| httpdate::parse_http_date(date).ok());
        let mut date = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *date = date.or(said);
        Ok(())
    }
}

fn shard(shard: Shard) -> Listed {
    let closed = shard.sequence_number_range.is_some_and(|range| range.ending_sequence_number.is_some());
    let parents = [shard.parent_shard_id, shard.adjacent_parent_shard_id].into_iter().flatten().collect();
    Listed { id: shard.shard_id, parents, closed }
}
