use bytes::Bytes;

use super::destination::REMEMBERED_TABLES;
use super::*;
use crate::plan::filter::Filter;
use crate::plan::projection::Paths;
use crate::revision::{Cell, Cells, Document};

/// What becomes of a revision whose table goes to one index only.
trait Sole {
    fn sole(&mut self, revision: Revision, now: u64) -> Result<Planned, Error>;
    fn leaves(&mut self, revision: Revision, now: u64) -> bool;
}

impl Sole for Mapping {
    fn sole(&mut self, revision: Revision, now: u64) -> Result<Planned, Error> {
        let plans: Vec<Plan> = self.plan(revision, now)?.into_iter().collect();
        let [Plan { planned, .. }] = plans.as_slice() else { panic!("expected one plan, found {plans:?}") };
        Ok(planned.clone())
    }

    fn leaves(&mut self, revision: Revision, now: u64) -> bool {
        self.plan(revision, now).unwrap().into_iter().any(|plan| plan.leaves)
    }
}

const NOW: u64 = 1_700_000_000_000;

fn revision(table: &str, id: &str, change: Change) -> Revision {
    Revision {
        table: table.into(),
        id: id.to_owned(),
        version: 3,
        version_type: VersionType::External,
        change,
        metadata: None,
        committed: None,
    }
}

