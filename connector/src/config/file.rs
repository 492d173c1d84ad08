//! The configuration file as plain data: one struct per table of the file, every key documented with its default.
//!
//! Says what was written, not what it comes to: that is [`Settings`](super::Settings). Only keys that mean something today exist; any other
//! is refused.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::units::{ByteSize, Listen, Span, StartAt};
use crate::aws::Aws;
use crate::codec::ion_json::{Decimals, NonFinite};
use crate::codec::{ColumnType, Format, Rows, Versions};
use crate::kafka::Properties;
use crate::plan::breaker::Thresholds;
use crate::plan::mapping::{Deletes, LongIds, Mode, Redactions};
use crate::sink::opensearch::config::Secret;

/// The configuration of one pipeline. A file with only what differs from the defaults is normal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct File {
    /// The pipeline's name, for messages and metrics. Default: the name of the source.
    pub name: Option<String>,
    /// The form of the log on standard error: `text`, or `json` with one object for each line. Default: `text`.
    pub log_format: LogFormat,
    /// Where revisions come from.
    pub source: SourceSection,
    /// Where documents go.
    pub sink: SinkSection,
    /// The index of the journal: what happened in each transaction of a ledger of QLDB.
    pub journal: JournalSection,
    /// How operations are sent.
    pub delivery: DeliverySection,
    /// Where `run` saves how far it is.
    pub checkpoints: CheckpointsSection,
    /// Where records and operations go that can never succeed.
    pub dead_letters: DeadLettersSection,
    /// What a pipeline that lives on answers over HTTP: `/` for people, `/live`, `/ready`, `/status` and `/metrics`.
    pub http: HttpSection,
    /// Rules for tables, one `[[table]]` each; the first that matches a table wins. Without any, every table goes to the index
    /// named after it in lower snake case; with some, a table that no rule names is skipped as `unmapped`. Default: no rules.
    pub table: Vec<TableRule>,
}

/// Where revisions come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SourceSection {
    /// A captured stream: a file, a directory, "-" for standard input, or `s3://BUCKET[/PREFIX]`, an object or a folder of Amazon S3;
    /// `kinesis://STREAM`, an Amazon Kinesis data stream by its name or ARN; `?region=…&endpoint=…` may stand behind both; or `kafka://HOST:PORT[,HOST:PORT]/TOPIC[,TOPIC]`, topics of Kafka by their names or by a
    /// pattern that begins with ^. Default: the argument SOURCE.
    pub url: Option<String>,
    /// What the records hold: `qldb`, `lindorm`, `debezium`, or `auto`, recognised by content. Default: `auto`.
    pub format: Format,
    /// What may be the version of a row of Debezium: `sound`, a position in the database's log that never goes down, or also a `timestamp`, which is
    /// weaker: of two changes of a row in one millisecond the one that comes later wins, and a clock that is set back loses changes.
    /// Default: `sound`, a source that tells none is refused.
    pub versions: Versions,
    /// Whether each revision's hash is computed again and compared; a revision that does not match becomes a dead letter. Default: `false`.
    pub verify_hashes: bool,
    /// How long the source keeps its records, and so how late one can be delivered again: `sweep` removes no tombstone that is younger.
    /// Default: `168h`.
    pub retention: Span,
    /// Where `run` begins in a stream of which it has no checkpoint: `earliest`, with all that the stream still holds; `latest`, with what is
    /// written from now on; or a time such as `2025-07-31T00:00:00Z`. Default: `earliest`.
    pub start: StartAt,
    /// What `run` does where records were lost before it could read them, because the stream does not keep them any longer: `continue` with
    /// what there is, or `stop`. It is said and counted either way. Default: `continue`.
    pub on_data_loss: OnDataLoss,
    /// How long a shard of Kinesis is left alone between two reads of a scan (`sync`, `query`, `verify`, `explain`, `mapping`), 200ms at the least:
    /// of the five reads a second that a shard allows, the rest is left to its other readers. `run` goes by what it finds. Default: `1s`.
    pub idle_time_between_reads: Span,
    /// How long a shard of Kinesis may come no nearer to its end before a scan gives it up: then it is said that the scan is not proven
    /// complete, and the exit code is 1; and how long it may not answer before the scan fails. Default: `1m`.
    pub shard_timeout: Span,
    /// The consumer group of `run` on Kafka. Default: the pipeline's name.
    pub group: Option<String>,
    /// Properties of the Kafka client, as librdkafka names them, such as `"security.protocol" = "SASL_SSL"`; a password is best given as
    /// `${NAME}`. Default: none.
    pub properties: Properties,
    /// AWS, for a stream of Kinesis, and for IAM at Amazon MSK.
    pub aws: Aws,
}

