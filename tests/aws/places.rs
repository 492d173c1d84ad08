//! Dead letters in a file, in queues and in a bucket: what holds for one holds for all.

use std::time::Duration;

use bytes::Bytes;
use revsync::error::{Error, Kind};
use revsync::plan::outcome::Reply;
use revsync::run::choice::Choice;
use revsync::run::deliver::Settings;
use revsync::run::replay::replay;
use revsync::store::dead_letters::{DeadLetter, DeadLetters, Entry};
use serde_json::json;
use tokio::sync::watch;

use crate::aws::emulator;
use crate::letters::{Home, config, credentials, every_kind, letter, queue, shown};
use crate::line::{Bench, deliver};
use crate::qldb_stream::{put, records};
use crate::scripted_sink::poison;

async fn replay_all(bench: &Bench) -> (Result<usize, Error>, revsync::metrics::Counts) {
    let mut line = bench.line();
    let (_never, stop) = watch::channel(false);
    let result = replay(&bench.store, &Choice::default(), None, &mut line, stop, |_| ()).await;
    (result, line.counts())
}

/// A bench with so many letters in a place, of documents that the sink would take now.
async fn refused(home: &Home, ids: &[String]) -> Bench {
    let mut bench = Bench::storing(home.open().await);
    // However many there are.
    bench.settings.breaker = None;
    bench.sink.rule(|rules| rules.refuses = |_| Some(poison()));
    let records = records(ids.iter().map(|id| ("Person", id.as_str(), 0, put(id))));
    deliver(&mut bench.line(), &records).await.unwrap();
    bench.sink.rule(|rules| rules.refuses = |_| None);
    bench
}

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

#[tokio::test]
async fn a_letter_reads_back_as_it_was_whatever_its_record_is() {
    let odd = "\u{0}\u{1b}[2J\r\n\t\u{7f}\u{fffd}\u{fffe}\u{ffff}\u{10ffff}\"\\<&>]]>";
    let mut letters: Vec<DeadLetter> = [
        Bytes::from_static(b"\xe0\x01\x00\xea\xd3\x84\x21\x01"),
        Bytes::from_static(b"{\"a\": {\"b\": [1, 2.50]}}"),
        Bytes::from_static(b"\"text\""),
        Bytes::from_static(b"null"),
        Bytes::new(),
        Bytes::from((0..=255).collect::<Vec<u8>>()),
        Bytes::from(odd),
    ]
    .into_iter()
    .zip(0..)
    .map(|(payload, number)| letter(number, payload))
    .collect();
    letters[6].document_id = Some(odd.to_owned());
    letters[6].error.reason = odd.to_owned();
    letters[6].first_time = Some("2024-05-06T07:08:08Z".to_owned());
    for home in every_kind() {
        let store = home.open().await;
        store.append(&letters).await.unwrap();
        assert_eq!(shown(&store).await, (letters.clone(), vec![]), "{}", home.kind);
        assert_eq!(shown(&store).await.0.len(), letters.len(), "{}: a walk lets go what it has shown", home.kind);
    }
}

#[tokio::test]
async fn opening_a_place_leaves_nothing_there() {
    for home in every_kind() {
        assert_eq!((shown(&home.open().await).await, home.copies()), ((vec![], vec![]), 0), "{}", home.kind);
    }
}

#[tokio::test]
async fn a_letter_that_is_stored_again_is_shown_once_as_it_was_last() {
    for home in every_kind() {
        let store = home.open().await;
        for (time, reason) in [("2024-05-06T07:08:09Z", "first"), ("2024-05-06T07:08:09.5Z", "second")] {
            let mut letter = DeadLetter { time: time.to_owned(), ..letter(1, "x") };
            letter.error.reason = reason.to_owned();
            store.append(&[letter]).await.unwrap();
        }
        let (letters, _) = shown(&store).await;
        assert_eq!(letters.iter().map(|letter| letter.error.reason.as_str()).collect::<Vec<_>>(), ["second"], "{}", home.kind);
    }
}

#[tokio::test]
async fn a_replay_takes_out_what_settled_and_what_is_refused_again_stays_once_with_its_newest_reason() {
    for home in every_kind() {
        let bench = refused(&home, &ids(3)).await;
        let before = shown(&bench.store).await.0;
        bench.sink.rule(|rules| {
            rules.refuses =
                |operation| (operation.target().id == "1").then(|| Reply::error(400, "strict_dynamic_mapping_exception", "no such field"));
        });
        for _ in 0..2 {
            let (result, counts) = replay_all(&bench).await;
            assert!(result.is_ok(), "{}: {result:?}", home.kind);
            assert_eq!(counts.dead_letters, 1, "{}", home.kind);
            let (letters, _) = shown(&bench.store).await;
            assert_eq!((letters.len(), home.copies()), (1, 1), "{}", home.kind);
            assert_eq!(
                (letters[0].id.as_str(), letters[0].error.kind.as_str()),
                (before[1].id.as_str(), "strict_dynamic_mapping_exception")
            );
            assert_eq!(letters[0].first_time.as_deref(), Some(before[1].time.as_str()), "{}", home.kind);
        }
        assert_eq!(bench.sink.documents().len(), 2, "{}", home.kind);
    }
}

