//! What is wrong with what an index holds of a row of cells: each cell is judged by its own version.
//!
//! What the stream has and the index has not, or older, makes it stale; what the index has newer stays, whatever else is mended. To send cells again
//! changes nothing where the index has the same versions, so that a value that was changed under its version is written anew. Reads no document.

use super::{Class, Mend};
use crate::plan::cells::Row;
use crate::plan::same::is_same;

/// What is held of a row.
#[derive(Debug, Clone, Copy)]
pub struct HeldRow<'a> {
    /// The version of the document, as the index counts.
    pub version: u64,
    /// Its cells; `None` where it is no row of cells, or its cells are not those of its columns.
    pub row: Option<&'a Row>,
}

/// What is wrong, what mends it, and whether it is only the content.
pub type Judged = (Class, Mend, bool);

/// Judges what is held of a row by what the stream says of it. `values`: whether the values of cells are compared beside their versions.
pub fn judge_row(folded: &Row, held: Option<HeldRow<'_>>, values: bool) -> Option<Judged> {
    let Some(HeldRow { version, row }) = held else { return Some((Class::Missing, Mend::Newest, false)) };
    let Some(row) = row else { return Some((Class::Stale, Mend::Anew(version), true)) };
    let (is_older, is_newer) = (lacks(row, folded), lacks(folded, row));
    let is_other = values && is_other(row, folded);
    let mend = if is_other && !is_newer { Mend::Anew(version) } else { Mend::Newest };
    match (is_older, is_newer) {
        (true, _) if row.columns.is_empty() && !folded.columns.is_empty() => Some((Class::Missing, mend, false)),
        (true, false) if folded.columns.is_empty() && !row.columns.is_empty() => Some((Class::Resurrected, mend, false)),
        (true, _) => Some((Class::Stale, mend, false)),
        (false, true) => Some((Class::Ahead, Mend::Nothing, false)),
        (false, false) => is_other.then_some((Class::Stale, mend, true)),
    }
}

/// Whether a row is without something that another one has, by the versions alone.
fn lacks(row: &Row, other: &Row) -> bool {
    let is_lacking = |(name, version): (&String, u64)| {
        row.columns.get(name).map_or_else(|| row.erased.is_none_or(|erased| erased < version), |column| column.version < version)
    };
    other.erased > row.erased || other.columns.iter().any(|(name, column)| is_lacking((name, column.version)))
}

/// Whether any cell has another value at the same version.
fn is_other(row: &Row, other: &Row) -> bool {
    other.columns.iter().any(|(name, column)| {
        let text = |value| std::str::from_utf8(value).unwrap_or_default();
        row.columns.get(name).is_some_and(|held| held.version == column.version && !is_same(text(&held.value), text(&column.value)))
    })
}

#[cfg(test)]
mod tests;
