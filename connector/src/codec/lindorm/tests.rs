use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::codec::{Format, Metadata, Options};
use crate::record::{Origin, Position, Record};

fn options(table: &str) -> TableOptions {
    TableOptions {
        unmapped: table == "shop.unwanted",
        unread: table == "shop.unread",
        metadata: match table {
            "shop.told" => Metadata::Field,
            "shop.committed" => Metadata::Committed,
            _ => Metadata::None,
        },
        key: if table == "shop.keyless" { vec![] } else { vec!["sku".to_owned()] },
        rows: if table == "shop.cells" { Rows::Cells } else { Rows::Full },
        types: [("f:stock", ColumnType::Long), ("note", ColumnType::String)].map(|(name, to)| (name.to_owned(), to)).into(),
        ..TableOptions::default()
    }
}

fn decoded_as(format: Format, message: impl AsRef<[u8]>) -> (Content, Notes) {
    let mut decoder = Decoder::new(Options { format, table: Box::new(options), ..Options::default() });
    let record = Record {
        origin: Arc::new(Origin { stream: String::new(), shard: String::new() }),
        position: Position::Byte { offset: 0 },
        data: Bytes::copy_from_slice(message.as_ref()),
        arrived: None,
        damage: None,
        message: None,
    };
    let (mut units, mut notes) = (Vec::new(), Notes::default());
    decoder.decode(&record, &mut units, &mut notes);
    assert_eq!(units.len(), 1, "{units:?}");
    (units.remove(0).content, notes)
}

fn decoded(message: impl AsRef<[u8]>) -> Content {
    decoded_as(Format::Auto, message).0
}

/// A unit in short: `TABLE/ID@VERSION DOCUMENT`, or what it is otherwise.
fn line(content: &Content) -> String {
    match content {
        Content::Skip(reason) => reason.as_str().to_owned(),
        Content::Fault(fault) => fault.to_string(),
        Content::Block(block) => panic!("{block:?}"),
        Content::Refused(error) => format!("refused: {error}"),
        Content::Revision(revision) => {
            assert_eq!((revision.version_type, revision.committed), (VersionType::ExternalGte, None));
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let change = match &revision.change {
                Change::Put(document) => text(document.as_bytes()),
                Change::Delete => "delete".to_owned(),
                Change::Redaction => panic!("Lindorm redacts nothing"),
                Change::Cells(cells) => {
                    let cell = |cell: &Cell| format!("{}@{}={}", cell.name, cell.version, text(&cell.value));
                    format!("{:?} {}", cells.erased, cells.columns.iter().map(cell).collect::<Vec<_>>().join(" "))
                }
            };
            format!("{}/{}@{} {change}", revision.table, revision.id, revision.version)
        }
    }
}

fn one(message: impl AsRef<[u8]>) -> String {
    line(&decoded(message))
}

/// A Put of table `shop.TABLE` at row version 5 with these columns beside its key.
fn put(table: &str, columns: &str) -> String {
    format!(r#"{{"op":"Put","table":"shop.{table}","ts":5,"data":[{{"name":"sku","value":"a"}}{columns}]}}"#)
}

const DOCUMENTED: &str = r#"{"op":"Put","table":"shop.item","ts":1700000000000,"keyOnly":false,"data":[
 {"type":"VARCHAR","name":"sku","value":"MX-200"},
 {"type":"INTEGER","name":"f:stock","ts":1700000000001,"value":"7"},
 {"type":"VARCHAR","name":"f:note"}]}"#;

#[test]
fn the_documented_message_becomes_its_row() {
    assert_eq!(one(DOCUMENTED), r#"shop.item/MX-200@1700000000001 {"sku":"MX-200","f:stock":7,"f:note":null}"#);
    assert_eq!(decoded_as(Format::Lindorm, DOCUMENTED), decoded_as(Format::Auto, DOCUMENTED));
}

#[test]
fn numbers_as_text_give_the_same_row() {
    let as_text = r#"{"op":"Put","table":"shop.item","ts":"1700000000000","keyOnly":"false","data":[
     {"type":"VARCHAR","name":"sku","ts":"","value":"MX-200"},
     {"type":"INTEGER","name":"f:stock","ts":"1700000000001","value":7},
     {"type":"VARCHAR","name":"f:note","ts":null,"value":""}]}"#;
    assert_eq!(one(as_text), one(DOCUMENTED));
}

