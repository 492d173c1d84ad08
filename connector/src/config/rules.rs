//! The rules of a configuration file as a whole: what none of them shows by itself.
//!
//! Looks at what a person wrote, before anything is made of it; what a rule may ask for is in [`plan::mapping`](crate::plan::mapping).

use super::file::TableRule;
use super::settings::key_problem;
use crate::error::Error;
use crate::plan::mapping::Mode;
use crate::plan::names::matches;

/// The rules, each of which can apply and says nothing that cannot be.
///
/// # Errors
/// The first that does not.
pub(super) fn checked(tables: Vec<TableRule>) -> Result<Vec<TableRule>, Error> {
    for (at, rule) in tables.iter().enumerate() {
        if rule.name.is_empty() {
            return Err(Error::usage("[[table]]: expected the name of a table or a pattern with *, found an empty name"));
        }
        if tables[..at].iter().any(|earlier| (&earlier.name, earlier.mode) == (&rule.name, rule.mode)) {
            let what = format!(
                "[[table]] {:?}: two rules with mode = \"{}\" have this name, and the second could never apply",
                rule.name,
                rule.mode.as_str()
            );
            return Err(Error::usage(what).help("of each mode the first rule that matches a table wins; remove one of them"));
        }
        if let Some(latest) = decoded_by(rule, &tables).into_iter().find(|latest| wants_otherwise(rule, latest)) {
            let what = format!(
                "[[table]] {:?}: key, rows, types, decimals and non_finite say how records are read, which is done once for both modes: expected them \
                 in the rule for {:?} with mode = \"latest\", and none of them, or the same, in that with mode = \"history\"",
                rule.name, latest.name
            );
            return Err(Error::usage(what));
        }
        if let Some(problem) = key_problem(&rule.key) {
            return Err(Error::usage(format!("[[table]] {:?}: key: {problem}", rule.name)));
        }
        let paths = rule.fields.iter().flatten().chain(&rule.exclude);
        if let Some(path) = paths.into_iter().find(|path| path.split('.').any(str::is_empty)) {
            return Err(Error::usage(format!(
                "[[table]] {:?}: expected a path of field names such as \"Owners.PrimaryOwner\", found {path:?}",
                rule.name
            )));
        }
        if rule.metadata_field.as_deref().is_some_and(|field| field.is_empty() || field.split('.').any(str::is_empty)) {
            return Err(Error::usage(format!("[[table]] {:?}: expected the name of a field as metadata_field", rule.name)));
        }
    }
    Ok(tables)
}

/// The rules for newest revisions that say how the records of a history's tables are read.
fn decoded_by<'a>(history: &TableRule, tables: &'a [TableRule]) -> Vec<&'a TableRule> {
    let latest = tables.iter().filter(|rule| rule.mode == Mode::Latest);
    match (history.mode, history.name.contains('*')) {
        (Mode::Latest, _) => Vec::new(),
        (Mode::History, false) => latest.filter(|latest| matches(&latest.name, &history.name)).take(1).collect(),
        (Mode::History, true) => {
            latest.filter(|latest| matches(&history.name, &latest.name) || matches(&latest.name, &history.name)).collect()
        }
    }
}

/// Whether a rule for a history wants records to be read in another way than the rule that says how they are.
fn wants_otherwise(history: &TableRule, latest: &TableRule) -> bool {
    let none = TableRule::default();
    let other = |is_set: bool, is_same: bool| is_set && !is_same;
    other(history.key != none.key, history.key == latest.key)
        || other(history.rows.is_some(), history.rows == latest.rows)
        || other(history.types != none.types, history.types == latest.types)
        || other(history.decimals != none.decimals, history.decimals == latest.decimals)
        || other(history.non_finite != none.non_finite, history.non_finite == latest.non_finite)
}