fn put(table: &str, id: &str) -> Revision {
    revision(table, id, Change::Put(Document(Bytes::from_static(br#"{"a":1,"b":2}"#))))
}

fn mapping(rules: impl IntoIterator<Item = Rule>) -> Mapping {
    Mapping::new(rules.into_iter().collect()).unwrap()
}

fn rule(name: &str, index: Option<&str>) -> Rule {
    Rule { name: name.to_owned(), index: index.map(str::to_owned), ..Rule::default() }
}

fn target(planned: Planned) -> Target {
    match planned {
        Planned::Operation(operation) => operation.target().clone(),
        other => panic!("expected an operation, found {other:?}"),
    }
}

fn fault(planned: Planned) -> String {
    match planned {
        Planned::Fault(fault) => fault.kind,
        other => panic!("expected a fault, found {other:?}"),
    }
}

#[test]
fn without_rules_every_table_goes_to_the_index_of_its_name_with_the_document_as_it_is() {
    let planned = mapping([]).sole(put("VehicleRegistration", "a"), NOW).unwrap();
    let Planned::Operation(Operation::Index { target, document }) = planned else { panic!("{planned:?}") };
    assert_eq!((&*target.index, target.id.as_str(), target.version), ("vehicle_registration", "a", 3));
    assert_eq!(document.as_bytes(), br#"{"a":1,"b":2}"#);
}

#[test]
fn two_tables_in_one_index_are_refused_unless_a_rule_names_the_index_for_both() {
    let both = |rules: Vec<Rule>| {
        let mut mapping = mapping(rules);
        mapping.sole(put("Person", "a"), NOW).unwrap();
        mapping.sole(put("person", "b"), NOW).map(target)
    };
    let refused = both(vec![]).unwrap_err();
    assert!(refused.what.contains("\"Person\"") && refused.what.contains("\"person\""), "{refused}");
    assert!(both(vec![rule("*", Some("x-{table}"))]).is_err(), "a placeholder says of no two tables that they belong together");
    assert!(both(vec![rule("Person", Some("person")), rule("*", None)]).is_err());
    assert_eq!(&*both(vec![rule("*", Some("all"))]).unwrap().index, "all");
    assert_eq!(&*both(vec![rule("Person", Some("one")), rule("person", Some("one"))]).unwrap().index, "one");
}

#[test]
fn more_tables_than_are_remembered_still_go_where_they_belong() {
    let mut mapping = mapping([]);
    for round in 0..2 {
        for number in 0..REMEMBERED_TABLES + 50 {
            let found = target(mapping.sole(put(&format!("T{number}"), "a"), NOW).unwrap());
            assert_eq!(*found.index, format!("t{number}"), "round {round}");
        }
    }
    assert!(mapping.sole(put("t7", "a"), NOW).is_err());
    assert!(mapping.sole(put(&format!("t{}", REMEMBERED_TABLES + 20), "a"), NOW).is_err());
}

#[test]
fn the_first_rule_that_fits_counts_and_a_table_without_one_is_unmapped() {
    let mut mapping = mapping([rule("shop.*", Some("shop")), rule("shop.orders", Some("orders"))]);
    assert_eq!(&*target(mapping.sole(put("shop.orders", "a"), NOW).unwrap()).index, "shop");
    assert_eq!(mapping.sole(put("Person", "a"), NOW), Ok(Planned::Skip(Skip::Unmapped)));
}

#[test]
fn a_redaction_is_skipped_and_a_delete_deletes_unless_the_rule_keeps() {
    let mut plain = mapping([]);
    assert_eq!(plain.sole(revision("Person", "a", Change::Redaction), NOW), Ok(Planned::Skip(Skip::Redacted)));
    assert!(matches!(plain.sole(revision("Person", "a", Change::Delete), NOW), Ok(Planned::Operation(Operation::Delete { .. }))));
    let mut keeping = mapping([Rule { deletes: Deletes::Keep, ..rule("*", None) }]);
    assert_eq!(keeping.sole(revision("Person", "a", Change::Delete), NOW), Ok(Planned::Skip(Skip::Filtered)));
    assert_eq!(keeping.sole(revision("Person", "a", Change::Redaction), NOW), Ok(Planned::Skip(Skip::Redacted)));
}

#[test]
fn a_delete_under_tombstones_is_one_at_its_own_version_with_the_time_of_the_plan() {
    let mut mapping = mapping([Rule { deletes: Deletes::Tombstone, routing: Some("{table}".into()), ..rule("*", None) }]);
    let Ok(Planned::Operation(Operation::Tombstone { target, time })) = mapping.sole(revision("Person", "a", Change::Delete), NOW) else {
        panic!("expected a tombstone")
    };
    assert_eq!((target.version, target.routing.as_deref(), time), (3, Some("Person"), NOW));
    assert!(matches!(mapping.sole(put("Person", "a"), NOW), Ok(Planned::Operation(Operation::Index { .. }))));
    assert_eq!(mapping.sole(revision("Person", "a", Change::Redaction), NOW), Ok(Planned::Skip(Skip::Redacted)));
    assert_eq!(fault(mapping.sole(revision("Person", "", Change::Delete), NOW).unwrap()), "empty_id");
}

#[test]
fn the_field_of_tombstones_takes_no_metadata() {
    let rule = |deletes| Rule { deletes, metadata_field: Some("revsync".into()), ..rule("Person", None) };
    assert!(Mapping::new(vec![rule(Deletes::Tombstone)]).unwrap_err().what.contains("metadata_field"));
    assert!(Mapping::new(vec![rule(Deletes::Delete)]).is_ok());
}

#[test]
fn ids_and_versions_beyond_what_opensearch_takes_are_faults() {
    let mut mapping = mapping([]);
    assert_eq!(target(mapping.sole(put("Person", &"x".repeat(512)), NOW).unwrap()).id.len(), 512);
    assert_eq!(fault(mapping.sole(put("Person", &"x".repeat(513)), NOW).unwrap()), "id_too_long");
    assert_eq!(fault(mapping.sole(put("Person", &"é".repeat(257)), NOW).unwrap()), "id_too_long");
    assert_eq!(fault(mapping.sole(put("Person", ""), NOW).unwrap()), "empty_id");
    let beyond = Revision { version: MAX_VERSION + 1, ..put("Person", "a") };
    assert_eq!(fault(mapping.sole(beyond, NOW).unwrap()), "version_out_of_range");
    assert_eq!(target(mapping.sole(Revision { version: MAX_VERSION, ..put("Person", "a") }, NOW).unwrap()).version, MAX_VERSION);
    assert_eq!(fault(mapping.sole(put("***", "a"), NOW).unwrap()), "invalid_index_name");
}

#[test]
fn a_long_id_under_a_rule_is_a_hash_that_is_the_same_every_time_and_marked_as_one() {
    let mut mapping = mapping([Rule { long_ids: LongIds::Hash, ..rule("*", None) }]);
    let mut id = |id: String| target(mapping.sole(put("Person", &id), NOW).unwrap()).id;
    let (first, again, other) = (id("x".repeat(513)), id("x".repeat(513)), id("x".repeat(514)));
    assert!(first == again && first != other && first.starts_with("sha256:") && first.len() == 71, "{first} {other}");
    assert_eq!(id("x".repeat(512)).len(), 512);
}

#[test]
fn metadata_and_chosen_fields_make_the_document_that_the_rule_wants() {
    let fields = Paths::parse(["b"]).unwrap();
    let mut mapping = mapping([Rule { fields, metadata_field: Some("_ledger".into()), ..rule("*", None) }]);
    let metadata = Some(Document(Bytes::from_static(br#"{"version":3}"#)));
    let Ok(Planned::Operation(Operation::Index { document, .. })) = mapping.sole(Revision { metadata, ..put("Person", "a") }, NOW) else {
        panic!("expected a document")
    };
    assert_eq!(document.as_bytes(), br#"{"b":2,"_ledger":{"version":3}}"#);
}

fn filtered(condition: &str, deletes: Deletes) -> Rule {
    Rule { filter: Some(Filter::parse(condition).unwrap()), deletes, ..rule("*", None) }
}

#[test]
fn a_put_that_does_not_match_is_a_delete_at_its_own_version_or_what_the_rule_makes_of_deletes() {
    for (condition, leaves) in [("a = 1", false), ("a = 2", true), ("nothing = 1", true), ("NOT nothing = 1", true)] {
        let mut deleting = mapping([filtered(condition, Deletes::Delete)]);
        let planned = deleting.sole(put("Person", "a"), NOW).unwrap();
        assert_eq!(matches!(planned, Planned::Operation(Operation::Delete { .. })), leaves, "{condition}");
        assert_eq!(target(planned).version, 3);
        assert_eq!(deleting.leaves(put("Person", "a"), NOW), leaves, "{condition}");
        let kept = mapping([filtered(condition, Deletes::Keep)]).sole(put("Person", "a"), NOW).unwrap();
        assert_eq!(kept == Planned::Skip(Skip::Filtered), leaves, "{condition}: {kept:?}");
        let marked = mapping([filtered(condition, Deletes::Tombstone)]).sole(put("Person", "a"), NOW).unwrap();
        assert_eq!(matches!(marked, Planned::Operation(Operation::Tombstone { time: NOW, .. })), leaves, "{condition}: {marked:?}");
    }
}

#[test]
fn only_a_put_is_judged_by_a_filter() {
    let mut mapping = mapping([filtered("FALSE", Deletes::Delete), rule("Person", None)]);
    assert_eq!(mapping.sole(revision("Person", "a", Change::Redaction), NOW), Ok(Planned::Skip(Skip::Redacted)));
    assert!(matches!(mapping.sole(revision("Person", "a", Change::Delete), NOW), Ok(Planned::Operation(Operation::Delete { .. }))));
    for change in [Change::Redaction, Change::Delete] {
        assert!(!mapping.leaves(revision("Person", "a", change), NOW));
    }
}

#[test]
fn a_filter_sees_the_fields_that_the_rule_leaves_out() {
    let exclude = Paths::parse(["a"]).unwrap();
    let mut mapping = mapping([Rule { exclude, ..filtered("a = 1", Deletes::Delete) }]);
    let planned = mapping.sole(put("Person", "a"), NOW).unwrap();
    let Planned::Operation(Operation::Index { document, .. }) = planned else { panic!("expected a document, found {planned:?}") };
    assert_eq!(document.as_bytes(), br#"{"b":2}"#);
}

#[test]
fn a_delete_for_want_of_a_match_has_the_limits_of_any_operation() {
    let mut mapping = mapping([filtered("FALSE", Deletes::Delete)]);
    assert_eq!(fault(mapping.sole(put("Person", &"x".repeat(513)), NOW).unwrap()), "id_too_long");
    let beyond = Revision { version: MAX_VERSION + 1, ..put("Person", "a") };
    assert_eq!(fault(mapping.sole(beyond, NOW).unwrap()), "version_out_of_range");
    let no_json = revision("Person", "a", Change::Put(Document(Bytes::from_static(b"{\"a\":"))));
    assert_eq!(fault(mapping.sole(no_json, NOW).unwrap()), "undecodable");
}

#[test]
fn index_and_routing_depend_on_table_and_key_only() {
    for (index, routing) in
        [(Some("{id}"), None), (Some("x-{State}"), None), (None, Some("{State}")), (Some("x{"), None), (Some("X"), None)]
    {
        let rule = Rule { routing: routing.map(str::to_owned), ..rule("Person", index) };
        assert!(Mapping::new(vec![rule]).is_err(), "{index:?} {routing:?}");
    }
    let mut mapping = mapping([Rule { routing: Some("{table}/{id}".into()), ..rule("Person", None) }]);
    assert_eq!(target(mapping.sole(put("Person", "a"), NOW).unwrap()).routing.as_deref(), Some("Person/a"));
}

fn cells_of(erased: Option<u64>, columns: &[(&str, u64, &'static str)]) -> Change {
    let cell = |(name, version, value): &(&str, u64, &'static str)| Cell {
        name: (*name).to_owned(),
        version: *version,
        value: Bytes::from_static(value.as_bytes()),
    };
    Change::Cells(Cells { erased, columns: columns.iter().map(cell).collect() })
}

fn merging(rule: Rule) -> Mapping {
    mapping([Rule { rows: Rows::Cells, ..rule }])
}

/// The version of a merge, up to which version it erases, and the names of its columns.
fn merged(planned: Planned) -> (u64, Option<u64>, String) {
    match planned {
        Planned::Operation(Operation::Merge { target, cells, time: NOW }) => {
            let names: Vec<&str> = cells.columns.iter().map(|cell| cell.name.as_str()).collect();
            (target.version, cells.erased, names.join(" "))
        }
        other => panic!("expected a merge, found {other:?}"),
    }
}

#[test]
fn cells_become_a_merge_whose_version_is_the_highest_of_them() {
    let mut mapping = merging(Rule { routing: Some("{id}".into()), ..rule("*", Some("items")) });
    let change = cells_of(Some(3), &[("a", 3, "1"), ("b", 9, "2"), ("c", 4, "null")]);
    let planned = mapping.sole(revision("shop.item", "MX", change), NOW).unwrap();
    let Planned::Operation(operation) = &planned else { panic!("{planned:?}") };
    assert_eq!(
        (&*operation.target().index, operation.target().id.as_str(), operation.target().routing.as_deref()),
        ("items", "MX", Some("MX"))
    );
    assert_eq!(merged(planned), (9, Some(3), "b c".into()), "what it erases itself is not sent");
    let erasing = mapping.sole(revision("shop.item", "MX", cells_of(Some(7), &[])), NOW).unwrap();
    assert_eq!(merged(erasing), (7, Some(7), String::new()));
    let nothing = mapping.sole(revision("shop.item", "MX", cells_of(None, &[])), NOW).unwrap();
    assert_eq!(nothing, Planned::Skip(Skip::NoChange));
}

#[test]
fn fields_and_exclude_choose_among_the_columns_by_their_names() {
    let paths = |names: &[&str]| Paths::parse(names).unwrap();
    let change = || revision("T", "1", cells_of(None, &[("a", 1, "1"), ("f.x", 2, "2"), ("revsync", 3, "3")]));
    let planned = |rule: Rule| merging(rule).sole(change(), NOW).unwrap();
    assert_eq!(merged(planned(Rule { fields: paths(&["a", "\"f.x\""]), ..rule("*", None) })), (2, None, "a f.x".into()));
    assert_eq!(merged(planned(Rule { exclude: paths(&["a", "revsync"]), ..rule("*", None) })), (2, None, "f.x".into()));
    assert_eq!(fault(planned(rule("*", None))), "unusable_column", "it holds the versions");
    assert_eq!(planned(Rule { fields: paths(&["z"]), ..rule("*", None) }), Planned::Skip(Skip::NoChange));
}

#[test]
fn where_deletes_are_kept_an_erasure_changes_nothing() {
    let mut mapping = merging(Rule { deletes: Deletes::Keep, ..rule("*", None) });
    let mut planned = |change| mapping.sole(revision("T", "1", change), NOW).unwrap();
    assert_eq!(planned(cells_of(Some(7), &[])), Planned::Skip(Skip::Filtered));
    assert_eq!(merged(planned(cells_of(Some(7), &[("a", 8, "1")]))), (8, None, "a".into()));
}

#[test]
fn a_change_of_a_whole_row_does_not_go_where_rows_are_put_together_from_cells() {
    let mut mapping = merging(rule("*", None));
    assert_eq!(fault(mapping.sole(put("Person", "a"), NOW).unwrap()), "whole_row");
    assert_eq!(fault(mapping.sole(revision("Person", "a", Change::Delete), NOW).unwrap()), "whole_row");
    assert_eq!(mapping.sole(revision("Person", "a", Change::Redaction), NOW).unwrap(), Planned::Skip(Skip::Redacted));
    let mut without_rules = Mapping::new(vec![]).unwrap().with_rows(Rows::Cells);
    assert_eq!(fault(without_rules.sole(put("Person", "a"), NOW).unwrap()), "whole_row");
}

#[test]
fn a_merge_has_a_version_that_an_index_takes_and_a_size_that_a_request_takes() {
    let mut mapping = merging(rule("*", None));
    let mut planned = |change| mapping.sole(revision("T", "1", change), NOW).unwrap();
    assert_eq!(merged(planned(cells_of(None, &[("a", MAX_VERSION, "1")]))).0, MAX_VERSION);
    for change in [cells_of(None, &[("a", MAX_VERSION + 1, "1")]), cells_of(Some(MAX_VERSION + 1), &[])] {
        assert_eq!(fault(planned(change)), "version_out_of_range");
    }
    let large = Bytes::from(format!("\"{}\"", "x".repeat(DOCUMENT_LIMIT)));
    let columns = vec![Cell { name: "a".to_owned(), version: 1, value: large }];
    assert_eq!(fault(planned(Change::Cells(Cells { erased: None, columns }))), "document_too_large");
}

#[test]
fn a_rule_that_needs_the_whole_row_is_refused_where_rows_are_put_together_from_cells() {
    for (rule, problem) in [
        (Rule { filter: Some(Filter::parse("a = 1").unwrap()), ..rule("*", None) }, "where"),
        (Rule { metadata_field: Some("_row".into()), ..rule("*", None) }, "metadata_field"),
        (Rule { fields: Paths::parse(["a.b"]).unwrap(), ..rule("*", None) }, "names"),
        (Rule { exclude: Paths::parse(["a", "a.b"]).unwrap(), ..rule("*", None) }, "names"),
    ] {
        let error = Mapping::new(vec![Rule { rows: Rows::Cells, ..rule.clone() }]).unwrap_err();
        assert!(error.what.contains("rows = \"cells\": ") && error.what.contains(problem), "{}", error.what);
        assert!(Mapping::new(vec![rule]).is_ok());
    }
}

#[test]
fn an_operation_is_no_larger_for_the_merges_that_some_are() {
    assert!(std::mem::size_of::<Operation>() <= std::mem::size_of::<Target>() + 40, "{}", std::mem::size_of::<Operation>());
}
