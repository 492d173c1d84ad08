use super::*;

fn of(payload: impl AsRef<[u8]>) -> Result<Format, String> {
    format(payload.as_ref()).map_err(|fault| fault.to_string())
}

fn fault(payload: impl AsRef<[u8]>) -> String {
    of(payload).unwrap_err()
}

#[test]
fn a_record_is_known_by_its_outermost_members_in_any_order() {
    for (payload, format) in [
        (r#"{"qldbStreamArn":"x","recordType":"CONTROL","payload":{"op":"c","after":{}}}"#, Format::Qldb),
        (r#"{"payload":{"source":{},"op":"c"},"recordType":"CONTROL"}"#, Format::Qldb),
        (r#"{"blockAddress":{"strandId":"s","sequenceNo":1},"transactionId":"t","revisions":[]}"#, Format::Qldb),
        (r#"{"op":"Put","table":"shop.item","ts":1,"data":[]}"#, Format::Lindorm),
        (" {\n \"data\": [ ], \"op\": \"Put\" }\n", Format::Lindorm),
        (r#"{"op":"Put","data":[],"payload":{"op":"c","after":{}}}"#, Format::Lindorm),
        (r#"{"payload":{"op":"u","ts_ms":1,"before":null,"after":{},"source":{}},"schema":{}}"#, Format::Debezium),
        (r#"{"schema":{"type":"struct"},"payload":{"op":"m","message":{},"source":{}}}"#, Format::Debezium),
        (r#"{"schema":null,"payload":null}"#, Format::Debezium),
        (r#"{"before":null,"after":{"id":1},"op":"c"}"#, Format::Debezium),
        (r#"{"op":"t","source":{"connector":"postgresql"}}"#, Format::Debezium),
    ] {
        assert_eq!(of(payload), Ok(format), "{payload}");
    }
    assert_eq!(of([0xE0, 1, 0, 0xEA, b'{']), Ok(Format::Qldb));
}

#[test]
fn what_debezium_sends_beside_changes_is_of_debezium() {
    for payload in [
        r#"{"ts_ms":1700000000000}"#,
        r#"{"schema":{},"payload":{"ts_ms":1700000000000}}"#,
        r#"{"status":"BEGIN","id":"571:53195829","event_count":null,"data_collections":null,"ts_ms":1}"#,
        r#"{"source":{"connector":"mysql"},"ts_ms":1,"databaseName":"shop","ddl":"CREATE TABLE item","tableChanges":[]}"#,
        r#"{"payload":{"source":{"connector":"sqlserver"},"ddl":null,"tableChanges":[]}}"#,
    ] {
        assert_eq!(of(payload), Ok(Format::Debezium), "{payload}");
    }
    assert!(of(r#"{"ts_ms":1,"name":"mug"}"#).is_err(), "a row that has a column of this name is no heartbeat");
}

#[test]
fn a_record_that_is_cut_off_is_of_the_format_that_it_began_in() {
    assert_eq!(of(r#"{"op":"Put","data":[{"na"#), Ok(Format::Lindorm));
    assert_eq!(of(r#"{"payload":{"op":"u","source":{"co"#), Ok(Format::Debezium));
    assert_eq!(of(r#"{"op":"u","after":{"id":1"#), Ok(Format::Debezium));
}

#[test]
fn what_may_be_ion_text_is_left_to_the_reader_of_ion_text() {
    for payload in
        ["", "{a:1}", "{recordType:\"CONTROL\"}", "$ion_1_0 {}", "note::{\"a\":1}", "{\"a\":1} {recordType:\"CONTROL\"}", "[1", "7"]
    {
        assert_eq!(of(payload), Ok(Format::Auto), "{payload}");
    }
}

#[test]
fn what_is_no_record_is_told_with_all_that_it_could_have_been() {
    let expected = "expected a record of QLDB ({qldbStreamArn, recordType, payload} in Ion, or a block of its journal), Lindorm ({op, table, ts, data} in JSON) or Debezium \
                    ({op, before, after, source} in JSON, alone or as payload), found ";
    for (payload, found) in [
        (&br#"{"name":"mug","op":"c"}"#[..], "a JSON object with the members of none of them"),
        (br#"{"op":7,"data":[]}"#, "a JSON object with the members of none of them"),
        (b"{}", "a JSON object with the members of none of them"),
        (br#"[{"op":"Put","data":[]}]"#, "a list; each of its elements may be a record, but only by itself"),
        (b"\xFF\x01", "bytes that begin with FF 01"),
        (b"\x01\x02\xC3\x28\x00", "bytes that begin with 01 02 C3 28"),
    ] {
        assert!(fault(payload).ends_with(&format!("{expected}{found}")), "{}", fault(payload));
    }
}

#[test]
fn a_row_without_its_change_names_the_transform_that_did_it() {
    for payload in [r#"{"id":7,"name":"mug","__op":"c","__deleted":"false"}"#, r#"{"id":7,"__deleted":"true"}"#] {
        assert!(fault(payload).contains("take the transform out of the connector"), "{}", fault(payload));
    }
}

#[test]
fn a_message_of_a_schema_registry_names_the_converter_that_is_needed() {
    assert!(fault([0, 0, 0, 0, 7, b'{', b'}']).contains("JsonConverter"));
    assert!(fault([0, 0, 0, 0, 7]).contains("JsonConverter"));
    assert_eq!(of([0, 0]), Ok(Format::Auto));
}

proptest::proptest! {
    #[test]
    fn anything_is_judged(bytes: Vec<u8>, text in r#"[{}\[\]",:a-z "]{0,60}"#) {
        let _ = format(&bytes);
        let _ = format(text.as_bytes());
    }
}