impl Default for SourceSection {
    fn default() -> Self {
        Self {
            url: None,
            format: Format::default(),
            versions: Versions::default(),
            verify_hashes: false,
            retention: Span(Duration::from_secs(168 * 3600)),
            start: StartAt::default(),
            on_data_loss: OnDataLoss::default(),
            idle_time_between_reads: Span(Duration::from_secs(1)),
            shard_timeout: Span(Duration::from_secs(60)),
            group: None,
            properties: Properties::default(),
            aws: Aws::default(),
        }
    }
}

/// What is done where records were lost before they could be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum OnDataLoss {
    /// Go on with what there is
    #[default]
    Continue,
    /// Stop
    Stop,
}

/// Where documents go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SinkSection {
    /// The index: `local:FILE`, `http(s)://HOST:PORT` (OpenSearch), `bulk:FILE` or `bulk:-`. Default: `local:revsync.db`.
    pub url: Option<String>,
    /// How requests to OpenSearch are authorised. Default: `basic` where a user name is given, else `none`.
    pub auth: Option<Auth>,
    /// The user name for `basic`. Default: the user name in the URL, or that in the secret of `password_secret`, if any.
    pub username: Option<String>,
    /// The password for `basic`; best given as `${NAME}`. REVSYNC_PASSWORD comes before it. Default: that in the URL, if any.
    pub password: Option<Secret>,
    /// A file that holds the password and nothing else, in place of `password`; read again when the password is refused. Default: none.
    pub password_file: Option<PathBuf>,
    /// The ARN or the name of a secret in AWS Secrets Manager, in place of `password`: its text is the password, or JSON with `password` and
    /// perhaps `username`, as AWS rotates it; read again when the password is refused. Region: that of the ARN, else of the AWS environment,
    /// which gives the credentials too; `[sink.aws]` is for signing only. Default: none.
    pub password_secret: Option<String>,
    /// Certificates (PEM) to trust beside the system's own. Default: none.
    pub ca_file: Option<PathBuf>,
    /// A client certificate with its key (PEM). Default: none.
    pub client_certificate_file: Option<PathBuf>,
    /// Whether missing indices are created; if not, a missing index blocks its documents until it exists. Default: `true`.
    pub create_index: bool,
    /// How long created indices remember the versions of deleted documents, as long as their node runs; where an index that exists
    /// remembers them for less, that is said. Default: `24h`.
    pub gc_deletes: Span,
    /// AWS, for `auth = "aws"` and `auth = "aoss"`.
    pub aws: Aws,
}

impl Default for SinkSection {
    fn default() -> Self {
        Self {
            url: None,
            auth: None,
            username: None,
            password: None,
            password_file: None,
            password_secret: None,
            ca_file: None,
            client_certificate_file: None,
            create_index: true,
            gc_deletes: Span(Duration::from_secs(24 * 3600)),
            aws: Aws::default(),
        }
    }
}

/// How requests to OpenSearch are authorised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// Not at all
    None,
    /// By user name and password
    Basic,
    /// By AWS signature version 4, service es (Amazon OpenSearch Service)
    Aws,
    /// By AWS signature version 4, service aoss (OpenSearch Serverless, experimental)
    Aoss,
}

/// The index of the journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JournalSection {
    /// The index or alias to which each block of the journal is written: its transaction, its time, the documents and tables that it touched, the
    /// hashes of its revisions. Default: none, blocks are skipped and counted (`block_summary`).
    pub index: Option<String>,
    /// Whether the text of the statements is written too. A statement may hold personal data as literals, also such that was redacted since.
    /// Default: `false`.
    pub statements: bool,
}