#[test]
fn the_version_is_the_highest_of_the_row_and_its_columns() {
    for (ts, version) in [("4", 5), ("5", 5), ("6", 6), ("\"\"", 5), ("null", 5), ("\"9223372036854775807\"", i64::MAX as u64)] {
        let found = one(put("item", &format!(r#",{{"name":"n","ts":{ts},"value":1}}"#)));
        assert_eq!(found, format!(r#"shop.item/a@{version} {{"sku":"a","n":1}}"#), "{ts}");
    }
    let without = r#"{"op":"Put","table":"shop.item","data":[{"name":"sku","ts":3,"value":"a"}]}"#;
    assert_eq!(one(without), r#"shop.item/a@3 {"sku":"a"}"#);
}

#[test]
fn a_version_that_is_none_is_a_fault_that_names_its_place() {
    for ts in ["-1", "12.0", "1e3", "9223372036854775808", "\"5 \"", "\"x\"", "true", "[5]"] {
        let row = format!(r#"{{"op":"Put","table":"shop.item","ts":{ts},"data":[{{"name":"sku","value":"a"}}]}}"#);
        let expected = "to be a whole number from 0 to 9223372036854775807, or a text of its digits, found something else";
        assert_eq!(one(row), format!("unusable_revision: expected ts {expected}"), "{ts}");
        let column = put("item", &format!(r#",{{"name":"n","ts":{ts},"value":1}}"#));
        assert_eq!(one(column), format!("unusable_revision: expected the ts of the column n {expected}"), "{ts}");
    }
    let without = r#"{"op":"Put","table":"shop.item","data":[{"name":"sku","ts":3,"value":"a"},{"name":"n","value":1}]}"#;
    assert_eq!(one(without), "unusable_revision: expected a ts in the row or in the column n, found none in either of them");
}

#[test]
fn a_value_stays_what_it_is() {
    let values = r#",{"name":"a","value":"7"},{"name":"b","value":7.10},{"name":"c","value":true},{"name":"d","value":{"x": [1 , 2]}},
      {"name":"e","value":null},{"name":"f","value":""},{"name":"g"},{"name":"note","value":""},{"name":"h","value":12345678901234567890123}"#;
    let document =
        r#"{"sku":"a","a":"7","b":7.10,"c":true,"d":{"x":[1,2]},"e":null,"f":null,"g":null,"note":"","h":12345678901234567890123}"#;
    assert_eq!(one(put("item", values)), format!("shop.item/a@5 {document}"));
}

#[test]
fn a_column_may_have_any_name_and_any_type() {
    let values = r#",{"type":"NEVER_HEARD_OF","name":"f:a.b \"c\"","value":1},{"type":7,"name":"","value":2}"#;
    assert_eq!(one(put("item", values)), r#"shop.item/a@5 {"sku":"a","f:a.b \"c\"":1,"":2}"#);
}

#[test]
fn a_value_that_is_not_of_its_columns_type_is_a_fault_that_does_not_show_it() {
    let found = one(put("item", r#",{"name":"f:stock","value":"secret"}"#));
    assert_eq!(found, "wrong_column_type: expected a whole number of 64 bits (long) in the column f:stock, found a text that is none");
}

#[test]
fn of_two_entries_of_a_column_the_newer_is_kept_and_of_equal_ones_the_later() {
    for (columns, kept) in [
        (r#",{"name":"n","ts":7,"value":1},{"name":"n","ts":6,"value":2}"#, 1),
        (r#",{"name":"n","ts":6,"value":1},{"name":"n","ts":7,"value":2}"#, 2),
        (r#",{"name":"n","ts":7,"value":1},{"name":"n","ts":7,"value":2}"#, 2),
        (r#",{"name":"n","value":1},{"name":"n","ts":4,"value":2}"#, 1),
        (r#",{"name":"n","ts":4,"value":1},{"name":"n","value":2}"#, 2),
    ] {
        assert!(one(put("item", columns)).ends_with(&format!(r#"{{"sku":"a","n":{kept}}}"#)), "{columns}");
    }
}

#[test]
fn a_delete_family_deletes_the_row_at_its_highest_version() {
    let delete = r#"{"op":"DeleteFamily","table":"shop.item","ts":8,"keyOnly":false,"data":[{"name":"sku","ts":9,"value":"a"}]}"#;
    assert_eq!(one(delete), "shop.item/a@9 delete");
    let without = r#"{"op":"DeleteFamily","table":"shop.item","data":[{"name":"sku","value":"a"}]}"#;
    assert_eq!(one(without), "no_change", "without a version nothing can be deleted");
}

#[test]
fn in_cells_each_column_has_its_own_version() {
    let columns = r#",{"name":"z","ts":9,"value":"x"},{"name":"f:stock","ts":2,"value":"7"},{"name":"b"}"#;
    assert_eq!(one(put("cells", columns)), r#"shop.cells/a@9 None b@5=null f:stock@2=7 sku@5="a" z@9="x""#);
    let delete = r#"{"op":"DeleteFamily","table":"shop.cells","ts":8,"data":[{"name":"sku","ts":6,"value":"a"},{"name":"z","value":1}]}"#;
    assert_eq!(one(delete), "shop.cells/a@8 Some(8) ");
}

#[test]
fn a_key_only_message_changes_nothing_whatever_it_does() {
    for op in ["Put", "DeleteFamily", "Something"] {
        for key_only in ["true", "\"true\""] {
            let message = format!(r#"{{"op":"{op}","table":"shop.keyless","ts":"x","keyOnly":{key_only},"data":[]}}"#);
            assert_eq!(one(message), "no_change");
        }
    }
    let message = r#"{"op":"Put","table":"shop.item","ts":1,"keyOnly":"yes","data":[]}"#;
    assert_eq!(one(message), "unusable_revision: expected keyOnly to be true or false, found something else");
}

#[test]
fn a_message_without_its_key_names_the_columns_that_were_expected() {
    let without = r#"{"op":"Put","table":"shop.item","ts":1,"data":[{"name":"n","value":1}]}"#;
    let expected = "expected a text, a number, true or false in the key column sku, found";
    assert_eq!(one(without), format!("key_missing: {expected} no sku"));
    for value in ["null", "\"\""] {
        let null = format!(r#"{{"op":"DeleteFamily","table":"shop.item","ts":1,"data":[{{"name":"sku","value":{value}}}]}}"#);
        assert_eq!(one(null), format!("key_missing: {expected} null in sku"));
    }
    let list = r#"{"op":"Put","table":"shop.item","ts":1,"data":[{"name":"sku","value":[1]}]}"#;
    assert_eq!(one(list), format!("unusable_key: {expected} a list in sku"));
}

#[test]
fn a_table_without_key_columns_stops_the_run_and_says_how_to_name_them() {
    let found = one(put("keyless", ""));
    assert!(found.starts_with("refused: table shop.keyless: ") && found.contains("--key shop.keyless=COLUMN"), "{found}");
}

#[test]
fn nothing_of_a_table_that_nobody_wants_is_judged() {
    assert_eq!(one(r#"{"op":"Unknown","table":"shop.unwanted","ts":-1,"data":[1,2]}"#), "unmapped");
    assert_eq!(one(r#"{"op":"Unknown","table":"shop.unread","ts":-1,"data":[1,2]}"#), "unmapped");
}

#[test]
fn what_is_no_message_is_a_fault() {
    for (message, found) in [
        (
            r#"{"op":"put","table":"shop.item","ts":1,"data":[]}"#,
            "unknown_record: expected op to be Put or DeleteFamily, found something else",
        ),
        (r#"{"op":"Put","ts":1,"data":[]}"#, "unusable_revision: expected table to be a non-empty text, found something else"),
        (r#"{"op":"Put","table":"","ts":1,"data":[]}"#, "unusable_revision: expected table to be a non-empty text, found something else"),
        (
            r#"{"op":"Put","table":"shop.item","ts":1,"data":[{"name":"sku","value":"a"},{"value":1}]}"#,
            "unusable_revision: expected data[1] to be an object with a text as name, found something else",
        ),
        (
            r#"{"op":"Put","table":"shop.item","ts":1,"data":[7]}"#,
            "unusable_revision: expected data[0] to be an object with a text as name, found something else",
        ),
    ] {
        assert_eq!(one(message), found);
    }
    let shapes = "expected a message of Lindorm, in the legacy format (a text op and a list data) or as DebeziumV2 (an object payload)";
    for (message, found) in [
        (r#"{"op":"Put","table":"shop.item","ts":1,"data":[],"payload":{}}"#, "both in one message"),
        (r#"{"op":"Put","table":"shop.item","ts":1}"#, "neither"),
        (r#"[{"op":"Put","data":[]}]"#, "neither"),
        ("7", "neither"),
    ] {
        let content = decoded_as(Format::Lindorm, message).0;
        assert_eq!(line(&content), format!("unknown_record: {shapes}, found {found}"), "{message}");
    }
}

#[test]
fn damage_is_told_with_its_place() {
    let place = |message: &[u8]| line(&decoded_as(Format::Lindorm, message).0);
    assert_eq!(place(br#"{"op":"Put","#), "undecodable: expected one JSON value in UTF-8, found its end at byte 12 of 12");
    assert_eq!(place(b"{\"op\":\"\xFF\"}"), "undecodable: expected one JSON value in UTF-8, found a byte that is no UTF-8 at byte 7 of 10");
    assert_eq!(place(b"{\"op\":1}\n x"), "undecodable: expected one JSON value in UTF-8, found something else at byte 10 of 11");
}

#[test]
fn the_metadata_says_what_the_message_said() {
    let message = r#"{"op":"Put","table":"shop.told","ts":"5","data":[{"name":"sku","ts":7,"value":"a"}]}"#;
    let Content::Revision(revision) = decoded(message) else { panic!() };
    let metadata = revision.metadata.unwrap();
    assert_eq!(metadata.as_bytes(), br#"{"table":"shop.told","id":"a","version":7,"op":"Put","ts":5}"#);
    let message = r#"{"op":"DeleteFamily","table":"shop.told","data":[{"name":"sku","ts":7,"value":"a"}]}"#;
    let Content::Revision(revision) = decoded(message) else { panic!() };
    let metadata = revision.metadata.unwrap();
    assert_eq!(metadata.as_bytes(), br#"{"table":"shop.told","id":"a","version":7,"op":"DeleteFamily","ts":null}"#);
    let Content::Revision(revision) = decoded(message.replace("told", "committed")) else { panic!() };
    let metadata = revision.metadata.unwrap();
    assert_eq!(metadata.as_bytes(), br#"{"metadata":{"id":"a","version":7,"op":"DeleteFamily","ts":null}}"#);
}

#[test]
fn lone_surrogates_are_replaced_and_counted_wherever_they_stand() {
    let values = r#",{"name":"n\ud800","value":"a\udc00b"},{"name":"o","value":{"\ud800":["\ud83d\ude00\ud83d"]}}"#;
    let (content, notes) = decoded_as(Format::Auto, put("item", values));
    assert_eq!(line(&content), "shop.item/a@5 {\"sku\":\"a\",\"n\u{FFFD}\":\"a\u{FFFD}b\",\"o\":{\"\u{FFFD}\":[\"😀\u{FFFD}\"]}}");
    assert_eq!(notes.lone_surrogates, 4);
}

proptest! {
    /// Whatever the order of its columns and their versions, a message in cells has each column once, with its highest version.
    #[test]
    fn a_message_in_cells_holds_the_newest_of_each_column(entries in prop::collection::vec((0usize..4, 0u64..5, 0u8..9), 0..12)) {
        let columns: String =
            entries.iter().map(|(name, ts, value)| format!(r#",{{"name":"c{name}","ts":{ts},"value":{value}}}"#)).collect();
        let Content::Revision(revision) = decoded(put("cells", &columns)) else { panic!() };
        let Change::Cells(cells) = revision.change else { panic!() };
        let mut expected = vec![("sku".to_owned(), 5, "\"a\"".to_owned())];
        for name in 0..4 {
            let newest = entries.iter().filter(|(column, ..)| *column == name).max_by_key(|(_, ts, _)| *ts);
            expected.extend(newest.map(|(_, ts, value)| (format!("c{name}"), *ts, value.to_string())));
        }
        expected.sort();
        let found: Vec<_> =
            cells.columns.iter().map(|cell| (cell.name.clone(), cell.version, std::str::from_utf8(&cell.value).unwrap().to_owned())).collect();
        prop_assert_eq!(found, expected);
    }
}
