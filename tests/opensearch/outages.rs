//! The whole line into real servers that are not well: an index that is red, a node that dies in the middle.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use opensearch::http::Method;
use revsync::codec::Decoder;
use revsync::plan::mapping::{Deletes, Mapping, Rule};
use revsync::run::deliver::{Deliver, Settings};
use revsync::sink::opensearch::{Config, OpenSearch};
use revsync::store::dead_letters::DeadLetters;
use serde_json::json;
use tempfile::TempDir;

use crate::dice::Dice;
use crate::live::{ask, name, put_to};
use crate::operations::config;
use crate::qldb_stream::{Does, put, records};
use crate::relay::Relay;
use crate::services;

/// A line with a rule for each of two tables, and the folder of its letters.
async fn line(config: &Config, indices: [&str; 2]) -> (Deliver, TempDir) {
    let rule = |(table, index): (&str, &str)| Rule {
        name: table.to_owned(),
        index: Some(index.to_owned()),
        deletes: Deletes::Tombstone,
        ..Rule::default()
    };
    let rules: Vec<Rule> = ["Person", "Place"].into_iter().zip(indices).map(rule).collect();
    let mapping = || Mapping::new(rules.clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let letters = Arc::new(DeadLetters::in_file(&folder.path().join("letters.jsonl")).unwrap());
    let sink = Arc::new(OpenSearch::connect(config).await.unwrap().with_deletes(mapping().deletes()));
    let settings = Settings { request_operations: 500, ..Settings::default() };
    (Deliver::new(Decoder::default(), mapping(), sink, letters, settings), folder)
}

#[tokio::test]
async fn a_red_index_costs_no_other_its_answers_and_gets_everything_once_it_is_green() {
    for server in services::opensearch() {
        let (red, green) = (name("red"), name("green"));
        let nowhere = json!({"settings": {"index.routing.allocation.require._name": "nobody", "index.number_of_replicas": 0}});
        put_to(server, &format!("{red}?wait_for_active_shards=0&timeout=1s"), nowhere).await;
        // The server waits for the shard for a third of this, and answers for all the others then.
        let config = Config { request_timeout: Duration::from_secs(3), ..config(&server.url) };
        let (mut line, _folder) = line(&config, [&red, &green]).await;
        let ids: Vec<String> = (0..30).map(|number| number.to_string()).collect();
        let both = ids.iter().flat_map(|id| [("Person", id.as_str(), 0, put(id)), ("Place", id.as_str(), 0, put(id))]);
        for record in &records(both) {
            line.push(record).await.unwrap();
        }
        let waiting = tokio::time::timeout(Duration::from_secs(60), async {
            while line.counts().indexed < 30 || line.blocked().count() == 0 {
                line.tend().await.unwrap();
            }
        });
        waiting.await.unwrap_or_else(|_| panic!("{}: the green index waits for the red one: {:?}", server.name, line.counts()));
        assert_eq!((line.counts().indexed, line.counts().pending, line.counts().dead_letters), (30, 30, 0), "{}", server.name);
        let blocked: Vec<(&str, &str)> = line.blocked().map(|(index, _, why)| (index, why.kind.as_str())).collect();
        assert_eq!(blocked, [(red.as_str(), "unavailable_shards_exception")], "{}", server.name);

        let anywhere = json!({"index.routing.allocation.require._name": null});
        put_to(server, &format!("{red}/_settings"), anywhere).await;
        line.finish().await.unwrap();
        assert_eq!((line.counts().indexed, line.counts().pending), (60, 0), "{}", server.name);
        assert_eq!(line.blocked().count(), 0);
    }
}

#[tokio::test]
async fn a_node_that_dies_twice_in_the_middle_costs_nothing() {
    let long = std::env::var("REVSYNC_TEST_LONG").is_ok_and(|value| !matches!(value.as_str(), "" | "0"));
    let (documents, revisions) = if long { (20_000, 400_000) } else { (500, 6_000) };
    for mut node in services::nodes() {
        let mut dice = Dice::new(revisions as u64);
        let ids: Vec<String> = (0..documents).map(|number| format!("document-{number}")).collect();
        let (mut next, mut fold) = (vec![0u64; documents], BTreeMap::new());
        let mut stream: Vec<(usize, u64, bool)> = (0..revisions)
            .map(|_| {
                let (at, deleted) = (dice.below(documents), dice.percent(20));
                let version = next[at];
                next[at] += 1;
                fold.insert(at, (version, deleted));
                (at, version, deleted)
            })
            .collect();
        // Late, twice and out of order.
        let again: Vec<_> = (0..revisions / 10).map(|_| *dice.pick(&stream)).collect();
        stream.extend(again);
        dice.shuffle(&mut stream);

        let relay = Relay::default();
        let config = config(&relay.listen().await);
        let server = node.start();
        relay.to(&server.url);
        let (mut line, _folder) = line(&config, ["person", "place"]).await;
        for (number, chunk) in stream.chunks(stream.len() / 10 + 1).enumerate() {
            let of = |(at, version, deleted): &(usize, u64, bool)| {
                let does = if *deleted { Does::Delete } else { put("some text") };
                (if at % 2 == 0 { "Person" } else { "Place" }, ids[*at].as_str(), *version, does)
            };
            for record in &records(chunk.iter().map(of)) {
                line.push(record).await.unwrap();
            }
            if number == 3 || number == 7 {
                // What is under way dies with it.
                line.flush().await.unwrap();
                node.crash();
                relay.to_nowhere();
                let _ = tokio::time::timeout(Duration::from_millis(300), line.tend()).await;
                relay.to(&node.start().url);
            }
        }
        line.finish().await.unwrap();
        let counts = line.counts();
        assert!(counts.balanced(), "{counts:?}");
        assert_eq!((counts.received, counts.pending, counts.dead_letters), (stream.len() as u64, 0, 0), "{}", server.name);

        let url = services::Server { name: server.name.clone(), url: config.url.to_string() };
        let mut wrong = Vec::new();
        for some in fold.iter().collect::<Vec<_>>().chunks(1_000) {
            let wanted =
                |(at, _): &(&usize, &(u64, bool))| json!({"_index": if *at % 2 == 0 { "person" } else { "place" }, "_id": ids[**at]});
            let (_, answer) = ask(&url, Method::Post, "_mget", json!({"docs": some.iter().map(wanted).collect::<Vec<_>>()})).await;
            for ((at, (version, deleted)), found) in some.iter().zip(answer["docs"].as_array().unwrap()) {
                let is = (found["_version"].as_u64(), found["_source"]["revsync"]["deleted"] == true);
                if is != (Some(*version), *deleted) {
                    wrong.push(format!("{} is {is:?}, expected version {version}, deleted: {deleted}", ids[**at]));
                }
            }
        }
        assert_eq!(wrong, [] as [String; 0], "{}", server.name);
        node.stop();
    }
}
