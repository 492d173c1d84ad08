//! The stored form of a row: JSON under a readable id.
//!
//! Plain data. An older form is read, a newer one refused.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Kept;
use crate::error::{Error, Kind};
use crate::plan::lease::Row;
use crate::plan::stored::Stored;

/// The version of the stored form that is written; a newer one is refused.
pub const FORMAT_VERSION: u32 = 1;

/// The longest id that OpenSearch takes, in bytes, without what a shard's name may take (Kinesis API reference, `ShardId`).
const MOST_BYTES: usize = 512 - 1 - 128;

/// A pipeline, by what tells it from others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pipeline {
    /// Its name.
    #[serde(rename = "pipeline")]
    pub name: String,
    /// The stream that it reads, by its ARN.
    pub stream: String,
}

impl Pipeline {
    /// A pipeline whose rows can be stored.
    ///
    /// # Errors
    /// Its name is empty, or too long to be part of an id.
    pub fn new(name: &str, stream: &str) -> Result<Self, Error> {
        let pipeline = Self { name: name.to_owned(), stream: stream.to_owned() };
        let bytes = pipeline.id("").len();
        if name.is_empty() || bytes > MOST_BYTES {
            let what = format!("name: expected a name that makes with its stream at most {MOST_BYTES} bytes of an id, found {bytes}");
            return Err(Error::usage(what).help("give the pipeline another name with --name"));
        }
        Ok(pipeline)
    }

    /// The id of a shard's row. The parts stand apart, and none can hold what stands between them. A stream that is too long is told by its hash.
    pub fn id(&self, shard: &str) -> String {
        const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'%');
        let escape = |part| utf8_percent_encode(part, ESCAPED).to_string();
        let (name, mut stream) = (escape(&self.name), escape(&self.stream));
        if name.len() + stream.len() + 2 > MOST_BYTES {
            // The path of a file may be long. Nothing that is escaped begins so.
            stream = format!("%#{}", hex::encode(&Sha256::digest(&self.stream)[..16]));
        }
        format!("{name} {stream} {}", escape(shard))
    }
}

#[derive(Serialize)]
struct Writing<'a> {
    v: u32,
    #[serde(flatten)]
    pipeline: &'a Pipeline,
    shard: &'a str,
    content: &'a Row,
}

#[derive(Deserialize)]
struct Reading {
    #[serde(flatten)]
    pipeline: Pipeline,
    shard: String,
    content: Row,
}

/// A row that cannot be read. It stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Its id.
    pub id: String,
    /// Why: what was expected, and what was found.
    pub reason: String,
    /// Whether a newer revsync wrote it.
    pub newer: bool,
}

impl Unreadable {
    pub(super) fn error(&self, place: &str) -> Error {
        let help = if self.newer { "use that revsync" } else { "remove the row, or restore it: without it, its shard begins anew" };
        Error::new(Kind::Checkpoints, format!("checkpoints: {place}: row {:?}: {}", self.id, self.reason)).help(help)
    }
}

/// Reads one row.
pub(super) fn read(stored: Stored) -> Result<Kept, Unreadable> {
    #[derive(Deserialize)]
    struct Head {
        v: u32,
    }
    let Stored { id, stamp, body } = stored;
    // serde's own text may quote what it found.
    let damaged = |error: &serde_json::Error| format!("expected a checkpoint, found something else near column {}", error.column());
    let refuse = |reason: String, newer: bool| Unreadable { id: id.clone(), reason, newer };
    let Head { v } = serde_json::from_str(&body).map_err(|error| refuse(damaged(&error), false))?;
    if v > FORMAT_VERSION {
        let reason = format!("expected form {FORMAT_VERSION} or older, found form {v}, which a newer revsync wrote");
        return Err(refuse(reason, true));
    }
    let Reading { pipeline, shard, content } = serde_json::from_str(&body).map_err(|error| refuse(damaged(&error), false))?;
    if pipeline.id(&shard) != id {
        return Err(refuse("expected an id made of its pipeline, stream and shard".to_owned(), false));
    }
    Ok(Kept { pipeline, shard, stamp, row: content })
}