/// How operations are sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DeliverySection {
    /// The most bytes of one bulk request before compression, at most `9MiB`. Default: `5MiB`.
    pub request_bytes: ByteSize,
    /// The most operations of one bulk request. Default: `2000`.
    pub request_operations: u32,
    /// The most requests at once; how many are used adapts below it. Default: `4`.
    pub requests_in_flight: u32,
    /// How long an operation waits for others to fill its request. Default: `200ms`.
    pub linger: Span,
    /// The most operations that are sent in a second, those that are sent again among them; spares a cluster that others use too. A request has no
    /// more then than one second takes. `0` sets no limit. Default: `0`.
    pub max_rate: u32,
    /// Whether requests are compressed. Default: `true`.
    pub gzip: bool,
    /// How long to go on without any progress before giving up with exit code 2; nothing is lost then. Default: `5m`.
    pub give_up_after: Span,
    /// How long one request may take. Default: `30s`.
    pub request_timeout: Span,
    /// How long `run` and `kcl` may take to deliver what they have read when they are told to stop; what is not done then is read again by
    /// whoever goes on. Less than what the container is given to stop. Default: `20s`.
    pub grace: Span,
    /// How many documents in a row an index may refuse before it is blocked and no more of them become dead letters; `0` never
    /// blocks it. It is tried again every half minute at the latest. Default: `100`.
    pub breaker_in_a_row: u32,
    /// The same, as a share of the index's last 10,000 answers in percent; `0` never blocks it. Default: `5`.
    pub breaker_percent: u32,
}

impl Default for DeliverySection {
    fn default() -> Self {
        Self {
            request_bytes: ByteSize(5 << 20),
            request_operations: 2000,
            requests_in_flight: 4,
            linger: Span(Duration::from_millis(200)),
            max_rate: 0,
            gzip: true,
            give_up_after: Span(Duration::from_secs(5 * 60)),
            request_timeout: Span(Duration::from_secs(30)),
            grace: Span(Duration::from_secs(20)),
            breaker_in_a_row: Thresholds::default().in_a_row,
            breaker_percent: Thresholds::default().percent,
        }
    }
}

/// Where `run` saves how far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointsSection {
    /// The place: `sink`, the sink itself (the index `revsync-checkpoints` of OpenSearch, or a table of the local index); or `file:PATH`. A
    /// sink `bulk:` and OpenSearch Serverless have no place for them. Default: `sink`.
    pub url: String,
    /// After how much silence of the worker that reads a shard another may take over, `1s` to `1h`; each says that it is alive three times as
    /// often. Default: `30s`.
    pub takeover_after: Span,
}

impl Default for CheckpointsSection {
    fn default() -> Self {
        Self { url: "sink".to_owned(), takeover_after: Span(Duration::from_secs(30)) }
    }
}

/// Where records and operations go that can never succeed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DeadLettersSection {
    /// The place, which will hold content of documents: `file:PATH`, appended to; `sqs://HOST/ACCOUNT/QUEUE`, an SQS queue's URL with sqs in
    /// place of https; `s3://BUCKET[/PREFIX]`, an object for each; or `kafka://HOST:PORT[,HOST:PORT]/TOPIC`, a message for each. Behind a queue
    /// and a bucket, `?region=…&endpoint=…` may stand.
    /// Default: `file:revsync-dead-letters.jsonl`.
    pub url: Option<String>,
    /// Where those go that are larger than a message of the queue or topic may be: `s3://BUCKET[/PREFIX]`; a queue needs it. Default: none.
    pub large: Option<String>,
    /// Properties of the Kafka client of a topic, as for the source. Default: those of the source.
    pub properties: Properties,
    /// AWS, for a queue and for buckets.
    pub aws: Aws,
}

/// What a pipeline that lives on answers over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HttpSection {
    /// The address and the port, of which 0 is any free one; `none` answers nothing. Whoever reaches it may ask: keep it private.
    /// Default: `127.0.0.1:8080` for `run`, `none` for `kcl`.
    pub listen: Option<Listen>,
    /// How long nothing may be settled, while there is something to settle and everything can be reached, before `/live` says that the
    /// process is stuck and has to be started anew. Default: `10m`.
    pub stuck_after: Span,
}

impl Default for HttpSection {
    fn default() -> Self {
        Self { listen: None, stuck_after: Span(Duration::from_secs(10 * 60)) }
    }
}

/// The form of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// One JSON object for each line
    Json,
}

