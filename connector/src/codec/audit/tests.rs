use super::*;
use crate::codec::{Decoder, Options};

const SUMMARY: &str = r#"{qldbStreamArn:"arn:aws:qldb:eu-west-1:000000000000:stream/shop/5tQm0aVxkLs7WnYb2Re8dH",recordType:"BLOCK_SUMMARY",payload:{
  blockAddress:{strandId:"7sWdNf0uQxB4mJkTzL1eRg",sequenceNo:918},transactionId:"9fKc2WqLr7D0xVtJm4HsNe",
  blockTimestamp:2020-03-01T08:15:30.249000001Z,blockHash:{{T5N9ZqLLzRKgFXImRq+C77RE+DbQQfWKtODVavVyHVk=}},
  entriesHash:{{6tp37TTzmK3KiDEo3bsmOgMyF3xcviOlzoT/DnHCPTw=}},previousBlockHash:{{ZbN1KHwxhIVPbH1c6Jk1SIuZzbwSde7RtSlHZDsLJNI=}},
  entriesHashList:[{{9Q+juSDQrmJmUfy31YIkDmLehugy9vZo0sP0QlMxnnU=}},{{z4COjjwsg1cQ842/kCWQ8YZfLwd+SV4RMHY0FQADT28=}}],
  transactionInfo:{statements:[{statement:"UPDATE Item AS i SET i.Stock = ? WHERE i.Sku = ?",startTime:2020-03-01T08:15:30.231Z,
   statementDigest:{{6LwWPILu4YczKIx9SsY22zpt6wE+8tN7aDIr4g7cRcw=}}}],
   documents:{'3QxYbM8sTkE1pLw0Zr9uAc':{tableName:"Item",tableId:"0cVbZr5NnLt2KyWqHs8DfX",statements:[0]}}},
  revisionSummaries:[{hash:{{SsYrYUtATNiLcWBfd9VMm+QV3IHaBk8Yj2zY292iQaE=}},documentId:"3QxYbM8sTkE1pLw0Zr9uAc"},{hash:{{AA==}}}]}}"#;

/// A revision, with its data or what stands in its place.
fn details(content: &str) -> String {
    format!(
        r#"{{qldbStreamArn:"arn",recordType:"REVISION_DETAILS",payload:{{tableInfo:{{tableName:"Item",tableId:"t"}},revision:{}}}}}"#,
        entry(content)
    )
}

fn entry(content: &str) -> String {
    format!(
        r#"{{blockAddress:{{strandId:"7sWdNf0uQxB4mJkTzL1eRg",sequenceNo:918}},hash:{{{{SsYrYUtATNiLcWBfd9VMm+QV3IHaBk8Yj2zY292iQaE=}}}},{content}
           metadata:{{id:"3QxYbM8sTkE1pLw0Zr9uAc",version:2,txTime:2020-03-01T08:15:30.250Z,txId:"9fKc2WqLr7D0xVtJm4HsNe"}}}}"#
    )
}

const DATA: &str = r#"data:{Sku:"MX-200",Title:"Blue mug",Price:12.50,Stock:7,Added:2020-02-29,Tags:["kitchen","blue"]},"#;

fn found(record: &str) -> Vec<Piece> {
    let user_record = Decoder::new(Options::default()).open_payload(&record.to_owned().into(), None);
    let mut found = Vec::new();
    pieces(&user_record, true, |piece| found.push(piece));
    found
}

fn proof(record: &str) -> Proof {
    match found(record).as_slice() {
        [Piece::Revision(revision)] => revision.proof.clone(),
        other => panic!("expected one revision, found {other:?}"),
    }
}

fn block(record: &str) -> Block {
    match found(record).as_slice() {
        [Piece::Block(block)] => block.clone(),
        other => panic!("expected one block, found {other:?}"),
    }
}

#[test]
fn a_block_summary_says_where_it_is_and_what_it_is_made_of() {
    let block = block(SUMMARY);
    assert_eq!(block.address, Address { strand: "7sWdNf0uQxB4mJkTzL1eRg".to_owned(), sequence: 918 });
    let entries = block.entries.unwrap();
    assert_eq!(block.hash.unwrap(), dot(&hash::merkle(entries), &block.previous.unwrap()));
    assert!(block.info.is_some() && block.without_revision == 0 && block.revisions.is_empty());
    assert_eq!(block.summaries.iter().map(|summary| summary.is_document).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn a_revision_is_proven_by_its_data_or_by_the_hash_of_what_was_removed() {
    assert_eq!(proof(&details(DATA)), Proof::Holds);
    assert_eq!(proof(&details("dataHash:{{CrbkVBNSo5ZLxuv5/ZaFTNGRSndVYL7PEGgmhXroBnA=}},")), Proof::Redacted);
    assert_eq!(proof(&details("data:null.struct,dataHash:{{CrbkVBNSo5ZLxuv5/ZaFTNGRSndVYL7PEGgmhXroBnA=}},")), Proof::Redacted);
    assert_eq!(proof(&details("")), Proof::Deletion);
    assert!(matches!(proof(&details(&DATA.replace("12.50", "12.5"))), Proof::Differs(_)));
    assert!(matches!(proof(&details(&format!("{DATA}data:{{}},"))), Proof::Differs(_)), "the last of a repeated member counts");
    assert_eq!(proof(&details(DATA).replace("hash:", "hush:")), Proof::Unstated);
}

#[test]
fn a_revision_whose_data_or_metadata_has_another_name_is_no_deletion_and_not_one_of_the_ledger_s_own() {
    assert_eq!(proof(&details(&DATA.replace("data:", "dava:"))), Proof::Unreadable);
    let block = |entry: &str| {
        format!(
            r#"{{blockAddress:{{strandId:"7sWdNf0uQxB4mJkTzL1eRg",sequenceNo:918}},transactionId:"9fKc2WqLr7D0xVtJm4HsNe",revisions:[{entry}]}}"#
        )
    };
    let found = found(&block(&entry(DATA).replace("metadata:", "metadada:")));
    assert!(matches!(found.as_slice(), [Piece::Unusable(_)]), "{found:?}");
}

#[test]
fn a_document_that_the_transaction_does_not_name_is_not_one_of_its_block() {
    let of = |document: &str| {
        let export = format!(
            r#"{{blockAddress:{{strandId:"7sWdNf0uQxB4mJkTzL1eRg",sequenceNo:918}},transactionId:"9fKc2WqLr7D0xVtJm4HsNe",
               transactionInfo:{{documents:{{'{document}':{{tableName:"Item"}}}}}},revisions:[{}]}}"#,
            entry("")
        );
        block(&export).revisions[0].is_elsewhere
    };
    assert_eq!((of("3QxYbM8sTkE1pLw0Zr9uAc"), of("another")), (false, true));
}