#[tokio::test]
async fn a_replay_goes_through_more_letters_than_it_holds_at_once() {
    const LETTERS: usize = 520;
    for home in every_kind() {
        let bench = refused(&home, &ids(LETTERS)).await;
        assert_eq!(home.copies(), LETTERS, "{}", home.kind);
        let (result, counts) = replay_all(&bench).await;
        assert_eq!((result, counts.indexed), (Ok(LETTERS), LETTERS as u64), "{}", home.kind);
        assert_eq!((home.copies(), bench.sink.documents().len()), (0, LETTERS), "{}", home.kind);
    }
}

#[tokio::test]
async fn what_is_no_letter_is_named_without_its_content_and_left_alone() {
    for home in every_kind() {
        let bench = refused(&home, &ids(1)).await;
        let damage = home.damage();
        let (letters, damaged) = shown(&bench.store).await;
        assert_eq!((letters.len(), damaged.len()), (1, damage), "{}: {damaged:?}", home.kind);
        assert!(!damaged.concat().contains("hunter2"), "{damaged:?}");
        assert_eq!(replay_all(&bench).await.0, Ok(1), "{}", home.kind);
        let (letters, left) = shown(&bench.store).await;
        assert_eq!((letters.len(), left.len()), (0, damage), "{}: {left:?}", home.kind);
    }
}

#[tokio::test]
async fn a_copy_that_a_queue_holds_of_a_settled_letter_goes_too() {
    for home in every_kind() {
        let bench = refused(&home, &ids(1)).await;
        // As after an answer that was lost: stored, and stored again.
        let (letters, _) = shown(&bench.store).await;
        let later = DeadLetter { time: "2099-01-01T00:00:00Z".to_owned(), ..letters[0].clone() };
        bench.store.append(&[later]).await.unwrap();
        assert_eq!(replay_all(&bench).await.0, Ok(1), "{}", home.kind);
        assert_eq!(home.copies(), 0, "{}", home.kind);
    }
}

#[tokio::test]
async fn letters_that_are_larger_than_a_message_are_in_the_bucket_and_come_back_whole() {
    let Some(emulator) = emulator() else { return };
    for attributes in [json!({ "MaximumMessageSize": "16384" }), json!({ "MaximumMessageSize": "16384", "FifoQueue": "true" })] {
        let home = queue(emulator, attributes);
        let large = home.config.large.clone().unwrap();
        let bench = Bench::storing(home.open().await);
        bench.sink.rule(|rules| rules.refuses = |_| Some(poison()));
        let text = "x".repeat(3 * 1024 * 1024);
        let people =
            records([("Person", "small", 0, put("x")), ("Person", "large", 0, put(&text)), ("Person", "middle", 0, put(&text[..20_000]))]);
        deliver(&mut bench.line(), &people).await.unwrap();
        let keys = emulator.keys(&large.name);
        assert_eq!((keys.len(), home.copies()), (2, 3));
        assert!(keys.iter().all(|key| key.starts_with("large/of a queue/") && key.ends_with(".json")), "{keys:?}");
        let (letters, _) = shown(&bench.store).await;
        assert_eq!(
            letters.iter().map(|letter| letter.payload.len()).collect::<Vec<_>>(),
            people.iter().map(|record| record.data.len()).collect::<Vec<_>>()
        );
        // Refused again, it is stored anew, and nothing of it is left over.
        bench.sink.rule(|rules| rules.refuses = |operation| (operation.target().id == "large").then(poison));
        assert_eq!(replay_all(&bench).await.0, Ok(2));
        let again = emulator.keys(&large.name);
        assert_eq!((again.len(), home.copies()), (1, 1));
        assert!(!keys.contains(&again[0]), "each message owns its object");
        bench.sink.rule(|rules| rules.refuses = |_| None);
        assert_eq!(replay_all(&bench).await.0, Ok(1));
        assert_eq!((emulator.keys(&large.name).len(), home.copies(), bench.sink.documents().len()), (0, 0, 3));
    }
}

#[tokio::test]
async fn a_letter_of_which_even_the_names_are_too_large_for_a_message_is_stored_all_the_same() {
    let Some(emulator) = emulator() else { return };
    let home = queue(emulator, json!({ "MaximumMessageSize": "16384" }));
    let store = home.open().await;
    let mut wide = letter(1, "x");
    wide.table = Some("T".repeat(100_000));
    wide.error.reason = "r".repeat(100_000);
    store.append(std::slice::from_ref(&wide)).await.unwrap();
    assert_eq!(shown(&store).await, (vec![wide], vec![]));
}

