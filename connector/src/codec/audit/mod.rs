//! What an audit of a journal needs of a record: addresses, the hashes that it states, and those that follow from what it holds.
//!
//! Knows the records of a stream and the blocks of an export (QLDB developer guide, "Journal contents in QLDB", "QLDB stream records in Kinesis"). Each
//! top-level value is read as a whole by ion-rs, which has the Ion Hash: speed is second here. Never judges: that is
//! [`plan::journal`](crate::plan::journal).

pub mod hash;
mod json;

use std::collections::HashSet;

use ion_rs::{Element, IonType, Struct};

use super::ion_binary::{Reader, VERSION_MARKER};
use super::{Content, Format, UserRecord, ion_text, qldb, revision_hash, surrogates};
use crate::record::Fault;
use crate::revision::MAX_VERSION;
use hash::{Hash, dot};

/// Where a block is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The strand that it is a block of.
    pub strand: String,
    /// Its sequence number in the strand, 0 to 2^63-1 ([`MAX_VERSION`]).
    pub sequence: u64,
}

/// What one value of a record is to an audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A block: a summary of a stream, or one of an export with its revisions.
    Block(Block),
    /// A revision that came by itself.
    Revision(Revision),
    /// Nothing of a journal's content: a control record, or a record of another format.
    Other,
    /// Nothing that can be used.
    Unusable(Fault),
}

/// A block as it says of itself. `None`: it does not say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Where it is.
    pub address: Address,
    /// `blockHash`.
    pub hash: Option<Hash>,
    /// `entriesHash`.
    pub entries_hash: Option<Hash>,
    /// `previousBlockHash`.
    pub previous: Option<Hash>,
    /// `entriesHashList`; a place that holds no hash is an empty one.
    pub entries: Option<Vec<Hash>>,
    /// The Ion Hash of `transactionInfo`.
    pub info: Option<Hash>,
    /// How many of the documents that `transactionInfo` names none of its revisions is of.
    pub without_revision: u64,
    /// The hashes of its revisions in their order.
    pub summaries: Vec<Summary>,
    /// Its revisions of documents, where it is one of an export.
    pub revisions: Vec<Revision>,
}

/// The hash of a revision as its block has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The hash.
    pub hash: Option<Hash>,
    /// Whether it is a revision of a document; others are the ledger's own, and only their hash leaves it.
    pub is_document: bool,
}

/// A revision of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// The block that it says to be of.
    pub address: Address,
    /// `metadata.id`.
    pub id: String,
    /// `metadata.version`.
    pub version: u64,
    /// `metadata.txId` is another than the block's `transactionId`, or `blockAddress` another than the block's; known in exports only.
    pub is_elsewhere: bool,
    /// The hash that it states.
    pub hash: Option<Hash>,
    /// What its hash says of its content.
    pub proof: Proof,
}

/// What a revision's hash says of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// The hash was not computed: nobody asked for it.
    Unasked,
    /// It follows from metadata and data.
    Holds,
    /// It follows from metadata and the hash of the data, of which the content was removed.
    Redacted,
    /// This one follows: metadata, data or hash were changed.
    Differs(Hash),
    /// How the hash of a deletion is made is not published.
    Deletion,
    /// JSON has lost the types of Ion, and no likely reading gives the hash; or the document was changed.
    TypesLost,
    /// No hash is stated.
    Unstated,
    /// It cannot be hashed.
    Unreadable,
}

/// Gives what the values of a user record are, one after another. `hashes`: those that follow from the content are computed.
pub fn pieces(user_record: &UserRecord, hashes: bool, mut take: impl FnMut(Piece)) {
    let payload = &*user_record.payload;
    if let Some(known) = &user_record.known {
        return take(match known {
            Content::Fault(fault) => Piece::Unusable(fault.clone()),
            _ => Piece::Other,
        });
    }
    if matches!(user_record.format, Format::Lindorm | Format::Debezium) {
        return take(Piece::Other);
    }
    let mut take = |element: Result<Element, Fault>, is_json| {
        let reading = Reading { is_json, hashes };
        take(element.and_then(|element| reading.value(&element)).unwrap_or_else(Piece::Unusable));
    };
    if payload.starts_with(&VERSION_MARKER) {
        let mut reader = Reader::new(payload);
        reader.keep_context();
        loop {
            let value = match reader.next_value() {
                Ok(None) => return,
                Err(fault) => return take(Err(fault), false),
                Ok(Some((value, _))) => value,
            };
            take(revision_hash::element(&reader.last_by_itself(), value, &[]).ok_or_else(too_large), false);
        }
    }
    let Ok(text) = std::str::from_utf8(payload) else {
        return take(Err(Fault::new("undecodable", "expected Ion binary, Ion text or JSON, found bytes that are none of them")), false);
    };
    let replaced = surrogates::replaced(text);
    let text = replaced.as_ref().map_or(text, |(text, _)| text);
    let is_json = json::is_object(text);
    let as_ion = is_json.then(|| qldb::with_decimals(text));
    ion_text::elements(as_ion.as_deref().unwrap_or(text)).for_each(|element| take(element, is_json));
}

