//! Options that several commands share. Each can also come from the environment, as REVSYNC_ and its name.
//!
//! No password is ever an option: other processes can read a command line.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use clap::builder::BoolishValueParser;

use crate::codec::{Format, Rows, Versions};
use crate::config::{Auth, ByteSize, Listen, LogFormat, OnDataLoss, Overrides, Span, StartAt, TableKey};
use crate::kafka::Property;

/// A choice of the configuration as clap shows it.
macro_rules! value_enum {
    ($choice:ty, $($variant:ident => $name:literal, $help:literal;)*) => {
        impl clap::ValueEnum for $choice {
            fn value_variants<'a>() -> &'a [Self] {
                &[$(Self::$variant),*]
            }

            fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
                match self {
                    $(Self::$variant => Some(clap::builder::PossibleValue::new($name).help($help)),)*
                }
            }
        }
    };
}
value_enum!(Format,
    Auto => "auto", "Recognised by content";
    Qldb => "qldb", "The QLDB stream: control, block summary and revision details records in Ion";
    Lindorm => "lindorm", "Lindorm Streams: row changes in JSON, in the legacy format or as DebeziumV2";
    Debezium => "debezium", "Debezium: change events in JSON, with or without their schema";
);
value_enum!(Rows, Full => "full", "The whole row"; Cells => "cells", "Some columns of the row";);
value_enum!(Versions, Sound => "sound", "A position in the database's log"; Timestamp => "timestamp", "Also the time of the change";);

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// Read a configuration file (see `revsync config example`)
    #[arg(long, global = true, value_name = "FILE", env = "REVSYNC_CONFIG", hide_env_values = true)]
    pub config: Option<PathBuf>,
    /// Print the result as one JSON object
    #[arg(long, global = true, env = "REVSYNC_JSON", hide_env_values = true, value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Say nothing on standard error but errors
    #[arg(long, short, global = true, env = "REVSYNC_QUIET", hide_env_values = true, value_parser = BoolishValueParser::new())]
    pub quiet: bool,
    /// Say more on standard error; twice for everything
    #[arg(long, short, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet", env = "REVSYNC_VERBOSE", hide_env_values = true)]
    pub verbose: u8,
    /// The form of the log on standard error, text or json [default: text]
    #[arg(
        long,
        global = true,
        value_enum,
        hide_possible_values = true,
        value_name = "FORMAT",
        env = "REVSYNC_LOG_FORMAT",
        hide_env_values = true
    )]
    pub log_format: Option<LogFormat>,
}

/// Where records come from.
#[derive(Debug, Clone, Args)]
pub(crate) struct SourceOptions {
    /// Where records come from: kafka://HOST:PORT[,HOST:PORT]/TOPIC, kinesis://STREAM?region=…, or a captured stream: a file, a directory,
    /// s3://BUCKET[/PREFIX]?region=…, or - for standard input
    #[arg(value_name = "SOURCE", env = "REVSYNC_SOURCE", hide_env_values = true)]
    pub source: Option<String>,
    #[command(flatten)]
    pub client: ClientOptions,
    #[command(flatten)]
    pub records: RecordOptions,
}

/// How a stream is read to the end that it has now.
#[derive(Debug, Clone, Args)]
pub(crate) struct ScanOptions {
    /// How long a shard of Kinesis is left alone between two reads, 200ms at the least [default: 1s]
    #[arg(long, value_name = "TIME", env = "REVSYNC_IDLE_TIME_BETWEEN_READS", hide_env_values = true)]
    pub idle_time_between_reads: Option<Span>,
    /// How long a shard of Kinesis may come no nearer to its end before it is given up, as not proven complete [default: 1m]
    #[arg(long, value_name = "TIME", env = "REVSYNC_SHARD_TIMEOUT", hide_env_values = true)]
    pub shard_timeout: Option<Span>,
}

/// How Kafka is reached.
#[derive(Debug, Clone, Args)]
pub(crate) struct ClientOptions {
    /// A property of the Kafka client, as librdkafka names it: KEY=VALUE; may be repeated (in the environment: with ; between). No password: those
    /// come from the environment or the file
    #[arg(
        short = 'X',
        long = "property",
        value_name = "KEY=VALUE",
        value_delimiter = ';',
        env = "REVSYNC_PROPERTY",
        hide_env_values = true
    )]
    pub property: Vec<Property>,
}

/// Where the blocks of the journal go.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sink")]
pub(crate) struct JournalOptions {
    /// Write each block of the journal of a ledger of QLDB to this index: its transaction, its time, what it touched [default: none]
    #[arg(long, value_name = "INDEX", env = "REVSYNC_JOURNAL", hide_env_values = true)]
    pub journal: Option<String>,
    /// With the text of the statements, which may hold personal data
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = BoolishValueParser::new(),
        hide_possible_values = true, value_name = "BOOL", env = "REVSYNC_STATEMENTS", hide_env_values = true)]
    pub statements: Option<bool>,
}

