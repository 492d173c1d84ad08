//! What the options and the file come to: every value resolved, option over environment over file over default.
//!
//! Reads no file and reaches nothing: whether a place exists is found out by whoever opens it.

use std::path::PathBuf;
use std::time::Duration;

use super::file::{Auth, File, OnDataLoss, SinkSection, TableRule};
use super::load::Environment;
use super::places::{SinkUrl, SourceUrl};
use super::rules::checked;
use super::units::{ByteSize, Listen, Span, StartAt, TableKey};
use crate::aws::Aws;
use crate::codec::{Format, Rows, Versions};
use crate::error::Error;
use crate::kafka::{Properties, Property, is_secret};
use crate::plan::breaker::Thresholds;
use crate::plan::checkpoint::Start;
use crate::plan::pace::SOONEST;
use crate::plan::rate::PerSecond;
use crate::sink::opensearch;
use crate::sink::opensearch::config::{Access, Password, Secret};
use crate::store::{checkpoints, dead_letters};

/// The dead-letter place of a command that names none.
pub const DEFAULT_DEAD_LETTERS: &str = "file:revsync-dead-letters.jsonl";
/// The sink of a command that names none.
pub const DEFAULT_SINK: &str = "local:revsync.db";
/// OpenSearch refuses larger bodies at its own default of 10 MiB on some AWS instances; the rest is for action lines.
const MOST_REQUEST_BYTES: u64 = 9 << 20;

/// What the command line or its environment variables say; it comes before the file.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "each is the key of the file of the same name")]
pub struct Overrides {
    pub name: Option<String>,
    pub source: Option<String>,
    pub format: Option<Format>,
    pub versions: Option<Versions>,
    pub keys: Vec<TableKey>,
    pub rows: Option<Rows>,
    pub group: Option<String>,
    pub properties: Vec<Property>,
    pub verify_hashes: Option<bool>,
    pub retention: Option<Span>,
    pub start: Option<StartAt>,
    pub on_data_loss: Option<OnDataLoss>,
    pub idle_time_between_reads: Option<Span>,
    pub shard_timeout: Option<Span>,
    pub sink: Option<String>,
    pub auth: Option<Auth>,
    pub username: Option<String>,
    pub password_file: Option<PathBuf>,
    pub password_secret: Option<String>,
    pub ca_file: Option<PathBuf>,
    pub client_certificate_file: Option<PathBuf>,
    pub aws_region: Option<String>,
    pub assume_role_arn: Option<String>,
    pub create_index: Option<bool>,
    pub gc_deletes: Option<Span>,
    pub journal: Option<String>,
    pub statements: Option<bool>,
    pub request_bytes: Option<ByteSize>,
    pub request_operations: Option<u32>,
    pub requests_in_flight: Option<u32>,
    pub linger: Option<Span>,
    pub max_rate: Option<u32>,
    pub gzip: Option<bool>,
    pub give_up_after: Option<Span>,
    pub request_timeout: Option<Span>,
    pub grace: Option<Span>,
    pub breaker_in_a_row: Option<u32>,
    pub breaker_percent: Option<u32>,
    pub checkpoints: Option<String>,
    pub dead_letters: Option<String>,
    pub dead_letters_large: Option<String>,
    pub http: Option<Listen>,
}

/// Everything a command needs to know, resolved.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The pipeline's name.
    pub name: String,
    /// Where records come from.
    pub source: Source,
    /// Where operations go.
    pub sink: Sink,
    /// Where the blocks of the journal go.
    pub journal: Journal,
    /// How they are sent.
    pub delivery: Delivery,
    /// Where it is saved how far a pipeline that lives on is.
    pub checkpoints: Checkpoints,
    /// Where dead letters go.
    pub dead_letters: dead_letters::Config,
    /// What is answered over HTTP.
    pub http: Http,
    /// The rules, in their order.
    pub tables: Vec<TableRule>,
}

/// Where records come from, resolved.
#[derive(Debug, Clone)]
pub struct Source {
    /// The place, where one was named.
    pub url: Option<SourceUrl>,
    /// What the records hold.
    pub format: Format,
    /// What may be the version of a row.
    pub versions: Versions,
    /// The key columns of tables, as the command line has them; they come before those of the rules.
    pub keys: Vec<TableKey>,
    /// What a put of a row carries, where no rule says it.
    pub rows: Rows,
    /// The consumer group, where one is named.
    pub group: Option<String>,
    /// Properties of the Kafka client.
    pub properties: Properties,
    /// Whether revision hashes are checked.
    pub verify_hashes: bool,
    /// How long it keeps its records.
    pub retention: Duration,
    /// Where it is begun with, where there is no checkpoint.
    pub start: Start,
    /// What is done where records were lost before they could be read.
    pub on_data_loss: OnDataLoss,
    /// How long a scan leaves a shard alone between two reads.
    pub idle_time_between_reads: Duration,
    /// How long a shard may come no nearer to its end before a scan gives it up.
    pub shard_timeout: Duration,
    /// How to reach AWS, where it is there.
    pub aws: Aws,
}