fn too_large() -> Fault {
    Fault::new("undecodable", "expected a value that can be hashed, found Ion that cannot be read as a whole, or one of too many values")
}

fn unexpected(what: &str) -> Fault {
    Fault::new("unknown_record", format!("expected a record of a QLDB stream or a block of a journal, {what}"))
}

/// Of a repeated member the last counts, as it does for what is written: a hash must not vouch for another one.
fn member<'a>(of: &'a Struct, name: &str) -> Option<&'a Element> {
    of.get_all(name).last().filter(|value| !value.is_null())
}

fn structure<'a>(of: &'a Struct, name: &str) -> Option<&'a Struct> {
    member(of, name)?.as_struct()
}

fn list<'a>(of: &'a Struct, name: &str) -> Option<impl Iterator<Item = &'a Element>> {
    Some(member(of, name)?.as_sequence()?.iter())
}

/// Whether a struct has no members but these. A null is none.
fn has_only(of: &Struct, names: &[&str]) -> bool {
    of.fields().all(|(name, value)| value.is_null() || name.text().is_some_and(|name| names.contains(&name)))
}

/// The document that an entry of a block's revisions is of.
fn document_of(entry: &Struct) -> Option<&str> {
    match structure(entry, "metadata") {
        Some(metadata) => member(metadata, "id")?.as_text(),
        None => member(entry, "documentId")?.as_text(),
    }
}

fn address_of(of: &Struct) -> Result<Address, Fault> {
    let address = structure(of, "blockAddress");
    let strand = address.and_then(|address| member(address, "strandId")?.as_text()).filter(|strand| !strand.is_empty());
    let sequence = address.and_then(|address| u64::try_from(member(address, "sequenceNo")?.as_i64()?).ok());
    let found = strand.zip(sequence).filter(|(_, sequence)| *sequence <= MAX_VERSION);
    let (strand, sequence) = found.ok_or_else(|| unexpected("found no blockAddress {strandId, sequenceNo} in it"))?;
    Ok(Address { strand: strand.to_owned(), sequence })
}

fn ion_hash(value: &Element) -> Option<Hash> {
    ion_text::guarded(|| Some(Hash::new(ion_rs::ion_hash::sha256(value).ok()?.to_vec()))).ok()
}

/// How values are read.
#[derive(Clone, Copy)]
struct Reading {
    /// Whether they come from JSON, which has fewer types.
    is_json: bool,
    hashes: bool,
}

impl Reading {
    fn value(self, value: &Element) -> Result<Piece, Fault> {
        let fields = value.as_struct().ok_or_else(|| unexpected("found a value that is not a struct"))?;
        let payload = || structure(fields, "payload").ok_or_else(|| unexpected("found one without a payload"));
        match member(fields, "recordType").map(Element::as_text) {
            Some(Some("CONTROL")) => Ok(Piece::Other),
            Some(Some("BLOCK_SUMMARY")) => self.block(payload()?, "revisionSummaries").map(Piece::Block),
            Some(Some("REVISION_DETAILS")) => {
                let revision =
                    structure(payload()?, "revision").ok_or_else(|| unexpected("found a REVISION_DETAILS without a revision"))?;
                self.revision(revision, address_of(revision)?).map(Piece::Revision)
            }
            Some(_) => Err(unexpected("found a recordType other than CONTROL, BLOCK_SUMMARY and REVISION_DETAILS")),
            None if member(fields, "blockAddress").is_some() && member(fields, "transactionId").is_some() => {
                self.block(fields, "revisions").map(Piece::Block)
            }
            None => Err(unexpected("found neither")),
        }
    }

    /// A block; what cannot be used of it is told with its address.
    fn block(self, fields: &Struct, revisions: &str) -> Result<Block, Fault> {
        let address = address_of(fields)?;
        let named = |fault: Fault| Fault { reason: format!("block {}@{}: {}", address.strand, address.sequence, fault.reason), ..fault };
        self.block_at(address.clone(), fields, revisions).map_err(named)
    }

