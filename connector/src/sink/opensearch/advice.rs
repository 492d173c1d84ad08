//! How far deletes hold in an index, where that is less than one might think: what is to be known, and what to do about it.
//!
//! Pure: reads a description of an index and writes sentences. Never asks a server, and never changes an index.

use std::fmt;

use serde_json::json;

use super::creation::{tombstone_filter, tombstone_mapping};
use super::describe::Seen;
use crate::operation::Operation;
use crate::plan::deletes::{DEFAULT_GC_DELETES, setting};

/// Something about an index that a person should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// What was found, and what can come of it.
    pub found: String,
    /// What to do.
    pub help: String,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.found, self.help)
    }
}

/// What an index gets of what wants to be looked at first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Uses {
    /// Plain deletes.
    pub(super) deletes: bool,
    pub(super) tombstones: bool,
    /// Merges of cells, which leave tombstones too.
    pub(super) merges: bool,
}

impl Uses {
    pub(super) fn add(&mut self, operation: &Operation) {
        match operation {
            Operation::Index { .. } => {}
            Operation::Merge { .. } => (self.tombstones, self.merges) = (true, true),
            Operation::Delete { .. } => self.deletes = true,
            Operation::Tombstone { .. } => self.tombstones = true,
        }
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            deletes: self.deletes || other.deletes,
            tombstones: self.tombstones || other.tombstones,
            merges: self.merges || other.merges,
        }
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self {
            deletes: self.deletes && !other.deletes,
            tombstones: self.tombstones && !other.tombstones,
            merges: self.merges && !other.merges,
        }
    }

    pub(super) fn cover(self, other: Self) -> bool {
        other.without(self) == Self::default()
    }
}

/// What is to be known about deletes in the index behind `name`. `gc_deletes` is the time that revsync would set, where the server has that
/// setting; `refusal` is what the server said when it did not take the mapping of tombstones.
pub(super) fn advice(name: &str, seen: &Seen, uses: Uses, gc_deletes: Option<&str>, refusal: Option<&str>) -> Vec<Advice> {
    let forgets = gc_deletes.filter(|_| uses.deletes).and_then(|wanted| forgets(name, seen, wanted));
    let unmapped = (uses.tombstones && !seen.mapped).then(|| unmapped(name, seen, refusal));
    let keeps_no_cells = (uses.merges && !seen.keeps_cells).then(|| keeps_no_cells(name, seen, refusal));
    let unmapped = unmapped.filter(|_| keeps_no_cells.is_none());
    let shows = (uses.tombstones && !seen.hides).then(|| shows(name, seen));
    [keeps_no_cells, forgets, unmapped, shows].into_iter().flatten().collect()
}

/// What is to be known of an index into which nothing can be merged as it is.
fn keeps_no_cells(name: &str, seen: &Seen, refusal: Option<&str>) -> Advice {
    let mut found = format!("index {name} does not map what is kept of merged cells, and would make a field of each column's version");
    let by_hand = format!("PUT {}/_mapping {}", seen.concrete, tombstone_mapping());
    let help = match refusal {
        None => format!("revsync setup maps it, and so does the first merge: {by_hand}"),
        Some(said) => {
            found.push_str(&format!("; the mapping was refused: {said}"));
            format!("{by_hand}; where the field is mapped otherwise, this takes a new index")
        }
    };
    Advice { found, help }
}

fn forgets(name: &str, seen: &Seen, wanted: &str) -> Option<Advice> {
    let found = seen.gc_deletes.as_deref().map_or(Some(DEFAULT_GC_DELETES), setting)?;
    if found >= setting(wanted)? {
        return None;
    }
    let has = seen.gc_deletes.as_deref().unwrap_or("60s, the default");
    Some(Advice {
        found: format!(
            "index {name} remembers a delete for less than {wanted} (index.gc_deletes is {has}): \
             an older revision that is delivered again after that brings the deleted document back"
        ),
        help: format!(
            "PUT {}/_settings {} raises it, and deletes = \"tombstone\" in the table's rule does without it",
            seen.concrete,
            json!({ "index.gc_deletes": wanted })
        ),
    })
}

fn unmapped(name: &str, seen: &Seen, refusal: Option<&str>) -> Advice {
    let mut found =
        format!("index {name} does not map the fields of tombstones, without which no filter hides them and no sweep finds them");
    let by_hand = format!("PUT {}/_mapping {}", seen.concrete, tombstone_mapping());
    let help = match refusal {
        None => format!("revsync setup maps them, and so does the first write: {by_hand}"),
        Some(said) => {
            found.push_str(&format!(", and the mapping was refused: {said}"));
            format!("{by_hand}; where a field is mapped otherwise, this takes a new index")
        }
    };
    Advice { found, help }
}