/// What records hold.
#[derive(Debug, Clone, Args)]
pub(crate) struct RecordOptions {
    /// What the records hold, where it cannot be recognised by content
    #[arg(long, value_enum, value_name = "FORMAT", env = "REVSYNC_FORMAT", hide_env_values = true)]
    pub format: Option<Format>,
    /// The key columns of a table, where its records do not tell them: TABLE=COLUMN[,COLUMN]; may be repeated (in the environment: with ; between)
    #[arg(long, value_name = "TABLE=COLUMNS", value_delimiter = ';', env = "REVSYNC_KEY", hide_env_values = true)]
    pub key: Vec<TableKey>,
    /// What a put of a row carries, where no rule says it: the whole row, or some cells of it [default: full]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "full|cells", env = "REVSYNC_ROWS", hide_env_values = true)]
    pub rows: Option<Rows>,
    /// What may be the version of a row: only what is sound, or also a timestamp, under which changes can be lost [default: sound]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "sound|timestamp", env = "REVSYNC_VERSIONS", hide_env_values = true)]
    pub versions: Option<Versions>,
    /// Compute each revision's hash again and compare it
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = BoolishValueParser::new(),
        hide_possible_values = true, value_name = "BOOL", env = "REVSYNC_VERIFY_HASHES", hide_env_values = true)]
    pub verify_hashes: Option<bool>,
}

/// Where operations go, and how to get in there.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sink")]
pub(crate) struct SinkOptions {
    /// The index: local:FILE, http(s)://HOST:PORT (OpenSearch), bulk:FILE or bulk:- [default: local:revsync.db; run and kcl have none]
    #[arg(long, value_name = "SINK", env = "REVSYNC_TO", hide_env_values = true)]
    pub to: Option<String>,
    /// How requests to OpenSearch are authorised [default: basic with a user name, else none]
    #[arg(long, value_enum, value_name = "AUTH", env = "REVSYNC_AUTH", hide_env_values = true)]
    pub auth: Option<Auth>,
    /// The user name; the password comes from REVSYNC_PASSWORD, a file or a secret
    #[arg(long, value_name = "NAME", env = "REVSYNC_USERNAME", hide_env_values = true)]
    pub username: Option<String>,
    /// A file that holds the password
    #[arg(long, value_name = "FILE", env = "REVSYNC_PASSWORD_FILE", hide_env_values = true)]
    pub password_file: Option<PathBuf>,
    /// A secret of AWS Secrets Manager that holds it, by ARN or name: the password, or JSON with "password" and perhaps "username"
    #[arg(long, value_name = "SECRET", env = "REVSYNC_PASSWORD_SECRET", hide_env_values = true)]
    pub password_secret: Option<String>,
    /// The AWS region to sign for
    #[arg(long, value_name = "REGION", env = "REVSYNC_AWS_REGION", hide_env_values = true)]
    pub aws_region: Option<String>,
    /// An AWS role to assume before signing
    #[arg(long, value_name = "ARN", env = "REVSYNC_ASSUME_ROLE", hide_env_values = true)]
    pub assume_role: Option<String>,
    /// Certificates (PEM) to trust beside the system's own
    #[arg(long, value_name = "FILE", env = "REVSYNC_CA_FILE", hide_env_values = true)]
    pub ca_file: Option<PathBuf>,
    /// A client certificate with its key (PEM)
    #[arg(long, value_name = "FILE", env = "REVSYNC_CLIENT_CERTIFICATE_FILE", hide_env_values = true)]
    pub client_certificate_file: Option<PathBuf>,
}

/// How indices are created.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sink")]
pub(crate) struct CreationOptions {
    /// Create no indices; what belongs to a missing one waits until it exists
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = BoolishValueParser::new(),
        hide_possible_values = true, value_name = "BOOL", env = "REVSYNC_NO_CREATE_INDEX", hide_env_values = true)]
    pub no_create_index: Option<bool>,
    /// How long created indices remember the versions of deleted documents [default: 24h]
    #[arg(long, value_name = "TIME", env = "REVSYNC_GC_DELETES", hide_env_values = true)]
    pub gc_deletes: Option<Span>,
    #[command(flatten)]
    pub journal: JournalOptions,
}

