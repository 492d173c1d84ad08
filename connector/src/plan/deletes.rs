//! Which deletes an index can get, told from the rules before any table was seen; and how long a plain one is remembered there.
//!
//! Errs on one side only: what an index can get is always told, what it cannot get is told only where names leave no doubt. An index of a history
//! gets no deletes of any kind: the mapping refuses newest revisions that would come to one.

use std::time::Duration;

use super::mapping::{Deletes, Mode, Rule};
use super::names::{default_index, matches, squashed};
use crate::codec::Rows;

/// How long OpenSearch remembers a delete where `index.gc_deletes` is not set (`IndexSettings.DEFAULT_GC_DELETES`).
pub const DEFAULT_GC_DELETES: Duration = Duration::from_secs(60);

/// What the deletes of each index are. The default is that of a mapping without rules: every index gets plain ones.
#[derive(Debug, Clone, Default)]
pub struct IndexDeletes {
    /// In the order of the rules; `None` where there are none.
    rules: Option<Vec<(Names, Kind)>>,
    /// Without rules, what a put of a row carries.
    rows: Rows,
}

/// What an index gets by a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    mode: Mode,
    deletes: Deletes,
    rows: Rows,
}

/// The indices of one rule.
#[derive(Debug, Clone)]
enum Names {
    One(String),
    /// A table's name between two texts. The table's pattern is [`squashed`].
    Many {
        before: String,
        table: String,
        after: String,
    },
}

impl IndexDeletes {
    /// By these rules; `rows` is what a put of a row carries where there are none.
    pub(super) fn of(rules: &[Rule], rows: Rows) -> Self {
        let kind = |rule: &Rule| Kind { mode: rule.mode, deletes: of_rows(rule.deletes, rule.rows), rows: rule.rows };
        let named = |rule: &Rule| Some((names(rule)?, kind(rule)));
        Self { rules: (!rules.is_empty()).then(|| rules.iter().filter_map(named).collect()), rows }
    }

    /// Whether the index can get deletes of this kind.
    pub fn may(&self, index: &str, deletes: Deletes) -> bool {
        self.any(index, |kind| kind.deletes == deletes)
    }

    /// Whether the index can get rows that are put together from cells.
    pub fn may_merge(&self, index: &str) -> bool {
        self.any(index, |kind| kind.rows == Rows::Cells)
    }

    /// Whether the index is that of a history.
    pub fn is_history(&self, index: &str) -> bool {
        self.rules.iter().flatten().any(|(names, kind)| kind.mode == Mode::History && names.fit(index))
    }

    /// An index that a rule names for newest revisions, and one for a history.
    pub(super) fn of_both_modes(&self) -> Option<&str> {
        let latest = self.rules.iter().flatten().filter(|(_, kind)| kind.mode == Mode::Latest);
        let named = latest.filter_map(|(names, _)| if let Names::One(name) = names { Some(name.as_str()) } else { None });
        named.into_iter().find(|name| self.is_history(name))
    }

    /// The indices that rules name, in the order of the rules, none twice.
    pub fn named(&self) -> Vec<String> {
        let mut named: Vec<String> = Vec::new();
        for (names, _) in self.rules.iter().flatten() {
            if let Names::One(name) = names
                && !named.contains(name)
            {
                named.push(name.clone());
            }
        }
        named
    }

    fn any(&self, index: &str, is: impl Fn(&Kind) -> bool) -> bool {
        let Some(rules) = &self.rules else {
            return is(&Kind { mode: Mode::Latest, deletes: of_rows(Deletes::default(), self.rows), rows: self.rows });
        };
        if self.is_history(index) {
            return false;
        }
        let fitting = |one: bool| rules.iter().filter(move |(names, _)| matches!(names, Names::One(_)) == one && names.fit(index));
        // Two tables come to one index only where rules name it for both, so a rule that names it leaves no room for a pattern.
        let named = fitting(true).next().is_some();
        fitting(named).any(|(_, kind)| is(kind))
    }
}

/// What deletes are where a put carries this: a row that is put together from cells leaves a tombstone, whatever the rule says, because it has
/// to keep up to which version it was erased.
pub fn of_rows(deletes: Deletes, rows: Rows) -> Deletes {
    match rows {
        Rows::Full => deletes,
        Rows::Cells => Deletes::Tombstone,
    }
}

/// The index names of a rule; none where no index can be named after its table.
fn names(rule: &Rule) -> Option<Names> {
    let template = rule.template();
    let Some((before, rest)) = template.split_once("{table}") else { return Some(Names::One(template.to_owned())) };
    if !rule.name.contains('*') {
        return Some(Names::One(template.replace("{table}", &default_index(&rule.name)?)));
    }
    let (table, after) = match rest.rsplit_once("{table}") {
        Some((_, after)) => ("*".to_owned(), after),
        None => (squashed(&rule.name), rest),
    };
    Some(Names::Many { before: before.to_owned(), table, after: after.to_owned() })
}

impl Names {
    fn fit(&self, index: &str) -> bool {
        match self {
            Self::One(name) => name == index,
            Self::Many { before, table, after } => index
                .strip_prefix(before.as_str())
                .and_then(|rest| rest.strip_suffix(after.as_str()))
                .is_some_and(|name| matches(table, &squashed(name))),
        }
    }
}