impl Source {
    /// The place, for a command that cannot do without.
    ///
    /// # Errors
    /// None was named.
    pub fn required(&self) -> Result<&SourceUrl, Error> {
        self.url.as_ref().ok_or_else(|| {
            Error::usage(
                "no source: expected a file, a directory, - for standard input, s3://BUCKET, kinesis://STREAM, or kafka://HOST:PORT/TOPIC",
            )
            .help("name it as SOURCE, or as url under [source] in the file of --config")
        })
    }
}

/// Where operations go, resolved.
#[derive(Debug, Clone)]
pub struct Sink {
    /// The place, without credentials.
    pub url: SinkUrl,
    /// How to get in there; `None` for what is a file.
    pub opensearch: Option<opensearch::Config>,
}

/// Where it is saved how far a pipeline that lives on is, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoints {
    /// The place.
    pub place: checkpoints::Place,
    /// After how much silence of a worker another may take over.
    pub takeover_after: Duration,
}

/// Where the blocks of the journal go, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// The index; `None`: they are skipped.
    pub index: Option<String>,
    /// Whether with the text of statements.
    pub statements: bool,
}

/// How operations are sent, resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// The most bytes of one request before compression, 1 to 9 MiB.
    pub request_bytes: usize,
    /// The most operations of one request, at least 1.
    pub request_operations: usize,
    /// The most requests at once, at least 1.
    pub requests_in_flight: usize,
    /// How long an operation waits for others.
    pub linger: Duration,
    /// The most operations of a second; `None` is as many as the sink takes.
    pub max_rate: Option<PerSecond>,
    /// How long to go on without progress.
    pub give_up_after: Duration,
    /// When an index that refuses documents is blocked.
    pub breaker: Thresholds,
    /// How long a pipeline that lives on may take to stop.
    pub grace: Duration,
}

/// What is answered over HTTP, resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http {
    /// Where, if it was said.
    pub listen: Option<Listen>,
    /// How long nothing may be settled while there is something to settle.
    pub stuck_after: Duration,
}

impl Settings {
    /// The consumer group of a pipeline on Kafka.
    pub fn group(&self) -> &str {
        self.source.group.as_deref().unwrap_or(&self.name)
    }

    /// Merges the options over the file, and checks what can be checked without reaching anything.
    ///
    /// # Errors
    /// A place that is none, a number out of its range, an authorisation that lacks its user or password, two rules of one name, two keys of
    /// one table.
    pub fn resolve(file: File, options: Overrides, environment: Environment<'_>) -> Result<Self, Error> {
        let source = Source {
            url: options.source.as_deref().or(file.source.url.as_deref()).map(str::parse).transpose()?,
            format: options.format.unwrap_or(file.source.format),
            versions: options.versions.unwrap_or(file.source.versions),
            keys: keys(&options.keys)?,
            rows: options.rows.unwrap_or_default(),
            group: options.group.clone().or_else(|| file.source.group.clone()),
            properties: properties(&file.source.properties, &options, environment)?,
            verify_hashes: options.verify_hashes.unwrap_or(file.source.verify_hashes),
            retention: options.retention.unwrap_or(file.source.retention).0,
            start: options.start.unwrap_or(file.source.start).0,
            on_data_loss: options.on_data_loss.unwrap_or(file.source.on_data_loss),
            idle_time_between_reads: idle_time(options.idle_time_between_reads.unwrap_or(file.source.idle_time_between_reads))?,
            shard_timeout: time("source.shard_timeout", options.shard_timeout.unwrap_or(file.source.shard_timeout))?,
            aws: file.source.aws.clone(),
        };
        let name = options.name.clone().or(file.name.clone()).or_else(|| source.url.as_ref().map(SourceUrl::pipeline_name));
        Ok(Self {
            name: name.unwrap_or_else(|| "revsync".to_owned()),
            source,
            sink: sink(&file, &options, environment)?,
            journal: Journal {
                index: options.journal.clone().or_else(|| file.journal.index.clone()),
                statements: options.statements.unwrap_or(file.journal.statements),
            },
            delivery: delivery(&file, &options)?,
            checkpoints: checkpoints(&file, &options)?,
            dead_letters: dead_letters(&file, &options, environment)?,
            http: Http { listen: options.http.or(file.http.listen), stuck_after: time("http.stuck_after", file.http.stuck_after)? },
            tables: checked(file.table)?,
        })
    }
}

