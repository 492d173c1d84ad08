//! Where the revisions of a table go: an index for each mode that a rule fits it in.
//!
//! Told once for each table, and remembered. Refuses what would mix the documents of two tables, or of two modes, in one index.

use std::collections::HashMap;
use std::sync::Arc;

use super::{JOURNAL_HELP, Mode, Rule};
use crate::error::Error;
use crate::plan::deletes::IndexDeletes;
use crate::plan::names::{default_index, index_name_problem, matches};
use crate::record::Fault;

/// Tables of which the destinations are remembered; more are worked out again each time.
pub(super) const REMEMBERED_TABLES: usize = 1_000;

/// Where the revisions of a table go in one mode.
#[derive(Debug, Clone)]
pub struct Destination {
    pub(super) mode: Mode,
    /// The index and its rule, where there is one.
    pub(super) place: Place,
}

#[derive(Debug, Clone)]
pub(super) enum Place {
    Index { name: Arc<str>, rule: Option<usize> },
    Unmapped,
    Unnamable(Fault),
}

impl Destination {
    /// What the index is of the table's revisions.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether no rule is for the table.
    pub fn is_unmapped(&self) -> bool {
        matches!(self.place, Place::Unmapped)
    }

    pub(super) fn unmapped(mode: Mode) -> Self {
        Self { mode, place: Place::Unmapped }
    }
}

/// Where the revisions of a table go: one destination for each mode that it has a rule of, the newest revisions first; and one by itself where
/// nothing is to be done with them.
#[derive(Debug, Clone)]
pub struct Destinations {
    /// That of the newest revisions, or the only one.
    pub first: Destination,
    /// That of the history, where the table has a rule of both modes.
    pub second: Option<Destination>,
}

impl Destinations {
    /// Only that of one mode; it says that the table is unmapped where it has none of this mode.
    #[must_use]
    pub fn only(self, mode: Mode) -> Self {
        let mut of_mode = std::iter::once(self.first).chain(self.second).filter(|destination| destination.mode == mode);
        Self { first: of_mode.next().unwrap_or_else(|| Destination::unmapped(mode)), second: None }
    }
}

/// The tables that were seen, and the index of each.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    seen: HashMap<Arc<str>, Destinations>,
    /// The table that came to an index first, and whether a rule named the index for it.
    owners: HashMap<Arc<str>, (Arc<str>, bool)>,
}

impl Tables {
    /// The destinations of a table by the rules. `journal` is the index of the journal's blocks, and `deletes` what the indices are by the rules.
    pub(super) fn destinations(
        &mut self,
        table: &Arc<str>,
        rules: &[Rule],
        journal: Option<&Arc<str>>,
        deletes: impl FnOnce() -> IndexDeletes,
    ) -> Result<Destinations, Error> {
        if let Some(destinations) = self.seen.get(table) {
            return Ok(destinations.clone());
        }
        let destinations = self.find(table, rules, journal, &deletes())?;
        if self.seen.len() < REMEMBERED_TABLES {
            self.seen.insert(Arc::clone(table), destinations.clone());
        }
        Ok(destinations)
    }

    fn find(
        &mut self,
        table: &Arc<str>,
        rules: &[Rule],
        journal: Option<&Arc<str>>,
        deletes: &IndexDeletes,
    ) -> Result<Destinations, Error> {
        if rules.is_empty() {
            let first = Destination { mode: Mode::Latest, place: self.place(table, None, Mode::Latest, journal, deletes)? };
            return Ok(Destinations { first, second: None });
        }
        let mut found = Mode::ALL.into_iter().filter_map(|mode| {
            let at = rules.iter().position(|rule| rule.mode == mode && matches(&rule.name, table))?;
            let rule = Some((at, &rules[at]));
            Some(self.place(table, rule, mode, journal, deletes).map(|place| Destination { mode, place }))
        });
        let first = found.next().transpose()?.unwrap_or_else(|| Destination::unmapped(Mode::Latest));
        Ok(Destinations { first, second: found.next().transpose()? })
    }

    fn place(
        &mut self,
        table: &Arc<str>,
        rule: Option<(usize, &Rule)>,
        mode: Mode,
        journal: Option<&Arc<str>>,
        deletes: &IndexDeletes,
    ) -> Result<Place, Error> {
        let template = rule.map_or(mode.default_template(), |(_, rule)| rule.template());
        // A template with a placeholder says of no two tables that they belong together.
        let named_by_rule = !template.contains("{table}");
        let name = match default_index(table) {
            Some(default) => Some(template.replace("{table}", &default)),
            None => named_by_rule.then(|| template.to_owned()),
        };
        let Some(name) = name.filter(|name| index_name_problem(name).is_none()) else {
            let reason = format!("expected a table name that an index can be named after, found \"{table}\"; give it a rule with an index");
            return Ok(Place::Unnamable(Fault::new("invalid_index_name", reason)));
        };
        let name: Arc<str> = name.into();
        if journal == Some(&name) {
            return Err(Error::usage(format!("the table \"{table}\" and the journal both come to the index \"{name}\"")).help(JOURNAL_HELP));
        }
        if mode == Mode::Latest && deletes.is_history(&name) {
            let what = format!("the newest revisions of the table \"{table}\" come to the index \"{name}\", which is that of a history");
            return Err(Error::usage(what).help("name another index for one of them in the configuration ([[table]] index = …)"));
        }
        match self.owners.get(&name) {
            Some((owner, owner_named)) if owner != table && !(named_by_rule && *owner_named) => {
                return Err(Error::usage(format!("tables \"{owner}\" and \"{table}\" both come to the index \"{name}\""))
                    .help("name an index for each of them in the configuration ([[table]] name = …, index = …)"));
            }
            Some(_) => {}
            None => {
                self.owners.insert(name.clone(), (table.clone(), named_by_rule));
            }
        }
        Ok(Place::Index { name, rule: rule.map(|(at, _)| at) })
    }
}
