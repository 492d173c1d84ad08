use super::super::super::{Options, Unit};
use super::super::tests::{decode_with, line, to_binary};
use super::*;

fn options(statements: bool) -> Options {
    Options { journal: Some(Journal { statements }), ..Options::default() }
}

fn units(statements: bool, text: &str) -> Vec<Unit> {
    let units = decode_with(options(statements), text.to_owned()).0;
    let from_binary = decode_with(options(statements), to_binary(text)).0;
    assert_eq!(units.iter().map(line).collect::<Vec<_>>(), from_binary.iter().map(line).collect::<Vec<_>>(), "{text}");
    units
}

/// The first unit of a record: its block.
fn block(text: &str) -> String {
    line(&units(false, text)[0])
}

/// What a block of a stream and of an export have in common, with made-up values in the documentation's form.
const COMMON: &str = "blockAddress:{strandId:\"7sWdNf0uQxB4mJkTzL1eRg\",sequenceNo:918},transactionId:\"9fKc2WqLr7D0xVtJm4HsNe\",\
    blockTimestamp:2020-03-01T08:15:30.249000001Z,blockHash:{{T5N9ZqLLzRKgFXImRq+C77RE+DbQQfWKtODVavVyHVk=}},\
    entriesHash:{{6tp37TTzmK3KiDEo3bsmOgMyF3xcviOlzoT/DnHCPTw=}},previousBlockHash:{{ZbN1KHwxhIVPbH1c6Jk1SIuZzbwSde7RtSlHZDsLJNI=}},\
    entriesHashList:[{{9Q+juSDQrmJmUfy31YIkDmLehugy9vZo0sP0QlMxnnU=}},{{z4COjjwsg1cQ842/kCWQ8YZfLwd+SV4RMHY0FQADT28=}}],\
    transactionInfo:{statements:[{statement:\"UPDATE Item AS i SET i.Stock = ? WHERE i.Sku = 'classified'\",startTime:2020-03-01T08:15:30.231Z,\
    statementDigest:{{6LwWPILu4YczKIx9SsY22zpt6wE+8tN7aDIr4g7cRcw=}}},{startTime:2020-03-01T08:15:30.240Z}],\
    documents:{'9zXyBbM8sTkE1pLw0Zr9uA':{tableName:\"Stock\",tableId:\"1cVbZr5NnLt2KyWqHs8DfX\",statements:[1,0]},\
    '3QxYbM8sTkE1pLw0Zr9uAc':{tableName:\"Item\",tableId:\"0cVbZr5NnLt2KyWqHs8DfX\",statements:[0]}}}";

const DOCUMENT: &str = "7sWdNf0uQxB4mJkTzL1eRg@918 {\"strandId\":\"7sWdNf0uQxB4mJkTzL1eRg\",\"sequenceNo\":918,\
    \"transactionId\":\"9fKc2WqLr7D0xVtJm4HsNe\",\"blockTimestamp\":\"2020-03-01T08:15:30.249000001Z\",\
    \"blockHash\":\"T5N9ZqLLzRKgFXImRq+C77RE+DbQQfWKtODVavVyHVk=\",\"entriesHash\":\"6tp37TTzmK3KiDEo3bsmOgMyF3xcviOlzoT/DnHCPTw=\",\
    \"previousBlockHash\":\"ZbN1KHwxhIVPbH1c6Jk1SIuZzbwSde7RtSlHZDsLJNI=\",\
    \"entriesHashList\":[\"9Q+juSDQrmJmUfy31YIkDmLehugy9vZo0sP0QlMxnnU=\",\"z4COjjwsg1cQ842/kCWQ8YZfLwd+SV4RMHY0FQADT28=\"],\
    \"statements\":[{\"startTime\":\"2020-03-01T08:15:30.231Z\",\"statementDigest\":\"6LwWPILu4YczKIx9SsY22zpt6wE+8tN7aDIr4g7cRcw=\",\
    \"documents\":[\"3QxYbM8sTkE1pLw0Zr9uAc\",\"9zXyBbM8sTkE1pLw0Zr9uA\"]},\
    {\"startTime\":\"2020-03-01T08:15:30.240Z\",\"documents\":[\"9zXyBbM8sTkE1pLw0Zr9uA\"]}],\
    \"documents\":[{\"documentId\":\"3QxYbM8sTkE1pLw0Zr9uAc\",\"tableName\":\"Item\",\"tableId\":\"0cVbZr5NnLt2KyWqHs8DfX\",\"statements\":[0]},\
    {\"documentId\":\"9zXyBbM8sTkE1pLw0Zr9uA\",\"tableName\":\"Stock\",\"tableId\":\"1cVbZr5NnLt2KyWqHs8DfX\",\"statements\":[0,1]}],\
    \"tables\":[\"Item\",\"Stock\"],\"revisions\":[{\"hash\":\"SsYrYUtATNiLcWBfd9VMm+QV3IHaBk8Yj2zY292iQaE=\",\
    \"documentId\":\"3QxYbM8sTkE1pLw0Zr9uAc\"},{\"hash\":\"AA==\"}]}";

