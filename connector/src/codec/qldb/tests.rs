use bytes::Bytes;
use ion_rs::v1_0::Binary;

use super::super::ion_json::{self, Decimals, Rules, write_value};
use super::super::ion_symbols::MAX_SYMBOLS;
use super::super::{MAX_FAULTS, Metadata, Options, TableOptions, Unit, ion_text};
use super::*;
use crate::revision::Change;

/// What a record of these bytes comes to, a line for each unit.
pub(super) fn decode_with(options: Options, record: impl Into<Bytes>) -> (Vec<Unit>, Notes) {
    let (mut units, mut notes) = (Vec::new(), Notes::default());
    let mut decoder = Decoder::new(options);
    let user_record = decoder.open_payload(&record.into(), None);
    let mut decoded = decoder.units(&user_record);
    while let Some((index, content)) = decoded.next(&mut decoder, &mut notes) {
        units.push(Unit { sub: None, index, payload: user_record.payload.clone(), content });
    }
    assert!(units.iter().zip(0..).all(|(unit, index)| unit.index == index), "places in order");
    (units, notes)
}

pub(super) fn line(unit: &Unit) -> String {
    match &unit.content {
        Content::Skip(reason) => reason.as_str().to_owned(),
        Content::Fault(fault) => fault.kind.clone(),
        Content::Block(block) => {
            format!("{}@{} {}", block.strand, block.sequence, std::str::from_utf8(block.summary.as_bytes()).unwrap())
        }
        Content::Refused(error) => error.what.clone(),
        Content::Revision(revision) => {
            let change = match &revision.change {
                Change::Put(document) => std::str::from_utf8(document.as_bytes()).unwrap(),
                Change::Delete => "deleted",
                Change::Redaction => "redacted",
                Change::Cells(_) => "cells",
            };
            let metadata = revision.metadata.as_ref().map_or("", |metadata| std::str::from_utf8(metadata.as_bytes()).unwrap());
            format!("{}/{}@{} {change}{metadata}", revision.table, revision.id, revision.version)
        }
    }
}

pub(super) fn lines(record: impl Into<Bytes>) -> Vec<String> {
    decode_with(Options::default(), record).0.iter().map(line).collect()
}

pub(super) fn to_binary(text: &str) -> Vec<u8> {
    // By ion-rs alone, as a producer would write it.
    ion_text::elements(text).flat_map(|element| element.unwrap().encode_as(Binary).unwrap()).collect()
}

/// The one unit of a record, which must be the same from its text and from its binary form.
fn one(text: &str) -> String {
    let found = lines(text.to_owned());
    assert_eq!(found, lines(to_binary(text)), "{text}");
    assert_eq!(found.len(), 1, "{text}");
    found[0].clone()
}

fn details(payload: &str) -> String {
    format!("{{qldbStreamArn:\"arn\",recordType:\"REVISION_DETAILS\",payload:{payload}}}")
}

/// A record of the table `Item` with these members of its revision.
fn revision(members: &str) -> String {
    details(&format!("{{tableInfo:{{tableName:\"Item\",tableId:\"t\"}},revision:{{{members}}}}}"))
}

const METADATA: &str = "metadata:{id:\"a\",version:7}";