/// How operations are sent.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Delivery")]
pub(crate) struct DeliveryOptions {
    /// The pipeline's name [default: the name of the source]
    #[arg(long, value_name = "NAME", env = "REVSYNC_NAME", hide_env_values = true)]
    pub name: Option<String>,
    /// Where dead letters go: file:PATH, sqs://HOST/ACCOUNT/QUEUE, s3://BUCKET[/PREFIX] or kafka://HOST:PORT/TOPIC [default:
    /// file:revsync-dead-letters.jsonl; run and kcl have none]
    #[arg(long, value_name = "PLACE", env = "REVSYNC_DEAD_LETTERS", hide_env_values = true)]
    pub dead_letters: Option<String>,
    /// Where those go that are larger than a message of the queue or topic may be: s3://BUCKET[/PREFIX]
    #[arg(long, value_name = "PLACE", env = "REVSYNC_DEAD_LETTERS_LARGE", hide_env_values = true)]
    pub dead_letters_large: Option<String>,
    /// The most bytes of one request before compression, at most 9MiB [default: 5MiB]
    #[arg(long, value_name = "SIZE", env = "REVSYNC_REQUEST_BYTES", hide_env_values = true)]
    pub request_bytes: Option<ByteSize>,
    /// The most operations of one request [default: 2000]
    #[arg(long, value_name = "NUMBER", env = "REVSYNC_REQUEST_OPERATIONS", hide_env_values = true)]
    pub request_operations: Option<u32>,
    /// The most requests at once [default: 4]
    #[arg(long, value_name = "NUMBER", env = "REVSYNC_REQUESTS_IN_FLIGHT", hide_env_values = true)]
    pub requests_in_flight: Option<u32>,
    /// How long an operation waits for others to fill its request [default: 200ms]
    #[arg(long, value_name = "TIME", env = "REVSYNC_LINGER", hide_env_values = true)]
    pub linger: Option<Span>,
    /// The most operations that are sent in a second, retries among them: spares a cluster that others use too; 0 sets no limit [default: 0]
    #[arg(long, value_name = "NUMBER", env = "REVSYNC_MAX_RATE", hide_env_values = true)]
    pub max_rate: Option<u32>,
    /// Send requests uncompressed
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = BoolishValueParser::new(),
        hide_possible_values = true, value_name = "BOOL", env = "REVSYNC_NO_GZIP", hide_env_values = true)]
    pub no_gzip: Option<bool>,
    /// How long to go on without any progress; run and kcl never give up [default: 5m]
    #[arg(long, value_name = "TIME", env = "REVSYNC_GIVE_UP_AFTER", hide_env_values = true)]
    pub give_up_after: Option<Span>,
    /// How long one request may take [default: 30s]
    #[arg(long, value_name = "TIME", env = "REVSYNC_REQUEST_TIMEOUT", hide_env_values = true)]
    pub request_timeout: Option<Span>,
    /// How many documents in a row an index may refuse before it is blocked; 0 never blocks it [default: 100]
    #[arg(long, value_name = "NUMBER", env = "REVSYNC_BREAKER_IN_A_ROW", hide_env_values = true)]
    pub breaker_in_a_row: Option<u32>,
    /// How many percent of its last 10,000 answers may be refusals before it is blocked; 0 never blocks it [default: 5]
    #[arg(long, value_name = "PERCENT", env = "REVSYNC_BREAKER_PERCENT", hide_env_values = true)]
    pub breaker_percent: Option<u32>,
}

/// How a stream is followed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Source")]
pub(crate) struct FollowOptions {
    /// Where to begin in a stream of which there is no checkpoint: earliest, latest, or a time such as 2025-07-31T00:00:00Z [default: earliest]
    #[arg(long, value_name = "START", env = "REVSYNC_START", hide_env_values = true)]
    pub start: Option<StartAt>,
    /// The consumer group on Kafka [default: the pipeline's name]
    #[arg(long, value_name = "GROUP", env = "REVSYNC_GROUP", hide_env_values = true)]
    pub group: Option<String>,
    /// What to do where records were lost before they could be read [default: continue]
    #[arg(long, value_enum, value_name = "POLICY", env = "REVSYNC_ON_DATA_LOSS", hide_env_values = true)]
    pub on_data_loss: Option<OnDataLoss>,
}

/// Where it is saved how far a pipeline is.
#[derive(Debug, Clone, Args)]
pub(crate) struct CheckpointOptions {
    /// Where checkpoints are: sink, the sink itself, or file:PATH [default: sink]
    #[arg(long, value_name = "PLACE", env = "REVSYNC_CHECKPOINTS", hide_env_values = true)]
    pub checkpoints: Option<String>,
}

