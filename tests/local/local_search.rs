//! What a person finds in the local index.

use std::path::Path;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use revsync::error::Kind;
use revsync::operation::{Operation, Target};
use revsync::revision::{Document, VersionType};
use revsync::sink::local::Local;
use revsync::sink::{Hit, Sink};
use rusqlite::Connection;

fn put(index: &str, id: &str, version: u64, document: &str) -> Operation {
    let target = Target { index: index.into(), id: id.to_owned(), version, version_type: VersionType::External, routing: None };
    Operation::Index { target, document: Document(Bytes::copy_from_slice(document.as_bytes())) }
}

fn delete(index: &str, id: &str, version: u64) -> Operation {
    let Operation::Index { target, .. } = put(index, id, version, "") else { unreachable!() };
    Operation::Delete { target }
}

async fn write(local: &Local, operations: Vec<Operation>) {
    let replies = local.write(operations.into()).await.unwrap();
    assert!(replies.iter().all(|reply| reply.error.is_none()), "{replies:?}");
}

struct Garage {
    local: Local,
    _folder: tempfile::TempDir,
}

impl Garage {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let local = Local::open(&folder.path().join("index.db")).unwrap();
        let documents = [
            put(
                "vehicle",
                "v1",
                1,
                r#"{"VIN":"1N4AL11D75C109151","Type":"Sedan","Year":2011,"Make":"Audi","Model":"A5","Color":"Silver"}"#,
            ),
            put(
                "vehicle",
                "v2",
                1,
                r#"{"VIN":"KM8SRDHF6EU074761","Type":"SUV","Year":2015,"Make":"Tesla","Model":"Model S","Color":"Blue"}"#,
            ),
            put(
                "vehicle",
                "v3",
                1,
                r#"{"VIN":"3HGGK5G53FM761765","Type":"Motorcycle","Year":2011,"Make":"Ducati","Model":"Monster 1200","Color":"Yellow"}"#,
            ),
            put(
                "person",
                "p1",
                1,
                r#"{"Name":{"First":"Zoë","Last":"Müller-Lüdenscheidt"},"Mail":"zoe.mueller+cars@example.com","Born":"1963-08-19","City":"São Paulo"}"#,
            ),
            put(
                "person",
                "p2",
                1,
                r#"{"Name":{"First":"Model","Last":"Sample"},"Mail":"model@example.org","Born":"1963-08-01","Licensed":true,"City":"東京都"}"#,
            ),
            put(
                "registration",
                "8F0TPCmdNQ6JTRpiLj2TmW",
                1,
                r#"{"Plate":"LEWISR261LL","Due":442.30,"Fee":-90,"Owners":["p1",{"Id":"p2"}],"State":"OR"}"#,
            ),
        ];
        write(&local, documents.into()).await;
        Self { local, _folder: folder }
    }

    /// The ids found, in the order of their ids.
    fn ids(&self, text: &str) -> Vec<String> {
        let mut ids: Vec<_> = self.hits(text).into_iter().map(|hit| hit.id).collect();
        ids.sort();
        ids
    }

    fn hits(&self, text: &str) -> Vec<Hit> {
        self.local.search(text, None, 100).unwrap()
    }
}

#[tokio::test]
async fn words_are_found_in_any_case_and_with_or_without_their_marks() {
    let garage = Garage::new().await;
    for text in ["zoë", "ZOE", "Zoe\u{308}", "müller", "muller", "MULLER", "sao paulo", "São Paulo"] {
        assert_eq!(garage.ids(text), ["p1"], "{text}");
    }
}

#[tokio::test]
async fn ids_numbers_plates_and_addresses_are_found() {
    let garage = Garage::new().await;
    for (text, id) in [
        ("1n4al11d75c109151", "v1"),
        ("KM8SRDHF6*", "v2"),
        ("LEWISR261LL", "8F0TPCmdNQ6JTRpiLj2TmW"),
        ("8F0TPCmdNQ6JTRpiLj2TmW", "8F0TPCmdNQ6JTRpiLj2TmW"),
        ("442.30", "8F0TPCmdNQ6JTRpiLj2TmW"),
        ("90", "8F0TPCmdNQ6JTRpiLj2TmW"),
        ("true", "p2"),
        ("zoe.mueller+cars@example.com", "p1"),
        ("model@example.org", "p2"),
        ("1963-08-19", "p1"),
        ("Müller-Lüdenscheidt", "p1"),
        ("東京", "p2"),
        ("京", "p2"),
        ("portland OR state", ""),
        ("OR", "8F0TPCmdNQ6JTRpiLj2TmW"),
    ] {
        assert_eq!(garage.ids(text), if id.is_empty() { vec![] } else { vec![id] }, "{text}");
    }
}

