//! What records hold, on its way through the line: ids, versions, roots, fields and bytes that other servers and connectors trip over.

use bytes::Bytes;
use revsync::plan::mapping::{LongIds, Rule};
use revsync::plan::projection::Paths;
use revsync::record::Record;
use revsync::run::deliver::Settings;

use crate::line::{Bench, deliver};
use crate::qldb_stream::{Does, aggregate, binary, control, put, record, records, revision, shard, text, value};

/// A revision of a person whose id, version and data are Ion text of any kind.
fn person(id: &str, version: &str, data: &str) -> String {
    let metadata = format!("{{{id}version:{version}}}");
    value("REVISION_DETAILS", &format!("{{tableInfo:{{tableName:\"Person\"}},revision:{{data:{data},metadata:{metadata}}}}}"))
}

fn in_one_shard(data: impl IntoIterator<Item = Bytes>) -> Vec<Record> {
    let origin = shard("0");
    data.into_iter().zip(0..).map(|(data, offset)| record(&origin, offset, data)).collect()
}

// Ids and versions

#[tokio::test(start_paused = true)]
async fn what_would_fail_a_whole_request_never_comes_into_one() {
    let id = |id: &str| format!("id:\"{id}\",");
    // Of 511, 512 and 513 bytes; a cut inside of a character would make the last one fit.
    let (below, most, above) = (format!("{}é", "x".repeat(509)), "é".repeat(256), format!("x{}", "é".repeat(256)));
    assert_eq!([below.len(), most.len(), above.len()], [511, 512, 513]);
    let good = [person(&id(&below), "0", "{}"), person(&id(&most), "9223372036854775807", "{}")];
    let bad = [
        (person(&id(&above), "0", "{}"), "id_too_long"),
        (person(&id(""), "0", "{}"), "unusable_revision"),
        (person("", "0", "{}"), "unusable_revision"),
        (person("id:null.string,", "0", "{}"), "unusable_revision"),
        (person("id:{{AP/+}},", "0", "{}"), "unusable_revision"),
        (person(&id("a"), "-1", "{}"), "unusable_revision"),
        (person(&id("a"), "9223372036854775808", "{}"), "unusable_revision"),
        (person(&id("a"), "18446744073709551616", "{}"), "unusable_revision"),
        (person(&id("a"), "\"12.0\"", "{}"), "unusable_revision"),
        (person(&id("a"), "\"12\"", "{}"), "unusable_revision"),
        (person(&id("a"), "12.0", "{}"), "unusable_revision"),
        (person(&id("a"), "12e0", "{}"), "unusable_revision"),
        (person(&id("a"), "null", "{}"), "unusable_revision"),
    ];
    let bench = Bench::new();
    let all: Vec<String> = [&good[..1], &bad.clone().map(|(value, _)| value), &good[1..]].concat();
    let mut line = bench.line();
    deliver(&mut line, &in_one_shard(all.iter().map(|value| binary(std::slice::from_ref(value))))).await.unwrap();
    assert_eq!(bench.sink.sent(), [[format!("index {below}@0"), format!("index {most}@9223372036854775807")]]);
    let kinds: Vec<String> = bench.letter_lines().into_iter().map(|letter| letter.error.kind).collect();
    assert_eq!(kinds, bad.map(|(_, kind)| kind));
}

