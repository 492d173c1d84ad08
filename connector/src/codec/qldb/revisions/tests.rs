use super::super::super::{Journal, Metadata, Options, TableOptions, Unit};
use super::super::tests::{DATA, decode_with, line, published, to_binary};

fn options() -> Options {
    Options { journal: Some(Journal::default()), verify_hashes: true, ..Options::default() }
}

const HEAD: &str = "blockAddress:{strandId:\"s\",sequenceNo:1},transactionId:\"x\"";
const DOCUMENTS: &str = "transactionInfo:{documents:{a:{tableName:\"Item\",tableId:\"t\"},b:{tableName:\"Stock\"}}}";

fn in_block(revisions: &str) -> String {
    format!("{{{HEAD},{DOCUMENTS},revisions:[{revisions}]}}")
}

/// What a record comes to, which must be the same from its text and from its binary form.
fn lines(text: &str) -> Vec<String> {
    lines_with(options, text)
}

fn lines_with(options: impl Fn() -> Options, text: &str) -> Vec<String> {
    let of = |units: Vec<Unit>| units.iter().map(line).collect::<Vec<_>>();
    let found = of(decode_with(options(), text.to_owned()).0);
    assert_eq!(found, of(decode_with(options(), to_binary(text)).0), "{text}");
    found
}

/// The units behind the block.
fn revisions(revisions: &str) -> Vec<String> {
    let mut lines = lines(&in_block(revisions));
    assert!(lines.remove(0).starts_with("s@1 {"));
    lines
}

#[test]
fn every_revision_of_a_block_is_a_unit_behind_it() {
    let found = revisions(
        "{data:{x:1.50},metadata:{id:\"a\",version:0}},{hash:{{AA==}}},{metadata:{id:\"b\",version:3}},{dataHash:{{AA==}},metadata:{id:\"a\",version:1}}",
    );
    assert_eq!(found, ["Item/a@0 {\"x\":1.50}", "no_change", "Stock/b@3 deleted", "Item/a@1 redacted"]);
}

#[test]
fn a_block_may_lack_everything_but_its_place() {
    for (members, more) in [
        (format!("{{{HEAD}}}"), 0),
        (format!("{{{HEAD},revisions:[]}}"), 0),
        (format!("{{{HEAD},revisions:null.list}}"), 0),
        (format!("{{{HEAD},revisions:[{{hash:{{{{AA==}}}}}},{{metadata:null}}]}}"), 2),
    ] {
        let found = lines(&members);
        assert_eq!((found.len(), &found[0][..5]), (1 + more, "s@1 {"), "{members}");
        assert!(found[1..].iter().all(|line| line == "no_change"));
    }
    for no_block in ["{blockAddress:{}}", "{transactionId:\"x\"}", "{recordType:7,blockAddress:{},transactionId:\"x\"}"] {
        assert_eq!(lines(no_block), ["unknown_record"], "{no_block}");
    }
}

#[test]
fn a_broken_revision_costs_itself() {
    let good = "{data:{},metadata:{id:\"a\",version:0}}";
    for broken in [
        "7",
        "{data:{},metadata:7}",
        "{data:{},metadata:{version:0}}",
        "{data:{},metadata:{id:\"a\"}}",
        "{data:{},metadata:{id:\"a\",version:-1}}",
        "{data:[],metadata:{id:\"a\",version:0}}",
        "{data:{},metadata:{id:\"unlisted\",version:0}}",
        "{data:{},metadata:{id:\"0\",version:0}}",
    ] {
        assert_eq!(revisions(&format!("{good},{broken},{good}")), ["Item/a@0 {}", "unusable_revision", "Item/a@0 {}"], "{broken}");
    }
    assert_eq!(lines(&format!("{{{HEAD},revisions:{{}}}}"))[1..], ["unusable_revision"]);
}

#[test]
fn a_broken_block_leaves_its_revisions() {
    let text = in_block("{data:{},metadata:{id:\"a\",version:0}}").replace("sequenceNo:1", "sequenceNo:\"1\"");
    assert_eq!(lines(&text), ["unusable_block", "Item/a@0 {}"]);
    let without_index = decode_with(Options::default(), text).0;
    assert_eq!(without_index.iter().map(line).collect::<Vec<_>>(), ["block_summary", "Item/a@0 {}"]);
}

#[test]
fn a_table_that_the_block_does_not_name_is_told() {
    for documents in [
        "{}",
        "{documents:{}}",
        "{documents:[]}",
        "{documents:{a:7}}",
        "{documents:{a:{tableId:\"t\"}}}",
        "{documents:{a:{tableName:\"\"}}}",
    ] {
        let text = format!("{{{HEAD},transactionInfo:{documents},revisions:[{{data:{{}},metadata:{{id:\"a\",version:0}}}}]}}");
        let units = decode_with(Options::default(), text).0;
        let super::Content::Fault(fault) = &units[1].content else { panic!("{documents}: {units:?}") };
        let reason = "expected the table of the revision in transactionInfo.documents of its block, by its document id; found none";
        assert_eq!((fault.kind.as_str(), fault.reason.as_str()), ("unusable_revision", reason), "{documents}");
    }
}

#[test]
fn of_a_document_that_is_listed_twice_the_last_table_counts() {
    let text = in_block("{data:{},metadata:{id:\"a\",version:0}}").replace("b:{tableName:\"Stock\"}", "a:{tableName:\"Stock\"}");
    assert_eq!(lines(&text)[1..], ["Stock/a@0 {}"]);
}