    fn block_at(self, address: Address, fields: &Struct, revisions: &str) -> Result<Block, Fault> {
        let info = member(fields, "transactionInfo");
        let hashed = info.filter(|_| self.hashes);
        let hashed = hashed.map(|info| if self.is_json { json::transaction_info(info) } else { info.clone() });
        let hashed = hashed.map(|info| ion_hash(&info).ok_or_else(too_large)).transpose()?;
        let documents = info.and_then(|info| structure(info.as_struct()?, "documents"));
        let transaction = member(fields, "transactionId").and_then(Element::as_text);
        let (mut summaries, mut details, mut revised) = (Vec::new(), Vec::new(), HashSet::new());
        for entry in list(fields, revisions).into_iter().flatten() {
            let entry = entry.as_struct().ok_or_else(|| unexpected("found an entry of its revisions that is not a struct"))?;
            let is_document = member(entry, "documentId").is_some() || member(entry, "metadata").is_some();
            if !is_document && !has_only(entry, &["hash", "documentId"]) {
                return Err(unexpected(
                    "found an entry of its revisions that has no metadata, and more than the hash of one of the ledger's own",
                ));
            }
            summaries.push(Summary { hash: self.hash(member(entry, "hash")), is_document });
            revised.extend(document_of(entry));
            if let Some(metadata) = structure(entry, "metadata") {
                let id = member(metadata, "id").and_then(Element::as_text).unwrap_or_default();
                let is_elsewhere = member(metadata, "txId").and_then(Element::as_text) != transaction
                    || documents.is_some_and(|documents| member(documents, id).is_none())
                    || member(entry, "blockAddress").is_some() && address_of(entry)? != address;
                details.push(Revision { is_elsewhere, ..self.revision(entry, address.clone())? });
            }
        }
        let named = documents.into_iter().flat_map(Struct::fields);
        let without_revision = named.filter(|(id, _)| !id.text().is_some_and(|id| revised.contains(id))).count() as u64;
        let entries = list(fields, "entriesHashList").map(|entries| entries.map(|entry| self.hash(Some(entry)).unwrap_or_default()));
        Ok(Block {
            address,
            hash: self.hash(member(fields, "blockHash")),
            entries_hash: self.hash(member(fields, "entriesHash")),
            previous: self.hash(member(fields, "previousBlockHash")),
            entries: entries.map(Iterator::collect),
            info: hashed,
            without_revision,
            summaries,
            revisions: details,
        })
    }

    fn revision(self, fields: &Struct, address: Address) -> Result<Revision, Fault> {
        let metadata = member(fields, "metadata").filter(|metadata| metadata.ion_type() == IonType::Struct);
        let metadata = metadata.ok_or_else(|| unexpected("found a revision without metadata"))?;
        let of = |name| member(metadata.as_struct()?, name);
        let (id, version) = (of("id").and_then(Element::as_text), of("version").and_then(|version| u64::try_from(version.as_i64()?).ok()));
        // Of another length it is none: what goes into the root of the revisions with it can be cut in another way.
        let hash = self.hash(member(fields, "hash")).filter(|hash| hash.whole().is_some());
        Ok(Revision {
            address,
            id: id.ok_or_else(|| unexpected("found a revision without metadata.id"))?.to_owned(),
            version: version.ok_or_else(|| unexpected("found a revision whose metadata.version is no whole number of 64 bits"))?,
            is_elsewhere: false,
            proof: if self.hashes { self.proof(fields, metadata, hash.as_ref()) } else { Proof::Unasked },
            hash,
        })
    }

    fn proof(self, fields: &Struct, metadata: &Element, stated: Option<&Hash>) -> Proof {
        let (data, data_hash) = (member(fields, "data"), self.hash(member(fields, "dataHash")));
        let Some(stated) = stated else { return Proof::Unstated };
        if data.is_none() && member(fields, "dataHash").is_none() {
            // What has something in the place of data is none: a name that was changed hides it.
            let is_deletion = has_only(fields, &["blockAddress", "hash", "data", "dataHash", "metadata"]);
            return if is_deletion { Proof::Deletion } else { Proof::Unreadable };
        }
        let metadata = if self.is_json { ion_hash(&json::metadata(metadata)) } else { ion_hash(metadata) };
        let Some(metadata) = metadata else { return Proof::Unreadable };
        let Some(data) = data else {
            let computed = dot(&metadata, &data_hash.unwrap_or_default());
            return if computed == *stated { Proof::Redacted } else { Proof::Differs(computed) };
        };
        if self.is_json {
            let holds = json::readings(data).any(|reading| ion_hash(&reading).is_some_and(|data| dot(&metadata, &data) == *stated));
            return if holds { Proof::Holds } else { Proof::TypesLost };
        }
        match ion_hash(data).map(|data| dot(&metadata, &data)) {
            None => Proof::Unreadable,
            Some(computed) if computed == *stated => Proof::Holds,
            Some(computed) => Proof::Differs(computed),
        }
    }

    fn hash(self, value: Option<&Element>) -> Option<Hash> {
        let value = value?;
        let bytes = if self.is_json { json::blob(value) } else { value.as_blob().map(<[u8]>::to_vec) };
        bytes.map(Hash::new)
    }
}

#[cfg(test)]
mod tests;
