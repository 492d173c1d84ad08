//! Revisions on the real stream, documents in the real OpenSearch, and poison in the real queue.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::machine::{Machine, Stack, machine, wait_for};
use crate::qldb_stream::{Does, aggregate, binary, revision};

const TABLE: &str = "EndToEnd";
const INDEX: &str = "end_to_end";

/// A revision of a document: what the stream says of it.
type Change = (&'static str, u64, Option<Value>);

fn record((id, version, data): &Change) -> Bytes {
    let does = data.as_ref().map_or(Does::Delete, |data| {
        let fields = data.as_object().unwrap().iter().map(|(name, value)| format!("{name}:{value}"));
        Does::Put(format!("{{{}}}", fields.collect::<Vec<_>>().join(",")))
    });
    binary(&[revision(TABLE, id, *version, &does)])
}

/// What an index must show: of each document its highest version, unless that is a delete.
fn fold(changes: &[Change]) -> BTreeMap<String, (u64, Value)> {
    let mut newest: BTreeMap<&str, (u64, &Option<Value>)> = BTreeMap::new();
    for (id, version, data) in changes {
        let before = newest.entry(id).or_insert((*version, data));
        if *version > before.0 {
            *before = (*version, data);
        }
    }
    newest.into_iter().filter_map(|(id, (version, data))| Some((id.to_owned(), (version, data.clone()?)))).collect()
}

/// Puts the changes as one aggregate, and waits until the last of them is found.
fn put_and_see(machine: &Machine, stack: &Stack, changes: &[Change], more: &[Bytes]) {
    let aggregated = aggregate(&changes.iter().map(record).collect::<Vec<_>>());
    machine.put(stack.output("StreamName"), &[more, &[aggregated]].concat());
    let (last, version, _) = changes.last().unwrap();
    wait_for("the last document", || machine.documents(INDEX).get(*last).filter(|(found, _)| found == version).map(|_| ()));
}

#[test]
fn documents_come_to_their_newest_revision_and_poison_to_the_dead_letters_and_back() {
    let Some(machine) = machine() else { return };
    let stack = Stack::of(&machine.said);
    // The indices are created as the stack says, because the function may not.
    let setup = stack.output("Step1CreateIndices").replace("vehicle_registration", INDEX);
    machine.revsync(&setup).ended_well();
    let number = json!({ "properties": { "Price": { "type": "long" } } });
    assert_eq!(machine.ask("PUT", &format!("/{INDEX}/_mapping"), &number).0, 200);

    let put = |price: u64| Some(json!({ "Price": price }));
    let first: &[Change] =
        &[("updated", 0, put(1)), ("deleted", 0, put(2)), ("twice", 0, put(3)), ("late", 1, put(4)), ("seen-1", 0, put(5))];
    let second: &[Change] = &[
        ("updated", 1, put(6)),
        ("deleted", 1, None),
        ("twice", 0, put(3)),
        ("late", 0, put(7)),
        ("updated", 2, put(8)),
        ("absent", 0, None),
        ("seen-2", 0, put(9)),
    ];
    let third: &[Change] =
        &[("deleted", 0, put(2)), ("updated", 1, put(6)), ("returned", 1, None), ("returned", 2, put(10)), ("seen-3", 0, put(11))];
    let refused: Change = ("refused", 0, Some(json!({ "Price": "dear" })));
    let large: Change = ("large", 0, Some(json!({ "Price": "dear", "Text": "x".repeat(900_000) })));
    let broken = Bytes::from_static(b"\xe0\x01\x00\xeano Ion");

    put_and_see(machine, &stack, first, &[aggregate(&[record(&refused), broken.clone()])]);
    put_and_see(machine, &stack, second, &[record(&large)]);
    put_and_see(machine, &stack, third, &[]);
    // All of it once more: nothing changes.
    let all = [first, second, third].concat();
    put_and_see(machine, &stack, &[&all[..], &[("seen-4", 0, put(12))]].concat(), &[]);
    let expected = fold(&[&all[..], &[("seen-4", 0, put(12))]].concat());
    assert_eq!(machine.documents(INDEX), expected);
    let (_, tombstone) = machine.ask("GET", &format!("/{INDEX}/_doc/deleted"), &Value::Null);
    assert_eq!((&tombstone["_version"], &tombstone["_source"]["revsync"]["deleted"]), (&json!(1), &json!(true)), "{tombstone}");

    let letters: Vec<Value> = machine.emulator.messages(stack.queue()).iter().map(|letter| serde_json::from_str(letter).unwrap()).collect();
    let payload = |letter: &Value| Bytes::from(STANDARD.decode(letter["payload"].as_str().unwrap()).unwrap());
    let of = |id: Value| {
        let found: Vec<&Value> = letters.iter().filter(|letter| letter["document_id"] == id).collect();
        assert_eq!(found.len(), 1, "{id}: exactly one");
        found[0]
    };
    assert_eq!(letters.len(), 3);
    assert_eq!(payload(of(Value::Null)), broken);
    assert_eq!(payload(of("refused".into())), record(&refused));
    let elsewhere = &of("large".into())["large"];
    assert_eq!(elsewhere["bucket"], stack.output("LargeDeadLettersBucket"));
    let object = machine.emulator.get(stack.output("LargeDeadLettersBucket"), elsewhere["key"].as_str().unwrap()).unwrap();
    assert_eq!(payload(&serde_json::from_slice(&object).unwrap()), record(&large));

    // The cause is mended, and what was refused for it is sent again, by the command that the stack prints.
    let listed = stack.output("DeadLettersCommand");
    let list = machine.revsync(listed);
    assert!(list.exit == 0 && list.out.contains("3 dead letters"), "{list:?}");
    let mended = json!({ "properties": { "Price": { "type": "long", "ignore_malformed": true } } });
    assert_eq!(machine.ask("PUT", &format!("/{INDEX}/_mapping"), &mended).0, 200);
    let replay = listed.replace("dead-letters list", "--json --config infra/revsync.toml dead-letters replay");
    let replayed = machine.revsync(&replay);
    assert_eq!((&replayed.json()["indexed"], &replayed.json()["dead_letters"], replayed.exit), (&json!(2), &json!(1), 1), "{replayed:?}");
    let found = machine.documents(INDEX);
    assert_eq!(
        (found.len(), &found["refused"].1, &found["large"].1),
        (expected.len() + 2, refused.2.as_ref().unwrap(), large.2.as_ref().unwrap())
    );
    assert_eq!(machine.emulator.messages(stack.queue()).len(), 1, "what no mapping mends stays");
    assert_eq!(machine.emulator.keys(stack.output("LargeDeadLettersBucket")), [] as [&str; 0]);
}
