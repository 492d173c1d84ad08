//! A ledger made by chance, and an index that was damaged by chance: what was done to it is remembered, document by document.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use revsync::operation::{Operation, Target};
use revsync::revision::{Document, VersionType};
use revsync::sink::{Asked, Contents};

use crate::dice::Dice;
use crate::qldb_stream::{Does, revision};

/// A table, and where its documents go.
#[derive(Debug, Clone)]
pub struct Table {
    pub name: &'static str,
    pub index: String,
    /// With `{id}` for the document id.
    pub routing: Option<&'static str>,
    /// Whether a delete leaves a tombstone.
    pub tombstones: bool,
}

/// The life of a document: what each of its versions did, from 0.
#[derive(Debug, Clone)]
pub struct Life {
    pub table: Table,
    pub id: String,
    pub does: Vec<Does>,
    /// Versions of which the content was redacted, none of them the newest.
    pub redacted: Vec<u64>,
}

impl Life {
    pub fn newest(&self) -> u64 {
        self.does.len() as u64 - 1
    }

    pub fn is_deleted(&self) -> bool {
        self.does.last() == Some(&Does::Delete)
    }

    pub fn target(&self, version: u64) -> Target {
        target(&self.table, &self.id, version)
    }

    fn data(&self, version: u64) -> String {
        format!(r#"{{Name:"{}",At:{version}}}"#, self.id)
    }

    fn document(&self, version: u64) -> Document {
        Document(Bytes::from(format!(r#"{{"Name":"{}","At":{version}}}"#, self.id)))
    }
}

fn target(table: &Table, id: &str, version: u64) -> Target {
    Target {
        index: table.index.as_str().into(),
        id: id.to_owned(),
        version,
        version_type: VersionType::ExternalGte,
        routing: table.routing.map(|routing| routing.replace("{id}", id)),
    }
}

/// The lives of many documents.
pub fn ledger(tables: &[Table], documents: usize, dice: &mut Dice) -> Vec<Life> {
    let mut lives = Vec::new();
    for table in tables {
        for number in 0..documents {
            let mut life = Life { table: table.clone(), id: format!("{}-{number}", table.name), does: Vec::new(), redacted: Vec::new() };
            for version in 0..dice.between(1, 6) as u64 {
                let deletes = version > 0 && life.does.last() != Some(&Does::Delete) && dice.percent(25);
                life.does.push(if deletes { Does::Delete } else { Does::Put(life.data(version)) });
            }
            let puts: Vec<u64> = (0..life.newest()).filter(|version| life.does[*version as usize] != Does::Delete).collect();
            life.redacted = puts.into_iter().filter(|_| dice.percent(15)).collect();
            lives.push(life);
        }
    }
    lives
}

/// The stream of a ledger, its records in some order.
pub fn stream(lives: &[Life], dice: &mut Dice) -> String {
    let mut lines = Vec::new();
    for life in lives {
        let line = |version: u64, does: &Does| revision(life.table.name, &life.id, version, does) + "\n";
        lines.extend((0..).zip(&life.does).map(|(version, does)| line(version, does)));
        lines.extend(life.redacted.iter().map(|version| line(*version, &Does::Redact)));
    }
    dice.shuffle(&mut lines);
    lines.concat()
}

/// A difference: class, index, id, the version that is held, and that of the stream.
pub type Damage = (String, String, String, Option<u64>, Option<u64>);

/// What a report of `verify --json` tells.
pub fn told(report: &serde_json::Value) -> Vec<Damage> {
    let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
    let told = report["differences"].as_array().expect("differences").iter();
    let mut told: Vec<Damage> = told
        .map(|told| (text(&told["class"]), text(&told["index"]), text(&told["id"]), told["held"].as_u64(), told["stream"].as_u64()))
        .collect();
    told.sort();
    told
}

/// What is to be done to an index that holds what its stream says, in this order.
#[derive(Debug, Default)]
pub struct Plan {
    /// Deleted at these versions.
    pub deletes: Vec<Target>,
    /// What the index must not remember the deletes of, by index.
    pub forgotten: BTreeMap<String, Vec<Asked>>,
    /// Written at these versions.
    pub writes: Vec<(Target, Document)>,
    /// Deleted without a version, at the next one that there is.
    pub by_hand: Vec<Target>,
    /// What is wrong then.
    pub damages: Vec<Damage>,
}

impl Plan {
    /// Damages about two fifths of the documents. `contents`: some are changed at their version. `ahead`: some are written at a version that the
    /// stream does not have.
    pub fn new(lives: &[Life], contents: bool, ahead: bool, dice: &mut Dice) -> Self {
        let mut plan = Self::default();
        for life in lives {
            if dice.percent(40) {
                plan.damage(life, contents, ahead, dice);
            }
        }
        for number in 0..3 {
            let life = dice.pick(lives);
            let foreign = target(&life.table, &format!("foreign-{number}"), 7);
            plan.damages.push(("foreign".to_owned(), life.table.index.clone(), foreign.id.clone(), Some(7), None));
            plan.writes.push((foreign, life.document(7)));
        }
        plan.damages.sort();
        plan
    }

    fn damage(&mut self, life: &Life, contents: bool, ahead: bool, dice: &mut Dice) {
        let newest = life.newest();
        let (class, held) = match (life.is_deleted(), dice.below(5)) {
            (true, 0) if life.table.tombstones => {
                self.deletes.push(life.target(newest));
                ("missing", None)
            }
            (true, _) | (false, 0 | 1) => {
                let lower: Vec<u64> = (0..newest).filter(|version| life.does[*version as usize] != Does::Delete).collect();
                if lower.is_empty() {
                    return;
                }
                let version = *dice.pick(&lower);
                self.deletes.push(life.target(newest));
                let asked = Asked { id: life.id.clone(), routing: life.target(newest).routing };
                self.forgotten.entry(life.table.index.clone()).or_default().push(asked);
                self.writes.push((life.target(version), life.document(version)));
                let class = match (life.redacted.contains(&version), life.is_deleted()) {
                    (true, _) => "redacted_present",
                    (false, true) => "resurrected",
                    (false, false) => "stale",
                };
                (class, Some(version))
            }
            (false, 2) if contents => {
                self.writes.push((life.target(newest), Document(Bytes::from_static(br#"{"Name":"somebody else"}"#))));
                ("stale", Some(newest))
            }
            (false, 3) if ahead => {
                self.writes.push((life.target(newest + 3), life.document(newest + 3)));
                ("ahead", Some(newest + 3))
            }
            (false, 2 | 3) => {
                self.deletes.push(life.target(newest));
                ("missing", None)
            }
            (false, _) => {
                self.by_hand.push(life.target(newest));
                ("missing", None)
            }
        };
        self.damages.push((class.to_owned(), life.table.index.clone(), life.id.clone(), held, Some(newest)));
    }

    /// Does it through a sink.
    pub async fn carry_out(&self, sink: &dyn Contents) {
        write(sink, self.deletes.iter().cloned().map(|target| Operation::Delete { target }).collect()).await;
        for (index, ids) in &self.forgotten {
            sink.forget_deletes(index, ids).await.expect("deletes are forgotten");
        }
        let put = |(target, document)| Operation::Index { target, document };
        write(sink, self.writes.iter().cloned().map(put).collect()).await;
        let next = |target: Target| Operation::Delete { target: Target { version: target.version + 1, ..target } };
        write(sink, self.by_hand.iter().cloned().map(next).collect()).await;
    }
}

/// Writes past the stream; every operation must be taken.
pub async fn write(sink: &dyn Contents, operations: Vec<Operation>) {
    let expected = operations.len();
    let replies = sink.write(Arc::from(operations)).await.expect("a reply");
    assert_eq!(replies.len(), expected);
    assert!(replies.iter().all(|reply| reply.error.is_none()), "{replies:?}");
    sink.finish().await.expect("it is written");
}