#[test]
fn a_block_of_an_export_has_its_revisions() {
    let export = format!(
        r#"{{blockAddress:{{strandId:"7sWdNf0uQxB4mJkTzL1eRg",sequenceNo:918}},transactionId:"9fKc2WqLr7D0xVtJm4HsNe",revisions:[{},{{hash:{{{{AA==}}}}}}]}}"#,
        entry(DATA)
    );
    let block = block(&export);
    assert_eq!(block.summaries.iter().map(|summary| summary.is_document).collect::<Vec<_>>(), [true, false]);
    let [revision] = block.revisions.as_slice() else { panic!("{block:?}") };
    assert_eq!((revision.version, revision.is_elsewhere, &revision.proof), (2, false, &Proof::Holds));
    assert!(block.info.is_none() && block.entries.is_none() && block.hash.is_none());
    let elsewhere = self::block(&export.replacen("9fKc2WqLr7D0xVtJm4HsNe", "another", 1));
    assert!(elsewhere.revisions[0].is_elsewhere);
}

#[test]
fn documents_of_which_a_block_has_no_revision_are_counted() {
    let of = |from: &str, to: &str| block(&SUMMARY.replacen(from, to, 1)).without_revision;
    assert_eq!(of(r#",documentId:"3QxYbM8sTkE1pLw0Zr9uAc""#, ""), 1);
    assert_eq!(of(r#",documentId:"3QxYbM8sTkE1pLw0Zr9uAc""#, r#",documentId:"another""#), 1);
    assert_eq!(of("documents:{", r#"documents:{another:{tableName:"Item"},"#), 1);
    assert_eq!(of("revisionSummaries:", "summaries:"), 1);
}

#[test]
fn a_revision_whose_hash_is_not_one_of_32_bytes_states_none() {
    for hash in ["", "AA==", "SsYrYUtATNiLcWBfd9VMmw=="] {
        let record = details("").replace("SsYrYUtATNiLcWBfd9VMm+QV3IHaBk8Yj2zY292iQaE=", hash);
        assert_eq!(proof(&record), Proof::Unstated, "{hash}");
    }
}

#[test]
fn nulls_in_an_entry_of_the_ledger_s_own_are_nothing() {
    let export = r#"{blockAddress:{strandId:"s",sequenceNo:1},transactionId:"t",revisions:[{blockAddress:null,hash:{{AA==}},data:null.struct,metadata:null}]}"#;
    assert!(!block(export).summaries[0].is_document);
}

#[test]
fn json_gives_the_same_hashes_where_the_types_can_be_told() {
    let json = |data: &str| {
        format!(
            r#"{{"recordType":"REVISION_DETAILS","qldbStreamArn":"a","payload":{{"tableInfo":{{"tableName":"Item"}},"revision":{{"blockAddress":{{"strandId":"s","sequenceNo":1}},"hash":"SsYrYUtATNiLcWBfd9VMm+QV3IHaBk8Yj2zY292iQaE=",{data}"metadata":{{"id":"3QxYbM8sTkE1pLw0Zr9uAc","version":2,"txTime":"2020-03-01T08:15:30.250Z","txId":"9fKc2WqLr7D0xVtJm4HsNe"}}}}}}}}"#
        )
    };
    let data = r#""data":{"Sku":"MX-200","Title":"Blue mug","Price":1250e-2,"Stock":7,"Added":"2020-02-29","Tags":["kitchen","blue"]},"#;
    assert_eq!(proof(&json(data)), Proof::Holds);
    assert_eq!(proof(&json(&data.replace("1250e-2", "12.5"))), Proof::TypesLost);
    assert_eq!(proof(&json(r#""dataHash":"CrbkVBNSo5ZLxuv5/ZaFTNGRSndVYL7PEGgmhXroBnA=","#)), Proof::Redacted);
}

#[test]
fn what_is_no_part_of_a_journal_is_told() {
    assert_eq!(found(r#"{recordType:"CONTROL",payload:{controlRecordType:"CREATED"}}"#), [Piece::Other]);
    for record in ["7", r#"{recordType:"NEW",payload:{}}"#, "{a:1}", &details(DATA).replace("sequenceNo:918", "sequenceNo:-1")] {
        assert!(matches!(found(record).as_slice(), [Piece::Unusable(_)]), "{record}: {:?}", found(record));
    }
}