#[tokio::test]
async fn all_words_are_wanted_and_there_is_no_silent_fallback() {
    let garage = Garage::new().await;
    assert_eq!(garage.ids("2011"), ["v1", "v3"]);
    assert_eq!(garage.ids("2011 audi"), ["v1"]);
    assert_eq!(garage.ids("2011 tesla"), Vec::<String>::new());
}

#[tokio::test]
async fn a_phrase_does_not_reach_from_one_value_into_the_next() {
    let garage = Garage::new().await;
    assert_eq!(garage.ids("\"model s\""), ["v2"]);
    assert_eq!(garage.ids("model s*"), ["p2", "v2"]);
    assert_eq!(garage.ids("\"model sample\""), Vec::<String>::new());
    assert_eq!(garage.ids("30-90"), Vec::<String>::new());
}

#[tokio::test]
async fn prefixes_exclusions_and_alternatives_work_as_written() {
    let garage = Garage::new().await;
    assert_eq!(garage.ids("1963-08*"), ["p1", "p2"]);
    assert_eq!(garage.ids("monst"), Vec::<String>::new());
    assert_eq!(garage.ids("monst*"), ["v3"]);
    assert_eq!(garage.ids("2011 -audi"), ["v3"]);
    assert_eq!(garage.ids("2011 -\"monster 1200\""), ["v1"]);
    assert_eq!(garage.ids("audi OR tesla"), ["v1", "v2"]);
    assert_eq!(garage.ids("2011 audi OR tesla"), ["v1"]);
    assert_eq!(garage.ids("-2011 -1963"), ["8F0TPCmdNQ6JTRpiLj2TmW", "v2"]);
    assert_eq!(garage.ids("*").len(), 6);
}

#[tokio::test]
async fn field_names_are_not_searched() {
    let garage = Garage::new().await;
    for text in ["VIN", "Plate", "Owners", "First"] {
        assert_eq!(garage.ids(text), Vec::<String>::new(), "{text}");
    }
}

