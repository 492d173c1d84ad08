//! Journal exports of QLDB in a tree of files: which files their manifests name, in which order, and what is missing of them.
//!
//! A tree may hold several exports, other captures beside them, or no manifest at all. A file that is there is read, whatever a manifest says.

mod contents;
mod names;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{Cursor, Read};

use flate2::bufread::MultiGzDecoder;

use super::files::Entry;
use super::recognise::GZIP_MAGIC;
use crate::codec::export::keys;
pub(super) use contents::Contents;
use names::About;

/// The most bytes that a manifest may have: one names some hundred bytes for each file.
const LARGEST: u64 = 64 << 20;

/// Files in the order in which they are to be read.
pub(super) struct Arranged {
    pub(super) entries: Vec<Entry>,
    /// What there is to say of the exports.
    pub(super) notes: Vec<String>,
    /// Whether something of an export is not there, or may not be.
    pub(super) is_incomplete: bool,
}

/// What a manifest is and holds; an error in words where it cannot be read.
struct Manifest {
    path: String,
    about: About,
    content: Result<Vec<u8>, String>,
}

/// Whether a path is that of a manifest of an export.
pub(super) fn is_manifest(path: &str) -> bool {
    names::about(path).is_some()
}

/// Puts files in the order of the manifests beside them; those that none names come last. Reads the manifests, and so may block.
pub(super) fn arrange(entries: Vec<Entry>, mut manifests: Vec<Entry>) -> Arranged {
    let paths: Vec<String> = entries.iter().map(|entry| entry.listed().map(|file| file.name).unwrap_or_default()).collect();
    let manifests: Vec<Manifest> = manifests
        .iter_mut()
        .filter_map(|entry| {
            let path = entry.listed()?.name;
            let about = names::about(&path)?;
            let content = if matches!(about, About::Completed { .. }) { content(entry) } else { Ok(Vec::new()) };
            Some(Manifest { path, about, content })
        })
        .collect();
    let plan = Plan::new(&paths, &manifests);
    let mut entries: Vec<Option<Entry>> = entries.into_iter().map(Some).collect();
    let mut arranged: Vec<Entry> = plan.order.iter().filter_map(|&at| entries[at].take()).collect();
    arranged.extend(entries.into_iter().flatten());
    Arranged { entries: arranged, notes: plan.notes, is_incomplete: plan.is_incomplete }
}

/// The bytes of a manifest, decompressed: who compresses an export compresses its manifests too.
fn content(entry: &mut Entry) -> Result<Vec<u8>, String> {
    let all = |input: Box<dyn Read + Send>| -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        match input.take(LARGEST + 1).read_to_end(&mut bytes) {
            Err(error) => Err(format!("it cannot be read: {error}")),
            Ok(_) if bytes.len() as u64 > LARGEST => Err(format!("it has more than {} MiB", LARGEST >> 20)),
            Ok(_) => Ok(bytes),
        }
    };
    let bytes = all(entry.bytes().map_err(|error| format!("it cannot be read: {error}"))?)?;
    if bytes.starts_with(&GZIP_MAGIC) { all(Box::new(MultiGzDecoder::new(Cursor::new(bytes)))) } else { Ok(bytes) }
}

/// What the manifests of a tree come to.
#[derive(Debug, Default)]
struct Plan {
    /// Files that manifests name, in their order, each once.
    order: Vec<usize>,
    notes: Vec<String>,
    is_incomplete: bool,
}

/// The blocks of one strand that an export holds.
struct Span<'a> {
    export: &'a str,
    first: u64,
    last: u64,
}

impl Plan {
    fn new(paths: &[String], manifests: &[Manifest]) -> Self {
        let mut plan = Self::default();
        let tree = Tree::new(paths);
        let mut named = HashSet::new();
        let mut spans: BTreeMap<String, Vec<Span<'_>>> = BTreeMap::new();
        let mut lists = Vec::new();
        for manifest in manifests {
            let About::Completed { export, strand } = &manifest.about else { continue };
            let keys = manifest
                .content
                .as_deref()
                .map_err(String::clone)
                .and_then(|bytes| keys(bytes).map_err(|found| format!("expected the keys of the export's files, found {found}")));
            match keys {
                Ok(keys) => lists.push((manifest, export, strand, keys)),
                Err(problem) => plan.lacks(format!("the manifest {} says nothing: {problem}", manifest.path)),
            }
        }
        // Of one strand, the older blocks come first.
        lists.sort_by_cached_key(|(_, _, strand, keys)| {
            ((*strand).clone(), keys.first().and_then(|key| names::blocks(key)).map(|blocks| blocks.first))
        });
        for (manifest, export, _, keys) in &lists {
            let mut missing = Vec::new();
            for key in keys {
                match tree.find(key, &manifest.path, &named) {
                    Some(at) if named.insert(at) => plan.order.push(at),
                    Some(_) => {}
                    None => missing.push(key),
                }
            }
            if let Some(first) = missing.first() {
                plan.lacks(format!(
                    "export {export}: {} of the {} files that {} names are not here, the first is {first}",
                    missing.len(),
                    keys.len(),
                    names::last_part(&manifest.path)
                ));
            }
            plan.spans(export, keys, &mut spans);
        }
        plan.unfinished(manifests);
        plan.borders(&mut spans);
        if !lists.is_empty() {
            let strangers: Vec<&String> = paths
                .iter()
                .enumerate()
                .filter(|(at, path)| !named.contains(at) && names::blocks(path).is_some())
                .map(|(_, path)| path)
                .collect();
            if let Some(first) = strangers.first() {
                plan.notes
                    .push(format!("{} files of blocks are named by no manifest, and are read too, the first is {first}", strangers.len()));
            }
        }
        plan
    }