/// What becomes of one table, or of all tables that a pattern names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableRule {
    /// The table: its name, or a pattern in which `*` stands for any characters. Required.
    pub name: String,
    /// What the index holds of the table: `latest`, the newest revision of each document; or `history`, every revision as a document of its own.
    /// A table may have a rule of each, and goes to both indices then. Default: `latest`.
    #[serde(default)]
    pub mode: Mode,
    /// The index or alias to write to; `{table}` stands for the table's name in lower snake case. Default: `{table}`, and `{table}_history` for
    /// `mode = "history"`.
    #[serde(default)]
    pub index: Option<String>,
    /// The key columns, in their order, where the records do not tell them: what a document is named after. Of several the id is their values with
    /// a comma between them. Default: those of the message's key (Debezium); Lindorm's legacy format has none.
    #[serde(default)]
    pub key: Vec<String>,
    /// What a put of a row carries: `full`, the whole row; or `cells`, some of its columns, each of which is merged into the document by its own
    /// version (Lindorm's legacy format). A row of which everything was deleted then leaves a tombstone, whatever `deletes` says; the index is
    /// one that nothing but merges has written. Default: `full`.
    #[serde(default)]
    pub rows: Option<Rows>,
    /// What columns become, by their names, such as `{ "f:stock" = "long" }`: `string`, `long`, `double`, `decimal`, `boolean`, `timestamp-ms`,
    /// `base64` or `json`. Default: none, values are as the source writes them.
    #[serde(default)]
    pub types: BTreeMap<String, ColumnType>,
    /// The only fields to keep, as paths such as `Owners.PrimaryOwner.PersonId`. Default: all.
    #[serde(default)]
    pub fields: Option<Vec<String>>,
    /// Fields to leave out, as paths; taken from what `fields` keeps. Default: none.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// A condition in SQL for the documents to have in the index, such as `State <> 'XX' AND Owners.PrimaryOwner.PersonId IS NOT NULL`,
    /// evaluated before `fields` and `exclude`. A revision that does not match is a delete at its own version, because an earlier one may have
    /// matched. It knows `=` `<>` `<` `<=` `>` `>=`, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL and IS MISSING. Numbers are compared exactly,
    /// strings by code points (timestamps are strings in ISO form). What is null, missing or of another type matches neither a comparison
    /// nor its NOT; of a list any element counts. Default: none, all documents.
    #[serde(default, rename = "where")]
    pub filter: Option<String>,
    /// The routing value, in which `{id}` and `{table}` stand for the document's id and the table's name. Default: none, that is, the id.
    #[serde(default)]
    pub routing: Option<String>,
    /// What a delete of the source, or a revision that does not match `where`, does: `delete` the document; write a `tombstone` in its
    /// place, which readers do not see and which holds until `sweep` removes it; or `keep` the document (counted as skipped, `filtered`).
    /// OpenSearch forgets a plain delete after `gc_deletes` and when a node restarts, and a late older revision then brings the document
    /// back. Default: `delete`.
    #[serde(default)]
    pub deletes: Deletes,
    /// What the redaction of a revision of QLDB does to an index of the newest revisions: `skip` does nothing, as only revisions are redacted that
    /// newer ones have replaced; `erase` removes the content that it covers, should the index hold it. A history never keeps what was redacted.
    /// Default: `skip`.
    #[serde(default)]
    pub redactions: Redactions,
    /// A field for the revision's metadata: table, ids, version, transaction, block. Default: none, off.
    #[serde(default)]
    pub metadata_field: Option<String>,
    /// What becomes of ids of more than 512 bytes: `reject` makes a dead letter, `hash` writes under a hash of the id. Default: `reject`.
    #[serde(default)]
    pub long_ids: LongIds,
    /// How decimals are written: as a `number` with all its digits, or as a `string` (for `where` too). Default: `number`.
    #[serde(default)]
    pub decimals: Decimals,
    /// What NaN and the infinities, which JSON lacks, become: `null`, a `string`, or the whole document a `dead_letter`. Default: `null`.
    #[serde(default)]
    pub non_finite: NonFinite,
    /// A file with the index mapping (JSON, as `revsync mapping` prints it) for an index that is created. Default: none, dynamic mapping.
    #[serde(default)]
    pub mapping: Option<PathBuf>,
}