/// The stored form of a row.
pub(super) fn write(pipeline: &Pipeline, shard: &str, row: &Row) -> Result<String, Error> {
    serde_json::to_string(&Writing { v: FORMAT_VERSION, pipeline, shard, content: row })
        .map_err(|error| Error::new(Kind::Checkpoints, format!("checkpoints: the row of {shard} cannot be written as JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::checkpoint::{Begin, Checkpoint, Progress};
    use crate::plan::lease::Owner;
    use crate::plan::stored::Stamp;
    use crate::record::{Position, SequenceNumber};

    fn pipeline() -> Pipeline {
        Pipeline::new("ledger", "arn:aws:kinesis:eu-west-1:000000000000:stream/ledger").unwrap()
    }

    fn row(progress: Progress) -> Row {
        Row {
            owner: Some(Owner { name: "host-1".to_owned(), session: "a1".to_owned(), takeover_after: 30_000 }),
            epoch: 7,
            heartbeat: 1_732_868_100_000,
            checkpoint: Checkpoint { progress, covered: Some(5), targets: [("person".to_owned(), "u".to_owned())].into() },
        }
    }

    fn stored(body: String) -> Stored {
        Stored { id: pipeline().id("shardId-0"), stamp: Stamp { number: 1, term: 2 }, body }
    }

    #[test]
    fn a_row_is_stored_in_a_form_that_stays() {
        let settled = Progress::Settled(Position::Sequence { number: SequenceNumber("49".into()), sub: Some(2) });
        let body = write(&pipeline(), "shardId-0", &row(settled)).unwrap();
        assert_eq!(
            body,
            r#"{"v":1,"pipeline":"ledger","stream":"arn:aws:kinesis:eu-west-1:000000000000:stream/ledger","shard":"shardId-0","content":{"owner":{"name":"host-1","session":"a1","takeover_after":30000},"epoch":7,"heartbeat":1732868100000,"progress":{"settled":{"sequence":{"number":"49","sub":2}}},"covered":5,"targets":{"person":"u"}}}"#
        );
    }

    #[test]
    fn a_row_reads_back_as_it_was_written() {
        for progress in [Progress::Begins(Begin::Latest { since: 3 }), Progress::Ended] {
            for owner in [None, row(Progress::Ended).owner] {
                let row = Row { owner, ..row(progress.clone()) };
                let kept = read(stored(write(&pipeline(), "shardId-0", &row).unwrap())).unwrap();
                assert_eq!((kept.pipeline, kept.shard.as_str(), kept.row), (pipeline(), "shardId-0", row));
            }
        }
    }

    #[test]
    fn a_row_of_a_newer_form_is_refused_and_one_that_is_none_is_not_quoted() {
        let newer = read(stored(r#"{"v":2,"secret":1}"#.to_owned())).unwrap_err();
        assert!(newer.newer && newer.error("x").to_string().contains("found form 2"), "{newer:?}");
        let body = write(&pipeline(), "shardId-1", &row(Progress::Ended)).unwrap();
        for body in ["", "{}", "[1]", r#"{"v":"hunter2"}"#, r#"{"v":1,"pipeline":"hunter2"}"#, &body] {
            let unreadable = read(stored(body.to_owned())).unwrap_err();
            assert!(!unreadable.newer && !unreadable.reason.contains("hunter2"), "{unreadable:?}");
        }
    }

    #[test]
    fn no_two_rows_have_one_id() {
        let id = |name: &str, stream: &str, shard: &str| Pipeline { name: name.into(), stream: stream.into() }.id(shard);
        assert_eq!(id("ledger", "arn:a:stream/ledger", "shardId-0"), "ledger arn:a:stream/ledger shardId-0");
        let ids = [id("a b", "c", "d"), id("a", "b c", "d"), id("a", "b", "c d"), id("a%20b", "c", "d"), id("a", "b", "c%20d")];
        let different: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(different.len(), ids.len(), "{ids:?}");
    }

    #[test]
    fn a_name_that_makes_no_id_is_refused() {
        assert!(Pipeline::new("", "arn").is_err());
        assert!(Pipeline::new(&"é".repeat(62), "arn").is_ok());
        assert!(Pipeline::new(&"x".repeat(400), "arn").unwrap_err().to_string().contains("--name"));
    }

    #[test]
    fn a_stream_of_any_length_has_rows_of_its_own() {
        let id = |stream: &str| Pipeline::new("export", stream).unwrap().id("scan");
        let (a, b) = (format!("/{}/a", "é".repeat(1_000)), format!("/{}/b", "é".repeat(1_000)));
        assert!(id(&a) != id(&b) && id(&a).len() < 512, "{}", id(&a));
        assert_eq!(id("/short").as_str(), "export /short scan");
    }
}
