//! The hash of a revision: `hash = dot(ionhash(metadata), ionhash(data))` (QLDB developer guide, "Verifying a document revision").
//!
//! Hashes follow from Ion values, never from JSON, so the value that is being decoded is read once more by ion-rs, which has the Ion Hash.
//! Never reads anything that nests deeper than a document may, or that has more values.

use ion_rs::v1_0::Binary;
use ion_rs::{Element, ElementReader as _, Reader};

use super::audit::hash::{Hash, dot};
use super::ion_binary::{self, Type, Value};
use super::ion_json::MAX_DEPTH;
use super::ion_text::guarded;
use crate::metrics::Notes;
use crate::record::Fault;
use crate::revision::Change;

/// Structs around a revision's data.
const ENVELOPE_DEPTH: usize = 3;

/// Values that a revision may have to be read as a whole: each takes some hundred bytes. The largest document that a ledger takes, 128 KB, has
/// no more.
const MAX_HASHED_VALUES: usize = 1 << 17;

/// What is at this path of a value, the only one of a record by itself, as ion-rs reads it. One that nests too deeply is not read: ion-rs builds
/// elements recursively.
pub(super) fn element(record: &[u8], value: Value<'_>, path: &[&str]) -> Option<Element> {
    is_small(value, MAX_DEPTH + ENVELOPE_DEPTH, &mut 0)?;
    let whole = guarded(|| Reader::new(Binary, record).ok()?.read_next_element().ok()?).ok()?;
    path.iter().try_fold(whole, |parent, name| member(&parent, name))
}

/// Of a repeated member the last counts, as it does for what is written: a hash must not vouch for another one.
fn member(parent: &Element, name: &str) -> Option<Element> {
    parent.as_struct()?.get_all(name).last().cloned()
}

fn is_small(value: Value<'_>, levels: usize, count: &mut usize) -> Option<()> {
    *count += 1;
    match value.ion_type {
        _ if *count > MAX_HASHED_VALUES => None,
        Type::List | Type::SExp | Type::Struct if levels == 0 => None,
        Type::Struct => ion_binary::fields(value).try_for_each(|field| is_small(field.ok()?.1, levels - 1, count)),
        Type::List | Type::SExp => ion_binary::items(value).try_for_each(|item| is_small(item.ok()?, levels - 1, count)),
        _ => Some(()),
    }
}

/// Checks a revision, which `element` reads. A redacted one has its `dataHash` in place of the data's hash. How the hash of a deletion is made is not published, so
/// it stays unchecked.
///
/// # Errors
/// Another hash than the stated one, and Ion that ion-rs cannot read.
pub(super) fn verify(
    change: &Change,
    stated: Option<&[u8]>,
    data_hash: Option<&[u8]>,
    element: impl FnOnce() -> Option<Element>,
    notes: &mut Notes,
) -> Result<(), Fault> {
    let Some(stated) = stated.filter(|_| *change != Change::Delete) else {
        notes.hashes_unchecked += 1;
        return Ok(());
    };
    let unreadable = || {
        Fault::new(
            "undecodable",
            "expected a revision that can be hashed, found Ion that cannot be read as a whole, or one of too many values",
        )
    };
    let revision = element().ok_or_else(unreadable)?;
    let hash_of = |name: &str| {
        let value = member(&revision, name);
        guarded(|| Some(ion_rs::ion_hash::sha256(value.as_ref()?).ok()?.to_vec())).map_err(|_| unreadable())
    };
    let metadata = hash_of("metadata")?;
    let data = match change {
        Change::Put(_) => hash_of("data")?,
        _ => data_hash.unwrap_or_default().to_vec(),
    };
    if dot(&Hash::new(metadata), &Hash::new(data)).as_bytes() == stated {
        notes.hashes_verified += 1;
        return Ok(());
    }
    notes.hashes_mismatched += 1;
    let reason = "expected the revision's hash to follow from its metadata and data, found another one: its content was changed";
    Err(Fault::new("hash_mismatch", reason))
}