/// The properties of the Kafka client: option over environment over file. No secret is an option, which everybody on the machine can see.
fn properties(of_file: &Properties, options: &Overrides, environment: Environment<'_>) -> Result<Properties, Error> {
    let text = environment("REVSYNC_PROPERTY").unwrap_or_default();
    let parsed: Result<Vec<Property>, String> = text.split(';').filter(|part| !part.is_empty()).map(str::parse).collect();
    let of_environment = parsed.map_err(|expected| Error::usage(format!("REVSYNC_PROPERTY: {expected}")))?;
    let is_shown = |property: &&Property| is_secret(&property.key) && !of_environment.contains(property);
    if let Some(Property { key, .. }) = options.properties.iter().find(is_shown) {
        let what = format!("--property {key}: a secret is no option, because everybody on the machine can read those");
        return Err(Error::usage(what).help("it comes from the environment (REVSYNC_PROPERTY) or the file"));
    }
    Ok(of_file.clone().with(&of_environment).with(&options.properties))
}

/// Why a table can have no such key.
pub(super) fn key_problem(columns: &[String]) -> Option<String> {
    if columns.iter().any(String::is_empty) {
        return Some("expected the names of columns, found an empty one".to_owned());
    }
    let (_, twice) = columns.iter().enumerate().find(|(at, column)| columns[..*at].contains(column))?;
    Some(format!("expected each column once, found {twice:?} twice"))
}

/// The key columns of tables, each table named once: a second name of it would be passed over, and rows of different keys would be one document.
fn keys(keys: &[TableKey]) -> Result<Vec<TableKey>, Error> {
    if let Some((TableKey { table, .. }, problem)) = keys.iter().find_map(|key| Some((key, key_problem(&key.columns)?))) {
        return Err(Error::usage(format!("--key {table}: {problem}")));
    }
    let named_twice = keys.iter().enumerate().find(|(at, key)| keys[..*at].iter().any(|earlier| earlier.table == key.table));
    match named_twice {
        None => Ok(keys.to_vec()),
        Some((_, TableKey { table, .. })) => {
            let what = format!("--key: expected the key of the table {table:?} once, with all its columns, found it twice");
            Err(Error::usage(what).help(format!("several columns stand behind one another: --key {table}=COLUMN,COLUMN")))
        }
    }
}

fn sink(file: &File, options: &Overrides, environment: Environment<'_>) -> Result<Sink, Error> {
    let section = &file.sink;
    let mut url: SinkUrl = options.sink.as_deref().or(section.url.as_deref()).unwrap_or(DEFAULT_SINK).parse()?;
    let request_timeout = time("delivery.request_timeout", options.request_timeout.unwrap_or(file.delivery.request_timeout))?;
    let SinkUrl::OpenSearch { url: address, credentials } = &mut url else { return Ok(Sink { url, opensearch: None }) };
    let opensearch = opensearch::Config {
        access: access(section, options, credentials.take(), environment)?,
        url: address.clone(),
        ca_file: options.ca_file.clone().or_else(|| section.ca_file.clone()),
        client_certificate_file: options.client_certificate_file.clone().or_else(|| section.client_certificate_file.clone()),
        gzip: options.gzip.unwrap_or(file.delivery.gzip),
        create_index: options.create_index.unwrap_or(section.create_index),
        gc_deletes: options.gc_deletes.unwrap_or(section.gc_deletes).to_string(),
        request_timeout,
    };
    Ok(Sink { url, opensearch: Some(opensearch) })
}

/// How requests are authorised. `in_url` are the user name and password that stood in the address.
fn access(
    section: &SinkSection,
    options: &Overrides,
    in_url: Option<(String, Secret)>,
    environment: Environment<'_>,
) -> Result<Access, Error> {
    let (user_in_url, password_in_url) = in_url.unzip();
    let username = options.username.clone().or_else(|| section.username.clone()).or(user_in_url);
    let aws = || Aws {
        region: options.aws_region.clone().or_else(|| section.aws.region.clone()),
        assume_role_arn: options.assume_role_arn.clone().or_else(|| section.aws.assume_role_arn.clone()),
    };
    let given = [
        ("REVSYNC_PASSWORD", environment("REVSYNC_PASSWORD").map(Secret::new).map(Password::Given)),
        ("--password-file", options.password_file.clone().map(Password::File)),
        ("--password-secret", options.password_secret.clone().map(Password::Stored)),
    ];
    let written = [
        ("password", section.password.clone().map(Password::Given)),
        ("password_file", section.password_file.clone().map(Password::File)),
        ("password_secret", section.password_secret.clone().map(Password::Stored)),
    ];
    let password = one_of(given)?.or(one_of(written)?).or(password_in_url.map(Password::Given));
    if matches!(&password, Some(Password::Stored(id)) if id.is_empty()) {
        return Err(Error::usage("sink: expected the ARN or the name of a secret as password_secret, found nothing"));
    }
    let has_user = username.is_some() || matches!(password, Some(Password::Stored(_)));
    match options.auth.or(section.auth).unwrap_or(if has_user { Auth::Basic } else { Auth::None }) {
        Auth::None => Ok(Access::Open),
        Auth::Aws => Ok(Access::Aws(aws())),
        Auth::Aoss => Ok(Access::Aoss(aws())),
        Auth::Basic if !has_user => Err(Error::usage("sink: auth is basic, but no user name is given").help("name it with --username")),
        Auth::Basic => {
            let password = password.ok_or_else(|| {
                Error::usage("sink: auth is basic, but no password is given").help(
                    "set REVSYNC_PASSWORD, or name a file that holds it with --password-file, or a secret of AWS Secrets Manager with \
                     --password-secret",
                )
            })?;
            Ok(Access::Basic { username, password })
        }
    }
}