fn summary(members: &str) -> String {
    format!("{{qldbStreamArn:\"arn\",recordType:\"BLOCK_SUMMARY\",payload:{{{members}}}}}")
}

const SUMMARIES: &str = "revisionSummaries:[{hash:{{SsYrYUtATNiLcWBfd9VMm+QV3IHaBk8Yj2zY292iQaE=}},documentId:\"3QxYbM8sTkE1pLw0Zr9uAc\"},\
    {hash:{{AA==}}}]";
const REVISIONS: &str = "revisions:[{blockAddress:{strandId:\"7sWdNf0uQxB4mJkTzL1eRg\",sequenceNo:918},\
    hash:{{SsYrYUtATNiLcWBfd9VMm+QV3IHaBk8Yj2zY292iQaE=}},data:{Sku:\"MX-200\"},metadata:{id:\"3QxYbM8sTkE1pLw0Zr9uAc\",version:2}},{hash:{{AA==}}}]";

#[test]
fn a_block_of_a_stream_and_one_of_an_export_give_the_same_document() {
    assert_eq!(block(&summary(&format!("{COMMON},{SUMMARIES}"))), DOCUMENT);
    assert_eq!(block(&format!("{{{COMMON},{REVISIONS}}}")), DOCUMENT);
    let reordered = "documents:{'3QxYbM8sTkE1pLw0Zr9uAc':{tableName:\"Item\",tableId:\"0cVbZr5NnLt2KyWqHs8DfX\",statements:[0]},\
        '9zXyBbM8sTkE1pLw0Zr9uA':{statements:[0,1],tableName:\"Stock\",tableId:\"1cVbZr5NnLt2KyWqHs8DfX\"}}";
    let (before, _) = COMMON.split_once("documents:{'").unwrap();
    assert_eq!(block(&format!("{{{REVISIONS},{before}{reordered}}}}}")), DOCUMENT, "whatever the order of what has none");
}

#[test]
fn the_text_of_statements_is_written_only_where_it_was_asked_for() {
    let record = summary(COMMON);
    assert!(!block(&record).contains("classified"));
    let with = line(&units(true, &record)[0]);
    assert!(
        with.contains("\"statements\":[{\"statement\":\"UPDATE Item AS i SET i.Stock = ? WHERE i.Sku = 'classified'\",\"startTime\""),
        "{with}"
    );
}

#[test]
fn without_an_index_for_it_a_block_summary_is_not_looked_into() {
    for record in [summary(COMMON), summary("blockAddress:7"), "{recordType:\"BLOCK_SUMMARY\"}".to_owned()] {
        let units = decode_with(Options::default(), record).0;
        assert_eq!(units.iter().map(line).collect::<Vec<_>>(), ["block_summary"]);
    }
    assert_eq!(block("{recordType:\"BLOCK_SUMMARY\"}"), "unknown_record");
}

#[test]
fn what_a_block_lacks_is_left_out() {
    let address = "blockAddress:{strandId:\"s\",sequenceNo:9223372036854775807}";
    let least = "s@9223372036854775807 {\"strandId\":\"s\",\"sequenceNo\":9223372036854775807}";
    assert_eq!(block(&summary(address)), least);
    let nulls = "transactionId:null,blockTimestamp:null.timestamp,blockHash:null.blob,entriesHashList:null.list,transactionInfo:null.struct,\
        revisionSummaries:[],redactionInfo:null";
    assert_eq!(block(&summary(&format!("{address},{nulls}"))), least);
    let empty = "transactionInfo:{statements:[],documents:{}},redactionInfo:{revisions:[]}";
    assert_eq!(block(&summary(&format!("{address},{empty}"))), least);
    let some = "transactionInfo:{documents:{d:{tableName:\"T\"},e:{statements:[7]}}}";
    let documents =
        "\"documents\":[{\"documentId\":\"d\",\"tableName\":\"T\"},{\"documentId\":\"e\",\"statements\":[7]}],\"tables\":[\"T\"]}";
    assert_eq!(block(&summary(&format!("{address},{some}"))), format!("{},{documents}", &least[..least.len() - 1]));
}

