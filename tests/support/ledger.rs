//! A ledger as QLDB would have kept it: a strand of blocks with right hashes throughout, made from a seed, and what leaves it: the records of a
//! stream, and journal exports of every output format. Everything is made by way of ion-rs; nothing of the product's own is used.
//!
//! The first block creates the tables, so its revisions are the ledger's own and have a hash only. From 8 blocks on there are a delete, a redaction, a
//! block that only reads and a block of several statements. The hash of a deletion is not published: here it is the hash of its metadata.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ion_rs::ion_hash::sha256;
use ion_rs::v1_0::{Binary, Text};
use ion_rs::{Element, Sequence, Struct, TextFormat, Value};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use crate::dice::Dice;

/// The tables of a ledger.
pub(crate) const TABLES: [&str; 2] = ["Person", "VehicleRegistration"];

/// Where an export puts its files: prefixes may have dots.
pub(crate) const PREFIX: &str = "journal.v1/shop";

/// 2020-03-01T08:15:30Z in milliseconds since 1970.
const BEGIN: u64 = 1_583_050_530_000;

/// The output format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    IonText,
    IonBinary,
    Json,
}

/// Every output format.
pub(crate) const OUTPUTS: [Output; 3] = [Output::IonText, Output::IonBinary, Output::Json];

/// What a revision is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    /// With the document as it is from then on.
    Put(Element),
    Delete,
    /// A put of which the content was removed by a later transaction.
    Redacted,
}

/// A revision, as a test wants to know it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Revision {
    pub table: &'static str,
    pub id: String,
    pub version: u64,
    pub kind: Kind,
}

/// A block of a strand.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub sequence: u64,
    /// Milliseconds since 1970.
    pub time: u64,
    /// The block as an export in Ion has it. A test may put another one in its place before anything is written.
    pub value: Element,
    /// Its revisions of documents, in the order of `value`.
    pub revisions: Vec<Revision>,
    /// The statements that it ran.
    pub statements: Vec<String>,
    /// The block as it was before content was taken out of it.
    pub before: Option<Element>,
}

/// One strand of a ledger.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    pub arn: String,
    pub strand: String,
    pub blocks: Vec<Block>,
    /// Of what comes by chance after the ledger was made: the ids of exports.
    seed: u64,
}

/// The documents that a ledger is making.
struct Maker {
    dice: Dice,
    strand: String,
    table_ids: Vec<String>,
    /// Id, table, next version; `None` once deleted.
    documents: Vec<(String, usize, Option<u64>)>,
    previous: Vec<u8>,
}

impl Ledger {
    /// A ledger of so many blocks, numbered from 0.
    pub(crate) fn new(seed: u64, blocks: usize) -> Self {
        let mut dice = Dice::new(seed);
        let strand = id(&mut dice);
        let arn = format!("arn:aws:qldb:eu-west-1:000000000000:stream/shop/{}", id(&mut dice));
        let table_ids = TABLES.iter().map(|_| id(&mut dice)).collect();
        let previous = (0..32).map(|_| dice.below(256) as u8).collect();
        let mut maker = Maker { dice, strand: strand.clone(), table_ids, documents: Vec::new(), previous };
        let mut ledger = Self { arn, strand, blocks: Vec::new(), seed };
        let mut time = BEGIN;
        for sequence in 0..blocks as u64 {
            time += maker.dice.between(200, 5_000_000) as u64;
            let block = maker.block(sequence, blocks as u64, time, &mut ledger.blocks);
            ledger.blocks.push(block);
        }
        ledger
    }

    /// The same strand with only these of its blocks, by their place.
    pub(crate) fn part(&self, places: Range<usize>) -> Self {
        Self { blocks: self.blocks[places].to_vec(), ..self.clone() }
    }

    /// The same strand as it was before its redactions were carried out: what was delivered or exported then.
    pub(crate) fn before_redactions(&self) -> Self {
        let mut ledger = self.clone();
        for block in &mut ledger.blocks {
            block.value = block.before.take().unwrap_or_else(|| block.value.clone());
        }
        ledger
    }

    /// Every revision of a document, in the order of the journal.
    pub(crate) fn revisions(&self) -> impl Iterator<Item = &Revision> {
        self.blocks.iter().flat_map(|block| &block.revisions)
    }

    /// The newest revision of each document, by its id.
    pub(crate) fn latest(&self) -> BTreeMap<String, Revision> {
        self.revisions().map(|revision| (revision.id.clone(), revision.clone())).collect()
    }