#[tokio::test]
async fn only_the_newest_content_is_found() {
    let garage = Garage::new().await;
    write(&garage.local, vec![put("vehicle", "v1", 2, r#"{"Make":"Lada"}"#), delete("vehicle", "v2", 2)]).await;
    assert_eq!(garage.ids("lada"), ["v1"]);
    assert_eq!(garage.ids("audi OR tesla OR v2"), Vec::<String>::new());
    assert_eq!(garage.ids("-ducati -lada -1963 -442.30"), Vec::<String>::new());
    write(&garage.local, vec![put("vehicle", "v2", 3, r#"{"Make":"Tesla"}"#)]).await;
    assert_eq!(garage.ids("tesla"), ["v2"]);
    assert_eq!(garage.ids("blue"), Vec::<String>::new());
}

/// All words of an index with the number of documents and places that they are in.
fn vocabulary(path: &Path) -> Vec<(String, i64, i64)> {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab (main, words, row)").unwrap();
    let mut statement = connection.prepare("SELECT term, doc, cnt FROM vocabulary ORDER BY term").unwrap();
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap().collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn an_index_that_was_changed_often_finds_what_a_new_one_finds() {
    let folder = tempfile::tempdir().unwrap();
    let (old_path, new_path) = (folder.path().join("old.db"), folder.path().join("new.db"));
    let (old, new) = (Local::open(&old_path).unwrap(), Local::open(&new_path).unwrap());
    let document = |id: u64, version: u64| {
        format!(
            r#"{{"all":"common","w":"w{}","v":["v{version}",{}],"é":"東京 \u00e9 \ud800 {}"}}"#,
            id % 7,
            id * version,
            "x ".repeat(version as usize)
        )
    };
    for version in 0..40_u64 {
        let operations = (0..50).map(|id| {
            let name = format!("id-{id}");
            if (id + version).is_multiple_of(5) { delete("a", &name, version) } else { put("a", &name, version, &document(id, version)) }
        });
        write(&old, operations.collect()).await;
    }
    let left = (0..50).filter(|id| !(id + 39_u64).is_multiple_of(5)).map(|id| put("a", &format!("id-{id}"), 39, &document(id, 39)));
    write(&new, left.collect()).await;
    assert_eq!(vocabulary(&old_path), vocabulary(&new_path));
    for text in ["common", "w3", "v39", "v38", "京", "x", "-w3", "id-7"] {
        let found = |local: &Local| {
            let mut hits: Vec<_> =
                local.search(text, None, 100).unwrap().into_iter().map(|hit| (hit.id, hit.score.to_bits(), hit.highlights)).collect();
            hits.sort();
            hits
        };
        assert_eq!(found(&old), found(&new), "{text}");
    }
}

#[tokio::test]
async fn a_search_stays_in_the_index_it_names() {
    let garage = Garage::new().await;
    let ids = |text: &str, index: &str| {
        garage.local.search(text, Some(index), 10).unwrap().into_iter().map(|hit| (hit.index, hit.id)).collect::<Vec<_>>()
    };
    let found = |index: &str, id: &str| (index.to_owned(), id.to_owned());
    assert_eq!(ids("model", "vehicle"), [found("vehicle", "v2")]);
    assert_eq!(ids("model", "pers*"), [found("person", "p2")]);
    assert_eq!(ids("model", "*e*").len(), 2);
    assert_eq!(ids("model", "registration"), []);
    assert_eq!(ids("model", "nowhere"), []);
    assert_eq!(ids("-audi", "vehicle"), [found("vehicle", "v2"), found("vehicle", "v3")]);
    assert_eq!(ids("*", "*son"), [found("person", "p1"), found("person", "p2")]);
}

#[tokio::test]
async fn hits_carry_everything_and_the_best_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let local = Local::open(&folder.path().join("index.db")).unwrap();
    let mut puts = vec![
        put("a", "long", 3, &format!(r#"{{"t":"needle","x":"{}"}}"#, "straw ".repeat(500))),
        put("a", "short", 4, r#"{"t":"needle needle", "n":442.30}"#),
    ];
    puts.extend((0..20).map(|at| put("a", &format!("s{at}"), 1, r#"{"t":"straw"}"#)));
    write(&local, puts).await;
    let hits = local.search("needle", None, 10).unwrap();
    assert_eq!(hits.iter().map(|hit| hit.id.as_str()).collect::<Vec<_>>(), ["short", "long"]);
    assert!(hits[0].score > hits[1].score && hits[1].score > 0.0, "{hits:?}");
    assert_eq!((hits[0].index.as_str(), hits[0].version, hits[0].source.get()), ("a", 4, r#"{"t":"needle needle", "n":442.30}"#));
    assert_eq!(serde_json::to_value(&hits[0]).unwrap()["source"]["t"], "needle needle");
    assert_eq!(local.search("straw", None, 5).unwrap().len(), 5);
    assert_eq!(local.search("straw", None, 0).unwrap().len(), 0);
    assert_eq!(local.search("*", None, usize::MAX).unwrap().len(), 22);
}

#[tokio::test]
async fn highlights_show_what_matched_in_the_values() {
    let garage = Garage::new().await;
    let highlights = |text: &str| garage.hits(text).remove(0).highlights;
    assert_eq!(highlights("zoe"), ["\u{1}Zoë\u{2}", "\u{1}zoe\u{2}.mueller+cars@example.com"]);
    assert_eq!(highlights("1963-08-19 são"), ["\u{1}1963-08-19\u{2}", "\u{1}São\u{2} Paulo"]);
    assert_eq!(highlights("monst* -audi"), ["\u{1}Monster\u{2} 1200"]);
    assert_eq!(highlights("東京 sample"), ["\u{1}Sample\u{2}", "\u{1}東京\u{2}都"]);
    assert_eq!(highlights("8F0TPCmdNQ6JTRpiLj2TmW"), Vec::<String>::new(), "the id is no value");
    assert_eq!(highlights("-audi"), Vec::<String>::new());
}

#[tokio::test]
async fn highlights_hold_no_control_character_of_a_document() {
    let folder = tempfile::tempdir().unwrap();
    let local = Local::open(&folder.path().join("index.db")).unwrap();
    write(&local, vec![put("a", "1", 1, "{\"a\":\"x \\u0001fake\\u0002 \\u001b[31m needle \u{9b}2J \\r\\n\\u0000 y\"}")]).await;
    let hits = local.search("needle", None, 1).unwrap();
    assert_eq!(hits[0].highlights, ["x  fake   [31m \u{1}needle\u{2}  2J     y"]);
}

#[tokio::test]
async fn a_search_of_nothing_says_so() {
    let garage = Garage::new().await;
    for text in ["", "  ", "\"\"", "--", "?!"] {
        let error = garage.local.search(text, None, 10).unwrap_err();
        assert_eq!(error.kind, Kind::Usage);
        assert_eq!(error.what, "expected something to search for, found no letter and no digit");
    }
}

#[tokio::test]
async fn nothing_typed_is_a_syntax_error() {
    let garage = Garage::new().await;
    let words = "w ".repeat(5_000);
    let alternatives = "w OR ".repeat(2_000);
    let without = "-w ".repeat(2_000);
    for text in [
        "'",
        "a\"",
        "a\"b",
        "\"a",
        "(a",
        "a)",
        "a AND",
        "AND AND",
        "NOT",
        "a NOT",
        "OR OR OR",
        "NEAR(a b)",
        "a^b",
        "^a",
        "{a b}:c",
        "text:a",
        "text : a",
        "- a",
        "a:*",
        "a*b*",
        "**",
        "+a",
        "a+b",
        "a\0b",
        "\0",
        "'; DROP TABLE documents; --",
        "%",
        "_",
        "\u{e000}",
        "\u{f8ff}",
        "ª",
        "٣",
        "\u{300}",
        &words,
        &alternatives,
        &without,
    ] {
        for index in [None, Some("vehicle"), Some("'")] {
            match garage.local.search(text, index, 10) {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind, Kind::Usage, "{text}: {error}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn no_text_and_no_document_breaks_a_search(
        texts in prop::collection::vec("[a-c0-1\"*\\-^:(){}+' \\x00\\n]{0,12}|(OR|AND|NOT|NEAR|a|\"a\"|-a|\\*| ){1,6}|\\PC{0,8}|.{0,8}", 20),
        value in "\\PC{0,40}",
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let local = Local::open(Path::new(&folder.path().join("index.db"))).unwrap();
        let document = serde_json::json!({ "value": value, "a": "b c" }).to_string();
        runtime.block_on(write(&local, vec![put("a", "1", 1, &document)]));
        for text in texts {
            match local.search(&text, None, 10) {
                Ok(hits) => prop_assert!(hits.len() <= 1),
                Err(error) => prop_assert_eq!(error.kind, Kind::Usage, "{:?}: {}", text, error),
            }
        }
    }

    #[test]
    fn a_document_is_found_by_any_of_its_words(words in prop::collection::vec("[a-z0-9À-ÖØ-öø-ž]{1,10}", 1..8), at in any::<prop::sample::Index>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let local = Local::open(&folder.path().join("index.db")).unwrap();
        runtime.block_on(write(&local, vec![put("a", "x", 1, &serde_json::json!({ "value": words.join(" ") }).to_string())]));
        let word = &words[at.index(words.len())];
        let hits = local.search(word, None, 10).unwrap();
        prop_assert_eq!(hits.len(), 1, "{}", word);
        prop_assert!(hits[0].highlights[0].contains(&format!("\u{1}{word}\u{2}")), "{:?}", hits[0].highlights);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn searching_works_while_another_connection_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let local = Local::open(&path).unwrap();
    write(&local, vec![put("a", "first", 1, r#"{"w":"word"}"#)]).await;
    let writing = tokio::spawn(async move {
        for request in 0..30 {
            write(&local, (0..20).map(|at| put("a", &format!("{request}-{at}"), 1, r#"{"w":"word"}"#)).collect()).await;
        }
        local.finish().await.unwrap();
    });
    let reader = Local::open_existing(&path).unwrap();
    let mut seen = 0;
    while seen < 601 {
        let found = reader.search("word", None, 1_000).unwrap();
        assert_eq!(found.len() % 20, 1, "a request is seen whole or not at all");
        assert!(found.len() >= seen && found.iter().all(|hit| !hit.highlights.is_empty()));
        seen = found.len();
        if writing.is_finished() && seen < 601 {
            seen = reader.search("word", None, 1_000).unwrap().len();
            assert_eq!(seen, 601);
        }
        tokio::task::yield_now().await;
    }
    writing.await.unwrap();
}
