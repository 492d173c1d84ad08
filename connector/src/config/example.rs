//! The commented default file: every key with its documentation and its default, made from the structs.
//!
//! Never written by hand: a key that is added to a struct with its documentation appears here by itself.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::file::{Auth, DeadLettersSection, File, HttpSection, JournalSection, SinkSection, SourceSection, TableRule};
use super::schema;
use crate::aws::Aws;
use crate::codec::{ColumnType, Rows};
use crate::kafka::Properties;
use crate::plan::mapping::Deletes;
use crate::sink::opensearch::config::Secret;

const HEAD: &str = "\
# The configuration of one revsync pipeline. Every key below stands with its default, commented out;
# keys without a default, and the rule at the end, show an example. An option on the command line, or
# its variable REVSYNC_…, comes before the file. ${NAME} in a text is replaced by the environment
# variable NAME; $${ writes the two characters themselves. Sizes are written as \"5MiB\", times as
# \"200ms\", \"30s\", \"24h\". Paths are relative to the working directory.
";

/// The width at which documentation is wrapped.
const WIDTH: usize = 100;

/// The text of `config example`.
pub fn text() -> String {
    let schema = schema::root();
    let values = toml::to_string(&sample()).unwrap_or_default();
    let mut text = HEAD.to_owned();
    let mut path = String::new();
    text.push('\n');
    for line in values.lines() {
        if let Some(header) = line.strip_prefix('[') {
            path = header.trim_matches(['[', ']']).to_owned();
            let commented = if path.starts_with("table") { "#" } else { "" };
            let (above, name) = path.rsplit_once('.').unwrap_or(("", &path));
            comment(&mut text, documentation(&schema, above, name));
            text.push_str(&format!("{commented}{line}\n\n"));
        } else if let Some((key, _)) = line.split_once(" = ") {
            let documentation = documentation(&schema, &path, key);
            if !documentation.is_empty() {
                comment(&mut text, documentation);
            }
            text.push_str(&format!("#{line}\n\n"));
        }
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// A key's documentation.
fn documentation<'a>(schema: &'a Value, path: &str, key: &str) -> &'a str {
    schema::table(schema, path)["properties"][key]["description"].as_str().unwrap_or_default()
}

fn comment(text: &mut String, documentation: &str) {
    let words = documentation.split_whitespace();
    let mut line = "#".to_owned();
    for word in words {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = "#".to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}

/// Every key with a value: the default where there is one, else an example.
fn sample() -> File {
    let defaults = File::default();
    File {
        name: Some("ledger".to_owned()),
        log_format: defaults.log_format,
        source: SourceSection {
            url: Some("kinesis://ledger?region=eu-west-1".to_owned()),
            group: Some("search-index".to_owned()),
            properties: Properties(BTreeMap::from([
                ("sasl.mechanisms".to_owned(), "SCRAM-SHA-512".to_owned()),
                ("sasl.password".to_owned(), "${KAFKA_PASSWORD}".to_owned()),
                ("sasl.username".to_owned(), "revsync".to_owned()),
                ("security.protocol".to_owned(), "SASL_SSL".to_owned()),
            ])),
            aws: Aws {
                region: Some("eu-west-1".to_owned()),
                assume_role_arn: Some("arn:aws:iam::123456789012:role/stream-reader".to_owned()),
            },
            ..defaults.source
        },
        sink: SinkSection {
            url: Some("https://search.example.com:9200".to_owned()),
            auth: Some(Auth::Basic),
            username: Some("revsync".to_owned()),
            password: Some(Secret::new("")),
            password_file: Some(PathBuf::from("/run/secrets/search-password")),
            password_secret: Some("arn:aws:secretsmanager:eu-west-1:123456789012:secret:search-AbCdEf".to_owned()),
            ca_file: Some(PathBuf::from("ca.pem")),
            client_certificate_file: Some(PathBuf::from("client.pem")),
            aws: Aws {
                region: Some("eu-west-1".to_owned()),
                assume_role_arn: Some("arn:aws:iam::123456789012:role/search-writer".to_owned()),
            },
            ..defaults.sink
        },
        journal: JournalSection { index: Some("journal".to_owned()), ..defaults.journal },
        delivery: defaults.delivery,
        checkpoints: defaults.checkpoints,
        dead_letters: DeadLettersSection {
            url: Some("sqs://sqs.eu-west-1.amazonaws.com/123456789012/ledger-dead-letters".to_owned()),
            large: Some("s3://example-dead-letters/ledger".to_owned()),
            properties: Properties(BTreeMap::from([("security.protocol".to_owned(), "SASL_SSL".to_owned())])),
            aws: Aws {
                region: Some("eu-west-1".to_owned()),
                assume_role_arn: Some("arn:aws:iam::123456789012:role/dead-letters".to_owned()),
            },
        },
        http: HttpSection { listen: "127.0.0.1:8080".parse().ok(), ..defaults.http },
        table: vec![TableRule {
            name: "VehicleRegistration".to_owned(),
            index: Some("vehicle_registration".to_owned()),
            key: vec!["pk".to_owned()],
            rows: Some(Rows::Full),
            types: BTreeMap::from([("stock".to_owned(), ColumnType::Long)]),
            fields: Some(vec!["VIN".to_owned(), "State".to_owned(), "Owners.PrimaryOwner.PersonId".to_owned()]),
            exclude: Vec::new(),
            filter: Some("State <> 'XX'".to_owned()),
            routing: Some("{table}".to_owned()),
            deletes: Deletes::Tombstone,
            metadata_field: Some("_ledger".to_owned()),
            mapping: Some(PathBuf::from("vehicle_registration.json")),
            ..TableRule::default()
        }],
    }
}