    /// The records of a stream that was made after the redactions: each block's summary, then its revisions. One Ion binary value each.
    pub(crate) fn stream(&self) -> Vec<Vec<u8>> {
        self.blocks.iter().flat_map(|block| self.records(block)).collect()
    }

    /// The records of [`stream`](Self::stream) in another order, each of them so many times.
    pub(crate) fn shuffled(&self, seed: u64, times: usize) -> Vec<Vec<u8>> {
        let mut records = vec![self.stream(); times].concat();
        Dice::new(seed).shuffle(&mut records);
        records
    }

    /// The records of one block.
    fn records(&self, block: &Block) -> Vec<Vec<u8>> {
        let value = block.value.as_struct().unwrap();
        let revisions: Vec<&Element> = value.get("revisions").and_then(Element::as_sequence).into_iter().flatten().collect();
        let member = |of: &Element, name: &str| of.as_struct().and_then(|of| of.get(name)).cloned();
        let id = |revision: &Element| member(&member(revision, "metadata")?, "id");
        let summaries = revisions.iter().map(|revision| {
            let hash = member(revision, "hash").map(|hash| ("hash", hash));
            Element::from(hash.into_iter().chain(id(revision).map(|id| ("documentId", id))).collect::<Struct>())
        });
        let summaries: Sequence = summaries.collect();
        let mut summary = without(value, "revisions");
        if !summaries.is_empty() {
            summary = summary.clone_builder().with_field("revisionSummaries", Element::from(ion_rs::List::from(summaries))).build();
        }
        let documents = value.get("transactionInfo").and_then(|info| member(info, "documents"));
        let details = revisions.iter().filter_map(|revision| {
            let document = member(documents.as_ref()?, id(revision)?.as_text()?)?;
            let table = without(document.as_struct()?, "statements");
            let payload: Struct = [("tableInfo", Element::from(table)), ("revision", (*revision).clone())].into_iter().collect();
            Some(self.record("REVISION_DETAILS", payload))
        });
        std::iter::once(self.record("BLOCK_SUMMARY", summary)).chain(details).collect()
    }

    fn record(&self, kind: &str, payload: Struct) -> Vec<u8> {
        let arn = ("qldbStreamArn", Element::from(self.arn.as_str()));
        let record: Struct = [arn, ("recordType", Element::from(kind)), ("payload", Element::from(payload))].into_iter().collect();
        Element::from(record).encode_as(Binary).unwrap()
    }

    /// Writes an export with its manifests below a folder, which stands for the bucket; gives the data objects in the order of the manifest.
    pub(crate) fn export(&self, folder: &Path, output: Output, blocks_per_file: usize) -> Vec<PathBuf> {
        let first = self.blocks.first().map_or(0, |block| block.sequence);
        let export = id(&mut Dice::new(self.seed ^ (first << 20) ^ 0xE0));
        let write = |key: &str, bytes: Vec<u8>| {
            let path = folder.join(key);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, bytes).unwrap();
            path
        };
        let mut keys = Vec::new();
        let mut paths = Vec::new();
        for blocks in self.blocks.chunks(blocks_per_file) {
            let (from, to) = (&blocks[0], &blocks[blocks.len() - 1]);
            let at = moment(from.time);
            let ending = if output == Output::Json { "json" } else { "ion" };
            let key = format!(
                "{PREFIX}/{:04}/{:02}/{:02}/{:02}/{}.{}-{}.{ending}",
                at.year(),
                u8::from(at.month()),
                at.day(),
                at.hour(),
                self.strand,
                from.sequence,
                to.sequence
            );
            paths.push(write(&key, encoded(blocks.iter().map(|block| block.value.clone()), output)));
            keys.push(key);
        }
        let time = |block: Option<&Block>, later: u64| instant(block.map_or(BEGIN, |block| block.time) + later);
        let format = match output {
            Output::IonText => "ION_TEXT",
            Output::IonBinary => "ION_BINARY",
            Output::Json => "JSON",
        };
        let started = ion(&format!(
            r#"{{ledgerName:"shop",exportId:"{export}",inclusiveStartTime:{},exclusiveEndTime:{},bucket:"example-journal",prefix:"{PREFIX}",objectEncryptionType:"SSE_S3",outputFormat:"{format}"}}"#,
            time(self.blocks.first(), 0),
            time(self.blocks.last(), 1)
        ));
        write(&format!("{PREFIX}/{export}.started.manifest"), encoded([started], output));
        let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
        let completed = ion(&format!("{{keys:[{}]}}", keys.join(",")));
        write(&format!("{PREFIX}/{export}.{}.completed.manifest", self.strand), encoded([completed], output));
        paths
    }
}

