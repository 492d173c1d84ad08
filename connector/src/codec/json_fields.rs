//! The names of the objects that are being written, so that of fields with one name the last is kept.
//!
//! Never compares a name with all the others of a large object, never remembers more than [`MAX_FIELDS`] of them.

use std::collections::HashMap;
use std::hash::Hash;

use super::ion_json::MAX_FIELDS;
use crate::record::Fault;

/// Fields of one object up to which names are compared one by one.
const FEW_FIELDS: usize = 48;

/// The fields written so far of every open object, the innermost last: name, and where the field begins in the text.
#[derive(Debug)]
pub(super) struct Fields<N> {
    written: Vec<(N, usize)>,
}

/// One open object.
#[derive(Debug)]
pub(super) struct Open<N> {
    first: usize,
    /// A bit for every name, by a hash of it: most names are new, and most of these have a bit of their own.
    seen: u64,
    many: HashMap<N, usize>,
    replaced: Vec<usize>,
}

impl<N> Default for Fields<N> {
    fn default() -> Self {
        Self { written: Vec::new() }
    }
}

impl<N: AsRef<str> + Clone + Eq + Hash> Fields<N> {
    /// Begins an object inside of the innermost one.
    pub(super) fn open(&self) -> Open<N> {
        Open { first: self.written.len(), seen: 0, many: HashMap::new(), replaced: Vec::new() }
    }

    /// Begins a field of the innermost object, with a comma where it needs one, and tells whether one of this name is there already.
    ///
    /// # Errors
    /// Too many fields.
    pub(super) fn begin(&mut self, object: &mut Open<N>, name: N, out: &mut Vec<u8>) -> Result<bool, Fault> {
        let text = name.as_ref();
        let bit = 1u64 << (text.bytes().fold(text.len() as u64, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b))) & 63);
        let mine = self.written.len() - object.first;
        if mine == FEW_FIELDS {
            object.many = self.written[object.first..].iter().enumerate().map(|(i, (name, _))| (name.clone(), i)).collect();
        }
        let earlier = if mine >= FEW_FIELDS {
            object.many.insert(name.clone(), mine)
        } else if object.seen & bit != 0 {
            self.written[object.first..].iter().rposition(|(other, _)| *other == name)
        } else {
            None
        };
        object.seen |= bit;
        if self.written.len() == MAX_FIELDS {
            let reason = format!("expected structs of at most {MAX_FIELDS} fields, found more");
            return Err(Fault::new("too_many_values", reason));
        }
        object.replaced.extend(earlier);
        self.written.push((name, out.len()));
        if mine > 0 {
            out.push(b',');
        }
        Ok(earlier.is_some())
    }

    /// Ends the innermost object, before its closing brace: takes fields that a later one replaced out of the text, in one pass.
    pub(super) fn close(&mut self, object: Open<N>, out: &mut Vec<u8>) {
        let Open { first, mut replaced, .. } = object;
        if !replaced.is_empty() {
            replaced.sort_unstable();
            self.drop_replaced(first, &replaced, out);
        }
        self.written.truncate(first);
    }

    fn drop_replaced(&self, first: usize, replaced: &[usize], out: &mut Vec<u8>) {
        let starts: Vec<usize> = self.written[first..].iter().map(|(_, start)| *start).collect();
        let Some(&begin) = starts.first() else { return };
        let tail = out.split_off(begin);
        let end_of = |i: usize| starts.get(i + 1).map_or(tail.len(), |next| next - begin);
        for (i, start) in starts.iter().enumerate() {
            if replaced.binary_search(&i).is_ok() {
                continue;
            }
            let field = &tail[start - begin..end_of(i)];
            let bare = field.strip_prefix(b",").unwrap_or(field);
            if out.len() > begin {
                out.push(b',');
            }
            out.extend_from_slice(bare);
        }
    }
}