#[tokio::test(start_paused = true)]
async fn the_hash_of_a_long_id_is_the_same_in_every_process() {
    let long = format!("{}x", "é".repeat(256));
    let mut bench = Bench::new();
    bench.rules = vec![Rule { name: "*".into(), long_ids: LongIds::Hash, ..Rule::default() }];
    for (indexed, stale) in [(1, 0), (0, 1)] {
        let mut line = bench.line();
        deliver(&mut line, &records([("Person", long.as_str(), 3, put("x"))])).await.unwrap();
        assert_eq!((line.counts().indexed, line.counts().stale), (indexed, stale));
    }
    let hash = "sha256:2a0026761f981b40765e1bbfccbf305405e746c78776f352ae70fb13fb26e7bd";
    assert_eq!(bench.sink.version("person", hash), Some(3));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_comes_twice_is_written_once_whether_in_one_page_or_in_two() {
    let user_record = binary(&[revision("Person", "a", 7, &put("x"))]);
    let page = record(&shard("0"), 0, aggregate(&[user_record.clone(), binary(&[control()]), user_record]));
    let bench = Bench::new();
    let mut line = bench.line();
    line.push(&page).await.unwrap();
    line.finish().await.unwrap();
    assert_eq!((line.counts().indexed, line.counts().compacted, line.counts().received), (1, 1, 3));
    line.push(&page).await.unwrap();
    line.finish().await.unwrap();
    assert_eq!((line.counts().indexed, line.counts().stale, line.counts().compacted), (1, 1, 2));
    assert_eq!((bench.sink.documents().len(), bench.letter_lines().len()), (1, 0));
}

// Roots

#[tokio::test(start_paused = true)]
async fn whatever_is_no_document_is_a_letter_with_its_bytes() {
    let roots = ["[1,2]", "\"x\"", "null", "7", "{{aGVsbG8=}}", "{}", "{recordType:\"NEW\"}"].map(str::to_owned);
    let documents = ["[1,2]", "\"x\"", "7", "true", "{{aGVsbG8=}}", "()"].map(|data| person("id:\"a\",", "0", data));
    let mut data: Vec<Bytes> = Vec::new();
    for value in roots.iter().chain(&documents) {
        let value = std::slice::from_ref(value);
        data.extend([binary(value), text(value)]);
    }
    data.extend([&b"\xff\xfe"[..], b"\xe0\x01\x00\xea\xff", b"{", b"\0", b"<html>"].map(Bytes::from_static));
    let bench = Bench::new();
    let mut line = bench.line();
    deliver(&mut line, &in_one_shard(data.clone())).await.unwrap();
    assert_eq!((line.counts().dead_letters as usize, line.counts().received as usize), (data.len(), data.len()));
    assert_eq!(bench.sink.requests().len(), 0);
    let payloads: Vec<Bytes> = bench.letters().into_iter().map(|letter| letter.payload).collect();
    assert_eq!(payloads, data);
}

#[tokio::test(start_paused = true)]
async fn a_document_of_two_hundred_levels_is_delivered() {
    // What writes the Ion here takes a deeper stack than what reads it may.
    let deep = std::thread::Builder::new().stack_size(64 << 20).spawn(|| {
        let data = format!("{}1{}", "{a:".repeat(200), "}".repeat(200));
        records([("Person", "a", 0, Does::Put(data)), ("Person", "b", 0, put("x"))])
    });
    let records = deep.unwrap().join().unwrap();
    let bench = Bench::new();
    deliver(&mut bench.line(), &records).await.unwrap();
    let (_, document) = bench.sink.documents().remove(&("person".to_owned(), "a".to_owned())).unwrap();
    assert_eq!(document, Some(format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200))));
    assert_eq!((bench.sink.documents().len(), bench.letter_lines().len()), (2, 0));
}

// Fields

#[tokio::test(start_paused = true)]
async fn a_field_that_is_left_out_takes_neither_id_nor_version_with_it() {
    let mut bench = Bench::new();
    let exclude = Paths::parse(["id", "version", "metadata"]).unwrap();
    bench.rules = vec![Rule { name: "*".into(), exclude, ..Rule::default() }];
    let data = Does::Put("{id:\"other\",version:99,metadata:{id:\"x\"},a:1}".to_owned());
    deliver(&mut bench.line(), &records([("Person", "a", 7, data)])).await.unwrap();
    let documents: Vec<_> = bench.sink.documents().into_iter().collect();
    assert_eq!(documents, [(("person".to_owned(), "a".to_owned()), (7, Some(r#"{"a":1}"#.to_owned())))]);
}

#[tokio::test(start_paused = true)]
async fn a_document_that_lacks_a_field_is_written_and_so_is_its_next_version() {
    let mut bench = Bench::with(Settings { request_operations: 1, ..Settings::default() });
    bench.rules = vec![Rule { name: "*".into(), fields: Paths::parse(["a", "b.c"]).unwrap(), ..Rule::default() }];
    let of = |data: &str| Does::Put(data.to_owned());
    let mut line = bench.line();
    let mut expected = Vec::new();
    for (version, (data, document)) in [
        ("{a:1,b:{c:2}}", r#"{"a":1,"b":{"c":2}}"#),
        ("{a:1}", r#"{"a":1}"#),
        ("{}", "{}"),
        ("{b:{d:1}}", r#"{"b":{}}"#),
        ("{a:null}", r#"{"a":null}"#),
    ]
    .into_iter()
    .enumerate()
    {
        line.push(&records([("Person", "a", version as u64, of(data))])[0]).await.unwrap();
        line.finish().await.unwrap();
        expected.push(bench.sink.documents().into_values().next());
        assert_eq!(expected.last(), Some(&Some((version as u64, Some(document.to_owned())))), "{data}");
    }
    assert_eq!((line.counts().indexed, line.counts().skipped.len(), line.counts().dead_letters), (5, 0, 0));
}