/// A time as OpenSearch writes it in settings (`TimeValue.parseTimeValue`): `60s`, `1440m`, `24h`. Less than nothing, which is allowed for
/// `index.gc_deletes`, is nothing. `None` for other text.
pub fn setting(text: &str) -> Option<Duration> {
    let text = text.trim();
    if text.starts_with('-') || text == "0" {
        return text.trim_start_matches('-').starts_with(|digit: char| digit.is_ascii_digit()).then_some(Duration::ZERO);
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let nanos: u64 = match unit {
        "nanos" => 1,
        "micros" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    };
    Some(Duration::from_nanos(number.saturating_mul(nanos)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(name: &str, index: Option<&str>, deletes: Deletes) -> Rule {
        Rule { name: name.to_owned(), index: index.map(str::to_owned), deletes, ..Rule::default() }
    }

    fn all(deletes: &IndexDeletes, index: &str) -> Vec<Deletes> {
        [Deletes::Delete, Deletes::Tombstone, Deletes::Keep].into_iter().filter(|kind| deletes.may(index, *kind)).collect()
    }

    #[test]
    fn without_rules_every_index_gets_plain_deletes() {
        assert_eq!(all(&IndexDeletes::of(&[], Rows::Full), "person"), [Deletes::Delete]);
        assert_eq!(all(&IndexDeletes::default(), "person"), [Deletes::Delete]);
    }

    #[test]
    fn a_rule_tells_the_deletes_of_its_indices_and_of_no_other() {
        use Deletes::{Delete, Keep, Tombstone};
        let deletes = IndexDeletes::of(
            &[
                rule("Person", None, Tombstone),
                rule("Audit", Some("log"), Keep),
                rule("shop.*", None, Tombstone),
                rule("HTTP*", Some("web-{table}-v1"), Tombstone),
                rule("a*", Some("both"), Delete),
                rule("b*", Some("both"), Tombstone),
                rule("*", Some("rest-{table}"), Delete),
                rule("***", None, Delete),
            ],
            Rows::Full,
        );
        for (index, expected) in [
            ("person", &[Tombstone][..]),
            ("log", &[Keep]),
            ("shop.orders", &[Delete, Tombstone]),
            ("web-http_log-v1", &[Delete, Tombstone]),
            ("both", &[Delete, Tombstone]),
            ("rest-person", &[Delete]),
            ("web-ftp_log-v1", &[Delete]),
        ] {
            assert_eq!(all(&deletes, index), expected, "{index}");
        }
        assert_eq!(deletes.named(), ["person", "log", "both"]);
        let named = IndexDeletes::of(&[rule("Person", None, Delete), rule("*", None, Tombstone)], Rows::Full);
        assert_eq!(all(&named, "person"), [Delete], "no other table can come to the index that is named");
        assert_eq!(all(&named, "vehicle"), [Tombstone]);
        assert_eq!(all(&IndexDeletes::of(&[rule("Person", None, Tombstone)], Rows::Full), "vehicle"), [] as [Deletes; 0]);
    }

    #[test]
    fn an_index_of_rows_put_together_from_cells_gets_tombstones_whatever_its_rule_says() {
        use Deletes::{Delete, Keep, Tombstone};
        let cells = |deletes| Rule { rows: Rows::Cells, ..rule("Item", None, deletes) };
        for deletes in [Delete, Keep, Tombstone] {
            let of = IndexDeletes::of(&[cells(deletes), rule("*", None, Delete)], Rows::Full);
            assert_eq!((all(&of, "item"), of.may_merge("item")), (vec![Tombstone], true));
            assert_eq!((all(&of, "person"), of.may_merge("person")), (vec![Delete], false));
        }
        let without_rules = IndexDeletes::of(&[], Rows::Cells);
        assert_eq!((all(&without_rules, "item"), without_rules.may_merge("item")), (vec![Tombstone], true));
        assert!(!IndexDeletes::default().may_merge("item"));
    }

    proptest! {
        #[test]
        fn an_index_of_a_table_that_fits_a_pattern_is_never_missed(
            start in "[a-zA-Z_.äÄ]{0,6}",
            middle in "[a-zA-Z0-9_ :äÄ-]{0,8}",
            end in "[a-zA-Z_]{0,6}",
            template in prop::sample::select(vec!["{table}", "x-{table}", "{table}-y", "{table}-{table}"]),
        ) {
            let rule = rule(&format!("{start}*{end}"), Some(template), Deletes::Tombstone);
            if let Some(name) = default_index(&format!("{start}{middle}{end}")) {
                let index = template.replace("{table}", &name);
                prop_assert!(IndexDeletes::of(&[rule], Rows::Full).may(&index, Deletes::Tombstone), "{}", index);
            }
        }
    }

    #[test]
    fn times_of_settings_are_read_in_every_unit() {
        for (text, expected) in [
            ("60s", Some(Duration::from_secs(60))),
            ("24h", Some(Duration::from_secs(86_400))),
            ("1d", Some(Duration::from_secs(86_400))),
            ("1440m", Some(Duration::from_secs(86_400))),
            ("500ms", Some(Duration::from_millis(500))),
            ("7micros", Some(Duration::from_micros(7))),
            ("7nanos", Some(Duration::from_nanos(7))),
            ("0", Some(Duration::ZERO)),
            ("0s", Some(Duration::ZERO)),
            ("-1", Some(Duration::ZERO)),
            ("-1ms", Some(Duration::ZERO)),
            ("60", None),
            ("", None),
            ("-", None),
            ("soon", None),
        ] {
            assert_eq!(setting(text), expected, "{text}");
        }
    }
}