/// The password, which one of these may give.
fn one_of(ways: [(&str, Option<Password>); 3]) -> Result<Option<Password>, Error> {
    let mut given = ways.into_iter().filter_map(|(name, password)| Some((name, password?)));
    match (given.next(), given.next()) {
        (Some((one, _)), Some((another, _))) => {
            Err(Error::usage(format!("sink: expected one password, found both {one} and {another}")).help("leave one of them out"))
        }
        (first, _) => Ok(first.map(|(_, password)| password)),
    }
}

/// A time that must not be 0; `key` is its key.
fn time(key: &str, Span(time): Span) -> Result<Duration, Error> {
    if time.is_zero() {
        return Err(Error::usage(format!("{key}: expected a time above 0, found 0s")));
    }
    Ok(time)
}

/// A shard may be read five times a second by all its readers together.
fn idle_time(Span(time): Span) -> Result<Duration, Error> {
    if time < SOONEST {
        let least = Span(SOONEST);
        return Err(Error::usage(format!("source.idle_time_between_reads: expected {least} or more, found {}", Span(time))));
    }
    Ok(time)
}

fn delivery(file: &File, options: &Overrides) -> Result<Delivery, Error> {
    let section = &file.delivery;
    let bytes = options.request_bytes.unwrap_or(section.request_bytes);
    if bytes.0 == 0 || bytes.0 > MOST_REQUEST_BYTES {
        return Err(Error::usage(format!("delivery.request_bytes: expected 1B to {}, found {bytes}", ByteSize(MOST_REQUEST_BYTES))));
    }
    let count = |key: &str, option: Option<u32>, section: u32, most: u32| match option.unwrap_or(section) {
        number if (1..=most).contains(&number) => Ok(number as usize),
        number => Err(Error::usage(format!("delivery.{key}: expected 1 to {most}, found {number}"))),
    };
    let percent = options.breaker_percent.unwrap_or(section.breaker_percent);
    if percent > 100 {
        return Err(Error::usage(format!("delivery.breaker_percent: expected 0 to 100, found {percent}")));
    }
    Ok(Delivery {
        request_bytes: usize::try_from(bytes.0).unwrap_or(usize::MAX),
        request_operations: count("request_operations", options.request_operations, section.request_operations, 100_000)?,
        requests_in_flight: count("requests_in_flight", options.requests_in_flight, section.requests_in_flight, 64)?,
        linger: options.linger.unwrap_or(section.linger).0,
        max_rate: PerSecond::new(options.max_rate.unwrap_or(section.max_rate)),
        give_up_after: time("delivery.give_up_after", options.give_up_after.unwrap_or(section.give_up_after))?,
        grace: options.grace.unwrap_or(section.grace).0,
        breaker: Thresholds { in_a_row: options.breaker_in_a_row.unwrap_or(section.breaker_in_a_row), percent },
    })
}

fn checkpoints(file: &File, options: &Overrides) -> Result<Checkpoints, Error> {
    let section = &file.checkpoints;
    let takeover_after = section.takeover_after;
    if !(Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&takeover_after.0) {
        return Err(Error::usage(format!("checkpoints.takeover_after: expected 1s to 1h, found {takeover_after}")));
    }
    let place = options.checkpoints.as_deref().unwrap_or(&section.url).parse()?;
    Ok(Checkpoints { place, takeover_after: takeover_after.0 })
}

fn dead_letters(file: &File, options: &Overrides, environment: Environment<'_>) -> Result<dead_letters::Config, Error> {
    let section = &file.dead_letters;
    let of_file = if section.properties.0.is_empty() { &file.source.properties } else { &section.properties };
    Ok(dead_letters::Config {
        place: options.dead_letters.as_deref().or(section.url.as_deref()).unwrap_or(DEFAULT_DEAD_LETTERS).parse()?,
        large: options.dead_letters_large.as_deref().or(section.large.as_deref()).map(dead_letters::large_bucket).transpose()?,
        properties: properties(of_file, options, environment)?,
        aws: section.aws.clone(),
    })
}
