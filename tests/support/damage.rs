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

    fn is_deleted(&self) -> bool {
        self.does.last() == Some(&Does::Delete)
    }

    fn target(&self, version: u64) -> Target {
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
        routing: table.routing.map(str::to_owned),
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

/// What is done to an index, and how it is done where the sink's own operations are not enough.
pub struct Damaging<'a> {
    pub sink: &'a dyn Contents,
    /// Whether contents are changed too.
    pub contents: bool,
    /// Whether something is written that the stream does not have yet.
    pub ahead: bool,
}

impl Damaging<'_> {
    /// Damages about a third of the documents of an index that holds what the stream says, and gives what is wrong now. `by_hand` are documents that are
    /// to be deleted without a version, which leaves the memory of a higher one.
    pub async fn damage(&self, lives: &[Life], dice: &mut Dice) -> (Vec<Damage>, Vec<Target>) {
        let (mut damages, mut by_hand) = (Vec::new(), Vec::new());
        let (mut deletes, mut writes) = (Vec::new(), Vec::new());
        let mut forgotten: BTreeMap<String, Vec<Asked>> = BTreeMap::new();
        for life in lives {
            if !dice.percent(40) {
                continue;
            }
            let newest = life.newest();
            let mut note = |class: &str, held: Option<u64>| {
                damages.push((class.to_owned(), life.table.index.clone(), life.id.clone(), held, Some(newest)));
            };
            let lower: Vec<u64> = (0..newest).filter(|version| life.does[*version as usize] != Does::Delete).collect();
            let goes_back = match (life.is_deleted(), dice.below(5)) {
                (true, 0) if life.table.tombstones => {
                    deletes.push(Operation::Delete { target: life.target(newest) });
                    note("missing", None);
                    false
                }
                (true, _) | (false, 0 | 1) => true,
                (false, 2) if self.contents => {
                    let document = Document(Bytes::from_static(br#"{"Name":"somebody else"}"#));
                    writes.push(Operation::Index { target: life.target(newest), document });
                    note("stale", Some(newest));
                    false
                }
                (false, 3) if self.ahead => {
                    writes.push(Operation::Index { target: life.target(newest + 3), document: life.document(newest + 3) });
                    note("ahead", Some(newest + 3));
                    false
                }
                (false, 2 | 3) => {
                    deletes.push(Operation::Delete { target: life.target(newest) });
                    note("missing", None);
                    false
                }
                (false, _) => {
                    by_hand.push(life.target(newest));
                    note("missing", None);
                    false
                }
            };
            if goes_back && !lower.is_empty() {
                let version = *dice.pick(&lower);
                deletes.push(Operation::Delete { target: life.target(newest) });
                let asked = Asked { id: life.id.clone(), routing: life.table.routing.map(str::to_owned) };
                forgotten.entry(life.table.index.clone()).or_default().push(asked);
                writes.push(Operation::Index { target: life.target(version), document: life.document(version) });
                let class = match (life.redacted.contains(&version), life.is_deleted()) {
                    (true, _) => "redacted_present",
                    (false, true) => "resurrected",
                    (false, false) => "stale",
                };
                note(class, Some(version));
            }
        }
        for number in 0..3 {
            let life = dice.pick(lives);
            let id = format!("foreign-{number}");
            writes.push(Operation::Index { target: target(&life.table, &id, 7), document: life.document(7) });
            damages.push(("foreign".to_owned(), life.table.index.clone(), id, Some(7), None));
        }
        self.write(deletes).await;
        for (index, ids) in &forgotten {
            self.sink.forget_deletes(index, ids).await.expect("deletes are forgotten");
        }
        self.write(writes).await;
        damages.sort();
        (damages, by_hand)
    }

    /// Carries operations out.
    pub async fn write(&self, operations: Vec<Operation>) {
        let expected = operations.len();
        let replies = self.sink.write(Arc::from(operations)).await.expect("a reply");
        assert_eq!(replies.len(), expected);
        assert!(replies.iter().all(|reply| reply.error.is_none()), "{replies:?}");
        self.sink.finish().await.expect("it is written");
    }
}
