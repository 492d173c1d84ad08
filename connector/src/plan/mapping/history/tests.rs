use bytes::Bytes;

use crate::codec::Rows;
use crate::metrics::Skip;
use crate::operation::{Operation, Target};
use crate::plan::filter::Filter;
use crate::plan::mapping::{Deletes, Mapping, Mode, Plan, Planned, Redactions, Rule};
use crate::plan::projection::Paths;
use crate::revision::{Cells, Change, Document, Revision, VersionType};

const NOW: u64 = 1_700_000_000_000;

fn revision(table: &str, version: u64, change: Change) -> Revision {
    Revision {
        table: table.into(),
        id: "a".to_owned(),
        version,
        version_type: VersionType::External,
        change,
        metadata: None,
        committed: None,
    }
}

fn put(table: &str, version: u64) -> Revision {
    revision(table, version, Change::Put(Document(Bytes::from_static(br#"{"b":1,"c":2}"#))))
}

fn latest(name: &str) -> Rule {
    Rule { name: name.to_owned(), ..Rule::default() }
}

fn history(name: &str) -> Rule {
    Rule { mode: Mode::History, ..latest(name) }
}

fn plans(mapping: &mut Mapping, revision: Revision) -> Vec<(Option<Mode>, Planned)> {
    mapping.plan(revision, NOW).unwrap().into_iter().map(|Plan { mode, planned, .. }| (mode, planned)).collect()
}

fn refusal(rules: Vec<Rule>) -> String {
    Mapping::new(rules).unwrap_err().what
}

fn sent(planned: &Planned) -> (&Target, &str) {
    let Planned::Operation(Operation::Index { target, document }) = planned else { panic!("expected a document, found {planned:?}") };
    (target, std::str::from_utf8(document.as_bytes()).unwrap())
}

#[test]
fn a_table_with_a_rule_of_each_mode_goes_to_both_the_newest_first() {
    let mut mapping = Mapping::new(vec![history("*"), latest("Person"), latest("*")]).unwrap();
    let plans = plans(&mut mapping, put("Person", 3));
    assert_eq!(plans.iter().map(|(mode, _)| mode.unwrap()).collect::<Vec<_>>(), Mode::ALL);
    let (target, document) = sent(&plans[0].1);
    assert_eq!((&*target.index, target.id.as_str(), document), ("person", "a", r#"{"b":1,"c":2}"#));
    let (target, document) = sent(&plans[1].1);
    assert_eq!((&*target.index, target.id.as_str(), target.version), ("person_history", "a@3", 3));
    assert_eq!(document, r#"{"b":1,"c":2,"revsync":{"op":"index","id":"a","version":3,"table":"Person"}}"#);
}

#[test]
fn a_table_that_only_a_history_rule_names_goes_only_there() {
    let mut mapping = Mapping::new(vec![history("Item"), history("*"), latest("Person")]).unwrap();
    for (table, indices) in [("Item", vec!["item_history"]), ("Person", vec!["person", "person_history"])] {
        let found = plans(&mut mapping, put(table, 0));
        assert_eq!(found.iter().map(|(_, planned)| &*sent(planned).0.index).collect::<Vec<_>>(), indices);
    }
    let mut only_some = Mapping::new(vec![history("Item")]).unwrap();
    assert_eq!(plans(&mut only_some, put("Person", 0)), [(Some(Mode::Latest), Planned::Skip(Skip::Unmapped))]);
}

#[test]
fn a_delete_is_a_document_and_a_redaction_writes_over_the_put_of_its_version() {
    let mut mapping = Mapping::new(vec![Rule { index: Some("all".into()), routing: Some("{id}".into()), ..history("*") }]).unwrap();
    for (change, op, version_type) in
        [(Change::Delete, "delete", VersionType::External), (Change::Redaction, "redacted", VersionType::ExternalGte)]
    {
        let found = plans(&mut mapping, revision("Person", 7, change));
        let (target, document) = sent(&found[0].1);
        assert_eq!((target.id.as_str(), target.version, target.version_type), ("a@7", 7, version_type));
        assert_eq!(target.routing.as_deref(), Some("a"), "every revision of a document is in one shard");
        assert_eq!(document, format!(r#"{{"revsync":{{"op":"{op}","id":"a","version":7,"table":"Person"}}}}"#));
    }
}

#[test]
fn a_put_that_does_not_match_is_not_in_a_history_and_nothing_is_deleted_for_it() {
    let filter = Some(Filter::parse("b = 2").unwrap());
    let mut mapping = Mapping::new(vec![Rule { filter, ..history("*") }]).unwrap();
    let plan = mapping.plan(put("Person", 3), NOW).unwrap().into_iter().next().unwrap();
    assert_eq!((plan.planned, plan.leaves), (Planned::Skip(Skip::Filtered), true));
    for change in [Change::Delete, Change::Redaction] {
        sent(&plans(&mut mapping, revision("Person", 3, change))[0].1);
    }
}

#[test]
fn what_cannot_be_a_document_of_a_history_is_a_fault_that_says_why() {
    let mut mapping = Mapping::new(vec![history("*")]).unwrap();
    let mut fault = |revision: Revision| match plans(&mut mapping, revision).remove(0).1 {
        Planned::Fault(fault) => (fault.kind, fault.reason),
        other => panic!("expected a fault, found {other:?}"),
    };
    let (kind, reason) = fault(revision("Person", 3, Change::Put(Document(Bytes::from_static(br#"{"revsync":1}"#)))));
    assert!(kind == "unusable_field" && reason.contains(r#"exclude = ["revsync"]"#), "{kind} {reason}");
    assert_eq!(fault(Revision { id: String::new(), ..put("Person", 3) }).0, "empty_id");
    assert_eq!(fault(Revision { id: "x".repeat(511), ..put("Person", 3) }).0, "id_too_long");
    assert_eq!(fault(put("Person", u64::MAX)).0, "version_out_of_range");
    assert_eq!(fault(revision("Person", 3, Change::Cells(Cells::default()))).0, "not_whole_row");
    let exclude = Paths::parse(["revsync"]).unwrap();
    let mut excluding = Mapping::new(vec![Rule { exclude, ..history("*") }]).unwrap();
    let own = revision("Person", 3, Change::Put(Document(Bytes::from_static(br#"{"revsync":1}"#))));
    assert!(sent(&plans(&mut excluding, own)[0].1).1.starts_with(r#"{"revsync":{"op":"index""#));
}

#[test]
fn a_history_has_no_deletes_no_choice_of_redactions_no_cells_and_no_other_field_of_metadata() {
    for (rule, problem) in [
        (Rule { deletes: Deletes::Tombstone, ..history("*") }, "deletes"),
        (Rule { deletes: Deletes::Keep, ..history("*") }, "deletes"),
        (Rule { redactions: Redactions::Erase, ..history("*") }, "redactions"),
        (Rule { rows: Rows::Cells, ..history("*") }, "rows"),
        (Rule { metadata_field: Some("_row".into()), ..history("*") }, "metadata_field"),
    ] {
        let refused = refusal(vec![rule]);
        assert!(refused.contains("mode = \"history\": ") && refused.contains(problem), "{refused}");
    }
}

#[test]
fn one_index_is_not_that_of_a_history_and_of_newest_revisions() {
    let named = |rule: Rule, index: &str| Rule { index: Some(index.to_owned()), ..rule };
    assert!(refusal(vec![named(latest("*"), "all"), named(history("*"), "all")]).contains("\"all\""));
    assert!(refusal(vec![latest("Person"), named(history("Person"), "{table}")]).contains("\"person\""));
    assert!(refusal(vec![latest("PersonHistory"), history("*")]).contains("\"person_history\""));

    let mut by_pattern = Mapping::new(vec![latest("*"), history("*")]).unwrap();
    let refused = by_pattern.plan(put("PersonHistory", 0), NOW).unwrap_err();
    assert!(refused.what.contains("\"PersonHistory\"") && refused.what.contains("\"person_history\""), "{refused}");
    assert!(by_pattern.plan(put("Person", 0), NOW).is_ok());

    let mut same_template = Mapping::new(vec![latest("*"), named(history("*"), "{table}")]).unwrap();
    assert!(same_template.plan(put("Person", 0), NOW).is_err());
    let mut journal = Mapping::new(vec![history("*")]).unwrap().with_journal(Some("person_history")).unwrap();
    assert!(journal.plan(put("Person", 0), NOW).unwrap_err().what.contains("journal"));
}

#[test]
fn two_tables_come_to_one_history_only_where_rules_name_it_for_both() {
    let mut by_name = Mapping::new(vec![history("*")]).unwrap();
    assert!(by_name.plan(put("Person", 0), NOW).is_ok() && by_name.plan(put("person", 0), NOW).is_err());
    let mut together = Mapping::new(vec![Rule { index: Some("all".into()), ..history("*") }]).unwrap();
    assert!(together.plan(put("Person", 0), NOW).is_ok() && together.plan(put("person", 0), NOW).is_ok());
}

#[test]
fn an_index_of_a_history_gets_neither_deletes_nor_tombstones() {
    let tombstones = |name| Rule { deletes: Deletes::Tombstone, ..latest(name) };
    let deletes = Mapping::new(vec![tombstones("*"), history("*"), latest("Item")]).unwrap().deletes();
    assert!(deletes.is_history("person_history") && !deletes.is_history("person"));
    for kind in [Deletes::Delete, Deletes::Tombstone, Deletes::Keep] {
        assert!(!deletes.may("person_history", kind), "{kind:?}");
    }
    assert!(deletes.may("person", Deletes::Tombstone) && !deletes.may_merge("person_history"));
    let named = Mapping::new(vec![history("Person"), latest("Person")]).unwrap();
    assert_eq!(named.named_indices(), ["person_history", "person"]);
}

#[test]
fn a_redaction_erases_what_it_covers_where_the_rule_says_so() {
    for (deletes, is_tombstone) in [(Deletes::Delete, false), (Deletes::Keep, false), (Deletes::Tombstone, true)] {
        let mut mapping = Mapping::new(vec![Rule { redactions: Redactions::Erase, deletes, ..latest("*") }]).unwrap();
        let Planned::Operation(operation) = plans(&mut mapping, revision("Person", 3, Change::Redaction)).remove(0).1 else {
            panic!("expected an operation")
        };
        assert_eq!(matches!(operation, Operation::Tombstone { time: NOW, .. }), is_tombstone);
        assert!(is_tombstone || matches!(operation, Operation::Delete { .. }));
        assert_eq!((operation.target().version, operation.target().version_type), (3, VersionType::ExternalGte));
        let Planned::Operation(put) = plans(&mut mapping, put("Person", 3)).remove(0).1 else { panic!("expected an operation") };
        assert_eq!(put.target().version_type, VersionType::External);
    }
    let of_cells = Rule { redactions: Redactions::Erase, rows: Rows::Cells, ..latest("*") };
    assert!(refusal(vec![of_cells]).contains("redactions"));
}