    /// Something is not there that should be.
    fn lacks(&mut self, note: String) {
        self.notes.push(note);
        self.is_incomplete = true;
    }

    /// Which blocks an export holds of each strand, and gaps between its files.
    fn spans<'a>(&mut self, export: &'a str, keys: &[String], spans: &mut BTreeMap<String, Vec<Span<'a>>>) {
        let mut of_strands: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
        for blocks in keys.iter().filter_map(|key| names::blocks(key)) {
            of_strands.entry(blocks.strand).or_default().push((blocks.first, blocks.last));
        }
        for (strand, mut ranges) in of_strands {
            ranges.sort_unstable();
            let (first, mut last) = ranges[0];
            for &(next, end) in &ranges[1..] {
                if next > last.saturating_add(1) {
                    self.lacks(format!("export {export}: no file holds the blocks {} to {} of strand {strand}", last + 1, next - 1));
                }
                last = last.max(end);
            }
            spans.entry(strand).or_default().push(Span { export, first, last });
        }
    }

    /// Exports that were begun, and have nothing that says that they were done.
    fn unfinished(&mut self, manifests: &[Manifest]) {
        let done: HashSet<&str> = manifests
            .iter()
            .filter_map(|manifest| if let About::Completed { export, .. } = &manifest.about { Some(export.as_str()) } else { None })
            .collect();
        for manifest in manifests {
            if let About::Started { export } = &manifest.about
                && !done.contains(export.as_str())
            {
                self.lacks(format!(
                    "export {export}: it was started, and there is no completed manifest: it was not done, or not all of it is here"
                ));
            }
        }
    }

    /// How the exports of one strand lie to one another.
    fn borders(&mut self, spans: &mut BTreeMap<String, Vec<Span<'_>>>) {
        for (strand, spans) in spans {
            spans.sort_unstable_by_key(|span| (span.first, span.last));
            let mut reached = &spans[0];
            for span in &spans[1..] {
                let (before, export, first) = (reached.export, span.export, span.first);
                self.notes.push(if first <= reached.last {
                    let last = reached.last.min(span.last);
                    format!("exports {before} and {export} of strand {strand} overlap: both hold the blocks {first} to {last}, which does no harm")
                } else if first - 1 == reached.last {
                    format!("export {export} of strand {strand} goes on where export {before} ends, at block {first}")
                } else {
                    format!("exports {before} and {export} of strand {strand} leave a gap: the blocks {} to {} are in neither", reached.last + 1, first - 1)
                });
                if span.last > reached.last {
                    reached = span;
                }
            }
        }
    }
}

/// Files by the last parts of their paths.
struct Tree<'a> {
    paths: &'a [String],
    by_name: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Tree<'a> {
    fn new(paths: &'a [String]) -> Self {
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, path) in paths.iter().enumerate() {
            by_name.entry(names::uncompressed(names::last_part(path))).or_default().push(at);
        }
        Self { paths, by_name }
    }

    /// The file of a key: that of its name whose path fits the key best from the end, because a tree may hold a bucket, a prefix or less; of several,
    /// one that lies near the manifest and is not named yet.
    fn find(&self, key: &str, manifest: &str, named: &HashSet<usize>) -> Option<usize> {
        let candidates = self.by_name.get(names::uncompressed(names::last_part(key)))?;
        candidates.iter().copied().max_by_key(|&at| {
            let path = &self.paths[at];
            let tail = path.rsplit('/').skip(1).zip(key.rsplit('/').skip(1)).take_while(|(a, b)| a == b).count();
            let head = path.split('/').zip(manifest.split('/')).take_while(|(a, b)| a == b).count();
            (tail, head, !named.contains(&at), std::cmp::Reverse(at))
        })
    }
}

#[cfg(test)]
mod tests;
