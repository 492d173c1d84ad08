mod keys;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::super::ion_json::{Decimals, Rules};
use super::super::{ColumnType, Format, Metadata, Options, TableOptions, Versions};
use super::*;
use crate::record::Message;

/// Sources of one change each, as the connectors write them.
const MYSQL: &str = r#"{"version":"3.2.0.Final","connector":"mysql","name":"m","ts_ms":1700000000400,"snapshot":"false","db":"inventory","sequence":null,"table":"customers","server_id":223344,"gtid":null,"file":"mysql-bin.000003","pos":154,"row":2,"thread":7,"query":null}"#;
const MARIADB: &str = r#"{"version":"3.2.0.Final","connector":"mariadb","name":"m","ts_ms":1700000000400,"snapshot":false,"db":"inventory","table":"customers","server_id":1,"file":"mariadb-bin.000003","pos":154,"row":2}"#;
const POSTGRESQL: &str = r#"{"version":"3.2.0.Final","connector":"postgresql","name":"p","ts_ms":1700000000400,"snapshot":"last","db":"shop","sequence":"[\"2400100\",\"2400164\"]","schema":"public","table":"item","txId":801,"lsn":2400164,"xmin":null}"#;
const SQLSERVER: &str = r#"{"version":"3.2.0.Final","connector":"sqlserver","name":"s","ts_ms":1700000000400,"snapshot":"false","db":"shop","schema":"dbo","table":"item","change_lsn":"00000027:00000ac0:0003","commit_lsn":"00000027:00000ac0:0007","event_serial_no":1}"#;
const LINDORM: &str = r#"{"version":"v1.0","db":"ld-example","namespace":"shop","table":"item","ts_ms":1700000000400}"#;
const ORACLE: &str = r#"{"version":"3.2.0.Final","connector":"oracle","name":"o","ts_ms":1700000000400,"snapshot":"false","db":"ORCLCDB","schema":"SHOP","table":"ITEM","scn":"1600001","commit_scn":"1600005"}"#;

const MYSQL_VERSION: u64 = 3 << 45 | 154 << 13 | 2;
const SQLSERVER_VERSION: u64 = 0x27 << 41 | 0xAC0 << 16 | 3;

