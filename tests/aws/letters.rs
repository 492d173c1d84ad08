//! Places for dead letters of every kind, each a test's own, and what is in them.

use std::path::PathBuf;

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use bytes::Bytes;
use revsync::aws::Aws;
use revsync::kafka::Properties;
use revsync::record::{Fault, Origin, Position, SequenceNumber};
use revsync::store::dead_letters::{Config, DeadLetter, DeadLetters, Entry, FORMAT_VERSION, identify, large_bucket};
use serde_json::{Value, json};

use crate::aws::{Emulator, REGION, emulator};

/// A place for dead letters.
pub(crate) struct Home {
    /// What it is, for messages of failed assertions.
    pub(crate) kind: &'static str,
    pub(crate) config: Config,
    at: At,
    _folder: tempfile::TempDir,
}

enum At {
    File(PathBuf),
    Queue(&'static Emulator, String),
    Bucket(&'static Emulator, String),
}

/// A place of every kind; only a file, where the emulator is left out on purpose.
pub(crate) fn every_kind() -> Vec<Home> {
    let mut homes = vec![file()];
    homes.extend(emulator().into_iter().flat_map(|emulator| {
        [queue(emulator, json!({})), queue(emulator, json!({ "FifoQueue": "true", "MaximumMessageSize": "16384" })), bucket(emulator)]
    }));
    homes
}

fn file() -> Home {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("letters.jsonl");
    Home { kind: "file", config: config(&format!("file:{}", path.display()), None), at: At::File(path), _folder: folder }
}

/// A queue with these attributes, and a bucket for what is large.
pub(crate) fn queue(emulator: &'static Emulator, attributes: Value) -> Home {
    let (kind, end) = if attributes["FifoQueue"].is_string() { ("FIFO queue", ".fifo") } else { ("queue", "") };
    let name = emulator.queue(&format!("{}{end}", emulator.name("letters")), attributes);
    let large = emulator.bucket_place(&emulator.bucket(&emulator.name("large"))).replace('?', "/large/of a queue?");
    let config = config(&emulator.queue_place(&name), Some(&large));
    Home { kind, config, at: At::Queue(emulator, name), _folder: tempfile::tempdir().unwrap() }
}

pub(crate) fn bucket(emulator: &'static Emulator) -> Home {
    let name = emulator.bucket(&emulator.name("letters"));
    let place = emulator.bucket_place(&name).replace('?', "/ledger?");
    Home { kind: "bucket", config: config(&place, None), at: At::Bucket(emulator, name), _folder: tempfile::tempdir().unwrap() }
}

/// What is configured for a place; a queue of a scripted service needs a region only.
pub(crate) fn config(place: &str, large: Option<&str>) -> Config {
    let aws = Aws { region: Some(REGION.to_owned()), assume_role_arn: None };
    Config { place: place.parse().unwrap(), large: large.map(|large| large_bucket(large).unwrap()), properties: Properties::default(), aws }
}

pub(crate) fn credentials() -> SharedCredentialsProvider {
    SharedCredentialsProvider::new(Credentials::new("test", "test", None, None, "test"))
}

impl Home {
    pub(crate) async fn open(&self) -> DeadLetters {
        DeadLetters::open_with(&self.config, credentials()).await.unwrap()
    }

    /// Puts things there that are no letters; gives how many.
    pub(crate) fn damage(&self) -> usize {
        let texts = ["no letter", r#"{"v":99,"payload":"hunter2"}"#];
        match &self.at {
            At::File(path) => {
                let before = std::fs::read_to_string(path).unwrap_or_default();
                std::fs::write(path, format!("{before}{}\n", texts.join("\n"))).unwrap();
            }
            At::Queue(emulator, name) if name.ends_with(".fifo") => {
                for text in texts {
                    let url = format!("{}/{}/{name}", emulator.url(), crate::aws::ACCOUNT);
                    let message = json!({ "QueueUrl": url, "MessageBody": text, "MessageGroupId": text.len().to_string(), "MessageDeduplicationId": text.len().to_string() });
                    emulator.sqs("SendMessage", message);
                }
            }
            At::Queue(emulator, name) => texts.iter().for_each(|text| emulator.send(name, text)),
            At::Bucket(emulator, name) => {
                texts.iter().enumerate().for_each(|(at, text)| emulator.put(name, &format!("ledger/{at}.json"), text.as_bytes()));
                // Neither is what stands elsewhere, or is called otherwise.
                emulator.put(name, "ledger/deeper/a.json", b"no letter");
                emulator.put(name, "ledger/notes.txt", b"no letter");
            }
        }
        texts.len()
    }

    /// Copies of letters that lie there, as one who does not know revsync counts them.
    pub(crate) fn copies(&self) -> usize {
        let is_letter = |text: &str| serde_json::from_str::<Value>(text).is_ok_and(|value| value["v"] == FORMAT_VERSION);
        match &self.at {
            At::File(path) => std::fs::read_to_string(path).unwrap_or_default().lines().filter(|line| is_letter(line)).count(),
            At::Queue(emulator, name) => emulator.messages(name).iter().filter(|body| is_letter(body)).count(),
            At::Bucket(emulator, name) => {
                let bodies = emulator.keys(name).into_iter().filter_map(|key| emulator.get(name, &key));
                bodies.filter(|body| std::str::from_utf8(body).is_ok_and(is_letter)).count()
            }
        }
    }
}

/// A letter of a Kinesis record.
pub(crate) fn letter(number: u64, payload: impl Into<Bytes>) -> DeadLetter {
    let origin = Origin { stream: "ledger".to_owned(), shard: "shardId-000000000000".to_owned() };
    let position = Position::Sequence { number: SequenceNumber(number.to_string()), sub: None };
    let payload = payload.into();
    DeadLetter {
        v: FORMAT_VERSION,
        id: identify(&origin, &position, 0, None, &payload),
        time: format!("2024-05-06T07:08:09.{number:09}Z"),
        first_time: None,
        origin,
        position,
        unit: 0,
        part: 0,
        format: "qldb".to_owned(),
        table: Some("Person".to_owned()),
        mode: None,
        document_id: Some("7PiADsj9Zt".to_owned()),
        version: Some(number),
        index: Some("person".to_owned()),
        action: Some("index".to_owned()),
        attempts: 1,
        error: Fault::new("mapper_parsing_exception", "failed to parse field [DOB] of type [date]"),
        first_error: None,
        connector: "0.1.0".to_owned(),
        large: None,
        message: None,
        payload,
    }
}

/// Everything that a walk shows: the letters, whole and by their position, and where damage is.
pub(crate) async fn shown(store: &DeadLetters) -> (Vec<DeadLetter>, Vec<String>) {
    let (mut letters, mut damaged) = (Vec::new(), Vec::new());
    let mut walk = store.walk().await.unwrap();
    while let Some(portion) = walk.next(usize::MAX).await.unwrap() {
        for entry in portion {
            match entry {
                Entry::Letter(letter) => letters.push(walk.load(*letter).await.unwrap().unwrap()),
                Entry::Damaged { at, reason } => damaged.push(format!("{at}: {reason}")),
            }
        }
    }
    walk.end().await.unwrap();
    letters.sort_by_key(|letter| letter.position.clone());
    (letters, damaged)
}