#[test]
fn redactions_are_as_the_block_has_them() {
    let redaction = "{blockAddress:{strandId:\"s\",sequenceNo:3},tableId:\"t\",documentId:\"d\",version:0}";
    let found = block(&summary(&format!("blockAddress:{{strandId:\"s\",sequenceNo:9}},redactionInfo:{{revisions:[{redaction}]}}")));
    let redactions = "[{\"blockAddress\":{\"strandId\":\"s\",\"sequenceNo\":3},\"tableId\":\"t\",\"documentId\":\"d\",\"version\":0}]";
    assert_eq!(found, format!("s@9 {{\"strandId\":\"s\",\"sequenceNo\":9,\"redactions\":{redactions}}}"));
}

#[test]
fn a_block_that_cannot_be_used_says_why() {
    let of = |members: &str| {
        let units = units(true, &summary(members));
        let Content::Fault(fault) = &units[0].content else { panic!("{members}: {units:?}") };
        assert!(!fault.reason.contains("classified"), "{}", fault.reason);
        format!("{}: {}", fault.kind, fault.reason)
    };
    let usable = "blockAddress:{strandId:\"s\",sequenceNo:1}";
    for (members, expected) in [
        ("transactionId:\"classified\"", "expected blockAddress, found none"),
        ("blockAddress:\"classified\"", "expected blockAddress, found none"),
        ("blockAddress:{sequenceNo:1}", "expected blockAddress.strandId to be a non-empty string, found something else"),
        ("blockAddress:{strandId:\"\",sequenceNo:1}", "expected blockAddress.strandId to be a non-empty string, found something else"),
    ] {
        assert_eq!(of(members), format!("unusable_block: {expected}"), "{members}");
    }
    for sequence in ["-1", "9223372036854775808", "1.0", "\"1\"", "null.int"] {
        let expected = "expected blockAddress.sequenceNo to be a whole number from 0 to 9223372036854775807, found something else";
        assert_eq!(of(&format!("blockAddress:{{strandId:\"s\",sequenceNo:{sequence}}}")), format!("unusable_block: {expected}"));
    }
    for (members, expected) in [
        ("transactionId:{x:\"classified\"}", "transactionId to be a string"),
        ("blockTimestamp:7", "blockTimestamp to be a timestamp"),
        ("blockHash:7", "blockHash to be a hash"),
        ("entriesHashList:\"classified\"", "entriesHashList to be a list"),
        ("entriesHashList:[7]", "an entry of entriesHashList to be a hash"),
        ("entriesHashList:[null]", "an entry of entriesHashList to be a hash"),
        ("transactionInfo:{statements:\"classified\"}", "transactionInfo.statements to be a list"),
        ("transactionInfo:{statements:[\"classified\"]}", "a statement to be a struct"),
        ("transactionInfo:{statements:[{statement:[\"classified\"]}]}", "statement to be a string"),
        ("transactionInfo:{documents:{classified:\"classified\"}}", "a document in transactionInfo.documents to be a struct"),
        ("transactionInfo:{documents:{classified:{statements:7}}}", "the statements of a document to be a list"),
        ("redactionInfo:{revisions:[\"classified\"]}", "an entry of redactionInfo.revisions to be a struct"),
    ] {
        assert_eq!(of(&format!("{usable},{members}")), format!("unusable_block: expected {expected}, found something else"), "{members}");
    }
    let places = "transactionInfo:{documents:{d:{statements:[\"classified\"]}}}";
    assert_eq!(
        of(&format!("{usable},{places}")),
        "unusable_block: expected the statements of a document as their places, found something else"
    );
}

#[test]
fn a_block_of_more_than_any_block_holds_is_a_fault() {
    let statements = ["{}"; 3].join(",");
    let long = "i".repeat(3_500_000);
    let text = format!(
        "blockAddress:{{strandId:\"s\",sequenceNo:1}},transactionInfo:{{statements:[{statements}],documents:{{{long}:{{statements:[0,1,2]}}}}}}"
    );
    assert_eq!(block(&summary(&text)), "document_too_large");
}

#[test]
fn when_a_block_was_committed_is_known() {
    let units = units(false, &summary(COMMON));
    let Content::Block(block) = &units[0].content else { panic!("{units:?}") };
    assert_eq!(block.committed, Some(1_583_050_530_249));
}