#[tokio::test]
async fn a_message_that_points_elsewhere_is_neither_followed_nor_does_it_delete_anything() {
    let Some(emulator) = emulator() else { return };
    let home = queue(emulator, json!({}));
    let bench = Bench::storing(home.open().await);
    let other = emulator.bucket(&emulator.name("other"));
    emulator.put(&other, "x.json", &serde_json::to_vec(&letter(1, "x")).unwrap());
    let mut pointer = serde_json::to_value(letter(1, "")).unwrap();
    pointer["large"] = json!({ "bucket": other, "key": "x.json", "bytes": 1 });
    let revsync::store::dead_letters::Place::Queue(at) = &home.config.place else { panic!() };
    emulator.send(&at.name, &pointer.to_string());
    let (result, counts) = replay_all(&bench).await;
    let error = result.unwrap_err();
    assert!(error.kind == Kind::DeadLetters && error.what.contains("not under --dead-letters-large"), "{error}");
    assert_eq!((counts.received, home.copies(), emulator.keys(&other).len()), (0, 1, 1));
}

#[tokio::test]
async fn a_letter_whose_object_is_gone_stays_and_the_others_are_replayed() {
    let Some(emulator) = emulator() else { return };
    let home = queue(emulator, json!({ "MaximumMessageSize": "16384" }));
    let bench = Bench::storing(home.open().await);
    bench.sink.rule(|rules| rules.refuses = |_| Some(poison()));
    let people = records([("Person", "large", 0, put(&"x".repeat(20_000))), ("Person", "small", 0, put("x"))]);
    deliver(&mut bench.line(), &people).await.unwrap();
    bench.sink.rule(|rules| rules.refuses = |_| None);
    let large = home.config.large.clone().unwrap();
    let key = emulator.keys(&large.name).remove(0).replace(' ', "%20");
    assert_eq!(emulator.request("DELETE", &format!("/{}/{key}", large.name), &[], b"").0, 204);
    let (result, counts) = replay_all(&bench).await;
    assert!(result.unwrap_err().what.contains("is not there any more"));
    assert_eq!((counts.indexed, home.copies()), (1, 1));
}

#[tokio::test]
async fn a_walk_that_looks_at_some_lets_them_go() {
    for home in every_kind() {
        let store = home.open().await;
        store.append(&(0..30).map(|number| letter(number, "x")).collect::<Vec<_>>()).await.unwrap();
        let mut walk = store.walk().await.unwrap();
        let some = walk.next(5).await.unwrap().unwrap();
        assert_eq!(some.len(), 5, "{}", home.kind);
        assert!(some.iter().all(|entry| matches!(entry, Entry::Letter(_))));
        walk.end().await.unwrap();
        assert_eq!(shown(&store).await.0.len(), 30, "{}", home.kind);
    }
}

#[tokio::test]
async fn a_sink_that_is_down_leaves_the_letters_where_they_are_and_lets_them_go() {
    for home in every_kind() {
        let mut bench = refused(&home, &ids(3)).await;
        bench.settings = Settings { give_up_after: Some(Duration::from_millis(300)), ..Settings::default() };
        bench.sink.rule(|rules| rules.down = Some(crate::scripted_sink::down("gone")));
        let (result, counts) = replay_all(&bench).await;
        assert_eq!((result.map_err(|error| error.kind), counts.pending), (Err(Kind::Pending), 3), "{}", home.kind);
        assert_eq!((home.copies(), shown(&bench.store).await.0.len()), (3, 3), "{}", home.kind);
    }
}

#[tokio::test]
async fn a_place_that_is_not_there_is_found_at_the_start() {
    let Some(emulator) = emulator() else { return };
    let large = emulator.bucket_place(&emulator.bucket(&emulator.name("large")));
    let there = emulator.queue_place(&emulator.queue(&emulator.name("letters"), json!({})));
    let small = emulator.queue_place(&emulator.queue(&emulator.name("letters"), json!({ "MaximumMessageSize": "1024" })));
    let nowhere = |place: &str| place.replace("letters", "nowhere").replace("large", "nowhere");
    for (place, large, expected) in [
        (there.as_str(), None, "no place for those is named"),
        (&nowhere(&there), Some(large.as_str()), "cannot be reached"),
        (&there, Some(&nowhere(&large)), "cannot be written"),
        (&small, Some(&large), "at least 16384 bytes, found 1024"),
        (&nowhere(&large), None, "cannot be written"),
    ] {
        let error = DeadLetters::open_with(&config(place, large), credentials()).await.unwrap_err();
        assert!(error.what.contains(expected), "{place}: {error}");
    }
}