#[test]
fn several_blocks_and_records_follow_one_another() {
    let block = in_block("{data:{},metadata:{id:\"a\",version:0}},{hash:{{AA==}}}");
    let text = format!("{block} {{recordType:\"CONTROL\"}} {block} {}", published(DATA));
    let found = lines(&text);
    let found: Vec<_> = found.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(found, ["s@1", "Item/a@0", "no_change", "control", "s@1", "Item/a@0", "no_change", "Item/3QxYbM8sTkE1pLw0Zr9uAc@2"]);
}

/// The documentation's revision, whose hash is known to be right, in a block of its own behind another one.
fn hashed() -> String {
    let (_, revision) =
        published(DATA).split_once("revision:").map(|(a, b)| (a.to_owned(), b.strip_suffix("}}").unwrap().to_owned())).unwrap();
    in_block(&format!("{{data:{{}},metadata:{{id:\"a\",version:0}}}},{revision}"))
        .replace("b:{tableName", "'3QxYbM8sTkE1pLw0Zr9uAc':{tableName")
}

#[test]
fn hashes_of_revisions_in_a_block_are_checked_each() {
    for (text, verified, mismatched) in [(hashed(), 1, 0), (hashed().replace("Stock:7", "Stock:8"), 0, 1)] {
        for record in [text.clone().into_bytes(), to_binary(&text), to_binary(&format!("{text} {text}"))[to_binary(&text).len()..].to_vec()]
        {
            let (units, notes) = decode_with(options(), record);
            assert_eq!(units.len(), 3);
            assert_eq!((notes.hashes_verified, notes.hashes_mismatched, notes.hashes_unchecked), (verified, mismatched, 1));
            assert_eq!(line(&units[2]) == "hash_mismatch", mismatched == 1);
        }
    }
}

#[test]
fn revisions_of_a_block_have_the_metadata_of_those_of_a_stream() {
    for metadata in [Metadata::Field, Metadata::Committed] {
        let options = || Options { table: Box::new(move |_| TableOptions { metadata, ..TableOptions::default() }), ..Options::default() };
        let of_stream = lines_with(options, &published(DATA));
        let (_, revision) =
            published(DATA).split_once("revision:").map(|(a, b)| (a.to_owned(), b.strip_suffix("}}").unwrap().to_owned())).unwrap();
        let documents = "{'3QxYbM8sTkE1pLw0Zr9uAc':{tableName:\"Item\",tableId:\"0cVbZr5NnLt2KyWqHs8DfX\"}}";
        let of_block = lines_with(options, &format!("{{{HEAD},transactionInfo:{{documents:{documents}}},revisions:[{revision}]}}"));
        assert_eq!(of_block[1..], of_stream);
    }
}

#[test]
fn a_block_in_json_gives_what_it_gives_in_ion() {
    let ion = "{blockAddress:{strandId:\"s\",sequenceNo:9223372036854775807},transactionId:\"x\",blockTimestamp:2020-03-01T08:15:30.249Z,\
        blockHash:{{AAE=}},transactionInfo:{statements:[{startTime:2020-03-01T08:15:30.231Z,statementDigest:{{AAI=}}}],\
        documents:{a:{tableName:\"Item\",tableId:\"t\",statements:[0]}}},revisions:[{hash:{{AAM=}},data:{p:442.30,q:1d3,r:-0.5,s:7,t:\"1e3\",u:1d-50},\
        metadata:{id:\"a\",version:0,txTime:2020-03-01T08:15:30.250Z,txId:\"x\"}},{hash:{{AAM=}}},{dataHash:{{AAQ=}},metadata:{id:\"a\",version:1}}]}";
    let json = r#"{"blockAddress":{"strandId":"s","sequenceNo":9223372036854775807},"transactionId":"x","blockTimestamp":"2020-03-01T08:15:30.249Z",
        "blockHash":"AAE=","transactionInfo":{"statements":[{"startTime":"2020-03-01T08:15:30.231Z","statementDigest":"AAI="}],
        "documents":{"a":{"tableName":"Item","tableId":"t","statements":[0]}}},"revisions":[{"hash":"AAM=","data":{"p":44230e-2,"q":1e3,"r":-5E-1,"s":7,
        "t":"1e3","u":1e-50},"metadata":{"id":"a","version":0,"txTime":"2020-03-01T08:15:30.250Z","txId":"x"}},{"hash":"AAM="},
        {"dataHash":"AAQ=","metadata":{"id":"a","version":1}}]}"#;
    let options = || Options {
        journal: Some(Journal::default()),
        table: Box::new(|_| TableOptions { metadata: Metadata::Field, ..TableOptions::default() }),
        ..Options::default()
    };
    let expected = lines_with(options, ion);
    assert!(expected[1].starts_with(r#"Item/a@0 {"p":442.30,"q":1e3,"r":-0.5,"s":7,"t":"1e3","u":1e-50}{"table":"Item""#), "{expected:?}");
    let found: Vec<_> = decode_with(options(), json).0.iter().map(line).collect();
    assert_eq!(found, expected);
    let hashes_are_not_checked = decode_with(Options { verify_hashes: true, ..Options::default() }, json).1;
    assert_eq!((hashes_are_not_checked.hashes_unchecked, hashes_are_not_checked.hashes_mismatched), (2, 0));
}

#[test]
fn damage_in_a_list_of_revisions_costs_what_follows_it_there() {
    let block = to_binary(&in_block("{data:{x:\"text\"},metadata:{id:\"a\",version:0}},{hash:{{AA==}}}"));
    let hash = block.windows(2).rposition(|window| window == [0xA1, 0]).unwrap();
    let mut damaged = block.clone();
    damaged[hash] = 0xAD;
    let record = [&damaged[..], &block].concat();
    let found: Vec<_> = decode_with(options(), record).0.iter().map(line).collect();
    let short: Vec<_> = found.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(short, ["undecodable", "Item/a@0", "undecodable", "s@1", "Item/a@0", "no_change"]);
}