fn shows(name: &str, seen: &Seen) -> Advice {
    let Seen { index, concrete, .. } = seen;
    let add = |alias: &str, rest: serde_json::Value| {
        let mut add = json!({ "index": concrete, "alias": alias, "filter": tombstone_filter() });
        if let (Some(add), Some(rest)) = (add.as_object_mut(), rest.as_object()) {
            add.extend(rest.clone());
        }
        format!("POST _aliases {}", json!({ "actions": [{ "add": add }] }))
    };
    if index.alias {
        return Advice {
            found: format!("alias {name} does not hide tombstones: whoever searches it sees deleted documents as such"),
            help: add(name, json!({ "is_write_index": true })),
        };
    }
    Advice {
        found: format!("index {name} is no alias, and so does not hide tombstones: whoever searches it sees deleted documents as such"),
        help: format!("let readers use an alias that hides them: {}", add(&format!("{name}-search"), json!({}))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::describe::Index;
    use super::*;

    const DELETES: Uses = Uses { deletes: true, tombstones: false, merges: false };
    const TOMBSTONES: Uses = Uses { deletes: false, tombstones: true, merges: false };
    const MERGES: Uses = Uses { deletes: false, tombstones: true, merges: true };

    fn seen(alias: bool, gc_deletes: Option<&str>) -> Seen {
        let index = Index { alias, uuid: None };
        Seen {
            index,
            concrete: "people-1".into(),
            gc_deletes: gc_deletes.map(str::to_owned),
            mapped: true,
            keeps_cells: true,
            hides: true,
            keeps_source: true,
            others: Vec::new(),
        }
    }

    fn said(seen: &Seen, uses: Uses) -> Vec<String> {
        advice("people", seen, uses, Some("24h"), None).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_index_that_forgets_deletes_too_soon_is_told_with_what_to_do() {
        assert_eq!(
            said(&seen(true, None), DELETES),
            ["index people remembers a delete for less than 24h (index.gc_deletes is 60s, the default): an older revision that is \
              delivered again after that brings the deleted document back; PUT people-1/_settings {\"index.gc_deletes\":\"24h\"} raises it, \
              and deletes = \"tombstone\" in the table's rule does without it"]
        );
        for (gc_deletes, advised) in [("1439m", true), ("-1", true), ("24h", false), ("1d", false), ("8760h", false), ("for ever", false)] {
            assert_eq!(said(&seen(true, Some(gc_deletes)), DELETES).len(), usize::from(advised), "{gc_deletes}");
        }
        assert_eq!(said(&seen(true, None), TOMBSTONES), [] as [&str; 0], "tombstones need no memory");
        assert_eq!(advice("people", &seen(true, None), DELETES, None, None), [], "a server without the setting");
    }

    #[test]
    fn an_index_that_shows_tombstones_is_told_with_the_alias_that_does_not() {
        let alias = said(&Seen { hides: false, ..seen(true, None) }, TOMBSTONES);
        assert!(alias[0].contains("alias people does not hide tombstones"), "{alias:?}");
        assert!(
            alias[0].ends_with(
                r#"POST _aliases {"actions":[{"add":{"alias":"people","filter":{"bool":{"must_not":{"term":{"revsync.deleted":true}}}},"index":"people-1","is_write_index":true}}]}"#
            ),
            "{alias:?}"
        );
        let index = said(&Seen { hides: false, ..seen(false, None) }, TOMBSTONES);
        assert!(index[0].contains("index people is no alias") && index[0].contains("people-search"), "{index:?}");
        assert_eq!(said(&Seen { hides: false, ..seen(true, Some("24h")) }, DELETES), [] as [&str; 0], "there are none to hide");
    }

    #[test]
    fn an_index_without_the_fields_of_tombstones_is_told_how_to_map_them() {
        let told = said(&Seen { mapped: false, ..seen(true, None) }, TOMBSTONES);
        let refused = advice("people", &Seen { mapped: false, ..seen(true, None) }, TOMBSTONES, None, Some("no permissions"));
        assert!(refused[0].found.ends_with("the mapping was refused: no permissions"), "{refused:?}");
        assert!(told.len() == 1 && told[0].contains("PUT people-1/_mapping {\"properties\":{\"revsync\":"), "{told:?}");
    }

    #[test]
    fn an_index_that_has_no_place_for_cells_is_told_how_to_make_it() {
        let without = Seen { keeps_cells: false, mapped: false, ..seen(true, None) };
        let told = said(&without, MERGES);
        assert!(told.len() == 1 && told[0].contains(r#"PUT people-1/_mapping {"properties":{"revsync":"#), "{told:?}");
        let refused = advice("people", &without, MERGES, None, Some("no permissions"));
        assert!(refused[0].found.ends_with("the mapping was refused: no permissions"), "{refused:?}");
        assert_eq!(said(&Seen { keeps_cells: false, ..seen(true, None) }, TOMBSTONES), [] as [&str; 0], "nothing is merged there");
    }

    #[test]
    fn an_index_is_made_ready_for_each_use_once() {
        assert!(MERGES.cover(TOMBSTONES) && !TOMBSTONES.cover(MERGES));
        let both = DELETES.and(TOMBSTONES);
        assert!(both.cover(DELETES) && both.cover(both) && DELETES.cover(Uses::default()) && !DELETES.cover(both));
        assert_eq!(both.without(DELETES), TOMBSTONES);
    }
}