/// How a source is read that is files.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoadOptions {
    /// Reduce the source to the newest revision of each document before anything is sent: it is read twice, and each document is written once
    #[arg(long, env = "REVSYNC_FOLD", hide_env_values = true, value_parser = BoolishValueParser::new())]
    pub fold: bool,
    /// Go on where an earlier run with --resume was interrupted, file and byte; how far it is, is saved about once a second with the checkpoints
    #[arg(long, env = "REVSYNC_RESUME", hide_env_values = true, value_parser = BoolishValueParser::new())]
    pub resume: bool,
}

/// How a pipeline that lives on ends.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Delivery")]
pub(crate) struct StopOptions {
    /// How long to go on delivering what was read after a stop signal [default: 20s]
    #[arg(long, value_name = "TIME", env = "REVSYNC_GRACE", hide_env_values = true)]
    pub grace: Option<Span>,
}

/// Where `run` answers, and is asked, where nothing else is said.
pub(crate) const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// What is answered over HTTP by a pipeline that lives on.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "HTTP")]
pub(crate) struct HttpOptions {
    /// Where to answer: an address with a port, of which 0 is any free one, or none. Whoever reaches it may ask: keep it private
    /// [default: 127.0.0.1:8080; kcl: none]
    #[arg(long, value_name = "ADDRESS:PORT", env = "REVSYNC_HTTP", hide_env_values = true)]
    pub http: Option<Listen>,
}

impl Overriding for HttpOptions {
    fn put(&self, over: &mut Overrides) {
        over.http = self.http;
    }
}

/// Options that say something about the configuration.
pub(crate) trait Overriding {
    /// Puts what was given over what is there.
    fn put(&self, over: &mut Overrides);
}

/// Gathers what several groups of options say.
pub(crate) fn gather(groups: &[&dyn Overriding]) -> Overrides {
    let mut over = Overrides::default();
    for group in groups {
        group.put(&mut over);
    }
    over
}

impl Overriding for SourceOptions {
    fn put(&self, over: &mut Overrides) {
        over.source = self.source.clone();
        self.client.put(over);
        self.records.put(over);
    }
}

impl Overriding for ScanOptions {
    fn put(&self, over: &mut Overrides) {
        over.idle_time_between_reads = self.idle_time_between_reads;
        over.shard_timeout = self.shard_timeout;
    }
}

impl Overriding for ClientOptions {
    fn put(&self, over: &mut Overrides) {
        over.properties = self.property.clone();
    }
}

impl Overriding for RecordOptions {
    fn put(&self, over: &mut Overrides) {
        over.format = self.format;
        over.keys = self.key.clone();
        over.rows = self.rows;
        over.versions = self.versions;
        over.verify_hashes = self.verify_hashes;
    }
}

impl Overriding for SinkOptions {
    fn put(&self, over: &mut Overrides) {
        over.sink = self.to.clone();
        over.auth = self.auth;
        over.username = self.username.clone();
        over.password_file = self.password_file.clone();
        over.password_secret = self.password_secret.clone();
        over.aws_region = self.aws_region.clone();
        over.assume_role_arn = self.assume_role.clone();
        over.ca_file = self.ca_file.clone();
        over.client_certificate_file = self.client_certificate_file.clone();
    }
}

impl Overriding for JournalOptions {
    fn put(&self, over: &mut Overrides) {
        over.journal = self.journal.clone();
        over.statements = self.statements;
    }
}

impl Overriding for CreationOptions {
    fn put(&self, over: &mut Overrides) {
        over.create_index = self.no_create_index.map(|no| !no);
        over.gc_deletes = self.gc_deletes;
        self.journal.put(over);
    }
}

impl Overriding for FollowOptions {
    fn put(&self, over: &mut Overrides) {
        over.start = self.start;
        over.group = self.group.clone();
        over.on_data_loss = self.on_data_loss;
    }
}

impl Overriding for CheckpointOptions {
    fn put(&self, over: &mut Overrides) {
        over.checkpoints = self.checkpoints.clone();
    }
}

impl Overriding for StopOptions {
    fn put(&self, over: &mut Overrides) {
        over.grace = self.grace;
    }
}

impl Overriding for DeliveryOptions {
    fn put(&self, over: &mut Overrides) {
        over.name = self.name.clone();
        over.dead_letters = self.dead_letters.clone();
        over.dead_letters_large = self.dead_letters_large.clone();
        over.request_bytes = self.request_bytes;
        over.request_operations = self.request_operations;
        over.requests_in_flight = self.requests_in_flight;
        over.linger = self.linger;
        over.max_rate = self.max_rate;
        over.gzip = self.no_gzip.map(|no| !no);
        over.give_up_after = self.give_up_after;
        over.request_timeout = self.request_timeout;
        over.breaker_in_a_row = self.breaker_in_a_row;
        over.breaker_percent = self.breaker_percent;
    }
}