#[test]
fn only_revision_details_carry_a_revision() {
    assert_eq!(one(&revision(&format!("data:{{x:1.50}},{METADATA}"))), r#"Item/a@7 {"x":1.50}"#);
    assert_eq!(one("{recordType:\"CONTROL\",payload:{controlRecordType:\"CREATED\"}}"), "control");
    assert_eq!(one("{recordType:\"CONTROL\",payload:{controlRecordType:\"PAUSED\"}}"), "control");
    assert_eq!(one("{recordType:\"CONTROL\"}"), "control");
    assert_eq!(one("{recordType:\"BLOCK_SUMMARY\",payload:{blockAddress:{strandId:\"s\",sequenceNo:1}}}"), "block_summary");
    assert_eq!(one("{recordType:\"SOMETHING_NEW\",payload:{}}"), "unknown_record");
    assert_eq!(one("{recordType:\"revision_details\",payload:{}}"), "unknown_record");
    for without_type in
        ["{}", "{payload:{}}", "{recordType:null.string}", "{recordType:7}", "{recordType:\"\"}", "{recordType:[\"CONTROL\"]}"]
    {
        assert_eq!(one(without_type), "unknown_record", "{without_type}");
    }
}

#[test]
fn what_is_no_struct_is_no_record() {
    for value in
        ["1", "\"text\"", "symbol", "[{recordType:\"CONTROL\"}]", "({recordType:\"CONTROL\"})", "null", "null.struct", "true", "2020-01-01"]
    {
        assert_eq!(one(value), "unknown_record", "{value}");
    }
    assert_eq!(one(&details("null")), "unknown_record");
    assert_eq!(one(&details("[]")), "unknown_record");
    assert_eq!(one("{recordType:\"REVISION_DETAILS\"}"), "unknown_record");
}

#[test]
fn data_decides_between_put_redaction_and_delete() {
    for (members, expected) in [
        ("data:{x:1}", r#"Item/a@7 {"x":1}"#),
        ("data:{}", "Item/a@7 {}"),
        ("data:note::{x:1}", r#"Item/a@7 {"x":1}"#),
        ("data:{x:1},dataHash:{{AA==}}", r#"Item/a@7 {"x":1}"#),
        ("data:{},dataHash:{{AA==}}", "Item/a@7 {}"),
        ("dataHash:{{AA==}}", "Item/a@7 redacted"),
        ("data:null,dataHash:{{AA==}}", "Item/a@7 redacted"),
        ("data:null.struct,dataHash:{{AA==}}", "Item/a@7 redacted"),
        ("hash:{{AA==}}", "Item/a@7 deleted"),
        ("data:null", "Item/a@7 deleted"),
        ("data:null.struct", "Item/a@7 deleted"),
        ("data:null.list", "Item/a@7 deleted"),
        ("data:null.string", "Item/a@7 deleted"),
        ("dataHash:null.blob", "Item/a@7 deleted"),
        ("dataHash:null", "Item/a@7 deleted"),
        ("data:null,dataHash:null", "Item/a@7 deleted"),
        ("data:[1]", "unusable_revision"),
        ("data:[]", "unusable_revision"),
        ("data:0", "unusable_revision"),
        ("data:false", "unusable_revision"),
        ("data:\"\"", "unusable_revision"),
        ("data:({})", "unusable_revision"),
        ("data:[],dataHash:{{AA==}}", "unusable_revision"),
    ] {
        assert_eq!(one(&revision(&format!("{members},{METADATA}"))), expected, "{members}");
    }
}

#[test]
fn ids_are_texts_and_not_empty() {
    let with = |id: &str| one(&revision(&format!("data:{{}},metadata:{{id:{id},version:0}}")));
    assert_eq!(with("\"3QxYbM8sTkE1pLw0Zr9uAc\""), "Item/3QxYbM8sTkE1pLw0Zr9uAc@0 {}");
    assert_eq!(with("symbol"), "Item/symbol@0 {}");
    assert_eq!(with("\"  \\n\""), "Item/  \n@0 {}", "as it is");
    for id in ["\"\"", "''", "null", "null.string", "7", "{}", "{{AA==}}"] {
        assert_eq!(with(id), "unusable_revision", "{id}");
    }
    assert_eq!(one(&revision("data:{},metadata:{version:0}")), "unusable_revision");
}

#[test]
fn versions_are_whole_numbers_up_to_the_highest_external_version() {
    let with = |version: &str| one(&revision(&format!("data:{{}},metadata:{{id:\"a\",version:{version}}}")));
    for version in ["0", "1", "4294967296", "9223372036854775807"] {
        assert_eq!(with(version), format!("Item/a@{version} {{}}"));
    }
    for version in ["9223372036854775808", "18446744073709551616", "-1", "7.", "7d0", "7e0", "\"7\"", "null", "null.int", "seven", "[7]"] {
        assert_eq!(with(version), "unusable_revision", "{version}");
    }
    assert_eq!(one(&revision("data:{},metadata:{id:\"a\"}")), "unusable_revision");
}

#[test]
fn table_and_metadata_must_be_there() {
    let data = format!("revision:{{data:{{}},{METADATA}}}");
    for (payload, expected) in [
        (format!("{{tableInfo:{{tableName:\"Item\"}},{data}}}"), "Item/a@7 {}"),
        (format!("{{tableInfo:{{tableName:Item}},{data}}}"), "Item/a@7 {}"),
        (format!("{{{data}}}"), "unusable_revision"),
        (format!("{{tableInfo:null.struct,{data}}}"), "unusable_revision"),
        (format!("{{tableInfo:{{}},{data}}}"), "unusable_revision"),
        (format!("{{tableInfo:{{tableName:\"\"}},{data}}}"), "unusable_revision"),
        (format!("{{tableInfo:{{tableName:null.string}},{data}}}"), "unusable_revision"),
        (format!("{{tableInfo:{{tableName:7}},{data}}}"), "unusable_revision"),
        ("{tableInfo:{tableName:\"Item\"}}".to_owned(), "unusable_revision"),
        ("{tableInfo:{tableName:\"Item\"},revision:null}".to_owned(), "unusable_revision"),
        ("{tableInfo:{tableName:\"Item\"},revision:{data:{}}}".to_owned(), "unusable_revision"),
        ("{tableInfo:{tableName:\"Item\"},revision:{data:{},metadata:null.struct}}".to_owned(), "unusable_revision"),
        ("{tableInfo:{tableName:\"Item\"},revision:{data:{},metadata:[]}}".to_owned(), "unusable_revision"),
        ("{}".to_owned(), "unusable_revision"),
    ] {
        assert_eq!(one(&details(&payload)), expected, "{payload}");
    }
}

#[test]
fn members_that_are_not_known_are_ignored_and_order_does_not_matter() {
    let record = "{later:{recordType:\"CONTROL\"},payload:{revision:{metadata:{version:7,more:[1],id:\"a\",txId:null},data:{x:1},extra:2},\
                  more:{},tableInfo:{other:1,tableName:\"Item\"}},recordType:'REVISION_DETAILS'}";
    assert_eq!(one(record), r#"Item/a@7 {"x":1}"#);
}

#[test]
fn of_a_repeated_member_the_last_counts() {
    assert_eq!(one(&revision(&format!("data:{{x:1}},data:{{x:2}},{METADATA}"))), r#"Item/a@7 {"x":2}"#);
    assert_eq!(one(&revision(&format!("data:{{x:1}},data:null,{METADATA}"))), "Item/a@7 deleted");
    assert_eq!(one("{recordType:\"SKETCH\",recordType:\"CONTROL\"}"), "control");
}

#[test]
fn every_value_of_a_record_is_a_unit() {
    let revisions: String = (0..3).map(|n| revision(&format!("data:{{n:{n}}},metadata:{{id:\"a\",version:{n}}}")) + " ").collect();
    let text = format!("{revisions} 5 {{recordType:\"CONTROL\"}}");
    let expected = [r#"Item/a@0 {"n":0}"#, r#"Item/a@1 {"n":1}"#, r#"Item/a@2 {"n":2}"#, "unknown_record", "control"];
    assert_eq!(lines(text.clone()), expected);
    assert_eq!(lines(to_binary(&text)), expected);
}

#[test]
fn damage_costs_what_follows_it() {
    let good = revision(&format!("data:{{x:1}},{METADATA}"));
    let expected = [r#"Item/a@7 {"x":1}"#, "undecodable"];
    assert_eq!(lines(format!("{good} {{x:")), expected);
    assert_eq!(lines(format!("{good} ] {good}")), expected);
    let binary = to_binary(&good);
    assert_eq!(lines([&binary[..], &[0xF3]].concat()), expected);
    assert_eq!(lines([&binary[..], &[0xDE, 0xFF, 0x84]].concat()), expected);
    assert_eq!(lines([&binary[..], &[0xE0, 0x01, 0x01, 0xEA], &binary].concat()), expected);
    for end in VERSION_MARKER.len() + 1..binary.len() {
        let found = lines(binary[..end].to_vec());
        assert!(found == ["undecodable"] || found == ["no_change"], "cut at {end}: {found:?}");
    }
}

#[test]
fn damage_inside_one_value_costs_that_value() {
    let (good, bad) = (revision(&format!("data:{{x:1}},{METADATA}")), revision(&format!("data:{{x:\"text\"}},{METADATA}")));
    let mut damaged = to_binary(&bad);
    let text = damaged.windows(5).position(|window| window == b"\x84text").unwrap();
    damaged[text + 2] = 0xFF;
    assert_eq!(lines([damaged, to_binary(&good)].concat()), ["undecodable", r#"Item/a@7 {"x":1}"#]);
    let long = revision(&format!("data:{{x:0.{}}},{METADATA}", "7".repeat(100)));
    assert_eq!(lines(format!("{good} {long} {good}")), [r#"Item/a@7 {"x":1}"#, "undecodable", r#"Item/a@7 {"x":1}"#]);
}

#[test]
fn a_record_without_a_value_changes_nothing() {
    for record in [&b""[..], b" \n", b"// nothing", &VERSION_MARKER, &[0xE0, 1, 0, 0xEA, 0x02, 9, 9], &[0xE0, 1, 0, 0xEA, 0xE0, 1, 0, 0xEA]]
    {
        assert_eq!(lines(record.to_vec()), ["no_change"]);
    }
}

#[test]
fn bytes_that_are_no_ion_are_told_by_how_they_begin() {
    let (units, _) = decode_with(Options::default(), vec![0xF3, 0x89, 0x9A, 0xC2, 0xFF, 0xFE]);
    let Content::Fault(fault) = &units[0].content else { panic!("{units:?}") };
    assert_eq!(fault.kind, "undecodable");
    assert!(fault.reason.ends_with("found bytes that begin with F3 89 9A C2"), "{}", fault.reason);
    assert_eq!(lines(vec![0xE0, 0x01, 0x01, 0xEA, 0xFF]), ["undecodable"]);
    assert_eq!(lines("<html>"), ["undecodable"]);
}

#[test]
fn a_record_of_rubbish_becomes_a_bounded_number_of_units() {
    let rubbish = |bytes: usize| [&VERSION_MARKER[..], &vec![0x11; bytes]].concat();
    let found = lines(rubbish(60_000));
    assert_eq!(found.len(), MAX_FAULTS + 1);
    assert_eq!((found[0].as_str(), found[MAX_FAULTS].as_str()), ("unknown_record", "too_many_faults"));
    assert_eq!(lines("1 ".repeat(2_000)).len(), MAX_FAULTS + 1);
    // Each dead letter holds the whole record: of a large one there are not as many.
    assert_eq!([1 << 20, 16 << 20].map(|bytes| lines(rubbish(bytes)).len()), [64 + 1, 4 + 1]);
    let control = "{recordType:\"CONTROL\"} ".repeat(MAX_FAULTS + 500);
    assert_eq!(lines(to_binary(&control)).len(), MAX_FAULTS + 500, "records that are good have no such limit");
}

#[test]
fn what_stands_before_a_limit_is_delivered() {
    let good = revision(&format!("data:{{x:1}},{METADATA}"));
    let many = "1,".repeat(ion_text::MAX_TEXT_VALUES);
    for large in [revision(&format!("data:{{x:[{many}]}},{METADATA}")), format!("x::[{many}]"), format!("[{many}"), format!("({many}1)")] {
        assert_eq!(
            lines(format!("{good}\n{good} {large}\n{good}")),
            ["Item/a@7 {\"x\":1}", "Item/a@7 {\"x\":1}", "too_many_values"],
            "{}",
            &large[..40]
        );
    }
    let fields = |count: usize| {
        let fields: Vec<u8> = [0x84, 0x20].repeat(count);
        let length = [(fields.len() >> 14) as u8, (fields.len() >> 7 & 0x7F) as u8, fields.len() as u8 | 0x80];
        let mut json = Vec::new();
        let record = [&VERSION_MARKER[..], &[0xDE], &length, &fields].concat();
        let mut reader = Reader::new(&record);
        let (value, symbols) = reader.next_value().unwrap().unwrap();
        write_value(value, symbols, &Rules::default(), &mut json, &mut Notes::default()).map_err(|fault| fault.kind)
    };
    assert_eq!(fields(ion_json::MAX_FIELDS), Ok(()));
    assert_eq!(fields(ion_json::MAX_FIELDS + 1), Err("too_many_values".to_owned()));
    let table = |count: usize| {
        let tagged = |kind: u8, body: &[u8]| {
            let length = [(body.len() >> 14) as u8, (body.len() >> 7 & 0x7F) as u8, (body.len() & 0x7F) as u8 | 0x80];
            [&[kind << 4 | 14][..], &length, body].concat()
        };
        let table = tagged(13, &[&[0x87], &tagged(11, &vec![0x80; count])[..]].concat());
        lines([&to_binary(&good)[..], &VERSION_MARKER, &tagged(14, &[&[0x81, 0x83], &table[..]].concat()), &to_binary(&good)].concat())
    };
    assert_eq!(table(MAX_SYMBOLS), ["Item/a@7 {\"x\":1}", "Item/a@7 {\"x\":1}"]);
    assert_eq!(table(MAX_SYMBOLS + 1), ["Item/a@7 {\"x\":1}", "too_many_values"]);
}

#[test]
fn faults_never_tell_what_is_in_a_document() {
    for record in [
        revision(&format!("data:[\"classified\"],{METADATA}")),
        revision("data:{a:\"classified\"},metadata:{id:7,version:\"classified\"}"),
        revision("data:{classified:$0},metadata:{id:\"a\",version:1}"),
        format!("{{x:\"classified\" {METADATA}"),
        "{recordType:\"classified\"}".to_owned(),
    ] {
        let (units, _) = decode_with(Options { verify_hashes: true, ..Options::default() }, record.clone());
        let Content::Fault(fault) = &units[0].content else { panic!("{record}: {units:?}") };
        assert!(!fault.reason.contains("classified"), "{}", fault.reason);
    }
}

#[test]
fn a_table_has_its_own_rules_and_metadata() {
    let options = || Options {
        table: Box::new(|table| {
            let decimals = if table == "Exact" { Decimals::String } else { Decimals::Number };
            let metadata = if table == "Exact" { Metadata::Field } else { Metadata::None };
            TableOptions { rules: Rules { decimals, ..Rules::default() }, metadata, ..TableOptions::default() }
        }),
        ..Options::default()
    };
    let members = "blockAddress:{strandId:\"s\",sequenceNo:9},data:{p:1.50},metadata:{id:\"a\\\"b\",version:7,txTime:2020-03-01T08:15:30.250Z,txId:\"x\"}";
    let item = revision(members);
    let (units, _) = decode_with(options(), item.clone());
    assert_eq!(line(&units[0]), r#"Item/a"b@7 {"p":1.50}"#);
    let (units, _) = decode_with(options(), item.replace("\"Item\"", "\"Exact\""));
    let metadata = r#"{"table":"Exact","id":"a\"b","version":7,"tableId":"t","txId":"x","txTime":"2020-03-01T08:15:30.250Z","blockAddress":{"strandId":"s","sequenceNo":9}}"#;
    assert_eq!(line(&units[0]), format!(r#"Exact/a"b@7 {{"p":"1.50"}}{metadata}"#));
    let deleted = revision(METADATA).replace("\"Item\"", "\"Exact\"");
    assert_eq!(line(&decode_with(options(), deleted).0[0]), r#"Exact/a@7 deleted{"table":"Exact","id":"a","version":7,"tableId":"t"}"#);
}

fn options_of_item(item: TableOptions) -> Options {
    Options { table: Box::new(move |table| if table == "Item" { item.clone() } else { TableOptions::default() }), ..Options::default() }
}

#[test]
fn the_committed_view_has_what_the_revision_has() {
    let committed = |record: &str| {
        let options = options_of_item(TableOptions { metadata: Metadata::Committed, ..TableOptions::default() });
        line(&decode_with(options, record.to_owned()).0[0])
    };
    let view = "{\"blockAddress\":{\"strandId\":\"7sWdNf0uQxB4mJkTzL1eRg\",\"sequenceNo\":918},\"hash\":\"SsYrYUtATNiLcWBfd9VMm+QV3IHaBk8Yj2zY292iQaE=\",\
                \"metadata\":{\"id\":\"3QxYbM8sTkE1pLw0Zr9uAc\",\"version\":2,\"txTime\":\"2020-03-01T08:15:30.250Z\",\"txId\":\"9fKc2WqLr7D0xVtJm4HsNe\"}}";
    assert_eq!(committed(&published("")), format!("Item/3QxYbM8sTkE1pLw0Zr9uAc@2 deleted{view}"));
    assert_eq!(committed(&published(DATA_HASH)), format!("Item/3QxYbM8sTkE1pLw0Zr9uAc@2 redacted{view}"));
    assert_eq!(committed(&published("data:{a:1},")), format!("Item/3QxYbM8sTkE1pLw0Zr9uAc@2 {{\"a\":1}}{view}"));
    assert_eq!(committed(&revision(METADATA)), "Item/a@7 deleted{\"metadata\":{\"id\":\"a\",\"version\":7}}");
    let odd = revision(&format!("hash:null.blob,blockAddress:null,data:{{}},{METADATA}"));
    assert_eq!(committed(&odd), "Item/a@7 {}{\"blockAddress\":null,\"hash\":null,\"metadata\":{\"id\":\"a\",\"version\":7}}");
}

#[test]
fn a_table_that_is_not_to_be_read_is_unmapped_whatever_is_in_its_revisions() {
    let broken = revision("data:[1],metadata:7");
    let record = [&published(DATA), &broken, &broken.replace("\"Item\"", "\"Other\""), &published(DATA)].map(String::as_str).concat();
    let options = || options_of_item(TableOptions { unread: true, ..TableOptions::default() });
    let lines: Vec<_> = decode_with(options(), record).0.iter().map(line).collect();
    assert_eq!(lines, ["unmapped", "unmapped", "unusable_revision", "unmapped"]);
}

/// The documentation's revision, whose hash is known to be right, with a stream record around it.
pub(super) fn published(part: &str) -> String {
    format!(
        "{{qldbStreamArn:\"arn\",recordType:\"REVISION_DETAILS\",payload:{{tableInfo:{{tableName:\"Item\",tableId:\"0cVbZr5NnLt2KyWqHs8DfX\"}},\
         revision:{{blockAddress:{{strandId:\"7sWdNf0uQxB4mJkTzL1eRg\",sequenceNo:918}},\
         hash:{{{{SsYrYUtATNiLcWBfd9VMm+QV3IHaBk8Yj2zY292iQaE=}}}},{part}\
         metadata:{{id:\"3QxYbM8sTkE1pLw0Zr9uAc\",version:2,txTime:2020-03-01T08:15:30.250Z,txId:\"9fKc2WqLr7D0xVtJm4HsNe\"}}}}}}}}"
    )
}

pub(super) const DATA: &str = "data:{Sku:\"MX-200\",Title:\"Blue mug\",Price:12.50,Stock:7,Added:2020-02-29,Tags:[\"kitchen\",\"blue\"]},";
pub(super) const DATA_HASH: &str = "dataHash:{{CrbkVBNSo5ZLxuv5/ZaFTNGRSndVYL7PEGgmhXroBnA=}},";

fn verified(text: &str) -> (String, Notes) {
    let options = || Options { verify_hashes: true, ..Options::default() };
    let (units, notes) = decode_with(options(), text.to_owned());
    let (from_binary, binary_notes) = decode_with(options(), to_binary(text));
    assert_eq!((from_binary.iter().map(line).collect::<Vec<_>>(), &binary_notes), (units.iter().map(line).collect(), &notes));
    assert_eq!(units.len(), 1);
    (line(&units[0]), notes)
}

#[test]
fn the_published_hash_is_right_whether_put_or_redacted() {
    let (put, notes) = verified(&published(DATA));
    assert!(put.starts_with("Item/3QxYbM8sTkE1pLw0Zr9uAc@2 {\"Sku\":\"MX-200\""), "{put}");
    assert_eq!((notes.hashes_verified, notes.hashes_mismatched, notes.hashes_unchecked), (1, 0, 0));
    let (redacted, notes) = verified(&published(DATA_HASH));
    assert_eq!(redacted, "Item/3QxYbM8sTkE1pLw0Zr9uAc@2 redacted");
    assert_eq!((notes.hashes_verified, notes.hashes_mismatched, notes.hashes_unchecked), (1, 0, 0));
}

#[test]
fn anything_that_was_changed_afterwards_is_a_mismatch() {
    let good = published(DATA);
    for (from, to) in [
        ("Stock:7", "Stock:8"),
        ("12.50", "12.5"),
        ("2020-02-29", "2020-02-29T00:00Z"),
        ("[\"kitchen\",\"blue\"]", "[\"blue\",\"kitchen\"]"),
        ("Title:\"Blue mug\"", "Title:'Blue mug'"),
        ("Title:\"Blue mug\"", "Title:x::\"Blue mug\""),
        ("Stock:7,", ""),
        ("Stock:7,", "Stock:7,Stock:7,"),
        ("version:2", "version:3"),
        ("08:15:30.250Z", "08:15:30.25Z"),
        ("SsYr", "SsYs"),
        ("data:{", "data:{},data:{extra:1,"),
        ("data:{", "data:{Stock:7},data:{"),
    ] {
        let changed = good.replacen(from, to, 1);
        assert_ne!(changed, good, "{from}");
        let still_right = from == "data:{" && to.starts_with("data:{Stock");
        let (found, notes) = verified(&changed);
        assert_eq!(found == "hash_mismatch", !still_right, "{from} -> {to}: {found}");
        assert_eq!(notes.hashes_mismatched, u64::from(!still_right));
    }
    assert_eq!(verified(&published(DATA_HASH).replace("Crbk", "Crbl")).0, "hash_mismatch");
}

#[test]
fn a_hash_vouches_for_the_data_that_is_written() {
    // The good data first, then what somebody put behind it: the last of a repeated member is what is written.
    let (found, _) = verified(&published(&format!("{DATA}data:{{Sku:\"MX-201\"}},")));
    assert_eq!(found, "hash_mismatch");
}

#[test]
fn the_order_of_fields_does_not_change_a_hash() {
    let swapped = published(DATA).replace("Sku:\"MX-200\",Title:\"Blue mug\"", "Title:\"Blue mug\",Sku:\"MX-200\"");
    assert_eq!(verified(&swapped).1.hashes_verified, 1);
}

#[test]
fn deletes_and_revisions_without_a_hash_stay_unchecked() {
    let (deleted, notes) = verified(&published(""));
    assert_eq!((deleted.as_str(), notes.hashes_unchecked), ("Item/3QxYbM8sTkE1pLw0Zr9uAc@2 deleted", 1));
    for hash in ["hash:null,", "hash:null.blob,", "hash:\"text\",", "hash:{{\"clob\"}},"] {
        let (put, notes) = verified(&revision(&format!("{hash}data:{{}},{METADATA}")));
        assert_eq!((put.as_str(), notes.hashes_unchecked), ("Item/a@7 {}", 1), "{hash}");
    }
}

#[test]
fn each_value_of_a_record_is_checked_by_its_own_hash() {
    let changed = published(DATA).replace("Stock:7", "Stock:8");
    let parts = [published(DATA), "{recordType:\"CONTROL\"}".to_owned(), changed, "7".to_owned(), published(DATA_HASH), published(DATA)];
    let options = || Options { verify_hashes: true, ..Options::default() };
    for record in [Bytes::from(to_binary(&parts.join(" "))), Bytes::from(parts.join(" "))] {
        let (units, notes) = decode_with(options(), record);
        assert_eq!(units.len(), 6);
        assert_eq!((line(&units[2]).as_str(), line(&units[3]).as_str()), ("hash_mismatch", "unknown_record"));
        assert_eq!((notes.hashes_verified, notes.hashes_mismatched), (3, 1));
    }
}

#[test]
fn what_nests_too_deeply_is_never_given_to_be_hashed() {
    let nested = (0..3_000).fold(vec![0xB0], |inner, _| {
        let length = [(inner.len() >> 14) as u8, (inner.len() >> 7 & 0x7F) as u8, (inner.len() & 0x7F) as u8 | 0x80];
        [&[0xBE][..], &length, &inner].concat()
    });
    let good = to_binary(&published(DATA));
    let record = [&good[..], &nested, &good].concat();
    let (units, notes) = decode_with(Options { verify_hashes: true, ..Options::default() }, record);
    assert_eq!(line(&units[1]), "unknown_record");
    assert_eq!(notes.hashes_verified, 2);
}

#[test]
fn lone_surrogates_of_json_are_replaced_and_counted() {
    let record = r#"{"recordType":"REVISION_DETAILS","payload":{"tableInfo":{"tableName":"Item"},"revision":{"data":
        {"a\ud800":"\udc00x\ud83d\ude00\\ud800"},"metadata":{"id":"a","version":7}}}}"#;
    let (units, notes) = decode_with(Options::default(), record);
    assert_eq!(units.iter().map(line).collect::<Vec<_>>(), ["Item/a@7 {\"a\u{FFFD}\":\"\u{FFFD}x😀\\\\ud800\"}"]);
    assert_eq!(notes.lone_surrogates, 2);
}