fn event(op: &str, before: &str, after: &str, source: &str) -> String {
    format!(r#"{{"before":{before},"after":{after},"source":{source},"op":"{op}","ts_ms":1700000000900,"transaction":null}}"#)
}

/// The same with its schema, of which only the fields of the row matter.
fn with_schema(event: &str, fields: &str) -> String {
    let image = |name: &str| format!(r#"{{"type":"struct","fields":[{fields}],"optional":true,"name":"x.Value","field":"{name}"}}"#);
    let schema = format!(
        r#"{{"type":"struct","fields":[{},{},{{"type":"string","optional":false,"field":"op"}}],"optional":false,"name":"x.Envelope","version":2}}"#,
        image("before"),
        image("after")
    );
    format!(r#"{{"schema":{schema},"payload":{event}}}"#)
}

fn options(table: TableOptions) -> Options {
    Options { format: Format::Debezium, table: Box::new(move |_| table.clone()), ..Options::default() }
}

fn contents(options: Options, key: Option<&str>, value: impl Into<Bytes>) -> Vec<Content> {
    let mut decoder = Decoder::new(options);
    let message = Message { key: key.map(|key| Bytes::copy_from_slice(key.as_bytes())), ..Message::default() };
    let user_record = decoder.open_payload(&value.into(), Some(Arc::new(message)));
    decode(&mut decoder, &user_record, &mut Notes::default())
}

fn line(content: &Content) -> String {
    match content {
        Content::Skip(reason) => reason.as_str().to_owned(),
        Content::Fault(fault) => fault.kind.clone(),
        Content::Block(block) => panic!("{block:?}"),
        Content::Refused(_) => "refused".to_owned(),
        Content::Revision(revision) => {
            assert_eq!(revision.version_type, VersionType::ExternalGte);
            let change = match &revision.change {
                Change::Put(document) => std::str::from_utf8(document.as_bytes()).unwrap(),
                Change::Delete => "deleted",
                other => panic!("{other:?}"),
            };
            format!("{}/{}@{} {change}", revision.table, revision.id, revision.version)
        }
    }
}

fn lines(key: Option<&str>, value: &str) -> Vec<String> {
    contents(options(TableOptions::default()), key, value.to_owned()).iter().map(line).collect()
}

/// The one unit of a message of the table, whose key is `id`.
fn one(value: &str) -> String {
    let found = lines(Some(r#"{"id":7}"#), value);
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

fn fault(options: Options, key: Option<&str>, value: &str) -> Fault {
    match contents(options, key, value.to_owned()).as_slice() {
        [Content::Fault(fault)] => fault.clone(),
        other => panic!("{other:?}"),
    }
}

fn keyed(columns: &[&str]) -> Options {
    options(TableOptions { key: columns.iter().map(|column| (*column).to_owned()).collect(), ..TableOptions::default() })
}

#[test]
fn each_connector_has_its_table_and_its_version() {
    for (source, expected) in [
        (MYSQL, format!("inventory.customers/7@{MYSQL_VERSION}")),
        (MARIADB, format!("inventory.customers/7@{MYSQL_VERSION}")),
        (POSTGRESQL, "public.item/7@2400164".to_owned()),
        (SQLSERVER, format!("dbo.item/7@{SQLSERVER_VERSION}")),
        (LINDORM, "shop.item/7@1700000000400".to_owned()),
    ] {
        for op in ["c", "r", "u"] {
            let put = event(op, "null", r#"{"id":7,"name":"mug"}"#, source);
            assert_eq!(one(&put), format!(r#"{expected} {{"id":7,"name":"mug"}}"#));
            assert_eq!(one(&with_schema(&put, r#"{"type":"int32","field":"id"}"#)), one(&put));
            assert_eq!(one(&format!(r#"{{"payload":{put}}}"#)), one(&put));
            assert_eq!(one(&format!(r#"{{"payload":{put},"schema":{{}}}}"#)), one(&put));
        }
        for (before, after) in [(r#"{"id":7,"name":"mug"}"#, "null"), (r#"{"id":7,"name":null}"#, "null"), ("null", "null")] {
            assert_eq!(one(&event("d", before, after, source)), format!("{expected} deleted"));
        }
    }
}

#[test]
fn the_time_of_the_commit_is_that_of_the_source() {
    let found = contents(options(TableOptions::default()), Some(r#"{"id":7}"#), event("c", "null", r#"{"id":7}"#, POSTGRESQL));
    assert!(matches!(&found[..], [Content::Revision(revision)] if revision.committed == Some(1_700_000_000_400)), "{found:?}");
    let timeless = POSTGRESQL.replace(r#""ts_ms":1700000000400,"#, "");
    let found = contents(options(TableOptions::default()), Some(r#"{"id":7}"#), event("c", "null", r#"{"id":7}"#, &timeless));
    assert!(matches!(&found[..], [Content::Revision(revision)] if revision.committed.is_none()), "{found:?}");
}

#[test]
fn what_changes_no_row_is_no_change() {
    let message =
        event("m", "null", "null", &POSTGRESQL.replace("item", "")).replace(r#""before":null"#, r#""message":{"prefix":"p","content":""}"#);
    for payload in [
        message.as_str(),
        r#"{"ts_ms":1700000000000}"#,
        r#"{"status":"BEGIN","id":"571:1","event_count":null,"data_collections":null,"ts_ms":1}"#,
        r#"{"status":"END","id":"571:1","event_count":2,"data_collections":[{"data_collection":"public.item","event_count":2}],"ts_ms":1}"#,
        r#"{"source":{"connector":"mysql"},"ts_ms":1,"databaseName":"inventory","schemaName":null,"ddl":"DROP TABLE x","tableChanges":[]}"#,
        r#"{"source":{"connector":"sqlserver"},"ts_ms":1,"databaseName":"shop","schemaName":"dbo","ddl":null,"tableChanges":[{"type":"CREATE"}]}"#,
        "null",
    ] {
        assert_eq!(lines(None, payload), ["no_change"], "{payload}");
        assert_eq!(lines(None, &format!(r#"{{"schema":{{"type":"struct"}},"payload":{payload}}}"#)), ["no_change"], "{payload}");
    }
}

#[test]
fn what_is_no_change_event_is_a_fault() {
    for payload in [
        r#"{"id":7,"name":"mug"}"#,
        r#"{"id":7,"status":"BEGIN","name":"mug"}"#,
        r#"{"id":7,"status":"OPEN"}"#,
        r#"{"ts_ms":1,"id":7}"#,
        "{}",
        "[]",
        "7",
        r#""c""#,
        &event("x", "null", "{}", POSTGRESQL),
        &event("", "null", "{}", POSTGRESQL),
        &event("cc", "null", "{}", POSTGRESQL),
        &event("c", "null", "{}", POSTGRESQL).replace(r#""op":"c""#, r#""op":1"#),
    ] {
        assert_eq!(one(payload), "unknown_record", "{payload}");
        assert_eq!(one(&format!(r#"{{"schema":null,"payload":{payload}}}"#)), "unknown_record", "{payload}");
    }
    assert!(fault(keyed(&["id"]), None, r#"{"id":7}"#).reason.contains("ExtractNewRecordState"));
    for (broken, kind) in [("{\"op\":\"c\"", "undecodable"), ("", "undecodable"), ("{}{}", "undecodable")] {
        assert_eq!(one(broken), kind);
    }
    assert_eq!(one(&event("c", "null", "{}", "null")), "unusable_revision");
    for (source, gone) in [(POSTGRESQL, "table"), (POSTGRESQL, "schema"), (MYSQL, "db"), (SQLSERVER, "schema"), (LINDORM, "table")] {
        let source = source.replace(&format!("\"{gone}\""), "\"gone\"");
        assert_eq!(one(&event("c", "null", r#"{"id":7}"#, &source)), "unusable_revision", "{gone}");
    }
}

#[test]
fn a_put_without_its_row_is_a_fault() {
    for op in ["c", "r", "u"] {
        assert_eq!(one(&event(op, r#"{"id":7}"#, "null", MYSQL)), "unusable_revision");
        assert_eq!(one(&event(op, r#"{"id":7}"#, "[]", MYSQL)), "unusable_revision");
        assert_eq!(one(&event(op, r#"{"id":7}"#, "null", MYSQL).replace(r#""after":null,"#, "")), "unusable_revision");
    }
    assert_eq!(one(&event("c", "null", "{}", MYSQL)), format!("inventory.customers/7@{MYSQL_VERSION} {{}}"), "an empty row is one");
}

#[test]
fn a_truncate_is_a_fault_that_says_what_stays() {
    let fault = fault(options(TableOptions::default()), None, &event("t", "null", "null", POSTGRESQL));
    assert_eq!(fault.kind, "truncate");
    assert!(fault.reason.contains("the table's documents stay"), "{fault}");
}

#[test]
fn a_table_that_no_rule_is_for_is_unmapped_whatever_is_in_its_rows() {
    let unmapped = || options(TableOptions { unmapped: true, ..TableOptions::default() });
    let unread = || options(TableOptions { unread: true, ..TableOptions::default() });
    for event in [
        event("c", "null", "null", MYSQL),
        event("t", "null", "null", POSTGRESQL),
        event("c", "null", r#"{"id":7}"#, ORACLE),
        event("d", "null", "null", &POSTGRESQL.replace("2400164", "-1")),
    ] {
        assert_eq!(contents(unmapped(), None, event.clone()), [Content::Skip(Skip::Unmapped)], "{event}");
        assert_eq!(contents(unread(), None, event.clone()), [Content::Skip(Skip::Unmapped)], "{event}");
    }
}

#[test]
fn a_connector_without_a_sound_version_is_refused_by_name_until_the_time_is_to_be_it() {
    let put = |source: &str| event("c", "null", r#"{"id":7}"#, source);
    for (connector, why) in [
        ("oracle", "SCN"),
        ("db2", "63 bits"),
        ("mongodb", "oplog"),
        ("vitess", "VGTID"),
        ("cassandra", "commit log"),
        ("spanner", "not known"),
        ("informix", "not known"),
        ("TiCDC", "not known"),
    ] {
        let source = ORACLE.replace(r#""oracle""#, &format!("{connector:?}"));
        let found = contents(options(TableOptions::default()), Some(r#"{"id":7}"#), put(&source));
        let [Content::Refused(error)] = &found[..] else { panic!("{found:?}") };
        assert!(error.what.contains(&format!("found the connector {connector:?}: ")) && error.what.contains(why), "{error}");
        assert!(
            error.to_string().contains("--versions timestamp takes the time of the change (source.ts_ms), with a weaker guarantee"),
            "{error}"
        );
        let timed = Options { versions: Versions::Timestamp, ..options(TableOptions::default()) };
        assert_eq!(line(&contents(timed, Some(r#"{"id":7}"#), put(&source))[0]), r#"SHOP.ITEM/7@1700000000400 {"id":7}"#);
    }
    let none = contents(options(TableOptions::default()), Some(r#"{"id":7}"#), put(&LINDORM.replace("v1.0", "v2.0")));
    assert!(matches!(&none[..], [Content::Refused(error)] if error.what.contains("found a source that names no connector")), "{none:?}");
    let long = contents(options(TableOptions::default()), None, put(&ORACLE.replace("oracle", &"o".repeat(10_000))));
    assert!(matches!(&long[..], [Content::Refused(error)] if error.what.len() < 400), "{long:?}");
}

#[test]
fn with_the_time_as_version_every_connector_has_it() {
    for source in [MYSQL, MARIADB, POSTGRESQL, SQLSERVER, LINDORM, ORACLE] {
        let timed = || Options { versions: Versions::Timestamp, ..options(TableOptions::default()) };
        let found = contents(timed(), Some("7"), event("d", "null", "null", source));
        assert!(matches!(&found[..], [Content::Revision(revision)] if revision.version == 1_700_000_000_400), "{found:?}");
        let timeless = source.replace("1700000000400", "null");
        assert_eq!(fault(timed(), Some("7"), &event("d", "null", "null", &timeless)).kind, "unusable_revision");
    }
}

#[test]
fn a_version_that_is_missing_or_out_of_range_is_a_fault() {
    for (source, member) in [
        (MYSQL, r#""file":"mysql-bin.000003""#),
        (MYSQL, r#""pos":154"#),
        (MYSQL, r#""row":2"#),
        (POSTGRESQL, r#""lsn":2400164"#),
        (LINDORM, r#""ts_ms":1700000000400"#),
    ] {
        let name = member.split(':').next().unwrap();
        for wrong in ["null", "-1", "1.0", "\"\"", "9223372036854775808", "true", "{}"] {
            let source = source.replace(member, &format!("{name}:{wrong}"));
            assert_eq!(one(&event("c", "null", r#"{"id":7}"#, &source)), "unusable_revision", "{name} {wrong}");
        }
        let source = source.replace(member, r#""gone":1"#);
        assert_eq!(one(&event("c", "null", r#"{"id":7}"#, &source)), "unusable_revision", "{name}");
    }
    let as_text = POSTGRESQL.replace("2400164,", "\"2400164\",");
    assert_eq!(one(&event("d", "null", "null", &as_text)), "public.item/7@2400164 deleted");
}

#[test]
fn a_snapshot_of_sql_server_has_the_number_of_its_commit() {
    let commit = 0x27u64 << 41 | 0xAC0 << 16 | 7;
    for none in ["null", "\"NULL\""] {
        let source = SQLSERVER.replace("\"00000027:00000ac0:0003\"", none).replace("\"false\"", "\"true\"");
        assert_eq!(one(&event("r", "null", r#"{"id":7}"#, &source)), format!(r#"dbo.item/7@{commit} {{"id":7}}"#));
        let source = source.replace("\"00000027:00000ac0:0007\"", "null");
        assert_eq!(one(&event("r", "null", r#"{"id":7}"#, &source)), "unusable_revision");
    }
}

#[test]
fn snapshot_rows_have_the_same_version_whatever_marks_them() {
    for mark in
        ["true", "false", "\"true\"", "\"first\"", "\"first_in_data_collection\"", "\"last\"", "\"false\"", "\"incremental\"", "null"]
    {
        let source = POSTGRESQL.replace("\"last\"", mark);
        assert_eq!(one(&event("r", "null", r#"{"id":7}"#, &source)), r#"public.item/7@2400164 {"id":7}"#);
    }
}

#[test]
fn values_arrive_as_they_were_written() {
    let row = r#"{"id":7,"big":123456789012345678901234567890,"exact":442.30,"small":1e-7,"flag":true,"none":null,"text":"Grüße\n\u0041","list":[1,{"a":2.50}],"day":19675}"#;
    let written = r#"{"id":7,"big":123456789012345678901234567890,"exact":442.30,"small":1e-7,"flag":true,"none":null,"text":"Grüße\nA","list":[1,{"a":2.50}],"day":19675}"#;
    assert_eq!(one(&event("c", "null", row, POSTGRESQL)), format!("public.item/7@2400164 {written}"));
}

#[test]
fn columns_become_what_the_configuration_says() {
    let types = BTreeMap::from([("price".to_owned(), ColumnType::Decimal), ("at".to_owned(), ColumnType::TimestampMs)]);
    let typed = || options(TableOptions { types: types.clone(), ..TableOptions::default() });
    let row = r#"{"id":7,"price":"12.50","at":1700000000000}"#;
    let found = contents(typed(), Some(r#"{"id":7}"#), event("c", "null", row, POSTGRESQL));
    assert_eq!(line(&found[0]), r#"public.item/7@2400164 {"id":7,"price":12.50,"at":"2023-11-14T22:13:20.000Z"}"#);
    assert_eq!(
        fault(typed(), Some(r#"{"id":7}"#), &event("c", "null", &row.replace("12.50", "secret"), POSTGRESQL)).kind,
        "wrong_column_type"
    );
}

const PRICE: &str = r#"{"type":"bytes","optional":true,"name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"2"},"field":"price"}"#;
const ANY: &str = r#"{"type":"struct","fields":[{"type":"int32","field":"scale"},{"type":"bytes","field":"value"}],"optional":true,"name":"io.debezium.data.VariableScaleDecimal","version":1,"field":"any"}"#;

#[test]
fn decimals_are_numbers_where_the_message_carries_its_schema_and_bytes_where_it_does_not() {
    let row = r#"{"id":7,"price":"BOI=","any":{"scale":3,"value":"AP8="}}"#;
    let put = event("u", "null", row, POSTGRESQL);
    assert_eq!(one(&put), format!("public.item/7@2400164 {row}"));
    let with = with_schema(&put, &format!("{PRICE},{ANY}"));
    assert_eq!(one(&with), r#"public.item/7@2400164 {"id":7,"price":12.50,"any":0.255}"#);
    let rules = Rules { decimals: Decimals::String, ..Rules::default() };
    let found = contents(options(TableOptions { rules, ..TableOptions::default() }), Some(r#"{"id":7}"#), with.clone());
    assert_eq!(line(&found[0]), r#"public.item/7@2400164 {"id":7,"price":"12.50","any":"0.255"}"#);
    assert_eq!(one(&with.replace("\"BOI=\"", "12.50")), one(&with), "a converter may write numbers");
    assert_eq!(one(&with.replace("\"BOI=\"", "null")), r#"public.item/7@2400164 {"id":7,"price":null,"any":0.255}"#);
    assert_eq!(one(&with.replace("BOI=", "BOI")), "wrong_column_type");
}

#[test]
fn a_key_that_is_a_decimal_is_one_id_in_every_message() {
    let id = PRICE.replace("\"2\"", "\"0\"").replace("price", "id");
    let key = |payload: &str| format!(r#"{{"schema":{{"type":"struct","fields":[{id}]}},"payload":{payload}}}"#);
    let rules = Rules { decimals: Decimals::String, ..Rules::default() };
    let options = || options(TableOptions { rules, ..TableOptions::default() });
    for key in [key(r#"{"id":"Bw=="}"#), r#"{"id":"Bw=="}"#.to_owned()] {
        let put = with_schema(&event("c", "null", r#"{"id":"Bw=="}"#, POSTGRESQL), &id);
        assert_eq!(line(&contents(options(), Some(&key), put)[0]), r#"public.item/7@2400164 {"id":"7.0"}"#);
        let delete = with_schema(&event("d", "null", "null", POSTGRESQL), &id);
        assert_eq!(line(&contents(options(), Some(&key), delete)[0]), "public.item/7@2400164 deleted");
    }
    let scalar = format!(r#"{{"schema":{id},"payload":"Bw=="}}"#);
    let delete = with_schema(&event("d", "null", "null", POSTGRESQL), &id);
    assert_eq!(line(&contents(options(), Some(&scalar), delete)[0]), "public.item/7@2400164 deleted");
}

#[test]
fn what_is_wrong_in_a_row_before_its_change_is_of_no_interest_but_in_its_key() {
    let update = |before: &str| with_schema(&event("u", before, r#"{"id":7,"price":"BOI="}"#, POSTGRESQL), PRICE);
    let expected = ["public.item/6@2400164 deleted", r#"public.item/7@2400164 {"id":7,"price":12.50}"#];
    assert_eq!(lines(Some(r#"{"id":7}"#), &update(r#"{"id":6,"price":"?"}"#)), expected);
    assert_eq!(lines(Some(r#"{"price":"BOI="}"#), &update(r#"{"id":6,"price":"?"}"#)), ["wrong_column_type"]);
}

#[test]
fn a_value_that_was_not_sent_is_a_fault_that_says_how_to_get_it() {
    let row = |value: &str| event("u", "null", &format!(r#"{{"id":7,"note":{value}}}"#), POSTGRESQL);
    for value in [
        r#""__debezium_unavailable_value""#,
        r#"["__debezium_unavailable_value"]"#,
        r#"{"__debezium_unavailable_value":"__debezium_unavailable_value"}"#,
    ] {
        let fault = fault(options(TableOptions::default()), Some(r#"{"id":7}"#), &row(value));
        assert_eq!(fault.kind, "unavailable_value");
        assert!(fault.reason.contains("\"note\"") && fault.reason.contains("REPLICA IDENTITY FULL"), "{fault}");
    }
    assert_eq!(
        one(&row(r#""not __debezium_unavailable_value""#)),
        r#"public.item/7@2400164 {"id":7,"note":"not __debezium_unavailable_value"}"#
    );
    let delete = event("d", r#"{"id":7,"note":"__debezium_unavailable_value"}"#, "null", POSTGRESQL);
    assert_eq!(one(&delete), "public.item/7@2400164 deleted", "a delete writes no row");
}

#[test]
fn cells_are_refused_for_a_table_of_debezium() {
    let cells = options(TableOptions { rows: Rows::Cells, ..TableOptions::default() });
    let found = contents(cells, Some("7"), event("c", "null", r#"{"id":7}"#, POSTGRESQL));
    assert!(
        matches!(&found[..], [Content::Refused(error)] if error.what.starts_with("public.item: expected rows = \"full\"")),
        "{found:?}"
    );
}

#[test]
fn documents_of_mongodb_are_a_fault_where_its_versions_are_allowed() {
    let source = r#"{"version":"3.2.0.Final","connector":"mongodb","ts_ms":5,"db":"shop","collection":"item","ord":1}"#;
    let timed = Options { versions: Versions::Timestamp, ..options(TableOptions::default()) };
    let fault = fault(timed, Some(r#"{"id":"7"}"#), &event("c", "null", r#""{\"_id\":7}""#, source));
    assert!(fault.reason.ends_with("documents of MongoDB are not supported"), "{fault}");
}

#[test]
fn the_metadata_is_what_the_event_says_beside_the_row() {
    let with = |metadata| options(TableOptions { metadata, ..TableOptions::default() });
    let with_metadata = || with(Metadata::Field);
    let metadata = |content: &Content| match content {
        Content::Revision(revision) => std::str::from_utf8(revision.metadata.as_ref().unwrap().as_bytes()).unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    let found = contents(with_metadata(), Some(r#"{"id":7}"#), event("d", r#"{"id":7}"#, "null", LINDORM));
    let expected = format!(r#"{{"table":"shop.item","id":"7","version":1700000000400,"op":"d","ts_ms":1700000000900,"source":{LINDORM}}}"#);
    assert_eq!(metadata(&found[0]), expected);
    let moved = contents(with_metadata(), Some(r#"{"id":7}"#), event("u", r#"{"id":6}"#, r#"{"id":7}"#, LINDORM));
    assert!(metadata(&moved[0]).contains(r#""id":"6","version":1700000000400,"op":"u""#) && metadata(&moved[1]).contains(r#""id":"7""#));
    let found = contents(with(Metadata::Committed), Some(r#"{"id":7}"#), event("d", r#"{"id":7}"#, "null", LINDORM));
    let expected = format!(r#"{{"metadata":{{"id":"7","version":1700000000400,"op":"d","ts_ms":1700000000900,"source":{LINDORM}}}}}"#);
    assert_eq!(metadata(&found[0]), expected);
}

/// One row's life on each connector: the events, each with the message key.
fn history(connector: &str) -> Vec<(String, String)> {
    let source = |step: u64| match connector {
        "mysql" => {
            MYSQL.replace(r#""pos":154"#, &format!(r#""pos":{}"#, 154 + step / 2)).replace(r#""row":2"#, &format!(r#""row":{}"#, step % 2))
        }
        "postgresql" => POSTGRESQL.replace("2400164,", &format!("{},", 2_400_164 + step)),
        "sqlserver" => SQLSERVER.replace(":0003", &format!(":{:04x}", 3 + step)),
        _ => LINDORM.replace("1700000000400", &format!("{}", 1_700_000_000_400 + step)),
    };
    let row = |n: u64| format!(r#"{{"id":7,"n":{n}}}"#);
    let key = r#"{"id":7}"#.to_owned();
    let ops = [("r", 0), ("u", 1), ("d", 2), ("c", 3), ("u", 4), ("u", 5)];
    ops.iter()
        .map(|(op, step)| {
            let (before, after) = match *op {
                "d" => (row(step - 1), "null".to_owned()),
                "u" => (row(step - 1), row(*step)),
                _ => ("null".to_owned(), row(*step)),
            };
            (key.clone(), event(op, &before, &after, &source(*step)))
        })
        .collect()
}

proptest! {
    #[test]
    fn a_history_gives_the_same_ids_and_versions_however_it_comes(
        connector in prop::sample::select(vec!["mysql", "postgresql", "sqlserver", "lindorm"]),
        order in prop::collection::vec(0..6usize, 0..20),
    ) {
        let history = history(connector);
        let decoded: Vec<String> = history.iter().map(|(key, event)| lines(Some(key), event).concat()).collect();
        let versions: Vec<u64> = decoded.iter().map(|line| line.split(['@', ' ']).nth(1).unwrap().parse().unwrap()).collect();
        prop_assert!(versions.is_sorted() && versions.windows(2).all(|pair| pair[0] != pair[1]), "{:?}", versions);
        // Duplicated and in any order, with a memory of what came before: one decoder for all of them.
        let mut decoder = Decoder::new(options(TableOptions::default()));
        let mut newest: Option<(u64, String)> = None;
        for at in order.into_iter().chain(0..6).chain([5, 2, 0]) {
            let (key, event) = &history[at];
            let message = Message { key: Some(Bytes::copy_from_slice(key.as_bytes())), ..Message::default() };
            let user_record = decoder.open_payload(&Bytes::copy_from_slice(event.as_bytes()), Some(Arc::new(message)));
            let found = decode(&mut decoder, &user_record, &mut Notes::default());
            prop_assert_eq!(&line(&found[0]), &decoded[at]);
            if newest.as_ref().is_none_or(|(version, _)| versions[at] >= *version) {
                newest = Some((versions[at], decoded[at].clone()));
            }
        }
        prop_assert_eq!(newest.unwrap().1, decoded[5].clone());
    }

    #[test]
    fn no_damage_is_more_than_a_fault(
        source in prop::sample::select(vec![MYSQL, POSTGRESQL, SQLSERVER, LINDORM, ORACLE]),
        op in prop::sample::select(vec!["c", "u", "d", "t", "m"]),
        wrapped in any::<bool>(),
        cut in 0.0..1.0f64,
        damage in prop::collection::vec((0.0..1.0f64, prop::sample::select(&b"{}[]\":,\\u0n-e.\xFF\xC3 "[..])), 0..4),
        key in "[{}\"\\[\\]:,a-z0-9]{0,12}",
    ) {
        let event = event(op, r#"{"id":6,"price":"BOI="}"#, r#"{"id":7,"price":"BOI=","any":{"scale":3,"value":"AP8="}}"#, source);
        let mut bytes = if wrapped { with_schema(&event, &format!("{PRICE},{ANY}")) } else { event }.into_bytes();
        for (at, byte) in damage {
            let at = (at * bytes.len() as f64) as usize;
            bytes[at] = byte;
        }
        bytes.truncate(((1.2 - cut) * bytes.len() as f64) as usize);
        for options in [options(TableOptions::default()), keyed(&["id"]), Options { versions: Versions::Timestamp, ..keyed(&["id", "price"]) }] {
            let found = contents(options, Some(&key), bytes.clone());
            prop_assert!((1..=2).contains(&found.len()));
            for content in &found {
                if let Content::Revision(Revision { id, change: Change::Put(document), .. }) = content {
                    prop_assert!(!id.is_empty() && serde_json::from_slice::<serde_json::Value>(document.as_bytes()).is_ok_and(|value| value.is_object()));
                }
            }
        }
    }
}