impl Maker {
    fn block(&mut self, sequence: u64, blocks: u64, time: u64, earlier: &mut [Block]) -> Block {
        let transaction = id(&mut self.dice);
        let (mut statements, mut revisions, mut entries) = (Vec::new(), Vec::new(), Vec::new());
        let mut redaction = String::new();
        let mut documents = String::new();
        if sequence == 0 {
            for table in TABLES {
                statements.push(format!("CREATE TABLE {table}"));
                entries.push(format!("{{hash:{}}}", blob(&sha256(&Element::from(table)).unwrap())));
            }
        } else if sequence == blocks * 3 / 4
            && let Some(redacted) = redact(earlier)
        {
            statements.push("EXEC REDACT_REVISION ?, ?, ?".to_owned());
            redaction = format!(",redactionInfo:{{revisions:[{redacted}]}}");
        } else if sequence == blocks * 5 / 8 {
            statements.push("SELECT * FROM Person AS p WHERE p.Name = 'Kowalczyk'".to_owned());
        } else {
            let changes = if sequence % 4 == 2 { 3 } else { 1 };
            let mut touched = Vec::new();
            for number in 0..changes {
                let place = self.document(&touched);
                touched.push(place);
                let (document, table, version) = self.documents[place].clone();
                let version = version.unwrap();
                let deletes = number == 0 && version > 0 && (sequence == blocks / 2 || self.dice.percent(8));
                let what = if deletes { "DELETE FROM" } else { ["UPDATE", "INSERT INTO"][usize::from(version == 0)] };
                statements.push(format!("{what} {} /* {sequence} */ ?", TABLES[table]));
                documents += &format!(
                    r#"'{document}':{{tableName:"{}",tableId:"{}",statements:[{number}]}},"#,
                    TABLES[table], self.table_ids[table]
                );
                let metadata = format!(r#"{{id:"{document}",version:{version},txTime:{},txId:"{transaction}"}}"#, instant(time));
                let metadata_hash = sha256(&ion(&metadata)).unwrap().to_vec();
                let address = self.address(sequence);
                let kind = if deletes {
                    self.documents[place].2 = None;
                    entries.push(format!("{{blockAddress:{address},hash:{},metadata:{metadata}}}", blob(&metadata_hash)));
                    Kind::Delete
                } else {
                    self.documents[place].2 = Some(version + 1);
                    let data = self.data(table, &document, version);
                    let element = ion(&data);
                    let hash = dot(&metadata_hash, &sha256(&element).unwrap());
                    entries.push(format!("{{blockAddress:{address},hash:{},data:{data},metadata:{metadata}}}", blob(&hash)));
                    Kind::Put(element)
                };
                revisions.push(Revision { table: TABLES[table], id: document, version, kind });
            }
        }
        let said: Vec<String> = statements.iter().map(|statement| said(statement, time)).collect();
        let documents = if documents.is_empty() { documents } else { format!(",documents:{{{documents}}}") };
        let revisions_member = if entries.is_empty() { String::new() } else { format!(",revisions:[{}]", entries.join(",")) };
        let value = ion(&format!(
            r#"{{blockAddress:{},transactionId:"{transaction}",blockTimestamp:{},transactionInfo:{{statements:[{}]{documents}}}{revisions_member}{redaction}}}"#,
            self.address(sequence),
            instant(time),
            said.join(",")
        ));
        let value = sealed(&value, &self.previous);
        self.previous = value.as_struct().unwrap().get("blockHash").unwrap().as_lob().unwrap().to_vec();
        Block { sequence, time, value, revisions, statements, before: None }
    }

    /// A document that is there and was not touched yet, or a new one.
    fn document(&mut self, touched: &[usize]) -> usize {
        let places = 0..self.documents.len();
        let there: Vec<usize> = places.filter(|place| self.documents[*place].2.is_some() && !touched.contains(place)).collect();
        if there.is_empty() || (there.len() < 40 && self.dice.percent(40)) {
            self.documents.push((id(&mut self.dice), self.dice.below(TABLES.len()), Some(0)));
            return self.documents.len() - 1;
        }
        *self.dice.pick(&there)
    }

    fn address(&self, sequence: u64) -> String {
        format!(r#"{{strandId:"{}",sequenceNo:{sequence}}}"#, self.strand)
    }

    /// The data of a document, as Ion text: every kind of value that documents use. One in sixteen has a blob and a symbol, which JSON cannot tell from texts.
    fn data(&mut self, table: usize, document: &str, version: u64) -> String {
        let dice = &mut self.dice;
        let name = *dice.pick(&["Kowalczyk", "Ærøskøbing", "O'Neill \\\"Tip\\\"", "Márquez"]);
        let lossy = if dice.below(16) == 5 { ",Photo:{{aGVsbG8gd29ybGQ=}},Status:active" } else { "" };
        let (cents, day, second) = (dice.between(1, 999_999), dice.between(1, 28), dice.below(60));
        if table == 0 {
            format!(
                r#"{{Name:"{name}",Born:19{:02}-02-{day:02},Version:{version},Address:{{City:"Gdańsk",Lines:["{} Long Street",""],Zip:null}},Seen:2021-05-{day:02}T10:00:{second:02}Z{lossy}}}"#,
                dice.between(10, 99),
                dice.between(1, 99)
            )
        } else {
            format!(
                r#"{{VIN:"{document}",PendingPenalty:{}.{:02},Paid:{},Owners:{{PrimaryOwner:{{PersonId:"{name}"}},SecondaryOwners:[{{PersonId:"x{second}"}}]}},ValidFrom:2017-08-{day:02},Tags:[{version},"a",{}.5,true]{lossy}}}"#,
                cents / 100,
                cents % 100,
                second == 1,
                dice.below(9)
            )
        }
    }
}

/// Takes the content of the first put that has a successor out of its block; gives the entry of `redactionInfo`.
fn redact(earlier: &mut [Block]) -> Option<String> {
    let all: Vec<(String, u64)> = earlier.iter().flat_map(|block| &block.revisions).map(|r| (r.id.clone(), r.version)).collect();
    for block in earlier {
        let replaced = |r: &Revision| matches!(r.kind, Kind::Put(_)) && all.contains(&(r.id.clone(), r.version + 1));
        let Some(place) = block.revisions.iter().position(replaced) else { continue };
        let revision = &mut block.revisions[place];
        let Kind::Put(data) = std::mem::replace(&mut revision.kind, Kind::Redacted) else { unreachable!() };
        let value = block.value.as_struct().unwrap();
        let mut entries: Vec<Element> = value.get("revisions").unwrap().as_sequence().unwrap().iter().cloned().collect();
        let entry = without(entries[place].as_struct().unwrap(), "data");
        let hash = Element::blob(sha256(&data).unwrap());
        entries[place] = entry.clone_builder().with_field("dataHash", hash).build().into();
        let list = Element::from(ion_rs::List::from(Sequence::from(entries)));
        let transaction = value.get("transactionInfo").and_then(Element::as_struct).unwrap();
        let table = transaction.get("documents").and_then(Element::as_struct).unwrap().get(revision.id.as_str()).unwrap();
        let table_id = table.as_struct().unwrap().get("tableId").unwrap();
        let address = value.get("blockAddress").unwrap();
        let redacted =
            format!(r#"{{blockAddress:{address},tableId:{table_id},documentId:"{}",version:{}}}"#, revision.id, revision.version);
        let redacted_value = without(value, "revisions").clone_builder().with_field("revisions", list).build().into();
        block.before = Some(std::mem::replace(&mut block.value, redacted_value));
        return Some(redacted);
    }
    None
}

/// A block with the hashes that go with what it holds and with the block before: also how a block is forged.
pub(crate) fn sealed(block: &Element, previous: &[u8]) -> Element {
    let mut block = block.as_struct().unwrap().clone();
    for hash in ["blockHash", "entriesHash", "previousBlockHash", "entriesHashList"] {
        block = without(&block, hash);
    }
    let mut entries = Vec::new();
    if let Some(info) = block.get("transactionInfo") {
        entries.push(sha256(info).unwrap().to_vec());
    }
    let revisions = block.get("revisions").and_then(Element::as_sequence).into_iter().flatten();
    let hashes: Vec<Vec<u8>> = revisions.map(|r| r.as_struct().unwrap().get("hash").unwrap().as_lob().unwrap().to_vec()).collect();
    if !hashes.is_empty() {
        entries.push(merkle(hashes));
    }
    let root = merkle(entries.clone());
    let list = Element::from(ion_rs::List::from(entries.iter().map(|entry| Element::blob(entry.as_slice())).collect::<Sequence>()));
    let block = block.clone_builder();
    let block = block.with_field("blockHash", Element::blob(dot(&root, previous))).with_field("entriesHash", Element::blob(root));
    block.with_field("previousBlockHash", Element::blob(previous)).with_field("entriesHashList", list).build().into()
}

/// SHA-256 over both hashes, the smaller first, compared as signed bytes from the last byte backwards.
pub(crate) fn dot(a: &[u8], b: &[u8]) -> Vec<u8> {
    let order = |hash: &[u8]| hash.iter().rev().map(|byte| *byte as i8).collect::<Vec<_>>();
    let (first, second) = if order(a) < order(b) { (a, b) } else { (b, a) };
    Sha256::digest([first, second].concat()).to_vec()
}

/// The root of a Merkle tree by [`dot`]; an odd one out moves up as it is.
pub(crate) fn merkle(mut hashes: Vec<Vec<u8>>) -> Vec<u8> {
    while hashes.len() > 1 {
        hashes = hashes.chunks(2).map(|pair| pair.get(1).map_or_else(|| pair[0].clone(), |second| dot(&pair[0], second))).collect();
    }
    hashes.pop().unwrap_or_default()
}

fn said(statement: &str, time: u64) -> String {
    let digest = blob(&sha256(&Element::from(statement)).unwrap());
    format!(r#"{{statement:{statement:?},startTime:{},statementDigest:{digest}}}"#, instant(time - 40))
}

/// Values in the form of an export.
fn encoded(values: impl IntoIterator<Item = Element>, output: Output) -> Vec<u8> {
    let values: Sequence = values.into_iter().collect();
    match output {
        Output::IonText => values.encode_as(Text.with_format(TextFormat::Lines)).unwrap().into_bytes(),
        Output::IonBinary => values.encode_as(Binary).unwrap(),
        Output::Json => values.iter().flat_map(|value| (json(value) + "\n").into_bytes()).collect(),
    }
}

/// A value as a JSON export has it: decimals as numbers, some of them as coefficient and exponent, hashes and blobs in Base64, the rest as texts.
pub(crate) fn json(value: &Element) -> String {
    let quoted = |text: &str| serde_json::to_string(text).unwrap();
    match value.value() {
        Value::Null(_) => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Decimal(value) => {
            let (digits, exponent) = (value.coefficient().to_string(), value.exponent());
            let cut = digits.len().checked_sub(exponent.unsigned_abs() as usize).filter(|cut| *cut > 0 && exponent < 0);
            match cut {
                Some(cut) if !digits.ends_with(['0', '4']) => format!("{}.{}", &digits[..cut], &digits[cut..]),
                _ => format!("{digits}e{exponent}"),
            }
        }
        Value::Timestamp(value) => {
            let text = value.to_string();
            quoted(&text.strip_suffix('T').unwrap_or(&text).replace("+00:00", "Z"))
        }
        Value::String(text) => quoted(text.text()),
        Value::Symbol(symbol) => quoted(symbol.text().unwrap()),
        Value::Blob(bytes) | Value::Clob(bytes) => quoted(&STANDARD.encode(bytes)),
        Value::List(items) | Value::SExp(items) => format!("[{}]", items.iter().map(json).collect::<Vec<_>>().join(",")),
        Value::Struct(fields) => {
            let fields = fields.fields().map(|(name, value)| format!("{}:{}", quoted(name.text().unwrap()), json(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Float(value) => value.to_string(),
    }
}

fn without(of: &Struct, name: &str) -> Struct {
    of.clone_builder().remove_field(name).build()
}

fn ion(text: &str) -> Element {
    Element::read_one(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn blob(bytes: &[u8]) -> String {
    format!("{{{{{}}}}}", STANDARD.encode(bytes))
}

/// 22 characters, as QLDB makes them.
fn id(dice: &mut Dice) -> String {
    const BASE62: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    (0..22).map(|_| char::from(*dice.pick(BASE62))).collect()
}

fn moment(milliseconds: u64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(milliseconds) * 1_000_000).unwrap()
}

/// Milliseconds, UTC: the precision of the journal's own times.
fn instant(milliseconds: u64) -> String {
    let at = moment(milliseconds);
    let (date, time) = (at.date(), at.time());
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        date.year(),
        u8::from(date.month()),
        date.day(),
        time.hour(),
        time.minute(),
        time.second(),
        time.millisecond()
    )
}
